"""Conditions and look-ups whose value is known, and the branches that are never taken."""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import TYPE_CHECKING

from harness.reduction.constants import UNKNOWN, Constants, literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.reduction.source import Edit, Source

LAST = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def fold(source: Source) -> list[Edit]:
    """Known values in the place of what is looked up or compared."""
    constants = Constants(source.tree)
    return [edit for node in outside_strings(source.tree) if (edit := _folded(source, constants, node)) is not None]


def decide(source: Source) -> list[Edit]:
    """One ``if`` whose condition is known, does nothing, or only asks whether the stack can do this: it could."""
    constants = Constants(source.tree)
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.If):
            continue
        value = constants.truth(node.test)
        if value is not UNKNOWN:
            return [source.decided(node, keep=bool(value))]
        only = node.body[0] if len(node.body) == 1 and not node.orelse else None
        skips = isinstance(only, ast.Raise) and "SkipTest" in source.piece(only)
        if skips or (isinstance(only, ast.Pass) and not any(isinstance(n, ast.Call) for n in ast.walk(node.test))):
            return [source.without(node)]
    return []


def end(source: Source) -> list[Edit]:
    """One statement that nobody comes to, or a bare return where the function ends anyway."""
    for block in source.blocks():
        for node, following in pairwise(block):
            if isinstance(node, LAST):
                return [source.without(following)]
    for function in ast.walk(source.tree):
        last = function.body if isinstance(function, ast.FunctionDef) else []
        while last and isinstance(last[-1], ast.With):
            last = last[-1].body
        if len(last) > 1 and isinstance(last[-1], ast.Return) and last[-1].value is None:
            return [source.without(last[-1])]
    return []


def join(source: Source) -> list[Edit]:
    """A call or a definition on several lines of which one argument is left, on one line."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call | ast.FunctionDef):
            edits = source.joined(source.span(node.func)[1] if isinstance(node, ast.Call) else source.span(node)[0])
            if edits:
                return edits
    return []


def outside_strings(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node whose place in the text is known: within an f-string it is so from Python 3.12 on only."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.JoinedStr)]


def _folded(source: Source, constants: Constants, node: ast.AST) -> Edit | None:
    if isinstance(node, ast.IfExp) and (truth := constants.truth(node.test)) is not UNKNOWN:
        return source.replaced(node, source.operand(node.body if truth else node.orelse))
    if isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp) and isinstance(constants.value(node), bool):
        return source.replaced(node, literal(constants.value(node)))
    if isinstance(node, ast.BoolOp):
        return _shortened(source, constants, node)
    if isinstance(node, ast.Call) and (value := constants.affix(node)) is not UNKNOWN:
        return source.replaced(node, literal(value))
    return _entry(source, constants, node)


def _entry(source: Source, constants: Constants, node: ast.AST) -> Edit | None:
    """What is found in a table, and a copy of a table that nobody else has."""
    found = constants.looked_up(node)
    if found is not None:
        return source.replaced(node, source.operand(found) if hasattr(found, "lineno") else "None")
    match node:
        case ast.Call(func=ast.Name(id="dict"), args=[ast.Dict() as copied], keywords=[]):
            return source.replaced(node, source.piece(copied))
    return None


def _shortened(source: Source, constants: Constants, node: ast.BoolOp) -> Edit | None:
    """``a and b`` without the parts that are known to decide nothing."""
    neutral = isinstance(node.op, ast.And)
    left = [part for part in node.values if constants.truth(part) is not neutral]
    if len(left) == len(node.values) or not left or left[-1] is not node.values[-1]:
        return None
    joined = (" and " if neutral else " or ").join(source.operand(part) for part in left)
    return source.replaced(node, source.piece(left[0]) if len(left) == 1 else joined)
