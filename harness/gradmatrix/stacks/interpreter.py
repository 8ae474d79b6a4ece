"""Which Python runs the user's script. This imports little, because the script waits for it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gradmatrix.core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

OLDEST_PYTHON = (3, 9)
PROBE = (
    "import importlib.util, sys; "
    "print(*sys.version_info[:2], int(importlib.util.find_spec('torch') is not None), sep=' ')"
)


def interpreter(asked: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The Python to run a script with: ``asked``, or the first one with torch that is found."""
    if asked is not None:
        return checked(asked)
    if importlib.util.find_spec("torch") is not None:
        return Path(sys.executable)
    active = [Path(environ[name]) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environ.get(name)]
    on_path = shutil.which("python3", path=environ.get("PATH")) or shutil.which(
        "python", path=environ.get("PATH")
    )
    tried = [in_environment(folder) for folder in active] + ([Path(on_path)] if on_path else [])
    for python in tried:
        found = probe(python)
        if found is not None and found[2]:
            return checked(python)
    raise UserError(
        "No Python with torch was found.",
        cause=f"these were tried: {', '.join(map(str, [sys.executable, *tried]))}",
        next_step="give --python PATH: the Python, or the folder, of the environment "
        "in which you train",
    )


def checked(asked: Path) -> Path:
    """The interpreter at a path or of an environment; UserError if it cannot run a script."""
    python = in_environment(asked) if asked.is_dir() else asked
    found = shutil.which(python)
    version = probe(Path(found)) if found else None
    if found is None or version is None:
        raise UserError(
            f"{asked} is not a Python that can be started.",
            cause="there is no such file, it may not be started, or it is another program",
            next_step="give --python the interpreter of the script's environment: .venv/bin/python",
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
            cause="a training script is observed through torch",
            next_step="give --python the interpreter of the script's environment",
        )
    return Path(found)


def in_environment(folder: Path) -> Path:
    """The interpreter of a virtual or conda environment."""
    places = ("Scripts/python.exe", "python.exe") if sys.platform == "win32" else ("bin/python",)
    return next(
        (folder / place for place in places if (folder / place).exists()), folder / places[0]
    )


def probe(python: Path) -> tuple[int, int, int] | None:
    """Major and minor version, and whether it has torch (1 or 0); None if this is no Python."""
    try:
        ran = subprocess.run(
            [python, "-c", PROBE],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        major, minor, torch = map(int, ran.stdout.split())
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return major, minor, torch
