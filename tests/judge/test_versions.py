"""The nearest published stack, which releases separate stacks, and what moved between two locks."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from packaging.version import Version

from gradmatrix.core.model import Published, Role
from gradmatrix.judge import versions
from gradmatrix.judge.causes import Cause
from gradmatrix.judge.versions import moves, packages_moved, separate
from gradmatrix.judge.wording import Diagnosis
from tests.compared import NEW, OLD
from tests.factories import make_cell, make_lock, make_record, make_scenario, make_variant

if TYPE_CHECKING:
    from gradmatrix.core.model import Record

STACKS = {
    "old": {
        "torch": Version("2.0.1"),
        "lightning": Version("2.0.3"),
        "transformers": Version("4.30.2"),
    },
    "middle": {
        "torch": Version("2.6.0"),
        "lightning": Version("2.2.2"),
        "transformers": Version("4.49.0"),
    },
    "mixed": {
        "torch": Version("2.13.0"),
        "lightning": Version("2.6.6"),
        "transformers": Version("4.57.6"),
    },
    "new": {
        "torch": Version("2.13.0"),
        "lightning": Version("2.6.6"),
        "transformers": Version("5.4.0"),
    },
}


def here(**versions: str) -> dict[str, Version]:
    """An environment's versions."""
    return {name: Version(version) for name, version in versions.items()}


def column(**outcomes: str) -> list[Record]:
    """The records of one cell on some stacks."""
    return [
        make_record(
            outcome,
            make_cell(stack),
            passed=None if outcome == "setup:unsupported" else outcome == "trains",
        )
        for stack, outcome in outcomes.items()
    ]


def words(own: dict[str, Version], *needs: str, **outcomes: str) -> str:
    """The text about a cell that fails with step:no-grad-fn in the environment."""
    return versions.like("step:no-grad-fn", column(**outcomes), STACKS, own, needs).words


FAILS = "step:no-grad-fn"
OWN = here(torch="2.6.0", lightning="2.5.0", transformers="4.50.0")


def test_the_same_versions_are_nearest() -> None:
    """The build of torch does not count."""
    locks = [
        make_lock("a", versions={"torch": "2.6.0"}),
        make_lock("b", versions={"torch": "2.6.1"}),
    ]
    closest = versions.nearest(here(torch="2.6.0+cpu"), locks)
    assert closest is locks[0]


@pytest.mark.parametrize(
    ("nearer", "farther"),
    [
        ({"torch": "2.6.3"}, {"torch": "2.7.0"}),
        ({"torch": "2.7.0"}, {"torch": "2.9.0"}),
        ({"torch": "2.99.0"}, {"torch": "3.0.0"}),
        ({"torch": "2.6.3", "trl": "0.1"}, {"torch": "1.6.0"}),
    ],
)
def test_a_major_release_counts_more_than_a_minor_one_and_that_more_than_a_patch(
    nearer: dict[str, str], farther: dict[str, str]
) -> None:
    """A package that only one side has counts less than another major release."""
    own = here(torch="2.6.0")
    assert versions.distance(own, here(**nearer)) < versions.distance(own, here(**farther))


def test_of_two_equally_near_stacks_the_newer_one_is_taken() -> None:
    """The as-of date decides."""
    locks = [make_lock("a", as_of=dt.date(2025, 1, 1)), make_lock("b", as_of=dt.date(2026, 1, 1))]
    assert locks[1] is versions.nearest(here(torch="2.6.0"), locks)


def test_without_published_stacks_no_stack_is_near() -> None:
    """There is no nearest stack then."""
    assert versions.nearest(here(torch="2.6.0"), []) is None


def test_a_version_made_by_hand_does_not_count() -> None:
    """Such a version cannot be compared."""
    assert here(trl="0.15") == versions.versions_of(
        make_lock(versions={"torch": "mine", "trl": "0.15"})
    )


def test_one_bound_separates() -> None:
    """The text names the two measured releases beside the bound."""
    told = words(OWN, old=FAILS, middle=FAILS, mixed=FAILS, new="trains")
    assert "as on every published stack with transformers up to 4.57.6 (not from 5.4.0 on)" == told


def test_newer_releases_may_be_the_ones_that_fail() -> None:
    """The bound may have the failing releases above it."""
    told = words(OWN, "transformers", old="trains", middle=FAILS, mixed=FAILS, new=FAILS)
    assert "as on every published stack with transformers from 4.49.0 on (not up to 4.30.2)" == told


def test_several_bounds_cannot_be_told_apart() -> None:
    """All packages that the variant needs are named, and no others."""
    told = words(
        OWN, "torch>=2.0", "lightning", old=FAILS, middle=FAILS, mixed="trains", new="trains"
    )
    assert (
        "as on every published stack with torch up to 2.6.0 (not from 2.13.0 on); these stacks "
        "also have lightning up to 2.2.2 (not from 2.6.6 on; 2.5.0 lies between), so it may be any "
        "of these packages"
    ) == told


def test_a_bound_with_the_environment_on_the_other_side_explains_nothing() -> None:
    """The cell fails although its release is on the passing side."""
    own = here(torch="2.13.0", lightning="2.6.6", transformers="5.4.0")
    assert "as on old, middle, mixed" == words(
        own, old=FAILS, middle=FAILS, mixed=FAILS, new="trains"
    )


def test_without_a_bound_the_stacks_are_named() -> None:
    """The stack between them passes."""
    assert "as on old, mixed" == words(OWN, old=FAILS, middle="trains", mixed=FAILS, new="trains")


def test_another_failure_is_on_the_other_side() -> None:
    """Only cells that fail in the same way count as equal."""
    told = words(OWN, "transformers", old="step:exception", middle=FAILS, mixed=FAILS, new=FAILS)
    assert "as on every published stack with transformers from 4.49.0 on (not up to 4.30.2)" == told


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ({"old": FAILS, "middle": FAILS}, "as on all 2 published stacks"),
        ({"old": FAILS, "middle": "setup:unsupported"}, "as on old"),
        ({"old": "trains", "new": "trains"}, "here and on no published stack"),
        (
            {"old": "gradient:none", "new": "trains"},
            "in another way than on published stacks (gradient:none)",
        ),
        ({"old": "setup:unsupported"}, "here, and no published stack was judged on it"),
        ({}, "here, and no published stack was judged on it"),
    ],
)
def test_the_text_says_how_many_published_stacks_fail(
    outcomes: dict[str, str], expected: str
) -> None:
    """It may be all, some, none, or no judged stack."""
    assert expected == words(OWN, **outcomes)


def test_a_failed_import_is_not_compared_with_cells_that_ran() -> None:
    """If the published stacks lack the same module, the text says so."""
    records = column(old=FAILS, new="trains")
    assert (
        "because it cannot be imported here"
        == versions.like("import:missing-module", records, STACKS, OWN).words
    )
    records = column(old="import:missing-module", new="import:missing-module")
    assert (
        "as on all 2 published stacks"
        == versions.like("import:missing-module", records, STACKS, OWN).words
    )


def test_if_most_stacks_fail_the_others_are_named() -> None:
    """This is so if no bound separates them."""
    names = [f"s{n}" for n in range(6)]
    stacks = {name: here(torch=f"2.{n}.0") for n, name in enumerate(names)}
    records = column(**{name: "trains" if name == "s3" else FAILS for name in names})
    assert (
        "as on every published stack except s3" == versions.like(FAILS, records, stacks, OWN).words
    )


def test_a_package_that_a_stack_lacks_separates_nothing() -> None:
    """The release on that stack is not known."""
    stacks = {"with": here(trl="0.15"), "without": here(torch="2.0")}
    records = column(**{"with": FAILS, "without": "trains"})
    assert "as on with" == versions.like(FAILS, records, stacks, here(trl="0.15")).words


def test_a_release_separates_failing_from_passing_stacks() -> None:
    """A package whose releases overlap separates nothing."""
    old, middle, new = STACKS["old"], STACKS["middle"], STACKS["new"]
    names = ("torch", "transformers")
    assert ["torch up to 2.6.0 (not from 2.13.0 on)"] == [
        str(bound) for bound in separate([old, middle], [new], names) if bound.package == "torch"
    ]
    assert [("torch", False), ("transformers", False)] == [
        (bound.package, bound.older) for bound in separate([new], [old, middle], names)
    ]
    assert () == separate([old, new], [middle], names)


def test_what_a_stack_asks_for_comes_first_then_what_came_with_it() -> None:
    """The main packages come before the others. Packages that did not move are left out."""
    expected = [
        ("torch 2.6.0 → 2.10.0", True),
        ("trl 0.15.2 → 1.0.0", True),
        ("httpx (none) → 1.0", False),
        ("requests 2.32.3 → (none)", False),
    ]
    assert expected == [(str(each), each.direct) for each in packages_moved(OLD, NEW)]


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        ("1.12.0", "1.12.0+slow5", True),
        ("1.12.0+slow5", "1.12.0+slow5", False),
        ("2.13.0", "2.13.0+cpu", False),
        ("2.13.0+cu130", "2.13.0", False),
        ("2.13.0+cpu", "2.13.0+cu130", True),
        ("2.13.0+cpu", "2.12.0+cpu", True),
    ],
)
def test_a_local_version_is_another_version(before: str, after: str, *, moved: bool) -> None:
    """A lock without the label of a build of torch is installed as the build of the machine."""
    assert moved == bool(moves({"torch": before}, {"torch": after}))


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        ({"sha256:a", "sha256:b"}, {"sha256:b", "from:x"}, False),
        ({"sha256:a", "from:index"}, {"sha256:b", "from:index"}, True),
        ({"files:a", "from:index"}, {"sha256:b", "from:index"}, False),
        ({"files:a", "from:index"}, {"sha256:b", "files:a", "from:file:///x"}, False),
        ({"files:a", "from:index"}, {"commit:b", "from:git+https://x"}, True),
        ({"commit:a", "from:x"}, {"commit:b", "from:x"}, True),
        (set(), {"sha256:b"}, False),
    ],
)
def test_other_contents_of_one_version_are_a_move(
    before: set[str], after: set[str], *, moved: bool
) -> None:
    """The surest kind that both sides have decides; nothing is said without one."""
    found = moves({"a": "1"}, {"a": "1"}, ({"a": frozenset(before)}, {"a": frozenset(after)}))
    assert (["a 1 → 1 (other contents)"] if moved else []) == [str(each) for each in found]


def test_a_build_of_the_machine_is_not_the_file_of_the_lock() -> None:
    """The contents of the two are not compared."""
    contents = ({"torch": frozenset({"sha256:a"})}, {"torch": frozenset({"sha256:b"})})
    assert () == moves({"torch": "2.13.0+cpu"}, {"torch": "2.13.0"}, contents)


def test_the_days_of_the_releases_are_those_of_the_locks() -> None:
    """The day is None if a lock does not have it."""
    found = {
        each.name: (str(each.before_released), str(each.after_released))
        for each in packages_moved(OLD, NEW)
    }
    assert ("2025-01-29", "2026-01-10") == found["torch"]
    assert ("None", "None") == found["requests"]


def test_another_python_comes_first() -> None:
    """Python is no package, and matters most."""
    assert "python 3.11 → 3.13" == str(packages_moved(OLD, replace(NEW, python="3.13"))[0])


def test_the_same_lock_moves_nothing() -> None:
    """The name of the lock does not matter."""
    assert () == packages_moved(OLD, replace(OLD, stack="other"))


def test_a_requirement_that_is_no_name_is_left_out() -> None:
    """A wheel or a path has no name to compare."""
    lock = replace(NEW, requirements=("./dist/thing.whl", "TRL[quantization]>=1"))
    assert {"trl"} == {
        each.name for each in packages_moved(replace(OLD, requirements=()), lock) if each.direct
    }


def test_the_main_packages_come_first_among_the_moved() -> None:
    """The order is the same between two stacks."""
    found = moves(
        {"aiohttp": "1", "torch": "2.6", "peft": "1"}, {"aiohttp": "2", "torch": "2.7", "peft": "1"}
    )
    assert ["torch 2.6 → 2.7", "aiohttp 1 → 2"] == [str(each) for each in found]


def test_spells_are_neighbouring_releases_that_end_alike() -> None:
    """In the order of versions; releases whose stacks disagree are a spell of their own."""
    ends = [("2.10.0", True), ("2.5.0", True), ("2.6.0", False), ("2.6.0", True), ("2.6.1", False)]
    found = versions.spells((Version(release), passes) for release, passes in ends)
    assert [
        (True, "2.5.0", "2.5.0"),
        (None, "2.6.0", "2.6.0"),
        (False, "2.6.1", "2.6.1"),
        (True, "2.10.0", "2.10.0"),
    ] == [(each.passes, str(each.first), str(each.last)) for each in found]


def test_without_stacks_there_is_no_spell() -> None:
    """Nothing ended."""
    assert [] == versions.spells([])


@pytest.mark.parametrize(("advice", "expected"), [("", "remedy"), ("Do it so.", None)])
def test_a_remedy_is_named_where_the_diagnosis_has_no_advice_of_its_own(
    advice: str, expected: str | None
) -> None:
    """A cause may have several mechanisms; the remedy is against one of them."""
    scenario = make_scenario("one", make_variant("remedy", Role.REMEDY, cures=("frozen",)))
    published = Published(
        (NEW,), {"one": scenario}, (make_record("trains", make_cell(NEW.stack, "one", "remedy")),)
    )
    frozen = Diagnosis(cause=Cause.FROZEN, module=None, place=None, text=(), advice=advice)
    remedy = versions.remedy_near(published, frozen, {})
    assert expected == (None if remedy is None else remedy.cell.variant)
