"""What other people's code sees."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gradmatrix.stacks import sandbox

if TYPE_CHECKING:
    from pathlib import Path

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")
SECRETS = dict.fromkeys(
    ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "WANDB_API_KEY", "HTTPS_PROXY"), "canary"
)
LOOK_AROUND = """
import contextlib, os, pathlib
for place in pathlib.Path("/proc").glob("[0-9]*/environ"):
    with contextlib.suppress(OSError):
        print(place.read_bytes())
"""
SIGNAL = "import os; os.kill(os.getppid(), 0)"
CONNECT = """
import errno, socket
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname()).close()
try:
    socket.create_connection(("192.0.2.1", 9), timeout=5)
except OSError as error:
    print(errno.errorcode.get(error.errno))
"""


def run_alone(script: str, **extra: str) -> subprocess.CompletedProcess[str]:
    """``script`` as a cell would run it."""
    command = sandbox.alone([sys.executable, "-c", script])
    variables = sandbox.variables(1, environ={**os.environ, **extra})
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def test_a_cell_sees_no_secret() -> None:
    """Variables are chosen by name: what nobody thought of stays outside."""
    made = sandbox.variables(
        2, environ={**SECRETS, "PATH": "/bin", "LC_ALL": "C", "PYTHONPATH": "/host"}
    )
    assert not set(made) & {*SECRETS, "PYTHONPATH"}
    assert (made["PATH"], made["LC_ALL"], made["OMP_NUM_THREADS"]) == ("/bin", "C", "2")


@ON_LINUX
def test_what_a_killed_run_left_is_found_by_its_home(tmp_path: Path) -> None:
    """A process in a session of its own ends; one with another home goes on."""
    waiting = [sys.executable, "-c", "print(flush=True); input()"]
    homes = {name: sandbox.home(tmp_path / name / "server" / "home") for name in ("left", "other")}
    left, other = (
        subprocess.Popen(
            waiting,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            start_new_session=True,
        )
        for env in homes.values()
    )
    for each in (left, other):  # on a busy machine its variables are not there at once
        assert each.stdout is not None
        each.stdout.readline()
    sandbox.end_processes(tmp_path / "left")
    other.communicate(b"\n")
    left.communicate()
    assert (-signal.SIGKILL, 0) == (left.returncode, other.returncode)


def test_home_and_its_caches_are_a_folder_of_the_run(tmp_path: Path) -> None:
    """A library that writes into the home writes into this folder."""
    folder = tmp_path / "home"
    script = "import os, pathlib; print(pathlib.Path.home(), os.path.expanduser('~/.cache'))"
    variables = {**sandbox.variables(1), **sandbox.home(folder)}
    ran = subprocess.run(
        [sys.executable, "-c", script], env=variables, capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == [str(folder), f"{folder}/.cache"]


def test_own_scripts_find_downloaded_models_and_no_token() -> None:
    """The cache of models is shown by name, not the folder with the token beside it."""
    shown = sandbox.variables(1, own=True, environ={"HF_HOME": "/data/hf"})
    assert (shown["HF_HUB_CACHE"], shown["HF_DATASETS_CACHE"]) == (
        "/data/hf/hub",
        "/data/hf/datasets",
    )
    assert "HF_HOME" not in shown


@ON_LINUX
def test_a_cell_cannot_read_variables_of_other_processes() -> None:
    """The host's own variables hold the user's tokens, and it runs as the same user."""
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={**os.environ, **SECRETS}
    ) as beside:
        ran = run_alone(LOOK_AROUND)
        beside.kill()
    assert "HF_HUB_OFFLINE" in ran.stdout, ran.stderr  # it sees its own
    assert "canary" not in ran.stdout


@ON_LINUX
def test_a_cell_cannot_signal_a_process_outside() -> None:
    """Nothing of the user's is killed by a package that signals whatever it finds."""
    assert "PermissionError" in run_alone(SIGNAL).stderr


@ON_LINUX
@pytest.mark.skipif(not sandbox.takes_network_away(), reason="not allowed on this system")
def test_a_cell_has_the_loopback_interface_only() -> None:
    """A server on this machine can be reached, and nothing else: at once, without a timeout."""
    ran = run_alone(CONNECT)
    assert ran.stdout.strip() == "ENETUNREACH", ran.stderr


@ON_LINUX
def test_where_the_network_stays_the_rest_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that forbids network namespaces still has domains."""
    monkeypatch.setattr(sandbox, "takes_network_away", lambda: False)
    interfaces = "import socket; print(socket.if_nameindex())"
    assert str(socket.if_nameindex()) == run_alone(interfaces).stdout.strip()
    assert "PermissionError" in run_alone(SIGNAL).stderr


@ON_LINUX
def test_the_process_stays_the_same() -> None:
    """Its exit code and its signals are those of the command."""
    assert run_alone("raise SystemExit(7)").returncode == 7
    assert run_alone("import os; os.abort()").returncode == -6


def test_what_cells_see_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's variables are named, the others have their values."""
    for taken, said in ((True, "Cells have no network."), (False, sandbox.WITH_NETWORK)):
        monkeypatch.setattr(sandbox, "takes_network_away", lambda taken=taken: taken)
        text = sandbox.explanation({**SECRETS, "LANG": "C"})
        assert said in text
        assert "of your environment variables: LANG. " in text
        assert "HF_HUB_OFFLINE=1" in text
        assert "HF_TOKEN" not in text
