"""Pure: why the gradient of an observed script does not flow: the cause, the module, the line, in words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.causes import Cause, Diagnosis, module_of, place, spot, titled, told, where
from harness.lost import no_gradient, partly, switched
from harness.model import Gradient
from harness.observation import Frame
from harness.verdict import first_line, gradient_status, is_finite, judge_observation, letter, some_names

if TYPE_CHECKING:
    from harness.observation import Observation, Parameter

__all__ = ["Cause", "Diagnosis", "diagnose", "false_alarms"]

FALSE_ALARM = re.compile(r"None of the inputs have requires_grad=True")
NONFINITE = re.compile(r"\b(?:nan|inf|infinity)\b", re.IGNORECASE)
INFERENCE = re.compile(r"inference (?:tensors?|mode)", re.IGNORECASE)
PLUMBING = ("torch/", "python3", "<frozen")


def diagnose(seen: Observation) -> Diagnosis | None:
    """Why the gradient does not flow; None where everything that should learn does, or training was never reached."""
    outcome = judge_observation(seen).outcome
    if outcome.trains or not outcome.judged or seen.reached == "import":
        return None
    for explain in (
        not_trained,
        not_finite,
        nothing_learns,
        never_stepped,
        replaced,
        no_gradient,
        not_updated,
        zero_gradient,
        exception,
    ):
        found = explain(seen)
        if found is not None:
            return found
    return None


def not_trained(seen: Observation) -> Diagnosis | None:
    """The script did not train, or did it in a way that is not watched."""
    if seen.raised is not None or seen.steps:
        return None
    if not seen.backward:
        return told(
            Cause.NOT_TRAINED, None, None, "Nothing was trained: backward was never called, and no optimizer stepped."
        )
    if not seen.optimizers and all(call.requires_grad for call in seen.backward):
        line = "No optimizer was built, and only the steps of optimizers are watched: what else updates is not known."
        return told(Cause.NOT_TRAINED, None, None, line)
    return None


def not_finite(seen: Observation) -> Diagnosis | None:
    """NaN or infinity: in an output, a gradient, or a parameter after the step."""
    first = seen.nonfinite
    broken = any(not is_finite(loss) for loss in (*seen.losses, seen.last_loss))
    broken = broken or any("x" in p.gradients for p in seen.parameters)
    if first is None or not (NONFINITE.search(seen.raised.message) if seen.raised is not None else broken):
        return None
    at = place(first.frames)
    name = titled(first.module, first.type)
    if first.where == "value":
        return told(
            Cause.NONFINITE_UPDATE,
            first.module,
            at,
            f"The optimizer's step {first.step} made a parameter of {name} NaN or infinite, though its gradient was"
            f" finite{where(at, 'the optimizer is built at')}.",
            "In half precision an optimizer's second moment and its eps can both be 0, and the step divides by them."
            if any(p.dtype == "float16" for p in seen.parameters)
            else "The step was too large for the type of the parameter.",
        )
    if first.where == "gradient":
        hook = where(at, "a hook on it was registered at")
        losses = seen.losses[: first.step]
        fine = ", the loss was not" if losses and all(map(is_finite, losses)) else ""
        line = f"The gradient of {name} was NaN or infinite at step {first.step}{fine}{hook}."
        return told(Cause.NONFINITE_GRADIENT, first.module, at, line)
    line = f"The output of {name} was NaN or infinite at step {first.step}, its input was not{where(at, 'called at')}."
    return told(Cause.NONFINITE_OUTPUT, first.module, at, line)


def nothing_learns(seen: Observation) -> Diagnosis | None:
    """No parameter of what ran requires a gradient."""
    if not seen.backward or any(p.learns for p in seen.parameters) or not seen.frozen:
        return None
    last = seen.frozen[-1]
    known = next((froze for froze in reversed(seen.frozen) if froze.frames), last)
    at = place(known.frames)
    count = sum(froze.parameters for froze in seen.frozen)
    lines = [f"Nothing can learn: all {count} parameter tensors of what ran are frozen."]
    modules = ", ".join(f"`{name}`" for name in known.modules[:3])
    more = " and others" if len(known.modules) > 3 else ""  # noqa: PLR2004  (as many as are shown)
    if at is not None:
        lines.append(f"The last to be frozen were {modules}{more}, {spot(at)}.")
    if any(call.requires_grad for call in seen.backward):
        lines.append("The loss has a graph all the same: it ends at a tensor that is no parameter.")
    return told(Cause.FROZEN, known.modules[0] if known.modules else None, at, *lines)


def never_stepped(seen: Observation) -> Diagnosis | None:
    """Backward ran and found gradients, but an optimizer never stepped."""
    if seen.raised is not None or not any(call.requires_grad for call in seen.backward):
        return None
    idle = [built for built in seen.optimizers if built.parameters and not built.steps]
    still = [p for p in seen.parameters if p.learns and not p.changed]
    if not idle or (seen.steps and not still):
        return None
    at = place(idle[0].frames)
    if idle[0].scaled:
        line = f"GradScaler skipped all {idle[0].scaled} steps of {idle[0].type}: some gradients were NaN or infinite."
        return told(Cause.NONFINITE_GRADIENT, None, at, line)
    calls = f"backward was called {len(seen.backward)} times"
    line = f"{idle[0].type} never stepped: {calls}, its step never ran{where(at, 'it is built at')}."
    return told(Cause.NEVER_STEPPED, module_of(still[0]) if still else None, at, line)


def zero_gradient(seen: Observation) -> Diagnosis | None:
    """Gradients that were there, and exactly zero in every audited step."""
    zero = [p for p in seen.parameters if p.learns and letter(p) == "z"]
    if seen.raised is not None or not zero:
        return None
    learning = sum(p.learns for p in seen.parameters)
    lines = [f"The gradient of {some_names(zero)} was exactly zero in every audited step.", *partly(seen)]
    if len(zero) == learning:
        first = (
            f"All {learning} gradients were exactly zero: the loss has a graph, but its value moves with no parameter"
        )
        lines = [f"{first} (advantages, weights or a mask of zeros?)."]
    at = next((place(hook.frames) for hook in seen.hooks if hook.parameter in {p.name for p in zero} | {""}), None)
    event = seen.severed[-1] if seen.severed else None
    module = module_of(zero[-1])  # the last of them: what comes before it gets its zeros from there
    if at is not None:
        lines.insert(1, f"A hook on a gradient was registered at {spot(at)}.")
    elif event is not None and event.how == "clip_grad_norm_":
        at = place(event.frames)
        lines.insert(1, f"They were clipped to a norm of 0{where(at, 'at')}.")
    elif seen.zero_output is not None:
        module = seen.zero_output.module
        own = next((each for each in seen.severed if each.module == module and each.frames), None)
        at = place(own.frames) if own is not None else place(seen.zero_output.frames)
        name = titled(module, seen.zero_output.type)
        lines.insert(1, f"The output of {name} was all zeros, though its input was not{where(at, 'at')}.")
    elif event is not None and event.frames:
        at, module = place(event.frames), event.module or module
        why = (
            f"`{event.how}` stands between {titled(event.module, event.type)} and the loss and lets no gradient through"
        )
        lines.insert(1, f"{why}{where(at, 'at')}.")
    return told(Cause.ZERO, module, at, *lines)


def not_updated(seen: Observation) -> Diagnosis | None:
    """Gradients flowed, and the optimizer's step changed nothing."""
    still = [p for p in seen.parameters if p.learns and not p.changed and letter(p) == "f"]
    if seen.raised is not None or not still:
        return None
    loose = [p for p in still if not p.held]
    if loose:
        return other_parameters(seen, loose)
    optimizers = [built for built in seen.optimizers if built.steps]
    at = place(optimizers[0].frames) if optimizers else None
    module = module_of(still[0])
    if optimizers and all(built.learning_rates and set(built.learning_rates) == {0.0} for built in optimizers):
        line = f"The learning rate was 0 in every audited step{where(at, 'the optimizer is built at')}."
        return told(Cause.LEARNING_RATE, module, at, line, *partly(seen))
    if {p.learning_rate for p in still} == {0.0}:
        line = f"The learning rate of the group of {some_names(still)} was 0{where(at, 'the optimizer is built at')}."
        return told(Cause.LEARNING_RATE, module, at, line, *partly(seen))
    built = optimizers[0] if optimizers else None
    if built is not None and not any(p.changed for p in seen.parameters) and built.step is not None:
        line = f"{built.type}.step ran {built.steps} times and changed nothing: it is written at {spot(built.step)}."
        return told(Cause.NEVER_STEPPED, module, built.step, line)
    kinds = " and ".join(sorted({p.dtype for p in still}))
    line = (
        f"{some_names(still)} got a gradient and kept its value: the steps were too small for {kinds}, and rounded away"
    )
    return told(Cause.ROUNDING, module, at, f"{line}{where(at, 'the optimizer is built at')}.", *partly(seen))


def replaced(seen: Observation) -> Diagnosis | None:
    """An optimizer holds tensors that are no module's any more, and not those that took their place."""
    stale = [p for p in seen.parameters if p.learns and p.held and p.module is None and letter(p) == "n"]
    loose = [p for p in seen.parameters if p.learns and not p.held and letter(p) in "fz"]
    if seen.raised is not None or not stale or not loose:
        return None
    return other_parameters(seen, loose)


def other_parameters(seen: Observation, loose: list[Parameter]) -> Diagnosis:
    """No optimizer holds parameters that got a gradient."""
    built = next((each for each in seen.optimizers if each.steps), None)
    at = place(built.frames) if built is not None else None
    learning = [p for p in seen.parameters if p.learns]
    every = len(loose) == len(learning)
    kind = built.type if built is not None else "An optimizer"
    why = (
        "It holds those of another model, of a copy, or of the model before it was changed."
        if every
        else "They were left out, or added to the model after the optimizer was built."
    )
    return told(
        Cause.OTHER_PARAMETERS,
        module_of(loose[0]),
        at,
        f"{kind} does not hold {'any' if every else len(loose)} of the {len(learning)} parameter tensors that got a"
        f" gradient: {some_names(loose)}{where(at, 'it is built at')}.",
        why,
    )


def exception(seen: Observation) -> Diagnosis | None:
    """Something else that was raised: where."""
    if seen.raised is None:
        return None
    lost = next((each for each in seen.lost if each.inference_mode and each.switch is not None), None)
    if lost is not None and INFERENCE.search(seen.raised.message):
        return switched(lost)
    raising = [
        Frame(file=file, line=int(line), function=function)
        for file, line, function in re.findall(r'File "([^"]+)", line (\d+), in (\S+)', seen.raised.traceback)
        if not file.startswith(PLUMBING)
    ]
    at = raising[-1] if raising else None
    under = [f"Raised under {spot(at)}."] if at else []
    return told(Cause.EXCEPTION, None, at, f"{seen.raised.type}: {first_line(seen.raised.message)}", *under)


def false_alarms(seen: Observation) -> tuple[str, ...]:
    """The known warnings that speak of missing gradients, where everything that should learn does."""
    if gradient_status(seen) is not Gradient.FLOWING or seen.raised is not None:
        return ()
    return tuple(warned.message for warned in seen.warnings if FALSE_ALARM.search(warned.message))
