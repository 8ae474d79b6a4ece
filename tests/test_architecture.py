"""The shape of the code: which module may import which, and a few limits. It is read, not imported."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from itertools import takewhile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
HARNESS = ROOT / "harness"
INSIDE = sorted((HARNESS / "inside").rglob("*.py"))
FAULTS = sorted((HARNESS / "faults").glob("*.py"))
THERE = [*INSIDE, *FAULTS]
"""What runs in the tested environment."""
HOST = sorted(path for path in HARNESS.rglob("*.py") if path not in THERE)
WITHIN = {
    "publish/": [
        "text",
        "readme",
        "rows",
        "grid",
        "published",
        "frame",
        "document",
        "headline",
        "markdown",
        "badges",
        "feed",
        "claims_words",
        "claims",
        "claims_table",
        "site.links",
        "site.markup",
        "site.sentences",
        "site.cells",
        "site.plots",
        "site.parameters",
        "site.observed",
        "site.article",
        "site.evidence",
        "site.moves",
        "site.view",
        "site.tried",
        "site.tables",
        "site.stacks",
        "site.scenarios",
        "site.packages",
        "site.chronicle",
        "site.claims",
        "site.messages",
        "site.data",
        "site.front",
        "site.sitemap",
        "regressions",
        "comparison.names",
        "comparison.sections",
        "comparison.losses",
        "comparison.ratios",
        "comparison.packages",
        "comparison.markdown",
        "comparison.page",
        "comparison.reports",
    ],
    "reduction/": ["source", "constants", "branches", "unused", "parameters", "reduce"],
    "commands/": [
        "options",
        "compare",
        "matrix",
        "page",
        "why",
        "own_scripts",
        "upgrade",
        "claims",
        "history",
        "trace",
        "check",
        "capsule",
        "shards",
        "refresh",
        "audit",
        "bench",
    ],
}
"""The modules of a folder of harness/ in their own order."""
PURE = {
    "observation": {"typing", "msgspec"},
    "model": {"datetime", "enum", "typing", "msgspec", "harness"},
    "outcome": {"dataclasses", "enum", "re", "typing"},
    "releases": {"collections", "dataclasses", "datetime", "typing", "packaging"},
    "periods": {"calendar", "datetime", "typing"},
    "generate": {"collections", "datetime", "re", "typing", "msgspec", "packaging", "harness"},
    "window": {"collections", "datetime", "typing", "packaging", "harness"},
    "verdict": {"collections", "dataclasses", "math", "re", "typing", "harness"},
    "relations": {"collections", "math", "typing", "msgspec", "harness"},
    "causes": {"collections", "enum", "typing", "harness"},
    "lost": {"collections", "re", "typing", "harness"},
    "diagnosis": {"re", "typing", "harness"},
    "remedy": {"collections", "typing", "harness"},
    "nearest": {"collections", "typing", "packaging", "harness"},
    "capsule": {"collections", "re", "textwrap", "typing", "packaging", "harness"},
    "silent": {"typing", "harness"},
    "changes": {"collections", "datetime", "functools", "hashlib", "statistics", "typing", "msgspec", "harness"},
    "flips": {"collections", "enum", "typing", "harness"},
    "measured": {"enum", "typing", "harness"},
    "statistics": {"collections", "dataclasses", "itertools", "math", "typing", "numpy", "scipy", "harness"},
    "moved": {"datetime", "typing", "packaging", "harness"},
    "drift": {"typing", "harness"},
    "comparison": {"datetime", "enum", "typing", "harness"},
    "standing": {"collections", "dataclasses", "enum", "typing", "harness"},
    "grouping": {"collections", "dataclasses", "re", "typing", "harness"},
    "answer": {"collections", "dataclasses", "typing", "harness"},
    "compare": {"collections", "dataclasses", "typing", "harness"},
    "wishes": {"collections", "dataclasses", "re", "typing", "packaging", "harness"},
    "claims": {"datetime", "enum", "typing", "harness"},
    "shards": {"collections", "dataclasses", "functools", "heapq", "re", "statistics", "typing", "msgspec", "harness"},
    "admission": {"collections", "dataclasses", "datetime", "typing", "harness"},
    "plan": {"collections", "dataclasses", "enum", "functools", "hashlib", "pathlib", "typing", "harness"},
}
"""Modules that decide, and all that they may import; plan reads the observer's source for its digest."""
VAGUE = {"util", "utils", "helper", "helpers", "common", "manager", "base", "misc"}
MOST_LINES = 300


def documented_layers() -> list[str]:
    """The modules of harness/ in the order of the layout in CONTRIBUTING.md, those of a folder in their own."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Layout")[2]
    lines = text.partition("\nharness/")[2].splitlines()[1:]
    names = [line.split()[0] for line in takewhile(lambda line: line.startswith("  "), lines)]
    return [
        module
        for name in names
        if name not in {"inside/", "faults/"}
        for module in ([f"{name[:-1]}.{part}" for part in WITHIN[name]] if name in WITHIN else [name[:-3]])
    ]


def module_of(path: Path) -> str:
    """Its dotted name below harness/."""
    return ".".join(path.relative_to(HARNESS).with_suffix("").parts)


def imports(path: Path) -> set[str]:
    """Every module that is imported anywhere in a file, for types or at run time; relative ones start with a dot."""
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            name = "." * node.level + (node.module or "")
            found |= {f"{name}.{a.name}" if is_package(name) else name for a in node.names}
    return found - {"__future__"}


def is_package(name: str) -> bool:
    """Whether the name is a package of ours, so that what is imported from it is a module."""
    return (ROOT / name.replace(".", "/") / "__init__.py").exists()


def harness_imports(path: Path) -> set[str]:
    """The modules of harness/ that a file imports."""
    return {name.removeprefix("harness.") for name in imports(path) if name.startswith("harness.")}


def top_level(path: Path) -> set[str]:
    """The packages that a file imports."""
    return {name.partition(".")[0] for name in imports(path)}


def test_every_module_has_its_place_in_the_documented_layout() -> None:
    """Whoever reads the list has read the pipeline."""
    expected = {module_of(path) for path in HOST if not path.stem.startswith("__")}
    layers = documented_layers()
    assert (expected, len(layers)) == (set(layers), len(set(layers)))


@pytest.mark.parametrize("path", [path for path in HOST if not path.stem.startswith("__")], ids=module_of)
def test_imports_point_one_way(path: Path) -> None:
    """A module knows only what stands above it in the layout."""
    layers = documented_layers()
    above = set(layers[: layers.index(module_of(path))])
    assert set() == harness_imports(path) - above


def test_the_words_stand_on_nothing() -> None:
    """Observation, outcomes and errors import no other module of ours, the model only the first."""
    assert {"observation": set(), "model": {"observation"}, "outcome": set(), "errors": set()} == {
        name: harness_imports(HARNESS / f"{name}.py") for name in ("observation", "model", "outcome", "errors")
    }


@pytest.mark.parametrize("name", PURE)
def test_what_decides_touches_nothing(name: str) -> None:
    """No process, no network, no clock: a function of values."""
    assert set() == top_level(HARNESS / f"{name}.py") - PURE[name]


def test_the_verdict_knows_only_words() -> None:
    """An observation and an outcome are all it needs."""
    assert {"observation", "model", "outcome"} == harness_imports(HARNESS / "verdict.py")


@pytest.mark.parametrize("path", THERE, ids=lambda path: path.stem)
def test_inside_needs_the_standard_library_and_torch_only(path: Path) -> None:
    """The tested stack decides what else is there."""
    absolute = {name for name in imports(path) if not name.startswith(".")}
    packages = {name.partition(".")[0] for name in absolute}
    assert set() == packages - (sys.stdlib_module_names - {"tomllib"}) - {"torch"}


@pytest.mark.parametrize("path", THERE, ids=lambda path: path.stem)
def test_inside_stays_inside(path: Path) -> None:
    """A relative import of one dot reaches no further than the folder."""
    assert [] == [name for name in imports(path) if name.startswith("..")]


@pytest.mark.parametrize("path", THERE, ids=lambda path: path.stem)
def test_inside_has_the_syntax_of_python_3_9(path: Path) -> None:
    """The oldest Python that a stack may have."""
    ast.parse(path.read_bytes(), feature_version=(3, 9))


def test_the_host_never_imports_what_runs_inside() -> None:
    """The boundary is a file protocol."""
    assert [] == [
        path.name for path in HOST if any(n.startswith(("harness.inside", "harness.faults")) for n in imports(path))
    ]


@pytest.mark.parametrize("path", [path for path in HOST if path.stem != "cli"], ids=module_of)
def test_only_the_command_line_exits(path: Path) -> None:
    """Library code returns or raises."""
    calls = [node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Call)]
    assert set() == {ast.unparse(call.func) for call in calls} & {"sys.exit", "os._exit", "exit", "quit", "SystemExit"}


@pytest.mark.parametrize(
    "path", [ROOT / "noxfile.py", *HOST, *THERE, *Path(__file__).parent.glob("*.py")], ids=lambda path: path.name
)
def test_a_module_past_its_limit_is_two_modules(path: Path) -> None:
    """A file that cannot be read in one go is not read."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_no_name_says_nothing() -> None:
    """Field terms only, for files, folders and classes."""
    paths = [*HOST, *THERE, *Path(__file__).parent.rglob("*.py"), *(ROOT / "scenarios").glob("*.py")]
    words = {
        word for path in paths for part in path.relative_to(ROOT).with_suffix("").parts for word in part.split("_")
    }
    trees = [ast.parse(path.read_bytes()) for path in (*HOST, *THERE)]
    classes = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    parts = {part.lower() for name in classes for part in re.findall(r"[A-Z][a-z]*", name)}
    assert set() == (words | parts) & VAGUE


def test_the_noxfile_asks_for_what_the_project_asks_for() -> None:
    """The block at its top and pyproject.toml are one list in two places."""
    block = re.search(r"^# /// script\n((?:#.*\n)+?)# ///$", (ROOT / "noxfile.py").read_text("utf-8"), re.MULTILINE)
    assert block is not None
    script = tomllib.loads(
        "".join(line.removeprefix("#").removeprefix(" ") for line in block[1].splitlines(keepends=True))
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(map(Requirement, project["dependencies"])) == set(map(Requirement, script["dependencies"]))
    assert project["requires-python"] == script["requires-python"]
