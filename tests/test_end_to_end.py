"""The whole program on a real historical stack: Lightning 2.0.3 with the libraries of its day."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gradmatrix.cli.main import main
from gradmatrix.core.model import Cell, Record
from gradmatrix.judge.diagnosis import diagnose
from gradmatrix.run import scenarios
from gradmatrix.run.store import decode
from tests.conftest import OLDEST, ROOT, needs_fork, python_of, waits_until

if TYPE_CHECKING:
    from collections.abc import Iterable

CHOSEN = ("t5_classifier", "amp_manual_optimization")
COMMAND = [
    "run",
    OLDEST,
    "--device",
    "cpu",
    *(word for name in CHOSEN for word in ("--scenario", name)),
]

pytestmark = needs_fork


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of one run."""
    folder = new_results(tmp_path_factory.mktemp("finished"))
    assert 0 == main([*COMMAND, "--results", str(folder)])
    return folder


def new_results(folder: Path) -> Path:
    """An empty results folder. The environments are those of this checkout."""
    python_of(OLDEST)
    return folder


def journal_of(results: Path) -> Path:
    """The file to which each cell is appended when it ends."""
    return results / ".gradmatrix" / "records" / f"{OLDEST}.jsonl"


def records_of(results: Path) -> list[Record]:
    """Every line of the journal in order. A line that is no record is an error."""
    return [decode(line) for line in journal_of(results).read_bytes().splitlines()]


def cells() -> set[Cell]:
    """The cells that the command must run."""
    return {
        Cell(stack=OLDEST, scenario=name, variant=variant.name, device="cpu")
        for name in CHOSEN
        for variant in scenarios.load(ROOT / "scenarios" / f"{name}.py").variants
    }


def explained(output: str, action: str) -> set[str]:
    """The cells for which ``--explain`` prints this action."""
    return set(re.findall(rf"^{action}\s+(\S+):", output, re.MULTILINE))


def names(cells: Iterable[Cell]) -> set[str]:
    """The cells as printed."""
    return {str(cell) for cell in cells}


def processes_in(folder: Path) -> list[str]:
    """Command lines of the running processes that name ``folder``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().decode().replace("\0", " "))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return [line for line in found if str(folder) in line]


@pytest.mark.parametrize(
    ("scenario", "variant", "outcome"),
    [
        ("t5_classifier", "torch_adamw", "trains"),
        ("t5_classifier", "hf_adafactor", "step:no-grad-fn"),
        ("t5_classifier", "closure_enable_grad", "trains"),
        ("amp_manual_optimization", "full_precision", "trains"),
        ("amp_manual_optimization", "reported", "step:no-grad-fn"),
        ("amp_manual_optimization", "cache_disabled", "trains"),
    ],
)
def test_a_historical_failure_is_reproduced(
    results: Path, scenario: str, variant: str, outcome: str
) -> None:
    """The reported variant fails as reported. The control and the remedy train."""
    cell = Cell(stack=OLDEST, scenario=scenario, variant=variant, device="cpu")
    record = next(record for record in records_of(results) if record.cell == cell)
    assert (outcome, outcome == "trains") == (record.outcome, record.passed)
    assert record.observation is not None
    assert () == record.observation.observer_errors


def test_the_line_that_switched_gradients_off_is_named(results: Path) -> None:
    """With T5 it is the optimizer's step, in a library and not in the script."""
    record = next(record for record in records_of(results) if record.cell.variant == "hf_adafactor")
    assert record.observation is not None
    found = diagnose(record.observation)
    assert found is not None
    assert found.place is not None
    assert ("t5.shared", "transformers/optimization.py", "step") == (
        found.module,
        found.place.file,
        found.place.function,
    )


def test_every_cell_is_recorded_once_and_published(results: Path) -> None:
    """The journal and the published records have no path of this machine."""
    assert cells() == {record.cell for record in records_of(results)}
    assert len(cells()) == len(records_of(results))
    published = (results / "records" / f"{OLDEST}.jsonl").read_bytes()
    assert cells() == {decode(line).cell for line in published.splitlines()}
    assert str(ROOT).encode() not in published


def test_an_unchanged_matrix_runs_nothing(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second time every cell is kept. No server starts and no file changes."""
    files = [path for path in sorted(results.rglob("*")) if path.is_file()]
    before = [(path, path.stat().st_mtime_ns, path.read_bytes()) for path in files]
    assert 0 == main([*COMMAND, "--explain", "--no-table", "--results", str(results)])
    output = capsys.readouterr().out
    assert (names(cells()), set()) == (explained(output, "keep"), explained(output, "run"))
    assert f"0 cells ran, {len(cells())} are up to date, 0 need no run\n" in output
    assert before == [(path, path.stat().st_mtime_ns, path.read_bytes()) for path in files]


def test_a_failure_is_found_by_a_strict_run(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 1, and the command to repeat the cell is printed."""
    arguments = [
        "run",
        OLDEST,
        "--device",
        "cpu",
        "--cell",
        "t5_classifier/hf_adafactor",
        "--strict",
    ]
    assert 1 == main([*arguments, "--results", str(results)])
    assert (
        f"gradmatrix run {OLDEST} --cell t5_classifier/hf_adafactor --fresh"
        in capsys.readouterr().out
    )


@pytest.mark.slow
def test_forks_and_fresh_processes_agree(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The sample has a cell that trains and one that fails."""
    sample = [
        "t5_classifier/hf_adafactor",
        "amp_manual_optimization/torch_only",
        "amp_manual_optimization/clear_cache",
    ]
    words = [word for cell in sample for word in ("--cell", cell)]
    assert 0 == main(["isolation", OLDEST, *words, "--results", str(results)])
    assert f"{OLDEST}: 3 cells compared" in capsys.readouterr().out


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No finished cell is lost or runs again.

    No process is left, and in the end all cells are there.
    """
    results = new_results(tmp_path / "results")
    workplaces = results / ".gradmatrix" / "work"
    arguments = [*COMMAND, "--no-table", "--results", str(results)]
    command = [sys.executable, "-m", "gradmatrix", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as killed:
        try:
            journal = journal_of(results)
            # cells that need no run are recorded before the first that runs
            assert waits_until(
                lambda: journal.exists() and journal.read_bytes().count(b'"observation":{') >= 3
            )
        finally:
            killed.kill()
    assert waits_until(lambda: not processes_in(workplaces))
    assert [] != list(workplaces.iterdir())
    finished = records_of(results)
    assert 3 <= len(finished) < len(cells())

    assert 0 == main([*arguments, "--explain"])
    output = capsys.readouterr().out
    kept = {record.cell for record in finished}
    assert (names(kept), names(cells() - kept)) == (
        explained(output, "keep"),
        explained(output, "run"),
    )
    assert finished == records_of(results)[: len(finished)]
    assert sorted(cells()) == sorted(record.cell for record in records_of(results))
    assert [] == list(workplaces.iterdir())


def test_an_unknown_cell_is_bad_input(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 2, with a suggestion and no traceback."""
    assert 2 == main(
        ["run", OLDEST, "--cell", "t5_classifier/hf_adafacto", "--results", str(results)]
    )
    assert "perhaps you meant 'hf_adafactor'" in capsys.readouterr().err
