"""``bench``: measure the performance contract as ratios, each in one run on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.text import Text

from gradmatrix.cli.commands import add
from gradmatrix.cli.options import chosen_stacks
from gradmatrix.measure.race import requests
from gradmatrix.measure.servers import PacedCell
from gradmatrix.run import ahead
from gradmatrix.run.plan import Action, Selection
from gradmatrix.run.server import Request, Server
from gradmatrix.run.store import Store
from gradmatrix.stacks import environment, sandbox

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from gradmatrix.core.model import Record, Stack
    from gradmatrix.run.plan import Planned
    from gradmatrix.run.project import Project

EVERYTHING = Selection(devices=frozenset({"cpu"}), fresh=True)
FRESH_SAMPLE = 6
PAIRS = 12
TIMED_STEPS = 150
TRACE_PAIRS = 9
TRACED = Path(__file__).parent / "traced"
"""Scripts that train: ``gradmatrix trace`` runs each of them as a user would."""
WATCHED = Path(__file__).parent / "watched.py"
"""Runs each of them in a block of ``gradmatrix.watch()``."""
ROUNDS, BLOCK = 40, 60
INSTALLING_S = 1.5
"""After so long an install is in its midst, if uv has all files in its cache."""
FIRST = 4
"""So many steps hold the audit."""


@dataclass(frozen=True)
class Ratio:
    """One line of the contract: what was measured, and its bound."""

    name: str
    value: float
    bound: str
    detail: str

    def __str__(self) -> str:
        return f"{self.name:34} {self.value:8.3f}   wanted {self.bound:8}  {self.detail}"


class Silent:
    """Shows no progress."""

    def stage(self, stack: str, text: str) -> None:
        """Nothing to show."""

    def planned(self, stack: str, cells: Sequence[Planned]) -> None:
        """Nothing to show."""

    def ended(self, record: Record, output: str) -> None:
        """Nothing to show."""


def measure(project: Project, stack: Stack) -> Iterator[Ratio]:
    """The ratios, one after the other, on ``stack``."""
    with tempfile.TemporaryDirectory(prefix="gradmatrix-bench-") as folder:
        place = Path(folder)
        with environment.in_use(project.environments, stack.name):
            environment.ensure(project.lock_of(stack), project.locks_folder, project.environments)
        ratio, cells, run_s = warm_run(project, stack, place)
        yield ratio
        yield fresh_processes(project, stack, place, cells, run_s)
        yield unchanged(project, place)
        with environment.in_use(project.environments, stack.name):
            ratio = observer_cost(project, stack, place)
            yield ratio
            yield from ahead_cost(project, stack, place)
        with environment.in_use(project.environments, stack.name):
            yield from trace_cost(project, stack, place)
            yield from watch_cost(project, stack, place)


def warm_run(project: Project, stack: Stack, place: Path) -> tuple[Ratio, int, float]:
    """Wall time of a run over one import of the libraries plus the children's own time."""
    store = Store(place / "journal", place / "published")
    began = time.perf_counter()
    summary = project.stack_run(stack, Silent(), store=store).execute(EVERYTHING)
    run_s = time.perf_counter() - began
    ratio = run_s / (summary.import_s + summary.cells_s)
    detail = (
        f"{run_s:.1f} s for {summary.executed} cells, importing {summary.import_s:.1f} s, "
        f"cells {summary.cells_s:.1f} s"
    )
    return Ratio("warm run / (import + cells)", ratio, "<= 1.15", detail), summary.executed, run_s


def fresh_processes(project: Project, stack: Stack, place: Path, cells: int, run_s: float) -> Ratio:
    """The cost of a process for each cell over the cost of the same cells as forks.

    A sample of the cells, spread evenly over all scenarios, stands for all.
    """
    store = Store(place / "fresh", place / "published")
    run = project.stack_run(stack, Silent(), "fresh", store)
    runnable = [cell for cell in run.plan(EVERYTHING) if cell.action is Action.RUN]
    sample = [
        runnable[(2 * n + 1) * len(runnable) // (2 * FRESH_SAMPLE)] for n in range(FRESH_SAMPLE)
    ]
    chosen = replace(
        EVERYTHING, variants=frozenset((c.cell.scenario, c.cell.variant) for c in sample)
    )
    began = time.perf_counter()
    run.execute(chosen)
    each_s = (time.perf_counter() - began) / len(sample)
    detail = (
        f"{each_s:.1f} s per cell in a fresh process ({len(sample)} sampled), "
        f"{run_s / cells:.2f} s from the server"
    )
    return Ratio("fresh processes / forks", each_s * cells / run_s, ">= 8", detail)


def unchanged(project: Project, place: Path) -> Ratio:
    """Seconds of ``gradmatrix run --all`` if every cell of the published matrix is up to date."""
    results = place / "unchanged"
    store = Store(results / ".gradmatrix" / "records", results / "records")
    known = project.store.everything()
    for stack in project.matrix.stacks:
        plan = project.stack_run(stack, Silent(), store=store).plan(Selection())
        for cell in plan:
            record = known.get(cell.cell)
            if record is None:
                continue
            store.append(msgspec.structs.replace(record, key=cell.key, inputs=cell.inputs))
    names = sorted({cell.stack for cell in known})
    command = [
        sys.executable,
        "-m",
        "gradmatrix",
        "run",
        *names,
        "--results",
        str(results),
        "--no-table",
    ]
    subprocess.run(command, cwd=project.root, capture_output=True, check=True)  # publishes
    began = time.perf_counter()
    done = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - began
    executed = sum(
        int(line.split(":")[1].split()[0])
        for line in done.stdout.splitlines()
        if " cells run, " in line
    )
    return Ratio(
        "unchanged matrix / 1.5 s",
        seconds / 1.5,
        "<= 1",
        f"{seconds:.2f} s, {len(names)} stacks, {executed} cells run",
    )


def observer_cost(project: Project, stack: Stack, place: Path) -> Ratio:
    """A timed step after an audit over a step of a script that is only timed: medians of pairs.

    The step clock itself, two hooks on the optimizer's step, is in both: there are no times without
    it.
    """
    scenario = project.scenarios["t5_classifier"]
    run = project.stack_run(stack, Silent())
    installed = environment.ensure(run.lock, run.locks, run.environments)
    script = Path(scenario.path).resolve()
    settings = run.settings
    ratios = []
    with Server(
        installed.python, [script], place / "server", sandbox.variables(settings.limits.threads)
    ) as server:
        for pair in range(PAIRS + 1):
            times = {}
            for observe in (True, False) if pair % 2 else (False, True):
                request = Request(
                    script=script,
                    variant="torch_adamw",
                    device="cpu",
                    audit=settings.steps.audit,
                    warmup=10,
                    timed=TIMED_STEPS,
                    directory=place / f"pair-{pair}-{observe}",
                    timeout_s=settings.limits.timeout_s,
                    memory_bytes=None,
                    observe=observe,
                )
                seen = server.run(request).observation
                assert seen is not None
                times[observe] = statistics.median(seen.step_times_s)
            if pair:  # the first one warms up
                ratios.append(times[True] / times[False])
    low, middle, high = statistics.quantiles(ratios, n=4)
    detail = (
        f"{len(ratios)} pairs of {TIMED_STEPS} steps, quartiles {low:.3f} to {high:.3f}; "
        "step clock in both"
    )
    return Ratio("timed step, observed / clock only", middle, "<= 1.01", detail)


def ahead_cost(project: Project, stack: Stack, place: Path) -> Iterator[Ratio]:
    """A step beside an install that was begun ahead over a step without it: medians of rounds.

    The install is in its midst: first it is stopped, as it is while cells run, and then it goes on.
    The second ratio shows what would be measured if nothing stopped it. Blocks of one process are
    compared, because a machine has other speeds at other times. A busy machine hides both; there
    the processor time that the install itself takes beside the steps says more.
    """
    run = project.stack_run(stack, Silent())
    installed = environment.ensure(run.lock, run.locks, run.environments)
    elsewhere = replace(run, environments=place / "ahead")
    chosen = replace(EVERYTHING, variants=frozenset({("t5_classifier", "torch_adamw")}))
    request = requests(run.plan(chosen)[0], run.settings)(place / "beside")
    threads = sandbox.variables(run.settings.limits.threads)
    ratios: list[tuple[float, float]] = []
    used = {"stopped": 0.0, "going on": 0.0}
    with Server(installed.python, [request.script], place / "server-ahead", threads) as server:
        cell = PacedCell(server, request)
        cell.start()

        def step_s(install: ahead.Ahead | None = None, what: str = "") -> float:
            began = group_s(install.group) if install else 0.0
            middle = statistics.median(cell.run(BLOCK).step_times_s)
            if install:
                used[what] += group_s(install.group) - began
            return middle

        for _ in range(ROUNDS + 1):
            shutil.rmtree(elsewhere.environments, ignore_errors=True)
            with ahead.Ahead(lambda _: ahead.command(elsewhere)) as install:
                before = step_s()
                install.begin("")
                with install.running():
                    time.sleep(INSTALLING_S)
                stopped = step_s(install, "stopped")
                with install.running():
                    going = step_s(install, "going on")
            alone = (before + step_s()) / 2
            ratios.append((stopped / alone, going / alone))
        cell.stop()
    for column, (what, bound) in enumerate((("stopped", "<= 1.01"), ("going on", "none"))):
        low, middle, high = statistics.quantiles([each[column] for each in ratios[1:]], n=4)
        detail = f"{ROUNDS} rounds of {BLOCK} steps, quartiles {low:.3f} to {high:.3f}"
        yield Ratio(f"timed step, install {what} / none", middle, bound, detail)
    detail = f"{used['stopped']:.2f} s of processor time, {used['going on']:.2f} s if not stopped"
    ratio = used["stopped"] / used["going on"]
    yield Ratio("install beside steps, stopped / not", ratio, "<= 0.01", detail)


def group_s(group: int | None) -> float:
    """Seconds of processor time that a group of processes has taken (Linux)."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = path.read_text(encoding="utf-8").rpartition(")")[2].split()
            ticks += sum(map(int, words[11:15])) if int(words[2]) == group else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def trace_cost(project: Project, stack: Stack, place: Path) -> Iterator[Ratio]:
    """Whole runs under ``gradmatrix trace`` over the same runs alone, in turns.

    For each script: the wall time, the processor time of all processes, and the processor time of
    the first steps, which hold the audit. On a busy machine only processor times mean something.
    """
    run = project.stack_run(stack, Silent())
    installed = environment.ensure(run.lock, run.locks, run.environments)
    times = place / "step_times"
    alone = [str(installed.python)]
    traced = [
        *(sys.executable, "-m", "gradmatrix", "trace", "--python", str(installed.python)),
        *("--output", str(place / "finding.json")),
    ]
    for script in sorted(TRACED.glob("*.py")):
        ratios: list[tuple[float, ...]] = []
        for pair in range(TRACE_PAIRS + 1):
            costs = {}
            for command in (traced, alone) if pair % 2 else (alone, traced):
                costs[command is traced] = timed([*command, str(script), str(times)], times)
            if pair:  # the first pair is warm-up
                ratios.append(tuple(a / b for a, b in zip(costs[True], costs[False], strict=True)))
        for column, (what, bound) in enumerate(
            (("wall", "<= 1.05"), ("processor", "<= 1.05"), (f"first {FIRST} steps", "<= 1.50"))
        ):
            low, middle, high = statistics.quantiles([ratio[column] for ratio in ratios], n=4)
            detail = f"{len(ratios)} pairs, quartiles {low:.3f} to {high:.3f}"
            yield Ratio(f"trace {script.stem}, {what}", middle, bound, detail)


def watch_cost(project: Project, stack: Stack, place: Path) -> Iterator[Ratio]:
    """Scripts in a block of ``gradmatrix.watch()`` over the same without it, in turns.

    For each script: the processor time of the first steps, which the watch looks at, and that of
    the block, with the verdict at its end. Imports are in neither.
    """
    installed = environment.ensure(
        project.lock_of(stack), project.locks_folder, project.environments
    )
    times, block = place / "step_times", place / "block"
    host = [str(Path(__file__).parents[1]), sysconfig.get_paths()["platlib"]]
    for script in sorted(TRACED.glob("*.py")):
        pairs: list[dict[bool, tuple[float, float]]] = []
        for pair in range(TRACE_PAIRS + 1):
            costs = {}
            for watched in (True, False) if pair % 2 else (False, True):
                words = [str(each) for each in (WATCHED, script, times, block)]
                used = timed([str(installed.python), *words, *(host if watched else [])], times)
                costs[watched] = used[2], float(block.read_text(encoding="utf-8"))
            pairs.append(costs)
        for column, (what, bound) in enumerate(
            ((f"first {FIRST} steps", "none"), ("block", "<= 1.50"))
        ):
            ratios = [each[True][column] / each[False][column] for each in pairs[1:]]
            added = [each[True][column] - each[False][column] for each in pairs[1:]]
            low, middle, high = statistics.quantiles(ratios, n=4)
            detail = (
                f"{len(ratios)} pairs, quartiles {low:.3f} to {high:.3f}; "
                f"{statistics.median(added):+.2f} s"
            )
            yield Ratio(f"watch {script.stem}, {what}", middle, bound, detail)


def timed(command: Sequence[str], times: Path) -> tuple[float, float, float]:
    """Seconds of wall time, of processor time, and of processor time in the first steps.

    Compiled modules are kept, as on a user's machine. Else one side would compile all of gradmatrix
    in each run, beside a torch that was compiled once.
    """
    before, began = os.times(), time.perf_counter()
    subprocess.run(
        command,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
    )
    wall_s, after = time.perf_counter() - began, os.times()
    used_s = (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )
    steps = [float(line) for line in times.read_text(encoding="utf-8").split()]
    return wall_s, used_s, sum(steps[:FIRST])


def register_bench(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    parser = add(
        commands, "bench", bench_command, "measure the performance contract on one installed stack"
    )
    parser.add_argument(
        "stacks", nargs="?", default=None, metavar="STACK", help="default: the newest core stack"
    )


def bench_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Run ``bench``: print each ratio when it is measured."""
    stack = chosen_stacks(project, [options.stacks] if options.stacks else [], everything=False)[-1]
    console.print(f"measured on {stack.name}, one run")
    for ratio in measure(project, stack):
        console.print(Text(str(ratio)), soft_wrap=True)
    return 0
