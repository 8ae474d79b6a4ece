"""Give records new keys after a change that does the same: ``nox -s rekey -- COMMIT``.

A key names the code that made a record. After a refactoring, the code here and the code of COMMIT
may differ in places, names or words only. Without new keys every record of COMMIT would be made
again. This command writes new keys only if it has proved that both do the same:

- the observer and the scenarios: the digests of what both commits' code means are equal
  (``gradmatrix.run.meaning``);
- the judge: it gives the same verdict on each record's observation.

A record that other code made, or that is not proved, stays as it is and its cell runs again.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gradmatrix.cli.commands import add
from gradmatrix.core.errors import UserError
from gradmatrix.core.files import write_atomically
from gradmatrix.judge.relations import as_it_ran
from gradmatrix.judge.verdict import judge_observation, passes
from gradmatrix.run import confirmed, meaning, plan, store
from gradmatrix.run.scenarios import READ_FROM_OUTSIDE
from gradmatrix.run.store import Store

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from rich.console import Console

    from gradmatrix.core.model import Record, Scenario
    from gradmatrix.run.project import Project

ROOMS = ("harness/gradmatrix/observe", "harness/inside")
"""Where a commit has its observer: today, and in older commits."""
INPUTS = """
import json, sys
from pathlib import Path
sys.path[:0] = [str(Path("harness").resolve()), str(Path.cwd())]
if Path("harness/gradmatrix").is_dir():
    from gradmatrix.run import plan, scenarios
else:
    from harness import plan, scenarios
observer = getattr(plan, "observer_digest", None) or plan.inside_digest
known = scenarios.load_all(Path("scenarios"))
found = {name: each.source_digest[:16] for name, each in known.items()}
inputs = {"observer": observer()[:16], "judge": plan.judge_digest()[:16], "scenarios": found}
print(json.dumps(inputs))
"""
"""The script that prints what a commit's own code writes into its records."""
NEW, OTHER_CODE, UNPROVED, KNOWN = "new key", "made by other code", "not proved", "has its key"


class Origin(NamedTuple):
    """What a commit wrote into its records, and what its code means."""

    observer: str
    judge: str
    scenarios: dict[str, str]
    """The digest of each scenario as the commit made it."""
    observer_means: str
    scenarios_mean: dict[str, str]


def read_base(root: Path, commit: str) -> Origin:
    """The code of ``commit``.

    Raises:
        UserError: if there is no such commit, or its code has another layout.
    """
    with tempfile.TemporaryDirectory(prefix="gradmatrix-rekey-") as name:
        folder = Path(name)
        try:
            archive = subprocess.run(
                ["git", "archive", commit, "harness", "scenarios"],
                cwd=root,
                check=True,
                capture_output=True,
            ).stdout
            with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
                tar.extractall(folder, filter="data")
            wrote = subprocess.run(
                [sys.executable, "-c", INPUTS], cwd=folder, check=True, capture_output=True
            ).stdout
        except subprocess.CalledProcessError as error:
            raise UserError(
                f"The code of {commit} cannot be read.",
                cause=error.stderr.decode(errors="replace").strip().rpartition("\n")[2],
                next_step="give a commit of this repository whose records these are: git log",
            ) from error
        observer = next(folder / room for room in ROOMS if (folder / room).is_dir())
        return Origin(
            **json.loads(wrote),
            observer_means=meaning.digest(observer.name, observer, plan.OBSERVER, plan.PACING),
            scenarios_mean={
                path.stem: meaning.digest_of_file(path.read_bytes(), READ_FROM_OUTSIDE)
                for path in (folder / "scenarios").glob("*.py")
            },
        )


def rekeyed(record: Record, base: Origin, scenarios: Mapping[str, Scenario]) -> tuple[Record, str]:
    """The record, with its new key if that is proved, and what became of it."""
    scenario = scenarios.get(record.cell.scenario)
    variants = {} if scenario is None else {each.name: each for each in scenario.variants}
    variant = variants.get(record.cell.variant)
    if scenario is None or variant is None:
        return record, OTHER_CODE
    today = plan.code_inputs(scenario, variant)
    if today.items() <= record.inputs.items():
        return record, KNOWN
    wrote = base.observer, base.judge, base.scenarios.get(scenario.name)
    if wrote != tuple(record.inputs.get(name) for name in ("observer", "judge", "scenario")):
        return record, OTHER_CODE
    runs_the_same = base.observer_means == plan.observer_digest() and (
        base.scenarios_mean.get(scenario.name) == scenario.source_digest
    )
    if not runs_the_same or record.role is not variant.role or not is_judged_the_same(record):
        return record, UNPROVED
    inputs = {**record.inputs, **today}
    return msgspec.structs.replace(record, inputs=inputs, key=plan.key_of(inputs)), NEW


def is_judged_the_same(record: Record) -> bool:
    """Whether the judge of today gives the verdict that the record has."""
    ran = as_it_ran(record)
    if (
        ran.observation is None
    ):  # settled without running; or its process left nothing to judge again
        return ran.isolation == "none"
    verdict = judge_observation(ran.observation)
    passed = passes(ran.role, verdict, ran.observation)
    return (str(verdict.outcome), verdict.gradient, passed) == (
        ran.outcome,
        ran.gradient,
        ran.passed,
    )


def rekey(folder: Path, base: Origin, scenarios: Mapping[str, Scenario]) -> Counter[str]:
    """Write the proved keys of a journal; return the number of records of each kind."""
    counts: Counter[str] = Counter()
    for path in sorted(folder.glob("*.jsonl")):
        lines = []
        for line in path.read_bytes().splitlines(keepends=True):
            record, kind = rekeyed(store.decode(line), base, scenarios)
            counts[kind] += 1
            lines.append(store.encode(record) if kind == NEW else line)
        write_atomically(path, b"".join(lines))
    return counts


def rekey_published(folder: Path, base: Origin, scenarios: Mapping[str, Scenario]) -> Counter[str]:
    """The same for published records: their lines stay, and the new inputs are confirmed."""
    counts: Counter[str] = Counter()
    published = Store(folder, folder)
    for stack in sorted(published.stacks):
        found = []
        for record in published.recorded_here(stack).values():
            after, kind = rekeyed(record, base, scenarios)
            counts[kind] += 1
            found.append(confirmed.confirmed(record, after) if kind == NEW else record)
        confirmed.write(confirmed.path_of(folder, stack), stack, found)
    return counts


def register_rekey(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    text = "give records the keys of today's code if it provably does the same as a commit's code"
    parser = add(commands, "rekey", rekey_command, text)
    parser.add_argument("commit", help="the commit whose code made the records")


def rekey_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """Run ``rekey``; returns 1 if a record of that commit could not be proved."""
    base = read_base(project.root, options.commit)
    left = 0
    for folder, write in (
        (project.results / "records", rekey_published),
        (project.work / "records", rekey),
    ):
        counts = write(folder, base, project.scenarios)
        for kind, number in counts.items():
            console.print(f"{folder.relative_to(project.root)}: {number} records: {kind}")
        left += counts[UNPROVED]
    return 1 if left else 0
