"""``bench-comparison``: how often verdicts on step times are right, where the answer is known.

A trial is one comparison of a workload with itself (0 per cent), or with itself slowed by a known
amount. Trials are kept in a file, so that a command that was stopped continues. A round is one
comparison of two equal sides and one of each slowdown. Every comparison has servers of its own, so
that trials are independent. In every other round another core is kept busy.

Other tools get the same cases in between. hyperfine times whole commands in turn and prints "1.05 ±
0.02 times faster"; for the question whether that is real it has a script with Welch's t-test
(scripts/welch_ttest.py). pytest-benchmark times a function in one process, saves the result, and
fails a later process whose mean or min is more than some per cent above it
(``--benchmark-compare-fail``).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import math
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec
import numpy as np
from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text
from scipy import stats

from gradmatrix.cli.commands import add, count
from gradmatrix.cli.options import chosen_stacks
from gradmatrix.core.errors import UserError
from gradmatrix.core.files import read_lines, write_atomically
from gradmatrix.core.observation import Frozen
from gradmatrix.core.text import one_line
from gradmatrix.measure.race import STEPS, Measurement
from gradmatrix.measure.servers import Contender, make_servers, pin
from gradmatrix.measure.statistics import MEMORY_WORDS, TIME_WORDS, Key, Size
from gradmatrix.run import meaning
from gradmatrix.run.plan import PACING, PACKAGE
from gradmatrix.run.pool import Source
from gradmatrix.run.server import Request
from gradmatrix.stacks import environment, sandbox, uv

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from rich.console import Console

    from gradmatrix.measure.servers import Servers
    from gradmatrix.measure.statistics import Measured
    from gradmatrix.run.pool import Settings
    from gradmatrix.run.project import Project


OURS = "gradmatrix"
TIME, MEMORY = "step time", "peak memory"
"""The two verdicts of one comparison by this project."""
SLOWER, FASTER, NOTHING, FAILED = "slower", "faster", "nothing", "failed"
"""Verdicts on the candidate. This project also says ``same`` or ``inconclusive``."""
MORE, LESS = (
    {words[size] for words in (TIME_WORDS, MEMORY_WORDS) for size in sizes}
    for sizes in ((Size.MORE, Size.PROBABLY_MORE), (Size.LESS, Size.PROBABLY_LESS))
)
FALSE_AT_MOST = 0.01
"""The share of comparisons of equal sides that may be called different."""
FOUND_AT_LEAST = {5.0: 0.95, 2.0: 0.5}
"""Slowdown in per cent -> the share of runs that must call it slower in time."""


class Trial(Frozen, frozen=True, kw_only=True):
    """One comparison by one tool."""

    tool: str
    per_cent: float
    """The candidate's slowdown; 0 for two equal sides."""
    number: int
    """The number among the trials of this tool with this slowdown, from 0 on."""
    busy: bool
    """Whether another core was kept busy at the same time."""
    verdicts: dict[str, str]
    """The verdict on the candidate, for each way of reading the tool's output."""
    seconds: float
    """Seconds of both sides together: of ours those of measuring, without the start of servers."""
    limit_s: float
    """Seconds that it was allowed to take."""
    stack: str
    code: str = ""
    """Digest of the code that made it; empty in old files."""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    detail: str = ""

    @property
    def late(self) -> bool:
        """Whether it took longer than allowed; other tools have no limit."""
        return self.tool == OURS and self.seconds > self.limit_s


@dataclass(frozen=True)
class Tally:
    """The trials of one tool with one slowdown, read in one way.

    With another core busy, idle, or both.
    """

    tool: str
    reading: str
    per_cent: float
    busy: bool | None
    verdicts: tuple[str, ...]
    late: int
    """How many said slower, but not in time."""
    half_width: float | None
    """Median half width of the logarithm's interval; None if the tool has no interval."""
    seconds: float
    """Median."""

    @property
    def of(self) -> int:
        """How many trials."""
        return len(self.verdicts)

    @property
    def right(self) -> int:
        """How many were called slower in time; for equal sides, called different."""
        return self.more - self.late if self.per_cent else self.more + self.less

    @property
    def more(self) -> int:
        """How many say that the candidate takes more."""
        return sum(each in MORE for each in self.verdicts)

    @property
    def less(self) -> int:
        """How many say that it takes less."""
        return sum(each in LESS for each in self.verdicts)

    @property
    def failed(self) -> int:
        """How many could not be measured."""
        return self.verdicts.count(FAILED)

    @property
    def interval(self) -> tuple[float, float]:
        """The share's 95 % interval by Clopper and Pearson."""
        found = stats.binomtest(self.right, self.of).proportion_ci(0.95, "exact")
        return float(found.low), float(found.high)

    @property
    def met(self) -> bool | None:
        """Whether the bound is met.

        None if there is none: for parts of the trials, memory, other tools.
        """
        if (self.tool, self.reading, self.busy) != (OURS, TIME, None):
            return None
        share = self.right / self.of
        return (
            share >= FOUND_AT_LEAST.get(self.per_cent, 0.0)
            if self.per_cent
            else share <= FALSE_AT_MOST
        )

    @property
    def bound(self) -> str:
        """The bound in words; empty if there is none."""
        if self.met is None:
            return ""
        return (
            f">= {FOUND_AT_LEAST.get(self.per_cent, 0.0):.0%}"
            if self.per_cent
            else f"<= {FALSE_AT_MOST:.0%}"
        )


def tallies(trials: Iterable[Trial]) -> list[Tally]:
    """By slowdown, tool and reading: all trials, then those with another core idle, then busy."""
    known = list(trials)
    kinds = dict.fromkeys(
        (each.per_cent, each.tool, reading)
        for each in sorted(known, key=lambda t: (t.per_cent, t.tool != OURS, t.tool))
        for reading in each.verdicts
        if reading != MEMORY or not each.per_cent  # the slowdown takes no memory
    )
    found = []
    for per_cent, tool, reading in kinds:
        chosen = [
            t for t in known if (t.per_cent, t.tool) == (per_cent, tool) and reading in t.verdicts
        ]
        states = sorted({each.busy for each in chosen})
        found.append(_tally(chosen, reading, busy=None))
        if len(states) > 1 and (tool, reading) == (OURS, TIME):
            found += [
                _tally([each for each in chosen if each.busy is busy], reading, busy=busy)
                for busy in states
            ]
    return found


def _tally(trials: Sequence[Trial], reading: str, *, busy: bool | None) -> Tally:
    """The tally of trials (at least one) of the same slowdown and tool."""
    first = trials[0]
    widths = [(t.high - t.low) / 2 for t in trials if t.high is not None and t.low is not None]
    return Tally(
        tool=first.tool,
        reading=reading,
        per_cent=first.per_cent,
        busy=busy,
        verdicts=tuple(each.verdicts[reading] for each in trials),
        late=sum(each.verdicts[reading] in MORE and each.late for each in trials),
        half_width=statistics.median(widths) if widths and reading == TIME else None,
        seconds=statistics.median(each.seconds for each in trials),
    )


def shortcomings(found: Iterable[Tally]) -> list[str]:
    """The bounds that are missed, in words."""
    missed = []
    for each in found:
        if each.met is False:
            what = (
                f"slowed by {each.per_cent:g} % were called slower in time"
                if each.per_cent
                else "pairs of equal sides were called different"
            )
            missed.append(f"{each.right} of {each.of} {what}: wanted {each.bound}")
    return missed


@dataclass
class Ledger:
    """The trials so far, in a file with one trial per line."""

    path: Path
    trials: list[Trial]

    @classmethod
    def at(cls, path: Path) -> Ledger:
        """The trials in the file, or none.

        Half a line at the end, left by a killed command, is dropped.

        Raises:
            UserError: if a line is not a trial.
        """
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            return cls(path, [])
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            os.truncate(path, len(whole))
        trials = []
        for line in read_lines(path, msgspec.json.Decoder(Trial).decode):
            if line.value is None:
                raise UserError(
                    f"{path}, line {line.number} is no trial: {line.problem}.",
                    cause="another program wrote the file",
                    next_step="name another file with --output",
                )
            trials.append(line.value)
        return cls(path, trials)

    def add(self, trial: Trial) -> Trial:
        """Add a trial."""
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(trial) + b"\n")
        self.trials.append(trial)
        return trial

    def keep(self, trial: Trial, sets: Sequence[Sequence[NDArray[np.float64]]]) -> None:
        """Keep the seconds per step of a trial in a file, shaped as for ``statistics.of_blocks``.

        An array is named after its set of servers and the number of its generation: 0-2.
        """
        named = {
            f"{one}-{number}": each for one, of in enumerate(sets) for number, each in enumerate(of)
        }
        content = io.BytesIO()
        np.savez_compressed(content, **named)  # type: ignore[arg-type]
        folder = self.path.with_name(self.path.name + ".blocks")
        write_atomically(folder / f"{trial.per_cent:g}-{trial.number}.npz", content.getvalue())

    def has(self, tool: str, per_cent: float, number: int) -> bool:
        """Whether this trial was made."""
        return any((t.tool, t.per_cent, t.number) == (tool, per_cent, number) for t in self.trials)

    def refuse_others(self, stack: str, code: str, limit: Callable[[str, float], float]) -> None:
        """Check that the trials so far were made with the same settings and code.

        Args:
            stack: the stack that is measured now.
            code: the digest of the code that measures now.
            limit: gives the seconds that a trial may take, from its tool and slowdown.

        Raises:
            UserError: if they were not.
        """
        for each in self.trials:
            limit_s = limit(each.tool, each.per_cent)
            if (each.stack, each.limit_s) != (stack, limit_s):
                raise UserError(
                    f"{self.path} has trials on {each.stack} of {each.limit_s:g} s; "
                    f"asked for are {stack} and {limit_s:g} s.",
                    cause="trials made in different ways do not count together",
                    next_step="name another file with --output, or give the same options as before",
                )
            if not is_measured_by(code, each):
                raise UserError(
                    f"{self.path} has trials by other code: {each.code or 'unknown'}, "
                    f"this is {code}.",
                    cause="the measuring code has changed since then, "
                    "so the trials do not count together",
                    next_step="name another file with --output, or check out the earlier code",
                )


HYPERFINE, PYTEST_BENCHMARK = "hyperfine", "pytest-benchmark"
WARMUP, RUNS = 1, 10
"""Runs of each command; ten is hyperfine's own minimum."""
SIGNIFICANT = 0.05
"""The level of hyperfine's script."""
FEWEST_STEPS = 100
SAMPLE_STEPS = 200
THRESHOLDS = (3, 5)
"""Whole per cents: 3 lies between the cases to distinguish, 5 is the example in its help."""
STATISTICS = ("mean", "min")
ENFORCED = f"mean:{THRESHOLDS[0]}%"
"""The threshold that the real process enforces; the others are computed from the same data."""
TEST = "from slower import stepper\n\n\ndef test_step(benchmark):\n    benchmark(stepper())\n"
MODULES = ("pytest", "pytest-benchmark")
TIMEOUT_S = 1800


@dataclass(frozen=True)
class Workload:
    """A script that takes the number of steps and has a ``stepper()``, with its times."""

    python: Path
    script: Path
    start_s: float
    step_s: float

    @classmethod
    def timed(cls, python: Path, script: Path) -> Workload:
        """Run it to see how long its start and a step take."""
        taken = []
        for steps in (0, 0, SAMPLE_STEPS):  # the first run fills the disk's cache
            began = time.perf_counter()
            _run([str(python), str(script), str(steps)], sandbox.variables(1))
            taken.append(time.perf_counter() - began)
        return cls(python, script, taken[1], max(1e-6, (taken[2] - taken[1]) / SAMPLE_STEPS))


@dataclass(frozen=True)
class Said:
    """The answer of a tool for one case."""

    verdicts: dict[str, str]
    """Verdicts by each way of reading the output."""
    ratio: float
    """Ratio of the means, candidate over baseline."""
    detail: str


@dataclass(frozen=True)
class Rivals:
    """Both tools, ready to run; hyperfine is None if the machine has none."""

    workload: Workload
    folder: Path
    modules: Path
    """Where pytest-benchmark is installed, outside the tested environment."""
    hyperfine: str | None

    @classmethod
    def prepared(cls, python: Path, script: Path, folder: Path) -> Rivals:
        """Install pytest-benchmark for ``python`` into ``folder``.

        Raises:
            UserError: if that fails.
        """
        modules = folder / "modules"
        ran = uv.run(
            ["pip", "install", "--python", str(python), "--target", str(modules), *MODULES]
        )
        if ran.returncode:
            raise UserError(
                "pytest-benchmark cannot be installed.",
                cause=ran.stderr.strip().splitlines()[-1]
                if ran.stderr.strip()
                else "uv gave no reason",
                next_step="--rivals 0 leaves the other tools out",
            )
        (folder / "test_step.py").write_text(TEST, encoding="utf-8")
        return cls(Workload.timed(python, script), folder, modules, shutil.which("hyperfine"))

    @property
    def tools(self) -> dict[str, Callable[[float, float], Said]]:
        """The tools by name: each compares the workload with itself slowed, in given seconds."""
        found: dict[str, Callable[[float, float], Said]] = {PYTEST_BENCHMARK: self.pytest_benchmark}
        return found if self.hyperfine is None else {**found, HYPERFINE: self.hyperfine_run}

    def hyperfine_run(self, per_cent: float, limit_s: float) -> Said:
        """Compare both commands with hyperfine, with as many steps as fit into ``limit_s``."""
        work = self.workload
        each_s = limit_s / (2 * (WARMUP + RUNS))
        steps = max(FEWEST_STEPS, int((each_s - work.start_s) / work.step_s))
        commands = [
            shlex.join(
                [
                    "env",
                    f"SLOWER_PER_CENT={value:g}",
                    str(work.python),
                    str(work.script),
                    str(steps),
                ]
            )
            for value in (0, per_cent)
        ]
        exported = self.folder / "hyperfine.json"
        options = [
            "--warmup",
            str(WARMUP),
            "--runs",
            str(RUNS),
            "--export-json",
            str(exported),
            "--style",
            "basic",
        ]
        assert self.hyperfine is not None
        _run([self.hyperfine, *options, *commands], sandbox.variables(1))
        baseline, candidate = (
            each["times"]
            for each in msgspec.json.decode(exported.read_bytes(), type=dict[str, Any])["results"]
        )
        ratio, verdicts = read_hyperfine(baseline, candidate)
        return Said(verdicts, ratio, f"{RUNS} runs of {steps} steps")

    def pytest_benchmark(self, per_cent: float, limit_s: float) -> Said:
        """Compare two processes of pytest-benchmark that measure for ``limit_s`` together."""
        storage = self.folder / "storage"
        shutil.rmtree(storage, ignore_errors=True)
        seconds = max(1.0, limit_s / 2 - 2 * self.workload.start_s)
        paths = os.pathsep.join([str(self.modules), str(self.workload.script.parent)])
        variables = {
            **sandbox.variables(1),
            "PYTHONPATH": paths,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        command = [
            str(self.workload.python), "-m", "pytest", "-q",
            "-p", "pytest_benchmark.plugin", "-p", "no:cacheprovider",
            "--rootdir", str(self.folder), "test_step.py", f"--benchmark-max-time={seconds:g}",
            "--benchmark-warmup=on", "--benchmark-warmup-iterations=50",
            f"--benchmark-storage=file://{storage}",
        ]  # fmt: skip
        _run([*command, "--benchmark-save=baseline"], variables, self.folder)
        compared = [
            "--benchmark-save=candidate",
            "--benchmark-compare",
            f"--benchmark-compare-fail={ENFORCED}",
        ]
        candidate = {**variables, "SLOWER_PER_CENT": f"{per_cent:g}"}
        ended = _run([*command, *compared], candidate, self.folder, wanted=(0, 1))
        first, second = (
            msgspec.json.decode(path.read_bytes(), type=dict[str, Any])["benchmarks"][0]["stats"]
            for path in sorted(storage.rglob("*.json"))
        )
        verdicts = read_pytest_benchmark(first, second)
        if (verdicts[ENFORCED] == SLOWER) != bool(ended):
            raise UserError(
                f"pytest-benchmark ended with {ended} where {verdicts[ENFORCED]} was expected.",
                cause="its exit code and its data say different things",
                next_step="report it together with the output of --rivals 1",
            )
        rounds = f"{first['rounds']} and {second['rounds']} rounds"
        return Said(verdicts, second["mean"] / first["mean"], rounds)


def read_hyperfine(
    baseline: Sequence[float], candidate: Sequence[float]
) -> tuple[float, dict[str, str]]:
    """The ratio of the means and the verdict of each reading, from the seconds of the runs.

    "times faster ± u" is the slower mean over the faster one, with u from both standard deviations
    (hyperfine's relative.rs).
    """
    sides = [(math.fsum(times) / len(times), _deviation(times)) for times in (baseline, candidate)]
    (first, first_deviation), (second, second_deviation) = sides
    direction = SLOWER if second > first else FASTER
    factor = max(first, second) / min(first, second)
    uncertainty = factor * math.hypot(first_deviation / first, second_deviation / second)
    p = float(stats.ttest_ind(baseline, candidate, equal_var=False).pvalue)
    return second / first, {
        "summary, ratio - u > 1": direction if factor - uncertainty > 1 else NOTHING,
        "summary, ratio - 2 u > 1": direction if factor - 2 * uncertainty > 1 else NOTHING,
        "Welch's t-test, p < 0.05": direction if p < SIGNIFICANT else NOTHING,
    }


def read_pytest_benchmark(
    baseline: Mapping[str, float], candidate: Mapping[str, float]
) -> dict[str, str]:
    """The verdict of each threshold.

    pytest-benchmark fails for slower ones only; the same in the other direction is called faster
    here.
    """
    return {
        f"{field}:{threshold}%": SLOWER
        if candidate[field] / baseline[field] * 100 - 100 > threshold
        else FASTER
        if baseline[field] / candidate[field] * 100 - 100 > threshold
        else NOTHING
        for field in STATISTICS
        for threshold in THRESHOLDS
    }


def _deviation(values: Sequence[float]) -> float:
    """The standard deviation of a sample."""
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _run(
    command: Sequence[str],
    variables: Mapping[str, str],
    folder: Path | None = None,
    wanted: Sequence[int] = (0,),
) -> int:
    """Run a command; returns its exit code.

    Raises:
        UserError: if it is not one of ``wanted``, or the command takes too long.
    """
    try:
        ran = subprocess.run(
            command,
            cwd=folder,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"{command[0]} did not end in {TIMEOUT_S} s.",
            cause="it hangs, or its budget is larger than that",
            next_step="run the command again to continue; --rivals 0 leaves the other tools out",
        ) from None
    if ran.returncode not in wanted:
        said = (ran.stderr.strip() or ran.stdout.strip()).splitlines()[-1:]
        raise UserError(
            f"{command[0]} ended with {ran.returncode}.",
            cause=said[0] if said else "it gave no reason",
            next_step="run the command again to continue; --rivals 0 leaves the other tools out",
        )
    return ran.returncode


SCRIPT = Path(__file__).parent / "faults" / "slower.py"
MEASURING = (("race", "Measurement"), ("servers", "make_servers"))
"""Where the measuring code of the host starts, in the package ``measure``."""
EARLIER = dict.fromkeys(("e61e95e0baa6", "bb9bdace11bd", "2a9b84d3b576"), "c1e28e4bb7cd")
"""Earlier digests, which trials of the ledger have -> today's. The code behind them was compared by
its syntax trees: the environment variables of a server are now put together in ``run.pool``, and
are the same for this script; an error message has more words; the clock is in ``observe/clock.py``,
rounds a wait to 0.1 µs, and survives a script that closes its file. How time is measured is the
same."""
KEY = Key("slower", "control", "cpu")
MARGIN = 0.01
AMONG = 2
"""Comparisons that share the error probability: step time and memory of one cell, as in
``upgrade``."""
BY_RIVALS = 5.0
"""The slowdown that the other tools get too."""
LAST_S = 10.0
"""Seconds left for the current generation when the budget of a slowed run ends: a verdict counts
only if it is in time."""
SPIN = """
import os, sys

os.nice(19)
block = bytearray(1 << 26)
while os.getppid() == int(sys.argv[1]):
    block[: 1 << 25] = block[1 << 25 :]
"""
"""Reads and writes 32 MB at a time, more than a core's own caches hold, while its parent is alive.
Any other process that wants the core goes first.
"""


@dataclass(frozen=True)
class Wanted:
    """How much is measured, and for how long."""

    comparisons: int = 200
    """Comparisons of equal sides."""
    runs: int = 40
    """Runs of each slowdown."""
    rivals: int = 20
    """Cases that the other tools get, of equal sides and of one slowdown each."""
    budget_s: float = 40.0
    """Seconds of one comparison of equal sides, both together."""
    power_s: float = 120.0
    """Seconds of one run with a slowdown, both sides together."""
    rival_s: float = 120.0
    """Seconds of each other tool and case, both sides together."""
    only: frozenset[str] = frozenset({"aa", "power", "rivals"})
    busy: bool = False
    """Keep another core busy all the time, and not only in every other comparison of equal sides.
    """

    def limit_s(self, tool: str, per_cent: float) -> float:
        """Seconds that one trial may take."""
        if tool != OURS:
            return self.rival_s
        return self.power_s if per_cent else self.budget_s


@dataclass(frozen=True)
class Bench:
    """The rounds in one environment."""

    stack: str
    python: Path
    settings: Settings
    wanted: Wanted
    ledger: Ledger
    directory: Path
    stage: Callable[[str], None]

    def run(self) -> Iterator[Trial]:
        """Make every trial that is missing."""
        asked = self.wanted
        self.ledger.refuse_others(self.stack, code_digest(), asked.limit_s)
        others = None
        if "rivals" in asked.only and asked.rivals:
            self.stage("getting pytest-benchmark")
            others = Rivals.prepared(self.python, SCRIPT, self.directory)
        for number in range(max(asked.comparisons, asked.runs, asked.rivals)):
            busy = asked.busy or number % 2 == 1
            with kept_busy() if busy else contextlib.nullcontext():
                if "aa" in asked.only and number < asked.comparisons:
                    yield from self.missing(number, [0.0], busy=busy)
                if others:
                    yield from self.by_others(others, number, 0.0, busy=busy)
            with kept_busy() if asked.busy else contextlib.nullcontext():
                if "power" in asked.only and number < asked.runs:
                    yield from self.missing(number, FOUND_AT_LEAST, busy=asked.busy)
                if others:
                    yield from self.by_others(others, number, BY_RIVALS, busy=asked.busy)

    def missing(self, number: int, slowdowns: Iterable[float], *, busy: bool) -> Iterator[Trial]:
        """The comparisons of a round that were not made yet, each with servers of its own."""
        for per_cent in slowdowns:
            if not self.ledger.has(OURS, per_cent, number):
                with self.make_servers(per_cent) as both:
                    yield self.compared(both, per_cent, number, busy=busy)

    def by_others(
        self, others: Rivals, number: int, per_cent: float, *, busy: bool
    ) -> Iterator[Trial]:
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
    def make_servers(self, per_cent: float) -> Iterator[Servers]:
        """Fresh servers of a baseline and of a candidate that is slower by ``per_cent``."""
        with tempfile.TemporaryDirectory(dir=self.directory) as folder:
            slowed = Contender(self.python, {"SLOWER_PER_CENT": f"{per_cent:g}"})
            sources: Sequence[Source] = [Source(SCRIPT, own=False)]
            with make_servers(
                Contender(self.python), slowed, sources, self.settings, Path(folder)
            ) as both:
                yield both

    def compared(self, both: Servers, per_cent: float, number: int, *, busy: bool) -> Trial:
        """One comparison, as ``upgrade`` makes it for one cell."""
        limit_s = self.wanted.limit_s(OURS, per_cent)
        of = self.wanted.runs if per_cent else self.wanted.comparisons
        load = "another core busy" if busy else "nothing else busy"
        self.stage(f"{number + 1} of {of} with {per_cent:g} %, {load}")
        budget_s = max(1.0, limit_s - LAST_S) if per_cent else limit_s
        measurement = Measurement(both, KEY, self.request, budget_s, MARGIN, AMONG)
        measured = measurement.run()
        trial = Trial(
            tool=OURS,
            per_cent=per_cent,
            number=number,
            busy=busy,
            seconds=measured.spent_s,
            limit_s=limit_s,
            stack=self.stack,
            code=code_digest(),
            **result_of(measured),
        )
        self.ledger.keep(
            trial, measurement.sets
        )  # before the trial counts: it is not made again for that
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
    """A digest of what the measuring code means, of its settings, and of the workload.

    Trials with another digest do not count together with these.
    """
    parts = [
        str((MARGIN, AMONG, LAST_S)),
        meaning.digest("gradmatrix.measure", PACKAGE / "measure", MEASURING),
        meaning.digest("observe", PACKAGE / "observe", PACING),
        meaning.digest_of_file(SCRIPT.read_bytes(), frozenset()),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def is_measured_by(code: str, trial: Trial) -> bool:
    """Whether code of this digest made the trial, or code that means the same."""
    return code in (trial.code, EARLIER.get(trial.code))


class TrialResult(TypedDict):
    """The result of one comparison by this project, as fields of a trial."""

    verdicts: dict[str, str]
    ratio: float | None
    low: float | None
    high: float | None
    detail: str


def result_of(measured: Measured) -> TrialResult:
    """The verdict on the step time, and on memory if it was measured."""
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
            (
                f"{measured.processes} processes a side of {measured.servers} servers",
                *measured.notices,
            )
        ),
    }


@contextlib.contextmanager
def kept_busy() -> Iterator[int]:
    """Keep the last core that this process may use busy with another process, whose id is given.

    Raises:
        UserError: if there is only one core.
    """
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(usable) == 1:
        raise UserError(
            "There is only one processor core, so no other one can be kept busy.",
            cause="half of the comparisons need another core that is busy",
            next_step="run this with two cores or more",
        )
    with subprocess.Popen([sys.executable, "-c", SPIN, str(os.getpid())]) as process:
        try:
            pin(process.pid, tuple(usable[-1:]))
            yield process.pid
        finally:
            process.kill()


CORE = {None: "", True: ", other core busy", False: ", other core idle"}
STYLES = {None: "", True: "green", False: "red"}
WIDTH = 156
"""Characters that the table needs; on a narrower terminal its lines wrap."""
LEGEND = (
    "flagged: called slower or probably slower in time, or called different if the sides are "
    "equal; ±: half of the interval, s: seconds of both sides (medians), ours without the start of "
    "servers. Each comparison has servers of its own and is one cell of an upgrade: with several "
    "cells, intervals are wider"
)
PARTS = ("aa", "power", "rivals")
OUTPUT = "bench-comparison.jsonl"
COUNTS = (
    (
        "comparisons",
        Wanted.comparisons,
        "comparisons of two equal sides, in half of them with another core busy",
    ),
    ("runs", Wanted.runs, "runs with a slowdown of 5 %%, and as many of 2 %%"),
    (
        "rivals",
        Wanted.rivals,
        "cases of equal sides and of 5 %% that hyperfine and pytest-benchmark get too",
    ),
)
SECONDS = (
    ("budget", Wanted.budget_s, "for a comparison of equal sides, both together"),
    ("power-budget", Wanted.power_s, "for a run with a slowdown, both sides together"),
    ("rival-budget", Wanted.rival_s, "for each other tool and case, both sides together"),
)


def register_bench_comparison(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    """Add this command to the command line."""
    text = "measure how often the verdicts slower, faster and same are right, beside other tools"
    parser = add(commands, "bench-comparison", comparison_command, text)
    parser.add_argument(
        "stack", nargs="?", default=None, metavar="STACK", help="default: the newest core stack"
    )
    for name, default, what in COUNTS:
        parser.add_argument(
            f"--{name}",
            type=count,
            default=default,
            metavar="N",
            help=f"{what} (default: {default})",
        )
    for name, seconds, what in SECONDS:
        parser.add_argument(
            f"--{name}",
            type=float,
            default=seconds,
            metavar="SECONDS",
            help=f"{what} (default: {seconds:g})",
        )
    parser.add_argument(
        "--only", action="append", choices=PARTS, default=[], help="only this part (repeatable)"
    )
    parser.add_argument(
        "--busy", action="store_true", help="keep another core busy in every comparison"
    )
    parser.add_argument(
        "--output", type=Path, default=None, metavar="FILE",
        help="keep every result here, and continue with what is there "
        f"(default: .gradmatrix/{OUTPUT})",
    )  # fmt: skip
    parser.add_argument(
        "--summary", action="store_true", help="measure nothing, print the results in the file"
    )


def comparison_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Run ``bench-comparison``; returns 1 if a bound is missed."""
    ledger = Ledger.at(options.output or project.work / OUTPUT)
    if not options.summary:
        measure_trials(options, project, console, ledger)
    if not ledger.trials:
        raise UserError(
            f"{ledger.path} has no results.",
            cause="nothing was measured",
            next_step="leave out --summary",
        )
    found = tallies(ledger.trials)
    console.print(table(found), soft_wrap=True)
    console.print(LEGEND, soft_wrap=True)
    code = code_digest()
    strange = {each.code or "unknown" for each in ledger.trials if not is_measured_by(code, each)}
    others = ", ".join(sorted(strange))
    if others:
        console.print(
            Text(f"note: some trials were measured by other code: {others}"), soft_wrap=True
        )
    missed = shortcomings(found)
    for each in missed:
        console.print(Text(each, style="red"), soft_wrap=True)
    return 1 if missed else 0


def measure_trials(
    options: argparse.Namespace, project: Project, console: Console, ledger: Ledger
) -> None:
    """Make the missing trials and print a line for each."""
    wanted = Wanted(
        comparisons=options.comparisons,
        runs=options.runs,
        rivals=options.rivals,
        budget_s=options.budget,
        power_s=options.power_budget,
        rival_s=options.rival_budget,
        only=frozenset(options.only or PARTS),
        busy=options.busy,
    )
    if wanted.rivals and "rivals" in wanted.only and shutil.which(HYPERFINE) is None:
        console.print("note: hyperfine is not on PATH and is left out", soft_wrap=True)
    stack = chosen_stacks(project, [options.stack] if options.stack else [], everything=False)[-1]
    with (
        environment.in_use(project.environments, stack.name),
        tempfile.TemporaryDirectory(prefix="gradmatrix-bench-") as folder,
        console.status("") as status,
    ):
        installed = environment.ensure(
            project.lock_of(stack), project.locks_folder, project.environments
        )
        bench = Bench(
            stack=stack.name,
            python=installed.python,
            settings=project.settings(),
            wanted=wanted,
            ledger=ledger,
            directory=Path(folder),
            stage=lambda text: status.update(Text(text)),
        )
        for trial in bench.run():
            console.print(Text(line_of(trial)), soft_wrap=True)


def line_of(trial: Trial) -> str:
    """One trial in one line."""
    told = ", ".join(f"{reading}: {verdict}" for reading, verdict in trial.verdicts.items())
    ratio = "" if trial.ratio is None else f" ratio {trial.ratio:.4f}"
    interval = (
        "" if trial.low is None or trial.high is None else f" [{trial.low:.4f}, {trial.high:.4f}]"
    )
    state = "busy" if trial.busy else "idle"
    head = f"{trial.tool} {trial.per_cent:g} % #{trial.number + 1} {state} {trial.seconds:.1f} s"
    return one_line(f"{head}{ratio}{interval} {told} ({trial.detail})")


def table(found: list[Tally]) -> Table:
    """A row for each tool, reading and slowdown; ours also by the state of the other core."""
    result = Table(box=SIMPLE, width=WIDTH)
    for name in ("slowdown", "tool, verdict"):
        result.add_column(name, no_wrap=True)
    for name in (
        "n",
        "slower",
        "late",
        "faster",
        "neither",
        "failed",
        "flagged",
        "95 %",
        "wanted",
        "±",
        "s",
    ):
        result.add_column(name, no_wrap=True, justify="right")
    for number, each in enumerate(found):
        if number and found[number - 1].per_cent != each.per_cent:
            result.add_section()
        low, high = each.interval
        counts = (
            each.of,
            each.more,
            each.late,
            each.less,
            each.of - each.more - each.less - each.failed,
            each.failed,
        )
        result.add_row(
            f"{each.per_cent:g} %",
            f"{each.tool}, {each.reading}{CORE[each.busy]}",
            *map(str, counts),
            f"{each.right / each.of:.1%}",
            f"{low:.1%} to {high:.1%}",
            each.bound,
            "" if each.half_width is None else f"{each.half_width:.2%}",
            f"{each.seconds:.0f}",
            style=STYLES[each.met],
        )
    return result
