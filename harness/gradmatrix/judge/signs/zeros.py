"""Gradients are exactly zero: dead layers, flat operations, factors of zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from gradmatrix.core.text import counted
from gradmatrix.judge.causes import Cause
from gradmatrix.judge.learning import say_what_learns
from gradmatrix.judge.signs.lost import ADVICE_OF, dropped
from gradmatrix.judge.verdict import best_step, some_names
from gradmatrix.judge.wording import (
    Diagnosis,
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
    from gradmatrix.core.observation import Nonfinite, Observation, Parameter, Severed

ACTIVATIONS = {"ReLU", "ReLU6", "Hardtanh", "Hardsigmoid", "Hardswish", "Threshold", "Sigmoid"}
REWARDS = (
    "Check the rewards: if all answers to a prompt get equal ones, every advantage is zero. Use a"
    " reward that differs between the answers, such as a partial one, or sample more of them."
)
LAST_LAYER = (
    "If this is the last layer of a regression, or stands before a loss that takes logits, leave"
    " the activation out. Otherwise start with other weights or a smaller bias, or use LeakyReLU."
)
ONE_CLASS = (
    "Cross entropy over one class is always 0: give the model an output for each class, or use"
    " BCEWithLogitsLoss with one output. A contrastive loss needs a batch of several pairs;"
    " gradient accumulation does not replace it."
)
ONE_CHOICE = (
    "For a single output, use a sigmoid, or leave the softmax out. Otherwise take it over the"
    " dimension of what is to be weighed or chosen, before topk and not after it."
)
ALONE = "over one "
"""Part of the name of a softmax, or a loss with one, over a single value."""
PRODUCTS = ("*", "mul")
ITSELF = "a value minus itself"
DETACHED_ONCE = (
    "Keep one of the two from before the update, without a graph: compute it once under"
    " torch.no_grad(), or detach it. PPO's old log-probability is that of the policy that acted."
)
CANCELLED = (
    "If the loss compares values that are equal, their gradients cancel: give it different ones,"
    " such as a preferred and a rejected answer, or detach the older one of a ratio."
)
RETURNED_ZEROS = (
    "Return the gradient of each input from backward. A function that rounds or chooses returns"
    " grad_output itself (a straight-through estimator)."
)
FACTOR = (
    "Check that factor: a mask, a weight or an advantage that is zero everywhere leaves nothing to"
    " learn from. An integer division may have made it 0."
)
WITHIN = (
    "Look in it for a factor that is zero everywhere: a mask, a weight, a matrix. An integer"
    " division may have made it 0."
)
DROPS_ALL = "Lower its p: that is the part which is dropped, not the part which is kept."
NO_END = (
    "Its output is the model's output: leave the activation out. Then the model reaches targets"
    " below 0, and is nowhere flat. If the output must be positive, use softplus."
)
TOO_LARGE = (
    "Lower the learning rate or scale the inputs and targets, and leave out an activation behind"
    " the last layer. LeakyReLU and GELU are nowhere flat."
)
DIED = 3
"""Audited steps in which every gradient must be exactly zero."""
SATURATED = "It is flat there: all of its inputs were too large, too small, or out of its range."


def zero_gradient(seen: Observation) -> Diagnosis | None:
    """Gradients were there, but exactly zero in every audited step."""
    zero = [p for p in seen.parameters if p.learns and best_step(p) == "z"]
    if seen.raised is not None or not zero:
        return None
    learning = sum(p.learns for p in seen.parameters)
    everything = len(zero) == learning
    lines = [
        f"The gradient of {some_names(zero)} was exactly zero in every audited step.",
        *say_what_learns(seen),
    ]
    if everything:
        line = (
            f"All {learning} gradients were exactly zero: the loss has a graph, but no parameter"
            " changes its value."
        )
        lines = [line]
    flat = flat_operation(seen)
    dead = bool(seen.severed) and seen.severed[-1].how == "dead"
    if flat is not None and not everything and not (dead and flat.cause is Cause.ZERO):
        flat = None  # a softmax of one value explains some of the zeros, too; others may not
    found = dropped(seen) or flat or returned_zeros(seen, zero) or both_zero(seen, zero)
    found = found or reason_of_zeros(seen, zero, everything=everything)
    if everything and not found.text:
        lines = [f"{line[:-1]} (are the advantages, the weights or a mask all zeros?)."]
    return replace(found, text=(lines[0], *found.text, *lines[1:]))


def died(seen: Observation) -> Diagnosis | None:
    """Gradients were there at first; then they were exactly zero, although the loss is not.

    A loss of 0 has reached its least value: a margin that every pair keeps, for example.
    """
    learning = [p for p in seen.parameters if p.learns]
    since = {len(p.gradients.rstrip("z")) for p in learning}
    long = min((len(p.gradients) for p in learning), default=0) - max(since, default=0) >= DIED
    if not seen.last_loss:
        return None
    if seen.faded is not None and seen.faded.how == "zero":
        built = seen.faded.frames
        end = seen.faded.end
        line = (
            f"In the last {counted(seen.faded.steps, 'step')} of {seen.faded.optimizer}"
            f" {'all gradients' if end else 'half of the gradients or more'} were exactly zero,"
            " whenever they were looked at; at first they were not."
        )
        if end is not None:
            at = innermost_frame(end.frames)
            first = (
                f"The model ends in {end.text}{say_where(at, 'at')}, and that became flat for all"
                " values that it gets, so nothing before it learns."
            )
            return make_diagnosis(Cause.DEAD, None, at, first, line, led=end.frames, advice=NO_END)
        line += " Layers have died."
    elif long and all(since) and all(seen.losses[-DIED:]):
        built = seen.optimizers[0].frames if seen.optimizers else ()
        line = (
            f"From step {max(since) + 1} on every gradient was exactly zero, and the loss was not:"
            " nothing learns any more."
        )
    else:
        return None
    rate = max((p.learning_rate or 0 for p in learning), default=0)
    at = innermost_frame(built)
    said = f"A step was too large. The learning rate is {rate:g}{say_where(at, 'built at')}."
    return make_diagnosis(Cause.DEAD, None, at, line, said, led=built, advice=TOO_LARGE)


def reason_of_zeros(seen: Observation, zero: list[Parameter], *, everything: bool) -> Diagnosis:
    """What explains zero gradients; without text if nothing does.

    A layer is dead if others learn. If ``everything`` got zeros, the loss itself is flat.
    """
    module = module_of(zero[-1])  # the last one: the modules before it get their zeros from it
    names = {p.name for p in zero} | {""}
    hook = next((hook for hook in seen.hooks if hook.parameter in names), None)
    event = seen.severed[-1] if seen.severed else None
    if hook is not None and hook.frames:
        at = innermost_frame(hook.frames)
        line = f"A hook on a gradient was registered at {format_frame(at)}."
        advice = "Let the hook return the gradient that is wanted, or remove the hook."
        return make_diagnosis(Cause.ZERO, module, at, line, led=hook.frames, advice=advice)
    if event is not None and event.how == "clip_grad_norm_":
        at = innermost_frame(event.frames)
        line = f"They were clipped to 0{say_where(at, 'at')}."
        return make_diagnosis(Cause.CLIPPED, module, at, line, led=event.frames)
    if seen.zero_output is not None:
        return explain_zero_output(seen, seen.zero_output, everything=everything)
    if seen.flat is not None and (everything or not seen.flat.module):
        factor = None if seen.arguments else zero_factor(seen.flat)
        if factor is not None and (event is None or event.how == "dead"):
            return factor
    if event is not None and (not everything if event.how == "dead" else event.frames):
        return explain_zeros_behind(event, module)
    rewards = seen.arguments if everything else ()
    given = [
        f"`{each.text}` gives rewards"
        f"{say_where(innermost_frame(each.frames), 'it returns them at')}."
        for each in rewards
    ]
    led = rewards[0].frames if rewards else ()
    advice = REWARDS if rewards else ""
    return make_diagnosis(Cause.ZERO, module, innermost_frame(led), *given, led=led, advice=advice)


def both_zero(seen: Observation, zero: list[Parameter]) -> Diagnosis | None:
    """Both factors of a product are parameters that begin at zero, as in a low-rank adapter."""
    names = {p.name for p in zero}
    made = [each for each in seen.blank if each.text in names]
    if not made:
        return None
    places = list(dict.fromkeys(each.frames[0] for each in made if each.frames))
    line = (
        f"{quote_few([each.text for each in made])} are all zeros from the start,"
        " and what is multiplied with zeros gets a gradient of zero: none of them can begin to"
        f" learn{say_where(innermost_frame(places), 'they are set at')}."
    )
    others = [f"And at {format_frame(at)}." for at in places[1:3]]
    advice = "Begin only the last of the factors at zero (LoRA: B), and the others at random values"
    advice += " (LoRA: A, with nn.init.kaiming_uniform_)."
    at = innermost_frame(places)
    return make_diagnosis(
        Cause.ZERO,
        module_of(zero[0]),
        at,
        line,
        *others,
        user=users_frame(places[1:]),
        advice=advice,
    )


def returned_zeros(seen: Observation, zero: list[Parameter]) -> Diagnosis | None:
    """The backward of a differentiable function of the script returned zeros."""
    found = seen.zeros_returned
    if found is None:
        return None
    at = innermost_frame(found.frames)
    line = (
        f"`{found.text}.backward` got a gradient and returned only zeros, {format_frame(at)}. What"
        f" comes before `{found.text}` learns nothing."
    )
    module = module_of(zero[-1])
    return make_diagnosis(Cause.ZERO, module, at, line, led=found.frames, advice=RETURNED_ZEROS)


def explain_zeros_behind(event: Severed, module: str) -> Diagnosis:
    """An operation lets no gradient through, or what uses a layer's output is flat there."""
    at = innermost_frame(event.frames)
    name = name_module(event.module, event.type)
    if event.how == "dead":
        line = (
            f"No gradient comes back to {name}: what is computed from its output is flat (a dead"
            " ReLU, a saturated activation, a mask, sign or round), or the parts of its gradient"
            f" cancel out{say_where(at, 'its output is used at')}."
        )
        advice = f"{Cause.DEAD.advice} {CANCELLED}"
        return make_diagnosis(Cause.DEAD, event.module, at, line, led=event.frames, advice=advice)
    line = f"`{event.how}` stands between {name} and the loss and lets no gradient through"
    return make_diagnosis(
        Cause.ZERO,
        event.module or module,
        at,
        f"{line}{say_where(at, 'at')}.",
        led=event.frames,
        advice=ADVICE_OF.get(event.how, "").format(how=event.how),
    )


def explain_zero_output(seen: Observation, output: Nonfinite, *, everything: bool) -> Diagnosis:
    """A module's output was all zeros."""
    own = next((e for e in seen.severed if e.module == output.module and e.frames), None)
    at = innermost_frame(own.frames if own is not None else output.frames)
    name = name_module(output.module, output.type)
    line = f"The output of {name} was all zeros, but its input was not{say_where(at, 'at')}."
    if output.operation is not None:
        line = f"`{output.operation}` made only zeros of the last values in {name}"
        line += f"{say_where(at, 'at')}: none of them was above 0."
    led = own.frames if own is not None else output.frames
    begun = innermost_frame(seen.initialised)
    more = [f"The layer before it was initialised at {format_frame(begun)}."] if begun else []
    flat = output.type in ACTIVATIONS or output.operation is not None
    cause = Cause.DEAD if flat and not everything else Cause.ZERO
    advice = LAST_LAYER if flat and everything else ""
    if output.type == "CrossEntropyLoss":
        advice = ONE_CLASS
    elif "Dropout" in output.type:
        advice = DROPS_ALL
    elif not flat:
        advice = WITHIN
    return make_diagnosis(cause, output.module, at, line, *more, led=led, user=begun, advice=advice)


def flat_operation(seen: Observation) -> Diagnosis | None:
    """An operation is flat at all its inputs, and neither a hook nor clipping made the zeros."""
    flat = seen.flat
    clipped = seen.severed and seen.severed[-1].how == "clip_grad_norm_"
    if flat is None or flat.operation in (*PRODUCTS, ITSELF) or clipped:
        return None
    if any(hook.parameter for hook in seen.hooks):
        return None
    at = innermost_frame(flat.frames)
    inside = f", in {name_module(flat.module, flat.type)}" if flat.module else ""
    line = (
        f"`{flat.operation}` got a gradient and passed only zeros on{inside}{say_where(at, 'at')}."
    )
    alone = ALONE in (flat.operation or "")
    return make_diagnosis(
        Cause.ZERO if alone else Cause.DEAD,
        flat.module or None,
        at,
        line,
        "The softmax of one value is constant: it is always 1." if alone else SATURATED,
        led=flat.frames,
        advice=(ONE_CLASS if "class" in (flat.operation or "") else ONE_CHOICE) if alone else "",
    )


def zero_factor(flat: Nonfinite) -> Diagnosis | None:
    """A product whose other factor is zero, or a difference of a value and itself."""
    where = say_where(at := innermost_frame(flat.frames), "at")
    if flat.operation in PRODUCTS:
        line, advice = f"A product has a factor that is zero everywhere{where}.", FACTOR
    elif flat.operation == ITSELF:
        line = f"A value is subtracted from itself{where}, so every gradient through it cancels."
        advice = DETACHED_ONCE
    else:
        return None
    return make_diagnosis(Cause.ZERO, flat.module or None, at, line, led=flat.frames, advice=advice)
