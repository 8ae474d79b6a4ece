"""Arguments, printing and exit codes, on small projects whose cells need nothing to be run."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import msgspec
import pytest

from gradmatrix import __version__
from gradmatrix.cli.main import main
from gradmatrix.core.model import Failure, Lock
from gradmatrix.judge.causes import Cause
from gradmatrix.publish import publication
from gradmatrix.run.project import Project
from tests.factories import DAY, make_cell, make_lock, make_record

if TYPE_CHECKING:
    import datetime as dt
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
OF_SCRIPTS = (
    MATRIX.replace('["sums"]', "[]")
    + """
[[scripts]]
name = "train"
path = "train.py"
"""
)
"""A project that runs its own script alone."""
SUMS = '''
"""Sums of two."""

NEEDS = ("torch", "a-library-of-another-day")
VARIANTS = {
    "plain": {"role": "control", "summary": "as it is"},
    "frozen": {"role": "misuse", "summary": "as it should not be"},
}
'''
COMMANDS = ["init", "run", "lock", "table", "publish", "isolation", "list"]
CONFLICT = Failure(outcome="resolve:conflict", message="a needs b<1,\n\x1b[31mc needs b>2")
UNREACHABLE = Failure(outcome="resolve:index-unreachable", message="no answer")


def write_lock(root: Path, lock: Lock, as_of: dt.date = DAY) -> None:
    """Write a lock that counts as current. Its text is empty, because nothing installs it."""
    folder = root / "results" / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    lock = msgspec.structs.replace(lock, as_of=as_of, digest="" if lock.failure else empty)
    (folder / f"{lock.stack}.json").write_bytes(msgspec.json.encode(lock))
    (folder / f"{lock.stack}.txt").write_text("", encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project of two locked stacks. They lack what its only scenario needs.

    So every cell is unsupported, and nothing is installed or run.
    """
    (tmp_path / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "sums.py").write_text(
        textwrap.dedent(SUMS).lstrip(), encoding="utf-8"
    )
    for stack in ("first", "second"):
        write_lock(tmp_path, make_lock(stack))
    return tmp_path


def outcomes(root: Path, results: str = "results/local") -> dict[str, str]:
    """The outcome of each cell in the matrix.json of this folder."""
    cells = json.loads((root / results / "matrix.json").read_bytes())["cells"]
    return {
        "/".join((cell["stack"], cell["scenario"], cell["variant"])): cell["outcome"]
        for cell in cells
    }


def test_a_run_records_its_cells_and_prints_a_summary(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a name, the core stacks run."""
    assert 0 == main(["run", "--root", str(root)])
    unsupported = dict.fromkeys(("first/sums/plain", "first/sums/frozen"), "setup:unsupported")
    assert unsupported == outcomes(root)
    printed = capsys.readouterr().out
    assert "first: 0 cells ran, 0 are up to date, 2 need no run" in printed
    assert "No cell of these stacks was judged." in printed


def test_a_run_publishes_nothing(root: Path) -> None:
    """Only files that git ignores are new."""
    before = {path for path in root.rglob("*") if path.is_file()}
    main(["run", "--root", str(root)])
    new = {path.relative_to(root).parts[:2] for path in root.rglob("*") if path.is_file()} - {
        path.relative_to(root).parts[:2] for path in before
    }
    assert {("results", "local")} == {parts for parts in new if parts[0] != ".gradmatrix"}


def test_publish_writes_records_history_tables_and_pages(root: Path) -> None:
    """With --local it writes only tables and pages, into another folder."""
    main(["run", "--root", str(root)])
    assert 0 == main(["publish", "--local", "--root", str(root)])
    published = [root / "results" / name for name in ("index.html", "records", "history")]
    assert [False, False, False] == [path.exists() for path in published]
    assert (root / "results" / "local" / "index.html").exists()
    assert 0 == main(["publish", "--root", str(root)])
    assert [True, True, True] == [path.exists() for path in published]


def test_a_second_run_runs_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It changes no byte of results/."""
    main(["run", "--root", str(root)])
    before = {path: path.read_bytes() for path in (root / "results").rglob("*") if path.is_file()}
    capsys.readouterr()
    assert 0 == main(["run", "--root", str(root), "--explain"])
    printed = capsys.readouterr().out
    assert "first: 0 cells ran, 2 are up to date, 0 need no run" in printed
    why = "needs a-library-of-another-day, which this stack does not have"
    assert f"keep     first/sums/plain/cpu: {why}" in printed
    assert before == {
        path: path.read_bytes() for path in (root / "results").rglob("*") if path.is_file()
    }


def test_why_says_which_machine_lacks_the_device(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message of the record calls it "this machine", but the reader may use another one."""
    cell, message = make_cell("first", "sums", "plain", "cuda"), "this machine has no cuda device"
    Project.at(root).store.append(
        make_record("setup:no-device", cell, passed=None, message=message)
    )
    assert 0 == main(["why", str(cell), "--root", str(root)])
    assert [
        "first/sums/plain/cuda: setup:no-device",
        (
            "  The cell was not run, because the machine that made this record has no cuda device. "
            "To run it on a machine that has one: gradmatrix run first --cell sums/plain "
            "--device cuda"
        ),
    ] == capsys.readouterr().out.splitlines()


def test_why_finds_a_message(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Capitals and quotes do not matter. If nothing matches, it says so."""
    message = "RuntimeError: element 0 of tensors does not require grad"
    cell = make_cell("first", "sums", "plain", "cpu")
    Project.at(root).store.append(
        make_record("step:no-grad-fn", cell, passed=False, message=message)
    )
    assert 0 == main(["why", *message.upper().split(), "--root", str(root)])
    assert [
        message,
        "  1 cell of the matrix: 1 fail",
        "",
        "  step:no-grad-fn",
        "    1 cell, for example first/sums/plain:",
    ] == capsys.readouterr().out.splitlines()[:5]
    assert 1 == main(["why", "an unheard-of zebra", "--root", str(root)])
    assert "No message of the matrix matches" in capsys.readouterr().out


def test_why_finds_a_message_in_a_log(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Colours, numbers and other words do not matter. What is only near is called a guess."""
    message = "RuntimeError: element 0 of tensors does not require grad"
    Project.at(root).store.append(
        make_record("step:no-grad-fn", make_cell("first", "sums"), passed=False, message=message)
    )
    log = "\x1b[31m训练报错 UserWarning: element 7 of\n tensors does not require gra\x1b[0m 怎么办"
    assert 0 == main(["why", log, "--root", str(root)])
    assert message == capsys.readouterr().out.splitlines()[0]
    (root / "train.log").write_text(log, encoding="utf-8")
    monkeypatch.setattr("sys.stdin", io.StringIO(log))
    for where in (str(root / "train.log"), "-"):
        assert 0 == main(["why", where, "--root", str(root)])
        assert message == capsys.readouterr().out.splitlines()[0]
    assert 1 == main(["why", "which tensors have an element", "--root", str(root)])
    assert [
        "No message of the matrix matches. gradmatrix trace SCRIPT looks at your own script.",
        "The nearest messages, which are guesses:",
        f"  {message}",
    ] == capsys.readouterr().out.splitlines()


def test_why_fits_into_a_narrow_terminal(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines are folded between words, and each idea begins a line."""
    monkeypatch.setenv("COLUMNS", "60")
    message = f"RuntimeError: {'a long message of a library ' * 6}"
    Project.at(root).store.append(
        make_record("step:exception", make_cell("first", "sums"), passed=False, message=message)
    )
    for asked in (message, "first/sums/plain", "checkpoint-inputs", "step:exception"):
        assert 0 == main(["why", asked, "--root", str(root)])
        code = [line for line in capsys.readouterr().out.splitlines() if len(line) > 60]
        assert {line[4:] for line in code} <= set(Cause.CHECKPOINT_INPUTS.mend.split("\n"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("step:no-grad-fn", "no path from it to any parameter|first/sums/plain"),
        ("process:signal-9", "killed by a signal"),
        ("update:unseen", "nothing happened that is watched"),
        ("not-registered", "Register it as nn.ModuleList|in a plain list|self.layers = nn.Module"),
    ],
)
def test_why_explains_a_cause_or_an_outcome(
    root: Path, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    """What it means, where the matrix has it, and what mends it, if that is known."""
    record = make_record("step:no-grad-fn", make_cell("first", "sums"), passed=False, message="no")
    Project.at(root).store.append(record)
    assert 0 == main(["why", name, "--root", str(root)])
    printed = capsys.readouterr().out
    assert (name, True) == (printed.partition(": ")[0], all(w in printed for w in words.split("|")))


def test_why_suggests_a_name_for_a_mistyped_one(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It matches no message, so the exit code is 1."""
    assert 1 == main(["why", "not-registred", "--root", str(root)])
    assert "'not-registred' (perhaps you meant 'not-registered')" in capsys.readouterr().out


def test_all_runs_every_stack(root: Path) -> None:
    """Without --all, only the core stacks run."""
    main(["run", "--root", str(root), "--all", "--no-table"])
    assert {"first", "second"} == {cell.partition("/")[0] for cell in outcomes(root)}


def test_a_budget_means_every_stack_and_says_what_was_used(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cells that need no run cost nothing."""
    assert 0 == main(["run", "--root", str(root), "--budget", "1cell", "--no-table"])
    assert {"first", "second"} == {cell.partition("/")[0] for cell in outcomes(root)}
    assert "budget: 0 stacks ran: 0 cells" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "ran"), [((), 1), (("--further",), 2), (("--scenario", "more"), 1), (("--all",), 4)]
)
def test_further_scenarios_run_only_if_they_are_asked_for(
    root: Path, words: tuple[str, ...], ran: int
) -> None:
    """By --further, by their name, or by --all."""
    scenario = (root / "scenarios" / "sums.py").read_text(encoding="utf-8")
    (root / "scenarios" / "more.py").write_text(scenario, encoding="utf-8")
    matrix = root / "matrix.toml"
    text = matrix.read_text(encoding="utf-8").replace("[run]\n", '[run]\nfurther = ["more"]\n')
    matrix.write_text(text, encoding="utf-8")
    main(["run", "--root", str(root), *words])
    assert ran == len({cell.rpartition("/")[0] for cell in outcomes(root)})


def test_a_run_can_be_limited_to_a_stack_and_a_cell(root: Path) -> None:
    """Only the named cell of the named stack is recorded."""
    main(["run", "second", "--root", str(root), "--cell", "sums/frozen"])
    assert ["second/sums/frozen"] == list(outcomes(root))


def test_without_a_table_only_the_summary_is_printed(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The files are written nevertheless."""
    main(["run", "--root", str(root), "--no-table"])
    assert "No cell of these" not in capsys.readouterr().out
    assert 2 == len(outcomes(root))


def test_results_can_go_to_another_folder(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The checkout's own results do not change."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    main(["run", "--root", str(root), "--results", str(elsewhere)])
    assert ((elsewhere / "matrix.md").exists(), (root / "results" / "matrix.md").exists()) == (
        True,
        False,
    )


def test_a_stack_that_cannot_be_resolved_is_the_outcome_of_all_its_cells(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stack does not disappear from the matrix, and its failure is printed once."""
    write_lock(root, make_lock("first", versions={}, failure=CONFLICT))
    assert 0 == main(["run", "-v", "--root", str(root)])
    assert {"resolve:conflict"} == set(outcomes(root).values())
    printed = capsys.readouterr().out
    assert ("Did not pass: 1 control, 1 misuse" in printed, "\x1b" in printed) == (True, False)
    assert 1 == printed.count("✗ first  all of its cells  resolve:conflict")


def test_strict_exits_with_1_if_a_cell_fails(root: Path) -> None:
    """A cell that was not judged is not a failure."""
    assert 0 == main(["run", "--root", str(root), "--strict"])
    write_lock(root, make_lock("first", versions={}, failure=CONFLICT))
    assert 1 == main(["run", "--root", str(root), "--strict"])


def test_a_failure_of_the_machine_exits_with_2(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says what to fix, and that finished cells are kept."""
    write_lock(root, make_lock("first", versions={}, failure=UNREACHABLE))
    assert 2 == main(["run", "--root", str(root)])
    assert [
        "gradmatrix: Stack first was not judged: resolve:index-unreachable.",
        "  why:  no answer",
        "  next: Fix this and run the command again. Finished cells are kept.",
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
            ["list", "--matrix", "nowhere.toml"],
            "There is no file nowhere.toml.",
        ),
    ],
)
def test_an_unknown_word_gets_a_suggestion_and_exits_with_2(
    root: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    """On the error stream, without a traceback."""
    assert 2 == main([*arguments, "--root", str(root)])
    printed = capsys.readouterr()
    assert [] == [part for part in expected.split("|") if part not in printed.err]
    assert "" == printed.out


def test_an_unknown_key_of_matrix_toml_gets_a_suggestion_and_exits_with_2(
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


def test_a_scenario_that_cannot_be_read_exits_with_2(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad input never shows a traceback of this program."""
    (root / "scenarios" / "sums.py").write_text("VARIANTS = dict()", encoding="utf-8")
    assert 2 == main(["list", "--root", str(root)])
    assert "gradmatrix: sums.py VARIANTS is not a literal" in capsys.readouterr().err


def test_an_interrupt_exits_with_130(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says that finished cells are kept."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(publication, "publish", interrupted)
    assert 130 == main(["run", "--root", str(root)])
    assert "Finished cells are kept" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What it does, and its options."""
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert (0, f"usage: gradmatrix {command}") == (
        ended.value.code,
        capsys.readouterr().out.partition(" [")[0],
    )


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """With one line for each."""
    with pytest.raises(SystemExit):
        main(["--help"])
    first_words = [
        line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("    ")
    ]
    assert COMMANDS == first_words[: len(COMMANDS)]


@pytest.mark.parametrize("arguments", [[], ["runn"], ["run", "--fsh"], ["isolation"]])
def test_arguments_that_cannot_be_read_exit_with_2(arguments: list[str]) -> None:
    """As argparse does it."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert 2 == ended.value.code


def test_the_list_names_stacks_scenarios_and_variants(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything that a user can choose."""
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
    """Nothing is run. A named stack is the only column."""
    project = Project.at(root)
    for stack in ("first", "second"):
        project.store.append(
            make_record("step:exception", make_cell(stack, "sums", "plain"), message=f"of {stack}")
        )
    assert 0 == main(["table", "second", "-v", "--root", str(root)])
    printed = capsys.readouterr().out
    assert ("of second" in printed, "of first" in printed) == (True, False)
    assert {"first/sums/plain", "second/sums/plain"} == set(outcomes(root))


def test_a_record_that_cannot_be_read_is_a_warning(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not a failure."""
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


def test_the_checkout_is_found_from_a_folder_below_it(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As git does it."""
    monkeypatch.chdir(root / "scenarios")
    assert 0 == main(["list"])
    assert "The first one" in capsys.readouterr().out


def test_without_a_checkout_the_error_says_what_was_looked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed wheel has no checkout to use instead."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gradmatrix.run.project.PACKAGE", tmp_path / "a" / "b")
    assert 2 == main(["list"])
    told = capsys.readouterr().err
    assert f"there is none in {tmp_path} or in a folder above it" in told
    assert "--root DIR" in told


def test_version_prints_the_version_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 0."""
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert f"gradmatrix {__version__}\n" == capsys.readouterr().out


def test_help_imports_nothing_heavy() -> None:
    """A large library is imported only by the command that needs it."""
    code = (
        "import sys\nfrom gradmatrix.cli.main import parser\nparser().format_help()\n"
        "heavy = {'msgspec', 'rich', 'pandas', 'jinja2', 'scipy', 'packaging', 'pyarrow', 'uv'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert "[]\n" == printed.stdout


def test_lock_keeps_existing_locks(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also the lock of a stack as of today, unless the stack is named."""
    text = MATRIX.replace("as_of = 2026-01-15", 'as_of = "today"', 1)
    (root / "matrix.toml").write_text(text, encoding="utf-8")
    assert 0 == main(["lock", "--root", str(root)])
    assert "Every stack has a lock." in capsys.readouterr().out


def test_drop_environments_deletes_the_environment(root: Path) -> None:
    """This makes room for the next stack."""
    environment = root / ".gradmatrix" / "environments" / "first"
    environment.mkdir(parents=True)
    main(["run", "--root", str(root), "--drop-environments"])
    assert not environment.exists()
