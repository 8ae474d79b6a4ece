"""Pages of a small matrix, for the tests that read them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

from gradmatrix.core.model import Role
from gradmatrix.publish.formats import Results
from gradmatrix.publish.rows import rows_of, tabulated
from gradmatrix.publish.site.evidence import evidence_page
from gradmatrix.publish.site.pages import stack_pages
from gradmatrix.publish.site.site import site_files
from gradmatrix.publish.site.tables import View
from gradmatrix.publish.speed import Runs, speeds
from gradmatrix.run.project import by_date
from tests.factories import (
    make_cell,
    make_lock,
    make_observation,
    make_record,
    make_scenario,
    make_stopped,
    make_variant,
    make_warned,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gradmatrix.compare.history import History
    from gradmatrix.core.model import Lock, Record, Scenario
    from gradmatrix.judge.edge import Flips
    from gradmatrix.publish.claims.claims import Judged
    from gradmatrix.publish.rows import Table
    from gradmatrix.stacks.pairwise import Chosen

SUMS = make_scenario(
    "sums",
    make_variant("plain"),
    make_variant("reported", Role.REPORTED),
    make_variant("other", Role.REPORTED),
    make_variant("frozen", Role.MISUSE),
)
OLD = make_lock("old", versions={"torch": "2.5.0", "numpy": "1.0"}, as_of=dt.date(2025, 1, 1))
NEW = make_lock("new", versions={"torch": "2.10.0", "numpy": "2.0"})
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e \"'"
VOID = {"meta", "link", "br", "wbr", "input"}


def table_of(
    records: Iterable[Record],
    locks: Iterable[Lock],
    *scenarios: Scenario,
    builds: Mapping[str, str] | None = None,
    flips: Flips | None = None,
) -> Table:
    """The table of some records."""
    records, known = list(records), {scenario.name: scenario for scenario in scenarios}
    table = tabulated(by_date(locks), known, rows_of(records, known), builds, flips)
    runs = {
        record.cell: Runs((record.steps_per_s.median,), each, seen.start_memory_bytes)
        for record, each in speeds(records)
        if record.steps_per_s is not None and (seen := record.observation) is not None
    }
    return replace(table, runs=runs)


def view_of(
    records: Iterable[Record],
    locks: Iterable[Lock],
    *scenarios: Scenario,
    builds: Mapping[str, str] | None = None,
) -> View:
    """The view of these rows that pages use."""
    return View(table_of(records, locks, *scenarios, builds=builds))


def evidence_of(record: Record, lock: Lock, scenario: Scenario, *others: Record) -> str:
    """The evidence page of a cell, with ``others`` of its stack."""
    records, known = [record, *others], {scenario.name: scenario}
    _, content = evidence_page(lock, known, records, tuple(rows_of(records, known)))
    return content.decode()


def site_of(
    records: Iterable[Record],
    locks: Iterable[Lock],
    *scenarios: Scenario,
    claims: tuple[Judged, ...] = (),
    chosen: tuple[Chosen, ...] = (),
    history: History | None = None,
    builds: Mapping[str, str] | None = None,
    flips: Flips | None = None,
    source: str = '"""A title.\n\nIts story.\n"""\n',
) -> dict[str, str]:
    """Every page and file by its path."""
    records = list(records)
    combined = frozenset(stack.name for each in chosen for stack in each.stacks)
    table = replace(
        table_of(records, locks, *scenarios, builds=builds, flips=flips), combined=combined
    )
    files = dict(stack_pages(View(table))) | dict(
        site_files(
            Results(table, claims, chosen),
            history=history,
            source_of={s.name: source for s in scenarios},
        )
    )
    for lock in table.locks:
        mine = [record for record in records if record.cell.stack == lock.stack]
        files |= dict(
            [evidence_page(lock, table.scenarios, mine, tuple(rows_of(mine, table.scenarios)))]
            if mine
            else []
        )
    return {path: content.decode() for path, content in files.items()}


def cell(
    stack: str, variant: str, outcome: str = "trains", device: str = "cpu", **fields: object
) -> Record:
    """A record of the sample."""
    return make_record(outcome, make_cell(stack, "sums", variant, device), **fields)


def sample() -> list[Record]:
    """Two stacks: a report that the newer one fixes, one that still fails, and a misuse."""
    reported: dict[str, Any] = {"role": Role.REPORTED}
    stopped = {
        **reported,
        "observation": make_stopped(),
        "message": "RuntimeError: element 0 of tensors 17",
    }
    return [
        *(cell(stack, "plain") for stack in ("old", "new")),
        cell("old", "reported", "step:no-grad-fn", **stopped),
        cell(
            "new",
            "reported",
            **reported,
            observation=make_observation(warnings=(make_warned("beware of 12"),)),
        ),
        *(cell(stack, "other", "step:no-grad-fn", **stopped) for stack in ("old", "new")),
        cell(
            "new", "frozen", "gradient:none", role=Role.MISUSE, observation=make_observation("nnnn")
        ),
        cell(
            "new",
            "plain",
            "setup:no-device",
            device="cuda",
            passed=None,
            message="this machine has no cuda device",
        ),
    ]


@dataclass
class Page(HTMLParser):
    """The content of a page. ``problems`` are tags that do not close the last opened one."""

    html: str
    links: list[str] = field(default_factory=list)
    anchors: list[str] = field(default_factory=list)
    attributes: set[str] = field(default_factory=set)
    scripts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    text: str = ""
    _open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.html)
        self.problems += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember the tag and its links."""
        if tag not in VOID:
            self._open.append(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name in {"href", "src"}:
                self.links.append(value or "")
            if name == "id":
                self.anchors.append(value or "")
        if tag == "script":
            self.scripts.append(dict(attrs).get("src") or "inline")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A shape of a plot."""
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        """Check that it closes the last opened tag."""
        if self._open and self._open[-1] == tag:
            self._open.pop()
        else:
            self.problems.append(f"</{tag}> in {self._open[-3:]}")

    def handle_data(self, data: str) -> None:
        """Keep the text, in one line."""
        self.text = " ".join(f"{self.text} {data}".split())
