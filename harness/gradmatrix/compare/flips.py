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
    """What was found so far; nothing if there is no such file.

    Raises:
        UserError: if the file cannot be read
    """
    path = path_of(results)
    if not path.exists():
        return Flips(turns=())
    try:
        return msgspec.json.decode(path.read_bytes(), type=Flips)
    except NOT_READABLE as error:
        raise UserError(
            f"{path.name} cannot be read: {error}.",
            cause="another release wrote it, or it was edited",
            next_step=f"git checkout {path}, or delete it to look for everything again",
        ) from error
