"""A published record stands while newer runs of its cell say the same."""

from __future__ import annotations

import datetime as dt
import hashlib
from typing import TYPE_CHECKING

import msgspec
import pytest
from msgspec.structs import replace

from gradmatrix.core.model import Confirmed, Relation, Role
from gradmatrix.core.outcomes import DISAGREES
from gradmatrix.judge.relations import judged
from gradmatrix.publish.publication import publish
from gradmatrix.publish.standing import standing
from gradmatrix.run.plan import lock_input
from gradmatrix.run.project import Project
from gradmatrix.run.store import Store
from tests.cli.test_cli import MATRIX, SUMS, write_lock
from tests.factories import (
    NOON,
    make_cell,
    make_lock,
    make_observation,
    make_record,
    make_scenario,
    make_variant,
    make_warned,
)

if TYPE_CHECKING:
    from pathlib import Path

    from gradmatrix.core.model import Lock, Record, Scenario

OLD, NEW = (
    make_lock("first", digest=hashlib.sha256(text.encode()).hexdigest())
    for text in ("torch==1\n", "torch==2\n")
)
CELL = make_cell("first", "sums", "plain")
SCENARIO = make_scenario("sums", make_variant("plain"), make_variant("other"))


def ran(outcome: str = "trains", days: float = 1, **fields: object) -> Record:
    """What a run records some days after the first one, with the new lock and other timings."""
    seen = make_observation(step_times_s=(0.5 + days, 0.25), peak_memory_bytes=int(days))
    record = make_record(
        outcome,
        CELL,
        observation=seen,
        recorded_at=NOON + dt.timedelta(days=days),
        run=f"run-{days}",
        inputs={"lock": lock_input(NEW if days else OLD), "observer": "o1"},
        key=f"key-{days}",
    )
    return replace(record, **fields)


def stood(published: Record, newest: Record, scenario: Scenario = SCENARIO) -> bool:
    """Whether the published record stands."""
    [record] = standing([published], [newest], {scenario.name: scenario})
    return record.recorded_at == published.recorded_at


def lock(root: Path, lock: Lock, text: str) -> None:
    """Write the two files of a lock."""
    folder = root / "results" / "locks"
    (folder / f"{lock.stack}.json").write_bytes(msgspec.json.encode(lock))
    (folder / f"{lock.stack}.txt").write_text(text, encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A stack with one record, published; then its lock moved."""
    (tmp_path / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "sums.py").write_text(SUMS.lstrip(), encoding="utf-8")
    project = Project.at(tmp_path)
    write_lock(tmp_path, make_lock("second"))
    lock(tmp_path, OLD, "torch==1\n")
    project.store.append(ran(days=0))
    publish(project, site=True)
    lock(tmp_path, NEW, "torch==2\n")
    return project


def again(project: Project, *records: Record) -> Project:
    """Publish what a night on another machine ran: in a fresh clone, without an older journal."""
    for path in project.store.journal.glob("*.jsonl"):
        path.unlink()
    clone = Project.at(project.root)
    for record in records:
        clone.store.append(record)
    publish(clone, site=True)
    return Project.at(project.root)


def counted_as(project: Project) -> Record:
    """The record of the cell as a fresh clone plans with it."""
    return Store(project.store.published, project.store.published).recorded_here("first")[CELL]


def test_another_timing_is_no_other_answer() -> None:
    """Only measurements differ: speed, memory, the time of the run."""
    assert stood(ran(days=0), ran())


@pytest.mark.parametrize(
    "newest",
    [
        ran("step:exception"),
        ran(message="another message"),
        ran(role=Role.REMEDY),
        ran(observation=make_observation(warnings=(make_warned("new"),))),
        ran(repeats=("step:exception",)),
    ],
    ids=["outcome", "message", "role", "warning", "flaky"],
)
def test_what_a_reader_would_see_replaces_a_record(newest: Record) -> None:
    """A page shows each of these."""
    assert not stood(ran(days=0), newest)


@pytest.mark.parametrize(("days", "expected"), [(30, True), (30.5, False)])
def test_a_record_stands_for_a_month(days: float, *, expected: bool) -> None:
    """The evidence is never much older than the run that confirmed it."""
    assert expected is stood(ran(days=0), ran(days=days))


def test_variants_that_are_compared_stand_together() -> None:
    """Else the losses of two runs would be compared, and the difference called a disagreement."""
    scenario = replace(SCENARIO, agree=(Relation(first="plain", second="other"),))
    other = replace(CELL, variant="other")
    first, second = (
        [ran(days=days), replace(ran(days=days), cell=other, message=message)]
        for days, message in ((0, ""), (1, "it says more now"))
    )
    found = standing(first, second, {"sums": scenario})
    assert [1, 1] == [(each.recorded_at - NOON).days for each in found]


def test_a_disagreement_of_a_standing_pair_stays(project: Project) -> None:
    """It is judged by the losses of the records, which are of one run."""
    scenario = replace(SCENARIO, agree=(Relation(first="plain", second="other"),))
    known = {"sums": scenario}
    first, second = (
        judged(
            [
                ran(days=days, observation=make_observation(losses=(1.0 + days,))),
                ran(
                    days=days,
                    cell=replace(CELL, variant="other"),
                    observation=make_observation(losses=(2.0 + days,)),
                ),
            ],
            known,
        )
        for days in (0, 1)
    )
    found = judged(standing(first, second, known), known)
    assert ["trains", DISAGREES] == [each.outcome for each in found]


def test_a_quiet_night_leaves_the_records_as_they_are(project: Project) -> None:
    """To the letter, also if an older release wrote them with fewer fields."""
    path = project.store.published / "first.jsonl"
    path.write_bytes(path.read_bytes().replace(b',"requests":0', b""))
    before = path.read_bytes()
    again(project, ran())
    assert before == path.read_bytes()


def test_a_confirmed_record_counts_with_the_new_lock(project: Project) -> None:
    """So the next night plans nothing for its cell."""
    after = counted_as(again(project, ran()))
    assert isinstance(after, Confirmed)
    told = after.lock, after.recorded_key, after.run, after.confirmed_by
    assert (lock_input(NEW), "key-0", "run-0", "run-1") == told


def test_a_confirmed_cell_is_shown_with_its_lock(project: Project) -> None:
    """Its row is part of the matrix although its record names another lock."""
    rows = (again(project, ran()).results / "matrix.csv").read_text(encoding="utf-8")
    assert rows.count("first,sums,plain") == 1


def test_the_pages_say_when_it_was_measured_last(project: Project) -> None:
    """And that the record is older."""
    page = (again(project, ran()).results / "cells" / "first.html").read_text(encoding="utf-8")
    assert "Last measured on 2026-01-16. 1 cell ended as recorded" in page
    assert "Recorded by run run-0 (2026-01-15, 1 cell)." in page


def test_publishing_again_changes_nothing(project: Project) -> None:
    """With and without the journal of the night."""
    night = again(project, ran())
    paths = [path for path in night.results.rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in paths}
    again(again(night, ran()))
    assert before == {path: path.read_bytes() for path in paths}


def test_a_second_night_confirms_with_its_own_inputs(project: Project) -> None:
    """Also if only our own code changed."""
    night = again(project, ran())
    last = ran(days=2, inputs={"lock": lock_input(NEW), "judge": "j2"})
    after = counted_as(again(night, last))
    assert {"lock": lock_input(NEW), "judge": "j2"} == after.inputs


def test_a_replaced_record_is_no_longer_confirmed(project: Project) -> None:
    """Its own run counts."""
    night = again(project, ran())
    again(night, ran("step:exception", days=2))
    assert not isinstance(counted_as(night), Confirmed)
    assert not (night.results / "confirmed" / "first.json").exists()
