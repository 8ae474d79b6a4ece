"""The screens of the matrix, printed on a recorded console without colours."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from gradmatrix.cli.show_matrix import show_failures, show_matrix, show_overview, show_plan
from gradmatrix.core.model import Gradient, Published, Record, Role
from gradmatrix.run.project import Agreement, gather
from tests.cli.conftest import HARMLESS, HOSTILE, SCENARIO, shown
from tests.factories import (
    make_cell,
    make_lock,
    make_observation,
    make_record,
    make_scenario,
    make_variant,
)


def published(*records: Record) -> Published:
    """A matrix of these records, on the stacks `new` and `old`."""
    return gather([make_lock("new"), make_lock("old")], {"sums": SCENARIO}, records)


def test_the_matrix_has_a_column_per_stack_and_a_section_for_misuse(console: Console) -> None:
    """The name of a scenario is printed once; cells have a symbol and words."""
    silent = make_record(
        "update:none",
        make_cell("new", "sums", "frozen"),
        role=Role.MISUSE,
        observation=make_observation(),
    )
    broken = make_record("step:no-grad-fn", make_cell("old", "sums", "odd"), role=Role.REPORTED)
    matrix = published(make_record(cell=make_cell("new", "sums", "plain")), broken, silent)
    show_matrix(console, matrix, ["new", "old"])
    borders = str.maketrans("│┃", "  ")
    lines = [" ".join(line.translate(borders).split()) for line in shown(console)]
    assert [
        "Does it train? (cpu)",
        "scenario variant new old",
        "sums plain ✓ trains, 4/s not run",
        "odd not run ✗ step:no-grad-fn",
        "Does the stack tell you? (cpu)",
        "scenario variant new old",
        "sums frozen ✗ silent: update:none not run",
    ] == [line for line in lines if line and line[0] not in "┏┡└├"]


def test_markup_in_a_variants_name_is_printed_as_it_is(console: Console) -> None:
    """Square brackets have no effect."""
    scenario = make_scenario("sums", make_variant("[red]plain[/]"))
    record = make_record(cell=make_cell("new", "sums", "[red]plain[/]"))
    show_matrix(console, gather([make_lock("new")], {"sums": scenario}, [record]), ["new"])
    assert "[red]plain[/]" in console.export_text()


def test_only_the_stacks_that_were_asked_for_are_shown(console: Console) -> None:
    """The matrix may have many more."""
    matrix = published(
        *(make_record(cell=make_cell(stack, "sums", "plain")) for stack in ("new", "old"))
    )
    show_matrix(console, matrix, ["old"])
    assert ("old" in console.export_text(clear=False), "new" in console.export_text()) == (
        True,
        False,
    )


def test_a_device_that_no_record_has_is_one_line(console: Console) -> None:
    """A table full of dashes says nothing more. The records may come from another machine."""
    missing = make_record(
        "setup:no-device",
        make_cell("new", "sums", "plain", "cuda"),
        passed=None,
        message="this machine has none",
    )
    show_matrix(console, published(missing), ["new"])
    why = "because the machine that made these records has no such device"
    assert [f"cuda: not judged, {why}"] == shown(console)


def test_unsupported_cells_are_shown_in_a_table(console: Console) -> None:
    """They say something about the stack."""
    record = make_record(
        "setup:unsupported", make_cell("new", "sums", "plain", "cuda"), passed=None
    )
    show_matrix(console, published(record), ["new"])
    assert "– setup:unsupported" in console.export_text()


def test_each_failure_is_one_line_with_its_message(console: Console) -> None:
    """Misuse comes last. The command that repeats the first failure follows."""
    cells = [make_cell("new", "sums", variant) for variant in ("frozen", "odd", "plain")]
    records = [
        make_record("update:none", cells[0], role=Role.MISUSE, message="nothing changed"),
        make_record("step:exception", cells[1], gradient=Gradient.FLOWING, message=HOSTILE),
        make_record(cell=cells[2]),
    ]
    show_failures(console, {record.cell: record for record in records})
    assert [
        "",
        "Did not pass: 1 control, 1 misuse",
        f"  ✗ new  sums/odd (control)  step:exception (gradient flowing)  {HARMLESS}",
        "  ✗ new  sums/frozen (misuse)  update:none  nothing changed",
        "To repeat one: gradmatrix run new --cell sums/odd --fresh",
    ] == shown(console)


def test_a_long_message_is_cut_on_a_terminal_and_whole_in_a_log(console: Console) -> None:
    """In CI, the log may be all that there is."""
    record = make_record("step:exception", message="word " * 100 + "last")
    screen = Console(
        file=io.StringIO(), width=console.width, force_terminal=True, color_system=None, record=True
    )
    for each in (screen, console):
        show_failures(each, {record.cell: record})
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
    """A cell that was not judged is not a failure."""
    show_failures(console, {record.cell: record})
    assert [] == shown(console)


def overview(console: Console, *records: Record, differing: int = 0) -> list[str]:
    """The last screen of a run. The last ``differing`` records differ from the published ones."""
    here = records[len(records) - differing :]
    pairs = tuple((each, replace(each, outcome="trains", passed=True)) for each in here)
    show_overview(console, records, Agreement(len(records), pairs), Path("results/local"))
    return shown(console)


def test_the_overview_says_what_trains_what_agrees_and_what_is_next(console: Console) -> None:
    """Misuse has a row of its own. Cells that were not judged do not count."""
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
        (
            "Cells with the role reported repeat a failure that users reported: on the affected "
            "stacks they are expected to fail."
        ),
        "",
        "Next",
        "  results/local/matrix.md             every cell (also csv, parquet, json)",
        "  gradmatrix table -v                 every failure with its message",
        "  gradmatrix why new/sums/odd         why this cell fails",
        "  gradmatrix upgrade new --to latest  what an upgrade would change",
    ] == lines


@pytest.mark.parametrize(
    ("stacks", "expected"),
    [(("latest",), []), (("latest", "old"), ["gradmatrix upgrade old --to latest"])],
)
def test_an_upgrade_to_latest_is_suggested_for_another_stack_only(
    console: Console, stacks: tuple[str, ...], expected: list[str]
) -> None:
    """Both sides of `upgrade latest --to latest` would be the same."""
    lines = overview(
        console, *(make_record("step:exception", make_cell(stack)) for stack in stacks)
    )
    suggested = [line.partition("  what ")[0].strip() for line in lines if " upgrade " in line]
    assert expected == suggested


def test_cells_that_differ_from_the_published_ones_are_named(console: Console) -> None:
    """The first of them, with both outcomes."""
    cells = [make_cell("new", "sums", f"v{number}") for number in range(6)]
    lines = overview(console, *(make_record("step:exception", cell) for cell in cells), differing=6)
    assert "0 of 6 cells agree with the published matrix." in lines
    assert "  new/sums/v3/cpu: step:exception (published: trains)" in lines
    assert "  and 2 more that differ" in lines


def test_flaky_cells_are_named_with_their_rate(console: Console) -> None:
    """The rate is over all runs with the same key."""
    record = make_record(cell=make_cell("new", "sums", "odd"), repeats=("process:exit-3", "trains"))
    lines = overview(console, record)
    assert "flaky: new/sums/odd/cpu: process:exit-3 1 of 3, trains 2 of 3" in lines


@pytest.mark.parametrize("stacks", [1, 4, 40])
def test_the_overview_fits_on_a_screen(console: Console, stacks: int) -> None:
    """It has at most 40 lines of 100 columns, with any number of stacks and differences."""
    records = [
        make_record(
            "step:exception",
            make_cell(f"transformers-4.57-torch-2.{n}", f"s{m}", "v"),
            repeats=("trains",),
        )
        for n in range(stacks)
        for m in range(6)
    ]
    console.width = 100
    lines = overview(console, *records, differing=9)
    assert len(lines) <= 34  # nox prints some lines below
    assert max(map(len, lines)) <= 100


def test_without_a_judged_cell_the_overview_says_so(console: Console) -> None:
    """There is nothing to count."""
    lines = overview(console, make_record("setup:unsupported", passed=None))
    assert ["No cell of these stacks was judged."] == lines


def test_the_list_shows_scenarios_and_variants(console: Console) -> None:
    """With their titles, roles and summaries."""
    show_plan(console, {"sums": SCENARIO})
    assert [
        "sums: The title of sums",
        "  1 control, 1 reported, 1 misuse",
        f"  {'plain':30} {'control':9} what plain means",
        f"  {'odd':30} {'reported':9} what odd means",
        f"  {'frozen':30} {'misuse':9} what frozen means",
    ] == shown(console)
