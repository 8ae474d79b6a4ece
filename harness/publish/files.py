"""Write ``results/``: matrix.json, matrix.csv and matrix.md from the newest record of every cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from harness.diagnosis import diagnose
from harness.disk import write_atomically
from harness.lock import fallen_behind
from harness.model import Role
from harness.observation import SCHEMA
from harness.publish.frame import frame
from harness.publish.grid import Grid, grid, steps_per_s
from harness.publish.published import SHOWN, Published, lacks_device
from harness.publish.text import markdown, spreadsheet
from harness.remedy import explained, remedy_on_its_stack

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from harness.model import Lock, Record


def write_all(published: Published, folder: Path) -> None:
    """Write the three files of the matrix, each in one step."""
    write_atomically(folder / "matrix.json", as_json(published))
    write_atomically(folder / "matrix.csv", as_csv(published))
    write_atomically(folder / "matrix.md", as_markdown(published).encode())


def as_json(published: Published) -> bytes:
    """The matrix as ``{"schema", "stacks", "cells"}``."""
    table = frame(published.records, published.scenarios, published.stacks)
    by_cell = {(r.cell.stack, r.cell.scenario, r.cell.variant, r.cell.device): r for r in published.records}
    keys = zip(table["stack"], table["scenario"], table["variant"], table["device"], strict=True)
    message = {
        "schema": SCHEMA,
        "stacks": [stack_entry(lock, published.records) for lock in published.locks],
        "cells": [cell_entry(by_cell[key], published) for key in keys],
    }
    return msgspec.json.format(msgspec.json.encode(message), indent=1) + b"\n"


def stack_entry(lock: Lock, records: Iterable[Record]) -> dict[str, Any]:
    """One stack of matrix.json; ``build`` is null where no cell of it ran."""
    builds = [(r.recorded_at, r.build) for r in records if r.cell.stack == lock.stack and r.build]
    return {
        "name": lock.stack,
        "python": lock.python,
        "as_of": lock.as_of,
        "packages": {package.name: package.version for package in lock.packages},
        "build": max(builds)[1] if builds else None,
        "fallen_behind": {p.name: p.behind_days for p in fallen_behind(lock, SHOWN)},
    }


def cell_entry(record: Record, published: Published) -> dict[str, Any]:
    """One cell of matrix.json."""
    return {
        "stack": record.cell.stack,
        "scenario": record.cell.scenario,
        "variant": record.cell.variant,
        "role": record.role,
        "device": record.cell.device,
        "outcome": record.outcome,
        "passed": record.passed,
        "gradient": record.gradient,
        "steps_per_s": steps_per_s(record),
        "peak_memory_bytes": record.observation.peak_memory_bytes if record.observation else None,
        "message": record.message,
        "diagnosis": diagnosis_entry(record, published),
    }


def diagnosis_entry(record: Record, published: Published) -> dict[str, Any] | None:
    """Why a cell does not train, with what was seen to work on its stack; null where that cannot be said."""
    found = diagnose(record.observation) if record.observation is not None else None
    if found is None:
        return None
    remedy = remedy_on_its_stack(found.cause, published.scenarios, published.records, record.cell)
    return {
        "cause": found.cause,
        "module": found.module,
        "place": found.place,
        "text": explained(found, remedy),
        "remedy": remedy and f"{remedy.cell.scenario}/{remedy.cell.variant}",
    }


def as_csv(published: Published) -> bytes:
    """One row per cell; text that a spreadsheet would take for a formula gets an apostrophe in front."""
    table = frame(published.records, published.scenarios, published.stacks)
    table["message"] = [spreadsheet(text) for text in table["message"]]
    table["peak_memory_bytes"] = table["peak_memory_bytes"].astype("Int64")  # whole numbers beside empty cells
    table["passed"] = table["passed"].map({True: "true", False: "false"}).fillna("")
    return table.to_csv(index=False, lineterminator="\n", float_format="%.6g").encode()


def as_markdown(published: Published) -> str:
    """The matrix as GitHub shows it: stacks, who trains, and who is told about a misuse."""
    parts = ["# Which stacks train?", "", legend(), "", "## Stacks", "", stacks_table(published), ""]
    for device in dict.fromkeys(record.cell.device for record in published.records):
        records = published.of_device(device)
        if lacks_device(records):
            parts += [f"No cell was judged on `{device}`: {markdown(records[0].message)}.", ""]
            continue
        misuse = [record for record in records if record.role is Role.MISUSE]
        others = [record for record in records if record.role is not Role.MISUSE]
        for title, section in (("Does it train?", others), ("Does the stack tell you?", misuse)):
            if section:
                table = markdown_table(grid(section, published.scenarios, published.stacks))
                parts += [f"## {title} ({device})", "", table, ""]
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


def stacks_table(published: Published) -> str:
    """Name, date and the versions that matter; ⚠ where the resolver silently took an old release."""
    lines = ["| stack | as of | Python | " + " | ".join(SHOWN) + " |", "| --- " * (3 + len(SHOWN)) + "|"]
    for lock in published.locks:
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


def markdown_table(table: Grid) -> str:
    """A grid as Markdown; a scenario's name is written once."""
    lines = ["| scenario | variant | " + " | ".join(table.stacks) + " |", "| --- " * (2 + len(table.stacks)) + "|"]
    last = ""
    for scenario, variant, cells in table.rows:
        first = f"**{scenario}**" if scenario != last else ""
        last = scenario
        lines.append("| " + " | ".join([first, f"`{variant}`", *(markdown(cell) for cell in cells)]) + " |")
    return "\n".join(lines)
