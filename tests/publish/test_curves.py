"""Speed and memory along the stacks."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from gradmatrix.core.model import Reference
from gradmatrix.publish.site import plots
from gradmatrix.publish.site.curves import panels
from tests.factories import DAY, make_cell, make_lock, make_observation, make_record, make_scenario
from tests.sites import Page, site_of, view_of

if TYPE_CHECKING:
    from gradmatrix.core.model import Lock, Record
    from gradmatrix.publish.site.curves import Panel

SCENARIO = make_scenario("sums")
MEBI = 2**20


def stack(name: str, torch: str) -> Lock:
    """A stack; those with later names are newer."""
    day = DAY + dt.timedelta(days=ord(name))
    return make_lock(name, versions={"torch": torch, "filelock": torch}, as_of=day)


LOCKS = [stack("a", "2.6.0"), stack("b", "2.6.1"), stack("c", "2.7.0"), stack("d", "2.8.0")]


def measured(
    name: str,
    step_s: float,
    slowness: float = 1.0,
    program: str = "program",
    *,
    size: int = 100,
    start: int = 0,
) -> Record:
    """A cell on a machine that was slower than usual."""
    times_s = (0.001 * slowness,) * 5
    return make_record(
        cell=make_cell(stack=name, scenario="sums"),
        run=name,
        observation=make_observation(
            step_times_s=(step_s * slowness,) * 12,
            waited_s=(0.0,) * 12,
            peak_memory_bytes=size * MEBI,
            start_memory_bytes=start * MEBI,
        ),
        reference=Reference(program, times_s, times_s),
    )


def panel(*records: Record) -> Panel:
    """The only panel of these records."""
    (found,) = panels(view_of(records, LOCKS, SCENARIO), "sums")
    return found


def test_a_change_of_speed_is_named_by_the_releases_between() -> None:
    """The speed of the machine, which is twice as slow in between, is no change."""
    found = panel(
        measured("a", 0.5), measured("b", 0.5, 2.0), measured("c", 0.25), measured("d", 0.25, 2.0)
    )
    told = [(each.name, each.before, each.after, each.ratio, each.moved) for each in found.changes]
    assert [
        ("Speed", "b", "c", "×2.00", "torch 2.6.1 → 2.7.0, 1 other package"),
    ] == told
    assert "M65.0 14V64" not in found.curves[0].plot
    assert "M130.0 14V64" in found.curves[0].plot


def test_memory_changes_by_more_than_five_percent() -> None:
    """It needs no reference."""
    sizes = [100, 104, 110, 110]
    found = panel(*(measured(n, 0.5, size=size) for n, size in zip("abcd", sizes, strict=True)))
    assert [("Peak memory", "×1.06")] == [(each.name, each.ratio) for each in found.changes]


@pytest.mark.parametrize("own", [(50, 50, 50, 50), (50, 50, 40, 40)])
def test_libraries_of_other_scenarios_are_no_change_of_memory(own: tuple[int, ...]) -> None:
    """They were imported before the cell began, so it does not take more by itself."""
    start = (50, 50, 70, 70)
    found = panel(
        *(
            measured(name, 0.5, size=before + beyond, start=before)
            for name, before, beyond in zip("abcd", start, own, strict=True)
        )
    )
    assert not found.changes


def test_another_reference_is_another_line() -> None:
    """Its values are no change."""
    found = panel(
        measured("a", 0.5),
        measured("b", 0.5),
        measured("c", 0.25, program="other"),
        measured("d", 0.25, program="other"),
    )
    assert not found.changes
    assert found.curves[0].newest == "on d: 4 steps/s (4 to 4, measured 4)"


def test_without_a_reference_the_page_shows_what_was_measured() -> None:
    """And says so."""
    record = make_record(cell=make_cell(stack="a", scenario="sums"))
    site = site_of([record], LOCKS[:1], SCENARIO)
    text = Page(site["scenarios/sums.html"]).text
    assert "Speed on a: 4 steps/s as measured, without a reference" in text


def test_without_a_line_the_page_says_why_and_what_to_run() -> None:
    """The points alone do not show which release is slower."""
    alone, beside = (
        site_of([measured("c", 0.5), other], LOCKS, SCENARIO)["scenarios/sums.html"]
        for other in (measured("d", 0.5, program="other"), measured("d", 0.5))
    )
    assert "No line of speed is drawn here" in alone
    assert "gradmatrix upgrade c --to d --scenario sums" in alone
    assert "No line of speed is drawn here" not in beside


def test_stacks_that_do_not_run_the_scenario_are_left_out() -> None:
    """They would leave a gap in every plot."""
    found = panel(measured("a", 0.5), measured("d", 0.5))
    assert ["a", "d"] == [each.split(":")[0] for each in found.curves[0].plot.split("<title>")[1:]]


def test_of_many_stacks_a_plot_has_no_titles(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would fill most of the page."""
    monkeypatch.setattr(plots, "MOST_TITLES", 1)
    found = panel(measured("a", 0.5), measured("b", 0.5))
    assert "<title>" not in found.curves[0].plot
