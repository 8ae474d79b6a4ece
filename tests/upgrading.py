"""A small checkout for upgrades: two locks and three variants, of which two can run."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from gradmatrix.measure.statistics import Key
from gradmatrix.stacks import lock as locks
from tests.cli.test_cli import MATRIX
from tests.factories import DAY, make_lock

if TYPE_CHECKING:
    from pathlib import Path

SUMS = '''"""Sums of two."""

NEEDS = ("torch",)
VARIANTS = {
    "plain": {"role": "control", "summary": "as it is"},
    "reported": {"role": "reported", "summary": "as it was reported"},
    "newer": {"role": "remedy", "summary": "what is not to be had here", "needs": ("torch>=99",)},
}
'''
PLAIN, REPORTED = Key("sums", "plain", "cpu"), Key("sums", "reported", "cpu")


def make_checkout(root: Path) -> Path:
    """The checkout."""
    (root / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    (root / "scenarios").mkdir()
    (root / "scenarios" / "sums.py").write_text(SUMS, encoding="utf-8")
    for name, version in (("first", "2.6.0"), ("second", "2.13.0")):
        text = f"torch=={version}\n"
        lock = make_lock(
            name, versions={"torch": version}, digest=hashlib.sha256(text.encode()).hexdigest()
        )
        locks.write(msgspec.structs.replace(lock, as_of=DAY), text, root / "results" / "locks")
    return root


def files(folder: Path) -> dict[Path, bytes]:
    """All files below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
