"""Servers that are started when needed and again when lost: every cell gets its answer and its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness import environment
from harness.disk import tail
from harness.launch import CAN_FORK, Answer, Request, Server, ServerDied
from harness.verdict import Ended, Verdict, import_outcome, judge, process_outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from harness.model import Steps
    from harness.observation import Raised
    from harness.plan import Limits, Planned

Isolation = Literal["fork", "fresh"]
ATTEMPTS = 3
"""How often a cell is tried whose process was lost through no fault of its own."""


@dataclass(frozen=True)
class Settings:
    """How cells are run."""

    steps: Steps
    limits: Limits
    isolation: Isolation = "fork" if CAN_FORK else "fresh"
    """A child of one server per cell, or a process of its own; the second where a fork is not safe."""


@dataclass(frozen=True)
class Finished:
    """A cell that was run, or could not be: what came back, the verdict, and the end of what was printed."""

    answer: Answer | None
    verdict: Verdict
    output: str
    isolation: Isolation | Literal["none"]
    threads: int = 1
    """Threads of the process it was forked from."""


class ServerPool:
    """The server of one environment, started when first needed and again when it was lost."""

    def __init__(
        self, settings: Settings, python: Path, scripts: Iterable[Path], directory: Path, stage: Callable[[str], None]
    ) -> None:
        self.settings = settings
        self.isolation: Isolation = settings.isolation
        """Turns to "fresh" when a library opens CUDA in the server: a fork cannot use it then."""
        self.python = python
        self.scripts = sorted(scripts)
        self.directory = directory
        self.stage = stage
        self.variables = environment.variables(settings.limits.threads)
        self.broken: dict[Path, Ended] = {}
        """Scripts whose import ends the whole process, and how."""
        self.import_s = 0.0
        self.cells_s = 0.0
        self._server: Server | None = None
        self._starts = 0

    def run(self, cell: Planned, directory: Path) -> Finished:
        """Run one cell; one whose process was lost is tried again, and a timeout that a fork may have caused.

        A fork of a process with several threads may wait for ever for a lock that no thread of its own will give back.
        """
        script = Path(cell.scenario.path).resolve()
        finished = self.attempts(cell, script, directory)
        timed_out = str(finished.verdict.outcome) == "process:timeout"
        if finished.isolation == "fork" and timed_out and finished.threads > 1:
            self.stage(f"{cell.scenario.name} {cell.variant.name}: timed out, once more in a fresh process")
            kept, self._server, self.isolation = self._server, None, "fresh"
            try:
                return self.attempts(cell, script, directory / "fresh")
            finally:
                self.close()
                self._server, self.isolation = kept, "fork"
        return finished

    def attempts(self, cell: Planned, script: Path, directory: Path) -> Finished:
        """Run one cell, and again while its process is lost through no fault of its own."""
        for attempt in range(ATTEMPTS):
            server = self.server(script)
            if server is None:
                ended = self.broken[script]
                return Finished(None, died_importing(ended), ended.output_tail, "none")
            raised = server.imports.get(str(script))
            if raised is not None:
                return Finished(None, import_verdict(raised), tail(server.log), "none")
            threads = server.threads
            answer = server.run(self.request(cell, script, directory / str(attempt)))
            self.cells_s += answer.wall_s
            self.import_s += answer.import_s
            if self.isolation == "fresh":
                self.close()
            if not answer.ended.lost or answer.observation is not None:
                break
        verdict = judge(answer.observation, answer.ended)
        return Finished(answer, verdict, answer.ended.output_tail, self.isolation, threads)

    def server(self, script: Path) -> Server | None:
        """A living server that has imported ``script``; None where importing it kills the process."""
        if script in self.broken:
            return None
        if self._server is not None and self._server.cuda_initialized:
            self.isolation = "fresh"
        if self.isolation == "fork" and self._imported(script):
            return self._server
        self.close()
        together = [s for s in self.scripts if s not in self.broken]
        alone = [script]
        groups = [alone] if self.isolation == "fresh" or len(together) == 1 else [together, alone]
        for scripts in groups:
            try:
                self._server = self.start(scripts)
            except ServerDied as error:
                if scripts == alone:
                    self.broken[script] = error.ended
                continue
            if self.isolation == "fork" and self._server.cuda_initialized:
                return self.server(script)  # importing opened CUDA: from now on a process for each cell
            return self._server
        return None

    def _imported(self, script: Path) -> bool:
        """Whether the server lives and has imported ``script``."""
        return self._server is not None and self._server.alive and str(script) in self._server.imports

    def start(self, scripts: list[Path]) -> Server:
        """A new server that has imported ``scripts``; ServerDied where importing killed it."""
        self.stage("importing")
        self._starts += 1
        server = Server(
            self.python,
            scripts,
            self.directory / f"server-{self._starts}",
            self.variables,
            fork=self.isolation == "fork",
        )
        server.__enter__()
        self.import_s += server.import_s
        return server

    def request(self, cell: Planned, script: Path, directory: Path) -> Request:
        """What the server is asked to do."""
        steps = self.settings.steps
        return Request(
            script=script,
            variant=cell.variant.name,
            device=cell.cell.device,
            audit=steps.audit,
            warmup=steps.warmup,
            timed=steps.timed,
            directory=directory,
            timeout_s=self.settings.limits.timeout_s,
            memory_bytes=self.settings.limits.memory_bytes,
        )

    def close(self) -> None:
        """End the server, if one runs."""
        if self._server is not None:
            self._server.close()
            self._server = None


def import_verdict(raised: Raised) -> Verdict:
    """The verdict on every cell of a scenario that cannot be imported."""
    return Verdict(import_outcome(raised.type, raised.message), None, f"{raised.type}: {raised.message}")


def died_importing(ended: Ended) -> Verdict:
    """The verdict on every cell of a scenario whose import ends the process."""
    found = process_outcome(None, ended)
    assert found is not None
    return Verdict(found[0], None, f"while importing: {found[1]}")
