"""Rows as a pandas table: what the data files are written from, and what an analysis starts with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from harness.causes import spot
from harness.model import SHOWN
from harness.publish.text import spreadsheet

if TYPE_CHECKING:
    from harness.publish.published import Table

TYPES = {
    "passed": "boolean",
    "steps_per_s": "Float64",
    "steps_per_s_low": "Float64",
    "steps_per_s_high": "Float64",
    "peak_memory_bytes": "Int64",
}
"""Types that know a missing value."""


def frame(table: Table) -> pd.DataFrame:
    """One row per cell, in the order of the table; what a cell does not have is missing, never a number.

    ``as_of``, ``python`` and the versions are those of its stack.
    """
    rows, locks = table.rows, {lock.stack: lock for lock in table.locks}
    speeds = [row.steps_per_s for row in rows]
    told = [row.diagnosis for row in rows]
    versions = {name: {stack: lock.version(name) for stack, lock in locks.items()} for name in SHOWN}
    cells = pd.DataFrame(
        {
            "stack": [row.stack for row in rows],
            "scenario": [row.scenario for row in rows],
            "variant": [row.variant for row in rows],
            "role": [row.role.value for row in rows],
            "device": [row.device for row in rows],
            "outcome": [row.outcome for row in rows],
            "passed": [row.passed for row in rows],
            "gradient": [row.gradient.value if row.gradient else None for row in rows],
            "steps_per_s": [speed and speed.median for speed in speeds],
            "steps_per_s_low": [speed and speed.low for speed in speeds],
            "steps_per_s_high": [speed and speed.high for speed in speeds],
            "peak_memory_bytes": [row.peak_memory_bytes for row in rows],
            "message": [row.message for row in rows],
            "cause": [each.cause if each else None for each in told],
            "place": [spot(each.place) if each and each.place else None for each in told],
            "remedy": [each.remedy if each else None for each in told],
            "recorded_at": pd.to_datetime([row.recorded_at for row in rows], utc=True),
            "as_of": pd.to_datetime([locks[row.stack].as_of for row in rows]),
            "python": [locks[row.stack].python for row in rows],
            **{name: [known[row.stack] for row in rows] for name, known in versions.items()},
        }
    )
    return cells.astype(TYPES)


def as_csv(table: pd.DataFrame) -> bytes:
    """The table for spreadsheets; text that one would take for a formula gets an apostrophe in front."""
    safe = table.assign(passed=table["passed"].map({True: "true", False: "false"}).fillna(""))
    for name in ("message", "place", "python", *SHOWN):
        known = {text: spreadsheet(text) for text in table[name].dropna().unique()}
        safe[name] = table[name].map(known)
    return safe.to_csv(index=False, lineterminator="\n", float_format="%.6g").encode()


def as_parquet(table: pd.DataFrame) -> bytes:
    """The table for an analysis, with types; messages are as they were raised."""
    written: bytes = table.to_parquet(engine="pyarrow", index=False, compression="zstd")
    return written
