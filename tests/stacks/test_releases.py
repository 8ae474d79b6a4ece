"""Which releases an install takes."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from packaging.version import Version

from gradmatrix.stacks.index import Release, admitted, both, minor, newest


def release(version: str, day: str = "2025-01-01", *, yanked: bool = False) -> Release:
    """A release; whether it is a pre-release is in its version."""
    uploaded = dt.date.fromisoformat(day) if day else None
    return Release(
        version=version, uploaded=uploaded, yanked=yanked, prerelease=Version(version).is_prerelease
    )


def versions(
    *releases: Release, prereleases: bool = False, exactly: tuple[str, ...] = ()
) -> list[str]:
    """The versions that are admitted."""
    return [r.version for r in admitted(releases, prereleases=prereleases, exactly=exactly)]


def test_a_yanked_release_is_taken_only_where_it_is_pinned() -> None:
    """As uv does."""
    both = (release("1.0"), release("1.1", yanked=True))
    assert (["1.0"], ["1.0", "1.1"]) == (versions(*both), versions(*both, exactly=("1.1.0",)))


def test_a_prerelease_is_taken_only_where_it_is_asked_for() -> None:
    """By name, or all of them."""
    both = (release("2.0rc1"), release("1.0"))
    assert ["1.0"] == versions(*both)
    assert ["1.0", "2.0rc1"] == versions(*both, prereleases=True)
    assert ["1.0", "2.0rc1"] == versions(*both, exactly=("2.0rc1",))


def test_prereleases_are_taken_where_there_is_nothing_else() -> None:
    """A yanked final release is nothing."""
    assert ["1.0a1", "1.0b1"] == versions(
        release("1.0b1"), release("1.0a1"), release("1.0", yanked=True)
    )


def test_versions_are_sorted_as_versions() -> None:
    """1.9 comes before 1.10."""
    assert ["1.9", "1.10"] == versions(release("1.10"), release("1.9"))


def test_a_post_release_is_of_its_minor() -> None:
    """As 2.5.0.post0 is of 2.5; an epoch keeps releases apart."""
    assert [(0, 2, 5), (1, 2, 5)] == [minor(release("2.5.0.post0")), minor(release("1!2.5.0"))]


def test_a_package_of_prereleases_only_has_a_newest() -> None:
    """On the days before its first final release, and no yanked one."""
    there = (
        release("1.0rc1"),
        release("1.0rc2"),
        release("1.0rc3", yanked=True),
        release("1.0", "2025-06-01"),
    )
    found = [newest(there, dt.date(2025, month, 1)) for month in (5, 6)]
    assert ["1.0rc2", "1.0"] == [each and each.version for each in found]


def test_two_names_share_what_both_have() -> None:
    """As of the day on which the second of them was out, if any is known."""
    ours = (release("1.5.10", "2022-02-08"), release("2.0", "2023-03-15"), release("2.1", ""))
    twins = (release("2.0.0", "2023-03-16"), release("2.1", ""))
    assert [release("2.0", "2023-03-16"), release("2.1", "")] == both(ours, twins)


def test_a_release_fits_where_a_python_may_install_it() -> None:
    """Any patch release of one of them; what cannot be read forbids nothing, and who names no Python may have any."""
    asked = ("", ">=3.11", "==3.11.*", "no specifier", ">=3.12", "<3.11")
    asking = [replace(release("1.0"), requires_python=text) for text in asked]
    assert [True, True, True, True, False, False] == [each.fits(["3.11"]) for each in asking]
    assert {True} == {
        each.fits(pythons) for each in asking for pythons in ([], ["3.10", "3.11", "3.12"])
    }
