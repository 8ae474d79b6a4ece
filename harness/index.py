"""Releases and upload dates that the package index offers, by its simple API (JSON or HTML)."""

from __future__ import annotations

import base64
import datetime as dt
import http.client
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import msgspec
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from harness import uv

if TYPE_CHECKING:
    from collections.abc import Iterable

ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
WORKERS = 8
TIMEOUT_S = 30.0


class IndexUnreachable(Exception):
    """The package index did not answer: it speaks of the machine, never of a stack."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """One version of a package; ``uploaded`` is the UTC day of its first file, None where the index does not tell."""

    version: str
    uploaded: dt.date | None
    yanked: bool
    prerelease: bool


class _File(msgspec.Struct, frozen=True):
    """One file of a package, as both formats of the simple API describe it."""

    filename: str
    uploaded: dt.datetime | None = msgspec.field(name="upload-time", default=None)
    yanked: bool | str = False


class _Page(msgspec.Struct, frozen=True):
    files: tuple[_File, ...]


class Index:
    """The package index at ``url``, by default the one this machine is configured for; asked once per package."""

    def __init__(self, url: str | None = None, *, attempts: int = 3) -> None:
        self._url = url
        self._attempts = attempts
        self._known: dict[str, tuple[Release, ...]] = {}

    @cached_property
    def url(self) -> str:
        """Address of the simple API, without a slash at its end; may hold credentials: not for printing."""
        return (self._url or uv.index_url()).rstrip("/")

    def releases(self, package: str) -> tuple[Release, ...]:
        """Every release of ``package``, oldest version first; empty for an unknown package. IndexUnreachable."""
        name = canonicalize_name(package)
        if name not in self._known:
            self._known[name] = _releases(self._files(name))
        return self._known[name]

    def many(self, names: Iterable[str]) -> dict[str, tuple[Release, ...]]:
        """The releases of every package of ``names``, asked for side by side."""
        names = list(names)
        with ThreadPoolExecutor(WORKERS) as pool:
            return dict(zip(names, pool.map(self.releases, names), strict=True))

    def newest(self, package: str, as_of: dt.date) -> Release | None:
        """The newest release on ``as_of`` that a plain install would take: neither yanked nor a pre-release."""
        return newest(self.releases(package), as_of)

    def _files(self, name: str) -> tuple[_File, ...]:
        for attempt in range(1, self._attempts + 1):
            try:
                return self._ask(name)
            except urllib.error.HTTPError as error:
                if error.code == http.HTTPStatus.NOT_FOUND:
                    return ()
                failure = f"HTTP {error.code}"
            except (OSError, http.client.HTTPException) as error:
                failure = uv.scrub(str(error)) or type(error).__name__
            except msgspec.DecodeError as error:
                raise IndexUnreachable(f"The package index answers in an unknown format for {name}: {error}") from error
            if attempt < self._attempts:
                time.sleep(0.5 * attempt)
        raise IndexUnreachable(f"The package index did not answer for {name}: {failure}")

    def _ask(self, name: str) -> tuple[_File, ...]:
        address, headers = _address(f"{self.url}/{name}/")
        request = urllib.request.Request(address, headers={"Accept": ACCEPT, **headers})  # noqa: S310  (the user's index)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310  (as above)
            body = answer.read()
            if "json" in answer.headers.get("Content-Type", ""):
                return msgspec.json.decode(body, type=_Page).files
        parser = _Anchors()
        parser.feed(body.decode("utf-8", errors="replace"))
        return tuple(parser.files)


def newest(releases: Iterable[Release], as_of: dt.date) -> Release | None:
    """The newest of ``releases`` on ``as_of``, neither yanked nor a pre-release."""
    there = [
        release
        for release in releases
        if release.uploaded and release.uploaded <= as_of and not (release.yanked or release.prerelease)
    ]
    return max(there, key=lambda release: Version(release.version), default=None)


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
        self.files.append(_File(filename=filename, uploaded=uploaded, yanked="data-yanked" in found))


def _releases(files: Iterable[_File]) -> tuple[Release, ...]:
    """Files grouped by version; a release is yanked when all of its files are."""
    grouped: dict[Version, list[_File]] = {}
    for file in files:
        version = _version(file.filename)
        if version is not None:
            grouped.setdefault(version, []).append(file)
    return tuple(
        Release(
            version=str(version),
            uploaded=min((_day(file.uploaded) for file in group if file.uploaded), default=None),
            yanked=all(file.yanked is not False for file in group),
            prerelease=version.is_prerelease,
        )
        for version, group in sorted(grouped.items())
    )


def _version(filename: str) -> Version | None:
    try:
        if filename.endswith(".whl"):
            return parse_wheel_filename(filename)[1]
        return parse_sdist_filename(filename)[1]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None  # an egg, an installer, or a name from before the rules


def _day(moment: dt.datetime) -> dt.date:
    return moment.astimezone(dt.UTC).date() if moment.tzinfo else moment.date()


def _datetime(text: str | None) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def _address(url: str) -> tuple[str, dict[str, str]]:
    """``url`` without credentials, and the header that carries them instead."""
    parts = urlsplit(url)
    if parts.username is None:
        return url, {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    header = {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(), header
