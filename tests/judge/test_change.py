"""A cell on both sides of a comparison, and how it changed."""

from __future__ import annotations

import itertools

import pytest

from gradmatrix.core.model import Gradient, Role
from gradmatrix.judge.change import (
    CellSide,
    Change,
    Standing,
    change_between,
    change_of,
    explain_change,
    is_missing,
)
from tests.compared import NEW, OLD, record
from tests.factories import make_observation

UNJUDGED = {"setup:unsupported", "setup:no-device", "process:lost", "install:network"}


def side(outcome: str | None, *repeats: str, lock: object = OLD, **facts: object) -> CellSide:
    """A side of a cell with this outcome; for None it has no record."""
    if outcome is None:
        return CellSide(None)
    passed = None if outcome in UNJUDGED else outcome == "trains"
    facts = {"passed": passed, **facts}
    return CellSide(record(lock, outcome=outcome, **facts), repeats)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("trains", "trains", "unchanged"),
        ("trains", "step:exception", "regressed"),
        ("step:exception", "trains", "fixed"),
        ("step:exception", "step:exception", "unchanged"),
        ("step:exception", "gradient:none", "broke differently"),
        ("trains", "relation:disagrees", "regressed"),
        ("trains", "install:build", "regressed"),
        ("trains", "setup:unsupported", "gone"),
        ("step:exception", "setup:unsupported", "gone"),
        ("setup:unsupported", "trains", "new"),
        ("setup:unsupported", "step:exception", "new"),
        ("setup:unsupported", "setup:unsupported", None),
        (None, "trains", "new"),
        ("trains", None, None),
        ("process:lost", None, None),
        (None, "setup:unsupported", None),
        ("trains", "process:lost", "inconclusive"),
        ("install:network", "step:exception", "inconclusive"),
        ("trains", "setup:no-device", None),
        ("setup:no-device", "setup:no-device", None),
    ],
)
def test_a_pair_of_outcomes_is_one_change(
    before: str | None, after: str | None, expected: str | None
) -> None:
    """A missing feature is gone or new, and a failure of the machine is nothing: no regressions.

    A cell that the candidate did not run has no change.
    """
    assert expected == change_of(side(before), side(after, lock=NEW))


def test_every_pair_of_verdicts_has_a_change() -> None:
    """Only cells that the candidate did not run, or that no side judged, have none."""
    without = {
        pair for pair in itertools.product(Standing, repeat=2) if change_between(*pair) is None
    }
    not_run = {(before, Standing.MISSING) for before in Standing}
    assert {
        *not_run,
        (Standing.NOTHING, Standing.NOTHING),
        (Standing.MISSING, Standing.NOTHING),
    } == without


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("trains", None, True),
        ("process:lost", None, True),
        ("setup:unsupported", None, False),
        (None, None, False),
        (None, "trains", False),
        ("trains", "setup:unsupported", False),
    ],
)
def test_a_cell_is_missing_where_the_candidate_did_not_run_it(
    before: str | None, after: str | None, *, expected: bool
) -> None:
    """A cell that ran and lacks the feature is not missing."""
    assert expected is is_missing(side(before), side(after, lock=NEW))


def test_failures_with_different_gradient_status_broke_differently() -> None:
    """The gradient status is a column of its own."""
    before = side("step:exception", gradient=Gradient.NONE)
    assert Change.BROKE_DIFFERENTLY is change_of(
        before, side("step:exception", lock=NEW, gradient=Gradient.ZERO)
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("trains", "trains"), ("step:exception", "trains")),
        (("trains", "step:exception"), ("trains",)),
        (("step:exception", "gradient:none"), ("gradient:none",)),
    ],
)
def test_repeats_that_disagree_make_a_cell_inconclusive(
    before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    """It does not matter on which side they are."""
    assert Change.INCONCLUSIVE is change_of(side(*before), side(*after, lock=NEW))


def test_a_cell_that_fails_in_several_ways_has_regressed() -> None:
    """No run of the candidate passes. Calling it flaky would hide that."""
    assert Change.REGRESSED is change_of(
        side("trains"), side("step:exception", "process:timeout", lock=NEW)
    )


def test_repeats_that_agree_change_nothing() -> None:
    """They confirm the first run."""
    after = side("step:exception", "step:exception", lock=NEW)
    assert (Change.REGRESSED, False) == (change_of(side("trains", "trains"), after), after.flaky)


def test_a_lost_repeat_is_no_disagreement() -> None:
    """A lost process is about the machine."""
    assert not side("trains", "process:lost", "trains").flaky


def test_further_runs_that_the_machine_ended_confirm_nothing() -> None:
    """A failure that no further run repeats is not called a regression."""
    after = side("step:exception", "process:lost", "process:lost")
    told = change_of(side("trains", "trains", "trains"), after)
    assert (Change.INCONCLUSIVE, True, False) == (told, after.spurious, after.flaky)
    expected = "The candidate was run again, but only the machine failed: process:lost."
    assert expected in explain_change(Change.INCONCLUSIVE, side("trains", "trains"), after)


def test_a_disagreement_that_further_runs_do_not_show_is_flaky() -> None:
    """Further runs are judged with the variants that must agree, as the first run was."""
    assert not side("relation:disagrees", "relation:disagrees").flaky
    after = side("relation:disagrees", "trains", "trains")
    assert (Change.INCONCLUSIVE, True) == (change_of(side("trains", "trains"), after), after.flaky)


def test_misuse_passes_where_the_stack_says_so() -> None:
    """Its record decides, not its outcome."""
    before = side("step:no-grad-fn", role=Role.MISUSE, passed=True)
    assert Change.REGRESSED is change_of(before, side("gradient:none", role=Role.MISUSE, lock=NEW))


def test_a_cell_in_another_role_is_new() -> None:
    """To pass has another meaning in the new role."""
    after = side("gradient:none", role=Role.MISUSE, lock=NEW)
    assert (Change.NEW, "Its role changed.") == (
        change_of(side("trains"), after),
        explain_change(Change.NEW, side("trains"), after),
    )


def test_the_same_inputs_with_another_verdict_are_inconclusive() -> None:
    """Nothing that the verdict depends on differs, so nothing explains it."""
    before, after = side("trains"), side("step:exception")
    expected = "The verdict changed, but nothing that it depends on did."
    assert (Change.INCONCLUSIVE, expected) == (
        change_of(before, after),
        explain_change(Change.INCONCLUSIVE, before, after),
    )


def test_another_machine_with_the_same_packages_is_judged_elsewhere() -> None:
    """It says nothing about the stack."""
    inputs = {"lock": OLD.digest[:16], "device": "Linux-aarch64", "scenario": "s"}
    before, after = side("trains"), side("step:exception", inputs=inputs)
    assert Change.ELSEWHERE is change_of(before, after)
    assert "It ran on another machine: Linux-x86_64 → Linux-aarch64." == explain_change(
        Change.ELSEWHERE, before, after
    )


def test_another_python_is_a_change_of_the_stack() -> None:
    """The packages are the same."""
    other = make_observation(environment={"python": "3.13.1"})
    before = side("trains", observation=make_observation())
    assert Change.REGRESSED is change_of(before, side("gradient:none", observation=other))


def test_our_own_measurement_is_named_beside_the_packages() -> None:
    """Our own change may be the reason too."""
    inputs = {"lock": NEW.digest[:16], "device": "Linux-x86_64", "scenario": "another"}
    before, after = side("trains"), side("step:exception", inputs=inputs)
    assert Change.REGRESSED is change_of(before, after)
    assert "Our own measurement changed: scenario." == explain_change(
        Change.REGRESSED, before, after
    )


def test_a_flaky_side_is_reported_with_its_runs() -> None:
    """The text says how often each outcome came."""
    after = side("step:exception", "trains", "step:exception", "process:lost", lock=NEW)
    expected = "The candidate is flaky: step:exception 2 of 3, trains 1 of 3."
    assert expected == explain_change(Change.INCONCLUSIVE, side("trains"), after)


def test_a_missing_feature_is_explained_by_the_script() -> None:
    """The message of the script is the explanation."""
    after = side("setup:unsupported", lock=NEW, message="no AdamW here")
    assert "Not judged on the candidate: no AdamW here." == explain_change(
        Change.GONE, side("trains"), after
    )
