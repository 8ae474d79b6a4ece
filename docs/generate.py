"""A hook of mkdocs: tables that follow from the code replace the lines that end in ``<!-- generated: NAME -->``.

What such a line says is for readers of the source. The code is imported where it is needed.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

MARK = re.compile(r"^.*<!-- generated: (.+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replace every such line of a page; an unknown name is a KeyError, and fails the build."""
    return MARK.sub(lambda found: "\n".join(GENERATED[found[1]]()), markdown)


def commands() -> Iterator[str]:
    """Every command with its help, as the terminal shows it."""
    from harness.cli import parser

    os.environ["COLUMNS"] = "92"  # argparse breaks its lines by it
    (family,) = (each for each in parser()._actions if isinstance(each, argparse._SubParsersAction))
    summaries = [(f"[`{each.dest}`](#{each.dest})", each.help or "") for each in family._choices_actions]
    yield from table(("command", "what it does"), summaries)
    for name, command in family.choices.items():
        yield from ("", f"## {name}", "", "```text", command.format_help().rstrip(), "```")


def matrix_toml() -> Iterator[str]:
    """Every table of matrix.toml with its keys."""
    from harness.matrix import KEYS
    from harness.rules import KINDS

    repeated = {"stacks", "scripts"}
    named = {f"[[{name}]]" if name in repeated else f"[{name}]": kind for name, kind in KEYS.items() if name}
    for name, kind in (named | {f"[generate.{name}]": kind for name, kind in KINDS.items()}).items():
        yield from ("", f"## `{name}`", "", *keys(kind), "")


def keys(kind: type[Any]) -> Iterator[str]:
    """One row for each key of a table: name, type, default, and the docstring below the field."""
    import msgspec

    told = field_docs(kind)
    for_defaults = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    types = {field.encode_name: field.type for field in msgspec.inspect.type_info(kind).fields}
    rows = []
    for name, field in for_defaults.items():
        default = "required" if field.required else f"`{msgspec.json.encode(field.default).decode()}`"
        rows.append((f"`{name}`", in_words(types[name]), default.replace("`null`", "none"), told.get(field.name, "")))
    return table(("key", "type", "default", "meaning"), rows)


def in_words(kind: Any) -> str:  # noqa: ANN401  (msgspec has a class for each type, and no common one with fields)
    """A type of msgspec as a reader of TOML knows it."""
    name = type(kind).__name__.removesuffix("Type").lower()
    if name == "union":
        return " or ".join(in_words(each) for each in kind.types if type(each).__name__ != "NoneType")
    if name == "literal":
        return " or ".join(f'`"{value}"`' for value in kind.values)
    if name == "vartuple":
        return f"list of {in_words(kind.item_type)}s"
    least = next((f", at least {kind.ge}" for _ in [0] if getattr(kind, "ge", None) is not None), "")
    words = {"str": "string", "int": "integer", "float": "number", "bool": "true or false", "any": "string or date"}
    return words.get(name, name) + least


def outcomes() -> Iterator[str]:
    """Every outcome with its meaning, a table for each phase."""
    from harness.publish.site.sentences import glossary

    for phase, happens, meanings in glossary():
        yield from ("", f"**{phase}** – {happens}", "")
        rows = [(f"`{each.outcome}`", each.text, "yes" if each.judged else "no") for each in meanings]
        yield from table(("outcome", "meaning", "judged"), rows)


def causes() -> Iterator[str]:
    """Every cause of a diagnosis with what to do about it."""
    from harness.causes import Cause
    from harness.remedy import PLAIN

    return table(("cause", "what to do"), [(f"`{cause}`", PLAIN.get(cause, "")) for cause in Cause])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table of Markdown."""
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def field_docs(kind: type[Any]) -> dict[str, str]:
    """The docstring below each field of a class, on one line."""
    (body,) = (node for node in ast.parse(inspect.getsource(kind)).body if isinstance(node, ast.ClassDef))
    return {
        field.target.id: " ".join(str(text.value.value).replace("``", "`").split())
        for field, text in pairwise(body.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


GENERATED: dict[str, Callable[[], Iterator[str]]] = {
    "commands": commands,
    "matrix.toml": matrix_toml,
    "outcomes": outcomes,
    "causes": causes,
}
