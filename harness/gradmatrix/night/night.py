"""Pure: the cells that must run, packed into jobs that run side by side; a job has cells of one stack only.

Pure: what of a record that another machine ran cannot be so, or was not asked of it.

A tested package may have written what it liked into the file that a job left. What was observed is believed, within
what the job was asked for; what follows from that is judged again here.

Records that other checkouts ran, such as the shards of one plan, become this checkout's own.

Only records are taken, and of them only what holds: see ``admission``.

The scheduled run in its parts: shards are planned, run and merged; the whole can be rehearsed on one machine.
"""

from __future__ import annotations

import datetime as dt
import heapq
import re
import statistics
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Literal

import msgspec

from gradmatrix.core import files as disk
from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Cell
from gradmatrix.core.observation import Frozen
from gradmatrix.core.outcomes import LIMIT_OF, NO_DEVICE, TIMEOUT, UNSUPPORTED, Outcome, Phase
from gradmatrix.judge.relations import as_it_ran
from gradmatrix.judge.verdict import Verdict, judge_observation, passes
from gradmatrix.publish import publication
from gradmatrix.publish.formats import Document
from gradmatrix.run import store
from gradmatrix.run.plan import Action, Selection, key_of
from gradmatrix.run.project import NoSuchRelease, Project
from gradmatrix.run.stack import MESSAGE_LIMIT, RESOLVERS_LIMIT
from gradmatrix.run.store import Store
from gradmatrix.stacks import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from gradmatrix.core.model import Record, Role, Stack
    from gradmatrix.publish.rows import Row
    from gradmatrix.run.plan import Planned
    from gradmatrix.run.stack import Progress, Summary


MOST_JOBS = 256
"""Jobs that one matrix of GitHub Actions may have."""
SETTING_UP_S = 120.0
"""What a job is taken to cost before its first cell: a machine, the stack's installation, its libraries' import."""
UNKNOWN_S = 5.0
"""What a cell is taken to cost of whose scenario none was ever run."""


class Due(Frozen, frozen=True):
    """A cell that must run, and the key under which that was found."""

    cell: Cell
    key: str


class Shard(Frozen, frozen=True):
    """One job: the stack that it installs and the cells that it runs there."""

    name: str
    stack: str
    expected_s: float
    """Setting up included."""
    cells: tuple[Due, ...]


class Shards(Frozen, frozen=True):
    """What ``gradmatrix shards`` writes and ``gradmatrix shard`` reads."""

    schema: Literal[1]
    shards: tuple[Shard, ...]
    settled: int
    """Cells whose outcome changed and is known without running them: no job's work."""

    def named(self, name: str) -> Shard:
        """The shard called ``name``; UserError for an unknown one."""
        for shard in self.shards:
            if shard.name == name:
                return shard
        raise UserError(
            f"There is no shard {name!r} in the plan.",
            cause=f"it has {', '.join(shard.name for shard in self.shards) or 'none: every cell is recorded'}",
            next_step="name one of these, or plan again: nox -s shards",
        )


@dataclass(frozen=True)
class Batch:
    """The cells of one scenario on one device: they run on one machine, so that their step times compare."""

    cells: tuple[Due, ...]
    seconds: float


@dataclass(frozen=True)
class Listed(Selection):
    """Exactly these cells."""

    cells: frozenset[Cell] = frozenset()

    def has(self, cell: Cell) -> bool:
        """Whether ``cell`` is one of them."""
        return cell in self.cells


def stacks_of(sessions: bytes) -> list[str]:
    """The stacks of the sessions that ``nox --list --json`` names; UserError where that is no such list."""
    try:
        listed = msgspec.json.decode(sessions, type=list[dict[str, object]])
        found = [re.fullmatch(r"matrix\((.+)\)", str(session["session"])) for session in listed]
    except (msgspec.MsgspecError, KeyError) as error:
        raise UserError(
            "The sessions cannot be read.",
            cause=f"they are not what nox --list --json prints: {error}",
            next_step="nox -t all --list --json > sessions.json",
        ) from error
    stacks = list(dict.fromkeys(match[1] for match in found if match))
    if not stacks:
        raise UserError(
            "The sessions name no stack.",
            cause="none of them is called matrix(NAME)",
            next_step="nox -t all --list --json > sessions.json",
        )
    return stacks


def expected(cells: Iterable[Cell], recorded: Mapping[Cell, Record]) -> dict[Cell, float]:
    """Seconds that each cell is expected to take: as long as the last time, or else the median of its scenario."""
    known = {
        cell: seconds
        for cell, record in recorded.items()
        if (seconds := took_s(record)) is not None
    }
    of_scenario: dict[str, list[float]] = defaultdict(list)
    for cell, seconds in known.items():
        of_scenario[cell.scenario].append(seconds)
    medians = {scenario: statistics.median(times) for scenario, times in of_scenario.items()}
    return {cell: known.get(cell, medians.get(cell.scenario, UNKNOWN_S)) for cell in cells}


def took_s(record: Record) -> float | None:
    """How long a cell ran; None where it did not, or nobody knows."""
    if record.observation is not None:
        return record.observation.wall_s
    return float(record.inputs.get("timeout_s", 0)) if record.outcome == TIMEOUT else None


def pack(
    due: Iterable[Due],
    seconds: Mapping[Cell, float],
    jobs: int = MOST_JOBS,
    setting_up_s: float = SETTING_UP_S,
) -> tuple[Shard, ...]:
    """At most ``jobs`` shards of all cells that are ``due``, the longest of them as short as pays."""
    batches = batched(due, seconds)
    if len(batches) > jobs:
        raise UserError(
            f"{len(batches)} stacks have cells to run, and there may be {jobs} jobs.",
            cause="a job installs one stack",
            next_step=f"allow {len(batches)} jobs, or plan fewer stacks",
        )
    return tuple(
        _shard(stack, number, parts, setting_up_s)
        for stack, count in allotted(batches, jobs, setting_up_s).items()
        for parts in [divided(batches[stack], count)]
        for number in range(len(parts))
    )


def batched(due: Iterable[Due], seconds: Mapping[Cell, float]) -> dict[str, list[Batch]]:
    """The batches of each stack, in the order of ``due``."""
    found: dict[str, list[Batch]] = defaultdict(list)
    together: dict[tuple[str, str, str], list[Due]] = defaultdict(list)
    for each in due:
        together[each.cell.stack, each.cell.scenario, each.cell.device].append(each)
    for (stack, _, _), cells in together.items():
        found[stack].append(Batch(tuple(cells), sum(seconds[each.cell] for each in cells)))
    return dict(found)


def allotted(
    batches: Mapping[str, Sequence[Batch]], jobs: int, setting_up_s: float
) -> dict[str, int]:
    """How many jobs each stack gets: the stack of the longest job is split, as long as that shortens it.

    A job whose cells take no longer than its setting up is not split: that would save less than half of the time and
    cost a machine. Otherwise the longest job is within a third of the best, as longest-processing-time packing is:
    a stack is never given more jobs than it needs to keep to that while its own job is longer.
    """

    @cache
    def longest(stack: str, count: int) -> float:
        return max(sum(batch.seconds for batch in part) for part in divided(batches[stack], count))

    counts = dict.fromkeys(batches, 1)
    while counts:
        stack = max(counts, key=lambda each: longest(each, counts[each]))
        now, most = longest(stack, counts[stack]), counts[stack] + jobs - sum(counts.values())
        tried = range(counts[stack] + 1, min(most, len(batches[stack])) + 1)
        count = next((count for count in tried if longest(stack, count) < now), None)
        if now <= setting_up_s or count is None:
            break
        counts[stack] = count
    end = max((longest(stack, count) for stack, count in counts.items()), default=0.0)
    return {
        s: next(k for k in range(1, count + 1) if longest(s, k) <= end)
        for s, count in counts.items()
    }


def divided(batches: Sequence[Batch], count: int) -> list[list[Batch]]:
    """``batches`` in ``count`` parts: the longest first, each to the part that is the shortest by then."""
    parts: list[list[Batch]] = [[] for _ in range(count)]
    shortest = [(0.0, number) for number in range(count)]
    for batch in sorted(batches, key=lambda each: -each.seconds):
        seconds, number = heapq.heappop(shortest)
        parts[number].append(batch)
        heapq.heappush(shortest, (seconds + batch.seconds, number))
    return [part for part in parts if part]


def _shard(stack: str, number: int, parts: Sequence[Sequence[Batch]], setting_up_s: float) -> Shard:
    part = parts[number]
    return Shard(
        name=stack if len(parts) == 1 else f"{stack}-{number + 1}-of-{len(parts)}",
        stack=stack,
        expected_s=round(setting_up_s + sum(batch.seconds for batch in part), 1),
        cells=tuple(each for batch in part for each in batch.cells),
    )


def github_matrix(shards: Iterable[Shard]) -> dict[str, list[dict[str, str | int]]]:
    """The matrix of a workflow: one entry per job."""
    return {"include": [{"name": s.name, "stack": s.stack, "cells": len(s.cells)} for s in shards]}


AHEAD = dt.timedelta(hours=1)
"""What two machines' clocks may differ by."""
UNSEEN = frozenset({Phase.RESOLVE, Phase.INSTALL, Phase.IMPORT, Phase.PROCESS})
"""Where a cell may end without an observation."""
NEVER_RUN = frozenset({UNSUPPORTED, NO_DEVICE})
"""Of the other phases, the outcomes that are known without one."""


@dataclass(frozen=True)
class Here:
    """What this checkout takes records of, and when."""

    stacks: Collection[str]
    roles: Mapping[tuple[str, str], Role]
    """Of each scenario and variant."""
    devices: Collection[str]
    now: dt.datetime


def objections(record: Record, here: Here) -> Iterator[str]:
    """Why the record, relations not judged, is not taken, the plainest first; none where nothing speaks against it."""
    cell = record.cell
    if cell.stack not in here.stacks:
        yield f"there is no stack {cell.stack!r} here"
    role = here.roles.get((cell.scenario, cell.variant))
    if role is None:
        yield f"there is no variant {cell.scenario}/{cell.variant} here"
    if cell.device not in here.devices:
        yield f"there is no device {cell.device!r} here"
    if record.role is not role:
        yield f"{cell.scenario}/{cell.variant} is no {record.role}"
    if record.recorded_at.tzinfo is None or record.recorded_at > here.now + AHEAD:
        yield f"it was not recorded by now, but at {record.recorded_at}"
    if record.key != key_of(record.inputs):
        yield "its key is not that of its inputs"
    if not all(
        is_limit(record.inputs[name]) for name in LIMIT_OF.values() if name in record.inputs
    ):
        yield "its limits are no numbers"
    yield from misjudged(record)


def is_limit(text: str) -> bool:
    """Whether it is a number above zero."""
    try:
        return float(text) > 0
    except ValueError:
        return False


def misjudged(record: Record) -> Iterator[str]:
    """What the record says that does not follow from what was observed."""
    verdict = judged(record)
    if verdict is None:
        yield f"nothing was observed, so that it cannot be {record.outcome}"
        return
    passed = passes(record.role, verdict, record.observation)
    said = f"{record.outcome}, gradient {record.gradient}, passed {record.passed}"
    follows = f"{verdict.outcome}, gradient {verdict.gradient}, passed {passed}"
    if said != follows:
        yield f"it says {said}, and what was observed is {follows}"
    if len(record.message) > most_of(verdict, record):
        yield f"its message has {len(record.message)} characters"


def judged(record: Record) -> Verdict | None:
    """The verdict on what was observed; None where such a verdict needs an observation and there is none."""
    if record.observation is not None:
        return judge_observation(record.observation)
    outcome = Outcome(record.outcome)
    return (
        Verdict(outcome, None, "")
        if outcome.phase in UNSEEN or record.outcome in NEVER_RUN
        else None
    )


def most_of(verdict: Verdict, record: Record) -> int:
    """The characters that a run keeps of a message: an explanation that fills a column is longer."""
    fills = record.observation is None and verdict.outcome.phase in {Phase.RESOLVE, Phase.INSTALL}
    return RESOLVERS_LIMIT if fills else MESSAGE_LIMIT


def unasked(record: Record, shard: Shard | None) -> Iterator[str]:
    """Why the plan has no such record; ``shard`` is the one in whose folder it lies, None in any other folder."""
    if shard is None:
        if record.observation is not None:
            yield "it was run, and its folder is of no shard of the plan"
    elif not any((due.cell, due.key) == (record.cell, record.key) for due in shard.cells):
        yield f"shard {shard.name} was not asked for {record.cell} with that key"


@dataclass(frozen=True)
class Found:
    """What folders hold: the newest record of each cell, and what was skipped, one sentence each."""

    records: tuple[Record, ...]
    problems: tuple[str, ...]


def found_in(folders: Iterable[Path], here: Here, plan: Shards | None = None) -> Found:
    """The records below ``folders`` that hold ``here``; with a ``plan`` those only that it asked for.

    UserError, and nothing is taken, where a folder has no records or where they are of another schema.
    """
    read: list[Record] = []
    problems: list[str] = []
    for folder in folders:
        for path in files_of(folder):
            shard = shard_of(folder, path, plan) if plan is not None else None
            for line in disk.read_lines(path, store.decode):
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
                against = next(
                    chain(objections(ours, here), unasked(ours, shard) if plan is not None else ()),
                    None,
                )
                if against is None:
                    read.append(ours)
                else:
                    problems.append(f"{where} was skipped: {against}")
    return Found(tuple(store.newest(read, keep_judged=True).values()), tuple(problems))


def shard_of(folder: Path, path: Path, plan: Shards) -> Shard | None:
    """The shard that left ``path``: the one whose name, or ``records-NAME``, ``folder`` has, or else a folder in it.

    No folder further down is asked: whoever wrote the files chose its name.
    """
    names = {shard.name: shard for shard in plan.shards} | {
        f"records-{shard.name}": shard for shard in plan.shards
    }
    below = path.relative_to(folder).parts[:-1]
    return names.get(folder.resolve().name) or (names.get(below[0]) if below else None)


def files_of(folder: Path) -> list[Path]:
    """The files of records in ``folder``: its own, or those of the results, shards and journals below it."""
    files = sorted({*folder.glob("*.jsonl"), *folder.rglob("records/*.jsonl")})
    if not files:
        raise UserError(
            f"There are no records in {folder}.",
            cause="it has no .jsonl file, nor a folder called records that has one"
            if folder.is_dir()
            else "it is no folder",
            next_step="name the --results folders of the shards: gradmatrix merge DIR...",
        )
    return files


def take(
    found: Iterable[Record],
    known: Store,
    environments: Path,
    waiting: Callable[[str], object] = lambda _: None,
) -> int:
    """Add the records to the journal, each stack's in one step, and say how many were new to it.

    A run of the same stack in another terminal appends to its journal meanwhile: the two wait for each other, and
    ``waiting`` is told the stack.
    """
    by_stack: dict[str, list[Record]] = defaultdict(list)
    for record in found:
        by_stack[record.cell.stack].append(record)
    return sum(
        _take(stack, by_stack[stack], known, environments, waiting) for stack in sorted(by_stack)
    )


def _take(
    stack: str,
    records: Iterable[Record],
    known: Store,
    environments: Path,
    waiting: Callable[[str], object],
) -> int:
    with environment.in_use(environments, stack, lambda: waiting(stack)):
        under = known.recorded_under(stack)
        new = [
            r
            for r in records
            if (r.cell, r.key) not in under or under[r.cell, r.key].recorded_at < r.recorded_at
        ]
        if new:
            path = known.journal / f"{stack}.jsonl"
            before = path.read_bytes() if path.exists() else b""
            end = (
                b"" if before.endswith(b"\n") or not before else b"\n"
            )  # a killed run left half a line
            lines = [
                store.encode(record)
                for record in sorted(new, key=lambda r: (r.recorded_at, r.cell))
            ]
            disk.write_atomically(path, b"".join([before, end, *lines]))
        return len(new)


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
    recorded = {
        cell: r for stack in stacks for cell, r in project.store.of_stack(stack).items()
    }  # of any lock
    seconds = expected((each.cell for each in due), recorded)
    return Shards(
        schema=1, shards=pack(due, seconds, jobs, setting_up_s), settled=len(settled(cells))
    )


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
    found = found_in(folders, here, plan)

    def waiting(stack: str) -> None:
        progress.stage(stack, "waiting for another run of this stack")

    return found, take(found.records, project.store, project.environments, waiting)


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
        return Project.at(
            project.root, matrix_file=project.matrix_file, results=project.results / name
        )

    plain, night, idle = apart("plain"), apart("merged"), apart("settled")
    for stack in stacks:
        plain.stack_run(stack, progress).execute(Selection())
    cells, _ = planned(
        night, stacks, progress, since_published=True
    )  # the plain run above stops at a missing release
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
        pairs = [(name, one[cell][name], other[cell][name]) for name in one[cell]]
        unlike = [
            f"{name}: plain {ours}, merged {theirs}"
            for name, ours, theirs in pairs
            if ours != theirs
        ]
        if unlike:
            found.append(f"{cell}: {'; '.join(unlike)}")
    return found


MEASURED = {"recorded_at", "steps_per_s", "peak_memory_bytes"}
"""All of a row that depends on when and where it was run."""


def comparable(row: Row) -> dict[str, object]:
    """All of a row that must not depend on where and when it was run; its warnings in no order."""
    fields = {
        name: value for name, value in msgspec.structs.asdict(row).items() if name not in MEASURED
    }
    return {**fields, "warnings": sorted(row.warnings)}
