"""Run one cell in this process: limits, output to a file, the script under the observer, one observation."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import time
import traceback
import unittest
from typing import IO, TYPE_CHECKING, Any, Callable, Dict, List, Optional, Set

from . import machine, protocol, script
from .observer import Observer
from .paced import Pacer

if TYPE_CHECKING:
    from types import ModuleType

HERE = os.path.dirname(os.path.abspath(__file__))
MESSAGE_LIMIT = 2000
TRACEBACK_LIMIT = 8000


def load(path: str) -> ModuleType:
    """The module of the scenario in ``path``, imported once per process."""
    digest = hashlib.sha256(os.path.abspath(path).encode()).hexdigest()[:8]
    name = f"{os.path.splitext(os.path.basename(path))[0]}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python script")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def run(request: Dict[str, Any], events: IO[str]) -> None:
    """Run the requested variant and write ``observation.json`` into its directory; a paced one tells ``events``."""
    began = time.perf_counter()
    known, paths = set(sys.modules), list(sys.path)
    own = request.get("arguments") is not None
    total = request["audit"] + request["warmup"] + request["timed"]
    machine.own_process_group()
    directory = request["directory"]
    os.chdir(directory)
    commands = os.dup(0) if request.get("paced") else None
    machine.redirect_output("output.txt")
    machine.reset_peak_memory()
    start_memory_bytes = machine.peak_memory_bytes()
    outcome: Dict[str, Any] = {"reached": "import", "skipped": None, "no_device": False, "raised": None}
    observer = Observer(
        audit=request["audit"],
        warmup=request["warmup"],
        device=request["device"],
        light=not request.get("observe", True),
        stop_after=total if own else None,
    )
    if commands is not None:
        Pacer(observer, events, commands, request["device"], lambda: tell_imported(directory, known, paths))
    machine.limit_memory(request["memory_bytes"])
    try:
        run_script = prepared(request, total)
        outcome["reached"] = "setup"
        if request["device"] == "cuda" and not machine.has_cuda():
            outcome["no_device"] = True
        else:
            with observer:
                run_script()
            outcome["reached"] = "done"
    except unittest.SkipTest as reason:
        outcome["skipped"] = str(reason)
    except BaseException as error:  # SystemExit and KeyboardInterrupt end a script too
        if own and (observer.steps >= total or script.exits_well(error)):
            outcome["reached"] = "done"  # it was stopped, and what its cleaning up raised then is no finding
        else:
            outcome["raised"] = describe(error)
            if outcome["reached"] == "setup" and observer.entered_training:
                outcome["reached"] = "step"
    machine.limit_memory(None)
    tell_imported(directory, known, paths)
    peak = machine.peak_memory_bytes() if request["device"] == "cpu" else machine.peak_cuda_memory_bytes()
    protocol.write(
        os.path.join(directory, "observation.json"),
        {
            "schema": protocol.SCHEMA,
            **outcome,
            **observer.facts(),
            "peak_memory_bytes": peak,
            "start_memory_bytes": start_memory_bytes if request["device"] == "cpu" else 0,
            "wall_s": time.perf_counter() - began,
            **machine.facts(),
        },
    )


def prepared(request: Dict[str, Any], total: int) -> Callable[[], None]:
    """What runs the requested variant of a scenario, which was imported now at the latest, or a user's own script."""
    if request.get("arguments") is None:
        module = load(request["script"])
        return lambda: module.train(request["variant"], request["device"], total)
    if request["device"] == "cpu":
        script.hide_cuda()
    os.chdir(request.get("working_directory") or request["directory"])
    return script.program(request["script"], request["arguments"])


def tell_imported(directory: str, known: Set[str], paths: List[str]) -> None:
    """Write which modules of the environment have been imported beside the ``known`` ones."""
    late = script.of_environment([name for name in sys.modules if name not in known], paths)
    protocol.write(os.path.join(directory, "imported.json"), {"schema": protocol.SCHEMA, "modules": late})


def imported(directory: str) -> List[str]:
    """The modules that the cell of ``directory`` had to import by itself; none where it did not live to say."""
    try:
        modules: List[str] = protocol.read(os.path.join(directory, "imported.json"))["modules"]
    except (OSError, ValueError):
        return []
    return modules


def leave_out_ours(shown: traceback.TracebackException) -> None:
    """Take the frames of this package out of a traceback and of those it is chained to."""
    chain: List[Optional[traceback.TracebackException]] = [shown]
    while chain:
        each = chain.pop()
        if each is not None:
            kept = [frame for frame in each.stack if not frame.filename.startswith(HERE)]
            each.stack = traceback.StackSummary.from_list(kept or list(each.stack))
            chain += [each.__cause__, each.__context__]


def describe(error: BaseException) -> Dict[str, str]:
    """Type, message and traceback of ``error`` (without the frames of this package), cut to size."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        shown = traceback.TracebackException(kind, error, error.__traceback__)
        leave_out_ours(shown)
        text = "".join(shown.format())
    except Exception as failure:
        text = f"its traceback cannot be shown: {failure!r}"
    if len(text) > TRACEBACK_LIMIT:
        text = text[: TRACEBACK_LIMIT // 4] + "\n  [cut]\n" + text[-3 * TRACEBACK_LIMIT // 4 :]
    try:
        message = str(error.code) if isinstance(error, SystemExit) else str(error)
    except Exception as failure:
        message = f"its message cannot be shown: {failure!r}"
    return {
        "type": name,
        "message": machine.without_local_paths(message)[:MESSAGE_LIMIT],
        "traceback": machine.without_local_paths(text),
    }
