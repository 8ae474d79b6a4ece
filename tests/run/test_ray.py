"""Runs on a Ray cluster: with a fake of Ray's surface, and in a slow test with Ray itself."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gradmatrix.cli.main import main
from gradmatrix.cli.upgrade import own_scripts, refuse_in_place
from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Cell, Failure, Record
from gradmatrix.core.outcomes import TRAINS, Outcome
from gradmatrix.judge.verdict import Verdict
from gradmatrix.run import pool, ray
from gradmatrix.run.pool import Finished
from gradmatrix.run.project import Project
from gradmatrix.run.ray import Cluster, NodeLost, refuse_silent, retried
from gradmatrix.run.stack import Ran
from gradmatrix.run.store import decode
from gradmatrix.stacks import environment
from gradmatrix.stacks.environment import InstallFailed
from tests.conftest import OLDEST, ROOT, needs_fork, python_of, waits_until
from tests.factories import make_cell
from tests.pretended import EVERYTHING, Watcher, World, pretend
from tests.upgrading import make_checkout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from gradmatrix.run.plan import Selection

TRAINED = Verdict(Outcome(TRAINS), None, "")
A, B, C = (make_cell(variant=name) for name in "abc")


def ran(cell: Cell) -> Ran:
    """A cell that trained."""
    return Ran(cell, Finished(None, TRAINED, "", "fork"))


class RayError(Exception):
    """Fake."""


class RayTaskError(RayError):
    """Fake."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class WorkerCrashedError(RayError):
    """Fake."""


class FakeRay:
    """The part of Ray that is used. Its tasks run in the thread that waits for them."""

    exceptions = SimpleNamespace(
        RayError=RayError,
        RayTaskError=RayTaskError,
        WorkerCrashedError=WorkerCrashedError,
        NodeDiedError=WorkerCrashedError,
        OutOfMemoryError=WorkerCrashedError,
        ObjectLostError=WorkerCrashedError,
    )

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.chdir = root, monkeypatch.chdir
        self.options: list[dict[str, Any]] = []
        self.dies_after: list[int] = []
        """After how many cells each task is lost, one after the other; the next ones live."""
        self.gpus, self.cpus = 0, 2
        self.alone: AbstractContextManager[object] = threading.Lock()
        """Held by each task: most of what pretends is not made for threads."""

    def cluster_resources(self) -> dict[str, float]:
        """Of all nodes."""
        return {"CPU": self.cpus, "GPU": self.gpus} if self.gpus else {"CPU": self.cpus}

    def remote(self, function: Callable[..., Any]) -> SimpleNamespace:
        """A function with its options."""

        def options(**given: object) -> SimpleNamespace:
            self.options.append(given)
            start = self.stream if "num_returns" in given else self.call
            return SimpleNamespace(remote=lambda *arguments: start(function, *arguments))

        return SimpleNamespace(options=options)

    def call(self, function: Callable[..., Any], *arguments: object) -> object:
        """A task with one result."""
        return function(*arguments)

    def stream(self, function: Callable[..., Any], *arguments: object) -> Iterator[object]:
        """A task with many results."""
        with self.alone:
            self.chdir(self.root)
            left = self.dies_after.pop(0) if self.dies_after else 1000
            try:
                for each in function(*arguments):
                    if not left:
                        break
                    left -= 1
                    yield each
                else:
                    return
            except (UserError, InstallFailed) as error:
                raise RayTaskError(error) from error
        raise WorkerCrashedError

    def get(self, value: object) -> object:
        """A result."""
        return value

    def cancel(self, task: object, *, force: bool) -> None:
        """Nothing lives that could be cancelled."""

    def shutdown(self) -> None:
        """Nothing to end."""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Nodes whose servers only pretend."""
    return pretend(monkeypatch)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, world: World) -> FakeRay:
    """A cluster that gets a small checkout."""
    found = FakeRay(make_checkout(tmp_path), monkeypatch)
    monkeypatch.setattr(ray, "connected", lambda *_: found)
    return found


def executed(root: Path, *stacks: str, selection: Selection = EVERYTHING) -> dict[Cell, Record]:
    """Execute stacks on the cluster; what is recorded then, with the summaries checked."""
    project = Project.at(root)
    runs = [project.stack_run(project.matrix.stack(name), Watcher()) for name in stacks]
    with Cluster(project, None) as cluster:
        found = [summary.stack for _, summary in cluster.executed(runs, selection)]
    assert sorted(stacks) == sorted(found)
    return {
        cell: record
        for name in stacks
        for cell, record in Project.at(root).store.recorded_here(name).items()
    }


def outcomes(records: dict[Cell, Record]) -> dict[str, str]:
    """The outcome of each cell."""
    return {f"{cell.stack}/{cell.variant}": record.outcome for cell, record in records.items()}


def test_a_lost_node_loses_no_cell() -> None:
    """What it finished counts. The rest runs in another task, and the repeat is counted."""
    asked: list[list[Cell]] = []

    def task(due: dict[Cell, str]) -> Iterator[Ran]:
        asked.append(list(due))
        yield ran(next(iter(due)))
        if len(asked) == 1:
            raise NodeLost
        yield from map(ran, list(due))

    found = list(retried({A: "1", B: "2", C: "3"}, task, str))
    assert [[A, B, C], [B, C]] == asked
    assert [A, B, C] == [each.cell for each in found]
    assert [{}, {"process:lost": 1}, {}] == [dict(each.repeated) for each in found]


def test_a_cell_is_lost_if_all_attempts_are() -> None:
    """Only the one that was next: the others still run."""
    attempts = 0

    def task(due: dict[Cell, str]) -> Iterator[Ran]:
        nonlocal attempts
        if A in due:
            attempts += 1
            raise NodeLost
        yield from map(ran, list(due))

    found = list(retried({A: "1", B: "2"}, task, str))
    assert pool.ATTEMPTS == attempts
    assert [(A, "process:lost"), (B, "trains")] == [
        (each.cell, str(each.finished.verdict.outcome)) for each in found
    ]


def test_a_cluster_gives_the_records_of_one_machine(fake: FakeRay, tmp_path: Path) -> None:
    """With the same keys; what need not run is settled by the driver."""
    there = executed(fake.root, "first", "second")
    project = Project.at(fake.root, results=tmp_path / "apart")
    for name in ("first", "second"):
        project.stack_run(project.matrix.stack(name), Watcher()).execute(EVERYTHING)
    here = {
        cell: record
        for name in ("first", "second")
        for cell, record in project.store.recorded_here(name).items()
    }
    assert outcomes(here) == outcomes(there)
    assert {cell: record.key for cell, record in here.items()} == {
        cell: record.key for cell, record in there.items()
    }
    assert {"setup:unsupported"} == {here[cell].outcome for cell in here if cell.variant == "newer"}


def test_a_task_asks_for_cores_and_has_no_repeats_of_rays(fake: FakeRay) -> None:
    """A repeat by Ray would run cells that are recorded."""
    executed(fake.root, "first")
    asked = fake.options[-1]
    assert (1, 0, 0) == (asked["num_cpus"], asked["num_gpus"], asked["max_retries"])


def test_cells_on_cuda_get_a_gpu_of_their_own(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a task of their own: the cells on the CPU do not hold a GPU."""
    fake.gpus = 1
    monkeypatch.setattr(environment, "gpu_name", lambda: "NVIDIA Test")
    path = fake.root / "matrix.toml"
    text = path.read_text(encoding="utf-8")
    assert 'devices = ["cpu"]' in text
    path.write_text(text.replace('["cpu"]', '["cpu", "cuda"]'), encoding="utf-8")
    records = executed(fake.root, "first")
    streamed = [each for each in fake.options if "num_returns" in each]
    assert [("first on cpu", 0), ("first on cuda", 1)] == [
        (each["name"], each["num_gpus"]) for each in streamed
    ]
    assert {"NVIDIA Test"} == {
        record.device for cell, record in records.items() if cell.device == "cuda"
    }


def test_a_cluster_without_a_gpu_has_no_such_device(fake: FakeRay) -> None:
    """Nothing waits for a GPU that never comes."""
    path = fake.root / "matrix.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('["cpu"]', '["cpu", "cuda"]'), encoding="utf-8")
    records = executed(fake.root, "first")
    assert {"setup:no-device"} == {
        record.outcome for cell, record in records.items() if cell.device == "cuda"
    }


def test_a_worker_that_dies_is_replaced(fake: FakeRay, world: World) -> None:
    """Its finished cell is not run again."""
    fake.dies_after = [1]
    found = outcomes(executed(fake.root, "first"))
    assert ("trains", "trains") == (found["first/plain"], found["first/reported"])
    assert 1 == world.asked.count("sums/plain")


def test_a_node_with_other_inputs_runs_nothing(fake: FakeRay, world: World) -> None:
    """Another scenario there would give records under a wrong key."""
    project = Project.at(fake.root)
    run = project.stack_run(project.matrix.stack("first"), Watcher())
    path = fake.root / "scenarios" / "sums.py"
    path.write_text(path.read_text(encoding="utf-8") + "FACTOR = 3\n", encoding="utf-8")
    with (
        Cluster(project, None) as cluster,
        pytest.raises(UserError, match="planned for something else"),
    ):
        list(cluster.executed([run], EVERYTHING))
    assert [] == world.started


def test_a_stack_that_cannot_be_installed_on_a_node_fills_its_column(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on one machine."""

    def ensure(*_: object, **__: object) -> None:
        raise InstallFailed(Failure(outcome="install:build", message="no wheel"))

    monkeypatch.setattr(environment, "ensure", ensure)
    found = outcomes(executed(fake.root, "first"))
    assert ("install:build", "install:build") == (found["first/plain"], found["first/reported"])


def test_the_error_of_one_stack_waits_for_the_others(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their cells are recorded."""
    real = environment.ensure

    def ensure(lock: Any, *rest: Any, **more: Any) -> object:  # noqa: ANN401  (as the real one)
        if lock.stack == "first":
            raise InstallFailed(Failure(outcome="install:network", message="no route"))
        return real(lock, *rest, **more)

    monkeypatch.setattr(environment, "ensure", ensure)
    project = Project.at(fake.root)
    runs = [project.stack_run(project.matrix.stack(n), Watcher()) for n in ("first", "second")]
    with Cluster(project, None) as cluster, pytest.raises(UserError, match="install:network"):
        list(cluster.executed(runs, EVERYTHING))
    found = outcomes(Project.at(fake.root).store.recorded_here("second"))
    assert "trains" == found["second/plain"]


def test_ray_gets_so_many_stacks_at_once(fake: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next stack is given to it when one has ended, so the driver's memory is bounded."""
    monkeypatch.setattr(ray, "IN_FLIGHT", 1)
    project = Project.at(fake.root)
    began = Counter[str]()

    def runs() -> Iterator[Any]:
        for name in ("first", "second"):
            began[name] += 1
            yield project.stack_run(project.matrix.stack(name), Watcher())

    with Cluster(project, None) as cluster:
        ended = cluster.executed(runs(), EVERYTHING)
        next(ended)
        assert {"first": 1} == began
        assert 1 == len(list(ended))


def test_what_killed_upgrades_left_on_a_node_is_deleted(
    fake: FakeRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sides of this one stay."""
    monkeypatch.setenv("GRADMATRIX_CACHE_DIR", str(tmp_path / "node"))
    environments = tmp_path / "node" / "environments"
    for name in ("+left", "+side", "second"):
        (environments / name).mkdir(parents=True)
    project = Project.at(fake.root)
    run = project.stack_run(project.matrix.stack("first"), Watcher())
    with Cluster(project, None) as cluster:
        cluster.sides.add("+side")
        list(cluster.executed([run], EVERYTHING))
    assert {"+side", "second"} == {path.name for path in environments.glob("[!.]*")}


def test_a_script_of_the_command_line_runs_on_a_node(
    fake: FakeRay, tmp_path: Path, world: World
) -> None:
    """It has the key that it has here; one outside of the project cannot be sent."""
    outside = tmp_path.parent / f"{tmp_path.name}.py"
    for path in (fake.root / "train.py", outside):
        path.write_text("import torch\n", encoding="utf-8")
    project = Project.at(fake.root)
    run = project.stack_run(project.matrix.stack("first"), Watcher())
    inside, elsewhere = own_scripts([str(fake.root / "train.py"), str(outside)], None, project)
    with Cluster(project, None) as cluster:
        list(cluster.executed([replace(run, scenarios=(inside,))], EVERYTHING))
        assert ["train/script"] == world.asked
        with pytest.raises(UserError, match="cannot be sent"):
            list(cluster.executed([replace(run, scenarios=(elsewhere,))], EVERYTHING))


def test_a_matrix_outside_of_the_project_is_bad_input(fake: FakeRay, tmp_path: Path) -> None:
    """Nodes get the project's folder only."""
    elsewhere = tmp_path.parent / f"{tmp_path.name}.toml"
    with pytest.raises(UserError, match="cannot be sent"):
        Cluster(Project.at(fake.root, matrix_file=elsewhere), None)


COMMANDS = (
    ["run", "first"],
    ["upgrade", "first", "--to", "second"],
    ["bisect", "sums/plain", "--good", "first", "--bad", "second"],
    ["flips", "--budget", "1m"],
)


@pytest.mark.parametrize("words", COMMANDS)
def test_without_ray_the_error_says_what_to_install(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    """The exit code is 2."""
    monkeypatch.setitem(sys.modules, "ray", None)
    root = make_checkout(tmp_path)
    assert 2 == main([*words, "--root", str(root), "--on", "ray"])
    assert 'pip install "gradmatrix[ray]"' in capsys.readouterr().err


@pytest.mark.parametrize("words", COMMANDS)
def test_an_address_without_a_cluster_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """--address alone says nothing."""
    root = make_checkout(tmp_path)
    assert 2 == main([*words, "--root", str(root), "--address", "127.0.0.1:1"])
    assert "add --on ray" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--budget", "1cells"],
        [*COMMANDS[1], "--keep"],
        [*COMMANDS[2], "--metric", "peak_memory"],
        ["flips"],
    ],
)
def test_what_means_nothing_on_a_cluster_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """It is said before anything runs."""
    root = make_checkout(tmp_path)
    assert 2 == main([*words, "--root", str(root), "--on", "ray"])
    assert "cannot be used with --on ray" in capsys.readouterr().err


def test_an_environment_of_this_machine_is_refused_on_a_cluster(fake: FakeRay) -> None:
    """Nodes do not have it."""
    options = SimpleNamespace(on="ray")
    side = SimpleNamespace(interpreter=Path("python"), name=".venv")
    with pytest.raises(UserError, match="cannot be used with --on ray"):
        refuse_in_place(options, SimpleNamespace(side=side))  # type: ignore[arg-type]


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:99999999", "ray://127.0.0.1:1"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    """Before Ray tries it."""
    with pytest.raises(UserError, match="No Ray cluster answers"):
        refuse_silent(address)


@pytest.fixture
def answering() -> Iterator[Callable[[bytes], str]]:
    """Starts a listener that answers once; returns its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads = []

        def answer(content: bytes) -> str:
            def serve() -> None:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(100)
                    connection.sendall(content)

            threads.append(threading.Thread(target=serve))
            threads[-1].start()
            return f"127.0.0.1:{listener.getsockname()[1]}"

        yield answer
        for thread in threads:
            thread.join()


def test_what_answers_must_be_ray(answering: Callable[[bytes], str]) -> None:
    """Ray itself would try for minutes, and then abort."""
    with pytest.raises(UserError) as caught:
        refuse_silent(answering(b"HTTP/1.1 400 Bad Request\r\n"))
    assert "something else answers there" == caught.value.cause


def test_what_answers_as_ray_does_is_tried(answering: Callable[[bytes], str]) -> None:
    """A frame of settings comes first."""
    refuse_silent(answering(ray.SETTINGS))


needs_ray = pytest.mark.skipif(
    find_spec("ray") is None, reason='Ray is not installed: pip install "gradmatrix[ray]"'
)
SCENARIO = "amp_manual_optimization"
COMMAND = ["run", OLDEST, "--device", "cpu", "--scenario", SCENARIO, "--no-table"]


@dataclass(frozen=True)
class Nodes:
    """A real cluster: its address, the process of each node, and where nodes keep their files."""

    address: str
    raylets: tuple[int, ...]
    folder: Path

    def start(self, results: Path, command: Sequence[str] = COMMAND) -> subprocess.Popen[bytes]:
        """A run on the cluster."""
        words = [*command, "--on", "ray", "--address", self.address, "--results", str(results)]
        return subprocess.Popen([sys.executable, "-m", "gradmatrix", *words], cwd=ROOT)

    def kill_busy_one(self) -> None:
        """Kill a node that runs a stack, with its workers, as if its machine were gone."""
        assert waits_until(lambda: self.busy)
        busy = self.busy[0]
        for process in (busy, *children_of(busy)):
            os.kill(process, signal.SIGKILL)

    @property
    def busy(self) -> list[int]:
        """The nodes that run a stack."""
        return [
            raylet
            for raylet in self.raylets
            if any(" on cpu" in command_of(worker) for worker in children_of(raylet))
        ]

    @property
    def is_idle(self) -> bool:
        """Whether no process of a cell is left."""
        mark = str(self.folder / "environments")
        return not any(
            command_of(int(path.name)).startswith(mark) for path in Path("/proc").glob("[0-9]*")
        )


def command_of(process: int) -> str:
    """The command line of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().decode().replace("\0", " ")
    except OSError:
        return ""


def children_of(process: int) -> list[int]:
    """The processes that a process started."""
    path = Path(f"/proc/{process}/task/{process}/children")
    return [int(word) for word in path.read_text(encoding="ascii").split()]


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    """Two nodes of Ray's own cluster utility."""
    python_of(OLDEST)  # so that its packages are in uv's cache
    monkeypatch.setenv("GRADMATRIX_CACHE_DIR", str(tmp_path / "node"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT / "harness"), str(ROOT))))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    command = [sys.executable, "-m", "tests.nodes"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            raylets = [int(process.stdout.readline()) for _ in range(2)]
            yield Nodes(process.stdout.readline().strip(), tuple(raylets), tmp_path / "node")
        finally:
            process.terminate()


def ran_cells(results: Path) -> list[Record]:
    """The records of cells that ran, in the order of the journal."""
    journal = results / ".gradmatrix" / "records" / f"{OLDEST}.jsonl"
    lines = journal.read_bytes().splitlines() if journal.exists() else []
    return [record for record in map(decode, lines) if record.observation is not None]


@pytest.mark.slow
@needs_fork
@needs_ray
def test_a_killed_node_changes_nothing_in_the_matrix(nodes: Nodes, tmp_path: Path) -> None:
    """Each cell runs once, and its record is that of one machine."""
    there, here = tmp_path / "there", tmp_path / "here"
    with nodes.start(there) as run:
        assert waits_until(lambda: len(ran_cells(there)) >= 3)
        nodes.kill_busy_one()
        assert 0 == run.wait()
    assert 0 == main([*COMMAND, "--results", str(here)])
    assert [
        (record.cell, record.key, record.outcome, record.gradient, record.passed, record.message)
        for record in ran_cells(here)
    ] == [
        (record.cell, record.key, record.outcome, record.gradient, record.passed, record.message)
        for record in ran_cells(there)
    ]


@pytest.mark.slow
@needs_fork
@needs_ray
def test_a_killed_driver_leaves_no_process_and_goes_on(nodes: Nodes, tmp_path: Path) -> None:
    """Ray ends its tasks. The same command runs the rest."""
    results = tmp_path / "results"
    with nodes.start(results) as run:
        assert waits_until(lambda: len(ran_cells(results)) >= 3)
        run.kill()
    assert waits_until(lambda: nodes.is_idle)
    finished = ran_cells(results)
    with nodes.start(results) as run:
        assert 0 == run.wait()
    found = ran_cells(results)
    assert finished == found[: len(finished)]
    assert len(found) == len({record.cell for record in found}) > len(finished)
