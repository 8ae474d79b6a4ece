"""May I upgrade? Both sides resolved, run, the changed cells run again, what trains on both measured, compared."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from harness import candidates, environment, interleave, resolution, side_run, sides
from harness.compare import Side, compare
from harness.disk import write_atomically
from harness.errors import UserError
from harness.measured import Key
from harness.model import Role
from harness.outcome import TRAINS, Outcome, Phase
from harness.publish.comparison.reports import as_json
from harness.run import new_run_id, workplace
from harness.side_run import SideRun
from harness.standing import as_it_ran

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.comparison import Comparison
    from harness.given import Given
    from harness.measured import Measured
    from harness.model import Record, Scenario
    from harness.plan import Selection
    from harness.project import Project
    from harness.resolution import Resolved
    from harness.run import Progress
    from harness.sides import Reading


@dataclass(frozen=True, kw_only=True)
class Timing:
    """What is measured side by side, how long at most, and what counts as the same."""

    budget_s: float = 300.0
    margin: float = 0.01
    everything: bool = False
    """All cells that train on both sides, and not the first control of each scenario alone."""
    cells: frozenset[tuple[str, str]] = frozenset()
    """Pairs of scenario and variant to measure in the place of those."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is run on both sides."""

    scenarios: tuple[Scenario, ...]
    selection: Selection
    repeats: int = 2
    """Further runs of a changed cell, on each side."""
    timing: Timing | None = None
    keep: bool = False
    """Leave the environments that were made for it."""


def resolved_sides(
    project: Project, word: str, words: Sequence[str], reading: Reading, *, as_of: dt.date | None
) -> tuple[Resolved, Resolved]:
    """Baseline and candidate, resolved; UserError where there is no such pair."""
    if (reading.extras or reading.groups) and not any(map(sides.has_parts, [word, *words])):
        raise UserError(
            f"{word} has no extras and no dependency groups.",
            cause="--extra and --group choose parts of a pyproject.toml or a uv.lock",
            next_step="leave them out, or name such a file",
        )
    given = sides.side(word, project, reading)
    asked = candidates.asked(words, given, project, reading, dated=as_of is not None)
    refuse_python(word, given, asked.side, reading)
    folder = side_run.folder_of(project) / "locks"
    baseline = resolution.resolved(given, project.index, folder, project.locks_folder)
    if asked.side is not None:
        if as_of is not None:
            raise UserError(
                "--as-of and another side exclude each other.",
                cause=f"{asked.side.name} has a day of its own",
                next_step="leave --as-of out",
            )
        candidate = resolution.resolved(asked.side, project.index, folder, project.locks_folder)
    else:
        candidate = resolution.candidate(
            given,
            asked.wishes,
            project.index,
            folder,
            latest=asked.latest,
            as_of=as_of,
            stacks=[stack.name for stack in project.matrix.stacks],
        )
    for each in (baseline, candidate):
        if each.lock.failure is not None:
            raise UserError(
                f"{each.given.name} has nothing to install: {each.lock.failure.outcome}.",
                cause=each.lock.failure.message,
                next_step="name another side; nothing was run",
            )
    return baseline, candidate


def refuse_python(word: str, given: Given, other: Given | None, reading: Reading) -> None:
    """UserError where the Python that was asked for is that of no side: both have one of their own."""
    if reading.python is None or reading.python in {each.python for each in (given, other) if each is not None}:
        return
    raise UserError(
        f"--python {reading.python} has no effect on {word}.",
        cause=f"it has a Python of its own, {given.python}",
        next_step="leave it out: it is for a requirements file, a pyproject.toml, or a lock that leaves it open",
    )


def upgrade(project: Project, baseline: Resolved, candidate: Resolved, plan: Plan, progress: Progress) -> Comparison:
    """Run both sides and compare them; what they took is given back, also where it is stopped."""
    runs = [SideRun(side, project, plan.scenarios, progress) for side in (baseline, candidate)]
    names = [run.name for run in runs]
    there = {name for name in names if (project.environments / name).exists()}
    side_run.tidied(project.environments, names)
    try:
        return compared(project, runs[0], runs[1], plan)
    finally:
        for run in runs:
            if plan.keep:
                run.keep()
            elif run.name not in there and run.side.given.interpreter is None:
                environment.drop(project.environments, run.name)


def compared(project: Project, first: SideRun, second: SideRun, plan: Plan) -> Comparison:
    """Both sides' cells, again where they changed, and measured where they train."""
    before, after = first.executed(plan.selection), second.executed(plan.selection)
    repeats = repeated(first, second, before, after, plan)
    measured: Mapping[Key, Measured] = {}
    if plan.timing is not None:
        measured = measure(project, first, second, to_measure(before, after, plan.timing, plan.scenarios), plan.timing)
    return compare(
        Side(first.side.given.name, first.side.lock, named(first, before), repeats[0]),
        Side(second.side.given.name, second.side.lock, named(second, after), repeats[1]),
        {scenario.name: scenario for scenario in plan.scenarios},
        measured,
    )


def named(run: SideRun, records: Mapping[Key, Record]) -> dict[Key, Record]:
    """Records under the name that people gave the side: that of its lock may be a digest."""
    name = run.side.given.name
    replace = msgspec.structs.replace
    return {key: replace(each, cell=replace(each.cell, stack=name)) for key, each in records.items()}


Repeats = dict[Key, tuple[str, ...]]
Ran = tuple[tuple[SideRun, "Mapping[Key, Record]"], tuple[SideRun, "Mapping[Key, Record]"]]
"""Both sides with the records of their cells."""


def repeated(
    first: SideRun, second: SideRun, before: Mapping[Key, Record], after: Mapping[Key, Record], plan: Plan
) -> tuple[Repeats, Repeats]:
    """The outcomes of further runs of the changed cells, as many on either side.

    Of cells that share a failed import one is run again for all; all are where it then ends in another way.
    """
    sides: Ran = ((first, before), (second, after))
    shared = side_run.changed(before, after)
    found = rounds(sides, shared.keys(), plan)
    doubted = {key for cell, others in shared.items() for key in others if is_doubted(cell, key, sides, found)}
    further = rounds(sides, doubted, plan)
    for number, (_, records) in enumerate(sides):
        imports = (cell for cell in shared if is_import(records[cell]))
        handed_on = {key: found[number][cell] for cell in imports for key in shared[cell]}
        found[number] = handed_on | found[number] | further[number]
    return found[0], found[1]


def is_import(record: Record) -> bool:
    """Whether the scenario could not be imported."""
    return Outcome.parse(record.outcome).phase is Phase.IMPORT


def is_doubted(cell: Key, key: Key, sides: Ran, found: Sequence[Repeats]) -> bool:
    """Whether the further runs of ``cell`` do not speak for ``key``: they disagree, or the import is not shared."""
    return key != cell and any(
        set(repeats[cell]) - {records[cell].outcome} or is_import(records[cell]) is not is_import(records[key])
        for (_, records), repeats in zip(sides, found, strict=True)
    )


def rounds(sides: Ran, keys: Collection[Key], plan: Plan) -> list[Repeats]:
    """The outcomes of further runs of these cells on each side; what an earlier upgrade kept is not run once more.

    Unless it disagreed: then all cells of that scenario are, which may have to agree with each other.
    """
    numbers = range(1, plan.repeats + 1) if keys else ()
    there = set.intersection(*(set(records) for _, records in sides))
    everything = side_run.with_partners(keys, plan.scenarios) & there
    open_ones = {(key.scenario, key.device) for key in everything if is_open(key, sides, numbers)}
    anew = {key for key in everything if (key.scenario, key.device) in open_ones}
    found: list[Repeats] = []
    for run, _ in sides:
        ended = []
        for number in numbers:
            run.stage(f"changed cells again, {number} of {plan.repeats}")
            kept = run.again(number, everything - anew, fresh=plan.selection.fresh)
            ended.append(kept | run.again(number, anew, fresh=True))
        found.append({key: tuple(outcomes[key] for outcomes in ended if key in outcomes) for key in keys})
    return found


def is_open(key: Key, sides: Ran, numbers: Iterable[int]) -> bool:
    """Whether what earlier upgrades kept of a cell's further runs disagrees with its record."""
    return any(
        as_it_ran(outcome) != as_it_ran(records[key].outcome)
        for run, records in sides
        for number in numbers
        for outcome in run.kept(number, {key}).values()
    )


def to_measure(
    before: Mapping[Key, Record], after: Mapping[Key, Record], timing: Timing, scenarios: Iterable[Scenario]
) -> list[Key]:
    """The cells that train on both sides and are measured: the named ones, all, or a control of each scenario."""
    train = [
        key
        for key, record in before.items()
        if record.outcome == TRAINS and record.role is not Role.MISUSE and key in after and after[key].outcome == TRAINS
    ]
    if timing.cells:
        return [key for key in train if (key.scenario, key.variant) in timing.cells]
    return train if timing.everything else controls(train, before, scenarios)


def controls(train: Collection[Key], before: Mapping[Key, Record], scenarios: Iterable[Scenario]) -> list[Key]:
    """Of each scenario and device the first control, and every script of the user's own."""
    own = {scenario.name for scenario in scenarios if scenario.arguments is not None}
    found: dict[tuple[str, str], Key] = {}
    for key in train:
        if before[key].role is Role.CONTROL or key.scenario in own:
            found.setdefault((key.scenario, key.device), key)
    return list(found.values())


def measure(
    project: Project, first: SideRun, second: SideRun, keys: Sequence[Key], timing: Timing
) -> Mapping[Key, Measured]:
    """The cells measured in both environments at once."""
    if not keys:
        return {}
    with side_run.both_installed(first, second) as (baseline, candidate):
        settings = project.settings()
        with workplace(project.work / "work", new_run_id()) as directory:
            return interleave.measure(
                baseline,
                candidate,
                second.planned(keys),
                settings,
                budget_s=timing.budget_s,
                margin=timing.margin,
                directory=directory,
                stage=second.stage,
            )


def keep_report(
    project: Project, baseline: Resolved, candidate: Resolved, comparison: Comparison, parts: Sequence[str] = ()
) -> Path:
    """Write the comparison into this checkout's upgrades; the file, named after the sides and ``parts`` that ran.

    Sides that are no stacks of the matrix may share a name: what they resolved to tells them apart.
    """
    words = " ".join([f"{baseline.given.name} to {candidate.given.name}", *(["of", *parts] if parts else ())])
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", words).strip("-.")[:120]
    if baseline.own or candidate.own:
        locks = f"{baseline.lock.stack} {candidate.lock.stack}"
        name += "-" + hashlib.sha256(locks.encode()).hexdigest()[:8]
    path = side_run.folder_of(project) / "reports" / name / "report.json"
    write_atomically(path, as_json(comparison))
    return path
