"""Months and quarters, by the calendar: when they end, and how far back a number of months is."""

from __future__ import annotations

import calendar
import datetime as dt
from typing import Literal

Every = Literal["month", "quarter"]
LENGTH: dict[Every, int] = {"month": 1, "quarter": 3}
"""Months of a period."""
MONTHS = 12


def end_of(day: dt.date, every: Every) -> dt.date:
    """The last day of the period that ``day`` lies in."""
    length = LENGTH[every]
    month = -(-day.month // length) * length
    return dt.date(day.year, month, calendar.monthrange(day.year, month)[1])


def start_of(day: dt.date, every: Every) -> dt.date:
    """The first day of the period that ``day`` lies in."""
    length = LENGTH[every]
    return dt.date(day.year, (day.month - 1) // length * length + 1, 1)


def moved(day: dt.date, months: int) -> dt.date:
    """The same day ``months`` later (earlier where negative); the last of the month where it has no such day."""
    year, month = divmod(day.year * MONTHS + day.month - 1 + months, MONTHS)
    return dt.date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def ends(every: Every, first: dt.date, last: dt.date) -> tuple[dt.date, ...]:
    """The last days of periods from ``first`` to ``last``, both counted, in order."""
    found = []
    end = end_of(first, every)
    while end <= last:
        found.append(end)
        end = end_of(end + dt.timedelta(days=1), every)
    return tuple(found)
