"""Import a stack's libraries once, then fork a child per cell.

Run as a script; see ``protocol.py``.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import sys
import threading
import time
import traceback
from typing import IO, Any, Dict, List, Optional, Set

# Started by its path: make this folder a package with its own name that is not on sys.path.
if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.util.spec_from_file_location(
        "gradmatrix_observe", os.path.join(here, "__init__.py"), submodule_search_locations=[here]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["gradmatrix_observe"] = package
    spec.loader.exec_module(package)
    __package__ = "gradmatrix_observe"

from . import cell, protocol

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
OUR_FAULT = 70
"""EX_SOFTWARE: our code failed, not the script."""
KILL = 9  # signal.SIGKILL, which Windows does not have


def main(start_path: str) -> None:
    """Serve the requests on standard input until it is closed."""
    start = protocol.read(start_path)
    events = take_stdout(start["log"])
    die_with_parent()
    process_control(PR_SET_CHILD_SUBREAPER, 1)
    began = time.perf_counter()
    imports = {path: import_script(path) for path in start["scripts"]}
    for path in start["ahead"]:
        import_quietly(libraries(path))
    emit(
        events,
        event="ready",
        import_s=time.perf_counter() - began,
        imports=imports,
        **state(),
    )
    # A child's garbage collector then ignores the libraries' objects: no page is copied.
    gc.freeze()
    spared = children() if sys.platform == "linux" else set()
    for line in sys.stdin:
        request = protocol.checked(json.loads(line))
        if "modules" in request:
            import_late(request["modules"])
            emit(events, event="imported")
            continue
        if not start["fork"]:
            emit(events, event="started", pid=os.getpid())
            began = time.perf_counter()
            code = run_cell(request, events)
            if code:
                leave(code)
            wall_s = time.perf_counter() - began
            emit(
                events,
                event="ended",
                pid=os.getpid(),
                signal=None,
                exit=0,
                wall_s=wall_s,
                import_s=0.0,
                **state(),
            )
            leave(0)
        serve(request, events, spared)


def serve(request: Dict[str, Any], events: IO[str], spared: Set[int]) -> None:
    """Fork a child for one cell and report how it ended."""
    began = time.perf_counter()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        if not request.get("paced"):
            events.close()
        die_with_parent()
        leave(run_cell(request, events))
    emit(events, event="started", pid=pid)
    _, status = os.waitpid(pid, 0)
    wall_s = time.perf_counter() - began
    end_adopted(spared)
    began = time.perf_counter()
    import_ahead(request["directory"])
    emit(
        events,
        event="ended",
        pid=pid,
        signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        exit=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        wall_s=wall_s,
        import_s=time.perf_counter() - began,
        **state(),
    )


def run_cell(request: Dict[str, Any], events: IO[str]) -> int:
    """Run a cell in this process; returns the exit code of the process."""
    try:
        cell.run(request, events)
    except BaseException:  # those of the script are in the observation
        traceback.print_exc()
        return OUR_FAULT
    return 0


def end_adopted(spared: Set[int]) -> None:
    """Kill processes that a cell left running outside its process group.

    On Linux this process is their subreaper and becomes their parent. ``spared`` are the processes
    that libraries started when they were imported.
    """
    if sys.platform != "linux":
        return
    while adopted := children() - spared:
        for child in adopted:
            with contextlib.suppress(OSError):
                os.kill(child, KILL)
                os.waitpid(child, 0)


def children() -> Set[int]:
    """The processes whose parent is this one (Linux).

    If there is none, the result is empty and no other process is looked at.
    """
    found: Set[int] = set()
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return found
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with (
            contextlib.suppress(OSError, IndexError),
            open(f"/proc/{entry}/stat", encoding="utf-8") as file,
        ):
            if int(file.read().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(entry))
    return found


def import_ahead(directory: str) -> None:
    """Import what the last child had to import itself, so that the next one finds it here.

    Much is imported late: torch._dynamo at the first optimizer, a model's code at its first use.
    """
    import_late(cell.imported(directory))


def import_late(names: List[str]) -> None:
    """Import those of ``names`` that are not imported yet."""
    late = [name for name in names if name not in sys.modules]
    import_quietly(late)
    if late:
        gc.freeze()


def libraries(path: str) -> List[str]:
    """The libraries that a user's own script imports.

    None if the script cannot be read; its cell will report that.
    """
    try:
        return cell.libraries(path)
    except (OSError, SyntaxError, ValueError):  # ValueError: a null byte
        return []


def import_quietly(names: List[str]) -> None:
    """Import what can be imported. The child reports the rest."""
    for name in names:
        with contextlib.suppress(BaseException):
            importlib.import_module(name)


def leave(code: int) -> None:
    """End this process at once, without waiting for the libraries' threads and exit handlers."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the script may have closed it
            stream.flush()
    os._exit(code)


def take_stdout(log: str) -> IO[str]:
    """Keep the host's pipe under a private descriptor.

    Everything that is printed goes to ``log``.
    """
    events = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    return events


def emit(events: IO[str], **event: Any) -> None:
    """Send one event to the host."""
    events.write(json.dumps(event, ensure_ascii=False) + "\n")
    events.flush()


def import_script(path: str) -> Optional[Dict[str, str]]:
    """Import the scenario in ``path`` and keep it for the children.

    Returns the exception if it fails.
    """
    try:
        cell.load(path)
    except BaseException as error:  # SystemExit in a library's import is a finding too
        return cell.describe(error)
    return None


def state() -> Dict[str, Any]:
    """What decides whether a fork is safe: threads of this process, and whether CUDA is open."""
    torch = sys.modules.get("torch")
    return {
        "threads": native_threads(),
        "cuda_initialized": bool(torch is not None and torch.cuda.is_initialized()),
    }


def native_threads() -> int:
    """The number of this process's threads as the kernel counts them.

    1 means that a fork is safe.
    """
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()


def die_with_parent() -> None:
    """Ask Linux to kill this process when its parent dies: no cell outlives a killed run."""
    process_control(PR_SET_PDEATHSIG, KILL)


def process_control(option: int, value: int) -> None:
    """Linux's prctl; does nothing on other systems."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value)


if __name__ == "__main__":
    main(sys.argv[1])
