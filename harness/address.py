"""A published cell as people write it: STACK/SCENARIO/VARIANT[/DEVICE]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from harness import lock as locks
from harness.errors import UserError
from harness.project import expect
from harness.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model import Cell, Lock, Record, Scenario
    from harness.project import Project


class Judged(Protocol):
    """What is known of a cell: a record, or the newest entry of its history."""

    @property
    def passed(self) -> bool | None:
        """None where it was not judged."""


Known = TypeVar("Known", bound=Judged)

PARTS = ("stack", "scenario", "variant", "device")


def published(project: Project) -> dict[Cell, Record]:
    """The published records of ``project``, without what this checkout has run and not published."""
    folder = project.results / "records"
    return Store(folder, folder).everything()


def find(text: str, known: Mapping[Cell, Known], devices: tuple[str, ...]) -> Known:
    """What is ``known`` of the cell that ``text`` names; UserError with a suggestion for an unknown part.

    Without a device the first of ``devices`` on which it was judged is meant, or the first of them.
    """
    words = text.split("/")
    if not len(PARTS) - 1 <= len(words) <= len(PARTS):
        raise UserError(
            f"{text!r} is no cell.",
            cause="a cell is written STACK/SCENARIO/VARIANT, and /DEVICE where it is not the first one",
            next_step="nox -s harness -- table",
        )
    cells = list(known)
    for part, word in zip(PARTS, words, strict=False):
        kind = part if part in ("stack", "device") else f"{part} of {'/'.join(words[: PARTS.index(part)])}"
        expect(word, f"published {kind}", sorted({getattr(cell, part) for cell in cells}))
        cells = [cell for cell in cells if getattr(cell, part) == word]
    order = {device: place for place, device in enumerate(devices)}
    cells.sort(key=lambda cell: (known[cell].passed is None, order.get(cell.device, len(order))))
    return known[cells[0]]


def scenario_of(record: Record, project: Project) -> Scenario:
    """The scenario of a record in this checkout; UserError where it has none, or not this variant."""
    cell = record.cell
    known = {each.name: each for each in (*project.scenarios.values(), *project.scripts)}
    scenario = known.get(cell.scenario)
    if scenario is None or all(variant.name != cell.variant for variant in scenario.variants):
        raise UserError(
            f"This checkout has no {cell.scenario}/{cell.variant}.",
            cause=f"{cell} was published by another state of the scenarios",
            next_step=f"check out that state, or run it anew: nox -s harness -- run {cell.stack}",
        )
    return scenario


def lock_of(record: Record, project: Project) -> Lock:
    """The lock that a record was made with; UserError where it is gone or another one. None is resolved anew."""
    lock = locks.load(record.cell.stack, project.locks_folder)
    then = record.inputs.get("lock", "")
    if lock is not None and (lock.failure is not None or lock.digest.startswith(then)):
        return lock
    raise UserError(
        f"The lock of {record.cell.stack} is not the one that {record.cell} was run with.",
        cause="it is missing or incomplete" if lock is None else "the stack was locked anew since then",
        next_step=f"git checkout results/locks, or run it anew: nox -s harness -- run {record.cell.stack}",
    )
