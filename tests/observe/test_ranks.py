"""Ranks that began with equal parameters: which of them drift apart."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gradmatrix.observe.ranks import differ_after, is_watched, read
from tests.conftest import STACKS, Workbench, needs_fork

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def ranks(*sums: str, ends: str = "") -> list[tuple[int, int, dict[int | None, str]]]:
    """What ranks leave: for each a letter before each step, and one at the end."""
    return [
        (rank, len(sums), {**dict(enumerate(letters)), None: ends[rank : rank + 1]})
        for rank, letters in enumerate(sums)
    ]


@pytest.mark.parametrize(
    ("first", "second", "ends", "expected"),
    [
        ("abcd", "axyz", "pq", (1, 2)),
        ("abcd", "abyz", "", (2, 2)),
        ("abcd", "abcd", "pp", None),
        ("abcd", "xyzw", "pq", None),  # they began with different parameters
        ("abcd", "axcz", "pq", None),  # they are averaged now and then
        ("abcd", "axyz", "pp", None),  # they are averaged after the last step
        ("abcd", "axy", "pq", (1, 2)),  # one makes a step more
        ("abcd", "a", "pq", None),
    ],
)
def test_which_ranks_differ(
    first: str, second: str, ends: str, expected: tuple[int, int] | None
) -> None:
    """Equal before the first step, and never again once they differ."""
    assert expected == differ_after(ranks(first, second, ends=ends))


def test_ranks_that_have_not_all_ended_are_not_judged() -> None:
    """What is missing may be the end, a rank, or the files of all."""
    both = ranks("ab", "ax", ends="pq")
    del both[1][2][None]
    assert [None, None, None] == [differ_after(each) for each in (both, ranks("ab", "ax")[:1], [])]


def test_a_rank_without_a_sum_is_not_judged() -> None:
    """All of its parameters are spread over the ranks."""
    without: dict[int | None, str] = {0: "", 1: "", None: ""}
    assert None is differ_after([(0, 2, without), (1, 2, without)])


def test_long_trainings_are_looked_at_in_runs() -> None:
    """Parameters that are averaged after some steps are seen equal in each run."""
    assert [0, 63, 64, 95, 128, 159] == [
        n for n in (0, 63, 64, 95, 96, 127, 128, 159, 160) if is_watched(n)
    ]


def test_half_a_line_of_a_rank_is_left_out(tmp_path: Path) -> None:
    """The rank was killed while it wrote."""
    lines = [{"rank": 0, "ranks": 2}, {"steps": 0, "sums": "a"}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "7.rank").write_text(text + '{"steps": 1, "su', encoding="utf-8")
    (tmp_path / "8.rank").write_text("", encoding="utf-8")
    assert [(0, 2, {0: "a"})] == read(str(tmp_path))


@pytest.fixture(scope="module", params=STACKS)
def bench(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workbench]:
    """A server for fakes with two ranks."""
    bench = Workbench(request.param, tmp_path_factory.mktemp("ranks"), ("ranks",))
    yield bench
    bench.close()


@needs_fork
@pytest.mark.parametrize(
    ("variant", "outcome"),
    [
        ("averaged", "trains"),
        ("apart", "update:ranks-differ"),
        ("now_and_then", "trains"),
        ("at_the_end", "trains"),
        ("uneven", "update:ranks-differ"),
        ("other_seeds", "trains"),
    ],
)
def test_two_ranks_in_a_cell(bench: Workbench, variant: str, outcome: str) -> None:
    """The second one is a fork of the first."""
    ran = bench.run(variant)
    assert (outcome, ()) == (ran.outcome, ran.seen.observer_errors)
    assert (ran.seen.drift is not None) is (outcome == "update:ranks-differ")
