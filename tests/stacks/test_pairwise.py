"""Covering arrays with the resolver in the loop."""

from __future__ import annotations

import datetime as dt
from itertools import combinations, product
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradmatrix.core.errors import UserError
from gradmatrix.stacks.generate import Pairwise
from gradmatrix.stacks.pairwise import Array, Proof, choose, coverage, extended
from tests.stacks.test_config import load as load_matrix
from tests.stacks.test_index import release

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gradmatrix.core.model import Stack
    from gradmatrix.stacks.index import Release
    from gradmatrix.stacks.pairwise import Pins, Versions

DAY = dt.date(2026, 11, 20)


def proof(pins: Pins) -> Proof:
    """A proof that ``pins`` cannot be installed."""
    return Proof(
        versions=pins, requirements=(), build=(), pythons=("3.11",), as_of=DAY, resolver="",
        words="no",
    )  # fmt: skip


def resolver(conflicts: list[Pins]) -> Callable[[Pins], Proof | None]:
    """A resolver that finds ``conflicts``, and proves what it was asked for."""

    def refuted(pins: Pins) -> Proof | None:
        return proof(pins) if any(c.items() <= pins.items() for c in conflicts) else None

    return refuted


def combined(versions: Versions, strength: int) -> list[Pins]:
    """Every combination of ``strength`` releases."""
    return [
        dict(zip(names, each, strict=True))
        for names in combinations(versions, strength)
        for each in product(*(versions[name] for name in names))
    ]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Array, list[Pins]]:
    """Some packages with some versions, and what cannot be installed together."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=3, max_size=4))
    versions = {
        name: tuple(f"{number}.0" for number in range(size))
        for name, size in zip("abcd", sizes, strict=False)
    }
    conflicts = draw(
        st.lists(
            st.sampled_from([pins for size in (1, 2, 3) for pins in combined(versions, size)]),
            max_size=6,
        )
    )
    return Array(strength=draw(st.sampled_from([2, 3])), versions=versions), conflicts


def holds(row: Pins, pins: Pins) -> bool:
    """Whether ``row`` has ``pins``."""
    return pins.items() <= row.items()


@settings(max_examples=60)
@given(cases())
def test_whatever_can_be_installed_is_covered_and_the_rest_is_proven(
    case: tuple[Array, list[Pins]],
) -> None:
    """Against all rows: covered if a row without a conflict has it, impossible if it holds one."""
    array, conflicts = case
    refuted = resolver(conflicts)
    rows, found = extended(array, [], refuted)
    good = [row for row in combined(array.versions, len(array.versions)) if not refuted(row)]
    assert all(row in good for row in rows)
    for pins in combined(array.versions, array.strength):
        assert any(holds(row, pins) for row in rows) == any(holds(row, pins) for row in good)
        proven = any(each.refutes(pins) for each in found.proofs)
        assert proven == (refuted(pins) is not None)
        assert (pins in found.alone) == (not proven and not any(holds(r, pins) for r in rows))
    for each in found.proofs:  # none is larger than it must be
        for name in each.versions if len(each.versions) > 1 else ():
            assert not refuted({n: v for n, v in each.versions.items() if n != name})


@settings(max_examples=40)
@given(cases(), st.data())
def test_a_new_release_keeps_every_stack_and_every_proof(
    case: tuple[Array, list[Pins]], data: st.DataObject
) -> None:
    """The array of one release less is the beginning of the new one."""
    array, conflicts = case
    name = data.draw(st.sampled_from(sorted(array.versions)))
    fewer = {**array.versions, name: array.versions[name][:-1] or ("9.0",)}
    before, known = extended(
        msgspec.structs.replace(array, versions=fewer), [], resolver(conflicts)
    )
    asked: list[Pins] = []

    def refuted(pins: Pins) -> Proof | None:
        asked.append(pins)
        return resolver(conflicts)(pins)

    whole = {**fewer, name: (*fewer[name], *array.versions[name][-1:])}
    after, found = extended(
        Array(strength=array.strength, versions=whole, proofs=known.proofs), before, refuted
    )
    assert (before, known.proofs) == (after[: len(before)], found.proofs[: len(known.proofs)])
    assert not any(pins == each.versions for pins in asked for each in known.proofs)
    rows, again = extended(found, after, refuted)
    assert (after, found) == (rows, again)


RULE = Pairwise(
    versions={"torch": ("2.8.0", "2.9.1"), "peft": ">=0.17", "trl": ("0.23.1",)},
    requirements=("torch", "peft", "trl", "accelerate"),
)
RELEASES: dict[str, list[Release]] = {
    "torch": [release("2.8.0", "2025-08-06"), release("2.9.1", "2025-11-12")],
    "peft": [
        release("0.16.0", "2025-07-03"),
        release("0.17.0", "2025-08-01"),
        release("0.17.1", "2025-08-21"),
        release("0.18.1", "2026-01-09"),
    ],
    "trl": [release("0.23.1", "2025-10-02")],
    "accelerate": [release("1.0.1", "2024-10-01")],
}


class Asked:
    """A resolver that has a proof for stacks with some requirements, and remembers the others."""

    def __init__(self, *refused: str, only_on: str = "") -> None:
        self.refused, self.only_on = {*refused}, only_on
        self.stacks: list[Stack] = []

    def __call__(self, stack: Stack) -> str:
        """The proof that a stack has no solution."""
        self.stacks.append(stack)
        bad = self.refused and self.refused <= {*stack.requirements}
        elsewhere = self.only_on and stack.python != self.only_on
        return f"no: {stack.python}" if bad or elsewhere else ""


def test_stacks_pin_their_releases_and_leave_the_rest_open() -> None:
    """Bounds mean the last patch of each minor release; the day is that of the choice."""
    found = choose(RULE, RELEASES, [], DAY, Asked())
    assert {"torch": ("2.8.0", "2.9.1"), "peft": ("0.17.1", "0.18.1"), "trl": ("0.23.1",)} == (
        found.array.versions
    )
    assert {
        (f"torch=={torch}", f"peft=={peft}", "trl==0.23.1", "accelerate")
        for torch in ("2.8.0", "2.9.1")
        for peft in ("0.17.1", "0.18.1")
    } == {stack.requirements for stack in found.stacks}
    assert {DAY} == {stack.as_of for stack in found.stacks}


def test_a_conflict_is_asked_for_alone_and_only_once() -> None:
    """The proof has the two pins and what the table leaves open anyway."""
    ask = Asked("torch==2.9.1", "peft==0.17.1")
    known = choose(RULE, RELEASES, [], DAY, ask)
    [found] = known.array.proofs
    assert {"torch": "2.9.1", "peft": "0.17.1"} == found.versions
    assert (("torch==2.9.1", "peft==0.17.1", "accelerate"), DAY, "no: 3.11") == (
        found.requirements, found.as_of, found.words,
    )  # fmt: skip
    again = Asked()
    assert known == choose(RULE, RELEASES, [known], DAY, again)
    assert [] == again.stacks


def test_coverage_counts_what_was_covered_and_what_is_impossible() -> None:
    """A conflict of one release alone makes all its pairs impossible."""
    found = choose(RULE, RELEASES, [], DAY, Asked("torch==2.9.1"))
    assert (
        "2 of 4 possible stacks have all 5 pairs of releases that can be installed together; "
        "3 cannot" == str(coverage(found.array, found.stacks))
    )


def test_other_requirements_make_a_proof_void() -> None:
    """With another accelerate the two may go together. The stacks are chosen again, too."""
    known = choose(RULE, RELEASES, [], DAY, Asked("torch==2.9.1", "peft==0.17.1"))
    other = msgspec.structs.replace(RULE, requirements=("torch", "peft", "trl", "accelerate<1"))
    found = choose(other, RELEASES, [known], DAY, Asked())
    assert (4, ()) == (len(found.stacks), found.array.proofs)


def test_new_stacks_are_of_the_new_day_and_old_ones_stay() -> None:
    """A release that came out in between adds stacks."""
    known = choose(RULE, RELEASES, [], DAY, Asked())
    more = {**RELEASES, "peft": [*RELEASES["peft"], release("0.19.1", "2026-11-21")]}
    assert known == choose(RULE, more, [known], DAY, Asked())
    next_day = DAY + dt.timedelta(days=1)
    after = choose(RULE, more, [known], next_day, Asked()).stacks
    assert known.stacks == after[: len(known.stacks)]
    assert {next_day} == {stack.as_of for stack in after[len(known.stacks) :]}


def test_a_stack_has_the_first_python_with_which_it_can_be_installed() -> None:
    """Only if none fits is there a proof, and it names all of them."""
    rule = msgspec.structs.replace(RULE, pythons=("3.11", "3.12"))
    stacks = choose(rule, RELEASES, [], DAY, Asked(only_on="3.12")).stacks
    assert {"3.12"} == {stack.python for stack in stacks}
    [found] = choose(rule, RELEASES, [], DAY, Asked("trl==0.23.1")).array.proofs
    assert (("3.11", "3.12"), "no: 3.11 no: 3.12") == (found.pythons, found.words)


def test_both_names_of_a_project_have_one_version() -> None:
    """Also in a proof."""
    rule = Pairwise(
        versions={"lightning": ("2.6.0",), "torch": ("2.8.0",)},
        requirements=("lightning", "pytorch-lightning", "torch"),
    )
    names = ("lightning", "pytorch-lightning")
    there = {**RELEASES, **{name: [release("2.6.0", "2025-11-28")] for name in names}}
    [stack] = choose(rule, there, [], DAY, Asked()).stacks
    assert ("lightning==2.6.0", "pytorch-lightning==2.6.0", "torch==2.8.0") == stack.requirements
    refused = Asked("pytorch-lightning==2.6.0")
    [found] = choose(rule, there, [], DAY, refused).array.proofs
    assert ("lightning==2.6.0", "pytorch-lightning==2.6.0") == found.requirements


def test_other_scenarios_keep_every_stack_and_ask_nothing() -> None:
    """They are no part of what is resolved."""
    before = choose(RULE, RELEASES, [], DAY, Asked())
    rule, ask = msgspec.structs.replace(RULE, scenarios=("sums",)), Asked()
    after = choose(rule, RELEASES, [before], DAY, ask)
    assert [] == ask.stacks
    assert [stack.name for stack in before.stacks] == [stack.name for stack in after.stacks]
    assert {("sums",)} == {stack.scenarios for stack in after.stacks}


def test_bounds_that_no_release_meets_give_no_stack() -> None:
    """Nothing is asked."""
    rule = msgspec.structs.replace(RULE, versions={"torch": ("2.8.0",), "peft": ">=9"})
    ask = Asked()
    assert ((), []) == (choose(rule, RELEASES, [], DAY, ask).stacks, ask.stacks)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('versions = { torch = ">=2.8" }', "has a wrong value"),
        ('versions = { torch = ["2.8.0"], peft = ["0.18"] }\nstrength = 3', "too few packages"),
        ('versions = { torch = ["2.8.0"], Torch = ["2.9.1"] }', "too few packages"),
        ('versions = { torch = ["2.8.0"], numpy = ["2.0"] }', "do not name"),
        ('versions = { lightning = ">=2", pytorch-lightning = ">=2" }', "one version|one project"),
        ('versions = { torch = ["2.8", "2.8.0"], peft = ">=0.17" }', "cannot be read"),
        ('versions = { torch = "newest", peft = ">=0.17" }', "cannot be read"),
        ('versions = { torch = [], peft = ">=0.17" }', "cannot be read"),
        ('versions = { torch = ">=2", peft = ">=0" }\npythons = ["3"]', "has python"),
        ('versions = { torch = ">=2", peft = ">=0" }\nscenarios = ["no"]', "which does not exist"),
    ],
)
def test_a_wrong_table_is_one_clear_error(tmp_path: Path, table: str, says: str) -> None:
    """It names the table and what to write."""
    with pytest.raises(UserError, match=says):
        load_matrix(tmp_path, f"[generate.pairwise]\n{table}\n")
