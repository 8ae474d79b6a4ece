"""Which build of torch this machine gets: a property of the machine, not of the stack.

The index's default wheel for Linux is the CUDA one: gigabytes that a machine without an NVIDIA driver has no use for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.tags import cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from harness import uv
from harness.model import Build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from harness.model import Lock

DRIVER = Path("/proc/driver/nvidia/version")
ONLY_CUDA = ("nvidia-", "cuda-")
TRITON = ("triton", "pytorch-triton")
PROBE_TIMEOUT_S = 15.0
IMPATIENT = {"UV_HTTP_TIMEOUT": "5", "UV_HTTP_CONNECT_TIMEOUT": "5", "UV_HTTP_RETRIES": "0"}


@dataclass(frozen=True)
class BuildChoice:
    """The build to install; ``torch`` holds what ``uv pip install`` needs for a torch other than the lock's."""

    build: Build
    torch: tuple[str, ...] = ()
    notice: str | None = None

    def drops(self, name: str) -> bool:
        """Whether the locked package ``name`` is left out: torch itself, and what only its CUDA build needs."""
        return bool(self.torch) and (name == "torch" or name in TRITON or name.startswith(ONLY_CUDA))


def torch_build(
    lock: Lock,
    find_links: Iterable[Path],
    *,
    driver: bool,
    platform: str = sys.platform,
    answers: Callable[[str, str], bool] | None = None,
) -> BuildChoice:
    """The build of the locked torch for this machine; ``answers(version, python)`` asks torch's own index."""
    version = lock.version("torch")
    if driver:
        return BuildChoice(Build.CUDA)
    if platform != "linux" or version is None:
        return BuildChoice(Build.CPU)
    wheel = cpu_wheel(version, lock.python, find_links)
    if wheel:
        return BuildChoice(Build.CPU, torch=(str(wheel),))
    if (answers or cpu_index_answers)(version, lock.python):
        return BuildChoice(Build.CPU, torch=(f"torch=={version}", "--torch-backend", "cpu"))
    notice = (
        f"No CPU build of torch {version} was found, so the larger CUDA build of the package index is installed; "
        "a directory with the CPU wheel in UV_FIND_LINKS saves gigabytes."
    )
    return BuildChoice(Build.DEFAULT, notice=notice)


def has_driver() -> bool:
    """Whether this machine has an NVIDIA driver."""
    return DRIVER.exists() or shutil.which("nvidia-smi") is not None


def cpu_wheel(version: str, python: str, find_links: Iterable[Path]) -> Path | None:
    """A CPU wheel of exactly this torch for this Python and platform in one of the directories, or None."""
    wanted = Version(f"{Version(version).public}+cpu")
    major, minor = python.split(".")
    tags = frozenset(cpython_tags((int(major), int(minor))))
    for directory in find_links:
        for path in sorted(directory.glob("torch-*.whl")):
            try:
                name, found, _, wheel_tags = parse_wheel_filename(path.name)
            except InvalidWheelFilename:
                continue
            if name == "torch" and found == wanted and wheel_tags & tags:
                return path
    return None


def find_links() -> tuple[Path, ...]:
    """The directories of wheels that uv or pip are told of, from the environment or else from pip's settings."""
    words = " ".join(os.environ.get(name, "").replace(",", " ") for name in ("UV_FIND_LINKS", "PIP_FIND_LINKS")).split()
    words = [word.removeprefix("file://") for word in words or _pip_setting().split()]
    return tuple(path for path in map(Path, words) if path.is_dir())  # an address is no directory


@cache
def cpu_index_answers(version: str, python: str) -> bool:
    """Whether uv finds a CPU build of this torch in torch's own index: one impatient attempt, remembered."""
    asked = uv.run(
        ["pip", "compile", "-", "--quiet", "--no-deps", "--python-version", python, "--torch-backend", "cpu"],
        stdin=f"torch=={version}",
        variables=IMPATIENT,
        timeout_s=PROBE_TIMEOUT_S,
    )
    return asked.returncode == 0 and "+cpu" in asked.stdout


def _pip_setting() -> str:
    """The ``find-links`` of pip, or nothing where there is no pip."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, check=False, text=True, timeout=30
    )
    lines = [line.partition("=") for line in asked.stdout.splitlines()]
    return " ".join(value.strip("'\"").replace("\\n", " ") for key, _, value in lines if key.endswith(".find-links"))
