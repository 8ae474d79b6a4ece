"""The answer of a bisection for people: on the terminal, as Markdown, as a page, as an issue.

All of them show the same lines. The capsules are the scripts that show both outcomes by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradmatrix.core.outcomes import TRAINS
from gradmatrix.core.text import counted, few, one_line, unlinked
from gradmatrix.publish.reports import folded, own_page, prose

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gradmatrix.judge.edge import Edge, End, Found

MOST_MOVED = 8
"""The most packages that are named of those that differ between two neighbours."""


def answer(found: Found) -> Iterator[str]:
    """Yield the answer, line by line."""
    yield found.headline
    for edge in found.edges:
        yield from of_edge(edge)
    if found.without:
        yield "It is not the only cause: without it, the bad side ends in the same way."
        yield f"  {found.without.name}: {found.without.outcome}"
        yield from (f"    {line}" for line in ending(found.without))
    for end in (found.good, found.bad):
        yield f"{end.name}: {end.outcome}"
        yield from (f"  {line}" for line in ending(end))
    tried = counted(found.probes, "set")
    yield f"{tried} of packages ran; {counted(found.differing, 'package')} differ."
    if found.skipped:
        yield f"{counted(len(found.skipped), 'set')} could not be judged:"
        yield from (f"  {each.what}: {each.why}" for each in found.skipped)


def of_edge(edge: Edge) -> Iterator[str]:
    """Yield what ran on both sides of an edge, what differs there, and what is known of it."""
    for end in edge.ends:
        yield f"  {end.name}: {end.outcome}"
        yield from (f"    {line}" for line in ending(end))
    if edge.between:
        yield f"  It may be any of these, which could not be judged: {', '.join(edge.between)}."
    if edge.also:
        yield f"  Other packages that differ between these two: {', '.join(edge.also)}."
    else:
        yield "  All other packages are equal."
    yield f"  The difference of the locks: {difference(edge)}."
    yield from (f"  {edge.package} {edge.newer} {each}." for each in edge.needs)
    yield from (f"  {each.name}: {each.url}" for each in edge.links)


def difference(edge: Edge) -> str:
    """Return the difference of the two locks on one line."""
    return few(edge.moved, MOST_MOVED)


def ending(end: End) -> tuple[str, ...]:
    """Return the diagnosis, or the first line of the message."""
    return end.why or ((one_line(end.message.splitlines()[0]),) if end.message else ())


def as_markdown(found: Found, capsules: Mapping[str, str]) -> str:
    """Return the answer in Markdown, with the text of an issue and the capsules folded."""
    first, *lines = answer(found)
    text = f"## {prose(first)}\n\n" + "".join(item(line) for line in lines)
    if found.edges:
        text += folded("An issue to paste", fenced(as_issue(found, capsules), "markdown"))
    for name, capsule in capsules.items():
        text += folded(name, fenced(capsule, "python"))
    return text


def item(line: str) -> str:
    """Return a line of the answer as an entry of a list, as deep as it is indented."""
    depth = len(line) - len(line.lstrip())
    return f"{' ' * depth}- {prose(line.strip())}\n"


def fenced(text: str, language: str) -> str:
    """Return a block of code. Its fence is longer than those in it."""
    fence = "`" * 3
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def as_issue(found: Found, capsules: Mapping[str, str]) -> str:
    """Return an issue for whoever made the release: its title on the first line.

    It has the capsule of the side that fails.
    """
    edge = found.edges[-1]
    before, after = edge.in_order
    since = f"{edge.package} {edge.newer}"
    told = before if after.outcome == TRAINS else after
    script = "before.py" if told is edge.ends[0] else "after.py"
    lines = [
        f"# {found.cell.rpartition('/')[0]}: {after.outcome} since {since}",
        "",
        f"A training script {did(after)} with {unlinked(after.name)}.",
        f"With {unlinked(before.name)} it {did(before)}.",
        "",
        *(f"> {prose(line)}" for line in ending(told)),
        "",
        f"What differs between the two runs: {unlinked(difference(edge))}.",
    ]
    if edge.between:
        lines += ["", f"Not tested, so it may be one of them: {', '.join(edge.between)}."]
    if script in capsules:
        lines += ["", f"`uv run {script}` shows it:", "", fenced(capsules[script], "python")]
    return "\n".join(lines).rstrip() + "\n"


def did(end: End) -> str:
    """Return how a script ended, after its name."""
    return TRAINS if end.outcome == TRAINS else f"ends with `{end.outcome}`"


def as_html(found: Found, capsules: Mapping[str, str]) -> bytes:
    """Return the answer as one page."""
    return own_page(
        "bisection.html",
        found=found,
        lines=list(answer(found))[1:],
        issue=as_issue(found, capsules) if found.edges else "",
        capsules=capsules,
    )
