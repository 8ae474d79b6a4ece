"""matrix.toml as a validated model."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from packaging.utils import canonicalize_name

from gradmatrix.core.errors import (
    UserError,
    check_build,
    check_name,
    check_python,
    check_requirement,
    check_unique,
    did_you_mean,
    wrong,
)
from gradmatrix.core.files import from_table, read_table
from gradmatrix.core.model import Role, Stack, Steps
from gradmatrix.core.observation import Frozen
from gradmatrix.stacks import generate
from gradmatrix.stacks.generate import Placed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

DEVICES = ("cpu", "cuda")

AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]


class RunSettings(Frozen, frozen=True, kw_only=True):
    """The [run] table: where and under which limits cells run."""

    devices: tuple[str, ...] = DEVICES
    """Devices to run on; one that the machine lacks gives setup:no-device."""
    scenarios: tuple[str, ...] = ()
    """Names of files in scenarios/; without the key, all of them."""
    further: tuple[str, ...] = ()
    """More of them, which run only if they are asked for: run --all, run --further, nox -t all."""
    timeout_s: Positive = 120.0
    """Seconds that a cell may take."""
    memory_gb: Positive = 8.0
    """Main memory that a cell may take, in GiB."""
    threads: AtLeastOne = 1
    """Threads of a cell; with one, step times compare best."""


class Script(Frozen, frozen=True, kw_only=True):
    """A [[scripts]] table: a training script of the user. Its paths are relative to matrix.toml."""

    name: str
    """Its name in the matrix."""
    path: str
    """The script, relative to matrix.toml."""
    arguments: tuple[str, ...] = ()
    """Its command line."""
    needs: tuple[str, ...] = ()
    """Requirements; a stack that lacks one is setup:unsupported."""
    summary: str = ""
    """What it is, in a few words."""
    role: str = Role.CONTROL.value
    """control, reported, remedy or misuse."""
    directory: str | None = None
    """Where it runs; without the key, in an empty folder of the cell."""
    inputs: tuple[str, ...] = ()
    """Patterns of files that the script reads. If one changes, its cells run again."""
    packages: tuple[str, ...] = ()
    """Folders with your own packages and modules that the script imports, such as `src`, as if they
    were installed. If a Python file of theirs changes, its cells run again."""


class Matrix(Frozen, frozen=True, kw_only=True):
    """matrix.toml, validated."""

    run: RunSettings
    steps: Steps
    stacks: tuple[Stack, ...]
    scripts: tuple[Script, ...] = ()
    rules: tuple[Placed, ...] = ()
    """The [generate.*] tables. Their snapshots are among ``stacks``; other rules need the index."""

    def stack(self, name: str) -> Stack:
        """The stack called ``name``; UserError if there is none."""
        for stack in self.stacks:
            if stack.name == name:
                return stack
        raise UserError(
            f"There is no stack {name!r} in the matrix.",
            cause=did_you_mean(name, [stack.name for stack in self.stacks]),
            next_step="name a stack of matrix.toml, or add one",
        )

    @property
    def core(self) -> tuple[Stack, ...]:
        """The stacks of a quick run."""
        return tuple(stack for stack in self.stacks if stack.core)


class _StepsTable(Frozen, frozen=True, kw_only=True):
    audit: AtLeastOne = 4
    """Optimizer steps in which gradients and updates are observed."""
    warmup: Annotated[int, msgspec.Meta(ge=0)] = 4
    """Steps that are neither observed nor timed."""
    timed: AtLeastOne = 12
    """Steps that are timed."""


class _StackTable(Frozen, frozen=True, kw_only=True):
    name: str
    """Its name in the matrix."""
    python: str
    """A Python version, such as 3.11."""
    as_of: Any  # a TOML date or "today": msgspec allows no union of the two
    """The day as of which the package index is read, or "today": the day of locking."""
    requirements: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """What to install; an unpinned package is that day's newest."""
    core: bool = False
    """Whether `nox -s matrix` runs it."""
    summary: str = ""
    """Why it is here."""
    build: tuple[str, ...] = ()
    """Packages that are built from their source releases. It runs their code outside of cells."""
    scenarios: tuple[str, ...] = ()
    """The only scenarios that it runs; without the key, those of [run]."""
    prereleases: bool = False
    """Whether every package may be a pre-release."""


class _Document(Frozen, frozen=True, kw_only=True):
    run: RunSettings | None = None
    stacks: tuple[_StackTable, ...] = ()
    steps: _StepsTable = _StepsTable()
    scripts: tuple[Script, ...] = ()
    generate: dict[str, Any] = msgspec.field(default_factory=dict)


def load(path: Path, scenario_names: Collection[str], today: dt.date | None = None) -> Matrix:
    """Read and validate ``path``. The package index is not asked.

    Args:
        path: matrix.toml
        scenario_names: the scenarios that exist
        today: no date may be later; by default the current day (UTC)

    Raises:
        UserError: if something is wrong in the file
    """
    table = read_table(path)
    document = from_table(path, table, _Document)
    today = today or dt.datetime.now(dt.UTC).date()
    run = document.run or RunSettings()
    if "scenarios" not in table.get("run", {}):
        run = msgspec.structs.replace(run, scenarios=tuple(sorted(scenario_names)))
    _check_run(path, run, scenario_names, scripts=bool(document.scripts))
    runnable = (*sorted(scenario_names), *(script.name for script in document.scripts))
    typed = tuple(_stack(path, entry, today, runnable) for entry in document.stacks)
    check_unique(path, "stack", [stack.name for stack in typed])
    placed = generate.read(path, document.generate, today)
    for each in placed:
        if isinstance(each.rule, generate.Pairwise):
            _check_scenarios(path, each.place, each.rule.scenarios, runnable)
    stacks = generate.joined(path, typed, generate.snapshots_of(placed, today))
    if not stacks and not placed:
        raise wrong(path, "names no stack", fix="write a [[stacks]] table, or [generate.snapshots]")
    return Matrix(
        run=run,
        steps=msgspec.convert(msgspec.to_builtins(document.steps), Steps),
        stacks=stacks,
        scripts=document.scripts,
        rules=generate.based(path, placed, stacks),
    )


def _check_run(
    path: Path, run: RunSettings, scenario_names: Collection[str], *, scripts: bool
) -> None:
    for key, given, known in (
        ("device", run.devices, DEVICES),
        ("scenario", run.scenarios, sorted(scenario_names)),
        ("further scenario", run.further, sorted(scenario_names)),
    ):
        for name in given:
            if name not in known:
                raise wrong(
                    path, f"has the unknown {key} {name!r} in [run]", did_you_mean(name, known)
                )
        required = key == "device" or (key == "scenario" and not scripts)
        if required and not given:
            raise wrong(path, f"names no {key} in [run]", f"known are: {', '.join(known)}")


def _stack(path: Path, entry: _StackTable, today: dt.date, runnable: Collection[str]) -> Stack:
    check_name(path, "stack", entry.name)
    check_python(path, f"stack {entry.name!r}", entry.python)
    for text in entry.requirements:
        check_requirement(path, f"stack {entry.name!r}", text)
    check_build(path, f"stack {entry.name!r}", entry.build)
    _check_scenarios(path, f"stack {entry.name!r}", entry.scenarios, runnable)
    return Stack(
        name=entry.name,
        python=entry.python,
        requirements=entry.requirements,
        as_of=_as_of(path, entry, today),
        core=entry.core,
        summary=entry.summary,
        build=tuple(map(canonicalize_name, entry.build)),
        scenarios=entry.scenarios,
        prereleases=entry.prereleases,
    )


def _check_scenarios(
    path: Path, place: str, names: Iterable[str], runnable: Collection[str]
) -> None:
    for name in names:
        if name not in runnable:
            what = f"has the scenario {name!r} in {place}, which does not exist"
            raise wrong(path, what, did_you_mean(name, runnable))


def _as_of(path: Path, entry: _StackTable, today: dt.date) -> dt.date | Literal["today"]:
    given = entry.as_of
    if given == "today":
        return "today"
    if not isinstance(given, dt.date) or isinstance(given, dt.datetime):
        what = f"has as_of = {str(given)!r} in stack {entry.name!r}, which is not a date"
        fix = f'write a date without quotes, such as as_of = {today}, or as_of = "today"'
        raise wrong(path, what, fix=fix)
    if given > today:
        what = f"has as_of = {given} in stack {entry.name!r}, which is in the future"
        fix = 'write as_of = "today" for the newest releases'
        raise wrong(path, what, "its releases are not known yet", fix)
    return given
