"""What the tables of the first page show, and what they should show by the published cells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.version import Version

from gradmatrix.publish.rows import rate
from gradmatrix.publish.site.tables import LEAST_STACKS, MOST_CELLS, WINDOW, in_cell

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from gradmatrix.core.model import Role
    from gradmatrix.publish.rows import Row
    from tests.browser.conftest import Site

Line = tuple[str, str, str]
"""Device, scenario and variant of a line of the matrix."""
READ = """
tables => tables.map(table => ({
  device: /[(]([^()]*)[)]$/.exec(table.caption.textContent)[1],
  stacks: [...table.tHead.rows[0].cells].slice(1).map(cell => cell.textContent),
  bodies: [...table.tBodies].map(body => ({
    scenario: body.rows[0].cells[0].textContent,
    lines: [...body.rows].slice(1).map(row => ({
      variant: row.cells[0].querySelector("a").textContent,
      cells: [...row.cells].slice(1).map(cell => cell.innerText.trim().split("\\n").join(" ")),
    })),
  })),
}))
"""
Shown = dict[Line, dict[str, str]]
"""What each line says in the column of each stack, in the order of the columns."""


def read(page: Page, within: str = "#tables") -> Shown:
    """What the tables of the page show, when all rows are laid out."""
    page.locator(".fresh").wait_for(state="detached")
    tables = page.locator(f"{within} table").evaluate_all(READ)
    return {
        (table["device"], body["scenario"], line["variant"]): dict(
            zip(table["stacks"], line["cells"], strict=True)
        )
        for table in tables
        for body in table["bodies"]
        for line in body["lines"]
    }


@dataclass(frozen=True)
class Filter:
    """What a reader asks for; None for anything."""

    scenario: str | None = None
    role: Role | None = None
    device: str | None = None
    outcome: str | None = None
    """An outcome, or ``pass``, ``fail`` or ``open`` for a verdict."""
    versions: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The lowest and highest release of packages."""
    pair: tuple[str, str] | None = None
    """Two stacks, to show only lines in which they differ."""

    def keeps(self, row: Row) -> bool:
        """Whether the line of a cell is shown."""
        return (
            self.scenario in {None, row.scenario}
            and self.role in {None, row.role}
            and self.device in {None, row.device}
        )

    def matches(self, row: Row | None) -> bool:
        """Whether a cell has the chosen outcome; one that was not run has none."""
        if row is None:
            return self.outcome is None
        verdict = {True: "pass", False: "fail", None: "open"}[row.passed]
        return self.outcome in {None, row.outcome, verdict}

    def columns(self, site: Site) -> list[str]:
        """The chosen stacks, the newest first."""
        names = [
            stack.name
            for stack in reversed(site.matrix.stacks)
            if all(
                name in stack.packages
                and Version(low) <= Version(stack.packages[name]) <= Version(high)
                for name, (low, high) in self.versions.items()
            )
        ]
        return names if self.pair is None else [name for name in self.pair if name in names]


def fitting(lines: int) -> int:
    """How many stacks stand side by side in tables of so many lines."""
    return max(LEAST_STACKS, min(WINDOW, MOST_CELLS // max(1, lines)))


def stacks_at_first(site: Site) -> int:
    """How many stacks the first page has before a reader asks for something."""
    return fitting(len({(row.device, row.scenario, row.variant) for row in site.rows}))


def expected(site: Site, asked: Filter) -> Shown:
    """What the page should show."""
    columns = asked.columns(site)
    lines: dict[Line, dict[str, Row]] = {}
    for row in site.rows:
        if asked.keeps(row):
            lines.setdefault((row.device, row.scenario, row.variant), {})[row.stack] = row
    if asked.outcome is not None:
        lines = {
            line: cells
            for line, cells in lines.items()
            if any(asked.matches(cells.get(c)) for c in columns)
        }
    if asked.pair is not None:
        both = {
            line: [cells.get(stack) for stack in columns]
            for line, cells in lines.items()
            if len(columns) == len("ab")
        }
        return {
            line: dict(
                zip(columns, (words(each) if each else "not run" for each in cells), strict=True)
            )
            for line, cells in both.items()
            if unlike(*cells)
        }
    if asked.outcome is not None:
        columns = [
            c for c in columns if any(asked.matches(cells.get(c)) for cells in lines.values())
        ]
    return {
        line: {
            stack: (words(cells[stack]) if stack in cells else "not run")
            if asked.matches(cells.get(stack))
            else "·"
            for stack in columns[: fitting(len(lines))]
        }
        for line, cells in lines.items()
    }


def differs(one: Row, other: Row) -> bool:
    """Whether two cells of a line differ in more than speed."""
    return (one.outcome, one.passed, one.gradient) != (other.outcome, other.passed, other.gradient)


def unlike(one: Row | None, other: Row | None) -> bool:
    """Whether a line says different things of two stacks; one of them may not have run it."""
    if one is None or other is None:
        return one is not other
    return differs(one, other)


def words(row: Row) -> str:
    """What a cell says."""
    if row.outcome == "trains" and row.passed and row.steps_per_s is not None:
        return f"✓ trains {rate(row.steps_per_s.median)}"
    told = in_cell(row)
    return f"{told.word} {told.note}".strip()
