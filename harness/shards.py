"""Pure: the cells that must run, packed into jobs that run side by side; a job has cells of one stack only."""

from __future__ import annotations

import heapq
import re
import statistics
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

import msgspec

from harness.errors import UserError
from harness.model import Cell
from harness.observation import Frozen
from harness.plan import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.model import Record

MOST_JOBS = 256
"""Jobs that one matrix of GitHub Actions may have."""
SETTING_UP_S = 120.0
"""What a job is taken to cost before its first cell: a machine, the stack's installation, its libraries' import."""
UNKNOWN_S = 5.0
"""What a cell is taken to cost of whose scenario none was ever run."""
TIMED_OUT = "process:timeout"


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
    known = {cell: seconds for cell, record in recorded.items() if (seconds := took_s(record)) is not None}
    of_scenario: dict[str, list[float]] = defaultdict(list)
    for cell, seconds in known.items():
        of_scenario[cell.scenario].append(seconds)
    medians = {scenario: statistics.median(times) for scenario, times in of_scenario.items()}
    return {cell: known.get(cell, medians.get(cell.scenario, UNKNOWN_S)) for cell in cells}


def took_s(record: Record) -> float | None:
    """How long a cell ran; None where it did not, or nobody knows."""
    if record.observation is not None:
        return record.observation.wall_s
    return float(record.inputs.get("timeout_s", 0)) if record.outcome == TIMED_OUT else None


def pack(
    due: Iterable[Due], seconds: Mapping[Cell, float], jobs: int = MOST_JOBS, setting_up_s: float = SETTING_UP_S
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


def allotted(batches: Mapping[str, Sequence[Batch]], jobs: int, setting_up_s: float) -> dict[str, int]:
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
    return {s: next(k for k in range(1, count + 1) if longest(s, k) <= end) for s, count in counts.items()}


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
