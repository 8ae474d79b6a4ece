"""The headline table of README: a line per stack, and what became of the variants that people reported."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from harness.disk import write_atomically
from harness.model import Role

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from harness.model import Record
    from harness.publish.published import Published

BEGIN, END = "<!-- headline: written by gradmatrix table -->", "<!-- end of headline -->"


def write_headline(published: Published, readme: Path) -> None:
    """Replace what stands between the two marks in ``readme``; a file without them is left alone."""
    if not readme.exists():
        return
    text = readme.read_text(encoding="utf-8")
    pattern = re.compile(re.escape(BEGIN) + r".*?" + re.escape(END), re.DOTALL)
    block = f"{BEGIN}\n\n{headline(published)}\n\n{END}"
    write_atomically(readme, pattern.sub(lambda _: block, text).encode())


def headline(published: Published) -> str:
    """Stacks by date against scenarios; each cell counts the reported variants that train on CPU."""
    reported = Role.REPORTED
    names = [s.name for s in published.scenarios.values() if any(v.role is reported for v in s.variants)]
    lines = ["| stack | as of | " + " | ".join(f"`{name}`" for name in names) + " |", "| --- " * (2 + len(names)) + "|"]
    records = [r for r in published.of_device("cpu") if r.role is reported]
    for lock in published.locks:
        mine = [record for record in records if record.cell.stack == lock.stack]
        cells = [summary([r for r in mine if r.cell.scenario == name]) for name in names]
        lines.append(f"| {lock.stack} | {lock.as_of} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def summary(records: Sequence[Record]) -> str:
    """How many of the judged variants train, and how the others fail."""
    judged = [record for record in records if record.passed is not None]
    if not judged:
        return "– unsupported" if records else "not run"
    red = Counter(record.outcome for record in judged if not record.passed)
    if not red:
        return f"✓ {len(judged)} of {len(judged)}"
    how = ", ".join(f"{outcome} × {count}" if count > 1 else outcome for outcome, count in red.most_common())
    return f"✗ {len(judged) - red.total()} of {len(judged)}: {how}"
