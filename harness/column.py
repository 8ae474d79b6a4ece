"""One column of the matrix: a stack's records become rows, its file in ``results/records/``, and its evidence pages.

Columns do not depend on each other, and a big matrix is published a column at a time, by several processes: whole
records of 100,000 cells would not fit in memory.
"""

from __future__ import annotations

import datetime as dt
import gc
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from harness import history
from harness.disk import write_atomically
from harness.observation import Frozen
from harness.project import Project, of_locks, of_matrix
from harness.publish.badges import badges
from harness.publish.published import Table
from harness.publish.rows import Row, rows_of
from harness.relations import judged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from multiprocessing.context import BaseContext

    from harness.model import Lock, Record

BIG_BYTES = 32 * 2**20
"""Records below it are read by this process: a second one needs half a second to start."""


MOST_PROCESSES = 61
MOST_BADGED = 100
"""The newest stacks have badges: nobody shows that of the seven hundredth, and each is six files."""


class Column(Frozen, frozen=True):
    """What the matrix needs of one stack."""

    rows: tuple[Row, ...]
    build: str | None
    """The build of torch of its newest cell; None where nothing ran."""
    pages: tuple[str, ...]
    """Paths in results/ that were written."""
    problems: tuple[str, ...] = ()
    """What another process could not read, one sentence each."""


class Task(Frozen, frozen=True):
    """All that another process needs to publish one stack."""

    root: str
    matrix_file: str
    results: str
    work: str
    stack: str
    now: dt.datetime
    """When this publication began; one moment for all of its columns."""
    site: bool
    badged: bool
    """Whether its badges are written."""


def columns(project: Project, locks: Sequence[Lock], *, site: bool) -> Iterator[Column]:
    """The column of each lock, in order; written to results/ when it comes."""
    now = dt.datetime.now(dt.UTC)
    recent = {lock.stack for lock in locks[-MOST_BADGED:]}
    if not is_big(project) or len(locks) == 1:
        yield from (publish_column(project, lock, now=now, site=site, badged=lock.stack in recent) for lock in locks)
        return
    tasks = [
        msgspec.json.encode(
            Task(
                root=str(project.root),
                matrix_file=str(project.matrix_file),
                results=str(project.results),
                work=str(project.work),
                stack=lock.stack,
                now=now,
                site=site,
                badged=lock.stack in recent,
            )
        )
        for lock in locks
    ]
    if site:
        from harness.publish.site import evidence as _read_once  # noqa: F401  (before there are forks of this process)
    _PROJECTS[project.root, project.matrix_file, project.results, project.work] = project  # forks have read it too
    project.known_scenarios()
    with ProcessPoolExecutor(processes(), mp_context=context(), initializer=gc.disable) as pool:
        decoder = msgspec.msgpack.Decoder(Column)
        yield from map(decoder.decode, pool.map(in_process, tasks, chunksize=max(1, len(tasks) // 64)))


def is_big(project: Project) -> bool:
    """Whether there are so many records, published ones and those of this checkout, that a second process pays."""
    folders = (project.store.journal, project.store.published)
    return sum(path.stat().st_size for folder in folders for path in folder.glob("*.jsonl")) >= BIG_BYTES


def context() -> BaseContext:
    """How another process starts: as a fork where that is safe, since it has then imported what it needs."""
    return get_context("fork" if can_fork() else "spawn")


def can_fork() -> bool:
    """Whether this process has one thread, those of libraries included, and a system whose libraries bear a fork."""
    return sys.platform == "linux" and len(list(Path("/proc/self/task").iterdir())) == 1


def processes() -> int:
    """How many this one may start: a core each, and no more than Windows waits for."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(cores, MOST_PROCESSES)


def in_process(task: bytes) -> bytes:
    """A task and its column as bytes, since those are quick to hand over."""
    asked = msgspec.json.decode(task, type=Task)
    project = project_of(asked)
    lock = next(lock for lock in project.known_locks((asked.stack,)))
    published = publish_column(project, lock, now=asked.now, site=asked.site, badged=asked.badged)
    return msgspec.msgpack.encode(msgspec.structs.replace(published, problems=tuple(project.store.problems)))


_PROJECTS: dict[tuple[Path, Path, Path, Path], Project] = {}
"""Projects of this process: scenarios and matrix.toml are read once, not once a stack."""


def project_of(task: Task) -> Project:
    """The project of a task."""
    paths = (Path(task.root), Path(task.matrix_file), Path(task.results), Path(task.work))
    if paths not in _PROJECTS:
        _PROJECTS[paths] = Project(*paths)
    return _PROJECTS[paths]


def publish_column(project: Project, lock: Lock, *, now: dt.datetime, site: bool, badged: bool = True) -> Column:
    """Write the stack's records and what changed of them, and its evidence pages where a ``site`` is wanted."""
    known = project.known_scenarios()
    newest = project.store.of_stack(lock.stack)
    project.store.refuse_other_schema(lock.stack)
    records = of_matrix(judged(newest.values(), known), known)
    published = project.store.published / f"{lock.stack}.jsonl"
    update = history.update(
        project.history_folder,
        lock,
        records,
        published_before=published,
        complete=not project.store.is_damaged,
        now=now,
    )
    project.store.problems += update.problems
    project.store.publish(lock.stack, records)
    scenarios = {scenario.name: scenario for scenario in project.chosen_scenarios()}
    records = of_matrix(of_locks(records, [lock]), scenarios)  # the others are kept, and not shown
    rows = tuple(rows_of(records, scenarios))
    pages: list[str] = []
    if site:
        from harness.publish.site.evidence import evidence_page

        evidence = [evidence_page(lock, scenarios, records, rows)] if records else []
        alone = badges(Table((lock,), scenarios, rows)) if badged else ()
        files = ((f"badges/{path}", content) for path, content in alone)
        pages = list(write(project.results, chain(evidence, files)))
    return Column(rows=rows, build=build_of(records), pages=tuple(pages))


def build_of(records: Iterable[Record]) -> str | None:
    """The build of torch on which the newest cell ran."""
    builds = [(record.recorded_at, record.build) for record in records if record.build]
    return max(builds)[1] if builds else None


def write(folder: Path, files: Iterable[tuple[str, bytes]]) -> Iterator[str]:
    """Write the files, each in one step; their paths."""
    for path, content in files:
        write_atomically(folder / path, content)
        yield path
