"""Environments: what this machine has, which build of torch it gets, and how a lock is installed.

The build of torch belongs to the machine and not to the stack: the package index's wheel for Linux
needs CUDA, gigabytes that a machine without an NVIDIA driver cannot use.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping  # noqa: TC003  (msgspec reads the fields of BuildChoice)
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

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
from gradmatrix.stacks import listing as listing_script
from gradmatrix.stacks import sandbox, uv
from gradmatrix.stacks.lock import (
    FROM_INDEX,
    NeedsBuild,
    blocks,
    by_address,
    cutoff,
    from_source,
    hashless,
    needs_build,
    requirement_of,
    requirements_path,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
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


def is_of_torch(name: str) -> bool:
    """Whether a package comes with the CUDA build of torch, which pins it."""
    return name in TRITON or name.startswith(ONLY_CUDA)


@dataclass(frozen=True)
class BuildChoice:
    """The build of torch to install."""

    build: Build
    torch: str = ""
    """The requirement on a torch other than the lock's."""
    wheels: Mapping[str, str] = field(default_factory=dict)
    """The files that may be installed for it: name and sha256."""
    options: tuple[str, ...] = ()
    """The arguments with which ``uv pip install`` finds it."""
    notice: str | None = None

    def drops(self, name: str) -> bool:
        """Whether a locked package is left out: torch, or one that only its CUDA build needs."""
        return bool(self.torch) and (name == "torch" or is_of_torch(name))


GIB = 2**30
NEEDED_BYTES = {Build.CPU: int(2.5 * GIB), Build.CUDA: 7 * GIB, Build.DEFAULT: 7 * GIB}
"""Disk space that an environment needs at worst: nothing is cached, no hard links."""
LARGER = (
    f"which may need {NEEDED_BYTES[Build.DEFAULT] / GIB:.0f} GiB "
    f"in place of {NEEDED_BYTES[Build.CPU] / GIB:.1f}"
)
"""How much larger the CUDA build is, with what it needs."""
BUILT_FOR_TORCH = ("torchvision", "torchaudio")
"""Packages with compiled code that is built for one build of torch, as torch itself is."""


def torch_build(
    lock: Lock,
    find_links: Iterable[Path],
    *,
    driver: bool,
    platform: str = sys.platform,
    indexed: Callable[[str, str], Mapping[str, str] | None] | None = None,
) -> BuildChoice:
    """The build of the locked torch for this machine.

    Args:
        lock: the stack
        find_links: folders of wheels
        driver: whether the machine has an NVIDIA driver
        platform: as ``sys.platform``
        indexed: the CPU builds in torch's own index, see :func:`cpu_wheels`
    """
    version = lock.version("torch")
    if driver:
        return BuildChoice(Build.CUDA)
    if platform != "linux" or version is None:
        return BuildChoice(Build.CPU)
    companion = next((name for name in BUILT_FOR_TORCH if lock.version(name)), None)
    if companion:
        return BuildChoice(
            Build.DEFAULT,
            notice=f"The index's {companion} fits the index's own build of torch only, so the "
            f"CUDA build of torch {version} is installed, {LARGER}.",
        )
    wheel = cpu_wheel(version, lock.python, find_links)
    if wheel:
        return BuildChoice(
            Build.CPU, torch=f"torch @ {wheel.as_uri()}", wheels={wheel.name: sha256_of(wheel)}
        )
    wheels = (indexed or cpu_wheels)(version, lock.python)
    if wheels:
        pin = f"torch=={cpu_version(version)}"
        return BuildChoice(Build.CPU, pin, wheels, options=("--torch-backend", "cpu"))
    notice = (
        f"No CPU build of torch {version} was found, so the CUDA build is installed, {LARGER}; "
        "to avoid that, set UV_FIND_LINKS to a directory that has the CPU wheel."
    )
    return BuildChoice(Build.DEFAULT, notice=notice)


def cpu_version(version: str) -> Version:
    """The CPU build of a version of torch."""
    return Version(f"{Version(version).public}+cpu")


def cpu_wheel(version: str, python: str, find_links: Iterable[Path]) -> Path | None:
    """The CPU wheel of this torch for this Python and platform in a directory, or None."""
    for directory in find_links:
        for path in sorted(directory.glob("torch-*.whl")):
            if is_cpu_wheel(path.name, version, python):
                return path
    return None


def is_cpu_wheel(filename: str, version: str, python: str) -> bool:
    """Whether it is a CPU build of this torch for this Python and platform."""
    try:
        name, found, _, tags = parse_wheel_filename(filename)
    except InvalidWheelFilename:
        return False
    major, minor = python.split(".")
    fitting = name == "torch" and found == cpu_version(version)
    return fitting and not tags.isdisjoint(cpython_tags((int(major), int(minor))))


def sha256_of(path: Path) -> str:
    """The digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_links() -> tuple[Path, ...]:
    """The directories of wheels that uv and pip are configured to use."""
    words = " ".join(
        os.environ.get(name, "").replace(",", " ") for name in ("UV_FIND_LINKS", "PIP_FIND_LINKS")
    ).split()
    words = [word.removeprefix("file://") for word in words or _pip_setting().split()]
    return tuple(path for path in map(Path, words) if path.is_dir())  # an address is no directory


@cache
def cpu_wheels(version: str, python: str) -> Mapping[str, str] | None:
    """The CPU builds of this torch in torch's own index: name and sha256.

    They are those for this Python and platform; None if that index does not answer. There is one
    quick attempt, which is remembered.
    """
    asked = uv.run(
        [
            "pip", "compile", "-", "--quiet", "--no-deps", "--no-header",
            "--python-version", python, "--torch-backend", "cpu", "--format", "pylock.toml",
            *uv.wheels_only(),
        ],
        stdin=f"torch=={version}",
        variables=IMPATIENT,
        timeout_s=PROBE_TIMEOUT_S,
    )  # fmt: skip
    if asked.returncode and uv.NETWORK.search(asked.stderr):
        return None
    return {
        name: digest
        for name, digest in listed_wheels(asked.stdout)
        if is_cpu_wheel(name, version, python)
    }


def listed_wheels(pylock: str) -> Iterator[tuple[str, str]]:
    """Name and sha256 of each wheel in a pylock.toml; those without a hash are left out."""
    for package in tomllib.loads(pylock).get("packages", ()):
        for wheel in package.get("wheels", ()):
            if "sha256" in wheel.get("hashes", ()):
                yield unquote(wheel["url"].rpartition("/")[2]), wheel["hashes"]["sha256"]


PINS = "_torch.json"
"""The name of a file with the hashes of CPU builds of torch, by file name.

A lock has the hashes of the package index's files, and the CPU builds are not among them. So the
hash of each build is kept when it is first seen: ``gradmatrix lock`` keeps it beside the locks, and
an install beside the environments. No stack, so no lock, has a name like this file's.
"""


def pins_in(path: Path) -> dict[str, str]:
    """The hashes that are kept in ``path``; UserError if it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise UserError(
            f"The hashes in {path} cannot be read: {error}.",
            cause="the file was edited by hand, or damaged",
            next_step="git checkout results/locks, or delete the file: its hashes are then lost",
        ) from error


def pin(wheels: Mapping[str, str], published: Path, own: Path) -> None:
    """Check the hashes of ``wheels`` against those that are kept, and keep the new ones in ``own``.

    Args:
        wheels: name and sha256 of each file
        published: the file of hashes beside the locks
        own: the file that new hashes are added to; it may be the same

    Raises:
        InstallFailed: if a file has another content than the one that was kept
    """
    kept = pins_in(own)
    known = {**kept, **pins_in(published)}
    for name, digest in wheels.items():
        if known.get(name, digest) != digest:
            message = (
                f"{name} is not the file that was first seen under this name: its sha256 is "
                f"{digest}, and {PINS} has {known[name]}."
            )
            raise InstallFailed(Failure(outcome=HASH_MISMATCH, message=message))
    new = {name: digest for name, digest in wheels.items() if name not in known}
    if new:
        content = msgspec.json.encode(dict(sorted({**kept, **new}.items())))
        files.write_atomically(own, msgspec.json.format(content, indent=2) + b"\n")


def pin_cpu_builds(locks: Iterable[Lock], folder: Path) -> None:
    """Keep the hash of the CPU build of each lock's torch in ``folder``, if it can be known here.

    Raises:
        InstallFailed: if a file has another content than the one that was kept
    """
    wanted = {
        (version, each.python): each
        for each in locks
        if (version := each.version("torch")) and not any(map(each.version, BUILT_FOR_TORCH))
    }
    for (version, python), lock in wanted.items():
        known = pins_in(folder / PINS)
        if any(is_cpu_wheel(name, version, python) for name in known):
            continue
        pin(torch_build(lock, find_links(), driver=False).wheels, folder / PINS, folder / PINS)


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
MARK = "+"
"""The names of stacks that upgrades make begin with it; those of the matrix cannot."""
KEPT = "kept"
"""A file in an environment that the user asked to keep."""

FAILURES = {
    DISK_FULL: SAYS_DISK_FULL,
    HASH_MISMATCH: re.compile(r"hash mismatch|hashes? (do|does) not match", re.IGNORECASE),
    NETWORK: re.compile(
        f"{uv.NETWORK.pattern}|{uv.NO_FILES.pattern}|there is no version of", re.IGNORECASE
    ),
}
"""What uv prints about a failed install. Everything else is ``install:build``.

What is locked was in the index. If the index lists no file of it, something else answered.
"""


class InstallFailed(Exception):
    """The stack could not be installed; ``failure`` fills its column."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure

    def __str__(self) -> str:
        return f"{self.failure.outcome}: {self.failure.message}"


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
        progress: called with what a user should know before the download, and with each line about
            what is downloaded and installed
        driver: whether the machine has an NVIDIA driver; None to look
        choose: the build to install, if it was chosen before
        free_bytes: disk space at a path that may be used

    Raises:
        InstallFailed: if the stack cannot be installed
        NeedsBuild: if a package must be built and the lock does not allow it
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
        pin(choice.wheels, locks / PINS, root / PINS)
        try:
            _create(lock, folder)
            calls = _calls(lock, text, choice, folder)
            _check_disk(lock.stack, choice.build, free_bytes(root), calls)
            if choice.notice:
                progress(f"note: {choice.notice}")
            for call in calls:
                _install(lock, call, lambda step: progress(f"installing: {step}"))
        except (InstallFailed, NeedsBuild):
            shutil.rmtree(folder, ignore_errors=True)  # an incomplete one may have filled the disk
            raise
        marker = _Marker(digest=lock.digest, build=choice.build, notice=choice.notice)
        files.write_atomically(folder / MARKER, msgspec.json.encode(marker))
    return Environment(_python(folder), choice.build, choice.notice, installed=True)


def due(lock: Lock, locks: Path, root: Path) -> BuildChoice | None:
    """The build that :func:`ensure` would choose and install; None if ``lock`` is installed."""
    driver = has_driver()
    if _installed(root / lock.stack, lock, driver=driver):
        return None
    text = requirements_path(lock.stack, locks).read_text(encoding="utf-8")
    return _choose(lock, text, driver=driver)


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


def drop_leftovers(root: Path, but: Collection[str]) -> None:
    """Delete environments that killed upgrades left, except ``but``, kept ones and those in use."""
    for left in root.glob(f"{MARK}*"):
        if left.name in but or (left / KEPT).exists():
            continue
        with contextlib.suppress(InUse):
            drop(root, left.name, do_not_wait)


class InUse(Exception):
    """Another process uses this environment."""


def do_not_wait() -> None:
    """Raise InUse instead of waiting for an environment."""
    raise InUse


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


def _check_disk(stack: str, build: Build, free: int, calls: Sequence[Sequence[str]]) -> None:
    """InstallFailed if the disk may be too small. What uv's cache has is linked from there."""
    needed = NEEDED_BYTES[build]
    if free < needed and not all(map(_is_cached, calls)):
        message = (
            f"Stack {stack} may need {needed / GIB:.1f} GiB ({build} build of torch), "
            f"{free / GIB:.1f} GiB are free. Free disk space, or name fewer stacks."
        )
        raise InstallFailed(Failure(outcome=DISK_FULL, message=message))


def _is_cached(call: Sequence[str]) -> bool:
    """Whether uv would download nothing for ``call``."""
    ran = uv.run([*call, "--dry-run"], variables={"UV_DEFAULT_INDEX": uv.index_url()})
    return ran.returncode == 0 and "Would download" not in ran.stderr


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


def _calls(lock: Lock, text: str, choice: BuildChoice, folder: Path) -> list[list[str]]:
    """The calls of uv that install the lock, and then this machine's build of torch.

    Every file must have its hash. Packages of a VCS have none and are installed separately: the
    commit in their address says what they are.
    """
    unhashed = hashless(text)
    asked = [requirement_of(block) for block in blocks(text)]
    wheels_only = uv.wheels_only([*lock.build, *from_source(asked)])
    dated = ["--exclude-newer", cutoff(lock.as_of)]  # build dependencies are of that day too

    def call(name: str, requirements: str, *options: str) -> list[str]:
        path = folder / name
        path.write_text(requirements, encoding="utf-8", newline="\n")
        where = ["--python", str(_python(folder))]
        return ["pip", "install", *where, "--no-deps", *options, "--requirements", str(path)]

    hashed = without(text, lambda name: choice.drops(name) or name in unhashed)
    calls = [call("requirements.txt", hashed, *wheels_only, *dated, "--require-hashes")]
    if unhashed:
        rest = without(text, lambda name: name not in unhashed)
        calls.append(call("sources.txt", rest, *wheels_only, *dated))
    if choice.torch:
        hashes = " ".join(f"--hash=sha256:{digest}" for digest in choice.wheels.values())
        torch = f"{choice.torch} {hashes}\n"
        options = [*uv.wheels_only(), *choice.options, "--require-hashes"]
        calls.append(call("torch.txt", torch, *options))
    return calls


def _install(lock: Lock, call: Sequence[str], progress: Callable[[str], object]) -> None:
    ran = uv.run_reporting(call, progress, variables={"UV_DEFAULT_INDEX": uv.index_url()})
    if not ran.returncode:
        return
    message = uv.summary(ran.stderr)
    missing = needs_build(message)
    if missing:
        raise NeedsBuild(f"Stack {lock.stack} cannot be installed", missing)
    raise InstallFailed(Failure(outcome=classify(ran.stderr), message=message))


def _python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


THIS_ENVIRONMENT = "this environment"
"""The name of a stack that is an environment of the user."""
LISTING_TIMEOUT_S = 60.0


class Distribution(Frozen, frozen=True):
    """An installed package."""

    name: str
    version: str
    needs: tuple[str, ...]
    """The requirements in its metadata."""
    origin: str | None
    """Where it came from, as JSON (PEP 610); None if that is the package index."""
    files: str = ""
    """A digest of its files; empty if it does not list them."""

    @property
    def contents(self) -> frozenset[str]:
        """What tells it from another package of the same version; see ``lock.contents``."""
        found = {f"files:{self.files}"} if self.files else set()
        if self.origin is None:
            return frozenset(found | {FROM_INDEX})
        try:
            origin = _ORIGIN.decode(self.origin)
        except msgspec.DecodeError:
            return frozenset(found)
        hashes = {origin.archive_info.hash.replace("=", ":")} - {""}
        hashes |= {f"{kind}:{value}" for kind, value in origin.archive_info.hashes.items()}
        commit = origin.vcs_info.get("commit_id")
        return frozenset(
            found | hashes | {f"from:{origin.url}"} | ({f"commit:{commit}"} if commit else set())
        )


class _Archive(msgspec.Struct):
    """The hashes of an archive that a package was installed from."""

    hash: str = ""
    hashes: dict[str, str] = {}


class _Origin(msgspec.Struct):
    """The part of PEP 610 that is read."""

    url: str = ""
    archive_info: _Archive = msgspec.field(default_factory=_Archive)
    vcs_info: dict[str, str] = {}


_ORIGIN = msgspec.json.Decoder(_Origin)


class Listing(Frozen, frozen=True):
    """What is installed in an environment."""

    python: str
    distributions: tuple[Distribution, ...]


def listing(python: Path, threads: int) -> Listing:
    """What is installed in the environment of ``python``; UserError if it cannot be listed."""
    try:
        ran = subprocess.run(
            [python, "-I", listing_script.__file__],
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
