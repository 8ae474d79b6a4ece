"""Users' own scripts run in real environments as ``python path arguments`` would run them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gradmatrix.cli.main import main
from gradmatrix.run.store import decode
from tests.conftest import FAKES, NEWEST, OLDEST, ROOT, needs_fork, python_of

if TYPE_CHECKING:
    from pathlib import Path

    from gradmatrix.core.model import Record

FOLDER = FAKES / "user_scripts"
SCRIPTS: dict[str, tuple[str, list[str]]] = {
    "plain": ("plain.py", ["--steps", "100"]),
    "two_steps": ("plain.py", ["--steps", "2"]),
    "mistyped": ("plain.py", ["--stops", "100"]),
    "no_gradient": ("no_gradient.py", []),
    "forked_workers": ("workers.py", ["fork"]),
    "spawned_workers": ("workers.py", ["spawn"]),
    "in_its_directory": ("reads_a_file.py", []),
    "elsewhere": ("reads_a_file.py", []),
    "no_python": ("no_python.py.txt", []),
    "library": ("names_a_library.py", []),
    "shadowing": ("shadowing/trains.py", []),
    "library_again": ("names_a_library.py", []),
    "unsupported": ("plain.py", []),
    "packaged": ("imports_a_package.py", []),
    **{
        how: ("ending.py", [how])
        for how in (
            "early", "early_exit_0", "early_exit_3", "early_exit_words", "early_exception",
            "early_skip", "late", "late_cleaning_up", "late_and_swallowing",
        )
    },
}  # fmt: skip
EXTRA = {
    "in_its_directory": 'directory = "data"',
    "unsupported": 'needs = ["torch>=99"]',
    "packaged": f"packages = [{json.dumps(str(FOLDER / 'packages'))}]",
}
OUTCOMES = {
    "plain": "trains",
    "two_steps": "trains",
    "mistyped": "process:exit-2",
    "no_gradient": "step:no-grad-fn",
    "forked_workers": "trains",
    "spawned_workers": "trains",
    "in_its_directory": "trains",
    "elsewhere": "setup:exception",
    "no_python": "import:exception",
    "library": "process:exit-41",
    "shadowing": "process:exit-50",
    "library_again": "process:exit-41",
    "unsupported": "setup:unsupported",
    "packaged": "trains",
    "early": "trains",
    "early_exit_0": "trains",
    "early_exit_3": "process:exit-3",
    "early_exit_words": "process:exit-1",
    "early_exception": "step:exception",
    "early_skip": "setup:unsupported",
    "late": "trains",
    "late_cleaning_up": "trains",
    "late_and_swallowing": "trains",
}
IN_FRESH_PROCESSES = {"plain": "trains", "packaged": "trains", "library": "process:exit-40"}

pytestmark = [needs_fork, pytest.mark.slow]

Records = dict[tuple[str, str], "Record"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A matrix file with all the scripts and the stacks of this checkout, but no scenario."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "data").mkdir()
    (folder / "data" / "numbers.txt").write_text("1 2 3\n", encoding="ascii")
    tables = [
        f"[[scripts]]\nname = {json.dumps(name)}\npath = {json.dumps(str(FOLDER / path))}\n"
        f"arguments = {json.dumps(arguments)}\n{EXTRA.get(name, '')}\n"
        for name, (path, arguments) in SCRIPTS.items()
    ]
    tables_of_ours = (ROOT / "matrix.toml").read_text(encoding="utf-8").partition("\n[generate")[0]
    stacks = tables_of_ours.partition("[[stacks]]")
    text = '[run]\ndevices = ["cpu"]\nscenarios = []\n' + "".join(tables) + "".join(stacks[1:])
    (folder / "matrix.toml").write_text(text, encoding="utf-8")
    return folder


def command(project: Path, *words: str) -> int:
    """Run the command line on that matrix."""
    python_of(OLDEST), python_of(NEWEST)
    return main(
        [*words, "--matrix", str(project / "matrix.toml"), "--results", str(project / "results")]
    )


def records(folder: Path) -> Records:
    """The newest record of each script, by stack and name."""
    lines = [
        line for path in sorted(folder.glob("*.jsonl")) for line in path.read_bytes().splitlines()
    ]
    return {(record.cell.stack, record.cell.scenario): record for record in map(decode, lines)}


@pytest.fixture(scope="module")
def ran(project: Path) -> Records:
    """Every script in both stacks, from forks."""
    assert 0 == command(project, "run", OLDEST, NEWEST, "--no-table")
    return records(project / "results" / ".gradmatrix" / "records")


@pytest.fixture(scope="module")
def ran_fresh(project: Path, ran: Records) -> Records:
    """Some of them in a fresh process each."""
    words = [word for name in IN_FRESH_PROCESSES for word in ("--cell", f"{name}/script")]
    assert 1 == command(
        project, "isolation", NEWEST, *words
    )  # the library's script tells the two apart
    return records(project / "results" / ".gradmatrix" / "records-fresh")


@pytest.mark.parametrize("stack", [OLDEST, NEWEST])
@pytest.mark.parametrize("name", OUTCOMES)
def test_a_script_gets_its_outcome(ran: Records, stack: str, name: str) -> None:
    """What it trained until its end is judged. An exit code other than 0 is reported."""
    record = ran[stack, name]
    assert OUTCOMES[name] == record.outcome, record.message
    assert () == (record.observation.observer_errors if record.observation else ())


@pytest.mark.parametrize("name", IN_FRESH_PROCESSES)
def test_a_fresh_process_runs_it_as_well(ran_fresh: Records, name: str) -> None:
    """Nothing is imported ahead there."""
    assert (IN_FRESH_PROCESSES[name], "fresh") == (
        ran_fresh[NEWEST, name].outcome,
        ran_fresh[NEWEST, name].isolation,
    )


@pytest.mark.parametrize(
    ("name", "steps", "timed"), [("late", 20, 12), ("two_steps", 2, 0), ("early", 3, 0)]
)
def test_a_script_is_stopped_after_its_last_timed_step(
    ran: Records, name: str, steps: int, timed: int
) -> None:
    """It may also end before that."""
    seen = ran[NEWEST, name].observation
    assert seen is not None
    assert (steps, timed, "done", None) == (
        seen.steps,
        len(seen.step_times_s),
        seen.reached,
        seen.raised,
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mistyped", "plain.py: error: the following arguments are required: --steps"),
        ("early_exit_3", "could not write model.pt"),
        ("early_exit_words", "SystemExit: the disk is full"),
        ("early_exception", "FileNotFoundError: a.txt"),
        ("elsewhere", "No such file or directory: 'numbers.txt'"),
        ("unsupported", "needs torch>=99"),
    ],
)
def test_the_message_has_what_the_script_printed(ran: Records, name: str, message: str) -> None:
    """The folders in the script's message are removed."""
    assert message in ran[NEWEST, name].message


def test_no_folder_of_this_machine_is_recorded(project: Path, ran: Records) -> None:
    """The folders of the script and of the cell are removed."""
    files = [
        path
        for path in (project / "results").rglob("*.*")
        if path.suffix in {".jsonl", ".json", ".csv", ".md"}
    ]
    text = b"".join(path.read_bytes() for path in files if path.name != "published.json")
    assert (False, False) == (str(FOLDER).encode() in text, str(project).encode() in text)


def test_an_unchanged_script_is_not_run_again(
    project: Path, ran: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    """All cells are kept until an input changes."""
    assert 0 == command(project, "run", OLDEST, "--no-table")
    assert f"0 cells ran, {len(SCRIPTS)} are up to date" in capsys.readouterr().out


def test_scripts_are_listed_and_published_like_scenarios(
    project: Path, ran: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list shows what is run, and the matrix has a row."""
    assert 0 == command(project, "list")
    assert (
        "script                         control   plain.py --steps 100" in capsys.readouterr().out
    )
    assert 0 == command(project, "table")
    matrix = (project / "results" / "matrix.md").read_text(encoding="utf-8")
    assert "| **plain** | `script` | ✓ trains" in matrix


def test_a_mistyped_script_is_bad_input(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and a suggestion."""
    assert 2 == command(project, "run", OLDEST, "--scenario", "plane")
    assert "perhaps you meant 'plain'" in capsys.readouterr().err
