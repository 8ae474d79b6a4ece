"""Which release did it, for the whole matrix.

Stacks are compared in the order of their days. Where a cell ends differently on two neighbours, the
release is looked for between these two. Cells that change between the same stacks share all
environments, and what changed them elsewhere is tried first. What is found is written at once, so
that a run may end at any time.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from gradmatrix.compare import resolution, sides
from gradmatrix.compare.bisect import Bisection, NoAnswer, NotHere, OutOfTime, Shared, is_judged
from gradmatrix.compare.flips import load, path_of
from gradmatrix.compare.upgrade import THIS, ended, folder_of, key_of
from gradmatrix.core.files import held, write_atomically
from gradmatrix.judge.edge import Flips, History, Turning
from gradmatrix.measure.statistics import Key
from gradmatrix.run.plan import lock_input
from gradmatrix.run.project import by_date

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from gradmatrix.compare.resolution import Resolved
    from gradmatrix.core.model import Record
    from gradmatrix.run.project import Project
    from gradmatrix.run.stack import Machines, Progress

COMING = "next"
"""The stack of pre-releases: its changes are looked for first."""
QUICKER = 2
"""How much sooner a search ends if something is known of its cell from other stacks."""


def current(project: Project, pair: Sequence[str] = ()) -> Flips:
    """Every change between neighbouring stacks, with what is known of it.

    Changes between other stacks are among them if they were looked for, or if ``pair`` names these.
    """
    known = load(project.published_results).turns
    pairs = {each.stacks for each in known}
    pairs |= set(pairwise(lock.stack for lock in by_date(project.known_locks(pair))))
    found = changes(project, pairs)
    answers = {each.change: each for each in known}
    turns = [answers.get(each.change, each) for each in found]
    return Flips(turns=tuple(sorted(turns, key=lambda turn: {*turn.stacks} != {*pair})))


def taken(project: Project, flips: Flips, given: Flips) -> Flips:
    """What is known with the answers of another machine to questions that are open; it is kept."""
    return write(project, answered(flips, given))


def answered(flips: Flips, given: Flips) -> Flips:
    """What is known, with the answers of ``given`` to questions that are open."""
    answers = {each.change: each for each in given.turns}
    turns = (answers.get(each.change, each) if each.is_open else each for each in flips.turns)
    return Flips(turns=tuple(turns))


def write(project: Project, flips: Flips) -> Flips:
    """Keep what was found, with the answers that another run has found meanwhile.

    The file keeps its order, so that a difference shows what is new.
    """
    with held(folder_of(project) / "flips.lock"):
        known = load(project.published_results)
        pairs = {each.stacks for each in flips.turns}
        stacks = {each.name for each in project.matrix.stacks}
        others = (t for t in known.turns if t.stacks not in pairs and stacks >= {*t.stacks})
        found = answered(Flips(turns=(*flips.turns, *others)), known)
        places = {each.change: place for place, each in enumerate(known.turns)}
        order = sorted(found.turns, key=lambda turn: places.get(turn.change, len(places)))
        content = msgspec.json.format(msgspec.json.encode(Flips(turns=tuple(order))), indent=1)
        write_atomically(path_of(project.published_results), content + b"\n")
    return found


def changes(project: Project, further: Iterable[tuple[str, str]] = ()) -> list[Turning]:
    """Every change between neighbouring stacks or ``further`` pairs, those of most cells first."""
    locks = [
        lock
        for lock in by_date(project.known_locks())
        if lock.failure is None and lock.stack not in project.combined
    ]
    digits = {lock.stack: lock_input(lock) for lock in locks}
    records = project.records_of(digits)
    along: dict[Key, list[Record]] = defaultdict(list)
    for lock in locks:
        for cell, record in records.items():
            if cell.stack == lock.stack and is_judged(record):
                along[key_of(cell)].append(record)
    found: dict[tuple[str, str], list[Turning]] = defaultdict(list)
    for key, line in along.items():
        there = {record.cell.stack: record for record in line}
        pairs = {(one.cell.stack, other.cell.stack) for one, other in pairwise(line)}
        for stacks in sorted(pairs | {each for each in further if there.keys() >= {*each}}):
            one, other = (there[stack] for stack in stacks)
            if ended(one) != ended(other):
                turn = Turning(
                    cell=str(key),
                    stacks=stacks,
                    locks=(digits[stacks[0]], digits[stacks[1]]),
                    outcomes=(one.outcome, other.outcome),
                )
                found[stacks].append(turn)
    order = sorted(found, key=lambda stacks: (COMING not in stacks, -len(found[stacks]), stacks))
    return [turn for stacks in order for turn in sorted(found[stacks], key=lambda t: t.cell)]


def groups(
    flips: Flips,
    stacks: tuple[str, str],
    known: Mapping[str, History],
    without: Collection[str] = (),
) -> dict[History, list[Turning]]:
    """What is open between two stacks, by what is known of the cells: what to look for next first.

    Cells in ``without`` are left out. The most cells come first. Those of which nothing is known
    count less, because their searches ask about more sets of packages.
    """
    found: dict[History, list[Turning]] = defaultdict(list)
    for each in flips.turns:
        if each.stacks == stacks and each.is_open and each.cell not in without:
            found[known[each.cell]].append(each)
    order = sorted(found.items(), key=lambda each: -len(each[1]) * (QUICKER if each[0] else 1))
    return dict(order)


@dataclass
class Search:
    """Looks for the releases behind changes until its time is over."""

    project: Project
    progress: Progress
    tell: Callable[[str], object]
    """Gets a line about each step."""
    budget_s: float
    machines: Machines = THIS

    def run(self, flips: Flips) -> Flips:
        """Look for what is open, side by side between different stacks."""
        until = time.monotonic() + self.budget_s
        pairs = list(dict.fromkeys(turn.stacks for turn in flips.turns if turn.is_open))
        together = max(1, min(len(pairs), self.machines.at_once))
        look = partial(self.between, flips, until, self.machines.spare // together)
        for _ in self.machines.side_by_side(look, pairs):
            pass
        return answered(flips, load(self.project.published_results))

    def between(self, flips: Flips, until: float, spare: int, stacks: tuple[str, str]) -> None:
        """Look for what is open between two stacks; write the file after each answer.

        Cells of which the same is known from other stacks run together.
        """
        flips, shared = answered(flips, load(self.project.published_results)), Shared()
        locks = self.project.known_locks(stacks)
        known = {each.cell: flips.history(each.cell, *locks) for each in flips.turns}
        elsewhere: set[str] = set()
        while asked := groups(flips, stacks, known, elsewhere):
            if time.monotonic() > until:
                return
            history, beside = next(iter(asked.items()))
            try:
                found = self.answered(beside, replace(shared, known=history), until, spare)
            except OutOfTime:
                return
            except NotHere as error:
                self.tell(f"{beside[0].cell}: left open, {error.cause}")
                elsewhere.add(beside[0].cell)
                continue
            turns = (found if each.change == found.change else each for each in flips.turns)
            flips = write(self.project, Flips(turns=tuple(turns)))

    def answered(
        self, beside: Sequence[Turning], shared: Shared, until: float, spare: int
    ) -> Turning:
        """The first of these changes with its release, or with the reason why there is none.

        If the older stack does not give a release, the search begins at the newer one: other sets
        of packages can be imported there.
        """
        turn = beside[0]
        self.tell(f"{turn.cell}: {turn.stacks[0]} → {turn.stacks[1]}")
        found = self.searched(beside, turn.stacks, shared, until, spare)
        if found.is_exact:
            return found
        self.tell(f"{turn.cell}: from the other side, {turn.stacks[1]}")
        other = self.searched(beside, turn.stacks[::-1], shared, until, spare)
        return other if other.is_exact else found

    def searched(
        self,
        beside: Sequence[Turning],
        stacks: Sequence[str],
        shared: Shared,
        until: float,
        spare: int,
    ) -> Turning:
        """The first of these changes with what a search from the first of two stacks says."""
        turn = beside[0]
        keys = [Key(*each.cell.split("/")) for each in beside]
        names = {key.scenario for key in keys}
        scenarios = tuple(s for s in self.project.chosen_scenarios() if s.name in names)
        try:
            good, bad = map(self.resolved, stacks)
            found = Bisection(
                self.project,
                good,
                bad,
                scenarios,
                keys[0],
                self.progress,
                self.tell,
                along=keys,
                shared=shared,
                others=False,  # the file has no place for it
                machines=self.machines,
                spare=spare,
                until=until,
            ).run()
        except NoAnswer as error:
            return msgspec.structs.replace(turn, why=f"{error.what} {error.cause}")
        why = "" if found.edges else "it ended in the same way on both sides"
        return msgspec.structs.replace(turn, edges=found.edges, why=why)

    def resolved(self, stack: str) -> Resolved:
        """A stack of the matrix as a side."""
        return resolution.resolved(
            sides.of_stack(self.project.matrix.stack(stack), self.project),
            self.project.index,
            folder_of(self.project) / "locks",
            self.project.locks_folder,
        )
