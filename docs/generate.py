# ruff: noqa: INP001, S101, SLF001  (a hook of mkdocs, no package; argparse has no way to its commands)
"""A hook of mkdocs: tables that follow from the code replace lines of the pages.

Such a line ends in ``<!-- generated: NAME -->``. What stands before that is for readers of the
source.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from gradmatrix.cli.documents import DOCUMENTS, document_of
from gradmatrix.cli.main import parser
from gradmatrix.core.outcomes import outcomes_by_phase
from gradmatrix.judge.causes import Cause
from gradmatrix.publish.formats import described
from gradmatrix.publish.site.markup import GLOSSARY
from gradmatrix.stacks.config import RunSettings, Script, _StackTable, _StepsTable
from gradmatrix.stacks.generate import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

LINE = re.compile(r"^.*<!-- generated: (.+) -->$", re.MULTILINE)
WORDS = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "true or false",
    "any": "string or date",
}
"""Types of msgspec as a reader of TOML knows them."""


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replace every such line of a page; an unknown name is a KeyError, and fails the build."""
    return LINE.sub(lambda found: "\n".join(GENERATED[found[1]]()), markdown)


def commands() -> Iterator[str]:
    """Every command with its help, as the terminal shows it."""
    os.environ["COLUMNS"] = "92"  # argparse breaks its lines by it
    (family,) = (each for each in parser()._actions if isinstance(each, argparse._SubParsersAction))
    helps = {each.dest: each.help or "" for each in family._choices_actions}
    rows = [(f"[`{name}`](#{name})", text) for name, text in helps.items()]
    yield from table(("command", "what it does"), rows)
    for name, command in family.choices.items():
        yield from ("", f"## {name}", "", "```text", command.format_help().rstrip(), "```")


def matrix_toml() -> Iterator[str]:
    """Every table of matrix.toml with its keys."""
    tables: dict[str, type[msgspec.Struct]] = {
        "[run]": RunSettings,
        "[steps]": _StepsTable,
        "[[stacks]]": _StackTable,
        "[[scripts]]": Script,
    }
    tables |= {f"[generate.{name}]": kind for name, kind in KINDS.items()}
    for name, kind in tables.items():
        yield from ("", f"## `{name}`", "", *keys(kind))


def keys(kind: type[msgspec.Struct]) -> Iterator[str]:
    """A row for each key of a table: name, type, default, and the docstring below the field."""
    docs = field_docs(kind)
    struct = msgspec.inspect.type_info(kind)
    assert isinstance(struct, msgspec.inspect.StructType)
    rows = [
        (f"`{field.encode_name}`", type_of(field.type), default_of(field), docs.get(field.name, ""))
        for field in struct.fields
    ]
    return table(("key", "type", "default", "meaning"), rows)


def type_of(kind: Any) -> str:  # noqa: ANN401  (msgspec has a class for each type)
    """A type in words."""
    match kind:
        case msgspec.inspect.UnionType():
            return " or ".join(type_of(each) for each in kind.types if not is_none(each))
        case msgspec.inspect.LiteralType():
            return " or ".join(f'`"{value}"`' for value in kind.values)
        case msgspec.inspect.DictType():
            return f"table of: {type_of(kind.value_type)}"
        case msgspec.inspect.VarTupleType():
            return f"list of {type_of(kind.item_type)}s"
    name = type(kind).__name__.removesuffix("Type").lower()
    least = getattr(kind, "ge", None)
    return WORDS.get(name, name) + ("" if least is None else f", at least {least}")


def is_none(kind: object) -> bool:
    """Whether it stands for a key that may be left out."""
    return isinstance(kind, msgspec.inspect.NoneType)


def default_of(field: msgspec.inspect.Field) -> str:
    """What a key that is left out means."""
    if field.required:
        return "required"
    return "none" if field.default is None else f"`{msgspec.json.encode(field.default).decode()}`"


def outcomes() -> Iterator[str]:
    """Every outcome with its meaning, a table for each phase."""
    for phase, happens, rows in outcomes_by_phase():
        yield from ("", f"**{phase}** – {happens}", "")
        cells = ((f"`{row.outcome}`", row.doc, "yes" if row.judged else "no") for row in rows)
        yield from table(("outcome", "meaning", "judged"), cells)


def words() -> Iterator[str]:
    """The plain words for kinds of outcome."""
    rows = [(f"{each.symbol} {word}", each.meaning) for word, each in GLOSSARY.items()]
    return table(("word", "meaning"), rows)


def causes() -> Iterator[str]:
    """Every cause of a diagnosis, what it means, and what to do about it."""
    rows = [(f"`{each}`", each.meaning, each.advice) for each in Cause]
    return table(("cause", "meaning", "what to do"), rows)


def formats() -> Iterator[str]:
    """Every data file with its description."""
    return table(("file", "what it is"), [(f"`{name}`", about) for name, about in described()])


def documents() -> Iterator[str]:
    """What each command prints with --json."""
    rows = []
    for command in DOCUMENTS:
        kind = document_of(command)
        about = (inspect.getdoc(kind) or "").partition("\n")[0].replace("``", "`")
        names = (f"`{field.encode_name}`" for field in msgspec.structs.fields(kind))
        rows.append((f"`{command}`", about, ", ".join(names)))
    return table(("command", "document", "keys"), rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table of Markdown."""
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def field_docs(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The docstring below each field of a class, on one line."""
    (body,) = (
        each for each in ast.parse(inspect.getsource(kind)).body if isinstance(each, ast.ClassDef)
    )
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
    "words": words,
    "causes": causes,
    "formats": formats,
    "documents": documents,
}
