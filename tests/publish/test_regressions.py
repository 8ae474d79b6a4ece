"""Regressions, as an issue and as data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import pytest

from gradmatrix.core.model import Role
from gradmatrix.judge.history import regressions
from gradmatrix.publish.feeds import MOST_BYTES, Reported, as_issue, reported
from tests.factories import make_cell, make_record, make_stopped
from tests.judge.test_history_flips import LOCKS, NEW, entry

if TYPE_CHECKING:
    from gradmatrix.core.model import Cell, Record

CELL = make_cell()


def regressed(
    *cells: Cell,
    changed: str = "lock",
    role: Role = Role.REPORTED,
    record: Record | None = None,
    base: str = "",
) -> tuple[Reported, ...]:
    """Cells that failed after a lock moved. ``record`` is the newest one of the first."""
    entries = [
        each
        for cell in cells or (CELL,)
        for each in (
            entry(cell=cell, role=role, passed=True),
            entry("step:exception", 1, changed, cell=cell, role=role, lock=NEW),
        )
    ]
    return reported(
        regressions(entries, LOCKS), {} if record is None else {record.cell: record}, base
    )


def test_a_regression_has_all_that_a_reader_needs() -> None:
    """It has both outcomes, the day, what moved, how to repeat it, and a link to the evidence."""
    text = as_issue(regressed())
    cell, evidence = "stack/scenario/plain on cpu", "cells/stack.html#scenario-plain-cpu"
    moved = "`transformers 4.1 → 5.0`, `aiohttp 3.1 → 3.2`, `tokenizers (none) → 1.0`"
    assert (
        f"""1 cell has regressed: passed with an earlier lock of the same stack, fails now.

## Regressed

### scenario: step:exception

- **{cell}**: trains → step:exception, since 2026-01-16 ([evidence]({evidence}))
  - The stack's lock moved: {moved}.
  - to repeat it: `gradmatrix run stack --cell scenario/plain --device cpu --fresh`
"""
        == text
    )


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            make_record("step:exception", message="it\n\x1b[31mbroke `here` @all"),
            "it broke 'here' @all",
        ),
        (
            make_record("step:no-grad-fn", observation=make_stopped()),
            "The loss does not depend on weight, and no operation was seen that cuts the graph.",
        ),
    ],
    ids=["message", "diagnosis"],
)
def test_the_first_line_of_the_diagnosis_is_shown(record: Record, expected: str) -> None:
    """Without one, it is the exception. It is code, so that it has no markup and no mention."""
    assert f"\n  - `{expected}`\n" in as_issue(regressed(record=record))


def test_a_change_of_our_own_code_at_the_same_time_comes_first() -> None:
    """Our own change may be the reason."""
    text = as_issue(regressed(changed="lock observer"))
    assert "For 1 of them our own measurement changed as well.\n" in text
    assert "Our own measurement changed: observer.\n" in text


def test_cells_are_grouped_by_scenario_and_outcome() -> None:
    """Each group has a title."""
    text = as_issue(
        regressed(*(make_cell(scenario=scenario, variant=v) for scenario in "ba" for v in "dc"))
    )
    lines = [line.split(":")[0] for line in text.splitlines() if line.startswith(("#", "- "))]
    expected = [
        "### a",
        "- **stack/a/c on cpu**",
        "- **stack/a/d on cpu**",
        "### b",
        "- **stack/b/c on cpu**",
    ]
    assert ["## Regressed", *expected, "- **stack/b/d on cpu**"] == lines


def test_misuse_that_became_silent_has_a_section_of_its_own() -> None:
    """Misuse must not look like a stack that cannot train."""
    found = (*regressed(make_cell(variant="misused"), role=Role.MISUSE), *regressed())
    titles = [line for line in as_issue(found).splitlines() if line.startswith("## ")]
    assert ["## Regressed", "## Mistakes that used to be reported and are now silent"] == titles


def test_an_issue_is_never_too_long() -> None:
    """What is left out is counted."""
    found = regressed(*(make_cell(variant=f"variant-{number}") for number in range(500)))
    text = as_issue(found, "https://example.org/")
    shown = text.count("\n- **")
    assert MOST_BYTES - 1000 < len(text.encode()) <= MOST_BYTES
    assert text.endswith(
        f"\n… and {500 - shown} more: [history](https://example.org/history.html)\n"
    )


def test_an_issue_without_regressions_says_so() -> None:
    """The night then closes the issue."""
    assert "No cell of the published matrix has regressed.\n" == as_issue(())


def test_a_base_is_put_before_the_pages() -> None:
    """An issue is not on the published site, so links are absolute."""
    assert "(https://example.org/cells/stack.html#scenario-plain-cpu)" in as_issue(
        regressed(base="https://example.org/")
    )


def test_names_are_no_markup() -> None:
    """Names may come from anybody."""
    text = as_issue(regressed(make_cell(variant="<img>|*x*[y](z)")))
    assert "**stack/scenario/&lt;img&gt;\\|\\*x\\*\\[y\\](z) on cpu**" in text


def test_names_from_records_are_code() -> None:
    """A machine or a build may be called anything, and the issue mentions nobody."""
    entries = [
        entry(device="A100 #1"),
        entry(
            "step:exception", 1, "lock device build", device="@all `x`", build="www.evil.example"
        ),
    ]
    text = as_issue(reported(regressions(entries, LOCKS), {}))
    assert (
        "`tokenizers (none) → 1.0`. It ran on another machine: `A100 #1` → `@all 'x'`. It ran on"
        in text
    )
    assert "→ `www.evil.example`.\n" in text


def test_as_data_it_has_every_package_that_moved() -> None:
    """Both versions of each package are there."""
    [found] = json.loads(msgspec.json.encode(regressed()))
    assert {
        "transformers": ["4.1", "5.0"],
        "aiohttp": ["3.1", "3.2"],
        "tokenizers": [None, "1.0"],
    } == found["moved"]
