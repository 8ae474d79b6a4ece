"""Bisections are counted on tiny packages that are resolved and not installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradmatrix.run.project import Project
from tests.factories import make_record
from tests.upgrading import make_checkout
from tools import bench_bisect

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

RECORDS = make_record("trains"), make_record("step:exception")


def test_each_culprit_is_found_and_its_sets_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One release of a package, then one of two packages."""
    monkeypatch.delenv("UV_FIND_LINKS", raising=False)
    project = Project.at(make_checkout(tmp_path))
    ((ran, _),) = bench_bisect.sets(project, tmp_path / "a", RECORDS, (1, 4), [("p0", 3)])
    assert 0 < ran <= 2 + 2
    assert 2 == len(
        bench_bisect.sets(project, tmp_path / "b", RECORDS, (2, 2), [("p0", 2), ("p1", 2)])
    )


def test_a_line_compares_with_simpler_searches() -> None:
    """The most sets are the value, and all times come from sets."""
    line = str(bench_bisect.row("30 releases", [(4, 1.0), (6, 2.0)], 7, 5, 28))
    assert "6.000   wanted <= 7" in line
    assert "mean 5.0 (2.5 min, resolving 1.5 s)" in line
    assert "one at a time up to 28 (14.0 min)" in line
