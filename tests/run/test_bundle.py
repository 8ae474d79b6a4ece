"""The matrix without a checkout: made from one, fetched, unpacked once, refused if damaged."""

from __future__ import annotations

import hashlib
import json
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from gradmatrix.core.errors import UserError
from gradmatrix.run import bundle
from tools.bundle import write, write_for_the_web

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FILES = {
    "matrix.toml": "stacks = []\n",
    "scenarios/claims.toml": "",
    "results/records/latest.jsonl": '{"recorded_at":"2026-11-20T10:00:00Z"}\n'
    '{"recorded_at":"2026-11-21T10:00:00.25Z"}\n',
    "results/history/latest.jsonl": "",
    "results/history/locks/latest.jsonl": "",
}
DAY = datetime(2026, 11, 21, 10, 0, 0, 250_000, tzinfo=UTC)
LATER = datetime(2026, 11, 28, tzinfo=UTC)
SIGN_IN = b"<!doctype html><title>Sign in to this network</title>"
Pages = dict[str, bytes]


@pytest.fixture
def carried(tmp_path: Path) -> Path:
    """The bundle of a checkout that also has pages and a journal."""
    for name, text in {**FILES, "results/index.html": "", ".gradmatrix/records/a": ""}.items():
        (tmp_path / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "checkout" / name).write_text(text)
    write(tmp_path / "checkout", tmp_path / "bundle.zip")
    return tmp_path / "bundle.zip"


@pytest.fixture
def later(carried: Path, tmp_path: Path) -> Pages:
    """What the page has a week later."""
    records = tmp_path / "checkout" / "results" / "records" / "latest.jsonl"
    records.write_text('{"recorded_at":"2026-11-28T00:00:00Z"}\n')
    write_for_the_web(tmp_path / "checkout", tmp_path / "web")
    return {f"/matrix/{path.name}": path.read_bytes() for path in (tmp_path / "web").iterdir()}


def test_a_confirmed_record_makes_a_newer_bundle(carried: Path, tmp_path: Path) -> None:
    """A night that only confirmed has news too: with which lock the verdicts hold."""
    path = tmp_path / "checkout" / "results" / "confirmed" / "latest.json"
    path.parent.mkdir()
    path.write_text('{\n "at": "2026-11-29T00:00:00Z"\n}\n')
    assert "2026-11-29T00:00:00Z" == write(tmp_path / "checkout", carried)["published"]


@contextmanager
def served(pages: Pages, elsewhere: str = "") -> Iterator[str]:
    """The address of a page on this machine.

    Args:
        pages: what it has, by path.
        elsewhere: where it sends everybody.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = pages.get(self.path)
            self.send_response(302 if elsewhere else 200 if content is not None else 404)
            if elsewhere:
                self.send_header("Location", elsewhere)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/matrix"
        finally:
            server.shutdown()
            thread.join()


def test_it_is_unpacked_like_a_checkout(carried: Path, tmp_path: Path) -> None:
    """With its own files and no others; what was made there stays."""
    found = bundle.carried(carried, tmp_path / "cache")
    assert found is not None
    assert DAY == found.published
    texts = {
        path.relative_to(found.root).as_posix(): path.read_text()
        for path in found.root.rglob("*")
        if path.is_file() and path.name != bundle.DESCRIPTION
    }
    assert texts == FILES
    (found.root / "made here").touch()
    assert bundle.carried(carried, tmp_path / "cache") == found
    assert (found.root / "made here").exists()


def test_the_same_checkout_gives_the_same_bundle(carried: Path, tmp_path: Path) -> None:
    """Byte for byte."""
    write(tmp_path / "checkout", tmp_path / "again.zip")
    assert carried.read_bytes() == (tmp_path / "again.zip").read_bytes()


def test_several_may_unpack_it_at_once(carried: Path, tmp_path: Path) -> None:
    """Nothing but the folder and its lock is left."""
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: bundle.carried(carried, tmp_path / "cache"), range(16)))
    assert len(found) == 1
    assert 2 == len(list((tmp_path / "cache").iterdir()))


def test_a_checkout_carries_none(tmp_path: Path) -> None:
    """It has the files themselves."""
    assert bundle.carried() is None
    assert bundle.carried(tmp_path / "none.zip") is None


def test_what_cannot_be_read_is_an_error(carried: Path, tmp_path: Path) -> None:
    """A damaged file, and one that a newer gradmatrix made."""
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(carried.read_bytes()[:200])
    with pytest.raises(UserError, match=r"damaged\.zip cannot be read"):
        bundle.carried(damaged, tmp_path / "cache")
    with zipfile.ZipFile(carried) as archive:
        description = json.loads(archive.read(bundle.DESCRIPTION))
    newer = tmp_path / "newer.zip"
    with zipfile.ZipFile(newer, "w") as archive:
        archive.writestr(bundle.DESCRIPTION, json.dumps({**description, "schema": 9, "new": 1}))
    with pytest.raises(UserError, match="has schema 9, and this gradmatrix reads 1"):
        bundle.carried(newer, tmp_path / "cache")


def update(url: str, carried: Path, accept: Callable[[Path], object] = str) -> bundle.Updated:
    """Fetch what ``url`` has, in place of a carried bundle."""
    return bundle.update(url, accept, path=carried, cache=carried.parent / "cache")


def test_a_newer_one_is_fetched_and_used_from_then_on(carried: Path, later: Pages) -> None:
    """The folder of the old one is removed, and fetching again changes nothing."""
    cache = carried.parent / "cache"
    old = bundle.carried(carried, cache)
    with served(later) as url:
        done = update(url, carried)
        assert (DAY, LATER, LATER, True) == (done.before, done.offered, done.used, done.is_new)
        again = update(f"{url}/", carried)
    assert (LATER, LATER, False) == (again.before, again.used, again.is_new)
    new = bundle.carried(carried, cache)
    assert old is not None
    assert new is not None
    assert (LATER, False) == (new.published, old.root.exists())
    assert "2026-11-28" in (new.root / "results" / "records" / "latest.jsonl").read_text()


def test_where_something_ran_the_old_folder_stays(carried: Path, later: Pages) -> None:
    """It has environments and records of the user's own."""
    old = bundle.carried(carried, carried.parent / "cache")
    assert old is not None
    (old.root / ".gradmatrix").mkdir()
    with served(later) as url:
        update(url, carried)
    assert (old.root / ".gradmatrix").exists()


def test_a_newer_wheel_is_not_replaced(carried: Path, later: Pages, tmp_path: Path) -> None:
    """By an older page, or by what was fetched before the wheel came."""
    newer = tmp_path / "newer.zip"
    newer.write_bytes(later["/matrix/bundle.zip"])
    write_for_the_web(tmp_path / "checkout", tmp_path / "web")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / bundle.NAME).write_bytes(carried.read_bytes())
    found = bundle.carried(newer, tmp_path / "cache")
    assert found is not None
    assert LATER == found.published
    records = tmp_path / "checkout" / "results" / "records" / "latest.jsonl"
    records.write_text('{"recorded_at":"2026-11-01T00:00:00Z"}\n')
    write_for_the_web(tmp_path / "checkout", tmp_path / "web")
    older = {f"/matrix/{path.name}": path.read_bytes() for path in (tmp_path / "web").iterdir()}
    with served(older) as url:
        done = bundle.update(url, str, path=newer, cache=tmp_path / "cache")
    assert (LATER, 1, False) == (done.used, done.offered.day, done.is_new)


def test_a_damaged_download_is_fetched_again(carried: Path, later: Pages) -> None:
    """The error says how."""
    cache = carried.parent / "cache"
    cache.mkdir()
    (cache / bundle.NAME).write_bytes(b"PK")
    with pytest.raises(UserError, match="gradmatrix update"):
        bundle.carried(carried, cache)
    with served(later) as url:
        assert update(url, carried).before is None
    found = bundle.carried(carried, cache)
    assert found is not None
    assert LATER == found.published


def changed(pages: Pages, **values: Any) -> bytes:  # noqa: ANN401  (what JSON has)
    """The description of the page, with other values."""
    return json.dumps({**json.loads(pages["/matrix/bundle.json"]), **values}).encode()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda _: {"/matrix/bundle.json": SIGN_IN}, "describes no matrix"),
        (lambda _: {"/matrix/bundle.json": b'"text"'}, "describes no matrix"),
        (lambda _: {"/matrix/bundle.zip": SIGN_IN}, "has another checksum than the page says"),
        (lambda p: {"/matrix/bundle.zip": p["/matrix/bundle.zip"][:99]}, "99 of"),
        (lambda p: {"/matrix/bundle.json": changed(p, sha256="0" * 64)}, "another checksum"),
        (lambda p: {"/matrix/bundle.json": changed(p, schema=2, x=1)}, "has schema 2, and this"),
        (
            lambda p: {
                "/matrix/bundle.zip": SIGN_IN,
                "/matrix/bundle.json": changed(
                    p, sha256=hashlib.sha256(SIGN_IN).hexdigest(), size_bytes=len(SIGN_IN)
                ),
            },
            "cannot be used by this gradmatrix",
        ),
    ],
    ids=["sign in", "text", "sign in later", "cut off", "other checksum", "newer", "no zip"],
)
def test_what_is_not_what_the_page_says_is_refused(
    carried: Path, later: Pages, change: Callable[[Pages], Pages], complaint: str
) -> None:
    """The old one stays."""
    with (
        served({**later, **change(later)}) as url,
        pytest.raises(UserError, match=complaint) as error,
    ):
        update(url, carried)
    assert error.value.cause
    assert error.value.next_step
    stays(carried)


def stays(carried: Path) -> None:
    """The carried bundle is still the one that is used."""
    found = bundle.carried(carried, carried.parent / "cache")
    assert found is not None
    assert (DAY, False) == (found.published, (carried.parent / "cache" / bundle.NAME).exists())


def test_what_this_release_cannot_read_is_refused(carried: Path, later: Pages) -> None:
    """A newer release may have published records of another schema."""

    def accept(root: Path) -> None:
        assert (root / "matrix.toml").exists()
        raise UserError("latest.jsonl has schema 7.", cause="another release", next_step="upgrade")

    with served(later) as url, pytest.raises(UserError, match="cannot be used") as error:
        update(url, carried, accept)
    assert "latest.jsonl has schema 7." == error.value.cause
    assert "2026-11-21" in error.value.next_step
    stays(carried)


@pytest.mark.parametrize("place", ["closed", "empty"])
def test_a_page_that_does_not_answer_is_an_error(carried: Path, place: str) -> None:
    """The error says how old the matrix is that stays."""
    with served({}) as url:
        if place == "empty":
            with pytest.raises(UserError, match="cannot be fetched: Not Found"):
                update(url, carried)
    if place == "closed":
        with pytest.raises(UserError, match=r"cannot be fetched: .*refused") as error:
            update(url, carried)
        assert "the matrix published on 2026-11-21, " in error.value.next_step
        assert "ago, stays" in error.value.next_step
    stays(carried)


def test_without_the_network_nothing_is_asked(
    carried: Path, later: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable that forbids it is named."""
    monkeypatch.setenv("GRADMATRIX_OFFLINE", "1")
    with (
        served(later) as url,
        pytest.raises(UserError, match="was not asked: GRADMATRIX_OFFLINE is set"),
    ):
        update(url, carried)
    stays(carried)


@pytest.mark.parametrize("url", ["http://example.org/", "file:///etc", "ftp://example.org", "x"])
def test_only_addresses_that_are_protected_are_asked(carried: Path, url: str) -> None:
    """A bundle has code that runs here."""
    with pytest.raises(UserError, match="A matrix is not fetched from"):
        update(url, carried)
    stays(carried)


def test_a_page_cannot_lead_to_an_unprotected_one(carried: Path, later: Pages) -> None:
    """This machine has other names too."""
    with served(later) as there:
        other = f"{there.replace('127.0.0.1', '127.1')}/bundle.json"
        with (
            served({}, elsewhere=other) as url,
            pytest.raises(UserError, match=r"A matrix is not fetched from http://127\.1:"),
        ):
            update(url, carried)
    stays(carried)
