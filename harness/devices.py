"""Which devices this machine has, without touching them: a forked child must be the first to open CUDA."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path


def device_class(device: str) -> str | None:
    """The processor architecture or the GPU's name; None where this machine has no such device."""
    if device == "cpu":
        return f"{platform.system()}-{platform.machine()}"
    return gpu_name()


def gpu_name() -> str | None:
    """Name of the first NVIDIA GPU, or None where the machine has no driver."""
    for information in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        match = re.search(r"^Model:\s*(.+)$", information.read_text(encoding="utf-8"), re.MULTILINE)
        if match:
            return match.group(1).strip()
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    answer = subprocess.run(
        [tool, "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=False, timeout=30
    )
    names = answer.stdout.strip().splitlines()
    return names[0] if answer.returncode == 0 and names else None
