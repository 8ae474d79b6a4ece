"""What nobody needs any more: definitions, imports, and names that are set and not read."""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.reduction.source import Edit, Source

ENTRY = "train"
AHEAD = {"contextlib.suppress", "suppress", "importlib.import_module", "import_module"}
"""The calls of which a statement consists that only imports ahead of need."""
WIDEST = 100


def definitions(source: Source) -> list[Edit]:
    """Functions, classes and values at the top of the module that the entry does not come to."""
    named = {name: node for node in source.tree.body for name in _defines(node)}
    waiting = [n for n in source.tree.body if not _defines(n) and not _imports_ahead(n)]
    waiting.append(named[ENTRY])
    reached = set[int]()
    while waiting:
        current = waiting.pop()
        reached.add(id(current))
        found = (named[name] for name in names_in(current) if name in named)
        waiting += [each for each in found if id(each) not in reached]
    return [source.without(node) for node in source.tree.body if id(node) not in reached]


def imports(source: Source) -> list[Edit]:
    """Imported names that are not read anywhere; the ``__future__`` has none."""
    read = names_in(source.tree)
    edits = []
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Import | ast.ImportFrom) or getattr(node, "module", "") == "__future__":
            continue
        kept = [each for each in node.names if (each.asname or each.name).partition(".")[0] in read]
        if not kept:
            return [source.without(node)]  # one at a time: a block must not become empty
        if len(kept) < len(node.names):
            edits.append(source.replaced(node, _import(node, kept)))
    return edits


def values(source: Source) -> list[Edit]:
    """Names in functions that are set to what costs and changes nothing, and not read or at once set anew."""
    for block in source.blocks():
        for node, following in pairwise(block):
            match node, following:
                case ast.Assign(targets=[ast.Name(id=one)], value=value), ast.Assign(targets=[ast.Name(id=two)]) if (
                    one == two and _idle(value) and one not in names_in(following.value)
                ):
                    return [source.without(node)]
    for function in (node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef)):
        read = names_in(function)
        for inner in ast.walk(function):
            match inner:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in read and _idle(value):
                    return [source.without(inner)]
    return []


def names_in(node: ast.AST) -> set[str]:
    """The names that are read in ``node``."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _defines(node: ast.stmt) -> list[str]:
    """The names of a definition that does nothing else."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if _idle(value):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is None or _idle(value):
            return [name]
    return []


def _idle(value: ast.expr) -> bool:
    """Whether a value has no side effect: no call but that of a ``…Config``, which holds settings."""
    calls = [node.func for node in ast.walk(value) if isinstance(node, ast.Call)]
    return all(ast.unparse(function).endswith("Config") for function in calls)


def _imports_ahead(node: ast.stmt) -> bool:
    """Whether a statement only imports what is imported again where it is needed."""
    calls: Iterable[ast.Call] = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
    return bool(calls) and {ast.unparse(call.func) for call in calls} <= AHEAD


def _import(node: ast.Import | ast.ImportFrom, kept: list[ast.alias]) -> str:
    """The statement with the names that are kept."""
    text = ast.unparse(type(node)(**{**dict(ast.iter_fields(node)), "names": kept}))
    if len(text) + node.col_offset <= WIDEST or isinstance(node, ast.Import):
        return text
    start, _, names = text.partition(" import ")
    space = " " * node.col_offset
    return f"{start} import (\n{space}    {names.replace(', ', f',{chr(10)}{space}    ')},\n{space})"
