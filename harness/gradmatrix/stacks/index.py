"""The package index: the releases of a package, and which of them an install would take.

The index is asked by its simple API: few requests at a time, with retries that respect Retry-After.
Answers are kept in the user's cache folder, so that the program works offline and a second checkout
does not ask again. What is kept are the releases and not the pages: a page can be 2 MB, takes a
quarter of a second to parse, and holds addresses that may be secret.
"""

from __future__ import annotations

import datetime as dt
import email.utils
import hashlib
import json
import os
import random
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote, urlsplit

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from gradmatrix.core.files import NOT_READABLE, write_atomically
from gradmatrix.core.model import Moment
from gradmatrix.core.observation import Frozen
from gradmatrix.stacks import uv

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    import requests
    from pypi_simple import DistributionPackage

PATCHES = 100
"""More than a minor version of Python has patch releases."""
WORKERS = 8
"""Requests at the same time, at most."""
TIMEOUT_S = 30.0
FRESH_S = 300.0
"""An answer this young is used without asking again."""
DOWN_S = 60.0
"""How long an index that did not answer is left alone."""
LONGEST_S = 86400.0
"""How long it is left alone at most, whatever its Retry-After says."""
PATIENCE_S = 60.0
"""The longest Retry-After that is waited for."""
USER_AGENT = "gradmatrix (package index reader; python-requests)"
PASSING = {
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_EARLY,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
"""Failures that may pass. After any other one the index is not asked again."""
SCHEMA = 4
"""Version of the kept files. Files of another version are not read."""
FOLDER_VARIABLE = "GRADMATRIX_CACHE_DIR"


@dataclass(frozen=True, kw_only=True)
class Release:
    """One version of a package."""

    version: str
    uploaded: dt.date | None
    """The UTC day of its first file; None if the index does not say."""
    yanked: bool
    prerelease: bool
    requires_python: str = ""
    """Empty if at least one of its files allows every Python."""
    size_bytes: int | None = None
    """The size of its largest wheel; None if the index does not say."""

    def fits(self, pythons: Collection[str]) -> bool:
        """Whether one of ``pythons``, such as ``3.11``, may install it."""
        try:
            return not pythons or any(allows(self.requires_python, each) for each in pythons)
        except InvalidSpecifier:
            return True


@cache
def allows(requires_python: str, minor: str) -> bool:
    """Whether a patch release of a minor version of Python, such as ``3.11``, is allowed.

    Raises:
        InvalidSpecifier: if ``requires_python`` cannot be read
    """
    allowed = SpecifierSet(requires_python)
    return any(allowed.contains(f"{minor}.{patch}") for patch in range(PATCHES))


def newest(releases: Iterable[Release], as_of: dt.date) -> Release | None:
    """The release that a plain install would have taken on ``as_of``; None if there was none."""
    there = admitted(
        release for release in releases if release.uploaded and release.uploaded <= as_of
    )
    return there[-1] if there else None


def admitted(
    releases: Iterable[Release], *, prereleases: bool = False, exactly: Collection[str] = ()
) -> tuple[Release, ...]:
    """The releases that an install may take, as uv chooses them, oldest version first.

    Args:
        releases: all releases of a package
        prereleases: whether pre-releases are allowed; they also are if there is nothing else
        exactly: versions that the user pinned; these may be yanked or pre-releases
    """
    pinned = set(map(Version, exactly))
    candidates = [
        release for release in releases if not release.yanked or Version(release.version) in pinned
    ]
    prereleases = prereleases or all(release.prerelease for release in candidates)
    kept = (
        r for r in candidates if prereleases or not r.prerelease or Version(r.version) in pinned
    )
    return tuple(sorted(kept, key=lambda release: Version(release.version)))


def both(releases: Iterable[Release], twins: Iterable[Release]) -> list[Release]:
    """The ``releases`` whose version ``twins`` have too, dated by the later upload of the two."""
    days = {Version(twin.version): twin.uploaded for twin in twins}
    return [
        replace(
            each,
            uploaded=max(filter(None, (each.uploaded, days[Version(each.version)])), default=None),
        )
        for each in releases
        if Version(each.version) in days
    ]


def minor(release: Release) -> tuple[int, int, int]:
    """The feature release that ``release`` is a patch of: epoch, major and minor."""
    version = Version(release.version)
    return version.epoch, version.major, version.minor


def releases_of(content_type: str, body: bytes, name: str) -> tuple[Release, ...]:
    """The releases on a package's page of the simple API, oldest version first.

    Args:
        content_type: the Content-Type header; empty means HTML
        body: the page, in JSON or HTML
        name: the canonical name of the package

    Raises:
        ValueError: if this is no such page
    """
    if "json" in content_type:
        files = _files_in_json(body, name)
    elif not content_type or "html" in content_type:
        files = _files_in_html(body, name)
    else:
        raise ValueError(f"{content_type.partition(';')[0]} is no format of the simple API")
    grouped: dict[Version, list[DistributionPackage]] = {}
    for file in files:
        version = _version(file.filename, name)
        if version is not None:
            grouped.setdefault(version, []).append(file)
    return tuple(_release(version, grouped[version]) for version in sorted(grouped))


def _files_in_json(body: bytes, name: str) -> list[DistributionPackage]:
    from pypi_simple import ProjectPage

    try:
        page: dict[str, Any] = json.loads(body)
        for file in page["files"]:
            if file.get("yanked") is None:  # some indexes write null, which uv reads as "no"
                file["yanked"] = False
        return ProjectPage.from_json_data(page).packages
    except Exception as error:  # a page may be anything, and its parsers raise many things
        raise ValueError(f"its JSON is no page of {name}: {type(error).__name__}") from error


def _files_in_html(body: bytes, name: str) -> list[DistributionPackage]:
    """The files of an HTML page; PEP 700 has no date for HTML, but some indexes give one."""
    from pypi_simple import DistributionPackage, RepositoryPage

    try:
        page = RepositoryPage.from_html(body)
    except Exception as error:  # see above
        raise ValueError(f"its HTML is no page of {name}: {error}") from error
    files = []
    for link in page.links:
        file = DistributionPackage.from_link(link, name)
        file.upload_time = _datetime(link.get_str_attrib("data-upload-time"))
        files.append(file)
    if page.repository_version is None and all(file.package_type is None for file in files):
        raise ValueError(
            "it is a web page and no list of files; perhaps this network wants you to sign in"
        )
    return files


def _datetime(text: str | None) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def _version(filename: str, name: str) -> Version | None:
    """The version of a file; None for an old kind of file, or one of another package.

    A file such as ``alpha-1.0-2.tar.gz`` is not release 2 of alpha.
    """
    try:
        parse = parse_wheel_filename if filename.endswith(".whl") else parse_sdist_filename
        found, version = parse(filename)[:2]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None  # an egg, an installer, or a name from before the rules
    return version if found == name else None


def _release(version: Version, files: Collection[DistributionPackage]) -> Release:
    """A release of these files. It is yanked if all of its files are."""
    return Release(
        version=str(version),
        uploaded=min((_day(file.upload_time) for file in files if file.upload_time), default=None),
        yanked=all(file.is_yanked for file in files),
        prerelease=version.is_prerelease,
        requires_python=min((file.requires_python or "" for file in files), key=len),
        size_bytes=max((file.size for file in files if file.size), default=None),
    )


def _day(moment: dt.datetime) -> dt.date:
    try:
        return moment.astimezone(dt.UTC).date() if moment.tzinfo else moment.date()
    except OverflowError:  # the first or last day that there is, in another time zone
        return moment.date()


class Answer(Frozen, frozen=True, kw_only=True):
    """What the index said about one package."""

    name: str
    asked_at: Moment
    """When it was last asked, in UTC. The answer "not modified" counts."""
    etag: str | None = None
    last_modified: str | None = None
    releases: tuple[Release, ...] = ()

    def covers(self, as_of: dt.date | None) -> bool:
        """Whether all releases of the day ``as_of`` were out when this answer was given."""
        return as_of is None or _day(self.asked_at) > as_of


_ANSWER = msgspec.json.Decoder(Answer)  # built here: releases are read in threads


class IndexCache:
    """Answers in ``folder``. A file that cannot be read or written is a notice and no error.

    No address is stored: the folder of an index is named after a hash of its address.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._notices: dict[str, None] = {}

    @property
    def notices(self) -> tuple[str, ...]:
        """What went wrong with the files, once each."""
        return tuple(self._notices)

    def read(self, address: str, name: str) -> Answer | None:
        """What the index at ``address`` (without credentials) last said about ``name``."""
        try:
            return _ANSWER.decode(self._path(address, name).read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            self._note(f"the cache of the package index cannot be read: {error.strerror}")
        except NOT_READABLE:
            self._note(f"the cached releases of {name} were damaged and are not used")
        return None

    def write(self, address: str, answer: Answer) -> None:
        """Keep ``answer``."""
        try:
            write_atomically(self._path(address, answer.name), msgspec.json.encode(answer))
        except OSError as error:
            self._note(f"the cache of the package index cannot be written: {error.strerror}")

    def _path(self, address: str, name: str) -> Path:
        digest = hashlib.sha256(address.encode()).hexdigest()[:16]
        return self._folder / f"index-{SCHEMA}" / digest / f"{name}.json"

    def _note(self, text: str) -> None:
        self._notices[text] = None


def user_folder() -> Path:
    """The folder in ``GRADMATRIX_CACHE_DIR``, or the platform's cache folder of the user."""
    import platformdirs

    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else platformdirs.user_cache_path("gradmatrix", appauthor=False)


class IndexUnreachable(Exception):
    """The package index did not answer. This says something about the machine, not a stack."""


class _Failed(Exception):
    """One request failed."""

    def __init__(self, why: str, *, passing: bool = True, wait_s: float | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.passing = passing
        self.wait_s = wait_s
        """What Retry-After asks for."""

    @property
    def may_pass(self) -> bool:
        """Whether another attempt makes sense."""
        return self.passing and (self.wait_s or 0.0) <= PATIENCE_S


class Index:
    """A package index. Each package is asked for once.

    With a cache, an answer of the last minutes is used as it is; an older one is revalidated. If
    the index does not answer or may not be asked, the cached answer is used and ``notices`` say so.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        attempts: int = 3,
        cache: IndexCache | None = None,
        offline: str = "",
        clock: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """An index; nothing is asked yet.

        Args:
            url: its simple API; None for the index that this machine is configured for
            attempts: requests for one package, at most
            cache: where answers are kept
            offline: the environment variable that forbids asking; empty if none does
            clock: the time, in UTC
            sleep: waits for some seconds
        """
        self._url = url
        self._attempts = attempts
        self._cache = cache
        self._offline = offline
        self._clock = clock
        self._sleep = sleep
        self._known: dict[str, Answer] = {}
        self._stale: set[str] = set()
        self._down: tuple[dt.datetime, str] | None = None  # until when it is left alone, and why
        self._lock = threading.Lock()

    @classmethod
    def of_machine(cls) -> Self:
        """The configured index with the user's cache."""
        return cls(cache=IndexCache(user_folder()), offline=uv.offline())

    @cached_property
    def url(self) -> str:
        """The simple API, without a slash at its end. It may hold credentials: never print it."""
        return (self._url or uv.index_url()).rstrip("/")

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader of the releases must know: that they are old, that a file was damaged."""
        kept = self._cache.notices if self._cache else ()
        oldest = self.stale_since
        if oldest is None:
            return kept
        why = f"was not asked ({self._offline} is set)" if self._offline else "did not answer"
        return (*kept, f"the package index {why}: releases as of {oldest:%Y-%m-%d %H:%M} UTC")

    @property
    def stale_since(self) -> dt.datetime | None:
        """The time (UTC) of the oldest answer that is used only because there is no newer one."""
        return min(
            (self._known[name].asked_at.astimezone(dt.UTC) for name in self._stale), default=None
        )

    def releases(self, package: str, as_of: dt.date | None = None) -> tuple[Release, ...]:
        """Every release of ``package``, oldest version first; empty for an unknown package.

        Args:
            package: its name
            as_of: a day; a cached answer from before its end is not good enough

        Raises:
            IndexUnreachable: if there is neither an answer nor a cached one that is good enough
        """
        name = canonicalize_name(package)
        known = self._known.get(name)
        if known is None or (
            not known.covers(as_of) and (name in self._stale or self._is_over(as_of))
        ):
            known = self._known[name] = self._answer(name, as_of)
        return known.releases

    def many(
        self, names: Iterable[str], as_of: dt.date | None = None
    ) -> dict[str, tuple[Release, ...]]:
        """The releases of several packages, asked for in parallel. See :meth:`releases`."""
        names = list(names)
        with ThreadPoolExecutor(WORKERS) as pool:
            return dict(
                zip(names, pool.map(lambda name: self.releases(name, as_of), names), strict=True)
            )

    def newest(self, package: str, as_of: dt.date) -> Release | None:
        """The newest release on ``as_of`` that a plain install would take."""
        return newest(self.releases(package), as_of)

    def _answer(self, name: str, as_of: dt.date | None) -> Answer:
        address, _ = _without_credentials(self.url)
        kept = self._cache.read(address, name) if self._cache else None
        if kept and self._is_fresh(kept) and (kept.covers(as_of) or not self._is_over(as_of)):
            return kept
        try:
            answer = self._asked(name, kept)
        except IndexUnreachable:
            if kept is None or not kept.covers(as_of):
                raise
            self._stale.add(name)
            return kept
        self._stale.discard(name)
        if self._cache:
            self._cache.write(address, answer)
        return answer

    def _is_fresh(self, kept: Answer) -> bool:
        """Whether an answer is a few minutes old at most.

        One from the future is not fresh: a clock was set back.
        """
        age = self._clock() - kept.asked_at
        return dt.timedelta() <= age < dt.timedelta(seconds=FRESH_S)

    def _is_over(self, day: dt.date | None) -> bool:
        return day is not None and self._clock().astimezone(dt.UTC).date() > day

    def _asked(self, name: str, kept: Answer | None) -> Answer:
        """Ask until there is an answer, another attempt is hopeless, or all attempts are used."""
        if self._offline:
            raise IndexUnreachable(
                f"The package index was not asked for {name}: {self._offline} is set."
            )
        if self._down and self._clock() < self._down[0]:
            raise IndexUnreachable(f"The package index did not answer for {name}: {self._down[1]}")
        for attempt in range(self._attempts):
            try:
                return self._ask(name, kept)
            except _Failed as error:
                failed = error
            if not failed.may_pass or attempt + 1 == self._attempts:
                break
            self._sleep(max(failed.wait_s or 0.0, _backoff_s(attempt)))
        if failed.passing:
            alone_s = min(max(DOWN_S, failed.wait_s or 0.0), LONGEST_S)
            with self._lock:
                self._down = self._clock() + dt.timedelta(seconds=alone_s), failed.why
        raise IndexUnreachable(f"The package index did not answer for {name}: {failed.why}")

    def _ask(self, name: str, kept: Answer | None) -> Answer:
        """One request. Raises _Failed, or IndexUnreachable if the answer is of no known format."""
        import requests

        address, credentials = _without_credentials(f"{self.url}/{name}/")
        asked_at = self._clock()
        try:
            response = self._session.get(
                address, auth=credentials, headers=_conditions(kept), timeout=TIMEOUT_S
            )
        except requests.RequestException as error:
            raise _Failed(_reason(error)) from error
        if response.status_code == HTTPStatus.NOT_MODIFIED and kept:
            return msgspec.structs.replace(kept, asked_at=asked_at)
        if response.status_code == HTTPStatus.NOT_FOUND:
            return Answer(name=name, asked_at=asked_at)
        if not response.ok:
            wait_s = _retry_after(response.headers.get("Retry-After"), self._clock())
            passing = response.status_code in PASSING
            raise _Failed(f"HTTP {response.status_code}", passing=passing, wait_s=wait_s)
        try:
            releases = releases_of(response.headers.get("Content-Type", ""), response.content, name)
        except ValueError as error:
            raise IndexUnreachable(
                f"The package index did not answer for {name}. Something else did: {error}"
            ) from error
        return Answer(
            name=name,
            asked_at=asked_at,
            etag=response.headers.get("ETag"),
            last_modified=response.headers.get("Last-Modified"),
            releases=releases,
        )

    @cached_property
    def _session(self) -> requests.Session:
        import requests
        from pypi_simple import ACCEPT_JSON_PREFERRED

        session = requests.Session()
        session.headers.update({"Accept": ACCEPT_JSON_PREFERRED, "User-Agent": USER_AGENT})
        return session


def _conditions(kept: Answer | None) -> Mapping[str, str]:
    """The headers that ask for a page only if it is newer than ``kept``."""
    if kept is None:
        return {}
    named = {"If-None-Match": kept.etag, "If-Modified-Since": kept.last_modified}
    return {name: value for name, value in named.items() if value}


def _reason(error: BaseException) -> str:
    """Why a request failed. The words of requests are not used: they name the host."""
    while error.__context__ is not None:
        error = error.__context__
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason}"
    why = error.strerror if isinstance(error, OSError) else None
    return uv.scrub(why or type(error).__name__)


def _retry_after(header: str | None, now: dt.datetime) -> float | None:
    """The seconds of a Retry-After header: a number or a date; None if it cannot be read."""
    if header is None:
        return None
    if header.strip().isdigit():
        return float(header)
    try:
        moment = email.utils.parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (moment.astimezone(dt.UTC) - now).total_seconds())


def _backoff_s(attempt: int) -> float:
    """Twice as long each time, with a random part, so that clients do not come back together."""
    return 0.5 * 2.0**attempt * random.uniform(0.5, 1.5)  # noqa: S311  (no secret)


def _without_credentials(url: str) -> tuple[str, tuple[str, str] | None]:
    """``url`` without its user and password, and those two."""
    parts = urlsplit(url)
    if parts.username is None:
        return url, None
    credentials = unquote(parts.username), unquote(parts.password or "")
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(), credentials
