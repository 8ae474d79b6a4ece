"""Outlying servers and generations, and the noise floor: how they change a verdict."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gradmatrix.measure import statistics
from gradmatrix.measure.statistics import ALPHA, Size
from tests.simulated import ROUNDS, SERVERS, estimate, judged, processes


def test_the_noise_floor_is_the_worst_parting_of_the_baseline() -> None:
    """Of five servers at 0, 0, 0, 3 and 5 % the two slow ones differ most from the rest: by 4 %."""
    levels = np.array([0, 0, 0, 0.03, 0.05, 0, 0, 0, 0, 0])
    times = np.exp(np.tile(levels[None, :, None], (ROUNDS, 1, 2)))
    assert pytest.approx(0.04) == estimate([times]).floor


def test_servers_that_took_the_place_of_others_are_parted_with_them() -> None:
    """A floor of single servers would never fall. Each place of both sets together is at 2 %."""
    sets = [
        np.array(levels * 2)
        for levels in ([0, 0.01, 0.02, 0.03, 0.04], [0.04, 0.03, 0.02, 0.01, 0])
    ]
    times = [[np.exp(np.tile(levels[None, :, None], (ROUNDS, 1, 2)))] for levels in sets]
    assert pytest.approx(0) == statistics.of_blocks(times).floor


def test_a_slow_server_counts_in_full() -> None:
    """One of twelve is always 30 % slower: that is how this side behaves."""
    generator = np.random.default_rng(1)
    sets = [processes(generator, server=0.003) for _ in range(2)]
    before = statistics.of_blocks(sets)
    for each in sets[0]:
        each[:, SERVERS] *= 1.3
    found = statistics.of_blocks(sets)
    assert pytest.approx(before.difference + math.log(1.3) / 12, abs=0.003) == found.difference
    assert Size.INCONCLUSIVE is judged(found).verdict


@pytest.mark.slow
@pytest.mark.parametrize("sets", [1, 4])
@pytest.mark.parametrize("unlucky", [0.0, 0.05])
def test_equal_sides_with_unlucky_servers_are_hardly_ever_called_different(
    sets: int, unlucky: float
) -> None:
    """Some of six servers are 5 to 15 % slower. Of 1000 cases about 1 % are called different."""
    generator = np.random.default_rng(12)
    wrong = 0
    for _ in range(1000):
        levels = generator.normal(0, 0.01, (sets, 12))
        levels += (generator.random(levels.shape) < unlucky) * generator.uniform(
            0.05, 0.15, levels.shape
        )
        wrong += statistics.of_blocks([[np.exp(each)[None, :, None]] for each in levels]).p < ALPHA
    assert wrong <= 19


@pytest.mark.parametrize(("count", "left"), [(1, 1), (2, 2), (3, 1), (4, 2), (5, 3), (8, 4)])
def test_of_three_generations_one_is_left(count: int, left: int) -> None:
    """Of two both are used, because it is unknown which one is noisy."""
    noise = np.arange(count, dtype=float) ** 2
    times = [np.exp(np.tile([0.0, 0.0, each, each], (1, 1))[:, :, None]) for each in noise]
    kept = np.sort(noise)[(count - left) // 2 : (count + left) // 2]
    assert pytest.approx(kept.mean()) == estimate(times).difference


def test_a_noisy_generation_hides_no_difference() -> None:
    """Three of twelve vary ten times as much. The trimmed mean leaves them out."""
    generator = np.random.default_rng(2)
    generations = processes(generator, effect=0.05)
    before = estimate(generations)
    noisy = [
        np.exp(generator.normal(0, 0.15, 2 * SERVERS))[None, :, None] * each
        for each in generations[::4]
    ]
    quiet = [each for number, each in enumerate(generations) if number % 4]
    assert estimate([*noisy, *quiet]).error < 1.5 * before.error


def test_more_servers_make_a_narrower_interval() -> None:
    """Four sets of servers differ by 1 %.

    The error is half that of one set, with more degrees of freedom.
    """
    generator = np.random.default_rng(3)
    sets = [processes(generator, effect=0.02) for _ in range(4)]
    one, four = (statistics.of_blocks(sets[:count]) for count in (1, 4))
    assert (True, True) == (four.error < 0.7 * one.error, four.freedom > 2 * one.freedom)
    assert pytest.approx(0.02, abs=0.01) == four.difference
