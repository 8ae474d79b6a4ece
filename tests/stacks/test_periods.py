"""Months and quarters by the calendar."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradmatrix.stacks.generate import LENGTH, Every, end_of, ends, months_later, start_of

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
    """In leap years too."""
    assert dt.date.fromisoformat(expected) == end_of(dt.date.fromisoformat(day), every)


def test_eight_quarters_end_in_two_years() -> None:
    """The first and the last day count."""
    found = ends("quarter", dt.date(2024, 12, 31), dt.date(2026, 9, 30))
    assert ["2024-12-31", "2025-03-31", "2025-06-30", "2025-09-30", "2025-12-31", "2026-03-31", "2026-06-30",
            "2026-09-30"] == list(map(str, found))  # fmt: skip


def test_a_period_that_is_not_over_has_no_end() -> None:
    """On its last day but one."""
    assert () == ends("month", dt.date(2026, 11, 1), dt.date(2026, 11, 29))


@settings(deadline=None)  # the machine may be busy
@given(day=DAYS, every=EVERY)
def test_a_day_lies_in_its_period(day: dt.date, every: Every) -> None:
    """Which begins on the first of a month, and after whose end another one begins."""
    start, end = start_of(day, every), end_of(day, every)
    assert start <= day <= end
    assert (1, 1) == (start.day, (end + ONE).day)
    assert start_of(end + ONE, every) == end + ONE
    assert (end.year - start.year) * 12 + end.month - start.month + 1 == LENGTH[every]


@settings(deadline=None)  # the machine may be busy
@given(first=DAYS, length=st.integers(0, 2000), every=EVERY)
def test_ends_are_all_ends_between_two_days(first: dt.date, length: int, every: Every) -> None:
    """As counted day by day."""
    last = first + dt.timedelta(days=length)
    days = (first + dt.timedelta(days=number) for number in range(length + 1))
    assert [day for day in days if end_of(day, every) == day] == list(ends(every, first, last))


@settings(deadline=None)  # the machine may be busy
@given(day=DAYS, months=st.integers(-480, 480))
def test_months_are_counted_by_the_calendar(day: dt.date, months: int) -> None:
    """The same day of the month, or its last where it has no such day."""
    there = months_later(day, months)
    assert (there.year - day.year) * 12 + there.month - day.month == months
    assert there.day == day.day or (there.day < day.day and (there + ONE).day == 1)


def test_two_years_after_a_leap_day_is_the_28th() -> None:
    """There is no 29th."""
    assert dt.date(2026, 2, 28) == months_later(dt.date(2024, 2, 29), 24)
