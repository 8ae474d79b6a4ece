"""A candidate from a wheel file or a VCS address: locked, and installed."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from gradmatrix.compare import resolution, sides
from gradmatrix.stacks import environment
from gradmatrix.stacks.index import Index
from tests.compare.test_resolution import (
    DAY,
    PYTHON,
    candidate,
    given,
    index_of_four,
    locked,
    versions,
)
from tests.fakes.package_index import PackageIndex, wheel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gradmatrix.compare.resolution import Resolved


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """The index on loopback."""
    with index_of_four(tmp_path, monkeypatch) as index:
        yield index


def test_a_wheel_is_locked_by_its_hash_and_installed(served: PackageIndex, tmp_path: Path) -> None:
    """Beside packages of the index."""
    path = tmp_path / "alpha-9.0+mine-py3-none-any.whl"
    path.write_bytes(wheel("alpha", "9.0+mine", requires=("beta<2",)))
    side = candidate(served, locked(served, tmp_path, "alpha"), tmp_path, str(path))
    assert {"alpha": "9.0+mine", "beta": "1.1"} == versions(side)
    assert ("alpha @ alpha-9.0%2Bmine-py3-none-any.whl",) == side.lock.requirements
    assert "9.0+mine" == imported(side, tmp_path, "alpha")


def test_a_wheel_that_changed_since_is_not_installed(served: PackageIndex, tmp_path: Path) -> None:
    """Its hash is in the lock."""
    path = tmp_path / "alpha-9.0-py3-none-any.whl"
    path.write_bytes(wheel("alpha", "9.0"))
    side = candidate(served, given("alpha"), tmp_path, str(path))
    path.write_bytes(wheel("alpha", "9.0", requires=("delta",)))
    with pytest.raises(environment.InstallFailed, match="install:hash-mismatch"):
        imported(side, tmp_path, "alpha")


def test_a_source_is_locked_by_its_commit_and_installed(
    served: PackageIndex, tmp_path: Path
) -> None:
    """It has no hash. Its version comes from its build."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "alpha.py").write_text('VERSION = "7.0.dev1"\n', encoding="utf-8")
    (project / "backend.py").write_text(BACKEND, encoding="utf-8")
    text = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (project / "pyproject.toml").write_text(text, encoding="utf-8")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*git, *command], cwd=project, check=True)
    asked = sides.of_source(f"git+{project.as_uri()}", PYTHON)
    side = resolution.candidate(
        given("alpha", "delta"),
        [asked],
        Index(served.url, attempts=1),
        tmp_path,
        latest=False,
        as_of=DAY,
    )
    assert {"alpha": "7.0.dev1", "delta": "1.1"} == versions(side)
    assert "7.0.dev1" == imported(side, tmp_path, "alpha")


BACKEND = """
import sys, zipfile
INFO = "alpha-7.0.dev1.dist-info"
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "alpha-7.0.dev1-py3-none-any.whl"
    with zipfile.ZipFile(folder + "/" + name, "w") as archive:
        archive.write("alpha.py")
        metadata = "Metadata-Version: 2.1\\nName: alpha\\nVersion: 7.0.dev1\\n"
        archive.writestr(INFO + "/METADATA", metadata)
        lines = (
            "Wheel-Version: 1.0", "Generator: x", "Root-Is-Purelib: true", "Tag: py3-none-any", ""
        )
        archive.writestr(INFO + "/WHEEL", "\\n".join(lines))
        archive.writestr(INFO + "/RECORD", "")
    return name
"""


def imported(side: Resolved, folder: Path, module: str) -> str:
    """The version of a module after the side's environment is installed."""
    installed = environment.ensure(side.lock, side.locks, folder / "environments", driver=False)
    ran = subprocess.run(
        [installed.python, "-c", f"import {module}; print({module}.VERSION)"],
        capture_output=True,
        check=True,
        text=True,
    )
    return ran.stdout.strip()
