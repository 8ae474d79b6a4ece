"""What other people's code sees: chosen variables, a home of its own, no network.

This file is also a script: ``python -I sandbox.py NETWORK COMMAND …`` isolates itself and then
becomes the command, with the same process id. It enters a Landlock domain, from which it cannot
read the variables or the memory of processes outside, or signal them. If NETWORK is ``without``, it
also enters a network namespace of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if sys.platform == "linux":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEPT = (
    "PATH", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "TEMP", "TMP", "LD_LIBRARY_PATH",
    "CUDA_DEVICE_ORDER", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_VISIBLE_DEVICES",
    "COMSPEC", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT", "WINDIR",
)  # fmt: skip
"""The user's environment variables that a cell sees. ``LC_*`` stands for all that begin so."""
FIXED = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "WANDB_DISABLED": "true",
    "WANDB_MODE": "offline",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # without it cuBLAS is not deterministic
    "USER": "gradmatrix",
    "LOGNAME": "gradmatrix",
}
"""What each cell finds set."""
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
CREATE_RULESET, RESTRICT_SELF = 444, 446  # system calls of Landlock, on every architecture
RULESET_VERSION, MAKE_BLOCK_DEVICE, SCOPES = 1, 1 << 11, 0b11
SCOPES_SINCE = 6  # the version of Landlock from which signals and abstract sockets can be scoped
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
SEES_EVERYTHING = (19, 21, 38)
"""CAP_SYS_PTRACE, CAP_SYS_ADMIN and CAP_PERFMON, with which root reads what a domain hides."""
WITHOUT, WITH = "without", "with"
LAUNCHER = (sys.executable, "-I", str(Path(__file__).resolve()))
WITH_NETWORK = "Cells have a network: this system does not let this user take it away."


def variables(
    threads: int, *, own: bool = False, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The environment variables of cells: those of KEPT, those of FIXED, and this many threads.

    Args:
        threads: For the libraries' pools of threads.
        own: Whether a script of the user's own runs, which may use models that were downloaded.
        environ: The user's variables.
    """
    kept = {name: environ[name] for name in kept_names(environ)}
    pools = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    downloaded = caches(environ) if own else {}
    return {**kept, **FIXED, **downloaded, **dict.fromkeys(pools, str(threads))}


def kept_names(environ: Mapping[str, str]) -> list[str]:
    """The names of the user's variables that a cell sees, sorted."""
    return sorted(
        name for name in environ if any(fnmatchcase(name.upper(), pattern) for pattern in KEPT)
    )


def home(folder: Path) -> dict[str, str]:
    """Environment variables that make ``folder`` the home, with all caches in it; it is created."""
    folder.mkdir(parents=True, exist_ok=True)
    inductor = str(folder / ".cache" / "torchinductor")  # else in the folder for temporary files
    return {"HOME": str(folder), "USERPROFILE": str(folder), "TORCHINDUCTOR_CACHE_DIR": inductor}


def end_processes(folder: Path) -> None:
    """Kill the processes whose home lies in ``folder`` (Linux).

    A process that left the session of its cell outlives a run that was killed. It still has the
    home that :func:`home` gave it.
    """
    mark = b"\0HOME=" + os.fsencode(folder) + b"/"
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in b"\0" + (process / "environ").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


def caches(environ: Mapping[str, str]) -> dict[str, str]:
    """Environment variables that name the folders of downloaded models and data."""
    cache = Path.home() / ".cache"
    hub = Path(environ.get("HF_HOME") or cache / "huggingface")
    models = environ.get("HF_HUB_CACHE") or str(hub / "hub")
    return {
        "HF_HUB_CACHE": models,
        "HUGGINGFACE_HUB_CACHE": models,  # its name in older releases
        "HF_DATASETS_CACHE": environ.get("HF_DATASETS_CACHE") or str(hub / "datasets"),
        "TORCH_HOME": environ.get("TORCH_HOME") or str(cache / "torch"),
    }


def alone(command: Sequence[str]) -> list[str]:
    """``command``, without the network and other processes as far as the system allows.

    Only Linux allows it. On other systems this is the command as it is.

    Raises:
        FileNotFoundError: if there is no such program
    """
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    if sys.platform != "linux":
        return list(command)
    return [*LAUNCHER, WITHOUT if takes_network_away() else WITH, *command]


@cache
def takes_network_away() -> bool:
    """Whether this user may start a process without the network here. One attempt, remembered."""
    if sys.platform != "linux":
        return False
    tried = [*LAUNCHER, WITHOUT, sys.executable, "-I", "-c", ""]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


def explanation(environ: Mapping[str, str] = os.environ) -> str:
    """What cells see of this machine, in words."""
    names = ", ".join(kept_names(environ)) or "none"
    network = "Cells have no network." if takes_network_away() else WITH_NETWORK
    fixed = ", ".join(f"{name}={value}" for name, value in FIXED.items())
    return (
        f"Cells see these of your environment variables: {names}. "
        f"These are set: {fixed}. Home and caches are an empty folder. {network}"
    )


def main(network: str, *command: str) -> None:
    """Become ``command`` in a domain; if ``network`` says so, without a network.

    Raises:
        OSError: if the network cannot be taken away.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if network == WITHOUT:
        leave_network(libc)
    enter_domain(libc)
    os.execv(command[0], command)  # noqa: S606  (this is what this script is for)


def leave_network(libc: ctypes.CDLL) -> None:
    """Enter a network of its own, which has the loopback interface only.

    Raises:
        OSError: if the system does not allow it.
    """
    user, group = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWNET):  # only root may do this in its own user namespace
        if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "no network namespace")
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    loopback_up()


def loopback_up() -> None:
    """Switch the loopback interface on: libraries for distributed training need it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        name = b"lo".ljust(16, b"\0")
        asked = fcntl.ioctl(control, SIOCGIFFLAGS, name + bytes(24))
        (flags,) = struct.unpack_from("H", asked, 16)
        fcntl.ioctl(control, SIOCSIFFLAGS, name + struct.pack("H", flags | IFF_UP) + bytes(22))


def enter_domain(libc: ctypes.CDLL) -> None:
    """Enter a Landlock domain (Linux 5.13); on an older kernel nothing happens.

    A domain must refuse something: this one refuses to make block devices. The rest follows from
    being in a domain at all. Source: the kernel's userspace-api/landlock.
    """
    version = libc.syscall(CREATE_RULESET, None, 0, RULESET_VERSION)
    if version < 1:
        return
    rules = struct.pack("Q", MAKE_BLOCK_DEVICE)
    if version >= SCOPES_SINCE:
        rules += struct.pack("QQ", 0, SCOPES)
    ruleset = libc.syscall(CREATE_RULESET, rules, ctypes.c_size_t(len(rules)), 0)
    for capability in SEES_EVERYTHING:
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.syscall(RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


if __name__ == "__main__":
    main(*sys.argv[1:])
