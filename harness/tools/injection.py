"""Known faults, the healthy variants they are put into, and what a diagnosis of them must name.

No fault is what somebody may have meant: a layer that is frozen on purpose, ``eval()`` while training, a target that is
detached. Such a script trains what it is to train, and by the definition of an outcome it passes.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gradmatrix.core.observation import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gradmatrix.core.observation import Frame

FOLDER = Path(__file__).parent / "faults"
SCRIPT = FOLDER / "injected.py"
MARK = "# culprit"

HEALTHY: dict[str, dict[str, frozenset[str]]] = {
    "t5_classifier": {
        "torch_adamw": frozenset({"full", "float32", "transformer"}),
        "closure_without_lightning": frozenset({"closure"}),
    },
    "qwen2_rmsnorm": {
        "full": frozenset({"full", "bfloat16", "transformer"}),
        "no_checkpointing": frozenset({"lora", "bfloat16", "transformer"}),
        "full_reentrant": frozenset({"full", "bfloat16", "transformer", "checkpointed"}),
        "full_non_reentrant": frozenset({"full", "bfloat16", "transformer", "checkpointed"}),
    },
    "amp_manual_optimization": {"full_precision": frozenset({"full", "float32"})},
    "frozen_parameters": {
        "healthy": frozenset({"full", "float32", "transformer"}),
        "lora": frozenset({"lora", "float32", "transformer"}),
    },
    "grpo_lora": {
        "full": frozenset({"full", "float32", "transformer"}),
        "no_checkpointing": frozenset({"lora", "float32", "transformer", "reference"}),
    },
}
"""Variants of each scenario that train on every stack that has what they need, and what they are like."""


class Fault(Frozen, frozen=True):
    """A known mistake; how it is made is in ``faults/``, in the function or class of the same name."""

    name: str
    needs: frozenset[str] = frozenset()
    """What a healthy variant must be like for it to be a mistake there."""
    unless: frozenset[str] = frozenset()
    """What a healthy variant must not be like: a library takes the mistake back there."""
    at_construction: bool = False
    """The line that builds the optimizer is a right answer too: nothing else can be seen from outside."""
    line: bool = True
    """One line is to blame."""

    def concerns(self, traits: frozenset[str]) -> bool:
        """Whether it is a mistake in a variant of these ``traits``; the closure is there for what needs one only."""
        return (
            self.needs <= traits
            and not self.unless & traits
            and ("closure" in self.needs) == ("closure" in traits)
        )


def fault(
    name: str, *needs: str, unless: str = "", at_construction: bool = False, line: bool = True
) -> Fault:
    """A fault in few words."""
    return Fault(
        name=name,
        needs=frozenset(needs),
        unless=frozenset(unless.split()),
        at_construction=at_construction,
        line=line,
    )


FAULTS = (
    fault("detached_hidden"),
    fault("data_of_hidden"),
    fault("hidden_through_numpy"),
    fault("hidden_made_anew"),
    fault("hidden_made_a_leaf"),
    fault("hidden_overwritten"),
    fault("hidden_rounded"),
    fault("hidden_binarised"),
    fault("hidden_masked"),
    fault("output_forgotten", "transformer", line=False),
    fault("no_grad_block"),
    fault("no_grad_decorator"),
    fault("set_grad_enabled_block"),
    fault("inference_mode_block"),
    fault("gradients_left_off"),
    fault("no_grad_model"),
    fault("no_grad_embeddings", "full", "transformer"),
    fault("cached_autocast", "float32"),
    fault(
        "reentrant_checkpoint", unless="checkpointed"
    ),  # transformers 5 lets the inputs of such models require gradients
    fault("nan_output"),
    fault("rewrapped_loss"),
    fault("loss_made_a_leaf"),
    fault("loss_as_variable"),
    fault("detached_loss"),
    fault("nan_gradient"),
    fault("infinite_gradient"),
    fault("zeroed_gradient"),
    fault("gradient_of_hidden_zeroed"),
    fault("gradient_dropped"),
    fault("cleared_too_early"),
    fault("clipped_to_zero"),
    # a pass of the reference model ends PEFT's disable_adapter(), which makes the adapter trainable again
    fault("frozen_adapter", "lora", unless="reference"),
    fault("parameter_replaced", at_construction=True),
    fault("layer_loaded_anew", at_construction=True),
    fault("learning_rate_zero"),
    fault("learning_rate_scheduled_to_zero", at_construction=True),
    fault("learning_rate_lost_to_rounding", "bfloat16"),
    fault("bound_to_a_copy"),
    fault("layer_left_out"),
    fault("step_does_nothing", at_construction=True),
    fault("step_never_called"),
    fault("decorated_step", "closure"),
)


class Injection(Frozen, frozen=True, order=True):
    """One fault in one healthy variant; ``seed`` decides what is hit, and the weights and the data."""

    fault: str
    scenario: str
    variant: str
    seed: int

    def __str__(self) -> str:
        return f"{self.fault}|{self.scenario}|{self.variant}|{self.seed}"


NONE = "none"
"""The fault that changes nothing but the seed."""


def injections(
    faults: Iterable[Fault], healthy: Mapping[str, Mapping[str, frozenset[str]]], seeds: int
) -> list[Injection]:
    """Every fault in every variant in which it is one, as often as there are seeds."""
    return [
        Injection(fault=fault.name, scenario=scenario, variant=variant, seed=seed)
        for fault in faults
        for scenario, variants in healthy.items()
        for variant, traits in variants.items()
        if fault.needs <= traits
        and not fault.unless & traits
        and ("closure" not in traits or "closure" in fault.needs)
        for seed in range(1, seeds + 1)
    ]


class Truth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a diagnosis ought to point, as the injected script wrote it."""

    modules: tuple[str, ...] | None
    """Dotted names from the outermost module on; None where no module is to blame."""
    root: str
    built_at: tuple[str, int] | None


@dataclass(frozen=True)
class Lines:
    """A statement, or the head of one that has a body."""

    file: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.file}:{self.first}"


def module_is_right(named: str | None, truth: Truth) -> bool | None:
    """Whether the named module is a faulty one or inside it; None where no module is to blame.

    A name that starts with the class of the outermost module, which tells it from another model, is the same name.
    """
    if truth.modules is None:
        return None
    if named is None:
        return False
    first, _, rest = named.partition(".")
    own = rest if first.partition("#")[0] == truth.root else named
    return any(not right or own == right or own.startswith(right + ".") for right in truth.modules)


def line_is_right(place: Frame | None, lines: Iterable[Lines]) -> bool:
    """Whether the named line is one of the guilty statements."""
    return place is not None and any(
        Path(place.file).name == right.file and right.first <= place.line <= right.last
        for right in lines
    )


def guilty_lines(fault: Fault, truth: Truth) -> tuple[Lines, ...]:
    """The lines that a diagnosis may name; none where no line is to blame."""
    if not fault.line:
        return ()
    built = truth.built_at if fault.at_construction else None
    return culprits()[fault.name] + (
        () if built is None else (Lines(built[0], built[1], built[1]),)
    )


def in_words(truth: Truth, lines: Iterable[Lines]) -> str:
    """What ought to be named, in one line; of many modules the first two."""
    modules = (
        ["no module"]
        if truth.modules is None
        else [name or truth.root for name in truth.modules[:2]]
    )
    return f"{' or '.join(modules)} at {' or '.join(map(str, lines)) or 'no line'}"


@cache
def culprits() -> dict[str, tuple[Lines, ...]]:
    """The marked statements of each function in ``faults/``, by its name."""
    found = {}
    for path in sorted(FOLDER.glob("*.py")):
        source = path.read_text(encoding="utf-8")
        marked = [
            number for number, line in enumerate(source.splitlines(), 1) if line.endswith(MARK)
        ]
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef):
                lines = [
                    number for number in marked if node.lineno <= number <= (node.end_lineno or 0)
                ]
                if lines:
                    found[node.name] = tuple(statement(node, number, path.name) for number in lines)
    return found


def statement(function: ast.FunctionDef, line: int, file: str) -> Lines:
    """The statement on a marked line; of one with a body, or a decorator, the line alone."""
    around = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    innermost = min(around, key=lambda node: (node.end_lineno or node.lineno) - node.lineno)
    if hasattr(innermost, "body"):
        return Lines(file, line, line)
    return Lines(file, innermost.lineno, innermost.end_lineno or line)
