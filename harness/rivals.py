"""The tools that people use for this today, given the same workload, and what they say of it.

hyperfine times whole commands in turn and prints "1.05 ± 0.02 times faster"; its own script for the question whether
that is real is Welch's t-test (scripts/welch_ttest.py there). pytest-benchmark times a function in one process, saves
it, and fails a later process whose mean or min is more than so many per cent above it (``--benchmark-compare-fail``).
"""

from __future__ import annotations

import math
import os
import shlex
import shutil
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from scipy import stats

from harness import environment, uv
from harness.errors import UserError
from harness.trials import FASTER, NOTHING, SLOWER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

HYPERFINE, PYTEST_BENCHMARK = "hyperfine", "pytest-benchmark"
WARMUP, RUNS = 1, 10
"""Of each command; ten is the least that hyperfine does by itself."""
SIGNIFICANT = 0.05
"""Of its script."""
FEWEST_STEPS = 100
SAMPLE_STEPS = 200
THRESHOLDS = (3, 5)
"""Per cent, whole ones only: 3 is in the middle of what is to be told apart, 5 is what its help shows."""
STATISTICS = ("mean", "min")
ENFORCED = f"mean:{THRESHOLDS[0]}%"
"""What the real process is told to fail for; the other readings are worked out from the same data as it would."""
TEST = "from slower import stepper\n\n\ndef test_step(benchmark):\n    benchmark(stepper())\n"
MODULES = ("pytest", "pytest-benchmark")
TIMEOUT_S = 1800


@dataclass(frozen=True)
class Workload:
    """A script that takes the number of steps, and has a ``stepper()``; how long its start and one step take."""

    python: Path
    script: Path
    start_s: float
    step_s: float

    @classmethod
    def timed(cls, python: Path, script: Path) -> Workload:
        """Run it twice to see how long it takes."""
        taken = []
        for steps in (0, 0, SAMPLE_STEPS):  # the first one fills the disk's cache
            began = time.perf_counter()
            _run([str(python), str(script), str(steps)], environment.variables(1))
            taken.append(time.perf_counter() - began)
        return cls(python, script, taken[1], max(1e-6, (taken[2] - taken[1]) / SAMPLE_STEPS))


@dataclass(frozen=True)
class Said:
    """What a tool said of one case."""

    verdicts: dict[str, str]
    """By each reading of it."""
    ratio: float
    """Of the means, candidate over baseline."""
    detail: str


@dataclass(frozen=True)
class Rivals:
    """Both tools, ready to run; hyperfine is None where the machine has none."""

    workload: Workload
    folder: Path
    modules: Path
    """Where pytest-benchmark is installed, apart from the tested environment."""
    hyperfine: str | None

    @classmethod
    def prepared(cls, python: Path, script: Path, folder: Path) -> Rivals:
        """Get pytest-benchmark for ``python`` into ``folder``; UserError where that fails."""
        modules = folder / "modules"
        ran = uv.run(["pip", "install", "--python", str(python), "--target", str(modules), *MODULES])
        if ran.returncode:
            raise UserError(
                "pytest-benchmark cannot be installed.",
                cause=ran.stderr.strip().splitlines()[-1] if ran.stderr.strip() else "uv did not say why",
                next_step="--rivals 0 measures without the other tools",
            )
        (folder / "test_step.py").write_text(TEST, encoding="utf-8")
        return cls(Workload.timed(python, script), folder, modules, shutil.which("hyperfine"))

    @property
    def tools(self) -> dict[str, Callable[[float, float], Said]]:
        """What compares the workload with itself slowed by so many per cent, in about so many seconds, by name."""
        found: dict[str, Callable[[float, float], Said]] = {PYTEST_BENCHMARK: self.pytest_benchmark}
        return found if self.hyperfine is None else {**found, HYPERFINE: self.hyperfine_run}

    def hyperfine_run(self, per_cent: float, limit_s: float) -> Said:
        """Both commands with so many steps that it takes ``limit_s``."""
        work = self.workload
        each_s = limit_s / (2 * (WARMUP + RUNS))
        steps = max(FEWEST_STEPS, int((each_s - work.start_s) / work.step_s))
        commands = [
            shlex.join(["env", f"SLOWER_PER_CENT={value:g}", str(work.python), str(work.script), str(steps)])
            for value in (0, per_cent)
        ]
        exported = self.folder / "hyperfine.json"
        options = ["--warmup", str(WARMUP), "--runs", str(RUNS), "--export-json", str(exported), "--style", "basic"]
        assert self.hyperfine is not None
        _run([self.hyperfine, *options, *commands], environment.variables(1))
        baseline, candidate = (
            each["times"] for each in msgspec.json.decode(exported.read_bytes(), type=dict[str, Any])["results"]
        )
        ratio, verdicts = read_hyperfine(baseline, candidate)
        return Said(verdicts, ratio, f"{RUNS} runs of {steps} steps")

    def pytest_benchmark(self, per_cent: float, limit_s: float) -> Said:
        """Two processes that measure for ``limit_s`` together."""
        storage = self.folder / "storage"
        shutil.rmtree(storage, ignore_errors=True)
        seconds = max(1.0, limit_s / 2 - 2 * self.workload.start_s)
        paths = os.pathsep.join([str(self.modules), str(self.workload.script.parent)])
        variables = {**environment.variables(1), "PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        command = [
            str(self.workload.python), "-m", "pytest", "-q", "-p", "pytest_benchmark.plugin", "-p", "no:cacheprovider",
            "--rootdir", str(self.folder), "test_step.py", f"--benchmark-max-time={seconds:g}",
            "--benchmark-warmup=on", "--benchmark-warmup-iterations=50", f"--benchmark-storage=file://{storage}",
        ]  # fmt: skip
        _run([*command, "--benchmark-save=baseline"], variables, self.folder)
        compared = ["--benchmark-save=candidate", "--benchmark-compare", f"--benchmark-compare-fail={ENFORCED}"]
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
                next_step="report it with what --rivals 1 prints",
            )
        rounds = f"{first['rounds']} and {second['rounds']} rounds"
        return Said(verdicts, second["mean"] / first["mean"], rounds)


def read_hyperfine(baseline: Sequence[float], candidate: Sequence[float]) -> tuple[float, dict[str, str]]:
    """The ratio of the means, and what is told by each reading of the runs' seconds.

    "times faster ± u" is the slower mean over the faster one, with u from both standard deviations (its relative.rs).
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


def read_pytest_benchmark(baseline: Mapping[str, float], candidate: Mapping[str, float]) -> dict[str, str]:
    """What each threshold tells: it fails for slower ones alone; the same the other way round is called faster here."""
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
    """The sample's standard deviation."""
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _run(
    command: Sequence[str], variables: Mapping[str, str], folder: Path | None = None, wanted: Sequence[int] = (0,)
) -> int:
    """The exit code of a command; UserError where it is not one of ``wanted``."""
    try:
        ran = subprocess.run(
            command, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"{command[0]} did not end in {TIMEOUT_S} s.",
            cause="it hangs, or the budget is larger than that",
            next_step="the same command goes on where it stopped; --rivals 0 measures without the other tools",
        ) from None
    if ran.returncode not in wanted:
        said = (ran.stderr.strip() or ran.stdout.strip()).splitlines()[-1:]
        raise UserError(
            f"{command[0]} ended with {ran.returncode}.",
            cause=said[0] if said else "it did not say why",
            next_step="--rivals 0 measures without the other tools; the same command goes on where it stopped",
        )
    return ran.returncode
