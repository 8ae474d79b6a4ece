"""What a user names as a side of an upgrade.

A side is a stack, a lock, a file of requirements, or an environment. ``--to`` names another side,
packages at other versions, or ``latest``.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import re
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from gradmatrix.compare import requirements
from gradmatrix.compare.requirements import LATEST, Edit
from gradmatrix.core.errors import UserError, without_credentials
from gradmatrix.stacks import environment, interpreter, uv
from gradmatrix.stacks import lock as locks
from gradmatrix.stacks.index import allows

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Sequence

    from gradmatrix.compare.requirements import Listed
    from gradmatrix.core.model import Lock, Stack
    from gradmatrix.judge.versions import Contents
    from gradmatrix.run.project import Project
    from gradmatrix.stacks.environment import Distribution


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side of an upgrade as the user named it."""

    name: str
    """For people."""
    place: str = ""
    """The path of its file, which tells it from another side of the same name."""
    python: str
    as_of: dt.date | Literal["today"]
    requirements: tuple[str, ...]
    """What the resolver gets."""
    asked: tuple[str, ...]
    """What the user requires; the requirements of a candidate are made of these."""
    constraints: tuple[str, ...] = ()
    preferred: str = ""
    """The text of a lock; a candidate keeps its versions if it can."""
    lock: Lock | None = None
    """None if the side is not resolved yet."""
    locks: Path | None = None
    """The folder of that lock's text."""
    interpreter: Path | None = None
    """The Python of an environment that exists and is used in place."""
    contents: Contents = field(default_factory=dict)
    """What tells its packages from others of the same version, if it is an environment."""
    build: tuple[str, ...] = ()
    """The packages that may be built from their source releases."""
    notices: tuple[str, ...] = ()


PYLOCK = re.compile(r"pylock(?:\.[\w-]+)?\.toml")
UNDERSTOOD = (
    "a stack of matrix.toml, a lock, a requirements file, a pyproject.toml, "
    "or the folder of an environment"
)


@dataclass(frozen=True)
class Reading:
    """How files are read."""

    python: str | None = None
    """The Python to resolve for if the file leaves it open."""
    extras: tuple[str, ...] = ()
    """Extras of a pyproject.toml; ``groups`` are its dependency groups."""
    groups: tuple[str, ...] = ()


def parse_side(word: str, project: Project, reading: Reading) -> Side:
    """The side that ``word`` names; UserError if there is no such side."""
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
        cause=suggestion(word, [stack.name for stack in project.matrix.stacks], path),
        next_step=f"name {UNDERSTOOD}",
    )


def told_apart(side: Side, other: Side) -> tuple[Side, Side]:
    """Both sides; if they have one name, as uv.lock in two checkouts, then with their paths."""
    if side.name != other.name or not (side.place and other.place):
        return side, other
    return replace(side, name=side.place), replace(other, name=other.place)


def path_of(word: str) -> Path:
    """A word as a path. ``~name`` stays as it is if there is no such user."""
    with contextlib.suppress(RuntimeError):
        return Path(word).expanduser()
    return Path(word)


def has_parts(word: str) -> bool:
    """Whether a word names a file with extras and groups, or its folder.

    Such a file is a pyproject.toml or a uv.lock.
    """
    path = path_of(word)
    if path.is_dir():
        return any((path / name).is_file() for name in ("uv.lock", "pyproject.toml"))
    return path.name == "uv.lock" or (path.suffix == ".toml" and not PYLOCK.fullmatch(path.name))


def looks_like_a_path(word: str) -> bool:
    """Whether a word can only be a path."""
    return bool(re.search(r"[/\\]|^\.|^~|\.(?:txt|in|toml|json|lock|whl)$", word))


def suggestion(word: str, names: list[str], path: Path) -> str:
    """The most similar of ``names`` and of the files in the folder of ``path``; else all names."""
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
    return f"stacks are: {', '.join(names)}" if names else f"{folder} has no similar file"


def of_stack(stack: Stack, project: Project) -> Side:
    """A stack of the matrix, with its lock if that is current."""
    known = locks.load(stack.name, project.locks_folder)
    lock = known if known is not None and locks.is_current(stack, known) else None
    folder = project.locks_folder
    return Side(
        name=stack.name,
        python=stack.python,
        as_of=lock.as_of if lock else stack.as_of,
        requirements=stack.requirements,
        asked=stack.requirements,
        preferred=text_of(lock, folder) if lock else "",
        lock=lock,
        locks=folder if lock else None,
        build=stack.build,
    )


def text_of(lock: Lock, folder: Path) -> str:
    """The text of a lock; empty if there was no resolution."""
    return (
        ""
        if lock.failure
        else locks.requirements_path(lock.stack, folder).read_text(encoding="utf-8")
    )


PYTHONS = ("bin/python", "Scripts/python.exe", "python.exe")
"""Where an environment has its Python."""
LISTS = ("uv.lock", "poetry.lock", "pylock.toml", "pyproject.toml", "requirements.txt")
"""What a project has; the first one that is there is read."""


def is_environment(path: Path) -> bool:
    """Whether a folder is an environment."""
    return any((path / name).exists() for name in PYTHONS)


def of_folder(path: Path, project: Project, reading: Reading) -> Side:
    """The environment or the project in a folder."""
    if is_environment(path):
        return of_environment(path, project.settings().limits.threads)
    for name in LISTS:
        if (path / name).is_file():
            return of_file(path / name, project, reading)
    raise UserError(
        f"{path} is neither an environment nor a project.",
        cause=f"it has no bin/python, {', '.join(LISTS[:-1])} or {LISTS[-1]}",
        next_step=f"name {UNDERSTOOD}",
    )


TOOLS = frozenset({"pip", "setuptools", "wheel", "uv", "distribute"})
"""Packages that every environment has: the user did not ask for them."""


def of_environment(path: Path, threads: int) -> Side:
    """What is installed in an environment, which is used in place."""
    python = interpreter.checked(path).absolute()
    listing = environment.listing(python, threads)
    lock = environment.lock_of(python, listing)
    roots, notices = asked_in(listing.distributions, lock)
    contents: dict[str, frozenset[str]] = {}
    for each in listing.distributions:  # of two versions the first one is imported
        contents.setdefault(str(canonicalize_name(each.name)), each.contents)
    known = sorted((name, sorted(values)) for name, values in contents.items())
    digest = hashlib.sha256(msgspec.json.encode((lock.digest, known))).hexdigest()
    lock = msgspec.structs.replace(lock, digest=digest)
    pins = "\n".join(
        without_label(f"{each.name}=={each.version}")
        for each in lock.packages
        if is_public(each.version)
    )
    name = path.name if path.is_dir() else str(path)
    return Side(
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
        contents=contents,
        notices=notices,
    )


def is_public(version: str) -> bool:
    """Whether a version can be written as a pin."""
    try:
        Requirement(f"x=={version}")
    except InvalidRequirement:
        return False
    return True


def asked_in(
    distributions: Iterable[Distribution], lock: Lock
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The packages that no other one needs, and notices about packages from elsewhere.

    Packages from elsewhere, such as a project in development, are not in the package index.
    """
    distributions = list(distributions)
    origins = {str(canonicalize_name(each.name)): each.origin for each in distributions}
    needed = {
        name
        for each in distributions
        if not each.origin  # what a project in development needs was asked for
        for name in needed_by(each.needs, lock.python)
        if name != canonicalize_name(each.name)
    }
    roots, local = ["torch"], []
    for package in lock.packages:
        if package.name in TOOLS or package.name in needed or package.name == "torch":
            continue
        if origins.get(package.name):
            local.append(package.name)
        else:
            roots.append(package.name)
    if not local:
        return tuple(roots), ()
    names = ", ".join(local)
    notice = f"these packages are not from the package index and not in the candidate: {names}"
    return tuple(roots), (notice,)


def needed_by(needs: Iterable[str], python: str) -> set[str]:
    """Canonical names of the packages that a distribution needs on this Python, without extras."""
    found = set()
    for text in needs:
        try:
            parsed = Requirement(text)
        except InvalidRequirement:
            continue
        if parsed.marker is None or parsed.marker.evaluate({"extra": "", "python_version": python}):
            found.add(str(canonicalize_name(parsed.name)))
    return found


def of_file(path: Path, project: Project, reading: Reading) -> Side:
    """The side in a file, by the file's name.

    A lock of this project has two files, and either of them names it.
    """
    if path.suffix in (".json", ".txt") and (path.with_suffix(".json")).is_file():
        lock = lock_in(path)
        if lock is not None:
            return of_lock(lock, path.parent.resolve())
    if path.suffix == ".whl":
        raise UserError(
            f"{path.name} is a wheel, not a side.",
            cause="a wheel is one package: the candidate is the baseline with it",
            next_step=f"gradmatrix upgrade BASELINE --to {path}",
        )
    if is_interpreter(path):
        return of_environment(path, project.settings().limits.threads)
    return of_listed(path, listed(path, reading), project, reading)


OTHER_SUFFIXES = (".lock", ".yml", ".yaml", ".cfg", ".py", ".json")
"""Of files that are no requirements files; ``requirements.lock`` is one."""


def listed(path: Path, reading: Reading) -> Listed:
    """What a file of another tool asks for, by its name; UserError if it cannot be read."""
    if path.name == "uv.lock":
        with tempfile.TemporaryDirectory() as scratch:
            return requirements.read_uv_lock(path, reading.extras, reading.groups, Path(scratch))
    if path.name == "poetry.lock":
        return requirements.read_poetry_lock(path)
    if PYLOCK.fullmatch(path.name):
        return requirements.read_pylock(path)
    if path.suffix == ".toml":
        return requirements.read_pyproject(path, reading.extras, reading.groups)
    if path.suffix in OTHER_SUFFIXES and not path.name.startswith("requirements"):
        raise UserError(
            f"Files such as {path.name} are not supported.",
            cause="supported are uv.lock, poetry.lock, pylock.toml, pyproject.toml, requirements "
            "files and locks of this project",
            next_step="export it as a requirements file, for example with pip list --format=freeze",
        )
    return requirements.read_requirements_file(path)


def lock_in(path: Path) -> Lock | None:
    """The lock that a file is part of, if any.

    Raises:
        UserError: if a .json file is no lock, or the two files do not belong together
    """
    try:
        return locks.load(path.stem, path.parent)
    except locks.NotAsLocked as error:
        error.next_step = "copy both files of the lock again"
        raise
    except UserError:
        if path.suffix == ".json":
            raise
        return None  # the .json file beside a requirements file may be anything


def is_interpreter(path: Path) -> bool:
    """Whether a file has the name of a Python."""
    return bool(re.fullmatch(r"python[\d.]*(\.exe)?", path.name))


def of_lock(lock: Lock, folder: Path) -> Side:
    """A lock of this project's kind."""
    return Side(
        name=lock.stack,
        python=lock.python,
        as_of=lock.as_of,
        requirements=lock.requirements,
        asked=lock.requirements,
        preferred=text_of(lock, folder),
        lock=lock,
        locks=folder,
        build=lock.build,
    )


def of_listed(path: Path, found: Listed, project: Project, reading: Reading) -> Side:
    """What a file asks for. The versions of a lock may change in a candidate."""
    local = [each for each in map(Requirement, found.requirements) if has_label(each)]
    notices = [*found.notices]
    if local:
        names = ", ".join(sorted(f"{each.name}{each.specifier}" for each in local))
        notices.append(
            f"{path.name}: the local label of {names} is ignored: the index has no such release"
        )
    texts = tuple(map(without_label, found.requirements))
    return Side(
        name=path.name,
        place=path.as_posix(),
        python=python_for(path, found.requires_python, project, reading),
        as_of="today",
        requirements=texts,
        asked=found.asked if found.locked else texts,
        constraints=tuple(map(without_label, found.constraints)),
        preferred="\n".join(texts) + "\n" if found.locked else "",
        notices=tuple(notices),
    )


def python_for(path: Path, requires: str, project: Project, reading: Reading) -> str:
    """The Python to resolve for: the one asked for, or the newest of the matrix that is allowed."""
    known = sorted({stack.python for stack in project.matrix.stacks}, key=Version, reverse=True)
    return allowed_python(path.name, requires, reading.python, known)


MINORS = tuple(f"3.{minor}" for minor in range(9, 16))
"""The oldest that can be observed, and those after it."""


def allowed_python(name: str, requires: str, asked: str | None, preferred: Sequence[str]) -> str:
    """The Python that was ``asked`` for, else the first that is allowed, else the nearest to them.

    Raises:
        UserError: if ``requires``, the requires-python of ``name``, does not allow it
    """
    minor = int(preferred[-1].partition(".")[2])
    near = sorted(MINORS, key=lambda each: abs(int(each.partition(".")[2]) - minor))
    wanted = [asked] if asked else [*preferred, *near]
    try:
        found = next((each for each in wanted if allows(requires, each)), None)
    except InvalidSpecifier as error:
        raise UserError(
            f"{name} has requires-python = {requires!r}, which cannot be read.",
            cause=str(error),
            next_step='write it like requires-python = ">=3.11"',
        ) from error
    if found is None:
        raise UserError(
            f"{name} does not allow Python {wanted[0]}.",
            cause=f"it has requires-python = {requires!r}",
            next_step="give --python a version that it allows, such as --python 3.12",
        )
    return found


def has_label(requirement: Requirement) -> bool:
    """Whether it is pinned to one build of a release, such as 2.13.0+cpu."""
    return any("+" in each.version for each in requirement.specifier)


def without_label(text: str) -> str:
    """The requirement on any build of the release. The machine decides which build it gets."""
    parsed = Requirement(text)
    if has_label(parsed):
        parsed.specifier = SpecifierSet(re.sub(r"\+[\w.]+", "", str(parsed.specifier)))
    return str(parsed)


@dataclass(frozen=True)
class Target:
    """What ``--to`` names: a side, or edits of the baseline."""

    side: Side | None = None
    edits: tuple[Edit, ...] = ()
    latest: bool = False
    """Whether everything that the baseline asks for moves to its newest release."""


def parse_target(
    words: Sequence[str], baseline: Side, project: Project, reading: Reading, *, dated: bool
) -> Target:
    """The target that ``words`` name together; UserError if they do not name one.

    A word is tried as ``latest``, as a stack, as a file or folder, and as a requirement.

    Args:
        words: the values of ``--to``
        baseline: the side that is edited
        project: knows the stacks
        reading: how files are read
        dated: whether the user asked for the releases of a certain day
    """
    edits: list[Edit] = []
    latest = False
    for word in words:
        if word == LATEST:
            stack = latest_stack(baseline, project)
            if stack is not None and len(words) == 1 and not dated:
                return Target(side=of_stack(project.matrix.stack(stack), project))
            latest = True
        elif is_side(word, project):
            if len(words) > 1:
                raise UserError(
                    f"--to {word} is a whole side and cannot be combined with others.",
                    cause="a stack, lock, file or environment is the candidate by itself",
                    next_step=f"give only --to {word}",
                )
            return Target(side=parse_side(word, project, reading))
        elif wheels_in(word):
            edits += of_wheels(word, baseline.python)
        else:
            edits.append(parse_edit(word, baseline, project))
    check_once(edits)
    return Target(edits=tuple(edits), latest=latest)


def latest_stack(baseline: Side, project: Project) -> str | None:
    """The matrix's own stack ``latest``, if it asks for the same packages on the same Python.

    Its cells may be recorded already.
    """
    stack = next((each for each in project.matrix.stacks if each.name == LATEST), None)
    if stack is None or stack.python != baseline.python or baseline.constraints:
        return None
    same = sorted(requirements.edited(baseline.asked, (), latest=True)) == sorted(
        stack.requirements
    )
    return stack.name if same else None


def is_side(word: str, project: Project) -> bool:
    """Whether a word names a side, and not a package.

    A folder that is neither an environment nor a project may have the name of a package.
    """
    if word in {stack.name for stack in project.matrix.stacks}:
        return True
    path = path_of(word)
    if path.suffix == ".whl" or requirements.VCS.match(word) or " @ " in word:
        return False
    if path.is_dir():
        is_project = any((path / name).is_file() for name in LISTS)
        return (
            is_environment(path) or is_project or (looks_like_a_path(word) and not wheels_in(word))
        )
    return path.is_file()


def wheels_in(word: str) -> list[Path]:
    """The wheels in the folder that a word names."""
    return sorted(path_of(word).glob("*.whl")) if path_of(word).is_dir() else []


def of_wheels(word: str, python: str) -> list[Edit]:
    """The packages in a folder of wheels; UserError if one cannot be installed here."""
    return [of_wheel(str(path), python) for path in wheels_in(word)]


OPERATORS = {"=": "==", "=>": ">=", "=<": "<="}
"""Operators that people write, and what they mean."""


def parse_edit(word: str, baseline: Side, project: Project) -> Edit:
    """The edit that a word asks for: a wheel file, a VCS address, or a requirement."""
    if word.endswith(".whl") and "://" not in word:
        return of_wheel(word, baseline.python)
    if requirements.VCS.match(word):
        return of_source(word, baseline.python)
    try:
        return replace(requirements.parse_edit(word), text=without_credentials(word))
    except UserError as error:
        raise UserError(
            f"--to {without_credentials(word)} cannot be read.",
            cause=tried(word, project, error.cause),
            next_step=error.next_step,
        ) from error


def tried(word: str, project: Project, why: str) -> str:
    """What a word was tried as, and why it is none of these."""
    shown = without_credentials(word)
    wrong = re.fullmatch(r"([\w.-]+(?:\[.*\])?)\s*(=[<>]?)\s*([^=<>].*)", shown)
    if wrong:
        return f"a version is written {wrong[1]}{OPERATORS[wrong[2]]}{wrong[3]}"
    names = [each.name for each in project.matrix.stacks]
    near = suggestion(word, names, path_of(word))
    return f"it is no stack, no file or folder, and no requirement ({why}); {near}"


def of_wheel(word: str, python: str) -> Edit:
    """The package in a wheel file; UserError if it cannot be installed here."""
    path = path_of(word).absolute()
    if not path.is_file():
        raise UserError(
            f"There is no wheel {word!r}.",
            cause=suggestion(word, [], path_of(word)),
            next_step="name a wheel that exists: python -m build --wheel makes one",
        )
    try:
        name, version, _, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise UserError(
            f"{path.name} is not a valid name of a wheel.",
            cause=str(error),
            next_step="keep the name under which it was built, such as name-1.0-py3-none-any.whl",
        ) from error
    major, minor = map(int, python.split("."))
    fitting = {*cpython_tags((major, minor)), *compatible_tags((major, minor), f"cp{major}{minor}")}
    if not tags & fitting:
        made_for = ", ".join(sorted(map(str, tags)))
        raise UserError(
            f"{path.name} cannot be installed here.",
            cause=f"it is for {made_for}; here is Python {python} on {sys.platform}",
            next_step="build it on this platform, for this Python",
        )
    return Edit(f"{name}=={version} ({path.name})", str(name), f"{name} @ {path.as_uri()}")


def of_source(word: str, python: str) -> Edit:
    """The package at a VCS address. uv fetches it to find its name."""
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
            f"--to {without_credentials(word)} cannot be fetched.",
            cause=uv.summary(ran.stderr) or "uv found no package there",
            next_step="check the address, the network, and that the project builds",
        ) from error
    return Edit(without_credentials(word), canonicalize_name(parsed.name), str(parsed))


def check_once(found: Sequence[Edit]) -> None:
    """UserError if one package is asked for twice."""
    seen: dict[str, Edit] = {}
    for each in found:
        if each.name in seen:
            raise UserError(
                f"{each.name} is asked for twice.",
                cause=f"--to {seen[each.name].text} and --to {each.text}",
                next_step="remove one of them, or combine the bounds: --to 'name>=1,<2'",
            )
        seen[each.name] = each
