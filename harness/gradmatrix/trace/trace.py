"""``gradmatrix trace``: run a training script unmodified in any environment, and say what was seen.

The observer writes an observation for each process of the script into a folder. When the script has
ended, the processes become one finding, as data and as text for people.
"""

from __future__ import annotations

import dataclasses
import signal
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from gradmatrix.core.errors import UserError
from gradmatrix.core.files import NOT_READABLE, tail
from gradmatrix.core.model import Gradient
from gradmatrix.core.observation import SCHEMA, Diverged, Frozen, Observation, rate_of
from gradmatrix.core.outcomes import NO_GRAD_FN, TRAINS, exited_with, killed_by
from gradmatrix.core.text import counted, few, versioned
from gradmatrix.judge.causes import Cause, Remedy, explain
from gradmatrix.judge.diagnosis import diagnose, false_alarms
from gradmatrix.judge.learning import group_by_learning
from gradmatrix.judge.remarks import judge_script, split
from gradmatrix.judge.verdict import Verdict, gradient_status, judge_observation
from gradmatrix.judge.versions import remedy_near
from gradmatrix.judge.wording import Diagnosis, format_frame, innermost_frame, users_frame
from gradmatrix.trace.running import AUDIT, start

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from gradmatrix.core.observation import Built, Raised
    from gradmatrix.run.project import Project
    from gradmatrix.trace.running import Running


WARMUP = 4
FEWEST_TIMED = 4
MOST_NAMES = 3
MOST_SPREAD = 2.0
"""The third quartile of steps per second in terms of the first, up to which a speed is told."""
INTERRUPTED = killed_by(signal.SIGINT)
DOING = {
    "<frozen importlib._bootstrap>": "while it imported a module",
    "torch/utils/data/": "while it loaded data",
    "torch/nn/modules/module.py": "in a forward pass",
    "torch/autograd/__init__.py": "in a backward pass",
}
"""What a script does whose traceback passes a file; the innermost one counts."""
MIB = 2**20


class Process(Frozen, frozen=True):
    """What one process of the script left, as ``observe/trace.py`` writes it."""

    schema: Literal[1]
    pid: int
    rank: int | None
    observation: Observation


class Speed(Frozen, frozen=True):
    """Optimizer steps per second after audit and warm-up: median, first and third quartile."""

    median: float
    low: float
    high: float
    steps: int

    @property
    def means_something(self) -> bool:
        """Whether there are enough steps, and they take about as long."""
        return self.steps >= FEWEST_TIMED and self.high <= MOST_SPREAD * self.low


class Finding(Frozen, frozen=True):
    """What a trace found; ``--json`` prints this."""

    schema: Literal[1]
    command: tuple[str, ...]
    exit_code: int
    """The script's own exit code; 128 + n if signal n ended it."""
    outcome: str
    gradient: Gradient | None
    message: str
    steps: int
    steps_per_s: Speed | None
    peak_memory_bytes: int | None
    diagnosis: Diagnosis | None
    explanation: tuple[str, ...]
    """The diagnosis and what to do about it, in sentences."""
    learns: tuple[str, ...]
    """If some parameters learn and others do not: the modules whose parameters do."""
    does_not_learn: tuple[str, ...]
    remarks: tuple[str, ...]
    """What does not learn and is no fault: an unused head, a target network."""
    misleading: tuple[str, ...]
    """Warnings about missing gradients although none is missing."""
    trouble: tuple[str, ...]
    """What could not be watched."""
    observation: Observation | None


class Left(Frozen, frozen=True):
    """What all processes of the script left."""

    processes: tuple[Process, ...] = ()
    drift: Diverged | None = None
    """How ranks that train together differ."""
    trouble: tuple[str, ...] = ()
    """Why some could not be watched."""
    stopped: bool = False
    """One process was stopped after as many steps as were asked for."""


def no_remedy(_diagnosis: Diagnosis, _seen: Observation) -> Remedy | None:
    """No remedy is known, because there is no matrix."""
    return None


def published_remedy(project: Project, diagnosis: Diagnosis, seen: Observation) -> Remedy | None:
    """A remedy from the published matrix; None if there is no remedy or no matrix."""
    try:
        project = project.published_matrix
        published = project.published(project.store.everything().values())
    except (OSError, UserError):
        return None
    comparable = dataclasses.replace(published, locks=project.comparable(published.locks))
    return remedy_near(comparable, diagnosis, seen.environment)


def trace(
    command: Sequence[str],
    *,
    steps: int | None,
    remedy_for: Callable[[Diagnosis, Observation], Remedy | None] = no_remedy,
) -> Finding:
    """Run ``command`` to its end, or until ``steps`` optimizer steps.

    Its streams are not touched.
    """
    return finish(start(command, steps), remedy_for)


def finish(
    running: Running,
    remedy_for: Callable[[Diagnosis, Observation], Remedy | None] = no_remedy,
) -> Finding:
    """Wait for a script that was started, and say what was found."""
    with running:
        returncode = running.wait()
        return conclude(running.command, returncode, left_in(running.folder), remedy_for)


def left_in(folder: Path) -> Left:
    """Read what the processes left."""
    processes, trouble = [], []
    for path in sorted(path for path in folder.glob("*.json") if path.stem.isdecimal()):
        try:
            processes.append(msgspec.json.decode(path.read_bytes(), type=Process))
        except NOT_READABLE as error:
            trouble.append(f"process {path.stem}: {error}")
    drifts = [path.read_bytes() for path in sorted(folder.glob("*.drift"))]
    trouble += sorted({tail(path) for path in folder.glob("*.trouble")})
    return Left(
        processes=tuple(processes),
        drift=msgspec.json.decode(drifts[0], type=Diverged) if drifts else None,
        trouble=tuple(trouble),
        stopped=(folder / "enough").exists(),
    )


def conclude(
    command: Sequence[str],
    returncode: int,
    left: Left,
    remedy_for: Callable[[Diagnosis, Observation], Remedy | None] = no_remedy,
) -> Finding:
    """The finding on a script that has ended.

    Args:
        command: what was started.
        returncode: its exit code, or minus the number of the signal that ended it.
        left: what its processes left.
        remedy_for: looks up what is known to help.
    """
    seen = observed(left.processes, failed=returncode != 0 and not left.stopped)
    whole, ended = seen, 0 if left.stopped else returncode
    if seen is not None and seen.raised is not None and seen.raised.type == "KeyboardInterrupt":
        seen, ended = replace(seen, raised=None), -signal.SIGINT  # what was seen before it counts
    remarks: tuple[str, ...] = ()
    if seen is not None:
        seen, remarks = split(replace(seen, drift=left.drift))
    verdict = judged(seen, ended, whole.raised if whole is not None else None)
    early = ended == -signal.SIGINT and is_short(seen)
    blind = early or (
        verdict.gradient is None and (verdict.outcome.trains or not verdict.outcome.judged)
    )
    diagnosis = diagnose(seen) if seen is not None and not blind else None
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
        explanation=explained(diagnosis, remedy) if diagnosis is not None else (),
        learns=learning if still else (),
        does_not_learn=still if learning else (),
        remarks=remarks,
        misleading=false_alarms(seen) if seen is not None else (),
        trouble=(*left.trouble, *(seen.observer_errors if seen is not None else ())),
        observation=whole,
    )


def explained(diagnosis: Diagnosis, remedy: Remedy | None) -> tuple[str, ...]:
    """A diagnosis in sentences, and where to read how the remedy is written."""
    code = () if remedy is None else (f"Its code: gradmatrix capsule {remedy.cell} --any",)
    return (*explain(diagnosis, remedy, "your own code"), *code)


def observed(processes: Sequence[Process], *, failed: bool) -> Observation | None:
    """The observation of the first rank that did the most.

    If it has no exception itself, it gets that of another process.
    """
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
    return seen.steps + seen.updates, len(seen.backward), len(seen.parameters)


def judged(seen: Observation | None, returncode: int, stopped: Raised | None = None) -> Verdict:
    """The verdict. A signal and a non-zero exit code count more than what was seen before.

    The process is the user's: a signal is named, whoever sent it. ``stopped`` says where Ctrl-C
    stopped it.
    """
    if seen is None and returncode == 0:
        return Verdict(exited_with(0), None, "the script never imported torch")
    if seen is not None and (returncode == 0 or (returncode > 0 and seen.raised is not None)):
        return judge_script(seen)
    gradient = None if seen is None else gradient_status(seen)
    if returncode == -signal.SIGINT:
        return Verdict(INTERRUPTED, gradient, interruption(seen, stopped))
    if returncode < 0:
        return Verdict(killed_by(-returncode), gradient, f"killed by signal {-returncode}")
    message = f"the process exited with status {returncode} by itself"
    return Verdict(exited_with(returncode), gradient, message)


def is_short(seen: Observation | None) -> bool:
    """Whether a script made fewer steps than are looked at."""
    return seen is None or seen.steps + seen.updates < AUDIT


def interruption(seen: Observation | None, stopped: Raised | None) -> str:
    """When and where Ctrl-C stopped a script, if that was too early to judge it."""
    said = "stopped by SIGINT, which Ctrl-C sends"
    if not is_short(seen):
        return said
    made = seen.steps + seen.updates if seen is not None else 0
    when = f"after {counted(made, 'step')}" if made else "before the script's first optimizer step"
    parts = [said, when]
    if seen is not None and seen.reached == "import":
        parts.append("before it imported torch")
    elif stopped is not None:
        passed = {stopped.traceback.rfind(file): words for file, words in DOING.items()}
        last = max(passed)
        if last >= 0:
            parts.append(passed[last])
    frame = users_frame(stopped.frames) if stopped else None
    parts += [f"at {format_frame(frame)}"] if frame else []
    return f"{', '.join(parts)}: nothing was judged"


def speed(times_s: Sequence[float]) -> Speed | None:
    """Steps per second without the first few; None if there are too few for quartiles."""
    rate = rate_of(tuple(times_s[min(WARMUP, len(times_s) // 4) :]))
    if rate is None:
        return None
    return Speed(median=rate.median, low=rate.low, high=rate.high, steps=len(rate.samples))


def headline(finding: Finding) -> str:
    """Outcome, gradient, steps, speed and memory on one line."""
    interrupted = finding.outcome == str(INTERRUPTED)
    parts = [f"interrupted ({finding.outcome})" if interrupted else finding.outcome]
    if finding.outcome == TRAINS and finding.diagnosis is not None:
        parts.append(f"with a mistake ({finding.diagnosis.cause})")
    elif suspect(finding):
        parts.append("but see the remark")
    if finding.gradient is not None:
        late = finding.outcome == NO_GRAD_FN and finding.gradient is Gradient.FLOWING
        parts.append(f"gradient {finding.gradient}{' at first' if late else ''}")
    if (seen := finding.observation) is not None:
        by_hand = counted(seen.updates, "update") + " without an optimizer"
        parts.append(by_hand if seen.updates else counted(finding.steps, "step"))
    if (fast := finding.steps_per_s) is not None and fast.means_something:
        parts.append(f"{digits(fast.median)} steps/s ({digits(fast.low)} to {digits(fast.high)})")
    if finding.peak_memory_bytes is not None:
        parts.append(f"{finding.peak_memory_bytes / MIB:.0f} MiB at peak")
    return ", ".join(parts)


def suspect(finding: Finding) -> bool:
    """Whether it trains, and a call or a setting is probably not what was meant."""
    seen = finding.observation
    if finding.outcome != TRAINS or seen is None:
        return False
    beside = any(each.kind != "all-but-norms" for each in seen.frozen_beside)
    return bool(seen.noticed) or beside or any(each.arguments for each in seen.for_inference)


def digits(value: float) -> str:
    """A number with about three digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004  (three digits)


def report(finding: Finding) -> list[str]:
    """The lines below the headline."""
    lines = list(finding.explanation) or ([finding.message] if finding.message else [])
    if finding.outcome == str(INTERRUPTED) and is_short(finding.observation):
        lines.append(f"To stop it after {AUDIT} steps: gradmatrix trace --steps {AUDIT} SCRIPT")
    lines += [f"remark: {remark}" for remark in finding.remarks]
    if finding.observation is not None:
        lines += notes(finding.observation, finding.diagnosis)
    lines += [
        f"misleading warning, because everything learns: {message}"
        for message in finding.misleading
    ]
    lines += [f"could not be watched: {trouble}" for trouble in dict.fromkeys(finding.trouble)]
    if finding.observation is not None:
        versions = finding.observation.environment
        machine = {"cpu", "system", "cuda"}
        lines.append(versioned({n: v for n, v in versions.items() if n not in machine}))
    return lines


def begins_late(built: Built) -> bool:
    """Whether an optimizer made its first step after those that are looked at."""
    return bool(built.steps) and not built.learning_rates


def notes(seen: Observation, known: Diagnosis | None) -> list[str]:
    """What a verdict does not cover: optimizers that step late, parameters in no optimizer.

    The second is left out if it is what the diagnosis says that is ``known``.
    """
    late = {
        f"a later {built.type} (built at {format_frame(innermost_frame(built.frames))})": None
        for built in seen.optimizers
        if begins_late(built)
    }
    found = []
    if late:
        found.append(
            f"not judged: what {few(tuple(late), MOST_NAMES, '; ')} trains. Only the first {AUDIT}"
            f" steps of the script are looked at, and its first step came later. To judge it, trace"
            " a script that does only this part of the training"
        )
    found += [
        f"note: GradScaler skipped {each.asked - each.made} of {counted(each.asked, 'step')} of"
        f" {each.type}, because some gradients were NaN or infinite"
        for each in seen.skipped_steps
        if each.made
    ]
    if seen.unread:
        found.append(
            "note: on the meta device parameters have no values. If a functional call gives the"
            " module others, these are not judged; if not, train on a device that has values"
        )
    loose = seen.unheld
    if (
        loose is not None
        and (known is None or known.cause not in {Cause.NOT_REGISTERED, Cause.OTHER_PARAMETERS})
        and judge_observation(split(seen)[0]).outcome.trains
    ):
        modules = ", ".join(f"`{module}`" for module in loose.modules)
        found.append(
            f"note: {loose.parameters} parameters got a gradient but are in no optimizer: {modules}"
        )
    return found
