"""What to do about a cause: a variant that trains on that stack, or a plain sentence."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from gradmatrix.core.model import Role
from gradmatrix.judge.causes import (
    Cause,
    Remedy,
    advise,
    explain,
    on_stack,
    remedy_for,
    remedy_on_its_stack,
)
from gradmatrix.judge.wording import Diagnosis
from tests.factories import make_cell, make_record, make_scenario, make_variant

if TYPE_CHECKING:
    from gradmatrix.core.model import Record

FROZEN = Cause.FROZEN
OTHER = make_variant("other", Role.REMEDY, cures=("detached",))
CONTROL = make_variant("control", cures=("frozen",))
FIRST = make_variant("first", Role.REMEDY, cures=("detached", "frozen"))
SECOND = make_variant("second", Role.REMEDY, cures=("frozen",))
SCENARIOS = {
    "one": make_scenario("one", OTHER, CONTROL, FIRST, SECOND),
    "two": make_scenario("two", FIRST),
    "three": make_scenario("three", OTHER),
}


def cells(
    *names: str, stack: str = "stack", device: str = "cpu", outcome: str = "trains"
) -> list[Record]:
    """Records of these cells, by ``scenario/variant``."""
    pairs = (name.split("/") for name in names)
    return [
        make_record(outcome, make_cell(stack, scenario, variant, device))
        for scenario, variant in pairs
    ]


EVERYTHING = cells(
    "one/other", "one/control", "one/first", "one/second", "two/first", "three/other"
)


def found(records: list[Record], scenario: str | None = None, device: str = "cpu") -> str | None:
    """The remedy that is found for frozen parameters, as ``scenario/variant``."""
    there = on_stack(records, "stack", device)
    remedy = remedy_for(FROZEN, SCENARIOS, there, scenario=scenario)
    return None if remedy is None else f"{remedy.cell.scenario}/{remedy.cell.variant}"


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        (None, "one/first"),
        ("one", "one/first"),
        ("two", "two/first"),
        ("three", "one/first"),
        ("gone", "one/first"),
    ],
)
def test_a_remedy_of_the_same_scenario_comes_first(scenario: str | None, expected: str) -> None:
    """Other scenarios come next, and a remedy comes before a control."""
    assert expected == found(EVERYTHING, scenario)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (cells("one/second", "two/first"), "one/second"),
        (cells("one/control"), "one/control"),
        (cells("one/other", "three/other"), None),
        (cells("one/first", outcome="step:no-grad-fn"), None),
        (cells("one/first", stack="another"), None),
        (cells("one/first", device="cuda"), None),
        ([], None),
    ],
)
def test_only_a_cell_that_trains_there_is_a_remedy(
    records: list[Record], expected: str | None
) -> None:
    """It must train on the same stack and device, and be meant against this cause."""
    assert expected == found(records)


def test_a_remedy_counts_only_where_a_variant_that_it_is_for_fails() -> None:
    """Where that one trains, it shows nothing, whatever else fails there."""
    variants = [
        make_variant("whole"),
        make_variant("plain"),
        make_variant("mending", Role.REMEDY, cures=(FROZEN.value,), mends=("whole",)),
    ]
    scenarios = {"one": make_scenario("one", *variants)}
    mending = cells("one/mending")
    broken = {name: cells(f"one/{name}", outcome="step:no-grad-fn") for name in ("whole", "plain")}

    def helps(*records: Record) -> bool:
        return bool(remedy_for(FROZEN, scenarios, on_stack(records, "stack")))

    assert helps(*mending, *broken["whole"])
    assert not helps(*mending, *broken["plain"], *cells("one/whole"))
    assert not helps(*mending, *cells("one/whole", outcome="setup:unsupported"))


def test_a_remedy_on_another_device_does_not_count() -> None:
    """Each device is looked up by itself."""
    records = [*cells("one/first"), *cells("one/second", device="cuda")]
    assert ("one/first", "one/second") == (found(records), found(records, device="cuda"))


def test_the_remedy_of_a_cell_is_found_by_its_stack_device_and_scenario() -> None:
    """The matrix looks up the remedy of a failing cell in this way."""
    records = [*EVERYTHING, *cells("two/first", stack="another", device="cuda")]
    remedy = remedy_on_its_stack(
        FROZEN, SCENARIOS, records, make_cell("another", "one", "reported", "cuda")
    )
    assert (
        Remedy(
            cell=make_cell("another", "two", "first", "cuda"),
            summary="what first means",
            same_stack=True,
        )
        == remedy
    )


def diagnosis(cause: Cause, *lines: str) -> Diagnosis:
    """The advice as text."""
    return Diagnosis(cause=cause, module=None, place=None, text=lines or ("It is frozen.",))


@pytest.mark.parametrize(
    ("same_stack", "expected"),
    [
        (True, "This works on stack: what first means (one/first trains there)."),
        (
            False,
            ("What first means. It was seen to help: one/first trains on stack."),
        ),
    ],
)
def test_advice_names_the_cell_that_shows_it(same_stack: bool, expected: str) -> None:
    """It says whether that cell ran on the same stack."""
    remedy = Remedy(
        cell=make_cell("stack", "one", "first"), summary="what first means", same_stack=same_stack
    )
    assert expected == advise(diagnosis(FROZEN), remedy)


@pytest.mark.parametrize("cause", Cause)
def test_advice_without_a_cell_names_none(cause: Cause) -> None:
    """Nothing is made up."""
    assert (cause.advice or None) == advise(diagnosis(cause), None)


@pytest.mark.parametrize("lines", [1, 4, 5, 6])
def test_an_explanation_has_six_lines_at_most(lines: int) -> None:
    """The last one says what to do."""
    text = explain(diagnosis(FROZEN, *(f"Line {n}." for n in range(lines))), None)
    assert (min(lines, 5) + 1, True) == (len(text), text[-1].startswith(FROZEN.advice))


def test_an_explanation_without_advice_is_the_diagnosis() -> None:
    """There is no advice about an exception of a library."""
    assert ("It broke.",) == explain(diagnosis(Cause.EXCEPTION, "It broke."), None)


@pytest.mark.parametrize("cause", list(Cause))
def test_the_code_that_mends_a_cause_is_code(cause: Cause) -> None:
    """Readers copy it. Every cause but an exception has a situation in their words."""
    ast.parse(cause.mend)
    assert bool(cause.situation) is (cause is not Cause.EXCEPTION)
    assert cause.situation == cause.situation.strip()
