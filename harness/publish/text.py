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
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def plain(text: str) -> str:
    """``text`` without control sequences and direction marks; line breaks and tabs stay."""
    return CONTROL.sub("", text)


def one_line(text: str) -> str:
    """``text`` made plain, on one line."""
    return " ".join(plain(text).split())


def markdown(text: str) -> str:
    """``text`` in a Markdown table cell: no markup, no new column, no new line."""
    flat = html.escape(one_line(text), quote=False)
    return "".join(f"\\{letter}" if letter in "|`*_[]\\" else letter for letter in flat)


def spreadsheet(text: str) -> str:
    """``text`` in a cell of a spreadsheet; what would be taken for a formula gets an apostrophe in front."""
    safe = plain(text)
    return f"'{safe}" if safe.startswith(FORMULA) else safe
