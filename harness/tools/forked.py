"""Run scripts of one kind, each in a fork of a process that has imported what they import.

``forked.py NAME MODE=FOLDER ...`` runs ``FOLDER/NAME`` for each folder. The mode is ``plain``, or
``anomaly`` for ``torch.autograd.set_detect_anomaly``. The files ``stdout``, ``stderr`` and
``exit_code`` in the folder have what the script left. It runs in the environment of the scripts.
"""

import ast
import os
import runpy
import sys
from importlib import import_module
from pathlib import Path

import torch


def import_as(script: Path) -> None:
    """Import what a script imports at its top."""
    for node in ast.parse(script.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            for each in node.names:
                import_module(each.name)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            module = import_module(node.module)
            for each in node.names:  # some packages import a name when it is asked for
                getattr(module, each.name, None)


def run(script: Path, mode: str) -> None:
    """Run a script in its folder. Its errors are those of this process."""
    os.chdir(script.parent)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
    sys.argv = [str(script)]
    sys.path[0] = str(script.parent)
    torch.autograd.set_detect_anomaly(mode == "anomaly")
    runpy.run_path(str(script), run_name="__main__")


def main(name: str, *wanted: str) -> None:
    """Run every script; a fork ends where its script ends."""
    runs = [(mode, Path(folder)) for mode, _, folder in (each.partition("=") for each in wanted)]
    import_as(runs[0][1] / name)
    for mode, folder in runs:
        pid = os.fork()
        if pid == 0:
            return run(folder / name, mode)
        ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        (folder / "exit_code").write_text(str(ended), encoding="utf-8")
    return None


main(*sys.argv[1:])
