"""Whether torch.compile is reading the code that runs."""

from __future__ import annotations

from typing import Any, Callable


def is_compiling(torch: Any) -> Callable[[], bool]:
    """The function of this release of torch that tells: in 2.0 to 2.2 it is dynamo's own."""
    found: Any = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    if found is None:
        from torch._dynamo import is_compiling as dynamos

        found = dynamos
    return lambda: bool(found())
