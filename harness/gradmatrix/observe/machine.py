"""What the operating system provides: process groups, output, memory, facts about the machine."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import sys
from importlib import metadata
from typing import Any, Callable, Dict, Optional

try:
    import resource as _resource

    resource: Any = _resource
except ImportError:  # Windows
    resource = None

LIBRARIES = (
    "torch", "lightning", "pytorch-lightning", "transformers", "trl", "peft", "accelerate",
    "datasets", "numpy",
)  # fmt: skip
"""Packages whose versions an observation names if they are imported."""


def own_process_group() -> None:
    """Make this process lead a new group, so that a timeout also ends what the script starts."""
    # A server with a session of its own already leads a group.
    if hasattr(os, "setpgid") and os.getpgrp() != os.getpid():
        os.setpgid(0, 0)


def before_exit(function: Callable[[], Any]) -> None:
    """Call ``function`` also if a process ends by ``os._exit``, without exit handlers."""
    leave = os._exit

    def leaving(status: int) -> None:
        try:
            function()
        finally:
            leave(status)

    os._exit = leaving  # type: ignore[assignment]


def redirect_output(path: str) -> None:
    """Send what this process prints to ``path``, and give it an empty standard input."""
    sys.stdout.flush()
    sys.stderr.flush()
    output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)


def limit_memory(limit_bytes: Optional[int]) -> None:
    """Let this process and those it starts take ``limit_bytes`` more private memory.

    Linux limits private writable mappings (RLIMIT_DATA). On other systems there is no limit. None
    removes the limit.
    """
    if resource is None or sys.platform != "linux":
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = hard
    if limit_bytes is not None:
        soft = _status_bytes("VmData") + limit_bytes
        if hard != resource.RLIM_INFINITY:
            soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def reset_peak_memory() -> None:
    """Reset the peaks: of the resident set (Linux), and of torch's allocator on a GPU."""
    with contextlib.suppress(OSError):
        file = os.open("/proc/self/clear_refs", os.O_WRONLY)
        os.write(file, b"5")
        os.close(file)
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()


def peak_memory_bytes() -> Optional[int]:
    """Peak resident set of this process in bytes since the last reset; None if unknown."""
    if sys.platform == "linux":
        return _status_bytes("VmHWM")
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) if sys.platform == "darwin" else int(peak) * 1024


def _status_bytes(field: str) -> int:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        match = re.search(rf"^{field}:\s+(\d+) kB", file.read(), re.MULTILINE)
    return int(match.group(1)) * 1024 if match else 0


def has_cuda() -> bool:
    """Whether torch sees a CUDA device. This touches CUDA, so only a child process asks."""
    import torch

    return bool(torch.cuda.is_available())


def peak_cuda_memory_bytes() -> Optional[int]:
    """Peak bytes that torch's allocator held on the current CUDA device, or None."""
    import torch

    return int(torch.cuda.max_memory_allocated()) if torch.cuda.is_initialized() else None


def facts() -> Dict[str, Any]:
    """Versions, processor, GPU and threads: a timing means nothing without them."""
    torch = sys.modules.get("torch")
    environment = {"python": platform.python_version(), "system": platform.system(), "cpu": _cpu()}
    threads = 0
    if torch is not None:
        environment["torch"] = str(torch.__version__)
        environment["cuda"] = str(torch.version.cuda or "")
        threads = int(torch.get_num_threads())
        if torch.cuda.is_initialized():
            with contextlib.suppress(RuntimeError):  # a failed device does not answer
                environment["gpu"] = str(torch.cuda.get_device_name())
    for name in LIBRARIES:
        if name.replace("-", "_") in sys.modules:
            with contextlib.suppress(metadata.PackageNotFoundError):
                environment[name] = metadata.version(name)
    return {"environment": environment, "threads": threads}


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            match = re.search(r"^model name\s*:\s*(.+)$", file.read(), re.MULTILINE)
    except OSError:
        match = None
    return (
        f"{match.group(1) if match else platform.processor() or platform.machine()}"
        f" x {os.cpu_count()}"
    )


def short_path(path: str) -> str:
    """``path`` from site-packages or the standard library on, without the machine's own folders."""
    for marker in (
        "site-packages" + os.sep,
        "dist-packages" + os.sep,
        os.sep + "lib" + os.sep + "python",
    ):
        _, found, tail = path.rpartition(marker)
        if found:
            return tail if "packages" in marker else "python" + tail
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    folder = os.path.dirname(os.path.abspath(script)) if script else None
    if folder and path.startswith(folder + os.sep):  # below the script
        return path[len(folder) + 1 :]
    return os.path.basename(path)


def without_local_paths(text: str) -> str:
    """``text`` without paths of this machine.

    Every quoted ``File "…"`` path is shortened, and the folders of the cell and of the environment
    are removed.
    """
    short = re.sub(r'File "([^"]+)"', lambda match: f'File "{short_path(match.group(1))}"', text)
    folders = [sys.prefix]
    with contextlib.suppress(OSError):  # the script may have deleted it
        folders.append(os.getcwd())
    for folder in folders:
        short = short.replace(folder + os.sep, "")
    return short
