"""Two nodes of one core each by Ray's own cluster utility, until the process is ended.

``python -m tests.nodes`` prints the process of each node on a line, and then the address.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ray.cluster_utils import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def say(what: object) -> None:
    """Print a line now: the reader waits for it."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def patiently(start: Callable[[], T]) -> T:
    """What ``start`` returns. Ray gives a node 30 s to start, which a busy machine may exceed."""
    for _ in range(9):
        with suppress(Exception):
            return start()
    return start()


def main() -> None:
    """Start the nodes and wait."""
    cluster = patiently(partial(Cluster, initialize_head=True, head_node_args={"num_cpus": 0}))
    for _ in range(2):
        node = patiently(partial(cluster.add_node, num_cpus=1))
        (raylet,) = node.all_processes["raylet"]
        say(raylet.process.pid)
    say(cluster.address)
    signal.sigwait([signal.SIGTERM])
    cluster.shutdown()


if __name__ == "__main__":
    main()
