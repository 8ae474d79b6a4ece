"""matrix.json: the whole matrix as typed data, one line per stack and per cell, and the JSON Schema that it keeps."""

from __future__ import annotations

import ast
import datetime as dt
import inspect
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from harness.lock import fallen_behind
from harness.model import SHOWN, Record
from harness.observation import SCHEMA, Frozen
from harness.publish.rows import Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from harness.model import Lock
    from harness.publish.published import Table


class StackEntry(Frozen, frozen=True):
    """One column of the matrix."""

    name: str
    python: str
    as_of: dt.date
    """The day the package index was read as of."""
    packages: dict[str, str]
    """The version of every package."""
    build: str | None
    """The build of torch that its newest cell ran on: cpu, cuda or default; null where nothing was run."""
    fallen_behind: dict[str, int | None]
    """Days by which the resolver silently took an old release, by package."""


class Document(Frozen, frozen=True):
    """The published matrix."""

    schema: int
    stacks: tuple[StackEntry, ...]
    """By as-of date, the oldest first."""
    cells: tuple[Row, ...]
    """By device, scenario, variant, and then in the order of the stacks."""


def stack_entry(lock: Lock, build: str | None) -> StackEntry:
    """What matrix.json says of a stack."""
    return StackEntry(
        name=lock.stack,
        python=lock.python,
        as_of=lock.as_of,
        packages={package.name: package.version for package in lock.packages},
        build=build,
        fallen_behind={package.name: package.behind_days for package in fallen_behind(lock, SHOWN)},
    )


def as_json(table: Table, builds: Mapping[str, str]) -> Iterator[bytes]:
    """matrix.json in pieces, one line per stack and cell; ``builds`` is the build of torch of each stack that ran."""
    encoder = msgspec.json.Encoder()
    yield b'{"schema":%d,\n"stacks":[\n' % SCHEMA
    yield from lines(encoder.encode(stack_entry(lock, builds.get(lock.stack))) for lock in table.locks)
    yield b'],\n"cells":[\n'
    yield from lines(map(encoder.encode, table.rows))
    yield b"]}\n"


def lines(elements: Iterable[bytes]) -> Iterator[bytes]:
    """The elements of a list, one a line."""
    end = b""
    for element in elements:
        yield end + element
        end = b",\n"
    yield b"\n" if end else b""


def as_schema() -> bytes:
    """The JSON Schema of matrix.json."""
    return schema_of(Document, "The matrix of gradmatrix")


def as_schema_of_records() -> bytes:
    """The JSON Schema of a line in records/."""
    return schema_of(Record, "A record of gradmatrix: one cell, one line")


def schema_of(kind: type[Frozen], title: str) -> bytes:
    """The JSON Schema of a type, with the docstrings of all its types and fields."""
    schema = msgspec.json.schema(kind)
    for each in Frozen.__subclasses__():
        if each.__name__ in schema["$defs"]:
            describe(schema["$defs"][each.__name__], each)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    return msgspec.json.format(msgspec.json.encode(head | schema), indent=1) + b"\n"


def describe(definition: dict[str, Any], kind: type) -> None:
    """Put the docstrings of a type and of its fields into its definition."""
    definition["description"] = flat(kind.__doc__ or "")
    (body,) = (node for node in ast.parse(inspect.getsource(kind)).body if isinstance(node, ast.ClassDef))
    for field, text in pairwise(body.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            told = text.value if isinstance(text, ast.Expr) else None
            if isinstance(told, ast.Constant):
                definition["properties"][field.target.id]["description"] = flat(str(told.value))


def flat(docstring: str) -> str:
    """A docstring on one line, without its markup."""
    return " ".join(docstring.replace("``", "").split())
