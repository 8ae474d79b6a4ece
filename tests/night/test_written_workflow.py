"""The workflow that ``gradmatrix init`` writes: its steps in the order of a runner."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from tests.night.test_workflow_steps import commit, git
from tests.night.test_workflows import TEXTS, WRITTEN, jobs
from tests.runner import Runner, steps_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a runner has GNU's tools")

JOBS = {name: steps_of(text) for name, text in jobs(TEXTS[WRITTEN.name]).items()}
GRADMATRIX = """\
echo "$*" >> ../calls
case "$1" in
  lock) exit "$LOCK" ;;
  publish) mkdir -p results/local results/site && echo new > results/matrix.md ;;
  regressions) echo "# told" > "$3" && exit "$REGRESSIONS" ;;
esac
"""


class Night:
    """A repository of its own with a published matrix, and the two jobs of a night."""

    def __init__(self, place: Path) -> None:
        self.place, self.origin = place, place / "origin"
        self.origin.mkdir()
        git(self.origin, "init", "--quiet", "--initial-branch", "main")
        commit(self.origin, "results/matrix.md", "old\n")
        commit(self.origin, "results/cells.html", "of a stack that is gone\n")
        commit(self.origin, ".gitignore", "results/\n")
        git(self.origin, "config", "receive.denyCurrentBranch", "updateInstead")
        for name, body in {
            "gradmatrix": GRADMATRIX,
            "gh": "",
            "uv": 'echo "$*" >> ../calls\n',
        }.items():
            path = place / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/bin/bash\n{body}", encoding="utf-8")
            path.chmod(0o755)

    def check_out(self, given: Mapping[str, str]) -> None:
        """What actions/checkout does."""
        assert {"persist-credentials": "false"} == given
        shutil.rmtree(self.place / "workspace", ignore_errors=True)
        git(self.place, "clone", "--quiet", str(self.origin), "workspace")

    def upload(self, given: Mapping[str, str]) -> None:
        """What actions/upload-artifact does with a folder."""
        shutil.copytree(self.place / "workspace" / given["path"], self.place / given["name"])

    def download(self, given: Mapping[str, str]) -> None:
        """What actions/download-artifact does."""
        shutil.copytree(self.place / given["name"], self.place / "workspace" / given["path"])

    def job(self, name: str, **variables: str) -> tuple[int, Runner]:
        """Run a job."""
        known = {
            "github.run_id": "1",
            "github.ref_name": "main",
            "github.token": "token",
            "needs.run.outputs.regressed": variables.pop("regressed", "0"),
        }
        nothing = dict.fromkeys(("astral-sh/setup-uv", "actions/cache"), lambda _: None)
        actions = {
            "actions/checkout": self.check_out,
            "actions/upload-artifact": self.upload,
            "actions/download-artifact": self.download,
        }
        (self.place / "workspace").mkdir(exist_ok=True)
        variables = {"LOCK": "0", "REGRESSIONS": "0", "GIT_CONFIG_NOSYSTEM": "1", **variables}
        runner = Runner(self.place, self.place, known, {**actions, **nothing}, variables)
        return runner.run(JOBS[name]), runner


@pytest.fixture
def night(tmp_path: Path) -> Night:
    """The night."""
    return Night(tmp_path)


@pytest.mark.parametrize(
    ("lock", "regressions", "expected"), [("0", "0", 0), ("3", "1", 0), ("2", "0", 1)]
)
def test_a_night_runs_what_changed_and_keeps_its_tables(
    night: Night, lock: str, regressions: str, expected: int
) -> None:
    """A stack that does not resolve, and a regression, end no night. The table is the summary."""
    code, runner = night.job("run", LOCK=lock, REGRESSIONS=regressions)
    assert expected == code
    if expected:
        return
    assert [
        "lock latest",
        "run --all",
        "publish",
        "regressions --output regressions.md",
    ] == (night.place / "calls").read_text(encoding="utf-8").splitlines()[-4:]
    assert "# told\nnew\n" == runner.summary
    assert regressions == runner.expressions["steps.publish.outputs.regressed"]
    assert not (night.place / "results" / "local").exists()
    assert (night.place / "results" / "matrix.md").is_file()


@pytest.mark.parametrize("regressed", ["0", "1"])
def test_what_was_published_is_committed(night: Night, regressed: str) -> None:
    """Also if git ignores it. A regression fails the job after that."""
    (night.place / "results").mkdir()
    (night.place / "results" / "matrix.md").write_text("new\n", encoding="utf-8")
    assert int(regressed) == night.job("commit", regressed=regressed)[0]
    assert ("new\n", ".gitignore\nresults\n") == (
        git(night.origin, "show", "main:results/matrix.md"),
        git(night.origin, "ls-tree", "--name-only", "main"),
    )
    assert "results/matrix.md\n" == git(
        night.origin, "ls-tree", "-r", "--name-only", "main", "results"
    )


def test_where_nothing_changed_nothing_is_committed(night: Night) -> None:
    """The job ends as the night ended."""
    shutil.copytree(night.origin / "results", night.place / "results")
    before = git(night.origin, "rev-parse", "main")
    code, runner = night.job("commit", regressed="1")
    assert (1, before) == (code, git(night.origin, "rev-parse", "main"))
    assert "Nothing changed." in runner.log
