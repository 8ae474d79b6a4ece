"""The processes of a traced script become one finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from msgspec.structs import replace

from gradmatrix.cli.trace import style_of
from gradmatrix.core.observation import Diverged, Frame, Kept, Noticed
from gradmatrix.judge.causes import Cause, Remedy
from gradmatrix.trace.trace import Finding, Left, Process, Speed, conclude, headline, report, speed
from tests.factories import (
    BACKWARD,
    HEALTHY,
    make_cell,
    make_frame,
    make_observation,
    make_parameter,
    make_raised,
    make_warned,
)

if TYPE_CHECKING:
    from gradmatrix.core.observation import Observation

NOTHING = make_observation(
    steps=0, backward=(), parameters=(), losses=(), last_loss=None, gradient_norms=()
)
NO_GRAD_FN = "element 0 of tensors does not require grad and does not have a grad_fn"
LOST = make_observation(
    steps=0, reached="step", raised=make_raised(NO_GRAD_FN),
    parameters=(make_parameter("", changed=False),),
    backward=(msgspec.structs.replace(BACKWARD, requires_grad=False, grad_fn=None),),
)  # fmt: skip


def process(observation: Observation = HEALTHY, rank: int | None = None, pid: int = 1) -> Process:
    """What a process left."""
    return Process(schema=1, pid=pid, rank=rank, observation=observation)


def find(*processes: Process, returncode: int = 0, stopped: bool = False) -> Finding:
    """The finding on a script that ended."""
    return conclude(["python", "train.py"], returncode, Left(processes=processes, stopped=stopped))


def test_a_script_that_trains() -> None:
    """The finding has its outcome, gradient, steps, memory and exit code."""
    found = find(process())
    assert ("trains", "flowing", 20, 123_456_789, 0) == (
        found.outcome, found.gradient, found.steps, found.peak_memory_bytes, found.exit_code,
    )  # fmt: skip


def test_ranks_that_drift_apart_are_the_outcome() -> None:
    """The first rank alone saw a script that trains."""
    left = Left(processes=(process(),), drift=Diverged(step=1, ranks=2, frames=()))
    found = conclude(["python", "train.py"], 0, left)
    assert headline(found).startswith("update:ranks-differ, gradient flowing, 20 steps")
    assert found.diagnosis is not None
    assert Cause.RANKS_DIFFER is found.diagnosis.cause


MISSES = make_observation(reached="import", raised=make_raised(kind="ModuleNotFoundError"), steps=0)


@pytest.mark.parametrize(
    ("processes", "returncode", "outcome", "exit_code"),
    [
        ((), 0, "process:exit-0", 0),
        ((), 3, "process:exit-3", 3),
        ((), 70, "process:exit-70", 70),
        ((), -9, "process:signal-9", 137),
        ((process(),), 3, "process:exit-3", 3),
        ((process(),), -15, "process:signal-15", 143),
        ((process(NOTHING),), 0, "update:unseen", 0),
        ((process(LOST),), 1, "step:no-grad-fn", 1),
        ((process(MISSES),), 1, "import:missing-module", 1),
    ],
)
def test_how_it_ended(
    processes: tuple[Process, ...], returncode: int, outcome: str, exit_code: int
) -> None:
    """A signal or an exit code counts more than what was seen.

    An exception explains the exit code.
    """
    found = find(*processes, returncode=returncode)
    assert (outcome, exit_code) == (found.outcome, found.exit_code)


def test_a_script_that_never_imported_torch() -> None:
    """Nothing can be judged, and the finding says so."""
    assert "the script never imported torch" == find().message


def test_the_process_that_trained_is_the_one() -> None:
    """A launcher imports torch too, but does not train."""
    assert 20 == find(process(NOTHING, pid=1), process(pid=2), process(NOTHING, pid=3)).steps


def test_the_first_rank_is_the_one() -> None:
    """Another rank may have made more steps before it was stopped."""
    assert 20 == find(process(make_observation(steps=25), rank=1), process(rank=0)).steps


def test_an_exception_of_another_process_explains_the_exit_code() -> None:
    """The launcher or another rank raised it."""
    other = process(
        make_observation(steps=0, backward=(), raised=make_raised("rank 1 broke")), rank=1
    )
    found = find(process(rank=0), other, returncode=1)
    assert ("step:exception", "RuntimeError: rank 1 broke", 20) == (
        found.outcome,
        found.message,
        found.steps,
    )


def test_a_script_that_was_stopped_is_judged_by_its_training() -> None:
    """Exceptions of its clean-up do not count. The exit code is still its own."""
    found = find(process(), returncode=1, stopped=True)
    assert ("trains", 1) == (found.outcome, found.exit_code)


def test_speed_leaves_out_the_first_steps() -> None:
    """It leaves out four, if there are enough."""
    assert Speed(median=2.0, low=2.0, high=2.0, steps=16) == speed([9.0] * 4 + [0.5] * 16)


@pytest.mark.parametrize(
    ("times_s", "steps"), [([], None), ([0.5], None), ([0.5, 0.5], 2), ([0.5] * 8, 6)]
)
def test_a_short_script_has_what_speed_there_is(times_s: list[float], steps: int | None) -> None:
    """Fewer than two steps give no speed."""
    found = speed(times_s)
    assert steps == (found and found.steps)


def test_partial_learning_is_reported_by_module() -> None:
    """The finding names the modules that learn and those that do not."""
    seen = make_observation(
        parameters=(make_parameter(name="head.weight"), make_parameter("zz", name="body.weight"))
    )
    found = find(process(seen))
    assert ("gradient:partial", ("head: 1 parameter",), ("body: 1 parameter",)) == (
        found.outcome, found.learns, found.does_not_learn,
    )  # fmt: skip


def test_a_misleading_warning_is_called_so() -> None:
    """Torch's checkpointing warns about inputs although every parameter gets its gradient."""
    warned = make_warned("None of the inputs have requires_grad=True. Gradients will be None")
    assert (warned.message,) == find(process(make_observation(warnings=(warned,)))).misleading


def test_the_same_warning_is_right_where_something_is_missing() -> None:
    """Then it is not called misleading."""
    warned = make_warned("None of the inputs have requires_grad=True. Gradients will be None")
    assert () == find(process(make_observation("ffff", "nnnn", warnings=(warned,)))).misleading


def test_the_headline_has_the_numbers() -> None:
    """The speed has its spread."""
    seen = replace(HEALTHY, step_times_s=(0.25,) * 12 + (0.4,) * 4)
    assert "trains, gradient flowing, 20 steps, 4 steps/s (2.5 to 4), 118 MiB at peak" == headline(
        find(process(seen))
    )


def test_a_speed_that_says_nothing_is_left_out() -> None:
    """A step may take ten times as long as another one, or there are three of them."""
    spread = replace(HEALTHY, step_times_s=(0.01, 0.1, 0.01, 0.1) * 5)
    short = replace(HEALTHY, step_times_s=(0.1,) * 3)
    for seen in (spread, short):
        found = find(process(seen))
        assert found.steps_per_s is not None
        assert "steps/s" not in headline(found)


@pytest.mark.parametrize("returncode", [-2, 130])
def test_what_was_seen_before_an_interrupt_counts(returncode: int) -> None:
    """The user stopped it: that is no failure of the script."""
    stopped = make_raised("", kind="KeyboardInterrupt")
    found = find(process(replace(HEALTHY, raised=stopped)), returncode=returncode)
    assert headline(found).startswith("interrupted (process:signal-2), gradient flowing, 20 steps")
    assert (130, (), "bold yellow") == (found.exit_code, found.explanation, style_of(found))
    assert "stopped by SIGINT, which Ctrl-C sends" == report(found)[0]
    wrong = make_observation("ffff", "nnnn", raised=stopped)
    assert "Learning:" in "".join(find(process(wrong), returncode=returncode).explanation)
    for early in (replace(NOTHING, reached="setup", raised=stopped), replace(wrong, steps=3)):
        assert find(process(early), returncode=returncode).diagnosis is None


@pytest.mark.parametrize(
    ("reached", "steps", "file", "words"),
    [
        ("import", 0, "<frozen importlib._bootstrap>", "before it imported torch, "),
        ("setup", 0, "<frozen importlib._bootstrap>", "while it imported a module, "),
        ("step", 0, "torch/utils/data/dataloader.py", "while it loaded data, "),
        ("step", 0, "torch/nn/modules/module.py", "in a forward pass, "),
        ("step", 0, "torch/_tensor.py", ""),
        ("step", 3, "torch/autograd/__init__.py", "in a backward pass, "),
    ],
)
def test_a_script_that_is_stopped_early_hears_where_and_what_to_run(
    reached: str, steps: int, file: str, words: str
) -> None:
    """Ctrl-C before enough steps judges nothing."""
    outer = (
        'File "<frozen importlib._bootstrap>", line 1\nFile "torch/nn/modules/module.py", line 9'
    )
    stopped = replace(
        make_raised("", kind="KeyboardInterrupt"),
        traceback=f'{outer if words else ""}\nFile "{file}", line 5\n',
        frames=(replace(make_frame(), user=True),),
    )
    seen = replace(NOTHING, reached=reached, steps=steps, raised=stopped)
    when = "after 3 steps" if steps else "before the script's first optimizer step"
    where = f"{when}, {words}at train.py:7, step"
    assert [
        f"stopped by SIGINT, which Ctrl-C sends, {where}: nothing was judged",
        "To stop it after 4 steps: gradmatrix trace --steps 4 SCRIPT",
    ] == report(find(process(seen), returncode=-2))[:2]


def test_a_mistake_in_a_script_that_trains_is_in_the_headline() -> None:
    """Gradients that are never cleared do not stop a parameter from changing."""
    kept = Kept(parameters=4, learning=4, frames=())
    found = headline(find(process(make_observation(kept=kept))))
    assert found.startswith("trains, with a mistake (never-zeroed), gradient flowing")


def test_a_call_that_was_hardly_meant_is_in_the_headline() -> None:
    """The loss trains, but not what was meant: who reads one line must not take it for all well."""
    at = Frame(file="train.py", line=7, function="step", user=True)
    noticed = (Noticed(how="compared", text="mse_loss gets shapes [8, 1] and [8]", frames=(at,)),)
    found = headline(find(process(make_observation(noticed=noticed))))
    assert found.startswith("trains, but see the remark, gradient flowing")


def test_the_report_ends_with_the_versions() -> None:
    """A finding depends on them."""
    assert "python 3.11.7" == report(find(process()))[-1]


def test_what_could_not_be_watched_is_reported() -> None:
    """Both the processes and the observer report it."""
    left = Left(
        processes=(process(make_observation(observer_errors=("forward: it broke",))),),
        trouble=("OSError: full",),
    )
    assert ("OSError: full", "forward: it broke") == conclude(["python"], 0, left).trouble


def test_the_explanation_ends_with_a_remedy_where_one_is_known() -> None:
    """It is looked up by cause and by what the environment has."""
    remedy = Remedy(
        cell=make_cell("stack", "scenario", "healthy"), summary="do it so", same_stack=False
    )
    found = conclude(
        ["python"],
        0,
        Left(processes=(process(make_observation("ffff", "nnnn")),)),
        lambda *_: remedy,
    )
    assert found.explanation[-2].endswith("seen to help: do it so (scenario/healthy, stack).")
    assert "Its code: gradmatrix capsule stack/scenario/healthy/cpu --any" == found.explanation[-1]
    assert (*found.explanation, "python 3.11.7") == tuple(report(found))
