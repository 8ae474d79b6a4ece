"""``upgrade``: arguments, printing and exit codes."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import re
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest

from gradmatrix.cli import commands
from gradmatrix.cli.main import main
from gradmatrix.compare.comparison import Comparison
from gradmatrix.judge.verdict import Ended
from gradmatrix.measure import race
from gradmatrix.run.server import Answer
from tests.compare.test_sides import LATEST
from tests.conftest import NEWEST, ROOT, python_of
from tests.factories import make_observation, make_raised
from tests.pretended import TRAINED, World, pretend
from tests.upgrading import files, make_checkout

if TYPE_CHECKING:
    from pathlib import Path

    from gradmatrix.run.plan import Planned

FAILS = Answer(
    make_observation(
        raised=make_raised("element 0 of tensors does not require grad"), reached="step"
    ),
    Ended(exit=0),
    wall_s=0.5,
)
TRAIN = """
import argparse, torch
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(parser.parse_args().steps):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).square().mean().backward()
    optimizer.step()
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkout, as the working directory."""
    monkeypatch.chdir(tmp_path)
    return make_checkout(tmp_path)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Servers that only pretend to run cells."""
    return pretend(monkeypatch)


def run(root: Path, *arguments: str) -> int:
    """Run `upgrade` and return its exit code."""
    return main(["upgrade", *arguments, "--root", str(root), "--no-timing"])


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ([], 0),
        ([TRAINED, FAILS, TRAINED, TRAINED, FAILS, FAILS], 1),
        ([FAILS, TRAINED, FAILS, FAILS, TRAINED, TRAINED], 0),
        ([TRAINED, FAILS, TRAINED, TRAINED, FAILS, TRAINED], 3),
    ],
)
def test_the_exit_code_is_that_of_the_verdict(
    root: Path, world: World, answers: list[Answer], code: int
) -> None:
    """0 safe, 1 regressions, 3 inconclusive."""
    world.answers = {"reported": answers}
    assert code == run(root, "first", "--to", "second")


def test_the_packages_that_differ_are_printed_first(
    root: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer follows, and then the file that keeps the report."""
    run(root, "first", "--to", "second")
    printed = capsys.readouterr().out.strip()
    assert printed.startswith(
        "first → second\n1 package differs, 1 of them required by name:\n  torch  2.6.0"
    )
    assert printed.index("2.13.0") < printed.index("Safe")
    assert printed.endswith(
        "kept: " + str(root / ".gradmatrix/upgrade/reports/first-to-second/report.json")
    )


def test_equal_sides_are_reported_as_equal(
    root: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same side twice."""
    assert 0 == run(root, "first", "--to", "first")
    assert "Nothing differs: both sides have the same packages." in capsys.readouterr().out


def test_json_on_the_standard_output_is_one_document(
    root: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """It can be read again."""
    run(root, "first", "--to", "second", "--json", "-")
    comparison = msgspec.json.decode(capsys.readouterr().out, type=Comparison)
    assert ("first", "second", 2) == (
        comparison.baseline,
        comparison.candidate,
        len(comparison.cells),
    )


def test_requested_reports_are_written(root: Path, world: World) -> None:
    """In each requested form."""
    run(
        root,
        "first",
        "--to",
        "second",
        "--markdown",
        "a.md",
        "--html",
        "a.html",
        "--json",
        "a.json",
    )
    assert [True] * 3 == [
        (root / f"a.{suffix}").stat().st_size > 0 for suffix in ("md", "html", "json")
    ]


def test_a_report_that_cannot_be_written_is_an_error_with_the_answer(
    root: Path, world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error also names the file that keeps the comparison."""

    def report(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "a.html")

    monkeypatch.setattr("gradmatrix.cli.upgrade.report", report)
    assert 2 == run(root, "first", "--to", "second")
    error = capsys.readouterr().err
    assert (
        "Safe: nothing regressed in 2 cells, speed was not measured. But a report cannot be written"
        in error
    )
    assert str(root / ".gradmatrix/upgrade/reports/first-to-second/report.json") in error


def test_reports_of_different_parts_are_kept_in_different_files(root: Path, world: World) -> None:
    """No report replaces another one."""
    run(root, "first", "--to", "second")
    run(root, "first", "--to", "second", "--cell", "sums/plain")
    reports = root / ".gradmatrix/upgrade/reports"
    assert ["first-to-second", "first-to-second-of-sums-plain"] == sorted(
        path.name for path in reports.iterdir()
    )


def test_a_part_of_the_scenarios_can_be_run(root: Path, world: World) -> None:
    """Here one variant."""
    run(root, "first", "--to", "second", "--cell", "sums/plain")
    assert ["sums/plain"] * 2 == world.asked


def test_a_script_of_the_user_replaces_the_scenarios(root: Path, world: World) -> None:
    """It is named after its file. With --scenario both run."""
    (root / "my train.py").write_text(TRAIN, encoding="utf-8")
    run(root, "first", "--to", "second", "--script", "'my train.py' --steps 3")
    assert ["my train/script"] * 2 == world.asked
    world.asked.clear()
    run(
        root,
        "first",
        "--to",
        "second",
        "--script",
        "'my train.py' --steps 3",
        "--scenario",
        "sums",
        "--fresh",
    )
    assert {"my train/script", "sums/plain", "sums/reported"} == set(world.asked)


def test_a_module_beside_a_script_is_part_of_it(root: Path, world: World) -> None:
    """The script may import it, so a change of the module runs the script again."""
    (root / "train.py").write_text(TRAIN, encoding="utf-8")
    (root / "model.py").write_text("width = 4\n", encoding="utf-8")
    (root / "here").mkdir()
    words = ["first", "--to", "second", "--script", "train.py"]
    run(root, *words)
    run(root, *words)
    assert ["train/script"] * 2 == world.asked
    (root / "model.py").write_text("width = 8\n", encoding="utf-8")
    run(root, *words)
    assert ["train/script"] * 4 == world.asked
    run(root, *words, "--directory", "here")
    assert ["train/script"] * 6 == world.asked


def test_a_package_of_the_project_is_part_of_a_script(root: Path, world: World) -> None:
    """It need not be installed, and a change of it runs the script again."""
    for name, text in (("src/own/__init__.py", ""), ("scripts/train.py", "import own\n")):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text, encoding="utf-8")
    (root / "pyproject.toml").touch()
    words = ["first", "--to", "second", "--script", "scripts/train.py"]
    for _ in range(2):
        run(root, *words)
    assert ["train/script"] * 2 == world.asked
    (root / "src" / "own" / "__init__.py").write_text("# changed\n", encoding="utf-8")
    run(root, *words)
    assert ["train/script"] * 4 == world.asked
    assert {str(root / "src")} == set(world.search_paths)


def test_a_script_that_fails_on_both_sides_is_not_safe(
    root: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output shows its message, for example about a wrong path."""
    (root / "train.py").write_text(TRAIN, encoding="utf-8")
    world.answers = {"script": [FAILS] * 2}
    assert 3 == run(root, "first", "--to", "second", "--script", "train.py")
    printed = capsys.readouterr().out
    assert "Inconclusive: 1 cell compared, and none passes on either side" in printed
    assert "element 0 of tensors does not require grad" in printed


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["first", "--to", "second", "--python", "3.12"], "--python 3.12 has no effect on first"),
        (["first", "--to", "second", "--directory", "."], "no --script is given"),
        (
            ["first", "--to", "second", "--script", "matrix.toml", "--directory", "gone"],
            "there is no such folder",
        ),
        (["frist", "--to", "second"], "perhaps you meant 'first'"),
        (["first", "--to", "./gone.whl"], "There is no wheel"),
        (["first", "--to", "second", "--script", "gone.py"], "names no file"),
        (["first", "--to", "second", "--time", "sums/plane"], "there is no such cell"),
        (["first", "--to", "second", "--time", "sums/plane"], "perhaps you meant 'sums/plain'"),
        (["first", "--to", "second", "--script", "train.py 'x"], "No closing quotation"),
        (["first", "--to", "second", "--extra", "rl"], "has no extras"),
        (
            ["first", "--to", "~nobody-at-all/r.txt"],
            "--to ~nobody-at-all/r.txt cannot be read",
        ),
        (
            ["https://user:secret@host/r.txt", "--to", "second"],
            "There is no file or folder 'https://host/r.txt'",
        ),
        (["first", "--to", "second", "--cell", "sums/plane"], "perhaps you meant 'plain'"),
        (
            ["first", "--to", "second", "--json", "-", "--html", "-"],
            "cannot both go to the standard output",
        ),
        (["first", "--to", "second", "--html", "no/such/place.html"], "cannot be written"),
        (["requirements.txt", "--to", "second"], "requirements.txt:2: 'peft=1' cannot be read"),
        ([sys.executable, "--to", "second"], "has no torch"),
    ],
)
def test_bad_input_is_one_error_and_nothing_runs(
    root: Path,
    world: World,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    complaint: str,
) -> None:
    """The exit code is 2, and nothing is recorded."""
    (root / "requirements.txt").write_text("torch\npeft=1\n", encoding="utf-8")
    before = files(root)
    assert 2 == run(root, *arguments)
    error = capsys.readouterr().err
    assert error.startswith("gradmatrix: ")
    assert complaint in error
    assert ([], before) == (world.asked, files(root))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--as-of", "yesterday"),
        ("--as-of", "2999-01-01"),
        ("--python", "3"),
        ("--repeats", "-1"),
        ("--budget", "0s"),
        ("--budget", "2 days"),
        ("--margin", "200%"),
    ],
)
def test_an_invalid_value_is_an_error(
    root: Path, capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    """The error shows a valid value."""
    with pytest.raises(SystemExit) as ended:
        run(root, "first", "--to", "second", f"{option}={value}")
    assert 2 == ended.value.code
    assert f"argument {option}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"), [("120", 120), ("120s", 120), ("5m", 300), ("1.5min", 90), ("1h", 3600)]
)
def test_a_budget_is_a_time(text: str, expected: float) -> None:
    """In seconds if there is no unit."""
    assert expected == commands.seconds(text)


@pytest.mark.parametrize(("text", "expected"), [("1%", 0.01), ("0.02", 0.02), ("2.5%", 0.025)])
def test_a_margin_is_a_share(text: str, expected: float) -> None:
    """As a percentage or as a number."""
    assert expected == commands.share(text)


def test_a_day_is_a_date() -> None:
    """As in matrix.toml."""
    assert dt.date(2026, 3, 31) == commands.day("2026-03-31")
    with pytest.raises(argparse.ArgumentTypeError):
        commands.day("31.3.2026")


def test_the_measurement_gets_the_options(
    root: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The budget, the margin and the cells."""
    asked = []

    def measure(
        _baseline: Path, _candidate: Path, cells: list[Planned], *_: object, **facts: object
    ) -> dict[object, object]:
        asked.append((len(cells), facts["budget_s"], facts["margin"]))
        return {}

    monkeypatch.setattr(race, "measure", measure)
    arguments = [
        "upgrade",
        "first",
        "--to",
        "second",
        "--root",
        str(root),
        "--budget",
        "2m",
        "--margin",
        "2%",
    ]
    assert 0 == main(arguments)
    assert 0 == main([*arguments, "--timing", "all"])
    assert [(1, 120.0, 0.02), (2, 120.0, 0.02)] == asked


def test_latest_is_the_stack_latest_of_the_matrix(
    root: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the baseline requires the same packages. The lock of that stack is used."""
    text = (root / "matrix.toml").read_text(encoding="utf-8") + LATEST.replace(', "peft"', "")
    (root / "matrix.toml").write_text(text, encoding="utf-8")
    for suffix in ("txt", "json"):
        content = (root / "results" / "locks" / f"second.{suffix}").read_text(encoding="utf-8")
        (root / "results" / "locks" / f"latest.{suffix}").write_text(
            content.replace("second", "latest"), "utf-8"
        )
    assert 0 == run(root, "first", "--to", "latest")
    assert "first → latest\n" in capsys.readouterr().out


@pytest.mark.slow
def test_a_real_script_runs_in_an_existing_environment_and_in_its_stack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The environment does not change.

    The script trains on both sides, and only the build of torch differs.
    """
    script = tmp_path / "train.py"
    script.write_text(TRAIN, encoding="utf-8")
    python = python_of(NEWEST)
    work = ["--root", str(ROOT), "--results", str(tmp_path / "results"), "--no-timing"]
    code = main(
        [
            "upgrade",
            str(python),
            "--to",
            NEWEST,
            "--script",
            f"{script} --steps 24",
            *work,
            "--json",
            "-",
        ]
    )
    comparison = json.loads(capsys.readouterr().out)
    assert (0, ["unchanged"]) == (code, [cell["change"] for cell in comparison["cells"]])
    assert ["trains", "trains"] == [
        comparison["cells"][0][side]["outcome"] for side in ("before", "after")
    ]
    assert python.exists()


@pytest.mark.parametrize(("options", "code"), [((), 4), (("--speed-optional",), 0)])
def test_an_unknown_speed_has_an_exit_code_of_its_own(
    root: Path,
    world: World,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    code: int,
) -> None:
    """No server is started for a budget that cannot hold one generation: the smallest is named."""
    arguments = ["upgrade", "first", "--to", "second", "--budget", "1s", *options]
    assert code == main([*arguments, "--root", str(root)])
    assert re.search(r"Speed unknown: .*--budget \d+s is the smallest", capsys.readouterr().out)
