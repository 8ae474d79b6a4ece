"""Pure: what of a record that another machine ran cannot be so, or was not asked of it.

A tested package may have written what it liked into the file that a job left. What was observed is believed, within
what the job was asked for; what follows from that is judged again here.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.outcome import LIMIT_OF, Outcome, Phase
from harness.plan import key_of
from harness.run import MESSAGE_LIMIT, RESOLVERS_LIMIT
from harness.verdict import Verdict, judge_observation, passes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from harness.model import Record, Role
    from harness.shards import Shard

AHEAD = dt.timedelta(hours=1)
"""What two machines' clocks may differ by."""
UNSEEN = frozenset({Phase.RESOLVE, Phase.INSTALL, Phase.IMPORT, Phase.PROCESS})
"""Where a cell may end without an observation."""
NEVER_RUN = frozenset({"setup:unsupported", "setup:no-device"})
"""Of the other phases, the outcomes that are known without one."""


@dataclass(frozen=True)
class Here:
    """What this checkout takes records of, and when."""

    stacks: Collection[str]
    roles: Mapping[tuple[str, str], Role]
    """Of each scenario and variant."""
    devices: Collection[str]
    now: dt.datetime


def objections(record: Record, here: Here) -> Iterator[str]:
    """Why the record, relations not judged, is not taken, the plainest first; none where nothing speaks against it."""
    cell = record.cell
    if cell.stack not in here.stacks:
        yield f"there is no stack {cell.stack!r} here"
    role = here.roles.get((cell.scenario, cell.variant))
    if role is None:
        yield f"there is no variant {cell.scenario}/{cell.variant} here"
    if cell.device not in here.devices:
        yield f"there is no device {cell.device!r} here"
    if record.role is not role:
        yield f"{cell.scenario}/{cell.variant} is no {record.role}"
    if record.recorded_at.tzinfo is None or record.recorded_at > here.now + AHEAD:
        yield f"it was not recorded by now, but at {record.recorded_at}"
    if record.key != key_of(record.inputs):
        yield "its key is not that of its inputs"
    if not all(is_limit(record.inputs[name]) for name in LIMIT_OF.values() if name in record.inputs):
        yield "its limits are no numbers"
    yield from misjudged(record)


def is_limit(text: str) -> bool:
    """Whether it is a number above zero."""
    try:
        return float(text) > 0
    except ValueError:
        return False


def misjudged(record: Record) -> Iterator[str]:
    """What the record says that does not follow from what was observed."""
    verdict = judged(record)
    if verdict is None:
        yield f"nothing was observed, so that it cannot be {record.outcome}"
        return
    passed = passes(record.role, verdict, record.observation)
    said = f"{record.outcome}, gradient {record.gradient}, passed {record.passed}"
    follows = f"{verdict.outcome}, gradient {verdict.gradient}, passed {passed}"
    if said != follows:
        yield f"it says {said}, and what was observed is {follows}"
    if len(record.message) > most_of(verdict, record):
        yield f"its message has {len(record.message)} characters"


def judged(record: Record) -> Verdict | None:
    """The verdict on what was observed; None where such a verdict needs an observation and there is none."""
    if record.observation is not None:
        return judge_observation(record.observation)
    outcome = Outcome.parse(record.outcome)
    return Verdict(outcome, None, "") if outcome.phase in UNSEEN or record.outcome in NEVER_RUN else None


def most_of(verdict: Verdict, record: Record) -> int:
    """The characters that a run keeps of a message: an explanation that fills a column is longer."""
    fills = record.observation is None and verdict.outcome.phase in {Phase.RESOLVE, Phase.INSTALL}
    return RESOLVERS_LIMIT if fills else MESSAGE_LIMIT


def unasked(record: Record, shard: Shard | None) -> Iterator[str]:
    """Why the plan has no such record; ``shard`` is the one in whose folder it lies, None in any other folder."""
    if shard is None:
        if record.observation is not None:
            yield "it was run, and its folder is of no shard of the plan"
    elif not any((due.cell, due.key) == (record.cell, record.key) for due in shard.cells):
        yield f"shard {shard.name} was not asked for {record.cell} with that key"
