"""The releases behind the changes of a matrix: two stacks, two changes, tiny packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from gradmatrix.cli.main import main
from gradmatrix.compare import flip_search, flips
from gradmatrix.compare.bisect import Bisection
from gradmatrix.core.errors import UserError
from gradmatrix.judge.edge import Flips
from gradmatrix.run.plan import Selection
from gradmatrix.run.project import Project
from tests.compare.test_bisect import DAY, PYTHON, lab
from tests.pretended import Watcher

if TYPE_CHECKING:
    from gradmatrix.compare.bisect import Probe
    from gradmatrix.compare.upgrade import SideRun
    from gradmatrix.core.model import Record
    from gradmatrix.judge.edge import Turning
    from tests.compare.test_bisect import Lab

__all__ = ["lab"]

STACK = """
[[stacks]]
name = "{name}"
python = "{python}"
as_of = {day}
requirements = ["torch", "alpha=={alpha}"{more}]
"""
RUN = """
[run]
devices = ["cpu"]
scenarios = ["sums"]
"""


@pytest.fixture
def matrix(lab: Lab) -> Lab:
    """Three stacks that ran: the cell fails between release 4 and 7 of alpha."""
    lab.add("alpha", 9)
    lab.fails = lambda versions: 4 <= versions["alpha"] < 7
    stacked(lab, {"old": 1, "middle": 5, "new": 9})
    return lab


def stacked(lab: Lab, stacks: dict[str, int], more: str = "") -> None:
    """Run stacks, one for each day, each with a release of alpha and what ``more`` names."""
    texts = [
        STACK.format(
            name=name,
            python=PYTHON,
            day=DAY.replace(day=day),
            alpha=alpha,
            more=more.format(alpha),
        )
        for day, (name, alpha) in enumerate(stacks.items(), 1)
    ]
    (lab.root / "matrix.toml").write_text(RUN + "".join(texts), encoding="utf-8")
    project = Project.at(lab.root)
    for stack in project.matrix.stacks:
        project.stack_run(stack, Watcher()).execute(Selection())
    lab.runs.clear()


def search(lab: Lab, budget_s: float = 600.0) -> list[tuple[str, str]]:
    """Look for the releases; each cell and answer."""
    project = Project.at(lab.root)
    found = flip_search.Search(project, Watcher(), lab.told.append, budget_s).run(
        flip_search.current(project)
    )
    return [(each.cell, each.answer) for each in found.turns]


def test_every_change_from_stack_to_stack_is_found(matrix: Lab) -> None:
    """Both cells, both changes; cells that change between the same stacks share environments."""
    first, second = (
        "alpha 3 (2025-01-04) and 4 (2025-01-05)",
        "alpha 6 (2025-01-07) and 7 (2025-01-08)",
    )
    cells = ("sums/plain/cpu", "sums/reported/cpu")
    assert sorted((cell, each) for cell in cells for each in (first, second)) == sorted(
        search(matrix)
    )
    each_ran = {(versions["alpha"]) for versions in matrix.runs}
    assert len(matrix.runs) == 2 * len(each_ran)


def test_what_the_older_stack_does_not_tell_the_newer_one_does(lab: Lab) -> None:
    """An old alpha is broken with a new beta; a new alpha with an old beta is not."""
    for name in ("alpha", "beta"):
        lab.add(name, 4)
    lab.broken = lambda versions: versions["alpha"] < versions["beta"]
    lab.fails = lambda versions: versions["alpha"] >= 3
    stacked(lab, {"old": 4, "new": 1}, ', "beta=={}"')
    assert {"alpha 2 (2025-01-03) and 3 (2025-01-04)"} == {answer for _, answer in search(lab)}


def test_what_another_run_has_found_meanwhile_is_kept(
    matrix: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both write the file as a whole."""
    project = Project.at(matrix.root)
    known = flip_search.current(project)
    other = replace(known.turns[-1], why="it ended in the same way on both sides")
    asked = []

    def answering(_: object, beside: list[Turning], *__: object) -> Turning:
        turn = beside[0]
        asked.append(turn.change)
        flip_search.write(project, Flips(turns=(other,)))
        return replace(turn, why="found here")

    monkeypatch.setattr(flip_search.Search, "answered", answering)
    found = flip_search.Search(project, Watcher(), matrix.told.append, 600.0).run(known)
    assert {*found.turns} == {*flips.load(project.published_results).turns}
    assert (other, len(known.turns) - 1) == (found.turns[-1], len(asked))


def test_cells_of_which_the_same_is_known_are_looked_at_together(matrix: Lab) -> None:
    """What changed a cell between any two stacks is known of it, if it is between these two."""
    search(matrix)
    found = flip_search.current(Project.at(matrix.root))
    locks = Project.at(matrix.root).known_locks(["middle", "new"])
    history = {each.cell: found.history(each.cell, *locks) for each in found.turns}
    assert {frozenset({("alpha", "7")})} == {*history.values()}
    left = Flips(turns=tuple(replace(each, edges=()) for each in found.turns))
    (stacks, *_) = (each.stacks for each in left.turns)
    (together,) = flip_search.groups(left, stacks, history).values()
    assert ["sums/plain/cpu", "sums/reported/cpu"] == [each.cell for each in together]
    apart = history | {"sums/plain/cpu": frozenset()}
    assert 2 == len(flip_search.groups(left, stacks, apart))


@pytest.mark.parametrize(("known", "first"), [("ab", "ab"), ("a", "bcde")])
def test_the_most_cells_come_first(matrix: Lab, known: str, first: str) -> None:
    """Of five cells, two of which something is known come before three others; one does not."""
    (turn, *_) = flip_search.current(Project.at(matrix.root)).turns
    turns = {name: replace(turn, cell=f"sums/{name}/cpu") for name in "abcde"}
    history = {
        each.cell: frozenset({("alpha", "4")} if name in known else ())
        for name, each in turns.items()
    }
    groups = flip_search.groups(Flips(turns=tuple(turns.values())), turn.stacks, history)
    assert [turns[name] for name in first] == next(iter(groups.values()))


def test_without_time_everything_stays_open_and_a_later_run_goes_on(matrix: Lab) -> None:
    """What is known is not looked for again."""
    assert {"not looked for yet"} == {answer for _, answer in search(matrix, 0.0)}
    found = search(matrix)
    matrix.runs.clear()
    assert found == search(matrix)
    assert [] == matrix.runs


def test_other_stacks_may_be_named(matrix: Lab) -> None:
    """The first and the last end equally; a pair is looked at first."""
    assert 4 == len(flip_search.current(Project.at(matrix.root), ("old", "new")).turns)
    for pair in (("middle", "new"), ("new", "middle")):
        named = flip_search.current(Project.at(matrix.root), pair).turns
        assert (("middle", "new"), 4) == (named[0].stacks, len(named))


def test_a_pair_that_another_run_looks_at_is_kept(matrix: Lab) -> None:
    """This run does not list it."""
    project = Project.at(matrix.root)
    here = flip_search.current(project)
    pair = replace(here.turns[0], stacks=("old", "new"), why="found there")
    gone = replace(pair, stacks=("old", "deleted"))
    flip_search.write(project, Flips(turns=(*here.turns, pair, gone)))
    assert {*here.turns, pair} == {*flip_search.write(project, here).turns}


def test_what_this_machine_cannot_judge_stays_open(
    matrix: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine may have the device. The other cells are looked for."""
    ran = Bisection.judged

    def judged(search: Bisection, run: SideRun, record: Record | None) -> Probe:
        return ran(search, run, None if search.key.variant == "plain" else record)

    monkeypatch.setattr(Bisection, "judged", judged)
    answers = search(matrix)
    assert {"not looked for yet"} == {said for cell, said in answers if "plain" in cell}
    assert "not looked for yet" not in {said for cell, said in answers if "reported" in cell}


def test_combined_stacks_are_no_neighbours(matrix: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two of them, any release may be behind a change."""
    monkeypatch.setattr(Project, "combined", {"middle"})
    assert () == flip_search.current(Project.at(matrix.root)).turns


def test_answers_of_another_machine_are_taken_where_a_question_is_open(matrix: Lab) -> None:
    """Others are not: of a cell that did not change, and of one that is known."""
    project = Project.at(matrix.root)
    here = flip_search.current(project)
    known = replace(here.turns[0], why="known here")
    forged = replace(here.turns[0], why="another reason")
    given = replace(here.turns[1], why="it cannot be judged")
    strange = replace(given, cell="sums/newer/cpu")
    flip_search.taken(
        project, Flips(turns=(known, *here.turns[1:])), Flips(turns=(forged, given, strange))
    )
    kept = flips.load(project.published_results).turns
    assert (known, given, *here.turns[2:]) == kept


def test_the_file_keeps_its_order(matrix: Lab) -> None:
    """A pair that is looked at first does not move there."""
    project = Project.at(matrix.root)
    kept = flip_search.write(project, flip_search.current(project))
    first = flip_search.current(project, kept.turns[-1].stacks)
    assert kept.turns[-1].stacks == flip_search.write(project, first).turns[0].stacks
    assert kept == flips.load(project.published_results)


def test_the_table_says_how_many_are_exact(matrix: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints it without running anything."""
    assert 0 == main(["flips", "--root", str(matrix.root)])
    out = capsys.readouterr().out
    assert "sums/plain/cpu: trains → step:exception: not looked for yet" in out
    assert "0 of 4 changes are exact, 4 are open." in out
    assert [] == matrix.runs


def test_a_file_that_cannot_be_read_is_an_error(matrix: Lab) -> None:
    """It says how to get another one."""
    flips.path_of(matrix.root / "results").write_text("[]", encoding="utf-8")
    with pytest.raises(UserError, match="cannot be read"):
        flips.load(matrix.root / "results")
