"""The action for pull requests of other projects: its steps in the order of a runner."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gradmatrix.cli.main import parser
from gradmatrix.publish.reports import MARKER
from tests.night.test_workflow_steps import commit, git
from tests.runner import EXPRESSION, Runner, steps_of

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a runner has GNU's tools")

ACTION = Path(__file__).resolve().parents[2] / ".github" / "actions" / "upgrade"
TEXT = (ACTION / "action.yml").read_text(encoding="utf-8")
STEPS = steps_of(TEXT)
DEFAULTS = re.findall(r"^  ([\w-]+):\n    description: .*\n    default: (.*)$", TEXT, re.MULTILINE)
GRADMATRIX = """\
import json, os, sys
place = os.environ["PLACE"]
with open(f"{place}/words.json", "w") as file:
    json.dump(sys.argv[1:], file)
words = sys.argv[sys.argv.index("upgrade") + 1 :]
baseline, candidate = words[0], words[words.index("--to") + 1]
code = int(os.environ["CODE_OF_UPGRADE"])
if code == 2:
    print(f"{baseline}: resolving", file=sys.stderr)
    print("gradmatrix: It does not resolve.\\n  why:  ```@somebody", file=sys.stderr)
else:
    texts = [open(path).read() for path in (baseline, candidate) if os.path.isfile(path)]
    with open(words[words.index("--markdown") + 1], "w") as file:
        file.write(f"MARKER\\n## Report on {' and '.join(texts)}\\n".replace("MARKER", MARKER))
sys.exit(code)
"""
GH = """\
import json, os, subprocess, sys
place = os.environ["PLACE"]
path = f"{place}/comments.json"
if os.path.exists(f"{place}/read-only"):
    sys.exit("gh: Resource not accessible by integration (HTTP 403)")
assert os.environ["GH_TOKEN"] == "token" and sys.argv[1] == "api", sys.argv
words = sys.argv[2:]
comments = json.load(open(path)) if os.path.exists(path) else []
method = words[words.index("--method") + 1] if "--method" in words else "GET"
if method == "GET":
    assert words[1].startswith("repos/me/mine/issues/7/"), words
    jq = ["jq", "-r", words[words.index("--jq") + 1]]
    sys.exit(subprocess.run(jq, input=json.dumps(comments), text=True).returncode)
body = open(words[words.index("--field") + 1].removeprefix("body=@")).read()
if method == "POST":
    number = len(comments)
    comments.append({"url": f"https://api/{number}", "user": {"type": "Bot"}, "body": body})
else:
    (found,) = [each for each in comments if each["url"] in words]
    found["body"] = body
json.dump(comments, open(path, "w"))
"""
FROM_PULL_REQUEST = {
    "github.event.pull_request.base.sha": "",  # filled in
    "github.token": "token",
    "github.repository": "me/mine",
    "github.event.pull_request.number": "7",
    "github.server_url": "https://example.org",
    "github.run_id": "42",
    "github.run_attempt": "1",
}


def program(place: Path, name: str, source: str) -> None:
    """A command that runs Python code, and knows where the test is."""
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = source.replace("import json", f"MARKER = {MARKER!r}\nimport json", 1)
    path.write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
    path.chmod(0o755)


class Pull:
    """A pull request that changes uv.lock in a repository with one script."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.workspace = place / "workspace"
        self.workspace.mkdir()
        git(self.workspace, "init", "--quiet", "--initial-branch", "main")
        commit(self.workspace, "train.py", "print(1)\n")
        commit(self.workspace, "uv.lock", "old\n")
        self.base = git(self.workspace, "rev-parse", "HEAD").strip()
        commit(self.workspace, "uv.lock", "new\n")
        program(place, "bin/gh", GH)
        program(place, "bin/uv", "import json, sys\n")
        program(place, "temp/gradmatrix/bin/python", GRADMATRIX)

    def check_out(self, given: Mapping[str, str]) -> None:
        """What actions/checkout does."""
        assert given["persist-credentials"] == "false"
        target = self.workspace / given["path"]
        shutil.rmtree(target, ignore_errors=True)
        git(self.place, "clone", "--quiet", str(self.workspace), str(target))
        git(target, "checkout", "--quiet", given["ref"])

    def run(self, code: int = 0, *, event: bool = True, **inputs: str) -> tuple[int, Runner]:
        """Run the steps with some inputs; ``code`` is that of ``gradmatrix upgrade``."""
        given = {name: value.strip('"') for name, value in DEFAULTS}
        given |= {"script": "train.py"} | {name.replace("_", "-"): inputs[name] for name in inputs}
        known = dict(FROM_PULL_REQUEST) if event else dict.fromkeys(FROM_PULL_REQUEST, "")
        if event:
            known["github.event.pull_request.base.sha"] = self.base
        known |= {f"inputs.{name}": value for name, value in given.items()}
        known["inputs.to == ''"] = str(not given["to"]).lower()
        asked = "inputs.comment == 'true' && github.event.pull_request.number"
        known[asked] = str(given["comment"] == "true" and event).lower()
        runner = Runner(
            self.place,
            ACTION,
            known,
            {
                "actions/checkout": self.check_out,
                "astral-sh/setup-uv": lambda _: None,
                "actions/cache": lambda _: None,
            },
            {"PLACE": str(self.place), "CODE_OF_UPGRADE": str(code)},
        )
        return runner.run(STEPS), runner

    @property
    def words(self) -> list[str]:
        """The arguments of ``gradmatrix``."""
        found: list[str] = json.loads((self.place / "words.json").read_text(encoding="utf-8"))
        return found[found.index("upgrade") :]

    @property
    def comments(self) -> list[str]:
        """The comments on the pull request."""
        path = self.place / "comments.json"
        return [each["body"] for each in json.loads(path.read_text())] if path.exists() else []


@pytest.fixture
def pull(tmp_path: Path) -> Pull:
    """The pull request."""
    return Pull(tmp_path)


def test_the_base_is_compared_with_the_head(pull: Pull) -> None:
    """In this order. The report is the summary, the output and the comment."""
    code, runner = pull.run(file="uv.lock", script="train.py --epochs 1\n\nother.py\n")
    assert (0, "safe") == (code, runner.expressions["steps.compare.outputs.verdict"])
    assert [
        "Check the inputs",
        "actions/checkout",
        "astral-sh/setup-uv",
        "actions/cache",
        "Install gradmatrix",
        "Compare",
        "Comment",
        "Decide",
    ] == runner.ran
    report = f"{MARKER}\n## Report on old\n and new\n\n"
    assert report == runner.summary
    run = "[This run](https://example.org/me/mine/actions/runs/42)"
    assert [f"<!-- gradmatrix upgrade: uv.lock -->\n{report}\n{run}\n"] == pull.comments
    path = str(pull.place / "temp" / "gradmatrix.md")
    assert path == runner.expressions["steps.compare.outputs.report"]
    assert [
        *("upgrade", ".gradmatrix/base/uv.lock", "--to", "uv.lock"),
        *("--script", "train.py --epochs 1", "--script", "other.py", "--no-timing"),
        *("--results", ".gradmatrix/action", "--markdown", path),
    ] == pull.words
    assert parser().parse_args(pull.words).timing == "none"


def test_the_comment_is_updated(pull: Pull) -> None:
    """One for each file. Comments of people, and of other actions, stay as they are."""
    others = [
        {
            "url": "https://api/0",
            "user": {"type": "User"},
            "body": "<!-- gradmatrix upgrade: uv.lock -->",
        },
        {"url": "https://api/1", "user": {"type": "Bot"}, "body": "another"},
    ]
    (pull.place / "comments.json").write_text(json.dumps(others), encoding="utf-8")
    pull.run(file="uv.lock")
    pull.run(file="train.py")
    (pull.workspace / "uv.lock").write_text("newer\n", encoding="utf-8")
    pull.run(file="uv.lock")
    assert [each["body"] for each in others] == pull.comments[:2]
    assert ["uv.lock", "train.py"] == [
        match[1] for body in pull.comments[2:] if (match := re.match(r"<!-- .*: (.*) -->", body))
    ]
    assert "newer" in pull.comments[2]


def test_without_the_right_to_write_the_summary_is_all(pull: Pull) -> None:
    """This is a fork. The job does not fail for it, and says what to grant elsewhere."""
    (pull.place / "read-only").touch()
    code, runner = pull.run(file="uv.lock")
    assert (0, True, []) == (code, "Report on old" in runner.summary, pull.comments)
    assert "::notice title=gradmatrix::No comment was written" in runner.log
    assert "HTTP 403" in runner.log


def test_a_comment_can_be_declined(pull: Pull) -> None:
    """Then no step has the token."""
    _, runner = pull.run(file="uv.lock", comment="false")
    assert "Comment" not in runner.ran


@pytest.mark.parametrize(
    ("code", "fail_on", "expected"),
    [
        (1, "regressed", 1),
        (1, "nothing", 0),
        (3, "regressed", 0),
        (3, "regressed inconclusive", 3),
        (4, "regressed inconclusive", 0),
        (4, "speed-unknown", 4),
        (0, "regressed inconclusive speed-unknown", 0),
        (2, "nothing", 2),
        (130, "regressed", 130),
    ],
)
def test_the_job_fails_as_it_was_asked_to(
    pull: Pull, code: int, fail_on: str, expected: int
) -> None:
    """What could not be compared fails always. The report is there in any case."""
    found, runner = pull.run(code, file="uv.lock", fail_on=fail_on)
    assert expected == found
    assert 1 == len(pull.comments)
    assert runner.summary


def test_an_error_is_reported_as_text(pull: Pull) -> None:
    """From its first line on, without what came before, and without markup."""
    code, runner = pull.run(2, file="uv.lock")
    assert (2, "") == (code, runner.expressions["steps.compare.outputs.verdict"])
    assert (
        "## The comparison could not be done\n\n```text\n"
        "gradmatrix: It does not resolve.\n  why:  '''@somebody\n```\n"
    ) == runner.summary
    assert runner.summary in pull.comments[0]


def test_a_report_of_an_earlier_run_is_not_shown_again(pull: Pull) -> None:
    """The machine may be one's own, and keep files."""
    pull.run(file="uv.lock")
    _, runner = pull.run(2, file="uv.lock")
    assert "Report on" not in runner.summary + pull.comments[0]


def test_without_a_pull_request_the_file_is_compared_with_what_is_named(pull: Pull) -> None:
    """This is a nightly check. The base is not checked out, and nothing is commented."""
    code, runner = pull.run(event=False, to="latest")
    assert (0, ["upgrade", ".", "--to", "latest"]) == (code, pull.words[:4])
    assert {"actions/checkout", "Comment"}.isdisjoint(runner.ran)


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({"file": "none.lock"}, "There is no 'none.lock' in this checkout."),
        ({"fail_on": "regressd"}, "fail-on has the unknown word 'regressd'."),
        ({"event": False}, "There is no pull request to compare with."),
        ({"script": " \n"}, "Nothing says what runs."),
    ],
)
def test_wrong_inputs_are_one_error(pull: Pull, inputs: dict[str, str], told: str) -> None:
    """It is shown above the run, and nothing is installed before."""
    code, runner = pull.run(**inputs)  # type: ignore[arg-type]
    assert (2, 1) == (code, runner.log.count("::error"))
    assert f"::error title=gradmatrix::{told}" in runner.log
    assert ["Check the inputs"] == runner.ran


@pytest.mark.parametrize("there", ["matrix.toml", "--scenario t5_classifier"])
def test_a_matrix_or_a_scenario_says_what_runs(pull: Pull, there: str) -> None:
    """Then no script must be named."""
    if there == "matrix.toml":
        commit(pull.workspace, there, "")
    options = "" if there == "matrix.toml" else there
    code, _ = pull.run(file="uv.lock", script="", options=options)
    assert (0, options.split()) == (code, pull.words[4:-4])


def test_what_is_installed_has_hashes(pull: Pull) -> None:
    """The action runs from its own checkout."""
    (install,) = (step["run"] for step in STEPS if step.get("name") == "Install gradmatrix")
    words = shlex.split(install)
    assert {"--require-hashes", "$GITHUB_ACTION_PATH/../../requirements-publish.txt"} <= set(words)
    assert (ACTION / "../../requirements-publish.txt").is_file()
    assert (ACTION / "../../../harness/gradmatrix").is_dir()


def test_no_step_has_an_expression_in_its_script() -> None:
    """There it would be code. The token is in the environment of one step only."""
    assert [] == [step["name"] for step in STEPS if EXPRESSION.search(step.get("run", ""))]
    with_token = [step for step in STEPS if "github.token" in str(step.get("env"))]
    assert ["Comment"] == [step["name"] for step in with_token]
    assert "secrets." not in TEXT


DOCS = (Path(__file__).resolve().parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
RECIPES = re.findall(r"^```yaml\n(.*?)^```", DOCS, re.MULTILINE | re.DOTALL)


def test_the_recipes_of_the_documentation_fit() -> None:
    """Their actions have our versions, their inputs and commands exist."""
    used = {each for text in RECIPES for each in re.findall(r"uses: (.+)", text)}
    ours = {each for each in used if each.startswith("OWNER/REPO/")}
    assert {"OWNER/REPO/.github/actions/upgrade@COMMIT"} == ours
    assert all(f"uses: {each}" in TEXT for each in used - ours)
    given = [steps_of(text)[-1]["with"] for text in RECIPES if "OWNER/REPO" in text]
    known = set(re.findall(r"^  ([\w-]+):\n    description:", TEXT, re.MULTILINE))
    assert [True, True] == [set(each) <= known for each in given]
    commands = re.findall(r"^ +- gradmatrix (.+)$", "\n".join(RECIPES), re.MULTILINE)
    assert ["uv.lock"] == [parser().parse_args(shlex.split(each)).to[0] for each in commands]
