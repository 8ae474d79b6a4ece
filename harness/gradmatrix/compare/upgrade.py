"""One side of an upgrade run: its environment, its records, and cells of it again in fresh processes.

May I upgrade? Both sides resolved, run, the changed cells run again, what trains on both measured, compared.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from gradmatrix.compare import resolution, sides
from gradmatrix.compare import sides as candidates
from gradmatrix.compare.comparison import Side, as_json, compare
from gradmatrix.compare.resolution import MARK
from gradmatrix.core.errors import UserError
from gradmatrix.core.files import write_atomically
from gradmatrix.core.model import Build, Role, Stack
from gradmatrix.core.outcomes import NO_DEVICE, TRAINS, UNSUPPORTED, Outcome, Phase
from gradmatrix.judge import relations
from gradmatrix.judge.change import outcome_of_run
from gradmatrix.measure import race
from gradmatrix.measure.statistics import Key
from gradmatrix.run.plan import Action, Selection
from gradmatrix.run.pool import new_run_id, workplace
from gradmatrix.run.stack import StackRun, Summary
from gradmatrix.run.store import Store, newest
from gradmatrix.stacks import environment
from gradmatrix.stacks.environment import ONLY_CUDA, Environment, device_class, has_driver

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from gradmatrix.compare.comparison import Comparison
    from gradmatrix.compare.resolution import Resolved
    from gradmatrix.compare.sides import Given, Reading
    from gradmatrix.core.model import Cell, Lock, Record, Scenario
    from gradmatrix.measure.statistics import Measured
    from gradmatrix.run.plan import Planned
    from gradmatrix.run.pool import Isolation
    from gradmatrix.run.project import Project
    from gradmatrix.run.stack import Progress


UNTRIED = {UNSUPPORTED, NO_DEVICE}
"""Outcomes of cells that another run cannot change: they are not run at all."""
KEPT = "kept"  # a file in an environment of ours that somebody asked to keep


@dataclass
class Borrowing(Store):
    """Records of upgrades; those of a matrix's own stack are also read from the matrix, and never written there."""

    lent: Store | None = None

    def recorded_here(self, stack: str) -> dict[Cell, Record]:
        """The newest record of each cell, ours or the matrix's, published ones included."""
        return newest(chain(self.borrowed(stack).values(), super().recorded_here(stack).values()))

    def recorded_under(self, stack: str) -> dict[tuple[Cell, str], Record]:
        """The newest record of each cell and key."""
        found = {(record.cell, record.key): record for record in self.borrowed(stack).values()}
        if self.lent is not None:
            found |= self.lent.recorded_under(stack)
        return found | super().recorded_under(stack)

    def borrowed(self, stack: str) -> dict[Cell, Record]:
        """What the matrix has of a stack."""
        return {} if self.lent is None else self.lent.of_stack(stack)


@dataclass(frozen=True)
class InPlace(StackRun):
    """A run in an environment that is there already: nothing is installed, and every cell is run."""

    there: Environment = field(kw_only=True)

    def execute(self, selection: Selection) -> Summary:
        """Run the selected cells; packages may change there without a new version, so no record is reused."""
        return self.carry_out(self.plan(replace(selection, fresh=True)))

    def carry_out(self, cells: list[Planned]) -> Summary:
        """Do about each cell what was planned."""
        self.progress.planned(self.stack.name, cells)
        settled = [self.settle(cell) for cell in cells if cell.action is Action.SETTLED]
        to_run = [cell for cell in cells if cell.action is Action.RUN]
        import_s, cells_s = self.run_cells(to_run, self.there) if to_run else (0.0, 0.0)
        return Summary(self.stack.name, len(to_run), 0, len(settled), import_s, cells_s)


@dataclass(frozen=True)
class Labelled:
    """Progress under a name for people in the place of a stack's."""

    progress: Progress
    name: str

    def stage(self, _stack: str, text: str) -> None:
        """Pass it on."""
        self.progress.stage(self.name, text)

    def planned(self, _stack: str, cells: list[Planned]) -> None:
        """Pass it on."""
        self.progress.planned(self.name, cells)

    def ended(self, record: Record, output: str) -> None:
        """Pass it on."""
        self.progress.ended(record, output)


@dataclass(frozen=True)
class SideRun:
    """A side with all that it takes to run it."""

    side: Resolved
    project: Project
    scenarios: tuple[Scenario, ...]
    progress: Progress

    @property
    def name(self) -> str:
        """Of the stack, under which environment and records are found."""
        return self.side.lock.stack

    @property
    def place(self) -> tuple[str, Path | None]:
        """What its environment is known by: two sides of one lock share it, unless one is run in place."""
        return self.name, self.side.given.interpreter

    @property
    def folder(self) -> Path:
        """Where upgrades keep their records and locks."""
        return folder_of(self.project)

    def stage(self, text: str) -> None:
        """Tell whoever watches what takes a while now."""
        self.progress.stage(self.side.given.name, text)

    def stack_run(self, isolation: Isolation | None = None, store: Store | None = None) -> StackRun:
        """The run of this side, ready to execute; records go to ``store``, or else to those of all upgrades."""
        lock = self.side.lock
        lent = None if self.side.own else self.project.store
        store = store or Borrowing(self.folder / "records", self.folder / "published", lent=lent)
        given = self.side.given
        make: Callable[..., StackRun] = StackRun
        if given.interpreter is not None and given.lock is not None:
            make = partial(InPlace, there=in_place(given.interpreter, given.lock))
        devices = {name: device_class(name) for name in self.project.matrix.run.devices}
        return make(
            stack=Stack(
                name=lock.stack,
                python=lock.python,
                requirements=lock.requirements,
                as_of=lock.as_of,
            ),
            lock=lock,
            scenarios=self.scenarios,
            devices={name: kind for name, kind in devices.items() if kind is not None},
            settings=self.project.settings(isolation),
            store=store,
            locks=self.side.locks,
            environments=self.project.environments,
            workplaces=self.project.work / "work",
            progress=Labelled(self.progress, self.side.given.name),
            run_id=new_run_id(),
        )

    def executed(self, selection: Selection) -> dict[Key, Record]:
        """Every selected cell, run or recorded already; relations judged."""
        return self.ran(self.stack_run(), selection)

    def ran(self, run: StackRun, selection: Selection) -> dict[Key, Record]:
        """The records of a run's selected cells when it ended."""
        run.execute(selection)
        found = run.store.recorded_here(self.name)
        cells = [planned.cell for planned in run.plan(replace(selection, fresh=False))]
        judged = relations.judged(
            (found[cell] for cell in cells), {each.name: each for each in self.scenarios}
        )
        return {key_of(record.cell): record for record in judged}

    def again(self, number: int, keys: Collection[Key], *, fresh: bool) -> dict[Key, str]:
        """The outcomes of a further run of these cells, each in a process of its own; kept under its ``number``."""
        store = self.repeats(number)
        found: dict[Key, str] = {}
        for device in sorted({key.device for key in keys}):
            pairs = frozenset((key.scenario, key.variant) for key in keys if key.device == device)
            chosen = Selection(variants=pairs, devices=frozenset({device}), fresh=fresh)
            records = self.ran(self.stack_run("fresh", store), chosen)
            found |= {key: record.outcome for key, record in records.items() if key in keys}
        return found

    def kept(self, number: int, keys: Collection[Key]) -> dict[Key, str]:
        """The outcomes of that further run as an earlier upgrade kept them, of the cells that it ran."""
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
        """The interpreter of the side's environment, which is this side's alone meanwhile."""
        python = self.side.given.interpreter
        if python is not None:
            yield python
            return
        environments = self.project.environments
        with environment.in_use(
            environments, self.name, partial(self.stage, "waiting for another run")
        ):
            self.stage("installing")
            waiting = partial(self.stage, "waiting for another stack to be installed")
            yield environment.ensure(self.side.lock, self.side.locks, environments, waiting).python

    def keep(self) -> None:
        """Mark the environment, so that no later upgrade tidies it away."""
        place = self.project.environments / self.name
        if place.is_dir():
            (place / KEPT).touch()


@contextlib.contextmanager
def both_installed(first: SideRun, second: SideRun) -> Iterator[tuple[Path, Path]]:
    """The interpreters of two sides, held meanwhile; one environment is held once, where both sides are the same.

    They are taken in the order of their names, so that of two upgrades none waits for the other for ever.
    """
    with contextlib.ExitStack() as held:
        pythons: dict[tuple[str, Path | None], Path] = {}
        for run in sorted((first, second), key=lambda run: run.name):
            if run.place not in pythons:
                pythons[run.place] = held.enter_context(run.installed())
        yield pythons[first.place], pythons[second.place]


def folder_of(project: Project) -> Path:
    """Where upgrades keep their records, locks and reports."""
    return project.work / "upgrade"


def in_place(python: Path, lock: Lock) -> Environment:
    """An environment of somebody else's; its build of torch is told by its label, or by what lies beside it."""
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
    """A cell without its stack."""
    return Key(cell.scenario, cell.variant, cell.device)


def changed(
    baseline: Mapping[Key, Record], candidate: Mapping[Key, Record]
) -> dict[Key, list[Key]]:
    """The cells that ran on both sides and ended in another way, each with all for which it stands.

    Those are the cells of a scenario that cannot be imported, which share the one import; every other one stands for
    itself alone.
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
        if phases & {Phase.RESOLVE, Phase.INSTALL}:
            continue
        found.setdefault((key.scenario, key.device) if Phase.IMPORT in phases else key, []).append(
            key
        )
    return {cells[0]: cells for cells in found.values()}


def ended(record: Record) -> tuple[object, ...]:
    """All that makes one ending another one."""
    return record.outcome, record.passed, record.passed or record.gradient


def with_partners(keys: Iterable[Key], scenarios: Iterable[Scenario]) -> set[Key]:
    """``keys`` and the variants that they must agree with: a disagreement takes two."""
    agree = {each.name: each.agree for each in scenarios}
    keys = set(keys)
    partners = {
        key._replace(variant=relation.first)
        for key in keys
        for relation in agree.get(key.scenario, ())
        if relation.second == key.variant
    }
    return keys | partners


def tidied(environments: Path, but: Collection[str]) -> None:
    """Delete what upgrades that were killed left of their environments: none that was kept, or is in use.

    Each is held while it goes: whoever wants it meanwhile waits, and installs it anew.
    """
    for left in environments.glob(f"{MARK}*"):
        if left.name in but or (left / KEPT).exists():
            continue
        with contextlib.suppress(InUse):
            environment.drop(environments, left.name, in_use)


class InUse(Exception):
    """Somebody else has this environment."""


def in_use() -> None:
    """Do not wait for whoever has it."""
    raise InUse


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
    folder = folder_of(project) / "locks"
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
    if reading.python is None or reading.python in {
        each.python for each in (given, other) if each is not None
    }:
        return
    raise UserError(
        f"--python {reading.python} has no effect on {word}.",
        cause=f"it has a Python of its own, {given.python}",
        next_step="leave it out: it is for a requirements file, a pyproject.toml, or a lock that leaves it open",
    )


def upgrade(
    project: Project, baseline: Resolved, candidate: Resolved, plan: Plan, progress: Progress
) -> Comparison:
    """Run both sides and compare them; what they took is given back, also where it is stopped."""
    runs = [SideRun(side, project, plan.scenarios, progress) for side in (baseline, candidate)]
    names = [run.name for run in runs]
    there = {name for name in names if (project.environments / name).exists()}
    tidied(project.environments, names)
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
        measured = measure(
            project,
            first,
            second,
            to_measure(before, after, plan.timing, plan.scenarios),
            plan.timing,
        )
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
    return {
        key: replace(each, cell=replace(each.cell, stack=name)) for key, each in records.items()
    }


Repeats = dict[Key, tuple[str, ...]]
Ran = tuple[tuple[SideRun, "Mapping[Key, Record]"], tuple[SideRun, "Mapping[Key, Record]"]]
"""Both sides with the records of their cells."""


def repeated(
    first: SideRun,
    second: SideRun,
    before: Mapping[Key, Record],
    after: Mapping[Key, Record],
    plan: Plan,
) -> tuple[Repeats, Repeats]:
    """The outcomes of further runs of the changed cells, as many on either side.

    Of cells that share a failed import one is run again for all; all are where it then ends in another way.
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
    """Whether the further runs of ``cell`` do not speak for ``key``: they disagree, or the import is not shared."""
    return key != cell and any(
        set(repeats[cell]) - {records[cell].outcome}
        or is_import(records[cell]) is not is_import(records[key])
        for (_, records), repeats in zip(sides, found, strict=True)
    )


def rounds(sides: Ran, keys: Collection[Key], plan: Plan) -> list[Repeats]:
    """The outcomes of further runs of these cells on each side; what an earlier upgrade kept is not run once more.

    Unless it disagreed: then all cells of that scenario are, which may have to agree with each other.
    """
    numbers = range(1, plan.repeats + 1) if keys else ()
    there = set.intersection(*(set(records) for _, records in sides))
    everything = with_partners(keys, plan.scenarios) & there
    open_ones = {(key.scenario, key.device) for key in everything if is_open(key, sides, numbers)}
    anew = {key for key in everything if (key.scenario, key.device) in open_ones}
    found: list[Repeats] = []
    for run, _ in sides:
        ended = []
        for number in numbers:
            run.stage(f"changed cells again, {number} of {plan.repeats}")
            kept = run.again(number, everything - anew, fresh=plan.selection.fresh)
            ended.append(kept | run.again(number, anew, fresh=True))
        found.append(
            {key: tuple(outcomes[key] for outcomes in ended if key in outcomes) for key in keys}
        )
    return found


def is_open(key: Key, sides: Ran, numbers: Iterable[int]) -> bool:
    """Whether what earlier upgrades kept of a cell's further runs disagrees with its record."""
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
    """The cells that train on both sides and are measured: the named ones, all, or a control of each scenario."""
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
    """Write the comparison into this checkout's upgrades; the file, named after the sides and ``parts`` that ran.

    Sides that are no stacks of the matrix may share a name: what they resolved to tells them apart.
    """
    words = " ".join(
        [f"{baseline.given.name} to {candidate.given.name}", *(["of", *parts] if parts else ())]
    )
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", words).strip("-.")[:120]
    if baseline.own or candidate.own:
        locks = f"{baseline.lock.stack} {candidate.lock.stack}"
        name += "-" + hashlib.sha256(locks.encode()).hexdigest()[:8]
    path = folder_of(project) / "reports" / name / "report.json"
    write_atomically(path, as_json(comparison))
    return path
