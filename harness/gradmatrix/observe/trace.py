"""Watch a whole process from the import of torch to its end, for ``gradmatrix trace``.

``traced/sitecustomize.py`` calls :func:`begin` in every Python process that imports torch: the
script, and all that it or its launcher starts or forks. Processes and host share a folder, named by
the environment variable GRADMATRIX_TRACE:

  request.json   {"schema": 1, "audit": int, "stop_after": int or null}, written by the host
  PID.json       {"schema": 1, "pid": int, "rank": int or null, "observation": Observation}, from
      each process that trained or raised. It is replaced as a whole: a second after the first step,
      every ten seconds, and at the end
  PID.trouble    why a process could not be watched
  PID.rank       from each of several ranks that train together: see ``ranks.py``
  PID.drift      Diverged, from the last of them to end, if they began with equal parameters and
                 have different ones
  enough         exists once a process was stopped after "stop_after" optimizer steps
  PID.enough     a rank is about to be stopped and waits for the others
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import time
from typing import Any, Callable, Dict, Iterator, Optional

from . import machine, protocol
from .frames import of_error
from .observer import Enough, Observer
from .ranks import initialized

DELAY_S = 1.0
"""The first observation is written this late, because it takes milliseconds; a short training is
over by then."""
INTERVAL_S = 10.0
PATIENCE_S = 10.0
"""Time for the ranks that are still in the step after which all are stopped."""
RANKS = ("RANK", "LOCAL_RANK")
"""Set by launchers: torchrun and accelerate set both, Lightning only the second."""
NOTHING: Dict[str, Any] = {
    "steps": 0, "last_loss": None, "losses": (), "gradient_norms": (), "backward": (),
    "parameters": (), "lost": (), "warnings": (), "step_times_s": (), "waited_s": (),
    "observer_errors": (),
}  # fmt: skip
"""What an observer would say that saw nothing."""


class Trace:
    """One process.

    Of several ranks the first is watched. The others count steps, so that all stop at the same one.
    """

    def __init__(self, folder: str, request: Dict[str, Any]) -> None:
        self.folder = folder
        self.rank = next(
            (int(os.environ[name]) for name in RANKS if os.environ.get(name, "").isdecimal()), None
        )
        self.stop_after: Optional[int] = request["stop_after"]
        self.observer = Observer(
            audit=request["audit"],
            warmup=0,
            device="cpu",
            light=bool(self.rank),
            patient=True,
            stop_after=self.stop_after,
            folder=folder,
        )
        self.observer.leaving = self._wait_for_ranks
        self.observer.on_update = self._stepped
        self.began = time.perf_counter()
        self._next_write: Optional[float] = None
        self._ended = False
        self._script: Optional[str] = getattr(sys.modules["__main__"], "__file__", None)
        """The path of the script; None for a command such as ``python -c``."""
        self._before: Any = None
        """What had been seen in the process from which this one was forked."""

    def begin(self) -> None:
        """Watch this process and those forked from it, each to its end."""
        import multiprocessing
        from multiprocessing import util

        from torch.optim import optimizer as optim

        self.observer.__enter__()
        optim.register_optimizer_step_post_hook(self._stepped)
        atexit.register(self.end)
        machine.before_exit(self.end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)
        self._started_by_multiprocessing()
        util.register_after_fork(self, Trace._started_by_multiprocessing)
        if multiprocessing.parent_process() is not None:
            self._before = self._seen()
        if self.stop_after is not None:
            self._follow_spawned(sys.modules["torch.multiprocessing.spawn"].ProcessContext)

    def _stepped(self, *_: Any) -> None:
        """Write observations from time to time.

        Called after each step, when the observer has seen it.
        """
        now = time.monotonic()
        if self._next_write is None:
            self._next_write = now + DELAY_S
            self._ask_rank()
        elif now >= self._next_write and self.observer.steps >= self.observer.audit:
            self._next_write = now + INTERVAL_S
            self.write("step", None)

    def _ask_rank(self) -> None:
        """Find the rank if the environment does not name it, while there is a process group."""
        distributed = initialized()
        if distributed is not None and self.rank is None:
            self.rank = distributed.get_rank()

    def _wait_for_ranks(self) -> None:
        """Wait until the other ranks have made the same step.

        A rank that leaves while another still exchanges gradients with it would break that one's
        last step.
        """
        distributed = initialized()
        if distributed is None:
            return
        here = min(
            distributed.get_world_size(), int(os.environ.get("LOCAL_WORLD_SIZE", sys.maxsize))
        )
        self._guarded(lambda: open(os.path.join(self.folder, f"{os.getpid()}.enough"), "w").close())
        until = time.monotonic() + PATIENCE_S
        while (
            sum(name.endswith(".enough") for name in os.listdir(self.folder)) < here
            and time.monotonic() < until
        ):
            time.sleep(0.01)

    def _forked(self) -> None:
        """In a forked child: what has been seen so far is the parent's."""
        self._before = self._seen()
        self._next_write, self._ended = None, False

    def _seen(self) -> Any:
        return self.observer.steps, len(self.observer.backward.calls)

    def _started_by_multiprocessing(self) -> None:
        """Write the observation also in a process of multiprocessing.

        It may end without exit handlers, and its exception never reaches the interpreter.
        """
        from multiprocessing import util

        util.Finalize(None, self.end, exitpriority=100)

    def end(self) -> None:
        """Write the last observation.

        This runs at the end of the process; in a process of multiprocessing it runs while the
        exception that ends it is being handled.
        """
        if self._ended:
            return
        self._ended = True
        with self._source_known():
            self._write_last()

    @contextlib.contextmanager
    def _source_known(self) -> Iterator[None]:
        """The script's path is deleted before exit handlers run, but its source is read now."""
        main = sys.modules["__main__"]
        if self._script is None or hasattr(main, "__file__"):
            yield
            return
        main.__file__ = self._script
        try:
            yield
        finally:
            del main.__file__

    def _write_last(self) -> None:
        self._guarded(self._compare_ranks)
        error = sys.exc_info()[1] or last_exception()
        if isinstance(error, SystemExit):
            if error.code in (0, None):
                error = None
            elif isinstance(
                error.__context__, Exception
            ):  # torch's spawn prints it and exits with 1
                error = error.__context__
        if self.observer.done:
            self._guarded(lambda: open(os.path.join(self.folder, "enough"), "a").close())
            error = None  # what its cleaning up raises then is no finding
        own = self._seen() != self._before
        if (own and not self.rank) or (error is not None and (own or not any(self._before or ()))):
            self.write(
                "done"
                if error is None
                else "step"
                if self.observer.entered_training or self.observer.backward.calls
                else "setup",
                error,
            )

    def _compare_ranks(self) -> None:
        """Write for the host how ranks differ; the last one to end finds the files of all."""
        drift = self.observer.drift()
        if drift is not None:
            protocol.write(os.path.join(self.folder, f"{os.getpid()}.drift"), drift)

    def write(self, reached: str, error: Optional[BaseException]) -> None:
        """Write for the host what has been seen; of another rank only its exception."""
        self._ask_rank()
        if not self.rank or error is not None:
            self._guarded(
                lambda: tell(
                    self.folder, self.rank, observation(self.observer, reached, error, self.began)
                )
            )

    def _guarded(self, writing: Callable[[], None]) -> None:
        """Call ``writing``; if it fails, tell the host and never the script."""
        try:
            writing()
        except Exception as failure:
            with (
                contextlib.suppress(OSError),
                open(
                    os.path.join(self.folder, f"{os.getpid()}.trouble"), "w", encoding="utf-8"
                ) as file,
            ):
                file.write(f"{type(failure).__name__}: {failure}")

    def _follow_spawned(self, context: Any) -> None:
        """Stop this process too when the processes it waits for were stopped."""
        context.join = following(context.join, os.path.join(self.folder, "enough"))


def following(join: Callable[..., bool], enough: str) -> Callable[..., bool]:
    """A wait for other processes that ends this one too if they end and the file ``enough`` exists.

    It would wait for their results otherwise. A process that fails then has lost one that was
    stopped.
    """

    def joined(*args: Any, **kwargs: Any) -> bool:
        try:
            done = join(*args, **kwargs)
        except Exception:
            if os.path.exists(enough):
                raise Enough from None
            raise
        if done and os.path.exists(enough):
            raise Enough
        return done

    return joined


def begin(folder: str) -> None:
    """Start watching: torch has been imported."""
    Trace(folder, protocol.read(os.path.join(folder, "request.json"))).begin()


def ended_early(folder: str) -> None:
    """Write the exception of a script that failed before it imported torch.

    Torch is not imported here: the interpreter is ending, and torch would complain about that.
    """
    error = last_exception()
    if error is not None:
        tell(folder, None, observation(None, "import", error, time.perf_counter()))


def last_exception() -> Optional[BaseException]:
    """The exception that ended the script.

    The interpreter keeps it for debuggers when it prints the traceback.
    """
    error: Optional[BaseException] = getattr(sys, "last_exc", None) or getattr(
        sys, "last_value", None
    )
    return error


def observation(
    observer: Optional[Observer], reached: str, error: Optional[BaseException], began: float
) -> Dict[str, Any]:
    """The observation of a process so far; without an observer it never imported torch."""
    facts = {**NOTHING} if observer is None else observer.facts()
    cuda = machine.peak_cuda_memory_bytes() if "torch" in sys.modules else None
    return {
        "schema": protocol.SCHEMA,
        "reached": reached,
        "skipped": None,
        "no_device": False,
        "raised": None if error is None else described(error),
        **facts,
        **({} if error is None or observer is None else observer.of_error(error)),
        "peak_memory_bytes": machine.peak_memory_bytes() if cuda is None else cuda,
        "start_memory_bytes": None,
        "wall_s": time.perf_counter() - began,
        **machine.facts(),
    }


def described(error: BaseException) -> Dict[str, Any]:
    """The exception as it stands in an observation."""
    from .cell import describe  # it imports what most scripts do without

    return {**describe(error), "frames": of_error(error)}


def tell(folder: str, rank: Optional[int], seen: Dict[str, Any]) -> None:
    """Write this process's observation for the host in one step, in place of an earlier one.

    Unlike ``protocol.write`` this does not wait for the disk, because the script would wait too.
    """
    message = {"schema": protocol.SCHEMA, "pid": os.getpid(), "rank": rank, "observation": seen}
    path = os.path.join(folder, f"{os.getpid()}.json")
    with open(path + ".partial", "w", encoding="utf-8", errors="replace") as file:
        file.write(json.dumps(message, allow_nan=False, ensure_ascii=False))
    os.replace(path + ".partial", path)
