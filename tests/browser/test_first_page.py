"""The first page, as a file and behind a server: the whole matrix, and nothing from elsewhere.

The fixture of every test that opens a tab checks that nothing is fetched from elsewhere, blocked,
logged as an error or shown as a dialog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import Tab
from tests.browser.reading import Filter, expected, read, stacks_at_first
from tests.conftest import waits_until

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

    from tests.browser.conftest import Site


def test_the_whole_matrix_is_shown(anywhere: Tab, site: Site) -> None:
    """It has every variant on the newest stacks, with its verdict in words."""
    assert expected(site, Filter()) == read(anywhere.open())


def test_versions_stand_below_the_stacks(tab: Tab, site: Site) -> None:
    """They are those of the main packages."""
    rows = tab.open().locator("#tables table").first.locator("tr.version")
    shown = {
        row[0]: row[1:] for row in (each.locator("th, td").all_inner_texts() for each in rows.all())
    }
    newest_first = site.matrix.stacks[::-1][: stacks_at_first(site)]
    assert [str(stack.as_of) for stack in newest_first] == shown["as of"]
    assert [stack.packages.get("trl", "–") for stack in newest_first] == shown["trl"]


def test_what_changed_with_a_release_is_one_click_away(tab: Tab, site: Site) -> None:
    """The matrix below then shows the two stacks that were compared."""
    page = tab.open()
    seen = page.locator(".newest details").first
    seen.locator("summary").click()
    stacks = seen.locator("p a").all_inner_texts()[:2]
    seen.get_by_text("All that differs").click()
    shown = read(page)
    assert expected(site, Filter(pair=(stacks[0], stacks[1]))) == shown
    assert shown


@pytest.mark.parametrize(
    "name", ["claims.html", "errors.html", "history.html", "query.html", "stacks", "packages"]
)
def test_other_pages_open_by_links(anywhere: Tab, name: str) -> None:
    """The first page links to each of them."""
    page = anywhere.open()
    page.locator(f"main a[href*='{name}'], nav a[href*='{name}']").first.click()
    page.wait_for_url(f"**/{name}**")
    assert page.locator("main h1").is_visible()


def test_what_is_wrong_is_noticed(site: Site, context: BrowserContext) -> None:
    """The fixtures report an inline script, an image from elsewhere and a dialog."""
    page = (tab := Tab(context.new_page(), site.as_files)).open()
    page.evaluate(
        "document.body.append(Object.assign(new Image(), {src: 'https://elsewhere.invalid/x.png'}))"
    )
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'alert(1)'}))"
    )
    page.evaluate("alert('x')")

    def noticed() -> bool:
        page.wait_for_timeout(20)  # Playwright takes up events only while it is called
        return all(word in str(tab.wrong) for word in ("img-src", "script-src-elem", "dialog"))

    assert waits_until(noticed)
