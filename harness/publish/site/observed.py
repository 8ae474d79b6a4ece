"""What was seen while a cell ran, as HTML: losses, gradients, step times, exception, warnings."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from harness.publish.site import links, plots
from harness.publish.site.markup import safe
from harness.publish.site.parameters import parameter_table
from harness.publish.text import plain
from harness.relations import close

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.model import Relation
    from harness.observation import Observation
    from harness.publish.rows import Row

DISAGREEMENT = re.compile(r"(?P<what>[a-z ]+?) (?P<ours>[^a-z].*) against (?P<theirs>.*) of (?P<first>\S+)")
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
        each = (f"<li><b>{safe(w.category)}</b> × {w.count}<pre>{safe(w.message)}</pre></li>" for w in seen.warnings)
        listed = f'<ul class="warnings">{"".join(each)}</ul>'
        yield f"<details><summary>Warnings: {len(seen.warnings)}</summary>{listed}</details>"
    if other := [f"{name} {value}" for name, value in seen.environment.items() if environment.get(name) != value]:
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
    told = ("–" if v is None else f"{v:.5g}" if isinstance(v, float) else safe(str(v)) for v in values)
    return "".join(f"<td>{text}</td>" for text in told) + "<td></td>" * (cells - len(values))


def step_times(seconds: Sequence[float]) -> str:
    """The timed steps as a plot and as numbers."""
    times = [each * 1000 for each in seconds]
    text = " ".join(f"{each:.3g}" for each in times)
    plot = plots.bars(times, f"{len(times)} timed steps, {min(times):.3g} to {max(times):.3g} milliseconds")
    return f"<figure>{plot}<figcaption>Timed steps, in milliseconds: {text}</figcaption></figure>"


def disagreement(row: Row, root: str, relations: Iterable[Relation]) -> str:
    """From which variant it differs, with both sequences; nothing where its message is another one."""
    told = DISAGREEMENT.fullmatch(row.message)
    if told is None:
        return ""
    what, first = safe(told["what"]), safe(told["first"])
    rtol = next((r.rtol for r in relations if (r.first, r.second) == (told["first"], row.variant)), RTOL)
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
        return (
            "They part at the first step, before any update: the data (sampled text too) or the forward pass differs."
        )
    steps = "the first step" if step == 1 else f"the first {step} steps"
    return f"They agree in {steps}: what differs is a gradient or an update, not the data or the first forward pass."


def number(text: str) -> float | str:
    """A number of a message, or the word in its place."""
    try:
        found = float(text)
    except ValueError:
        return text
    return found if math.isfinite(found) else text
