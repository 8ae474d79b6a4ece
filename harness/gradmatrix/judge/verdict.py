"""From an observation, or the lack of one, to an outcome. Only this module decides."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradmatrix.core.model import Gradient, Role
from gradmatrix.core.outcomes import (
    IMPORT_EXCEPTION,
    INTERNAL_ERROR,
    LOST,
    MISSING_MODULE,
    NO_DEVICE,
    NO_GRAD_FN,
    NO_SPACE,
    NO_UPDATE,
    NONFINITE_LOSS,
    OUT_OF_MEMORY,
    PARTIAL_UPDATE,
    RANKS_DIFFER,
    SAYS_DISK_FULL,
    SETUP_EXCEPTION,
    SKIPPED_STEPS,
    STEP_EXCEPTION,
    TIMEOUT,
    TRAINS,
    UNSEEN,
    UNSUPPORTED,
    Outcome,
    Phase,
    exited_with,
    killed_by,
)
from gradmatrix.core.text import few

if TYPE_CHECKING:
    from gradmatrix.core.observation import Observation, Parameter

SAYS_NO_GRAD_FN = re.compile(r"does not require grad and does not have a grad_fn")
SAYS_OUT_OF_MEMORY = re.compile(
    r"out of memory|can't allocate memory|not enough memory|bad_alloc", re.IGNORECASE
)
SAYS_WORKER_KILLED = re.compile(r"killed by signal: (?:Killed|Terminated|Hangup)\b")
"""What torch raises if a process that loads data was killed from outside."""
SENT_FROM_OUTSIDE = frozenset({1, 2, 9, 10, 12, 15, 24, 30})
"""SIGHUP, SIGINT, SIGKILL, SIGUSR1, SIGUSR2, SIGTERM, SIGXCPU and SIGPWR, by Linux's numbers.

No fault of a program raises them: a person, a scheduler or the kernel sends them.
"""
ABORT = 6
"""SIGABRT. C++ aborts where memory cannot be had, after it has said so."""
MOST_LOSSES = 8
"""So many losses are shown in a message."""
LONG_NUMBER = 10
"""A number with so many digits is too large for an exit code. Python exits with 255 then."""
OUR_FAULT = 70
"""The exit code of a cell's process if the code failed that watches it: EX_SOFTWARE."""
NAMES_THE_PROBLEM = re.compile(
    r"\b(?:not|none|no|nothing|without)\b[^.:;]{0,60}\brequires?[_ ]grad\b"
    r"|\brequires_grad ?(?:=|is|to) ?false\b"
    r"|leaf variable that requires grad"
    r"|\b(?:no|not|without)\b[^.:;]{0,20}\bgrad_fn\b|\bgrad_fn ?(?:=|is) ?none\b"
    r"|gradients? (?:will be|is|are|was|were) (?:none|zero)\b"
    r"|\bno gradients?\b(?! (?:accumulation|checkpointing|clipping))"
    r"|(?:no|not|without|any|zero) (?:\w+ )?trainable|(?<!<)\bfrozen\b|empty parameter list"
    r"|learning[ _]rate (?:is|of|was|=|set to) ?0(?:\.0*)?(?![.\d])|zero learning rate"
    r"|not (?:held|managed) by the optimizer|(?:would|will) never be trained",
    re.IGNORECASE,
)
"""Wording by which a stack says that nothing can learn.

It does not match the checkpointing hints about ``use_reentrant``, the hint about the order of
``lr_scheduler.step()``, the advice about converting "a tensor with requires_grad=True to a scalar",
or a printed tensor with its ``grad_fn=<…>``.
"""

GOT = {
    Gradient.NONE: "no gradient",
    Gradient.PARTIAL: "no gradient or only zeros",
    Gradient.ZERO: "a gradient of exactly zero",
    Gradient.NONFINITE: "a non-finite gradient",
    Gradient.FLOWING: "a gradient",
}
"""What the parameters got that a message about a gradient status names."""
LETTERS = {Gradient.NONE: "n", Gradient.PARTIAL: "nz", Gradient.ZERO: "z", Gradient.NONFINITE: "x"}
"""Which parameters a message about a gradient status names, by the letter of their best step."""


@dataclass(frozen=True)
class Ended:
    """How a cell's process ended, as the host saw it."""

    signal: int | None = None
    exit: int | None = None
    timed_out: bool = False
    lost: bool = False
    """The server, or the connection to it, went away. The cell did not cause this."""
    output_tail: str = ""


@dataclass(frozen=True)
class Verdict:
    """The outcome, and what a table shows beside it."""

    outcome: Outcome
    gradient: Gradient | None
    message: str


def judge(observation: Observation | None, ended: Ended) -> Verdict:
    """The verdict on one cell."""
    process = process_outcome(observation, ended)
    if process is not None:
        return Verdict(process[0], None, process[1])
    assert observation is not None
    return judge_observation(observation)


def process_outcome(observation: Observation | None, ended: Ended) -> tuple[Outcome, str] | None:
    """Outcome and message of a process that left no observation; None if it left one.

    How the process ended counts first, and what it printed only after that.
    """
    if observation is not None:
        return None
    if ended.timed_out:
        return Outcome(TIMEOUT), "still running at the time limit"
    if ended.lost:
        return Outcome(LOST), "the process that ran the cell disappeared"
    if ended.signal is not None:
        return signal_outcome(ended.signal, ended.output_tail)
    return exit_outcome(ended.exit or 0, ended.output_tail)


def exit_outcome(status: int, output_tail: str) -> tuple[Outcome, str]:
    """Outcome and message of a process that exited before its cell was done."""
    last = last_line(output_tail)
    if status == OUR_FAULT:
        return Outcome(INTERNAL_ERROR), last
    if SAYS_OUT_OF_MEMORY.search(output_tail):
        return Outcome(OUT_OF_MEMORY), last
    if status and SAYS_DISK_FULL.search(last):
        return Outcome(NO_SPACE), last
    return exited_with(status), f"the process exited with status {status} by itself"


def signal_outcome(signal: int, output_tail: str) -> tuple[Outcome, str]:
    """Outcome and message of a process that a signal ended."""
    if signal in SENT_FROM_OUTSIDE:
        return Outcome(LOST), f"killed from outside by signal {signal}"
    if signal == ABORT and SAYS_OUT_OF_MEMORY.search(output_tail):
        return Outcome(OUT_OF_MEMORY), last_line(output_tail)
    return killed_by(signal), f"killed by signal {signal}"


def judge_observation(seen: Observation) -> Verdict:
    """The verdict on a cell whose process wrote an observation."""
    if seen.no_device:
        return Verdict(Outcome(NO_DEVICE), None, "no CUDA device here")
    if seen.skipped is not None:
        return Verdict(Outcome(UNSUPPORTED), None, seen.skipped)
    status = gradient_status(seen)
    if seen.raised is not None:
        message = f"{seen.raised.type}: {first_line(seen.raised.message)}"
        return Verdict(exception_outcome(seen), status, message)
    return judge_training(seen, status)


def judge_training(seen: Observation, status: Gradient | None) -> Verdict:
    """The verdict on a script that ran to its end: its loss, steps, gradients, updates."""
    # A GradScaler that made some steps did its work where it skipped others.
    losses = () if any(each.made for each in seen.skipped_steps) else seen.losses
    if any(not is_finite(loss) for loss in (*losses, seen.last_loss)):
        shown = " ".join(
            loss if isinstance(loss, str) else f"{loss:.4g}"
            for loss in seen.losses[:MOST_LOSSES]
            if loss is not None
        )
        first = f"{shown} in the first steps, " if shown else ""
        message = f"the loss was {first}{seen.last_loss} in the last"
        return Verdict(Outcome(NONFINITE_LOSS), status, message)
    if seen.unread:
        return Verdict(Outcome(UNSEEN), None, "what should learn could not be read")
    explains = status in {Gradient.ZERO, Gradient.NONFINITE}
    skipped = not seen.steps and any(built.scaled for built in seen.optimizers)
    if skipped or status is None or not (seen.steps or seen.updates or explains):
        same = ", and no value changed" if seen.requests else ""
        what = "GradScaler skipped every step" if skipped else f"no optimizer ever stepped{same}"
        return Verdict(Outcome(SKIPPED_STEPS if skipped else NO_UPDATE), status, what)
    learning = [p for p in seen.parameters if p.learns]
    if status is not Gradient.FLOWING:
        bad = [p for p in learning if best_step(p) in LETTERS[status]]
        message = "nothing is trainable"
        if learning:
            some = f"{len(bad)} of {len(learning)} trainable parameters"
            message = f"{some} got {GOT[status]}: {some_names(bad)}"
        return Verdict(Outcome(f"{Phase.GRADIENT}:{status}"), status, message)
    return judge_updates(seen, status)


def judge_updates(seen: Observation, status: Gradient) -> Verdict:
    """The verdict if everything that should learn got a gradient: what changed, and how."""
    learning = [p for p in seen.parameters if p.learns]
    still = [p for p in learning if not p.changed]
    if still:
        outcome = Outcome(NO_UPDATE if len(still) == len(learning) else PARTIAL_UPDATE)
        loose = sum(not p.held for p in still) if seen.steps else 0
        why = f" ({'all' if loose == len(still) else loose} held by no optimizer)" if loose else ""
        some = f"{len(still)} of {len(learning)} trainable parameters"
        message = f"{some} did not change{why}: {some_names(still)}"
        return Verdict(outcome, status, message)
    if seen.drift is not None and seen.drift.whole:
        message = f"the parameters of {seen.drift.ranks} ranks differ after step {seen.drift.step}"
        return Verdict(Outcome(RANKS_DIFFER), status, message)
    return Verdict(Outcome(TRAINS), status, "")


def exception_outcome(seen: Observation) -> Outcome:
    """The outcome of an exception: memory, an import, the missing graph, the setup or a step."""
    assert seen.raised is not None
    name, message = seen.raised.type, seen.raised.message
    if name == "SystemExit":
        return exited_with(exit_status(message))
    for_want_of = resource_outcome(name, message)
    if for_want_of is not None:
        return for_want_of
    if seen.reached in {"import", "setup"} and is_import_error(name, message):
        return import_outcome(name, message)
    if SAYS_NO_GRAD_FN.search(message):
        return Outcome(NO_GRAD_FN)
    if seen.reached == "import":
        return Outcome(IMPORT_EXCEPTION)
    return Outcome(SETUP_EXCEPTION if seen.reached == "setup" else STEP_EXCEPTION)


def exit_status(message: str) -> int:
    """The exit status of a process that ended by a SystemExit with this message."""
    if not message.isdecimal():
        return 0 if message in {"", "None"} else 1
    return int(message) % 256 if len(message) < LONG_NUMBER else 255


def resource_outcome(name: str, message: str) -> Outcome | None:
    """The outcome if memory or disk space ran out, or a helper process was killed; else None."""
    if name == "MemoryError" or "OutOfMemoryError" in name or SAYS_OUT_OF_MEMORY.search(message):
        return Outcome(OUT_OF_MEMORY)
    if SAYS_DISK_FULL.search(message):
        return Outcome(NO_SPACE)
    return Outcome(LOST) if SAYS_WORKER_KILLED.search(message) else None


def is_import_error(name: str, message: str) -> bool:
    """Whether an exception is a failed import, also if Transformers wrapped it in another one."""
    return name in {"ModuleNotFoundError", "ImportError"} or message.startswith("Failed to import")


def import_outcome(name: str, message: str) -> Outcome:
    """The outcome of an import that raised the exception ``name``."""
    missing = name == "ModuleNotFoundError" or (
        is_import_error(name, message) and "No module named" in message
    )
    return Outcome(MISSING_MODULE if missing else IMPORT_EXCEPTION)


def gradient_status(seen: Observation) -> Gradient | None:
    """Gradient status over the audited steps; None if no backward pass or no step was reached.

    For each parameter that should learn, its best audited step counts (LoRA's A has a zero gradient
    at step 1). One non-finite parameter makes the status non-finite; finite ones beside others make
    it partial; zero wins over none.
    """
    if seen.unread or not (seen.backward or seen.steps or seen.updates):
        return None
    letters = {best_step(p) for p in seen.parameters if p.learns and p.gradients}
    if not seen.steps and not letters and any(call.requires_grad for call in seen.backward):
        return None  # there were gradients, but of an optimizer they are only read at a step
    if not letters:
        return Gradient.NONE
    if "x" in letters:
        return Gradient.NONFINITE
    if "f" in letters:
        return Gradient.FLOWING if letters == {"f"} else Gradient.PARTIAL
    return Gradient.ZERO if "z" in letters else Gradient.NONE


def best_step(parameter: Parameter) -> str:
    """The best audited step of a parameter: finite, else non-finite, else zero, else none."""
    return next((kind for kind in "fxz" if kind in parameter.gradients), "n")


def passes(role: Role, verdict: Verdict, observation: Observation | None) -> bool | None:
    """Whether the cell passes; None if the stack was not judged.

    A misuse variant cannot train. It passes if the stack says so.
    """
    if not verdict.outcome.judged:
        return None
    if role is Role.MISUSE:
        return observation is not None and says_so(observation)
    return verdict.outcome.trains


def says_so(seen: Observation) -> bool:
    """Whether an exception or a warning names the problem."""
    said = [warned.message for warned in seen.warnings]
    if seen.raised is not None:
        said.append(seen.raised.message)
    return any(NAMES_THE_PROBLEM.search(text) for text in said)


def is_finite(loss: float | str | None) -> bool:
    """Whether a loss is finite. A loss that is no scalar is not known, and counts as finite."""
    return loss is None or (not isinstance(loss, str) and math.isfinite(loss))


def some_names(parameters: list[Parameter]) -> str:
    """The first names, and how many more there are."""
    return few([parameter.name for parameter in parameters], 3)


def first_line(text: str) -> str:
    """The first line that is not empty."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def last_line(text: str) -> str:
    """The last line that is not empty."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
