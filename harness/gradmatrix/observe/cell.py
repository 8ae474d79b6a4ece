"""Run one cell in this process and write its observation.

The process gets a memory limit, its output goes to a file, and the script runs under the observer.
The script is a variant of a scenario, or a user's own script, which runs as ``python path
arguments`` would run it. A paced cell runs a block of optimizer steps whenever the host asks for
it.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import sys
import time
import traceback
import unittest
from types import ModuleType
from typing import IO, Any, Callable, Dict, List, Optional, Sequence, Set

from . import machine, protocol
from .clock import Clock, elapsed_s
from .observer import Enough, Observer

HERE = os.path.dirname(os.path.abspath(__file__))
MESSAGE_LIMIT = 2000
TRACEBACK_LIMIT = 8000
# Python 3.9 has only the second.
STANDARD = frozenset(getattr(sys, "stdlib_module_names", sys.builtin_module_names))
_scenarios: Set[Optional[str]] = set()
"""The names of the modules of all scenarios that were imported."""


def run(request: Dict[str, Any], events: IO[str]) -> None:
    """Run the requested script and write ``observation.json`` into the directory of the cell.

    A paced cell also sends ``events``.
    """
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
    outcome: Dict[str, Any] = {
        "reached": "import",
        "skipped": None,
        "no_device": False,
        "raised": None,
    }
    observer = Observer(
        audit=request["audit"],
        warmup=request["warmup"],
        device=request["device"],
        light=not request.get("observe", True),
        stop_after=total if own else None,
        folder=directory if request.get("observe", True) else None,
    )
    machine.before_exit(observer.drift)
    if commands is not None:
        Pacer(
            observer,
            events,
            commands,
            request["device"],
            lambda: tell_imported(directory, known, paths),
        )
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
    except BaseException as error:  # SystemExit and KeyboardInterrupt also end a script
        if own and (observer.steps >= total or exits_well(error)):
            # We stopped the script: what its clean-up raised then is no finding.
            outcome["reached"] = "done"
        else:
            outcome["raised"] = describe(error)
            if outcome["reached"] == "setup" and observer.entered_training:
                outcome["reached"] = "step"
    machine.limit_memory(None)
    tell_imported(directory, known, paths)
    peak = (
        machine.peak_memory_bytes()
        if request["device"] == "cpu"
        else machine.peak_cuda_memory_bytes()
    )
    protocol.write(
        os.path.join(directory, "observation.json"),
        {
            "schema": protocol.SCHEMA,
            **outcome,
            "drift": observer.drift(),
            **observer.facts(),
            "peak_memory_bytes": peak,
            "start_memory_bytes": start_memory_bytes if request["device"] == "cpu" else 0,
            "wall_s": time.perf_counter() - began,
            **machine.facts(),
        },
    )


def prepared(request: Dict[str, Any], total: int) -> Callable[[], None]:
    """A function that runs the requested variant of a scenario, or the requested script of a user.

    A scenario is imported here if the server has not imported it yet.
    """
    if request.get("arguments") is None:
        module = load(request["script"])
        forget_others(module.__name__)
        return lambda: module.train(request["variant"], request["device"], total)
    forget_others(None)
    if request["device"] == "cpu":
        hide_cuda()
    os.chdir(request.get("working_directory") or request["directory"])
    return program(request["script"], request["arguments"])


def load(path: str) -> ModuleType:
    """The module of the scenario in ``path``; it is imported once per process."""
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
    _scenarios.add(name)
    return module


def forget_others(name: Optional[str]) -> None:
    """Forget the other scenarios that the server imported: their source is not this cell's."""
    for other in _scenarios - {name}:
        sys.modules.pop(other, None)  # type: ignore[arg-type]  # none is called None


def program(path: str, arguments: Sequence[str]) -> Callable[[], None]:
    """The compiled script, ready to run as ``__main__``.

    Raises:
        SyntaxError: if the file is not valid Python.
    """
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)

    def run() -> None:
        exec(code, become_main(path, arguments).__dict__)  # noqa: S102  (running it is the task)

    return run


def become_main(path: str, arguments: Sequence[str]) -> ModuleType:
    """Set ``__main__``, the arguments and the module search path as the script would find them."""
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
    """Forget modules that were imported ahead and that the script's own folder shadows.

    The script's ``import x`` must find the ``x.py`` beside the script.
    """
    own = own_modules(folder) - STANDARD
    for name in [name for name in sys.modules if name.partition(".")[0] in own]:
        del sys.modules[name]


def own_modules(folder: str) -> Set[str]:
    """The names of the modules in ``folder``, which a script there imports before all others."""
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
    """Hide all CUDA devices from the script.

    This works because no process opens CUDA before it forks.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = ""


def tell_imported(directory: str, known: Set[str], paths: List[str]) -> None:
    """Write which modules of the environment were imported besides the ``known`` ones."""
    late = of_environment([name for name in sys.modules if name not in known], paths)
    protocol.write(
        os.path.join(directory, "imported.json"), {"schema": protocol.SCHEMA, "modules": late}
    )


def imported(directory: str) -> List[str]:
    """The modules that the cell of ``directory`` had to import itself.

    None if it died before it could write them.
    """
    try:
        modules: List[str] = protocol.read(os.path.join(directory, "imported.json"))["modules"]
    except (OSError, ValueError):
        return []
    return modules


def of_environment(names: Sequence[str], paths: Sequence[str]) -> List[str]:
    """The imported ``names`` that come from ``paths``, so never those from a script's folder."""
    roots = tuple(os.path.join(os.path.realpath(path), "") for path in paths if path)
    packages = {name.partition(".")[0] for name in names}
    known = {name for name in packages if _origin(sys.modules.get(name)).startswith(roots)}
    return [name for name in names if name.partition(".")[0] in known]


def _origin(module: Any) -> str:
    """Where the top-level ``module`` was found; empty if it has no file."""
    with contextlib.suppress(Exception):  # a script may put anything there
        spec = module.__spec__
        places = [spec.origin, *(spec.submodule_search_locations or ())]
        return next(
            (os.path.realpath(place) for place in places if place and os.path.isabs(place)), ""
        )
    return ""


def libraries(path: str) -> List[str]:
    """The modules of the environment that the script imports by name, anywhere in its code.

    Modules in the script's own folder are left out.
    """
    with open(path, "rb") as file:
        tree = ast.parse(file.read())
    found: Dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(dict.fromkeys(alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found[node.module] = None
    own = own_modules(os.path.dirname(os.path.realpath(path)))
    return [
        name
        for name in found
        if name.partition(".")[0] not in own and exists(name.partition(".")[0])
    ]


def exists(name: str) -> bool:
    """Whether the environment has a top-level module ``name``."""
    # ValueError: the module is there, but does not say where it came from.
    with contextlib.suppress(ImportError, ValueError):
        return name in sys.modules or importlib.util.find_spec(name) is not None
    return False


def describe(error: BaseException) -> Dict[str, str]:
    """Type, message and traceback of ``error``, cut to size, without the frames of this package."""
    kind = type(error)
    name = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
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


def leave_out_ours(shown: traceback.TracebackException) -> None:
    """Remove the frames of this package from a traceback and from those it is chained to."""
    chain: List[Optional[traceback.TracebackException]] = [shown]
    while chain:
        each = chain.pop()
        if each is not None:
            kept = [frame for frame in each.stack if not frame.filename.startswith(HERE)]
            each.stack = traceback.StackSummary.from_list(kept or list(each.stack))
            chain += [each.__cause__, each.__context__]


class Pacer:
    """The step clock of a paced cell.

    The observer calls it after every optimizer step. It returns when the next step may begin.
    Between two blocks the cell waits and uses no processor time, so two stacks can be measured in
    turns on one core. The running cell reads the lines that the host writes to the server's
    standard input, and sends an event after each block.
    """

    def __init__(
        self,
        observer: Observer,
        events: IO[str],
        commands: int,
        device: str,
        begun: Callable[[], None],
    ) -> None:
        self.observer = observer
        self.process = os.getpid()
        self.events = events
        self.device = device
        self.begun = begun
        """Called after the first step."""
        self.commands = commands
        """File descriptor of the host's pipe."""
        self.clock = Clock()
        self.left = 1  # the first step ends the set-up; then the host decides
        observer.stepped = self.stepped

    def stepped(self) -> None:
        """Read the clock after each step; at the end of a block, report and wait for the host.

        A rank that the script forked does neither: it waits for this one in its collectives.
        """
        if os.getpid() != self.process:
            return
        self.left -= 1
        if self.left and self.device == "cpu":
            self.clock.tick()
            return
        self.observer.synchronize()
        self.clock.tick()
        if not self.left:
            self.end_block()

    def end_block(self) -> None:
        """Report the times of the block, and wait for the next one.

        Raises:
            Enough: if the host asks for no more steps.
        """
        if self.observer.steps == 1:
            self.begun()
        times = [elapsed_s(before, after) for before, after in self.clock.steps]
        peak = (
            machine.peak_memory_bytes()
            if self.device == "cpu"
            else machine.peak_cuda_memory_bytes()
        )
        self.events.write(
            json.dumps({"event": "block", "step_times_s": times, "peak_memory_bytes": peak}) + "\n"
        )
        self.events.flush()
        command = self.next_command()
        if command["steps"] < 1:
            raise Enough
        self.left = command["steps"]
        self.clock.begin()

    def next_command(self) -> Dict[str, Any]:
        """The host's next line; {"steps": 0} if the host is gone."""
        line = b""
        while not line.endswith(b"\n"):
            # One byte at a time: what follows the cell's last command is for the server.
            byte = os.read(self.commands, 1)
            if not byte:
                return {"steps": 0}
            line += byte
        command: Dict[str, Any] = json.loads(line)
        return command
