"""Lock → an installed environment, with a real uv."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from packaging.tags import sys_tags

from gradmatrix.core import files
from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Build, Failure, Lock, LockedPackage, Stack
from gradmatrix.stacks import environment, listing
from gradmatrix.stacks import lock as locks
from gradmatrix.stacks.environment import BuildChoice
from gradmatrix.stacks.index import Index
from tests.fakes.package_index import PackageIndex, wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

VERSION = "import alpha; print(alpha.VERSION)"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """An index with one package, which this machine uses; uv has an empty cache."""
    with PackageIndex() as index:
        index.add("alpha", "1.0", "2024-01-01")
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.setenv("UV_HTTP_RETRIES", "0")
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        yield index


@pytest.fixture
def lock(served: PackageIndex, tmp_path: Path) -> Lock:
    """The lock of a stack of that package."""
    stack = Stack(name="demo", python=PYTHON, requirements=("alpha",), as_of=dt.date(2025, 3, 31))
    return locks.resolve(stack, Index(served.url), tmp_path / "locks")


def ensure(
    lock: Lock,
    folder: Path,
    choice: BuildChoice | None = None,
    free_gb: int = 100,
    progress: Callable[[str], object] = str,
) -> environment.Environment:
    """The environment of ``lock`` on a machine without a driver."""
    return environment.ensure(
        lock,
        folder / "locks",
        folder / "environments",
        progress=progress,
        driver=False,
        choose=lambda _: choice or BuildChoice(Build.CPU),
        free_bytes=lambda _: free_gb * 2**30,
    )


def failure(lock: Lock, folder: Path, free_gb: int = 100) -> Failure:
    """Why it could not be installed."""
    with pytest.raises(environment.InstallFailed) as raised:
        ensure(lock, folder, free_gb=free_gb)
    return raised.value.failure


def printed(made: environment.Environment, code: str) -> str:
    """What ``code`` prints in the environment."""
    return subprocess.run(
        [str(made.python), "-c", code], capture_output=True, check=True, text=True
    ).stdout.strip()


def test_a_lock_is_installed(lock: Lock, tmp_path: Path) -> None:
    """The environment's Python imports what was locked."""
    made = ensure(lock, tmp_path)
    assert (made.installed, made.build, printed(made, VERSION)) == (True, Build.CPU, "1.0")


def test_what_is_large_is_said_before_the_download(lock: Lock, tmp_path: Path) -> None:
    """It can be stopped then."""
    said: list[str] = []
    ensure(lock, tmp_path, BuildChoice(Build.DEFAULT, notice="a large build"), progress=said.append)
    assert "note: a large build" == said[0]
    assert {"installing:"} == {text.partition(" ")[0] for text in said[1:]}


def test_an_installed_lock_is_left_alone(lock: Lock, tmp_path: Path) -> None:
    """The second time nothing is done, and no build is chosen."""
    first = ensure(lock, tmp_path, BuildChoice(Build.DEFAULT, notice="a large build"))
    again = environment.ensure(
        lock,
        tmp_path / "locks",
        tmp_path / "environments",
        driver=False,
        choose=lambda _: pytest.fail("chosen"),
    )
    assert again == environment.Environment(
        first.python, Build.DEFAULT, "a large build", installed=False
    )


def test_another_lock_replaces_the_environment(
    served: PackageIndex, lock: Lock, tmp_path: Path
) -> None:
    """The marker holds the digest of what was installed."""
    ensure(lock, tmp_path)
    served.add("alpha", "1.1", "2025-01-01")
    stack = Stack(name="demo", python=PYTHON, requirements=("alpha>1",), as_of=lock.as_of)
    changed = locks.resolve(stack, Index(served.url), tmp_path / "locks")
    assert printed(ensure(changed, tmp_path), VERSION) == "1.1"


def test_a_driver_asks_for_another_build(lock: Lock, tmp_path: Path) -> None:
    """An environment from before the driver is installed again."""
    ensure(lock, tmp_path)
    made = environment.ensure(
        lock,
        tmp_path / "locks",
        tmp_path / "environments",
        driver=True,
        choose=lambda _: BuildChoice(Build.CUDA),
        free_bytes=lambda _: 2**40,
    )
    assert (made.build, made.installed) == (Build.CUDA, True)


def cpu_build(path: Path) -> BuildChoice:
    """The choice of a wheel of torch at hand."""
    return BuildChoice(
        Build.CPU, f"torch @ {path.as_uri()}", {path.name: environment.sha256_of(path)}
    )


def test_a_torch_at_hand_replaces_the_locked_one(served: PackageIndex, tmp_path: Path) -> None:
    """The lock is installed without torch, and then the wheel."""
    served.add("torch", "2.0", "2024-01-01", requires=("nvidia-fake",))
    served.add("nvidia-fake", "1.0", "2024-01-01")
    local = tmp_path / "torch-2.0+cpu-py3-none-any.whl"
    local.write_bytes(wheel("torch", "2.0+cpu"))
    stack = Stack(
        name="demo", python=PYTHON, requirements=("torch", "alpha"), as_of=dt.date(2025, 3, 31)
    )
    lock = locks.resolve(stack, Index(served.url), tmp_path / "locks")
    made = ensure(lock, tmp_path, cpu_build(local))
    code = (
        "import torch, alpha, importlib.util as u; print(torch.VERSION, u.find_spec('nvidia_fake'))"
    )
    assert printed(made, code) == "2.0+cpu None"


def test_a_file_that_was_changed_is_a_hash_mismatch(
    served: PackageIndex, lock: Lock, tmp_path: Path
) -> None:
    """The index serves another file than the locked one."""
    served.files[0].content = wheel("alpha", "1.0", requires=("evil",))
    assert failure(lock, tmp_path).outcome == "install:hash-mismatch"


def test_the_hash_of_a_torch_at_hand_is_kept(
    served: PackageIndex, lock: Lock, tmp_path: Path
) -> None:
    """Another file of that name is a mismatch, also if the hash is kept beside the locks."""
    local = tmp_path / "torch-2.0+cpu-py3-none-any.whl"
    local.write_bytes(wheel("torch", "2.0+cpu"))
    ensure(lock, tmp_path, cpu_build(local))
    own = tmp_path / "environments" / environment.PINS
    published = tmp_path / "locks" / environment.PINS
    assert {local.name: environment.sha256_of(local)} == json.loads(own.read_bytes())
    assert not published.exists()
    local.write_bytes(wheel("torch", "2.0+cpu", requires=("evil",)))
    environment.drop(tmp_path / "environments", "demo")
    for place in (own, published):
        own.replace(place)
        with pytest.raises(environment.InstallFailed) as raised:
            ensure(lock, tmp_path, cpu_build(local))
        assert raised.value.failure.outcome == "install:hash-mismatch"
        assert f"{local.name} is not the file that was first seen" in raised.value.failure.message


def test_a_torch_that_changes_while_it_is_installed_is_a_hash_mismatch(
    served: PackageIndex, lock: Lock, tmp_path: Path
) -> None:
    """The installer itself checks the hash."""
    local = tmp_path / "torch-2.0+cpu-py3-none-any.whl"
    local.write_bytes(wheel("torch", "2.0+cpu"))
    choice = cpu_build(local)
    local.write_bytes(wheel("torch", "2.0+cpu", requires=("evil",)))
    with pytest.raises(environment.InstallFailed) as raised:
        ensure(lock, tmp_path, choice)
    assert raised.value.failure.outcome == "install:hash-mismatch"


def test_damaged_hashes_are_an_error(lock: Lock, tmp_path: Path) -> None:
    """They are not made anew in silence."""
    (tmp_path / "locks" / environment.PINS).write_text("{")
    with pytest.raises(UserError, match=r"_torch\.json cannot be read"):
        ensure(lock, tmp_path)


def test_locking_keeps_the_hash_of_each_cpu_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From torch's own index or a file at hand, once for each version and Python."""
    asked = []

    def indexed(version: str, _: str) -> Mapping[str, str] | None:
        asked.append(version)
        return {f"torch-{version}+cpu-{TAG}.whl": "00"} if version == "2.6.0" else None

    monkeypatch.setattr(environment, "cpu_wheels", indexed)
    monkeypatch.setattr(environment, "find_links", lambda: ())
    other = msgspec.structs.replace(LOCK, packages=(LockedPackage(name="torch", version="2.7.0"),))
    for _ in range(2):
        environment.pin_cpu_builds([LOCK, LOCK, other], tmp_path)
    path = tmp_path / environment.PINS
    assert {f"torch-2.6.0+cpu-{TAG}.whl": "00"} == json.loads(path.read_bytes())
    assert asked == ["2.6.0", "2.7.0", "2.7.0"]


PYLOCK = """
lock-version = "1.0"
[[packages]]
name = "torch"
version = "2.6.0+cpu"
wheels = [
    { url = "file:///a/torch-2.6.0%2Bcpu-cp311-cp311-win_amd64.whl", hashes = { sha256 = "aa" } },
    { url = "file:///a/torch-2.6.0%2Bcpu-cp312-cp312-win_amd64.whl", hashes = {} },
]
"""


def test_the_wheels_of_torchs_own_index_are_read() -> None:
    """Name and hash; a file without a hash cannot be checked, and is no choice."""
    found = dict(environment.listed_wheels(PYLOCK))
    assert {"torch-2.6.0+cpu-cp311-cp311-win_amd64.whl": "aa"} == found


def test_a_package_is_built_if_the_stack_allows_it(served: PackageIndex, tmp_path: Path) -> None:
    """And only then."""
    served.add_source("alpha", "2.0", "2024-02-01")
    asked = Stack(
        name="demo", python=PYTHON, requirements=("alpha>1",), as_of=dt.date(2025, 3, 31),
        build=("alpha",),
    )  # fmt: skip
    lock = locks.resolve(asked, Index(served.url), tmp_path / "locks")
    with pytest.raises(locks.NeedsBuild, match="Stack demo cannot be installed from wheels alone"):
        ensure(msgspec.structs.replace(lock, build=()), tmp_path)
    assert not (tmp_path / "environments" / "demo").exists()
    assert printed(ensure(lock, tmp_path), VERSION) == "2.0"


def test_a_failed_install_leaves_nothing(served: PackageIndex, lock: Lock, tmp_path: Path) -> None:
    """An incomplete environment is deleted."""
    served.files[0].content = b""
    failure(lock, tmp_path)
    left = [path.name for path in (tmp_path / "environments").iterdir()]
    assert [".install.lock"] == left


def test_an_environment_in_use_is_not_dropped_meanwhile(lock: Lock, tmp_path: Path) -> None:
    """Only one process uses it at a time. Another stack's environment is free."""
    root = tmp_path / "environments"
    ensure(lock, tmp_path)
    with environment.in_use(root, "demo"):
        assert files.is_held(root / ".demo.lock")
        environment.drop(root, "other")
    environment.drop(root, "demo")
    assert not (root / "demo").exists()


def test_one_stack_is_installed_at_a_time(lock: Lock, tmp_path: Path) -> None:
    """So each install sees the free disk space after the last one.

    An installed stack does not wait.
    """
    looked = []
    root = tmp_path / "environments"

    def free_bytes(_: Path) -> int:
        looked.append(files.is_held(root / ".install.lock"))
        return 2**40

    for _ in range(2):
        environment.ensure(
            lock,
            tmp_path / "locks",
            root,
            driver=False,
            choose=lambda _: BuildChoice(Build.CPU),
            free_bytes=free_bytes,
        )
    assert [True] == looked


def test_an_index_that_is_gone_is_a_network_failure(
    lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outcome says something about the machine, not about the stack."""
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "empty"))
    assert failure(lock, tmp_path).outcome == "install:network"


@pytest.mark.parametrize("kind", ["text/html", "application/vnd.pypi.simple.v1+json"])
def test_a_sign_in_page_is_a_network_failure(
    served: PackageIndex, lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Not a release that cannot be built."""
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "empty"))
    page = b"<html><form action='/login'></form></html>"
    served.answer = lambda *_: (200, {"Content-Type": kind}, page)  # type: ignore[method-assign]
    assert failure(lock, tmp_path).outcome == "install:network"


def test_a_full_disk_is_reported_with_figures(lock: Lock, tmp_path: Path) -> None:
    """The error comes before anything is installed."""
    explained = failure(lock, tmp_path, free_gb=1)
    assert explained.outcome == "install:disk-full"
    assert "may need 2.5 GiB (cpu build of torch), 1.0 GiB are free" in explained.message


def test_what_the_cache_has_needs_no_disk(lock: Lock, tmp_path: Path) -> None:
    """It is linked from there, so no free disk is asked for."""
    ensure(lock, tmp_path)
    environment.drop(tmp_path / "environments", "demo")
    assert printed(ensure(lock, tmp_path, free_gb=1), VERSION) == "1.0"


def test_a_lock_that_failed_cannot_be_installed(lock: Lock, tmp_path: Path) -> None:
    """Its own failure is passed on."""
    conflict = Failure(outcome="resolve:conflict", message="a and b")
    assert failure(msgspec.structs.replace(lock, failure=conflict), tmp_path) == conflict


def test_a_missing_python_is_reported_with_the_next_command(lock: Lock, tmp_path: Path) -> None:
    """The error names the missing version, the ones that exist, and how to get it."""
    with pytest.raises(UserError) as raised:
        ensure(msgspec.structs.replace(lock, python="3.99"), tmp_path)
    explained = str(raised.value)
    assert "needs Python 3.99" in explained
    assert f"uv found {PYTHON}" in explained or f", {PYTHON}." in explained
    assert "next: pip install uv && uv python install 3.99" in explained


@pytest.mark.parametrize(
    ("stderr", "outcome"),
    [
        ("error: Failed to write: No space left on device (os error 28)", "install:disk-full"),
        ("error: Hash mismatch for `alpha==1.0`", "install:hash-mismatch"),
        (
            "error: Failed to fetch: the package index/alpha\n cause: error sending request",
            "install:network",
        ),
        ("uv timed out: no answer in 1800 s", "install:network"),
        (
            "error: Failed to build `alpha==1.0`\n cause: The build backend returned an error",
            "install:build",
        ),
        (
            (
                "error: Failed to build `alpha==1.0`\n"
                " cause: Failed to fetch: the package index/setuptools"
            ),
            "install:network",
        ),
        ("error: something new", "install:build"),
    ],
)
def test_what_uv_says_is_classified(stderr: str, outcome: str) -> None:
    """Failures of the machine differ from failures of the stack."""
    assert environment.classify(stderr) == outcome


def test_what_conda_built_is_a_release(tmp_path: Path) -> None:
    """Conda notes the folder in which it built a package as the package's origin."""
    for name, installer in (("built", "conda"), ("checkout", "pip")):
        folder = tmp_path / f"{name}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: 1\n", encoding="utf-8")
        (folder / "INSTALLER").write_text(f"{installer}\n", encoding="utf-8")
        (folder / "direct_url.json").write_text('{"url": "file:///croot"}', encoding="utf-8")
    code = (
        Path(listing.__file__)
        .read_text(encoding="utf-8")
        .replace("distributions()", f"distributions(path=[{str(tmp_path)!r}])")
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    found = json.loads(ran.stdout)["distributions"]
    origins = {each["name"]: each["origin"] for each in found}
    assert {"built": None, "checkout": '{"url": "file:///croot"}'} == origins


TAG = next(str(tag) for tag in sys_tags())
LOCK = Lock(
    stack="demo",
    python=PYTHON,
    as_of=dt.date(2025, 3, 31),
    requirements=("torch",),
    digest="",
    resolver="",
    packages=(LockedPackage(name="torch", version="2.6.0"),),
)


def choose(
    folder: Path,
    *,
    driver: bool = False,
    platform: str = "linux",
    indexed: Mapping[str, str] | None = None,
    lock: Lock = LOCK,
) -> environment.BuildChoice:
    """The choice for a machine."""
    return environment.torch_build(
        lock, [folder], driver=driver, platform=platform, indexed=lambda *_: indexed
    )


def test_with_a_driver_the_lock_is_installed_as_it_is(tmp_path: Path) -> None:
    """The index's wheel for Linux is the CUDA build."""
    assert choose(tmp_path, driver=True) == environment.BuildChoice(Build.CUDA)


def test_elsewhere_than_linux_the_default_is_a_cpu_build(tmp_path: Path) -> None:
    """Wheels for macOS and Windows have no CUDA."""
    assert choose(tmp_path, platform="darwin") == environment.BuildChoice(Build.CPU)


def test_a_cpu_wheel_at_hand_is_taken(tmp_path: Path) -> None:
    """It has exactly the locked version, for this Python and platform."""
    wheel = tmp_path / f"torch-2.6.0+cpu-{TAG}.whl"
    wheel.touch()
    digest = hashlib.sha256(b"").hexdigest()
    assert choose(tmp_path) == environment.BuildChoice(
        Build.CPU, f"torch @ {wheel.as_uri()}", {wheel.name: digest}
    )


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


def test_what_is_built_for_torch_gets_the_torch_it_was_built_for(tmp_path: Path) -> None:
    """The index's torchvision cannot be imported beside a CPU build of torch."""
    (tmp_path / f"torch-2.6.0+cpu-{TAG}.whl").touch()
    packages = (*LOCK.packages, LockedPackage(name="torchvision", version="0.21.0"))
    choice = choose(tmp_path, lock=msgspec.structs.replace(LOCK, packages=packages))
    assert choice.build is Build.DEFAULT
    assert "torchvision" in (choice.notice or "")


def test_torchs_own_index_is_the_second_choice(tmp_path: Path) -> None:
    """Only uv knows its address."""
    wheels = {f"torch-2.6.0+cpu-{TAG}.whl": "00"}
    assert choose(tmp_path, indexed=wheels) == environment.BuildChoice(
        Build.CPU, "torch==2.6.0+cpu", wheels, ("--torch-backend", "cpu")
    )


def test_the_default_wheel_comes_with_a_notice(tmp_path: Path) -> None:
    """One sentence says what is installed and how to avoid it."""
    choice = choose(tmp_path)
    assert choice.notice
    assert "UV_FIND_LINKS" in choice.notice
    assert "7 GiB in place of 2.5" in choice.notice
    assert choice.notice.count(". ") == 0


def test_a_cpu_build_leaves_out_what_only_cuda_needs(tmp_path: Path) -> None:
    """Torch is installed separately, NVIDIA's libraries and triton not at all."""
    choice = environment.BuildChoice(Build.CPU, torch="torch==2.6.0+cpu")
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
    """Addresses and missing directories are ignored."""
    monkeypatch.setenv("UV_FIND_LINKS", f"{tmp_path},http://127.0.0.1:9/wheels")
    monkeypatch.setenv("PIP_FIND_LINKS", f"{tmp_path / 'missing'}")
    assert environment.find_links() == (tmp_path,)
