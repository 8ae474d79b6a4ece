"""Records that other checkouts ran, such as the shards of one plan, become this checkout's own.

Only records are taken, and of them only what holds: see ``admission``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from harness import disk, environment, store
from harness.admission import objections, unasked
from harness.errors import UserError
from harness.relations import as_it_ran

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from harness.admission import Here
    from harness.model import Record
    from harness.shards import Shard, Shards
    from harness.store import Store


@dataclass(frozen=True)
class Found:
    """What folders hold: the newest record of each cell, and what was skipped, one sentence each."""

    records: tuple[Record, ...]
    problems: tuple[str, ...]


def found_in(folders: Iterable[Path], here: Here, plan: Shards | None = None) -> Found:
    """The records below ``folders`` that hold ``here``; with a ``plan`` those only that it asked for.

    UserError, and nothing is taken, where a folder has no records or where they are of another schema.
    """
    read: list[Record] = []
    problems: list[str] = []
    for folder in folders:
        for path in files_of(folder):
            shard = shard_of(folder, path, plan) if plan is not None else None
            for number, line in enumerate(path.read_bytes().splitlines(), start=1):
                if not line.strip():
                    continue
                where = f"{path.relative_to(folder)}, line {number}"
                record = _record(line, where, problems)
                if record is None:
                    continue
                ours = as_it_ran(record)
                against = next(chain(objections(ours, here), unasked(ours, shard) if plan is not None else ()), None)
                if against is None:
                    read.append(ours)
                else:
                    problems.append(f"{where} was skipped: {against}")
    return Found(tuple(store.newest(read, keep_judged=True).values()), tuple(problems))


def shard_of(folder: Path, path: Path, plan: Shards) -> Shard | None:
    """The shard that left ``path``: the one whose name, or ``records-NAME``, ``folder`` has, or else a folder in it.

    No folder further down is asked: whoever wrote the files chose its name.
    """
    names = {shard.name: shard for shard in plan.shards} | {f"records-{shard.name}": shard for shard in plan.shards}
    below = path.relative_to(folder).parts[:-1]
    return names.get(folder.resolve().name) or (names.get(below[0]) if below else None)


def files_of(folder: Path) -> list[Path]:
    """The files of records in ``folder``: its own, or those of the results, shards and journals below it."""
    files = sorted({*folder.glob("*.jsonl"), *folder.rglob("records/*.jsonl")})
    if not files:
        raise UserError(
            f"There are no records in {folder}.",
            cause="it has no .jsonl file, nor a folder called records that has one"
            if folder.is_dir()
            else "it is no folder",
            next_step="name the --results folders of the shards: gradmatrix merge DIR...",
        )
    return files


def take(
    found: Iterable[Record], known: Store, environments: Path, waiting: Callable[[str], object] = lambda _: None
) -> int:
    """Add the records to the journal, each stack's in one step, and say how many were new to it.

    A run of the same stack in another terminal appends to its journal meanwhile: the two wait for each other, and
    ``waiting`` is told the stack.
    """
    by_stack: dict[str, list[Record]] = defaultdict(list)
    for record in found:
        by_stack[record.cell.stack].append(record)
    return sum(_take(stack, by_stack[stack], known, environments, waiting) for stack in sorted(by_stack))


def _take(
    stack: str, records: Iterable[Record], known: Store, environments: Path, waiting: Callable[[str], object]
) -> int:
    with environment.in_use(environments, stack, lambda: waiting(stack)):
        under = known.recorded_under(stack)
        new = [r for r in records if (r.cell, r.key) not in under or under[r.cell, r.key].recorded_at < r.recorded_at]
        if new:
            path = known.journal / f"{stack}.jsonl"
            before = path.read_bytes() if path.exists() else b""
            end = b"" if before.endswith(b"\n") or not before else b"\n"  # a killed run left half a line
            lines = [store.encode(record) for record in sorted(new, key=lambda r: (r.recorded_at, r.cell))]
            disk.write_atomically(path, b"".join([before, end, *lines]))
        return len(new)


def _record(line: bytes, where: str, problems: list[str]) -> Record | None:
    try:
        return store.decode(line)
    except store.OtherSchema as error:
        raise UserError(
            f"The records cannot be merged: {where} has {error}.",
            cause="they were run by another release; nothing was taken",
            next_step="run the shards by the code of this checkout",
        ) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        problems.append(f"{where} was skipped: {error}")
        return None
