"""``audit``: put known faults into scenarios that train; each must be detected and named.

A fault is detected if the cell does not train, and named if the diagnosis has the right module and
line. Healthy runs must have no finding.

Something that may be on purpose is not a fault here: a frozen layer, ``eval()`` while training, a
detached target. Such a script trains what it should, and by the definition of an outcome it passes.
"""

from __future__ import annotations

import argparse
import ast
import itertools
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.table import Table
from rich.text import Text

from gradmatrix.cli.commands import add
from gradmatrix.cli.options import chosen_stacks
from gradmatrix.core.errors import UserError, did_you_mean
from gradmatrix.core.model import Cell, Role, Scenario, Steps, Variant
from gradmatrix.core.observation import Frozen
from gradmatrix.core.outcomes import UNSUPPORTED
from gradmatrix.core.text import one_line
from gradmatrix.judge.diagnosis import diagnose
from gradmatrix.judge.verdict import last_line
from gradmatrix.run.plan import Action, Planned
from gradmatrix.run.pool import Settings, server_pool
from gradmatrix.run.scenarios import unmet
from gradmatrix.stacks import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.console import Console
    from rich.status import Status

    from gradmatrix.core.model import Stack
    from gradmatrix.core.observation import Frame
    from gradmatrix.judge.wording import Diagnosis
    from gradmatrix.run.pool import Finished
    from gradmatrix.run.project import Project


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
"""Variants of each scenario that train on every stack with what they need, and their traits."""


class Fault(Frozen, frozen=True):
    """A known mistake. It is made in ``faults/``, by the function of the same name."""

    name: str
    needs: frozenset[str] = frozenset()
    """Traits that a healthy variant must have for this to be a mistake in it."""
    unless: frozenset[str] = frozenset()
    """Traits that it must not have: a library undoes the mistake there."""
    at_construction: bool = False
    """Whether the line that builds the optimizer is also a right answer: nothing else can be seen
    from outside."""
    line: bool = True
    """Whether one line is to blame."""


def fault(
    name: str, *needs: str, unless: str = "", at_construction: bool = False, line: bool = True
) -> Fault:
    """A fault, written in short."""
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
    # Transformers 5 makes the inputs of checkpointed models require gradients.
    fault("reentrant_checkpoint", unless="checkpointed"),
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
    # The reference model's pass ends PEFT's disable_adapter(), which makes the adapter trainable.
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
    """One fault in one healthy variant.

    ``seed`` decides what it affects, and the weights and the data.
    """

    fault: str
    scenario: str
    variant: str
    seed: int

    def __str__(self) -> str:
        return f"{self.fault}|{self.scenario}|{self.variant}|{self.seed}"


NONE = "none"
"""The fault that changes only the seed."""


def injections(
    faults: Iterable[Fault], healthy: Mapping[str, Mapping[str, frozenset[str]]], seeds: int
) -> list[Injection]:
    """Every fault in every variant in which it is a mistake, once for each seed.

    A variant with a closure is only for faults that need one.
    """
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
    """Where a diagnosis should point, as the injected script wrote it."""

    modules: tuple[str, ...] | None
    """Dotted names from the outermost module on; None if no module is to blame."""
    root: str
    built_at: tuple[str, int] | None


@dataclass(frozen=True)
class Lines:
    """A statement, or the first line of one that has a body."""

    file: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.file}:{self.first}"


def module_is_right(named: str | None, truth: Truth) -> bool | None:
    """Whether the named module is a faulty one or inside one; None if no module is to blame.

    The name may start with the class of the outermost module, which distinguishes it from other
    models.
    """
    if truth.modules is None:
        return None
    if named is None:
        return False
    first, _, rest = named.partition(".")
    own = rest if first.partition("#")[0] == truth.root else named
    return any(not right or own == right or own.startswith(right + ".") for right in truth.modules)


def line_is_right(place: Frame | None, lines: Iterable[Lines]) -> bool:
    """Whether the named line is in one of the faulty statements."""
    return place is not None and any(
        Path(place.file).name == right.file and right.first <= place.line <= right.last
        for right in lines
    )


def guilty_lines(fault: Fault, truth: Truth) -> tuple[Lines, ...]:
    """The lines that a diagnosis may name; none if no line is to blame."""
    if not fault.line:
        return ()
    built = truth.built_at if fault.at_construction else None
    return culprits()[fault.name] + (
        () if built is None else (Lines(built[0], built[1], built[1]),)
    )


def expected_words(truth: Truth, lines: Iterable[Lines]) -> str:
    """The expected answer in one line; of many modules the first two."""
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


def statement(around: ast.AST, line: int, file: str) -> Lines:
    """The statement on a marked line; only the line itself if it has a body or is a decorator."""
    holding = [
        node
        for node in ast.walk(around)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    if not holding:  # an ``else:`` or a decorator
        return Lines(file, line, line)
    innermost = min(holding, key=lambda node: (node.end_lineno or node.lineno) - node.lineno)
    if hasattr(innermost, "body"):
        return Lines(file, line, line)
    return Lines(file, innermost.lineno, innermost.end_lineno or line)


STEPS = Steps(audit=4, warmup=1, timed=1)
WANTED = 0.95
"""The share of faults that must be named with the right module, and with the right line."""


@dataclass(frozen=True)
class Audited:
    """One injected fault or healthy run, and what was found."""

    stack: str
    injection: Injection
    outcome: str
    detected: bool
    """Whether there is a finding: the cell does not train, or there is a diagnosis."""
    module: bool | None = None
    """Whether the right module was named; None if no module is to blame."""
    line: bool | None = None
    """Whether the right line was named; None if no line is to blame."""
    expected: str = ""
    named: str = ""

    @property
    def healthy(self) -> bool:
        """No fault was injected, so there must be no finding."""
        return self.injection.fault == NONE

    @property
    def missed(self) -> bool:
        """Whether something about it is wrong."""
        return (
            self.detected
            if self.healthy
            else not self.detected or self.module is False or self.line is False
        )

    def __str__(self) -> str:
        head = f"{self.stack} {self.injection}: {self.outcome}"
        return f"{head}; expected {self.expected}; named {self.named}"


@dataclass(frozen=True)
class Score:
    """How many answers were right."""

    right: int
    of: int

    @classmethod
    def over(cls, answers: Iterable[bool | None]) -> Score:
        """Count the answers that are not None."""
        asked = [answer for answer in answers if answer is not None]
        return cls(sum(asked), len(asked))

    @property
    def share(self) -> float:
        """The share of right answers; 1 if there were none."""
        return self.right / self.of if self.of else 1.0

    def __str__(self) -> str:
        return f"{self.right}/{self.of}" if self.of else "–"


@dataclass(frozen=True)
class Tally:
    """The result of one kind of fault, or of all."""

    name: str
    detected: Score
    module: Score
    line: Score

    @classmethod
    def over(cls, name: str, audited: Sequence[Audited]) -> Tally:
        """Count what was found."""
        return cls(
            name,
            Score.over(each.detected for each in audited),
            Score.over(each.module for each in audited),
            Score.over(each.line for each in audited),
        )


def tallies(audited: Iterable[Audited]) -> list[Tally]:
    """One tally for each kind of fault that was injected, then one of all."""
    faulty = [each for each in audited if not each.healthy]
    kinds = dict.fromkeys(each.injection.fault for each in faulty)
    of_each = [
        Tally.over(kind, [each for each in faulty if each.injection.fault == kind])
        for kind in kinds
    ]
    return [*of_each, Tally.over("all", faulty)]


def shortcomings(audited: Sequence[Audited]) -> list[str]:
    """Why the audit fails; empty if it passes."""
    total = tallies(audited)[-1]
    findings = sum(each.detected for each in audited if each.healthy)
    found = []
    if total.detected.right < total.detected.of:
        found.append(f"{total.detected.of - total.detected.right} faults were not detected")
    for what, score in (("module", total.module), ("line", total.line)):
        if score.share < WANTED:
            found.append(
                f"the right {what} was named for {score.share:.1%} of the faults, "
                f"at least {WANTED:.0%} are required"
            )
    if findings:
        found.append(f"{findings} healthy runs have a finding")
    return found


def chosen_faults(names: Sequence[str]) -> list[Fault]:
    """The named faults, or all.

    Raises:
        UserError: for an unknown name.
    """
    known = {fault.name: fault for fault in FAULTS}
    for name in names:
        if name not in known:
            raise UserError(
                f"There is no fault {name!r}.",
                cause=did_you_mean(name, known),
                next_step="leave --fault out for all of them",
            )
    return [known[name] for name in names] or list(known.values())


def faults_for(
    project: Project, stack: Stack, faults: Iterable[Fault], seeds: int
) -> list[Injection]:
    """The faults in every healthy variant that the stack supports."""
    runnable = runnable_on(project, stack)
    healthy = {
        scenario: {
            variant: traits
            for variant, traits in variants.items()
            if (scenario, variant) in runnable
        }
        for scenario, variants in HEALTHY.items()
    }
    return injections(faults, healthy, seeds)


def healthy_for(project: Project, stack: Stack, count: int) -> list[Injection]:
    """``count`` healthy runs: every variant that the records say trains, with growing seeds.

    Without records they are the variants that faults are put into.
    """
    runnable = runnable_on(project, stack)
    recorded = {
        (cell.scenario, cell.variant)
        for cell, record in project.store.everything().items()
        if (cell.stack, cell.device, record.outcome) == (stack.name, "cpu", "trains")
    }
    known = [(scenario, variant) for scenario, variants in HEALTHY.items() for variant in variants]
    pairs = sorted(recorded & runnable) or [pair for pair in known if pair in runnable]
    return [
        Injection(fault=NONE, scenario=scenario, variant=variant, seed=1 + number // len(pairs))
        for number, (scenario, variant) in zip(range(count), itertools.cycle(pairs), strict=False)
    ]


def runnable_on(project: Project, stack: Stack) -> set[tuple[str, str]]:
    """The variants of scenarios that the stack supports."""
    lock = project.lock_of(stack)
    return {
        (scenario.name, variant.name)
        for scenario in project.scenarios.values()
        for variant in scenario.variants
        if unmet(variant, lock) is None
    }


def audit(
    project: Project, stack: Stack, asked: Sequence[Injection], progress: Callable[[str], None]
) -> Iterator[Audited]:
    """Install the stack and run each injection on it.

    An injection that the stack does not support gives no result.
    """
    if not asked:
        return
    settings = Settings(STEPS, project.settings().limits)
    with environment.in_use(project.environments, stack.name):
        progress("installing")
        installed = environment.ensure(
            project.lock_of(stack), project.locks_folder, project.environments
        )
        used = [project.scenarios[name] for name in sorted({each.scenario for each in asked})]
        with server_pool(
            settings,
            installed.python,
            [*used, planned(stack.name, asked[0]).scenario],
            project.work / "work",
            progress,
        ) as pool:
            cells = [planned(stack.name, each) for each in asked]
            for each, (_, finished, place) in zip(asked, pool.run_cells(cells), strict=True):
                if str(finished.verdict.outcome) != UNSUPPORTED:
                    yield compared(stack.name, each, finished, place)


def planned(stack: str, asked: Injection) -> Planned:
    """The cell of an injection, whose script is ``injected.py`` and whose variant is its name."""
    variant = Variant(name=str(asked), role=Role.CONTROL, summary="", needs=())
    scenario = Scenario(
        name=asked.scenario,
        title="",
        path=str(SCRIPT),
        source_digest="",
        variants=(variant,),
    )
    cell = Cell(stack=stack, scenario=asked.scenario, variant=str(asked), device="cpu")
    return Planned(cell, scenario, variant, key="", inputs={}, action=Action.RUN, why="audit")


def compared(stack: str, asked: Injection, finished: Finished, place: Path) -> Audited:
    """Compare the diagnosis with the fault."""
    observation = finished.answer.observation if finished.answer else None
    diagnosis = None if observation is None else diagnose(observation)
    outcome, trains = str(finished.verdict.outcome), finished.verdict.outcome.trains
    if asked.fault == NONE:
        found = not trains or diagnosis is not None
        return Audited(
            stack, asked, outcome, detected=found, expected="nothing", named=in_words(diagnosis)
        )
    truths = sorted(place.rglob("truth.json"))
    if not truths:
        why = f"{finished.verdict.message} {last_line(finished.output)}"
        return Audited(
            stack, asked, outcome, detected=False, expected="a fault that gets in", named=why
        )
    truth = msgspec.json.decode(truths[-1].read_bytes(), type=Truth)
    fault = next(each for each in FAULTS if each.name == asked.fault)
    lines = guilty_lines(fault, truth)
    return Audited(
        stack,
        asked,
        outcome,
        detected=not trains,
        module=module_is_right(diagnosis.module if diagnosis else None, truth),
        line=line_is_right(diagnosis.place if diagnosis else None, lines) if lines else None,
        expected=expected_words(truth, lines),
        named=in_words(diagnosis),
    )


def in_words(diagnosis: Diagnosis | None) -> str:
    """A diagnosis in one line."""
    if diagnosis is None:
        return "nothing"
    place = diagnosis.place
    where = "no line" if place is None else f"{place.file}:{place.line} ({place.function})"
    return f"{diagnosis.cause}, {diagnosis.module or 'no module'} at {where}"


HEALTHY_RUNS = 100


def register_audit(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    text = "put known faults into scenarios that train, and check that each is found where it is"
    parser = add(commands, "audit", audit_command, text)
    parser.add_argument(
        "stacks", nargs="*", metavar="STACK", help="stacks of matrix.toml (default: the core ones)"
    )
    parser.add_argument(
        "--fault", action="append", default=[], metavar="NAME", help="only this fault (repeatable)"
    )
    parser.add_argument(
        "--seeds",
        type=whole,
        default=1,
        metavar="N",
        help="inject each fault this often, in a different place each time",
    )
    parser.add_argument(
        "--healthy",
        type=whole,
        default=HEALTHY_RUNS,
        metavar="N",
        help="runs without a fault, over all stacks; none may have a finding "
        f"(default: {HEALTHY_RUNS})",
    )


def whole(text: str) -> int:
    """A count from 0 on."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("0 or more")
    return number


def audit_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Run ``audit``; returns 1 if it fails."""
    faults = chosen_faults(options.fault)
    stacks = chosen_stacks(project, options.stacks, everything=False)
    done: list[Audited] = []
    with console.status("") as status:
        for position, stack in enumerate(stacks):
            healthy = options.healthy // len(stacks) + (position < options.healthy % len(stacks))
            asked = [
                *faults_for(project, stack, faults, options.seeds),
                *healthy_for(project, stack, healthy),
            ]
            show = partial(progress, status, stack.name)
            for each in audit(project, stack, asked, show):
                done.append(each)
                if each.missed:
                    console.print(Text(one_line(str(each))), soft_wrap=True)
    console.print(table(done))
    runs = [each for each in done if each.healthy]
    console.print(f"{len(runs)} healthy runs, {sum(each.detected for each in runs)} with a finding")
    problems = shortcomings(done)
    for problem in problems:
        console.print(Text(problem, style="red"), soft_wrap=True)
    return 1 if problems else 0


def progress(status: Status, stack: str, text: str) -> None:
    """Show what is being done."""
    status.update(Text(f"{stack} {text}"))


def table(done: Sequence[Audited]) -> Table:
    """A row for each kind of fault: how many were detected, and named at the right place."""
    result = Table("fault", "detected", "module", "line")
    for tally in tallies(done):
        result.add_row(tally.name, str(tally.detected), str(tally.module), str(tally.line))
    return result
