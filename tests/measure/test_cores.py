"""Choose quiet processor cores, and keep a process on them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradmatrix.measure import servers

SPIN = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
while time.process_time() < 0.5:
    pass
"""
"""Keep a core busy for half a second."""
needs_affinity = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="only Linux tells who runs where"
)


@needs_affinity
def test_no_core_is_chosen_where_all_are_needed() -> None:
    """Pinning to all cores would have no effect."""
    assert servers.quietest(len(os.sched_getaffinity(0))) == ()


@needs_affinity
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core alone is no choice")
def test_a_core_is_chosen_of_those_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least busy ones come first, as many as requested."""
    readings = iter([{0: 100, 1: 100, 2: 100}, {0: 119, 1: 103, 2: 110}])
    monkeypatch.setattr(servers, "_busy", lambda: next(readings))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 7})
    assert servers.quietest(2) == (1, 2)


@needs_affinity
def test_a_core_that_the_system_does_not_count_is_not_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its load is unknown."""
    monkeypatch.setattr(servers, "_busy", dict)
    assert servers.quietest(1) == ()


@needs_affinity
def test_a_core_that_works_is_seen_to_work() -> None:
    """Linux counts ticks while a process spins for half a second on one core."""
    core = min(os.sched_getaffinity(0))
    before = servers._busy()[core]  # noqa: SLF001  (what the choice is made of)
    subprocess.run([sys.executable, "-c", SPIN, str(core)], check=True)
    assert servers._busy()[core] - before >= 20  # noqa: SLF001


@needs_affinity
def test_every_thread_of_a_pinned_process_stays_on_the_core() -> None:
    """This includes threads that already exist."""
    core = min(os.sched_getaffinity(0))
    code = (
        "import threading,sys; threading.Thread(target=sys.stdin.read).start(); print(flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        servers.pin(process.pid, (core,))
        tasks = Path(f"/proc/{process.pid}/task").iterdir()
        threads = [int(each.name) for each in tasks]
        found = [os.sched_getaffinity(thread) for thread in threads]
        process.communicate()
    assert [{core}, {core}] == found


@needs_affinity
def test_without_a_core_a_process_is_left_alone() -> None:
    """The system chooses a core."""
    before = os.sched_getaffinity(0)
    servers.pin(os.getpid(), ())
    assert before == os.sched_getaffinity(0)


@needs_affinity
def test_a_process_that_is_gone_is_no_error() -> None:
    """It may have ended in the meantime."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    servers.pin(process.pid, (0,))
