"""``others``: what PyTorch and the libraries say themselves about the faults of the corpus.

Each fault runs twice without ``trace``: plainly, and with ``torch.autograd.set_detect_anomaly``. It
counts as noticed if the script fails, if it says something on stderr that the healthy script does
not say, or if it prints nan or inf and the healthy one does not. Its line counts as named if a new
traceback or warning has an accepted line. Numbers are left out where lines are compared.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.table import Table
from rich.text import Text

from gradmatrix.cli.commands import add
from gradmatrix.core.observation import Frame
from tools.audit import Score, line_is_right
from tools.corpus import Case, add_choice, chosen, pooled, run

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from gradmatrix.run.project import Project

PLAIN, ANOMALY = "plain", "anomaly mode"
BEFORE = {PLAIN: "", ANOMALY: "import torch\ntorch.autograd.set_detect_anomaly(True)\n"}
"""What Python runs before the script (``sitecustomize``)."""
TRACE = "trace"
LIBRARIES = {
    "Lightning": {"lightning", "pytorch-lightning"},
    "Hugging Face": {"transformers", "trl", "accelerate", "peft"},
}
"""The packages whose own checks run in a script that needs one of them."""
NUMBER = re.compile(r"0x[0-9a-f]+|[-+]?\d[\d.,]*(?:e[-+]?\d+)?")
PLACE = re.compile(r'([\w-]+\.py)(?:", line |:)(\d+)')
NOT_FINITE = re.compile(r"\b(?:nan|inf)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Said:
    """How a script ended, and what it printed."""

    exit_code: int
    stdout: str
    stderr: str

    @cached_property
    def messages(self) -> dict[str, str]:
        """The lines of stderr, by their text without numbers."""
        return {NUMBER.sub("0", line).strip(): line for line in self.stderr.splitlines()}

    @property
    def finite(self) -> bool:
        """Whether no printed number is nan or inf."""
        return NOT_FINITE.search(self.stdout) is None

    def news(self, healthy: Said) -> list[str]:
        """What it says on stderr and the healthy script does not."""
        return [line for text, line in self.messages.items() if text not in healthy.messages]


def execute(case: Case, python: Path, mode: str) -> Said:
    """Run a case in a folder of its own, without ``trace``."""
    with tempfile.TemporaryDirectory(prefix="gradmatrix-corpus-") as folder, \
            tempfile.TemporaryDirectory(prefix="gradmatrix-site-") as site:  # fmt: skip
        (Path(site) / "sitecustomize.py").write_text(BEFORE[mode], encoding="utf-8")
        words = (python, case.script.path.name)
        ran = run(case, words, Path(folder), {"PYTHONPATH": site})
        return Said(ran.returncode, ran.stdout, ran.stderr.replace(folder, ""))


@dataclass(frozen=True)
class Notice:
    """What was noticed of a fault."""

    detected: bool
    line: bool | None
    """Whether an accepted line is named; None if no line is to blame."""
    says: str = ""
    """The last of what is new on stderr, for a reader."""

    @classmethod
    def of(cls, case: Case, said: Said, healthy: Said) -> Notice:
        """Compare a script that has a fault with the healthy one."""
        news = said.news(healthy)
        places = [
            Frame(file=file, line=int(number), function="")
            for file, number in PLACE.findall("\n".join(news))
        ]
        failed = said.exit_code != healthy.exit_code
        return cls(
            failed or bool(news) or (healthy.finite and not said.finite),
            any(line_is_right(p, case.guilty) for p in places) if case.guilty else None,
            "" if case.kept_out else news[-1] if news else "",
        )


def notices(faults: Sequence[Case], python: Path) -> list[dict[str, Notice]]:
    """Run the faults of one script in each mode.

    The healthy script runs in anomaly mode only if that says more than a plain run.
    """
    healthy = cache(lambda mode: execute(Case(faults[0].script), python, mode))
    result = []
    for fault in faults:
        said = execute(fault, python, ANOMALY)
        found = {
            PLAIN: Notice.of(fault, execute(fault, python, PLAIN), healthy(PLAIN)),
            ANOMALY: Notice.of(fault, said, healthy(PLAIN)),
        }
        if found[ANOMALY] != found[PLAIN]:
            found[ANOMALY] = Notice.of(fault, said, healthy(ANOMALY))
        result.append(found)
    return result


def library(case: Case) -> str:
    """Whose checks run in a script."""
    needs = set(case.script.metadata.dependencies)
    return next((name for name, known in LIBRARIES.items() if known & needs), "PyTorch alone")


def traced(path: Path) -> dict[str, Notice]:
    """What ``trace`` noticed of each fault, from a file of ``corpus --output``."""
    answers = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    return {
        each["case"]: Notice(each["right"]["detected"], each["right"]["line"])
        for each in answers
        if each["truth"] is not None
    }


def others_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Run ``others``; returns 0."""
    answers = {} if options.answers is None else traced(options.answers)
    rows: dict[str, list[Mapping[str, Notice]]] = {}
    cases = [case for case in chosen(options) if case.fault is not None]
    scripts = [list(faults) for _, faults in groupby(cases, key=lambda case: case.script)]
    with pooled(cases, options.jobs, project, console) as (pool, pythons):
        found = pool.map(lambda c: notices(c, pythons[c[0].script.origin.environment]), scripts)
        for case, notice in zip(cases, chain.from_iterable(found), strict=True):
            if case.name in answers:
                notice[TRACE] = answers[case.name]
            rows.setdefault(library(case), []).append(notice)
            for mode, each in notice.items():
                console.print(Text(f"{case.name}, {mode}: {each}"), soft_wrap=True)
    console.print(table(rows))
    return 0


def table(rows: Mapping[str, Sequence[Mapping[str, Notice]]]) -> Table:
    """A row for each library, and one for all."""
    columns = (*BEFORE, TRACE)
    words = [f"{name}: {what}" for name in columns for what in ("noticed", "line")]
    result = Table("checks of", "faults", *words)
    for name, found in {**rows, "all": [each for row in rows.values() for each in row]}.items():
        scores: list[Score] = []
        for column in columns:
            notices = [each[column] for each in found if column in each]
            scores += [Score.over(n.detected for n in notices), Score.over(n.line for n in notices)]
        result.add_row(name, str(len(found)), *map(str, scores))
    return result


def register_others(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    text = "run the faults of the corpus without trace: what do PyTorch and the libraries say?"
    parser = add(commands, "others", others_command, text)
    add_choice(parser)
    parser.add_argument(
        "--answers", type=Path, default=None, metavar="FILE",
        help="what corpus --output wrote: shows the answers of trace beside them",
    )  # fmt: skip
    parser.set_defaults(healthy=False)
