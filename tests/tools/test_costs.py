"""The simulated cluster: no cell is lost or doubled, and a lost task goes on as it does on Ray."""

from __future__ import annotations

import datetime as dt
import math
import random
from typing import TYPE_CHECKING

import pytest

from gradmatrix.cli.main import main
from gradmatrix.judge.verdict import Ended, judge
from gradmatrix.run.pool import Finished
from gradmatrix.run.ray import NodeLost, retried
from gradmatrix.run.stack import Ran
from tests.conftest import ROOT
from tests.factories import make_cell, make_record
from tools.__main__ import COMMANDS
from tools.costs import Cluster, Run, Task, seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from gradmatrix.core.model import Cell


JUDGED = judge(None, Ended(exit=1))
"""Any verdict."""


class Fixed(random.Random):
    """Nodes fail after these seconds, one task after the other."""

    def __init__(self, fails_s: Sequence[float]) -> None:
        super().__init__(0)
        self.fails_s = list(fails_s)

    def expovariate(self, _rate: float = 1.0) -> float:
        """The next of them; at last no node fails."""
        return self.fails_s.pop(0) if self.fails_s else math.inf


def test_nodes_take_the_next_stack_as_soon_as_they_are_free() -> None:
    """Two nodes, a start of 1 s: stacks of 4, 2 and 3 s end after 5 and 1 + 2 + 1 + 3 s."""
    run = Cluster(2, 1.0, math.inf, 0.0).run([[3.0, 1.0], [2.0], [3.0]], Fixed([]))
    assert Run(wall_s=7.0, busy_s=12.0, recorded=4) == run


def test_a_lost_stack_goes_on_elsewhere_and_its_node_comes_back() -> None:
    """The node fails 2.5 s after the start, in the second cell, and is away for 10 s."""
    run = Cluster(1, 1.0, 1.0, 10.0).run([[2.0, 2.0], [1.0]], Fixed([3.5]))
    assert Run(wall_s=3.5 + 10 + 3 + 2, busy_s=3.5 + 3 + 2, recorded=3, losses=1) == run


def test_the_run_is_over_when_the_work_is() -> None:
    """The node that failed is still away then, and nobody waits for it."""
    run = Cluster(2, 1.0, 1.0, 100.0).run([[4.0]], Fixed([2.0]))
    assert Run(wall_s=2 + 1 + 4, busy_s=7.0, recorded=1, losses=1) == run


@pytest.mark.parametrize("seed", range(20))
def test_every_cell_is_recorded_or_given_up_once(seed: int) -> None:
    """Nodes fail about as often as tasks end."""
    chance = random.Random(seed)  # noqa: S311  (a simulation)
    stacks = [[chance.expovariate(1.0) for _ in range(chance.randrange(1, 30))] for _ in range(40)]
    run = Cluster(3, 1.0, 5.0, 2.0).run(stacks, chance)
    assert sum(map(len, stacks)) == run.recorded + run.given_up
    assert run.losses > 0
    assert run.wall_s * 3 >= run.busy_s


def on_ray(cells: int, losses: Sequence[int]) -> tuple[int, int]:
    """How many cells the real code records and gives up, if tasks are lost after so many cells."""
    left = list(losses)

    def task(due: dict[Cell, str]) -> Iterator[Ran]:
        lasts = left.pop(0) if left else len(due)
        for number, cell in enumerate(list(due)):
            if number == lasts:
                raise NodeLost
            yield Ran(cell, Finished(None, JUDGED, "", "fork"))

    due = {make_cell(variant=f"v{number}"): "" for number in range(cells)}
    ran = list(retried(due, task, lambda _text: None))
    recorded = sum(each.finished.verdict is JUDGED for each in ran)
    return recorded, len(ran) - recorded


@pytest.mark.parametrize(
    "losses", [[], [2], [0], [0, 0, 0, 0], [0] * 5, [0] * 7, [1, 0, 0, 0, 0, 0, 2], [3, 0, 3]]
)
def test_a_lost_task_is_retried_as_the_real_code_does(losses: list[int]) -> None:
    """Tasks are lost after so many of ten cells of a second each."""
    run, task = Run(), Task([1.0] * 10)
    chance = Fixed([1.0 + each + 0.5 for each in losses])
    while Cluster(1, 1.0, 1.0, 0.0).work(task, run, chance)[1] and task.cells_s:
        pass
    assert on_ray(10, losses) == (run.recorded, run.given_up)


def test_seconds_are_those_between_cells_of_one_run() -> None:
    """A pause between two runs is no cell, and neither is one that did not run."""
    began = dt.datetime(2026, 11, 24, tzinfo=dt.UTC)
    ran = (("1", 0.0), ("1", 2.0), ("1", 5.0), ("2", 900.0), ("2", 901.0))
    records = [
        make_record(run=run, recorded_at=began + dt.timedelta(seconds=second))
        for run, second in ran
    ]
    records.append(make_record("setup:unsupported", run="1", recorded_at=began))
    assert [2.0, 3.0, 1.0] == seconds_of(records)


def test_the_table_is_of_the_published_records(capsys: pytest.CaptureFixture[str]) -> None:
    """Three stacks on one node are shared evenly by definition."""
    main(["costs", "--stacks", "3", "--nodes", "1", "--root", str(ROOT)], COMMANDS)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["lost", "0"] in [row[1:3] for row in rows]


def test_nothing_published_is_bad_input(tmp_path: Path) -> None:
    """There is nothing to simulate from."""
    assert 2 == main(["costs", "--root", str(ROOT), "--results", str(tmp_path)], COMMANDS)
