"""A rule, the index's releases and a day → stacks."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradmatrix.core.model import Stack
from gradmatrix.stacks.generate import (
    REQUIREMENTS,
    Releases,
    Snapshots,
    over_base,
    pinned,
    snapshots,
    wanted,
)
from tests.stacks.test_releases import release

if TYPE_CHECKING:
    from gradmatrix.stacks.generate import Every

TODAY = dt.date(2026, 11, 21)
BASE = Stack(
    name="base",
    python="3.12",
    requirements=(
        "torch==2.9.0",
        "lightning",
        "pytorch-lightning",
        "transformers>=4",
        "trl[vllm]; sys_platform=='linux'",
    ),
    as_of=dt.date(2025, 6, 30),
)
RELEASES = (
    release("4.56.0", "2025-05-01"),
    release("4.56.1", "2025-05-20"),
    release("4.57.0", "2025-07-01", yanked=True),
    release("4.57.1", "2025-07-02"),
    release("4.57.2", "2025-08-01"),
    release("5.0.0rc1", "2025-09-01"),
    release("5.0.0", "2025-10-01"),
)


def rule(**keys: Any) -> Releases:  # noqa: ANN401  (keys of the table)
    """A [generate.releases] table of transformers."""
    return Releases(package="transformers", base="base", **keys)


def chosen(**keys: Any) -> list[str]:  # noqa: ANN401  (as above)
    """The versions that such a table gives."""
    return [r.version for r in wanted(rule(**keys), RELEASES)]


def test_a_snapshot_is_what_its_day_gave() -> None:
    """Named after it, with the defaults of a rule that says no more."""
    [first, *_] = snapshots(Snapshots(every="quarter", since=dt.date(2024, 12, 31)), TODAY)
    assert first == Stack(
        name="snapshot-2024-12-31",
        python="3.11",
        requirements=REQUIREMENTS,
        as_of=dt.date(2024, 12, 31),
        summary="What a plain install gave on 2024-12-31",
    )


def test_snapshots_end_with_the_last_complete_period() -> None:
    """Today is not over."""
    rule = Snapshots(every="quarter", since=dt.date(2026, 1, 1))
    names = [
        [stack.name for stack in snapshots(rule, day)]
        for day in (dt.date(2026, 6, 30), dt.date(2026, 7, 1))
    ]
    assert [["snapshot-2026-03-31"], ["snapshot-2026-03-31", "snapshot-2026-06-30"]] == names


@settings(deadline=None)  # the machine may be busy
@given(
    since=st.dates(dt.date(2015, 1, 1), dt.date(2026, 12, 31)),
    until=st.none() | st.dates(dt.date(2015, 1, 1), dt.date(2030, 12, 31)),
    today=st.dates(dt.date(2015, 1, 1), dt.date(2027, 12, 31)),
    every=st.sampled_from(["month", "quarter"]),
)
def test_snapshots_are_of_the_past_in_order_and_named_once(
    since: dt.date, until: dt.date | None, today: dt.date, every: Every
) -> None:
    """Whatever the bounds; tomorrow takes none of them away."""
    rule = Snapshots(every=every, since=since, until=until)
    found = snapshots(rule, today)
    days = [stack.as_of for stack in found if stack.as_of != "today"]
    assert days == sorted(set(days))
    assert len(days) == len(found) == len({stack.name for stack in found})
    assert all(since <= day < today and (until is None or day <= until) for day in days)
    assert found == snapshots(rule, today + dt.timedelta(days=1))[: len(found)]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, ["4.56.1", "4.57.2", "5.0.0"]),
        ({"which": "all"}, ["4.56.0", "4.56.1", "4.57.1", "4.57.2", "5.0.0"]),
        ({"since": "4.57"}, ["4.57.2", "5.0.0"]),
        ({"until": "4.57.1"}, ["4.56.1", "4.57.1"]),
        ({"until": dt.date(2025, 7, 2)}, ["4.56.1", "4.57.1"]),
        ({"since": dt.date(2025, 7, 2), "until": "4.99"}, ["4.57.2"]),
        ({"until": "4.57", "which": "all", "exactly": ("4.57.0",)}, ["4.56.0", "4.56.1", "4.57.0"]),
        ({"since": "5", "prereleases": True, "which": "all"}, ["5.0.0"]),
        ({"since": "5.0.0rc1", "which": "all"}, ["5.0.0rc1", "5.0.0"]),
        ({"since": dt.date(2025, 9, 1), "until": dt.date(2025, 9, 2)}, []),
        ({"since": "6"}, []),
    ],
)
def test_the_wanted_releases(keys: dict[str, Any], expected: list[str]) -> None:
    """By bounds and patches; yanked ones only exactly, pre-releases only if asked."""
    assert expected == chosen(**keys)


def test_prereleases_are_wanted_where_a_package_has_nothing_else() -> None:
    """At all: a final release outside of the bounds is something else."""
    only, final = release("2.0rc1", "2026-01-02"), release("1.0", "2025-01-02")
    bounds = rule(since=dt.date(2026, 1, 1))
    assert ((only,), ()) == (wanted(bounds, (only,)), wanted(bounds, (final, only)))


def test_a_release_without_a_day_is_within_no_days() -> None:
    """And is as of its base's day where it is wanted by version."""
    undated = (release("4.58.0", ""),)
    assert () == wanted(rule(since=dt.date(2020, 1, 1)), undated)
    [stack] = over_base(rule(), BASE, undated)
    assert dt.date(2025, 6, 30) == stack.as_of


def test_a_release_takes_its_place_in_the_base() -> None:
    """Named after it, as of the later day of the two; everything else is the base's."""
    first, second, _ = over_base(rule(core=True), BASE, RELEASES)
    assert ("transformers-4.56.1", "transformers-4.57.2") == (first.name, second.name)
    assert (dt.date(2025, 6, 30), dt.date(2025, 8, 1)) == (first.as_of, second.as_of)
    assert ("3.12", True) == (second.python, second.core)
    assert (
        *BASE.requirements[:3],
        "transformers==4.57.2",
        BASE.requirements[4],
    ) == second.requirements


def test_a_base_of_today_stays_of_today() -> None:
    """Its lock moves, and so do theirs."""
    moving = Stack(name="latest", python="3.12", requirements=BASE.requirements, as_of="today")
    assert {"today"} == {stack.as_of for stack in over_base(rule(), moving, RELEASES)}


def test_a_version_keeps_extras_and_markers() -> None:
    """Only the version is replaced."""
    assert ('trl[vllm]==0.25.0; sys_platform == "linux"',) == pinned(
        BASE.requirements[4:], {"trl": "0.25.0"}
    )


def test_both_names_of_lightning_get_the_same_version() -> None:
    """Where a stack asks for both."""
    assert ("torch==2.9.0", "lightning==2.5.0", "pytorch-lightning==2.5.0") == pinned(
        BASE.requirements[:3], {"lightning": "2.5.0"}
    )
    assert ("torch",) == pinned(("torch",), {"lightning": "2.5.0"})


def test_a_name_is_fit_for_a_file() -> None:
    """Versions may have an epoch, or a local part."""
    names = [
        stack.name for stack in over_base(rule(), BASE, [release("1!4.0"), release("4.0+cpu")])
    ]
    assert ["transformers-4.0-cpu", "transformers-1-4.0"] == names
