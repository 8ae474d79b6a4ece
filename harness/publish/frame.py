"""Records as a pandas table: what data files are written from, and what an analysis starts with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from harness.publish.grid import row_order, steps_per_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.model import Record, Scenario

COLUMNS = (
    "stack", "scenario", "variant", "role", "device", "outcome", "passed", "gradient", "steps_per_s",
    "peak_memory_bytes", "message", "recorded_at",
)  # fmt: skip


def frame(records: Iterable[Record], scenarios: Mapping[str, Scenario], stacks: Sequence[str]) -> pd.DataFrame:
    """One row per cell, in the order of the scenarios' variants and then of ``stacks``; unknown cells last."""
    rows = [
        {
            "stack": record.cell.stack,
            "scenario": record.cell.scenario,
            "variant": record.cell.variant,
            "role": record.role.value,
            "device": record.cell.device,
            "outcome": record.outcome,
            "passed": record.passed,
            "gradient": record.gradient.value if record.gradient else None,
            "steps_per_s": (speed := steps_per_s(record)) and speed["median"],
            "peak_memory_bytes": record.observation.peak_memory_bytes if record.observation else None,
            "message": record.message,
            "recorded_at": record.recorded_at,
        }
        for record in records
    ]
    table = pd.DataFrame(rows, columns=COLUMNS)
    order = row_order(scenarios)
    columns = {name: position for position, name in enumerate(stacks)}
    table["row"] = [order(pair)[0] for pair in zip(table["scenario"], table["variant"], strict=True)]
    table["column"] = [columns.get(name, len(columns)) for name in table["stack"]]
    keys = ["device", "row", "scenario", "variant", "column", "stack"]
    return table.sort_values(keys, kind="stable").drop(columns=["row", "column"]).reset_index(drop=True)
