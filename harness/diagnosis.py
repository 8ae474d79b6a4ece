"""Pure: why the gradient of an observed script does not flow: the module, the line, and what to do about it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from harness.observation import Frame, Frozen

if TYPE_CHECKING:
    from harness.observation import Observation


class Cause(StrEnum):
    """Why something that should learn does not."""

    GRAD_MODE_OFF = "grad-mode-off"
    INFERENCE_MODE = "inference-mode"
    AUTOCAST_CACHE = "autocast-cache"
    CHECKPOINT_INPUTS = "checkpoint-inputs"
    """Reentrant checkpointing of layers whose inputs need no gradient."""
    DETACHED = "detached"
    REBUILT = "rebuilt"
    """The loss is, or ends in, a new tensor made of values."""
    FROZEN = "frozen"
    OTHER_PARAMETERS = "other-parameters"
    """The optimizer holds other parameters than those of the modules that ran."""
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


def diagnose(seen: Observation) -> Diagnosis | None:
    """Why the gradient does not flow; None where everything that should learn does."""
    raise NotImplementedError(seen)
