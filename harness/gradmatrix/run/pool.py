"""Run cells in one environment: servers are started when needed, and again when they are lost."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import secrets
import shutil
import time
from collections import Counter
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import msgspec

from gradmatrix.core import files
from gradmatrix.core.files import tail
from gradmatrix.core.observation import Observation
from gradmatrix.core.outcomes import TIMEOUT
from gradmatrix.judge.verdict import (
    Ended,
    Verdict,
    import_outcome,
    judge,
    last_line,
    process_outcome,
)
from gradmatrix.run import scenarios
from gradmatrix.run.server import CAN_FORK, Answer, Request, Server, ServerDied
from gradmatrix.stacks import sandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from gradmatrix.core.model import Scenario, Steps
    from gradmatrix.core.observation import Raised
    from gradmatrix.core.outcomes import Outcome
    from gradmatrix.run.plan import Limits, Planned

    Importing = Callable[[], AbstractContextManager[object]]

Isolation = Literal["fork", "fresh"]
ATTEMPTS = 5
"""How often a cell is tried, or a server started, if the machine's failures end it."""
PAUSE_S = 0.5
"""The pause before the second attempt; each further one is twice as long."""
NEW_SERVER_FROM = 2
"""The attempt, counted from 0, from which a cell gets a new server: the old one may be at fault."""


@dataclass(frozen=True)
class Settings:
    """How cells are run."""

    steps: Steps
    limits: Limits
    isolation: Isolation = "fork" if CAN_FORK else "fresh"
    """Each cell is a child of one server, or a fresh process where a fork is not safe."""


@dataclass(frozen=True, order=True)
class Source:
    """The file of a scenario, which a server imports.

    Of a user's own script the server only imports the libraries that it names.
    """

    path: Path
    own: bool
    packages: tuple[str, ...] = ()
    """Folders with packages of the user's that the script imports."""

    @classmethod
    def of(cls, scenario: Scenario) -> Self:
        """The file of ``scenario``."""
        path = Path(scenario.path).resolve()
        return cls(path, scenario.arguments is not None, scenario.packages)


def variables(threads: int, sources: Iterable[Source]) -> dict[str, str]:
    """The environment variables of a server that runs ``sources``."""
    sources = list(sources)
    found = sandbox.variables(threads, own=any(source.own for source in sources))
    folders = dict.fromkeys(folder for source in sources for folder in source.packages)
    return {**found, "PYTHONPATH": os.pathsep.join(folders)} if folders else found


@dataclass(frozen=True)
class Finished:
    """A cell that ran, or could not run: what came back, the verdict, the end of its output."""

    answer: Answer | None
    verdict: Verdict
    output: str
    isolation: Isolation | Literal["none"]
    threads: int = 1
    """Threads of the process that it was forked from."""


@contextmanager
def server_pool(
    settings: Settings,
    python: Path,
    scenarios: Iterable[Scenario],
    workplaces: Path,
    stage: Callable[[str], None],
    *,
    run_id: str = "",
    importing: Importing = nullcontext,
) -> Iterator[ServerPool]:
    """A pool for cells of ``scenarios`` in the environment of ``python``; closed at the end.

    Args:
        settings: Steps, limits, and how cells are kept apart.
        python: The interpreter of the environment.
        scenarios: What its server imports.
        workplaces: A folder for the files of the protocol.
        stage: Called with a text when a step begins that takes a while.
        run_id: The name of this run's folder in ``workplaces``; a new one by default.
        importing: Gives the context in which a server imports.
    """
    with workplace(workplaces, run_id or new_run_id()) as directory:
        sources = set(map(Source.of, scenarios))
        pool = ServerPool(settings, python, sources, directory, stage, importing=importing)
        try:
            yield pool
        finally:
            pool.close()


def new_run_id() -> str:
    """A name for this run that sorts by time."""
    return f"{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%S}-{os.getpid()}"


@contextmanager
def workplace(folder: Path, run_id: str) -> Iterator[Path]:
    """A folder for the files of the protocol; what killed runs left behind is deleted."""
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob("*.lock"):
        if not files.is_held(left):
            sandbox.end_processes(left.with_suffix(""))
            shutil.rmtree(left.with_suffix(""), ignore_errors=True)
            left.unlink(missing_ok=True)
    own = folder / f"{run_id}.lock"
    with files.held(own):
        directory = own.with_suffix("")
        directory.mkdir(exist_ok=True)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)
            # Windows keeps an open file. The next run deletes it.
            with contextlib.suppress(OSError):
                own.unlink()


class ServerPool:
    """The server of one environment, started when first needed and again when it is lost."""

    def __init__(
        self,
        settings: Settings,
        python: Path,
        sources: Iterable[Source],
        directory: Path,
        stage: Callable[[str], None],
        *,
        importing: Importing = nullcontext,
    ) -> None:
        self.settings = settings
        self.isolation: Isolation = settings.isolation
        """Becomes "fresh" when a library opens CUDA in the server: a fork cannot use CUDA then."""
        self.python = python
        self.sources = sorted(sources)
        self.directory = directory
        self.stage = stage
        self.importing = importing
        self.variables = variables(settings.limits.threads, self.sources)
        self.broken: dict[Source, Ended] = {}
        """Sources whose import ends the whole process, and how it ended."""
        self.unaided: set[Source] = set()
        """Users' own scripts whose libraries end a server.

        Their cells import everything themselves.
        """
        self.repeated: Counter[str] = Counter()
        """How often the machine's failures made a repeat necessary, by outcome."""
        self.import_s = 0.0
        self.cells_s = 0.0
        self._server: Server | None = None
        self._starts = 0

    def run_cells(self, cells: Sequence[Planned]) -> Iterator[tuple[Planned, Finished, Path]]:
        """Run one cell after the other; each is yielded when it ends.

        With it comes the folder of its files, which is deleted before the next cell starts. No cell
        can guess the folder of a later one and leave an observation there.
        """
        for number, cell in enumerate(cells):
            place = f"{number + 1} of {len(cells)}"
            self.stage(f"{place}: {cell.scenario.name} {cell.variant.name}")
            folder = self.directory / f"cell-{number}-{secrets.token_hex(8)}"
            yield cell, self.run(cell, folder), folder
            shutil.rmtree(folder, ignore_errors=True)

    def run(self, cell: Planned, directory: Path) -> Finished:
        """Run one cell; again if its process is lost, or if a fork may have caused a timeout.

        A fork of a process with several threads may wait forever for a lock that a thread of the
        parent holds: that thread is not in the fork.
        """
        source = Source.of(cell.scenario)
        finished = self.attempts(cell, source, directory)
        timed_out = str(finished.verdict.outcome) == TIMEOUT
        if finished.isolation == "fork" and timed_out and finished.threads > 1:
            self.stage(
                f"{cell.scenario.name} {cell.variant.name}: timed out, trying a fresh process"
            )
            kept, self._server, self.isolation = self._server, None, "fresh"
            try:
                return self.attempts(cell, source, directory / "fresh")
            finally:
                self.close()
                self._server, self.isolation = kept, "fork"
        return finished

    def attempts(self, cell: Planned, source: Source, directory: Path) -> Finished:
        """Run one cell, and again while a failure of the machine ends it."""
        for attempt in range(ATTEMPTS - 1):
            finished = self.attempt(cell, source, directory / str(attempt))
            outcome = finished.verdict.outcome
            if not outcome.spurious or source in self.broken:
                return finished
            self.pause(attempt, f"{cell.scenario.name} {cell.variant.name}", outcome)
            if attempt + 1 >= NEW_SERVER_FROM:
                self.close()
        return self.attempt(cell, source, directory / "last")

    def pause(self, attempt: int, what: str, outcome: Outcome) -> None:
        """Count a failure of the machine, report it, and wait before the next attempt."""
        self.repeated[str(outcome)] += 1
        self.stage(f"{what}: {outcome}, attempt {attempt + 2} of {ATTEMPTS}")
        time.sleep(PAUSE_S * 2**attempt)

    def attempt(self, cell: Planned, source: Source, directory: Path) -> Finished:
        """Run one cell once, with its files in ``directory``."""
        server = self.server(source)
        if server is None:
            ended = self.broken[source]
            return Finished(None, died_importing(ended), ended.output_tail, "none")
        raised = None if source.own else server.imports.get(str(source.path))
        if raised is not None:
            return Finished(None, import_verdict(raised), tail(server.log), "none")
        threads = server.threads
        request = self.request(cell, source, directory)
        answer = server.run(request)
        self.cells_s += answer.wall_s
        self.import_s += answer.import_s
        if self.isolation == "fresh":
            self.close()
        if source.own:
            answer = publishable(answer, request)
        verdict = judge(answer.observation, answer.ended)
        if source.own:
            verdict = with_last_words(verdict, answer, request)
        return Finished(answer, verdict, answer.ended.output_tail, self.isolation, threads)

    def server(self, source: Source) -> Server | None:
        """A server that can run ``source``; None if importing it ends the process."""
        if source in self.broken:
            return None
        if self._server is not None and self._server.cuda_initialized:
            self.isolation = "fresh"
        if self.isolation == "fork" and self._is_ready(source):
            return self._server
        self.close()
        for sources in self.groups(source):
            try:
                self._server = self.start(sources)
            except ServerDied as error:
                if not sources or (sources == (source,) and not source.own):
                    self.broken[source] = error.ended
                elif sources == (source,):
                    self.unaided.add(source)
                continue
            if self.isolation == "fork" and self._server.cuda_initialized:
                return self.server(source)  # importing opened CUDA: now each cell gets a process
            return self._server
        return None

    def groups(self, source: Source) -> list[tuple[Source, ...]]:
        """What a new server for ``source`` imports: all sources, or fewer if that ends the process.

        In a fresh process a user's script imports everything itself, in its own order.
        """
        nothing: tuple[Source, ...] = ()
        if self.isolation == "fresh":
            return [nothing if source.own else (source,)]
        together = tuple(s for s in self.sources if s not in self.broken and s not in self.unaided)
        groups = [together, (source,), nothing] if source.own else [together, (source,)]
        return [
            group
            for group in dict.fromkeys(groups)
            if source not in self.unaided or group != (source,)
        ]

    def _is_ready(self, source: Source) -> bool:
        """Whether the server lives and has imported what a cell of ``source`` needs."""
        if self._server is None or not self._server.alive:
            return False
        if source.own:
            return source in self.unaided or source.path in self._server.ahead
        return str(source.path) in self._server.imports

    def start(self, sources: Sequence[Source]) -> Server:
        """A new server that has imported ``sources``. Failures of the machine are tried again.

        Raises:
            ServerDied: if importing ended the process.
        """
        for attempt in range(ATTEMPTS - 1):
            try:
                return self.start_once(sources)
            except ServerDied as error:
                outcome = died_importing(error.ended).outcome
                if not outcome.spurious:
                    raise
                self.pause(attempt, "importing", outcome)
        return self.start_once(sources)

    def start_once(self, sources: Sequence[Source]) -> Server:
        """A new server that has imported ``sources``.

        Raises:
            ServerDied: if importing ended the process.
        """
        self.stage("importing")
        self._starts += 1
        server = Server(
            self.python,
            [source.path for source in sources if not source.own],
            self.directory / f"server-{self._starts}-{secrets.token_hex(8)}",
            self.variables,
            fork=self.isolation == "fork",
            ahead=[source.path for source in sources if source.own],
        )
        with self.importing():
            server.__enter__()
        self.import_s += server.import_s
        return server

    def spent(self) -> tuple[float, float, Counter[str]]:
        """Seconds of imports and of cells, and repeats, since this was asked last."""
        spent = self.import_s, self.cells_s, self.repeated
        self.import_s, self.cells_s, self.repeated = 0.0, 0.0, Counter()
        return spent

    def request(self, cell: Planned, source: Source, directory: Path) -> Request:
        """What the server is asked to do."""
        steps, scenario = self.settings.steps, cell.scenario
        return Request(
            script=source.path,
            variant=cell.variant.name,
            device=cell.cell.device,
            audit=steps.audit,
            warmup=steps.warmup,
            timed=steps.timed,
            directory=directory,
            timeout_s=self.settings.limits.timeout_s,
            memory_bytes=self.settings.limits.memory_bytes,
            arguments=scenario.arguments,
            working_directory=Path(scenario.directory) if scenario.directory else None,
        )

    def close(self) -> None:
        """End the server, if one runs."""
        if self._server is not None:
            self._server.close()
            self._server = None


def publishable(answer: Answer, request: Request) -> Answer:
    """``answer`` of a user's own script without the names of its folders."""
    if answer.observation is None:
        return answer
    seen = scenarios.without_folders(msgspec.to_builtins(answer.observation), request.folders)
    return replace(answer, observation=msgspec.convert(seen, Observation))


def with_last_words(verdict: Verdict, answer: Answer, request: Request) -> Verdict:
    """The verdict on a script that ended with an exit code, with the last line that it printed."""
    raised = answer.observation.raised if answer.observation else None
    if raised is None or raised.type != "SystemExit" or not raised.message.isdecimal():
        return verdict
    last = scenarios.without_folders(last_line(answer.ended.output_tail), request.folders)
    if not last:
        return verdict
    return replace(verdict, message=f"{verdict.message}; the last line it printed: {last}")


def import_verdict(raised: Raised) -> Verdict:
    """The verdict on every cell of a scenario that cannot be imported."""
    return Verdict(
        import_outcome(raised.type, raised.message), None, f"{raised.type}: {raised.message}"
    )


def died_importing(ended: Ended) -> Verdict:
    """The verdict on every cell of a scenario whose import ends the process."""
    found = process_outcome(None, ended)
    assert found is not None
    return Verdict(found[0], None, f"while importing: {found[1]}")
