"""A sample of the campaign: each fault once, as far as that is quick."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING

import pytest

from gradmatrix.cli.main import main
from gradmatrix.run.project import Project
from tests.conftest import ROOT
from tests.factories import make_cell, make_record
from tools.__main__ import COMMANDS
from tools.campaign import FAULTS, Fault, Field, Scratch, campaign, judged_once, prepared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.campaign import Seen

needs_linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the campaign looks for processes in /proc"
)


@pytest.fixture(scope="module")
def where() -> Iterator[Field]:
    """A scratch checkout with a real environment."""
    with prepared(Project.at(ROOT), kills=4, seed=0) as field:
        yield Field(field.scratch, field.chance, field.kills, sizes_kib=(8, 32))


@pytest.mark.slow
@needs_linux
@pytest.mark.parametrize(
    "fault", [fault for fault in FAULTS if fault.quick], ids=lambda fault: fault.name
)
def test_a_promise_is_met(where: Field, fault: Fault) -> None:
    """Nothing that was seen is other than promised."""
    [(_, seen)] = campaign(where, [fault])
    if all(each.met is None for each in seen):
        pytest.skip(seen[0].text)
    assert [] == [each.text for each in seen if each.met is False]


def test_a_lost_and_a_doubled_record_are_noticed() -> None:
    """One cell twice, one never, one failed."""
    twice = make_record(cell=make_cell(scenario="training", variant="v0"))
    failed = make_record(
        "process:exit-3", make_cell(scenario="training", variant="v1"), passed=False
    )
    assert [
        "training/v2 is missing",
        "training/v0 was judged 2 times",
        "v1: process:exit-3",
    ] == judged_once([twice, twice, failed], {"training/v0", "training/v2"})


def test_a_failure_of_the_machine_is_no_verdict() -> None:
    """It may stand beside the verdict that came after it."""
    lost = make_record("process:lost", passed=None)
    assert [] == judged_once([lost, make_record()], {"scenario/plain"})


def test_a_fault_that_breaks_the_campaign_is_not_met() -> None:
    """It has a line of its own in the table."""

    def broken(_: Field) -> Iterator[Seen]:
        raise RuntimeError("no such luck")
        yield

    scratch = Scratch.__new__(Scratch)
    [(_, seen)] = campaign(Field(scratch, random.SystemRandom(), 1), [Fault("x", "y", broken)])
    assert [("RuntimeError: no such luck", False)] == [(each.text, each.met) for each in seen]


def test_an_unknown_fault_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and a suggestion."""
    assert 2 == main(["faults", "--only", "segfalt", "--root", str(ROOT)], COMMANDS)
    assert "perhaps you meant 'segfault'" in capsys.readouterr().err
