"""Which cells a run consists of, and why each one is run or not."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Cell, Confirmed, Lock, Record, Scenario, Steps, Variant
from gradmatrix.core.observation import SCHEMA
from gradmatrix.core.outcomes import BUILD, LIMIT_OF, NO_DEVICE, UNSUPPORTED, Outcome
from gradmatrix.run import meaning
from gradmatrix.run.scenarios import unmet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PACKAGE = Path(__file__).resolve().parent.parent
OBSERVER = (("server", "main"),)
PACING = (("cell", "Pacer"),)
"""What the observer uses for measuring in turns only. No cell of the matrix runs it."""
JUDGE = (("judge.verdict", "judge"), ("judge.verdict", "passes"))
"""Where the code starts whose meaning is part of each key."""


class Action(StrEnum):
    """What is done about a cell."""

    RUN = "run"
    KEEP = "keep"
    SETTLED = "settled"
    """Its outcome is known without running anything."""


@dataclass(frozen=True)
class Planned:
    """A cell with its key, what is done about it, and why."""

    cell: Cell
    scenario: Scenario
    variant: Variant
    key: str
    inputs: dict[str, str]
    action: Action
    why: str
    outcome: Outcome | None = None


@dataclass(frozen=True)
class Limits:
    """What a cell may take."""

    timeout_s: float
    memory_bytes: int | None
    threads: int


@dataclass(frozen=True)
class Selection:
    """The part of the matrix that was asked for; None selects all."""

    scenarios: frozenset[str] | None = None
    variants: frozenset[tuple[str, str]] | None = None
    """Pairs of scenario and variant."""
    devices: frozenset[str] | None = None
    fresh: bool = False
    """Run every selected cell, recorded or not."""

    def has(self, cell: Cell) -> bool:
        """Whether ``cell`` was asked for."""
        return (
            (self.scenarios is None or cell.scenario in self.scenarios)
            and (self.variants is None or (cell.scenario, cell.variant) in self.variants)
            and (self.devices is None or cell.device in self.devices)
        )


@dataclass(frozen=True)
class Listed(Selection):
    """Exactly these cells."""

    cells: frozenset[Cell] = frozenset()

    def has(self, cell: Cell) -> bool:
        """Whether ``cell`` is one of them."""
        return cell in self.cells


def check_keys(what: str, keys: Mapping[Cell, str], cells: Iterable[Planned]) -> None:
    """UserError if ``cells``, planned here, have other keys than another machine planned.

    Args:
        what: the job, for the error.
        keys: of the cells as they were planned there.
        cells: as they are planned here.
    """
    here = {cell.cell: cell.key for cell in cells}
    other = [cell for cell, key in keys.items() if here.get(cell) != key]
    if other:
        raise UserError(
            f"{what} was planned for something else: {other[0]} has another key here.",
            cause="the lock, a scenario, the code or the device is not that of the plan",
            next_step="use the commit and the results/locks of the plan, or plan again",
        )


def plan(
    lock: Lock,
    scenarios: Iterable[Scenario],
    devices: Mapping[str, str | None],
    *,
    steps: Steps,
    limits: Limits,
    recorded: Mapping[Cell, Record],
    selection: Selection,
) -> list[Planned]:
    """Every selected cell of one stack in the order of the scenarios' variants.

    ``devices`` maps each device to its class (processor or GPU); None if there is no such device.
    """
    return [
        plan_cell(
            cell,
            lock,
            scenario,
            variant,
            device_class=device_class,
            steps=steps,
            limits=limits,
            known=recorded.get(cell),
            fresh=selection.fresh,
        )
        for device, device_class in devices.items()
        for scenario in scenarios
        for variant in scenario.variants
        if selection.has(
            cell := Cell(
                stack=lock.stack, scenario=scenario.name, variant=variant.name, device=device
            )
        )
    ]


def plan_cell(
    cell: Cell,
    lock: Lock,
    scenario: Scenario,
    variant: Variant,
    *,
    device_class: str | None,
    steps: Steps,
    limits: Limits,
    known: Record | None,
    fresh: bool,
) -> Planned:
    """What is done about one cell; ``known`` is its newest record in this checkout."""
    inputs = {
        "lock": lock_input(lock),
        **code_inputs(scenario, variant),
        "schema": str(SCHEMA),
        "device": device_class or "absent",
        "steps": f"{steps.audit}+{steps.warmup}+{steps.timed}",
        "threads": str(limits.threads),
        "timeout_s": f"{limits.timeout_s:g}",
        "memory_bytes": "inf" if limits.memory_bytes is None else str(limits.memory_bytes),
    }
    key = key_of(inputs)
    certain = foregone(lock, variant, cell.device, device_class)
    if certain is None:
        action, why = decide(key, inputs, known, fresh=fresh)
        return Planned(cell, scenario, variant, key, inputs, action, why)
    outcome, why = certain
    says_so = known is not None and known.key == key and known.outcome == str(outcome)
    action = Action.KEEP if says_so and not outcome.spurious else Action.SETTLED
    return Planned(cell, scenario, variant, key, inputs, action, why, outcome)


def foregone(
    lock: Lock, variant: Variant, device: str, device_class: str | None
) -> tuple[Outcome, str] | None:
    """The outcome that is known without running the cell, and why; None if it must run."""
    if lock.failure is not None:
        return Outcome(lock.failure.outcome), lock.failure.message
    if device_class is None:
        return Outcome(NO_DEVICE), f"this machine has no {device} device"
    missing = unmet(variant, lock)
    return None if missing is None else (Outcome(UNSUPPORTED), missing)


def decide(
    key: str, inputs: Mapping[str, str], known: Record | None, *, fresh: bool
) -> tuple[Action, str]:
    """Whether a cell without a foregone outcome is run now, and why."""
    if fresh:
        return Action.RUN, "--fresh was given"
    if known is None:
        return Action.RUN, "never run in this checkout"
    if known.key != key:
        changed = [
            name for name, value in key_parts(inputs).items() if known.inputs.get(name) != value
        ]
        return Action.RUN, f"changed since it was recorded: {', '.join(changed)}"
    again = tried_again(inputs, known)
    if again:
        return Action.RUN, again
    seen = "confirmed" if isinstance(known, Confirmed) else "recorded"
    return Action.KEEP, f"{seen} on {known.known_at:%Y-%m-%d %H:%M} with the same key"


def tried_again(inputs: Mapping[str, str], known: Record) -> str | None:
    """Why a cell is run again although its record has the same key; None if it is not."""
    if Outcome(known.outcome).spurious:
        return f"the last outcome, {known.outcome}, says something about the machine only"
    if known.outcome == BUILD:
        return f"the last outcome, {known.outcome}, may have a missing compiler as its cause"
    limit = LIMIT_OF.get(known.outcome, "")
    if limit and float(inputs[limit]) > float(known.inputs.get(limit, 0)):
        return f"the last outcome was {known.outcome}, and {limit} has grown"
    return None


def lock_input(lock: Lock) -> str:
    """The part of a key that stands for the lock, or for why there is none."""
    return lock.digest[:16] or hashlib.sha256(repr(lock.failure).encode()).hexdigest()[:16]


def key_of(inputs: Mapping[str, str]) -> str:
    """The cell key: a hash over all that the verdict depends on."""
    text = "\n".join(f"{name}={value}" for name, value in sorted(key_parts(inputs).items()))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def key_parts(inputs: Mapping[str, str]) -> dict[str, str]:
    """The inputs without the limits: only a cell that reached one depends on it."""
    return {name: value for name, value in inputs.items() if name not in LIMIT_OF.values()}


def code_inputs(scenario: Scenario, variant: Variant) -> dict[str, str]:
    """The parts of a key that stand for code: what runs, what observes it, what judges it."""
    return {
        "scenario": scenario.source_digest[:16],
        "variant": f"{variant.role} {' '.join(variant.needs)}".rstrip(),
        **code_digests(),
    }


def code_digests() -> dict[str, str]:
    """The parts of a key that are the same for every cell."""
    return {"observer": observer_digest()[:16], "judge": judge_digest()[:16]}


@cache
def observer_digest() -> str:
    """What the code means that runs a cell inside the tested environment and watches it."""
    return meaning.digest("observe", PACKAGE / "observe", OBSERVER, PACING)


@cache
def judge_digest() -> str:
    """What the code means that turns an observation into an outcome."""
    return meaning.digest("gradmatrix", PACKAGE, JUDGE)
