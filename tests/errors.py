"""The list of all error messages, made from the source: ``python -m tests.errors`` writes it anew.

A reviewer reads in its difference what users will read: what happened, the likely cause, and the
next step. Braces hold what is known only when it happens.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "harness" / "gradmatrix"
GOLDEN = Path(__file__).parent / "golden" / "errors.md"
MAKERS = {"UserError", "CannotLock", "NotAsLocked", "ArgumentTypeError"}
"""The exceptions that a user reads. Functions that return one of them are found by themselves."""
HEAD = """\
# Error messages

Made from the source by `python -m tests.errors`. Each message says what happened, the likely cause
(*why*), and what to do (*next*). Braces hold what is known only when it happens.
"""


@dataclass(frozen=True)
class Message:
    """One place that makes an error, in words."""

    maker: str
    words: tuple[tuple[str, str], ...]
    """The name and the words of each argument; positional ones have an empty name."""

    def __str__(self) -> str:
        first, *others = self.words or (("", ""),)
        by = "" if self.maker in {*MAKERS, "__init__"} else f"{self.maker}: "
        lines = [f"- {by}{first[1]}"]
        lines += [f"  - {NAMES.get(name, 'why')}: {text}" for name, text in others]
        return "\n".join(lines)


NAMES = {"cause": "why", "next_step": "next", "fix": "next"}


def makers(tree: ast.Module, functions: set[str]) -> set[str]:
    """What makes an error in a module: exceptions, and functions that return one."""
    own = returning(tree)
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return MAKERS | own | (functions & imported)


def returning(tree: ast.Module) -> set[str]:
    """The functions of a module that return an error."""
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and isinstance(node.returns, ast.Name)
        and node.returns.id in {*MAKERS, "Exception"}
    }


def messages(tree: ast.Module, known: set[str]) -> Iterator[Message]:
    """Every message of a module, in the order of its lines."""
    inside: dict[int, ast.FunctionDef] = {}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            inside[id(node)] = function  # inner functions come later
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    before = 0
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
        if name not in known and all(each.arg != "next_step" for each in call.keywords):
            continue
        texts = assigned(inside.get(id(call)), before, call.lineno)
        before = call.lineno
        given = [("", argument) for argument in call.args]
        given += [(each.arg or "**", each.value) for each in call.keywords]
        shown = [(key, in_words(value, texts)) for key, value in given]
        if name not in {
            *MAKERS,
            "__init__",
        }:  # what is not in words yet, the function puts into words
            shown = [(key, text) for key, text in shown if not WITHOUT_WORDS.fullmatch(text)]
        if not all(UNKNOWN.fullmatch(text) for _, text in shown):
            yield Message(name, tuple(shown))


WITHOUT_WORDS = re.compile(r"\{[\w.]+\}|\{\(.*\)\}|\{\[.*\]\}")
"""A name, a tuple or a list."""
UNKNOWN = re.compile(r"\{[^{}]*\}")
"""Nothing but what is known only when it happens."""


def in_words(node: ast.expr, texts: dict[str, list[str]]) -> str:
    """A text as it will be read, with braces around what is not known yet.

    Args:
        node: an argument.
        texts: what was assigned to names before.
    """
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(in_words(part, {}) for part in parts)
        case ast.FormattedValue(value=value):
            return f"{{{ast.unparse(value)}}}"
        case ast.IfExp(body=body, orelse=other):
            both = (in_words(body, texts), in_words(other, texts))
            return " / ".join(filter(None, both))
        case ast.Name(id=name) if name in texts:
            return " / ".join(dict.fromkeys(texts[name]))
    return f"{{{ast.unparse(node)}}}"


def assigned(function: ast.FunctionDef | None, after: int, before: int) -> dict[str, list[str]]:
    """What a function assigns to each name between two lines."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(function) if function is not None else ():
        if isinstance(node, ast.Assign) and after < node.lineno < before:
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(in_words(node.value, {}))
    return found


@cache
def listed() -> dict[str, list[Message]]:
    """Every message by module."""
    trees = {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_bytes())
        for path in sorted(PACKAGE.rglob("*.py"))
    }
    functions = set().union(*map(returning, trees.values()))
    found = {
        name: list(dict.fromkeys(messages(tree, makers(tree, functions))))
        for name, tree in trees.items()
        if not name.startswith("observe/")
    }
    return {name: each for name, each in found.items() if each}


def page() -> str:
    """The whole list."""
    sections = (
        f"## {name}\n\n" + "\n".join(map(str, each)) + "\n" for name, each in listed().items()
    )
    return "\n".join([HEAD, *sections])


if __name__ == "__main__":
    GOLDEN.write_text(page(), encoding="utf-8")
