"""``refresh``: what the package index has and the matrix lacks."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING

import msgspec
import pytest

from gradmatrix.cli.main import main
from gradmatrix.core.model import LockedPackage, Stack
from gradmatrix.run.refresh import Fresh, Yanked, fresh_releases, suggestion, yanked
from gradmatrix.stacks import config
from gradmatrix.stacks.generated import chosen_in
from tests.cli.test_cli import SUMS, write_lock
from tests.factories import make_lock
from tests.fakes.package_index import PackageIndex
from tests.stacks.test_index import release

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gradmatrix.core.model import Lock

TODAY = dt.date(2026, 11, 21)
MATRIX = """
[run]
devices = ["cpu"]
scenarios = ["sums"]

[[stacks]]
name = "first"
python = "3.11"
as_of = 2026-01-15
requirements = ["alpha"]
"""
RELEASES = '[generate.releases]\npackage = "alpha"\nbase = "first"\nwhich = "all"\n'


def lock(stack: str, **versions: str) -> Lock:
    """A lock of these packages."""
    packages = tuple(
        LockedPackage(name=name, version=version) for name, version in versions.items()
    )
    return msgspec.structs.replace(make_lock(stack), packages=packages)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """The index of the machine: two releases of one package."""
    with PackageIndex() as index:
        index.add("alpha", "1.0", "2026-01-01")
        index.add("alpha", "1.1", "2026-02-01")
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        yield index


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout of one stack, with a lock of its release."""
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "sums.py").write_text(SUMS.lstrip(), encoding="utf-8")
    (tmp_path / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    asked = msgspec.structs.replace(lock("first", alpha="1.1"), requirements=("alpha",))
    write_lock(tmp_path, asked)
    return tmp_path


def add(root: Path, table: str) -> None:
    """Write ``table`` at the end of matrix.toml."""
    path = root / "matrix.toml"
    path.write_text(path.read_text(encoding="utf-8") + table, encoding="utf-8")


def refresh(root: Path, *options: str) -> int:
    """The exit code of the command."""
    return main(["refresh", "--root", str(root), *options])


def files(root: Path) -> list[str]:
    """The files beside the locks."""
    return sorted(path.name for path in (root / "results" / "locks").iterdir())


def test_a_release_that_no_lock_has_is_fresh() -> None:
    """No lock may have a newer one either. Yanked, pre- and future releases do not count."""
    releases = (
        release("1.1", "2026-11-20"),
        release("1.2", "2026-11-21", yanked=True),
        release("2.0rc1", "2026-11-21"),
        release("1.3", "2026-11-22"),
    )
    older = [lock("a", alpha="1.0"), lock("b", alpha="0.9")]
    assert [
        Fresh(package="alpha", version="1.1", released=dt.date(2026, 11, 20), locked="1.0")
    ] == list(fresh_releases(["alpha"], older, {"alpha": releases}, TODAY))
    assert [] == list(
        fresh_releases(["alpha"], [*older, lock("c", alpha="1.1")], {"alpha": releases}, TODAY)
    )
    assert [None] == [
        each.locked for each in fresh_releases(["alpha"], [], {"alpha": releases}, TODAY)
    ]


def test_a_yanked_release_moves_a_stack_of_today_only() -> None:
    """A lock of another day keeps what that day gave."""
    old = Stack(name="old", python="3.11", requirements=("alpha",), as_of=TODAY)
    stacks = [old, msgspec.structs.replace(old, name="latest", as_of="today")]
    locks = {name: lock(name, alpha="1.0", beta="2.0") for name in ("old", "latest")}
    offered = {"alpha": (release("1.0.0", yanked=True),), "beta": (release("2.0"),)}
    assert [("old", False), ("latest", True)] == [
        (y.stack, y.moves) for y in yanked(stacks, locks, offered)
    ]
    assert Yanked(stack="old", package="alpha", version="1.0", moves=False) == next(
        yanked(stacks, locks, offered)
    )


def test_a_suggestion_is_a_table_that_can_be_pasted(tmp_path: Path) -> None:
    """It changes the newest stack that has the package.

    Both names of Lightning are in one table.
    """
    stacks = [
        Stack(name="old", python="3.9", requirements=("lightning",), as_of=dt.date(2025, 1, 1)),
        Stack(
            name="new",
            python="3.12",
            requirements=("torch<3", "lightning", "pytorch-lightning"),
            as_of="today",
        ),
    ]
    fresh = [Fresh(package=name, version="2.7.0", released=TODAY, locked=None) for name in
             ("lightning", "pytorch-lightning", "unasked")]  # fmt: skip
    (tmp_path / "matrix.toml").write_text(suggestion(fresh, stacks), encoding="utf-8")
    requirements = ("torch<3", "lightning==2.7.0", "pytorch-lightning==2.7.0")
    assert (
        Stack(name="lightning-2.7.0", python="3.12", requirements=requirements, as_of=TODAY),
    ) == (config.load(tmp_path / "matrix.toml", ["sums"], TODAY).stacks)


def test_nothing_new_is_reported(
    root: Path, served: PackageIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 0."""
    assert 0 == refresh(root, "--check")
    assert capsys.readouterr().out.startswith(
        "The matrix has everything that the package index has on "
    )
    assert {"/simple/alpha/"} == set(served.requests)


def test_a_new_release_is_reported_with_a_table_for_matrix_toml(
    root: Path, served: PackageIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file belongs to the user and is not changed."""
    served.add("alpha", "1.2", "2026-03-01")
    before = (root / "matrix.toml").read_bytes()
    assert [1, 0] == [refresh(root, "--check"), refresh(root)]
    out = capsys.readouterr().out
    assert "release   alpha 1.2 of 2026-03-01: the newest locked one is 1.1" in out
    assert '[[stacks]]\nname = "alpha-1.2"\n' in out
    assert before == (root / "matrix.toml").read_bytes()


def test_a_locked_prerelease_hides_no_release(
    root: Path, served: PackageIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stack of what is coming has a newer version, and is no base for a suggested stack."""
    served.add("alpha", "1.2", "2026-03-01")
    add(
        root,
        '\n[[stacks]]\nname = "coming"\npython = "3.11"\nas_of = "today"\n'
        'prereleases = true\nrequirements = ["alpha", "beta"]\n',
    )
    served.add("beta", "1.0", "2026-01-01")
    write_lock(
        root,
        msgspec.structs.replace(
            lock("coming", alpha="1.3rc1", beta="1.0"),
            requirements=("alpha", "beta"),
            prereleases=True,
        ),
    )
    assert 1 == refresh(root, "--check")
    out = capsys.readouterr().out
    assert "release   alpha 1.2 of 2026-03-01: the newest locked one is 1.1" in out
    assert 'requirements = ["alpha==1.2"]' in out


def test_generated_stacks_are_reported_by_check_and_written_without(
    root: Path, served: PackageIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    """After that they are ordinary stacks, and only their locks are missing."""
    add(root, RELEASES)
    assert 1 == refresh(root, "--check")
    assert "_matrix.json" not in files(root)
    assert 2 == main(["list", "--root", str(root)])
    assert 0 == refresh(root)
    assert "added     alpha-1.0\nadded     alpha-1.1\n" in capsys.readouterr().out
    assert "_matrix.json" in files(root)
    assert 0 == main(["list", "--root", str(root)])
    assert (
        "alpha-1.1              as of 2026-02-01  alpha 1.1 with the rest of first"
        in capsys.readouterr().out
    )
    assert 1 == refresh(root, "--check")
    assert "unlocked  alpha-1.0" in capsys.readouterr().out
    assert served.requests == ["/simple/alpha/"]  # within minutes it is not asked again


def test_a_stack_that_no_rule_gives_now_is_reported(
    root: Path, served: PackageIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    """A release was yanked. Its records are kept."""
    add(root, RELEASES)
    refresh(root)
    served.files[0].yanked = True
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("gradmatrix.stacks.index.FRESH_S", 0.0)
        assert 0 == refresh(root)
    assert "removed   alpha-1.0: its records are kept" in capsys.readouterr().out


@pytest.mark.usefixtures("served")
def test_a_period_that_has_ended_is_reported_until_it_is_locked(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its stack needs no index. Only its lock is missing."""
    add(
        root,
        '[generate.snapshots]\nevery = "quarter"\nfrom = 2025-03-31\nuntil = 2025-03-31\n'
        'requirements = ["alpha"]',
    )
    assert 1 == refresh(root, "--check")
    assert (
        f"unlocked  snapshot-2025-03-31\nnext: gradmatrix lock --root {root}, which"
        in capsys.readouterr().out
    )
    snapshot = msgspec.structs.replace(
        lock("snapshot-2025-03-31", alpha="1.1"), requirements=("alpha",)
    )
    write_lock(root, snapshot)
    path = root / "results" / "locks" / "snapshot-2025-03-31.json"
    path.write_bytes(path.read_bytes().replace(b"2026-01-15", b"2025-03-31"))
    assert 0 == refresh(root, "--check")


def test_news_are_had_as_data(
    root: Path, served: PackageIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    """A workflow can read them as JSON."""
    served.add("alpha", "1.2", "2026-03-01")
    assert 1 == refresh(root, "--check", "--json")
    news = json.loads(capsys.readouterr().out)
    assert (
        [{"package": "alpha", "version": "1.2", "released": "2026-03-01", "locked": "1.1"}],
        1,
    ) == (
        news["releases"],
        news["schema"],
    )


def test_a_package_that_the_index_has_not_is_reported(
    root: Path, served: PackageIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the table, and nothing is written."""
    served.files.clear()
    add(root, RELEASES)
    assert 2 == refresh(root)
    assert "has no package 'alpha', which [generate.releases] names" in capsys.readouterr().err
    assert "_matrix.json" not in files(root)


@pytest.mark.usefixtures("served")
def test_a_release_that_is_asked_for_exactly_must_be_there(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A typing error must not give an empty column."""
    add(root, RELEASES + 'exactly = ["1.11"]\n')
    assert 2 == refresh(root)
    err = capsys.readouterr().err
    assert "no release '1.11' of alpha, which [generate.releases] asks for exactly" in err
    assert "perhaps you meant '1.1'" in err


@pytest.mark.usefixtures("served")
def test_a_rule_that_gives_nothing_is_noted(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It may be a rule for future releases."""
    add(root, RELEASES + 'from = "99"\n')
    assert 0 == refresh(root)
    assert "note: [generate.releases] gives no stack" in capsys.readouterr().out
    assert 0 == main(["list", "--root", str(root)])


@pytest.mark.usefixtures("served")
def test_a_window_is_looked_up_like_releases(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It gives a floor and a newest stack."""
    add(root, '[generate.window]\nrequirements = ["alpha"]\n')
    assert 0 == refresh(root)
    out = capsys.readouterr().out
    assert ["-floor", "-newest"] == [
        line[len("added     window-2026-q4") :] for line in out.splitlines()[:2]
    ]


def test_without_the_index_what_is_kept_is_used_and_reported(
    root: Path,
    served: PackageIndex,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A note on stderr has the time of the kept answers."""
    assert 0 == refresh(root)
    asked = len(served.requests)
    monkeypatch.setattr("gradmatrix.stacks.index.FRESH_S", 0.0)
    monkeypatch.setenv("GRADMATRIX_OFFLINE", "1")
    assert 0 == refresh(root, "--check")
    assert (
        "note: the package index was not asked (GRADMATRIX_OFFLINE is set): releases as of 20"
        in (capsys.readouterr().err)
    )
    assert asked == len(served.requests)


def test_with_neither_index_nor_cache_it_ends_with_2(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written, and the error says what to do."""
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    add(root, RELEASES)
    assert 2 == refresh(root)
    err = capsys.readouterr().err
    assert "The package index did not answer for alpha" in err
    assert "Run it again later" in err
    assert "_matrix.json" not in files(root)


PAIRWISE = """
[generate.pairwise]
requirements = ["alpha", "beta"]
versions = { alpha = ["1.0", "2.0"], beta = ">=1" }
"""


def test_an_impossible_pair_is_written_with_the_words_of_uv(
    root: Path,
    served: PackageIndex,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The real resolver is asked. The second time it is not asked again."""
    served.add("alpha", "2.0", "2026-03-01", requires=("beta>=2",))
    served.add("beta", "1.0", "2026-01-01")
    served.add("beta", "2.0", "2026-01-01")
    add(root, PAIRWISE)
    assert refresh(root) == 0
    path = root / "results" / "locks" / "_matrix.json"
    [found] = chosen_in(path)
    [proof] = found.array.proofs
    assert {"alpha": "2.0", "beta": "1.0"} == proof.versions
    assert "depends on beta>=2" in proof.words
    assert served.url not in path.read_text(encoding="utf-8")
    assert 3 == len(found.stacks)
    told = (
        "[generate.pairwise]: 3 of 4 possible stacks have all 3 pairs of releases that can be "
        "installed together; 1 cannot"
    )
    assert told in capsys.readouterr().out
    monkeypatch.setattr("gradmatrix.run.refresh.refuted", lambda *_: pytest.fail("asked again"))
    assert refresh(root) == 0
    assert (found,) == chosen_in(path)


def test_a_version_that_never_was_is_an_error_with_the_nearest_one(
    root: Path, served: PackageIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is resolved."""
    served.add("beta", "1.0", "2026-01-01")
    add(root, PAIRWISE.replace('"2.0"', '"1.1.1"'))
    assert refresh(root) == 2
    assert "no release '1.1.1' of alpha" in capsys.readouterr().err
