"""The Atom feed: valid, stable, harmless."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from gradmatrix.compare.history import History
from gradmatrix.core.errors import UserError
from gradmatrix.publish.feeds import MOST_ENTRIES, MOST_FLIPS, feed
from tests.factories import make_cell
from tests.judge.test_history_flips import LOCKS, NEW, entry

if TYPE_CHECKING:
    from gradmatrix.judge.history import Entry

ATOM = "{http://www.w3.org/2005/Atom}"
REGRESSED = (entry(), entry("step:exception", 1, "lock", lock=NEW))


def read(*entries: Entry, base_url: str | None = None) -> ET.Element:
    """The feed of a history, as a program reads it."""
    return ET.fromstring(feed(History(entries, LOCKS), base_url))  # noqa: S314  (it is ours)


def words(feed_or_entry: ET.Element, tag: str) -> list[str]:
    """The text of every element with a name, at any depth."""
    return ["".join(element.itertext()) for element in feed_or_entry.iter(f"{ATOM}{tag}")]


@pytest.mark.parametrize("entries", [(), REGRESSED], ids=["empty", "two entries"])
def test_a_feed_and_its_entries_have_what_atom_asks_for(entries: tuple[Entry, ...]) -> None:
    """Each has exactly one title, id and date. The feed has an author, and an entry a link."""
    top = read(*entries)
    for element in (top, *top.findall(f"{ATOM}entry")):
        assert [1, 1, 1] == [
            len(element.findall(f"{ATOM}{tag}")) for tag in ("title", "id", "updated")
        ]
    assert ["gradmatrix"] == words(top, "name")
    assert len(entries) == len(top.findall(f"{ATOM}entry/{ATOM}link[@rel='alternate']"))


def test_an_entry_says_what_changed_and_why() -> None:
    """The newest publication comes first. New cells are only counted."""
    moved = "transformers 4.1 → 5.0, aiohttp 3.1 → 3.2, tokenizers (none) → 1.0"
    why = f"The stack's lock moved: {moved}."
    assert [
        f"regressed: scenario/plain on cpu: trains → step:exception. {why}",
        "new: 1 of 1 cells pass",
    ] == words(read(*REGRESSED), "content")


def test_a_change_of_our_own_code_is_no_regression_of_the_stack() -> None:
    """Its title does not say that anything regressed."""
    flips = [
        each
        for variant, changed in (("a", "observer"), ("b", "lock observer"))
        for cell in [make_cell(variant=variant)]
        for each in (entry(cell=cell), entry("step:exception", 1, changed, cell=cell))
    ]
    expected = "stack: 1 regressed, 1 re-computed after a change of our own measurement"
    assert expected == words(read(*flips), "title")[1]


def test_a_verdict_of_another_machine_is_counted_separately() -> None:
    """The entry says that it is no regression of the stack."""
    top = read(entry(), entry("process:timeout", 1, "device"))
    machine = "It ran on another machine: Linux-x86_64 → Linux-aarch64."
    assert (
        "stack: 1 judged elsewhere",
        f"judged elsewhere: scenario/plain on cpu: trains → process:timeout. {machine}",
    ) == (
        words(top, "title")[1],
        words(top, "content")[0],
    )


def test_the_feed_is_as_old_as_its_newest_entry() -> None:
    """An empty feed has a date that never changes."""
    days = [words(read(*entries), "updated")[0] for entries in (REGRESSED, ())]
    assert ["2026-01-16T12:00:00Z", "1970-01-01T00:00:00Z"] == days


def test_ids_never_change() -> None:
    """A feed reader would show an entry with a new id again."""
    before, after = (
        words(read(*REGRESSED), "id"),
        words(read(*REGRESSED, entry(day=2, changed="lock")), "id"),
    )
    assert (before, len(after)) == ([after[0], *after[2:]], len(set(after)))


def test_each_stack_of_a_publication_has_an_entry_of_its_own() -> None:
    """A reader may wait for one stack only."""
    stacks = [entry(cell=make_cell(stack)) for stack in ("one", "two")]
    assert ["one: 1 new", "two: 1 new"] == words(read(*stacks), "title")[1:]


def test_links_are_relative_without_an_address() -> None:
    """The site works in any folder."""
    hrefs = [link.get("href") for link in read(entry()).iter(f"{ATOM}link")]
    assert ["feed.xml", "index.html", "stacks/stack.html"] == hrefs


@pytest.mark.parametrize("url", ["https://example.org/matrix", "https://example.org/matrix/"])
def test_links_are_absolute_with_an_address(url: str) -> None:
    """The address may end with a slash."""
    hrefs = [link.get("href") for link in read(entry(), base_url=url).iter(f"{ATOM}link")]
    assert [
        f"https://example.org/matrix/{path}"
        for path in ("feed.xml", "index.html", "stacks/stack.html")
    ] == hrefs


@pytest.mark.parametrize("url", ["example.org", "javascript:alert(1)", "https://a b", ""])
def test_a_wrong_address_is_refused(url: str) -> None:
    """The error comes before anything is written."""
    with pytest.raises(UserError, match="is not the address"):
        feed(History((), {}), url)


def test_the_feed_stays_short() -> None:
    """It has the newest entries, and of each the first cells."""
    many = [entry(day=day, cell=make_cell(f"stack-{day}")) for day in range(MOST_ENTRIES + 5)]
    broken = [
        entry(outcome, 90 + day, cell=make_cell(variant=f"v{number}"))
        for day, outcome in enumerate(("trains", "step:exception"))
        for number in range(MOST_FLIPS + 3)
    ]
    top = read(*many, *broken)
    lines = [item.text for item in top.iter("{http://www.w3.org/1999/xhtml}li")]
    assert (MOST_ENTRIES, "and 3 more") == (len(words(top, "title")) - 1, lines[MOST_FLIPS])


def test_hostile_text_stays_text() -> None:
    """Markup is escaped. Characters that XML does not allow are left out."""
    name = "<script>\x00\x1b[31m\ufffe\u202e&'\ud800"
    top = read(
        entry(cell=make_cell(variant=name)),
        entry("step:exception", 1, "observer", cell=make_cell(variant=name)),
    )
    assert "regressed: scenario/<script>&' on cpu" in words(top, "content")[0]
