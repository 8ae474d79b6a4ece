"""The evidence of the cells of one stack, on one page.

The frame of the page is a template. The cells are strings that Python joins: with templates, the
pages of 100,000 cells would take several times as long. All cells of a stack share a page, because
a disk writes a few big files faster than many small ones.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from gradmatrix.core.model import SHOWN, Confirmed, Role
from gradmatrix.core.outcomes import DISAGREES, NO_DEVICE, row_of
from gradmatrix.core.text import counted, plain, versioned
from gradmatrix.judge.learning import merge_numbered
from gradmatrix.judge.relations import close
from gradmatrix.judge.wording import format_frame
from gradmatrix.publish.rows import last_measured
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
from gradmatrix.run.confirmed import as_recorded
from gradmatrix.run.plan import lock_input

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gradmatrix.core.model import Lock, Record, Relation, Scenario
    from gradmatrix.core.observation import Observation, Parameter
    from gradmatrix.publish.rows import Row
    from gradmatrix.publish.site.tables import Shown

ALIKE = attrgetter("gradients", "changed", "learns", "held", "frozen", "dtype", "learning_rate")
COLUMNS = (
    "parameters",
    "gradients",
    "changed",
    "should learn",
    "in an optimizer",
    "learning rate",
    "dtype",
)
HEAD = (
    '<table class="parameters"><caption>Gradients in the audited steps</caption><thead><tr>'
    + "".join(f'<th scope="col">{column}</th>' for column in COLUMNS)
    + "</tr></thead><tbody>"
)
END = "</tbody></table>"
LETTERS = {"n": "none", "z": "zero", "f": "finite", "x": "non-finite"}
DISAGREEMENT = re.compile(
    r"(?P<what>[a-z ]+?) (?P<ours>[^a-z].*) against (?P<theirs>.*) of (?P<first>\S+)"
)
"""The message of ``judge.relations`` about two variants that differ."""
RTOL = 1e-3
"""The tolerance if the relation is no longer in the scenario."""
MEBI = 2**20
ROOT = "../"
ROLE = {role: f"Its role: {role.value} ({ROLES[role.value]})." for role in Role}
HERE = ready("<!-- cells -->")
"""Where the template has the cells."""


def evidence_page(
    lock: Lock, scenarios: Mapping[str, Scenario], records: Sequence[Record], rows: Sequence[Row]
) -> tuple[str, bytes]:
    """Return the evidence page of one stack. ``rows`` belong to ``records``, in the same order."""
    cells = sorted(zip(records, rows, strict=True), key=lambda pair: pair[1].scenario)
    environment = usual_environment(records)
    order = {name: place for place, name in enumerate(scenarios)}
    versions = versions_of_locks(lock, records)
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
        environment=versioned(environment),
        measured=last_measured(records),
        standing=stood(records),
        runs=runs_of(records),
        absent=sorted({row.device for row in rows if row.outcome == NO_DEVICE}),
    )
    # a template would copy the big text five times
    before, _, after = frame.partition(HERE.encode())
    return path, b"".join(
        [before, *(piece.encode() for each in sections for piece in each.articles), after]
    )


def stood(records: Iterable[Record]) -> str:
    """Return how many cells ran again and keep an older record; empty if none did."""
    ran = (each for each in records if each.isolation != "none")
    number = sum(isinstance(each, Confirmed) and each.confirmed_by != each.run for each in ran)
    return counted(number, "cell") if number else ""


def runs_of(records: Iterable[Record]) -> str:
    """Return by which runs the records were made, the largest first."""
    days: dict[str, dt.date] = {}
    made: Counter[str] = Counter()
    for each in records:
        if each.isolation != "none":
            days[each.run] = each.recorded_at.date()
            made[each.run] += 1
    return ", ".join(f"{run} ({days[run]}, {counted(n, 'cell')})" for run, n in made.most_common())


def usual_environment(records: Iterable[Record]) -> dict[str, str]:
    """Return the environment of most cells: each names what was imported until it ended."""
    seen: dict[str, Counter[str]] = {}
    observations = (each.observation for each in records if each.observation is not None)
    alike = Counter(tuple(each.environment.items()) for each in observations)
    for environment, cells in alike.items():
        for name, value in environment:
            seen.setdefault(name, Counter())[value] += cells
    return {name: values.most_common(1)[0][0] for name, values in seen.items()}


def versions_of_locks(lock: Lock, records: Iterable[Record]) -> dict[str, str]:
    """Return the main versions of each lock that a record was made with, as links to the stack.

    Somebody who follows a link to a cell sees no other versions.
    """
    known: dict[str, dict[str, str]] = defaultdict(dict)
    for record in records:
        if isinstance(record, Confirmed) and record.observation is not None:
            known[locked_with(record)] |= record.observation.environment
    known[lock_input(lock)] = {package.name: package.version for package in lock.packages}
    return {digits: versions_of(lock.stack, versions) for digits, versions in known.items()}


def locked_with(record: Record) -> str:
    """Return the first digits of the lock with which a record was made."""
    return as_recorded(record).lock


class Section(NamedTuple):
    """The cells of a scenario."""

    scenario: str
    contents: str
    """Its part of the table of contents."""
    articles: Sequence[str]


def section(
    scenario: Scenario | None, name: str, cells: Sequence[tuple[Record, Row]], known: Known
) -> Section:
    """Return the part of a scenario; empty if its device is missing for all cells."""
    judged = in_order([pair for pair in cells if pair[1].outcome != NO_DEVICE], scenario)
    if not judged:
        return Section(name, "", ())
    said = [shown(row) for _, row in judged]
    articles = [
        article(record, row, each, known) for (record, row), each in zip(judged, said, strict=True)
    ]
    anchor, shown_name = plain(name), safe(name)
    title = f'<p class="lead">{safe(scenario.title)}</p>' if scenario is not None else ""
    heading = f'<h2><a href="../{links.scenario(name)}">{shown_name}</a></h2>'
    entries = "".join([entry(row, each) for (_, row), each in zip(judged, said, strict=True)])
    return Section(
        name,
        f'<p><a href="#{links.quoted(anchor)}">{shown_name}</a></p><ul>{entries}</ul>',
        (f'<section id="{safe(anchor)}">{heading}{title}', *articles, "</section>"),
    )


def known_of(
    scenario: Scenario | None, environment: Mapping[str, str], versions: Mapping[str, str]
) -> Known:
    """Return what the cells of a scenario have in common."""
    if scenario is None:
        return Known({}, environment, versions, (), own=True)
    summaries = {variant.name: variant.summary for variant in scenario.variants}
    return Known(summaries, environment, versions, scenario.agree, own=scenario.arguments is None)


def versions_of(stack: str, locked: Mapping[str, str]) -> str:
    """Return the main versions of a stack as a link to it."""
    known = ", ".join(f"{name} {safe(locked[name])}" for name in SHOWN if name in locked)
    return f'<a href="../{links.stack(stack)}">{known or "No version is known"}</a>'


def in_order(
    cells: list[tuple[Record, Row]], scenario: Scenario | None
) -> list[tuple[Record, Row]]:
    """Sort cells by device, then in the order of the variants."""
    names = [variant.name for variant in scenario.variants] if scenario is not None else []
    order = {name: place for place, name in enumerate(names)}
    return sorted(cells, key=lambda pair: (pair[1].device, order.get(pair[1].variant, len(order))))


def entry(row: Row, said: Shown) -> str:
    """Return a line of the table of contents."""
    kind, word, note = said
    name = f"{row.variant} ({row.device})" if row.device != "cpu" else row.variant
    anchor = links.quoted(links.anchor(row.scenario, row.variant, row.device))
    text = f"<b>{safe(name)}</b> {safe(word)} {safe(note)}"
    return f'<li><a class="{kind}" href="#{anchor}">{text}</a></li>'


class Known(NamedTuple):
    """What the cells of a scenario on a stack have in common."""

    summaries: Mapping[str, str]
    """The summary of each variant."""
    environment: Mapping[str, str]
    """The environment that the page shows for all cells."""
    versions: Mapping[str, str]
    """The main versions of each lock, as HTML."""
    agree: Sequence[Relation]
    """The variants that must agree."""
    own: bool
    """Whether it is a scenario of this project, not a user's own script."""


def article(record: Record, row: Row, said: Shown, known: Known) -> str:
    """Return everything that is known about one cell."""
    summary = known.summaries.get(row.variant, "")
    versions = known.versions.get(locked_with(record)) or next(iter(known.versions.values()))
    parts = [verdict(row, said, summary, versions), why(row, known.agree), facts(record, row)]
    if record.observation is not None:
        parts += observed(record.observation, known.environment)
    anchor = safe(links.anchor(row.scenario, row.variant, row.device))
    return (
        f'<article class="cell {KINDS[row.passed]}" id="{anchor}">'
        f"{''.join(parts)}{commands(row, own=known.own)}{further(row)}</article>"
    )


def verdict(row: Row, said: Shown, summary: str, versions: str) -> str:
    """Return the name of a cell, its outcome with its meaning, and the message."""
    kind, word, note = said
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
    """Return the meaning of an outcome, with a link to all outcomes."""
    return f'{safe(in_words(outcome))} <a href="{ROOT}{links.meaning(outcome)}">All outcomes</a>'


def misuse(row: Row) -> str:
    """Return whether the stack reported a misuse."""
    if row.role is not Role.MISUSE or row.passed is None:
        return ""
    says = (
        "The stack reports the mistake" if row.passed else "The stack does not report the mistake"
    )
    return f" This variant cannot train. {says}."


def why(row: Row, agree: Iterable[Relation]) -> str:
    """Return why a cell fails, and the remedy that trains on its stack."""
    if row.outcome == DISAGREES:
        return disagreement(row, ROOT, agree)
    found = row.diagnosis
    if found is None:
        return ""
    lines = "".join(f"<p>{coded(text)}</p>" for text in found.text)
    target = links.remedy(row)
    if target:
        remedy = f'<a href="{ROOT}{target}">{safe(found.remedy or "")}</a>'
        lines += f"<p>A variant that trains: {remedy}</p>"
    cause = safe(found.cause)
    if found.module:
        cause += f" in <code>{safe(found.module)}</code>"
    if found.place:
        cause += f", <code>{safe(format_frame(found.place))}</code>"
    return f'<h4>Why</h4><div class="why">{lines}<p class="cause">{cause}</p></div>'


def facts(record: Record, row: Row) -> str:
    """Return the numbers of a cell, and the origin of its record."""
    speed, seen = row.steps_per_s, record.observation
    found = [("gradient", row.gradient.value if row.gradient else "not audited")]
    if speed is not None:
        found.append(
            ("steps/s", f"{speed.median:.4g} (quartiles {speed.low:.4g} to {speed.high:.4g})")
        )
    if row.peak_memory_bytes is not None:
        found.append(("peak memory", f"{row.peak_memory_bytes / MEBI:,.0f} MiB"))
    if seen is not None:
        threads = counted(seen.threads, "thread")
        found.append(("ran", f"{seen.steps} steps, {seen.wall_s:.3g} s, {threads}"))
    if row.flaky:
        found.append(("flaky: the outcomes of all runs with this key", safe(row.flaky)))
    found += [
        ("recorded", f"{record.recorded_at.isoformat(' ')[:16]} UTC"),
        ("process", PROCESSES[record.isolation]),
        ("build of torch", safe(BUILDS.get(record.build, record.build))),
        ("key: a hash of everything that the verdict depends on", safe(row.key)),
    ]
    listed = "".join([f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in found])
    return f'<dl class="facts">{listed}</dl>'


def commands(row: Row, *, own: bool) -> str:
    """Return the commands that repeat a cell, each with a comment."""
    stack, device = safe(row.stack), safe(row.device)
    variant = safe(row.variant)
    place = f"{safe(row.scenario)}/{variant}"
    cell = f"{stack}/{place}/{device}"
    text = (
        "# install the stack from its lock, and run this cell again\n"
        f"gradmatrix run {stack} --cell {place} --device {device} --fresh\n"
        "# explain the result, from the published record\n"
        f"gradmatrix why {cell}\n"
        "# how its verdict changed from one publication to the next\n"
        f"gradmatrix history {cell}\n"
        "# run it in a clean environment, and compare it with the published result\n"
        f"gradmatrix reproduce {cell}"
    )
    if own and has_capsule(row):
        text += (
            "\n# write one script with its versions, which needs no checkout, and run it\n"
            f"gradmatrix capsule {cell} --output {variant}.py &amp;&amp; uv run {variant}.py"
        )
    return f'<h4>Repeat it</h4><pre class="commands">{text}</pre>'


def further(row: Row) -> str:
    """Return links to more about a cell."""
    claims = links.claims_on(row.scenario, row.variant)
    return (
        '<p class="note"><a href="#words">What the words and commands mean</a>, '
        f'<a href="{ROOT}{claims}">claims about this variant</a>, '
        f'<a href="{ROOT}{links.changes_of(row.stack)}">changes of this stack</a></p>'
    )


def has_capsule(row: Row) -> bool:
    """Whether one script can show the failure: the cell ran and failed by itself."""
    return row.passed is False and row_of(row.outcome).shown_by_one_run


def observed(seen: Observation, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield what was observed while the cell ran."""
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
    """Return a table in a region that scrolls if it is wider than the screen."""
    return f'<div class="region" role="group" tabindex="0" aria-label="{name}">{table}</div>'


def sequences(seen: Observation) -> str:
    """Return the losses and gradient norms of the audited steps."""
    steps = max(len(seen.losses), len(seen.gradient_norms))
    losses = numbers(seen.losses, steps) + numbers([seen.last_loss], 1)
    norms = numbers(seen.gradient_norms, steps) + "<td></td>"
    return region(
        "Losses",
        '<table class="numbers"><caption>The audited steps</caption>'
        f"<thead><tr>{head_of(steps)}</tr></thead><tbody>"
        f'<tr><th scope="row">loss</th>{losses}</tr>'
        f'<tr><th scope="row">gradient norm</th>{norms}</tr></tbody></table>',
    )


@lru_cache
def head_of(steps: int) -> str:
    """Return the head of the table of the audited steps."""
    columns = ("step", *range(1, steps + 1), "last")
    return "".join([f'<th scope="col">{column}</th>' for column in columns])


def numbers(values: Sequence[float | str | None], cells: int) -> str:
    """Return table cells with numbers, padded to ``cells``. Non-finite numbers are words."""
    texts = [
        "–" if v is None else f"{v:.5g}" if isinstance(v, float) else safe(str(v)) for v in values
    ]
    texts += [""] * (cells - len(values))
    return f"<td>{'</td><td>'.join(texts)}</td>" if texts else ""


def step_times(seconds: Sequence[float]) -> str:
    """Return the timed steps as a plot and as numbers."""
    times = [each * 1000 for each in seconds]
    text = " ".join([f"{each:.3g}" for each in times])
    plot = plots.bars(
        times, f"{len(times)} timed steps, {min(times):.3g} to {max(times):.3g} milliseconds"
    )
    return f"<figure>{plot}<figcaption>Timed steps, in milliseconds: {text}</figcaption></figure>"


def disagreement(row: Row, root: str, relations: Iterable[Relation]) -> str:
    """Return from which variant a cell differs, with both sequences; empty for another message."""
    found = DISAGREEMENT.fullmatch(row.message)
    if found is None:
        return ""
    what, first = safe(found["what"]), safe(found["first"])
    rtol = next(
        (r.rtol for r in relations if (r.first, r.second) == (found["first"], row.variant)), RTOL
    )
    target = links.quoted(links.anchor(row.scenario, found["first"], row.device))
    link = f'<a href="{root}{links.evidence_page(row.stack)}#{target}">{first}</a>'
    ours, theirs = found["ours"].split(), found["theirs"].split()
    lines = ""
    for name, values in ((safe(row.variant), ours), (link, theirs)):
        cells = "".join(f"<td>{safe(each)}</td>" for each in values)
        lines += f'<tr><th scope="row">{name}</th>{cells}</tr>'
    caption = f"<caption>{what}, step by step</caption>"
    table = f'<table class="numbers">{caption}<tbody>{lines}</tbody></table>'
    return (
        '<h4>Why</h4><div class="why"><p>It ran to its end, and it learns. But it should be '
        f"equivalent to {link}, with the same data and the same seed, and its {what} differs by "
        f"more than {100 * rtol:.2g} %. {parting(what, ours, theirs, rtol)}</p>"
        "<p>The numbers alone do not show which of the two is right.</p></div>"
        + region(f"Both variants: {what}", table)
    )


def parting(what: str, ours: Sequence[str], theirs: Sequence[str], rtol: float) -> str:
    """Return the step from which two sequences differ, and what follows from that."""
    if what == "gradient norm":
        return "All losses of these steps are equal."
    pairs = zip(map(number, ours), map(number, theirs), strict=False)
    step = next((place for place, pair in enumerate(pairs) if not close(*pair, rtol)), None)
    if step is None or "…" in ours[:1]:
        return ""
    if step == 0:
        return (
            "They differ from the first step on, before any update: the data (sampled text "
            f"included), the forward pass or the scale of the loss differs.{factor(ours, theirs)}"
        )
    steps = "the first step" if step == 1 else f"the first {step} steps"
    return (
        f"They agree in {steps}: a gradient or an update differs, not the data or the first "
        "forward pass."
    )


def factor(ours: Sequence[str], theirs: Sequence[str]) -> str:
    """Return how many times a loss is as large as the other one in the first step, if it is."""
    one, other = number(ours[0]), number(theirs[0])
    if isinstance(one, str) or isinstance(other, str) or one * other <= 0:
        return ""
    times = one / other
    whole = round(times) if times > 1 else round(1 / times)
    is_whole = whole > 1 and math.isclose(max(times, 1 / times), whole, rel_tol=0.01)
    return f" In the first step the loss is {times:.3g} times as large." if is_whole else ""


def number(text: str) -> float | str:
    """Return a number of a message, or the word in its place."""
    try:
        found = float(text)
    except ValueError:
        return text
    return found if math.isfinite(found) else text


@lru_cache(maxsize=4096)
def parameter_table(parameters: tuple[Parameter, ...]) -> str:
    """Return a table with a line for each group of parameters with the same gradients and state.

    Cached: most variants of a scenario have the same one on all stacks.
    """
    groups: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for each in parameters:
        groups[ALIKE(each)].append(each.name)
    lines = (
        line(state, names(members, "" if state[1] else " open"))
        for state, members in groups.items()
    )
    return HEAD + "".join(lines) + END


def names(members: Sequence[str], opened: str) -> str:
    """Return the names of a group, in a list to open if there are several.

    Names that differ only in numbers are written as one.
    """
    shortened = [
        text.rpartition(": ")[0]
        for text in merge_numbered({tuple(name.split(".")): 1 for name in members})
    ]
    count = counted(len(members), "parameter")
    html = "<br>".join(f"<code>{safe(each)}</code>" for each in shortened)
    return (
        html
        if len(members) == 1
        else f"<details{opened}><summary>{count}</summary>{html}</details>"
    )


def line(state: tuple[object, ...], group: str) -> str:
    """Return one line of the table."""
    gradients, changed, learns, held, frozen, dtype, rate = state
    cells = (
        f"<code>{safe(str(gradients))}</code> {best(str(gradients))}",
        yes(changed),
        "yes" if learns else "no: frozen" if frozen else "no",
        yes(held),
        "" if rate is None else safe(rate) if isinstance(rate, str) else f"{rate:.3g}",
        safe(str(dtype)),
    )
    columns = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr><th scope="row">{group}</th>{columns}</tr>'


def best(gradients: str) -> str:
    """Return the letters of the steps in words."""
    return (
        ", ".join(LETTERS.get(letter, "") for letter in dict.fromkeys(gradients)) or "never audited"
    )


def yes(value: object) -> str:
    """Return "yes" or "no"."""
    return "yes" if value else "no"
