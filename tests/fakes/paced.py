"""Training scripts to measure: one variant for each way to behave between first and last step.

Nothing here is imported by a test: the server runs it.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

NEEDS = ("torch",)

VARIANTS = {
    "control": {"role": "control", "summary": "trains for as long as it is asked to"},
    "short": {"role": "control", "summary": "ends after 60 steps"},
    "one_step": {"role": "control", "summary": "ends after one step"},
    "raises": {"role": "reported", "summary": "raises in step 12"},
    "raises_early": {"role": "reported", "summary": "raises before its first step"},
    "crashes": {"role": "reported", "summary": "ends by SIGSEGV in step 12"},
    "hangs": {"role": "reported", "summary": "sleeps for ever in step 12"},
    "hangs_early": {"role": "reported", "summary": "sleeps for ever before its first step"},
    "exhausts": {"role": "reported", "summary": "takes memory without end from step 12 on"},
    "kills_server": {"role": "reported", "summary": "kills the process that forked it in step 12"},
    "reads_input": {
        "role": "control",
        "summary": "writes what its standard input holds, then trains",
    },
    "tells_hash": {"role": "control", "summary": "writes the hash of a word, then trains"},
    "imports_late": {
        "role": "control",
        "summary": "writes whether it must import by itself, then trains",
    },
}

STEP, SHORT, MIB = 12, 60, 2**20


def train(variant: str, device: str, steps: int) -> None:
    """Take steps of a linear layer, and do what the variant's summary says."""
    held = hold(int(os.environ.get("HELD_MIB", "0")))
    early = globals().get(f"before_{variant}")
    if early is not None:
        early()
    in_step = globals().get(f"in_{variant}")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(8, 4, device=device)
    for step in range(1, {"short": SHORT, "one_step": 1}.get(variant, steps) + 1):
        if step == STEP and in_step is not None:
            in_step()
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    del held


def hold(mib: int) -> Any:  # noqa: ANN401  (torch has no types here)
    """So much memory, written to."""
    return torch.ones(mib * MIB // 4)


def in_raises() -> None:
    """As a library does that found something."""
    raise RuntimeError("the loss went away")


before_raises_early = in_raises


def in_crashes() -> None:
    """As a broken extension module does."""
    ctypes.string_at(0)


def in_hangs() -> None:
    """As a deadlock does."""
    while True:
        time.sleep(60)


before_hangs_early = in_hangs


def in_exhausts() -> None:
    """As a leak does."""
    kept = []
    while True:
        kept.append(hold(16))


def in_kills_server() -> None:
    """As the kernel does when memory is short."""
    os.kill(os.getppid(), 9)
    time.sleep(60)


def before_reads_input() -> None:
    """As input() does."""
    Path("input.txt").write_text(repr(sys.stdin.read()), encoding="utf-8")


def before_tells_hash() -> None:
    """Write a line for each process of a server, whose own folders are deleted.

    The order of a set depends on the hash in the same way.
    """
    with Path("../hash.txt").open("a", encoding="ascii") as file:
        file.write(f"{hash('gradient')}\n")


def before_imports_late() -> None:
    """As the first use of a model's code does."""
    late = "torch.utils.bundled_inputs" not in sys.modules
    importlib.import_module("torch.utils.bundled_inputs")
    Path("../late.txt").write_text(str(late), encoding="ascii")
