"""One cell of two environments, block by block, until the verdict is clear or the budget is spent.

Several fresh servers of each side live at once; each forks the script that is measured, pinned to the same processor
cores, and of all these processes one runs at a time, a block of optimizer steps long (A B B A …). Servers differ in
what a fork does not change, the layout of their memory and the seed of their hashes; processes in which pages they
get, so that every server forks several in turn, one per generation. Where they fork and the budget allows, others take
the place of the servers that have run for as long as starting them took. ``statistics.py`` says what is made of it.
Folders of processes are removed when they end; a script with a working directory of its own runs in that one, in all.

Two environments measured side by side: which one is slower, or needs more memory, and whether that is real.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar

import numpy as np

from gradmatrix.judge.verdict import process_outcome
from gradmatrix.measure import statistics
from gradmatrix.measure.servers import LEAD_IN, Broken, Contender, Exhausted, make_servers
from gradmatrix.measure.statistics import Key, Measured, Ratio, Size
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
"""A block takes about so long, or FEWEST steps. The speed of a machine wanders within tenths of a second: of two blocks
next to each other long ones differ as much as short ones, and there are fewer of them."""
FEWEST, MOST = 2, 500
SLOW_S = 0.1
"""A step that takes longer fills caches in a small part of its time: it needs no lead-in, and one makes a block."""
MEMORY_MARGIN = 0.05
"""What counts as the same memory, at least: it has hardly any noise, and a small model is mostly imported libraries."""
ROUNDS = 3, 12
"""Of a generation, at least and at most: between them, as many as take twice as long as starting its processes did."""
LONG_S = 4.0
"""A round that takes longer may be the only one of its generation: processes differ more than rounds do."""
FIRST_LOOK = 2
"""Generations before the first look."""
LOOKS = 0.05, 0.15, 0.3, 0.6, 1.0
"""Fractions of the budget at which the verdict is looked at: each look costs a part of the error probability."""
FAILURES = (Exhausted, Broken, ServerDied, OSError)
"""What ends a measurement."""
RESTARTS = 50
"""How often a script that ends is started again, on average over the servers."""
STEPS = 50_000
"""More than any measurement takes; a script that makes its data in advance makes data for as many."""


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
    """Every one of ``cells``, which train on both sides, in the environments of two interpreters.

    ``budget_s`` is for all of them together: what one does not need is left to the others. ``margin`` is the fraction
    that counts as the same. Paths of the two interpreters may be equal: then nothing should differ.
    """
    sources = sorted({Source.of(cell.scenario) for cell in cells})
    with make_servers(
        Contender(baseline), Contender(candidate), sources, settings, directory
    ) as both:
        deadline = time.monotonic() + budget_s
        stage(f"starting {len(both.members)} servers to measure {len(cells)} cells")
        with contextlib.suppress(ServerDied, OSError):  # every cell tries again, and tells
            both.open()  # what that takes is nobody's share
        found: dict[Key, Measured] = {}
        for number, cell in enumerate(cells):
            key = Key(cell.cell.scenario, cell.cell.variant, cell.cell.device)
            left_s = max(0.0, deadline - time.monotonic()) / (len(cells) - number)
            stage(f"measuring {number + 1} of {len(cells)}: {key}, {left_s:.0f} s at most")
            measurement = Measurement(
                both, key, requests(cell, settings), left_s, margin, among=2 * len(cells)
            )
            found[key] = measurement.run()
    return found


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
    """One cell on all servers, round by round, until the verdict is clear or the budget is spent."""

    both: Servers
    key: Key
    request: Callable[[Path], Request]
    budget_s: float
    margin: float
    among: int = 1
    began: float = field(default_factory=time.monotonic)
    sets: list[list[Floats]] = field(default_factory=lambda: [[]])
    """Seconds per step of each generation, of shape (rounds, servers, 2); by the servers that lived at once."""
    peaks: list[list[list[int | None]]] = field(default_factory=lambda: [[]])
    """Peak memory of every process, by crew and generation."""
    since: float = 0.0
    """When these servers were ready for this cell."""
    looks: int = 0
    outliers: tuple[int, int] = 0, 0
    """Servers of each side that count as less far out than they were."""
    unsteady: int = 0
    """Processes whose warm-up was not seen to end."""
    steps: int = 0
    """Of a block."""
    generator: np.random.Generator = field(default_factory=np.random.default_rng)
    spent: float = 0.0
    """Of the error probability."""
    next_look: float = LOOKS[0]
    restarts: int = 0

    @property
    def generations(self) -> list[Floats]:
        """Those of all crews."""
        return [each for generations in self.sets for each in generations]

    @property
    def servers(self) -> list[MeasuredServer]:
        """Those of both sides, the baseline's first."""
        return self.both.members

    def run(self) -> Measured:
        """Measure, and leave the servers free."""
        try:
            self.prepare()
            while True:
                self.generation()
                gone = self.gone
                if gone >= 1 or (len(self.generations) >= FIRST_LOOK and gone >= self.next_look):
                    found = self.look(gone)
                    if found.verdict is not Size.INCONCLUSIVE:
                        return self.result(found, "clear")
                    if gone >= 1:
                        return self.result(found, "budget")
                if self.worth_renewing:
                    try:
                        self.renew()
                    except FAILURES as error:
                        return self.result(
                            self.look(1.0), "budget", (f"no other servers: {reason(error)}",)
                        )
        except FAILURES as error:
            return self.result(None, "failed", (words(error),))

    @property
    def worth_renewing(self) -> bool:
        """These servers were measured for as long as starting others takes, and those could be for longer.

        Not before the second look: large differences are clear by then.
        """
        opening_s = self.both.opening_s
        left_s = self.budget_s * (1 - self.gone)
        forks = all(
            server.fork for server in self.servers
        )  # else every process has a server of its own anyway
        return (
            forks
            and self.looks > 1
            and left_s > 2 * opening_s
            and time.monotonic() - self.since >= opening_s
        )

    def renew(self) -> None:
        """Others take the place of the servers: the rest of the budget is not spent on the luck of a few."""
        self.both.renew()
        self.since = time.monotonic()
        self.sets.append([])
        self.peaks.append([])

    def prepare(self) -> None:
        """Servers that have imported what the script needs, so that no process of a generation has to."""
        began, starting = time.monotonic(), not any(server.alive for server in self.servers)
        self.both.each(lambda server: self.do(server, server.open), self.shuffled(self.servers))
        if starting:
            self.both.opening_s = time.monotonic() - began
        if all(server.fork for server in self.servers):
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
        self.since = time.monotonic()

    def do(
        self, server: MeasuredServer, task: Callable[P, R], *arguments: P.args, **options: P.kwargs
    ) -> R:
        """A task of a server; what it raises has a note of which side that was."""
        try:
            return task(*arguments, **options)
        except FAILURES as error:
            baseline = any(server is each for each in self.servers[: len(self.servers) // 2])
            error.add_note("baseline" if baseline else "candidate")
            raise

    @property
    def gone(self) -> float:
        """The fraction of the budget that is spent."""
        return (time.monotonic() - self.began) / self.budget_s if self.budget_s > 0 else 1.0

    def look(self, gone: float) -> Ratio:
        """What can be said when ``gone`` of the budget is spent; costs a part of the error probability."""
        self.looks += 1
        self.next_look = min((each for each in LOOKS if each > gone), default=1.0)
        total = statistics.spent(gone)
        alpha, self.spent = total - self.spent, total
        estimate = statistics.of_blocks([each for each in self.sets if each], self.generator)
        self.outliers = estimate.outliers
        return statistics.ratio(estimate, alpha=alpha, margin=self.margin, among=self.among)

    def generation(self) -> None:
        """A new process of every server, and some rounds of them: one at least, no more when the budget is spent."""
        began = time.monotonic()
        try:
            self.start(self.servers)
            self.agree_on_blocks()
            if self.servers[0].lead_in:
                self.complete_round()  # not counted: the caches of the core that is now theirs are cold
            ready = time.monotonic()
            rounds = [self.complete_round()]
            round_s = time.monotonic() - ready
            least = ROUNDS[0] if round_s < LONG_S else 1
            count = max(least, min(ROUNDS[1], round(2 * (ready - began) / max(round_s, 1e-9))))
            while len(rounds) < count and self.gone < 1:
                rounds.append(self.complete_round())
            if len(rounds) < least and self.generations:
                return  # cut off: it would count like a whole one
            self.sets[-1].append(np.stack(rounds))
            self.peaks[-1].append([server.peak_bytes for server in self.servers])
            self.unsteady += sum(not server.steady for server in self.servers)
        finally:
            for server in self.servers:
                server.end()

    def agree_on_blocks(self) -> None:
        """The first generation's warm-up tells how many steps make a block, of both sides alike."""
        if self.steps:
            return
        step_s = float(np.median([server.step_s for server in self.servers]))
        slow = step_s > SLOW_S
        self.steps = 1 if slow else max(FEWEST, min(MOST, round(BLOCK_S / step_s)))
        for server in self.servers:
            server.lead_in = 0 if slow else LEAD_IN

    def start(self, servers: Sequence[MeasuredServer]) -> None:
        """Start the script on all of ``servers`` in an order of chance, as many at a time as there are cores.

        Not one side after the other: processes that started early were seen to be slower by a per cent for good.
        """
        self.both.each(
            lambda server: self.do(server, server.begin, self.request), self.shuffled(servers)
        )

    def shuffled(self, servers: Sequence[MeasuredServer]) -> list[MeasuredServer]:
        """``servers`` in an order of chance."""
        return [servers[each] for each in self.generator.permutation(len(servers))]

    def complete_round(self) -> Floats:
        """One more round; a script that ends in it is started again, and the round with it, while the budget lasts."""
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
        """Seconds per step of two blocks of every server, in an order that is the same backwards: A B B A of many."""
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
        """What is told of this cell."""
        half = len(self.servers) // 2
        processes = len(self.servers) * len(self.generations)
        if step_time is not None and self.unsteady:
            notices += (
                f"{self.unsteady} of {processes} processes were still warming up when they were measured",
            )
        per_side = half * sum(bool(each) for each in self.sets)
        for side, count in zip(("baseline", "candidate"), self.outliers, strict=True):
            if step_time is not None and count:
                notices += (
                    f"{count} of {per_side} servers of the {side} lay far out: bounded, the interval widened",
                )
        if step_time is not None and not self.servers[0].cores:
            notices += ("no core could be kept for it: other processes disturb it more",)
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
        """The ratio of peak memory; None where the system does not tell it."""
        if not all(peak for generations in self.peaks for each in generations for peak in each):
            return None
        estimate = statistics.of_servers(
            [np.array(each, dtype=float) for each in self.peaks if each], self.generator
        )
        margin = max(self.margin, MEMORY_MARGIN)
        return statistics.ratio(estimate, alpha=statistics.ALPHA, margin=margin, among=self.among)


def words(error: Exception) -> str:
    """What went wrong, for people, and on which side."""
    return f"{' on the '.join(['not measured', *getattr(error, '__notes__', ())])}: {reason(error)}"


def reason(error: Exception) -> str:
    """What went wrong, for people."""
    found = process_outcome(None, error.ended) if isinstance(error, ServerDied) else None
    return f"a server ended: {found[1]}" if found else str(error)
