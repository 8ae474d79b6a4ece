"""One side of an upgrade as a user gave it: what it is resolved from, and what of it may move.

What a user names as one side of an upgrade: a stack, a lock, a file of requirements, or an environment.

What ``--to`` names: another side, the newest of everything, or packages at other versions, wheels and sources.

Runs that exist, as sides of a comparison: a stack of this checkout, a results folder, a file of records, a commit.

They are read, and nothing is written into them.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import difflib
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from gradmatrix.compare import requirements as manifests
from gradmatrix.compare import requirements as pylock
from gradmatrix.compare import requirements as requirement_files
from gradmatrix.compare import requirements as wishes
from gradmatrix.compare.comparison import Key, Side
from gradmatrix.compare.requirements import LATEST, Wish
from gradmatrix.core.errors import UserError, did_you_mean, without_credentials
from gradmatrix.core.text import one_line
from gradmatrix.judge import relations
from gradmatrix.judge.change import LOCK
from gradmatrix.run.plan import lock_input
from gradmatrix.run.store import Store, decode, newest
from gradmatrix.stacks import environment, uv
from gradmatrix.stacks import lock as locks
from gradmatrix.stacks.environment import checked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gradmatrix.compare.requirements import Listed
    from gradmatrix.core.model import Lock, Record, Stack
    from gradmatrix.run.project import Project


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
    pins = "\n".join(
        without_label(f"{each.name}=={each.version}")
        for each in lock.packages
        if is_public(each.version)
    )
    name = path.name if path.is_dir() else str(path)
    return Given(
        name=f"environment {name}",
        python=lock.python,
        as_of="today",
        requirements=tuple(
            f"{each.name}=={each.version}" for each in lock.packages if is_public(each.version)
        ),
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
        if each != canonicalize_name(name)
        and not origin  # what a project in development needs was asked for
    }
    roots, local = ["torch"], []
    for each in lock.packages:
        if each.name in TOOLS or each.name in needed or each.name == "torch":
            continue
        if origins.get(each.name):
            local.append(each.name)
        else:
            roots.append(each.name)
    told = (
        f"not from the package index and left out of the candidate: {', '.join(local)}"
        if local
        else ""
    )
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


PYLOCK = re.compile(r"pylock(?:\.[\w-]+)?\.toml")
PATCHES = 100
"""Releases of one minor version of Python, at most."""
UNDERSTOOD = "a stack of matrix.toml, a lock, a requirements file, a pyproject.toml, or the folder of an environment"


@dataclass(frozen=True)
class Reading:
    """How files are read: the Python to resolve for where they leave it open, and parts of a pyproject.toml."""

    python: str | None = None
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


def side(word: str, project: Project, reading: Reading) -> Given:
    """The side that ``word`` names; UserError where it names none."""
    if word in {stack.name for stack in project.matrix.stacks}:
        return of_stack(project.matrix.stack(word), project)
    path = path_of(word)
    if path.is_dir():
        return of_folder(path, project, reading)
    if path.is_file():
        return of_file(path, project, reading)
    kind = "file or folder" if looks_like_a_path(word) else "stack, file or folder"
    raise UserError(
        f"There is no {kind} {without_credentials(word)!r}.",
        cause=meant(word, [stack.name for stack in project.matrix.stacks], path),
        next_step=f"name {UNDERSTOOD}",
    )


def path_of(word: str) -> Path:
    """A word as a path; a home that is nobody's stays as it is written."""
    with contextlib.suppress(RuntimeError):
        return Path(word).expanduser()
    return Path(word)


def has_parts(word: str) -> bool:
    """Whether a word names what has extras and dependency groups: a pyproject.toml, a uv.lock, or their folder."""
    path = path_of(word)
    if path.is_dir():
        return any((path / name).is_file() for name in ("uv.lock", "pyproject.toml"))
    return path.name == "uv.lock" or (path.suffix == ".toml" and not PYLOCK.fullmatch(path.name))


def looks_like_a_path(word: str) -> bool:
    """Whether nothing but a path is written like this."""
    return bool(re.search(r"[/\\]|^\.|^~|\.(?:txt|in|toml|json|lock|whl)$", word))


def meant(word: str, names: list[str], path: Path) -> str:
    """The nearest of these names and of what lies beside a path that is not there; else the names alone."""
    if "://" in word:
        return "an address is neither a file nor a folder of this machine"
    folder = path.parent
    beside = sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
    near = difflib.get_close_matches(
        word, [*names, *(str(folder / name) for name in beside)], n=1, cutoff=0.6
    )
    near = near or [
        str(folder / name) for name in difflib.get_close_matches(path.name, beside, n=1, cutoff=0.6)
    ]
    if near:
        return f"perhaps you meant {near[0]!r}"
    return f"stacks are: {', '.join(names)}" if names else f"nothing like it lies in {folder}"


def of_stack(stack: Stack, project: Project) -> Given:
    """A stack of the matrix, with its lock where that is current."""
    known = locks.load(stack.name, project.locks_folder)
    lock = known if known is not None and locks.is_current(stack, known) else None
    folder = project.locks_folder
    return Given(
        name=stack.name,
        python=stack.python,
        as_of=lock.as_of if lock else stack.as_of,
        requirements=stack.requirements,
        asked=stack.requirements,
        preferred=preferred(lock, folder) if lock else "",
        lock=lock,
        locks=folder if lock else None,
    )


def preferred(lock: Lock, folder: Path) -> str:
    """The text of a lock; nothing of one that failed."""
    return (
        ""
        if lock.failure
        else locks.requirements_path(lock.stack, folder).read_text(encoding="utf-8")
    )


def of_folder(path: Path, project: Project, reading: Reading) -> Given:
    """The environment in a folder, or the project."""
    for name in ("bin/python", "Scripts/python.exe", "python.exe"):
        if (path / name).exists():
            return of_environment(path, project.settings().limits.threads)
    for name in ("uv.lock", "pylock.toml", "pyproject.toml", "requirements.txt"):
        if (path / name).is_file():
            return of_file(path / name, project, reading)
    raise UserError(
        f"{path} is neither an environment nor a project.",
        cause="it has no bin/python, uv.lock, pylock.toml, pyproject.toml or requirements.txt",
        next_step=f"name {UNDERSTOOD}",
    )


def of_file(path: Path, project: Project, reading: Reading) -> Given:
    """What a file holds, by its name; a lock of ours by either of its two files."""
    if path.suffix in (".json", ".txt") and (path.with_suffix(".json")).is_file():
        lock = lock_in(path)
        if lock is not None:
            return of_lock(lock, path.parent.resolve())
        if path.suffix == ".json":
            raise UserError(
                f"The lock {path.name} cannot be used.",
                cause=f"{path.stem}.txt is missing beside it, or belongs to another lock",
                next_step="copy both files of the lock",
            )
    if path.suffix == ".toml" or path.name == "uv.lock":
        return of_toml(path, project, reading)
    if path.suffix == ".whl":
        raise UserError(
            f"{path.name} is a wheel, and no side of its own.",
            cause="a wheel is one package: the candidate is the baseline with it",
            next_step=f"gradmatrix upgrade BASELINE --to {path}",
        )
    if is_interpreter(path):
        return of_environment(path, project.settings().limits.threads)
    if path.suffix in (".lock", ".yml", ".yaml", ".cfg", ".py", ".json"):
        raise UserError(
            f"{path.name} is of a kind that is not read.",
            cause="read are uv.lock, pylock.toml, pyproject.toml, requirements files and locks of this project",
            next_step="export it as a requirements file, such as poetry export or conda's pip list --format=freeze",
        )
    return of_listed(path, requirement_files.read(path), project, reading)


def lock_in(path: Path) -> Lock | None:
    """The lock that one of two files is part of; UserError where that was named and is none."""
    try:
        return locks.load(path.stem, path.parent)
    except UserError:
        if path.suffix == ".json":
            raise
        return None  # what lies beside a requirements file may be anything


def is_interpreter(path: Path) -> bool:
    """Whether a file is meant as a Python."""
    return bool(re.fullmatch(r"python[\d.]*(\.exe)?", path.name))


def of_toml(path: Path, project: Project, reading: Reading) -> Given:
    """A pyproject.toml, a uv.lock or a pylock.toml."""
    if path.name == "uv.lock":
        with tempfile.TemporaryDirectory() as scratch:
            found = manifests.uv_lock(path, reading.extras, reading.groups, Path(scratch))
    elif PYLOCK.fullmatch(path.name):
        found = pylock.pylock(path)
    else:
        found = manifests.pyproject(path, reading.extras, reading.groups)
    return of_listed(path, found, project, reading)


def of_lock(lock: Lock, folder: Path) -> Given:
    """A lock of this project's kind."""
    return Given(
        name=lock.stack,
        python=lock.python,
        as_of=lock.as_of,
        requirements=lock.requirements,
        asked=lock.requirements,
        preferred=preferred(lock, folder),
        lock=lock,
        locks=folder,
    )


def of_listed(path: Path, found: Listed, project: Project, reading: Reading) -> Given:
    """What a file asks for; a lock's versions are what came out, and may move in a candidate."""
    local = [each for each in map(Requirement, found.requirements) if label(each)]
    notices = [*found.notices]
    if local:
        names = ", ".join(sorted(f"{each.name}{each.specifier}" for each in local))
        notices.append(
            f"{path.name}: {names} is read without its local label: the index has no such release"
        )
    requirements = tuple(map(without_label, found.requirements))
    return Given(
        name=path.name,
        python=python_for(path, found.requires_python, project, reading),
        as_of="today",
        requirements=requirements,
        asked=found.asked if found.locked else requirements,
        constraints=tuple(map(without_label, found.constraints)),
        preferred="\n".join(requirements) + "\n" if found.locked else "",
        notices=tuple(notices),
    )


def python_for(path: Path, requires: str, project: Project, reading: Reading) -> str:
    """The Python to resolve for: the one asked for, or else the newest of the matrix that will do."""
    known = sorted({stack.python for stack in project.matrix.stacks}, key=Version, reverse=True)
    try:
        allowed = SpecifierSet(requires)
    except InvalidSpecifier as error:
        raise UserError(
            f"{path.name} has requires-python = {requires!r}, which cannot be read.",
            cause=str(error),
            next_step='write it like requires-python = ">=3.11"',
        ) from error
    fits = [each for each in known if allows(allowed, each)]
    wanted = reading.python or (fits or known)[0]
    if not allows(allowed, wanted):
        raise UserError(
            f"{path.name} does not allow Python {wanted}.",
            cause=f"it has requires-python = {requires!r}",
            next_step="give --python a version that it allows, such as --python 3.12",
        )
    return wanted


def allows(allowed: SpecifierSet, minor: str) -> bool:
    """Whether any release of that minor version of Python will do."""
    return any(allowed.contains(f"{minor}.{patch}") for patch in range(PATCHES))


@dataclass(frozen=True)
class Asked:
    """What the words after ``--to`` mean together."""

    side: Given | None = None
    """Another side altogether."""
    wishes: tuple[Wish, ...] = ()
    latest: bool = False
    """Everything that the baseline asks for, at its newest."""


def asked(
    words: Sequence[str], baseline: Given, project: Project, reading: Reading, *, dated: bool
) -> Asked:
    """What ``words`` mean for a baseline; ``dated`` where another day than a stack's own was asked for."""
    found: list[Wish] = []
    latest = False
    for word in words:
        if word == LATEST:
            stack = latest_stack(baseline, project)
            if stack is not None and len(words) == 1 and not dated:
                return Asked(side=of_stack(project.matrix.stack(stack), project))
            latest = True
        elif is_side(word, project):
            if len(words) > 1:
                raise UserError(
                    f"--to {word} is a whole side, and stands beside others.",
                    cause="a second stack, lock, file or environment is the candidate by itself",
                    next_step=f"give --to {word} alone",
                )
            return Asked(side=side(word, project, reading))
        else:
            found.append(wish(word, baseline, project))
    check_once(found)
    return Asked(wishes=tuple(found), latest=latest)


def latest_stack(baseline: Given, project: Project) -> str | None:
    """The matrix's stack ``latest`` where it asks for what the baseline asks for, without versions, on one Python.

    It is what the word means for such a baseline, and its cells may be recorded.
    """
    stack = next((each for each in project.matrix.stacks if each.name == LATEST), None)
    if stack is None or stack.python != baseline.python or baseline.constraints:
        return None
    same = sorted(wishes.applied(baseline.asked, (), latest=True)) == sorted(stack.requirements)
    return stack.name if same else None


def is_side(word: str, project: Project) -> bool:
    """Whether a word names a side and no package: a stack, or a path that is there and is no wheel."""
    if word in {stack.name for stack in project.matrix.stacks}:
        return True
    path = path_of(word)
    if path.suffix == ".whl" or wishes.VCS.match(word) or " @ " in word:
        return False
    return path.exists() and (looks_like_a_path(word) or path.is_file())


def wish(word: str, baseline: Given, project: Project) -> Wish:
    """The package that a word is about: a wheel file, a VCS address, or a requirement."""
    if word.endswith(".whl") and "://" not in word:
        return of_wheel(word, baseline.python)
    if wishes.VCS.match(word):
        return of_source(word, baseline.python)
    try:
        found = wishes.wish(word)
        return replace(found, text=without_credentials(word))
    except UserError as error:
        if looks_like_a_path(word):
            raise UserError(
                f"There is no file or folder {without_credentials(word)!r}.",
                cause=meant(word, [], path_of(word)),
                next_step="name a file that is there, or a requirement such as --to transformers==5.0.0",
            ) from error
        single = re.fullmatch(r"([\w.-]+(?:\[.*\])?)=([^=].*)", word)
        stacks = did_you_mean(word, [each.name for each in project.matrix.stacks])
        error.cause = (
            f"a version is written {single[1]}=={single[2]}"
            if single
            else f"{error.cause}; {stacks}"
        )
        raise


def of_wheel(word: str, python: str) -> Wish:
    """The package in a wheel file that can be installed here; UserError where it cannot."""
    path = path_of(word).absolute()
    if not path.is_file():
        raise UserError(
            f"There is no wheel {word!r}.",
            cause=meant(word, [], path_of(word)),
            next_step="name a wheel that is there: python -m build --wheel makes one",
        )
    try:
        name, version, _, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise UserError(
            f"{path.name} is no wheel's name.",
            cause=str(error),
            next_step="keep the name under which it was built, such as name-1.0-py3-none-any.whl",
        ) from error
    major, minor = map(int, python.split("."))
    fitting = {*cpython_tags((major, minor)), *compatible_tags((major, minor), f"cp{major}{minor}")}
    if not tags & fitting:
        raise UserError(
            f"{path.name} cannot be installed here.",
            cause=f"it is for {', '.join(sorted(map(str, tags)))}; here is Python {python} on {sys.platform}",
            next_step="build it on this platform, for this Python",
        )
    return Wish(f"{name}=={version} ({path.name})", str(name), f"{name} @ {path.as_uri()}")


def of_source(word: str, python: str) -> Wish:
    """The package at a VCS address; uv fetches it to tell its name."""
    ran = uv.run(
        [
            "pip",
            "compile",
            "-",
            "--quiet",
            "--no-deps",
            "--no-header",
            "--no-annotate",
            "--python-version",
            python,
        ],
        stdin=word,
        variables={"UV_DEFAULT_INDEX": uv.index_url()},
    )
    lines = [line for line in ran.stdout.splitlines() if " @ " in line]
    try:
        parsed = Requirement(lines[0])
    except (IndexError, InvalidRequirement) as error:
        raise UserError(
            f"--to {without_credentials(word)} cannot be had.",
            cause=uv.summary(ran.stderr) or "uv found no package there",
            next_step="see that the address is right, that this machine reaches it, and that the project builds",
        ) from error
    return Wish(without_credentials(word), canonicalize_name(parsed.name), str(parsed))


def check_once(found: Sequence[Wish]) -> None:
    """UserError where one package is asked for twice."""
    seen: dict[str, Wish] = {}
    for each in found:
        if each.name in seen:
            raise UserError(
                f"{each.name} is asked for twice.",
                cause=f"--to {seen[each.name].text} and --to {each.text}",
                next_step="leave one of them out, or write both bounds into one: --to 'name>=1,<2'",
            )
        seen[each.name] = each


FORMS = "a stack of this checkout, a results folder, a file of records (.jsonl), or COMMIT:FOLDER of this repository"


@dataclass(frozen=True)
class Recorded:
    """The records of a run by stack."""

    name: str
    """As the user wrote it."""
    sides: dict[str, Side]
    problems: list[str] = field(default_factory=list)
    """What could not be read, one sentence each."""

    def side(self, stack: str) -> Side:
        """One stack's; UserError with a suggestion where there are no records of it."""
        if stack not in self.sides:
            raise UserError(
                f"{self.name} has no records of the stack {stack!r}.",
                cause=did_you_mean(stack, sorted(self.sides)),
                next_step=f"it has {', '.join(sorted(self.sides))}",
            )
        return self.sides[stack]


def read(text: str, project: Project) -> Recorded:
    """The run that ``text`` names; UserError where there is none, or nothing in it."""
    path, known = Path(text), [stack.name for stack in project.matrix.stacks]
    if text in known:
        return recorded_stack(text, project)
    if path.is_dir():
        return recorded_folder(text, path, project)
    if path.is_file():
        return recorded_file(text, path, project)
    revision, colon, folder = text.partition(":")
    if (
        colon
        and revision
        and folder
        and not revision.startswith("-")
        and not folder.startswith("-")
    ):
        with unpacked(revision, folder, project) as there:
            return recorded_folder(text, there, project)
    raise UserError(
        f"There is no run {text!r}.", cause=did_you_mean(text, known), next_step=f"a run is {FORMS}"
    )


def recorded_stack(stack: str, project: Project) -> Recorded:
    """What this checkout has of a stack, published or not."""
    lock = next(iter(project.known_locks([stack])), None)
    records = [] if lock is None else list(project.records_of([stack]).values())
    if not records:
        raise UserError(
            f"There are no records of the stack {stack}.",
            cause="it was not run yet, or not since it was locked anew",
            next_step=f'nox -s "matrix({stack})"',
        )
    return Recorded(stack, {stack: side_of(stack, lock, records)}, project.store.problems)


def recorded_folder(name: str, folder: Path, project: Project) -> Recorded:
    """A results folder: records/ with the locks beside it; or the folder of records itself."""
    records = folder / "records" if (folder / "records").is_dir() else folder
    store = Store(records, records)
    found = list(store.everything().values())
    locks_folder = (folder if records != folder else folder.parent) / "locks"
    return recorded(name, found, locks_folder, store.problems, project)


def recorded_file(name: str, path: Path, project: Project) -> Recorded:
    """A file of records, of one stack or of several; the locks are those beside its folder."""
    found: list[Record] = []
    problems: list[str] = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if line.strip():
            try:
                found.append(decode(line))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                problems.append(f"{path.name}, line {number} was skipped: {error}")
    return recorded(
        name, newest(found).values(), path.absolute().parent.parent / "locks", problems, project
    )


def recorded(
    name: str, records: Iterable[Record], locks_folder: Path, problems: list[str], project: Project
) -> Recorded:
    """Records by stack, each stack with the lock that they were run under, relations judged."""
    by_stack: dict[str, list[Record]] = defaultdict(list)
    for record in relations.judged(records, project.known_scenarios()):
        by_stack[record.cell.stack].append(record)
    if not by_stack:
        raise UserError(
            f"There are no records in {name}.",
            cause=one_line(problems[0])
            if problems
            else "it has no file of records (.jsonl) with a line in it",
            next_step=f"a run is {FORMS}",
        )
    sides = {}
    for stack, found in sorted(by_stack.items()):
        then = max(found, key=lambda each: each.recorded_at).inputs.get(LOCK)
        lock = lock_under(stack, then, (locks_folder, project.locks_folder))
        sides[stack] = side_of(
            stack, lock, (each for each in found if each.inputs.get(LOCK) in {None, then})
        )
    return Recorded(name, sides, problems)


def lock_under(stack: str, then: str | None, folders: Iterable[Path]) -> Lock | None:
    """The lock that records were made with, wherever one is kept; None where it is not there any more."""
    for folder in folders:
        lock = locks.load(stack, folder) if folder.is_dir() else None
        if lock is not None and lock_input(lock) == then:
            return lock
    return None


def side_of(name: str, lock: Lock | None, records: Iterable[Record]) -> Side:
    """Records as a side."""
    return Side(
        name, lock, {Key(r.cell.scenario, r.cell.variant, r.cell.device): r for r in records}
    )


@contextmanager
def unpacked(revision: str, folder: str, project: Project) -> Iterator[Path]:
    """A folder of a commit, in a place of its own while it is read; UserError where git does not know it."""
    command = ["git", "-C", str(project.root), "archive", "--format=tar", revision, folder]
    try:
        done = subprocess.run(command, check=False, capture_output=True)
    except FileNotFoundError:
        done = subprocess.CompletedProcess(command, 127, b"", b"git is not installed")
    if done.returncode:
        raise UserError(
            f"There is no run {revision}:{folder}.",
            cause=one_line(done.stderr.decode(errors="replace")),
            next_step=f"a run is {FORMS}",
        )
    with TemporaryDirectory() as place:
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(place, filter="data")
        yield Path(place) / folder


def paired(
    baseline: Recorded, candidate: Recorded, stacks: tuple[str, str] | None
) -> tuple[list[tuple[Side, Side]], tuple[str, ...]]:
    """The stacks that are compared, and what is said of those that are not; UserError where there is none.

    Two runs of one stack each are compared whatever their stacks are called. Of more stacks those that both have are.
    """
    if stacks is not None:
        return [(baseline.side(stacks[0]), candidate.side(stacks[1]))], ()
    if len(baseline.sides) == len(candidate.sides) == 1:
        return [(next(iter(baseline.sides.values())), next(iter(candidate.sides.values())))], ()
    shared = [stack for stack in baseline.sides if stack in candidate.sides]
    if not shared:
        raise UserError(
            f"{baseline.name} and {candidate.name} share no stack.",
            cause=f"{', '.join(baseline.sides)} is in the first, {', '.join(candidate.sides)} in the second",
            next_step="say which two to compare: --stacks A B",
        )
    notes = tuple(
        f"Not compared, since only {run.name} has records of them: {', '.join(alone)}."
        for run in (baseline, candidate)
        if len(run.sides) > 1 and (alone := sorted(run.sides.keys() - set(shared)))
    )
    if 1 in {len(baseline.sides), len(candidate.sides)}:
        notes = ()  # one stack was asked for
    pairs = [(baseline.sides[stack], candidate.sides[stack]) for stack in shared]
    return sorted(pairs, key=lambda each: day_of(each[1])), notes


def day_of(side: Side) -> tuple[dt.date, str]:
    """Its place among stacks: by the day of its lock, and those without one first."""
    return side.lock.as_of if side.lock is not None else dt.date.min, side.name
