"""Stack → lock."""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
from typing import TYPE_CHECKING, Literal

import msgspec
import pytest

from gradmatrix.core.errors import UserError
from gradmatrix.core.files import write_atomically
from gradmatrix.core.model import Lock, LockedPackage, Stack
from gradmatrix.stacks import lock, uv
from gradmatrix.stacks import lock as locks
from gradmatrix.stacks.index import Index, IndexCache
from tests.factories import make_lock
from tests.fakes.package_index import PackageIndex, wheel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
SPRING = dt.date(2025, 3, 31)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """Two packages, one of which needs the other; uv with an empty cache."""
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with PackageIndex() as index:
        index.add("alpha", "1.0", "2024-01-01", requires=("beta<2",))
        index.add("alpha", "2.0", "2025-06-01", requires=("beta>=2",))
        index.add("beta", "1.0", "2024-01-01")
        index.add("beta", "1.1", "2025-03-31")
        index.add("beta", "1.2", "2025-04-01")
        index.add("beta", "2.0", "2025-06-01")
        yield index


def stack(*requirements: str, as_of: dt.date | Literal["today"] = SPRING) -> Stack:
    """A stack of ``requirements``."""
    return Stack(name="demo", python=PYTHON, requirements=requirements, as_of=as_of)


def resolve(served: PackageIndex, asked: Stack, folder: Path) -> Lock:
    """Resolve against the index on loopback."""
    return locks.resolve(asked, Index(served.url, attempts=1), folder)


def test_a_dependency_is_of_the_as_of_date(served: PackageIndex, tmp_path: Path) -> None:
    """Version 1.1 of beta came out that day, and 1.2 on the next."""
    lock = resolve(served, stack("alpha"), tmp_path)
    assert {package.name: package.version for package in lock.packages} == {
        "alpha": "1.0",
        "beta": "1.1",
    }


def test_today_is_the_day_of_locking(served: PackageIndex, tmp_path: Path) -> None:
    """A stack of today gets the newest releases, and its lock has a date."""
    lock = resolve(served, stack("alpha", as_of="today"), tmp_path)
    assert lock.version("alpha") == "2.0"
    assert abs((dt.datetime.now(dt.UTC).date() - lock.as_of).days) <= 1


def test_a_prerelease_is_locked_only_if_the_stack_allows_it(
    served: PackageIndex, tmp_path: Path
) -> None:
    """Also if it is a dependency. The lock of one is not that of the other."""
    served.add("beta", "2.1rc1", "2025-07-01")
    asked = stack("alpha", as_of="today")
    coming = msgspec.structs.replace(asked, prereleases=True)
    released, next_ = (resolve(served, each, tmp_path) for each in (asked, coming))
    assert ("2.0", "2.1rc1") == (released.version("beta"), next_.version("beta"))
    assert [True, False] == [locks.is_current(each, next_) for each in (coming, asked)]


def test_a_package_knows_how_far_it_is_behind(served: PackageIndex, tmp_path: Path) -> None:
    """It has its own date and the newest release of the day."""
    lock = resolve(served, stack("beta==1.0"), tmp_path)
    assert lock.packages == (
        LockedPackage(
            name="beta",
            version="1.0",
            released=dt.date(2024, 1, 1),
            newest="1.1",
            newest_released=SPRING,
        ),
    )


def test_a_package_of_another_system_is_not_in_the_lock(
    served: PackageIndex, tmp_path: Path
) -> None:
    """The text serves every system; the lock lists what Linux installs."""
    lock = resolve(served, stack("beta", "alpha ; sys_platform == 'win32'"), tmp_path)
    assert [package.name for package in lock.packages] == ["beta"]
    assert "alpha==1.0 ; sys_platform == 'win32'" in (tmp_path / "demo.txt").read_text()


def test_a_written_lock_is_loaded_again(served: PackageIndex, tmp_path: Path) -> None:
    """The file and the value are the same."""
    lock = resolve(served, stack("alpha"), tmp_path)
    assert locks.load("demo", tmp_path) == lock
    assert not list(tmp_path.glob("*.partial"))


def test_the_text_holds_hashes_and_no_address(served: PackageIndex, tmp_path: Path) -> None:
    """Anyone can install it, from any index."""
    resolve(served, stack("beta"), tmp_path)
    text = (tmp_path / "demo.txt").read_text()
    assert text.startswith("beta==1.1")
    assert "--hash=sha256:" in text
    assert "127.0.0.1" not in text


def test_local_wheels_do_not_enter_a_dated_stack(
    served: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory of wheels has no dates. Today's wheel would enter a snapshot of last year."""
    (tmp_path / "beta-1.1+local-py3-none-any.whl").write_bytes(wheel("beta", "1.1+local"))
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    assert resolve(served, stack("beta"), tmp_path).version("beta") == "1.1"


def test_requests_that_exclude_each_other_are_a_conflict(
    served: PackageIndex, tmp_path: Path
) -> None:
    """The lock is written with the outcome and uv's explanation."""
    lock = resolve(served, stack("alpha==1.0", "beta==2.0", as_of=dt.date(2025, 12, 31)), tmp_path)
    assert lock.failure
    assert lock.failure.outcome == "resolve:conflict"
    assert "depends on beta<2 and you require alpha==1.0" in lock.failure.message
    assert locks.load("demo", tmp_path) == lock


def test_what_the_index_never_had_leaves_the_older_lock(
    served: PackageIndex, tmp_path: Path
) -> None:
    """A mistyped version is an error in matrix.toml, not a result."""
    good = resolve(served, stack("beta"), tmp_path)
    resolve(served, stack("beta<1"), tmp_path)
    assert good == locks.load("demo", tmp_path)


@pytest.mark.parametrize(
    ("requirement", "sentence"),
    [
        ("alpha==2.0", "alpha==2.0 was first released on 2025-06-01, after 2025-03-31."),
        ("alpha==9.9", "No release meets alpha==9.9."),
        ("gamma", "The package index has no package gamma."),
    ],
)
def test_a_release_that_is_not_there_is_reported(
    served: PackageIndex, tmp_path: Path, requirement: str, sentence: str
) -> None:
    """The outcome is no-release and not conflict, with the date if there is one."""
    lock = resolve(served, stack(requirement), tmp_path)
    assert lock.failure
    assert lock.failure.outcome == "resolve:no-release"
    assert lock.failure.message.startswith(sentence)


def test_an_unreachable_index_overwrites_nothing(served: PackageIndex, tmp_path: Path) -> None:
    """It says nothing about the stack, so an older lock stays."""
    before = resolve(served, stack("beta"), tmp_path)
    lock = locks.resolve(
        stack("beta<1.1"), Index("http://127.0.0.1:9/simple", attempts=1), tmp_path
    )
    assert lock.failure
    assert lock.failure.outcome == "resolve:index-unreachable"
    assert "127.0.0.1" not in lock.failure.message
    assert locks.load("demo", tmp_path) == before


SIGN_IN = b"<html><body><form action='/login'><a href='/terms'>Terms</a></form></body></html>"


@pytest.mark.parametrize(
    "kind", ["text/html", "application/vnd.pypi.simple.v1+json", "text/plain", "application/json"]
)
@pytest.mark.parametrize("body", [SIGN_IN, b"", b"{}"])
@pytest.mark.parametrize("cached", [False, True])
def test_a_sign_in_page_is_no_package_index(
    served: PackageIndex, tmp_path: Path, kind: str, body: bytes, *, cached: bool
) -> None:
    """It says nothing about the stack, also if the releases are known from before."""
    index = Index(served.url, attempts=1, cache=IndexCache(tmp_path / "index"))
    if cached:
        index.many(("alpha", "beta"), SPRING)
    served.answer = lambda *_: (200, {"Content-Type": kind}, body)  # type: ignore[method-assign]
    lock = locks.resolve(stack("alpha"), index, tmp_path)
    assert lock.failure
    assert lock.failure.outcome == "resolve:index-unreachable"
    assert "127.0.0.1" not in lock.failure.message
    assert not list(tmp_path.glob("demo.*"))


UNRESOLVED = "could not be resolved"
NO_SPACE = "No space left on device (os error 28)"
TROUBLES = {
    f"error: failed to write to the cache: {NO_SPACE}": UNRESOLVED,
    f"error: Failed to fetch: `the package index/beta/`\n cause: {NO_SPACE}": UNRESOLVED,
    "error: Failed to parse: `uv.toml`\n cause: TOML parse error at line 1": UNRESOLVED,
    "error: failed to create directory `cache`: Permission denied (os error 13)": UNRESOLVED,
    "": "uv gave no reason",
}


@pytest.mark.parametrize("stderr", TROUBLES)
def test_a_uv_that_cannot_work_says_nothing_of_the_stack(
    served: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stderr: str
) -> None:
    """The reason is reported, nothing is written, and an older lock stays."""
    before = resolve(served, stack("beta"), tmp_path)
    monkeypatch.setattr(uv, "run", lambda *_, **__: uv.Ran(2, "", stderr))
    with pytest.raises(UserError, match=TROUBLES[stderr]):
        resolve(served, stack("beta<1.1"), tmp_path)
    assert locks.load("demo", tmp_path) == before


@pytest.mark.parametrize(
    ("stderr", "outcome"),
    [
        ("error: Failed to build `beta==1.0`\n cause: command `cc` failed", "install:build"),
        (
            "error: No solution found\n\n hint: the network was disabled",
            "resolve:index-unreachable",
        ),
    ],
)
def test_what_another_day_may_change_is_not_written(
    served: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stderr: str, outcome: str
) -> None:
    """It fills the column of this run. The next run resolves again."""
    before = resolve(served, stack("beta"), tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(uv, "run", lambda *_, **__: uv.Ran(1, "", stderr))
        lock = resolve(served, stack("beta<1.1"), tmp_path)
    assert lock.failure
    assert outcome == lock.failure.outcome
    assert locks.load("demo", tmp_path) == before


def test_a_stack_without_a_lock_has_none(tmp_path: Path) -> None:
    """A missing file is not an error."""
    assert locks.load("demo", tmp_path) is None


def edited(text: str) -> dict[str, str]:
    """What somebody may do to a lock's text, and how that is told."""
    beta = text[text.index("beta") :]
    return {
        text.replace("beta==1.1", "beta==1.0"): "beta is 1.0 and was 1.1.",
        text.replace(beta, ""): "beta is missing and was 1.1.",
        f"{text}gamma==3\n": "gamma is 3 and was not in it.",
        f"{text}gamma is new\n": "a line is no requirement: ",
        f"# mine\n{text}": "the versions are the same; hashes, markers or comments differ.",
        text.replace("sha256:", "sha256:0"): "the versions are the same; hashes, markers or",
        text + "".join(f"x{n}==1\n" for n in range(7)): "x4 is 1 and was not in it; and 2 more.",
        f"{text}gamma @ https://example.org/gamma.whl": "gamma is missing and was not in it.",
    }


def test_a_lock_whose_text_was_changed_is_refused(served: PackageIndex, tmp_path: Path) -> None:
    """It names the difference and the next command; nothing is resolved anew."""
    resolve(served, stack("alpha"), tmp_path)
    path = tmp_path / "demo.txt"
    changes = edited(path.read_text())
    for text, told in changes.items():
        path.write_text(text)
        with pytest.raises(locks.NotAsLocked) as raised:
            locks.load("demo", tmp_path)
        assert str(raised.value).startswith("demo.txt is not the text that was locked: ")
        assert told in str(raised.value)
        assert raised.value.next_step.endswith("gradmatrix lock demo")


def test_a_lock_without_its_text_is_refused(served: PackageIndex, tmp_path: Path) -> None:
    """The error names the missing file."""
    resolve(served, stack("alpha"), tmp_path)
    (tmp_path / "demo.txt").unlink()
    with pytest.raises(locks.NotAsLocked, match=r"demo is incomplete: demo\.txt is missing"):
        locks.load("demo", tmp_path)


def test_line_ends_of_windows_are_no_edit(served: PackageIndex, tmp_path: Path) -> None:
    """Git may write them."""
    lock = resolve(served, stack("alpha"), tmp_path)
    path = tmp_path / "demo.txt"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert locks.load("demo", tmp_path) == lock


@pytest.mark.parametrize("before", ["alpha", "beta==1.0"])
@pytest.mark.parametrize("step", range(3))
def test_a_killed_write_leaves_no_half_lock(
    served: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, step: int
) -> None:
    """The next run has the old lock, the new one, or none: then it resolves again."""
    old = resolve(served, stack(before), tmp_path)
    new = resolve(served, stack("alpha"), tmp_path / "elsewhere")
    text = (tmp_path / "elsewhere" / "demo.txt").read_text()
    written: list[Path] = []

    def dies(path: Path, content: bytes) -> None:
        if len(written) == step:
            raise KeyboardInterrupt
        written.append(path)
        write_atomically(path, content)

    monkeypatch.setattr(lock, "write_atomically", dies)
    with contextlib.suppress(KeyboardInterrupt):
        locks.write(new, text, tmp_path)
    assert locks.load("demo", tmp_path) in {0: (None, old), 1: (None, old), 2: (new,)}[step]


def test_a_dependency_on_a_missing_release_is_a_conflict(
    served: PackageIndex, tmp_path: Path
) -> None:
    """The index lists other releases of that package, so it did answer."""
    served.add("gamma", "1.0", "2024-01-01", requires=("beta==9", "absent>1"))
    lock = resolve(served, stack("gamma"), tmp_path)
    assert lock.failure
    assert lock.failure.outcome == "resolve:conflict"


def test_nothing_is_built_unless_asked(served: PackageIndex, tmp_path: Path) -> None:
    """A build runs the package's code outside of a cell. Not to allow it is no conflict."""
    served.add_source("sourced", "1.0", "2024-01-01")
    before = resolve(served, stack("alpha"), tmp_path)
    with pytest.raises(locks.NeedsBuild) as raised:
        resolve(served, stack("alpha", "sourced"), tmp_path)
    assert str(raised.value).splitlines() == [
        "Stack demo cannot be resolved from wheels alone.",
        "  why:  sourced would have to be built, and a build runs code outside of the cells",
        '  next: to allow it, add build = ["sourced"] to the stack\'s table in matrix.toml',
    ]
    assert locks.load("demo", tmp_path) == before


def test_an_older_release_with_a_wheel_is_taken(served: PackageIndex, tmp_path: Path) -> None:
    """If the requirements allow it, nothing has to be built."""
    served.add_source("beta", "1.1.1", "2025-03-01")
    assert resolve(served, stack("beta"), tmp_path).version("beta") == "1.1"


def test_what_may_be_built_is_locked(served: PackageIndex, tmp_path: Path) -> None:
    """The lock knows it, and is not current any more if the stack no longer allows it."""
    served.add_source("sourced", "1.0", "2024-01-01")
    asked = msgspec.structs.replace(stack("alpha", "sourced"), build=("sourced",))
    lock = resolve(served, asked, tmp_path)
    assert (lock.version("sourced"), lock.build) == ("1.0", ("sourced",))
    assert locks.is_current(asked, lock)
    assert not locks.is_current(stack("alpha", "sourced"), lock)


def test_a_release_that_is_not_there_comes_before_a_build(
    served: PackageIndex, tmp_path: Path
) -> None:
    """To allow the build would not help."""
    served.add_source("sourced", "1.0", "2024-01-01")
    lock = resolve(served, stack("sourced==2.0"), tmp_path)
    assert lock.failure
    assert lock.failure.outcome == "resolve:no-release"


@pytest.mark.parametrize(
    "stderr",
    [
        "hint: Wheels are required for `Sourced` because building from source is disabled for all",
        "error: Building source distributions is disabled, but attempted to build `sourced`",
        "cause: Building source distributions for `sourced` is disabled",
        "cause: Building source distributions for `sourced==1.0` is disabled",
    ],
)
def test_what_uv_may_not_build_is_known(stderr: str) -> None:
    """In each way in which uv prints it."""
    assert locks.needs_build(stderr) == ("sourced",)


def test_a_damaged_lock_is_reported(tmp_path: Path) -> None:
    """The error names the file to delete."""
    (tmp_path / "demo.json").write_text("{")
    with pytest.raises(UserError, match=r"delete demo\.json"):
        locks.load("demo", tmp_path)


def lock_of(asked: Stack, *packages: LockedPackage, as_of: dt.date = SPRING) -> Lock:
    """A lock without files."""
    return Lock(
        stack=asked.name,
        python=asked.python,
        as_of=as_of,
        requirements=asked.requirements,
        packages=packages,
        digest="",
        resolver="",
    )


def test_a_lock_is_current_until_the_stack_changes() -> None:
    """Requirements, Python and date count; a summary does not."""
    asked = stack("alpha")
    lock = lock_of(asked)
    changed = [stack("alpha>1"), stack("alpha", as_of=dt.date(2025, 4, 1))]
    assert [locks.is_current(s, lock) for s in (asked, *changed)] == [True, False, False]


def test_a_lock_of_today_stays_current() -> None:
    """It is made again on request, not when the day changes."""
    assert locks.is_current(stack("alpha", as_of="today"), lock_of(stack("alpha")))


def test_only_what_was_not_pinned_falls_behind() -> None:
    """A pin is on purpose. A very old release without a pin is the resolver's choice."""
    old = {
        "version": "1",
        "released": dt.date(2023, 1, 1),
        "newest": "9",
        "newest_released": SPRING,
    }
    packages = [
        LockedPackage(name=name, **old)  # type: ignore[arg-type]
        for name in ("alpha", "beta", "gamma")
    ]
    lock = lock_of(stack("alpha", "beta==1"), *packages)
    assert [package.name for package in locks.fallen_behind(lock, ["alpha", "beta", "gamma"])] == [
        "alpha"
    ]


def test_versions_of_another_lock_are_kept_where_they_can_be(
    served: PackageIndex, tmp_path: Path
) -> None:
    """Bounds also apply to packages that are not requested by name."""
    index, asked = Index(served.url, attempts=1), stack("alpha", as_of=dt.date(2025, 12, 31))
    found = [
        locks.resolve(asked, index, tmp_path, bounds).version("beta")
        for bounds in (
            locks.Bounds(),
            locks.Bounds(preferred="alpha==1.0\nbeta==1.0\n"),
            locks.Bounds(constraints=("alpha<2", "beta<1.2")),
        )
    ]
    assert ["2.0", "1.0", "1.1"] == found


def test_a_lock_of_another_stack_is_an_error(tmp_path: Path) -> None:
    """A copied file would give the same column twice."""
    (tmp_path / "other.json").write_bytes(msgspec.json.encode(make_lock("stack")))
    with pytest.raises(UserError, match=r"The lock other\.json belongs to another stack: stack"):
        locks.load("other", tmp_path)


TEXT = """\
alpha==1.0 ; sys_platform == 'linux' \\
    --hash=sha256:00
beta==2.0 \\
    --hash=sha256:11 \\
    --hash=sha256:22
Gamma_Ray @ file:///folder/gamma_ray-3.0%2Bmine-py3-none-any.whl \\
    --hash=sha256:33
delta @ git+https://example.org/delta@0123456789
"""


def test_packages_can_be_left_out_of_a_text() -> None:
    """An entry is removed with its hashes."""
    assert lock.without(TEXT, lambda name: name == "alpha") == TEXT[TEXT.index("beta") :]


def test_what_comes_from_an_address_is_known() -> None:
    """A wheel file has a hash, a commit has none and needs none."""
    assert (["gamma-ray", "delta"], ["delta"]) == (lock.by_address(TEXT), lock.hashless(TEXT))


@pytest.mark.parametrize(("number", "version"), list(enumerate(["1.0", "2.0", "3.0+mine"])))
def test_an_entry_has_a_version(number: int, version: str) -> None:
    """That of a wheel is in its name."""
    block = list(lock.blocks(TEXT))[number]
    assert version == lock.version_of(block, lock.requirement_of(block), "3.11")
