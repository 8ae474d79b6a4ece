"""What a shell completes, asked as the shells ask."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gradmatrix.cli.main import main
from tests.cli.test_claims_command import root
from tests.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["root"]  # a fixture


def completed(line: str, folder: Path) -> list[str]:
    """What can stand at the end of a command line that is typed in ``folder``."""
    answer = folder / "answer"
    asked = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "PYTHONPATH": str(ROOT / "harness"),
    }
    subprocess.run(
        [sys.executable, "-m", "gradmatrix"], cwd=folder, env={**os.environ, **asked}, check=True
    )
    return sorted(word.strip() for word in answer.read_text(encoding="utf-8").split("\n"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gradmatrix up", ["update", "upgrade"]),
        ("gradmatrix run --sc", ["--scenario"]),
        ("gradmatrix check --scenario ", ["sums"]),
        ("gradmatrix run --cell sums/p", ["sums/plain"]),
        ("gradmatrix run f", ["first"]),
        ("gradmatrix why s", ["second/", "sums/"]),
        ("gradmatrix why second/", ["second/sums/"]),
        ("gradmatrix history second/sums/", ["second/sums/frozen", "second/sums/plain"]),
        ("gradmatrix claims sums-", ["sums-train"]),
        ("gradmatrix upgrade s", ["scenarios/", "second"]),
        ("gradmatrix trace --python m", ["matrix.toml"]),
        ("gradmatrix trace scen", ["scenarios/"]),
        ("gradmatrix completion z", ["zsh"]),
    ],
)
def test_words_are_completed(root: Path, line: str, words: list[str]) -> None:
    """Commands, options, names of the matrix, and files. Of a cell its next part."""
    assert words == completed(line, root)


def test_what_cannot_be_read_completes_files(root: Path) -> None:
    """A shell has no place for an error."""
    (root / "matrix.toml").write_text("[[", encoding="utf-8")
    assert ["scenarios/"] == completed("gradmatrix run scen", root)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The shell accepts it, if it is installed."""
    assert 0 == main(["completion", shell])
    script = capsys.readouterr().out
    assert "gradmatrix" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)
