"""Which training stacks really train? A reproducible matrix of PyTorch, Lightning, Transformers, TRL and PEFT."""
