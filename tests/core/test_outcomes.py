"""The outcomes and their table."""

from __future__ import annotations

import pytest

from gradmatrix.core.outcomes import (
    NOT_JUDGED,
    PHASES,
    SPURIOUS,
    TABLE,
    Outcome,
    Phase,
    gradient_note,
    outcomes_by_phase,
    row_of,
)

DESIGNED = """
resolve: conflict no-release index-unreachable
install: network build disk-full hash-mismatch
import: missing-module exception
setup: exception unsupported no-device
step: no-grad-fn exception nonfinite-loss
gradient: none partial zero nonfinite
update: none partial unseen
relation: disagrees
process: timeout out-of-memory signal-9 exit-1 lost disk-full internal-error
"""
ALL = [
    f"{line.split(':')[0]}:{reason}"
    for line in DESIGNED.split("\n")
    if line
    for reason in line.split()[1:]
]


@pytest.mark.parametrize("text", ["trains", *ALL])
def test_every_outcome_of_the_design_is_known(text: str) -> None:
    """Each one prints as its own text."""
    outcome = Outcome(text)
    assert (text, text.partition(":")[2]) == (str(outcome), outcome.reason)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "passes",
        "step",
        "step:",
        ":none",
        "step:none",
        "gradient:no",
        "process:signal-",
        "process:exit-1x",
        "process:signal-N",
        "process:lost-1",
        "TRAINS",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    """An unknown phase or reason is a ValueError."""
    with pytest.raises(ValueError, match="is no outcome"):
        Outcome(text)


def test_every_phase_has_outcomes_and_a_sentence() -> None:
    """They are in the order in which they happen. A cell that trains has no phase."""
    phases = dict.fromkeys(row.phase for row in TABLE)
    assert [None, *Phase] == list(phases)
    assert list(Phase) == list(PHASES)


def test_a_number_stands_for_all_numbers() -> None:
    """All signals have the same row."""
    assert row_of("process:signal-9") is row_of("process:signal-11")


def test_all_outcomes_but_trains_are_listed_by_phase() -> None:
    """The documentation and the pages show this list."""
    listed = [row for _, _, rows in outcomes_by_phase() for row in rows]
    assert list(TABLE[1:]) == listed


def test_only_trains_trains() -> None:
    """Every phase is a failure of some kind."""
    assert ["trains"] == [text for text in ["trains", *ALL] if Outcome(text).trains]


def test_the_spurious_outcomes_are_failures_of_the_machine() -> None:
    """These reasons say nothing about the stack."""
    expected = {
        "resolve:index-unreachable",
        "install:network",
        "install:disk-full",
        "process:lost",
        "process:disk-full",
        "process:internal-error",
    }
    assert expected == {text for text in ["trains", *ALL] if Outcome(text).spurious}


@pytest.mark.parametrize(
    ("outcome", "ran", "shown"),
    [
        ("trains", True, True),
        ("gradient:none", True, True),
        ("process:signal-9", True, True),
        ("relation:disagrees", True, False),
        ("resolve:conflict", False, False),
        ("install:build", False, False),
        ("setup:no-device", False, False),
        ("process:lost", False, False),
    ],
)
def test_one_run_shows_what_ran_and_needs_no_other_variant(
    outcome: str, ran: bool, shown: bool
) -> None:
    """A cell that was not installed or not judged never ran."""
    assert (ran, shown) == (row_of(outcome).ran, row_of(outcome).shown_by_one_run)


@pytest.mark.parametrize(
    ("outcome", "gradient", "expected"),
    [
        ("trains", "flowing", ""),
        ("step:no-grad-fn", "none", ""),
        ("gradient:zero", "zero", ""),
        ("relation:disagrees", "flowing", ""),
        ("update:none", "none", "gradient none"),
        ("step:exception", "flowing", "gradient flowing"),
        ("step:exception", None, ""),
    ],
)
def test_a_gradient_status_is_noted_if_the_outcome_does_not_imply_it(
    outcome: str, gradient: str | None, expected: str
) -> None:
    """An exception may come before or after the first gradients."""
    assert expected == gradient_note(outcome, gradient)


def test_what_is_not_judged_is_spurious_or_was_not_run() -> None:
    """A stack without the feature and a machine without the device are not failures.

    Nor is what could not be seen.
    """
    expected = {*SPURIOUS, "setup:unsupported", "setup:no-device", "update:unseen"}
    assert expected == {text for text in ["trains", *ALL] if not Outcome(text).judged} == NOT_JUDGED
