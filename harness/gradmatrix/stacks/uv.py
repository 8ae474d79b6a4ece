"""Runs uv. Its output is returned without the host name of the package index."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from gradmatrix.core.errors import UserError, without_credentials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

LEAKS = (
    "PIP_FIND_LINKS", "UV_FIND_LINKS",  # a local wheel has no date: it would enter every stack
    "UV_EXCLUDE_NEWER", "UV_CONSTRAINT", "UV_OVERRIDE", "UV_PRERELEASE", "UV_RESOLUTION",
    "UV_FORK_STRATEGY", "UV_TORCH_BACKEND", "UV_PYTHON", "UV_OFFLINE",
    "VIRTUAL_ENV", "CONDA_PREFIX",
    "UV_NO_BUILD", "UV_NO_BUILD_PACKAGE", "UV_NO_BINARY", "UV_NO_BINARY_PACKAGE",
)  # fmt: skip
"""Environment variables that would make a lock depend on this machine."""
OFFLINE = ("GRADMATRIX_OFFLINE", "UV_OFFLINE")
"""Environment variables that forbid use of the network; either one also applies to uv."""
TIMED_OUT = 124
REFUSED = re.compile(
    r"network was disabled|index url .* could not be queried|index .* returned a \d{3} ",
    re.IGNORECASE,
)
"""What uv adds to "no solution found" if the index did not let it look."""
NETWORK = re.compile(
    r"failed to (?:fetch|download)|error sending request|request failed after|dns error"
    r"|timed out|could not connect|connection (?:refused|reset|closed)"
    r"|error decoding response body|network is unreachable|network connectivity"
    rf"|\btls\b|\bcertificate\b|{REFUSED.pattern}"
    r"|unexpected JSON from|(?:unsupported|missing) `content-type`",
    re.IGNORECASE,
)
"""What uv prints if the network failed, or something else answered in place of the index."""
NO_FILES = re.compile(
    r"there are no versions of ([\w.-]*\w)(?![\w.\[=<>!~-])"
    r"|([\w.-]+) was not found in the package registry"
)
"""What uv prints about a package of which the index lists no file at all."""


STEP = re.compile(r" *(?:Resolved|Downloading|Downloaded|Building|Built|Prepared|Installed) ")
"""A line of uv about what it is doing."""
LISTED = re.compile(r"Using Python | [-+~] ")
"""A line of uv about the environment, or one of its packages."""


def wheels_only(built: Iterable[str] = ()) -> list[str]:
    """The arguments with which uv builds only the source releases of the packages ``built``."""
    return ["--only-binary", ":all:", *(f"--no-binary={name}" for name in built)]


@dataclass(frozen=True)
class Ran:
    """How a uv command ended; ``stderr`` has no host names."""

    returncode: int
    stdout: str
    stderr: str


def run(
    arguments: Sequence[str],
    *,
    stdin: str = "",
    variables: Mapping[str, str] | None = None,
    timeout_s: float = 1800,
) -> Ran:
    """Run ``uv ARGUMENTS``. Nothing is raised if uv fails or times out."""
    try:
        ran = subprocess.run(
            [binary(), *arguments],
            input=stdin,
            env=_environment(variables),
            timeout=timeout_s,
            capture_output=True,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return Ran(TIMED_OUT, "", f"uv timed out: no answer in {timeout_s:g} s")
    return Ran(ran.returncode, ran.stdout, scrub(ran.stderr))


def run_reporting(
    arguments: Sequence[str],
    progress: Callable[[str], object],
    *,
    variables: Mapping[str, str] | None = None,
    timeout_s: float = 1800,
) -> Ran:
    """Run ``uv ARGUMENTS`` and pass on what it downloads, builds and installs, a line at a time.

    The ``stderr`` that comes back is without these lines.
    """
    with subprocess.Popen(
        [binary(), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=_environment(variables),
        encoding="utf-8",
        errors="replace",
    ) as process:
        assert process.stderr is not None
        timer = threading.Timer(timeout_s, process.kill)
        timer.start()
        kept = []
        for line in process.stderr:
            if STEP.match(line):
                progress(line.strip())
            elif not LISTED.match(line):
                kept.append(line)
        code = process.wait()
        if not timer.is_alive():
            return Ran(TIMED_OUT, "", f"uv timed out: no answer in {timeout_s:g} s")
        timer.cancel()
    return Ran(code, "", scrub("".join(kept)))


def _environment(variables: Mapping[str, str] | None) -> dict[str, str]:
    """The environment variables of uv: those of this machine without what would change a lock."""
    environment = {key: value for key, value in os.environ.items() if key not in LEAKS}
    if offline():
        environment["UV_OFFLINE"] = "1"
    return environment | {"NO_COLOR": "1", "UV_NO_PROGRESS": "1", **(variables or {})}


def offline() -> str:
    """The environment variable that forbids use of the network; empty if none does."""
    return next(
        (name for name in OFFLINE if os.environ.get(name, "").lower() not in {"", "0", "false"}), ""
    )


@cache
def binary() -> str:
    """The uv of the extra ``matrix``; else the one that runs this, as ``uvx`` does, or on PATH."""
    try:
        from uv import find_uv_bin  # noqa: PLC0415  (it may be missing)
    except ModuleNotFoundError:
        found = os.environ.get("UV") or shutil.which("uv")
        if found is None:
            raise
        return found
    return find_uv_bin()


@cache
def version() -> str:
    """Name and version of the resolver, such as ``uv 0.9.2``."""
    return " ".join(run(["--version"]).stdout.split()[:2])


def index_url() -> str:
    """The simple API of the package index that this machine is configured for.

    The variables of uv come first, then those of pip, then the settings of uv. uv is asked for its
    default, so that no host name is written here.
    """
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        if os.environ.get(name):
            # uv allows NAME=ADDRESS
            address = re.sub(r"^[\w-]+=", "", os.environ[name]).rstrip("/")
            if not re.match(r"https?://[^/]|file:///", address):
                raise UserError(  # it does not show the value, which may hold credentials
                    f"{name} is not the address of a package index.",
                    cause="an address begins with https://, http:// or file:///",
                    next_step=f"set {name} to the simple API of an index, or unset it",
                )
            return address
    return _default_index_url()


@cache
def _default_index_url() -> str:
    asked = run(["pip", "compile", "-", "--quiet", "--no-header", "--emit-index-url"])
    found = re.search(r"^--(?:default-)?index(?:-url)?[ =](\S+)", asked.stdout, re.MULTILINE)
    if not found:
        raise UserError(
            "uv is configured without a package index.",
            cause=summary(asked.stderr) or "its settings say no-index",
            next_step="set UV_DEFAULT_INDEX to the simple API of an index",
        )
    return found[1].rstrip("/")


def scrub(text: str) -> str:
    """``text`` with the hosts and credentials of all addresses replaced."""
    return re.sub(
        r"\b(?:https?|file)://[^/\s`'\")]*", "the package index", without_credentials(text)
    )


def summary(stderr: str) -> str:
    """What uv printed, without warnings, on one line."""
    lines = (line for line in stderr.splitlines() if not line.startswith("warning:"))
    joined = re.sub(r"\s*\n\s*cause: ", ": ", "\n".join(lines).strip())
    return " ".join(joined.removeprefix("error: ").split())
