"""``nox -s costs``: what a run over many stacks takes on many nodes, simulated from real records.

The cells of a simulated stack take as long as those of a published one, drawn at random. Nodes fail
at random. What happens then is what ``run --on ray`` does (``gradmatrix.run.ray.retried``): a
record is kept when its cell ends; a lost stack begins again on the next free node with the cells
that are left; after ``ATTEMPTS`` tasks in a row without a result the next cell is given up.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import statistics
from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.table import Table

from gradmatrix.cli.commands import add, count
from gradmatrix.core.errors import UserError
from gradmatrix.run.pool import ATTEMPTS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from gradmatrix.core.model import Record
    from gradmatrix.run.project import Project

MINUTE_S, HOUR_S = 60.0, 3600.0
RUNS = 20
"""Simulations with failures. The table has their median and their worst."""
FEWEST = 100
"""A published stack with fewer cells that ran is not drawn: it has scenarios of its own only."""


@dataclass
class Task:
    """A stack, or what is left of it."""

    cells_s: list[float]
    """Seconds of each cell that is left, the next one last."""
    losses: int = 0
    """Tasks in a row that were lost without a result."""


@dataclass
class Run:
    """What a simulated run took."""

    wall_s: float = 0.0
    busy_s: float = 0.0
    """Seconds that all nodes together worked."""
    recorded: int = 0
    given_up: int = 0
    losses: int = 0
    """Tasks that a failing node took with it."""


@dataclass(frozen=True)
class Cluster:
    """Nodes that run one stack at a time each."""

    nodes: int
    start_s: float
    """Seconds until the first cell of a task: to install from the node's cache, and to import."""
    failing_s: float
    """Mean seconds of work between two failures of one node; infinite if none fails."""
    repair_s: float
    """Seconds until a node that failed is there again."""

    def run(self, stacks: Iterable[Sequence[float]], chance: random.Random) -> Run:
        """Run every cell of every stack. A stack is the seconds of its cells, in their order.

        The time to the next failure of a working node is exponential. Idle nodes do not fail.
        """
        waiting = deque(Task(list(reversed(cells))) for cells in stacks)
        run, idle, now_s, numbers = Run(), self.nodes, 0.0, itertools.count()
        working: list[tuple[float, int, Task | None]] = []
        """When a task ends, or is lost with its node."""
        away: list[float] = []
        """When a node that failed is there again."""
        while waiting or working:
            while waiting and idle:
                idle -= 1
                worked_s, lost = self.work(waiting.popleft(), run, chance)
                run.busy_s += worked_s
                heapq.heappush(working, (now_s + worked_s, next(numbers), lost))
            if away and (not working or away[0] <= working[0][0]):
                now_s = heapq.heappop(away)
                idle += 1
                continue
            now_s, _, lost = heapq.heappop(working)
            run.wall_s = now_s
            if lost is None:
                idle += 1
                continue
            heapq.heappush(away, now_s + self.repair_s)
            if lost.cells_s:
                waiting.appendleft(lost)
        return run

    def work(self, task: Task, run: Run, chance: random.Random) -> tuple[float, Task | None]:
        """One task on one node: how many seconds it works, and the task if the node fails then."""
        fails_s = chance.expovariate(1 / self.failing_s) if self.failing_s < math.inf else math.inf
        spent_s, before = self.start_s, run.recorded
        while task.cells_s and spent_s + task.cells_s[-1] <= fails_s:
            spent_s += task.cells_s.pop()
            run.recorded += 1
        if not task.cells_s:
            return spent_s, None
        run.losses += 1
        task.losses = 1 if run.recorded > before else task.losses + 1
        if task.losses >= ATTEMPTS:
            task.cells_s.pop()
            run.given_up += 1
        return fails_s, task


def seconds_of(records: Iterable[Record]) -> list[float]:
    """The seconds of each cell of a stack: between the ends of two cells of one run."""
    ended = sorted((r.run, r.recorded_at) for r in records if r.observation is not None)
    return [
        (then - before).total_seconds()
        for (one, before), (other, then) in pairwise(ended)
        if one == other
    ]


def register_costs(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    parser = add(
        commands, "costs", costs_command, "simulate what a run over many stacks takes, and costs"
    )
    for name, default, what in (
        ("stacks", 1000, "stacks, each like a published one"),
        ("nodes", 50, "nodes, one stack at a time on each"),
    ):
        parser.add_argument(
            f"--{name}", type=count, default=default, metavar="N", help=f"{what} ({default})"
        )
    for name, number, what in (
        ("start", 15.0, "seconds until the first cell of a stack: install from cache, import"),
        ("failing", 24.0, "mean hours of work until a node fails"),
        ("repair", 10.0, "minutes until a node that failed is there again"),
        ("price", 0.006, "dollars for a minute of a node"),
    ):
        parser.add_argument(
            f"--{name}", type=float, default=number, metavar="X", help=f"{what} ({number:g})"
        )


def costs_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Run ``costs``: print one table."""
    if (
        min(options.failing, options.start, options.repair, options.price) < 0
        or not options.failing
    ):
        raise UserError(
            "--start, --failing, --repair and --price are positive numbers.",
            cause="one of them is not",
            next_step="nox -s costs -- --help",
        )
    known = [
        seconds_of(project.store.of_stack(name).values()) for name in sorted(project.store.stacks)
    ]
    known = [cells for cells in known if len(cells) >= FEWEST]
    if not known:
        raise UserError(
            f"No stack in {project.results} has {FEWEST} cells that ran in one go.",
            cause="nothing was published, or the stacks ran in small parts",
            next_step="gradmatrix run --all, then gradmatrix publish",
        )
    console.print(table(options, known), soft_wrap=True)
    return 0


def table(options: argparse.Namespace, known: Sequence[Sequence[float]]) -> Table:
    """The run without failures, and the median and the worst of ``RUNS`` runs with failures."""
    chance = random.Random(1)  # noqa: S311  (a simulation)
    stacks = chance.choices(known, k=options.stacks)
    steady = Cluster(options.nodes, options.start, math.inf, 0.0)
    failing = Cluster(
        options.nodes, options.start, options.failing * HOUR_S, options.repair * MINUTE_S
    )
    alone = steady.run(stacks, chance)
    runs = sorted((failing.run(stacks, chance) for _ in range(RUNS)), key=lambda run: run.wall_s)
    result = Table(
        box=SIMPLE,
        title=f"{options.stacks} stacks, {sum(map(len, stacks))} cells, {options.nodes} nodes",
    )
    result.add_column("")
    for name in ("no node fails", f"median of {RUNS}", f"worst of {RUNS}"):
        result.add_column(name, justify="right")
    shown = (alone, runs[RUNS // 2], runs[-1])
    ideal_s, bill = alone.busy_s / options.nodes, options.nodes * options.price
    for name, told in (
        ("hours", lambda run: f"{run.wall_s / HOUR_S:.2f}"),
        ("… over those of evenly shared work", lambda run: f"{run.wall_s / ideal_s:.3f}"),
        ("cells an hour and node", lambda run: f"{run.recorded / (run.busy_s / HOUR_S):.0f}"),
        ("nodes lost", lambda run: f"{run.losses}"),
        ("work done again", lambda run: f"{run.busy_s / alone.busy_s - 1:.2%}"),
        ("cells without a result", lambda run: f"{run.given_up}"),
        ("hours that nodes work", lambda run: f"{run.busy_s / HOUR_S:.1f}"),
        ("dollars for these", lambda run: f"{run.busy_s / MINUTE_S * options.price:.2f}"),
        ("dollars for all nodes to the end", lambda run: f"{run.wall_s / MINUTE_S * bill:.2f}"),
    ):
        result.add_row(name, *map(told, shown))
    typical = statistics.median(sum(cells) + options.start for cells in stacks)
    result.caption = (
        f"half of the stacks take at most {typical:.0f} s, {options.start:g} s of it to start"
    )
    return result
