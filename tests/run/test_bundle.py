"""What the wheel carries: made from a checkout, unpacked once, and refused if it cannot be read."""

from __future__ import annotations

import json
import zipfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from gradmatrix.core.errors import UserError
from gradmatrix.run import bundle
from tools.bundle import write

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "matrix.toml": "stacks = []\n",
    "scenarios/claims.toml": "",
    "results/records/latest.jsonl": '{"recorded_at":"2026-11-20T10:00:00Z"}\n'
    '{"recorded_at":"2026-11-21T10:00:00.25Z"}\n',
}


@pytest.fixture
def carried(tmp_path: Path) -> Path:
    """The bundle of a checkout that also has pages and a journal."""
    for name, text in {**FILES, "results/index.html": "", ".gradmatrix/records/a": ""}.items():
        (tmp_path / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "checkout" / name).write_text(text)
    write(tmp_path / "checkout", tmp_path / "bundle.zip")
    return tmp_path / "bundle.zip"


def test_it_is_unpacked_like_a_checkout(carried: Path, tmp_path: Path) -> None:
    """With its own files and no others; what was made there stays."""
    found = bundle.carried(carried, tmp_path / "cache")
    assert found is not None
    assert datetime(2026, 11, 21, 10, 0, 0, 250_000, tzinfo=UTC) == found.published
    texts = {
        path.relative_to(found.root).as_posix(): path.read_text()
        for path in found.root.rglob("*")
        if path.is_file() and path.name != bundle.DESCRIPTION
    }
    assert texts == FILES
    (found.root / "made here").touch()
    assert bundle.carried(carried, tmp_path / "cache") == found
    assert (found.root / "made here").exists()


def test_the_same_checkout_gives_the_same_bundle(carried: Path, tmp_path: Path) -> None:
    """Byte for byte."""
    write(tmp_path / "checkout", tmp_path / "again.zip")
    assert carried.read_bytes() == (tmp_path / "again.zip").read_bytes()


def test_several_may_unpack_it_at_once(carried: Path, tmp_path: Path) -> None:
    """Nothing but the folder and its lock is left."""
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: bundle.carried(carried, tmp_path / "cache"), range(16)))
    assert len(found) == 1
    assert 2 == len(list((tmp_path / "cache").iterdir()))


def test_a_checkout_carries_none(tmp_path: Path) -> None:
    """It has the files themselves."""
    assert bundle.carried() is None
    assert bundle.carried(tmp_path / "none.zip") is None


def test_what_cannot_be_read_is_an_error(carried: Path, tmp_path: Path) -> None:
    """A damaged file, and one that a newer gradmatrix made."""
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(carried.read_bytes()[:200])
    with pytest.raises(UserError, match=r"damaged\.zip cannot be read"):
        bundle.carried(damaged, tmp_path / "cache")
    with zipfile.ZipFile(carried) as archive:
        description = json.loads(archive.read(bundle.DESCRIPTION))
    newer = tmp_path / "newer.zip"
    with zipfile.ZipFile(newer, "w") as archive:
        archive.writestr(bundle.DESCRIPTION, json.dumps({**description, "schema": 9}))
    with pytest.raises(UserError, match="has schema 9, and this gradmatrix reads 1"):
        bundle.carried(newer, tmp_path / "cache")
