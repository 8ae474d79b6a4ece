"""Small values of the model with sensible defaults: a test names only what it is about."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from harness.model import (
    SCHEMA,
    Cell,
    Failure,
    Gradient,
    Lock,
    LockedPackage,
    Observation,
    Parameter,
    Raised,
    Record,
    Role,
    Scenario,
    Variant,
    Warned,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

NOON = dt.datetime(2026, 1, 15, 12, tzinfo=dt.UTC)


def make_cell(
    stack: str = "stack", scenario: str = "scenario", variant: str = "control", device: str = "cpu"
) -> Cell:
    """A cell."""
    return Cell(stack=stack, scenario=scenario, variant=variant, device=device)


def make_parameter(gradients: str = "ffff", *, name: str = "weight", changed: bool = True, learns: bool = True) -> Parameter:
    """A parameter that learns, unless said otherwise."""
    return Parameter(
        name=name, shape=(2, 3), dtype="float32", learns=learns, held=True, gradients=gradients, changed=changed
    )


def make_observation(**facts: Any) -> Observation:
    """What is seen of a script that trains; ``facts`` replace parts of it."""
    healthy: dict[str, Any] = {
        "schema": SCHEMA,
        "reached": "done",
        "skipped": None,
        "no_device": False,
        "raised": None,
        "steps": 20,
        "losses": (1.0, 0.75, 0.5, 0.25),
        "last_loss": 0.125,
        "gradient_norms": (1.0, 1.0, 1.0, 1.0),
        "backward": (),
        "parameters": (make_parameter(),),
        "lost": (),
        "warnings": (),
        "step_times_s": (0.125, 0.25, 0.25, 0.5),
        "peak_memory_bytes": 123_456_789,
        "start_memory_bytes": 100_000_000,
        "wall_s": 2.0,
        "threads": 1,
        "environment": {"python": "3.11.7"},
        "observer_errors": (),
    }
    # A single loop over the whole range of backward calls is not needed here: no verdict reads them one by one.
    healthy["backward"] = make_backward()
    return Observation(**(healthy | facts))
