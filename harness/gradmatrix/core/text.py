"""Untrusted text (messages of exceptions, output of scripts) made harmless for the place where it is shown."""

from __future__ import annotations

import html
import re

CONTROL = re.compile(
    r"(?:\x1b\[|\x9b)[0-9;?]*[ -/]*[@-~]"  # what moves a terminal's cursor or changes its colours
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # links and window titles
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # other control characters
    r"|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # marks that turn the direction of writing
)
MENTION = re.compile(r"(?<=@)(?=\w)")
LINKED = re.compile(
    r"(?<=#)(?=\d)|(?<=\bGH-)(?=\d)"  # an issue, here or in another repository
    r"|(?<=:)(?=//)|(?<=\bwww)(?=\.)",  # an address without brackets
    re.IGNORECASE,
)
JOINER = "\u200d"
"""Of no width: between two characters it is not seen, and they are no mention, reference or address any more."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def plain(text: str) -> str:
    """``text`` without control sequences and direction marks; line breaks and tabs stay."""
    return CONTROL.sub("", text)


def one_line(text: str) -> str:
    """``text`` made plain, on one line."""
    return " ".join(plain(text).split())


def markdown(text: str) -> str:
    """``text`` in a Markdown table cell: no markup, no new column, no new line; nobody is mentioned."""
    flat = html.escape(MENTION.sub(JOINER, one_line(text)), quote=False)
    return "".join(f"\\{letter}" if letter in "|`*_[]\\" else letter for letter in flat)


def unlinked(text: str) -> str:
    """``text`` in Markdown of which GitHub makes no link either: to an issue of anybody's, or an address."""
    return markdown(LINKED.sub(JOINER, one_line(text)))


def code(text: str) -> str:
    """``text`` as code in Markdown, not in a table: no markup, no link, nobody is mentioned."""
    return f"`{one_line(text).replace('`', chr(39))}`"


def spreadsheet(text: str) -> str:
    """``text`` in a cell of a spreadsheet; what would be taken for a formula gets an apostrophe in front."""
    safe = plain(text)
    return f"'{safe}" if safe.startswith(FORMULA) else safe
