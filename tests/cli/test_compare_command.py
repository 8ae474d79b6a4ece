"""``compare``: what it prints, writes and returns."""

from __future__ import annotations

import errno
import json
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from gradmatrix.cli.main import main
from tests.compare.test_recorded import locked, project, ran, write

if TYPE_CHECKING:
    from pathlib import Path

    from gradmatrix.run.project import Project

__all__ = ["project"]  # a fixture


@pytest.fixture
def runs(project: Project, tmp_path: Path) -> tuple[str, str]:
    """A baseline that trains and a candidate that does not."""
    write(project.results, ran("first"), ran("second", "gradient:none", message="nothing came"))
    return "first", str(
        write(tmp_path / "theirs", ran("first", "gradient:none", message="nothing came"))
    )


def compare(project: Project, *words: str) -> int:
    """Run `compare` and return the exit code."""
    return main(["compare", *words, "--root", str(project.root)])


def test_a_regression_is_printed_first_and_exits_with_1(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records from elsewhere, with other packages, are compared with a stack of this checkout."""
    earlier = write(
        tmp_path / "theirs", ran("first", lock=replace(locked("first"), digest="9" * 64))
    )
    write(project.results, ran("first", "gradient:none", message="nothing came"))
    assert 1 == compare(project, str(earlier), "first")
    assert "Do not upgrade yet: 1 cell regressed." == capsys.readouterr().out.splitlines()[0]


def test_a_stack_compared_with_itself_is_safe(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing changed."""
    write(project.results, ran("first"))
    assert 0 == compare(project, "first", "first")
    assert capsys.readouterr().out.startswith(
        "Safe: nothing regressed in 1 cell, speed was not measured.\n"
    )


def test_a_run_compared_with_itself_gets_a_warning(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records of another time get none."""
    write(project.results, ran("first"))
    compare(project, "first", "first")
    assert "warning: Both sides have the same records" in capsys.readouterr().out


def test_the_answer_is_printed_although_a_report_cannot_be_written(
    project: Project,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The disk may become full after the check whether the file can be written."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write(project.results, ran("first"))
    monkeypatch.setattr("gradmatrix.cli.upgrade.write_atomically", full)
    assert 2 == compare(project, "first", "first", "--json", str(tmp_path / "a.json"))
    assert capsys.readouterr().out.startswith("Safe: ")


def test_different_verdicts_from_the_same_inputs_exit_with_3(
    project: Project, runs: tuple[str, str]
) -> None:
    """Nobody can say which of the two is right."""
    assert 3 == compare(project, *runs)


def test_every_requested_report_is_written(
    project: Project, runs: tuple[str, str], tmp_path: Path
) -> None:
    """Nothing else is written, and the compared runs do not change."""
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    names = {
        "--markdown": "a.md",
        "--html": "a.html",
        "--json": "a.json",
        "--json-schema": "schema.json",
    }
    words = [word for option, name in names.items() for word in (option, str(tmp_path / name))]
    compare(project, *runs, *words)
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {*names.values()} == {path.name for path in after.keys() - before.keys()}
    assert before == {path: content for path, content in after.items() if path in before}


def test_a_report_on_the_standard_output_is_alone_there(
    project: Project, runs: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """So it can be piped."""
    compare(project, *runs, "--json", "-")
    assert "inconclusive" == json.loads(capsys.readouterr().out)["verdict"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["first", "no-such"], "There is no run 'no-such'."),
        (
            ["first", "first", "--json", "-", "--html", "-"],
            "Two reports cannot both go to the standard output.",
        ),
        (["first", "first", "--json", "no/such/folder/a.json"], "its folder does not exist"),
        (["first", "first", "--html", "."], "it is a folder"),
        (["first", "first", "--html", "a" * 300], "file name too long"),
        (["no-such", "first", "--json", "/dev/null"], "it is not an ordinary file"),
        (["first", "first", "--scenario", "smus"], "perhaps you meant 'sums'"),
        (["first", "first", "--stacks", "first", "frist"], "perhaps you meant 'first'"),
    ],
)
def test_bad_input_is_one_error_and_exits_with_2(
    project: Project, capsys: pytest.CaptureFixture[str], words: list[str], expected: str
) -> None:
    """The error says what to do."""
    write(project.results, ran("first"))
    assert 2 == compare(project, *words)
    assert expected in capsys.readouterr().err


def test_one_recorded_scenario_can_be_chosen(
    project: Project, runs: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Only its cells are compared."""
    compare(project, *runs, "--scenario", "sums", "--json", "-")
    assert ["sums"] == [
        each["cell"]["scenario"] for each in json.loads(capsys.readouterr().out)["cells"]
    ]


def test_a_damaged_line_is_a_warning(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All other lines are compared."""
    folder = write(tmp_path / "theirs", ran("first"))
    with (folder / "records" / "first.jsonl").open("ab") as file:
        file.write(b"{half\n")
    assert 0 == compare(project, str(folder), str(folder), "--json", "-")
    assert "warning: first.jsonl, line 2 was skipped" in capsys.readouterr().err
