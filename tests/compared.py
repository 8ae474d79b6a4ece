"""Two sides and their comparison for tests, with every kind of change."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gradmatrix.compare.comparison import Results, compare
from gradmatrix.core.model import Gradient, LockedPackage, Role
from gradmatrix.core.observation import Raised
from gradmatrix.measure.statistics import Key, Measured, Ratio, Size
from tests.factories import (
    make_cell,
    make_lock,
    make_observation,
    make_record,
    make_scenario,
    make_variant,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gradmatrix.compare.comparison import Comparison
    from gradmatrix.core.model import Lock, Record

HOSTILE = "<script>alert(1)</script> @someone ``` | [x](javascript:1)\x1b[31m\u202e #1"
LIBRARY = "transformers/modeling.py"
OLD = make_lock(
    "old",
    as_of=dt.date(2025, 3, 5),
    requirements=("torch", "trl<0.16"),
    packages=(
        LockedPackage(name="torch", version="2.6.0", released=dt.date(2025, 1, 29)),
        LockedPackage(name="trl", version="0.15.2", released=dt.date(2025, 2, 25)),
        LockedPackage(name="requests", version="2.32.3"),
        LockedPackage(name="numpy", version="2.2.3"),
    ),
    digest="1" * 64,
)
NEW = make_lock(
    "new",
    as_of=dt.date(2026, 1, 15),
    requirements=("torch", "trl"),
    packages=(
        LockedPackage(name="torch", version="2.10.0", released=dt.date(2026, 1, 10)),
        LockedPackage(name="trl", version="1.0.0", released=dt.date(2026, 1, 2)),
        LockedPackage(name="httpx", version="1.0"),
        LockedPackage(name="numpy", version="2.2.3"),
    ),
    digest="2" * 64,
)
SCENARIOS = {
    "sums": make_scenario(
        "sums",
        make_variant("plain"),
        make_variant("first", Role.REPORTED),
        make_variant("second", Role.REPORTED),
        make_variant("mended", Role.REPORTED),
        make_variant("other", Role.REPORTED),
        make_variant("shaky", Role.REPORTED),
        make_variant("added", Role.REPORTED),
        make_variant("removed", Role.REPORTED),
        make_variant("skipped", Role.REPORTED),
        make_variant("lost", Role.REPORTED),
        make_variant("remedy", Role.REMEDY, cures=("exception",)),
        make_variant("frozen", Role.MISUSE),
        make_variant("lr_zero", Role.MISUSE),
    )
}


def raising(line: int = 7, message: str = "it broke", file: str = LIBRARY) -> dict[str, object]:
    """The fields of a record whose script raised, below a line of a library."""
    frames = f'  File "train.py", line 3, in main\n  File "{file}", line {line}, in forward\n'
    trace = f"Traceback\n{frames}It: {message}\n"
    seen = make_observation(
        reached="step", raised=Raised(type="ValueError", message=message, traceback=trace)
    )
    return {"observation": seen, "message": f"ValueError: {message}"}


def record(lock: Lock, variant: str = "plain", outcome: str = "trains", **facts: object) -> Record:
    """A record of a cell of ``lock``, run on this machine."""
    cell = make_cell(lock.stack, "sums", variant)
    known: dict[str, object] = {
        "role": Role.REPORTED,
        "inputs": {"lock": lock.digest[:16], "device": "Linux-x86_64", "scenario": "s"},
    }
    return make_record(outcome, cell, **{**known, **facts})


def side(
    lock: Lock, *records: Record, repeats: Mapping[str, tuple[str, ...]] | None = None
) -> Results:
    """A side of these records; ``repeats`` by variant."""
    by_key = {
        Key(each.cell.scenario, each.cell.variant, each.cell.device): each for each in records
    }
    return Results(
        lock.stack,
        lock,
        by_key,
        {Key("sums", name, "cpu"): each for name, each in (repeats or {}).items()},
    )


def measured(
    size: Size = Size.MORE, ratio: float = 1.08, variant: str = "plain", **facts: object
) -> Measured:
    """A cell that was measured side by side, its memory unchanged."""
    of_time = Ratio(
        ratio=ratio,
        low=ratio - 0.01,
        high=ratio + 0.01,
        confidence=0.99,
        p=0.0001,
        floor=1.004,
        margin=0.01,
        verdict=size,
        baseline=0.010,
        candidate=0.010 * ratio,
    )
    same = replace(
        of_time,
        ratio=1.0,
        low=0.999,
        high=1.001,
        verdict=Size.SAME,
        baseline=2.0**30,
        candidate=2.0**30,
    )
    known: dict[str, object] = {
        "step_time": of_time,
        "memory": same,
        "servers": 4,
        "processes": 12,
        "blocks": 12,
        "steps": 20,
        "spent_s": 30.0,
        "stopped": "clear",
    }
    known |= {"scenario": "sums", "variant": variant, "device": "cpu"}
    return Measured(**{**known, **facts})  # type: ignore[arg-type]


def everything(hostile: str = "") -> Comparison:
    """One change of every kind; with ``hostile`` text in every place that a stack can fill."""
    silent: dict[str, object] = {
        "role": Role.MISUSE,
        "gradient": Gradient.NONE,
        "message": f"nothing is trainable{hostile}",
    }
    told: dict[str, object] = {
        "role": Role.MISUSE,
        "passed": True,
        "message": f"RuntimeError: no grad_fn{hostile}",
    }
    drifted = make_observation(losses=(1.0, 0.75, 0.5001, 0.2502))
    before = side(
        OLD,
        record(OLD, "plain"),
        record(OLD, "first"),
        record(OLD, "second"),
        record(
            OLD, "mended", "step:exception", **raising(9, f"was bad{hostile}", "trl/trainer.py")
        ),
        record(
            OLD, "other", "gradient:none", gradient=Gradient.NONE, message=f"nothing came{hostile}"
        ),
        record(OLD, "shaky"),
        record(OLD, "removed"),
        record(OLD, "skipped"),
        record(OLD, "lost"),
        record(OLD, "remedy"),
        record(OLD, "frozen", "step:no-grad-fn", **told),
        record(OLD, "lr_zero", "update:none", **silent),
        repeats={"shaky": ("trains",)},
    )
    after = side(
        NEW,
        record(NEW, "plain", observation=drifted),
        record(NEW, "first", "step:exception", **raising(70, f"mat1 and mat2{hostile}")),
        record(NEW, "second", "step:exception", **raising(81, f"mat1 and mat2{hostile}")),
        record(NEW, "mended"),
        record(NEW, "other", "step:exception", **raising(20, f"other trouble{hostile}")),
        record(NEW, "shaky", "gradient:zero", gradient=Gradient.ZERO),
        record(NEW, "added"),
        record(
            NEW,
            "removed",
            "setup:unsupported",
            passed=None,
            message=f"trl has no such trainer{hostile}",
        ),
        record(NEW, "lost", "process:lost", passed=None),
        record(NEW, "remedy"),
        record(NEW, "frozen", "gradient:none", **silent),
        record(NEW, "lr_zero", "update:none", **told),
        repeats={"shaky": ("trains", "gradient:zero")},
    )
    ratios = [
        measured(),
        measured(Size.INCONCLUSIVE, 1.01, "remedy", stopped="budget", notices=("It swapped.",)),
    ]
    return compare(
        before, after, SCENARIOS, {each.key: each for each in ratios}, notes=("A note.",)
    )
