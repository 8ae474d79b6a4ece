"""How the output of other tools is read."""

from __future__ import annotations

import pytest

from tools.bench_comparison import FASTER, NOTHING, SLOWER, read_hyperfine, read_pytest_benchmark

STEADY = [1.00, 1.01, 0.99, 1.00, 1.01, 0.99]


def slowed(by: float) -> list[float]:
    """The same runs, slower."""
    return [each * by for each in STEADY]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (1.0, [NOTHING, NOTHING, NOTHING]),
        (1.01, [NOTHING, NOTHING, NOTHING]),
        (1.02, [SLOWER, NOTHING, SLOWER]),
        (1.05, [SLOWER, SLOWER, SLOWER]),
        (0.95, [FASTER, FASTER, FASTER]),
    ],
)
def test_hyperfine_is_read_in_three_ways(by: float, expected: list[str]) -> None:
    """Its "± u" counts once or twice, and it has a t-test.

    Each run has a standard deviation of 0.9 %.
    """
    assert expected == list(read_hyperfine(STEADY, slowed(by))[1].values())


def test_the_ratio_is_the_candidates_mean_over_the_baselines() -> None:
    """Hyperfine may print its inverse."""
    assert pytest.approx(0.9) == read_hyperfine(STEADY, slowed(0.9))[0]


def test_pytest_benchmark_flags_what_is_past_its_threshold() -> None:
    """Its mean and its min are read, in both directions."""
    baseline, candidate = {"mean": 1.0, "min": 0.9}, {"mean": 1.04, "min": 0.81}
    assert {
        "mean:3%": SLOWER,
        "mean:5%": NOTHING,
        "min:3%": FASTER,
        "min:5%": FASTER,
    } == read_pytest_benchmark(baseline, candidate)
