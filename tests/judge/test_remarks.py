"""What does not learn and is no fault in a script without a contract."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from gradmatrix.core.observation import ConstantPart, Hooked, Lost, Severed
from gradmatrix.judge.remarks import split
from gradmatrix.judge.verdict import judge_observation
from tests.factories import make_built, make_observation, make_parameter

LEARNS = make_parameter(name="body.weight", module="body", ran="with-grad")
BIAS: dict[str, Any] = {"name": "body.bias", "module": "body", "shape": (4,), "changed": False}
LOST = Lost(
    step=1, module="spare", type="Linear", grad_enabled=False, inference_mode=False, autocast=None,
    within="spare",
)  # fmt: skip
CONSTANT = ConstantPart(step=1, how="item", module="spare", frames=(), added=())
SEVERED = Severed(step=1, how="detach", module="spare", type="Linear", parameters=1, frames=())


def spare(gradients: str = "nn", **facts: Any) -> Any:  # noqa: ANN401  (fields of Parameter)
    """A parameter of a second layer, which does not learn."""
    given = {"module": "spare", "ran": "with-grad", "changed": False, **facts}
    return make_parameter(gradients, name="spare.weight", **given)


def outcome(*parameters: Any, **facts: Any) -> tuple[str, int]:  # noqa: ANN401
    """The outcome of a script with these parameters beside one that learns, and its remarks."""
    seen, remarks = split(make_observation(parameters=(LEARNS, *parameters), **facts))
    return str(judge_observation(seen).outcome), len(remarks)


@pytest.mark.parametrize(
    "parameter",
    [
        spare(),
        spare(ran="not"),
        spare("zz", ran="empty"),
        spare(held=False, ran="without-grad"),
        spare(moved=True, ran="without-grad"),
        make_parameter("zz", **BIAS),
    ],
    ids=["unused", "asleep", "empty", "held by nobody", "copied", "bias cancels"],
)
def test_a_harmless_fact_is_a_remark(parameter: Any) -> None:  # noqa: ANN401
    """The script trains."""
    assert ("trains", 1) == outcome(parameter)


@pytest.mark.parametrize(
    ("parameter", "facts"),
    [
        (spare(), {"severed": (SEVERED,)}),
        (spare(), {"lost": (LOST,)}),
        (spare(forgotten=True), {}),
        (spare(module=None, ran=None), {}),
        (spare(ran="without-grad"), {}),
        (spare("zz"), {}),
        (make_parameter("zz", **BIAS), {"hooks": (Hooked(parameter="body.bias", frames=()),)}),
    ],
    ids=["cut", "lost", "forgotten", "stale", "no_grad", "dead", "silenced"],
)
def test_a_fault_that_looks_like_a_harmless_fact_stays_one(
    parameter: Any,  # noqa: ANN401
    facts: dict[str, Any],
) -> None:
    """Each rule has something that it must not hide."""
    assert ("gradient:partial", 0) == outcome(parameter, **facts)


@pytest.mark.parametrize(
    ("ways", "facts", "expected"),
    [
        (("item",), {}, "trains"),
        (("item", "zeros_like"), {}, "trains"),
        (("zeros_like",), {}, "gradient:partial"),
        (("item", "detach"), {}, "gradient:partial"),
        (("item",), {"constant_parts": (CONSTANT,)}, "gradient:partial"),
    ],
    ids=["logged", "and a shape", "a shape", "and detached", "added to the loss"],
)
def test_a_number_that_is_only_logged_is_no_fault(
    ways: tuple[str, ...], facts: dict[str, Any], expected: str
) -> None:
    """The loss does not use a head whose value is printed."""
    severed = tuple(replace(SEVERED, how=how) for how in ways)
    assert (expected, int(expected == "trains")) == outcome(spare(), severed=severed, **facts)


@pytest.mark.parametrize(
    ("spare_one", "expected"),
    [
        (make_built(parameters=1), "gradient:partial"),
        (make_built(parameters=1, steps=0), "trains"),
        (make_built(parameters=2), "trains"),
    ],
    ids=["its own", "not yet stepped", "shared with what learns"],
)
def test_an_optimizer_that_steps_for_nothing_is_a_fault(spare_one: Any, expected: str) -> None:  # noqa: ANN401
    """All that it holds is one layer, and no loss reaches that."""
    optimizers = (make_built(parameters=3), spare_one)
    assert expected == outcome(spare(), optimizers=optimizers)[0]


@pytest.mark.parametrize(("times", "expected"), [(1, "gradient:partial"), (2, "trains")])
def test_what_is_made_anew_in_each_step_is_no_fault(times: int, expected: str) -> None:
    """The optimizer holds the first tensor of a code book that is set by hand."""
    first = spare(module=None, ran=None)
    later = [
        replace(first, name=f"parameter#{number}", held=False, learns=False)
        for number in range(times)
    ]
    assert expected == outcome(first, *later)[0]


@pytest.mark.parametrize(
    ("last", "norm", "expected"), [(0.6931, 4e-8, 1), (0.69, 4e-8, 0), (0.6931, 4e-3, 0)]
)
def test_a_gradient_of_rounding_errors_is_a_remark(last: float, norm: float, expected: int) -> None:
    """The loss never changes: its two sides are equal."""
    facts = {"losses": (0.6931, 0.6931, 0.6931), "gradient_norms": (norm, norm, norm)}
    assert ("trains", expected) == outcome(last_loss=last, **facts)


def test_a_layer_that_was_left_out_is_a_fault() -> None:
    """It gets a gradient, but no optimizer holds it and nothing changes it."""
    assert ("update:partial", 0) == outcome(spare("ff", held=False))


def test_most_of_what_ran_cannot_be_unused() -> None:
    """Then the loss takes the wrong tensor."""
    assert ("gradient:partial", 0) == outcome(spare(), spare())


def test_nothing_is_excused_if_nothing_learns() -> None:
    """A remark stands under a headline that says that it trains."""
    seen = make_observation(parameters=(spare(ran="not"),))
    assert (seen, ()) == split(seen)


def test_what_cannot_be_read_is_not_judged() -> None:
    """The rest is."""
    unread = make_parameter("?", name="meta.weight", learns=False, unread=True)
    assert ("trains", 1) == outcome(unread)
    assert str(judge_observation(make_observation(parameters=(unread,), unread=True)).outcome) == (
        "update:unseen"
    )


@pytest.mark.parametrize(("ran", "expected"), [("with-grad", 0), ("not", 1)])
def test_weights_that_the_module_around_them_uses_share_its_fault(ran: str, expected: int) -> None:
    """MultiheadAttention does not call its out_proj."""
    attention: dict[str, Any] = {
        "name": "body.attention.in_proj_weight",
        "module": "body.attention",
        "ran": ran,
    }
    inner: dict[str, Any] = {
        "name": "body.attention.out_proj.weight",
        "module": "body.attention.out_proj",
    }
    parts = [
        make_parameter("nn", changed=False, **facts)
        for facts in (attention, {**inner, "ran": "not"})
    ]
    seen = make_observation(parameters=(LEARNS, *parts), severed=(SEVERED,))
    assert expected == sum("was not called" in remark for remark in split(seen)[1])
