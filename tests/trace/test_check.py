"""Run the scenarios in an existing environment and compare with what is published."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from gradmatrix.cli.main import main
from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Role
from gradmatrix.judge.verdict import Ended
from gradmatrix.run import bundle
from gradmatrix.run.plan import Selection
from gradmatrix.run.project import Project
from gradmatrix.run.server import Answer
from gradmatrix.stacks.environment import installed
from gradmatrix.trace import check
from tests.cli.test_cli import MATRIX, OF_SCRIPTS, write_lock
from tests.conftest import OLDEST, ROOT, python_of
from tests.factories import (
    NOON,
    WITHOUT_GRAPH,
    make_cell,
    make_lock,
    make_lost,
    make_observation,
    make_raised,
    make_record,
    make_switch,
)
from tests.pretended import World, pretend

if TYPE_CHECKING:
    from pathlib import Path

    from gradmatrix.core.model import Record

SUMS = '''"""Sums of two."""

NEEDS = ("torch",)
VARIANTS = {
    "plain": {"role": "control", "summary": "as it is"},
    "reported": {"role": "reported", "summary": "as it was reported"},
    "frozen": {"role": "misuse", "summary": "as it should not be"},
    "newer": {"role": "remedy", "summary": "what is not to be had here", "needs": ("torch>=99",)},
}
'''
NO_GRAD_FN = make_raised("element 0 of tensors does not require grad and does not have a grad_fn")
FAILS = Answer(make_observation(raised=NO_GRAD_FN, reached="step"), Ended(exit=0), wall_s=0.5)
SWITCHED = msgspec.structs.replace(WITHOUT_GRAPH, grad_enabled=False, switch=make_switch())
SEEN_OFF = make_observation(
    raised=NO_GRAD_FN, reached="step", backward=(SWITCHED,), lost=(make_lost(),)
)
OFF = Answer(SEEN_OFF, Ended(exit=0), wall_s=0.5)


def publish(root: Path, *records: Record) -> None:
    """Put records into results/."""
    folder = root / "results" / "records"
    folder.mkdir(parents=True, exist_ok=True)
    for record in records:
        with (folder / f"{record.cell.stack}.jsonl").open("ab") as file:
            file.write(msgspec.json.encode(record) + b"\n")


def record_of(stack: str, variant: str, outcome: str, **fields: object) -> Record:
    """A published record."""
    return make_record(outcome, make_cell(stack, "sums", variant), **fields)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two published stacks: the reported variant fails on the older one."""
    (tmp_path / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "sums.py").write_text(SUMS, encoding="utf-8")
    write_lock(tmp_path, make_lock("first", versions={"torch": "2.6.0"}))
    write_lock(tmp_path, make_lock("second", versions={"torch": "2.13.0"}))
    publish(
        tmp_path,
        record_of("first", "plain", "trains"),
        record_of("first", "reported", "step:no-grad-fn", role=Role.REPORTED),
        record_of("second", "plain", "trains"),
        record_of("second", "reported", "trains", role=Role.REPORTED),
    )
    return tmp_path


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Pretended servers."""
    return pretend(monkeypatch)


def make_python(folder: Path, *packages: tuple[str, str]) -> Path:
    """A Python that prints its version and its packages, and can do nothing else."""
    path = folder / "python"
    found: list[dict[str, Any]] = [
        {"name": n, "version": v, "needs": [], "origin": None} for n, v in packages
    ]
    listed = json.dumps({"python": "3.11", "distributions": found})
    cases = f"""*find_spec*) echo '[[3, 11], "torch"]';; *) echo '{listed}';;"""
    text = f'#!/bin/sh\ncase "$*" in {cases} esac\n'
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def checked(root: Path, torch: str = "2.6.1", **selected: Any) -> check.Report:  # noqa: ANN401
    """A check of an environment with that torch."""
    return check.check(Project.at(root), make_python(root, ("torch", torch)), Selection(**selected))


def test_what_is_installed_is_a_lock() -> None:
    """It is the lock of the given Python, not of the one that runs this test."""
    lock = installed(python_of(OLDEST), threads=1)
    assert ("3.11", "2.0.3", "4.30.2") == (
        lock.python,
        lock.version("lightning"),
        lock.version("transformers"),
    )


def test_an_environment_without_torch_is_an_error(tmp_path: Path) -> None:
    """There is nothing to check."""
    with pytest.raises(UserError, match="has no torch"):
        installed(make_python(tmp_path, ("numpy", "2.0")), threads=1)


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 3\n", "#!/bin/sh\necho no JSON\n"])
def test_a_python_that_does_not_answer_is_an_error(tmp_path: Path, text: str) -> None:
    """It fails, or prints something else."""
    path = tmp_path / "python"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    with pytest.raises(UserError, match="cannot be listed"):
        installed(path, threads=1)


def test_of_two_copies_the_one_that_is_imported_counts(tmp_path: Path) -> None:
    """It is the first on the path."""
    python = make_python(tmp_path, ("Torch", "2.6.0"), ("torch", "1.0"))
    assert "2.6.0" == installed(python, threads=1).version("torch")


def test_a_failure_is_compared_with_the_published_stacks(root: Path, world: World) -> None:
    """The report has the nearest stack, and what separates the stacks that fail in the same way."""
    world.answers = {"reported": [FAILS]}
    report = checked(root)
    (failing,) = report.failing(misuse=False)
    assert ("first", "step:no-grad-fn", True) == (
        report.nearest,
        failing.nearest,
        failing.as_nearest,
    )
    assert failing.like is not None
    assert (
        "as on every published stack with torch up to 2.6.0 "
        "(not from 2.13.0 on; 2.6.1 lies between)" == failing.like.words
    )


def test_what_passes_here_and_fails_there_is_reported(root: Path, world: World) -> None:
    """The environment is better than the stack."""
    report = checked(root)
    assert (["reported"], []) == ([cell.variant for cell in report.better], report.unexpected)


def test_what_fails_here_and_passes_there_is_unexpected(root: Path, world: World) -> None:
    """So is a failure that is different there."""
    world.answers = {"plain": [FAILS], "reported": [Answer(None, Ended(signal=11), wall_s=0.5)]}
    assert ["plain", "reported"] == [cell.variant for cell in checked(root).unexpected]


def test_silent_misuse_is_counted_by_itself(root: Path, world: World) -> None:
    """It does not look like an environment that cannot train."""
    report = checked(root)
    assert ([], ["frozen"]) == (
        report.failing(misuse=False),
        [cell.variant for cell in report.failing(misuse=True)],
    )


def test_what_the_environment_lacks_is_not_run(root: Path, world: World) -> None:
    """It is not judged."""
    assert ["newer"] == [cell.variant for cell in checked(root).unjudged]
    assert "sums/newer" not in world.asked


def test_only_what_is_selected_is_run(root: Path, world: World) -> None:
    """A variant, for example."""
    checked(root, variants=frozenset({("sums", "plain")}))
    assert ["sums/plain"] == world.asked


def test_a_disagreement_counts_as_trained(root: Path, world: World) -> None:
    """Only one of the two cells runs here."""
    publish(
        root,
        record_of(
            "first",
            "plain",
            "relation:disagrees",
            recorded_at=make_record().recorded_at.replace(year=2027),
        ),
    )
    plain = next(cell for cell in checked(root).cells if cell.variant == "plain")
    assert ("trains", True) == (plain.nearest, plain.as_nearest)


def test_without_anything_published_nothing_is_compared(root: Path, world: World) -> None:
    """The cells still run."""
    for path in (root / "results" / "records").iterdir():
        path.unlink()
    report = checked(root)
    assert (None, 4) == (report.nearest, len(report.cells))


def test_nothing_is_recorded(root: Path, world: World) -> None:
    """The results and the journal stay as they are."""
    before = {path: path.read_bytes() for path in (root / "results").rglob("*") if path.is_file()}
    checked(root)
    after = {path: path.read_bytes() for path in (root / "results").rglob("*") if path.is_file()}
    assert before == after
    assert [] == [path for path in (root / ".gradmatrix").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("answers", "options", "code"),
    [
        ({"reported": [FAILS]}, [], 0),
        ({"reported": [FAILS]}, ["--strict"], 1),
        ({"plain": [FAILS]}, [], 1),
        ({}, ["--cell", "sums/plain", "--strict"], 0),
    ],
)
def test_the_exit_code(
    root: Path,
    world: World,
    answers: dict[str, list[Answer]],
    options: list[str],
    code: int,
) -> None:
    """It is 0 if all is as on the nearest stack, and 1 otherwise.

    With --strict any failure gives 1.
    """
    world.answers = answers
    python = make_python(root, ("torch", "2.6.0"))
    assert code == main(["check", "--root", str(root), "--python", str(python), *options])


def test_the_report_for_a_person(
    root: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says how many fail, which stacks fail in the same way, and why."""
    world.answers = {"reported": [FAILS]}
    python = make_python(root, ("torch", "2.6.0"))
    main(["check", "--root", str(root), "--python", str(python)])
    printed = capsys.readouterr().out
    assert f"{python}: torch 2.6.0\nnearest published stack: first\n" in printed
    assert (
        "Your environment fails 1 of 2 cells of 1 scenario (sums):\n\n"
        "  1 cell, as on every published stack with torch up to 2.6.0 (not from 2.13.0 on):"
        in printed
    )
    assert "✗ sums/reported  step:no-grad-fn\n" in printed
    assert "No error and no warning tells of 1 of 1 mistakes of 1 scenario (sums):" in printed
    assert (
        "1 cell not judged:\n"
        "  1 setup:unsupported: needs torch>=99, your environment has 2.6.0" in printed
    )
    assert "further" not in printed


def test_the_report_names_the_scenarios_that_did_not_run(
    root: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unless the user has chosen some."""
    (root / "scenarios" / "more.py").write_text(SUMS, encoding="utf-8")
    text = MATRIX.replace('["sums"]', '["sums"]\nfurther = ["more"]')
    (root / "matrix.toml").write_text(text, encoding="utf-8")
    words = ["check", "--root", str(root), "--python", str(make_python(root, ("torch", "2.6.0")))]
    main(words)
    told = "1 further scenario did not run. To run one: --scenario NAME, of more"
    assert told in capsys.readouterr().out
    main([*words, "--scenario", "more"])
    assert told not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ([], "This works on this environment: as it is (sums/plain trains there)."),
        (
            [FAILS],
            "This was seen to help: as it is (sums/plain, first).",
        ),
    ],
)
def test_what_helps_is_reported_with_the_cell_that_shows_it(
    root: Path, world: World, capsys: pytest.CaptureFixture[str], plain: list[Answer], expected: str
) -> None:
    """The cell is of this environment if one trains there, and else of the nearest stack."""
    (root / "scenarios" / "sums.py").write_text(
        SUMS.replace('"as it is"', '"as it is", "cures": ("grad-mode-off",)'), encoding="utf-8"
    )
    world.answers = {"reported": [OFF], **({"plain": plain} if plain else {})}
    main(["check", "--root", str(root), "--python", str(make_python(root, ("torch", "2.6.0")))])
    printed = capsys.readouterr().out
    assert expected in printed.partition("✗ sums/reported")[2]


def test_what_is_not_as_on_the_nearest_stack_is_reported_beside_it(
    root: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report has its result there. A reason that several cells share appears once."""
    world.answers = {"plain": [FAILS], "reported": [Answer(None, Ended(signal=11), wall_s=0.5)]}
    main(["check", "--root", str(root), "--python", str(make_python(root, ("torch", "2.6.0")))])
    printed = capsys.readouterr().out
    assert "✗ sums/plain  step:no-grad-fn, on first it passes\n" in printed
    assert (
        "✗ sums/reported  process:signal-11, on first step:no-grad-fn\n"
        "        killed by signal 11\n" in printed
    )
    assert "2 of these failures differ from first" in printed


def test_json_is_all_that_is_printed(
    root: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is one document, which can be read as a report."""
    python = make_python(root, ("torch", "2.6.0"))
    main(["check", "--root", str(root), "--python", str(python), "--json"])
    report = msgspec.json.decode(capsys.readouterr().out, type=check.Report)
    assert ("first", 4) == (report.nearest, len(report.cells))


def test_a_project_of_scripts_is_checked_with_what_the_wheel_carries(
    root: Path,
    world: World,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own scripts say nothing about known problems."""
    carried = bundle.Bundle(root, NOON)
    monkeypatch.setattr(bundle, "carried", lambda: carried)
    own = root / "own"
    own.mkdir()
    (own / "matrix.toml").write_text(OF_SCRIPTS, encoding="utf-8")
    monkeypatch.chdir(own)
    assert 0 == main(["check", "--python", str(make_python(root, ("torch", "2.6.0")))])
    assert "nearest published stack: first" in capsys.readouterr().out


def test_an_environment_without_torch_ends_with_2(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is one clear error."""
    assert 2 == main(["check", "--root", str(root), "--python", sys.executable])
    assert "has no torch" in capsys.readouterr().err


@pytest.mark.slow
def test_a_real_environment_fails_as_its_own_stack_does() -> None:
    """The oldest stack's environment gives that stack's published results."""
    selection = Selection(
        variants=frozenset({("t5_classifier", "hf_adafactor"), ("t5_classifier", "torch_adamw")})
    )
    report = check.check(Project.at(ROOT), python_of(OLDEST), selection)
    assert (OLDEST, {"hf_adafactor": "step:no-grad-fn", "torch_adamw": "trains"}) == (
        report.nearest,
        {cell.variant: cell.outcome for cell in report.cells if cell.device == "cpu"},
    )
    assert [] == report.unexpected
