"""Publishing: ``results/`` from the newest record of every cell. A column at a time, then what shows all of them."""

from __future__ import annotations

import contextlib
import gc
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from multiprocessing import get_context
from typing import TYPE_CHECKING

from harness import claims_file, column, currency, disk, history
from harness.project import by_date
from harness.publish import readme
from harness.publish.claims import judge_all
from harness.publish.claims_table import as_json as claims_as_json
from harness.publish.claims_table import claims_block
from harness.publish.document import as_json, as_schema, as_schema_of_records
from harness.publish.feed import feed
from harness.publish.headline import headline
from harness.publish.markdown import as_markdown
from harness.publish.published import Table, tabulated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from harness.claims import Judged
    from harness.project import Project
    from harness.publish.rows import Row


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
        if currency.is_current(project, site=site, base_url=base_url):
            return False
        for left in currency.leftovers(project.results):
            left.unlink(missing_ok=True)
        made_of = currency.stamps(currency.sources(project))
        gathered = gather(project, site=site)
        table = gathered.table
        with beside(partial(write_cells, project.results, table), apart=column.is_big(project)):
            claims = judge_all(claims_file.of_checkout(project.root, project.known_scenarios(), table.locks), table)
            write_documents(project.results, table, claims)
            if project.results == project.root / "results":
                readme.write_block(project.root / "README.md", "headline", headline(table))
                readme.write_block(project.root / "README.md", "claims", claims_block(claims))
            if site:
                write_site(project, table, claims, gathered.pages, base_url)
        currency.remember(project, made_of, site=site, base_url=base_url)
    return True


def gather(project: Project, *, site: bool) -> Gathered:
    """Every column, written to results/ as it comes."""
    locks = by_date(project.known_locks())
    rows: list[Row] = []
    builds: dict[str, str] = {}
    pages: list[str] = []
    problems = dict.fromkeys(project.store.problems)
    for lock, each in zip(locks, column.columns(project, locks, site=site), strict=True):
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
    if not (apart and column.can_fork()):
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
    from harness.publish import frame  # pandas takes a second to import: only who writes files waits for it

    disk.write_in_pieces(folder / "matrix.json", as_json(table, table.builds))
    cells = frame.frame(table)
    disk.write_atomically(folder / "matrix.csv", frame.as_csv(cells))
    disk.write_atomically(folder / "matrix.parquet", frame.as_parquet(cells))


def write_documents(folder: Path, table: Table, claims: Sequence[Judged]) -> None:
    """The other data files, each in one step."""
    disk.write_atomically(folder / "matrix.schema.json", as_schema())
    disk.write_atomically(folder / "records.schema.json", as_schema_of_records())
    disk.write_atomically(folder / "matrix.md", as_markdown(table).encode())
    disk.write_atomically(folder / "claims.json", claims_as_json(claims))


def write_site(
    project: Project, table: Table, claims: Sequence[Judged], pages: Iterable[str], base_url: str | None
) -> None:
    """The pages that show all stacks, the feed and the badges; what an earlier publication left over is deleted."""
    from harness.publish.site.sitemap import pages as pages_of

    for lock in table.locks if project.locks_folder.parent != project.results else ():  # pages link to them
        for name in (f"{lock.stack}.json", f"{lock.stack}.txt"):
            with contextlib.suppress(FileNotFoundError):  # a stack that could not be resolved has no text
                disk.write_atomically(project.results / "locks" / name, (project.locks_folder / name).read_bytes())
    known = history.load(project.history_folder)
    sources_of = {s.name: (project.root / s.path).read_text(encoding="utf-8") for s in table.scenarios.values()}
    files = chain(
        pages_of(table, claims=claims, history=known, source_of=sources_of),
        [("feed.xml", feed(known, base_url))],
    )
    written = sorted({*pages, *column.write(project.results, files)})
    for path in currency.pages(project.results).difference(written):
        (project.results / path).unlink(missing_ok=True)
    disk.write_atomically(project.results / currency.PAGES, "".join(f"{path}\n" for path in written).encode())
