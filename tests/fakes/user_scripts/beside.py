"""A module in the script's own folder. It knows whether it was imported in the wrong process."""

# ruff: noqa: INP001  (a user's own)

import sys

WIDTH = 4

if not getattr(sys.modules["__main__"], "__file__", "").endswith("plain.py"):
    raise RuntimeError("only the script beside it may import this")
