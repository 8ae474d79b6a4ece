"""What the package index said last, on disk: taken when it may be, and never believed when it is damaged."""

from __future__ import annotations

import datetime as dt
import os
from typing import TYPE_CHECKING

import pytest

from gradmatrix.stacks.index import Answer, IndexCache, Release, user_folder

if TYPE_CHECKING:
    from pathlib import Path

NOW = dt.datetime(2026, 11, 20, 14, 3, tzinfo=dt.UTC)
ADDRESS = "https://index.example/simple"
ANSWER = Answer(
    name="alpha",
    asked_at=NOW,
    etag='"1"',
    releases=(
        Release(version="1.0", uploaded=dt.date(2025, 3, 1), yanked=False, prerelease=False),
    ),
)


def written(folder: Path) -> Path:
    """The one file of a cache that holds ANSWER."""
    IndexCache(folder).write(ADDRESS, ANSWER)
    [path] = folder.rglob("*.json")
    return path


def test_an_answer_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Releases, moment and validators."""
    written(tmp_path)
    cache = IndexCache(tmp_path)
    assert (ANSWER, ()) == (cache.read(ADDRESS, "alpha"), cache.notices)


def test_nothing_is_known_at_first(tmp_path: Path) -> None:
    """That is no trouble, and worth no notice."""
    cache = IndexCache(tmp_path / "not-there")
    assert (None, ()) == (cache.read(ADDRESS, "alpha"), cache.notices)


def test_another_index_has_answers_of_its_own(tmp_path: Path) -> None:
    """The same package, elsewhere."""
    written(tmp_path)
    assert IndexCache(tmp_path).read("https://other.example/simple", "alpha") is None


def test_no_address_is_stored(tmp_path: Path) -> None:
    """Neither in a name nor in a file."""
    path = written(tmp_path)
    assert ("example" in str(path.relative_to(tmp_path)), b"example" in path.read_bytes()) == (
        False,
        False,
    )


@pytest.mark.parametrize("length", [0, 1, 64, 100, -1])
def test_a_file_that_was_cut_off_is_not_used(tmp_path: Path, length: int) -> None:
    """A notice says so, and the next answer takes its place."""
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    cache = IndexCache(tmp_path)
    assert cache.read(ADDRESS, "alpha") is None
    assert cache.notices == ("the cached releases of alpha were damaged and are not used",)
    cache.write(ADDRESS, ANSWER)
    assert ANSWER == cache.read(ADDRESS, "alpha")


def test_a_folder_that_cannot_be_written_is_a_notice(tmp_path: Path) -> None:
    """Reading releases goes on without it."""
    (tmp_path / "file").write_text("")
    cache = IndexCache(tmp_path / "file")
    cache.write(ADDRESS, ANSWER)
    assert len(cache.notices) == 1
    assert cache.notices[0].startswith("the cache of the package index cannot be written")
    assert cache.read(ADDRESS, "alpha") is None


def test_nothing_half_written_stays(tmp_path: Path) -> None:
    """A file is replaced in one step."""
    path = written(tmp_path)
    assert [path.name] == os.listdir(path.parent)  # noqa: PTH208  (hidden files too)


def test_the_users_folder_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a machine whose home is not writable."""
    monkeypatch.setenv("GRADMATRIX_CACHE_DIR", str(tmp_path))
    assert tmp_path == user_folder()


def test_the_users_folder_is_where_the_platform_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Linux, below XDG's variable."""
    monkeypatch.delenv("GRADMATRIX_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert tmp_path / "cache" / "gradmatrix" == user_folder()
