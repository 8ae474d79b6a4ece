"""Records get today's keys only if the code provably does the same."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Role, Scenario
from gradmatrix.run import plan
from gradmatrix.run.scenarios import load_all
from gradmatrix.run.store import Store
from tests.conftest import ROOT
from tests.factories import make_cell, make_observation, make_record, make_scenario, make_variant
from tools.rekey import (
    KNOWN,
    NEW,
    OTHER_CODE,
    UNPROVED,
    Origin,
    read_base,
    rekey,
    rekey_published,
    rekeyed,
)

if TYPE_CHECKING:
    from pathlib import Path

    from gradmatrix.core.model import Record

SCENARIO = make_scenario("sums", make_variant("plain"))
BASE = Origin(
    observer="old-observer",
    judge="old-judge",
    scenarios={"sums": "old-scenario"},
    observer_means=plan.observer_digest(),
    scenarios_mean={"sums": SCENARIO.source_digest},
)
INPUTS = {"observer": "old-observer", "judge": "old-judge", "scenario": "old-scenario", "lock": "1"}


def record(outcome: str = "trains", **fields: object) -> Record:
    """A record that the code of the base made."""
    cell = make_cell(scenario="sums", variant="plain")
    return make_record(outcome, cell, **({"inputs": INPUTS} | fields))


def kind(made: Record, base: Origin = BASE, scenario: Scenario = SCENARIO) -> str:
    """What happened to the record."""
    return rekeyed(made, base, {"sums": scenario})[1]


def test_a_proved_record_has_the_key_of_today() -> None:
    """The lock and its other inputs stay. Nothing else changes."""
    before = record()
    after, what = rekeyed(before, BASE, {"sums": SCENARIO})
    expected = {**INPUTS, **plan.code_inputs(SCENARIO, SCENARIO.variants[0])}
    assert (NEW, expected, plan.key_of(expected)) == (what, after.inputs, after.key)
    assert before == replace(after, inputs=before.inputs, key=before.key)
    assert KNOWN == kind(after)


def test_what_was_settled_without_running_is_proved() -> None:
    """It follows from the lock and the machine."""
    assert NEW == kind(record("setup:no-device", isolation="none", passed=None))


@pytest.mark.parametrize(
    ("made", "base"),
    [
        (record(), BASE._replace(observer_means="another")),
        (record(), BASE._replace(scenarios_mean={"sums": "another"})),
        (record(role=Role.REMEDY), BASE),
        (record(observation=make_observation("n")), BASE),
        (record("process:timeout"), BASE),
    ],
    ids=["observer", "scenario", "role", "verdict", "no observation"],
)
def test_what_cannot_be_proved_stays_as_it_is(made: Record, base: Origin) -> None:
    """Its cell runs again."""
    assert (made, UNPROVED) == rekeyed(made, base, {"sums": SCENARIO})


def test_a_record_of_other_code_stays_as_it_is() -> None:
    """That commit did not make it."""
    assert OTHER_CODE == kind(record(inputs={**INPUTS, "observer": "a third"}))
    assert OTHER_CODE == kind(replace(record(), cell=make_cell(scenario="gone")))


def git(folder: Path, *words: str) -> None:
    """Run git in ``folder``."""
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True)


def test_a_comment_keeps_records_and_an_operator_does_not(tmp_path: Path) -> None:
    """The code of a commit is read from git, and its records are written again."""
    shutil.copytree(ROOT / "harness", tmp_path / "harness")
    (tmp_path / "scenarios").mkdir()
    path = tmp_path / "scenarios" / "sums.py"
    source = 'VARIANTS = {"plain": {"role": "control", "summary": "x"}}\nRATE = 1 + 2\n'
    path.write_text(source, encoding="utf-8")
    git(tmp_path, "init")
    git(tmp_path, "add", "harness", "scenarios")
    git(tmp_path, "commit", "-m", "base")
    base = read_base(tmp_path, "HEAD")
    scenarios = load_all(tmp_path / "scenarios")
    inputs = plan.code_inputs(scenarios["sums"], scenarios["sums"].variants[0])
    assert (inputs["observer"], inputs["scenario"]) == (base.observer, base.scenarios["sums"])
    store = Store(tmp_path / "journal", tmp_path / "records")
    store.append(record(inputs={**inputs, "judge": base.judge, "variant": "unknown then"}))
    path.write_text(source.replace("1 + 2", "1 - 2"), encoding="utf-8")
    assert {UNPROVED: 1} == rekey(tmp_path / "journal", base, load_all(tmp_path / "scenarios"))
    path.write_text("# why\n" + source, encoding="utf-8")
    assert {NEW: 1} == rekey(tmp_path / "journal", base, load_all(tmp_path / "scenarios"))


def test_published_lines_stay_and_their_new_keys_are_confirmed(tmp_path: Path) -> None:
    """A rekey writes one small file for each stack."""
    store = Store(tmp_path / "records", tmp_path / "records")
    store.append(record())
    path = tmp_path / "records" / "stack.jsonl"
    before = path.read_bytes()
    assert {NEW: 1} == rekey_published(path.parent, BASE, {"sums": SCENARIO})
    [after] = Store(path.parent, path.parent).recorded_here("stack").values()
    assert before == path.read_bytes()
    assert (after.inputs, after.known_at) == (
        rekeyed(record(), BASE, {"sums": SCENARIO})[0].inputs,
        record().recorded_at,
    )


def test_an_unknown_commit_is_bad_input(tmp_path: Path) -> None:
    """There is one error that says what to do."""
    git(tmp_path, "init")
    with pytest.raises(UserError, match="The code of nowhere cannot be read"):
        read_base(tmp_path, "nowhere")
