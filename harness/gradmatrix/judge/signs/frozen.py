"""What should learn is frozen: by a line, an adapter, or a condition that fits no name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradmatrix.core.model import Gradient
from gradmatrix.core.text import counted
from gradmatrix.judge.causes import Cause
from gradmatrix.judge.verdict import gradient_status
from gradmatrix.judge.wording import (
    MOST_NAMES,
    Diagnosis,
    begin,
    format_frame,
    innermost_frame,
    make_diagnosis,
    quote_few,
    say_where,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradmatrix.core.observation import Observation

OF_ADAPTER = re.compile(r"\.lora_\w+\.\w+$")
"""A module of a LoRA adapter of PEFT."""
DISABLED = (
    "This line belongs to PEFT. If your call disables adapters, use `with"
    " model.disable_adapter():`, which enables them again, or call enable_adapter_layers() after"
    " it. If it chooses another adapter, call set_adapter(...) with the one that should learn."
)
LEAVE_OUT = "leave the call out, or set requires_grad_(True) afterwards on what should learn."
UNFREEZE = (
    "set requires_grad_(True) on the part that should learn, or on the whole model:"
    " model.requires_grad_(True). If only a copy was meant (a teacher, a target), freeze"
    " copy.deepcopy(model)."
)
UNLOADED = (
    "Merge once, after training. If what was merged should be trained further, add a new adapter"
    " with get_peft_model, or call model.requires_grad_(True), and build the optimizer after that."
)
MERGED = "Call unmerge_adapter() of the model before training, or merge only after it."
SWITCHED_ON = (
    "Before this loss is computed, unfreeze what it should train: requires_grad_(True). A function"
    " that does that must set the flag that it gets, as in p.requires_grad_(flag):"
    " `flag and p.requires_grad` never unfreezes anything."
)


def unloaded(seen: Observation) -> Diagnosis | None:
    """The adapter was merged into the model, or removed, before the training."""
    if seen.unloaded is None:
        return None
    at = innermost_frame(seen.unloaded.frames)
    if seen.unloaded.text == "merge_adapter":
        line = (
            f"Nothing can learn: `merge_adapter` was called{say_where(at, 'at')}. Layers with a"
            " merged adapter do not use its parameters, and all others are frozen."
        )
        return make_diagnosis(Cause.FROZEN, None, at, line, advice=MERGED)
    count = sum(froze.parameters for froze in seen.frozen)
    line = (
        f"Nothing can learn: `{seen.unloaded.text}` took the adapter away{say_where(at, 'at')}. All"
        f" {count} parameter tensors of what is left were frozen when the adapter was added."
    )
    return make_diagnosis(Cause.FROZEN, None, at, line, advice=UNLOADED)


def unmatched(seen: Observation) -> Diagnosis | None:
    """The script chooses what should learn by a condition that fits no name."""
    found = seen.unmatched
    if found is None:
        return None
    at = innermost_frame(found.frames)
    count = sum(froze.parameters for froze in seen.frozen)
    names = " and ".join(f"`{name}`" for name in found.names)
    return make_diagnosis(
        Cause.FROZEN,
        None,
        at,
        f"Nothing can learn: all {count} parameter tensors of what ran are frozen.",
        f"What should learn is chosen by its name, with `{found.text}`{say_where(at, 'at')}, and no"
        f" name fits: there are names such as {names}.",
        advice="Change that condition so that it fits the names of what should learn: print them.",
    )


def nothing_learns(seen: Observation) -> Diagnosis | None:
    """No parameter of what ran requires a gradient."""
    if not seen.backward or not seen.frozen:
        return None
    if any(p.learns for p in seen.parameters) and not seen.all_frozen:
        return None
    if (held := holds_the_frozen(seen)) is not None:
        return held
    last = seen.frozen[-1]
    known = next((froze for froze in reversed(seen.frozen) if froze.frames), last)
    at = innermost_frame(known.frames)
    count = sum(froze.parameters for froze in seen.frozen)
    lines = [f"Nothing can learn: all {count} parameter tensors of what ran are frozen."]
    modules = ", ".join(f"`{name}`" for name in known.modules[:MOST_NAMES])
    more = " and others" if len(known.modules) > MOST_NAMES else ""
    if at is not None:
        lines.append(
            f"The last of them were frozen at {format_frame(at)}: parameters of {modules}{more}."
        )
    if known.arguments:
        lines.append(f"That call has {' and '.join(known.arguments)}, given or by default.")
    graph = any(call.requires_grad for call in seen.backward)
    if graph and seen.unheld is None and seen.raised is None:
        lines.append("The loss still has a graph: it ends at a tensor that is no parameter.")
    module = known.modules[0] if known.modules else None
    advice = advice_against(known.arguments)
    if not advice and at is not None and all(OF_ADAPTER.search(name) for name in known.modules):
        advice = DISABLED if at.file.startswith("peft") else ""
    if not advice and at is not None and not at.user:
        advice = f"`{at.function}` of the library froze it. " + (
            "Call untoggle_optimizer for it before the next toggle_optimizer."
            if at.function == "toggle_optimizer"
            else "If it prepares the model for an adapter, add the adapter afterwards:"
            f" get_peft_model, or a peft_config for the trainer. Otherwise {LEAVE_OUT}"
            if at.file.startswith("peft")
            else begin(LEAVE_OUT)
        )
    if not advice:
        advice = f"{'Before training' if at is None else 'After that line'}, {UNFREEZE}"
    return make_diagnosis(Cause.FROZEN, module, at, *lines, led=known.frames, advice=advice)


def frozen_since(seen: Observation) -> Diagnosis | None:
    """The loss has no graph; all got gradients before, and something of it is frozen now."""
    if seen.raised is None or not seen.backward or seen.backward[-1].requires_grad:
        return None
    if gradient_status(seen) is not Gradient.FLOWING:
        return None
    learned = {p.name.rpartition(".")[0] for p in seen.parameters if "f" in p.gradients}
    froze = next((f for f in seen.frozen[::-1] if f.frames and learned & {*f.modules}), None)
    if froze is None:
        return None
    at = innermost_frame(froze.frames)
    modules = quote_few(froze.modules)
    count = counted(froze.parameters, "parameter")
    before = f"{modules} got gradients before, but the loss of this step has no graph."
    meanwhile = f"Meanwhile {count} of what ran became frozen{say_where(at, 'at')}."
    return make_diagnosis(
        Cause.FROZEN, froze.modules[0], at, before, meanwhile, led=froze.frames, advice=SWITCHED_ON
    )


def holds_the_frozen(seen: Observation) -> Diagnosis | None:
    """All that optimizers hold is frozen, and the loss trains parameters that are in none."""
    loose, stepped = seen.unheld, [built for built in seen.optimizers if built.steps]
    if loose is None or not loose.rests or not stepped or seen.raised is not None:
        return None
    if any(built.trainable for built in stepped):
        return None
    at = innermost_frame(stepped[0].frames)
    modules = quote_few(loose.modules)
    line = (
        f"All {counted(stepped[0].parameters, 'parameter')} that {stepped[0].type} holds are"
        f" frozen{say_where(at, 'it is built at')}."
    )
    more = [f"The loss trains {modules}, and no optimizer holds the parameters of that."]
    if len(loose.copied) == 1 and loose.parameters == stepped[0].parameters:
        copied = format_frame(loose.copied[0])
        more.append(f"One of the two models is a copy of the other, made at {copied}.")
    return make_diagnosis(
        Cause.OTHER_PARAMETERS,
        loose.modules[0],
        at,
        line,
        *more,
        led=stepped[0].frames,
        advice="Give the optimizer the parameters of the model whose output is in the loss.",
    )


def advice_against(arguments: Sequence[str]) -> str:
    """The arguments that leave parameters trainable, in place of ``arguments``."""
    opposite = {"True": "False", "False": "True"}
    pairs = [argument.partition("=") for argument in arguments]
    turned = [f"{name}={opposite.get(value, value)}" for name, _, value in pairs]
    return f"Pass {' or '.join(turned)} in that call." if turned else ""


def adapted(seen: Observation) -> Diagnosis | None:
    """An adapter froze a head that was made for the task, because it was told of another task."""
    found = seen.adapted
    if found is None:
        return None
    at = innermost_frame(found.frames)
    line = (
        f"`{found.module}`, the head of {found.model}, is frozen: the adapter's task_type is"
        f" {found.task}{say_where(at, 'it was frozen at')}."
    )
    return make_diagnosis(
        Cause.FROZEN,
        found.module,
        at,
        line,
        led=found.frames,
        advice=f"Give the adapter's configuration task_type={found.wanted!r}, or name the head in"
        " modules_to_save: then it is trained and saved too.",
    )


def shared(seen: Observation) -> Diagnosis | None:
    """A copy that is none was frozen, and so was what is trained."""
    found = seen.shared
    if found is None:
        return None
    at = innermost_frame(found.frames)
    first, second = found.names
    line = (
        f"`{first}` and `{second}` are one and the same module, and it was frozen"
        f"{say_where(at, 'at')}."
    )
    return make_diagnosis(
        Cause.FROZEN,
        found.module,
        at,
        line,
        led=found.frames,
        advice="If one should be frozen and the other trained, make a copy: copy.deepcopy(module).",
    )
