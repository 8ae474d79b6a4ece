"""What a run prints while it works, on a recorded console without colours or progress."""

from __future__ import annotations

import datetime as dt
import io

import pytest
from rich.console import Console

from gradmatrix.cli.progress import Display, show_fallen_behind, show_isolation, show_summary
from gradmatrix.core.model import LockedPackage
from gradmatrix.run.plan import Action, Planned
from gradmatrix.run.stack import Summary
from tests.cli.conftest import HARMLESS, HOSTILE, SCENARIO, shown
from tests.factories import DAY, make_cell, make_record


def planned(variant: str, action: Action, why: str) -> Planned:
    """A planned cell."""
    cell = make_cell("new", "sums", variant)
    return Planned(cell, SCENARIO, SCENARIO.variants[0], "key", {}, action, why)


def test_a_summary_says_what_was_done_and_what_it_cost(console: Console) -> None:
    """Counts and seconds, and the notice on its own line."""
    summary = Summary(
        "new", executed=3, kept=2, settled=1, import_s=8.125, cells_s=1.5, notice=HOSTILE
    )
    show_summary(console, summary)
    assert [
        ("new: 3 cells ran, 2 are up to date, 1 need no run; imports 8.1 s, cells 1.5 s"),
        f"  note: {HARMLESS}",
    ] == shown(console)


def test_a_summary_counts_the_failures_of_the_machine(console: Console) -> None:
    """They were tried again, and are not in the matrix."""
    show_summary(console, Summary("new", repeated={"process:lost": 2, "process:disk-full": 1}))
    expected = "  failures of the machine, tried again: 2 process:lost, 1 process:disk-full"
    assert expected == shown(console)[1]


@pytest.mark.parametrize(("taken", "lines"), [(True, 0), (False, 1)])
def test_cells_with_a_network_are_a_note(
    console: Console, monkeypatch: pytest.MonkeyPatch, taken: bool, lines: int
) -> None:
    """Without --explain nothing is printed where there is none."""
    monkeypatch.setattr("gradmatrix.stacks.sandbox.takes_network_away", lambda: taken)
    show_isolation(console, explain=False)
    assert lines == len(shown(console))


def test_a_summary_without_a_notice_is_one_line(console: Console) -> None:
    """There is nothing else to print."""
    show_summary(console, Summary("new"))
    assert 1 == len(shown(console))


def test_each_old_package_has_a_line(console: Console) -> None:
    """The resolver took the old release silently."""
    old = LockedPackage(
        name="trl",
        version="0.7",
        released=DAY - dt.timedelta(days=200),
        newest="0.9",
        newest_released=DAY,
    )
    show_fallen_behind(console, [old])
    assert ["  ⚠ trl 0.7 is 200 days older than 0.9"] == shown(console)


def test_explain_says_why_each_cell_is_run_or_not(console: Console) -> None:
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


def test_verbose_prints_the_output_of_scripts(console: Console) -> None:
    """Below the outcome, without control characters for the terminal."""
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


def test_without_verbose_nothing_is_printed_into_a_file(console: Console) -> None:
    """A progress bar is only for a terminal. Names with markup do no harm."""
    with Display(console) as display:
        display.stage("new", "[/nonsense] importing")
        display.planned("new", [planned("plain", Action.RUN, "why")])
        display.ended(make_record(), "noise")
    assert [] == [line for line in shown(console) if line]


def test_without_a_terminal_each_long_stage_is_printed_once(
    console: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log of a CI job is not silent for minutes.

    Cells have no line, and nothing goes to the standard output.
    """
    with Display(console) as display:
        for text in (
            "installing",
            "installing",
            "note: it is large",
            "sums plain",
            "measuring 1 of 2: sums/plain/cpu, 30 s at most",
        ):
            display.stage("new", text)
    expected = (
        "new: installing\nnew: note: it is large\n"
        "new: measuring 1 of 2: sums/plain/cpu, 30 s at most\n"
    )
    assert (expected, []) == (capsys.readouterr().err, [line for line in shown(console) if line])


def test_a_note_stays_on_a_terminal() -> None:
    """The bar forgets what else it showed."""
    terminal = Console(file=io.StringIO(), width=120, record=True, force_terminal=True)
    with Display(terminal) as display:
        display.stage("new", "note: it is large")
        display.stage("new", "installing: torch")
    assert any(line.endswith("new: note: it is large") for line in shown(terminal))
