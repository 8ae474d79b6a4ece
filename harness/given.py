"""One side of an upgrade as a user gave it: what it is resolved from, and what of it may move."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from harness import environment
from harness.interpreter import checked

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable
    from pathlib import Path

    from harness.model import Lock

LISTING = """
import importlib.metadata, json
def origin(d):  # conda notes in which folder it built a package, which is a release all the same
    return None if (d.read_text("INSTALLER") or "").strip() == "conda" else d.read_text("direct_url.json")
print(json.dumps([[d.metadata["Name"], d.requires or [], origin(d)]
                  for d in importlib.metadata.distributions() if d.metadata]))
"""
TOOLS = frozenset({"pip", "setuptools", "wheel", "uv", "distribute"})
"""What environments are made with: nobody's request, and it comes where something needs it."""


@dataclass(frozen=True, kw_only=True)
class Given:
    """One side as it was given."""

    name: str
    """For people."""
    python: str
    as_of: dt.date | Literal["today"]
    requirements: tuple[str, ...]
    """What it is resolved from."""
    asked: tuple[str, ...]
    """What somebody asked for: the requirements of a candidate that is made of it."""
    constraints: tuple[str, ...] = ()
    preferred: str = ""
    """The requirements text of which a candidate keeps the versions where it can."""
    lock: Lock | None = None
    """Where it is resolved already."""
    locks: Path | None = None
    """The folder of that lock's text."""
    interpreter: Path | None = None
    """Of an environment that is there already, and is run in place."""
    notices: tuple[str, ...] = ()


def label(requirement: Requirement) -> bool:
    """Whether it is pinned to a build of a release, such as 2.13.0+cpu."""
    return any("+" in each.version for each in requirement.specifier)


def without_label(text: str) -> str:
    """The requirement on the release and not on one build of it: which build is taken is the machine's business."""
    parsed = Requirement(text)
    if label(parsed):
        parsed.specifier = SpecifierSet(re.sub(r"\+[\w.]+", "", str(parsed.specifier)))
    return str(parsed)


def of_environment(path: Path, threads: int) -> Given:
    """What is installed in an environment, run in place."""
    python = checked(path).absolute()
    lock = environment.installed(python, threads)
    distributions = listing(python, threads)
    roots, notices = asked_in(distributions, lock)
    origins = sorted((name, origin) for name, _, origin in distributions if origin)
    if origins:  # one version of several sources: where it came from is part of what is there
        digest = hashlib.sha256(msgspec.json.encode((lock.digest, origins))).hexdigest()
        lock = msgspec.structs.replace(lock, digest=digest)
    pins = "\n".join(without_label(f"{each.name}=={each.version}") for each in lock.packages if is_public(each.version))
    name = path.name if path.is_dir() else str(path)
    return Given(
        name=f"environment {name}",
        python=lock.python,
        as_of="today",
        requirements=tuple(f"{each.name}=={each.version}" for each in lock.packages if is_public(each.version)),
        asked=roots,
        preferred=pins + "\n",
        lock=lock,
        interpreter=python,
        notices=notices,
    )


def is_public(version: str) -> bool:
    """Whether a version can be written as a pin."""
    try:
        Requirement(f"x=={version}")
    except InvalidRequirement:
        return False
    return True


def listing(python: Path, threads: int) -> list[tuple[str, list[str], str | None]]:
    """Of each distribution its name, what it needs, and where it came from if not from the index."""
    ran = subprocess.run(
        [python, "-I", "-c", LISTING],
        capture_output=True,
        check=True,
        timeout=environment.LISTING_TIMEOUT_S,
        env=environment.variables(threads),
        stdin=subprocess.DEVNULL,
    )
    return [(name, needs, origin) for name, needs, origin in json.loads(ran.stdout) if name]


def asked_in(
    distributions: Iterable[tuple[str, list[str], str | None]], lock: Lock
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The packages that nothing else there needs, at any version, and what is told of those that the index lacks."""
    distributions = list(distributions)
    origins = {str(canonicalize_name(name)): origin for name, _, origin in distributions}
    needed = {
        each
        for name, needs, origin in distributions
        for each in needed_by(needs, lock.python)
        if each != canonicalize_name(name) and not origin  # what a project in development needs was asked for
    }
    roots, local = ["torch"], []
    for each in lock.packages:
        if each.name in TOOLS or each.name in needed or each.name == "torch":
            continue
        if origins.get(each.name):
            local.append(each.name)
        else:
            roots.append(each.name)
    told = f"not from the package index and left out of the candidate: {', '.join(local)}" if local else ""
    return tuple(roots), (told,) if told else ()


def needed_by(needs: Iterable[str], python: str) -> set[str]:
    """Canonical names of what a distribution needs on this Python, without its extras."""
    found = set()
    for text in needs:
        try:
            parsed = Requirement(text)
        except InvalidRequirement:
            continue
        if parsed.marker is None or parsed.marker.evaluate({"extra": "", "python_version": python}):
            found.add(str(canonicalize_name(parsed.name)))
    return found
