"""The observer with threads, exceptions and compilers. It names the cause and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gradmatrix.judge.causes import Cause
from gradmatrix.judge.diagnosis import diagnose
from tests.conftest import OLDEST, culprit, needs_fork

if TYPE_CHECKING:
    from tests.conftest import Workbench

pytestmark = needs_fork

ALWAYS = {
    "Logger.handle",
    "Optimizer.__init__",
    "Optimizer.load_state_dict",
    "torch.autograd.backward",
    "torch.nn.modules.module._global_module_registration_hooks",
    "torch.nn.modules.module._global_parameter_registration_hooks",
    "torch.optim.optimizer._global_optimizer_post_hooks",
    "torch.optim.optimizer._global_optimizer_pre_hooks",
    "warnings.showwarning",
}
"""What is watched until the script ends."""
AUDITED = {
    "Tensor.__setattr__",
    "Tensor.data",
    "Tensor.detach",
    "Tensor.item",
    "Tensor.requires_grad_",
    "enable_grad.__enter__",
    "inference_mode.__enter__",
    "no_grad.__enter__",
    "no_grad.__exit__",
    "set_grad_enabled.__init__",
    "torch.nn.modules.module._global_forward_hooks",
    "torch.nn.utils.clip_grad_norm_",
    "torch.nn.utils.clip_grad.clip_grad_norm_",
    "torch.tensor",
    "torch.zeros_like",
}
"""Some of what is watched during the audited steps only."""


@pytest.fixture
def traces(gradient_bench: Workbench) -> dict[str, set[str]]:
    """The names that have changed, at each moment of an observer that the script itself uses."""
    lines = gradient_bench.run("traces", observe=False).output.splitlines()
    moments = ("after step 1", "after step 2", "at last")
    return {
        at: set(line[len(at) :].split()) for at in moments for line in lines if line.startswith(at)
    }


def test_an_audit_watches_much(traces: dict[str, set[str]]) -> None:
    """Otherwise the next two tests would check nothing."""
    assert set() == (AUDITED | ALWAYS) - traces["after step 1"]


def test_heavy_watching_ends_with_the_audit(traces: dict[str, set[str]]) -> None:
    """It ends after the last audited step, not with the script."""
    assert ALWAYS == traces["after step 2"]


def test_an_observer_leaves_no_trace(traces: dict[str, set[str]]) -> None:
    """All originals are restored."""
    assert set() == traces["at last"]


@pytest.mark.parametrize(
    "variant",
    [
        "whole",
        "reentrant",
        "non_reentrant",
        "penalised",
        "scripted",
        "thread",
        "generators",
        "exits_twisted",
    ],
)
def test_numbers_do_not_depend_on_the_observer(gradient_bench: Workbench, variant: str) -> None:
    """Weights, saved tensors and random numbers equal those of a run that only counts steps."""
    watched, light = (
        gradient_bench.run(variant, script="watched", observe=observe) for observe in (True, False)
    )
    assert ("trains", watched.output) == (watched.outcome, light.output)
    assert 9 == len([line for line in light.output.splitlines() if "0x" in line])


@pytest.mark.parametrize("variant", ["compiled_eager", "compiled_aot"])
def test_a_compiled_model_with_a_broken_graph_is_watched(
    gradient_bench: Workbench, variant: str
) -> None:
    """Its parts are compiled during the audit.

    There is no finding, and the numbers are the same.
    """
    watched, light = (gradient_bench.run(variant, observe=observe) for observe in (True, False))
    numbers = [
        [line for line in ran.output.splitlines() if "0x" in line] for ran in (watched, light)
    ]
    assert ("setup:unsupported" if gradient_bench.stack == OLDEST else "trains") == watched.outcome
    assert (numbers[1], None, ()) == (
        numbers[0],
        diagnose(watched.seen),
        watched.seen.observer_errors,
    )


@pytest.mark.parametrize(
    ("variant", "cause", "module"),
    [
        ("thread_and_fault", Cause.GRAD_MODE_OFF, "blocks.0"),
        ("swallowed_inside", Cause.DETACHED, "blocks.1"),
        ("swallowed_under_no_grad", Cause.GRAD_MODE_OFF, "Model.blocks.0"),
    ],
)
def test_what_happens_beside_it_does_not_hide_a_fault(
    gradient_bench: Workbench, variant: str, cause: Cause, module: str
) -> None:
    """A thread stays under no_grad, or a module raises an exception that the script catches."""
    found = diagnose(gradient_bench.run(variant).seen)
    assert found is not None
    assert found.place is not None
    assert (cause, module, culprit("watched", variant)) == (
        found.cause,
        found.module,
        found.place.line,
    )
