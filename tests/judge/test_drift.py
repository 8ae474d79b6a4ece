"""How far the losses of one seed drift apart."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gradmatrix.judge.relations import drift
from tests.compared import NEW, OLD, record
from tests.factories import make_observation


def words(*losses: float) -> str:
    """What is said of these losses against 1, 0.75, 0.5 and 0.25."""
    return str(drift(record(OLD), record(NEW, observation=make_observation(losses=losses))))


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ((1.0, 0.75, 0.5, 0.25), "identical"),
        ((1.0, 0.75, 0.5, 0.26), "0.01 from step 4"),
        ((1.0, 0.750001, 0.5, 0.27), "1e-06 from step 2, 0.02 at step 4"),
        ((1.0, 0.80, 0.51, 0.25), "0.05 from step 2"),
    ],
)
def test_the_drift_is_told_from_where_it_starts(losses: tuple[float, ...], expected: str) -> None:
    """And where it is largest, if that is elsewhere."""
    assert expected == words(*losses)


def test_a_loss_near_zero_makes_no_drift_of_its_own() -> None:
    """The difference is relative to the largest loss, not to one that happens to be tiny."""
    before = record(OLD, observation=make_observation(losses=(0.1, 0.0)))
    after = record(NEW, observation=make_observation(losses=(0.1, 1e-8)))
    assert "1e-07 from step 2" == str(drift(before, after))


@pytest.mark.parametrize(
    "losses", [(1.0, 0.75), (1.0, 0.75, "nan", 0.25), (1.0, None, 0.5, 0.25), ()]
)
def test_losses_that_do_not_compare_have_no_drift(losses: tuple[float | str | None, ...]) -> None:
    """Fewer steps, no number, no scalar."""
    assert None is drift(record(OLD), record(NEW, observation=make_observation(losses=losses)))


def test_a_cell_that_fails_on_a_side_has_no_drift() -> None:
    """Its losses are those of something else."""
    assert None is drift(
        record(OLD), record(NEW, outcome="gradient:none", observation=make_observation())
    )


def test_variants_that_disagree_drift_as_others_do() -> None:
    """They train."""
    assert "identical" == str(
        drift(
            record(OLD, outcome="relation:disagrees", observation=make_observation()), record(NEW)
        )
    )


@pytest.mark.parametrize("name", ["scenario", "steps", "threads", "device"])
def test_another_script_or_machine_has_no_drift(name: str) -> None:
    """The packages are not all that differs."""
    after = record(NEW)
    assert None is drift(record(OLD), replace(after, inputs={**after.inputs, name: "another"}))


def test_zero_losses_are_identical() -> None:
    """Nothing is divided by them."""
    before, after = (
        record(lock, observation=make_observation(losses=(0.0, 0.0))) for lock in (OLD, NEW)
    )
    assert "identical" == str(drift(before, after))
