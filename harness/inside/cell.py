"""Run one cell in this process: limits, output to a file, the script under the observer, one observation."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import time
import traceback
import unittest
from typing import TYPE_CHECKING, Any, Dict, List

from . import machine, protocol
from .observer import Observer

if TYPE_CHECKING:
    from types import ModuleType

HERE = os.path.dirname(os.path.abspath(__file__))
MESSAGE_LIMIT = 2000
TRACEBACK_LIMIT = 8000


def load(script: str) -> ModuleType:
    """The module of ``script``, imported once per process."""
    digest = hashlib.sha256(os.path.abspath(script).encode()).hexdigest()[:8]
    name = f"{os.path.splitext(os.path.basename(script))[0]}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, script)
    if spec is None or spec.loader is None:
        raise ImportError(f"{script} is no Python script")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def run(request: Dict[str, Any]) -> None:
    """Run the requested variant and write ``observation.json`` into its directory."""
    began = time.perf_counter()
    known = set(sys.modules)
    machine.own_process_group()
    directory = request["directory"]
    os.chdir(directory)
    machine.redirect_output("output.txt")
    machine.reset_peak_memory()
    start_memory_bytes = machine.peak_memory_bytes()
    outcome: Dict[str, Any] = {"reached": "import", "skipped": None, "no_device": False, "raised": None}
    observer = Observer(
        audit=request["audit"],
        warmup=request["warmup"],
        device=request["device"],
        light=not request.get("observe", True),
    )
    machine.limit_memory(request["memory_bytes"])
    try:
        module = load(request["script"])
        outcome["reached"] = "setup"
        if request["device"] == "cuda" and not machine.has_cuda():
            outcome["no_device"] = True
        else:
            with observer:
                module.train(
                    request["variant"], request["device"], request["audit"] + request["warmup"] + request["timed"]
                )
            outcome["reached"] = "done"
    except unittest.SkipTest as reason:
        outcome["skipped"] = str(reason)
    except BaseException as error:  # SystemExit and KeyboardInterrupt end a script too
        outcome["raised"] = describe(error)
        if outcome["reached"] == "setup" and observer.entered_training:
            outcome["reached"] = "step"
    machine.limit_memory(None)
    protocol.write(
        os.path.join(directory, "imported.json"),
        {"schema": protocol.SCHEMA, "modules": [name for name in sys.modules if name not in known]},
    )
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


def imported(directory: str) -> List[str]:
    """The modules that the cell of ``directory`` had to import by itself; none where it did not live to say."""
    try:
        modules: List[str] = protocol.read(os.path.join(directory, "imported.json"))["modules"]
    except (OSError, ValueError):
        return []
    return modules


def describe(error: BaseException) -> Dict[str, str]:
    """Type, message and traceback of ``error`` (without the frames of this package), cut to size."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None and frame.tb_frame.f_code.co_filename.startswith(HERE):
        frame = frame.tb_next
    try:
        text = "".join(traceback.format_exception(kind, error, frame))
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
