"""Nothing was trained: backward, a step, or an update was not called or changed nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradmatrix.core.model import Gradient
from gradmatrix.core.text import counted, few
from gradmatrix.judge.causes import Cause
from gradmatrix.judge.learning import find_still
from gradmatrix.judge.verdict import gradient_status, some_names
from gradmatrix.judge.wording import (
    MOST_NAMES,
    Diagnosis,
    format_frame,
    innermost_frame,
    make_diagnosis,
    module_of,
    quote_few,
    say_where,
    users_frame,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradmatrix.core.observation import Frame, Observation, Written

SKIPPED = (
    "Either that never held, or it held only where accelerator.accumulate() skips the step: that"
    " lets it run in the last batch of each accumulation."
)


def not_called(seen: Observation) -> Diagnosis | None:
    """A statement names backward or step and does not call it."""
    if seen.raised is not None or not seen.uncalled:
        return None
    found = seen.uncalled[0]
    at = innermost_frame(found.frames)
    line = f"`{found.text}` is named but not called{say_where(at, 'at')}."
    advice = f"Add the parentheses: `{found.text}()`."
    return make_diagnosis(Cause.NOT_CALLED, None, at, line, advice=advice)


def no_backward(seen: Observation) -> Diagnosis | None:
    """An optimizer stepped, and nothing ever asked for gradients."""
    if seen.raised is not None or seen.backward or seen.requests or not seen.steps:
        return None
    if any(p.changed or p.gradients.strip("n") for p in seen.parameters):
        return None
    at = innermost_frame(seen.stepped)
    line = (
        f"Backward was never called, so the optimizer's {counted(seen.steps, 'step')} had no"
        f" gradients{say_where(at, 'it steps at')}."
    )
    if seen.asked:
        return not_given(seen, seen.asked, at)
    if seen.closure is not None and seen.closure.user:
        line = (
            f"The closure that the optimizer's step is given never calls backward; it is written at"
            f" {format_frame(seen.closure)}, and the optimizer steps at {format_frame(at)}."
        )
        advice = "Call loss.backward() in the closure, after zero_grad and before it returns the"
        advice += " loss: step only calls the closure."
        return make_diagnosis(Cause.NOT_TRAINED, None, seen.closure, line, user=at, advice=advice)
    accelerated = at is not None and at.file.startswith("accelerate")
    call = "accelerator.backward(loss)" if accelerated else "loss.backward()"
    advice = f"Call {call} before the optimizer's step."
    user, lines = None, [line]
    if at is not None and at.file.startswith(("lightning", "pytorch_lightning")):
        advice = "Return the loss from training_step: Lightning calls backward on what it returns."
        if any(frame.user and frame.function == "training_step" for frame in seen.stepped):
            advice = "With automatic_optimization = False, call self.manual_backward(loss) between"
            advice += " zero_grad and step."
        elif seen.arguments:
            user = innermost_frame(seen.arguments[0].frames)
            lines.append(f"`{seen.arguments[0].text}` returns nothing{say_where(user, 'at')}.")
    return make_diagnosis(
        Cause.NOT_TRAINED, None, at, *lines, led=seen.stepped, user=user, advice=advice
    )


def not_given(seen: Observation, asked: Sequence[Frame], at: Frame | None) -> Diagnosis:
    """Gradients were computed by ``autograd.grad`` or ``torch.func``, and no parameter has one."""
    made = users_frame(asked) or asked[0]
    line = (
        f"Gradients are computed at {format_frame(made)}, but no parameter is given one, so the"
        f" optimizer's {counted(seen.steps, 'step')} changed nothing{say_where(at, 'it steps at')}."
    )
    advice = (
        "Give each parameter its gradient before the step: p.grad = gradient. torch.autograd.grad"
        " and torch.func.grad only return gradients; a step reads those in p.grad."
    )
    user = made if at is not None and at.user else None
    return make_diagnosis(
        Cause.NOT_TRAINED, None, at, line, led=seen.stepped, user=user, advice=advice
    )


def not_trained(seen: Observation) -> Diagnosis | None:
    """The script made no step of an optimizer, and its updates by hand left something out."""
    if seen.raised is not None or seen.steps:
        return None
    if seen.unmoved is not None:
        return unmoved(seen)
    if seen.updates:
        return not_all_updated(seen)
    if not seen.backward and not seen.requests:
        return nothing_called(seen)
    flat = gradient_status(seen) is Gradient.ZERO
    if not seen.optimizers and not flat and all(call.requires_grad for call in seen.backward):
        line = (
            f"Gradients were asked for {counted(seen.requests or len(seen.backward), 'time')}, but"
            " no optimizer was built, and no value that has a gradient changed."
        )
        at = innermost_frame(seen.asked)
        where = [f"They are asked for at {format_frame(at)}."] if at is not None else []
        return make_diagnosis(Cause.NOT_TRAINED, None, at, line, *where, led=seen.asked)
    return None


def not_all_updated(seen: Observation) -> Diagnosis | None:
    """The updates that the script makes by hand leave something out."""
    still = find_still(seen)
    if not still:
        return None
    line = (
        f"The script updates parameters without an optimizer of torch, but {some_names(still)}"
        " never changed, although a gradient was there."
    )
    return make_diagnosis(Cause.NOT_TRAINED, module_of(still[0]), None, line)


def nothing_called(seen: Observation) -> Diagnosis:
    """Neither backward nor a step of an optimizer was called."""
    line = "Nothing was trained: backward was never called, and no optimizer stepped."
    built = seen.optimizers[0].frames if seen.optimizers else ()
    at = innermost_frame(built)
    manual = next((each for each in seen.arguments if each.text.startswith("automatic_")), None)
    if manual is not None:
        said = innermost_frame(manual.frames)
        line += f" `{manual.text}` leaves both to training_step{say_where(said, 'at')}."
        advice = (
            "Leave that line out: Lightning then calls both. Or call self.manual_backward(loss) and"
            " the step of self.optimizers() in training_step."
        )
        return make_diagnosis(Cause.NOT_TRAINED, None, said, line, led=built, advice=advice)
    if at is None or seen.arguments:
        return explain_delay(seen, Cause.NOT_TRAINED, line, at, built)
    line = "Nothing was trained: backward was never called, and the optimizer never stepped"
    line += f"{say_where(at, 'it is built at')}."
    advice = (
        "Call backward on the loss, and then the optimizer's step. If both calls are there, the"
        " loop had no batch: is the dataset empty, or smaller than a batch with drop_last=True?"
    )
    return make_diagnosis(Cause.NOT_TRAINED, None, at, line, led=built, advice=advice)


def explain_delay(
    seen: Observation, cause: Cause, line: str, at: Frame | None, led: Sequence[Frame]
) -> Diagnosis:
    """No step was made; an argument may put it off beyond the end of the run."""
    late = put_off(seen)
    texts = [written.text for written in late]
    user = innermost_frame(late[0].frames) if late else None
    if not texts:
        return make_diagnosis(cause, None, at, line, led=led)
    advice = f"Lower {' or '.join(texts)}, or train for longer: the run ended before the first"
    advice += " optimizer step."
    return make_diagnosis(cause, None, at, line, led=led, user=user, advice=advice)


def put_off(seen: Observation) -> tuple[Written, ...]:
    """The arguments that may put off the first step: so many gradients were not asked for yet."""
    asked = max(seen.requests, len(seen.backward))
    numbers = {each: each.text.rpartition("=")[2] for each in seen.arguments}
    return tuple(e for e, n in numbers.items() if not n.isdecimal() or int(n) >= asked)


def unmoved(seen: Observation) -> Diagnosis | None:
    """The updates of a script without an optimizer of torch change nothing."""
    found = seen.unmoved
    if found is None or seen.raised is not None:
        return None
    at = innermost_frame(found.frames)
    where = say_where(at, "at")
    cause, advice = Cause.NOT_TRAINED, ""
    line = f"The learning rate was 0: {found.text}{where}."
    if found.how == "rate":
        cause = Cause.LEARNING_RATE
    elif found.how == "undone":
        line = "Each step changes the parameters, but before the next one they are back at their"
        how = f"`{found.text}` is called at" if found.text else "they are set at"
        line += f" first values{say_where(at, how)}."
        advice = "Do not copy or load earlier values into the model between two steps: restore them"
        advice += (
            " only after validation. If a condition decides that, check what it compares with:"
        )
        advice += " the best loss begins at float('inf'). If they are an average, update it after"
        advice += " each step and copy it into the model only to validate."
    elif found.how == "anew":
        line = "All weights are initialised anew before each step, so nothing is kept of what was"
        line += f" learned{say_where(at, 'at')}."
        advice = "Initialise the model once, before the loop."
    elif found.how == "used-up":
        name = f"`{found.text}`" if found.text else "A variable"
        line = (
            f"{name} is the generator of a model's parameters, and it can be gone through only"
            f" once: later loops find no parameter{say_where(at, 'it is assigned at')}."
        )
        advice = "Keep a list of the parameters, such as list(model.parameters()): each update then"
        advice += " finds them all."
    else:
        what = f"and binds the name `{found.text}` to it" if found.text else "that nothing uses"
        line = f"The update makes a new tensor {what}; the parameter itself never changes{where}."
        advice = "Update the parameter in place, under torch.no_grad(): p -= rate * p.grad, or"
        advice += " p.add_(...)."
    outer = users_frame(found.frames[1:])
    user = outer if found.how == "anew" else None
    return make_diagnosis(cause, None, at, line, led=found.frames, user=user, advice=advice)


def never_stepped(seen: Observation) -> Diagnosis | None:
    """Backward ran and found gradients, but an optimizer never stepped."""
    if seen.raised is not None or not any(call.requires_grad for call in seen.backward):
        return None
    idle = [built for built in seen.optimizers if built.parameters and not built.steps]
    still = [p for p in seen.parameters if p.learns and not p.changed]
    if not idle or (seen.steps and not still):
        return None
    kind, at = idle[0].type, innermost_frame(idle[0].frames)
    line = (
        f"{kind} never stepped: backward was called, but its step never ran"
        f"{say_where(at, 'it is built at')}."
    )
    if len(idle) > 1:
        places = [f"{b.type}{say_where(innermost_frame(b.frames), 'built at')}" for b in idle]
        line = (
            f"{len(idle)} optimizers never stepped: {few(places, MOST_NAMES, '; ')}. Backward was"
            " called, but their steps never ran."
        )
    module = module_of(still[0]) if still else None
    if put_off(seen) and not seen.steps:
        return explain_delay(seen, Cause.NEVER_STEPPED, line, at, idle[0].frames)
    test = innermost_frame(idle[0].condition_at)
    if test is not None:
        accelerate = "accelerate" in seen.environment
        why = "" if accelerate else " that never let it run"
        advice = "Check what that condition counts or compares: the step must come within the run."
        advice += " If it accumulates gradients, step once more after the last batch."
        if accelerate:
            advice += " In accelerator.accumulate() call the step in each batch, without another"
            advice += " condition."
        line = (
            f"{kind} never stepped: backward was called, but its step is called only under a"
            f" condition{why}, `{idle[0].condition}`, at {format_frame(test)}."
        )
        skipped = [SKIPPED] if accelerate else []
        return make_diagnosis(Cause.NEVER_STEPPED, module, test, line, *skipped, advice=advice)
    asked = users_frame(seen.asked)
    others = [
        f"Another optimizer, {built.type}, made {counted(built.steps, 'step')}"
        f"{say_where(innermost_frame(built.frames), 'it is built at')}. Perhaps one of its steps"
        " was meant for the optimizer that never stepped."
        for built in seen.optimizers
        if built.steps and built.learning_rates and len(idle) == 1
    ]
    return make_diagnosis(
        Cause.NEVER_STEPPED,
        module,
        at,
        line,
        *others[:1],
        led=idle[0].frames,
        user=asked if at is not None and at.user else None,
    )


def never_zeroed(seen: Observation) -> Diagnosis | None:
    """Nothing clears the gradients."""
    if seen.kept is None:
        return None
    at, other = innermost_frame(seen.kept.frames), innermost_frame(seen.kept.cleared)
    step = users_frame(seen.stepped)
    names = quote_few(seen.kept.names)
    which = f": {names}" if names else ""
    line = (
        f"Gradients are never cleared: in each step backward added to those of the steps before"
        f" ({seen.kept.parameters} of {counted(seen.kept.learning, 'parameter')}{which})"
        f"{say_where(at, 'backward is called at')}"
        f"{say_where(step, 'the optimizer steps at') if at and at.user else ''}."
    )
    advice = ""
    if not seen.steps:
        advice = (
            "Clear them once for each step, after the update or before backward: model.zero_grad(),"
            " or p.grad = None for each tensor that is updated."
        )
    elif at is not None and (at.function == "closure" or step in seen.kept.frames):
        advice = "Call optimizer.zero_grad() at the start of the closure, before its backward."
    more = [f"Others are cleared at {format_frame(other)}, but not these."] if other else []
    led = seen.kept.cleared or seen.kept.frames
    return make_diagnosis(
        Cause.NEVER_ZEROED, None, other or at, line, *more, led=led, user=step, advice=advice
    )
