"""Whether a parameter changed in a step, in cases that are hard to see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conftest import needs_fork

if TYPE_CHECKING:
    from tests.conftest import Workbench

pytestmark = needs_fork


@pytest.mark.parametrize(
    "variant", ["odd_columns", "opposite", "transposed", "half_table", "last_number", "one_bit"]
)
def test_a_small_change_is_seen(gradient_bench: Workbench, variant: str) -> None:
    """A few rows of a large table may change that are not in its sample."""
    ran = gradient_bench.run(variant)
    assert ("trains", [True]) == (
        ran.outcome,
        [parameter.changed for parameter in ran.seen.parameters],
    )


def test_what_does_not_change_is_not_said_to(gradient_bench: Workbench) -> None:
    """This is a large table with a learning rate of 0."""
    ran = gradient_bench.run("large_still")
    assert ("update:none", [False]) == (
        ran.outcome,
        [parameter.changed for parameter in ran.seen.parameters],
    )
