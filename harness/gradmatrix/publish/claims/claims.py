"""Claims: sentences that people published, with the cells that would show whether each is true.

A claim and what it expects stand in ``scenarios/claims.toml``. Its verdict does not: it is computed
from the cells (``judge.py``). A mistake in the file is reported with the name of the claim and key.
"""

from __future__ import annotations

import datetime as dt
import re
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import Version

from gradmatrix.core.errors import SAFE_NAME, UserError, check_unique, did_you_mean, wrong
from gradmatrix.core.files import read_toml
from gradmatrix.core.model import Cell, Gradient
from gradmatrix.core.observation import Frozen
from gradmatrix.core.outcomes import TABLE
from gradmatrix.judge.causes import Cause
from gradmatrix.stacks.config import DEVICES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from gradmatrix.core.model import Scenario


NAMED_OUTCOMES = ("trains", "fails", "says-so", "silent")
"""Outcomes that a claim may name beside ``phase:reason``."""


class Verdict(StrEnum):
    """Whether the records support a claim."""

    CONFIRMED = "confirmed"
    """All relevant cells support it, and every expectation was tested."""
    REFUTED = "refuted"
    """All relevant cells contradict it."""
    PARTLY = "partly"
    """Some cells support it and some contradict it, or a part of it was not tested."""
    UNTESTED = "untested"
    """There is no relevant cell."""

    @property
    def symbol(self) -> str:
        """The symbol that stands beside the word, so that colour is never the only sign."""
        return {"confirmed": "✓", "refuted": "✗", "partly": "◐", "untested": "–"}[self.value]

    @property
    def words(self) -> str:
        """Symbol and word."""
        return f"{self.symbol} {self.value}"


class Sign(Frozen, frozen=True):
    """What a cell must show. If several keys are given, all of them must hold."""

    outcome: str | tuple[str, ...] = ()
    """One of ``NAMED_OUTCOMES``, or an outcome such as "step:no-grad-fn" or "step:*"."""
    gradient: Gradient | None = None
    raises: str | None = None
    """A regular expression that matches the message of the exception that ended the cell."""
    warns: str | None = None
    """A regular expression that matches one of its warnings."""
    quiet: str | None = None
    """A regular expression that matches none of its warnings."""
    cause: str | None = None
    """The cause in its diagnosis: a value of ``causes.Cause``."""
    than: str | None = None
    """The variant with which ``memory`` or ``speed`` is compared, on the same stack and device."""
    memory: Literal["more", "less", "same"] | None = None
    """Peak memory compared with ``than``. Within one percent counts as the same."""
    speed: Literal["faster", "slower", "same"] | None = None
    """Step rate compared with ``than``.

    Rates differ if the medians differ by five percent and the ranges between the quartiles do not
    overlap.
    """

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The accepted outcomes; if empty, every outcome is accepted."""
        return (self.outcome,) if isinstance(self.outcome, str) else self.outcome

    @property
    def labels(self) -> tuple[str, ...]:
        """A short label for each key that is given, for tables."""
        labels = {
            " or ".join(self.outcomes): self.outcomes,
            f"gradient {self.gradient}": self.gradient,
            f"raises “{self.raises}”": self.raises,
            f"warns “{self.warns}”": self.warns,
            f"no warning “{self.quiet}”": self.quiet,
            f"cause {self.cause}": self.cause,
            f"memory: {self.memory} {self._than(self.memory)}": self.memory,
            f"speed: {self.speed} {self._than(self.speed)}": self.speed,
        }
        return tuple(label for label, given in labels.items() if given)

    def _than(self, relation: str | None) -> str:
        return f"{'as' if relation == 'same' else 'than'} {self.than}"


class Given(Sign, frozen=True):
    """A condition on a cell of the same stack and device.

    If it does not hold, the claim is not tested.
    """

    cell: tuple[str, str] | None = None
    """Scenario and variant of that cell; None for the cell itself."""

    def label(self, home: Collection[str]) -> str:
        """A short label for tables; the scenario is named if it is none of ``home``."""
        signs = ", ".join(self.labels)
        if self.cell is None:
            return f"the cell: {signs}"
        scenario, variant = self.cell
        return f"{variant if scenario in home else f'{scenario}/{variant}'}: {signs}"


class Expectation(Sign, frozen=True, kw_only=True):
    """What a claim predicts for some cells."""

    cells: tuple[tuple[str, str], ...]
    """Scenario and variant of each."""
    where: tuple[str, ...] = ()
    """Version ranges such as "lightning<2.2.2". The stack's lock must meet all of them.

    "python" stands for the Python version of the stack.
    """
    device: str | None = None
    """None for every device."""
    given: tuple[Given, ...] = ()
    release: str | None = None
    """The release that changes the cell, such as "lightning==2.0.7".

    Then the evidence is not a cell but what ``gradmatrix flips`` found.
    """

    @property
    def labels(self) -> tuple[str, ...]:
        """A short label for each key that is given, for tables."""
        return (*super().labels, *([f"changes with {self.release}"] if self.release else []))

    @property
    def variants(self) -> str:
        """The variants by name, or how many if a table has no room for them."""
        names = [variant for _, variant in self.cells]
        return ", ".join(names) if len(names) <= MOST_VARIANTS else f"{len(names)} variants"

    @property
    def conditions(self) -> tuple[str, ...]:
        """A short label for each version range, the device and each condition."""
        home = {scenario for scenario, _ in self.cells}
        device = (self.device,) if self.device is not None else ()
        return (*self.where, *device, *(given.label(home) for given in self.given))


class Claim(Frozen, frozen=True):
    """A published sentence, and how to test it."""

    id: str
    scenario: str
    """The scenario that it belongs to."""
    says: str
    source: str
    """Where it was published: "OWNER/REPOSITORY#NUMBER"."""
    date: dt.date | None
    reading: str
    """How the sentence is understood for the test; empty if that is obvious."""
    expect: tuple[Expectation, ...]
    note: str = ""
    """One sentence about the result that the table of counts does not show; may be empty."""

    @property
    def url(self) -> str:
        """The address of its source. GitHub redirects it if the number is a pull request's."""
        repository, _, number = self.source.partition("#")
        return f"https://github.com/{repository}/issues/{number}"


class Evidence(Frozen, frozen=True):
    """A cell that supports or contradicts a claim."""

    cell: Cell
    outcome: str
    bears: Literal["for", "against"]
    why: str
    """What was observed in the cell, as far as the claim is about it."""


class Boundary(Frozen, frozen=True):
    """A package whose version separates the stacks that show what is expected from the others."""

    package: str
    holds: str
    """The release next to the boundary on the side where the expectation holds."""
    fails: str
    """The release next to the boundary on the other side."""

    def __str__(self) -> str:
        if Version(self.holds) > Version(self.fails):
            return f"{self.package}: yes from {self.holds} on, no up to {self.fails}"
        return f"{self.package}: yes up to {self.holds}, no from {self.fails} on"


class Span(Frozen, frozen=True):
    """The oldest and the newest release of a package among the tested stacks."""

    package: str
    oldest: str
    newest: str

    def __str__(self) -> str:
        same = self.oldest == self.newest
        return f"{self.package} {self.oldest}{'' if same else f' to {self.newest}'}"


class Tested(Frozen, frozen=True):
    """One expectation with the cells that support or contradict it."""

    expectation: Expectation
    evidence: tuple[Evidence, ...]
    releases: tuple[Span, ...] = ()
    """For each package in ``where``: the tested releases."""
    boundaries: tuple[Boundary, ...] = ()
    """The packages that separate the stacks, if any does. Several may have changed together."""
    too_close: int = 0
    """Stacks on which the difference in speed is too small to decide."""

    @property
    def holding(self) -> int:
        """The number of cells that show what is expected."""
        return sum(each.bears == "for" for each in self.evidence)

    @property
    def stacks(self) -> int:
        """The number of stacks with a relevant cell."""
        return len({each.cell.stack for each in self.evidence})

    @property
    def counts(self) -> str:
        """How often the expectation holds, such as "2 of 4 cells"."""
        return f"{self.holding} of {len(self.evidence)} cells" if self.evidence else "no cell"

    @property
    def line(self) -> str:
        """The expectation and how often it holds, on one line."""
        return f"{self.expectation.variants}: {', '.join(self.expectation.labels)} in {self.counts}"


class Judged(Frozen, frozen=True):
    """A claim with its verdict and evidence."""

    claim: Claim
    verdict: Verdict
    tested: tuple[Tested, ...]
    """In the order of the claim's expectations."""

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """All relevant cells. A cell that is relevant to two expectations appears twice."""
        return tuple(each for part in self.tested for each in part.evidence)


FILE = "claims.toml"
MOST_VARIANTS = 6
"""More variants than this are counted, not named, in a table."""
SOURCE = re.compile(r"[\w.-]+/[\w.-]+#[1-9]\d*")
OUTCOMES = tuple(row.outcome.replace("N", "1") for row in TABLE)
"""Every outcome, with 1 for a number."""

Words = Annotated[str, msgspec.Meta(min_length=1)]


class _GivenTable(Sign, frozen=True):
    scenario: str | None = None
    variant: str | None = None


class _ExpectTable(Sign, frozen=True, kw_only=True):
    variants: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    scenario: str | None = None
    where: tuple[str, ...] = ()
    device: str | None = None
    given: tuple[_GivenTable, ...] = ()
    release: str | None = None


class _ClaimTable(Frozen, frozen=True):
    id: str
    scenario: str
    says: Words
    source: str
    date: dt.date | None = None
    reading: str = ""
    note: str = ""
    expect: tuple[_ExpectTable, ...] = ()


class _Document(Frozen, frozen=True):
    claims: tuple[_ClaimTable, ...] = ()


def load_claims(root: Path, scenarios: Mapping[str, Scenario]) -> tuple[Claim, ...]:
    """Read the claims of the checkout in ``root``."""
    return load(root / "scenarios" / FILE, scenarios)


def load(path: Path, scenarios: Mapping[str, Scenario]) -> tuple[Claim, ...]:
    """Read the claims in ``path``. A missing file has none.

    A claim about a package that no stack has is untested, and no error.

    Args:
        path: The file, such as ``scenarios/claims.toml``.
        scenarios: The known scenarios, by name.

    Raises:
        UserError: If the file cannot be read, or if it names an unknown scenario, variant, device,
            outcome or cause.
    """
    if not path.exists():
        return ()
    document = read_toml(path, _Document)
    check_unique(path, "claim", [claim.id for claim in document.claims])
    return tuple(_Reader(path, scenarios, entry).claim() for entry in document.claims)


class _Reader:
    """Reads one claim. Each of its errors names the claim."""

    def __init__(
        self,
        path: Path,
        scenarios: Mapping[str, Scenario],
        entry: _ClaimTable,
    ) -> None:
        self.path = path
        self.scenarios = scenarios
        self.entry = entry

    def claim(self) -> Claim:
        """Return the claim, after all checks."""
        entry = self.entry
        if not SAFE_NAME.fullmatch(entry.id):
            raise wrong(
                self.path,
                f"has the claim id {entry.id!r}",
                "it is part of an address: letters, digits, '-'",
            )
        if not SOURCE.fullmatch(entry.source):
            raise self.wrong(
                f"has the source {entry.source!r}", fix='write it like "huggingface/trl#3150"'
            )
        if entry.scenario not in self.scenarios:
            raise self.unknown("scenario", entry.scenario, self.scenarios)
        return Claim(
            id=entry.id,
            scenario=entry.scenario,
            says=entry.says,
            source=entry.source,
            date=entry.date,
            reading=entry.reading,
            note=entry.note,
            expect=tuple(map(self.expectation, entry.expect)),
        )

    def expectation(self, table: _ExpectTable) -> Expectation:
        """Return an expectation, with names and patterns resolved to variants."""
        chosen = self.matching("scenario", table.scenario or self.entry.scenario, self.scenarios)
        known = {
            name: [variant.name for variant in self.scenarios[name].variants] for name in chosen
        }
        everyone = dict.fromkeys(variant for variants in known.values() for variant in variants)
        wanted = {
            name for text in table.variants for name in self.matching("variant", text, everyone)
        }
        if table.device is not None and table.device not in DEVICES:
            raise self.unknown("device", table.device, DEVICES)
        for name in chosen:
            if table.release is None:
                self.check(table, known[name])
        return Expectation(
            cells=tuple(
                (name, variant) for name in chosen for variant in known[name] if variant in wanted
            ),
            where=tuple(map(self.requirement, table.where)),
            device=table.device,
            given=tuple(map(self.condition, table.given)),
            release=table.release and self.requirement(table.release),
            **_signs(table),
        )

    def condition(self, table: _GivenTable) -> Given:
        """Return a condition; one without a variant is about the cell itself."""
        name = table.scenario or self.entry.scenario
        if name not in self.scenarios:
            raise self.unknown("scenario", name, self.scenarios)
        variants = [variant.name for variant in self.scenarios[name].variants]
        if table.scenario is not None and table.variant is None:
            raise self.wrong(
                "has a condition with a scenario and no variant",
                f"those of {name}: {', '.join(variants)}",
            )
        if table.variant is not None and table.variant not in variants:
            raise self.unknown("variant", table.variant, variants)
        self.check(table, variants)
        return Given(cell=None if table.variant is None else (name, table.variant), **_signs(table))

    def check(self, sign: Sign, variants: Collection[str]) -> None:
        """Check that ``sign`` can hold for some cells and fail for others.

        Args:
            sign: What a cell must show.
            variants: The variants that ``than`` may name.

        Raises:
            UserError: If it is empty, or names something unknown.
        """
        if not any(_signs(sign).values()):
            raise self.wrong(
                "expects nothing of a cell",
                fix='write what the cell must show, such as outcome = "trains"',
            )
        for text in sign.outcomes:
            if text not in NAMED_OUTCOMES and not any(
                fnmatchcase(known, text) for known in OUTCOMES
            ):
                raise self.unknown("outcome", text, (*NAMED_OUTCOMES, *OUTCOMES))
        if sign.cause is not None and sign.cause not in list(Cause):
            raise self.unknown("cause", sign.cause, [cause.value for cause in Cause])
        if sign.than is not None and sign.than not in variants:
            raise self.unknown("variant", sign.than, variants)
        if (sign.than is None) != (sign.memory is None and sign.speed is None):
            raise self.wrong(
                "uses than, memory or speed without the others",
                fix='write both: than = "VARIANT", and memory = "more" or speed = "slower"',
            )
        for text in filter(None, (sign.raises, sign.warns, sign.quiet)):
            try:
                re.compile(text)
            except re.error as error:
                raise self.wrong(f"has the unreadable pattern {text!r}", str(error)) from error

    def requirement(self, text: str) -> str:
        """Return ``text`` if it is a version range of one package."""
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            raise self.wrong(
                f"has the unreadable version range {text!r}", str(error).splitlines()[0]
            ) from error
        if not requirement.specifier or requirement.url or requirement.marker or requirement.extras:
            raise self.wrong(
                f"has the version range {text!r}", fix='write it like "lightning>=2.2.2,<3"'
            )
        return text

    def matching(self, kind: str, text: str, known: Collection[str]) -> list[str]:
        """Return the ``known`` names that match ``text``, a name or a pattern like ``lora_*``."""
        found = [name for name in known if fnmatchcase(name, text)]
        if not found:
            raise self.unknown(kind, text, known)
        return found

    def wrong(self, what: str, cause: str = "", fix: str = "") -> UserError:
        """Return an error about this claim."""
        return wrong(self.path, f"{what}, in claim {self.entry.id!r}", cause, fix)

    def unknown(self, kind: str, word: str, known: Collection[str]) -> UserError:
        """Return an error about a word that is not among the ``known`` ones."""
        return self.wrong(f"names the unknown {kind} {word!r}", did_you_mean(word, known))


def _signs(table: Sign) -> dict[str, Any]:
    return {name: getattr(table, name) for name in Sign.__struct_fields__}
