"""The headline table of README: a line per stack, and what became of the variants that people reported."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from harness.model import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.publish.published import Table
    from harness.publish.rows import Row


def headline(table: Table) -> str:
    """Stacks by date against scenarios; each cell counts the reported variants that train on CPU."""
    reported = Role.REPORTED
    names = [s.name for s in table.scenarios.values() if any(v.role is reported for v in s.variants)]
    lines = ["| stack | as of | " + " | ".join(f"`{name}`" for name in names) + " |", "| --- " * (2 + len(names)) + "|"]
    rows: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in table.of_device("cpu"):
        if row.role is reported:
            rows[row.stack, row.scenario].append(row)
    for lock in table.locks:
        cells = [summary(rows[lock.stack, name]) for name in names]
        lines.append(f"| {lock.stack} | {lock.as_of} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def summary(rows: Sequence[Row]) -> str:
    """How many of the judged variants train, and how the others fail."""
    judged = [row for row in rows if row.passed is not None]
    if not judged:
        return "– unsupported" if rows else "not run"
    red = Counter(row.outcome for row in judged if not row.passed)
    if not red:
        return f"✓ {len(judged)} of {len(judged)}"
    how = ", ".join(f"{outcome} × {count}" if count > 1 else outcome for outcome, count in red.most_common())
    return f"✗ {len(judged) - red.total()} of {len(judged)}: {how}"
