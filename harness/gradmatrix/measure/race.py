"""Measure two environments side by side: whether one is really slower, or needs more memory.

A ``Measurement`` is one cell in both environments, block by block, until the verdict is clear or
the budget is spent. Several fresh servers of each side are alive at once. Each forks the script
that is measured, pinned to the same processor cores. Of all these processes one runs at a time, for
a block of optimizer steps (A B B A …).

Servers differ in what a fork does not change: the layout of their memory and the seed of their
hashes. Processes differ in the pages they get, so every server forks several in turn, one per
generation. If servers can fork and the budget allows it, they are replaced after they were measured
for as long as starting them took. The budget counts measuring only, not the start of servers.
``statistics.py`` describes how the times become a verdict.

The folders of processes are removed when they end. Scripts with a working directory of their own
share it.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar

import numpy as np

from gradmatrix.core.text import counted
from gradmatrix.judge.verdict import process_outcome
from gradmatrix.measure import statistics
from gradmatrix.measure.servers import (
    LEAD_IN,
    PER_SIDE,
    WARMUP_BLOCK,
    WARMUP_S,
    Broken,
    Contender,
    Exhausted,
    Killed,
    make_servers,
)
from gradmatrix.measure.statistics import Key, Measured, Ratio
from gradmatrix.run.pool import Source
from gradmatrix.run.server import Request, ServerDied

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gradmatrix.measure.servers import MeasuredServer, Servers

    Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
    from gradmatrix.run.plan import Planned
    from gradmatrix.run.pool import Settings


P = ParamSpec("P")
R = TypeVar("R")
BLOCK_S = 0.02
"""Seconds of a block, unless that is less than FEWEST steps. The speed of a machine wanders within
tenths of a second: two neighbouring long blocks differ as much as two short ones, and there are
fewer of them."""
FEWEST, MOST = 2, 500
SLOW_S = 0.1
"""A longer step fills the caches in a small part of its time, so it needs no lead-in, and one step
makes a block."""
MEMORY_MARGIN = 0.05
"""At least this much counts as the same memory. Memory has hardly any noise, and a small model's
memory is mostly imported libraries."""
ROUNDS = 3, 12
"""The fewest and the most rounds of a generation. Between them, rounds go on for twice as long as
starting the processes took."""
LONG_S = 4.0
"""If a round takes longer, it may be the only one of its generation: processes differ more than
rounds do."""
FIRST_LOOK = 2
"""Generations before the first look."""
LOOKS = 0.05, 0.15, 0.3, 0.6, 1.0
"""Fractions of the budget at which a verdict is tried. Each look costs a part of the error
probability."""
FAILURES = (Exhausted, Broken, Killed, ServerDied, OSError)
"""What ends a measurement."""
KILLS = 5
"""How often a generation is measured again because something outside killed a process of it."""
RESTARTS = 50
"""How often a script that ends is started again, on average over the servers."""
START_S = 0.1
"""Seconds that starting a process takes at least."""
STEPS = 50_000
"""More steps than any measurement takes. A script that makes its data in advance makes them for
this many steps."""


def measure(
    baseline: Path,
    candidate: Path,
    cells: Sequence[Planned],
    settings: Settings,
    *,
    budget_s: float,
    margin: float,
    directory: Path,
    stage: Callable[[str], None],
) -> dict[Key, Measured]:
    """Measure every one of ``cells``, which train on both sides, in two environments.

    Args:
        baseline: the interpreter of one side.
        candidate: that of the other side; it may be the same, and then nothing should differ.
        cells: what is measured.
        settings: limits and threads of a cell.
        budget_s: seconds of measuring for all cells together, without the start of servers; time
            that one cell does not need is left to the others.
        margin: the fraction that counts as the same.
        directory: an empty folder for the servers.
        stage: called with what is being done.
    """
    sources = sorted({Source.of(cell.scenario) for cell in cells})
    with make_servers(
        Contender(baseline), Contender(candidate), sources, settings, directory
    ) as both:
        stage(f"starting {len(both.members)} servers to measure {counted(len(cells), 'cell')}")
        with contextlib.suppress(ServerDied, OSError):  # every cell tries again and reports it
            both.open()
        found: dict[Key, Measured] = {}
        left_s = budget_s
        for number, cell in enumerate(cells):
            key = Key(cell.cell.scenario, cell.cell.variant, cell.cell.device)
            share_s = max(0.0, left_s) / (len(cells) - number)
            stage(f"measuring {number + 1} of {len(cells)}: {key}, {share_s:.0f} s at most")
            measurement = Measurement(
                both, key, requests(cell, settings), share_s, margin, among=2 * len(cells)
            )
            found[key] = measurement.run()
            left_s -= found[key].spent_s
    return found


def steps_of_block(step_s: float) -> int:
    """How many timed steps a block has, from the seconds of one."""
    return 1 if step_s > SLOW_S else max(FEWEST, min(MOST, round(BLOCK_S / max(step_s, 1e-9))))


def smallest_budget_s(step_s: float) -> float:
    """The seconds that one generation of a cell takes at least, from those of one of its steps."""
    lead_in = LEAD_IN if step_s <= SLOW_S else 0
    processes = 2 * PER_SIDE
    round_s = 2 * processes * (lead_in + steps_of_block(step_s)) * step_s
    rounds = lead_in + (ROUNDS[0] if round_s < LONG_S else 1)
    warm_up = WARMUP_BLOCK if WARMUP_BLOCK * step_s >= WARMUP_S else statistics.SHORTEST
    return processes * (START_S + warm_up * step_s) + rounds * round_s


def unmeasured(key: Key, notice: str) -> Measured:
    """A cell that was not measured, and why."""
    return Measured(
        scenario=key.scenario,
        variant=key.variant,
        device=key.device,
        step_time=None,
        memory=None,
        servers=0,
        processes=0,
        blocks=0,
        steps=0,
        spent_s=0.0,
        stopped="failed",
        notices=(notice,),
    )


def requests(cell: Planned, settings: Settings) -> Callable[[Path], Request]:
    """What a server is asked for, given the folder of the cell."""

    def request(directory: Path) -> Request:
        scenario = cell.scenario
        return Request(
            script=Source.of(scenario).path,
            variant=cell.variant.name,
            device=cell.cell.device,
            audit=0,
            warmup=0,
            timed=STEPS,
            directory=directory,
            timeout_s=settings.limits.timeout_s,
            memory_bytes=settings.limits.memory_bytes,
            observe=False,
            arguments=scenario.arguments,
            working_directory=Path(scenario.directory) if scenario.directory else None,
            paced=True,
        )

    return request


@dataclass
class Measurement:
    """One cell on all servers, round by round, until it has a clear verdict or no budget left."""

    both: Servers
    key: Key
    request: Callable[[Path], Request]
    budget_s: float
    margin: float
    among: int = 1
    began: float = field(default_factory=time.monotonic)
    """When measuring began; it moves by the time in which servers were started."""
    sets: list[list[Floats]] = field(default_factory=lambda: [[]])
    """Seconds per step of each generation, an array of shape (rounds, servers, 2), for each set of
    servers that were alive at once."""
    peaks: list[list[list[int | None]]] = field(default_factory=lambda: [[]])
    """Peak memory of every process, by set of servers and generation."""
    since: float = 0.0
    """When these servers were ready for this cell."""
    looks: int = 0
    unsteady: int = 0
    """Processes that were still warming up when their measurement began."""
    steps: int = 0
    """Steps of a block."""
    generator: np.random.Generator = field(default_factory=np.random.default_rng)
    spent: float = 0.0
    """What the looks so far have spent of the error probability."""
    next_look: float = LOOKS[0]
    restarts: int = 0
    killed: int = 0
    """Generations that were not counted because something outside killed a process of them."""

    @property
    def generations(self) -> list[Floats]:
        """The generations of all sets of servers."""
        return [each for generations in self.sets for each in generations]

    @property
    def servers(self) -> list[MeasuredServer]:
        """The servers of both sides, the baseline's first."""
        return self.both.members

    def run(self) -> Measured:
        """Measure, and leave the servers free."""
        try:
            self.prepare()
            while True:
                self.undisturbed_generation()
                gone = self.gone
                if gone >= 1 or (len(self.generations) >= FIRST_LOOK and gone >= self.next_look):
                    found = self.look(gone)
                    if found.verdict.is_clear:
                        return self.result(found, "clear")
                    if gone >= 1:
                        return self.result(found, "budget")
                if self.worth_renewing:
                    try:
                        self.renew()
                    except FAILURES as error:
                        return self.result(
                            self.look(1.0),
                            "budget",
                            (f"the servers could not be replaced: {reason(error)}",),
                        )
        except FAILURES as error:
            return self.result(None, "failed", (describe_failure(error),))

    @property
    def worth_renewing(self) -> bool:
        """Whether to replace the servers now.

        They were measured for at least as long as starting others takes, and the others could be
        measured for as long. Not before the second look: large differences are clear by then.
        """
        opening_s = self.both.opening_s
        left_s = self.budget_s * (1 - self.gone)
        return (
            self.forks
            and self.looks > 1
            and left_s > opening_s
            and time.monotonic() - self.since >= opening_s
        )

    def renew(self) -> None:
        """Replace the servers, so that the result does not depend on the luck of a few."""
        before = time.monotonic()
        self.both.renew()
        self.since = time.monotonic()
        self.began += self.since - before
        self.sets.append([])
        self.peaks.append([])

    def prepare(self) -> None:
        """Let all servers import what the script needs, so that no process has to."""
        began, starting = time.monotonic(), not any(server.alive for server in self.servers)
        self.both.each(lambda server: self.do(server, server.open), self.shuffled(self.servers))
        if starting:
            self.both.opening_s = time.monotonic() - began
        if self.forks:
            half = len(self.servers) // 2
            sides = [self.servers[:half], self.servers[half:]]
            lines = self.both.each(
                lambda side: self.do(side[0], side[0].scout, self.request), sides
            )
            every = [
                (server, line) for side, line in zip(sides, lines, strict=True) for server in side
            ]
            learning = time.monotonic()
            self.both.each(lambda each: self.do(each[0], each[0].learn, each[1]), every)
            self.both.opening_s += time.monotonic() - learning
        self.began = self.since = time.monotonic()

    def do(
        self, server: MeasuredServer, task: Callable[P, R], *arguments: P.args, **options: P.kwargs
    ) -> R:
        """Do a task of a server; what it raises gets a note that names the side."""
        try:
            return task(*arguments, **options)
        except FAILURES as error:
            baseline = any(server is each for each in self.servers[: len(self.servers) // 2])
            error.add_note("baseline" if baseline else "candidate")
            raise

    @property
    def forks(self) -> bool:
        """Whether servers fork processes. Without forks every process has a server of its own."""
        return all(server.fork for server in self.servers)

    @property
    def gone(self) -> float:
        """The fraction of the budget that is spent."""
        return (time.monotonic() - self.began) / self.budget_s if self.budget_s > 0 else 1.0

    def look(self, gone: float) -> Ratio:
        """The verdict when ``gone`` of the budget is spent.

        This costs a part of the error probability.
        """
        self.looks += 1
        self.next_look = min((each for each in LOOKS if each > gone), default=1.0)
        total = statistics.spent(gone)
        alpha, self.spent = total - self.spent, total
        sets = (
            [each for each in self.sets if each]
            if self.forks
            else [[each] for each in self.generations]
        )
        estimate = statistics.of_blocks(sets)
        return statistics.ratio(estimate, alpha=alpha, margin=self.margin, among=self.among)

    def undisturbed_generation(self) -> None:
        """A generation; it is measured again if something outside killed a process of it."""
        while True:
            try:
                return self.generation()
            except (Killed, ServerDied) as error:
                from_outside = isinstance(error, Killed) or lost(error)
                if not from_outside or self.killed == KILLS:
                    raise
                self.killed += 1

    def generation(self) -> None:
        """A new process of every server, and some rounds of them.

        There is at least one round, and no further one when the budget is spent.
        """
        began = time.monotonic()
        try:
            self.start(self.servers)
            self.agree_on_blocks()
            if self.servers[0].lead_in:
                self.complete_round()  # not counted: the caches of their core are cold
            ready = time.monotonic()
            rounds = [self.complete_round()]
            round_s = time.monotonic() - ready
            least = ROUNDS[0] if round_s < LONG_S else 1
            count = max(least, min(ROUNDS[1], round(2 * (ready - began) / max(round_s, 1e-9))))
            while len(rounds) < count and self.gone < 1:
                rounds.append(self.complete_round())
            if len(rounds) < least and self.generations:
                return  # incomplete: it would count like a whole one
            self.sets[-1].append(np.stack(rounds))
            self.peaks[-1].append([server.peak_bytes for server in self.servers])
            self.unsteady += sum(not server.steady for server in self.servers)
        finally:
            for server in self.servers:
                server.end()

    def agree_on_blocks(self) -> None:
        """Set the steps of a block from the first generation's warm-up, the same for both sides."""
        if self.steps:
            return
        step_s = float(np.median([server.step_s for server in self.servers]))
        self.steps = steps_of_block(step_s)
        for server in self.servers:
            server.lead_in = 0 if step_s > SLOW_S else LEAD_IN

    def start(self, servers: Sequence[MeasuredServer]) -> None:
        """Start the script on ``servers`` in random order, as many at a time as there are cores.

        Starting one side after the other would bias the result: processes that started early were
        seen to stay one per cent slower.
        """
        self.both.each(
            lambda server: self.do(server, server.begin, self.request), self.shuffled(servers)
        )

    def shuffled(self, servers: Sequence[MeasuredServer]) -> list[MeasuredServer]:
        """``servers`` in random order."""
        return [servers[each] for each in self.generator.permutation(len(servers))]

    def complete_round(self) -> Floats:
        """One more round.

        If a script ends during it, the script and the round are started again while the budget
        lasts.
        """
        while True:
            try:
                return self.round()
            except Exhausted:
                self.restarts += 1
                if self.restarts > (RESTARTS if self.gone < 1 else 1) * len(self.servers) * len(
                    self.sets
                ):
                    raise
                ended = [server for server in self.servers if not server.running]
                for server in ended:
                    server.end()
                self.start(ended)

    def round(self) -> Floats:
        """Seconds per step of two blocks of every server.

        The order is random and the same backwards: A B B A for many.
        """
        half = len(self.servers) // 2
        first, second = (self.generator.permutation(half) for _ in range(2))
        pairs = [[int(one), half + int(other)] for one, other in zip(first, second, strict=True)]
        swapped = self.generator.integers(2)
        order = [
            each
            for number, pair in enumerate(pairs)
            for each in (pair[::-1] if (number + swapped) % 2 else pair)
        ]
        times: list[list[float]] = [[] for _ in self.servers]
        for each in order + order[::-1]:
            server = self.servers[each]
            taken = self.do(server, server.block, self.steps)
            times[each].append(sum(taken) / len(taken))
        return np.array(times)

    def result(
        self,
        step_time: Ratio | None,
        stopped: Literal["clear", "budget", "failed"],
        notices: tuple[str, ...] = (),
    ) -> Measured:
        """What is reported about this cell."""
        half = len(self.servers) // 2
        processes = len(self.servers) * len(self.generations)
        if step_time is not None and self.unsteady:
            notices += (
                (
                    f"{self.unsteady} of {processes} processes were still warming up "
                    "when they were measured"
                ),
            )
        if self.killed:
            notices += (
                (
                    f"something outside killed a process {counted(self.killed, 'time')}; "
                    "what ran at the same time was measured again"
                ),
            )
        per_side = half * sum(bool(each) for each in self.sets)
        if step_time is not None and not self.servers[0].cores:
            notices += ("no core was free for this alone, so other processes disturb it more",)
        return Measured(
            scenario=self.key.scenario,
            variant=self.key.variant,
            device=self.key.device,
            step_time=step_time,
            memory=None if step_time is None else self.memory(),
            servers=per_side,
            processes=processes // 2,
            blocks=sum(each.shape[0] * each.shape[2] for each in self.generations) * half,
            steps=self.steps,
            spent_s=time.monotonic() - self.began,
            stopped=stopped,
            notices=notices,
        )

    def memory(self) -> Ratio | None:
        """The ratio of peak memory; None if the system does not report it."""
        if not all(peak for generations in self.peaks for each in generations for peak in each):
            return None
        estimate = statistics.of_servers(
            [np.array(each, dtype=float) for each in self.peaks if each]
        )
        margin = max(self.margin, MEMORY_MARGIN)
        return statistics.ratio(
            estimate, alpha=statistics.ALPHA, margin=margin, among=self.among, fewest=1
        )


def describe_failure(error: Exception) -> str:
    """A sentence for people: why nothing was measured, and on which side the error was."""
    sides = getattr(error, "__notes__", ())
    return f"{' on the '.join(['not measured', *sides])}: {reason(error)}"


def lost(error: ServerDied) -> bool:
    """Whether the machine is to blame for the end of a server, not the stack."""
    found = process_outcome(None, error.ended)
    return found is not None and found[0].spurious


def reason(error: Exception) -> str:
    """What went wrong, for people."""
    found = process_outcome(None, error.ended) if isinstance(error, ServerDied) else None
    return f"a server ended: {found[1]}" if found else str(error)
