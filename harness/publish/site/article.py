"""The evidence of one cell: outcome and reason, why, numbers, and the commands that repeat it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from harness.causes import spot
from harness.model import Role
from harness.outcome import Phase
from harness.publish.site import links
from harness.publish.site.cells import KINDS, shown
from harness.publish.site.markup import coded, safe
from harness.publish.site.observed import disagreement, observed
from harness.publish.site.sentences import BUILDS, PROCESSES, ROLES, in_words
from harness.relations import DISAGREES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.model import Record, Relation
    from harness.publish.rows import Row

MEBI = 2**20
NO_CAPSULE = (f"{Phase.RESOLVE}:", f"{Phase.INSTALL}:", f"{Phase.RELATION}:")
ROOT = "../"
ROLE = {role: f"Its role: {role.value}, {ROLES[role.value]}." for role in Role}


class Known(NamedTuple):
    """What the cells of a scenario on a stack have in common."""

    summaries: Mapping[str, str]
    """What each variant is."""
    environment: Mapping[str, str]
    """What the page already says of it."""
    versions: str
    """The stack's main versions, as HTML."""
    agree: Sequence[Relation]
    """Which of its variants must agree."""
    own: bool
    """It is a scenario of ours, not a user's own script."""


def article(record: Record, row: Row, known: Known) -> str:
    """All that is known of one cell."""
    summary = known.summaries.get(row.variant, "")
    parts = [verdict(row, summary, known.versions), why(row, known.agree), facts(record, row)]
    if record.observation is not None:
        parts += observed(record.observation, known.environment)
    anchor = safe(links.anchor(row.scenario, row.variant, row.device))
    return (
        f'<article class="cell {KINDS[row.passed]}" id="{anchor}">'
        f"{''.join(parts)}{commands(row, own=known.own)}{further(row)}</article>"
    )


def verdict(row: Row, summary: str, versions: str) -> str:
    """Which cell it is, the outcome with its meaning, and what was said."""
    kind, word, note = shown(row)
    outcome = "" if row.outcome in word else f" <code>{safe(row.outcome)}</code>"
    message = f'<p class="message"><code>{safe(row.message)}</code></p>' if row.message else ""
    return (
        f"<h3>{safe(row.scenario)}/<wbr>{safe(row.variant)} "
        f"<small>on {safe(row.stack)}, {safe(row.device)}</small></h3>"
        f'<p class="summary">{versions}. The variant: {safe(summary)}. {ROLE[row.role]}</p>'
        f'<p class="verdict {kind}"><b>{safe(word)}</b> {safe(note)}{outcome}</p>'
        f"<p>{meaning(row.outcome)}{misuse(row)}</p>{message}"
    )


@lru_cache(maxsize=1024)
def meaning(outcome: str) -> str:
    """What an outcome means, with a link to all of them."""
    return f'{safe(in_words(outcome))} <a href="{ROOT}{links.meaning(outcome)}">All outcomes</a>'


def misuse(row: Row) -> str:
    """What passing means for a variant that cannot train."""
    if row.role is not Role.MISUSE or row.passed is None:
        return ""
    says = "The stack says so" if row.passed else "The stack says nothing about it"
    return f" This variant cannot train. {says}."


def why(row: Row, agree: Iterable[Relation]) -> str:
    """Why it does not train, or from which variant it differs, and what was seen to work."""
    if row.outcome == DISAGREES:
        return disagreement(row, ROOT, agree)
    told = row.diagnosis
    if told is None:
        return ""
    lines = "".join(f"<p>{coded(text)}</p>" for text in told.text)
    where = f" in <code>{safe(told.module)}</code>" if told.module else ""
    place = f", <code>{safe(spot(told.place))}</code>" if told.place else ""
    target = links.remedy(row)
    remedy = f'<p>See it train: <a href="{ROOT}{target}">{safe(told.remedy or "")}</a></p>' if target else ""
    return f'<h4>Why</h4><div class="why">{lines}{remedy}<p class="cause">{safe(told.cause)}{where}{place}</p></div>'


def facts(record: Record, row: Row) -> str:
    """Numbers, and where the record comes from."""
    speed, seen = row.steps_per_s, record.observation
    told = [("gradient", row.gradient.value if row.gradient else "not looked at")]
    if speed is not None:
        told.append(("steps/s", f"{speed.median:.4g} (quartiles {speed.low:.4g} to {speed.high:.4g})"))
    if row.peak_memory_bytes is not None:
        told.append(("peak memory", f"{row.peak_memory_bytes / MEBI:,.0f} MiB"))
    if seen is not None:
        told.append(("ran", f"{seen.steps} steps, {seen.wall_s:.3g} s, {seen.threads} thread{'s'[: seen.threads > 1]}"))
    told += [
        ("recorded", f"{record.recorded_at:%Y-%m-%d %H:%M} UTC"),
        ("process", PROCESSES[record.isolation]),
        ("build of torch", BUILDS.get(record.build, record.build)),
        ("key: a hash of all that the verdict depends on", record.key),
    ]
    return (
        f'<dl class="facts">{"".join(f"<div><dt>{name}</dt><dd>{safe(text)}</dd></div>" for name, text in told)}</dl>'
    )


def commands(row: Row, *, own: bool) -> str:
    """How to see it for oneself: each command below half a line on what it does."""
    stack, scenario, variant, device = safe(row.stack), safe(row.scenario), safe(row.variant), safe(row.device)
    cell = f"{stack}/{scenario}/{variant}/{device}"
    told = (
        "# install the stack from its lock, and run this cell again\n"
        f"nox -s &#34;matrix({stack})&#34; -- --cell {scenario}/{variant} --device {device} --fresh\n"
        "# why, in words, from the published record\n"
        f"gradmatrix why {cell}\n"
        "# how its verdict changed from one publication to the next\n"
        f"gradmatrix history {cell}\n"
        "# run it in a clean environment, and compare with what was published\n"
        f"gradmatrix reproduce {cell}"
    )
    if own and has_capsule(row):
        told += (
            "\n# write it as one script with its versions, which needs no checkout, and run it\n"
            f"gradmatrix capsule {cell} --output {variant}.py &amp;&amp; uv run {variant}.py"
        )
    return f'<h4>Repeat it</h4><pre class="commands">{told}</pre>'


def further(row: Row) -> str:
    """Where else something is said of it."""
    return (
        f'<p class="note"><a href="#words">What the words and commands mean</a>, '
        f'<a href="{ROOT}{links.claims_on(row.scenario, row.variant)}">claims about this variant</a>, '
        f'<a href="{ROOT}{links.changes_of(row.stack)}">changes of this stack\'s verdicts</a></p>'
    )


def has_capsule(row: Row) -> bool:
    """Whether one script can show what the cell says: it ran and failed, by itself."""
    return row.passed is False and not row.outcome.startswith(NO_CAPSULE)
