"""Which Python traces which script, and what cannot be traced."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gradmatrix.cli.main import main
from gradmatrix.core.errors import UserError
from gradmatrix.stacks.interpreter import checked, interpreter
from gradmatrix.trace.running import command_line
from gradmatrix.trace.trace import left_in

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="shell scripts")


def pretend_python(folder: Path, answer: str) -> Path:
    """A program that can be started and answers like a Python."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho {answer}\n", encoding="utf-8")
    python.chmod(0o755)
    return python


@needs_posix
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["no_such_script.py"], "There is no script no_such_script.py."),
        ([], "Nothing to trace."),
        (["-m"], "Nothing to trace."),
        (
            ["--output", "no/such/folder/found.json", "train.py"],
            "no/such/folder/found.json cannot be written.",
        ),
    ],
)
def test_what_cannot_be_traced_is_one_clear_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    complaint: str,
) -> None:
    """The error comes before anything is started."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    code = main(["trace", "--python", str(pretend_python(tmp_path / "env", "3 11 1")), *arguments])
    assert (2, f"gradmatrix: {complaint}") == (code, capsys.readouterr().err.splitlines()[0])


@needs_posix
@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ("3 11 0", "has no torch"),
        ("3 8 1", "is Python 3.8"),
        ("hello", "is not a Python that can be started"),
    ],
)
def test_an_unsuitable_python_is_refused(tmp_path: Path, answer: str, complaint: str) -> None:
    """The error comes before the script is started."""
    with pytest.raises(UserError, match=complaint):
        checked(pretend_python(tmp_path, answer))


@needs_posix
def test_the_folder_of_an_environment_can_be_named(tmp_path: Path) -> None:
    """Its Python is used."""
    assert pretend_python(tmp_path, "3 11 1") == checked(tmp_path)


@needs_posix
def test_the_active_environment_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it has no torch, the first environment with torch is used."""
    monkeypatch.setattr(
        "gradmatrix.stacks.interpreter.importlib.util.find_spec", lambda _name: None
    )
    pretend_python(tmp_path / "venv", "3 11 0")
    conda = pretend_python(tmp_path / "conda", "3 11 1")
    environ = {
        "VIRTUAL_ENV": str(tmp_path / "venv"),
        "CONDA_PREFIX": str(tmp_path / "conda"),
        "PATH": "",
    }
    assert conda == interpreter(None, environ)


def test_no_python_with_torch_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how to name one."""
    monkeypatch.setattr(
        "gradmatrix.stacks.interpreter.importlib.util.find_spec", lambda _name: None
    )
    with pytest.raises(UserError, match="No Python with torch was found"):
        interpreter(None, {"PATH": ""})


def test_a_script_comes_before_a_command_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in the folder comes first."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torchrun").touch()
    assert ["/env/bin/python", "torchrun", "x"] == command_line(
        Path("/env/bin/python"), ["torchrun", "x"], module=False
    )


def test_an_observation_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    """The script's exit code and the other observations are kept."""
    (tmp_path / "17.json").write_text('{"schema": 2}', encoding="utf-8")
    (tmp_path / "18.trouble").write_text("OSError: disk full", encoding="utf-8")
    left = left_in(tmp_path)
    assert ((), 2, False) == (left.processes, len(left.trouble), left.stopped)
    assert left.trouble[0].startswith("process 17: ")
