"""The releases of a package, and what the package index says about them."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from gradmatrix.stacks.index import (
    Index,
    IndexUnreachable,
    Release,
    admitted,
    both,
    minor,
    newest,
    releases_of,
)
from tests.fakes.package_index import File, PackageIndex

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def release(version: str, day: str = "2025-01-01", *, yanked: bool = False) -> Release:
    """A release. Its version says whether it is a pre-release."""
    uploaded = dt.date.fromisoformat(day) if day else None
    return Release(
        version=version, uploaded=uploaded, yanked=yanked, prerelease=Version(version).is_prerelease
    )


def versions(
    *releases: Release, prereleases: bool = False, exactly: tuple[str, ...] = ()
) -> list[str]:
    """The versions that are admitted."""
    return [r.version for r in admitted(releases, prereleases=prereleases, exactly=exactly)]


def test_a_yanked_release_is_taken_only_where_it_is_pinned() -> None:
    """This is what uv does."""
    both = (release("1.0"), release("1.1", yanked=True))
    assert (["1.0"], ["1.0", "1.1"]) == (versions(*both), versions(*both, exactly=("1.1.0",)))


def test_a_prerelease_is_taken_only_where_it_is_asked_for() -> None:
    """It is asked for by its version, or with all others."""
    both = (release("2.0rc1"), release("1.0"))
    assert ["1.0"] == versions(*both)
    assert ["1.0", "2.0rc1"] == versions(*both, prereleases=True)
    assert ["1.0", "2.0rc1"] == versions(*both, exactly=("2.0rc1",))


def test_prereleases_are_taken_where_there_is_nothing_else() -> None:
    """A yanked final release does not count."""
    assert ["1.0a1", "1.0b1"] == versions(
        release("1.0b1"), release("1.0a1"), release("1.0", yanked=True)
    )


def test_versions_are_sorted_as_versions() -> None:
    """1.9 comes before 1.10."""
    assert ["1.9", "1.10"] == versions(release("1.10"), release("1.9"))


def test_a_post_release_is_of_its_minor() -> None:
    """So 2.5.0.post0 belongs to 2.5. Another epoch is another release."""
    assert [(0, 2, 5), (1, 2, 5)] == [minor(release("2.5.0.post0")), minor(release("1!2.5.0"))]


def test_a_package_of_prereleases_only_has_a_newest() -> None:
    """On the days before its first final release, and no yanked one."""
    there = (
        release("1.0rc1"),
        release("1.0rc2"),
        release("1.0rc3", yanked=True),
        release("1.0", "2025-06-01"),
    )
    found = [newest(there, dt.date(2025, month, 1)) for month in (5, 6)]
    assert ["1.0rc2", "1.0"] == [each and each.version for each in found]


def test_two_names_share_what_both_have() -> None:
    """The day is the later one of both, if one is known."""
    ours = (release("1.5.10", "2022-02-08"), release("2.0", "2023-03-15"), release("2.1", ""))
    twins = (release("2.0.0", "2023-03-16"), release("2.1", ""))
    assert [release("2.0", "2023-03-16"), release("2.1", "")] == both(ours, twins)


def test_a_release_fits_where_a_python_may_install_it() -> None:
    """One patch release must be allowed. An unreadable rule allows all, and so does no Python."""
    asked = ("", ">=3.11", "==3.11.*", "no specifier", ">=3.12", "<3.11")
    asking = [replace(release("1.0"), requires_python=text) for text in asked]
    assert [True, True, True, True, False, False] == [each.fits(["3.11"]) for each in asking]
    assert {True} == {
        each.fits(pythons) for each in asking for pythons in ([], ["3.10", "3.11", "3.12"])
    }


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
    assert [release.version for release in Index(served.url).releases("alpha")] == [
        "1.9",
        "1.10",
        "1.11",
        "2.0rc1",
    ]


def test_a_release_knows_its_day_yank_and_prerelease(served: PackageIndex) -> None:
    """Upload date, yanked and pre-release are read in both formats."""
    facts = {
        r.version: (r.uploaded, r.yanked, r.prerelease) for r in Index(served.url).releases("alpha")
    }
    assert facts["1.11"] == (dt.date(2025, 3, 3), True, False)
    assert facts["2.0rc1"] == (dt.date(2025, 3, 2), False, True)


def test_newest_is_what_a_plain_install_would_take(served: PackageIndex) -> None:
    """It is neither yanked nor a release candidate."""
    release = Index(served.url).newest("alpha", dt.date(2026, 1, 1))
    assert release
    assert release.version == "1.10"


def test_newest_counts_the_as_of_date_itself(served: PackageIndex) -> None:
    """A release of that day counts, one of the next day does not."""
    index = Index(served.url)
    versions = [
        getattr(index.newest("alpha", dt.date(2025, *day)), "version", None)
        for day in ((3, 1), (2, 28))
    ]
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


def test_a_login_page_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network may answer everything with a page of its own. It does not say what is released."""
    with PackageIndex() as served:
        monkeypatch.setattr(served, "page", lambda _: ("text/html", "<html>Sign in</html>"))
        with pytest.raises(IndexUnreachable, match="wants you to sign in"):
            Index(served.url).releases("alpha")


def test_a_release_is_dated_by_its_first_file() -> None:
    """Wheels added later do not make a release younger."""
    with PackageIndex() as served:
        served.add("alpha", "1.0", "2025-03-01")
        served.files.append(
            File("alpha", "alpha-1.0.tar.gz", b"", "2025-02-01T00:00:00Z", yanked=False)
        )
        assert Index(served.url).releases("alpha")[0].uploaded == dt.date(2025, 2, 1)


def test_file_names_from_before_the_rules_are_skipped() -> None:
    """Eggs and installers are no releases."""
    with PackageIndex() as served:
        served.files.append(
            File("alpha", "alpha-1.0.win32.exe", b"", "2005-02-01T00:00:00Z", yanked=False)
        )
        assert Index(served.url).releases("alpha") == ()


def test_an_unreachable_index_is_reported_without_its_host() -> None:
    """The error says what happened, but does not contain the host."""
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
    """This project contains no host name."""
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    assert Index().url.startswith("http")


def page(*files: Mapping[str, object]) -> bytes:
    """A page of the simple API in JSON."""
    listed = [{"url": "file", "hashes": {}, **file} for file in files]
    return json.dumps({"meta": {"api-version": "1.1"}, "name": "alpha", "files": listed}).encode()


def test_files_of_another_name_are_no_releases() -> None:
    """A build number or a date after a version is not one. Names are compared as indexes do."""
    names = ("alpha-1.0-1.tar.gz", "alpha-1.0-20180101.zip", "beta-3.0.tar.gz", "Alpha-1.1.tar.gz",
             "alpha-1.2-1-py3-none-any.whl")  # fmt: skip
    found = releases_of("application/json", page(*({"filename": name} for name in names)), "alpha")
    assert ["1.1", "1.2"] == [release.version for release in found]


def test_a_yank_of_null_is_none() -> None:
    """This is how uv reads it. An empty reason is a yank."""
    no = {"filename": "alpha-1.0.tar.gz", "yanked": None}
    yes = {"filename": "alpha-1.1.tar.gz", "yanked": ""}
    found = releases_of("application/json", page(no, yes), "alpha")
    assert [False, True] == [release.yanked for release in found]


@pytest.mark.parametrize("kind", ["text/plain; charset=utf-8", "application/octet-stream"])
def test_what_is_no_page_of_the_simple_api_is_not_read_as_one(kind: str) -> None:
    """A page without links would replace a kept answer by no releases."""
    with pytest.raises(ValueError, match=kind.partition(";")[0]):
        releases_of(kind, page({"filename": "alpha-1.0.tar.gz"}), "alpha")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html><head><meta http-equiv='refresh' content='0; url=/login'></head></html>",
        b"<html><form action='/login'><a href='/terms'>Terms</a></form></html>",
    ],
)
def test_a_web_page_is_no_package_without_releases(body: bytes) -> None:
    """A network that wants the user to sign in answers with one in place of the index."""
    with pytest.raises(ValueError, match="it is a web page and no list of files"):
        releases_of("text/html", body, "alpha")


def test_an_html_page_may_list_no_file() -> None:
    """It says that it is a page of an index."""
    page = b"<html><head><meta name='pypi:repository-version' content='1.0'></head></html>"
    assert () == releases_of("text/html", page, "alpha")


def test_a_release_knows_the_pythons_of_its_least_choosy_file() -> None:
    """This holds in both formats."""
    asked = (">=3.10,<3.14", ">=3.9", None)
    files = [
        {"filename": f"alpha-1.0-{n}-py3-none-any.whl", "requires-python": text}
        for n, text in enumerate(asked)
    ]
    anchors = b'<a href="/alpha-1.0.tar.gz" data-requires-python="&gt;=3.9">alpha-1.0.tar.gz</a>'
    pages = [
        ("application/json", page(*files)),
        ("application/json", page(*files[:2])),
        ("text/html", anchors),
    ]
    assert ["", ">=3.9", ">=3.9"] == [
        releases_of(kind, body, "alpha")[0].requires_python for kind, body in pages
    ]
