"""What moved between two locks."""

from __future__ import annotations

from msgspec.structs import replace

from gradmatrix.judge.versions import packages_moved
from tests.compared import NEW, OLD


def test_what_a_stack_asks_for_comes_first_then_what_came_with_it() -> None:
    """Torch and its companions before others, by name; what did not move is left out."""
    expected = [
        ("torch 2.6.0 → 2.10.0", True),
        ("trl 0.15.2 → 1.0.0", True),
        ("httpx (none) → 1.0", False),
        ("requests 2.32.3 → (none)", False),
    ]
    assert expected == [(str(each), each.direct) for each in packages_moved(OLD, NEW)]


def test_the_days_of_the_releases_are_those_of_the_locks() -> None:
    """None where a lock does not know it."""
    found = {
        each.name: (str(each.before_released), str(each.after_released))
        for each in packages_moved(OLD, NEW)
    }
    assert ("2025-01-29", "2026-01-10") == found["torch"]
    assert ("None", "None") == found["requests"]


def test_another_python_is_told_first() -> None:
    """It is no package, and the first thing to know."""
    assert "python 3.11 → 3.13" == str(packages_moved(OLD, replace(NEW, python="3.13"))[0])


def test_the_same_lock_moves_nothing() -> None:
    """Also under another name."""
    assert () == packages_moved(OLD, replace(OLD, stack="other"))


def test_a_requirement_that_is_no_name_is_left_out() -> None:
    """A wheel or a path says by itself nothing of a name."""
    lock = replace(NEW, requirements=("./dist/thing.whl", "TRL[quantization]>=1"))
    assert {"trl"} == {
        each.name for each in packages_moved(replace(OLD, requirements=()), lock) if each.direct
    }
