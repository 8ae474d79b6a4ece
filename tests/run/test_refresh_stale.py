"""``refresh`` with old answers of the package index, when it gives no new ones."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from gradmatrix.run.project import Project
from gradmatrix.run.refresh import refresh as news_of
from gradmatrix.stacks.index import Index, IndexCache
from tests.run.test_refresh import RELEASES, TODAY, add, refresh, root, served

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.fakes.package_index import PackageIndex

__all__ = ["root", "served"]  # fixtures


def test_an_old_answer_removes_no_stack(
    root: Path,
    served: PackageIndex,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is from before the release. Another machine has read the index since then."""
    add(root, RELEASES)
    assert 0 == refresh(root)
    served.add("alpha", "1.2", "2026-03-01")
    monkeypatch.setattr("gradmatrix.stacks.index.FRESH_S", 0.0)
    with monkeypatch.context() as another:
        another.setenv("GRADMATRIX_CACHE_DIR", str(root / "another"))
        assert 0 == refresh(root)
    written = (root / "results" / "locks" / "_matrix.json").read_bytes()
    monkeypatch.setenv("GRADMATRIX_OFFLINE", "1")
    capsys.readouterr()
    assert 2 == refresh(root)
    assert (
        "Nothing was written: old answers of the package index would remove these stacks: "
        "alpha-1.2." in capsys.readouterr().err
    )
    assert written == (root / "results" / "locks" / "_matrix.json").read_bytes()
    assert b"alpha-1.2" in written


def test_news_are_of_the_day_of_the_answers(
    root: Path, served: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output and the data say that the answers are old."""
    then, now = dt.datetime(2026, 2, 3, 12, tzinfo=dt.UTC), dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
    cache = IndexCache(tmp_path / "cache")
    Index(served.url, cache=cache, clock=lambda: then).releases("alpha")
    index = Index(served.url, cache=cache, clock=lambda: now, offline="GRADMATRIX_OFFLINE")
    monkeypatch.setattr(Index, "of_machine", lambda: index)
    news = news_of(Project.at(root), TODAY, write=False)
    assert (then.date(), 1) == (news.day, len(news.index))
    assert "(GRADMATRIX_OFFLINE is set): releases as of 2026-02-03 12:00 UTC" in news.index[0]
