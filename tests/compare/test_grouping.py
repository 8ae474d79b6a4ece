"""Cells that changed alike and share a cause are one group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gradmatrix.compare.comparison import compare
from gradmatrix.core.model import Failure, Gradient, Role
from tests.compared import LIBRARY, NEW, OLD, SCENARIOS, everything, raising, record, side
from tests.factories import make_lock

if TYPE_CHECKING:
    from gradmatrix.compare.comparison import Group

PLACE = "transformers/other.py"


def together(
    first: dict[str, object], second: dict[str, object], outcome: str = "step:exception"
) -> list[list[str]]:
    """The variants of each group, where two cells regressed with these facts."""
    before = side(OLD, record(OLD, "first"), record(OLD, "second"))
    after = side(
        NEW,
        record(NEW, "first", "step:exception", **first),
        record(NEW, "second", outcome, **second),
    )
    return [
        [cell.variant for cell in each.cells] for each in compare(before, after, SCENARIOS).groups
    ]


@pytest.mark.parametrize(
    ("second", "outcome"),
    [
        (raising(99), "step:exception"),
        (raising(99, "another message of the same function"), "step:exception"),
    ],
)
def test_the_same_reason_and_place_are_one_cause(second: dict[str, object], outcome: str) -> None:
    """Lines move and messages have numbers in them: the function of a library is the place."""
    assert [["first", "second"]] == together(raising(7), second, outcome)


@pytest.mark.parametrize(
    ("second", "outcome"),
    [
        (raising(7, file=PLACE), "step:exception"),
        (raising(7), "setup:exception"),
        ({"observation": None, "message": "it broke"}, "install:build"),
    ],
)
def test_another_phase_reason_or_place_is_another_cause(
    second: dict[str, object], outcome: str
) -> None:
    """Whatever the message is."""
    assert [["first"], ["second"]] == sorted(together(raising(7), second, outcome))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("it broke at 0x7f2a of 13", [["first", "second"]]),
        ("no such argument", [["first"], ["second"]]),
    ],
)
def test_in_the_script_itself_the_message_tells_causes_apart(
    message: str, expected: list[list[str]]
) -> None:
    """All of a scenario is one function; addresses and sizes are no difference."""
    assert expected == together(
        raising(7, "it broke at 0x10 of 9", "train.py"), raising(9, message, "train.py")
    )


def test_a_column_that_cannot_be_resolved_is_one_cause() -> None:
    """All of its cells have the same reason."""
    torn = make_lock(
        "torn",
        versions={},
        digest="",
        failure=Failure(outcome="resolve:conflict", message="a needs b<2"),
    )
    names = ("first", "second", "other")
    before = side(OLD, *(record(OLD, name) for name in names))
    facts: dict[str, object] = {"observation": None, "message": "a needs b<2"}
    found = compare(
        before,
        side(torn, *(record(torn, name, "resolve:conflict", **facts) for name in names)),
        SCENARIOS,
    )
    assert [("resolve:conflict", ("a needs b<2",), 3)] == [
        (g.outcome, g.text, len(g.cells)) for g in found.groups
    ]
    assert "a needs b<2" == found.pairs[0].candidate.failure


def test_a_group_has_the_diagnosis_and_what_was_seen_to_help() -> None:
    """Of the side that fails; the remedy is a cell of it that trains."""
    (group,) = (
        each for each in everything().groups if each.change == "regressed" and not each.misuse
    )
    assert ("exception", LIBRARY, "sums/remedy") == (
        group.cause,
        group.place and group.place.file,
        group.remedy,
    )
    assert ("ValueError: mat1 and mat2", f"Raised under {LIBRARY}:70, forward.") == group.text
    assert "This works on new: what remedy means (sums/remedy trains there)." == group.advice


def test_what_is_fixed_is_told_by_what_was_wrong() -> None:
    """The baseline's failure."""
    (group,) = (each for each in everything().groups if each.change == "fixed" and not each.misuse)
    assert ("trl/trainer.py", "ValueError: was bad") == (
        group.place and group.place.file,
        group.text[0],
    )


def test_misuse_is_never_in_a_group_with_what_should_train() -> None:
    """The same outcome means another thing."""
    before = side(
        OLD,
        record(OLD, "first"),
        record(OLD, "frozen", "step:no-grad-fn", role=Role.MISUSE, passed=True),
    )
    facts: dict[str, object] = {
        "gradient": Gradient.NONE,
        "message": "nothing came",
        "observation": None,
    }
    after = side(
        NEW,
        record(NEW, "first", "gradient:none", **facts),
        record(NEW, "frozen", "gradient:none", role=Role.MISUSE, **facts),
    )
    assert [False, True] == [each.misuse for each in compare(before, after, SCENARIOS).groups]


def test_regressions_come_first_and_the_biggest_of_them_before_others() -> None:
    """In the order in which somebody looks at them."""
    names = ("first", "second", "other")
    before = side(
        OLD,
        *(record(OLD, name) for name in names),
        record(OLD, "mended", "step:exception", **raising()),
    )
    after = side(
        NEW,
        record(NEW, "first", "step:exception", **raising(file=PLACE)),
        *(record(NEW, name, "step:exception", **raising()) for name in names[1:]),
        record(NEW, "mended"),
    )
    groups: tuple[Group, ...] = compare(before, after, SCENARIOS).groups
    assert [("regressed", 2), ("regressed", 1), ("fixed", 1)] == [
        (each.change, len(each.cells)) for each in groups
    ]


def test_what_is_new_and_fails_is_told_by_its_cause() -> None:
    """What is new and passes needs none."""
    after = side(NEW, record(NEW, "first", "step:exception", **raising()), record(NEW, "second"))
    found = compare(side(OLD), after, SCENARIOS)
    assert [("new", ["first"])] == [
        (each.change, [cell.variant for cell in each.cells]) for each in found.groups
    ]
