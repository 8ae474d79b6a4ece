"""The recipes of docs/data.md run on the published files."""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from gradmatrix.judge.versions import sortable
from gradmatrix.publish import measurements
from gradmatrix.publish.publication import publish
from gradmatrix.run.project import Project
from tests.conftest import ROOT
from tests.factories import make_record

if TYPE_CHECKING:
    from pathlib import Path

RECIPES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/data.md").read_text("utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with the published records, and its data files made anew."""
    root = tmp_path_factory.mktemp("checkout")
    for name in ("matrix.toml", "scenarios"):
        (root / name).symlink_to(ROOT / name)
    (root / "results" / "records").mkdir(parents=True)
    for name in ("locks", "flips.json"):
        (root / "results" / name).symlink_to(ROOT / "results" / name)
    shutil.copytree(ROOT / "results" / "confirmed", root / "results" / "confirmed")  # it is written
    for stack in ("latest", "trl-0.15"):
        path = root / "results" / "records" / f"{stack}.jsonl"
        path.write_bytes((ROOT / "results" / "records" / path.name).read_bytes())
    now = dt.datetime.now(dt.UTC)
    record = make_record(recorded_at=now)
    measurements.keep(root / "results" / measurements.FOLDER, "latest", [record], now)
    publish(Project.at(root))
    return root


@pytest.mark.parametrize("recipe", RECIPES, ids=range(len(RECIPES)))
def test_a_recipe_prints_a_table(folder: Path, recipe: str) -> None:
    """With pandas and with DuckDB."""
    if "duckdb" in recipe:
        pytest.importorskip("duckdb")
    done = subprocess.run(
        [sys.executable, "-c", recipe],
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert len(done.stdout.splitlines()) > 2


def test_a_sortable_text_sorts_as_the_version_does() -> None:
    """Development releases first, then pre-releases, the release, and post-releases."""
    texts = """0.9 0.10 1.0.dev1 1.0a1.dev2 1.0a1 1.0a2 1.0a10 1.0b1 1.0rc1 1.0 1.0.post1.dev1
        1.0.post1 1.0.1 1.0.0.1 1.10 1.9.2 2.16.0.dev20261101 2.16.0.dev20261120 2.16.0 1!0.1"""
    versions = texts.split()
    assert sorted(versions, key=Version) == sorted(versions, key=lambda each: sortable(each) or "")


def test_what_is_no_version_has_no_sortable_text() -> None:
    """It is missing."""
    assert sortable("main") is None
