"""The causes of a diagnosis, one row each, and what to do about them."""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from gradmatrix.core.model import Cell, Role
from gradmatrix.core.observation import Frozen
from gradmatrix.core.outcomes import TRAINS, row_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from gradmatrix.core.model import Scenario
    from gradmatrix.judge.wording import Diagnosis


class Cause(StrEnum):
    """Why something that should learn does not: its word, what it means, what to do about it.

    The advice is for causes that are mistakes in a script. Where it is empty, the cause depends on
    versions, and only a variant that was seen to train can help. The answer pages show a reader the
    situation and, as code, what mends it.
    """

    _value_: str
    meaning: str
    advice: str
    situation: str
    """When readers meet it, in their words; empty if there are too many situations."""
    mend: str
    """The few lines of code that mend it; empty if that depends on more."""

    def __new__(
        cls, word: str, meaning: str, advice: str = "", situation: str = "", mend: str = ""
    ) -> Self:
        """A word with its row."""
        cause = str.__new__(cls, word)
        cause._value_, cause.meaning, cause.advice = word, meaning, advice
        cause.situation, cause.mend = situation, mend
        return cause

    CLOSURE = (
        "closure-without-grad",
        "The optimizer's step runs its closure without gradients.",
        "Run the closure under torch.enable_grad(), or step without one.",
        (
            "An optimizer whose step runs a closure without gradients: Adafactor or AdamW of "
            "Transformers under Lightning, or in a loop of your own."
        ),
        (
            "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)  # an optimizer of torch\n"
            "\n"
            "@torch.enable_grad()  # or, with any optimizer, in a loop of your own\n"
            "def closure():\n"
            "    optimizer.zero_grad()\n"
            "    loss = model(**batch).loss\n"
            "    loss.backward()\n"
            "    return loss"
        ),
    )
    GRAD_MODE_OFF = (
        "grad-mode-off",
        "The model or the loss ran while gradients were switched off.",
        "Move what is trained out of the part without gradients.",
        (
            "What should be trained runs under `torch.no_grad()`, or after "
            "`torch.set_grad_enabled(False)`."
        ),
        (
            "with torch.no_grad():\n"
            "    target = teacher(batch)  # only what is not trained\n"
            "loss = criterion(model(batch), target)  # outside of it"
        ),
    )
    INFERENCE_MODE = (
        "inference-mode",
        "The model or the loss ran in inference mode.",
        "Leave inference mode out where something is trained: its tensors cannot be trained.",
        "The model or its input comes out of `torch.inference_mode()`.",
        (
            "with torch.no_grad():  # in place of torch.inference_mode()\n"
            "    features = backbone(batch)\n"
            "loss = criterion(head(features), labels)"
        ),
    )
    AUTOCAST_CACHE = (
        "autocast-cache",
        "Autocast's weight cache held copies that a pass without gradients had made.",
        "Call torch.clear_autocast_cache() after the pass without gradients.",
        (
            "Mixed precision, and a part of the step runs under `torch.no_grad()` before the "
            "part that is trained."
        ),
        (
            "with torch.no_grad():\n"
            "    fake = generator(noise)\n"
            "torch.clear_autocast_cache()  # forgets the copies that were made without gradients\n"
            "loss = criterion(generator(noise), real)"
        ),
    )
    CHECKPOINT_INPUTS = (
        "checkpoint-inputs",
        "Layers run in a reentrant checkpoint, and their inputs need no gradient.",
        (
            "Checkpoint with use_reentrant=False. Or let the input of the checkpoint require a"
            " gradient: x.requires_grad_(), or model.enable_input_require_grads() of Transformers."
        ),
        "LoRA, or frozen embeddings, with gradient checkpointing.",
        (
            "model.enable_input_require_grads()  # before get_peft_model(model, ...)\n"
            "\n"
            "# or, with a Trainer\n"
            "args = TrainingArguments(\n"
            "    gradient_checkpointing=True,\n"
            '    gradient_checkpointing_kwargs={"use_reentrant": False},\n'
            ")"
        ),
    )
    DETACHED = (
        "detached",
        "A tensor left the graph before the loss.",
        "Keep it a tensor of the graph up to the loss; detach only what is logged.",
        (
            "Something takes a tensor out of the graph before the loss: `.detach()`, "
            "`.item()`, `.numpy()`, `argmax`, or a cast to whole numbers."
        ),
        (
            "loss = criterion(model(batch), labels)  # the output itself\n"
            "print(loss.detach())  # only what is logged"
        ),
    )
    NOT_DETACHED = (
        "not-detached",
        "A loss trains a part of the model that it should only use as a value.",
        "Detach what is only a value in that loss.",
        "The advantage of a policy's loss is not detached, so that loss trains the critic too.",
        (
            "advantage = returns - values\n"
            "policy_loss = -(log_probs * advantage.detach()).mean()  # trains the policy alone\n"
            "value_loss = advantage.pow(2).mean()"
        ),
    )
    FUNCTION_RETURNED_NONE = (
        "function-returned-none",
        "The backward of a torch.autograd.Function returned None for an input that needs one.",
        "Return one gradient for each input of forward; None only for inputs that need none.",
        ("A `torch.autograd.Function` of your own, or of a kernel, returns None in its backward."),
        (
            "@staticmethod\n"
            "def backward(ctx, grad_output):\n"
            "    (weight,) = ctx.saved_tensors\n"
            "    return grad_output @ weight, None  # one value for each input of forward\n"
            "    # None only for an input that needs no gradient"
        ),
    )
    LABELS_IGNORED = (
        "labels-ignored",
        "Every label is the one that the loss ignores.",
        (
            "Keep real labels where the loss is meant to count; only padding and prompts get"
            " the label that is ignored (-100). Check the data, its masking, and truncation."
        ),
        ("Every label is -100: the masking or the truncation of the data left nothing to learn."),
        ('for batch in loader:\n    assert (batch["labels"] != -100).any(), "no label is left"'),
    )
    REBUILT = (
        "rebuilt",
        "The graph of the loss ends in a new tensor that was made of values.",
        "Return the loss that the model gave. Scale it or add to it, but do not make a new tensor.",
        (
            "The loss is wrapped anew, such as `torch.tensor(loss, requires_grad=True)`: the "
            "error is gone, and nothing trains."
        ),
        (
            "loss = model(**batch).loss  # not torch.tensor(loss.item(), requires_grad=True)\n"
            "loss.backward()"
        ),
    )
    FROZEN = (
        "frozen",
        "Nothing that ran requires a gradient.",
        "Keep requires_grad=True for what should learn.",
        "Everything is frozen: no parameter that runs has `requires_grad`.",
        (
            "model.requires_grad_(True)\n"
            "print(sum(p.requires_grad for p in model.parameters()))  # must not be 0"
        ),
    )
    DROPPED = (
        "dropped",
        "The gradient was there and was cleared before the step.",
        "Call zero_grad after the step or before the forward pass, not between backward and step.",
        "The gradients are cleared between backward and the optimizer's step.",
        ("optimizer.zero_grad()\nloss.backward()\noptimizer.step()"),
    )
    OTHER_PARAMETERS = (
        "other-parameters",
        "The optimizer holds other parameters than those of the modules that ran.",
        (
            "Build the optimizer from the parameters of the model that the loss is computed with,"
            " after that model's last change."
        ),
        (
            "The optimizer was built from another model: before LoRA, before a copy, or "
            "before the model was wrapped."
        ),
        (
            "model = get_peft_model(model, config)  # every change of the model first\n"
            "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)"
        ),
    )
    NOT_REGISTERED = (
        "not-registered",
        "A module or a parameter is in a plain attribute, so parameters() does not have it.",
        (
            "Register it as nn.ModuleList, nn.ModuleDict, nn.ParameterList or nn.Parameter,"
            " before the optimizer is built."
        ),
        (
            "Layers or parameters are kept in a plain list or dictionary, so `parameters()` "
            "does not have them."
        ),
        (
            "self.layers = nn.ModuleList(layers)  # not a plain list\n"
            "self.scale = nn.Parameter(torch.ones(1))  # not a plain tensor"
        ),
    )
    NEVER_ZEROED = (
        "never-zeroed",
        "Nothing clears the gradients: every backward pass adds to those of all steps before.",
        "Call optimizer.zero_grad() once for each step, before backward.",
        "Nothing calls `zero_grad`: the gradients of all steps add up.",
        ("optimizer.zero_grad()\nloss.backward()\noptimizer.step()"),
    )
    RANKS_DIFFER = (
        "ranks-differ",
        "The parameters of the ranks drift apart: their gradients are not averaged.",
        (
            "Wrap the model in DistributedDataParallel and call the wrapper, or all_reduce the"
            " gradients before each step."
        ),
        ("Several GPUs, and each of them trains a model of its own: the wrapper is passed by."),
        (
            "model = DistributedDataParallel(model)\n"
            "loss = criterion(model(batch), labels)  # the wrapper, not model.module"
        ),
    )
    NOT_TRAINED = (
        "not-trained",
        "Nothing was trained, or not in a way that is watched.",
        (
            "Build an optimizer of the model's parameters, and call backward and its step; an"
            " update by hand must change the same tensors in place, under torch.no_grad()."
        ),
        "The script never calls backward, or never makes a step.",
        ("loss.backward()\noptimizer.step()"),
    )
    NOT_CALLED = (
        "not-called",
        "A method is named but not called: the parentheses are missing.",
        "Add the parentheses: a method without them is not called.",
        "Parentheses are missing: `optimizer.step` does nothing, `optimizer.step()` does.",
        ("loss.backward()\noptimizer.step()\noptimizer.zero_grad()"),
    )
    STEPS_SKIPPED = (
        "steps-skipped",
        "GradScaler skipped every step, because gradients were NaN or infinite.",
        (
            "Find out why the gradients are not finite: start with a lower init_scale, unscale"
            " and clip the gradients, and check the loss for float16 overflow."
        ),
        (
            "float16 with a GradScaler, and every step is skipped because gradients are NaN "
            "or infinite."
        ),
        (
            'scaler = torch.amp.GradScaler("cuda", init_scale=1024)\n'
            "scaler.scale(loss).backward()\n"
            "scaler.unscale_(optimizer)\n"
            "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
            "scaler.step(optimizer)\n"
            "scaler.update()"
        ),
    )
    NEVER_STEPPED = (
        "never-stepped",
        "Backward ran, but an optimizer never stepped, or its step changed nothing.",
        "Call step of every optimizer after backward.",
        (
            "Backward runs, but an optimizer never steps: an unmet condition, or too few "
            "batches for its accumulation."
        ),
        ("loss.backward()\noptimizer.step()  # for every optimizer"),
    )
    LEARNING_RATE = (
        "learning-rate",
        "The learning rate was 0.",
        "Set a learning rate above 0, and check how a scheduler changes it.",
        (
            "The learning rate is 0: a scheduler or a warm-up begins there, or a loaded state "
            "brings it back."
        ),
        ('for group in optimizer.param_groups:\n    print(group["lr"])  # must not be 0'),
    )
    ROUNDING = (
        "rounding",
        "The steps were too small for the type of the parameters and were rounded away.",
        "Raise the learning rate, or keep the weights in float32 and compute under autocast.",
        (
            "Weights in bfloat16 or float16, or a gradient that vanished in many layers: the steps "
            "are so small that they are rounded away."
        ),
        (
            "model.float()  # the weights in float32\n"
            'with torch.autocast("cuda", dtype=torch.bfloat16):  # the computation in bfloat16\n'
            "    loss = model(**batch).loss"
        ),
    )
    ZERO = (
        "zero",
        "The gradients were exactly zero.",
        "",
        (
            "The gradient arrives and is exactly zero: equal rewards in GRPO, a mask of "
            "zeros, a factor of 0."
        ),
        ("print(rewards.std())  # if it is 0 within a group, every advantage is 0"),
    )
    CLIPPED = (
        "clipped",
        "The gradients were clipped to 0, or to next to nothing.",
        "Clip to a norm or value above 0, such as 1.0, or leave the clipping out.",
        "Gradients are clipped to 0.",
        ("torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # not 0"),
    )
    SCALED = (
        "scaled",
        "The optimizer stepped with gradients that were still multiplied by a loss scale.",
        (
            "Call scaler.step(optimizer) and scaler.update() in place of optimizer.step(), or"
            " scaler.unscale_(optimizer) before it."
        ),
        "The loss is scaled, and the optimizer steps without the scaler.",
        (
            "scaler.scale(loss).backward()\n"
            "scaler.step(optimizer)  # not optimizer.step()\n"
            "scaler.update()"
        ),
    )
    DEAD = (
        "dead",
        "A layer is dead: its activation is flat for every input, so no gradient passes.",
        (
            "Use an activation that is nowhere flat, such as LeakyReLU or GELU, normalise the"
            " input, or initialise the layer with smaller weights. If it died while training, lower"
            " the learning rate. For sign or round use a straight-through estimator."
        ),
        "A layer is dead: its activation gives the same for every input.",
        ("self.activation = nn.LeakyReLU()  # in place of nn.ReLU()"),
    )
    NONFINITE_OUTPUT = (
        "nonfinite-output",
        "The output of a module became NaN or infinite.",
        "",
        (
            "The forward pass itself gives NaN: a row that is masked everywhere, a logarithm "
            "of 0, or numbers too large for float16."
        ),
        (
            "scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)  # not -inf\n"
            "logarithms = torch.log(x.clamp(min=1e-12))"
        ),
    )
    NONFINITE_GRADIENT = (
        "nonfinite-gradient",
        "A gradient became NaN or infinite.",
        "",
        "The loss is finite, and a gradient becomes NaN or infinite in the backward pass.",
        (
            "with torch.autograd.detect_anomaly():  # names the operation; slow\n"
            "    loss = model(**batch).loss\n"
            "    loss.backward()"
        ),
    )
    NONFINITE_UPDATE = (
        "nonfinite-update",
        "The optimizer's step made a parameter NaN or infinite.",
        "Keep the weights in float32.",
        "Weights in float16, and the optimizer's step makes them NaN.",
        (
            "model.float()  # the weights in float32\n"
            'with torch.autocast("cuda", dtype=torch.float16):\n'
            "    loss = model(**batch).loss"
        ),
    )
    UNUSED = (
        "unused",
        "The loss does not depend on it.",
        "Use the module's output in the loss. If the module should not learn, freeze it.",
        (
            "The loss does not use some parameters: a second head, a branch that did not run, "
            "or the original weights below an adapter."
        ),
        (
            "head.requires_grad_(False)  # if it should not learn\n"
            "\n"
            "# under DistributedDataParallel, if it runs in some steps only\n"
            "model = DistributedDataParallel(model, find_unused_parameters=True)"
        ),
    )
    IN_PLACE = (
        "in-place",
        "A tensor that backward needs was changed in place.",
        (
            "Write the operation so that it makes a new tensor (x = x + 1 instead of x += 1), or"
            " change a clone()."
        ),
        (
            "An operation such as `x += 1`, `relu_()` or `nn.ReLU(inplace=True)` changes a "
            "tensor that backward needs."
        ),
        ("x = x + 1  # in place of x += 1\nself.activation = nn.ReLU()  # not inplace=True"),
    )
    GRAPH_FREED = (
        "graph-freed",
        "Backward went a second time through a graph that the first pass had freed.",
        ("Add the losses and call backward once, or compute the shared tensor anew for each pass."),
        (
            "Backward is called twice through one graph: two losses share it, or a state is "
            "carried to the next step."
        ),
        (
            "(loss_a + loss_b).backward()  # one backward for losses that share a graph\n"
            "state = state.detach()  # or: a state that is carried from step to step"
        ),
    )
    EXCEPTION = (
        "exception",
        "Another exception was raised.",
    )


class Ended(Protocol):
    """A cell that ran, and its outcome: a record, a row of a table, or a cell that was just run."""

    @property
    def cell(self) -> Cell:
        """Which cell."""

    @property
    def outcome(self) -> str:
        """``trains`` or ``phase:reason``."""


class Remedy(Frozen, frozen=True):
    """A variant that trains, and the cell that shows it."""

    cell: Cell
    summary: str
    same_stack: bool
    """The cell ran on the stack in question; else on the nearest published stack."""


class OnStack(NamedTuple):
    """What trains and what fails on one stack and device."""

    trained: Mapping[tuple[str, str], Cell]
    """By scenario and variant."""
    failing: Mapping[str, Container[str]]
    """The variants of each scenario that were judged and do not train."""


def on_stack(records: Iterable[Ended], stack: str, device: str = "cpu") -> OnStack:
    """What trains and what fails there, of all ``records``."""
    trained: dict[tuple[str, str], Cell] = {}
    failing: dict[str, set[str]] = defaultdict(set)
    for record in records:
        cell = record.cell
        if (cell.stack, cell.device) != (stack, device):
            continue
        if record.outcome == TRAINS:
            trained[cell.scenario, cell.variant] = cell
        elif row_of(record.outcome).judged:
            failing[cell.scenario].add(cell.variant)
    return OnStack(trained, failing)


def remedy_for(
    cause: Cause,
    scenarios: Mapping[str, Scenario],
    there: OnStack,
    *,
    scenario: str | None = None,
    same_stack: bool = True,
) -> Remedy | None:
    """The first variant against ``cause`` that trains on a stack.

    Args:
        cause: what the variant must cure.
        scenarios: all scenarios, by name.
        there: the stack on which the variant must train.
        scenario: the scenario whose variants come first.
        same_stack: whether this is the stack in question.
    """
    ordered = sorted(scenarios.values(), key=lambda each: each.name != scenario)
    for each in ordered:
        failing = there.failing.get(each.name, ())
        against = [variant for variant in each.variants if cause in variant.cures]
        for variant in sorted(against, key=lambda variant: variant.role is not Role.REMEDY):
            found = there.trained.get((each.name, variant.name))
            if found is not None and variant.is_tested(failing):
                return Remedy(cell=found, summary=variant.summary, same_stack=same_stack)
    return None


def remedy_on_its_stack(
    cause: Cause, scenarios: Mapping[str, Scenario], records: Iterable[Ended], cell: Cell
) -> Remedy | None:
    """A remedy seen on the stack and device of ``cell``; variants of its scenario come first."""
    there = on_stack(records, cell.stack, cell.device)
    return remedy_for(cause, scenarios, there, scenario=cell.scenario)


def advise(diagnosis: Diagnosis, remedy: Remedy | None) -> str | None:
    """What to do, and what shows that it helps; None if that is not known."""
    if remedy is None:
        return diagnosis.advice or diagnosis.cause.advice or None
    cell = remedy.cell
    where = f"{cell.scenario}/{cell.variant}"
    if remedy.same_stack:
        return f"This works on {cell.stack}: {remedy.summary} ({where} trains there)."
    if diagnosis.advice:
        return (
            f"{diagnosis.advice} This was seen to help: {remedy.summary} ({where}, {cell.stack})."
        )
    what = remedy.summary[:1].upper() + remedy.summary[1:]
    return f"{what}. It was seen to help: {where} trains on {cell.stack}."


def explain(
    diagnosis: Diagnosis, remedy: Remedy | None, whose: str = "the scenario"
) -> tuple[str, ...]:
    """A diagnosis for people: two to seven lines, of which the last says what to do.

    Args:
        diagnosis: of a cell, or of a user's script.
        remedy: what was seen to help.
        whose: whose code ran.
    """
    last = advise(diagnosis, remedy)
    lines = (*diagnosis.text[:5], *diagnosis.route(whose))
    return lines if last is None else (*lines, last)
