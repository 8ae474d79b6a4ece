"""Which recorded cells are run again although their key has not changed."""

from __future__ import annotations

from typing import Any

import pytest

from gradmatrix.run.plan import Action
from tests.run.test_plan import only, planned, record_of, replace_limits


@pytest.mark.parametrize(
    ("outcome", "limits", "name"),
    [
        ("process:timeout", {"timeout_s": 61}, "timeout_s"),
        ("process:out-of-memory", {"memory_bytes": 2**31}, "memory_bytes"),
        ("process:out-of-memory", {"memory_bytes": None}, "memory_bytes"),
    ],
)
def test_a_cell_that_met_a_limit_is_run_again_when_that_has_grown(
    outcome: str, limits: dict[str, Any], name: str
) -> None:
    """With a larger limit it may have another outcome."""
    cell = only(planned(record_of(only(planned()), outcome), limits=replace_limits(**limits)))
    assert (Action.RUN, f"the last outcome was {outcome}, and {name} has grown") == (
        cell.action,
        cell.why,
    )


@pytest.mark.parametrize(
    ("outcome", "limits"),
    [
        ("process:timeout", {"timeout_s": 59}),
        ("process:timeout", {"memory_bytes": None}),
        ("process:out-of-memory", {"timeout_s": 61}),
        ("process:out-of-memory", {"memory_bytes": 2**29}),
        ("step:exception", {"timeout_s": 61, "memory_bytes": None}),
        ("trains", {"timeout_s": 61, "memory_bytes": None}),
    ],
)
def test_another_limit_runs_nothing_again(outcome: str, limits: dict[str, Any]) -> None:
    """A limit that was not reached, or that became smaller, changes no outcome."""
    assert (
        Action.KEEP
        is only(
            planned(record_of(only(planned()), outcome), limits=replace_limits(**limits))
        ).action
    )


def test_a_failed_build_is_tried_again() -> None:
    """The outcome is judged, but its cause may be this machine's compiler."""
    cell = only(planned(record_of(only(planned()), "install:build")))
    assert (
        Action.RUN,
        "the last outcome, install:build, may have a missing compiler as its cause",
    ) == (
        cell.action,
        cell.why,
    )
