"""What an error says of a word that is not known."""

from __future__ import annotations

import pytest

from gradmatrix.core.errors import MOST_KNOWN, did_you_mean


@pytest.mark.parametrize(
    ("word", "known", "said"),
    [
        ("frist", ["first", "second"], "perhaps you meant 'first'"),
        ("x", [], "there is none yet"),
        ("rop", ["grope", "torque"], "perhaps you meant 'grope'"),
        ("x", ["latest", "oldest", "latest"], "known are: latest, oldest"),
        (
            "x",
            [f"a{number}" for number in range(MOST_KNOWN + 7)],
            f"known are: {', '.join(f'a{number}' for number in range(MOST_KNOWN))} and 7 more",
        ),
    ],
)
def test_what_may_be_meant(word: str, known: list[str], said: str) -> None:
    """The nearest word, or those that contain it, or what there is: each once, and not hundreds."""
    assert said == did_you_mean(word, known)
