"""What changed from one publication to the next, for people: history.html, and a line on the first page."""

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
TOLD_ALONE = (*OF_VERDICTS, Change.ELSEWHERE)
"""Kinds of which every flip is told; of what is new or gone each stack is."""
ANEW = "judged anew"
NO_NEWS = (ANEW, Change.ELSEWHERE.value)
WORDS = (*(kind.value for kind in TOLD_ALONE), ANEW, Change.NEW.value, Change.GONE.value)
"""What changes are called, in the order in which they are told."""


class Alike(NamedTuple):
    """A variant whose verdict changed in the same way, for the same reason, on one stack or several."""

    word: str
    flips: Sequence[Flip]

    @property
    def first(self) -> Flip:
        """It stands for the others."""
        return self.flips[0]


class Course(NamedTuple):
    """What changed of a stack."""

    stack: str
    counts: list[tuple[str, int]]
    changes: list[tuple[dt.date, Alike]]
    """Changes of verdict, the newest first."""


class Day(NamedTuple):
    """What was published on a day."""

    date: dt.date
    counts: list[tuple[str, int]]
    flips: list[tuple[str, Flip]]
    """What each change is called, and the change."""
    alike: list[Alike]
    """The same, in groups."""
    untold: int
    others: list[tuple[str, str, int]]
    """New or gone cells: what, on which stack, how many."""


def days(history: History | None) -> list[Day]:
    """The days on which a verdict changed, the newest first."""
    flips = history.flips[::-1] if history is not None else ()
    grouped = groupby(flips, key=lambda flip: flip.after.published.date())
    return [day(date, list(members)) for date, members in grouped][:MOST_DAYS]


def day(date: dt.date, flips: list[Flip]) -> Day:
    """One day's flips."""
    count = Counter(map(called, flips))
    alone = sorted(
        (f for f in flips if f.kind in TOLD_ALONE), key=lambda f: (WORDS.index(called(f)), f.cell)
    )
    others = Counter(
        (flip.kind.value, flip.cell.stack) for flip in flips if flip.kind not in TOLD_ALONE
    )
    return Day(
        date=date,
        counts=[(word, count[word]) for word in WORDS if count[word]],
        flips=[(called(flip), flip) for flip in alone[:MOST_FLIPS]],
        alike=alike(alone[:MOST_FLIPS]),
        untold=len(alone[MOST_FLIPS:]),
        others=[(kind, stack, number) for (kind, stack), number in others.items()],
    )


def called(flip: Flip) -> str:
    """What a change is called: it is no news of the stack where nothing changed but our own measurement."""
    return ANEW if flip.ours_alone and flip.kind in TOLD_ALONE else flip.kind.value


def alike(flips: Iterable[Flip]) -> list[Alike]:
    """The changes in groups: the same variant, from one outcome to another, for the same reason."""
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
    """What changed of each stack, the newest stack first; the evidence of its cells links there."""
    by_stack: dict[str, list[Flip]] = defaultdict(list)
    for flip in history.flips[::-1] if history is not None else ():
        by_stack[flip.cell.stack].append(flip)
    return [course(lock.stack, by_stack[lock.stack]) for lock in view.newest_first]


def course(stack: str, flips: Sequence[Flip]) -> Course:
    """What changed of a stack."""
    count = Counter(map(called, flips))
    alone = [flip for flip in flips if flip.kind in TOLD_ALONE][:MOST_FLIPS]
    grouped = groupby(alone, key=lambda flip: flip.after.published.date())
    return Course(
        stack=stack,
        counts=[(word, count[word]) for word in WORDS if count[word]],
        changes=[(date, each) for date, members in grouped for each in alike(members)],
    )


def history_page(view: View, history: History | None) -> tuple[str, bytes]:
    """history.html."""
    return page(
        "history.html",
        links.HISTORY,
        days=days(history),
        regressions=standing(view, history),
        courses=courses(view, history),
        known=set(view.table.stacks),
    )


def standing(view: View, history: History | None) -> Sequence[Regression]:
    """What is regressed at present, of the cells that the matrix has."""
    if history is None:
        return ()
    return history.standing(view.table.stacks, view.table.scenarios.values())


def lately(
    history: History | None,
) -> tuple[dt.date | None, Sequence[tuple[str, int]], Sequence[tuple[str, Flip]]]:
    """The newest publication that changed a verdict: its day, how many of each kind, and the flips worth a line."""
    flips = history.latest_changes() if history is not None else ()
    if not flips:
        return None, (), ()
    newest = day(flips[-1].after.published.date(), list(flips))
    return newest.date, newest.counts, [each for each in newest.flips if each[0] not in NO_NEWS][:3]
