"""``bench-bisect``: how many sets of packages a bisection runs, and how long that takes.

Tiny packages on an index on loopback are really resolved. Nothing is installed or run: the version
of one package decides how the cell ends.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from rich.text import Text

from gradmatrix.cli.commands import add
from gradmatrix.compare import resolution
from gradmatrix.compare.bisect import PROBE_S, Bisection, Probe
from gradmatrix.compare.sides import Side
from gradmatrix.compare.upgrade import key_of
from gradmatrix.core.outcomes import TRAINS
from tests.fakes.package_index import PackageIndex
from tools.bench import Ratio, Silent

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from gradmatrix.core.model import Record
    from gradmatrix.run.project import Project

PYTHON = "3.11"
DAY = dt.date(2026, 1, 1)
RELEASES = (10, 30, 100)
"""Of one package, between two sides that differ in nothing else."""
PACKAGES = 60
"""That differ, in one release each: one of them is the culprit, and nothing names it."""
MOST_SETS = 10
"""The most sets of packages for that."""
SAMPLE = 5
"""Culprits that are looked for, evenly spread."""


@dataclass
class Pretended(Bisection):
    """Ends with the second record from a release of the culprit on, else with the first."""

    records: tuple[Record, Record] = ()  # type: ignore[assignment]
    culprit: str = ""
    release: int = 0

    def looked_up(self, resolved: resolution.Resolved, *_: object, **__: object) -> Probe:
        """What would have run."""
        version = int(resolved.lock.version(self.culprit) or 0)
        return Probe(resolved, self.records[version >= self.release])


def measure(project: Project, place: Path) -> Iterator[Ratio]:
    """Sets of packages at most, for releases of one package and for one of many packages."""
    known = sorted(project.store.everything().values(), key=lambda record: str(record.cell))
    good = next(each for each in known if each.outcome == TRAINS)
    bad = next(each for each in known if each.observation is None and each.outcome != TRAINS)
    for releases in RELEASES:
        bound = math.ceil(math.log2(releases)) + 2
        culprits = [("p0", 2 + n * (releases - 2) // (SAMPLE - 1)) for n in range(SAMPLE)]
        ran = sets(project, place / f"{releases}", (good, bad), (1, releases), culprits)
        plain = math.ceil(math.log2(releases - 1))
        yield row(f"{releases} releases", ran, bound, plain, releases - 2)
    culprits = [(f"p{n * (PACKAGES - 1) // (SAMPLE - 1)}", 2) for n in range(SAMPLE)]
    ran = sets(project, place / "packages", (good, bad), (PACKAGES, 2), culprits)
    plain = math.ceil(math.log2(PACKAGES))
    yield row(f"{PACKAGES} packages", ran, MOST_SETS, plain, PACKAGES)


def row(
    name: str, ran: Sequence[tuple[int, float]], bound: int, plain: int, one_at_a_time: int
) -> Ratio:
    """A line: the most sets, beside what a plain bisection and one set after the other take."""
    counts, seconds = zip(*ran, strict=True)
    mean = statistics.mean(counts)
    detail = (
        f"mean {mean:.1f} ({minutes(mean)}, resolving {statistics.mean(seconds):.1f} s); "
        f"plain bisection {plain} ({minutes(plain)}), without a check of both neighbours; "
        f"one at a time up to {one_at_a_time} ({minutes(one_at_a_time)})"
    )
    return Ratio(f"bisect {name}, sets", max(counts), f"<= {bound}", detail)


def minutes(sets: float) -> str:
    """How long so many sets take to install and run, from cached packages."""
    return f"{sets * PROBE_S / 60:.1f} min"


def sets(
    project: Project,
    place: Path,
    records: tuple[Record, Record],
    size: tuple[int, int],
    culprits: Sequence[tuple[str, int]],
) -> list[tuple[int, float]]:
    """The sets that ran for each culprit, and the seconds that resolving and searching took."""
    packages, releases = size
    with PackageIndex() as index:
        for number in range(packages):
            for release in range(1, releases + 1):
                day = DAY - dt.timedelta(days=releases - release + 1)
                index.add(f"p{number}", f"{release}", f"{day}")
        variables = {"UV_DEFAULT_INDEX": index.url, "UV_CACHE_DIR": str(place / "cache")}
        with patch.dict(os.environ, variables):
            return [
                searched(replace(project, work=place / f"{n}"), records, size, *culprit)
                for n, culprit in enumerate(culprits)
            ]


def searched(
    project: Project,
    records: tuple[Record, Record],
    size: tuple[int, int],
    culprit: str,
    release: int,
) -> tuple[int, float]:
    """Look for one culprit; the answer must be right."""
    packages, releases = size
    texts = [
        tuple(f"p{number}=={version}" for number in range(packages)) for version in (1, releases)
    ]
    good, bad = (
        resolution.resolved(
            Side(name=name, python=PYTHON, as_of=DAY, requirements=text, asked=text),
            project.index,
            project.work / "locks",
            project.locks_folder,
        )
        for name, text in zip(("good", "bad"), texts, strict=True)
    )
    began = time.perf_counter()
    found = Pretended(
        project,
        good,
        bad,
        (),
        key_of(records[0].cell),
        Silent(),
        lambda _: None,
        records=records,
        culprit=culprit,
        release=release,
    ).run()
    assert [(culprit, f"{release}")] == [(each.package, each.after) for each in found.edges]
    return found.probes, time.perf_counter() - began


def register_bench_bisect(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    """Add this command to the command line."""
    add(commands, "bench-bisect", bench_command, "measure how many sets a bisection runs")


def bench_command(_: argparse.Namespace, project: Project, console: Console) -> int:
    """Run ``bench-bisect``: print each line when it is measured."""
    console.print(f"{PROBE_S:g} s for a set of packages; resolving as measured")
    with tempfile.TemporaryDirectory(prefix="gradmatrix-bench-") as folder:
        for line in measure(project, Path(folder)):
            console.print(Text(str(line)), soft_wrap=True)
    return 0
