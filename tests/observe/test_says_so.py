"""Whether the stack reports a misuse: which wording names the problem, and what passes."""

from __future__ import annotations

import pytest

from gradmatrix.core.model import Role
from gradmatrix.core.outcomes import Outcome
from gradmatrix.judge.verdict import Verdict, passes, says_so
from tests.factories import make_observation, make_raised, make_warned

SAYS_SO = [
    "element 0 of tensors does not require grad and does not have a grad_fn",
    "None of the inputs have requires_grad=True. Gradients will be None",
    "optimizer got an empty parameter list",
    "One of the differentiated Tensors does not require grad",
    "a leaf Variable that requires grad is being used in an in-place operation.",
    "loss has no grad_fn: nothing to differentiate",
    "The model does not have any trainable parameters.",
    "You have no trainable layers",
    "All parameters are frozen",
    "The learning rate is 0, nothing will be trained",
    "found zero learning rate",
    "3 parameters are not held by the optimizer",
    "All parameters have requires_grad=False",
    "Gradients are zero",
]
MISLEADS = [
    (
        "torch.utils.checkpoint: please pass in use_reentrant=True or use_reentrant=False "
        "explicitly. The default of use_reentrant will be updated to be False in the future. "
        "To maintain current behavior, pass True."
    ),
    (
        "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
        "use_reentrant=False is recommended, but if you need to preserve the current default "
        "behavior, you can pass use_reentrant=True."
    ),
    (
        "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and "
        "later, you should call them in the opposite order: `optimizer.step()` before "
        "`lr_scheduler.step()`."
    ),
    "`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.",
    (
        "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
        "Consider using tensor.detach() first."
    ),
    (
        "To copy construct from a tensor, it is recommended to use "
        "sourceTensor.detach().clone().requires_grad_(True)"
    ),
    "got an unexpected loss: tensor(0.6931, grad_fn=<NllLossBackward0>)",
    "`gradient_checkpointing_enable` is deprecated and will be removed in v6.",
    "no gradient accumulation with this strategy",
    "<frozen importlib._bootstrap>:241: builtin type SwigPyPacked has no __module__ attribute",
    "The current learning rate is 0.5",
    (
        "You should probably TRAIN this model on a down-stream task to be able to use it for "
        "predictions and inference."
    ),
]


@pytest.mark.parametrize("wording", SAYS_SO)
def test_wording_that_names_the_problem_says_so(wording: str) -> None:
    """It may be in a warning or an exception."""
    assert says_so(make_observation(warnings=(make_warned(wording),)))
    assert says_so(make_observation(raised=make_raised(wording)))


@pytest.mark.parametrize("wording", MISLEADS)
def test_wording_about_something_else_does_not_say_so(wording: str) -> None:
    """A hint that also comes with healthy training does not report a misuse."""
    assert not says_so(make_observation(warnings=(make_warned(wording),)))
    assert not says_so(make_observation(raised=make_raised(wording)))


def verdict_of(text: str) -> Verdict:
    """A verdict with this outcome."""
    return Verdict(Outcome(text), None, "")


@pytest.mark.parametrize("role", [Role.CONTROL, Role.REPORTED, Role.REMEDY])
def test_an_ordinary_variant_passes_when_it_trains(role: Role) -> None:
    """Otherwise it fails, whatever the stack reports."""
    said = make_observation(warnings=(make_warned(SAYS_SO[0]),))
    assert [True, False] == [
        passes(role, verdict_of(text), said) for text in ("trains", "gradient:none")
    ]


def test_a_misuse_passes_when_the_stack_says_so() -> None:
    """It cannot train, so an exception or a warning that names the problem is enough."""
    said = make_observation(warnings=(make_warned(SAYS_SO[1]),))
    silent = make_observation(warnings=(make_warned(MISLEADS[0]),))
    assert [True, False] == [
        passes(Role.MISUSE, verdict_of("gradient:none"), seen) for seen in (said, silent)
    ]


def test_a_misuse_without_an_observation_is_silent() -> None:
    """A process that died reported nothing."""
    assert passes(Role.MISUSE, verdict_of("process:signal-11"), None) is False


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize(
    "text", ["setup:unsupported", "setup:no-device", "process:lost", "install:network"]
)
def test_what_was_not_judged_neither_passes_nor_fails(role: Role, text: str) -> None:
    """The stack is not the cause, so there is no verdict."""
    assert passes(role, verdict_of(text), make_observation()) is None
