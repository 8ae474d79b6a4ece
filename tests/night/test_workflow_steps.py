"""Run the shell scripts of the nightly workflow, after commands that succeed or fail."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import pytest

from gradmatrix.publish.feeds import as_issue
from gradmatrix.run import bundle
from tests.conftest import ROOT
from tests.publish.test_regressions import regressed

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the machines of the night have GNU's tools"
)

NIGHT = (
    Path(__file__).resolve().parent.parent.parent / ".github" / "workflows" / "nightly.yml"
).read_text(encoding="utf-8")
GH = (
    'printf "%s\\n" "$*" >> "$CALLS"\nif [ "$1 $2" = "issue list" ]; then printf "%s" "$OPEN"; fi\n'
)


def script(step: str) -> str:
    """The script of the step with this name, which is the same in every job that has it."""
    pattern = rf"^      - name: {step}\n((?:        .*\n|\n)+)"
    (found,) = set(re.findall(pattern, NIGHT, re.MULTILINE))
    block = re.search(r"^        run: (?:\|\n((?:          .*\n|\n)+)|(.+)\n)", found, re.MULTILINE)
    assert block is not None
    return textwrap.dedent(block[1]) if block[1] else str(block[2])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a step runs, with a folder of pretended commands beside it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def pretend(place: Path, command: str, body: str) -> None:
    """Put a command on PATH that runs ``body``."""
    path = place.parent / "bin" / command
    path.write_text(f"#!/bin/bash\n{body}", encoding="utf-8")
    path.chmod(0o755)


def run(place: Path, step: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a step as a runner does.

    Its outputs are in the file ``output``, the arguments of ``gh`` in ``calls``.
    """
    beside = place.parent
    given = {
        "PATH": f"{beside / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(beside),
        "LC_ALL": "C.UTF-8",
        "GITHUB_OUTPUT": str(beside / "output"),
        "CALLS": str(beside / "calls"),
        "GIT_CONFIG_NOSYSTEM": "1",
        **variables,
    }
    command = ["bash", "-e", "-c", script(step)]
    return subprocess.run(
        command, cwd=place, env=given, text=True, capture_output=True, check=False
    )


def calls(place: Path) -> list[str]:
    """The arguments of each call of ``gh``."""
    return (place.parent / "calls").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (3, 0), (1, 1), (2, 1)])
def test_a_stack_that_does_not_resolve_ends_no_night(place: Path, code: int, expected: int) -> None:
    """Another failure of the lock command ends it."""
    pretend(place, "nox", f"exit {code}\n")
    assert expected == run(place, "Move latest and next to today").returncode


@pytest.mark.parametrize(("code", "regressed"), [(0, "regressed=0\n"), (1, "regressed=1\n")])
def test_a_regression_is_passed_on_to_later_jobs(place: Path, code: int, regressed: str) -> None:
    """The exit code of the command decides."""
    pretend(place, "nox", f"echo told > regressions.md\nexit {code}\n")
    assert 0 == run(place, "Look for regressions", BASE_URL="https://example.org/").returncode
    assert regressed == (place.parent / "output").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_failed_search_for_regressions_reports_nothing(place: Path, code: int) -> None:
    """Without its report no issue is opened or closed."""
    pretend(place, "nox", f"exit {code}\n")
    assert 0 != run(place, "Look for regressions", BASE_URL="https://example.org/").returncode
    assert not (place.parent / "output").exists()


def test_every_file_has_a_checksum(place: Path) -> None:
    """Only the list itself has none, also when it is made again. A name may have spaces."""
    names = ("docs/SHA256SUMS", "index.html", "matrix.json", "records/a stack.jsonl")
    for name in names:
        path = place / "results" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    for _ in range(2):
        assert 0 == run(place, "List the checksums").returncode
    checked = subprocess.run(
        ["sha256sum", "-c", "SHA256SUMS"],
        cwd=place / "results",
        text=True,
        capture_output=True,
        check=True,
    )
    assert [f"./{name}: OK" for name in names] == checked.stdout.splitlines()


def test_the_matrix_is_bundled_for_update(place: Path) -> None:
    """With Python alone: nothing of a build is installed there. It is not in results/."""
    for name in ("matrix.toml", "results/records/latest.jsonl"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text('{"recorded_at":"2026-11-20T10:00:00Z"}\n', encoding="utf-8")
    pretend(place, "python", f'exec "{sys.executable}" -S "$@"\n')
    ran = run(place, "Bundle the matrix", PYTHONPATH=str(ROOT / "harness"))
    assert (0, "") == (ran.returncode, ran.stderr)
    (folder,) = {path.parent for path in place.rglob("bundle.*")}
    offer = msgspec.json.decode((folder / "bundle.json").read_bytes(), type=bundle.Offer)
    content = (folder / "bundle.zip").read_bytes()
    assert (hashlib.sha256(content).hexdigest(), len(content)) == (offer.sha256, offer.size_bytes)
    assert f"path: {folder.relative_to(place)}\n" in NIGHT


def report(place: Path, *, regressed: str, number: str = "") -> list[str]:
    """The arguments of ``gh`` about the issue, of which ``number`` is open."""
    pretend(place, "gh", GH)
    ran = run(
        place,
        "Open, update or close the issue",
        REGRESSED=regressed,
        OPEN=number,
        LABEL="regression",
        RUN="URL",
    )
    assert (0, "") == (ran.returncode, ran.stderr)
    first, *others = calls(place)
    assert first.startswith("issue list --app github-actions --label regression --state open")
    return others


def test_without_regressions_no_issue_is_opened(place: Path) -> None:
    """No other command is called."""
    assert [] == report(place, regressed="0")


def test_the_issue_is_closed_when_nothing_is_regressed(place: Path) -> None:
    """The comment has the address of the run."""
    assert ["issue close 7 --comment Nothing is regressed now: URL"] == report(
        place, regressed="0", number="7"
    )


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("7", ["issue edit 7 --body-file body.md"]),
        (
            "",
            [
                (
                    "label create regression --force "
                    "--description Something in the matrix regressed --color B60205"
                ),
                (
                    "issue create --title The matrix has regressed "
                    "--label regression --body-file body.md"
                ),
            ],
        ),
    ],
    ids=["open", "none"],
)
def test_there_is_one_issue(place: Path, number: str, expected: list[str]) -> None:
    """It is opened once, and kept up to date."""
    text = as_issue(regressed())
    (place / "regressions.md").write_text(text, encoding="utf-8")
    assert expected == report(place, regressed="1", number=number)
    assert f"{text}\nLast run: URL\n" == (place / "body.md").read_text(encoding="utf-8")


def git(where: Path, *arguments: str) -> str:
    """The output of git, with a fixed name and address."""
    named = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    return subprocess.run(
        ["git", *named, *arguments], cwd=where, text=True, capture_output=True, check=True,
        env={"PATH": os.environ["PATH"], "HOME": str(where), "GIT_CONFIG_NOSYSTEM": "1"},
    ).stdout  # fmt: skip


def commit(where: Path, path: str, text: str) -> None:
    """A commit that writes one file."""
    (where / path).parent.mkdir(exist_ok=True)
    (where / path).write_text(text, encoding="utf-8")
    git(where, "add", ".")
    git(where, "commit", "--quiet", "--message", path)


def a_night_in(place: Path, meanwhile: str | None) -> subprocess.CompletedProcess[str]:
    """A night publishes another matrix; ``meanwhile`` is a file that another commit changes."""
    pretend(place, "gh", GH)
    origin = place.parent / "origin"
    git(place, "init", "--quiet", "--initial-branch", "main")
    commit(place, "results/matrix.md", "old\n")
    commit(place, "README.md", "old\n")
    git(place.parent, "clone", "--quiet", "--bare", str(place), str(origin))
    git(place, "remote", "add", "origin", str(origin))
    if meanwhile:
        git(place.parent, "clone", "--quiet", str(origin), "other")
        commit(place.parent / "other", meanwhile, "of another\n")
        git(place.parent / "other", "push", "--quiet", "origin", "main")
    (place / "results" / "matrix.md").write_text("new\n", encoding="utf-8")
    return run(place, "Commit and push", BRANCH="main")


@pytest.mark.parametrize("meanwhile", [None, "CHANGELOG.md"])
def test_a_night_is_committed(place: Path, meanwhile: str | None) -> None:
    """It comes on top of what was merged in the meantime."""
    assert 0 == a_night_in(place, meanwhile).returncode
    files = git(place.parent / "origin", "ls-tree", "--name-only", "main").split()
    assert ("new\n", ["CHANGELOG.md"] * bool(meanwhile)) == (
        git(place.parent / "origin", "show", "main:results/matrix.md"),
        [name for name in files if name == meanwhile],
    )


def test_a_night_that_conflicts_is_not_committed_and_says_so(place: Path) -> None:
    """The step fails, so nothing is deployed."""
    ran = a_night_in(place, "results/matrix.md")
    assert (1, "of another\n") == (
        ran.returncode,
        git(place.parent / "origin", "show", "main:results/matrix.md"),
    )
    assert (
        "::error title=Not committed::main cannot be joined with the results/ of this night"
        in ran.stdout
    )


def test_where_nothing_changed_nothing_is_committed(place: Path) -> None:
    """Git is not asked to push."""
    pretend(place, "gh", GH)
    git(place, "init", "--quiet")
    commit(place, "results/matrix.md", "old\n")
    commit(place, "README.md", "old\n")
    assert (0, "Nothing changed.\n") == (
        (ran := run(place, "Commit and push", BRANCH="main")).returncode,
        ran.stdout,
    )


def test_no_step_needs_more_than_its_shell() -> None:
    """Expressions of the workflow are in variables, because in a script they would be code."""
    steps = re.findall(r"^      - name: (.+)$", NIGHT, re.MULTILINE)
    assert [] == [step for step in steps if "${{" in script(step)]
    assert all(shlex.split(script(step), comments=True) for step in steps)
