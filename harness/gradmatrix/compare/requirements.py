"""Pure: what ``--to`` asks for, and what becomes of a baseline's requirements by it.

A requirements file as pip reads it: what it asks for, what it only bounds, and whether it is a lock.

What a pyproject.toml or a uv.lock asks for; and any TOML, read as what it should be.

What a pylock.toml (PEP 751) locks, as an install without extras and groups of its own reads it.
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from packaging.markers import InvalidMarker, Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from gradmatrix.core.errors import UserError, did_you_mean, without_credentials
from gradmatrix.stacks import uv
from gradmatrix.stacks.generate import TWINS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from packaging.specifiers import Specifier


LATEST = "latest"
VCS = re.compile(r"^(?:git|hg|bzr|svn)\+")


@dataclass(frozen=True)
class Wish:
    """One package at another version: a requirement as it was given, ready for the resolver."""

    text: str
    """As it was given, for people."""
    name: str
    """Canonical."""
    requirement: str
    twin: bool = False
    """Nobody asked for it; it goes with another."""


def wish(text: str) -> Wish:
    """The wish that ``text`` is, a requirement with or without a version; UserError where it is none."""
    try:
        parsed = Requirement(text)
    except InvalidRequirement as error:
        raise UserError(
            f"--to {without_credentials(text)} cannot be read.",
            cause=f"it is no stack, no file, and no requirement: {str(error).splitlines()[0]}",
            next_step='write it like --to transformers==5.0.0, --to "trl<1", --to latest, --to NAME-OF-A-STACK, '
            "--to ./a.whl",
        ) from error
    return Wish(text, canonicalize_name(parsed.name), str(parsed))


def with_twins(wishes: Iterable[Wish], asked: Iterable[str]) -> tuple[Wish, ...]:
    """``wishes``, and the same for the other name of a library that the baseline has under two."""
    wishes = tuple(wishes)
    names = {each.name for each in wishes}
    there = {canonicalize_name(Requirement(text).name) for text in asked}
    found = []
    for each in wishes:
        other = TWINS.get(each.name)
        parsed = Requirement(each.requirement)
        if other in there and other not in names and each.name in there and not parsed.url:
            twin = replace(each, name=other, requirement=f"{other}{parsed.specifier}", twin=True)
            found.append(twin)
    return (*wishes, *found)


def applied(asked: Iterable[str], wishes: Iterable[Wish], *, latest: bool) -> tuple[str, ...]:
    """The requirements of a candidate: the wishes in the place of what the baseline asks of their packages.

    ``latest`` takes the bounds off all others. Extras and markers of the baseline stay: a package that it names on
    several lines, each with a marker, is wished on every one of them.
    """
    wished = {each.name: each for each in wishes}
    left = dict(wished)
    found = []
    for text in asked:
        old = Requirement(text)
        name = canonicalize_name(old.name)
        if name in wished:
            left.pop(name, None)
            found.append(merged(old, Requirement(wished[name].requirement)))
        else:
            found.append(unbound(old) if latest and not old.url else text)
    return (*dict.fromkeys(found), *(each.requirement for each in left.values()))


def merged(old: Requirement, new: Requirement) -> str:
    """The new bound with what the old one says beside it."""
    new.extras |= old.extras
    if new.marker is None:
        new.marker = old.marker
    return str(new)


def unbound(requirement: Requirement) -> str:
    """The requirement at any version: its name, extras and marker."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    marker = f" ; {requirement.marker}" if requirement.marker else ""
    return f"{canonicalize_name(requirement.name)}{extras}{marker}"


def without(requirements: Iterable[str], names: Collection[str]) -> tuple[str, ...]:
    """The requirements that are on none of the packages ``names``."""
    return tuple(
        text for text in requirements if canonicalize_name(Requirement(text).name) not in names
    )


def relaxed(requirements: Iterable[str], names: Collection[str]) -> tuple[str, ...]:
    """The requirements with the packages ``names`` at most as high as asked for: the newest that would do is below."""
    return tuple(
        at_most(parsed) if canonicalize_name(parsed.name) in names and not parsed.url else text
        for text in requirements
        for parsed in [Requirement(text)]
    )


def at_most(requirement: Requirement) -> str:
    """The requirement without its lowest version; an only version becomes the highest."""
    found = Requirement(unbound(requirement))
    tops = []
    for each in requirement.specifier:
        if each.operator in ("<", "!="):
            tops.append(str(each))
        elif each.operator == "~=" or each.version.endswith(".*"):
            tops.append(f"<{after_all_of(each)}")
        elif each.operator in ("==", "===", "<="):
            tops.append(f"<={each.version}")
    found.specifier = SpecifierSet(",".join(tops))
    return str(found)


def after_all_of(prefix: Specifier) -> str:
    """The first version that is too high for ``==5.1.*``, or for ``~=5.1.2``: both are all of 5.1."""
    release = Version(prefix.version.removesuffix(".*")).release
    release = release[:-1] if prefix.operator == "~=" else release
    return ".".join(map(str, [*release[:-1], release[-1] + 1]))


def bounds(requirements: Iterable[str], but: Collection[str]) -> list[str]:
    """Names of packages that the requirements bound, ``but`` those."""
    parsed = [Requirement(text) for text in requirements]
    return [
        name
        for each in parsed
        if (each.specifier or each.url) and (name := canonicalize_name(each.name)) not in but
    ]


OPTION = re.compile(r"^(?:(--[a-z][a-z-]*)(?:\s*[= ]\s*(.*))?|(-[a-zA-Z])\s*=?\s*(.*))$")
OF_THE_INDEX = {
    "-i",
    "--index-url",
    "--extra-index-url",
    "--no-index",
    "-f",
    "--find-links",
    "--trusted-host",
}
COMMENT = re.compile(r"(?:^|\s+)#.*$")
PER_REQUIREMENT = re.compile(r"\s--(?:hash|config-settings?|global-option)[= ]\S+")
VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
MADE_BY_A_TOOL = re.compile(r"^#.*\bautogenerated by\b", re.MULTILINE | re.IGNORECASE)
ASKED = re.compile(
    r"(?:^|\s)-r\s|\([\w.-]+\.(?:toml|cfg|py|in|txt)\)|(?:pyproject\.toml|setup\.(?:py|cfg))"
)
"""What a tool that locks notes of a package that was asked for, and did not come with another one."""
DIRECT = re.compile(r"^(?:[a-z]+\+)?[a-z]+://|^(?:git|hg|bzr|svn)\+")
PLAIN_PATH = re.compile(r"^\.{0,2}[/\\~]|^\.{1,2}$|\.(?:whl|zip|tar\.gz)$")


@dataclass(frozen=True)
class Line:
    """One logical line: what continues it joined, where it begins, and the comments below it."""

    path: Path
    number: int
    text: str
    via: str = ""
    hashed: bool = False


@dataclass(frozen=True)
class Listed:
    """What files ask for."""

    requirements: tuple[str, ...]
    constraints: tuple[str, ...] = ()
    locked: bool = False
    """Every package stands there at one version, as a tool wrote it: what came out, not what was asked for."""
    asked: tuple[str, ...] = ()
    """Of a lock: the requirements without their versions that somebody asked for."""
    notices: tuple[str, ...] = ()
    requires_python: str = ""


def read(path: Path) -> Listed:
    """What ``path`` asks for, with the files that it names; UserError that names the line of what cannot be read."""
    constraints: list[str] = []
    notices: list[str] = []
    requirements = [(line, requirement_of(line)) for line in lines(path, notices, constraints, ())]
    if not requirements:
        raise UserError(
            f"{path.name} asks for nothing.",
            cause="it has no line with a package's name",
            next_step="name a file with the requirements of your training environment",
        )
    texts = tuple(str(each) for _, each in requirements)
    if not is_lock(requirements, path):
        return Listed(texts, tuple(constraints), notices=tuple(notices))
    noted = [each for line, each in requirements if ASKED.search(line.via)]
    if not noted:
        said = f"{path.name} does not say which of its packages were asked for (# via): all of them are kept"
        notices.append(said)
    asked = tuple(unbound(each) for each in noted or [each for _, each in requirements])
    return Listed(texts, tuple(constraints), locked=True, asked=asked, notices=tuple(notices))


def is_lock(requirements: Iterable[tuple[Line, Requirement]], path: Path) -> bool:
    """Whether a tool wrote it: one version of each, with hashes or with its signature at the top."""
    requirements = list(requirements)
    if not all(is_pin(each) for _, each in requirements):
        return False
    return all(line.hashed for line, _ in requirements) or bool(
        MADE_BY_A_TOOL.search(text_of(path))
    )


def is_pin(requirement: Requirement) -> bool:
    """Whether it allows one version only."""
    if requirement.url:
        return True
    return any(
        each.operator in ("==", "===") and not each.version.endswith(".*")
        for each in requirement.specifier
    )


def lines(
    path: Path, notices: list[str], constraints: list[str], above: tuple[Path, ...]
) -> Iterator[Line]:
    """The requirement lines of ``path`` and of the files it names; what it bounds goes to ``constraints``."""
    if path.resolve() in above:
        chain = " → ".join(each.name for each in (*above, path))
        raise UserError(
            f"{path.name} names itself.",
            cause=f"by -r or -c: {chain}",
            next_step="take the circle out and run again",
        )
    for line in logical_lines(path):
        option = OPTION.match(line.text)
        if option is None:
            yield line
            continue
        name, value = option[1] or option[3], (option[2] or option[4] or "").strip().strip("'\"")
        if name in ("-r", "--requirement"):
            yield from lines(named(line, value), notices, constraints, (*above, path.resolve()))
        elif name in ("-c", "--constraint"):
            bounds = lines(named(line, value), notices, constraints, (*above, path.resolve()))
            constraints += [str(requirement_of(each)) for each in bounds]
        elif name in ("-e", "--editable"):
            raise wrong(
                line, "an editable install is no release: name a wheel or a VCS address instead"
            )
        elif name == "--pre":
            raise wrong(
                line, "pre-releases are taken where a requirement names one, as in torch>=2.14.0rc1"
            )
        else:
            instead = ", the index of this machine is read" if name in OF_THE_INDEX else ""
            notices.append(f"{path.name}:{line.number}: {name} is not heeded{instead}")


def logical_lines(path: Path) -> Iterator[Line]:
    """Lines joined at a backslash, without comments and hashes; comments below a line are kept beside it."""
    pending, start = "", 0
    last: Line | None = None
    for number, raw in enumerate(text_of(path).splitlines(), start=1):
        if last is not None and raw.strip().startswith("#"):
            last = Line(
                last.path,
                last.number,
                last.text,
                f"{last.via}\n{raw.strip().lstrip('# ')} ",
                last.hashed,
            )
            continue
        start = start if pending else number
        comment = COMMENT.search(raw)
        text = raw[: comment.start()] if comment else raw
        if text.rstrip().endswith("\\"):
            pending += text.rstrip()[:-1] + " "
            continue
        whole, pending = (pending + text).strip(), ""
        if whole:
            if last is not None:
                yield last
            via = comment[0].strip().lstrip("# ") + " " if comment else ""
            last = Line(path, start, cleaned(whole), via, hashed="--hash" in whole)
    if last is not None:
        yield last
    if pending.strip():  # the file ends within a continued line
        yield Line(path, start, cleaned(pending))


def cleaned(text: str) -> str:
    """A joined line without the options of its requirement, on single spaces."""
    return " ".join(PER_REQUIREMENT.sub("", text).split())


def requirement_of(line: Line) -> Requirement:
    """The requirement of a line; UserError with file and line where it is none.

    What variables hold may be a secret: a complaint shows the line as it is written.
    """
    text = filled(line.text)
    if DIRECT.search(text):
        raise wrong(line, f"an address needs its package's name before it: NAME @ {line.text}")
    if PLAIN_PATH.search(text) and " @ " not in text:
        raise wrong(line, "a path is no requirement here: write NAME @ file:///… to a wheel")
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        if text != line.text:
            raise wrong(line, "with its variables filled in it is no requirement") from None
        raise wrong(line, str(error).splitlines()[0]) from error


def filled(text: str) -> str:
    """``text`` with the variables that are set, as pip fills them in."""
    return VARIABLE.sub(lambda match: os.environ.get(match[1], match[0]), text)


def named(line: Line, value: str) -> Path:
    """The file that a line names, from the folder of its own; UserError where there is none."""
    found = line.path.parent / filled(value)
    if not found.is_file():
        raise wrong(line, f"there is no file {value}")
    return found


def text_of(path: Path) -> str:
    """The file's text; UserError where it is none."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{path} cannot be read as text.",
            cause=str(error),
            next_step="name a requirements file in UTF-8",
        ) from error


def wrong(line: Line, cause: str) -> UserError:
    """A complaint about a line, with the line."""
    return UserError(
        f"{line.path.name}:{line.number}: {without_credentials(line.text)!r} cannot be read.",
        cause=without_credentials(cause),
        next_step=f"correct line {line.number} of {line.path} and run again; nothing was run",
    )


T = TypeVar("T")


class ProjectTable(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """[project], as far as it is read."""

    name: str = ""
    requires_python: str = ""
    dependencies: list[Any] = []
    optional_dependencies: dict[str, list[Any]] = {}
    dynamic: list[str] = []


class UvTable(msgspec.Struct, frozen=True):
    """[tool.uv], as far as it is read."""

    sources: dict[str, Any] = {}


class ToolTable(msgspec.Struct, frozen=True):
    """[tool], as far as it is read."""

    uv: UvTable = UvTable()
    poetry: Any = None


class Pyproject(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A pyproject.toml, as far as it is read."""

    project: ProjectTable | None = None
    dependency_groups: dict[str, list[Any]] = {}
    tool: ToolTable = ToolTable()


class UvLock(msgspec.Struct, frozen=True, rename="kebab"):
    """A uv.lock: its Python alone, uv reads the rest."""

    requires_python: str = ""


EXPORT = (
    "export",
    "--frozen",
    "--no-emit-workspace",
    "--no-emit-local",
    "--no-header",
    "--no-hashes",
    "--quiet",
)


def pyproject(path: Path, extras: Sequence[str], groups: Sequence[str]) -> Listed:
    """The dependencies of a project, with these of its extras and dependency groups."""
    document = toml(path, Pyproject)
    project = document.project
    if project is None:
        cause = "it has no [project] table" + (
            ", poetry's is not read" if document.tool.poetry is not None else ""
        )
        raise UserError(
            f"{path} does not say what the project needs.",
            cause=cause,
            next_step="write [project] dependencies there, or name a requirements file",
        )
    if "dependencies" in project.dynamic:
        raise UserError(
            f"{path} has dynamic dependencies.",
            cause="what its build makes of them is not known without building it",
            next_step="name the requirements file that they come from",
        )
    texts = entries(path, project.dependencies, "[project] dependencies")
    optional = canonical(project.optional_dependencies)
    for extra in extras:
        texts += entries(path, chosen(path, "extra", extra, optional), f"extra {extra!r}")
    grouped = canonical(document.dependency_groups)
    for group in groups:
        texts += of_group(path, group, grouped, ())
    own = canonicalize_name(project.name)
    found = tuple(dict.fromkeys(own_extras_resolved(path, texts, own, optional, set())))
    if not found:
        raise UserError(
            f"{path} has no dependencies.",
            cause=f"extras are {listed(optional)}, dependency groups are {listed(grouped)}",
            next_step="name some with --extra or --group, or another file",
        )
    sources = document.tool.uv.sources
    notices = (
        (f"{path.name}: [tool.uv.sources] is not heeded: {', '.join(sorted(sources))}",)
        if sources
        else ()
    )
    return Listed(found, notices=notices, requires_python=project.requires_python)


def own_extras_resolved(
    path: Path, texts: Sequence[str], own: str, optional: dict[str, Any], seen: set[str]
) -> Iterator[str]:
    """``texts`` with a project's reference to its own extras replaced by what those ask for, each once."""
    for text in texts:
        parsed = Requirement(text)
        if not own or canonicalize_name(parsed.name) != own:
            yield text
            continue
        for extra in sorted({str(canonicalize_name(each)) for each in parsed.extras} - seen):
            seen.add(extra)
            inner = entries(path, chosen(path, "extra", extra, optional), f"extra {extra!r}")
            yield from own_extras_resolved(path, inner, own, optional, seen)


def of_group(path: Path, group: str, grouped: dict[str, Any], above: tuple[str, ...]) -> list[str]:
    """What a dependency group asks for, and the groups that it includes."""
    name = str(canonicalize_name(group))
    if name in above:
        raise UserError(
            f"{path}: the dependency group {group!r} includes itself.",
            cause=" → ".join((*above, name)),
            next_step=f"correct {path.name} and run again",
        )
    found: list[str] = []
    for entry in chosen(path, "dependency group", group, grouped):
        if isinstance(entry, dict) and set(entry) == {"include-group"}:
            found += of_group(path, str(entry["include-group"]), grouped, (*above, name))
        else:
            found += entries(path, [entry], f"dependency group {group!r}")
    return found


def uv_lock(path: Path, extras: Sequence[str], groups: Sequence[str], scratch: Path) -> Listed:
    """A uv.lock, as uv exports it; the pyproject.toml beside it says what was asked for."""
    manifest = path.parent / "pyproject.toml"
    if not manifest.is_file():
        raise UserError(
            f"{path} has no pyproject.toml beside it.",
            cause="a uv.lock belongs to the project in its folder",
            next_step="name the uv.lock in its project, or export it: uv export > requirements.txt",
        )
    chosen_parts = [
        *(f"--extra={each}" for each in extras),
        *(f"--group={each}" for each in groups),
    ]
    ran = uv.run(
        [*EXPORT, "--no-default-groups", *chosen_parts, "--project", str(path.parent.resolve())]
    )
    if ran.returncode:
        raise UserError(
            f"{path} cannot be read.",
            cause=uv.summary(ran.stderr),
            next_step="see that this works: uv export --frozen",
        )
    exported = scratch / "uv.lock.txt"
    exported.write_text(ran.stdout, encoding="utf-8")
    pins = read(exported).requirements
    wanted = {
        canonicalize_name(Requirement(each).name)
        for each in pyproject(manifest, extras, groups).requirements
    }
    parsed = [Requirement(each) for each in pins]
    left = sorted(wanted - {canonicalize_name(each.name) for each in parsed})
    told = f"{path.name}: of this project alone, and left out: {', '.join(left)}; all else that is locked is kept"
    # what those need was asked for too, and the export does not tell which it is
    asked = tuple(
        unbound(each) for each in parsed if left or canonicalize_name(each.name) in wanted
    )
    requires = toml(path, UvLock).requires_python
    return Listed(
        pins, locked=True, asked=asked, notices=(told,) if left else (), requires_python=requires
    )


def toml(path: Path, kind: type[T]) -> T:
    """The document as this ``kind``; UserError with the line, or the place, where it is none."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8-sig")), kind)
    except msgspec.ValidationError as error:
        raise UserError(
            f"{path.name} is not written as such a file is.",
            cause=str(error),
            next_step=f"correct {path}",
        ) from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        place = f"{path.name}:{line[1]}" if line else path.name
        raise UserError(
            f"{place}: this is no TOML.", cause=str(error), next_step=f"correct {path}"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{path} cannot be read.", cause=str(error), next_step="name a TOML file in UTF-8"
        ) from error


def entries(path: Path, given: Iterable[Any], place: str) -> list[str]:
    """Requirements in a table; UserError with the line of the one that is none."""
    found = []
    for entry in given:
        try:
            found.append(str(Requirement(entry)))  # TypeError where it is no text
        except (InvalidRequirement, TypeError) as error:
            number = line_of(path, str(entry))
            raise UserError(
                f"{path.name}:{number}: {without_credentials(repr(entry))} in {place} cannot be read.",
                cause=without_credentials(str(error).splitlines()[0]),
                next_step=f"correct line {number} of {path} and run again; nothing was run",
            ) from error
    return found


def line_of(path: Path, text: str) -> int:
    """The first line of a file that has the text; 1 where none has it as it is."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((number for number, line in enumerate(lines, start=1) if text in line), 1)


def chosen(path: Path, kind: str, name: str, known: dict[str, list[Any]]) -> list[Any]:
    """The table of an extra or a group; UserError where there is none of that name."""
    key = str(canonicalize_name(name))
    if key not in known:
        raise UserError(
            f"{path} has no {kind} {name!r}.",
            cause=did_you_mean(key, sorted(known)) if known else f"it has no {kind} at all",
            next_step=f"name a {kind} that it has",
        )
    return known[key]


def canonical(tables: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The tables by their normalized names."""
    return {str(canonicalize_name(name)): table for name, table in tables.items()}


def listed(tables: dict[str, Any]) -> str:
    """Their names, or none."""
    return ", ".join(sorted(tables)) or "none"


OF_PARTS = re.compile(r"\b(?:extras|dependency_groups)\b")
"""In a marker of a pylock.toml: it depends on what is asked for."""


class Dependency(msgspec.Struct, frozen=True):
    """What a package of a pylock.toml needs."""

    name: str = ""


class LockedEntry(msgspec.Struct, frozen=True):
    """A package of a pylock.toml."""

    name: str = ""
    version: str = ""
    marker: str = ""
    dependencies: list[Dependency] = []
    vcs: dict[str, Any] = {}
    archive: dict[str, Any] = {}
    directory: dict[str, Any] = {}


class LockDocument(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A pylock.toml, as far as it is read."""

    requires_python: str = ""
    default_groups: list[str] = []
    packages: list[LockedEntry] = []


def pylock(path: Path) -> Listed:
    """A pylock.toml (PEP 751): its packages at their versions."""
    document = toml(path, LockDocument)
    pins, depended, notices = [], set(), []
    for entry in document.packages:
        depended |= {canonicalize_name(each.name) for each in entry.dependencies}
        if not of_default_install(entry.marker, document.default_groups):
            continue
        marker = "" if OF_PARTS.search(entry.marker) else entry.marker
        source = source_of(entry)
        if source:
            pins.append(f"{entry.name} @ {source}" + (f" ; {marker}" if marker else ""))
            continue
        if entry.vcs or entry.archive or entry.directory:
            notices.append(
                f"{path.name}: {entry.name} is no release of the package index and is left out"
            )
            continue
        if not entry.name or not entry.version:
            notices.append(
                f"{path.name}: {entry.name or 'a package'} has no version there and is left out"
            )
            continue
        pins.append(f"{entry.name}=={entry.version}" + (f" ; {marker}" if marker else ""))
    if not pins:
        raise UserError(
            f"{path} locks no package.",
            cause="it has no [[packages]] with a version",
            next_step="name another file",
        )
    parsed = [Requirement(text) for text in entries(path, pins, "[[packages]]")]
    asked = tuple(unbound(each) for each in parsed if canonicalize_name(each.name) not in depended)
    if not depended:
        notices.append(
            f"{path.name} does not say which of its packages were asked for: all of them are kept"
        )
    pinned = tuple(map(str, parsed))
    return Listed(
        pinned,
        locked=True,
        asked=asked,
        notices=tuple(notices),
        requires_python=document.requires_python,
    )


def of_default_install(marker: str, groups: Sequence[str]) -> bool:
    """Whether a marker on extras or groups lets a package in where none is asked for; others are left to the resolver.

    What such a marker says of the machine besides is read as of this one.
    """
    if not OF_PARTS.search(marker):
        return True
    try:
        return Marker(marker).evaluate(
            {"extras": frozenset(), "dependency_groups": frozenset(groups)}, "lock_file"
        )
    except InvalidMarker:
        return True  # to be told with all that cannot be read


def source_of(entry: LockedEntry) -> str:
    """The address of a package that is locked by a commit; empty where it is not."""
    url, commit = entry.vcs.get("url"), entry.vcs.get("commit-id")
    if not url or not commit:
        return ""
    folder = entry.vcs.get("subdirectory")
    return f"{entry.vcs.get('type', 'git')}+{url}@{commit}" + (
        f"#subdirectory={folder}" if folder else ""
    )
