"""Errors of the observer's own: recorded, and never the script's."""

from __future__ import annotations

from typing import List

KEPT = 10


class Trouble:
    """What went wrong while watching, as far as the first few."""

    def __init__(self) -> None:
        self.errors: List[str] = []

    def add(self, where: str, error: BaseException) -> None:
        """Note that watching ``where`` failed."""
        if len(self.errors) < KEPT:
            self.errors.append(f"{where}: {type(error).__name__}: {error}"[:500])
