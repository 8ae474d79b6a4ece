"""One column of the matrix: a stack's records become rows, its file in ``results/records/``, and its evidence pages.

Columns do not depend on each other, and a big matrix is published a column at a time, by several processes: whole
records of 100,000 cells would not fit in memory.

Whether results/ is up to date: what was published is remembered with what it was made of, by stamps of files.

Publishing: ``results/`` from the newest record of every cell. A column at a time, then what shows all of them.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import os
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gradmatrix.compare import history
from gradmatrix.core import files as disk
from gradmatrix.core.files import write_atomically
from gradmatrix.core.observation import Frozen
from gradmatrix.judge.relations import judged
from gradmatrix.publish import formats
from gradmatrix.publish.claims import claims as claims_file
from gradmatrix.publish.claims.judge import judge_all
from gradmatrix.publish.feeds import badges, feed
from gradmatrix.publish.formats import (
    as_json,
    as_markdown,
    as_schema,
    as_schema_of_records,
    claims_block,
    headline,
)
from gradmatrix.publish.formats import claims_json as claims_as_json
from gradmatrix.publish.rows import Row, Table, rows_of, tabulated
from gradmatrix.run.project import PACKAGE, Project, by_date, of_locks, of_matrix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from multiprocessing.context import BaseContext

    from gradmatrix.core.model import Lock, Record
    from gradmatrix.publish.claims.claims import Judged


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
        yield from (
            publish_column(project, lock, now=now, site=site, badged=lock.stack in recent)
            for lock in locks
        )
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
        from gradmatrix.publish.site import evidence as _read_once  # noqa: F401  (before there are forks of this process)
    _PROJECTS[project.root, project.matrix_file, project.results, project.work] = (
        project  # forks have read it too
    )
    project.known_scenarios()
    with ProcessPoolExecutor(processes(), mp_context=context(), initializer=gc.disable) as pool:
        decoder = msgspec.msgpack.Decoder(Column)
        yield from map(
            decoder.decode, pool.map(in_process, tasks, chunksize=max(1, len(tasks) // 64))
        )


def is_big(project: Project) -> bool:
    """Whether there are so many records, published ones and those of this checkout, that a second process pays."""
    folders = (project.store.journal, project.store.published)
    return (
        sum(path.stat().st_size for folder in folders for path in folder.glob("*.jsonl"))
        >= BIG_BYTES
    )


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
    return msgspec.msgpack.encode(
        msgspec.structs.replace(published, problems=tuple(project.store.problems))
    )


_PROJECTS: dict[tuple[Path, Path, Path, Path], Project] = {}
"""Projects of this process: scenarios and matrix.toml are read once, not once a stack."""


def project_of(task: Task) -> Project:
    """The project of a task."""
    paths = (Path(task.root), Path(task.matrix_file), Path(task.results), Path(task.work))
    if paths not in _PROJECTS:
        _PROJECTS[paths] = Project(*paths)
    return _PROJECTS[paths]


def publish_column(
    project: Project, lock: Lock, *, now: dt.datetime, site: bool, badged: bool = True
) -> Column:
    """Write the stack's records and what changed of them, and its evidence pages where a ``site`` is wanted."""
    known = project.known_scenarios()
    newest = project.store.of_stack(lock.stack)
    project.store.refuse_other_schema(lock.stack)
    records = of_matrix(judged(newest.values(), known), known)
    if not project.is_local:
        update = history.update(
            project.history_folder,
            lock,
            records,
            published_before=project.store.published / f"{lock.stack}.jsonl",
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
        from gradmatrix.publish.site.evidence import evidence_page

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


DATA = (
    "matrix.json",
    "matrix.schema.json",
    "records.schema.json",
    "claims.json",
    "matrix.csv",
    "matrix.parquet",
    "matrix.md",
)
PAGES = "site/pages.txt"
"""The list of all pages, so that the next publication deletes those that it does not write."""
FOLDERS = (
    "cells", "stacks", "scenarios", "packages", "site", "badges", "records", "locks", "history", "history/locks",
)  # fmt: skip
LEFT = re.compile(r".+\.(?:json|jsonl|csv|parquet|md|html|js|css|xml|txt)\.\d+\.partial")
Stamps = dict[str, tuple[int, int]]
"""When each file was last written, and its size."""


class Remembered(Frozen, frozen=True):
    """A publication: every file that was read for it or written by it."""

    stamps: Stamps
    base_url: str | None = None


def is_current(project: Project, *, site: bool = False, base_url: str | None = None) -> bool:
    """Whether what was published is there, and neither it nor what it is made of, our own code included, changed."""
    try:
        known = msgspec.json.decode(_path(project, site=site).read_bytes(), type=Remembered)
    except (FileNotFoundError, msgspec.MsgspecError):
        return False
    return known == Remembered(
        stamps=stamps([*outputs(project, site=site), *sources(project)]), base_url=base_url
    )


def remember(project: Project, made_of: Stamps, *, site: bool, base_url: str | None) -> None:
    """Remember a publication; ``made_of`` are the stamps of the sources, taken before they were read."""
    written = stamps([*outputs(project, site=site), *kept_records(project)])
    done = Remembered(stamps=made_of | written, base_url=base_url)
    disk.write_atomically(_path(project, site=site), msgspec.json.encode(done))


def outputs(project: Project, *, site: bool) -> list[Path]:
    """All that a publication writes and does not read."""
    names = [*DATA, *([*sorted(pages_in(project.results)), PAGES] if site else ())]
    readme = [project.root / "README.md"] if project.results == project.root / "results" else []
    return [*(project.results / name for name in names), *readme]


def pages_in(results: Path) -> set[str]:
    """The pages that were published: nothing else is ever deleted, whatever folder was named."""
    try:
        listed = (results / PAGES).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return set()
    return {
        path for path in listed if not {"", ".", ".."} & {*path.split("/")}
    }  # none that leads elsewhere


def sources(project: Project) -> list[Path]:
    """What the matrix is made of; published records may come by git."""
    folders = [project.store.journal, project.locks_folder, project.root / "scenarios"]
    read = [path for folder in folders for path in folder.glob("*.*")]
    scripts = [project.root / script.path for script in project.scripts]
    ours = [path for path in PACKAGE.rglob("*.*") if path.suffix != ".pyc"]
    return [project.matrix_file, *read, *scripts, *kept_records(project), *ours]


def leftovers(results: Path) -> list[Path]:
    """Half-written files of a publication that was killed, by their names: the folder may hold other things."""
    folders = (results, *(results / name for name in FOLDERS))
    return [
        path for folder in folders for path in folder.glob("*.partial") if LEFT.fullmatch(path.name)
    ]


def kept_records(project: Project) -> list[Path]:
    """What publishing both reads and writes."""
    return [*project.store.published.glob("*.jsonl"), *project.history_folder.rglob("*.jsonl")]


def stamps(paths: Iterable[Path]) -> Stamps:
    """When each file was last written, and its size; a file that is not there has none."""
    found = {}
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # another process replaces it just now
            status = path.stat()
            found[str(path)] = (status.st_mtime_ns, status.st_size)
    return found


def _path(project: Project, *, site: bool) -> Path:
    return project.work / ("site.json" if site else "published.json")


@dataclass(frozen=True)
class Gathered:
    """All columns together."""

    table: Table
    pages: list[str]
    """Paths in results/ that were written with the columns."""


def publish(project: Project, *, site: bool = False, base_url: str | None = None) -> bool:
    """Write results/ from the newest record of every cell, and its pages for a ``site``; False where it is up to date.

    ``base_url`` is where results/ is served, for the addresses in the feed. One process at a time reads and writes:
    of two that publish at once, the later one has the records of both.
    """
    with disk.held(project.work / "publish.lock"), without_collector():
        if is_current(project, site=site, base_url=base_url):
            return False
        for left in leftovers(project.results):
            left.unlink(missing_ok=True)
        made_of = stamps(sources(project))
        gathered = gather(project, site=site)
        table = gathered.table
        with beside(partial(write_cells, project.results, table), apart=is_big(project)):
            claims = judge_all(
                claims_file.of_checkout(project.root, project.known_scenarios(), table.locks), table
            )
            write_documents(project.results, table, claims)
            if project.results == project.root / "results":
                formats.write_block(project.root / "README.md", "headline", headline(table))
                formats.write_block(project.root / "README.md", "claims", claims_block(claims))
            if site:
                write_site(project, table, claims, gathered.pages, base_url)
        remember(project, made_of, site=site, base_url=base_url)
    return True


def gather(project: Project, *, site: bool) -> Gathered:
    """Every column, written to results/ as it comes."""
    locks = by_date(project.known_locks())
    rows: list[Row] = []
    builds: dict[str, str] = {}
    pages: list[str] = []
    problems = dict.fromkeys(project.store.problems)
    for lock, each in zip(locks, columns(project, locks, site=site), strict=True):
        rows += each.rows
        pages += each.pages
        problems.update(dict.fromkeys((*project.store.problems, *each.problems)))
        if each.build is not None:
            builds[lock.stack] = each.build
    project.store.problems[:] = problems
    scenarios = {s.name: s for s in project.chosen_scenarios()}
    return Gathered(tabulated(locks, scenarios, rows, builds), pages)


@contextmanager
def without_collector() -> Iterator[None]:
    """No cyclic garbage is looked for meanwhile: there is next to none, and much to look through."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def beside(work: Callable[[], None], *, apart: bool) -> Iterator[None]:
    """Do ``work`` before the body, or in a fork ``apart`` while the body runs, where this system has forks."""
    if not (apart and can_fork()):
        work()
        yield
        return
    fork = get_context("fork").Process(target=work)
    fork.start()
    try:
        yield
    finally:
        fork.join()
    if fork.exitcode:
        work()  # to fail here, with what was wrong


def write_cells(folder: Path, table: Table) -> None:
    """The data files with all cells, each in one step."""
    from gradmatrix.publish import (
        formats,
    )  # pandas takes a second to import: only who writes files waits for it

    disk.write_in_pieces(folder / "matrix.json", as_json(table, table.builds))
    cells = formats.frame(table)
    disk.write_atomically(folder / "matrix.csv", formats.as_csv(cells))
    disk.write_atomically(folder / "matrix.parquet", formats.as_parquet(cells))


def write_documents(folder: Path, table: Table, claims: Sequence[Judged]) -> None:
    """The other data files, each in one step."""
    disk.write_atomically(folder / "matrix.schema.json", as_schema())
    disk.write_atomically(folder / "records.schema.json", as_schema_of_records())
    disk.write_atomically(folder / "matrix.md", as_markdown(table).encode())
    disk.write_atomically(folder / "claims.json", claims_as_json(claims))


def write_site(
    project: Project,
    table: Table,
    claims: Sequence[Judged],
    pages: Iterable[str],
    base_url: str | None,
) -> None:
    """The pages that show all stacks, the feed and the badges; what an earlier publication left over is deleted."""
    from gradmatrix.publish.site.site import pages as pages_of

    for lock in (
        table.locks if project.locks_folder.parent != project.results else ()
    ):  # pages link to them
        for name in (f"{lock.stack}.json", f"{lock.stack}.txt"):
            with contextlib.suppress(
                FileNotFoundError
            ):  # a stack that could not be resolved has no text
                disk.write_atomically(
                    project.results / "locks" / name, (project.locks_folder / name).read_bytes()
                )
    known = history.load(project.history_folder)
    sources_of = {
        s.name: (project.root / s.path).read_text(encoding="utf-8")
        for s in table.scenarios.values()
    }
    files = chain(
        pages_of(table, claims=claims, history=known, source_of=sources_of),
        [("feed.xml", feed(known, base_url))],
    )
    written = sorted({*pages, *write(project.results, files)})
    for path in pages_in(project.results).difference(written):
        (project.results / path).unlink(missing_ok=True)
    disk.write_atomically(
        project.results / PAGES, "".join(f"{path}\n" for path in written).encode()
    )
