"""How often a comparison of step times is right, measured where the answer is known. A command, not a test.

A round is some comparisons of two equal sides, one after the other, and one of each slowdown, by servers of its own;
the tools that people use today get the same cases in between. In every other round another core is kept busy.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from harness.cores import pin
from harness.crew import crew
from harness.errors import UserError
from harness.interleave import STEPS
from harness.launch import Request
from harness.measured import MEMORY_WORDS, TIME_WORDS, Key
from harness.pool import Source
from harness.race import Race
from harness.rivals import Rivals
from harness.runner import Contender
from harness.trials import FAILED, FOUND_AT_LEAST, MEMORY, OURS, TIME, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from harness.crew import Crew
    from harness.ledger import Ledger
    from harness.measured import Measured
    from harness.pool import Settings

HERE = Path(__file__).parent
SCRIPT = HERE / "faults" / "slower.py"
MEASURING = ("statistics", "race", "interleave", "runner", "pace", "crew", "inside/paced")
"""The modules whose code decides what comes out."""
KEY = Key("slower", "control", "cpu")
MARGIN = 0.01
AMONG = 2
"""Comparisons that share the error probability: step time and memory of one cell, as ``upgrade`` measures one."""
BY_RIVALS = 5.0
"""The slowdown that the other tools are given too."""
LAST_S = 10.0
"""Left for the generation that is under way when the budget of a slowed run ends: a verdict counts in time only."""
SPIN = """
import os, sys

block = bytearray(1 << 26)
while os.getppid() == int(sys.argv[1]):
    block[: 1 << 25] = block[1 << 25 :]
"""
"""Reads and writes 32 MB at a time, more than a core's own caches hold, as long as its parent lives."""


@dataclass(frozen=True)
class Wanted:
    """How much is measured, and for how long."""

    comparisons: int = 200
    """Of equal sides."""
    runs: int = 40
    """Of each slowdown."""
    rivals: int = 20
    """Cases that the other tools are given, of equal sides and of one slowdown each."""
    per_crew: int = 5
    """Comparisons of equal sides that begin with the servers of the last one."""
    budget_s: float = 40.0
    """Of one comparison of equal sides, both together."""
    power_s: float = 120.0
    """Of one run with a slowdown, both together."""
    rival_s: float = 120.0
    """Of each other tool and case, both together."""
    only: frozenset[str] = frozenset({"aa", "power", "rivals"})
    busy_power: bool = False
    """Keep another core busy also in every other run with a slowdown."""

    def limit_s(self, tool: str, per_cent: float) -> float:
        """Seconds that one trial may take."""
        if tool != OURS:
            return self.rival_s
        return self.power_s if per_cent else self.budget_s


@dataclass(frozen=True)
class Bench:
    """The rounds, on one environment."""

    stack: str
    python: Path
    settings: Settings
    wanted: Wanted
    ledger: Ledger
    directory: Path
    stage: Callable[[str], None]

    def run(self) -> Iterator[Trial]:
        """Every trial that the ledger lacks, as it is made."""
        asked = self.wanted
        self.ledger.refuse_others(self.stack, code_digest(), asked.limit_s)
        others = None
        if "rivals" in asked.only and asked.rivals:
            self.stage("getting pytest-benchmark")
            others = Rivals.prepared(self.python, SCRIPT, self.directory)
        crews = -(-asked.comparisons // asked.per_crew)
        for number in range(max(crews, asked.runs, asked.rivals)):
            busy = number % 2 == 1
            with kept_busy() if busy else contextlib.nullcontext():
                if "aa" in asked.only:
                    yield from self.equal(number, busy=busy)
                if others:
                    yield from self.by_others(others, number, 0.0, busy=busy)
            busy = busy and asked.busy_power
            with kept_busy() if busy else contextlib.nullcontext():
                if "power" in asked.only and number < asked.runs:
                    yield from self.slowed(number, busy=busy)
                if others:
                    yield from self.by_others(others, number, BY_RIVALS, busy=busy)

    def equal(self, crew_number: int, *, busy: bool) -> Iterator[Trial]:
        """The comparisons of equal sides of one crew."""
        first = crew_number * self.wanted.per_crew
        numbers = range(first, min(first + self.wanted.per_crew, self.wanted.comparisons))
        missing = [number for number in numbers if not self.ledger.has(OURS, 0.0, number)]
        if missing:
            with self.crew(0.0) as both:
                for number in missing:
                    yield self.compared(both, 0.0, number, busy=busy)

    def slowed(self, number: int, *, busy: bool) -> Iterator[Trial]:
        """One run of each slowdown."""
        for per_cent in FOUND_AT_LEAST:
            if not self.ledger.has(OURS, per_cent, number):
                with self.crew(per_cent) as both:
                    yield self.compared(both, per_cent, number, busy=busy)

    def by_others(self, others: Rivals, number: int, per_cent: float, *, busy: bool) -> Iterator[Trial]:
        """The same case by the other tools."""
        for tool, run in others.tools.items():
            if number >= self.wanted.rivals or self.ledger.has(tool, per_cent, number):
                continue
            self.stage(f"case {number + 1} of {self.wanted.rivals} with {per_cent:g} %, by {tool}")
            began = time.monotonic()
            said = run(per_cent, self.wanted.rival_s)
            yield self.ledger.add(
                Trial(
                    tool=tool,
                    per_cent=per_cent,
                    number=number,
                    busy=busy,
                    verdicts=said.verdicts,
                    seconds=time.monotonic() - began,
                    limit_s=self.wanted.rival_s,
                    stack=self.stack,
                    code=code_digest(),
                    ratio=said.ratio,
                    detail=said.detail,
                )
            )

    @contextlib.contextmanager
    def crew(self, per_cent: float) -> Iterator[Crew]:
        """Fresh servers of a baseline, and of a candidate that is slower by so much."""
        with tempfile.TemporaryDirectory(dir=self.directory) as folder:
            slowed = Contender(self.python, {"SLOWER_PER_CENT": f"{per_cent:g}"})
            sources: Sequence[Source] = [Source(SCRIPT, own=False)]
            with crew(Contender(self.python), slowed, sources, self.settings, Path(folder)) as both:
                yield both

    def compared(self, both: Crew, per_cent: float, number: int, *, busy: bool) -> Trial:
        """One comparison as ``upgrade`` makes it of one cell."""
        limit_s = self.wanted.limit_s(OURS, per_cent)
        of = self.wanted.runs if per_cent else self.wanted.comparisons
        self.stage(f"{number + 1} of {of} with {per_cent:g} %, {'another core busy' if busy else 'nothing else busy'}")
        began = time.monotonic()
        budget_s = max(1.0, limit_s - LAST_S) if per_cent else limit_s
        race = Race(both, KEY, self.request, budget_s, MARGIN, AMONG)
        measured = race.run()
        seconds = time.monotonic() - began
        trial = Trial(
            tool=OURS,
            per_cent=per_cent,
            number=number,
            busy=busy,
            seconds=seconds,
            limit_s=limit_s,
            stack=self.stack,
            code=code_digest(),
            **told_of(measured),
        )
        self.ledger.keep(trial, race.crews)  # before the trial counts: it is not made again for that
        return self.ledger.add(trial)

    def request(self, directory: Path) -> Request:
        """What a server is asked for."""
        limits = self.settings.limits
        return Request(
            script=SCRIPT,
            variant=KEY.variant,
            device=KEY.device,
            audit=0,
            warmup=0,
            timed=STEPS,
            directory=directory,
            timeout_s=limits.timeout_s,
            memory_bytes=limits.memory_bytes,
            observe=False,
            paced=True,
        )


@functools.cache
def code_digest() -> str:
    """Of the code that measures, what it is told to, and the workload: trials of another one are another tool's.

    Where a definition stands, and what is said of it in words, changes nothing.
    """
    files = [SCRIPT, *(HERE / f"{module}.py" for module in MEASURING)]
    parts = sorted(each for path in files for each in definitions(path.read_text(encoding="utf-8")))
    return hashlib.sha256("\0".join([str((MARGIN, AMONG, LAST_S)), *parts]).encode()).hexdigest()[:12]


def definitions(source: str) -> Iterator[str]:
    """What stands at the top of a module, without comments, docstrings, and imports, those for types alone too."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if hasattr(node, "body") and isinstance(node.body, list):
            node.body = [each for each in node.body if not is_text(each)]
    yield from (ast.dump(each) for each in tree.body if not is_import(each))


def is_import(node: ast.AST) -> bool:
    """Whether a statement imports, or is there for a type checker."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name):
        return node.test.id == "TYPE_CHECKING" and not node.orelse
    return isinstance(node, (ast.Import, ast.ImportFrom))


def is_text(node: ast.AST) -> bool:
    """Whether a statement is a string alone."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


class Told(TypedDict):
    """What a comparison of ours said, as a trial has it."""

    verdicts: dict[str, str]
    ratio: float | None
    low: float | None
    high: float | None
    detail: str


def told_of(measured: Measured) -> Told:
    """Of the step time, and of the memory where it was measured."""
    step_time, memory = measured.step_time, measured.memory
    verdicts = {TIME: FAILED if step_time is None else TIME_WORDS[step_time.verdict]}
    if memory is not None:
        verdicts[MEMORY] = MEMORY_WORDS[memory.verdict]
    return {
        "verdicts": verdicts,
        "ratio": None if step_time is None else step_time.ratio,
        "low": None if step_time is None else step_time.low,
        "high": None if step_time is None else step_time.high,
        "detail": "; ".join(
            (f"{measured.processes} processes a side of {measured.servers} servers", *measured.notices)
        ),
    }


@contextlib.contextmanager
def kept_busy() -> Iterator[int]:
    """Another process works and moves memory meanwhile, on the last core that this one may use: its id.

    UserError where there is one core only.
    """
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(usable) == 1:
        raise UserError(
            "There is one core only, and no other that could be kept busy.",
            cause="half of the comparisons are made while another core is busy",
            next_step="let it have two",
        )
    with subprocess.Popen([sys.executable, "-c", SPIN, str(os.getpid())]) as process:
        try:
            pin(process.pid, tuple(usable[-1:]))
            yield process.pid
        finally:
            process.kill()
