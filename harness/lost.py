"""Pure: what took the gradient from the parameters that should learn, the surest sign first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.causes import Cause, Diagnosis, module_of, place, spot, titled, told, where
from harness.learning import grouped
from harness.verdict import letter, some_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.observation import Frame, Lost, Observation, Switch

MOST_LINES = 5
GROUPS_SHOWN = 4
OF_GRADIENTS = re.compile(r"requires?_grad|grad_fn|none of (?:the )?outputs? ha")
SWITCHES = ("no_grad", "inference_mode", "set_grad_enabled")
NOT_SEVERED = ("unknown", "grad = None", "round", "floor", "ceil", "trunc", "sign", "clip_grad_norm_")


def no_gradient(seen: Observation) -> Diagnosis | None:
    """Parameters that should learn got no gradient: what took it from them, the surest sign first."""
    without_graph = any(not call.requires_grad for call in seen.backward)
    if not without_graph and all(letter(p) != "n" for p in seen.parameters if p.learns):
        return None
    if seen.raised is not None and not without_graph and not OF_GRADIENTS.search(seen.raised.message):
        return None
    signs: tuple[Callable[[Observation], Diagnosis | None], ...] = (
        cut_before_checkpoint, in_training_pass, dropped, severed, cut_inside,
        new_leaf, off_at_backward, off_everywhere, gap, unused,
    )  # fmt: skip
    found = next((diagnosis for sign in signs if (diagnosis := sign(seen)) is not None), None)
    if found is None:
        return None
    extra = partly(seen)
    if found.cause is not Cause.REBUILT and seen.leaves and not any(p.gradients.strip("n") for p in seen.parameters):
        at = place(seen.leaves[0].frames)
        if at is not None:
            extra = (
                f"Backward runs all the same: a tensor made to require a gradient at {spot(at)} is where it ends.",
            )
    return told(found.cause, found.module, found.place, *(*found.text, *extra)[:MOST_LINES])


def in_training_pass(seen: Observation) -> Diagnosis | None:
    """The way in which modules lost their gradient inside a pass that was entered with gradients."""
    entered = [lost for lost in seen.lost if lost.entered]
    for lost in sorted(entered, key=lambda each: bool(each.grad_enabled and not each.cached)):
        if lost.checkpoint is not None:
            return checkpointed(lost)
        if lost.cached:
            return cached(lost)
        if lost.switch is not None and not lost.grad_enabled:
            return switched(lost)
    return None


def cut_inside(seen: Observation) -> Diagnosis | None:
    """A module that had gradients on, and whose output has none all the same."""
    return next((cut(lost) for lost in seen.lost if lost.entered and lost.grad_enabled), None)


def cut(lost: Lost) -> Diagnosis:
    """What a module with gradients on did to them."""
    if lost.switch is not None:
        return switched(lost)
    at = lost.forward
    return told(
        Cause.DETACHED,
        lost.module,
        at,
        f"{titled(lost.module, lost.type)} gave an output without a graph, though gradients were on"
        f"{where(at, 'its forward is written at')}.",
        "That output does not depend on its parameters: it is the input, or made of values (a detach, a new tensor).",
    )


def cut_before_checkpoint(seen: Observation) -> Diagnosis | None:
    """A checkpoint's input that comes from no frozen module: it was cut off before."""
    entered = [lost for lost in seen.lost if lost.entered]
    first = next((position for position, lost in enumerate(entered) if lost.checkpoint is not None), None)
    if first is None or any(lost.checkpoint is not None and lost.checkpoint.source is not None for lost in entered):
        return None
    for lost in entered[:first]:
        if lost.switch is not None and not lost.cached:
            return switched(lost)
    return severed(seen) or next((cut(lost) for lost in entered[:first] if lost.grad_enabled and not lost.cached), None)


def checkpointed(lost: Lost) -> Diagnosis:
    """A reentrant checkpoint of which no input requires a gradient."""
    assert lost.checkpoint is not None
    at = place(lost.checkpoint.frames)
    source = lost.checkpoint.source
    origin = f": they come from `{source}`, which is frozen" if source else ""
    first = "" if lost.module == lost.within else f", `{lost.module}` first"
    return told(
        Cause.CHECKPOINT_INPUTS,
        lost.within,
        at,
        f"{titled(lost.within, lost.within_type)} runs in a reentrant checkpoint ({spot(at)}), and none of its inputs"
        f" requires a gradient{origin}.",
        "Reentrant checkpointing runs a layer under no_grad and repeats it in backward only where an input requires a"
        f" gradient: nothing inside learns{first}.",
    )


def cached(lost: Lost) -> Diagnosis:
    """Autocast served a copy of a weight that an earlier pass without gradients had made."""
    at = place(lost.switch.frames) if lost.switch is not None else None
    how = lost.switch.how if lost.switch is not None else "no_grad"
    return told(
        Cause.AUTOCAST_CACHE,
        lost.module,
        at,
        f"{titled(lost.module, lost.type)} was given copies of its weights that have no gradient, by autocast's weight"
        f" cache ({lost.autocast}).",
        f"They were made earlier in the same autocast context, in a pass under {how}{where(at, 'at')}; the cache is"
        " emptied only when the outermost autocast is left.",
    )


def switched(lost: Lost) -> Diagnosis:
    """Modules ran while gradients were switched off."""
    assert lost.switch is not None
    whole = not lost.entered
    module, kind = (lost.module, lost.type) if whole else (lost.within or lost.module, lost.within_type or lost.type)
    first = f", `{lost.module}` first" if module != lost.module else ""
    opening, at = off(lost.switch)
    count = f"; {lost.modules} modules lost their gradient by it" if lost.modules > 1 else ""
    return told(
        cause_of(lost.switch),
        module,
        at,
        opening,
        f"{titled(module, kind)} ran under it and gave an output without a graph{first}{count}.",
    )


def cause_of(switch: Switch) -> Cause:
    """What it is called when this switch is to blame."""
    if switch.decorated is not None and switch.decorated.function == "step":
        return Cause.CLOSURE
    return Cause.INFERENCE_MODE if switch.how == "inference_mode" else Cause.GRAD_MODE_OFF


def off(switch: Switch) -> tuple[str, Frame | None]:
    """Who switched gradients off, as a sentence, and the line."""
    call = place(switch.frames)
    if switch.decorated is not None:
        at = switch.decorated
        by = f"`{at.function}` ({at.file}:{at.line}) is decorated with {switch.how}"
        return f"Gradients were off: {by}, and what it calls builds no graph{where(call, 'it was called at')}.", at
    return f"Gradients were off: {switch.how}{where(call, 'at')}.", call


def dropped(seen: Observation) -> Diagnosis | None:
    """The gradient was there, and was cleared between backward and the step."""
    event = next((each for each in seen.severed if each.how == "grad = None"), None)
    if event is None:
        return None
    at = place(event.frames)
    what = f"Backward gave {event.parameters} parameter tensors a gradient, and it was cleared before the step"
    return told(Cause.DROPPED, event.module, at, f"{what}{where(at, 'at')}.")


def severed(seen: Observation) -> Diagnosis | None:
    """A tensor left the graph, and what lies behind it got no gradient."""
    if seen.leaves and not any(p.gradients.strip("n") for p in seen.parameters if p.learns) and seen.leaves[0].frames:
        return None  # the loss itself was made anew: that says more than where its value was read
    event = next((each for each in seen.severed if each.frames and each.how not in NOT_SEVERED), None)
    if event is None:
        return None
    at = place(event.frames)
    name = titled(event.module, event.type) if event.module else "the model"
    if event.how in SWITCHES:
        cause = Cause.INFERENCE_MODE if event.how == "inference_mode" else Cause.GRAD_MODE_OFF
        line = f"Gradients were off ({event.how}) where the output of {name} was used{where(at, 'at')}."
        return told(cause, event.module, at, line)
    behind = f"; {event.parameters} parameter tensors lie behind it and get nothing" if event.parameters else ""
    line = f"`{event.how}` took the output of {name} out of the graph{where(at, 'at')}{behind}."
    return told(Cause.DETACHED, event.module, at, line)


def gap(seen: Observation) -> Diagnosis | None:
    """The graph begins anew after a module, and nothing that was seen did it."""
    event = next((each for each in seen.severed if each.how == "unknown"), None)
    if event is None or event.module is None:
        return None
    at = place(event.frames)
    near = where(at, "at or before")
    name = titled(event.module, event.type)
    line = f"The loss does not use the output of {name}: what runs next is not made of it{near}."
    return told(Cause.UNUSED, event.module, at, line)


def new_leaf(seen: Observation) -> Diagnosis | None:
    """The graph of the loss ends in a tensor that is no parameter."""
    if not seen.leaves or any(p.gradients.strip("n") for p in seen.parameters if p.learns):
        return None
    made = seen.leaves[0]
    at = place(made.frames)
    by = "" if made.how == "unknown" else f" by {made.how}"
    read = next((event for event in seen.severed if event.frames), None)
    return told(
        Cause.REBUILT,
        made.module or (read.module if read is not None else None),
        at,
        f"The loss does not lead back to any parameter: its graph begins at a new tensor of shape {list(made.shape)},"
        f" made{by}{where(at, 'at')}.",
        "A tensor made of values, with requires_grad=True or not, has no link to what the values came from.",
    )


def off_at_backward(seen: Observation) -> Diagnosis | None:
    """The model's output has a graph, but the loss was computed while gradients were off."""
    call = next((call for call in seen.backward if not call.requires_grad and call.switch is not None), None)
    if call is None or call.switch is None or any(not lost.entered for lost in seen.lost):
        return None
    opening, at = off(call.switch)
    return told(
        cause_of(call.switch),
        None,
        at,
        opening,
        f"That was at step {call.step}; the steps before had gradients."
        if call.step > 1
        else "The model itself ran with gradients, but what was done with its loss afterwards did not.",
    )


def off_everywhere(seen: Observation) -> Diagnosis | None:
    """No pass was entered with gradients on: whoever switched them off is to blame."""
    lost = next(
        (each for each in reversed(seen.lost) if each.only and not each.entered and each.switch is not None), None
    )
    return None if lost is None else switched(lost)


def unused(seen: Observation) -> Diagnosis | None:
    """Parameters of modules that the loss does not depend on."""
    starving = [p for p in seen.parameters if p.learns and letter(p) == "n"]
    if not starving:
        return None
    line = f"The loss does not depend on {some_names(starving)}: nothing cut a graph to them that could be seen."
    return told(Cause.UNUSED, module_of(starving[0]), None, line)


def partly(seen: Observation) -> tuple[str, ...]:
    """Which modules learn and which do not, where it is some of each."""
    learning, still = grouped(seen.parameters)
    if not learning or not still:
        return ()
    return (f"Learning: {few(learning)}. Not learning: {few(still)}.",)


def few(groups: tuple[str, ...]) -> str:
    """The first groups of modules, and how many more there are."""
    more = (f"and {len(groups) - GROUPS_SHOWN} more",) if len(groups) > GROUPS_SHOWN else ()
    return "; ".join((*groups[:GROUPS_SHOWN], *more))
