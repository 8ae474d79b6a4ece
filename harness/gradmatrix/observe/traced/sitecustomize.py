# ruff: noqa: INP001  (a folder on PYTHONPATH, no package)
"""Python imports this module when it starts: ``gradmatrix trace`` puts its folder on PYTHONPATH.

It steps aside at once. The folder leaves ``sys.path``, the environment's own sitecustomize runs,
and only a finder stays that waits for the import of torch. Processes that a launcher starts inherit
PYTHONPATH and are watched too.
"""

import atexit
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from typing import Any, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.environ.get("GRADMATRIX_TRACE", "")
"""The folder in which the host waits for observations."""


class UntilTorch:
    """A finder that starts the watching when torch is imported.

    It returns the answer of the other finders for torch, and nothing for any other module.
    """

    began = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec of torch, whose loader then starts the watching."""
        if name != "torch" or self.began:
            return None
        for finder in [finder for finder in sys.meta_path if finder is not self]:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                self.follow(spec)
                return spec
        return None

    def follow(self, spec: Any) -> None:
        """Let the loader of ``spec`` begin the trace when the module is complete."""
        load = getattr(spec.loader, "exec_module", None)

        def exec_module(module: Any) -> None:
            assert load is not None
            load(module)
            if not self.began:
                self.began = True
                inside("begin")

        if load is not None:
            spec.loader.exec_module = exec_module

    def at_exit(self) -> None:
        """Report a script that failed before it imported torch."""
        if not self.began and getattr(sys, "last_value", None) is not None:
            inside("ended_early")


def inside(function: str) -> None:
    """Call a function of ``trace.py``.

    If it fails, that is noted for the host and the script goes on.
    """
    try:
        if "gradmatrix_observe" not in sys.modules:  # a package of its own name, off sys.path
            parent = os.path.dirname(HERE)
            spec = importlib.util.spec_from_file_location(
                "gradmatrix_observe",
                os.path.join(parent, "__init__.py"),
                submodule_search_locations=[parent],
            )
            assert spec is not None
            assert spec.loader is not None
            sys.modules["gradmatrix_observe"] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules["gradmatrix_observe"])
        getattr(importlib.import_module("gradmatrix_observe.trace"), function)(FOLDER)
    except Exception as error:
        try:
            with open(
                os.path.join(FOLDER, f"{os.getpid()}.trouble"), "w", encoding="utf-8"
            ) as file:
                file.write(f"{type(error).__name__}: {error}")
        except OSError:
            pass


def step_aside() -> Optional[importlib.machinery.ModuleSpec]:
    """Remove this folder from ``sys.path``.

    Returns the spec of the sitecustomize that it had hidden.
    """
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != HERE]
    sys.path_importer_cache.pop(HERE, None)
    return importlib.machinery.PathFinder.find_spec("sitecustomize")


hidden = step_aside()
if FOLDER:
    until_torch = UntilTorch()
    sys.meta_path.insert(0, until_torch)
    atexit.register(until_torch.at_exit)
if hidden is not None and hidden.loader is not None:
    sys.modules["sitecustomize"] = importlib.util.module_from_spec(hidden)
    hidden.loader.exec_module(sys.modules["sitecustomize"])
