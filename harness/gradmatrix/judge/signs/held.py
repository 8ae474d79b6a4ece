"""Optimizers do not hold what runs: it is not registered, made later, copied, or left out."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gradmatrix.core.text import counted, few
from gradmatrix.judge.causes import Cause
from gradmatrix.judge.learning import outermost
from gradmatrix.judge.remarks import ADAPTER, name_operation
from gradmatrix.judge.signs.frozen import advice_against
from gradmatrix.judge.signs.lost import HIDING, NOT_SEVERED, SWITCHES
from gradmatrix.judge.verdict import best_step, some_names
from gradmatrix.judge.wording import (
    MOST_NAMES,
    Diagnosis,
    begin,
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

    from gradmatrix.core.observation import Built, Leaf, Observation, Parameter, Severed

REGISTERED = {
    ("modules", False): "nn.ModuleList",
    ("modules", True): "nn.ModuleDict",
    ("parameters", False): "nn.ParameterList",
    ("parameters", True): "nn.ParameterDict",
    ("tensors", False): "nn.ParameterList",
    ("tensors", True): "nn.ParameterDict",
}
"""What registers the contents of a list or, if true, of a dictionary."""
MANY_COPIES = 3
"""So many parameters of each shape for one that the optimizers hold are copies of each step."""
FAST_WEIGHTS = (
    "If these tensors are fast weights, begin each inner loop with the parameters themselves,"
    " without detach, and make new tensors in it (weight - rate * gradient) instead of changing"
    " weight.data. If they are what should learn, build the optimizer from them."
)


def nothing_held(seen: Observation) -> Diagnosis | None:
    """An optimizer got an empty list of parameters, because they are in plain attributes."""
    if seen.raised is None or "empty parameter list" not in seen.raised.message:
        return None
    return explain_unregistered(seen)


def not_registered(seen: Observation) -> Diagnosis | None:
    """A module trains tensors that its parameters() does not have."""
    return explain_unregistered(seen) if seen.raised is None and seen.backward else None


def explain_unregistered(seen: Observation) -> Diagnosis | None:
    """The attribute that holds most of the tensors that are not registered."""
    found = max(seen.unregistered, key=lambda each: each.parameters, default=None)
    if found is None:
        return None
    at = innermost_frame(found.frames)
    name = name_module(found.module, found.type)
    container = found.container if found.container in {"list", "dict", "tuple", "set"} else ""
    what = f"a plain {container} of {found.holds}" if container else "a plain tensor"
    fitting = REGISTERED[found.holds, found.container == "dict"] if container else "nn.Parameter"
    missing = f"the {counted(found.parameters, 'tensor')} in it" if container else "it"
    line = (
        f"`{found.attribute}` of {name} is {what}: parameters() does not return {missing},"
        f" and no optimizer holds {'it' if found.parameters == 1 else 'them'}"
        f"{say_where(at, 'it is assigned at')}."
    )
    beside = [f"`{e.attribute}`" for e in seen.unregistered if e.module == found.module]
    beside.remove(f"`{found.attribute}`")
    are = "is" if len(beside) == 1 else "are"
    more = [f"{few(beside, MOST_NAMES)} of {name} {are} not registered either."] if beside else []
    advice = f"Make `{found.attribute}` an {fitting}: then parameters() has it."
    if fitting == "nn.Parameter":
        advice = (
            f"Write `self.{found.attribute} = nn.Parameter(...)`. If it was written so: `.float()`,"
            " `.to(...)` and arithmetic make a plain tensor of an nn.Parameter, so make it last:"
            " nn.Parameter(tensor.float())."
        )
    return make_diagnosis(
        Cause.NOT_REGISTERED, found.module, at, line, *more, led=found.frames, advice=advice
    )


def made_in_forward(seen: Observation) -> Diagnosis | None:
    """A layer is made while the model runs."""
    anew = next((each for each in seen.anew if each.within is not None), None)
    if anew is None or seen.raised is not None:
        return None
    at = innermost_frame(anew.frames)
    line = (
        f"The forward of `{anew.within}` makes a new {anew.type} when it runs, and no optimizer"
        f" holds its parameters{say_where(at, 'at')}."
    )
    if anew.again:
        line += " They begin with other values each time."
    advice = "Make the layer once, in __init__, and keep it as an attribute of the module."
    if not anew.again:
        advice += (
            " If its size is known only then, run the model once before the optimizer is built."
        )
    return make_diagnosis(
        Cause.NOT_REGISTERED, anew.within, at, line, led=anew.frames, advice=advice
    )


def left_out(seen: Observation) -> Diagnosis | None:
    """A loss has parameters of its own, they get a gradient, and no optimizer holds them."""
    loose = seen.unheld
    if loose is None or not loose.of_loss:
        return None
    at, called = innermost_frame(loose.built), innermost_frame(loose.frames)
    line = (
        f"`{loose.modules[0]}` gives a loss and has parameters of its own. They get a gradient, but"
        f" no optimizer holds them{say_where(at, 'the optimizer is built at')}."
    )
    more = [f"It is called at {format_frame(called)}."] if called else []
    return make_diagnosis(
        Cause.OTHER_PARAMETERS,
        loose.modules[0],
        at,
        line,
        *more,
        led=loose.built,
        advice="Give the parameters of the loss to an optimizer too.",
    )


def used_up(seen: Observation) -> Diagnosis | None:
    """An optimizer was given an iterator that was used up, and some parameters are in none."""
    loose = seen.unheld
    if loose is None or not loose.emptied or seen.raised is not None:
        return None
    at = innermost_frame(loose.emptied)
    modules = quote_few(loose.modules)
    line = (
        "A group of the optimizer is empty: its iterator of parameters was gone through before"
        f"{say_where(at, 'the optimizer is built at')}."
    )
    return make_diagnosis(
        Cause.OTHER_PARAMETERS,
        loose.modules[0],
        at,
        line,
        f"No optimizer holds the parameters of {modules}, although they get a gradient.",
        led=loose.emptied,
        advice="Make a list of it where it is made: list(filter(...)), or list(model.parameters())."
        " An iterator can be gone through only once.",
    )


def given_twice(seen: Observation) -> Diagnosis | None:
    """Optimizers hold the same parameters twice, and what one of them should train is in none."""
    loose = seen.unheld
    if loose is None or not loose.same:
        return None
    at, other = loose.same[0], loose.same[-1]
    modules = quote_few(loose.modules)
    if len(loose.same) == 1:
        line = (
            "An optimizer holds the same parameters twice in one group"
            f"{say_where(at, 'it is built at')}. No optimizer holds those of {modules}, although"
            " they get a gradient, so they never change."
        )
        advice = f"Give it the parameters of {modules} in place of those that it was given twice."
        return make_diagnosis(
            Cause.OTHER_PARAMETERS, loose.modules[0], at, line, led=loose.same, advice=advice
        )
    return make_diagnosis(
        Cause.OTHER_PARAMETERS,
        loose.modules[0],
        at,
        f"Two optimizers hold the same parameters. No optimizer holds those of {modules}, although"
        " they get a gradient, so they never change.",
        f"The two optimizers are built at {format_frame(at)} and at {format_frame(other)}.",
        led=loose.same,
        user=other if other.user else None,
        advice=f"Give each optimizer the parameters that its own loss should train: one of the two"
        f" needs those of {modules}.",
    )


def missed(seen: Observation) -> Diagnosis | None:
    """A later optimizer holds nothing that gets a gradient."""
    if seen.missed is None or not seen.missed.modules:
        return None
    at = innermost_frame(seen.missed.frames)
    modules = ", ".join(f"`{name}`" for name in seen.missed.modules[:MOST_NAMES])
    line = (
        f"Nothing that {seen.missed.optimizer} holds got a gradient, but {modules} did, and no"
        f" optimizer moves that{say_where(at, 'it is built at')}."
    )
    advice = f"Give it the parameters of what should learn ({modules}), not of another model."
    return make_diagnosis(
        Cause.OTHER_PARAMETERS,
        seen.missed.modules[0],
        at,
        line,
        led=seen.missed.frames,
        advice=advice,
    )


def holds_a_copy(seen: Observation) -> Diagnosis | None:
    """The loss reaches none of what optimizers hold, but tensors of the same shapes."""
    held = [p for p in seen.parameters if p.held and not p.frozen]
    if seen.raised is not None or seen.anew or not held or any(best_step(p) != "n" for p in held):
        return None
    running = [p for p in seen.parameters if not p.held and "f" in p.gradients]
    reached = Counter([p.shape for p in running] or [leaf.shape for leaf in seen.leaves])
    alike, copied = "other tensors of the same shapes", "a copy of"
    if not reached or Counter(p.shape for p in held) - reached:
        if running or Counter(p.shape for p in held) != unstacked(seen.leaves):
            return None
        alike, copied = (
            "larger ones into which they were copied",
            "the tensors that were stacked into",
        )
    built = next((each for each in seen.optimizers if each.steps), None)
    if built is None or (running and cut_from_loss(seen, len(held))):
        return None
    kind, at = built.type, innermost_frame(built.frames)
    late = next((leaf for leaf in seen.leaves if leaf.late and leaf.frames), None)
    advice = (
        "Compute the loss with the model that the optimizer holds. If what runs should learn, build"
        " the optimizer from its parameters: one of the two is a copy (a deepcopy, an average)."
    )
    line = (
        f"The loss reaches none of the {counted(len(held), 'tensor')} that {kind} holds, but"
        f" {alike}{say_where(at, f'{kind} is built at')}."
    )
    led = built.frames
    if running and seen.unheld is not None and any(p.module is not None for p in held):
        led = seen.unheld.frames
        at = innermost_frame(led)
        more = f"What runs is `{module_of(running[0])}`{say_where(at, 'called at')}."
    elif late is not None and (cut := cut_copy(seen, late)) is not None:
        at = innermost_frame(cut.frames)
        more = begin(name_operation(cut.how))
        more += f" took what the loss uses out of the graph{say_where(at, 'at')}."
        advice = (
            f"If it is computed from the parameters, as fast weights are (weight - rate *"
            f" gradient), leave out {name_operation(cut.how)}: the loss must lead back through it."
            " If it is meant to be a copy, build the optimizer from the copy's parameters."
        )
        cause = Cause.GRAD_MODE_OFF if cut.how in SWITCHES else Cause.DETACHED
        return make_diagnosis(cause, None, at, line, more, led=cut.frames, advice=advice)
    elif late is not None:
        led, at = late.frames, innermost_frame(late.frames)
        given = f", in a call with {', '.join(late.arguments)}" if late.arguments else ""
        more = f"The loss uses a copy, made at {format_frame(at)}{given}."
        if late.how in HIDING:
            advice = FAST_WEIGHTS
        advice = advice_against(late.arguments) or advice
    else:
        more = f"The optimizer got {copied} what the loss uses."
        advice = (
            "Give the optimizer the same tensors that the loss uses. clone, deepcopy and"
            " stack_module_state make others."
        )
    return make_diagnosis(
        Cause.OTHER_PARAMETERS,
        module_of(running[0]) if running else None,
        at,
        line,
        more,
        led=led,
        advice=advice,
    )


def cut_from_loss(seen: Observation, held: int) -> bool:
    """Whether the script took the output of all that optimizers hold, ``held``, out of the graph.

    A teacher runs without gradients, or its output is detached by a library.
    """
    return any(
        event.parameters == held and event.frames[0].user
        for event in seen.severed
        if event.how not in (*NOT_SEVERED, *SWITCHES) and event.frames
    )


def unstacked(leaves: Sequence[Leaf]) -> Counter[tuple[int, ...]]:
    """The shapes of what is stacked in ``leaves`` along their first dimension, as vmap wants it."""
    shapes: Counter[tuple[int, ...]] = Counter()
    for leaf in leaves:
        if leaf.shape:
            shapes[leaf.shape[1:]] += leaf.shape[0]
    return shapes


def cut_copy(seen: Observation, copy: Leaf) -> Severed | None:
    """What took a tensor out of the graph, in the function that made a ``copy`` of it."""
    makers = {(frame.file, frame.function) for frame in copy.frames if frame.user}
    lines = {(frame.file, frame.line) for frame in copy.frames[:1]}
    for cut in seen.severed:
        at = innermost_frame(cut.frames)
        if at is None or cut.how in NOT_SEVERED:
            continue
        inside = at.function != "<module>" and (at.file, at.function) in makers
        if (at.file, at.line) in lines or (inside and cut.how in SWITCHES):
            return cut
    return None


def replaced(seen: Observation) -> Diagnosis | None:
    """An optimizer holds tensors that belong to no module any more, and not their replacements.

    A replacement that was itself replaced belongs to no module, either: its shape tells.
    """
    stale = [
        p
        for p in seen.parameters
        if p.learns and p.held and p.module is None and best_step(p) == "n"
    ]
    shapes = [p.shape for p in stale]
    loose = [
        p
        for p in seen.parameters
        if not p.held and best_step(p) in "fz" and (p.learns or p.shape in shapes)
    ]
    if seen.raised is not None or not loose or not (stale or seen.anew):
        return None
    return other_parameters(seen, loose)


def other_parameters(seen: Observation, loose: list[Parameter]) -> Diagnosis:
    """No optimizer holds the parameters ``loose``, which got a gradient."""
    if (twice := given_twice(seen)) is not None:
        return twice
    built = next((each for each in seen.optimizers if each.steps), None)
    at = innermost_frame(built.frames) if built is not None else None
    learning = sum(p.learns for p in seen.parameters)
    all_of_them = len(loose) == learning
    kind = built.type if built is not None else "An optimizer"
    if seen.anew:
        return explain_anew(seen, loose, f"{kind}{say_where(at, 'built at')}")
    frozen = [p for p in seen.parameters if p.held and p.frozen]
    if built is not None and not built.trainable and frozen:
        return all_frozen(built, frozen, loose)
    called = seen.unheld.frames if seen.unheld is not None else ()
    direct = built is not None and at is not None and at.user
    return make_diagnosis(
        Cause.OTHER_PARAMETERS,
        module_of(loose[0]),
        at,
        f"{kind} does not hold {'any' if all_of_them else len(loose)} of the {learning} parameter"
        f" tensors that should learn: {some_names(loose)}{say_where(at, 'it is built at')}.",
        "It holds those of another model, of a copy, or of the model before it was changed."
        if all_of_them
        else "They were left out, or were added to the model after the optimizer was built.",
        led=built.frames if built is not None else (),
        user=None if direct else users_frame(called),
        advice=how_to_hold(seen, loose, built, all_of_them=all_of_them),
    )


def all_frozen(built: Built, frozen: list[Parameter], loose: list[Parameter]) -> Diagnosis:
    """All parameters that the optimizer holds are frozen, and ``loose`` ones would learn."""
    at = innermost_frame(built.frames)
    held, active, advice = adapters_of(frozen), adapters_of(loose), ""
    if len(held) == 1 and all(ADAPTER.search(p.name) for p in frozen):
        (name,) = held
        advice = (
            f"PEFT freezes an adapter that is not active. Call set_adapter({name!r}) of"
            " the model before the optimizer is built: add_adapter does not do that."
        )
        if active and name not in active:
            advice = (
                f"PEFT freezes an adapter that is not active, and {min(active)!r} is active. Call"
                f" set_adapter({min(active)!r}) before the parameters are chosen for the optimizer;"
                f" or set_adapter({name!r}), if that one is to learn."
            )
    line = (
        f"All {counted(built.parameters, 'parameter')} that {built.type} holds are frozen:"
        f" {some_names(frozen)}{say_where(at, 'it is built at')}."
    )
    return make_diagnosis(
        Cause.FROZEN, module_of(frozen[0]), at, line, led=built.frames, advice=advice
    )


def how_to_hold(
    seen: Observation, loose: list[Parameter], built: Built | None, *, all_of_them: bool
) -> str:
    """How the optimizer gets the parameters ``loose``; empty for the advice of every such case."""
    owners = outermost(loose, seen)
    if built is not None and any(frame.file.startswith("pyro") for frame in built.frames):
        return (
            "Register the module in the model or guide: pyro.module(name, module)"
            f" ({quote_few(owners)})."
        )
    inactive = inactive_adapter(seen, loose)
    if inactive is not None:
        return (
            f"Call set_adapter({inactive!r}) of the model before the optimizer is built: the model"
            " runs with another adapter, and add_adapter does not change that."
        )
    if all_of_them:
        return ""
    inside = tuple(f"{owner}." for owner in owners)
    a_part = any(p.learns and p.held and p.name.startswith(inside) for p in seen.parameters)
    if a_part or any(p.name in owners for p in loose):
        what = quote_few(p.name for p in loose)
    else:
        what = f"the parameters of {quote_few(owners)}"
    return (
        f"Give the optimizer {what} too, as a further group; or build it after they were added"
        " to the model."
    )


def inactive_adapter(seen: Observation, loose: list[Parameter]) -> str | None:
    """The adapter of PEFT that an optimizer holds, if another one runs and is in none."""
    held = adapters_of(p for p in seen.parameters if p.held and best_step(p) == "n")
    return held.pop() if len(held) == 1 and adapters_of(loose) - held else None


def adapters_of(parameters: Iterable[Parameter]) -> set[str]:
    """The adapters of PEFT to which these parameters belong."""
    found = (ADAPTER.search(p.name) for p in parameters)
    return {each[1] for each in found if each is not None}


def explain_anew(seen: Observation, loose: list[Parameter], optimizer: str) -> Diagnosis:
    """The parameters that run were made or copied after the optimizer was built."""
    anew, held = seen.anew[0], Counter(p.shape for p in seen.parameters if p.held)
    shapes = Counter(p.shape for p in loose)
    copied = anew.how == "copied"
    many = copied and bool(held) and all(shapes[each] >= MANY_COPIES * held[each] for each in held)
    at = innermost_frame(anew.frames[-1:] if many else anew.frames)
    runs = seen.unheld.frames if seen.unheld is not None and copied else ()
    user = users_frame(runs)
    advice = ""
    if many:
        advice = (
            "What a copy learns is lost when the next one is made. In meta-learning, make the inner"
            " steps with values that stay in the graph (torch.func.functional_call, or the package"
            " higher); or add the gradients of each copy to those of the model before the"
            " optimizer's step."
        )
    elif copied:
        advice = (
            "Train the model that the optimizer holds, not a copy of it; or build the optimizer"
            " after the model's last change."
        )
    return make_diagnosis(
        Cause.OTHER_PARAMETERS,
        module_of(loose[0]),
        at,
        f"{some_names(loose)} {'were' if len(loose) > 1 else 'was'} {anew.how} after the optimizer"
        f" was built{say_where(at, 'at')}.",
        f"The optimizer does not hold them, but what was there before: {optimizer}.",
        *([f"What runs now is called at {format_frame(user)}."] if user is not None else []),
        led=anew.frames,
        user=user,
        advice=advice,
    )
