"""What each run measured, by day: added, written once, and deleted when it is old."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from msgspec.structs import replace

from gradmatrix.core.model import Reference
from gradmatrix.publish.measurements import keep, prune, runs_of
from gradmatrix.run.plan import lock_input
from tests.factories import NOON, make_cell, make_lock, make_observation, make_record

if TYPE_CHECKING:
    from pathlib import Path

RECORD = make_record(
    observation=make_observation(
        step_times_s=(0.5, 0.25, 0.25), peak_memory_bytes=7, environment={"cpu": "fast"}
    ),
    inputs={"lock": "1"},
)
OTHER = replace(RECORD, cell=make_cell(variant="other"), recorded_at=NOON + dt.timedelta(hours=1))
DAY = "2026-01-15/stack.parquet"


def test_a_file_has_speed_memory_and_machine(tmp_path: Path) -> None:
    """Of each cell that has a speed."""
    keep(tmp_path, "stack", [RECORD, make_record("step:exception")], NOON)
    [row] = pd.read_parquet(tmp_path / DAY).to_dict("records")
    told = row["variant"], row["steps_per_s"], row["peak_memory_bytes"], row["processor"]
    assert ("plain", 4.0, 7, "fast") == told


REFERENCE = Reference("work", before_s=(1.0, 3.0, 2.0), after_s=(4.0, 5.0))
WAITED = make_observation(
    step_times_s=(0.75, 0.5), waited_s=(0.25, 0.0), environment={"cpu": "fast"}
)


def test_a_reference_beside_the_cell_is_kept(tmp_path: Path) -> None:
    """With the rate in the time in which the cell had a core. Without one, both are missing."""
    beside = replace(RECORD, observation=WAITED, reference=REFERENCE)
    keep(tmp_path, "stack", [beside, OTHER], NOON)
    table = pd.read_parquet(tmp_path / DAY).set_index("variant")
    names = ["reference_s_low", "reference_s", "reference_s_high", "on_core_per_s"]
    assert [1.2, 3.0, 4.8, 2.0] == pytest.approx(list(table.loc["plain", names]))
    assert table.loc["other", ["reference_program", *names]].isna().all()


def test_the_newest_run_with_a_reference_is_the_speed(tmp_path: Path) -> None:
    """Runs are told once, the oldest first. Runs with another lock are left out."""
    lock = make_lock("stack")
    now = {"lock": lock_input(lock)}
    first = replace(RECORD, inputs=now)
    second = replace(
        first, recorded_at=NOON + dt.timedelta(days=1), observation=WAITED, reference=REFERENCE
    )
    third = replace(first, recorded_at=NOON + dt.timedelta(days=2))
    other = replace(third, recorded_at=NOON + dt.timedelta(days=3), inputs={"lock": "moved"})
    keep(tmp_path, "stack", [first], NOON)
    keep(tmp_path, "stack", [second], NOON)
    keep(tmp_path, "stack", [third], NOON)
    keep(tmp_path, "stack", [other], NOON)
    [(cell, runs)] = runs_of(tmp_path, lock, [third])
    assert first.cell == cell
    assert [4.0, 5 / 3, 4.0] == pytest.approx(list(runs.steps_per_s), abs=1e-4)
    assert runs.start_memory_bytes == 100_000_000
    assert runs.speed is not None
    assert ("fast work", 2.0) == (runs.speed.machine, runs.speed.rate.median)


@pytest.mark.parametrize("content", [None, b"half a file"])
def test_a_later_run_of_the_day_is_added(tmp_path: Path, content: bytes | None) -> None:
    """Each measurement is written once; a damaged file is written anew."""
    keep(tmp_path, "stack", [RECORD], NOON)
    if content is not None:
        (tmp_path / DAY).write_bytes(content)
    keep(tmp_path, "stack", [RECORD, OTHER], NOON)
    assert ["other", "plain"] == list(pd.read_parquet(tmp_path / DAY)["variant"])


def test_old_days_are_deleted_and_not_written_again(tmp_path: Path) -> None:
    """A journal may be older. A folder with another name stays."""
    keep(tmp_path, "stack", [RECORD], NOON)
    (tmp_path / "2026-01-xx").mkdir()
    late = NOON + dt.timedelta(days=91)
    prune(tmp_path, late)
    keep(tmp_path, "stack", [RECORD], late)
    assert ["2026-01-xx"] == [path.name for path in tmp_path.iterdir()]
