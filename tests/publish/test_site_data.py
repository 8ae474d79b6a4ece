"""The data of the filters: every cell in a few bytes, and nothing that a script would run."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

from gradmatrix.core.model import Role
from gradmatrix.publish.site.site import data_file
from tests.factories import (
    DAY,
    make_cell,
    make_lock,
    make_observation,
    make_record,
    make_scenario,
    make_variant,
)
from tests.sites import view_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradmatrix.core.model import Lock, Record

SCENARIO = make_scenario("sums", make_variant("plain"), make_variant("frozen", Role.MISUSE))


def data(*records: Record, locks: Sequence[Lock] = ()) -> dict[str, Any]:
    """The data that draw.js reads."""
    path, content = data_file(
        view_of(
            records,
            locks or [make_lock("old"), make_lock("new", as_of=DAY + dt.timedelta(1))],
            SCENARIO,
        )
    )
    assert "site/data.js" == path
    text = content.decode()
    head, tail = '"use strict";\nconst GRADMATRIX = ', ";\n"
    assert (True, True) == (text.startswith(head), text.endswith(tail))
    return dict(json.loads(text.removeprefix(head).removesuffix(tail)))


def cells(found: dict[str, Any], row: int = 0) -> list[list[str]]:
    """The kinds of a row's cells, the newest stack first."""
    return [found["kinds"][found["alphabet"].index(letter)] for letter in found["rows"][row][4]]


def test_a_row_has_a_letter_for_each_stack() -> None:
    """The newest stack comes first. A cell that was not run has a letter too."""
    found = data(make_record(cell=make_cell("new", "sums")))
    assert ["new", "old"] == [name for name, *_ in found["stacks"]]
    assert [
        ["p", "✓ trains", "#", "trains", "flowing"],
        ["x", "not run", "", "not run", ""],
    ] == cells(found)


def test_rates_are_separate_in_the_order_of_the_letters() -> None:
    """Cells that differ only in their rate are of one kind."""
    slow = make_observation(step_times_s=(1.0, 1.0, 1.0))
    found = data(
        make_record(cell=make_cell("new", "sums")),
        make_record(cell=make_cell("old", "sums"), observation=slow),
    )
    assert "4,1" == found["rows"][0][5]
    assert 1 == len(found["kinds"])


def test_versions_are_known_by_their_rank() -> None:
    """So the browser need not compare versions."""
    locks = [
        make_lock("a", versions={"torch": "2.10.0"}),
        make_lock("b", versions={"torch": "2.9.1", "trl": "1.0"}),
    ]
    found = data(locks=locks)
    assert ["2.9.1", "2.10.0"] == found["packages"]["torch"]
    assert {"a": [1, None, None, None, None], "b": [0, None, None, 0, None]} == {
        n: r for n, _, r, _ in found["stacks"]
    }


def test_the_build_of_torch_is_given_if_stacks_differ() -> None:
    """If all stacks have the same build, it says nothing."""
    locks = [make_lock("a"), make_lock("b")]
    unlike, alike = (
        data_file(view_of([], locks, SCENARIO, builds={"a": "cpu", "b": build}))[1].decode()
        for build in ("cuda", "cpu")
    )
    assert ('"cuda"' in unlike, '"cpu"' in alike) == (True, False)


def test_misuse_is_a_section_of_its_own() -> None:
    """The page has the same sections."""
    silent = make_record(
        "update:none",
        make_cell("new", "sums", "frozen"),
        role=Role.MISUSE,
        observation=make_observation(),
    )
    found = data(make_record(cell=make_cell("new", "sums")), silent)
    assert [["Does it train?", "cpu", False], ["Does the stack tell you?", "cpu", True]] == found[
        "sections"
    ]
    assert [[0, "sums", "plain", "control"], [1, "sums", "frozen", "misuse"]] == [
        row[:4] for row in found["rows"]
    ]


def test_the_file_holds_no_markup() -> None:
    """A browser may read the script as another kind of file."""
    lock = make_lock(versions={"torch": "</script>\u2028"})
    _, content = data_file(view_of([], [lock], SCENARIO))
    assert set() == {"<", "\u2028"} & set(content.decode())
