"""``others``: what PyTorch and the libraries say themselves about the faults of the corpus.

Each fault runs twice without ``trace``: plainly, and with ``torch.autograd.set_detect_anomaly``. It
counts as noticed if the script fails, if it says something on stderr that the healthy script does
not say, or if it prints nan or inf and the healthy one does not. Its line counts as named if a new
traceback or warning has an accepted line. Numbers are left out where lines are compared.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.table import Table
from rich.text import Text

from gradmatrix.cli.commands import add
from gradmatrix.core.errors import UserError
from gradmatrix.core.observation import Frame
from gradmatrix.core.text import one_line
from tools.audit import Score, line_is_right
from tools.corpus import OFFLINE, TIMEOUT_S, Case, add_choice, chosen, pooled

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from gradmatrix.run.project import Project

FORKED = Path(__file__).parent / "forked.py"
MODES = ("plain", "anomaly")
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

    @classmethod
    def left_in(cls, folder: Path) -> Said:
        """What a script left in its folder."""
        exit_code, stdout, stderr = (
            (folder / name).read_text(encoding="utf-8", errors="replace")
            for name in ("exit_code", "stdout", "stderr")
        )
        return cls(int(exit_code), stdout, stderr.replace(str(folder), ""))

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


def executed(cases: Sequence[Case], python: Path) -> dict[tuple[Case, str], Said]:
    """Run cases of one script without ``trace``, in each mode.

    Raises:
        UserError: if they did not end.
    """
    with tempfile.TemporaryDirectory(prefix="gradmatrix-corpus-") as root:
        name = cases[0].script.path.name
        folders = {
            (case, mode): Path(root) / f"{number}-{mode}"
            for number, case in enumerate(cases)
            for mode in MODES
        }
        for (case, _), folder in folders.items():
            folder.mkdir()
            (folder / name).write_text(case.text, encoding="utf-8")
        words = [f"{mode}={folder}" for (_, mode), folder in folders.items()]
        try:
            subprocess.run(
                [python, FORKED, name, *words],
                env={**os.environ, **OFFLINE},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=True,
                timeout=TIMEOUT_S,
            )
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
            raise UserError(
                f"{name} and its faults did not run.",
                cause=str(error),
                next_step="run the script alone to see why",
            ) from None
        return {key: Said.left_in(folder) for key, folder in folders.items()}


@dataclass(frozen=True)
class Notice:
    """What was noticed of a fault."""

    detected: bool
    line: bool | None
    """Whether an accepted line is named; None if no line is to blame."""
    says: str = ""
    """The last of what is new on stderr, for a reader."""

    def __str__(self) -> str:
        words = [name for name in ("detected", "line") if getattr(self, name)]
        return " ".join([" and ".join(words) or "nothing", one_line(self.says)[:200]]).strip()

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
    """What is noticed of the faults of one script, in each mode."""
    healthy = Case(faults[0].script)
    said = executed([healthy, *faults], python)
    return [
        {mode: Notice.of(case, said[case, mode], said[healthy, mode]) for mode in MODES}
        for case in faults
    ]


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
            words = "; ".join(f"{mode} {each}" for mode, each in notice.items())
            console.print(Text(f"{case.name}: {words}"), soft_wrap=True)
    console.print(table(rows))
    return 0


def table(rows: Mapping[str, Sequence[Mapping[str, Notice]]]) -> Table:
    """A row for each library, and one for all."""
    columns = (*MODES, TRACE)
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
