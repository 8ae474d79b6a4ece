"""The flow of an upgrade, on sides that only pretend."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

from gradmatrix.compare import upgrade
from gradmatrix.compare.sides import Reading
from gradmatrix.compare.upgrade import Plan, Timing
from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Build, Role
from gradmatrix.judge.change import Change
from gradmatrix.judge.verdict import Ended
from gradmatrix.measure import race
from gradmatrix.measure.statistics import Key
from gradmatrix.run.plan import Selection
from gradmatrix.run.project import Project
from gradmatrix.run.server import Answer
from gradmatrix.stacks import environment
from gradmatrix.stacks.environment import Environment
from tests.factories import make_observation, make_raised, make_record, make_scenario
from tests.pretended import TRAINED, Watcher, World, pretend
from tests.upgrading import PLAIN, REPORTED, files, make_checkout

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from gradmatrix.compare.comparison import Comparison
    from gradmatrix.compare.upgrade import SideRun
    from gradmatrix.core.model import Lock
    from gradmatrix.run.plan import Planned

FAILS = Answer(
    make_observation(
        raised=make_raised("element 0 of tensors does not require grad"), reached="step"
    ),
    Ended(exit=0),
    wall_s=0.5,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The checkout."""
    return make_checkout(tmp_path)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Servers that only pretend to run cells, in environments that are folders."""
    world = pretend(monkeypatch)

    def ensure(lock: Lock, _locks: Path, place: Path, *_: object, **__: object) -> Environment:
        (place / lock.stack).mkdir(parents=True, exist_ok=True)
        return Environment(place / lock.stack / "python", Build.CPU, None, installed=True)

    monkeypatch.setattr(environment, "ensure", ensure)
    return world


@dataclass
class Measuring:
    """Replaces the measurement, and remembers its arguments."""

    asked: list[tuple[str, str, list[str], float, float]] = field(default_factory=list)

    def __call__(
        self, baseline: Path, candidate: Path, cells: Sequence[Planned], *_: object, **facts: float
    ) -> dict[Key, object]:
        """Nothing is measured."""
        names = [f"{cell.cell.scenario}/{cell.cell.variant}" for cell in cells]
        self.asked.append(
            (baseline.parent.name, candidate.parent.name, names, facts["budget_s"], facts["margin"])
        )
        return {}


def plan_of(project: Project, **fields: Any) -> Plan:  # noqa: ANN401  (as many types as fields)
    """A plan of everything, without measurements."""
    return replace(Plan(scenarios=project.chosen_scenarios(), selection=Selection()), **fields)


def upgraded(root: Path, **fields: Any) -> Comparison:  # noqa: ANN401  (as above)
    """The comparison of the first stack with the second."""
    project = Project.at(root)
    baseline, candidate = upgrade.resolved_sides(
        project, "first", ["second"], Reading(), as_of=None
    )
    return upgrade.upgrade(project, baseline, candidate, plan_of(project, **fields), Watcher())


def changes(comparison: Comparison) -> dict[str, Change]:
    """The change of each variant."""
    return {each.cell.variant: each.change for each in comparison.cells}


def test_two_stacks_that_both_train_are_safe(root: Path, world: World) -> None:
    """No cell is run again."""
    comparison = upgraded(root)
    assert (0, {"plain": Change.UNCHANGED, "reported": Change.UNCHANGED}) == (
        comparison.exit_code,
        changes(comparison),
    )
    assert 4 == len(world.asked)


def test_a_cell_that_fails_in_every_run_regressed(root: Path, world: World) -> None:
    """Baseline and candidate have the same number of further runs."""
    world.answers = {"reported": [TRAINED, FAILS, TRAINED, TRAINED, FAILS, FAILS]}
    comparison = upgraded(root)
    [cell] = [each for each in comparison.cells if each.cell.variant == "reported"]
    assert cell.before is not None
    assert cell.after is not None
    assert (1, Change.REGRESSED) == (comparison.exit_code, cell.change)
    assert (("trains",) * 2, ("step:exception",) * 2) == (cell.before.repeats, cell.after.repeats)
    assert ["sums/reported"] * 4 == world.asked[4:]


def test_a_cell_that_fails_in_some_runs_is_flaky(root: Path, world: World) -> None:
    """It is not a regression."""
    world.answers = {"reported": [TRAINED, FAILS, TRAINED, TRAINED, TRAINED, FAILS]}
    comparison = upgraded(root)
    assert (3, Change.INCONCLUSIVE) == (comparison.exit_code, changes(comparison)["reported"])


def test_a_flaky_cell_is_run_again_by_the_next_upgrade(root: Path, world: World) -> None:
    """Only its repeats run, on both sides."""
    world.answers = {
        "reported": [
            TRAINED,
            FAILS,
            TRAINED,
            TRAINED,
            TRAINED,
            FAILS,
            TRAINED,
            TRAINED,
            FAILS,
            FAILS,
        ]
    }
    assert Change.INCONCLUSIVE == changes(upgraded(root))["reported"]
    asked = len(world.asked)
    assert Change.REGRESSED == changes(upgraded(root))["reported"]
    assert ["sums/reported"] * 4 == world.asked[asked:]


@dataclass
class Again:
    """Stands for a SideRun in which further runs of every cell end in the same way."""

    outcome: str
    asked: list[set[Key]] = field(default_factory=list)

    def stage(self, _: str) -> None:
        """Nobody watches."""

    def kept(self, _: int, __: object) -> dict[Key, str]:
        """No earlier upgrade ran."""
        return {}

    def again(self, _: int, keys: Collection[Key], *, fresh: bool) -> dict[Key, str]:
        """One outcome for all."""
        if keys and not fresh:
            self.asked.append(set(keys))
        return dict.fromkeys(keys, self.outcome)


@pytest.mark.parametrize(
    ("ends", "asked", "before", "after"),
    [
        ("import:exception", [{PLAIN}, {PLAIN}], {PLAIN}, {PLAIN, REPORTED}),
        (
            "trains",
            [{PLAIN}, {PLAIN}, {REPORTED}, {REPORTED}],
            {PLAIN, REPORTED},
            {PLAIN, REPORTED},
        ),
    ],
)
def test_further_runs_of_an_import_count_for_all_cells_that_share_it(
    ends: str, asked: list[set[Key]], before: set[Key], after: set[Key]
) -> None:
    """If the runs disagree, every cell is run again by itself, on both sides."""
    trained = {PLAIN: make_record(), REPORTED: make_record()}
    broken = dict.fromkeys(trained, make_record("import:exception", isolation="none"))
    first, second = Again("trains"), Again(ends)
    plan = Plan(scenarios=(make_scenario("sums"),), selection=Selection(), repeats=2)
    found = upgrade.repeated(cast("SideRun", first), cast("SideRun", second), trained, broken, plan)
    assert (asked, asked, (before, after)) == (first.asked, second.asked, tuple(map(set, found)))
    assert {(ends, ends)} == set(found[1].values())


def test_the_number_of_repeats_can_be_chosen(root: Path, world: World) -> None:
    """Also none."""
    world.answers = {"reported": [TRAINED, FAILS]}
    assert Change.REGRESSED == changes(upgraded(root, repeats=0))["reported"]
    assert 4 == len(world.asked)


def test_the_same_upgrade_again_runs_nothing(root: Path, world: World) -> None:
    """No repeats either. With fresh it runs everything."""
    world.answers = {"reported": [TRAINED, FAILS, TRAINED, TRAINED, FAILS, FAILS]}
    first = upgraded(root)
    asked = len(world.asked)
    assert first == upgraded(root)
    assert asked == len(world.asked)
    upgraded(root, selection=Selection(fresh=True))
    assert asked + 4 == len(world.asked)


def test_nothing_is_recorded_elsewhere(root: Path, world: World) -> None:
    """Neither in results/ nor in the journal of the matrix."""
    before = files(root / "results")
    upgraded(root)
    assert before == files(root / "results")
    assert {"environments", "upgrade", "work"} == {
        path.name for path in (root / ".gradmatrix").iterdir()
    }


@pytest.mark.parametrize(("keep", "left"), [(False, []), (True, ["first", "second"])])
def test_environments_that_an_upgrade_made_are_deleted(
    root: Path, world: World, *, keep: bool, left: list[str]
) -> None:
    """Unless the user wants to keep them."""
    upgraded(root, keep=keep)
    folders = (root / ".gradmatrix" / "environments").iterdir()
    assert left == sorted(path.name for path in folders if path.is_dir())


def test_environments_of_the_matrix_stay(root: Path, world: World) -> None:
    """They were there before."""
    there = root / ".gradmatrix" / "environments" / "first"
    there.mkdir(parents=True)
    upgraded(root)
    assert there.is_dir()
    assert not there.with_name("second").exists()


def test_a_stopped_upgrade_deletes_its_environments_and_continues_later(
    root: Path,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Finished cells are recorded."""
    with monkeypatch.context() as patched:
        patched.setattr(upgrade, "repeated", _stop)
        with pytest.raises(KeyboardInterrupt):
            upgraded(root)
    assert not list((root / ".gradmatrix" / "environments").glob("[a-z]*"))
    upgraded(root)
    assert 4 == len(world.asked)


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("timing", "cells"),
    [
        (Timing(), ["sums/plain"]),
        (Timing(everything=True, budget_s=100, margin=0.02), ["sums/plain", "sums/reported"]),
        (Timing(cells=frozenset({("sums", "reported")})), ["sums/reported"]),
        (Timing(cells=frozenset({("sums", "newer")})), None),
    ],
)
def test_cells_that_train_on_both_sides_are_measured(
    root: Path,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    timing: Timing,
    cells: list[str] | None,
) -> None:
    """By default one control of each scenario; named cells instead; nothing if none trains."""
    monkeypatch.setattr(race, "measure", measuring := Measuring())
    upgraded(root, timing=timing)
    expected = [("first", "second", cells, timing.budget_s, timing.margin)] if cells else []
    assert expected == measuring.asked


def test_a_cell_that_fails_is_not_measured(
    root: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On either side."""
    monkeypatch.setattr(race, "measure", measuring := Measuring())
    world.answers = {"plain": [TRAINED, FAILS]}
    upgraded(root, timing=Timing(), repeats=0)
    assert [] == measuring.asked


def test_a_script_of_the_user_is_measured() -> None:
    """Whatever its role."""
    own = make_scenario("train", arguments=())
    key = Key("train", "script", "cpu")
    before = {
        key: make_record(role=Role.REPORTED),
        PLAIN: make_record(),
        REPORTED: make_record(role=Role.REPORTED),
    }
    assert [key, PLAIN] == upgrade.to_measure(
        before, before, Timing(), [own, make_scenario("sums")]
    )


def test_a_lock_compared_with_itself_is_measured(
    root: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides share one environment, and do not wait for each other."""
    monkeypatch.setattr(race, "measure", measuring := Measuring())
    project = Project.at(root)
    sides = upgrade.resolved_sides(project, "first", ["first"], Reading(), as_of=None)
    upgrade.upgrade(project, *sides, plan_of(project, timing=Timing()), Watcher())
    assert [("first", "first", ["sums/plain"], 300.0, 0.01)] == measuring.asked


def test_an_extra_of_a_stack_is_an_error(root: Path) -> None:
    """Only files have extras and groups."""
    with pytest.raises(UserError, match="first has no extras and no dependency groups"):
        upgrade.resolved_sides(
            Project.at(root), "first", ["second"], Reading(extras=("rl",)), as_of=None
        )


def test_as_of_cannot_be_combined_with_another_side(root: Path) -> None:
    """The other side has its own day."""
    with pytest.raises(UserError, match="cannot be combined"):
        upgrade.resolved_sides(
            Project.at(root), "first", ["second"], Reading(), as_of=make_record().recorded_at.date()
        )


def test_the_report_is_kept(root: Path, world: World) -> None:
    """It is named after the sides.

    Files of the same name are separated by a digest of their locks.
    """
    project, comparison = Project.at(root), upgraded(root)
    baseline, candidate = upgrade.resolved_sides(
        project, "first", ["second"], Reading(), as_of=None
    )
    path = upgrade.keep_report(project, baseline, candidate, comparison)
    assert (root / ".gradmatrix/upgrade/reports/first-to-second/report.json", True) == (
        path,
        path.is_file(),
    )
    owns = [
        replace(baseline, lock=msgspec.structs.replace(baseline.lock, stack=f"+{each}"))
        for each in "1212"
    ]
    names = {upgrade.keep_report(project, each, candidate, comparison).parent.name for each in owns}
    assert [True, True] == [name.startswith("first-to-second-") for name in names]
