"""The page of a message: which situation is yours, what mends it, and which releases changed it.

A situation is a cause of ``judge/causes.py``, whose row has the words and the code. Where that has
none, the variants with the message tell it. Releases and stacks are computed from the cells.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from gradmatrix.core.model import SHOWN, Role
from gradmatrix.core.outcomes import TRAINS
from gradmatrix.core.text import counted, few, listed
from gradmatrix.judge.versions import of_needed, separate
from gradmatrix.publish.site.markup import in_words, page
from gradmatrix.publish.site.messages import reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gradmatrix.core.model import Variant
    from gradmatrix.judge.versions import Bound
    from gradmatrix.publish.rows import Row
    from gradmatrix.publish.site.messages import Cause, Messages
    from gradmatrix.publish.site.tables import Place, View

MOST_SUMMARIES = 3
"""The most variants that tell a situation which has no words of its own."""
MOST_COURSES = 4
"""The most sentences about releases; most variants share one."""
MOST_NAMES = 3


class Course(NamedTuple):
    """Variants that fail and train with the same releases."""

    sentence: str
    places: Sequence[Place]
    """The first ones."""
    left_out: int
    exact: str
    """The releases between which it changes, if they were searched for; empty if not."""


class Situation(NamedTuple):
    """A cause of a message, for a reader who asks whether it is his."""

    cause: Cause
    title: str
    courses: Sequence[Course]
    stacks: int
    """The number of stacks on which cells with this message and cause fail."""

    @property
    def anchor(self) -> str:
        """Its id in an address."""
        return self.cause.cause or "trains-all-the-same"

    @property
    def mend(self) -> str:
        """The code that mends it; empty if there is none for all cases."""
        return self.cause.row.mend if self.cause.row is not None else ""

    @property
    def explained(self) -> Sequence[str]:
        """The diagnosis of its newest cell, with what to do."""
        newest = self.cause.newest
        if newest.diagnosis is not None:
            return newest.diagnosis.text
        return (newest.message,) if newest.message else self.cause.why

    @property
    def helping(self) -> int:
        """The number of tested remedies that train on every stack on which they were tested."""
        return sum(each.trained == each.judged for each in self.cause.tried)


def answer_pages(view: View, said: Messages) -> Iterator[tuple[str, bytes]]:
    """Yield the page of each message that a user's own script may say."""
    for number, message in enumerate(said.known):
        is_warning = number >= len(said.errors)
        yield page(
            "answer.html",
            message.path,
            message=message,
            situations=[situation(view, each, is_warning=is_warning) for each in message.answers],
            others=[(title_of(view, each), each.newest) for each in message.others],
        )


def situation(view: View, cause: Cause, *, is_warning: bool) -> Situation:
    """Return a cause of a message for a reader."""
    failing = everywhere(view, cause) if is_warning else cause.failing
    stacks = {row.stack for row in cause.failing}
    return Situation(cause, title_of(view, cause), courses(view, failing), len(stacks))


def everywhere(view: View, cause: Cause) -> list[Row]:
    """Return the cells of the same variants that fail for the same cause, with a warning or not."""
    places = dict.fromkeys((row.scenario, row.variant, row.device) for row in cause.failing)
    return [
        row
        for place in places
        for row in reversed(view.by_place[place])
        if row.passed is False and reason(row) == cause.cause
    ]


def title_of(view: View, cause: Cause) -> str:
    """Return when readers meet a cause, in their words."""
    if not cause.cause:
        return "The model trains all the same."
    if cause.cause == TRAINS:
        return "A mistake in the script that nothing reports: it runs as if it trained."
    if cause.row is None:
        return in_words(cause.cause)
    if cause.row.situation:
        return cause.row.situation
    named = [(variant_of(view, each.scenario, each.variant), each) for each in cause.variants]
    told = list(dict.fromkeys(known.summary if known else each.variant for known, each in named))
    words = "; or ".join(told[:MOST_SUMMARIES])
    more = "; …" if len(told) > MOST_SUMMARIES else ""
    return f"{words[:1].upper()}{words[1:]}{more}"


def variant_of(view: View, scenario: str, name: str) -> Variant | None:
    """Return a variant as its scenario describes it; None if that is not known any more."""
    known = view.table.scenarios.get(scenario)
    return next((each for each in known.variants if each.name == name), None) if known else None


def courses(view: View, failing: Sequence[Row]) -> list[Course]:
    """Return with which releases variants fail and train, in sentences.

    A misuse trains with no release, so it has none.
    """
    stacks: dict[Place, list[str]] = defaultdict(list)
    for row in failing:
        if row.role is not Role.MISUSE:
            stacks[row.scenario, row.variant, row.device].append(row.stack)
    alike: dict[tuple[str, str], list[Place]] = defaultdict(list)
    for place, names in stacks.items():
        alike[sentence(view, place, names), exact(view, place, names)].append(place)
    ordered = sorted(alike.items(), key=lambda each: (not each[0][1], -len(each[1]), each[0]))
    return [
        Course(words, places[:MOST_NAMES], len(places[MOST_NAMES:]), known)
        for (words, known), places in ordered[:MOST_COURSES]
    ]


def sentence(view: View, place: Place, failing: Sequence[str]) -> str:
    """Return with which releases a variant fails and trains."""
    judged = [row for row in view.by_place[place] if row.passed is not None]
    training = [row.stack for row in judged if row.outcome == TRAINS and row.passed]
    some = f"fails in this way on {len(failing)} of {counted(len(judged), 'stack')}"
    if not training:
        return f"{some}, trains on none"
    variant = variant_of(view, *place[:2])
    bad, good = ([view.releases[stack] for stack in each] for each in (failing, training))
    if bounds := of_needed(separate(bad, good, SHOWN), variant.needs if variant else ()):
        return " and ".join(
            told(found, older=older)
            for older in (True, False)
            if (found := [bound for bound in bounds if bound.older is older])
        )
    beside = neighbours(judged, set(failing), set(training))
    nearest = min((differences(view, *each) for each in beside), default=(0, ""))[1]
    return f"{some} ({few(failing, MOST_NAMES)}){nearest}"


def neighbours(
    judged: Sequence[Row], failing: set[str], training: set[str]
) -> Iterator[tuple[str, str]]:
    """Yield a failing and a training stack for each change from one stack to the next."""
    for one, other in pairwise(row.stack for row in judged):
        for bad, good in ((one, other), (other, one)):
            if bad in failing and good in training:
                yield bad, good


def differences(view: View, failing: str, training: str) -> tuple[int, str]:
    """Return in how many main packages two stacks differ, and a sentence about it."""
    moved = [each for each in view.moves.between(failing, training) if each.name in SHOWN]
    named = [f"{m.name} {m.after or '(none)'} in place of {m.before or '(none)'}" for m in moved]
    return len(moved), f"; {training} trains, with {listed(named)}" if named else ""


def told(bounds: Sequence[Bound], *, older: bool) -> str:
    """Return the releases between which a failure ends, or begins if newer releases fail."""
    fails, passes = (
        listed([f"{each.package} {getattr(each, name)}" for each in bounds], "or")
        for name in ("fails", "passes")
    )
    words = (
        f"fails in this way up to {fails}, trains from {passes} on"
        if older
        else f"trains up to {passes}, fails in this way from {fails} on"
    )
    return f"{words} (the stacks do not tell which)" if len(bounds) > 1 else words


def exact(view: View, place: Place, failing: Sequence[str]) -> str:
    """Return the releases that ``gradmatrix flips`` found for a variant; empty if it has none."""
    known: dict[tuple[object, ...], str] = {}
    for each in view.table.turnings:
        if each.cell == "/".join(place) and set(each.stacks) & set(failing):
            releases = tuple((e.package, frozenset({e.before, e.after})) for e in each.edges)
            known.setdefault(releases, each.answer)  # other packages may move with it elsewhere
    return listed(known.values())
