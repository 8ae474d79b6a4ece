"""The large matrix that is measured: real records under other names.

A command measures it, not this test.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from gradmatrix.cli.main import main
from gradmatrix.core.errors import UserError
from gradmatrix.publish.publication import publish
from gradmatrix.run.project import Project
from tests.cli.test_cli import CONFLICT, MATRIX, SUMS, write_lock
from tests.factories import make_cell, make_lock, make_record
from tools import bench_page
from tools.__main__ import COMMANDS
from tools.bench import Ratio
from tools.chromium import NoBrowser

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Published records of two stacks, one of which could not be resolved.

    The first one also ran a scenario that runs only if it is asked for.
    """
    root = tmp_path / "checkout"
    (root / "scenarios").mkdir(parents=True)
    further = MATRIX.replace("[[stacks]]", 'further = ["more"]\n\n[[stacks]]', 1)
    (root / "matrix.toml").write_text(further, encoding="utf-8")
    for name in ("sums", "more"):
        (root / "scenarios" / f"{name}.py").write_text(SUMS.lstrip(), encoding="utf-8")
    write_lock(root, make_lock("first"))
    write_lock(root, make_lock("second", failure=CONFLICT))
    project = Project.at(root)
    failed = [
        make_record("step:exception", make_cell("first", name, "plain"))
        for name in ("sums", "more")
    ]
    project.store.publish("first", failed)
    project.store.publish(
        "second", [make_record("resolve:conflict", make_cell("second", "sums", "plain"))]
    )
    return project


def test_a_checkout_with_as_many_records_is_made(project: Project, tmp_path: Path) -> None:
    """It has whole copies of all stacks, and every record is published."""
    assert 6 == bench_page.enlarge(project, tmp_path / "big", 5)
    big = Project.at(tmp_path / "big")
    publish(big)
    names = {f"{stack}-{number:02}" for stack in ("first", "second") for number in range(2)}
    rows = (big.results / "matrix.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert ([], names, 6) == (
        big.store.problems,
        {cell.stack for cell in big.store.everything()},
        len(rows),
    )


def test_nothing_published_is_an_error(project: Project, tmp_path: Path) -> None:
    """There are no records to copy."""
    for path in project.store.published.glob("*.jsonl"):
        path.write_bytes(b"")
    with pytest.raises(UserError, match="There are no records"):
        bench_page.enlarge(project, tmp_path / "big")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has /proc")
def test_memory_is_that_of_all_processes() -> None:
    """It covers a process and those that it starts."""
    child = "print(1, flush=True); input()"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        members = bench_page.family(process.pid)
        used = [bench_page.resident_bytes(pid) for pid in members]
        process.communicate(b"\n")
    assert (2, True) == (len(members), all(each > 2**20 for each in used))
    assert [0] == [bench_page.resident_bytes(pid) for pid in members[:1]]
    assert os.getpid() in bench_page.family(os.getpid())


def test_storing_and_comparing_are_measured(project: Project, tmp_path: Path) -> None:
    """Two copies of one stack are compared in a process of its own."""
    bench_page.enlarge(project, tmp_path / "big", 5)
    measured = [*bench_page.storing(tmp_path / "big"), *bench_page.comparing(tmp_path / "big")]
    assert all(each.value > 0 for each in measured)
    assert ["mean of 2" in measured[0].detail, "resident" in measured[1].detail] == [True, True]


@pytest.mark.slow
def test_without_a_browser_the_rest_is_measured(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output says what is missing."""

    @contextmanager
    def missing() -> Iterator[Any]:
        raise NoBrowser("There is no Chromium.", next_step="install one")
        yield

    monkeypatch.setattr(bench_page, "launched", missing)
    monkeypatch.setattr(
        bench_page, "publishing", lambda *_: [Ratio("publishing", 0.5, "<= 1", "5 s")]
    )
    assert 1 == main(["bench-page", "--root", str(project.root)], COMMANDS)
    output = capsys.readouterr().out
    assert (
        "publishing" in output,
        "The page was not measured. There is no Chromium." in output,
    ) == (True, True)
