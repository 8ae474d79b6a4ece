"""The newest release of each package on the first page: what it changed, and how that is known."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from gradmatrix.core.model import Role
from gradmatrix.judge.edge import Flips
from tests.claimed import make_turning
from tests.factories import DAY, make_lock, make_scenario, make_variant
from tests.sites import SUMS, Page, cell, site_of

if TYPE_CHECKING:
    from gradmatrix.core.model import Lock, Record
    from gradmatrix.judge.edge import Turning

FAILS = "step:exception"


def stack(day: int, **versions: str) -> Lock:
    """A stack that is called after its day."""
    as_of = DAY + dt.timedelta(days=day)
    return make_lock(f"day{day}", versions=versions, as_of=as_of, digest=f"{day:064}")


def ran(lock: Lock, **outcomes: str) -> list[Record]:
    """How variants end on a stack."""
    roles = {variant.name: variant.role for variant in SUMS.variants}
    return [cell(lock.stack, name, outcome, role=roles[name]) for name, outcome in outcomes.items()]


def first_page(*stacks: tuple[Lock, list[Record]], flips: tuple[Turning, ...] = ()) -> str:
    """The text of the first page."""
    records = [record for _, each in stacks for record in each]
    site = site_of(records, [lock for lock, _ in stacks], SUMS, flips=Flips(turns=flips))
    return Page(site["index.html"]).text


OLDER, NEWER = stack(1, torch="2.9", trl="1.0"), stack(2, torch="2.10", trl="1.0")


def test_a_release_that_changed_nothing_says_so() -> None:
    """It names the release before it, the number of cells and both stacks."""
    both = [(lock, ran(lock, plain="trains", other=FAILS)) for lock in (OLDER, NEWER)]
    said = "torch 2.10 2026-01-15 Nothing changed since 2.9: all 2 cells end as before"
    assert f"{said} ( day1 and day2 )." in first_page(*both)


def test_a_change_is_not_blamed_on_one_of_several_packages_that_moved() -> None:
    """It says what was seen, and what else moved."""
    newer = stack(2, torch="2.10", trl="1.1")
    text = first_page(
        (OLDER, ran(OLDER, plain="trains", reported=FAILS, other=FAILS, frozen=FAILS)),
        (newer, ran(newer, plain=FAILS, reported="trains", other="step:no-grad-fn", frozen=FAILS)),
    )
    seen = "Since 2.9, of 4 cells: 1 fixed , 1 broken , 1 changed otherwise ; but trl moved too"
    assert f"torch 2.10 2026-01-15 {seen} Seen between day1 and day2 ." in text
    assert "but torch moved too" in text


def test_a_package_that_moved_alone_is_still_not_blamed() -> None:
    """Other packages than the main ones may have moved, so no release is called the cause."""
    text = first_page((OLDER, ran(OLDER, reported=FAILS)), (NEWER, ran(NEWER, reported="trains")))
    assert "Since 2.9, of 1 cells: 1 fixed ; no other main package moved" in text
    assert "It fixed" not in text


def test_whether_to_move_to_the_newest_stack_is_answered_for_each_other_one() -> None:
    """A control that breaks is no. Another variant that breaks is named."""
    oldest = stack(0, torch="2.8", trl="1.0")
    text = first_page(
        (oldest, ran(oldest, plain=FAILS, reported=FAILS)),
        (OLDER, ran(OLDER, plain="trains", reported="trains")),
        (NEWER, ran(NEWER, plain="trains", reported=FAILS)),
    )
    assert (
        "day1 (2026-01-16): yes, but 1 of 2 cells would regress ( sums 1); 0 would be fixed."
        in text
    )
    assert "day0 (2026-01-15): yes : none of 2 cells would regress; 1 would be fixed." in text
    text = first_page(
        (OLDER, ran(OLDER, plain="trains")), (NEWER, ran(NEWER, plain=FAILS, reported=FAILS))
    )
    assert "not yet : 1 of 1 cells would regress, 1 of them control that should always" in text


def test_a_misuse_is_neither_fixed_nor_broken() -> None:
    """It is silent or reported."""
    told, silent = (
        cell(lock.stack, "frozen", outcome, role=Role.MISUSE, passed=passed)
        for lock, outcome, passed in ((OLDER, FAILS, True), (NEWER, "gradient:none", False))
    )
    text = first_page((OLDER, [told]), (NEWER, [silent]))
    assert "Since 2.9, of 1 cells: 1 now silent" in text


def turning(package: str, before: str, after: str, newer: Lock = NEWER) -> Turning:
    """The release behind the report that is fixed between the two stacks."""
    return make_turning(
        package,
        before,
        after,
        cell="sums/reported/cpu",
        stacks=(OLDER.stack, newer.stack),
        locks=(OLDER.digest[:16], newer.digest[:16]),
    )


FIXED = (OLDER, ran(OLDER, reported=FAILS)), (NEWER, ran(NEWER, reported="trains"))


def test_a_release_that_is_known_to_have_done_it_is_named() -> None:
    """Running one release after the other found it."""
    text = first_page(*FIXED, flips=(turning("torch", "2.9.1", "2.10"),))
    assert "torch 2.10 2026-01-15 It fixed 1 : found by running it and the one before ." in text


def test_earlier_releases_that_are_known_to_have_done_something_are_named() -> None:
    """They are no deed of the newest one."""
    text = first_page(*FIXED, flips=(turning("torch", "2.9", "2.9.1"),))
    assert "no other main package moved" in text
    assert "All that differs fixed : sums 1 2.9.1 fixed 1" in text


def test_another_package_that_is_known_to_be_behind_it_is_named() -> None:
    """So the change is not taken for one of this package."""
    newer = stack(2, torch="2.10", trl="1.1")
    outcomes = ("step:no-grad-fn", "trains")
    stacks = [
        (lock, ran(lock, reported=outcome))
        for lock, outcome in zip((OLDER, newer), outcomes, strict=True)
    ]
    text = first_page(*stacks, flips=(turning("trl", "1.0", "1.1", newer),))
    seen = "but trl moved too Seen between day1 and day2 ."
    assert f"{seen} Known to be behind 1 of them: trl 1.1." in text


def test_a_release_is_compared_with_one_that_ran_most_of_its_cells() -> None:
    """A stack of one scenario alone says little about the others."""
    names = ("plain", "reported", "other")
    small = stack(2, torch="2.9.5")
    newer = stack(3, torch="2.10")
    text = first_page(
        (OLDER, ran(OLDER, **dict.fromkeys(names, "trains"))),
        (small, ran(small, plain="trains")),
        (newer, ran(newer, **dict.fromkeys(names, "trains"))),
    )
    assert "Nothing changed since 2.9: all 3 cells end as before" in text
    text = first_page(
        (small, ran(small, plain="trains")),
        (newer, ran(newer, **dict.fromkeys(names, "trains"))),
    )
    assert "Not comparable: no earlier release ran most of its cells." in text


def test_a_release_without_another_one_is_not_compared() -> None:
    """There is nothing to compare it with."""
    assert "torch 2.10 2026-01-15 Not comparable: no other release ran." in first_page(
        (NEWER, ran(NEWER, plain="trains"))
    )


def test_a_prerelease_is_not_the_newest_release() -> None:
    """What it would change stands under “coming”."""
    coming = make_lock(
        "next", versions={"torch": "3.0rc1"}, as_of=DAY + dt.timedelta(days=9), prereleases=True
    )
    text = first_page((NEWER, ran(NEWER, plain="trains")), (coming, ran(coming, plain=FAILS)))
    assert "torch 2.10 2026-01-15 Not comparable" in text


def test_without_stacks_there_is_no_release() -> None:
    """Nothing has run yet."""
    scenario = make_scenario("sums", make_variant("plain"))
    assert "newest release" not in Page(site_of([], [], scenario)["index.html"]).text
