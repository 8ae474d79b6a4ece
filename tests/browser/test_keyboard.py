"""Everything works with the keyboard alone, and the focus is always visible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gradmatrix.core.model import Role
from tests.browser.reading import Filter, expected, read
from tests.conftest import waits_until

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.browser.conftest import Site, Tab

pytestmark = pytest.mark.slow

MOST_STOPS = 120
"""Of the first page, from its top to its end."""
FOCUS = """
element => {
  const style = getComputedStyle(element), box = element.getBoundingClientRect();
  return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2
    && box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight;
}
"""
"""Whether an element has a visible outline and is on the screen."""

PAINTED = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Until a page has been painted once, a browser drops the keys that are pressed."""


def opened(tab: Tab, path: str = "index.html") -> Page:
    """A page that takes keys."""
    page = tab.open(path)
    page.evaluate(PAINTED)
    return page


def focused(page: Page) -> Locator:
    """The element with the focus."""
    return page.locator(":focus")


def tab_to(page: Page, selector: str) -> Locator:
    """Press Tab until an element that matches has the focus."""
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return focused(page)
    raise AssertionError(f"{selector} is not reached")


def test_the_first_stop_skips_the_navigation(tab: Tab) -> None:
    """The link becomes visible and leads to the content."""
    page = opened(tab)
    page.keyboard.press("Tab")
    assert ("Skip to the content", True) == (
        focused(page).inner_text(),
        focused(page).evaluate(FOCUS),
    )
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert focused(page).evaluate("element => Boolean(element.closest('main'))")


def test_the_next_stops_skip_to_the_filters_and_the_matrix(tab: Tab) -> None:
    """They skip what is new and the heat map."""
    reached = []
    for name, target in (("Skip to the filters", "#filters"), ("Skip to the matrix", "#tables")):
        page = opened(tab)
        while focused(page).count() == 0 or focused(page).inner_text() != name:
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        reached.append(
            focused(page).evaluate("(element, target) => Boolean(element.closest(target))", target)
        )
    assert [True, True] == reached


def test_stops_follow_the_page(tab: Tab) -> None:
    """The order is navigation, search, filters, matrix."""
    page = opened(tab, "index.html#scenario=t5_classifier")
    stops = [
        "nav a",
        "#search input",
        "#search button",
        "#filters select",
        "#reset",
        "#tables td a",
    ]
    for stop in stops:  # each is reached from the one before
        tab_to(page, stop)
    assert focused(page).evaluate(FOCUS)


def test_every_stop_is_seen(tab: Tab) -> None:
    """Each of the first forty stops has an outline and is on the screen."""
    page = opened(tab)
    unseen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        if not focused(page).evaluate(FOCUS):
            unseen.append(focused(page).evaluate("element => element.outerHTML.slice(0, 80)"))
    assert [] == unseen


def test_enter_opens_a_cell(tab: Tab, site: Site) -> None:
    """The keyboard goes on at its evidence."""
    page = opened(tab, f"index.html#scenario={site.rows[0].scenario}")
    target = tab_to(page, "#tables td a").get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_url("**/cells/*.html*")
    assert target is not None
    assert page.url.endswith(target)
    page.evaluate(PAINTED)
    page.keyboard.press("Tab")
    assert focused(page).evaluate(
        "e => Boolean(document.querySelector(':target').compareDocumentPosition(e) & 4)"
    )


def test_filters_are_chosen_by_typing(tab: Tab, site: Site) -> None:
    """The first letters choose a value, as in every list."""
    page = opened(tab)
    tab_to(page, "#filters select[name=role]")
    page.keyboard.type("misuse")
    assert expected(site, Filter(role=Role.MISUSE)) == read(page)
    assert "role" == focused(page).get_attribute("name")


def test_arrows_go_from_cell_to_cell(tab: Tab) -> None:
    """With hundreds of cells, the Tab key alone is too slow."""
    page = opened(tab, "index.html#scenario=t5_classifier")
    first = tab_to(page, "#tables td a").get_attribute("href")
    places = []
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"):
        page.keyboard.press(key)
        places.append(focused(page).get_attribute("href"))
    assert (4, first) == (len(set(places)), places[-1])


def test_home_and_end_go_to_the_ends_of_a_line(tab: Tab) -> None:
    """The first link of a line is its name. Lines without a link in the column are skipped."""
    page = opened(tab)
    first = tab_to(page, "#tables td a").evaluate_handle("link => link")
    page.keyboard.press("End")
    last = "link => link === [...link.closest('tr').querySelectorAll('a')].at(-1)"
    assert focused(page).evaluate(last)
    page.keyboard.press("Home")
    assert "th" == focused(page).evaluate("link => link.parentElement.localName")
    page.keyboard.press("ArrowUp")
    assert focused(page).evaluate("link => link.closest('tr').className === 'scenario'")
    for key in ("ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert focused(page).evaluate("(link, first) => link === first", first)


def test_a_table_is_one_stop(tab: Tab) -> None:
    """The Tab key leaves it, and comes back to where it was."""
    page = opened(tab)
    tab_to(page, ".map td a")
    page.keyboard.press("ArrowDown")
    address = focused(page).get_attribute("href")
    region = page.locator(".map").first
    page.keyboard.press("Tab")
    assert not region.evaluate("region => region.contains(document.activeElement)")
    page.keyboard.press("Shift+Tab")
    assert address == focused(page).get_attribute("href")


def test_the_end_of_the_page_is_reached_in_few_stops(tab: Tab) -> None:
    """There are thousands of links in the tables."""
    page = opened(tab)
    links = page.locator("main a").count()
    tab_to(page, "footer a")
    assert links > 10 * MOST_STOPS


def test_a_cell_of_the_heat_map_says_what_changed(tab: Tab) -> None:
    """The focus shows in words what a pointer shows in a tooltip."""
    page = opened(tab)
    cell = page.locator(".map td.turn a").first
    cell.focus()
    said = page.locator("#said").inner_text()
    assert "Changed here: " in said
    assert said == cell.get_attribute("title")


def test_a_wide_matrix_is_scrolled_with_the_keyboard(tab: Tab) -> None:
    """A cell that gets the focus is brought into sight; its region has a name."""
    tab.page.set_viewport_size({"width": 400, "height": 800})
    page = opened(tab)
    tab_to(page, "#tables td a")
    page.keyboard.press("End")
    region = page.locator("#tables .region").first
    assert waits_until(lambda: region.evaluate("region => region.scrollLeft > 0"))
    assert focused(page).evaluate(FOCUS)
    assert page.locator(f"#{region.get_attribute('aria-labelledby')}").inner_text()


def test_details_are_opened_with_enter(tab: Tab, site: Site) -> None:
    """Tracebacks and lists of cells are closed at first."""
    [first, *_] = sorted((site.folder / "answers").glob("element-*.html"))
    page = opened(tab, f"answers/{first.name}")
    tab_to(page, "section details:not([open]) > summary")
    page.keyboard.press("Enter")
    assert focused(page).evaluate("summary => summary.parentElement.open")
