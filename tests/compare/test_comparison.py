"""The candidate against the baseline: changes, groups, verdict, exit code, headline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gradmatrix.compare.comparison import Results, compare, compare_stacks
from gradmatrix.core.model import Failure, Gradient, Role
from gradmatrix.judge.change import Change
from gradmatrix.measure.statistics import Key, Size
from gradmatrix.publish.comparison import warnings
from tests.compared import (
    LIBRARY,
    NEW,
    OLD,
    SCENARIOS,
    everything,
    measured,
    raising,
    record,
    side,
)
from tests.factories import make_lock

if TYPE_CHECKING:
    from gradmatrix.compare.comparison import Group


def verdict(before: Results, after: Results, *ratios: Size) -> tuple[int, str]:
    """The exit code and the headline."""
    found = compare(
        before,
        after,
        SCENARIOS,
        {Key("sums", f"{n}", "cpu"): measured(s) for n, s in enumerate(ratios)},
    )
    return found.exit_code, found.headline


HEALTHY = side(OLD, record(OLD))
AS_WELL = side(NEW, record(NEW))


def test_every_kind_of_change_is_counted() -> None:
    """Misuse is counted separately, and unchanged cells are counted too."""
    found = everything()
    training = {name: getattr(found.training, name) for name in found.training.__struct_fields__}
    expected = {
        "regressed": 2,
        "broke_differently": 1,
        "fixed": 1,
        "inconclusive": 2,
        "new": 1,
        "gone": 1,
        "unchanged": 2,
    }
    assert {**expected, "judged_elsewhere": 0} == training
    assert (1, 1, 0) == (found.misuse.regressed, found.misuse.fixed, found.misuse.unchanged)


def test_each_cell_has_its_change() -> None:
    """In the order of the scenarios."""
    expected = {
        "plain": "unchanged",
        "first": "regressed",
        "second": "regressed",
        "mended": "fixed",
        "other": "broke differently",
        "shaky": "inconclusive",
        "added": "new",
        "removed": "gone",
        "lost": "inconclusive",
        "remedy": "unchanged",
        "frozen": "regressed",
        "lr_zero": "fixed",
    }
    assert list(expected.items()) == [
        (each.cell.variant, each.change.value) for each in everything().cells
    ]


def test_flaky_and_spurious_cells_are_different() -> None:
    """A flaky cell needs more runs, a spurious one a machine that works."""
    found = {each.cell.variant: (each.flaky, each.spurious) for each in everything().cells}
    assert ((True, False), (False, True)) == (found["shaky"], found["lost"])


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ((), (0, "Safe: nothing regressed in 1 cell, speed was not measured.")),
        (
            (Size.SAME, Size.LESS, Size.PROBABLY_LESS),
            (
                0,
                (
                    "Safe: nothing regressed in 1 cell, 1 faster, 1 probably faster, "
                    "3 cells measured and none slower."
                ),
            ),
        ),
        ((Size.MORE,), (1, "Do not upgrade yet: 1 cell slower (at worst ×1.08).")),
        (
            (Size.INCONCLUSIVE, Size.SAME),
            (
                4,
                (
                    "Speed unknown: nothing regressed in 1 cell, "
                    "speed or memory of 1 of 2 cells is unknown "
                    "(--budget 90s would probably answer it)."
                ),
            ),
        ),
        (
            (Size.PROBABLY_MORE,),
            (
                4,
                (
                    "Speed unknown: nothing regressed in 1 cell, "
                    "1 cell probably slower (at worst ×1.08)."
                ),
            ),
        ),
        (
            (Size.MORE, Size.PROBABLY_MORE),
            (
                1,
                (
                    "Do not upgrade yet: 1 cell slower (at worst ×1.08), "
                    "1 cell probably slower (at worst ×1.08)."
                ),
            ),
        ),
    ],
)
def test_slower_same_and_unknown_are_three_answers(
    ratios: tuple[Size, ...], expected: tuple[int, str]
) -> None:
    """Each has an exit code of its own, and the first line says which cells are which."""
    assert expected == verdict(HEALTHY, AS_WELL, *ratios)


def test_more_memory_is_a_regression() -> None:
    """As more time is."""
    grown = measured(Size.SAME)
    assert grown.step_time is not None
    found = compare(
        HEALTHY, AS_WELL, SCENARIOS, {grown.key: measured(Size.SAME, memory=measured().step_time)}
    )
    assert (1, "Do not upgrade yet: 1 cell hungrier (at worst ×1.08).") == (
        found.exit_code,
        found.headline,
    )


def test_a_regressed_cell_decides_the_verdict() -> None:
    """Whatever else is fixed."""
    before = side(OLD, record(OLD, "first"), record(OLD, "second", "step:exception", **raising()))
    after = side(NEW, record(NEW, "first", "step:exception", **raising()), record(NEW, "second"))
    assert (1, "Do not upgrade yet: 1 cell regressed, 1 fixed.") == verdict(before, after)


def test_a_misuse_that_is_silent_now_is_a_regression() -> None:
    """The headline says that a mistake is now silent."""
    before = side(OLD, record(OLD, "frozen", "step:no-grad-fn", role=Role.MISUSE, passed=True))
    after = side(NEW, record(NEW, "frozen", "gradient:none", role=Role.MISUSE))
    assert (1, "Do not upgrade yet: 1 mistake that used to be reported is now silent.") == verdict(
        before, after
    )


def test_an_inconclusive_cell_makes_the_verdict_inconclusive() -> None:
    """If no cell regressed."""
    after = side(NEW, record(NEW, outcome="process:lost", passed=None))
    assert (3, "Inconclusive: 1 cell inconclusive.") == verdict(HEALTHY, after)


def test_runs_without_a_common_cell_are_inconclusive() -> None:
    """Nothing was compared, so nothing is safe."""
    before, after = side(OLD, record(OLD, "first")), side(NEW, record(NEW, "second"))
    assert (
        3,
        "Inconclusive: no cell was judged on both sides, 1 cell was not run on the candidate.",
    ) == verdict(before, after)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (1, (3, "Inconclusive: 12 cells were not run on the candidate.")),
        (
            12,
            (
                0,
                (
                    "Safe: nothing regressed in 12 cells, 1 cell was not run on the candidate, "
                    "speed was not measured."
                ),
            ),
        ),
    ],
)
def test_many_cells_that_the_candidate_did_not_run_make_the_verdict_inconclusive(
    run: int, expected: tuple[int, str]
) -> None:
    """They are not counted as features that are gone: nothing is known of them."""
    names = [variant.name for variant in SCENARIOS["sums"].variants]
    before, after = (
        side(OLD, *(record(OLD, n) for n in names)),
        side(NEW, *(record(NEW, n) for n in names[:run])),
    )
    found = compare(before, after, SCENARIOS)
    assert expected == (found.exit_code, found.headline)
    assert (names[run:], run, 0) == (
        [each.variant for each in found.missing],
        len(found.cells),
        found.not_judged,
    )


def test_many_cells_that_were_not_run_are_counted_by_scenario() -> None:
    """Nobody reads a line with hundreds of names."""
    names = [f"variant{number}" for number in range(13)]
    before, after = (
        side(OLD, *(record(OLD, name) for name in names)),
        side(NEW, record(NEW, names[0])),
    )
    few, many = (compare(before, each, SCENARIOS) for each in (after, side(NEW)))
    assert "baseline ran: sums: variant1, variant10," in warnings(few)[0]
    assert "baseline ran: 13 of sums. " in warnings(many)[0]


def test_a_regression_wins_over_cells_that_were_not_run() -> None:
    """The headline has both."""
    before = side(OLD, record(OLD, "first"), record(OLD, "second"))
    after = side(NEW, record(NEW, "first", "step:exception", **raising()))
    assert (
        1,
        "Do not upgrade yet: 1 cell regressed, 1 cell was not run on the candidate.",
    ) == verdict(before, after)


def test_a_failed_measurement_is_in_the_headline() -> None:
    """It does not look like a measurement that found no difference."""
    notices = ("not measured: it ended by itself",)
    failed = measured(step_time=None, memory=None, stopped="failed", notices=notices)
    ratios = {each.key: each for each in (failed, measured(Size.SAME, variant="remedy"))}
    found = compare(HEALTHY, AS_WELL, SCENARIOS, ratios)
    assert (
        4,
        (
            "Speed unknown: nothing regressed in 1 cell, 1 of 2 cells could not be measured "
            "(not measured: it ended by itself; to go without: --no-timing, or --speed-optional)."
        ),
    ) == (found.exit_code, found.headline)


def test_many_cells_with_one_cause_are_counted_as_one_cause() -> None:
    """The headline has the number of causes to fix."""
    names = ("first", "second", "other")
    after = side(NEW, *(record(NEW, name, "step:exception", **raising()) for name in names))
    headline = verdict(side(OLD, *(record(OLD, name) for name in names)), after)[1]
    assert "Do not upgrade yet: 3 cells regressed (1 cause)." == headline


def test_broke_differently_is_not_a_regression() -> None:
    """The cell did not pass before."""
    before = side(OLD, record(OLD, "first", "gradient:none"))
    after = side(NEW, record(NEW, "first", "step:exception", **raising()))
    passes = [record(each) for each in (OLD, NEW)]
    told = verdict(
        side(OLD, passes[0], *before.records.values()),
        side(NEW, passes[1], *after.records.values()),
    )
    assert (
        0,
        "Safe: nothing regressed in 2 cells, 1 broke differently, speed was not measured.",
    ) == told


def test_without_a_passing_cell_the_verdict_is_inconclusive() -> None:
    """A script with a wrong path fails on both sides: that is no reason to upgrade."""
    before, after = (
        side(OLD, record(OLD, outcome="gradient:none")),
        side(NEW, record(NEW, outcome="gradient:none")),
    )
    assert (3, "Inconclusive: 1 cell compared, and none passes on either side.") == verdict(
        before, after
    )


def test_a_device_that_one_machine_lacks_is_not_compared() -> None:
    """It says nothing about the stack. The cell is counted as not judged."""
    before = side(OLD, record(OLD), record(OLD, "first"))
    after = side(NEW, record(NEW), record(NEW, "first", "setup:no-device", passed=None))
    found = compare(before, after, SCENARIOS)
    assert (0, 1, 1) == (found.exit_code, found.not_judged, len(found.cells))


def test_measured_cells_are_sorted_worst_first() -> None:
    """Slower, then probably slower, then inconclusive, then the same, then faster."""
    sizes = {
        "a": (Size.LESS, 0.9),
        "b": (Size.SAME, 1.001),
        "c": (Size.INCONCLUSIVE, 1.02),
        "d": (Size.MORE, 1.05),
        "e": (Size.PROBABLY_MORE, 1.03),
    }
    ratios = [measured(size, ratio, variant=name) for name, (size, ratio) in sizes.items()]
    found = compare(HEALTHY, AS_WELL, SCENARIOS, {each.key: each for each in ratios})
    assert ["d", "e", "c", "b", "a"] == [each.variant for each in found.measured]


def test_a_side_without_a_lock_is_compared() -> None:
    """Only the changed packages are not known."""
    found = compare(Results("file", None, HEALTHY.records), AS_WELL, SCENARIOS)
    assert (0, None, "") == (found.exit_code, found.pairs[0].moved, found.pairs[0].baseline.lock)


def test_several_stacks_are_one_comparison_with_the_stack_in_each_cell() -> None:
    """Regressions with one cause are one group."""
    failing = side(NEW, record(NEW, "first", "step:exception", **raising()))
    other = Results("other", NEW, failing.records)
    before = side(OLD, record(OLD, "first"))
    found = compare_stacks(("a", "b"), [(before, failing), (before, other)], SCENARIOS)
    assert (True, "a", "b") == (found.several, found.baseline, found.candidate)
    assert [["new", "other"]] == [[cell.stack for cell in group.cells] for group in found.groups]


def test_a_stack_compared_with_itself_has_not_changed() -> None:
    """All cells are unchanged, and no package moved."""
    found = compare(HEALTHY, HEALTHY, SCENARIOS)
    assert ([Change.UNCHANGED], ()) == ([each.change for each in found.cells], found.pairs[0].moved)


PLACE = "transformers/other.py"


def together(
    first: dict[str, object], second: dict[str, object], outcome: str = "step:exception"
) -> list[list[str]]:
    """The variants of each group, if two cells regressed with these facts."""
    before = side(OLD, record(OLD, "first"), record(OLD, "second"))
    after = side(
        NEW,
        record(NEW, "first", "step:exception", **first),
        record(NEW, "second", outcome, **second),
    )
    return [
        [cell.variant for cell in each.cells] for each in compare(before, after, SCENARIOS).groups
    ]


@pytest.mark.parametrize(
    ("second", "outcome"),
    [
        (raising(99), "step:exception"),
        (raising(99, "another message of the same function"), "step:exception"),
    ],
)
def test_the_same_reason_and_place_are_one_cause(second: dict[str, object], outcome: str) -> None:
    """Line numbers and numbers in messages may differ: the place is a function of a library."""
    assert [["first", "second"]] == together(raising(7), second, outcome)


@pytest.mark.parametrize(
    ("second", "outcome"),
    [
        (raising(7, file=PLACE), "step:exception"),
        (raising(7), "setup:exception"),
        ({"observation": None, "message": "it broke"}, "install:build"),
    ],
)
def test_another_phase_reason_or_place_is_another_cause(
    second: dict[str, object], outcome: str
) -> None:
    """Whatever the message is."""
    assert [["first"], ["second"]] == sorted(together(raising(7), second, outcome))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("it broke at 0x7f2a of 13", [["first", "second"]]),
        ("no such argument", [["first"], ["second"]]),
    ],
)
def test_in_the_script_the_message_separates_causes(
    message: str, expected: list[list[str]]
) -> None:
    """A scenario is one function. Addresses and sizes in the message make no difference."""
    assert expected == together(
        raising(7, "it broke at 0x10 of 9", "train.py"), raising(9, message, "train.py")
    )


def test_a_stack_that_cannot_be_resolved_is_one_cause() -> None:
    """All of its cells have the same reason."""
    torn = make_lock(
        "torn",
        versions={},
        digest="",
        failure=Failure(outcome="resolve:conflict", message="a needs b<2"),
    )
    names = ("first", "second", "other")
    before = side(OLD, *(record(OLD, name) for name in names))
    facts: dict[str, object] = {"observation": None, "message": "a needs b<2"}
    found = compare(
        before,
        side(torn, *(record(torn, name, "resolve:conflict", **facts) for name in names)),
        SCENARIOS,
    )
    assert [("resolve:conflict", ("a needs b<2",), 3)] == [
        (g.outcome, g.text, len(g.cells)) for g in found.groups
    ]
    assert "a needs b<2" == found.pairs[0].candidate.failure


def test_a_group_has_a_diagnosis_and_a_remedy() -> None:
    """Of the side that fails. The remedy is a cell that trains there."""
    (group,) = (
        each for each in everything().groups if each.change == "regressed" and not each.misuse
    )
    assert ("exception", LIBRARY, "sums/remedy") == (
        group.cause,
        group.place and group.place.file,
        group.remedy,
    )
    assert ("ValueError: mat1 and mat2", f"Raised under {LIBRARY}:70, forward.") == group.text
    assert "This works on new: what remedy means (sums/remedy trains there)." == group.advice


def test_a_fixed_group_says_what_was_wrong() -> None:
    """It shows the failure of the baseline."""
    (group,) = (each for each in everything().groups if each.change == "fixed" and not each.misuse)
    assert ("trl/trainer.py", "ValueError: was bad") == (
        group.place and group.place.file,
        group.text[0],
    )


def test_misuse_is_never_in_a_group_with_other_cells() -> None:
    """The same outcome has another meaning there."""
    before = side(
        OLD,
        record(OLD, "first"),
        record(OLD, "frozen", "step:no-grad-fn", role=Role.MISUSE, passed=True),
    )
    facts: dict[str, object] = {
        "gradient": Gradient.NONE,
        "message": "nothing came",
        "observation": None,
    }
    after = side(
        NEW,
        record(NEW, "first", "gradient:none", **facts),
        record(NEW, "frozen", "gradient:none", role=Role.MISUSE, **facts),
    )
    assert [False, True] == [each.misuse for each in compare(before, after, SCENARIOS).groups]


def test_regressions_come_first_and_the_largest_group_before_others() -> None:
    """In the order in which a reader needs them."""
    names = ("first", "second", "other")
    before = side(
        OLD,
        *(record(OLD, name) for name in names),
        record(OLD, "mended", "step:exception", **raising()),
    )
    after = side(
        NEW,
        record(NEW, "first", "step:exception", **raising(file=PLACE)),
        *(record(NEW, name, "step:exception", **raising()) for name in names[1:]),
        record(NEW, "mended"),
    )
    groups: tuple[Group, ...] = compare(before, after, SCENARIOS).groups
    assert [("regressed", 2), ("regressed", 1), ("fixed", 1)] == [
        (each.change, len(each.cells)) for each in groups
    ]


def test_a_new_cell_that_fails_is_in_a_group() -> None:
    """A new cell that passes is not."""
    after = side(NEW, record(NEW, "first", "step:exception", **raising()), record(NEW, "second"))
    found = compare(side(OLD), after, SCENARIOS)
    assert [("new", ["first"])] == [
        (each.change, [cell.variant for cell in each.cells]) for each in found.groups
    ]
