"""SPEC 0's support window."""

from __future__ import annotations

import datetime as dt

import pytest

from gradmatrix.stacks import generate
from gradmatrix.stacks.generate import (
    PYTHONS,
    Window,
    floor,
    needed,
    packages,
    python_floor,
    window,
)
from tests.stacks.test_releases import release

TODAY = dt.date(2026, 11, 21)
TORCH = (
    release("2.4.0", "2024-07-24"),
    release("2.5.0", "2024-10-17", yanked=True),
    release("2.5.1", "2024-10-29"),
    release("2.6.0", "2025-01-29"),
    release("2.4.2", "2025-02-15"),
    release("2.7.0rc1", "2025-03-01"),
    release("2.12.0", "2026-08-01"),
)
TRL = (release("0.12.0", "2024-11-04"), release("0.13.0", "2024-12-16"))
BOTH = {"torch": TORCH, "trl": TRL}


def version(day: str, months: int = 24) -> str:
    """The oldest supported torch of a day."""
    found = floor(TORCH, dt.date.fromisoformat(day), months)
    assert found is not None
    return found.version


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        ("2026-07-23", "2.4.0"),
        ("2026-07-24", "2.5.1"),
        ("2026-10-16", "2.5.1"),
        ("2026-10-17", "2.6.0"),
    ],
)
def test_support_ends_24_months_after_the_feature_release(day: str, expected: str) -> None:
    """Not after its last patch; 2.5 came out with a release that was yanked, and is tested with the next."""
    assert expected == version(day)


def test_the_newest_feature_release_is_supported_however_old_it_is() -> None:
    """SPEC 0 is no reason to support nothing."""
    assert "2.12.0" == version("2031-01-01")


def test_without_releases_there_is_no_floor() -> None:
    """All of them yanked, or before the first."""
    assert (None, None) == (floor((), TODAY, 24), floor((release("1.0", yanked=True),), TODAY, 24))


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        ("2026-10-01", "3.12"),
        ("2026-10-02", "3.13"),
        ("2028-10-07", "3.14"),
        ("2040-01-01", "3.14"),
    ],
)
def test_a_python_is_supported_for_36_months(day: str, expected: str) -> None:
    """3.12 came out on 2023-10-02."""
    assert expected == python_floor(dt.date.fromisoformat(day), 36)


def test_no_python_is_missing_from_the_list_that_could_be_a_floor_now() -> None:
    """Where this fails, PYTHONS needs the Pythons that have come out since."""
    assert generate.months_later(max(PYTHONS.values()), 36) > dt.datetime.now(dt.UTC).date()


def test_the_window_of_this_quarter() -> None:
    """Its floor and its newest, as of days that do not move within the quarter."""
    rule = Window(requirements=("torch", "trl", "numpy<3"))
    oldest, newest = window(rule, BOTH, TODAY)
    assert (
        "window-2026-q4-floor",
        "3.12",
        dt.date(2024, 11, 4),
        ("torch==2.5.1", "trl==0.12.0", "numpy<3"),
    ) == (
        oldest.name,
        oldest.python,
        oldest.as_of,
        oldest.requirements,
    )
    assert ("window-2026-q4-newest", "3.12", dt.date(2026, 10, 1), rule.requirements) == (
        newest.name,
        newest.python,
        newest.as_of,
        newest.requirements,
    )
    assert (oldest, newest) == window(rule, BOTH, dt.date(2026, 12, 31))


def test_the_floors_of_the_quarters_to_come() -> None:
    """What may be dropped when, known by now."""
    found = window(Window(requirements=("torch",), quarters=3), BOTH, TODAY)
    assert [("window-2026-q4-floor", ("torch==2.5.1",)), ("window-2027-q1-floor", ("torch==2.6.0",)),
            ("window-2027-q2-floor", ("torch==2.12.0",)), ("window-2026-q4-newest", ("torch",))] == [
        (stack.name, stack.requirements) for stack in found
    ]  # fmt: skip


def test_each_package_alone_at_its_floor() -> None:
    """With everything else as new as the resolver can have it."""
    found = window(Window(requirements=("torch", "trl"), each=True), BOTH, TODAY)
    assert {
        "window-2026-q4-torch-2.5.1": ("torch==2.5.1", "trl"),
        "window-2026-q4-trl-0.12.0": ("torch", "trl==0.12.0"),
    } == {stack.name: stack.requirements for stack in found[2:]}


def test_a_floor_is_as_of_a_day_that_has_its_python() -> None:
    """Wheels for it came no earlier."""
    [oldest, _] = window(Window(requirements=("trl",), python="3.14"), BOTH, TODAY)
    assert ("3.14", dt.date(2025, 10, 7)) == (oldest.python, oldest.as_of)


def test_two_names_of_one_project_have_one_window() -> None:
    """What a rule pins itself has none."""
    rule = Window(requirements=("lightning", "pytorch-lightning", "torch<3"))
    assert ("lightning",) == packages(rule)
    [oldest, _] = window(rule, {"lightning": (release("2.5.0.post0", "2024-12-21"),)}, TODAY)
    assert (
        "lightning==2.5.0.post0",
        "pytorch-lightning==2.5.0.post0",
        "torch<3",
    ) == oldest.requirements


def test_a_stack_is_as_of_no_day_before_what_it_asks_for() -> None:
    """A version that came out after the oldest of the others, and a package that came out within the quarter."""
    oldest, *_ = window(Window(requirements=("torch>=2.12", "trl")), BOTH, TODAY)
    assert (dt.date(2026, 8, 1), ("torch>=2.12", "trl==0.12.0")) == (
        oldest.as_of,
        oldest.requirements,
    )
    born = {"torch": TORCH, "new": (release("1.0", "2026-11-01"),)}
    _, *others = window(Window(requirements=("torch", "new"), each=True), born, TODAY)
    assert [dt.date(2026, 11, 1)] * 3 == [stack.as_of for stack in others]


def test_a_version_that_a_rule_gives_one_of_two_names_is_left_as_it_is() -> None:
    """The other name has no window either; the day on which that version came out must be known."""
    rule = Window(requirements=("lightning==2.5.0", "pytorch-lightning", "torch"))
    assert (("torch",), ("torch", "lightning")) == (packages(rule), needed(rule))
    [oldest, _] = window(
        rule, {"torch": TORCH, "lightning": (release("2.5.0", "2024-12-20"),)}, TODAY
    )
    assert ("lightning==2.5.0", "pytorch-lightning", "torch==2.5.1") == oldest.requirements


def test_a_quarter_begins_when_its_first_day_is_over() -> None:
    """A lock of that day made in the morning would stay without what came out in the evening."""
    names = [
        window(Window(requirements=("torch",)), BOTH, dt.date(2026, 10, day))[0].name
        for day in (1, 2)
    ]
    assert ["window-2026-q3-floor", "window-2026-q4-floor"] == names
