"""An observation, or its absence, becomes an outcome."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gradmatrix.core.model import Gradient
from gradmatrix.core.observation import Diverged
from gradmatrix.core.outcomes import Outcome
from gradmatrix.judge.verdict import Ended, Verdict, gradient_status, judge
from tests.factories import BACKWARD, make_built, make_observation, make_parameter, make_raised

if TYPE_CHECKING:
    from gradmatrix.core.observation import Observation

DRIFT = Diverged(step=1, ranks=2, frames=())
NO_GRAD_FN = "element 0 of tensors does not require grad and does not have a grad_fn"


def outcome_of(seen: Observation | None, ended: Ended | None = None) -> str:
    """The outcome as text."""
    return str(judge(seen, ended or Ended(exit=0)).outcome)


def raising(message: str, kind: str = "RuntimeError", **facts: object) -> Observation:
    """The observation of a script that ended with an exception in its first step."""
    return make_observation(
        **({"reached": "step", "steps": 0, "raised": make_raised(message, kind)} | facts)
    )


def test_a_healthy_script_trains() -> None:
    """Every parameter got a gradient and changed, and the loss stayed finite."""
    assert Verdict(Outcome("trains"), Gradient.FLOWING, "") == judge(
        make_observation(), Ended(exit=0)
    )


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (Ended(signal=9, timed_out=True), "process:timeout"),
        (Ended(lost=True), "process:lost"),
        (Ended(lost=True, timed_out=True), "process:timeout"),
        (Ended(signal=11), "process:signal-11"),
        (Ended(signal=9), "process:lost"),
        (Ended(signal=15), "process:lost"),
        (Ended(signal=9, output_tail="CUDA out of memory"), "process:lost"),
        (Ended(signal=11, output_tail="CUDA out of memory"), "process:signal-11"),
        (Ended(exit=70, output_tail="OSError: out of memory"), "process:internal-error"),
        (
            Ended(exit=1, output_tail="Traceback\nOSError: [Errno 28] No space left on device\n"),
            "process:disk-full",
        ),
        (Ended(exit=1, output_tail="No space left on device, trying /tmp\nbye"), "process:exit-1"),
        (Ended(exit=3), "process:exit-3"),
        (Ended(exit=0), "process:exit-0"),
        (Ended(), "process:exit-0"),
        (
            Ended(signal=6, output_tail="terminate called after throwing 'std::bad_alloc'\n"),
            "process:out-of-memory",
        ),
        (
            Ended(exit=1, output_tail="DefaultCPUAllocator: can't allocate memory"),
            "process:out-of-memory",
        ),
        (
            Ended(exit=1, output_tail="torch.OutOfMemoryError: CUDA out of memory."),
            "process:out-of-memory",
        ),
    ],
)
def test_a_missing_observation_is_evidence(ended: Ended, expected: str) -> None:
    """How the process ended tells what happened."""
    assert expected == outcome_of(None, ended)


@pytest.mark.parametrize(
    "ended", [Ended(signal=9, timed_out=True), Ended(lost=True), Ended(signal=11)]
)
def test_an_observation_outweighs_how_the_process_ended(ended: Ended) -> None:
    """An observation counts even if the process died afterwards."""
    assert "trains" == outcome_of(make_observation(), ended)


@pytest.mark.parametrize(
    ("message", "kind", "expected"),
    [
        ("[Errno 28] No space left on device: 'out'", "OSError", "process:disk-full"),
        (
            'IoError(Os { code: 28, message: "No space left on device" })',
            "SafetensorError",
            "process:disk-full",
        ),
        ("DataLoader worker (pid 7) is killed by signal: Killed. ", "RuntimeError", "process:lost"),
        (
            "DataLoader worker (pid 7) is killed by signal: Segmentation fault. ",
            "RuntimeError",
            "step:exception",
        ),
        ("[Errno 13] Permission denied", "PermissionError", "step:exception"),
    ],
)
def test_an_exception_for_want_of_the_machine_is_the_machines(
    message: str, kind: str, expected: str
) -> None:
    """A full disk, or a killed helper process, says nothing about the stack."""
    assert expected == outcome_of(raising(message, kind))


def test_memory_is_named_with_the_last_thing_that_was_printed() -> None:
    """The message of a process out of memory is its last line."""
    verdict = judge(None, Ended(signal=6, output_tail="step 1\nstd::bad_alloc\n\n"))
    assert "std::bad_alloc" == verdict.message


def test_a_machine_without_the_device_is_not_a_failure() -> None:
    """The child found no CUDA."""
    assert "setup:no-device" == outcome_of(
        make_observation(no_device=True, reached="setup", steps=0)
    )


def test_a_skipped_variant_is_unsupported_in_its_own_words() -> None:
    """SkipTest is how a script says that the stack has no such feature."""
    verdict = judge(
        make_observation(skipped="no AdamW here", reached="setup", steps=0), Ended(exit=0)
    )
    assert ("setup:unsupported", "no AdamW here") == (str(verdict.outcome), verdict.message)


@pytest.mark.parametrize(
    ("reached", "kind", "message", "expected"),
    [
        ("import", "ModuleNotFoundError", "No module named 'trl'", "import:missing-module"),
        (
            "import",
            "ImportError",
            "cannot import name 'AdamW' from 'transformers'",
            "import:exception",
        ),
        (
            "import",
            "AttributeError",
            "module 'numpy' has no attribute 'object'",
            "import:exception",
        ),
        ("setup", "ModuleNotFoundError", "No module named 'rich'", "import:missing-module"),
        (
            "setup",
            "RuntimeError",
            (
                "Failed to import trl.trainer because of the following error:\n"
                "ModuleNotFoundError: No module named 'rich'"
            ),
            "import:missing-module",
        ),
        ("setup", "ImportError", "cannot import name 'x'", "import:exception"),
        ("setup", "TypeError", "unexpected keyword argument 'tokenizer'", "setup:exception"),
        ("setup", "RuntimeError", NO_GRAD_FN, "step:no-grad-fn"),
        ("step", "RuntimeError", NO_GRAD_FN, "step:no-grad-fn"),
        ("step", "ValueError", "too many values to unpack", "step:exception"),
        ("step", "ModuleNotFoundError", "No module named 'apex'", "step:exception"),
        ("step", "MemoryError", "", "process:out-of-memory"),
        ("step", "torch.OutOfMemoryError", "CUDA out of memory.", "process:out-of-memory"),
        ("step", "RuntimeError", "DefaultCPUAllocator: not enough memory", "process:out-of-memory"),
        ("step", "SystemExit", "3", "process:exit-3"),
        ("step", "SystemExit", "256", "process:exit-0"),
        ("step", "SystemExit", "9" * 5000, "process:exit-255"),
        ("step", "SystemExit", "None", "process:exit-0"),
        ("step", "SystemExit", "", "process:exit-0"),
        ("step", "SystemExit", "please log in", "process:exit-1"),
        ("step", "SystemExit", "²", "process:exit-1"),
        ("step", "KeyboardInterrupt", "", "step:exception"),
    ],
)
def test_an_exception_belongs_where_it_happened(
    reached: str, kind: str, message: str, expected: str
) -> None:
    """The place is an import, the setup, the missing graph, memory or the step."""
    assert expected == outcome_of(raising(message, kind, reached=reached))


def test_the_message_of_an_exception_is_its_type_and_first_line() -> None:
    """The rest is in the observation."""
    assert "RuntimeError: one" == judge(raising("\n  one \ntwo"), Ended(exit=0)).message


def test_an_exception_outweighs_what_was_audited_before_it() -> None:
    """A script that fails in a late step did not train, but has a gradient status."""
    verdict = judge(raising("late", steps=3), Ended(exit=0))
    assert ("step:exception", Gradient.FLOWING) == (str(verdict.outcome), verdict.gradient)


@pytest.mark.parametrize(
    "facts",
    [
        {"losses": (1.0, "nan")},
        {"losses": ("inf",)},
        {"last_loss": "-inf"},
        {"last_loss": float("nan")},
    ],
)
def test_a_loss_that_is_not_finite_fails(facts: dict[str, object]) -> None:
    """It may be in an audited step or at the end."""
    assert "step:nonfinite-loss" == outcome_of(make_observation(**facts))


def test_a_loss_that_is_no_scalar_is_no_failure() -> None:
    """A backward root with several elements has no single value."""
    assert "trains" == outcome_of(make_observation(losses=(None, None), last_loss=None))


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        (("nnnn",), "gradient:none"),
        (("nnnn", "nnnn"), "gradient:none"),
        (("zzzz",), "gradient:zero"),
        (("zzzz", "nnnn"), "gradient:zero"),
        (("ffff", "nnnn"), "gradient:partial"),
        (("ffff", "zzzz"), "gradient:partial"),
        (("ffff", "xxxx"), "gradient:nonfinite"),
        (("nnnn", "xxxx"), "gradient:nonfinite"),
        (("zfff", "ffff"), "trains"),
        (("nnnf", "ffff"), "trains"),
        (("xfff", "ffff"), "trains"),
    ],
)
def test_the_gradients_decide(letters: tuple[str, ...], expected: str) -> None:
    """The best audited step of each parameter counts; LoRA's A has a zero gradient at step 1."""
    assert expected == outcome_of(make_observation(*letters))


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        (
            ("ffff", "nnnn", "nnnn"),
            "2 of 3 trainable parameters got no gradient or only zeros: p1, p2",
        ),
        (("nnnn",) * 5, "5 of 5 trainable parameters got no gradient: p0, p1, p2 and 2 more"),
        (("zzzz",), "1 of 1 trainable parameters got a gradient of exactly zero: p0"),
    ],
)
def test_the_message_counts_and_names_the_parameters(
    letters: tuple[str, ...], expected: str
) -> None:
    """The first three names, and how many more there are."""
    assert expected == judge(make_observation(*letters), Ended(exit=0)).message


def test_a_script_without_trainable_parameters_has_no_gradient() -> None:
    """Everything frozen, yet it ran to its end."""
    frozen = make_parameter("nnnn", changed=False, learns=False)
    verdict = judge(make_observation(parameters=(frozen,)), Ended(exit=0))
    assert ("gradient:none", "nothing is trainable") == (str(verdict.outcome), verdict.message)


def test_what_need_not_learn_does_not_count() -> None:
    """A frozen parameter without a gradient is as it should be."""
    frozen = make_parameter("nnnn", changed=False, learns=False)
    assert "trains" == outcome_of(make_observation(parameters=(make_parameter(), frozen)))


@pytest.mark.parametrize(
    ("changed", "expected"), [((False, False), "update:none"), ((True, False), "update:partial")]
)
def test_a_gradient_without_an_update_is_a_failure_of_its_own(
    changed: tuple[bool, ...], expected: str
) -> None:
    """The gradient flows and the optimizer leaves the parameter as it is."""
    parameters = tuple(make_parameter(changed=each) for each in changed)
    verdict = judge(make_observation(parameters=parameters), Ended(exit=0))
    assert (expected, Gradient.FLOWING) == (str(verdict.outcome), verdict.gradient)


def test_a_script_without_an_optimizer_step_updates_nothing() -> None:
    """It returned, and nothing ever stepped."""
    verdict = judge(make_observation(steps=0, parameters=(), backward=()), Ended(exit=0))
    assert ("update:none", None, "no optimizer ever stepped") == (
        str(verdict.outcome),
        verdict.gradient,
        verdict.message,
    )


def test_ranks_that_drift_apart_have_an_outcome_of_their_own() -> None:
    """Everything learns, in each of them."""
    verdict = judge(make_observation(drift=DRIFT), Ended(exit=0))
    assert ("update:ranks-differ", "flowing", "the parameters of 2 ranks differ after step 1") == (
        str(verdict.outcome),
        verdict.gradient,
        verdict.message,
    )


def test_what_does_not_learn_comes_before_ranks_that_drift_apart() -> None:
    """Its cause may be that of the drift."""
    still = make_parameter(changed=False)
    seen = make_observation(parameters=(still,), drift=DRIFT)
    assert "update:none" == str(judge(seen, Ended(exit=0)).outcome)


def test_a_scaler_that_skips_every_step_has_an_outcome_of_its_own() -> None:
    """The loss may be finite in all of them."""
    seen = make_observation(steps=0, optimizers=(make_built(steps=0, scaled=24),))
    assert "update:skipped" == str(judge(seen, Ended(exit=0)).outcome)


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("n", Gradient.NONE),
        ("z", Gradient.ZERO),
        ("f", Gradient.FLOWING),
        ("x", Gradient.NONFINITE),
        ("nz", Gradient.ZERO),
        ("nf", Gradient.PARTIAL),
        ("zf", Gradient.PARTIAL),
        ("nzf", Gradient.PARTIAL),
        ("nx", Gradient.NONFINITE),
        ("nzfx", Gradient.NONFINITE),
    ],
)
def test_gradient_status_has_a_precedence_whatever_the_order(
    letters: str, expected: Gradient
) -> None:
    """Non-finite outweighs all, finite among others is partial, zero outweighs none."""
    assert {expected} == {
        gradient_status(make_observation(*order)) for order in permutations(letters)
    }


@given(st.lists(st.text("nz", min_size=1, max_size=4), min_size=1, max_size=5))
def test_none_and_zero_are_never_confused(letters: list[str]) -> None:
    """Without a finite gradient the status is zero exactly where some gradient was zero."""
    expected = Gradient.ZERO if "z" in "".join(letters) else Gradient.NONE
    assert expected == gradient_status(make_observation(*letters))


def test_no_backward_pass_has_no_gradient_status() -> None:
    """A script that never reached backward has no missing gradient."""
    assert gradient_status(make_observation(steps=0, backward=(), parameters=())) is None


@pytest.mark.parametrize(("requires_grad", "expected"), [(False, Gradient.NONE), (True, None)])
def test_before_any_step_the_root_of_backward_decides(
    *, requires_grad: bool, expected: Gradient | None
) -> None:
    """A root without a graph gives none. With a graph the status is not known."""
    root = replace(BACKWARD, requires_grad=requires_grad)
    assert expected == gradient_status(make_observation(steps=0, parameters=(), backward=(root,)))
