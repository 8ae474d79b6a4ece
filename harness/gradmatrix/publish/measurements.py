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
from itertools import chain
from typing import TYPE_CHECKING, Any

from gradmatrix.core.files import write_atomically
from gradmatrix.core.model import Cell
from gradmatrix.publish.speed import Band, Runs, Speed, speeds
from gradmatrix.run.plan import lock_input

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from gradmatrix.core.model import Lock, Record

FOLDER = "measurements"
KEPT = dt.timedelta(days=90)
RANGES = ("steps_per_s", "on_core_per_s", "reference_s")
"""Columns that each have two more, for the ends of a range."""
BOUNDS = ("_low", "", "_high")
SAME = ("scenario", "variant", "device", "recorded_at")
"""The columns that name a measurement: publishing it twice writes it once."""


def keep(folder: Path, stack: str, records: Iterable[Record], now: dt.datetime) -> None:
    """Add what ``records`` of a stack measured to the file of each day, if it is not too old."""
    days: dict[dt.date, list[dict[str, Any]]] = defaultdict(list)
    for row in measured(records):
        if row["recorded_at"] > now - KEPT:
            days[row["recorded_at"].date()].append(row)
    for day, rows in days.items():
        add(folder / f"{day}" / f"{stack}.parquet", rows)


def measured(records: Iterable[Record]) -> Iterator[dict[str, Any]]:
    """Yield a line for each cell of a stack that has a speed."""
    records = list(records)
    known = {record.cell: each for record, each in speeds(records)}
    for record in records:
        rate, seen, speed = record.steps_per_s, record.observation, known.get(record.cell)
        if rate is None or seen is None:
            continue
        yield {
            "scenario": record.cell.scenario,
            "variant": record.cell.variant,
            "device": record.cell.device,
            "recorded_at": record.recorded_at,
            "run": record.run,
            "lock": record.lock,
            "processor": seen.environment.get("gpu") or seen.environment.get("cpu"),
            "build": record.build,
            **columns("steps_per_s", Band(rate.low, rate.median, rate.high)),
            "peak_memory_bytes": seen.peak_memory_bytes,
            "reference_program": speed.program if speed else None,
            **columns("on_core_per_s", speed.rate if speed else None),
            **columns("reference_s", speed.reference_s if speed else None),
        }


def columns(name: str, band: Band | None) -> dict[str, float | None]:
    """Return the three columns of a value with its quartiles."""
    return {f"{name}{each}": band and band[n] for n, each in enumerate(BOUNDS)}


def runs_of(folder: Path, lock: Lock, records: Iterable[Record]) -> Iterator[tuple[Cell, Runs]]:
    """Yield what ``records`` and the files say of each cell of a stack, with its lock of today."""
    paths = sorted(folder.glob(f"*/{lock.stack}.parquet"))
    found: dict[Cell, dict[dt.datetime, dict[str, Any]]] = defaultdict(dict)
    records = list(records)
    start = {each.cell: each.observation.start_memory_bytes for each in records if each.observation}
    for row in chain(measured(records), *map(read, paths)):
        if row["lock"] == lock_input(lock):
            cell = Cell(lock.stack, row["scenario"], row["variant"], row["device"])
            found[cell][row["recorded_at"]] = row
    for cell, by_time in found.items():
        rows = [by_time[moment] for moment in sorted(by_time)]
        beside = [row for row in rows if row.get("reference_program")]
        speed = speed_of(beside[-1]) if beside else None
        yield cell, Runs(tuple(row["steps_per_s"] for row in rows), speed, start.get(cell))


def speed_of(row: Mapping[str, Any]) -> Speed:
    """Return the speed in a line of a file."""
    rate, reference_s = (Band(*(row[f"{name}{each}"] for each in BOUNDS)) for name in RANGES[1:])
    return Speed(rate, reference_s, row["processor"], row["reference_program"])


def read(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file; none if it is damaged, or not there."""
    import pyarrow as pa  # noqa: PLC0415  (only publishing needs it)
    import pyarrow.parquet as pq  # noqa: PLC0415

    with suppress(FileNotFoundError, pa.ArrowInvalid):
        rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(path.read_bytes())).to_pylist()
        return rows
    return []


def add(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write ``rows`` to a file, with those that it has. A damaged file is written anew."""
    import pyarrow as pa  # noqa: PLC0415  (see above)
    import pyarrow.parquet as pq  # noqa: PLC0415

    once = {tuple(row[name] for name in SAME): row for row in (*read(path), *rows)}
    numbers = {"recorded_at": pa.timestamp("us", tz="UTC"), "peak_memory_bytes": pa.int64()}
    numbers |= dict.fromkeys((f"{name}{each}" for name in RANGES for each in BOUNDS), pa.float32())
    found = [once[each] for each in sorted(once)]
    schema = pa.schema([(name, numbers.get(name, pa.string())) for name in rows[0]])
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
