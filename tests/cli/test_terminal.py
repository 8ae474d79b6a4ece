"""What a run shows on the terminal, rendered on a recorded console without colours or progress."""

from __future__ import annotations

import datetime as dt
import io
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from gradmatrix.cli import show
from gradmatrix.core.model import Gradient, LockedPackage, Published, Record, Role
from gradmatrix.run.plan import Action, Planned
from gradmatrix.run.project import Agreement, gather
from gradmatrix.run.stack import Summary
from tests.factories import (
    DAY,
    make_cell,
    make_lock,
    make_observation,
    make_record,
    make_scenario,
    make_variant,
)

HOSTILE = "\x1b[31m[red]two\x1b[0m\nlines[/] \u202egnp.exe [/nonsense]"
HARMLESS = "[red]two lines[/] gnp.exe [/nonsense]"
SCENARIO = make_scenario(
    "sums",
    make_variant("plain"),
    make_variant("odd", Role.REPORTED),
    make_variant("frozen", Role.MISUSE),
)


@pytest.fixture
def console() -> Console:
    """A wide console that is no terminal, and records what is printed."""
    return Console(
        file=io.StringIO(),
        width=120,
        record=True,
        highlight=False,
        color_system=None,
        force_terminal=False,
    )


def shown(console: Console) -> list[str]:
    """The printed lines, without blanks at their ends."""
    return [line.rstrip() for line in console.export_text().splitlines()]


def published(*records: Record) -> Published:
    """A matrix of these records, on the stacks `new` and `old`."""
    return gather([make_lock("new"), make_lock("old")], {"sums": SCENARIO}, records)


def planned(variant: str, action: Action, why: str) -> Planned:
    """A planned cell."""
    cell = make_cell("new", "sums", variant)
    return Planned(cell, SCENARIO, SCENARIO.variants[0], "key", {}, action, why)


def test_the_matrix_has_a_column_per_stack_and_a_section_for_misuse(console: Console) -> None:
    """Scenario names once per group; symbols and words."""
    silent = make_record(
        "update:none",
        make_cell("new", "sums", "frozen"),
        role=Role.MISUSE,
        observation=make_observation(),
    )
    broken = make_record("step:no-grad-fn", make_cell("old", "sums", "odd"), role=Role.REPORTED)
    matrix = published(make_record(cell=make_cell("new", "sums", "plain")), broken, silent)
    show.show_matrix(console, matrix, ["new", "old"])
    lines = [" ".join(line.replace("│", " ").replace("┃", " ").split()) for line in shown(console)]
    assert [
        "Does it train? (cpu)",
        "scenario variant new old",
        "sums plain ✓ trains, 4/s not run",
        "odd not run ✗ step:no-grad-fn",
        "Does the stack tell you? (cpu)",
        "scenario variant new old",
        "sums frozen ✗ silent: update:none not run",
    ] == [line for line in lines if line and line[0] not in "┏┡└├"]


def test_a_variants_name_is_no_markup(console: Console) -> None:
    """Square brackets are letters like others."""
    scenario = make_scenario("sums", make_variant("[red]plain[/]"))
    record = make_record(cell=make_cell("new", "sums", "[red]plain[/]"))
    show.show_matrix(console, gather([make_lock("new")], {"sums": scenario}, [record]), ["new"])
    assert "[red]plain[/]" in console.export_text()


def test_only_the_stacks_that_were_asked_for_are_shown(console: Console) -> None:
    """The matrix may hold many more."""
    matrix = published(
        *(make_record(cell=make_cell(stack, "sums", "plain")) for stack in ("new", "old"))
    )
    show.show_matrix(console, matrix, ["old"])
    assert ("old" in console.export_text(clear=False), "new" in console.export_text()) == (
        True,
        False,
    )


def test_a_device_that_is_not_there_is_one_line(console: Console) -> None:
    """A table full of dashes says nothing more; hostile text in it has no effect."""
    missing = make_record(
        "setup:no-device", make_cell("new", "sums", "plain", "cuda"), passed=None, message=HOSTILE
    )
    show.show_matrix(console, published(missing), ["new"])
    assert [f"cuda: not judged, {HARMLESS}"] == shown(console)


def test_what_is_unsupported_on_a_device_is_a_table(console: Console) -> None:
    """It speaks of the stack."""
    record = make_record(
        "setup:unsupported", make_cell("new", "sums", "plain", "cuda"), passed=None
    )
    show.show_matrix(console, published(record), ["new"])
    assert "– setup:unsupported" in console.export_text()


def test_each_failure_is_one_line_with_what_was_seen(console: Console) -> None:
    """Misuse after the rest, and the command that repeats the first one."""
    cells = [make_cell("new", "sums", variant) for variant in ("frozen", "odd", "plain")]
    records = [
        make_record("update:none", cells[0], role=Role.MISUSE, message="nothing changed"),
        make_record("step:exception", cells[1], gradient=Gradient.FLOWING, message=HOSTILE),
        make_record(cell=cells[2]),
    ]
    show.show_failures(console, {record.cell: record for record in records})
    assert [
        "",
        "Did not pass: 1 control, 1 misuse",
        f"  ✗ new  sums/odd (control)  step:exception (gradient flowing)  {HARMLESS}",
        "  ✗ new  sums/frozen (misuse)  update:none  nothing changed",
        'To repeat one: nox -s "matrix(new)" -- --cell sums/odd --fresh',
    ] == shown(console)


def test_a_long_message_is_cut_on_a_terminal_and_whole_in_a_log(console: Console) -> None:
    """A log of CI is all that somebody may have."""
    record = make_record("step:exception", message="word " * 100 + "last")
    screen = Console(
        file=io.StringIO(), width=console.width, force_terminal=True, color_system=None, record=True
    )
    for each in (screen, console):
        show.show_failures(each, {record.cell: record})
    assert (4, "…") == (len(lines := shown(screen)), lines[2][-1])
    assert (4, "last") == (len(lines := shown(console)), lines[2].split()[-1])


@pytest.mark.parametrize(
    "record",
    [
        make_record(),
        make_record("setup:unsupported", passed=None),
        make_record("process:lost", passed=None),
    ],
)
def test_without_a_failure_nothing_is_printed(console: Console, record: Record) -> None:
    """A cell that was not judged is no failure."""
    show.show_failures(console, {record.cell: record})
    assert [] == shown(console)


def overview(console: Console, *records: Record, differing: int = 0) -> list[str]:
    """The screen after a run whose last ``differing`` records were published otherwise."""
    here = records[len(records) - differing :]
    pairs = tuple((each, replace(each, outcome="trains", passed=True)) for each in here)
    show.show_overview(console, records, Agreement(len(records), pairs), Path("results/local"))
    return shown(console)


def test_the_overview_says_what_trains_what_agrees_and_what_is_next(console: Console) -> None:
    """Misuse in a row of its own; what was not judged does not count."""
    lines = overview(
        console,
        make_record(cell=make_cell("new", "sums", "plain")),
        make_record("step:exception", make_cell("new", "sums", "odd"), role=Role.REPORTED),
        make_record("update:none", make_cell("new", "sums", "frozen"), role=Role.MISUSE),
        make_record("setup:unsupported", make_cell("new", "sums", "other"), passed=None),
    )
    assert [
        "",
        "What trains: cells that train, of those that were judged",
        "scenario                       new",
        "sums                           1 of 2",
        "all                            1 of 2",
        "misuse that the stack reports  0 of 1",
        "",
        "4 of 4 cells agree with the published matrix.",
        "1 cell does not train (1 reported).",
        "Cells with the role reported repeat a failure that users reported: on the affected stacks they are expected to fail.",
        "",
        "Next",
        "  results/local/matrix.md             every cell (also csv, json, parquet)",
        "  nox -s table -- -v                  every failure with its message",
        "  gradmatrix why new/sums/odd         why this cell fails",
        "  gradmatrix upgrade new --to latest  what an upgrade would change",
        "gradmatrix X is nox -s gradmatrix -- X in a checkout.",
    ] == lines


def test_cells_that_differ_are_named(console: Console) -> None:
    """The first of them, with both outcomes."""
    cells = [make_cell("new", "sums", f"v{number}") for number in range(6)]
    lines = overview(console, *(make_record("step:exception", cell) for cell in cells), differing=6)
    assert "0 of 6 cells agree with the published matrix." in lines
    assert "  new/sums/v3/cpu: step:exception (published: trains)" in lines
    assert "  and 2 more that differ" in lines


@pytest.mark.parametrize("stacks", [1, 4, 40])
def test_the_overview_fits_on_a_screen(console: Console, stacks: int) -> None:
    """Of 40 lines and 100 columns, however many stacks and differences there are."""
    records = [
        make_record("step:exception", make_cell(f"transformers-4.57-torch-2.{n}", f"s{m}", "v"))
        for n in range(stacks)
        for m in range(6)
    ]
    console.width = 100
    lines = overview(console, *records, differing=9)
    assert len(lines) <= 33  # nox prints some lines below
    assert max(map(len, lines)) <= 100


def test_without_a_verdict_the_overview_says_so(console: Console) -> None:
    """Nothing to count."""
    lines = overview(console, make_record("setup:unsupported", passed=None))
    assert ["No cell of these stacks was judged."] == lines


def test_a_summary_says_what_was_done_and_what_it_cost(console: Console) -> None:
    """Counts and seconds, and the notice on a line of its own."""
    summary = Summary(
        "new", executed=3, kept=2, settled=1, import_s=8.125, cells_s=1.5, notice=HOSTILE
    )
    show.show_summary(console, summary)
    assert [
        ("new: 3 cells ran, 2 are up to date, 1 need no run; imports 8.1 s, cells 1.5 s"),
        f"  note: {HARMLESS}",
    ] == shown(console)


def test_a_summary_without_a_notice_is_one_line(console: Console) -> None:
    """Nothing to tell."""
    show.show_summary(console, Summary("new"))
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
    show.show_fallen_behind(console, [old])
    assert ["  ⚠ trl 0.7 is 200 days older than 0.9"] == shown(console)


def test_explain_says_of_every_cell_why(console: Console) -> None:
    """What is done, the cell, the reason."""
    with show.Display(console, explain=True) as display:
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
    with show.Display(console, verbose=True) as display:
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
    with show.Display(console) as display:
        display.stage("new", "[/nonsense] importing")
        display.planned("new", [planned("plain", Action.RUN, "why")])
        display.ended(make_record(), "noise")
    assert [] == [line for line in shown(console) if line]


def test_the_list_shows_scenarios_and_variants(console: Console) -> None:
    """With their titles, roles and summaries."""
    show.show_plan(console, {"sums": SCENARIO})
    assert [
        "sums: The title of sums",
        "  1 control, 1 reported, 1 misuse",
        f"  {'plain':30} {'control':9} what plain means",
        f"  {'odd':30} {'reported':9} what odd means",
        f"  {'frozen':30} {'misuse':9} what frozen means",
    ] == shown(console)


def test_where_nobody_watches_what_takes_long_is_told_once(
    console: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log of CI is not silent for minutes; cells are no lines of it, and standard output is left alone."""
    with show.Display(console) as display:
        for text in (
            "installing",
            "installing",
            "sums plain",
            "measuring 1 of 2: sums/plain/cpu, 30 s at most",
        ):
            display.stage("new", text)
    expected = "new: installing\nnew: measuring 1 of 2: sums/plain/cpu, 30 s at most\n"
    assert (expected, []) == (capsys.readouterr().err, [line for line in shown(console) if line])
