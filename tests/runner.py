"""A runner of GitHub Actions, for the steps of one job: shells are real, actions are pretended.

Each step gets a file for its outputs, its summary and what it adds to PATH, as a runner gives them.
Expressions are not evaluated: a test says what each one is.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import textwrap
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Step = dict[str, Any]
KEY = re.compile(r"([\w-]+):(?: (.*))?")
EXPRESSION = re.compile(r"\$\{\{ (.+?) \}\}")


def steps_of(text: str) -> list[Step]:
    """The steps of a composite action, or of a workflow with one job."""
    (indent, body), *_ = re.findall(r"^( *)steps:\n((?:\1  .*\n|\n)+)", text, re.MULTILINE)
    parts = re.split(rf"^{indent}  - ", body, flags=re.MULTILINE)[1:]
    return [mapping(textwrap.dedent(f"{indent}    {part}").splitlines()) for part in parts]


def mapping(lines: Sequence[str]) -> Step:
    """A mapping of YAML, as workflows are written: plain and quoted strings, blocks, mappings."""
    found: Step = {}
    for number, line in enumerate(lines):
        if (key := KEY.fullmatch(line)) is None:  # indented, a comment or empty
            continue
        below = lines[number + 1 :]
        inside = takewhile(lambda each: not each.strip() or each[0] == " ", below)
        block = textwrap.dedent("\n".join(inside) + "\n")
        value = re.sub(r"(?:^|\s+)#.*", "", key[2] or "")
        quoted = value[:1] in ("'", '"') and value[-1] == value[0]
        if value == "|":
            found[key[1]] = block
        elif value:
            found[key[1]] = value[1:-1] if quoted else value
        else:
            found[key[1]] = mapping(block.splitlines())
    return found


@dataclass
class Runner:
    """Runs steps in a workspace; what they wrote is kept."""

    place: Path
    """A folder for everything. The workspace is a folder in it."""
    action: Path
    """The folder of the action."""
    expressions: dict[str, str]
    """What each expression is, conditions included; those of outputs are added."""
    actions: Mapping[str, Callable[[Mapping[str, str]], object]]
    """What an action does with its inputs, by its name without the version."""
    variables: dict[str, str] = field(default_factory=dict)
    summary: str = ""
    log: str = ""
    ran: list[str] = field(default_factory=list)
    """The names of the steps that ran, those of actions too."""
    path: list[str] = field(default_factory=list)

    @property
    def workspace(self) -> Path:
        """Where the repository is checked out."""
        return self.place / "workspace"

    def run(self, steps: Sequence[Step]) -> int:
        """Run the steps until one fails; return the exit code of the last one."""
        (self.place / "temp").mkdir(exist_ok=True)
        self.path.insert(0, str(self.place / "bin"))
        for step in steps:
            if "if" in step and self.expressions[step["if"]] != "true":
                continue
            name = step.get("uses", "").partition("@")[0]
            self.ran.append(name or str(step.get("name", step["run"])))
            if "uses" in step:
                given = {key: self.filled(text) for key, text in step.get("with", {}).items()}
                self.actions[name](given)
            elif code := self.shell(step, Path(tempfile.mkdtemp(dir=self.place))):
                return code
        return 0

    def filled(self, text: str) -> str:
        """A text with the values of its expressions."""
        return EXPRESSION.sub(lambda found: self.expressions[found[1]], text)

    def shell(self, step: Step, folder: Path) -> int:
        """Run a script as ``shell: bash`` does, and take over what it wrote into its files."""
        files = {name: folder / name.lower() for name in ("OUTPUT", "STEP_SUMMARY", "PATH", "ENV")}
        for path in files.values():
            path.touch()
        (folder / "script.sh").write_text(step["run"], encoding="utf-8")
        environment = {
            "PATH": os.pathsep.join([*self.path, os.environ["PATH"]]),
            "HOME": str(self.place),
            "LC_ALL": "C.UTF-8",
            "RUNNER_TEMP": str(self.place / "temp"),
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(self.action),
            "GITHUB_WORKSPACE": str(self.workspace),
            **{f"GITHUB_{name}": str(path) for name, path in files.items()},
            **self.variables,
            **{name: self.filled(text) for name, text in step.get("env", {}).items()},
        }
        ended = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(folder / "script.sh")],
            cwd=self.workspace, env=environment, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.log += ended.stdout
        self.summary += files["STEP_SUMMARY"].read_text(encoding="utf-8")
        self.path = [*files["PATH"].read_text(encoding="utf-8").splitlines(), *self.path]
        for line in files["OUTPUT"].read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition("=")
            self.expressions[f"steps.{step['id']}.outputs.{key}"] = value
        return ended.returncode
