"""Why a script does not train, from hand-made observations: every cause, and which one wins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace

from gradmatrix.core.observation import Froze, Hooked, Nonfinite, Observation, Parameter
from gradmatrix.judge.causes import Cause
from gradmatrix.judge.diagnosis import diagnose, false_alarms
from tests.factories import (
    make_built,
    make_frame,
    make_lost,
    make_observation,
    make_parameter,
    make_raised,
    make_severed,
    make_stopped,
    make_switch,
    make_warned,
)

if TYPE_CHECKING:
    from gradmatrix.judge.wording import Diagnosis

FROZEN = make_parameter("", learns=False, changed=False, frozen=True)
FROZE = Froze(
    modules=("embed", "layers.0", "layers.1", "head"),
    parameters=9,
    frames=(make_frame(4, function="main"),),
)
STILL = make_parameter(name="encoder.weight", changed=False)
ZERO = make_parameter("zzzz", name="encoder.weight", changed=False)
ALARM = "None of the inputs have requires_grad=True. Gradients will be None"


def broken(where: str, **facts: object) -> Nonfinite:
    """The first value that is not finite."""
    first = Nonfinite(
        step=2, where="output", module="encoder", type="Layer", frames=(make_frame(),)
    )
    return msgspec.structs.replace(first, where=where, **facts)


def found(seen: Observation) -> Diagnosis:
    """The diagnosis, which must exist."""
    diagnosis = diagnose(seen)
    assert diagnosis is not None
    return diagnosis


def told(seen: Observation) -> tuple[Cause, str | None, int | None]:
    """Cause, module and line."""
    diagnosis = found(seen)
    return (
        diagnosis.cause,
        diagnosis.module,
        diagnosis.place.line if diagnosis.place is not None else None,
    )


@pytest.mark.parametrize(
    "seen",
    [
        make_observation(),
        make_observation(
            lost=(make_lost(),),
            severed=(make_severed(),),
            frozen=(FROZE,),
            warnings=(make_warned(ALARM),),
        ),
        make_observation(skipped="this release cannot do it"),
        make_observation(no_device=True),
        make_observation(reached="import", raised=make_raised("no module", "ModuleNotFoundError")),
    ],
)
def test_nothing_is_said_where_nothing_is_wrong(seen: Observation) -> None:
    """Cells that train, were not judged, or never reached training have no diagnosis."""
    assert diagnose(seen) is None


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (
            make_observation("fxxx", nonfinite=broken("gradient")),
            (Cause.NONFINITE_GRADIENT, "encoder", 7),
        ),
        (
            make_observation("xxxx", nonfinite=broken("gradient", frames=())),
            (Cause.NONFINITE_GRADIENT, "encoder", None),
        ),
        (
            make_observation(losses=(1.0, "nan"), nonfinite=broken("output")),
            (Cause.NONFINITE_OUTPUT, "encoder", 7),
        ),
        (
            make_observation(last_loss="inf", nonfinite=broken("value")),
            (Cause.NONFINITE_UPDATE, "encoder", 7),
        ),
    ],
)
def test_the_first_nan_is_named(seen: Observation, expected: tuple[Cause, str, int | None]) -> None:
    """It may be in an output, a gradient or a value."""
    if expected[0] is Cause.NONFINITE_GRADIENT:
        seen = msgspec.structs.replace(seen, losses=(1.0, "nan"))
    assert expected == told(seen)


def test_an_error_about_inference_tensors_is_one_of_inference_mode() -> None:
    """A teacher ran in inference mode, and the loss of the student has to keep its output."""
    raised = make_raised("Inference tensors cannot be saved for backward.")
    told = found(make_observation(raised=raised))
    assert Cause.INFERENCE_MODE is told.cause
    assert "torch.no_grad()" in told.advice


@pytest.mark.parametrize(
    ("operation", "where", "says"),
    [
        ("log", "output", "logits"),
        ("sqrt", "output", "clamp(min=0)"),
        ("sqrt", "gradient", "eps"),
        ("**", "gradient", "eps"),
        ("**", "output", "learning rate"),
        ("/", "gradient", "divisor"),
        ("cumprod", "output", ""),
    ],
)
def test_the_advice_fits_the_operation_that_made_nan(operation: str, where: str, says: str) -> None:
    """Where nothing is known to help, none is invented."""
    advice = found(
        make_observation(losses=(1.0, "nan"), nonfinite=broken(where, operation=operation))
    ).advice
    assert says in advice
    assert bool(says) is bool(advice)


def test_an_exception_about_nan_is_explained_by_the_first_one() -> None:
    """An example is a sampler that refuses probabilities."""
    raised = make_raised("probability tensor contains either `inf`, `nan` or element < 0")
    assert (
        Cause.NONFINITE_OUTPUT
        is found(make_observation(raised=raised, nonfinite=broken("output"))).cause
    )


def test_an_exception_about_something_else_is_not() -> None:
    """A mask has infinities in every healthy model."""
    raised = make_raised("no space left")
    assert (
        Cause.EXCEPTION is found(make_observation(raised=raised, nonfinite=broken("output"))).cause
    )


@pytest.mark.parametrize(("dtype", "half"), [("float16", True), ("float32", False)])
def test_half_precision_is_named_if_it_is_used(dtype: str, half: bool) -> None:
    """Without it, the step was too large."""
    parameters = (make_parameter(dtype=dtype),)
    text = found(
        make_observation(last_loss="nan", nonfinite=broken("value"), parameters=parameters)
    ).text
    assert half is ("half precision" in text[1])


def test_everything_frozen_is_named_by_the_last_line_that_froze() -> None:
    """The first few frozen modules are named too."""
    diagnosis = found(make_stopped(parameters=(FROZEN,), frozen=(FROZE,)))
    assert (Cause.FROZEN, "embed", make_frame(4, function="main")) == (
        diagnosis.cause,
        diagnosis.module,
        diagnosis.place,
    )
    assert "`embed`, `layers.0`, `layers.1` and others" in diagnosis.text[1]


def test_everything_frozen_by_an_unknown_line_has_no_line() -> None:
    """The model may have been loaded frozen."""
    froze = msgspec.structs.replace(FROZE, frames=())
    assert (Cause.FROZEN, "embed", None) == told(
        make_stopped(parameters=(FROZEN,), frozen=(froze,))
    )


def test_everything_frozen_with_a_quiet_backward_says_so() -> None:
    """enable_input_require_grads makes the inputs leaves."""
    diagnosis = found(make_observation(parameters=(FROZEN,), frozen=(FROZE,)))
    assert diagnosis.text[-1].startswith("The loss still has a graph")


def test_something_frozen_beside_what_learns_is_not_to_blame() -> None:
    """A frozen base model beside an adapter is normal."""
    assert Cause.UNUSED is found(make_observation("nnnn", frozen=(FROZE,))).cause


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"optimizers": (make_built(steps=0),), "steps": 0}, (Cause.NEVER_STEPPED, "encoder", 20)),
        (
            {"optimizers": (make_built(), make_built(steps=0, frames=()))},
            (Cause.NEVER_STEPPED, "encoder", None),
        ),
        (
            {"optimizers": (make_built(step=make_frame(3, "opt.py")),)},
            (Cause.NEVER_STEPPED, "encoder", 3),
        ),
        (
            {"optimizers": (make_built(learning_rates=(0.0, 0.0)),)},
            (Cause.LEARNING_RATE, "encoder", 20),
        ),
        ({"optimizers": (make_built(),)}, (Cause.ROUNDING, "encoder", 20)),
        ({"optimizers": (make_built(learning_rates=(None,)),)}, (Cause.ROUNDING, "encoder", 20)),
        ({}, (Cause.ROUNDING, "encoder", None)),
    ],
)
def test_a_gradient_that_moves_nothing_is_explained(
    facts: dict[str, Any], expected: tuple[Cause, str, int | None]
) -> None:
    """Reasons are an optimizer that never stepped, a custom step, a rate of 0, and rounding."""
    assert expected == told(make_observation(**{"parameters": (STILL,), **facts}))


def test_a_rate_of_zero_in_one_optimizer_of_two_is_not_the_cause() -> None:
    """The parameters of the other optimizer change."""
    optimizers = (make_built(learning_rates=(0.0,)), make_built())
    assert (
        Cause.ROUNDING is found(make_observation(parameters=(STILL,), optimizers=optimizers)).cause
    )


def test_steps_that_are_rounded_away_have_their_learning_rate() -> None:
    """If it is the same for all of them: a scheduler may begin with a tiny one."""
    tiny = replace(STILL, learning_rate=1e-11)
    text = found(make_observation(parameters=(tiny,), optimizers=(make_built(),))).text[0]
    assert "at a learning rate of 1e-11 the steps were too small" in text
    other = replace(tiny, name="other.weight", learning_rate=1e-12)
    text = found(make_observation(parameters=(tiny, other), optimizers=(make_built(),))).text[0]
    assert "kept the same value: the steps were too small" in text


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ((), "It holds those of another model"),
        ((make_parameter(name="head.weight"),), "They were left out"),
    ],
)
def test_what_no_optimizer_holds_is_named(others: tuple[Parameter, ...], why: str) -> None:
    """It may be all parameters or a part of them."""
    parameters = (make_parameter(name="encoder.weight", held=False, changed=False), *others)
    seen = make_observation(parameters=parameters, optimizers=(make_built(),))
    assert (Cause.OTHER_PARAMETERS, "encoder", 20) == told(seen)
    assert found(seen).text[1].startswith(why)


def test_a_parameter_that_was_replaced_is_named() -> None:
    """The optimizer holds a parameter that no module has any more."""
    parameters = (
        make_parameter("nnnn", name="parameter#1", changed=False),
        make_parameter(name="head.weight", held=False, changed=False),
    )
    seen = make_observation(parameters=parameters, optimizers=(make_built(),))
    assert (Cause.OTHER_PARAMETERS, "head", 20) == told(seen)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, (Cause.ZERO, "encoder", None)),
        (
            {"severed": (make_severed("clip_grad_norm_", module=None),)},
            (Cause.CLIPPED, "encoder", 9),
        ),
        ({"severed": (make_severed("round", module="block"),)}, (Cause.ZERO, "block", 9)),
        ({"zero_output": broken("output", module="mask")}, (Cause.ZERO, "mask", 7)),
        (
            {
                "zero_output": broken("output", module="mask"),
                "severed": (make_severed("zeros_like", module="mask"),),
            },
            (Cause.ZERO, "mask", 9),
        ),
        (
            {"hooks": (Hooked(parameter="encoder.weight", frames=(make_frame(2),)),)},
            (Cause.ZERO, "encoder", 2),
        ),
        (
            {"hooks": (Hooked(parameter="other", frames=(make_frame(2),)),)},
            (Cause.ZERO, "encoder", None),
        ),
    ],
)
def test_gradients_of_zeros_are_explained(
    facts: dict[str, Any], expected: tuple[Cause, str, int | None]
) -> None:
    """Reasons are a hook, clipping, an output of zeros, and a flat function."""
    assert expected == told(
        make_observation(**{"parameters": (ZERO, make_parameter(name="head.weight")), **facts})
    )


def test_cross_entropy_over_one_class_is_named() -> None:
    """Its value is 0, whatever the model gives."""
    output = replace(broken("output", module="loss"), type="CrossEntropyLoss")
    seen = make_observation(parameters=(make_parameter("zzzz", changed=False),), zero_output=output)
    diagnosis = diagnose(seen)
    assert diagnosis is not None
    assert "one class" in diagnosis.advice


def test_gradients_that_are_all_zero_ask_for_a_mask() -> None:
    """The loss does not depend on anything, as with a wrong mask."""
    [line] = found(make_observation("zzzz", "zzzz")).text
    assert line.startswith("All 2 gradients were exactly zero")


def test_an_exception_is_shown_with_its_line() -> None:
    """It is the innermost line outside of torch."""
    frames = [
        ("train.py", 3, "main"),
        ("model.py", 9, "forward"),
        ("torch/nn/modules/linear.py", 5, "forward"),
    ]
    traceback = "".join(
        f'  File "{file}", line {line}, in {function}\n' for file, line, function in frames
    )
    raised = msgspec.structs.replace(make_raised("sizes do not match"), traceback=traceback)
    diagnosis = found(make_observation(raised=raised))
    assert (
        "RuntimeError: sizes do not match",
        "Raised under model.py:9, forward.",
    ) == diagnosis.text


def test_an_exception_about_inference_tensors_names_their_origin() -> None:
    """It is the line of inference_mode, not that of the failing operation."""
    lost = make_lost(inference_mode=True, switch=make_switch(inference=True))
    raised = make_raised("Inference tensors cannot be saved for backward.")
    assert (Cause.INFERENCE_MODE, "encoder", 7) == told(
        make_observation(raised=raised, lost=(lost,))
    )


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (make_observation(warnings=(make_warned(ALARM), make_warned("other"))), (ALARM,)),
        (make_observation("nnnn", warnings=(make_warned(ALARM),)), ()),
        (make_observation(warnings=(make_warned(ALARM),), raised=make_raised()), ()),
        (make_observation(), ()),
    ],
)
def test_a_warning_of_missing_gradients_is_called_false_where_none_is_missing(
    seen: Observation, expected: tuple[str, ...]
) -> None:
    """Elsewhere the warning may be right."""
    assert expected == false_alarms(seen)
