"""What a run shows while it works: a progress bar, and a line or two for each stack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from gradmatrix.core.text import counted, one_line, plain, tally
from gradmatrix.run.plan import Action
from gradmatrix.stacks import sandbox

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradmatrix.core.model import LockedPackage, Record
    from gradmatrix.run.plan import Planned
    from gradmatrix.run.stack import Summary


LONG = {
    "locking", "installing", "installing:", "importing", "waiting", "changed", "starting",
    "measuring",
}  # fmt: skip
"""First words of the stages that take long, cells apart."""


class Display:
    """A progress bar with the stack, the cell and the time left.

    With ``verbose`` also what cells print, with ``explain`` why each cell is run or not. If stacks
    run ``together``, the bar is that of all their cells.
    """

    def __init__(
        self,
        console: Console,
        *,
        verbose: bool = False,
        explain: bool = False,
        together: bool = False,
    ) -> None:
        self.console = console
        self.together = together
        self.verbose = verbose
        self.explain = explain
        self._progress = Progress(
            TextColumn("{task.fields[stack]}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[stage]}", markup=False),
            console=console,
            transient=True,
        )
        self._last = ""
        self._task = self._progress.add_task("", stack="", stage="", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def stage(self, stack: str, text: str) -> None:
        """Show what the run is doing; a line for a note, and without a terminal for long things."""
        self._progress.update(self._task, stack=stack, stage=text)
        first, has_bar = text.partition(" ")[0], self.console.is_terminal
        if text != self._last and (first == "note:" or (first in LONG and not has_bar)):
            self._last = text
            where = self.console if has_bar else Console(stderr=True, highlight=False)
            where.print(Text(one_line(f"{stack}: {text}")), soft_wrap=True)

    def planned(self, stack: str, cells: Sequence[Planned]) -> None:
        """Set the length of the bar; with ``explain`` print why each cell is run or not."""
        total = sum(cell.action is Action.RUN for cell in cells)
        if self.together:
            total += int(self._progress.tasks[0].total or 0)
            self._progress.update(self._task, total=total)
        else:
            self._progress.reset(self._task, total=total, stack=stack, stage="planning")
        if self.explain:
            for cell in cells:
                self.console.print(
                    Text(f"{cell.action.value:8} {cell.cell}: {cell.why}"), soft_wrap=True
                )

    def ended(self, record: Record, output: str) -> None:
        """Move the bar; with ``verbose`` print the cell's outcome and output."""
        self._progress.advance(self._task)
        if self.verbose:
            self.console.print(
                Text(f"── {record.cell}: {record.outcome}", style="bold"), soft_wrap=True
            )
            if output.strip():
                self.console.print(Text(plain(output)), soft_wrap=True)


def show_isolation(console: Console, *, explain: bool) -> None:
    """Print what cells see of this machine; without ``explain`` only that they have a network."""
    if explain:
        console.print(Text(sandbox.explanation()), soft_wrap=True)
    elif not sandbox.takes_network_away():
        console.print(Text(f"note: {sandbox.WITH_NETWORK}"), soft_wrap=True)


def show_summary(console: Console, summary: Summary) -> None:
    """Print what was done for a stack, and its notice."""
    text = (
        f"{summary.stack}: {counted(summary.executed, 'cell')} ran, {summary.kept} are up to date, "
        f"{summary.settled} need no run"
    )
    if summary.executed:
        text += f"; imports {summary.import_s:.1f} s, cells {summary.cells_s:.1f} s"
    console.print(Text(text), soft_wrap=True)
    if summary.repeated:
        repeats = f"  failures of the machine, tried again: {tally(summary.repeated)}"
        console.print(Text(repeats, style="yellow"), soft_wrap=True)
    if summary.notice:
        console.print(Text(f"  note: {one_line(summary.notice)}", style="yellow"), soft_wrap=True)


def show_fallen_behind(console: Console, packages: Sequence[LockedPackage]) -> None:
    """Print a line for each package of which the resolver took an old release."""
    for package in packages:
        text = (
            f"  ⚠ {package.name} {package.version} is {package.behind_days} days older "
            f"than {package.newest}"
        )
        console.print(Text(text, style="yellow"), soft_wrap=True)
