"""The words of a claim: a sentence that somebody published, the cells that would bear it out, and what they say of it.

What a claim expects is written in ``scenarios/claims.toml``; its verdict never is: it follows from the cells.
"""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Literal

from harness.model import Cell, Gradient
from harness.observation import Frozen

WORDS = {
    "trains": ("trains", "train"),
    "fails": ("fails", "fail"),
    "says-so": ("says so", "say so"),
    "silent": ("is silent", "are silent"),
}
"""Outcomes that a claim may name beside ``phase:reason``; each of one variant, of several."""


class Verdict(StrEnum):
    """What the records say of a claim."""

    CONFIRMED = "confirmed"
    """Every cell that bears on it speaks for it, and each of its expectations was tested."""
    REFUTED = "refuted"
    """Every cell that bears on it speaks against it."""
    PARTLY = "partly"
    UNTESTED = "untested"
    """No cell bears on it."""


class Sign(Frozen, frozen=True):
    """What is to be seen of a cell; everything that is named must hold."""

    outcome: str | tuple[str, ...] = ()
    """One of these: "trains", "fails", "says-so", "silent", or an outcome such as "step:no-grad-fn" or "step:*"."""
    gradient: Gradient | None = None
    raises: str | None = None
    """A regular expression, found in the message of the exception that ended it."""
    warns: str | None = None
    """A regular expression, found in one of its warnings."""
    quiet: str | None = None
    """A regular expression, found in none of its warnings."""
    cause: str | None = None
    """The cause that its diagnosis names: a word of ``causes.Cause``."""
    than: str | None = None
    """The variant of the same scenario, stack and device that ``memory`` and ``speed`` compare with."""
    memory: Literal["more", "less", "same"] | None = None
    """Of its peak; within one percent is the same."""
    speed: Literal["faster", "slower", "same"] | None = None
    """Of its steps: apart where the medians are by five percent, and the ranges between the quartiles too."""

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The outcomes of which one must be seen; any where it is empty."""
        return (self.outcome,) if isinstance(self.outcome, str) else self.outcome


class Given(Sign, frozen=True):
    """A condition on another cell of the same stack and device: without it the cell says nothing of the claim."""

    cell: tuple[str, str] | None = None
    """Scenario and variant of that cell; None for the cell itself."""


class Expectation(Sign, frozen=True, kw_only=True):
    """What a claim expects of some cells."""

    cells: tuple[tuple[str, str], ...]
    """Scenario and variant of each."""
    where: tuple[str, ...] = ()
    """Requirements, such as "lightning<2.2.2", that the stack's lock meets: all of them."""
    device: str | None = None
    """None for every device."""
    given: tuple[Given, ...] = ()


class Claim(Frozen, frozen=True):
    """A sentence that somebody published."""

    id: str
    scenario: str
    """The scenario that it belongs to."""
    says: str
    source: str
    """Where it was published: "OWNER/REPOSITORY#NUMBER"."""
    date: dt.date | None
    reading: str
    """How it was read to be tested, where that is not plain; else empty."""
    expect: tuple[Expectation, ...]

    @property
    def url(self) -> str:
        """The page of its source; the number of a pull request leads there too."""
        repository, _, number = self.source.partition("#")
        return f"https://github.com/{repository}/issues/{number}"


class Evidence(Frozen, frozen=True):
    """A cell that bears on a claim."""

    cell: Cell
    outcome: str
    bears: Literal["for", "against"]
    why: str
    """What was seen of it."""


class Tested(Frozen, frozen=True):
    """One expectation, and the cells that bear on it."""

    words: str
    evidence: tuple[Evidence, ...]


class Judged(Frozen, frozen=True):
    """A claim, and what the records say of it."""

    claim: Claim
    verdict: Verdict
    tested: tuple[Tested, ...]
    """In the order of the claim's expectations."""

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Every cell that bears on it; one that bears on two expectations comes twice."""
        return tuple(each for part in self.tested for each in part.evidence)

    @property
    def summary(self) -> str:
        """One sentence: what was seen of each expectation."""
        return "; ".join(part.words for part in self.tested) or "no cell bears on it"
