"""Claims and rows → verdicts, with the relevant cells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

from gradmatrix.core.model import Gradient, Role
from gradmatrix.publish.claims.claims import Expectation, Given, Sign, Verdict, load
from gradmatrix.publish.claims.judge import Cells, judge, judge_all, shows
from gradmatrix.run import scenarios
from tests.claimed import (
    WARNING,
    make_claim,
    make_expectation,
    make_explained,
    make_rate,
    make_row,
    make_table,
    make_turning,
)

if TYPE_CHECKING:
    from gradmatrix.judge.edge import Turning
    from gradmatrix.publish.rows import Row

ROOT = Path(__file__).parent.parent.parent
FAILS = "step:no-grad-fn"


def bearing(expectation: Expectation, *rows: Row) -> list[tuple[str, str]]:
    """Stack and side of every cell that is relevant to ``expectation``."""
    judged = judge(make_claim(expectation), make_table(*rows))
    return [(each.cell.stack, each.bears) for each in judged.evidence]


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (("trains", "trains"), Verdict.CONFIRMED),
        ((FAILS, FAILS), Verdict.REFUTED),
        ((FAILS, "trains"), Verdict.PARTLY),
        (("setup:unsupported", "trains"), Verdict.CONFIRMED),
        (("setup:unsupported", "setup:no-device"), Verdict.UNTESTED),
    ],
)
def test_a_verdict_follows_from_all_relevant_cells(
    outcomes: tuple[str, str], expected: Verdict
) -> None:
    """Cells that were not judged say nothing."""
    rows = [
        make_row(stack, outcome=outcome)
        for stack, outcome in zip(("old", "new"), outcomes, strict=True)
    ]
    assert expected is judge(make_claim(make_expectation()), make_table(*rows)).verdict


@pytest.mark.parametrize(
    ("turning", "expected"),
    [
        (make_turning(), Verdict.CONFIRMED),
        (make_turning(before="2.0.7", after="2.0.6"), Verdict.CONFIRMED),
        (make_turning(before="2.0.7", after="2.0.8"), Verdict.REFUTED),
        (make_turning("torch"), Verdict.UNTESTED),
        (make_turning(cell="amp/remedy/cpu"), Verdict.UNTESTED),
        (make_turning(locks=("another", "lock")), Verdict.UNTESTED),
    ],
)
def test_a_release_is_judged_by_the_changes_that_are_exact(
    turning: Turning, expected: Verdict
) -> None:
    """In either direction; with the locks of today; a change of another package says nothing."""
    expectation = Expectation(cells=(("amp", "reported"),), release="lightning==2.0.7")
    table = make_table(make_row("old"), make_row("middle"), turns=(turning,))
    judged = judge(make_claim(expectation), table)
    assert expected is judged.verdict
    assert ("changes with lightning==2.0.7",) == expectation.labels


def test_a_claim_without_expectations_is_untested() -> None:
    """No cell can support or contradict it."""
    judged = judge(make_claim(), make_table(make_row()))
    assert (Verdict.UNTESTED, ()) == (judged.verdict, judged.tested)


def test_a_claim_with_an_untested_expectation_is_not_confirmed() -> None:
    """Training after an upgrade shows little if nobody saw it fail before."""
    before = make_expectation(where=("lightning<2.2",), outcome="fails")
    after = make_expectation(where=("lightning>=2.2",), outcome="trains")
    assert Verdict.PARTLY is judge(make_claim(before, after), make_table(make_row("new"))).verdict


def test_a_claim_with_an_untested_expectation_can_be_refuted() -> None:
    """No cell supports the claim."""
    before = make_expectation(where=("lightning<2.2",), outcome="fails")
    after = make_expectation(where=("lightning>=2.2",), outcome="trains")
    assert (
        Verdict.REFUTED
        is judge(make_claim(before, after), make_table(make_row("new", outcome=FAILS))).verdict
    )


def test_a_version_range_is_tested_at_every_stack_in_it() -> None:
    """More stacks count than the two releases in the sentence."""
    rows = [make_row("old", outcome=FAILS), make_row("middle"), make_row("new")]
    assert [("middle", "for"), ("new", "for")] == bearing(
        make_expectation(where=("lightning>=2.2.2",)), *rows
    )


def test_several_version_ranges_must_all_be_met() -> None:
    """A range of another package leaves out stacks."""
    rows = [make_row("old"), make_row("middle"), make_row("new")]
    where = ("lightning>=2.2.2", "torch<2.2")
    assert [("middle", "for")] == bearing(make_expectation(where=where), *rows)


def test_a_stack_without_the_package_is_in_no_range_of_it() -> None:
    """This holds for lower and for upper bounds."""
    assert [] == bearing(make_expectation(where=("trl<100",)), make_row("new"))


def test_a_range_may_be_of_python_versions() -> None:
    """The name python stands in place of a package."""
    assert [("new", "for")] == bearing(make_expectation(where=("python>=3.11",)), make_row("new"))


def test_a_remedy_is_tested_only_where_the_report_fails() -> None:
    """If the reported variant trains too, the remedy has shown nothing."""
    expectation = make_expectation(
        "remedy", given=(Given(cell=("amp", "reported"), outcome="fails"),)
    )
    rows = [
        make_row(stack, outcome=outcome) for stack, outcome in (("old", FAILS), ("new", "trains"))
    ]
    rows += [make_row(stack, "remedy") for stack in ("old", "middle", "new")]
    assert [("old", "for")] == bearing(expectation, *rows)


def test_a_condition_without_a_cell_is_about_the_cell_itself() -> None:
    """Only cells that warn count; they should train."""
    expectation = make_expectation(given=(Given(warns="None of the inputs"),))
    rows = [
        make_row("old", outcome=FAILS, warnings=(WARNING,)),
        make_row("middle", warnings=(WARNING,)),
        make_row(),
    ]
    assert [("old", "against"), ("middle", "for")] == bearing(expectation, *rows)


def test_a_condition_looks_at_the_same_device() -> None:
    """A failure on a GPU says nothing about a remedy on the CPU."""
    expectation = make_expectation(
        "remedy", given=(Given(cell=("amp", "reported"), outcome="fails"),)
    )
    assert [] == bearing(
        expectation, make_row(outcome=FAILS, device="cuda"), make_row(variant="remedy")
    )


def test_every_judged_device_counts_if_a_claim_names_none() -> None:
    """A claim that names a device is tested only on it."""
    rows = [make_row(), make_row(device="cuda", outcome=FAILS)]
    everywhere, there = (
        bearing(make_expectation(device=device), *rows) for device in (None, "cuda")
    )
    assert (["for", "against"], ["against"]) == (
        [side for _, side in everywhere],
        [side for _, side in there],
    )


@pytest.mark.parametrize(
    "outcome",
    ["resolve:conflict", "install:build", "import:exception", "setup:exception", "process:timeout"],
)
def test_a_stack_that_was_never_tried_says_nothing(outcome: str) -> None:
    """Nothing trained if the installation, an import, the setup or the process failed."""
    assert [] == bearing(make_expectation(outcome="fails"), make_row(outcome=outcome))


def test_a_claim_may_be_about_a_cell_that_never_trained() -> None:
    """A claim about missing memory is confirmed by process:out-of-memory."""
    assert [("new", "for")] == bearing(
        make_expectation(outcome="process:out-of-memory"), make_row(outcome="process:out-of-memory")
    )


@pytest.mark.parametrize(
    ("sign", "row", "expected"),
    [
        (Sign(outcome="trains"), make_row(), True),
        (Sign(outcome="fails"), make_row(), False),
        (Sign(outcome="fails"), make_row(outcome="relation:disagrees"), True),
        (Sign(outcome="step:*"), make_row(outcome=FAILS), True),
        (Sign(outcome=("gradient:none", "update:*")), make_row(outcome="update:none"), True),
        (Sign(outcome=("gradient:none", "update:*")), make_row(outcome=FAILS), False),
        (Sign(outcome="says-so"), make_row(outcome=FAILS, role=Role.MISUSE, passed=True), True),
        (Sign(outcome="says-so"), make_row(outcome="update:none", role=Role.MISUSE), False),
        (Sign(outcome="silent"), make_row(outcome="update:none", role=Role.MISUSE), True),
        (
            Sign(outcome="silent"),
            make_row(outcome=FAILS, role=Role.MISUSE, raised="RuntimeError"),
            False,
        ),
        (Sign(outcome="silent"), make_row(outcome="update:none"), False),
        (Sign(gradient=Gradient.PARTIAL), make_row(gradient=Gradient.PARTIAL), True),
        (Sign(gradient=Gradient.PARTIAL), make_row(gradient=Gradient.NONE), False),
        (
            Sign(raises="leaf Var"),
            make_row(outcome="step:exception", raised="E", message="E: a leaf Variable"),
            True,
        ),
        (
            Sign(raises="leaf"),
            make_row(outcome="update:none", message="a leaf did not change"),
            False,
        ),
        (Sign(warns="requires_grad=True"), make_row(warnings=("other", WARNING)), True),
        (Sign(warns="requires_grad=True"), make_row(), False),
        (Sign(quiet="requires_grad=True"), make_row(warnings=("other",)), True),
        (Sign(quiet="requires_grad=True"), make_row(warnings=(WARNING,)), False),
        (Sign(cause="frozen"), make_row(outcome=FAILS, diagnosis=make_explained("frozen")), True),
        (Sign(cause="frozen"), make_row(outcome=FAILS, diagnosis=make_explained("rebuilt")), False),
        (Sign(cause="frozen"), make_row(), False),
        (
            Sign(outcome="trains", warns="requires_grad"),
            make_row(outcome=FAILS, warnings=(WARNING,)),
            False,
        ),
        (Sign(outcome="fails"), make_row(outcome="setup:unsupported"), None),
        (Sign(than="remedy", memory="more"), make_row(), None),
    ],
)
def test_a_cell_shows_a_sign_or_not(sign: Sign, row: Row, expected: bool | None) -> None:
    """Everything that the sign names must hold. None: the cell cannot decide it."""
    assert expected is shows(Cells(make_table(row)), row, sign)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [(1_050, 1_000, "more"), (950, 1_000, "less"), (1_004, 1_000, "same")],
)
def test_memory_is_compared_within_a_stack(ours: int, theirs: int, expected: str) -> None:
    """A difference of less than one percent is none."""
    row, other = (
        make_row(peak_memory_bytes=ours),
        make_row(variant="remedy", peak_memory_bytes=theirs),
    )
    cells = Cells(make_table(row, other))
    found = [
        memory
        for memory in ("more", "less", "same")
        if shows(cells, row, Sign(than="remedy", memory=memory))
    ]
    assert [expected] == found


@pytest.mark.parametrize(
    ("ours", "spread", "expected"),
    [
        (21.0, 0.5, "slower"),
        (89.0, 0.5, "faster"),
        (44.5, 2.0, "same"),
        (21.0, 30.0, None),
        (30.0, 0.5, None),
        (43.0, 0.1, None),
    ],
)
def test_speed_is_compared_only_if_noise_allows_it(
    ours: float, spread: float, expected: str | None
) -> None:
    """Rates that overlap, or differ by no more than equal packages do, decide nothing."""
    row = make_row(steps_per_s=make_rate(ours, spread))
    cells = Cells(make_table(row, make_row(variant="remedy", steps_per_s=make_rate(44.0, spread))))
    answers = {
        speed: shows(cells, row, Sign(than="remedy", speed=speed))
        for speed in ("slower", "faster", "same")
    }
    expected_answers = {speed: None if expected is None else speed == expected for speed in answers}
    assert expected_answers == answers


def test_evidence_says_what_was_seen() -> None:
    """The outcome, and what the claim is about."""
    expectation = make_expectation(cause="frozen", warns="None of")
    rows = [make_row(outcome=FAILS, warnings=(WARNING,), diagnosis=make_explained("rebuilt"))]
    judged = judge(make_claim(expectation), make_table(*rows))
    expected = f"step:no-grad-fn, warns “{WARNING}”, cause rebuilt"
    assert [("new/amp/reported/cpu", FAILS, "against", expected)] == [
        (str(each.cell), each.outcome, each.bears, each.why) for each in judged.evidence
    ]


def test_claims_are_judged_in_their_order() -> None:
    """All claims share one index of the table."""
    claims = [make_claim(id=name) for name in ("one", "two")]
    assert ["one", "two"] == [each.claim.id for each in judge_all(claims, make_table())]


def test_our_claims_are_valid() -> None:
    """Names, patterns and version ranges in claims.toml are known; reported cases have claims."""
    known = scenarios.load_all(ROOT / "scenarios")
    claims = load(ROOT / "scenarios" / "claims.toml", known)
    named = {
        Requirement(text).name
        for claim in claims
        for expected in claim.expect
        for text in expected.where
    }
    assert named <= {
        "python", "torch", "lightning", "transformers", "trl", "peft", "llamafactory", "deepspeed",
    }  # fmt: skip
    reported = {
        name
        for name, scenario in known.items()
        if any(variant.role is Role.REPORTED for variant in scenario.variants)
    }
    assert reported == {claim.scenario for claim in claims}
