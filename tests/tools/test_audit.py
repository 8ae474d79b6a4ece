"""The self-audit: what is injected where, the score, and a few faults on real stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from gradmatrix.cli.main import main
from gradmatrix.core.errors import UserError
from gradmatrix.core.outcomes import Outcome
from gradmatrix.judge.verdict import Verdict
from gradmatrix.run.pool import Finished
from gradmatrix.run.project import Project
from tests.conftest import NEWEST, OLDEST, ROOT, needs_fork, python_of
from tests.factories import make_cell, make_record
from tools import audit
from tools.__main__ import COMMANDS
from tools.audit import Audited, Injection, Score, Tally, Truth

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BLOCK = Truth(modules=("model.layers.1",), root="Model", built_at=("script.py", 40))


def make_injection(fault: str = "detached_hidden", seed: int = 1) -> Injection:
    """A fault in a scenario."""
    return Injection(fault=fault, scenario="scenario", variant="plain", seed=seed)


def make_audited(
    fault: str = "detached_hidden",
    *,
    detected: bool = True,
    module: bool | None = None,
    line: bool | None = None,
) -> Audited:
    """The result for a fault."""
    return Audited(
        "stack", make_injection(fault), "gradient:none", detected=detected, module=module, line=line
    )


def test_a_tally_counts_what_was_asked_for() -> None:
    """A module that is not to blame counts as no miss."""
    audited = [
        make_audited(module=True, line=True),
        make_audited(module=None, line=False),
        make_audited("nan_output", detected=False, module=False, line=None),
        make_audited(audit.NONE, detected=False),
    ]
    assert [
        Tally("detached_hidden", Score(2, 2), Score(1, 1), Score(1, 2)),
        Tally("nan_output", Score(0, 1), Score(0, 1), Score(0, 0)),
        Tally("all", Score(2, 3), Score(1, 2), Score(1, 2)),
    ] == audit.tallies(audited)


@pytest.mark.parametrize(
    ("audited", "expected"),
    [
        ([make_audited(module=True, line=True)] * 20, []),
        (
            [make_audited(module=True, line=True)] * 19 + [make_audited(module=False, line=False)],
            [],
        ),
        ([make_audited(audit.NONE, detected=False)], []),
        (
            [make_audited(detected=False, module=True, line=True)],
            ["1 faults were not detected"],
        ),
        (
            [make_audited(module=True, line=True)] * 9 + [make_audited(module=False, line=True)],
            ["the right module was named for 90.0% of the faults, at least 95% are required"],
        ),
        (
            [make_audited(module=True, line=True)] * 9 + [make_audited(module=True, line=False)],
            ["the right line was named for 90.0% of the faults, at least 95% are required"],
        ),
        ([make_audited(audit.NONE)], ["1 healthy runs have a finding"]),
    ],
)
def test_the_audit_falls_short(audited: Sequence[Audited], expected: list[str]) -> None:
    """A fault is missed, a twentieth is named wrongly, or a healthy run has a finding."""
    assert expected == audit.shortcomings(audited)


def test_an_unknown_fault_is_bad_input() -> None:
    """The error has a suggestion."""
    with pytest.raises(UserError, match="perhaps you meant 'detached_hidden'"):
        audit.chosen_faults(["detached_hiden"])


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["--fault", "nonsense"], "no fault 'nonsense'"), (["nonsense"], "no stack 'nonsense'")],
)
def test_bad_input_ends_with_exit_code_2(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is one clear error."""
    assert 2 == main(["audit", *words], COMMANDS)
    assert expected in capsys.readouterr().err


def test_healthy_runs_are_of_what_the_records_say_trains(tmp_path: Path) -> None:
    """Each variant that trains runs once, and then all of them again with the next seed."""
    project = Project.at(ROOT, results=tmp_path)
    cells = [
        make_cell(OLDEST, "t5_classifier", "torch_adamw"),
        make_cell(OLDEST, "t5_classifier", "closure_enable_grad"),
        make_cell(NEWEST, "t5_classifier", "hf_adafactor"),
        make_cell(OLDEST, "removed_since", "plain"),
    ]
    for cell in cells:
        project.store.append(make_record(cell=cell))
    project.store.append(
        make_record("step:no-grad-fn", make_cell(OLDEST, "t5_classifier", "hf_adafactor"))
    )
    asked = audit.healthy_for(project, project.matrix.stack(OLDEST), 3)
    assert [("closure_enable_grad", 1), ("torch_adamw", 1), ("closure_enable_grad", 2)] == [
        (each.variant, each.seed) for each in asked
    ]


def test_without_records_the_variants_of_the_faults_are_healthy(tmp_path: Path) -> None:
    """The stack must meet their requirements: the oldest one has no GRPO."""
    project = Project.at(ROOT, results=tmp_path)
    asked = audit.healthy_for(project, project.matrix.stack(OLDEST), 50)
    assert (50, False, True) == (
        len(asked),
        "grpo_lora" in {each.scenario for each in asked},
        "t5_classifier" in {each.scenario for each in asked},
    )


def test_a_fault_that_does_not_get_in_is_a_miss(tmp_path: Path) -> None:
    """The script did not write where the fault is, so nothing was tested."""
    seen = audit.compared("stack", make_injection(), make_finished("step:exception"), tmp_path)
    assert (True, "a fault that gets in") == (seen.missed, seen.expected)


def test_a_fault_that_is_not_noticed_is_a_miss(tmp_path: Path) -> None:
    """The cell trains."""
    (tmp_path / "truth.json").write_bytes(msgspec.json.encode(BLOCK))
    seen = audit.compared("stack", make_injection(), make_finished("trains"), tmp_path)
    assert (False, False, False) == (seen.detected, seen.module, seen.line)


@pytest.mark.parametrize(("outcome", "missed"), [("trains", False), ("gradient:partial", True)])
def test_a_healthy_run_that_does_not_train_is_a_miss(
    outcome: str, missed: bool, tmp_path: Path
) -> None:
    """Nothing was injected, so there must be no finding."""
    assert (
        missed
        is audit.compared(
            "stack", make_injection(audit.NONE), make_finished(outcome), tmp_path
        ).missed
    )


def make_finished(outcome: str) -> Finished:
    """A cell that ended without an observation, which the verdict does not need here."""
    return Finished(None, Verdict(Outcome(outcome), None, ""), "", "none")


@pytest.mark.slow
@needs_fork
@pytest.mark.parametrize("stack", [OLDEST, NEWEST])
def test_faults_on_a_real_stack_are_detected_and_named(stack: str, tmp_path: Path) -> None:
    """There is a fault of each kind and a healthy run. Module and line are right."""
    python_of(stack)
    project = Project.at(ROOT, results=tmp_path)
    kinds = [
        "detached_hidden",
        "no_grad_block",
        "rewrapped_loss",
        "nan_gradient",
        "layer_left_out",
        "step_never_called",
    ]
    asked = [
        Injection(fault=kind, scenario="amp_manual_optimization", variant="full_precision", seed=1)
        for kind in (*kinds, audit.NONE)
    ]
    done = list(audit.audit(project, project.matrix.stack(stack), asked, lambda _text: None))
    assert ([], asked) == (
        [str(each) for each in done if each.missed],
        [each.injection for each in done],
    )
