"""The heat map: one column for neighbours with the same verdicts, changes at the borders."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from gradmatrix.core.model import Role
from gradmatrix.judge.edge import Flips
from gradmatrix.publish.site.heatmap import heat_map, warmth
from gradmatrix.publish.site.tables import WINDOW, View
from tests.claimed import make_turning
from tests.factories import DAY, make_cell, make_lock, make_record, make_scenario, make_variant
from tests.sites import Page, site_of, table_of

if TYPE_CHECKING:
    from gradmatrix.core.model import Lock, Record
    from gradmatrix.publish.site.heatmap import Heat

FAILS = "step:exception"
SUMS, RINGS = (
    make_scenario(name, *(make_variant(each, Role.REPORTED) for each in ("one", "two")))
    for name in ("sums", "rings")
)


def stacks(*names: str) -> list[Lock]:
    """Stacks by date, the oldest first."""
    return [
        make_lock(name, as_of=DAY + dt.timedelta(days=day), digest=f"{day:064}")
        for day, name in enumerate(names)
    ]


def ran(stack: str, one: str, two: str = "trains", scenario: str = "sums") -> list[Record]:
    """How both variants of a scenario end on a stack."""
    return [
        make_record(outcome, make_cell(stack, scenario, variant), role=Role.REPORTED)
        for variant, outcome in (("one", one), ("two", two))
    ]


def heat(records: list[Record], locks: list[Lock], *flips: object, most: int = WINDOW) -> Heat:
    """The heat map of these records."""
    turns = Flips(turns=tuple(flips)) if flips else None  # type: ignore[arg-type]
    found = heat_map(View(table_of(records, locks, SUMS, RINGS, flips=turns)), most)
    assert found is not None
    return found


def text(found: Heat, number: int = 0) -> str:
    """A map in words."""
    return Page(str(found.maps[number].table)).text


def titles(found: Heat) -> list[str]:
    """What the cells say if a reader points at them."""
    return re.findall(r'<a href="cells/[^"]*" title="([^"]*)"', str(found.maps[0].table))


def test_neighbours_with_the_same_verdicts_share_a_column() -> None:
    """Other errors are the same verdict. The list of folded columns names all stacks."""
    records = [*ran("a", FAILS), *ran("b", "trains"), *ran("c", FAILS), *ran("d", "gradient:none")]
    found = heat(records, stacks("a", "b", "c", "d"))
    assert "stack d + 1 2026-01-18 b 2026-01-16 a 2026-01-15 torch" in text(found)
    assert [["d", "c"]] == [[lock.stack for lock in each.locks] for each in found.maps[0].folded]
    assert "sums ◐ 1/2 \N{MINUS SIGN}1 ✓ 2/2 +1 ◐ 1/2" in text(found)


def test_a_column_has_the_name_of_its_newest_stack_of_releases() -> None:
    """A stack with pre-releases does not stand for others."""
    early, late = stacks("early", "late")
    late = replace(late, prereleases=True)
    assert "stack early + 1" in text(
        heat([*ran("early", FAILS), *ran("late", FAILS)], [early, late])
    )


def test_the_cell_says_which_release_changed_how_much() -> None:
    """What was not looked for is not known."""
    locks = stacks("a", "b")
    known = make_turning(
        "torch",
        "2.6.1",
        "2.7.0",
        cell="sums/one/cpu",
        stacks=("a", "b"),
        locks=tuple(lock.digest[:16] for lock in locks),
    )
    newer, older = titles(heat([*ran("a", FAILS), *ran("b", "trains", FAILS)], locks, known))
    assert newer == (
        "sums on b: 1 of 2 train. "
        "Changed here: 1 fixed (torch 2.7.0); 1 broken (release not known)."
    )
    assert older == "sums on a: 1 of 2 train."


def test_a_change_stands_at_the_newer_of_the_judged_stacks() -> None:
    """A stack between them that was not judged has no mark."""
    unsupported = "setup:unsupported"
    between = [replace(r, passed=None) for r in ran("b", unsupported, unsupported)]
    rings = [each for name in ("b", "c") for each in ran(name, FAILS, scenario="rings")]
    records = [*ran("a", FAILS), *between, *ran("c", "trains"), *rings]
    assert "sums ✓ 2/2 +1 – ◐ 1/2" in text(heat(records, stacks("a", "b", "c")))


def test_stacks_without_a_common_scenario_have_maps_of_their_own() -> None:
    """So no map has an empty row or column; the largest one is the first."""
    records = [
        *ran("a", FAILS),
        *ran("b", FAILS, scenario="rings"),
        *ran("c", "trains"),
    ]
    found = heat(records, stacks("a", "b", "c", "not-run"))
    shown = text(found), text(found, 1)
    assert [(True, False), (False, True)] == [("sums" in s, "rings" in s) for s in shown]
    assert not any("not-run" in each for each in shown)


def test_a_scenario_that_runs_on_both_joins_them() -> None:
    """Then the stacks are compared by it."""
    records = [
        *ran("a", FAILS),
        *ran("b", FAILS, scenario="rings"),
        *ran("c", FAILS),
        *ran("c", FAILS, scenario="rings"),
    ]
    found = heat(records, stacks("a", "b", "c"))
    assert 1 == len(found.maps)
    assert "sums ◐ 1/2 – ◐ 1/2" in text(found)


def test_columns_that_do_not_fit_have_a_page() -> None:
    """The first page links to it, and has the newest ones."""
    names = [f"s{number:02}" for number in range(WINDOW + 3)]
    records = [
        record
        for place, name in enumerate(names)
        for record in ran(name, "trains" if place % 2 else FAILS)
    ]
    site = site_of(records, stacks(*names), SUMS)
    first, every = Page(site["index.html"]), Page(site["map.html"])
    assert (f"All {WINDOW + 3} columns" in first.text, "map.html" in first.links) == (True, True)
    maps = [site[path].partition('class="maps"')[2] for path in ("index.html", "map.html")]
    counts = [each.count('title="sums on ') for each in maps]
    assert [WINDOW, WINDOW + 3] == counts
    assert [] == every.problems
    assert "map.html" not in site_of(records[:6], stacks(*names[:3]), SUMS)


def test_without_reports_all_variants_count() -> None:
    """This is a matrix of somebody's own scripts; a misuse does not count."""
    scenario = make_scenario("sums", make_variant("one"), make_variant("two", Role.MISUSE))
    records = [make_record("trains", make_cell("a", "sums", "one"))]
    misuse = make_record("gradient:none", make_cell("a", "sums", "two"), role=Role.MISUSE)
    found = heat_map(View(table_of([*records, misuse], stacks("a"), scenario)))
    assert found is not None
    assert ("variants", True) == (found.noun, "sums ✓ 1/1" in text(found))


@pytest.mark.parametrize(
    ("share", "expected"), [(0, "f"), (0.2, "h1"), (0.5, "h2"), (0.9, "h3"), (1, "p")]
)
def test_a_cell_is_warmer_the_fewer_variants_train(share: float, expected: str) -> None:
    """Both ends have colours of their own."""
    assert expected == warmth(share)
