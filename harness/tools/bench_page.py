"""``bench-page``: measure the limits of a matrix of 100,000 records, or of more.

The records are those of this checkout, repeated under other names of stacks, so their text,
failures and diagnoses are real.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec
from rich.text import Text

from gradmatrix.cli.commands import add, count
from gradmatrix.core.errors import UserError
from gradmatrix.core.text import plain
from gradmatrix.run.project import Project
from gradmatrix.run.store import Store, encode
from tools.bench import Ratio
from tools.chromium import NoBrowser, launched

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from playwright.sync_api import Browser, Page
    from rich.console import Console

    from gradmatrix.core.model import Lock


RECORDS = 100_000
"""What the limits are for."""
LIMIT_S = 10.0
LIMIT_BYTES = 10**9
STORE_MS = 10.0
COMPARE_S = 5.0
PAGE_BYTES = 1_500_000
SHOWN_MS = 1000.0
FILTER_MS = 100.0
LOADS = 7
REPEATS = 3
PAGE_SIZE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
"""Bytes of the pages in which /proc counts memory."""
EVERY_S = 0.1
"""Seconds between two looks at the memory of the processes that publish."""
COMPILES = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
"""Python keeps what it compiled, as pip does when it installs."""
IMPORTS = "import gradmatrix.publish.site.site, pandas, pyarrow.parquet"
"""What publishing imports late."""
SETTLED_MS = 200
"""A filter has answered if the page has not changed for this many milliseconds."""
SHOWN = """
window.shown = new Promise(done => {
  let largest = 0;
  new PerformanceObserver(list => list.getEntries().forEach(each => { largest = each.startTime; }))
    .observe({type: "largest-contentful-paint", buffered: true});
  addEventListener("DOMContentLoaded", () => requestAnimationFrame(() => setTimeout(() => {
    const drawn = document.querySelectorAll("#tables td").length ? performance.now() : Infinity;
    setTimeout(() => done(Math.max(drawn, largest)), 500);
  })));
});
"""
"""Milliseconds from the start of the navigation until a frame with every row was drawn, or until
the largest element was painted, whichever is later."""
ANSWER = """
([name, value]) => new Promise(done => {
  const field = document.querySelector(`#filters [name="${name}"]`);
  const begun = performance.now();
  let last = begun, timer;
  const end = () => { seen.disconnect(); done(last - begun); };
  const wait = () => { clearTimeout(timer); timer = setTimeout(end, SETTLED); };
  const seen = new MutationObserver(() => requestAnimationFrame(() => setTimeout(() => {
    last = performance.now();
    wait();
  })));
  seen.observe(document.body, {subtree: true, childList: true, characterData: true});
  field.value = value;
  for (const type of ["input", "change"]) field.dispatchEvent(new Event(type, {bubbles: true}));
  wait();
})
""".replace("SETTLED", str(SETTLED_MS))
"""Milliseconds from the choice in a field until the last change of the page was drawn.

The page lays out the rows that are out of sight later: that changes no content.
"""
OPTIONS = """
fields => fields.map(field => [
  field.name, [...field.options].map(option => option.value).filter(Boolean)
])
"""


def measure(project: Project, records: int = RECORDS) -> Iterator[Ratio]:
    """Measure publishing and then the first page, of ``records`` or a few more.

    Raises:
        NoBrowser: after the other ratios, if there is no browser.
    """
    with tempfile.TemporaryDirectory(prefix="gradmatrix-bench-") as folder:
        root = Path(folder)
        total = enlarge(project, root, records)
        yield from storing(root)
        yield from comparing(root)
        yield from publishing(root, total)
        with launched() as browser:
            yield from first_page(browser, root / "results")


def enlarge(project: Project, root: Path, records: int = RECORDS) -> int:
    """Make a checkout in ``root`` with the published stacks repeated, but for the combined ones.

    Under another name a combined stack would be a column of its own.

    Returns its number of records, ``records`` or a few more.
    """
    folder = project.store.published
    store, combined = Store(folder, folder), project.combined
    published = {  # as they count: one that was confirmed has the lock of today
        lock: [encode(each).rstrip() for each in store.recorded_here(lock.stack).values()]
        for lock in project.known_locks()
        if lock.stack not in combined
    }
    total = sum(map(len, published.values()))
    if not total:
        raise UserError(
            f"There are no records in {folder}.",
            cause="the measured matrix is made of published ones",
            next_step="nox -s matrix",
        )
    copies = math.ceil(records / total)
    shutil.copytree(
        project.root / "scenarios", root / "scenarios", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("records", "locks"):
        (root / "results" / name).mkdir(parents=True)
    tables = [f"[run]\ndevices = {json.dumps(project.matrix.run.devices)}\n"]  # and all scenarios
    for number in range(copies):
        tables += [
            add_copy(project, root, lock, lines, number) for lock, lines in published.items()
        ]
    (root / "matrix.toml").write_text("".join(tables), encoding="utf-8")
    return copies * total


def add_copy(project: Project, root: Path, lock: Lock, lines: Iterable[bytes], number: int) -> str:
    """Write the lock and the records of a stack under another name.

    Returns its table in matrix.toml.
    """
    copy = msgspec.structs.replace(lock, stack=f"{lock.stack}-{number:02}")
    own, other = (f'"stack":"{name}"'.encode() for name in (lock.stack, copy.stack))
    records = b"".join(line.replace(own, other, 1) + b"\n" for line in lines)
    (root / "results" / "records" / f"{copy.stack}.jsonl").write_bytes(records)
    (root / "results" / "locks" / f"{copy.stack}.json").write_bytes(msgspec.json.encode(copy))
    text = project.locks_folder / f"{lock.stack}.txt"
    if text.exists():  # a stack that could not be resolved has none
        shutil.copy(text, root / "results" / "locks" / f"{copy.stack}.txt")
    return (
        f'[[stacks]]\nname = "{copy.stack}"\npython = "{copy.python}"\nas_of = {copy.as_of}\n'
        f"requirements = {json.dumps(copy.requirements)}\n"
    )


class Spent(NamedTuple):
    """What a command took, with all processes that it started."""

    seconds: float
    processor_s: float
    peak_bytes: int
    """Resident memory together; 0 on a system without /proc."""
    processes: int

    @property
    def memory(self) -> str:
        """In words."""
        text = f"{self.peak_bytes / 1e6:.0f} MB resident"
        return text if self.processes == 1 else f"{text} in {self.processes} processes together"


def spent(root: Path, *arguments: str) -> Spent:
    """Run a command of ours on the checkout in ``root``.

    Raises:
        UserError: if it fails.
    """
    began, busy = time.perf_counter(), os.times()
    command = [sys.executable, "-m", "gradmatrix", *arguments, "--root", str(root)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=COMPILES) as process:
        peak, most = 0, 0
        while process.poll() is None:
            members = [resident_bytes(pid) for pid in family(process.pid)]
            peak, most = max(peak, sum(members)), max(most, len(members))
            time.sleep(EVERY_S)
        seconds = time.perf_counter() - began
    if process.returncode in {None, 2} or process.returncode < 0:  # others are answers
        raise UserError(
            f"gradmatrix {arguments[0]} failed.",
            cause="its error is above",
            next_step="fix this and run the command again",
        )
    after = os.times()
    worked = after.children_user + after.children_system - busy.children_user - busy.children_system
    return Spent(seconds, worked, peak, most)


def storing(root: Path) -> Iterator[Ratio]:
    """Seconds for each record that a run writes, among all others."""
    project = Project.at(root)
    stack = project.matrix.stacks[0].name
    records = list(project.store.of_stack(stack).values())
    began = time.perf_counter()
    for record in records:
        project.store.append(record)
    each_ms = 1000 * (time.perf_counter() - began) / len(records)
    detail = f"{each_ms:.1f} ms, mean of {len(records):,}; it is on the disk then"
    yield Ratio("storing a record / 10 ms", each_ms / STORE_MS, "<= 1", detail)


def comparing(root: Path) -> Iterator[Ratio]:
    """Seconds and memory of ``gradmatrix compare`` of two stacks in a fresh process."""
    stacks = Project.at(root).matrix.stacks
    took = spent(root, "compare", stacks[0].name, stacks[-1].name)
    detail = f"{took.seconds:.1f} s, {took.memory}"
    yield Ratio("comparing two stacks / 5 s", took.seconds / COMPARE_S, "<= 1", detail)


def publishing(root: Path, total: int) -> Iterator[Ratio]:
    """Seconds and memory of ``gradmatrix publish`` in a fresh process."""
    subprocess.run([sys.executable, "-c", IMPORTS], env=COMPILES, check=True)
    took = spent(root, "publish")
    pages = sum(1 for _ in (root / "results").rglob("*.html"))
    detail = (
        f"{took.seconds:.1f} s for {total:,} records, {pages:,} pages; "
        f"{took.processor_s:.1f} s of {os.cpu_count()} processors"
    )
    each_s = LIMIT_S * total / RECORDS
    yield Ratio("publishing each 100,000 records / 10 s", took.seconds / each_s, "<= 1", detail)
    if took.peak_bytes:
        detail = f"{took.memory}; shared memory counts in each"
        yield Ratio("its memory / 1 GB", took.peak_bytes / LIMIT_BYTES, "<= 1", detail)


def family(pid: int) -> list[int]:
    """A process and all its descendants; empty on a system without /proc."""
    found = []
    with contextlib.suppress(OSError):  # the process has just ended
        found = [pid]
        for listed in Path(f"/proc/{pid}/task").glob("*/children"):
            found += [
                each
                for child in listed.read_text(encoding="ascii").split()
                for each in family(int(child))
            ]
    return found


def resident_bytes(pid: int) -> int:
    """Physical memory of a process; 0 if it has just ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE_SIZE
    except (OSError, IndexError):
        return 0


def first_page(browser: Browser, results: Path) -> Iterator[Ratio]:
    """Bytes of the first page, the time until it shows its table, and the time of a filter."""
    loads = [load(browser, results) for _ in range(LOADS)]
    size, files = loads[0].bytes, ", ".join(loads[0].files)
    yield Ratio("first page / 1.5 MB", size / PAGE_BYTES, "<= 1", f"{size / 1e3:.0f} kB: {files}")
    shown = sorted(each.shown_ms for each in loads)
    detail = (
        f"median of {LOADS} loads, {shown[0]:.0f} to {shown[-1]:.0f} ms until all rows are drawn"
    )
    yield Ratio("table visible / 1 s", statistics.median(shown) / SHOWN_MS, "<= 1", detail)
    with contextlib.closing(browser.new_page()) as page:
        page.goto((results / "index.html").as_uri())
        answers = filtered(page)
    slowest = max(answers, key=lambda each: each[1])
    middle = statistics.median(each[1] for each in answers)
    detail = (
        f"{slowest[0]}: {slowest[1]:.0f} ms, worst of {len(answers)}, {REPEATS} times each, "
        f"median {middle:.0f} ms"
    )
    yield Ratio("a filter's answer / 100 ms", slowest[1] / FILTER_MS, "<= 1", detail)


class Load(NamedTuple):
    """One visit of the first page."""

    bytes: int
    files: tuple[str, ...]
    shown_ms: float


def load(browser: Browser, results: Path) -> Load:
    """Open the first page in an empty browser."""
    asked: list[Path] = []
    with contextlib.closing(browser.new_context()) as context:
        page = context.new_page()
        page.add_init_script(SHOWN)
        page.on("request", lambda request: asked.append(Path(unquote(urlsplit(request.url).path))))
        page.goto((results / "index.html").as_uri())
        shown = page.evaluate("shown")
    read = [path for path in dict.fromkeys(asked) if path.is_file()]
    return Load(sum(path.stat().st_size for path in read), tuple(path.name for path in read), shown)


def filtered(page: Page) -> list[tuple[str, float]]:
    """Two options of every field and two stacks, with milliseconds until each was drawn."""
    fields = dict(page.locator("#filters select").evaluate_all(OPTIONS))
    choices = [
        (f"{name} = {value}", [[name, value]])
        for name, options in fields.items()
        for value in dict.fromkeys((options[0], options[-1]) if options else ())
    ]
    first, last = fields["a"][0], fields["a"][-1]
    choices.append((f"what differs between {first} and {last}", [["a", first], ["b", last]]))
    return [
        (name, statistics.median(answer_ms(page, steps) for _ in range(REPEATS)))
        for name, steps in choices
    ]


def answer_ms(page: Page, steps: Sequence[Sequence[str]]) -> float:
    """Milliseconds until the last of some choices was drawn, starting from the whole matrix."""
    page.locator("#reset").click()
    page.wait_for_timeout(SETTLED_MS)
    *before, last = steps
    for step in before:
        page.evaluate(ANSWER, step)
    answer: float = page.evaluate(ANSWER, last)
    return answer


def register_page(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    text = "measure storing, comparing and publishing 100,000 records, and the first page"
    parser = add(commands, "bench-page", bench_command, text)
    parser.add_argument(
        "--records", type=count, default=RECORDS, metavar="N", help=f"of more records ({RECORDS:,})"
    )


def bench_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Run ``bench-page``: print each ratio when it is measured; returns 1 without a browser."""
    try:
        for ratio in measure(project, options.records):
            console.print(Text(str(ratio)), soft_wrap=True)
    except NoBrowser as missing:
        console.print(Text(f"The page was not measured. {plain(str(missing))}"), soft_wrap=True)
        return 1
    return 0
