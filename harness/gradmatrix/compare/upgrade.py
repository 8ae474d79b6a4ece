"""The answer to "may I upgrade?".

Both sides are resolved and run. Cells that changed are run again, cells that train on both sides
are measured, and the results are compared.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec
from packaging.utils import canonicalize_name

from gradmatrix.compare import resolution, sides
from gradmatrix.compare.comparison import Results, as_json, compare
from gradmatrix.core.errors import UserError
from gradmatrix.core.files import write_atomically
from gradmatrix.core.model import Build, Role, Stack
from gradmatrix.core.outcomes import NO_DEVICE, NOT_INSTALLED, TRAINS, UNSUPPORTED, Outcome, Phase
from gradmatrix.core.text import counted
from gradmatrix.judge import relations
from gradmatrix.judge.change import outcome_of_run
from gradmatrix.measure import race
from gradmatrix.measure.statistics import Key
from gradmatrix.run.plan import Selection
from gradmatrix.run.pool import new_run_id, workplace
from gradmatrix.run.stack import ThisMachine, cells_in
from gradmatrix.run.store import Store, in_order, newest
from gradmatrix.stacks import environment
from gradmatrix.stacks.environment import ONLY_CUDA, Environment, device_class, has_driver

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from gradmatrix.compare.comparison import Comparison
    from gradmatrix.compare.resolution import Resolved
    from gradmatrix.compare.sides import Reading, Side
    from gradmatrix.core.model import Cell, Lock, Record, Scenario
    from gradmatrix.measure.statistics import Measured
    from gradmatrix.run.plan import Planned
    from gradmatrix.run.pool import Isolation
    from gradmatrix.run.project import Project
    from gradmatrix.run.stack import Machines, Progress, Records, StackRun


T = TypeVar("T")
THIS = ThisMachine()
UNTRIED = {UNSUPPORTED, NO_DEVICE}
"""Outcomes of cells that are not run at all, so that another run cannot change them."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """What is measured side by side."""

    budget_s: float = 300.0
    """The time for all measurements, without the start of servers."""
    margin: float = 0.01
    """Ratios this close to 1 count as the same."""
    everything: bool = False
    """Whether all cells that train on both sides are measured, or one control of each scenario."""
    cells: frozenset[tuple[str, str]] = frozenset()
    """Pairs of scenario and variant to measure instead."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is run on both sides."""

    scenarios: tuple[Scenario, ...]
    selection: Selection
    repeats: int = 2
    """Further runs of a changed cell, on each side."""
    timing: Timing | None = None
    keep: bool = False
    """Whether the environments that are made for it stay."""
    machines: Machines = THIS


def resolved_sides(
    project: Project,
    word: str,
    words: Sequence[str],
    reading: Reading,
    *,
    as_of: dt.date | None,
    build: Sequence[str] = (),
) -> tuple[Resolved, Resolved]:
    """Baseline and candidate, resolved.

    Args:
        project: the checkout
        word: names the baseline
        words: the values of ``--to``
        reading: how files are read
        as_of: the day of the index for the candidate; None for today
        build: packages that may be built from their source releases on either side

    Raises:
        UserError: if a side does not exist or has no solution
    """
    if (reading.extras or reading.groups) and not any(map(sides.has_parts, [word, *words])):
        raise UserError(
            f"{word} has no extras and no dependency groups.",
            cause="--extra and --group choose parts of a pyproject.toml or a uv.lock",
            next_step="remove them, or name such a file",
        )
    side = allowing(sides.parse_side(word, project, reading), build)
    target = sides.parse_target(words, side, project, reading, dated=as_of is not None)
    refuse_python(word, side, target.side, reading)
    if target.side is not None:
        side, other = sides.told_apart(side, target.side)
        target = replace(target, side=other)
    folder = folder_of(project) / "locks"
    baseline = resolution.resolved(side, project.index, folder, project.locks_folder)
    if target.side is not None:
        if as_of is not None:
            raise UserError(
                "--as-of cannot be combined with another side.",
                cause=f"{target.side.name} has its own day",
                next_step="remove --as-of",
            )
        other = allowing(target.side, build)
        candidate = resolution.resolved(other, project.index, folder, project.locks_folder)
    else:
        candidate = resolution.candidate(
            side,
            target.edits,
            project.index,
            folder,
            latest=target.latest,
            as_of=as_of,
            stacks=[stack.name for stack in project.matrix.stacks],
        )
    for each in (baseline, candidate):
        if each.lock.failure is not None:
            raise UserError(
                f"{each.side.name} has nothing to install: {each.lock.failure.outcome}.",
                cause=each.lock.failure.message,
                next_step="name another side",
            )
    return resolution.beside(baseline, candidate), resolution.beside(candidate, baseline)


def allowing(side: Side, build: Iterable[str]) -> Side:
    """The side with further packages that may be built."""
    return replace(side, build=tuple(sorted({*side.build, *map(canonicalize_name, build)})))


def refuse_python(word: str, side: Side, other: Side | None, reading: Reading) -> None:
    """UserError if neither side uses the Python that was asked for, because both have their own."""
    if reading.python is None or reading.python in {
        each.python for each in (side, other) if each is not None
    }:
        return
    raise UserError(
        f"--python {reading.python} has no effect on {word}.",
        cause=f"it has its own Python, {side.python}",
        next_step="remove it: --python is for files that leave the Python open",
    )


def upgrade(
    project: Project,
    baseline: Resolved,
    candidate: Resolved,
    plan: Plan,
    progress: Progress,
) -> Comparison:
    """Run both sides and compare them.

    Their environments are deleted afterwards, also if the run is interrupted. What is measured is
    measured on this machine.
    """
    runs = [
        SideRun(each, project, plan.scenarios, progress, plan.machines)
        for each in (baseline, candidate)
    ]
    names = [run.name for run in runs]
    there = {name for name in names if (project.environments / name).exists()}
    environment.drop_leftovers(project.environments, names)
    try:
        return compared(project, runs[0], runs[1], plan)
    finally:
        for run in runs:
            if plan.keep:
                run.keep()
            elif run.name not in there and run.interpreter is None:
                environment.drop(project.environments, run.name)


def compared(project: Project, first: SideRun, second: SideRun, plan: Plan) -> Comparison:
    """Run both sides, run changed cells again, measure those that train, and compare."""
    before, after = on_both(plan, (first, second), lambda run: run.executed(plan.selection))
    repeats = repeated(first, second, before, after, plan)
    measured: Mapping[Key, Measured] = {}
    if plan.timing is not None:
        keys = to_measure(before, after, plan.timing, plan.scenarios)
        elsewhere = [key for key in keys if device_class(key.device) is None]
        keys = [key for key in keys if key not in elsewhere]
        least_s = math.ceil(sum(race.smallest_budget_s(step_s(before, after, key)) for key in keys))
        if plan.timing.budget_s < least_s:
            cells = counted(len(keys), "cell")
            notice = f"--budget {least_s}s is the smallest that can measure {cells}"
            second.stage(notice)
            measured = {key: race.unmeasured(key, notice) for key in keys}
        else:
            measured = measure(project, first, second, keys, plan.timing)
        for key in elsewhere:
            notice = f"this machine has no {key.device} device, and only it measures"
            measured = {**measured, key: race.unmeasured(key, notice)}
    return compare(
        results(first, before, repeats[0]),
        results(second, after, repeats[1]),
        {scenario.name: scenario for scenario in plan.scenarios},
        measured,
    )


def on_both(plan: Plan, sides: Sequence[SideRun], do: Callable[[SideRun], T]) -> list[T]:
    """Do something with both sides, at the same time if the machines allow it."""
    both = enumerate(sides)
    found = dict(plan.machines.side_by_side(lambda each: (each[0], do(each[1])), both))
    return [found[number] for number in sorted(found)]


def step_s(before: Mapping[Key, Record], after: Mapping[Key, Record], key: Key) -> float:
    """The seconds of a step on the faster side; none if the records do not tell."""
    rates = (side[key].steps_per_s for side in (before, after))
    return min((1 / rate.median for rate in rates if rate is not None), default=0.0)


def results(run: SideRun, records: Mapping[Key, Record], repeats: Repeats) -> Results:
    """What a side ended with."""
    resolved = run.resolved
    return Results(run.shown_name, resolved.lock, renamed(run, records), repeats, resolved.contents)


def renamed(run: SideRun, records: Mapping[Key, Record]) -> dict[Key, Record]:
    """Records with the name of the side for people; that of its lock may be a digest."""
    replace = msgspec.structs.replace
    return {
        key: replace(each, cell=replace(each.cell, stack=run.shown_name))
        for key, each in records.items()
    }


def changed(
    baseline: Mapping[Key, Record], candidate: Mapping[Key, Record]
) -> dict[Key, list[Key]]:
    """The cells to run again, because they ran on both sides and ended differently.

    Each comes with the cells that it stands for. If a scenario cannot be imported, one of its cells
    stands for all of them; every other cell stands for itself.
    """
    found: dict[object, list[Key]] = {}
    for key, before in baseline.items():
        after = candidate.get(key)
        if (
            after is None
            or ended(before) == ended(after)
            or UNTRIED & {before.outcome, after.outcome}
        ):
            continue
        phases = {Outcome(record.outcome).phase for record in (before, after)}
        if phases & NOT_INSTALLED:
            continue
        found.setdefault((key.scenario, key.device) if Phase.IMPORT in phases else key, []).append(
            key
        )
    return {cells[0]: cells for cells in found.values()}


def ended(record: Record) -> tuple[object, ...]:
    """How a record ended: two records ended in the same way if these values are equal."""
    return record.outcome, record.passed, record.passed or record.gradient


def with_partners(keys: Iterable[Key], scenarios: Iterable[Scenario]) -> set[Key]:
    """``keys`` and the variants that they must agree with."""
    agree = {each.name: each.agree for each in scenarios}
    keys = set(keys)
    partners = {
        key._replace(variant=relation.first)
        for key in keys
        for relation in agree.get(key.scenario, ())
        if relation.second == key.variant
    }
    return keys | partners


Repeats = dict[Key, tuple[str, ...]]
Ran = tuple[tuple["SideRun", "Mapping[Key, Record]"], tuple["SideRun", "Mapping[Key, Record]"]]
"""Both sides with the records of their cells."""


def repeated(
    first: SideRun,
    second: SideRun,
    before: Mapping[Key, Record],
    after: Mapping[Key, Record],
    plan: Plan,
) -> tuple[Repeats, Repeats]:
    """The outcomes of further runs of the changed cells, on each side.

    Of cells that share a failed import only one is run again, unless it then ends differently.
    """
    sides: Ran = ((first, before), (second, after))
    shared = changed(before, after)
    found = rounds(sides, shared.keys(), plan)
    doubted = {
        key
        for cell, others in shared.items()
        for key in others
        if is_doubted(cell, key, sides, found)
    }
    further = rounds(sides, doubted, plan)
    for number, (_, records) in enumerate(sides):
        imports = (cell for cell in shared if is_import(records[cell]))
        handed_on = {key: found[number][cell] for cell in imports for key in shared[cell]}
        found[number] = handed_on | found[number] | further[number]
    return found[0], found[1]


def is_import(record: Record) -> bool:
    """Whether the scenario could not be imported."""
    return Outcome(record.outcome).phase is Phase.IMPORT


def is_doubted(cell: Key, key: Key, sides: Ran, found: Sequence[Repeats]) -> bool:
    """Whether ``key`` must be run itself, although ``cell`` stands for it.

    That is so if the runs of ``cell`` disagree, or if only one of the two had a failed import.
    """
    return key != cell and any(
        set(repeats[cell]) - {records[cell].outcome}
        or is_import(records[cell]) is not is_import(records[key])
        for (_, records), repeats in zip(sides, found, strict=True)
    )


def rounds(sides: Ran, keys: Collection[Key], plan: Plan) -> list[Repeats]:
    """The outcomes of further runs of these cells on each side.

    Runs that an earlier upgrade recorded are used, unless they disagree. Then all of these cells
    of the scenario are run again.
    """
    numbers = range(1, plan.repeats + 1) if keys else ()
    there = set.intersection(*(set(records) for _, records in sides))
    everything = with_partners(keys, plan.scenarios) & there
    open_ones = {(key.scenario, key.device) for key in everything if is_open(key, sides, numbers)}
    rerun = {key for key in everything if (key.scenario, key.device) in open_ones}

    def again(run: SideRun) -> Repeats:
        ended = []
        for number in numbers:
            run.stage(f"changed cells again, {number} of {plan.repeats}")
            kept = run.again(number, everything - rerun, fresh=plan.selection.fresh)
            ended.append(kept | run.again(number, rerun, fresh=True))
        return {key: tuple(outcomes[key] for outcomes in ended if key in outcomes) for key in keys}

    return on_both(plan, [run for run, _ in sides], again)


def is_open(key: Key, sides: Ran, numbers: Iterable[int]) -> bool:
    """Whether an earlier upgrade recorded a further run that disagrees with the cell's record."""
    return any(
        outcome_of_run(outcome) != outcome_of_run(records[key].outcome)
        for run, records in sides
        for number in numbers
        for outcome in run.kept(number, {key}).values()
    )


def to_measure(
    before: Mapping[Key, Record],
    after: Mapping[Key, Record],
    timing: Timing,
    scenarios: Iterable[Scenario],
) -> list[Key]:
    """The cells to measure: named ones, all that train, or one control of each scenario."""
    train = [
        key
        for key, record in before.items()
        if record.outcome == TRAINS
        and record.role is not Role.MISUSE
        and key in after
        and after[key].outcome == TRAINS
    ]
    if timing.cells:
        return [key for key in train if (key.scenario, key.variant) in timing.cells]
    return train if timing.everything else controls(train, before, scenarios)


def controls(
    train: Collection[Key], before: Mapping[Key, Record], scenarios: Iterable[Scenario]
) -> list[Key]:
    """The first control of each scenario and device, and every script of the user."""
    own = {scenario.name for scenario in scenarios if scenario.arguments is not None}
    found: dict[tuple[str, str], Key] = {}
    for key in train:
        if before[key].role is Role.CONTROL or key.scenario in own:
            found.setdefault((key.scenario, key.device), key)
    return list(found.values())


def measure(
    project: Project, first: SideRun, second: SideRun, keys: Sequence[Key], timing: Timing
) -> Mapping[Key, Measured]:
    """The cells, measured in both environments at the same time."""
    if not keys:
        return {}
    with both_installed(first, second) as (baseline, candidate):
        settings = project.settings()
        with workplace(project.work / "work", new_run_id()) as directory:
            return race.measure(
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
    project: Project,
    baseline: Resolved,
    candidate: Resolved,
    comparison: Comparison,
    parts: Sequence[str] = (),
) -> Path:
    """Write the comparison into the upgrades of this checkout, and return the file.

    It is named after the sides and the ``parts`` that ran. If a side is not a stack of the matrix,
    the name ends with a digest of both locks, since two such sides may have the same name.
    """
    words = " ".join(
        [f"{baseline.side.name} to {candidate.side.name}", *(["of", *parts] if parts else ())]
    )
    path = report_folder(project, words, baseline, candidate) / "report.json"
    write_atomically(path, as_json(comparison))
    return path


def report_folder(project: Project, words: str, baseline: Resolved, candidate: Resolved) -> Path:
    """Where a report is kept that these words name."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", words).strip("-.")[:120]
    if baseline.own or candidate.own:
        locks = f"{baseline.lock.stack} {candidate.lock.stack}"
        name += "-" + hashlib.sha256(locks.encode()).hexdigest()[:8]
    return folder_of(project) / "reports" / name


def metadata_folder(project: Project) -> Path:
    """Where it is kept what packages say about themselves that upgrades have installed."""
    return folder_of(project) / "metadata"


def folder_of(project: Project) -> Path:
    """Where upgrades keep their records, locks and reports."""
    return project.work / "upgrade"


@dataclass(frozen=True)
class SideRun:
    """Runs the cells of a side, and again in fresh processes."""

    resolved: Resolved
    project: Project
    scenarios: tuple[Scenario, ...]
    progress: Progress
    machines: Machines = THIS
    drop: bool = False
    """Whether a node deletes the environment after the cells."""

    @property
    def name(self) -> str:
        """The name of its stack, which its environment and records have."""
        return self.resolved.lock.stack

    @property
    def shown_name(self) -> str:
        """The name of the side for people."""
        return self.resolved.side.name

    @property
    def interpreter(self) -> Path | None:
        """The Python of an environment that is used in place."""
        return self.resolved.side.interpreter

    @property
    def place(self) -> tuple[str, Path | None]:
        """Identifies its environment. Sides with one lock share it, unless one is used in place."""
        return self.name, self.interpreter

    @property
    def folder(self) -> Path:
        """Where upgrades keep their records and locks."""
        return folder_of(self.project)

    def stage(self, text: str) -> None:
        """Tell the user what is running now."""
        self.progress.stage(self.shown_name, text)

    def records(self) -> Records:
        """The records of all upgrades; for a stack of the matrix also those of the matrix."""
        own = Store(self.folder / "records", self.folder / "published")
        return own if self.resolved.own else Borrowing(own, self.project.store)

    def stack_run(
        self, isolation: Isolation | None = None, records: Records | None = None
    ) -> StackRun:
        """The run of this side, ready to execute. See :meth:`records` for the default."""
        lock, store = self.resolved.lock, records or self.records()
        stack = Stack(
            name=lock.stack, python=lock.python, requirements=lock.requirements, as_of=lock.as_of
        )
        progress = Labelled(self.progress, self.shown_name)
        run = self.machines.placed(
            self.project.stack_run(stack, progress, isolation, store, lock=lock)
        )
        return replace(
            run,
            scenarios=self.scenarios,
            devices={name: kind for name, kind in run.devices.items() if kind is not None},
            locks=self.resolved.locks,
            metadata=metadata_folder(self.project),
            drop=self.drop,
        )

    def executed(self, selection: Selection) -> dict[Key, Record]:
        """The records of the selected cells, run now or earlier; relations judged."""
        return self.ran(self.stack_run(), selection)

    def ran(self, run: StackRun, selection: Selection) -> dict[Key, Record]:
        """Execute a run; the records of its selected cells."""
        if self.interpreter is None:
            run.execute(selection)
        else:
            self.run_in_place(run, self.interpreter, selection)
        found = run.store.recorded_here(self.name)
        cells = [planned.cell for planned in run.plan(replace(selection, fresh=False))]
        judged = relations.judged(
            (found[cell] for cell in cells), {each.name: each for each in self.scenarios}
        )
        return {key_of(record.cell): record for record in judged}

    def run_in_place(self, run: StackRun, python: Path, selection: Selection) -> None:
        """Run the selected cells in an environment of the user.

        No record is reused: packages may change there without a new version.
        """
        cells = run.plan(replace(selection, fresh=True))
        place = partial(cells_in, in_place(python, self.resolved.lock))
        replace(run, place=place).carry_out(cells)

    def again(self, number: int, keys: Collection[Key], *, fresh: bool) -> dict[Key, str]:
        """The outcomes of a further run of these cells, each in its own process."""
        store = self.repeats(number)
        found: dict[Key, str] = {}
        for device in sorted({key.device for key in keys}):
            pairs = frozenset((key.scenario, key.variant) for key in keys if key.device == device)
            chosen = Selection(variants=pairs, devices=frozenset({device}), fresh=fresh)
            records = self.ran(self.stack_run("fresh", store), chosen)
            found |= {key: record.outcome for key, record in records.items() if key in keys}
        return found

    def kept(self, number: int, keys: Collection[Key]) -> dict[Key, str]:
        """The outcomes of a further run that are recorded already."""
        kept = self.repeats(number).recorded_here(self.name).values()
        return {
            key_of(record.cell): record.outcome for record in kept if key_of(record.cell) in keys
        }

    def repeats(self, number: int) -> Store:
        """Where the records of a further run are."""
        folder = self.folder / f"repeat-{number}"
        return Store(folder, folder / "published")

    def planned(self, keys: Collection[Key]) -> list[Planned]:
        """These cells, ready to be measured."""
        return [each for each in self.stack_run().plan(Selection()) if key_of(each.cell) in keys]

    @contextlib.contextmanager
    def installed(self) -> Iterator[Path]:
        """The interpreter of the side's environment. No other process uses it meanwhile."""
        if self.interpreter is not None:
            yield self.interpreter
            return
        environments = self.project.environments
        with environment.in_use(
            environments, self.name, partial(self.stage, "waiting for another run")
        ):
            self.stage("installing")
            waiting = partial(self.stage, "waiting for another stack to be installed")
            lock, locks = self.resolved.lock, self.resolved.locks
            yield environment.ensure(lock, locks, environments, waiting).python

    def keep(self) -> None:
        """Mark the environment, so that no later upgrade deletes it."""
        place = self.project.environments / self.name
        if place.is_dir():
            (place / environment.KEPT).touch()


@contextlib.contextmanager
def both_installed(first: SideRun, second: SideRun) -> Iterator[tuple[Path, Path]]:
    """The interpreters of two sides. No other process uses their environments meanwhile.

    They are locked in the order of their names, so that two upgrades cannot deadlock.
    """
    with contextlib.ExitStack() as held:
        pythons: dict[tuple[str, Path | None], Path] = {}
        for run in sorted((first, second), key=lambda run: run.name):
            if run.place not in pythons:
                pythons[run.place] = held.enter_context(run.installed())
        yield pythons[first.place], pythons[second.place]


@dataclass(frozen=True)
class Borrowing:
    """Records of upgrades, and of the matrix, which is only read."""

    own: Store
    matrix: Store

    def in_use(self, stack: str, waiting: Callable[[], object]) -> AbstractContextManager[None]:
        """Hold the upgrades' records of a stack: a second run waits."""
        return self.own.in_use(stack, waiting)

    def append(self, record: Record) -> None:
        """Add a record to those of upgrades."""
        self.own.append(record)

    def recorded_here(self, stack: str) -> dict[Cell, Record]:
        """The newest record of each cell, of an upgrade or of the matrix."""
        borrowed = self.matrix.of_stack(stack).values()
        return newest(in_order(borrowed, [*self.own.recorded_here(stack).values()]))

    def recorded_under(self, stack: str) -> dict[tuple[Cell, str], Record]:
        """The newest record of each cell and key, of an upgrade or of the matrix."""
        borrowed = self.matrix.of_stack(stack).values()
        return {
            **{(record.cell, record.key): record for record in borrowed},
            **self.matrix.recorded_under(stack),
            **self.own.recorded_under(stack),
        }


@dataclass(frozen=True)
class Labelled:
    """Progress that shows the name of the side instead of the stack's."""

    progress: Progress
    name: str

    def stage(self, _stack: str, text: str) -> None:
        """See Progress."""
        self.progress.stage(self.name, text)

    def planned(self, _stack: str, cells: list[Planned]) -> None:
        """See Progress."""
        self.progress.planned(self.name, cells)

    def ended(self, record: Record, output: str) -> None:
        """See Progress."""
        self.progress.ended(record, output)


def in_place(python: Path, lock: Lock) -> Environment:
    """An environment of the user.

    The version's label or the CUDA packages beside it tell which build of torch it has.
    """
    label = (lock.version("torch") or "").partition("+")[2]
    beside = any(package.name.startswith(ONLY_CUDA) for package in lock.packages)
    if label.startswith("cu"):
        build = Build.CUDA
    elif label == "cpu" or not beside:
        build = Build.CPU
    else:
        build = Build.CUDA if has_driver() else Build.DEFAULT
    return Environment(python, build, None, installed=False)


def key_of(cell: Cell) -> Key:
    """The cell without its stack."""
    return Key(cell.scenario, cell.variant, cell.device)
