"""The matrix for readers: what is written to results/, compared with the files in tests/golden/.

After a wanted change of a renderer, run this file with ``UPDATE_GOLDEN=1``, and read the diff.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pandas as pd
import pytest

from gradmatrix.core.model import Failure, Gradient, LockedPackage, Record, Role
from gradmatrix.publish import formats
from gradmatrix.publish.formats import (
    FORMATS,
    Results,
    as_markdown,
    described,
    headline,
    remedies_frame,
)
from gradmatrix.publish.publication import write_data
from gradmatrix.publish.rows import Explained, Table, grid, rows_of, tabulated
from gradmatrix.run.project import by_date, of_matrix
from tests.factories import (
    DAY,
    make_cell,
    make_lock,
    make_observation,
    make_record,
    make_scenario,
    make_variant,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gradmatrix.core.model import Lock

GOLDEN = Path(__file__).parent.parent / "golden"
HOSTILE = {
    "formula": "=cmd|' /C calc'!A0",
    "markup": "<script>alert('x')</script> | `code` *bold* [link](x) \\",
    "terminal": "\x1b[31mred\x1b[0m\x1b]8;;x\x07 \x9b1m\r\nsecond line\ttab",
    "direction": "\u202egnp.exe\u202c \u200fabc\u2066def\u2069",
}
SCENARIOS = {
    "sums": make_scenario(
        "sums",
        make_variant("plain"),
        make_variant("reported", Role.REPORTED),
        make_variant("half", Role.REPORTED),
        make_variant("remedy", Role.REMEDY),
        make_variant("frozen", Role.MISUSE),
        make_variant("lr_zero", Role.MISUSE),
    ),
    "products": make_scenario("products", make_variant("plain")),
}
LOCKS = [
    make_lock("new", versions={"torch": "2.6.0", "trl": "0.15.2"}, as_of=dt.date(2026, 3, 1)),
    make_lock(
        "old",
        as_of=dt.date(2023, 6, 20),
        requirements=("torch", "trl"),
        packages=(
            LockedPackage(name="numpy", version="1.25.0"),
            LockedPackage(
                name="torch", version="2.0.1", released=DAY, newest="2.0.1", newest_released=DAY
            ),
            LockedPackage(
                name="trl",
                version="0.1.0",
                released=dt.date(2022, 6, 20),
                newest="0.4.4",
                newest_released=dt.date(2023, 6, 20),
            ),
        ),
    ),
    make_lock(
        "torn",
        versions={},
        digest="",
        failure=Failure(outcome="resolve:conflict", message=HOSTILE["markup"]),
    ),
]


def at(
    stack: str,
    scenario: str,
    variant: str,
    outcome: str = "trains",
    device: str = "cpu",
    **fields: object,
) -> Record:
    """A record of a cell of the sample."""
    return make_record(outcome, make_cell(stack, scenario, variant, device), **fields)


def records() -> list[Record]:
    """A cell of every kind, in no particular order."""
    silent: dict[str, Any] = {
        "role": Role.MISUSE,
        "gradient": Gradient.NONE,
        "observation": make_observation("nnnn"),
    }
    failed: dict[str, Any] = {"isolation": "none", "build": ""}
    not_run: dict[str, Any] = {"passed": None, **failed}
    return [
        at(
            "new",
            "sums",
            "plain",
            "setup:no-device",
            "cuda",
            **not_run,
            message=HOSTILE["terminal"],
        ),
        at("new", "sums", "plain"),
        at(
            "new",
            "sums",
            "reported",
            "step:no-grad-fn",
            gradient=Gradient.NONE,
            role=Role.REPORTED,
            message=HOSTILE["formula"],
        ),
        at(
            "new",
            "sums",
            "half",
            "step:exception",
            gradient=Gradient.PARTIAL,
            role=Role.REPORTED,
            message=HOSTILE["direction"],
        ),
        at(
            "new",
            "sums",
            "remedy",
            role=Role.REMEDY,
            observation=make_observation(step_times_s=(0.03125, 0.015625)),
        ),
        at(
            "new",
            "sums",
            "frozen",
            "step:no-grad-fn",
            **silent,
            passed=True,
            message=HOSTILE["markup"],
        ),
        at(
            "new",
            "sums",
            "lr_zero",
            "update:none",
            **silent,
            passed=False,
            message=HOSTILE["terminal"],
        ),
        at(
            "old",
            "products",
            "plain",
            "setup:unsupported",
            **not_run,
            message="needs trl>=0.14, this stack has 0.1.0",
        ),
        at(
            "old", "sums", "plain", "gradient:partial", gradient=Gradient.PARTIAL, message="-1 of 2"
        ),
        at("old", "sums", "reported", "process:lost", **not_run, role=Role.REPORTED),
        *(
            at("torn", s.name, v.name, "resolve:conflict", **failed, role=v.role)
            for s in SCENARIOS.values()
            for v in s.variants
        ),
        at("gone", "sums", "plain"),
        at("new", "sums", "gone"),
        at("new", "gone", "plain"),
    ]


def gather(locks: Iterable[Lock], records: Iterable[Record]) -> Table:
    """The table of ``records``."""
    ordered = by_date(locks)
    names = {lock.stack for lock in ordered}
    kept = of_matrix((record for record in records if record.cell.stack in names), SCENARIOS)
    return tabulated(ordered, SCENARIOS, rows_of(kept, SCENARIOS))


def content(name: str, table: Table) -> bytes:
    """The content of a data file."""
    return b"".join(FORMATS[name].pieces(Results(table)))


def as_json(table: Table) -> bytes:
    """matrix.json of a machine with CUDA builds for one stack."""
    return content("matrix.json", replace(table, builds={"new": "cuda"}))


@pytest.fixture
def published() -> Table:
    """The table of the sample."""
    return gather(LOCKS, records())


def golden(name: str, content: bytes) -> bytes:
    """The expected ``content``, from the golden file."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_bytes(content)
    return path.read_bytes()


def test_the_page_is_as_golden(published: Table) -> None:
    """matrix.md is as in the golden file."""
    page = as_markdown(published).encode()
    assert golden("matrix.md", page).decode() == page.decode()


def test_the_table_is_as_golden(published: Table) -> None:
    """matrix.csv is as in the golden file."""
    table = content("matrix.csv", published)
    assert golden("matrix.csv", table).decode() == table.decode()


def test_csv_is_the_same_in_pieces(published: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large table is written some rows at a time."""
    whole = content("matrix.csv", published)
    monkeypatch.setattr(formats, "PIECE_ROWS", 3)
    pieces = list(FORMATS["matrix.csv"].pieces(Results(published)))
    assert (whole, True) == (b"".join(pieces), len(pieces) > 2)


def test_the_data_is_as_golden(published: Table) -> None:
    """matrix.json is as in the golden file."""
    data = as_json(published)
    assert golden("matrix.json", data).decode() == data.decode()


def test_the_data_has_the_promised_keys(published: Table) -> None:
    """Others read these keys by name. Keys may be added and never removed."""
    data = json.loads(as_json(published))
    assert (1, {"schema", "stacks", "cells"}) == (data["schema"], set(data))
    assert all(
        {"name", "python", "as_of", "packages", "build"} <= set(stack) for stack in data["stacks"]
    )
    keys = (
        "stack scenario variant role device outcome passed gradient steps_per_s peak_memory_bytes "
        "message raised warnings diagnosis flaky recorded_at key"
    )
    assert {keys} == {" ".join(cell) for cell in data["cells"]}
    speeds = [cell["steps_per_s"] for cell in data["cells"] if cell["outcome"] == "trains"]
    assert [{"median", "low", "high", "samples"}] * len(speeds) == [set(speed) for speed in speeds]
    assert {None} == {cell["steps_per_s"] for cell in data["cells"] if cell["outcome"] != "trains"}


def test_the_data_keeps_messages_as_they_were(published: Table) -> None:
    """JSON escapes what must be escaped."""
    messages = {cell["message"] for cell in json.loads(as_json(published))["cells"]}
    assert set(HOSTILE.values()) <= messages


def test_a_machine_reads_the_table_back(published: Table) -> None:
    """Hostile text neither breaks a row nor becomes a formula."""
    rows = list(csv.DictReader(io.StringIO(content("matrix.csv", published).decode(), newline="")))
    assert len(published.rows) == len(rows)
    assert {row["message"][:1] for row in rows} & {"=", "+", "-", "@", "\t", "\r"} == set()
    assert {"", "true", "false"} == {row["passed"] for row in rows}
    assert {"", "123456789"} == {row["peak_memory_bytes"] for row in rows}


def test_hostile_text_adds_no_column_and_no_markup_to_the_page(published: Table) -> None:
    """Every row of a table has the columns of its header."""
    page = as_markdown(published)
    assert ("<script" in page, "\x1b" in page, "\u202e" in page) == (False, False, False)
    tables = [block.splitlines() for block in page.split("\n\n") if block.startswith("| scenario")]
    assert [{5}, {6}, {6}] == [
        {len(re.findall(r"(?<!\\)\|", line)) for line in table} for table in tables
    ]


def test_cells_of_removed_parts_are_not_published(published: Table) -> None:
    """A stack, a scenario and a variant were removed."""
    cells = [row.cell for row in published.rows]
    assert [] == [cell for cell in cells if "gone" in {cell.stack, cell.scenario, cell.variant}]


def test_stacks_stand_in_the_order_of_their_dates(published: Table) -> None:
    """The oldest comes first; names do not matter."""
    assert ["old", "torn", "new"] == published.stacks


def test_the_order_of_the_records_does_not_matter(published: Table) -> None:
    """Journals differ between checkouts, but published files do not."""
    other = gather(reversed(LOCKS), reversed(records()))
    assert [render(published) for render in (as_json, as_markdown)] == [
        render(other) for render in (as_json, as_markdown)
    ]


def test_writing_again_changes_no_byte(tmp_path: Path, published: Table) -> None:
    """If nothing changed, there is no diff."""
    write_data(tmp_path, Results(published))
    before = [(path.name, path.read_bytes()) for path in sorted(tmp_path.iterdir())]
    write_data(tmp_path, Results(gather(LOCKS, records())))
    after = [(path.name, path.read_bytes()) for path in sorted(tmp_path.iterdir())]
    assert sorted(FORMATS) == [name for name, _ in before]
    assert before == after


def test_the_table_for_analysis_has_types(published: Table) -> None:
    """What was not judged is missing, a number is a number, a moment is a moment."""
    table = pd.read_parquet(io.BytesIO(content("matrix.parquet", published)))
    types = {
        name: str(table[name].dtype) for name in ("passed", "steps_per_s", "peak_memory_bytes")
    }
    assert {"passed": "boolean", "steps_per_s": "Float64", "peak_memory_bytes": "Int64"} == types
    assert str(table["recorded_at"].dtype).endswith("UTC]")
    assert set(HOSTILE.values()) <= set(table["message"])


@pytest.mark.parametrize("locks", [[], LOCKS])
def test_a_matrix_without_records_is_written(tmp_path: Path, locks: list[Any]) -> None:
    """There are no records before the first run."""
    write_data(tmp_path, Results(gather(locks, [])))
    assert [] == json.loads((tmp_path / "matrix.json").read_bytes())["cells"]
    assert 1 == len((tmp_path / "matrix.csv").read_text(encoding="utf-8").splitlines())


def test_a_matrix_in_which_nothing_was_judged_is_written(tmp_path: Path) -> None:
    """Every cell is unsupported, and the table says so in each."""
    record = at("new", "sums", "plain", "setup:unsupported", passed=None, observation=None)
    write_data(tmp_path, Results(gather(LOCKS, [record])))
    assert "| **sums** | `plain` | not run | not run | – setup:unsupported |" in (
        tmp_path / "matrix.md"
    ).read_text(encoding="utf-8")


def test_the_build_of_a_stack_is_published(published: Table) -> None:
    """It is known if something ran."""
    stacks = json.loads(as_json(published))["stacks"]
    assert {"old": None, "torn": None, "new": "cuda"} == {
        stack["name"]: stack["build"] for stack in stacks
    }


def test_rows_follow_the_scenarios_and_columns_the_stacks(published: Table) -> None:
    """The order is not alphabetic."""
    table = grid(published.of_device("cpu"), published.scenarios, published.stacks)
    expected = [(s.name, v.name) for s in SCENARIOS.values() for v in s.variants]
    assert (expected, ("old", "torn", "new")) == ([row[:2] for row in table.rows], table.stacks)


def test_cells_that_nobody_ran_say_so(published: Table) -> None:
    """An empty cell would look like a result."""
    table = grid(published.of_device("cpu"), published.scenarios, published.stacks)
    cells = {row[:2]: dict(zip(table.stacks, row[2], strict=True)) for row in table.rows}
    assert "not run" == cells["products", "plain"]["new"]


def test_the_headline_can_show_some_stacks_only(published: Table) -> None:
    """README shows the core stacks; the page of the matrix shows all of them."""
    stack = re.compile(r"(\w+), 20\d\d-")
    assert ["old", "torn", "new"] == stack.findall(headline(published))
    assert ["new"] == stack.findall(headline(published, {"new"}))


def test_the_headline_leaves_out_what_no_stack_supports() -> None:
    """A row of nothing but "unsupported" tells nothing."""
    found = {
        outcome: headline(gather(LOCKS, [at("new", "sums", "half", outcome, role=Role.REPORTED)]))
        for outcome in ("trains", "setup:unsupported")
    }
    assert {"trains": True, "setup:unsupported": False} == {
        outcome: "`sums`" in text for outcome, text in found.items()
    }


def test_without_reports_the_headline_is_about_what_should_train() -> None:
    """A matrix of somebody's own scripts has none. The section about reports is left out."""
    scenarios = {"train": make_scenario("train", make_variant("script"))}
    records = [make_record(cell=make_cell("new", "train", "script"))]
    table = tabulated(by_date(LOCKS[:1]), scenarios, rows_of(records, scenarios))
    assert "| `train` | ✓ 1 of 1 |" == headline(table).splitlines()[-1]
    assert ("## Reported" in as_markdown(table), "✓ trains" in as_markdown(table)) == (False, True)


def test_every_format_is_described_by_a_sentence() -> None:
    """The sentence is on the pages and in the documentation."""
    assert dict.fromkeys(FORMATS, True) == {
        name: about.count("\n") == 0 and about.endswith(".") for name, about in described()
    }


def test_the_stacks_have_versions_that_sort(published: Table) -> None:
    """A row per stack; what it does not have is missing."""
    rows = csv.DictReader(io.StringIO(content("stacks.csv", published).decode(), newline=""))
    told = [(row["stack"], row["torch"], row["torch_sort"][:13]) for row in rows]
    assert [
        ("old", "2.0.1", "0!00002.00000"),
        ("torn", "", ""),
        ("new", "2.6.0", "0!00002.00006"),
    ] == told


def test_a_remedy_stands_beside_the_cause_that_it_is_against() -> None:
    """On each stack where its scenario has the cause, whether it trains there or not."""
    variants = make_variant(), make_variant("cure", cures=("detached", "no-loss"))
    known = {"sums": make_scenario("sums", *variants)}
    broken, *others = rows_of(
        [
            make_record("step:no-grad-fn", make_cell("new", "sums")),
            make_record(cell=make_cell("new", "sums", "cure")),
            make_record(cell=make_cell("old", "sums")),
            make_record(cell=make_cell("old", "sums", "cure")),
        ],
        known,
    )
    why = Explained(cause="detached", module=None, place=None, text=(), remedy=None)
    rows = [msgspec.structs.replace(broken, diagnosis=why), *others]
    table = remedies_frame(tabulated((make_lock("old"), make_lock("new")), known, rows))
    columns = ["cause", "remedy", "failing", "stack", "passed"]
    assert [["detached", "cure", 1, "new", True]] == table[columns].to_numpy().tolist()
