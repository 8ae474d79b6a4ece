"""What is accepted of a record from another machine: the observation, and what follows from it."""

from __future__ import annotations

import datetime as dt

import pytest
from msgspec.structs import replace

from gradmatrix.core.model import Cell, Gradient, Record, Role
from gradmatrix.core.outcomes import Outcome
from gradmatrix.judge.verdict import Verdict, judge_observation, passes
from gradmatrix.night.night import AHEAD, KnownCells, distrust
from gradmatrix.run.plan import key_of
from gradmatrix.run.stack import MESSAGE_LIMIT, RESOLVERS_LIMIT
from tests import factories
from tests.factories import (
    HEALTHY,
    NOON,
    make_cell,
    make_observation,
    make_parameter,
    make_raised,
    make_warned,
)

HERE = KnownCells(
    stacks={"stack"},
    roles={("scenario", "plain"): Role.CONTROL, ("scenario", "misused"): Role.MISUSE},
    devices=("cpu",),
    now=NOON,
)
STUCK = make_observation(parameters=(make_parameter("zzzz", changed=False),))
BROKEN = make_observation(raised=make_raised(), reached="step")
MISUSED = make_cell(variant="misused")


def make_record(
    outcome: str = "trains", cell: Cell | None = None, lock: str = "lock", **fields: object
) -> Record:
    """A record with the key of its inputs."""
    inputs = {"lock": lock, "timeout_s": "120", "memory_bytes": "8589934592"}
    role = HERE.roles.get((cell.scenario, cell.variant), Role.CONTROL) if cell else Role.CONTROL
    judged = passes(
        role, Verdict(Outcome(outcome), None, ""), HEALTHY if outcome == "trains" else None
    )
    given = {"inputs": inputs, "key": key_of(inputs), "role": role, "passed": judged, **fields}
    return factories.make_record(outcome, cell, **given)


def make_failing(recorded_at: dt.datetime = NOON) -> Record:
    """A record of a cell that raised."""
    return make_record(
        "step:exception", observation=BROKEN, gradient=Gradient.FLOWING, recorded_at=recorded_at
    )


def against(record: Record) -> str | None:
    """The first reason to refuse a record."""
    return next(distrust(record, HERE), None)


@pytest.mark.parametrize(
    "record",
    [
        make_record(),
        make_failing(),
        make_record("process:timeout"),
        make_record("process:lost"),
        make_record("import:missing-module", isolation="none"),
        make_record("install:build", message="x" * RESOLVERS_LIMIT),
        make_record("resolve:conflict"),
        make_record("setup:no-device"),
        make_record("process:timeout", MISUSED),
        make_record(
            "gradient:zero", MISUSED, observation=STUCK, gradient=Gradient.ZERO, passed=False
        ),
        make_record(
            "gradient:zero",
            MISUSED,
            observation=replace(STUCK, warnings=(make_warned("no gradients"),)),
            gradient=Gradient.ZERO,
            passed=True,
        ),
        make_record(recorded_at=NOON + AHEAD),
    ],
    ids=lambda record: f"{record.cell.variant}-{record.outcome}-{record.passed}",
)
def test_what_holds_is_taken(record: Record) -> None:
    """This holds for every outcome that a run may record."""
    assert against(record) is None


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (make_record(cell=make_cell("other")), "there is no stack 'other' here"),
        (make_record(cell=make_cell(variant="x")), "there is no variant scenario/x here"),
        (make_record(cell=make_cell(device="../../x")), "there is no device '../../x' here"),
        (make_record(role=Role.MISUSE), "the role of scenario/plain is not misuse"),
        (
            make_record(recorded_at=NOON + 2 * AHEAD),
            "its time, 2026-01-15 14:00:00+00:00, is in the future or has no time zone",
        ),
        (
            make_record(recorded_at=dt.datetime(2026, 1, 15)),  # noqa: DTZ001
            "its time, 2026-01-15 00:00:00, is in the future or has no time zone",
        ),
        (make_record(key="x"), "its key does not follow from its inputs"),
    ],
    ids=["stack", "variant", "device", "role", "future", "no time zone", "key"],
)
def test_what_is_not_of_this_matrix_is_not_taken(record: Record, reason: str) -> None:
    """A record that could never be replaced is refused too."""
    assert reason == against(record)


@pytest.mark.parametrize("name", ["timeout_s", "memory_bytes"])
@pytest.mark.parametrize("limit", ["soon", "", "-1", "nan", "inf", "1e999"])
def test_a_limit_is_a_number(name: str, limit: str) -> None:
    """Limits are not part of the key, but the next plan reads them."""
    record = make_record()
    assert "its limits are not finite numbers above zero" == against(
        replace(record, inputs={**record.inputs, name: limit})
    )


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (
            make_record(observation=STUCK),
            "what was observed is gradient:zero, gradient zero, passed False",
        ),
        (
            make_record("step:exception", observation=HEALTHY),
            "what was observed is trains, gradient flowing, passed",
        ),
        (
            make_record("process:lost", observation=HEALTHY),
            "what was observed is trains, gradient flowing, passed",
        ),
        (make_record(passed=False), "what was observed is trains, gradient flowing, passed True"),
        (
            make_record(gradient=Gradient.ZERO),
            "what was observed is trains, gradient flowing, passed True",
        ),
        (
            make_record("process:timeout", passed=True),
            "what was observed is process:timeout, gradient None, passed",
        ),
        (
            make_record("process:timeout", gradient=Gradient.FLOWING),
            "is process:timeout, gradient None, passed False",
        ),
        (
            make_record("setup:unsupported", passed=False),
            "is setup:unsupported, gradient None, passed None",
        ),
        (
            make_record("process:timeout", MISUSED, passed=True),
            "is process:timeout, gradient None, passed False",
        ),
        (make_record(observation=None), "nothing was observed, so its outcome cannot be trains"),
        (
            make_record("gradient:none"),
            "nothing was observed, so its outcome cannot be gradient:none",
        ),
        (
            make_record("setup:exception"),
            "nothing was observed, so its outcome cannot be setup:exception",
        ),
        (make_record(message="x" * (MESSAGE_LIMIT + 1)), "its message has 501 characters"),
        (
            make_record("resolve:conflict", message="x" * (RESOLVERS_LIMIT + 1)),
            "its message has 5001 characters",
        ),
    ],
)
def test_what_does_not_follow_from_the_observation_is_not_taken(
    record: Record, reason: str
) -> None:
    """A tested package may have written it."""
    assert reason in str(against(record))


def test_what_is_judged_here_is_what_a_run_judges() -> None:
    """The same code judges both, so an honest record is never refused."""
    verdict = judge_observation(BROKEN)
    assert ("step:exception", Gradient.FLOWING) == (str(verdict.outcome), verdict.gradient)
