"""Every error message stands in one list, and says what happened, why, and what to do."""

from __future__ import annotations

from tests.errors import GOLDEN, MAKERS, listed, page

TEACHING = MAKERS - {"ArgumentTypeError"}
"""argparse says which argument it is about, and how the command is used."""


def test_the_list_of_messages_is_that_of_the_code() -> None:
    """After a change: ``python -m tests.errors`` writes it anew; read the difference."""
    assert GOLDEN.read_text(encoding="utf-8") == page()


def test_every_error_has_a_cause_and_a_next_step() -> None:
    """A user reads what happened, the likely cause, and what to do next."""
    lacking = [
        f"{module}: {each}"
        for module, messages in listed().items()
        for each in messages
        if each.maker in TEACHING and {"cause", "next_step"} - {name for name, _ in each.words}
    ]
    assert [] == lacking


def test_every_sentence_of_an_error_ends() -> None:
    """What happened is a sentence with a full stop; a cause and a next step have none."""
    wrong = [
        f"{module}: {each}"
        for module, messages in listed().items()
        for each in messages
        if each.maker in TEACHING and each.words[0][1][-1] not in ".?}"
    ]
    assert [] == wrong
