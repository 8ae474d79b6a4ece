"""Step times become a ratio, an interval and a verdict, on data whose answer is known."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradmatrix.measure import statistics
from gradmatrix.measure.statistics import ALPHA, Size
from tests.simulated import (
    MARGIN,
    ROUNDS,
    SERVERS,
    Model,
    estimate,
    judged,
    known,
    most,
    processes,
    seeds,
    verdicts,
)


@given(seeds)
def test_swapping_the_sides_inverts_the_ratio(seed: int) -> None:
    """The choice of the baseline changes the sign only."""
    generations = processes(np.random.default_rng(seed), effect=0.05)
    swapped = [np.roll(each, SERVERS, axis=1) for each in generations]
    there, back = estimate(generations), estimate(swapped)
    assert pytest.approx(there.difference) == -back.difference
    assert (there.baseline, there.candidate) == pytest.approx((back.candidate, back.baseline))


@given(seeds, st.floats(1e-6, 1e6))
def test_the_unit_does_not_matter(seed: int, factor: float) -> None:
    """Seconds and milliseconds give the same ratio, error and noise floor."""
    generations = processes(np.random.default_rng(seed))
    seconds, others = estimate(generations), estimate([each * factor for each in generations])
    assert (seconds.difference, seconds.error, seconds.floor) == pytest.approx(
        (others.difference, others.error, others.floor), rel=1e-6, abs=1e-9
    )


@given(seeds, st.floats(-0.2, 0.2))
def test_a_machine_that_slows_down_steadily_makes_no_difference(seed: int, drift: float) -> None:
    """The two blocks of each server have the same middle in time."""
    generator = np.random.default_rng(seed)
    rounds = []
    for _ in range(ROUNDS):
        order = generator.permutation(2 * SERVERS)
        when = np.empty((2 * SERVERS, 2))
        when[order, 0] = np.arange(2 * SERVERS)
        when[order, 1] = np.arange(4 * SERVERS, 2 * SERVERS, -1) - 1
        rounds.append(np.exp(drift * when / (4 * SERVERS)))
    assert pytest.approx(0, abs=1e-9) == estimate([np.stack(rounds)]).difference


@given(seeds, st.floats(2, 1000))
def test_a_block_that_was_disturbed_does_not_count(seed: int, factor: float) -> None:
    """One block of each process takes many times as long, and nearly all of it is trimmed."""
    generations = processes(np.random.default_rng(seed), effect=0.03)
    before = estimate(generations)
    for each in generations:
        each[0, :SERVERS, 0] *= factor
    assert pytest.approx(before.difference, abs=0.02) == estimate(generations).difference


def test_a_difference_that_is_there_is_the_estimate() -> None:
    """Without noise it is exact. Levels are medians in the measured unit."""
    times = np.full((ROUNDS, 2 * SERVERS, 2), 0.002)
    times[:, SERVERS:] *= 1.05
    found = estimate([times, times])
    assert (math.log(1.05), 0.002, 0.0021) == pytest.approx(
        (found.difference, found.baseline, found.candidate)
    )
    assert (statistics.SMALLEST, 0.0) == pytest.approx((found.error, found.floor))


@pytest.mark.slow
@pytest.mark.parametrize(("server", "process"), [(0.01, 0.01), (0.0, 0.02), (0.003, 0.005)])
def test_the_standard_error_is_as_large_as_the_spread_of_estimates(
    server: float, process: float
) -> None:
    """Over many simulated comparisons, estimates vary as much as the standard error says."""
    generator = np.random.default_rng(11)
    found = [
        statistics.of_blocks([processes(generator, server=server, process=process)])
        for _ in range(250)
    ]
    scatter = float(np.std([each.difference for each in found]))
    said = math.sqrt(float(np.mean([each.error**2 for each in found])))
    assert pytest.approx(scatter, rel=0.15) == said


@pytest.mark.slow
@pytest.mark.parametrize("noisier", [1.0, 10.0])
def test_sides_that_differ_in_noise_are_called_different_no_more_often(noisier: float) -> None:
    """Of 2000 pairs with equal means 1 % are, within chance.

    With pooled degrees of freedom it is 3 %.
    """
    generator = np.random.default_rng(2)
    noise = np.repeat([0.01, 0.01 * noisier], SERVERS)
    found = [
        statistics.of_servers([np.exp(generator.normal(0, noise, (1, 2 * SERVERS)))])
        for _ in range(2000)
    ]
    assert sum(each.p < 0.01 for each in found) <= 34


def test_degrees_of_freedom_are_those_of_the_noisier_side_to_those_of_both() -> None:
    """Five servers a side give eight if both vary equally, and four if only one side varies."""
    scatter = np.array([-0.02, -0.01, 0, 0.01, 0.02])
    alike, unlike = (
        statistics.of_servers([np.exp(np.concatenate([scatter * factor, scatter]))[None, :]])
        for factor in (1, 1e-3)
    )
    assert (8, 4) == pytest.approx((alike.freedom, unlike.freedom), rel=1e-3)


ASKED = ALPHA / 2
"""Of one comparison in two, which share the error probability: step time and memory."""
MODELS = {
    "alike": Model(server=0.003, process=0.005),
    "3 of 10 servers 5 % slower": Model(server=0.001, process=0.002, share=0.3),
    "half of the servers 5 % slower": Model(server=0.001, process=0.002, share=0.5),
    "1 of 10 servers 15 % slower": Model(server=0.002, process=0.005, share=0.1, mode=0.15),
}


@pytest.mark.slow
@pytest.mark.parametrize("crews", [1, 2])
@pytest.mark.parametrize("margin", [1e-9, MARGIN])
@pytest.mark.parametrize("name", MODELS)
def test_equal_sides_are_called_different_as_seldom_as_asked(
    name: str, margin: float, crews: int
) -> None:
    """A simulated comparison has the looks of a real one, and servers of one or two kinds.

    While outliers were bounded, five times as many were called different.
    """
    found = verdicts(1000, 3, MODELS[name], crews=crews, margin=margin)
    right = found[Size.SAME] + found[Size.INCONCLUSIVE]
    assert 1000 - right <= most(1000, ASKED)


@pytest.mark.slow
@pytest.mark.parametrize("crews", [2, 3])
@pytest.mark.parametrize(
    "model",
    [
        Model(server=0.001, process=0.002, effect=math.log1p(MARGIN)),
        Model(server=0.001, process=0.002, candidate_share=1 / 3),
    ],
    ids=["all servers slower by the margin", "1 of 3 servers of the candidate 5 % slower"],
)
def test_sides_that_differ_by_the_margin_are_called_the_same_as_seldom_as_asked(
    model: Model, crews: int
) -> None:
    """If none of the servers happens to be slow, the candidate looks like an equal one."""
    found = verdicts(1000, 4, model, crews=crews)
    share = model.candidate_share
    unseen = (1 - share) ** (SERVERS * crews) if share else 0.0
    assert found[Size.SAME] <= most(1000, ASKED + unseen)


@pytest.mark.parametrize(("effect", "size"), [(0.05, Size.MORE), (-0.05, Size.LESS)])
def test_five_per_cent_is_found(effect: float, size: Size) -> None:
    """Of 60 simulated comparisons, nearly always."""
    assert verdicts(60, 5, Model(effect=effect, server=0.005, process=0.005))[size] >= 54


@pytest.mark.slow
def test_two_per_cent_is_found_more_often_than_not() -> None:
    """Where the servers differ by as much as they were seen to on a quiet machine.

    That it is more than the margin takes more servers.
    """
    model = Model(effect=math.log(1.02), server=0.003, process=0.005)
    one, four = (verdicts(100, 6, model, crews=crews) for crews in (1, 4))
    assert one[Size.MORE] + one[Size.PROBABLY_MORE] >= 50
    assert four[Size.MORE] >= 50


def test_equal_sides_are_called_the_same_where_there_is_little_noise() -> None:
    """The whole interval fits into the margin; of six servers a side that is not enough."""
    model = Model(server=0.0005, process=0.0005)
    assert verdicts(40, 7, model, crews=2)[Size.SAME] == 40
    assert verdicts(40, 7, model)[Size.INCONCLUSIVE] == 40


@given(st.lists(st.floats(0, 1), max_size=30))
def test_however_often_one_looks_no_more_is_spent(looks: list[float]) -> None:
    """The parts of the error probability add up to the whole at the end of the budget."""
    at = [0.0, *sorted(looks), 1.0]
    parts = [statistics.spent(after) - statistics.spent(before) for before, after in pairwise(at)]
    assert all(part >= 0 for part in parts)
    assert pytest.approx(ALPHA) == sum(parts)


def test_past_its_end_a_budget_gives_no_more() -> None:
    """The last look may come a little late."""
    assert (statistics.spent(0), statistics.spent(1)) == (
        statistics.spent(-1),
        statistics.spent(1.5),
    )


@pytest.mark.parametrize(
    ("difference", "half", "floor", "size"),
    [
        (0.0, 0.005, 0.0, Size.SAME),
        (0.005, 0.005, 0.02, Size.SAME),
        (0.006, 0.005, 0.0, Size.PROBABLY_MORE),
        (0.004, 0.007, 0.0, Size.INCONCLUSIVE),
        (0.05, 0.01, 0.0, Size.MORE),
        (-0.05, 0.01, 0.0, Size.LESS),
        (0.015, 0.01, 0.0, Size.PROBABLY_MORE),
        (-0.015, 0.01, 0.0, Size.PROBABLY_LESS),
        (0.02, 0.01, 0.0, Size.PROBABLY_MORE),
        (0.05, 0.06, 0.0, Size.INCONCLUSIVE),
        (0.05, 0.01, 0.06, Size.INCONCLUSIVE),
        (-0.05, 0.01, 0.06, Size.INCONCLUSIVE),
        (0.0, 0.5, 0.0, Size.INCONCLUSIVE),
    ],
)
def test_the_verdict(difference: float, half: float, floor: float, size: Size) -> None:
    """The interval is beyond margin (0.01) and noise floor, beyond 1, within the margin, or not."""
    assert size is statistics.verdict(known(difference, floor=floor), half, 0.01)


@pytest.mark.parametrize(
    ("margin", "size"), [(0.01, Size.MORE), (0.03, Size.PROBABLY_MORE), (0.1, Size.SAME)]
)
def test_a_wider_margin_makes_the_same_of_more(margin: float, size: Size) -> None:
    """The user chooses what counts as the same."""
    assert size is judged(known(0.025, error=0.002), margin).verdict


def test_the_interval_holds_the_ratio() -> None:
    """Both ends are the same factor away from it."""
    found = judged(known(0.05, error=0.004))
    assert found.low < found.ratio < found.high
    assert pytest.approx(found.ratio**2) == found.low * found.high
    assert pytest.approx(math.exp(0.05)) == found.ratio


def test_the_interval_is_the_published_quantile() -> None:
    """Student's t with 10 degrees of freedom: 3.169 standard errors for 99 %, 4.587 for 99.9 %."""
    found = known(0, error=1)
    assert (3.169, 4.587) == pytest.approx(
        (found.half_width(0.01), found.half_width(0.001)), rel=1e-3
    )


def test_many_comparisons_widen_every_interval() -> None:
    """Each of ten has a tenth of the error probability. The p-value is not corrected."""
    alone, among = (
        statistics.ratio(known(0.05), alpha=ALPHA, margin=MARGIN, among=many) for many in (1, 10)
    )
    assert among.low < alone.low
    assert (among.p, among.confidence, among.among) == (alone.p, 1 - ALPHA, 10)


def test_an_interval_that_just_reaches_one_has_its_alpha_as_p() -> None:
    """Both come from the same test."""
    found = known(known(0, error=0.01).half_width(0.01), error=0.01)
    assert pytest.approx(0.01) == found.p


def test_memory_is_compared_by_one_value_for_each_process() -> None:
    """A tenth more on every server of the candidate, in every generation."""
    peaks = np.array([[100.0] * 5 + [110.0] * 5, [102.0] * 5 + [112.2] * 5])
    found = statistics.of_servers([peaks])
    assert (math.log(1.1), 101.0, 111.1) == pytest.approx(
        (found.difference, found.baseline, found.candidate)
    )
    assert judged(found).verdict is Size.MORE


@given(st.integers(1, 1000), st.integers(statistics.SHORTEST, 60))
def test_what_is_constant_is_steady_from_the_start(step_s: int, count: int) -> None:
    """It has no warm-up."""
    assert statistics.steady_from([step_s] * count) == 0


def test_a_warm_up_is_left_out() -> None:
    """Eight steps become shorter, and then forty vary by 1 %."""
    steady = np.random.default_rng(1).normal(0.01, 0.0001, 40)
    found = statistics.steady_from(
        [*(0.01 * (1 + 2.0 ** (3 - each)) for each in range(8)), *steady]
    )
    assert found is not None
    assert 5 <= found <= 16


@pytest.mark.parametrize("count", [statistics.SHORTEST, 12, 30])
@pytest.mark.parametrize("change", [-0.0002, 0.0002])
def test_what_has_not_come_to_rest_is_not_steady(change: float, count: int) -> None:
    """Every step is longer, or shorter, than the last one.

    This includes the smallest number of steps.
    """
    assert statistics.steady_from([0.01 + change * each for each in range(count)]) is None


@pytest.mark.parametrize("count", range(statistics.SHORTEST))
def test_a_few_steps_say_nothing(count: int) -> None:
    """This holds even if they are equal."""
    assert statistics.steady_from([0.01] * count) is None
