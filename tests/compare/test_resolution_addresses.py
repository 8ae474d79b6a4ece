"""A candidate from a wheel file or a VCS address: locked, and installed."""

from __future__ import annotations

import subprocess
import zipfile
from typing import TYPE_CHECKING

import pytest

from gradmatrix.compare import resolution, sides
from gradmatrix.judge.versions import have_other_contents, packages_moved
from gradmatrix.stacks import environment
from gradmatrix.stacks import lock as locks
from gradmatrix.stacks.environment import Distribution
from gradmatrix.stacks.index import Index
from gradmatrix.stacks.listing import contents_digest
from tests.compare.test_resolution import (
    DAY,
    PYTHON,
    candidate,
    given,
    index_of_four,
    locked,
    resolved,
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


def test_a_wheel_of_the_same_version_with_other_contents_has_moved(
    served: PackageIndex, tmp_path: Path
) -> None:
    """A wheel with the file of the index has not."""
    before = resolved(served, locked(served, tmp_path, "alpha"), tmp_path)
    path = tmp_path / "alpha-1.0-py3-none-any.whl"
    moved = []
    for code in ("", "FROZEN = True\n"):
        path.write_bytes(wheel("alpha", "1.0", requires=("beta>=1",), code=code))
        after = candidate(served, before.side, tmp_path, str(path))
        assert versions(before) == versions(after)
        contents = (before.contents, after.contents)
        moved.append([str(each) for each in packages_moved(before.lock, after.lock, contents)])
    assert [[], ["alpha 1.0 → 1.0 (other contents)"]] == moved


def test_an_environment_tells_other_contents_of_one_version(
    served: PackageIndex, tmp_path: Path
) -> None:
    """Its RECORD has the hashes of the files; a wheel beside it has them too."""
    listed = []
    for number, code in enumerate(("", "FROZEN = True\n")):
        path = tmp_path / str(number) / "alpha-1.0-py3-none-any.whl"
        path.parent.mkdir()
        path.write_bytes(wheel("alpha", "1.0", code=code))
        site = path.parent / "site"
        with zipfile.ZipFile(path) as archive:
            archive.extractall(site)
        (site / "alpha-1.0.dist-info" / "INSTALLER").write_text("uv\n", encoding="utf-8")
        record = (site / "alpha-1.0.dist-info" / "RECORD").read_text(encoding="utf-8")
        record += "alpha-1.0.dist-info/INSTALLER,sha256=abc,3\n../../../bin/alpha,sha256=def,9\n"
        here = Distribution("alpha", "1.0", (), None, contents_digest(record)).contents
        text = f"alpha @ {path.as_uri()} \\\n    --hash=sha256:{number}\n"
        wheels = locks.contents(text)["alpha"]
        assert not have_other_contents(here, wheels)
        listed.append(here)
    assert have_other_contents(*listed)


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
