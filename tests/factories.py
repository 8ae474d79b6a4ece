"""Small values of the model with defaults. A test names only what matters to it."""

from __future__ import annotations

import datetime as dt

from msgspec.structs import replace

from gradmatrix.core.model import (
    Cell,
    Failure,
    Gradient,
    Lock,
    LockedPackage,
    Record,
    Role,
    Scenario,
    Variant,
)
from gradmatrix.core.observation import (
    SCHEMA,
    Backward,
    Built,
    Checkpointed,
    Frame,
    Leaf,
    Lost,
    Observation,
    Parameter,
    Raised,
    Severed,
    Switch,
    Warned,
)

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
    gradients: str = "ffff",
    *,
    name: str = "weight",
    changed: bool = True,
    learns: bool = True,
    **facts: object,
) -> Parameter:
    """A parameter that should learn and does; ``gradients`` has one letter per audited step."""
    parameter = Parameter(
        name=name,
        shape=(2, 3),
        dtype="float32",
        learns=learns,
        held=True,
        gradients=gradients,
        changed=changed,
        module=name.rpartition(".")[0] or None,
    )
    return replace(parameter, **facts)


WITHOUT_GRAPH = replace(BACKWARD, requires_grad=False, grad_fn=None)


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
    """The observation of a script that trains.

    ``letters`` are its parameters' gradients, ``facts`` replace the rest.
    """
    if letters:
        facts["parameters"] = tuple(
            make_parameter(each, name=f"p{n}") for n, each in enumerate(letters)
        )
    return replace(HEALTHY, **facts)


def make_frame(line: int = 7, file: str = "train.py", function: str = "step") -> Frame:
    """A line of a script."""
    return Frame(file=file, line=line, function=function)


def make_switch(*frames: Frame, decorated: Frame | None = None, inference: bool = False) -> Switch:
    """What switched gradients off: a ``with`` line unless ``decorated``."""
    return Switch(
        how="inference_mode" if inference else "no_grad",
        decorated=decorated,
        frames=frames or (make_frame(),),
    )


def make_lost(module: str = "encoder", **facts: object) -> Lost:
    """A module that ran without gradients because of a ``with`` line inside its forward."""
    lost = Lost(
        step=1,
        module=module,
        type="Layer",
        grad_enabled=False,
        inference_mode=False,
        autocast=None,
        within=module,
        within_type="Layer",
        switch=make_switch(),
    )
    return replace(lost, **facts)


def make_checkpoint(source: str | None = "embed", **facts: object) -> Lost:
    """A layer in a reentrant checkpoint without an input that requires a gradient.

    ``source`` is frozen.
    """
    called = make_frame(570, "modeling.py", "forward")
    return make_lost(
        "layers.0", switch=None, checkpoint=Checkpointed(source=source, frames=(called,)), **facts
    )


def make_cut(module: str = "encoder") -> Lost:
    """A module that had gradients on and gave an output without a graph."""
    return make_lost(
        module, grad_enabled=True, switch=None, forward=make_frame(30, "model.py", "forward")
    )


def make_severed(
    how: str = "detach", *frames: Frame, module: str | None = "encoder", parameters: int = 4
) -> Severed:
    """A tensor that left the graph."""
    return Severed(
        step=1,
        how=how,
        module=module,
        type=None if module is None else "Layer",
        parameters=parameters,
        frames=frames or (make_frame(9),),
    )


def make_leaf(*frames: Frame, how: str = "torch.tensor") -> Leaf:
    """A tensor at which the graph of the loss ends."""
    return Leaf(step=1, how=how, shape=(), module=None, frames=frames)


def make_built(**facts: object) -> Built:
    """An optimizer that steps."""
    built = Built(
        type="SGD",
        parameters=1,
        trainable=1,
        steps=20,
        learning_rates=(0.1, 0.1),
        step=None,
        frames=(make_frame(20, function="main"),),
    )
    return replace(built, **facts)


def make_raised(message: str = "it broke", kind: str = "RuntimeError") -> Raised:
    """An exception."""
    return Raised(type=kind, message=message, traceback=f"Traceback\n{kind}: {message}\n")


NO_GRAPH = make_raised("element 0 of tensors does not require grad and does not have a grad_fn")


def make_stopped(**facts: object) -> Observation:
    """The observation of a script whose first backward has no graph, and raises."""
    parameters = (make_parameter("", changed=False),)
    seen = {
        "parameters": parameters,
        "backward": (WITHOUT_GRAPH,),
        "raised": NO_GRAPH,
        "reached": "step",
        "steps": 0,
    }
    return make_observation(**{**seen, **facts})


def make_warned(message: str, category: str = "UserWarning") -> Warned:
    """A warning that came once."""
    return Warned(category=category, message=message, count=1)


def make_cell(
    stack: str = "stack", scenario: str = "scenario", variant: str = "plain", device: str = "cpu"
) -> Cell:
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
    stack: str = "stack",
    *,
    versions: dict[str, str] | None = None,
    failure: Failure | None = None,
    **fields: object,
) -> Lock:
    """A lock of ``versions``, by default of a torch."""
    lock = Lock(
        stack=stack,
        python="3.11",
        as_of=DAY,
        requirements=("torch",),
        packages=tuple(
            LockedPackage(
                name=name, version=version, released=DAY, newest=version, newest_released=DAY
            )
            for name, version in ({"torch": "2.6.0"} if versions is None else versions).items()
        ),
        digest="0123456789abcdef" * 4,
        resolver="uv 1.0.0",
        failure=failure,
    )
    return replace(lock, **fields)


def make_variant(
    name: str = "plain",
    role: Role = Role.CONTROL,
    needs: tuple[str, ...] = ("torch",),
    cures: tuple[str, ...] = (),
    mends: tuple[str, ...] = (),
) -> Variant:
    """A variant."""
    summary = f"what {name} means"
    return Variant(name=name, role=role, summary=summary, needs=needs, cures=cures, mends=mends)


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
