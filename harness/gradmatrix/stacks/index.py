"""The releases of a package, and which of them an install takes: yanked and pre-releases as uv treats them.

What the package index said last, kept on disk: a file per index and package, checked when it is read.

It lies in the user's cache folder and not in the checkout: what an index says is true of the machine, and a fresh
clone, a second checkout and a results folder of one's own need not ask again. No address is stored: the folder of an
index is named after a hash of its address, which is taken without credentials.

One package's page of the simple API, in JSON or HTML → its releases.

Releases and upload dates that the package index offers, by its simple API: asked politely, and rarely.
"""

from __future__ import annotations

import base64
import datetime as dt
import email.utils
import hashlib
import http.client
import os
import random
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from html.parser import HTMLParser
from http import HTTPStatus
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, Self
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

from gradmatrix.core.files import write_atomically
from gradmatrix.core.observation import Frozen
from gradmatrix.stacks import uv

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping


@dataclass(frozen=True, kw_only=True)
class Release:
    """One version of a package; ``uploaded`` is the UTC day of its first file, None where the index does not tell."""

    version: str
    uploaded: dt.date | None
    yanked: bool
    prerelease: bool
    requires_python: str = ""
    """Empty where one of its files says nothing."""

    def fits(self, pythons: Collection[str]) -> bool:
        """Whether one of ``pythons`` (feature releases) may install it."""
        try:
            allowed = SpecifierSet(self.requires_python)
        except InvalidSpecifier:
            return True
        return not pythons or any(allowed.contains(f"{python}.99") for python in pythons)


def newest(releases: Iterable[Release], as_of: dt.date) -> Release | None:
    """The newest of ``releases`` on ``as_of`` that is not yanked; a pre-release where there was nothing else."""
    there = admitted(
        release for release in releases if release.uploaded and release.uploaded <= as_of
    )
    return there[-1] if there else None


def admitted(
    releases: Iterable[Release], *, prereleases: bool = False, exactly: Collection[str] = ()
) -> tuple[Release, ...]:
    """The releases that an install may take, oldest version first.

    A yanked one only where it is asked for ``exactly``; a pre-release where it is, where ``prereleases`` are asked for,
    or where there is nothing else.
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
    """Those of ``releases`` that ``twins`` have too, each as of the day on which both were out."""
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


SCHEMA: Literal[2] = 2
"""Version of the files: those of another one are asked for anew."""
FOLDER_VARIABLE = "GRADMATRIX_CACHE_DIR"


class Answer(Frozen, frozen=True, kw_only=True):
    """What the index said of one package, and what it must be shown to say "not modified"."""

    schema: Literal[2] = SCHEMA
    name: str
    asked_at: dt.datetime
    """When it was asked last, in UTC; a "not modified" counts."""
    etag: str | None = None
    last_modified: str | None = None
    releases: tuple[Release, ...] = ()


class IndexCache:
    """Answers in ``folder``; what cannot be read or written is a notice and never an error."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._notices: dict[str, None] = {}

    @property
    def notices(self) -> tuple[str, ...]:
        """What went wrong with the files, once each."""
        return tuple(self._notices)

    def read(self, address: str, name: str) -> Answer | None:
        """What the index at ``address`` (without credentials) said last; a damaged file is deleted, with a notice."""
        path = self._path(address, name)
        try:
            digest, _, body = path.read_bytes().partition(b"\n")
            if digest.decode("ascii", "replace") == _digest(body):
                return _decoded(body, name)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._note(f"the cache of the package index cannot be read: {error.strerror}")
            return None
        self._note(f"what was kept of the package index about {name} is damaged, and was discarded")
        self._discard(path)
        return None

    def write(self, address: str, answer: Answer) -> None:
        """Keep ``answer``, in one step: whoever reads meanwhile has the one before."""
        body = msgspec.json.encode(answer)
        try:
            write_atomically(
                self._path(address, answer.name), _digest(body).encode() + b"\n" + body
            )
        except OSError as error:
            self._note(f"what the package index says cannot be kept: {error.strerror}")

    def _path(self, address: str, name: str) -> Path:
        return self._folder / f"index-{SCHEMA}" / _digest(address.encode())[:16] / f"{name}.json"

    def _discard(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            self._note(f"the cache of the package index cannot be mended: {error.strerror}")

    def _note(self, text: str) -> None:
        self._notices[text] = None


def user_folder() -> Path:
    """The user's cache folder by the custom of the platform, or what ``GRADMATRIX_CACHE_DIR`` says."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    if sys.platform == "win32":
        return (
            Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
            / "gradmatrix"
            / "cache"
        )
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gradmatrix"
    cache = Path(
        os.environ.get("XDG_CACHE_HOME") or ""
    )  # a relative one counts for nothing, says its standard
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "gradmatrix"


def _decoded(body: bytes, name: str) -> Answer | None:
    """The answer in ``body``; None where it is whole, but of another release of ours, or of another package."""
    try:
        answer = msgspec.json.decode(body, type=Answer)
    except msgspec.MsgspecError:
        return None
    return answer if answer.name == name and answer.asked_at.tzinfo is not None else None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


class _File(msgspec.Struct, frozen=True):
    """One file of a package, as both formats of the simple API describe it."""

    filename: str
    uploaded: dt.datetime | None = msgspec.field(name="upload-time", default=None)
    yanked: bool | str | None = False
    requires_python: str | None = msgspec.field(name="requires-python", default=None)


class _Page(msgspec.Struct, frozen=True):
    files: tuple[_File, ...]


def releases_of(content_type: str, body: bytes, name: str) -> tuple[Release, ...]:
    """The releases of ``name`` by its page, oldest version first; msgspec.DecodeError for what is no such page."""
    if "json" in content_type:
        return _releases(msgspec.json.decode(body, type=_Page).files, name)
    if content_type and "html" not in content_type:
        raise msgspec.DecodeError(f"{content_type.partition(';')[0]} is no page of the simple API")
    parser = _Anchors()
    parser.feed(body.decode("utf-8", errors="replace"))
    return _releases(parser.files, name)


class _Anchors(HTMLParser):
    """The files of an HTML page: one anchor each, dates and yanks in ``data-`` attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[_File] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag != "a" or not found.get("href"):
            return
        filename = unquote(urlsplit(found["href"] or "").path.rpartition("/")[2])
        uploaded = _datetime(found.get("data-upload-time"))
        python = found.get("data-requires-python")
        yanked = "data-yanked" in found
        self.files.append(
            _File(filename=filename, uploaded=uploaded, yanked=yanked, requires_python=python)
        )


def _releases(files: Iterable[_File], name: str) -> tuple[Release, ...]:
    """Files grouped by version; a release is yanked when all of its files are."""
    grouped: dict[Version, list[_File]] = {}
    for file in files:
        version = _version(file.filename, name)
        if version is not None:
            grouped.setdefault(version, []).append(file)
    return tuple(
        Release(
            version=str(version),
            uploaded=min((_day(file.uploaded) for file in group if file.uploaded), default=None),
            yanked=all(file.yanked not in {False, None} for file in group),
            prerelease=version.is_prerelease,
            requires_python=min((file.requires_python or "" for file in group), key=len),
        )
        for version, group in sorted(grouped.items())
    )


def _version(filename: str, name: str) -> Version | None:
    """The version of a file; None for one of another name: name-1.0-2.tar.gz is no release 2."""
    try:
        parse = parse_wheel_filename if filename.endswith(".whl") else parse_sdist_filename
        found, version = parse(filename)[:2]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None  # an egg, an installer, or a name from before the rules
    return version if found == name else None


def _day(moment: dt.datetime) -> dt.date:
    return moment.astimezone(dt.UTC).date() if moment.tzinfo else moment.date()


def _datetime(text: str | None) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


WORKERS = 8
"""Questions that are under way at the same time, at most."""
TIMEOUT_S = 30.0
FRESH_S = 300.0
"""For so long an answer is not asked for again."""
DOWN_S = 60.0
"""For so long an index that did not answer is left alone."""
LONGEST_S = 86400.0
"""The longest that an index is left alone which asks for it."""
PATIENCE_S = 60.0
"""The longest that Retry-After is waited for."""
USER_AGENT = "gradmatrix (package index reader; python-urllib)"
PASSING = {
    HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT,
}  # fmt: skip
"""Answers that may be another one in a moment; the others are not asked for again."""


class IndexUnreachable(Exception):
    """The package index did not answer: it speaks of the machine, never of a stack."""


class Index:
    """The package index at ``url``, by default the one this machine is configured for; asked once per package.

    With a ``cache`` an answer of the last minutes is taken as it is, an older one is asked about ("modified since?"),
    and it is what there is while the index does not answer, or where it may not be asked (``offline``): ``notices`` say
    so.
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
        """The configured index with the user's cache; not asked where an environment variable says "offline"."""
        return cls(cache=IndexCache(user_folder()), offline=uv.offline())

    @cached_property
    def url(self) -> str:
        """Address of the simple API, without a slash at its end; may hold credentials: not for printing."""
        return (self._url or uv.index_url()).rstrip("/")

    @property
    def notices(self) -> tuple[str, ...]:
        """What whoever reads the releases must know: that they are of another day, that a kept file was damaged."""
        kept = self._cache.notices if self._cache else ()
        oldest = self.stale_since
        if oldest is None:
            return kept
        why = f"was not asked ({self._offline} is set)" if self._offline else "did not answer"
        return (*kept, f"the package index {why}: releases as of {oldest:%Y-%m-%d %H:%M} UTC")

    @property
    def stale_since(self) -> dt.datetime | None:
        """The moment (UTC) of the oldest answer that is used because no newer one could be had; None without any."""
        return min(
            (self._known[name].asked_at.astimezone(dt.UTC) for name in self._stale), default=None
        )

    def releases(self, package: str, as_of: dt.date | None = None) -> tuple[Release, ...]:
        """Every release of ``package``, oldest version first; empty for an unknown package. IndexUnreachable.

        Of an index that does not answer, what it said before the end of ``as_of`` is not good enough.
        """
        name = canonicalize_name(package)
        known = self._known.get(name)
        if known is None or (
            not _covers(known, as_of) and (name in self._stale or self._is_over(as_of))
        ):
            known = self._known[name] = self._answer(name, as_of)
        return known.releases

    def many(
        self, names: Iterable[str], as_of: dt.date | None = None
    ) -> dict[str, tuple[Release, ...]]:
        """The releases of every package of ``names``, asked for side by side."""
        names = list(names)
        with ThreadPoolExecutor(WORKERS) as pool:
            return dict(
                zip(names, pool.map(lambda name: self.releases(name, as_of), names), strict=True)
            )

    def newest(self, package: str, as_of: dt.date) -> Release | None:
        """The newest release on ``as_of`` that a plain install would take."""
        return newest(self.releases(package), as_of)

    def _answer(self, name: str, as_of: dt.date | None) -> Answer:
        address, _ = _address(self.url)
        kept = self._cache.read(address, name) if self._cache else None
        recent = kept and dt.timedelta() <= self._clock() - kept.asked_at < dt.timedelta(
            seconds=FRESH_S
        )
        if kept and recent and (_covers(kept, as_of) or not self._is_over(as_of)):
            return kept
        try:
            answer = self._asked(name, kept)
        except IndexUnreachable:
            if kept is None or not _covers(kept, as_of):
                raise
            self._stale.add(name)
            return kept
        self._stale.discard(name)
        if self._cache:
            self._cache.write(address, answer)
        return answer

    def _is_over(self, day: dt.date | None) -> bool:
        return day is not None and self._clock().astimezone(dt.UTC).date() > day

    def _asked(self, name: str, kept: Answer | None) -> Answer:
        """Ask until there is an answer, it is hopeless, or ``attempts`` are spent. IndexUnreachable."""
        if self._offline:
            raise IndexUnreachable(
                f"The package index was not asked for {name}: {self._offline} is set."
            )
        if self._down and self._clock() < self._down[0]:
            raise IndexUnreachable(f"The package index did not answer for {name}: {self._down[1]}")
        for attempt in range(self._attempts):
            try:
                return self._ask(name, kept)
            except urllib.error.HTTPError as error:
                wait_s = _retry_after(error.headers.get("Retry-After"), self._clock())
                failure, down = f"HTTP {error.code}", error.code in PASSING
                again = down and (wait_s or 0) <= PATIENCE_S
                error.close()
            except (OSError, http.client.HTTPException) as error:
                failure, down, again, wait_s = (
                    uv.scrub(str(error)) or type(error).__name__,
                    True,
                    True,
                    None,
                )
            except msgspec.DecodeError as error:
                raise IndexUnreachable(
                    f"The package index answers in an unknown format for {name}: {error}"
                ) from error
            if not again or attempt + 1 == self._attempts:
                break
            self._sleep(max(wait_s or 0.0, _backoff_s(attempt)))
        if down:
            alone_s = min(max(DOWN_S, wait_s or 0.0), LONGEST_S)
            with self._lock:
                self._down = self._clock() + dt.timedelta(seconds=alone_s), failure
        raise IndexUnreachable(f"The package index did not answer for {name}: {failure}")

    def _ask(self, name: str, kept: Answer | None) -> Answer:
        """One question; HTTPError, OSError or HTTPException where it has no answer."""
        address, credentials = _address(f"{self.url}/{name}/")
        headers = {"Accept": ACCEPT, "User-Agent": USER_AGENT, **credentials, **_conditions(kept)}
        request = urllib.request.Request(address, headers=headers)  # noqa: S310  (the user's index)
        asked_at = self._clock()
        try:
            with urllib.request.build_opener(_Redirects).open(request, timeout=TIMEOUT_S) as answer:
                return Answer(
                    name=name,
                    asked_at=asked_at,
                    etag=answer.headers.get("ETag"),
                    last_modified=answer.headers.get("Last-Modified"),
                    releases=releases_of(
                        answer.headers.get("Content-Type", ""), answer.read(), name
                    ),
                )
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.NOT_MODIFIED and kept:
                error.close()
                return msgspec.structs.replace(kept, asked_at=asked_at)
            if error.code == HTTPStatus.NOT_FOUND:
                error.close()
                return Answer(name=name, asked_at=asked_at)
            raise


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows where the index points to; its password is for the index alone."""

    def redirect_request(  # noqa: PLR0917  (the base class's arguments)
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """The next question, without credentials where another host, port or scheme gets it."""
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None and _origin(newurl) != _origin(req.full_url):
            following.remove_header("Authorization")
        return following


def _origin(url: str) -> tuple[str, str]:
    """Who answers at ``url``."""
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2].lower()


def _conditions(kept: Answer | None) -> Mapping[str, str]:
    """The headers that ask for a page only where it is another one than ``kept``."""
    if kept is None:
        return {}
    named = {"If-None-Match": kept.etag, "If-Modified-Since": kept.last_modified}
    return {name: value for name, value in named.items() if value}


def _covers(answer: Answer, as_of: dt.date | None) -> bool:
    """Whether all releases of ``as_of`` were out when ``answer`` was given."""
    return as_of is None or answer.asked_at.astimezone(dt.UTC).date() > as_of


def _retry_after(header: str | None, now: dt.datetime) -> float | None:
    """Seconds that the index asks for: a number, or a moment; None where it says nothing that can be read."""
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
    """Twice as long each time, and never the same: those that failed together do not come back together."""
    return 0.5 * 2.0**attempt * random.uniform(0.5, 1.5)  # noqa: S311  (no secret)


def _address(url: str) -> tuple[str, dict[str, str]]:
    """``url`` without credentials, and the header that carries them instead."""
    parts = urlsplit(url)
    if parts.username is None:
        return url, {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    header = {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(), header
