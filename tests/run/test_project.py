"""A checkout: where its files are, and when results/ is written."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from gradmatrix.core import files
from gradmatrix.core.model import Role
from gradmatrix.publish import publication
from gradmatrix.publish.publication import is_current, publish
from gradmatrix.run import bundle
from gradmatrix.run.plan import Selection
from gradmatrix.run.project import Project
from tests.cli.test_cli import MATRIX, OF_SCRIPTS, SUMS, outcomes, write_lock
from tests.conftest import ROOT
from tests.factories import NOON, make_cell, make_lock, make_record
from tests.pretended import Watcher

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Two locked stacks and a scenario, with one record."""
    (tmp_path / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "sums.py").write_text(SUMS.lstrip(), encoding="utf-8")
    for stack in ("first", "second"):
        write_lock(tmp_path, make_lock(stack))
    project = Project.at(tmp_path)
    project.store.append(make_record("step:exception", make_cell("first", "sums", "plain")))
    return project


def test_published_scenarios_are_looked_up_where_there_are_any(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project of scripts asks what the wheel carries, also when it has published its own."""
    carried = bundle.Bundle(project.root, NOON)
    monkeypatch.setattr(bundle, "carried", lambda: carried)
    assert project.published_matrix is project
    own = Project.at(tmp_path / "own")
    (own.root / "results" / "records").mkdir(parents=True)
    own.matrix_file.write_text(OF_SCRIPTS, encoding="utf-8")
    assert (project.root, NOON) == (own.published_matrix.root, own.published_matrix.carried)
    (own.root / "results" / "records" / "first.jsonl").touch()
    assert project.root == Project.at(own.root).published_matrix.root
    own.matrix_file.write_text(MATRIX, encoding="utf-8")
    again = Project.at(own.root)
    assert again.published_matrix is again


def test_a_stack_may_run_a_part_of_the_scenarios(project: Project) -> None:
    """Without its own list it runs all of them."""
    (stack, *_) = project.matrix.stacks
    part = msgspec.structs.replace(stack, scenarios=("products",))
    assert ["sums"] == [each.name for each in project.scenarios_of(stack)]
    assert [] == [each.name for each in project.scenarios_of(part)]


def test_an_environment_is_compared_with_stacks_that_run_everything(project: Project) -> None:
    """A stack of an application says nothing about scripts of others."""
    text = MATRIX.replace('name = "second"', 'name = "second"\nscenarios = ["sums"]')
    project.matrix_file.write_text(text, encoding="utf-8")
    assert ["first"] == [each.stack for each in project.comparable(project.known_locks())]


def test_what_was_published_is_not_published_again(project: Project) -> None:
    """A new record makes it out of date."""
    publish(project)
    assert is_current(project)
    project.store.append(make_record("step:exception", make_cell("second", "sums", "plain")))
    assert not is_current(project)


def test_an_unchanged_matrix_needs_no_pandas(project: Project) -> None:
    """Importing pandas takes a second."""
    publish(project)
    code = (
        "import sys; from pathlib import Path; from gradmatrix.run.project import Project;"
        "from gradmatrix.publish.publication import publish;"
        "publish(Project.at(Path(sys.argv[1]))); sys.exit('pandas' in sys.modules)"
    )
    assert (
        0
        == subprocess.run(
            [sys.executable, "-c", code, str(project.root)], cwd=ROOT, check=False
        ).returncode
    )


@pytest.mark.parametrize("name", ["matrix.json", "matrix.csv", "matrix.md"])
def test_a_missing_file_is_written_again(project: Project, name: str) -> None:
    """This holds for each of three files."""
    publish(project)
    path = project.results / name
    content = path.read_bytes()
    path.unlink()
    publish(project)
    assert content == path.read_bytes()


def test_records_that_came_by_git_are_published(project: Project) -> None:
    """Another machine wrote them, and they are older than the matrix."""
    publish(project)
    pulled = make_record("step:exception", make_cell("second", "sums", "plain"))
    theirs = project.store.published / "second.jsonl"
    project.store.publish("second", [pulled])
    os.utime(theirs, (0, 0))
    publish(project)
    assert {"first/sums/plain", "second/sums/plain"} == set(outcomes(project.root, "results"))


@pytest.mark.parametrize("path", ["matrix.toml", "scenarios/sums.py", "results/locks/first.json"])
def test_what_the_matrix_is_made_of_makes_it_anew(project: Project, path: str) -> None:
    """A changed source makes the matrix out of date.

    The clock of another machine may give it an older time.
    """
    publish(project)
    os.utime(project.root / path, (0, 0))
    assert not is_current(project)


def test_what_another_publisher_recorded_is_not_lost(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading and writing happen under one lock. A publisher that waited reads the new records."""
    held = files.held

    @contextmanager
    def after_another(path: Path) -> Iterator[None]:
        """A lock held by another process, which recorded a cell and published it."""
        monkeypatch.setattr(publication, "held", held)
        other = Project.at(project.root)
        other.store.append(make_record("step:exception", make_cell("second", "sums", "plain")))
        publish(other)
        with held(path):
            yield

    monkeypatch.setattr(publication, "held", after_another)
    publish(project)
    assert {"first/sums/plain", "second/sums/plain"} == set(outcomes(project.root, "results"))


def test_a_record_that_comes_while_publishing_is_published_next(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the records that were read count as published, not those that came later."""
    written = type(project.store).publish

    def slowly(*arguments: object) -> None:
        """Another process records a cell at this moment."""
        project.store.append(
            make_record("update:none", make_cell("second", "sums", "frozen"), role=Role.MISUSE)
        )
        written(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(type(project.store), "publish", slowly)
        publish(project)
    assert not is_current(project)
    publish(project)
    assert "second/sums/frozen" in outcomes(project.root, "results")


def test_paths_are_of_where_the_command_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells have another working directory."""
    monkeypatch.chdir(tmp_path)
    project = Project.at(Path(), matrix_file=Path("other.toml"), results=Path("out"))
    here = tmp_path.resolve()
    assert (here, here / "other.toml", here / "out", here / "out" / ".gradmatrix") == (
        project.root,
        project.matrix_file,
        project.results,
        project.work,
    )


def test_environments_are_those_of_the_checkout(project: Project, tmp_path: Path) -> None:
    """Results may go elsewhere, but environments take gigabytes and are shared."""
    elsewhere = Project.at(project.root, results=tmp_path / "elsewhere")
    run = elsewhere.stack_run(elsewhere.matrix.stack("first"), Watcher())
    assert project.root / ".gradmatrix" / "environments" == run.environments
    assert elsewhere.work / "work" == run.workplaces
    assert 2 == len(run.plan(Selection()))
