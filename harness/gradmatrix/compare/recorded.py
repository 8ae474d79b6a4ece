"""Runs that exist, as sides of a comparison.

A run is a stack of this checkout, a results folder, a file of records, or a commit. It is read, and
nothing is written into it.
"""

from __future__ import annotations

import datetime as dt
import io
import subprocess
import tarfile
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from gradmatrix.compare import RUNS
from gradmatrix.compare.comparison import Results
from gradmatrix.core.errors import UserError, did_you_mean
from gradmatrix.core.files import read_lines
from gradmatrix.core.text import listed, one_line
from gradmatrix.judge import relations
from gradmatrix.judge.change import LOCK
from gradmatrix.measure.statistics import Key
from gradmatrix.run import confirmed
from gradmatrix.run.plan import lock_input
from gradmatrix.run.store import Store, decode, newest
from gradmatrix.stacks import lock as locks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gradmatrix.core.model import Lock, Record
    from gradmatrix.run.project import Project


@dataclass(frozen=True)
class Recorded:
    """The records of a run, by stack."""

    name: str
    """As the user wrote it."""
    sides: dict[str, Results]
    problems: list[str] = field(default_factory=list)
    """What could not be read, one sentence each."""

    def side(self, stack: str) -> Results:
        """The results of one stack; UserError if there are none."""
        if stack not in self.sides:
            raise UserError(
                f"{self.name} has no records of the stack {stack!r}.",
                cause=did_you_mean(stack, sorted(self.sides)),
                next_step=f"name a stack that it has: {', '.join(sorted(self.sides))}",
            )
        return self.sides[stack]


def read(text: str, project: Project) -> Recorded:
    """The run that ``text`` names; UserError if there is no such run, or it has no records."""
    path, known = Path(text), [stack.name for stack in project.matrix.stacks]
    if text in known:
        return recorded_stack(text, project)
    if path.is_dir():
        return recorded_folder(text, path, project)
    if path.is_file():
        return recorded_file(text, path, project)
    revision, colon, folder = text.partition(":")
    is_option = revision.startswith("-") or folder.startswith("-")  # git would take it for one
    if colon and revision and folder and not is_option:
        with unpacked(revision, folder, project) as there:
            return recorded_folder(text, there, project)
    raise UserError(
        f"There is no run {text!r}.", cause=did_you_mean(text, known), next_step=f"a run is {RUNS}"
    )


def recorded_stack(stack: str, project: Project) -> Recorded:
    """The records of a stack in this checkout, published or not."""
    lock = next(iter(project.known_locks([stack])), None)
    records = [] if lock is None else list(project.records_of([stack]).values())
    if not records:
        raise UserError(
            f"There are no records of the stack {stack}.",
            cause="it was never run, or it was locked again since",
            next_step=f"gradmatrix run {stack}",
        )
    return Recorded(stack, {stack: side_of(stack, lock, records)}, project.store.problems)


def recorded_folder(name: str, folder: Path, project: Project) -> Recorded:
    """A results folder, with records/ and locks/, or a folder of records."""
    records = folder / "records" if (folder / "records").is_dir() else folder
    store = Store(records, records)
    found = list(store.everything().values())
    locks_folder = (folder if records != folder else folder.parent) / "locks"
    return recorded(name, found, locks_folder, store.problems, project)


def recorded_file(name: str, path: Path, project: Project) -> Recorded:
    """A file of records. The locks are those beside its folder."""
    found: list[Record] = []
    problems: list[str] = []
    confirmations = confirmed.load(confirmed.path_of(path.absolute().parent, path.stem))
    for line in read_lines(path, decode):
        if line.value is None:
            problems.append(f"{path.name}, line {line.number} was skipped: {line.problem}")
        else:
            found.append(confirmed.applied(line.value, confirmations.get(line.value.cell)))
    return recorded(
        name, newest(found).values(), path.absolute().parent.parent / "locks", problems, project
    )


def recorded(
    name: str, records: Iterable[Record], locks_folder: Path, problems: list[str], project: Project
) -> Recorded:
    """Records by stack, with relations judged and the lock that they ran with.

    Raises:
        UserError: if there are no records
    """
    by_stack: dict[str, list[Record]] = defaultdict(list)
    for record in relations.judged(records, project.known_scenarios()):
        by_stack[record.cell.stack].append(record)
    if not by_stack:
        raise UserError(
            f"There are no records in {name}.",
            cause=one_line(problems[0])
            if problems
            else "it has no file of records (.jsonl) with a line in it",
            next_step=f"a run is {RUNS}",
        )
    sides = {}
    for stack, found in sorted(by_stack.items()):
        then = max(found, key=lambda each: each.known_at).inputs.get(LOCK)
        lock = lock_under(stack, then, (locks_folder, project.locks_folder))
        sides[stack] = side_of(
            stack, lock, (each for each in found if each.inputs.get(LOCK) in {None, then})
        )
    return Recorded(name, sides, problems)


def lock_under(stack: str, then: str | None, folders: Iterable[Path]) -> Lock | None:
    """The lock with the digest ``then`` in one of the folders; None if none has it."""
    for folder in folders:
        lock = locks.load(stack, folder) if folder.is_dir() else None
        if lock is not None and lock_input(lock) == then:
            return lock
    return None


def side_of(name: str, lock: Lock | None, records: Iterable[Record]) -> Results:
    """Records as the results of one side."""
    return Results(
        name, lock, {Key(r.cell.scenario, r.cell.variant, r.cell.device): r for r in records}
    )


@contextmanager
def unpacked(revision: str, folder: str, project: Project) -> Iterator[Path]:
    """A folder of a commit, unpacked while it is read; UserError if git does not know it."""
    command = ["git", "-C", str(project.root), "archive", "--format=tar", revision, folder]
    try:
        done = subprocess.run(command, check=False, capture_output=True)
    except FileNotFoundError:
        done = subprocess.CompletedProcess(command, 127, b"", b"git is not installed")
    if done.returncode:
        raise UserError(
            f"There is no run {revision}:{folder}.",
            cause=one_line(done.stderr.decode(errors="replace")),
            next_step=f"a run is {RUNS}",
        )
    with TemporaryDirectory() as place:
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(place, filter="data")
        yield Path(place) / folder


def paired(
    baseline: Recorded, candidate: Recorded, stacks: tuple[str, str] | None
) -> tuple[list[tuple[Results, Results]], tuple[str, ...]]:
    """The pairs of stacks to compare, and notes about stacks that are not compared.

    Two runs of one stack each are compared whatever the stacks are called. Otherwise the stacks
    that both runs have are compared.

    Raises:
        UserError: if there is no pair
    """
    if stacks is not None:
        return [(baseline.side(stacks[0]), candidate.side(stacks[1]))], ()
    if len(baseline.sides) == len(candidate.sides) == 1:
        return [(next(iter(baseline.sides.values())), next(iter(candidate.sides.values())))], ()
    shared = [stack for stack in baseline.sides if stack in candidate.sides]
    if not shared:
        ours, theirs = listed(baseline.sides), listed(candidate.sides)
        raise UserError(
            f"{baseline.name} and {candidate.name} have no stack in common.",
            cause=f"the first has {ours}, the second has {theirs}",
            next_step="name the two stacks to compare: --stacks A B",
        )
    notes = tuple(
        f"Not compared, because only {run.name} has records of them: {', '.join(alone)}."
        for run in (baseline, candidate)
        if len(run.sides) > 1 and (alone := sorted(run.sides.keys() - set(shared)))
    )
    if 1 in {len(baseline.sides), len(candidate.sides)}:
        notes = ()  # one stack was asked for
    pairs = [(baseline.sides[stack], candidate.sides[stack]) for stack in shared]
    return sorted(pairs, key=lambda each: day_of(each[1])), notes


def day_of(side: Results) -> tuple[dt.date, str]:
    """Sorts sides by the day of their lock; sides without a lock come first."""
    return side.lock.as_of if side.lock is not None else dt.date.min, side.name
