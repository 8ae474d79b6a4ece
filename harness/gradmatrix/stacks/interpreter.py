"""Which Python runs the user's script. This imports little, because the script waits for it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gradmatrix.core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

OLDEST_PYTHON = (3, 9)
OLDEST_TORCH = (2, 0)
PROBE = (
    "import importlib.util, json, sys; torch = importlib.util.find_spec('torch'); "
    "print(json.dumps([sys.version_info[:2], torch and torch.origin]))"
)
TORCH_VERSION = re.compile(r"^__version__.*?['\"](\d+)\.(\d+)", re.MULTILINE)
MADE_BY = re.compile(r"^version(?:_info)? *= *3\.(\d+)", re.MULTILINE)
"""The Python of a virtual environment, as venv and uv write it into ``pyvenv.cfg``."""


class Probed(NamedTuple):
    """What is known of a Python."""

    version: tuple[int, int]
    torch: str | None
    """The file of its torch; None if it has none."""


def interpreter(asked: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The Python to run a script with: ``asked``, or the first one with torch that is found."""
    if asked is not None:
        return checked(asked)
    own = importlib.util.find_spec("torch")
    if own is not None and own.origin is not None:
        refuse_old_torch(own.origin, sys.executable)
        return Path(sys.executable)
    active = [Path(environ[name]) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if environ.get(name)]
    on_path = shutil.which("python3", path=environ.get("PATH")) or shutil.which(
        "python", path=environ.get("PATH")
    )
    here = Path.cwd()
    of_project = (folder / ".venv" for folder in (here, *here.parents))  # as uv looks for it
    active += [next(filter(Path.is_dir, of_project), here / ".venv")]
    tried = [in_environment(folder) for folder in active] + ([Path(on_path)] if on_path else [])
    for python in tried:
        found = probe(python)
        if found is not None and found.torch is not None:
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
    probed = probe(Path(found)) if found else None
    if found is None or probed is None:
        raise UserError(
            f"{asked} is not a Python that can be started.",
            cause="there is no such file, it may not be started, or it is another program",
            next_step="give --python the interpreter of the script's environment: .venv/bin/python",
        )
    if probed.version < OLDEST_PYTHON:
        raise UserError(
            f"{asked} is Python {probed.version[0]}.{probed.version[1]}.",
            cause="the observer needs Python 3.9 or newer",
            next_step="give --python a newer interpreter",
        )
    if probed.torch is None:
        raise UserError(
            f"{asked} has no torch.",
            cause="a training script is observed through torch",
            next_step="give --python the interpreter of the script's environment",
        )
    refuse_old_torch(probed.torch, asked)
    return Path(found)


def refuse_old_torch(file: str, python: object) -> None:
    """UserError if the torch in ``file`` of a Python is too old; one without a version is not."""
    try:
        found = TORCH_VERSION.search((Path(file).parent / "version.py").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return
    if found and (int(found[1]), int(found[2])) < OLDEST_TORCH:
        raise UserError(
            f"{python} has torch {found[1]}.{found[2]}.",
            cause="the observer needs torch 2.0 or newer: older ones have no hooks of optimizers",
            next_step="use an environment with a newer torch",
        )


def in_environment(folder: Path) -> Path:
    """The interpreter of a virtual or conda environment."""
    places = ("Scripts/python.exe", "python.exe") if sys.platform == "win32" else ("bin/python",)
    return next(
        (folder / place for place in places if (folder / place).exists()), folder / places[0]
    )


def probe(python: Path) -> Probed | None:
    """What a Python says of itself; None if this is no Python.

    It is not started if it belongs to a virtual environment in which torch lies: the script waits.
    """
    folder = python.parent.parent
    try:
        made_by = MADE_BY.search((folder / "pyvenv.cfg").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        made_by = None
    if made_by is not None:
        torch = folder / f"lib/python3.{made_by[1]}/site-packages/torch/__init__.py"
        if torch.exists():
            return Probed((3, int(made_by[1])), str(torch))
    try:
        ran = subprocess.run(
            [python, "-c", PROBE],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        (major, minor), torch = json.loads(ran.stdout)
    except (OSError, TypeError, ValueError, subprocess.TimeoutExpired):
        return None
    return Probed((major, minor), torch)
