"""What every page contains, read without a browser: its links work, and nothing in it can run."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag, urlsplit

from gradmatrix.publish.publication import publish
from gradmatrix.run.project import Project
from tests.cli.test_cli import MATRIX, SUMS, write_lock
from tests.factories import make_cell, make_lock, make_record

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.conftest import Site

ADDRESSES = {"href", "src", "action", "formaction", "poster", "data", "srcset"}


@dataclass
class Contents(HTMLParser):
    """The elements, anchors and addresses of one page."""

    anchors: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    """What labels and descriptions refer to."""
    active: list[str] = field(default_factory=list)
    """What the policy of the pages would have to stop."""
    policy: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        """Parse as text that is decoded already."""
        super().__init__()
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what matters of an element."""
        given = {name: value or "" for name, value in attrs}
        self._inside = tag
        self.anchors += [given["id"]] if "id" in given else []
        self.addresses += [value for name, value in given.items() if name in ADDRESSES]
        for name in ("for", "aria-labelledby", "aria-describedby", "aria-controls"):
            self.named += given.get(name, "").split()
        self.active += [
            f"{tag} {name}" for name in given if name.startswith("on") or name == "style"
        ]
        if tag in {"iframe", "object", "embed", "base", "style"} or (
            tag == "script" and "src" not in given
        ):
            self.active.append(tag)
        if tag == "meta" and given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]

    def handle_data(self, data: str) -> None:
        """The title."""
        self.title += data if self._inside == "title" else ""

    def handle_endtag(self, tag: str) -> None:
        """What follows stands elsewhere."""
        self._inside = ""


@functools.cache
def read(path: Path) -> Contents:
    """One page."""
    contents = Contents()
    contents.feed(path.read_text(encoding="utf-8"))
    return contents


def pages(folder: Path) -> list[Path]:
    """Every page of a site."""
    return sorted(folder.rglob("*.html"))


def broken(page: Path, folder: Path) -> list[str]:
    """The addresses on a page that lead nowhere or out of the site."""
    found = []
    for address in read(page).addresses:
        if urlsplit(address).scheme in {"https", "data"}:
            continue
        path, anchor = urldefrag(address)
        target = (page.parent / unquote(path)).resolve() if path else page
        inside = target.is_file() and target.is_relative_to(folder.resolve())
        if not inside or not has_anchor(target, anchor):
            found.append(f"{page.relative_to(folder)}: {address}")
    return found


def has_anchor(target: Path, anchor: str) -> bool:
    """Whether a page has the anchor. One with an equals sign is a filter."""
    return (
        not anchor
        or "=" in anchor
        or target.suffix != ".html"
        or unquote(anchor) in read(target).anchors
    )


def test_every_link_has_a_target(site: Site) -> None:
    """The file is in the site and has the anchor."""
    assert [] == [problem for page in pages(site.folder) for problem in broken(page, site.folder)]


def test_every_page_can_be_reached(site: Site) -> None:
    """Links from the first page lead to every page."""
    reached: set[Path] = set()
    waiting = [site.folder / "index.html"]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".html":
            reached.add(page)
            paths = (
                unquote(urldefrag(each)[0])
                for each in read(page).addresses
                if not urlsplit(each).scheme
            )
            waiting += [(page.parent / path).resolve() for path in paths if path]
    assert set() == {path.resolve() for path in pages(site.folder)} - reached


def test_every_anchor_is_unique(site: Site) -> None:
    """A link to a second one would lead to the first."""
    anchors = {page: Counter(read(page).anchors) for page in pages(site.folder)}
    assert [] == [
        (page.name, name)
        for page, all_ in anchors.items()
        for name, count in all_.items()
        if count > 1
    ]


def test_labels_name_what_is_there(site: Site) -> None:
    """A screen reader reads the element that they name."""
    contents = [(page.name, read(page)) for page in pages(site.folder)]
    assert [] == [
        (page, name) for page, each in contents for name in each.named if name not in each.anchors
    ]


def test_no_page_has_a_script_or_style_of_its_own(site: Site) -> None:
    """No inline script, no handler, no style, no frame: the policy forbids them all."""
    assert [] == [
        (page.name, read(page).active) for page in pages(site.folder) if read(page).active
    ]


def test_every_page_forbids_what_it_does_not_need(site: Site) -> None:
    """It allows nothing by default, and only scripts and styles of the site."""
    policies = {read(page).policy for page in pages(site.folder)}
    assert 1 == len(policies)
    rules = dict(rule.split(maxsplit=1) for rule in policies.pop().split("; "))
    expected = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "base-uri": "'none'",
    }
    assert expected == {name: rules.get(name) for name in expected}


def test_every_page_has_a_title_of_its_own(site: Site) -> None:
    """Tabs and bookmarks show it."""
    titles = Counter(read(page).title for page in pages(site.folder))
    assert [] == [title for title, count in titles.items() if count > 1 or not title.strip()]


def test_a_stack_that_was_not_run_has_no_dead_links(tmp_path: Path) -> None:
    """It has a lock but no records."""
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    (tmp_path / "scenarios" / "sums.py").write_text(SUMS.lstrip(), encoding="utf-8")
    for stack in ("first", "second"):
        write_lock(tmp_path, make_lock(stack))
    project = Project.at(tmp_path)
    project.store.append(make_record(cell=make_cell("first", "sums", "plain")))
    publish(project, site=True)
    assert [] == [
        problem for page in pages(project.results) for problem in broken(page, project.results)
    ]
