"""The matrix without a checkout: the one that the wheel carries, or a newer one from the web.

``bundle.zip`` lies in the package. It has matrix.toml, the scenarios, the locks, the published
records and their history, and ``bundle.json``. A newer one is fetched from the page of the
published matrix into the user's cache. The newest is unpacked once into that cache, and used where
no matrix.toml is found. Environments are installed into the unpacked folder too.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import os
import shutil
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from gradmatrix.core.errors import UserError
from gradmatrix.core.files import NOT_READABLE, held, write_atomically
from gradmatrix.core.model import Moment
from gradmatrix.core.observation import Frozen
from gradmatrix.core.text import counted
from gradmatrix.stacks import uv
from gradmatrix.stacks.index import TIMEOUT_S, user_folder

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "bundle.zip"
DESCRIPTION = "bundle.json"
CARRIED = Path(__file__).resolve().parent.parent / NAME
SCHEMA = 1
MOST_BYTES = 2**30
"""A larger bundle is not fetched."""
THIS_MACHINE = {"127.0.0.1", "::1", "localhost"}
NOT_A_BUNDLE = (
    KeyError, EOFError, NotImplementedError, RuntimeError, ValueError,  # of zipfile
    zipfile.BadZipFile, zlib.error, *NOT_READABLE,
)  # fmt: skip
"""What reading a damaged one raises, beside the errors of the machine."""


class Description(Frozen, frozen=True):
    """What ``bundle.json`` says."""

    schema: int
    published: Moment
    """When the newest of its records was made."""
    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    """Of all its files. Its first digits are the name of a folder."""


class Offer(Description, frozen=True):
    """What ``bundle.json`` beside a bundle on the web says."""

    sha256: str
    """Of the bundle."""
    size_bytes: Annotated[int, msgspec.Meta(ge=0, le=MOST_BYTES)]


class Updated(Frozen, frozen=True, kw_only=True):
    """What ``update`` did; ``--json`` prints this."""

    schema: Literal[1] = 1
    url: str
    """The page."""
    before: dt.datetime | None
    """When the matrix was published that was used; None if there was none that could be read."""
    offered: dt.datetime
    """When that of the page was published."""
    used: dt.datetime
    """When the one was published that is used from now on: the newer of both."""

    @property
    def is_new(self) -> bool:
        """Whether the matrix of the page is used now and was not before."""
        return self.used != self.before


@dataclass(frozen=True)
class Bundle:
    """A bundle that is unpacked."""

    root: Path
    published: dt.datetime


Described = TypeVar("Described", Description, Offer)


def carried(path: Path = CARRIED, cache: Path | None = None) -> Bundle | None:
    """The newest bundle: of this package, or fetched. None in a checkout, which has none.

    Args:
        path: the file of this package.
        cache: where it is unpacked; by default the user's cache.

    Raises:
        UserError: if a file cannot be read, or was made by a newer gradmatrix.
    """
    cache = cache or user_folder()
    fetched = cache / NAME
    again = {path: "install gradmatrix again", fetched: "fetch it again: gradmatrix update"}
    found: list[tuple[Description, Path]] = []
    for each in filter(Path.is_file, again):
        try:
            with zipfile.ZipFile(each) as archive:
                content = archive.read(DESCRIPTION)
            found.append((described(content, Description, str(each)), each))
        except (OSError, *NOT_A_BUNDLE) as error:
            raise damaged(each, error, again[each]) from error
    if not found:
        return None
    newest, file = max(found, key=lambda each: each[0].published)
    try:
        with zipfile.ZipFile(file) as archive:
            return unpacked(archive, newest, cache)
    except (OSError, *NOT_A_BUNDLE) as error:
        raise damaged(file, error, again[file]) from error


def damaged(path: Path, error: Exception, next_step: str) -> UserError:
    """The error of a bundle that cannot be read or unpacked."""
    return UserError(
        f"{path} cannot be read: {error}.",
        cause="the file is damaged, or the disk is full",
        next_step=next_step,
    )


def described(content: bytes, kind: type[Described], name: str) -> Described:
    """A description as a ``kind``.

    Args:
        content: the JSON.
        kind: what it says.
        name: of what it describes, for the error.

    Raises:
        UserError: if a newer gradmatrix made it.
        msgspec.MsgspecError: if it is none.
    """
    schema = msgspec.json.decode(content, type=dict[str, object]).get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise UserError(
            f"{name} has schema {schema}, and this gradmatrix reads {SCHEMA}.",
            cause="a newer gradmatrix made it",
            next_step="upgrade gradmatrix",
        )
    return msgspec.json.decode(content, type=kind)


def unpacked(archive: zipfile.ZipFile, known: Description, cache: Path) -> Bundle:
    """Unpack a bundle in one step, whoever else does so at the same time."""
    found = Bundle(cache / f"matrix-{known.digest[:16]}", known.published)
    if found.root.exists():
        return found
    cache.mkdir(parents=True, exist_ok=True)
    with held(cache / f".{found.root.name}.lock"):
        if not found.root.exists():
            half = Path(tempfile.mkdtemp(dir=cache, prefix=".half-"))
            try:
                archive.extractall(half)
                os.replace(half, found.root)  # noqa: PTH105  (one step)
            finally:
                shutil.rmtree(half, ignore_errors=True)
    return found


def dated(published: dt.datetime) -> str:
    """The day of a publication, and how long ago that is."""
    days = (dt.datetime.now(dt.UTC) - published).days
    ago = f"{counted(days, 'day')} ago" if days > 0 else "today"
    return f"{published:%Y-%m-%d}, {ago}"


def page() -> str | None:
    """The address of the published matrix, from the metadata of this package; None if not known."""
    from importlib import metadata

    try:
        urls = metadata.metadata("gradmatrix").get_all("Project-URL") or ()
    except metadata.PackageNotFoundError:
        return None
    known = dict(url.split(", ", 1) for url in urls)
    return known.get("Matrix")


def update(
    url: str,
    accept: Callable[[Path], object],
    *,
    path: Path = CARRIED,
    cache: Path | None = None,
) -> Updated:
    """Fetch the bundle of a page if it is newer than what is used here.

    Args:
        url: the page of the published matrix.
        accept: reads an unpacked bundle as a command would; its error refuses the bundle.
        path: the file of this package.
        cache: where the bundle is kept.

    Raises:
        UserError: if there is no newer one that can be used; what was used before stays.
    """
    cache, url = cache or user_folder(), url.rstrip("/") + "/"
    try:
        before = carried(path, cache)
    except UserError:  # a damaged one is replaced
        before = None
    stays = "nothing was changed"
    if before is not None:
        stays += f": the matrix published on {dated(before.published)}, stays"
    offer = offered(url, stays)
    known = None if before is None else before.published
    newest = max(offer.published, known or offer.published)
    done = Updated(url=url, before=known, offered=offer.published, used=newest)
    if done.is_new:
        content = downloaded(url, offer, stays)
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                inner = described(archive.read(DESCRIPTION), Description, NAME)
                after = unpacked(archive, inner, cache)
            accept(after.root)
        except (UserError, *NOT_A_BUNDLE) as error:
            raise UserError(
                f"The matrix of {url} cannot be used by this gradmatrix.",
                cause=str(error).partition("\n")[0],
                next_step=f"upgrade gradmatrix; {stays}",
            ) from error
        write_atomically(cache / NAME, content)
        remove_unused(cache, after.root)
    return done


def offered(url: str, stays: str) -> Offer:
    """What a page says of its bundle; UserError if it says nothing, or is newer than this."""
    try:
        return described(fetched(url + DESCRIPTION, stays), Offer, f"The matrix of {url}")
    except NOT_READABLE as error:
        raise UserError(
            f"{url}{DESCRIPTION} describes no matrix.",
            cause="something else answered: a page to sign in to this network, or another site",
            next_step=f"look at {url} in a browser, and run the command again; {stays}",
        ) from error


def downloaded(url: str, offer: Offer, stays: str) -> bytes:
    """The bundle of a page; UserError if it is another one than the page says."""
    content = fetched(url + NAME, stays, offer.size_bytes)
    if hashlib.sha256(content).hexdigest() != offer.sha256:
        raise UserError(
            f"{url}{NAME} has another checksum than the page says.",
            cause=f"the download broke off or was changed on its way: {len(content)} of "
            f"{offer.size_bytes} bytes came",
            next_step=f"run the command again; {stays}",
        )
    return content


def remove_unused(cache: Path, used: Path) -> None:
    """Remove the unpacked bundles in which nothing was installed or run, except the one in use."""
    for folder in set(cache.glob("matrix-*")) - {used}:
        if not (folder / ".gradmatrix").exists():
            shutil.rmtree(folder, ignore_errors=True)


def fetched(url: str, stays: str, most_bytes: int = 2**20) -> bytes:
    """What ``url`` answers, at most ``most_bytes``.

    Raises:
        UserError: if it cannot be fetched; ``stays`` says what is used instead.
    """
    import urllib.request
    from http.client import HTTPException

    if forbidden := uv.offline():
        raise UserError(
            f"{url} was not asked: {forbidden} is set.",
            cause="this variable forbids use of the network",
            next_step=f"unset {forbidden} to fetch the matrix; {stays}",
        )
    refuse_unsafe(url)
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310  (see above)
            refuse_unsafe(answer.url)
            content: bytes = answer.read(most_bytes)
    except (OSError, ValueError, HTTPException) as error:
        raise UserError(
            f"{url} cannot be fetched: {getattr(error, 'reason', error)}.",
            cause="this machine is offline, or nothing is published at this address",
            next_step=f"check the network and the address, and run the command again; {stays}",
        ) from error
    return content


def refuse_unsafe(url: str) -> None:
    """UserError if what comes from ``url`` could be changed on its way: it has code that runs."""
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in THIS_MACHINE):
        raise UserError(
            f"A matrix is not fetched from {url}.",
            cause="it has scenarios, which are code that runs here; only https:// protects them",
            next_step="name an address that begins with https://",
        )
