"""``gradmatrix why``: a cell, an error message, or the name of a cause or an outcome."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from gradmatrix.cli.documents import FoundMessages, Meaning, found_causes, found_message
from gradmatrix.cli.history import newest_table
from gradmatrix.cli.options import fold, print_json
from gradmatrix.core.errors import did_you_mean
from gradmatrix.core.outcomes import TABLE, TRAINS, row_of
from gradmatrix.core.text import counted
from gradmatrix.judge.causes import Cause, explain, remedy_on_its_stack
from gradmatrix.judge.diagnosis import diagnose, false_alarms
from gradmatrix.publish.likely import likeliest_first
from gradmatrix.publish.publication import sources_of
from gradmatrix.publish.rows import rows_of
from gradmatrix.publish.site.messages import message, messages, reason
from gradmatrix.publish.site.tables import View
from gradmatrix.run import lookup
from gradmatrix.run.plan import observer_digest
from gradmatrix.trace.reproduce import message_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console

    from gradmatrix.cli.documents import FoundMessage, MessageCause
    from gradmatrix.core.model import Cell, Published, Record
    from gradmatrix.run.project import Project

IS_CELL = re.compile(r"\S*/\S*")
"""What names a cell, or should; everything else is a name or a message."""
LIKE_A_NAME = re.compile(r"[a-z]+(?:[:-][a-zA-Z0-9-]+)+")
"""What is no message, so it may be a mistyped name."""
MOST_MESSAGES = 3


def why_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Say why a cell fails, from its record; what a name means; or find a message."""
    asked = pasted(options.cell)
    if IS_CELL.fullmatch(asked):
        return explain_cell(asked, project, console, as_json=options.json)
    if is_name(asked):
        return explain_name(asked, project, console, as_json=options.json)
    return find_message(asked, project, console, as_json=options.json)


def pasted(words: Sequence[str]) -> str:
    """What was asked: the words, or the content of a file, or of the standard input for ``-``."""
    if list(words) == ["-"]:
        return sys.stdin.read()
    path = Path(words[0])
    if len(words) > 1 or not path.is_file():
        return " ".join(words)
    return path.read_text(encoding="utf-8", errors="replace")


def explain_cell(text: str, project: Project, console: Console, *, as_json: bool) -> int:
    """Say why a cell fails."""
    published = project.published(project.store.everything().values())
    known = {record.cell: record for record in published.records}
    record = lookup.find(text, known, project)
    if as_json:
        there = [each for each in published.records if each.cell.stack == record.cell.stack]
        rows = rows_of(there, published.scenarios)
        print_json(next(row for row in rows if row.cell == record.cell))
        return 0
    gradient = f", gradient {record.gradient}" if record.gradient else ""
    fold(console, f"{record.cell}: {record.outcome}{gradient}", style="bold")
    for line in why_lines(published, record):
        fold(console, line, 2)
    return 0


def why_lines(published: Published, record: Record) -> Iterator[str]:
    """The message, the diagnosis and the remedy of a cell."""
    found = diagnose(record.observation) if record.observation is not None else None
    message = message_of(record)
    if message and (found is None or message not in found.text):
        yield message
    if record.observation is None:
        return
    if record.inputs.get("observer", "")[:16] != observer_digest()[:16]:
        yield (
            "The observer has changed since this record was made. "
            "Run the cell again for an up-to-date diagnosis."
        )
    if found is not None:
        remedy = remedy_on_its_stack(
            found.cause, published.scenarios, published.records, record.cell
        )
        yield from explain(found, remedy)
    for message in false_alarms(record.observation):
        yield f"False alarm (everything that should learn does): {message}"


def is_name(asked: str) -> bool:
    """Whether this names a cause or an outcome."""
    try:
        return asked in list(Cause) or bool(row_of(asked))
    except ValueError:
        return False


def explain_name(name: str, project: Project, console: Console, *, as_json: bool) -> int:
    """Say what a cause or an outcome means, where it was seen, and what mends it."""
    meaning = meaning_of(name, project)
    if as_json:
        print_json(meaning)
        return 0
    fold(console, f"{name}: {meaning.meaning}", style="bold")
    if meaning.advice:
        fold(console, meaning.advice, 2)
    if not meaning.causes:
        show_remedy(meaning.situation, meaning.mend, console)
    fold(console, f"{counted(meaning.cells, 'cell')} of the matrix", 2)
    show_causes(meaning.causes, console)
    say_what_counts(meaning.causes, console)
    return 0


def meaning_of(name: str, project: Project) -> Meaning:
    """What a cause or an outcome means, with the cells of the matrix that have it."""
    view = View(newest_table(project))
    cause = next((each for each in Cause if each == name), None)
    rows = [
        row
        for lock in view.newest_first
        for row in view.cells.get(lock.stack, {}).values()
        if name == (reason(row) if cause else row.outcome)
    ]
    causes = message(view, [(name, row) for row in rows]).causes if rows and name != TRAINS else ()
    return Meaning(
        name=name,
        meaning=cause.meaning if cause else row_of(name).doc,
        advice=cause.advice if cause else "",
        situation=cause.situation if cause else "",
        mend=cause.mend if cause else "",
        cells=len(rows),
        causes=found_causes((each, "") for each in causes),
    )


def find_message(query: str, project: Project, console: Console, *, as_json: bool) -> int:
    """Show the messages of the matrix that match a pasted one; returns 1 if there is none."""
    table = newest_table(project)
    sources = sources_of(project, table)
    said = messages(View(table), sources.values())
    best = said.search.best(query)
    look_up = partial(tracebacks, project)
    known = [
        found_message(each, likeliest_first(query, each, table.scenarios, sources, look_up))
        for each in (said.known[number] for number in best.found or best.guesses)
    ]
    if as_json:
        is_known = bool(best.found)
        print_json(
            FoundMessages(
                messages=tuple(known) if is_known else (), guesses=() if is_known else tuple(known)
            )
        )
        return 0 if best.found else 1
    if not best.found:
        say_nothing_matches(query, known, console)
        return 1
    for each in known[:MOST_MESSAGES]:
        show_message(each, console)
    if len(known) > MOST_MESSAGES:
        more = counted(len(known) - MOST_MESSAGES, "other message")
        fold(console, f"{more} of the matrix share words with it. More words narrow it down.")
    say_what_counts([cause for each in known[:MOST_MESSAGES] for cause in each.causes], console)
    fold(console, "Which cause is yours? gradmatrix trace SCRIPT looks at your own script.")
    return 0


def tracebacks(project: Project, cells: Iterable[Cell]) -> dict[Cell, str]:
    """The tracebacks of those cells that raised an exception."""
    cells = list(cells)
    records = project.records_of(dict.fromkeys(cell.stack for cell in cells))
    seen = {cell: records[cell].observation for cell in cells if cell in records}
    return {cell: each.raised.traceback for cell, each in seen.items() if each and each.raised}


def say_nothing_matches(query: str, near: Sequence[FoundMessage], console: Console) -> None:
    """Say what to do with a text that is not known."""
    if LIKE_A_NAME.fullmatch(query):
        meant = did_you_mean(query, [*map(str, Cause), *(row.outcome for row in TABLE)])
        fold(console, f"There is no cause and no outcome {query!r} ({meant}).")
    fold(
        console,
        "No message of the matrix matches. gradmatrix trace SCRIPT looks at your own script.",
    )
    if near:
        fold(console, "The nearest messages, which are guesses:")
    for each in near:
        fold(console, each.text, 2)


def show_message(found: FoundMessage, console: Console) -> None:
    """A message with its causes, and the remedies that were tested."""
    trained = f", {found.training} train all the same" if found.training else ""
    fold(console, found.text, style="bold")
    fold(console, f"{counted(found.cells, 'cell')} of the matrix: {found.failing} fail{trained}", 2)
    if len(found.causes) > 1:
        order = (
            "The likeliest cause comes first."
            if found.causes[0].because
            else "Nothing else in your text tells its causes apart: the most frequent comes first."
        )
        fold(console, order, 2)
    show_causes(found.causes, console)


def show_causes(causes: Sequence[MessageCause], console: Console) -> None:
    """Causes with numbers, if there are several."""
    for number, cause in enumerate(causes, 1):
        console.print()
        show_cause(cause, f"{number}. " if len(causes) > 1 else "", console)
    console.print()


def show_cause(cause: MessageCause, number: str, console: Console) -> None:
    """A cause with its situation, an example, what mends it, and what was tested."""
    fold(console, f"{number}{cause.cause or 'no failure'}", 2, style="bold")
    if cause.because:
        fold(console, f"It may be yours, because {cause.because}.", 4, style="green")
    show_remedy(cause.situation, cause.mend, console, 4)
    fold(console, f"{counted(cause.cells, 'cell')}, for example {cause.example}:", 4)
    for line in cause.why:
        fold(console, line, 6)
    if cause.tried:
        fold(console, "What was tried, and on how many stacks it trains:", 4)
    for tried in sorted(cause.tried, key=lambda tried: -tried.trained / tried.judged):
        where = f"{tried.scenario}/{tried.variant}"
        fold(console, f"{tried.mark} {tried.trained} of {tried.judged}  {where}", 6)
        fold(console, tried.summary, 10)


def show_remedy(situation: str, mend: str, console: Console, indent: int = 2) -> None:
    """When a cause is met, and the lines that mend it."""
    fold(console, situation, indent)
    if mend:
        fold(console, "What mends it:", indent)
    for line in mend.splitlines():
        console.print(Text(f"{' ' * indent}  {line}".rstrip(), style="cyan"), soft_wrap=True)


def say_what_counts(causes: Iterable[MessageCause], console: Console) -> None:
    """Say on which stacks a remedy counts, and how to see its code, if there is any."""
    if any(cause.tried for cause in causes):
        fold(console, "A remedy counts on the stacks on which what it is for fails.")
        fold(console, "Its code: gradmatrix capsule SCENARIO/VARIANT --any")
