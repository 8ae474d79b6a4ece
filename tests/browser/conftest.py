"""The published pages, as files and behind a server, and a browser that notes what goes wrong."""

from __future__ import annotations

import contextlib
import functools
import shutil
import threading
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import msgspec
import pytest

from gradmatrix.publish.formats import Document
from gradmatrix.publish.publication import publish
from gradmatrix.run.project import Project
from gradmatrix.run.store import decode
from tests.conftest import PATIENCE_S, ROOT
from tools.chromium import NoBrowser, launched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page

    from gradmatrix.core.model import Cell, Record
    from gradmatrix.publish.rows import Row

PATIENCE_MS = PATIENCE_S * 1000
REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", e =>
  console.error("blocked", e.violatedDirective, e.blockedURI));
"""


COMBINED = "pairwise-"
"""What the names of the stacks of [generate.pairwise] begin with."""


@dataclass(frozen=True)
class Site:
    """Pages that were published."""

    folder: Path

    @functools.cached_property
    def matrix(self) -> Document:
        """The published data without the stacks of [generate.pairwise]."""
        found = msgspec.json.decode((self.folder / "matrix.json").read_bytes(), type=Document)
        return msgspec.structs.replace(
            found,
            stacks=[each for each in found.stacks if not each.name.startswith(COMBINED)],
            cells=[each for each in found.cells if not each.stack.startswith(COMBINED)],
        )

    @functools.cached_property
    def rows(self) -> list[Row]:
        """The cells on devices that a machine had: those that the matrix shows."""
        devices = {row.device for row in self.matrix.cells if row.outcome != "setup:no-device"}
        return [row for row in self.matrix.cells if row.device in devices]

    @functools.cached_property
    def records(self) -> dict[Cell, Record]:
        """The record of every cell."""
        lines = (
            line
            for path in (self.folder / "records").glob("*.jsonl")
            for line in path.read_bytes().splitlines()
        )
        return {record.cell: record for record in map(decode, lines)}

    @property
    def as_files(self) -> str:
        """The address of the folder."""
        return self.folder.as_uri()


@dataclass
class Tab:
    """A page of the browser that keeps what went wrong.

    Nothing may come from elsewhere, and nothing may be blocked.
    """

    page: Page
    root: str
    problems: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Listen to everything that may go wrong."""
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.add_init_script(REPORT_VIOLATIONS)
        self.page.on("console", self.listen)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("requestfailed", lambda asked: self.problems.append(f"failed: {asked.url}"))
        self.page.on("request", lambda asked: self.fetched.append(asked.url))
        self.page.on("dialog", self.refuse)

    def listen(self, said: ConsoleMessage) -> None:
        """Keep errors and warnings. The browser reports what it blocks as an error."""
        if said.type in {"error", "warning"}:
            self.problems.append(said.text)

    def refuse(self, dialog: Dialog) -> None:
        """Close a dialog, which only hostile text opens, and keep its message."""
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, path: str = "index.html") -> Page:
        """Show a page of the site."""
        self.page.goto(f"{self.root}/{path}")
        return self.page

    @property
    def wrong(self) -> list[str]:
        """Everything that went wrong so far."""
        foreign = [
            f"foreign: {url}" for url in self.fetched if not url.startswith((self.root, "data:"))
        ]
        return [*self.problems, *foreign]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A real browser. Without one these tests are skipped, and say how to get it."""
    with contextlib.ExitStack() as stack:
        try:
            chromium = stack.enter_context(launched())
        except NoBrowser as missing:
            pytest.skip(str(missing))
        yield chromium


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The committed records, published; in a folder with a space in its name."""
    folder = tmp_path_factory.mktemp("published") / "sub path" / "results"
    for name in ("records", "confirmed", "locks"):
        if (ROOT / "results" / name).is_dir():  # nothing is confirmed before a second publication
            shutil.copytree(ROOT / "results" / name, folder / name)
    publish(Project.at(ROOT, results=folder), site=True)
    return Site(folder)


@pytest.fixture(scope="package")
def served(site: Site) -> Iterator[str]:
    """The address of the same pages below a path of a server on this machine."""
    handler = functools.partial(Quiet, directory=str(site.folder.parent.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/sub%20path/results"
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that prints nothing."""

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """The browser of a reader who comes for the first time."""
    with contextlib.closing(
        browser.new_context(viewport={"width": 1280, "height": 800})
    ) as context:
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        yield context


@pytest.fixture(params=["file", "server"])
def anywhere(request: pytest.FixtureRequest, site: Site, context: BrowserContext) -> Iterator[Tab]:
    """A tab on the pages, once as files and once behind a server; nothing may go wrong in it."""
    root = site.as_files if request.param == "file" else request.getfixturevalue("served")
    tab = Tab(context.new_page(), root)
    yield tab
    assert [] == tab.wrong


@pytest.fixture
def tab(site: Site, context: BrowserContext) -> Iterator[Tab]:
    """A tab on the pages as files; nothing may go wrong in it."""
    tab = Tab(context.new_page(), site.as_files)
    yield tab
    assert [] == tab.wrong
