"""How cells changed over time, and what people claim: ``history``, ``regressions``, ``claims``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
from rich.table import Table as TerminalTable
from rich.text import Text

from gradmatrix.cli.documents import CellHistory, HistoryEntry
from gradmatrix.cli.options import fold, print_bytes, print_json, warn, warn_and_code
from gradmatrix.compare import flips
from gradmatrix.compare.history import load
from gradmatrix.core import files
from gradmatrix.core.errors import UserError, did_you_mean
from gradmatrix.core.files import NOT_READABLE
from gradmatrix.core.text import one_line, plain
from gradmatrix.judge.history import flips_of_cell, newest
from gradmatrix.publish.claims.claims import Verdict, load_claims
from gradmatrix.publish.claims.judge import judge_all
from gradmatrix.publish.feeds import as_issue, base_of, reported
from gradmatrix.publish.formats import Claims, ClaimsDocument, Results
from gradmatrix.publish.rows import SYMBOLS, build_of, rows_of, tabulated
from gradmatrix.run import lookup
from gradmatrix.run.project import by_date
from gradmatrix.run.store import Store

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

    from gradmatrix.compare.history import History
    from gradmatrix.core.model import Cell
    from gradmatrix.publish.claims.claims import Judged, Tested
    from gradmatrix.publish.rows import Row, Table
    from gradmatrix.run.project import Project


WIDE = 120
"""A console with fewer characters has no room for a table of three columns."""
STYLES = {
    Verdict.CONFIRMED: "green",
    Verdict.REFUTED: "red",
    Verdict.PARTLY: "yellow",
    Verdict.UNTESTED: "dim",
}


def history_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Print each entry of one cell, and what may have changed its verdict."""
    history = published_history(project)
    cell = lookup.find(options.cell, newest(history.entries), project).cell
    entries = history_of(history, cell)
    if options.json:
        print_json(CellHistory(cell=cell, entries=entries))
    else:
        console.print(Text(str(cell), style="bold"), soft_wrap=True)
        for each in entries:
            console.print(Text(f"  {one_line(describe(each))}"), soft_wrap=True)
            if each.why:
                console.print(Text(f"    {one_line(each.why)}"), soft_wrap=True)
    warn(history.problems)
    return 0


def history_of(history: History, cell: Cell) -> tuple[HistoryEntry, ...]:
    """Each entry of a cell, with what may have changed the verdict."""
    entries = history.of(cell)
    flips = {id(flip.after): flip for flip in flips_of_cell(entries, history.locks)}
    return tuple(
        HistoryEntry(entry=each, change=flip.kind if flip else None, why=flip.why if flip else "")
        for each in entries
        for flip in (flips.get(id(each)),)
    )


def describe(told: HistoryEntry) -> str:
    """One entry on a line: when it was made, the outcome, the speed and the lock."""
    entry = told.entry
    verdict = "left the matrix" if entry.gone else f"{SYMBOLS[entry.passed]} {entry.outcome}"
    kind = f" ({told.change})" if told.change is not None else ""
    rate = f", {entry.rate:g} steps/s" if entry.rate is not None else ""
    return f"{entry.at:%Y-%m-%d %H:%M} {verdict}{kind}{rate}, lock {entry.lock or 'none'}"


def regressions_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """List the cells that regressed; the exit code is 1 if there are any."""
    base = base_of(options.base_url)
    history = published_history(project)
    standing = history.standing(
        {lock.stack for lock in project.known_locks()}, project.chosen_scenarios()
    )
    published = Store(project.store.published, project.store.published)
    records = {
        cell: record
        for stack in dict.fromkeys(each.now.cell.stack for each in standing)
        for cell, record in published.of_stack(stack).items()
    }
    found = reported(standing, records, base)
    if options.output is not None:
        content = (
            msgspec.json.encode(found) + b"\n" if options.json else as_issue(found, base).encode()
        )
        files.write_atomically(options.output, content)
    elif options.json:
        print_json(found)
    else:
        console.print(Text(plain(as_issue(found, base))), soft_wrap=True, end="")
    warn(history.problems)
    return 1 if found else 0


def published_history(project: Project) -> History:
    """The history of the published cells; UserError if there is none."""
    if not project.history_folder.is_dir():
        raise UserError(
            f"There is no history in {project.results}.",
            cause="nothing was published there yet",
            next_step="gradmatrix publish",
        )
    return load(project.history_folder)


def claims_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Judge the claims by the records; nothing is run."""
    table, judged = judged_claims(project)
    of_scenario = tuple(each for each in judged if each.claim.scenario == options.id)
    if of_scenario:
        judged = of_scenario
    elif options.id is not None:
        judged = (claim_called(options.id, judged, table.scenarios),)
    if options.json:
        print_bytes(b"".join(Claims.pieces(Results(table, judged))))
    elif options.id is not None and not of_scenario:
        show_evidence(console, judged[0])
    elif of_scenario or options.all:
        (show_claims if console.width >= WIDE else list_claims)(console, judged)
    else:
        summarise(console, judged, published_verdicts(project.published_results / "claims.json"))
    return warn_and_code(project, console, failed=False)


def judged_claims(project: Project) -> tuple[Table, tuple[Judged, ...]]:
    """Return the newest cells of the checkout, and its claims judged by them."""
    claims = load_claims(project.root, project.known_scenarios())
    table = newest_table(project)
    return table, judge_all(claims, table)


def newest_table(project: Project, stacks: Iterable[str] | None = None) -> Table:
    """The newest cells of all stacks of the checkout, or of some."""
    locks = by_date(project.known_locks(stacks))
    chosen = {scenario.name: scenario for scenario in project.chosen_scenarios()}
    rows: list[Row] = []
    builds: dict[str, str] = {}
    for lock in locks:  # records are large: those of one stack at a time
        records = project.records_of([lock.stack]).values()
        rows += rows_of(records, chosen)
        build = build_of(records)
        if build is not None:
            builds[lock.stack] = build
    return tabulated(locks, chosen, rows, builds, flips.load(project.published_results))


def claim_called(name: str, judged: Iterable[Judged], scenarios: Iterable[str]) -> Judged:
    """The claim called ``name``; UserError if there is none, nor one of the ``scenarios``."""
    known = {each.claim.id: each for each in judged}
    if name not in known:
        words = [*scenarios, *known]
        raise UserError(
            f"There is no claim and no scenario {name!r}.",
            cause=did_you_mean(name, words) if known else "scenarios/claims.toml has no claim",
            next_step="gradmatrix claims --all lists all, gradmatrix claims SCENARIO those of a "
            "scenario",
        )
    return known[name]


def published_verdicts(path: Path) -> dict[str, Verdict]:
    """The verdict of each claim when it was published last; empty if that is not known."""
    if not path.is_file():
        return {}
    try:
        document = msgspec.json.decode(path.read_bytes(), type=ClaimsDocument)
    except NOT_READABLE:
        return {}
    return {each.id: each.verdict for each in document.claims}


def summarise(console: Console, judged: Sequence[Judged], before: Mapping[str, Verdict]) -> None:
    """Print how many claims have each verdict, and which have another one than ``before``."""
    counts: dict[str, Counter[Verdict]] = {each.claim.scenario: Counter() for each in judged}
    for each in judged:
        counts[each.claim.scenario][each.verdict] += 1
    table = TerminalTable(header_style="bold", box=None, padding=(0, 2, 0, 0))
    table.add_column("scenario", no_wrap=True)
    for verdict in Verdict:
        table.add_column(verdict.words, justify="right", style=STYLES[verdict])
    for name, count in [*counts.items(), ("all", Counter(each.verdict for each in judged))]:
        table.add_row(name, *(str(count[verdict] or "") for verdict in Verdict))
    console.print(table)
    console.print()
    changed = [each for each in judged if before.get(each.claim.id) not in {None, each.verdict}]
    for each in changed:
        was = before[each.claim.id].words
        fold(console, f"{each.claim.id}: {each.verdict.words}, published as {was}")
    if before and not changed:
        console.print("No verdict differs from the published one.")
    fold(
        console,
        "gradmatrix claims SCENARIO lists the claims of a scenario, gradmatrix claims ID shows the "
        "cells of one, gradmatrix claims --all lists all.",
    )


def show_claims(console: Console, judged: Iterable[Judged]) -> None:
    """Print all claims as a table."""
    table = TerminalTable(header_style="bold", padding=(0, 1))
    table.add_column("verdict", no_wrap=True)
    for title, ratio in (("claim", 2), ("what was expected, and in how many cells it holds", 3)):
        table.add_column(title, overflow="fold", ratio=ratio)
    last = None
    for each in judged:
        if last not in {None, each.claim.scenario}:
            table.add_section()
        last = each.claim.scenario
        claim = Text.assemble((each.claim.id, "bold"), "\n", one_line(each.claim.says))
        table.add_row(
            Text(each.verdict.words, style=STYLES[each.verdict]),
            claim,
            Text("\n".join(one_line(line) for line in findings(each))),
        )
    console.print(table)


def findings(judged: Judged) -> list[str]:
    """Return a line for each expectation, and the note of the claim."""
    lines = [part.line for part in judged.tested] or ["no cell is relevant to it"]
    return [*lines, judged.claim.note] if judged.claim.note else lines


def list_claims(console: Console, judged: Iterable[Judged]) -> None:
    """Print all claims as a list, for a terminal that is too narrow for a table."""
    for each in judged:
        console.print(
            Text.assemble(
                (each.verdict.words, STYLES[each.verdict]), "  ", (each.claim.id, "bold")
            ),
            soft_wrap=True,
        )
        for text in (each.claim.says, *(f"→ {line}" for line in findings(each))):
            fold(console, text, 2)


def show_evidence(console: Console, judged: Judged) -> None:
    """Print one claim with all cells that support or contradict it."""
    claim = judged.claim
    day = f", {claim.date}" if claim.date is not None else ""
    console.print(
        Text(f"{claim.id}: {judged.verdict.words}", style=f"bold {STYLES[judged.verdict]}"),
        soft_wrap=True,
    )
    console.print(Text(f"  {one_line(claim.says)}"), soft_wrap=True)
    console.print(Text(f"  {claim.source}{day}: {claim.url}", style="dim"), soft_wrap=True)
    if claim.reading:
        console.print(Text(f"  read as: {one_line(claim.reading)}"), soft_wrap=True)
    for part in judged.tested:
        console.print(Text(f"  {one_line(part.line)}"), soft_wrap=True)
        for text in details(part):
            console.print(Text(f"    {one_line(text)}", style="dim"), soft_wrap=True)
        for each in part.evidence:
            text = f"    {each.bears:8} {each.cell}: {one_line(plain(each.why))}"
            console.print(
                Text(text, style="red" if each.bears == "against" else ""), soft_wrap=True
            )
    if not judged.tested:
        console.print(Text("  no cell is relevant to it"), soft_wrap=True)
    if claim.note:
        console.print(Text(f"  note: {one_line(claim.note)}"), soft_wrap=True)


def details(tested: Tested) -> list[str]:
    """Return the conditions and the versions of an expectation, a line for each."""
    lines = [f"only if: {condition}" for condition in tested.expectation.conditions]
    lines += [f"tested: {span}" for span in tested.releases]
    lines += [f"separates: {boundary}" for boundary in tested.boundaries]
    if tested.too_close:
        lines.append(f"too close to decide: {tested.too_close} more")
    return lines
