"""Badges: what they say, and in which colour."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gradmatrix.core.model import Role
from gradmatrix.publish.feeds import badges
from gradmatrix.publish.rows import rows_of, tabulated
from tests.factories import make_cell, make_lock, make_record, make_scenario

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gradmatrix.core.model import Record

LETTERS = {"c": Role.CONTROL, "r": Role.REPORTED, "m": Role.REMEDY, "i": Role.MISUSE}
OUTCOMES = {"+": "trains", "-": "step:exception", "0": "setup:unsupported"}


def badges_of(cells: str) -> dict[str, dict[str, object]]:
    """The badges of a stack; each cell is the letter of a role and a sign: + trains, - fails, 0 was not judged."""
    passed = {"+": True, "-": False, "0": None}
    return read(
        make_record(
            OUTCOMES[each[1]],
            make_cell(variant=f"v{number}"),
            role=LETTERS[each[0]],
            passed=passed[each[1]],
        )
        for number, each in enumerate(cells.split())
    )


def read(records: Iterable[Record]) -> dict[str, dict[str, object]]:
    """The badges of some records of one stack."""
    table = tabulated((make_lock(),), {"scenario": make_scenario()}, rows_of(records, {}))
    return {path: json.loads(content) for path, content in badges(table)}


@pytest.mark.parametrize(
    ("cells", "message", "color"),
    [
        ("c+ r+ r+", "2 of 2 reports train", "brightgreen"),
        ("c+ r+ r-", "1 of 2 reports train", "yellow"),
        ("c+ r- m+", "0 of 1 reports train", "orange"),
        ("c+ r- m-", "0 of 1 reports train", "red"),
        ("c+ c- r+", "1 of 2 controls fail", "red"),
        ("c+ r0", "1 of 1 controls train", "brightgreen"),
        ("m-", "0 of 1 remedies train", "red"),
        ("m+ m-", "1 of 2 remedies train", "yellow"),
        ("c0 r0", "not judged", "lightgrey"),
        ("i- c+", "1 of 1 controls train", "brightgreen"),
    ],
)
def test_a_badge_counts_the_reports_and_trusts_the_controls(
    cells: str, message: str, color: str
) -> None:
    """Misuse is left out, what was not judged too."""
    badge = badges_of(cells)["stack.json"]
    assert (message, color) == (badge["message"], badge["color"])


def test_a_badge_is_what_shields_reads() -> None:
    """Its endpoint schema, a file per stack and one per scenario of it."""
    assert {
        "stack.json": {
            "schemaVersion": 1,
            "label": "stack",
            "message": "1 of 1 reports train",
            "color": "brightgreen",
        },
        "stack/scenario.json": {
            "schemaVersion": 1,
            "label": "scenario on stack",
            "message": "1 of 1 reports train",
            "color": "brightgreen",
        },
    } == badges_of("r+")


def test_a_variant_trains_where_it_does_on_every_device() -> None:
    """It counts once."""
    records = [
        make_record(outcome, make_cell(device=device), role=Role.REPORTED)
        for device, outcome in (("cpu", "trains"), ("cuda", "step:exception"))
    ]
    assert "0 of 1 reports train" == read(records)["stack.json"]["message"]


def test_a_stack_without_cells_has_a_badge() -> None:
    """An address in a README must not break."""
    assert {"stack.json": "not judged"} == {
        path: badge["message"] for path, badge in read([]).items()
    }
