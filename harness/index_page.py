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
        self.files.append(_File(filename=filename, uploaded=uploaded, yanked=yanked, requires_python=python))


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
