"""More stacks than fit side by side: older ones have pages of their own; filters see all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gradmatrix.publish.publication import publish
from gradmatrix.publish.site.tables import WINDOW
from gradmatrix.run.project import Project
from tests.browser.conftest import Site, Tab
from tests.browser.reading import read
from tests.browser.test_links import broken, pages
from tests.cli.test_cli import MATRIX, SUMS, write_lock
from tests.factories import make_cell, make_lock, make_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.slow

NAMES = [f"s{number:02}" for number in range(WINDOW + 3)][::-1]
"""The stacks, the newest one first."""
LINE = ("cpu", "sums", "plain")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A site with a few more stacks than fit. The two oldest ones fail."""
    root = tmp_path_factory.mktemp("many")
    (root / "scenarios").mkdir()
    facts = 'python = "3.11"\nas_of = 2026-01-15\nrequirements = ["torch"]\n'
    tables = "".join(f'[[stacks]]\nname = "{name}"\n{facts}' for name in NAMES)
    (root / "matrix.toml").write_text(MATRIX.partition("[[stacks]]")[0] + tables, encoding="utf-8")
    (root / "scenarios" / "sums.py").write_text(SUMS.lstrip(), encoding="utf-8")
    project = Project.at(root)
    for name in NAMES:
        write_lock(root, make_lock(name))
        outcome = "step:exception" if name in NAMES[-2:] else "trains"
        project.store.append(make_record(outcome, make_cell(name, "sums", "plain")))
    publish(project, site=True)
    return Site(project.results)


@pytest.fixture
def page(many: Site, context: BrowserContext) -> Iterator[Page]:
    """The first page."""
    tab = Tab(context.new_page(), many.as_files)
    yield tab.open()
    assert [] == tab.wrong


def stacks(page: Page, within: str = "#tables") -> list[str]:
    """The columns that are shown."""
    return list(read(page, within)[LINE])


def test_the_newest_are_on_the_first_page(page: Page) -> None:
    """It shows as many as fit."""
    assert NAMES[:WINDOW] == stacks(page)


def test_older_stacks_are_one_click_away(page: Page) -> None:
    """Their pages need no script."""
    page.get_by_role("navigation", name="Older and newer stacks").get_by_role("link").last.click()
    page.wait_for_url("**/older-1.html")
    assert NAMES[WINDOW:] == stacks(page, "[aria-labelledby^=trains]")


def test_every_link_has_a_target(many: Site) -> None:
    """The pages of older stacks are checked too."""
    assert [] == [problem for each in pages(many.folder) for problem in broken(each, many.folder)]


def test_a_filter_sees_all_stacks(page: Page) -> None:
    """The oldest ones are the only ones that fail."""
    page.get_by_label("Outcome").select_option(label="fails ✗")
    assert NAMES[-2:] == stacks(page)


def test_a_long_result_is_shown_in_parts(page: Page) -> None:
    """The address has the number of the part."""
    page.get_by_label("Role").select_option("control")
    shown = [stacks(page)]
    page.get_by_role("button", name="older stacks").click()
    page.reload()
    shown.append(stacks(page))
    page.get_by_role("button", name="newer stacks").click()
    shown.append(stacks(page))
    assert [NAMES[:WINDOW], NAMES[WINDOW:], NAMES[:WINDOW]] == shown
