"""Records as tables: the words and numbers of a cell."""

from __future__ import annotations

import pytest

from gradmatrix.core.model import Gradient, Record, Role
from gradmatrix.core.observation import Rate
from gradmatrix.judge.causes import Cause, Remedy
from gradmatrix.publish.rows import WARNING_LIMIT, Remedies, Row, cell_text, rate, row_of
from gradmatrix.publish.site.messages import signature
from gradmatrix.run.stack import MESSAGE_LIMIT
from tests.factories import (
    make_cell,
    make_observation,
    make_record,
    make_scenario,
    make_variant,
    make_warned,
)


def as_row(record: Record) -> Row:
    """The published row of a record."""
    return row_of(record, Remedies({}, ()))


def test_steps_per_second_are_the_median_and_quartiles_of_the_raw_samples() -> None:
    """Steps of 125, 250, 250 and 500 ms."""
    expected = Rate(median=4.0, low=3.5, high=5.0, samples=(8.0, 4.0, 4.0, 2.0))
    assert expected == make_record().steps_per_s


def test_a_remedy_for_some_variants_is_found_where_one_of_them_fails() -> None:
    """Where all of them train, it has shown nothing."""
    plain, mending = (
        "plain",
        make_variant("mending", Role.REMEDY, cures=("frozen",), mends=("plain",)),
    )
    scenarios = {"sums": make_scenario("sums", make_variant(plain), mending)}
    trains = make_record(cell=make_cell("stack", "sums", "mending"))

    def remedy(outcome: str) -> Remedy | None:
        failing = make_record(outcome, make_cell("stack", "sums", plain))
        return Remedies(scenarios, [failing, trains]).on_its_stack(Cause.FROZEN, failing.cell)

    found = remedy("step:no-grad-fn")
    assert found is not None
    assert trains.cell == found.cell
    assert remedy("trains") is None


@pytest.mark.parametrize("times", [(), (0.5,), (0.0, 0.5)])
def test_too_few_timed_steps_have_no_rate(times: tuple[float, ...]) -> None:
    """A median of one sample would claim a spread that nobody measured."""
    assert make_record(observation=make_observation(step_times_s=times)).steps_per_s is None


def test_what_does_not_train_has_no_rate() -> None:
    """The speed of a script that does not train is worth nothing."""
    assert make_record("update:none", observation=make_observation()).steps_per_s is None


@pytest.mark.parametrize(
    ("per_second", "expected"),
    [
        (0.125, "0.12/s"),
        (4.0, "4/s"),
        (9.5, "9.5/s"),
        (9.96, "10/s"),
        (43.7, "44/s"),
        (3461.7, "3500/s"),
    ],
)
def test_a_rate_has_no_needless_digits(per_second: float, expected: str) -> None:
    """A rate has two digits, because the third is noise."""
    assert expected == rate(per_second)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (make_record(), "✓ trains, 4/s"),
        (make_record(observation=make_observation(step_times_s=())), "✓ trains"),
        (make_record("step:no-grad-fn", gradient=Gradient.NONE), "✗ step:no-grad-fn"),
        (
            make_record("step:exception", gradient=Gradient.FLOWING),
            "✗ step:exception (gradient flowing)",
        ),
        (make_record("update:none", gradient=Gradient.PARTIAL), "✗ update:none (gradient partial)"),
        (make_record("gradient:partial", gradient=Gradient.PARTIAL), "✗ gradient:partial"),
        (make_record("relation:disagrees", gradient=Gradient.FLOWING), "✗ relation:disagrees"),
        (make_record("setup:unsupported", passed=None), "– setup:unsupported"),
        (
            make_record(
                "step:no-grad-fn", role=Role.MISUSE, passed=True, observation=make_observation()
            ),
            "✓ says so: step:no-grad-fn",
        ),
        (make_record("trains", role=Role.MISUSE, passed=False), "✗ silent: trains"),
        (make_record("setup:no-device", role=Role.MISUSE, passed=None), "– setup:no-device"),
        (make_record("resolve:conflict", role=Role.MISUSE), "✗ resolve:conflict"),
        (make_record("process:signal-11", role=Role.MISUSE), "✗ process:signal-11"),
    ],
)
def test_a_cell_is_a_symbol_and_words(record: Record, expected: str) -> None:
    """Colour is never the only sign."""
    assert expected == cell_text(as_row(record)).line


def test_a_warning_is_shown_once_with_its_first_line() -> None:
    """The record has all lines."""
    warnings = (make_warned("one\nmore"), make_warned("two"), make_warned("one\nagain"))
    assert ("one", "two") == as_row(
        make_record(observation=make_observation(warnings=warnings))
    ).warnings


def test_a_text_that_was_cut_ends_with_a_mark() -> None:
    """A warning is cut when it is published, a message when it is recorded."""
    seen = make_observation(warnings=(make_warned("w" * (WARNING_LIMIT + 1)),))
    row = as_row(make_record(message="m" * MESSAGE_LIMIT, observation=seen))
    assert ("m" * MESSAGE_LIMIT + "…", ("w" * WARNING_LIMIT + "…",)) == (row.message, row.warnings)
    assert "m" == as_row(make_record(message="m")).message


def test_the_mark_of_a_cut_message_changes_no_address() -> None:
    """Links to the answer to it stay."""
    assert signature("a message that") == signature("a message that …")
