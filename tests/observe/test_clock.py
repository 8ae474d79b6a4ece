"""The step clock of measured cells."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from functools import partial

import pytest

from gradmatrix.observe.clock import QUICK_S, Clock, elapsed_s

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the run queue")
WORK_S = 0.3
"""Processor time that a thread spends."""


def burn() -> None:
    """Use the processor without Python's lock, which hashing a long text gives back."""
    text = bytes(1 << 22)
    began = time.thread_time()
    while time.thread_time() - began < WORK_S:
        hashlib.sha256(text)


@pytest.mark.parametrize(
    ("wall", "waited", "others", "expected"),
    [
        (2.0, 0.0, 0.0, 2.0),
        (2.0, 0.5, 0.0, 1.5),  # another process had the core
        (2.0, 0.5, 0.5, 2.0),  # another thread of this process had it
        (2.0, 0.5, 0.25, 1.75),
        (2.0, 0.5, 3.0, 2.0),  # threads on other cores
    ],
)
def test_a_step_is_charged_for_its_own_threads_only(
    wall: float, waited: float, others: float, expected: float
) -> None:
    """Wall time, without the time in which other processes had the core."""
    before = (10.0, 1.0, 5.0)
    after = (10.0 + wall, 1.0 + waited, 5.0 + others)
    assert expected == pytest.approx(elapsed_s(before, after))


@ON_LINUX
def test_a_helper_thread_on_the_same_core_makes_a_step_longer() -> None:
    """Both share one core, so the step takes as long as both together."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        clock = Clock()
        helper = threading.Thread(target=burn)
        before = clock.now()
        helper.start()
        burn()
        helper.join()
        after = clock.now()
    finally:
        os.sched_setaffinity(0, cores)
    assert elapsed_s(before, after) > 1.8 * WORK_S


def test_a_closed_file_is_no_error() -> None:
    """A script may close every file: then the clock is one of wall time."""
    clock = Clock()
    clock.tick()
    os.close(clock.file)
    clock.tick()
    ((before, after),) = clock.steps
    assert 0 < elapsed_s(before, after) == after[0] - before[0]


def test_a_step_too_short_to_wait_is_not_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its time is taken. A longer step is asked about, and nothing is known of this one."""
    clock = Clock()
    os.close(clock.file)
    clock.ticks.append((0.0, 7.0, 3.0))
    for now in (QUICK_S / 2, 1.0):
        monkeypatch.setattr(time, "perf_counter", partial(float, now))
        clock.tick()
    assert [(QUICK_S / 2, 7.0, 3.0), (1.0, 0.0, 0.0)] == list(clock.ticks)[1:]


def test_of_a_long_run_only_the_last_steps_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a script with millions of steps takes no more memory than one with few."""
    clock = Clock(most=2)
    os.close(clock.file)
    for now in range(5):
        monkeypatch.setattr(time, "perf_counter", partial(float, now))
        clock.tick()
    assert [(2.0, 3.0), (3.0, 4.0)] == [(before[0], after[0]) for before, after in clock.steps]
