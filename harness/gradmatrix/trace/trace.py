"""Pure: the processes of a traced script become one finding, in data and in words.

Run any training script in any environment, unmodified, and collect what the observer saw in its processes.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Gradient
from gradmatrix.core.observation import SCHEMA, Frozen, Observation
from gradmatrix.core.outcomes import NO_GRAD_FN, Outcome
from gradmatrix.judge.causes import Remedy, explain
from gradmatrix.judge.diagnosis import (
    Diagnosis,
    diagnose,
    false_alarms,
    group_by_learning,
    innermost_frame,
    say_where,
)
from gradmatrix.judge.verdict import Ended, Verdict, gradient_status, judge, judge_observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType


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
    learning, still = group_by_learning(seen.parameters) if seen is not None else ((), ())
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
        explanation=explain(diagnosis, remedy) if diagnosis is not None else (),
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
        return replace(
            seen, raised=raised, reached="step" if seen.steps or seen.backward else "setup"
        )
    return seen


def work(seen: Observation) -> tuple[int, int, int]:
    """How much of a training a process saw."""
    return seen.steps, len(seen.backward), len(seen.parameters)


def judged(seen: Observation | None, returncode: int) -> Verdict:
    """The verdict; a signal and an exit code of the script's own outweigh what was seen before."""
    if seen is None and returncode == 0:
        return Verdict(Outcome("process:exit-0"), None, "the script never imported torch")
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
        late = finding.outcome == NO_GRAD_FN and finding.gradient is Gradient.FLOWING
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
        f"not judged: {built.type}"
        f"{say_where(innermost_frame(built.frames), 'it is built at')};"
        " its first step came after the audit"
        for built in seen.optimizers
        if built.steps and not built.learning_rates
    ]
    loose = seen.unheld
    if loose is not None and judge_observation(seen).outcome.trains:
        modules = ", ".join(f"`{module}`" for module in loose.modules)
        found.append(
            f"note: {loose.parameters} parameters got a gradient and no optimizer holds them: {modules}"
        )
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


TRACED = Path(__file__).resolve().parent.parent / "observe" / "traced"
AUDIT = 4


def command_line(python: Path, words: Sequence[str], *, module: bool) -> list[str]:
    """What is started: a script, a module as ``python -m`` does, or a command of that environment such as torchrun."""
    if module:
        return [str(python), "-m", *words]
    script = Path(words[0])
    if script.exists():
        return [str(python), *words]
    command = python.parent / words[0]
    if script.name == words[0] and command.is_file():
        with command.open("rb") as file:
            is_script = file.read(2) == b"#!"
        return [str(python), str(command), *words[1:]] if is_script else [str(command), *words[1:]]
    raise UserError(
        f"There is no script {words[0]}.",
        cause=f"neither a file here ({Path.cwd()}) nor a command in {python.parent}",
        next_step="gradmatrix trace [--python PATH] SCRIPT [ARGS...], or -m MODULE [ARGS...]",
    )


def trace(
    command: Sequence[str],
    *,
    steps: int | None,
    remedy_for: Callable[[Diagnosis, Observation], Remedy | None] = no_remedy,
) -> Finding:
    """Run ``command`` to its end, stopped after so many optimizer ``steps``; its streams are ours, untouched."""
    with tempfile.TemporaryDirectory(
        prefix="gradmatrix-trace-", ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        request = {"schema": SCHEMA, "audit": AUDIT, "stop_after": steps}
        (folder / "request.json").write_bytes(msgspec.json.encode(request))
        returncode = run(command, {**os.environ, **variables(folder, os.environ)})
        return conclude(command, returncode, left_in(folder), remedy_for)


def variables(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that make every Python below us look into ``inside/traced``."""
    path = [str(TRACED), *filter(None, [environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(path), "GRADMATRIX_TRACE": str(folder)}


def run(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """The exit code of ``command``, or minus the number of the signal that ended it."""
    sys.stdout.flush()
    sys.stderr.flush()
    started: list[subprocess.Popen[bytes]] = []
    with signals_meant_for(started):
        try:
            started.append(subprocess.Popen(command, env=environ))
        except OSError as error:
            raise UserError(
                f"{command[0]} cannot be started.",
                cause=str(error),
                next_step="see that it can be run by itself",
            ) from error
        return started[0].wait()


@contextmanager
def signals_meant_for(started: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Meanwhile a request to end goes to the script; an interrupt from the terminal reaches it by itself."""

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if started and number != signal.SIGINT:
            started[0].send_signal(number)

    numbers = [
        getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
    ]
    before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def left_in(folder: Path) -> Left:
    """What the processes left."""
    processes, trouble = [], []
    for path in sorted(path for path in folder.glob("*.json") if path.stem.isdecimal()):
        try:
            processes.append(msgspec.json.decode(path.read_bytes(), type=Process))
        except msgspec.DecodeError as error:
            trouble.append(f"process {path.stem}: {error}")
    trouble += sorted({path.read_text(encoding="utf-8") for path in folder.glob("*.trouble")})
    return Left(
        processes=tuple(processes), trouble=tuple(trouble), stopped=(folder / "enough").exists()
    )
