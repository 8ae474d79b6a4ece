"""The matrix that the wheel carries: what a checkout has, in one file.

``bundle.zip`` lies in the package. It has matrix.toml, the scenarios, the locks, the published
records and their history, and ``bundle.json``. It is unpacked once into the user's cache, and used
where no matrix.toml is found. Environments are installed into that folder too.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gradmatrix.core.errors import UserError
from gradmatrix.core.files import held
from gradmatrix.core.observation import Frozen
from gradmatrix.stacks.index import user_folder

CARRIED = Path(__file__).resolve().parent.parent / "bundle.zip"
DESCRIPTION = "bundle.json"
SCHEMA = 1


class Description(Frozen, frozen=True, kw_only=True):
    """What ``bundle.json`` says."""

    schema: int
    published: dt.datetime
    """When the newest of its records was made."""
    digest: str
    """Of all its files."""


@dataclass(frozen=True)
class Bundle:
    """A bundle that is unpacked."""

    root: Path
    published: dt.datetime


def carried(path: Path = CARRIED, cache: Path | None = None) -> Bundle | None:
    """The bundle that this package carries; None in a checkout, which has none.

    Args:
        path: the file.
        cache: where it is unpacked; by default the user's cache.

    Raises:
        UserError: if the file cannot be read, or was made by a newer gradmatrix.
    """
    if not path.is_file():
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            found = msgspec.json.decode(archive.read(DESCRIPTION), type=Description)
            folder = (cache or user_folder()) / f"matrix-{found.digest[:16]}"
            if found.schema == SCHEMA and not folder.exists():
                _unpack(archive, folder)
    except (OSError, KeyError, EOFError, zipfile.BadZipFile, msgspec.MsgspecError) as error:
        raise UserError(
            f"{path} cannot be read: {error}.",
            cause="the installation of gradmatrix is damaged, or the disk is full",
            next_step="install gradmatrix again",
        ) from error
    if found.schema != SCHEMA:
        raise UserError(
            f"{path} has schema {found.schema}, and this gradmatrix reads {SCHEMA}.",
            cause="a newer gradmatrix made it",
            next_step="upgrade gradmatrix",
        )
    return Bundle(folder, found.published)


def _unpack(archive: zipfile.ZipFile, folder: Path) -> None:
    """Unpack into ``folder`` in one step, whoever else does so at the same time."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with held(folder.with_name(f".{folder.name}.lock")):
        if folder.exists():
            return
        half = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".half-"))
        try:
            archive.extractall(half)
            os.replace(half, folder)  # noqa: PTH105  (one step)
        finally:
            shutil.rmtree(half, ignore_errors=True)
