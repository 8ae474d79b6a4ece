"""The filters of the matrix show what Python finds in the same cells, and stand in the address."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from gradmatrix.core.model import SHOWN, Role
from tests.browser.reading import Filter, differs, expected, read

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.conftest import Site, Tab

pytestmark = pytest.mark.slow

LABELS = {"any": "any", "pass": "passes ✓", "fail": "fails ✗", "open": "not judged –"}


def apply(page: Page, asked: Filter) -> None:
    """Choose values in the form by its labels, as a reader does."""
    form = page.get_by_role("form", name="Filter the matrix")
    if asked.scenario is not None:
        form.get_by_label("Scenario").select_option(asked.scenario)
    if asked.role is not None:
        form.get_by_label("Role").select_option(asked.role.value)
    if asked.device is not None:
        form.get_by_label("Device").select_option(asked.device)
    if asked.outcome is not None:
        form.get_by_label("Outcome").select_option(label=LABELS.get(asked.outcome, asked.outcome))
    for name, (low, high) in asked.versions.items():
        form.get_by_label(f"{name} from any").select_option(low)
        form.get_by_label(f"{name} to any").select_option(high)
    if asked.pair is not None:
        form.get_by_label("Only what differs between").select_option(asked.pair[0])
        form.get_by_label("and", exact=True).select_option(asked.pair[1])


def middle(site: Site, package: str) -> tuple[str, str]:
    """The second and the second-last release of a package."""
    known = {stack.packages[package] for stack in site.matrix.stacks if package in stack.packages}
    releases = sorted(known, key=Version)
    return releases[1], releases[-2]


def most_unlike(site: Site) -> tuple[str, str]:
    """The two stacks with the most differences, the newer one first."""
    everything = max(Counter(row.stack for row in site.rows).values())
    whole = {name for name, n in Counter(row.stack for row in site.rows).items() if n == everything}
    names = [stack.name for stack in reversed(site.matrix.stacks) if stack.name in whole]
    cells = {(row.stack, row.scenario, row.variant, row.device): row for row in site.rows}
    places = {place[1:] for place in cells}
    pairs = [(one, other) for number, one in enumerate(names) for other in names[number + 1 :]]
    return max(
        pairs,
        key=lambda pair: sum(differs(*(cells[name, *place] for name in pair)) for place in places),
    )


def test_a_filter_by_scenario(tab: Tab, site: Site) -> None:
    """Only the variants of the scenario are left."""
    asked = Filter(scenario=site.rows[-1].scenario)
    apply(page := tab.open(), asked)
    assert expected(site, asked) == read(page)


@pytest.mark.parametrize("role", Role)
def test_a_filter_by_role(tab: Tab, site: Site, role: Role) -> None:
    """Variants of every scenario are left."""
    apply(page := tab.open(), Filter(role=role))
    assert expected(site, Filter(role=role)) == read(page)


@pytest.mark.parametrize("verdict", ["pass", "fail", "open"])
def test_a_filter_by_verdict(tab: Tab, site: Site, verdict: str) -> None:
    """Lines and columns with the verdict are left. Other cells show a dot."""
    apply(page := tab.open(), Filter(outcome=verdict))
    assert expected(site, Filter(outcome=verdict)) == read(page)


def test_a_filter_by_outcome(tab: Tab, site: Site) -> None:
    """Every outcome of a failing cell can be chosen."""
    outcomes = Counter(row.outcome for row in site.rows if row.passed is False)
    page = tab.open()
    shown = {}
    for outcome in outcomes:
        apply(page, Filter(outcome=outcome))
        shown[outcome] = read(page)
    assert {outcome: expected(site, Filter(outcome=outcome)) for outcome in outcomes} == shown


def test_a_filter_by_device(tab: Tab, site: Site) -> None:
    """Devices that the machine had can be chosen."""
    asked = Filter(device=site.rows[0].device)
    apply(page := tab.open(), asked)
    assert expected(site, asked) == read(page)


@pytest.mark.parametrize("package", ["torch", "transformers", "trl"])
def test_a_filter_by_a_range_of_releases(tab: Tab, site: Site, package: str) -> None:
    """Both ends belong to the range. A stack without the package is left out."""
    asked = Filter(versions={package: middle(site, package)})
    apply(page := tab.open(), asked)
    assert expected(site, asked) == read(page)


def test_a_filter_by_ranges_of_several_packages(tab: Tab, site: Site) -> None:
    """A stack must be in all ranges."""
    asked = Filter(versions={name: middle(site, name) for name in ("torch", "transformers")})
    apply(page := tab.open(), asked)
    assert expected(site, asked) == read(page)


def test_a_filter_by_differences_between_two_stacks(tab: Tab, site: Site) -> None:
    """Two columns are left, and the lines in which they differ."""
    asked = Filter(pair=most_unlike(site))
    apply(page := tab.open(), asked)
    assert expected(site, asked) == read(page)


def test_a_pair_together_with_other_filters(tab: Tab, site: Site) -> None:
    """The other filters leave out lines. Both cells are shown and counted."""
    asked = Filter(role=Role.REPORTED, outcome="fail", pair=most_unlike(site))
    apply(page := tab.open(), asked)
    assert expected(site, asked) == read(page)
    compared = expected(site, Filter(role=Role.REPORTED, pair=most_unlike(site)))
    everywhere = expected(site, Filter(pair=most_unlike(site)))
    apply(page, Filter(outcome="any"))
    told = page.get_by_role("status").inner_text()
    lines = len(expected(site, Filter(role=Role.REPORTED)))
    assert f"{len(compared)} of the {lines} filtered variants differ between" in told
    assert f"without filters, {len(everywhere)} of {len(expected(site, Filter()))}." in told


def test_a_pair_outside_of_a_range(tab: Tab, site: Site) -> None:
    """The range is not ignored: a sentence says which stack it leaves out."""
    new, old = site.matrix.stacks[-1], site.matrix.stacks[0]
    version = new.packages["torch"]
    apply(
        page := tab.open(),
        Filter(versions={"torch": (version, version)}, pair=(new.name, old.name)),
    )
    assert f"Nothing to compare: {old.name} not within" in page.get_by_role("status").inner_text()
    assert {} == read(page)


def test_half_a_pair_is_reported(tab: Tab, site: Site) -> None:
    """Nothing is compared until two stacks are chosen."""
    name = site.matrix.stacks[0].name
    page = tab.open(f"index.html#a={name}")
    assert f"To compare {name}, choose a second stack." in page.get_by_role("status").inner_text()
    assert expected(site, Filter()) == read(page)


def test_a_version_is_bold_if_it_differs_from_the_next_column(tab: Tab, site: Site) -> None:
    """Only columns that are shown count, not all stacks."""
    pair = site.matrix.stacks[-1], site.matrix.stacks[0]
    page = tab.open(f"index.html#a={pair[0].name}&b={pair[1].name}")
    heads = page.locator("#tables table").first.locator("tr.version")
    shown = {
        row.locator("th").inner_text(): row.locator("td b").all_inner_texts() for row in heads.all()
    }
    moved = [
        name
        for name in SHOWN
        if name in pair[0].packages and pair[0].packages[name] != pair[1].packages.get(name)
    ]
    assert {name: [pair[0].packages[name]] for name in moved} == {
        n: bold for n, bold in shown.items() if n in moved
    }


def test_a_filter_in_the_address_is_in_sight(tab: Tab) -> None:
    """At its top, the page would look as if there were no filter."""
    page = tab.open("index.html#role=reported&outcome=fail")
    shown = page.locator("#shown").bounding_box()
    assert shown is not None
    assert 0 <= shown["y"] < 100
    assert "Filtered: role reported, outcome fails" in page.get_by_role("status").inner_text()


def test_filters_add_up(tab: Tab, site: Site) -> None:
    """Each filter leaves out more."""
    row = next(row for row in site.rows if row.role is Role.REPORTED and row.passed is False)
    asked = Filter(
        row.scenario, Role.REPORTED, row.device, "fail", {"torch": middle(site, "torch")}
    )
    apply(page := tab.open(), asked)
    assert expected(site, asked) == read(page)


def test_a_status_counts_what_is_shown(tab: Tab, site: Site) -> None:
    """A screen reader reads it out."""
    apply(page := tab.open(), Filter(role=Role.MISUSE))
    lines = len(expected(site, Filter(role=Role.MISUSE)))
    assert (
        f"{lines} of {len(expected(site, Filter()))} variants"
        in page.get_by_role("status").inner_text()
    )


def test_an_empty_result_is_reported(tab: Tab) -> None:
    """A page without any text would look broken."""
    page = tab.open("index.html#role=reported&scenario=there-is-none")
    told = page.get_by_role("status").inner_text()
    assert ("Nothing matches this filter" in told, {}) == (True, read(page))
    assert "the matrix has no scenario “there-is-none”" in told
    assert (
        "there-is-none (unknown)"
        == page.get_by_label("Scenario").locator("option:checked").inner_text()
    )


def test_an_unknown_value_disappears_with_the_next_choice(tab: Tab, site: Site) -> None:
    """The form does not have such a value."""
    page = tab.open("index.html#scenario=there-is-none")
    page.get_by_label("Scenario").select_option("any")
    assert expected(site, Filter()) == read(page)
    assert 0 == page.get_by_text("(unknown)").count()


def test_a_button_shows_everything_again(tab: Tab, site: Site) -> None:
    """The button is beside the filters."""
    apply(page := tab.open(), Filter(role=Role.MISUSE, outcome="fail"))
    page.get_by_role("button", name="Show everything").click()
    assert expected(site, Filter()) == read(page)
    assert "" == page.get_by_label("Role").input_value()


def test_rows_out_of_sight_are_laid_out_after_the_answer(tab: Tab) -> None:
    """They are as high as on a page that was opened with the filter."""
    page = tab.open("index.html#role=reported")
    high = page.locator("#tables").evaluate("each => each.offsetHeight")
    page.get_by_role("button", name="Show everything").click()
    apply(page, Filter(role=Role.REPORTED))
    page.locator(".fresh").wait_for(state="detached")
    assert high == page.locator("#tables").evaluate("each => each.offsetHeight")


def test_the_address_restores_the_filter(anywhere: Tab, site: Site) -> None:
    """It works after a reload and in another tab."""
    asked = Filter(role=Role.REPORTED, outcome="fail", versions={"torch": middle(site, "torch")})
    apply(page := anywhere.open(), asked)
    page.reload()
    assert expected(site, asked) == read(page)
    other = page.context.new_page()
    other.goto(page.url)
    assert expected(site, asked) == read(other)
    assert "reported" == other.get_by_label("Role").input_value()


def test_back_and_forward_change_the_filter(anywhere: Tab, site: Site) -> None:
    """Each choice is an entry in the browser's history."""
    page = anywhere.open()
    apply(page, Filter(role=Role.CONTROL))
    apply(page, Filter(outcome="fail"))
    page.go_back()
    assert (expected(site, Filter(role=Role.CONTROL)), "") == (
        read(page),
        page.get_by_label("Outcome").input_value(),
    )
    page.go_back()
    assert expected(site, Filter()) == read(page)
    page.go_forward()
    assert (expected(site, Filter(role=Role.CONTROL)), "control") == (
        read(page),
        page.get_by_label("Role").input_value(),
    )


def test_back_from_a_cell_restores_the_filter(anywhere: Tab, site: Site) -> None:
    """A reader who looks at several cells need not choose again."""
    page = anywhere.open()
    apply(page, Filter(role=Role.MISUSE))
    page.locator("#tables td a").first.click()
    page.wait_for_url("**/cells/*.html*")
    page.go_back()
    page.wait_for_url("**/index.html*")
    assert expected(site, Filter(role=Role.MISUSE)) == read(page)


def test_the_address_is_copied(tab: Tab) -> None:
    """The copied address has the filter."""
    apply(page := tab.open(), Filter(role=Role.CONTROL))
    page.get_by_role("button", name="Copy address").click()
    page.get_by_text("The address is copied.").wait_for()
    assert page.url == page.evaluate("navigator.clipboard.readText()")


@pytest.mark.parametrize(
    "fragment",
    [
        "#torch=9..1",
        "#a=x&b=y",
        "#page=-7",
        "#%E0%A4%A",
        "#role=<b>&outcome=%00",
        "#=&=&&",
        "#torch=..",
    ],
)
def test_a_wrong_address_breaks_nothing(tab: Tab, fragment: str) -> None:
    """It may be cut off or made up."""
    page = tab.open(f"index.html{fragment}")
    assert page.get_by_role("button", name="Show everything").is_visible()
