"""The releases behind the changes of the matrix, as they are kept: ``results/flips.json``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gradmatrix.core.errors import UserError
from gradmatrix.core.files import NOT_READABLE
from gradmatrix.judge.edge import Flips

if TYPE_CHECKING:
    from pathlib import Path


def path_of(results: Path) -> Path:
    """Where they are kept."""
    return results / "flips.json"


def load(results: Path) -> Flips:
    """What was found so far; nothing if there is no such file. UserError if it cannot be read."""
    path = path_of(results)
    return read(path) if path.exists() else Flips(turns=())


def read(path: Path) -> Flips:
    """The content of such a file; UserError if it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Flips)
    except (OSError, *NOT_READABLE) as error:
        raise UserError(
            f"{path.name} cannot be read: {error}.",
            cause="another release wrote it, or it was edited",
            next_step=f"git checkout {path}, or delete it to look for everything again",
        ) from error
