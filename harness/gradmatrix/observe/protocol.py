"""The file protocol between the two worlds.

The host starts ``python server.py START.json`` and writes one line of JSON per cell to its standard input; the
server answers with events, one line of JSON each, on its original standard output (which no library ever
sees: file descriptor 1 is sent to the log before anything is imported).

START.json    {"schema": 1, "scripts": [path, ...], "ahead": [path, ...], "fork": bool, "log": path}
request line  {"schema": 1, "script": path, "variant": str, "device": "cpu" | "cuda", "audit": int, "warmup": int,
               "timed": int, "directory": path, "memory_bytes": int or null, "observe": bool,
               "arguments": null or [str, ...], "working_directory": path or null, "paced": bool}
import line   {"schema": 1, "modules": [str, ...]}: import what the cell of another server had to import by itself
block line    {"steps": int}, to the running cell; 0 ends it
events        {"event": "ready", "import_s": float, "imports": {script: null | {"type", "message", "traceback"}},
               "threads": int, "cuda_initialized": bool}
              {"event": "started", "pid": int}
              {"event": "imported"}, the answer to an import line
              {"event": "block", "step_times_s": [float, ...], "peak_memory_bytes": int or null}
              {"event": "ended", "pid": int, "signal": int or null, "exit": int or null, "wall_s": float,
               "import_s": float, "threads": int, "cuda_initialized": bool}

The scripts of START.json are imported; those "ahead" are users' own, which run when they are imported: the server
imports only the libraries that they name. A request with "arguments" is for such a script: it is run as ``__main__``
in its working directory (the cell's where that is null), and stopped after the last timed optimizer step.

A cell that is "paced" waits after its first optimizer step, which is its first block (without times), and from then on
runs as many steps as each block line says. It looks at no gradient. While it lives, the server reads nothing.

A cell's directory receives ``observation.json`` (written whole or not at all; its shape is
``harness.model.Observation``) and ``output.txt`` (what the script printed). No observation is evidence too: the
process died, and the ``ended`` event says how. ``imported.json`` lists the modules that the cell had to
import by itself; the server imports them before its next fork ("import_s" of the ``ended`` event).

With "fork" false the server runs the one cell that it is asked for in its own process and exits; then
there is no ``started`` event beyond its own pid.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, Dict, Optional, Union

SCHEMA = 1


def read(path: str) -> Dict[str, Any]:
    """The JSON object in ``path``; ValueError where it is of another schema version."""
    with open(path, encoding="utf-8") as file:
        message: Dict[str, Any] = json.load(file)
    return checked(message)


def checked(message: Dict[str, Any]) -> Dict[str, Any]:
    """``message`` itself; ValueError where it is of another schema version."""
    if message.get("schema") != SCHEMA:
        raise ValueError(
            f"this side speaks schema {SCHEMA}, the message has {message.get('schema')!r}"
        )
    return message


def write(path: str, message: Dict[str, Any]) -> None:
    """Write ``message`` to ``path`` atomically: a reader sees all of it or no file.

    Half a surrogate pair, which a script's exception may hold and JSON may not, becomes a question mark.
    """
    with open(path + ".partial", "w", encoding="utf-8", errors="replace") as file:
        json.dump(message, file, allow_nan=False, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".partial", path)


def number(value: Optional[float]) -> Union[float, str, None]:
    """``value`` as JSON can carry it: non-finite ones by name ("nan", "inf", "-inf")."""
    if value is None or math.isfinite(value):
        return value
    return repr(value)
