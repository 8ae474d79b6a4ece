"""What the cells say of a claim, in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from gradmatrix.core.model import Gradient
from gradmatrix.publish.claims.claims import Expectation, Given
from gradmatrix.publish.claims.judge import judge
from gradmatrix.publish.claims.words import divided_stacks, verbs
from tests.claimed import make_claim, make_expectation, make_rate, make_row, make_table

if TYPE_CHECKING:
    from gradmatrix.publish.rows import Row

FAILS = "step:no-grad-fn"
BOTH = (("amp", "reported"), ("amp", "remedy"))


def summary(expectation: Expectation, *rows: Row) -> str:
    """The sentence on a claim with this expectation."""
    return judge(make_claim(expectation), make_table(*rows)).summary


def rows(outcomes: dict[str, str], variant: str = "reported") -> list[Row]:
    """A row per stack."""
    return [make_row(stack, variant, outcome) for stack, outcome in outcomes.items()]


def test_cells_that_agree_are_counted() -> None:
    """How many of how many, in which range."""
    expectation = make_expectation(where=("lightning>=2.2.2",))
    cells = rows(dict.fromkeys(("old", "middle", "new"), "trains"))
    assert (
        summary(expectation, *cells)
        == "reported trains on 2 of 2 stacks with lightning 2.2.2 and 2.5.0"
    )


def test_a_condition_is_part_of_the_sentence() -> None:
    """A remedy is told with the report that it is against."""
    expectation = make_expectation(
        "remedy", given=(Given(cell=("amp", "reported"), outcome="fails"),)
    )
    cells = [*rows({"old": FAILS}), *rows({"old": FAILS}, "remedy")]
    assert summary(expectation, *cells) == "remedy trains on 0 of 1 stack where reported fails"


def test_a_condition_of_another_scenario_names_it() -> None:
    """Its variant alone would be looked for in the wrong place."""
    expectation = make_expectation(given=(Given(cell=("other", "plain"), outcome="trains"),))
    cells = [make_row("old"), make_row("old", "plain", scenario="other")]
    assert (
        summary(expectation, *cells)
        == "reported trains on 1 of 1 stack where plain of other trains"
    )


def test_several_variants_are_counted_by_cells() -> None:
    """A stack counts as often as it has cells that bear on it."""
    expectation = Expectation(cells=BOTH, outcome="fails", given=(Given(outcome="step:*"),))
    cells = [*rows({"old": FAILS}), *rows({"old": FAILS}, "remedy")]
    assert (
        summary(expectation, *cells)
        == "reported and remedy fail in 2 of 2 cells on 1 stack where they end as step:*"
    )


def test_a_version_that_separates_is_named() -> None:
    """Of the package that the claim is about; what else would separate them is told, but not put first."""
    expectation = make_expectation(where=("lightning<3",))
    apart = "with lightning 2.2.2 or newer, not with 2.0.3; torch moved there too"
    expected = f"reported trains on 2 of 3 stacks with lightning 2.0.3 to 2.5.0 ({apart})"
    assert expected == summary(
        expectation, *rows({"old": FAILS, "middle": "trains", "new": "trains"})
    )


def test_older_releases_may_be_those_that_show_it() -> None:
    """The bound is told from their side."""
    expectation = make_expectation(where=("lightning<3",), outcome="fails")
    apart = "with lightning 2.0.3, not with 2.2.2 or newer; torch moved there too"
    expected = f"reported fails on 1 of 3 stacks with lightning 2.0.3 to 2.5.0 ({apart})"
    assert expected == summary(
        expectation, *rows({"old": FAILS, "middle": "trains", "new": "trains"})
    )


def test_what_goes_up_together_is_not_told_apart() -> None:
    """Where the claim names no package, all that the variant needs and that separate are named."""
    expected = (
        "reported trains on 1 of 2 stacks (with torch 2.2.0, not with 2.0.0, or with lightning 2.5.0, "
        "not with 2.0.3; they moved together)"
    )
    assert expected == summary(make_expectation(), *rows({"old": FAILS, "new": "trains"}))


@pytest.mark.parametrize(("outcome", "word", "good"), [(FAILS, "only", 1), ("trains", "not", 2)])
def test_a_release_in_between_is_named(outcome: str, word: str, good: int) -> None:
    """It alone shows what is expected, or it alone does not."""
    expectation = make_expectation(where=("lightning<3",), outcome=outcome)
    verb = "trains" if outcome == "trains" else "ends as step:no-grad-fn"
    expected = f"reported {verb} on {good} of 3 stacks with lightning 2.0.3 to 2.5.0 ({word} with lightning 2.2.2)"
    assert expected == summary(
        expectation, *rows({"old": "trains", "middle": FAILS, "new": "trains"})
    )


def test_stacks_of_one_version_are_named_with_it() -> None:
    """No version separates them: something else does."""
    table = make_table(*rows({"old": "trains", "middle": FAILS, "new": "trains"}))
    versions = {stack: {"lightning": Version("2.2.2")} for stack in ("old", "middle", "new")}
    expected = "not on middle [lightning 2.2.2]"
    assert expected == divided_stacks(
        table.stacks[::2], table.stacks[1:2], versions, ["lightning"], []
    )


def test_how_many_are_too_close_to_tell_is_said() -> None:
    """A stack whose noise hides which is faster is not counted, and not passed over either."""
    quiet, loud = make_rate(44.0, 0.5), make_rate(44.0, 9.0)
    cells = [
        make_row("old", steps_per_s=make_rate(40.0)),
        make_row("new", steps_per_s=make_rate(40.0)),
    ]
    cells += [
        make_row("old", "remedy", steps_per_s=quiet),
        make_row("new", "remedy", steps_per_s=loud),
    ]
    expected = "reported is slower than remedy on 1 of 1 stack, too close to tell on 1 more"
    assert expected == summary(make_expectation(than="remedy", speed="slower"), *cells)


def test_what_was_not_measured_is_not_too_close() -> None:
    """Nothing is known of its speed."""
    cells = [make_row("old"), make_row("old", "remedy", steps_per_s=make_rate(44.0))]
    expected = "no cell tells whether reported is slower than remedy"
    assert expected == summary(make_expectation(than="remedy", speed="slower"), *cells)


def test_few_that_show_it_are_named_instead() -> None:
    """Rather than the many that do not."""
    cells = rows({"old": FAILS, "middle": "trains", "new": FAILS})
    assert (
        summary(make_expectation(), *cells) == "reported trains on 1 of 3 stacks (only on middle)"
    )


def test_a_variant_that_separates_is_named() -> None:
    """It is the variant, not the stack."""
    expectation = Expectation(cells=BOTH, outcome="trains")
    cells = [
        *rows({"old": FAILS, "new": FAILS}),
        *rows({"old": "trains", "new": "trains"}, "remedy"),
    ]
    assert (
        summary(expectation, *cells)
        == "reported and remedy train in 2 of 4 cells on 2 stacks (not reported)"
    )


def test_where_nothing_separates_each_variant_is_counted() -> None:
    """Those of which some cells are against it."""
    expectation = Expectation(cells=BOTH, outcome="trains")
    cells = [
        *rows({"old": FAILS, "new": "trains"}),
        *rows({"old": "trains", "new": "trains"}, "remedy"),
    ]
    expected = "reported and remedy train in 3 of 4 cells on 2 stacks (reported in 1 of 2)"
    assert expected == summary(expectation, *cells)


def test_what_no_cell_tells_is_said() -> None:
    """A release that no stack has yet."""
    expected = "no cell tells whether reported trains with lightning>9"
    assert expected == summary(make_expectation(where=("lightning>9",)), make_row())


@pytest.mark.parametrize(
    ("signs", "one", "many"),
    [
        ({"outcome": "says-so"}, "says so", "say so"),
        (
            {"outcome": ("trains", "step:*", "update:none")},
            "trains or ends as step:* or update:none",
            None,
        ),
        ({"gradient": Gradient.PARTIAL}, "has gradient partial", "have gradient partial"),
        ({"raises": "leaf"}, "raises “leaf”", "raise “leaf”"),
        ({"warns": "None"}, "warns “None”", "warn “None”"),
        ({"quiet": "None"}, "is without the warning “None”", "are without the warning “None”"),
        ({"cause": "frozen"}, "is diagnosed as frozen", "are diagnosed as frozen"),
        ({"than": "b", "memory": "more"}, "takes more memory than b", "take more memory than b"),
        ({"than": "b", "memory": "same"}, "takes as much memory as b", "take as much memory as b"),
        ({"than": "b", "speed": "slower"}, "is slower than b", "are slower than b"),
        ({"than": "b", "speed": "same"}, "is as fast as b", "are as fast as b"),
    ],
)
def test_every_sign_has_words(signs: dict[str, object], one: str, many: str | None) -> None:
    """Of one variant, and of several."""
    expectation = make_expectation(**signs)
    assert ([one], [many or one.replace("trains", "train").replace("ends", "end")]) == (
        verbs(expectation),
        verbs(expectation, several=True),
    )
