"""When the package index is asked, with which pauses, and how its answers are kept."""

from __future__ import annotations

import datetime as dt
import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from gradmatrix.stacks.index import (
    FRESH_S,
    LONGEST_S,
    USER_AGENT,
    WORKERS,
    Answer,
    Index,
    IndexCache,
    IndexUnreachable,
    Release,
    user_folder,
)
from tests.conftest import PATIENCE_S
from tests.fakes.package_index import MODIFIED, PackageIndex

if TYPE_CHECKING:
    from collections.abc import Iterator
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
    """It has the releases, the time and the validators."""
    written(tmp_path)
    cache = IndexCache(tmp_path)
    assert (ANSWER, ()) == (cache.read(ADDRESS, "alpha"), cache.notices)


def test_nothing_is_known_at_first(tmp_path: Path) -> None:
    """This gives no notice."""
    cache = IndexCache(tmp_path / "not-there")
    assert (None, ()) == (cache.read(ADDRESS, "alpha"), cache.notices)


def test_another_index_has_answers_of_its_own(tmp_path: Path) -> None:
    """It may have another package with the same name."""
    written(tmp_path)
    assert IndexCache(tmp_path).read("https://other.example/simple", "alpha") is None


def test_no_address_is_stored(tmp_path: Path) -> None:
    """It is neither in a file name nor in a file."""
    path = written(tmp_path)
    assert ("example" in str(path.relative_to(tmp_path)), b"example" in path.read_bytes()) == (
        False,
        False,
    )


@pytest.mark.parametrize("length", [0, 1, 64, 100, -1])
def test_a_file_that_was_cut_off_is_not_used(tmp_path: Path, length: int) -> None:
    """A notice says so, and the next answer replaces it."""
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    cache = IndexCache(tmp_path)
    assert cache.read(ADDRESS, "alpha") is None
    assert cache.notices == ("the cached releases of alpha were damaged and are not used",)
    cache.write(ADDRESS, ANSWER)
    assert ANSWER == cache.read(ADDRESS, "alpha")


def test_a_folder_that_cannot_be_written_is_a_notice(tmp_path: Path) -> None:
    """Releases can still be read."""
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
    """A home folder may not be writable."""
    monkeypatch.setenv("GRADMATRIX_CACHE_DIR", str(tmp_path))
    assert tmp_path == user_folder()


def test_the_users_folder_is_where_the_platform_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Linux, below XDG's variable."""
    monkeypatch.delenv("GRADMATRIX_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert tmp_path / "cache" / "gradmatrix" == user_folder()


NOBODY = "http://127.0.0.1:9/simple"
"""The discard port: nothing listens there."""
BEGAN = dt.datetime(2026, 11, 20, 14, 3, tzinfo=dt.UTC)


@dataclass
class Clock:
    """A clock that moves during a sleep, or when a test moves it."""

    now: dt.datetime = BEGAN
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> dt.datetime:
        """The time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Move the clock instead of waiting."""
        self.slept.append(seconds)
        self.now += dt.timedelta(seconds=seconds)

    def after(self, **duration: float) -> None:
        """Move the clock."""
        self.now += dt.timedelta(**duration)


@pytest.fixture
def served() -> Iterator[PackageIndex]:
    """An index with a release of one package."""
    with PackageIndex(validates=True) as index:
        index.add("alpha", "1.0", "2025-03-01")
        yield index


@pytest.fixture
def clock() -> Clock:
    """A clock that starts at 14:03."""
    return Clock()


def reader(url: str, folder: Path, clock: Clock, attempts: int = 3, offline: str = "") -> Index:
    """An index as another process would make it."""
    cache = IndexCache(folder)
    return Index(
        url, attempts=attempts, cache=cache, offline=offline, clock=clock, sleep=clock.sleep
    )


def versions(index: Index) -> list[str]:
    """Of alpha."""
    return [release.version for release in index.releases("alpha")]


def test_within_minutes_it_is_not_asked_again(
    served: PackageIndex, tmp_path: Path, clock: Clock
) -> None:
    """Another process does not ask it either."""
    versions(reader(served.url, tmp_path, clock))
    clock.after(seconds=FRESH_S - 1)
    assert ["1.0"] == versions(reader(served.url, tmp_path, clock))
    assert 1 == len(served.requests)


def test_later_it_is_asked_what_was_modified(
    served: PackageIndex, tmp_path: Path, clock: Clock
) -> None:
    """The answer "not modified" renews the kept one."""
    versions(reader(served.url, tmp_path, clock))
    clock.after(seconds=FRESH_S)
    assert ["1.0"] == versions(reader(served.url, tmp_path, clock))
    etag = served.validators(served.page("alpha")[1])["ETag"]  # type: ignore[index]
    assert (etag, MODIFIED) == (
        served.asked[1]["If-None-Match"],
        served.asked[1]["If-Modified-Since"],
    )
    clock.after(seconds=FRESH_S - 1)
    assert ["1.0"] == versions(reader(served.url, tmp_path, clock))
    assert 2 == len(served.requests)


def test_what_was_modified_is_taken(served: PackageIndex, tmp_path: Path, clock: Clock) -> None:
    """A new release came out."""
    versions(reader(served.url, tmp_path, clock))
    served.add("alpha", "1.1", "2025-03-02")
    clock.after(seconds=FRESH_S)
    assert ["1.0", "1.1"] == versions(reader(served.url, tmp_path, clock))


def test_a_clock_that_was_set_back_does_not_keep_an_answer_for_ever(
    served: PackageIndex, tmp_path: Path, clock: Clock
) -> None:
    """An answer from the future is checked again."""
    versions(reader(served.url, tmp_path, clock))
    clock.after(days=-3)
    versions(reader(served.url, tmp_path, clock))
    assert 2 == len(served.requests)


def test_an_index_that_does_not_answer_is_read_from_the_cache_which_says_so(
    tmp_path: Path, clock: Clock
) -> None:
    """The notice has the time of the releases."""
    with PackageIndex() as served:
        served.add("alpha", "1.0", "2025-03-01")
        versions(reader(served.url, tmp_path, clock))
    clock.after(days=1)
    index = reader(served.url, tmp_path, clock)
    assert ["1.0"] == versions(index)
    assert (
        "the package index did not answer: releases as of 2026-11-20 14:03 UTC",
    ) == index.notices


def test_an_answer_has_no_notice(served: PackageIndex, tmp_path: Path, clock: Clock) -> None:
    """It may be kept or new."""
    for _ in range(2):
        index = reader(served.url, tmp_path, clock)
        versions(index)
        assert index.notices == ()


def test_what_was_kept_before_the_day_was_over_does_not_cover_it(
    tmp_path: Path, clock: Clock
) -> None:
    """A lock of that day would lack the releases of the evening."""
    with PackageIndex() as served:
        served.add("alpha", "1.0", "2025-03-01")
        versions(reader(served.url, tmp_path, clock))
    clock.after(days=1)
    index = reader(served.url, tmp_path, clock, attempts=1)
    assert ["1.0"] == [
        release.version for release in index.releases("alpha", BEGAN.date() - dt.timedelta(days=1))
    ]
    with pytest.raises(IndexUnreachable):
        index.releases("alpha", BEGAN.date())


def test_offline_it_is_not_even_asked(served: PackageIndex, tmp_path: Path, clock: Clock) -> None:
    """The notice has the time of the kept answer and the variable that forbids asking."""
    versions(reader(served.url, tmp_path, clock))
    clock.after(hours=1)
    index = reader(served.url, tmp_path, clock, offline="UV_OFFLINE")
    assert ["1.0"] == versions(index)
    assert (
        "the package index was not asked (UV_OFFLINE is set): releases as of 2026-11-20 14:03 UTC",
    ) == (index.notices)
    with pytest.raises(IndexUnreachable, match=r"was not asked for beta: UV_OFFLINE is set"):
        index.releases("beta")
    assert 1 == len(served.requests)


@pytest.mark.parametrize(
    ("name", "value", "asked"),
    [
        ("UV_OFFLINE", "1", 0),
        ("GRADMATRIX_OFFLINE", "true", 0),
        ("UV_OFFLINE", "0", 1),
        ("GRADMATRIX_OFFLINE", "", 1),
    ],
)
def test_an_environment_variable_forbids_asking(
    served: PackageIndex, monkeypatch: pytest.MonkeyPatch, name: str, value: str, asked: int
) -> None:
    """It may be the variable of this project or of uv."""
    for other in ("UV_OFFLINE", "GRADMATRIX_OFFLINE"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv("UV_DEFAULT_INDEX", served.url)
    monkeypatch.setenv(name, value)
    index = Index.of_machine()
    if asked:
        assert ["1.0"] == versions(index)
    else:
        with pytest.raises(IndexUnreachable, match=name):
            versions(index)
    assert asked == len(served.requests)


def test_a_busy_index_is_asked_again_when_it_says(served: PackageIndex, clock: Clock) -> None:
    """Retry-After has seconds or a date."""
    moment = (BEGAN + dt.timedelta(seconds=17)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    served.failures = [(429, {"Retry-After": "7"}), (503, {"Retry-After": moment})]
    assert ["1.0"] == versions(Index(served.url, clock=clock, sleep=clock.sleep))
    assert [7.0, 10.0] == clock.slept


def test_an_index_that_wants_an_hour_is_not_waited_for(served: PackageIndex, clock: Clock) -> None:
    """The kept answer is used."""
    served.failures = [(429, {"Retry-After": "3600"})]
    with pytest.raises(IndexUnreachable, match="HTTP 429"):
        versions(Index(served.url, clock=clock, sleep=clock.sleep))
    assert ([], 1) == (clock.slept, len(served.requests))


def test_failures_that_pass_are_waited_for_longer_and_longer(
    served: PackageIndex, clock: Clock
) -> None:
    """The pauses are random, so that clients do not come back together."""
    served.failures = [(502, {})] * 3
    assert ["1.0"] == versions(Index(served.url, attempts=4, clock=clock, sleep=clock.sleep))
    bounds = [(0.25, 0.75), (0.5, 1.5), (1.0, 3.0)]
    assert [True] * 3 == [
        low <= slept <= high for slept, (low, high) in zip(clock.slept, bounds, strict=True)
    ]
    assert 3 == len(set(clock.slept))


@pytest.mark.parametrize("status", [401, 403, 410])
def test_a_refused_request_is_not_repeated(served: PackageIndex, clock: Clock, status: int) -> None:
    """A second request would have the same answer."""
    served.failures = [(status, {})]
    with pytest.raises(IndexUnreachable, match=f"HTTP {status}"):
        versions(Index(served.url, clock=clock, sleep=clock.sleep))
    assert (1, []) == (len(served.requests), clock.slept)


def test_an_index_that_is_down_is_left_alone_for_a_minute(clock: Clock) -> None:
    """A lock has a hundred packages, and each would wait."""
    index = Index(NOBODY, clock=clock, sleep=clock.sleep, attempts=2)
    for _ in range(2):
        with pytest.raises(IndexUnreachable):
            versions(index)
    assert 1 == len(clock.slept)
    clock.after(seconds=61)
    with pytest.raises(IndexUnreachable):
        versions(index)
    assert 2 == len(clock.slept)


def test_requests_name_this_program(served: PackageIndex) -> None:
    """The owner of the index can see which program asks."""
    versions(Index(served.url))
    assert [USER_AGENT] == [headers["User-Agent"] for headers in served.asked]
    assert "gradmatrix" in USER_AGENT


def test_credentials_are_sent_and_not_stored(
    served: PackageIndex, tmp_path: Path, clock: Clock
) -> None:
    """The answer is found again with other credentials or none."""
    secret = served.url.replace("http://", "http://somebody:s3cret@")
    versions(reader(secret, tmp_path, clock))
    assert served.asked[0]["Authorization"].startswith("Basic ")
    assert [] == [
        path for path in tmp_path.rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()
    ]
    assert ["1.0"] == versions(reader(served.url, tmp_path, clock))
    assert 1 == len(served.requests)


def test_credentials_go_to_no_other_host(served: PackageIndex) -> None:
    """Links to other hosts do not get them. Other pages of the index do."""
    with PackageIndex() as other:
        other.add("alpha", "2.0", "2025-03-01")
        address = f"{other.url}/alpha/"
        served.failures = [(302, {"Location": "/simple/alpha/"}), (302, {"Location": address})]
        assert ["2.0"] == versions(Index(served.url.replace("http://", "http://somebody:s3cret@")))
        assert [True, True] == ["Authorization" in headers for headers in served.asked]
        assert [False] == ["Authorization" in headers for headers in other.asked]


def test_no_more_than_a_few_questions_are_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for any number of packages."""
    under_way, most, lock = 0, 0, threading.Lock()
    met = threading.Barrier(WORKERS, timeout=PATIENCE_S)

    def slowly(*_: object) -> Answer:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        met.wait()  # all workers are here: one more would be seen
        with lock:
            under_way -= 1
        return Answer(name="some", asked_at=BEGAN)

    monkeypatch.setattr(Index, "_ask", slowly)
    Index(NOBODY).many([f"package-{number}" for number in range(4 * WORKERS)])
    assert WORKERS == most


NAMES = [f"package-{number}" for number in range(5)]


@pytest.mark.parametrize(
    ("asked_s", "left_s"), [("3600", 3600), (str(10 * int(LONGEST_S)), LONGEST_S)]
)
def test_an_index_that_wants_an_hour_is_asked_for_no_other_package(
    tmp_path: Path, clock: Clock, asked_s: str, left_s: float
) -> None:
    """Kept answers are used for all. The longest pause is a day."""
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
    """This machine's clock may be fast."""
    served.failures = [(503, {"Retry-After": moment})] * 2
    assert ["1.0"] == versions(Index(served.url, clock=clock, sleep=clock.sleep))
    assert [True, True] == [
        low <= slept <= 3 * low for slept, low in zip(clock.slept, (0.25, 0.5), strict=True)
    ]


@pytest.mark.parametrize("process", ["this", "another"])
def test_an_answer_of_before_midnight_does_not_do_for_that_day_after_it(
    served: PackageIndex, tmp_path: Path, clock: Clock, process: str
) -> None:
    """It may be fresh, in this process or another. Before midnight it is good enough."""
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
    """A proxy may answer with status 200."""
    versions(reader(served.url, tmp_path, clock))
    monkeypatch.setattr(served, "page", lambda _: ("text/plain", "{}"))
    clock.after(seconds=FRESH_S)
    assert ["1.0"] == versions(reader(served.url, tmp_path, clock))
    with pytest.raises(
        IndexUnreachable,
        match=r"did not answer for beta\. Something else did: text/plain is no format",
    ):
        reader(served.url, tmp_path, clock).releases("beta")
