"""Tells by its exit code whether a library that it imports was there before it ran."""

# ruff: noqa: D103, INP001, PLC0415  (a user's own)

import sys

ALREADY = "regex" in sys.modules


def tokenize(text: str) -> object:
    import regex  # type: ignore[import-untyped, unused-ignore]

    return regex.split(r"\W", text)


tokenize("it is there")
sys.exit(40 + ALREADY)
