"""Upgrades, bisections and flips on a cluster: the same answers as on one machine."""

from __future__ import annotations

import json
from contextlib import nullcontext
from itertools import count
from threading import Event
from typing import TYPE_CHECKING

import pytest

from gradmatrix.compare import flip_search, upgrade
from gradmatrix.compare.bisect import Bisection
from gradmatrix.core.errors import UserError
from gradmatrix.run import project as project_module
from gradmatrix.run import ray
from gradmatrix.run.plan import Selection
from gradmatrix.run.project import Project
from gradmatrix.run.ray import Cluster
from gradmatrix.run.store import decode
from tests.compare.test_bisect import edges, lab
from tests.compare.test_flips import matrix
from tests.conftest import OLDEST, needs_fork, waits_until
from tests.pretended import Watcher
from tests.run.test_ray import FakeRay, needs_ray, nodes

if TYPE_CHECKING:
    from pathlib import Path

    from gradmatrix.core.model import Record
    from gradmatrix.judge.edge import Found
    from tests.compare.test_bisect import Lab, Versions
    from tests.run.test_ray import Nodes

__all__ = ["lab", "matrix", "nodes"]


@pytest.fixture
def fake(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    """A cluster that gets the checkout of the lab."""
    found = FakeRay(lab.root, monkeypatch)
    monkeypatch.setattr(ray, "connected", lambda *_: found)
    numbers = (f"{number}" for number in count())  # real tasks differ in their process
    monkeypatch.setattr(project_module, "new_run_id", lambda: next(numbers))
    return found


@pytest.fixture
def culprit(lab: Lab) -> Lab:
    """Release 12 of alpha breaks the cell."""
    lab.add("alpha", 16)
    lab.fails = lambda versions: versions["alpha"] >= 12
    return lab


def forget(lab: Lab) -> None:
    """Delete all records."""
    for path in (lab.root / ".gradmatrix" / "upgrade" / "records").glob("*.jsonl"):
        path.unlink()
    lab.runs.clear()


def bisected(lab: Lab) -> Found:
    """The answer on the cluster."""
    search = lab.search(["alpha==1"], ["alpha==16"])
    with Cluster(search.project, None) as cluster:
        search.machines, search.spare = cluster, cluster.spare
        return search.run()


@pytest.mark.parametrize("cpus", [1, 2, 4])
def test_a_bisection_gives_the_answer_of_one_machine(
    culprit: Lab, fake: FakeRay, cpus: int
) -> None:
    """What ran for nothing is no part of it."""
    here = culprit.bisect(["alpha==1"], ["alpha==16"])
    forget(culprit)
    fake.cpus = cpus
    assert here == bisected(culprit)


def test_sets_that_may_be_next_run_at_the_same_time(culprit: Lab, fake: FakeRay) -> None:
    """With four cores: the two of the next question, and one of the question behind it."""
    behind = Event()

    def fails(versions: Versions) -> bool:
        if versions["alpha"] == 5:
            behind.set()
        if versions["alpha"] == 9:
            assert behind.wait(60)
        return versions["alpha"] >= 12

    culprit.fails = fails
    fake.cpus, fake.alone = 4, nullcontext()
    assert [("alpha", "11", "12")] == edges(bisected(culprit))


def test_a_set_on_a_lost_node_runs_on_another(culprit: Lab, fake: FakeRay) -> None:
    """Two nodes are lost before they have a result."""
    here = culprit.bisect(["alpha==1"], ["alpha==16"])
    forget(culprit)
    fake.dies_after = [0, 0]
    assert here == bisected(culprit)


def test_a_bisection_on_a_cluster_goes_on_where_it_was_stopped(culprit: Lab, fake: FakeRay) -> None:
    """No set runs twice."""
    fake.cpus = 1
    stops = [True]

    def fails(versions: Versions) -> bool:
        if versions["alpha"] == 9 and stops.pop():
            raise KeyboardInterrupt
        return versions["alpha"] >= 12

    culprit.fails = fails
    with pytest.raises(KeyboardInterrupt):
        bisected(culprit)
    ran = [versions["alpha"] for versions in culprit.runs]
    culprit.fails = lambda versions: versions["alpha"] >= 12
    assert [("alpha", "11", "12")] == edges(bisected(culprit))
    assert [1, 16, 9] == ran
    assert {9} == {
        each["alpha"] for each in culprit.runs if culprit.runs.count(each) > 1
    }  # it has no record of the first time


def test_an_upgrade_gives_the_answer_of_one_machine(culprit: Lab, fake: FakeRay) -> None:
    """Changed cells are run again there too."""
    search = culprit.search(["alpha==1"], ["alpha==16"])
    plan = upgrade.Plan(scenarios=search.scenarios, selection=Selection())
    here = upgrade.upgrade(search.project, search.good, search.bad, plan, Watcher())
    ran = sorted(each["alpha"] for each in culprit.runs)
    for path in (culprit.root / ".gradmatrix" / "upgrade").rglob("*.jsonl"):
        path.unlink()
    culprit.runs.clear()
    with Cluster(search.project, None) as cluster:
        plan = upgrade.Plan(scenarios=search.scenarios, selection=Selection(), machines=cluster)
        there = upgrade.upgrade(search.project, search.good, search.bad, plan, Watcher())
    assert (here.groups, here.verdict) == (there.groups, there.verdict)
    assert ran == sorted(each["alpha"] for each in culprit.runs)


def test_flips_give_the_answers_of_one_machine(matrix: Lab, fake: FakeRay) -> None:
    """Both pairs of stacks are looked at side by side."""
    project = Project.at(matrix.root)
    known = flip_search.current(project)
    with Cluster(project, None) as cluster:
        there = flip_search.Search(project, Watcher(), matrix.told.append, 600.0, cluster).run(
            known
        )
    here = flip_search.Search(project, Watcher(), matrix.told.append, 600.0).run(known)
    assert here == there
    assert not any(turn.is_open for turn in there.turns)


def test_a_failure_of_the_machine_is_no_answer(
    matrix: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change stays open."""

    def fails(_: object) -> None:
        raise UserError("The cluster ended.", cause="somebody", next_step="try again")

    monkeypatch.setattr(Bisection, "run", fails)
    project = Project.at(matrix.root)
    with pytest.raises(UserError, match="The cluster ended"):
        flip_search.Search(project, Watcher(), matrix.told.append, 600.0).run(
            flip_search.current(project)
        )
    assert all(turn.is_open for turn in flip_search.current(project).turns)


BISECTION = (
    *("bisect", "t5_classifier/hf_adafactor", "--package", "lightning"),
    *("--between", "2.0.4", "2.0.9", "--good", OLDEST, "--json"),
)


def recorded(results: Path) -> list[Record]:
    """The records of a bisection's cells that ran."""
    journals = (results / ".gradmatrix" / "upgrade" / "records").glob("*.jsonl")
    lines = (line for path in journals for line in path.read_bytes().splitlines())
    return [each for each in map(decode, lines) if each.cell.variant == "hf_adafactor"]


@pytest.mark.slow
@needs_fork
@needs_ray
def test_a_real_bisection_survives_its_driver_and_a_node(nodes: Nodes, tmp_path: Path) -> None:
    """The release is found, and no set of packages has two records."""
    results = tmp_path / "results"
    with nodes.start(results, BISECTION) as run:
        assert waits_until(lambda: len(recorded(results)) >= 1)
        run.kill()
    assert waits_until(lambda: nodes.is_idle)
    before = len(recorded(results))
    with nodes.start(results, BISECTION) as run:
        assert waits_until(lambda: len(recorded(results)) > before)
        nodes.kill_busy_one()
        assert 0 == run.wait()
    (report,) = (results / ".gradmatrix" / "upgrade" / "reports").glob("*/report.json")
    (edge,) = json.loads(report.read_bytes())["edges"]
    assert ("2.0.6", "2.0.7") == (edge["before"], edge["after"])
    assert any("requires" in each for each in edge["needs"])
    found = recorded(results)
    assert len(found) == len({each.cell.stack for each in found})
