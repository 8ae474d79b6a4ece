"""Which training stacks really train? A reproducible matrix of PyTorch and its libraries."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:  # noqa: ANN401  (what is imported when it is first asked for)
    if name != "watch":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415  (the command line does not wait for it)

    found = globals()[name] = import_module("gradmatrix.watching").watch
    return found
