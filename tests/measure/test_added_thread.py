"""A candidate whose library works in a thread of its own is called slower."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradmatrix.core.model import Steps
from gradmatrix.measure.race import Measurement
from gradmatrix.measure.servers import Contender, make_servers
from gradmatrix.measure.statistics import Key, Size
from gradmatrix.run.plan import Limits
from gradmatrix.run.pool import Settings, Source
from tests.conftest import NEWEST, PATIENCE_S, needs_fork, python_of
from tests.pacing import asks

SCRIPT = Path(__file__).parents[1] / "fakes" / "threaded.py"


@needs_fork
@pytest.mark.slow
def test_a_thread_of_the_candidates_own_makes_it_slower(tmp_path: Path) -> None:
    """The optimizer steps are the same. The thread takes 40 % of the core that they share."""
    python = python_of(NEWEST)
    settings = Settings(Steps(), Limits(PATIENCE_S, None, 1))
    threaded = Contender(python, {"ADDED_THREAD": "1"})
    sources = [Source(SCRIPT, own=False)]
    with make_servers(Contender(python), threaded, sources, settings, tmp_path) as both:
        key = Key("threaded", "control", "cpu")
        measured = Measurement(both, key, asks(script=SCRIPT), budget_s=30, margin=0.01).run()
    assert measured.step_time is not None
    assert measured.step_time.verdict is Size.MORE, measured.step_time
