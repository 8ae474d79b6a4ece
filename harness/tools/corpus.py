"""``corpus``: trace scripts that train real libraries, healthy ones and ones with a known fault.

The scripts are in ``tests/corpus/``. ``NAME.py`` is a healthy script, written as the documentation
of its library does it. A comment block at its start (PEP 723) says where it comes from. Its faults
are in ``NAME.toml``. Each is an edit of the script and the truth about it. The truth was written
before anybody traced the fault. A share of both is marked as kept out: nobody read it while rules
were made.

A healthy script is right if it is said to train, or if nothing is said because it could not be
judged; the second is counted. A fault is right if it is found, with its cause, at the user's line,
and with a remedy that helps. Whether a remedy helps, only a reader can say; here a word of it is
compared.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.table import Table
from rich.text import Text

from gradmatrix.cli.commands import add, positive
from gradmatrix.core.errors import UserError, did_you_mean, wrong
from gradmatrix.core.files import from_table, read_table
from gradmatrix.core.model import Build
from gradmatrix.core.observation import Frozen
from gradmatrix.core.outcomes import Outcome
from gradmatrix.core.text import one_line
from gradmatrix.stacks import config, environment, lock
from gradmatrix.stacks.environment import BuildChoice
from gradmatrix.trace.trace import Finding
from tools.audit import Lines, Score, line_is_right, statement

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.console import Console

    from gradmatrix.run.project import Project


FOLDER = Path(__file__).parents[2] / "tests" / "corpus"
LOCKS = "locks"
METADATA = re.compile(r"(?m)^# /// script$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
"""The block of PEP 723, by the expression that it gives."""
WANTED = {"detected": 0.97, "cause": 0.92, "line": 0.85, "remedy": 0.85}
"""The share of faults that must be right in each way."""
TIMEOUT_S = 600


class Edit(Frozen, frozen=True):
    """A replacement of text that stands exactly once in the script."""

    old: str
    new: str


class Truth(Frozen, frozen=True, kw_only=True):
    """What a good answer says about a fault."""

    says: str
    """The answer, for a reader."""
    causes: tuple[str, ...]
    """The accepted causes."""
    lines: tuple[str, ...] = ()
    """Text of the accepted lines, each of which stands exactly once in the edited script."""
    modules: tuple[str, ...] = ()
    """The accepted modules; none if any will do."""
    remedy: str
    """What helps, for a reader."""
    remedy_says: tuple[str, ...]
    """Advice that helps has one of these words."""
    kept_out: bool = False


class Fault(Frozen, frozen=True, kw_only=True):
    """A mistake that somebody made and asked about."""

    name: str
    source: str
    """The address of the question or report."""
    edits: tuple[Edit, ...]
    truth: Truth


class _Faults(Frozen, frozen=True):
    """A file with faults."""

    faults: tuple[Fault, ...]


class Origin(Frozen, frozen=True, kw_only=True):
    """Where a script comes from: the table ``[tool.corpus]`` of its block."""

    environment: str
    """The stack in ``matrix.toml`` beside it."""
    field: str
    source: str
    """The documentation or example that it follows."""
    optimizer: bool
    """Whether it steps an optimizer of torch."""
    kept_out: bool = False


class _Tool(Frozen, frozen=True):
    corpus: Origin


class _Metadata(Frozen, frozen=True):
    dependencies: tuple[str, ...]
    tool: _Tool


@dataclass(frozen=True)
class Script:
    """A healthy script with its faults."""

    path: Path

    @property
    def name(self) -> str:
        """Its name."""
        return self.path.stem

    @cached_property
    def text(self) -> str:
        """Its source."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def metadata(self) -> _Metadata:
        """What its block says; UserError if it has none."""
        block = METADATA.search(self.text)
        if block is None:
            raise wrong(self.path, "has no block of metadata (PEP 723)")
        content = "".join(line[2:] or "\n" for line in block["content"].splitlines(keepends=True))
        return from_table(self.path, tomllib.loads(content), _Metadata)

    @property
    def origin(self) -> Origin:
        """Where it comes from."""
        return self.metadata.tool.corpus

    @cached_property
    def faults(self) -> tuple[Fault, ...]:
        """Its faults."""
        path = self.path.with_suffix(".toml")
        return from_table(path, read_table(path), _Faults).faults if path.exists() else ()

    def edited(self, fault: Fault) -> str:
        """Its source with a fault.

        Raises:
            UserError: if an edit or a line of the truth does not fit.
        """
        text = self.text
        for edit in fault.edits:
            if text.count(edit.old) != 1:
                raise self.unfit(fault, edit.old, text.count(edit.old))
            text = text.replace(edit.old, edit.new)
        lines = text.splitlines()
        for wanted in fault.truth.lines:
            found = sum(wanted in line for line in lines)
            if found != 1:
                raise self.unfit(fault, wanted, found)
        return text

    def unfit(self, fault: Fault, text: str, found: int) -> UserError:
        """The error about a text that does not stand exactly once in the script."""
        return wrong(
            self.path.with_suffix(".toml"),
            f"{fault.name}: {one_line(text)!r} must stand once in the script, not {found} times",
        )


def scripts_in(folder: Path) -> list[Script]:
    """The scripts of a corpus, by name."""
    return [Script(path) for path in sorted(folder.glob("*.py"))]


@dataclass(frozen=True)
class Case:
    """A script to trace: healthy, or with one fault."""

    script: Script
    fault: Fault | None = None

    @property
    def name(self) -> str:
        """The script's name, and that of its fault."""
        return self.script.name if self.fault is None else f"{self.script.name}/{self.fault.name}"

    @property
    def kept_out(self) -> bool:
        """Whether nobody read it while rules were made."""
        return self.script.origin.kept_out or (self.fault is not None and self.fault.truth.kept_out)

    @cached_property
    def text(self) -> str:
        """The source that is traced."""
        return self.script.text if self.fault is None else self.script.edited(self.fault)

    @cached_property
    def guilty(self) -> tuple[Lines, ...]:
        """The statements that a diagnosis may name."""
        wanted = self.fault.truth.lines if self.fault is not None else ()
        numbers = [
            number
            for number, line in enumerate(self.text.splitlines(), 1)
            if any(text in line for text in wanted)
        ]
        if not numbers:
            return ()
        tree = ast.parse(self.text)
        return tuple(statement(tree, number, self.script.path.name) for number in numbers)


def cases_of(scripts: Iterable[Script]) -> list[Case]:
    """Each script, followed by its faults."""
    return [Case(script, fault) for script in scripts for fault in (None, *script.faults)]


@dataclass(frozen=True)
class Answer:
    """What ``trace`` said about a case."""

    case: Case
    finding: Finding

    @property
    def detected(self) -> bool:
        """Whether something was found: a diagnosis, or an outcome that is a failure."""
        outcome = Outcome(self.finding.outcome)
        return self.finding.diagnosis is not None or (outcome.judged and not outcome.trains)

    @property
    def cause(self) -> bool:
        """Whether the cause is an accepted one."""
        found, fault = self.finding.diagnosis, self.case.fault
        return found is not None and fault is not None and found.cause in fault.truth.causes

    @property
    def line(self) -> bool | None:
        """Whether an accepted line of the script is named; None if no line is to blame."""
        if not self.case.guilty:
            return None
        found = self.finding.diagnosis
        places = () if found is None else (found.user, found.place)
        return any(line_is_right(place, self.case.guilty) for place in places)

    @property
    def remedy(self) -> bool:
        """Whether the last sentence has a word of the remedy."""
        fault, said = self.case.fault, self.finding.explanation[-1:]
        return fault is not None and any(
            word.casefold() in line.casefold() for line in said for word in fault.truth.remedy_says
        )

    @property
    def right(self) -> bool:
        """Whether all of it is right."""
        if self.case.fault is None:
            return not self.detected and self.finding.exit_code == 0
        return self.detected and self.cause and self.line is not False and self.remedy

    def __str__(self) -> str:
        found, fault = self.finding.diagnosis, self.case.fault
        head = f"{self.case.name}: {self.finding.outcome}"
        if found is not None:
            at = found.user or found.place
            head += f", {found.cause} at {f'{at.file}:{at.line}' if at else 'no line'}"
        if fault is None:
            return f"{head}; it is healthy: {' '.join(self.finding.explanation)}"
        missed = [name for name in WANTED if getattr(self, name) is False]
        lines = ", ".join(map(str, self.case.guilty)) or "no line"
        return (
            f"{head}; wrong: {', '.join(missed)}; expected {' or '.join(fault.truth.causes)} at "
            f"{lines}: {fault.truth.says}"
        )


def trace(case: Case, python: Path) -> Answer:
    """Trace a case as a user does, in a folder of its own.

    Raises:
        UserError: if ``trace`` wrote no finding, or did not end.
    """
    with tempfile.TemporaryDirectory(prefix="gradmatrix-corpus-") as folder:
        path = Path(folder) / case.script.path.name
        path.write_text(case.text, encoding="utf-8")
        output = Path(folder) / "finding.json"
        words = ["trace", "--python", str(python), "--output", str(output), path.name]
        try:
            ran = subprocess.run(
                [sys.executable, "-m", "gradmatrix", *words],
                cwd=folder,
                env={**os.environ, **OFFLINE},
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            raise UserError(
                f"trace of {case.name} did not end in {TIMEOUT_S:g} s.",
                cause="the script hangs, or the machine is very busy",
                next_step="trace the script alone to see why",
            ) from None
        if not output.exists():
            raise UserError(
                f"trace wrote no finding about {case.name}.",
                cause=(ran.stderr.strip().splitlines() or ["it gave no reason"])[-1],
                next_step="trace the script alone to see why",
            )
        return Answer(case, msgspec.json.decode(output.read_bytes(), type=Finding))


OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(Path(__file__).parents[1]),
    "TOKENIZERS_PARALLELISM": "false",
    "WANDB_MODE": "disabled",
}
"""Variables of every script: nothing is downloaded, and one case takes one core."""


def installed(project: Project, names: Iterable[str], say: Console) -> dict[str, Path]:
    """The interpreter of each environment that is needed, installed from its lock."""
    known = {s.name: s for s in config.load(FOLDER / "matrix.toml", ("corpus",)).stacks}
    pythons = {}
    for name in sorted(set(names)):
        if name not in known:
            raise wrong(
                FOLDER / "matrix.toml", f"has no stack {name!r}: {did_you_mean(name, known)}"
            )
        stack, folder = known[name], FOLDER / LOCKS
        say.print(f"installing {name}")
        found = lock.load(name, folder)
        if found is None or not lock.is_current(stack, found):
            found = lock.resolve(stack, project.index, folder)
        # torchvision's wheel in the index fits only the index's own build of torch
        whole = found.version("torchvision") is not None
        pythons[name] = environment.ensure(
            found,
            folder,
            project.environments / "corpus",
            choose=(lambda _: BuildChoice(Build.DEFAULT)) if whole else None,
        ).python
    return pythons


@contextmanager
def pooled(
    cases: Iterable[Case], jobs: int, project: Project, say: Console
) -> Iterator[tuple[ThreadPoolExecutor, dict[str, Path]]]:
    """Threads to run cases in, and the interpreter of each environment, held while they run."""
    environments = {case.script.origin.environment for case in cases}
    with ExitStack() as held:
        for name in sorted(environments):
            waiting = partial(say.print, f"{name} waits for another process that uses it")
            held.enter_context(environment.in_use(project.environments / "corpus", name, waiting))
        pythons = installed(project, environments, say)
        yield held.enter_context(ThreadPoolExecutor(jobs)), pythons


@dataclass(frozen=True)
class Tally:
    """The answers to a share of the corpus."""

    name: str
    healthy: Score
    by_hand: Score
    """Of the healthy scripts, those that step no optimizer of torch."""
    faults: Mapping[str, Score]

    @classmethod
    def over(cls, name: str, answers: Sequence[Answer]) -> Tally:
        """Count the answers."""
        healthy = [each for each in answers if each.case.fault is None]
        faulty = [each for each in answers if each.case.fault is not None]
        return cls(
            name,
            Score.over(each.right for each in healthy),
            Score.over(each.right for each in healthy if not each.case.script.origin.optimizer),
            {what: Score.over(getattr(each, what) for each in faulty) for what in WANTED},
        )


def tallies(answers: Sequence[Answer]) -> list[Tally]:
    """The open share, the kept-out share, and both."""
    shares = {
        "open": [each for each in answers if not each.case.kept_out],
        "kept out": [each for each in answers if each.case.kept_out],
        "all": list(answers),
    }
    return [Tally.over(name, share) for name, share in shares.items() if share]


def shortcomings(answers: Sequence[Answer]) -> list[str]:
    """Why the corpus fails; empty if it passes."""
    total = tallies(answers)[-1]
    found = [
        f"{what}: right for {score} faults, at least {WANTED[what]:.0%} are required"
        for what, score in total.faults.items()
        if score.share < WANTED[what]
    ]
    broken = total.healthy.of - total.healthy.right
    if broken:
        found.append(f"{broken} healthy scripts are called broken")
    return found


def register_corpus(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    text = "trace scripts that train real libraries: is every healthy one called healthy, and is "
    parser = add(commands, "corpus", corpus_command, text + "the cause of every fault named?")
    add_choice(parser)
    parser.add_argument("--healthy", action="store_true", help="only the healthy scripts")
    parser.add_argument(
        "--output", type=Path, default=None, metavar="FILE",
        help="add every answer beside its truth, for a reader who judges the remedies",
    )  # fmt: skip


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which cases run, and how many at once."""
    parser.add_argument(
        "names", nargs="*", metavar="SCRIPT", help="only these, or SCRIPT/FAULT (default: all)"
    )
    parser.add_argument(
        "--jobs", type=positive, default=1, metavar="N", help="trace so many at once (default: 1)"
    )
    parser.add_argument("--open", action="store_true", help="not what is kept out")


def chosen(options: argparse.Namespace) -> list[Case]:
    """The cases that a command line means.

    Raises:
        UserError: for an unknown name.
    """
    cases = cases_of(scripts_in(FOLDER))
    known = {case.name for case in cases}
    for name in options.names:
        if name not in known:
            raise UserError(
                f"There is no script or fault {name!r}.",
                cause=did_you_mean(name, known),
                next_step="leave the name out for all of them",
            )
    return [
        case
        for case in cases
        if not (options.names and {case.name, case.script.name}.isdisjoint(options.names))
        and not (options.healthy and case.fault is not None)
        and not (options.open and case.kept_out)
    ]


def corpus_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Run ``corpus``; returns 1 if it fails."""
    cases = chosen(options)
    answers: list[Answer] = []
    with pooled(cases, options.jobs, project, console) as (pool, pythons):
        for answer in pool.map(lambda c: trace(c, pythons[c.script.origin.environment]), cases):
            answers.append(answer)
            if options.output is not None:
                with options.output.open("ab") as file:
                    file.write(msgspec.json.encode(readable(answer)) + b"\n")
            if not answer.right:
                console.print(Text(one_line(str(answer))), soft_wrap=True)
    console.print(table(answers))
    unsure = [a.case.name for a in answers if not Outcome(a.finding.outcome).judged]
    if unsure:
        console.print(Text(f"not judged: {', '.join(unsure)}"), soft_wrap=True)
    problems = shortcomings(answers)
    for problem in problems:
        console.print(Text(problem, style="red"), soft_wrap=True)
    return 1 if problems else 0


def readable(answer: Answer) -> dict[str, object]:
    """An answer beside its truth."""
    fault, finding = answer.case.fault, answer.finding
    return {
        "case": answer.case.name,
        "outcome": finding.outcome,
        "says": finding.explanation,
        "remarks": finding.remarks,
        "diagnosis": finding.diagnosis,
        "truth": None if fault is None else fault.truth,
        "right": {name: getattr(answer, name) for name in WANTED} if fault else answer.right,
    }


def table(answers: Sequence[Answer]) -> Table:
    """A row for each share."""
    result = Table(
        "share", "healthy", "without an optimizer", *(f"faults: {what}" for what in WANTED)
    )
    for tally in tallies(answers):
        scores: Iterator[Score] = iter((tally.healthy, tally.by_hand, *tally.faults.values()))
        result.add_row(tally.name, *map(str, scores))
    return result
