"""Run scripts as ``gradmatrix trace`` does, each in a fork of one process that has imported torch.

``python forked.py OBSERVE FOLDER SCRIPT...`` leaves in ``FOLDER/STEM`` of each script what a trace
leaves, with the exit code in ``code`` and what it printed in ``output``.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
import types
from typing import Any


def main(observe: str, folder: str, scripts: list[str]) -> None:
    """Run all of them, one after the other."""
    spec: Any = importlib.util.spec_from_file_location(
        "gradmatrix_observe",
        os.path.join(observe, "__init__.py"),
        submodule_search_locations=[observe],
    )
    sys.modules["gradmatrix_observe"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["gradmatrix_observe"])
    importlib.import_module("torch")
    if importlib.util.find_spec("torch.compiler"):  # there an optimizer takes seconds to import it
        importlib.import_module("torch._dynamo")
    for script in scripts:
        child = os.fork()
        if not child:
            run(script, os.path.join(folder, os.path.basename(script)[:-3]))
        _, status = os.waitpid(child, 0)
        name = os.path.join(folder, os.path.basename(script)[:-3], "code")
        with open(name, "w", encoding="utf-8") as file:
            file.write(str(-(status & 0x7F) or status >> 8))


def run(script: str, folder: str) -> None:
    """Run ``script`` under the trace to the end of this process."""
    os.chdir(folder)
    output = os.open("output", os.O_CREAT | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    trace: Any = importlib.import_module("gradmatrix_observe.trace")
    os.environ["GRADMATRIX_TRACE"] = folder
    os.environ["PYTHONPATH"] = os.path.join(os.path.dirname(trace.__file__), "traced")
    sys.argv = [script]
    sys.path[0] = os.path.dirname(script)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = script
    with open(script, "rb") as file:
        code = compile(file.read(), script, "exec")
    trace.begin(folder)
    try:
        exec(code, main.__dict__)  # noqa: S102  (to run it is the task)
        status = 0
    except BaseException as error:
        sys.last_value = error
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
