"""What is published of [generate.pairwise] tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gradmatrix.publish.formats import CombinedReleases, PairwiseDocument, Results
from gradmatrix.publish.publication import in_order
from gradmatrix.run.project import Project
from gradmatrix.stacks import generated
from gradmatrix.stacks.pairwise import Chosen, choose
from tests.cli.test_cli import MATRIX, write_lock
from tests.cli.test_cli import SUMS as SUMS_PAGE
from tests.factories import make_lock
from tests.sites import NEW, OLD, SUMS, cell, site_of, table_of
from tests.stacks.test_pairwise import DAY, RELEASES, RULE, Asked

if TYPE_CHECKING:
    from pathlib import Path

CHOSEN = choose(RULE, RELEASES, [], DAY, Asked("torch==2.9.1", "peft==0.17.1"))
RAN = CHOSEN.stacks[0].name
PROVEN = "torch 2.9.1, peft 0.17.1"


def test_the_data_has_the_coverage_and_the_proofs() -> None:
    """A stack counts as run if one of its cells was judged."""
    table = table_of([cell(RAN, "plain")], [make_lock(RAN)], SUMS)
    content = b"".join(CombinedReleases.pieces(Results(table, chosen=(CHOSEN,))))
    [found] = msgspec.json.decode(content, type=PairwiseDocument).tables
    told = found.coverage
    assert (3, 4, 7, 7, 1) == (
        told.stacks, told.product, told.possible, told.covered, told.impossible,
    )  # fmt: skip
    assert (3, CHOSEN.array.proofs) == (found.judged, found.impossible)


def test_the_page_shows_a_proof_as_impossible_and_not_as_untested() -> None:
    """In the resolver's words. Stacks without a cell are told apart."""
    pages = site_of([cell(RAN, "plain")], [make_lock(RAN)], SUMS, chosen=(CHOSEN,))
    text = pages["pairwise.html"]
    assert f'<tr><th scope="row">{PROVEN}</th><td>no: 3.11</td>' in text
    assert f'<a href="stacks/{RAN}.html">{RAN}</a>' in text
    assert f"{CHOSEN.stacks[1].name} (not run yet)" in text
    assert (
        "3 of 4 possible stacks have all 7 pairs of releases that can be installed together; "
        "1 cannot" in pages["index.html"]
    )


def test_without_such_a_table_there_is_no_page() -> None:
    """The first page does not speak of it."""
    pages = site_of([cell(RAN, "plain")], [make_lock(RAN)], SUMS)
    assert "pairwise.html" not in pages
    assert "Combined releases" not in pages["index.html"]


def test_what_can_only_be_installed_alone_is_listed() -> None:
    """It is neither covered nor impossible."""
    alone = msgspec.structs.replace(CHOSEN.array, alone=({"torch": "2.8.0", "trl": "0.23.1"},))
    text = site_of([], [], chosen=(Chosen((), alone),))["pairwise.html"]
    assert "<li>torch 2.8.0, trl 0.23.1</li>" in text


def test_combined_stacks_are_on_their_page_and_in_no_line_of_stacks() -> None:
    """They follow no date: no change leads from one to the next."""
    records = [cell("old", "plain"), cell(RAN, "plain", "gradient:none"), cell("new", "plain")]
    pages = site_of(records, [make_lock(RAN), OLD, NEW], SUMS, chosen=(CHOSEN,))
    shown = {path for path, text in pages.items() if f"cells/{RAN}.html#sums-plain-cpu" in text}
    assert {"pairwise.html", f"stacks/{RAN}.html"} <= shown
    assert shown.isdisjoint({"index.html", "scenarios/sums.html", "stacks/new.html"})
    assert "passes on 2 of 2 stacks" in pages["scenarios/sums.html"]
    assert f'href="../stacks/{RAN}.html"' not in pages["stacks/old.html"]


def test_other_stacks_are_shown_before_the_combined_ones(tmp_path: Path) -> None:
    """However new these are. Those that did not run have no column."""
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "sums.py").write_text(SUMS_PAGE.lstrip(), encoding="utf-8")
    table = '[generate.pairwise]\nversions = { torch = ["2.8.0", "2.9.1"], peft = ["0.17.1"] }\n'
    (tmp_path / "matrix.toml").write_text(MATRIX + table, encoding="utf-8")
    project = Project.at(tmp_path)
    [placed] = project.typed_matrix.rules
    given = choose(placed.rule, RELEASES, [], DAY, Asked())  # type: ignore[arg-type]
    for stack in ("first", "second", *(stack.name for stack in given.stacks)):
        write_lock(tmp_path, make_lock(stack))
    project.store.append(cell(given.stacks[0].name, "plain"))
    generated.write(project.generated_file, {placed: given.stacks}, {placed: given.array})
    assert [given.stacks[0].name, "first", "second"] == [lock.stack for lock in in_order(project)]
