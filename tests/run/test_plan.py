"""Which cells a run consists of, and why each one is run or not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from gradmatrix.core.model import Failure, Record, Role, Steps
from gradmatrix.run import meaning
from gradmatrix.run.plan import PACKAGE, Action, Limits, Planned, Selection, plan
from tests.factories import make_cell, make_lock, make_record, make_scenario, make_variant

DEVICES = {"cpu": "Linux-x86_64"}
LIMITS = Limits(timeout_s=60, memory_bytes=2**30, threads=1)
CONFLICT = Failure(outcome="resolve:conflict", message="a needs b<1, c needs b>2")


def planned(
    recorded: Record | None = None, selection: Selection | None = None, **parts: object
) -> list[Planned]:
    """The plan of one stack, by default of one cell; ``parts`` replace arguments."""
    arguments: dict[str, Any] = {
        "lock": make_lock(),
        "scenarios": [make_scenario()],
        "devices": DEVICES,
        "steps": Steps(),
        "limits": LIMITS,
        "recorded": {} if recorded is None else {recorded.cell: recorded},
        "selection": selection or Selection(),
    }
    return plan(**(arguments | parts))


def replace_limits(**limits: Any) -> Limits:  # noqa: ANN401  (as many types as fields)
    """The limits with others among them."""
    return dataclasses.replace(LIMITS, **limits)


def only(cells: list[Planned]) -> Planned:
    """The only cell of a plan."""
    (cell,) = cells
    return cell


def record_of(cell: Planned, outcome: str = "trains", **fields: object) -> Record:
    """The record of a planned cell with this outcome."""
    return make_record(outcome, cell.cell, **({"key": cell.key, "inputs": cell.inputs} | fields))


def test_a_cell_that_was_never_run_is_run() -> None:
    """There is no record of it."""
    cell = only(planned())
    assert (Action.RUN, "never run in this checkout", None) == (cell.action, cell.why, cell.outcome)


def test_an_unchanged_cell_is_kept() -> None:
    """Its key is the same: nothing that its verdict depends on has changed."""
    again = only(planned(record_of(only(planned()))))
    assert (Action.KEEP, "recorded on 2026-01-15 12:00 with the same key") == (
        again.action,
        again.why,
    )


@pytest.mark.parametrize(
    "outcome", ["step:no-grad-fn", "import:missing-module", "process:timeout", "setup:unsupported"]
)
def test_a_failure_is_kept_as_well(outcome: str) -> None:
    """It would fail again, so the outcome is evidence.

    The same holds for a script that skips itself.
    """
    assert Action.KEEP is only(planned(record_of(only(planned()), outcome))).action


def test_fresh_runs_what_is_recorded() -> None:
    """The user asked for it."""
    cell = only(planned(record_of(only(planned())), Selection(fresh=True)))
    assert (Action.RUN, "--fresh was given") == (cell.action, cell.why)


@pytest.mark.parametrize(
    "outcome", ["process:lost", "install:network", "install:disk-full", "resolve:index-unreachable"]
)
def test_a_spurious_outcome_is_run_again(outcome: str) -> None:
    """It says something about the machine only."""
    cell = only(planned(record_of(only(planned()), outcome)))
    assert (Action.RUN, f"the last outcome, {outcome}, says something about the machine only") == (
        cell.action,
        cell.why,
    )


OTHER: dict[str, dict[str, Any]] = {
    "lock": {"lock": make_lock(digest="f" * 64)},
    "scenario": {"scenarios": [make_scenario(source_digest="0" * 64)]},
    "device": {"devices": {"cpu": "Linux-aarch64"}},
    "steps": {"steps": Steps(audit=5)},
    "threads": {"limits": replace_limits(threads=2)},
    "variant": {"scenarios": [make_scenario(variants=(make_variant(role=Role.REMEDY),))]},
}


@pytest.mark.parametrize("name", OTHER)
def test_the_key_changes_with_each_input(name: str) -> None:
    """The plan says which input changed."""
    recorded = record_of(only(planned()))
    cell = only(planned(recorded, **OTHER[name]))
    assert recorded.key != cell.key
    assert (Action.RUN, f"changed since it was recorded: {name}") == (cell.action, cell.why)


def test_the_key_changes_with_the_code_that_observes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another observer may see something else."""
    recorded = record_of(only(planned()))
    monkeypatch.setattr("gradmatrix.run.plan.observer_digest", lambda: "f" * 64)
    assert "changed since it was recorded: observer" == only(planned(recorded)).why


def test_the_key_changes_with_the_code_that_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same observation may mean something else."""
    recorded = record_of(only(planned()))
    monkeypatch.setattr("gradmatrix.run.plan.judge_digest", lambda: "f" * 64)
    assert "changed since it was recorded: judge" == only(planned(recorded)).why


def test_the_key_changes_with_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another format holds other facts."""
    recorded = record_of(only(planned()))
    monkeypatch.setattr("gradmatrix.run.plan.SCHEMA", 2)
    assert "changed since it was recorded: schema" == only(planned(recorded)).why


def test_several_changes_are_all_reported() -> None:
    """They come in the order of the inputs."""
    recorded = record_of(only(planned()))
    cell = only(planned(recorded, **(OTHER["steps"] | OTHER["lock"])))
    assert "changed since it was recorded: lock, steps" == cell.why


@pytest.mark.parametrize(
    "parts",
    [
        {"lock": replace(make_lock(), resolver="uv 2.0.0")},
        {"lock": replace(make_lock(), requirements=("torch>=2",))},
        {"limits": replace_limits(timeout_s=1, memory_bytes=None)},
        {"scenarios": [make_scenario(title="Another title")]},
        {"scenarios": [make_scenario(path="elsewhere/scenario.py")]},
        {
            "devices": {"cuda": None, "cpu": "Linux-x86_64"},
            "selection": Selection(devices=frozenset({"cpu"})),
        },
    ],
)
def test_the_key_changes_with_nothing_else(parts: dict[str, Any]) -> None:
    """A change that the verdict cannot depend on runs nothing again."""
    assert only(planned()).key == only(planned(**parts)).key


def test_cells_of_one_script_share_their_inputs() -> None:
    """The key says what a verdict depends on. It does not contain the cell."""
    first, second = planned(
        scenarios=[make_scenario("scenario", make_variant("a"), make_variant("b"))]
    )
    assert (first.key, "a", "b") == (second.key, first.cell.variant, second.cell.variant)


def test_a_stack_without_the_feature_settles_as_unsupported() -> None:
    """Nothing must run to know this."""
    scenario = make_scenario("scenario", make_variant(needs=("torch", "trl>=0.14")))
    cell = only(planned(scenarios=[scenario]))
    assert (Action.SETTLED, "setup:unsupported") == (cell.action, str(cell.outcome))
    assert "needs trl>=0.14, which this stack does not have" == cell.why


def test_a_feature_that_is_too_old_settles_as_unsupported() -> None:
    """The reason names the version."""
    scenario = make_scenario("scenario", make_variant(needs=("torch>=2.7",)))
    assert "needs torch>=2.7, this stack has 2.6.0" == only(planned(scenarios=[scenario])).why


def test_a_machine_without_the_device_settles_as_no_device() -> None:
    """The matrix lists cuda; this machine has none."""
    cell = only(planned(devices={"cuda": None}))
    assert (Action.SETTLED, "setup:no-device", "this machine has no cuda device") == (
        cell.action,
        str(cell.outcome),
        cell.why,
    )


def test_a_stack_that_could_not_be_locked_settles_with_its_failure() -> None:
    """The features that an empty lock lacks are not the reason."""
    cell = only(planned(lock=make_lock(versions={}, digest="", failure=CONFLICT)))
    assert (Action.SETTLED, "resolve:conflict", CONFLICT.message) == (
        cell.action,
        str(cell.outcome),
        cell.why,
    )


SETTLED: list[dict[str, Any]] = [
    {"devices": {"cuda": None}},
    {"scenarios": [make_scenario("scenario", make_variant(needs=("trl",)))]},
    {"lock": make_lock(versions={}, digest="", failure=CONFLICT)},
]


@pytest.mark.parametrize("parts", SETTLED)
def test_a_settled_cell_is_settled_once(parts: dict[str, Any]) -> None:
    """A record with the same outcome is kept, also with --fresh: nothing can be run."""
    first = only(planned(**parts))
    recorded = record_of(first, str(first.outcome))
    assert [Action.KEEP] * 2 == [
        only(planned(recorded, Selection(fresh=f), **parts)).action for f in (False, True)
    ]


def test_a_cell_that_ran_before_and_lacks_its_device_now_settles() -> None:
    """The record is about another machine's device."""
    recorded = record_of(only(planned(devices={"cuda": "H200"})))
    assert Action.SETTLED is only(planned(recorded, devices={"cuda": None})).action


def test_a_spurious_failure_to_lock_is_settled_anew() -> None:
    """It is never kept, because the index may answer now."""
    lock = make_lock(
        versions={},
        digest="",
        failure=Failure(outcome="resolve:index-unreachable", message="no answer"),
    )
    recorded = record_of(only(planned(lock=lock)), "resolve:index-unreachable")
    assert Action.SETTLED is only(planned(recorded, lock=lock)).action


MATRIX = [
    make_scenario("one", make_variant("a"), make_variant("b")),
    make_scenario("two", make_variant("a")),
]


def selected(selection: Selection) -> list[str]:
    """The planned cells of a small matrix, as text."""
    devices = {"cpu": "Linux-x86_64", "cuda": "H200"}
    return [
        str(cell.cell) for cell in planned(selection=selection, scenarios=MATRIX, devices=devices)
    ]


def test_the_plan_has_the_order_of_the_scenarios_variants() -> None:
    """The order is the same on each device."""
    of_device = ["stack/one/a/", "stack/one/b/", "stack/two/a/"]
    assert [cell + device for device in ("cpu", "cuda") for cell in of_device] == selected(
        Selection()
    )


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(scenarios=frozenset({"two"})), ["stack/two/a/cpu", "stack/two/a/cuda"]),
        (Selection(variants=frozenset({("one", "a")})), ["stack/one/a/cpu", "stack/one/a/cuda"]),
        (
            Selection(devices=frozenset({"cuda"})),
            ["stack/one/a/cuda", "stack/one/b/cuda", "stack/two/a/cuda"],
        ),
        (Selection(scenarios=frozenset({"two"}), variants=frozenset({("one", "a")})), []),
    ],
)
def test_a_selection_narrows_the_plan(selection: Selection, expected: list[str]) -> None:
    """A cell must match all given options: scenario, cell and device."""
    assert expected == selected(selection)


def test_a_selection_has_its_cells() -> None:
    """A selection answers the same question for a recorded cell."""
    selection = Selection(scenarios=frozenset({"one"}), devices=frozenset({"cpu"}))
    assert [True, False, False] == [
        selection.has(make_cell(scenario=scenario, device=device))
        for scenario, device in (("one", "cpu"), ("two", "cpu"), ("one", "cuda"))
    ]


def test_the_observers_digest_covers_what_a_cell_uses() -> None:
    """It reaches the observer from a cell, also through imports inside functions."""
    code = meaning.Code("observe", PACKAGE / "observe")
    modules = {module for module, _ in code.reached([("observe.server", "main")])}
    assert {
        "observe.cell",
        "observe.observer",
        "observe.severing",
        "observe.torches",
        "observe.protocol",
    } <= modules
    assert "observe.trace" not in modules


def test_the_judges_digest_covers_the_words_it_uses() -> None:
    """The verdict, its patterns and the outcomes."""
    code = meaning.Code("gradmatrix", PACKAGE)
    names = {
        name
        for _, name in code.reached(
            [("gradmatrix.judge.verdict", "judge"), ("gradmatrix.judge.verdict", "passes")]
        )
    }
    assert {"NAMES_THE_PROBLEM", "Outcome", "TABLE", "Gradient", "says_so"} <= names
