"""A comparison in every form: what is written, compared with the files in tests/golden/.

After a wanted change of a renderer, run this file with ``UPDATE_GOLDEN=1``, and read the diff.
"""

from __future__ import annotations

import io
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace
from rich.console import Console

from gradmatrix.cli.show_comparison import show_comparison
from gradmatrix.compare.comparison import Comparison, as_json, compare, compare_stacks
from gradmatrix.core.model import Role
from gradmatrix.judge.versions import PackageMove
from gradmatrix.measure.statistics import Size
from gradmatrix.publish.comparison import measuring, move, ratio_rows
from gradmatrix.publish.reports import (
    MOST_BYTES,
    Form,
    as_html,
    as_markdown,
    as_schema,
    hash_of,
    reports,
)
from tests.compared import HOSTILE, NEW, OLD, SCENARIOS, everything, measured, raising, record, side
from tests.factories import make_lock, make_observation, make_scenario, make_variant

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).parent.parent / "golden"


def terminal(comparison: Comparison, *, width: int = 120, is_terminal: bool = False) -> str:
    """The text that the terminal shows."""
    file = io.StringIO()
    console = Console(
        file=file, width=width, highlight=False, force_terminal=is_terminal, color_system=None
    )
    show_comparison(console, comparison)
    return file.getvalue()


@pytest.mark.parametrize("name", ["comparison.md", "comparison.txt", "comparison.json"])
def test_a_comparison_is_as_golden(name: str) -> None:
    """It has one change of every kind."""
    written = {
        "comparison.md": as_markdown(everything()),
        "comparison.txt": terminal(everything()),
        "comparison.json": as_json(everything()).decode(),
    }[name]
    if os.environ.get("UPDATE_GOLDEN"):
        (GOLDEN / name).write_text(written, encoding="utf-8")
    assert (GOLDEN / name).read_text(encoding="utf-8") == written


def test_the_data_keeps_its_schema() -> None:
    """Reading the data gives the same comparison."""
    schema = json.loads(as_schema())
    Draft202012Validator.check_schema(schema)
    written = as_json(everything(HOSTILE))
    Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(
        json.loads(written)
    )
    assert everything(HOSTILE) == msgspec.json.decode(written, type=Comparison)


def test_the_schema_describes_every_type() -> None:
    """The docstring is the description."""
    schema = json.loads(as_schema())
    assert [] == [
        name
        for name, each in schema["$defs"].items()
        if "properties" in each and not each.get("description")
    ]


def test_a_hostile_stack_writes_no_markdown() -> None:
    """Its text has no markup, no link, no mention and no control character."""
    text = as_markdown(everything(HOSTILE))
    assert [] == [
        each
        for each in ("<script", "@someone", " #1", "\x1b", "\u202e", " ```", "[x](")
        if each in text
    ]


def test_a_line_of_a_stack_begins_no_list_or_heading() -> None:
    """It follows the mark of a list, where another mark would count."""
    before = side(OLD, record(OLD))
    after = side(NEW, record(NEW, outcome="install:build", observation=None, message="# Heading"))
    assert "  - # Heading" not in as_markdown(compare(before, after, SCENARIOS))


def test_a_hostile_stack_moves_no_cursor() -> None:
    """Control sequences are removed."""
    shown = terminal(everything(HOSTILE), is_terminal=True)
    assert "<script>alert(1)</script>" in shown
    assert "\u202e" not in shown
    assert set() == set(re.findall(r"\x1b(?!\[[0-9;]*m)", shown))


def enormous() -> Comparison:
    """A thousand causes, each with a long message."""
    names = [f"variant_{number}" for number in range(1000)]
    scenarios = {"sums": make_scenario("sums", *(make_variant(name) for name in names))}
    facts = (raising(7, f"trouble {'x' * 900}", f"library/of_{name}.py") for name in names)
    failing = [
        record(NEW, name, "step:exception", **each) for name, each in zip(names, facts, strict=True)
    ]
    return compare(
        side(OLD, *(record(OLD, name) for name in names)), side(NEW, *failing), scenarios
    )


def test_a_comment_is_never_too_long() -> None:
    """Parts that are left out are counted."""
    text = as_markdown(enormous())
    assert len(text.encode()) <= MOST_BYTES
    assert re.search(r"… and \d+ more causes", text)
    assert text.count("<details>") == text.count("</details>")


def test_the_largest_cause_is_in_a_comment() -> None:
    """It is there even if many cells on many stacks share it."""
    names = [f"variant_with_a_long_name_{number}" for number in range(140)]
    locks = [
        make_lock(f"stack-with-a-name-{number}", versions={"torch": f"2.{number}"})
        for number in range(40)
    ]
    scenarios = {"sums": make_scenario("sums", *(make_variant(name) for name in names))}
    sides = [
        (
            side(OLD, *(record(OLD, name) for name in names)),
            side(lock, *(record(lock, name, "step:exception", **raising()) for name in names)),
        )
        for lock in locks
    ]
    text = as_markdown(compare_stacks(("then", "now"), sides, scenarios))
    assert (
        "step:exception" in text.partition("### Regressed")[2],
        len(text.encode()) <= MOST_BYTES,
    ) == (True, True)


def test_parts_that_are_not_urgent_are_folded() -> None:
    """A regression is never folded."""
    text = as_markdown(everything())
    assert "\n### Regressed (2)\n" in text
    assert "<details><summary><b>Fixed (1)</b></summary>" in text


class Page(HTMLParser):
    """What a page loads, runs and contains."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep it."""
        self.tags.append((tag, dict(attrs)))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of every such element."""
        return [attributes for name, attributes in self.tags if name == tag]


def test_the_page_loads_and_runs_nothing() -> None:
    """Everything is in one file, and no text of a stack is markup."""
    page = Page(as_html(everything(HOSTILE)))
    assert [] == [*page.of("script"), *page.of("img"), *page.of("iframe")]
    assert [] == [a for _, each in page.tags for a in each if a.startswith("on") or a == "style"]
    assert all(
        (each.get("href") or "").startswith(("#", "data:"))
        for each in [*page.of("a"), *page.of("link")]
    )


def test_the_policy_of_the_page_allows_its_own_style_alone() -> None:
    """The policy names the hash of the style."""
    text = as_html(everything()).decode()
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    policy = next(
        each["content"] or "" for each in Page(text.encode()).of("meta") if "http-equiv" in each
    )
    assert f"style-src '{hash_of(style[1])}'" in policy
    assert "default-src 'none'" in policy


def test_each_part_of_the_page_can_be_reached() -> None:
    """Every link in the table of contents has a target."""
    page = Page(as_html(everything()))
    targets = {each.get("id") for _, each in page.tags}
    assert [] == [a["href"] for a in page.of("a") if (a["href"] or "")[1:] not in targets]


def test_only_what_was_asked_for_is_written() -> None:
    """Each form has its target."""
    found = list(reports(everything(), {Form.JSON: "a.json", Form.HTML: "-"}))
    assert [("json", "a.json"), ("html", "-")] == [(each.form.value, each.target) for each in found]
    assert as_html(everything()) == found[1].content


def test_without_a_measurement_no_ratio_is_shown() -> None:
    """Step times of separate runs allow no verdict."""
    found = compare(side(OLD, record(OLD)), side(NEW, record(NEW)), SCENARIOS)
    for text in (as_markdown(found), terminal(found), as_html(found).decode()):
        assert "not measured side by side" in text
        assert "×" not in text
        assert "slower" not in text


def test_a_measurement_that_failed_has_no_table() -> None:
    """Nothing but the reason is known."""
    failed = measured(step_time=None, memory=None, stopped="failed", notices=("it ended",))
    ratios = {failed.key: failed}
    found = compare(side(OLD, record(OLD)), side(NEW, record(NEW)), SCENARIOS, ratios)
    assert () == ratio_rows(found)
    assert f"Nothing could be measured. {failed.key}: it ended." in terminal(found)
    assert "Both sides ran at the same time" not in as_markdown(found)


@pytest.mark.parametrize(
    "form", [terminal, as_markdown, lambda comparison: as_html(comparison).decode()]
)
def test_cells_that_fail_on_both_sides_are_named(form: Callable[[Comparison], str]) -> None:
    """They should be fixed next. A misuse about which both sides are silent is marked as one."""
    sides = [
        side(
            lock,
            record(lock),
            record(lock, "first", "step:exception", **raising()),
            record(lock, "frozen", "gradient:none", role=Role.MISUSE),
        )
        for lock in (OLD, NEW)
    ]
    text = form(compare(sides[0], sides[1], SCENARIOS))
    _, title, rest = text.partition("Fail on both sides")
    assert title
    found = re.search(
        r"step:exception.*?first.*?misuse, silent: gradient:none.*?frozen", rest, re.DOTALL
    )
    assert (True, False) == (found is not None, found is not None and "plain" in found[0])
    assert "ValueError: it broke" in rest


def test_no_advice_is_given_for_a_misuse_of_which_the_stack_is_silent() -> None:
    """A misuse is meant to fail. The missing message is the regression."""
    before = side(OLD, record(OLD, "frozen", "step:no-grad-fn", role=Role.MISUSE, passed=True))
    seen = make_observation("n")
    after = side(NEW, record(NEW, "frozen", "gradient:none", role=Role.MISUSE, observation=seen))
    [group] = compare(before, after, SCENARIOS).groups
    assert (True, None, None) == (group.cause is not None, group.advice, group.remedy)


def test_cells_of_several_stacks_are_named_with_their_stacks() -> None:
    """A variant is named once, with the stacks on which it changed."""
    before, after = (
        side(OLD, record(OLD, "first")),
        side(NEW, record(NEW, "first", "step:exception", **raising())),
    )
    shown = terminal(compare_stacks(("a", "b"), [(before, after), (before, after)], SCENARIOS))
    assert "sums/first: new, new" in shown
    assert "a → b, 2 stacks" in shown


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (1.001, "before 12 servers of each side were measured"),
        (1.015, "before the interval was completely inside or outside ±1.0%"),
    ],
)
def test_why_a_ratio_is_open(ratio: float, words: str) -> None:
    """An interval within the margin is not the same without enough servers."""
    cell = measured(Size.INCONCLUSIVE, ratio, stopped="budget")
    assert cell.step_time is not None
    of_time = replace(cell.step_time, low=ratio - 0.001, high=ratio + 0.001)
    found = compare(
        side(OLD, record(OLD)),
        side(NEW, record(NEW)),
        SCENARIOS,
        {cell.key: replace(cell, step_time=of_time)},
    )
    assert words in ratio_rows(found)[0].why


@pytest.mark.parametrize(("stopped", "named"), [("clear", True), ("budget", False)])
def test_the_bias_of_an_early_ratio_is_named(stopped: str, *, named: bool) -> None:
    """Only if a measurement stopped because its verdict was clear."""
    cell = measured(stopped=stopped)
    found = compare(side(OLD, record(OLD)), side(NEW, record(NEW)), SCENARIOS, {cell.key: cell})
    assert named == ("too far from 1 on average" in measuring(found))


def test_a_package_of_the_same_version_says_why_it_moved() -> None:
    """The versions alone would not show it."""
    wheel = PackageMove(name="trl", before="1.0", after="1.0", same_version=True)
    assert "1.0 → 1.0, with other contents" == move(wheel)
