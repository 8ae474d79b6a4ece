"""Which release did it? From two sides that end differently to the release between them.

First the packages: those of the bad side are put into the good one, the likely ones first, until
the outcome changes. Then the releases of that package. Every set of packages is resolved, locked,
installed and run by itself, so nothing of an earlier one is left in it.
"""

from __future__ import annotations

import datetime as dt
import math
import time
from collections import defaultdict
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise, starmap
from operator import or_
from typing import TYPE_CHECKING, TypeGuard

from msgspec import structs
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from gradmatrix.compare import resolution, sides
from gradmatrix.compare.requirements import unbound
from gradmatrix.compare.resolution import Resolved
from gradmatrix.compare.upgrade import (
    THIS,
    UNTRIED,
    SideRun,
    ended,
    folder_of,
    key_of,
    metadata_folder,
    with_partners,
)
from gradmatrix.core.errors import UserError
from gradmatrix.core.outcomes import (
    INDEX_UNREACHABLE,
    NOT_INSTALLED,
    OF_THE_MACHINE,
    SETUP_EXCEPTION,
    STEP_EXCEPTION,
    TRAINS,
    Phase,
    phase_of,
)
from gradmatrix.core.text import counted, few, one_line
from gradmatrix.judge.change import Change
from gradmatrix.judge.diagnosis import diagnose
from gradmatrix.judge.edge import (
    MOST_NAMED,
    Edge,
    End,
    Found,
    History,
    Link,
    NotJudged,
    Search,
    later,
    likely,
    most_questions,
)
from gradmatrix.judge.versions import packages_moved
from gradmatrix.run.plan import Action, Selection
from gradmatrix.stacks import environment, metadata
from gradmatrix.stacks import lock as locks
from gradmatrix.stacks.environment import has_driver, is_of_torch
from gradmatrix.stacks.generate import TWINS
from gradmatrix.stacks.index import IndexUnreachable, admitted, both
from gradmatrix.stacks.lock import NeedsBuild

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from gradmatrix.compare.comparison import Comparison
    from gradmatrix.compare.paired import Paired
    from gradmatrix.compare.sides import Side
    from gradmatrix.core.model import Lock, Record, Scenario
    from gradmatrix.judge.versions import PackageMove
    from gradmatrix.measure.statistics import Key, Ratio
    from gradmatrix.run.project import Project
    from gradmatrix.run.stack import Machines, Progress, StackRun
    from gradmatrix.stacks.index import Release

NAMED, ASKED, OTHER = 16.0, 4.0, 1.0
"""How likely a package is: one in the traceback or diagnosis, one that a side names, another."""
NEIGHBOURS = 4
"""Runs at the end: both neighbours, one of them with what the other has, and the bad side without
what was found."""
MOST_DRAGGED = 4
"""The most packages that are tried alone, of those that came along with the one that was found."""
MOST_TRIED = 12
"""The most releases of a package that are tried beside the older one of what was found."""
UNDECLARED = "setuptools"
"""Packages of long ago import its pkg_resources and do not require it. Most environments had it; a
lock has it only if another package, such as an older torch, requires it."""
RAISED = frozenset({SETUP_EXCEPTION, STEP_EXCEPTION})
"""Ends of cells that raised an exception."""
PROBE_S = 30.0
"""What a set of packages took on two cores with cached packages: install, import, one cell."""
Moved = dict[str, str]
"""Packages at other versions than on the good side, by name."""


class OutOfTime(Exception):
    """The time for a bisection is over. What ran is kept."""


class NotHere(UserError):
    """This machine cannot judge a side: it has no such device, or it failed."""


class NoAnswer(UserError):
    """There is no release to find between these sides. To ask again gives the same."""


@dataclass(frozen=True)
class Probe:
    """One set of packages, resolved, and the record of the cell if it can be judged."""

    resolved: Resolved | None
    record: Record | None
    why: str = ""
    """Why it cannot be judged."""
    ratio: Ratio | None = None
    """Beside the good side, if that is what is asked."""
    along: Mapping[Key, Record] = field(default_factory=dict)
    """The records of cells that ran along, as far as they can be judged."""
    here: bool = True
    """False if it is this machine that cannot judge it."""

    @property
    def lock(self) -> Lock | None:
        """None if it does not resolve."""
        return self.resolved.lock if self.resolved else None


@dataclass(frozen=True)
class Unit:
    """Packages that move together, named after the first of them."""

    name: str
    versions: Moved
    """Their versions on the bad side."""
    before: str | None
    """Its version on the good side; of several packages, those of all of them."""
    weight: float

    @property
    def several(self) -> bool:
        """Whether it stands for packages that have no releases in common."""
        own = {self.name, TWINS.get(self.name)}
        return not own >= set(self.versions) or len(set(self.versions.values())) > 1

    @property
    def shown(self) -> str:
        """Its name for people."""
        return " + ".join(self.versions) if self.several else self.name

    @property
    def after(self) -> str:
        """Its version on the bad side; of several packages, those of all of them."""
        return " + ".join(self.versions.values()) if self.several else self.versions[self.name]

    def at(self, version: str | None) -> Moved:
        """The unit at another release; nothing moves if the good side does not have it."""
        if self.several:
            return self.versions if version == self.after else {}
        return dict.fromkeys(self.versions, version) if version else {}


@dataclass(frozen=True)
class Outlook:
    """What a bisection may take, before anything is run."""

    lines: tuple[tuple[Unit, int], ...]
    """The packages to look at, with the number of releases to choose from."""
    probes: int
    """The most sets of packages that are run if one package is enough by itself."""
    download_bytes: int
    """The most that is downloaded if nothing is cached, as far as the index tells sizes."""

    @property
    def minutes(self) -> int:
        """How long that takes, without downloads."""
        return max(1, round(self.probes * PROBE_S / 60))


@dataclass
class Shared:
    """What the searches for several cells between the same two sides have in common."""

    known: History = frozenset()
    """What changed these cells between other sides: it is tried first."""
    solved: dict[str, Resolved | str] = field(default_factory=dict)
    """Sets of packages, or why the resolver has none, by what is asked for."""
    named: set[str] = field(default_factory=set)
    """The packages in the tracebacks and diagnoses of all cells.

    With one order of packages, these searches ask about the same sets.
    """


@dataclass
class Bisection:
    """The search for one cell."""

    project: Project
    good: Resolved
    bad: Resolved
    scenarios: tuple[Scenario, ...]
    """Those of the cell, and of the cells ``along``."""
    key: Key
    progress: Progress
    tell: Callable[[str], object]
    """Gets a line about each step."""
    only: Collection[str] = ()
    """The packages to look at; all if empty."""
    noise: float = 0.0
    """The share of runs that end wrongly."""
    all: bool = False
    """Whether every change on the way is looked for."""
    along: Collection[Key] = ()
    """Cells that are bisected too. They run along for as long as the answers are the same."""
    shared: Shared = field(default_factory=Shared)
    others: bool = True
    """Whether it runs what tells that other packages are enough too."""
    paired: Paired | None = None
    """Measures, if speed or memory is asked about and not the outcome."""
    machines: Machines = THIS
    spare: int = THIS.spare
    """How many sets of packages that may be next are made ready while one runs."""
    until: float = math.inf
    """The time (monotonic) after which nothing more is run: OutOfTime."""
    skipped: list[NotJudged] = field(default_factory=list)
    seen: dict[str, Probe] = field(default_factory=dict)
    """By the digest of the lock."""
    outcome: tuple[object, ...] = ()
    """How the cell ends on the good side."""
    raised: frozenset[str] = frozenset()
    """Exceptions that a side ends with: another one may be of packages that do not go together."""
    first: Mapping[Key, Record] = field(default_factory=dict)
    """The cells along on the good side."""
    kept: set[str] = field(default_factory=set)
    """Environments that stay until the end, or until they are used."""
    day_by_day: bool = False
    """Whether all other packages move too, to their newest release of the day."""
    around: list[tuple[Probe, Probe]] = field(default_factory=list)
    """What ran on both sides of each edge."""
    without: End | None = None
    """The bad side with the older release of what was found, if it ends as the bad one."""

    def run(self) -> Found:
        """Verify the two sides, then look for the packages, then for their releases.

        Raises:
            UserError: if a side cannot be judged, or no set of packages gives the bad outcome
            OutOfTime: if that takes too long
        """
        moves, sides = self.moves(), {self.good.lock.digest, self.bad.lock.digest}
        with asking(), self.deleting():
            ends = self.end(self.good, [self.bad]), self.end(self.bad)
            self.outcome, self.first = self.ending(ends[0]), ends[0].along
            self.raised = RAISED & {each.record.outcome for each in ends if each.record}
            self.part(ends[1])
            if failed_before(ends):
                self.tell(
                    "The good side fails and the bad one passes: this looks for what fixed it."
                )
            names = self.good.side.name, self.bad.side.name
            shown = list(starmap(self.shown, zip(names, ends, strict=True)))
            edges = self.every_edge(ends) if self.all else self.edges(ends)
        return Found(
            cell=str(self.key),
            metric=self.paired.metric if self.paired else "",
            good=shown[0],
            bad=shown[1],
            differing=len(moves),
            edges=tuple(edges),
            without=self.without,
            all=self.all,
            skipped=tuple(dict.fromkeys(self.skipped)),
            probes=sum(
                probe.record is not None
                for digest, probe in self.seen.items()
                if digest not in sides
            ),
        )

    def outlook(self) -> Outlook:
        """What a run may take. Nothing is run or installed."""
        with asking():
            return self.outlook_of(self.units(()))

    def outlook_of(self, units: Sequence[Unit]) -> Outlook:
        """What a run may take that looks at these packages."""
        self.project.index.many({name for unit in units for name in unit.versions})
        lines = tuple((unit, len(self.line(unit)) - 2) for unit in units)
        longest = max(count for _, count in lines)
        alone = len(units) == 1
        packages = 0 if alone else most_questions([unit.weight for unit in units]) + 2
        dragged = 0 if self.only else 1 + MOST_DRAGGED
        releases = longest if self.all else math.ceil(math.log2(longest + 1))
        ends = {
            (each.name, each.version)
            for side in (self.good, self.bad)
            for each in side.lock.packages
        }
        once = sum(self.size(*each) for each in ends)
        each = max(self.size(unit.name, version) for unit in units for version in self.line(unit))
        return Outlook(lines, packages + dragged + releases + NEIGHBOURS, once + releases * each)

    def size(self, name: str, version: str | None) -> int:
        """The bytes of a release; 0 if this machine does not need it or the index does not say."""
        if is_of_torch(name) and not has_driver():
            return 0
        known = self.project.index.releases(name)
        return next((each.size_bytes or 0 for each in known if each.version == version), 0)

    def moves(self) -> tuple[PackageMove, ...]:
        """What differs between the sides; UserError if nothing does, or if Python does."""
        if self.good.lock.python != self.bad.lock.python:
            raise NoAnswer(
                f"The sides have Python {self.good.lock.python} and {self.bad.lock.python}.",
                cause="a bisection moves packages, and both sides must have one Python",
                next_step="name sides with one Python, or give --python to files that leave it "
                "open",
            )
        moves = packages_moved(
            self.good.lock, self.bad.lock, (self.good.contents, self.bad.contents)
        )
        if not moves:
            raise NoAnswer(
                f"{self.good.side.name} and {self.bad.side.name} have the same packages.",
                cause="nothing is between them",
                next_step="name sides that differ",
            )
        return moves

    def ending(self, probe: Probe) -> tuple[object, ...]:
        """How a set of packages ends: two end in the same way if these values are equal."""
        if self.paired is not None:
            return (probe.ratio is not None and self.paired.is_beyond(probe.ratio),)
        assert probe.record is not None
        return ended(probe.record)

    def edges(self, ends: Sequence[Probe]) -> list[Edge]:
        """The change between the two sides; one edge for each package that is needed."""
        if self.ending(ends[1]) == self.outcome:
            return []
        found = self.culprits(self.units(ends))
        each_beside = [
            self.told_apart(unit, together(each for each in found if each is not unit))
            for unit in found
        ]
        if len(found) > 1:
            return [self.edge(unit, others) for unit, others in each_beside]
        [(unit, beside)] = each_beside
        edge = self.edge(unit, beside)
        before = unit.at(edge.before)
        other = self.enough(unit, beside | before) if before else None
        if other:
            return [self.edge(other, beside | before)]
        if self.others and not self.only and before:
            self.without = self.same_without(before, self.ending(ends[1]))
        return [edge]

    def same_without(self, moved: Moved, bad: tuple[object, ...]) -> End | None:
        """The bad side with what was found as it was before, if it ends as the bad one.

        Then other packages are enough too.
        """
        what = few(list(starmap("{} {}".format, moved.items())), MOST_NAMED)
        name = f"{self.bad.side.name} with {what}"
        side = with_moved(self.bad, moved, self.good.side.asked)
        side = replace(side, name=name, as_of=self.latest)
        resolved, ends = self.locked(name, side), {}

        def same() -> bool | None:
            probe = self.ran(resolved)
            if probe.record is None:
                return None
            ends[self.ending(probe)] = probe
            return self.ending(probe) == bad

        return self.shown(name, ends[bad]) if self.decided(same) else None

    def every_edge(self, ends: Sequence[Probe]) -> list[Edge]:
        """Each change on the way: of the packages to look at, or of those that are found in turn.

        All releases of such a package are run, because the outcome may change and change back.
        """
        if self.only:
            return [edge for unit in self.units(ends) for edge in self.edges_of(unit, {})]
        found: list[Edge] = []
        while self.ending(ends[1]) != self.outcome:
            try:
                units = self.culprits(self.units(ends))
            except NoAnswer as error:
                if not found:
                    raise
                self.skip("what comes after", f"{error.what} {error.cause}")
                break
            for unit in units:
                others = together(each for each in units if each is not unit)
                found += self.edges_of(*self.told_apart(unit, others))
            passed = self.probe(together(units))
            if passed.resolved is None or passed.record is None:
                break
            self.good, self.outcome = passed.resolved, self.ending(passed)
        return found

    def end(self, resolved: Resolved, coming: Sequence[Resolved] = ()) -> Probe:
        """The cell on one of the two sides; NoAnswer or NotHere if it cannot be judged."""
        probe = self.looked_up(resolved, coming[: self.spare], fresh=False)
        if not probe.here:
            raise NotHere(
                f"{self.key} cannot be judged on this machine.",
                cause=f"{resolved.side.name}: {probe.why}",
                next_step="run it where the device is; if the machine failed, run it again",
            )
        if probe.record is None:
            raise NoAnswer(
                f"{self.key} cannot be judged on {resolved.side.name}.",
                cause=probe.why,
                next_step="name a side on which it runs",
            )
        if self.paired is not None and resolved is self.bad:
            assert probe.ratio is not None
            self.paired.set_middle(probe.ratio)
        self.tell(f"{resolved.side.name}: {self.words(probe)}")
        return probe

    def words(self, probe: Probe) -> str:
        """How a set of packages ended, for a line."""
        if self.paired is not None and probe.ratio is not None:
            return self.paired.words(probe.ratio)
        return probe.record.outcome if probe.record else probe.why

    def shown(self, name: str, probe: Probe) -> End:
        """A set of packages for the answer."""
        record = probe.record
        if record is None or probe.ratio is not None:
            return End(name=name, outcome=self.words(probe), gradient=None, message="", why=())
        seen = record.observation
        diagnosis = diagnose(seen) if seen and not record.passed else None
        return End(
            name=name,
            outcome=record.outcome,
            gradient=record.gradient,
            message=record.message,
            why=diagnosis.text if diagnosis else (),
        )

    def units(self, ends: Sequence[Probe]) -> list[Unit]:
        """The packages to look at, the likely ones first; NoAnswer if there is none."""
        moves = self.moves()
        for each in ends:
            self.shared.named |= named_in(filter(None, (each.record, *each.along.values())))
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
            weight = NAMED if {*group} & self.shared.named else ASKED if {*group} & asked else OTHER
            units[name] = Unit(name, group, move.before, weight)
        if not units:
            lacks = [each.name for each in moves if each.name in self.only and not each.after]
            raise NoAnswer(
                "No package can be moved from the good side to the bad one.",
                cause=f"only the good side has {lacks[0]}"
                if lacks
                else f"--package names {', '.join(self.only)}, which do not differ"
                if self.only
                else "the sides differ only in packages that the bad one lacks, or in contents",
                next_step="name the sides the other way round"
                if lacks
                else "gradmatrix upgrade GOOD --to BAD shows what differs",
            )
        packages = {package for package, _ in self.shared.known}
        order = sorted(units.values(), key=lambda unit: (unit.name not in packages, -unit.weight))
        first = [place for place, unit in enumerate(order) if unit.name in packages]
        weights = likely([unit.weight for unit in order], first)
        return [replace(unit, weight=weight) for unit, weight in zip(order, weights, strict=True)]

    def culprits(self, units: list[Unit]) -> list[Unit]:
        """The units that change the outcome together; each of them is needed.

        The last one of a shortest list from the front is needed. With it, the front is searched
        again, until what was found changes the outcome by itself.
        """
        found: list[Unit] = []
        while units:
            given = together(found)
            fronts = [given | together(units[:length]) for length in range(len(units) + 1)]
            weights = [unit.weight for unit in units]
            low, high = self.first_that_changes(fronts, weights, mixed=True)
            if self.changes(fronts[high]) is False:
                raise NoAnswer(
                    "The packages of the bad side do not change the outcome on the good one.",
                    cause="what it lacks, another content of a package, or chance decides",
                    next_step="name sides that are nearer to each other; for a script that ends "
                    "differently by chance, give --noise 10%",
                )
            found.insert(0, self.one_of(units[low:high], fronts[low]))
            units = units[:low]
            if units and self.changes(together(found)):
                break
            if units:
                self.tell(f"{found[0].name} is needed, and not enough by itself")
        return [self.dragged(found[0])] if len(found) == 1 else found

    def one_of(self, units: Sequence[Unit], given: Moved) -> Unit:
        """The one of neighbouring units that changes the outcome; all as one if none does alone.

        They are several if the sets of packages between them could not be judged.
        """
        states = [given | each.versions for each in units]
        places = (
            place
            for place, state in enumerate(states)
            if len(units) == 1 or self.changes(state, self.behind(states, place))
        )
        found = next(places, None)
        return merged(units) if found is None else units[found]

    def dragged(self, unit: Unit) -> Unit:
        """The unit, or the one of the packages that came along with it that is enough alone.

        The unit stays where it was meanwhile: such a package may force it to move. If they are not
        enough together, none is alone.
        """
        with_it = self.resolved(unit.versions)
        if with_it is None:
            return unit
        versions = {each.name: each.version for each in self.good.lock.packages}
        stays = {name: versions[name] for name in unit.versions if name in versions}
        came = [
            Unit(each.name, {each.name: each.after}, each.before, OTHER)
            for each in packages_moved(self.good.lock, with_it.lock)
            if each.name not in unit.versions and each.before and each.after
            if not is_of_torch(each.name)
        ]
        alone = [each for each in came if self.resolved(each.versions | stays)]
        if not alone or self.changes(together(alone) | stays) is False:
            return unit
        states = [each.versions | stays for each in alone[:MOST_DRAGGED]]
        return next(
            (
                alone[place]
                for place, state in enumerate(states)
                if self.changes(state, self.behind(states, place))
            ),
            unit,
        )

    def enough(self, unit: Unit, before: Moved) -> Unit | None:
        """What moved with the edge of a unit, and changes the outcome with the older one too.

        Of such a package the newest releases are tried that go with the older release of the unit,
        which is in ``before``.
        """
        first, second = self.around[-1]
        if first.lock is None or second.lock is None:
            return None
        for move in packages_moved(first.lock, second.lock):
            if move.name in unit.versions or not (move.before and move.after):
                continue
            if is_of_torch(move.name) or move.same_version:
                continue
            low, high = sorted((move.before, move.after), key=Version)
            others = f"{move.name}>={low},<={high},!={move.before}"
            rest = {name: version for name, version in before.items() if name != move.name}
            if not self.resolved(rest, others):
                continue
            line = self.line(Unit(move.name, {move.name: move.after}, move.before, OTHER))
            for version in line[:0:-1][:MOST_TRIED]:
                other = Unit(move.name, {move.name: version or ""}, move.before, OTHER)
                changed = self.changes(rest | other.versions)
                if changed:
                    return other
                if changed is not None:
                    break
        return None

    def edge(self, unit: Unit, others: Moved) -> Edge:
        """The two releases of a unit between which the outcome changes, with ``others`` moved."""
        line = self.line(unit)
        self.tell(f"{unit.shown}: {len(line) - 2} releases between {line[0]} and {line[-1]}")
        first = [
            place
            for place, (one, other) in enumerate(pairwise(line))
            if not unit.several and (unit.name, later(one, other)) in self.shared.known
        ]
        states = [others | unit.at(each) for each in line]
        low, high = self.first_that_changes(states, likely([1.0] * (len(line) - 1), first))
        return self.between(unit, others, line, (low, high))

    def told_apart(self, unit: Unit, others: Moved) -> tuple[Unit, Moved]:
        """The one of several packages whose release changes the outcome, and what is beside it.

        They move together from day to day, each to its newest release of that day, and so does
        everything else. If these sets do not tell them apart, the unit stays as it is.
        """
        if not unit.several:
            return unit, others
        states = [others | each for each in self.by_day(unit)]
        self.tell(f"{unit.shown}: together on {counted(len(states) - 2, 'day')} between the sides")
        with self.at_their_days():
            low, high = self.first_that_changes(states, [1.0] * (len(states) - 1), mixed=True)
            there = self.resolved(states[high])
        units = [
            Unit(name, {name: to}, states[low].get(name), unit.weight)
            for name, to in states[high].items()
            if states[low].get(name) != to
        ]
        found = merged(units)
        found = found if found.several else replace(found, before=units[0].before)
        beside = {name: to for name, to in states[low].items() if name in found.versions}
        beside |= pins_beside(there.lock, found) if there else {}
        if self.changes(beside) is False and self.changes(beside | found.versions):
            return found, beside
        self.tell(f"{unit.shown}: these days do not tell them apart")
        return unit, others

    @contextmanager
    def at_their_days(self) -> Iterator[None]:
        """Meanwhile, what does not move goes to the newest release of the day too."""
        self.day_by_day = True
        try:
            yield
        finally:
            self.day_by_day = False

    def by_day(self, unit: Unit) -> list[Moved]:
        """What several packages are on the good side, then after each day with a release of one.

        One that moves against most of them takes its whole way in one step.
        """
        here = {each: self.good.lock.version(each) for each in unit.versions}
        down = [Version(one) > Version(unit.versions[each]) for each, one in here.items() if one]
        back = sum(down) * 2 > len(down)
        moves: dict[dt.date, Moved] = defaultdict(dict)
        for name, after in unit.versions.items():
            line = self.line(Unit(name, {name: after}, here[name], OTHER))
            days = [self.days(name).get(each or "") or dt.date.min for each in line]
            newer = map(max, pairwise(days))
            for version, day in zip(line[1:], accumulate(newer, min if back else max), strict=True):
                moves[day][name] = version or after
        days_in_order = sorted(moves, reverse=back)
        first = {name: version for name, version in here.items() if version}
        return list(accumulate((moves[day] for day in days_in_order), or_, initial=first))

    def edges_of(self, unit: Unit, others: Moved) -> list[Edge]:
        """Each change along the releases of a unit, with ``others`` moved. All of them are run."""
        line = self.line(unit)
        self.tell(f"{unit.shown}: {len(line) - 2} releases between {line[0]} and {line[-1]}")
        states = [others | unit.at(each) for each in line]
        ran = []
        for place, state in enumerate(states):
            probe = self.probe(state, self.behind(states, place))
            if probe.record is not None:
                ran.append((place, self.ending(probe)))
        return [
            self.between(unit, others, line, (low, high))
            for (low, one), (high, other) in pairwise(ran)
            if one != other
        ]

    def line(self, unit: Unit) -> list[str | None]:
        """The releases of a unit from the good side to the bad one; None if it is not there."""
        if unit.before is None or unit.several:
            return [unit.before, unit.after]
        return [unit.before, *self.releases(unit.name, unit.before, unit.after), unit.after]

    def between(
        self, unit: Unit, others: Moved, line: Sequence[str | None], places: tuple[int, int]
    ) -> Edge:
        """The edge between two places of a line of releases; both are run, and what is kept."""
        low, high = places
        before, after = line[low], line[high]
        assert after is not None
        first, second = self.neighbours(unit, before, after, others)
        self.around.append((first, second))
        moved: list[PackageMove] = []
        if first.lock is not None and second.lock is not None:
            with_torch = "torch" in unit.versions
            moved = [
                each
                for each in packages_moved(first.lock, second.lock)
                if not (with_torch and is_of_torch(each.name))
            ]
        days = {} if unit.several else self.days(unit.name)
        needs, links = ((), ()) if unit.several else self.changed_in(unit.name, before, after)
        return Edge(
            package=unit.shown,
            before=before,
            before_released=days.get(before or ""),
            after=after,
            after_released=days.get(after),
            ends=(
                self.shown(f"{unit.shown} {before or 'not there'}", first),
                self.shown(f"{unit.shown} {after}", second),
            ),
            moved=tuple(map(str, moved)),
            also=tuple(str(each) for each in moved if each.name not in unit.versions),
            between=tuple(each for each in line[low + 1 : high] if each),
            needs=needs,
            links=links,
        )

    def neighbours(
        self, unit: Unit, before: str | None, after: str, others: Moved
    ) -> tuple[Probe, Probe]:
        """Both releases, with every other package at one version if the resolver allows it."""
        moved = others | unit.at(before)
        second = self.known_to_end(others | unit.at(after), [moved][: self.spare], changed=True)
        first = self.known_to_end(moved, changed=False)
        if before and second.lock is not None:
            same = self.ending(first) if first.record else self.outcome
            held = moved | pins_beside(second.lock, unit)
            pinned = self.known_to_end(held, changed=same != self.outcome)
            if pinned.record is not None and self.ending(pinned) == same:
                first = pinned
        return first, second

    def known_to_end(self, moved: Moved, coming: Sequence[Moved] = (), *, changed: bool) -> Probe:
        """A run of what was decided before; with noise not one that ends wrongly by chance."""
        tries = MOST_TRIED if self.noise else 1
        for _ in range(tries):
            probe = self.probe(moved, coming)
            if probe.record is None or (self.ending(probe) != self.outcome) == changed:
                break
        return probe

    def changed_in(
        self, name: str, before: str | None, after: str
    ) -> tuple[tuple[str, ...], tuple[Link, ...]]:
        """What the newer of two releases requires otherwise, and where it says more."""
        folder, newer = metadata_folder(self.project), later(before, after)
        older = before if newer == after else after
        new, old = (metadata.read(folder, name, each or "") for each in (newer, older))
        if new is None:
            return (), ()
        told = metadata.differing(old, new, is_of_torch) if old else ()
        return told, tuple(starmap(Link, metadata.links(new)))

    def releases(self, name: str, before: str, after: str) -> list[str]:
        """The releases between two, in the order from the one to the other."""
        known = self.known(name)
        low, high = sorted((Version(before), Version(after)))
        between = [
            each.version
            for each in admitted(known)
            if low < Version(each.version) < high
            and each.fits([self.good.lock.python])
            and (each.uploaded is None or each.uploaded <= self.latest)
        ]
        return between if Version(before) == low else between[::-1]

    def known(self, name: str) -> Sequence[Release]:
        """All releases of a package; of one with a twin, those that both have."""
        releases = self.project.index.releases(name)
        moves = {each.name for each in self.good.lock.packages}
        twin = TWINS.get(name)
        return both(releases, self.project.index.releases(twin)) if twin in moves else releases

    def days(self, name: str) -> dict[str, dt.date | None]:
        """The day of each release of a package."""
        return {each.version: each.uploaded for each in self.project.index.releases(name)}

    def first_that_changes(
        self, states: Sequence[Moved], weights: Sequence[float], *, mixed: bool = False
    ) -> tuple[int, int]:
        """The neighbouring states between which the outcome changes.

        The first is unchanged and the last changed, and neither is run here. ``mixed`` is as for
        :meth:`answer`.
        """
        search = Search(weights, self.noise)
        while (state := search.next()) is not None:
            coming = [states[each] for each in search.coming(self.spare)]
            changed = self.answer(states[state], coming, mixed=mixed)
            if changed is None:
                search.skip(state)
            else:
                search.saw(state, changed=changed)
            self.tell(f"  {counted(search.left, 'place')} left, of {len(search.chances)}")
        return search.answer()

    def behind(self, states: Sequence[Moved], place: int) -> Sequence[Moved]:
        """The states that are made ready while one of them runs."""
        return states[place + 1 :][: self.spare]

    def changes(self, moved: Moved, coming: Sequence[Moved] = ()) -> bool | None:
        """Whether these packages of the bad side change the outcome; None if it is not judged."""
        return self.decided(lambda: self.answer(moved, coming, mixed=True))

    def decided(self, ask: Callable[[], bool | None]) -> bool | None:
        """The answer, asked as often as runs that end wrongly make it necessary; None if none."""
        search = Search([1.0, 1.0], self.noise)
        while search.next() is not None:
            answer = ask()
            if answer is None:
                return None
            search.saw(1, changed=answer)
        return search.answer() == (0, 1)

    def answer(
        self, moved: Moved, coming: Sequence[Moved] = (), *, mixed: bool = False
    ) -> bool | None:
        """Whether one run with these packages ends differently from the good side.

        Of packages of both sides, ``mixed``, an exception that neither side ends with says only
        that they do not go together. If ``all`` changes are asked for, it counts, and so it does on
        a line of releases.
        """
        probe = self.probe(moved, coming)
        if probe.record is None:
            return None
        if mixed and not self.all and probe.record.outcome in RAISED - self.raised:
            self.skip(
                self.named(moved)[0], f"neither side ends so: {one_line(probe.record.message)}"
            )
            return None
        return self.ending(probe) != self.outcome

    def probe(self, moved: Mapping[str, str], coming: Sequence[Moved] = ()) -> Probe:
        """Resolve the good side with these packages moved, and run the cell there.

        Meanwhile what may be ``coming`` is made ready.
        """
        if time.monotonic() > self.until:
            raise OutOfTime
        return self.ran(self.resolved(moved), coming)

    def ran(self, resolved: Resolved | None, coming: Sequence[Moved] = ()) -> Probe:
        """Run the cell there, unless this set of packages ran before."""
        if resolved is None:
            return Probe(None, None, self.skipped[-1].why)
        digest = resolved.lock.digest
        known = self.seen.get(digest)
        if known is not None and not (self.noise and known.record):
            return known
        probe = self.looked_up(resolved, coming, fresh=bool(self.noise and known))
        self.seen[digest] = probe
        self.part(probe)
        if probe.record is None:
            self.skip(resolved.side.name, probe.why)
        else:
            self.tell(f"{resolved.side.name}: {self.words(probe)}")
        return probe

    def resolved(self, moved: Mapping[str, str], bound: str = "") -> Resolved | None:
        """The good side with these packages moved; None if it has no solution, and why is kept.

        A package that does not move may have a ``bound``. A set with the packages of the good side
        is the good side, which ran already.
        """
        what, side = self.named(moved)
        if bound:
            side = replace(side, constraints=(*side.constraints, bound))
            what = f"{what}, {bound}"
        found = self.locked(what, side)
        return self.good if found is not None and self.is_good(found) else found

    def is_good(self, resolved: Resolved) -> bool:
        """Whether it has the packages of the good side."""
        contents = (self.good.contents, resolved.contents)
        return not packages_moved(self.good.lock, resolved.lock, contents)

    def locked(self, what: str, side: Side) -> Resolved | None:
        """A side with its lock; None if it has no solution on any day, and why is kept."""
        found = self.solution(side)
        if isinstance(found, str):
            self.skip(what, found)
            return None
        return found

    def solution(self, side: Side) -> Resolved | str:
        """As :meth:`solved`; what was asked before is known."""
        asked = repr(side)
        if asked not in self.shared.solved:
            self.shared.solved[asked] = self.solved(side)
        return self.shared.solved[asked]

    def solved(self, side: Side) -> Resolved | str:
        """A side with its lock, on its day or on the latest one; or why there is none."""
        try:
            lock, text = resolution.attempt(side, self.project.index)
            if lock.failure is not None and side.as_of != self.latest:
                side = replace(side, as_of=self.latest)
                lock, text = resolution.attempt(side, self.project.index)
        except NeedsBuild as error:
            return one_line(error.cause)
        if lock.failure is None:
            return resolution.kept(side, lock, text, folder_of(self.project) / "locks")
        if lock.failure.outcome == INDEX_UNREACHABLE:
            raise IndexUnreachable(lock.failure.message)
        return resolution.explained(one_line(lock.failure.message))

    def named(self, moved: Mapping[str, str]) -> tuple[str, Side]:
        """The good side with these packages moved, and its name for people."""
        what = few(list(starmap("{} {}".format, moved.items())), MOST_NAMED)
        return what, replace(self.side(moved), name=what or "the good side")

    def skip(self, what: str, why: str) -> None:
        """Tell and keep that a set of packages cannot be judged."""
        self.tell(f"{what}: skipped, {why}")
        self.skipped.append(NotJudged(what, why))

    def looked_up(
        self, resolved: Resolved, coming: Sequence[Moved | Resolved], *, fresh: bool
    ) -> Probe:
        """Run the cell, and what it must agree with, in the environment of a lock.

        A record of an earlier run is used. An environment that is made for it is deleted again.
        """
        run = self.side_run(resolved)
        pairs = frozenset(
            (k.scenario, k.variant) for k in with_partners([self.key, *self.along], self.scenarios)
        )
        selection = Selection(variants=pairs, devices=frozenset({self.key.device}), fresh=fresh)
        there = (self.project.environments / run.name).exists() and run.name not in self.kept
        try:
            with self.ahead(run, coming, selection):
                records = run.executed(selection)
            probe = self.judged(run, records.get(self.key))
            beside = ((key, records.get(key)) for key in self.along)
            return replace(probe, along={key: each for key, each in beside if is_judged(each)})
        finally:
            if resolved.own and not there and run.interpreter is None:
                if self.paired is not None and resolved is self.good:
                    self.kept.add(run.name)
                else:
                    self.kept.discard(run.name)
                    environment.drop(self.project.environments, run.name)

    def part(self, probe: Probe) -> None:
        """Leave out cells along that answer otherwise: their own searches ask about other sets."""
        if self.all or self.noise or self.paired is not None:
            return
        changed = None if probe.record is None else self.ending(probe) != self.outcome
        self.along = [key for key in self.along if self.changed_along(key, probe) == changed]

    def changed_along(self, key: Key, probe: Probe) -> bool | None:
        """Whether a cell along changed there; None if that cannot be judged."""
        first, here = self.first.get(key), probe.along.get(key)
        return ended(here) != ended(first) if first and here else None

    def side_run(self, resolved: Resolved) -> SideRun:
        """Runs the cells of a set of packages."""
        return SideRun(
            resolved,
            self.project,
            self.scenarios,
            self.progress,
            self.machines,
            drop=resolved.own,
        )

    def ahead(
        self, run: SideRun, coming: Sequence[Moved | Resolved], selection: Selection
    ) -> AbstractContextManager[None]:
        """Make ready what may run next, while cells run in this environment.

        Not while something is measured.
        """
        if not coming or self.paired is not None or not will_run(run, selection):
            return nullcontext()
        later = replace(selection, fresh=False)
        return self.machines.ahead(run.stack_run(), self.runs(coming, later), later)

    def runs(self, coming: Iterable[Moved | Resolved], selection: Selection) -> Iterator[StackRun]:
        """Runs of what is coming and has no record. What fails is told when its turn has come."""
        for each in coming:
            with suppress(NeedsBuild, UserError, IndexUnreachable):
                resolved = (
                    each if isinstance(each, Resolved) else self.solution(self.named(each)[1])
                )
                if isinstance(resolved, str) or resolved.lock.digest in self.seen:
                    continue
                run = self.side_run(resolved)
                if not will_run(run, selection):
                    continue
                if resolved.own and not (self.project.environments / run.name).exists():
                    self.kept.add(run.name)
                yield run.stack_run()

    def judged(self, run: SideRun, record: Record | None) -> Probe:
        """What a run says about its set of packages. Measures it if that is asked."""
        resolved = run.resolved
        if record is None:
            return Probe(resolved, None, f"there is no device {self.key.device} here", here=False)
        why = f"{record.outcome}: {one_line(record.message)}"
        if not is_judged(record) or (self.paired is not None and record.outcome != TRAINS):
            return Probe(resolved, None, why, here=record.outcome not in OF_THE_MACHINE)
        if self.paired is None or resolved.lock.digest == self.good.lock.digest:
            return Probe(resolved, record)
        ratio = self.paired.ratio(self.side_run(self.good), run, self.key)
        if ratio is None:
            return Probe(resolved, None, "it could not be measured")
        if self.paired.is_open(ratio):
            return Probe(resolved, None, f"not clear, {self.paired.words(ratio)}")
        return Probe(resolved, record, ratio=ratio)

    @contextmanager
    def deleting(self) -> Iterator[None]:
        """Delete the environments that killed runs left, and at the end those that stayed."""
        environments = self.project.environments
        environment.drop_leftovers(environments, [self.good.lock.stack, self.bad.lock.stack])
        try:
            yield
        finally:
            for name in tuple(self.kept):
                environment.drop(environments, name)

    def side(self, moved: Mapping[str, str]) -> Side:
        """The good side with these packages moved. Everything else stays if the resolver can.

        What must move goes to what was there on the day of the newest of them: releases of long
        after a package often do not run with it.
        """
        here = {each.name for each in self.good.lock.packages}
        new = locks.without(text_of(self.bad), lambda name: canonicalize_name(name) in here)
        side = with_moved(self.good, moved, self.bad.side.asked)
        days = [self.day(name, version) or self.latest for name, version in moved.items()]
        return replace(
            side,
            preferred="" if self.day_by_day else side.preferred + new,
            as_of=max(days if self.day_by_day else [self.good.lock.as_of, *days]),
            build=tuple(sorted({*side.build, *self.bad.side.build})),
        )

    @property
    def latest(self) -> dt.date:
        """The day of the later side."""
        return max(self.good.lock.as_of, self.bad.lock.as_of)

    def day(self, name: str, version: str) -> dt.date | None:
        """The day of a release, if it is known."""
        locked = ((each.name, each.version, each.released) for each in self.bad.lock.packages)
        day = next((day for *each, day in locked if each == [name, version]), None)
        return day or self.days(name).get(version)


def is_judged(record: Record | None) -> TypeGuard[Record]:
    """Whether a cell ran far enough to compare it."""
    return record is not None and not (
        record.outcome in {*OF_THE_MACHINE, *UNTRIED}
        or phase_of(record.outcome) in {*NOT_INSTALLED, Phase.IMPORT}
    )


def with_moved(base: Resolved, moved: Mapping[str, str], asked: Iterable[str] = ()) -> Side:
    """A side with these packages moved, and what another side has ``asked`` for, without bounds."""
    here = {each.name for each in base.lock.packages}
    free: dict[str, str] = {}
    for text in (*base.side.asked, *asked, UNDECLARED):
        parsed = Requirement(text)
        name = str(canonicalize_name(parsed.name))
        if name in here or name in moved:
            free.setdefault(name, text if parsed.url else unbound(parsed))
    return replace(
        base.side,
        requirements=tuple(free.values()),
        asked=tuple(free.values()),
        constraints=tuple(f"{name}=={version}" for name, version in moved.items()),
        preferred=locks.without(text_of(base), lambda name: canonicalize_name(name) in moved),
        lock=None,
        locks=None,
        interpreter=None,
    )


def at_release(base: Resolved, package: str, version: str, project: Project) -> Resolved:
    """A side with one package at another release, on the first day on which that was possible.

    Raises:
        UserError: if there is no such release, or nothing resolves with it
    """
    with asking():
        known = admitted(project.index.releases(package), exactly=[version])
    release = next((each for each in known if Version(each.version) == Version(version)), None)
    if release is None:
        older = [each.version for each in known if Version(each.version) < Version(version)]
        raise UserError(
            f"There is no release {version} of {package}.",
            cause=f"the one before it is {older[-1]}" if older else "its first one is newer",
            next_step="name two releases that exist",
        )
    names = [package, *({TWINS.get(package)} & {each.name for each in base.lock.packages})]
    side = with_moved(base, {str(name): release.version for name in names})
    day = max(filter(None, (base.lock.as_of, release.uploaded)))
    side = replace(side, name=f"{package} {release.version}", place="", as_of=day)
    return resolution.resolved(
        side, project.index, folder_of(project) / "locks", project.locks_folder
    )


def text_of(resolved: Resolved) -> str:
    """The text of a side's lock; the pins of an environment."""
    if resolved.side.interpreter is not None:
        return resolved.side.preferred
    return sides.text_of(resolved.lock, resolved.locks)


def pins_beside(lock: Lock, unit: Unit) -> Moved:
    """The versions of all packages but those of a unit and those that torch pins."""
    return {
        each.name: each.version
        for each in lock.packages
        if each.name not in unit.versions and not is_of_torch(each.name)
    }


def together(units: Iterable[Unit]) -> Moved:
    """All packages of these units."""
    return {name: version for unit in units for name, version in unit.versions.items()}


def merged(units: Sequence[Unit]) -> Unit:
    """Units that cannot be told apart, as one."""
    if len(units) == 1:
        return units[0]
    before = " + ".join(each.before or "none" for each in units for _ in each.versions)
    return Unit(units[0].name, together(units), before, units[0].weight)


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


@contextmanager
def asking() -> Iterator[None]:
    """UserError if the package index does not answer."""
    try:
        yield
    except IndexUnreachable as error:
        raise UserError(
            "The package index did not answer.",
            cause=str(error),
            next_step="check the network and run the command again: what ran is kept",
        ) from error


def will_run(run: SideRun, selection: Selection) -> bool:
    """Whether a cell must run there: not all are recorded."""
    cells = run.stack_run().plan(selection)
    return run.interpreter is None and any(cell.action is Action.RUN for cell in cells)


def failed_before(ends: Sequence[Probe]) -> bool:
    """Whether the good side fails and the bad one passes."""
    first, second = (each.record for each in ends)
    return bool(first and second and first.passed is False and second.passed)


def bisected(
    comparison: Comparison, keys: Sequence[Key], search: Callable[[Key], Bisection]
) -> Comparison:
    """The comparison with the releases behind the changes of these cells."""
    found, notes = [], [*comparison.notes]
    for key in keys:
        try:
            found.append(search(key).run())
        except UserError as error:
            notes.append(f"No release was found for {key}. {error.what} {error.cause}.")
    return structs.replace(comparison, bisected=tuple(found), notes=tuple(notes))


def regressed(comparison: Comparison) -> list[Key]:
    """A cell for each cause of regressions."""
    groups = (each for each in comparison.groups if each.change is Change.REGRESSED)
    return [key_of(each.cells[0]) for each in groups]


def base_for(package: str, version: str, project: Project) -> str:
    """The stack in which to put releases of a package: its own is the nearest one that is older."""
    known = {
        lock.stack: Version(found)
        for lock in project.known_locks()
        if (found := lock.version(package)) is not None
    }
    if not known:
        raise UserError(
            f"No stack of the matrix has {package}.",
            cause=f"--between puts releases of {package} into a side",
            next_step="name one with --good",
        )
    older = [name for name in known if known[name] <= Version(version)]
    return max(older, key=known.__getitem__) if older else min(known, key=known.__getitem__)
