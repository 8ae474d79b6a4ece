"""What was seen inside the environment while one cell ran: the raw facts, written there and only read here.

``inside/`` writes them as JSON; this is their shape, and every judgement is a pure function over it. Units are in the
names: ``_s`` seconds, ``_bytes`` bytes. Frames are innermost first.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA: Literal[1] = 1
"""Version of the record, observation and matrix formats; a reader refuses another one."""


class Frozen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """An immutable value whose unknown keys are errors when it is read from a file; never a part of a cycle."""


class Raised(Frozen, frozen=True):
    """An exception as the tested environment raised it."""

    type: str
    message: str
    traceback: str


class Frame(Frozen, frozen=True):
    """A Python frame outside torch's own plumbing; ``file`` is relative to site-packages where it lies there."""

    file: str
    line: int
    function: str


class Switch(Frozen, frozen=True):
    """Who switched gradients off: a ``with`` line, a call, or a decorator."""

    how: Literal["no_grad", "inference_mode", "set_grad_enabled"]
    decorated: Frame | None = None
    """The function that a decorator runs without gradients (its first line), or None."""
    frames: tuple[Frame, ...] = ()
    """The ``with`` line, the call of ``set_grad_enabled``, or the call of the decorated function."""


class Backward(Frozen, frozen=True):
    """State at one outermost call of ``torch.autograd.backward`` during the audited steps."""

    step: int
    requires_grad: bool
    grad_fn: str | None
    loss: float | str | None
    """Value of a scalar root; non-finite ones as "nan", "inf", "-inf"; None where the root is no scalar."""
    grad_enabled: bool
    inference_mode: bool
    autocast: str | None
    """Dtype of the enabled autocast, such as "cpu:bfloat16", or None."""
    switch: Switch | None = None
    """Where the root has no graph and gradients are off at this moment: who switched them off."""


class Parameter(Frozen, frozen=True):
    """One parameter of the trained modules, or of an optimizer, as the audited steps saw it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    learns: bool
    """It should learn: trainable, and part of what is being trained."""
    held: bool
    """An optimizer holds it."""
    gradients: str
    """One letter per audited step: ``n`` none, ``z`` exactly zero, ``f`` finite, ``x`` non-finite."""
    changed: bool
    """Its value changed in at least one audited optimizer step."""
    frozen: bool = False
    """It does not require a gradient."""
    learning_rate: float | str | None = None
    """Of its group at the last audited step; None where no optimizer that stepped holds it, or it chooses its own."""
    module: str | None = None
    """The module that owns it; None where no module that is known does."""


class Checkpointed(Frozen, frozen=True):
    """A call of reentrant checkpointing of which no input requires a gradient: its output will not either."""

    source: str | None = None
    """The module whose output went in, where its parameters are all frozen."""
    frames: tuple[Frame, ...] = ()


class Lost(Frozen, frozen=True):
    """Modules whose output lost its gradient in the same way, although something in them, or fed to them, should learn.

    Only what may explain a missing gradient is recorded: a script that trains has none.
    """

    step: int
    module: str
    """The first of them to end."""
    type: str
    grad_enabled: bool
    inference_mode: bool
    autocast: str | None
    within: str = ""
    """The outermost module that was entered after gradients were switched off or the checkpoint was called."""
    within_type: str = ""
    modules: int = 1
    """How many modules lost theirs in this way."""
    entered: bool = True
    """Gradients were on when the outermost module of this pass was entered."""
    only: bool = False
    """In this step the module ran without gradients only."""
    cached: bool = False
    """Gradients and autocast were on, and an earlier pass without gradients had filled autocast's weight cache;
    ``switch`` is then that of the earlier pass."""
    switch: Switch | None = None
    checkpoint: Checkpointed | None = None
    forward: Frame | None = None
    """Where the module's forward is written."""
    frames: tuple[Frame, ...] = ()


class Severed(Frozen, frozen=True):
    """An operation by which a tensor left the graph, where the parameters behind it got no gradient by another way."""

    step: int
    how: str
    """Such as "detach", "item", "data"."""
    module: str | None
    """The last module that had given a tensor of this graph."""
    type: str | None
    parameters: int
    """Tensors of parameters behind it that should learn and got no gradient."""
    frames: tuple[Frame, ...]


class Leaf(Frozen, frozen=True):
    """A tensor that is no parameter, at which the graph of the loss ends while parameters got nothing."""

    step: int
    how: str
    """What made it require a gradient: "torch.tensor", "requires_grad_", …, or "unknown"."""
    shape: tuple[int, ...]
    module: str | None
    """The innermost module that was running when it was made."""
    frames: tuple[Frame, ...]


class Nonfinite(Frozen, frozen=True):
    """The first NaN or infinity: in a module's output, in a gradient, or in a parameter after the optimizer's step."""

    step: int
    where: Literal["output", "gradient", "value"]
    module: str
    type: str
    frames: tuple[Frame, ...]
    """Where the module was called, the hook on the gradient was written, or the optimizer was built."""


class Hooked(Frozen, frozen=True):
    """A hook on the gradient of a parameter that did not learn, or of another tensor."""

    parameter: str
    """Its name; empty for another tensor."""
    frames: tuple[Frame, ...]


class Built(Frozen, frozen=True):
    """An optimizer: where it was built, what it holds, whether it ever stepped."""

    type: str
    parameters: int
    """Parameter tensors that it holds."""
    trainable: int
    """Of these, the ones that require a gradient."""
    steps: int
    """How often it stepped."""
    learning_rates: tuple[float | str | None, ...]
    """The highest of its groups at each audited step; None where it chooses its own."""
    step: Frame | None
    """Where its step is written, if that is not in torch."""
    frames: tuple[Frame, ...]
    scaled: int = 0
    """How often a GradScaler was asked for its step."""


class Unheld(Frozen, frozen=True):
    """Parameters that got a gradient in an audited step and that no optimizer holds."""

    parameters: int
    modules: tuple[str, ...]
    """The first few modules that own them."""


class Froze(Frozen, frozen=True):
    """Parameters of what is trained that were frozen by one line."""

    modules: tuple[str, ...]
    """The first few modules that own them."""
    parameters: int
    frames: tuple[Frame, ...]


class Warned(Frozen, frozen=True):
    """A warning, from the warnings module or a logger, with how often it came."""

    category: str
    message: str
    count: int


class Observation(Frozen, frozen=True):
    """The raw facts seen inside the environment while one cell ran. Written there, only read here."""

    schema: Literal[1]
    reached: Literal["import", "setup", "step", "done"]
    """How far the script got: "step" from its first optimizer on, "done" when it returned."""
    skipped: str | None
    no_device: bool
    raised: Raised | None
    steps: int
    losses: tuple[float | str | None, ...]
    """Loss per audited step: the sum of that step's backward roots."""
    last_loss: float | str | None
    gradient_norms: tuple[float | str, ...]
    """Total L2 norm of the gradients per audited step, as the optimizer saw them."""
    backward: tuple[Backward, ...]
    parameters: tuple[Parameter, ...]
    lost: tuple[Lost, ...]
    warnings: tuple[Warned, ...]
    step_times_s: tuple[float, ...]
    peak_memory_bytes: int | None
    start_memory_bytes: int | None
    wall_s: float
    threads: int
    environment: dict[str, str]
    observer_errors: tuple[str, ...]
    severed: tuple[Severed, ...] = ()
    leaves: tuple[Leaf, ...] = ()
    nonfinite: Nonfinite | None = None
    zero_output: Nonfinite | None = None
    """The first module whose output was all zeros, though neither its input nor its parameters were."""
    hooks: tuple[Hooked, ...] = ()
    optimizers: tuple[Built, ...] = ()
    unheld: Unheld | None = None
    frozen: tuple[Froze, ...] = ()


class Rate(Frozen, frozen=True):
    """Optimizer steps per second: the median, and the first and third quartile."""

    median: float
    low: float
    high: float
    samples: tuple[float, ...]
    """The rate of each timed step, in order."""


def rate_of(step_times_s: Sequence[float]) -> Rate | None:
    """The rate of some timed steps; None for fewer than two, which have no quartiles."""
    rates = tuple(1 / seconds for seconds in step_times_s if seconds > 0)
    if len(rates) < 2:  # noqa: PLR2004  (see above)
        return None
    low, median, high = statistics.quantiles(rates, n=4, method="inclusive")
    return Rate(median=median, low=low, high=high, samples=rates)
