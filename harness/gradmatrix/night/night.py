"""The nightly run: plan jobs, run each on its own machine, check what comes back, and merge it.

A stack's packages are other people's code. They can write anything into the file that a job leaves.
So a record from another machine is checked before it is accepted (``distrust``). The observation is
believed; the verdict is computed again here.

The whole night can be rehearsed on one machine (``rehearse``).
"""

from __future__ import annotations

import datetime as dt
import heapq
import math
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Literal

import msgspec

from gradmatrix.core.errors import UserError
from gradmatrix.core.files import NOT_READABLE, read_lines
from gradmatrix.core.model import Cell
from gradmatrix.core.observation import Frozen
from gradmatrix.core.outcomes import LIMIT_OF, NO_DEVICE, NOT_INSTALLED, UNSUPPORTED, Outcome, Phase
from gradmatrix.judge.relations import as_it_ran
from gradmatrix.judge.verdict import Verdict, judge_observation, passes
from gradmatrix.publish import publication
from gradmatrix.publish.formats import Document
from gradmatrix.publish.rows import without_measurements
from gradmatrix.run import store
from gradmatrix.run.plan import Action, Listed, Selection, check_keys, key_of
from gradmatrix.run.project import Project
from gradmatrix.run.stack import MESSAGE_LIMIT, RESOLVERS_LIMIT
from gradmatrix.run.store import Store
from gradmatrix.stacks.lock import CannotLock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from gradmatrix.core.model import Record, Role, Stack
    from gradmatrix.publish.rows import Row
    from gradmatrix.run.plan import Planned
    from gradmatrix.run.stack import Progress, Summary

SESSIONS = "nox -t all --list --json > sessions.json"
AHEAD = dt.timedelta(hours=1)
"""The clocks of two machines may differ by this much."""
UNSEEN = frozenset({Phase.RESOLVE, Phase.INSTALL, Phase.IMPORT, Phase.PROCESS})
"""Phases in which a cell may end without an observation."""
NEVER_RUN = frozenset({UNSUPPORTED, NO_DEVICE})
"""Outcomes of the other phases that are known without an observation."""


# ---- Plan: whole stacks are dealt out to jobs


class Due(Frozen, frozen=True):
    """A cell that must run, with the key under which it was planned."""

    cell: Cell
    key: str


class Shard(Frozen, frozen=True):
    """One job: all cells of one or more stacks that must run."""

    name: str
    cells: tuple[Due, ...]

    @property
    def stacks(self) -> tuple[str, ...]:
        """The stacks that the job installs, in the order of its cells."""
        return tuple(dict.fromkeys(due.cell.stack for due in self.cells))


class Shards(Frozen, frozen=True):
    """What ``gradmatrix shards`` writes and ``gradmatrix shard`` reads."""

    schema: Literal[2]
    shards: tuple[Shard, ...]
    settled: int
    """Cells with a new outcome that is known without running them."""

    def named(self, name: str) -> Shard:
        """The shard called ``name``; UserError for an unknown name."""
        for shard in self.shards:
            if shard.name == name:
                return shard
        names = ", ".join(shard.name for shard in self.shards)
        raise UserError(
            f"There is no shard {name!r} in the plan.",
            cause=f"it has {names}" if names else "it has none: every cell is recorded",
            next_step="name one of these, or plan again: nox -s shards",
        )


def stacks_of(sessions: bytes) -> list[str]:
    """The stacks of the sessions that ``nox --list --json`` prints.

    Raises:
        UserError: if ``sessions`` is not such a list, or names no stack.
    """
    try:
        listed = msgspec.json.decode(sessions, type=list[dict[str, object]])
        found = [re.fullmatch(r"matrix\((.+)\)", str(session["session"])) for session in listed]
    except (*NOT_READABLE, KeyError) as error:
        raise UserError(
            "The sessions cannot be read.",
            cause=f"they are not the output of nox --list --json: {error}",
            next_step=SESSIONS,
        ) from error
    stacks = list(dict.fromkeys(match[1] for match in found if match))
    if not stacks:
        raise UserError(
            "The sessions name no stack.",
            cause="none of them is called matrix(NAME)",
            next_step=SESSIONS,
        )
    return stacks


def planned(
    project: Project, stacks: Sequence[Stack], progress: Progress, *, since_published: bool
) -> tuple[list[Planned], list[CannotLock]]:
    """What would be done for each cell of ``stacks``; nothing is run or recorded.

    A record counts as known if it is in this checkout's journal; with ``since_published`` if it is
    published, since a fresh clone has no journal.

    Returns:
        The cells, and the errors of stacks that cannot be locked.

    Raises:
        CannotLock: if no stack is left.
    """
    known = Store(project.store.published, project.store.published) if since_published else None
    cells: list[Planned] = []
    missing: list[CannotLock] = []
    for stack in stacks:
        try:
            cells += project.stack_run(stack, progress, store=known).plan(Selection())
        except CannotLock as error:
            missing.append(error)
            if len(missing) == len(stacks):
                raise
    return cells, missing


def shards(cells: Iterable[Planned], jobs: int) -> Shards:
    """The cells that must run, as at most ``jobs`` jobs."""
    cells = list(cells)
    due = [Due(cell=cell.cell, key=cell.key) for cell in cells if cell.action is Action.RUN]
    return Shards(schema=2, shards=deal(due, jobs), settled=len(settled(cells)))


def deal(due: Iterable[Due], jobs: int) -> tuple[Shard, ...]:
    """Deal whole stacks out to at most ``jobs`` jobs.

    The stack with the most cells comes first, and each goes to the job with the fewest cells. The
    cells of a stack stay on one machine, so that their step times can be compared.
    """
    stacks: dict[str, list[Due]] = defaultdict(list)
    for each in due:
        stacks[each.cell.stack].append(each)
    dealt: list[list[Due]] = [[] for _ in range(min(jobs, len(stacks)))]
    fewest = [(0, number) for number in range(len(dealt))]
    for cells in sorted(stacks.values(), key=len, reverse=True):
        number_of_cells, number = heapq.heappop(fewest)
        dealt[number] += cells
        heapq.heappush(fewest, (number_of_cells + len(cells), number))
    return tuple(Shard(name=_name(cells), cells=tuple(cells)) for cells in dealt)


def _name(cells: Sequence[Due]) -> str:
    first, *others = dict.fromkeys(due.cell.stack for due in cells)
    return f"{first}-and-{len(others)}-more" if others else first


def github_matrix(shards: Iterable[Shard]) -> dict[str, list[dict[str, str | int]]]:
    """The matrix of a workflow, an entry for each job; its cache is named after its first stack."""
    return {
        "include": [
            {"name": shard.name, "stack": shard.stacks[0], "cells": len(shard.cells)}
            for shard in shards
        ]
    }


def settled(cells: Iterable[Planned]) -> list[Planned]:
    """The cells with a new outcome that is known without running them."""
    return [cell for cell in cells if cell.action is Action.SETTLED]


def settle(project: Project, cells: Iterable[Planned], progress: Progress) -> None:
    """Record in ``project`` what is known without running; no job does this."""
    by_stack: dict[str, list[Planned]] = {}
    for cell in settled(cells):
        by_stack.setdefault(cell.cell.stack, []).append(cell)
    for name, members in by_stack.items():
        project.stack_run(project.matrix.stack(name), progress).carry_out(members)


def read(path: Path) -> Shards:
    """The plan in ``path``; UserError if it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Shards)
    except (OSError, *NOT_READABLE) as error:
        raise UserError(
            f"The shards in {path.name} cannot be read: {error}.",
            cause="gradmatrix shards did not write this file, or another release wrote it",
            next_step="plan again: nox -s shards -- --output FILE",
        ) from error


# ---- Run one job


def run_shard(project: Project, shard: Shard, progress: Progress) -> list[Summary]:
    """Run the cells of one job and record them in ``project``: a summary for each stack.

    Raises:
        UserError: if a cell has another key here than in the plan; then nothing is run.
    """
    selection = Listed(cells=frozenset(due.cell for due in shard.cells))
    runs = [project.stack_run(project.matrix.stack(name), progress) for name in shard.stacks]
    cells = [cell for run in runs for cell in run.plan(selection)]
    check_keys(f"Shard {shard.name}", {due.cell: due.key for due in shard.cells}, cells)
    return [run.execute(selection) for run in runs]


# ---- Security: which records from another machine are accepted


@dataclass(frozen=True)
class KnownCells:
    """The stacks, variants and devices of this checkout, and the time now."""

    stacks: Collection[str]
    roles: Mapping[tuple[str, str], Role]
    """The role of each scenario and variant."""
    devices: Collection[str]
    now: dt.datetime


def distrust(record: Record, known: KnownCells) -> Iterator[str]:
    """The reasons to refuse a record from another machine; none if it is accepted.

    The record must be as the run left it, before relations to other cells were judged.
    """
    cell = record.cell
    if cell.stack not in known.stacks:
        yield f"there is no stack {cell.stack!r} here"
    role = known.roles.get((cell.scenario, cell.variant))
    if role is None:
        yield f"there is no variant {cell.scenario}/{cell.variant} here"
    if cell.device not in known.devices:
        yield f"there is no device {cell.device!r} here"
    if record.role is not role:
        yield f"the role of {cell.scenario}/{cell.variant} is not {record.role}"
    if record.recorded_at.tzinfo is None or record.recorded_at > known.now + AHEAD:
        yield f"its time, {record.recorded_at}, is in the future or has no time zone"
    if record.key != key_of(record.inputs):
        yield "its key does not follow from its inputs"
    limits = [record.inputs[name] for name in LIMIT_OF.values() if name in record.inputs]
    if not all(map(is_limit, limits)):
        yield "its limits are not finite numbers above zero"
    yield from distrust_verdict(record)


def is_limit(text: str) -> bool:
    """Whether ``text`` is a finite number above zero."""
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False


def distrust_verdict(record: Record) -> Iterator[str]:
    """What in the record does not follow from the observation."""
    verdict = verdict_again(record)
    if verdict is None:
        yield f"nothing was observed, so its outcome cannot be {record.outcome}"
        return
    passed = passes(record.role, verdict, record.observation)
    recorded = f"{record.outcome}, gradient {record.gradient}, passed {record.passed}"
    observed = f"{verdict.outcome}, gradient {verdict.gradient}, passed {passed}"
    if recorded != observed:
        yield f"it says {recorded}, but what was observed is {observed}"
    if len(record.message) > message_limit(verdict, record):
        yield f"its message has {len(record.message)} characters"


def verdict_again(record: Record) -> Verdict | None:
    """The verdict on the observation; None if the outcome needs one and there is none."""
    if record.observation is not None:
        return judge_observation(record.observation)
    outcome = Outcome(record.outcome)
    if outcome.phase in UNSEEN or record.outcome in NEVER_RUN:
        return Verdict(outcome, None, "")
    return None


def message_limit(verdict: Verdict, record: Record) -> int:
    """The characters that a run keeps of a message; more if it says why a whole stack failed."""
    fills = record.observation is None and verdict.outcome.phase in NOT_INSTALLED
    return RESOLVERS_LIMIT if fills else MESSAGE_LIMIT


def distrust_job(record: Record, shard: Shard | None) -> Iterator[str]:
    """The reasons why the plan did not ask for this record.

    ``shard`` is the job in whose folder the record lies. In any other folder (None) only records
    of cells that did not run are accepted.
    """
    if shard is None:
        if record.observation is not None:
            yield "it ran, and its folder belongs to no shard of the plan"
    elif not any((due.cell, due.key) == (record.cell, record.key) for due in shard.cells):
        yield f"shard {shard.name} was not asked for {record.cell} with that key"


def shard_of(folder: Path, path: Path, plan: Shards) -> Shard | None:
    """The job that left ``path``.

    ``folder`` itself, or else a folder in it, is called NAME or records-NAME after the job.
    Folders further down do not count: the job that wrote the files chose their names.
    """
    names = {shard.name: shard for shard in plan.shards}
    names |= {f"records-{shard.name}": shard for shard in plan.shards}
    below = path.relative_to(folder).parts[:-1]
    return names.get(folder.resolve().name) or (names.get(below[0]) if below else None)


# ---- Merge: records of other machines become this checkout's own


@dataclass(frozen=True)
class Found:
    """The newest record of each cell in some folders, and a sentence for each skipped line."""

    records: tuple[Record, ...]
    problems: tuple[str, ...]


def merge(
    project: Project, folders: Sequence[Path], progress: Progress, plan: Shards | None = None
) -> tuple[Found, int]:
    """Add the records below ``folders`` to the journal of ``project``.

    With a ``plan``, only records that it asked for are accepted.

    Returns:
        What was found, and how many records were new.

    Raises:
        UserError: if a folder is not the results of jobs.
    """
    for folder in folders:
        refuse_own(folder, project)
    known = KnownCells(
        stacks={stack.name for stack in project.matrix.stacks},
        roles={(s.name, v.name): v.role for s in project.chosen_scenarios() for v in s.variants},
        devices=project.matrix.run.devices,
        now=dt.datetime.now(dt.UTC),
    )
    found = found_in(folders, known, plan)

    def waiting(stack: str) -> None:
        progress.stage(stack, "waiting for another run of this stack")

    new = add_to_journal(found.records, project.store, waiting)
    return found, new


def found_in(folders: Iterable[Path], known: KnownCells, plan: Shards | None = None) -> Found:
    """The records below ``folders`` that are accepted.

    Raises:
        UserError: if a folder has no records, or has records of another schema.
    """
    read: list[Record] = []
    problems: list[str] = []
    for folder in folders:
        for path in files_of(folder):
            shard = shard_of(folder, path, plan) if plan is not None else None
            for line in read_lines(path, store.decode):
                where = f"{path.relative_to(folder)}, line {line.number}"
                if line.other_schema:
                    raise UserError(
                        f"The records cannot be merged: {where}: {line.problem}.",
                        cause="another release ran them; nothing was merged",
                        next_step="run the shards with the code of this checkout",
                    )
                record = line.value
                if record is None:
                    problems.append(f"{where} was skipped: {line.problem}")
                    continue
                ours = as_it_ran(record)
                asked = distrust_job(ours, shard) if plan is not None else ()
                against = next(chain(distrust(ours, known), asked), None)
                if against is None:
                    read.append(ours)
                else:
                    problems.append(f"{where} was skipped: {against}")
    read.sort(key=lambda record: record.recorded_at)  # several jobs may have run a cell
    return Found(tuple(store.newest(read, keep_judged=True).values()), tuple(problems))


def refuse_own(folder: Path, project: Project) -> None:
    """UserError if this checkout, or the records that it merges into, lie in ``folder``."""
    if any(path.is_relative_to(folder.resolve()) for path in (project.root, project.store.journal)):
        raise UserError(
            f"{folder} holds this checkout or its records: there is nothing to take over.",
            cause="merge takes the results of jobs that ran elsewhere",
            next_step="name the --results folders of the jobs: gradmatrix merge DIR...",
        )


def files_of(folder: Path) -> list[Path]:
    """The files of records: those in folders called records below ``folder``, else those in it.

    A results folder may hold other files with one JSON document per line beside its records.
    """
    found = sorted(folder.rglob("records/*.jsonl")) or sorted(folder.glob("*.jsonl"))
    files = [path for path in found if path.is_file()]  # to open a named pipe would wait for ever
    if not files:
        raise UserError(
            f"There are no records in {folder}.",
            cause="neither it nor a folder in it called records has a .jsonl file"
            if folder.is_dir()
            else "it is not a folder",
            next_step="name the --results folders of the jobs: gradmatrix merge DIR...",
        )
    return files


def add_to_journal(
    records: Iterable[Record], known: Store, waiting: Callable[[str], object] = lambda _: None
) -> int:
    """Add records to the journal, each stack's in one step; return how many were new.

    Another run of a stack may append to the same journal: the two wait for each other, and
    ``waiting`` is called with the stack.
    """
    by_stack: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_stack[record.cell.stack].append(record)
    new = 0
    for stack in sorted(by_stack):
        with known.in_use(stack, partial(waiting, stack)):
            new += known.take(stack, by_stack[stack])
    return new


# ---- Rehearse: a whole night on one machine


@dataclass(frozen=True)
class Rehearsal:
    """What a rehearsal did, and where the two ways differ."""

    shards: tuple[Shard, ...]
    ran: int
    """Cells that ran in the jobs."""
    cells: int
    """Cells that were published."""
    differences: tuple[str, ...]


def rehearse(
    project: Project, stacks: Sequence[Stack], progress: Progress, *, jobs: int
) -> Rehearsal:
    """Run ``stacks`` plainly, and again as a night does.

    Each way writes into folders below the results of ``project``. Published results and the
    checkout's journal are not touched; installed stacks are used.

    Raises:
        UserError: if no cell ran in a job, so that nothing was rehearsed.
    """

    def apart(name: str) -> Project:
        return Project.at(
            project.root, matrix_file=project.matrix_file, results=project.results / name
        )

    plain, night, idle = apart("plain"), apart("merged"), apart("settled")
    for stack in stacks:
        plain.stack_run(stack, progress).execute(Selection())
    cells, _ = planned(night, stacks, progress, since_published=True)
    plan = shards(cells, jobs)
    settle(idle, cells, progress)
    of_shards = {shard: apart(f"shards/{shard.name}") for shard in plan.shards}
    summaries = [
        summary for shard, each in of_shards.items() for summary in run_shard(each, shard, progress)
    ]
    ran = sum(summary.executed for summary in summaries)
    if not ran:
        raise UserError(
            "Nothing was rehearsed: no cell of these stacks ran in a shard.",
            cause="they cannot be installed, or every outcome is known without running",
            next_step="name a stack that runs here",
        )
    folders = [each.results for each in of_shards.values()] + [idle.results] * bool(plan.settled)
    merge(night, folders, progress, plan)
    ours, theirs = published(plain), published(night)
    return Rehearsal(plan.shards, ran, len(ours.cells), tuple(differences(ours, theirs)))


def published(project: Project) -> Document:
    """What ``project`` publishes as ``matrix.json``."""
    publication.publish(project)
    return msgspec.json.decode((project.results / "matrix.json").read_bytes(), type=Document)


def differences(plain: Document, merged: Document) -> list[str]:
    """A sentence for each stack and cell in which two matrices differ, except in measurements."""
    stacks = zip(plain.stacks, merged.stacks, strict=True)
    found = [
        f"{ours.name}: plain {ours.build}, merged {theirs.build}"
        for ours, theirs in stacks
        if ours != theirs
    ]
    one, other = ({row.cell: comparable(row) for row in each.cells} for each in (plain, merged))
    for cell in sorted(one.keys() | other.keys()):
        if cell not in one or cell not in other:
            found.append(f"{cell}: only {'plain' if cell in one else 'merged'}")
            continue
        unlike = [
            f"{name}: plain {ours}, merged {other[cell][name]}"
            for name, ours in one[cell].items()
            if ours != other[cell][name]
        ]
        if unlike:
            found.append(f"{cell}: {'; '.join(unlike)}")
    return found


def comparable(row: Row) -> dict[str, object]:
    """The fields of a row, without what depends on when and where it ran."""
    return {**msgspec.structs.asdict(without_measurements(row)), "key": row.key}
