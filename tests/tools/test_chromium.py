"""Where Chromium is found, and how it is installed if it is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gradmatrix.core.errors import UserError
from tools.chromium import VARIABLE, launched, on_path, ways_to_get

if TYPE_CHECKING:
    from pathlib import Path


def program(folder: Path, name: str) -> str:
    """A program with this name."""
    path = folder / name
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_the_first_name_on_the_path_is_taken(tmp_path: Path) -> None:
    """Distributions name it differently."""
    program(tmp_path, "google-chrome")
    expected = program(tmp_path, "chromium-browser")
    assert expected == on_path({"PATH": str(tmp_path)})


def test_the_one_that_is_named_comes_first(tmp_path: Path) -> None:
    """It may have an unusual name."""
    program(tmp_path, "chromium")
    expected = program(tmp_path, "my-browser")
    assert expected == on_path({"PATH": str(tmp_path), VARIABLE: expected})


def test_a_name_that_is_none_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another browser is not the requested one, and a skipped test would hide the error."""
    monkeypatch.setenv(VARIABLE, "/no/browser")
    with pytest.raises(UserError, match="there is no such program"), launched():
        pass


def test_an_empty_path_has_none(tmp_path: Path) -> None:
    """Playwright may still have its own."""
    assert on_path({"PATH": str(tmp_path)}) is None


def test_packages_are_installed_by_root_only() -> None:
    """This happens only after the download has failed."""
    asked = {
        (root, apt): ways_to_get(root=root, apt=apt)
        for root in (True, False)
        for apt in (True, False)
    }
    download = ("playwright", "install", "chromium")
    assert {download} == {ways[0][0] for ways in asked.values()}
    assert {(True, True)} == {case for case, ways in asked.items() if "apt-get" in str(ways)}
    assert ("apt-get", "update") == asked[True, True][1][0]
