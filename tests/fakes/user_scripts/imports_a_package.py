"""Trains with a package of its project that lies in another folder."""

# ruff: noqa: INP001  (a user's own)

from fitting import fit  # type: ignore[import-not-found, unused-ignore]

fit(steps=100)
