"""Bisections in a lab: tiny packages on an index on loopback, and a cell that only pretends."""

from __future__ import annotations

import datetime as dt
import itertools
import random
import sys
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from gradmatrix.compare import paired, resolution, upgrade
from gradmatrix.compare.bisect import Bisection, base_for, bisected, regressed
from gradmatrix.compare.paired import Metric, Paired
from gradmatrix.compare.sides import Side
from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Build
from gradmatrix.judge.verdict import Ended
from gradmatrix.measure.statistics import Size
from gradmatrix.run import pool
from gradmatrix.run.plan import Selection
from gradmatrix.run.project import Project
from gradmatrix.run.server import Answer, Request
from gradmatrix.stacks import environment
from gradmatrix.stacks.environment import Environment
from gradmatrix.stacks.index import IndexUnreachable
from tests.compared import measured as make_measured
from tests.factories import make_observation, make_raised
from tests.fakes.package_index import PackageIndex
from tests.pretended import TRAINED, PretendedServer, Watcher, World, pretend
from tests.upgrading import PLAIN, REPORTED, make_checkout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from gradmatrix.compare.upgrade import SideRun
    from gradmatrix.core.model import Lock
    from gradmatrix.judge.edge import Found
    from gradmatrix.measure.statistics import Key, Measured

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
DAY = dt.date(2025, 12, 31)
FAILS = Answer(
    make_observation(
        raised=make_raised("element 0 of tensors does not require grad"), reached="step"
    ),
    Ended(exit=0),
    wall_s=0.5,
)
STOPS = Answer(None, Ended(exit=3), wall_s=0.5)
Versions = dict[str, int]
"""Every release of the lab is a number."""


@dataclass
class Lab:
    """The index, and what decides how the cell ends."""

    root: Path
    index: PackageIndex
    fails: Callable[[Versions], bool] = lambda _: False
    fails_too: Callable[[Versions], bool] | None = None
    """The reported variant, if it does not end as the plain one does."""
    stops: Callable[[Versions], bool] = lambda _: False
    """Whether its process ends instead."""
    broken: Callable[[Versions], bool] = lambda _: False
    """Whether the scenario cannot be imported."""
    runs: list[Versions] = field(default_factory=list)
    variants: list[str] = field(default_factory=list)
    """Those of the runs."""
    told: list[str] = field(default_factory=list)

    def add(self, name: str, releases: int, *needs: str, yanked: Sequence[int] = ()) -> None:
        """Releases 1 to n of a package, one each day."""
        for number in range(1, releases + 1):
            day = dt.date(2025, 1, 1) + dt.timedelta(days=number)
            requires = tuple(need.format(number) for need in needs)
            self.index.add(name, f"{number}", f"{day}", requires=requires, yanked=number in yanked)

    def forget(self) -> None:
        """Delete the records, so that every set of packages runs again."""
        for path in (self.root / ".gradmatrix" / "upgrade" / "records").glob("*"):
            path.unlink()

    def side(self, name: str, *asked: str, python: str = PYTHON) -> resolution.Resolved:
        """A side, resolved."""
        project = Project.at(self.root)
        texts = ("torch", *asked)
        side = Side(name=name, python=python, as_of=DAY, requirements=texts, asked=texts)
        return resolution.resolved(
            side, project.index, self.root / "side-locks", project.locks_folder
        )

    def search(
        self,
        good: Sequence[str],
        bad: Sequence[str],
        *,
        noise: float = 0.0,
        every: bool = False,
        only: Sequence[str] = (),
    ) -> Bisection:
        """A search for the cell, before anything runs."""
        project = Project.at(self.root)
        scenarios = project.chosen_scenarios()
        sides = self.side("good", *good), self.side("bad", *bad)
        tell = self.told.append
        return Bisection(
            project, *sides, scenarios, PLAIN, Watcher(), tell, only=only, noise=noise, all=every
        )

    def bisect(self, good: Sequence[str], bad: Sequence[str], *, noise: float = 0.0) -> Found:
        """The answer for the cell."""
        return self.search(good, bad, noise=noise).run()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A lab with torch 1, whose cell trains."""
    pretend(monkeypatch)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    installed: dict[str, Versions] = {}
    with PackageIndex() as index:
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        monkeypatch.delenv("UV_FIND_LINKS", raising=False)
        lab = Lab(make_checkout(tmp_path), index)
        lab.add("torch", 1)

        def ensure(lock: Lock, _locks: Path, place: Path, *_: object, **__: object) -> Environment:
            installed[lock.stack] = {each.name: int(each.version) for each in lock.packages}
            python = place / lock.stack / "python"
            return Environment(python, Build.CPU, None, installed=True)

        class Server(PretendedServer):
            """Its answers depend on the packages of its environment."""

            versions: Versions

            def run(self, request: Request) -> Answer:
                super().run(request)
                lab.runs.append(self.versions)
                lab.variants.append(request.variant)
                if lab.stops(self.versions):
                    return STOPS
                own = lab.fails_too if request.variant == REPORTED.variant else None
                return FAILS if (own or lab.fails)(self.versions) else TRAINED

        def server(
            python: Path, scripts: Sequence[Path], *_: object, fork: bool, ahead: Sequence[Path]
        ) -> Server:
            world, versions = World(), installed[python.parent.name]
            if lab.broken(versions):
                world.raises = {each.stem: make_raised("broken") for each in scripts}
            started = Server(world, scripts, ahead, fork=fork)
            started.versions = versions
            return started

        monkeypatch.setattr(pool, "Server", server)
        monkeypatch.setattr(environment, "ensure", ensure)
        yield lab


def edges(found: Found) -> list[tuple[str, str | None, str]]:
    """The packages with their two releases."""
    return [(each.package, each.before, each.after) for each in found.edges]


def test_the_release_of_one_package(lab: Lab) -> None:
    """⌈log₂ n⌉ + 2 sets of packages at most, and nothing else differs between the neighbours."""
    lab.add("alpha", 30)
    lab.fails = lambda versions: versions["alpha"] >= 19
    found = lab.bisect(["alpha==1"], ["alpha==30"])
    assert [("alpha", "18", "19")] == edges(found)
    (edge,) = found.edges
    ends = tuple(end.outcome for end in edge.ends)
    assert (("trains", "step:exception"), ()) == (ends, edge.also)
    assert ("alpha 18 → 19",) == edge.moved
    assert (dt.date(2025, 1, 19), dt.date(2025, 1, 20)) == (
        edge.before_released,
        edge.after_released,
    )
    assert found.probes <= 5 + 2


def test_the_good_side_is_a_neighbour_without_another_run(lab: Lab) -> None:
    """Its lock may be written otherwise: with other markers, for example."""
    lab.add("alpha", 9)
    lab.fails = lambda versions: versions["alpha"] >= 2
    search = lab.search(["alpha==1"], ["alpha==9"])
    lock = structs.replace(search.good.lock, digest="0" * 64)
    search.good, search.others = replace(search.good, lock=lock), False
    assert [("alpha", "1", "2")] == edges(search.run())
    assert 1 == lab.runs.count({"torch": 1, "alpha": 1})


def test_sides_may_be_given_the_other_way_round(lab: Lab) -> None:
    """A release that mends something is found by going down."""
    lab.add("alpha", 9)
    lab.fails = lambda versions: versions["alpha"] < 4
    assert [("alpha", "4", "3")] == edges(lab.bisect(["alpha==9"], ["alpha==1"]))


def test_equal_ends_are_an_answer(lab: Lab) -> None:
    """Nothing else runs."""
    lab.add("alpha", 9)
    found = lab.bisect(["alpha==1"], ["alpha==9"])
    assert ((), 0, 2) == (found.edges, found.probes, len(lab.runs))


@pytest.mark.slow
def test_one_of_sixty_packages_in_ten_sets(lab: Lab) -> None:
    """Nobody named it; it came with another one."""
    for number in range(59):
        lab.add(f"p{number}", 2)
    lab.add("root", 2, "hidden=={}")
    lab.add("hidden", 2)
    lab.fails = lambda versions: versions["hidden"] == 2
    asked = [f"p{number}" for number in range(59)]
    found = lab.bisect(
        [*(f"{name}==1" for name in asked), "root==1"],
        [*(f"{name}==2" for name in asked), "root==2"],
    )
    assert (61, 10) == (found.differing, max(10, found.probes))
    assert {each.package for each in found.edges} <= {"root", "hidden"}


def test_a_transitive_package(lab: Lab) -> None:
    """It moved with the package that was asked for, and is enough alone."""
    lab.add("asked", 4, "below>={}")
    lab.add("below", 8)
    lab.fails = lambda versions: versions["below"] >= 6
    found = lab.bisect(["asked==1", "below==1"], ["asked==4", "below==8"])
    assert [("below", "5", "6")] == edges(found)


def test_packages_that_came_along_are_tried_together(lab: Lab) -> None:
    """One set of packages says that none of the five is enough."""
    came = [f"p{number}" for number in range(5)]
    for name in came:
        lab.add(name, 2)
    lab.add("asked", 2, *(f"{name}>={{}}" for name in came))
    lab.fails = lambda versions: versions["asked"] == 2
    found = lab.bisect(["asked==1", *(f"{name}==1" for name in came)], ["asked==2"])
    assert [("asked", "1", "2")] == edges(found)
    assert {"asked": 1} | dict.fromkeys(came, 2) | {"torch": 1} in lab.runs
    assert found.probes <= 5


def test_a_package_that_only_makes_the_culprit_move_is_not_named(lab: Lab) -> None:
    """Each release of alpha needs its own beta, so beta alone moves alpha too."""
    lab.add("alpha", 8, "beta=={}")
    lab.add("beta", 8)
    lab.fails = lambda versions: versions["alpha"] >= 5
    found = lab.bisect(["alpha==1"], ["alpha==8"])
    assert [("alpha", "4", "5")] == edges(found)
    assert ("beta 4 → 5",) == found.edges[0].also
    assert "alpha 4 (2025-01-05) and 5 (2025-01-06), with which beta moved too" in found.headline
    tried = [each.what for each in found.skipped if each.what.startswith("alpha 4")]
    assert ["alpha 4, beta 5, torch 1", "alpha 4, beta>=4,<=5,!=4"] == tried


def test_without_a_network_it_is_one_error(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ran is kept."""
    lab.add("alpha", 8)
    lab.fails = lambda versions: versions["alpha"] >= 5
    search = lab.search(["alpha==1"], ["alpha==8"])

    def unreachable(*_: object) -> None:
        raise IndexUnreachable("no answer")

    monkeypatch.setattr(type(search.project.index), "releases", unreachable)
    with pytest.raises(UserError, match="did not answer"):
        search.run()


def test_two_packages_that_change_it_only_together(lab: Lab) -> None:
    """Both are named, each with its release."""
    for name in ("alpha", "beta", "gamma", "delta"):
        lab.add(name, 8)
    lab.fails = lambda versions: versions["alpha"] >= 3 and versions["delta"] >= 6
    names = ("alpha", "beta", "gamma", "delta")
    found = lab.bisect([f"{n}==1" for n in names], [f"{n}==8" for n in names])
    assert [("alpha", "2", "3"), ("delta", "5", "6")] == edges(found)


def test_what_must_move_is_as_old_as_what_moved(lab: Lab) -> None:
    """Alpha 3 and newer need beta 2, and the beta of long after does not run with them."""
    for number in range(1, 7):
        day = dt.date(2025, 1, 1) + dt.timedelta(days=number)
        needs = ("beta>=2",) if number >= 3 else ()
        lab.index.add("alpha", f"{number}", f"{day}", requires=needs)
    lab.add("beta", 9)
    lab.broken = lambda versions: versions["beta"] >= 8
    lab.fails = lambda versions: versions["alpha"] >= 4
    search = lab.search(["alpha==1", "beta==1"], ["alpha==6", "beta==7"])
    lock = structs.replace(search.good.lock, as_of=dt.date(2025, 1, 2))
    search.good = replace(search.good, lock=lock)
    found = search.run()
    assert [("alpha", "3", "4")] == edges(found)
    assert not any("import:" in each.why for each in found.skipped)


def test_it_is_told_if_another_package_is_enough_too(lab: Lab) -> None:
    """One set of packages says so: the bad side without what was found."""
    for name in ("alpha", "beta", "gamma"):
        lab.add(name, 4)
    names = ("alpha", "beta", "gamma")
    sides = [f"{name}==1" for name in names], [f"{name}==4" for name in names]
    lab.fails = lambda versions: versions["alpha"] >= 3
    assert lab.bisect(*sides).without is None
    lab.forget()
    lab.fails = lambda versions: versions["alpha"] >= 3 or versions["beta"] >= 2
    found = lab.bisect(*sides)
    assert [("alpha", "2", "3")] == edges(found)
    assert found.without is not None
    assert ("bad with alpha 2", "step:exception") == (found.without.name, found.without.outcome)
    search = lab.search(*sides)
    search.others = False
    assert search.run().without is None


def test_a_set_that_does_not_resolve_is_skipped(lab: Lab) -> None:
    """The resolver's proof is kept; releases around the edge that cannot run are named."""
    lab.add("alpha", 9, yanked=(6,))
    lab.index.add("alpha", "5.5", "2025-01-06", requires=("missing",))
    lab.broken = lambda versions: versions["alpha"] == 5
    lab.fails = lambda versions: versions["alpha"] >= 5

    def at(version: str) -> list[str]:
        return [f"alpha=={version}"]

    # 5.5 is no number: it never gets as far as an environment
    found = lab.bisect(at("1"), at("9"))
    assert [("alpha", "4", "7")] == edges(found)
    assert ("5", "5.5") == found.edges[0].between
    assert any("missing" in each.why for each in found.skipped)
    assert any("import:" in each.why for each in found.skipped)


def test_of_packages_that_cannot_be_told_apart_together_one_may_be_enough(lab: Lab) -> None:
    """Sets with beta and without delta are broken, and only alone gamma is seen to be the one."""
    for name in ("alpha", "beta", "gamma", "delta"):
        lab.add(name, 4)
    lab.broken = lambda versions: versions["beta"] > versions["delta"]
    lab.fails = lambda versions: versions["gamma"] >= 3
    names = ("alpha", "beta", "gamma", "delta")
    found = lab.bisect([f"{n}==1" for n in names], [f"{n}==4" for n in names])
    assert [("gamma", "2", "3")] == edges(found)


def test_a_package_that_goes_with_several_releases_of_another_is_not_blamed(lab: Lab) -> None:
    """From release 4 on alpha needs the new beta, so beta moves alpha. Alpha 3 fails without it."""
    for number in range(1, 7):
        day = dt.date(2025, 1, 1) + dt.timedelta(days=number)
        needs = "beta>=2" if number >= 4 else "beta<2"
        lab.index.add("alpha", f"{number}", f"{day}", requires=(needs,))
    lab.add("beta", 2)
    lab.fails = lambda versions: versions["alpha"] >= 3
    search = lab.search(["alpha==1", "beta==1"], ["alpha==6", "beta==2"], only=["beta"])
    found = search.run()
    assert [("alpha", "2", "3")] == edges(found)
    assert () == found.edges[0].also


def test_packages_that_move_only_together_are_told_apart_by_their_days(lab: Lab) -> None:
    """Each is broken beside a release of the other that is not of its time."""
    for place, name in enumerate(("alpha", "beta")):
        for number in range(1, 9):
            day = dt.date(2025, 1, 1) + dt.timedelta(days=2 * number + place)
            lab.index.add(name, f"{number}", f"{day}")
    lab.broken = lambda versions: not 0 <= versions["alpha"] - versions["beta"] <= 1
    lab.fails = lambda versions: versions["beta"] >= 3
    old, new = ["alpha==1", "beta==1"], ["alpha==8", "beta==8"]
    assert [("beta", "2", "3")] == edges(lab.bisect(old, new))
    assert [("beta", "3", "2")] == edges(lab.bisect(new, old))


def test_what_moves_from_day_to_day_moves_beside_releases_of_its_time(lab: Lab) -> None:
    """Between the two sides, alpha runs only with the delta of its day, which no side has."""
    for place, name in enumerate(("alpha", "beta", "delta")):
        for number in range(1, 9):
            day = dt.date(2025, 1, 1) + dt.timedelta(days=3 * number + place)
            needs = ("delta",) if name == "alpha" else ()
            lab.index.add(name, f"{number}", f"{day}", requires=needs)
    lab.broken = lambda versions: (
        not 0 <= versions["alpha"] - versions["beta"] <= 1
        or (2 < versions["alpha"] < 8 and not 0 <= versions["alpha"] - versions["delta"] <= 1)
    )
    lab.fails = lambda versions: versions["beta"] >= 5
    old = ["alpha==1", "beta==1", "delta==1"]
    found = lab.bisect(old, ["alpha==8", "beta==8", "delta==1"])
    assert [("beta", "4", "5")] == edges(found)
    assert () == found.edges[0].also


def test_packages_whose_days_cannot_be_judged_are_named_together(lab: Lab) -> None:
    """They run only as the two sides have them. No release of one of them is blamed."""
    for name in ("alpha", "beta"):
        lab.add(name, 4)
    lab.broken = lambda versions: (versions["alpha"], versions["beta"]) not in {(1, 1), (4, 4)}
    lab.fails = lambda versions: versions["alpha"] == 4
    found = lab.bisect(["alpha==1", "beta==1"], ["alpha==4", "beta==4"])
    assert [("alpha + beta", "1 + 1", "4 + 4")] == edges(found)


def test_setuptools_stays_though_nothing_requires_it_any_more(lab: Lab) -> None:
    """An old beta imports its pkg_resources without a word. An old alpha brought it along."""
    lab.add("setuptools", 1)
    lab.add("beta", 4)
    for number in range(1, 5):
        day = dt.date(2025, 1, 1) + dt.timedelta(days=number)
        needs = ("setuptools",) if number < 2 else ()
        lab.index.add("alpha", f"{number}", f"{day}", requires=needs)
    lab.broken = lambda versions: versions["beta"] < 4 and "setuptools" not in versions
    lab.fails = lambda versions: versions["alpha"] >= 3
    found = lab.bisect(["alpha==1", "beta==1"], ["alpha==4", "beta==4"])
    assert [("alpha", "2", "3")] == edges(found)


def test_packages_that_can_never_be_told_apart_are_named_together(lab: Lab) -> None:
    """Each is broken without the other, and they are released on the same days."""
    for name in ("alpha", "beta", "delta"):
        lab.add(name, 4)
    lab.broken = lambda versions: versions["alpha"] != versions["beta"]
    lab.fails = lambda versions: versions["alpha"] >= 3
    found = lab.bisect(["alpha==1", "beta==1", "delta==1"], ["alpha==4", "beta==4", "delta==4"])
    assert [("alpha + beta", "2 + 2", "3 + 3")] == edges(found)
    assert "which of these packages it is could not be told" in found.headline


def test_an_exception_of_packages_that_do_not_go_together_is_not_the_change(lab: Lab) -> None:
    """A new alpha fails with an old beta, and no side fails. It is a new beta that stops."""
    for name in ("alpha", "beta"):
        lab.add(name, 4)
    lab.fails = lambda versions: versions["alpha"] > versions["beta"]
    lab.stops = lambda versions: versions["beta"] >= 3
    found = lab.bisect(["alpha==1", "beta==1"], ["alpha==4", "beta==4"])
    assert [("beta", "2", "3")] == edges(found)
    assert any("neither side ends so" in each.why for each in found.skipped)


def test_a_second_bisection_runs_nothing_again(lab: Lab) -> None:
    """Every set of packages is a record with a lock of its own."""
    lab.add("alpha", 16)
    lab.fails = lambda versions: versions["alpha"] >= 7
    first = lab.bisect(["alpha==1"], ["alpha==16"])
    runs = len(lab.runs)
    assert (first, runs) == (lab.bisect(["alpha==1"], ["alpha==16"]), len(lab.runs))


def test_all_changes_of_one_package(lab: Lab) -> None:
    """It fails for a while and trains again: both are found, though the sides end equally."""
    lab.add("alpha", 9)
    lab.fails = lambda versions: 3 <= versions["alpha"] <= 6
    found = lab.search(["alpha==1"], ["alpha==9"], every=True, only=["alpha"]).run()
    assert [("alpha", "2", "3"), ("alpha", "6", "7")] == edges(found)
    assert [f"alpha {number}" for number in (2, 3)] == [each.name for each in found.edges[0].ends]


def test_all_changes_over_several_packages(lab: Lab) -> None:
    """Each ends differently from the one before: the second is looked for behind the first."""
    lab.add("alpha", 6)
    lab.add("beta", 6)
    lab.fails = lambda versions: versions["alpha"] >= 3
    lab.stops = lambda versions: versions["beta"] >= 5 and versions["alpha"] >= 3
    found = lab.search(["alpha==1", "beta==1"], ["alpha==6", "beta==6"], every=True).run()
    assert {("alpha", "2", "3"), ("beta", "4", "5")} == set(edges(found))


def test_what_it_may_take_is_not_less_than_what_it_takes(lab: Lab) -> None:
    """Nothing is run for it."""
    for name in ("alpha", "beta", "gamma"):
        lab.add(name, 12)
    lab.fails = lambda versions: versions["beta"] >= 7
    names = ("alpha", "beta", "gamma")
    sides = [f"{name}==1" for name in names], [f"{name}==12" for name in names]
    outlook = lab.search(*sides).outlook()
    assert [] == lab.runs
    assert [10, 10, 10] == [count for _, count in outlook.lines]
    assert lab.bisect(*sides).probes <= outlook.probes


def test_equal_sides_are_refused(lab: Lab) -> None:
    """There is nothing between them."""
    lab.add("alpha", 2)
    with pytest.raises(UserError, match="the same packages"):
        lab.bisect(["alpha==1"], ["alpha==1"])


def test_a_package_that_only_the_good_side_has(lab: Lab) -> None:
    """The other way round it would come."""
    lab.add("alpha", 2)
    lab.add("beta", 2)
    lab.fails = lambda versions: "beta" not in versions
    with pytest.raises(UserError) as told:
        lab.search(["alpha==1", "beta==1"], ["alpha==2"], only=["beta"]).run()
    assert "only the good side has beta" == told.value.cause


def test_sides_named_the_other_way_round_are_noticed(lab: Lab) -> None:
    """It is said, and the answer is the same."""
    lab.add("alpha", 4)
    lab.fails = lambda versions: versions["alpha"] < 3
    assert [("alpha", "2", "3")] == edges(lab.bisect(["alpha==1"], ["alpha==4"]))
    assert any("what fixed it" in line for line in lab.told)


def test_a_range_is_looked_at_in_the_nearest_older_stack(lab: Lab) -> None:
    """Of the first version if there is none."""
    project = Project.at(lab.root)
    assert "first" == base_for("torch", "2.7.0", project)
    assert "second" == base_for("torch", "2.13.0", project)
    assert "first" == base_for("torch", "2.0.0", project)


def test_pythons_must_be_equal(lab: Lab) -> None:
    """A bisection moves packages."""
    lab.add("alpha", 2)
    project = Project.at(lab.root)
    (scenario,) = project.chosen_scenarios()
    sides = lab.side("good", "alpha==1"), lab.side("bad", "alpha==2", python="3.12")
    with pytest.raises(UserError, match=r"3\.12"):
        Bisection(project, *sides, (scenario,), PLAIN, Watcher(), lab.told.append).run()


def test_an_upgrade_goes_on_from_its_regressions(lab: Lab) -> None:
    """The release is named in the comparison; one cell stands for each cause."""
    lab.add("alpha", 8)
    lab.fails = lambda versions: versions["alpha"] >= 6
    search = lab.search(["alpha==1"], ["alpha==8"])
    plan = upgrade.Plan(scenarios=search.scenarios, selection=Selection())
    compared = upgrade.upgrade(search.project, search.good, search.bad, plan, Watcher())
    told = bisected(compared, regressed(compared), lambda key: replace(search, key=key))
    assert [("alpha", "5", "6")] == [edge for found in told.bisected for edge in edges(found)]
    assert compared.notes == told.notes


def test_a_cell_that_runs_along_needs_no_environment_of_its_own(lab: Lab) -> None:
    """The second search finds all that it asks for."""
    lab.add("alpha", 8)
    lab.fails = lambda versions: versions["alpha"] >= 6
    first, second = (lab.search(["alpha==1"], ["alpha==8"]) for _ in range(2))
    first.along, second.key = [REPORTED], REPORTED
    first.run()
    runs = len(lab.runs)
    assert [("alpha", "5", "6")] == edges(second.run())
    assert runs == len(lab.runs)


def test_a_cell_runs_along_only_while_it_gives_the_same_answers(lab: Lab) -> None:
    """Its own search does not ask about releases of a package that did not change it."""
    lab.add("alpha", 12)
    lab.add("beta", 12)
    lab.fails = lambda versions: versions["alpha"] >= 6
    lab.fails_too = lambda versions: versions["beta"] >= 4
    sides = ["alpha==1", "beta==1"], ["alpha==12", "beta==12"]
    first, second = lab.search(*sides), lab.search(*sides)
    first.along, second.key = [REPORTED], REPORTED
    assert [("alpha", "5", "6")] == edges(first.run())
    assert {1, 12} == {
        versions["alpha"]
        for variant, versions in zip(lab.variants, lab.runs, strict=True)
        if variant == REPORTED.variant
    }
    assert [("beta", "3", "4")] == edges(second.run())


def test_searches_between_the_same_sides_resolve_each_set_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sets without a solution are known too."""
    lab.add("alpha", 9, "beta=={}")
    lab.add("beta", 9)
    lab.fails = lambda versions: versions["alpha"] >= 6
    first, second = (lab.search(["alpha==1"], ["alpha==9"]) for _ in range(2))
    first.along, second.key, second.shared = [REPORTED], REPORTED, first.shared
    found = first.run()
    monkeypatch.setattr(resolution, "attempt", lambda *_: pytest.fail("it is known"))
    assert (edges(found), found.skipped) == (edges(second.run()), found.skipped)
    assert found.skipped


def test_searches_between_the_same_sides_look_at_packages_in_one_order(lab: Lab) -> None:
    """A package that the diagnosis of one cell names comes first for the other one too."""
    for name in ("alpha", "beta", "delta"):
        lab.add(name, 2)
    sides = ["alpha==1", "beta==1", "delta==1"], ["alpha==2", "beta==2", "delta==2"]
    first, second = lab.search(*sides), lab.search(*sides)
    assert "alpha" == first.units(())[0].name
    first.shared.named.add("delta")
    second.shared = first.shared
    assert "delta" == second.units(())[0].name


def test_what_changed_the_cell_between_other_sides_is_tried_first(lab: Lab) -> None:
    """Another release of it, or another package, is found all the same."""
    for name in ("alpha", "beta", "delta"):
        lab.add(name, 30)
    sides = [[f"{name}=={number}" for name in ("alpha", "beta", "delta")] for number in (1, 30)]
    lab.fails = lambda versions: versions["delta"] >= 19
    search = lab.search(*sides)
    search.shared.known = frozenset({("delta", "19")})
    found = search.run()
    assert [("delta", "18", "19")] == edges(found)
    assert found.probes <= 4
    for wrong in (("delta", "4"), ("beta", "9")):
        search = lab.search(*sides)
        search.shared.known = frozenset({wrong})
        assert [("delta", "18", "19")] == edges(search.run())


def test_what_may_run_next_is_installed_meanwhile(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both neighbours of the first set of packages. Everything is deleted afterwards."""
    lab.add("alpha", 9)
    ahead = Event()

    def fails(versions: Versions) -> bool:
        if versions["alpha"] == 5:
            assert ahead.wait(60)
        return versions["alpha"] >= 8

    lab.fails = fails
    ensure, drop = environment.ensure, environment.drop
    made: list[str] = []
    dropped: list[str] = []

    def ensured(lock: Lock, *rest: Any, **more: Any) -> Environment:  # noqa: ANN401
        made.append(lock.stack)
        if lock.version("alpha") == "3":
            ahead.set()
        return ensure(lock, *rest, **more)

    def drops(root: Path, stack: str) -> None:
        dropped.append(stack)
        drop(root, stack)

    monkeypatch.setattr(environment, "ensure", ensured)
    monkeypatch.setattr(environment, "drop", drops)
    assert [("alpha", "7", "8")] == edges(lab.bisect(["alpha==1"], ["alpha==9"]))
    assert len(set(made)) > len({versions["alpha"] for versions in lab.runs})
    assert set(made) <= set(dropped)


def test_what_a_killed_bisection_left_is_deleted(lab: Lab) -> None:
    """Its environments cannot be used again."""
    lab.add("alpha", 2)
    left = lab.root / ".gradmatrix" / "environments" / "+left"
    left.mkdir(parents=True)
    lab.bisect(["alpha==1"], ["alpha==2"])
    assert not left.exists()


@pytest.fixture
def measured(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab whose steps take longer with each release of alpha, and much longer since release 7."""

    def measure(
        _project: Project, _good: SideRun, other: SideRun, keys: Sequence[Key], _timing: object
    ) -> dict[Key, Measured]:
        release = int(other.resolved.lock.version("alpha") or 0)
        ratio = 1 + release / 200 + 0.5 * (release >= 7)
        return {keys[0]: make_measured(Size.SAME, ratio)}

    monkeypatch.setattr(paired, "measure", measure)
    lab.add("alpha", 12)
    return lab


def test_the_release_that_made_it_slower(measured: Lab) -> None:
    """Each release is measured beside the good side."""
    search = measured.search(["alpha==1"], ["alpha==12"])
    search.paired = Paired(Metric.STEPS, 60.0)
    found = search.run()
    assert [("alpha", "6", "7")] == edges(found)
    assert found.headline.startswith("steps_per_s of sums/plain/cpu changes between alpha 6")
    assert "steps_per_s: 0.651 times that of the good side" in found.edges[0].ends[1].outcome


def test_sides_that_do_not_differ_clearly_are_an_answer(measured: Lab) -> None:
    """Nothing else is measured."""
    search = measured.search(["alpha==1"], ["alpha==3"])
    search.paired = Paired(Metric.STEPS, 60.0)
    found = search.run()
    assert ((), 0) == (found.edges, found.probes)
    assert "does not differ clearly" in found.headline


@pytest.mark.slow
def test_random_culprits(lab: Lab) -> None:
    """Random culprits among five packages: none is wrong."""
    names = [f"p{number}" for number in range(5)]
    for name in names:
        lab.add(name, 12)
    chance = random.Random(11)  # noqa: S311
    for needed in itertools.chain([1] * 20, [2] * 20):
        culprits = {name: chance.randint(2, 12) for name in sorted(chance.sample(names, needed))}
        lab.fails = lambda versions, these=culprits: all(  # type: ignore[misc]
            versions[name] >= release for name, release in these.items()
        )
        found = lab.bisect([f"{name}==1" for name in names], [f"{name}==12" for name in names])
        wanted = {(name, str(release - 1), str(release)) for name, release in culprits.items()}
        assert wanted == set(edges(found))
        lab.forget()


@pytest.mark.slow
def test_random_changes_over_a_range(lab: Lab) -> None:
    """With --all, of 20 searches for up to four changes none is wrong or left out."""
    lab.add("alpha", 14)
    chance = random.Random(3)  # noqa: S311
    for _ in range(20):
        turns = sorted(chance.sample(range(2, 15), chance.randint(1, 4)))
        lab.fails = lambda versions, these=turns: (  # type: ignore[misc]
            sum(versions["alpha"] >= turn for turn in these) % 2 == 1
        )
        found = lab.search(["alpha==1"], ["alpha==14"], every=True, only=["alpha"]).run()
        assert [("alpha", f"{turn - 1}", f"{turn}") for turn in turns] == edges(found)
        lab.forget()


@pytest.mark.slow
def test_a_cell_that_ends_wrongly_one_time_in_ten(lab: Lab) -> None:
    """Of 20 searches none names another release. The two sides themselves end rightly."""
    lab.add("alpha", 12)
    chance = random.Random(5)  # noqa: S311
    for _ in range(20):
        culprit = chance.randint(2, 12)

        def fails(versions: Versions, culprit: int = culprit) -> bool:
            wrong = 1 < versions["alpha"] < 12 and chance.random() < 0.1
            return (versions["alpha"] >= culprit) is not wrong

        lab.fails = fails
        lab.forget()
        found = lab.bisect(["alpha==1"], ["alpha==12"], noise=0.1)
        assert [("alpha", f"{culprit - 1}", f"{culprit}")] == edges(found)
        assert found.without is None
        assert [True, False] == [end.outcome == "trains" for end in found.edges[0].ends]


@pytest.mark.slow
def test_releases_that_cannot_run(lab: Lab) -> None:
    """Some are yanked, some break on import, and some do not resolve: of 20 searches none is wrong.

    If such releases hide the edge, the answer is the range that holds it, and names them.
    """
    chance = random.Random(7)  # noqa: S311
    for trial in range(20):
        name, culprit = f"alpha{trial}", chance.randint(2, 14)
        chosen = chance.sample(range(2, 14), 6)
        yanked, broken, unresolved = chosen[:2], chosen[2:4], chosen[4:]
        for number in range(1, 15):
            day = dt.date(2025, 1, 1) + dt.timedelta(days=number)
            needs = ("missing",) if number in unresolved else ()
            lab.index.add(name, f"{number}", f"{day}", requires=needs, yanked=number in yanked)
        lab.broken = lambda versions, name=name, these=broken: versions[name] in these  # type: ignore[misc]
        lab.fails = lambda versions, name=name, edge=culprit: versions[name] >= edge  # type: ignore[misc]
        (edge,) = lab.bisect([f"{name}==1"], [f"{name}==14"]).edges
        before = max(n for n in range(1, culprit) if n not in chosen)
        after = min(n for n in range(culprit, 15) if n not in chosen)
        assert (name, f"{before}", f"{after}") == (edge.package, edge.before, edge.after)
        lab.forget()
