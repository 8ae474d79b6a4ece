"""Install the next stack while the cells of this one run.

A process of its own installs it. It goes on only while a server imports its libraries, and is
stopped while cells run: no step is timed beside it. Nothing depends on it. When the turn of the
stack comes, the run waits for this process and then installs the stack as always, which finds what
is there. So what failed is tried again then, and reported then.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from gradmatrix.run.plan import Action
from gradmatrix.stacks import environment
from gradmatrix.stacks import lock as locks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gradmatrix.core.model import Stack
    from gradmatrix.run.plan import Selection
    from gradmatrix.run.project import Project
    from gradmatrix.run.stack import Progress, StackRun

PACKAGES = str(Path(__file__).resolve().parents[2])
"""The folder that ``gradmatrix`` is imported from."""
START = (
    f"import sys; sys.path.insert(0, {PACKAGES!r}); from gradmatrix.run import ahead; "
    "ahead.main(*sys.argv[1:])"
)
INSTALLED = "installed"
"""What the process says last if it installed the stack."""
RESERVED_BYTES = environment.GIB
"""Disk space that is left to the cells that run."""
PR_SET_PDEATHSIG = 1


@dataclass
class Ahead:
    """At most one install, of the stack that comes next. As a context manager it ends with it."""

    next_install: Callable[[str], Sequence[str] | None] = lambda _: None
    """The command that installs what comes after a stack; None if there is nothing to install."""
    _process: subprocess.Popen[str] | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def group(self) -> int | None:
        """The group of its processes; None if nothing is installed."""
        return None if self._process is None else self._process.pid

    def begin(self, after: str) -> None:
        """Start to install what comes after this stack; it is stopped until :meth:`running`.

        Windows cannot stop a process, so nothing is installed ahead there.
        """
        command = None
        if hasattr(os, "killpg"):
            with contextlib.suppress(Exception):  # it is reported at the turn of that stack
                command = self.next_install(after)
        if command is not None:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # it sees the end of this process
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
                process_group=0,
            )
            self._send("SIGSTOP")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the install go on for a while."""
        self._send("SIGCONT")
        try:
            yield
        finally:
            self._send("SIGSTOP")

    def finish(self, stage: Callable[[str], object]) -> bool:
        """Wait for the end of the install; whether it installed the stack.

        Args:
            stage: called with each line about what is downloaded and installed
        """
        said = ""
        if self._process is not None:
            self._send("SIGCONT")
            assert self._process.stdout is not None
            for line in self._process.stdout:
                said = line.strip()
                if said != INSTALLED:
                    stage(said)
        self.close()
        return said == INSTALLED

    def close(self) -> None:
        """End the install with all its processes."""
        if self._process is not None:
            self._send("SIGKILL")
            with self._process:
                self._process = None

    def _send(self, name: str) -> None:
        if self.group is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, getattr(signal, name))


def next_install(
    project: Project,
    stacks: Sequence[Stack],
    selection: Selection,
    progress: Progress,
    after: str,
) -> list[str] | None:
    """The command that installs the next of ``stacks`` that has cells to run, if any needs it.

    A stack without a lock is resolved at its turn, and nothing behind it is installed before.
    """
    names = [stack.name for stack in stacks]
    for stack in stacks[names.index(after) + 1 :]:
        if project.current_lock(stack) is None:
            return None
        run = project.stack_run(stack, progress)
        cells = run.plan(selection) if run.lock.failure is None else []
        if any(cell.action is Action.RUN for cell in cells):
            return command(run)
    return None


def command(run: StackRun) -> list[str] | None:
    """The command that installs the stack of ``run``; None if it is installed.

    The build of torch is chosen here: a question to its index that is stopped would time out.
    """
    choice = environment.due(run.lock, run.locks, run.environments)
    if choice is None:
        return None
    chosen = msgspec.json.encode(choice).decode()
    places = str(run.locks), str(run.environments)
    return [sys.executable, "-P", "-c", START, run.stack.name, *places, chosen]


def main(stack: str, locks_folder: str, environments: str, choice: str) -> None:
    """Install a stack, unless another process uses its environment: what the process does."""
    end_with_the_run()
    lock, root = locks.load(stack, Path(locks_folder)), Path(environments)
    assert lock is not None
    with environment.in_use(root, stack, give_up):
        made = environment.ensure(
            lock,
            Path(locks_folder),
            root,
            partial(say, "waiting for another stack to be installed"),
            progress=say,
            choose=lambda _: msgspec.json.decode(choice, type=environment.BuildChoice),
            free_bytes=lambda path: shutil.disk_usage(path).free - RESERVED_BYTES,
        )
    if made.installed:
        say(INSTALLED)


def give_up() -> None:
    """Leave the stack to the process that uses it."""
    raise BlockingIOError("another process uses the environment")


def say(text: str) -> None:
    """Tell the run."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def end_with_the_run() -> None:
    """Kill this process and uv when the run ends, however it ends.

    Its end closes the pipe. A process that is stopped does not see that, so Linux continues it.
    """

    def watch() -> None:
        os.read(0, 1)
        os.killpg(0, signal.SIGKILL)

    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGCONT)
    threading.Thread(target=watch, daemon=True).start()
