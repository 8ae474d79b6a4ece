"""What is regressed at present, as one issue's text and as data."""

from __future__ import annotations

import datetime as dt
import re
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from harness.diagnosis import diagnose
from harness.model import Cell
from harness.observation import Frozen
from harness.publish.site import links
from harness.publish.text import code, one_line, unlinked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.flips import Flip, Regression
    from harness.model import Record

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


def reported(regressions: Iterable[Regression], records: Mapping[Cell, Record], base: str = "") -> tuple[Reported, ...]:
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
    ran_on = [name for entry in (flip.before, flip.after) if entry is not None for name in (entry.device, entry.build)]
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
                return f"{text}\n… and {len(found) - shown} more: [history]({base}{links.HISTORY})\n"
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
    for (silent, scenario, outcome), together in groupby(sorted(found, key=lambda each: (key(each), each.cell)), key):
        title = "" if silent is last else f"\n## {TITLES[silent]}\n"
        last = silent
        yield f"{title}\n### {unlinked(scenario)}: {unlinked(outcome)}\n\n", list(together)


def block(each: Reported) -> str:
    """One regression."""
    cell = each.cell
    name = unlinked(f"{cell.stack}/{cell.scenario}/{cell.variant} on {cell.device}")
    change = f"{unlinked(each.before)} → {unlinked(each.after)}, since {each.since}"
    lines = [f"- **{name}**: {change} ([evidence]({each.evidence}))", f"  - {marked(each.why, each.names)}"]
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
