"""Reading the user's own source: what is computed from it stays small."""

from __future__ import annotations

import ast

import pytest

from gradmatrix.observe import source


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-5", -5),
        ("2 * 1e-3", 0.002),
        ("10**-4", 0.0001),
        ("1 / 0", None),
        ("9**9**9", None),
        ("1 << 40000", None),
        ("'a' * 10**9", None),
        ("rate * 2", None),
    ],
)
def test_the_value_of_constants_is_computed_and_never_a_huge_one(text: str, value: object) -> None:
    """What would fill the memory, or take for ever, has no value; neither has a name."""
    assert value == source.value_of(ast.parse(text, mode="eval").body)
