"""A user's own script, unmodified: run as ``python path arguments`` would run it, in a process that is no new one."""

from __future__ import annotations

import ast
import contextlib
import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any, Callable, Dict, List, Sequence, Set

STANDARD = frozenset(getattr(sys, "stdlib_module_names", sys.builtin_module_names))  # Python 3.9 has only the second


def program(path: str, arguments: Sequence[str]) -> Callable[[], None]:
    """The compiled script, ready to run as ``__main__``; SyntaxError where it is none."""
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)

    def run() -> None:
        exec(code, become_main(path, arguments).__dict__)  # noqa: S102  (the very script that this cell is about)

    return run


def become_main(path: str, arguments: Sequence[str]) -> ModuleType:
    """Give this process the ``__main__``, the arguments and the module search path that the script would find."""
    folder = os.path.dirname(os.path.realpath(path))
    main = ModuleType("__main__")
    main.__file__ = path
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    main.__builtins__ = sys.modules["builtins"]  # type: ignore[attr-defined]
    sys.modules["__main__"] = main
    sys.argv = [path, *arguments]
    sys.path.insert(0, folder)
    forget_shadowed(folder)
    return main


def forget_shadowed(folder: str) -> None:
    """Forget modules imported ahead that the script's own folder shadows: ``import x`` is to find its ``x.py``."""
    own = own_modules(folder) - STANDARD
    for name in [name for name in sys.modules if name.partition(".")[0] in own]:
        del sys.modules[name]


def own_modules(folder: str) -> Set[str]:
    """The names under which what lies in ``folder`` can be imported before anything else."""
    finder = importlib.machinery.FileFinder(
        folder,
        (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES),
        (importlib.machinery.SourceFileLoader, importlib.machinery.SOURCE_SUFFIXES),
    )
    names = {entry.partition(".")[0] for entry in os.listdir(folder)}
    specs = {name: finder.find_spec(name) for name in names if name.isidentifier()}
    return {name for name, spec in specs.items() if spec is not None and spec.loader is not None}


def exits_well(error: BaseException) -> bool:
    """Whether the script ended itself with exit code 0."""
    return isinstance(error, SystemExit) and (error.code is None or error.code == 0)


def hide_cuda() -> None:
    """Let the script find no CUDA device; in time before CUDA is opened, which no process does before it forks."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""


def libraries(path: str) -> List[str]:
    """The modules that the script imports by name, anywhere in it, from the environment and not from its own folder."""
    with open(path, "rb") as file:
        tree = ast.parse(file.read())
    found: Dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(dict.fromkeys(alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found[node.module] = None
    own = own_modules(os.path.dirname(os.path.realpath(path)))
    return [name for name in found if name.partition(".")[0] not in own and exists(name.partition(".")[0])]


def exists(name: str) -> bool:
    """Whether the environment has a top-level module ``name``."""
    with contextlib.suppress(ImportError, ValueError):  # ValueError: it is there, and says nothing of where from
        return name in sys.modules or importlib.util.find_spec(name) is not None
    return False


def of_environment(names: Sequence[str], paths: Sequence[str]) -> List[str]:
    """Those of the imported ``names`` that come from one of ``paths``: never what lies beside a script."""
    roots = tuple(os.path.join(os.path.realpath(path), "") for path in paths if path)
    packages = {name.partition(".")[0] for name in names}
    known = {name for name in packages if _origin(sys.modules.get(name)).startswith(roots)}
    return [name for name in names if name.partition(".")[0] in known]


def _origin(module: Any) -> str:
    """Where the top-level ``module`` was found; empty for what is no file."""
    with contextlib.suppress(Exception):  # a script may put there what it likes
        spec = module.__spec__
        places = [spec.origin, *(spec.submodule_search_locations or ())]
        return next((os.path.realpath(place) for place in places if place and os.path.isabs(place)), "")
    return ""
