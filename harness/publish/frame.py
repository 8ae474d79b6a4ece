"""Records as pandas tables; every renderer starts here."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.model import Gradient, Record, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.model import Scenario

COLUMNS = (
    "stack", "scenario", "variant", "role", "device", "outcome", "passed", "gradient", "steps_per_s",
    "peak_memory_bytes", "message", "recorded_at",
)  # fmt: skip
TIMED_AT_LEAST = 2
"""Steps without which there are no quartiles."""
WHOLE_FROM = 10
"""Rates from here on are shown without a decimal."""


def steps_per_s(record: Record) -> dict[str, Any] | None:
    """Optimizer steps per second over the timed steps of a cell that passed: median, quartiles, raw samples.

    ``low`` and ``high`` are the first and third quartile; ``samples`` holds one rate per timed step.
    """
    seen = record.observation
    if seen is None or record.outcome != "trains":
        return None
    rates = [1 / seconds for seconds in seen.step_times_s if seconds > 0]
    if len(rates) < TIMED_AT_LEAST:
        return None
    low, median, high = statistics.quantiles(rates, n=4, method="inclusive")
    return {"median": median, "low": low, "high": high, "samples": rates}


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
    variants = [(s.name, v.name) for s in scenarios.values() for v in s.variants]
    order = {pair: position for position, pair in enumerate(variants)}
    columns = {name: position for position, name in enumerate(stacks)}
    table["row"] = [order.get(pair, len(order)) for pair in zip(table["scenario"], table["variant"], strict=True)]
    table["column"] = [columns.get(name, len(columns)) for name in table["stack"]]
    keys = ["device", "row", "scenario", "variant", "column", "stack"]
    return table.sort_values(keys, kind="stable").drop(columns=["row", "column"]).reset_index(drop=True)


SYMBOLS = {True: "✓", False: "✗", None: "–"}


def words(record: Record) -> str:
    """A cell in a table: a symbol and words, never colour alone."""
    symbol = SYMBOLS[record.passed]
    if record.role is Role.MISUSE and record.passed is not None and record.observation is not None:
        return f"{symbol} {'says so' if record.passed else 'silent'}: {record.outcome}"
    speed = steps_per_s(record)
    if record.outcome == "trains" and speed is not None:
        return f"{symbol} trains, {rate(speed['median'])}"
    text = f"{symbol} {record.outcome}"
    if record.outcome != "trains" and record.gradient in {Gradient.FLOWING, Gradient.PARTIAL}:
        return f"{text} (gradient {record.gradient})" if not record.outcome.startswith("gradient:") else text
    return text


def rate(per_second: float) -> str:
    """Steps per second with three digits at most."""
    return f"{per_second:.0f}/s" if per_second >= WHOLE_FROM else f"{per_second:.1f}/s"


def wide(records: Iterable[Record], scenarios: Mapping[str, Scenario], stacks: Sequence[str]) -> pd.DataFrame:
    """Rows scenario and variant, a column per stack, each cell in words; "not run" where there is no record."""
    found = list(records)
    table = frame(found, scenarios, stacks)
    by_cell = {(r.cell.stack, r.cell.scenario, r.cell.variant): words(r) for r in found}
    rows = list(dict.fromkeys(zip(table["scenario"], table["variant"], strict=True)))
    data = {stack: [by_cell.get((stack, *row), "not run") for row in rows] for stack in stacks}
    return pd.DataFrame(data, index=pd.MultiIndex.from_tuples(rows, names=["scenario", "variant"]))
