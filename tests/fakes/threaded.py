"""The workload of tools/faults/slower.py, with ADDED_THREAD beside a thread of its own process.

The thread hashes for 4 ms and sleeps for 6 ms, without end. Hashing gives Python's lock back, so it
delays a step only where both share a core.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "harness" / "tools" / "faults"))
import slower  # type: ignore[import-not-found]  # found through the line above

TEXT = bytes(1 << 21)
WORK_S, REST_S = 0.004, 0.006


def work() -> None:
    """Use the processor for a part of the time."""
    while True:
        until = time.perf_counter() + WORK_S
        while time.perf_counter() < until:
            hashlib.sha256(TEXT)
        time.sleep(REST_S)


def train(variant: str, device: str, steps: int) -> None:
    """The workload, with the thread or without."""
    if "ADDED_THREAD" in os.environ:
        threading.Thread(target=work, daemon=True).start()
    slower.train(variant, device, steps)
