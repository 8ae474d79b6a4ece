"""Parameters without a gradient: which sign of an observation decides, and the text about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from gradmatrix.core.observation import Written
from gradmatrix.judge.causes import Cause
from gradmatrix.judge.diagnosis import diagnose
from gradmatrix.judge.signs.lost import no_gradient
from tests.factories import (
    BACKWARD,
    WITHOUT_GRAPH,
    make_built,
    make_checkpoint,
    make_cut,
    make_frame,
    make_leaf,
    make_lost,
    make_observation,
    make_parameter,
    make_raised,
    make_severed,
    make_stopped,
    make_switch,
)

if TYPE_CHECKING:
    from gradmatrix.core.observation import Observation
    from gradmatrix.judge.wording import Diagnosis

STILL = make_parameter("nnnn", name="encoder.weight", changed=False)
LEARNING = make_parameter(name="head.weight")
GENERATE = make_switch(make_frame(50, function="generate"))
GENERATION = make_lost("decoder", entered=False, modules=12, switch=GENERATE)
CACHED = make_lost("norm", grad_enabled=True, cached=True, autocast="cpu:bfloat16")


def partly(**facts: object) -> Observation:
    """A script whose encoder gets no gradient and whose head does."""
    return make_observation(**{"parameters": (STILL, LEARNING), **facts})


def nothing(**facts: object) -> Observation:
    """A script in which nothing gets a gradient, though backward runs."""
    return make_observation(**{"parameters": (STILL,), **facts})


def found(seen: Observation) -> Diagnosis:
    """The diagnosis, which must exist."""
    diagnosis = no_gradient(seen)
    assert diagnosis is not None
    return diagnosis


@pytest.mark.parametrize(
    ("lost", "cause", "module", "line"),
    [
        (make_lost(within="encoder", modules=1), Cause.GRAD_MODE_OFF, "encoder", 7),
        (make_lost(within="whole"), Cause.GRAD_MODE_OFF, "whole", 7),
        (make_lost(switch=make_switch(inference=True)), Cause.INFERENCE_MODE, "encoder", 7),
        (make_lost(switch=make_switch(decorated=make_frame(3))), Cause.CLOSURE, "encoder", 3),
        (make_checkpoint(), Cause.CHECKPOINT_INPUTS, "layers.0", 570),
        (make_checkpoint(None), Cause.CHECKPOINT_INPUTS, "layers.0", 570),
        (CACHED, Cause.AUTOCAST_CACHE, "norm", 7),
        (replace(CACHED, switch=None), Cause.AUTOCAST_CACHE, "norm", None),
        (make_cut(), Cause.DETACHED, "encoder", 30),
        (replace(make_cut(), switch=make_switch()), Cause.GRAD_MODE_OFF, "encoder", 7),
    ],
)
def test_a_module_that_lost_its_gradient_is_named(
    lost: object, cause: Cause, module: str, line: int | None
) -> None:
    """The line that caused it is named too."""
    diagnosis = found(partly(lost=(lost,)))
    at = diagnosis.place.line if diagnosis.place is not None else None
    assert (cause, module, line) == (diagnosis.cause, diagnosis.module, at)


@pytest.mark.parametrize(
    ("severed", "cause", "module", "line"),
    [
        (make_severed("detach"), Cause.DETACHED, "encoder", 9),
        (make_severed("item", module=None), Cause.DETACHED, None, 9),
        (make_severed("no_grad"), Cause.GRAD_MODE_OFF, "encoder", 9),
        (make_severed("inference_mode"), Cause.INFERENCE_MODE, "encoder", 9),
        (make_severed("grad = None"), Cause.DROPPED, "encoder", 9),
        (make_severed("unknown"), Cause.UNUSED, "encoder", 9),
        (make_severed("unknown", module=None), Cause.UNUSED, "encoder", None),
        (make_severed("round"), Cause.UNUSED, "encoder", None),
    ],
)
def test_an_operation_that_severed_the_graph_is_named(
    severed: object, cause: Cause, module: str | None, line: int | None
) -> None:
    """A flat function makes zeros of a gradient and does not take it away.

    A gap needs a module before it.
    """
    diagnosis = found(partly(severed=(severed,)))
    at = diagnosis.place.line if diagnosis.place is not None else None
    assert (cause, module, line) == (diagnosis.cause, diagnosis.module, at)


def test_nothing_is_said_where_gradients_came() -> None:
    """Something else may be detached or run without gradients."""
    assert no_gradient(make_observation(lost=(make_lost(),), severed=(make_severed(),))) is None


def test_nothing_is_said_of_an_exception_about_something_else() -> None:
    """The message of the exception says enough."""
    assert no_gradient(partly(raised=make_raised("out of space"), lost=(make_lost(),))) is None


def test_an_exception_about_gradients_is_explained() -> None:
    """It is explained even if backward was never reached."""
    seen = partly(
        raised=make_raised("None of the outputs have requires_grad=True"), lost=(make_lost(),)
    )
    assert Cause.GRAD_MODE_OFF is found(seen).cause


def test_a_missing_graph_without_any_sign_is_an_independent_loss() -> None:
    """Nothing ran without gradients, was detached or was made anew, so the loss is independent."""
    assert Cause.UNUSED is found(make_stopped()).cause


def test_a_missing_graph_where_nothing_should_learn_is_not_explained_here() -> None:
    """No gradient was lost there."""
    assert no_gradient(make_stopped(parameters=())) is None


def test_what_nothing_explains_is_unused() -> None:
    """The loss does not depend on such a parameter."""
    assert (Cause.UNUSED, "encoder") == (found(partly()).cause, found(partly()).module)


def test_a_frozen_source_outweighs_a_later_leaf() -> None:
    """Some scripts make the loss a leaf to silence backward. The checkpoint took the gradient."""
    leaf = make_leaf(make_frame(60, function="loss"))
    diagnosis = found(nothing(lost=(make_checkpoint(),), leaves=(leaf,)))
    assert Cause.CHECKPOINT_INPUTS is diagnosis.cause
    quiet = (
        "Backward still runs: it ends at a tensor that was made to require a gradient at "
        "train.py:60, loss."
    )
    assert quiet == diagnosis.text[-1]


def test_a_training_pass_outweighs_generation() -> None:
    """Generation comes first and runs more modules, but it is meant to run without gradients."""
    assert Cause.DETACHED is found(partly(lost=(GENERATION, make_cut()))).cause
    assert "encoder" == found(partly(lost=(GENERATION, make_lost()))).module


def test_a_switch_outweighs_a_module_that_only_passes_it_on() -> None:
    """The outer module ran with gradients, and lost the graph only inside."""
    assert "layer" == found(partly(lost=(make_cut("model"), make_lost("layer")))).module


def test_the_cache_outweighs_the_pass_that_filled_it() -> None:
    """Running that pass without gradients was right."""
    assert Cause.AUTOCAST_CACHE is found(make_stopped(lost=(GENERATION, CACHED))).cause


def test_what_was_cut_before_a_checkpoint_is_to_blame() -> None:
    """The input does not come from a frozen module: it was detached."""
    seen = partly(lost=(make_checkpoint(None),), severed=(make_severed(),))
    assert (Cause.DETACHED, "encoder") == (found(seen).cause, found(seen).module)


def test_a_module_that_cut_it_before_a_checkpoint_is_to_blame() -> None:
    """The embeddings gave values without a graph."""
    seen = partly(lost=(make_cut("embed"), make_checkpoint(None)))
    assert (Cause.DETACHED, "embed") == (found(seen).cause, found(seen).module)


def test_embeddings_under_no_grad_before_a_checkpoint_are_to_blame() -> None:
    """The checkpoint only shows the problem."""
    seen = partly(lost=(make_lost("embed"), make_checkpoint(None)))
    assert (Cause.GRAD_MODE_OFF, "embed") == (found(seen).cause, found(seen).module)


def test_what_was_severed_beside_a_checkpoint_with_a_frozen_source_is_not_to_blame() -> None:
    """It may be a value for a log."""
    assert (
        Cause.CHECKPOINT_INPUTS
        is found(partly(lost=(make_checkpoint(),), severed=(make_severed(),))).cause
    )


def test_a_loss_made_anew_outweighs_where_its_value_was_read() -> None:
    """``torch.tensor(loss.item(), requires_grad=True)`` is one mistake, not two."""
    seen = nothing(severed=(make_severed("item"),), leaves=(make_leaf(make_frame(60)),))
    diagnosis = found(seen)
    assert (Cause.REBUILT, "encoder", make_frame(60)) == (
        diagnosis.cause,
        diagnosis.module,
        diagnosis.place,
    )


def test_a_leaf_of_unknown_origin_does_not_hide_what_was_severed() -> None:
    """Such a leaf may be the input of the model."""
    assert (
        Cause.DETACHED
        is found(nothing(severed=(make_severed(),), leaves=(make_leaf(how="unknown"),))).cause
    )


def test_a_leaf_beside_gradients_is_not_to_blame() -> None:
    """Such a leaf may be an input that requires a gradient."""
    assert Cause.UNUSED is found(partly(leaves=(make_leaf(make_frame()),))).cause


def test_a_loss_that_was_computed_without_gradients_is_named() -> None:
    """The model ran with gradients."""
    diagnosis = found(make_stopped(backward=(replace(WITHOUT_GRAPH, switch=make_switch()),)))
    assert (Cause.GRAD_MODE_OFF, None, make_frame()) == (
        diagnosis.cause,
        diagnosis.module,
        diagnosis.place,
    )


def test_inference_mode_at_backward_is_named() -> None:
    """It has a cause of its own."""
    switch = make_switch(inference=True)
    assert (
        Cause.INFERENCE_MODE
        is found(make_stopped(backward=(replace(WITHOUT_GRAPH, switch=switch),))).cause
    )


def test_the_line_that_switched_everything_off_is_named() -> None:
    """No pass was entered with gradients, so the last module that ran is taken."""
    lost = make_lost("embed", entered=False, only=True, within="whole", modules=9)
    backward = (replace(WITHOUT_GRAPH, switch=make_switch()),)
    diagnosis = found(make_stopped(lost=(lost,), backward=backward))
    assert (Cause.GRAD_MODE_OFF, "embed") == (diagnosis.cause, diagnosis.module)
    assert diagnosis.text[1].endswith(
        "without a graph; 9 modules lost their gradient because of it."
    )


def test_a_reference_model_is_not_named() -> None:
    """A reference model runs without gradients on purpose."""
    assert Cause.UNUSED is found(make_stopped(lost=(GENERATION,))).cause


def test_partial_failures_say_what_learns() -> None:
    """The last line names what learns."""
    expected = "Learning: head: 1 parameter. Not learning: encoder: 1 parameter."
    assert expected == found(partly(lost=(make_lost(),))).text[-1]


def test_many_groups_are_cut_short() -> None:
    """Four groups are named, and the others are counted."""
    still = [make_parameter("nnnn", name=f"{kind}.weight", changed=False) for kind in "abcdef"]
    text = found(partly(parameters=(LEARNING, *still))).text[-1]
    assert text.endswith(
        "a: 1 parameter; b: 1 parameter; c: 1 parameter; d: 1 parameter and 2 more."
    )


def test_a_decorator_and_its_call_are_both_named() -> None:
    """One is the line to change, the other the line that led there."""
    switch = make_switch(
        make_frame(114, "trainer.py", "run"), decorated=make_frame(638, "optimization.py")
    )
    told = found(make_stopped(lost=(make_lost(switch=switch),))).text[0]
    assert told.startswith(
        "Gradients were off: `step` (optimization.py:638) is decorated with no_grad"
    )
    assert told.endswith("it was called at trainer.py:114, run.")


@pytest.mark.parametrize(
    ("name", "of_optimizer", "cause", "advice"),
    [
        ("train_step", False, Cause.GRAD_MODE_OFF, "Remove torch.no_grad() from `train_step`"),
        ("step", False, Cause.GRAD_MODE_OFF, "Remove torch.no_grad() from `step` (train.py:4)"),
        ("step", True, Cause.CLOSURE, "Run the closure in `step` (train.py:4) under torch.enable"),
    ],
)
def test_a_decorated_function_of_the_user_is_named(
    name: str, cause: Cause, advice: str, *, of_optimizer: bool
) -> None:
    """No other optimizer helps against it, unless it is the step of an optimizer."""
    mine = replace(make_frame(4, function=name), user=True)
    built = make_built(step=mine if of_optimizer else None)
    switch = make_switch(make_frame(11), decorated=mine)
    diagnosis = found(make_stopped(lost=(make_lost(switch=switch),), optimizers=(built,)))
    assert (cause, True) == (diagnosis.cause, diagnosis.advice.startswith(advice))


def test_a_first_backward_with_a_graph_does_not_hide_a_second_without() -> None:
    """One of two losses is detached."""
    seen = make_observation(backward=(BACKWARD, WITHOUT_GRAPH), severed=(make_severed(),))
    assert Cause.DETACHED is found(seen).cause


@pytest.mark.parametrize(("letters", "how"), [("ffff", "argmin"), ("nnnn", "detach")])
def test_a_choice_in_a_code_book_says_more_than_a_detach_beside_it(letters: str, how: str) -> None:
    """The code book learns by the tensors that are detached, and the encoder by nothing."""
    parameters = (
        make_parameter("nnnn", name="encoder.weight", module="encoder", changed=False),
        make_parameter(letters, name="book.vectors.weight", module="book.vectors"),
        make_parameter(name="decoder.weight", module="decoder"),
    )
    cut = (make_severed("detach"), make_severed("argmin", make_frame(15), module="book"))
    diagnosis = diagnose(make_observation(parameters=parameters, severed=cut))
    assert diagnosis is not None
    assert diagnosis.text[0].startswith(f"`{how}` took")
    assert Cause.DETACHED is diagnosis.cause


def test_an_operation_is_named_as_the_user_wrote_it() -> None:
    """Python's own names, such as __float__, are in no script."""
    severed, at = make_severed("__float__"), make_frame(8)
    for diagnosis in (
        found(partly(severed=(severed,))),
        found(nothing(severed=(severed,), leaves=(make_leaf(at, how="requires_grad_"),))),
        found(nothing(severed=(severed,), leaves=(make_leaf(at),))),
    ):
        said = "\n".join((*diagnosis.text, diagnosis.advice))
        assert "onversion to a Python number" in said
        assert "__" not in said
    assert "A comparison took" in found(partly(severed=(make_severed("__gt__"),))).text[0]


def test_what_a_function_returned_none_for_is_named() -> None:
    """By the parameters that lie behind that input."""
    returned = Written(text="Quantize", frames=(make_frame(9, function="backward"),))
    diagnosis = found(partly(none_returned=returned))
    assert "the inputs of `Quantize` that are computed from encoder.weight" in diagnosis.advice


def test_the_advice_on_what_the_loss_does_not_use_names_it() -> None:
    """If no parameter gets a gradient, the loss itself is at fault."""
    assert found(partly()).advice.startswith("Use the output of `encoder` in the loss.")
    assert found(make_stopped()).advice.startswith("Compute the loss from what the model gives")
