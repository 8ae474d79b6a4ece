"""All pages together: they link to each other, show what the matrix says, and run nothing."""

from __future__ import annotations

import datetime as dt
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest
from msgspec.structs import replace

from gradmatrix.compare.history import History
from gradmatrix.core.model import Role
from gradmatrix.core.observation import SCHEMA
from gradmatrix.core.outcomes import TABLE
from gradmatrix.judge.causes import Cause
from gradmatrix.judge.edge import Edge, End, Flips, Turning
from gradmatrix.judge.history import Entry
from gradmatrix.publish.claims import claims
from gradmatrix.publish.formats import FORMATS
from gradmatrix.publish.site import links
from gradmatrix.publish.site.messages import signature
from gradmatrix.run.plan import lock_input
from tests.factories import (
    DAY,
    NOON,
    make_cell,
    make_checkpoint,
    make_lock,
    make_observation,
    make_scenario,
    make_stopped,
    make_variant,
    make_warned,
)
from tests.sites import HOSTILE, NEW, OLD, SUMS, Page, cell, sample, site_of

if TYPE_CHECKING:
    from gradmatrix.core.model import Record

ELSEWHERE = ("records/", "locks/", "feed.xml", *FORMATS)
"""What stands beside the pages and is written by others."""
END = End(name="torch", outcome="trains", gradient="flowing", message="", why=())


@pytest.fixture(scope="module")
def site() -> dict[str, str]:
    """The pages of the sample."""
    return site_of(sample(), [OLD, NEW], SUMS)


def test_every_link_has_a_target(site: dict[str, str]) -> None:
    """It has a relative address of a page and an anchor on it."""
    anchors = {
        path: set(Page(html).anchors) for path, html in site.items() if path.endswith(".html")
    }
    lost = []
    for path in anchors:
        for link in Page(site[path]).links:
            parts = urlsplit(link)
            if parts.scheme == "data":
                continue
            target = normpath(join(dirname(path), unquote(parts.path))) if parts.path else path
            if target.startswith(ELSEWHERE):
                continue
            filtered = "=" in parts.fragment
            if target not in site or (
                parts.fragment and not filtered and unquote(parts.fragment) not in anchors[target]
            ):
                lost.append((path, link))
    assert [] == lost


def test_a_matrix_without_reports_says_nothing_about_them() -> None:
    """This is a matrix of somebody's own scripts."""
    scenario = make_scenario("sums", make_variant("script"))
    html = site_of([cell("new", "script")], [NEW], scenario)["index.html"]
    assert ("reported as broken" in html, "1 of 1 controls train" in html) == (False, True)


def test_tags_close_in_order_everywhere(site: dict[str, str]) -> None:
    """A browser need not repair them."""
    assert {} == {
        path: found
        for path, html in site.items()
        if ".html" in path and (found := Page(html).problems)
    }


def test_nothing_is_fetched_from_elsewhere_and_nothing_runs_inline(site: dict[str, str]) -> None:
    """Scripts are files of the site. No attribute has a handler or a style."""
    for path, html in site.items():
        if path.endswith(".html"):
            page = Page(html)
            assert "Content-Security-Policy" in html
            assert [] == [src for src in page.scripts if "site/" not in src or ":" in src]
            assert set() == {
                name for name in page.attributes if name == "style" or name.startswith("on")
            }


def test_the_same_matrix_gives_the_same_pages(site: dict[str, str]) -> None:
    """A night without changes makes no diff."""
    assert site == site_of(sample()[::-1], [NEW, OLD], SUMS)


def test_the_first_page_says_what_trains_on_the_newest_stack(site: dict[str, str]) -> None:
    """One line has the stack and the counts."""
    text = Page(site["index.html"]).text
    counts = "1 of 1 controls train, 1 of 2 reported variants train."
    assert f"Newest stack new (2026-01-15): {counts}" in text


def test_the_first_page_says_what_prereleases_would_break() -> None:
    """They are compared with the stack that asks for the same, which stays the newest one."""
    after = replace(NEW, stack="next", as_of=NEW.as_of + dt.timedelta(days=1), prereleases=True)
    cells = [cell("new", "plain"), cell("new", "other"), cell("next", "plain")]
    broken = cell("next", "other", "step:no-grad-fn", observation=make_stopped())
    for found, says in (
        (cells, "Of 1 cells, none would break."),
        ([*cells, broken], "Of 2 cells, 1 would break: sums/other"),
    ):
        text = Page(site_of(found, [OLD, NEW, after], SUMS)["index.html"]).text
        assert "Newest stack new (" in text
        assert "Coming next allows pre-releases: the packages of new. " + says in text
    assert "Coming" not in Page(site_of(cells[:2], [OLD, NEW], SUMS)["index.html"]).text


def test_columns_are_stacks_the_newest_first(site: dict[str, str]) -> None:
    """Their dates and versions are below their names."""
    text = Page(site["index.html"]).text
    assert "stack new old as of 2026-01-15 2025-01-01 torch 2.10.0 2.5.0" in text


def test_misuse_has_a_section_of_its_own(site: dict[str, str]) -> None:
    """Misuse must not look like a stack that cannot train."""
    _, trains, tells = site["index.html"].split("<caption")[1:]
    assert ("Does it train? (cpu)" in trains, "frozen" in trains) == (True, False)
    assert ("Does the stack tell you? (cpu)" in tells, "✗ silent" in tells) == (True, True)


def test_a_missing_device_is_a_sentence(site: dict[str, str]) -> None:
    """It has no table."""
    text = Page(site["index.html"]).text
    assert (
        "No cell was judged on cuda . The recorded reason: this machine has no cuda device." in text
    )
    assert "Does it train? (cuda)" not in text


def test_older_stacks_have_pages_of_their_own() -> None:
    """The first page stays small. Together the pages show every stack."""
    names = [f"s{number:02}" for number in range(30)]
    locks = [
        make_lock(name, as_of=DAY + dt.timedelta(days=number)) for number, name in enumerate(names)
    ]
    site = site_of([cell(name, "plain") for name in names], locks, SUMS)
    shown = [path for path in ("index.html", "older-1.html") if "s29" in Page(site[path]).text]
    assert (["index.html"], False) == (shown, "older-2.html" in site)
    assert "s00" in Page(site["older-1.html"]).text
    assert "older-1.html" in Page(site["index.html"]).links


def test_hostile_text_does_nothing() -> None:
    """It is in messages, warnings, versions, requirements, summaries and sources."""
    seen = make_stopped(warnings=(make_warned(HOSTILE),))
    records = [
        cell("stack", "plain", "step:exception", message=HOSTILE, observation=seen),
        cell("other", "plain"),
    ]
    locks = [
        make_lock(
            versions={"torch": HOSTILE, HOSTILE: "1"}, resolver=HOSTILE, requirements=("torch",)
        ),
        make_lock("other"),
    ]
    site = site_of(records, locks, SUMS, source=f'"""T.\n\n{HOSTILE!r}\n"""')
    for path, content in site.items():
        assert (path, set()) == (path, {"\x1b", "\u202e"} & set(content))
        if path.endswith(".html"):
            assert (path, []) == (path, Page(content).problems)
            assert "onerror" not in Page(content).attributes
        elif path == "site/data.js":
            assert "<" not in content


def entry(outcome: str, day: int, lock: str, *changed: str) -> Entry:
    """A line of the history of new/sums/plain."""
    at = NOON + dt.timedelta(days=day)
    return Entry(
        schema=SCHEMA,
        cell=make_cell("new", "sums"),
        role=Role.CONTROL,
        at=at,
        published=at,
        run="run",
        outcome=outcome,
        passed=outcome == "trains",
        key="key",
        lock=lock,
        device="Linux-x86_64",
        measured="measured",
        changed=changed,
    )


def test_changes_since_last_time_stand_on_the_first_page() -> None:
    """The page of the history has all of them."""
    history = History((entry("trains", 0, "one"), entry("step:exception", 1, "other", "lock")), {})
    site = site_of([cell("new", "plain", "step:exception")], [NEW], SUMS, history=history)
    first = Page(site["index.html"]).text
    assert "Regressed now 1 cell that passed with an earlier lock of the stack" in first
    assert (
        "Last change of a verdict: 2026-01-16, 1 cell regressed. sums/plain on new regressed."
        in first
    )
    text = Page(site["history.html"]).text
    assert "sums/plain on new : trains → step:exception. The stack's lock moved." in text
    assert "Since 2026-01-16." in text


def test_a_change_of_our_own_code_says_nothing_about_a_stack() -> None:
    """It is counted separately, and only the history names it."""
    history = History(
        (entry("trains", 0, "one"), entry("step:exception", 1, "one", "observer")), {}
    )
    site = site_of([cell("new", "plain", "step:exception")], [NEW], SUMS, history=history)
    assert (
        "Last change of a verdict: 2026-01-16, 1 cell re-computed. History"
        in Page(site["index.html"]).text
    )
    assert (
        "re-computed : sums/plain on new : trains → step:exception"
        in Page(site["history.html"]).text
    )


def test_equal_changes_are_one_line() -> None:
    """Changes of a variant with the same outcomes and reason are one entry with all stacks."""
    entries = (entry("trains", 0, "one"), entry("step:exception", 1, "one", "observer"))
    old = tuple(replace(each, cell=make_cell("old", "sums")) for each in entries)
    records = [cell(stack, "plain", "step:exception") for stack in ("old", "new")]
    page = Page(
        site_of(records, [OLD, NEW], SUMS, history=History((*old, *entries), {}))["history.html"]
    )
    assert (
        "re-computed : sums/plain on 2 stacks: trains → step:exception. Our own measurement changed"
        in page.text
    )
    assert {"cells/old.html#sums-plain-cpu", "cells/new.html#sums-plain-cpu"} <= set(page.links)


def test_the_history_of_each_stack_has_its_place() -> None:
    """Evidence pages link to it, even if nothing changed."""
    history = History((entry("trains", 0, "one"), entry("step:exception", 1, "other", "lock")), {})
    records = [cell(stack, "plain", "step:exception") for stack in ("old", "new")]
    page = Page(site_of(records, [OLD, NEW], SUMS, history=history)["history.html"])
    assert {"of/old", "of/new"} <= set(page.anchors)
    assert "new : 1 regressed, 1 new" in page.text
    assert "old : nothing changed since it was first published" in page.text


EXPECTED = claims.Expectation(cells=(("sums", "plain"),), outcome="trains")


def judged(verdict: claims.Verdict = claims.Verdict.PARTLY) -> claims.Judged:
    """A claim with a cell that supports it and one that contradicts it."""
    claim = claims.Claim(
        id="it-trains",
        scenario="sums",
        says=HOSTILE,
        source="owner/name#7",
        date=DAY,
        reading="As said.",
        expect=(),
    )
    cells = (
        claims.Evidence(
            cell=make_cell("old", "sums"), outcome="trains", bears="against", why="trains"
        ),
        claims.Evidence(cell=make_cell("new", "sums"), outcome="trains", bears="for", why="trains"),
    )
    return claims.Judged(
        claim=claim, verdict=verdict, tested=(claims.Tested(expectation=EXPECTED, evidence=cells),)
    )


def test_a_claim_shows_its_verdict_with_the_cells_on_either_side() -> None:
    """It also links to its source."""
    page = Page(site_of(sample(), [OLD, NEW], SUMS, claims=(judged(),))["claims.html"])
    assert "◐ partly: 1" in page.text
    assert {"https://github.com/owner/name/issues/7", "cells/old.html#sums-plain-cpu"} <= set(
        page.links
    )
    assert [] == page.problems


def test_claims_are_listed_by_scenario_verdict_and_variant() -> None:
    """Each has its address beside it. A variant without claims says so."""
    page = Page(site_of(sample(), [OLD, NEW], SUMS, claims=(judged(),))["claims.html"])
    assert {"on/sums", "on/sums/plain", "on/sums/frozen", "verdict/partly", "it-trains"} <= set(
        page.anchors
    )
    assert 4 == page.links.count("#it-trains") + page.text.count("#it-trains")
    assert "frozen : no claim" in page.text


def test_claims_and_variants_can_be_searched_on_the_page_of_errors() -> None:
    """Readers also search in their own words."""
    page = Page(site_of(sample(), [OLD, NEW], SUMS, claims=(judged(),))["errors.html"])
    assert {"claims.html#it-trains", "cells/new.html#sums-frozen-cpu"} <= set(page.links)
    assert "sums / frozen (misuse): what frozen means. ✗ silent on new" in page.text


def test_an_error_names_every_remedy_with_the_stacks_on_which_it_trains() -> None:
    """Only stacks count on which its scenario fails for that reason, whether it helps or not."""
    cures = ("checkpoint-inputs",)
    scenario = make_scenario(
        "sums",
        make_variant("reported", Role.REPORTED),
        make_variant("good", Role.REMEDY, cures=cures),
        make_variant("some", Role.CONTROL, cures=cures),
        make_variant("bad", Role.REMEDY, cures=cures),
        make_variant("unrelated", Role.REMEDY),
        make_variant("other", Role.REMEDY, cures=cures, mends=("another",)),
    )
    seen = make_stopped(lost=(make_checkpoint(),))
    failing: dict[str, Any] = {"observation": seen, "message": "element 0"}
    records = [
        *(cell(stack, "reported", "step:no-grad-fn", **failing) for stack in ("old", "new")),
        *(cell(stack, "good") for stack in ("old", "new", "later")),
        cell("old", "some"),
        cell("new", "some", "step:exception"),
        *(cell(stack, "bad", "step:no-grad-fn", **failing) for stack in ("old", "new")),
        *(cell(stack, name) for stack in ("old", "new") for name in ("unrelated", "other")),
    ]
    later = make_lock("later", as_of=DAY + dt.timedelta(days=1))
    site = site_of(records, [OLD, NEW, later], scenario)
    text = Page(answer_in(site, "element-")).text
    assert "What was tried: 1 of 3 remedies train on every stack that fails" in text
    remedies = text.partition("does not train on")[2].partition("Cells:")[0]
    assert (
        "sums good what good means ✓ 2 of 2 stacks new , old – "
        "some what some means ◐ 1 of 2 stacks old ✗ step:exception new "
        "bad what bad means ✗ 0 of 2 stacks ✗ step:no-grad-fn new , old"
    ) == remedies.strip()


def answer_in(site: dict[str, str], beginning: str) -> str:
    """The only answer whose address begins so."""
    [path] = [path for path in site if path.startswith(f"answers/{beginning}")]
    return site[path]


def reported(stack: str, outcome: str = "step:no-grad-fn", **fields: object) -> Record:
    """A report about LoRA with checkpointing, as it ends on a stack."""
    if outcome == "trains":
        return cell(stack, "reported", role=Role.REPORTED)
    seen = make_stopped(lost=(make_checkpoint(),))
    text: dict[str, Any] = {
        "message": "RuntimeError: element 0 of tensors",
        "observation": seen,
        **fields,
    }
    return cell(stack, "reported", outcome, role=Role.REPORTED, **text)


def test_an_answer_has_the_situation_the_code_and_the_releases() -> None:
    """Its title is the message, and what a reader can run to be sure is on it."""
    html = answer_in(site_of([reported("old"), reported("new", "trains")], [OLD, NEW], SUMS), "")
    page = Page(html)
    assert "<title>RuntimeError: element 0 of tensors – gradmatrix</title>" in html
    for words in (
        f"Which is yours? {Cause.CHECKPOINT_INPUTS.situation} 1 cell on 1 stack",
        " ".join(Cause.CHECKPOINT_INPUTS.mend.split()),
        "sums/reported : fails in this way up to torch 2.5.0, trains from torch 2.10.0 on.",
        "gradmatrix trace train.py",
    ):
        assert words in page.text
    assert {"#checkpoint-inputs", "../cells/old.html#sums-reported-cpu"} <= set(page.links)
    assert "checkpoint-inputs" in page.anchors


def test_releases_are_named_in_the_direction_in_which_they_changed_it() -> None:
    """A newer release may be the one that fails."""
    site = site_of([reported("old", "trains"), reported("new")], [OLD, NEW], SUMS)
    expected = "trains up to torch 2.5.0, fails in this way from torch 2.10.0 on."
    assert expected in Page(answer_in(site, "element")).text


def test_stacks_that_no_package_separates_are_compared_with_the_nearest_one() -> None:
    """What differs there may be the reason."""
    later = make_lock("later", versions={"torch": "2.5.0", "peft": "1.0"}, as_of=NEW.as_of)
    records = [reported("old"), reported("new", "trains"), reported("later", "trains")]
    expected = "fails in this way on 1 of 3 stacks (old); later trains, with peft 1.0 in place of"
    text = Page(answer_in(site_of(records, [OLD, NEW, later], SUMS), "element")).text
    assert expected in text


def test_what_was_found_by_bisection_stands_on_the_answer() -> None:
    """It names the exact releases."""
    found = Turning(
        cell="sums/reported/cpu",
        stacks=("old", "new"),
        locks=(lock_input(OLD), lock_input(NEW)),
        outcomes=("step:no-grad-fn", "trains"),
        edges=(
            Edge(package="torch", before="2.6.1", after="2.6.0", ends=(END, END), moved=("torch",)),
        ),
    )
    site = site_of(
        [reported("old"), reported("new", "trains")],
        [OLD, NEW],
        SUMS,
        flips=Flips(turns=(found,)),
    )
    assert "It changes between torch 2.6.0 and 2.6.1." in Page(answer_in(site, "")).text


def test_the_releases_of_a_change_stand_on_the_answer_once() -> None:
    """Also if they were found between two pairs of stacks, with other packages that moved."""
    later = make_lock("later", versions={"torch": "2.6.0"}, as_of=NEW.as_of, digest="9" * 64)
    edge = Edge(package="torch", before="2.6.1", after="2.6.0", ends=(END, END), moved=("torch",))
    turns = tuple(
        Turning(
            cell="sums/reported/cpu",
            stacks=("old", lock.stack),
            locks=(lock_input(OLD), lock_input(lock)),
            outcomes=("step:no-grad-fn", "trains"),
            edges=(replace(edge, also=also),),
        )
        for lock, also in ((NEW, ()), (later, ("numpy 1 → 2",)))
    )
    records = [reported("old"), reported("new", "trains"), reported("later", "trains")]
    site = site_of(records, [OLD, NEW, later], SUMS, flips=Flips(turns=turns))
    assert "It changes between torch 2.6.0 and 2.6.1." in Page(answer_in(site, "element")).text


def test_the_address_of_an_answer_does_not_depend_on_numbers_or_other_messages() -> None:
    """So a link stays. Names of parameters do not count either."""
    one, other = (
        site_of([reported("new", message=text), *more], [NEW], SUMS)
        for text, more in (
            ("ValueError: 3 of 4 trainable parameters got no gradient: a.weight", []),
            (
                "ValueError: 7 of 9 trainable parameters got no gradient: b, c",
                [cell("new", "plain")],
            ),
        )
    )
    assert [path for path in one if "answers/" in path] == [
        path for path in other if "answers/" in path
    ]


def test_a_warning_of_cells_that_train_says_that_nothing_is_wrong() -> None:
    """What fails with it has another reason, unless the warning names a problem of training."""
    for text, is_named in (("`old` is deprecated", False), ("Gradients will be None", True)):
        warned = (make_warned(text),)
        records = [
            cell("new", "plain", observation=make_observation(warnings=warned)),
            reported("new", observation=make_stopped(lost=(make_checkpoint(),), warnings=warned)),
        ]
        site = site_of(records, [NEW], SUMS)
        page = Page(site[links.answer(signature(text))])
        assert "trains-all-the-same" in page.anchors
        assert ("checkpoint-inputs" in page.anchors) is is_named
        assert ("Not all cells with it train" in page.text) is not is_named


def test_what_a_scenario_prints_has_no_answer() -> None:
    """It is listed where no search looks."""
    warned = (make_warned("loss of 7 in this step"), make_warned("another library is old"))
    site = site_of(
        [cell("new", "plain", observation=make_observation(warnings=warned))],
        [NEW],
        SUMS,
        source='import warnings\nwarnings.warn(f"loss of {loss} in this step")\n',
    )
    assert ["answers/another-library-is-old"] == [
        path.rpartition("-")[0] for path in site if path.startswith("answers/")
    ]
    assert "loss of 7 in this step" in Page(site["errors.html"]).text


def test_cells_that_do_not_fail_are_counted_separately() -> None:
    """A misuse that the stack reports is no failure."""
    telling: dict[str, Any] = {"role": Role.MISUSE, "passed": True, "observation": make_stopped()}
    records = [
        cell("new", "reported", "step:no-grad-fn", observation=make_stopped(), message="element 0"),
        cell("new", "frozen", "step:no-grad-fn", **telling, message="element 0"),
    ]
    text = Page(site_of(records, [NEW], SUMS)["errors.html"]).text
    assert "2 cells: 1 fail; 1 of misuse, correctly reported." in text


def test_every_outcome_is_explained_on_one_page(site: dict[str, str]) -> None:
    """Each has an address, and says whether the stack is judged by it."""
    page = Page(site["query.html"])
    assert {row.outcome for row in TABLE} <= set(page.anchors)
    assert "gradient:zero Training ended, but every gradient was exactly zero. yes" in page.text
    lost = (
        "process:lost The process disappeared, or something outside killed it. "
        "This says nothing about the stack. no"
    )
    assert lost in page.text


def test_an_empty_matrix_has_its_pages() -> None:
    """Nothing has run yet."""
    site = site_of([], [], SUMS)
    assert "No cell has been judged yet." in Page(site["index.html"]).text
    assert {} == {
        path: found
        for path, html in site.items()
        if ".html" in path and (found := Page(html).problems)
    }
