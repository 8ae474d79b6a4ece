"""What a run prints while it works, on a recorded console without colours or progress."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from gradmatrix.cli.progress import Display, show_fallen_behind, show_summary
from gradmatrix.core.model import LockedPackage
from gradmatrix.run.plan import Action, Planned
from gradmatrix.run.stack import Summary
from tests.cli.conftest import HARMLESS, HOSTILE, SCENARIO, shown
from tests.factories import DAY, make_cell, make_record

if TYPE_CHECKING:
    import pytest
    from rich.console import Console


def planned(variant: str, action: Action, why: str) -> Planned:
    """A planned cell."""
    cell = make_cell("new", "sums", variant)
    return Planned(cell, SCENARIO, SCENARIO.variants[0], "key", {}, action, why)


def test_a_summary_says_what_was_done_and_what_it_cost(console: Console) -> None:
    """Counts and seconds, and the notice on a line of its own."""
    summary = Summary(
        "new", executed=3, kept=2, settled=1, import_s=8.125, cells_s=1.5, notice=HOSTILE
    )
    show_summary(console, summary)
    assert [
        ("new: 3 cells ran, 2 are up to date, 1 need no run; imports 8.1 s, cells 1.5 s"),
        f"  note: {HARMLESS}",
    ] == shown(console)


def test_a_summary_without_a_notice_is_one_line(console: Console) -> None:
    """Nothing to tell."""
    show_summary(console, Summary("new"))
    assert 1 == len(shown(console))


def test_what_has_fallen_behind_is_a_line_each(console: Console) -> None:
    """The resolver took it silently: here it is told."""
    old = LockedPackage(
        name="trl",
        version="0.7",
        released=DAY - dt.timedelta(days=200),
        newest="0.9",
        newest_released=DAY,
    )
    show_fallen_behind(console, [old])
    assert ["  ⚠ trl 0.7 is 200 days older than 0.9"] == shown(console)


def test_explain_says_of_every_cell_why(console: Console) -> None:
    """What is done, the cell, the reason."""
    with Display(console, explain=True) as display:
        display.planned(
            "new",
            [
                planned("plain", Action.RUN, "never run [here]"),
                planned("odd", Action.KEEP, "recorded"),
            ],
        )
    assert [
        "run      new/sums/plain/cpu: never run [here]",
        "keep     new/sums/odd/cpu: recorded",
    ] == [line for line in shown(console) if line]


def test_verbose_shows_what_the_script_printed(console: Console) -> None:
    """Under its outcome, without what could steer the terminal."""
    with Display(console, verbose=True) as display:
        display.ended(make_record(), f"first\n{HOSTILE}\n")
        display.ended(make_record(), "  \n")
    assert [
        "── stack/scenario/plain/cpu: trains",
        "first",
        "[red]two",
        "lines[/] gnp.exe [/nonsense]",
        "",
        "── stack/scenario/plain/cpu: trains",
    ] == shown(console)[:6]


def test_without_verbose_a_run_prints_nothing_of_its_own(console: Console) -> None:
    """A progress bar is not for a file; hostile names do no harm."""
    with Display(console) as display:
        display.stage("new", "[/nonsense] importing")
        display.planned("new", [planned("plain", Action.RUN, "why")])
        display.ended(make_record(), "noise")
    assert [] == [line for line in shown(console) if line]


def test_where_nobody_watches_what_takes_long_is_told_once(
    console: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log of CI is not silent for minutes; cells are no lines of it, and standard output is left alone."""
    with Display(console) as display:
        for text in (
            "installing",
            "installing",
            "sums plain",
            "measuring 1 of 2: sums/plain/cpu, 30 s at most",
        ):
            display.stage("new", text)
    expected = "new: installing\nnew: measuring 1 of 2: sums/plain/cpu, 30 s at most\n"
    assert (expected, []) == (capsys.readouterr().err, [line for line in shown(console) if line])
