"""The vocabulary of failure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradmatrix.core.outcomes import NOT_JUDGED, REASONS, SPURIOUS, Outcome, Phase

DESIGNED = """
resolve: conflict no-release index-unreachable
install: network build disk-full hash-mismatch
import: missing-module exception
setup: exception unsupported no-device
step: no-grad-fn exception nonfinite-loss
gradient: none partial zero nonfinite
update: none partial
relation: disagrees
process: timeout out-of-memory signal-9 exit-1 lost
"""
ALL = [
    f"{line.split(':')[0]}:{reason}"
    for line in DESIGNED.split("\n")
    if line
    for reason in line.split()[1:]
]


def outcomes() -> st.SearchStrategy[Outcome]:
    """Every outcome that there can be."""
    reasons = [(phase, reason) for phase, patterns in REASONS.items() for reason in patterns]
    exact = st.sampled_from([pair for pair in reasons if r"\d" not in pair[1]])
    numbered = st.tuples(
        st.sampled_from(["signal", "exit"]), st.integers(min_value=0, max_value=255)
    )
    return st.one_of(
        st.just(Outcome(None, "")),
        exact.map(lambda pair: Outcome(*pair)),
        numbered.map(lambda pair: Outcome(Phase.PROCESS, f"{pair[0]}-{pair[1]}")),
    )


@given(outcomes())
def test_an_outcome_survives_its_string(outcome: Outcome) -> None:
    """Parsing what was printed gives the same outcome."""
    assert outcome == Outcome(str(outcome))


@pytest.mark.parametrize("text", ["trains", *ALL])
def test_every_reason_of_the_design_is_read(text: str) -> None:
    """Each string of the table of outcomes is one, and prints as itself."""
    assert text == str(Outcome(text))


def test_there_are_no_other_reasons_than_those_of_the_design() -> None:
    """The code's table and the design's are as long."""
    assert len(ALL) == sum(len(reasons) for reasons in REASONS.values())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "passes",
        "step",
        "step:",
        ":none",
        "step:none",
        "gradient:no",
        "process:signal-",
        "process:exit-1x",
        "TRAINS",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    """An unknown phase or reason is a ValueError."""
    with pytest.raises(ValueError, match=r"is no reason|is not a valid Phase"):
        Outcome(text)


def test_a_training_outcome_has_no_reason() -> None:
    """There is nothing to say about a cell that trains."""
    with pytest.raises(ValueError, match="has no reason, got 'zero'"):
        Outcome(None, "zero")


def test_only_trains_trains() -> None:
    """Every phase is a failure of some kind."""
    assert ["trains"] == [text for text in ["trains", *ALL] if Outcome(text).trains]


def test_the_spurious_outcomes_are_those_that_speak_of_the_machine() -> None:
    """Four reasons say nothing of the stack."""
    expected = {"resolve:index-unreachable", "install:network", "install:disk-full", "process:lost"}
    assert expected == {text for text in ["trains", *ALL] if Outcome(text).spurious}


def test_what_is_not_judged_is_spurious_or_was_not_run() -> None:
    """A stack without the feature and a machine without the device are not failures."""
    expected = {*SPURIOUS, "setup:unsupported", "setup:no-device"}
    assert expected == {text for text in ["trains", *ALL] if not Outcome(text).judged} == NOT_JUDGED
