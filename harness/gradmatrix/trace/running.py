"""Start a script that is traced, and see it to its end.

This module imports little: the script starts first, and what judges it is imported while it runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from gradmatrix.core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType
    from typing import Self

TRACED = Path(__file__).resolve().parent.parent / "observe" / "traced"
SURVIVOR = Path(__file__).resolve().parent / "survivor.py"
AUDIT = 4
SHELL = re.compile(rb"#!.*\b(?:ba|da|fi|k|z)?sh\b")
PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
"""Signals that are meant for the script, unless they are ignored (``nohup``). A terminal sends an
interrupt to the script by itself."""


def command_line(python: Path, words: Sequence[str], *, module: bool) -> list[str]:
    """What is started: a script, a module like ``python -m``, or a command of the environment.

    Raises:
        UserError: if there is no such script or command.
    """
    if module:
        return [str(python), "-m", *words]
    script = Path(words[0])
    if script.exists():
        refuse_no_script(script)
        return [str(python), *words]
    command = python.parent / words[0]
    if script.name == words[0] and command.is_file():
        with command.open("rb") as file:
            is_script = file.read(2) == b"#!"
        return [str(python), str(command), *words[1:]] if is_script else [str(command), *words[1:]]
    raise UserError(
        f"There is no script {words[0]}.",
        cause=f"it is neither a file in {Path.cwd()} nor a command in {python.parent}",
        next_step="gradmatrix trace [--python PATH] SCRIPT [ARGS...], or -m MODULE [ARGS...]",
    )


def refuse_no_script(path: Path) -> None:
    """UserError if ``path`` exists and Python cannot run it. A syntax error is Python's to tell."""
    start = b""
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(1024)
    kind, instead = "", "name the Python script"
    if path.is_dir() and not (path / "__main__.py").exists():
        kind = "a folder without a __main__.py"
    elif path.suffix == ".ipynb":
        kind, instead = (
            "a notebook",
            f"jupyter nbconvert --to script {path}, and trace what it wrote",
        )
    elif SHELL.match(start):
        kind, instead = (
            "a script for a shell",
            "name the Python script that it starts, or its launcher",
        )
    elif b"\0" in start and path.suffix != ".pyc" and not is_zipped(path):
        kind = "a binary file"
        if path.name.startswith("python"):
            instead = f"gradmatrix trace --python {path} SCRIPT [ARGS...], or -m MODULE [ARGS...]"
    if kind:
        raise UserError(f"{path} is no Python script.", cause=f"it is {kind}", next_step=instead)


def is_zipped(path: Path) -> bool:
    """Whether a file is a zip archive, which Python can run."""
    from zipfile import is_zipfile

    return is_zipfile(path)


def start(command: Sequence[str], steps: int | None) -> Running:
    """Start ``command``, which is traced to its end or for ``steps`` optimizer steps.

    Raises:
        UserError: if it cannot be started.
    """
    folder = Path(tempfile.mkdtemp(prefix="gradmatrix-trace-"))
    request = {"schema": 1, "audit": AUDIT, "stop_after": steps}
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
    return Running(command, folder)


def variables(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Environment variables that make every Python process below look into ``observe/traced``."""
    path = [str(TRACED), *filter(None, [environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(path), "GRADMATRIX_TRACE": str(folder)}


class Running:
    """A script that was started. As a context it ends by removing what the script left.

    The streams of the script are not touched, and it gets the signals that are meant for it. If
    this process is killed, ``survivor.py`` ends the script.
    """

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self.command = command
        self.folder = folder
        """Where the processes of the script leave their observations."""
        self._script: subprocess.Popen[bytes] | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self._handlers = {
            number: signal.signal(number, self._pass_on)
            for number in (getattr(signal, name, None) for name in PASSED_ON)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN
        }
        try:
            environ = {**os.environ, **variables(folder, os.environ)}
            self._script = subprocess.Popen(command, env=environ)
        except OSError as error:
            self._restore()
            raise UserError(
                f"{command[0]} cannot be started.",
                cause=str(error),
                next_step="check that the command runs without gradmatrix",
            ) from error
        self._survivor = survivor(self._script.pid, folder)

    def wait(self) -> int:
        """The script's exit code, or minus the number of the signal that ended it."""
        assert self._script is not None
        return self._script.wait()

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        if self._script is not None and number != signal.SIGINT:
            self._script.send_signal(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._restore()
        if self._survivor is not None:
            self._survivor.kill()
            self._survivor.communicate()

    def _restore(self) -> None:
        """Put back how this process handles signals, and remove the folder."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        shutil.rmtree(self.folder, ignore_errors=True)


def survivor(pid: int, folder: Path) -> subprocess.Popen[bytes] | None:
    """The process that ends the script if this one is killed; None on Windows."""
    if sys.platform == "win32":
        return None
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(SURVIVOR), str(pid), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
