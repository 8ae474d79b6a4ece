"""The file protocol between the host and the tested environment.

The host starts ``python server.py START.json`` and writes one line of JSON for each cell to its
standard input. The server answers with events, one line of JSON each, on its original standard
output. No library ever sees that stream: file descriptor 1 goes to the log before anything is
imported.

  START.json    {"schema": 1, "scripts": [path, ...], "ahead": [path, ...], "fork": bool,
                 "log": path}
  request line  {"schema": 1, "script": path, "variant": str, "device": "cpu" | "cuda",
                 "audit": int, "warmup": int, "timed": int, "directory": path,
                 "memory_bytes": int or null, "observe": bool, "arguments": null or [str, ...],
                 "working_directory": path or null, "paced": bool}
  import line   {"schema": 1, "modules": [str, ...]}: import what a cell of another server had to
                 import itself
  block line    {"steps": int}, to the running cell; 0 ends it
  events        {"event": "ready", "import_s": float,
                 "imports": {script: null | {"type", "message", "traceback"}},
                 "threads": int, "cuda_initialized": bool}
                {"event": "started", "pid": int}
                {"event": "imported"}, the answer to an import line
                {"event": "block", "step_times_s": [float, ...], "peak_memory_bytes": int or null}
                {"event": "ended", "pid": int, "signal": int or null, "exit": int or null,
                 "wall_s": float, "import_s": float, "threads": int, "cuda_initialized": bool}

START.json: the server imports the scripts in "scripts". Those in "ahead" are users' own scripts,
which would run when imported; of these it imports only the libraries that they name.

A request with "arguments" is for a user's own script. It runs as ``__main__`` in its working
directory (if that is null, in the cell's directory) and is stopped after the last timed optimizer
step.

A "paced" cell waits after its first optimizer step, which is its first block and has no times.
After that it runs as many steps as each block line says. It looks at no gradients. While it lives,
the server reads nothing.

The directory of a cell receives ``observation.json`` and ``output.txt``. The first is written whole
or not at all, and has the shape of ``gradmatrix.core.observation.Observation``. The second is what
the script printed. A missing observation is evidence too: the process died, and the ``ended`` event
says how. ``imported.json`` lists the modules that the cell had to import itself; the server imports
them before its next fork ("import_s" of the ``ended`` event). Ranks that the script forks leave
``PID.rank``: see ``ranks.py``.

If "fork" is false, the server runs the one requested cell in its own process and exits. Its
``started`` event then has its own pid.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, Dict, Optional, Union

SCHEMA = 1


def read(path: str) -> Dict[str, Any]:
    """The JSON object in ``path``.

    Raises:
        ValueError: if it has another schema version.
    """
    with open(path, encoding="utf-8") as file:
        message: Dict[str, Any] = json.load(file)
    return checked(message)


def checked(message: Dict[str, Any]) -> Dict[str, Any]:
    """``message`` itself.

    Raises:
        ValueError: if it has another schema version.
    """
    if message.get("schema") != SCHEMA:
        raise ValueError(
            f"this side speaks schema {SCHEMA}, the message has {message.get('schema')!r}"
        )
    return message


def write(path: str, message: Dict[str, Any]) -> None:
    """Write ``message`` to ``path`` atomically: a reader sees all of it or no file.

    A script's exception may contain half a surrogate pair, which JSON does not allow. It becomes a
    question mark.
    """
    with open(path + ".partial", "w", encoding="utf-8", errors="replace") as file:
        json.dump(message, file, allow_nan=False, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".partial", path)


def number(value: Optional[float]) -> Union[float, str, None]:
    """``value`` as JSON can carry it: "nan", "inf" or "-inf" if it is not finite."""
    if value is None or math.isfinite(value):
        return value
    return repr(value)
