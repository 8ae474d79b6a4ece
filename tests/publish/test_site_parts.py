"""The parts of pages: cells, turning points, neighbouring releases, messages, plots, texts."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any

import pytest

from gradmatrix.core.model import Gradient, Role
from gradmatrix.publish.rows import cell_text, rows_of
from gradmatrix.publish.site import plots
from gradmatrix.publish.site.markup import coded, documented, linked, safe
from gradmatrix.publish.site.messages import messages, signature
from gradmatrix.publish.site.pages import step
from gradmatrix.publish.site.plots import Axis, Marks, Point
from gradmatrix.publish.site.releases import by_release, nearest, ranked
from gradmatrix.publish.site.tables import TITLES, counted_as, in_cell, shown, turning_points
from gradmatrix.publish.speed import Band
from tests.factories import (
    DAY,
    make_cell,
    make_lock,
    make_observation,
    make_record,
    make_scenario,
    make_stopped,
    make_variant,
    make_warned,
)
from tests.sites import view_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradmatrix.publish.rows import Row

SCENARIO = make_scenario()


def row(outcome: str = "trains", stack: str = "stack", **fields: object) -> Row:
    """The row of a record."""
    [made] = rows_of([make_record(outcome, make_cell(stack), **fields)], {})
    return made


@pytest.mark.parametrize(
    ("outcome", "fields"),
    [
        ("trains", {}),
        ("trains", {"observation": make_observation(step_times_s=())}),
        ("trains", {"role": Role.MISUSE, "passed": False}),
        ("step:no-grad-fn", {"observation": make_stopped()}),
        ("relation:disagrees", {"gradient": Gradient.FLOWING}),
        ("gradient:partial", {"gradient": Gradient.PARTIAL}),
        ("setup:unsupported", {"passed": None}),
        ("import:exception", {"role": Role.MISUSE}),
        ("step:exception", {"role": Role.MISUSE, "observation": make_stopped()}),
        ("step:no-grad-fn", {"role": Role.MISUSE, "passed": True, "observation": make_stopped()}),
        ("update:none", {"role": Role.MISUSE, "observation": make_observation()}),
    ],
)
def test_a_cell_says_in_two_lines_what_the_tables_say_in_one(
    outcome: str, fields: dict[str, Any]
) -> None:
    """Markdown, the terminal and the pages use the same words."""
    cell = row(outcome, **fields)
    joined = {
        f"{shown(cell).word}{mark.format(shown(cell).note)}"
        for mark in (", {}", ": {}", " ({})", "")
    }
    assert cell_text(cell).line in joined


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ("step:no-grad-fn", "✗ errors"),
        ("install:build", "✗ errors"),
        ("process:exit-3", "✗ errors"),
        ("gradient:partial", "✗ runs but does not train"),
        ("update:none", "✗ runs but does not train"),
        ("update:ranks-differ", "✗ trains wrongly"),
        ("step:nonfinite-loss", "✗ trains wrongly"),
        ("gradient:nonfinite", "✗ trains wrongly"),
        ("relation:disagrees", "✗ trains wrongly"),
    ],
)
def test_a_cell_says_in_a_plain_word_how_it_fails(outcome: str, expected: str) -> None:
    """The outcome stands below, and the word is explained."""
    assert (expected, outcome) == in_cell(row(outcome, observation=make_stopped()))[1:]
    assert expected in TITLES


def test_a_turning_point_is_a_change_of_the_outcome() -> None:
    """Stacks on which it was not judged are skipped."""
    along = [
        row("step:no-grad-fn", "a"),
        None,
        row("setup:unsupported", "b", passed=None),
        row(stack="c"),
        row(stack="d"),
    ]
    assert [("a", "c")] == [
        (point.before.stack, point.after.stack) for point in turning_points(along)
    ]


def test_versions_are_in_the_order_of_releases() -> None:
    """The order is not alphabetic. Text that is no version comes first."""
    assert ["nightly", "2.9", "2.10.dev1", "2.10"] == sorted(
        ["2.10", "2.9", "nightly", "2.10.dev1"], key=ranked
    )


def test_neighbouring_releases_are_compared_on_the_stacks_that_differ_least() -> None:
    """The pair with the most packages in common is taken."""
    locks = [
        make_lock("a", versions={"torch": "1.0", "trl": "1.0"}),
        make_lock("b", versions={"torch": "1.0", "trl": "2.0"}),
        make_lock("c", versions={"torch": "2.0", "trl": "2.0"}),
    ]
    view = view_of([], locks, SCENARIO)
    releases = by_release(view, "torch")
    assert ["1.0", "2.0"] == list(releases)
    assert ["b", "c"] == [lock.stack for lock in nearest(view, releases["1.0"], releases["2.0"])]


def test_a_turn_that_other_stacks_contradict_is_not_everywhere() -> None:
    """Another stack with the older release has another outcome."""
    versions = {"a": "1.0", "b": "1.0", "c": "2.0"}
    locks = [
        make_lock(name, versions={"torch": v}, as_of=DAY + dt.timedelta(days=ord(name)))
        for name, v in versions.items()
    ]
    outcomes = {"a": "trains", "b": "step:exception", "c": "trains"}
    view = view_of(
        [make_record(o, make_cell(name)) for name, o in outcomes.items()], locks, SCENARIO
    )
    older, newer = by_release(view, "torch").items()
    [turn] = step(view, "torch", older, newer).turns
    assert ("b", "c", False) == (turn.point.before.stack, turn.point.after.stack, turn.everywhere)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("element 0 of tensors", "element 1 of tensors"),
        ("<object at 0x7f3a>", "<object at 0x11ff>"),
        ("took 1.5e-3 s\n  on torch 2.6.0", "took 22 s on torch 2.13"),
    ],
)
def test_messages_that_differ_by_numbers_are_the_same(one: str, other: str) -> None:
    """Numbers, addresses, versions and line breaks do not count."""
    assert signature(one) == signature(other)


def test_a_message_gathers_its_cells_by_cause() -> None:
    """A message may have several causes, each with its remedy. Warnings are separate."""
    scenario = make_scenario("sums", make_variant("plain"), make_variant("other"))
    seen = make_stopped(warnings=(make_warned("beware of 3"),))
    records = [
        make_record(
            "step:no-grad-fn",
            make_cell(stack, "sums", name),
            message="element 0 of",
            observation=seen,
        )
        for stack in ("a", "b")
        for name in ("plain", "other")
    ]
    said = messages(view_of(records, [make_lock("a"), make_lock("b")], scenario))
    [error], [warning] = said.errors, said.warnings
    assert ("element 0 of", 4, 4) == (error.text, error.cells, error.failing)
    assert ["other", "plain"] == [variant.variant for variant in error.causes[0].variants]
    assert ["b", "a"] == [each.stack for each in error.causes[0].variants[0].rows]
    assert "beware of 3" == warning.text


def test_what_was_not_judged_has_no_message() -> None:
    """A missing feature is no error."""
    record = make_record("setup:unsupported", make_cell(), passed=None, message="needs trl")
    assert ([], [], []) == messages(view_of([record], [make_lock()], SCENARIO))


@pytest.mark.parametrize(("good", "expected"), [(3, ("p", "✓")), (1, ("h", "◐")), (0, ("f", "✗"))])
def test_some_is_neither_all_nor_none(good: int, expected: tuple[str, str]) -> None:
    """A symbol shows it, not only a colour."""
    assert expected == counted_as(good, 3)


def plot(*values: float | None, kinds: str = "aaaaaa", changed: Sequence[int] = ()) -> str:
    """Medians of stacks that are called a, b and so on; their bands are 10 % wide on each side."""
    axis = Axis("abcdef"[: len(values)], [None] * len(values))
    points = [
        Point(Band(0.9 * each, each, 1.1 * each), kind, (each / 2,)) if each else Point()
        for each, kind in zip(values, kinds, strict=False)
    ]
    marks = Marks([1], [(place, place + 1) for place in changed])
    return plots.along(points, marks, ("Speed", "steps/s"), axis, [f"on {n}" for n in axis.names])


def path(svg: str, kind: str) -> str:
    """A path of a plot."""
    return "".join(re.findall(f'class="{kind}" d="([^"]*)"', svg))


def test_a_plot_starts_at_zero_and_leaves_gaps() -> None:
    """Twice the value is twice the height; a stack without a value breaks the line."""
    svg = plot(1, None, 2)
    heights = [float(each) for each in re.findall(r"M\S+ ([\d.]+)", path(svg, "line"))]
    assert pytest.approx(64 - heights[1], abs=0.2) == 2 * (64 - heights[0])
    assert 0 == path(svg, "line").count("L")


def test_a_plot_names_its_ends_its_highest_value_and_each_stack() -> None:
    """A stack shows its value if the pointer is on it."""
    svg = plot(1, 2, 4)
    assert [">a</text>", ">c</text>", ">4.4 steps/s</text>"] == [
        each
        for each in (">a</text>", ">b</text>", ">c</text>", ">4.4 steps/s</text>")
        if each in svg
    ]
    assert ["a", "b", "c"] == re.findall("<title>on (.)</title>", svg)


def test_a_line_joins_neighbours_of_one_kind() -> None:
    """A difference between kinds of machines or builds does not come from the release."""
    svg = plot(1, 1, 1, 1, kinds="aabb")
    assert ["M", "L", "M", "L"] == re.findall("[ML]", path(svg, "line"))
    assert 2 == path(svg, "band").count("Z")
    assert ["M", "L", "M", "L"] == re.findall("[ML]", path(plot(1, 1, 1, 1, kinds="abab"), "line"))


def test_a_value_without_a_reference_is_not_joined() -> None:
    """It is shown as it was measured, and no line goes past it."""
    band = Band(1, 2, 3)
    points = [Point(band, "a", (2,)), Point(raw=(2,)), Point(band, "a", (2,))]
    axis = Axis("abc", [None] * 3)
    svg = plots.along(points, Marks(), ("Speed", "steps/s"), axis, [])
    assert "L" not in path(svg, "line")
    assert (2, 3) == (path(svg, "dots").count("h0"), path(svg, "raw").count("h0"))


def test_a_change_is_a_line_between_two_stacks() -> None:
    """It stands in the middle, from the top to the bottom."""
    assert "M210.0 14V64" == path(plot(1, 2, changed=[0]), "turns")
    assert not path(plot(1, 2), "turns")


def test_a_plot_of_many_stacks_stays_small() -> None:
    """The tables have the values."""
    counts = plots.MOST_TITLES, plots.MOST_TITLES + 1
    assert [plots.MOST_TITLES, 0] == [len(Axis(["stack"] * n, [None] * n).titles) for n in counts]


def test_text_is_escaped_and_plain() -> None:
    """It is safe in an attribute too."""
    assert "&lt;b&gt; &#34;x&#34; red" == safe('<b> "x" \x1b[31mred\u202e')


def test_backticks_are_code_and_addresses_are_links() -> None:
    """Nothing inside them is markup."""
    assert "<code>a&lt;b</code> c" == str(coded("`a<b` c"))
    assert 'see <a rel="noreferrer" href="https://x.y/z">https://x.y/z</a>.' == str(
        linked("see https://x.y/z.")
    )
    assert "javascript:alert(1)" == str(linked("javascript:alert(1)"))


def test_a_docstring_has_paragraphs_and_lists() -> None:
    """A list may follow a sentence without an empty line."""
    assert "<p>One\ntwo.</p>\n<p>These:</p><ul><li>a\n  b</li><li>c</li></ul>" == str(
        documented("One\ntwo.\n\nThese:\n- a\n  b\n- c\n")
    )
