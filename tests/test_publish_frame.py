"""Records as tables: the words and numbers of a cell."""

from __future__ import annotations

import pytest

from harness.model import Gradient, Record, Role
from harness.publish.frame import frame
from harness.publish.grid import rate, steps_per_s, words
from tests.factories import make_cell, make_observation, make_record, make_scenario


def test_steps_per_second_are_the_median_and_quartiles_of_the_raw_samples() -> None:
    """Steps of 125, 250, 250 and 500 ms."""
    expected = {"median": 4.0, "low": 3.5, "high": 5.0, "samples": [8.0, 4.0, 4.0, 2.0]}
    assert expected == steps_per_s(make_record())


@pytest.mark.parametrize("times", [(), (0.5,), (0.0, 0.5)])
def test_too_few_timed_steps_have_no_rate(times: tuple[float, ...]) -> None:
    """A median of one sample would claim a spread that nobody measured."""
    assert steps_per_s(make_record(observation=make_observation(step_times_s=times))) is None


def test_what_does_not_train_has_no_rate() -> None:
    """It is no use to be fast at training nothing."""
    assert steps_per_s(make_record("update:none", observation=make_observation())) is None


@pytest.mark.parametrize(
    ("per_second", "expected"), [(0.125, "0.1/s"), (4.0, "4.0/s"), (9.5, "9.5/s"), (10.0, "10/s"), (3461.7, "3462/s")]
)
def test_a_rate_has_no_needless_digits(per_second: float, expected: str) -> None:
    """One decimal below ten."""
    assert expected == rate(per_second)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (make_record(), "✓ trains, 4.0/s"),
        (make_record(observation=make_observation(step_times_s=())), "✓ trains"),
        (make_record("step:no-grad-fn", gradient=Gradient.NONE), "✗ step:no-grad-fn"),
        (make_record("step:exception", gradient=Gradient.FLOWING), "✗ step:exception (gradient flowing)"),
        (make_record("update:none", gradient=Gradient.PARTIAL), "✗ update:none (gradient partial)"),
        (make_record("gradient:partial", gradient=Gradient.PARTIAL), "✗ gradient:partial"),
        (make_record("setup:unsupported", passed=None), "– setup:unsupported"),
        (
            make_record("step:no-grad-fn", role=Role.MISUSE, passed=True, observation=make_observation()),
            "✓ says so: step:no-grad-fn",
        ),
        (make_record("trains", role=Role.MISUSE, passed=False), "✗ silent: trains"),
        (make_record("setup:no-device", role=Role.MISUSE, passed=None), "– setup:no-device"),
        (make_record("resolve:conflict", role=Role.MISUSE), "✗ resolve:conflict"),
        (make_record("process:signal-11", role=Role.MISUSE), "✗ process:signal-11"),
    ],
)
def test_a_cell_is_a_symbol_and_words(record: Record, expected: str) -> None:
    """Never colour alone."""
    assert expected == words(record)


def test_unknown_cells_come_last() -> None:
    """A frame of records that are not part of the matrix is still a frame."""
    found = frame(
        [make_record(cell=make_cell("x", "unknown", "y")), make_record()], {"scenario": make_scenario()}, ["stack"]
    )
    assert ["scenario", "unknown"] == list(found["scenario"])
