"""Pure: which parameters learn and which do not, as few names of modules.

Pure: what took the gradient from the parameters that should learn, the surest sign first.

Pure: why the gradient of an observed script does not flow: the cause, the module, the line, in words.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from gradmatrix.core.model import Gradient
from gradmatrix.core.observation import Frame
from gradmatrix.judge.causes import Cause, Diagnosis, module_of, place, spot, titled, told, where
from gradmatrix.judge.verdict import (
    first_line,
    gradient_status,
    is_finite,
    judge_observation,
    letter,
    some_names,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gradmatrix.core.observation import Lost, Observation, Parameter, Switch


NUMBER = "#"


def learns(parameter: Parameter) -> bool:
    """Whether it got a finite gradient that is not zero, and changed."""
    return "f" in parameter.gradients and parameter.changed


def grouped(parameters: Iterable[Parameter]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The modules whose parameters learn and those whose parameters do not, of what should learn.

    A module stands for all below it where they are alike; numbered ones that are alike are one entry
    ("layers.0-5.attention: 24 parameters").
    """
    return _grouped(tuple((p.name, learns(p)) for p in parameters if p.learns))


@lru_cache(maxsize=1024)
def _grouped(named: tuple[tuple[str, bool], ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The same of names and of whether they learn: a matrix has the same model, in the same state, in many cells."""
    states = {tuple(name.split(".")): state for name, state in named}
    below: dict[tuple[str, ...], set[bool]] = {}
    for name, state in states.items():
        for depth in range(1, len(name) + 1):
            below.setdefault(name[:depth], set()).add(state)
    counts: dict[bool, dict[tuple[str, ...], int]] = {True: {}, False: {}}
    for name, state in states.items():
        depth = next(depth for depth in range(1, len(name) + 1) if len(below[name[:depth]]) == 1)
        counts[state][name[:depth]] = counts[state].get(name[:depth], 0) + 1
    return entries(counts[True]), entries(counts[False])


def entries(counts: dict[tuple[str, ...], int]) -> tuple[str, ...]:
    """One text for each module, or for several of them that differ by numbers only."""
    alike: dict[tuple[tuple[str, ...], int], list[tuple[str, ...]]] = {}
    for module, count in counts.items():
        pattern = tuple(NUMBER if part.isdecimal() else part for part in module)
        alike.setdefault((pattern, count), []).append(module)
    return tuple(
        f"{joined(modules)}: {each * len(modules)} parameter{'s' if each * len(modules) > 1 else ''}"
        for (_, each), modules in alike.items()
    )


def joined(modules: Sequence[tuple[str, ...]]) -> str:
    """The name of modules that differ by numbers only."""
    columns = [list(dict.fromkeys(column)) for column in zip(*modules, strict=True)]
    return ".".join(
        column[0] if len(column) == 1 else numbers([int(part) for part in column])
        for column in columns
    )


def numbers(values: Sequence[int]) -> str:
    """Some numbers, as a range where none is missing."""
    ordered = sorted(values)
    if all(after == before + 1 for before, after in pairwise(ordered)):
        return f"{ordered[0]}-{ordered[-1]}"
    return "{" + ",".join(map(str, ordered)) + "}"


MOST_LINES = 5
GROUPS_SHOWN = 4
OF_GRADIENTS = re.compile(r"requires?_grad|grad_fn|none of (?:the )?outputs? ha")
SWITCHES = ("no_grad", "inference_mode", "set_grad_enabled")
NOT_SEVERED = (
    "unknown",
    "grad = None",
    "round",
    "floor",
    "ceil",
    "trunc",
    "sign",
    "clip_grad_norm_",
)


def no_gradient(seen: Observation) -> Diagnosis | None:
    """Parameters that should learn got no gradient: what took it from them, the surest sign first."""
    without_graph = any(not call.requires_grad for call in seen.backward)
    if not without_graph and all(letter(p) != "n" for p in seen.parameters if p.learns):
        return None
    if (
        seen.raised is not None
        and not without_graph
        and not OF_GRADIENTS.search(seen.raised.message)
    ):
        return None
    signs: tuple[Callable[[Observation], Diagnosis | None], ...] = (
        cut_before_checkpoint, in_training_pass, dropped, severed, cut_inside,
        new_leaf, off_at_backward, off_everywhere, gap, unused,
    )  # fmt: skip
    found = next((diagnosis for sign in signs if (diagnosis := sign(seen)) is not None), None)
    if found is None:
        return None
    extra = partly(seen)
    if (
        found.cause is not Cause.REBUILT
        and seen.leaves
        and not any(p.gradients.strip("n") for p in seen.parameters)
    ):
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
    first = next(
        (position for position, lost in enumerate(entered) if lost.checkpoint is not None), None
    )
    if first is None or any(
        lost.checkpoint is not None and lost.checkpoint.source is not None for lost in entered
    ):
        return None
    for lost in entered[:first]:
        if lost.switch is not None and not lost.cached:
            return switched(lost)
    return severed(seen) or next(
        (cut(lost) for lost in entered[:first] if lost.grad_enabled and not lost.cached), None
    )


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
    module, kind = (
        (lost.module, lost.type)
        if whole
        else (lost.within or lost.module, lost.within_type or lost.type)
    )
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
        return (
            f"Gradients were off: {by}, and what it calls builds no graph{where(call, 'it was called at')}.",
            at,
        )
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
    if (
        seen.leaves
        and not any(p.gradients.strip("n") for p in seen.parameters if p.learns)
        and seen.leaves[0].frames
    ):
        return None  # the loss itself was made anew: that says more than where its value was read
    event = next(
        (each for each in seen.severed if each.frames and each.how not in NOT_SEVERED), None
    )
    if event is None:
        return None
    at = place(event.frames)
    name = titled(event.module, event.type) if event.module else "the model"
    if event.how in SWITCHES:
        cause = Cause.INFERENCE_MODE if event.how == "inference_mode" else Cause.GRAD_MODE_OFF
        line = f"Gradients were off ({event.how}) where the output of {name} was used{where(at, 'at')}."
        return told(cause, event.module, at, line)
    behind = (
        f"; {event.parameters} parameter tensors lie behind it and get nothing"
        if event.parameters
        else ""
    )
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
    call = next(
        (call for call in seen.backward if not call.requires_grad and call.switch is not None), None
    )
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
        (
            each
            for each in reversed(seen.lost)
            if each.only and not each.entered and each.switch is not None
        ),
        None,
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
            Cause.NOT_TRAINED,
            None,
            None,
            "Nothing was trained: backward was never called, and no optimizer stepped.",
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
    if first is None or not (
        NONFINITE.search(seen.raised.message) if seen.raised is not None else broken
    ):
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
    line = (
        f"{idle[0].type} never stepped: {calls}, its step never ran{where(at, 'it is built at')}."
    )
    return told(Cause.NEVER_STEPPED, module_of(still[0]) if still else None, at, line)


def zero_gradient(seen: Observation) -> Diagnosis | None:
    """Gradients that were there, and exactly zero in every audited step."""
    zero = [p for p in seen.parameters if p.learns and letter(p) == "z"]
    if seen.raised is not None or not zero:
        return None
    learning = sum(p.learns for p in seen.parameters)
    lines = [
        f"The gradient of {some_names(zero)} was exactly zero in every audited step.",
        *partly(seen),
    ]
    if len(zero) == learning:
        first = f"All {learning} gradients were exactly zero: the loss has a graph, but its value moves with no parameter"
        lines = [f"{first} (advantages, weights or a mask of zeros?)."]
    at = next(
        (
            place(hook.frames)
            for hook in seen.hooks
            if hook.parameter in {p.name for p in zero} | {""}
        ),
        None,
    )
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
        lines.insert(
            1, f"The output of {name} was all zeros, though its input was not{where(at, 'at')}."
        )
    elif event is not None and event.frames:
        at, module = place(event.frames), event.module or module
        why = f"`{event.how}` stands between {titled(event.module, event.type)} and the loss and lets no gradient through"
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
    if optimizers and all(
        built.learning_rates and set(built.learning_rates) == {0.0} for built in optimizers
    ):
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
    line = f"{some_names(still)} got a gradient and kept its value: the steps were too small for {kinds}, and rounded away"
    return told(
        Cause.ROUNDING,
        module,
        at,
        f"{line}{where(at, 'the optimizer is built at')}.",
        *partly(seen),
    )


def replaced(seen: Observation) -> Diagnosis | None:
    """An optimizer holds tensors that are no module's any more, and not those that took their place."""
    stale = [
        p for p in seen.parameters if p.learns and p.held and p.module is None and letter(p) == "n"
    ]
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
    lost = next(
        (each for each in seen.lost if each.inference_mode and each.switch is not None), None
    )
    if lost is not None and INFERENCE.search(seen.raised.message):
        return switched(lost)
    raising = [
        Frame(file=file, line=int(line), function=function)
        for file, line, function in re.findall(
            r'File "([^"]+)", line (\d+), in (\S+)', seen.raised.traceback
        )
        if not file.startswith(PLUMBING)
    ]
    at = raising[-1] if raising else None
    under = [f"Raised under {spot(at)}."] if at else []
    return told(
        Cause.EXCEPTION, None, at, f"{seen.raised.type}: {first_line(seen.raised.message)}", *under
    )


def false_alarms(seen: Observation) -> tuple[str, ...]:
    """The known warnings that speak of missing gradients, where everything that should learn does."""
    if gradient_status(seen) is not Gradient.FLOWING or seen.raised is not None:
        return ()
    return tuple(warned.message for warned in seen.warnings if FALSE_ALARM.search(warned.message))
