"""Files that several processes use."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from gradmatrix.core import files
from gradmatrix.core.files import cut_back, held, is_held, tail, write_atomically
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
    """Who appends goes on after it."""
    monkeypatch.setattr(files, "OUTPUT_LIMIT_BYTES", 5000)
    path = tmp_path / "output.txt"
    with path.open("a", encoding="utf-8") as file:
        file.write("x" * 6000 + "so far, ")
        file.flush()
        cut_back(path)
        file.write("so good")
    assert (4007, "so far, so good") == (path.stat().st_size, tail(path, 15))


def test_a_lock_is_held_while_its_block_runs(tmp_path: Path) -> None:
    """Also in a folder that is not there yet, and however the block ends."""
    path = tmp_path / "new" / "a.lock"
    with suppress(KeyError), held(path):
        assert is_held(path)
        raise KeyError
    assert not is_held(path)


def test_a_lock_that_is_free_makes_nobody_wait(tmp_path: Path) -> None:
    """The second time as well: the file stays, the lock does not."""
    for _ in range(2):
        with held(tmp_path / "a.lock", lambda: pytest.fail("waited")):
            assert not is_held(tmp_path / "another.lock")


def test_who_waits_for_another_process_is_told_and_goes_on_when_that_is_gone(
    tmp_path: Path,
) -> None:
    """Killed, it cannot give the lock back: the operating system does."""
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
    """The old one stays, and no half of the new one."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        files.write_in_pieces(path, pieces())
    assert [("file", b"old")] == [(each.name, each.read_bytes()) for each in tmp_path.iterdir()]
