"""Which Python traces which script, and what cannot be traced."""

from __future__ import annotations

import sys
import zipapp
from pathlib import Path

import pytest

from gradmatrix.cli.main import main
from gradmatrix.core.errors import UserError
from gradmatrix.stacks.interpreter import Probed, checked, interpreter, probe
from gradmatrix.trace.running import command_line
from gradmatrix.trace.trace import left_in

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="shell scripts")


TRAINS = '[[3, 11], "torch/__init__.py"]'
NO_TORCH = "[[3, 11], null]"


def pretend_python(folder: Path, answer: str) -> Path:
    """A program that can be started and answers like a Python."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho '{answer}'\n", encoding="utf-8")
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
        (["folder"], "folder is no Python script."),
        (["train.ipynb"], "train.ipynb is no Python script."),
        (["train.sh"], "train.sh is no Python script."),
        (["model.bin", "--lr", "1"], "model.bin is no Python script."),
        (["bin/python3", "train.py"], "bin/python3 is no Python script."),
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
    (tmp_path / "folder").mkdir()
    (tmp_path / "train.ipynb").write_text('{"cells": []}')
    (tmp_path / "train.sh").write_text("#!/usr/bin/env bash\npython train.py\n")
    (tmp_path / "model.bin").write_bytes(b"\x80\x02\0")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").write_bytes(b"\x7fELF\0")
    code = main(["trace", "--python", str(pretend_python(tmp_path / "env", TRAINS)), *arguments])
    assert (2, f"gradmatrix: {complaint}") == (code, capsys.readouterr().err.splitlines()[0])


@needs_posix
@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (NO_TORCH, "has no torch"),
        ('[[3, 8], "torch/__init__.py"]', "is Python 3.8"),
        ("hello", "is not a Python that can be started"),
        ("[]", "is not a Python that can be started"),
    ],
)
def test_an_unsuitable_python_is_refused(tmp_path: Path, answer: str, complaint: str) -> None:
    """The error comes before the script is started."""
    with pytest.raises(UserError, match=complaint):
        checked(pretend_python(tmp_path, answer))


@needs_posix
def test_a_virtual_environment_with_torch_is_not_started(tmp_path: Path) -> None:
    """Its files tell the version and where torch lies, and the script waits."""
    python = tmp_path / "bin" / "python"
    torch = tmp_path / "lib" / "python3.12" / "site-packages" / "torch" / "__init__.py"
    for path in (python, torch):
        path.parent.mkdir(parents=True)
    torch.touch()
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o700)
    for line in ("version = 3.12.4", "version_info = 3.12.4"):
        (tmp_path / "pyvenv.cfg").write_text(f"home = /somewhere\n{line}\n")
        assert Probed((3, 12), str(torch)) == probe(python)
    torch.unlink()
    assert probe(python) is None


def test_the_folder_of_an_environment_can_be_named(tmp_path: Path) -> None:
    """Its Python is used."""
    assert pretend_python(tmp_path, TRAINS) == checked(tmp_path)


@needs_posix
@pytest.mark.parametrize(
    ("version", "is_old"),
    [
        ("__version__ = '1.13.1+cu117'", True),
        ("__all__ = ['__version__', 'debug']\n__version__ = '2.13.0+cpu'", False),
        ("from x import __version__", False),
    ],
)
def test_a_torch_that_is_too_old_is_refused(tmp_path: Path, version: str, *, is_old: bool) -> None:
    """Its version is read from its files, because importing it takes a second."""
    (tmp_path / "version.py").write_text(f"{version}\n", encoding="utf-8")
    python = pretend_python(tmp_path, f'[[3, 11], "{tmp_path / "__init__.py"}"]')
    if not is_old:
        assert python == checked(python)
        return
    with pytest.raises(UserError, match=r"has torch 1\.13\."):
        checked(python)


def test_what_python_can_run_is_a_script(tmp_path: Path) -> None:
    """Also a folder, an archive, a file of another name and one that uv starts."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").touch()
    (tmp_path / "train").write_text("#!/usr/bin/env -S uv run --script\nimport torch\n")
    zipapp.create_archive(tmp_path / "package", tmp_path / "train.pyz", interpreter="/bin/python3")
    for name in ("package", "train", "train.pyz"):
        found = command_line(Path("/env/bin/python"), [str(tmp_path / name)], module=False)
        assert ["/env/bin/python", str(tmp_path / name)] == found


@needs_posix
def test_the_active_environment_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it has no torch, the first environment with torch is used."""
    monkeypatch.setattr(
        "gradmatrix.stacks.interpreter.importlib.util.find_spec", lambda _name: None
    )
    pretend_python(tmp_path / "venv", NO_TORCH)
    conda = pretend_python(tmp_path / "conda", TRAINS)
    environ = {
        "VIRTUAL_ENV": str(tmp_path / "venv"),
        "CONDA_PREFIX": str(tmp_path / "conda"),
        "PATH": "",
    }
    assert conda == interpreter(None, environ)


@needs_posix
def test_the_environment_of_the_project_needs_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the nearest .venv, as for uv."""
    monkeypatch.setattr(
        "gradmatrix.stacks.interpreter.importlib.util.find_spec", lambda _name: None
    )
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    python = pretend_python(tmp_path / ".venv", TRAINS)
    assert python == interpreter(None, {"PATH": ""})


def test_no_python_with_torch_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how to name one."""
    monkeypatch.chdir(tmp_path)
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
