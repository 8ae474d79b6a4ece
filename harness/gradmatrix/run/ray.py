"""Run stacks on the nodes of a Ray cluster.

The driver plans, judges what need not run, and records. Only a stack's *place* is elsewhere: one
task of Ray for each stack and device, in which a node installs the lock and runs the cells as one
machine does. Each cell comes back when it ends. Ray chooses the nodes and gives out processors and
GPUs.

A node needs ``pip install "gradmatrix[ray]"``, and uv's settings for its own index. The project's
folder and this package come from the driver, so that nodes run what was planned: each task compares
the keys of its cells.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, CancelledError, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby, islice
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Self

from gradmatrix.core.errors import UserError
from gradmatrix.core.files import write_atomically
from gradmatrix.core.outcomes import LOST
from gradmatrix.core.text import counted
from gradmatrix.judge.verdict import Ended, judge
from gradmatrix.run.own_scripts import as_table
from gradmatrix.run.plan import Listed, check_keys, code_digests
from gradmatrix.run.pool import ATTEMPTS, Finished
from gradmatrix.run.project import PACKAGE, Project
from gradmatrix.run.scenarios import load_scripts
from gradmatrix.run.stack import Ran, here
from gradmatrix.run.store import Store
from gradmatrix.stacks import environment, metadata
from gradmatrix.stacks.index import user_folder
from gradmatrix.stacks.lock import requirements_path

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Generator, Iterable, Iterator
    from types import ModuleType

    from gradmatrix.core.model import Cell, Lock, Record, Stack
    from gradmatrix.run.plan import Planned, Selection
    from gradmatrix.run.pool import Isolation
    from gradmatrix.run.stack import Given, Machines, Result, StackRun, Summary, ThisMachine
    from gradmatrix.stacks.config import Script

IN_FLIGHT = 64
"""How many stacks the driver has given to Ray at once: it holds their records in memory."""
UNREAD = 16
"""How many cells a task may be ahead of the driver. Then it waits."""
NOT_SENT = ["/.?*", "/results/*", "!/results/locks", "__pycache__"]
"""What nodes do not get of the project's folder, in the words of .gitignore."""
CONNECT_TIMEOUT_S = 10.0
SETTINGS = b"\0\0\0\4\0\0\0\0\0"
"""An empty frame of settings, with which both sides of gRPC begin (RFC 9113)."""
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS


@contextmanager
def machines(
    options: argparse.Namespace, project: Project, this: ThisMachine
) -> Iterator[Machines]:
    """Where a command line wants its stacks to run."""
    if options.on is None:
        yield this
        return
    with Cluster(project, options.address) as cluster:
        yield cluster


class Cluster:
    """A Ray cluster, on whose nodes stacks run; a context manager. See Machines."""

    def __init__(self, project: Project, address: str | None) -> None:
        """Connect to a cluster.

        Args:
            project: what runs; its folder goes to the nodes.
            address: HOST:PORT of the cluster; None for RAY_ADDRESS, the cluster that runs on this
                machine, or a new one on this machine alone.

        Raises:
            UserError: if there is no Ray or no cluster.
        """
        if not project.matrix_file.is_relative_to(project.root):
            raise not_sent(project.matrix_file, project.root)
        self.project = project
        self.ray = connected(address, project.root)
        self.tasks: set[Any] = set()
        self.stopped = False
        self.beside = ThreadPoolExecutor(IN_FLIGHT)
        self.begun: set[tuple[str, Selection]] = set()
        """What was begun ahead of its turn."""
        self.sides: set[str] = set()
        """The stacks of an upgrade: they run several times."""
        self.devices = self.devices_there()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()  # what nobody waits for may still run
        self.beside.shutdown(cancel_futures=True)
        self.ray.shutdown()

    @cached_property
    def at_once(self) -> int:
        """How many stacks can run side by side: as many as there are cores for now."""
        cores = self.ray.cluster_resources().get("CPU", 0) // self.resources("cpu")["num_cpus"]
        return max(1, min(IN_FLIGHT, int(cores)))

    @property
    def spare(self) -> int:
        """How many further stacks can run beside one."""
        return self.at_once - 1

    def placed(self, run: StackRun) -> StackRun:
        """See Machines."""
        return replace(run, devices=self.devices, place=self.cells_of)

    def executed(
        self, runs: Iterable[StackRun], selection: Selection
    ) -> Iterator[tuple[Lock, Summary]]:
        """Execute ``runs``, of which Ray gets ``IN_FLIGHT`` at once; each is yielded at its end."""
        own = self.project.store

        def execute(run: StackRun) -> tuple[Lock, Summary]:
            store = Store(own.journal, own.published, own.problems)  # gone at the end of the run
            return run.lock, self.placed(replace(run, store=store)).execute(selection)

        return self.together(execute, runs, IN_FLIGHT)

    def side_by_side(
        self, do: Callable[[Given], Result], these: Iterable[Given]
    ) -> Iterator[Result]:
        """See Machines."""
        return self.together(do, these, self.at_once)

    def together(
        self, do: Callable[[Given], Result], these: Iterable[Given], most: int
    ) -> Iterator[Result]:
        """Do something with each of these, with ``most`` of them at once.

        Raises:
            UserError: the first error, after the others have ended.
        """
        errors: list[BaseException] = []
        left, active = iter(these), set[Any]()
        with ThreadPoolExecutor(most) as threads:
            try:
                while True:
                    active |= {
                        threads.submit(do, each) for each in islice(left, most - len(active))
                    }
                    if not active:
                        break
                    done, active = wait(active, return_when=FIRST_COMPLETED)
                    for ended in done:
                        error = ended.exception()
                        if error is None:
                            yield ended.result()
                        else:
                            errors.append(error)
            except BaseException:
                self.stop()  # the threads end with their tasks
                raise
        if len(errors) > 1 and isinstance(errors[0], UserError):
            errors[0].what = f"{counted(len(errors), 'stack')} stopped. One: {errors[0].what}"
        if errors:
            raise errors[0]

    @contextmanager
    def ahead(
        self, _run: StackRun, coming: Iterable[StackRun], selection: Selection
    ) -> Iterator[None]:
        """Execute them too. Nobody waits for them: the turn of each finds its records, or waits."""
        over = Event()

        def begin() -> None:
            for run in coming:
                if over.is_set():
                    return
                if (run.stack.name, selection) not in self.begun:
                    self.begun.add((run.stack.name, selection))
                    self.beside.submit(run.execute, selection)

        self.beside.submit(begin)
        try:
            yield
        finally:
            over.set()

    def stop(self) -> None:
        """End the tasks."""
        self.stopped = True
        for task in tuple(self.tasks):
            self.ray.cancel(task, force=True)

    def devices_there(self) -> dict[str, str | None]:
        """The class of each device on a node that has it; None if no node has it."""
        names = self.project.matrix.run.devices
        available = self.ray.cluster_resources()
        ask = self.ray.remote(environment.device_class)
        asked = {
            name: ask.options(**self.resources(name)).remote(name)
            for name in names
            if name == "cpu" or available.get("GPU")
        }
        code_digests()  # while nodes start; later each thread would read all of the code
        return {name: self.ray.get(asked[name]) if name in asked else None for name in names}

    def resources(self, device: str) -> dict[str, Any]:
        """What a task asks of Ray: a core for each thread, and for CUDA a GPU of its own."""
        cores = self.project.settings().limits.threads
        return {
            "num_cpus": cores,
            "num_gpus": int(device != "cpu"),
            "scheduling_strategy": "SPREAD",
        }

    def cells_of(self, run: StackRun, cells: list[Planned]) -> Generator[Ran]:
        """Run ``cells`` on the cluster: the place of a run."""
        for device, group in groupby(cells, lambda cell: cell.cell.device):
            due = {cell.cell: cell.key for cell in group}
            run.stage(f"starting {counted(len(due), 'cell')} on the cluster")
            yield from retried(due, partial(self.task, run, device), run.stage)

    def task(self, run: StackRun, device: str, due: dict[Cell, str]) -> Iterator[Ran]:
        """Run cells of one device in one task.

        Raises:
            NodeLost: if the node or its worker is gone.
            InstallFailed: if the node cannot install the stack.
            UserError: if it planned other cells, or Ray cannot start the task.
        """
        failed = self.ray.exceptions
        remote = self.ray.remote(on_node).options(
            name=f"{run.stack.name} on {device}",
            num_returns="streaming",
            max_retries=0,  # a repeat would run what is recorded
            _generator_backpressure_num_objects=UNREAD,
            **self.resources(device),
        )
        task = remote.remote(self.job(run), due)
        self.tasks.add(task)
        try:
            for each in () if self.stopped else task:
                found = self.ray.get(each)
                if isinstance(found, Ran):
                    yield found
                elif run.metadata is not None:
                    metadata.take(found, run.metadata)
        except failed.RayTaskError as error:
            raise error.cause from None
        except (
            failed.WorkerCrashedError,
            failed.NodeDiedError,
            failed.OutOfMemoryError,
            failed.ObjectLostError,
        ) as error:
            raise NodeLost(str(error)) from error
        except failed.RayError as error:
            raise UserError(
                f"Ray could not run stack {run.stack.name}: {error}.",
                cause="the cluster ended, or could not prepare the task",
                next_step="Look at the cluster with ray status, and run the command again. "
                "Finished cells are kept.",
            ) from error
        except (GeneratorExit, KeyboardInterrupt):
            self.ray.cancel(task, force=True)
            raise
        finally:
            self.tasks.discard(task)
        if self.stopped:
            raise CancelledError

    def job(self, run: StackRun) -> Job:
        """What a node needs for a run."""
        project = self.project
        own = (
            as_table(
                each.name,
                Path(each.path),
                each.arguments,
                directory=each.directory,
                packages=each.packages,
                project=project,
            )
            for each in run.scenarios
            if each.arguments is not None and each not in project.scripts
        )
        scripts = tuple(own)
        for each in scripts:
            for place in filter(None, (each.path, each.directory, *each.packages)):
                if Path(place).is_absolute():
                    raise not_sent(place, project.root)
        if run.stack.name.startswith(environment.MARK) and not run.drop:
            self.sides.add(run.stack.name)
        return Job(
            matrix_file=str(project.matrix_file.relative_to(project.root)),
            stack=run.stack,
            lock=run.lock,
            text=requirements_path(run.stack.name, run.locks).read_text(encoding="utf-8"),
            scripts=scripts,
            isolation=run.settings.isolation,
            metadata=run.metadata is not None,
            drop=run.drop,
            sides=tuple(self.sides),
        )


@dataclass(frozen=True)
class Job:
    """What a node needs to run cells of a stack, beside the folder of the project."""

    matrix_file: str
    """As seen from that folder."""
    stack: Stack
    lock: Lock
    text: str
    """Of the lock."""
    scripts: tuple[Script, ...]
    """Those of the command line."""
    isolation: Isolation
    metadata: bool
    """Whether the driver keeps what the installed packages say about themselves."""
    drop: bool
    """Whether the environment is deleted after the cells."""
    sides: tuple[str, ...]
    """Stacks whose environments stay."""


def not_sent(what: object, root: Path) -> UserError:
    """The error about something that nodes need and do not get."""
    return UserError(
        f"{what} cannot be sent to the nodes.",
        cause=f"they get the folder of the project, {root}",
        next_step="copy it into that folder, or name the folder with --root",
    )


class NodeLost(Exception):
    """The node or the worker of a task is gone. This says nothing about the stack."""


def retried(
    due: dict[Cell, str],
    task: Callable[[dict[Cell, str]], Iterator[Ran]],
    stage: Callable[[str], object],
) -> Generator[Ran]:
    """Run the cells of ``due``; what a lost node has not finished runs in another task.

    If ``ATTEMPTS`` tasks in a row are lost without a result, the cell that was next is lost.

    Args:
        due: the keys of the cells, in their order; it is emptied.
        task: starts a task for cells.
        stage: called with a text when a node was lost.
    """
    in_a_row, since = 0, Counter[str]()
    while due:
        try:
            for ran in task(due):
                del due[ran.cell]
                yield replace(ran, repeated=Counter(ran.repeated) + since)
                in_a_row, since = 0, Counter()
        except NodeLost:
            in_a_row += 1
            since[LOST] += 1
            stage(f"starting again: the node was lost, attempt {in_a_row + 1} of {ATTEMPTS}")
            if in_a_row >= ATTEMPTS:
                cell = next(iter(due))
                del due[cell]
                yield Ran(cell, Finished(None, judge(None, Ended(lost=True)), "", "none"))


def on_node(job: Job, keys: dict[Cell, str]) -> Iterator[Ran | dict[str, str]]:
    """Run cells of a stack on this node: what a task does, in the project's folder.

    Environments and what killed runs left are kept in the user's cache folder of the node. If the
    driver keeps metadata, that is yielded last.

    Raises:
        InstallFailed: if the stack cannot be installed.
        UserError: if a cell has another key here than where it was planned.
    """
    project, folder = Project.at(Path.cwd(), matrix_file=Path(job.matrix_file)), user_folder()
    name = job.stack.name
    write_atomically(requirements_path(name, project.locks_folder), job.text.encode())
    run = project.stack_run(job.stack, Quiet(), job.isolation, lock=job.lock)
    own = load_scripts(project.matrix_file, job.scripts, project.known_scenarios())
    run = replace(
        run,
        scenarios=(*run.scenarios, *own),
        environments=folder / "environments",
        workplaces=folder / "work",
        metadata=folder / "metadata" if job.metadata else None,
    )
    cells = run.plan(Listed(cells=frozenset(keys), fresh=True))
    check_keys(f"Stack {name}", keys, cells)
    environment.drop_leftovers(run.environments, [name, *job.sides])
    yield from here(run, cells)
    if run.metadata is not None:
        yield metadata.kept(run.metadata, run.lock)
    if job.drop:
        environment.drop(run.environments, name)


class Quiet:
    """The progress of a run on a node: the driver reports it."""

    def stage(self, stack: str, text: str) -> None:
        """See Progress."""

    def planned(self, stack: str, cells: list[Planned]) -> None:
        """See Progress."""

    def ended(self, record: Record, output: str) -> None:
        """See Progress."""


def connected(address: str | None, root: Path) -> ModuleType:
    """Ray, connected to a cluster whose nodes get the folder ``root`` and this package.

    Raises:
        UserError: if Ray is not installed, or there is no cluster.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        raise UserError(
            "--on ray needs Ray, which is not installed.",
            cause="gradmatrix was installed without its extra `ray`",
            next_step='pip install "gradmatrix[ray]", here and on each node',
        ) from error
    address = address or os.environ.get("RAY_ADDRESS")
    refuse_silent(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster that is started here
    try:
        ray.init(
            address=address,
            runtime_env={
                "working_dir": str(root),
                "py_modules": [str(PACKAGE)],
                "excludes": NOT_SENT,
            },
            logging_level=logging.ERROR,
            log_to_driver=False,
        )
    except Exception as error:  # a bare one, if a node does not start in time
        ray.shutdown()
        raise UserError(
            f"There is no connection to a Ray cluster: {error}.",
            cause="it ended, it asks for a token (RAY_AUTH_MODE=token), it has another version of "
            "Ray or Python, or the project's folder is too large to send",
            next_step="check it on this machine: ray status; what .gitignore or .rayignore names "
            "is not sent",
        ) from error
    found: ModuleType = ray
    return found


def refuse_silent(address: str | None) -> None:
    """UserError if no Ray answers at ``address``: Ray would try for minutes and then abort."""
    if address is None or address in {"auto", "local"}:
        return
    host, _, port = address.rpartition(":")
    why = f"{address!r} is not written HOST:PORT"
    if host and port.isdecimal() and "://" not in address:
        try:
            with socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S) as connection:
                connection.sendall(GREETING)
                answer = connection.recv(len(SETTINGS))
        except (OSError, OverflowError) as error:
            why = str(error)
        else:
            if answer[3:4] == SETTINGS[3:4] or os.environ.get("RAY_USE_TLS") == "1":
                return
            why = "something else answers there"
    raise UserError(
        f"No Ray cluster answers at {address}.",
        cause=why,
        next_step="ray start --head starts one and prints its address, such as 10.0.0.1:6379; run "
        "the command on one of its nodes",
    )
