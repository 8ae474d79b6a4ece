"""The blocks of README that are written from the records: what stands between two marks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.disk import write_atomically

if TYPE_CHECKING:
    from pathlib import Path


def write_block(readme: Path, name: str, content: str) -> None:
    """Replace what stands between the marks of block ``name``; a file without them is left alone."""
    if not readme.exists():
        return
    text = readme.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}: written by gradmatrix, do not edit -->", f"<!-- end of {name} -->"
    pattern = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
    write_atomically(readme, pattern.sub(lambda _: f"{begin}\n\n{content}\n\n{end}", text).encode())
