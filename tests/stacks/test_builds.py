"""Which build of torch a machine gets."""

from __future__ import annotations

import datetime as dt
import sys
from typing import TYPE_CHECKING

import pytest
from packaging.tags import sys_tags

from gradmatrix.core.model import Build, Lock, LockedPackage
from gradmatrix.stacks import environment

if TYPE_CHECKING:
    from pathlib import Path

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TAG = next(str(tag) for tag in sys_tags())
LOCK = Lock(
    stack="demo", python=PYTHON, as_of=dt.date(2025, 3, 31), requirements=("torch",), digest="", resolver="",
    packages=(LockedPackage(name="torch", version="2.6.0"),),
)  # fmt: skip


def choose(
    folder: Path, *, driver: bool = False, platform: str = "linux", answers: bool = False
) -> environment.BuildChoice:
    """The choice for a machine."""
    return environment.torch_build(
        LOCK, [folder], driver=driver, platform=platform, answers=lambda *_: answers
    )


def test_with_a_driver_the_lock_is_installed_as_it_is(tmp_path: Path) -> None:
    """The index's wheel for Linux is the CUDA one."""
    assert choose(tmp_path, driver=True) == environment.BuildChoice(Build.CUDA)


def test_elsewhere_than_linux_the_default_is_a_cpu_build(tmp_path: Path) -> None:
    """Wheels for macOS and Windows hold no CUDA."""
    assert choose(tmp_path, platform="darwin") == environment.BuildChoice(Build.CPU)


def test_a_cpu_wheel_at_hand_is_taken(tmp_path: Path) -> None:
    """Exactly the locked version, for this Python and platform."""
    wheel = tmp_path / f"torch-2.6.0+cpu-{TAG}.whl"
    wheel.touch()
    assert choose(tmp_path) == environment.BuildChoice(Build.CPU, torch=(str(wheel),))


@pytest.mark.parametrize(
    "name",
    [
        f"torch-2.6.1+cpu-{TAG}.whl",
        "torch-2.6.0+cpu-cp38-cp38-win32.whl",
        f"torch-2.6.0-{TAG}.whl",
        "torch-x.whl",
    ],
)
def test_another_wheel_is_not_taken(tmp_path: Path, name: str) -> None:
    """Another version, Python, platform or build is not what was locked."""
    (tmp_path / name).touch()
    assert choose(tmp_path).build is Build.DEFAULT


def test_torchs_own_index_is_the_second_choice(tmp_path: Path) -> None:
    """Where it is, uv knows."""
    assert choose(tmp_path, answers=True).torch == ("torch==2.6.0", "--torch-backend", "cpu")


def test_the_default_wheel_comes_with_a_notice(tmp_path: Path) -> None:
    """One sentence on what is installed and how to avoid it."""
    choice = choose(tmp_path)
    assert choice.notice
    assert "UV_FIND_LINKS" in choice.notice
    assert choice.notice.count(". ") == 0


def test_a_cpu_build_leaves_out_what_only_cuda_needs(tmp_path: Path) -> None:
    """Torch is installed on its own, NVIDIA's libraries and triton not at all."""
    choice = environment.BuildChoice(Build.CPU, torch=("torch.whl",))
    names = [
        "torch",
        "triton",
        "nvidia-cublas-cu12",
        "cuda-bindings",
        "transformers",
        "torchmetrics",
    ]
    assert [name for name in names if not choice.drops(name)] == ["transformers", "torchmetrics"]


def test_the_default_build_leaves_out_nothing() -> None:
    """The lock is installed as it is."""
    assert not environment.BuildChoice(Build.DEFAULT).drops("nvidia-cublas-cu12")


def test_directories_of_wheels_are_read_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses and missing directories are passed over."""
    monkeypatch.setenv("UV_FIND_LINKS", f"{tmp_path},http://127.0.0.1:9/wheels")
    monkeypatch.setenv("PIP_FIND_LINKS", f"{tmp_path / 'missing'}")
    assert environment.find_links() == (tmp_path,)
