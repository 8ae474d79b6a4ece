"""The pages of stacks, scenarios and packages: what is in a stack, and where outcomes change."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from msgspec.structs import replace

from gradmatrix.core.model import Failure, LockedPackage, Role
from gradmatrix.judge.edge import Flips
from tests.claimed import make_turning
from tests.factories import make_lock, make_stopped
from tests.sites import HOSTILE, NEW, OLD, SUMS, Page, cell, sample, site_of


@pytest.fixture(scope="module")
def site() -> dict[str, str]:
    """The pages of the sample."""
    return site_of(sample(), [OLD, NEW], SUMS)


def test_different_builds_of_torch_are_marked() -> None:
    """They are in the table heads, the legend, the stack pages and the plots."""
    site = site_of(sample(), [OLD, NEW], SUMS, builds={"old": "cpu", "new": "cuda"})
    assert "build of torch cuda cpu" in Page(site["index.html"]).text
    assert (
        "Speed and memory of different builds cannot be compared" in Page(site["index.html"]).text
    )
    assert (
        "build of torch cpu; other stacks ran with a different build"
        in Page(site["stacks/old.html"]).text
    )
    text = Page(site["scenarios/sums.html"]).text
    assert "old (cpu build of torch): ✓ trains" in text
    assert "Peak memory on new: 117.7 MiB Its source" in text


def test_equal_builds_of_torch_are_not_marked() -> None:
    """The page of a stack still names the build."""
    site = site_of(sample(), [OLD, NEW], SUMS, builds={"old": "cpu", "new": "cpu"})
    assert "build of torch" not in Page(site["index.html"]).text
    assert "build of torch cpu Python" in Page(site["stacks/old.html"]).text


def test_what_does_not_train_has_no_speed_and_no_memory() -> None:
    """A run that failed early has no useful numbers."""
    reported: dict[str, Any] = {"role": Role.REPORTED}
    stopped = cell(
        "new",
        "reported",
        "step:no-grad-fn",
        **reported,
        observation=make_stopped(peak_memory_bytes=9),
    )
    text = Page(site_of([stopped], [NEW], SUMS)["scenarios/sums.html"]).text
    assert ("Outcome: passes on 0 of 1 stacks" in text, "Peak memory:" in text) == (True, False)


def test_a_scenario_shows_where_an_outcome_changes(site: dict[str, str]) -> None:
    """It names both stacks and every package that differs between them."""
    text = Page(site["scenarios/sums.html"]).text
    moved = "torch 2.5.0 → 2.10.0, numpy 1.0 → 2.0"
    assert f"✗ step:no-grad-fn on old → ✓ trains on new. Between them: {moved}" in text


def test_a_change_has_its_release_if_that_is_known() -> None:
    """It stands before the packages that differ."""
    digits = (OLD.digest[:16], NEW.digest[:16])
    turning = make_turning(
        "torch", "2.6.0", "2.7.0", cell="sums/reported/cpu", stacks=("old", "new"), locks=digits
    )
    pages = site_of(sample(), [OLD, NEW], SUMS, flips=Flips(turns=(turning,)))
    text = Page(pages["scenarios/sums.html"]).text
    assert "trains on new. Exactly: between torch 2.6.0 and 2.7.0. Between them:" in text


def test_a_release_that_did_it_is_on_the_page_of_its_package_and_on_the_first() -> None:
    """In either direction of the stacks, once for each change, also for a package of no column."""
    up, down = make_turning("torch", "2.6.0", "2.7.0"), make_turning("numpy", "2.0", "1.5")
    here = {"stacks": ("old", "new"), "locks": (OLD.digest[:16], NEW.digest[:16])}
    turns = [
        replace(each, cell=f"sums/{variant}/cpu", **here)
        for each in (up, down)
        for variant in ("reported", "other", "other")
    ]
    pages = site_of(sample(), [OLD, NEW], SUMS, flips=Flips(turns=tuple(turns)))
    first = Page(pages["index.html"])
    assert "2.7.0 fixed 2" in first.text
    assert "numpy 2.0 2026-01-15 It broke 2 :" in first.text
    exact = {"packages/torch.html#exact-2.7.0", "packages/numpy.html#exact-2.0"}
    assert exact <= set(first.links)
    lines = Page(pages["packages/torch.html"]).text
    assert 1 == lines.count("2.7.0 – fixed sums/ other 2.6.0: step:no-grad-fn trains")
    assert "2.0 – broke sums/ other 1.5: trains step:no-grad-fn" in (
        Page(pages["packages/numpy.html"]).text
    )


def test_a_scenario_has_its_story_and_its_source(site: dict[str, str]) -> None:
    """The story is the docstring without its title. The source is the script."""
    text = Page(site["scenarios/sums.html"]).text
    assert "Its story Its story." in text
    assert '"""A title. Its story. """' in text


def test_a_package_page_names_other_changed_packages(site: dict[str, str]) -> None:
    """Releases are in the order of versions. Other packages may explain a change between them."""
    text = Page(site["packages/torch.html"]).text
    assert text.index("2.10.0 2026-01-15 new") < text.index("2.5.0 2026-01-15 old")
    assert "2.5.0 → 2.10.0 old compared with new . Also changed: numpy 1.0 → 2.0" in text
    assert "sums/ reported : ✗ step:no-grad-fn → ✓ trains , everywhere" in text


def test_a_stack_says_how_stale_it_is() -> None:
    """It names an old release that nobody asked for."""
    stale = LockedPackage(
        name="trl",
        version="0.1",
        released=dt.date(2022, 1, 1),
        newest="0.9",
        newest_released=dt.date(2024, 1, 1),
    )
    site = site_of(
        [cell("stack", "plain")], [make_lock(packages=(stale,), requirements=("trl",))], SUMS
    )
    assert "⚠ trl 0.1 is 730 days older than 0.9" in Page(site["stacks/stack.html"]).text


def test_a_stack_that_could_not_be_resolved_keeps_its_page() -> None:
    """The page has the reason."""
    torn = make_lock(
        "torn", versions={}, digest="", failure=Failure(outcome="resolve:conflict", message=HOSTILE)
    )
    record = cell("torn", "plain", "resolve:conflict", message=HOSTILE, isolation="none")
    site = site_of([record], [torn], SUMS)
    assert "✗ errors resolve: conflict" in Page(site["stacks/torn.html"]).text
    assert "resolve: conflict" in Page(site["index.html"]).text


def test_a_stack_that_was_not_run_has_no_records() -> None:
    """It has only a page and a lock."""
    site = site_of([cell("new", "plain")], [OLD, NEW], SUMS)
    assert "records/new.jsonl" in site["stacks/new.html"]
    assert "records/old.jsonl" not in site["stacks/old.html"]
