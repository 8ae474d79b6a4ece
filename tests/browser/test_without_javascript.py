"""Without JavaScript everything can be read, and nothing that needs it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import Tab
from tests.browser.reading import Filter, expected, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from tests.browser.conftest import Site


@pytest.fixture
def quiet(browser: Browser, site: Site) -> Iterator[Tab]:
    """A tab of a browser that runs no script of a page."""
    context = browser.new_context(java_script_enabled=False)
    tab = Tab(context.new_page(), site.as_files)
    yield tab
    context.close()
    assert [] == tab.wrong


def test_the_whole_matrix_is_shown(quiet: Tab, site: Site) -> None:
    """It is the same as with scripts."""
    assert expected(site, Filter()) == read(quiet.open())


def test_no_form_is_offered(quiet: Tab) -> None:
    """A form would do nothing."""
    forms = [
        quiet.open(name).locator("form:visible").count() for name in ("index.html", "errors.html")
    ]
    assert [0, 0] == forms


def test_a_cell_opens_its_evidence(quiet: Tab) -> None:
    """The cell is an ordinary link."""
    page = quiet.open()
    page.locator("#tables td a").first.click()
    page.wait_for_url("**/cells/*.html*")
    assert page.locator(":target .verdict").is_visible()


def test_every_error_can_be_read(quiet: Tab) -> None:
    """The first page links to the page that has all of them."""
    page = quiet.open()
    page.locator("main a[href='errors.html']").first.click()
    page.wait_for_url("**/errors.html")
    assert page.get_by_role(
        "heading", name="element 0 of tensors does not require grad"
    ).first.is_visible()


def test_an_answer_reads_well(quiet: Tab) -> None:
    """Its situations are links, and its code can be selected. No button does nothing."""
    page = quiet.open("errors.html")
    page.get_by_role("link", name="element 0 of tensors does not require grad").first.click()
    page.wait_for_url("**/answers/element-*.html")
    page.get_by_role("link", name="Everything is frozen").click()
    target = page.locator(":target")
    assert "model.requires_grad_(True)" in target.locator("pre").first.inner_text()
    assert page.locator("button").count() == 0


@pytest.mark.parametrize("kind", ["stacks", "scenarios", "packages", "answers", "cells"])
def test_every_kind_of_page_can_be_read(quiet: Tab, site: Site, kind: str) -> None:
    """It has a heading and text."""
    path = next((site.folder / kind).rglob("*.html")).relative_to(site.folder).as_posix()
    page = quiet.open(path)
    assert page.locator("main h1").is_visible()
    assert len(page.locator("main").inner_text()) > 500
