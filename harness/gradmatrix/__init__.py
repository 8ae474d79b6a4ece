"""Which training stacks really train? A reproducible matrix of PyTorch, Lightning, Transformers, TRL and PEFT."""

__version__ = "0.1.0"
