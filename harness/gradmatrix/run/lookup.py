"""Look up what a user names: a part of the matrix, or a published cell, its scenario and lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from gradmatrix.core.errors import UserError, did_you_mean
from gradmatrix.run.plan import Selection
from gradmatrix.run.store import Store
from gradmatrix.stacks import lock as locks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gradmatrix.core.model import Cell, Lock, Record, Scenario
    from gradmatrix.run.project import Project

PARTS = ("stack", "scenario", "variant", "device")
"""The parts of a cell as a user writes it."""


class Judged(Protocol):
    """What is known of a cell: a record, or the newest entry of its history."""

    @property
    def passed(self) -> bool | None:
        """None if the cell was not judged."""


Known = TypeVar("Known", bound=Judged)


def expect(word: str, kind: str, known: Sequence[str] | dict[str, set[str]] | set[str]) -> None:
    """UserError if ``word`` is not among the ``known`` ones."""
    if word not in known:
        raise UserError(
            f"There is no {kind} {word!r}.",
            cause=did_you_mean(word, sorted(known)),
            next_step="gradmatrix list shows what there is",
        )


def select(
    project: Project,
    *,
    scenario: Sequence[str],
    cell: Sequence[str],
    device: Sequence[str],
    fresh: bool,
    further: bool = False,
) -> Selection:
    """The part of the matrix that the words of a command line select.

    The ``further`` scenarios of matrix.toml are part of it if they are named or asked for.

    Raises:
        UserError: with a suggestion for an unknown word, or if nothing is selected.
    """
    known = {s.name: {v.name for v in s.variants} for s in project.chosen_scenarios()}
    for name in scenario:
        expect(name, "scenario", known)
    for name in device:
        expect(name, "device", project.matrix.run.devices)
    pairs = []
    for text in cell:
        name, slash, variant = text.partition("/")
        expect(name, "scenario", known)
        if not slash:
            raise UserError(
                f"--cell {text} names no variant.",
                cause="a cell is written SCENARIO/VARIANT",
                next_step=f"--scenario {text} for all variants; gradmatrix list shows them",
            )
        expect(variant, f"variant of {name}", known[name])
        pairs.append((name, variant))
    if scenario and pairs and not any(name in scenario for name, _ in pairs):
        raise UserError(
            "These options select no cell.",
            cause=f"--cell is of {pairs[0][0]}, --scenario is {', '.join(scenario)}",
            next_step="leave one of them out",
        )
    if project.matrix.run.further and not (scenario or pairs or further):
        scenario = sorted(known.keys() - set(project.matrix.run.further))
    return Selection(
        scenarios=frozenset(scenario) or None,
        variants=frozenset(pairs) or None,
        devices=frozenset(device) or None,
        fresh=fresh,
    )


def published(project: Project) -> dict[Cell, Record]:
    """The published records, without what ran in this checkout and is not published."""
    return Store(project.store.published, project.store.published).everything()


def find(text: str, known: Mapping[Cell, Known], project: Project) -> Known:
    """What is ``known`` of the cell that ``text`` names: [STACK/]SCENARIO/VARIANT[/DEVICE].

    Without a stack, the newest one on which the cell was judged is meant, and without a device the
    first one of matrix.toml.

    Raises:
        UserError: with a suggestion for an unknown part.
    """
    words = text.split("/")
    stacks, scenarios = ({getattr(cell, part) for cell in known} for part in PARTS[:2])
    if words[0] in scenarios - stacks:
        words = ["", *words]
    if not len(PARTS) - 1 <= len(words) <= len(PARTS):
        raise UserError(
            f"{text!r} is not a cell.",
            cause="a cell is written SCENARIO/VARIANT, STACK/SCENARIO/VARIANT or "
            "STACK/SCENARIO/VARIANT/DEVICE",
            next_step="gradmatrix list shows stacks, scenarios and variants",
        )
    cells = list(known)
    for part, word in zip(PARTS, words, strict=False):
        if not word and part == "stack":
            continue
        above = "/".join(filter(None, words[: PARTS.index(part)]))
        kind = part if part in ("stack", "device") or not above else f"{part} of {above}"
        expect(word, f"published {kind}", sorted({getattr(cell, part) for cell in cells}))
        cells = [cell for cell in cells if getattr(cell, part) == word]
    devices = {device: place for place, device in enumerate(project.matrix.run.devices)}
    cells.sort(key=lambda cell: devices.get(cell.device, len(devices)))
    if len({cell.stack for cell in cells}) > 1:
        locks = project.known_locks({cell.stack for cell in cells})
        ages = {lock.stack: -lock.as_of.toordinal() for lock in locks}
        cells.sort(key=lambda cell: ages.get(cell.stack, 0))
    return known[min(cells, key=lambda cell: known[cell].passed is None)]


def scenario_of(record: Record, project: Project) -> Scenario:
    """The scenario of a record in this checkout; UserError if it lacks the scenario or variant."""
    cell = record.cell
    known = {each.name: each for each in (*project.scenarios.values(), *project.scripts)}
    scenario = known.get(cell.scenario)
    if scenario is None or all(variant.name != cell.variant for variant in scenario.variants):
        raise UserError(
            f"This checkout has no {cell.scenario}/{cell.variant}.",
            cause=f"{cell} was published from another commit",
            next_step=f"check out that commit, or run the cell here: gradmatrix run {cell.stack}",
        )
    return scenario


def lock_of(record: Record, project: Project) -> Lock:
    """The lock that a record was made with; nothing is resolved.

    Raises:
        UserError: if that lock is missing or was replaced.
    """
    lock = locks.load(record.cell.stack, project.locks_folder)
    then = record.inputs.get("lock", "")
    if lock is not None and (lock.failure is not None or lock.digest.startswith(then)):
        return lock
    raise UserError(
        f"The lock of {record.cell.stack} is not the one that {record.cell} was run with.",
        cause="it is missing" if lock is None else "the stack was locked again",
        next_step="run git checkout results/locks, or run the stack: "
        f"gradmatrix run {record.cell.stack}",
    )
