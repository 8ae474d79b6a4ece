"""A training script of the user's own as a scenario: a [[scripts]] table of matrix.toml, and the file that it names."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.complaints import check_name, check_requirement, check_unique, wrong
from harness.errors import did_you_mean
from harness.model import Role, Scenario, Variant

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from harness.matrix import Script

VARIANT = "script"
"""The only variant of such a scenario."""


def load_all(matrix_file: Path, scripts: Iterable[Script], scenario_names: Collection[str]) -> tuple[Scenario, ...]:
    """A scenario for each of ``scripts``, tables of ``matrix_file``; UserError where a table or its file is wrong."""
    scripts = tuple(scripts)
    check_unique(matrix_file, "script", [script.name for script in scripts])
    for script in scripts:
        _check(matrix_file, script, scenario_names)
    return tuple(_load(matrix_file, script) for script in scripts)


def _check(matrix_file: Path, script: Script, scenario_names: Collection[str]) -> None:
    """UserError where the table says what no script can have."""
    check_name(matrix_file, "script", script.name)
    if script.name.lower() in {name.lower() for name in scenario_names}:
        cause = "results are looked up by that name"
        raise wrong(matrix_file, f"has the script name {script.name!r}, which is a scenario's", cause)
    for text in script.needs:
        check_requirement(matrix_file, f"script {script.name!r}", text)
    if script.role not in list(Role):
        cause = did_you_mean(script.role, [role.value for role in Role])
        raise wrong(matrix_file, f"has the unknown role {script.role!r} in script {script.name!r}", cause)


def _load(matrix_file: Path, script: Script) -> Scenario:
    path = matrix_file.parent / script.path
    directory = None if script.directory is None else matrix_file.parent / script.directory
    if not path.is_file():
        raise _missing(matrix_file, script, "path", script.path, "file")
    if directory is not None and not directory.is_dir():
        raise _missing(matrix_file, script, "directory", script.directory, "folder")
    summary = script.summary or path.name
    words = " ".join([path.name, *script.arguments])
    return Scenario(
        name=script.name,
        title=summary,
        path=str(path),
        source_digest=_digest(matrix_file, script),
        variants=(Variant(name=VARIANT, role=Role(script.role), summary=words, needs=script.needs),),
        arguments=script.arguments,
        directory=None if directory is None else str(directory.resolve()),
    )


def _missing(matrix_file: Path, script: Script, key: str, given: str | None, kind: str) -> Exception:
    cause = f"it is looked for from the folder of {matrix_file.name}"
    return wrong(matrix_file, f"has {key} = {given!r} in script {script.name!r}, where there is no {kind}", cause)


def _digest(matrix_file: Path, script: Script) -> str:
    """sha256 over all that a script's verdict depends on, beside the stack: its table, its file and its inputs."""
    table = [script.path, script.role, script.arguments, script.directory]
    total = hashlib.sha256(json.dumps(table).encode())
    for name in (script.path, *_inputs(matrix_file, script)):
        content = hashlib.sha256((matrix_file.parent / name).read_bytes()).hexdigest()
        total.update(f"\0{name}\0{content}".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def _inputs(matrix_file: Path, script: Script) -> Iterator[str]:
    """The files that the table's patterns name, relative to the matrix; a pattern that names none is an error."""
    for pattern in script.inputs:
        found = sorted(glob.glob(pattern, root_dir=matrix_file.parent, recursive=True))  # noqa: PTH207  (absolute ones too)
        inside = [name for entry in found for name in _files(matrix_file.parent, entry)]
        if not inside:
            raise _missing(matrix_file, script, "inputs", pattern, "such file")
        yield from inside


def _files(root: Path, entry: str) -> list[str]:
    """The file ``entry`` itself, or all files of that folder; what Python compiles beside them is no input."""
    path = root / entry
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    return [os.path.relpath(each, root) for each in files if "__pycache__" not in each.parts]


def without_folders(value: Any, folders: Iterable[Path]) -> Any:  # noqa: ANN401  (whatever JSON holds)
    """``value`` without ``folders``, what is above them and the home in its texts: records are published."""
    folders = [*folders, Path(os.environ.get("HOME", ""))]
    places = {str(place) for folder in folders for place in (folder, *folder.parents) if place.name}
    choice = "|".join(re.escape(place + os.sep) for place in sorted(places, key=len, reverse=True))
    return _without(re.compile(rf"(?<![\w.:/\\-])(?:{choice})"), value)


def _without(pattern: re.Pattern[str], value: Any) -> Any:  # noqa: ANN401  (whatever JSON holds)
    if isinstance(value, str):
        return pattern.sub("", value)
    if isinstance(value, list):
        return [_without(pattern, each) for each in value]
    return {key: _without(pattern, each) for key, each in value.items()} if isinstance(value, dict) else value
