"""One side of an upgrade, run by servers that only pretend."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from gradmatrix.compare import upgrade
from gradmatrix.compare.resolution import Resolved, renamed
from gradmatrix.compare.sides import Side
from gradmatrix.compare.upgrade import SideRun
from gradmatrix.core.files import held, is_held
from gradmatrix.core.model import Build, Gradient, Relation, Role
from gradmatrix.measure.statistics import Key
from gradmatrix.run.plan import Selection
from gradmatrix.run.project import Project
from gradmatrix.stacks import environment
from gradmatrix.stacks.environment import Environment
from tests.factories import make_lock, make_record, make_scenario, make_variant
from tests.pretended import Watcher, World, pretend
from tests.upgrading import PLAIN, REPORTED, files, make_checkout

if TYPE_CHECKING:
    from pathlib import Path

    from gradmatrix.core.model import Lock

EVERYTHING = Selection()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The checkout."""
    return make_checkout(tmp_path)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Servers that only pretend to run cells."""
    return pretend(monkeypatch)


def side_of(root: Path, lock: Lock, python: Path | None = None) -> SideRun:
    """A side with this lock."""
    project = Project.at(root)
    side = Side(
        name="mine",
        python="3.11",
        as_of="today",
        requirements=("torch",),
        asked=("torch",),
        lock=lock,
        interpreter=python,
    )
    return SideRun(
        Resolved(side, lock, project.locks_folder), project, project.chosen_scenarios(), Watcher()
    )


def of_matrix(root: Path) -> SideRun:
    """A side that is a stack of the matrix."""
    [lock] = Project.at(root).known_locks(["first"])
    return side_of(root, lock)


def of_its_own(root: Path) -> SideRun:
    """A side that upgrade made."""
    return side_of(root, renamed(make_lock("side")))


def test_every_cell_gets_a_record(root: Path, world: World) -> None:
    """Also cells that cannot run here."""
    found = of_its_own(root).executed(EVERYTHING)
    assert {"plain": "trains", "reported": "trains", "newer": "setup:unsupported"} == {
        key.variant: record.outcome for key, record in found.items()
    }


def test_a_recorded_cell_is_not_run_again(root: Path, world: World) -> None:
    """So an upgrade that was stopped continues."""
    first = of_its_own(root).executed(EVERYTHING)
    assert first == of_its_own(root).executed(EVERYTHING)
    assert ["sums/plain", "sums/reported"] == world.asked


def test_records_of_the_matrix_are_used_and_not_changed(root: Path, world: World) -> None:
    """A stack whose cells are recorded needs no run."""
    project = Project.at(root)
    project.stack_run(project.matrix.stack("first"), Watcher()).execute(EVERYTHING)
    before = files(project.work / "records") | files(project.results)
    asked = list(world.asked)
    found = of_matrix(root).executed(EVERYTHING)
    assert asked == world.asked
    assert 3 == len(found)
    assert before == files(project.work / "records") | files(project.results)


def test_published_records_are_used_too(root: Path, world: World) -> None:
    """If their key is that of this machine and this code."""
    project = Project.at(root)
    project.stack_run(project.matrix.stack("first"), Watcher()).execute(EVERYTHING)
    project.store.publish("first", project.store.recorded_here("first").values())
    for path in (project.work / "records").iterdir():
        path.unlink()
    asked = list(world.asked)
    of_matrix(root).executed(EVERYTHING)
    assert asked == world.asked


def test_missing_cells_of_a_stack_are_recorded_outside_the_matrix(root: Path, world: World) -> None:
    """Neither its journal nor its results change."""
    before = files(root / "results")
    of_matrix(root).executed(EVERYTHING)
    assert ["sums/plain", "sums/reported"] == world.asked
    assert not (root / ".gradmatrix" / "records").exists()
    assert before == files(root / "results")


def test_an_environment_runs_in_place_each_time(
    root: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is installed, and its packages may have changed."""
    monkeypatch.setattr(environment, "ensure", lambda *_: pytest.fail("installed"))
    for _ in range(2):
        found = side_of(root, renamed(make_lock("here")), root / "python").executed(EVERYTHING)
    assert ("trains", "setup:unsupported") == (
        found[PLAIN].outcome,
        found[Key("sums", "newer", "cpu")].outcome,
    )
    assert 4 == len(world.asked)


def test_repeats_run_in_fresh_processes(root: Path, world: World) -> None:
    """Each repeat is kept under its number."""
    run = of_its_own(root)
    assert {PLAIN: "trains"} == run.again(1, {PLAIN}, fresh=False)
    assert {PLAIN: "trains"} == run.again(2, {PLAIN}, fresh=False)
    assert {PLAIN: "trains"} == run.again(2, {PLAIN}, fresh=False)
    assert (["sums/plain"] * 2, [False, False]) == (world.asked, world.forks)


def test_changed_cells_ran_on_both_sides_and_ended_differently() -> None:
    """And ended in another way."""
    before = {PLAIN: make_record(), REPORTED: make_record()}
    fails = make_record("step:no-grad-fn")
    assert {REPORTED: [REPORTED]} == upgrade.changed(
        before, {PLAIN: make_record(), REPORTED: fails}
    )
    for untried in ("setup:unsupported", "install:build", "resolve:conflict"):
        assert {} == upgrade.changed(before, {REPORTED: make_record(untried)})


def test_a_failure_with_another_gradient_is_a_change() -> None:
    """It is run again before it is reported as broken differently."""
    before, after = (
        make_record("step:exception", gradient=each) for each in (Gradient.NONE, Gradient.FLOWING)
    )
    assert {PLAIN: [PLAIN]} == upgrade.changed({PLAIN: before}, {PLAIN: after})
    assert {} == upgrade.changed(
        {PLAIN: make_record(gradient=Gradient.PARTIAL)}, {PLAIN: make_record()}
    )


def test_a_scenario_that_cannot_be_imported_is_tried_again_once() -> None:
    """Its cells share the import."""
    before = {PLAIN: make_record(), REPORTED: make_record("step:no-grad-fn")}
    broken = make_record("import:missing-module", isolation="none")
    assert {PLAIN: [PLAIN, REPORTED]} == upgrade.changed(before, {PLAIN: broken, REPORTED: broken})


def test_a_variant_is_run_again_with_the_variant_that_it_must_agree_with() -> None:
    """The other variant is run again too."""
    relation = Relation(first="plain", second="reported")
    scenario = make_scenario(
        "sums", make_variant("plain"), make_variant("reported"), agree=(relation,)
    )
    assert {PLAIN, REPORTED} == upgrade.with_partners([REPORTED], [scenario])
    assert {PLAIN} == upgrade.with_partners([PLAIN], [scenario])


def test_environments_of_killed_upgrades_are_deleted(tmp_path: Path) -> None:
    """Except those that are kept, in use, of a stack or of this run."""
    for name in ("+left", "+kept", "+used", "+mine", "torch-2.13"):
        (tmp_path / name).mkdir()
    (tmp_path / "+kept" / environment.KEPT).touch()
    with held(tmp_path / ".+used.lock"):
        environment.drop_leftovers(tmp_path, ["+mine"])
    assert ["+kept", "+mine", "+used", "torch-2.13"] == sorted(
        path.name for path in tmp_path.iterdir() if path.is_dir()
    )


def test_a_half_deleted_environment_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marker is deleted first, and the environment is locked meanwhile."""
    (tmp_path / "+left").mkdir()
    (tmp_path / "+left" / environment.MARKER).touch()
    seen = []

    def rmtree(path: Path, **_: object) -> None:
        seen.append(((path / environment.MARKER).exists(), is_held(tmp_path / ".+left.lock")))

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    environment.drop_leftovers(tmp_path, [])
    assert [(False, True)] == seen


def test_a_side_is_installed_for_measuring(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment is locked meanwhile. An existing environment is used as it is."""
    ready = Environment(root / "installed", Build.CPU, None, installed=True)
    monkeypatch.setattr(environment, "ensure", lambda *_: ready)
    run = of_its_own(root)
    with run.installed() as python:
        in_use = is_held(root / ".gradmatrix" / "environments" / f".{run.name}.lock")
        assert (root / "installed", True) == (python, in_use)
    with side_of(root, renamed(make_lock("here")), root / "python").installed() as python:
        assert root / "python" == python


@pytest.mark.parametrize("python", [None, "python"])
def test_one_environment_is_locked_once(
    root: Path, monkeypatch: pytest.MonkeyPatch, python: str | None
) -> None:
    """If both sides have the same lock. An environment of the user is another place."""
    ready = Environment(root / "installed", Build.CPU, None, installed=True)
    monkeypatch.setattr(environment, "ensure", lambda *_: ready)
    there = None if python is None else root / python
    sides = [side_of(root, renamed(make_lock("side")), there), of_its_own(root)]
    watcher = sides[1].progress
    with upgrade.both_installed(*sides) as pythons:
        assert (there or root / "installed", root / "installed") == pythons
    assert isinstance(watcher, Watcher)
    assert not [text for text in watcher.stages if "waiting" in text]


def test_environments_are_locked_in_one_order(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So two upgrades in opposite directions cannot wait for each other for ever."""
    taken: list[str] = []

    def ensure(lock: Lock, *_: object) -> Environment:
        taken.append(lock.stack)
        return Environment(root / lock.stack, Build.CPU, None, installed=True)

    monkeypatch.setattr(environment, "ensure", ensure)
    first, second = side_of(root, make_lock("a")), side_of(root, make_lock("b"))
    with upgrade.both_installed(second, first) as pythons:
        assert (root / "b", root / "a") == pythons
    assert ["a", "b"] == taken


def test_only_the_chosen_cells_are_measured(root: Path, world: World) -> None:
    """They come ready to run."""
    [planned] = of_its_own(root).planned([PLAIN])
    assert ("plain", Role.CONTROL) == (planned.cell.variant, planned.variant.role)


@pytest.mark.parametrize(
    ("versions", "build"),
    [
        ({"torch": "2.6.0+cpu"}, Build.CPU),
        ({"torch": "2.6.0+cu124", "nvidia-cublas-cu12": "12"}, Build.CUDA),
        ({"torch": "2.6.0"}, Build.CPU),
    ],
)
def test_the_build_of_an_environment_follows_from_its_packages(
    tmp_path: Path, versions: dict[str, str], build: Build
) -> None:
    """From torch's label, or from the CUDA libraries beside it."""
    assert build is upgrade.in_place(tmp_path, make_lock(versions=versions)).build
