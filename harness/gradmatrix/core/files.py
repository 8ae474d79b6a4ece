"""Files that several processes use: replaced in one step, cut back, and locks that end with whoever holds them."""

from __future__ import annotations

import contextlib
import os
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

OUTPUT_LIMIT_BYTES = 16 * 2**20


def write_atomically(path: Path, content: bytes) -> None:
    """Replace ``path`` in one step; nothing is touched where it already has this content."""
    try:
        if path.read_bytes() == content:
            return
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, [content])


def write_in_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Replace ``path`` in one step by what need not fit in memory at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, pieces)


def _replace(path: Path, pieces: Iterable[bytes]) -> None:
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.writelines(pieces)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)  # the disk is full, or somebody is impatient
        raise


@contextmanager
def held(path: Path, waiting: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Hold the lock file ``path``; ``waiting()`` is called once where somebody else has it.

    The operating system gives it back when the holder dies. It cannot be taken twice, not even by one process.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        if not _taken(file, wait=False):
            waiting()
            while not _taken(file, wait=True):
                pass
        try:
            yield
        finally:
            _give_back(file)


def is_held(path: Path) -> bool:
    """Whether somebody holds the lock file ``path``."""
    with path.open("ab") as file:
        if _taken(file, wait=False):
            _give_back(file)
            return False
    return True


def cut_back(path: Path) -> None:
    """Cut ``path`` to its end when it has grown past the limit; whoever appends to it goes on after that."""
    with contextlib.suppress(OSError):  # not there yet, or Windows does not let go of it
        if path.stat().st_size > OUTPUT_LIMIT_BYTES:
            kept = tail(path)
            os.truncate(path, 0)
            with path.open("a", encoding="utf-8") as file:
                file.write(kept)


def tail(path: Path, most_bytes: int = 4000) -> str:
    """The end of a text file, empty where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - most_bytes))
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


if sys.platform == "win32":

    def _taken(file: IO[bytes], *, wait: bool) -> bool:
        """Lock the first byte; waiting ends after ten seconds."""
        file.seek(0)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _give_back(file: IO[bytes]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

else:

    def _taken(file: IO[bytes], *, wait: bool) -> bool:
        """Lock the open file."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _give_back(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)
