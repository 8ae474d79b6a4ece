"""What a user names as a side, or after --to."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gradmatrix.compare import sides
from gradmatrix.compare.sides import Reading, Side
from gradmatrix.core.errors import UserError
from gradmatrix.run.project import Project
from gradmatrix.stacks.environment import Distribution
from tests.cli.test_cli import MATRIX, write_lock
from tests.factories import DAY, make_lock
from tests.fakes.package_index import wheel

if TYPE_CHECKING:
    from pathlib import Path

LISTED = [
    ("Torch", "2.13.0+cpu", ["numpy ; extra == 'fast'"], None),
    ("peft", "0.14.0", ["torch>=2", "numpy", "nonsense ==="], None),
    ("numpy", "2.0", [], None),
    ("pip", "26", [], None),
    ("mine", "1", ["peft"], '{"url": "file:///here", "dir_info": {"editable": true}}'),
    ("odd", "not a version", [], None),
]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with two stacks, the first one locked. It is the working directory."""
    (tmp_path / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "sums.py").write_text(
        '"""Sums."""\nNEEDS = ()\nVARIANTS = {"plain": {"role": "control", "summary": "x"}}\n',
        encoding="utf-8",
    )
    write_lock(tmp_path, make_lock("first"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def side(root: Path, word: str, reading: Reading | None = None) -> Side:
    """The side that the word names."""
    return sides.parse_side(word, Project.at(root), reading or Reading())


def make_environment(folder: Path, origin: str | None = None) -> Path:
    """A folder whose Python says what is installed, and can do nothing else.

    ``origin`` takes the place of where packages came from that are not from the index.
    """
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    listed = [
        {"name": name, "version": version, "needs": needs, "origin": there and (origin or there)}
        for name, version, needs, there in LISTED
    ]
    content = json.dumps({"python": "3.11", "distributions": listed})
    (folder / "listed.json").write_text(content, encoding="utf-8")
    cases = f"*find_spec*) echo '[[3, 11], \"torch\"]';; *) cat '{folder / 'listed.json'}';;"
    python.write_text(f'#!/bin/sh\ncase "$*" in {cases} esac\n', encoding="utf-8")
    python.chmod(0o755)
    return python


def test_a_stack_has_its_lock(root: Path) -> None:
    """And the day of the lock."""
    found = side(root, "first")
    assert found.lock is not None
    assert ("first", DAY, ("torch",), root / "results" / "locks") == (
        found.name,
        found.as_of,
        found.asked,
        found.locks,
    )


def test_a_stack_without_a_current_lock_must_be_resolved(root: Path) -> None:
    """As of its own day, and not into results/."""
    found = side(root, "second")
    assert (None, "2026-01-15") == (found.lock, str(found.as_of))


def test_a_stack_has_priority_over_a_file_of_its_name(root: Path) -> None:
    """The file can be written as a path."""
    (root / "first").write_text("peft\n", encoding="utf-8")
    assert side(root, "first").lock is not None
    assert ("peft",) == side(root, "./first").requirements


@pytest.mark.parametrize("suffix", [".json", ".txt"])
def test_a_lock_is_named_by_either_of_its_files(root: Path, suffix: str) -> None:
    """It is not resolved again."""
    found = side(root, f"results/locks/first{suffix}")
    assert ("first", "2.6.0") == (found.name, found.lock and found.lock.version("torch"))


def test_a_lock_without_its_text_is_an_error(root: Path) -> None:
    """It could not be installed."""
    (root / "results" / "locks" / "first.txt").unlink()
    with pytest.raises(UserError, match=r"The lock first is incomplete: first\.txt is missing"):
        side(root, "results/locks/first.json")


def test_a_lock_whose_text_was_edited_is_no_requirements_file(root: Path) -> None:
    """It would be compared under the name of the lock."""
    (root / "results" / "locks" / "first.txt").write_text("torch==1.0\n", encoding="utf-8")
    with pytest.raises(
        UserError, match=r"first\.txt is not the text that was locked: torch is 1\.0"
    ):
        side(root, "results/locks/first.txt")


def test_a_requirements_file_keeps_its_pins(root: Path) -> None:
    """But not the label of a build, which the index does not have."""
    (root / "requirements.txt").write_text("torch==2.13.0+cpu\npeft\n", encoding="utf-8")
    found = side(root, "requirements.txt")
    assert (("torch==2.13.0", "peft"), "", "3.11", "today") == (
        found.asked,
        found.preferred,
        found.python,
        found.as_of,
    )
    assert "the local label of torch==2.13.0+cpu is ignored" in found.notices[0]


def test_the_versions_of_a_compiled_file_may_move(root: Path) -> None:
    """They are the result of a resolution. A candidate keeps them if it can."""
    text = (
        "# This file was autogenerated by pip-compile\n"
        "a==1\n    # via -r requirements.in\nb==2\n    # via a\n"
    )
    (root / "requirements.txt").write_text(text, encoding="utf-8")
    found = side(root, "requirements.txt")
    assert (("a==1", "b==2"), ("a",), "a==1\nb==2\n") == (
        found.requirements,
        found.asked,
        found.preferred,
    )


@pytest.mark.parametrize(
    ("requires", "asked", "python"),
    [
        ("==3.11.9", None, "3.11"),
        (">=3.9", None, "3.11"),
        ("", "3.12", "3.12"),
        (">=3.12", None, "3.12"),
        (">=3.12", "3.13", "3.13"),
    ],
)
def test_the_python_is_one_that_the_project_allows(
    root: Path, requires: str, asked: str | None, python: str
) -> None:
    """The newest of the matrix, or the one that was asked for."""
    text = f'[project]\nname = "x"\nrequires-python = "{requires}"\ndependencies = ["torch"]\n'
    (root / "pyproject.toml").write_text(text, encoding="utf-8")
    assert python == side(root, ".", Reading(python=asked)).python


def test_files_of_one_name_are_told_apart_by_their_paths(root: Path) -> None:
    """A stack and a file need no path."""
    for folder in ("base", "head"):
        (root / folder).mkdir()
        (root / folder / "requirements.txt").write_text("torch==2.6.0\n", encoding="utf-8")
    base, head, first = (side(root, word) for word in ("base", "head", "first"))
    assert ["base/requirements.txt", "head/requirements.txt"] == [
        each.name for each in sides.told_apart(base, head)
    ]
    assert (base, first) == sides.told_apart(base, first)
    assert (first, first) == sides.told_apart(first, first)


def test_a_python_that_the_project_does_not_allow_is_an_error(root: Path) -> None:
    """The error says what it allows."""
    text = '[project]\nname = "x"\nrequires-python = ">=3.12"\ndependencies = ["torch"]\n'
    (root / "pyproject.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"does not allow Python 3\.11"):
        side(root, "pyproject.toml", Reading(python="3.11"))


@pytest.mark.skipif(os.name == "nt", reason="the pretended Python is a shell script")
@pytest.mark.parametrize("word", [".venv", ".venv/bin/python"])
def test_an_environment_is_a_side_with_its_installed_packages(root: Path, word: str) -> None:
    """Packages that no other one needs count as asked for.

    A project in development is left out with a notice.
    """
    python = make_environment(root / ".venv")
    found = side(root, word)
    assert (python, "2.13.0+cpu") == (found.interpreter, found.lock and found.lock.version("torch"))
    assert ("torch", "odd", "peft") == found.asked
    assert "torch==2.13.0\n" in found.preferred
    assert "odd" not in found.preferred
    assert (ELSEWHERE,) == found.notices


@pytest.mark.parametrize(
    ("word", "complaint", "cause"),
    [
        ("frist", "no stack, file or folder 'frist'", "perhaps you meant 'first'"),
        (
            "matrix.tml",
            r"no stack, file or folder 'matrix\.tml'",
            "perhaps you meant 'matrix.toml'",
        ),
        ("zzz", "no stack, file or folder 'zzz'", "stacks are: first, second"),
        ("scenarios", "scenarios is neither an environment nor a project", "it has no bin/python"),
        ("a-1-py3-none-any.whl", "is a wheel, not a side", "a wheel is one package"),
        ("Pipfile.lock", "are not supported", "supported are uv.lock"),
    ],
)
def test_an_unknown_side_is_an_error(root: Path, word: str, complaint: str, cause: str) -> None:
    """With the most similar one that exists."""
    for name in ("a-1-py3-none-any.whl", "Pipfile.lock"):
        (root / name).write_text("", encoding="utf-8")
    with pytest.raises(UserError, match=complaint) as error:
        side(root, word)
    assert cause in error.value.cause


def test_a_json_file_beside_a_requirements_file_may_be_anything(root: Path) -> None:
    """It is not taken for a lock."""
    (root / "train.txt").write_text("peft\n", encoding="utf-8")
    (root / "train.json").write_text('{"epochs": 3}', encoding="utf-8")
    assert ("peft",) == side(root, "train.txt").requirements
    with pytest.raises(UserError):
        side(root, "train.json")


def test_equal_versions_from_different_sources_are_different_environments(root: Path) -> None:
    """A checkout of a library has one version for years."""
    digests = set()
    for name, url in (("one", "file:///one"), ("two", "file:///two"), ("again", "file:///one")):
        python = make_environment(root / name, json.dumps({"url": url}))
        found = side(root, str(python.parent.parent))
        assert found.lock is not None
        digests.add(found.lock.digest)
    assert 2 == len(digests)


VERSIONS = {
    "torch": "2.6.0",
    "trl": "0.15",
    "peft": "0.14",
    "numpy": "2.0",
    "pip": "26",
    "mine": "1",
}
ELSEWHERE = "these packages are not from the package index and not in the candidate: mine"
INSTALLED = [
    Distribution("torch", "2.6.0", (), None),
    Distribution("TRL", "0.15", ("peft>=0.14", "torch", "trl[extra] ; extra == 'all'"), None),
    Distribution(
        "peft",
        "0.14",
        ("numpy ; python_version >= '3'", "torch", "mine ; python_version < '3'"),
        None,
    ),
    Distribution("numpy", "2.0", ("pip ; extra == 'dev'", "nonsense ==="), None),
    Distribution("mine", "1", ("trl",), '{"url": "file:///mine"}'),
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
    """The machine decides which build is installed."""
    assert expected == sides.without_label(text)


def test_packages_that_no_other_one_needs_were_asked_for() -> None:
    """And torch, but not the tools that make environments."""
    versions = {name: version for name, version in VERSIONS.items() if name != "mine"}
    assert (("torch", "trl"), ()) == sides.asked_in(INSTALLED[:-1], make_lock(versions=versions))


def test_the_requirements_of_a_project_in_development_were_asked_for() -> None:
    """The project itself is not in the index, and a notice says so."""
    roots, notices = sides.asked_in(INSTALLED, make_lock(versions=VERSIONS))
    assert ("torch", "trl") == roots
    assert (ELSEWHERE,) == notices


@pytest.mark.parametrize(
    ("version", "public"), [("2.0", True), ("2.0+cpu", True), ("not a version", False)]
)
def test_only_public_versions_can_be_pinned(version: str, *, public: bool) -> None:
    """Some old distributions have a version that is not valid."""
    assert public is sides.is_public(version)


LATEST = """
[[stacks]]
name = "latest"
python = "3.11"
as_of = "today"
requirements = ["torch", "peft"]
"""
BASELINE = Side(
    name="first",
    python="3.11",
    as_of="today",
    requirements=("torch==2.6.0", "peft"),
    asked=("torch==2.6.0", "peft"),
)


@pytest.fixture
def checkout(root: Path) -> Path:
    """A checkout with a stack called latest, and with the lock of the second one."""
    (root / "matrix.toml").write_text(MATRIX + LATEST, encoding="utf-8")
    write_lock(root, make_lock("second"))
    return root


def target(
    checkout: Path, *words: str, baseline: Side = BASELINE, dated: bool = False
) -> sides.Target:
    """What the words name, for this baseline."""
    return sides.parse_target(words, baseline, Project.at(checkout), Reading(), dated=dated)


def test_several_packages_are_several_edits(checkout: Path) -> None:
    """In one candidate."""
    found = target(checkout, "torch==2.13.0", "peft<1", "trl")
    assert ["torch==2.13.0", "peft<1", "trl"] == [each.requirement for each in found.edits]


def test_a_stack_is_a_side(checkout: Path) -> None:
    """It cannot be combined with edits."""
    found = target(checkout, "second")
    assert found.side is not None
    assert "second" == found.side.name
    with pytest.raises(UserError, match="is a whole side"):
        target(checkout, "second", "trl")


def test_a_file_is_a_side(checkout: Path) -> None:
    """A lock is one too."""
    (checkout / "new.txt").write_text("torch\n", encoding="utf-8")
    found = target(checkout, "new.txt")
    assert found.side is not None
    assert ("torch",) == found.side.requirements


def test_a_folder_named_like_a_package_is_not_a_side(checkout: Path) -> None:
    """Unless it is an environment or a project."""
    (checkout / "peft").mkdir()
    assert ["peft"] == [each.name for each in target(checkout, "peft").edits]
    (checkout / "peft" / "requirements.txt").write_text("torch\n", encoding="utf-8")
    side = target(checkout, "peft").side
    assert side is not None
    assert ("torch",) == side.asked


@pytest.mark.parametrize("word", ["other-venv", "./other-venv"])
def test_an_environment_is_a_side_with_and_without_a_slash(checkout: Path, word: str) -> None:
    """A stack comes first, then a file or folder, then a requirement."""
    python = checkout / "other-venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert sides.is_side(word, Project.at(checkout))


def test_the_wheels_of_a_folder_are_edits(checkout: Path) -> None:
    """Each is a package; with two of one package nobody knows which is meant."""
    folder = checkout / "wheels"
    folder.mkdir()
    for name in ("peft", "trl"):
        (folder / f"{name}-1.0-py3-none-any.whl").write_bytes(wheel(name, "1.0"))
    for word in ("wheels", "./wheels/"):
        assert ["peft", "trl"] == [each.name for each in target(checkout, word).edits]
    (folder / "trl-2.0-py3-none-any.whl").write_bytes(wheel("trl", "2.0"))
    with pytest.raises(UserError, match="trl is asked for twice"):
        target(checkout, "wheels")


@pytest.mark.parametrize(
    ("word", "cause"),
    [
        ("trl=>1.0", "a version is written trl>=1.0"),
        ("trl=<1.0", "a version is written trl<=1.0"),
        ("trl=1.0", "a version is written trl==1.0"),
        ("trl[peft] => 1.0", "a version is written trl[peft]>=1.0"),
        ("./secnd", "no stack, no file or folder, and no requirement"),
        ("se cond", "perhaps you meant 'second'"),
    ],
)
def test_what_a_word_was_tried_as_is_in_the_error(checkout: Path, word: str, cause: str) -> None:
    """Or how it is written."""
    with pytest.raises(UserError, match="cannot be read") as error:
        target(checkout, word)
    assert cause in error.value.cause


@pytest.mark.parametrize(
    ("baseline", "dated", "side"),
    [
        (BASELINE, False, True),
        (BASELINE, True, False),
        (replace(BASELINE, asked=("torch",)), False, False),
        (replace(BASELINE, python="3.12"), False, False),
        (replace(BASELINE, constraints=("numpy<2",)), False, False),
    ],
)
def test_latest_is_the_stack_with_the_same_requirements(
    checkout: Path, baseline: Side, *, dated: bool, side: bool
) -> None:
    """Its cells may be recorded. For any other baseline it removes all bounds."""
    found = target(checkout, "latest", baseline=baseline, dated=dated)
    assert (side, not side) == (found.side is not None, found.latest)


def test_latest_can_be_combined_with_an_edit(checkout: Path) -> None:
    """Everything else is at its newest version."""
    found = target(checkout, "latest", "torch<2.13")
    assert (True, ["torch<2.13"]) == (found.latest, [each.requirement for each in found.edits])


def test_a_wheel_is_an_edit_of_its_package(checkout: Path) -> None:
    """The name of the file says which package it is."""
    (checkout / "peft-1.0+mine-py3-none-any.whl").write_bytes(wheel("peft", "1.0+mine"))
    [found] = target(checkout, "./peft-1.0+mine-py3-none-any.whl").edits
    assert ("peft", f"peft @ {(checkout / 'peft-1.0+mine-py3-none-any.whl').as_uri()}") == (
        found.name,
        found.requirement,
    )
    assert "peft==1.0+mine (peft-1.0+mine-py3-none-any.whl)" == found.text


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("peft-1.0-cp27-cp27m-macosx_10_9_x86_64.whl", "cannot be installed here"),
        ("peft.whl", "is not a valid name of a wheel"),
        ("gone-1.0-py3-none-any.whl", "There is no wheel"),
        ("./new.tx", "cannot be read"),
        ("../no/such/place", "cannot be read"),
        ("trl=1", "cannot be read"),
    ],
)
def test_an_impossible_candidate_is_an_error(checkout: Path, word: str, complaint: str) -> None:
    """Before anything is resolved."""
    for name in ("peft-1.0-cp27-cp27m-macosx_10_9_x86_64.whl", "peft.whl"):
        (checkout / name).write_bytes(wheel("peft", "1.0"))
    with pytest.raises(UserError, match=complaint):
        target(checkout, word)


def test_a_package_that_is_asked_for_twice_is_an_error(checkout: Path) -> None:
    """Two bounds can be written as one requirement."""
    with pytest.raises(UserError, match="trl is asked for twice"):
        target(checkout, "trl==1", "TRL<2")


def test_a_source_that_cannot_be_fetched_is_an_error(checkout: Path) -> None:
    """The credentials of its address are not shown."""
    with pytest.raises(UserError, match="cannot be fetched") as error:
        target(checkout, "git+http://user:secret@127.0.0.1:9/nothing")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "word",
    [
        "https://user:secret@host/pkg-1.0.whl",
        "https://user:se@secret@host/pkg-1.0-py3-none-any.whl",
        "foo=git+https://user:secret@host/x",
        "git+http://user:p@secret@127.0.0.1:9/nothing",
    ],
)
def test_no_error_shows_a_password(checkout: Path, word: str) -> None:
    """Of an address that cannot be a candidate."""
    with pytest.raises(UserError) as error:
        target(checkout, word)
    assert "secret" not in f"{error.value.what} {error.value.cause} {error.value.next_step}"


def test_a_single_equals_sign_is_an_error(checkout: Path) -> None:
    """The error shows how to write it."""
    with pytest.raises(UserError, match="cannot be read") as error:
        target(checkout, "trl[peft]=1.0")
    assert "a version is written trl[peft]==1.0" == error.value.cause


def test_credentials_of_an_address_are_not_shown(checkout: Path) -> None:
    """Only git gets them."""
    [found] = target(checkout, "trl @ git+https://user:secret@example.org/trl").edits
    assert "trl @ git+https://example.org/trl" == found.text
    assert "secret" in found.requirement
