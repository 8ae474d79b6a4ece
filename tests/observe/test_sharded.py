"""Engines that train copies of the parameters, under the observer, as DeepSpeed's ZeRO does."""

from __future__ import annotations

import pytest

from tests.conftest import Workbench, needs_fork

pytestmark = needs_fork


@pytest.mark.parametrize(
    ("variant", "outcome", "gradient"),
    [
        ("stage_2", "trains", "flowing"),
        ("stage_3", "trains", "flowing"),
        ("stage_3_groups", "trains", "flowing"),
        ("stage_2_unused", "gradient:partial", "partial"),
        ("stage_3_unused", "gradient:partial", "partial"),
        ("stage_3_zero", "gradient:zero", "zero"),
        ("stage_3_no_graph", "step:no-grad-fn", "none"),
    ],
)
def test_a_sharded_model_gets_its_outcome(
    gradient_bench: Workbench, variant: str, outcome: str, gradient: str
) -> None:
    """The gradients are read when backward gives them, although the optimizer never sees them."""
    ran = gradient_bench.run(variant)
    assert (outcome, gradient, ()) == (ran.outcome, ran.verdict.gradient, ran.seen.observer_errors)


@pytest.mark.parametrize("variant", ["stage_2", "stage_3"])
def test_what_the_optimizer_holds_a_copy_of_counts_as_held(
    gradient_bench: Workbench, variant: str
) -> None:
    """Each parameter has its own gradients and its whole shape."""
    seen = gradient_bench.run(variant).seen
    named = [p for p in seen.parameters if not p.name.startswith("parameter#")]
    assert {(True, True, True)} == {(p.learns, p.held, p.changed) for p in named}
    assert {"f"} == {p.gradients[-1] for p in named}
    assert all(size for p in named for size in p.shape)
    assert seen.unheld is None


def test_a_step_for_each_group_is_one_step(gradient_bench: Workbench) -> None:
    """The losses and norms are those of an engine that steps once for all groups."""
    apart, together = (gradient_bench.run(f"stage_3{end}").seen for end in ("_groups", ""))
    assert (8, 3) == (apart.steps, len(apart.step_times_s))
    assert together.losses == pytest.approx(apart.losses)
    assert together.gradient_norms == pytest.approx(apart.gradient_norms)


def test_of_a_partial_gradient_the_parameters_are_named(gradient_bench: Workbench) -> None:
    """The flat copy has a gradient; the layer that takes no part has none."""
    seen = gradient_bench.run("stage_3_unused").seen
    starved = [p.name for p in seen.parameters if p.learns and "f" not in p.gradients]
    assert ["blocks.1.linear.weight", "blocks.1.linear.bias"] == starved


def test_a_module_still_runs_when_a_hook_inside_it_has_computed(
    gradient_bench: Workbench,
) -> None:
    """The module is named whose forward detached the tensor."""
    severed = gradient_bench.run("hook_computes").seen.severed
    assert ["Holding"] == [event.type for event in severed if event.frames[0].function == "forward"]
