"""The page of a comparison: nothing is blocked, nothing is serious, and it fits a phone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gradmatrix.publish.reports import as_html
from tests.browser.conftest import Tab
from tests.browser.test_accessibility import LOOKS, violations
from tests.compared import HOSTILE, everything

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser


@pytest.fixture(params=LOOKS)
def report(request: pytest.FixtureRequest, browser: Browser, tmp_path: Path) -> Iterator[Tab]:
    """The page of a comparison with every kind of entry and hostile text. Nothing may go wrong."""
    (tmp_path / "comparison.html").write_bytes(as_html(everything(HOSTILE)))
    context = browser.new_context(**LOOKS[request.param])
    tab = Tab(context.new_page(), tmp_path.as_uri())
    tab.open("comparison.html")
    yield tab
    context.close()
    assert [] == tab.wrong


def test_nothing_serious_is_found(report: Tab) -> None:
    """Everything that is folded is opened first."""
    report.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert [] == violations(report)


def test_the_page_is_as_wide_as_its_window(report: Tab) -> None:
    """Only its tables scroll sideways."""
    assert report.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_page_contains_its_style(report: Tab) -> None:
    """The content security policy allows it: the answer has a background colour."""
    colour = report.page.locator(".answer").first.evaluate(
        "each => getComputedStyle(each).backgroundColor"
    )
    assert "rgba(0, 0, 0, 0)" != colour
