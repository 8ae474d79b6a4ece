"""Environments: what this machine has, which build of torch it gets, and how a lock is installed.

The build of torch belongs to the machine and not to the stack: the package index's wheel for Linux
needs CUDA, gigabytes that a machine without an NVIDIA driver cannot use.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from packaging.tags import cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from gradmatrix.core import files
from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Build, Failure, Lock, LockedPackage
from gradmatrix.core.observation import Frozen
from gradmatrix.core.outcomes import (
    BUILD,
    DISK_FULL,
    HASH_MISMATCH,
    NETWORK,
    SAYS_DISK_FULL,
)
from gradmatrix.stacks import sandbox, uv
from gradmatrix.stacks.lock import by_address, cutoff, hashless, requirements_path, without

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager


DRIVER = Path("/proc/driver/nvidia/version")


def device_class(device: str) -> str | None:
    """The processor architecture, or the name of the GPU; None if there is no such device.

    Nothing is opened: a forked child must be the first process that uses CUDA.
    """
    if device == "cpu":
        return f"{platform.system()}-{platform.machine()}"
    return gpu_name()


def gpu_name() -> str | None:
    """The name of the first NVIDIA GPU; None without a driver."""
    for information in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        match = re.search(r"^Model:\s*(.+)$", information.read_text(encoding="utf-8"), re.MULTILINE)
        if match:
            return match.group(1).strip()
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    answer = subprocess.run(
        [tool, "--query-gpu=name", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    names = answer.stdout.strip().splitlines()
    return names[0] if answer.returncode == 0 and names else None


def has_driver() -> bool:
    """Whether this machine has an NVIDIA driver."""
    return DRIVER.exists() or shutil.which("nvidia-smi") is not None


ONLY_CUDA = ("nvidia-", "cuda-")
TRITON = ("triton", "pytorch-triton")
PROBE_TIMEOUT_S = 15.0
IMPATIENT = {"UV_HTTP_TIMEOUT": "5", "UV_HTTP_CONNECT_TIMEOUT": "5", "UV_HTTP_RETRIES": "0"}


@dataclass(frozen=True)
class BuildChoice:
    """The build of torch to install."""

    build: Build
    torch: tuple[str, ...] = ()
    """The arguments of ``uv pip install`` for a torch other than the lock's."""
    notice: str | None = None

    def drops(self, name: str) -> bool:
        """Whether a locked package is left out: torch, or one that only its CUDA build needs."""
        return bool(self.torch) and (
            name == "torch" or name in TRITON or name.startswith(ONLY_CUDA)
        )


def torch_build(
    lock: Lock,
    find_links: Iterable[Path],
    *,
    driver: bool,
    platform: str = sys.platform,
    answers: Callable[[str, str], bool] | None = None,
) -> BuildChoice:
    """The build of the locked torch for this machine.

    Args:
        lock: the stack
        find_links: folders of wheels
        driver: whether the machine has an NVIDIA driver
        platform: as ``sys.platform``
        answers: whether torch's own index has a CPU build of a version for a Python
    """
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
        f"No CPU build of torch {version} was found, so the larger CUDA build is installed; "
        "to save gigabytes, set UV_FIND_LINKS to a directory that has the CPU wheel."
    )
    return BuildChoice(Build.DEFAULT, notice=notice)


def cpu_wheel(version: str, python: str, find_links: Iterable[Path]) -> Path | None:
    """The CPU wheel of this torch for this Python and platform in a directory, or None."""
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
    """The directories of wheels that uv and pip are configured to use."""
    words = " ".join(
        os.environ.get(name, "").replace(",", " ") for name in ("UV_FIND_LINKS", "PIP_FIND_LINKS")
    ).split()
    words = [word.removeprefix("file://") for word in words or _pip_setting().split()]
    return tuple(path for path in map(Path, words) if path.is_dir())  # an address is no directory


@cache
def cpu_index_answers(version: str, python: str) -> bool:
    """Whether torch's own index has a CPU build of this version. One quick attempt, remembered."""
    asked = uv.run(
        [
            "pip",
            "compile",
            "-",
            "--quiet",
            "--no-deps",
            "--python-version",
            python,
            "--torch-backend",
            "cpu",
        ],
        stdin=f"torch=={version}",
        variables=IMPATIENT,
        timeout_s=PROBE_TIMEOUT_S,
    )
    return asked.returncode == 0 and "+cpu" in asked.stdout


def _pip_setting() -> str:
    """The ``find-links`` in the settings of pip; empty without pip."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        capture_output=True,
        check=False,
        text=True,
        timeout=30,
    )
    lines = [line.partition("=") for line in asked.stdout.splitlines()]
    return " ".join(
        value.strip("'\"").replace("\\n", " ")
        for key, _, value in lines
        if key.endswith(".find-links")
    )


MARKER = "installed.json"
GIB = 2**30
NEEDED_BYTES = {Build.CPU: int(2.5 * GIB), Build.CUDA: 7 * GIB, Build.DEFAULT: 7 * GIB}
"""Disk space that an environment needs at worst: nothing is cached, no hard links."""

FAILURES = {
    DISK_FULL: SAYS_DISK_FULL,
    HASH_MISMATCH: re.compile(r"hash mismatch|hashes? (do|does) not match", re.IGNORECASE),
    NETWORK: uv.NETWORK,
}
"""What uv prints about a failed install. Everything else is ``install:build``."""


class InstallFailed(Exception):
    """The stack could not be installed; ``failure`` fills its column."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.outcome}: {failure.message}")
        self.failure = failure


@dataclass(frozen=True)
class Environment:
    """An installed stack."""

    python: Path
    build: Build
    notice: str | None
    installed: bool
    """Whether it was installed just now."""


class _Marker(Frozen, frozen=True, kw_only=True):
    """What was installed in an environment. It is written last."""

    digest: str
    build: Build
    notice: str | None


def ensure(
    lock: Lock,
    locks: Path,
    root: Path,
    waiting: Callable[[], object] = lambda: None,
    *,
    progress: Callable[[str], object] = lambda _: None,
    driver: bool | None = None,
    choose: Callable[[Lock], BuildChoice] | None = None,
    free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
) -> Environment:
    """The environment of ``lock`` at ``root/<stack>``, installed unless it exists.

    Only one stack is installed at a time, so that the check of disk space is right. Hold
    :func:`in_use` while you call this and use the environment.

    Args:
        lock: what to install
        locks: the folder of the lock's text
        root: the folder of all environments
        waiting: called if another install must end first
        progress: called with each line about what is downloaded and installed
        driver: whether the machine has an NVIDIA driver; None to look
        choose: the build to install, for tests
        free_bytes: free disk space at a path, for tests

    Raises:
        InstallFailed: if the stack cannot be installed
        UserError: if this machine has no such Python
    """
    if lock.failure:
        raise InstallFailed(lock.failure)
    driver = has_driver() if driver is None else driver
    folder = root / lock.stack
    found = _installed(folder, lock, driver=driver)
    if found:
        return found
    text = requirements_path(lock.stack, locks).read_text(encoding="utf-8")
    choice = choose(lock) if choose else _choose(lock, text, driver=driver)
    with files.held(root / ".install.lock", waiting):
        found = _installed(folder, lock, driver=driver)
        if found:  # by another process, while this one waited
            return found
        _check_disk(lock.stack, choice.build, free_bytes(root))
        try:
            _create(lock, folder)
            _install(lock, text, choice, folder, progress)
        except InstallFailed:
            shutil.rmtree(folder, ignore_errors=True)  # an incomplete one may have filled the disk
            raise
        marker = _Marker(digest=lock.digest, build=choice.build, notice=choice.notice)
        files.write_atomically(folder / MARKER, msgspec.json.encode(marker))
    return Environment(_python(folder), choice.build, choice.notice, installed=True)


def in_use(
    root: Path, stack: str, waiting: Callable[[], object] = lambda: None
) -> AbstractContextManager[None]:
    """Hold the environment of ``stack``: no other process installs, uses or deletes it then."""
    return files.held(root / f".{stack}.lock", waiting)  # no stack's name begins with a dot


def drop(root: Path, stack: str, waiting: Callable[[], object] = lambda: None) -> None:
    """Delete the environment of ``stack`` once no process uses it."""
    with in_use(root, stack, waiting):
        (root / stack / MARKER).unlink(missing_ok=True)  # the rest is not used without it
        shutil.rmtree(root / stack, ignore_errors=True)


def classify(stderr: str) -> str:
    """The outcome of a failed install, from what uv printed."""
    return next((name for name, words in FAILURES.items() if words.search(stderr)), BUILD)


def _installed(folder: Path, lock: Lock, *, driver: bool) -> Environment | None:
    """The environment in ``folder`` if it holds ``lock`` in the build for this machine."""
    python = _python(folder)
    try:
        marker = msgspec.json.decode((folder / MARKER).read_bytes(), type=_Marker)
    except (FileNotFoundError, NotADirectoryError, *files.NOT_READABLE):
        return None
    if (
        marker.digest != lock.digest
        or (marker.build is Build.CUDA) != driver
        or not python.exists()
    ):
        return None
    return Environment(python, marker.build, marker.notice, installed=False)


def _choose(lock: Lock, text: str, *, driver: bool) -> BuildChoice:
    if "torch" in by_address(text):
        build = Build.CUDA if driver else Build.DEFAULT
        return BuildChoice(build)  # the user asked for this very file
    return torch_build(lock, () if driver else find_links(), driver=driver)


def _check_disk(stack: str, build: Build, free: int) -> None:
    needed = NEEDED_BYTES[build]
    if free < needed:
        message = (
            f"Stack {stack} may need {needed / GIB:.1f} GiB ({build} build of torch), "
            f"{free / GIB:.1f} GiB are free. Free disk space, or name fewer stacks."
        )
        raise InstallFailed(Failure(outcome=DISK_FULL, message=message))


def _create(lock: Lock, folder: Path) -> None:
    """An empty environment. uv may download a missing Python, with a short timeout."""
    made = uv.run(
        ["venv", "--quiet", "--clear", "--python", lock.python, str(folder)],
        variables={"UV_HTTP_RETRIES": "1", "UV_HTTP_TIMEOUT": "15"},
    )
    if made.returncode == 0:
        return
    if classify(made.stderr) == DISK_FULL:
        raise InstallFailed(Failure(outcome=DISK_FULL, message=uv.summary(made.stderr)))
    found = _interpreters()
    if any(version.startswith(f"{lock.python}.") for version in found):
        raise UserError(
            f"The environment of stack {lock.stack} cannot be created.",
            cause=uv.summary(made.stderr),
            next_step=f"check that {folder} can be written",
        )
    raise UserError(
        f"Stack {lock.stack} needs Python {lock.python}, which this machine does not have.",
        cause=f"uv found {', '.join(found) or 'no Python'} and could not download {lock.python}",
        next_step=f"pip install uv && uv python install {lock.python}, "
        "or give the stack another python",
    )


def _interpreters() -> list[str]:
    """The versions of the Pythons that uv finds on this machine."""
    listed = uv.run(["python", "list", "--only-installed"]).stdout
    return sorted(set(re.findall(r"^(?:cpython|pypy)-(\d+\.\d+\.\d+)", listed, re.MULTILINE)))


def _install(
    lock: Lock, text: str, choice: BuildChoice, folder: Path, progress: Callable[[str], object]
) -> None:
    """Install the lock, and then this machine's build of torch if that is another one.

    Packages without a hash are installed separately.
    """
    listed, sources = folder / "requirements.txt", folder / "sources.txt"
    unhashed = hashless(text)
    hashed = without(text, lambda name: choice.drops(name) or name in unhashed)
    listed.write_text(hashed, encoding="utf-8", newline="\n")
    dated = ["--exclude-newer", cutoff(lock.as_of)]  # build dependencies are of that day too
    _pip_install(folder, [*dated, "--require-hashes", "--requirements", str(listed)], progress)
    if unhashed:
        sources.write_text(
            without(text, lambda name: name not in unhashed), encoding="utf-8", newline="\n"
        )
        _pip_install(folder, [*dated, "--requirements", str(sources)], progress)
    if choice.torch:
        _pip_install(folder, list(choice.torch), progress)


def _pip_install(folder: Path, arguments: list[str], progress: Callable[[str], object]) -> None:
    ran = uv.run_reporting(
        ["pip", "install", "--python", str(_python(folder)), "--no-deps", *arguments],
        progress,
        variables={"UV_DEFAULT_INDEX": uv.index_url()},
    )
    if ran.returncode:
        raise InstallFailed(Failure(outcome=classify(ran.stderr), message=uv.summary(ran.stderr)))


def _python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


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


THIS_ENVIRONMENT = "this environment"
"""The name of a stack that is an environment of the user."""
LISTING_TIMEOUT_S = 60.0
LISTING = """
import importlib.metadata, json, sys
def origin(d):  # conda notes the folder in which it built a release
    is_conda = (d.read_text("INSTALLER") or "").strip() == "conda"
    return None if is_conda else d.read_text("direct_url.json")
found = [
    {
        "name": d.metadata["Name"],
        "version": d.version,
        "needs": d.requires or [],
        "origin": origin(d),
    }
    for d in importlib.metadata.distributions()
    if d.metadata and d.metadata["Name"] and d.version
]
print(json.dumps({"python": "%d.%d" % sys.version_info[:2], "distributions": found}))
"""
"""The script that lists an environment; it runs in the environment."""


class Distribution(Frozen, frozen=True):
    """An installed package."""

    name: str
    version: str
    needs: tuple[str, ...]
    """The requirements in its metadata."""
    origin: str | None
    """Where it came from, as JSON (PEP 610); None if that is the package index."""


class Listing(Frozen, frozen=True):
    """What is installed in an environment."""

    python: str
    distributions: tuple[Distribution, ...]


def listing(python: Path, threads: int) -> Listing:
    """What is installed in the environment of ``python``; UserError if it cannot be listed."""
    try:
        ran = subprocess.run(
            [python, "-I", "-c", LISTING],
            capture_output=True,
            check=True,
            timeout=LISTING_TIMEOUT_S,
            env=sandbox.variables(threads),
            stdin=subprocess.DEVNULL,
        )
        return msgspec.json.decode(ran.stdout, type=Listing)
    except (OSError, subprocess.SubprocessError, *files.NOT_READABLE) as error:
        raise UserError(
            f"The packages of {python} cannot be listed.",
            cause=f"a small script that lists the packages failed: {type(error).__name__}",
            next_step=f"check that this works: {python} -m pip list",
        ) from error


def lock_of(python: Path, found: Listing) -> Lock:
    """The packages of an environment as a lock without a resolution; UserError without torch."""
    versions: dict[str, str] = {}
    for each in found.distributions:  # of two versions the first one is imported
        versions.setdefault(canonicalize_name(each.name), each.version)
    if "torch" not in versions:
        raise UserError(
            f"{python} has no torch.",
            cause=f"its environment has {len(versions)} packages, but not torch",
            next_step="give --python the interpreter of the environment in which you train",
        )
    return Lock(
        stack=THIS_ENVIRONMENT,
        python=found.python,
        as_of=dt.datetime.now(dt.UTC).date(),
        requirements=(),
        packages=tuple(
            LockedPackage(name=name, version=version) for name, version in sorted(versions.items())
        ),
        digest=hashlib.sha256(repr(sorted(versions.items())).encode()).hexdigest(),
        resolver="",
    )


def installed(python: Path, threads: int) -> Lock:
    """What is installed in the environment of ``python``, as a lock without a resolution."""
    return lock_of(python, listing(python, threads))
