"""Run the scenarios in an existing environment; nothing is installed and nothing is recorded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from gradmatrix.core.model import SHOWN, Gradient, Lock, Role
from gradmatrix.core.observation import Frozen
from gradmatrix.judge import versions
from gradmatrix.judge.causes import Remedy, remedy_on_its_stack
from gradmatrix.judge.diagnosis import diagnose
from gradmatrix.judge.relations import as_it_ran
from gradmatrix.judge.verdict import Verdict, passes
from gradmatrix.judge.versions import Likeness
from gradmatrix.judge.wording import Diagnosis
from gradmatrix.run import lookup
from gradmatrix.run.plan import Action, plan
from gradmatrix.run.pool import server_pool
from gradmatrix.stacks.environment import device_class, installed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from gradmatrix.core.model import Cell, Record, Scenario
    from gradmatrix.run.plan import Planned, Selection
    from gradmatrix.run.pool import Finished
    from gradmatrix.run.project import Project


class Checked(Frozen, frozen=True):
    """One cell of the environment, beside what is published about it."""

    scenario: str
    variant: str
    device: str
    role: Role
    outcome: str
    gradient: Gradient | None
    passed: bool | None
    """None if it was not judged: the environment has no such feature or device."""
    message: str
    nearest: str | None
    """The outcome on the nearest stack; None if it was not judged there."""
    nearest_passed: bool | None
    like: Likeness | None = None
    """Which published stacks fail in the same way; None if it did not fail."""
    diagnosis: Diagnosis | None = None
    remedy: Remedy | None = None
    """A variant that trains in this environment, or else on the nearest stack."""

    @property
    def as_nearest(self) -> bool:
        """Whether it has the same result here as on the nearest stack.

        Also True if one of the two was not judged.
        """
        if self.passed is None or self.nearest_passed is None:
            return True
        return (self.passed, self.outcome) == (self.nearest_passed, self.nearest) or (
            self.passed and self.nearest_passed
        )


class Report(Frozen, frozen=True):
    """All that a check found."""

    python: str
    versions: dict[str, str]
    nearest: str | None
    nearest_versions: dict[str, str]
    cells: tuple[Checked, ...]

    def failing(self, *, misuse: bool) -> list[Checked]:
        """The cells that failed; with ``misuse`` those that the environment is silent about."""
        return [
            cell
            for cell in self.cells
            if cell.passed is False and (cell.role is Role.MISUSE) is misuse
        ]

    def groups(self, *, misuse: bool) -> dict[str, list[Checked]]:
        """The failing cells by the published stacks that fail alike, largest group first."""
        found: dict[str, list[Checked]] = {}
        for cell in self.failing(misuse=misuse):
            found.setdefault(cell.like.words if cell.like else "", []).append(cell)
        return dict(sorted(found.items(), key=lambda each: -len(each[1])))

    @property
    def unjudged(self) -> list[Checked]:
        """The cells that were not judged: no such feature or device here."""
        return [cell for cell in self.cells if cell.passed is None]

    @property
    def better(self) -> list[Checked]:
        """The cells that pass here but not on the nearest stack."""
        return [cell for cell in self.cells if cell.passed and cell.nearest_passed is False]

    @property
    def unexpected(self) -> list[Checked]:
        """The cells that fail here, but not in the same way on the nearest stack."""
        return [cell for cell in self.cells if cell.passed is False and not cell.as_nearest]


@dataclass(frozen=True)
class Ran:
    """A cell of the environment that was run, and its outcome."""

    cell: Cell
    outcome: str


@dataclass(frozen=True)
class PublishedResults:
    """What is published, beside the versions of one environment: locks by age, and records."""

    here: versions.Versions
    locks: tuple[Lock, ...]
    records: Mapping[Cell, Record]

    @property
    def closest(self) -> Lock | None:
        """The nearest published stack."""
        return versions.nearest(self.here, self.locks)

    @classmethod
    def of(cls, lock: Lock, project: Project) -> PublishedResults:
        """``lock`` beside the checkout's results.

        Stacks with no judged cell, and those that run a part of the scenarios, are left out.
        """
        records = {cell: as_it_ran(record) for cell, record in lookup.published(project).items()}
        judged = {cell.stack for cell, record in records.items() if record.passed is not None}
        whole = project.comparable(project.known_locks())
        known = sorted(whole, key=lambda lock: (lock.as_of, lock.stack))
        locks = tuple(each for each in known if each.stack in judged and each.failure is None)
        return cls(versions.versions_of(lock), locks, records)


def check(
    project: Project,
    python: Path,
    selection: Selection,
    stage: Callable[[str], None] = lambda _: None,
) -> Report:
    """Run the selected cells in the environment of ``python`` and compare with the matrix."""
    settings = project.settings()
    lock = installed(python, settings.limits.threads)
    devices = {device: device_class(device) for device in project.matrix.run.devices}
    if selection.devices is None:
        devices = {device: kind for device, kind in devices.items() if kind is not None}
    cells = plan(
        lock,
        project.chosen_scenarios(),
        devices,
        steps=settings.steps,
        limits=settings.limits,
        recorded={},
        selection=selection,
    )
    published = PublishedResults.of(lock, project)
    closest = published.closest
    ended = run(project, python, cells, stage)
    ran = [Ran(cell, str(verdict.outcome)) for cell, (verdict, _) in ended.items()]
    remedies = partial(
        remedy,
        scenarios={s.name: s for s in project.chosen_scenarios()},
        ran=ran,
        published=published,
    )
    return Report(
        python=str(python),
        versions=_shown(lock),
        nearest=closest.stack if closest else None,
        nearest_versions=_shown(closest) if closest else {},
        cells=tuple(compared(cell, *ended[cell.cell], published, remedies) for cell in cells),
    )


def run(
    project: Project, python: Path, cells: Iterable[Planned], stage: Callable[[str], None]
) -> dict[Cell, tuple[Verdict, Finished | None]]:
    """The verdict on each cell, and what came back from those that were run."""
    found: dict[Cell, tuple[Verdict, Finished | None]] = {}
    to_run = []
    for cell in cells:
        if cell.action is Action.RUN:
            to_run.append(cell)
        else:
            assert cell.outcome is not None
            found[cell.cell] = Verdict(cell.outcome, None, cell.why), None
    with server_pool(
        project.settings(),
        python,
        [cell.scenario for cell in to_run],
        project.work / "work",
        stage,
    ) as pool:
        for cell, finished, _ in pool.run_cells(to_run):
            found[cell.cell] = finished.verdict, finished
    return found


def remedy(
    diagnosis: Diagnosis,
    cell: Cell,
    *,
    scenarios: Mapping[str, Scenario],
    ran: Iterable[Ran],
    published: PublishedResults,
) -> Remedy | None:
    """A variant that trains here, or else on the nearest published stack."""
    here = remedy_on_its_stack(diagnosis.cause, scenarios, ran, cell)
    if here is not None or published.closest is None:
        return here
    there = msgspec.structs.replace(cell, stack=published.closest.stack)
    found = remedy_on_its_stack(diagnosis.cause, scenarios, published.records.values(), there)
    return found and msgspec.structs.replace(found, same_stack=False)


def compared(
    planned: Planned,
    verdict: Verdict,
    finished: Finished | None,
    published: PublishedResults,
    remedies: Callable[[Diagnosis, Cell], Remedy | None],
) -> Checked:
    """A cell that has ended, beside what is published about it."""
    seen = finished.answer.observation if finished and finished.answer else None
    passed = passes(planned.variant.role, verdict, seen)
    cell = planned.cell
    column = {
        lock.stack: published.records.get(msgspec.structs.replace(cell, stack=lock.stack))
        for lock in published.locks
    }
    there = column.get(published.closest.stack) if published.closest else None
    likeness: Likeness | None = None
    if passed is False:
        stacks = {lock.stack: versions.versions_of(lock) for lock in published.locks}
        likeness = versions.like(
            str(verdict.outcome),
            filter(None, column.values()),
            stacks,
            published.here,
            planned.variant.needs,
        )
    diagnosis = diagnose(seen) if seen is not None and passed is False else None
    return Checked(
        scenario=cell.scenario,
        variant=cell.variant,
        device=cell.device,
        role=planned.variant.role,
        outcome=str(verdict.outcome),
        gradient=verdict.gradient,
        passed=passed,
        message=verdict.message,
        nearest=there.outcome if there else None,
        nearest_passed=there.passed if there else None,
        like=likeness,
        diagnosis=diagnosis,
        remedy=remedies(diagnosis, cell) if diagnosis is not None else None,
    )


def _shown(lock: Lock) -> dict[str, str]:
    return {name: version for name in SHOWN if (version := lock.version(name))}
