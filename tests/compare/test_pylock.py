"""A pylock.toml as the baseline of an upgrade."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gradmatrix.compare import requirements
from gradmatrix.core.errors import UserError
from tests.compare.test_manifests import written

if TYPE_CHECKING:
    from pathlib import Path

PYLOCK = """
lock-version = "1.0"
created-by = "somebody"
requires-python = ">=3.11"

[[packages]]
name = "alpha"
version = "2.0"
dependencies = [{ name = "beta" }]

[[packages]]
name = "beta"
version = "1.1"
marker = "sys_platform == 'linux'"

[[packages]]
name = "local"
"""


@pytest.mark.parametrize(
    "text", ['packages = ["a"]\n', '[[packages]]\nname = "a"\nversion = "1"\ndependencies = "x"\n']
)
def test_a_pylock_of_another_form_is_told(tmp_path: Path, text: str) -> None:
    """With the place."""
    with pytest.raises(UserError, match="is not written as such a file is") as error:
        requirements.pylock(written(tmp_path, "pylock.toml", text))
    assert "$.packages[" in error.value.cause


def test_a_pylock_tells_versions_and_what_depends_on_what(tmp_path: Path) -> None:
    """What nothing depends on was asked for; what has no version is left out, and told."""
    found = requirements.pylock(written(tmp_path, "pylock.toml", PYLOCK))
    assert (("alpha==2.0", 'beta==1.1; sys_platform == "linux"'), ("alpha",)) == (
        found.requirements,
        found.asked,
    )
    assert ("pylock.toml: local has no version there and is left out",) == found.notices


def test_a_pylock_of_nothing_is_told(tmp_path: Path) -> None:
    """Another TOML under that name."""
    with pytest.raises(UserError, match="locks no package"):
        requirements.pylock(written(tmp_path, "pylock.toml", "[tool]\n"))


@pytest.mark.parametrize(
    ("marker", "expected"),
    [
        ("'dev' in dependency_groups", ()),
        ("'default' in dependency_groups", ("gamma==1",)),
        ("'x' in extras", ()),
        ("'x' not in extras and python_version > '3'", ("gamma==1",)),
        ("sys_platform == 'linux'", ('gamma==1; sys_platform == "linux"',)),
    ],
)
def test_a_pylock_is_read_as_installed_without_options(
    tmp_path: Path, marker: str, expected: tuple[str, ...]
) -> None:
    """Its default groups, and no extras."""
    entry = f'[[packages]]\nname = "gamma"\nversion = "1"\nmarker = "{marker}"\n'
    path = written(tmp_path, "pylock.toml", f'default-groups = ["default"]\n{PYLOCK}\n{entry}')
    assert expected == requirements.pylock(path).requirements[2:]


def test_a_pylock_says_where_a_package_is_from(tmp_path: Path) -> None:
    """A commit is no release of the same version, and somebody's own folder is none at all."""
    fork = 'vcs = { type = "git", url = "https://host.invalid/trl", commit-id = "abc", subdirectory = "python" }'
    entries = f'[[packages]]\nname = "trl"\nversion = "1.0"\n{fork}\n'
    entries += '[[packages]]\nname = "mine"\nversion = "1"\ndirectory = { path = "." }\n'
    found = requirements.pylock(written(tmp_path, "pylock.toml", f"{PYLOCK}\n{entries}"))
    assert ("trl @ git+https://host.invalid/trl@abc#subdirectory=python",) == found.requirements[2:]
    assert "pylock.toml: mine is no release of the package index and is left out" in found.notices
