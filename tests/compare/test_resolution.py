"""Both sides of an upgrade → locks, with a real uv and an index on loopback."""

from __future__ import annotations

import datetime as dt
import sys
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from gradmatrix.compare import requirements, resolution, sides
from gradmatrix.compare.resolution import Resolved
from gradmatrix.compare.sides import Side
from gradmatrix.core.errors import UserError
from gradmatrix.stacks.index import Index
from gradmatrix.stacks.lock import load, requirements_path
from tests.factories import make_lock
from tests.fakes.package_index import PackageIndex

if TYPE_CHECKING:
    from collections.abc import Iterator


PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
DAY = dt.date(2025, 12, 31)


@contextmanager
def index_of_four(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """Each alpha needs another beta, and gamma 1 needs an old beta. The cache of uv is empty."""
    monkeypatch.setenv("UV_CACHE_DIR", str(folder / "cache"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with PackageIndex() as index:
        index.add("alpha", "1.0", "2024-01-01", requires=("beta>=1",))
        index.add("alpha", "2.0", "2025-01-01", requires=("beta>=1",))
        index.add("alpha", "3.0", "2025-06-01", requires=("beta>=2",))
        index.add("beta", "1.0", "2024-01-01")
        index.add("beta", "1.1", "2024-06-01")
        index.add("beta", "2.0", "2025-06-01")
        index.add("gamma", "1.0", "2024-01-01", requires=("beta<2",))
        index.add("gamma", "2.0", "2025-06-01", requires=("beta<3",))
        index.add("delta", "1.0", "2024-01-01")
        index.add("delta", "1.1", "2025-06-01")
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        yield index


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """The index on loopback."""
    with index_of_four(tmp_path, monkeypatch) as index:
        yield index


def given(*asked: str, **fields: object) -> Side:
    """The side that a requirements file gives."""
    facts: dict[str, object] = {
        "name": "mine.txt",
        "python": PYTHON,
        "as_of": dt.date(2024, 12, 31),
        **fields,
    }
    return Side(requirements=asked, asked=asked, **facts)  # type: ignore[arg-type]


def resolved(served: PackageIndex, side: Side, folder: Path) -> Resolved:
    """The baseline."""
    return resolution.resolved(side, Index(served.url, attempts=1), folder, folder / "matrix")


def candidate(
    served: PackageIndex, baseline: Side, folder: Path, *words: str, latest: bool = False
) -> Resolved:
    """The baseline with these edits."""
    asked = [
        sides.of_wheel(word, PYTHON) if word.endswith(".whl") else requirements.parse_edit(word)
        for word in words
    ]
    return resolution.candidate(
        baseline, asked, Index(served.url, attempts=1), folder, latest=latest, as_of=DAY
    )


def versions(side: Resolved) -> dict[str, str]:
    """The versions of all packages."""
    return {package.name: package.version for package in side.lock.packages}


def locked(served: PackageIndex, folder: Path, *asked: str) -> Side:
    """A baseline with the versions of its day, as a lock has them."""
    side = resolved(served, given(*asked), folder)
    text = requirements_path(side.lock.stack, folder).read_text(encoding="utf-8")
    return given(*asked, preferred=text, lock=side.lock, locks=folder)


def test_a_side_that_needs_a_build_says_so(served: PackageIndex, tmp_path: Path) -> None:
    """The error names the option. With it the side resolves, and so does a candidate of it."""
    served.add_source("sourced", "1.0", "2024-01-01")
    with pytest.raises(UserError) as raised:
        resolved(served, given("alpha", "sourced"), tmp_path)
    assert raised.value.what == "mine.txt cannot be resolved from wheels alone."
    assert raised.value.next_step == "to allow it, give --build sourced"
    allowed = given("alpha", "sourced", build=("sourced",))
    side = resolved(served, allowed, tmp_path)
    assert ("1.0", ("sourced",)) == (versions(side)["sourced"], side.lock.build)
    assert versions(candidate(served, allowed, tmp_path, "alpha==2.0"))["alpha"] == "2.0"


def test_a_candidate_that_needs_a_build_says_so(served: PackageIndex, tmp_path: Path) -> None:
    """It is not called incompatible."""
    served.add_source("sourced", "1.0", "2024-01-01")
    with pytest.raises(UserError, match="to allow it, give --build sourced"):
        candidate(served, given("alpha"), tmp_path, "sourced")


def test_a_baseline_is_named_after_its_content(served: PackageIndex, tmp_path: Path) -> None:
    """No stack of a matrix can have that name. An equal side has the same name."""
    side = resolved(served, given("alpha"), tmp_path)
    assert side.own
    assert {"alpha": "1.0", "beta": "1.1"} == versions(side)
    assert side.lock == load(side.lock.stack, tmp_path)
    assert side.lock.stack == resolved(served, given("alpha"), tmp_path).lock.stack


def test_the_lock_of_a_stack_of_the_matrix_is_used(served: PackageIndex, tmp_path: Path) -> None:
    """With the environment and the records of that stack."""
    mine = resolved(served, given("alpha"), tmp_path / "matrix")
    side = given("alpha", lock=mine.lock, locks=tmp_path / "matrix")
    assert (mine.lock, tmp_path / "matrix") == (
        (found := resolved(served, side, tmp_path)).lock,
        found.locks,
    )


def test_a_package_that_need_not_move_stays(served: PackageIndex, tmp_path: Path) -> None:
    """Beta has a newer release that nothing asks for."""
    baseline = locked(served, tmp_path, "alpha", "delta")
    assert {"alpha": "2.0", "beta": "1.1", "delta": "1.0"} == versions(
        candidate(served, baseline, tmp_path, "alpha<3")
    )


@pytest.mark.parametrize(
    ("asked", "word", "cause"),
    [
        ("delta ; python_version < '3'", "delta==1.1", "would have no delta"),
        ("alpha", "delta==1.1 ; python_version < '3'", "would have no delta"),
    ],
)
def test_an_edit_that_a_marker_excludes_is_an_error(
    served: PackageIndex, tmp_path: Path, asked: str, word: str, cause: str
) -> None:
    """The candidate would equal the baseline, and seem safe."""
    with pytest.raises(UserError, match="has no effect") as error:
        candidate(served, given("alpha", asked), tmp_path, word)
    assert cause in error.value.cause


def test_an_edit_applies_to_the_line_whose_marker_holds(
    served: PackageIndex, tmp_path: Path
) -> None:
    """Not only to the first line."""
    baseline = given("delta==1.0 ; python_version < '3'", "delta==1.0 ; python_version >= '3'")
    assert {"delta": "1.1"} == versions(candidate(served, baseline, tmp_path, "delta==1.1"))


@pytest.mark.parametrize("variable", ["GRADMATRIX_OFFLINE", "UV_OFFLINE"])
def test_an_offline_resolution_asks_no_index(
    served: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Neither does uv, whose cache is empty."""
    monkeypatch.setenv(variable, "1")
    with pytest.raises(UserError, match="does not resolve: resolve:index-unreachable") as error:
        resolved(served, given("alpha"), tmp_path)
    assert "network was disabled" in error.value.cause


def test_a_package_that_must_move_moves(served: PackageIndex, tmp_path: Path) -> None:
    """And no other."""
    baseline = locked(served, tmp_path, "alpha", "delta")
    found = candidate(served, baseline, tmp_path, "alpha==3.0")
    assert {"alpha": "3.0", "beta": "2.0", "delta": "1.0"} == versions(found)
    assert "alpha==3.0" == found.side.name


def test_latest_moves_everything(served: PackageIndex, tmp_path: Path) -> None:
    """To the newest releases of the day."""
    baseline = locked(served, tmp_path, "alpha==1.0", "delta==1.0")
    assert {"alpha": "3.0", "beta": "2.0", "delta": "1.1"} == versions(
        candidate(served, baseline, tmp_path, latest=True)
    )


def test_constraints_of_a_file_hold(served: PackageIndex, tmp_path: Path) -> None:
    """For packages that no edit names."""
    baseline = given("alpha", constraints=("beta<1.1",))
    assert "1.0" == versions(resolved(served, baseline, tmp_path))["beta"]
    assert "2.0" == versions(candidate(served, baseline, tmp_path, "beta==2.0"))["beta"]


def test_a_baseline_that_does_not_resolve_is_an_error(served: PackageIndex, tmp_path: Path) -> None:
    """With the words of the resolver."""
    with pytest.raises(UserError, match=r"mine\.txt does not resolve: resolve:conflict") as error:
        resolved(served, given("alpha==3.0", "gamma==1.0", as_of=DAY), tmp_path)
    assert "depends on beta<2 and alpha>=3.0 depends on beta>=2" in error.value.cause


def test_an_impossible_upgrade_is_an_error_with_the_newest_possible_version(
    served: PackageIndex, tmp_path: Path
) -> None:
    """With the resolver's explanation and which package to let move. No file is left behind."""
    baseline = locked(served, tmp_path, "alpha==1.0", "gamma==1.0")
    before = sorted(tmp_path.glob("*.json"))
    with pytest.raises(
        UserError, match=r"alpha==3\.0 is not compatible with what mine\.txt asks for"
    ) as error:
        candidate(served, baseline, tmp_path, "alpha==3.0")
    assert "depends on beta<2 and alpha>=3.0 depends on beta>=2" in error.value.cause
    assert "the newest that resolves is alpha==2.0: --to alpha==2.0" in error.value.next_step
    assert "or let gamma move too: --to gamma" in error.value.next_step
    assert before == sorted(tmp_path.glob("*.json"))


def test_letting_another_package_move_makes_it_possible(
    served: PackageIndex, tmp_path: Path
) -> None:
    """As the error suggested."""
    baseline = locked(served, tmp_path, "alpha==1.0", "gamma==1.0")
    found = versions(candidate(served, baseline, tmp_path, "alpha==3.0", "gamma"))
    assert {"alpha": "3.0", "beta": "2.0", "gamma": "2.0"} == found


@pytest.mark.parametrize(
    ("word", "complaint", "cause", "next_step"),
    [
        (
            "alpah==1",
            "the package index has no package alpah",
            "perhaps you meant 'alpha'",
            "correct the name",
        ),
        (
            "alpha==2.5",
            "there is no such release",
            "the newest release of alpha on 2025-12-31 is 3.0 (2025-06-01)",
            "--to alpha==2.0, or --to alpha for the newest",
        ),
    ],
)
def test_an_unknown_package_or_release_is_an_error(  # noqa: PLR0917  (a table)
    served: PackageIndex, tmp_path: Path, word: str, complaint: str, cause: str, next_step: str
) -> None:
    """With the nearest one that exists."""
    with pytest.raises(UserError, match=complaint) as error:
        candidate(served, locked(served, tmp_path, "alpha", "delta"), tmp_path, word)
    assert cause in error.value.cause
    assert next_step in error.value.next_step


def test_an_unreachable_index_is_not_a_conflict(served: PackageIndex, tmp_path: Path) -> None:
    """The error says that the index could not be reached."""
    baseline = given("alpha")
    with pytest.raises(UserError, match="resolve:index-unreachable"):
        resolution.candidate(
            baseline,
            [requirements.parse_edit("alpha==2.0")],
            Index("http://127.0.0.1:9/simple", attempts=1),
            tmp_path,
            latest=False,
            as_of=DAY,
        )


@pytest.mark.parametrize("status", [401, 403])
def test_an_index_that_refuses_is_not_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Uv says that there is no solution, and that it was not allowed to look."""

    class Refuses(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(status)

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Refuses) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        index = Index(f"http://127.0.0.1:{server.server_port}/simple", attempts=1)
        with pytest.raises(UserError, match="resolve:index-unreachable") as error:
            resolution.resolved(given("alpha"), index, tmp_path, tmp_path / "matrix")
        server.shutdown()
    assert "credentials" in error.value.next_step


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "trl @ git+https://user:secret@example.org/trl@main",
            "trl @ git+https://example.org/trl@main",
        ),
        ("trl @ file:///home/me/trl-1-py3-none-any.whl", "trl @ trl-1-py3-none-any.whl"),
        ("trl<1", "trl<1"),
    ],
)
def test_a_report_shows_no_secret_and_no_folder(text: str, shown: str) -> None:
    """Although it shows requirements."""
    assert shown == resolution.without_place(text)


def test_packages_of_an_environment_have_the_days_of_their_releases(
    served: PackageIndex, tmp_path: Path
) -> None:
    """They keep the label of what is installed."""
    there = make_lock(versions={"alpha": "1.0+local", "unknown": "3"}, as_of=DAY)
    side = resolved(served, given("alpha", lock=there, interpreter=tmp_path / "python"), tmp_path)
    assert [("alpha", "1.0+local", dt.date(2024, 1, 1)), ("unknown", "3", None)] == [
        (package.name, package.version, package.released) for package in side.lock.packages
    ]


def test_cuda_libraries_are_not_added_beside_a_cpu_build() -> None:
    """A lock lists them for every machine.

    In a comparison with an environment they would look new.
    """
    lock = make_lock(versions={"torch": "2.13.0", "nvidia-cublas": "13", "triton": "3"})
    assert ["torch"] == [each.name for each in resolution.as_built(lock, make_lock()).packages]
    assert lock == resolution.as_built(lock, make_lock(versions={"nvidia-cublas-cu12": "12"}))
    one = Resolved(given("torch"), lock, Path())
    here = Resolved(given("torch", interpreter=Path("python")), make_lock(), Path())
    assert (1, 3) == (
        len(resolution.beside(one, here).lock.packages),
        len(resolution.beside(one, one).lock.packages),
    )


def test_without_a_newer_version_the_error_says_so(served: PackageIndex, tmp_path: Path) -> None:
    """The baseline's version is not suggested as an upgrade."""
    baseline = locked(served, tmp_path, "alpha", "gamma==1.0", "beta==1.1")
    assert baseline.lock is not None
    assert "1.0" == baseline.lock.version("alpha")
    kept = replace(baseline, asked=("alpha==1.0", "gamma==1.0", "beta==1.1"))
    with pytest.raises(UserError, match="is not compatible") as error:
        candidate(served, kept, tmp_path, "beta==2.0")
    assert "nothing newer resolves than beta==1.1, which the baseline has" in error.value.next_step


def test_a_mistyped_stack_gets_a_suggestion(served: PackageIndex, tmp_path: Path) -> None:
    """It looks like a package that does not exist."""
    with pytest.raises(UserError, match="no package") as error:
        candidate(served, given("alpha"), tmp_path, "latst")
    assert "perhaps you meant 'latest'" == error.value.cause


@pytest.mark.parametrize(
    "words",
    [
        "No solution found when resolving dependencies: a needs b",
        (
            "No solution found when resolving dependencies "
            "for split (markers: python_full_version >= '3.12'): a needs b"
        ),
        "No solution found when resolving dependencies: a needs b hint: use another Python",
    ],
)
def test_the_explanation_of_the_resolver_is_shortened(words: str) -> None:
    """A user of one Python does not need to know for which one it split."""
    assert "a needs b" == resolution.explained(words)
