"""An exception ended the script: backward lacks a tensor, or another reason."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gradmatrix.core.observation import Frame
from gradmatrix.judge.causes import Cause
from gradmatrix.judge.errors import ABOUT, advise_on_error
from gradmatrix.judge.signs.lost import explain_switch
from gradmatrix.judge.verdict import first_line
from gradmatrix.judge.wording import (
    Diagnosis,
    format_frame,
    innermost_frame,
    make_diagnosis,
    say_where,
    users_frame,
)

if TYPE_CHECKING:
    from gradmatrix.core.observation import Observation, Raised, Spoiled

INFERENCE = re.compile(r"inference (?:tensors?|mode)", re.IGNORECASE)
PLUMBING = ("torch/", "python3", "<frozen")
LEAF_CHANGED = re.compile(r"leaf Variable that requires grad.*in-place", re.IGNORECASE)
CARRIED = (
    "detach() what is carried on: a hidden state at the start of each iteration, state ="
    " state.detach() (of a tuple, each tensor); a running mean or a sum of losses where it is added"
    " to. If the gradient should flow through several iterations, add up their losses and call"
    " backward once, after the last of them."
)
TWICE = (
    "If an optimizer steps between the two passes, run the model again and compute the second loss"
    " anew; or detach() what the first loss shares with the second, if it should not train it."
    " Otherwise add the losses and call backward once, or pass retain_graph=True to the first call."
)
LEAF = (
    "If `{}` is to be trained itself, compute its value first and then call requires_grad_() on it:"
    " the result of an operation gets no gradient."
)
OF_PARAMETER = (
    " The result of an operation on an nn.Parameter is no parameter: make the number first, as in"
    " nn.Parameter(0.1 * torch.ones(n))."
)
ONCE = (
    "Compute it anew in each step, in forward or inside of the loop, and not once beforehand (in"
    " __init__, before the loop): a graph serves for one backward pass. Do not detach it if what it"
    " is computed from should learn; if it should not, compute it under torch.no_grad()."
)
NOT_INPLACE = (
    "Use the version that makes a new tensor: torch.nn.functional.{name}(x), or inplace=False where"
    " the module is made."
)
FUNCTIONS = ("relu_", "sigmoid_", "tanh_", "dropout_", "selu_", "celu_", "rrelu_")
"""Functions of torch that change their argument; ``nn.ReLU(inplace=True)`` calls the first."""
NATIVE = ("leaky_relu_", "hardtanh_", "elu_", "silu_", "hardswish_", "hardsigmoid_", "mish_")


def spoiled(seen: Observation) -> Diagnosis | None:
    """Backward did not have a tensor that it needs: it was changed in place, or freed."""
    found = seen.spoiled
    if found is None or seen.raised is None:
        return None
    at = innermost_frame(found.frames)
    last = innermost_frame(seen.raised.frames)
    if found.how == "freed":
        return freed(found, seen.raised)
    if found.how == "step":
        if found.carried:
            return carried_over_step(found, last)
        line = (
            f"An optimizer's step changed a parameter (shape"
            f" {found.tensor.removesuffix(', unknown')}) that a later backward"
            f" pass still needed{say_where(at, 'at')}."
        )
        return make_diagnosis(
            Cause.IN_PLACE,
            None,
            at,
            line,
            led=found.frames,
            advice="After the step, run the model again on the same input, and compute the second"
            " loss from that output: the earlier one was computed with the old values.",
        )
    how = f"`{found.how}`" if found.how else "An operation that was not seen"
    line = (
        f"{how} changed in place a tensor that backward needs (shape"
        f" {found.tensor}){say_where(at, 'at')}."
    )
    called = [f"Backward was called at {format_frame(last)}."] if last and at else []
    frames = found.frames or seen.raised.frames
    name = found.how.rstrip("_")
    return make_diagnosis(
        Cause.IN_PLACE,
        found.module,
        at or last,
        line,
        *called,
        led=frames,
        advice=NOT_INPLACE.format(name=name) if found.how in (*FUNCTIONS, *NATIVE) else "",
    )


def freed(found: Spoiled, raised: Raised) -> Diagnosis:
    """Backward went a second time through a graph that an earlier pass had freed."""
    at, last = innermost_frame(found.frames), innermost_frame(raised.frames)
    first = innermost_frame(found.before)
    twice = first is not None and first != last
    carried = found.carried and (found.stepped or not twice)
    shared, advice = "both use a tensor", TWICE if twice or not found.stepped else ONCE
    if found.module is not None:
        shared = f"both use the output of `{found.module}`"
    elif found.leaf and found.early:
        shared = f"both use what was computed from `{found.leaf}` before the model ran"
    elif found.name is not None:
        shared = f"both use `{found.name}`"
        if found.bare:
            advice = f"{LEAF.format(found.name)} Otherwise {advice[0].lower()}{advice[1:]}"
    more = []
    if carried:
        shared, advice, twice = describe_carried(found), CARRIED, False
    elif found.data:
        what = f"a tensor of shape {list(found.data)} that is no parameter"
        more = [f"Both passes lead back to {what}, and that requires a gradient."]
        advice = "If that tensor is data, make it without requires_grad=True, or detach() it."
        advice += " If it is carried on from step to step, detach() it in each."
    elif not twice and found.stepped:
        shared += ", which is computed once and not for each pass"
    if advice == ONCE and at is not None and at.function == "__init__":
        advice += OF_PARAMETER
    called = [
        f"The {which} pass was called at {format_frame(at)}."
        for which, at in (("first", first), ("second", last))
        if at is not None
    ]
    if first == last is not None:
        called = [f"Both passes were called at {format_frame(last)}, one after the other."]
    return make_diagnosis(
        Cause.GRAPH_FREED,
        found.module,
        last if twice else at or last,
        f"Backward went a second time through a graph that was freed: {shared}"
        f"{say_where(at, 'at')}.",
        *called,
        *more,
        user=users_frame(raised.frames) or last,
        advice=advice,
    )


def describe_carried(found: Spoiled) -> str:
    """What is carried from one iteration to the next, with its graph."""
    what = "a tensor is carried from one iteration to the next with its graph"
    return what if found.module is None else f"{what}, from the output of `{found.module}`"


def carried_over_step(found: Spoiled, last: Frame | None) -> Diagnosis:
    """A graph is carried into the next iteration, and the step between them changed parameters."""
    at, made = innermost_frame(found.frames), innermost_frame(found.before)
    line = f"{describe_carried(found)}{say_where(made, 'at')}."
    called = [f"Backward was called at {format_frame(last)}."] if last else []
    return make_diagnosis(
        Cause.IN_PLACE,
        found.module,
        made or at,
        f"{line[0].upper()}{line[1:]}",
        "The optimizer's step has since changed parameters that this graph"
        f" needs{say_where(at, 'at')}.",
        *called,
        led=found.before,
        advice=CARRIED,
    )


def changed_leaf(seen: Observation) -> Diagnosis | None:
    """A tensor that requires a gradient was changed in place while autograd records."""
    if seen.raised is None or not LEAF_CHANGED.search(seen.raised.message):
        return None
    raising = raising_frames(seen.raised)
    at = innermost_frame(raising)
    line = f"A tensor that requires a gradient is changed in place{say_where(at, 'at')}."
    return make_diagnosis(
        Cause.IN_PLACE,
        None,
        at,
        line,
        led=raising,
        advice="Write an update of a parameter under torch.no_grad(). Otherwise make a new tensor:"
        " x = x + y instead of x += y.",
    )


def exception(seen: Observation) -> Diagnosis | None:
    """Another exception: where it was raised."""
    if seen.raised is None:
        return None
    lost = next((e for e in seen.lost if e.inference_mode and e.switch is not None), None)
    advice = advise_on_error(seen)
    if lost is not None and INFERENCE.search(seen.raised.message):
        found = explain_switch(seen, lost)
        return replace(found, advice=found.advice or Cause.INFERENCE_MODE.advice)
    raising = raising_frames(seen.raised)
    at = innermost_frame(raising)
    under = [f"Raised under {format_frame(at)}."] if at else []
    message = f"{seen.raised.type}: {first_line(seen.raised.message)}"
    inference = INFERENCE.search(seen.raised.message)
    cause = Cause.INFERENCE_MODE if inference else Cause.EXCEPTION
    about = seen.culprit
    if about is not None:
        place = innermost_frame(about.frames)
        says = ABOUT[about.kind].format(about.text)
        under = [f"{says}{say_where(place, 'at')}.", *under]
        at, raising = (place, about.frames) if place else (at, raising)
    return make_diagnosis(cause, None, at, message, *under, led=raising, advice=advice)


def raising_frames(raised: Raised) -> tuple[Frame, ...]:
    """Where an exception was raised, innermost first; of old observations by their traceback."""
    return raised.frames or tuple(
        Frame(file=file, line=int(line), function=function)
        for file, line, function in reversed(
            re.findall(r'File "([^"]+)", line (\d+), in (\S+)', raised.traceback)
        )
        if not file.startswith(PLUMBING)
    )
