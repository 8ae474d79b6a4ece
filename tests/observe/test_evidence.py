"""Lost gradients of every kind on the oldest and newest torch: cause, module and line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gradmatrix.judge.causes import Cause
from gradmatrix.judge.diagnosis import diagnose
from tests.conftest import NEWEST, OLDEST, culprit, needs_fork

if TYPE_CHECKING:
    from tests.conftest import Ran, Workbench

    Table = dict[str, tuple[Cause, str | None]]
    """By variant, the cause and the module that are to be named."""

pytestmark = needs_fork

LOSING: Table = {
    "decorated_step": (Cause.CLOSURE, "embed"),
    "no_grad_block": (Cause.GRAD_MODE_OFF, "blocks.0"),
    "no_grad_forward": (Cause.GRAD_MODE_OFF, "embed"),
    "no_grad_inside": (Cause.GRAD_MODE_OFF, "blocks.1.linear"),
    "no_grad_decorator": (Cause.GRAD_MODE_OFF, "blocks.1.linear"),
    "inference_mode_block": (Cause.INFERENCE_MODE, "blocks.0"),
    "inference_mode_forward": (Cause.INFERENCE_MODE, "embed"),
    "left_off": (Cause.GRAD_MODE_OFF, "blocks.0"),
    "off_from_the_start": (Cause.GRAD_MODE_OFF, "embed"),
    "no_grad_loss": (Cause.GRAD_MODE_OFF, None),
    "detached": (Cause.DETACHED, "blocks.0"),
    "data": (Cause.DETACHED, "blocks.0"),
    "numpy": (Cause.DETACHED, "blocks.0"),
    "listed": (Cause.DETACHED, "blocks.0"),
    "made_anew": (Cause.DETACHED, "blocks.0"),
    "zeros": (Cause.DETACHED, "blocks.0"),
    "detached_inside": (Cause.DETACHED, "blocks.1"),
    "item": (Cause.DETACHED, "auxiliary"),
    "rewrapped": (Cause.REBUILT, "Model"),
    "required": (Cause.REBUILT, "Model"),
    "detached_loss": (Cause.DETACHED, "Model"),
    "beside_generation": (Cause.DETACHED, "Model.blocks.0"),
}
RECOMPUTING: Table = {
    "reentrant_frozen_embeddings": (Cause.CHECKPOINT_INPUTS, "blocks.0"),
    "reentrant_detached_input": (Cause.DETACHED, "embed"),
    "detached_inside_reentrant": (Cause.DETACHED, "blocks.0"),
    "no_grad_inside_reentrant": (Cause.GRAD_MODE_OFF, "blocks.0"),
}
STEPPING: Table = {
    "cleared": (Cause.DROPPED, "embed"),
    "dropped": (Cause.DROPPED, "blocks.1.linear"),
    "all_frozen": (Cause.FROZEN, "embed"),
    "all_frozen_by_hand": (Cause.FROZEN, "embed"),
    "of_a_copy": (Cause.OTHER_PARAMETERS, "embed"),
    "replaced": (Cause.OTHER_PARAMETERS, "head"),
    "left_out": (Cause.OTHER_PARAMETERS, "blocks.1.linear"),
    "never_steps": (Cause.NEVER_STEPPED, "embed"),
    "idle_step": (Cause.NEVER_STEPPED, "embed"),
    "rate_zero": (Cause.LEARNING_RATE, "embed"),
    "rounded": (Cause.ROUNDING, "embed"),
}
BREAKING: Table = {
    "nan_hook": (Cause.NONFINITE_GRADIENT, "blocks.1.linear"),
    "infinite_hook": (Cause.NONFINITE_GRADIENT, "blocks.1.linear"),
    "nan_hook_on_hidden": (Cause.NONFINITE_GRADIENT, "blocks.0.linear"),
    "nan_output": (Cause.NONFINITE_OUTPUT, "blocks.0"),
    "raised_at_nan": (Cause.NONFINITE_OUTPUT, "blocks.0"),
    "large_update": (Cause.NONFINITE_UPDATE, "embed"),
    "zeroed_hook": (Cause.ZERO, "blocks.1.linear"),
    "rounded_hidden": (Cause.ZERO, "blocks.0"),
    "clipped": (Cause.CLIPPED, "head"),
}
BY_SCRIPT = {
    "losing": LOSING,
    "recomputing": RECOMPUTING,
    "stepping": STEPPING,
    "breaking": BREAKING,
}
CASES = [
    (script, name, *said) for script, table in BY_SCRIPT.items() for name, said in table.items()
]
HEALTHY = [
    *(
        ("recomputing", name)
        for name in ("reentrant", "non_reentrant", "generation", "inference_evaluation")
    ),
    *(
        ("watched", name)
        for name in ("whole", "penalised", "scripted", "thread", "generators", "exits_twisted")
    ),
    *(
        ("training", name)
        for name in ("closure", "autocast", "adapter", "shared", "two_optimizers", "functional")
    ),
]


def named(ran: Ran) -> tuple[Cause, str | None, str | None, int | None] | None:
    """The cause, module, file and line in a cell's diagnosis."""
    found = diagnose(ran.seen)
    if found is None:
        return None
    at = found.place
    return found.cause, found.module, at.file if at else None, at.line if at else None


@pytest.mark.parametrize(("script", "variant", "cause", "module"), CASES)
def test_cause_module_and_line_are_named(
    gradient_bench: Workbench, script: str, variant: str, cause: Cause, module: str | None
) -> None:
    """The fake has a mark on the line."""
    ran = gradient_bench.run(variant, script=script)
    assert (cause, module, f"{script}.py", culprit(script, variant)) == named(ran)
    assert () == ran.seen.observer_errors


@pytest.mark.parametrize(
    ("variant", "line"),
    [
        ("poisoned_cache", "poisoned_cache"),
        ("poisoned_cache_mixed", "poisoned_cache"),
        ("poisoned_cache_inference", "poisoned_cache_inference"),
    ],
)
def test_a_poisoned_autocast_cache_is_named(
    gradient_bench: Workbench, variant: str, line: str
) -> None:
    """The pass that filled it is named.

    Torch 2.11 has a cache for each kind of pass and no such fault.
    """
    at = "recomputing.py", culprit("recomputing", line)
    expected = {OLDEST: (Cause.AUTOCAST_CACHE, "embed", *at), NEWEST: None}
    assert expected[gradient_bench.stack] == named(gradient_bench.run(variant))


def test_an_update_in_half_precision_is_named(gradient_bench: Workbench) -> None:
    """The second moment and eps are both 0. The oldest torch does not support this on a CPU."""
    expected = {
        OLDEST: (Cause.EXCEPTION, None, "loop.py"),
        NEWEST: (
            Cause.NONFINITE_UPDATE,
            "Scale",
            "breaking.py",
            culprit("breaking", "half_update"),
        ),
    }[gradient_bench.stack]
    assert expected == (named(gradient_bench.run("half_update")) or ())[: len(expected)]


def test_one_optimizer_of_two_that_never_steps_is_named(gradient_bench: Workbench) -> None:
    """Its parameters get gradients and do not change, while the rest of the model learns."""
    at = "stepping.py", culprit("stepping", "one_never_steps")
    assert (Cause.NEVER_STEPPED, "head", *at) == named(gradient_bench.run("one_never_steps"))


def test_an_output_that_is_not_used_is_named(gradient_bench: Workbench) -> None:
    """No operation took it out of the graph. Only the line of the next operation is known."""
    assert (Cause.UNUSED, "blocks.0", "loop.py") == (named(gradient_bench.run("forgotten")) or ())[
        :3
    ]


def test_a_loss_that_is_multiplied_by_zero_is_named(gradient_bench: Workbench) -> None:
    """The line is that of the product."""
    assert (Cause.ZERO, None, "breaking.py", 154) == named(gradient_bench.run("zero_loss"))


def test_a_decorator_and_its_call_are_distinguished(gradient_bench: Workbench) -> None:
    """The finding has the decorated function and where it was called."""
    [lost] = gradient_bench.run("decorated_step").seen.lost
    assert lost.switch is not None
    assert lost.switch.decorated is not None
    assert ("no_grad", "step", "call_back") == (
        lost.switch.how,
        lost.switch.decorated.function,
        lost.switch.frames[0].function,
    )


def test_a_frozen_source_of_a_checkpoint_is_named(gradient_bench: Workbench) -> None:
    """The output of the embeddings is its input."""
    lost = gradient_bench.run("reentrant_frozen_embeddings").seen.lost
    assert ["embed"] == [each.checkpoint.source for each in lost if each.checkpoint is not None]


def test_modules_that_lost_it_in_one_way_are_one_entry(gradient_bench: Workbench) -> None:
    """Their number and that of the steps do not matter: embeddings, layers, head and model."""
    [lost] = gradient_bench.run("no_grad_forward").seen.lost
    assert (9, False, "embed") == (lost.modules, lost.entered, lost.module)


def test_of_a_tensor_that_was_severed_it_is_known_what_lies_behind(
    gradient_bench: Workbench,
) -> None:
    """Behind it are the embeddings and the first layer, weight and bias."""
    [severed] = gradient_bench.run("detached").seen.severed
    assert ("detach", "blocks.0", "Block", 4) == (
        severed.how,
        severed.module,
        severed.type,
        severed.parameters,
    )


def test_frozen_parameters_are_counted_by_line(gradient_bench: Workbench) -> None:
    """One line froze all ten."""
    [froze] = gradient_bench.run("all_frozen_by_hand").seen.frozen
    assert (10, culprit("stepping", "all_frozen_by_hand")) == (
        froze.parameters,
        froze.frames[0].line,
    )


@pytest.mark.parametrize(("script", "variant"), HEALTHY)
def test_a_healthy_script_has_no_findings(
    gradient_bench: Workbench, script: str, variant: str
) -> None:
    """Other tensors may be detached, frozen or run without gradients."""
    seen = gradient_bench.run(variant, script=script).seen
    assert ((), (), (), (), (), (), None) == (
        seen.lost,
        seen.severed,
        seen.leaves,
        seen.frozen,
        seen.hooks,
        seen.optimizers,
        diagnose(seen),
    )
    assert () == seen.observer_errors
