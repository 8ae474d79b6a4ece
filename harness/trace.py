"""Run any training script in any environment, unmodified, and collect what the observer saw in its processes."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from harness.errors import UserError
from harness.finding import Finding, Left, Process, conclude, no_remedy
from harness.observation import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    from harness.causes import Diagnosis
    from harness.observation import Observation
    from harness.remedy import Remedy

TRACED = Path(__file__).resolve().parent / "inside" / "traced"
AUDIT = 4
OLDEST_PYTHON = (3, 9)
PROBE = (
    "import importlib.util, sys; "
    "print(*sys.version_info[:2], int(importlib.util.find_spec('torch') is not None), sep=' ')"
)


def interpreter(asked: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The Python to run the script with: the one asked for, or the first with torch of those at hand."""
    if asked is not None:
        return checked(asked)
    if importlib.util.find_spec("torch") is not None:
        return Path(sys.executable)
    active = [Path(environ[name]) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environ.get(name)]
    on_path = shutil.which("python3", path=environ.get("PATH")) or shutil.which("python", path=environ.get("PATH"))
    tried = [in_environment(folder) for folder in active] + ([Path(on_path)] if on_path else [])
    for python in tried:
        found = probe(python)
        if found is not None and found[2]:
            return checked(python)
    raise UserError(
        "No Python with torch was found.",
        cause=f"looked at {', '.join(map(str, [sys.executable, *tried]))}",
        next_step="gradmatrix trace --python PATH, where PATH is the Python or the folder of the script's environment",
    )


def checked(asked: Path) -> Path:
    """The interpreter at a path, or in the environment of that folder; UserError where the script could not run."""
    python = in_environment(asked) if asked.is_dir() else asked
    found = shutil.which(python)
    version = probe(Path(found)) if found else None
    if found is None or version is None:
        raise UserError(
            f"{asked} is no Python that can be started.",
            cause="it is not there, cannot be run, or does not answer as Python does",
            next_step="give --python the interpreter of the script's environment, such as .venv/bin/python",
        )
    if version[:2] < OLDEST_PYTHON:
        raise UserError(
            f"{asked} is Python {version[0]}.{version[1]}.",
            cause="the observer needs Python 3.9 or newer",
            next_step="give --python a newer interpreter",
        )
    if not version[2]:
        raise UserError(
            f"{asked} has no torch.",
            cause="a training script is watched through torch",
            next_step="give --python the interpreter of the environment in which the script trains",
        )
    return Path(found)


def in_environment(folder: Path) -> Path:
    """The interpreter of a virtual or conda environment."""
    places = ("Scripts/python.exe", "python.exe") if sys.platform == "win32" else ("bin/python",)
    return next((folder / place for place in places if (folder / place).exists()), folder / places[0])


def probe(python: Path) -> tuple[int, int, int] | None:
    """Major and minor version, and whether it has torch (1 or 0); None where this is no Python."""
    try:
        ran = subprocess.run(
            [python, "-c", PROBE], capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
        )
        major, minor, torch = map(int, ran.stdout.split())
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return major, minor, torch


def command_line(python: Path, words: Sequence[str], *, module: bool) -> list[str]:
    """What is started: a script, a module as ``python -m`` does, or a command of that environment such as torchrun."""
    if module:
        return [str(python), "-m", *words]
    script = Path(words[0])
    if script.exists():
        return [str(python), *words]
    command = python.parent / words[0]
    if script.name == words[0] and command.is_file():
        with command.open("rb") as file:
            is_script = file.read(2) == b"#!"
        return [str(python), str(command), *words[1:]] if is_script else [str(command), *words[1:]]
    raise UserError(
        f"There is no script {words[0]}.",
        cause=f"neither a file here ({Path.cwd()}) nor a command in {python.parent}",
        next_step="gradmatrix trace [--python PATH] SCRIPT [ARGS...], or -m MODULE [ARGS...]",
    )


def trace(
    command: Sequence[str],
    *,
    steps: int | None,
    remedy_for: Callable[[Diagnosis, Observation], Remedy | None] = no_remedy,
) -> Finding:
    """Run ``command`` to its end, stopped after so many optimizer ``steps``; its streams are ours, untouched."""
    with tempfile.TemporaryDirectory(prefix="gradmatrix-trace-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        request = {"schema": SCHEMA, "audit": AUDIT, "stop_after": steps}
        (folder / "request.json").write_bytes(msgspec.json.encode(request))
        returncode = run(command, {**os.environ, **variables(folder, os.environ)})
        return conclude(command, returncode, left_in(folder), remedy_for)


def variables(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that make every Python below us look into ``inside/traced``."""
    path = [str(TRACED), *filter(None, [environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(path), "GRADMATRIX_TRACE": str(folder)}


def run(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """The exit code of ``command``, or minus the number of the signal that ended it."""
    sys.stdout.flush()
    sys.stderr.flush()
    started: list[subprocess.Popen[bytes]] = []
    with signals_meant_for(started):
        try:
            started.append(subprocess.Popen(command, env=environ))
        except OSError as error:
            raise UserError(
                f"{command[0]} cannot be started.", cause=str(error), next_step="see that it can be run by itself"
            ) from error
        return started[0].wait()


@contextmanager
def signals_meant_for(started: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Meanwhile a request to end goes to the script; an interrupt from the terminal reaches it by itself."""

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if started and number != signal.SIGINT:
            started[0].send_signal(number)

    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def left_in(folder: Path) -> Left:
    """What the processes left."""
    files = [path for path in folder.glob("*.json") if path.stem.isdecimal()]
    return Left(
        processes=tuple(msgspec.json.decode(path.read_bytes(), type=Process) for path in sorted(files)),
        trouble=tuple(sorted({path.read_text(encoding="utf-8") for path in folder.glob("*.trouble")})),
        stopped=(folder / "enough").exists(),
    )
