"""Where an outcome changes along a line of states, found with as few questions as possible.

Each edge between two neighbouring states has a chance of being the one. A question about a state
moves these chances to one side of it (Bayes), so an oracle that is sometimes wrong is only asked
more often. With an oracle that is never wrong, and equal chances, this is bisection.
"""

from __future__ import annotations

import datetime as dt
from collections import deque
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from packaging.version import Version

from gradmatrix.core.observation import Frozen
from gradmatrix.core.text import few

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gradmatrix.core.model import Lock

CERTAIN = 0.999
"""The chance from which on an edge counts as found."""
KNOWN = 3.0
"""How likely the edges are that are known from another search, relative to all others together."""
MOST_NAMED = 3
"""The most packages or releases that are named in the answer because they are in doubt."""


class Search:
    """The search for the edge among states 0 to n: the first is unchanged, the last is changed."""

    def __init__(self, weights: Sequence[float], noise: float = 0.0) -> None:
        """Begin a search.

        Args:
            weights: how likely each edge is, relative to the others; edge k is between the
                states k and k + 1
            noise: the share of wrong answers, below a half
        """
        total = sum(weights)
        self.chances = [weight / total for weight in weights]
        self.noise = noise
        self.skipped: set[int] = set()

    def next(self) -> int | None:
        """The state to ask about: its answer tells most; None if no further answer would help.

        Neighbours of a state that was skipped are often as broken as it is. So with each of them
        the aim moves away from the middle: to a quarter, three quarters, an eighth, and so on.
        """
        if max(self.chances) >= CERTAIN:
            return None
        asked = [
            (below, state)
            for state, below in enumerate(accumulate(self.chances[:-1]), start=1)
            if any(self.chances[:state]) and any(self.chances[state:])
        ]
        turn = f"{1 + sum(state in self.skipped for _, state in asked):b}"
        aim = int(turn[::-1], 2) / 2 ** len(turn)
        left = [(abs(below - aim), state) for below, state in asked if state not in self.skipped]
        return min(left)[1] if left else None

    def saw(self, state: int, *, changed: bool) -> None:
        """The answer about a state: whether the edge is before it."""
        right, wrong = 1 - self.noise, self.noise
        chances = [
            chance * (right if (state > edge) is changed else wrong)
            for edge, chance in enumerate(self.chances)
        ]
        total = sum(chances)
        self.chances = [chance / total for chance in chances]

    @property
    def left(self) -> int:
        """How many edges are still possible."""
        return sum(chance > 1 - CERTAIN for chance in self.chances)

    def skip(self, state: int) -> None:
        """A state that cannot be asked about."""
        self.skipped.add(state)

    def coming(self, most: int) -> list[int]:
        """States that may be asked about after the next one, the soonest first.

        They follow from both answers to each question. With the next one, 3 states cut the edges
        into 4 parts, 7 into 8, and so on.
        """
        found: list[int] = []
        searches = deque([self])
        for _ in range(2 * most + 1):  # with noise, the same state may be asked about again
            if not searches or len(found) == most:
                break
            search = searches.popleft()
            state = search.next()
            if state is None:
                continue
            if search is not self and state not in found:
                found.append(state)
            for changed in (True, False):
                after = Search(search.chances, self.noise)
                after.skipped = self.skipped
                after.saw(state, changed=changed)
                searches.append(after)
        return found

    def answer(self) -> tuple[int, int]:
        """The states around the edge: the last unchanged and the first changed one.

        They are not neighbours if states between them could not be asked about.
        """
        order = sorted(range(len(self.chances)), key=lambda edge: -self.chances[edge])
        taken, certain = [], 0.0
        for edge in order:
            if certain >= CERTAIN:
                break
            taken.append(edge)
            certain += self.chances[edge]
        return min(taken), max(taken) + 1


def likely(weights: Sequence[float], known: Collection[int]) -> list[float]:
    """The weights of edges; ``known`` ones are three times as likely as all others together.

    Then they are asked about first, and others stay likely enough to be found.
    """
    others = sum(weight for edge, weight in enumerate(weights) if edge not in known)
    more = KNOWN * others / len(known) if known and others else 0.0
    return [more if more and edge in known else weight for edge, weight in enumerate(weights)]


def most_questions(weights: Sequence[float]) -> int:
    """The most questions that a search asks, whichever edge it is, if all can be answered."""
    most = 0
    for edge in range(len(weights)):
        search, asked = Search(weights), 0
        while (state := search.next()) is not None:
            search.saw(state, changed=state > edge)
            asked += 1
        most = max(most, asked)
    return most


class End(Frozen, frozen=True):
    """A set of packages, and how the cell ends there."""

    name: str
    outcome: str
    gradient: str | None
    message: str
    why: tuple[str, ...]
    """The diagnosis; empty if there is none."""


class NotJudged(Frozen, frozen=True):
    """A set of packages that could not be judged."""

    what: str
    why: str


class Link(Frozen, frozen=True):
    """An address in the metadata of a release, such as that of its changelog."""

    name: str
    url: str


class Edge(Frozen, frozen=True, kw_only=True):
    """Two releases of a package between which the outcome changes."""

    package: str
    """Packages that could not be told apart stand together: ``a + b``, so do their releases."""
    before: str | None
    """The last release that ends as the good side does; None if that has no such package."""
    before_released: dt.date | None = None
    after: str
    """The first release that ends differently."""
    after_released: dt.date | None = None
    ends: tuple[End, End]
    """How the cell ends with these two releases."""
    moved: tuple[str, ...]
    """All packages that differ between these two runs, without those that torch brings for CUDA."""
    also: tuple[str, ...] = ()
    """What else differs between these two runs, because it cannot stay."""
    between: tuple[str, ...] = ()
    """The releases between them, which could not be judged."""
    needs: tuple[str, ...] = ()
    """What the newer of the two releases requires otherwise than the older one."""
    links: tuple[Link, ...] = ()
    """Where its metadata says what changed."""

    @property
    def newer(self) -> str:
        """The later of the two: the release that changed it."""
        return later(self.before, self.after)

    @property
    def in_order(self) -> tuple[End, End]:
        """What ran, with the older release first."""
        return self.ends[::-1] if self.is_backwards else self.ends

    @property
    def is_backwards(self) -> bool:
        """Whether the good side has the newer release."""
        return not self.several and self.newer == self.before

    @property
    def releases(self) -> str:
        """Both releases with their days, the older one first."""
        ends = [(self.before, self.before_released), (self.after, self.after_released)]
        if self.is_backwards:
            ends.reverse()
        (first, first_day), (last, last_day) = ends
        older = f"{self.package} {first}" if first else f"a side without {self.package}"
        return f"{older}{on(first_day)} and {last}{on(last_day)}{self.doubt}"

    @property
    def doubt(self) -> str:
        """What may be the cause instead, after a comma; empty if everything else is equal."""
        if self.several:
            return ", and which of these packages it is could not be told"
        doubt = ""
        if self.between:
            doubt = f", and {few(self.between, MOST_NAMED)} between them could not be judged"
        if self.also:
            doubt += (
                f", with which {few([name_of(move) for move in self.also], MOST_NAMED)} moved too"
            )
        return doubt

    @property
    def several(self) -> bool:
        """Whether it stands for packages that could not be told apart."""
        return " + " in self.package


def later(one: str | None, other: str | None) -> str:
    """The later of two releases, of which one may be missing."""
    return max(filter(None, (one, other)), key=Version)


def is_between(package: str, release: str, one: Lock, other: Lock) -> bool:
    """Whether it is newer than the package in one lock, and not newer than in the other one."""
    versions = [Version(each.version(package) or "0") for each in (one, other)]
    return min(versions) < Version(release) <= max(versions)


def name_of(move: str) -> str:
    """The package of a move, which is told with both versions, in the order of the two sides."""
    return move.partition(" ")[0]


def on(day: dt.date | None) -> str:
    """A day in parentheses, if it is known."""
    return f" ({day})" if day else ""


class Found(Frozen, frozen=True, kw_only=True):
    """The answer. If ``all`` is false, all edges are needed together."""

    schema: int = 1
    cell: str
    """SCENARIO/VARIANT/DEVICE."""
    metric: str = ""
    """What was measured; empty if the outcome was asked about."""
    good: End
    bad: End
    differing: int
    """The packages that differ between the two sides."""
    edges: tuple[Edge, ...]
    """Empty if both sides end in the same way."""
    without: End | None = None
    """The bad side with the older release, if it ends as the bad side all the same."""
    all: bool = False
    """Whether every change on the way was looked for: each edge is one of its own."""
    skipped: tuple[NotJudged, ...]
    probes: int
    """The sets of packages that ran and could be judged, without the two sides."""

    @property
    def headline(self) -> str:
        """The answer in a sentence."""
        if not self.edges and self.metric:
            return f"{self.metric} of {self.cell} does not differ clearly between the sides."
        if not self.edges:
            return f"{self.cell} ends in the same way on both sides: {self.good.outcome}."
        what = f"{self.metric} of {self.cell}" if self.metric else self.cell
        places = "; ".join(f"between {each.releases}" for each in self.edges)
        if len(self.edges) > 1 and not self.all:
            return f"{what} changes only if all of these packages move: {places}."
        return f"{what} changes {places}."


class Turning(Frozen, frozen=True, kw_only=True):
    """A cell that ends differently on two neighbouring stacks, and the release behind it."""

    cell: str
    """SCENARIO/VARIANT/DEVICE."""
    stacks: tuple[str, str]
    """The older one first."""
    locks: tuple[str, str]
    """The first digits of their digests: with other locks it must be looked for again."""
    outcomes: tuple[str, str]
    edges: tuple[Edge, ...] = ()
    """Empty if it is not known yet."""
    why: str = ""
    """Why no release was found although it was looked for."""

    @property
    def answer(self) -> str:
        """The releases, or why they are not known."""
        if self.edges:
            return " and ".join(each.releases for each in self.edges)
        return self.why or "not looked for yet"

    @property
    def is_open(self) -> bool:
        """Whether it was not looked for yet."""
        return not self.edges and not self.why

    @property
    def is_exact(self) -> bool:
        """Whether the releases are known, of packages that could be told apart."""
        return bool(self.edges) and not any(edge.several for edge in self.edges)

    @property
    def change(self) -> tuple[object, ...]:
        """What it is about, without the answer."""
        return self.cell, self.stacks, self.locks, self.outcomes


History = frozenset[tuple[str, str]]
"""Packages, each with a release that changed a cell."""


class Flips(Frozen, frozen=True, kw_only=True):
    """All changes between neighbouring stacks of the matrix."""

    schema: Literal[1] = 1
    turns: tuple[Turning, ...]

    def history(self, cell: str, one: Lock, other: Lock) -> History:
        """What changed a cell between any stacks, and is between two locks too.

        Of packages that could not be told apart nothing is known.
        """
        edges = (edge for turn in self.turns if turn.cell == cell for edge in turn.edges)
        return frozenset(
            (edge.package, edge.newer)
            for edge in edges
            if not edge.several and is_between(edge.package, edge.newer, one, other)
        )
