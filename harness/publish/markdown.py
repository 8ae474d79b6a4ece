"""matrix.md: the matrix as GitHub shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.lock import fallen_behind
from harness.model import SHOWN, Role
from harness.publish.grid import Grid, grid
from harness.publish.published import lacks_device
from harness.publish.text import code, markdown

if TYPE_CHECKING:
    from harness.publish.published import Table


def as_markdown(table: Table) -> str:
    """The matrix as GitHub shows it: stacks, who trains, and who is told about a misuse."""
    parts = ["# Which stacks train?", "", legend(), "", "## Stacks", "", stacks_table(table), ""]
    for device in dict.fromkeys(row.device for row in table.rows):
        rows = table.of_device(device)
        if lacks_device(rows):
            parts += [f"No cell was judged on {code(device)}: {markdown(rows[0].message)}.", ""]
            continue
        misuse = [row for row in rows if row.role is Role.MISUSE]
        others = [row for row in rows if row.role is not Role.MISUSE]
        for title, section in (("Does it train?", others), ("Does the stack tell you?", misuse)):
            if section:
                cells = markdown_table(grid(section, table.scenarios, table.stacks))
                parts += [f"## {title} ({markdown(device)})", "", cells, ""]
    return "\n".join(parts)


def legend() -> str:
    """How to read the tables."""
    return (
        "Each cell is a real run of a training script in a real environment. ✓ trains: every parameter that "
        "should learn got a finite, non-zero gradient and changed, and the loss stayed finite; with optimizer steps "
        "per second (median). ✗ `phase:reason`: where it stopped being one that trains; `relation:disagrees`: it "
        "trains, but with other losses or gradients than a variant that does the same maths. – not judged: the stack "
        "has no such feature, or the machine no such device. A misuse cannot train; there ✓ means that the stack says "
        "so. What was said or seen of each cell, and why it does not train, is in `matrix.json`."
    )


def stacks_table(table: Table) -> str:
    """Name, date and the versions that matter; ⚠ where the resolver silently took an old release."""
    lines = ["| stack | as of | Python | " + " | ".join(SHOWN) + " |", "| --- " * (3 + len(SHOWN)) + "|"]
    for lock in table.locks:
        behind = {p.name: p for p in fallen_behind(lock, SHOWN)}
        cells = [lock.stack, f"{lock.as_of}", lock.python]
        for name in SHOWN:
            package = behind.get(name)
            mark = f" ⚠ {package.behind_days} days behind {package.newest}" if package else ""
            cells.append((lock.version(name) or "–") + mark)
        lines.append("| " + " | ".join(markdown(cell) for cell in cells) + " |")
        if lock.failure is not None:
            lines[-1] = f"| {lock.stack} | {lock.as_of} | {lock.python} | {markdown(lock.failure.outcome)} |"
    return "\n".join(lines)


def markdown_table(cells_in_words: Grid) -> str:
    """A grid as Markdown; a scenario's name is written once."""
    stacks = cells_in_words.stacks
    lines = ["| scenario | variant | " + " | ".join(stacks) + " |", "| --- " * (2 + len(stacks)) + "|"]
    last = ""
    for scenario, variant, cells in cells_in_words.rows:
        first = f"**{scenario}**" if scenario != last else ""
        last = scenario
        lines.append("| " + " | ".join([first, f"`{variant}`", *(markdown(cell) for cell in cells)]) + " |")
    return "\n".join(lines)
