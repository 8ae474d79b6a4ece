"""Locks: a stack resolved once by uv, with the package index as of the stack's date.

A lock is two files: ``<stack>.txt``, which ``uv pip install --require-hashes`` reads, and
``<stack>.json``, the Lock. Without the second file there is no lock.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import importlib.metadata
import re
import tempfile
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from gradmatrix.core.errors import UserError
from gradmatrix.core.files import NOT_READABLE, write_atomically
from gradmatrix.core.model import Failure, Lock, LockedPackage, Stack
from gradmatrix.core.outcomes import (
    BUILD,
    CONFLICT,
    INDEX_UNREACHABLE,
    NO_RELEASE,
    SAYS_DISK_FULL,
    Outcome,
)
from gradmatrix.core.text import listed
from gradmatrix.stacks import uv
from gradmatrix.stacks.index import Index, IndexUnreachable, Release, newest
from gradmatrix.stacks.listing import contents_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator


class CannotLock(UserError):
    """A stack asks for something that cannot be locked. Other stacks can still be locked."""


class NeedsBuild(CannotLock):
    """A stack needs packages that have no wheel, and does not allow to build them."""

    def __init__(self, what: str, packages: Iterable[str]) -> None:
        self.packages = tuple(packages)
        names = ", ".join(f'"{name}"' for name in self.packages)
        super().__init__(
            f"{what} from wheels alone.",
            cause=f"{' and '.join(self.packages)} would have to be built, and a build runs code "
            "outside of the cells",
            next_step=f"to allow it, add build = [{names}] to the stack's table in matrix.toml",
        )


class NotAsLocked(UserError):
    """The two files of a lock do not belong together."""


NEEDS_BUILD = re.compile(
    r"Wheels are required for `([^`]+)` because building from source is disabled"
    r"|attempted to build `([^`= ]+)"
    r"|[Bb]uilding source distributions for `([^`= ]+)[^`]*` is disabled"
)
"""What uv prints about a package without a wheel that it may not build."""


def needs_build(explanation: str) -> tuple[str, ...]:
    """The packages that uv would have to build, from what it printed."""
    found = (next(filter(None, match.groups())) for match in NEEDS_BUILD.finditer(explanation))
    return tuple(sorted(set(map(canonicalize_name, found))))


def blocks(text: str) -> Iterator[str]:
    """The entries of a requirements text: a line and its indented hashes."""
    for block in re.split(r"^(?=\S)", text, flags=re.MULTILINE):
        if block.strip() and not block.startswith(("#", "-")):
            yield block


def requirement_of(block: str) -> Requirement:
    """The requirement of an entry, without its hashes."""
    return Requirement(block.splitlines()[0].rstrip("\\ "))


def without(text: str, dropped: Callable[[str], bool]) -> str:
    """A requirements text without the packages whose names are ``dropped``."""
    return "".join(block for block in blocks(text) if not dropped(requirement_of(block).name))


def hashless(text: str) -> list[str]:
    """The packages in a lock's text without a hash: they have the commit of a VCS instead."""
    return [requirement_of(block).name for block in blocks(text) if "--hash" not in block]


def from_source(requirements: Iterable[Requirement]) -> list[str]:
    """The names of those that have an address which is no wheel: naming it asks to build it."""
    return [
        canonicalize_name(each.name)
        for each in requirements
        if each.url and not _address(each.url).endswith(".whl")
    ]


def _address(url: str) -> str:
    return unquote(url.partition("#")[0])


def by_address(text: str) -> list[str]:
    """Canonical names of the packages in a lock's text that do not come from the index."""
    return [canonicalize_name(each.name) for each in map(requirement_of, blocks(text)) if each.url]


FROM_INDEX = "from:index"
HASH = re.compile(r"--hash=(\w+:\w+)")
COMMIT = re.compile(r"@([0-9a-f]{40})(?:#|$)")


def contents(text: str) -> dict[str, frozenset[str]]:
    """What tells a package from another one of the same version, by its canonical name.

    Each is a kind and a value: ``sha256`` of every file that the lock allows, ``files`` of a wheel
    on this machine (see ``listing.contents_digest``), the ``commit`` of a source, and the address
    that it comes ``from``.
    """
    found: dict[str, frozenset[str]] = {}
    for block in blocks(text):
        requirement = requirement_of(block)
        known = {*HASH.findall(block)}
        if requirement.url is None:
            known.add(FROM_INDEX)
        else:
            known.add(f"from:{requirement.url}")
            known |= {f"commit:{each}" for each in COMMIT.findall(requirement.url)}
            known |= files_of_wheel(requirement.url)
        name = str(canonicalize_name(requirement.name))
        found[name] = found.get(name, frozenset()) | known
    return found


def files_of_wheel(address: str) -> set[str]:
    """The digest of the files of a wheel on this machine; empty if it has none to compare."""
    path = Path(unquote(urlsplit(address).path))
    if not address.startswith("file:") or path.suffix != ".whl" or not path.is_file():
        return set()
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        records = [each for each in names if re.fullmatch(r"[^/]+\.dist-info/RECORD", each)]
        if len(records) != 1 or any(".data/" in each for each in names):
            return set()
        digest = contents_digest(wheel.read(records[0]).decode())
    return {f"files:{digest}"} if digest else set()


def version_of(block: str, requirement: Requirement, python: str) -> str:
    """The version of an entry. Without one in the text, uv builds the source to find it."""
    if requirement.url is None:
        return next(iter(requirement.specifier)).version
    address = _address(requirement.url)
    if address.endswith(".whl"):
        return str(parse_wheel_filename(address.rpartition("/")[2])[1])
    with tempfile.TemporaryDirectory() as scratch:
        listed, target = Path(scratch) / "source.txt", Path(scratch) / "built"
        listed.write_text(block, encoding="utf-8")
        ran = uv.run(
            [
                "pip", "install", "--no-deps", "--target", str(target), "--python-version", python,
                "--requirements", str(listed), *uv.wheels_only([requirement.name]),
            ],
            variables={"UV_DEFAULT_INDEX": uv.index_url()},
        )  # fmt: skip
        built = [each.version for each in importlib.metadata.distributions(path=[str(target)])]
    if not built:
        raise UserError(
            f"{requirement.name} cannot be built.",
            cause=uv.summary(ran.stderr) or "uv gave no reason",
            next_step="check that the project at that address can be built",
        )
    return built[0]


NO_SOLUTION = re.compile(r"No solution found|\bunsatisfiable\b")
"""What uv prints if the stack has no solution. Other failures are not the fault of the stack."""
WRITTEN = (CONFLICT,)
"""The failures that are written as locks: they are the same on every machine and day."""


@dataclass(frozen=True)
class Bounds:
    """What limits a resolution beside the stack's requirements."""

    constraints: tuple[str, ...] = ()
    """Bounds on packages that nothing may need."""
    preferred: str = ""
    """The text of another lock: its versions are kept if possible."""


UNBOUND = Bounds()


def resolve(stack: Stack, index: Index, folder: Path, bounds: Bounds = UNBOUND) -> Lock:
    """Resolve ``stack`` and write its lock into ``folder``.

    Only a solution, or the lack of one, is written. If the index does not answer, or a source
    release does not build, an older lock stays.

    Returns:
        the lock, with a ``failure`` if there is no solution

    Raises:
        NeedsBuild: if a package must be built and the stack does not allow it
        UserError: if uv cannot work on this machine: a full disk, broken settings
    """
    as_of = dt.datetime.now(dt.UTC).date() if stack.as_of == "today" else stack.as_of
    ran = _compiled(stack, as_of, index, bounds)
    try:
        if ran.returncode:
            lock = _lock(
                stack, as_of, failure=_failure(stack, as_of, index, uv.summary(ran.stderr))
            )
        else:
            packages = _packages(ran.stdout, stack.python, as_of, index)
            lock = _lock(stack, as_of, packages=packages, digest=_digest(ran.stdout))
    except IndexUnreachable as error:
        lock = _lock(stack, as_of, failure=Failure(outcome=INDEX_UNREACHABLE, message=str(error)))
    if lock.failure is None or lock.failure.outcome in WRITTEN:
        write(lock, ran.stdout, folder)
    return lock


def refuted(stack: Stack, index: Index) -> str:
    """The resolver's proof that ``stack`` has no solution; empty if it has one. Nothing is written.

    Raises:
        NeedsBuild: if a package must be built and the stack does not allow it
        UserError: if the index does not answer, or uv cannot work on this machine
    """
    assert isinstance(stack.as_of, dt.date)
    try:
        ran = _compiled(stack, stack.as_of, index, UNBOUND)
        words = uv.summary(ran.stderr)
        failure = _failure(stack, stack.as_of, index, words) if ran.returncode else None
    except IndexUnreachable as error:
        failure = Failure(outcome=INDEX_UNREACHABLE, message=str(error))
    if failure is not None and failure.outcome not in (CONFLICT, NO_RELEASE):
        raise UserError(
            f"It is not known whether {listed(stack.requirements)} can be installed together.",
            cause=failure.message,
            next_step="run the command again later; nothing was written",
        )
    return failure.message if failure else ""


def _compiled(stack: Stack, as_of: dt.date, index: Index, bounds: Bounds) -> uv.Ran:
    """The result of uv; its ``stdout`` is the requirements text."""
    asked = from_source(map(Requirement, stack.requirements))
    with tempfile.TemporaryDirectory() as scratch:
        further = uv.wheels_only([*stack.build, *asked])
        if stack.prereleases:
            further += ["--prerelease", "allow"]
        if bounds.constraints:
            constraints = Path(scratch) / "constraints.txt"
            constraints.write_text("\n".join(bounds.constraints), encoding="utf-8")
            further += ["--constraints", str(constraints)]
        output = Path(scratch) / "lock.txt"
        if bounds.preferred:
            output.write_text(bounds.preferred, encoding="utf-8", newline="\n")
            further += ["--output-file", str(output)]
        ran = uv.run(
            [
                "pip", "compile", "-", "--quiet", "--universal", "--python-version", stack.python,
                "--exclude-newer", cutoff(as_of), "--generate-hashes",
                "--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links",
                *further,
            ],
            stdin="\n".join(stack.requirements),
            variables={"UV_DEFAULT_INDEX": index.url},
        )  # fmt: skip
        return replace(ran, stdout=output.read_text(encoding="utf-8")) if bounds.preferred else ran


def load(stack: str, folder: Path) -> Lock | None:
    """The lock of ``stack``; None if there is none.

    Raises:
        NotAsLocked: if its text is missing or was changed
        UserError: if it cannot be read, or is that of another stack
    """
    path = folder / f"{stack}.json"
    try:
        lock = msgspec.json.decode(path.read_bytes(), type=Lock)
        check(lock)
    except FileNotFoundError:
        return None
    except (*NOT_READABLE, ValueError) as error:
        raise UserError(
            f"The lock {path.name} cannot be read: {error}.",
            cause="it was edited by hand, or written by another release",
            next_step=f"delete {path.name} and lock again: gradmatrix lock {stack}",
        ) from error
    if lock.stack != stack:
        raise UserError(
            f"The lock {path.name} belongs to another stack: {lock.stack}.",
            cause="it was copied or renamed by hand",
            next_step=f"delete {path.name} and lock again: gradmatrix lock {stack}",
        )
    if lock.failure is None:
        _check_text(lock, requirements_path(stack, folder))
    return lock


def check(lock: Lock) -> None:
    """ValueError if a lock has a requirement or an outcome that is none."""
    for text in lock.requirements:
        Requirement(text)
    if lock.failure is not None:
        Outcome(lock.failure.outcome)


def _check_text(lock: Lock, path: Path) -> None:
    """NotAsLocked if the text at ``path`` is not the one that was locked."""
    try:
        text = path.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
    except FileNotFoundError:
        what, cause = (
            f"The lock {path.stem} is incomplete: {path.name} is missing.",
            "it was deleted",
        )
    else:
        if _digest(text) == lock.digest:
            return
        what = f"{path.name} is not the text that was locked: {_difference(text, lock)}."
        cause = "it was edited by hand, or only one of the two files of the lock was replaced"
    raise NotAsLocked(
        what,
        cause=cause,
        next_step="git checkout results/locks, or lock the stack again: "
        f"gradmatrix lock {lock.stack}",
    )


MOST_DIFFERENCES = 5


def _difference(text: str, lock: Lock) -> str:
    """In which packages ``text`` differs from ``lock``."""
    there = {package.name: package.version for package in lock.packages}
    try:
        here: dict[str, str] = {
            canonicalize_name(each.name): there.get(canonicalize_name(each.name), "")
            if each.url
            else str(each.specifier).removeprefix("==")
            for _, each in _on_linux(text, lock.python)
        }
    except InvalidRequirement as error:
        return f"a line is no requirement: {str(error).splitlines()[0]}"
    found = [
        f"{name} is {here.get(name) or 'missing'} and was {there.get(name, 'not in it')}"
        for name in sorted(here.keys() | there.keys())
        if here.get(name) != there.get(name)
    ]
    if not found:
        return "the versions are the same; hashes, markers or comments differ"
    more = len(found) - MOST_DIFFERENCES
    return "; ".join(found[:MOST_DIFFERENCES]) + (f"; and {more} more" if more > 0 else "")


def is_current(stack: Stack, lock: Lock) -> bool:
    """Whether ``lock`` is what ``stack`` asks for. Of a stack of "today" every lock is."""
    asked, answered = (
        (each.requirements, each.python, each.build, each.prereleases) for each in (stack, lock)
    )
    return asked == answered and stack.as_of in ("today", lock.as_of)


def fallen_behind(lock: Lock, core_names: Collection[str], days: int = 180) -> list[LockedPackage]:
    """Packages that the stack asks for without a pin, and that are more than ``days`` old.

    A resolver that cannot have everything new takes an old release without a warning. Packages with
    a pin (``==``) are old on purpose.
    """
    wanted = {canonicalize_name(name) for name in core_names}
    requested = {
        canonicalize_name(r.name) for r in map(Requirement, lock.requirements) if not _pinned(r)
    }
    return [
        package
        for package in lock.packages
        if package.name in wanted & requested
        and package.behind_days is not None
        and package.behind_days > days
    ]


def requirements_path(stack: str, folder: Path) -> Path:
    """The requirements text of a lock."""
    return folder / f"{stack}.txt"


def cutoff(as_of: dt.date) -> str:
    """The end of the day in UTC. uv would read a date without a time as local time."""
    return f"{as_of + dt.timedelta(days=1)}T00:00:00Z"


def _packages(text: str, python: str, as_of: dt.date, index: Index) -> tuple[LockedPackage, ...]:
    """What ``text`` installs on Linux, with the newest release of each package on that day."""
    versions = {
        canonicalize_name(requirement.name): version_of(block, requirement, python)
        for block, requirement in _on_linux(text, python)
    }
    releases = index.many(versions, as_of)
    return tuple(
        _locked(name, version, as_of, releases[name]) for name, version in sorted(versions.items())
    )


def _on_linux(text: str, python: str) -> Iterator[tuple[str, Requirement]]:
    """The entries of a requirements text that are installed on Linux."""
    environment = _linux(python)
    for block in blocks(text):
        requirement = requirement_of(block)
        if requirement.marker is None or requirement.marker.evaluate(environment):
            yield block, requirement


def _locked(
    name: str, version: str, as_of: dt.date, releases: tuple[Release, ...]
) -> LockedPackage:
    own = next(
        (release for release in releases if Version(release.version) == Version(version)), None
    )
    top = newest(releases, as_of)
    return LockedPackage(
        name=name,
        version=version,
        released=own.uploaded if own else None,
        newest=top.version if top else None,
        newest_released=top.uploaded if top else None,
    )


def _failure(stack: Stack, as_of: dt.date, index: Index, explanation: str) -> Failure:
    """Why uv found no solution. The index says which requirement no release met on that day."""
    if not NO_SOLUTION.search(explanation) or uv.REFUSED.search(explanation):
        return _failure_to_resolve(stack, explanation)
    for requirement in (each for each in map(Requirement, stack.requirements) if not each.url):
        message = _no_release(requirement, as_of, index.releases(requirement.name, as_of))
        if message:
            words = explanation.partition(" hint: ")[0]  # the hint is to change the date
            return Failure(outcome=NO_RELEASE, message=f"{message} uv says: {words}")
    missing = needs_build(explanation)
    if missing:
        raise NeedsBuild(f"Stack {stack.name} cannot be resolved", missing)
    _check_listed(explanation, as_of, index)
    return Failure(outcome=CONFLICT, message=explanation)


def _check_listed(explanation: str, as_of: dt.date, index: Index) -> None:
    """IndexUnreachable if uv found no file of a package that has releases.

    A sign-in page of a network looks to uv like a package without files.
    """
    for match in uv.NO_FILES.finditer(explanation):
        name = match[1] or match[2]
        if newest(index.releases(name, as_of), as_of) is not None:
            raise IndexUnreachable(
                f"The package index listed no file of {name}, which has releases. Perhaps a web "
                "page answered in its place, because this network wants you to sign in."
            )


def _failure_to_resolve(stack: Stack, explanation: str) -> Failure:
    """Why uv gave no answer; UserError if the reason is this machine."""
    missing = needs_build(explanation)
    if missing:
        raise NeedsBuild(f"Stack {stack.name} cannot be resolved", missing)
    if not SAYS_DISK_FULL.search(explanation):
        if uv.NETWORK.search(explanation):
            return Failure(outcome=INDEX_UNREACHABLE, message=explanation)
        if "Failed to build" in explanation:
            return Failure(outcome=BUILD, message=explanation)  # of a source release
    raise UserError(
        f"Stack {stack.name} could not be resolved; nothing was written.",
        cause=explanation or "uv gave no reason",
        next_step="fix this and run the command again",
    )


def _no_release(
    requirement: Requirement, as_of: dt.date, releases: tuple[Release, ...]
) -> str | None:
    """A sentence about a requirement that no release met on ``as_of``; None if one did."""
    if not releases:
        return f"The package index has no package {requirement.name}."
    matching = [r for r in releases if requirement.specifier.contains(r.version, prereleases=True)]
    if not matching:
        return f"No release meets {requirement}."
    days = [release.uploaded for release in matching if release.uploaded]
    if days and min(days) > as_of:
        return f"{requirement} was first released on {min(days)}, after {as_of}."
    return None


def _lock(
    stack: Stack,
    as_of: dt.date,
    *,
    packages: tuple[LockedPackage, ...] = (),
    digest: str = "",
    failure: Failure | None = None,
) -> Lock:
    return Lock(
        stack=stack.name,
        python=stack.python,
        as_of=as_of,
        requirements=stack.requirements,
        packages=packages,
        digest=digest,
        resolver=uv.version(),
        failure=failure,
        build=stack.build,
        prereleases=stack.prereleases,
    )


def write(lock: Lock, text: str, folder: Path) -> None:
    """Write both files.

    A JSON file that changes is deleted first and written last. If this is killed in between, there
    is no lock, and the stack is resolved again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, listed = requirements_path(lock.stack, folder), folder / f"{lock.stack}.json"
    content = msgspec.json.format(msgspec.json.encode(lock), indent=2) + b"\n"
    if not listed.exists() or listed.read_bytes() != content:
        listed.unlink(missing_ok=True)
    if lock.failure:
        path.unlink(missing_ok=True)
    else:
        write_atomically(path, text.encode())
    write_atomically(listed, content)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _pinned(requirement: Requirement) -> bool:
    return any(specifier.operator in ("==", "===") for specifier in requirement.specifier)


def _linux(python: str) -> dict[str, str]:
    """The marker variables of a Python on Linux, where results are published from."""
    return {
        "implementation_name": "cpython", "implementation_version": f"{python}.99",
        "os_name": "posix", "platform_machine": "x86_64",
        "platform_python_implementation": "CPython", "platform_release": "",
        "platform_system": "Linux", "platform_version": "", "python_full_version": f"{python}.99",
        "python_version": python, "sys_platform": "linux", "extra": "",
    }  # fmt: skip
