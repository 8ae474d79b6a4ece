"""How often a tool was right, and the bounds for this share."""

from __future__ import annotations

import pytest

from tools.bench_comparison import (
    FASTER,
    MEMORY,
    NOTHING,
    OURS,
    SLOWER,
    TIME,
    Tally,
    Trial,
    shortcomings,
    tallies,
)


def make_trial(
    verdict: str = "same",
    *,
    per_cent: float = 0.0,
    number: int = 0,
    busy: bool = False,
    seconds: float = 30.0,
    tool: str = OURS,
    reading: str = TIME,
) -> Trial:
    """One comparison that may take 120 s."""
    return Trial(
        tool=tool,
        per_cent=per_cent,
        number=number,
        busy=busy,
        verdicts={reading: verdict},
        seconds=seconds,
        limit_s=120.0,
        stack="stack",
        low=0.99,
        high=1.03,
    )


def of_all(trials: list[Trial]) -> Tally:
    """The tally over both states of the other core."""
    return tallies(trials)[0]


@pytest.mark.parametrize(("wrong", "met"), [(0, True), (2, True), (3, False)])
def test_one_per_cent_of_equal_sides_may_be_called_different(wrong: int, met: bool) -> None:
    """Two of two hundred may, in either direction."""
    verdicts = [*([SLOWER, FASTER, SLOWER][:wrong]), *["same"] * (200 - wrong)]
    assert met == of_all([make_trial(each) for each in verdicts]).met


@pytest.mark.parametrize(
    ("per_cent", "found", "met"),
    [(5.0, 38, True), (5.0, 37, False), (2.0, 20, True), (2.0, 19, False)],
)
def test_a_slowdown_must_be_found_often_enough(per_cent: float, found: int, met: bool) -> None:
    """It is 95 % of forty runs at 5 %, and half of them at 2 %."""
    verdicts = [SLOWER] * found + ["inconclusive"] * (40 - found)
    assert met == of_all([make_trial(each, per_cent=per_cent) for each in verdicts]).met


def test_what_is_found_too_late_is_not_found() -> None:
    """The bound includes the time."""
    tally = of_all([make_trial(SLOWER, per_cent=5.0, seconds=s) for s in (119.0, 121.0)])
    assert (2, 1, 1) == (tally.more, tally.late, tally.right)


def test_other_tools_are_never_late() -> None:
    """Their time can only be chosen roughly."""
    assert 1 == of_all([make_trial(SLOWER, per_cent=5.0, seconds=121.0, tool="hyperfine")]).right


def test_faster_is_no_find_of_a_slowdown() -> None:
    """A verdict in the wrong direction is worse than none."""
    assert 0 == of_all([make_trial(FASTER, per_cent=5.0)]).right


def test_an_inconclusive_comparison_of_equal_sides_is_no_false_alarm() -> None:
    """It has no verdict."""
    assert 0 == of_all([make_trial("inconclusive")]).right


def test_the_states_of_the_other_core_are_distinguished() -> None:
    """First come all trials, then those with it idle, then busy."""
    found = tallies([make_trial(), make_trial(busy=True), make_trial(SLOWER, busy=True)])
    assert [(None, 3, 1), (False, 1, 0), (True, 2, 1)] == [
        (each.busy, each.of, each.right) for each in found
    ]


def test_only_our_step_times_have_a_bound() -> None:
    """Other tools and memory are shown without one."""
    trials = [
        make_trial(SLOWER, tool="hyperfine"),
        make_trial("hungrier", reading=MEMORY),
        make_trial(),
    ]
    assert {(OURS, TIME): True, (OURS, MEMORY): None, ("hyperfine", TIME): None} == {
        (each.tool, each.reading): each.met for each in tallies(trials)
    }


def test_a_false_verdict_on_memory_is_counted() -> None:
    """It has its own words."""
    assert 1 == of_all([make_trial("hungrier", reading=MEMORY), make_trial(reading=MEMORY)]).right


def test_a_missed_bound_is_reported_in_words() -> None:
    """The sentence has the count and the required number."""
    trials = [make_trial(NOTHING, per_cent=5.0), make_trial(SLOWER)]
    assert [
        "1 of 1 pairs of equal sides were called different: wanted <= 1%",
        "0 of 1 slowed by 5 % were called slower in time: wanted >= 95%",
    ] == shortcomings(tallies(trials))


def test_the_interval_of_a_share_is_that_of_clopper_and_pearson() -> None:
    """None of 200: the upper end is 1 - 0.025 ** (1 / 200)."""
    low, high = of_all([make_trial()] * 200).interval
    assert low == 0
    assert pytest.approx(1 - 0.025 ** (1 / 200)) == high
