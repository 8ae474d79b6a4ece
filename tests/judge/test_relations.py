"""Compared losses: variants that must agree, judged at every reading, and drift between stacks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gradmatrix.cli.main import main
from gradmatrix.core.model import Record, Relation, Role, Scenario
from gradmatrix.core.outcomes import DISAGREES
from gradmatrix.judge.relations import as_it_ran, close, difference, drift, judged
from gradmatrix.publish.publication import publish
from gradmatrix.run.project import Project
from tests.cli.test_cli import MATRIX, outcomes, write_lock
from tests.compared import NEW, OLD
from tests.compared import record as compared
from tests.factories import (
    make_cell,
    make_lock,
    make_observation,
    make_record,
    make_scenario,
    make_variant,
)

if TYPE_CHECKING:
    from pathlib import Path

LOSSES = (1.0, 0.75, 0.5, 0.25)
OTHERS = (1.0, 0.75, 0.625, 0.25)
SIMPLE = Relation(first="a", second="b")
FIRST_LOSS = Relation(first="a", second="b", only="first loss")
LOSSES_ONLY = Relation(first="a", second="b", only="losses")
VALUES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["nan", "inf", "-inf", None])
)
SCRIPT = """
VARIANTS = {
    "a": {"role": "control", "summary": "one way"},
    "b": {"role": "remedy", "summary": "another way"},
}
AGREE = [("a", "b")]
"""


def ran(variant: str, losses: tuple[float | str | None, ...] = LOSSES, **fields: object) -> Record:
    """A record of a variant that trains with these losses."""
    cell = make_cell("first", "sums", variant)
    return replace(make_record(cell=cell, observation=make_observation(losses=losses)), **fields)


def sums(*agree: Relation) -> dict[str, Scenario]:
    """A scenario whose variants must agree."""
    variants = [make_variant(name) for name in "abc"]
    return {"sums": make_scenario("sums", *variants, agree=agree or (SIMPLE,))}


def judgement(*records: Record, agree: tuple[Relation, ...] = ()) -> dict[str, str]:
    """The outcome of each variant."""
    return {record.cell.variant: record.outcome for record in judged(records, sums(*agree))}


def test_variants_that_agree_train() -> None:
    """The sequences may differ by the tolerance."""
    assert {"a": "trains", "b": "trains"} == judgement(
        ran("a"), ran("b", (1.0005, 0.75, 0.5, 0.25))
    )


def test_the_second_one_disagrees_with_the_first() -> None:
    """The second variant fails, and its message has both sequences."""
    first, second = judged([ran("a"), ran("b", OTHERS)], sums())
    assert ran("a") == first
    told = "loss 1 0.75 0.625 0.25 against 1 0.75 0.5 0.25 of a"
    assert replace(ran("b", OTHERS), outcome=DISAGREES, passed=False, message=told) == second


def test_gradient_norms_must_agree_too() -> None:
    """An optimizer such as Adam makes the same losses of gradients of another size."""
    halved = make_observation(losses=LOSSES, gradient_norms=(0.5, 0.5, 0.5, 0.5))
    record = judged([ran("a"), ran("b", observation=halved)], sums())[1]
    told = "gradient norm 0.5 0.5 0.5 0.5 against 1 1 1 1 of a"
    assert (DISAGREES, told) == (record.outcome, record.message)


def test_only_the_first_loss_may_be_meant() -> None:
    """A fresh adapter changes nothing, until it has learned."""
    assert "trains" == judgement(ran("a"), ran("b", OTHERS), agree=(FIRST_LOSS,))["b"]
    told = difference(
        FIRST_LOSS, make_observation(losses=LOSSES), make_observation(losses=(2.0, *LOSSES[1:]))
    )
    assert "first loss 2 against 1 of a" == told


def test_only_the_losses_may_be_meant() -> None:
    """Each of two ranks may hold a part of the gradients."""
    norms = make_observation(losses=LOSSES, gradient_norms=(7.0,) * len(LOSSES))
    assert difference(LOSSES_ONLY, make_observation(losses=LOSSES), norms) is None
    later = make_observation(losses=(*LOSSES[:-1], 9.0))
    told = difference(LOSSES_ONLY, make_observation(losses=LOSSES), later)
    assert told is not None
    assert told.startswith("loss ")


def test_the_first_of_several_disagreements_is_reported() -> None:
    """The first relation in the order of the script counts."""
    agree = (SIMPLE, Relation(first="c", second="b"), Relation(first="a", second="c"))
    records = [ran("a"), ran("b", OTHERS), ran("c")]
    found = {record.cell.variant: record.message for record in judged(records, sums(*agree))}
    assert {"a": "", "b": "loss 1 0.75 0.625 0.25 against 1 0.75 0.5 0.25 of a", "c": ""} == found


def test_a_disagreement_does_not_spread() -> None:
    """What disagrees with one variant is still compared with the others as it ran."""
    agree = (SIMPLE, Relation(first="b", second="c"))
    assert {"a": "trains", "b": DISAGREES, "c": "trains"} == judgement(
        ran("a"), ran("b", OTHERS), ran("c", OTHERS), agree=agree
    )


@pytest.mark.parametrize("failing", ["a", "b"])
def test_only_variants_that_train_are_compared(failing: str) -> None:
    """A failure has an outcome of its own."""
    records = [ran("a"), ran("b", OTHERS)]
    broken = [
        replace(r, outcome="gradient:partial") if r.cell.variant == failing else r for r in records
    ]
    assert broken == judged(broken, sums())


@pytest.mark.parametrize(
    "fields",
    [{"inputs": {"lock": "another"}}, {"role": Role.MISUSE}, {"observation": None}],
    ids=str,
)
def test_what_cannot_be_compared_is_not(fields: dict[str, object]) -> None:
    """Records of other inputs, of misuse, or without an observation do not count."""
    second = replace(ran("b", OTHERS), **fields)
    assert [ran("a"), second] == judged([ran("a"), second], sums())


ELSEWHERE = make_observation(losses=OTHERS, environment={"cpu": "another one"})


def test_a_difference_between_processors_is_told_and_not_judged() -> None:
    """Kernels add in another order there. Where nothing differs, nothing is said."""
    first, second = judged([ran("a"), replace(ran("b"), observation=ELSEWHERE)], sums())
    assert ("trains", True) == (second.outcome, second.passed)
    assert second.message.startswith("not judged: loss 1 0.75 0.625 0.25 against 1 0.75 0.5")
    assert second.message.endswith("this on another one")
    assert first == judged([first, second], sums())[0]
    again = replace(second, observation=replace(ELSEWHERE, losses=LOSSES))
    assert "" == judged([first, again], sums())[1].message


def test_variants_are_compared_whatever_their_own_inputs_are() -> None:
    """A pair differs in role and needs, and may have been run with other limits."""
    inputs = {"lock": "one", "variant": "control", "timeout_s": "60"}
    first = replace(ran("a"), key="x", inputs=inputs)
    second = replace(ran("b", OTHERS), key="y", inputs={"lock": "one", "variant": "remedy trl"})
    assert ["trains", DISAGREES] == [each.outcome for each in judged([first, second], sums())]


@pytest.mark.parametrize(
    "cell", [make_cell("second", "sums", "a"), make_cell("first", "sums", "a", "cuda")], ids=str
)
def test_stacks_and_devices_are_never_compared(cell: object) -> None:
    """A relation holds inside one stack, on one device."""
    records = [replace(ran("a"), cell=cell), ran("b", OTHERS)]
    assert records == judged(records, sums())


def test_a_partner_that_never_ran_is_no_disagreement() -> None:
    """The pair is judged when both have run."""
    assert [ran("b", OTHERS)] == judged([ran("b", OTHERS)], sums())


def test_a_judgement_that_no_longer_holds_is_taken_back() -> None:
    """The other variant changed, was removed, or was not published."""
    stale = judged([ran("a"), ran("b", OTHERS)], sums())[1]
    assert DISAGREES == stale.outcome
    assert [ran("b", OTHERS)] == judged([stale], sums())
    assert [ran("b", OTHERS)] == judged([stale], {})


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ((1.0, "nan"), (1.0, "nan"), None),
        ((1.0, "nan"), (1.0, "inf"), "loss 1 nan against 1 inf of a"),
        ((1.0, 2.0), (1.0, "nan"), "loss 1 2 against 1 nan of a"),
        ((1.0, None), (1.0, None), None),
        ((1.0, None), (1.0, 2.0), "loss 1 none against 1 2 of a"),
        ((1.0,), (1.0, 2.0), "loss 1 against 1 2 of a"),
        ((), (1.0,), "loss of no step against 1 of a"),
        ((), (), None),
        ((1e-9, 0.0), (0.0, -1e-9), None),
        ((0.00001, 0.0), (0.0, 0.0), "loss 1e-05 0 against 0 0 of a"),
        ((4.1616123,), (4.1700456,), "loss 4.1616 against 4.17 of a"),
    ],
)
def test_sequences_are_shortened(
    ours: tuple[float | str | None, ...],
    theirs: tuple[float | str | None, ...],
    expected: str | None,
) -> None:
    """A non-finite value equals only itself, a missing step differs, and almost zero is zero."""
    assert expected == difference(
        SIMPLE, make_observation(losses=theirs), make_observation(losses=ours)
    )


def test_of_many_steps_those_around_the_first_difference_are_shown() -> None:
    """A message is one line."""
    steps = tuple(float(n) for n in range(1, 21))
    other = (*steps[:9], 99.0, *steps[10:])
    told = difference(SIMPLE, make_observation(losses=steps), make_observation(losses=other))
    assert "loss … 8 9 99 11 12 13 … against … 8 9 10 11 12 13 … of a" == told


@given(VALUES, VALUES, st.floats(0, 0.5), st.floats(0, 0.5))
def test_closeness_is_symmetric_and_grows_with_the_tolerance(
    one: float | str | None, other: float | str | None, small: float, more: float
) -> None:
    """The order of the two does not matter."""
    assert close(one, other, small) == close(other, one, small)
    assert close(one, one, 0.0)
    assert close(one, other, small + more) or not close(one, other, small)


@given(
    st.permutations("abc"),
    st.lists(st.sampled_from([LOSSES, OTHERS]), min_size=3, max_size=3),
    st.booleans(),
)
def test_judging_again_changes_nothing(
    order: list[str], losses: list[tuple[float, ...]], chained: bool
) -> None:
    """The order of the records does not matter either. Judged records give back the raw ones."""
    scenarios = sums(SIMPLE, Relation(first="b" if chained else "a", second="c"))
    raw = {name: ran(name, each) for name, each in zip("abc", losses, strict=True)}
    once = judged([raw[name] for name in order], scenarios)
    assert once == judged(once, scenarios)
    assert [raw[name] for name in order] == [as_it_ran(record) for record in once]
    assert {r.cell: r for r in once} == {r.cell: r for r in judged(raw.values(), scenarios)}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A locked stack, and a pair of which the first variant is recorded."""
    (tmp_path / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "sums.py").write_text(SCRIPT, encoding="utf-8")
    write_lock(tmp_path, make_lock("first"))
    project = Project.at(tmp_path)
    project.store.append(ran("a"))
    return project


def test_a_pair_of_two_runs_is_judged_when_it_is_published(project: Project) -> None:
    """Every published file has the verdict. The journal keeps the raw records."""
    publish(project)
    project.store.append(ran("b", OTHERS, role=Role.REMEDY))
    publish(project)
    assert {"first/sums/a": "trains", "first/sums/b": DISAGREES} == outcomes(
        project.root, "results"
    )
    assert "✗ relation:disagrees" in (project.results / "matrix.md").read_text("utf-8")
    assert ["trains", "trains"] == [
        r.outcome for r in project.store.recorded_here("first").values()
    ]
    published = (project.results / "records" / "first.jsonl").read_text("utf-8").splitlines()
    assert ["trains", DISAGREES] == [json.loads(line)["outcome"] for line in published]


def test_a_published_disagreement_is_not_for_ever(project: Project) -> None:
    """The published record is as new as the one in the journal; both are judged from scratch."""
    project.store.append(ran("b", OTHERS))
    publish(project)
    (project.root / "scenarios" / "sums.py").write_text(
        SCRIPT.partition("AGREE")[0], encoding="utf-8"
    )
    again = Project.at(project.root)
    publish(again)
    assert {"first/sums/a": "trains", "first/sums/b": "trains"} == outcomes(project.root, "results")


def test_a_clone_publishes_what_was_published(project: Project) -> None:
    """A clone has no journal, only the judged records."""
    project.store.append(ran("b", OTHERS))
    publish(project)
    path = project.results / "records" / "first.jsonl"
    content = path.read_bytes()
    (project.store.journal / "first.jsonl").unlink()
    publish(Project.at(project.root))
    assert content == path.read_bytes()


def test_a_disagreement_is_a_failure_that_is_printed(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list of failures shows both sequences."""
    project.store.append(ran("b", OTHERS, role=Role.REMEDY))
    assert 0 == main(["table", "-v", "--root", str(project.root)])
    printed = capsys.readouterr().out
    assert "Did not pass: 1 remedy" in printed
    assert "first  sums/b (remedy)  relation:disagrees  loss 1 0.75 0.625 0.25 against" in printed


def words(*losses: float) -> str:
    """The drift of these losses against 1, 0.75, 0.5 and 0.25, as text."""
    return str(drift(compared(OLD), compared(NEW, observation=make_observation(losses=losses))))


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ((1.0, 0.75, 0.5, 0.25), "identical"),
        ((1.0, 0.75, 0.5, 0.26), "0.01 from step 4"),
        ((1.0, 0.750001, 0.5, 0.27), "1e-06 from step 2, 0.02 at step 4"),
        ((1.0, 0.80, 0.51, 0.25), "0.05 from step 2"),
    ],
)
def test_the_text_of_a_drift_says_where_it_starts(losses: tuple[float, ...], expected: str) -> None:
    """It also says where the drift is largest, if that is another step."""
    assert expected == words(*losses)


def test_a_loss_near_zero_makes_no_drift_of_its_own() -> None:
    """The difference is relative to the largest loss, not to one that happens to be tiny."""
    before = compared(OLD, observation=make_observation(losses=(0.1, 0.0)))
    after = compared(NEW, observation=make_observation(losses=(0.1, 1e-8)))
    assert "1e-07 from step 2" == str(drift(before, after))


@pytest.mark.parametrize(
    "losses", [(1.0, 0.75), (1.0, 0.75, "nan", 0.25), (1.0, None, 0.5, 0.25), ()]
)
def test_losses_that_do_not_compare_have_no_drift(losses: tuple[float | str | None, ...]) -> None:
    """One side has fewer steps, a non-finite loss, or a loss that is no scalar."""
    assert None is drift(compared(OLD), compared(NEW, observation=make_observation(losses=losses)))


def test_a_cell_that_fails_on_a_side_has_no_drift() -> None:
    """Its losses cannot be compared."""
    assert None is drift(
        compared(OLD), compared(NEW, outcome="gradient:none", observation=make_observation())
    )


def test_variants_that_disagree_drift_as_others_do() -> None:
    """Both variants train."""
    assert "identical" == str(
        drift(
            compared(OLD, outcome="relation:disagrees", observation=make_observation()),
            compared(NEW),
        )
    )


@pytest.mark.parametrize("name", ["scenario", "steps", "threads", "device"])
def test_another_script_or_machine_has_no_drift(name: str) -> None:
    """More than the packages differs."""
    after = compared(NEW)
    assert None is drift(compared(OLD), replace(after, inputs={**after.inputs, name: "another"}))


def test_another_processor_has_no_drift() -> None:
    """Its kernels add in another order, with the same packages."""
    assert None is drift(compared(OLD), compared(NEW, observation=ELSEWHERE))


def test_zero_losses_are_identical() -> None:
    """There is no division by zero."""
    before, after = (
        compared(lock, observation=make_observation(losses=(0.0, 0.0))) for lock in (OLD, NEW)
    )
    assert "identical" == str(drift(before, after))
