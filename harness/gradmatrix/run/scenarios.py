"""What is run: scenarios of the project, and training scripts of the user.

The literals of a scenario are read without importing it, since that would need the libraries that
it trains with. A script of the user is a [[scripts]] table of matrix.toml.
"""

from __future__ import annotations

import ast
import glob
import hashlib
import json
import os
import re
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from gradmatrix.core.errors import (
    UserError,
    check_name,
    check_requirement,
    check_unique,
    did_you_mean,
    read_requirement,
    wrong,
)
from gradmatrix.core.model import Lock, Relation, Role, Scenario, Variant
from gradmatrix.core.text import one_line
from gradmatrix.run.meaning import digest_of_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from gradmatrix.stacks.config import Script


PAIR = 2
ONLY = ("first loss", "losses")
"""What a relation may be about, if not about every loss and gradient norm."""
READ_FROM_OUTSIDE = frozenset({"NEEDS", "VARIANTS", "AGREE"})
"""Literals that a scenario's own code does not need. What a verdict uses of them is in its key."""


def load_all(folder: Path) -> dict[str, Scenario]:
    """Every scenario of ``folder`` by name."""
    return {
        path.stem: load(path)
        for path in sorted(folder.glob("*.py"))
        if not path.name.startswith("_")
    }


def are_in(folder: Path) -> bool:
    """Whether ``folder`` holds scenarios: another project's folder may have the same name."""
    return any(b"VARIANTS" in path.read_bytes() for path in folder.glob("*.py"))


def load(path: Path) -> Scenario:
    """The scenario in ``path``; UserError if its literals are missing or wrong."""
    source = path.read_bytes()
    try:
        tree = ast.parse(source, filename=str(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = one_line(str(error)) or type(error).__name__
        if isinstance(error, SyntaxError):
            reason = f"{error.msg} in line {error.lineno}"
        raise UserError(
            f"{path} is not valid Python: {reason}.",
            cause="a scenario is an ordinary script in UTF-8",
            next_step=f"correct {path.name}; this shows where: python -m py_compile {path}",
        ) from error
    entries = _literal(tree, "VARIANTS", path)
    if not isinstance(entries, dict) or not entries:
        raise _wrong(path, "has no VARIANTS dictionary")
    needs = _needs(_literal(tree, "NEEDS", path) or (), path)
    variants = tuple(_variant(name, entry, needs, path) for name, entry in entries.items())
    for each in variants:
        for name in each.mends:
            if name not in entries:
                meant = did_you_mean(name, map(str, entries))
                raise _wrong(
                    path,
                    f"variant {each.name!r} mends the unknown {name!r}, {meant}",
                )
    return Scenario(
        name=path.stem,
        title=(ast.get_docstring(tree) or path.stem).splitlines()[0].rstrip("."),
        path=str(path),
        source_digest=digest_of_file(source, READ_FROM_OUTSIDE),
        variants=variants,
        agree=_agree(_literal(tree, "AGREE", path) or (), variants, path),
    )


_parsed = cache(Requirement)
"""Every cell of a scenario names the same few requirements."""


def unmet(variant: Variant, lock: Lock) -> str | None:
    """The first requirement of ``variant`` that ``lock`` does not meet; None if it meets all."""
    for text in variant.needs:
        requirement = _parsed(text)
        version = lock.version(canonicalize_name(requirement.name))
        if version is None:
            return f"needs {text}, which this stack does not have"
        if not requirement.specifier.contains(version, prereleases=True):
            return f"needs {text}, this stack has {version}"
    return None


def _variant(name: object, entry: object, needs: tuple[str, ...], path: Path) -> Variant:
    if (
        not isinstance(name, str)
        or not isinstance(entry, dict)
        or "role" not in entry
        or "summary" not in entry
    ):
        raise _wrong(path, f'variant {name!r} needs "role" and "summary"')
    if entry["role"] not in list(Role):
        raise _wrong(
            path,
            f"variant {name!r} has the unknown role {entry['role']!r} (one of {', '.join(Role)})",
        )
    own = _needs(entry["needs"], path) if "needs" in entry else needs
    cures = entry.get("cures", ())
    if not isinstance(cures, (tuple, list)) or not all(isinstance(cause, str) for cause in cures):
        raise _wrong(path, f"variant {name!r} cures {cures!r}, which is not a tuple of causes")
    mends = entry.get("mends", ())
    if not isinstance(mends, (tuple, list)) or not all(isinstance(each, str) for each in mends):
        raise _wrong(path, f"variant {name!r} mends {mends!r}, which is not a tuple of variants")
    return Variant(
        name=name,
        role=Role(entry["role"]),
        summary=str(entry["summary"]),
        needs=own,
        cures=tuple(cures),
        mends=tuple(mends),
    )


def _needs(entry: object, path: Path) -> tuple[str, ...]:
    if not isinstance(entry, (tuple, list)):  # a single string would be read letter by letter
        raise _wrong(path, f"needs {entry!r}, which is not a tuple of requirements")
    try:
        return tuple(str(read_requirement(text)) for text in entry)
    except (InvalidRequirement, TypeError) as error:
        raise _wrong(
            path, f"has an unreadable requirement: {str(error).splitlines()[0]}"
        ) from error


def _agree(entry: object, variants: tuple[Variant, ...], path: Path) -> tuple[Relation, ...]:
    pairs: list[object] = list(entry) if isinstance(entry, (tuple, list)) else [entry]
    found = tuple(
        _relation(pair, {variant.name: variant for variant in variants}, path) for pair in pairs
    )
    known = set[frozenset[str]]()
    for relation in found:
        pair = frozenset((relation.first, relation.second))
        if pair in known:
            raise _wrong(path, f"has {relation.first!r} and {relation.second!r} in AGREE twice")
        known.add(pair)
    return found


def _relation(pair: object, variants: dict[str, Variant], path: Path) -> Relation:
    if (
        not isinstance(pair, (tuple, list))
        or not PAIR <= len(pair) <= PAIR + 1
        or pair[0] == pair[1]
    ):
        raise _wrong(path, f"has {pair!r} in AGREE, which is not a pair of its variants")
    for name in pair[:PAIR]:
        if not isinstance(name, str) or name not in variants:
            raise _wrong(path, f"has {pair!r} in AGREE, which is not a pair of its variants")
        if variants[name].role is Role.MISUSE:
            raise _wrong(path, f"has {pair!r} in AGREE, and {name!r} is a misuse: it cannot train")
    return Relation(
        first=pair[0], second=pair[1], **_options(pair[PAIR] if len(pair) > PAIR else {}, path)
    )


def _options(entry: object, path: Path) -> dict[str, Any]:
    """The options of a relation, beside its pair."""
    if not isinstance(entry, dict):
        raise _wrong(
            path, f'has {entry!r} in AGREE, which is not a dictionary such as {{"rtol": 0.02}}'
        )
    for key, value in entry.items():
        if key == "rtol":
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
                raise _wrong(
                    path,
                    f"has the rtol {value!r} in AGREE, which is not a number from 0 to below 1",
                )
        elif key == "only":
            if value not in ONLY:
                allowed = " or ".join(map(repr, ONLY))
                raise _wrong(path, f"has only {value!r} in AGREE, where {allowed} is allowed")
        else:
            raise _wrong(
                path,
                f"has the unknown key {key!r} in AGREE, {did_you_mean(str(key), ('rtol', 'only'))}",
            )
    return entry


def _literal(tree: ast.Module, name: str, path: Path) -> object:
    """The value assigned to ``name`` at the top of the module, or None."""
    for node in tree.body:
        targets, value = _assigned(node)
        if value is not None and any(
            isinstance(target, ast.Name) and target.id == name for target in targets
        ):
            try:
                return ast.literal_eval(value)
            except (ValueError, TypeError) as error:
                raise _wrong(
                    path, f"{name} is not a literal: it is read without importing the file"
                ) from error
    return None


def _assigned(node: ast.stmt) -> tuple[list[ast.expr], ast.expr | None]:
    """What a statement assigns to, and the value."""
    if isinstance(node, ast.Assign):
        return node.targets, node.value
    return ([node.target], node.value) if isinstance(node, ast.AnnAssign) else ([], None)


def _wrong(path: Path, what: str) -> UserError:
    return UserError(
        f"{path.name} {what}.",
        cause="a scenario's NEEDS, VARIANTS and AGREE are literals at the top of the file",
        next_step="see docs/scenarios.md",
    )


VARIANT = "script"
"""The only variant of such a scenario."""


def load_scripts(
    matrix_file: Path, scripts: Iterable[Script], scenario_names: Collection[str]
) -> tuple[Scenario, ...]:
    """A scenario for each of ``scripts``, which are tables of ``matrix_file``.

    Raises:
        UserError: if a table or its file is wrong.
    """
    scripts = tuple(scripts)
    check_unique(matrix_file, "script", [script.name for script in scripts])
    for script in scripts:
        _check(matrix_file, script, scenario_names)
    return tuple(_load(matrix_file, script) for script in scripts)


def _check(matrix_file: Path, script: Script, scenario_names: Collection[str]) -> None:
    """UserError if the name or the role in the table is not allowed."""
    check_name(matrix_file, "script", script.name)
    if script.name.lower() in {name.lower() for name in scenario_names}:
        cause = "results are looked up by that name"
        raise wrong(
            matrix_file, f"has the script name {script.name!r}, which is a scenario's", cause
        )
    for text in script.needs:
        check_requirement(matrix_file, f"script {script.name!r}", text)
    if script.role not in list(Role):
        cause = did_you_mean(script.role, [role.value for role in Role])
        raise wrong(
            matrix_file, f"has the unknown role {script.role!r} in script {script.name!r}", cause
        )


def _load(matrix_file: Path, script: Script) -> Scenario:
    path = matrix_file.parent / script.path
    directory = None if script.directory is None else matrix_file.parent / script.directory
    packages = tuple(matrix_file.parent / folder for folder in script.packages)
    if not path.is_file():
        raise _missing(matrix_file, script, "path", script.path, "file")
    if directory is not None and not directory.is_dir():
        raise _missing(matrix_file, script, "directory", script.directory, "folder")
    for given, folder in zip(script.packages, packages, strict=True):
        if not folder.is_dir():
            raise _missing(matrix_file, script, "packages", given, "folder")
    summary = script.summary or path.name
    words = " ".join([path.name, *script.arguments])
    return Scenario(
        name=script.name,
        title=summary,
        path=str(path),
        source_digest=_digest(matrix_file, script),
        variants=(
            Variant(name=VARIANT, role=Role(script.role), summary=words, needs=script.needs),
        ),
        arguments=script.arguments,
        directory=None if directory is None else str(directory.resolve()),
        packages=tuple(str(folder.resolve()) for folder in packages),
    )


def _missing(
    matrix_file: Path, script: Script, key: str, given: str | None, kind: str
) -> Exception:
    cause = f"it is looked for from the folder of {matrix_file.name}"
    return wrong(
        matrix_file,
        f"has {key} = {given!r} in script {script.name!r}, where there is no {kind}",
        cause,
    )


def _digest(matrix_file: Path, script: Script) -> str:
    """The sha256 of what a verdict depends on besides the stack: table, file and inputs."""
    table = [script.path, script.role, script.arguments, script.directory]
    table += [script.packages] if script.packages else []
    total = hashlib.sha256(json.dumps(table).encode())
    modules = (each for folder in script.packages for each in _modules(matrix_file, folder))
    for name in (script.path, *_inputs(matrix_file, script), *modules):
        content = hashlib.sha256((matrix_file.parent / name).read_bytes()).hexdigest()
        total.update(f"\0{name}\0{content}".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def _inputs(matrix_file: Path, script: Script) -> Iterator[str]:
    """The files that the table's patterns name; UserError if a pattern names none."""
    for pattern in script.inputs:
        # unlike Path.glob, this takes absolute patterns too
        matches = glob.glob(pattern, root_dir=matrix_file.parent, recursive=True)  # noqa: PTH207
        found = sorted(matches)
        inside = [name for entry in found for name in _files(matrix_file.parent, entry)]
        if not inside:
            raise _missing(matrix_file, script, "inputs", pattern, "such file")
        yield from inside


def _modules(matrix_file: Path, folder: str) -> Iterator[str]:
    """The Python files of the modules and the packages in a folder of packages."""
    place = matrix_file.parent / folder
    packages = (path.parent.rglob("*.py") for path in place.glob("*/__init__.py"))
    for path in sorted({*place.glob("*.py"), *chain.from_iterable(packages)}):
        yield os.path.relpath(path, matrix_file.parent)


def _files(root: Path, entry: str) -> list[str]:
    """The file ``entry``, or all files of that folder without compiled Python code."""
    path = root / entry
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    return [os.path.relpath(each, root) for each in files if "__pycache__" not in each.parts]


def without_folders(value: Any, folders: Iterable[Path]) -> Any:  # noqa: ANN401  (any JSON)
    """``value`` without ``folders``, their parents and the home folder: it is published."""
    folders = [*folders, Path(os.environ.get("HOME", ""))]
    places = {str(place) for folder in folders for place in (folder, *folder.parents) if place.name}
    choice = "|".join(re.escape(place + os.sep) for place in sorted(places, key=len, reverse=True))
    return _without(re.compile(rf"(?<![\w.:/\\-])(?:{choice})"), value)


def _without(pattern: re.Pattern[str], value: Any) -> Any:  # noqa: ANN401  (whatever JSON holds)
    if isinstance(value, str):
        return pattern.sub("", value)
    if isinstance(value, list):
        return [_without(pattern, each) for each in value]
    return (
        {key: _without(pattern, each) for key, each in value.items()}
        if isinstance(value, dict)
        else value
    )
