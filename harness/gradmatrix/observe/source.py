"""Read the user's own source for what no hook sees: a missing call, a setting, an assignment.

The user's files are the script and the modules it imported from outside site-packages and the
standard library. They are read once, at the end, and only if something went wrong.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from .frames import mine, shown

Place = Dict[str, Any]
RATE = re.compile(r"(?:\w+_)?(?:lr|learning_rate|step_size)", re.IGNORECASE)
"""A name that means a learning rate."""


def files() -> List[str]:
    """The user's files, the script first."""
    paths = [getattr(sys.modules["__main__"], "__file__", None)]
    paths += [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return list(dict.fromkeys(path for path in paths if path and mine(path)))


@cache
def nodes(path: str) -> Tuple[Tuple[Any, str], ...]:
    """Every node of the source in ``path``, with the function that it stands in."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):  # it is gone, or it is no Python source
        return ()
    return tuple(walk(tree, "<module>"))


def walk(node: ast.AST, function: str) -> Iterator[Tuple[ast.AST, str]]:
    """``node`` and all below it."""
    yield node, function
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        function = node.name
    for child in ast.iter_child_nodes(node):
        yield from walk(child, function)


def found(wanted: Callable[[Any], Optional[Any]], paths: List[str]) -> List[Tuple[Any, Place]]:
    """What ``wanted`` returns for a node, if it is not None, and the place of that node."""
    hits = []
    for path in paths:
        for node, function in nodes(path):
            hit = wanted(node)
            if hit is not None:
                place = {"file": shown(path) or path, "line": node.lineno, "function": function}
                hits.append((hit, {**place, "user": mine(path)}))
    return hits


def uncalled(names: Tuple[str, ...]) -> List[Tuple[str, Place]]:
    """Statements such as ``loss.backward`` that name a method and do not call it."""

    def wanted(node: Any) -> Optional[str]:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Attribute):
            return dotted(node.value) if node.value.attr in names else None
        return None

    return found(wanted, files())


def dotted(node: Any) -> str:
    """A name with its attributes as it is written; what is no name becomes ``…``."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "…"


def pairs(node: Any) -> Iterator[Tuple[str, Any]]:
    """The named arguments of a call, or the entries of a dictionary with names as keys."""
    if isinstance(node, ast.Call):
        yield from ((each.arg, each.value) for each in node.keywords if each.arg)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value


def keywords(fits: Callable[[str], bool], holds: Callable[[Any], bool]) -> List[Tuple[str, Place]]:
    """Arguments ``name=value`` of calls and entries ``"name": value`` with a literal value."""
    hits = []
    for path in files():
        for node, function in nodes(path):
            for name, value in pairs(node):
                try:
                    literal = ast.literal_eval(value)
                except ValueError:
                    continue
                if fits(name) and holds(literal):
                    place = {"file": shown(path) or path, "line": value.lineno}
                    place = {**place, "function": function, "user": True}
                    hits.append((f"{name}={literal!r}", place))
    return hits


def settings(name: str, owner: str) -> List[Place]:
    """Where calls are given the argument ``name``; else where ``owner`` is called without it."""

    def given(node: Any) -> Optional[str]:
        return name if isinstance(node, ast.keyword) and node.arg == name else None

    return [at for _, at in found(given, files())] or made(owner)


def made(kind: str) -> List[Place]:
    """Where calls make an object of the class ``kind``."""

    def wanted(node: Any) -> Optional[str]:
        called = dotted(node.func) if isinstance(node, ast.Call) else ""
        return called if called.rpartition(".")[2] == kind else None

    return [at for _, at in found(wanted, files())]


def rates() -> List[Place]:
    """Where names that mean a learning rate are given a number."""

    def wanted(node: Any) -> Optional[str]:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
            return None
        names = [each.id for each in node.targets if isinstance(each, ast.Name)]
        number = isinstance(node.value.value, (int, float))
        return next((name for name in names if number and RATE.fullmatch(name)), None)

    return [at for _, at in found(wanted, files())]


def calls(method: str, *, without: str) -> List[Tuple[str, Place]]:
    """Calls of ``….method`` that do not pass the argument ``without``."""

    def wanted(node: Any) -> Optional[str]:
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == method:
            given = {each.arg for each in node.keywords}
            return None if {without, None} & given else dotted(node.func)
        return None

    return found(wanted, files())


def literal(value: int) -> List[Place]:
    """Statements that write the number ``value``."""
    found: Dict[Any, Place] = {}
    for path in files():
        for node, function in nodes(path):
            if isinstance(node, (ast.Constant, ast.UnaryOp)):
                try:
                    same = ast.literal_eval(node) == value
                except (ValueError, TypeError):
                    continue
                if same:
                    place = {"file": shown(path) or path, "line": node.lineno}
                    found[path, node.lineno] = {**place, "function": function, "user": True}
    return list(found.values())


def writes(key: str) -> List[Tuple[str, Place]]:
    """Assignments to ``…[key]``."""

    def wanted(node: Any) -> Optional[str]:
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign):
            targets = [node.target]
        else:
            return None
        return key if any(key == subscript(target) for target in targets) else None

    return found(wanted, files())


def subscript(target: Any) -> Any:
    """The literal key of ``…[key]``; None for anything else."""
    if not isinstance(target, ast.Subscript):
        return None
    key: Any = target.slice
    key = getattr(key, "value", key) if type(key).__name__ == "Index" else key  # Python 3.8
    return getattr(key, "value", None)


def attribute(kind: type, name: str) -> List[Place]:
    """Where a class, or one that it inherits from, assigns ``self.name``."""

    def wanted(node: Any) -> Optional[str]:
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        is_it = isinstance(node, (ast.Assign, ast.AnnAssign)) and any(
            isinstance(target, ast.Attribute) and target.attr == name for target in targets
        )
        return name if is_it else None

    for owner in kind.__mro__:
        path = getattr(sys.modules.get(owner.__module__), "__file__", None)
        if path and shown(path) is not None:
            inside = span(path, owner.__name__)
            for _, place in found(wanted, [path]):
                if inside[0] <= place["line"] <= inside[1]:
                    return [place]
    return []


def span(path: str, name: str) -> Tuple[int, int]:
    """The first and last line of the class ``name``."""
    for node, _ in nodes(path):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node.lineno, node.end_lineno or node.lineno
    return 1, 0


def returned(path: str, first_line: int) -> Optional[int]:
    """The line of the last ``return`` of the function at ``first_line``, else of its ``def``.

    ``first_line`` may be that of a decorator.
    """
    for node, _ in nodes(path):
        if isinstance(node, ast.FunctionDef) and first_line in {
            node.lineno,
            *(decorator.lineno for decorator in node.decorator_list),
        }:
            lines = [each.lineno for each in ast.walk(node) if isinstance(each, ast.Return)]
            return max(lines, default=node.lineno)
    return None
