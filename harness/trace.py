"""Run any training script in any environment, unmodified, and collect what the observer saw in its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from harness.errors import UserError
from harness.finding import Finding, Left, Process, conclude, no_remedy
from harness.observation import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    from harness.causes import Diagnosis
    from harness.observation import Observation
    from harness.remedy import Remedy

TRACED = Path(__file__).resolve().parent / "inside" / "traced"
AUDIT = 4


def command_line(python: Path, words: Sequence[str], *, module: bool) -> list[str]:
    """What is started: a script, a module as ``python -m`` does, or a command of that environment such as torchrun."""
    if module:
        return [str(python), "-m", *words]
    script = Path(words[0])
    if script.exists():
        return [str(python), *words]
    command = python.parent / words[0]
    if script.name == words[0] and command.is_file():
        with command.open("rb") as file:
            is_script = file.read(2) == b"#!"
        return [str(python), str(command), *words[1:]] if is_script else [str(command), *words[1:]]
    raise UserError(
        f"There is no script {words[0]}.",
        cause=f"neither a file here ({Path.cwd()}) nor a command in {python.parent}",
        next_step="gradmatrix trace [--python PATH] SCRIPT [ARGS...], or -m MODULE [ARGS...]",
    )


def trace(
    command: Sequence[str],
    *,
    steps: int | None,
    remedy_for: Callable[[Diagnosis, Observation], Remedy | None] = no_remedy,
) -> Finding:
    """Run ``command`` to its end, stopped after so many optimizer ``steps``; its streams are ours, untouched."""
    with tempfile.TemporaryDirectory(prefix="gradmatrix-trace-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        request = {"schema": SCHEMA, "audit": AUDIT, "stop_after": steps}
        (folder / "request.json").write_bytes(msgspec.json.encode(request))
        returncode = run(command, {**os.environ, **variables(folder, os.environ)})
        return conclude(command, returncode, left_in(folder), remedy_for)


def variables(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that make every Python below us look into ``inside/traced``."""
    path = [str(TRACED), *filter(None, [environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(path), "GRADMATRIX_TRACE": str(folder)}


def run(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """The exit code of ``command``, or minus the number of the signal that ended it."""
    sys.stdout.flush()
    sys.stderr.flush()
    started: list[subprocess.Popen[bytes]] = []
    with signals_meant_for(started):
        try:
            started.append(subprocess.Popen(command, env=environ))
        except OSError as error:
            raise UserError(
                f"{command[0]} cannot be started.", cause=str(error), next_step="see that it can be run by itself"
            ) from error
        return started[0].wait()


@contextmanager
def signals_meant_for(started: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Meanwhile a request to end goes to the script; an interrupt from the terminal reaches it by itself."""

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if started and number != signal.SIGINT:
            started[0].send_signal(number)

    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def left_in(folder: Path) -> Left:
    """What the processes left."""
    processes, trouble = [], []
    for path in sorted(path for path in folder.glob("*.json") if path.stem.isdecimal()):
        try:
            processes.append(msgspec.json.decode(path.read_bytes(), type=Process))
        except msgspec.DecodeError as error:
            trouble.append(f"process {path.stem}: {error}")
    trouble += sorted({path.read_text(encoding="utf-8") for path in folder.glob("*.trouble")})
    return Left(processes=tuple(processes), trouble=tuple(trouble), stopped=(folder / "enough").exists())
