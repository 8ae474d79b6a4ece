# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "nox[uv]>=2026.8.10",
#   "msgspec>=0.19",
#   "packaging>=24",
#   "pandas>=2.2",
#   "rich>=13.7",
# ]
# ///
"""The sessions; thin. ``pip install nox && nox -s matrix`` is all the set-up there is.

nox makes the environment of this file from the block above; the harness runs in it and makes the tested
environments itself with uv, because a stack whose cells are all recorded needs none.
"""

import sys
from pathlib import Path

import nox

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))

from harness import cli  # noqa: E402  (the checkout is not installed)
from harness.errors import UserError  # noqa: E402
from harness.model import Stack  # noqa: E402
from harness.project import Project  # noqa: E402

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
    """Run one stack's cells; the table of all comes at the end, where sessions share a process."""
    later = [] if session.parallel else ["--no-table"]
    ran.append(stack)
    if not session.parallel:
        session.notify("table")  # before the run, which raises where --strict finds a failure
    command(session, "run", stack, *later, *session.posargs)


def command(session: nox.Session, *arguments: str) -> None:
    """Run a command of the harness in this process; exit code 2 (bad input) ends nox with 2."""
    code = cli.main(arguments)
    if code in {2, 130}:
        raise SystemExit(code)
    if code:
        session.error(f"gradmatrix {' '.join(arguments)} ended with {code}")


@nox.session(venv_backend="none", allow_parallel=True, tags=["all"])
@nox.parametrize("stack", [nox.param(stack.name, id=stack.name) for stack in STACKS if stack.core])
def matrix(session: nox.Session, stack: str) -> None:
    """Run the core stacks; one stack: nox -s "matrix(NAME)"; all: nox -t all; options of the harness after --."""
    run_stack(session, stack)


def further(stack: Stack) -> None:
    """A session for a stack that is not core: `nox -s matrix` must not select it, its own name must."""

    def one(session: nox.Session) -> None:
        run_stack(session, stack.name)

    one.__doc__ = stack.summary or "Run this stack."
    nox.session(name=f"matrix({stack.name})", venv_backend="none", allow_parallel=True, tags=["all"], default=False)(
        one
    )


for further_stack in STACKS:
    if not further_stack.core:
        further(further_stack)


@nox.session(venv_backend="none", default=False)
def table(session: nox.Session) -> None:
    """Print the matrix from the records and write it to results/."""
    command(session, "table", *(ran or session.posargs))


@nox.session(venv_backend="none", default=False)
def lock(session: nox.Session) -> None:
    """Resolve stacks without a current lock, and move `latest` to today; stacks to lock anew after --."""
    command(session, "lock", *session.posargs)


@nox.session(venv_backend="none", default=False)
def isolation(session: nox.Session) -> None:
    """Repeat cells in fresh processes and compare the verdicts: nox -s isolation -- STACK."""
    command(session, "isolation", *session.posargs)


@nox.session(venv_backend="none", default=False)
def audit(session: nox.Session) -> None:
    """Put known faults into scenarios that train: all must be detected and named; stacks and options after --."""
    command(session, "audit", *session.posargs)


@nox.session(venv_backend="none", default=False)
def bench(session: nox.Session) -> None:
    """Print the ratios of the performance contract, measured in one run."""
    command(session, "bench", *session.posargs)


@nox.session(venv_backend="none", default=False)
def harness(session: nox.Session) -> None:
    """Any command of the harness: nox -s harness -- list, nox -s harness -- --help."""
    command(session, *session.posargs)


@nox.session(default=False)
def tests(session: nox.Session) -> None:
    """All checks: the tests, with one historical stack end to end, then lint and types."""
    session.install("-e", ".[tests]")
    session.run("pytest", *session.posargs)
    if not session.parallel:
        session.notify("lint")
        session.notify("types")


@nox.session(default=False)
def lint(session: nox.Session) -> None:
    """Ruff, every rule; each exemption has its reason in pyproject.toml."""
    session.install("ruff==0.17.5")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session(default=False)
def types(session: nox.Session) -> None:
    """Mypy, strict, on the host side and on what runs inside."""
    session.install("-e", ".[types]")
    session.run("mypy")
