"""Run one stack: plan its cells, install its lock, run the cells, record each one.

Where the lock is installed and the cells run is the run's *place*: this machine (:func:`here`), an
environment that is used as it is (:func:`cells_in`), or a node of a cluster (``run/ray.py``).
Where many stacks run is a :class:`Machines`.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Cell, Failure, Lock, Record, Reference, Role, Scenario, Stack
from gradmatrix.core.observation import SCHEMA
from gradmatrix.core.outcomes import Outcome
from gradmatrix.core.text import counted
from gradmatrix.judge.verdict import Verdict, passes
from gradmatrix.run import reference
from gradmatrix.run.ahead import Ahead
from gradmatrix.run.plan import Action, Planned, Selection, plan
from gradmatrix.run.pool import server_pool
from gradmatrix.stacks import environment, metadata
from gradmatrix.stacks.lock import NeedsBuild

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from gradmatrix.run.pool import Finished, Importing, Settings

Given = TypeVar("Given")
Result = TypeVar("Result")
MESSAGE_LIMIT = 500
RESOLVERS_LIMIT = 5000
"""Characters of the explanation why a whole stack failed; no other place has it."""
REPEATS_LIMIT = 20
"""How many earlier outcomes a record keeps."""


class Progress(Protocol):
    """What a run reports while it lasts."""

    def stage(self, stack: str, text: str) -> None:
        """The run started something that takes a while, such as installing."""

    def planned(self, stack: str, cells: list[Planned]) -> None:
        """These cells are about to be run, kept or settled."""

    def ended(self, record: Record, output: str) -> None:
        """A cell ended and was recorded; ``output`` is the end of what it printed."""


class Records(Protocol):
    """Where a run reads and writes records."""

    def in_use(self, stack: str, waiting: Callable[[], object]) -> AbstractContextManager[None]:
        """Hold the records of a stack: a second run waits."""

    def append(self, record: Record) -> None:
        """Add a record; on disk when this returns."""

    def recorded_here(self, stack: str) -> dict[Cell, Record]:
        """The newest record of each cell."""

    def recorded_under(self, stack: str) -> dict[tuple[Cell, str], Record]:
        """The newest record of each cell and key."""


@dataclass(frozen=True)
class Summary:
    """What one stack's run did, with times in seconds."""

    stack: str
    executed: int = 0
    kept: int = 0
    settled: int = 0
    import_s: float = 0.0
    cells_s: float = 0.0
    repeated: Mapping[str, int] = field(default_factory=dict)
    """How often the machine's failures made a repeat necessary, by outcome."""
    notice: str = ""

    def after(self, ran: Ran) -> Summary:
        """The summary after one more cell."""
        return replace(
            self,
            executed=self.executed + 1,
            import_s=self.import_s + ran.import_s,
            cells_s=self.cells_s + ran.cells_s,
            repeated=Counter(self.repeated) + Counter(ran.repeated),
            notice=ran.notice or self.notice,
        )


@dataclass(frozen=True)
class Ran:
    """A cell that ran, and what was spent since the cell before it, in seconds."""

    cell: Cell
    finished: Finished
    build: str = ""
    notice: str = ""
    """Of an environment that was installed just now."""
    import_s: float = 0.0
    cells_s: float = 0.0
    repeated: Mapping[str, int] = field(default_factory=dict)
    reference: Reference | None = None


Place = Callable[["StackRun", list[Planned]], Generator[Ran]]
"""Runs cells of a stack, and yields each one when it ends; InstallFailed if it cannot."""


class Machines(Protocol):
    """Where stacks run: on this machine, or on the nodes of a cluster (``run/ray.py``)."""

    @property
    def at_once(self) -> int:
        """How many stacks can run side by side."""

    @property
    def spare(self) -> int:
        """How many further stacks can be made ready while one runs."""

    def placed(self, run: StackRun) -> StackRun:
        """The run with its place, and with the devices that are there."""

    def side_by_side(
        self, do: Callable[[Given], Result], these: Iterable[Given]
    ) -> Iterator[Result]:
        """Do something with each of these; yield each result when it is there."""

    def ahead(
        self, run: StackRun, coming: Iterable[StackRun], selection: Selection
    ) -> AbstractContextManager[None]:
        """While ``run`` executes, make stacks ready that may be next.

        What fails is told at its turn. ``coming`` may be read in another thread.
        """

    def executed(
        self, runs: Iterable[StackRun], selection: Selection
    ) -> Iterator[tuple[Lock, Summary]]:
        """Execute stacks of the matrix; yield each when it has ended."""


def here(run: StackRun, cells: list[Planned], ahead: Ahead | None = None) -> Generator[Ran]:
    """Run ``cells`` on this machine. Only one run may use the environment of a stack.

    With ``ahead`` the stack may be installed already, and the next one is installed meanwhile.
    """
    ahead = ahead or Ahead()
    run.stage(f"installing a lock of {counted(len(run.lock.packages), 'package')}")
    just_now = ahead.finish(run.stage)
    waiting = partial(run.stage, "waiting for another run of this stack")
    with environment.in_use(run.environments, run.stack.name, waiting):
        waiting = partial(run.stage, "waiting for another stack to be installed")
        installed = environment.ensure(
            run.lock, run.locks, run.environments, waiting, progress=run.stage
        )
        installed = replace(installed, installed=installed.installed or just_now)
        ahead.begin(after=run.stack.name)
        yield from cells_in(installed, run, cells, ahead.running)
        if run.metadata is not None:
            metadata.keep(run.environments / run.stack.name, run.metadata)


def cells_in(
    installed: environment.Environment,
    run: StackRun,
    cells: list[Planned],
    importing: Importing = nullcontext,
) -> Generator[Ran]:
    """Run ``cells`` in an environment that is installed; see ``server_pool`` for ``importing``."""
    with server_pool(
        run.settings,
        installed.python,
        [cell.scenario for cell in cells],
        run.workplaces,
        run.stage,
        run_id=run.run_id,
        importing=importing,
    ) as pool:
        build, notice = installed.build.value, (installed.installed and installed.notice) or ""
        before = reference.sample()
        for cell, finished, _ in pool.run_cells(cells):
            beside: Reference | None = None
            if is_timed(cell.cell, finished):
                after = reference.sample()
                beside, before = Reference(reference.program(), before, after), after
            spent = pool.spent()
            yield Ran(cell.cell, finished, build, notice, *spent, reference=beside)


def is_timed(cell: Cell, finished: Finished) -> bool:
    """Whether a cell has step times that the speed of the processor explains."""
    seen = finished.answer.observation if finished.answer else None
    return cell.device == "cpu" and seen is not None and bool(seen.step_times_s)


@dataclass(frozen=True)
class StackRun:
    """The run of one stack, with everything that it needs."""

    stack: Stack
    lock: Lock
    scenarios: tuple[Scenario, ...]
    devices: Mapping[str, str | None]
    settings: Settings
    store: Records
    locks: Path
    environments: Path
    workplaces: Path
    progress: Progress
    run_id: str
    place: Place = here
    metadata: Path | None = None
    """Where to keep what the installed packages say about themselves; None for nowhere."""
    drop: bool = False
    """Whether the environment is deleted after the cells."""

    def execute(self, selection: Selection) -> Summary:
        """Run what must be run and record every cell.

        If the stack cannot be installed, that is the outcome of all its cells. Only one run may
        write a stack's records. A second run waits for the first and then makes its plan.
        """
        cells = self.plan(selection)
        if self.lock.failure is not None or all(cell.action is not Action.RUN for cell in cells):
            return self.carry_out(cells)
        waiting = partial(self.stage, "waiting for another run of this stack")
        with self.store.in_use(self.stack.name, waiting):
            return self.carry_out(self.plan(selection))

    def carry_out(self, cells: list[Planned]) -> Summary:
        """Do what was planned for each cell."""
        self.progress.planned(self.stack.name, cells)
        kept = sum(cell.action is Action.KEEP for cell in cells)
        if self.lock.failure is not None:
            return self.fill(
                [cell for cell in cells if cell.action is not Action.KEEP], self.lock.failure, kept
            )
        self.revive(cells)
        settled = [self.settle(cell) for cell in cells if cell.action is Action.SETTLED]
        summary = Summary(self.stack.name, kept=kept, settled=len(settled))
        to_run = {cell.cell: cell for cell in cells if cell.action is Action.RUN}
        if not to_run:
            return summary
        before = self.store.recorded_under(self.stack.name)
        try:
            with closing(self.place(self, list(to_run.values()))) as place:
                for ran in place:
                    cell = to_run.pop(ran.cell)
                    record = self.record(
                        cell,
                        ran.finished.verdict,
                        ran.finished,
                        build=ran.build,
                        reference=ran.reference,
                        before=before.get((cell.cell, cell.key)),
                    )
                    self.progress.ended(record, ran.finished.output)
                    summary = summary.after(ran)
        except environment.InstallFailed as error:
            self.fill(list(to_run.values()), error.failure, kept)
            return replace(summary, notice=error.failure.message)
        return summary

    def stage(self, text: str) -> None:
        """Report what takes a while now."""
        self.progress.stage(self.stack.name, text)

    def plan(self, selection: Selection) -> list[Planned]:
        """The selected cells of this stack."""
        newest = self.store.recorded_here(self.stack.name)

        def planned(recorded: Mapping[Cell, Record]) -> list[Planned]:
            return plan(
                self.lock,
                self.scenarios,
                self.devices,
                steps=self.settings.steps,
                limits=self.settings.limits,
                recorded=recorded,
                selection=selection,
            )

        by_key = self.store.recorded_under(self.stack.name)
        same = {
            cell.cell: by_key[cell.cell, cell.key]
            for cell in planned(newest)
            if (cell.cell, cell.key) in by_key
        }
        return planned({**newest, **same})

    def revive(self, cells: Iterable[Planned]) -> None:
        """Make kept records the newest again: a stack may be changed, run and changed back."""
        newest = self.store.recorded_here(self.stack.name)
        by_key = self.store.recorded_under(self.stack.name)
        for cell in cells:
            if cell.action is Action.KEEP and newest[cell.cell].key != cell.key:
                kept = by_key[cell.cell, cell.key]
                self.store.append(
                    msgspec.structs.replace(kept, recorded_at=dt.datetime.now(dt.UTC))
                )

    def fill(self, cells: list[Planned], failure: Failure, kept: int) -> Summary:
        """Record the stack's own failure in each of ``cells``."""
        verdict = Verdict(Outcome(failure.outcome), None, failure.message)
        for cell in cells:
            self.record(cell, verdict, message_limit=RESOLVERS_LIMIT)
        if verdict.outcome.spurious:
            raise UserError(
                f"Stack {self.stack.name} was not judged: {failure.outcome}.",
                cause=failure.message,
                next_step="Fix this and run the command again. Finished cells are kept.",
            )
        return Summary(self.stack.name, settled=len(cells), kept=kept, notice=failure.message)

    def settle(self, cell: Planned) -> Record:
        """Record an outcome that is known without running anything."""
        assert cell.outcome is not None
        return self.record(cell, Verdict(cell.outcome, None, cell.why))

    def record(
        self,
        cell: Planned,
        verdict: Verdict,
        finished: Finished | None = None,
        *,
        build: str = "",
        reference: Reference | None = None,
        before: Record | None = None,
        message_limit: int = MESSAGE_LIMIT,
    ) -> Record:
        """Append one cell's record to the journal; ``before`` is its last one with the same key."""
        observation = finished.answer.observation if finished and finished.answer else None
        record = Record(
            schema=SCHEMA,
            cell=cell.cell,
            role=cell.variant.role,
            key=cell.key,
            outcome=str(verdict.outcome),
            passed=passes(cell.variant.role, verdict, observation),
            gradient=verdict.gradient,
            message=verdict.message[:message_limit],
            recorded_at=dt.datetime.now(dt.UTC),
            run=self.run_id,
            isolation=finished.isolation if finished else "none",
            inputs=cell.inputs,
            build=build,
            observation=observation,
            repeats=(before.judged_runs[-REPEATS_LIMIT:] if before else ()) or msgspec.UNSET,
            reference=reference or msgspec.UNSET,
        )
        self.store.append(record)
        return record


@dataclass(frozen=True)
class ThisMachine:
    """Stacks run here, one after the other."""

    first: Ahead = field(default_factory=Ahead)
    """Installs the next stack of the matrix."""
    at_once: int = field(default=1, init=False)
    spare: int = field(default=2, init=False)

    def placed(self, run: StackRun) -> StackRun:
        """See Machines."""
        return run

    def side_by_side(
        self, do: Callable[[Given], Result], these: Iterable[Given]
    ) -> Iterator[Result]:
        """See Machines."""
        return map(do, these)

    @contextmanager
    def ahead(
        self, run: StackRun, coming: Iterable[StackRun], _selection: Selection
    ) -> Iterator[None]:
        """Install them. The wait at the end is for one install at most."""
        over = Event()

        def install() -> None:
            for each in coming:
                if over.is_set():
                    return
                installed(each)

        run.stage("installing")
        installed(run)  # first: what runs now must not wait for what may run next
        thread = Thread(target=install)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def executed(
        self, runs: Iterable[StackRun], selection: Selection
    ) -> Iterator[tuple[Lock, Summary]]:
        """See Machines. An error ends it."""
        for run in runs:
            placed = replace(run, place=partial(here, ahead=self.first))
            yield run.lock, placed.execute(selection)
            if run.drop:
                environment.drop(run.environments, run.stack.name)


def installed(run: StackRun) -> None:
    """Install a stack if that is possible."""
    with suppress(environment.InstallFailed, NeedsBuild, UserError):
        waiting = partial(run.stage, "waiting for another run of this stack")
        with environment.in_use(run.environments, run.stack.name, waiting):
            environment.ensure(run.lock, run.locks, run.environments)


def failed(records: Iterable[Record]) -> list[Record]:
    """The records of judged cells that did not pass; misuse comes last."""
    return sorted(
        (record for record in records if record.passed is False),
        key=lambda record: (record.role is Role.MISUSE, record.cell),
    )
