"""A pyproject.toml, a uv.lock and a pylock.toml as the baseline of an upgrade."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from harness import manifests
from harness.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = """
[project]
name = "Trainer"
version = "1"
requires-python = ">=3.10"
dependencies = ["torch>=2", "peft ; python_version > '3.8'"]

[project.optional-dependencies]
rl = ["trl<1"]
all = ["trainer[rl]", "lightning"]

[dependency-groups]
test = ["pytest", {include-group = "Lint_er"}]
lint-er = ["ruff"]
circle = [{include-group = "circle"}]
"""
UV_LOCK = """
version = 1
requires-python = ">=3.11"

[[package]]
name = "alpha"
version = "2.0"
source = { registry = "https://index.invalid/simple" }
dependencies = [{ name = "beta" }]
wheels = [{ url = "https://index.invalid/alpha-2.0-py3-none-any.whl", hash = "sha256:HASH", size = 1 }]

[[package]]
name = "beta"
version = "1.1"
source = { registry = "https://index.invalid/simple" }
wheels = [{ url = "https://index.invalid/beta-1.1-py3-none-any.whl", hash = "sha256:HASH", size = 1 }]

[[package]]
name = "demo"
version = "1"
source = { virtual = "." }
dependencies = [{ name = "alpha" }]

[package.metadata]
requires-dist = [{ name = "alpha", specifier = ">1" }]
""".replace("HASH", "0" * 64)
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


def written(folder: Path, name: str, text: str) -> Path:
    """The file."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_project_asks_for_its_dependencies(tmp_path: Path) -> None:
    """Without extras and groups; with what it says of Python."""
    found = manifests.pyproject(written(tmp_path, "pyproject.toml", PROJECT), (), ())
    assert (("torch>=2", 'peft; python_version > "3.8"'), ">=3.10") == (found.requirements, found.requires_python)


def test_extras_and_groups_are_added(tmp_path: Path) -> None:
    """Also those that they include, by whatever spelling."""
    found = manifests.pyproject(written(tmp_path, "pyproject.toml", PROJECT), ("all",), ("test",))
    assert ("trl<1", "lightning", "pytest", "ruff") == found.requirements[2:]


@pytest.mark.parametrize(
    ("extras", "groups", "complaint"),
    [
        (("r1",), (), "has no extra 'r1'"),
        ((), ("tests",), "has no dependency group 'tests'"),
        ((), ("circle",), "includes itself"),
    ],
)
def test_a_part_that_is_not_there_is_told(
    tmp_path: Path, extras: tuple[str, ...], groups: tuple[str, ...], complaint: str
) -> None:
    """With the nearest that is."""
    with pytest.raises(UserError, match=complaint):
        manifests.pyproject(written(tmp_path, "pyproject.toml", PROJECT), extras, groups)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[project\n", r"pyproject\.toml:1: this is no TOML"),
        ("[tool.poetry]\n", "does not say what the project needs"),
        ('[project]\ndynamic = ["dependencies"]\n', "dynamic dependencies"),
        ('[project]\nname = "x"\ndependencies = [\n  "torch",\n  "trl=1",\n]\n', r"pyproject\.toml:5: 'trl=1'"),
        ("[project]\ndependencies = [1]\n", r"pyproject\.toml:2: 1 in"),
        ('tool = 1\n[project]\nname = "x"\n', "is not written as such a file is"),
        ('[project]\nname = "x"\noptional-dependencies = []\n', "is not written as such a file is"),
        ("[project]\ndynamic = 1\n", "is not written as such a file is"),
        ('[project]\nname = "x"\n[dependency-groups]\ndev = "ruff"\n', "is not written as such a file is"),
        ('[project]\ndependencies = ["x=git+https://u:pw@host/x"]\n', r"'x=git\+https://host/x' in"),
        ('[project]\nname = "x"\n', "has no dependencies"),
    ],
)
def test_a_project_that_cannot_be_read_is_told(tmp_path: Path, text: str, complaint: str) -> None:
    """With the line, where it has one."""
    with pytest.raises(UserError, match=complaint):
        manifests.pyproject(written(tmp_path, "pyproject.toml", text), (), ())


def test_extras_that_name_each_other_are_read_once(tmp_path: Path) -> None:
    """Each adds what it asks for."""
    extras = '[project.optional-dependencies]\na = ["p[b]", "trl"]\nb = ["P[a]", "ruff"]\n'
    text = f'[project]\nname = "p"\ndependencies = ["torch", "p[a]"]\n{extras}'
    found = manifests.pyproject(written(tmp_path, "pyproject.toml", text), (), ())
    assert ("torch", "ruff", "trl") == found.requirements


@pytest.mark.parametrize(
    "text", ['packages = ["a"]\n', '[[packages]]\nname = "a"\nversion = "1"\ndependencies = "x"\n']
)
def test_a_pylock_of_another_form_is_told(tmp_path: Path, text: str) -> None:
    """With the place."""
    with pytest.raises(UserError, match="is not written as such a file is") as error:
        manifests.pylock(written(tmp_path, "pylock.toml", text))
    assert "$.packages[" in error.value.cause


def test_a_uv_lock_tells_versions_and_its_project_what_was_asked_for(tmp_path: Path) -> None:
    """By uv's own reading of it, without a network."""
    project = '[project]\nname = "demo"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["alpha>1"]\n'
    written(tmp_path, "pyproject.toml", project)
    found = manifests.uv_lock(written(tmp_path, "uv.lock", UV_LOCK), (), (), tmp_path)
    assert (("alpha==2.0", "beta==1.1"), ("alpha",), True) == (found.requirements, found.asked, found.locked)
    assert ">=3.11" == found.requires_python


def test_a_uv_lock_without_its_project_is_told(tmp_path: Path) -> None:
    """There is nothing that says what was asked for."""
    with pytest.raises(UserError, match=r"no pyproject\.toml beside it"):
        manifests.uv_lock(written(tmp_path, "uv.lock", UV_LOCK), (), (), tmp_path)


def test_a_pylock_tells_versions_and_what_depends_on_what(tmp_path: Path) -> None:
    """What nothing depends on was asked for; what has no version is left out, and told."""
    found = manifests.pylock(written(tmp_path, "pylock.toml", PYLOCK))
    assert (("alpha==2.0", 'beta==1.1; sys_platform == "linux"'), ("alpha",)) == (found.requirements, found.asked)
    assert ("pylock.toml: local has no version there and is left out",) == found.notices


def test_a_pylock_of_nothing_is_told(tmp_path: Path) -> None:
    """Another TOML under that name."""
    with pytest.raises(UserError, match="locks no package"):
        manifests.pylock(written(tmp_path, "pylock.toml", "[tool]\n"))


def test_a_uv_lock_of_a_project_with_its_own_packages_keeps_what_those_need(tmp_path: Path) -> None:
    """A path dependency is none of the index; which of the rest it asks for, the export does not tell."""
    project = '[project]\nname = "demo"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["lib"]\n'
    written(tmp_path, "pyproject.toml", project + '[tool.uv.sources]\nlib = { path = "lib", editable = true }\n')
    (tmp_path / "lib").mkdir()
    own = '[project]\nname = "lib"\nversion = "1"\ndependencies = ["alpha"]\n'
    written(tmp_path / "lib", "pyproject.toml", own)
    entry = '[[package]]\nname = "lib"\nversion = "1"\nsource = { editable = "lib" }\n'
    entry += 'dependencies = [{ name = "alpha" }]\n[package.metadata]\nrequires-dist = [{ name = "alpha" }]\n'
    lock = UV_LOCK.replace('dependencies = [{ name = "alpha" }]', 'dependencies = [{ name = "lib" }]')
    lock = lock.replace('[{ name = "alpha", specifier = ">1" }]', '[{ name = "lib", editable = "lib" }]')
    found = manifests.uv_lock(written(tmp_path, "uv.lock", lock + entry), (), (), tmp_path)
    assert (("alpha==2.0", "beta==1.1"), ("alpha", "beta")) == (found.requirements, found.asked)
    assert "left out: lib" in found.notices[0]


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
def test_a_pylock_is_read_as_installed_without_options(tmp_path: Path, marker: str, expected: tuple[str, ...]) -> None:
    """Its default groups, and no extras."""
    entry = f'[[packages]]\nname = "gamma"\nversion = "1"\nmarker = "{marker}"\n'
    path = written(tmp_path, "pylock.toml", f'default-groups = ["default"]\n{PYLOCK}\n{entry}')
    assert expected == manifests.pylock(path).requirements[2:]


def test_a_pylock_says_where_a_package_is_from(tmp_path: Path) -> None:
    """A commit is no release of the same version, and somebody's own folder is none at all."""
    fork = 'vcs = { type = "git", url = "https://host.invalid/trl", commit-id = "abc", subdirectory = "python" }'
    entries = f'[[packages]]\nname = "trl"\nversion = "1.0"\n{fork}\n'
    entries += '[[packages]]\nname = "mine"\nversion = "1"\ndirectory = { path = "." }\n'
    found = manifests.pylock(written(tmp_path, "pylock.toml", f"{PYLOCK}\n{entries}"))
    assert ("trl @ git+https://host.invalid/trl@abc#subdirectory=python",) == found.requirements[2:]
    assert "pylock.toml: mine is no release of the package index and is left out" in found.notices


def test_a_mark_of_the_byte_order_is_no_text(tmp_path: Path) -> None:
    """Some editors begin a file with it."""
    found = manifests.pyproject(written(tmp_path, "pyproject.toml", f"\ufeff{PROJECT.lstrip()}"), (), ())
    assert ">=3.10" == found.requires_python
