"""axe-core finds no fault of WCAG A or AA on any kind of page: light, dark, on a phone."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.conftest import Tab

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.browser.conftest import Site

AXE = (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 800}},
    "phone": {
        "color_scheme": "light",
        "viewport": {"width": 390, "height": 844},
        "has_touch": True,
    },
}
FIRST_PAGE = "index.html"
PAGES = (
    FIRST_PAGE,
    "index.html#role=reported&outcome=fail",
    "errors.html",
    "errors.html#q=element 0 of tensors does not require grad",
    "claims.html",
    "history.html",
    "query.html",
    "stacks/*.html",
    "scenarios/*.html",
    "packages/*.html",
    "answers/*.html",
    "cells/*.html",
)
"""Each kind of page. If there are several of a kind, the longest one is tested, but the shortest of
those with cells: axe-core needs minutes for the others."""


def one_of(site: Site, pattern: str) -> str:
    """The page of a kind that is tested."""
    path, hash_, fragment = pattern.partition("#")
    choose = min if path.startswith("cells/") else max
    found = choose(site.folder.glob(path), key=lambda each: each.stat().st_size)
    return found.relative_to(site.folder).as_posix() + hash_ + fragment


def violations(tab: Tab, *rules: str) -> list[str]:
    """What breaks WCAG A or AA, or is serious, by these rules or all, with the first element."""
    tab.page.evaluate(AXE)
    options: dict[str, Any] = {
        "resultTypes": ["violations"],
        "preload": False,
        "rules": {"target-size": {"enabled": True}},
    }
    if rules:
        options["runOnly"] = list(rules)
    found = tab.page.evaluate("options => axe.run(options)", options)["violations"]
    lines = []
    for each in found:
        is_required = any(tag.startswith("wcag") for tag in each["tags"])
        if is_required or each["impact"] in {"serious", "critical"}:
            nodes = each["nodes"]
            first = f"{nodes[0]['html'][:200]} {nodes[0]['failureSummary']}"
            lines.append(f"{each['id']} × {len(nodes)}: {first}")
    return lines


@pytest.mark.parametrize(
    ("pattern", "look"),
    [
        pytest.param(
            page, look, marks=() if (page, look) == (FIRST_PAGE, "light") else pytest.mark.slow
        )
        for page in PAGES
        for look in LOOKS
    ],
)
def test_nothing_is_against_wcag(browser: Browser, site: Site, pattern: str, look: str) -> None:
    """The rules are about names, roles, contrast, order, the keyboard; dark has other colours."""
    context = browser.new_context(**LOOKS[look])
    tab = Tab(context.new_page(), site.as_files)
    tab.open(one_of(site, pattern))
    found = violations(tab, *(["color-contrast"] if look == "dark" else []))
    context.close()
    assert [] == found


@pytest.mark.slow
@pytest.mark.parametrize("look", ["light", "phone"])
def test_opened_lists_are_large_enough_to_touch(browser: Browser, site: Site, look: str) -> None:
    """What opens a list, and what the list has. The page of a package has most of them."""
    context = browser.new_context(**LOOKS[look])
    tab = Tab(context.new_page(), site.as_files)
    page = tab.open(one_of(site, "packages/*.html"))
    page.locator("details").evaluate_all("all => all.forEach(each => { each.open = true; })")
    found = violations(tab, "target-size")
    context.close()
    assert [] == found


def test_what_is_serious_is_noticed(tab: Tab) -> None:
    """A button without a name and text with little contrast are found."""
    page = tab.open("query.html")
    page.locator("main").evaluate("main => main.prepend(document.createElement('button'))")
    page.locator("main p").first.evaluate(
        "p => { p.style.color = '#888'; p.style.background = '#777' }"
    )
    assert {"button-name", "color-contrast"} == {each.partition(" ")[0] for each in violations(tab)}
