"""Which parameters learn and which do not, as few names of modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gradmatrix.judge.learning import group_by_learning, join_numbers
from tests.factories import make_parameter

if TYPE_CHECKING:
    from gradmatrix.core.observation import Parameter

STILL = "nnnn"


def parameters(*names: str) -> list[Parameter]:
    """Parameters that learn; those whose name ends in an exclamation mark got no gradient."""
    return [
        make_parameter(STILL, name=name[:-1], changed=False)
        if name.endswith("!")
        else make_parameter(name=name)
        for name in names
    ]


def test_a_module_stands_for_what_is_below_it() -> None:
    """The name is the highest module below which everything is alike."""
    learning, still = group_by_learning(
        parameters("encoder.a.weight!", "encoder.b.weight!", "head.weight", "head.bias")
    )
    assert (("head: 2 parameters",), ("encoder: 2 parameters",)) == (learning, still)


def test_a_module_that_is_mixed_is_looked_into() -> None:
    """Weight and bias of one layer may differ."""
    assert (("layer.weight: 1 parameter",), ("layer.bias: 1 parameter",)) == group_by_learning(
        parameters("layer.weight", "layer.bias!")
    )


def test_numbered_modules_that_are_alike_are_one_entry() -> None:
    """Forty layers are one line."""
    names = [
        f"layers.{n}.{part}" for n in range(3) for part in ("attention.weight!", "norm.weight")
    ]
    assert (
        ("layers.0-2.norm: 3 parameters",),
        ("layers.0-2.attention: 3 parameters",),
    ) == group_by_learning(parameters(*names))


def test_what_should_not_learn_is_not_counted() -> None:
    """A frozen base model does not make an adapter partial."""
    frozen = make_parameter(STILL, name="base.weight", learns=False)
    assert (("adapter: 1 parameter",), ()) == group_by_learning(
        [frozen, *parameters("adapter.weight")]
    )


def test_a_gradient_without_a_change_is_not_learning() -> None:
    """Reasons are that no optimizer holds it, or a learning rate of zero."""
    assert ((), ("weight: 1 parameter",)) == group_by_learning(
        [make_parameter(name="weight", changed=False)]
    )


@pytest.mark.parametrize(
    ("values", "text"),
    [([0, 1, 2], "0-2"), ([3, 2], "2-3"), ([0, 2, 3], "{0,2,3}"), ([0, 5], "{0,5}")],
)
def test_numbers_are_a_range_where_none_is_missing(values: list[int], text: str) -> None:
    """Their order does not matter."""
    assert text == join_numbers(values)
