"""Find a published cell by the text that people write."""

from __future__ import annotations

import pytest

from gradmatrix.core.errors import UserError
from gradmatrix.judge.history import entry
from gradmatrix.run import lookup
from tests.factories import NOON, make_cell, make_record

CUDA = make_record("trains", make_cell("first", "sums", "plain", "cuda"))
CPU = make_record("setup:no-device", make_cell("first", "sums", "plain", "cpu"), passed=None)
FROZEN = make_record("trains", make_cell("first", "sums", "frozen", "cpu"))
RECORDS = {record.cell: record for record in (CUDA, CPU, FROZEN)}


def found(text: str) -> object:
    """The record that ``text`` names."""
    return lookup.find(text, RECORDS, ("cpu", "cuda"))


def test_a_cell_with_its_device() -> None:
    """The text is the one that is printed."""
    assert CPU is found(str(CPU.cell))


def test_without_a_device_the_one_that_was_judged_is_meant() -> None:
    """The first judged device is taken."""
    assert (CUDA, FROZEN) == (found("first/sums/plain"), found("first/sums/frozen"))


def test_whatever_is_known_of_cells_can_be_asked_for() -> None:
    """Entries of a history, which have no observation, can be found too."""
    entries = {record.cell: entry(record, NOON) for record in (CUDA, CPU)}
    assert entries[CUDA.cell] is lookup.find("first/sums/plain", entries, ("cpu", "cuda"))


@pytest.mark.parametrize(
    ("text", "what", "why"),
    [
        ("frist/sums/plain", "There is no published stack 'frist'", "perhaps you meant 'first'"),
        (
            "first/sum/plain",
            "There is no published scenario of first 'sum'",
            "perhaps you meant 'sums'",
        ),
        (
            "first/sums/frozn",
            "There is no published variant of first/sums 'frozn'",
            "perhaps you meant 'frozen'",
        ),
        ("first/sums/plain/tpu", "There is no published device 'tpu'", "cpu"),
        ("first/sums", "'first/sums' is not a cell", "STACK/SCENARIO/VARIANT"),
        ("first/sums/plain/cpu/0", "is not a cell", "STACK/SCENARIO/VARIANT"),
    ],
)
def test_an_unknown_part_is_an_error_with_a_suggestion(text: str, what: str, why: str) -> None:
    """This holds for every part."""
    with pytest.raises(UserError, match=what) as error:
        found(text)
    assert why in error.value.cause
