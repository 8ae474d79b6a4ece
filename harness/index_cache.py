"""What the package index said last, kept on disk: a file per index and package, checked when it is read.

It lies in the user's cache folder and not in the checkout: what an index says is true of the machine, and a fresh
clone, a second checkout and a results folder of one's own need not ask again. No address is stored: the folder of an
index is named after a hash of its address, which is taken without credentials.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import sys
from pathlib import Path
from typing import Literal

import msgspec

from harness.disk import write_atomically
from harness.observation import Frozen
from harness.releases import Release

SCHEMA: Literal[2] = 2
"""Version of the files: those of another one are asked for anew."""
FOLDER_VARIABLE = "GRADMATRIX_CACHE_DIR"


class Answer(Frozen, frozen=True, kw_only=True):
    """What the index said of one package, and what it must be shown to say "not modified"."""

    schema: Literal[2] = SCHEMA
    name: str
    asked_at: dt.datetime
    """When it was asked last, in UTC; a "not modified" counts."""
    etag: str | None = None
    last_modified: str | None = None
    releases: tuple[Release, ...] = ()


class IndexCache:
    """Answers in ``folder``; what cannot be read or written is a notice and never an error."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._notices: dict[str, None] = {}

    @property
    def notices(self) -> tuple[str, ...]:
        """What went wrong with the files, once each."""
        return tuple(self._notices)

    def read(self, address: str, name: str) -> Answer | None:
        """What the index at ``address`` (without credentials) said last; a damaged file is deleted, with a notice."""
        path = self._path(address, name)
        try:
            digest, _, body = path.read_bytes().partition(b"\n")
            if digest.decode("ascii", "replace") == _digest(body):
                return _decoded(body, name)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._note(f"the cache of the package index cannot be read: {error.strerror}")
            return None
        self._note(f"what was kept of the package index about {name} is damaged, and was discarded")
        self._discard(path)
        return None

    def write(self, address: str, answer: Answer) -> None:
        """Keep ``answer``, in one step: whoever reads meanwhile has the one before."""
        body = msgspec.json.encode(answer)
        try:
            write_atomically(self._path(address, answer.name), _digest(body).encode() + b"\n" + body)
        except OSError as error:
            self._note(f"what the package index says cannot be kept: {error.strerror}")

    def _path(self, address: str, name: str) -> Path:
        return self._folder / f"index-{SCHEMA}" / _digest(address.encode())[:16] / f"{name}.json"

    def _discard(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            self._note(f"the cache of the package index cannot be mended: {error.strerror}")

    def _note(self, text: str) -> None:
        self._notices[text] = None


def user_folder() -> Path:
    """The user's cache folder by the custom of the platform, or what ``GRADMATRIX_CACHE_DIR`` says."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "gradmatrix" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gradmatrix"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "")  # a relative one counts for nothing, says its standard
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "gradmatrix"


def _decoded(body: bytes, name: str) -> Answer | None:
    """The answer in ``body``; None where it is whole, but of another release of ours, or of another package."""
    try:
        answer = msgspec.json.decode(body, type=Answer)
    except msgspec.MsgspecError:
        return None
    return answer if answer.name == name and answer.asked_at.tzinfo is not None else None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
