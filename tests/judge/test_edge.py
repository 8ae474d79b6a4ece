"""The search for an edge: few questions, and no wrong answer from an oracle that errs."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gradmatrix.judge.edge import Search, likely, most_questions
from tests.claimed import make_turning


@given(st.integers(1, 200), st.data())
def test_without_errors_it_is_bisection(edges: int, data: st.DataObject) -> None:
    """At most ⌈log₂ n⌉ questions, and the right answer."""
    edge = data.draw(st.integers(0, edges - 1))
    search, questions = Search([1.0] * edges), 0
    while (state := search.next()) is not None:
        search.saw(state, changed=state > edge)
        questions += 1
    assert (edge, edge + 1) == search.answer()
    assert questions <= math.ceil(math.log2(edges))


def test_a_likely_edge_is_found_sooner() -> None:
    """Two questions, among a hundred edges."""
    search, questions = Search([300.0, *[1.0] * 99]), 0
    while (state := search.next()) is not None:
        search.saw(state, changed=True)
        questions += 1
    assert ((0, 1), 1) == (search.answer(), questions)


def test_both_sides_of_a_known_edge_are_asked_about_first() -> None:
    """If nothing is known, or everything, no edge is likelier than another one."""
    search, asked = Search(likely([1.0] * 100, {40})), []
    while (state := search.next()) is not None:
        search.saw(state, changed=state > 40)
        asked.append(state)
    assert {40, 41} == {*asked}
    assert [1.0, 2.0] == likely([1.0, 2.0], {}) == likely([1.0, 2.0], {0, 1})


@given(st.integers(2, 40), st.data())
def test_skipped_states_leave_a_range_around_the_edge(edges: int, data: st.DataObject) -> None:
    """The range holds the edge, whatever was known, and only states that were skipped are in it."""
    edge = data.draw(st.integers(0, edges - 1))
    broken = data.draw(st.sets(st.integers(1, edges - 1)))
    known = data.draw(st.sets(st.integers(0, edges - 1), max_size=3))
    search = Search(likely([1.0] * edges, known))
    while (state := search.next()) is not None:
        if state in broken:
            search.skip(state)
        else:
            search.saw(state, changed=state > edge)
    low, high = search.answer()
    assert low <= edge < high
    assert set(range(low + 1, high)) <= broken


def test_after_a_skipped_state_it_looks_further_away() -> None:
    """At a quarter of what is left, then at three quarters, then at an eighth."""
    search, asked = Search([1.0] * 80), []
    for _ in range(4):
        state = search.next()
        assert state is not None
        asked.append(state)
        search.skip(state)
    assert [40, 20, 60, 10] == asked


def test_a_state_whose_answer_is_known_is_not_asked_about() -> None:
    """The chances of the edges before it add up to a little less than 1."""
    search = Search([16.0, *[4.0] * 4, *[1.0] * 4])
    search.skip(1)
    search.saw(2, changed=True)
    assert (None, (0, 2)) == (search.next(), search.answer())


def test_what_may_be_asked_next_is_known_before_the_answer() -> None:
    """One state for each answer, then one for each answer to these; none where nothing is open."""
    search = Search([1.0] * 8)
    assert (4, [2, 6], [2, 6, 1, 3, 5, 7]) == (search.next(), search.coming(2), search.coming(9))
    search.saw(4, changed=True)
    search.saw(2, changed=True)
    assert (2, []) == (search.left, search.coming(2))


def test_with_noise_the_states_that_may_be_asked_next_are_few() -> None:
    """The same state is asked again and again, so not every answer leads to another one."""
    assert len(set(Search([1.0] * 2, 0.3).coming(5))) <= 1


def test_the_most_questions_are_those_of_the_unluckiest_edge() -> None:
    """With equal weights it is the logarithm; a likely edge makes the others longer."""
    assert 5 == most_questions([1.0] * 30)
    assert most_questions([100.0, *[1.0] * 29]) > 5


@pytest.mark.parametrize("noise", [0.1, 0.3])
def test_an_oracle_that_errs_is_asked_until_it_is_clear(noise: float) -> None:
    """A thousandth of the answers may be wrong: of 400, at most four."""
    chance, wrong = random.Random(7), 0  # noqa: S311
    for _ in range(400):
        edge = chance.randrange(20)
        search = Search([1.0] * 20, noise)
        while (state := search.next()) is not None:
            search.saw(state, changed=(state > edge) is (chance.random() >= noise))
        wrong += search.answer() != (edge, edge + 1)
    assert wrong <= 4


def test_the_older_release_is_named_first() -> None:
    """Also if the cell was fine with the newer one, and other packages then moved back."""
    (edge,) = make_turning("torch", "2.7.0", "2.6.1").edges
    edge = replace(edge, also=("click 8.3.1 → (none)",))
    assert "torch 2.6.1 and 2.7.0, with which click moved too" == edge.releases
