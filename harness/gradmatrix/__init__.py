"""Which training stacks really train? A reproducible matrix of PyTorch and its libraries."""

__version__ = "0.1.0"
