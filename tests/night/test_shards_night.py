"""A night on small projects with pretended servers gives the same results as a plain run."""

from __future__ import annotations

import datetime as dt
import json
import textwrap
from typing import TYPE_CHECKING

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from gradmatrix.cli.main import main
from gradmatrix.core import files
from gradmatrix.judge.verdict import Ended
from gradmatrix.night.night import read
from gradmatrix.publish.publication import publish
from gradmatrix.run.pool import ATTEMPTS
from gradmatrix.run.project import Project
from gradmatrix.run.server import Answer
from gradmatrix.run.store import Store, encode
from tests.cli.test_cli import CONFLICT, write_lock
from tests.factories import make_lock, make_observation, make_parameter
from tests.pretended import World, pretend

if TYPE_CHECKING:
    from pathlib import Path

    from gradmatrix.core.model import Cell, Record

MATRIX = """
[run]
devices = ["cpu", "cuda"]
scenarios = ["sums", "products"]
""" + "".join(
    f"""
[[stacks]]
name = "{name}"
python = "3.11"
as_of = 2026-01-15
core = {core}
requirements = ["torch"]
"""
    for name, core in (("first", "true"), ("second", "false"), ("broken", "false"))
)
SUMS = '''
"""Sums of two."""

NEEDS = ("torch",)
VARIANTS = {
    "plain": {"role": "control", "summary": "as it is"},
    "checkpointed": {"role": "remedy", "summary": "the same with less memory"},
    "frozen": {"role": "misuse", "summary": "as it should not be"},
    "elsewhere": {"role": "control", "summary": "by another library", "needs": ("trl",)},
}
AGREE = [("plain", "checkpointed")]
'''
PRODUCTS = '''"""Products of two."""

NEEDS = ("torch",)
VARIANTS = {"one": {"role": "reported", "summary": "one"}}
'''
SESSIONS = [{"session": f"matrix({name})"} for name in ("first", "second", "broken")]


def make_root(tmp_path: Path) -> Path:
    """A project of two stacks that run and one that did not resolve."""
    root = tmp_path / "checkout"
    (root / "scenarios").mkdir(parents=True)
    (root / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    (root / "scenarios" / "sums.py").write_text(textwrap.dedent(SUMS).lstrip(), encoding="utf-8")
    (root / "scenarios" / "products.py").write_text(PRODUCTS, encoding="utf-8")
    (root / "sessions.json").write_text(json.dumps(SESSIONS), encoding="utf-8")
    for stack in ("first", "second"):
        write_lock(root, make_lock(stack))
    write_lock(root, make_lock("broken", versions={}, failure=CONFLICT))
    return root


def make_world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Servers on which some cells always fail, and two cells disagree that must agree."""
    monkeypatch.setattr(
        "gradmatrix.run.project.device_class",
        lambda device: "Linux-x86_64" if device == "cpu" else None,
    )
    world = pretend(monkeypatch)
    stuck = make_observation(parameters=(make_parameter("zzzz", changed=False),))
    world.answers = {
        "checkpointed": [
            Answer(make_observation(losses=(1.0, 0.9, 0.8, 0.7)), Ended(exit=0), wall_s=0.5)
        ]
        * 9,
        "frozen": [Answer(stuck, Ended(exit=0), wall_s=0.5)] * 9,
        "one": [Answer(None, Ended(exit=1), wall_s=0.5)] * 9,
    }
    return world


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small project."""
    return make_root(tmp_path)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Pretended servers."""
    return make_world(monkeypatch)


def run(root: Path, *arguments: str) -> int:
    """One command in this checkout."""
    return main([*arguments, "--root", str(root)])


def plan(
    root: Path, capsys: pytest.CaptureFixture[str], *arguments: str
) -> list[dict[str, object]]:
    """The jobs in a plan."""
    capsys.readouterr()
    assert 0 == run(root, "shards", str(root / "sessions.json"), *arguments)
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)["include"]
    return found


def timeless(root: Path, results: Path | None = None) -> dict[Cell, Record]:
    """The matrix without the names and times of its runs."""
    project = Project.at(root, results=results)
    moment = make_lock().as_of
    records = project.records_of(["first", "second", "broken"])
    same = {"recorded_at": moment, "run": "", "reference": UNSET}
    return {cell: replace(record, **same) for cell, record in records.items()}


def a_night(root: Path, folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> int:
    """Plan, run each shard and merge, each in a process. Return the number of jobs."""
    jobs = plan(
        root,
        capsys,
        "--output",
        str(folder / "p.json"),
        "--settled",
        str(folder / "settled"),
        *arguments,
    )
    for job in jobs:
        results = folder / str(job["name"])
        assert 0 == run(
            root, "shard", str(folder / "p.json"), str(job["name"]), "--results", str(results)
        )
    assert 0 == run(root, "merge", str(folder), "--plan", str(folder / "p.json"))
    assert "warning" not in capsys.readouterr().out
    return len(jobs)


def test_a_night_gives_the_matrix_of_a_plain_run(
    root: Path, tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """All fields except times are equal, for cells that run, relations and settled cells."""
    plain = tmp_path / "plain"
    assert 0 == run(root, "run", "--all", "--no-table", "--results", str(plain))
    assert 2 == a_night(root, tmp_path / "night", capsys)
    expected = timeless(root, plain)
    assert (30, expected) == (len(expected), timeless(root))
    assert {
        "trains",
        "setup:no-device",
        "setup:unsupported",
        "resolve:conflict",
        "relation:disagrees",
    } < {record.outcome for record in expected.values()}


def test_nothing_changed_is_no_job(
    root: Path, tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fresh clone knows published records only. Without them all cells run."""
    a_night(root, tmp_path / "night", capsys)
    publish(Project.at(root))
    assert [] == plan(root, capsys)
    (root / ".gradmatrix").rename(tmp_path / "journal")
    assert [] == plan(root, capsys, "--since-published", "--settled", str(tmp_path / "settled"))
    assert not (tmp_path / "settled").exists()
    assert 2 == len(plan(root, capsys))


def test_only_what_changed_is_planned(
    root: Path, tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """All cells of a stack with a new lock run. Records of other machines are kept."""
    a_night(root, tmp_path / "night", capsys)
    publish(Project.at(root))
    write_lock(root, make_lock("second", versions={"torch": "2.7.0"}))
    (root / "scenarios" / "products.py").write_text(PRODUCTS + "FACTOR = 3\n", encoding="utf-8")
    jobs = plan(root, capsys, "--since-published", "--output", str(tmp_path / "p.json"))
    cells = [str(due.cell) for shard in read(tmp_path / "p.json").shards for due in shard.cells]
    assert ({"first", "second"}, ["first/products/one/cpu", "second/products/one/cpu"]) == (
        {job["stack"] for job in jobs},
        sorted(cells),
    )


def test_a_lost_cell_is_planned_again(
    root: Path, tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """A published record that is only about a machine does not count."""
    world.answers["one"] = [Answer(None, Ended(lost=True), wall_s=0.5)] * (2 * ATTEMPTS)
    a_night(root, tmp_path / "night", capsys)
    publish(Project.at(root))
    lost = {
        cell.stack for cell, record in timeless(root).items() if record.outcome == "process:lost"
    }
    assert {"first", "second"} == lost
    assert [1, 1] == [job["cells"] for job in plan(root, capsys, "--since-published")]


def test_variants_of_two_nights_are_compared(
    root: Path, tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of a pair ran again. Under one key they must agree, on whatever machine they ran."""
    lost = Answer(None, Ended(lost=True), wall_s=0.5)
    world.answers["checkpointed"] = [lost] * (2 * ATTEMPTS) + world.answers["checkpointed"]
    a_night(root, tmp_path / "once", capsys)
    publish(Project.at(root))
    assert 2 == a_night(root, tmp_path / "later", capsys, "--since-published")
    disagreeing = {
        cell.stack for cell, r in timeless(root).items() if r.outcome == "relation:disagrees"
    }
    assert {"first", "second"} == disagreeing


def test_a_job_may_run_several_stacks(
    root: Path, tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stack that does not resolve needs no job."""
    assert 1 == a_night(root, tmp_path / "night", capsys, "--jobs", "1")
    assert {"first", "second"} == {
        cell.stack for cell, record in timeless(root).items() if record.observation is not None
    }


def test_a_plan_records_nothing(
    root: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """No server is used."""
    before = {path for path in root.rglob("*") if path.is_file()}
    plan(root, capsys)
    assert (before, []) == ({path for path in root.rglob("*") if path.is_file()}, world.started)


def test_a_shard_that_was_planned_for_something_else_is_refused(
    root: Path, tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its records would not count anywhere, so nothing runs."""
    (job, *_) = plan(root, capsys, "--output", str(tmp_path / "p.json"))
    for path in (root / "scenarios").glob("*.py"):
        path.write_text(path.read_text(encoding="utf-8") + "FACTOR = 3\n", encoding="utf-8")
    assert 2 == run(
        root,
        "shard",
        str(tmp_path / "p.json"),
        str(job["name"]),
        "--results",
        str(tmp_path / "out"),
    )
    assert ("was planned for something else" in capsys.readouterr().err, []) == (
        True,
        world.started,
    )


@pytest.mark.parametrize("content", [None, b"{", b'{"schema": 1, "shards": [], "settled": 0}'])
def test_a_plan_that_cannot_be_read_is_bad_input(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    """The exit code is 2, and the error says how to plan again."""
    if content is not None:
        (tmp_path / "p.json").write_bytes(content)
    assert 2 == run(root, "shard", str(tmp_path / "p.json"), "first")
    assert "nox -s shards" in capsys.readouterr().err


def test_sessions_of_another_matrix_are_bad_input(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stack is unknown here, or the file does not exist."""
    (root / "other.json").write_text('[{"session": "matrix(frist)"}]', encoding="utf-8")
    assert 2 == run(root, "shards", str(root / "other.json"))
    assert "perhaps you meant 'first'" in capsys.readouterr().err
    assert 2 == run(root, "shards", str(root / "nowhere.json"))


def test_merging_tells_what_it_skipped(
    root: Path, tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each skipped line gives a warning."""
    path = tmp_path / "shard" / "first.jsonl"
    files.write_atomically(path, b'{"schema":1,"ce\n')
    assert 0 == run(root, "merge", str(path.parent))
    printed = capsys.readouterr().out
    assert "warning: first.jsonl, line 1 was skipped" in printed
    assert "0 cells found, 0 records were new" in printed


def test_a_folder_without_records_is_bad_input(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing ran, or another folder is meant."""
    assert 2 == run(root, "merge", str(tmp_path / "nowhere"))
    assert "There are no records in" in capsys.readouterr().err


def test_what_a_shard_forged_is_reported_and_not_taken(
    root: Path, tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bad package in one stack cannot change another stack's results."""
    night = tmp_path / "night"
    a_night(root, night, capsys)
    publish(Project.at(root))
    expected = timeless(root)
    lines = Store(tmp_path, root / "results" / "records").of_stack("first").values()
    later = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=5)
    forged = [
        replace(r, cell=replace(r.cell, stack="second"), recorded_at=later)
        for r in lines
        if r.observation
    ]
    files.write_atomically(
        night / "first" / "records" / "second.jsonl", b"".join(map(encode, forged))
    )
    capsys.readouterr()
    assert 0 == run(root, "merge", str(night), "--plan", str(night / "p.json"))
    skipped = capsys.readouterr().out.count("was skipped: shard first was not asked for second/")
    assert (expected, len(forged)) == (timeless(root), skipped)


@pytest.mark.parametrize("word", ["0", "257", "many"])
def test_jobs_are_a_number_that_github_allows(
    root: Path, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another number is an error of the command line."""
    with pytest.raises(SystemExit, match="2"):
        run(root, "shards", "-", "--jobs", word)
    assert "--jobs" in capsys.readouterr().err
