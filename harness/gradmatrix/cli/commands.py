"""Every command with its options: the source of the command line, its help and its docs.

Only argparse and text are imported here. A command's function is named as "module.function" of this
folder and imported when the command is called, so that ``--help`` does not wait for pandas or rich.
"""

from __future__ import annotations

import argparse
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradmatrix.compare import RUNS

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001  (its only name)
Argument = tuple[tuple[str, ...], dict[str, Any]]
"""The names of an argument, and what argparse gets."""

MOST_JOBS = 256
"""GitHub Actions allows this many jobs in one matrix."""
DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|min|h)?")
CELLS = re.compile(r"(\d+)cells?")
GIGABYTES = re.compile(r"(\d+(?:\.\d+)?)gb", re.IGNORECASE)
SECONDS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def argument(*names: str, **settings: Any) -> Argument:  # noqa: ANN401  (what argparse takes)
    """One argument of a command."""
    return names, settings


def flag(name: str, text: str, *more: str) -> Argument:
    """An option without a value."""
    return argument(name, *more, action="store_true", help=text)


def repeatable(name: str, metavar: str, text: str) -> Argument:
    """An option that may be given several times."""
    return argument(name, action="append", default=[], metavar=metavar, help=f"{text} (repeatable)")


def positive(text: str) -> int:
    """A number of steps."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least one step")
    return number


def job_count(text: str) -> int:
    """A number of jobs that GitHub Actions allows."""
    number = int(text)
    if not 1 <= number <= MOST_JOBS:
        raise argparse.ArgumentTypeError(f"{number} is not between 1 and {MOST_JOBS}")
    return number


def day(text: str) -> object:
    """A date that is not in the future."""
    import datetime as dt

    try:
        found = dt.date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date such as 2026-03-31") from error
    if found > dt.datetime.now(dt.UTC).date():
        raise argparse.ArgumentTypeError(f"{text} is in the future")
    return found


def python_version(text: str) -> str:
    """A minor version of Python."""
    from gradmatrix.core import errors

    if not errors.PYTHON.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a version of Python such as 3.11")
    return text


def package(text: str) -> str:
    """The name of a package."""
    from gradmatrix.core.errors import SAFE_NAME

    if not SAFE_NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a package")
    return text


def count(text: str) -> int:
    """A number of runs."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of runs such as 2")
    return int(text)


def seconds(text: str) -> float:
    """A time as 120, 120s or 5m, in seconds."""
    found = DURATION.fullmatch(text.strip())
    if not found or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 120s or 5m")
    return float(found[1]) * SECONDS[found[2]]


def budget(text: str) -> object:
    """What a run may use, such as ``200cells,90m,20GB``."""
    from gradmatrix.run.budget import GB, Budget

    limits: dict[str, Any] = {}
    for part in text.replace(" ", "").split(","):
        cells, disk = CELLS.fullmatch(part), GIGABYTES.fullmatch(part)
        limit: tuple[str, float]
        if cells:
            limit = "cells", int(cells[1])
        elif disk:
            limit = "disk_bytes", int(float(disk[1]) * GB)
        else:
            limit = "time_s", seconds(part)
        if limit[0] in limits or not limit[1]:
            raise argparse.ArgumentTypeError(f"{text!r} is not a budget such as 200cells,90m,20GB")
        limits[limit[0]] = limit[1]
    return Budget(**limits)


def share(text: str) -> float:
    """A share as 1% or 0.01."""
    try:
        found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        found = math.nan
    if not 0 < found < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share such as 1%")
    return found


SCENARIO = repeatable("--scenario", "SCENARIO", "only this scenario")
SELECTION = (
    SCENARIO,
    repeatable("--cell", "SCENARIO/VARIANT", "only this cell"),
    repeatable("--device", "DEVICE", "only this device: cpu or cuda"),
)
CORE_STACKS = argument(
    "stacks",
    nargs="*",
    metavar="STACK",
    help="stacks of matrix.toml (default: the core stacks; without a matrix.toml, name a stack)",
)  # fmt: skip
ALL = flag("--all", "every stack of matrix.toml, and every scenario")
ON_RAY = (
    argument("--on", choices=("ray",), help="run the cells on the nodes of a Ray cluster"),
    argument(
        "--address", metavar="HOST:PORT",
        help="the cluster (default: RAY_ADDRESS, or the one that runs on this machine)",
    ),
)  # fmt: skip
EXPLAIN = flag("--explain", "say why each cell is run or not")
VERBOSE = flag("-v", "show what the scenarios print, and every failure", "--verbose")
CELL = argument(
    "cell", metavar="[STACK/]SCENARIO/VARIANT[/DEVICE]",
    help="a cell; without a stack or a device, the newest stack or the first device on which it "
    "was judged",
)  # fmt: skip
PYTHON = argument(
    "--python", type=Path, metavar="PATH",
    help="the Python, or its environment's folder (default: the first one with torch among this "
    "Python, VIRTUAL_ENV, CONDA_PREFIX, the nearest .venv upwards from here, and PATH)",
)  # fmt: skip
SESSIONS = argument(
    "sessions", metavar="SESSIONS", help="a file with the output of nox -t all --list --json, or -"
)
JOBS = argument(
    "--jobs", type=job_count, default=MOST_JOBS, metavar="N",
    help=f"at most this many jobs (default: {MOST_JOBS})",
)  # fmt: skip
OUTPUT = argument(
    "--output", type=Path, metavar="FILE", help="write it to FILE instead of printing it"
)
BASE_URL = argument(
    "--base-url", metavar="URL", help="the address of results/ on the web, for complete links"
)

JSON = flag("--json", "print one JSON document and nothing else")
RESOLVING = (
    argument(
        "--python", type=python_version, metavar="3.X",
        help="the Python, if a file does not say which",
    ),
    repeatable("--extra", "NAME", "an extra of a pyproject.toml"),
    repeatable("--group", "NAME", "a dependency group of a pyproject.toml"),
)  # fmt: skip
"""How files of requirements are read."""
INIT_OPTIONS = (
    argument(
        "file", nargs="?", type=Path, metavar="FILE",
        help="the file with the requirements (default: what is found in the folder)",
    ),
    argument("--root", type=Path, metavar="DIR", help="the project's folder (default: this one)"),
    argument(
        "--script", action="append", default=[], metavar="'FILE ARGS'",
        help="a training script with its arguments, instead of those that are found (repeatable)",
    ),
    *RESOLVING,
    flag("--no-workflow", "write no workflow for GitHub Actions"),
)  # fmt: skip

PLACES = (
    argument(
        "--root", type=Path, metavar="DIR",
        help="the checkout (default: the nearest folder with matrix.toml, upwards from here)",
    ),
    argument("--matrix", type=Path, metavar="FILE", help="another matrix.toml"),
    argument("--results", type=Path, metavar="DIR", help="use DIR instead of results/"),
)  # fmt: skip
"""The options of every command that reads a matrix."""
WITHOUT_A_MATRIX = ("trace", "update", "completion")
"""The commands that need none. ``trace`` looks for a remedy in one if it is at hand."""
OF_CHECKOUTS = ("lock", "publish", "refresh", "shards", "shard", "merge", "dry-run", "isolation")
"""The commands that change a matrix or work for its night. The others also take what the wheel
carries."""
OF_PUBLISHED = ("check", "capsule", "reproduce", "claims")
"""The commands about published scenarios: a matrix without any is no matrix for them, unless they
name a script of it. ``why`` also finds what only ran there, and ``trace`` looks there too."""
OF_STACKS = ("run", "table", "upgrade", "compare", "bisect", "flips")
"""These also need the extra ``matrix``."""
EXTRA = ("covertable", "numpy", "pandas", "pyarrow", "pypi_simple", "requests", "scipy", "uv")
"""The modules of that extra."""


def add(
    commands: Commands,
    name: str,
    command: object,
    text: str,
    *arguments: Argument,
    **settings: Any,  # noqa: ANN401  (what argparse takes)
) -> argparse.ArgumentParser:
    """Add a command with the options that all commands have, or all that read a matrix.

    Args:
        commands: Where the command is added.
        name: The word on the command line.
        command: The function that is called, or "module.function" of this folder.
        text: One sentence for ``--help``.
        arguments: The command's own arguments.
        settings: What else argparse gets.
    """
    settings = {"description": sentence(text), **settings}
    parser = commands.add_parser(name, help=text, **settings)
    parser.set_defaults(
        command=command, parser=parser,
        needs="checkout" if name in OF_CHECKOUTS
        else "published" if name in OF_PUBLISHED else "matrix",
        modules=EXTRA if name in (*OF_CHECKOUTS, *OF_STACKS) else (),
    )  # fmt: skip
    alone = name in WITHOUT_A_MATRIX
    if alone:
        parser.set_defaults(needs="nothing", root=None, matrix=None, results=None)
    for names, each in (*(() if alone else PLACES), *arguments):
        parser.add_argument(*names, **each)
    return parser


def sentence(text: str) -> str:
    """``text`` with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('?') else '.'}"


def register(commands: Commands) -> None:
    """Add every command, in the order of ``--help``."""
    register_matrix(commands)
    register_questions(commands)
    register_own_code(commands)
    register_night(commands)
    register_upkeep(commands)


INIT = """
Write a first matrix.toml for the project in this folder, and a workflow that runs it every night.
The stacks come from what the project states: pyproject.toml, requirements files, uv.lock,
poetry.lock or pylock.toml. The rows are its own training scripts. No file is overwritten.
"""


def register_matrix(commands: Commands) -> None:
    """The matrix of this checkout: begin one, run it, look at it, publish it."""
    init = commands.add_parser(
        "init", help="write a first matrix.toml and a workflow for the project in this folder",
        description=INIT,
    )  # fmt: skip
    init.set_defaults(
        command="init.init_command", parser=init, matrix=None, results=None, needs="nothing"
    )
    for names, settings in INIT_OPTIONS:
        init.add_argument(*names, **settings)
    add(
        commands, "run", "matrix.run_command",
        "install stacks, run the scenarios in them and show what trains",
        CORE_STACKS, ALL, *SELECTION,
        flag("--further", "the further scenarios of matrix.toml too"),
        flag("--fresh", "run the cells even if their outcome is recorded"),
        EXPLAIN,
        argument(
            "--budget", type=budget, metavar="LIMITS",
            help="begin no stack beyond this many cells, this time or this much new disk space, "
            "such as 200cells,90m,20GB; without names all stacks are meant. New releases come "
            "first, then pairs of releases that never met, then the oldest records",
        ),
        flag("--strict", "exit with 1 if a judged cell does not pass"),
        flag("--drop-environments", "delete each environment after its cells ran"),
        *ON_RAY,
        flag("--no-table", "do not show what trains at the end"),
        VERBOSE, JSON,
    ).set_defaults(begin="begin.run")  # fmt: skip
    add(
        commands, "lock", "matrix.lock_command",
        "lock the stacks that have no lock; a named stack is locked again",
        argument("stacks", nargs="*", metavar="STACK", help="lock these again, as of their dates"),
        flag("--all", "lock every stack of matrix.toml again"),
        epilog="exit code: 3 if a stack does not resolve; the other stacks are locked anyway",
    )  # fmt: skip
    add(
        commands, "table", "matrix.table_command",
        "show what trains, from the records; nothing is run",
        argument("stacks", nargs="*", metavar="STACK", help="only these stacks"),
        flag("-v", "show every cell, and every failure with its message", "--verbose"), JSON,
    )  # fmt: skip
    add(
        commands, "publish", "matrix.publish_command",
        "write the published matrix: results/ with its pages, and the table of README.md",
        flag("--local", "write the tables and pages to results/local/, and publish nothing"),
        BASE_URL,
    )  # fmt: skip
    add(
        commands, "isolation", "matrix.isolation_command",
        "repeat cells in fresh processes: do forked cells get the same verdict?",
        argument("stacks", nargs="+", metavar="STACK", help="stacks of matrix.toml"), *SELECTION,
        JSON,
    )  # fmt: skip
    add(commands, "list", "matrix.list_command", "list the stacks, scenarios and variants", JSON)


UPGRADE = """
May I upgrade? Both sides are resolved, installed and run. A cell that changed is run again on both
sides in fresh processes before it counts as a change. What trains on both sides is measured side by
side. Nothing is written to results/ or to the records of the matrix.
"""
UPGRADE_EPILOG = """
BASELINE is one of:
  a stack of matrix.toml
  a lock: of gradmatrix, a uv.lock, a pylock.toml, a compiled requirements file
  a requirements file or a pyproject.toml
  an environment (its folder or its python), which is used as it is

WHAT is one of:
  transformers==5.23.0, "trl<1"   this package; the others stay if they can
  trl                             this package at any version, if another --to needs it to move
  latest                          everything that the baseline names, at today's newest version
  a stack, a lock, a file, an environment                another side
  ./a.whl, git+https://…, "name @ git+https://…"         a wheel or a source

exit code:
  0  nothing regressed, and no cell that was measured got slower or needs more memory
  1  something regressed, got slower or needs more memory; a misuse that used to be reported and
     is now silent counts as a regression
  2  the comparison could not be done: nothing resolves, a file cannot be read, …
  3  inconclusive: repeats disagree, the machine failed, or too little ran on both sides
  4  nothing regressed, but it is unknown whether a measured cell got slower or needs more memory;
     with --speed-optional: 0

examples:
  gradmatrix upgrade trl-0.15 --to latest
  gradmatrix upgrade requirements.txt --to transformers==5.23.0 --to trl --markdown comment.md
  gradmatrix upgrade .venv --to "peft<1" --script "train.py --epochs 1" --budget 2m
"""
UPGRADE_OPTIONS = {
    "resolving": (
        argument(
            "--as-of", type=day, metavar="DATE",
            help="read the index as of DATE for the candidate (default: today)",
        ),
        *RESOLVING,
        argument(
            "--build", action="append", default=[], type=package, metavar="NAME",
            help="a package that may be built from its source release; that runs its code on this "
            "machine, outside of a cell (repeatable)",
        ),
    ),
    "running": (
        *SELECTION,
        argument(
            "--script", action="append", default=[], metavar="'FILE ARGS'",
            help="a training script of your own with its arguments, instead of the scenarios "
            "(repeatable; with --scenario: both)",
        ),
        argument(
            "--directory", type=Path, metavar="DIR",
            help="where these scripts run and write (default: an empty folder for each run)",
        ),
        argument(
            "--repeats", type=count, default=2, metavar="N",
            help="further runs of a changed cell on each side (default: 2)",
        ),
        flag("--bisect", "look for the release behind each regression: gradmatrix bisect"),
        flag("--fresh", "run every cell, recorded or not"),
        flag("--keep", "keep the environments that are made for this"),
        *ON_RAY,
    ),
    "measuring": (
        argument(
            "--timing", choices=("control", "all", "none"), default="control",
            help="what is measured of all that trains on both sides: the first control of each "
            "scenario and your own scripts (default), everything, or nothing",
        ),
        argument(
            "--no-timing", dest="timing", action="store_const", const="none", help="measure nothing"
        ),
        repeatable("--time", "SCENARIO/VARIANT", "measure this instead"),
        argument(
            "--budget", type=seconds, default=300.0, metavar="TIME",
            help="time for all measurements, without starting servers: 120s, 5m (default: 300s)",
        ),
        flag("--speed-optional", "exit with 0, not 4, if only the speed of a cell is unknown"),
        argument(
            "--margin", type=share, default=0.01, metavar="N%",
            help="a smaller difference counts as the same (default: 1%%; memory: 5%%)",
        ),
    ),
}  # fmt: skip


def register_questions(commands: Commands) -> None:
    """Ask why a cell fails, whether an upgrade is safe, what differs between two runs."""
    add(
        commands, "why", "why.why_command",
        "say what helps against an error message, or why a cell of the matrix does not train",
        argument(
            "cell", nargs="+", metavar="MESSAGE|CELL|NAME",
            help="a message, a traceback or a few words, or a file with one; - reads the standard "
            "input. Or a cell: [STACK/]SCENARIO/VARIANT[/DEVICE] (without a stack or a device, the "
            "newest stack or the first device on which it was judged). Or the name of a cause or "
            "an outcome, such as not-registered or gradient:none",
        ),
        JSON,
        epilog="exit code: 1 if no message of the matrix matches",
    ).set_defaults(needs="recorded")  # fmt: skip
    upgrade = add(
        commands, "upgrade", "upgrade.upgrade_command",
        "run a baseline and a candidate side by side: what breaks, what is fixed, what gets slower",
        argument("baseline", metavar="BASELINE", help="what you have now"),
        argument(
            "--to", action="append", required=True, metavar="WHAT",
            help="what you want instead (repeatable for packages)",
        ),
        description=UPGRADE, epilog=UPGRADE_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    for title, arguments in UPGRADE_OPTIONS.items():
        group = upgrade.add_argument_group(title)
        for names, settings in arguments:
            group.add_argument(*names, **settings)
    add_reports(upgrade)
    add(
        commands, "bisect", "bisect.bisect_command",
        "which release did it? find the package and the release that change a cell",
        argument("cell", nargs="?", metavar="SCENARIO/VARIANT", help="what is run"),
        argument("--good", metavar="SIDE", help="a BASELINE as upgrade takes it"),
        argument(
            "--bad", metavar="SIDE",
            help="a side that ends differently, or a package at another version, such as trl==0.15",
        ),
        argument(
            "--between", nargs=2, metavar=("OLD", "NEW"),
            help="instead: two releases of --package, in --good or the nearest older stack",
        ),
        argument(
            "--script", metavar="'FILE ARGS'",
            help="a training script of your own with its arguments, instead of a cell",
        ),
        repeatable(
            "--along", "SCENARIO/VARIANT",
            "a cell that runs in the same environments: its own bisection then needs fewer",
        ),
        argument("--device", metavar="DEVICE", help="cpu (default) or cuda"),
        argument(
            "--package", action="append", default=[], type=package, metavar="NAME",
            help="look only at this package (repeatable)",
        ),
        argument(
            "--noise", type=share, default=0.0, metavar="N%",
            help="the share of runs that end wrongly by chance; each set of packages runs until "
            "the answer is clear",
        ),
        argument(
            "--metric", choices=("steps_per_s", "peak_memory"),
            help="ask about speed or memory, not the outcome: each set of packages is measured "
            "beside the good side",
        ),
        argument(
            "--budget", type=seconds, default=60.0, metavar="TIME",
            help="time to measure a set of packages: 120s, 5m (default: 60s)",
        ),
        flag("--all", "look for every change on the way; of --package, every release is run"),
        flag("--dry-run", "run nothing: say which releases there are and what it may take"),
        RESOLVING[0],
        argument(
            "--build", action="append", default=[], type=package, metavar="NAME",
            help="a package that may be built from its source release (repeatable)",
        ),
        *ON_RAY,
        argument("--markdown", type=Path, metavar="FILE", help="write the answer as Markdown"),
        argument("--html", type=Path, metavar="FILE", help="write the answer as one page"),
        JSON,
        epilog="exit code: 0 if a release was found; 1 if both sides end in the same way",
    )  # fmt: skip
    add(
        commands, "flips", "bisect.flips_command",
        "which release is behind each change of the matrix, from stack to stack",
        argument(
            "--budget", type=seconds, metavar="TIME",
            help="look for those that are not known yet, for this long: 30m, 2h. What is found is "
            "kept in results/flips.json, and a later run goes on",
        ),
        argument(
            "--pair", nargs=2, metavar=("OLD", "NEW"),
            help="also between these two stacks, and first",
        ),
        argument(
            "--take", type=Path, metavar="FILE",
            help="take answers to open questions from the flips.json of another machine",
        ),
        *ON_RAY, JSON,
    )  # fmt: skip
    compare = add(
        commands, "compare", "upgrade.compare_command",
        "compare the records of two runs, cell by cell; nothing is run",
        argument("baseline", metavar="RUN", help=f"the baseline: {RUNS}"),
        argument("candidate", metavar="RUN", help="the candidate: one of the same"),
        argument(
            "--stacks", nargs=2, metavar=("A", "B"),
            help="the stack of each run to compare, if a run has several",
        ),
        SCENARIO,
        epilog="exit code: 0 safe, 1 something regressed, 3 inconclusive: some cells are open or "
        "were not run",
    )  # fmt: skip
    add_reports(compare)


REPORTS = {
    "markdown": "write a report for a comment on a pull request",
    "html": "write a report as one page",
    "json": "write the comparison as data",
    "json-schema": "write the JSON Schema of --json",
}


def add_reports(parser: argparse.ArgumentParser) -> None:
    """The options of a command that ends with a comparison."""
    group = parser.add_argument_group(
        "reports", "without a FILE, or with -, on the standard output"
    )
    for form, text in REPORTS.items():
        group.add_argument(f"--{form}", nargs="?", const="-", metavar="FILE", help=text)


TRACE = (
    "gradmatrix trace [--python PATH] [--steps N] [--json] [--output FILE] "
    "(SCRIPT | -m MODULE) [ARGS ...]"
)
TRACE_OPTIONS = (
    PYTHON,
    argument("--steps", type=positive, metavar="N", help="stop after N optimizer steps"),
    flag("--json", "print one JSON document as the last line of the output"),
    argument("--output", type=Path, metavar="FILE", help="write that JSON document to FILE"),
    argument(
        "-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE",
        help="run a module, as python -m does",
    ),
    argument(
        "script", nargs=argparse.REMAINDER, metavar="SCRIPT",
        help="the script, or a command of its environment such as torchrun; all words after it "
        "are passed to it",
    ),
)  # fmt: skip
CHECK_EPILOG = """
exit code:
  0  every cell that was judged here and on the nearest published stack passes, or fails in the
     same way
  1  a cell fails here that passes on the nearest published stack, or fails there in another way;
     with --strict: also if any cell fails, or if no error and no warning tells of a mistake
  2  the check could not be done
"""


def register_own_code(commands: Commands) -> None:
    """A script, an environment or a failure of the user's own."""
    text = "run a training script unmodified and say whether its gradient flows, and why not"
    add(
        commands, "trace", "trace.trace_command", text, *TRACE_OPTIONS,
        usage=TRACE, allow_abbrev=False,
    ).set_defaults(begin="begin.trace")  # fmt: skip
    add(
        commands, "check", "trace.check_command",
        "run the scenarios in an environment that you have, and compare it with the matrix",
        PYTHON, *SELECTION,
        flag("--strict", "exit with 1 if any cell fails"),
        JSON,
        description="Run the scenarios in an environment that you have, and compare it with the\n"
        "matrix. Nothing is installed or recorded. The further scenarios of matrix.toml run only\n"
        "if they are named: --scenario NAME. gradmatrix list shows all.",
        epilog=CHECK_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add(
        commands, "capsule", "trace.capsule_command",
        "write one script that reproduces a published failure with uv run", CELL,
        OUTPUT,
        flag("--any", "also for a cell that passed"),
    )  # fmt: skip
    add(
        commands, "reproduce", "trace.reproduce_command",
        "install a published cell's lock, run the cell and compare its verdict", CELL, JSON,
        epilog="exit code: 0 if the published verdict holds here, 1 if not",
    )  # fmt: skip


def register_night(commands: Commands) -> None:
    """The matrix as jobs on several machines."""
    add(
        commands, "shards", "matrix.shards_command",
        "plan jobs for the cells that must run, and print them as a GitHub Actions matrix",
        SESSIONS, JOBS,
        flag("--since-published", "a published record with the same key also counts as known"),
        argument("--output", type=Path, metavar="FILE", help="write the plan to FILE"),
        argument(
            "--settled", type=Path, metavar="DIR",
            help="record in DIR the cells whose outcome is known without running them",
        ),
    )  # fmt: skip
    add(
        commands, "shard", "matrix.shard_command",
        "run the cells of one job; --results says where its records go",
        argument("file", type=Path, metavar="FILE", help="the plan: what shards --output wrote"),
        argument("name", metavar="NAME", help="the job"), EXPLAIN, VERBOSE,
    )  # fmt: skip
    add(
        commands, "merge", "matrix.merge_command",
        "add the records of jobs that ran on other machines",
        argument(
            "folders", nargs="+", type=Path, metavar="DIR",
            help="the results of a job, or a folder with several of them",
        ),
        argument(
            "--plan", type=Path, metavar="FILE",
            help="what shards --output wrote. Only its cells are taken: those of job NAME from a "
            "folder called NAME or records-NAME, and from any other folder only cells that "
            "need no run",
        ),
    )  # fmt: skip
    add(
        commands, "dry-run", "matrix.dry_run_command",
        "rehearse a night: run stacks directly, run them again as jobs, and compare the results",
        SESSIONS, JOBS, argument("stacks", nargs="+", metavar="STACK", help="stacks of SESSIONS"),
        epilog="Everything is written to separate folders. Exit code: 1 if the two results differ",
    )  # fmt: skip


def register_upkeep(commands: Commands) -> None:
    """What is new, what changed over time, and what people claim."""
    add(
        commands, "refresh", "matrix.refresh_command",
        "say which releases the matrix lacks, and write the stacks of [generate.*] tables",
        flag("--check", "write nothing; exit with 1 if there is something new"),
        JSON,
    )  # fmt: skip
    add(
        commands, "history", "history.history_command",
        "show how a published cell changed over time, and what may have changed it", CELL, JSON,
    )  # fmt: skip
    add(
        commands, "regressions", "history.regressions_command",
        "list the cells that fail now and passed before their lock changed",
        OUTPUT,
        flag("--json", "print one JSON document, not the text of an issue"), BASE_URL,
        epilog="exit code: 1 if there is a regression, 0 if there is none",
    )  # fmt: skip
    add(
        commands, "claims", "history.claims_command",
        "judge published claims by the records: how many hold, or the evidence for one",
        argument(
            "id", nargs="?", metavar="ID|SCENARIO",
            help="show a claim with its cells, or list the claims of a scenario",
        ),
        flag("--all", "list every claim"),
        JSON,
    )  # fmt: skip
    add(
        commands, "update", "matrix.update_command",
        "fetch the newest published matrix, to use it where no matrix.toml is",
        argument(
            "--url", metavar="URL",
            help="the page of the published matrix (default: that of this project)",
        ),
        JSON,
    )  # fmt: skip
    add(
        commands, "completion", "completion.completion_command",
        "print what makes a shell complete commands, options and the names of cells",
        argument("shell", choices=("bash", "zsh", "fish"), help="the shell"),
        epilog='bash, zsh: eval "$(gradmatrix completion SHELL)"; '
        "fish: gradmatrix completion fish | source",
    )  # fmt: skip
