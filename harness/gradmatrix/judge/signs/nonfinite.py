"""NaN or infinity in a loss, an operation, a gradient or a parameter."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from gradmatrix.core.text import counted
from gradmatrix.judge.causes import Cause
from gradmatrix.judge.signs.calls import never_zeroed
from gradmatrix.judge.verdict import is_finite
from gradmatrix.judge.wording import (
    Diagnosis,
    format_frame,
    innermost_frame,
    make_diagnosis,
    name_module,
    say_where,
    users_frame,
)

if TYPE_CHECKING:
    from gradmatrix.core.observation import Nonfinite, Observation

NONFINITE = re.compile(r"\b(?:nan|inf|infinity)\b", re.IGNORECASE)
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
HALF = "Scale the inputs, or use bfloat16, which has the range of float32."


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
        *(log if trainer and found.nan else []),
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
