"""One package's page of the simple API, in JSON or HTML → its releases."""

from __future__ import annotations

import datetime as dt
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import msgspec
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename

from harness.releases import Release

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.version import Version

ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


class _File(msgspec.Struct, frozen=True):
    """One file of a package, as both formats of the simple API describe it."""

    filename: str
    uploaded: dt.datetime | None = msgspec.field(name="upload-time", default=None)
    yanked: bool | str = False


class _Page(msgspec.Struct, frozen=True):
    files: tuple[_File, ...]


def releases_of(content_type: str, body: bytes) -> tuple[Release, ...]:
    """The releases of a page, oldest version first; msgspec.DecodeError for what calls itself JSON and is none."""
    if "json" in content_type:
        return _releases(msgspec.json.decode(body, type=_Page).files)
    parser = _Anchors()
    parser.feed(body.decode("utf-8", errors="replace"))
    return _releases(parser.files)


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
