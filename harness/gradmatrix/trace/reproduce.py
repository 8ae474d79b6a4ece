"""``reproduce``: check whether a published verdict holds here.

The lock of its stack is installed and its cell is run. Its record does not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gradmatrix.core.errors import UserError
from gradmatrix.core.outcomes import DISAGREES, NO_DEVICE, Outcome
from gradmatrix.judge.relations import as_it_ran
from gradmatrix.judge.verdict import Verdict, passes
from gradmatrix.run import lookup
from gradmatrix.run.plan import Action, plan_cell
from gradmatrix.run.pool import server_pool
from gradmatrix.stacks import environment
from gradmatrix.stacks.environment import device_class

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradmatrix.core.model import Gradient, Lock, Record
    from gradmatrix.run.plan import Planned
    from gradmatrix.run.pool import Finished
    from gradmatrix.run.project import Project

CHANGED_INPUTS = {
    "scenario": "the scenario's code has changed since then",
    "observer": "the observer has changed since then",
    "judge": "the rules for verdicts have changed since then",
    "schema": "the format of records has changed since then",
}
"""A sentence for each input of which only a digest is recorded."""
SHOWN_INPUTS = {
    "device": "device",
    "steps": "steps (audited + warm-up + timed)",
    "threads": "threads",
}
"""The inputs of which both values are shown."""


@dataclass(frozen=True)
class Reproduced:
    """A published cell and its result here."""

    published: Record
    """The record of the run itself, without what was concluded from its relations to other cells.
    """
    outcome: str
    gradient: Gradient | None
    passed: bool | None
    message: str
    notes: tuple[str, ...]
    """What differs from the published run, and what was not compared."""

    @property
    def holds(self) -> bool:
        """Whether the verdict is the same: outcome, gradient status, and whether it passes."""
        then = self.published
        return (then.outcome, then.gradient, then.passed) == (
            self.outcome,
            self.gradient,
            self.passed,
        )


def reproduce(
    project: Project, record: Record, stage: Callable[[str], None] = lambda _: None
) -> Reproduced:
    """Install the lock of ``record``, run its cell and compare; nothing is resolved or recorded.

    Raises:
        UserError: if that cannot be done here.
        InstallFailed: if the machine could not install the lock.
    """
    lock = lookup.lock_of(record, project)
    planned = prepared(project, record, lock)
    build, seen = "", None
    if planned.action is Action.SETTLED:
        assert planned.outcome is not None
        verdict = Verdict(planned.outcome, None, planned.why)
    else:
        waiting = partial(stage, "waiting for another run of this stack")
        with environment.in_use(project.environments, lock.stack, waiting):
            stage(f"installing a lock of {len(lock.packages)} packages")
            try:
                installed = environment.ensure(
                    lock, project.locks_folder, project.environments, progress=stage
                )
            except environment.InstallFailed as error:
                verdict = failed_install(error)
            else:
                build = installed.build.value
                finished = run(project, planned, installed, stage)
                verdict = finished.verdict
                seen = finished.answer.observation if finished.answer else None
    if verdict.outcome.spurious:
        raise UserError(
            f"{record.cell} could not be run here: {verdict.outcome}.",
            cause=verdict.message,
            next_step="Fix this and run the command again.",
        )
    return Reproduced(
        published=as_it_ran(record),
        outcome=str(verdict.outcome),
        gradient=verdict.gradient,
        passed=passes(planned.variant.role, verdict, seen),
        message=verdict.message,
        notes=tuple(notes(record, planned.inputs, build)),
    )


def prepared(project: Project, record: Record, lock: Lock) -> Planned:
    """The cell of ``record``, ready to run here.

    Raises:
        UserError: if this machine or this checkout cannot run it.
    """
    scenario = lookup.scenario_of(record, project)
    settings = project.settings()
    if lock.failure is not None:
        raise UserError(
            f"Stack {lock.stack} has nothing to install: {lock.failure.outcome}.",
            cause=lock.failure.message,
            next_step=f"resolve it again: gradmatrix lock {lock.stack}",
        )
    planned = plan_cell(
        record.cell,
        lock,
        scenario,
        next(variant for variant in scenario.variants if variant.name == record.cell.variant),
        device_class=device_class(record.cell.device),
        steps=settings.steps,
        limits=settings.limits,
        known=None,
        fresh=True,
    )
    if planned.outcome == Outcome(NO_DEVICE):
        raise UserError(
            f"{record.cell} cannot be run here.",
            cause=planned.why,
            next_step="run it on a machine that has one, or name another device",
        )
    return planned


def run(
    project: Project,
    planned: Planned,
    installed: environment.Environment,
    stage: Callable[[str], None],
) -> Finished:
    """Run the one cell."""
    with server_pool(
        project.settings(),
        installed.python,
        [planned.scenario],
        project.work / "work",
        stage,
    ) as pool:
        ((_, finished, _),) = pool.run_cells([planned])
    return finished


def failed_install(error: environment.InstallFailed) -> Verdict:
    """The verdict on a stack that cannot be installed.

    Raises:
        InstallFailed: if that says something about the machine only.
    """
    outcome = Outcome(error.failure.outcome)
    if outcome.spurious:
        raise error
    return Verdict(outcome, None, error.failure.message)


def notes(record: Record, inputs: dict[str, str], build: str) -> list[str]:
    """What differs between the published run and this one, and what is not compared."""
    found = [
        words for name, words in CHANGED_INPUTS.items() if record.inputs.get(name) != inputs[name]
    ]
    for name, words in SHOWN_INPUTS.items():
        then = record.inputs.get(name, "unknown")
        if then != inputs[name]:
            found.append(f"different {words}: {then} then, {inputs[name]} here")
    if build and record.build and build != record.build:
        found.append(f"different build of torch: {record.build} then, {build} here")
    if record.outcome == DISAGREES:
        found.append(
            f"published as {DISAGREES}, which compares two cells ({record.message}); "
            "this one alone trains"
        )
    return found


def message_of(record: Record) -> str:
    """The message of a record, for a reader whose machine may be another one.

    A record of a cell without its device was made on a machine that its message calls "this
    machine". The message cannot be changed: it is part of the published records.
    """
    if record.outcome != NO_DEVICE:
        return record.message
    cell = record.cell
    return (
        f"The cell was not run, because the machine that made this record has no {cell.device} "
        f"device. To run it on a machine that has one: gradmatrix run {cell.stack} "
        f"--cell {cell.scenario}/{cell.variant} --device {cell.device}"
    )
