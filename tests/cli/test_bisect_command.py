"""``bisect``: arguments, printing, reports and exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gradmatrix.cli.main import main
from tests.compare.test_bisect import PYTHON, lab

if TYPE_CHECKING:
    from tests.compare.test_bisect import Lab

__all__ = ["lab"]

TRAIN = """
import torch


def train(variant, device, steps):
    for _ in range(steps):
        torch.ones(2, device=device, requires_grad=True).sum().backward()
"""


@pytest.fixture
def culprit(lab: Lab) -> Lab:
    """Release 5 of alpha breaks the cell; the side is a file of requirements."""
    lab.add("alpha", 9)
    lab.fails = lambda versions: versions["alpha"] >= 5
    with (lab.root / "scenarios" / "sums.py").open("a", encoding="utf-8") as scenario:
        scenario.write(TRAIN)
    (lab.root / "requirements.txt").write_text("torch\nalpha\n", encoding="utf-8")
    return lab


def run(lab: Lab, *arguments: str) -> int:
    """Run ``bisect`` between two releases of alpha and return its exit code."""
    good = str(lab.root / "requirements.txt")
    places = ["--root", str(lab.root), "--good", good, "--python", PYTHON]
    return main(["bisect", *arguments, *places])


BETWEEN = ("sums/plain", "--package", "alpha", "--between", "2", "8")


def test_between_two_releases_of_a_package(
    culprit: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both are put into the side, on a day on which they were there."""
    assert 0 == run(culprit, *BETWEEN)
    assert "sums/plain/cpu changes between alpha 4" in capsys.readouterr().out
    assert {2, 3, 4, 5, 8} >= {versions["alpha"] for versions in culprit.runs}


def test_the_answer_is_kept_and_written(culprit: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """With a script for each side, and the text of an issue."""
    markdown, html = culprit.root / "answer.md", culprit.root / "answer.html"
    assert 0 == run(culprit, *BETWEEN, "--markdown", str(markdown), "--html", str(html))
    (folder,) = (culprit.root / ".gradmatrix" / "upgrade" / "reports").iterdir()
    assert {"report.json", "issue.md", "before.py", "after.py"} == {
        each.name for each in folder.iterdir()
    }
    assert "alpha 4 → 5" in markdown.read_text(encoding="utf-8")
    assert "Which release did it?" in html.read_text(encoding="utf-8")
    assert f"kept: {folder}" in capsys.readouterr().out


def test_a_dry_run_runs_nothing(culprit: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """It says how many releases there are, and what they may take."""
    assert 0 == run(culprit, *BETWEEN, "--dry-run")
    out = capsys.readouterr().out
    assert "alpha: 5 releases between the two sides" in out
    assert "GB to download" in out
    assert [] == culprit.runs


def test_json_is_one_document(culprit: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """It has both outcomes."""
    assert 0 == run(culprit, *BETWEEN, "--json")
    (edge,) = json.loads(capsys.readouterr().out)["edges"]
    assert ["trains", "step:exception"] == [end["outcome"] for end in edge["ends"]]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["sums/plain"], "between which sides"),
        (["sums/plain", "--between", "2", "8"], "needs one --package"),
        (["sums/plain", "--package", "alpha", "--between", "2", "2"], "one release twice"),
        (["sums/plain", "--package", "alpha", "--between", "2", "99"], "the one before it is 9"),
        ([*BETWEEN, "--all", "--noise", "10%"], "Only one of --all"),
        ([*BETWEEN, "--html", "no/such/place.html"], "cannot be written"),
        ([*BETWEEN, "--along", "sums/plane"], "perhaps you meant 'plain'"),
        ([*BETWEEN[1:]], "Nothing says what to run"),
    ],
)
def test_bad_input_is_one_error_and_nothing_runs(
    culprit: Lab, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    """The exit code is 2."""
    assert 2 == run(culprit, *arguments)
    assert complaint in capsys.readouterr().err
    assert [] == culprit.runs


def test_a_range_without_a_side_needs_a_stack_with_the_package(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else --good must name one."""
    assert 2 == main(["bisect", *BETWEEN, "--root", str(lab.root)])
    assert "No stack of the matrix has alpha" in capsys.readouterr().err
