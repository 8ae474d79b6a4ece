"""The two sides of a comparison in words: what they are, what moved between them, and what else differs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from harness.answer import cells as counted
from harness.publish.comparison.names import Names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.comparison import Comparison, Pair, SideFacts
    from harness.moved import PackageMove


MOST_MISSING_NAMED = 12
"""Cells that were not run: where there are more, they are counted by scenario, and the data names them."""


def described(side: SideFacts) -> str:
    """A side in a line: its Python and the day of its lock."""
    facts = [f"Python {side.python}"] if side.python else []
    facts += [f"as of {side.as_of}"] if side.as_of is not None else []
    return f"{side.name} ({', '.join(facts)})" if facts else side.name


def sides(comparison: Comparison) -> str:
    """What is compared with what, in a line."""
    if comparison.several:
        return f"{comparison.baseline} → {comparison.candidate}, {len(comparison.pairs)} stacks"
    (pair,) = comparison.pairs
    return f"{described(pair.baseline)} → {described(pair.candidate)}"


def pairs_told(comparison: Comparison) -> tuple[Pair, ...]:
    """The pairs of which it is told what moved: of many stacks those in which something did, or it is not known."""
    if not comparison.several:
        return comparison.pairs
    return tuple(pair for pair in comparison.pairs if pair.moved is None or pair.moved)


def unmoved(comparison: Comparison) -> str:
    """In how many of several stacks no package moved; empty where there is none to tell of."""
    count = len(comparison.pairs) - len(pairs_told(comparison))
    return f"No package moved in {count} of {len(comparison.pairs)} stacks." if count else ""


def move(each: PackageMove) -> str:
    """A package that moved, with the days of its releases."""
    before, after = each.before or "none", each.after or "none"
    return f"{before}{day(each.before_released)} → {after}{day(each.after_released)}"


def day(released: object) -> str:
    """The day of a release, where it is known."""
    return f" ({released})" if released is not None else ""


def direct(pair: Pair) -> list[PackageMove]:
    """What moved of all that a stack asks for by name."""
    return [each for each in pair.moved or () if each.direct]


def transitive(pair: Pair) -> list[PackageMove]:
    """What moved besides."""
    return [each for each in pair.moved or () if not each.direct]


def moved_summary(pair: Pair) -> str:
    """How much moved; why that is not known."""
    if pair.moved is None:
        unknown = " and ".join(side.name for side in (pair.baseline, pair.candidate) if side.as_of is None)
        return f"Which packages moved is not known: there is no lock of {unknown}."
    if not pair.moved:
        return "No package moved."
    counts = Counter(kind(each) for each in pair.moved)
    told = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    by_name = f"{len(direct(pair))} of them asked for by name"
    return f"{len(pair.moved)} packages differ ({told}), {by_name}."


def kind(each: PackageMove) -> str:
    """Whether a package moved, came or went."""
    if each.before is None:
        return "added"
    return "removed" if each.after is None else "moved"


def warnings(comparison: Comparison) -> tuple[str, ...]:
    """What a reader must know of the sides before believing the rest."""
    of_pairs = (text for pair in comparison.pairs for text in warnings_of(pair))
    return (*comparison.notes, *of_pairs, *not_run(comparison))


def not_run(comparison: Comparison) -> Iterator[str]:
    """What the candidate has no record of: nobody may take it for what is gone, or for what did not change."""
    if comparison.missing:
        names = map(str, Names.of(comparison).together(comparison.missing))
        by_scenario = Counter(cell.scenario for cell in comparison.missing)
        counts = (f"{count} of {scenario}" for scenario, count in by_scenario.items())
        named = "; ".join(names if len(comparison.missing) <= MOST_MISSING_NAMED else counts)
        yield (
            f"The candidate has no record of {counted(len(comparison.missing))} that the baseline ran, so nothing is"
            f" said of them: {named}. Run them on the candidate, too."
        )


def warnings_of(pair: Pair) -> Iterator[str]:
    """Of one pair: what could not be resolved, and runs that are unlike in more than packages."""
    for role, side in (("baseline", pair.baseline), ("candidate", pair.candidate)):
        if side.failure is not None:
            yield f"The {role} {side.name} could not be resolved: {side.failure}"
    for word, one, other in (
        ("machines", pair.baseline.device, pair.candidate.device),
        ("builds of torch", pair.baseline.build, pair.candidate.build),
    ):
        if one and other and one != other:
            yield f"The sides of {pair.candidate.name} ran on different {word}: {listed(one)} and {listed(other)}."


def listed(names: Sequence[str]) -> str:
    """Names in a row."""
    return ", ".join(names)
