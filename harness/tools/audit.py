"""The self-audit: known faults must be detected and named, and where there is none there must be no finding.

``audit``: known faults are put into healthy variants, to see whether they are found and named.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from rich.table import Table
from rich.text import Text

from gradmatrix.cli.commands import add
from gradmatrix.cli.options import chosen
from gradmatrix.core.errors import UserError, did_you_mean
from gradmatrix.core.model import Cell, Role, Scenario, Steps, Variant
from gradmatrix.core.text import one_line
from gradmatrix.judge.diagnosis import diagnose
from gradmatrix.judge.verdict import last_line
from gradmatrix.run.plan import Action, Planned
from gradmatrix.run.pool import Settings, server_pool
from gradmatrix.run.scenarios import unmet
from gradmatrix.stacks import environment
from tools import injection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from rich.console import Console
    from rich.status import Status

    from gradmatrix.core.model import Stack
    from gradmatrix.judge.diagnosis import Diagnosis
    from gradmatrix.run.pool import Finished
    from gradmatrix.run.project import Project
    from tools.injection import Fault, Injection


STEPS = Steps(audit=4, warmup=1, timed=1)
WANTED = 0.95
"""Share of the faults that must be named at the right module, and at the right line."""


@dataclass(frozen=True)
class Audited:
    """One injected fault, or one healthy run, and what was said of it."""

    stack: str
    injection: Injection
    outcome: str
    detected: bool
    """There is a finding: the cell does not train, or there is a diagnosis."""
    module: bool | None = None
    """Whether the right module was named; None where no module is to blame."""
    line: bool | None = None
    """Whether the right line was named; None where no line is to blame."""
    expected: str = ""
    named: str = ""

    @property
    def healthy(self) -> bool:
        """No fault was injected: there must not be a finding."""
        return self.injection.fault == injection.NONE

    @property
    def missed(self) -> bool:
        """Something about it is not as it should be."""
        return (
            self.detected
            if self.healthy
            else not self.detected or self.module is False or self.line is False
        )

    def __str__(self) -> str:
        return f"{self.stack} {self.injection}: {self.outcome}; expected {self.expected}; named {self.named}"


@dataclass(frozen=True)
class Score:
    """How many were right of those that could be."""

    right: int
    of: int

    @classmethod
    def over(cls, answers: Iterable[bool | None]) -> Score:
        """Count the answers, but not those that were not asked for."""
        asked = [answer for answer in answers if answer is not None]
        return cls(sum(asked), len(asked))

    @property
    def share(self) -> float:
        """Right ones over all; 1 where nothing was asked for."""
        return self.right / self.of if self.of else 1.0

    def __str__(self) -> str:
        return f"{self.right}/{self.of}" if self.of else "–"


@dataclass(frozen=True)
class Tally:
    """What came of one kind of fault, or of all."""

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
    """One for each kind of fault that was injected, then one of all."""
    faulty = [each for each in audited if not each.healthy]
    kinds = dict.fromkeys(each.injection.fault for each in faulty)
    of_each = [
        Tally.over(kind, [each for each in faulty if each.injection.fault == kind])
        for kind in kinds
    ]
    return [*of_each, Tally.over("all", faulty)]


def shortcomings(audited: Sequence[Audited]) -> list[str]:
    """Why the audit is not passed; none where it is."""
    total = tallies(audited)[-1]
    findings = sum(each.detected for each in audited if each.healthy)
    found = []
    if total.detected.right < total.detected.of:
        found.append(f"{total.detected.of - total.detected.right} faults were not detected")
    for what, score in (("module", total.module), ("line", total.line)):
        if score.share < WANTED:
            found.append(
                f"the right {what} was named for {score.share:.1%}, wanted are {WANTED:.0%}"
            )
    if findings:
        found.append(f"{findings} healthy runs have a finding")
    return found


def chosen_faults(names: Sequence[str]) -> list[Fault]:
    """The named faults, or all; UserError for an unknown name."""
    known = {fault.name: fault for fault in injection.FAULTS}
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
    """The faults in every healthy variant that the stack has what it needs for."""
    runnable = runnable_on(project, stack)
    healthy = {
        scenario: {
            variant: traits
            for variant, traits in variants.items()
            if (scenario, variant) in runnable
        }
        for scenario, variants in injection.HEALTHY.items()
    }
    return injection.injections(faults, healthy, seeds)


def healthy_for(project: Project, stack: Stack, count: int) -> list[Injection]:
    """So many healthy runs: every variant that the records say trains on this stack, with one seed after the other.

    Without records they are the variants that faults are put into.
    """
    runnable = runnable_on(project, stack)
    recorded = {
        (cell.scenario, cell.variant)
        for cell, record in project.store.everything().items()
        if (cell.stack, cell.device, record.outcome) == (stack.name, "cpu", "trains")
    }
    known = [
        (scenario, variant)
        for scenario, variants in injection.HEALTHY.items()
        for variant in variants
    ]
    pairs = sorted(recorded & runnable) or [pair for pair in known if pair in runnable]
    return [
        injection.Injection(
            fault=injection.NONE, scenario=scenario, variant=variant, seed=1 + number // len(pairs)
        )
        for number, (scenario, variant) in zip(range(count), itertools.cycle(pairs), strict=False)
    ]


def runnable_on(project: Project, stack: Stack) -> set[tuple[str, str]]:
    """The scenarios' variants that the stack has what they need for."""
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
    """Run each injection on the stack, which is installed first; where it has no such feature, nothing comes back."""
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
                if str(finished.verdict.outcome) != "setup:unsupported":
                    yield compared(stack.name, each, finished, place)


def planned(stack: str, asked: Injection) -> Planned:
    """The cell of an injection: its script is that of the faults, its variant the injection's whole name."""
    variant = Variant(name=str(asked), role=Role.CONTROL, summary="", needs=())
    scenario = Scenario(
        name=asked.scenario,
        title="",
        path=str(injection.SCRIPT),
        source_digest="",
        variants=(variant,),
    )
    cell = Cell(stack=stack, scenario=asked.scenario, variant=str(asked), device="cpu")
    return Planned(cell, scenario, variant, key="", inputs={}, action=Action.RUN, why="audit")


def compared(stack: str, asked: Injection, finished: Finished, place: Path) -> Audited:
    """What was diagnosed beside what was done."""
    observation = finished.answer.observation if finished.answer else None
    diagnosis = None if observation is None else diagnose(observation)
    outcome, trains = str(finished.verdict.outcome), finished.verdict.outcome.trains
    if asked.fault == injection.NONE:
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
    truth = msgspec.json.decode(truths[-1].read_bytes(), type=injection.Truth)
    fault = next(each for each in injection.FAULTS if each.name == asked.fault)
    lines = injection.guilty_lines(fault, truth)
    return Audited(
        stack,
        asked,
        outcome,
        detected=not trains,
        module=injection.module_is_right(diagnosis.module if diagnosis else None, truth),
        line=injection.line_is_right(diagnosis.place if diagnosis else None, lines)
        if lines
        else None,
        expected=injection.in_words(truth, lines),
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
    text = "put known faults into scenarios that train: is each detected, and named at the right module and line?"
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
        help="how often each fault is injected, elsewhere each time",
    )
    parser.add_argument(
        "--healthy",
        type=whole,
        default=HEALTHY_RUNS,
        metavar="N",
        help=f"runs without a fault, over all stacks, of which none may have a finding (default: {HEALTHY_RUNS})",
    )


def whole(text: str) -> int:
    """A count from 0 on."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("0 or more")
    return number


def audit_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``audit``: 1 where a fault is not detected, too few are named right, or a healthy run has a finding."""
    faults = chosen_faults(options.fault)
    stacks = chosen(project, options.stacks, everything=False)
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
    """Show what takes a while now."""
    status.update(Text(f"{stack} {text}"))


def table(done: Sequence[Audited]) -> Table:
    """A row for each kind of fault: how many were detected, and named at the right module and line."""
    result = Table("fault", "detected", "module", "line")
    for tally in tallies(done):
        result.add_row(tally.name, str(tally.detected), str(tally.module), str(tally.line))
    return result
