"""Why the gradient of an observed script does not flow: the cause, the module, the line, in words.

``diagnose`` looks for signs in their order, and the first sign that is found is the diagnosis. The
signs follow below it in the same order. Those of a missing gradient have an order of their own, in
``no_gradient``. At the end of the file is the wording that all of them share.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gradmatrix.core.model import Gradient
from gradmatrix.core.observation import Frame, Frozen
from gradmatrix.core.outcomes import RANKS_DIFFER
from gradmatrix.core.text import counted, few
from gradmatrix.judge.causes import Cause
from gradmatrix.judge.errors import ABOUT, advise_on_error
from gradmatrix.judge.remarks import ADAPTER, name_operation, steps_for_nothing
from gradmatrix.judge.verdict import (
    best_step,
    first_line,
    gradient_status,
    is_finite,
    judge_observation,
    some_names,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gradmatrix.core.observation import (
        Built,
        Checkpointed,
        Leaf,
        Lost,
        Nonfinite,
        Observation,
        Parameter,
        Raised,
        Severed,
        Spoiled,
        Switch,
        Written,
    )

    Sign = Callable[[Observation], "Diagnosis | None"]

MOST_LINES = 5
MOST_GROUPS = 4
MOST_MODULES = 3
OF_GRADIENTS = re.compile(r"requires?_grad|grad_fn|none of (?:the )?outputs? ha")
NONFINITE = re.compile(r"\b(?:nan|inf|infinity)\b", re.IGNORECASE)
INFERENCE = re.compile(r"inference (?:tensors?|mode)", re.IGNORECASE)
FALSE_ALARM = re.compile(r"None of the inputs have requires_grad=True")
OF_ADAPTER = re.compile(r"\.lora_\w+\.\w+$")
"""A module of a LoRA adapter of PEFT."""
DISABLED = (
    "This line belongs to PEFT. If your call disables adapters, use `with"
    " model.disable_adapter():`, which enables them again, or call enable_adapter_layers() after"
    " it. If it chooses another adapter, call set_adapter(...) with the one that should learn."
)
PLUMBING = ("torch/", "python3", "<frozen")
ACTIVATIONS = {"ReLU", "ReLU6", "Hardtanh", "Hardsigmoid", "Hardswish", "Threshold", "Sigmoid"}
LEAF_CHANGED = re.compile(r"leaf Variable that requires grad.*in-place", re.IGNORECASE)
REGISTERED = {
    ("modules", False): "nn.ModuleList",
    ("modules", True): "nn.ModuleDict",
    ("parameters", False): "nn.ParameterList",
    ("parameters", True): "nn.ParameterDict",
    ("tensors", False): "nn.ParameterList",
    ("tensors", True): "nn.ParameterDict",
}
"""What registers the contents of a list or, if true, of a dictionary."""
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
UNDETACHED = (
    "Detach the advantage where it weights the policy: -(log_prob * advantage.detach()). The value"
    " then learns by its own loss alone."
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
REWARDS = (
    "Check the rewards: if all answers to a prompt get equal ones, every advantage is zero. Use a"
    " reward that differs between the answers, such as a partial one, or sample more of them."
)
ROOTS = ("sqrt", "norm", "std", "hypot", "pow", "**", "float_power")
"""Operations whose derivative can be infinite at 0."""
ROOT = (
    "Its derivative is infinite at 0: add a small eps such as 1e-12 to its input. If torch.where"
    " hides bad values, replace them in the input: 0 times infinity is NaN."
)
INPUTS = (
    "Keep its inputs away from where the derivative is infinite. If torch.where hides bad values,"
    " replace them in the input: 0 times infinity is NaN."
)
HIDDEN = (
    "Make the input of the operation safe, not only its result: x = torch.where(ok, x, 1.0) before"
    " it, and torch.where(ok, result, 0.0) behind it; or clamp(min=...). For x * log(y) there is"
    " torch.xlogy(x, y.clamp(min=...))."
)
UNKNOWN_OPERATION = (
    "Run the script once under torch.autograd.detect_anomaly(): it names the operation whose"
    " derivative was NaN."
)
GROWN = "The values became too large: lower the learning rate, clip the gradients, or use float32."
IF_GROWN = (
    "If the loss grew before that step, lower the learning rate, or clip the gradients. If it did"
    " not, look for NaN, infinity and very large values in the data of that step."
)
LEAVE_OUT = "leave the call out, or set requires_grad_(True) afterwards on what should learn."
TOO_FAST = "Lower the learning rate, or take the mean and not the sum of the loss over its points."
SOFTMAX = ("softmax", "log_softmax")
FINITE_ADVICE = {
    **dict.fromkeys(
        ("log", "log2", "log10", "log1p", "logit", "xlogy"),
        "Use a function of torch that takes logits (torch.log_softmax, torch.logsumexp,"
        " cross_entropy) instead of exp, sum and log, and scale large inputs; or keep its input"
        " above 0 with clamp(min=...).",
    ),
    "sqrt": "Keep its input at 0 or above with clamp(min=0).",
    **dict.fromkeys(
        ("/", "div", "true_divide", "reciprocal", "rsqrt"),
        "Keep the divisor away from 0: add a small eps to it, or clamp it. If it is the size of a"
        " mask or of a batch, find out why that is empty.",
    ),
    **dict.fromkeys(
        ("exp", "exp2", "expm1", "sinh", "cosh"),
        "Limit the exponent with clamp(max=...), or stay with logarithms: logsumexp, log_softmax.",
    ),
    **dict.fromkeys(
        SOFTMAX,
        "Such a row is masked everywhere. If its sample is not empty, the mask may be the wrong way"
        " round: True must stand for what is hidden. Leave an empty sample out, let it keep one"
        " entry, such as its own position, or mask with torch.finfo(x.dtype).min instead of -inf"
        " and set the result of these rows to 0.",
    ),
    "ctc_loss": "CTC needs one step of the input for each label, and one more between two equal"
    " labels. Make the inputs longer (less pooling, a smaller stride), leave such samples out, or"
    " set zero_infinity=True, which ignores them.",
    **dict.fromkeys(
        ("acos", "asin", "arccos", "arcsin"),
        "Clamp its input to a range a little smaller than -1 to 1.",
    ),
    **dict.fromkeys(
        ("square", "pow", "**", "mul", "*", "matmul", "@", "mm", "bmm", "sum", "mean", "half"),
        GROWN,
    ),
}
"""What to do about an operation that made NaN or infinity of finite numbers."""
ONE_VALUE = (
    "Give it more than one value: a larger batch, or all values at once. Of one value only, the"
    " mean and the value are equal, so nothing is left to learn from. Where that may happen and is"
    " meant, give it correction=0 (unbiased=False) and add a small eps to what is divided by."
)
CARRIED = (
    "detach() what is carried on: a hidden state at the start of each iteration, state ="
    " state.detach() (of a tuple, each tensor); a running mean or a sum of losses where it is added"
    " to. If the gradient should flow through several iterations, add up their losses and call"
    " backward once, after the last of them."
)
TWICE = (
    "If an optimizer steps between the two passes, run the model again and compute the second loss"
    " anew; or detach() what the first loss shares with the second, if it should not train it."
    " Otherwise add the losses and call backward once, or pass retain_graph=True to the first call."
)
LEAF = (
    "If `{}` is to be trained itself, compute its value first and then call requires_grad_() on it:"
    " the result of an operation gets no gradient."
)
ONCE = (
    "Compute it anew in each step, in forward or inside of the loop, and not once beforehand (in"
    " __init__, before the loop): a graph serves for one backward pass. Do not detach it if what it"
    " is computed from should learn; if it should not, compute it under torch.no_grad()."
)
LEAKED = "Restore it with torch.set_grad_enabled(True), or use a with block, which restores it."
UNFREEZE = (
    "set requires_grad_(True) on the part that should learn, or on the whole model:"
    " model.requires_grad_(True). If only a copy was meant (a teacher, a target), freeze"
    " copy.deepcopy(model)."
)
UNLOADED = (
    "Merge once, after training. If what was merged should be trained further, add a new adapter"
    " with get_peft_model, or call model.requires_grad_(True), and build the optimizer after that."
)
FOR_INFERENCE = (
    "This function is made for inference. To train, call the model itself (its forward), or a"
    " method that keeps the graph."
)
NOTHING_USED = (
    "Compute the loss from what the model gives, with operations that have a gradient. An index"
    " (argmax, the second result of max or topk), a comparison and a whole number have none: use"
    " the scores themselves, such as in cross_entropy."
)
NOT_INPLACE = (
    "Use the version that makes a new tensor: torch.nn.functional.{name}(x), or inplace=False where"
    " the module is made."
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
FACTOR_OF_RATE = (
    "LambdaLR multiplies the first learning rate by what its function returns: return a factor, 1"
    " for the full rate, and not a learning rate."
)
HALF = "Scale the inputs, or use bfloat16, which has the range of float32."
SWITCHES = ("no_grad", "inference_mode", "set_grad_enabled")
HIDING = ("requires_grad_", "requires_grad")
"""What makes a tensor without a graph require a gradient, so that backward raises no error."""
FUNCTIONS = ("relu_", "sigmoid_", "tanh_", "dropout_", "selu_", "celu_", "rrelu_")
"""Functions of torch that change their argument; ``nn.ReLU(inplace=True)`` calls the first."""
NATIVE = ("leaky_relu_", "hardtanh_", "elu_", "silu_", "hardswish_", "hardsigmoid_", "mish_")
PRODUCTS = ("*", "mul")
SWITCHED_ON = (
    "Before this loss is computed, unfreeze what it should train: requires_grad_(True). A function"
    " that does that must set the flag that it gets, as in p.requires_grad_(flag):"
    " `flag and p.requires_grad` never unfreezes anything."
)
ITSELF = "a value minus itself"
DETACHED_ONCE = (
    "Keep one of the two from before the update, without a graph: compute it once under"
    " torch.no_grad(), or detach it. PPO's old log-probability is that of the policy that acted."
)
RETURNED_ZEROS = (
    "Return the gradient of each input from backward. A function that rounds or chooses returns"
    " grad_output itself (a straight-through estimator)."
)
FAST_WEIGHTS = (
    "If these tensors are fast weights, begin each inner loop with the parameters themselves,"
    " without detach, and make new tensors in it (weight - rate * gradient) instead of changing"
    " weight.data. If they are what should learn, build the optimizer from them."
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
OWN_LOSS = (
    "Compute the loss of that optimizer from what these modules give, without detach, item or"
    " no_grad on the way. If they should not learn, leave its step out."
)
NO_END = (
    "Its output is the model's output: leave the activation out. Then the model reaches targets"
    " below 0, and is nowhere flat. If the output must be positive, use softplus."
)
TOO_LARGE = (
    "Lower the learning rate or scale the inputs and targets, and leave out an activation behind"
    " the last layer. LeakyReLU and GELU are nowhere flat."
)
CLEARED = ("grad = None", "grad.zero_")
DIED = 3
"""Audited steps in which every gradient must be exactly zero."""
SATURATED = "It is flat there: all of its inputs were too large, too small, or out of its range."
CHOOSING = ("argmin", "argmax")
NOT_SEVERED = ("unknown", "clip_grad_norm_", *CLEARED, *FLAT, *SAMPLING)
"""Operations that have a sign of their own, or that leave the tensor in the graph."""


class Diagnosis(Frozen, frozen=True):
    """Why the gradient does not flow: one cause, one place, and sentences for people."""

    cause: Cause
    module: str | None
    """Dotted name of the first module that it is about."""
    place: Frame | None
    """The line of the user's or a library's code that is responsible."""
    text: tuple[str, ...]
    """One to five lines, without a remedy."""
    user: Frame | None = None
    """The line of the user's own file that led there; None if it is ``place``, or was not seen."""
    advice: str = ""
    """What to do about it, if that is more exact than the advice of the cause."""

    def route(self, whose: str) -> tuple[str, ...]:
        """A sentence about the user's line, if it is not the place itself: ``whose`` code it is."""
        if self.user is None or any(format_frame(self.user) in line for line in self.text):
            return ()
        return (f"The line of {whose} that led there: {format_frame(self.user)}.",)


def diagnose(seen: Observation) -> Diagnosis | None:
    """Why the gradient does not flow.

    Returns:
        None if the script never came to train, or if no sign was found. A script whose parameters
        all learn may still have a sign: gradients that are never cleared, for example.
    """
    outcome = judge_observation(seen).outcome
    if not outcome.judged or seen.reached == "import":
        return None
    if outcome.trains or str(outcome) == RANKS_DIFFER:
        silent: tuple[Sign, ...] = (
            not_called,
            unmoved,
            not_registered,
            made_in_forward,
            used_up,
            left_out,
            given_twice,
            missed,
            faded,
            adapted,
            shared,
            rebuilt_part,
            constant_part,
            mislinked,
            never_zeroed,
            clipped_scaled,
            stepped_scaled,
            died,
            drifted,
        )
        return first_sign(silent, seen)
    signs: tuple[Sign, ...] = (
        spoiled,
        changed_leaf,
        not_called,
        labels_ignored,
        steps_skipped,
        search_not_finite,
        stepped_scaled,
        not_finite,
        not_trained,
        no_backward,
        unloaded,
        unmatched,
        nothing_learns,
        nothing_held,
        made_in_forward,
        used_up,
        given_twice,
        holds_a_copy,
        never_stepped,
        not_registered,
        no_rate,
        replaced,
        frozen_since,
        no_gradient,
        not_updated,
        zero_gradient,
        exception,
    )
    return first_sign(signs, seen)


def first_sign(signs: Iterable[Sign], seen: Observation) -> Diagnosis | None:
    """The diagnosis of the first sign that is found."""
    return next((found for sign in signs if (found := sign(seen)) is not None), None)


def spoiled(seen: Observation) -> Diagnosis | None:
    """Backward did not have a tensor that it needs: it was changed in place, or freed."""
    found = seen.spoiled
    if found is None or seen.raised is None:
        return None
    at = innermost_frame(found.frames)
    last = innermost_frame(seen.raised.frames)
    if found.how == "freed":
        return freed(found, seen.raised)
    if found.how == "step":
        if found.carried:
            return carried_over_step(found, last)
        line = (
            f"An optimizer's step changed a parameter (shape"
            f" {found.tensor.removesuffix(', unknown')}) that a later backward"
            f" pass still needed{say_where(at, 'at')}."
        )
        return make_diagnosis(
            Cause.IN_PLACE,
            None,
            at,
            line,
            led=found.frames,
            advice="After the step, run the model again on the same input, and compute the second"
            " loss from that output: the earlier one was computed with the old values.",
        )
    how = f"`{found.how}`" if found.how else "An operation that was not seen"
    line = (
        f"{how} changed in place a tensor that backward needs (shape"
        f" {found.tensor}){say_where(at, 'at')}."
    )
    called = [f"Backward was called at {format_frame(last)}."] if last and at else []
    frames = found.frames or seen.raised.frames
    name = found.how.rstrip("_")
    return make_diagnosis(
        Cause.IN_PLACE,
        found.module,
        at or last,
        line,
        *called,
        led=frames,
        advice=NOT_INPLACE.format(name=name) if found.how in (*FUNCTIONS, *NATIVE) else "",
    )


def freed(found: Spoiled, raised: Raised) -> Diagnosis:
    """Backward went a second time through a graph that an earlier pass had freed."""
    at, last = innermost_frame(found.frames), innermost_frame(raised.frames)
    first = innermost_frame(found.before)
    twice = first is not None and first != last
    carried = found.carried and (found.stepped or not twice)
    shared, advice = "both use a tensor", TWICE if twice or not found.stepped else ONCE
    if found.module is not None:
        shared = f"both use the output of `{found.module}`"
    elif found.leaf and found.early:
        shared = f"both use what was computed from `{found.leaf}` before the model ran"
    elif found.name is not None:
        shared = f"both use `{found.name}`"
        if found.bare:
            advice = f"{LEAF.format(found.name)} Otherwise {advice[0].lower()}{advice[1:]}"
    more = []
    if carried:
        shared, advice, twice = describe_carried(found), CARRIED, False
    elif found.data:
        what = f"a tensor of shape {list(found.data)} that is no parameter"
        more = [f"Both passes lead back to {what}, and that requires a gradient."]
        advice = "If that tensor is data, make it without requires_grad=True, or detach() it."
        advice += " If it is carried on from step to step, detach() it in each."
    elif not twice and found.stepped:
        shared += ", which is computed once and not for each pass"
    called = [
        f"The {which} pass was called at {format_frame(at)}."
        for which, at in (("first", first), ("second", last))
        if at is not None
    ]
    if first == last is not None:
        called = [f"Both passes were called at {format_frame(last)}, one after the other."]
    return make_diagnosis(
        Cause.GRAPH_FREED,
        found.module,
        last if twice else at or last,
        f"Backward went a second time through a graph that was freed: {shared}"
        f"{say_where(at, 'at')}.",
        *called,
        *more,
        user=users_frame(raised.frames) or last,
        advice=advice,
    )


def describe_carried(found: Spoiled) -> str:
    """What is carried from one iteration to the next, with its graph."""
    what = "a tensor is carried from one iteration to the next with its graph"
    return what if found.module is None else f"{what}, from the output of `{found.module}`"


def carried_over_step(found: Spoiled, last: Frame | None) -> Diagnosis:
    """A graph is carried into the next iteration, and the step between them changed parameters."""
    at, made = innermost_frame(found.frames), innermost_frame(found.before)
    line = f"{describe_carried(found)}{say_where(made, 'at')}."
    called = [f"Backward was called at {format_frame(last)}."] if last else []
    return make_diagnosis(
        Cause.IN_PLACE,
        found.module,
        made or at,
        f"{line[0].upper()}{line[1:]}",
        "The optimizer's step has since changed parameters that this graph"
        f" needs{say_where(at, 'at')}.",
        *called,
        led=found.before,
        advice=CARRIED,
    )


def changed_leaf(seen: Observation) -> Diagnosis | None:
    """A tensor that requires a gradient was changed in place while autograd records."""
    if seen.raised is None or not LEAF_CHANGED.search(seen.raised.message):
        return None
    raising = raising_frames(seen.raised)
    at = innermost_frame(raising)
    line = f"A tensor that requires a gradient is changed in place{say_where(at, 'at')}."
    return make_diagnosis(
        Cause.IN_PLACE,
        None,
        at,
        line,
        led=raising,
        advice="Write an update of a parameter under torch.no_grad(). Otherwise make a new tensor:"
        " x = x + y instead of x += y.",
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


def labels_ignored(seen: Observation) -> Diagnosis | None:
    """Every label was one that the loss ignores; or those of some losses, and the loss is NaN."""
    found = seen.ignored
    if found is None or seen.raised is not None:
        return None
    at = innermost_frame(found.frames)
    where = say_where(at, "the loss is computed at")
    line = (
        f"Every label was {found.text}, which the loss ignores: nothing is left to learn"
        f" from{where}."
    )
    if found.calls < found.losses:
        if not (found.nan and is_broken(seen)):
            return None
        line = (
            f"In {found.calls} of {found.losses} calls of the loss every label was {found.text},"
            f" which it ignores, and the mean of nothing is NaN{where}."
        )
    trainer = any(frame.file == "transformers/trainer.py" for frame in seen.asked)
    log = ["The mean of nothing is NaN. By default, Trainer writes 0 into its log instead."]
    return make_diagnosis(
        Cause.LABELS_IGNORED,
        None,
        at,
        line,
        *(log if trainer else []),
        led=found.frames,
        user=innermost_frame(seen.ignored_by),
    )


def steps_skipped(seen: Observation) -> Diagnosis | None:
    """GradScaler skipped every step."""
    built = next((each for each in seen.optimizers if each.scaled and not each.steps), None)
    if built is None or seen.raised is not None:
        return None
    at = innermost_frame(built.scaled_at)
    line = (
        f"GradScaler skipped all {counted(built.scaled, 'step')} of {built.type}, because some"
        f" gradients were NaN or infinite{say_where(at, 'its step is called at')}."
    )
    first = seen.nonfinite
    if first is None or first.where != "output":
        scale = innermost_frame(built.scale_at)
        given = [f"Its first scale is given at {format_frame(scale)}."] if scale else []
        return make_diagnosis(
            Cause.STEPS_SKIPPED, None, at, line, *given, led=built.scaled_at, user=scale
        )
    name = f"`{first.operation}`" if first.operation else name_module(first.module, first.type)
    where = say_where(innermost_frame(first.frames), "at")
    more = f"The forward pass gave NaN or infinity already: first in the output of {name}{where}."
    advice = f"The loss scale does not help here. {FINITE_ADVICE.get(first.operation or '', HALF)}"
    return make_diagnosis(
        Cause.STEPS_SKIPPED, None, at, line, more, led=built.scaled_at, advice=advice
    )


def nothing_held(seen: Observation) -> Diagnosis | None:
    """An optimizer got an empty list of parameters, because they are in plain attributes."""
    if seen.raised is None or "empty parameter list" not in seen.raised.message:
        return None
    return explain_unregistered(seen)


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
    more = [f"{few(beside, MOST_MODULES)} of {name} {are} not registered either."] if beside else []
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
    """Two optimizers hold the same parameters, and what one of them should train is in none."""
    loose = seen.unheld
    if loose is None or not loose.same:
        return None
    at, other = loose.same
    modules = quote_few(loose.modules)
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
    modules = ", ".join(f"`{name}`" for name in seen.missed.modules[:MOST_MODULES])
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


def rebuilt_part(seen: Observation) -> Diagnosis | None:
    """A part of the loss is a new tensor that was made of values; the rest has a graph."""
    if not seen.rebuilt_parts:
        return None
    part = seen.rebuilt_parts[0]
    at = innermost_frame(part.frames)
    line = (
        f"A part of the loss has no graph: `{part.how}` made it of values{say_where(at, 'at')}. The"
        " rest of the loss is trained."
    )
    return make_diagnosis(
        Cause.DETACHED, part.module, at, line, led=part.frames, advice=ADVICE_OF["torch.tensor"]
    )


def constant_part(seen: Observation) -> Diagnosis | None:
    """A part of the loss is a number that left the graph; the rest has a graph."""
    if not seen.constant_parts:
        return None
    part = seen.constant_parts[0]
    at, sum_at = innermost_frame(part.frames), innermost_frame(part.added)
    line = (
        f"A part of the loss has no graph{say_where(sum_at, 'it is added at')}."
        f" {begin(name_operation(part.how))} took it out{say_where(at, 'at')}."
    )
    return make_diagnosis(
        Cause.DETACHED,
        part.module,
        at,
        line,
        "It changes the value of the loss, but only the rest of the loss is trained.",
        led=part.frames,
        advice=advice_on_cut(part.how, at, part.frames),
    )


def mislinked(seen: Observation) -> Diagnosis | None:
    """A part of the loss leads to other parameters than it should; the rest trains them."""
    if not seen.links:
        return None
    found = seen.links[0]
    at = innermost_frame(found.frames)
    if found.text == "weight":
        line = (
            "A log-probability is multiplied by an advantage that has a graph"
            f"{say_where(at, 'it is computed at')}. So the policy's loss trains the value, too, and"
            " the value has a loss of its own."
        )
        return make_diagnosis(
            Cause.NOT_DETACHED, None, at, line, led=found.frames, advice=UNDETACHED
        )
    line = (
        f"`{found.text}` takes what the next layers get out of the graph{say_where(at, 'at')}. So"
        " their loss does not train what is before it; only another part of the loss does."
    )
    advice = ADVICE_OF.get(found.text, "").format(how=found.text)
    if found.text in CHOOSING:
        advice = (
            "Let the gradient pass straight through: give the next layers z + (z_q - z).detach(),"
            " with the chosen vectors z_q and the z that they stand for."
        )
    return make_diagnosis(Cause.DETACHED, None, at, line, led=found.frames, advice=advice)


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


def not_finite(seen: Observation) -> Diagnosis | None:
    """NaN or infinity in an output, a gradient, or a parameter after the step."""
    first = seen.nonfinite
    if not is_broken(seen):
        return None
    if first is None:
        return never_zeroed(seen) or late_not_finite(seen)
    if first.operation is not None:
        return not_finite_operation(first)
    at = innermost_frame(first.frames)
    name = name_module(first.module, first.type)
    if first.where == "value":
        half = any(p.dtype == "float16" for p in seen.parameters)
        return make_diagnosis(
            Cause.NONFINITE_UPDATE,
            first.module,
            at,
            f"Step {first.step} of the optimizer made a parameter of {name} NaN or infinite, but"
            f" its gradient was finite{say_where(at, 'the optimizer is built at')}.",
            "In half precision an optimizer's second moment and its eps can both be 0, and the step"
            " divides by them."
            if half
            else "The step was too large for the type of the parameter.",
            led=first.frames,
            advice="" if half else TOO_FAST,
        )
    if first.where == "gradient":
        hook = say_where(at, "a hook on it was registered at")
        losses = seen.losses[: first.step]
        fine = ", the loss was not" if losses and all(map(is_finite, losses)) else ""
        line = f"The gradient of {name} was NaN or infinite at step {first.step}{fine}{hook}."
        advice = "Check what that hook returns." if at is not None else UNKNOWN_OPERATION
        return make_diagnosis(
            Cause.NONFINITE_GRADIENT, first.module, at, line, led=first.frames, advice=advice
        )
    line = (
        f"The output of {name} was NaN or infinite at step {first.step}, but its input was"
        f" not{say_where(at, 'called at')}."
    )
    return make_diagnosis(Cause.NONFINITE_OUTPUT, first.module, at, line, led=first.frames)


def is_broken(seen: Observation) -> bool:
    """Whether a loss or a gradient was NaN or infinite, or an exception says so."""
    if seen.raised is not None:
        return NONFINITE.search(seen.raised.message) is not None
    return any(not is_finite(loss) for loss in (*seen.losses, seen.last_loss)) or any(
        "x" in p.gradients for p in seen.parameters
    )


def search_not_finite(seen: Observation) -> Diagnosis | None:
    """A search without gradients made parameters NaN or infinite."""
    first = seen.nonfinite
    if first is None or first.where != "value" or seen.steps or seen.requests or seen.raised:
        return None
    at = innermost_frame(first.frames)
    return make_diagnosis(
        Cause.NONFINITE_OUTPUT,
        first.module,
        at,
        f"The parameters of {name_module(first.module, first.type)} became NaN or infinite in a"
        f" search without gradients{say_where(at, 'it first ran with them at')}.",
        led=first.frames,
        advice="Check what the update divides by: the standard deviation of equal rewards is 0. Add"
        " a small eps to the divisor, and check that the rewards differ.",
    )


def late_not_finite(seen: Observation) -> Diagnosis | None:
    """The loss became NaN or infinite after the steps that are looked at closely."""
    if seen.nonfinite_from is None or seen.nonfinite_from <= len(seen.losses):
        return None
    line = (
        f"The loss was finite up to step {seen.nonfinite_from - 1}, and NaN or infinite at step"
        f" {seen.nonfinite_from}."
    )
    more = f"Operations were looked at in the first {counted(len(seen.losses), 'step')} only."
    losses = [loss for loss in seen.losses if isinstance(loss, float) and is_finite(loss)]
    if not losses or not 0 < losses[0] < losses[-1]:
        return make_diagnosis(Cause.NONFINITE_OUTPUT, None, None, line, more, advice=IF_GROWN)
    frames = next((built.frames for built in seen.optimizers if built.steps), seen.rates)
    at = innermost_frame(frames)
    if not all(before < after for before, after in pairwise(losses)):
        rates = [p.learning_rate for p in seen.parameters if isinstance(p.learning_rate, float)]
        rate = f"a learning rate of {max(rates):.3g}" if rates else "the learning rate"
        more = (
            f"In the first {counted(len(losses), 'step')} it went from {losses[0]:.3g} to"
            f" {losses[-1]:.3g}, with {rate}{say_where(at, 'it is set at')}."
        )
        return make_diagnosis(
            Cause.NONFINITE_OUTPUT, None, at, line, more, led=frames, advice=IF_GROWN
        )
    more = (
        f"It grew in each of the first {counted(len(losses), 'step')}, from {losses[0]:.3g} to"
        f" {losses[-1]:.3g}: the updates are too large{say_where(at, 'their rate is set at')}."
    )
    return make_diagnosis(Cause.NONFINITE_OUTPUT, None, at, line, more, led=frames, advice=TOO_FAST)


def not_finite_operation(first: Nonfinite) -> Diagnosis:
    """An operation made NaN or infinity of finite numbers, or its derivative did."""
    at = innermost_frame(first.frames)
    inside = f", in {name_module(first.module, first.type)}" if first.module else ""
    where = f"at step {first.step}{inside}{say_where(at, 'called at')}"
    operation = first.operation or ""
    advice = FINITE_ADVICE.get(operation, "")
    given = " of rows that are all minus infinity" if operation in SOFTMAX else ""
    mask = users_frame(first.masked)
    other = mask is not None and mask != at
    filled = (f"A mask filled these rows at {format_frame(mask)}.",) if other else ()
    if first.hidden:
        return make_diagnosis(
            Cause.NONFINITE_GRADIENT,
            first.module or None,
            at,
            f"`{first.operation}` gave NaN or infinity{given} {where}. The loss was finite, because"
            " it leaves these values out (torch.where, a mask, a label that is ignored).",
            "Backward goes through the operation all the same: it multiplies a gradient of 0 with"
            " an infinite derivative, and that is NaN.",
            *filled,
            led=first.frames,
            user=mask,
            advice=advice if operation in SOFTMAX else HIDDEN,
        )
    if first.where == "gradient":
        advice = ROOT if operation in ROOTS else advice or INPUTS
        return make_diagnosis(
            Cause.NONFINITE_GRADIENT,
            first.module or None,
            at,
            f"The derivative of `{first.operation}` was NaN or infinite {where}.",
            "Its value was finite, and so was the gradient that came to it.",
            led=first.frames,
            advice=advice,
        )
    line = f"`{first.operation}` made NaN or infinity{given or ' of finite numbers'} {where}."
    more = [*filled]
    if len(first.sizes) == 1:
        more, advice = (
            ["It was given one value, and divides by the number of values minus 1."],
            ONE_VALUE,
        )
    elif first.sizes:
        has, needs = first.sizes[:2]
        more = [f"An input has {counted(has, 'step')}, and its labels need {needs}."]
    return make_diagnosis(
        Cause.NONFINITE_OUTPUT,
        first.module or None,
        at,
        line,
        *more,
        led=first.frames,
        user=mask,
        advice=advice,
    )


def unloaded(seen: Observation) -> Diagnosis | None:
    """The adapter was merged into the model, or removed, before the training."""
    if seen.unloaded is None:
        return None
    at = innermost_frame(seen.unloaded.frames)
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
    modules = ", ".join(f"`{name}`" for name in known.modules[:MOST_MODULES])
    more = " and others" if len(known.modules) > MOST_MODULES else ""
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
    module = module_of(still[0]) if still else None
    if put_off(seen) and not seen.steps:
        return explain_delay(seen, Cause.NEVER_STEPPED, line, at, idle[0].frames)
    test = innermost_frame(idle[0].condition_at)
    if test is not None:
        line = (
            f"{kind} never stepped: backward was called, but its step is called only under a"
            f" condition that never let it run, `{idle[0].condition}`, at {format_frame(test)}."
        )
        advice = "Check what that condition counts or compares: the step must come within the run."
        advice += " If it accumulates gradients, step once more after the last batch."
        if any("accum" in each.text for each in seen.arguments):
            advice += " accelerator.accumulate() has a condition of its own: step without another."
        return make_diagnosis(Cause.NEVER_STEPPED, module, test, line, advice=advice)
    asked = users_frame(seen.asked)
    others = [
        f"Another optimizer, {built.type}, made {counted(built.steps, 'step')}"
        f"{say_where(innermost_frame(built.frames), 'it is built at')}. Perhaps one of its steps"
        " was meant for the optimizer that never stepped."
        for built in seen.optimizers
        if built.steps and built.learning_rates
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


def no_rate(seen: Observation) -> Diagnosis | None:
    """Gradients were there, but the learning rate of every step was 0."""
    stepped = [built for built in seen.optimizers if built.steps and built.learning_rates]
    still = [p for p in seen.parameters if p.held and p.learns and best_step(p) == "f"]
    if seen.raised is not None or not still or any(p.changed for p in seen.parameters):
        return None
    if not stepped or any(set(built.learning_rates) != {0.0} for built in stepped):
        return None
    return explain_rate(stepped[0], module_of(still[0]), say_what_learns(seen))


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
        line = (
            f"All {counted(built.parameters, 'parameter')} that {kind} holds are frozen:"
            f" {some_names(frozen)}{say_where(at, 'it is built at')}."
        )
        adapters = {ADAPTER.search(p.name) for p in frozen}
        names = {each[1] for each in adapters if each is not None}
        advice = ""
        if len(names) == 1 and None not in adapters:
            advice = (
                f"PEFT freezes an adapter that is not active. Call set_adapter({names.pop()!r}) of"
                " the model before the optimizer is built: add_adapter does not do that."
            )
        return make_diagnosis(
            Cause.FROZEN, module_of(frozen[0]), at, line, led=built.frames, advice=advice
        )
    called = seen.unheld.frames if seen.unheld is not None else ()
    inactive = inactive_adapter(seen, loose)
    direct = built is not None and at is not None and at.user
    missing = quote_few(outermost(loose, seen))
    if built is not None and any(frame.file.startswith("pyro") for frame in built.frames):
        advice = (
            f"Register the module in the model or guide: pyro.module(name, module) ({missing})."
        )
    elif inactive is not None:
        advice = (
            f"Call set_adapter({inactive!r}) of the model before the optimizer is built: the model"
            " runs with another adapter, and add_adapter does not change that."
        )
    elif all_of_them:
        advice = ""
    else:
        advice = (
            f"Give the optimizer the parameters of {missing} too, as a further group; or build it"
            " after they were added to the model."
        )
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
        advice=advice,
    )


def inactive_adapter(seen: Observation, loose: list[Parameter]) -> str | None:
    """The adapter of PEFT that an optimizer holds, if another one runs and is in none."""

    def adapters(parameters: Iterable[Parameter]) -> set[str]:
        found = (ADAPTER.search(p.name) for p in parameters)
        return {each[1] for each in found if each is not None}

    held = adapters(p for p in seen.parameters if p.held and best_step(p) == "n")
    return held.pop() if len(held) == 1 and adapters(loose) - held else None


def explain_anew(seen: Observation, loose: list[Parameter], optimizer: str) -> Diagnosis:
    """The parameters that run were made or copied after the optimizer was built."""
    anew = seen.anew[0]
    at = innermost_frame(anew.frames)
    runs = seen.unheld.frames if seen.unheld is not None and anew.how == "copied" else ()
    user = users_frame(runs)
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
        advice="Train the model that the optimizer holds, not a copy of it; or build the optimizer"
        " after the model's last change."
        if anew.how == "copied"
        else "",
    )


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
    each = few(names, MOST_MODULES)
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
    return make_diagnosis(
        Cause.ROUNDING, module, at, line, *say_what_learns(seen), led=led, advice=advice
    )


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
            " ReLU, a saturated activation, a mask, sign or round)"
            f"{say_where(at, 'its output is used at')}."
        )
        return make_diagnosis(Cause.DEAD, event.module, at, line, led=event.frames)
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


def exception(seen: Observation) -> Diagnosis | None:
    """Another exception: where it was raised."""
    if seen.raised is None:
        return None
    lost = next((e for e in seen.lost if e.inference_mode and e.switch is not None), None)
    advice = advise_on_error(seen)
    if lost is not None and INFERENCE.search(seen.raised.message):
        found = explain_switch(seen, lost)
        return replace(found, advice=found.advice or Cause.INFERENCE_MODE.advice)
    raising = raising_frames(seen.raised)
    at = innermost_frame(raising)
    under = [f"Raised under {format_frame(at)}."] if at else []
    message = f"{seen.raised.type}: {first_line(seen.raised.message)}"
    inference = INFERENCE.search(seen.raised.message)
    cause = Cause.INFERENCE_MODE if inference else Cause.EXCEPTION
    about = seen.culprit
    if about is not None:
        place = innermost_frame(about.frames)
        says = ABOUT[about.kind].format(about.text)
        under = [f"{says}{say_where(place, 'at')}.", *under]
        at, raising = (place, about.frames) if place else (at, raising)
    return make_diagnosis(cause, None, at, message, *under, led=raising, advice=advice)


def raising_frames(raised: Raised) -> tuple[Frame, ...]:
    """Where an exception was raised, innermost first; of old observations by their traceback."""
    return raised.frames or tuple(
        Frame(file=file, line=int(line), function=function)
        for file, line, function in reversed(
            re.findall(r'File "([^"]+)", line (\d+), in (\S+)', raised.traceback)
        )
        if not file.startswith(PLUMBING)
    )


def false_alarms(seen: Observation) -> tuple[str, ...]:
    """The known warnings about missing gradients, if everything that should learn does."""
    if gradient_status(seen) is not Gradient.FLOWING or seen.raised is not None:
        return ()
    return tuple(warned.message for warned in seen.warnings if FALSE_ALARM.search(warned.message))


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


def find_still(seen: Observation) -> list[Parameter]:
    """The parameters that got a gradient and did not change."""
    return [p for p in seen.parameters if p.learns and not p.changed and best_step(p) == "f"]


def find_starving(seen: Observation) -> list[Parameter]:
    """The parameters that should learn and got no gradient."""
    return [p for p in seen.parameters if p.learns and best_step(p) == "n"]


def got_gradients(seen: Observation) -> bool:
    """Whether any parameter that should learn got a gradient, even one of zeros."""
    return any(p.gradients.strip("n") for p in seen.parameters if p.learns)


def make_diagnosis(
    cause: Cause,
    module: str | None,
    at: Frame | None,
    *lines: str,
    led: Sequence[Frame] = (),
    user: Frame | None = None,
    advice: str = "",
) -> Diagnosis:
    """A diagnosis with these lines of text.

    Args:
        cause: why.
        module: what it is about.
        at: the line that is responsible.
        lines: the text.
        led: the frames that led there; the innermost one of the user is named beside ``at``.
        user: the user's line, if it is not one of these.
        advice: what to do, if that is more exact than the advice of the cause.
    """
    if user is None and (at is None or not at.user):
        user = users_frame(led)
    return Diagnosis(
        cause=cause,
        module=module,
        place=at,
        text=lines,
        user=None if user == at else user,
        advice=advice,
    )


def innermost_frame(frames: Sequence[Frame]) -> Frame | None:
    """The innermost of some frames, or None."""
    return frames[0] if frames else None


def users_frame(frames: Iterable[Frame]) -> Frame | None:
    """The innermost of some frames that is in a file of the user, or None."""
    return next((frame for frame in frames if frame.user), None)


def format_frame(at: Frame | None) -> str:
    """A line of code as a person looks it up."""
    if at is None:
        return "at a line that was not seen"
    return f"{at.file}:{at.line}, {at.function}"


def begin(text: str) -> str:
    """``text`` as the beginning of a sentence."""
    return f"{text[:1].upper()}{text[1:]}"


def say_where(at: Frame | None, how: str) -> str:
    """The end of a sentence: ``, at FILE:LINE, FUNCTION``, ``; it is built at …``, or nothing."""
    mark = "," if how in {"at", "at or before", "called at", "built at"} else ";"
    return "" if at is None else f"{mark} {how} {format_frame(at)}"


def quote_few(names: Iterable[str]) -> str:
    """The first few names, each in quotes, and how many more there are."""
    return few([f"`{name}`" for name in names], MOST_MODULES)


def name_module(module: str | None, kind: str | None) -> str:
    """A module with its type."""
    return f"`{module}`" if not kind or kind == module else f"`{module}` ({kind})"


def module_of(parameter: Parameter) -> str:
    """The module that owns a parameter."""
    return parameter.module or parameter.name


def outermost(some: Sequence[Parameter], seen: Observation) -> list[str]:
    """The largest modules in which only ``some`` parameters should learn."""
    names = {p.name for p in some}
    others = (module_of(p) for p in seen.parameters if p.learns and p.name not in names)
    taken = {around for module in others for around in outwards(module)}
    found = (
        next((around for around in outwards(module) if around not in taken), module)
        for module in map(module_of, some)
    )
    return list(dict.fromkeys(found))


def outwards(module: str) -> Iterable[str]:
    """The names of a module and of those around it, the outermost first."""
    return accumulate(module.split("."), "{}.{}".format)


def say_what_learns(seen: Observation) -> tuple[str, ...]:
    """A sentence about which modules learn and which do not, if there are some of each."""
    learning, still = group_by_learning(seen.parameters)
    if not learning or not still:
        return ()
    some, others = few(learning, MOST_GROUPS, "; "), few(still, MOST_GROUPS, "; ")
    return (f"Learning: {some}. Not learning: {others}.",)


def learns(parameter: Parameter) -> bool:
    """Whether it got a finite gradient that is not zero, and changed."""
    return "f" in parameter.gradients and parameter.changed


def group_by_learning(
    parameters: Iterable[Parameter],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The modules whose parameters learn, and those whose parameters do not, of what should learn.

    A module stands for all below it if they are alike. Modules that differ only by numbers are one
    entry, such as "layers.0-5.attention: 24 parameters".
    """
    return _group_names(tuple((p.name, learns(p)) for p in parameters if p.learns))


@lru_cache(maxsize=1024)  # many cells of a matrix have the same model in the same state
def _group_names(
    names: tuple[tuple[str, bool], ...],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    states = {tuple(name.split(".")): state for name, state in names}
    below: dict[tuple[str, ...], set[bool]] = {}
    for name, state in states.items():
        for depth in range(1, len(name) + 1):
            below.setdefault(name[:depth], set()).add(state)
    counts: dict[bool, dict[tuple[str, ...], int]] = {True: {}, False: {}}
    for name, state in states.items():
        depth = next(depth for depth in range(1, len(name) + 1) if len(below[name[:depth]]) == 1)
        counts[state][name[:depth]] = counts[state].get(name[:depth], 0) + 1
    return merge_numbered(counts[True]), merge_numbered(counts[False])


def merge_numbered(counts: dict[tuple[str, ...], int]) -> tuple[str, ...]:
    """One text for each module, or for several modules that differ only by numbers.

    Args:
        counts: how many parameters each module has, by the parts of its dotted name.
    """
    alike: dict[tuple[tuple[str, ...], int], list[tuple[str, ...]]] = {}
    for module, count in counts.items():
        pattern = tuple("#" if part.isdecimal() else part for part in module)
        alike.setdefault((pattern, count), []).append(module)
    return tuple(
        f"{join_names(modules)}: {counted(each * len(modules), 'parameter')}"
        for (_, each), modules in alike.items()
    )


def join_names(modules: Sequence[tuple[str, ...]]) -> str:
    """One name for modules that differ only by numbers."""
    columns = [list(dict.fromkeys(column)) for column in zip(*modules, strict=True)]
    return ".".join(
        column[0] if len(column) == 1 else join_numbers([int(part) for part in column])
        for column in columns
    )


def join_numbers(values: Sequence[int]) -> str:
    """Some numbers: ``0-5`` if none is missing, else ``{0,2,5}``."""
    ordered = sorted(values)
    if all(after == before + 1 for before, after in pairwise(ordered)):
        return f"{ordered[0]}-{ordered[-1]}"
    return "{" + ",".join(map(str, ordered)) + "}"
