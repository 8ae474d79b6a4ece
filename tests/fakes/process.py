"""Training scripts that go wrong as processes: one variant for each way not to return from `train`.

`python process.py VARIANT` really does it. Nothing here is imported by a test: the server runs it.
"""

# variants import torch and rarely needed modules themselves; a script prints
# ruff: noqa: PLC0415, T201

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import NoReturn

NEEDS = ("torch",)

VARIANTS = {
    "healthy": {"role": "control", "summary": "trains"},
    "hang": {"role": "reported", "summary": "sleeps for ever"},
    "hang_deaf": {"role": "reported", "summary": "sleeps for ever and ignores SIGTERM and SIGINT"},
    "segfault": {"role": "reported", "summary": "ends by SIGSEGV"},
    "abort": {"role": "reported", "summary": "ends by SIGABRT"},
    "bus_error_in_training": {
        "role": "reported",
        "summary": "ends by SIGBUS after two optimizer steps",
    },
    "exhaust_tensors": {"role": "reported", "summary": "allocates tensors without end"},
    "exhaust_objects": {"role": "reported", "summary": "allocates Python objects without end"},
    "died_saying_out_of_memory": {
        "role": "reported",
        "summary": "floods, prints bad_alloc and exits with 1",
    },
    "os_exit_3": {"role": "reported", "summary": "os._exit(3)"},
    "os_exit_0": {"role": "reported", "summary": "os._exit(0)"},
    "sys_exit_0": {"role": "reported", "summary": "sys.exit(0)"},
    "sys_exit_3": {"role": "reported", "summary": "sys.exit(3)"},
    "interrupts_itself": {"role": "reported", "summary": "raises KeyboardInterrupt"},
    "flood": {"role": "reported", "summary": "prints without end"},
    "flood_then_train": {"role": "control", "summary": "prints 64 MiB, then trains"},
    "flood_2_gib": {"role": "control", "summary": "prints 2 GiB, then trains"},
    "grandchild": {"role": "control", "summary": "forks a process that outlives it, then trains"},
    "daemon": {"role": "control", "summary": "starts a process of another session, then trains"},
    "grandchild_then_hang": {
        "role": "reported",
        "summary": "forks a process, then sleeps for ever",
    },
    "grandchild_then_kill_server": {
        "role": "reported",
        "summary": "forks a process, then kills its own parent",
    },
    "daemon_then_hang": {
        "role": "reported",
        "summary": "starts a process of another session, then sleeps for ever",
    },
    "imports_late": {
        "role": "control",
        "summary": "prints what it must import by itself, then trains",
    },
    "close_output": {
        "role": "control",
        "summary": "closes its standard output and error, then trains",
    },
    "write_to_events": {
        "role": "control",
        "summary": "writes to every descriptor it can, then trains",
    },
    "kill_server": {"role": "reported", "summary": "kills the process that forked it"},
    "remove_folder": {"role": "control", "summary": "deletes the folder of its files, then trains"},
    "remove_folder_once": {
        "role": "control",
        "summary": "deletes the folders of all cells at the first attempt, then trains",
    },
    "truncate_observation": {
        "role": "reported",
        "summary": "writes half an observation and leaves",
    },
    "forge_others": {
        "role": "control",
        "summary": "writes a segfault's observation into every folder it can find, then trains",
    },
    "tell_everything": {
        "role": "reported",
        "summary": "prints, warns of and raises all that it can see",
    },
}

MIB = 2**20


def train(variant: str, device: str, steps: int) -> None:
    """Do what the variant's summary says."""
    if variant != "healthy":
        globals()[variant]()
    learn(device, steps)


def learn(device: str, steps: int) -> None:
    """Train one linear layer."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(8, 4, device=device)
    for _ in range(steps):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()


def hang() -> NoReturn:
    """Sleep forever, with the process id in a file."""
    Path("sleeper.txt").write_text(str(os.getpid()), encoding="ascii")
    while True:
        time.sleep(60)


def hang_deaf() -> NoReturn:
    """Sleep for ever whatever polite signal comes."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    hang()


def segfault() -> None:
    """Die as a broken extension module does."""
    os.kill(os.getpid(), signal.SIGSEGV)


def abort() -> None:
    """Die as a failed assertion in C++ does."""
    os.kill(os.getpid(), signal.SIGABRT)


def bus_error_in_training() -> None:
    """Die in the midst of training."""
    learn("cpu", 2)
    os.kill(os.getpid(), signal.SIGBUS)


def exhaust_tensors() -> NoReturn:
    """Take memory until torch's allocator gets no more."""
    import torch

    kept = []
    while True:
        kept.append(torch.ones(16 * MIB))


def exhaust_objects() -> NoReturn:
    """Take memory until Python gets no more."""
    kept = []
    while True:
        kept.append(bytearray(64 * MIB))


def died_saying_out_of_memory() -> NoReturn:
    """The last words of a C++ library, after much output."""
    flood_of(32)
    print("terminate called after throwing an instance of 'std::bad_alloc'", flush=True)
    os._exit(1)


def os_exit_3() -> NoReturn:
    """Leave without unwinding."""
    os._exit(3)


def os_exit_0() -> NoReturn:
    """Leave without unwinding, as if all were well."""
    os._exit(0)


def sys_exit_0() -> NoReturn:
    """Leave as if all were well."""
    sys.exit(0)


def sys_exit_3() -> NoReturn:
    """Leave with a status."""
    sys.exit(3)


def interrupts_itself() -> NoReturn:
    """Stop as at Ctrl-C."""
    raise KeyboardInterrupt


def flood() -> NoReturn:
    """Print until the process is killed."""
    while True:
        flood_of(1)


def flood_then_train() -> None:
    """Print a lot, but not for ever."""
    flood_of(64)
    print("the end", flush=True)


def flood_2_gib() -> None:
    """Print more than anybody keeps."""
    flood_of(2048)


def flood_of(mebibytes: int) -> None:
    """Print that much."""
    for _ in range(mebibytes):
        sys.stdout.write(("x" * 1023 + "\n") * 1024)
    sys.stdout.flush()


def grandchild() -> None:
    """Leave a process behind, as a data loader that is not shut down does."""
    if os.fork() == 0:
        hang()
    while not Path("sleeper.txt").exists():
        time.sleep(0.01)


def daemon() -> None:
    """Leave a process behind that is in no group of the cell's."""
    if os.fork() == 0:
        os.setsid()
        hang()
    while not Path("sleeper.txt").exists():
        time.sleep(0.01)


def grandchild_then_hang() -> NoReturn:
    """Hang while a process of its own sleeps too."""
    grandchild()
    while True:
        time.sleep(60)


def grandchild_then_kill_server() -> NoReturn:
    """Take the server away while a process of its own sleeps."""
    grandchild()
    kill_server()


def daemon_then_hang() -> NoReturn:
    """Hang beside a process that is in no group of the cell's."""
    daemon()
    hang()


def imports_late() -> None:
    """Import what is rarely needed."""
    print("imported already" if "mailbox" in sys.modules else "imported late", flush=True)
    import mailbox  # noqa: F401  (the point)


def close_output() -> None:
    """Close what others would print to."""
    os.close(1)
    os.close(2)
    sys.stdout.close()
    sys.stderr.close()


def write_to_events() -> None:
    """Write what looks like an answer wherever it can be written."""
    for descriptor in range(64):
        try:
            os.write(
                descriptor,
                b'{"event": "ended", "pid": 1, "signal": 9, "exit": null, "wall_s": 0}\n',
            )
        except OSError:
            continue


def kill_server() -> NoReturn:
    """Take the server away, and so itself."""
    os.kill(os.getppid(), signal.SIGKILL)
    while True:
        time.sleep(60)


def remove_folder() -> None:
    """Take away the folder that the observation belongs in."""
    shutil.rmtree(Path.cwd())


def remove_folder_once() -> None:
    """Take away the folders of all cells and servers, unless that was done before."""
    done = Path(__file__).with_name("removed.txt")
    if not done.exists():
        done.write_text("once", encoding="ascii")
        for folder in Path.cwd().parent.parent.iterdir():
            shutil.rmtree(folder, ignore_errors=True)


def truncate_observation() -> NoReturn:
    """Leave what a full disk or a power failure leaves."""
    Path("observation.json").write_text('{"schema": 1, "reached": "do', encoding="ascii")
    os._exit(0)


def forge_others() -> None:
    """Leave a forged answer wherever another cell may look for its own."""
    forged = json.dumps({"schema": 1, **FORGED})
    run = Path.cwd().parent.parent
    for number in range(8):
        (run / f"cell-{number}" / "0").mkdir(parents=True, exist_ok=True)
    for folder in (path for path in run.parent.rglob("*") if path.is_dir()):
        if folder != Path.cwd():
            (folder / "observation.json").write_text(forged, encoding="ascii")


FORGED: dict[str, object] = {
    "reached": "setup",
    "skipped": None,
    "no_device": False,
    "raised": {"type": "RuntimeError", "message": "forged", "traceback": ""},
    "steps": 0,
    "losses": [],
    "last_loss": None,
    "gradient_norms": [],
    "backward": [],
    "parameters": [],
    "lost": [],
    "warnings": [],
    "step_times_s": [],
    "peak_memory_bytes": None,
    "start_memory_bytes": None,
    "wall_s": 0.0,
    "threads": 1,
    "environment": {},
    "observer_errors": [],
}
"""An observation that is whole and says what the cell did not do."""


def tell_everything() -> NoReturn:
    """Pass on every variable and every file that a stranger's script may read."""
    seen = [*map(str, os.environ.items()), *variables_of_others(), *files_at_home()]
    for text in seen:
        print(text, flush=True)
        warnings.warn(text[-1500:], stacklevel=1)
    raise RuntimeError("\n".join(seen)[-1500:])


def variables_of_others() -> list[str]:
    """The environment of every process that may be read."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            found.append(path.read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return found


def files_at_home() -> list[str]:
    """Name and content of every file at home."""
    found = []
    for path in Path.home().rglob("*"):
        try:
            found.append(f"{path} {path.read_bytes().decode(errors='replace')}")
        except OSError:
            continue
    return found


if __name__ == "__main__":
    train(sys.argv[1], "cpu", 4)
