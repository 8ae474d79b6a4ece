"""What changed from one publication to the next: history.html, and a line on the first page."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from gradmatrix.judge.change import OF_VERDICTS, Change
from gradmatrix.publish.site import links
from gradmatrix.publish.site.markup import page

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Sequence

    from gradmatrix.compare.history import History
    from gradmatrix.judge.history import Flip, Regression
    from gradmatrix.publish.site.tables import View

MOST_DAYS, MOST_FLIPS = 60, 200
LISTED = (*OF_VERDICTS, Change.ELSEWHERE)
"""Kinds of which every change is listed. New and removed cells are counted by stack."""
RECOMPUTED = "re-computed"
NOT_ABOUT_THE_STACK = (RECOMPUTED, Change.ELSEWHERE.value)
WORDS = (*(kind.value for kind in LISTED), RECOMPUTED, Change.NEW.value, Change.GONE.value)
"""The words for changes, in the order in which they are listed."""


class Alike(NamedTuple):
    """The same change of a variant, for the same reason, on one or several stacks."""

    word: str
    flips: Sequence[Flip]

    @property
    def first(self) -> Flip:
        """One of them, which represents all."""
        return self.flips[0]


class Course(NamedTuple):
    """The changes of one stack."""

    stack: str
    counts: list[tuple[str, int]]
    changes: list[tuple[dt.date, Alike]]
    """Changes of verdict, the newest first."""


class Day(NamedTuple):
    """The changes of one day."""

    date: dt.date
    counts: list[tuple[str, int]]
    flips: list[tuple[str, Flip]]
    """Each change with its word."""
    alike: list[Alike]
    """The same changes, in groups."""
    left_out: int
    others: list[tuple[str, str, int]]
    """New or removed cells: the word, the stack, and how many."""


def days(history: History | None) -> list[Day]:
    """Return the days on which a verdict changed, the newest first."""
    flips = history.flips[::-1] if history is not None else ()
    grouped = groupby(flips, key=lambda flip: flip.after.published.date())
    return [day(date, list(members)) for date, members in grouped][:MOST_DAYS]


def day(date: dt.date, flips: list[Flip]) -> Day:
    """Return the changes of one day."""
    count = Counter(map(called, flips))
    alone = sorted(
        (f for f in flips if f.kind in LISTED), key=lambda f: (WORDS.index(called(f)), f.cell)
    )
    others = Counter(
        (flip.kind.value, flip.cell.stack) for flip in flips if flip.kind not in LISTED
    )
    return Day(
        date=date,
        counts=[(word, count[word]) for word in WORDS if count[word]],
        flips=[(called(flip), flip) for flip in alone[:MOST_FLIPS]],
        alike=alike(alone[:MOST_FLIPS]),
        left_out=len(alone[MOST_FLIPS:]),
        others=[(kind, stack, number) for (kind, stack), number in others.items()],
    )


def called(flip: Flip) -> str:
    """Return the word for a change.

    A change for which only our own code changed says nothing about the stack.
    """
    return RECOMPUTED if flip.ours_alone and flip.kind in LISTED else flip.kind.value


def alike(flips: Iterable[Flip]) -> list[Alike]:
    """Group changes that have the same variant, outcomes and reason."""
    found: dict[tuple[object, ...], list[Flip]] = defaultdict(list)
    for flip in flips:
        before = flip.before.outcome if flip.before is not None else None
        cell = flip.cell
        what = (
            called(flip),
            cell.scenario,
            cell.variant,
            cell.device,
            before,
            flip.after.outcome,
            flip.why,
        )
        found[what].append(flip)
    return [Alike(called(members[0]), members) for members in found.values()]


def courses(view: View, history: History | None) -> list[Course]:
    """Return the changes of each stack, the newest stack first. Evidence pages link to them."""
    by_stack: dict[str, list[Flip]] = defaultdict(list)
    for flip in history.flips[::-1] if history is not None else ():
        by_stack[flip.cell.stack].append(flip)
    return [course(lock.stack, by_stack[lock.stack]) for lock in view.newest_first]


def course(stack: str, flips: Sequence[Flip]) -> Course:
    """Return the changes of one stack."""
    count = Counter(map(called, flips))
    alone = [flip for flip in flips if flip.kind in LISTED][:MOST_FLIPS]
    grouped = groupby(alone, key=lambda flip: flip.after.published.date())
    return Course(
        stack=stack,
        counts=[(word, count[word]) for word in WORDS if count[word]],
        changes=[(date, each) for date, members in grouped for each in alike(members)],
    )


def history_page(view: View, history: History | None) -> tuple[str, bytes]:
    """Return history.html."""
    return page(
        "history.html",
        links.HISTORY,
        days=days(history),
        regressions=standing(view, history),
        courses=courses(view, history),
        known=set(view.table.stacks),
    )


def standing(view: View, history: History | None) -> Sequence[Regression]:
    """Return the cells of the matrix that are regressed now."""
    if history is None:
        return ()
    return history.standing(view.table.stacks, view.table.scenarios.values())


def lately(
    history: History | None,
) -> tuple[dt.date | None, Sequence[tuple[str, int]], Sequence[tuple[str, Flip]]]:
    """Return the newest changes: their day, how many of each kind, and the most important ones."""
    flips = history.latest_changes() if history is not None else ()
    if not flips:
        return None, (), ()
    newest = day(flips[-1].after.published.date(), list(flips))
    return (
        newest.date,
        newest.counts,
        [each for each in newest.flips if each[0] not in NOT_ABOUT_THE_STACK][:3],
    )
