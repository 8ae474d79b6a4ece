"""Releases and upload dates that the package index offers, by its simple API: asked politely, and rarely."""

from __future__ import annotations

import base64
import datetime as dt
import email.utils
import http.client
import random
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Self
from urllib.parse import unquote, urlsplit

import msgspec
from packaging.utils import canonicalize_name

from harness import uv
from harness.index_cache import Answer, IndexCache, user_folder
from harness.index_page import ACCEPT, releases_of
from harness.releases import newest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from harness.releases import Release

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
        return min((self._known[name].asked_at.astimezone(dt.UTC) for name in self._stale), default=None)

    def releases(self, package: str, as_of: dt.date | None = None) -> tuple[Release, ...]:
        """Every release of ``package``, oldest version first; empty for an unknown package. IndexUnreachable.

        Of an index that does not answer, what it said before the end of ``as_of`` is not good enough.
        """
        name = canonicalize_name(package)
        known = self._known.get(name)
        if known is None or (not _covers(known, as_of) and (name in self._stale or self._is_over(as_of))):
            known = self._known[name] = self._answer(name, as_of)
        return known.releases

    def many(self, names: Iterable[str], as_of: dt.date | None = None) -> dict[str, tuple[Release, ...]]:
        """The releases of every package of ``names``, asked for side by side."""
        names = list(names)
        with ThreadPoolExecutor(WORKERS) as pool:
            return dict(zip(names, pool.map(lambda name: self.releases(name, as_of), names), strict=True))

    def newest(self, package: str, as_of: dt.date) -> Release | None:
        """The newest release on ``as_of`` that a plain install would take."""
        return newest(self.releases(package), as_of)

    def _answer(self, name: str, as_of: dt.date | None) -> Answer:
        address, _ = _address(self.url)
        kept = self._cache.read(address, name) if self._cache else None
        recent = kept and dt.timedelta() <= self._clock() - kept.asked_at < dt.timedelta(seconds=FRESH_S)
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
            raise IndexUnreachable(f"The package index was not asked for {name}: {self._offline} is set.")
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
                failure, down, again, wait_s = uv.scrub(str(error)) or type(error).__name__, True, True, None
            except msgspec.DecodeError as error:
                raise IndexUnreachable(f"The package index answers in an unknown format for {name}: {error}") from error
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
                    releases=releases_of(answer.headers.get("Content-Type", ""), answer.read(), name),
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
