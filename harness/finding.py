"""Pure: the processes of a traced script become one finding, in data and in words."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from harness.causes import Diagnosis, place, where
from harness.diagnosis import diagnose, false_alarms
from harness.learning import grouped
from harness.model import Gradient
from harness.observation import SCHEMA, Frozen, Observation
from harness.outcome import Outcome, Phase
from harness.remedy import Remedy, explained
from harness.verdict import Ended, Verdict, gradient_status, judge, judge_observation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WARMUP = 4
TIMED_AT_LEAST = 2
MIB = 2**20


class Process(Frozen, frozen=True):
    """What one process of the script left, as ``inside/trace.py`` writes it."""

    schema: Literal[1]
    pid: int
    rank: int | None
    observation: Observation


class Speed(Frozen, frozen=True):
    """Optimizer steps per second after audit and warm-up: the median, and the first and third quartile."""

    median: float
    low: float
    high: float
    steps: int


class Finding(Frozen, frozen=True):
    """What a trace found; ``--json`` prints this."""

    schema: Literal[1]
    command: tuple[str, ...]
    exit_code: int
    """The script's own; 128 + n where signal n ended it."""
    outcome: str
    gradient: Gradient | None
    message: str
    steps: int
    steps_per_s: Speed | None
    peak_memory_bytes: int | None
    diagnosis: Diagnosis | None
    explanation: tuple[str, ...]
    """The diagnosis and what to do, in sentences."""
    learns: tuple[str, ...]
    """Where some parameters learn and some do not: the modules whose parameters do."""
    does_not_learn: tuple[str, ...]
    misleading: tuple[str, ...]
    """Warnings that speak of missing gradients, where none is missing."""
    trouble: tuple[str, ...]
    """What could not be watched."""
    observation: Observation | None


class Left(Frozen, frozen=True):
    """What all processes of the script left."""

    processes: tuple[Process, ...] = ()
    trouble: tuple[str, ...] = ()
    """Why some could not be watched."""
    stopped: bool = False
    """One was stopped after as many steps as were asked for."""


def no_remedy(_diagnosis: Diagnosis, _seen: Observation) -> Remedy | None:
    """Where no matrix is at hand."""
    return None


def conclude(
    command: Sequence[str],
    returncode: int,
    left: Left,
    remedy_for: Callable[[Diagnosis, Observation], Remedy | None] = no_remedy,
) -> Finding:
    """The finding on a script that ended with ``returncode`` (minus the signal's number where one ended it)."""
    seen = observed(left.processes, failed=returncode != 0 and not left.stopped)
    verdict = judged(seen, 0 if left.stopped else returncode)
    diagnosis = diagnose(seen) if seen is not None else None
    remedy = remedy_for(diagnosis, seen) if diagnosis is not None and seen is not None else None
    learning, still = grouped(seen.parameters) if seen is not None else ((), ())
    return Finding(
        schema=SCHEMA,
        command=tuple(command),
        exit_code=returncode if returncode >= 0 else 128 - returncode,
        outcome=str(verdict.outcome),
        gradient=verdict.gradient,
        message=verdict.message,
        steps=seen.steps if seen is not None else 0,
        steps_per_s=speed(seen.step_times_s) if seen is not None else None,
        peak_memory_bytes=seen.peak_memory_bytes if seen is not None else None,
        diagnosis=diagnosis,
        explanation=explained(diagnosis, remedy) if diagnosis is not None else (),
        learns=learning if still else (),
        does_not_learn=still if learning else (),
        misleading=false_alarms(seen) if seen is not None else (),
        trouble=(*left.trouble, *(seen.observer_errors if seen is not None else ())),
        observation=seen,
    )


def observed(processes: Sequence[Process], *, failed: bool) -> Observation | None:
    """The observation of the first rank that did most, and the exception of another one where it has none itself."""
    first = [process for process in processes if not process.rank] or list(processes)
    if not first:
        return None
    seen = max(first, key=lambda process: work(process.observation)).observation
    others = [process.observation.raised for process in (*first, *processes)]
    raised = next((other for other in others if other is not None), None)
    if seen.raised is None and failed and raised is not None:
        return replace(seen, raised=raised, reached="step" if seen.steps or seen.backward else "setup")
    return seen


def work(seen: Observation) -> tuple[int, int, int]:
    """How much of a training a process saw."""
    return seen.steps, len(seen.backward), len(seen.parameters)


def judged(seen: Observation | None, returncode: int) -> Verdict:
    """The verdict; a signal and an exit code of the script's own outweigh what was seen before."""
    if seen is None and returncode == 0:
        return Verdict(Outcome(Phase.PROCESS, "exit-0"), None, "the script never imported torch")
    ended = Ended(signal=-returncode if returncode < 0 else None, exit=returncode)
    if seen is None:
        return judge(None, ended)
    if returncode < 0 or (returncode and seen.raised is None):
        verdict = judge(None, ended)
        return Verdict(verdict.outcome, gradient_status(seen), verdict.message)
    return judge(seen, ended)


def speed(times_s: Sequence[float]) -> Speed | None:
    """Steps per second, without the first few where there are enough; None where there are too few for quartiles."""
    rates = [1 / seconds for seconds in times_s[min(WARMUP, len(times_s) // 4) :] if seconds > 0]
    if len(rates) < TIMED_AT_LEAST:
        return None
    low, median, high = statistics.quantiles(rates, n=4, method="inclusive")
    return Speed(median=median, low=low, high=high, steps=len(rates))


def headline(finding: Finding) -> str:
    """Outcome, gradient, steps, speed and memory on one line."""
    parts = [finding.outcome]
    if finding.gradient is not None:
        late = finding.outcome == "step:no-grad-fn" and finding.gradient is Gradient.FLOWING
        parts.append(f"gradient {finding.gradient}{' at first' if late else ''}")
    if finding.observation is not None:
        parts.append(f"{finding.steps} step{'' if finding.steps == 1 else 's'}")
    if (fast := finding.steps_per_s) is not None:
        parts.append(f"{digits(fast.median)} steps/s ({digits(fast.low)} to {digits(fast.high)})")
    if finding.peak_memory_bytes is not None:
        parts.append(f"{finding.peak_memory_bytes / MIB:.0f} MiB at peak")
    return ", ".join(parts)


def digits(value: float) -> str:
    """A number with three digits or so."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004  (three digits)


def notes(seen: Observation) -> list[str]:
    """What a verdict does not cover: optimizers that stepped later, parameters that none holds."""
    found = [
        f"not judged: {built.type}{where(place(built.frames), 'it is built at')}; its first step came after the audit"
        for built in seen.optimizers
        if built.steps and not built.learning_rates
    ]
    loose = seen.unheld
    if loose is not None and judge_observation(seen).outcome.trains:
        modules = ", ".join(f"`{module}`" for module in loose.modules)
        found.append(f"note: {loose.parameters} parameters got a gradient and no optimizer holds them: {modules}")
    return found


def report(finding: Finding) -> list[str]:
    """The lines below the headline."""
    lines = list(finding.explanation) or ([finding.message] if finding.message else [])
    lines += notes(finding.observation) if finding.observation is not None else []
    lines += [f"misleading here, everything learns: {message}" for message in finding.misleading]
    lines += [f"not watched: {trouble}" for trouble in finding.trouble]
    if finding.observation is not None:
        versions = finding.observation.environment
        lines.append(
            ", ".join(
                f"{name} {versions[name]}"
                for name in versions
                if name not in {"cpu", "system", "cuda"} and versions[name]
            )
        )
    return lines
