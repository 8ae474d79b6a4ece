"""Reports of ``refresh`` about tables, windows, packages and stacks, if the index says little."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING

import msgspec
import pytest

from gradmatrix.cli.main import main
from gradmatrix.core.model import Stack
from gradmatrix.run.refresh import Fresh, suggestion, yanked
from tests.cli.test_cli import write_lock
from tests.run.test_refresh import RELEASES, add, files, lock, refresh, root, served
from tests.stacks.test_index import release

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.package_index import PackageIndex

__all__ = ["root", "served"]  # fixtures
WINDOW = '[generate.window]\nrequirements = ["alpha"]\n'
STACK = Stack(name="base", python="3.11", requirements=("alpha",), as_of=dt.date(2026, 1, 1))


def undated(index: PackageIndex) -> None:
    """Pages in HTML, without upload times."""
    index.json = False
    for file in index.files:
        file.uploaded = ""


@pytest.mark.parametrize("what", ["no release", "no dates for the releases"])
def test_an_index_without_information_is_reported(
    root: Path, served: PackageIndex, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    """The page is missing or has no dates, so new releases cannot be seen."""
    undated(served)
    if what == "no release":
        served.files.clear()
    assert 0 == refresh(root, "--check")
    first, note = capsys.readouterr().out.splitlines()
    assert first.endswith(", as far as the notes below allow.")
    assert f"note: the package index has {what} of alpha, so new releases cannot be seen" == note


def test_a_window_needs_dates(
    root: Path, served: PackageIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without dates there is no oldest supported release."""
    undated(served)
    add(root, WINDOW)
    assert 2 == refresh(root)
    assert "no dates for the releases of 'alpha'" in capsys.readouterr().err
    assert "_matrix.json" not in files(root)


@pytest.mark.parametrize("table", ["", RELEASES])
@pytest.mark.usefixtures("served")
def test_a_matrix_of_another_folder_leaves_the_checkouts_stacks_alone(
    root: Path, table: str
) -> None:
    """The stacks of both are known afterwards."""
    typed = (root / "matrix.toml").read_text(encoding="utf-8")
    add(root, RELEASES)
    other = root / "other" / "matrix.toml"
    other.parent.mkdir()
    other.write_text(typed + table.replace('"all"', '"last-patch"'), encoding="utf-8")
    refresh(root)
    written = (root / "results" / "locks" / "_matrix.json").read_bytes()
    assert 0 == refresh(root, "--matrix", str(other))
    assert written == (root / "results" / "locks" / "_matrix.json").read_bytes()
    assert [0, 0] == [
        main(["list", "--root", str(root), *words]) for words in ([], ["--matrix", str(other)])
    ]


def test_a_stack_that_a_table_gives_is_not_suggested(
    root: Path, served: PackageIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise two stacks would have one name."""
    served.add("alpha", "1.2", "2026-03-01")
    add(root, RELEASES)
    assert 0 == refresh(root)
    out = capsys.readouterr().out
    assert ("added     alpha-1.2\n" in out, "[[stacks]]" in out) == (True, False)


def test_a_suggestion_is_as_of_a_day_that_has_what_its_base_asks_for() -> None:
    """The later day is taken, as with generated stacks."""
    base = msgspec.structs.replace(
        STACK, requirements=("alpha==1.2", "beta"), as_of=dt.date(2026, 10, 5)
    )
    days = [dt.date(2026, 1, 1), dt.date(2026, 11, 1), None]
    tables = [
        suggestion([Fresh(package="beta", version="3.0", released=day, locked=None)], [base])
        for day in days
    ]
    assert ["as_of = 2026-10-05", "as_of = 2026-11-01", "as_of = 2026-10-05"] == [
        t.splitlines()[3] for t in tables
    ]


@pytest.mark.parametrize("after", [RELEASES + 'from = "1.1"\n', ""])
@pytest.mark.usefixtures("served")
def test_what_a_changed_table_gives_no_more_is_reported(
    root: Path, capsys: pytest.CaptureFixture[str], after: str
) -> None:
    """Stacks of a deleted table are reported too."""
    typed = (root / "matrix.toml").read_text(encoding="utf-8")
    add(root, RELEASES)
    refresh(root)
    (root / "matrix.toml").write_text(typed + after, encoding="utf-8")
    capsys.readouterr()
    for options, code in ((["--check"], 1), ([], 0)):
        assert code == refresh(root, *options)
        assert "removed   alpha-1.0: its records are kept" in capsys.readouterr().out
    refresh(root)
    assert "removed" not in capsys.readouterr().out


@pytest.mark.usefixtures("served")
def test_a_table_that_was_not_looked_up_is_reported_though_it_gives_nothing(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No other command runs until it is looked up."""
    add(root, RELEASES + 'from = "99"\n')
    assert [2, 1] == [main(["list", "--root", str(root)]), refresh(root, "--check")]
    out = capsys.readouterr().out
    assert "table     [generate.releases] is new, or changed since the index was read" in out
    assert f"next: gradmatrix refresh --root {root}, which writes" in out
    assert [0, 0] == [refresh(root), refresh(root, "--check")]


def test_a_yanked_release_that_is_asked_for_exactly_stays() -> None:
    """This also holds for a stack of today: its next lock has the release too."""
    requirements = ("alpha", "alpha==1.*", "alpha<=1.0", "Alpha==1.0", "alpha===1.0")
    stacks = [
        msgspec.structs.replace(STACK, name=text, requirements=(text,), as_of="today")
        for text in requirements
    ]
    locks = {text: lock(text, alpha="1.0") for text in requirements}
    withdrawn = yanked(stacks, locks, {"alpha": (release("1.0", yanked=True),)})
    assert [True, True, True, False, False] == [each.moves for each in withdrawn]


def test_a_new_release_of_a_package_of_windows_is_reported(
    root: Path, served: PackageIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    """No typed stack asks for this package."""
    served.add("beta", "1.0", "2026-01-01")
    add(root, WINDOW.replace("alpha", "beta"))
    refresh(root)
    assert "release   beta 1.0 of 2026-01-01: no lock has the package" in capsys.readouterr().out


def test_a_new_prerelease_is_reported_of_a_package_that_has_nothing_else(
    root: Path, served: PackageIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    """An install would take it."""
    served.files.clear()
    served.add("alpha", "2.0rc1", "2026-01-01")
    assert 1 == refresh(root, "--check")
    assert "release   alpha 2.0rc1 of 2026-01-01" in capsys.readouterr().out


@pytest.mark.parametrize(("python", "code"), [("3.11", 0), ("3.12", 1)])
def test_a_release_is_reported_where_a_stack_has_a_python_for_it(
    root: Path, served: PackageIndex, monkeypatch: pytest.MonkeyPatch, python: str, code: int
) -> None:
    """A stack with another Python cannot use the release."""
    listed = [
        {
            "filename": "alpha-2.0.tar.gz",
            "url": "/files/alpha-2.0.tar.gz",
            "hashes": {},
            "upload-time": "2026-03-01T12:00:00Z",
            "requires-python": ">=3.12",
        }
    ]
    page = json.dumps({"meta": {"api-version": "1.1"}, "name": "alpha", "files": listed})
    monkeypatch.setattr(served, "page", lambda _: ("application/json", page))
    path = root / "matrix.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("3.11", python), encoding="utf-8")
    asked = msgspec.structs.replace(
        lock("first", alpha="1.1"), requirements=("alpha",), python=python
    )
    write_lock(root, asked)
    assert code == refresh(root, "--check")


@pytest.mark.usefixtures("served")
def test_a_stack_of_today_without_a_lock_is_reported(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other stacks have its packages. Once it is locked, it moves without a report."""
    add(
        root,
        '[[stacks]]\nname = "next"\npython = "3.11"\nas_of = "today"\nrequirements = ["alpha"]\n',
    )
    assert 1 == refresh(root, "--check")
    assert "unlocked  next" in capsys.readouterr().out
    write_lock(root, msgspec.structs.replace(lock("next", alpha="1.1"), requirements=("alpha",)))
    assert 0 == refresh(root, "--check")
