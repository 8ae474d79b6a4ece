"""A pyproject.toml and a uv.lock as the baseline of an upgrade."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gradmatrix.compare import requirements
from gradmatrix.core.errors import UserError

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


def written(folder: Path, name: str, text: str) -> Path:
    """The file."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_project_asks_for_its_dependencies(tmp_path: Path) -> None:
    """Without extras and groups; with what it says of Python."""
    found = requirements.pyproject(written(tmp_path, "pyproject.toml", PROJECT), (), ())
    assert (("torch>=2", 'peft; python_version > "3.8"'), ">=3.10") == (
        found.requirements,
        found.requires_python,
    )


def test_extras_and_groups_are_added(tmp_path: Path) -> None:
    """Also those that they include, by whatever spelling."""
    found = requirements.pyproject(
        written(tmp_path, "pyproject.toml", PROJECT), ("all",), ("test",)
    )
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
        requirements.pyproject(written(tmp_path, "pyproject.toml", PROJECT), extras, groups)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[project\n", r"pyproject\.toml:1: this is no TOML"),
        ("[tool.poetry]\n", "does not say what the project needs"),
        ('[project]\ndynamic = ["dependencies"]\n', "dynamic dependencies"),
        (
            '[project]\nname = "x"\ndependencies = [\n  "torch",\n  "trl=1",\n]\n',
            r"pyproject\.toml:5: 'trl=1'",
        ),
        ("[project]\ndependencies = [1]\n", r"pyproject\.toml:2: 1 in"),
        ('tool = 1\n[project]\nname = "x"\n', "is not written as such a file is"),
        ('[project]\nname = "x"\noptional-dependencies = []\n', "is not written as such a file is"),
        ("[project]\ndynamic = 1\n", "is not written as such a file is"),
        (
            '[project]\nname = "x"\n[dependency-groups]\ndev = "ruff"\n',
            "is not written as such a file is",
        ),
        (
            '[project]\ndependencies = ["x=git+https://u:pw@host/x"]\n',
            r"'x=git\+https://host/x' in",
        ),
        ('[project]\nname = "x"\n', "has no dependencies"),
    ],
)
def test_a_project_that_cannot_be_read_is_told(tmp_path: Path, text: str, complaint: str) -> None:
    """With the line, where it has one."""
    with pytest.raises(UserError, match=complaint):
        requirements.pyproject(written(tmp_path, "pyproject.toml", text), (), ())


def test_extras_that_name_each_other_are_read_once(tmp_path: Path) -> None:
    """Each adds what it asks for."""
    extras = '[project.optional-dependencies]\na = ["p[b]", "trl"]\nb = ["P[a]", "ruff"]\n'
    text = f'[project]\nname = "p"\ndependencies = ["torch", "p[a]"]\n{extras}'
    found = requirements.pyproject(written(tmp_path, "pyproject.toml", text), (), ())
    assert ("torch", "ruff", "trl") == found.requirements


def test_a_uv_lock_tells_versions_and_its_project_what_was_asked_for(tmp_path: Path) -> None:
    """By uv's own reading of it, without a network."""
    project = '[project]\nname = "demo"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["alpha>1"]\n'
    written(tmp_path, "pyproject.toml", project)
    found = requirements.uv_lock(written(tmp_path, "uv.lock", UV_LOCK), (), (), tmp_path)
    assert (("alpha==2.0", "beta==1.1"), ("alpha",), True) == (
        found.requirements,
        found.asked,
        found.locked,
    )
    assert ">=3.11" == found.requires_python


def test_a_uv_lock_without_its_project_is_told(tmp_path: Path) -> None:
    """There is nothing that says what was asked for."""
    with pytest.raises(UserError, match=r"no pyproject\.toml beside it"):
        requirements.uv_lock(written(tmp_path, "uv.lock", UV_LOCK), (), (), tmp_path)


def test_a_uv_lock_of_a_project_with_its_own_packages_keeps_what_those_need(tmp_path: Path) -> None:
    """A path dependency is none of the index; which of the rest it asks for, the export does not tell."""
    project = '[project]\nname = "demo"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["lib"]\n'
    written(
        tmp_path,
        "pyproject.toml",
        project + '[tool.uv.sources]\nlib = { path = "lib", editable = true }\n',
    )
    (tmp_path / "lib").mkdir()
    own = '[project]\nname = "lib"\nversion = "1"\ndependencies = ["alpha"]\n'
    written(tmp_path / "lib", "pyproject.toml", own)
    entry = '[[package]]\nname = "lib"\nversion = "1"\nsource = { editable = "lib" }\n'
    entry += 'dependencies = [{ name = "alpha" }]\n[package.metadata]\nrequires-dist = [{ name = "alpha" }]\n'
    lock = UV_LOCK.replace(
        'dependencies = [{ name = "alpha" }]', 'dependencies = [{ name = "lib" }]'
    )
    lock = lock.replace(
        '[{ name = "alpha", specifier = ">1" }]', '[{ name = "lib", editable = "lib" }]'
    )
    found = requirements.uv_lock(written(tmp_path, "uv.lock", lock + entry), (), (), tmp_path)
    assert (("alpha==2.0", "beta==1.1"), ("alpha", "beta")) == (found.requirements, found.asked)
    assert "left out: lib" in found.notices[0]


def test_a_mark_of_the_byte_order_is_no_text(tmp_path: Path) -> None:
    """Some editors begin a file with it."""
    found = requirements.pyproject(
        written(tmp_path, "pyproject.toml", f"\ufeff{PROJECT.lstrip()}"), (), ()
    )
    assert ">=3.10" == found.requires_python
