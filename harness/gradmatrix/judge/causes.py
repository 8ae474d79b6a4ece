"""The words of a diagnosis: causes, and how modules and lines are named in a sentence.

Pure: what to do about a diagnosis: a variant of the matrix that was seen to train where that cause was at work.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from gradmatrix.core.model import Cell, Role
from gradmatrix.core.observation import Frame, Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gradmatrix.core.model import Scenario
    from gradmatrix.core.observation import Parameter


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
    return (
        f"{at.file}:{at.line}, {at.function}" if at is not None else "at a line that was not seen"
    )


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


PLAIN = {
    Cause.DETACHED: "Keep it a tensor of the graph up to the loss; detach only what is logged.",
    Cause.REBUILT: "Return the loss that the model gave; scale or add to it, do not make it anew.",
    Cause.FROZEN: "Leave what should learn with requires_grad=True, and count: sum(p.requires_grad for p in …).",
    Cause.DROPPED: "Call zero_grad after the step or before the forward pass, not between backward and step.",
    Cause.OTHER_PARAMETERS: "Build the optimizer from the parameters of the trained model, after its last change.",
    Cause.NEVER_STEPPED: "Call step of every optimizer after backward.",
    Cause.LEARNING_RATE: "Set a learning rate above 0, and look at what a scheduler makes of it.",
    Cause.ROUNDING: "Raise the learning rate, or keep the weights in float32 and compute under autocast.",
    Cause.CLOSURE: "Run the closure under torch.enable_grad(), or step without one.",
    Cause.AUTOCAST_CACHE: "Call torch.clear_autocast_cache() after the pass without gradients.",
    Cause.CHECKPOINT_INPUTS: "Call model.enable_input_require_grads(), or checkpoint with use_reentrant=False.",
    Cause.NONFINITE_UPDATE: "Keep the weights in float32.",
    Cause.GRAD_MODE_OFF: "Move what is trained out of the part without gradients.",
    Cause.INFERENCE_MODE: "Move what is trained out of the part in inference mode: its tensors cannot be trained.",
    Cause.UNUSED: "Use its output in the loss, or freeze it.",
}
"""What to do where no cell shows it: the causes that are mistakes in a script, not a matter of versions."""


class Ended(Protocol):
    """A cell that was run, and how it ended: a record, a row, or what was run just now."""

    @property
    def cell(self) -> Cell:
        """Which one."""

    @property
    def outcome(self) -> str:
        """``trains`` or ``phase:reason``."""


class Remedy(Frozen, frozen=True):
    """A variant that trains, and the cell that shows it."""

    cell: Cell
    summary: str
    same_stack: bool
    """The cell is of the very stack that was asked about; else of the nearest published one."""


def remedy_for(
    cause: Cause,
    scenarios: Mapping[str, Scenario],
    records: Iterable[Ended],
    *,
    stack: str,
    same_stack: bool,
    scenario: str | None = None,
    device: str = "cpu",
) -> Remedy | None:
    """The first variant used against ``cause`` that trains on ``stack``, of ``scenario`` if it has one."""
    trained = {
        (record.cell.scenario, record.cell.variant): record.cell
        for record in records
        if record.cell.stack == stack
        and record.cell.device == device
        and record.outcome == "trains"
    }
    ordered = sorted(scenarios.values(), key=lambda each: each.name != scenario)
    for each in ordered:
        for variant in sorted(each.variants, key=lambda variant: variant.role is not Role.REMEDY):
            cell = trained.get((each.name, variant.name))
            if cause.value in variant.cures and cell is not None:
                return Remedy(cell=cell, summary=variant.summary, same_stack=same_stack)
    return None


def remedy_on_its_stack(
    cause: Cause, scenarios: Mapping[str, Scenario], records: Iterable[Ended], cell: Cell
) -> Remedy | None:
    """A remedy that was seen on the stack of ``cell``, of its own scenario if it has one."""
    return remedy_for(
        cause,
        scenarios,
        records,
        stack=cell.stack,
        same_stack=True,
        scenario=cell.scenario,
        device=cell.device,
    )


def advice(diagnosis: Diagnosis, remedy: Remedy | None) -> str | None:
    """The last line of a diagnosis: what to do, and what shows that it helps; None where nobody knows."""
    if remedy is not None:
        cell = remedy.cell
        on = (
            f"on {cell.stack}"
            if remedy.same_stack
            else f"on {cell.stack}, the nearest published stack"
        )
        return f"What was seen to work {on}: {remedy.summary} ({cell.scenario}/{cell.variant} trains there)."
    return PLAIN.get(diagnosis.cause)


def explained(diagnosis: Diagnosis, remedy: Remedy | None) -> tuple[str, ...]:
    """A diagnosis as a person reads it: two to six lines, the last one says what to do."""
    last = advice(diagnosis, remedy)
    return diagnosis.text if last is None else (*diagnosis.text[:5], last)
