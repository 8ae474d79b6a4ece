"""``claims``: what people published, and what the records say of it."""

from __future__ import annotations

from textwrap import indent, wrap
from typing import TYPE_CHECKING

from rich.table import Table as TerminalTable
from rich.text import Text

from harness import claims_file
from harness.claims import Verdict
from harness.commands.options import add, warn_and_code
from harness.errors import UserError, did_you_mean
from harness.project import by_date
from harness.publish.claims import judge_all
from harness.publish.claims_table import as_json, verdict_words
from harness.publish.published import tabulated
from harness.publish.rows import rows_of
from harness.publish.text import one_line, plain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from rich.console import Console

    from harness.claims import Judged
    from harness.project import Project

WIDE = 120
"""Columns from which on three columns of a table are wide enough to read."""
STYLES = {Verdict.CONFIRMED: "green", Verdict.REFUTED: "red", Verdict.PARTLY: "yellow", Verdict.UNTESTED: "dim"}


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    claims = add(commands, "claims", claims_command, "say which published claims the records bear out, with evidence")
    claims.add_argument("id", nargs="?", default=None, metavar="ID", help="one claim, with every cell that bears on it")
    claims.add_argument("--json", action="store_true", help="print one JSON document")


def claims_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``claims``: from the records alone, nothing is run."""
    judged = verdicts(project)
    if options.id is not None:
        judged = (named(options.id, judged),)
    if options.json:
        console.print(Text(as_json(judged).decode().rstrip()), soft_wrap=True)
        return 0
    if options.id is not None:
        show_evidence(console, judged[0])
    else:
        (show_claims if console.width >= WIDE else list_claims)(console, judged)
    return warn_and_code(project, console, failed=False)


def verdicts(project: Project) -> tuple[Judged, ...]:
    """Every claim of the checkout, judged by the newest records."""
    locks = by_date(project.known_locks())
    claims = claims_file.of_checkout(project.root, project.known_scenarios(), locks)
    chosen = {scenario.name: scenario for scenario in project.chosen_scenarios()}
    stacks = (project.records_of([lock.stack]).values() for lock in locks)  # whole records: one stack at a time
    return judge_all(claims, tabulated(locks, chosen, [row for each in stacks for row in rows_of(each, chosen)]))


def named(name: str, judged: Iterable[Judged]) -> Judged:
    """The claim called ``name``; UserError for an unknown one."""
    known = {each.claim.id: each for each in judged}
    if name not in known:
        raise UserError(
            f"There is no claim {name!r}.",
            cause=did_you_mean(name, known) if known else "scenarios/claims.toml has none",
            next_step="gradmatrix claims lists them",
        )
    return known[name]


def show_claims(console: Console, judged: Iterable[Judged]) -> None:
    """All of them in a table: verdict, name, sentence, what the cells say."""
    table = TerminalTable(header_style="bold", padding=(0, 1))
    table.add_column("verdict", no_wrap=True)
    for title, ratio in (("claim", 2), ("what the cells say", 3)):
        table.add_column(title, overflow="fold", ratio=ratio)
    last = None
    for each in judged:
        if last not in {None, each.claim.scenario}:
            table.add_section()
        last = each.claim.scenario
        claim = Text.assemble((each.claim.id, "bold"), "\n", one_line(each.claim.says))
        table.add_row(Text(verdict_words(each), style=STYLES[each.verdict]), claim, Text(one_line(each.summary)))
    console.print(table)


def list_claims(console: Console, judged: Iterable[Judged]) -> None:
    """All of them below each other, for a terminal that has no room for a table."""
    for each in judged:
        console.print(
            Text.assemble((verdict_words(each), STYLES[each.verdict]), "  ", (each.claim.id, "bold")), soft_wrap=True
        )
        for text in (each.claim.says, f"→ {each.summary}"):
            folded = wrap(one_line(text), max(console.width - 2, 20), break_long_words=False, break_on_hyphens=False)
            console.print(Text(indent("\n".join(folded), "  ")), soft_wrap=True)


def show_evidence(console: Console, judged: Judged) -> None:
    """One claim, and every cell that bears on it."""
    claim = judged.claim
    day = f", {claim.date}" if claim.date is not None else ""
    console.print(Text(f"{claim.id}: {verdict_words(judged)}", style=f"bold {STYLES[judged.verdict]}"), soft_wrap=True)
    console.print(Text(f"  {one_line(claim.says)}"), soft_wrap=True)
    console.print(Text(f"  {claim.source}{day}: {claim.url}", style="dim"), soft_wrap=True)
    if claim.reading:
        console.print(Text(f"  read as: {one_line(claim.reading)}"), soft_wrap=True)
    for part in judged.tested:
        console.print(Text(f"  {one_line(part.words)}"), soft_wrap=True)
        for each in part.evidence:
            text = f"    {each.bears:8} {each.cell}: {one_line(plain(each.why))}"
            console.print(Text(text, style="red" if each.bears == "against" else ""), soft_wrap=True)
    if not judged.tested:
        console.print(Text("  no cell bears on it"), soft_wrap=True)
