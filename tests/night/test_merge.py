"""Records of other checkouts: some are added, some skipped with a note, and some refused."""

from __future__ import annotations

import datetime as dt
import os
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from gradmatrix.core import files
from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Role
from gradmatrix.night import night
from gradmatrix.night.night import Due, KnownCells, Shard, Shards
from gradmatrix.run.project import Project
from gradmatrix.run.store import Store, encode
from tests import factories
from tests.factories import NOON, make_cell
from tests.night.test_admission import make_failing, make_record
from tests.pretended import Watcher

if TYPE_CHECKING:
    from pathlib import Path

    from gradmatrix.core.model import Record
    from gradmatrix.night.night import Found

KEY = make_record().key
LATER = NOON + dt.timedelta(hours=1)
ROLES = {("scenario", "plain"): Role.CONTROL, ("scenario", "other"): Role.CONTROL}
HERE = KnownCells(stacks={"stack"}, roles=ROLES, devices=("cpu",), now=LATER)


def write(folder: Path, *records: Record | bytes, name: str = "stack") -> Path:
    """A folder as a shard leaves it."""
    path = folder / ".gradmatrix" / "records" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        b"".join(each if isinstance(each, bytes) else encode(each) for each in records)
    )
    return folder


def found(*folders: Path, plan: Shards | None = None) -> Found:
    """The records in folders."""
    return night.found_in(folders, HERE, plan)


def make_plan(*names: str) -> Shards:
    """A plan in which shard A has the variant "plain", and every other one the variant "other"."""
    dues = {
        name: Due(cell=make_cell(variant="plain" if name == "A" else "other"), key=KEY)
        for name in names
    }
    shards = tuple(Shard(name=name, cells=(due,)) for name, due in dues.items())
    return Shards(schema=2, shards=shards, settled=0)


def make_store(folder: Path) -> Store:
    """A checkout's records."""
    return Store(folder / "journal", folder / "published")


def test_records_are_taken_into_the_journal(tmp_path: Path) -> None:
    """There may be several folders, or one folder with all of them."""
    one = write(tmp_path / "shards" / "one", make_record())
    other = write(tmp_path / "shards" / "two", make_record(cell=make_cell(variant="other")))
    assert found(one, other) == found(tmp_path / "shards")
    store = make_store(tmp_path)
    assert 2 == night.add_to_journal(found(one, other).records, store)
    assert {"plain", "other"} == {cell.variant for cell in store.recorded_here("stack")}


def test_a_record_that_is_merged_twice_is_new_once(tmp_path: Path) -> None:
    """The journal does not change the second time."""
    records = found(write(tmp_path / "shard", make_record())).records
    store = make_store(tmp_path)
    night.add_to_journal(records, store)
    before = (store.journal / "stack.jsonl").read_bytes()
    assert (0, before) == (
        night.add_to_journal(records, store),
        (store.journal / "stack.jsonl").read_bytes(),
    )


def test_what_the_journal_has_stays_after_half_a_line(tmp_path: Path) -> None:
    """A killed run left the half line."""
    store = make_store(tmp_path)
    store.append(make_record(cell=make_cell(variant="other")))
    with (store.journal / "stack.jsonl").open("ab") as file:
        file.write(b'{"schema":1,"ce')
    night.add_to_journal([make_record()], store)
    assert ({"plain", "other"}, 1) == (
        {cell.variant for cell in store.recorded_here("stack")},
        len(store.problems),
    )


def test_a_newer_record_of_this_checkout_stays_the_cell(tmp_path: Path) -> None:
    """The shard ran the cell earlier."""
    store = make_store(tmp_path)
    store.append(factories.make_record("step:exception", key="now", recorded_at=LATER))
    assert 1 == night.add_to_journal([factories.make_record(key="then")], store)
    assert ["step:exception"] == [
        record.outcome for record in store.recorded_here("stack").values()
    ]


def test_of_two_shards_the_newest_record_counts(tmp_path: Path) -> None:
    """The order of the folders does not matter."""
    new = write(tmp_path / "new", make_failing(recorded_at=LATER))
    old = write(tmp_path / "old", make_record())
    assert [["step:exception"]] * 2 == [
        [r.outcome for r in found(*pair).records] for pair in ((new, old), (old, new))
    ]


def test_a_lost_process_hides_no_verdict(tmp_path: Path) -> None:
    """It is about a machine, and the other record is about the stack."""
    lost = make_record("process:lost", passed=None, recorded_at=LATER)
    assert ["trains"] == [
        r.outcome for r in found(write(tmp_path / "shard", make_record(), lost)).records
    ]


def test_a_judgement_on_relations_is_taken_back(tmp_path: Path) -> None:
    """Relations are judged again when all records are together."""
    judged = replace(
        make_record(), outcome="relation:disagrees", passed=False, message="loss 1 against 2"
    )
    (record,) = found(write(tmp_path / "shard", judged)).records
    assert ("trains", True, "") == (record.outcome, record.passed, record.message)


def test_a_truncated_line_is_reported_and_skipped(tmp_path: Path) -> None:
    """It is reported, and the other lines are added."""
    whole = found(
        write(tmp_path / "shard", encode(make_record())[:80] + b"\n", b"\n", make_record())
    )
    assert 1 == len(whole.records)
    (problem,) = whole.problems
    assert problem.startswith(".gradmatrix/records/stack.jsonl, line 1 was skipped: ")


@pytest.mark.parametrize(
    "line", [b'{"schema":1}\n', b"[]\n", b"\xff\xfe\n", encode(factories.make_record("step:magic"))]
)
def test_what_is_no_record_is_reported_and_skipped(tmp_path: Path, line: bytes) -> None:
    """The line may have any content."""
    seen = found(write(tmp_path / "shard", line, make_record()))
    assert (1, 1) == (len(seen.records), len(seen.problems))


def test_another_schema_is_refused(tmp_path: Path) -> None:
    """No folder is merged."""
    foreign = encode(make_record()).replace(b'"schema":1', b'"schema":2', 1)
    with pytest.raises(UserError, match="line 2: it has schema 2, this release reads 1"):
        found(
            write(tmp_path / "ours", make_record()),
            write(tmp_path / "theirs", make_record(), foreign),
        )


@pytest.mark.parametrize(
    ("cell", "noted"),
    [
        (make_cell("another"), "there is no stack 'another' here"),
        (make_cell(variant="gone"), "there is no variant scenario/gone here"),
        (make_cell(device='cpu"><script>'), """there is no device 'cpu"><script>' here"""),
    ],
)
def test_a_cell_that_is_unknown_here_is_reported_and_skipped(
    tmp_path: Path, cell: object, noted: str
) -> None:
    """It would not be in any matrix."""
    record = replace(make_record(), cell=cell)
    seen = found(write(tmp_path / "shard", record, make_record()))
    assert (1, [f".gradmatrix/records/stack.jsonl, line 1 was skipped: {noted}"]) == (
        len(seen.records),
        list(seen.problems),
    )


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    """So is a folder that does not exist."""
    write(tmp_path / "shard", make_record())
    (tmp_path / "empty").mkdir()
    for name in ("empty", "nowhere"):
        with pytest.raises(UserError, match=f"There are no records in .*{name}"):
            found(tmp_path / "shard", tmp_path / name)


def test_other_files_of_results_are_no_records(tmp_path: Path) -> None:
    """Neither a file of another folder, nor a format of one JSON document per line."""
    results = tmp_path / "results"
    for other in (results / "history" / "days.jsonl", results / "cells.jsonl"):
        files.write_atomically(other, b'{"day": 1}\n')
    files.write_atomically(results / "records" / "stack.jsonl", encode(make_record()))
    assert (1, ()) == (len((seen := found(results)).records), seen.problems)


def test_records_may_stand_in_the_named_folder_itself(tmp_path: Path) -> None:
    """A job may leave nothing but its files of records."""
    files.write_atomically(tmp_path / "stack.jsonl", encode(make_record()))
    assert (1, ()) == (len((seen := found(tmp_path)).records), seen.problems)


def test_a_stack_that_is_run_meanwhile_is_waited_for(tmp_path: Path) -> None:
    """Its journal is replaced only while no run appends to it."""
    noted = []
    store = make_store(tmp_path)

    class Released(Exception):
        """Ends the other run instead of waiting."""

    def waiting(stack: str) -> None:
        noted.append(stack)
        raise Released

    with store.in_use("stack"), pytest.raises(Released):
        night.add_to_journal([make_record()], store, waiting)
    assert (["stack"], {}) == (noted, store.everything())


def test_a_record_of_the_future_is_reported_and_skipped(tmp_path: Path) -> None:
    """It would be the newest one forever."""
    seen = found(
        write(tmp_path / "shard", make_record(recorded_at=dt.datetime(2999, 1, 1, tzinfo=dt.UTC)))
    )
    assert (0, 1) == (len(seen.records), len(seen.problems))
    assert "its time, 2999-01-01" in seen.problems[0]


@pytest.mark.parametrize("name", ["A", "records-A"])
def test_of_a_shard_its_own_cells_are_taken(tmp_path: Path, name: str) -> None:
    """They come from the folder with its name, which may be given or be inside a given one."""
    other = make_record(cell=make_cell(variant="other"))
    folder = write(tmp_path / "shards" / name, make_record(), other)
    noted = "skipped: shard A was not asked for stack/scenario/other/cpu with that key"
    for given in (folder, folder.parent):
        seen = found(given, plan=make_plan("A", "B"))
        assert ([make_record()], True) == (list(seen.records), seen.problems[0].endswith(noted))


def test_of_a_shard_only_the_planned_key_is_taken(tmp_path: Path) -> None:
    """A run under another lock does not answer the plan."""
    seen = found(write(tmp_path / "A", make_record(lock="another")), plan=make_plan("A"))
    assert (0, 1) == (len(seen.records), len(seen.problems))


@pytest.mark.parametrize("inner", ["B", "records-B"])
def test_no_shard_leaves_records_of_another(tmp_path: Path, inner: str) -> None:
    """A shard may have made any folders inside its own."""
    write(tmp_path / "records-A" / inner, make_record(cell=make_cell(variant="other")))
    for given in (tmp_path, tmp_path / "records-A"):
        assert () == found(given, plan=make_plan("A", "B")).records


def test_elsewhere_only_what_did_not_run_is_taken(tmp_path: Path) -> None:
    """Such outcomes follow from the plan. Results of a run belong to a shard."""
    settled = make_record("setup:unsupported", make_cell(variant="other"))
    seen = found(write(tmp_path / "taken", make_record(), settled), plan=make_plan("A", "B"))
    assert [settled] == list(seen.records)
    assert seen.problems[0].endswith(
        "line 1 was skipped: it ran, and its folder belongs to no shard of the plan"
    )


@pytest.mark.parametrize("words", ["", "..", "../..", ".gradmatrix", ".gradmatrix/records"])
def test_a_checkout_does_not_merge_itself(tmp_path: Path, words: str) -> None:
    """As with ``merge ../..``: all records of all checkouts in that folder would be taken over."""
    project = Project.at(tmp_path / "mine" / "checkout")
    project.store.append(make_record())
    write(project.root.parent / "other", make_record())
    with pytest.raises(UserError, match="holds this checkout or its records"):
        night.merge(project, [project.root / words], Watcher())
    night.refuse_own(project.root.parent / "other", project)


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    """To read a named pipe would wait for ever."""
    folder = tmp_path / "records"
    (folder / "folder.jsonl").mkdir(parents=True)
    os.mkfifo(folder / "pipe.jsonl")
    with pytest.raises(UserError, match="There are no records in"):
        found(tmp_path)
