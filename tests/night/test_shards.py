"""Stacks dealt out to jobs: every cell once, no stack in two jobs, and jobs of similar size."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradmatrix.core.errors import UserError
from gradmatrix.night.night import Due, Shard, Shards, deal, github_matrix, stacks_of
from gradmatrix.run.plan import Listed
from tests.factories import make_cell

STACKS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 20), min_size=1)
"""How many cells of each stack must run."""


def due_of(stacks: dict[str, int]) -> list[Due]:
    """The given number of cells of each stack."""
    return [
        Due(cell=make_cell(stack, f"s{number}"), key="key")
        for stack, count in stacks.items()
        for number in range(count)
    ]


@given(STACKS, st.integers(1, 8))
def test_every_cell_is_in_one_job_and_no_stack_in_two(stacks: dict[str, int], jobs: int) -> None:
    """There are at most as many jobs as allowed, each with its own name."""
    due = due_of(stacks)
    shards = deal(due, jobs)
    assert sorted(each.cell for each in due) == sorted(
        each.cell for shard in shards for each in shard.cells
    )
    assert sorted(stacks) == sorted(stack for shard in shards for stack in shard.stacks)
    assert len({shard.name for shard in shards}) == len(shards) == min(jobs, len(stacks))


@given(STACKS, st.integers(1, 8))
def test_no_job_is_much_bigger_than_it_must_be(stacks: dict[str, int], jobs: int) -> None:
    """A job has at least the biggest stack, and at least its share of all cells."""
    biggest = max(len(shard.cells) for shard in deal(due_of(stacks), jobs))
    assert biggest <= max(stacks.values()) + sum(stacks.values()) / jobs


def test_a_stack_has_a_job_of_its_own_where_there_are_enough() -> None:
    """The job is named after it."""
    assert ["b", "a"] == [shard.name for shard in deal(due_of({"a": 1, "b": 3}), 10)]


def test_more_stacks_than_jobs_share_them() -> None:
    """The next biggest goes to the job with the fewest cells."""
    shards = deal(due_of({"a": 5, "b": 3, "c": 3}), 2)
    assert [("a", ("a",)), ("b-and-1-more", ("b", "c"))] == [
        (shard.name, shard.stacks) for shard in shards
    ]


def test_nothing_to_do_is_an_empty_matrix() -> None:
    """The workflow skips the jobs."""
    assert {"include": []} == github_matrix(deal([], 256))


def test_the_matrix_names_each_job() -> None:
    """It has the first stack and the number of cells. The file has the cells."""
    assert [
        {"name": "a", "stack": "a", "cells": 4},
        {"name": "b-and-1-more", "stack": "b", "cells": 3},
    ] == github_matrix(deal(due_of({"a": 4, "b": 2, "c": 1}), 2))["include"]


def test_listed_cells_are_selected_and_no_other() -> None:
    """Not every combination of their scenarios, variants and devices."""
    listed = Listed(
        cells=frozenset({make_cell(variant="a"), make_cell(variant="b", device="cuda")})
    )
    cells = [
        make_cell(variant=variant, device=device) for variant in "ab" for device in ("cpu", "cuda")
    ]
    assert [True, False, False, True] == [listed.has(cell) for cell in cells]


def test_nox_says_which_stacks_there_are() -> None:
    """They are its matrix sessions, in the same order."""
    sessions = [{"session": name} for name in ("matrix(b)", "lint", "matrix(a)")]
    assert ["b", "a"] == stacks_of(msgspec.json.encode(sessions))


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[1]", b'[{"name": "matrix"}]', b'[{"session": "lint"}]', b"\xff"]
)
def test_what_is_no_list_of_stacks_is_refused(text: bytes) -> None:
    """The error says which command prints a list."""
    with pytest.raises(UserError, match="nox -t all --list --json"):
        stacks_of(text)


def test_an_unknown_shard_is_refused() -> None:
    """The error lists the known ones."""
    shard = Shard(name="lightning", cells=())
    with pytest.raises(UserError, match="it has lightning"):
        Shards(schema=2, shards=(shard,), settled=0).named("a")
