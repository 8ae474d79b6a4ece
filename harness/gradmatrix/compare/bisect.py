"""Which release did it? From two sides that end differently to the release between them.

First the packages: those of the bad side are put into the good one, the likely ones first, until
the outcome changes. Then the releases of that package. Every set of packages is resolved, locked,
installed and run by itself, so nothing of an earlier one is left in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import starmap
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from gradmatrix.compare import resolution, sides
from gradmatrix.compare.upgrade import SideRun, ended, folder_of, with_partners
from gradmatrix.core.errors import UserError
from gradmatrix.core.outcomes import (
    INDEX_UNREACHABLE,
    NOT_INSTALLED,
    OF_THE_MACHINE,
    UNSUPPORTED,
    Phase,
    phase_of,
)
from gradmatrix.core.text import one_line
from gradmatrix.judge.diagnosis import diagnose
from gradmatrix.judge.edge import Edge, End, Found, Search, Skipped
from gradmatrix.judge.versions import packages_moved
from gradmatrix.run.plan import Selection
from gradmatrix.stacks import environment
from gradmatrix.stacks import lock as locks
from gradmatrix.stacks.environment import ONLY_CUDA, TRITON
from gradmatrix.stacks.generate import TWINS
from gradmatrix.stacks.index import admitted, both
from gradmatrix.stacks.lock import NeedsBuild

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from gradmatrix.compare.resolution import Resolved
    from gradmatrix.compare.sides import Side
    from gradmatrix.core.model import Lock, Record, Scenario
    from gradmatrix.judge.versions import PackageMove
    from gradmatrix.measure.statistics import Key
    from gradmatrix.run.project import Project
    from gradmatrix.run.stack import Progress
    from gradmatrix.stacks.index import Release

NAMED, ASKED, OTHER = 16.0, 4.0, 1.0
"""How likely a package is: one in the traceback or diagnosis, one that a side names, another."""
MOST_DRAGGED = 4
"""The most packages that are tried alone, of those that came along with the one that was found."""
Moved = dict[str, str]
"""Packages at other versions than on the good side, by name."""


@dataclass(frozen=True)
class Probe:
    """One set of packages: its lock, and the record of the cell if it can be judged."""

    lock: Lock | None
    record: Record | None
    why: str = ""
    """Why it cannot be judged."""


@dataclass(frozen=True)
class Unit:
    """Packages that move together, named after the first of them."""

    name: str
    versions: Moved
    """Their versions on the bad side."""
    before: str | None
    weight: float

    def at(self, version: str) -> Moved:
        """The unit at another release."""
        return dict.fromkeys([self.name, *(set(self.versions) & {TWINS.get(self.name)})], version)


@dataclass
class Bisection:
    """The search for one cell."""

    project: Project
    good: Resolved
    bad: Resolved
    scenario: Scenario
    key: Key
    progress: Progress
    tell: Callable[[str], object]
    """Gets a line about each step."""
    only: Collection[str] = ()
    """The packages to look at; all if empty."""
    noise: float = 0.0
    """The share of runs that end wrongly."""
    skipped: list[Skipped] = field(default_factory=list)
    seen: dict[str, Probe] = field(default_factory=dict)
    """By the digest of the lock."""
    outcome: tuple[object, ...] = ()
    """How the cell ends on the good side."""

    def run(self) -> Found:
        """Verify the two sides, then look for the packages, then for their releases.

        Raises:
            UserError: if a side cannot be judged, or no set of packages gives the bad outcome
        """
        if self.good.lock.python != self.bad.lock.python:
            raise UserError(
                f"The sides have Python {self.good.lock.python} and {self.bad.lock.python}.",
                cause="a bisection moves packages, and both sides must have one Python",
                next_step="name sides with one Python, or give --python to files that leave it "
                "open",
            )
        ends = [self.end(each) for each in (self.good, self.bad)]
        self.outcome = ended(ends[0])
        moves = packages_moved(self.good.lock, self.bad.lock)
        edges: list[Edge] = []
        if ended(ends[1]) != self.outcome:
            units = self.units(moves, ends)
            found = self.culprits(units)
            for unit in found:
                others = together(each for each in found if each is not unit)
                edges.append(self.edge(unit, others))
        return Found(
            cell=str(self.key),
            good=shown(self.good, ends[0]),
            bad=shown(self.bad, ends[1]),
            differing=len(moves),
            edges=tuple(edges),
            skipped=tuple(dict.fromkeys(self.skipped)),
            probes=sum(probe.record is not None for probe in self.seen.values()),
        )

    def end(self, resolved: Resolved) -> Record:
        """The record of the cell on one of the two sides; UserError if it cannot be judged."""
        probe = self.looked_up(resolved, fresh=False)
        if probe.record is None:
            raise UserError(
                f"{self.key} cannot be judged on {resolved.side.name}.",
                cause=probe.why,
                next_step="name a side on which it runs",
            )
        self.tell(f"{resolved.side.name}: {probe.record.outcome}")
        return probe.record

    def units(self, moves: Iterable[PackageMove], ends: Sequence[Record]) -> list[Unit]:
        """The packages to look at, the likely ones first; UserError if there is none."""
        named = named_in(ends)
        asked = names_in((*self.good.side.asked, *self.bad.side.asked))
        moved = {each.name: each for each in moves if each.after and not each.same_version}
        moved.pop("python", None)
        units: dict[str, Unit] = {}
        for name, move in moved.items():
            twin = TWINS.get(name)
            if twin in units or (is_of_torch(name) and "torch" in moved):
                continue
            if self.only and not {name, twin} & set(self.only):
                continue
            group = {each: moved[each].after or "" for each in (name, twin) if each in moved}
            weight = NAMED if {*group} & named else ASKED if {*group} & asked else OTHER
            units[name] = Unit(name, group, move.before, weight)
        if not units:
            raise UserError(
                "No package can be moved from the good side to the bad one.",
                cause=f"--package names {', '.join(self.only)}, which do not differ"
                if self.only
                else "the sides differ only in packages that the bad one lacks, or in contents",
                next_step="gradmatrix upgrade GOOD --to BAD shows what differs",
            )
        return sorted(units.values(), key=lambda unit: -unit.weight)

    def culprits(self, units: list[Unit]) -> list[Unit]:
        """The units that change the outcome together; each of them is needed.

        The last one of a shortest list from the front is needed. With it, the front is searched
        again, until what was found changes the outcome by itself.
        """
        found: list[Unit] = []
        while units:
            given = together(found)
            fronts = [given | together(units[:length]) for length in range(len(units) + 1)]
            low, high = self.first_that_changes(fronts, [unit.weight for unit in units])
            if self.changes(fronts[high]) is False:
                raise UserError(
                    "The packages of the bad side do not change the outcome on the good one.",
                    cause="what it lacks, another content of a package, or chance decides",
                    next_step="name sides that are nearer to each other; for a script that ends "
                    "differently by chance, give --noise 10%",
                )
            found.insert(0, merged(units[low:high]))
            units = units[:low]
            if units and self.changes(together(found)):
                break
            if units:
                self.tell(f"{found[0].name} is needed, and not enough by itself")
        return [self.dragged(found[0])] if len(found) == 1 else found

    def dragged(self, unit: Unit) -> Unit:
        """The unit, or the one of the packages that came along with it that is enough alone."""
        probe = self.probe(unit.versions)
        if probe.lock is None:
            return unit
        came = [
            Unit(each.name, {each.name: each.after}, each.before, OTHER)
            for each in packages_moved(self.good.lock, probe.lock)
            if each.name not in unit.versions and each.before and each.after
            if not is_of_torch(each.name)
        ]
        return next(
            (each for each in came[:MOST_DRAGGED] if self.changes(each.versions)),
            unit,
        )

    def edge(self, unit: Unit, others: Moved) -> Edge:
        """The two releases of a unit between which the outcome changes, with ``others`` moved."""
        after = unit.versions[unit.name]
        if unit.before is None or len(set(unit.versions.values())) > 1:
            low, high, line = 0, 1, [unit.before, after]
        else:
            line = [unit.before, *self.releases(unit.name, unit.before, after), after]
            self.tell(f"{unit.name}: {len(line) - 2} releases between {unit.before} and {after}")
            states = [others | unit.at(each) for each in line if each is not None]
            low, high = self.first_that_changes(states)
        before, after = line[low], line[high] or after
        probes, also = self.neighbours(unit, before, after, others)
        days = self.days(unit.name)
        return Edge(
            package=unit.name
            if len(set(unit.versions.values())) == 1
            else " + ".join(unit.versions),
            before=before,
            before_released=days.get(before or ""),
            after=after,
            after_released=days.get(after),
            ends=(probes[0], probes[1]),
            also=also,
            between=tuple(each for each in line[low + 1 : high] if each),
        )

    def neighbours(
        self, unit: Unit, before: str | None, after: str, others: Moved
    ) -> tuple[tuple[str, str], tuple[str, ...]]:
        """The outcomes with both releases, and what else differs between these two runs.

        Every other package is held at one version if the resolver allows it.
        """
        versions = unit.at(after) if len(set(unit.versions.values())) == 1 else unit.versions
        second = self.probe(others | versions)
        moved = others | (unit.at(before) if before else {})
        first = self.probe(moved)
        if second.lock is not None and second.lock.digest != (first.lock and first.lock.digest):
            held = {
                each.name: each.version
                for each in second.lock.packages
                if each.name not in unit.versions and not is_of_torch(each.name)
            }
            pinned = self.probe(held | moved) if before else first
            if pinned.record is not None and ended(pinned.record) == self.outcome:
                first = pinned
        outcomes = tuple(p.record.outcome if p.record else p.why for p in (first, second))
        also: tuple[str, ...] = ()
        if first.lock is not None and second.lock is not None:
            differs = packages_moved(first.lock, second.lock)
            also = tuple(
                str(each)
                for each in differs
                if each.name not in unit.versions
                and not (is_of_torch(each.name) and "torch" in unit.versions)
            )
        return (outcomes[0], outcomes[1]), also

    def releases(self, name: str, before: str, after: str) -> list[str]:
        """The releases between two, in the order from the one to the other."""
        known = self.known(name)
        day = max(self.good.lock.as_of, self.bad.lock.as_of)
        low, high = sorted((Version(before), Version(after)))
        between = [
            each.version
            for each in admitted(known)
            if low < Version(each.version) < high
            and each.fits([self.good.lock.python])
            and (each.uploaded is None or each.uploaded <= day)
        ]
        return between if Version(before) == low else between[::-1]

    def known(self, name: str) -> Sequence[Release]:
        """All releases of a package; of one with a twin, those that both have."""
        releases = self.project.index.releases(name)
        moves = {each.name for each in self.good.lock.packages}
        twin = TWINS.get(name)
        return both(releases, self.project.index.releases(twin)) if twin in moves else releases

    def days(self, name: str) -> dict[str, dt.date | None]:
        """The day of each release of a package; none if ``name`` stands for several packages."""
        return {each.version: each.uploaded for each in self.project.index.releases(name)}

    def first_that_changes(
        self, states: Sequence[Moved], weights: Sequence[float] = ()
    ) -> tuple[int, int]:
        """The neighbouring states between which the outcome changes.

        The first is unchanged and the last changed, and neither is run here.
        """
        search = Search(weights or [1.0] * (len(states) - 1), self.noise)
        while (state := search.next()) is not None:
            changed = self.answer(states[state])
            if changed is None:
                search.skip(state)
            else:
                search.saw(state, changed=changed)
        return search.answer()

    def changes(self, moved: Moved) -> bool | None:
        """Whether these packages change the outcome; None if that cannot be judged."""
        search = Search([1.0, 1.0], self.noise)
        while search.next() is not None:
            changed = self.answer(moved)
            if changed is None:
                return None
            search.saw(1, changed=changed)
        return search.answer() == (0, 1)

    def answer(self, moved: Moved) -> bool | None:
        """Whether one run with these packages ends differently from the good side."""
        probe = self.probe(moved)
        return None if probe.record is None else ended(probe.record) != self.outcome

    def probe(self, moved: Mapping[str, str]) -> Probe:
        """Resolve the good side with these packages moved, and run the cell there."""
        what = ", ".join(starmap("{} {}".format, list(moved.items())[:3]))
        what += f" and {len(moved) - 3} more" if len(moved) > 3 else ""  # noqa: PLR2004
        side = replace(self.side(moved), name=what or "the good side")
        try:
            lock, text = resolution.attempt(side, self.project.index)
        except NeedsBuild as error:
            return self.skip(what, one_line(error.cause))
        if lock.failure is not None:
            if lock.failure.outcome == INDEX_UNREACHABLE:
                raise UserError(
                    "The package index did not answer.",
                    cause=lock.failure.message,
                    next_step="check the network and run the command again: what ran is kept",
                )
            return self.skip(what, resolution.explained(one_line(lock.failure.message)))
        known = self.seen.get(lock.digest)
        if known is not None and not (self.noise and known.record):
            return known
        resolved = resolution.kept(side, lock, text, folder_of(self.project) / "locks")
        probe = self.looked_up(resolved, fresh=bool(self.noise and known))
        probe = replace(probe, lock=lock)
        self.seen[lock.digest] = probe
        if probe.record is None:
            self.skip(what, probe.why)
        else:
            self.tell(f"{what}: {probe.record.outcome}")
        return probe

    def skip(self, what: str, why: str) -> Probe:
        """A set of packages that cannot be judged."""
        self.tell(f"{what}: skipped, {why}")
        self.skipped.append(Skipped(what, why))
        return Probe(None, None, why)

    def looked_up(self, resolved: Resolved, *, fresh: bool) -> Probe:
        """Run the cell, and what it must agree with, in the environment of a lock.

        A record of an earlier run is used. An environment that is made for it is deleted again.
        """
        run = SideRun(resolved, self.project, (self.scenario,), self.progress)
        pairs = frozenset(
            (k.scenario, k.variant) for k in with_partners([self.key], [self.scenario])
        )
        there = (self.project.environments / run.name).exists()
        try:
            records = run.executed(
                Selection(variants=pairs, devices=frozenset({self.key.device}), fresh=fresh)
            )
        finally:
            if resolved.own and not there and run.interpreter is None:
                environment.drop(self.project.environments, run.name)
        record = records.get(self.key)
        if record is None:
            return Probe(resolved.lock, None, f"there is no device {self.key.device} here")
        judged = not (
            record.outcome in {*OF_THE_MACHINE, UNSUPPORTED}
            or phase_of(record.outcome) in {*NOT_INSTALLED, Phase.IMPORT}
        )
        why = f"{record.outcome}: {one_line(record.message)}"
        return Probe(resolved.lock, record if judged else None, "" if judged else why)

    def side(self, moved: Mapping[str, str]) -> Side:
        """The good side with these packages moved. Everything else stays if the resolver can."""
        here = {each.name for each in self.good.lock.packages}
        asked: dict[str, str] = {}
        for text in (*self.good.side.asked, *self.bad.side.asked):
            parsed = Requirement(text)
            name = str(canonicalize_name(parsed.name))
            if name in here or name in moved:
                asked.setdefault(name, text if parsed.url else unbound(parsed))
        good, bad = map(text_of, (self.good, self.bad))
        preferred = locks.without(good, lambda name: canonicalize_name(name) in moved)
        new = locks.without(bad, lambda name: canonicalize_name(name) in here)
        side = self.good.side
        return replace(
            side,
            requirements=tuple(asked.values()),
            asked=tuple(asked.values()),
            constraints=tuple(f"{name}=={version}" for name, version in moved.items()),
            preferred=preferred + new,
            as_of=max(self.good.lock.as_of, self.bad.lock.as_of),
            build=tuple(sorted({*side.build, *self.bad.side.build})),
            lock=None,
            locks=None,
            interpreter=None,
        )


def unbound(requirement: Requirement) -> str:
    """A requirement that any release meets, with its extras and its marker."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    marker = f" ; {requirement.marker}" if requirement.marker else ""
    return f"{requirement.name}{extras}{marker}"


def text_of(resolved: Resolved) -> str:
    """The text of a side's lock; the pins of an environment."""
    if resolved.side.interpreter is not None:
        return resolved.side.preferred
    return sides.text_of(resolved.lock, resolved.locks)


def is_of_torch(name: str) -> bool:
    """Whether a package comes with torch, which pins it."""
    return name in TRITON or name.startswith(ONLY_CUDA)


def together(units: Iterable[Unit]) -> Moved:
    """All packages of these units."""
    return {name: version for unit in units for name, version in unit.versions.items()}


def merged(units: Sequence[Unit]) -> Unit:
    """Units that cannot be told apart, as one."""
    if len(units) == 1:
        return units[0]
    return Unit(units[0].name, together(units), None, units[0].weight)


def names_in(requirements: Iterable[str]) -> set[str]:
    """The packages that requirements name."""
    return {str(canonicalize_name(Requirement(text).name)) for text in requirements}


def named_in(records: Iterable[Record]) -> set[str]:
    """The packages whose code is in the tracebacks and diagnoses of these records."""
    files = []
    for seen in (record.observation for record in records):
        if seen is None:
            continue
        files += [frame.file for frame in (seen.raised.frames if seen.raised else ())]
        diagnosis = diagnose(seen)
        if diagnosis is not None and diagnosis.place is not None:
            files.append(diagnosis.place.file)
    return {str(canonicalize_name(file.partition("/")[0].removesuffix(".py"))) for file in files}


def shown(resolved: Resolved, record: Record) -> End:
    """A side for the answer."""
    diagnosis = diagnose(record.observation) if record.observation and not record.passed else None
    return End(
        name=resolved.side.name,
        outcome=record.outcome,
        gradient=record.gradient,
        message=record.message,
        why=diagnosis.text if diagnosis else (),
    )
