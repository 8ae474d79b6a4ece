"""Chromium, in which the published pages are tested and measured: found, installed, started."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gradmatrix.core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from playwright.sync_api import Browser

VARIABLE = "GRADMATRIX_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",  # root in a container has no user namespaces; the pages are our own
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
START_TIMEOUT_MS = 300_000
"""Generous: the machine may be busy."""
HOW = f"nox -s tests gets one; or install chromium, or set {VARIABLE} to one"


class NoBrowser(UserError):
    """There is no Chromium, or no Playwright to control it."""


def on_path(variables: Mapping[str, str] | None = None) -> str | None:
    """The Chromium that the user names, or the first on PATH.

    None if only Playwright's own is left.
    """
    given = os.environ if variables is None else variables
    path = given.get("PATH")
    return given.get(VARIABLE) or next(
        filter(None, (shutil.which(name, path=path) for name in NAMES)), None
    )


def ways_here() -> list[list[tuple[str, ...]]]:
    """The ways to install one on this machine, the best first, each as its commands."""
    return ways_to_get(
        root=hasattr(os, "geteuid") and os.geteuid() == 0, apt=shutil.which("apt-get") is not None
    )


def ways_to_get(*, root: bool, apt: bool) -> list[list[tuple[str, ...]]]:
    """The ways with and without root rights and apt-get."""
    download: list[tuple[str, ...]] = [("playwright", "install", "chromium")]
    if not (root and apt):  # tests must not ask for a password
        return [download]
    packages: list[tuple[str, ...]] = [
        ("apt-get", "update"),
        ("apt-get", "install", "-y", "--no-install-recommends", "chromium"),
    ]
    return [[*download, ("playwright", "install-deps", "chromium")], packages]


@contextmanager
def launched() -> Iterator[Browser]:
    """A headless browser.

    Raises:
        NoBrowser: if there is none.
    """
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415  (not always there)
    except ImportError as error:
        raise NoBrowser(
            "Playwright is not installed.",
            cause="it is needed only to test and measure the pages",
            next_step='pip install -e ".[tests]"',
        ) from error
    named = on_path()
    if named is not None and shutil.which(named) is None:
        raise UserError(
            f"{VARIABLE} is {named}.",
            cause="there is no such program",
            next_step=f"unset it: {HOW}",
        )
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        if named is None and not Path(own).exists():
            raise NoBrowser(
                "There is no Chromium.",
                cause=f"none of {', '.join(NAMES)} is on PATH",
                next_step=HOW,
            )
        browser = playwright.chromium.launch(
            executable_path=named or own, args=list(ARGUMENTS), timeout=START_TIMEOUT_MS
        )
        try:
            yield browser
        finally:
            browser.close()
