"""The addresses in the metadata of a build, by real builds of a tiny clone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parent.parent.parent
BUILT = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "harness/tools/urls.py",
    "harness/tools/bundle.py",
)
ON_GITHUB = {
    "Source": "https://github.com/owner/name",
    "Documentation": "https://github.com/owner/name/blob/HEAD/docs/index.md",
    "Changelog": "https://github.com/owner/name/blob/HEAD/CHANGELOG.md",
    "Issues": "https://github.com/owner/name/issues",
    "Matrix": "https://owner.github.io/name/",
}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of the project that has little more than its metadata; it has no origin."""
    root = tmp_path / "clone"
    for name in (*BUILT, "harness/gradmatrix/__init__.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    return root


def build(root: Path, target: str, repository: str | None = None) -> Path:
    """Build an sdist or a wheel, without the network; its path."""
    environment: Mapping[str, str] = {
        name: value for name, value in os.environ.items() if name != "GITHUB_REPOSITORY"
    } | ({"GITHUB_REPOSITORY": repository} if repository else {})
    command = [sys.executable, "-m", "hatchling", "build", "--target", target]
    subprocess.run(command, cwd=root, env=environment, check=True, capture_output=True)
    (built,) = (root / "dist").glob("*.whl" if target == "wheel" else "*.tar.gz")
    return built


def urls(wheel: Path) -> dict[str, str]:
    """The addresses in the metadata of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("/METADATA"))
        lines = archive.read(name).decode().splitlines()
    found = (line.removeprefix("Project-URL: ") for line in lines if "Project-URL: " in line)
    return {name: url for name, _, url in (each.partition(", ") for each in found)}


def test_ci_names_the_repository(clone: Path) -> None:
    """GitHub sets a variable in every job."""
    assert ON_GITHUB == urls(build(clone, "wheel", "owner/name"))


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("https://github.com/owner/name.git", "https://github.com/owner/name"),
        ("https://user:secret@github.com/owner/name", "https://github.com/owner/name"),
        ("git@github.com:owner/my.name.git", "https://github.com/owner/my.name"),
        ("ssh://git@gitlab.com/group/below/name.git", "https://gitlab.com/group/below/name"),
        ("git@codeberg.org:owner/name", "https://codeberg.org/owner/name"),
        ("https://github.com.example.org/owner/name", None),
        ("https://example.org/github.com/owner/name", None),
        ("ssh://git@github.com:22/owner/name", None),
        ("https://github.com/owner", None),
        ("/srv/github.com/owner/name", None),
    ],
)
def test_the_origin_of_a_clone_is_its_source(
    clone: Path, origin: str, expected: str | None
) -> None:
    """Without a password, and only on a public forge."""
    subprocess.run(["git", "-C", str(clone), "remote", "add", "origin", origin], check=True)
    assert expected == urls(build(clone, "wheel")).get("Source")


def test_a_project_that_installs_a_clone_in_its_ci_is_not_the_source(clone: Path) -> None:
    """The variable names the repository of the job; the origin is that of the code."""
    origin = "https://github.com/owner/name"
    subprocess.run(["git", "-C", str(clone), "remote", "add", "origin", origin], check=True)
    assert ON_GITHUB == urls(build(clone, "wheel", "somebody/else"))


def test_a_build_without_a_known_repository_has_no_addresses(clone: Path) -> None:
    """It does not fail: neither in a clone without an origin, nor without git's folder."""
    assert {} == urls(build(clone, "wheel"))
    shutil.rmtree(clone / ".git")
    assert {} == urls(build(clone, "wheel", "somebody/else"))


def test_a_wheel_from_an_sdist_keeps_the_addresses(clone: Path, tmp_path: Path) -> None:
    """The sdist has the hook in it, and the addresses in its metadata."""
    with tarfile.open(build(clone, "sdist", "owner/name")) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert (unpacked / "harness/tools/urls.py").is_file()
    assert ON_GITHUB == urls(build(unpacked, "wheel"))
