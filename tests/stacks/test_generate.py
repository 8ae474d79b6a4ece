"""Rules that give stacks: snapshots, releases of a package, and windows of support."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gradmatrix.core.model import Stack
from gradmatrix.stacks import generate
from gradmatrix.stacks.generate import (
    LENGTH,
    PYTHONS,
    REQUIREMENTS,
    Every,
    Releases,
    Snapshots,
    Window,
    end_of,
    ends,
    floor,
    months_later,
    needed,
    over_base,
    packages,
    pinned,
    python_floor,
    snapshots,
    start_of,
    wanted,
    window,
)
from tests.stacks.test_index import release

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
    """It is named after its day. Missing keys of the rule get their defaults."""
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
    """This holds for any bounds, and a later day removes none of them."""
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
    """Bounds and patches apply. Yanked ones need a pin, pre-releases an option."""
    assert expected == chosen(**keys)


def test_prereleases_are_wanted_where_a_package_has_nothing_else() -> None:
    """A final release outside of the bounds counts as something else."""
    only, final = release("2.0rc1", "2026-01-02"), release("1.0", "2025-01-02")
    bounds = rule(since=dt.date(2026, 1, 1))
    assert ((only,), ()) == (wanted(bounds, (only,)), wanted(bounds, (final, only)))


def test_a_release_without_a_day_is_within_no_days() -> None:
    """Wanted by its version, it gets its base's day."""
    undated = (release("4.58.0", ""),)
    assert () == wanted(rule(since=dt.date(2020, 1, 1)), undated)
    [stack] = over_base(rule(), BASE, undated)
    assert dt.date(2025, 6, 30) == stack.as_of


def test_a_release_takes_its_place_in_the_base() -> None:
    """The stack is named after it, as of the later day of both. The rest is the base's."""
    first, second, _ = over_base(rule(core=True), BASE, RELEASES)
    assert ("transformers-4.56.1", "transformers-4.57.2") == (first.name, second.name)
    assert (dt.date(2025, 6, 30), dt.date(2025, 8, 1)) == (first.as_of, second.as_of)
    assert ("3.12", True) == (second.python, second.core)
    assert (
        *BASE.requirements[:3],
        "transformers==4.57.2",
        BASE.requirements[4],
    ) == second.requirements


def test_what_may_be_built_is_that_of_the_base_or_the_table() -> None:
    """The releases of a package are built, or not, as the rest of their base."""
    allowed = replace(BASE, build=("lit",))
    assert {("lit",)} == {stack.build for stack in over_base(rule(), allowed, RELEASES)}
    every = Snapshots(every="quarter", since=dt.date(2025, 1, 1), build=("Lit",))
    assert {("lit",)} == {stack.build for stack in snapshots(every, dt.date(2025, 12, 31))}


def test_a_base_of_today_stays_of_today() -> None:
    """The locks of base and stack both move."""
    moving = Stack(name="latest", python="3.12", requirements=BASE.requirements, as_of="today")
    assert {"today"} == {stack.as_of for stack in over_base(rule(), moving, RELEASES)}


def test_a_version_keeps_extras_and_markers() -> None:
    """Only the version is replaced."""
    assert ('trl[vllm]==0.25.0; sys_platform == "linux"',) == pinned(
        BASE.requirements[4:], {"trl": "0.25.0"}
    )


def test_both_names_of_lightning_get_the_same_version() -> None:
    """This holds if a stack asks for both."""
    assert ("torch==2.9.0", "lightning==2.5.0", "pytorch-lightning==2.5.0") == pinned(
        BASE.requirements[:3], {"lightning": "2.5.0"}
    )
    assert ("torch",) == pinned(("torch",), {"lightning": "2.5.0"})


def test_a_name_is_fit_for_a_file() -> None:
    """Versions may have an epoch or a local part."""
    names = [
        stack.name for stack in over_base(rule(), BASE, [release("1!4.0"), release("4.0+cpu")])
    ]
    assert ["transformers-4.0-cpu", "transformers-1-4.0"] == names


DAYS = st.dates(dt.date(1999, 1, 1), dt.date(2101, 12, 31))
EVERY = st.sampled_from(sorted(LENGTH))
ONE = dt.timedelta(days=1)


@pytest.mark.parametrize(
    ("day", "every", "expected"),
    [
        ("2024-02-01", "month", "2024-02-29"),
        ("2023-02-28", "month", "2023-02-28"),
        ("2100-02-01", "month", "2100-02-28"),
        ("2024-12-31", "quarter", "2024-12-31"),
        ("2025-01-01", "quarter", "2025-03-31"),
        ("2025-05-17", "quarter", "2025-06-30"),
        ("2025-09-30", "quarter", "2025-09-30"),
    ],
)
def test_a_period_ends_on_its_last_day(day: str, every: Every, expected: str) -> None:
    """This includes leap years."""
    assert dt.date.fromisoformat(expected) == end_of(dt.date.fromisoformat(day), every)


def test_eight_quarters_end_in_two_years() -> None:
    """The first and the last day are included."""
    found = ends("quarter", dt.date(2024, 12, 31), dt.date(2026, 9, 30))
    assert [
        "2024-12-31", "2025-03-31", "2025-06-30", "2025-09-30",
        "2025-12-31", "2026-03-31", "2026-06-30", "2026-09-30",
    ] == list(map(str, found))  # fmt: skip


def test_a_period_that_is_not_over_has_no_end() -> None:
    """The day before its last day gives nothing."""
    assert () == ends("month", dt.date(2026, 11, 1), dt.date(2026, 11, 29))


@settings(deadline=None)  # the machine may be busy
@given(day=DAYS, every=EVERY)
def test_a_day_lies_in_its_period(day: dt.date, every: Every) -> None:
    """A period begins on the first of a month, and the next one begins after its end."""
    start, end = start_of(day, every), end_of(day, every)
    assert start <= day <= end
    assert (1, 1) == (start.day, (end + ONE).day)
    assert start_of(end + ONE, every) == end + ONE
    assert (end.year - start.year) * 12 + end.month - start.month + 1 == LENGTH[every]


@settings(deadline=None)  # the machine may be busy
@given(first=DAYS, length=st.integers(0, 2000), every=EVERY)
def test_ends_are_all_ends_between_two_days(first: dt.date, length: int, every: Every) -> None:
    """The result is the same as counting day by day."""
    last = first + dt.timedelta(days=length)
    days = (first + dt.timedelta(days=number) for number in range(length + 1))
    assert [day for day in days if end_of(day, every) == day] == list(ends(every, first, last))


@settings(deadline=None)  # the machine may be busy
@given(day=DAYS, months=st.integers(-480, 480))
def test_months_are_counted_by_the_calendar(day: dt.date, months: int) -> None:
    """It is the same day of the month, or the last day of a shorter month."""
    there = months_later(day, months)
    assert (there.year - day.year) * 12 + there.month - day.month == months
    assert there.day == day.day or (there.day < day.day and (there + ONE).day == 1)


def test_two_years_after_a_leap_day_is_the_28th() -> None:
    """There is no 29th."""
    assert dt.date(2026, 2, 28) == months_later(dt.date(2024, 2, 29), 24)


TORCH = (
    release("2.4.0", "2024-07-24"),
    release("2.5.0", "2024-10-17", yanked=True),
    release("2.5.1", "2024-10-29"),
    release("2.6.0", "2025-01-29"),
    release("2.4.2", "2025-02-15"),
    release("2.7.0rc1", "2025-03-01"),
    release("2.12.0", "2026-08-01"),
)
TRL = (release("0.12.0", "2024-11-04"), release("0.13.0", "2024-12-16"))
BOTH = {"torch": TORCH, "trl": TRL}


def version(day: str, months: int = 24) -> str:
    """The oldest supported torch of a day."""
    found = floor(TORCH, dt.date.fromisoformat(day), months)
    assert found is not None
    return found.version


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        ("2026-07-23", "2.4.0"),
        ("2026-07-24", "2.5.1"),
        ("2026-10-16", "2.5.1"),
        ("2026-10-17", "2.6.0"),
    ],
)
def test_support_ends_24_months_after_the_feature_release(day: str, expected: str) -> None:
    """The last patch does not count.

    2.5 began with a yanked release, and is tested with the next one.
    """
    assert expected == version(day)


def test_the_newest_feature_release_is_supported_however_old_it_is() -> None:
    """SPEC 0 would otherwise leave nothing."""
    assert "2.12.0" == version("2031-01-01")


def test_without_releases_there_is_no_floor() -> None:
    """All are yanked, or the day is before the first."""
    assert (None, None) == (
        floor((), TODAY, 24),
        floor((release("1.0", yanked=True),), TODAY, 24),
    )


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        ("2026-10-01", "3.12"),
        ("2026-10-02", "3.13"),
        ("2028-10-07", "3.14"),
        ("2040-01-01", "3.14"),
    ],
)
def test_a_python_is_supported_for_36_months(day: str, expected: str) -> None:
    """3.12 came out on 2023-10-02."""
    assert expected == python_floor(dt.date.fromisoformat(day), 36)


def test_no_python_is_missing_from_the_list_that_could_be_a_floor_now() -> None:
    """If this fails, add the newer Pythons to PYTHONS."""
    assert generate.months_later(max(PYTHONS.values()), 36) > dt.datetime.now(dt.UTC).date()


def test_the_window_of_this_quarter() -> None:
    """Its floor and newest stacks keep their days for the whole quarter."""
    rule = Window(requirements=("torch", "trl", "numpy<3"))
    oldest, newest = window(rule, BOTH, TODAY)
    assert (
        "window-2026-q4-floor",
        "3.12",
        dt.date(2024, 11, 4),
        ("torch==2.5.1", "trl==0.12.0", "numpy<3"),
    ) == (
        oldest.name,
        oldest.python,
        oldest.as_of,
        oldest.requirements,
    )
    assert ("window-2026-q4-newest", "3.12", dt.date(2026, 10, 1), rule.requirements) == (
        newest.name,
        newest.python,
        newest.as_of,
        newest.requirements,
    )
    assert (oldest, newest) == window(rule, BOTH, dt.date(2026, 12, 31))


def test_the_floors_of_the_quarters_to_come() -> None:
    """It is known today when each version may be dropped."""
    found = window(Window(requirements=("torch",), quarters=3), BOTH, TODAY)
    assert [
        ("window-2026-q4-floor", ("torch==2.5.1",)),
        ("window-2027-q1-floor", ("torch==2.6.0",)),
        ("window-2027-q2-floor", ("torch==2.12.0",)),
        ("window-2026-q4-newest", ("torch",)),
    ] == [(stack.name, stack.requirements) for stack in found]


def test_each_package_alone_at_its_floor() -> None:
    """Everything else is as new as the resolver allows."""
    found = window(Window(requirements=("torch", "trl"), each=True), BOTH, TODAY)
    assert {
        "window-2026-q4-torch-2.5.1": ("torch==2.5.1", "trl"),
        "window-2026-q4-trl-0.12.0": ("torch", "trl==0.12.0"),
    } == {stack.name: stack.requirements for stack in found[2:]}


def test_a_floor_is_as_of_a_day_that_has_its_python() -> None:
    """There were no wheels for that Python before."""
    [oldest, _] = window(Window(requirements=("trl",), python="3.14"), BOTH, TODAY)
    assert ("3.14", dt.date(2025, 10, 7)) == (oldest.python, oldest.as_of)


def test_two_names_of_one_project_have_one_window() -> None:
    """A package that the rule pins has no window."""
    rule = Window(requirements=("lightning", "pytorch-lightning", "torch<3"))
    assert ("lightning",) == packages(rule)
    [oldest, _] = window(rule, {"lightning": (release("2.5.0.post0", "2024-12-21"),)}, TODAY)
    assert (
        "lightning==2.5.0.post0",
        "pytorch-lightning==2.5.0.post0",
        "torch<3",
    ) == oldest.requirements


def test_a_stack_is_as_of_no_day_before_what_it_asks_for() -> None:
    """A version may be newer than the oldest of the others.

    A package may be new in this quarter.
    """
    oldest, *_ = window(Window(requirements=("torch>=2.12", "trl")), BOTH, TODAY)
    assert (dt.date(2026, 8, 1), ("torch>=2.12", "trl==0.12.0")) == (
        oldest.as_of,
        oldest.requirements,
    )
    born = {"torch": TORCH, "new": (release("1.0", "2026-11-01"),)}
    _, *others = window(Window(requirements=("torch", "new"), each=True), born, TODAY)
    assert [dt.date(2026, 11, 1)] * 3 == [stack.as_of for stack in others]


def test_a_version_that_a_rule_gives_one_of_two_names_is_left_as_it_is() -> None:
    """The other name has no window either. The day of that version must be known."""
    rule = Window(requirements=("lightning==2.5.0", "pytorch-lightning", "torch"))
    assert (("torch",), ("torch", "lightning")) == (packages(rule), needed(rule))
    [oldest, _] = window(
        rule, {"torch": TORCH, "lightning": (release("2.5.0", "2024-12-20"),)}, TODAY
    )
    assert ("lightning==2.5.0", "pytorch-lightning", "torch==2.5.1") == oldest.requirements


def test_a_quarter_begins_when_its_first_day_is_over() -> None:
    """A lock made in the morning would lack the releases of that evening."""
    names = [
        window(Window(requirements=("torch",)), BOTH, dt.date(2026, 10, day))[0].name
        for day in (1, 2)
    ]
    assert ["window-2026-q3-floor", "window-2026-q4-floor"] == names
