"""Find a published cell by the text that people write."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from gradmatrix.core.errors import UserError
from gradmatrix.judge.history import entry
from gradmatrix.run import lookup
from gradmatrix.run.project import Project
from tests.cli.test_cli import write_lock
from tests.factories import NOON, make_cell, make_lock, make_record

if TYPE_CHECKING:
    from pathlib import Path

MATRIX = """
[run]
devices = ["cpu", "cuda"]
scenarios = []

[[scripts]]
name = "sums"
path = "sums.py"
"""
STACK = """
[[stacks]]
name = "{name}"
python = "3.11"
as_of = {as_of}
requirements = ["torch"]
"""
DATES = {"zeroth": "2025-01-15", "first": "2026-01-15"}
CUDA = make_record("trains", make_cell("first", "sums", "plain", "cuda"))
CPU = make_record("setup:no-device", make_cell("first", "sums", "plain", "cpu"), passed=None)
FROZEN = make_record("trains", make_cell("first", "sums", "frozen", "cpu"))
OLD = make_record("trains", make_cell("zeroth", "sums", "plain", "cpu"))
OLD_ONLY = make_record("trains", make_cell("zeroth", "sums", "old", "cpu"))
UNJUDGED = make_record("setup:unsupported", make_cell("first", "sums", "old"), passed=None)
RECORDS = {record.cell: record for record in (OLD, CUDA, CPU, FROZEN, UNJUDGED, OLD_ONLY)}
Find = Callable[[str], object]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Two stacks, of which the name says nothing about the age."""
    stacks = [STACK.format(name=name, as_of=day) for name, day in DATES.items()]
    (tmp_path / "matrix.toml").write_text(MATRIX + "".join(stacks), encoding="utf-8")
    for name, day in DATES.items():
        write_lock(tmp_path, make_lock(name), dt.date.fromisoformat(day))
    return Project.at(tmp_path)


@pytest.fixture
def found(project: Project) -> Find:
    """The record that a text names."""
    return lambda text: lookup.find(text, RECORDS, project)


def test_a_cell_with_its_device(found: Find) -> None:
    """The text is the one that is printed."""
    assert CPU is found(str(CPU.cell))


def test_without_a_device_the_one_that_was_judged_is_meant(found: Find) -> None:
    """The first judged device is taken."""
    assert (CUDA, FROZEN) == (found("first/sums/plain"), found("first/sums/frozen"))


def test_without_a_stack_the_newest_on_which_it_was_judged_is_meant(found: Find) -> None:
    """By the date of its lock. A device may be named too."""
    assert (CUDA, OLD_ONLY) == (found("sums/plain"), found("sums/old"))
    assert OLD is found("sums/plain/cpu")


def test_whatever_is_known_of_cells_can_be_asked_for(project: Project) -> None:
    """Entries of a history, which have no observation, can be found too."""
    entries = {record.cell: entry(record, NOON) for record in (CUDA, CPU)}
    assert entries[CUDA.cell] is lookup.find("first/sums/plain", entries, project)


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
        ("sums/plane", "There is no published variant of sums 'plane'", "you meant 'plain'"),
        ("first/sums/plain/cpu/0", "is not a cell", "STACK/SCENARIO/VARIANT"),
    ],
)
def test_an_unknown_part_is_an_error_with_a_suggestion(
    found: Find, text: str, what: str, why: str
) -> None:
    """This holds for every part."""
    with pytest.raises(UserError, match=what) as error:
        found(text)
    assert why in error.value.cause
