"""Files: atomic writes, locks between processes, TOML, and one JSON document per line."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import threading
import tomllib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

from gradmatrix.core.errors import UserError, did_you_mean, wrong

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from filelock import FileLock

T = TypeVar("T")
OUTPUT_LIMIT_BYTES = 16 * 2**20
PARTIAL = re.compile(r".+\.\w+\.\d+-\d+\.partial")
"""The name of a file that is being written, with the process and the thread."""
NOT_READABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises if JSON is of another kind, is no UTF-8, or is nested too deeply."""


def write_atomically(path: Path, content: bytes) -> None:
    """Replace ``path`` in one step. A file that already has this content is not touched."""
    try:
        if path.read_bytes() == content:
            return
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, [content])


def write_in_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Replace ``path`` in one step by content that need not fit in memory at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, pieces)


def partial_of(path: Path) -> Path:
    """The file that is written before it takes the place of ``path``."""
    return path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.partial")


def _replace(path: Path, pieces: Iterable[bytes]) -> None:
    partial = partial_of(path)
    try:
        with partial.open("wb") as file:
            file.writelines(pieces)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)  # the disk is full, or the user pressed Ctrl-C
        raise


@contextmanager
def held(path: Path, waiting: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Hold the lock file ``path``.

    The operating system releases the lock when the process ends. A second holder waits, even in
    the same process.

    Args:
        path: the lock file; its folder is created if needed
        waiting: called once if the lock must be waited for
    """
    from filelock import Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = _lock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        waiting()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def is_held(path: Path) -> bool:
    """Whether a process holds the lock file ``path``."""
    from filelock import Timeout

    lock = _lock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return True
    lock.release()
    return False


def _lock(path: Path) -> FileLock:
    """A lock of the operating system. A soft lock would outlive a process that was killed."""
    from filelock import FileLock

    return FileLock(path, fallback_to_soft=False)


def cut_back(path: Path) -> None:
    """Keep only the end of ``path`` if it has grown past the limit. Writers may go on appending."""
    with contextlib.suppress(OSError):  # there is no such file, or Windows does not allow it
        if path.stat().st_size > OUTPUT_LIMIT_BYTES:
            kept = tail(path)
            os.truncate(path, 0)
            with path.open("a", encoding="utf-8") as file:
                file.write(kept)


def tail(path: Path, most_bytes: int = 4000) -> str:
    """The end of a text file; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - most_bytes))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def read_toml(path: Path, kind: type[T]) -> T:
    """The TOML file ``path`` as a ``kind``.

    Raises:
        UserError: if there is no such file, it is no TOML, or a value is wrong
    """
    return from_table(path, read_table(path), kind)


def read_table(path: Path) -> dict[str, Any]:
    """The TOML file ``path`` as it is.

    Raises:
        UserError: if there is no such file or it is no TOML
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise UserError(
            f"There is no file {path.name}.",
            cause=f"it should be in {path.absolute().parent}",
            next_step="run the command in the root of the project",
        ) from error
    except OSError as error:  # a folder, or a file that may not be read
        raise wrong(path, f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, a number of 5000 digits
        raise wrong(path, f"is not valid TOML: {error}") from error


def from_table(path: Path, table: Mapping[str, Any], kind: type[T], place: str = "") -> T:
    """A table of the TOML file ``path`` as a ``kind``.

    Args:
        path: the file, for error messages
        table: what was read from it
        kind: a msgspec type
        place: where the table stands in the file, such as ``[generate.window]``; empty for the
            whole file

    Raises:
        UserError: if a key is unknown or missing, or a value is wrong; it names the table, the key
            and, where there is one, a similar known word
    """
    try:
        return msgspec.convert(table, kind, builtin_types=(dt.date, dt.datetime))
    except msgspec.ValidationError as error:
        raise _explained(path, str(error), table, kind, place) from error


STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]")
"""One step of a path that msgspec prints, such as ``$.stacks[0].name``."""


def _explained(
    path: Path, error: str, table: Mapping[str, Any], kind: type[object], place: str
) -> UserError:
    """An error of msgspec in the words of the file."""
    message, _, where = error.partition(" - at `$")
    steps = [name or int(number) for name, number in STEP.findall(where.partition("[...]")[0])]
    place = ", ".join(filter(None, [place, *_names(steps, table)]))
    place = f" in {place}" if place else ""
    expected = _type_at(msgspec.inspect.type_info(kind), steps)
    unknown = re.search(r"unknown field `(.*)`", message)
    if unknown:
        what = f"has the unknown key {unknown[1]!r}{place}"
        return wrong(path, what, did_you_mean(unknown[1], _fields(expected)))
    missing = re.search(r"missing required field `(.*)`", message)
    if missing:
        return wrong(path, f"lacks the key {missing[1]!r}{place}")
    what = f"has a wrong value{place}: {message[0].lower()}{message[1:]}"
    return wrong(path, what, _similar(expected, message), _fix(expected))


def _names(steps: Iterable[str | int], table: object) -> Iterator[str]:
    """The tables and the key that a path leads through, in the words of the file."""
    name = ""
    for step in steps:
        if isinstance(step, str):
            assert isinstance(table, dict)
            name, table = step, table[step]
            if isinstance(table, dict):
                yield f"[{name}]"
            elif not (isinstance(table, list) and any(isinstance(each, dict) for each in table)):
                yield f"key {name!r}"
        else:
            assert isinstance(table, list)
            table = table[step]
            if isinstance(table, dict):
                entry = table.get("name", table.get("id"))
                kind = name.removesuffix("s")
                yield f"{kind} {entry!r}" if entry else f"{kind} number {step + 1}"


def _type_at(expected: msgspec.inspect.Type, steps: Iterable[str | int]) -> msgspec.inspect.Type:
    """The type that msgspec expects at the end of a path."""
    for step in steps:
        expected = _inner(expected)
        if isinstance(step, str) and isinstance(expected, msgspec.inspect.StructType):
            expected = next(each.type for each in expected.fields if each.encode_name == step)
        else:
            expected = getattr(expected, "item_type", expected)
    return _inner(expected)


def _inner(expected: msgspec.inspect.Type) -> msgspec.inspect.Type:
    """A type without its constraints and without "or nothing"."""
    if isinstance(expected, msgspec.inspect.Metadata):
        return _inner(expected.type)
    if isinstance(expected, msgspec.inspect.UnionType):
        others = (e for e in expected.types if not isinstance(e, msgspec.inspect.NoneType))
        return _inner(next(others))
    return expected


def _fields(expected: msgspec.inspect.Type) -> list[str]:
    """The keys of a table."""
    fields = getattr(expected, "fields", ())
    return [field.encode_name for field in fields]


def _similar(expected: msgspec.inspect.Type, message: str) -> str:
    """The most similar known word, if one of several words is expected; else empty."""
    if not isinstance(expected, msgspec.inspect.EnumType):
        return ""
    found = re.search(r"enum value '(.*)'", message)
    return did_you_mean(found[1] if found else "", [each.value for each in expected.cls])


def _fix(expected: msgspec.inspect.Type) -> str:
    """What to write instead of a wrong value; empty if the message says enough."""
    if isinstance(expected, msgspec.inspect.LiteralType):
        wanted = " or ".join(f'"{each}"' for each in expected.values)
        return f"write {wanted}"
    if isinstance(expected, msgspec.inspect.DateType):
        return "write a date without quotes, such as 2024-12-31"
    return ""


class OtherSchema(msgspec.ValidationError):
    """Another release of gradmatrix wrote the line."""


class _Version(msgspec.Struct):
    schema: int


_VERSION = msgspec.json.Decoder(_Version)


def decode_line(line: bytes, decoder: msgspec.json.Decoder[T], schema: int) -> T:
    """One JSON document.

    Raises:
        OtherSchema: if it has another schema than this release writes
        one of NOT_READABLE: if it cannot be read for another reason
    """
    try:
        return decoder.decode(line)
    except msgspec.ValidationError as error:
        found = _VERSION.decode(line).schema
        if found != schema:
            raise OtherSchema(f"schema {found}, this release reads {schema}") from error
        raise


class Line(NamedTuple, Generic[T]):
    """One line of a file with one JSON document per line."""

    number: int
    """The first is 1."""
    content: bytes
    value: T | None
    """None if the line cannot be read."""
    problem: str = ""
    """Why it cannot be read."""
    other_schema: bool = False
    """Whether another release of gradmatrix wrote it."""


def read_lines(path: Path, decode: Callable[[bytes], T]) -> Iterator[Line[T]]:
    """The lines of ``path`` that are not empty; none if there is no such file.

    Args:
        path: a file with one JSON document per line
        decode: reads one line, see :func:`decode_line`
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield Line(number, line, decode(line))
        except OtherSchema as error:
            yield Line(number, line, None, f"it has {error}", other_schema=True)
        except NOT_READABLE as error:
            yield Line(number, line, None, str(error))
