"""Releases and upload dates that the package index offers."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from harness.index import Index, IndexUnreachable
from tests.fakes.package_index import File, PackageIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = "http://127.0.0.1:9/simple"
"""The discard port: nothing listens there."""


@pytest.fixture(params=[True, False], ids=["json", "html"])
def served(request: pytest.FixtureRequest) -> Iterator[PackageIndex]:
    """An index with four releases of one package, in either format."""
    with PackageIndex(json=request.param) as index:
        index.add("alpha", "1.10", "2025-03-01")
        index.add("alpha", "1.9", "2025-01-01")
        index.add("alpha", "2.0rc1", "2025-03-02")
        index.add("alpha", "1.11", "2025-03-03", yanked=True)
        yield index


def test_releases_are_sorted_by_version(served: PackageIndex) -> None:
    """1.9 comes before 1.10."""
    assert [release.version for release in Index(served.url).releases("alpha")] == ["1.9", "1.10", "1.11", "2.0rc1"]


def test_a_release_knows_its_day_yank_and_prerelease(served: PackageIndex) -> None:
    """Upload date, yanked and pre-release are read in both formats."""
    facts = {r.version: (r.uploaded, r.yanked, r.prerelease) for r in Index(served.url).releases("alpha")}
    assert facts["1.11"] == (dt.date(2025, 3, 3), True, False)
    assert facts["2.0rc1"] == (dt.date(2025, 3, 2), False, True)


def test_newest_is_what_a_plain_install_would_take(served: PackageIndex) -> None:
    """Neither the yanked release nor the release candidate."""
    release = Index(served.url).newest("alpha", dt.date(2026, 1, 1))
    assert release
    assert release.version == "1.10"


def test_newest_counts_the_as_of_date_itself(served: PackageIndex) -> None:
    """A release of that day is there, one of the next day is not."""
    index = Index(served.url)
    versions = [getattr(index.newest("alpha", dt.date(2025, *day)), "version", None) for day in ((3, 1), (2, 28))]
    assert versions == ["1.10", "1.9"]


def test_newest_before_the_first_release_is_none(served: PackageIndex) -> None:
    """A package that did not exist yet has no newest release."""
    assert Index(served.url).newest("alpha", dt.date(2020, 1, 1)) is None


def test_a_package_is_asked_for_once(served: PackageIndex) -> None:
    """Answers are kept, under the canonical name."""
    index = Index(served.url)
    index.many(["alpha", "Alpha"])
    index.releases("ALPHA")
    assert served.requests[2:] == []
    assert set(served.requests) == {"/simple/alpha/"}


def test_an_unknown_package_has_no_releases(served: PackageIndex) -> None:
    """404 is an answer, not a failure."""
    assert Index(served.url).releases("beta") == ()


def test_a_release_is_dated_by_its_first_file() -> None:
    """Wheels added later do not make a release younger."""
    with PackageIndex() as served:
        served.add("alpha", "1.0", "2025-03-01")
        served.files.append(File("alpha", "alpha-1.0.tar.gz", b"", "2025-02-01T00:00:00Z", yanked=False))
        assert Index(served.url).releases("alpha")[0].uploaded == dt.date(2025, 2, 1)


def test_file_names_from_before_the_rules_are_skipped() -> None:
    """Eggs and installers are no releases."""
    with PackageIndex() as served:
        served.files.append(File("alpha", "alpha-1.0.win32.exe", b"", "2005-02-01T00:00:00Z", yanked=False))
        assert Index(served.url).releases("alpha") == ()


def test_an_unreachable_index_is_told_without_its_host() -> None:
    """The error says what happened; where the index is stays out of published text."""
    with pytest.raises(IndexUnreachable, match=r"did not answer for alpha") as raised:
        Index(NOBODY, attempts=1).releases("alpha")
    assert "127.0.0.1" not in str(raised.value)


def test_the_configured_index_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables of uv come before those of pip."""
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/pips")
    assert Index().url == "http://127.0.0.1:9/pips"
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/uvs/")
    assert Index().url == "http://127.0.0.1:9/uvs"


def test_without_settings_uv_tells_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """No host name is written in this project."""
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    assert Index().url.startswith("http")
