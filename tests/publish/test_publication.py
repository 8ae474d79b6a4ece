"""Publishing: by one process or by several; files that an earlier publication left are deleted."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from gradmatrix.cli.main import main
from gradmatrix.core.errors import UserError
from gradmatrix.core.files import partial_of
from gradmatrix.core.model import Role
from gradmatrix.publish import publication
from gradmatrix.publish.publication import PAGES, is_current, pages_in, publish
from gradmatrix.publish.rows import build_of
from gradmatrix.run.project import Project
from tests.cli.test_cli import MATRIX, SUMS, write_lock
from tests.factories import NOON, make_cell, make_lock, make_observation, make_record

if TYPE_CHECKING:
    from pathlib import Path

STACKS = ("first", "second")
KEPT = ("records", "locks", "history")
"""Folders of results/ from which only a person deletes files."""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Two locked stacks, and a record of each of their cells."""
    (tmp_path / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "sums.py").write_text(SUMS.lstrip(), encoding="utf-8")
    project = Project.at(tmp_path)
    for stack in STACKS:
        write_lock(tmp_path, make_lock(stack))
        project.store.append(make_record(cell=make_cell(stack, "sums", "plain")))
        project.store.append(
            make_record(
                "update:none",
                make_cell(stack, "sums", "frozen"),
                role=Role.MISUSE,
                observation=make_observation("nnnn", steps=4),
            )
        )
    return project


def files(project: Project) -> dict[str, bytes]:
    """Everything that was published, by path."""
    paths = (path for path in sorted(project.results.rglob("*")) if path.is_file())
    return {path.relative_to(project.results).as_posix(): path.read_bytes() for path in paths}


@pytest.mark.parametrize("site", [False, True])
def test_several_processes_publish_what_one_does(
    project: Project, monkeypatch: pytest.MonkeyPatch, *, site: bool
) -> None:
    """Every byte is the same, also in records and pages."""
    publish(project, site=site)
    alone = files(project)
    for path in alone:
        if not path.startswith(("locks", "history")):
            (project.results / path).unlink()
    monkeypatch.setattr(publication, "BIG_BYTES", 0)
    publish(project, site=site)
    assert alone == files(project)


def test_a_line_that_another_process_could_not_read_is_reported(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report is the same as from one process."""
    with (project.store.journal / "second.jsonl").open("ab") as file:
        file.write(b'{"schema":1,"ce')
    monkeypatch.setattr(publication, "BIG_BYTES", 0)
    publish(project)
    assert ["second.jsonl, line 3 was skipped: Input data was truncated"] == project.store.problems


def test_records_of_another_schema_stop_a_publication(project: Project) -> None:
    """The error comes before any page is written."""
    publish(project)
    theirs = project.store.published / "second.jsonl"
    theirs.write_bytes(theirs.read_bytes() + b'{"schema":2}\n')
    before = files(project)
    with pytest.raises(
        UserError, match=r"second\.jsonl cannot be published again: line 3: it has schema 2"
    ):
        publish(Project.at(project.root))
    assert before == files(project)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("second.json",), "lacks second.json: nothing was published."),
        (("second.json", "second.txt"), "lacks second.json: nothing was published."),
        (("first.json", "second.json"), "lacks first.json, second.json: nothing was published."),
        (("second.txt",), "The lock second is incomplete: second.txt is missing."),
    ],
)
def test_a_missing_lock_stops_a_publication(
    project: Project, names: tuple[str, ...], told: str
) -> None:
    """Its column would be missing from every page. The error names the file."""
    publish(project, site=True)
    for name in names:
        (project.locks_folder / name).unlink()
    before = files(project)
    with pytest.raises(UserError) as raised:
        publish(Project.at(project.root), site=True)
    assert told in str(raised.value)
    assert before == files(project)


def test_an_edited_lock_stops_a_run_before_it_begins(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if it is the lock of another stack: the table shows all of them."""
    (project.locks_folder / "second.txt").write_text("torch==1\n", encoding="utf-8")
    assert 2 == main(["run", "first", "--fresh", "--root", str(project.root)])
    assert "second.txt is not the text that was locked: " in capsys.readouterr().err


def test_without_any_lock_there_is_nothing_to_publish(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty page would look like an answer."""
    for folder in (project.locks_folder, project.store.journal):
        for path in folder.iterdir():
            path.unlink()
    assert 2 == main(["publish", "--root", str(project.root)])
    assert "There is nothing to publish." in capsys.readouterr().err
    assert not (project.results / "index.html").exists()


def test_pages_of_a_removed_stack_are_deleted(project: Project) -> None:
    """It was removed from matrix.toml. Its records stay until somebody deletes them."""
    publish(project, site=True)
    assert (project.results / "stacks" / "second.html").exists()
    block = MATRIX[MATRIX.rindex("[[stacks]]") :]
    (project.root / "matrix.toml").write_text(MATRIX.replace(block, ""), encoding="utf-8")
    publish(Project.at(project.root), site=True)
    assert [] == [path for path in files(project) if "second" in path and not path.startswith(KEPT)]
    assert (project.results / "records" / "second.jsonl").exists()


def test_the_pages_are_current_until_the_data_changes(project: Project) -> None:
    """Data and pages are published by separate commands."""
    publish(project)
    assert (True, False) == (is_current(project), is_current(project, site=True))
    publish(project, site=True)
    assert is_current(project, site=True)
    later = make_record(
        cell=make_cell("first", "sums", "plain"), recorded_at=NOON + dt.timedelta(hours=1)
    )
    project.store.append(later)
    assert not is_current(project, site=True)


def test_the_build_is_that_of_the_newest_cell() -> None:
    """One record is from before a driver was installed, one from after."""
    old = make_record(build="cpu")
    new = make_record(build="cuda", recorded_at=NOON + dt.timedelta(hours=1))
    assert ("cuda", None) == (
        build_of([new, old]),
        build_of([make_record(build="")]),
    )


def test_a_cell_whose_line_cannot_be_read_is_not_gone(project: Project) -> None:
    """Its history goes on, and the line stays until somebody repairs it."""
    publish(project)
    path = project.store.published / "second.jsonl"
    whole, cut = (
        path.read_bytes().splitlines(keepends=True)[0],
        path.read_bytes().splitlines()[1][:40],
    )
    path.write_bytes(whole + cut)
    for journal in project.store.journal.glob("*.jsonl"):
        journal.unlink()
    before = (project.history_folder / "second.jsonl").read_bytes()
    clone = Project.at(project.root)
    publish(clone)
    assert (before, whole + cut) == (
        (project.history_folder / "second.jsonl").read_bytes(),
        path.read_bytes(),
    )
    assert ["second.jsonl, line 2 was skipped: Input data was truncated"] == clone.store.problems


def test_records_of_another_schema_stop_a_run_before_it_begins(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error must not come after hours of work."""
    publish(project)
    theirs = project.store.published / "first.jsonl"
    theirs.write_bytes(b'{"schema":2}\n')
    assert 2 == main(["run", "first", "--fresh", "--root", str(project.root)])
    assert (
        "first.jsonl cannot be published again: line 1: it has schema 2" in capsys.readouterr().err
    )


def test_nothing_is_deleted_but_pages_that_were_published(project: Project) -> None:
    """The folder is the checkout itself here: its scenarios/ is a folder of pages too."""
    here = Project.at(project.root, results=project.root)
    publish(here, site=True)
    block = MATRIX[MATRIX.rindex("[[stacks]]") :]
    (project.root / "matrix.toml").write_text(MATRIX.replace(block, ""), encoding="utf-8")
    publish(Project.at(project.root, results=project.root), site=True)
    assert (True, False) == (
        (project.root / "scenarios" / "sums.py").exists(),
        (project.root / "stacks" / "second.html").exists(),
    )


@pytest.mark.parametrize("path", ["../kept.html", "/kept.html", "stacks/../../kept.html", ""])
def test_a_list_of_pages_cannot_name_a_file_elsewhere(tmp_path: Path, path: str) -> None:
    """The list comes from git, so anybody may have written it."""
    (tmp_path / "site").mkdir()
    (tmp_path / PAGES).write_text(f"{path}\nstacks/old.html\n", encoding="utf-8")
    assert {"stacks/old.html"} == pages_in(tmp_path)


def test_records_of_another_lock_are_kept_and_not_shown(project: Project) -> None:
    """They say nothing about the present versions of the stack."""
    moved = make_record(cell=make_cell("first", "sums", "plain"), inputs={"lock": "of another day"})
    project.store.append(replace(moved, recorded_at=NOON + dt.timedelta(hours=1)))
    publish(project)
    cells = json.loads(files(project)["matrix.json"])["cells"]
    assert ["frozen"] == [cell["variant"] for cell in cells if cell["stack"] == "first"]
    assert b"of another day" in files(project)["records/first.jsonl"]


def test_records_of_a_scenario_that_is_not_run_are_kept(project: Project) -> None:
    """The scenario may run again later."""
    publish(project)
    before_it = files(project)["records/first.jsonl"]
    (project.root / "matrix.toml").write_text(
        MATRIX.replace('scenarios = ["sums"]', 'scenarios = ["others"]'), encoding="utf-8"
    )
    (project.root / "scenarios" / "others.py").write_text(SUMS.lstrip(), encoding="utf-8")
    clone = Project.at(project.root)
    publish(clone)
    assert ([], before_it) == (
        json.loads(files(clone)["matrix.json"])["cells"],
        files(clone)["records/first.jsonl"],
    )


@pytest.mark.parametrize(
    "path", ["cells/first.html", "site/style.css", "matrix.parquet", "site/pages.txt"]
)
def test_a_page_that_is_missing_is_written_again(project: Project, path: str) -> None:
    """Every page is checked, not only the first one."""
    publish(project, site=True)
    content = (project.results / path).read_bytes()
    (project.results / path).unlink()
    assert publish(project, site=True)
    assert content == (project.results / path).read_bytes()
    assert not publish(project, site=True)


def test_the_address_of_the_feed_is_part_of_what_is_current(project: Project) -> None:
    """With another address the feed is written again."""
    publish(project, site=True, base_url="https://example.org/one/")
    assert not is_current(project, site=True)
    assert is_current(project, site=True, base_url="https://example.org/one/")


def test_files_of_a_killed_publication_are_deleted(project: Project) -> None:
    """Otherwise somebody might commit half a file."""
    publish(project)
    left = partial_of(project.results / "matrix.json")
    left.write_bytes(b"half")
    theirs = project.results / "notes.partial"
    theirs.write_bytes(b"not ours")
    project.store.append(make_record(cell=make_cell("first", "sums", "plain"), recorded_at=NOON))
    publish(project)
    assert (False, True) == (left.exists(), theirs.exists())
