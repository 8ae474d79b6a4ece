"""How long the package index is left alone that asks for it, and for how long an answer does."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from gradmatrix.stacks.index import FRESH_S, LONGEST_S, Index, IndexUnreachable
from tests.fakes.package_index import PackageIndex
from tests.stacks.test_index_polite import BEGAN, Clock, clock, reader, served, versions

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["clock", "served"]  # fixtures
NAMES = [f"package-{number}" for number in range(5)]


@pytest.mark.parametrize(
    ("asked_s", "left_s"), [("3600", 3600), (str(10 * int(LONGEST_S)), LONGEST_S)]
)
def test_an_index_that_wants_an_hour_is_asked_for_no_other_package(
    tmp_path: Path, clock: Clock, asked_s: str, left_s: float
) -> None:
    """What is kept does for all of them; nobody is left alone for more than a day."""
    with PackageIndex() as served:
        for name in NAMES:
            served.add(name, "1.0", "2025-03-01")
        reader(served.url, tmp_path, clock).many(NAMES)
        clock.after(seconds=FRESH_S)
        served.failures = [(429, {"Retry-After": asked_s})]
        index = reader(served.url, tmp_path, clock)
        assert [1] * len(NAMES) == [len(index.releases(name)) for name in NAMES]
        clock.after(seconds=left_s - 1)
        with pytest.raises(IndexUnreachable, match="HTTP 429"):
            index.releases("beta")
        assert len(NAMES) + 1 == len(served.requests)
        clock.after(seconds=1)
        assert () == index.releases("beta")


@pytest.mark.parametrize(
    "moment", ["0", (BEGAN - dt.timedelta(hours=1)).strftime("%a, %d %b %Y %H:%M:%S GMT")]
)
def test_a_pause_of_nothing_is_a_pause_all_the_same(
    served: PackageIndex, clock: Clock, moment: str
) -> None:
    """Our clock may be fast."""
    served.failures = [(503, {"Retry-After": moment})] * 2
    assert ["1.0"] == versions(Index(served.url, clock=clock, sleep=clock.sleep))
    assert [True, True] == [
        low <= slept <= 3 * low for slept, low in zip(clock.slept, (0.25, 0.5), strict=True)
    ]


@pytest.mark.parametrize("process", ["this", "another"])
def test_an_answer_of_before_midnight_does_not_do_for_that_day_after_it(
    served: PackageIndex, tmp_path: Path, clock: Clock, process: str
) -> None:
    """However fresh it is, in this process or another; before midnight it does."""
    clock.now = dt.datetime(2026, 11, 20, 23, 58, tzinfo=dt.UTC)
    index = reader(served.url, tmp_path, clock)
    assert [1, 1] == [len(index.releases("alpha", clock.now.date())) for _ in range(2)]
    assert 1 == len(served.requests)
    served.add("alpha", "1.1", "2026-11-20")
    clock.after(minutes=3)
    index = index if process == "this" else reader(served.url, tmp_path, clock)
    assert [2, 2] == [len(index.releases("alpha", dt.date(2026, 11, 20))) for _ in range(2)]
    assert 2 == len(served.requests)


def test_an_unknown_format_takes_no_place_of_what_is_kept(
    served: PackageIndex, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy may answer, and say that all is well."""
    versions(reader(served.url, tmp_path, clock))
    monkeypatch.setattr(served, "page", lambda _: ("text/plain", "{}"))
    clock.after(seconds=FRESH_S)
    assert ["1.0"] == versions(reader(served.url, tmp_path, clock))
    with pytest.raises(
        IndexUnreachable, match="unknown format for beta: text/plain is no page of the simple API"
    ):
        reader(served.url, tmp_path, clock).releases("beta")
