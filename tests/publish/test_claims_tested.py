"""What pages show about an expectation: counts, releases, and versions that separate."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import pytest

from gradmatrix.core.model import Gradient
from gradmatrix.publish.claims.claims import Expectation, Given, Sign
from gradmatrix.publish.claims.judge import judge
from gradmatrix.publish.formats import Claims, ClaimsDocument, Results
from tests.claimed import make_claim, make_expectation, make_rate, make_row, make_table

if TYPE_CHECKING:
    from gradmatrix.publish.claims.claims import Tested
    from gradmatrix.publish.rows import Row

FAILS = "step:no-grad-fn"
BOTH = (("amp", "reported"), ("amp", "remedy"))


def judged_by(expectation: Expectation, *rows: Row) -> Tested:
    """The expectation, tested by ``rows``."""
    (tested,) = judge(make_claim(expectation), make_table(*rows)).tested
    return tested


def rows(outcomes: dict[str, str], variant: str = "reported") -> list[Row]:
    """A row per stack."""
    return [make_row(stack, variant, outcome) for stack, outcome in outcomes.items()]


def boundaries(expectation: Expectation, *cells: Row) -> list[str]:
    """The packages that separate the stacks."""
    return list(map(str, judged_by(expectation, *cells).boundaries))


def test_cells_and_stacks_are_counted() -> None:
    """A stack has a cell for each variant."""
    tested = judged_by(
        Expectation(cells=BOTH, outcome="trains"),
        *rows({"old": FAILS, "new": "trains"}),
        *rows({"old": "trains", "new": "trains"}, "remedy"),
    )
    assert ("3 of 4 cells", 2) == (tested.counts, tested.stacks)


def test_an_expectation_without_cells_says_so() -> None:
    """No stack has that release."""
    tested = judged_by(make_expectation(where=("lightning>9",)), make_row())
    assert ("no cell", ()) == (tested.counts, tested.releases)


def test_the_tested_releases_are_shown() -> None:
    """A range asks for more than the stacks have."""
    expectation = make_expectation(where=("lightning>=2.2",))
    cells = rows(dict.fromkeys(("old", "middle", "new"), "trains"))
    assert ["lightning 2.2.2 to 2.5.0"] == list(map(str, judged_by(expectation, *cells).releases))


def test_the_package_of_the_claim_that_separates_comes_first() -> None:
    """Other packages that changed with it are listed too."""
    cells = rows({"old": FAILS, "middle": "trains", "new": "trains"})
    assert [
        "lightning: yes from 2.2.2 on, no up to 2.0.3",
        "torch: yes from 2.1.0 on, no up to 2.0.0",
    ] == boundaries(make_expectation(where=("lightning<3",)), *cells)


def test_older_releases_may_be_those_on_which_it_holds() -> None:
    """Then the boundary is the newest of them."""
    cells = rows({"old": FAILS, "middle": "trains", "new": "trains"})
    expectation = make_expectation(where=("lightning<3",), outcome="fails")
    assert "lightning: yes up to 2.0.3, no from 2.2.2 on" == boundaries(expectation, *cells)[0]


def test_a_release_in_between_is_no_boundary() -> None:
    """It holds on both sides of that release."""
    cells = rows({"old": "trains", "middle": FAILS, "new": "trains"})
    assert [] == boundaries(make_expectation(), *cells)


def test_variants_that_differ_on_a_stack_are_no_boundary() -> None:
    """The variant makes the difference, not the stack."""
    cells = [*rows({"old": FAILS, "new": FAILS}), *rows({"old": "trains"}, "remedy")]
    assert [] == boundaries(Expectation(cells=BOTH, outcome="trains"), *cells)


def test_a_package_that_the_variant_does_not_need_is_no_boundary() -> None:
    """All packages get newer with time."""
    cells = rows({"old": FAILS, "new": "trains"}, "frozen")
    assert ["torch: yes from 2.2.0 on, no up to 2.0.0"] == boundaries(
        make_expectation("frozen"), *cells
    )


def test_stacks_that_are_too_close_to_decide_are_counted() -> None:
    """A stack whose noise hides which is faster is no evidence, but is not ignored either."""
    slow, quiet, loud = make_rate(40.0), make_rate(90.0, 0.5), make_rate(90.0, 60.0)
    cells = [make_row(stack, steps_per_s=slow) for stack in ("old", "middle", "new")]
    beside = {"old": quiet, "middle": loud, "new": None}
    cells += [make_row(stack, "remedy", steps_per_s=rate) for stack, rate in beside.items()]
    tested = judged_by(make_expectation(than="remedy", speed="slower"), *cells)
    assert ("1 of 1 cells", 1) == (tested.counts, tested.too_close)


@pytest.mark.parametrize(
    ("signs", "labels"),
    [
        ({"outcome": "says-so"}, ("says-so",)),
        ({"outcome": ("trains", "step:*")}, ("trains or step:*",)),
        ({"gradient": Gradient.PARTIAL}, ("gradient partial",)),
        ({"raises": "leaf"}, ("raises “leaf”",)),
        ({"outcome": "trains", "warns": "None"}, ("trains", "warns “None”")),
        ({"quiet": "None"}, ("no warning “None”",)),
        ({"cause": "frozen"}, ("cause frozen",)),
        ({"than": "b", "memory": "more"}, ("memory: more than b",)),
        ({"than": "b", "memory": "same"}, ("memory: same as b",)),
        ({"than": "b", "speed": "slower"}, ("speed: slower than b",)),
    ],
)
def test_every_key_has_a_label(signs: dict[str, object], labels: tuple[str, ...]) -> None:
    """In the order in which the documentation lists the keys."""
    assert labels == msgspec.convert(signs, Sign).labels


def test_conditions_are_listed_with_the_versions() -> None:
    """A variant of another scenario is named with it."""
    expectation = make_expectation(
        where=("lightning<3",),
        device="cpu",
        given=(
            Given(outcome="fails"),
            Given(cell=("amp", "remedy"), outcome="trains"),
            Given(cell=("other", "plain"), outcome="trains"),
        ),
    )
    assert (
        "lightning<3",
        "cpu",
        "the cell: fails",
        "remedy: trains",
        "other/plain: trains",
    ) == expectation.conditions


def test_the_json_has_counts_boundaries_and_cells() -> None:
    """As typed data."""
    table = make_table(*rows({"old": FAILS, "new": "trains"}))
    judged = judge(make_claim(make_expectation(), note="Seen once."), table)
    content = b"".join(Claims.pieces(Results(table, (judged,))))
    (entry,) = msgspec.json.decode(content, type=ClaimsDocument).claims
    (tested,) = entry.tested
    assert ("partly", "Seen once.", 1, 2, ["torch", "lightning"]) == (
        entry.verdict,
        entry.note,
        tested.holds,
        tested.tested,
        [each.package for each in tested.boundaries],
    )
    assert ["against", "for"] == [each.bears for each in entry.evidence]


def test_no_claims_are_an_empty_list() -> None:
    """The document is valid all the same."""
    content = b"".join(Claims.pieces(Results(make_table())))
    assert {"schema": 1, "claims": []} == json.loads(content)
