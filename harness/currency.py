"""Whether results/ is up to date: what was published is remembered with what it was made of, by stamps of files."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

import msgspec

from harness import disk
from harness.observation import Frozen
from harness.project import HARNESS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from harness.project import Project

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
    return known == Remembered(stamps=stamps([*outputs(project, site=site), *sources(project)]), base_url=base_url)


def remember(project: Project, made_of: Stamps, *, site: bool, base_url: str | None) -> None:
    """Remember a publication; ``made_of`` are the stamps of the sources, taken before they were read."""
    written = stamps([*outputs(project, site=site), *kept_records(project)])
    done = Remembered(stamps=made_of | written, base_url=base_url)
    disk.write_atomically(_path(project, site=site), msgspec.json.encode(done))


def outputs(project: Project, *, site: bool) -> list[Path]:
    """All that a publication writes and does not read."""
    names = [*DATA, *([*sorted(pages(project.results)), PAGES] if site else ())]
    readme = [project.root / "README.md"] if project.results == project.root / "results" else []
    return [*(project.results / name for name in names), *readme]


def pages(results: Path) -> set[str]:
    """The pages that were published: nothing else is ever deleted, whatever folder was named."""
    try:
        listed = (results / PAGES).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return set()
    return {path for path in listed if not {"", ".", ".."} & {*path.split("/")}}  # none that leads elsewhere


def sources(project: Project) -> list[Path]:
    """What the matrix is made of; published records may come by git."""
    folders = [project.store.journal, project.locks_folder, project.root / "scenarios"]
    read = [path for folder in folders for path in folder.glob("*.*")]
    scripts = [project.root / script.path for script in project.scripts]
    ours = [path for path in HARNESS.rglob("*.*") if path.suffix != ".pyc"]
    return [project.matrix_file, *read, *scripts, *kept_records(project), *ours]


def leftovers(results: Path) -> list[Path]:
    """Half-written files of a publication that was killed, by their names: the folder may hold other things."""
    folders = (results, *(results / name for name in FOLDERS))
    return [path for folder in folders for path in folder.glob("*.partial") if LEFT.fullmatch(path.name)]


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
