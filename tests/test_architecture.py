"""Rules on the code that import-linter's contracts do not cover.

The code is parsed, not imported.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
HARNESS = ROOT / "harness"
THERE = sorted(
    [
        *(HARNESS / "gradmatrix" / "observe").rglob("*.py"),
        *(HARNESS / "tools" / "faults").glob("*.py"),
    ]
)
"""What runs in the tested environment."""
HOST = sorted(path for path in HARNESS.rglob("*.py") if path not in THERE)
EXITS = {"sys.exit", "os._exit", "exit", "quit", "SystemExit"}
VAGUE = {"util", "utils", "helper", "helpers", "common", "manager", "base", "misc"}


def name_of(path: Path) -> str:
    """Its name below harness/, for the output of pytest."""
    return str(path.relative_to(HARNESS))


def absolute_imports(path: Path) -> set[str]:
    """The top-level packages that a file imports by an absolute name, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module)
    return {name.partition(".")[0] for name in found}


def test_the_tested_environment_needs_the_standard_library_and_torch_only() -> None:
    """The tested stack decides what else is there."""
    allowed = (sys.stdlib_module_names - {"tomllib"}) | {"torch"}
    assert {} == {
        name_of(path): more for path in THERE if (more := absolute_imports(path) - allowed)
    }


def test_what_runs_there_has_the_syntax_of_python_3_9() -> None:
    """This is the oldest Python that a stack may have."""
    for path in THERE:
        ast.parse(path.read_bytes(), name_of(path), feature_version=(3, 9))


def test_only_the_command_line_exits() -> None:
    """Library code returns or raises."""
    found = {
        name_of(path): ast.unparse(node.func)
        for path in HOST
        if path.stem not in {"main", "__main__"}
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in EXITS
    }
    assert {} == found


def test_no_name_says_nothing() -> None:
    """Files, folders and classes have terms of the field."""
    paths = [
        *HOST,
        *THERE,
        *Path(__file__).parent.rglob("*.py"),
        *(ROOT / "scenarios").glob("*.py"),
    ]
    parts = (part for path in paths for part in path.relative_to(ROOT).with_suffix("").parts)
    words = {word for part in parts for word in part.split("_")}
    trees = [ast.parse(path.read_bytes()) for path in (*HOST, *THERE)]
    classes = {
        node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    }
    words |= {word.lower() for name in classes for word in re.findall(r"[A-Z][a-z]*", name)}
    assert set() == words & VAGUE


def test_the_noxfile_asks_for_what_the_project_asks_for() -> None:
    """The block at its top repeats the list in pyproject.toml."""
    block = re.search(
        r"^# /// script\n((?:#.*\n)+?)# ///$",
        (ROOT / "noxfile.py").read_text("utf-8"),
        re.MULTILINE,
    )
    assert block is not None
    script = tomllib.loads(
        "".join(
            line.removeprefix("#").removeprefix(" ") for line in block[1].splitlines(keepends=True)
        )
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    both = [*project["dependencies"], *project["optional-dependencies"]["matrix"]]
    assert set(map(Requirement, both)) == set(map(Requirement, script["dependencies"]))
    assert project["requires-python"] == script["requires-python"]


def test_each_imported_package_is_a_dependency() -> None:
    """This includes packages that other dependencies install too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *extras["matrix"], *extras["ray"]]
    declared = {Requirement(text).name.replace("-", "_") for text in asked}
    imported = set()
    for path in (ROOT / "harness" / "gradmatrix").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {each.name.partition(".")[0] for each in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                imported.add(node.module.partition(".")[0])
    # in the tested environments, and where the plugin and the callbacks run
    hosts = {"torch", "pytest", "lightning", "pytorch_lightning", "transformers"}
    known = sys.stdlib_module_names | hosts | {"gradmatrix"}
    assert set() == imported - known - declared
