"""The first page and the pages of older stacks: what trains, what changed, and the matrix itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from harness.model import SHOWN, Role
from harness.publish.site import chronicle, links
from harness.publish.site.markup import page
from harness.publish.site.sentences import ROLES
from harness.publish.site.tables import counted_as, glance, section_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.history import History
    from harness.model import Lock
    from harness.publish.rows import Row
    from harness.publish.site.view import View


class Count(NamedTuple):
    """How many of a scenario's reported variants pass."""

    scenario: str
    good: int
    judged: int

    @property
    def mark(self) -> tuple[str, str]:
        """Class and symbol."""
        return counted_as(self.good, self.judged)


class Summary(NamedTuple):
    """The newest stack in one line."""

    lock: Lock
    versions: str
    device: str
    reported: list[Count]
    all_reported: Count
    controls: Count


def front_pages(view: View, history: History | None) -> Iterator[tuple[str, bytes]]:
    """index.html with the newest stacks, older-1.html and so on with the others."""
    windows = view.windows()
    for number, locks in enumerate(windows):
        pages = {"number": number, "windows": windows}
        tables = [section_table(view, section, locks, "") for section in view.sections]
        glanced = glance(view, locks, "") if locks and view.sections else None
        if number:
            yield page("older.html", links.older(number), tables=tables, glance=glanced, locks=locks, **pages)
            continue
        yield page(
            "index.html",
            links.INDEX,
            tables=tables,
            glance=glanced,
            locks=locks,
            view=view,
            summary=summary(view),
            lately=chronicle.lately(history),
            regressed=chronicle.standing(view, history),
            roles=ROLES,
            shown=SHOWN,
            **pages,
        )


def summary(view: View) -> Summary | None:
    """The newest stack on which something was judged."""
    for lock in view.newest_first:
        for device in view.devices:
            mine = view.cells.get(lock.stack, {}).values()
            judged = [row for row in mine if row.device == device and row.passed is not None]
            if judged:
                return summed_up(view, lock, device, judged)
    return None


def summed_up(view: View, lock: Lock, device: str, judged: list[Row]) -> Summary:
    """A stack in one line."""
    reported: dict[str, list[Row]] = {}
    for row in judged:
        if row.role is Role.REPORTED:
            reported.setdefault(row.scenario, []).append(row)
    return Summary(
        lock,
        ", ".join(f"{name} {version}" for name in SHOWN if (version := view.versions[lock.stack].get(name))),
        device,
        [count(scenario, rows) for scenario, rows in reported.items()],
        count("", [row for rows in reported.values() for row in rows]),
        count("", [row for row in judged if row.role is Role.CONTROL]),
    )


def count(scenario: str, rows: list[Row]) -> Count:
    """How many of ``rows`` pass."""
    return Count(scenario, sum(row.passed is True for row in rows), len(rows))
