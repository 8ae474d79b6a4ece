"""What --to names."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gradmatrix.compare import sides
from gradmatrix.compare.sides import Given, Reading
from gradmatrix.core.errors import UserError
from gradmatrix.run.project import Project
from tests.cli.test_cli import MATRIX, write_lock
from tests.factories import make_lock
from tests.fakes.package_index import wheel

if TYPE_CHECKING:
    from pathlib import Path

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
LATEST = '\n[[stacks]]\nname = "latest"\npython = "3.11"\nas_of = "today"\nrequirements = ["torch", "peft"]\n'
BASELINE = Given(
    name="first",
    python="3.11",
    as_of="today",
    requirements=("torch==2.6.0", "peft"),
    asked=("torch==2.6.0", "peft"),
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a stack called latest, as the working directory."""
    (tmp_path / "matrix.toml").write_text(MATRIX + LATEST, encoding="utf-8")
    (tmp_path / "scenarios").mkdir()
    text = '"""Sums."""\nNEEDS = ()\nVARIANTS = {"plain": {"role": "control", "summary": "x"}}\n'
    (tmp_path / "scenarios" / "sums.py").write_text(text, encoding="utf-8")
    write_lock(tmp_path, make_lock("second"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(root: Path, *words: str, baseline: Given = BASELINE, dated: bool = False) -> sides.Asked:
    """What the words mean for the baseline."""
    return sides.asked(words, baseline, Project.at(root), Reading(), dated=dated)


def test_several_packages_are_several_wishes(root: Path) -> None:
    """In one candidate."""
    found = asked(root, "torch==2.13.0", "peft<1", "trl")
    assert ["torch==2.13.0", "peft<1", "trl"] == [each.requirement for each in found.wishes]


def test_a_stack_is_a_side(root: Path) -> None:
    """And stands alone."""
    found = asked(root, "second")
    assert found.side is not None
    assert "second" == found.side.name
    with pytest.raises(UserError, match="is a whole side"):
        asked(root, "second", "trl")


def test_a_file_is_a_side(root: Path) -> None:
    """So is a lock."""
    (root / "new.txt").write_text("torch\n", encoding="utf-8")
    found = asked(root, "new.txt")
    assert found.side is not None
    assert ("torch",) == found.side.requirements


def test_a_folder_named_like_a_package_is_no_side(root: Path) -> None:
    """It would have to be written as a path."""
    (root / "peft").mkdir()
    assert ["peft"] == [each.name for each in asked(root, "peft").wishes]


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
def test_latest_is_the_stack_that_asks_for_the_same(
    root: Path, baseline: Given, *, dated: bool, side: bool
) -> None:
    """Its cells may be recorded; for anybody else it is the newest of what he asks for."""
    found = asked(root, "latest", baseline=baseline, dated=dated)
    assert (side, not side) == (found.side is not None, found.latest)


def test_latest_may_stand_beside_a_bound(root: Path) -> None:
    """The newest of all else."""
    found = asked(root, "latest", "torch<2.13")
    assert (True, ["torch<2.13"]) == (found.latest, [each.requirement for each in found.wishes])


def test_a_wheel_is_its_package_at_that_file(root: Path) -> None:
    """Named by its file's name."""
    (root / "peft-1.0+mine-py3-none-any.whl").write_bytes(wheel("peft", "1.0+mine"))
    [found] = asked(root, "./peft-1.0+mine-py3-none-any.whl").wishes
    assert ("peft", f"peft @ {(root / 'peft-1.0+mine-py3-none-any.whl').as_uri()}") == (
        found.name,
        found.requirement,
    )
    assert "peft==1.0+mine (peft-1.0+mine-py3-none-any.whl)" == found.text


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("peft-1.0-cp27-cp27m-macosx_10_9_x86_64.whl", "cannot be installed here"),
        ("peft.whl", "is no wheel's name"),
        ("gone-1.0-py3-none-any.whl", "There is no wheel"),
        ("./new.tx", "There is no file or folder"),
        ("../no/such/place", "There is no file or folder"),
        ("trl=1", "cannot be read"),
    ],
)
def test_what_cannot_be_a_candidate_is_told(root: Path, word: str, complaint: str) -> None:
    """Before anything is resolved."""
    for name in ("peft-1.0-cp27-cp27m-macosx_10_9_x86_64.whl", "peft.whl"):
        (root / name).write_bytes(wheel("peft", "1.0"))
    with pytest.raises(UserError, match=complaint):
        asked(root, word)


def test_a_package_is_asked_for_once(root: Path) -> None:
    """Two bounds are one requirement."""
    with pytest.raises(UserError, match="trl is asked for twice"):
        asked(root, "trl==1", "TRL<2")


def test_a_source_that_is_not_there_is_told(root: Path) -> None:
    """Without the credentials of its address."""
    with pytest.raises(UserError, match="cannot be had") as error:
        asked(root, "git+http://user:secret@127.0.0.1:9/nothing")
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
def test_no_complaint_shows_a_password(root: Path, word: str) -> None:
    """Of an address that cannot be a candidate."""
    with pytest.raises(UserError) as error:
        asked(root, word)
    assert "secret" not in f"{error.value.what} {error.value.cause} {error.value.next_step}"


def test_a_single_equals_sign_is_told(root: Path) -> None:
    """With the way to write it."""
    with pytest.raises(UserError, match="cannot be read") as error:
        asked(root, "trl[peft]=1.0")
    assert "a version is written trl[peft]==1.0" == error.value.cause


def test_credentials_of_an_address_are_not_shown(root: Path) -> None:
    """They are for git alone."""
    [found] = asked(root, "trl @ git+https://user:secret@example.org/trl").wishes
    assert "trl @ git+https://example.org/trl" == found.text
    assert "secret" in found.requirement
