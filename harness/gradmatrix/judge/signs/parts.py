"""A part of the loss has no graph, or trains the wrong parameters; the rest of the loss trains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradmatrix.judge.causes import Cause
from gradmatrix.judge.remarks import name_operation
from gradmatrix.judge.signs.lost import ADVICE_OF, CHOOSING, advice_on_cut
from gradmatrix.judge.wording import Diagnosis, begin, innermost_frame, make_diagnosis, say_where

if TYPE_CHECKING:
    from gradmatrix.core.observation import Observation

UNDETACHED = (
    "Detach the advantage where it weights the policy: -(log_prob * advantage.detach()). The value"
    " then learns by its own loss alone."
)


def rebuilt_part(seen: Observation) -> Diagnosis | None:
    """A part of the loss is a new tensor that was made of values; the rest has a graph."""
    if not seen.rebuilt_parts:
        return None
    part = seen.rebuilt_parts[0]
    at = innermost_frame(part.frames)
    line = (
        f"A part of the loss has no graph: `{part.how}` made it of values{say_where(at, 'at')}. The"
        " rest of the loss is trained."
    )
    return make_diagnosis(
        Cause.DETACHED, part.module, at, line, led=part.frames, advice=ADVICE_OF["torch.tensor"]
    )


def constant_part(seen: Observation) -> Diagnosis | None:
    """A part of the loss is a number that left the graph; the rest has a graph."""
    if not seen.constant_parts:
        return None
    part = seen.constant_parts[0]
    at, sum_at = innermost_frame(part.frames), innermost_frame(part.added)
    line = (
        f"A part of the loss has no graph{say_where(sum_at, 'it is added at')}."
        f" {begin(name_operation(part.how))} took it out{say_where(at, 'at')}."
    )
    return make_diagnosis(
        Cause.DETACHED,
        part.module,
        at,
        line,
        "It changes the value of the loss, but only the rest of the loss is trained.",
        led=part.frames,
        advice=advice_on_cut(part.how, at, part.frames),
    )


def mislinked(seen: Observation) -> Diagnosis | None:
    """A part of the loss leads to other parameters than it should; the rest trains them."""
    if not seen.links:
        return None
    found = seen.links[0]
    at = innermost_frame(found.frames)
    if found.text == "weight":
        line = (
            "A log-probability is multiplied by an advantage that has a graph"
            f"{say_where(at, 'it is computed at')}. So the policy's loss trains the value, too, and"
            " the value has a loss of its own."
        )
        return make_diagnosis(
            Cause.NOT_DETACHED, None, at, line, led=found.frames, advice=UNDETACHED
        )
    line = (
        f"`{found.text}` takes what the next layers get out of the graph{say_where(at, 'at')}. So"
        " their loss does not train what is before it; only another part of the loss does."
    )
    advice = ADVICE_OF.get(found.text, "").format(how=found.text)
    if found.text in CHOOSING:
        advice = (
            "Let the gradient pass straight through: give the next layers z + (z_q - z).detach(),"
            " with the chosen vectors z_q and the z that they stand for."
        )
    return make_diagnosis(Cause.DETACHED, None, at, line, led=found.frames, advice=advice)
