"""Cells packed into jobs: every one once, no job of two stacks, and none longer than it need be."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradmatrix.core.errors import UserError
from gradmatrix.night.night import (
    UNKNOWN_S,
    Due,
    Listed,
    Shard,
    Shards,
    allotted,
    batched,
    divided,
    expected,
    github_matrix,
    pack,
    stacks_of,
)
from tests.factories import make_cell, make_observation, make_record

if TYPE_CHECKING:
    from gradmatrix.core.model import Cell

SETTING_UP_S = 3.0
STACKS = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), st.lists(st.floats(0, 50), min_size=1, max_size=5), min_size=1
)
"""Seconds of the scenarios of each stack."""


def due_of(stacks: dict[str, list[float]]) -> tuple[list[Due], dict[Cell, float]]:
    """A cell per scenario, and how long it takes."""
    seconds = {
        make_cell(stack, f"s{number}"): value
        for stack, values in stacks.items()
        for number, value in enumerate(values)
    }
    return [Due(cell=cell, key="key") for cell in seconds], seconds


def best(values: list[float], count: int) -> float:
    """The shortest that the longest of ``count`` parts can be: every division is tried."""
    return min(
        max(
            math.fsum(value for value, place in zip(values, places, strict=True) if place == part)
            for part in range(count)
        )
        for places in itertools.product(range(count), repeat=len(values))
    )


def optimum(stacks: dict[str, list[float]], jobs: int) -> float:
    """The shortest that the longest job can be when every stack has its own."""
    spare = range(1, jobs - len(stacks) + 2)
    bests = {
        stack: {count: best(values, min(count, len(values))) for count in spare}
        for stack, values in stacks.items()
    }
    return min(
        max(bests[stack][count] for stack, count in zip(stacks, counts, strict=True))
        for counts in itertools.product(spare, repeat=len(stacks))
        if sum(counts) <= jobs
    )


def longest(shards: tuple[Shard, ...]) -> float:
    """Seconds of the cells of the longest job."""
    return max(shard.expected_s for shard in shards) - SETTING_UP_S


@given(STACKS, st.integers(3, 12))
def test_every_cell_is_in_one_job_of_its_stack(stacks: dict[str, list[float]], jobs: int) -> None:
    """And there are no more jobs than allowed, each under a name of its own."""
    due, seconds = due_of(stacks)
    shards = pack(due, seconds, jobs, SETTING_UP_S)
    assert sorted(each.cell for each in due) == sorted(
        each.cell for shard in shards for each in shard.cells
    )
    assert all({shard.stack} == {each.cell.stack for each in shard.cells} for shard in shards)
    assert len({shard.name for shard in shards}) == len(shards) <= jobs


@given(STACKS, st.integers(3, 8))
def test_the_longest_job_is_within_a_third_of_the_best(
    stacks: dict[str, list[float]], jobs: int
) -> None:
    """Unless its cells take no longer than setting it up; and never longer than with a job per stack."""
    due, seconds = due_of(stacks)
    found = longest(pack(due, seconds, jobs, SETTING_UP_S))
    rounding = 0.05 + 1e-6
    assert found <= max(4 / 3 * optimum(stacks, jobs), SETTING_UP_S) + rounding
    assert found <= max(map(sum, stacks.values())) + rounding


@given(STACKS, st.integers(3, 12))
def test_a_stack_is_split_only_where_that_shortens_the_longest_job(
    stacks: dict[str, list[float]], jobs: int
) -> None:
    """With one job less for any of them it would be longer."""
    due, seconds = due_of(stacks)
    batches = batched(due, seconds)
    counts = allotted(batches, jobs, SETTING_UP_S)

    def length(stack: str, count: int) -> float:
        return max(sum(batch.seconds for batch in part) for part in divided(batches[stack], count))

    end = max(length(stack, count) for stack, count in counts.items())
    assert [] == [
        stack for stack, count in counts.items() if count > 1 and length(stack, count - 1) <= end
    ]


def test_a_short_job_is_not_split() -> None:
    """Setting up another machine would cost more than it saves."""
    due, seconds = due_of({"a": [1.0, 1.5]})
    assert ["a"] == [shard.name for shard in pack(due, seconds, 10, SETTING_UP_S)]


def test_a_long_stack_is_split_by_scenario() -> None:
    """The variants of one run on one machine, so that their step times compare and those agree that must."""
    cells = [
        make_cell("a", scenario, variant)
        for scenario in ("s", "t")
        for variant in ("plain", "checkpointed")
    ]
    shards = pack(
        [Due(cell=cell, key="key") for cell in cells], dict.fromkeys(cells, 10.0), 10, SETTING_UP_S
    )
    assert [("a-1-of-2", 23.0, {"s"}), ("a-2-of-2", 23.0, {"t"})] == [
        (shard.name, shard.expected_s, {due.cell.scenario for due in shard.cells})
        for shard in shards
    ]


def test_jobs_that_are_equally_long_are_split_past_a_step_that_gains_nothing() -> None:
    """Four equal scenarios: three jobs are as long as two, four are half of it."""
    due, seconds = due_of({"a": [10.0] * 4})
    assert 4 == len(pack(due, seconds, 4, SETTING_UP_S))


def test_more_stacks_than_jobs_are_refused() -> None:
    """A job installs one stack."""
    due, seconds = due_of({"a": [1.0], "b": [1.0]})
    with pytest.raises(UserError, match="2 stacks have cells to run, and there may be 1 jobs"):
        pack(due, seconds, 1)


def test_nothing_to_do_is_an_empty_matrix() -> None:
    """Which the workflow skips."""
    assert {"include": []} == github_matrix(pack([], {}))


def test_the_matrix_names_each_job() -> None:
    """With its stack and the number of its cells; which they are is in the file."""
    due, seconds = due_of({"a": [10.0, 10.0], "b": [1.0]})
    assert [
        {"name": "a-1-of-2", "stack": "a", "cells": 1},
        {"name": "a-2-of-2", "stack": "a", "cells": 1},
        {"name": "b", "stack": "b", "cells": 1},
    ] == github_matrix(pack(due, seconds, 5, SETTING_UP_S))["include"]


def test_a_cell_is_expected_to_take_as_long_as_the_last_time() -> None:
    """One that never ran as long as the median of its scenario, and one of an unknown scenario some seconds."""
    ran, timed_out, new, unknown = (
        make_cell(scenario=s, variant=v) for s, v in ("sa", "sb", "sc", "ud")
    )
    other = make_cell("other", "s", "a")
    recorded = {
        ran: make_record(cell=ran, observation=make_observation(wall_s=4.0)),
        other: make_record(cell=other, observation=make_observation(wall_s=8.0)),
        timed_out: make_record("process:timeout", timed_out, inputs={"timeout_s": "120"}),
        unknown: make_record("install:build", unknown),
    }
    times = expected((ran, timed_out, new, unknown), recorded)
    assert {ran: 4.0, timed_out: 120.0, new: 8.0, unknown: UNKNOWN_S} == times


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
    """Those of its matrix sessions, in its order; no other session is a stack."""
    sessions = [{"session": name} for name in ("matrix(b)", "lint", "matrix(a)")]
    assert ["b", "a"] == stacks_of(msgspec.json.encode(sessions))


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[1]", b'[{"name": "matrix"}]', b'[{"session": "lint"}]', b"\xff"]
)
def test_what_is_no_list_of_stacks_is_refused(text: bytes) -> None:
    """With what prints one."""
    with pytest.raises(UserError, match="nox -t all --list --json"):
        stacks_of(text)


def test_an_unknown_shard_is_refused() -> None:
    """With the names of those there are."""
    shard = Shard(name="a-1-of-2", stack="a", expected_s=1.0, cells=())
    with pytest.raises(UserError, match="a-1-of-2"):
        Shards(schema=1, shards=(shard,), settled=0).named("a")
