"""Atomic writes, locks, TOML that people write, and one JSON document per line."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import pytest

from gradmatrix.core import files
from gradmatrix.core.errors import UserError
from gradmatrix.core.files import (
    cut_back,
    decode_line,
    held,
    is_held,
    read_lines,
    tail,
    write_atomically,
)
from tests.conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLDER = """
import sys; from pathlib import Path; from gradmatrix.core.files import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    """A reader that has the old file open goes on reading the old content."""
    path = tmp_path / "new" / "file"
    write_atomically(path, b"old")
    with path.open("rb") as reader:
        write_atomically(path, b"new")
        assert (b"old", b"new") == (reader.read(), path.read_bytes())


def test_cutting_back_keeps_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that appends goes on after the end."""
    monkeypatch.setattr(files, "OUTPUT_LIMIT_BYTES", 5000)
    path = tmp_path / "output.txt"
    with path.open("a", encoding="utf-8") as file:
        file.write("x" * 6000 + "so far, ")
        file.flush()
        cut_back(path)
        file.write("so good")
    assert (4007, "so far, so good") == (path.stat().st_size, tail(path, 15))


def test_a_lock_is_held_while_its_block_runs(tmp_path: Path) -> None:
    """The folder need not exist, and the block may end with an exception."""
    path = tmp_path / "new" / "a.lock"
    with suppress(KeyError), held(path):
        assert is_held(path)
        raise KeyError
    assert not is_held(path)


def test_a_free_lock_is_taken_without_waiting(tmp_path: Path) -> None:
    """This holds again later: the file stays, but the lock is free."""
    for _ in range(2):
        with held(tmp_path / "a.lock", lambda: pytest.fail("waited")):
            assert not is_held(tmp_path / "another.lock")


def test_waiting_for_another_process_is_announced_and_ends_with_it(
    tmp_path: Path,
) -> None:
    """The operating system releases the lock of a killed process."""
    path = tmp_path / "a.lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert b"held" == holder.stdout.readline().strip()
        assert is_held(path)
        with held(path, holder.kill):
            assert holder.wait()


def test_a_file_that_could_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    """The old file stays, and no part of the new one does."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        files.write_in_pieces(path, pieces())
    assert [("file", b"old")] == [(each.name, each.read_bytes()) for each in tmp_path.iterdir()]


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """A table in an array."""

    name: str
    day: dt.date | None = None
    every: Literal["month", "quarter"] = "month"
    texts: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = ("a",)


class Settings(msgspec.Struct, forbid_unknown_fields=True):
    """A table."""

    threads: int = 1


class Document(msgspec.Struct, forbid_unknown_fields=True):
    """A file."""

    settings: Settings | None = None
    stacks: list[Entry] = []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("stakcs = []", ["unknown key 'stakcs'", "perhaps you meant 'stacks'"]),
        (
            "[settings]\nthread = 1",
            ["unknown key 'thread' in [settings]", "perhaps you meant 'threads'"],
        ),
        ("[settings]\nthreads = 'x'", ["in [settings], key 'threads': expected `int`"]),
        ("[[stacks]]\n", ["lacks the key 'name' in stack number 1"]),
        ("[[stacks]]\nname = 'x'\ndya = 1", ["unknown key 'dya' in stack 'x'"]),
        (
            "[[stacks]]\nname = 'x'\nday = '2024-12-31'",
            ["stack 'x', key 'day'", "write a date without quotes"],
        ),
        (
            "[[stacks]]\nname = 'x'\nevery = 'week'",
            ["key 'every'", 'write "month" or "quarter"'],
        ),
        ("[[stacks]]\nname = 'x'\ntexts = []", ["stack 'x', key 'texts'"]),
        ("[[stacks]]\nname = 'x'\ntexts = [1]", ["stack 'x', key 'texts'", "expected `str`"]),
        ("stacks = [1]", ["key 'stacks': expected `object`"]),
        ("a == 1", ["is not valid TOML", "line 1"]),
    ],
)
def test_an_error_in_toml_names_the_table_and_the_key(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    """It also names a similar known word, or what to write instead."""
    path = tmp_path / "file.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as error:
        files.read_toml(path, Document)
    assert [each for each in expected if each not in str(error.value)] == [], str(error.value)


def test_a_table_of_a_file_is_named_in_its_errors(tmp_path: Path) -> None:
    """The caller says where the table stands."""
    with pytest.raises(UserError, match=r"unknown key 'thread' in \[run\.settings\]"):
        files.from_table(tmp_path / "file.toml", {"thread": 1}, Settings, "[run.settings]")


class Told(msgspec.Struct):
    """A line."""

    schema: Literal[3]
    word: str


def test_lines_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    """The other lines are read. A line of another release is marked as such."""
    path = tmp_path / "lines.jsonl"
    path.write_bytes(
        b'{"schema":3,"word":"a"}\n\nnonsense\n{"schema":4,"new":1}\n\xff\n{"schema":3}'
    )
    decoder = msgspec.json.Decoder(Told)
    found = list(read_lines(path, lambda line: decode_line(line, decoder, 3)))
    assert [1, 3, 4, 5, 6] == [line.number for line in found]
    assert [Told(3, "a"), None, None, None, None] == [line.value for line in found]
    assert [False, False, True, False, False] == [line.other_schema for line in found]
    assert "it has schema 4, this release reads 3" == found[2].problem
    assert all(line.problem for line in found[1:])
    assert [] == list(read_lines(tmp_path / "missing", decoder.decode))
