"""Steps were made and changed nothing, or not what they should: rates, rounding, ranks, phases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradmatrix.core.text import counted
from gradmatrix.judge.causes import Cause
from gradmatrix.judge.learning import find_still, say_what_learns
from gradmatrix.judge.signs.held import other_parameters
from gradmatrix.judge.verdict import best_step, some_names
from gradmatrix.judge.wording import (
    Diagnosis,
    format_frame,
    innermost_frame,
    make_diagnosis,
    module_of,
    quote_few,
    say_where,
)

if TYPE_CHECKING:
    from gradmatrix.core.observation import Built, Frame, Observation, Parameter

VANISHED = 1e-5
"""A gradient whose norm is below this share of the norm of all gradients has vanished."""
LEAST_RATE = 1e-7
"""A lower learning rate is itself too small for float32, whatever the gradient is."""
FACTOR_OF_RATE = (
    "LambdaLR multiplies the first learning rate by what its function returns: return a factor, 1"
    " for the full rate, and not a learning rate."
)


def no_rate(seen: Observation) -> Diagnosis | None:
    """Gradients were there, but the learning rate of every step was 0."""
    stepped = [built for built in seen.optimizers if built.steps and built.learning_rates]
    still = [p for p in seen.parameters if p.held and p.learns and best_step(p) == "f"]
    if seen.raised is not None or not still or any(p.changed for p in seen.parameters):
        return None
    if not stepped or any(set(built.learning_rates) != {0.0} for built in stepped):
        return None
    return explain_rate(stepped[0], module_of(still[0]), say_what_learns(seen))


def explain_rate(built: Built, module: str, learning: tuple[str, ...]) -> Diagnosis:
    """The learning rate was 0, and what wrote it last."""
    at = innermost_frame(built.rate_frames) or innermost_frame(built.frames)
    loaded = built.rate_from == "loaded"
    where = say_where(at, "at" if loaded else "the optimizer is built at")
    line, advice = f"The learning rate was 0 in every audited step{where}.", ""
    given: tuple[Frame, ...] = ()
    if built.rate_from == "constructor" and built.rate:
        given = built.rate_frames[1:2]
        line = f"The learning rate was 0 from the start: {built.rate}{say_where(at, 'at')}."
        advice = f"Set {built.rate.partition('=')[0]} above 0."
        if "=lambda" in built.rate:
            advice = (
                "Let the function give a learning rate above 0. Print its argument: it may be"
                " something else than the step (in Stable-Baselines3 it is the part of the training"
                " that is left, from 1 to 0)."
            )
    elif loaded:
        line = f"The state that was loaded into {built.type} set its learning rate to 0{where}."
        advice = (
            "The state of an optimizer has its learning rate, here that of the end of a schedule."
            " After load_state_dict set group['lr'] of each group in optimizer.param_groups; build"
            " a scheduler after that. Or load the state of the model alone."
        )
    elif built.rate_from == "scheduler" and not built.scheduled:
        line = f"{built.rate} set the learning rate to 0{say_where(at, 'it is built at')}, and no"
        line += " scheduler was ever stepped."
        advice = "Call the scheduler's step() after each step of the optimizer."
    elif built.rate_from == "scheduler":
        line = f"{built.rate} set the learning rate to 0{say_where(at, 'it is built at')}."
        given = built.zero_at
        if given:
            line += f" A function returned 0 to it{say_where(given[0], 'at')}."
        advice = (
            "Call the scheduler's step() once for each step that it counts (of the optimizer, or an"
            " epoch), and let the first learning rate be above 0. Check what it computes: an"
            " integer division, 0 steps, or a warm-up that is longer than the run keep the"
            " learning rate at 0."
        )
    elif built.rate_from == "assignment" and built.rate_frames:
        line = f"A line set the learning rate of the optimizer to 0{say_where(at, 'at')}."
    led = built.rate_frames or built.frames
    return make_diagnosis(
        Cause.LEARNING_RATE,
        module,
        at,
        line,
        *learning,
        led=led,
        user=innermost_frame(given),
        advice=advice,
    )


def vanished(still: list[Parameter], seen: Observation) -> float:
    """The greatest norm of the gradients of ``still`` as a share of all; 0 if it is not small.

    It is also 0 if larger gradients might be rounded away as well: by the type of the parameters,
    or by the learning rate.
    """
    rates = [p.learning_rate for p in still if isinstance(p.learning_rate, float)]
    if min(rates, default=1) < LEAST_RATE or not {p.dtype for p in still} <= {"float32", "float64"}:
        return 0.0
    norms = [p.norm for p in still if isinstance(p.norm, float)]
    all_norms = [norm for norm in seen.gradient_norms if isinstance(norm, float)]
    share = max(norms) / max(all_norms) if norms and any(all_norms) else 1.0
    return share if len(norms) == len(still) and share < VANISHED else 0.0


def not_updated(seen: Observation) -> Diagnosis | None:
    """Gradients flowed, but the optimizer's step changed nothing."""
    still = find_still(seen)
    if seen.raised is not None or not still:
        return None
    loose = [p for p in still if not p.held]
    if loose:
        return other_parameters(seen, loose)
    stepped = [built for built in seen.optimizers if built.steps]
    at = innermost_frame(stepped[0].frames) if stepped else None
    module, built_at = module_of(still[0]), say_where(at, "the optimizer is built at")
    led = stepped[0].frames if stepped else ()
    if {p.learning_rate for p in still} == {0.0}:
        named = next((built for built in stepped if built.rate_frames), None)
        if named is not None and named.rate_from == "loaded":
            return explain_rate(named, module, say_what_learns(seen))
        if named is not None:
            led, at = named.rate_frames, innermost_frame(named.rate_frames)
            built_at = f": {named.rate}{say_where(at, 'at')}"
        line = f"The learning rate of the group of {some_names(still)} was 0{built_at}."
        return make_diagnosis(
            Cause.LEARNING_RATE, module, at, line, *say_what_learns(seen), led=led
        )
    step = stepped[0].step if stepped else None
    if step is not None and not any(p.changed for p in seen.parameters):
        line = (
            f"{stepped[0].type}.step ran {counted(stepped[0].steps, 'time')} and changed nothing;"
            f" it is written at {format_frame(step)}."
        )
        return make_diagnosis(Cause.NEVER_STEPPED, module, step, line, led=led)
    return too_small(still, seen)


def too_small(still: list[Parameter], seen: Observation) -> Diagnosis:
    """The steps of ``still`` were so small that they were rounded away."""
    stepped = [built for built in seen.optimizers if built.steps]
    led = stepped[0].frames if stepped else ()
    at = innermost_frame(led)
    module, built_at = module_of(still[0]), say_where(at, "the optimizer is built at")
    kinds = " and ".join(sorted({p.dtype for p in still}))
    rates = {parameter.learning_rate for parameter in still}
    rate = next(iter(rates)) if len(rates) == 1 else None
    low = f"at a learning rate of {rate:.3g} " if isinstance(rate, float) else ""
    line = (
        f"{some_names(still)} got a gradient but kept the same value: {low}the steps were too small"
        f" for {kinds} and were rounded away{built_at}."
    )
    advice = ""
    if stepped and stepped[0].eps is not None:
        line = (
            f"{some_names(still)} got a gradient but kept the same value: {stepped[0].type} divides"
            f" its steps by at least eps, which is {stepped[0].eps:g}{built_at}."
        )
        advice = "Lower eps: it only keeps a divisor away from 0, and is 1e-8 by default for Adam."
    elif stepped and stepped[0].factor is not None:
        led, at = stepped[0].rate_frames, innermost_frame(stepped[0].rate_frames)
        line = (
            f"{some_names(still)} got a gradient but kept the same value: LambdaLR multiplied the"
            f" learning rate by {stepped[0].factor:.3g} at most{say_where(at, 'it is built at')}."
        )
        advice = FACTOR_OF_RATE
    elif share := vanished(still, seen):
        line = (
            f"The gradient vanished on its way back to {some_names(still)}: its norm is at most"
            f" {share:.1g} of that of all gradients. Steps of that size are rounded away, so the"
            " values stayed the same."
        )
        at, led = None, ()
        if seen.arguments:
            led, at = seen.arguments[0].frames, innermost_frame(seen.arguments[0].frames)
            line += f" The script uses `{seen.arguments[0].text}`{say_where(at, 'at')}."
        advice = (
            "Let more of the gradient pass through the layers in between: relu or GELU in place of"
            " a sigmoid or tanh, normalisation layers, residual connections, fewer layers, or"
            " another initialisation."
        )
    return make_diagnosis(
        Cause.ROUNDING, module, at, line, *say_what_learns(seen), led=led, advice=advice
    )


def faded(seen: Observation) -> Diagnosis | None:
    """The script trained at first, and in its last steps nothing was left to learn."""
    found = seen.faded
    if found is None or found.how == "zero":
        return None
    at = innermost_frame(found.frames)
    last = f"the last {counted(found.steps, 'step')} of {found.optimizer}"
    if found.how == "rate":
        line = f"The learning rate was 0, or nearly so, in {last}{say_where(at, 'it is set at')}."
        stepped = found.stepped[0] if len(found.stepped) == 1 else None
        more = [f"The scheduler is stepped at {format_frame(stepped)}."] if stepped else []
        advice = (
            "Give the scheduler as many steps as are trained. If it counts epochs, step it once in"
            " each epoch, and not in each batch."
        )
        if not stepped:
            advice += " If the state of an optimizer is loaded, its old learning rate comes back:"
            advice += " set group['lr'] afterwards."
        return make_diagnosis(
            Cause.LEARNING_RATE, None, at, line, *more, led=found.frames, advice=advice
        )
    if found.how == "empty":
        line = (
            f"No parameter had a gradient in {last}: it holds those of before, and what runs was"
            f" made later{say_where(at, 'at')}."
        )
        return make_diagnosis(Cause.OTHER_PARAMETERS, None, at, line, led=found.frames)
    if found.how == "pattern":
        name, *trained = found.names
        where = f" (`{trained[0]}`)" if trained else ""
        line = (
            f"`{name}` was never trained: another instance of its class was, in its"
            f" place{where}, and `{name}` runs at {format_frame(at)}."
        )
        advice = (
            f"Run and save the module that was trained{where}. The library makes a copy or a new"
            f" module of the one it is given{say_where(found.frames[-1], 'at')}."
        )
        return make_diagnosis(
            Cause.OTHER_PARAMETERS, None, at, line, led=found.frames, advice=advice
        )
    if found.how == "loose":
        line = (
            f"{quote_few(found.names)} were frozen at first and"
            " get a gradient now, but no optimizer holds"
            f" them{say_where(at, f'{found.optimizer} is built at')}."
        )
        advice = "When they are unfrozen, give them to the optimizer with add_param_group, or build"
        advice += " the optimizer anew."
        return make_diagnosis(
            Cause.OTHER_PARAMETERS, None, at, line, led=found.frames, advice=advice
        )
    line = (
        f"A later {found.optimizer} holds more parameters than the one before it, but all that it"
        f" adds is still frozen{say_where(at, 'it was frozen at')}."
    )
    advice = "Call requires_grad_(True) on what should be trained from then on."
    return make_diagnosis(Cause.FROZEN, None, at, line, led=found.frames, advice=advice)


def clipped_scaled(seen: Observation) -> Diagnosis | None:
    """Gradients were clipped before a GradScaler divided them by its scale."""
    at = innermost_frame(seen.clipped_scaled)
    if at is None:
        return None
    line = (
        "Gradients are clipped while they are still multiplied by the scale of a GradScaler"
        f"{say_where(at, 'at')}. The scaler divides them only afterwards, so next to nothing is"
        " left of them."
    )
    advice = "Call scaler.unscale_(optimizer) between backward and this line."
    return make_diagnosis(Cause.CLIPPED, None, at, line, led=seen.clipped_scaled, advice=advice)


def stepped_scaled(seen: Observation) -> Diagnosis | None:
    """An optimizer stepped with gradients that are still multiplied by a GradScaler's scale."""
    if seen.stepped_scaled is None or seen.raised is not None:
        return None
    at = innermost_frame(seen.stepped_scaled.frames)
    factor = seen.stepped_scaled.text
    line = (
        f"The optimizer stepped with gradients that a GradScaler had made {factor}"
        f" times too large{say_where(at, 'at')}. Nothing divided them by the scale."
    )
    return make_diagnosis(Cause.SCALED, None, at, line, led=seen.stepped_scaled.frames)


def drifted(seen: Observation) -> Diagnosis | None:
    """Ranks began with equal parameters and do not have them any more."""
    if seen.drift is None:
        return None
    at = innermost_frame(seen.drift.frames)
    why = "nothing averages their gradients"
    advice = ""
    if seen.drift.averaged:
        why = "DistributedDataParallel averages some of their gradients and not others"
        advice = (
            "Compare the gradients of the ranks before a step. Leave out static_graph=True, and"
            " change no requires_grad after the model is wrapped."
        )
    line = (
        f"The {seen.drift.ranks} ranks began with equal parameters and have different ones after"
        f" step {seen.drift.step}: {why}{say_where(at, 'the step is')}."
    )
    past = innermost_frame(seen.drift.past)
    if past is None:
        return make_diagnosis(
            Cause.RANKS_DIFFER, None, at, line, led=seen.drift.frames, advice=advice
        )
    why = f"A call goes past the wrapper that averages them, at {format_frame(past)}."
    advice = "Call the DistributedDataParallel wrapper itself, not its module, and do not keep it"
    advice += " under no_sync() when the optimizer steps."
    return make_diagnosis(Cause.RANKS_DIFFER, None, past, line, why, advice=advice)
