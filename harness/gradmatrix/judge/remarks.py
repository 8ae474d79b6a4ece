"""What is true of a script and no fault: it becomes a remark, and is left out of the verdict.

A cell of the matrix has a contract: every parameter that an optimizer holds, or that was trained,
must learn. Nobody promised that of a script that is traced. There it is a fault if the loss uses a
parameter and the gradient does not reach it, or if a parameter gets a gradient and does not change.
This module is the only place where the two differ.

A remark is only made beside something that learns. Each rule says which fault it must not hide.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gradmatrix.core.outcomes import NONFINITE_LOSS, TRAINS, UNSEEN, Outcome
from gradmatrix.core.text import counted
from gradmatrix.judge.verdict import Verdict, best_step, judge_observation
from gradmatrix.judge.wording import MOST_NAMES, quote_few, users_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gradmatrix.core.observation import (
        Built,
        ConstantPart,
        Faded,
        Froze,
        FrozenBeside,
        Observation,
        Parameter,
    )

    Rule = Callable[[Parameter, Observation], bool]

ADAPTER = re.compile(r"\.lora_\w+\.(\w+)(?:\.weight)?$")
"""A parameter of a LoRA adapter of PEFT, and the adapter's name."""
PARAMETRIZED = ".parametrizations"
"""Torch keeps what a parametrization computes a weight from in a module of this name."""
COMPARED = 2
"""A value is compared if the gradient was asked for so often."""
ROUNDED = 1e-6
"""A part of a number in single precision that may come from rounding."""
REMADE = 2
"""A parameter that was made anew so often is made anew in each step."""
SEARCHED = 3
"""A module that ran with other values so often is searched for good ones; weights that are loaded
change once."""


def judge_script(seen: Observation) -> Verdict:
    """The verdict on a script without a contract; ``seen`` is what :func:`split` left."""
    if seen.raised is not None or seen.steps or seen.optimizers:
        return judge_observation(seen)
    if not seen.requests and seen.nonfinite is not None and seen.nonfinite.where == "value":
        what = f"the parameters of {seen.nonfinite.module or 'a module'} became NaN or infinite"
        return Verdict(Outcome(NONFINITE_LOSS), None, what)
    if not seen.requests and seen.updates >= SEARCHED:
        what = (
            "The script never calls backward, so there are no gradients to check. Its parameters"
            " change all the same, as in a search (evolution strategies) or with forward-mode"
            " derivatives."
        )
        return Verdict(Outcome(TRAINS), None, what)
    if not seen.requests:
        what = "No gradient was asked for, and no optimizer was built: nothing can be judged."
        return Verdict(Outcome(UNSEEN), None, what)
    once = all(len(p.gradients) < COMPARED for p in seen.parameters)
    flat = seen.parameters and all(best_step(p) == "z" for p in seen.parameters if p.learns)
    if not seen.updates and once and not flat:
        what = "No gradient was asked for twice: whether values change cannot be judged."
        return Verdict(Outcome(UNSEEN), None, what)
    return judge_observation(seen)


def split(seen: Observation) -> tuple[Observation, tuple[str, ...]]:
    """The observation without what is harmless, and a sentence for each harmless fact."""
    ineffective = [
        f"`{each.text}` at {each.frames[0].file}:{each.frames[0].line} has no effect: set"
        " `requires_grad` of each parameter, or call `requires_grad_(...)` of the module"
        for each in seen.ineffective
    ]
    if seen.raised is not None:
        return seen, tuple(ineffective)
    learning = [p for p in seen.parameters if p.learns]
    well = [p for p in learning if best_step(p) == "f" and p.changed]
    excused: dict[str, list[Parameter]] = {}
    if well:
        for parameter in learning:
            why = next((why for why, rule in RULES.items() if rule(parameter, seen)), None)
            if why is not None:
                excused.setdefault(why, []).append(parameter)
    if ASLEEP in excused:
        names = {p.name for group in excused.values() for p in group}
        at_fault = {p.module for p in learning if best_step(p) == "n" and p.name not in names}
        alone = [p for p in excused.pop(ASLEEP) if around(p) not in at_fault]
        excused = {ASLEEP: alone, **excused} if alone else excused
    missed = [why for why in (UNUSED, HIDDEN) if why in excused]
    if sum(len(excused[why]) for why in missed) > len(well):  # the loss misses most of what ran
        for why in missed:
            del excused[why]
    names = {p.name for group in excused.values() for p in group}
    kept = tuple(replace(p, learns=False) if p.name in names else p for p in seen.parameters)
    unread = [p for p in seen.parameters if p.unread]
    remarks = [say(why, group) for why, group in excused.items()]
    read = next((e for e in seen.severed if e.how in READINGS and e.frames), None)
    if UNUSED in excused and read is not None:
        at = f"{read.frames[0].file}:{read.frames[0].line}"
        last = list(excused).index(UNUSED)
        by = name_operation(read.how)
        remarks[last] += f"; what was computed of it is only read, by {by} at {at}"
    remarks += [
        f"{quote_few(each.names)}: the gradient was exactly zero"
        f" whenever it was looked at in the last {counted(each.steps, 'step')} of"
        f" {each.optimizer}, and not at first; a layer may have died"
        for each in seen.dead
        if (seen.faded is None or seen.faded.how != "zero") and not cancelled(each, excused)
    ]
    remarks += [say_without_grad(each) for each in seen.parts_without_grad]
    remarks += say_still(seen)
    remarks += [say_for_inference(each) for each in seen.for_inference if well]
    remarks += [say_frozen_beside(each) for each in seen.frozen_beside if well]
    remarks += ineffective
    remarks += [
        NOTICED[each.how].format(each.text, f"{at.file}:{at.line}")
        for each in seen.noticed
        for at in each.frames[:1]
        if (well or each.how != "clip") and not (each.how == "constant" and seen.constant_parts)
    ]
    if unread:
        remarks.append(say("could not be read, and is not judged", unread))
    return (replace(seen, parameters=kept) if names else seen), tuple(remarks)


def cancelled(dead: Faded, excused: Mapping[str, Sequence[Parameter]]) -> bool:
    """Whether a remark already says of all these parameters that their gradient cancels."""
    names = [p.name for why in (CANCELS, ROUNDED_OFF) for p in excused.get(why, ())]
    return all(any(f".{name}".endswith(f".{each}") for name in names) for each in dead.names)


def say(why: str, parameters: Sequence[Parameter]) -> str:
    """A sentence about some parameters: their names, or those of their modules if they are many."""
    if why == ASLEEP:
        why += to_activate(parameters)
    if len(parameters) <= MOST_NAMES:
        return f"{quote_few([p.name for p in parameters])}: {why}"
    owners = list(dict.fromkeys(p.module or p.name for p in parameters))
    return f"{quote_few(owners)} ({counted(len(parameters), 'parameter tensor')}): {why}"


def to_activate(parameters: Sequence[Parameter]) -> str:
    """How to run the adapter of PEFT that all of the parameters belong to, if they do."""
    names = {found and found[1] for found in (ADAPTER.search(p.name) for p in parameters)}
    name = names.pop() if len(names) == 1 else None
    if not name:
        return ""
    return (
        f". To train this adapter, call set_adapter({name!r}) of the model, or unmerge_adapter() if"
        " it was merged"
    )


def say_still(seen: Observation) -> list[str]:
    """A sentence about a loss that never changes, with gradients that are rounding errors."""
    losses = [loss for loss in (*seen.losses, seen.last_loss) if isinstance(loss, float)]
    norms = [norm for norm in seen.gradient_norms if isinstance(norm, float)]
    if len(losses) <= COMPARED or not norms:
        return []
    most = ROUNDED * abs(losses[0])
    if max(losses) - min(losses) > most or not 0 < max(norms) < most:
        return []
    sentence = (
        f"the loss stayed at {losses[0]:.4g}, and the norm of its gradient was at most"
        f" {max(norms):.1g}: these are rounding errors, of which an optimizer such as Adam still"
        " makes updates. What the loss compares may be equal, such as preferred and rejected"
        " answers"
    )
    return [sentence]


def say_without_grad(part: ConstantPart) -> str:
    """A sentence about a part of the loss that was computed while gradients were off."""
    at, made = part.added[0], part.frames[0]
    return (
        f"a part of the loss, added at {at.file}:{at.line}, is computed under {part.how} at"
        f" {made.file}:{made.line}: it changes the value of the loss and trains nothing. If it"
        " should train something, compute it with gradients on"
    )


def say_for_inference(froze: Froze) -> str:
    """A sentence about an adapter that is frozen, perhaps on purpose."""
    at = froze.frames[0] if froze.frames else None
    where = f" at {at.file}:{at.line}" if at is not None else ""
    if not froze.arguments:
        return (
            f"`{froze.modules[0]}`: the script freezes its adapter{where}"
            f" ({counted(froze.parameters, 'parameter')}). To train the adapter, leave it out there"
        )
    name, _, value = froze.arguments[0].partition("=")
    other = "False" if value == "True" else "True"
    return (
        f"`{froze.modules[0]}`: its adapter is frozen, because PEFT made it{where} with"
        f" {name}={value}{'' if value == 'True' else ', the default'}. To train the adapter, pass"
        f" {name}={other}"
    )


def say_frozen_beside(froze: FrozenBeside) -> str:
    """A sentence about something that is frozen beside what learns."""
    at = users_frame(froze.frames)
    where = f" at {at.file}:{at.line}" if at is not None else ""
    name = f"`{froze.modules[0]}`"
    if froze.kind == "layer":
        return (
            f"{name}: get_peft_model froze this layer of the script's own class{where}."
            " If it should learn too, name it in modules_to_save of the adapter's configuration"
        )
    if froze.kind == "tokens":
        return (
            f"{name}: the script resized these embeddings{where}, and get_peft_model froze them. If"
            " tokens were added, these keep random embeddings: name the embeddings and the lm_head"
            " in modules_to_save of the adapter's configuration, or give it trainable_token_indices"
        )
    return (
        f"only layers of normalisation learn: {counted(froze.parameters, 'parameter')} of the"
        f" rest, {name} first, are frozen{where}"
    )


def asleep(parameter: Parameter, seen: Observation) -> bool:
    """An expert that no input reached, a layer that this phase does without.

    Not the old layer that the optimizer still holds: no module has it. If one still has it, the new
    layer is not held and does not change.
    """
    del seen
    return parameter.ran in {"not", "empty"} and best_step(parameter) in "nz"


def around(parameter: Parameter) -> str | None:
    """The module around that of a parameter; MultiheadAttention uses weights without a call."""
    return None if parameter.module is None else parameter.module.rpartition(".")[0]


def nobodys(parameter: Parameter, seen: Observation) -> bool:
    """A target network or a teacher: no optimizer holds it, and the loss does not reach it.

    Not a layer that was left out: that one gets a gradient. Not what a script updates by hand.
    """
    return bool(seen.steps) and not parameter.held and best_step(parameter) == "n"


def follows(parameter: Parameter, seen: Observation) -> bool:
    """A target network that is held: it runs without gradients, and its values are copied.

    Not a layer under no_grad by mistake: nothing else changes its values.
    """
    if parameter.ran != "without-grad" or best_step(parameter) != "n":
        return False
    copied = [p for p in seen.parameters if p.ran == "without-grad" and (p.moved or p.changed)]
    learning = [p for p in seen.parameters if best_step(p) == "f"]
    return nearest(parameter, copied) > nearest(parameter, learning)


def nearest(parameter: Parameter, others: Sequence[Parameter]) -> int:
    """How many modules at most contain both ``parameter`` and one of the ``others``; -1 if none."""
    path = parameter.name.split(".")
    shared = (zip(path, other.name.split("."), strict=False) for other in others)
    return max((sum(1 for _ in takewhile(same, pairs)) for pairs in shared), default=-1)


def same(pair: tuple[str, str]) -> bool:
    """Whether both names are the same."""
    return pair[0] == pair[1]


def are_of_a_layer(one: Parameter, other: Parameter) -> bool:
    """Whether both are parameters of one layer, also if a parametrization computes one of them."""
    first, second = ((each.module or "").partition(PARAMETRIZED)[0] for each in (one, other))
    return one.module is not None and other.module is not None and first == second


def cancels(parameter: Parameter, seen: Observation) -> bool:
    """A gradient that is exactly zero while another one of its layer is not.

    The bias of a critic cancels (WGAN-GP); an LSTM without inputs still has its hidden state. Not a
    parameter that a hook silences. Not a dead layer, nor a layer whose input is all zeros.
    """
    hooked = any(hook.parameter in {parameter.name, ""} for hook in seen.hooks)
    beside = [p for p in seen.parameters if are_of_a_layer(p, parameter) and best_step(p) == "f"]
    as_large = any(min(2, len(p.shape)) >= min(2, len(parameter.shape)) for p in beside)
    return best_step(parameter) == "z" and as_large and not hooked


def rounded(parameter: Parameter, seen: Observation) -> bool:
    """A bias that a normalisation or a softmax cancels: its gradient is what rounding leaves of 0.

    Not in half precision, in which larger steps are lost. Not a bias with a rate of its own.
    """
    return (
        best_step(parameter) == "f"
        and not parameter.changed
        and parameter.dtype in {"float32", "float64"}
        and len(parameter.shape) <= 1
        and not any(hook.parameter in {parameter.name, ""} for hook in seen.hooks)
        and any(
            are_of_a_layer(p, parameter)
            and p.changed
            and best_step(p) == "f"
            and p.learning_rate == parameter.learning_rate
            for p in seen.parameters
        )
    )


def idle(parameter: Parameter, seen: Observation) -> bool:
    """A head or a pooler whose output the loss does not use.

    Not if an operation was seen that cuts the graph, nor if the next module should have used it.
    Nor if an optimizer holds it and the script gives its output a name that it never reads, or if
    that optimizer steps for nothing. A value that was read and not added to the loss is logged.
    """
    ways = {event.how for event in seen.severed} - {"unknown"}
    if ways & READINGS and not seen.constant_parts:
        ways -= READINGS | SHAPES
    cut = bool(ways or seen.leaves or seen.none_returned)
    cut = cut or any(f"{parameter.name}.".startswith(f"{lost.within}.") for lost in seen.lost)
    return best_step(parameter) == "n" and not (
        (seen.discarded and parameter.held)
        or cut
        or steps_for_nothing(parameter, seen) is not None
        or parameter.forgotten
        or parameter.module is None
        or parameter.ran == "without-grad"
    )


def steps_for_nothing(parameter: Parameter, seen: Observation) -> Built | None:
    """The one of several optimizers that made steps while nothing that it holds got a gradient.

    It is known by what the model of the parameter has, and by how much the optimizer holds.
    """
    root = parameter.name.split(".")[0]
    own = [p for p in seen.parameters if p.held and p.name.split(".")[0] == root]
    if len(seen.optimizers) == 1 or any(best_step(p) != "n" for p in own):
        return None
    return next((b for b in seen.optimizers if b.steps and b.parameters == len(own)), None)


def remade(parameter: Parameter, seen: Observation) -> bool:
    """What the script makes anew in each step: the optimizer still holds the first tensor.

    Not a layer that was replaced once after the optimizer was built: the new one gets a gradient.
    """
    anew = [p for p in seen.parameters if not p.held and p.module is None and best_step(p) == "n"]
    alike = sum(p.shape == parameter.shape for p in anew)
    none = best_step(parameter) == "n" and parameter.module is None and parameter.held
    return none and alike >= REMADE


def hidden(parameter: Parameter, seen: Observation) -> bool:
    """The same in compiled code: whether its module ran was not seen."""
    return parameter.ran is None and idle(parameter, seen)


def name_operation(how: str) -> str:
    """An operation as the user wrote it; Python calls some by names that nobody writes."""
    return WRITTEN.get(how, f"`{how}`")


NOTICED = {
    "cross_entropy": "cross_entropy at {1} gets the output of a softmax, and takes a log-softmax of"
    " it once more, so its gradients are small. Give it the values before the softmax",
    "nll_loss": "nll_loss at {1} gets the output of a softmax, but wants logarithms: give it the"
    " output of log_softmax, or use cross_entropy with the values before the softmax",
    "kl_div": "kl_div at {1} gets the output of a softmax, but wants logarithms of probabilities as"
    " its first argument: give it the output of log_softmax",
    "binary_cross_entropy_with_logits": "binary_cross_entropy_with_logits (BCEWithLogitsLoss) at"
    " {1} gets the output of a sigmoid, and takes a sigmoid of it once more, so its gradients are"
    " small. Give it the values before the sigmoid",
    "classes": "{0} at {1} gets a log_softmax over another dimension than that of the classes,"
    " such as over the batch. Use dim=1; of what is flattened afterwards, dim=-1",
    "minimised": "the loss is a log-probability, computed at {1}: each step makes it smaller, so"
    " the data become less likely. Put a minus before it",
    "norm": "{0} normalises each value alone, run at {1}: its output does not depend on its input,"
    " so what comes before it cannot learn. Normalise over several values",
    "range": "{0} at {1} are not, so it can never reach them. Leave this last operation out, or"
    " bring the targets into its range",
    "constant": "nothing that {0} gets at {1} has a graph, and what it gives is added to the loss:"
    " this part trains nothing. Check which tensors it gets",
    "own": "load_state_dict at {1} gets the module's own values, and changes nothing: state_dict()"
    " gives references. Is it the same module under two names, or a state of an earlier time? For a"
    " copy, use copy.deepcopy",
    "state": "load_state_dict(strict=False) at {1} loaded nothing: none of the {0} keys is a name"
    " in the module. Compare them: a wrapper such as DataParallel adds a prefix",
    "rate": "`{0} = …` at {1} has no effect: an optimizer reads the learning rate of its groups."
    ' Set group["lr"] for each group in optimizer.param_groups',
    "clip": "clipping at {1} never found a new gradient, so it limits nothing. Call it between"
    " backward and the optimizer's step",
    "shifted": "the labels that {0} gets at {1} are already those of the next token. Its forward"
    " shifts them once more, so it learns the token after the next: give it labels that are equal"
    " to input_ids",
    "end": "every end token that {0} got at {1} is left out of the loss, so the model does not"
    " learn to stop. If a collator ignores the token that pads, pad with another one than the end"
    " token",
    "cleared": "the gradients of {0} backward passes before a step are cleared before an optimizer"
    " uses them, at {1}. To accumulate gradients, clear them only after a step",
    "compared": "{0} at {1}, so it compares each prediction with each target, and the model learns"
    " one value for all. Give both the same shape, such as with squeeze(-1) or unsqueeze(-1)",
    "mode": "from step {0} on at the latest, the model was trained in evaluation mode: eval() at"
    " {1} was not undone. Call train() before training goes on",
    "low": "the scheduler that was set at {1} kept the learning rate below 1 % of the optimizer's"
    " own, at about {0}: the run ended before its warm-up did, or its factors are too small",
    "weak": "in the last {0} steps the learning rate was below 1/1000 of its highest, by the"
    " scheduler that was set at {1}. Does it count epochs, while it is stepped for each batch?",
    "doubled": "the {0} that was built at {1} changes an optimizer that another one changes as"
    " often, while another optimizer has no scheduler. Give each scheduler its own optimizer",
    "plateau_min": 'the value that ReduceLROnPlateau at {1} gets (mode="min") rose {0}. If higher'
    ' is better, use mode="max"',
    "plateau_max": 'the value that ReduceLROnPlateau at {1} gets (mode="max") fell {0}. If it is a'
    ' loss, use mode="min"',
    "pulled": "after each step, parameters are moved back towards their first values, by {0} of the"
    " way, at {1}. If that line should update an average or a target network, the two are"
    " exchanged: it changes the model instead",
    "decay": "{0}, built at {1}, adds a multiple of each weight to its gradient, and so pulls all"
    " weights to 0. Values from 1e-4 to 0.1 are common",
}
"""What a call did not do, with its text and its line."""
WRITTEN = {
    "__float__": "a conversion to a Python number",
    # Python may call the mirrored one of what was written.
    **dict.fromkeys(("__gt__", "__lt__", "__ge__", "__le__"), "a comparison"),
}
READINGS = {"item", "__float__"}
"""What reads one number, often to print it."""
SHAPES = {"zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like"}
"""What takes only the shape of a tensor."""
ASLEEP = "its module was not called, or got an empty input, in the steps that were checked"
UNUSED = "the loss does not use its output"
CANCELS = "its gradient is exactly zero, but the rest of its layer gets one"
ROUNDED_OFF = "its gradient is 0 up to rounding, but the rest of its layer learns"
HIDDEN = "it gets no gradient, and how it runs was not seen; a run without torch.compile shows it"
RULES: dict[str, Rule] = {
    ASLEEP: asleep,
    "no optimizer holds it, and the loss does not use it": nobodys,
    "runs without gradients, and its values are copied from elsewhere": follows,
    CANCELS: cancels,
    ROUNDED_OFF: rounded,
    "the script makes it anew in each step, and no gradient reaches it": remade,
    HIDDEN: hidden,
    UNUSED: idle,
}
"""Why a parameter that does not learn is no fault: what is said, and when."""
