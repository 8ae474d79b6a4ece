"""Text for people: numbers with nouns, lists, and untrusted text made safe for where it is shown.

Untrusted are the messages of exceptions and the output of scripts.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

CONTROL = re.compile(
    r"(?:\x1b\[|\x9b)[0-9;?]*[ -/]*[@-~]"  # moves the cursor of a terminal or changes its colours
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # links and window titles
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # other control characters
    r"|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # marks that change the direction of writing
    r"|[\ud800-\udfff]"  # halves of characters, which cannot be printed
)
MENTION = re.compile(r"(?<=@)(?=\w)")
LINKED = re.compile(
    r"(?<=#)(?=\d)|(?<=\bGH-)(?=\d)"  # an issue, here or in another repository
    r"|(?<=:)(?=//)|(?<=\bwww)(?=\.)",  # an address without brackets
    re.IGNORECASE,
)
JOINER = "\u200d"
"""It has no width: it is not seen, but it breaks a mention, a reference or an address."""
MARKUP = str.maketrans({letter: f"\\{letter}" for letter in "|`*_[]\\"})
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def counted(number: int, noun: str) -> str:
    """A number with its noun: ``1 cell``, ``2 cells``."""
    return f"{number} {noun if number == 1 else noun + 's'}"


def listed(names: Iterable[str], last: str = "and") -> str:
    """All of ``names``: ``a, b and c``; empty for none."""
    *others, final = list(names) or [""]
    return f"{', '.join(others)} {last} {final}" if others else final


def tally(counts: Mapping[str, int]) -> str:
    """How often there is each: ``2 regressed, 1 fixed``; empty if there is none."""
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def versioned(versions: Mapping[str, str | None]) -> str:
    """Packages with known versions, such as ``torch 2.13.0, peft 0.19.1``."""
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)


def few(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """The first ``most`` of ``names``, and how many more there are: ``a, b and 3 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return separator.join(names[:most]) + more


def plain(text: str) -> str:
    """``text`` without control sequences and direction marks; line breaks and tabs stay."""
    return CONTROL.sub("", text)


def one_line(text: str) -> str:
    """``text`` made plain, on one line."""
    return " ".join(plain(text).split())


def markdown(text: str) -> str:
    """``text`` in a Markdown table cell: no markup, no new column, no new line, no mention."""
    flat = html.escape(MENTION.sub(JOINER, one_line(text)), quote=False)
    return flat.translate(MARKUP)


def unlinked(text: str) -> str:
    """``text`` for a Markdown table cell in which GitHub makes no links to issues or addresses."""
    return markdown(LINKED.sub(JOINER, one_line(text)))


def code(text: str) -> str:
    """``text`` as code in Markdown, not in a table: no markup, no link, no mention."""
    return f"`{one_line(text).replace('`', chr(39))}`"


def with_code(parts: Iterable[str]) -> str:
    """Markdown of ``parts``: every second one is code. Nothing else is markup, a link or a mention.

    The spaces around code stay.
    """
    return "".join(code(part) if place % 2 else spaced(part) for place, part in enumerate(parts))


def spaced(text: str) -> str:
    """``text`` without links, but with the spaces at its ends."""
    if not text.strip():
        return " " if text else ""
    return f"{' ' * text.startswith(' ')}{unlinked(text)}{' ' * text.endswith(' ')}"


def spreadsheet(text: str) -> str:
    """``text`` for a cell of a spreadsheet; an apostrophe before what would be a formula."""
    safe = plain(text)
    return f"'{safe}" if safe.startswith(FORMULA) else safe
