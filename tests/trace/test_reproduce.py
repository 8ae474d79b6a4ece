"""Check whether a published verdict holds here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gradmatrix.cli.main import main
from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Failure, Gradient
from gradmatrix.judge.verdict import Ended
from gradmatrix.run.lookup import find, published
from gradmatrix.run.plan import Selection
from gradmatrix.run.project import Project
from gradmatrix.run.server import Answer
from gradmatrix.stacks import environment
from gradmatrix.trace import reproduce
from tests.cli.test_cli import MATRIX, write_lock
from tests.conftest import OLDEST, ROOT, python_of
from tests.factories import make_cell, make_lock, make_observation, make_raised, make_record
from tests.pretended import World, pretend
from tests.trace.test_check import FAILS, SUMS, publish

if TYPE_CHECKING:
    from pathlib import Path

    from gradmatrix.core.model import Record


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Pretended servers and a pretended environment."""
    return pretend(monkeypatch)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A locked stack and a scenario, with nothing published."""
    (tmp_path / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "sums.py").write_text(SUMS, encoding="utf-8")
    write_lock(tmp_path, make_lock("first"))
    return Project.at(tmp_path)


def record_of(
    project: Project, outcome: str = "trains", variant: str = "plain", **fields: object
) -> Record:
    """A published record, made with the inputs of this checkout."""
    stack = project.matrix.stack("first")
    run = project.stack_run(stack, progress=None)  # type: ignore[arg-type]  # only plans
    planned = next(cell for cell in run.plan(Selection()) if cell.cell.variant == variant)
    record = make_record(outcome, planned.cell, inputs=planned.inputs, **fields)
    publish(project.root, record)
    return record


def test_a_verdict_that_holds(project: Project, world: World) -> None:
    """Outcome, gradient and pass are the same, from the same inputs."""
    here = reproduce.reproduce(project, record_of(project))
    assert (True, "trains", ()) == (here.holds, here.outcome, here.notes)


def test_a_verdict_that_does_not_hold(project: Project, world: World) -> None:
    """The cell fails here."""
    world.answers = {"plain": [FAILS]}
    here = reproduce.reproduce(project, record_of(project))
    assert (False, "step:no-grad-fn") == (here.holds, here.outcome)


def test_another_gradient_is_another_verdict(project: Project, world: World) -> None:
    """The gradient status is part of a verdict."""
    seen = make_observation(raised=make_raised("it broke"), reached="step")
    world.answers = {"reported": [Answer(seen, Ended(exit=0), wall_s=0.5)]}
    record = record_of(project, "step:exception", "reported", gradient=Gradient.PARTIAL)
    assert not reproduce.reproduce(project, record).holds


@pytest.mark.parametrize(
    ("name", "value", "note"),
    [
        ("scenario", "0000", "the scenario's code has changed since then"),
        ("observer", "0000", "the observer has changed since then"),
        ("judge", "0000", "the rules for verdicts have changed since then"),
        ("device", "Linux-sparc", "different device: Linux-sparc then, "),
        ("steps", "1+1+1", "different steps (audited + warm-up + timed): 1+1+1 then, 4+4+12 here"),
        ("threads", "8", "different threads: 8 then, 1 here"),
    ],
)
def test_what_differs_is_noted(
    project: Project, world: World, name: str, value: str, note: str
) -> None:
    """It may be the reason why a verdict does not hold."""
    record = record_of(project)
    record.inputs[name] = value
    (found,) = reproduce.reproduce(project, record).notes
    assert found.startswith(note)


def test_another_build_of_torch_is_noted(project: Project, world: World) -> None:
    """The build belongs to the machine."""
    here = reproduce.reproduce(project, record_of(project, build="cuda"))
    assert ("different build of torch: cuda then, cpu here",) == here.notes


def test_a_disagreement_counts_as_trained(project: Project, world: World) -> None:
    """It needs two cells, and a note says so."""
    here = reproduce.reproduce(
        project, record_of(project, "relation:disagrees", passed=False, gradient=Gradient.FLOWING)
    )
    assert (True, "trains") == (here.holds, here.published.outcome)
    assert "one alone trains" in here.notes[0]


def test_nothing_is_recorded(project: Project, world: World) -> None:
    """The published record stays as it is, and the journal stays empty."""
    record = record_of(project)
    world.answers = {"plain": [FAILS]}
    reproduce.reproduce(project, record)
    assert ({record.cell: record}, {}) == (published(project), project.store.recorded_here("first"))


def test_another_lock_is_an_error(project: Project, world: World) -> None:
    """No lock is resolved again, and the old one cannot be installed."""
    record = record_of(project)
    record.inputs["lock"] = "0000"
    with pytest.raises(UserError, match="is not the one that"):
        reproduce.reproduce(project, record)


def test_a_stack_without_a_solution_is_an_error(project: Project, world: World) -> None:
    """There is nothing to install."""
    record = record_of(project, "resolve:conflict")
    write_lock(
        project.root,
        make_lock("first", failure=Failure(outcome="resolve:conflict", message="a needs b")),
    )
    with pytest.raises(UserError, match="has nothing to install: resolve:conflict"):
        reproduce.reproduce(project, record)


def test_a_device_that_this_machine_lacks_is_an_error(project: Project, world: World) -> None:
    """The cell cannot run here."""
    record = record_of(project)
    elsewhere = make_record(
        "trains", make_cell("first", "sums", "plain", "cuda"), inputs=record.inputs
    )
    if environment.device_class("cuda") is not None:
        pytest.skip("this machine has one")
    with pytest.raises(UserError, match="cannot be run here"):
        reproduce.reproduce(project, elsewhere)


def test_a_variant_that_is_gone_is_an_error(project: Project, world: World) -> None:
    """The checkout is of another commit."""
    record = make_record(
        "trains", make_cell("first", "sums", "gone"), inputs=record_of(project).inputs
    )
    with pytest.raises(UserError, match="has no sums/gone"):
        reproduce.reproduce(project, record)


@pytest.mark.parametrize(("outcome", "holds"), [("install:build", True), ("trains", False)])
@pytest.mark.usefixtures("world")
def test_a_stack_that_cannot_be_installed_is_a_verdict(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    outcome: str,
    holds: bool,
) -> None:
    """The cause is the stack and not the machine."""

    def ensure(*_: object, **_named: object) -> environment.Environment:
        raise environment.InstallFailed(Failure(outcome="install:build", message="no compiler"))

    monkeypatch.setattr(environment, "ensure", ensure)
    assert holds is reproduce.reproduce(project, record_of(project, outcome)).holds


def test_a_machine_that_cannot_install_is_no_verdict(
    project: Project,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The exit code is 2."""

    def ensure(*_: object, **_named: object) -> environment.Environment:
        raise environment.InstallFailed(Failure(outcome="install:disk-full", message="no room"))

    monkeypatch.setattr(environment, "ensure", ensure)
    record_of(project)
    assert 2 == main(["reproduce", "first/sums/plain", "--root", str(project.root)])
    assert "install:disk-full" in capsys.readouterr().err


@pytest.mark.parametrize(("answers", "code"), [({}, 0), ({"plain": [FAILS]}, 1)])
def test_the_exit_code(
    project: Project,
    world: World,
    capsys: pytest.CaptureFixture[str],
    answers: dict[str, list[Answer]],
    code: int,
) -> None:
    """It is 0 if the verdict holds, and 1 if not. Both verdicts are shown."""
    world.answers = answers
    record_of(project)
    assert code == main(["reproduce", "first/sums/plain", "--root", str(project.root)])
    printed = capsys.readouterr().out
    assert f"The published verdict {'does not hold' if code else 'holds'} here." in printed
    assert "first/sums/plain/cpu" in printed


@pytest.mark.slow
def test_a_published_failure_holds_here() -> None:
    """The cell runs in the environment of its stack."""
    python_of(OLDEST)
    project = Project.at(ROOT)
    record = find(f"{OLDEST}/t5_classifier/hf_adafactor", published(project), project)
    here = reproduce.reproduce(project, record)
    assert (True, "step:no-grad-fn") == (here.holds, here.outcome)
