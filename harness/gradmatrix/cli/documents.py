"""What ``--json`` prints: the list of all documents, and those that no other room has."""

from __future__ import annotations

import datetime as dt
import importlib
from typing import TYPE_CHECKING, Literal

from gradmatrix.core.model import Cell, Gradient, Stack, Variant
from gradmatrix.core.observation import Frozen
from gradmatrix.judge.change import Change
from gradmatrix.judge.history import Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gradmatrix.publish.likely import Likely
    from gradmatrix.publish.site.messages import Cause, Message
    from gradmatrix.trace.reproduce import Reproduced


DOCUMENTS = {
    "run": "publish.formats.Document",
    "table": "publish.formats.Document",
    "bisect": "judge.edge.Found",
    "flips": "judge.edge.Flips",
    "isolation": "cli.documents.Isolation",
    "list": "cli.documents.Listing",
    "why CELL": "publish.rows.Row",
    "why MESSAGE": "cli.documents.FoundMessages",
    "why NAME": "cli.documents.Meaning",
    "trace": "trace.trace.Finding",
    "check": "trace.check.Report",
    "reproduce": "cli.documents.ReproducedCell",
    "refresh": "run.refresh.News",
    "history": "cli.documents.CellHistory",
    "regressions": "publish.feeds.Reported",
    "claims": "publish.formats.ClaimsDocument",
    "update": "run.bundle.Updated",
}
"""The type of the document that each command prints, by module and name.

``regressions`` prints a list of them. ``compare`` and ``upgrade`` print a ``Comparison``, which has
a JSON Schema.
"""


def document_of(command: str) -> type[Frozen]:
    """The type of a command's document; its module is imported now."""
    module, _, name = DOCUMENTS[command].rpartition(".")
    found: type[Frozen] = getattr(importlib.import_module(f"gradmatrix.{module}"), name)
    return found


class ListedScenario(Frozen, frozen=True):
    """A scenario, without its code."""

    name: str
    title: str
    variants: tuple[Variant, ...]


class Listing(Frozen, frozen=True, kw_only=True):
    """What there is: stacks, scenarios and variants."""

    schema: Literal[1] = 1
    stacks: tuple[Stack, ...]
    scenarios: tuple[ListedScenario, ...]


class HistoryEntry(Frozen, frozen=True):
    """An entry of a cell's history."""

    entry: Entry
    change: Change | None
    """How its verdict differs from the one before; null if it does not."""
    why: str
    """What may have changed it."""


class CellHistory(Frozen, frozen=True, kw_only=True):
    """The history of a cell, the oldest entry first."""

    schema: Literal[1] = 1
    cell: Cell
    entries: tuple[HistoryEntry, ...]


class Tried(Frozen, frozen=True):
    """A remedy that was tested against a cause."""

    scenario: str
    variant: str
    summary: str
    mark: str
    """✓ it trains on all stacks that fail, ◐ on some, ✗ on none."""
    trained: int
    """The number of stacks on which it trains."""
    judged: int
    """The number of stacks on which it was tested."""


class MessageCause(Frozen, frozen=True):
    """One cause of a message."""

    cause: str
    """The cause; the outcome of cells that fail without one; empty if they do not fail."""
    cells: int
    example: str
    """``STACK/SCENARIO/VARIANT`` of its newest cell."""
    situation: str
    """When it happens, in the words of readers; empty if that has no short answer."""
    mend: str
    """The lines of code that mend it; empty if that depends on more."""
    why: tuple[str, ...]
    tried: tuple[Tried, ...]
    because: str = ""
    """What in the pasted text speaks for it; empty if nothing does."""


class FoundMessage(Frozen, frozen=True):
    """A message of the matrix."""

    text: str
    cells: int
    failing: int
    training: int
    """The number of its cells that train all the same."""
    causes: tuple[MessageCause, ...]


class FoundMessages(Frozen, frozen=True, kw_only=True):
    """The messages of the matrix that match, the best one first."""

    schema: Literal[1] = 1
    messages: tuple[FoundMessage, ...]
    guesses: tuple[FoundMessage, ...] = ()
    """The nearest messages, if none matches."""


class Meaning(Frozen, frozen=True, kw_only=True):
    """A cause or an outcome, and the cells of the matrix that have it."""

    schema: Literal[1] = 1
    name: str
    meaning: str
    advice: str
    """What to do about a cause; empty if that depends on more."""
    situation: str
    """When readers meet a cause; empty for an outcome."""
    mend: str
    """The lines of code that mend a cause; empty if that depends on more."""
    cells: int
    causes: tuple[MessageCause, ...]


def found_message(message: Message, likely: Sequence[Likely]) -> FoundMessage:
    """A message of the page of messages, as data, with its causes in another order."""
    return FoundMessage(
        text=message.text,
        cells=message.cells,
        failing=message.failing,
        training=message.training,
        causes=found_causes(likely),
    )


def found_causes(causes: Iterable[tuple[Cause, str]]) -> tuple[MessageCause, ...]:
    """Causes as data, each with what speaks for it."""
    return tuple(
        MessageCause(
            cause=cause.cause,
            cells=cause.cells,
            example=f"{cause.newest.stack}/{cause.newest.scenario}/{cause.newest.variant}",
            situation=cause.row.situation if cause.row is not None else "",
            mend=cause.row.mend if cause.row is not None else "",
            why=tuple(cause.why),
            tried=tuple(
                Tried(
                    scenario=tried.scenario,
                    variant=tried.variant,
                    summary=tried.summary,
                    mark=tried.mark[1],
                    trained=tried.trained,
                    judged=tried.judged,
                )
                for tried in cause.tried
            ),
            because=because,
        )
        for cause, because in causes
    )


class Result(Frozen, frozen=True):
    """A verdict on a cell."""

    outcome: str
    gradient: Gradient | None
    passed: bool | None
    """null if it was not judged."""
    message: str


class ReproducedCell(Frozen, frozen=True, kw_only=True):
    """A published verdict, and the one of this machine."""

    schema: Literal[1] = 1
    cell: Cell
    holds: bool
    """Whether outcome, gradient status, and pass or fail are the same."""
    published: Result
    recorded_at: dt.datetime
    """When the published cell ran."""
    here: Result
    notes: tuple[str, ...]
    """What differs between the two runs."""


def reproduced_cell(found: Reproduced) -> ReproducedCell:
    """A reproduced cell, without its observation."""
    then = found.published
    return ReproducedCell(
        cell=then.cell,
        holds=found.holds,
        published=Result(
            outcome=then.outcome, gradient=then.gradient, passed=then.passed, message=then.message
        ),
        recorded_at=then.recorded_at,
        here=Result(
            outcome=found.outcome,
            gradient=found.gradient,
            passed=found.passed,
            message=found.message,
        ),
        notes=found.notes,
    )


class Differing(Frozen, frozen=True):
    """A cell that ends otherwise in a fresh process."""

    cell: Cell
    fork: str
    """The outcome."""
    fresh: str


class Isolation(Frozen, frozen=True, kw_only=True):
    """Forked cells beside the same cells in fresh processes."""

    schema: Literal[1] = 1
    cells: int
    """The number of cells that were compared."""
    different: tuple[Differing, ...]
