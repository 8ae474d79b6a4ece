"""One side of an upgrade run: its environment, its records, and cells of it again in fresh processes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from harness import environment, relations
from harness.builds import ONLY_CUDA, has_driver
from harness.devices import device_class
from harness.environment import Environment
from harness.measured import Key
from harness.model import Build, Stack
from harness.outcome import Outcome, Phase
from harness.plan import Action, Selection
from harness.resolution import MARK
from harness.run import StackRun, Summary, new_run_id
from harness.store import Store, newest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from harness.model import Cell, Lock, Record, Scenario
    from harness.plan import Planned
    from harness.pool import Isolation
    from harness.project import Project
    from harness.resolution import Resolved
    from harness.run import Progress

UNTRIED = {"setup:unsupported", "setup:no-device"}
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
            stack=Stack(name=lock.stack, python=lock.python, requirements=lock.requirements, as_of=lock.as_of),
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
        judged = relations.judged((found[cell] for cell in cells), {each.name: each for each in self.scenarios})
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
        return {key_of(record.cell): record.outcome for record in kept if key_of(record.cell) in keys}

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
        with environment.in_use(environments, self.name, partial(self.stage, "waiting for another run")):
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


def changed(baseline: Mapping[Key, Record], candidate: Mapping[Key, Record]) -> dict[Key, list[Key]]:
    """The cells that ran on both sides and ended in another way, each with all for which it stands.

    Those are the cells of a scenario that cannot be imported, which share the one import; every other one stands for
    itself alone.
    """
    found: dict[object, list[Key]] = {}
    for key, before in baseline.items():
        after = candidate.get(key)
        if after is None or ended(before) == ended(after) or UNTRIED & {before.outcome, after.outcome}:
            continue
        phases = {Outcome.parse(record.outcome).phase for record in (before, after)}
        if phases & {Phase.RESOLVE, Phase.INSTALL}:
            continue
        found.setdefault((key.scenario, key.device) if Phase.IMPORT in phases else key, []).append(key)
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
