"""Two environments measured side by side: which one is slower, or needs more memory, and whether that is real."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

from harness.crew import crew
from harness.launch import Request, ServerDied
from harness.measured import Key, Measured
from harness.pool import Source
from harness.race import Race
from harness.runner import Contender

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.plan import Planned
    from harness.pool import Settings

STEPS = 50_000
"""More than any measurement takes; a script that makes its data in advance makes data for as many."""


def measure(
    baseline: Path,
    candidate: Path,
    cells: Sequence[Planned],
    settings: Settings,
    *,
    budget_s: float,
    margin: float,
    directory: Path,
    stage: Callable[[str], None],
) -> dict[Key, Measured]:
    """Every one of ``cells``, which train on both sides, in the environments of two interpreters.

    ``budget_s`` is for all of them together: what one does not need is left to the others. ``margin`` is the fraction
    that counts as the same. Paths of the two interpreters may be equal: then nothing should differ.
    """
    sources = sorted({Source.of(cell.scenario) for cell in cells})
    with crew(Contender(baseline), Contender(candidate), sources, settings, directory) as both:
        deadline = time.monotonic() + budget_s
        stage(f"starting {len(both.runners)} servers to measure {len(cells)} cells")
        with contextlib.suppress(ServerDied, OSError):  # every cell tries again, and tells
            both.open()  # what that takes is nobody's share
        found: dict[Key, Measured] = {}
        for number, cell in enumerate(cells):
            key = Key(cell.cell.scenario, cell.cell.variant, cell.cell.device)
            left_s = max(0.0, deadline - time.monotonic()) / (len(cells) - number)
            stage(f"measuring {number + 1} of {len(cells)}: {key}, {left_s:.0f} s at most")
            race = Race(both, key, requests(cell, settings), left_s, margin, among=2 * len(cells))
            found[key] = race.run()
    return found


def requests(cell: Planned, settings: Settings) -> Callable[[Path], Request]:
    """What a server is asked for, given the folder of the cell."""

    def request(directory: Path) -> Request:
        scenario = cell.scenario
        return Request(
            script=Source.of(scenario).path,
            variant=cell.variant.name,
            device=cell.cell.device,
            audit=0,
            warmup=0,
            timed=STEPS,
            directory=directory,
            timeout_s=settings.limits.timeout_s,
            memory_bytes=settings.limits.memory_bytes,
            observe=False,
            arguments=scenario.arguments,
            working_directory=Path(scenario.directory) if scenario.directory else None,
            paced=True,
        )

    return request
