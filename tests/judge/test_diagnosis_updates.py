"""Updates that never come or change nothing, and the user's line, from hand-made observations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from gradmatrix.core.observation import Diverged, Kept, Observation, Unmoved, Written
from gradmatrix.judge.causes import Cause
from gradmatrix.judge.diagnosis import diagnose
from tests.factories import make_built, make_frame, make_observation, make_parameter

if TYPE_CHECKING:
    from gradmatrix.judge.wording import Diagnosis

MINE = msgspec.structs.replace(make_frame(30), user=True)
OTHER = msgspec.structs.replace(make_frame(31), user=True)
STILL = make_parameter(name="encoder.weight", changed=False)
DELAY = (Written(text="learning_starts=1000", frames=(MINE,)),)


def found(seen: Observation) -> Diagnosis:
    """The diagnosis, which must exist."""
    diagnosis = diagnose(seen)
    assert diagnosis is not None
    return diagnosis


@pytest.mark.parametrize(
    ("how", "text", "cause", "says"),
    [
        ("rate", "lr=0.0", Cause.LEARNING_RATE, "The learning rate was 0: lr=0.0"),
        ("rebound", "p", Cause.NOT_TRAINED, "binds the name `p` to it"),
        ("unused", "", Cause.NOT_TRAINED, "that nothing uses"),
        ("used-up", "params", Cause.NOT_TRAINED, "`params` is the generator"),
        ("used-up", "", Cause.NOT_TRAINED, "A variable is the generator"),
    ],
)
def test_updates_by_hand_that_change_nothing_are_explained(
    how: str, text: str, cause: Cause, says: str
) -> None:
    """The line is that of the script."""
    unmoved = msgspec.convert({"how": how, "text": text, "frames": [MINE]}, Unmoved, strict=False)
    diagnosis = found(
        make_observation(steps=0, requests=8, parameters=(STILL,), optimizers=(), unmoved=unmoved)
    )
    assert (cause, MINE) == (diagnosis.cause, diagnosis.place)
    assert says in diagnosis.text[0]


def test_a_rate_of_zero_wins_over_an_output_that_the_loss_does_not_use() -> None:
    """With a rate of 0 nothing can move, whatever else is true."""
    spare = make_parameter("nnnn", name="spare.weight", changed=False)
    built = make_built(
        learning_rates=(0.0,),
        rate_from="constructor",
        rate="lr=0.0",
        rate_frames=(make_frame(20, "library.py"), MINE),
    )
    diagnosis = found(make_observation(parameters=(STILL, spare), optimizers=(built,)))
    assert (Cause.LEARNING_RATE, MINE) == (diagnosis.cause, diagnosis.user)


def test_an_argument_that_puts_off_the_first_step_is_named() -> None:
    """Nothing asked for gradients before the run ended."""
    seen = make_observation(steps=0, backward=(), optimizers=(make_built(steps=0),))
    diagnosis = found(msgspec.structs.replace(seen, arguments=DELAY))
    assert (Cause.NOT_TRAINED, MINE) == (diagnosis.cause, diagnosis.user)
    assert diagnosis.advice.startswith("Lower learning_starts=1000")


def test_an_argument_does_not_put_off_a_step_for_which_enough_gradients_were_there() -> None:
    """A condition of the script is what keeps the step from running."""
    late = (Written(text="gradient_accumulation_steps=4", frames=(OTHER,)),)
    built = make_built(steps=0, condition="step % 4 == 0", condition_at=(MINE,))
    seen = make_observation(steps=0, requests=16, parameters=(STILL,), optimizers=(built,))
    diagnosis = found(msgspec.structs.replace(seen, arguments=late))
    assert (Cause.NEVER_STEPPED, MINE) == (diagnosis.cause, diagnosis.place)
    assert "accelerator.accumulate()" not in diagnosis.advice
    used = {"torch": "2.13.0", "accelerate": "1.15.0"}
    diagnosis = found(msgspec.structs.replace(seen, arguments=late, environment=used))
    assert (Cause.NEVER_STEPPED, MINE) == (diagnosis.cause, diagnosis.place)
    assert "In accelerator.accumulate() call the step in each batch" in diagnosis.advice


def test_the_step_is_named_beside_the_backward_pass_that_adds() -> None:
    """An attack has backward passes of its own; the step stands where zero_grad is missing."""
    kept = Kept(parameters=2, learning=2, frames=(MINE,))
    diagnosis = found(make_observation(kept=kept, stepped=(OTHER,)))
    assert (Cause.NEVER_ZEROED, MINE, OTHER) == (diagnosis.cause, diagnosis.place, diagnosis.user)
    assert () == diagnosis.route("the script")


def test_a_loss_that_grows_to_nan_because_nothing_is_cleared_is_explained() -> None:
    """The first steps were looked at, and nothing in them was NaN."""
    kept = Kept(parameters=2, learning=2, frames=(MINE,))
    seen = make_observation(kept=kept, stepped=(OTHER,), last_loss=float("nan"))
    assert Cause.NEVER_ZEROED == found(seen).cause


def test_a_call_that_goes_past_the_wrapper_is_where_ranks_drift() -> None:
    """Without such a call it is the step."""
    drift = Diverged(step=1, ranks=2, frames=(OTHER,))
    past = msgspec.structs.replace(drift, past=(MINE,))
    places = [found(make_observation(drift=each)).place for each in (drift, past)]
    assert [OTHER, MINE] == places


@pytest.mark.parametrize(
    ("letters", "losses", "last", "dead"),
    [
        ("fzzz", (9.0, 8.0, 8.0, 8.0), 8.0, True),
        ("ffzz", (9.0, 8.0, 8.0, 8.0), 8.0, False),
        ("fzzz", (9.0, 0.0, 0.0, 0.0), 0.0, False),
        ("fzzz", (9.0, 8.0, 8.0, 8.0), 0.0, False),
        ("fzfz", (9.0, 8.0, 8.0, 8.0), 8.0, False),
    ],
    ids=["dead", "not for long", "no loss left", "no loss left at the end", "by turns"],
)
def test_gradients_that_are_all_zero_from_then_on_are_a_mistake(
    letters: str,
    losses: tuple[float, ...],
    last: float,
    dead: bool,
) -> None:
    """The first step killed a layer. A loss of 0 is no mistake: it is reached."""
    parameters = tuple(
        make_parameter(letters, name=name, learning_rate=0.01) for name in ("body", "head")
    )
    seen = make_observation(parameters=parameters, losses=losses, last_loss=last)
    diagnosis = diagnose(seen)
    assert dead == (diagnosis is not None)
    if diagnosis is not None:
        assert diagnosis.cause is Cause.DEAD
        assert "From step 2 on" in diagnosis.text[0]
        assert "0.01" in diagnosis.text[1]


def test_the_optimizer_that_steps_for_nothing_is_named() -> None:
    """Its actor is not reached by any loss; the other optimizer's critic learns."""
    actor = make_parameter(
        "nnnn", name="actor.weight", module="actor", ran="with-grad", changed=False
    )
    critic = make_parameter(name="critic.weight", module="critic", ran="with-grad")
    optimizers = (make_built(type="Adam", frames=(MINE,)), make_built(parameters=3))
    diagnosis = found(make_observation(parameters=(actor, critic), optimizers=optimizers))
    assert (Cause.UNUSED, "actor", MINE) == (diagnosis.cause, diagnosis.module, diagnosis.place)
    assert "Adam, built at" in diagnosis.text[1]
    assert "detach" in diagnosis.advice


def test_a_loop_without_batches_is_thought_of() -> None:
    """Nothing was called, although an optimizer was built."""
    built = make_built(steps=0, learning_rates=(), frames=(MINE,))
    seen = make_observation(steps=0, backward=(), parameters=(STILL,), optimizers=(built,))
    assert "drop_last" in found(seen).advice
