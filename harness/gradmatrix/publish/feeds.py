"""feed.xml: an Atom feed (RFC 4287) of what changed, an entry per publication and stack, the newest first.

badges/: a JSON per stack, and per scenario of a stack, as shields.io reads it from an address ("endpoint").

A badge answers "may I train with this?". It counts the variants that people reported; a variant counts as one that
trains where it passes on every device on which it was judged. In words and in colour:

- a control fails: ``1 of 5 controls fail``, red: not even what nobody complained of trains;
- all reported variants train: ``4 of 4 reports train``, brightgreen;
- some do: ``2 of 4 reports train``, yellow;
- none does: ``0 of 4 reports train``, orange where a remedy trains, else red;
- without a judged report the controls are counted: ``5 of 5 controls train``, brightgreen, or else the remedies;
- nothing was judged: ``not judged``, lightgrey.

Misuse is left out: it cannot train.

What is regressed at present, as one issue's text and as data.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections import Counter, defaultdict
from itertools import groupby, islice
from typing import TYPE_CHECKING, Literal
from xml.etree import ElementTree as ET

import msgspec

from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Cell, Role
from gradmatrix.core.observation import Frozen
from gradmatrix.core.text import code, one_line, unlinked
from gradmatrix.judge.change import Change
from gradmatrix.judge.diagnosis import diagnose
from gradmatrix.publish.site import links

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gradmatrix.compare.history import History
    from gradmatrix.judge.history import Flip
    from gradmatrix.publish.rows import Row, Table

    Verdicts = Mapping[Role, Mapping[tuple[str, str], bool]]
    "Whether each judged variant of a role trains, wherever it was judged."
    from collections.abc import Mapping

    from gradmatrix.core.model import Record
    from gradmatrix.judge.history import Regression


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
    ET.SubElement(
        element, "link", rel="alternate", type="text/html", href=f"{base}stacks/{stack}.html"
    )
    content = ET.SubElement(ET.SubElement(element, "content", type="xhtml"), "div", xmlns=XHTML)
    items = ET.SubElement(content, "ul")
    for line in lines(flips):
        text(items, "li", line)
    return element


def counted(flips: Sequence[Flip]) -> str:
    """How many of each kind, in the order of the kinds; what only our own change brought is no news of the stack."""
    ours = sum(flip.ours_alone for flip in flips)
    count = Counter(flip.kind for flip in flips if not flip.ours_alone)
    words = [f"{count[kind]} {kind}" for kind in Change if count[kind]]
    return ", ".join(words + [f"{ours} judged anew, our own measurement changed"] * (ours > 0))


def lines(flips: Sequence[Flip]) -> Iterator[str]:
    """What became of each cell; of new ones only how many train."""
    told = [flip for flip in flips if flip.kind is not Change.NEW]
    for flip in told[:MOST_FLIPS]:
        yield sentence(flip)
    if len(told) > MOST_FLIPS:
        yield f"and {len(told) - MOST_FLIPS} more"
    new = [flip for flip in flips if flip.kind is Change.NEW]
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


class Badge(Frozen, frozen=True):
    """The schema of a shields endpoint."""

    schemaVersion: Literal[1]  # noqa: N815  (its name there)
    label: str
    message: str
    color: str


def badges(table: Table) -> Iterator[tuple[str, bytes]]:
    """The path of each badge below ``badges/``, and its JSON."""
    by_stack: dict[str, list[Row]] = {stack: [] for stack in table.stacks}
    by_scenario: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in table.rows:
        if row.role is not Role.MISUSE:
            by_stack[row.stack].append(row)
            by_scenario[row.stack, row.scenario].append(row)
    encoder = msgspec.json.Encoder()
    for stack, rows in by_stack.items():
        yield f"{stack}.json", encoder.encode(badge(stack, rows)) + b"\n"
    for (stack, scenario), rows in sorted(by_scenario.items()):
        yield (
            f"{stack}/{scenario}.json",
            encoder.encode(badge(f"{scenario} on {stack}", rows)) + b"\n",
        )


def badge(label: str, rows: Iterable[Row]) -> Badge:
    """The badge of some rows, none of them misuse."""
    message, color = state(verdicts(rows))
    return Badge(schemaVersion=1, label=label, message=message, color=color)


def verdicts(rows: Iterable[Row]) -> Verdicts:
    """Whether each judged variant trains, by role."""
    found: dict[Role, dict[tuple[str, str], bool]] = {role: {} for role in Role}
    for row in rows:
        if row.passed is not None:
            variant = row.scenario, row.variant
            found[row.role][variant] = row.passed and found[row.role].get(variant, True)
    return found


def state(judged: Verdicts) -> tuple[str, str]:
    """Message and colour."""
    controls, reports, remedies = (
        judged[role] for role in (Role.CONTROL, Role.REPORTED, Role.REMEDY)
    )
    failing = len(controls) - sum(controls.values())
    if failing:
        return f"{failing} of {len(controls)} controls fail", "red"
    for word, counted in (("reports", reports), ("controls", controls), ("remedies", remedies)):
        if counted:
            trains = sum(counted.values())
            return f"{trains} of {len(counted)} {word} train", color_of(
                trains, len(counted), has_remedy=any(remedies.values())
            )
    return "not judged", "lightgrey"


def color_of(trains: int, counted: int, *, has_remedy: bool) -> str:
    """The colour of so many that train, where the controls do."""
    if trains == counted:
        return "brightgreen"
    if trains:
        return "yellow"
    return "orange" if has_remedy else "red"


MARKER = "<!-- gradmatrix: regressions -->"
"""By it the issue is found again; nothing of it is shown."""
MOST_BYTES = 60_000
"""Of the whole text: GitHub takes 65,536 characters."""
MOST_OF_THE_END = 300
"""What is kept free for the line that counts what was left out."""
MOST_OF_A_LINE = 300
REPEAT = 'nox -s "matrix({stack})" -- --cell {scenario}/{variant} --device {device} --fresh'
TITLES = {False: "Regressed", True: "Misuse that is not told of any more"}


class Reported(Frozen, frozen=True):
    """One regression, with all that a reader needs to look into it."""

    cell: Cell
    silent: bool
    """A misuse that the stack once told of, and does not any more."""
    before: str
    after: str
    """The outcome at present."""
    since: dt.date
    why: str
    """What changed with it: packages, and machine, build and our own measurement where those changed too."""
    names: tuple[str, ...]
    """What ``why`` takes from locks and records: packages that moved, machines, builds."""
    ours: tuple[str, ...]
    """What of our own measurement changed with it; where it is not empty, that may be the reason."""
    moved: dict[str, tuple[str | None, str | None]]
    """The version of every package that moved, before and after."""
    diagnosis: str
    """Its first line, or the message of the exception; empty where there is neither."""
    repeat: str
    evidence: str


def reported(
    regressions: Iterable[Regression], records: Mapping[Cell, Record], base: str = ""
) -> tuple[Reported, ...]:
    """The regressions with their evidence; ``base`` is put before the paths of pages."""
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
    """What may stand in its ``why`` and is no word of ours."""
    ran_on = [
        name
        for entry in (flip.before, flip.after)
        if entry is not None
        for name in (entry.device, entry.build)
    ]
    return tuple(dict.fromkeys(name for name in (*map(str, flip.moved), *ran_on) if name))


def first_line(record: Record | None) -> str:
    """What a record says first of why it fails."""
    if record is None:
        return ""
    found = diagnose(record.observation) if record.observation is not None else None
    return one_line(found.text[0] if found is not None else record.message)[:MOST_OF_A_LINE]


def as_issue(found: Sequence[Reported], base: str = "") -> str:
    """The text of the issue in Markdown, never too long for one; what is left out is counted."""
    text = f"{MARKER}\n{summary(found)}\n"
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


def summary(found: Sequence[Reported]) -> str:
    """What it is about."""
    if not found:
        return "No cell of the published matrix is regressed."
    count = f"{len(found)} cell is" if len(found) == 1 else f"{len(found)} cells are"
    text = f"{count} regressed: passed with an earlier lock of the same stack, and fails now."
    unsure = sum(bool(each.ours) for each in found)
    return text + (f" With {unsure} of them our own measurement changed as well." if unsure else "")


def sections(found: Iterable[Reported]) -> Iterator[tuple[str, list[Reported]]]:
    """The regressions by scenario and outcome under their titles, misuse last."""

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
    """One regression."""
    cell = each.cell
    name = unlinked(f"{cell.stack}/{cell.scenario}/{cell.variant} on {cell.device}")
    change = f"{unlinked(each.before)} → {unlinked(each.after)}, since {each.since}"
    lines = [
        f"- **{name}**: {change} ([evidence]({each.evidence}))",
        f"  - {marked(each.why, each.names)}",
    ]
    if each.diagnosis:
        lines.append(f"  - {code(each.diagnosis)}")
    lines.append(f"  - repeat it: {code(each.repeat)}")
    return "\n".join(lines) + "\n"


def marked(text: str, names: Sequence[str]) -> str:
    """``text`` with the ``names`` in it as code, the longest first."""
    if not names:
        return unlinked(text)
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    parts = re.split(f"({pattern})", text)
    return "".join(code(part) if place % 2 else spaced(part) for place, part in enumerate(parts))


def spaced(text: str) -> str:
    """``text`` unlinked, with the spaces at its ends."""
    start, end = " " * text.startswith(" "), " " * (text.endswith(" ") and bool(text.strip()))
    return f"{start}{unlinked(text)}{end}"
