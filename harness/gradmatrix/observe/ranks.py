"""Whether ranks that train together keep equal parameters.

Each rank writes what it sees into a folder that all share. Nothing is exchanged between the ranks,
and none waits for another: the files are compared when a rank has ended.

  PID.rank   a line {"rank": int, "ranks": int}, then {"steps": int or null, "sums": str} before
             each watched step of the rank's first optimizer and at its end (null): a digest of
             sums over its parameters, empty if there is none to sum
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import os
import sys
import weakref
from typing import Any, Dict, List, Optional, Tuple

from . import source
from .frames import frames
from .torches import held_by, plain, reading, uninitialized

ALL = 64
"""Each of so many steps is looked at, and as many as RUN steps after each power of two."""
RUN = 32
PARAMETERS = 64
"""At most so many parameters are summed, and of each about as many elements as SAMPLE."""
SAMPLE = 4096
Sums = Dict[Optional[int], str]
"""The digest of a rank's sums, by the steps that it had made; None stands for the end."""


class RankWatch:
    """Watches the parameters of this process if it is one of several ranks."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._process = 0
        """The process that has begun; a forked one begins anew."""
        self._steps = 0
        self._ended = False
        self._optimizer: Any = None
        """A weak reference to the optimizer that stepped first."""
        self._parameters: List[Any] = []
        """Weak references to what it held then."""
        self._last = ""
        """The sums when it went."""
        self._frames: List[Dict[str, Any]] = []
        """Where it is stepped."""
        self._averaged = False
        """Whether DistributedDataParallel averaged the gradients of the first two steps."""

    def before_step(self, optimizer: Any) -> None:
        """Look at the parameters that ``optimizer`` is about to change."""
        if self._process != os.getpid():
            distributed = initialized()
            if distributed is None or distributed.get_world_size() < 2:  # noqa: PLR2004
                return
            self._process, self._steps, self._ended = os.getpid(), 0, False
            self._optimizer, self._frames = weakref.ref(optimizer, self._gone), frames()
            self._parameters = list(map(weakref.ref, compared(optimizer)))
            self._write(rank=distributed.get_rank(), ranks=distributed.get_world_size())
        if self._optimizer() is not optimizer:
            return
        steps, self._steps = self._steps, self._steps + 1
        if steps == 1:
            self._averaged = has_averaged()
        if is_watched(steps):
            self._write(steps=steps, sums=sums(compared(optimizer)))

    def end(self) -> None:
        """Look once more: a rank may average its parameters after its last step."""
        if self._process == os.getpid() and not self._ended:
            self._ended = True
            optimizer = self._optimizer()
            self._write(
                steps=None, sums=self._last if optimizer is None else sums(compared(optimizer))
            )

    def _gone(self, _: Any) -> None:
        """The optimizer goes: a function that trains returns, and this is the last look."""
        living = [parameter() for parameter in self._parameters]
        if self._process == os.getpid() and not self._ended:
            with contextlib.suppress(Exception):  # then nothing was seen at the end
                self._last = sums([each for each in living if each is not None])

    def drift(self) -> Optional[Dict[str, Any]]:
        """How the ranks differ that began with equal parameters; None if they do not.

        None also if this process is no rank, or if not every rank has ended.
        """
        after = differ_after(read(self.folder)) if self._process == os.getpid() else None
        if after is None:
            return None
        steps, ranks = after
        return {
            "step": steps,
            "ranks": ranks,
            "frames": self._frames,
            "past": [] if self._averaged else source.past_wrapper(),
            "averaged": self._averaged,
            "whole": self._steps <= ALL,
        }

    def _write(self, **line: Any) -> None:
        path = os.path.join(self.folder, f"{os.getpid()}.rank")
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def initialized() -> Any:
    """The module ``torch.distributed`` if this process is in a process group; else None."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


def has_averaged() -> bool:
    """Whether a DistributedDataParallel of this process has averaged gradients more than once."""
    module = sys.modules.get("torch.nn.parallel.distributed")
    wrapper = getattr(module, "DistributedDataParallel", None)
    return wrapper is not None and any(
        each._get_ddp_logging_data().get("iteration", 0)
        for each in gc.get_objects()
        if issubclass(type(each), wrapper)
    )


def is_watched(steps: int) -> bool:
    """Whether the parameters are looked at before the step that follows so many others."""
    return steps < ALL or steps - (1 << (steps.bit_length() - 1)) < RUN


def is_shared(parameter: Any) -> bool:
    """Whether all ranks should have this parameter, and it has values.

    FSDP marks what it has sharded, DeepSpeed the experts of a rank, and a DTensor has a local part.
    """
    return not (
        hasattr(parameter, "to_local")
        or getattr(parameter, "_fsdp_flattened", False)
        or not getattr(parameter, "allreduce", True)
        or parameter.is_meta
        or uninitialized(parameter)
    )


def compared(optimizer: Any) -> List[Any]:
    """The first parameters of ``optimizer`` that all ranks should have."""
    return list(filter(is_shared, held_by(optimizer)))[:PARAMETERS]


def sums(parameters: List[Any]) -> str:
    """A digest of the shapes and sums of ``parameters``; empty if there are none."""
    import torch

    text = []
    with reading(torch):
        for parameter in parameters:
            flat = plain(torch, parameter).reshape(-1)
            flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
            sample = flat[:: len(flat) // SAMPLE + 1]
            text.append(f"{len(flat)} {float(sample.double().sum()):.12g}")
    return hashlib.sha256("\n".join(text).encode()).hexdigest()[:16] if text else ""


def read(folder: str) -> List[Tuple[int, int, Sums]]:
    """What the ranks have left: the rank, the number of ranks, and its sums."""
    found = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".rank"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                # A rank that was killed may have left a part of a line.
                lines = [json.loads(line) for line in file if line.endswith("\n")]
            known = {line["steps"]: line["sums"] for line in lines[1:]}
            found += [(line["rank"], line["ranks"], known) for line in lines[:1]]
    return found


def differ_after(found: List[Tuple[int, int, Sums]]) -> Optional[Tuple[int, int]]:
    """The steps after which the ranks were seen to differ, and how many ranks there are.

    None if not all of them have ended, if they began with different parameters, or if they were
    equal again later, as ranks are that average their parameters now and then.
    """
    ranks = sorted(rank for rank, _, _ in found)
    each = [known for _, _, known in found]
    if not found or ranks != list(range(found[0][1])) or not all(None in known for known in each):
        return None
    shared = set.intersection(*(set(known) for known in each)) - {None}
    moments = sorted(steps for steps in shared if steps is not None)
    differ = [len({known[steps] for known in each}) > 1 for steps in moments]
    ends = {known[None] for known in each}
    if True not in differ or differ[0] or (len(ends) == 1 and "" not in ends):
        return None
    first = differ.index(True)
    return (moments[first], len(ranks)) if all(differ[first:]) else None
