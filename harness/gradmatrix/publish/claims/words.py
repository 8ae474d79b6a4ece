"""Pure: what the cells say of a claim, in words: how many show what it expects, and what tells them from the others."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Literal

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gradmatrix.core.model import SHOWN
from gradmatrix.publish.claims.claims import WORDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from packaging.version import Version

    from gradmatrix.publish.claims.claims import Evidence, Expectation, Given, Sign
    from gradmatrix.publish.rows import Row, Table

    Versions = Mapping[str, Mapping[str, Version]]
    """The version of every package, by stack."""

MOST_NAMES = 3
MOST_VARIANTS = 6
MIB = 2**20


def told(
    expectation: Expectation,
    evidence: Sequence[Evidence],
    table: Table,
    versions: Versions,
    *,
    too_close: int = 0,
) -> str:
    """A sentence's part: ``hf_adafactor trains on 12 of 12 stacks with lightning 2.2.2 to 2.6.6``."""
    bearing = {(each.cell.scenario, each.cell.variant) for each in evidence}
    who, several = subject([cell for cell in expectation.cells if cell in bearing or not bearing])
    verb = " and ".join(verbs(expectation, several=several))
    under = conditions(expectation, evidence, versions, several=several)
    close = f", too close to tell on {too_close} more" if too_close else ""
    if not evidence:
        return f"no cell tells whether {who} {verb}{under}{close}"
    good = sum(each.bears == "for" for each in evidence)
    stacks = {each.cell.stack for each in evidence}
    on = f"on {good} of {counted(len(evidence), 'stack')}"
    if len(stacks) != len(evidence):
        on = f"in {good} of {counted(len(evidence), 'cell')} on {counted(len(stacks), 'stack')}"
    mixed = 0 < good < len(evidence)
    apart = f" ({divided(expectation, evidence, table, versions)})" if mixed else ""
    return f"{who} {verb} {on}{under}{apart}{close}"


def subject(cells: Sequence[tuple[str, str]]) -> tuple[str, bool]:
    """The variants by name, or how many, and whether they are several."""
    names = [variant for _, variant in cells]
    return (listed(names) if len(names) <= MOST_VARIANTS else f"{len(names)} variants"), len(
        names
    ) > 1


def verbs(sign: Sign, *, several: bool = False) -> list[str]:
    """What ``sign`` asks for, each in words."""
    words = []
    if sign.outcomes:
        named = [WORDS[each][several] for each in sign.outcomes if each in WORDS]
        ends = [each for each in sign.outcomes if each not in WORDS]
        words.append(
            " or ".join(
                [*named, *([f"{_form('end', several)} as {listed(ends, 'or')}"] if ends else [])]
            )
        )
    if sign.gradient is not None:
        words.append(f"{'have' if several else 'has'} gradient {sign.gradient}")
    if sign.raises:
        words.append(f"{_form('raise', several)} “{sign.raises}”")
    if sign.warns:
        words.append(f"{_form('warn', several)} “{sign.warns}”")
    if sign.quiet:
        words.append(f"{'are' if several else 'is'} without the warning “{sign.quiet}”")
    if sign.cause:
        words.append(f"{'are' if several else 'is'} diagnosed as {sign.cause}")
    if sign.memory is not None:
        much = "as much memory as" if sign.memory == "same" else f"{sign.memory} memory than"
        words.append(f"{_form('take', several)} {much} {sign.than}")
    if sign.speed is not None:
        fast = "as fast as" if sign.speed == "same" else f"{sign.speed} than"
        words.append(f"{'are' if several else 'is'} {fast} {sign.than}")
    return words


def _form(verb: str, several: bool) -> str:  # noqa: FBT001  (one word of grammar)
    return verb if several else f"{verb}s"


def conditions(
    expectation: Expectation, evidence: Sequence[Evidence], versions: Versions, *, several: bool
) -> str:
    """The versions that were tested, its device, and what must hold of other cells."""
    words = (
        f" with {listed(tested_versions(expectation, evidence, versions))}"
        if expectation.where
        else ""
    )
    if expectation.device is not None:
        words += f" on {expectation.device}"
    if expectation.given:
        home = {scenario for scenario, _ in expectation.cells}
        words += " where " + " and ".join(
            condition(given, home, several=several) for given in expectation.given
        )
    return words


def tested_versions(
    expectation: Expectation, evidence: Sequence[Evidence], versions: Versions
) -> list[str]:
    """``lightning 2.2.2 to 2.6.6``: less than its ranges ask for, but what there is; the ranges where no cell is."""
    if not evidence:
        return list(expectation.where)
    stacks = {each.cell.stack for each in evidence}
    return [
        f"{name} {_span({versions[stack][name] for stack in stacks})}"
        for name in about(expectation)
    ]


def about(expectation: Expectation) -> list[str]:
    """The packages that its ranges name."""
    return list(
        dict.fromkeys(canonicalize_name(Requirement(text).name) for text in expectation.where)
    )


def _span(releases: Collection[Version], word: str = "and") -> str:
    first, last = min(releases), max(releases)
    if first == last:
        return str(first)
    return f"{first} {word if len(releases) == 2 else 'to'} {last}"  # noqa: PLR2004  (both are named)


def condition(given: Given, home: Collection[str], *, several: bool) -> str:
    """One condition in words, with the scenario of its cell where that is none of ``home``."""
    if given.cell is not None:
        scenario, variant = given.cell
        of = "" if scenario in home else f" of {scenario}"
        return f"{variant}{of} {' and '.join(verbs(given))}"
    return f"{'they' if several else 'it'} {' and '.join(verbs(given, several=several))}"


def divided(
    expectation: Expectation, evidence: Sequence[Evidence], table: Table, versions: Versions
) -> str:
    """What tells the cells for from those against: their variants, a version, or only the names of their stacks."""
    variants = {
        name: [each.bears for each in found]
        for name, found in _grouped(evidence, "variant").items()
    }
    if len(variants) > 1 and all(len(set(sides)) == 1 for sides in variants.values()):
        good = [name for name, sides in variants.items() if "for" in sides]
        bad = [name for name, sides in variants.items() if "against" in sides]
        return f"only {listed(good)}" if len(good) < len(bad) else f"not {listed(bad, 'nor')}"
    stacks = {
        name: {each.bears for each in found} for name, found in _grouped(evidence, "stack").items()
    }
    if all(len(sides) == 1 for sides in stacks.values()):
        good = [name for name, sides in stacks.items() if "for" in sides]
        bad = [name for name, sides in stacks.items() if "against" in sides]
        return divided_stacks(good, bad, versions, about(expectation), needed(expectation, table))
    if len(variants) > 1:
        impure = {name: sides for name, sides in variants.items() if "against" in sides}
        parts = [
            f"{name} in {sides.count('for')} of {len(sides)}" for name, sides in impure.items()
        ]
        return ", ".join(parts[:MOST_NAMES]) + (
            f", {len(parts) - MOST_NAMES} more" if len(parts) > MOST_NAMES else ""
        )
    bad = [name for name, sides in stacks.items() if "against" in sides]
    return f"not on {some_stacks(bad, versions, about(expectation))}"


def divided_stacks(
    good: Sequence[str],
    bad: Sequence[str],
    versions: Versions,
    names: Sequence[str],
    others: Iterable[str],
) -> str:
    """What tells good stacks from bad ones: a version of ``names``, or else of ``others``, and what moved with it."""
    found = bounds(good, bad, versions, names)
    moved = bounds(good, bad, versions, [name for name in others if name not in names])
    if found:
        along = f"; {listed(moved)} moved there too" if moved else ""
        return " and ".join(found.values()) + along
    if moved:
        return ", or ".join(moved.values()) + ("; they moved together" if len(moved) > 1 else "")
    for name in names:
        releases = {stack: versions[stack][name] for stack in (*good, *bad)}
        for word, link, ours, theirs in (("only", "and", good, bad), ("not", "or", bad, good)):
            span = {releases[stack] for stack in ours}
            if not any(min(span) <= releases[stack] <= max(span) for stack in theirs):
                return f"{word} with {name} {_span(span, link)}"
    if len(good) < len(bad):
        return f"only on {some_stacks(good, versions, names)}"
    return f"not on {some_stacks(bad, versions, names)}"


def _grouped(
    evidence: Iterable[Evidence], by: Literal["variant", "stack"]
) -> dict[str, list[Evidence]]:
    found: dict[str, list[Evidence]] = defaultdict(list)
    for each in evidence:
        found[each.cell.variant if by == "variant" else each.cell.stack].append(each)
    return found


def some_stacks(stacks: Sequence[str], versions: Versions, packages: Sequence[str]) -> str:
    """The first few stacks, with their versions of the packages that the claim is about."""
    names = []
    for stack in stacks[:MOST_NAMES]:
        known = [f"{name} {versions[stack][name]}" for name in packages if name in versions[stack]]
        names.append(f"{stack} [{', '.join(known)}]" if known else stack)
    return listed(
        [*names, *([f"{len(stacks) - MOST_NAMES} more"] if len(stacks) > MOST_NAMES else [])]
    )


def bounds(
    good: Iterable[str], bad: Iterable[str], versions: Versions, names: Iterable[str]
) -> dict[str, str]:
    """The packages of ``names`` by whose versions the good stacks stand apart from the bad ones, and how."""
    found = {}
    ours, theirs = [versions[stack] for stack in good], [versions[stack] for stack in bad]
    for name in names:
        if any(name not in each for each in (*ours, *theirs)):
            continue
        good_ones, bad_ones = {each[name] for each in ours}, {each[name] for each in theirs}
        if min(good_ones) > max(bad_ones):
            found[name] = f"with {name} {_up(good_ones)}, not with {_down(bad_ones)}"
        elif max(good_ones) < min(bad_ones):
            found[name] = f"with {name} {_down(good_ones)}, not with {_up(bad_ones)}"
    return found


def _up(releases: Collection[Version]) -> str:
    return f"{min(releases)} or newer" if len(releases) > 1 else str(min(releases))


def _down(releases: Collection[Version]) -> str:
    return f"{max(releases)} or older" if len(releases) > 1 else str(max(releases))


def needed(expectation: Expectation, table: Table) -> list[str]:
    """The packages whose versions are shown and that the variants need; others go up with them as time goes by."""
    asked = set()
    for scenario, variant in expectation.cells:
        if scenario in table.scenarios:
            asked |= {
                text
                for v in table.scenarios[scenario].variants
                if v.name == variant
                for text in v.needs
            }
    names = {canonicalize_name(Requirement(text).name) for text in asked}
    return [name for name in SHOWN if name in names]


def seen_in_words(sign: Sign, row: Row, other: Row | None) -> str:
    """What was seen of a cell, of what ``sign`` is about."""
    words = [row.outcome]
    if sign.gradient is not None:
        words.append(f"gradient {row.gradient}")
    if sign.raises and row.message:
        words.append(row.message)
    if sign.warns or sign.quiet:
        words.append(f"warns “{'”, “'.join(row.warnings)}”" if row.warnings else "gives no warning")
    if sign.cause:
        words.append(
            f"diagnosed as {row.diagnosis.cause}" if row.diagnosis is not None else "no diagnosis"
        )
    if (
        sign.memory is not None
        and other is not None
        and row.peak_memory_bytes
        and other.peak_memory_bytes
    ):
        ours, theirs = row.peak_memory_bytes / MIB, other.peak_memory_bytes / MIB
        words.append(f"{ours:.0f} MiB at its peak, {other.variant} {theirs:.0f} MiB")
    if sign.speed is not None and other is not None and row.steps_per_s and other.steps_per_s:
        words.append(
            f"{row.steps_per_s.median:.3g} steps/s, {other.variant} {other.steps_per_s.median:.3g}"
        )
    return ", ".join(words)


def counted(number: int, noun: str) -> str:
    """``1 stack``, ``2 stacks``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(names: Iterable[str], last: str = "and") -> str:
    """``a, b and c``."""
    *others, final = names
    return f"{', '.join(others)} {last} {final}" if others else final
