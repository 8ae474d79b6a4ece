"""Lock -> an installed environment, by uv from its cache; a lock already installed is not installed again."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from packaging.utils import canonicalize_name

from harness import builds, disk, uv
from harness.builds import BuildChoice
from harness.errors import UserError
from harness.lock import cutoff, requirements_path
from harness.lock_text import by_address, hashless, without
from harness.model import Build, Failure, Lock, LockedPackage
from harness.observation import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

MARKER = "installed.json"
GIB = 2**30
NEEDED_BYTES = {Build.CPU: int(2.5 * GIB), Build.CUDA: 7 * GIB, Build.DEFAULT: 7 * GIB}
"""Room that an environment may take at worst: no hard links from uv's cache, nothing cached."""

FAILURES = {
    "install:disk-full": uv.DISK_FULL,
    "install:hash-mismatch": re.compile(r"hash mismatch|hashes? (do|does) not match", re.IGNORECASE),
    "install:network": uv.NETWORK,
}
"""What uv's words say about a failed install; whatever else goes wrong is ``install:build``."""


class InstallFailed(Exception):
    """The stack could not be installed; ``failure`` fills its column."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.outcome}: {failure.message}")
        self.failure = failure


@dataclass(frozen=True)
class Environment:
    """An installed stack; ``installed`` tells whether it was installed just now."""

    python: Path
    build: Build
    notice: str | None
    installed: bool


class _Marker(Frozen, frozen=True, kw_only=True):
    """Written last into an environment: what was installed there."""

    digest: str
    build: Build
    notice: str | None


def ensure(
    lock: Lock,
    locks: Path,
    root: Path,
    waiting: Callable[[], object] = lambda: None,
    *,
    driver: bool | None = None,
    choose: Callable[[Lock], BuildChoice] | None = None,
    free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
) -> Environment:
    """The environment of ``lock``, whose text is in ``locks``, at ``root/<stack>``: installed unless it is there.

    One install at a time: the next one looks for room when the last one has taken its own; ``waiting()`` is called
    where it must. Hold :func:`in_use` around this and the use of what it returns.
    Raises InstallFailed, or UserError where this machine has no such Python.
    """
    if lock.failure:
        raise InstallFailed(lock.failure)
    driver = builds.has_driver() if driver is None else driver
    folder = root / lock.stack
    found = _installed(folder, lock, driver=driver)
    if found:
        return found
    text = requirements_path(lock.stack, locks).read_text(encoding="utf-8")
    choice = choose(lock) if choose else _choose(lock, text, driver=driver)
    with disk.held(root / ".install.lock", waiting):
        _check_disk(lock.stack, choice.build, free_bytes(root))
        try:
            _create(lock, folder)
            _install(lock, text, choice, folder)
        except InstallFailed:
            shutil.rmtree(folder, ignore_errors=True)  # half of it is of no use, and may have filled the disk
            raise
    marker = _Marker(digest=lock.digest, build=choice.build, notice=choice.notice)
    disk.write_atomically(folder / MARKER, msgspec.json.encode(marker))
    return Environment(_python(folder), choice.build, choice.notice, installed=True)


def in_use(root: Path, stack: str, waiting: Callable[[], object] = lambda: None) -> AbstractContextManager[None]:
    """Hold the environment of ``stack``: meanwhile nobody else installs, uses or drops it."""
    return disk.held(root / f".{stack}.lock", waiting)  # no stack has a name that begins with a dot


def drop(root: Path, stack: str, waiting: Callable[[], object] = lambda: None) -> None:
    """Delete the environment of ``stack``, when nobody uses it any more; half of it passes for none afterwards."""
    with in_use(root, stack, waiting):
        (root / stack / MARKER).unlink(missing_ok=True)
        shutil.rmtree(root / stack, ignore_errors=True)


def classify(stderr: str) -> str:
    """The outcome of a failed install by what uv printed."""
    return next((name for name, words in FAILURES.items() if words.search(stderr)), "install:build")


def variables(threads: int, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment variables cells run under: offline, repeatable, of a set number of threads."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV")
    return {
        **{key: value for key, value in environ.items() if key not in dropped},
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "WANDB_DISABLED": "true",
        "WANDB_MODE": "offline",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # without it cuBLAS is not deterministic
    }


def _installed(folder: Path, lock: Lock, *, driver: bool) -> Environment | None:
    """The environment in ``folder`` if it holds ``lock`` in a build for this machine."""
    python = _python(folder)
    try:
        marker = msgspec.json.decode((folder / MARKER).read_bytes(), type=_Marker)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None
    if marker.digest != lock.digest or (marker.build is Build.CUDA) != driver or not python.exists():
        return None
    return Environment(python, marker.build, marker.notice, installed=False)


def _choose(lock: Lock, text: str, *, driver: bool) -> BuildChoice:
    if "torch" in by_address(text):
        return BuildChoice(Build.CUDA if driver else Build.DEFAULT)  # somebody asked for this very file
    return builds.torch_build(lock, () if driver else builds.find_links(), driver=driver)


def _check_disk(stack: str, build: Build, free: int) -> None:
    needed = NEEDED_BYTES[build]
    if free < needed:
        message = (
            f"Stack {stack} may need {needed / GIB:.1f} GiB ({build} build of torch), {free / GIB:.1f} GiB are free. "
            "Free some room, or name fewer stacks."
        )
        raise InstallFailed(Failure(outcome="install:disk-full", message=message))


def _create(lock: Lock, folder: Path) -> None:
    """An empty environment; a Python that is missing may be downloaded by uv, with little patience."""
    made = uv.run(
        ["venv", "--quiet", "--clear", "--python", lock.python, str(folder)],
        variables={"UV_HTTP_RETRIES": "1", "UV_HTTP_TIMEOUT": "15"},
    )
    if made.returncode == 0:
        return
    if classify(made.stderr) == "install:disk-full":
        raise InstallFailed(Failure(outcome="install:disk-full", message=uv.summary(made.stderr)))
    found = _interpreters()
    if any(version.startswith(f"{lock.python}.") for version in found):
        raise UserError(
            f"The environment of stack {lock.stack} cannot be created.",
            cause=uv.summary(made.stderr),
            next_step=f"see that {folder} can be written",
        )
    raise UserError(
        f"Stack {lock.stack} needs Python {lock.python}, which this machine does not have.",
        cause=f"uv found {', '.join(found) or 'no Python'} and could not download {lock.python}",
        next_step=f"pip install uv && uv python install {lock.python}, or give the stack another python",
    )


def _interpreters() -> list[str]:
    """Versions of the Pythons that uv finds on this machine."""
    listed = uv.run(["python", "list", "--only-installed"]).stdout
    return sorted(set(re.findall(r"^(?:cpython|pypy)-(\d+\.\d+\.\d+)", listed, re.MULTILINE)))


def _install(lock: Lock, text: str, choice: BuildChoice, folder: Path) -> None:
    """The lock as it is, or the lock without torch and then this machine's torch; what has no hash by itself."""
    listed, sources = folder / "requirements.txt", folder / "sources.txt"
    unhashed = hashless(text)
    hashed = without(text, lambda name: choice.drops(name) or name in unhashed)
    listed.write_text(hashed, encoding="utf-8", newline="\n")
    dated = ["--exclude-newer", cutoff(lock.as_of)]  # build dependencies are of that day too
    _pip_install(folder, [*dated, "--require-hashes", "--requirements", str(listed)])
    if unhashed:
        sources.write_text(without(text, lambda name: name not in unhashed), encoding="utf-8", newline="\n")
        _pip_install(folder, [*dated, "--requirements", str(sources)])
    if choice.torch:
        _pip_install(folder, list(choice.torch))


def _pip_install(folder: Path, arguments: list[str]) -> None:
    ran = uv.run(
        ["pip", "install", "--quiet", "--python", str(_python(folder)), "--no-deps", *arguments],
        variables={"UV_DEFAULT_INDEX": uv.index_url()},
    )
    if ran.returncode:
        raise InstallFailed(Failure(outcome=classify(ran.stderr), message=uv.summary(ran.stderr)))


def _python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


THIS_ENVIRONMENT = "this environment"
"""In the place of a stack's name."""


LISTING = """
import importlib.metadata, json, sys
found = [(each.metadata["Name"], each.version) for each in importlib.metadata.distributions() if each.metadata]
print(json.dumps({"python": "%d.%d" % sys.version_info[:2], "packages": found}))
"""


LISTING_TIMEOUT_S = 60.0


class _Listed(msgspec.Struct):
    """What an environment says of itself."""

    python: str
    packages: list[tuple[str | None, str | None]]


def installed(python: Path, threads: int) -> Lock:
    """What is installed in the environment of ``python``, as a lock that nobody resolved; UserError without torch."""
    try:
        ran = subprocess.run(
            [python, "-I", "-c", LISTING],
            capture_output=True,
            check=True,
            timeout=LISTING_TIMEOUT_S,
            env=variables(threads),
            stdin=subprocess.DEVNULL,
        )
        listed = msgspec.json.decode(ran.stdout, type=_Listed)
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as error:
        raise UserError(
            f"{python} does not say what is installed there.",
            cause=f"a small script that lists the packages failed: {type(error).__name__}",
            next_step=f"see that this works: {python} -m pip list",
        ) from error
    versions: dict[str, str] = {}
    for name, version in listed.packages:
        if name and version:
            versions.setdefault(canonicalize_name(name), version)  # of several the one that is imported
    if "torch" not in versions:
        raise UserError(
            f"{python} has no torch.",
            cause=f"its environment has {len(versions)} packages, and torch is none of them",
            next_step="give --python the interpreter of the environment in which you train",
        )
    return Lock(
        stack=THIS_ENVIRONMENT,
        python=listed.python,
        as_of=dt.datetime.now(dt.UTC).date(),
        requirements=(),
        packages=tuple(LockedPackage(name=name, version=version) for name, version in sorted(versions.items())),
        digest=hashlib.sha256(repr(sorted(versions.items())).encode()).hexdigest(),
        resolver="",
    )
