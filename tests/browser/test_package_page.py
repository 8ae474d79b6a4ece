"""The grid of a package: its head stays in sight, it needs no script, and it is one stop."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import Tab

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.browser.conftest import Site

pytestmark = pytest.mark.slow

PAGE = "packages/transformers.html"
CELL = re.compile(r"([✓✗◐] \d+(–\d+)? of \d+|– not judged|not run)( ?[\d, ]+)?( ?[+\u2212]\d+)*")
PLACES = """
region => {
  region.scrollTo(200, 100);
  const [box, head, release, cell] = [region, ...["thead th", "tbody th", "tbody tr:last-child td"]
    .map(each => region.querySelector(each))].map(each => each.getBoundingClientRect());
  return [head.top - box.top, head.left - box.left, release.left - box.left,
    region.scrollLeft, region.scrollTop];
}
"""
"""Where the head and the releases are in a region that was scrolled, and how far it scrolled."""


@pytest.mark.parametrize("scripts", [True, False])
def test_a_phone_keeps_scenarios_and_releases_in_sight(
    browser: Browser, site: Site, scripts: bool
) -> None:
    """The grid scrolls in a box of its own, also without a script."""
    context = browser.new_context(
        viewport={"width": 390, "height": 600}, java_script_enabled=scripts
    )
    page = Tab(context.new_page(), site.as_files).open(PAGE)
    places = page.locator(".grid").first.evaluate(PLACES)
    wide = page.evaluate("document.documentElement.scrollWidth")
    context.close()
    assert (200, 100) == tuple(places[3:])
    assert all(abs(place) <= 2 for place in places[:3])
    assert wide <= 390


def test_every_cell_says_in_words_what_its_colour_says(tab: Tab) -> None:
    """A symbol and a number, or why there is none."""
    cells = tab.open(PAGE).locator(".grid td")
    texts = [" ".join(text.split()) for text in cells.all_inner_texts()]
    assert [] == [text for text in texts if not CELL.fullmatch(text)]
    assert len(texts) > 100


def test_the_grid_is_one_stop(tab: Tab) -> None:
    """Arrows go on from there; the next Tab leaves it."""
    page = tab.open(PAGE)
    page.locator(".grid td a").first.focus()
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.closest('thead') !== null")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.grid') === null")


def test_a_range_leads_to_its_note(tab: Tab) -> None:
    """The note has the stacks, and each its evidence."""
    page = tab.open(PAGE)
    page.locator(".grid td a[href^='#note']").first.click()
    page.locator("li:target a").first.click()
    page.wait_for_url("**/cells/*.html#*")
    assert 1 == page.locator(":target").count()


def test_paper_has_the_whole_grid(tab: Tab) -> None:
    """Nothing of it is out of sight."""
    page = tab.open(PAGE)
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 1050, "height": 740})
    cut = "region => region.scrollWidth > region.clientWidth + 1"
    assert not page.locator(".grid").first.evaluate(cut)
    heights = "region => region.scrollHeight - region.clientHeight"
    assert page.locator(".grid").first.evaluate(heights) <= 1
