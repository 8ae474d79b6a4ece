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
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gradmatrix.core.errors import UserError
from gradmatrix.core.outcomes import LOST
from gradmatrix.core.text import counted
from gradmatrix.judge.verdict import Ended, judge
from gradmatrix.run.plan import Listed, check_keys, code_digests
from gradmatrix.run.pool import ATTEMPTS, Finished
from gradmatrix.run.project import PACKAGE, Project
from gradmatrix.run.stack import Ran, here
from gradmatrix.run.store import Store
from gradmatrix.stacks import environment
from gradmatrix.stacks.index import user_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from types import ModuleType

    from gradmatrix.core.model import Cell, Lock, Record
    from gradmatrix.run.plan import Planned, Selection
    from gradmatrix.run.stack import StackRun, Summary

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


class Cluster:
    """A Ray cluster as the place of runs; a context manager."""

    def __init__(self, project: Project, address: str | None, *, drop: bool = False) -> None:
        """Connect to a cluster.

        Args:
            project: what runs; its stacks have locks already, which go to the nodes.
            address: HOST:PORT of the cluster; None for RAY_ADDRESS, the cluster that runs on this
                machine, or a new one on this machine alone.
            drop: whether a node deletes a stack's environment after its cells.

        Raises:
            UserError: if there is no Ray or no cluster.
        """
        if not project.matrix_file.is_relative_to(project.root):
            raise UserError(
                f"{project.matrix_file} cannot be sent to the nodes.",
                cause=f"they get the folder of the project, {project.root}",
                next_step="copy it into that folder, or name the folder with --root",
            )
        self.project, self.drop = project, drop
        self.ray = connected(address, project.root)
        self.tasks: set[Any] = set()
        self.stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.ray.shutdown()

    def executed(
        self, runs: Iterable[StackRun], selection: Selection
    ) -> Iterator[tuple[Lock, Summary]]:
        """Execute ``runs``, of which Ray gets ``IN_FLIGHT`` at once; each is yielded at its end.

        Raises:
            UserError: the first error of a stack, after the other stacks have run.
        """
        errors: list[BaseException] = []
        own, devices = self.project.store, self.devices()
        code_digests()  # now: else each thread reads all of the code
        left = iter(runs)
        active: dict[Future[Summary], StackRun] = {}
        with ThreadPoolExecutor(IN_FLIGHT) as threads:
            try:
                while True:
                    for run in islice(left, IN_FLIGHT - len(active)):
                        store = Store(own.journal, own.published, own.problems)  # gone at its end
                        placed = replace(run, store=store, devices=devices, place=self.cells_of)
                        active[threads.submit(placed.execute, selection)] = run
                    if not active:
                        break
                    for ended in wait(active, return_when=FIRST_COMPLETED).done:
                        run, error = active.pop(ended), ended.exception()
                        if error is None:
                            yield run.lock, ended.result()
                        else:
                            errors.append(error)
            except BaseException:
                self.stop()  # the threads end with their tasks
                raise
        if len(errors) > 1 and isinstance(errors[0], UserError):
            errors[0].what = f"{counted(len(errors), 'stack')} stopped. One: {errors[0].what}"
        if errors:
            raise errors[0]

    def stop(self) -> None:
        """End the tasks."""
        self.stopped = True
        for task in tuple(self.tasks):
            self.ray.cancel(task, force=True)

    def devices(self) -> dict[str, str | None]:
        """The class of each device on a node that has it; None if no node has it."""
        names = self.project.matrix.run.devices
        available = self.ray.cluster_resources()
        ask = self.ray.remote(environment.device_class)
        asked = {
            name: ask.options(**self.resources(name)).remote(name)
            for name in names
            if name == "cpu" or available.get("GPU")
        }
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
        matrix_file = str(self.project.matrix_file.relative_to(self.project.root))
        task = remote.remote(matrix_file, run.stack.name, due, self.drop)
        self.tasks.add(task)
        try:
            if not self.stopped:
                for each in task:
                    yield self.ray.get(each)
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
        finally:
            self.tasks.discard(task)
        if self.stopped:
            raise CancelledError


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


def on_node(matrix_file: str, stack: str, keys: dict[Cell, str], drop: bool) -> Iterator[Ran]:  # noqa: FBT001  (Ray passes it)
    """Run cells of a stack on this node: what a task does, in the project's folder.

    Environments and what killed runs left are kept in the user's cache folder of the node.

    Raises:
        InstallFailed: if the stack cannot be installed.
        UserError: if a cell has another key here than where it was planned.
    """
    project, folder = Project.at(Path.cwd(), matrix_file=Path(matrix_file)), user_folder()
    run = replace(
        project.stack_run(project.matrix.stack(stack), Quiet()),
        environments=folder / "environments",
        workplaces=folder / "work",
    )
    cells = run.plan(Listed(cells=frozenset(keys), fresh=True))
    check_keys(f"Stack {stack}", keys, cells)
    yield from here(run, cells)
    if drop:
        environment.drop(run.environments, stack)


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
