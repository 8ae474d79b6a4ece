"""Scripts whose gradient goes wrong, under the observer, on the oldest and newest torch."""

from __future__ import annotations

import subprocess

import pytest

from gradmatrix.stacks import environment, sandbox
from tests.conftest import FAKES, ROOT, Workbench, needs_fork, needs_gpu, needs_no_gpu, python_of

pytestmark = needs_fork

MIB = 2**20


@pytest.mark.parametrize(
    ("variant", "outcome", "gradient"),
    [
        ("healthy", "trains", "flowing"),
        ("known_numbers", "trains", "flowing"),
        ("randomness", "trains", "flowing"),
        ("accumulated", "trains", "flowing"),
        ("two_optimizers", "trains", "flowing"),
        ("closure", "trains", "flowing"),
        ("closure_without_gradients", "step:no-grad-fn", "none"),
        ("autocast", "trains", "flowing"),
        ("adapter", "trains", "flowing"),
        ("scaler_skips", "trains", "flowing"),
        ("frozen_half", "trains", "flowing"),
        ("shared", "trains", "flowing"),
        ("functional", "trains", "flowing"),
        ("frozen_at_the_end", "trains", "flowing"),
        ("unfrozen_late", "trains", "flowing"),
        ("empty_parameter", "trains", "flowing"),
        ("complex_parameter", "trains", "flowing"),
        ("clears_in_step", "trains", "flowing"),
        ("optimizer_thrown_away", "trains", "flowing"),
        ("optimizer_made_anew", "trains", "flowing"),
        ("roots_of_a_generator", "trains", "flowing"),
        ("manual_nan", "update:none", "flowing"),
        ("frozen", "step:no-grad-fn", "none"),
        ("detached_loss", "step:no-grad-fn", "none"),
        ("detached_encoder", "gradient:partial", "partial"),
        ("detached_behind_a_leaf", "gradient:none", "none"),
        ("inference_encoder", "gradient:partial", "partial"),
        ("unused", "gradient:partial", "partial"),
        ("zero", "gradient:zero", "zero"),
        ("nonfinite", "gradient:nonfinite", "nonfinite"),
        ("nonfinite_loss", "step:nonfinite-loss", "nonfinite"),
        ("nonfinite_at_last", "step:nonfinite-loss", "flowing"),
        ("rate_zero", "update:none", "flowing"),
        ("rate_zero_half", "update:partial", "flowing"),
        ("other_parameters", "update:none", "flowing"),
        ("held_half", "update:partial", "flowing"),
        ("held_half_apart", "update:partial", "flowing"),
        ("never_steps", "update:none", None),
        ("raises_before", "setup:exception", None),
        ("raises_in_step", "step:exception", "flowing"),
        ("imports_late", "import:missing-module", None),
        ("unsupported", "setup:unsupported", None),
        ("warns", "trains", "flowing"),
        ("allocates", "trains", "flowing"),
    ],
)
def test_a_script_gets_its_outcome(
    gradient_bench: Workbench, variant: str, outcome: str, gradient: str | None
) -> None:
    """Outcome and gradient status are right, and the observer has no errors."""
    ran = gradient_bench.run(variant)
    assert (outcome, gradient, ()) == (ran.outcome, ran.verdict.gradient, ran.seen.observer_errors)


def test_numbers_are_those_of_the_script(gradient_bench: Workbench) -> None:
    """One weight is halved.

    Losses and gradient norms of the audited steps and the last loss are known.
    """
    seen = gradient_bench.run("known_numbers").seen
    assert (1.0, 0.25, 0.0625, 0.015625) == seen.losses
    assert (2.0, 1.0, 0.5, 0.25) == seen.gradient_norms
    assert seen.last_loss == 0.25**7


def test_every_step_counts_once(gradient_bench: Workbench) -> None:
    """Steps are audited, warm-up and timed. Each timed step has a time."""
    seen = gradient_bench.run("healthy", audit=2, warmup=3, timed=5).seen
    assert (10, 5, 2) == (seen.steps, len(seen.step_times_s), len(seen.losses))
    assert {"ff"} == {parameter.gradients for parameter in seen.parameters}
    assert all(seconds > 0 for seconds in seen.step_times_s)
    assert len(seen.waited_s) == len(seen.step_times_s)


def test_losses_of_accumulated_passes_are_added(gradient_bench: Workbench) -> None:
    """Two backward passes make one step and one loss."""
    seen = gradient_bench.run("accumulated").seen
    assert [1, 1, 2, 2, 3, 3, 4, 4] == [call.step for call in seen.backward]
    first = sum(float(call.loss or 0) for call in seen.backward[:2])
    assert (8, first) == (seen.steps, seen.losses[0])


def test_two_optimizers_are_one_clock(gradient_bench: Workbench) -> None:
    """A generator and a discriminator step once each in one training step."""
    seen = gradient_bench.run("two_optimizers").seen
    assert (8, 3) == (seen.steps, len(seen.step_times_s))
    assert {True} == {parameter.held and parameter.changed for parameter in seen.parameters}
    assert {len(seen.losses)} == {len(parameter.gradients) for parameter in seen.parameters}
    assert len(seen.losses) == len(seen.gradient_norms)


def test_a_compiled_model_is_watched_without_a_warning(gradient_bench: Workbench) -> None:
    """The observer causes no warning of torch.compile about hooks, and the graph stays whole."""
    ran = gradient_bench.run("compiled")
    assert ran.outcome == (
        "setup:unsupported" if gradient_bench.stack == "lightning-2.0.3" else "trains"
    )
    assert () == ran.seen.warnings


def test_a_skipped_step_is_no_step(gradient_bench: Workbench) -> None:
    """GradScaler skips a step, and the observer does not wait for it."""
    assert 8 == gradient_bench.run("scaler_skips").seen.steps


def test_a_zero_and_a_missing_gradient_are_distinguished(gradient_bench: Workbench) -> None:
    """The gradient of LoRA's A is zero at step 1, and finite after that."""
    names = {
        parameter.name: parameter.gradients
        for parameter in gradient_bench.run("adapter").seen.parameters
    }
    assert {"0.weight": "zfff", "1.weight": "ffff"} == names


def test_a_shared_parameter_is_one(gradient_bench: Workbench) -> None:
    """It has its first name."""
    names = [parameter.name for parameter in gradient_bench.run("shared").seen.parameters]
    assert ["0.weight", "0.bias", "2.bias"] == names


def test_parameters_that_no_optimizer_holds_are_seen(gradient_bench: Workbench) -> None:
    """They should learn, get gradients, and never change."""
    parameters = gradient_bench.run("held_half").seen.parameters
    still = [(p.name, p.learns, p.gradients) for p in parameters if not p.held and not p.changed]
    assert [("0.weight", True, "ffff"), ("0.bias", True, "ffff")] == still


def test_parts_are_named_by_the_whole_after_the_script_let_go_of_it(
    gradient_bench: Workbench,
) -> None:
    """The outer module has no forward, and is gone when `train` returns."""
    parameters = gradient_bench.run("held_half_apart").seen.parameters
    assert ["encoder.weight", "encoder.bias", "head.weight", "head.bias"] == [
        p.name for p in parameters
    ]


def test_what_is_frozen_on_purpose_need_not_learn(gradient_bench: Workbench) -> None:
    """Only trainable parameters need a gradient."""
    parameters = gradient_bench.run("frozen_half").seen.parameters
    assert ["2.weight", "2.bias"] == [p.name for p in parameters if p.learns]


def test_an_optimizer_of_other_parameters_is_seen(gradient_bench: Workbench) -> None:
    """Its parameters do not learn, and those that should learn are not in it."""
    parameters = gradient_bench.run("other_parameters").seen.parameters
    assert [(True, False)] * 4 + [(False, True)] * 4 == [(p.learns, p.held) for p in parameters]


def test_a_missing_graph_is_traced_to_the_decorated_step(gradient_bench: Workbench) -> None:
    """The first module that lost its gradient is named.

    So is the function that switched gradients off.
    """
    seen = gradient_bench.run("closure_without_gradients").seen
    first = seen.lost[0]
    assert (False, False, None) == (
        seen.backward[0].requires_grad,
        seen.backward[0].grad_enabled,
        seen.backward[0].grad_fn,
    )
    assert (1, "0", "Linear", False, False) == (
        first.step,
        first.module,
        first.type,
        first.grad_enabled,
        first.inference_mode,
    )
    named = [(frame.file, frame.function) for frame in first.frames[:2]]
    assert [("loop.py", "calculate"), ("gradients.py", "step")] == named


@pytest.mark.parametrize("variant", ["detached_encoder", "inference_encoder"])
def test_the_module_that_lost_its_gradient_is_named(
    gradient_bench: Workbench, variant: str
) -> None:
    """There is one finding for all steps, with the modes of that moment and the calling line."""
    [lost] = gradient_bench.run(variant).seen.lost
    assert ("0", 1, 1) == (lost.module, lost.step, lost.modules)
    assert (False, variant == "inference_encoder") == (lost.grad_enabled, lost.inference_mode)
    assert ("gradients.py", "loss") == (lost.frames[0].file, lost.frames[0].function)


def test_a_healthy_script_loses_nothing(gradient_bench: Workbench) -> None:
    """No module is named."""
    assert () == gradient_bench.run("healthy").seen.lost


def test_autocast_is_seen(gradient_bench: Workbench) -> None:
    """Each backward call has the device and the type."""
    calls = gradient_bench.run("autocast").seen.backward
    assert ["cpu:bfloat16"] * 4 == [call.autocast for call in calls]


def test_warnings_are_seen_and_counted(gradient_bench: Workbench) -> None:
    """They come from the warnings module and from loggers.

    Filtered and lower messages stay hidden.
    """
    ran = gradient_bench.run("warns")
    assert [
        ("log:fake.library", "7 parameters are frozen", 1),
        ("UserWarning", "None of the inputs have requires_grad=True.", 3),
    ] == [(warned.category, warned.message, warned.count) for warned in ran.seen.warnings]
    assert "None of the inputs have requires_grad=True." in ran.output


def test_an_exception_is_reported_without_paths_of_the_machine(gradient_bench: Workbench) -> None:
    """It has a type, a message and a traceback."""
    raised = gradient_bench.run("raises_in_step").seen.raised
    assert raised is not None
    assert ("RuntimeError", "the third step fails") == (raised.type, raised.message)
    assert 'File "gradients.py"' in raised.traceback
    assert str(FAKES) not in raised.traceback


def test_memory_of_the_cell_is_measured(gradient_bench: Workbench) -> None:
    """It is the peak of the script, also if it was freed, without the memory of the libraries."""
    seen = gradient_bench.run("allocates").seen
    taken = (seen.peak_memory_bytes or 0) - (seen.start_memory_bytes or 0)
    assert 256 * MIB <= taken < 512 * MIB


@pytest.mark.parametrize(
    "variant",
    ["healthy", "randomness", "accumulated", "two_optimizers", "closure", "autocast", "adapter"],
)
def test_what_is_learned_does_not_depend_on_the_observer(
    gradient_bench: Workbench, variant: str
) -> None:
    """Parameters and random state are equal bit for bit with and without the observer."""
    watched, unwatched = (
        gradient_bench.run(variant, observe=observe).output for observe in (True, False)
    )
    assert watched == unwatched
    assert "0x" in watched


def test_what_is_learned_is_what_the_plain_script_learns(gradient_bench: Workbench) -> None:
    """It runs by hand in the same environment, without this project."""
    command = [
        str(python_of(gradient_bench.stack)),
        "-m",
        "tests.fakes.training",
        "randomness",
        "8",
    ]
    variables = sandbox.variables(threads=1)
    plain = subprocess.run(
        command, capture_output=True, check=True, text=True, env=variables, cwd=ROOT
    ).stdout
    assert plain == gradient_bench.run("randomness").output


def test_a_light_observer_keeps_the_clock_only(gradient_bench: Workbench) -> None:
    """Timing needs no audit, warnings or parameters."""
    seen = gradient_bench.run("warns", observe=False).seen
    assert (8, 3) == (seen.steps, len(seen.step_times_s))
    assert ((), (), (), ()) == (seen.parameters, seen.warnings, seen.losses, seen.backward)


@needs_no_gpu
def test_a_missing_device_is_no_failure(gradient_bench: Workbench) -> None:
    """The child process asks torch."""
    assert "setup:no-device" == gradient_bench.run("healthy", device="cuda").outcome


@needs_gpu
def test_a_gpu_is_named_and_its_memory_measured(process_bench: Workbench) -> None:
    """The peak is that of torch's allocator. Only the newest torch supports the newest devices."""
    ran = process_bench.run("allocates", device="cuda")
    assert "trains" == ran.outcome
    assert environment.gpu_name() == ran.seen.environment["gpu"]
    assert 256 * MIB <= (ran.seen.peak_memory_bytes or 0) < 512 * MIB
