"""The grid of a package, and since which release variants work."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from packaging.version import Version

from gradmatrix.core.model import Role
from gradmatrix.judge.edge import Flips
from gradmatrix.publish.site.pages import behaviours
from gradmatrix.publish.site.releases import Reason, Tale, by_release, grid
from gradmatrix.publish.site.tables import View
from tests.claimed import make_turning
from tests.factories import make_cell, make_lock, make_record, make_scenario, make_variant
from tests.sites import Page, cell, site_of, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gradmatrix.core.model import Lock, Record, Scenario
    from gradmatrix.judge.edge import Turning
    from gradmatrix.publish.site.releases import Grid, Told

SUMS = make_scenario(
    "sums",
    make_variant("plain", needs=("torch", "trl>=0.1")),
    make_variant("other", Role.REPORTED),
    make_variant("frozen", Role.MISUSE),
)
FAILS = "step:no-grad-fn"
PLACE = ("sums", "plain", "cpu")


def lock(stack: str, torch: str, year: int = 2025, **others: str) -> Lock:
    """A stack with this torch and other packages."""
    return make_lock(
        stack, versions={"torch": torch, **others}, as_of=dt.date(year, 1, 1), digest=stack * 64
    )


OLD, MIDDLE, NEW = lock("a", "2.5.0"), lock("b", "2.6.0", 2027), lock("c", "2.10.0", 2026)
LOCKS = (OLD, MIDDLE, NEW)


def column(*outcomes: str, locks: Iterable[Lock] = LOCKS, variant: str = "plain") -> list[Record]:
    """The cells of a variant, one on each stack; none where the outcome is empty."""
    unsupported: dict[str, Any] = {"passed": None}
    return [
        cell(each.stack, variant, outcome, **(unsupported if "unsupported" in outcome else {}))
        for each, outcome in zip(locks, outcomes, strict=True)
        if outcome
    ]


def view(
    records: Iterable[Record],
    locks: Iterable[Lock] = LOCKS,
    *turns: Turning,
    scenarios: tuple[Scenario, ...] = (SUMS,),
) -> View:
    """These cells, with what is known of single releases."""
    return View(table_of(records, locks, *scenarios, flips=Flips(turns=turns)))


def made(records: Iterable[Record], locks: Iterable[Lock] = LOCKS, package: str = "torch") -> Grid:
    """The grid of a package."""
    seen = view(records, locks)
    return grid(seen, package, by_release(seen, package), seen.sections[0])


def shown(of: Grid) -> dict[str, str]:
    """The cells of its first scenario, in words, by release."""
    return {
        line.release: " ".join(filter(None, (line.squares[0].mark, line.squares[0].of)))
        for line in of.lines
    }


def told(
    records: Iterable[Record],
    locks: Iterable[Lock] = LOCKS,
    *turns: Turning,
    package: str = "torch",
) -> Told | None:
    """What is told of the plain variant."""
    seen = view(records, locks, *turns)
    return Tale(seen, package, behaviours(seen)).told(PLACE)


def found(package: str, before: str, after: str, *stacks: Lock) -> Turning:
    """The release behind the change of the plain variant between two stacks."""
    return make_turning(
        package,
        before,
        after,
        cell="/".join(PLACE),
        stacks=tuple(each.stack for each in stacks),
        locks=tuple(each.digest[:16] for each in stacks),
    )


def test_releases_are_in_the_order_of_versions() -> None:
    """The newest one is first, also if an older release came out later."""
    assert ["2.10.0", "2.6.0", "2.5.0"] == list(shown(made(column("trains", "trains", "trains"))))


def test_a_cell_counts_the_variants_that_train() -> None:
    """All, some or none of them. Misuse does not count, and neither does what was not judged."""
    records = [
        *column("trains", FAILS, FAILS),
        *column("trains", "trains", FAILS, variant="other"),
        cell("c", "frozen", "trains", role=Role.MISUSE, passed=False),
    ]
    of = made(records)
    assert {"2.10.0": "✗ 0 of 2", "2.6.0": "◐ 1 of 2", "2.5.0": "✓ 2 of 2"} == shown(of)
    assert ["f", "h", "p"] == [line.squares[0].kind for line in of.lines]


def test_a_cell_says_what_changed_since_the_release_before() -> None:
    """A release in which a variant was not judged is passed over."""
    records = [
        *column(FAILS, "setup:unsupported", "trains"),
        *column("trains", FAILS, FAILS, variant="other"),
    ]
    changes = [(line.squares[0].mended, line.squares[0].broken) for line in made(records).lines]
    assert [(1, 0), (0, 1), (0, 0)] == changes
    text = Page(site_of(records, LOCKS, SUMS)["packages/torch.html"]).text
    assert "◐ 1 of 2 +1" in text
    assert "✗ 0 of 1 \N{MINUS SIGN}1" in text


def test_stacks_with_the_same_release_may_disagree() -> None:
    """The cell has the range. A note has each count with a stack, which leads to its evidence."""
    others = [lock(name, "2.6.0", trl=f"0.{place}") for place, name in enumerate("xyz")]
    locks = (OLD, *others)
    records = [
        *column("trains", "trains", FAILS, FAILS, locks=locks),
        *column("trains", "trains", "trains", "trains", locks=locks, variant="other"),
    ]
    of = made(records, locks)
    assert {"2.6.0": "◐ 1–2 of 2", "2.5.0": "✓ 2 of 2"} == shown(of)
    page = Page(site_of(records, locks, SUMS)["packages/torch.html"])
    assert "Stacks with 2.6.0 disagree" in page.text
    assert "sums: 1 of 2 on z and 1 more , 2 of 2 on x" in page.text
    assert {"#note-cpu-1", "../cells/x.html#sums", "../cells/z.html#sums"} <= set(page.links)


def test_what_was_not_judged_has_its_reason() -> None:
    """Cells with the same reason share a note. What was not run has none."""
    records = [
        *column("setup:unsupported", "setup:unsupported", ""),
        *column("", "", "trains", variant="other"),
    ]
    of = made([each for each in records if each.cell.stack != "b"])
    assert {"2.10.0": "✓ 1 of 1", "2.6.0": "not run", "2.5.0": "– not judged"} == shown(of)
    [(note, number)] = made(records).notes.items()
    assert ("The stack does not have this feature." in note.words, number) == (True, 1)


def test_a_release_that_cannot_be_imported_has_a_note() -> None:
    """It names the stack, and has the message."""
    records = [
        *column("trains", "trains", ""),
        cell("c", "plain", "import:exception", message="ImportError: no x"),
        cell("c", "other", "import:exception", message="ImportError: no x"),
    ]
    of = made(records)
    assert "✗ 0 of 2" == shown(of)["2.10.0"]
    [note] = of.notes
    assert note.words.endswith("an exception was raised. ImportError: no x")
    assert "c" == note.about[0][1][0][0]


def test_stacks_that_fail_to_import_for_the_same_reason_share_a_note() -> None:
    """A note for each stack would say the same again."""
    locks = (OLD, lock("d", "2.10.0"), NEW)
    message = "ImportError: no x"
    records = [
        *column("trains", "", "", locks=locks),
        *(cell(each, "plain", "import:exception", message=message) for each in "cd"),
    ]
    [note] = made(records, locks).notes
    assert {"c", "d"} == {stack for stack, _ in note.about[0][1]}


def test_a_note_names_at_most_four_stacks() -> None:
    """With a stack of each night they would be hundreds."""
    locks = [lock(name, "2.6.0") for name in "rstuvw"]
    message = "ImportError: no x"
    records = [cell(each, "plain", "import:exception", message=message) for each in "rstuvw"]
    page = Page(site_of(records, locks, SUMS)["packages/torch.html"])
    assert re.search(r"no x( \w ,){3} \w and 2 more", page.text)


def test_what_is_coming_does_not_count_beside_a_release() -> None:
    """Its other packages are pre-releases. A pre-release of the package has a line and a note."""
    other = replace(lock("n", "2.10.0"), prereleases=True)
    coming = replace(lock("m", "2.11.0rc1"), prereleases=True)
    locks = (OLD, MIDDLE, NEW, other, coming)
    of = made(column("trains", "trains", "trains", FAILS, FAILS, locks=locks), locks)
    assert ["✗ 0 of 1", "✓ 1 of 1"] == [shown(of)["2.11.0rc1"], shown(of)["2.10.0"]]
    only, beside = of.notes
    assert only.words.startswith("Only with pre-releases")
    assert beside.words.startswith("Also beside pre-releases")
    words = told(column("trains", "trains", "trains", FAILS, FAILS, locks=locks), locks)
    assert words is not None
    assert "trains in all 3 releases tested" == words.words


def test_scenarios_that_use_the_package_come_first() -> None:
    """The others have a note; those of which nothing was judged are no columns."""
    apart = make_scenario("apart", make_variant(needs=("numpy",)))
    never = make_scenario("never")
    records = [
        make_record("trains", make_cell("a", "apart")),
        make_record("setup:unsupported", make_cell("a", "never"), passed=None),
        *column("trains", "", ""),
    ]
    seen = view(records, scenarios=(apart, never, SUMS))
    of = grid(seen, "torch", by_release(seen, "torch"), seen.sections[0])
    assert [("sums", 0), ("apart", 1)] == [(c.scenario, len(c.notes)) for c in of.columns]
    assert ["never"] == of.absent
    assert "Not judged with torch: never." in (
        Page(site_of(records, LOCKS, apart, never, SUMS)["packages/torch.html"]).text
    )


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        (("trains", "trains", "trains"), "trains in all 3 releases tested"),
        ((FAILS, FAILS, "setup:unsupported"), "fails in all 2 releases tested"),
        (("", "", "trains"), "trains in the only release tested"),
        ((FAILS, FAILS, "trains"), "works since 2.10.0"),
        (("trains", FAILS, FAILS), "broken since 2.6.0"),
        (("trains", FAILS, "trains"), "broken with 2.6.0, works since 2.10.0"),
    ],
)
def test_a_sentence_is_about_versions(outcomes: tuple[str, str, str], words: str) -> None:
    """The oldest release comes first, whatever the days are."""
    found = told(column(*outcomes))
    assert found is not None
    assert words == found.words


def test_several_releases_are_a_range() -> None:
    """From the first to the last one with which it ends in this way."""
    locks = [lock(each, f"2.{n}.0") for n, each in enumerate("abcd")]
    found = told(column("trains", FAILS, FAILS, "trains", locks=locks), locks)
    assert found is not None
    assert "broken from 2.1.0 to 2.2.0, works since 2.3.0" == found.words


def test_a_variant_that_was_never_judged_is_not_told() -> None:
    """There is nothing to say."""
    assert told(column("setup:unsupported", "", "")) is None


def test_other_packages_that_moved_are_named() -> None:
    """Of the two most similar stacks with the releases; nothing is said if nothing moved."""
    locks = (lock("a", "2.5.0", trl="0.1"), lock("b", "2.6.0", trl="0.2"))
    both = told(column(FAILS, "trains", locks=locks), locks)
    alone = told(column(FAILS, "trains", locks=LOCKS[:2]), LOCKS[:2])
    assert both is not None
    assert alone is not None
    assert (Reason("2.5.0 → 2.6.0", "trl moved too"),) == both.reasons
    assert (Reason("2.5.0 → 2.6.0", "no other main package moved"),) == alone.reasons


def test_a_package_that_the_variant_does_not_need_is_not_behind_it() -> None:
    """The rule is that of the pages of messages."""
    locks = (lock("a", "2.5.0", peft="0.1"), lock("b", "2.6.0", peft="0.2"))
    records = column(FAILS, "trains", locks=locks)
    found = told(records, locks, package="peft")
    assert found is not None
    assert ("changes with torch: works since 2.6.0", None) == (found.words, found.newest)


def test_stacks_that_no_package_tells_apart() -> None:
    """It is said so."""
    locks = (lock("a", "2.5.0"), lock("b", "2.5.0"))
    found = told(column(FAILS, "trains", locks=locks), locks)
    assert found is not None
    assert "differs between stacks, and no main package tells them apart" == found.words


def test_an_exact_release_is_told_as_such() -> None:
    """It takes the place of the tested one. The evidence is linked, and nothing else is blamed."""
    locks = (lock("a", "2.5.0", trl="0.1"), lock("b", "2.9.0", trl="0.2"))
    records = column(FAILS, "trains", locks=locks)
    turn = found("torch", "2.6.0", "2.7.0", *locks)
    known = told(records, locks, turn)
    assert known is not None
    assert "works since 2.7.0 (exact)" == known.words
    assert [True] == [each.exact for each in known.reasons]
    page = Page(site_of(records, locks, SUMS, flips=Flips(turns=(turn,)))["packages/torch.html"])
    assert f"Exact : {FAILS} with 2.6.0, trains with 2.7.0." in page.text
    assert 3 == page.links.count("../cells/b.html#sums-plain-cpu")


def test_an_exact_release_that_does_not_tell_all_stacks_apart() -> None:
    """It is not said that no package does."""
    locks = (lock("a", "2.5.0"), lock("b", "2.9.0"), lock("c", "2.9.0"))
    turn = found("torch", "2.6.0", "2.7.0", *locks[:2])
    known = told(column(FAILS, "trains", FAILS, locks=locks), locks, turn)
    assert known is not None
    assert "changes with 2.7.0, but torch alone does not tell all stacks apart" == known.words
    assert Version("2.7.0") == known.newest


def test_the_page_of_a_package_leads_to_the_plots_of_speed() -> None:
    """Those of the scenarios that were timed with it; without one there is no such section."""
    pages = site_of(column("trains", "trains", "trains"), LOCKS, SUMS)
    assert "../scenarios/sums.html#speed" in Page(pages["packages/torch.html"]).links
    assert 'id="speed"' in pages["scenarios/sums.html"]
    pages = site_of(column(FAILS, FAILS, FAILS), LOCKS, SUMS)
    assert "Speed and memory" not in pages["packages/torch.html"]


def test_the_page_of_a_package_says_how_its_newest_releases_are_measured() -> None:
    """From a stack that ran most of the same cells, in the scenarios that ask for the package."""
    versions = {"a": ("2.5.0", "0.9"), "b": ("2.6.0", "0.9"), "c": ("2.10.0", "1.0")}
    locks = [lock(stack, torch, trl=trl) for stack, (torch, trl) in versions.items()]
    records = [
        *column("trains", "trains", "trains", locks=locks),
        *column("trains", "", "trains", locks=locks, variant="other"),
        *column(FAILS, "", FAILS, locks=locks, variant="frozen"),
        make_record(cell=make_cell("c", "loops")),
    ]
    pages = site_of(records, locks, SUMS, make_scenario("loops", make_variant(needs=("torch",))))
    assert "upgrade a --to torch==2.10.0</pre>" in pages["packages/torch.html"]
    assert "upgrade a --to trl==1.0 --scenario sums</pre>" in pages["packages/trl.html"]
    plots = "../scenarios/loops.html#speed"
    assert plots in Page(pages["packages/torch.html"]).links
    assert plots not in Page(pages["packages/trl.html"]).links


def test_the_end_of_a_range_may_be_exact_too() -> None:
    """The last release before the one that mended it."""
    locks = [lock("a", "2.5.0"), lock("b", "2.6.0"), lock("c", "2.9.0")]
    records = column("trains", FAILS, "trains", locks=locks)
    known = told(records, locks, found("torch", "2.7.1", "2.8.0", *locks[1:]))
    assert known is not None
    assert "broken from 2.6.0 to 2.7.1 (exact), works since 2.8.0 (exact)" == known.words


def test_what_another_package_did_is_not_told_of_this_one() -> None:
    """On the page of the other one, it is exact."""
    locks = (lock("a", "2.5.0", trl="0.1"), lock("b", "2.9.0", trl="0.3"))
    records = column(FAILS, "trains", locks=locks)
    turn = found("trl", "0.1.5", "0.2", *locks)
    here, there = (told(records, locks, turn, package=name) for name in ("torch", "trl"))
    assert here is not None
    assert there is not None
    assert ("changes with another package", None) == (here.words, here.newest)
    assert "not torch, but between trl 0.1.5 and 0.2" == here.reasons[0].words
    assert "works since 0.2 (exact)" == there.words


def test_packages_that_could_not_be_told_apart_are_both_possible() -> None:
    """The release of neither is exact."""
    locks = (lock("a", "2.5.0", trl="0.1"), lock("b", "2.9.0", trl="0.3"))
    turn = found("torch", "2.5.0", "2.9.0", *locks)
    [edge] = turn.edges
    both = replace(turn, edges=(replace(edge, package="torch + trl", before="2.5.0 + 0.1"),))
    known = told(column(FAILS, "trains", locks=locks), locks, both)
    assert known is not None
    assert "works since 2.9.0" == known.words
    assert "trl moved too, and it is not known which of them it is" == known.reasons[0].words


def test_variants_with_the_same_sentence_stand_together() -> None:
    """What changes comes first; the others are counted and folded."""
    records = [
        *column(FAILS, "trains", "trains"),
        *column("trains", "trains", "trains", variant="other"),
    ]
    text = Page(site_of(records, LOCKS, SUMS)["packages/torch.html"]).text
    assert "works since 2.6.0 : plain 2.5.0 → 2.6.0: no other main package moved." in text
    assert "Other variants: 1 trains in all releases tested" in text


def test_exact_releases_are_in_the_order_of_versions() -> None:
    """A release of an older line may have come out later."""
    locks = [lock("a", "2.5.0"), lock("b", "2.9.0"), lock("c", "2.10.0")]
    turns = []
    for before, after, day, stacks in (
        ("2.6.0", "2.7.0", dt.date(2026, 1, 1), locks[:2]),
        ("2.9.0", "2.10.0", dt.date(2025, 1, 1), locks[1:]),
    ):
        turn = found("torch", before, after, *stacks)
        turns.append(replace(turn, edges=(replace(turn.edges[0], after_released=day),)))
    records = column(FAILS, "trains", FAILS, locks=locks)
    flips = Flips(turns=tuple(turns))
    pages = site_of(records, locks, SUMS, flips=flips)
    text = Page(pages["packages/torch.html"]).text
    assert text.index("2.10.0 2025-01-01") < text.index("2.7.0 2026-01-01")
    assert "packages/torch.html#exact-2.7.0" in Page(pages["index.html"]).links
