"""What an expression is known to be: strings and numbers, tuples of them, and tables at the top of the module."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from typing import Final

CHANGES = {"update", "pop", "popitem", "setdefault", "clear", "append", "extend", "insert", "remove", "add", "discard"}


class _Unknown:
    """A value that cannot be told."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()


class Named(str):
    """A name that means the same everywhere in the module."""

    __slots__ = ()


def literal(value: object) -> str:
    """A constant as it is written in Python."""
    if isinstance(value, Named):
        return str(value)
    if isinstance(value, float):
        return re.sub(r"e([+-])0+", r"e\1", repr(value))
    if isinstance(value, tuple):
        inner = ", ".join(map(literal, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def plain(node: ast.AST | None) -> object:
    """The value of a constant, or of a tuple of them, that is written out; UNKNOWN for anything else."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple):
        parts = [plain(part) for part in node.elts]
        return UNKNOWN if UNKNOWN in parts else tuple(parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if isinstance(value, (int, float)) else UNKNOWN
    return UNKNOWN


def _changed(node: ast.AST) -> str | None:
    """The name that ``node`` sets, gives another meaning, or may change the value of."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            return name
        case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            return name
        case ast.Attribute(value=ast.Name(id=name), attr=attribute, ctx=context) if (
            attribute in CHANGES or not isinstance(context, ast.Load)
        ):
            return name
    return None


class Constants:
    """The names at the top of a module that are set once and never changed, and what follows from them."""

    def __init__(self, tree: ast.Module) -> None:
        self.known = {
            node.targets[0].id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
        }
        changed = Counter(name for node in ast.walk(tree) if (name := _changed(node)))
        changed.subtract(list(self.known))
        for name, times in changed.items():
            if times > 0:
                self.known.pop(name, None)

    def value(self, node: ast.AST) -> object:
        """What ``node`` evaluates to, or UNKNOWN."""
        match node:
            case ast.Constant():
                return node.value
            case ast.Name(id=name) if name in self.known:
                return self.value(self.known[name])
            case ast.Tuple() | ast.List() | ast.Set():
                return self._parts(node.elts)
            case ast.UnaryOp() | ast.BoolOp() | ast.Compare():
                return self._concluded(node)
            case ast.Call() | ast.Subscript():
                found = self.looked_up(node)
                return self.affix(node) if found is None else self.value(found)
        return UNKNOWN

    def _concluded(self, node: ast.expr) -> object:
        """A value of truth."""
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                truth = self.truth(operand)
                return UNKNOWN if truth is UNKNOWN else not truth
            case ast.BoolOp():
                return self._joined(node)
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                return self._compared(left, operator, right)
        return UNKNOWN

    def truth(self, node: ast.AST) -> object:
        """Whether ``node`` counts as true, or UNKNOWN."""
        found = self.looked_up(node) or node
        if isinstance(found, ast.Dict):
            return bool(found.keys)
        value = self.value(found)
        return UNKNOWN if value is UNKNOWN else bool(value)

    def looked_up(self, node: ast.AST) -> ast.expr | None:
        """The entry that ``TABLE[key]`` or ``TABLE.get(key, default)`` is, or an item of a tuple as it is written."""
        match node:
            case ast.Subscript(value=ast.Tuple() as items, slice=ast.Constant(value=int() as place), ctx=ast.Load()):
                return items.elts[place] if place < len(items.elts) else None
            case ast.Subscript(value=ast.Name() as table, slice=key, ctx=ast.Load()):
                default = None
            case ast.Call(func=ast.Attribute(value=ast.Name() as table, attr="get"), args=[key, *rest], keywords=[]):
                default = rest[0] if rest else ast.Constant(value=None)
            case _:
                return None
        entries, wanted = self.known.get(table.id), self.value(key)
        if not isinstance(entries, ast.Dict) or wanted is UNKNOWN or self._keys(entries) is UNKNOWN:
            return None
        pairs = zip(entries.keys, entries.values, strict=True)
        return next((entry for name, entry in pairs if plain(name) == wanted), default)

    def affix(self, node: ast.AST) -> object:
        """``"text".startswith(…)`` and ``.endswith(…)``."""
        match node:
            case ast.Call(func=ast.Attribute(value=text_node, attr="startswith" | "endswith" as name), args=[what]):
                text, affixes = self.value(text_node), self.value(what)
                if isinstance(text, str) and isinstance(affixes, (str, tuple)):
                    return text.startswith(affixes) if name == "startswith" else text.endswith(affixes)
        return UNKNOWN

    def _parts(self, nodes: list[ast.expr]) -> object:
        values: list[object] = []
        for node in nodes:
            value = self.value(node.value if isinstance(node, ast.Starred) else node)
            if value is UNKNOWN or (isinstance(node, ast.Starred) and not isinstance(value, tuple)):
                return UNKNOWN
            values += value if isinstance(node, ast.Starred) and isinstance(value, tuple) else [value]
        return tuple(values)

    def _keys(self, table: ast.Dict) -> object:
        keys = [plain(key) for key in table.keys]
        return UNKNOWN if UNKNOWN in keys else tuple(keys)

    def _joined(self, node: ast.BoolOp) -> object:
        decisive = isinstance(node.op, ast.Or)
        for part in node.values:
            truth = self.truth(part)
            if truth is UNKNOWN or truth is decisive:
                return truth
        return not decisive

    def _compared(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> object:
        one = self.value(left)
        other = right
        if isinstance(right, ast.Name):
            other = self.known.get(right.id, right)
        two = self._keys(other) if isinstance(other, ast.Dict) else self.value(other)
        if one is UNKNOWN or two is UNKNOWN:
            return UNKNOWN
        match operator:
            case ast.Eq() | ast.Is():
                return one == two
            case ast.NotEq() | ast.IsNot():
                return one != two
            case ast.In():
                return one in two if isinstance(two, (tuple, str)) else UNKNOWN
            case ast.NotIn():
                return one not in two if isinstance(two, (tuple, str)) else UNKNOWN
        return UNKNOWN
