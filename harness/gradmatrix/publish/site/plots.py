"""Small plots as inline SVG. The text beside each plot says the same in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gradmatrix.publish.site.markup import safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradmatrix.publish.speed import Band

BAR, BARS_HIGH = 9, 44
WIDE, HIGH, EDGE = 420, 56, 6
ABOVE, BELOW = 14, 15
"""Space for the highest value, and for the names of the stacks."""
STRIP_HIGH = 16
MOST_TITLES = 60
"""With more stacks than this, stacks have no titles."""
LETTER = 5.6
"""The width of a letter of a label."""


def bars(values: Sequence[float], label: str) -> str:
    """Return a bar for each value, from zero on."""
    scale = BARS_HIGH / (max(values) or 1)
    path = "".join(
        [
            f"M{BAR * n + 5} {BARS_HIGH}V{BARS_HIGH - value * scale:.1f}"
            for n, value in enumerate(values)
        ]
    )
    return drawing("bars", label, (BAR * len(values) + 1, BARS_HIGH), f'<path d="{path}"/>')


def drawing(kind: str, label: str, size: tuple[int, int], content: str) -> str:
    """Return a picture with its description.

    Args:
        kind: Its class in the style sheet.
        label: What it shows, in words.
        size: Width and height, in pixels.
        content: The shapes.
    """
    wide, high = size
    return (
        f'<svg class="{kind}" role="img" aria-label="{safe(label)}" '
        f'viewBox="0 0 {wide} {high}" width="{wide}" height="{high}">{content}</svg>'
    )


class Axis(NamedTuple):
    """The horizontal axis of a plot: the stacks by date, the oldest on the left."""

    names: Sequence[str]
    builds: Sequence[str | None]
    """The build of torch of each stack; None if all have the same."""
    wide: int = WIDE

    @property
    def step(self) -> float:
        """The distance between two stacks."""
        return self.wide / max(1, len(self.names))

    @property
    def titles(self) -> list[str]:
        """Each stack with its build of torch; empty if they would fill most of the page."""
        if len(self.names) > MOST_TITLES:
            return []
        stacks = zip(self.names, self.builds, strict=True)
        return [f"{name} ({build} build of torch)" if build else name for name, build in stacks]

    def x(self, place: int) -> float:
        """Return the middle of a stack."""
        return (place + 0.5) * self.step

    def ends(self, bottom: float) -> str:
        """Return the first and the last name, below the plot."""
        if not self.names:
            return ""
        first, last = (shortened(name, self.wide) for name in (self.names[0], self.names[-1]))
        newest = (
            f'<text x="{self.wide}" y="{bottom + 12}" text-anchor="end">{last}</text>'
            if len(self.names) > 1
            else ""
        )
        return f'<text x="0" y="{bottom + 12}">{first}</text>{newest}'

    def titled(self, titles: Sequence[str], high: float) -> str:
        """Return an area over each stack that shows its value if the pointer is on it."""
        areas = (
            f'<rect class="area" x="{place * self.step:.1f}" y="0" width="{self.step:.1f}" '
            f'height="{high:g}"><title>{safe(title)}</title></rect>'
            for place, title in enumerate(titles)
        )
        return "".join(areas)


def shortened(name: str, wide: int) -> str:
    """Return a name, cut to leave space for the one at the other end."""
    most = int(wide / 2 / LETTER) - 1
    return safe(name if len(name) <= most else f"{name[: most - 1]}…")


class Point(NamedTuple):
    """What a stack shows in a plot."""

    band: Band | None = None
    kind: str = ""
    """A line joins values of the same kind. Others cannot be compared."""
    raw: tuple[float, ...] = ()
    """The values as they were measured."""


def along(
    points: Sequence[Point],
    marks: Marks,
    description: tuple[str, str],
    axis: Axis,
    titles: Sequence[str],
) -> str:
    """Return a plot of a value for each stack, from zero on.

    Args:
        points: The values of each stack; an empty one leaves a gap.
        marks: What is marked.
        description: The plot in words, and the unit.
        axis: The stacks.
        titles: What each stack shows if the pointer is on it.
    """
    label, unit = description
    top = max((high for each in points for high in (*(each.band or ())[2:], *each.raw)), default=0)
    bottom = ABOVE + HIGH - EDGE

    def at(place: int, value: float) -> str:
        return f"{axis.x(place):.1f} {bottom - value / (top or 1) * (bottom - ABOVE):.1f}"

    band, line, dots, raw = "", "", "", ""
    for run in joined(points):
        lows, middles, highs = zip(
            *([at(place, value) for value in band] for place, band in run), strict=True
        )
        band += f"M{'L'.join((*lows, *reversed(highs)))}Z"
        line += f"M{'L'.join(middles)}"
        dots += "".join(f"M{each}h0" for each in middles)
    for place, each in enumerate(points):
        raw += "".join(f"M{at(place, value)}h0" for value in each.raw)
    crosses = "".join(
        f"M{axis.x(place) - 2:.1f} {bottom - 2}l4 4m0-4l-4 4" for place in marks.failed
    )
    turns = "".join(
        f"M{(axis.x(before) + axis.x(after)) / 2:.1f} {ABOVE}V{bottom}"
        for before, after in marks.changed
    )
    high = bottom + BELOW
    paths = {
        "band": band, "raw": raw, "line": line, "dots": dots, "crosses": crosses, "turns": turns,
    }  # fmt: skip
    content = (
        f'<path class="axis" d="M0 {ABOVE}H{axis.wide}M0 {bottom}H{axis.wide}"/>'
        f'<text x="0" y="{ABOVE - 3}">{top:,.4g} {unit}</text>'
        + "".join(f'<path class="{name}" d="{path}"/>' for name, path in paths.items() if path)
        + f"{axis.ends(bottom)}{axis.titled(titles, high)}"
    )
    return drawing("along", label, (axis.wide, high), content)


class Marks(NamedTuple):
    """The places that a plot marks."""

    failed: Sequence[int] = ()
    """The stacks on which the variant fails: × at the bottom."""
    changed: Sequence[tuple[int, int]] = ()
    """The stacks between which the value changed: a dashed line."""


def joined(points: Sequence[Point]) -> list[list[tuple[int, Band]]]:
    """Return the points that lines join, each with its place.

    A stack without a value, or without one that can be compared, ends all lines.
    """
    runs: list[list[tuple[int, Band]]] = []
    last: dict[str, list[tuple[int, Band]]] = {}
    for place, each in enumerate(points):
        if each.band is None:
            last.clear()
            continue
        if each.kind not in last:
            last[each.kind] = []
            runs.append(last[each.kind])
        last[each.kind].append((place, each.band))
    return runs


def strip(runs: Sequence[tuple[str, int]], label: str, axis: Axis, titles: Sequence[str]) -> str:
    """Return a strip of the outcomes on all stacks.

    Args:
        runs: Consecutive stacks with the same outcome: the class of their cells, and their number.
        label: The strip in words.
        axis: The stacks.
        titles: What each stack shows if the pointer is on it.
    """
    x, shapes = 0.0, []
    for kind, length in runs:
        wide = axis.step * length
        high = {"p": STRIP_HIGH, "f": 10}.get(kind, 4)  # colour is not the only sign
        shapes.append(
            f'<rect class="{kind}" x="{x:.1f}" y="{STRIP_HIGH - high}" '
            f'width="{max(1, wide - 1):.1f}" height="{high}"/>'
        )
        x += wide
    high = STRIP_HIGH + BELOW
    content = f"{''.join(shapes)}{axis.ends(STRIP_HIGH)}{axis.titled(titles, high)}"
    return drawing("strip", label, (WIDE, high), content)
