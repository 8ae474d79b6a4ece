"""What was seen in the tested environment while one cell ran: the raw facts.

``observe/`` writes them as JSON, and this is their shape. Every judgement is a pure function of
them. Units are in the names: ``_s`` seconds, ``_bytes`` bytes. Frames are innermost first.
"""

from __future__ import annotations

import statistics
from functools import lru_cache
from typing import Literal

import msgspec

SCHEMA: Literal[1] = 1
"""Version of the formats of records, observations and the matrix; a reader refuses others."""


class Frozen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """An immutable value. Unknown keys are errors when it is read from a file."""


class Frame(Frozen, frozen=True):
    """A Python frame outside torch's own code; ``file`` is relative to site-packages if there."""

    file: str
    line: int
    function: str
    user: bool = False
    """It is in a file of the user: outside site-packages and the standard library."""


class Raised(Frozen, frozen=True):
    """An exception as the tested environment raised it."""

    type: str
    message: str
    traceback: str
    frames: tuple[Frame, ...] = ()


class Switch(Frozen, frozen=True):
    """What switched gradients off: a ``with`` line, a call, or a decorator."""

    how: Literal["no_grad", "inference_mode", "set_grad_enabled"]
    decorated: Frame | None = None
    """The function that a decorator runs without gradients, at its first line."""
    frames: tuple[Frame, ...] = ()
    """The ``with`` line, the call of ``set_grad_enabled`` or of the decorated function."""


class Backward(Frozen, frozen=True):
    """State at one outermost call of ``torch.autograd.backward`` during the audited steps."""

    step: int
    requires_grad: bool
    grad_fn: str | None
    loss: float | str | None
    """Value of a scalar root, also "nan", "inf" or "-inf"; None if the root is no scalar."""
    grad_enabled: bool
    inference_mode: bool
    autocast: str | None
    """Dtype of the enabled autocast, such as "cpu:bfloat16", or None."""
    switch: Switch | None = None
    """What switched gradients off, if the root has no graph and they are off at this moment."""


class Parameter(Frozen, frozen=True):
    """One parameter of the trained modules, or of an optimizer, as the audited steps saw it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    learns: bool
    """It should learn: it is trainable, and part of what is trained."""
    held: bool
    """An optimizer holds it."""
    gradients: str
    """A letter for each audited step.

    ``n`` none, ``z`` zero, ``f`` finite, ``x`` not finite, ``?`` it could not be read.
    """
    changed: bool
    """Its value changed in at least one audited optimizer step.

    For a parameter that no optimizer holds: its value changed.
    """
    frozen: bool = False
    """It does not require a gradient."""
    learning_rate: float | str | None = None
    """Of its group at the last audited step.

    None if no optimizer that stepped holds it, or if the optimizer chooses its own.
    """
    module: str | None = None
    """The module that owns it; None if no known module does."""
    ran: Literal["not", "empty", "without-grad", "with-grad"] | None = None
    """The best way in which its module ran in the audited steps; None if that is not known.

    ``empty`` is an input without elements.
    """
    moved: bool = False
    """Its value changed at another time than in an optimizer's step."""
    norm: float | str | None = None
    """The greatest L2 norm of its gradient in the audited steps.

    None if it got none, or if it changed in them.
    """
    forgotten: bool = False
    """Nothing used the output of its module, which has the shape of the module's input.

    A module beside it of the same kind learns, so the next one may take the wrong input.
    """
    unread: bool = False
    """Its gradient or its value could not be read. It is not judged, and ``learns`` is false."""


class Checkpointed(Frozen, frozen=True):
    """A call of reentrant checkpointing without an input that requires a gradient.

    Its output does not require one either.
    """

    source: str | None = None
    """The module whose output was the input, if all its parameters are frozen."""
    frames: tuple[Frame, ...] = ()


class Lost(Frozen, frozen=True):
    """Modules whose output lost its gradient in the same way, but that should learn, or pass it on.

    Only what may explain a missing gradient is recorded; a script that trains has none of these.
    """

    step: int
    module: str
    """The first of them to end."""
    type: str
    grad_enabled: bool
    inference_mode: bool
    autocast: str | None
    within: str = ""
    """The outermost module that was entered after the switch or the call of the checkpoint."""
    within_type: str = ""
    modules: int = 1
    """How many modules lost their gradient in this way."""
    entered: bool = True
    """Gradients were on when the outermost module of this pass was entered."""
    only: bool = False
    """In this step the module ran without gradients only."""
    cached: bool = False
    """Autocast's weight cache was filled by an earlier pass without gradients.

    Gradients and autocast were on; ``switch`` is that of the earlier pass.
    """
    switch: Switch | None = None
    checkpoint: Checkpointed | None = None
    forward: Frame | None = None
    """Where the module's forward is written."""
    frames: tuple[Frame, ...] = ()


class Severed(Frozen, frozen=True):
    """An operation by which a tensor left the graph; the parameters behind it got no gradient."""

    step: int
    how: str
    """Such as "detach", "item", "data"."""
    module: str | None
    """The last module whose output was part of this graph."""
    type: str | None
    parameters: int
    """Parameter tensors behind it that should learn and got no gradient."""
    frames: tuple[Frame, ...]


class Leaf(Frozen, frozen=True):
    """A tensor, no parameter, at which the graph of the loss ends; parameters got no gradient."""

    step: int
    how: str
    """What made it require a gradient: "torch.tensor", "requires_grad_", …, or "unknown"."""
    shape: tuple[int, ...]
    module: str | None
    """The innermost module that was running when it was made."""
    frames: tuple[Frame, ...]
    late: bool = False
    """It was made after the first optimizer was built."""
    arguments: tuple[str, ...] = ()
    """What the library's call that made it was given, or does by default, to make a copy."""


class ConstantPart(Frozen, frozen=True):
    """A number that was added to the loss, differs between steps, and has no graph."""

    step: int
    how: str
    """What took it out of the graph."""
    module: str | None
    """The innermost module that was running then."""
    frames: tuple[Frame, ...]
    """Where it left the graph."""
    added: tuple[Frame, ...]
    """Where it was added to the rest of the loss."""


class Nonfinite(Frozen, frozen=True):
    """The first NaN or infinity: in an output, a gradient, or a parameter after the step."""

    step: int
    where: Literal["output", "gradient", "value"]
    module: str
    """Empty if it was outside of all modules."""
    type: str
    frames: tuple[Frame, ...]
    """Where the operation or the module was called, the hook on the gradient registered, or the
    optimizer built."""
    operation: str | None = None
    """What made it of finite numbers, such as "log". In a gradient it was its derivative."""
    hidden: bool = False
    """Of a gradient: the value of the operation was not finite either, but the loss was."""
    sizes: tuple[int, ...] = ()
    """Of a standard deviation of one value: 1. Of a CTC loss: the steps of an input that is too
    short, and those that its labels need."""
    masked: tuple[Frame, ...] = ()
    """Of a softmax: where a mask made whole rows minus infinity."""


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
    """How many of them require a gradient."""
    steps: int
    """How often it stepped."""
    learning_rates: tuple[float | str | None, ...]
    """The highest of its groups at each audited step; None if it chooses its own."""
    step: Frame | None
    """Where its step is written, if it is not part of torch."""
    frames: tuple[Frame, ...]
    scaled: int = 0
    """How often a GradScaler was asked for its step."""
    scaled_at: tuple[Frame, ...] = ()
    """Where the GradScaler was first asked."""
    rate_from: Literal["constructor", "loaded", "scheduler", "assignment"] | None = None
    """What set a learning rate of 0 last; None if it was not 0 in all audited steps."""
    rate: str = ""
    """The scheduler's class, or the argument that says so, such as "learning_rate=0.0"."""
    rate_frames: tuple[Frame, ...] = ()
    scheduled: bool = True
    """False if a scheduler set the rate when it was built, and none was ever stepped."""
    zero_at: tuple[Frame, ...] = ()
    """Where a function of the user returned 0 to that scheduler."""
    eps: float | None = None
    """What it adds to a divisor, if that is 1 or more."""
    factor: float | None = None
    """What LambdaLR multiplied the learning rate by at most, if that is not above the rate."""
    scale_at: tuple[Frame, ...] = ()
    """Where the script gives a GradScaler its first scale."""
    condition: str = ""
    """The condition under which its step is called, if it never stepped."""
    condition_at: tuple[Frame, ...] = ()


class Unheld(Frozen, frozen=True):
    """Parameters that got a gradient in an audited step and that no optimizer holds."""

    parameters: int
    modules: tuple[str, ...]
    """The first modules that own them."""
    frames: tuple[Frame, ...] = ()
    """Where the first of these modules was called."""
    built: tuple[Frame, ...] = ()
    """Where the first optimizer was built."""
    of_loss: bool = False
    """This module gave a loss: a single number that backward started from."""
    rests: bool = False
    """Their modules ran to be trained, and none of them changed."""
    emptied: tuple[Frame, ...] = ()
    """Where an optimizer was built that was given an iterator of parameters that was used up."""
    copied: tuple[Frame, ...] = ()
    """Where the script makes deep copies, if something does not learn."""
    same: tuple[Frame, ...] = ()
    """Where two optimizers were built that hold the same parameters, if the loss of one of them,
    the first, trains what no optimizer holds; or one that holds some twice in a group."""


class Froze(Frozen, frozen=True):
    """Parameters of what is trained that one line froze."""

    modules: tuple[str, ...]
    """The first few modules that own them."""
    parameters: int
    frames: tuple[Frame, ...]
    arguments: tuple[str, ...] = ()
    """What the call in the user's line was given that tells it to freeze, such as
    "inference_mode=True"."""


class FrozenBeside(Froze, frozen=True, kw_only=True):
    """What is frozen beside something that learns, perhaps on purpose."""

    kind: Literal["layer", "tokens", "all-but-norms"]
    """A "layer" that the script added to a model, or embeddings of "tokens" that it resized, which
    PEFT froze; or all but the layers of normalisation."""


class Written(Frozen, frozen=True):
    """Something in the user's source, and where it stands."""

    text: str
    frames: tuple[Frame, ...]


class Ignored(Written, frozen=True):
    """The first loss all of whose labels were ignored; the text says which label."""

    calls: int = 1
    """How many losses were such."""
    losses: int = 1
    """How many losses over labels were computed in the audited steps."""
    nan: bool = False
    """It was NaN, as the mean of nothing is."""


class Noticed(Frozen, frozen=True):
    """What a call did not do, although it raised nothing."""

    how: str
    """A key of the remarks' NOTICED."""
    text: str
    frames: tuple[Frame, ...]


class Unmatched(Frozen, frozen=True):
    """A condition for the names of what should learn that fits none, so that all is frozen."""

    text: str
    frames: tuple[Frame, ...]
    names: tuple[str, ...]
    """Some of the names that there are."""


class Culprit(Frozen, frozen=True):
    """What an exception is about, and where it stands."""

    kind: Literal[
        "function",
        "operation",
        "inference",
        "sparse",
        "idle",
        "columns",
        "limits",
        "text",
        "cleared",
        "elsewhere",
        "unasked",
    ]
    """A "function" of torch.autograd and the end of its backward; an "operation" without a
    derivative; what entered "inference" mode; parameters with "sparse" gradients, and where the
    script asks for that; the "idle" ones for which a distributed model waits; "columns" of the data
    that did not reach a model; "limits" of length behind which no row of the data is left; a
    "text" where torch wants a number; or an optimizer without a gradient when a GradScaler should
    step it, because they were "cleared", because backward reached others only ("elsewhere"), or
    because it was not called ("unasked")."""
    text: str
    frames: tuple[Frame, ...]


class Unregistered(Frozen, frozen=True):
    """Trained tensors in a plain attribute of a module, which its parameters() does not have."""

    module: str
    type: str
    attribute: str
    holds: Literal["modules", "parameters", "tensors"]
    container: str
    """Type of the attribute: "list", "dict", "Tensor"."""
    parameters: int
    frames: tuple[Frame, ...]
    """Where the attribute is assigned."""


class Anew(Frozen, frozen=True):
    """Parameters that learn, are in no optimizer, and were made after the first one was built."""

    how: Literal["made", "copied"]
    parameters: int
    frames: tuple[Frame, ...]
    within: str | None = None
    """The module whose forward makes them; None for what is made outside of all modules."""
    type: str = ""
    """The type of the module that has them."""
    again: bool = False
    """The same line made parameters that this module does not have any more."""


class Spoiled(Frozen, frozen=True):
    """A tensor that backward needed and did not have any more."""

    how: str
    """What took it: an operation in place such as "add_", an optimizer's "step", or "freed" for a
    graph that an earlier backward pass had freed. Empty if it was not seen."""
    tensor: str
    """Its shape, and what made it."""
    module: str | None
    frames: tuple[Frame, ...]
    """Where it was changed; of a freed graph, where the tensor that both passes share was made."""
    before: tuple[Frame, ...] = ()
    """The call of the backward pass that freed the graph."""
    early: bool = False
    """What both passes share was computed before a module ran."""
    leaf: str | None = None
    """The first parameter that it was computed from."""
    data: tuple[int, ...] | None = None
    """The shape of a tensor that it was computed from and that is no parameter."""
    carried: bool = False
    """What both passes share was made by code that ran again for the second pass: it is carried
    from one iteration to the next."""
    stepped: bool = False
    """An optimizer stepped between the two passes."""
    name: str | None = None
    """The variable that has what both passes share."""
    bare: bool = False
    """It was computed from no parameter."""


class Kept(Frozen, frozen=True):
    """Gradients that no audited step ever cleared: each backward pass added to them."""

    parameters: int
    learning: int
    """How many parameters got a gradient."""
    frames: tuple[Frame, ...]
    """The call of the backward pass."""
    names: tuple[str, ...] = ()
    """The first few of these parameters, if others are cleared."""
    cleared: tuple[Frame, ...] = ()
    """Where others are cleared."""


class Adapted(Frozen, frozen=True):
    """A head that an adapter froze, because its configuration names another task."""

    module: str
    task: str
    """The task type that the adapter was given."""
    wanted: str
    """The task type that fits the model's class."""
    model: str
    frames: tuple[Frame, ...]


class Shared(Frozen, frozen=True):
    """A module that has two names in the module around it, and was frozen by one of them."""

    module: str
    names: tuple[str, ...]
    frames: tuple[Frame, ...]
    """Where it was frozen."""


class Missed(Frozen, frozen=True):
    """An optimizer's step that found no gradient, beside modules that got one."""

    optimizer: str
    modules: tuple[str, ...]
    frames: tuple[Frame, ...]
    """Where the optimizer was built."""


class Faded(Frozen, frozen=True):
    """The last steps of a script, after the audit, in which nothing was left to learn."""

    how: Literal["rate", "empty", "frozen", "loose", "zero", "pattern"]
    """The learning rate was 0 or nearly so, no parameter had a gradient, what a later optimizer
    holds beyond the earlier ones was still frozen, no optimizer holds what was unfrozen, gradients
    were exactly zero, or the script runs a module of which a library trained another instance."""
    optimizer: str
    steps: int
    """How many steps this lasted, up to the end."""
    frames: tuple[Frame, ...]
    """What set it: the scheduler or the optimizer, the line that made other parameters, the line
    that froze them, or the last call of the module, and where it was given to the library."""
    names: tuple[str, ...] = ()
    """Of a module that never learned: its names in the script, and where the trained one is. Else
    the parameters."""
    stepped: tuple[Frame, ...] = ()
    """Where the script steps a scheduler."""
    end: Written | None = None
    """The relu or clamp that is the last operation of the model, if all gradients were zero."""


class Unmoved(Frozen, frozen=True):
    """Why values do not change in the end: updates without an optimizer, or undone steps."""

    how: Literal["rate", "rebound", "unused", "used-up", "undone", "anew"]
    """A learning rate of 0, a name that is bound to a new tensor, a result that is not used, a
    generator of parameters that is gone through once, first values that come back, or weights that
    are initialised anew."""
    text: str
    """What sets the rate, the name, the attribute that holds the generator, or the call that brings
    values back."""
    frames: tuple[Frame, ...]


class Diverged(Frozen, frozen=True):
    """Ranks that began with equal parameters and have different ones after their steps."""

    step: int
    """The first step after which they differ."""
    ranks: int
    frames: tuple[Frame, ...]
    """The call of the optimizer's step."""
    past: tuple[Frame, ...] = ()
    """Calls in the script that go past a wrapper such as DistributedDataParallel."""
    averaged: bool = False
    """A DistributedDataParallel averaged gradients nevertheless, but not all of them."""
    whole: bool = True
    """Every step was looked at, and nothing stopped the script: ranks that average now and then
    would have been seen to do so."""


class Warned(Frozen, frozen=True):
    """A warning from the warnings module or a logger, and how often it came."""

    category: str
    message: str
    count: int


class Skipped(Frozen, frozen=True):
    """Steps of an optimizer that a GradScaler skipped, because gradients were not finite."""

    type: str
    asked: int
    """How often it was asked for a step."""
    made: int


class Observation(Frozen, frozen=True):
    """The raw facts that were seen while one cell ran."""

    schema: Literal[1]
    reached: Literal["import", "setup", "step", "done"]
    """How far the script came: "step" from its first optimizer on, "done" when it returned."""
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
    """The first module whose output was all zeros, but not its input and not its parameters."""
    flat: Nonfinite | None = None
    """The first operation that got a gradient and passed only zeros on, of those that can be flat.
    """
    initialised: tuple[Frame, ...] = ()
    """Where the script initialised the parameters before ``zero_output`` itself."""
    blank: tuple[Written, ...] = ()
    """The parameters that got only zeros, if those that multiply have only zeros themselves."""
    hooks: tuple[Hooked, ...] = ()
    optimizers: tuple[Built, ...] = ()
    skipped_steps: tuple[Skipped, ...] = ()
    nonfinite_from: int | None = None
    """The first step with a loss that was seen to be NaN or infinite.

    After the audited steps only losses on the CPU are looked at.
    """
    rates: tuple[Frame, ...] = ()
    """Where a script without an optimizer writes its learning rate, if a loss was not finite."""
    unheld: Unheld | None = None
    frozen: tuple[Froze, ...] = ()
    all_frozen: bool = False
    """The loss had no graph, and ``frozen`` is all that ran at that moment."""
    unmatched: Unmatched | None = None
    unloaded: Written | None = None
    """The call in the script that took PEFT's adapters away, if what is left is all frozen."""
    unused_at: tuple[Frame, ...] = ()
    """The call of the outermost module that ran a layer whose output had a graph, but the loss did
    not use it; or a call whose result got a name that the script never reads."""
    discarded: bool = False
    """It is such a call."""
    uncalled: tuple[Written, ...] = ()
    """Statements that name backward, step or zero_grad and do not call it."""
    unregistered: tuple[Unregistered, ...] = ()
    anew: tuple[Anew, ...] = ()
    none_returned: Written | None = None
    """A torch.autograd.Function whose backward gave no gradient to parameters that need one."""
    zeros_returned: Written | None = None
    """One whose backward gave them zeros, although it was given something else."""
    ineffective: tuple[Written, ...] = ()
    """Assignments that freeze or unfreeze nothing: to ``require_grad``, or to ``requires_grad`` of
    a module."""
    noticed: tuple[Noticed, ...] = ()
    ignored: Ignored | None = None
    ignored_by: tuple[Frame, ...] = ()
    """Where the script writes that label."""
    clipped_scaled: tuple[Frame, ...] = ()
    """Where gradients were clipped while they were still multiplied by a GradScaler's scale."""
    stepped_scaled: Written | None = None
    """A step with gradients that were still multiplied; the text is the scale."""
    stepped: tuple[Frame, ...] = ()
    """Where an optimizer's step was called, if nothing asked for gradients or cleared them."""
    closure: Frame | None = None
    """Where the closure that it was given is written."""
    rebuilt_parts: tuple[Leaf, ...] = ()
    """Tensors that were made of values of the graph and are a part of the loss."""
    constant_parts: tuple[ConstantPart, ...] = ()
    parts_without_grad: tuple[ConstantPart, ...] = ()
    """The same for numbers that were computed while gradients were off."""
    links: tuple[Written, ...] = ()
    """Parts of the loss that lead to the wrong parameters: a "sample" (or torch's "normal"), an
    "argmin" that nothing passes straight through, or the "weight" of a log-probability."""
    spoiled: Spoiled | None = None
    culprit: Culprit | None = None
    kept: Kept | None = None
    adapted: Adapted | None = None
    for_inference: tuple[Froze, ...] = ()
    """A model with an adapter of PEFT that was loaded frozen, or that the script froze (without
    arguments), and that ran with gradients on."""
    frozen_beside: tuple[FrozenBeside, ...] = ()
    shared: Shared | None = None
    missed: Missed | None = None
    faded: Faded | None = None
    dead: tuple[Faded, ...] = ()
    """Of each optimizer: the parameters whose gradients were exactly zero at the last looks."""
    drift: Diverged | None = None
    updates: int = 0
    """How often values changed from one request for gradients to the next, without an optimizer."""
    requests: int = 0
    """How often gradients were asked for, if no optimizer ever stepped: calls of backward and of
    ``torch.autograd.grad``, which torch.func uses too."""
    asked: tuple[Frame, ...] = ()
    """Where gradients were first asked for, if something that should learn does not."""
    arguments: tuple[Written, ...] = ()
    """What the script writes that may explain it: if no optimizer stepped, arguments that put off
    the first step; if it stepped without a backward pass, a training_step that returns nothing; if
    all gradients are zero, functions that return rewards; if something got a gradient and did not
    change, calls of functions that are flat at an end, such as a sigmoid."""
    unmoved: Unmoved | None = None
    unread: bool = False
    """The observer failed, and knows no parameter that should learn."""
    waited_s: tuple[float, ...] = ()
    """Seconds of each timed step in which another process had the core (Linux)."""


class Rate(Frozen, frozen=True):
    """Optimizer steps per second: the median, and the first and third quartile."""

    median: float
    low: float
    high: float
    samples: tuple[float, ...]
    """The rate of each timed step, in order."""


@lru_cache(maxsize=4096)
def rate_of(step_times_s: tuple[float, ...]) -> Rate | None:
    """The rate of some timed steps; None for fewer than two, which have no quartiles.

    Cached: each record of a stack is asked for it several times.
    """
    rates = tuple(1 / seconds for seconds in step_times_s if seconds > 0)
    if len(rates) < 2:  # noqa: PLR2004  (see above)
        return None
    low, median, high = statistics.quantiles(rates, n=4, method="inclusive")
    return Rate(median=median, low=low, high=high, samples=rates)
