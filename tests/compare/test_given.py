"""One side of an upgrade as it was given."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gradmatrix.compare import sides
from tests.factories import make_lock

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS = {
    "torch": "2.6.0",
    "trl": "0.15",
    "peft": "0.14",
    "numpy": "2.0",
    "pip": "26",
    "mine": "1",
}
DISTRIBUTIONS: list[tuple[str, list[str], str | None]] = [
    ("torch", [], None),
    ("TRL", ["peft>=0.14", "torch", "trl[extra] ; extra == 'all'"], None),
    ("peft", ["numpy ; python_version >= '3'", "torch", "mine ; python_version < '3'"], None),
    ("numpy", ["pip ; extra == 'dev'", "nonsense ==="], None),
    ("mine", ["trl"], '{"url": "file:///mine"}'),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch==2.13.0+cpu", "torch==2.13.0"),
        ("torch==2.13.0+cu130 ; sys_platform == 'linux'", 'torch==2.13.0; sys_platform == "linux"'),
        ("torch>=2", "torch>=2"),
        ("a @ file:///a+b.whl", "a @ file:///a+b.whl"),
    ],
)
def test_a_build_of_a_release_is_that_release(text: str, expected: str) -> None:
    """Which build is installed is the machine's business."""
    assert expected == sides.without_label(text)


def test_asked_for_is_what_nothing_else_needs() -> None:
    """And torch; tools that make environments are nobody's request."""
    versions = {name: version for name, version in VERSIONS.items() if name != "mine"}
    assert (("torch", "trl"), ()) == sides.asked_in(
        DISTRIBUTIONS[:-1], make_lock(versions=versions)
    )


def test_what_a_project_in_development_needs_was_asked_for() -> None:
    """The project itself is none of the index's, and that is told."""
    roots, notices = sides.asked_in(DISTRIBUTIONS, make_lock(versions=VERSIONS))
    assert ("torch", "trl") == roots
    assert ("not from the package index and left out of the candidate: mine",) == notices


@pytest.mark.parametrize(
    ("version", "public"), [("2.0", True), ("2.0+cpu", True), ("not a version", False)]
)
def test_what_can_be_pinned(version: str, *, public: bool) -> None:
    """Some old distributions have a version of their own kind."""
    assert public is sides.is_public(version)


def test_what_conda_built_is_a_release(tmp_path: Path) -> None:
    """It notes the folder in which it built a package as where that came from."""
    for name, installer in (("built", "conda"), ("checkout", "pip")):
        folder = tmp_path / f"{name}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: 1\n", encoding="utf-8")
        (folder / "INSTALLER").write_text(f"{installer}\n", encoding="utf-8")
        (folder / "direct_url.json").write_text('{"url": "file:///croot"}', encoding="utf-8")
    code = sides.LISTING.replace("distributions()", f"distributions(path=[{str(tmp_path)!r}])")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    origins = {name: origin for name, _, origin in json.loads(ran.stdout)}
    assert {"built": None, "checkout": '{"url": "file:///croot"}'} == origins
