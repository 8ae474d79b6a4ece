"""The evidence pages: all that is known of a cell, escaped, with the commands that repeat it."""

from __future__ import annotations

from typing import Any

import pytest

from gradmatrix.core.model import Gradient, Role
from tests.factories import (
    NO_GRAPH,
    make_cell,
    make_checkpoint,
    make_lock,
    make_observation,
    make_parameter,
    make_raised,
    make_record,
    make_scenario,
    make_stopped,
    make_variant,
    make_warned,
)
from tests.sites import Page, evidence_of

LOCK = make_lock()
SCENARIO = make_scenario(
    "sums",
    make_variant("plain"),
    make_variant("reported", Role.REPORTED),
    make_variant("remedy", Role.REMEDY, cures=("checkpoint-inputs",)),
    make_variant("frozen", Role.MISUSE),
)
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202egnp.exe & \"quoted\" 'too'"


def page(
    outcome: str = "trains", variant: str = "reported", device: str = "cpu", **fields: object
) -> Page:
    """The evidence page of one cell."""
    record = make_record(outcome, make_cell("stack", "sums", variant, device), **fields)
    return Page(evidence_of(record, LOCK, SCENARIO))


def test_a_cell_is_found_by_its_anchor() -> None:
    """The anchor is SCENARIO-VARIANT-DEVICE, on the page of the stack."""
    assert "sums-reported-cpu" in page().anchors


def test_a_cell_says_which_one_it_is() -> None:
    """A reader who lands in the middle of the page sees the whole cell and its main versions."""
    found = page()
    assert (
        "sums/ reported on stack, cpu torch 2.6.0 . The variant: what reported means." in found.text
    )
    assert "../stacks/stack.html" in found.links


def test_the_outcome_is_explained_in_words() -> None:
    """Beside the stable string stands a sentence, with a link to all outcomes."""
    found = page("step:no-grad-fn", observation=make_stopped())
    assert "✗ step:no-grad-fn" in found.text
    assert "The loss had no graph" in found.text
    assert "../query.html#step%3Ano-grad-fn" in found.links


def test_a_signal_is_explained_without_its_number() -> None:
    """One sentence explains all signals."""
    assert "../query.html#process%3Asignal-N" in page("process:signal-11").links


def disagreeing(message: str) -> Page:
    """A variant that was compared with ``plain``."""
    fields: dict[str, Any] = {"role": Role.REPORTED, "gradient": Gradient.FLOWING}
    return page("relation:disagrees", message=message, **fields)


def test_what_disagrees_shows_both_sequences_and_links_the_other_variant() -> None:
    """Nothing failed, so the numbers are all there is to show."""
    found = disagreeing("loss 1 2 3 against 1 2.5 4 of plain")
    assert "Why It ran to its end" in found.text
    assert "its loss differs by more than 0.1 %" in found.text
    assert "loss, step by step reported 1 2 3 plain 1 2.5 4" in found.text
    assert "#sums-plain-cpu" in "".join(found.links)
    assert [] == found.problems


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "loss 1 2 against 2 2 of plain",
            "scale of the loss differs. In the first step the loss is 0.5 times as large. The",
        ),
        ("loss 1 2 against 1.9 2 of plain", "or the scale of the loss differs. The"),
        (
            "first loss 1 against nan of plain",
            "They differ from the first step on, before any update",
        ),
        ("loss 1 2 3 against 1.0001 2 4 of plain", "They agree in the first 2 steps"),
        ("gradient norm 1 against 2 of plain", "All losses of these steps are equal."),
        ("loss … 1 2 against … 2 2 of plain", "0.1 %. The numbers alone do not show"),
    ],
)
def test_the_first_different_step_shows_what_differs(message: str, expected: str) -> None:
    """The first loss comes before any gradient."""
    assert expected in disagreeing(message).text


def test_an_unknown_message_of_a_disagreement_is_shown_as_it_is() -> None:
    """It may be of another release, or hostile. It has no sequences."""
    found = disagreeing("something else")
    assert ("something else" in found.text, "Why" in found.text.partition("What the words")[0]) == (
        True,
        False,
    )


def test_the_diagnosis_names_its_place_and_links_the_remedy() -> None:
    """The remedy trains on the same stack."""
    seen = make_stopped(lost=(make_checkpoint(),))
    failing = make_record(
        "step:no-grad-fn", make_cell("stack", "sums", "reported"), observation=seen
    )
    trained = make_record("trains", make_cell("stack", "sums", "remedy"))
    found = Page(evidence_of(failing, LOCK, SCENARIO, trained))
    assert "checkpoint-inputs in layers.0" in found.text
    assert "../cells/stack.html#sums-remedy-cpu" in found.links


def test_parameters_with_the_same_gradients_share_a_line() -> None:
    """Names that differ only in a number are one name. Words explain the letters."""
    parameters = tuple(make_parameter("fffn", name=f"layers.{n}.weight") for n in range(3))
    bias = make_parameter("nnnn", name="bias", changed=False)
    text = page(
        "gradient:partial", observation=make_observation(parameters=(*parameters, bias))
    ).text
    assert "3 parameters layers.0-2.weight fffn finite, none yes yes yes" in text
    assert "bias nnnn none no yes yes" in text


def test_losses_and_norms_of_the_audited_steps_are_shown() -> None:
    """Values that are not finite are shown too."""
    seen = make_observation(losses=(1.0, "nan"), gradient_norms=(2.5,), last_loss="inf")
    text = page("step:nonfinite-loss", observation=seen).text
    assert "loss 1 nan inf gradient norm 2.5" in text


def test_the_plot_of_step_times_has_its_numbers_as_text() -> None:
    """Some readers cannot see the plot."""
    found = page()
    assert "Timed steps, in milliseconds: 125 250 250 500" in found.text
    assert 'aria-label="4 timed steps, 125 to 500 milliseconds"' in found.html


def test_exception_and_warnings_are_shown_whole() -> None:
    """The traceback is there, and how often a warning came."""
    seen = make_stopped(raised=NO_GRAPH, warnings=(make_warned("None of the inputs"),))
    text = page("step:no-grad-fn", observation=seen).text
    assert "Exception: RuntimeError: element 0 of tensors" in text
    assert "Traceback RuntimeError: element 0" in text
    assert "Warnings: 1 UserWarning × 1 None of the inputs" in text


def test_hostile_text_does_nothing() -> None:
    """It adds no markup, no escape sequence and no change of direction."""
    seen = make_stopped(
        raised=make_raised(HOSTILE),
        warnings=(make_warned(HOSTILE, HOSTILE),),
        environment={HOSTILE: HOSTILE},
    )
    found = page("step:exception", observation=seen, message=HOSTILE, build=HOSTILE)
    assert [] == found.scripts
    assert [] == found.problems
    assert set() == {"\x1b", "\u202e"} & set(found.html)


def test_the_commands_repeat_the_cell() -> None:
    """They run it again, explain it, and reproduce it with its lock."""
    text = page("step:no-grad-fn", observation=make_stopped(), device="cuda").text
    assert "gradmatrix run stack --cell sums/reported --device cuda --fresh" in text
    assert "gradmatrix why stack/sums/reported/cuda" in text
    assert "gradmatrix reproduce stack/sums/reported/cuda" in text
    assert "gradmatrix history stack/sums/reported/cuda" in text
    assert "gradmatrix capsule stack/sums/reported/cuda" in text


def test_each_command_is_explained() -> None:
    """A comment says what it does, and the page says how to install it."""
    text = page().text
    comment = "# run it in a clean environment, and compare it with the published result"
    assert f"{comment} gradmatrix reproduce" in text
    assert "pip install -e ." in text


def test_a_cell_links_to_claims_and_changes() -> None:
    """The links are to claims about its variant and to changes of its stack."""
    assert {"../claims.html#on%2Fsums%2Freported", "../history.html#of%2Fstack"} <= set(
        page().links
    )


@pytest.mark.parametrize(
    "outcome", ["trains", "relation:disagrees", "resolve:conflict", "install:build"]
)
def test_no_capsule_is_offered_where_none_can_be_written(outcome: str) -> None:
    """The cell passed, never ran, or needs another variant to fail."""
    assert "gradmatrix capsule" not in page(outcome).text


def test_a_silent_misuse_is_shown_as_one() -> None:
    """Misuse must not look like a stack that cannot train."""
    fields: dict[str, Any] = {
        "role": Role.MISUSE,
        "gradient": Gradient.NONE,
        "observation": make_observation("nnnn"),
    }
    text = page("gradient:none", "frozen", **fields).text
    assert "✗ silent gradient:none" in text
    assert "This variant cannot train. The stack does not report the mistake." in text


def test_a_missing_device_is_a_sentence() -> None:
    """A table of its cells would say nothing."""
    found = page("setup:no-device", device="cuda", passed=None, isolation="none")
    assert "Not judged on cuda: the machine that ran the matrix has no such device." in found.text
    assert "reported-cuda" not in found.anchors


def test_the_page_allows_no_script() -> None:
    """Even text that is not escaped would not run."""
    found = page()
    assert "default-src 'none'" in found.html
    assert set() == {name for name in found.attributes if name == "style" or name.startswith("on")}
