"""The words of a diagnosis: causes, and how modules and lines are named in a sentence."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from harness.observation import Frame, Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.observation import Parameter


class Cause(StrEnum):
    """Why something that should learn does not."""

    CLOSURE = "closure-without-grad"
    """An optimizer's step runs its closure without gradients."""
    GRAD_MODE_OFF = "grad-mode-off"
    INFERENCE_MODE = "inference-mode"
    AUTOCAST_CACHE = "autocast-cache"
    CHECKPOINT_INPUTS = "checkpoint-inputs"
    """Reentrant checkpointing of layers whose inputs need no gradient."""
    DETACHED = "detached"
    REBUILT = "rebuilt"
    """The graph of the loss ends in a new tensor that is made of values."""
    FROZEN = "frozen"
    DROPPED = "dropped"
    """The gradient was there and was cleared before the step."""
    OTHER_PARAMETERS = "other-parameters"
    """The optimizer holds other parameters than those of the modules that ran."""
    NOT_TRAINED = "not-trained"
    """Nothing was trained, or in a way that is not watched."""
    NEVER_STEPPED = "never-stepped"
    LEARNING_RATE = "learning-rate"
    ROUNDING = "rounding"
    ZERO = "zero"
    NONFINITE_OUTPUT = "nonfinite-output"
    NONFINITE_GRADIENT = "nonfinite-gradient"
    NONFINITE_UPDATE = "nonfinite-update"
    UNUSED = "unused"
    """The loss does not depend on it."""
    EXCEPTION = "exception"


class Diagnosis(Frozen, frozen=True):
    """Why, in one cause, one place, and sentences for a person."""

    cause: Cause
    module: str | None
    """Dotted name of the first module that it concerns."""
    place: Frame | None
    """The responsible line in the user's or a library's code."""
    text: tuple[str, ...]
    """One to five lines, without a remedy."""


def told(cause: Cause, module: str | None, at: Frame | None, *lines: str) -> Diagnosis:
    """A diagnosis of these lines."""
    return Diagnosis(cause=cause, module=module, place=at, text=lines)


def place(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame, or None."""
    return frames[0] if frames else None


def spot(at: Frame | None) -> str:
    """A line of code as a person looks it up."""
    return f"{at.file}:{at.line}, {at.function}" if at is not None else "at a line that was not seen"


def where(at: Frame | None, how: str) -> str:
    """``, at file:line, function``, or a clause of its own (``; it is built at …``); nothing for an unknown line."""
    mark = "," if how in {"at", "near", "at or before", "called at"} else ";"
    return "" if at is None else f"{mark} {how} {spot(at)}"


def titled(module: str | None, kind: str | None) -> str:
    """A module with its type."""
    return f"`{module}`" if not kind or kind == module else f"`{module}` ({kind})"


def module_of(parameter: Parameter) -> str:
    """The module that owns a parameter."""
    return parameter.module or parameter.name
