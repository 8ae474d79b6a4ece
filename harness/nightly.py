"""The scheduled run in its parts: shards are planned, run and merged; the whole can be rehearsed on one machine."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from harness import merge, publication
from harness.admission import Here
from harness.errors import UserError
from harness.plan import Action, Selection
from harness.project import NoSuchRelease, Project
from harness.publish.document import Document
from harness.shards import Due, Listed, Shards, expected, pack
from harness.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from harness.merge import Found
    from harness.model import Stack
    from harness.plan import Planned
    from harness.publish.rows import Row
    from harness.run import Progress, Summary
    from harness.shards import Shard


def planned(
    project: Project, stacks: Sequence[Stack], progress: Progress, *, since_published: bool
) -> tuple[list[Planned], list[NoSuchRelease]]:
    """What would be done about each cell of ``stacks``, and those that ask for a release that there is not.

    Nothing is run or recorded. A record counts as known where this checkout's journal has it; with ``since_published``
    where it is published, whoever ran it: a fresh clone has no journal. NoSuchRelease where no stack is left.
    """
    known = Store(project.store.published, project.store.published) if since_published else None
    cells: list[Planned] = []
    missing: list[NoSuchRelease] = []
    for stack in stacks:
        try:
            cells += project.stack_run(stack, progress, store=known).plan(Selection())
        except NoSuchRelease as error:
            missing.append(error)
            if len(missing) == len(stacks):
                raise
    return cells, missing


def shards(project: Project, cells: Iterable[Planned], jobs: int, setting_up_s: float) -> Shards:
    """The cells that must run, packed by what is known of their durations from any machine."""
    cells = list(cells)
    due = [Due(cell=cell.cell, key=cell.key) for cell in cells if cell.action is Action.RUN]
    stacks = dict.fromkeys(each.cell.stack for each in due)
    recorded = {cell: r for stack in stacks for cell, r in project.store.of_stack(stack).items()}  # of any lock
    seconds = expected((each.cell for each in due), recorded)
    return Shards(schema=1, shards=pack(due, seconds, jobs, setting_up_s), settled=len(settled(cells)))


def settled(cells: Iterable[Planned]) -> list[Planned]:
    """The cells of which a new outcome is known without running them."""
    return [cell for cell in cells if cell.action is Action.SETTLED]


def settle(project: Project, cells: Iterable[Planned], progress: Progress) -> None:
    """Record in ``project`` what is known without running: the share of the work that is no job's."""
    by_stack: dict[str, list[Planned]] = {}
    for cell in settled(cells):
        by_stack.setdefault(cell.cell.stack, []).append(cell)
    for name, members in by_stack.items():
        project.stack_run(project.matrix.stack(name), progress).carry_out(members)


def read(path: Path) -> Shards:
    """The plan in ``path``; UserError where there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Shards)
    except (OSError, msgspec.MsgspecError) as error:
        raise UserError(
            f"The shards in {path.name} cannot be read: {error}.",
            cause="it is not what gradmatrix shards writes, or what another release wrote",
            next_step="plan again: nox -s shards -- --output FILE",
        ) from error


def run_shard(project: Project, shard: Shard, progress: Progress) -> Summary:
    """Run the cells of one shard and record them in ``project``; UserError where they are others here than planned."""
    run = project.stack_run(project.matrix.stack(shard.stack), progress)
    selection = Listed(cells=frozenset(due.cell for due in shard.cells))
    here = {cell.cell: cell.key for cell in run.plan(selection)}
    other = [due.cell for due in shard.cells if here.get(due.cell) != due.key]
    if other:
        raise UserError(
            f"Shard {shard.name} was planned for something else: {other[0]} has another key here.",
            cause="the lock, a scenario, the harness or the device is not that of the plan",
            next_step="run it on the commit and with the results/locks of the plan, or plan again",
        )
    return run.execute(selection)


def merged(
    project: Project, folders: Sequence[Path], progress: Progress, plan: Shards | None = None
) -> tuple[Found, int]:
    """Take the records below ``folders`` into the journal of ``project``: what was found, and how many were new.

    With a ``plan`` only what it asked for is taken: of each shard its own cells, and what is known without running.
    """
    here = Here(
        stacks={stack.name for stack in project.matrix.stacks},
        roles={(s.name, v.name): v.role for s in project.chosen_scenarios() for v in s.variants},
        devices=project.matrix.run.devices,
        now=dt.datetime.now(dt.UTC),
    )
    found = merge.found_in(folders, here, plan)

    def waiting(stack: str) -> None:
        progress.stage(stack, "waiting for another run of this stack")

    return found, merge.take(found.records, project.store, project.environments, waiting)


@dataclass(frozen=True)
class Rehearsal:
    """What a rehearsal did, and where the two ways gave something else."""

    shards: tuple[Shard, ...]
    ran: int
    """Cells that ran in the shards."""
    cells: int
    """Cells that were published."""
    differences: tuple[str, ...]


def rehearse(
    project: Project, stacks: Sequence[Stack], progress: Progress, *, jobs: int, setting_up_s: float
) -> Rehearsal:
    """Run ``stacks`` plainly, and again as a night does, each in its own folder below the results of ``project``.

    ``results/`` and the checkout's journal are neither read nor written; installed stacks are used as they are.
    UserError where no cell ran in a shard: nothing was rehearsed then.
    """

    def apart(name: str) -> Project:
        return Project.at(project.root, matrix_file=project.matrix_file, results=project.results / name)

    plain, night, idle = apart("plain"), apart("merged"), apart("settled")
    for stack in stacks:
        plain.stack_run(stack, progress).execute(Selection())
    cells, _ = planned(night, stacks, progress, since_published=True)  # the plain run above stops at a missing release
    plan = shards(plain, cells, jobs, setting_up_s)
    settle(idle, cells, progress)
    of_shards = {shard: apart(f"shards/{shard.name}") for shard in plan.shards}
    ran = sum(run_shard(each, shard, progress).executed for shard, each in of_shards.items())
    if not ran:
        raise UserError(
            "Nothing was rehearsed: no cell of these stacks ran in a shard.",
            cause="they could not be resolved or installed, or all that is asked of them is known without running",
            next_step="name a stack that runs here",
        )
    folders = [each.results for each in of_shards.values()] + [idle.results] * bool(plan.settled)
    merged(night, folders, progress, plan)
    ours, theirs = published(plain), published(night)
    return Rehearsal(plan.shards, ran, len(ours.cells), tuple(differences(ours, theirs)))


def published(project: Project) -> Document:
    """What ``project`` publishes as ``matrix.json``."""
    publication.publish(project)
    return msgspec.json.decode((project.results / "matrix.json").read_bytes(), type=Document)


def differences(plain: Document, merged: Document) -> list[str]:
    """A sentence for each stack (its build) and cell of which two matrices say something else, measurements apart."""
    stacks = zip(plain.stacks, merged.stacks, strict=True)
    found = [f"{ours.name}: plain {ours.build}, merged {theirs.build}" for ours, theirs in stacks if ours != theirs]
    one, other = ({row.cell: comparable(row) for row in each.cells} for each in (plain, merged))
    for cell in sorted(one.keys() | other.keys()):
        if cell not in one or cell not in other:
            found.append(f"{cell}: only {'plain' if cell in one else 'merged'}")
            continue
        pairs = [(name, one[cell][name], other[cell][name]) for name in one[cell]]
        unlike = [f"{name}: plain {ours}, merged {theirs}" for name, ours, theirs in pairs if ours != theirs]
        if unlike:
            found.append(f"{cell}: {'; '.join(unlike)}")
    return found


MEASURED = {"recorded_at", "steps_per_s", "peak_memory_bytes"}
"""All of a row that depends on when and where it was run."""


def comparable(row: Row) -> dict[str, object]:
    """All of a row that must not depend on where and when it was run; its warnings in no order."""
    fields = {name: value for name, value in msgspec.structs.asdict(row).items() if name not in MEASURED}
    return {**fields, "warnings": sorted(row.warnings)}
