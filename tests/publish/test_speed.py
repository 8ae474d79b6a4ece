"""Speeds of different runs, with the speed of the machine taken out."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from gradmatrix.core.model import Reference
from gradmatrix.publish.speed import NEAR, Band, changes, corrected, speeds, usual_s
from tests.factories import NOON, make_cell, make_observation, make_record

if TYPE_CHECKING:
    from gradmatrix.core.model import Record

CPU = {"cpu": "some processor"}


def measured(
    step_s: float = 0.5,
    reference_s: float = 0.001,
    *,
    waited_s: float = 0.0,
    run: str = "run",
    number: int = 0,
    program: str = "program",
) -> Record:
    """A cell of a run with twelve equal steps, and ten equal samples of the reference."""
    return make_record(
        cell=make_cell(stack=run, variant=f"v{number}"),
        run=run,
        recorded_at=NOON + dt.timedelta(seconds=number),
        observation=make_observation(
            step_times_s=(step_s + waited_s,) * 12, waited_s=(waited_s,) * 12, environment=CPU
        ),
        reference=Reference(program, (reference_s,) * 5, (reference_s,) * 5),
    )


def bands(*records: Record) -> list[Band]:
    """The corrected rates, compared with each other."""
    found = [each for _, each in speeds(records)]
    return [corrected(each, usual_s(found)) for each in found]


def test_a_slow_hour_of_the_machine_is_taken_out() -> None:
    """Steps and reference are twice as long."""
    fast, slow = bands(measured(0.5, 0.001, run="a"), measured(1.0, 0.002, run="b"))
    assert fast == slow
    assert fast.median == pytest.approx(2 * 0.001 / 0.0015)  # the usual time is between both


def test_a_slow_stack_stays_slow() -> None:
    """Only its steps are longer."""
    fast, slow = bands(measured(0.5, run="a"), measured(1.0, run="b"))
    assert fast.median == pytest.approx(2 * slow.median)
    assert fast.is_apart(slow)


def test_time_without_a_core_does_not_count() -> None:
    """Another process had it."""
    alone, beside = bands(measured(run="a"), measured(waited_s=2.0, run="b"))
    assert alone.median == pytest.approx(beside.median)


def test_the_reference_is_that_of_the_cells_around_it() -> None:
    """One slow moment beside a cell says little. Cells of another run do not count."""
    records = [measured(number=number) for number in range(2 * NEAR + 1)]
    records[NEAR] = measured(reference_s=0.003, number=NEAR)
    other = [measured(reference_s=0.009, run="other", number=number) for number in range(9)]
    found = {record.cell: each for record, each in speeds([*other, *reversed(records)])}
    assert 0.001 == found[records[NEAR].cell].reference_s.median
    assert 0.009 == found[other[0].cell].reference_s.median


def test_its_spread_widens_the_band() -> None:
    """The low end has the low quartiles of steps and reference, the high end the high ones."""
    samples = Reference("program", (0.001, 0.001, 0.001, 0.002, 0.002), (0.002,) * 5)
    record = replace(measured(), reference=samples)
    (found,) = bands(record)
    assert found.low < found.median == found.high == 2.0


def test_two_programs_are_never_compared() -> None:
    """Each has a usual time of its own."""
    one, other = bands(measured(run="a"), measured(reference_s=0.004, program="new", run="b"))
    assert one == other


@pytest.mark.parametrize(
    "record",
    [
        make_record(),
        replace(measured(), outcome="gradient:missing"),
        replace(measured(), observation=make_observation(waited_s=())),
    ],
)
def test_without_a_reference_nothing_is_corrected(record: Record) -> None:
    """Nor without step times of its own."""
    assert not bands(record)


@pytest.mark.parametrize(
    ("medians", "expected"),
    [
        ([10, 10, 10, 10], []),
        ([10, 10, 20, 20], [1]),
        ([10, 10, 20, 10, 10], []),  # one slow stack is no change
        ([10, 10, 10, 20], [2]),  # but the newest one is all that there is
        ([10, 20, 20], [0]),
        ([10, 10.5, 11, 11.5, 12], []),  # neighbours overlap
        ([10, 20, 30, 40], [0, 1, 2]),
        ([20, 10, 20], []),
        ([10], []),
        ([], []),
    ],
)
def test_a_change_is_seen_on_both_sides(medians: list[float], expected: list[int]) -> None:
    """The bands of the two stacks before it are apart from those of the two after it."""
    found = changes([Band(0.9 * each, each, 1.1 * each) for each in medians])
    assert expected == [before for before, _ in found]
