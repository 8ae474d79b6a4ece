"""The gradient table: parameters that fared alike share a line.

What was seen while a cell ran, as HTML: losses, gradients, step times, exception, warnings.

The evidence of one cell: outcome and reason, why, numbers, and the commands that repeat it.

The evidence of the cells of one stack, on one page.

A hundred thousand cells are written in seconds: the page's frame is a template, the cells are strings, and a disk takes
a few big files more quickly than many small ones.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from itertools import compress, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from gradmatrix.core.model import SHOWN, Role
from gradmatrix.core.outcomes import DISAGREES, NO_DEVICE, Phase
from gradmatrix.core.text import plain
from gradmatrix.judge.diagnosis import format_frame, merge_numbered
from gradmatrix.judge.relations import close
from gradmatrix.publish.site import links, plots
from gradmatrix.publish.site.markup import (
    BUILDS,
    PROCESSES,
    ROLES,
    coded,
    in_words,
    page,
    ready,
    safe,
)
from gradmatrix.publish.site.tables import KINDS, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gradmatrix.core.model import Lock, Record, Relation, Scenario
    from gradmatrix.core.observation import Observation, Parameter
    from gradmatrix.publish.rows import Row


ALIKE = attrgetter("gradients", "changed", "learns", "held", "frozen", "dtype", "learning_rate")
NAME = attrgetter("name")
HEAD = (
    '<table class="parameters"><caption>Gradients in the audited steps</caption><thead><tr>'
    '<th scope="col">parameters</th><th scope="col">gradients</th><th scope="col">changed</th>'
    '<th scope="col">should learn</th><th scope="col">in an optimizer</th><th scope="col">learning rate</th>'
    '<th scope="col">dtype</th></tr></thead><tbody>'
)
END = "</tbody></table>"
LETTERS = {"n": "none", "z": "zero", "f": "finite", "x": "non-finite"}


def parameter_table(parameters: Sequence[Parameter]) -> str:
    """A line for each group of parameters with the same gradients, state and learning rate."""
    states = list(map(ALIKE, parameters))
    named = tuple(map(NAME, parameters))
    groups = dict.fromkeys(states)
    if len(groups) == 1:
        members = {states[0]: named}  # of most cells that train, and quicker
    else:
        members = {state: tuple(compress(named, map(state.__eq__, states))) for state in groups}
    return (
        HEAD
        + "".join(
            line(state, names(each, "" if state[1] else " open")) for state, each in members.items()
        )
        + END
    )


@lru_cache(maxsize=4096)
def names(members: tuple[str, ...], opened: str) -> str:
    """The names of a group, those that differ by numbers only as one; a list to be opened where there are several."""
    told = [
        text.rpartition(": ")[0]
        for text in merge_numbered({tuple(name.split(".")): 1 for name in members})
    ]
    count = f"{len(members)} parameter{'s' if len(members) > 1 else ''}"
    html = "<br>".join(f"<code>{safe(each)}</code>" for each in told)
    return (
        html
        if len(members) == 1
        else f"<details{opened}><summary>{count}</summary>{html}</details>"
    )


@lru_cache(maxsize=4096)
def line(state: tuple[object, ...], group: str) -> str:
    """One line of the table."""
    gradients, changed, learns, held, frozen, dtype, rate = state
    learns_text = "yes" if learns else "no: frozen" if frozen else "no"
    shown = "" if rate is None else safe(rate) if isinstance(rate, str) else f"{rate:.3g}"
    return (
        f'<tr><th scope="row">{group}</th><td><code>{safe(str(gradients))}</code> {best(str(gradients))}</td>'
        f"<td>{yes(changed)}</td><td>{learns_text}</td><td>{yes(held)}</td><td>{shown}</td>"
        f"<td>{safe(str(dtype))}</td></tr>"
    )


def best(gradients: str) -> str:
    """The letters of the steps in words."""
    return (
        ", ".join(LETTERS.get(letter, "") for letter in dict.fromkeys(gradients))
        or "never looked at"
    )


def yes(value: object) -> str:
    """A state as a word."""
    return "yes" if value else "no"


DISAGREEMENT = re.compile(
    r"(?P<what>[a-z ]+?) (?P<ours>[^a-z].*) against (?P<theirs>.*) of (?P<first>\S+)"
)
"""What ``relations`` says of two variants that differ."""
RTOL = 1e-3
"""The tolerance of a relation that is known no more."""


def observed(seen: Observation, environment: Mapping[str, str]) -> Iterator[str]:
    """What was seen while it ran."""
    if seen.losses or seen.gradient_norms:
        yield sequences(seen)
    if seen.parameters:
        yield region("Gradients", parameter_table(seen.parameters))
    if len(seen.step_times_s) > 1:
        yield step_times(seen.step_times_s)
    if seen.raised is not None:
        head = f"{seen.raised.type}: {plain(seen.raised.message).strip().partition(chr(10))[0]}"
        yield (
            f"<details><summary>Exception: {safe(head)}</summary>"
            f"<pre>{safe(seen.raised.traceback or seen.raised.message)}</pre></details>"
        )
    if seen.warnings:
        each = (
            f"<li><b>{safe(w.category)}</b> × {w.count}<pre>{safe(w.message)}</pre></li>"
            for w in seen.warnings
        )
        listed = f'<ul class="warnings">{"".join(each)}</ul>'
        yield f"<details><summary>Warnings: {len(seen.warnings)}</summary>{listed}</details>"
    if other := [
        f"{name} {value}"
        for name, value in seen.environment.items()
        if environment.get(name) != value
    ]:
        yield f"<p>Ran with {safe(', '.join(other))}.</p>"


def region(name: str, table: str) -> str:
    """A table that scrolls by itself where it is wider than the screen."""
    return f'<div class="region" role="group" tabindex="0" aria-label="{name}">{table}</div>'


def sequences(seen: Observation) -> str:
    """Losses and gradient norms of the audited steps."""
    steps = max(len(seen.losses), len(seen.gradient_norms))
    head = "".join(f'<th scope="col">{step}</th>' for step in range(1, steps + 1))
    return region(
        "Losses",
        f'<table class="numbers"><caption>The audited steps</caption><thead><tr><th scope="col">step</th>{head}'
        '<th scope="col">last</th></tr></thead><tbody>'
        f'<tr><th scope="row">loss</th>{numbers(seen.losses, steps)}{numbers([seen.last_loss], 1)}</tr>'
        f'<tr><th scope="row">gradient norm</th>{numbers(seen.gradient_norms, steps)}<td></td></tr></tbody></table>',
    )


def numbers(values: Sequence[float | str | None], cells: int) -> str:
    """Table cells with numbers, non-finite ones by their names, filled up to ``cells``."""
    told = (
        "–" if v is None else f"{v:.5g}" if isinstance(v, float) else safe(str(v)) for v in values
    )
    return "".join(f"<td>{text}</td>" for text in told) + "<td></td>" * (cells - len(values))


def step_times(seconds: Sequence[float]) -> str:
    """The timed steps as a plot and as numbers."""
    times = [each * 1000 for each in seconds]
    text = " ".join(f"{each:.3g}" for each in times)
    plot = plots.bars(
        times, f"{len(times)} timed steps, {min(times):.3g} to {max(times):.3g} milliseconds"
    )
    return f"<figure>{plot}<figcaption>Timed steps, in milliseconds: {text}</figcaption></figure>"


def disagreement(row: Row, root: str, relations: Iterable[Relation]) -> str:
    """From which variant it differs, with both sequences; nothing where its message is another one."""
    told = DISAGREEMENT.fullmatch(row.message)
    if told is None:
        return ""
    what, first = safe(told["what"]), safe(told["first"])
    rtol = next(
        (r.rtol for r in relations if (r.first, r.second) == (told["first"], row.variant)), RTOL
    )
    target = links.quoted(links.anchor(row.scenario, told["first"], row.device))
    link = f'<a href="{root}{links.evidence_page(row.stack)}#{target}">{first}</a>'
    ours, theirs = told["ours"].split(), told["theirs"].split()
    lines = "".join(
        f'<tr><th scope="row">{name}</th>{"".join(f"<td>{safe(each)}</td>" for each in values)}</tr>'
        for name, values in ((safe(row.variant), ours), (link, theirs))
    )
    table = f'<table class="numbers"><caption>{what}, step by step</caption><tbody>{lines}</tbody></table>'
    return (
        '<h4>Why</h4><div class="why"><p>Nothing failed: it ran to its end, and it learns. But it should do the same '
        f"maths as {link}, on the same data from the same seed, and its {what} differs by more than "
        f"{100 * rtol:.2g} %. {parting(what, ours, theirs, rtol)}</p>"
        "<p>Which of the two is right the numbers alone do not tell.</p></div>"
        + region(f"Both variants: {what}", table)
    )


def parting(what: str, ours: Sequence[str], theirs: Sequence[str], rtol: float) -> str:
    """From which step on two sequences differ, as they are shown, and what that says."""
    if what == "gradient norm":
        return "All losses of these steps agree."
    pairs = zip(map(number, ours), map(number, theirs), strict=False)
    step = next((place for place, pair in enumerate(pairs) if not close(*pair, rtol)), None)
    if step is None or "…" in ours[:1]:
        return ""
    if step == 0:
        return "They part at the first step, before any update: the data (sampled text too) or the forward pass differs."
    steps = "the first step" if step == 1 else f"the first {step} steps"
    return f"They agree in {steps}: what differs is a gradient or an update, not the data or the first forward pass."


def number(text: str) -> float | str:
    """A number of a message, or the word in its place."""
    try:
        found = float(text)
    except ValueError:
        return text
    return found if math.isfinite(found) else text


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
    place = f", <code>{safe(format_frame(told.place))}</code>" if told.place else ""
    target = links.remedy(row)
    remedy = (
        f'<p>See it train: <a href="{ROOT}{target}">{safe(told.remedy or "")}</a></p>'
        if target
        else ""
    )
    return f'<h4>Why</h4><div class="why">{lines}{remedy}<p class="cause">{safe(told.cause)}{where}{place}</p></div>'


def facts(record: Record, row: Row) -> str:
    """Numbers, and where the record comes from."""
    speed, seen = row.steps_per_s, record.observation
    told = [("gradient", row.gradient.value if row.gradient else "not looked at")]
    if speed is not None:
        told.append(
            ("steps/s", f"{speed.median:.4g} (quartiles {speed.low:.4g} to {speed.high:.4g})")
        )
    if row.peak_memory_bytes is not None:
        told.append(("peak memory", f"{row.peak_memory_bytes / MEBI:,.0f} MiB"))
    if seen is not None:
        told.append(
            (
                "ran",
                f"{seen.steps} steps, {seen.wall_s:.3g} s, {seen.threads} thread{'s'[: seen.threads > 1]}",
            )
        )
    told += [
        ("recorded", f"{record.recorded_at:%Y-%m-%d %H:%M} UTC"),
        ("process", PROCESSES[record.isolation]),
        ("build of torch", BUILDS.get(record.build, record.build)),
        ("key: a hash of all that the verdict depends on", record.key),
    ]
    return f'<dl class="facts">{"".join(f"<div><dt>{name}</dt><dd>{safe(text)}</dd></div>" for name, text in told)}</dl>'


def commands(row: Row, *, own: bool) -> str:
    """How to see it for oneself: each command below half a line on what it does."""
    stack, scenario, variant, device = (
        safe(row.stack),
        safe(row.scenario),
        safe(row.variant),
        safe(row.device),
    )
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


HERE = ready("<!-- cells -->")
"""Where the template has the cells."""


def evidence_page(
    lock: Lock, scenarios: Mapping[str, Scenario], records: Sequence[Record], rows: Sequence[Row]
) -> tuple[str, bytes]:
    """The page of one stack; ``rows`` are those of its ``records``, in their order."""
    cells = sorted(zip(records, rows, strict=True), key=lambda pair: pair[1].scenario)
    environment: dict[str, str] = {}
    for record in records:  # each names what was imported by then
        environment |= record.observation.environment if record.observation is not None else {}
    order = {name: place for place, name in enumerate(scenarios)}
    versions = versions_of(lock)
    sections = [
        section(
            scenarios.get(name),
            name,
            list(members),
            known_of(scenarios.get(name), environment, versions),
        )
        for name, members in groupby(cells, key=lambda pair: pair[1].scenario)
    ]
    sections.sort(key=lambda each: order.get(each.scenario, len(order)))
    path, frame = page(
        "evidence.html",
        links.evidence_page(lock.stack),
        lock=lock,
        contents=ready("".join(each.contents for each in sections)),
        articles=HERE,
        environment=", ".join(
            f"{name} {version}" for name, version in environment.items() if version
        ),
        absent=sorted({row.device for row in rows if row.outcome == NO_DEVICE}),
    )
    before, _, after = frame.partition(
        HERE.encode()
    )  # a template would copy what is big five times
    return path, b"".join(
        [before, *(piece.encode() for each in sections for piece in each.articles), after]
    )


class Section(NamedTuple):
    """The cells of a scenario."""

    scenario: str
    contents: str
    """Its part of the table of contents."""
    articles: Sequence[str]


def section(
    scenario: Scenario | None, name: str, cells: Sequence[tuple[Record, Row]], known: Known
) -> Section:
    """The part of a scenario; nothing where no cell was judged."""
    judged = in_order([pair for pair in cells if pair[1].outcome != NO_DEVICE], scenario)
    if not judged:
        return Section(name, "", ())
    articles = [article(record, row, known) for record, row in judged]
    anchor, told = plain(name), safe(name)
    title = f'<p class="lead">{safe(scenario.title)}</p>' if scenario is not None else ""
    heading = f'<h2><a href="../{links.scenario(name)}">{told}</a></h2>'
    entries = "".join(entry(row) for _, row in judged)
    return Section(
        name,
        f'<p><a href="#{links.quoted(anchor)}">{told}</a></p><ul>{entries}</ul>',
        (f'<section id="{safe(anchor)}">{heading}{title}', *articles, "</section>"),
    )


def known_of(scenario: Scenario | None, environment: Mapping[str, str], versions: str) -> Known:
    """What the cells of a scenario have in common."""
    if scenario is None:
        return Known({}, environment, versions, (), own=True)
    summaries = {variant.name: variant.summary for variant in scenario.variants}
    return Known(summaries, environment, versions, scenario.agree, own=scenario.arguments is None)


def versions_of(lock: Lock) -> str:
    """The versions that tell a stack from another one, as HTML; a reader who comes by an anchor sees no more."""
    locked = {package.name: package.version for package in lock.packages}
    told = ", ".join(f"{name} {safe(locked[name])}" for name in SHOWN if name in locked)
    return f'<a href="../{links.stack(lock.stack)}">{told or "No version is known"}</a>'


def in_order(
    cells: list[tuple[Record, Row]], scenario: Scenario | None
) -> list[tuple[Record, Row]]:
    """By device, then as the scenario orders its variants."""
    names = [variant.name for variant in scenario.variants] if scenario is not None else []
    order = {name: place for place, name in enumerate(names)}
    return sorted(cells, key=lambda pair: (pair[1].device, order.get(pair[1].variant, len(order))))


def entry(row: Row) -> str:
    """A line of the page's table of contents."""
    kind, word, note = shown(row)
    name = f"{row.variant} ({row.device})" if row.device != "cpu" else row.variant
    anchor = links.quoted(links.anchor(row.scenario, row.variant, row.device))
    return f'<li><a class="{kind}" href="#{anchor}"><b>{safe(name)}</b> {safe(word)} {safe(note)}</a></li>'
