"""The causes of a diagnosis, one row each, and what to do about them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, Self

from gradmatrix.core.model import Cell, Role
from gradmatrix.core.observation import Frozen
from gradmatrix.core.outcomes import TRAINS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gradmatrix.core.model import Scenario
    from gradmatrix.judge.diagnosis import Diagnosis


class Cause(StrEnum):
    """Why something that should learn does not: its word, what it means, what to do about it.

    The advice is for causes that are mistakes in a script. Where it is empty, the cause depends on
    versions, and only a variant that was seen to train can help.
    """

    _value_: str
    meaning: str
    advice: str

    def __new__(cls, word: str, meaning: str, advice: str = "") -> Self:
        """A word with its row."""
        cause = str.__new__(cls, word)
        cause._value_, cause.meaning, cause.advice = word, meaning, advice
        return cause

    CLOSURE = (
        "closure-without-grad",
        "The optimizer's step runs its closure without gradients.",
        "Run the closure under torch.enable_grad(), or step without one.",
    )
    GRAD_MODE_OFF = (
        "grad-mode-off",
        "The model or the loss ran while gradients were switched off.",
        "Move what is trained out of the part without gradients.",
    )
    INFERENCE_MODE = (
        "inference-mode",
        "The model or the loss ran in inference mode.",
        "Leave inference mode out where something is trained: its tensors cannot be trained.",
    )
    AUTOCAST_CACHE = (
        "autocast-cache",
        "Autocast's weight cache held copies that a pass without gradients had made.",
        "Call torch.clear_autocast_cache() after the pass without gradients.",
    )
    CHECKPOINT_INPUTS = (
        "checkpoint-inputs",
        "Layers run in a reentrant checkpoint, and their inputs need no gradient.",
        "Call model.enable_input_require_grads(), or checkpoint with use_reentrant=False.",
    )
    DETACHED = (
        "detached",
        "A tensor left the graph before the loss.",
        "Keep it a tensor of the graph up to the loss; detach only what is logged.",
    )
    FUNCTION_RETURNED_NONE = (
        "function-returned-none",
        "The backward of a torch.autograd.Function returned None for an input that needs one.",
        "Return one gradient for each input of forward; None only for inputs that need none.",
    )
    LABELS_IGNORED = (
        "labels-ignored",
        "Every label is the one that the loss ignores.",
        (
            "Keep real labels where the loss is meant to count; only padding and prompts get"
            " the label that is ignored (-100). Check the data, its masking, and truncation."
        ),
    )
    REBUILT = (
        "rebuilt",
        "The graph of the loss ends in a new tensor that was made of values.",
        "Return the loss that the model gave. Scale it or add to it, but do not make a new tensor.",
    )
    FROZEN = (
        "frozen",
        "Nothing that ran requires a gradient.",
        "Keep requires_grad=True for what should learn.",
    )
    DROPPED = (
        "dropped",
        "The gradient was there and was cleared before the step.",
        "Call zero_grad after the step or before the forward pass, not between backward and step.",
    )
    OTHER_PARAMETERS = (
        "other-parameters",
        "The optimizer holds other parameters than those of the modules that ran.",
        (
            "Build the optimizer from the parameters of the model that the loss is computed with,"
            " after that model's last change."
        ),
    )
    NOT_REGISTERED = (
        "not-registered",
        "A module or a parameter is in a plain attribute, so parameters() does not have it.",
        (
            "Register it as nn.ModuleList, nn.ModuleDict, nn.ParameterList or nn.Parameter,"
            " before the optimizer is built."
        ),
    )
    NEVER_ZEROED = (
        "never-zeroed",
        "Nothing clears the gradients: every backward pass adds to those of all steps before.",
        "Call optimizer.zero_grad() once for each step, before backward.",
    )
    RANKS_DIFFER = (
        "ranks-differ",
        "The parameters of the ranks drift apart: their gradients are not averaged.",
        (
            "Wrap the model in DistributedDataParallel and call the wrapper, or all_reduce the"
            " gradients before each step."
        ),
    )
    NOT_TRAINED = (
        "not-trained",
        "Nothing was trained, or not in a way that is watched.",
        (
            "Build an optimizer of the model's parameters, and call backward and its step; an"
            " update by hand must change the same tensors in place, under torch.no_grad()."
        ),
    )
    NOT_CALLED = (
        "not-called",
        "A method is named but not called: the parentheses are missing.",
        "Add the parentheses: a method without them is not called.",
    )
    STEPS_SKIPPED = (
        "steps-skipped",
        "GradScaler skipped every step, because gradients were NaN or infinite.",
        (
            "Find out why the gradients are not finite: start with a lower init_scale, unscale"
            " and clip the gradients, and check the loss for float16 overflow."
        ),
    )
    NEVER_STEPPED = (
        "never-stepped",
        "Backward ran, but an optimizer never stepped, or its step changed nothing.",
        "Call step of every optimizer after backward.",
    )
    LEARNING_RATE = (
        "learning-rate",
        "The learning rate was 0.",
        "Set a learning rate above 0, and check how a scheduler changes it.",
    )
    ROUNDING = (
        "rounding",
        "The steps were too small for the type of the parameters and were rounded away.",
        "Raise the learning rate, or keep the weights in float32 and compute under autocast.",
    )
    ZERO = (
        "zero",
        "The gradients were exactly zero.",
    )
    CLIPPED = (
        "clipped",
        "The gradients were clipped to 0.",
        "Clip to a norm or value above 0, such as 1.0, or leave the clipping out.",
    )
    DEAD = (
        "dead",
        "A layer is dead: its activation is flat for every input, so no gradient passes.",
        (
            "Use an activation that is nowhere flat, such as LeakyReLU or GELU, normalise the"
            " input, or initialise the layer with smaller weights. If it died while training, lower"
            " the learning rate."
        ),
    )
    NONFINITE_OUTPUT = (
        "nonfinite-output",
        "The output of a module became NaN or infinite.",
    )
    NONFINITE_GRADIENT = (
        "nonfinite-gradient",
        "A gradient became NaN or infinite.",
    )
    NONFINITE_UPDATE = (
        "nonfinite-update",
        "The optimizer's step made a parameter NaN or infinite.",
        "Keep the weights in float32.",
    )
    UNUSED = (
        "unused",
        "The loss does not depend on it.",
        "Use its output in the loss. If it should not learn, freeze it.",
    )
    IN_PLACE = (
        "in-place",
        "A tensor that backward needs was changed in place.",
        (
            "Write the operation so that it makes a new tensor (x = x + 1 instead of x += 1), or"
            " change a clone()."
        ),
    )
    GRAPH_FREED = (
        "graph-freed",
        "Backward went a second time through a graph that the first pass had freed.",
        ("Add the losses and call backward once, or compute the shared tensor anew for each pass."),
    )
    EXCEPTION = (
        "exception",
        "Another exception was raised.",
    )


class Ended(Protocol):
    """A cell that ran, and its outcome: a record, a row of a table, or a cell that was just run."""

    @property
    def cell(self) -> Cell:
        """Which cell."""

    @property
    def outcome(self) -> str:
        """``trains`` or ``phase:reason``."""


class Remedy(Frozen, frozen=True):
    """A variant that trains, and the cell that shows it."""

    cell: Cell
    summary: str
    same_stack: bool
    """The cell ran on the stack in question; else on the nearest published stack."""


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
    """The first variant against ``cause`` that trains on ``stack``.

    Args:
        cause: what the variant must cure.
        scenarios: all scenarios, by name.
        records: where to look for cells that train.
        stack: the stack on which the variant must train.
        same_stack: whether this is the stack in question.
        scenario: the scenario whose variants come first.
        device: the device on which the variant must train.
    """
    trained = {
        (record.cell.scenario, record.cell.variant): record.cell
        for record in records
        if record.cell.stack == stack and record.cell.device == device and record.outcome == TRAINS
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
    """A remedy seen on the stack and device of ``cell``; variants of its scenario come first."""
    return remedy_for(
        cause,
        scenarios,
        records,
        stack=cell.stack,
        same_stack=True,
        scenario=cell.scenario,
        device=cell.device,
    )


def advise(diagnosis: Diagnosis, remedy: Remedy | None) -> str | None:
    """What to do, and what shows that it helps; None if that is not known."""
    if remedy is None:
        return diagnosis.advice or diagnosis.cause.advice or None
    cell = remedy.cell
    where = f"{cell.scenario}/{cell.variant}"
    if remedy.same_stack:
        return f"This works on {cell.stack}: {remedy.summary} ({where} trains there)."
    if diagnosis.advice:
        return (
            f"{diagnosis.advice} This was seen to help: {remedy.summary} ({where}, {cell.stack})."
        )
    what = remedy.summary[:1].upper() + remedy.summary[1:]
    return f"{what}. It was seen to help: {where} trains on {cell.stack}."


def explain(
    diagnosis: Diagnosis, remedy: Remedy | None, whose: str = "the scenario"
) -> tuple[str, ...]:
    """A diagnosis for people: two to seven lines, of which the last says what to do.

    Args:
        diagnosis: of a cell, or of a user's script.
        remedy: what was seen to help.
        whose: whose code ran.
    """
    last = advise(diagnosis, remedy)
    lines = (*diagnosis.text[:5], *diagnosis.route(whose))
    return lines if last is None else (*lines, last)
