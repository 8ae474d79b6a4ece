"""Scripts that hang, crash, flood or leave processes behind.

Each gets its outcome, and the next cell runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gradmatrix.core import files
from gradmatrix.judge.verdict import judge
from gradmatrix.run.server import Request, Server, ServerDied, read_observation
from tests.conftest import (
    FAKES,
    OLDEST,
    PATIENCE_S,
    ROOT,
    Ran,
    Workbench,
    ends,
    needs_fork,
    python_of,
    waits_until,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

HALF_GIB = 2**29
SHORT_S = 2.0
"""Long enough to start, and all that a script which never ends is given."""

pytestmark = needs_fork


@pytest.fixture
def fresh_bench(tmp_path: Path) -> Iterator[Workbench]:
    """A process of its own for one cell, instead of a fork."""
    bench = Workbench(OLDEST, tmp_path, ("process", "training"), fork=False)
    yield bench
    bench.close()


def stopped_asleep(bench: Workbench, variant: str) -> Ran:
    """A fake that hangs, stopped by a timeout that left it time to write its process id."""
    for timeout_s in (SHORT_S, 10 * SHORT_S, PATIENCE_S):
        ran = bench.run(variant, timeout_s=timeout_s)
        if (ran.directory / "sleeper.txt").exists():
            break
    return ran


def sleeper(directory: Path) -> int:
    """The process that a fake left sleeping, once it has written its id."""
    path = directory / "sleeper.txt"
    assert waits_until(lambda: path.exists() and path.read_text(encoding="ascii"))
    return int(path.read_text(encoding="ascii"))


@pytest.mark.parametrize(
    ("variant", "outcome"),
    [
        ("healthy", "trains"),
        ("segfault", "process:signal-11"),
        ("abort", "process:signal-6"),
        ("bus_error_in_training", "process:signal-7"),
        ("os_exit_3", "process:exit-3"),
        ("sys_exit_0", "process:exit-0"),
        ("sys_exit_3", "process:exit-3"),
        ("interrupts_itself", "setup:exception"),
        ("close_output", "trains"),
        ("write_to_events", "trains"),
        ("kill_server", "process:lost"),
    ],
)
def test_a_process_gets_its_outcome(process_bench: Workbench, variant: str, outcome: str) -> None:
    """However the process ends, the outcome names it, and the next cell trains."""
    assert (outcome, "trains") == (
        process_bench.run(variant).outcome,
        process_bench.run("healthy").outcome,
    )


@pytest.mark.parametrize("variant", ["hang", "hang_deaf", "grandchild_then_hang", "flood"])
def test_a_script_that_never_ends_is_stopped(process_bench: Workbench, variant: str) -> None:
    """It gets a timeout, and the server that forked it runs the next cell."""
    server = process_bench.living_server()
    outcome = process_bench.run(variant, timeout_s=SHORT_S).outcome
    assert ("process:timeout", "trains") == (outcome, process_bench.run("healthy").outcome)
    assert server is process_bench.server


@pytest.mark.parametrize("variant", ["hang_deaf", "grandchild_then_hang"])
def test_a_timeout_ends_the_whole_group(process_bench: Workbench, variant: str) -> None:
    """Neither the script nor a process that it started goes on."""
    assert ends(sleeper(stopped_asleep(process_bench, variant).directory))


@pytest.mark.parametrize("variant", ["grandchild", "daemon"])
def test_what_a_script_leaves_running_is_ended(process_bench: Workbench, variant: str) -> None:
    """A script that leaves a process behind trains.

    The process is ended, in whatever group it is.
    """
    ran = process_bench.run(variant)
    assert ran.outcome == "trains"
    assert ends(sleeper(ran.directory))


def test_what_a_killed_script_leaves_running_is_ended(process_bench: Workbench) -> None:
    """This also holds if the script kills the server."""
    ran = process_bench.run("grandchild_then_kill_server")
    assert ran.outcome == "process:lost"
    assert ends(sleeper(ran.directory))


def test_no_cell_outlives_a_killed_run(tmp_path: Path) -> None:
    """The host is killed and cannot clean up. Its server and the cell end too."""
    code = (
        "import sys; from pathlib import Path; from tests.conftest import Workbench;"
        f"Workbench({OLDEST!r}, Path(sys.argv[1]), ('process',)).run('hang')"
    )
    python_of(OLDEST)
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT) as host:
        try:
            cell = sleeper(tmp_path / "2")  # 1 is the server's
            server = int(
                Path(f"/proc/{cell}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
            )
        finally:
            host.kill()
    assert [True, True] == [ends(cell), ends(server)]


@pytest.mark.parametrize("variant", ["exhaust_tensors", "exhaust_objects"])
def test_memory_is_limited(process_bench: Workbench, variant: str) -> None:
    """The limit stops the script and not the machine."""
    ran = process_bench.run(variant, memory_bytes=HALF_GIB)
    assert "process:out-of-memory" == ran.outcome
    assert (ran.seen.peak_memory_bytes or 0) - (ran.seen.start_memory_bytes or 0) < 2 * HALF_GIB


def test_memory_is_limited_on_top_of_what_the_libraries_take(process_bench: Workbench) -> None:
    """A small script trains within a limit that is smaller than torch."""
    assert (
        "trains" == process_bench.run("healthy").outcome
    )  # what it imports late, the server has from now on
    assert "trains" == process_bench.run("healthy", memory_bytes=HALF_GIB // 8).outcome


def test_a_message_about_memory_at_the_end_is_recognised(process_bench: Workbench) -> None:
    """A library that fails to allocate memory says so at the end of its output.

    The output may be long.
    """
    assert "process:out-of-memory" == process_bench.run("died_saying_out_of_memory").outcome


def test_a_flood_of_output_is_cut_back(process_bench: Workbench) -> None:
    """At most the limit of 64 MiB stays on disk, and it is the end of the output."""
    ran = process_bench.run("flood_then_train")
    assert "trains" == ran.outcome
    assert (ran.directory / "output.txt").stat().st_size <= files.OUTPUT_LIMIT_BYTES
    assert ran.answer.ended.output_tail.endswith("xxx\nthe end\n")


@pytest.mark.parametrize(
    ("script", "outcome"),
    [("importing_dies", "process:signal-11"), ("importing_exits", "process:exit-3")],
)
def test_a_death_while_importing_is_reported(tmp_path: Path, script: str, outcome: str) -> None:
    """The server ends while it imports, and the error says how."""
    bench = Workbench(OLDEST, tmp_path, (script,))
    with pytest.raises(ServerDied) as raised:
        bench.living_server()
    assert outcome == str(judge(None, raised.value.ended).outcome)


def test_a_failed_import_does_not_harm_its_neighbours(tmp_path: Path) -> None:
    """The exception of each script's import is reported, and the healthy script runs."""
    scripts = ("importing_raises", "importing_leaves", "importing_misses", "process")
    bench = Workbench(OLDEST, tmp_path, scripts)
    try:
        imports = bench.living_server().imports
        raised = [(error.type, error.message) if error else None for error in imports.values()]
        outcome = bench.run("healthy", script="process").outcome
    finally:
        bench.close()
    assert [str(FAKES / f"{name}.py") for name in scripts] == list(imports)
    assert [
        ("RuntimeError", "no import today"),
        ("SystemExit", "this library wants a display"),
        ("ModuleNotFoundError", "No module named 'a_module_that_nobody_has'"),
        None,
    ] == raised
    assert "trains" == outcome


@pytest.mark.parametrize(
    ("variant", "outcome"),
    [
        ("healthy", "trains"),
        ("segfault", "process:signal-11"),
        ("os_exit_3", "process:exit-3"),
        ("remove_folder", "process:internal-error"),  # the observation cannot be written
    ],
)
def test_a_fresh_process_gives_the_same_outcome(
    fresh_bench: Workbench, variant: str, outcome: str
) -> None:
    """Without a fork the cell is the server's own process."""
    assert outcome == fresh_bench.run(variant).outcome


def test_a_fresh_process_that_hangs_is_stopped(fresh_bench: Workbench) -> None:
    """The outcome is a timeout here too, and not the signal that ended the process."""
    ran = stopped_asleep(fresh_bench, "grandchild_then_hang")
    assert "process:timeout" == ran.outcome
    assert ends(sleeper(ran.directory))


def test_what_a_fresh_process_leaves_running_is_ended(fresh_bench: Workbench) -> None:
    """Its process group is ended."""
    ran = fresh_bench.run("grandchild")
    assert "trains" == ran.outcome
    assert ends(sleeper(ran.directory))


def test_a_late_import_is_done_once(tmp_path: Path) -> None:
    """The server imports ahead what a cell had to import itself, so the next cell finds it."""
    bench = Workbench(OLDEST, tmp_path, ("process",))
    printed = [bench.run("imports_late").output for _ in range(2)]
    bench.close()
    assert ["imported late\n", "imported already\n"] == printed


@pytest.mark.parametrize("content", [b"", b"nonsense", b'{"schema": 1}', b"\xff", b"[" * 100_000])
def test_an_observation_that_is_not_ours_is_none(tmp_path: Path, content: bytes) -> None:
    """A script may write a file of that name itself, and then be killed."""
    (tmp_path / "observation.json").write_bytes(content)
    assert None is read_observation(tmp_path)


def test_a_folder_called_like_an_observation_is_none(tmp_path: Path) -> None:
    """A script may create such a folder."""
    (tmp_path / "observation.json").mkdir()
    assert None is read_observation(tmp_path)


@pytest.mark.parametrize(
    "line", ["nonsense", "[]", '{"event": "ended", "pid": 1, "signal": 9, "exit": null}']
)
def test_a_server_that_does_not_keep_the_protocol_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """A broken line or an unexpected event is no answer, and no process is left."""
    stand_in = tmp_path / "server.py"
    stand_in.write_text(
        f"print({line!r}, flush=True)\nimport sys\nsys.stdin.read()\n", encoding="utf-8"
    )
    monkeypatch.setattr("gradmatrix.run.server.SERVER", stand_in)
    server = Server(Path(sys.executable), [], tmp_path / "server", os.environ)
    with pytest.raises(ServerDied) as raised:
        server.__enter__()
    assert (True, False) == (raised.value.ended.lost, server.alive)


@pytest.mark.parametrize("pid", [0, 1, -1])
def test_a_process_id_that_names_others_is_never_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: int
) -> None:
    """To the system 0 means the group of the caller, and 1 and -1 mean every process."""
    ready = '{"event": "ready", "import_s": 0, "imports": {}, "threads": 1}'
    started = f'{{"event": "started", "pid": {pid}}}'
    stand_in = tmp_path / "server.py"
    stand_in.write_text(
        f"import sys\nprint({ready!r}, flush=True)\nsys.stdin.readline()\n"
        f"print({started!r}, flush=True)\nsys.stdin.read()\n",
        encoding="utf-8",
    )
    killed: list[int] = []
    monkeypatch.setattr("gradmatrix.run.server.SERVER", stand_in)
    monkeypatch.setattr("gradmatrix.run.server.kill_group", killed.append)
    request = Request(
        stand_in, "any", "cpu", 1, 1, 1, tmp_path / "cell", PATIENCE_S, memory_bytes=None
    )
    with Server(Path(sys.executable), [], tmp_path / "server", os.environ) as server:
        assert server.run(request).ended.lost
    assert 1 == len(killed)
    assert killed[0] > 1


def test_a_closed_server_is_not_killed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have its id by then."""
    bench = Workbench(OLDEST, tmp_path, ("process",))
    server = bench.living_server()
    server.close()
    killed: list[int] = []
    monkeypatch.setattr("gradmatrix.run.server.kill_group", killed.append)
    server.close()
    assert [] == killed


def test_a_server_leaves_nothing_open(tmp_path: Path) -> None:
    """It leaves no open descriptor in this process, and no process."""
    bench = Workbench(OLDEST, tmp_path, ("process",))
    before = sorted(Path("/proc/self/fd").iterdir())
    server = bench.living_server()
    bench.close()
    assert before == sorted(Path("/proc/self/fd").iterdir())
    assert not server.alive
