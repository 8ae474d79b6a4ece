"""A cell opens its evidence, at its own place, with everything that was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from gradmatrix.core.model import Record
    from gradmatrix.publish.rows import Row
    from tests.browser.conftest import Site, Tab


pytestmark = pytest.mark.slow


def newest(site: Site, outcome: str) -> Row:
    """A cell of the newest stack that has one with that outcome and an observation."""
    order = [stack.name for stack in site.matrix.stacks]
    rows = [
        row
        for row in site.rows
        if row.outcome == outcome and site.records[row.cell].observation is not None
    ]
    return max(rows, key=lambda row: order.index(row.stack))


def opened(tab: Tab, row: Row) -> Locator:
    """The evidence of a cell, by a click on it in the matrix."""
    page = tab.open(f"index.html#scenario={row.scenario}")
    column = [
        each.strip()
        for each in page.locator("#tables thead")
        .first.locator("tr")
        .first.locator("th")
        .all_inner_texts()
    ]
    line = (
        page.locator("#tables tbody tr")
        .filter(has=page.get_by_role("link", name=row.variant, exact=True))
        .first
    )
    line.locator("th, td").nth(column.index(row.stack)).get_by_role("link").click()
    page.wait_for_url("**/cells/*.html*")
    assert page.url.endswith(f"/cells/{row.stack}.html#{row.scenario}-{row.variant}-{row.device}")
    return page.locator(":target")


def words(text: str) -> str:
    """``text`` with one space between two words, as a page may break lines anywhere."""
    return " ".join(text.split())


@pytest.fixture(params=["trains", "step:no-grad-fn", "gradient:none", "relation:disagrees"])
def row(request: pytest.FixtureRequest, site: Site) -> Row:
    """A cell of each kind."""
    return newest(site, request.param)


@pytest.fixture
def record(row: Row, site: Site) -> Record:
    """The record of the cell."""
    return site.records[row.cell]


def test_the_cell_is_where_the_link_leads(anywhere: Tab, row: Row) -> None:
    """The cell is on the screen, under its name."""
    evidence = opened(anywhere, row)
    top = evidence.evaluate("element => element.getBoundingClientRect().top")
    assert 0 <= top < 800
    heading = evidence.get_by_role("heading").first.inner_text()
    assert f"{row.scenario}/{row.variant} on {row.stack}, {row.device}" == heading


def test_the_verdict_is_shown(tab: Tab, row: Row) -> None:
    """It has the outcome and its meaning in words."""
    text = opened(tab, row).locator(".verdict").inner_text()
    assert row.outcome in text
    assert {True: "✓", False: "✗"}[bool(row.passed)] in text


def test_the_diagnosis_is_shown(tab: Tab, site: Site) -> None:
    """Its remedy is a link to a cell that trains."""
    row = next(
        row
        for row in site.rows[::-1]
        if row.diagnosis is not None and row.diagnosis.remedy is not None
    )
    assert row.diagnosis is not None
    assert row.diagnosis.remedy is not None
    evidence = opened(tab, row)
    text = words(evidence.inner_text())
    assert [] == [line for line in row.diagnosis.text if words(line.replace("`", "")) not in text]
    evidence.get_by_role("link", name=row.diagnosis.remedy).click()
    scenario, _, variant = row.diagnosis.remedy.partition("/")
    tab.page.wait_for_url(f"**/cells/{row.stack}.html#{scenario}-{variant}-*")
    assert "✓ trains" in tab.page.locator(":target .verdict").inner_text()


def test_a_disagreement_links_to_the_other_variant(tab: Tab, site: Site) -> None:
    """It has both sequences, and the other variant trains."""
    row = newest(site, "relation:disagrees")
    evidence = opened(tab, row)
    other = row.message.rpartition(" of ")[2]
    assert row.message.split()[1] in evidence.locator(".numbers").first.inner_text()
    evidence.locator(".why").get_by_role("link", name=other, exact=True).click()
    tab.page.wait_for_url(f"**/cells/{row.stack}.html#{row.scenario}-{other}-{row.device}")
    assert "✓ trains" in tab.page.locator(":target .verdict").inner_text()


def test_claims_about_a_variant_are_one_click_away(tab: Tab, site: Site) -> None:
    """The link opens the list, which is closed otherwise."""
    row = newest(site, "step:no-grad-fn")
    opened(tab, row).get_by_role("link", name="claims about this variant").click()
    tab.page.wait_for_url("**/claims.html#*")
    resting = tab.page.locator(":target")
    assert resting.is_visible()
    assert row.variant in resting.inner_text()


def test_changes_of_a_stack_are_one_click_away(tab: Tab, site: Site) -> None:
    """The link opens the part of the stack."""
    row = newest(site, "step:no-grad-fn")
    opened(tab, row).get_by_role("link", name="changes of this stack").click()
    tab.page.wait_for_url("**/history.html#*")
    assert tab.page.locator(":target").is_visible()
    assert tab.page.locator("details:has(:target) summary").inner_text().startswith(f"{row.stack}:")


def test_an_outcome_is_explained_one_click_away(tab: Tab, site: Site) -> None:
    """The link leads to the list of all outcomes."""
    opened(tab, newest(site, "step:no-grad-fn")).get_by_role("link", name="All outcomes").click()
    tab.page.wait_for_url("**/query.html#*")
    assert tab.page.locator(":target").inner_text().startswith("step:no-grad-fn")


def test_losses_and_gradients_are_shown(tab: Tab, row: Row, record: Record) -> None:
    """There is each audited step, and the letters of every parameter that should learn."""
    assert record.observation is not None
    text = opened(tab, row).inner_text()
    losses = [loss for loss in record.observation.losses if isinstance(loss, float)]
    assert [] == [loss for loss in losses if f"{loss:.5g}" not in text]
    assert [] == [
        each.gradients
        for each in record.observation.parameters
        if each.learns and each.gradients not in text
    ]


def test_step_times_are_drawn_and_written(tab: Tab, site: Site) -> None:
    """Each step has a bar and a number."""
    row = newest(site, "trains")
    seen = site.records[row.cell].observation
    assert seen is not None
    figure = opened(tab, row).locator("figure")
    assert len(seen.step_times_s) == (figure.locator("svg path").get_attribute("d") or "").count(
        "M"
    )
    assert " ".join(f"{each * 1000:.3g}" for each in seen.step_times_s) in figure.inner_text()


def test_the_exception_is_shown(tab: Tab, site: Site) -> None:
    """A click opens the whole traceback."""
    row = newest(site, "step:no-grad-fn")
    seen = site.records[row.cell].observation
    assert seen is not None
    assert seen.raised is not None
    evidence = opened(tab, row)
    evidence.locator("summary", has_text="Exception").click()
    shown = evidence.locator("details[open] pre").first.inner_text()
    assert seen.raised.traceback.split() == shown.split()


def test_warnings_are_shown(tab: Tab, site: Site) -> None:
    """Each has its category."""
    row = next(row for row in site.rows[::-1] if row.warnings and row.passed is not None)
    evidence = opened(tab, row)
    evidence.locator("summary", has_text="Warnings").click()
    text = words(evidence.locator(".warnings").inner_text())
    assert [] == [warning for warning in row.warnings if words(warning) not in text]


def test_versions_and_commands_are_shown(tab: Tab, row: Row, record: Record) -> None:
    """The page has the versions, a link to the lock, and the commands."""
    assert record.observation is not None
    evidence = opened(tab, row)
    cell = f"{row.stack}/{row.scenario}/{row.variant}/{row.device}"
    assert f"gradmatrix reproduce {cell}" in evidence.locator(".commands").inner_text()
    text = tab.page.locator("main").inner_text()
    versions = [
        version
        for name, version in record.observation.environment.items()
        if name in {"torch", "trl"} and version
    ]
    assert [] == [version for version in versions if version not in text]
    lock = tab.page.locator(f"main a[href$='locks/{row.stack}.txt']")
    assert 1 == lock.count()


def test_a_failure_has_a_capsule(tab: Tab, site: Site) -> None:
    """A capsule is one script that shows it without a checkout."""
    row = newest(site, "step:no-grad-fn")
    assert "gradmatrix capsule" in opened(tab, row).locator(".commands").inner_text()
