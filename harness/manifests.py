"""What a pyproject.toml or a uv.lock asks for; and any TOML, read as what it should be."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from harness import requirement_files, uv
from harness.errors import UserError, did_you_mean, without_credentials
from harness.requirement_files import Listed
from harness.wishes import unbound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

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


EXPORT = ("export", "--frozen", "--no-emit-workspace", "--no-emit-local", "--no-header", "--no-hashes", "--quiet")


def pyproject(path: Path, extras: Sequence[str], groups: Sequence[str]) -> Listed:
    """The dependencies of a project, with these of its extras and dependency groups."""
    document = toml(path, Pyproject)
    project = document.project
    if project is None:
        cause = "it has no [project] table" + (", poetry's is not read" if document.tool.poetry is not None else "")
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
    notices = (f"{path.name}: [tool.uv.sources] is not heeded: {', '.join(sorted(sources))}",) if sources else ()
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
    chosen_parts = [*(f"--extra={each}" for each in extras), *(f"--group={each}" for each in groups)]
    ran = uv.run([*EXPORT, "--no-default-groups", *chosen_parts, "--project", str(path.parent.resolve())])
    if ran.returncode:
        raise UserError(
            f"{path} cannot be read.", cause=uv.summary(ran.stderr), next_step="see that this works: uv export --frozen"
        )
    exported = scratch / "uv.lock.txt"
    exported.write_text(ran.stdout, encoding="utf-8")
    pins = requirement_files.read(exported).requirements
    wanted = {canonicalize_name(Requirement(each).name) for each in pyproject(manifest, extras, groups).requirements}
    parsed = [Requirement(each) for each in pins]
    left = sorted(wanted - {canonicalize_name(each.name) for each in parsed})
    told = f"{path.name}: of this project alone, and left out: {', '.join(left)}; all else that is locked is kept"
    # what those need was asked for too, and the export does not tell which it is
    asked = tuple(unbound(each) for each in parsed if left or canonicalize_name(each.name) in wanted)
    requires = toml(path, UvLock).requires_python
    return Listed(pins, locked=True, asked=asked, notices=(told,) if left else (), requires_python=requires)


def toml(path: Path, kind: type[T]) -> T:
    """The document as this ``kind``; UserError with the line, or the place, where it is none."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8-sig")), kind)
    except msgspec.ValidationError as error:
        raise UserError(
            f"{path.name} is not written as such a file is.", cause=str(error), next_step=f"correct {path}"
        ) from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        place = f"{path.name}:{line[1]}" if line else path.name
        raise UserError(f"{place}: this is no TOML.", cause=str(error), next_step=f"correct {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read.", cause=str(error), next_step="name a TOML file in UTF-8") from error


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
