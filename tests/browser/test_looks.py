"""The look of the pages: on paper, on a phone, and for readers who see no colours."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.browser.reading import Filter, expected, read, stacks_at_first
from tests.browser.test_accessibility import PAGES, one_of

if TYPE_CHECKING:
    from tests.browser.conftest import Site, Tab

pytestmark = pytest.mark.slow

WIDTH = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
"""Of what there is, and of what is seen of it without scrolling sideways."""

IS_CUT = """
region => region.scrollWidth > region.clientWidth
  && getComputedStyle(region).overflowX !== "visible"
"""
"""Whether a part of a region is out of sight, and cannot be reached on paper."""


def test_paper_has_the_whole_matrix(tab: Tab, site: Site) -> None:
    """Every column is on it, and no form or menu."""
    page = tab.open()
    page.emulate_media(media="print")
    assert expected(site, Filter()) == read(page)
    assert 0 == page.locator("form:visible, nav:visible").count()
    assert [] == [
        region for region in page.locator("#tables .region").all() if region.evaluate(IS_CUT)
    ]


def test_paper_has_tables_that_can_be_read(tab: Tab, site: Site) -> None:
    """A wide table becomes several narrow ones, and one again after printing."""
    page = tab.open()
    heads = page.locator("#tables [aria-labelledby^=trains] .stacks")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert max(heads.evaluate_all("heads => heads.map(each => each.cells.length - 1)")) <= 8
    names = heads.locator("a").evaluate_all("links => links.map(each => each.textContent)")
    newest = [stack.name for stack in reversed(site.matrix.stacks)][: stacks_at_first(site)]
    assert newest == names
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert expected(site, Filter()) == read(page)


def test_paper_is_white(tab: Tab) -> None:
    """Paper is white even with a dark setting."""
    page = tab.open()
    page.emulate_media(media="print", color_scheme="dark")
    background = page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    assert background in {"rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"}


def test_dark_is_dark(tab: Tab) -> None:
    """The setting of the system decides."""
    page = tab.open()
    page.emulate_media(color_scheme="dark")
    background = page.locator("html").evaluate("html => getComputedStyle(html).backgroundColor")
    body = page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    shown = body if body != "rgba(0, 0, 0, 0)" else background
    assert max(int(each) for each in re.findall(r"\d+", shown)[:3]) < 64


@pytest.mark.parametrize("pattern", PAGES)
def test_a_phone_scrolls_no_page_sideways(tab: Tab, site: Site, pattern: str) -> None:
    """Only wide tables scroll sideways."""
    tab.page.set_viewport_size({"width": 360, "height": 700})
    whole, seen = tab.open(one_of(site, pattern)).evaluate(WIDTH)
    assert whole <= seen


def test_a_desk_shows_thirteen_stacks_at_once(tab: Tab) -> None:
    """The newest ones, or all that a table has; a table of more scrolls."""
    tab.page.set_viewport_size({"width": 1400, "height": 900})
    hidden = """regions => regions.map(region => [...region.querySelector("thead tr").cells].filter(
        (cell, place) => place <= 13
            && cell.getBoundingClientRect().right > region.getBoundingClientRect().right
    ).length)"""
    assert {0} == set(tab.open().locator(".region.matrix").evaluate_all(hidden))


def test_the_page_scrolls_down_and_no_table_does(tab: Tab) -> None:
    """A wheel over the matrix moves the page. The names of the stacks stay in sight."""
    tab.page.set_viewport_size({"width": 700, "height": 800})
    page = tab.open()
    region = page.locator("#tables .region").first
    region.evaluate("region => { region.scrollLeft = 200; }")
    page.locator("#tables td a").nth(200).scroll_into_view_if_needed()
    page.locator(".heads").wait_for()
    left = "element => element.querySelectorAll('.stacks th')[3].getBoundingClientRect().left"
    assert abs(page.locator(".heads").evaluate(left) - region.evaluate(left)) <= 1
    assert region.evaluate("region => region.scrollHeight - region.clientHeight") <= 1


def test_a_cell_says_in_words_what_its_colour_says(tab: Tab) -> None:
    """Every cell has a symbol and a word, or says that it was not run."""
    cells = {text for line in read(tab.open()).values() for text in line.values()}
    assert [] == [text for text in cells if not re.match(r"[✓✗–] \w|not run$", text)]
