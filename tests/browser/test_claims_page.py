"""Claims are found by scenario and verdict, and have an address each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.browser.conftest import Tab


def test_one_verdict_is_shown_alone(anywhere: Tab) -> None:
    """This works without JavaScript."""
    page = anywhere.open("claims.html")
    everything = page.locator("article.claim").count()
    page.get_by_role("radio", name="refuted").check()
    shown = page.locator("article.claim:visible .verdict").all_inner_texts()
    assert {"✗ refuted"} == set(shown)
    page.get_by_role("radio", name="all").check()
    assert everything == page.locator("article.claim:visible").count()


def test_a_list_of_one_verdict_links_to_the_claims(tab: Tab) -> None:
    """A claim that is hidden is shown again."""
    page = tab.open("claims.html")
    page.get_by_role("radio", name="confirmed").check()
    page.locator("summary", has_text="refuted").first.click()
    page.get_by_role("navigation", name="Claims by verdict").locator(
        "details[open] li a"
    ).first.click()
    assert "✗ refuted" in page.locator(":target").inner_text()


def test_a_claim_has_its_address_beside_it(tab: Tab) -> None:
    """A reader can send it."""
    page = tab.open("claims.html")
    claim = page.locator("article.claim").nth(3)
    name = claim.get_attribute("id")
    claim.get_by_role("link", name=f"#{name}").click()
    page.reload()
    assert page.url.endswith(f"claims.html#{name}")
    assert page.locator(":target").get_attribute("id") == name
