"""Parameters got no gradient: what took the graph from them.

The signs have an order of their own, in ``no_gradient``: the surest first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gradmatrix.core.text import counted, few
from gradmatrix.judge.causes import Cause
from gradmatrix.judge.learning import find_starving, got_gradients, say_what_learns
from gradmatrix.judge.remarks import name_operation, steps_for_nothing
from gradmatrix.judge.verdict import best_step, some_names
from gradmatrix.judge.wording import (
    MOST_NAMES,
    Diagnosis,
    begin,
    first_sign,
    format_frame,
    innermost_frame,
    make_diagnosis,
    module_of,
    name_module,
    quote_few,
    say_where,
    users_frame,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gradmatrix.core.observation import Checkpointed, Frame, Lost, Observation, Severed, Switch
    from gradmatrix.judge.wording import Sign

MOST_LINES = 5
OF_GRADIENTS = re.compile(r"requires?_grad|grad_fn|none of (?:the )?outputs? ha")
THROUGH = "a straight-through estimator: x + (hard(x) - x).detach()."
CHOICE = (
    "`{how}` has no gradient. If it gives the prediction, give the loss the scores themselves:"
    " cross_entropy takes logits. If it chooses a path inside of the model, multiply what it chose"
    f" by its probability, or use Gumbel-softmax or {THROUGH}"
)
THRESHOLD = (
    "A comparison has no gradient. Give the loss the scores (logits) or their sigmoid, and compare"
    f" with a threshold only for metrics; or use {THROUGH}"
)
ROUNDED = "`{how}` has a gradient of zero. Leave it out of the loss, or use " + THROUGH
KEPT_IN = (
    "Use the tensor without `{how}` in this loss: with `{how}`, the modules that computed the"
    " tensor do not learn. If they must not learn from another loss, write `{how}` in that loss"
    " only. If the graph was freed before, or an optimizer stepped since, compute the tensor again."
)
RESAMPLED = (
    "Draw a sample that has a gradient: rsample() of the distribution, or mean + std *"
    " torch.randn_like(std). Of a distribution without rsample use a relaxed one"
    " (Gumbel-softmax), or " + THROUGH
)
ADVICE_ON_METRIC = (
    "The library computes this without gradients, as a metric. Train with a loss that has a"
    " gradient, and use this value only to report."
)
WHOLE = (
    "`{how}` makes whole numbers, which have no gradient. Keep floating-point values up to the"
    f" loss, or use {THROUGH} If they are an index or a size, no gradient comes back through them:"
    " weight the values in place of choosing some (a softmax, a soft mask, grid_sample), or use"
    " REINFORCE."
)
FLAT = ("round", "floor", "ceil", "trunc", "sign")
"""Operations whose gradient is zero everywhere."""
SAMPLING = ("normal", "bernoulli", "poisson")
"""Functions whose results have a gradient of zero."""
OF_VALUES = "Use the tensor itself in the loss; call .{how}() only for what is logged."
ADVICE_OF = {
    **dict.fromkeys(("argmax", "argmin", "argsort", "bool"), CHOICE),
    **dict.fromkeys((f"{name}().indices" for name in ("max", "min", "sort", "topk")), CHOICE),
    **dict.fromkeys(("detach", "data"), KEPT_IN),
    **dict.fromkeys(("int", "long", "byte", "char", "short", "to", "type"), WHOLE),
    **dict.fromkeys(("__gt__", "__lt__", "__ge__", "__le__"), THRESHOLD),
    **dict.fromkeys(FLAT, ROUNDED),
    **dict.fromkeys(("item", "tolist"), OF_VALUES),
    "__float__": "Use the tensors themselves in the loss. torch.stack([a, b]) makes one tensor of"
    " several and keeps the graph; torch.tensor, torch.FloatTensor and float() do not.",
    "sample": RESAMPLED,
    **dict.fromkeys(SAMPLING, f"`{{how}}` has a gradient of zero. {RESAMPLED}"),
    "autograd.grad": "Give `autograd.grad` create_graph=True: without it the gradients are values,"
    " and a loss of them trains nothing.",
    "numpy": "Stay in torch: use the tensor itself and functions of torch, without detach() and"
    " numpy(). Values of numpy have no graph.",
    **dict.fromkeys(
        ("torch.tensor", "torch.as_tensor"),
        "Do not make a new tensor of values: use the tensor itself, or join several tensors with"
        " torch.stack(...) or torch.cat(...), which keep the graph. What numpy or another library"
        " computed has no graph: compute it with functions of torch.",
    ),
}
"""What to do about an operation by which a tensor left the graph."""
LEAKED = "Restore it with torch.set_grad_enabled(True), or use a with block, which restores it."
FOR_INFERENCE = (
    "This function is made for inference. To train, call the model itself (its forward), or a"
    " method that keeps the graph."
)
NOTHING_USED = (
    "Compute the loss from what the model gives, with operations that have a gradient. An index"
    " (argmax, the second result of max or topk), a comparison and a whole number have none: use"
    " the scores themselves, such as in cross_entropy."
)
SWITCHES = ("no_grad", "inference_mode", "set_grad_enabled")
HIDING = ("requires_grad_", "requires_grad")
"""What makes a tensor without a graph require a gradient, so that backward raises no error."""
OWN_LOSS = (
    "Compute the loss of that optimizer from what these modules give, without detach, item or"
    " no_grad on the way. If they should not learn, leave its step out."
)
CLEARED = ("grad = None", "grad.zero_")
CHOOSING = ("argmin", "argmax")
NOT_SEVERED = ("unknown", "clip_grad_norm_", *CLEARED, *FLAT, *SAMPLING)
"""Operations that have a sign of their own, or that leave the tensor in the graph."""


def no_gradient(seen: Observation) -> Diagnosis | None:
    """Parameters that should learn got no gradient: what took it from them."""
    without_graph = any(not call.requires_grad for call in seen.backward)
    if not without_graph:
        if not find_starving(seen):
            return None
        if seen.raised is not None and not OF_GRADIENTS.search(seen.raised.message):
            return None
    signs: tuple[Sign, ...] = (
        cut_before_checkpoint,
        lost_in_training_pass,
        still_off,
        dropped,
        returned_none,
        severed,
        cut_inside,
        new_leaf,
        off_at_backward,
        off_everywhere,
        gap,
        unused,
    )
    found = first_sign(signs, seen)
    if found is None:
        return None
    extra = say_what_learns(seen)
    got_none = not any(p.gradients.strip("n") for p in seen.parameters)
    if found.cause is not Cause.REBUILT and seen.leaves and got_none:
        at = innermost_frame(seen.leaves[0].frames)
        if at is not None:
            line = "Backward still runs: it ends at a tensor that was made to require a gradient at"
            extra = (f"{line} {format_frame(at)}.",)
    return replace(found, text=(*found.text, *extra)[:MOST_LINES])


def cut_before_checkpoint(seen: Observation) -> Diagnosis | None:
    """The input of a checkpoint does not come from a frozen module: it was cut off before."""
    entered = [lost for lost in seen.lost if lost.entered]
    checkpoints = [number for number, lost in enumerate(entered) if lost.checkpoint is not None]
    if not checkpoints or any(
        lost.checkpoint is not None and lost.checkpoint.source is not None for lost in entered
    ):
        return None
    before = [lost for lost in entered[: checkpoints[0]] if not lost.cached]
    for lost in before:
        if lost.switch is not None:
            return explain_switch(seen, lost)
    found = severed(seen)
    return found or next((explain_cut(seen, lost) for lost in before if lost.grad_enabled), None)


def lost_in_training_pass(seen: Observation) -> Diagnosis | None:
    """Modules lost their gradient inside a pass that was entered with gradients."""
    entered = [lost for lost in seen.lost if lost.entered]
    for lost in sorted(entered, key=lambda each: each.grad_enabled and not each.cached):
        if lost.checkpoint is not None:
            return explain_checkpoint(lost)
        if lost.cached:
            return explain_cache(lost)
        if lost.switch is not None and not lost.grad_enabled:
            return explain_switch(seen, lost)
    return None


def dropped(seen: Observation) -> Diagnosis | None:
    """The gradient was there, and was cleared between backward and the step."""
    event = next((each for each in seen.severed if each.how in CLEARED), None)
    if event is None:
        return None
    at = innermost_frame(event.frames)
    line = (
        f"Backward gave {counted(event.parameters, 'parameter tensor')} a gradient, but it was"
        f" cleared before the step{say_where(at, 'at')}."
    )
    return make_diagnosis(Cause.DROPPED, event.module, at, line, led=event.frames)


def returned_none(seen: Observation) -> Diagnosis | None:
    """A differentiable function of the script gave no gradient."""
    found = seen.none_returned
    if found is None:
        return None
    at = innermost_frame(found.frames)
    line = (
        f"Backward reached the parameters, but `{found.text}.backward` returned None in place of a"
        f" gradient, {format_frame(at)}."
    )
    starving = find_starving(seen)
    advice = (
        f"Look for the inputs of `{found.text}` that are computed from {some_names(starving)}: in"
        " the place of such an input return its gradient, not None. backward returns one value for"
        " each input of forward (without ctx), in the same order."
    )
    return make_diagnosis(
        Cause.FUNCTION_RETURNED_NONE, None, at, line, led=found.frames, advice=advice
    )


def severed(seen: Observation) -> Diagnosis | None:
    """A tensor left the graph, and the parameters behind it got no gradient."""
    if seen.leaves and seen.leaves[0].frames and not got_gradients(seen):
        return None  # the loss itself is a new tensor: that says more than where its value was read
    events = [each for each in seen.severed if each.frames and each.how not in NOT_SEVERED]
    choice = chosen_by(seen, events)
    event = choice or next(iter(events), None)
    if event is None:
        return None
    at = innermost_frame(event.frames)
    name = name_module(event.module, event.type) if event.module else "the model"
    if event.how in SWITCHES and event.module is None:
        return make_diagnosis(
            Cause.GRAD_MODE_OFF,
            None,
            at,
            f"The loss had a graph before, and has none since a part of the script ran under"
            f" {event.how}{say_where(at, 'at')}: a tensor that is made there has no graph.",
            led=event.frames,
            advice="Update the same tensor in place (w -= rate * w.grad), and clear its gradient"
            " after each update (w.grad = None): w = w - rate * w.grad makes a new tensor, which"
            " does not require a gradient.",
        )
    if event.how in SWITCHES:
        cause = Cause.INFERENCE_MODE if event.how == "inference_mode" else Cause.GRAD_MODE_OFF
        line = (
            f"Gradients were off ({event.how}) where the output of {name} was"
            f" used{say_where(at, 'at')}."
        )
        advice = "" if at is None or at.user else ADVICE_ON_METRIC
        return make_diagnosis(cause, event.module, at, line, led=event.frames, advice=advice)
    what = f"the input of {name}" if event is choice else f"the output of {name}"
    line = f"{begin(name_operation(event.how))} took {what} out of the graph{say_where(at, 'at')}"
    if event.parameters:
        behind = counted(event.parameters, "parameter tensor")
        line += f"; {behind} behind it got no gradient"
    advice = advice_on_cut(event.how, at, event.frames)
    loose, other = seen.unheld, tuple[str, ...]()
    if loose is not None and all(best_step(p) == "n" for p in seen.parameters if p.held):
        modules = quote_few(loose.modules)
        other += (f"The loss trains only {modules}, and no optimizer holds those parameters.",)
        advice += f" If {modules} should learn instead, give those to the optimizer."
    return make_diagnosis(
        Cause.DETACHED, event.module, at, f"{line}.", *other, led=event.frames, advice=advice
    )


def chosen_by(seen: Observation, events: Iterable[Severed]) -> Severed | None:
    """The choice by an index inside a module that learns, while what is before it does not.

    The loss uses what the module gives, such as the nearest vectors of a code book. So the choice
    says more than a detach beside it, which such a loss needs.
    """
    learning = [p.name for p in seen.parameters if p.learns and best_step(p) == "f"]
    inside = [e for e in events if e.how in CHOOSING and e.module]
    return next((e for e in inside if any(n.startswith(f"{e.module}.") for n in learning)), None)


def still_off(seen: Observation) -> Diagnosis | None:
    """Gradients are off where backward is called, too: a switch that was never turned back."""
    if not any(not call.requires_grad and call.switch is not None for call in seen.backward):
        return None
    return off_at_backward(seen) or off_everywhere(seen)


def cut_inside(seen: Observation) -> Diagnosis | None:
    """A module ran with gradients on, but its output has none."""
    lost = next((lost for lost in seen.lost if lost.entered and lost.grad_enabled), None)
    return None if lost is None else explain_cut(seen, lost)


def new_leaf(seen: Observation) -> Diagnosis | None:
    """The graph of the loss ends in a tensor that is no parameter."""
    if not seen.leaves or got_gradients(seen):
        return None
    made = seen.leaves[0]
    if made.how in HIDING and (off := off_everywhere(seen)) is not None:
        return off
    at = innermost_frame(made.frames)
    by = "" if made.how == "unknown" else f" by {made.how}"
    read = next((event for event in seen.severed if event.frames), None)
    why = (
        "A tensor made of values has no link to where the values came from, with or without"
        " requires_grad=True."
    )
    advice = ADVICE_OF.get(made.how, "")
    if read is not None and read.how in {"item", "tolist", "__float__", "numpy"}:
        where = say_where(innermost_frame(read.frames), "at")
        if made.how not in HIDING:
            advice = f"Leave out {name_operation(read.how)}{where}, and keep the tensors. {advice}"
    if made.how in HIDING and read is None:
        given = innermost_frame(seen.unused_at)
        why = f"What it is computed from has no graph; {made.how} only hides the error."
        if given is not None:
            why += (
                f" The loss does not use what the model gives in this step, {format_frame(given)}."
            )
        advice = f"Compute the loss from the model's output of the same step, without {made.how}."
    if made.how in HIDING and read is not None:
        name = name_module(read.module, read.type) if read.module else "the model"
        cut = innermost_frame(read.frames)
        why = (
            f"{begin(name_operation(read.how))} took the output of {name} out of the"
            f" graph{say_where(cut, 'at')};"
            f" {made.how} does not put it back and only hides the error."
        )
        advice = ADVICE_OF.get(read.how, Cause.DETACHED.advice).format(how=read.how)
    return make_diagnosis(
        Cause.REBUILT,
        made.module or (read.module if read is not None else None),
        at,
        f"The loss does not lead back to any parameter: its graph begins at a new tensor of shape"
        f" {list(made.shape)}, made{by}{say_where(at, 'at')}.",
        why,
        advice=advice,
    )


def off_at_backward(seen: Observation) -> Diagnosis | None:
    """The model's output has a graph, but the loss was computed while gradients were off."""
    call = next(
        (call for call in seen.backward if not call.requires_grad and call.switch is not None), None
    )
    if call is None or call.switch is None or any(not lost.entered for lost in seen.lost):
        return None
    opening, at = describe_switch(call.switch)
    when = "The model ran with gradients, but what was done with its loss afterwards did not."
    if call.step > 1:
        when = f"This was at step {call.step}; the steps before it had gradients."
    return make_diagnosis(
        cause_of_switch(seen, call.switch),
        None,
        at,
        opening,
        when,
        advice=advice_about(seen, call.switch),
    )


def off_everywhere(seen: Observation) -> Diagnosis | None:
    """No pass was entered with gradients on: they were switched off outside of the model."""
    for lost in reversed(seen.lost):
        if lost.only and not lost.entered and lost.switch is not None:
            return explain_switch(seen, lost)
        if lost.only and not lost.entered and lost.checkpoint is not None:
            return explain_function(lost, lost.checkpoint)
    return None


def gap(seen: Observation) -> Diagnosis | None:
    """The graph starts again after a module, and nothing that was seen explains it."""
    event = next((each for each in seen.severed if each.how == "unknown"), None)
    if event is None or event.module is None:
        return None
    at = innermost_frame(event.frames)
    name = name_module(event.module, event.type)
    line = (
        f"The loss does not use the output of {name}: the next module got something that was not"
        f" computed from it{say_where(at, 'at or before')}."
    )
    return make_diagnosis(Cause.UNUSED, event.module, at, line, advice=use_or_freeze([name]))


def use_or_freeze(names: Sequence[str]) -> str:
    """What to do about modules that the loss does not use."""
    each = few(names, MOST_NAMES)
    return (
        f"Use the output of {each} in the loss. What should not learn, freeze:"
        " requires_grad_(False) of the module."
    )


def unused(seen: Observation) -> Diagnosis | None:
    """The loss does not depend on some parameters."""
    starving = find_starving(seen)
    if not starving:
        return None
    line = (
        f"The loss does not depend on {some_names(starving)}, and no operation was seen that cuts"
        " the graph."
    )
    at = innermost_frame(seen.unused_at)
    ran = [f"The loss does not use what is computed at {format_frame(at)}."] if at else []
    module, led = module_of(starving[0]), seen.unused_at
    for built in filter(None, (steps_for_nothing(each, seen) for each in starving)):
        by = innermost_frame(built.frames)
        ran.append(
            f"{built.type}{say_where(by, 'built at')}, made {counted(built.steps, 'step')}, and"
            " nothing that it holds got a gradient."
        )
        return make_diagnosis(
            Cause.UNUSED, module, at or by, line, *ran, led=led or built.frames, advice=OWN_LOSS
        )
    modules = [f"`{name}`" for name in dict.fromkeys(map(module_of, starving))]
    advice = use_or_freeze(modules) if got_gradients(seen) else NOTHING_USED
    return make_diagnosis(Cause.UNUSED, module, at, line, *ran, led=led, advice=advice)


def explain_switch(seen: Observation, lost: Lost) -> Diagnosis:
    """Modules ran while gradients were switched off."""
    assert lost.switch is not None
    module, kind = lost.module, lost.type
    if lost.entered:
        module, kind = lost.within or lost.module, lost.within_type or lost.type
    first = f", `{lost.module}` first" if module != lost.module else ""
    count = (
        f"; {lost.modules} modules lost their gradient because of it" if lost.modules > 1 else ""
    )
    opening, at = describe_switch(lost.switch)
    name = name_module(module, kind)
    ran = f"{name} ran under it and gave an output without a graph{first}{count}."
    return make_diagnosis(
        cause_of_switch(seen, lost.switch),
        module,
        at,
        opening,
        ran,
        led=lost.switch.frames,
        advice=advice_about(seen, lost.switch),
    )


def advice_about(seen: Observation, switch: Switch) -> str:
    """What to do about a switch; empty if the advice of the cause says it."""
    at, is_closure = switch.decorated, cause_of_switch(seen, switch) is Cause.CLOSURE
    if at is not None and not at.user:
        return "" if is_closure else FOR_INFERENCE
    if at is not None:
        name = f"`{at.function}` ({at.file}:{at.line})"
        if is_closure:
            return f"Run the closure in {name} under torch.enable_grad()."
        return f"Remove torch.{switch.how}() from {name}: what it calls should be trained."
    if switch.how == "inference_mode":
        return ""
    if switch.how == "set_grad_enabled":
        return LEAKED
    return (
        f"Move what should learn out of the block under torch.{switch.how}(). If the script needs"
        " the result of that block too, leave it as it is, call the module a second time outside of"
        " it, and compute the loss from this second result."
    )


def cause_of_switch(seen: Observation, switch: Switch) -> Cause:
    """The cause if this switch is responsible.

    A function of the user that is called ``step`` need not be that of an optimizer.
    """
    at = switch.decorated
    steps = {(each.step.file, each.step.function) for each in seen.optimizers if each.step}
    if (
        at is not None
        and at.function == "step"
        and (not at.user or (at.file, at.function) in steps)
    ):
        return Cause.CLOSURE
    return Cause.INFERENCE_MODE if switch.how == "inference_mode" else Cause.GRAD_MODE_OFF


def describe_switch(switch: Switch) -> tuple[str, Frame | None]:
    """A sentence about what switched gradients off, and its line."""
    call = innermost_frame(switch.frames)
    if switch.decorated is None:
        return f"Gradients were off: {switch.how}{say_where(call, 'at')}.", call
    at = switch.decorated
    sentence = (
        f"Gradients were off: `{at.function}` ({at.file}:{at.line}) is decorated with {switch.how},"
        f" and what it calls builds no graph{say_where(call, 'it was called at')}."
    )
    return sentence, at


def explain_checkpoint(lost: Lost) -> Diagnosis:
    """Modules ran in a reentrant checkpoint, and none of its inputs requires a gradient."""
    assert lost.checkpoint is not None
    at = innermost_frame(lost.checkpoint.frames)
    source = lost.checkpoint.source
    origin = f": they come from `{source}`, which is frozen" if source else ""
    first = "" if lost.module == lost.within else f", `{lost.module}` first"
    return make_diagnosis(
        Cause.CHECKPOINT_INPUTS,
        lost.within,
        at,
        f"{name_module(lost.within, lost.within_type)} runs in a reentrant checkpoint"
        f" ({format_frame(at)}), and none of its inputs requires a gradient{origin}.",
        "Reentrant checkpointing runs a layer under no_grad, and repeats it in backward only if an"
        f" input requires a gradient: nothing inside learns{first}.",
        led=lost.checkpoint.frames,
    )


def explain_function(lost: Lost, function: Checkpointed) -> Diagnosis:
    """Modules ran only inside a differentiable function that was given none of their parameters."""
    at = innermost_frame(function.frames)
    if at is None or at.function != "forward":
        return explain_checkpoint(lost)
    return make_diagnosis(
        Cause.GRAD_MODE_OFF,
        lost.module,
        at,
        f"{name_module(lost.module, lost.type)} ran only inside a torch.autograd.Function"
        f" ({format_frame(at)}), which builds no graph.",
        "Such a function gives gradients to the tensors that it is called with, and none of them"
        " requires one.",
        led=function.frames,
        advice="Give the function the parameters too: make the network a submodule of the module"
        " that it calls, or pass its parameters as an argument.",
    )


def explain_cache(lost: Lost) -> Diagnosis:
    """Autocast gave a module copies of its weights that a pass without gradients had made."""
    at = innermost_frame(lost.switch.frames) if lost.switch is not None else None
    how = lost.switch.how if lost.switch is not None else "no_grad"
    return make_diagnosis(
        Cause.AUTOCAST_CACHE,
        lost.module,
        at,
        f"{name_module(lost.module, lost.type)} got copies of its weights that have no gradient,"
        f" from autocast's weight cache ({lost.autocast}).",
        f"They were made earlier in the same autocast context, in a pass under"
        f" {how}{say_where(at, 'at')}; the cache is emptied only at the end of the outermost"
        " autocast context.",
    )


def explain_cut(seen: Observation, lost: Lost) -> Diagnosis:
    """A module with gradients on gave an output without a graph."""
    if lost.switch is not None:
        return explain_switch(seen, lost)
    at = lost.forward
    return make_diagnosis(
        Cause.DETACHED,
        lost.module,
        at,
        f"{name_module(lost.module, lost.type)} gave an output without a graph, but gradients were"
        f" on{say_where(at, 'its forward is written at')}.",
        "The output does not depend on the module's parameters: it is the input, or it was made of"
        " values (a detach, a new tensor).",
    )


def advice_on_cut(how: str, at: Frame | None, frames: Sequence[Frame]) -> str:
    """What to do about an operation that took a tensor out of the graph, at ``frames``."""
    user = users_frame(frames)
    if at is None or at.user or user is None or how not in {"detach", "data", "numpy"}:
        return ADVICE_OF.get(how, "").format(how=how)
    return (
        f"`{at.function}` of the library takes the graph away. Give the loss what the model"
        " returned (if it wants probabilities, with a sigmoid or softmax, or with the loss's own"
        f" option for it), and use what comes from line {user.line} for metrics only."
    )
