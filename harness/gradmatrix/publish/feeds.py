"""What changed, for readers who do not look at the pages every day.

``feed.xml`` is an Atom feed (RFC 4287). It has an entry for each publication of a stack, the newest
first. ``regressions`` are the cells that fail now and passed before, as the text of one issue or as
data.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections import Counter
from itertools import groupby, islice
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import msgspec

from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Cell
from gradmatrix.core.observation import Frozen
from gradmatrix.core.text import code, counted, one_line, tally, unlinked, with_code
from gradmatrix.judge.change import Change
from gradmatrix.judge.diagnosis import diagnose
from gradmatrix.publish.site import links

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gradmatrix.compare.history import History
    from gradmatrix.core.model import Record
    from gradmatrix.judge.history import Flip, Regression


ATOM, XHTML = "http://www.w3.org/2005/Atom", "http://www.w3.org/1999/xhtml"
MOST_ENTRIES = 50
MOST_FLIPS = 40
"""An entry names at most this many cells, and counts the others."""
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_OID, "gradmatrix")
"""Ids are made from a stack and the time of its publication, which never change."""
NEVER = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
"""The date of an empty feed: Atom requires one, and it must not depend on the clock."""
NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def feed(history: History, base_url: str | None = None) -> bytes:
    """Return the newest changes as Atom.

    Args:
        history: The published changes.
        base_url: Where results/ is served; it makes the links absolute.
    """
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
    """Return the prefix of absolute links: ``url`` with a slash at its end, or nothing.

    Raises:
        UserError: If ``url`` is not the address of a web server.
    """
    if url is None:
        return ""
    if not re.fullmatch(r"https?://[^\s\"'<>]+", url):
        raise UserError(
            f"{url!r} is not the address of a web server.",
            cause="--base-url is where results/ is served, such as https://example.org/matrix/",
            next_step="write it with https://, or leave it out to get relative links",
        )
    return url if url.endswith("/") else f"{url}/"


def publications_of(flips: Sequence[Flip]) -> Iterator[list[Flip]]:
    """Group the changes, oldest first, by publication and stack, newest first."""
    for _, together in groupby(reversed(flips), key=lambda flip: flip.after.published):
        by_stack = sorted(together, key=lambda flip: flip.cell)
        yield from (list(each) for _, each in groupby(by_stack, key=lambda flip: flip.cell.stack))


def entry(flips: Sequence[Flip], base: str) -> ET.Element:
    """Return the entry for one publication of one stack."""
    stack, published = flips[0].cell.stack, flips[0].after.published
    element = ET.Element("entry")
    text(element, "title", f"{stack}: {count_changes(flips)}")
    text(element, "id", uuid.uuid5(NAMESPACE, f"{stack} {moment(published)}").urn)
    text(element, "updated", moment(published))
    ET.SubElement(
        element, "link", rel="alternate", type="text/html", href=f"{base}stacks/{stack}.html"
    )
    content = ET.SubElement(ET.SubElement(element, "content", type="xhtml"), "div", xmlns=XHTML)
    items = ET.SubElement(content, "ul")
    for line in entry_lines(flips):
        text(items, "li", line)
    return element


def count_changes(flips: Sequence[Flip]) -> str:
    """Return how many changes of each kind there are, and how many came from our own code."""
    ours = sum(flip.ours_alone for flip in flips)
    count = Counter(flip.kind for flip in flips if not flip.ours_alone)
    kinds = {kind.value: count[kind] for kind in Change}
    return tally({**kinds, "re-computed after a change of our own measurement": ours})


def entry_lines(flips: Sequence[Flip]) -> Iterator[str]:
    """Yield a line for each changed cell. New cells are only counted."""
    changed = [flip for flip in flips if flip.kind is not Change.NEW]
    for flip in changed[:MOST_FLIPS]:
        yield sentence(flip)
    if len(changed) > MOST_FLIPS:
        yield f"and {len(changed) - MOST_FLIPS} more"
    new = [flip for flip in flips if flip.kind is Change.NEW]
    if new:
        yield f"new: {sum(flip.after.passed is True for flip in new)} of {len(new)} cells pass"


def sentence(flip: Flip) -> str:
    """Return how a cell changed, and what may be the reason."""
    name = f"{flip.cell.scenario}/{flip.cell.variant} on {flip.cell.device}"
    was = f"{flip.before.outcome} → " if flip.before is not None else ""
    now = "no longer part of the matrix" if flip.after.gone else flip.after.outcome
    return f"{flip.kind}: {name}: {was}{now}. {flip.why}".rstrip()


def text(parent: ET.Element, tag: str, words: str) -> None:
    """Add an element with text, without characters that XML forbids."""
    ET.SubElement(parent, tag).text = NO_XML.sub("", one_line(words))


def moment(when: dt.datetime) -> str:
    """Format a time as Atom requires."""
    return f"{when.astimezone(dt.UTC):%Y-%m-%dT%H:%M:%SZ}"


MOST_BYTES = 60_000
"""The longest text. GitHub accepts 65,536 characters."""
MOST_OF_THE_END = 300
"""Space kept free for the last line, which counts what was left out."""
MOST_OF_A_LINE = 300
REPEAT = "gradmatrix run {stack} --cell {scenario}/{variant} --device {device} --fresh"
TITLES = {False: "Regressed", True: "Mistakes that used to be reported and are now silent"}


class Reported(Frozen, frozen=True):
    """One regression, with all that a reader needs to investigate it."""

    cell: Cell
    silent: bool
    """A misuse that the stack used to report and does not report now."""
    before: str
    after: str
    """The outcome now."""
    since: dt.date
    why: str
    """What changed at the same time: packages, machine, build of torch, and our own measurement."""
    names: tuple[str, ...]
    """Names in ``why`` that come from locks and records: packages, machines, builds."""
    ours: tuple[str, ...]
    """What changed in our own measurement. If there is anything, it may be the reason."""
    moved: dict[str, tuple[str | None, str | None]]
    """The versions of every changed package, before and after."""
    diagnosis: str
    """The first line of the diagnosis, or else the message of the exception."""
    repeat: str
    evidence: str


def reported(
    regressions: Iterable[Regression], records: Mapping[Cell, Record], base: str = ""
) -> tuple[Reported, ...]:
    """Return the regressions with their evidence. ``base`` is put before the paths of pages."""
    return tuple(
        Reported(
            cell=each.now.cell,
            silent=each.silent,
            before=each.flip.before.outcome if each.flip.before is not None else "",
            after=each.now.outcome,
            since=each.flip.after.at.date(),
            why=each.flip.why,
            names=names_of(each.flip),
            ours=each.flip.ours,
            moved={package.name: (package.before, package.after) for package in each.flip.moved},
            diagnosis=first_line(records.get(each.now.cell)),
            repeat=REPEAT.format(**msgspec.structs.asdict(each.now.cell)),
            evidence=base + links.evidence(each.now.cell),
        )
        for each in regressions
    )


def names_of(flip: Flip) -> tuple[str, ...]:
    """Return the names of packages, machines and builds that the reason of a change may contain."""
    ran_on = [
        name
        for entry in (flip.before, flip.after)
        if entry is not None
        for name in (entry.device, entry.build)
    ]
    return tuple(dict.fromkeys(name for name in (*map(str, flip.moved), *ran_on) if name))


def first_line(record: Record | None) -> str:
    """Return the first line of the reason why a cell fails."""
    if record is None:
        return ""
    found = diagnose(record.observation) if record.observation is not None else None
    return one_line(found.text[0] if found is not None else record.message)[:MOST_OF_A_LINE]


def as_issue(found: Sequence[Reported], base: str = "") -> str:
    """Return the text of the issue in Markdown. What does not fit is counted."""
    text = f"{count_regressions(found)}\n"
    size, shown = len(text.encode()), 0
    for title, members in sections(found):
        for place, each in enumerate(members):
            part = (title if place == 0 else "") + block(each)
            size += len(part.encode())
            if size > MOST_BYTES - MOST_OF_THE_END:
                return (
                    f"{text}\n… and {len(found) - shown} more: [history]({base}{links.HISTORY})\n"
                )
            text += part
            shown += 1
    return text


def count_regressions(found: Sequence[Reported]) -> str:
    """Return how many cells are regressed, and for how many our own code changed too."""
    if not found:
        return "No cell of the published matrix has regressed."
    has = "has" if len(found) == 1 else "have"
    unsure = sum(bool(each.ours) for each in found)
    also = f" For {unsure} of them our own measurement changed as well." if unsure else ""
    count = counted(len(found), "cell")
    what = "passed with an earlier lock of the same stack, fails now"
    return f"{count} {has} regressed: {what}.{also}"


def sections(found: Iterable[Reported]) -> Iterator[tuple[str, list[Reported]]]:
    """Yield the regressions by scenario and outcome with their titles, misuse last."""

    def key(each: Reported) -> tuple[bool, str, str]:
        return each.silent, each.cell.scenario, each.after

    last = None
    for (silent, scenario, outcome), together in groupby(
        sorted(found, key=lambda each: (key(each), each.cell)), key
    ):
        title = "" if silent is last else f"\n## {TITLES[silent]}\n"
        last = silent
        yield f"{title}\n### {unlinked(scenario)}: {unlinked(outcome)}\n\n", list(together)


def block(each: Reported) -> str:
    """Return one regression as a list entry."""
    cell = each.cell
    name = unlinked(f"{cell.stack}/{cell.scenario}/{cell.variant} on {cell.device}")
    change = f"{unlinked(each.before)} → {unlinked(each.after)}, since {each.since}"
    lines = [
        f"- **{name}**: {change} ([evidence]({each.evidence}))",
        f"  - {marked(each.why, each.names)}",
    ]
    if each.diagnosis:
        lines.append(f"  - {code(each.diagnosis)}")
    lines.append(f"  - to repeat it: {code(each.repeat)}")
    return "\n".join(lines) + "\n"


def marked(text: str, names: Sequence[str]) -> str:
    """Return ``text`` in Markdown, with the ``names`` in it as code."""
    if not names:
        return unlinked(text)
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return with_code(re.split(f"({pattern})", text))
