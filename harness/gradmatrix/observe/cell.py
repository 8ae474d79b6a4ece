"""A user's own script, unmodified: run as ``python path arguments`` would run it, in a process that is no new one.

Run a script a block of optimizer steps at a time: between two blocks it waits, and costs nothing.

Two stacks can then be measured in turns on one processor core. The host writes lines to the server's standard input,
which the running cell reads, and gets an event per block. Where another process had the core although this one could
have used it, the clock stands still: Linux tells for how long that was.

Run one cell in this process: limits, output to a file, the script under the observer, one observation.
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
from .observer import Enough, Observer

STANDARD = frozenset(
    getattr(sys, "stdlib_module_names", sys.builtin_module_names)
)  # Python 3.9 has only the second


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
    return [
        name
        for name in found
        if name.partition(".")[0] not in own and exists(name.partition(".")[0])
    ]


def exists(name: str) -> bool:
    """Whether the environment has a top-level module ``name``."""
    with contextlib.suppress(
        ImportError, ValueError
    ):  # ValueError: it is there, and says nothing of where from
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
        return next(
            (os.path.realpath(place) for place in places if place and os.path.isabs(place)), ""
        )
    return ""


SIZE = 128
"""Bytes of what Linux tells: three numbers."""


class Pacer:
    """The step clock of one cell; it is told after every optimizer step and returns when the next may begin."""

    def __init__(
        self,
        observer: Observer,
        events: IO[str],
        commands: int,
        device: str,
        begun: Callable[[], None],
    ) -> None:
        self.observer = observer
        self.events = events
        self.device = device
        self.begun = begun
        """Called after the first step."""
        self.commands = commands
        """Descriptor of the host's pipe."""
        self.clock = Clock()
        self.left = 1  # the first step ends the setting up; then the host speaks
        self.ticks: List[float] = []
        observer.stepped = self.stepped

    def stepped(self) -> None:
        """After each step: a clock reading, and at the end of a block the host's turn."""
        self.left -= 1
        if self.left and self.device == "cpu":
            self.ticks.append(self.clock.now())
            return
        self.observer.synchronize()
        self.ticks.append(self.clock.now())
        if not self.left:
            self.end_block()

    def end_block(self) -> None:
        """Tell what the block took, and wait for the next one; raises Enough where there is none."""
        if self.observer.steps == 1:
            self.begun()
        times = [after - before for before, after in zip(self.ticks, self.ticks[1:])]
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
        self.ticks = [self.clock.now()]

    def next_command(self) -> Dict[str, Any]:
        """The host's next line; {"steps": 0} where it is gone."""
        line = b""
        while not line.endswith(b"\n"):
            byte = os.read(
                self.commands, 1
            )  # not one more: what follows the cell's last command is the server's
            if not byte:
                return {"steps": 0}
            line += byte
        command: Dict[str, Any] = json.loads(line)
        return command


class Clock:
    """Seconds in which this process ran, or waited for anything but a core that another process had."""

    def __init__(self) -> None:
        try:
            self.file = os.open("/proc/self/schedstat", os.O_RDONLY)
            os.pread(self.file, SIZE, 0).split()[1]
        except (
            OSError,
            IndexError,
            AttributeError,
        ):  # another system, or a kernel that does not count it
            self.file = -1

    def now(self) -> float:
        """A reading: wall time less the time in the run queue."""
        now = time.perf_counter()
        if self.file < 0:
            return now
        return now - int(os.pread(self.file, SIZE, 0).split()[1]) * 1e-9


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
    )
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
    except BaseException as error:  # SystemExit and KeyboardInterrupt end a script too
        if own and (observer.steps >= total or exits_well(error)):
            outcome["reached"] = (
                "done"  # it was stopped, and what its cleaning up raised then is no finding
            )
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
        hide_cuda()
    os.chdir(request.get("working_directory") or request["directory"])
    return program(request["script"], request["arguments"])


def tell_imported(directory: str, known: Set[str], paths: List[str]) -> None:
    """Write which modules of the environment have been imported beside the ``known`` ones."""
    late = of_environment([name for name in sys.modules if name not in known], paths)
    protocol.write(
        os.path.join(directory, "imported.json"), {"schema": protocol.SCHEMA, "modules": late}
    )


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
