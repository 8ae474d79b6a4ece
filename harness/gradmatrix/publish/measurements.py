"""How fast each cell ran, night by night: ``results/measurements/DATE/STACK.parquet``.

A record that stands keeps the step times of the run that made it. What newer runs measured is kept
here, for ``KEPT`` days.
"""

from __future__ import annotations

import datetime as dt
import io
import shutil
from collections import defaultdict
from contextlib import suppress
from statistics import median
from typing import TYPE_CHECKING, Any

from gradmatrix.core.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from gradmatrix.core.model import Record

FOLDER = "measurements"
KEPT = dt.timedelta(days=90)
NUMBERS = (
    "steps_per_s",
    "steps_per_s_low",
    "steps_per_s_high",
    "reference_before_s",
    "reference_after_s",
)
SAME = ("scenario", "variant", "device", "recorded_at")
"""The columns that name a measurement: publishing it twice writes it once."""


def keep(folder: Path, stack: str, records: Iterable[Record], now: dt.datetime) -> None:
    """Add what ``records`` of a stack measured to the file of each day, if it is not too old."""
    days: dict[dt.date, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        row = measured(record)
        if row is not None and record.recorded_at > now - KEPT:
            days[record.recorded_at.date()].append(row)
    for day, rows in days.items():
        add(folder / f"{day}" / f"{stack}.parquet", rows)


def measured(record: Record) -> dict[str, Any] | None:
    """Return a line of a file; None if the cell has no speed."""
    speed, seen = record.steps_per_s, record.observation
    if speed is None or seen is None:
        return None
    beside = record.reference or None
    return {
        "scenario": record.cell.scenario,
        "variant": record.cell.variant,
        "device": record.cell.device,
        "recorded_at": record.recorded_at,
        "run": record.run,
        "lock": record.lock,
        "processor": seen.environment.get("gpu") or seen.environment.get("cpu"),
        "build": record.build,
        "steps_per_s": speed.median,
        "steps_per_s_low": speed.low,
        "steps_per_s_high": speed.high,
        "peak_memory_bytes": seen.peak_memory_bytes,
        "reference_program": beside and beside.program,
        "reference_before_s": beside and median(beside.before_s),
        "reference_after_s": beside and median(beside.after_s),
    }


def add(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write ``rows`` to a file, with those that it has. A damaged file is written anew."""
    import pyarrow as pa  # noqa: PLC0415  (only publishing needs it)
    import pyarrow.parquet as pq  # noqa: PLC0415

    columns = list(rows[0])
    with suppress(FileNotFoundError, pa.ArrowInvalid):
        rows = [*pq.read_table(io.BytesIO(path.read_bytes())).to_pylist(), *rows]
    once = {tuple(row[name] for name in SAME): row for row in rows}
    numbers = {"recorded_at": pa.timestamp("us", tz="UTC"), "peak_memory_bytes": pa.int64()}
    numbers |= dict.fromkeys(NUMBERS, pa.float32())
    found = [once[each] for each in sorted(once)]
    schema = pa.schema([(name, numbers.get(name, pa.string())) for name in columns])
    file = io.BytesIO()
    pq.write_table(
        pa.Table.from_pylist(found, schema), file, compression="zstd", write_statistics=False
    )
    write_atomically(path, file.getvalue())


def prune(folder: Path, now: dt.datetime) -> None:
    """Delete the days that are older than ``KEPT``."""
    for day in folder.glob("????-??-??"):
        with suppress(ValueError):  # a folder that is none of ours
            if dt.date.fromisoformat(day.name) < (now - KEPT).date():
                shutil.rmtree(day)
