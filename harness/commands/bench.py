"""``bench-comparison``: how often the verdicts on step times are right, beside those of other tools."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from harness import environment
from harness.bench_comparison import Bench, Wanted, code_digest
from harness.commands.options import add, chosen
from harness.errors import UserError
from harness.ledger import Ledger
from harness.publish.text import one_line
from harness.rivals import HYPERFINE
from harness.trials import shortcomings, tallies

if TYPE_CHECKING:
    from rich.console import Console

    from harness.project import Project
    from harness.trials import Tally, Trial

CORE = {None: "", True: ", other core busy", False: ", other core idle"}
STYLES = {None: "", True: "green", False: "red"}
WIDTH = 156
"""Columns of characters that the table needs: on a smaller terminal its lines go on below."""
LEGEND = (
    "flagged: called slower in time, or called different where the sides are equal; ±: half of the interval, and s: "
    "seconds of both sides, both medians; 95 %: as if no two comparisons shared servers, which those of equal sides do "
    "(--per-crew). Each is one cell of an upgrade: of several cells each has a wider interval, and finds less"
)
PARTS = ("aa", "power", "rivals")
OUTPUT = "bench-comparison.jsonl"
COUNTS = (
    ("comparisons", Wanted.comparisons, "comparisons of two equal sides, in half of them with another core busy"),
    ("runs", Wanted.runs, "runs with a slowdown of 5 %%, and as many of 2 %%"),
    ("rivals", Wanted.rivals, "cases, of equal sides and of 5 %%, given to hyperfine and pytest-benchmark too"),
    ("per-crew", Wanted.per_crew, "comparisons of equal sides without new servers in between"),
)
SECONDS = (
    ("budget", Wanted.budget_s, "for a comparison of equal sides, both together"),
    ("power-budget", Wanted.power_s, "for a run with a slowdown, both sides together"),
    ("rival-budget", Wanted.rival_s, "for each other tool and case, both sides together"),
)


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    text = "measure how often slower, faster and same are right, where the answer is known, beside other tools"
    parser = add(commands, "bench-comparison", comparison_command, text)
    parser.add_argument("stack", nargs="?", default=None, metavar="STACK", help="default: the newest core stack")
    for name, default, what in COUNTS:
        parser.add_argument(f"--{name}", type=count, default=default, metavar="N", help=f"{what} (default: {default})")
    for name, seconds, what in SECONDS:
        parser.add_argument(
            f"--{name}", type=float, default=seconds, metavar="SECONDS", help=f"{what} (default: {seconds:g})"
        )
    parser.add_argument("--only", action="append", choices=PARTS, default=[], help="only this part (repeatable)")
    parser.add_argument("--busy-power", action="store_true", help="another core busy in half of the slowed runs too")
    parser.add_argument(
        "--output", type=Path, default=None, metavar="FILE",
        help=f"keep every result here, and go on with what is there (default: .gradmatrix/{OUTPUT})",
    )  # fmt: skip
    parser.add_argument("--summary", action="store_true", help="measure nothing, print what the file has")


def count(text: str) -> int:
    """A count from 0 on."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("0 or more")
    return number


def comparison_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``bench-comparison``: 1 where a bound of the performance contract is missed."""
    ledger = Ledger.at(options.output or project.work / OUTPUT)
    if not options.summary:
        measure(options, project, console, ledger)
    if not ledger.trials:
        raise UserError(f"{ledger.path} has no results.", cause="nothing was measured", next_step="leave out --summary")
    found = tallies(ledger.trials)
    console.print(table(found), soft_wrap=True)
    console.print(LEGEND, soft_wrap=True)
    others = ", ".join(sorted({each.code or "unknown" for each in ledger.trials} - {code_digest()}))
    if others:
        console.print(Text(f"note: measured by other code than this checkout's: {others}"), soft_wrap=True)
    missed = shortcomings(found)
    for each in missed:
        console.print(Text(each, style="red"), soft_wrap=True)
    return 1 if missed else 0


def measure(options: argparse.Namespace, project: Project, console: Console, ledger: Ledger) -> None:
    """Make the trials that the ledger lacks; one line of each."""
    wanted = Wanted(
        comparisons=options.comparisons,
        runs=options.runs,
        rivals=options.rivals,
        per_crew=max(1, options.per_crew),
        budget_s=options.budget,
        power_s=options.power_budget,
        rival_s=options.rival_budget,
        only=frozenset(options.only or PARTS),
        busy_power=options.busy_power,
    )
    if wanted.rivals and "rivals" in wanted.only and shutil.which(HYPERFINE) is None:
        console.print("note: hyperfine is not on PATH: it is left out", soft_wrap=True)
    stack = chosen(project, [options.stack] if options.stack else [], everything=False)[-1]
    with (
        environment.in_use(project.environments, stack.name),
        tempfile.TemporaryDirectory(prefix="gradmatrix-bench-") as folder,
        console.status("") as status,
    ):
        installed = environment.ensure(project.lock_of(stack), project.locks_folder, project.environments)
        bench = Bench(
            stack=stack.name,
            python=installed.python,
            settings=project.settings(),
            wanted=wanted,
            ledger=ledger,
            directory=Path(folder),
            stage=lambda text: status.update(Text(text)),
        )
        for trial in bench.run():
            console.print(Text(line_of(trial)), soft_wrap=True)


def line_of(trial: Trial) -> str:
    """One trial in one line."""
    told = ", ".join(f"{reading}: {verdict}" for reading, verdict in trial.verdicts.items())
    ratio = "" if trial.ratio is None else f" ratio {trial.ratio:.4f}"
    interval = "" if trial.low is None or trial.high is None else f" [{trial.low:.4f}, {trial.high:.4f}]"
    state = "busy" if trial.busy else "idle"
    head = f"{trial.tool} {trial.per_cent:g} % #{trial.number + 1} {state} {trial.seconds:.1f} s"
    return one_line(f"{head}{ratio}{interval} {told} ({trial.detail})")


def table(found: list[Tally]) -> Table:
    """A row for each tool, reading and slowdown; ours by the state of the other core too."""
    result = Table(box=SIMPLE, width=WIDTH)
    for name in ("slowdown", "tool, verdict"):
        result.add_column(name, no_wrap=True)
    for name in ("n", "slower", "late", "faster", "neither", "failed", "flagged", "95 %", "wanted", "±", "s"):
        result.add_column(name, no_wrap=True, justify="right")
    for number, each in enumerate(found):
        if number and found[number - 1].per_cent != each.per_cent:
            result.add_section()
        low, high = each.interval
        counts = (each.of, each.more, each.late, each.less, each.of - each.more - each.less - each.failed, each.failed)
        result.add_row(
            f"{each.per_cent:g} %",
            f"{each.tool}, {each.reading}{CORE[each.busy]}",
            *map(str, counts),
            f"{each.right / each.of:.1%}",
            f"{low:.1%} to {high:.1%}",
            each.bound,
            "" if each.half_width is None else f"{each.half_width:.2%}",
            f"{each.seconds:.0f}",
            style=STYLES[each.met],
        )
    return result
