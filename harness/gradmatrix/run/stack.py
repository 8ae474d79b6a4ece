"""The table of contents: plan, lock, install, launch, verdict, store."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from gradmatrix.core import files
from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Cell, Failure, Lock, Record, Role, Scenario, Stack
from gradmatrix.core.observation import SCHEMA
from gradmatrix.core.outcomes import Outcome
from gradmatrix.judge.verdict import Verdict, passes
from gradmatrix.run.plan import Action, Planned, Selection, plan
from gradmatrix.run.pool import ServerPool, Settings, Source
from gradmatrix.stacks import environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from gradmatrix.run.pool import Finished

MESSAGE_LIMIT = 500
RESOLVERS_LIMIT = 5000
"""Characters of an explanation that fills a column: nothing else holds the rest of it."""


class Progress(Protocol):
    """What a run tells whoever watches it."""

    def stage(self, stack: str, text: str) -> None:
        """The run turned to something that takes a while: installing, importing."""

    def planned(self, stack: str, cells: list[Planned]) -> None:
        """These cells are about to be run, kept or settled."""

    def ended(self, record: Record, output: str) -> None:
        """A cell ended and was recorded; ``output`` is the end of what it printed."""


class Records(Protocol):
    """Where a run reads and writes records."""

    def append(self, record: Record) -> None:
        """Add a record; on disk when this returns."""

    def recorded_here(self, stack: str) -> dict[Cell, Record]:
        """The newest record of each cell."""

    def recorded_under(self, stack: str) -> dict[tuple[Cell, str], Record]:
        """The newest record of each cell and key."""


@dataclass(frozen=True)
class Summary:
    """What one stack's run did, and what it cost in seconds."""

    stack: str
    executed: int = 0
    kept: int = 0
    settled: int = 0
    import_s: float = 0.0
    cells_s: float = 0.0
    notice: str = ""


@dataclass(frozen=True)
class StackRun:
    """One stack's run: everything it needs, so that each step is a small method."""

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

    def execute(self, selection: Selection) -> Summary:
        """Run what has to be run and record every cell; a stack that cannot be installed fills its column.

        Whoever runs cells of a stack has its environment to himself: a second run of it waits, and then plans anew.
        """
        cells = self.plan(selection)
        if self.lock.failure is not None or all(cell.action is not Action.RUN for cell in cells):
            return self.carry_out(cells)
        waiting = partial(self.stage, "waiting for another run of this stack")
        with environment.in_use(self.environments, self.stack.name, waiting):
            return self.carry_out(self.plan(selection))

    def carry_out(self, cells: list[Planned]) -> Summary:
        """Do about each cell what was planned."""
        self.progress.planned(self.stack.name, cells)
        kept = sum(cell.action is Action.KEEP for cell in cells)
        if self.lock.failure is not None:
            return self.fill(
                [cell for cell in cells if cell.action is not Action.KEEP], self.lock.failure, kept
            )
        self.revive(cells)
        settled = [self.settle(cell) for cell in cells if cell.action is Action.SETTLED]
        summary = Summary(self.stack.name, kept=kept, settled=len(settled))
        to_run = [cell for cell in cells if cell.action is Action.RUN]
        if not to_run:
            return summary
        self.stage("installing")
        waiting = partial(self.stage, "waiting for another stack to be installed")
        try:
            installed = environment.ensure(self.lock, self.locks, self.environments, waiting)
        except environment.InstallFailed as error:
            filled = self.fill(to_run, error.failure, kept)
            return replace(filled, settled=len(settled))
        import_s, cells_s = self.run_cells(to_run, installed)
        notice = installed.notice if installed.installed else None
        return replace(
            summary, executed=len(to_run), import_s=import_s, cells_s=cells_s, notice=notice or ""
        )

    def stage(self, text: str) -> None:
        """Tell whoever watches what takes a while now."""
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
        """Make kept records the newest ones again, where a stack was changed, run, and changed back."""
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
                next_step="mend that and run the same command again; what has been recorded is kept",
            )
        return Summary(self.stack.name, settled=len(cells), kept=kept, notice=failure.message)

    def settle(self, cell: Planned) -> Record:
        """Record an outcome that is known without running anything."""
        assert cell.outcome is not None
        return self.record(cell, Verdict(cell.outcome, None, cell.why))

    def run_cells(
        self, cells: list[Planned], installed: environment.Environment
    ) -> tuple[float, float]:
        """Run ``cells`` in ``installed``; the seconds spent importing and the seconds spent in the cells."""
        with workplace(self.workplaces, self.run_id) as directory:
            sources = {Source.of(cell.scenario) for cell in cells}
            pool = ServerPool(self.settings, installed.python, sources, directory, self.stage)
            try:
                for number, cell in enumerate(cells):
                    self.stage(f"{cell.scenario.name} {cell.variant.name}")
                    finished = pool.run(cell, directory / f"cell-{number}")
                    record = self.record(
                        cell, finished.verdict, finished, build=installed.build.value
                    )
                    self.progress.ended(record, finished.output)
                    shutil.rmtree(directory / f"cell-{number}", ignore_errors=True)
            finally:
                pool.close()
            return pool.import_s, pool.cells_s

    def record(
        self,
        cell: Planned,
        verdict: Verdict,
        finished: Finished | None = None,
        *,
        build: str = "",
        message_limit: int = MESSAGE_LIMIT,
    ) -> Record:
        """Append one cell's record to the journal."""
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
        )
        self.store.append(record)
        return record


def new_run_id() -> str:
    """A name for this run that sorts by time."""
    return f"{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%S}-{os.getpid()}"


@contextmanager
def workplace(folder: Path, run_id: str) -> Iterator[Path]:
    """A folder for the files of the protocol; what killed runs left beside it is deleted."""
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob("*.lock"):
        if not files.is_held(left):
            shutil.rmtree(left.with_suffix(""), ignore_errors=True)
            left.unlink(missing_ok=True)
    own = folder / f"{run_id}.lock"
    with files.held(own):
        directory = own.with_suffix("")
        directory.mkdir(exist_ok=True)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)
            with contextlib.suppress(
                OSError
            ):  # Windows does not delete what is open; the next run does
                own.unlink()


def failed(records: Iterable[Record]) -> list[Record]:
    """The records of judged cells that did not pass, misuse after the rest."""
    return sorted(
        (record for record in records if record.passed is False),
        key=lambda record: (record.role is Role.MISUSE, record.cell),
    )
