"""What all tests share: the mark for slow tests, and real environments of published locks."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

from gradmatrix.judge.verdict import Verdict, judge
from gradmatrix.run.server import CAN_FORK, Answer, Request, Server
from gradmatrix.stacks import environment, sandbox
from gradmatrix.stacks import lock as locks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gradmatrix.core.observation import Observation

ROOT = Path(__file__).resolve().parent.parent
FAKES = Path(__file__).resolve().parent / "fakes"
OLDEST, NEWEST = "lightning-2.0.3", "torch-2.13"
"""Stacks with the oldest and the newest torch that is supported: 2.0.1 and 2.13."""
STACKS = (OLDEST, pytest.param(NEWEST, marks=pytest.mark.slow))
"""For tests that run on both. The quick tests need the environment of the oldest only."""
GRADIENT_FAKES = (
    "training",
    "gradients",
    "losing",
    "recomputing",
    "sharded",
    "stepping",
    "breaking",
    "watched",
    "values",
)
PATIENCE_S = 600.0
"""How long a test waits for an event. It only ends a test that hangs: the machine may be busy."""

settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("random"), derandomize=True)
settings.load_profile("same")

needs_fork = pytest.mark.skipif(
    not CAN_FORK, reason="forking after importing torch is safe on Linux only"
)
needs_gpu = pytest.mark.skipif(
    environment.gpu_name() is None, reason="this machine has no NVIDIA GPU"
)
needs_no_gpu = pytest.mark.skipif(
    environment.gpu_name() is not None, reason="this machine has a GPU"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--all``, which runs the slow tests as well."""
    parser.addoption("--all", action="store_true", help="run the tests marked as slow, too")


def pytest_configure(config: pytest.Config) -> None:
    """Leave out the slow tests, unless they are asked for by ``--all`` or ``-m slow``."""
    if not config.option.all and not config.option.markexpr:
        config.option.markexpr = "not slow"


@pytest.fixture(autouse=True)
def _index_cache_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Give each test its own cache of the package index.

    Indexes on loopback use the same addresses again.
    """
    monkeypatch.setenv(
        "GRADMATRIX_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "index-cache" / uuid4().hex)
    )


@cache
def python_of(stack: str) -> Path:
    """The Python of ``stack``'s environment in this checkout. It is installed if it is missing."""
    folder, environments = ROOT / "results" / "locks", ROOT / ".gradmatrix" / "environments"
    lock = locks.load(stack, folder)
    assert lock is not None, f"{stack} has no lock in {folder}"
    with environment.in_use(environments, stack):  # another process may be about to install it
        return environment.ensure(lock, folder, environments).python


@dataclass(frozen=True)
class Ran:
    """One cell that ran: the answer, the verdict and the folder it ran in."""

    answer: Answer
    verdict: Verdict
    directory: Path

    @property
    def outcome(self) -> str:
        """The verdict as a stable string."""
        return str(self.verdict.outcome)

    @property
    def seen(self) -> Observation:
        """The observation, which this cell must have left."""
        assert self.answer.observation is not None, self.answer
        return self.answer.observation

    @property
    def output(self) -> str:
        """What the script printed."""
        return (self.directory / "output.txt").read_text(encoding="utf-8")


@cache
def has_variant(script: str, variant: str) -> bool:
    """Whether the fake names the variant."""
    return f'\n    "{variant}": {{' in (FAKES / f"{script}.py").read_text(encoding="utf-8")


@cache
def culprit(script: str, name: str) -> int:
    """The number of the line that a fake marks as the one to blame."""
    lines = (FAKES / f"{script}.py").read_text(encoding="utf-8").splitlines()
    [number] = [
        number
        for number, line in enumerate(lines, start=1)
        if name in line.partition("# culprit: ")[2].split(", ")
    ]
    return number


@dataclass
class Workbench:
    """A server of one stack that has imported fakes. It starts when it is needed or lost."""

    stack: str
    folder: Path
    scripts: tuple[str, ...]
    fork: bool = True
    server: Server | None = field(default=None, init=False)
    _count: int = field(default=0, init=False)

    def run(self, variant: str, *, script: str | None = None, **limits: Any) -> Ran:  # noqa: ANN401
        """Run one variant of ``script``, or else of the first fake that has it.

        ``limits`` are fields of Request.
        """
        server = self.living_server()
        directory = self.new_folder()
        given: dict[str, Any] = {
            "device": "cpu",
            "audit": 4,
            "warmup": 1,
            "timed": 3,
            "timeout_s": PATIENCE_S,
        }
        path = (
            FAKES
            / f"{script or next(name for name in self.scripts if has_variant(name, variant))}.py"
        )
        request = Request(
            path, variant, directory=directory, **{"memory_bytes": None, **given, **limits}
        )
        answer = server.run(request)
        return Ran(answer, judge(answer.observation, answer.ended), directory)

    def living_server(self) -> Server:
        """A running server."""
        if self.server is None or not self.server.alive:
            self.close()
            paths = [FAKES / f"{name}.py" for name in self.scripts]
            variables = {
                **sandbox.variables(threads=1),
                "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "harness")]),
            }  # fakes share tests.fakes.loop
            self.server = Server(
                python_of(self.stack), paths, self.new_folder(), variables, fork=self.fork
            ).__enter__()
        return self.server

    def new_folder(self) -> Path:
        """An unused folder name."""
        self._count += 1
        return self.folder / str(self._count)

    def close(self) -> None:
        """End the server."""
        if self.server is not None:
            self.server.close()
            self.server = None


@pytest.fixture(scope="module")
def process_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    """A server for fakes that go wrong as processes. They do the same on every stack."""
    bench = Workbench(OLDEST, tmp_path_factory.mktemp("process"), ("process", "training"))
    yield bench
    bench.close()


@pytest.fixture(scope="module", params=STACKS)
def gradient_bench(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workbench]:
    """A server for fakes that train or lose their gradient, on oldest and newest torch."""
    bench = Workbench(request.param, tmp_path_factory.mktemp("gradients"), GRADIENT_FAKES)
    yield bench
    bench.close()


def is_running(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
            not in "ZX"
        )
    except (FileNotFoundError, ProcessLookupError):
        return False


def ends(pid: int) -> bool:
    """Whether a process ends within PATIENCE_S."""
    return waits_until(lambda: not is_running(pid))


def waits_until(condition: Callable[[], object]) -> bool:
    """Whether ``condition()`` becomes true within PATIENCE_S."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
