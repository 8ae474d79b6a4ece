"""A comparison as a page from a file: nothing is blocked, nothing is serious, nothing is wider than a phone."""

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
    """The page of a comparison with something of everything, with hostile text; nothing may go wrong in it."""
    (tmp_path / "comparison.html").write_bytes(as_html(everything(HOSTILE)))
    context = browser.new_context(**LOOKS[request.param])
    tab = Tab(context.new_page(), tmp_path.as_uri())
    tab.open("comparison.html")
    yield tab
    context.close()
    assert [] == tab.wrong


def test_nothing_serious_is_found(report: Tab) -> None:
    """With all that is folded away in sight."""
    report.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert [] == violations(report)


def test_the_page_is_as_wide_as_its_window(report: Tab) -> None:
    """Its tables scroll by themselves."""
    assert report.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_its_looks_come_with_it(report: Tab) -> None:
    """The policy lets its own style pass: the answer has a colour behind it."""
    colour = report.page.locator(".answer").first.evaluate(
        "each => getComputedStyle(each).backgroundColor"
    )
    assert "rgba(0, 0, 0, 0)" != colour
