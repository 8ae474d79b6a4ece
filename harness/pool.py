"""Servers that are started when needed and again when lost: every cell gets its answer and its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness import environment
from harness.launch import CAN_FORK, Answer, Request, Server, ServerDied
from harness.outcome import Outcome, Phase
from harness.verdict import Ended, Verdict, is_import_error, judge, process_outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from harness.model import Raised, Steps
    from harness.plan import Planned

Isolation = Literal["fork", "fresh"]
ATTEMPTS = 3
"""How often a cell is tried whose process was lost through no fault of its own."""


@dataclass(frozen=True)
class Settings:
    """How cells are run; times in seconds."""

    steps: Steps
    timeout_s: float
    memory_bytes: int | None
    threads: int
    isolation: Isolation = "fork" if CAN_FORK else "fresh"
    """A child of one server per cell, or a process of its own; the second where a fork is not safe."""


class ServerPool:
    """The server of one environment, started when first needed and again when it was lost."""

    def __init__(
        self, settings: Settings, python: Path, scripts: Iterable[Path], directory: Path, stage: Callable[[str], None]
    ) -> None:
        self.settings = settings
        self.python = python
        self.scripts = sorted(scripts)
        self.directory = directory
        self.stage = stage
        self.variables = environment.variables(settings.threads)
        self.broken: dict[Path, Ended] = {}
        """Scripts whose import ends the whole process, and how."""
        self.import_s = 0.0
        self.cells_s = 0.0
        self._server: Server | None = None
        self._starts = 0

    def run(self, cell: Planned, directory: Path) -> tuple[Answer | None, Verdict]:
        """One cell's answer and verdict; a cell whose process was lost is tried again."""
        script = Path(cell.scenario.path).resolve()
        for attempt in range(ATTEMPTS):
            server = self.server(script)
            if server is None:
                return None, died_importing(self.broken[script])
            raised = server.imports.get(str(script))
            if raised is not None:
                return None, import_verdict(raised)
            answer = server.run(self.request(cell, script, directory / str(attempt)))
            self.cells_s += answer.wall_s
            self.import_s += answer.import_s
            if self.settings.isolation == "fresh":
                self.close()
            if not answer.ended.lost or answer.observation is not None:
                break
        return answer, judge(answer.observation, answer.ended)

    def server(self, script: Path) -> Server | None:
        """A living server that has imported ``script``; None where importing it kills the process."""
        if script in self.broken:
            return None
        if self._server is not None and self._server.alive and str(script) in self._server.imports:
            return self._server
        self.close()
        together = [s for s in self.scripts if s not in self.broken]
        alone = [script]
        groups = [alone] if self.settings.isolation == "fresh" or len(together) == 1 else [together, alone]
        for scripts in groups:
            try:
                self._server = self.start(scripts)
            except ServerDied as error:
                if scripts == alone:
                    self.broken[script] = error.ended
            else:
                return self._server
        return None

    def start(self, scripts: list[Path]) -> Server:
        """A new server that has imported ``scripts``; ServerDied where importing killed it."""
        self.stage("importing")
        self._starts += 1
        server = Server(
            self.python,
            scripts,
            self.directory / f"server-{self._starts}",
            self.variables,
            fork=self.settings.isolation == "fork",
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
            timeout_s=self.settings.timeout_s,
            memory_bytes=self.settings.memory_bytes,
        )

    def close(self) -> None:
        """End the server, if one runs."""
        if self._server is not None:
            self._server.close()
            self._server = None


def import_verdict(raised: Raised) -> Verdict:
    """The verdict on every cell of a scenario that cannot be imported."""
    missing = is_import_error(raised.type, raised.message) and "ModuleNotFoundError" in raised.type + raised.message
    reason = "missing-module" if missing else "exception"
    return Verdict(Outcome(Phase.IMPORT, reason), None, f"{raised.type}: {raised.message}")


def died_importing(ended: Ended) -> Verdict:
    """The verdict on every cell of a scenario whose import ends the process."""
    found = process_outcome(None, ended)
    assert found is not None
    return Verdict(found[0], None, f"while importing: {found[1]}")
