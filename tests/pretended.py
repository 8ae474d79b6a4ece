"""A run with pretended servers: every stack is installed and every cell trains by default."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from gradmatrix.core.model import Build, Lock, Record, Role, Stack, Steps
from gradmatrix.judge.verdict import Ended
from gradmatrix.run import pool
from gradmatrix.run.plan import Limits, Selection
from gradmatrix.run.pool import Settings
from gradmatrix.run.server import Answer, Request, ServerDied
from gradmatrix.run.stack import StackRun
from gradmatrix.run.store import Store
from gradmatrix.stacks import environment
from gradmatrix.stacks.environment import Environment
from tests.factories import DAY, make_lock, make_observation, make_scenario, make_variant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pytest

    from gradmatrix.core.observation import Raised
    from gradmatrix.run.plan import Planned
    from gradmatrix.run.pool import Isolation

TRAINED = Answer(make_observation(), Ended(exit=0, output_tail="bye"), wall_s=0.5, import_s=0.25)
EVERYTHING = Selection()


@dataclass
class World:
    """What the pretended servers do, and which requests they got."""

    answers: dict[str, list[Answer]] = field(default_factory=dict)
    """By variant, one after the other; a variant that is not named trains."""
    raises: dict[str, Raised] = field(default_factory=dict)
    """By scenario, what its import raises."""
    kills: dict[str, Ended] = field(default_factory=dict)
    """By scenario, how its import ends the process."""
    kills_once: dict[str, Ended] = field(default_factory=dict)
    """By scenario, how its first import ends the process."""
    started: list[list[str]] = field(default_factory=list)
    """The scenarios of each server, and the users' own scripts."""
    ahead: list[list[str]] = field(default_factory=list)
    """The users' own scripts of each server."""
    forks: list[bool] = field(default_factory=list)
    search_paths: list[str] = field(default_factory=list)
    """The PYTHONPATH of each server; empty for none."""
    asked: list[str] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    """The folder of each request."""
    threads: int = 1
    """Of every server."""
    importing_opens_cuda: bool = False
    opens_cuda: str = ""
    """The cell after which the server has CUDA open."""
    log: Path = Path("nowhere.txt")
    """What servers print."""
    closed: int = 0


class PretendedServer:
    """Has the methods of the real server."""

    def __init__(
        self, world: World, scripts: Sequence[Path], ahead: Sequence[Path], *, fork: bool
    ) -> None:
        self.world = world
        self.scripts = [*scripts, *ahead]
        self.ahead = ahead
        self.imports = {str(script): world.raises.get(script.stem) for script in scripts}
        self.import_s = 8.0
        self.alive = True
        self.threads = world.threads
        self.cuda_initialized = fork and world.importing_opens_cuda
        self.log = world.log
        world.started.append([script.stem for script in self.scripts])
        world.ahead.append([script.stem for script in ahead])
        world.forks.append(fork)

    def __enter__(self) -> Self:
        for script in self.scripts:
            if script.stem in self.world.kills_once:
                raise ServerDied(self.world.kills_once.pop(script.stem))
            if script.stem in self.world.kills:
                raise ServerDied(self.world.kills[script.stem])
        return self

    def run(self, request: Request) -> Answer:
        """The next answer to the variant."""
        self.world.asked.append(f"{request.script.stem}/{request.variant}")
        self.world.folders.append(request.directory)
        request.directory.mkdir(parents=True)
        left = self.world.answers.get(request.variant, [])
        answer = left.pop(0) if left else TRAINED
        self.alive = not answer.ended.lost
        self.cuda_initialized = self.world.asked[-1] == self.world.opens_cuda
        return answer

    def close(self) -> None:
        """Count it."""
        self.world.closed += 1


def pretend(monkeypatch: pytest.MonkeyPatch) -> World:
    """Put pretended servers and an installed environment in the place of real ones."""
    world = World()

    def server(
        _python: Path,
        scripts: Sequence[Path],
        _directory: Path,
        variables: Mapping[str, str],
        *,
        fork: bool,
        ahead: Sequence[Path],
    ) -> object:
        world.search_paths.append(variables.get("PYTHONPATH", ""))
        return PretendedServer(world, scripts, ahead, fork=fork)

    def ensure(*_: object, **__: object) -> Environment:
        return Environment(Path("python"), Build.CPU, "a larger build", installed=True)

    monkeypatch.setattr(pool, "Server", server)
    monkeypatch.setattr(pool, "PAUSE_S", 0)
    monkeypatch.setattr(environment, "ensure", ensure)
    return world


@dataclass
class Watcher:
    """Remembers what a run reported."""

    stages: list[str] = field(default_factory=list)
    plans: list[int] = field(default_factory=list)
    outputs: list[tuple[str, str]] = field(default_factory=list)

    def stage(self, stack: str, text: str) -> None:
        """A stage."""
        self.stages.append(f"{stack}: {text}")

    def planned(self, stack: str, cells: Sequence[Planned]) -> None:
        """A plan."""
        self.plans.append(len(cells))

    def ended(self, record: Record, output: str) -> None:
        """A cell."""
        self.outputs.append((record.cell.variant, output))


def make_run(
    folder: Path,
    *,
    lock: Lock | None = None,
    isolation: Isolation = "fork",
    watcher: Watcher | None = None,
) -> StackRun:
    """A run of two scenarios, one of whose variants this stack does not support."""
    return StackRun(
        stack=Stack(name="stack", python="3.11", requirements=("torch",), as_of=DAY),
        lock=lock or make_lock(),
        scenarios=(
            make_scenario("one", make_variant("a"), make_variant("b", Role.REPORTED)),
            make_scenario("two", make_variant("c"), make_variant("unsupported", needs=("trl",))),
        ),
        devices={"cpu": "Linux-x86_64"},
        settings=Settings(
            Steps(), Limits(timeout_s=60, memory_bytes=None, threads=1), isolation=isolation
        ),
        store=Store(folder / "journal", folder / "published"),
        locks=folder / "locks",
        environments=folder / "environments",
        workplaces=folder / "work",
        progress=watcher or Watcher(),
        run_id="run",
    )


def outcomes(run: StackRun) -> dict[str, str]:
    """The recorded outcome of each variant."""
    return {
        cell.variant: record.outcome for cell, record in run.store.recorded_here("stack").items()
    }
