"""The words of a claim: a sentence that somebody published, the cells that would bear it out, and what they say of it.

What a claim expects is written in ``scenarios/claims.toml``; its verdict never is: it follows from the cells.

claims.toml as validated claims; whatever is wrong in the file is told in the words of the file.
"""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from gradmatrix.core.errors import SAFE_NAME, UserError, check_unique, did_you_mean, wrong
from gradmatrix.core.model import Cell, Gradient
from gradmatrix.core.observation import Frozen
from gradmatrix.core.outcomes import TABLE
from gradmatrix.judge.causes import Cause
from gradmatrix.stacks.config import DEVICES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from gradmatrix.core.model import Lock, Scenario


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


FILE = "claims.toml"
SOURCE = re.compile(r"[\w.-]+/[\w.-]+#[1-9]\d*")
OUTCOMES = tuple(row.outcome.replace("N", "1") for row in TABLE)
"""Every outcome, with 1 for a number."""
PYTHON = "python"
"""May stand where a package does: the stack's Python."""

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


class _ClaimTable(Frozen, frozen=True):
    id: str
    scenario: str
    says: Words
    source: str
    date: dt.date | None = None
    reading: str = ""
    expect: tuple[_ExpectTable, ...] = ()


class _Document(Frozen, frozen=True):
    claims: tuple[_ClaimTable, ...] = ()


KEYS: dict[str, type[msgspec.Struct]] = {
    "": _Document,
    "claims": _ClaimTable,
    "expect": _ExpectTable,
    "given": _GivenTable,
}


def of_checkout(
    root: Path, scenarios: Mapping[str, Scenario], locks: Iterable[Lock]
) -> tuple[Claim, ...]:
    """The claims of the checkout in ``root``; ``locks`` say which packages a stack may have."""
    packages = {package.name for lock in locks for package in lock.packages}
    return load(root / "scenarios" / FILE, scenarios, packages or None)


def load(
    path: Path, scenarios: Mapping[str, Scenario], packages: Collection[str] | None = None
) -> tuple[Claim, ...]:
    """The claims of ``path``, none where there is no such file; ``packages`` are those that a stack may have.

    UserError for what cannot be read, names an unknown scenario, variant, package, device, outcome or cause.
    """
    table = _toml(path)
    try:
        document = msgspec.convert(table, _Document)
    except msgspec.ValidationError as error:
        raise _explained(path, str(error), table) from error
    check_unique(path, "claim", [claim.id for claim in document.claims])
    return tuple(_Reader(path, scenarios, packages, entry).claim() for entry in document.claims)


class _Reader:
    """Reads one claim: whatever it complains of, it says in which one."""

    def __init__(
        self,
        path: Path,
        scenarios: Mapping[str, Scenario],
        packages: Collection[str] | None,
        entry: _ClaimTable,
    ) -> None:
        self.path = path
        self.scenarios = scenarios
        self.packages = packages
        self.entry = entry

    def claim(self) -> Claim:
        """The claim."""
        entry = self.entry
        if not SAFE_NAME.fullmatch(entry.id):
            raise wrong(
                self.path,
                f"has the claim id {entry.id!r}",
                "it is part of an address: letters, digits, '-'",
            )
        if not SOURCE.fullmatch(entry.source):
            raise self.wrong(
                f"has the source {entry.source!r}", 'write it like "huggingface/trl#3150"'
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
            expect=tuple(map(self.expectation, entry.expect)),
        )

    def expectation(self, table: _ExpectTable) -> Expectation:
        """What it expects of the cells that the names and patterns of ``table`` mean."""
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
            self.check(table, known[name])
        return Expectation(
            cells=tuple(
                (name, variant) for name in chosen for variant in known[name] if variant in wanted
            ),
            where=tuple(map(self.requirement, table.where)),
            device=table.device,
            given=tuple(map(self.condition, table.given)),
            **_signs(table),
        )

    def condition(self, table: _GivenTable) -> Given:
        """A condition, on the cell itself where ``table`` names none."""
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
        """UserError where all cells or none would show ``sign``; ``variants`` are those that it may compare with."""
        if not any(_signs(sign).values()):
            raise self.wrong(
                "asks nothing of a cell",
                'write what is to be seen of it, such as outcome = "trains"',
            )
        for text in sign.outcomes:
            if text not in WORDS and not any(fnmatchcase(known, text) for known in OUTCOMES):
                raise self.unknown("outcome", text, (*WORDS, *OUTCOMES))
        if sign.cause is not None and sign.cause not in list(Cause):
            raise self.unknown("cause", sign.cause, [cause.value for cause in Cause])
        if sign.than is not None and sign.than not in variants:
            raise self.unknown("variant", sign.than, variants)
        if (sign.than is None) != (sign.memory is None and sign.speed is None):
            raise self.wrong(
                "compares memory or speed", 'name the variant that it compares with: than = "…"'
            )
        for text in filter(None, (sign.raises, sign.warns, sign.quiet)):
            try:
                re.compile(text)
            except re.error as error:
                raise self.wrong(f"has the unreadable pattern {text!r}", str(error)) from error

    def requirement(self, text: str) -> str:
        """``text``, if it is a version range of one package."""
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            raise self.wrong(
                f"has the unreadable version range {text!r}", str(error).splitlines()[0]
            ) from error
        if not requirement.specifier or requirement.url or requirement.marker or requirement.extras:
            raise self.wrong(
                f"has the version range {text!r}", 'write it like "lightning>=2.2.2,<3"'
            )
        name = canonicalize_name(requirement.name)
        if self.packages is not None and name not in {*self.packages, PYTHON}:
            raise self.unknown("package", name, sorted(self.packages))
        return text

    def matching(self, kind: str, text: str, known: Collection[str]) -> list[str]:
        """The ``known`` names that ``text`` means: a name, or a pattern such as ``lora_*``."""
        found = [name for name in known if fnmatchcase(name, text)]
        if not found:
            raise self.unknown(kind, text, known)
        return found

    def wrong(self, what: str, cause: str) -> UserError:
        """A complaint about this claim."""
        return wrong(self.path, f"{what}, in claim {self.entry.id!r}", cause)

    def unknown(self, kind: str, word: str, known: Collection[str]) -> UserError:
        """A complaint about a word that is not among the ``known`` ones."""
        return self.wrong(f"names the unknown {kind} {word!r}", did_you_mean(word, known))


def _signs(table: Sign) -> dict[str, Any]:
    return {name: getattr(table, name) for name in Sign.__struct_fields__}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise wrong(path, f"cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise wrong(path, f"is no valid TOML: {error}") from error


def _explained(path: Path, error: str, table: dict[str, Any]) -> UserError:
    """A complaint of msgspec in the words of the file: which claim, which key, what was expected."""
    message, _, where = error.partition(" - at `$.")
    steps = re.findall(r"(\w+)(?:\[(\d+)\])?", where.rstrip("`"))
    place = _place(steps, table)
    unknown = re.search(r"unknown field `(.*)`", message)
    if unknown:
        fields = KEYS[
            next((name for name, _ in reversed(steps) if name in KEYS), "")
        ].__struct_fields__
        return wrong(
            path, f"has the unknown key {unknown[1]!r}{place}", did_you_mean(unknown[1], fields)
        )
    missing = re.search(r"missing required field `(.*)`", message)
    if missing:
        return wrong(path, f"lacks the key {missing[1]!r}{place}")
    return wrong(path, f"has a wrong value{place}: {message[0].lower()}{message[1:]}")


def _place(steps: list[tuple[str, str]], table: dict[str, Any]) -> str:
    """`` in claim 'x', expectation 2, key 'where'`` for the names and numbers of a msgspec path."""
    words = []
    for name, number in steps:
        if name == "claims" and number:
            entry = table["claims"][int(number)]
            named = isinstance(entry, dict) and "id" in entry
            words.append(f"claim {entry['id']!r}" if named else f"claim number {int(number) + 1}")
        elif name in {"expect", "given"} and number:
            words.append(f"{'expectation' if name == 'expect' else 'condition'} {int(number) + 1}")
        else:
            words.append(f"key {name!r}")
    return " in " + ", ".join(words) if words else ""
