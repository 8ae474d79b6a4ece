"""Real servers of two sides: what a measurement must give on any machine, even a busy one."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gradmatrix.core.model import Steps
from gradmatrix.measure.race import Measurement
from gradmatrix.measure.servers import Contender, make_servers
from gradmatrix.measure.statistics import Key, Measured, Size
from gradmatrix.run.plan import Limits
from gradmatrix.run.pool import Settings, Source
from tests.conftest import OLDEST, PATIENCE_S, ROOT, ends, needs_fork, python_of, waits_until
from tests.pacing import SCRIPT, SLOWER, asks, contender

pytestmark = [needs_fork, pytest.mark.slow]
SERVERS = 2
GENERATIONS = 4
SETTINGS = Settings(Steps(), Limits(timeout_s=PATIENCE_S, memory_bytes=None, threads=1))


class Counted(Measurement):
    """A measurement of a given number of generations; its servers are never replaced."""

    worth_renewing = False

    @property
    def gone(self) -> float:
        """The fraction of the generations that are over."""
        return len(self.generations) / GENERATIONS


def raced(
    folder: Path,
    variables: dict[str, str],
    *variants: str,
    script: Path = SCRIPT,
) -> list[Measured]:
    """Each variant on the same servers; the candidate's have ``variables``."""
    sources = [Source(script, own=False)]
    with make_servers(
        contender(), contender(variables), sources, SETTINGS, folder, per_side=SERVERS
    ) as both:
        return [
            Counted(
                both, Key("paced", variant, "cpu"), asks(variant, script=script), PATIENCE_S, 0.05
            ).run()
            for variant in variants
        ]


def test_a_candidate_that_takes_five_times_as_long_has_a_high_ratio(tmp_path: Path) -> None:
    """The benchmark checks smaller differences, which need a quiet machine."""
    [found] = raced(tmp_path, {"SLOWER_PER_CENT": "400"}, "control", script=SLOWER)
    assert found.step_time is not None, found
    assert found.step_time.ratio > 2


def test_what_one_cell_does_leaves_the_next_one_unharmed(
    tmp_path: Path,
) -> None:
    """A failing cell is reported.

    The same servers measure the next one, and 64 MiB more are seen.
    """
    failed, equal, hashes = raced(
        tmp_path, {"HELD_MIB": "64"}, "raises_early", "control", "tells_hash"
    )
    sides = [
        (f"not measured on the {side}: RuntimeError: the loss went away",)
        for side in ("baseline", "candidate")
    ]
    assert (failed.stopped, failed.notices in sides) == ("failed", True)
    assert equal.step_time is not None, equal
    assert equal.memory is not None
    assert Size.MORE is equal.memory.verdict
    assert hashes.stopped != "failed"
    lines = [path.read_text(encoding="ascii").splitlines() for path in tmp_path.glob("*/hash.txt")]
    assert [1] * 2 * SERVERS == [
        len(set(each)) for each in lines
    ]  # the same in all that a server forked
    assert len({each[0] for each in lines}) == 2 * SERVERS
    assert not list(tmp_path.glob("*/cell-*"))  # also of the one that failed


def test_servers_are_replaced_by_others_that_have_learned_the_same(tmp_path: Path) -> None:
    """Each has another hash seed. No process has to import what the scout imported."""
    sources = [Source(SCRIPT, own=False)]
    with make_servers(
        contender(), contender(), sources, SETTINGS, tmp_path, per_side=SERVERS
    ) as both:
        for variant in ("imports_late", "tells_hash"):
            race = Measurement(both, Key("paced", variant, "cpu"), asks(variant), PATIENCE_S, 0.05)
            race.prepare()
            race.generation()
        assert 0 < both.opening_s < math.inf
        race.renew()
        race.generation()
        race.request = asks("imports_late")
        race.generation()
        assert race.result(race.look(1.0), "budget").servers == 2 * SERVERS
    lines = [path.read_text(encoding="ascii").splitlines() for path in tmp_path.glob("*/hash.txt")]
    assert 4 * SERVERS == len({hashed for each in lines for hashed in each})
    late = [path.read_text(encoding="ascii") for path in tmp_path.glob("*/late.txt")]
    assert ["False"] * 2 * SERVERS == late


def test_a_python_that_does_not_start_is_reported_and_no_server_left(tmp_path: Path) -> None:
    """One side fails, and the servers of the other side are ended."""
    baseline, nowhere = contender(), Contender(tmp_path / "nowhere")
    others = set(descendants(os.getpid()))  # servers that other tests share
    with make_servers(
        baseline, nowhere, [Source(SCRIPT, own=False)], SETTINGS, tmp_path, per_side=SERVERS
    ) as both:
        measurement = Measurement(both, Key("paced", "control", "cpu"), asks(), PATIENCE_S, 0.05)
        measurement.generator = np.random.default_rng(
            1
        )  # a server of the baseline is started first
        found = measurement.run()
        pids = set(descendants(os.getpid())) - others
    assert ("failed", None, True) == (
        found.stopped,
        found.step_time,
        "No such file" in found.notices[0],
    )
    assert pids
    assert all(ends(pid) for pid in pids)


def test_no_process_outlives_a_killed_measurement(tmp_path: Path) -> None:
    """The host is killed and cannot clean up. Its servers and scripts end too."""
    python_of(OLDEST)
    code = (
        "import sys; from pathlib import Path; from tests.measure.test_servers import raced;"
        "raced(Path(sys.argv[1]), {}, 'hangs')"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT) as host:
        try:
            # past the scouts, which are the first cells of the first servers; who is next is chance
            assert waits_until(
                lambda: [
                    *tmp_path.glob("*-0/cell-2/output.txt"),
                    *tmp_path.glob("*-1/cell-1/output.txt"),
                ]
            )
            pids = descendants(host.pid)
        finally:
            host.kill()
    assert len(pids) >= 2 * SERVERS
    assert all(ends(pid) for pid in pids), json.dumps(pids)


def descendants(pid: int) -> list[int]:
    """The processes that a process started, directly or indirectly."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text(encoding="ascii").split():
            found += [int(child), *descendants(int(child))]
    return found
