"""feed.xml: an Atom feed (RFC 4287) of what changed, an entry per publication and stack, the newest first."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections import Counter
from itertools import groupby, islice
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from harness.errors import UserError
from harness.flips import Kind
from harness.publish.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.flips import Flip
    from harness.history import History

ATOM, XHTML = "http://www.w3.org/2005/Atom", "http://www.w3.org/1999/xhtml"
MOST_ENTRIES = 50
MOST_FLIPS = 40
"""Cells that an entry names; the rest is a number."""
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_OID, "gradmatrix")
"""Ids are made of what never changes: a stack and the moment of its publication."""
NEVER = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
"""When the feed of an empty history was updated: a feed must have a date, and this one no clock."""
NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def feed(history: History, base_url: str | None = None) -> bytes:
    """The newest changes; with ``base_url``, where results/ is served, links are whole addresses."""
    base = base_of(base_url)
    publications = list(islice(publications_of(history.flips), MOST_ENTRIES))
    top = ET.Element("feed", xmlns=ATOM)
    text(top, "title", "gradmatrix: which stacks train, what changed")
    text(top, "id", uuid.uuid5(NAMESPACE, "feed").urn)
    text(top, "updated", moment(publications[0][0].after.published if publications else NEVER))
    text(ET.SubElement(top, "author"), "name", "gradmatrix")
    ET.SubElement(top, "link", rel="self", type="application/atom+xml", href=f"{base}feed.xml")
    ET.SubElement(top, "link", rel="alternate", type="text/html", href=f"{base}index.html")
    for flips in publications:
        top.append(entry(flips, base))
    content: bytes = ET.tostring(top, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def base_of(url: str | None) -> str:
    """What is put before a path; nothing without an address. UserError for what is no address of a web server."""
    if url is None:
        return ""
    if not re.fullmatch(r"https?://[^\s\"'<>]+", url):
        raise UserError(
            f"{url!r} is no address of a web server.",
            cause="--base-url is where results/ is served from, such as https://example.org/matrix/",
            next_step="write it with https://, or leave it out: links are relative then",
        )
    return url if url.endswith("/") else f"{url}/"


def publications_of(flips: Sequence[Flip]) -> Iterator[list[Flip]]:
    """The flips of one stack that were published together, the newest first; ``flips`` have the oldest first."""
    for _, together in groupby(reversed(flips), key=lambda flip: flip.after.published):
        by_stack = sorted(together, key=lambda flip: flip.cell)
        yield from (list(each) for _, each in groupby(by_stack, key=lambda flip: flip.cell.stack))


def entry(flips: Sequence[Flip], base: str) -> ET.Element:
    """One publication of one stack."""
    stack, published = flips[0].cell.stack, flips[0].after.published
    element = ET.Element("entry")
    text(element, "title", f"{stack}: {counted(flips)}")
    text(element, "id", uuid.uuid5(NAMESPACE, f"{stack} {moment(published)}").urn)
    text(element, "updated", moment(published))
    ET.SubElement(element, "link", rel="alternate", type="text/html", href=f"{base}stacks/{stack}.html")
    content = ET.SubElement(ET.SubElement(element, "content", type="xhtml"), "div", xmlns=XHTML)
    items = ET.SubElement(content, "ul")
    for line in lines(flips):
        text(items, "li", line)
    return element


def counted(flips: Sequence[Flip]) -> str:
    """How many of each kind, in the order of the kinds; what only our own change brought is no news of the stack."""
    ours = sum(flip.ours_alone for flip in flips)
    count = Counter(flip.kind for flip in flips if not flip.ours_alone)
    words = [f"{count[kind]} {kind}" for kind in Kind if count[kind]]
    return ", ".join(words + [f"{ours} judged anew, our own measurement changed"] * (ours > 0))


def lines(flips: Sequence[Flip]) -> Iterator[str]:
    """What became of each cell; of new ones only how many train."""
    told = [flip for flip in flips if flip.kind is not Kind.NEW]
    for flip in told[:MOST_FLIPS]:
        yield sentence(flip)
    if len(told) > MOST_FLIPS:
        yield f"and {len(told) - MOST_FLIPS} more"
    new = [flip for flip in flips if flip.kind is Kind.NEW]
    if new:
        yield f"new: {sum(flip.after.passed is True for flip in new)} of {len(new)} cells pass"


def sentence(flip: Flip) -> str:
    """What became of a cell, and what may be the reason."""
    cell = flip.cell
    was = f"{flip.before.outcome} → " if flip.before is not None else ""
    now = "no longer part of the matrix" if flip.after.gone else flip.after.outcome
    return f"{flip.kind}: {cell.scenario}/{cell.variant} on {cell.device}: {was}{now}. {flip.why}".rstrip()


def text(parent: ET.Element, tag: str, words: str) -> None:
    """A child of words, without what XML has no place for."""
    ET.SubElement(parent, tag).text = NO_XML.sub("", one_line(words))


def moment(when: dt.datetime) -> str:
    """A date as Atom has it."""
    return f"{when.astimezone(dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
