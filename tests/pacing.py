"""Real servers and scripts for tests of the measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradmatrix.measure.servers import Contender, MeasuredServer
from gradmatrix.run.pool import Source
from gradmatrix.run.server import Request
from gradmatrix.stacks import sandbox
from tests.conftest import FAKES, OLDEST, PATIENCE_S, ROOT, python_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

SCRIPT = FAKES / "paced.py"
SLOWER = ROOT / "harness" / "tools" / "faults" / "slower.py"
MIB = 2**20


def asks(
    variant: str = "control",
    *,
    script: Path = SCRIPT,
    timeout_s: float = PATIENCE_S,
    memory_bytes: int | None = None,
) -> Callable[[Path], Request]:
    """The request for a variant, given the folder of its cell."""

    def request(directory: Path) -> Request:
        return Request(
            script=script,
            variant=variant,
            device="cpu",
            audit=0,
            warmup=0,
            timed=50_000,
            directory=directory,
            timeout_s=timeout_s,
            memory_bytes=memory_bytes,
            observe=False,
            paced=True,
        )

    return request


def contender(variables: Mapping[str, str] | None = None) -> Contender:
    """The oldest stack, with environment variables of its own."""
    return Contender(python_of(OLDEST), variables or {})


def a_runner(
    directory: Path,
    variables: Mapping[str, str] | None = None,
    *,
    script: Path = SCRIPT,
    fork: bool = True,
) -> MeasuredServer:
    """A measured server whose script is not pinned; the caller closes it."""
    return MeasuredServer(
        contender(variables),
        directory,
        [Source(script, own=False)],
        sandbox.variables(1),
        (),
        fork=fork,
    )
