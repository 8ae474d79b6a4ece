"""Small plots as inline SVG. The text beside each plot says the same in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gradmatrix.publish.site.markup import safe

if TYPE_CHECKING:
    from collections.abc import Sequence

BAR, BARS_HIGH = 9, 44
WIDE, HIGH, EDGE = 420, 64, 6
ABOVE, BELOW = 14, 15
"""Space for the highest value, and for the names of the stacks."""
STRIP_HIGH = 16
MOST_TITLES = 60
"""With more stacks than this, stacks have no titles."""
LETTER = 5.6
"""The width of a letter of a label."""


class Spread(NamedTuple):
    """A value with its quartiles."""

    median: float
    low: float
    high: float


def bars(values: Sequence[float], label: str) -> str:
    """Return a bar for each value, from zero on."""
    scale = BARS_HIGH / (max(values) or 1)
    path = "".join(
        f"M{BAR * n + 5} {BARS_HIGH}V{BARS_HIGH - value * scale:.1f}"
        for n, value in enumerate(values)
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
    """The build of torch of each stack. Values of different builds are not connected."""

    @property
    def step(self) -> float:
        """The distance between two stacks."""
        return WIDE / max(1, len(self.names))

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
        first, last = (shortened(name) for name in (self.names[0], self.names[-1]))
        newest = (
            f'<text x="{WIDE}" y="{bottom + 12}" text-anchor="end">{last}</text>'
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


def shortened(name: str) -> str:
    """Return a name, cut to leave space for the one at the other end."""
    most = int(WIDE / 2 / LETTER) - 1
    return safe(name if len(name) <= most else f"{name[: most - 1]}…")


def along(
    values: Sequence[Spread | None],
    failed: Sequence[int],
    description: tuple[str, str],
    axis: Axis,
    titles: Sequence[str],
    *,
    connected: bool,
) -> str:
    """Return a plot of a value for each stack: quartiles are bars.

    Args:
        values: The values; None leaves a gap.
        failed: The places of the stacks on which the variant fails. They have a mark at the bottom.
        description: The plot in words, and the unit.
        axis: The stacks.
        titles: What each stack shows if the pointer is on it.
        connected: Whether a line connects the medians: they can be compared.
    """
    label, unit = description
    top = max((each.high for each in values if each is not None), default=0)
    bottom = ABOVE + HIGH - EDGE

    def y(value: float) -> float:
        return bottom - value / (top or 1) * (bottom - ABOVE)

    spread, dots, line, joined = [], [], [], None
    for place, value in enumerate(values):
        if value is None:
            joined = None
            continue
        x, middle, build = axis.x(place), y(value.median), axis.builds[place] or ""
        spread.append(f"M{x:.1f} {y(value.low):.1f}V{y(value.high):.1f}")
        dots.append(f"M{x:.1f} {middle:.1f}h0")
        line.append(f"{'L' if joined == build else 'M'}{x:.1f} {middle:.1f}")
        joined = build if connected else None
    crosses = "".join(f"M{axis.x(place) - 2:.1f} {bottom - 2}l4 4m0-4l-4 4" for place in failed)
    high = bottom + BELOW
    content = (
        f'<path class="axis" d="M0 {ABOVE}H{WIDE}M0 {bottom}H{WIDE}"/>'
        f'<text x="0" y="{ABOVE - 3}">{top:,.4g} {unit}</text>'
        f'<path class="spread" d="{"".join(spread)}"/>'
        f'<path class="line" d="{"".join(line)}"/><path class="dots" d="{"".join(dots)}"/>'
        f'<path class="crosses" d="{crosses}"/>{axis.ends(bottom)}{axis.titled(titles, high)}'
    )
    return drawing("along", label, (WIDE, high), content)


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
