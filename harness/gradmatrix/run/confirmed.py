"""Published records that stand because a newer run of their cells said the same.

A night in which nothing is new would rewrite every record with other timings. So a published
record stays as it is while newer runs of its cell say the same. ``results/confirmed/STACK.json``
says which run confirmed it last, and what differs in the inputs of that run: the lock, or the
observer. A confirmed record counts as recorded with these inputs, so its cell does not run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from gradmatrix.core.errors import UserError
from gradmatrix.core.files import NOT_READABLE, write_atomically
from gradmatrix.core.model import Cell, Confirmed, Moment, Record
from gradmatrix.core.observation import Frozen
from gradmatrix.run.plan import key_of

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    Changes = Mapping[str, str | None]
    "The inputs that differ from those of a record; None for one that is no longer there."

FOLDER = "confirmed"
"""Beside the folder of the published records."""


class Confirmation(Frozen, frozen=True):
    """What one run confirmed."""

    at: Moment
    """When it was done with these cells."""
    run: str
    inputs: dict[str, str | None]
    """The inputs that are not those of the records; null for one that is no longer there."""
    cells: tuple[Annotated[str, msgspec.Meta(pattern="^[^/]+/[^/]+/[^/]+$")], ...]
    """``SCENARIO/VARIANT/DEVICE`` of each record that stands."""


class Confirmations(Frozen, frozen=True):
    """``results/confirmed/STACK.json``."""

    schema: Literal[1]
    stack: str
    confirmed: tuple[Confirmation, ...]


def path_of(records: Path, stack: str) -> Path:
    """The confirmations of a stack, beside the folder of its published ``records``."""
    return records.parent / FOLDER / f"{stack}.json"


def load(path: Path) -> dict[Cell, Confirmation]:
    """What a file confirms, by cell; nothing if there is no file. UserError if it is damaged."""
    try:
        known = msgspec.json.decode(path.read_bytes(), type=Confirmations)
    except FileNotFoundError:
        return {}
    except (OSError, *NOT_READABLE) as error:
        raise UserError(
            f"{path.parent.name}/{path.name} cannot be read: {error}.",
            cause="another release wrote it, or it was edited",
            next_step=f"git checkout {path}, or delete it to run these cells again",
        ) from error
    return {
        Cell(known.stack, *text.split("/")): each for each in known.confirmed for text in each.cells
    }


def applied(record: Record, found: Confirmation | None) -> Record:
    """A published record as it counts: confirmed, unless it was recorded later than that."""
    if found is None or record.recorded_at > found.at:
        return record
    inputs = {**record.inputs, **found.inputs}
    return standing(
        record,
        {name: value for name, value in inputs.items() if value is not None},
        at=found.at,
        run=found.run,
    )


def confirmed(record: Record, newer: Record) -> Record:
    """A published record that stands because ``newer`` says the same."""
    run = newer.confirmed_by if isinstance(newer, Confirmed) else newer.run
    return standing(as_recorded(record), newer.inputs, at=newer.known_at, run=run)


def standing(record: Record, inputs: dict[str, str], *, at: dt.datetime, run: str) -> Record:
    """``record`` as one that a run with ``inputs`` confirmed."""
    return Confirmed(
        **fields_of(record) | {"key": key_of(inputs), "inputs": inputs},
        confirmed_at=at,
        confirmed_by=run,
        recorded_key=record.key,
        recorded_inputs=record.inputs,
    )


def as_recorded(record: Record) -> Record:
    """A record as its own run left it: a line of ``records/``."""
    if not isinstance(record, Confirmed):
        return record
    own = {"key": record.recorded_key, "inputs": record.recorded_inputs}
    return Record(**fields_of(record) | own)


def as_it_counts(record: Record) -> Record:
    """A record as if the run that confirmed it had left it."""
    return Record(**fields_of(record)) if isinstance(record, Confirmed) else record


def fields_of(record: Record) -> dict[str, Any]:
    """The fields that every record has."""
    return {name: getattr(record, name) for name in Record.__struct_fields__}


def write(path: Path, stack: str, records: Iterable[Record]) -> None:
    """Write which of ``records`` are confirmed, or delete the file if none is."""
    groups: dict[tuple[str, tuple[tuple[str, str | None], ...]], list[Confirmed]] = {}
    for record in records:
        if isinstance(record, Confirmed):
            group = record.confirmed_by, tuple(sorted(changes(record).items()))
            groups.setdefault(group, []).append(record)
    if not groups:
        path.unlink(missing_ok=True)
        return
    found = [
        Confirmation(
            at=max(each.confirmed_at for each in members),
            run=run,
            inputs=dict(changed),
            cells=tuple(sorted(str(each.cell).partition("/")[2] for each in members)),
        )
        for (run, changed), members in groups.items()
    ]
    found.sort(key=lambda each: (-len(each.cells), each.cells))
    content = msgspec.json.encode(Confirmations(schema=1, stack=stack, confirmed=tuple(found)))
    write_atomically(path, msgspec.json.format(content, indent=1) + b"\n")


def changes(record: Confirmed) -> Changes:
    """The inputs that differ between a record and the run that confirmed it."""
    names = record.inputs.keys() | record.recorded_inputs.keys()
    return {
        name: record.inputs.get(name)
        for name in names
        if record.inputs.get(name) != record.recorded_inputs.get(name)
    }
