"""Small values of the model with sensible defaults: a test names only what it is about."""

from __future__ import annotations

import datetime as dt

from msgspec.structs import replace

from harness.model import Cell, Failure, Gradient, Lock, LockedPackage, Record, Role, Scenario, Variant
from harness.observation import SCHEMA, Backward, Observation, Parameter, Raised, Warned

DAY = dt.date(2026, 1, 15)
NOON = dt.datetime(2026, 1, 15, 12, tzinfo=dt.UTC)

BACKWARD = Backward(
    step=1,
    requires_grad=True,
    grad_fn="MseLossBackward0",
    loss=1.0,
    grad_enabled=True,
    inference_mode=False,
    autocast=None,
)


def make_parameter(
    gradients: str = "ffff", *, name: str = "weight", changed: bool = True, learns: bool = True
) -> Parameter:
    """A parameter that should learn and does; ``gradients`` has one letter per audited step."""
    return Parameter(
        name=name, shape=(2, 3), dtype="float32", learns=learns, held=True, gradients=gradients, changed=changed
    )


HEALTHY = Observation(
    schema=SCHEMA,
    reached="done",
    skipped=None,
    no_device=False,
    raised=None,
    steps=20,
    losses=(1.0, 0.75, 0.5, 0.25),
    last_loss=0.125,
    gradient_norms=(1.0, 1.0, 1.0, 1.0),
    backward=(BACKWARD,),
    parameters=(make_parameter(),),
    lost=(),
    warnings=(),
    step_times_s=(0.125, 0.25, 0.25, 0.5),
    peak_memory_bytes=123_456_789,
    start_memory_bytes=100_000_000,
    wall_s=2.0,
    threads=1,
    environment={"python": "3.11.7"},
    observer_errors=(),
)


def make_observation(*letters: str, **facts: object) -> Observation:
    """What is seen of a script that trains; ``letters`` are its parameters' gradients, ``facts`` replace the rest."""
    if letters:
        facts["parameters"] = tuple(make_parameter(each, name=f"p{n}") for n, each in enumerate(letters))
    return replace(HEALTHY, **facts)


def make_raised(message: str = "it broke", kind: str = "RuntimeError") -> Raised:
    """An exception."""
    return Raised(type=kind, message=message, traceback=f"Traceback\n{kind}: {message}\n")


def make_warned(message: str, category: str = "UserWarning") -> Warned:
    """A warning that came once."""
    return Warned(category=category, message=message, count=1)


def make_cell(stack: str = "stack", scenario: str = "scenario", variant: str = "plain", device: str = "cpu") -> Cell:
    """A cell."""
    return Cell(stack=stack, scenario=scenario, variant=variant, device=device)


def make_record(outcome: str = "trains", cell: Cell | None = None, **fields: object) -> Record:
    """A record of a cell that trains; ``passed`` follows from the outcome."""
    record = Record(
        schema=SCHEMA,
        cell=cell or make_cell(),
        role=Role.CONTROL,
        key="key",
        outcome=outcome,
        passed=outcome == "trains",
        gradient=Gradient.FLOWING if outcome == "trains" else None,
        message="",
        recorded_at=NOON,
        run="run",
        isolation="fork",
        build="cpu",
        observation=HEALTHY if outcome == "trains" else None,
    )
    return replace(record, **fields)


def make_lock(
    stack: str = "stack", *, versions: dict[str, str] | None = None, failure: Failure | None = None, **fields: object
) -> Lock:
    """A lock of ``versions``, by default of a torch."""
    lock = Lock(
        stack=stack,
        python="3.11",
        as_of=DAY,
        requirements=("torch",),
        packages=tuple(
            LockedPackage(name=name, version=version, released=DAY, newest=version, newest_released=DAY)
            for name, version in ({"torch": "2.6.0"} if versions is None else versions).items()
        ),
        digest="0123456789abcdef" * 4,
        resolver="uv 1.0.0",
        failure=failure,
    )
    return replace(lock, **fields)


def make_variant(name: str = "plain", role: Role = Role.CONTROL, needs: tuple[str, ...] = ("torch",)) -> Variant:
    """A variant."""
    return Variant(name=name, role=role, summary=f"what {name} means", needs=needs)


def make_scenario(name: str = "scenario", *variants: Variant, **fields: object) -> Scenario:
    """A scenario, by default of one variant."""
    scenario = Scenario(
        name=name,
        title=f"The title of {name}",
        path=f"scenarios/{name}.py",
        source_digest="fedcba9876543210" * 4,
        variants=variants or (make_variant(),),
    )
    return replace(scenario, **fields)
