"""Text from exceptions, warnings, names and versions does nothing on any page but show itself."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from gradmatrix.core.model import Failure, LockedPackage, Role
from gradmatrix.core.text import CONTROL, one_line, plain
from gradmatrix.publish.publication import publish
from gradmatrix.publish.rows import WARNING_LIMIT
from gradmatrix.publish.site import links
from gradmatrix.publish.site.messages import signature
from gradmatrix.run.project import Project
from tests.browser.conftest import Site, Tab
from tests.browser.test_links import broken, pages, read
from tests.cli.test_cli import MATRIX, write_lock
from tests.factories import (
    make_cell,
    make_frame,
    make_lock,
    make_lost,
    make_observation,
    make_parameter,
    make_raised,
    make_record,
    make_stopped,
    make_switch,
    make_warned,
)

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

    from gradmatrix.core.model import Lock, Record

pytestmark = pytest.mark.slow

HOSTILE = (
    "<script>document.title = 'hacked'; alert('h')</script>",
    "<img src=x onerror=\"alert('h')\">",
    "\"'></code></pre></a></td></title></textarea><svg onload=alert('h')>",
    "javascript:alert('h')",
    "=cmd|' /C calc'!A0",
    "\x1b[31mred\x1b[0m \x1b]8;;x\x07 \x9b1m \x00",
    "\u202egnp.exe\u202c \u200fabc\u2066def\u2069",
    "{{ 7 * 7 }}{% endblock %} &lt;b&gt; ]]> <!-- ${alert('h')} \\u003cscript\\u003e \u2028",
    "https://example.org/\"onmouseover=\"alert('h')",
)
EVIL = " ".join(HOSTILE)
SHORT = "\"'><img src=x onerror=alert('h')>\u202e\x1b[31m"
"""Hostile text for names."""
SCENARIO = f"""
{EVIL + chr(10) + chr(10) + EVIL + chr(10) + chr(10) + "- " + EVIL!r}

NEEDS = ("torch",)
VARIANTS = {{
    "plain": {{"role": "control", "summary": {EVIL!r}}},
    {SHORT!r}: {{"role": "reported", "summary": {EVIL!r}}},
    "frozen": {{"role": "misuse", "summary": {EVIL!r}}},
}}
"""
INJECTED = """
() => [...document.querySelectorAll("*")].filter(element =>
    element.matches("script:not([src]), img, iframe, object, embed, base, form[action], [style]")
    || [...element.attributes].some(each => each.name.startsWith("on"))
    || (element.href && !/^(file|https?|data):/.test(element.href.baseVal ?? element.href))
).map(element => element.outerHTML.slice(0, 200))
"""
"""Elements that none of our pages has."""
ANSWERS = [links.answer(signature(text)) for text in (EVIL, EVIL[:WARNING_LIMIT], "first")]
KINDS = (
    "index.html",
    "index.html#role=reported",
    "index.html#role=control&outcome=fail",
    "errors.html",
    "errors.html#q=alert",
    "claims.html",
    "history.html",
    "query.html",
    *ANSWERS,
    "stacks/first.html",
    "stacks/second.html",
    "stacks/torn.html",
    "scenarios/sums.html",
    "packages/torch.html",
    "packages/trl.html",
    "packages/peft.html",
    "cells/first.html",
    "cells/second.html",
    "cells/torn.html",
)


def records() -> list[Record]:
    """Cells of every kind, with hostile text wherever there is text."""
    frame = make_frame(7, EVIL, EVIL)
    seen = {
        "warnings": (make_warned(EVIL, EVIL), make_warned(f"first\n{EVIL}")),
        "environment": {"python": "3.11", EVIL: EVIL, "torch": EVIL},
        "parameters": (make_parameter(name=EVIL, dtype=EVIL, changed=False),),
        "gradient_norms": (1.0, EVIL),
        "observer_errors": (EVIL,),
    }
    stopped = make_stopped(
        **seen,
        raised=make_raised(f"{EVIL}\nsecond {EVIL}", EVIL),
        lost=(
            make_lost(EVIL, type=EVIL, within=EVIL, within_type=EVIL, switch=make_switch(frame)),
        ),
    )
    failed = {"passed": False, "message": EVIL, "build": EVIL, "run": EVIL, "inputs": {EVIL: EVIL}}
    return [
        make_record(
            "step:no-grad-fn",
            make_cell("first", "sums", SHORT),
            role=Role.REPORTED,
            observation=stopped,
            **failed,
        ),
        make_record(
            cell=make_cell("first", "sums", "plain"),
            observation=make_observation(**seen),
            message=EVIL,
        ),
        make_record(
            "update:none",
            make_cell("first", "sums", "frozen"),
            role=Role.MISUSE,
            observation=make_observation(**seen),
            **failed,
        ),
        make_record(
            "setup:unsupported",
            make_cell("second", "sums", "plain"),
            passed=None,
            observation=None,
            message=EVIL,
        ),
        make_record(
            "step:exception", make_cell("second", "sums", SHORT), role=Role.REPORTED, **failed
        ),
        make_record("resolve:conflict", make_cell("torn", "sums", "plain"), **failed),
    ]


def locks() -> list[Lock]:
    """Two stacks with hostile packages, and one that could not be resolved."""
    some = LockedPackage(
        name="",
        version="",
        released=dt.date(2024, 1, 1),
        newest=EVIL,
        newest_released=dt.date(2026, 1, 1),
    )
    packages = [
        ("torch", SHORT),
        ("trl", "0.1.0"),
        (SHORT, "1.0"),
        ("../../../escaped", "1"),
        (EVIL, EVIL),
    ]
    return [
        make_lock(
            "first",
            packages=tuple(replace(some, name=name, version=version) for name, version in packages),
            resolver=EVIL,
            python=SHORT,
            requirements=("torch", f"trl @ {HOSTILE[-1]}"),
        ),
        make_lock("second", versions={"torch": "2.6.0", "trl": SHORT}),
        make_lock("torn", versions={}, failure=Failure(outcome="resolve:conflict", message=EVIL)),
    ]


TORN = """
[[stacks]]
name = "torn"
python = "3.11"
as_of = 2026-01-15
requirements = ["torch"]
"""
"""A stack in matrix.toml that could not be resolved."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A site made from such records."""
    root = tmp_path_factory.mktemp("hostile") / "checkout"
    (root / "scenarios").mkdir(parents=True)
    (root / "matrix.toml").write_text(MATRIX + TORN, encoding="utf-8")
    (root / "scenarios" / "sums.py").write_text(SCENARIO.lstrip(), encoding="utf-8")
    for lock in locks():
        write_lock(root, lock)
    project = Project.at(root)
    for record in records():
        project.store.append(record)
    publish(project, site=True)
    assert [] == project.store.problems  # a record that is skipped is no proof
    return Site(project.results)


@pytest.mark.parametrize("path", KINDS)
def test_nothing_runs(hostile: Site, context: BrowserContext, path: str) -> None:
    """No page opens a dialog, runs a script, has a foreign element or asks for anything."""
    tab = Tab(context.new_page(), hostile.as_files)
    page = tab.open(path)
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    page.wait_for_timeout(50)
    assert ([], []) == (page.evaluate(INJECTED), tab.wrong)
    assert page.title().endswith("gradmatrix")


def test_every_kind_of_page_is_visited(hostile: Site) -> None:
    """A page that is not visited proves nothing."""
    found = {path.relative_to(hostile.folder).as_posix() for path in pages(hostile.folder)}
    assert {"packages/lightning.html", "packages/transformers.html"} == found - {
        path.partition("#")[0] for path in KINDS
    }


@pytest.mark.parametrize("text", HOSTILE)
def test_it_is_shown_as_text(hostile: Site, context: BrowserContext, text: str) -> None:
    """It is in the evidence of its cell."""
    page = Tab(context.new_page(), hostile.as_files).open("cells/first.html")
    shown = page.locator("article .message").first.text_content()
    assert shown is not None
    assert one_line(text) in one_line(shown)


def test_no_page_has_control_characters(hostile: Site) -> None:
    """Marks that change the direction of writing are removed too."""
    files = [
        *pages(hostile.folder),
        *(hostile.folder / "site").glob("*"),
        hostile.folder / "feed.xml",
    ]
    assert [] == [path.name for path in files if CONTROL.search(path.read_text(encoding="utf-8"))]


def test_links_of_hostile_names_work(hostile: Site) -> None:
    """Names with quotes and brackets have working links and anchors."""
    assert [] == [
        problem for page in pages(hostile.folder) for problem in broken(page, hostile.folder)
    ]
    assert [] == [
        (page.name, read(page).active) for page in pages(hostile.folder) if read(page).active
    ]


def test_nothing_is_written_outside(hostile: Site) -> None:
    """The name of a package cannot be a path."""
    outside = [path for path in hostile.folder.parent.parent.rglob("*") if "escaped" in path.name]
    assert [] == outside


def test_a_cell_with_a_hostile_name_is_opened(hostile: Site, context: BrowserContext) -> None:
    """The cell is in the filtered matrix, which a script writes."""
    tab = Tab(context.new_page(), hostile.as_files)
    page = tab.open("index.html#role=reported")
    page.locator("#tables td a").last.click()
    page.wait_for_url("**/cells/*.html*")
    assert plain(SHORT) in (
        page.locator(":target").get_by_role("heading").first.text_content() or ""
    )
    assert [] == tab.wrong
