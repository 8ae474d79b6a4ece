"""``gradmatrix claims``: printed from the records of a small project."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from gradmatrix.cli.main import main
from gradmatrix.run.project import Project
from tests.cli.test_cli import MATRIX, SUMS, write_lock
from tests.conftest import ROOT
from tests.factories import DAY, make_cell, make_lock, make_record
from tests.pretended import pretend

if TYPE_CHECKING:
    from pathlib import Path

CLAIMS = """
[[claims]]
id = "sums-train"
scenario = "sums"
says = "Sums train."
source = "owner/library#12"
reading = "On every stack."

[[claims.expect]]
variants = ["plain"]
outcome = "trains"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project of one scenario, on two stacks of which one trains."""
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "sums.py").write_text(SUMS, encoding="utf-8")
    (tmp_path / "scenarios" / "claims.toml").write_text(CLAIMS, encoding="utf-8")
    (tmp_path / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    store = Project.at(tmp_path).store
    for stack, outcome in (("first", "trains"), ("second", "gradient:none")):
        write_lock(tmp_path, make_lock(stack, versions={"torch": "2.6.0"}))
        store.append(make_record(outcome, make_cell(stack, "sums", "plain")))
    return tmp_path


def test_the_claims_are_listed_with_their_verdicts(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The verdicts come from the records: nothing is run."""
    code = main(["claims", "--all", "--root", str(root)])
    printed = capsys.readouterr().out
    assert (0, True, True) == (code, "◐ partly" in printed, "sums-train" in printed)


def test_without_a_name_the_verdicts_are_counted(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A list of all claims is long. What differs from the published verdicts is named."""
    assert 0 == main(["claims", "--root", str(root)])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [["sums", "1"], ["all", "1"], []] == lines[1:4]
    main(["claims", "--json", "--root", str(root)])
    document = capsys.readouterr().out
    for was, expected in (
        ("partly", "No verdict differs from the published one."),
        ("confirmed", "sums-train: ◐ partly, published as ✓ confirmed"),
    ):
        published = document.replace('"verdict":"partly"', f'"verdict":"{was}"')
        (root / "results" / "claims.json").write_text(published, encoding="utf-8")
        main(["claims", "--root", str(root)])
        assert expected in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("columns", "expected"), [("80", False), ("140", True)])
def test_a_narrow_terminal_gets_a_list_instead_of_a_table(
    root: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    columns: str,
    *,
    expected: bool,
) -> None:
    """The list says the same as the table of three columns."""
    monkeypatch.setenv("COLUMNS", columns)
    main(["claims", "--all", "--root", str(root)])
    printed = capsys.readouterr().out
    assert (expected, True) == ("│" in printed, "plain: trains in 1 of 2 cells" in printed)


def test_one_claim_is_shown_with_every_cell_for_and_against_it(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cells that support it, and those that contradict it."""
    code = main(["claims", "sums-train", "--root", str(root)])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert (0, ["sums-train: ◐ partly", "Sums train."]) == (code, lines[:2])
    assert {
        "for      first/sums/plain/cpu: trains",
        "against  second/sums/plain/cpu: gradient:none",
    } < set(lines)


def test_a_scenario_lists_its_claims(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The names of claims need not be known."""
    code = main(["claims", "sums", "--root", str(root)])
    printed = capsys.readouterr().out
    assert (0, True, False) == (code, "sums-train" in printed, "for      first" in printed)


def test_json_prints_one_document(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing else is printed on the standard output."""
    main(["claims", "--json", "--root", str(root)])
    (claim,) = json.loads(capsys.readouterr().out)["claims"]
    assert ("sums-train", "partly") == (claim["id"], claim["verdict"])


def test_an_unknown_claim_gets_a_suggestion(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 2."""
    code = main(["claims", "sum-train", "--root", str(root)])
    assert (2, True) == (code, "perhaps you meant 'sums-train'" in capsys.readouterr().err)


def test_a_claims_file_with_an_error_is_an_error(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 2, and the message names the place in the file."""
    (root / "scenarios" / "claims.toml").write_text(
        CLAIMS.replace("plain", "plane"), encoding="utf-8"
    )
    code = main(["claims", "--root", str(root)])
    assert (2, True) == (
        code,
        "unknown variant 'plane', in claim 'sums-train'" in capsys.readouterr().err,
    )


@pytest.mark.parametrize(
    "versions",
    [
        {"torch": "2.6.0", "transformers": "4.49.0"},
        {"torch": "2.6.0", "transformers": "4.49.0", "lightning": "2.5.0"},
        {"torch": "2.6.0"},
    ],
    ids=["without lightning", "without trl and peft", "torch alone"],
)
def test_a_matrix_need_not_have_every_package(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    versions: dict[str, str],
) -> None:
    """It runs and is published; claims about packages that it lacks are untested, and no error."""
    shutil.copytree(ROOT / "scenarios", tmp_path / "scenarios")
    asked = tuple(f"{name}=={version}" for name, version in versions.items())
    (tmp_path / "matrix.toml").write_text(
        f'[[stacks]]\nname = "only"\npython = "3.11"\nas_of = {DAY}\ncore = true\n'
        f"requirements = {json.dumps(asked)}\n",
        encoding="utf-8",
    )
    write_lock(tmp_path, make_lock("only", versions=versions, requirements=asked))
    pretend(monkeypatch)
    ended = [
        main([*words, "--root", str(tmp_path)])
        for words in (["run", "--device", "cpu"], ["publish"], ["claims", "--json"])
    ]
    assert [0, 0, 0] == ended
    printed = capsys.readouterr().out
    verdicts = re.findall(r'"verdict": ?"(\w+)"', printed[printed.index("{") :])
    assert verdicts.count("untested") > len(verdicts) / 2
    assert (tmp_path / "results" / "claims.html").exists()
