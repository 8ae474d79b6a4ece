"""Arguments, printing and exit codes, on small projects whose cells need nothing to be run."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

import msgspec
import pytest

from gradmatrix.cli.main import main
from gradmatrix.core.model import Failure, Lock
from gradmatrix.publish import publication
from gradmatrix.run.project import Project
from tests.factories import DAY, make_cell, make_lock, make_record

if TYPE_CHECKING:
    from pathlib import Path

MATRIX = """
[run]
devices = ["cpu"]
scenarios = ["sums"]

[[stacks]]
name = "first"
summary = "The first one"
python = "3.11"
as_of = 2026-01-15
core = true
requirements = ["torch"]

[[stacks]]
name = "second"
python = "3.11"
as_of = 2026-01-15
requirements = ["torch"]
"""
SUMS = '''
"""Sums of two."""

NEEDS = ("torch", "a-library-of-another-day")
VARIANTS = {
    "plain": {"role": "control", "summary": "as it is"},
    "frozen": {"role": "misuse", "summary": "as it should not be"},
}
'''
COMMANDS = ["run", "lock", "table", "isolation", "bench", "list"]
CONFLICT = Failure(outcome="resolve:conflict", message="a needs b<1,\n\x1b[31mc needs b>2")
UNREACHABLE = Failure(outcome="resolve:index-unreachable", message="no answer")


def write_lock(root: Path, lock: Lock) -> None:
    """A lock that counts as current, and whose text nobody will install."""
    folder = root / "results" / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    lock = msgspec.structs.replace(lock, as_of=DAY, digest="" if lock.failure else empty)
    (folder / f"{lock.stack}.json").write_bytes(msgspec.json.encode(lock))
    (folder / f"{lock.stack}.txt").write_text("", encoding="utf-8")


@pytest.fixture(autouse=True)
def _wide_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed goes to a file, whatever the machine's settings: no colours, no wrapped line."""
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project of two locked stacks that lack what its only scenario needs: every cell is unsupported."""
    (tmp_path / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "sums.py").write_text(
        textwrap.dedent(SUMS).lstrip(), encoding="utf-8"
    )
    for stack in ("first", "second"):
        write_lock(tmp_path, make_lock(stack))
    return tmp_path


def outcomes(root: Path) -> dict[str, str]:
    """What matrix.json says of each cell."""
    cells = json.loads((root / "results" / "matrix.json").read_bytes())["cells"]
    return {
        "/".join((cell["stack"], cell["scenario"], cell["variant"])): cell["outcome"]
        for cell in cells
    }


def test_a_run_records_publishes_and_prints(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The core stacks, when none is named."""
    assert 0 == main(["run", "--root", str(root)])
    unsupported = dict.fromkeys(("first/sums/plain", "first/sums/frozen"), "setup:unsupported")
    assert unsupported == outcomes(root)
    printed = capsys.readouterr().out
    assert "first: 0 cells run, 0 kept, 2 settled without running" in printed
    assert "Does it train? (cpu)" in printed


def test_a_second_run_keeps_everything(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And changes no byte of results/."""
    main(["run", "--root", str(root)])
    before = {path: path.read_bytes() for path in (root / "results").rglob("*") if path.is_file()}
    capsys.readouterr()
    assert 0 == main(["run", "--root", str(root), "--explain"])
    printed = capsys.readouterr().out
    assert "first: 0 cells run, 2 kept, 0 settled" in printed
    assert (
        "keep     first/sums/plain/cpu: needs a-library-of-another-day, which this stack does not have"
        in printed
    )
    assert before == {
        path: path.read_bytes() for path in (root / "results").rglob("*") if path.is_file()
    }


def test_all_runs_every_stack(root: Path) -> None:
    """Not only the core ones."""
    main(["run", "--root", str(root), "--all", "--no-table"])
    assert {"first", "second"} == {cell.partition("/")[0] for cell in outcomes(root)}


def test_a_run_is_narrowed_by_stack_and_cell(root: Path) -> None:
    """A named stack, a named cell."""
    main(["run", "second", "--root", str(root), "--cell", "sums/frozen"])
    assert ["second/sums/frozen"] == list(outcomes(root))


def test_without_a_table_only_the_summary_is_printed(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The files are written all the same."""
    main(["run", "--root", str(root), "--no-table"])
    assert "Does it train?" not in capsys.readouterr().out
    assert 2 == len(outcomes(root))


def test_results_can_go_elsewhere(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The checkout's own results are left alone."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    main(["run", "--root", str(root), "--results", str(elsewhere)])
    assert ((elsewhere / "matrix.md").exists(), (root / "results" / "matrix.md").exists()) == (
        True,
        False,
    )


def test_a_stack_that_cannot_be_resolved_fills_its_column(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It never disappears, and it is told once."""
    write_lock(root, make_lock("first", versions={}, failure=CONFLICT))
    assert 0 == main(["run", "--root", str(root)])
    assert {"resolve:conflict"} == set(outcomes(root).values())
    printed = capsys.readouterr().out
    assert ("Did not pass: 1 control, 1 misuse" in printed, "\x1b" in printed) == (True, False)
    assert 1 == printed.count("✗ first  all of its cells  resolve:conflict")


def test_strict_makes_a_failure_the_exit_code(root: Path) -> None:
    """For CI; what was not judged is no failure."""
    assert 0 == main(["run", "--root", str(root), "--strict"])
    write_lock(root, make_lock("first", versions={}, failure=CONFLICT))
    assert 1 == main(["run", "--root", str(root), "--strict"])


def test_what_speaks_of_the_machine_ends_with_2(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stack was not judged: what to mend, and that nothing is lost."""
    write_lock(root, make_lock("first", versions={}, failure=UNREACHABLE))
    assert 2 == main(["run", "--root", str(root)])
    assert [
        "gradmatrix: Stack first was not judged: resolve:index-unreachable.",
        "  why:  no answer",
        "  next: mend that and run the same command again; what has been recorded is kept",
    ] == capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "frist"], "There is no stack 'frist' in the matrix.|perhaps you meant 'first'"),
        (["run", "--scenario", "sum"], "There is no scenario 'sum'.|perhaps you meant 'sums'"),
        (["run", "--cell", "sum/plain"], "There is no scenario 'sum'.|perhaps you meant 'sums'"),
        (
            ["run", "--cell", "sums/plian"],
            "There is no variant of sums 'plian'.|perhaps you meant 'plain'",
        ),
        (
            ["run", "--cell", "sums"],
            "--cell sums names no variant.|a cell is written SCENARIO/VARIANT",
        ),
        (["run", "--device", "cpus"], "There is no device 'cpus'.|perhaps you meant 'cpu'"),
        (
            ["lock", "secnod"],
            "There is no stack 'secnod' in the matrix.|perhaps you meant 'second'",
        ),
        (
            ["table", "secnod"],
            "There is no stack 'secnod' in the matrix.|perhaps you meant 'second'",
        ),
        (
            ["isolation", "secnod"],
            "There is no stack 'secnod' in the matrix.|perhaps you meant 'second'",
        ),
        (
            ["isolation", "first", "--scenario", "smus"],
            "There is no scenario 'smus'.|perhaps you meant 'sums'",
        ),
        (
            ["bench", "secnod"],
            "There is no stack 'secnod' in the matrix.|perhaps you meant 'second'",
        ),
        (
            ["list", "--matrix", "nowhere.toml"],
            "There is no file nowhere.toml.|run the command in the root of the project",
        ),
    ],
)
def test_an_unknown_word_gets_a_suggestion_and_2(
    root: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    """On the error stream, without a traceback."""
    assert 2 == main([*arguments, "--root", str(root)])
    printed = capsys.readouterr()
    assert [] == [part for part in expected.split("|") if part not in printed.err]
    assert "" == printed.out


def test_an_unknown_key_of_matrix_toml_gets_a_suggestion_and_2(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command reads the file first."""
    (root / "matrix.toml").write_text(
        MATRIX.replace("requirements", "requirments", 1), encoding="utf-8"
    )
    assert 2 == main(["list", "--root", str(root)])
    told = capsys.readouterr().err
    assert "unknown key 'requirments' in stack 'first'" in told
    assert "perhaps you meant 'requirements'" in told


def test_a_broken_scenario_ends_with_2(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A user never sees a traceback of ours for bad input."""
    (root / "scenarios" / "sums.py").write_text("VARIANTS = dict()", encoding="utf-8")
    assert 2 == main(["list", "--root", str(root)])
    assert "gradmatrix: sums.py VARIANTS is no literal" in capsys.readouterr().err


def test_an_interrupt_ends_with_130(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says that what was done is kept."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(publication, "publish", interrupted)
    assert 130 == main(["run", "--root", str(root)])
    assert "every finished cell is recorded" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_helps(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What it does, and its options."""
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert (0, f"usage: gradmatrix {command}") == (
        ended.value.code,
        capsys.readouterr().out.partition(" [")[0],
    )


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """One line each."""
    with pytest.raises(SystemExit):
        main(["--help"])
    first_words = [
        line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("    ")
    ]
    assert COMMANDS == [word for word in first_words if word in COMMANDS]


@pytest.mark.parametrize("arguments", [[], ["runn"], ["run", "--fsh"], ["isolation"]])
def test_arguments_that_cannot_be_read_end_with_2(arguments: list[str]) -> None:
    """As argparse has it."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert 2 == ended.value.code


def test_the_list_names_stacks_scenarios_and_variants(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What there is to choose from."""
    assert 0 == main(["list", "--root", str(root)])
    assert [
        "first as of 2026-01-15 core The first one",
        "second as of 2026-01-15",
        "sums: Sums of two",
        "1 control, 1 misuse",
        "plain control as it is",
        "frozen misuse as it should not be",
    ] == [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_the_table_shows_what_is_recorded(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is run; a named stack is one column."""
    project = Project.at(root)
    for stack in ("first", "second"):
        project.store.append(
            make_record("step:exception", make_cell(stack, "sums", "plain"), message=f"of {stack}")
        )
    assert 0 == main(["table", "second", "--root", str(root)])
    printed = capsys.readouterr().out
    assert ("of second" in printed, "of first" in printed) == (True, False)
    assert {"first/sums/plain", "second/sums/plain"} == set(outcomes(root))


def test_what_cannot_be_read_of_the_records_is_told(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A warning, not a failure."""
    records = root / ".gradmatrix" / "records"
    records.mkdir(parents=True)
    (records / "first.jsonl").write_text('{"schema":7}\n', encoding="utf-8")
    assert 0 == main(["run", "--root", str(root)])
    warnings = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("warning: ")
    ]
    assert [
        "warning: first.jsonl, line 1 was skipped: it has schema 7, this release reads 1"
    ] == warnings


def test_a_dropped_environment_is_gone(root: Path) -> None:
    """Room for the next stack."""
    environment = root / ".gradmatrix" / "environments" / "first"
    environment.mkdir(parents=True)
    main(["run", "--root", str(root), "--drop-environments"])
    assert not environment.exists()
