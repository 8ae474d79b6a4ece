"""Lies beside a module that has the name of an installed library: a script gets its own."""

# ruff: noqa: INP001  (a user's own)

import sys

import regex  # type: ignore[import-untyped, unused-ignore]

sys.exit(regex.EXIT_CODE)
