"""Changes of verdict, their likely reason, and what is regressed."""

from __future__ import annotations

import datetime as dt

import pytest
from msgspec.structs import replace

from gradmatrix.core.model import Gradient, Role
from gradmatrix.judge.history import Entry, Flip, Locked, flips, regressions
from tests.factories import DAY, NOON, make_cell

OLD, NEW = "1" * 16, "2" * 16
LOCKS = {
    ("stack", digest): Locked(
        schema=1, stack="stack", digest=digest, as_of=DAY, python="3.11", packages=packages
    )
    for digest, packages in (
        (OLD, {"torch": "2.6.0", "aiohttp": "3.1", "transformers": "4.1"}),
        (NEW, {"torch": "2.6.0", "aiohttp": "3.2", "transformers": "5.0", "tokenizers": "1.0"}),
    )
}
PASSED = {"trains": True, "setup:unsupported": None}


def entry(outcome: str = "trains", day: int = 0, changed: str = "", **facts: object) -> Entry:
    """An entry of one cell. ``changed`` has the words for what is new, such as "lock device"."""
    words = changed.split()
    moment = NOON + dt.timedelta(days=day)
    known: dict[str, object] = {
        "cell": make_cell(),
        "role": Role.REPORTED,
        "passed": PASSED.get(outcome, False),
        "lock": NEW if "lock" in words else OLD,
        "device": "Linux-aarch64" if "device" in words else "Linux-x86_64",
        "measured": "m",
    }
    fields = {**known, **facts, "outcome": outcome, "changed": tuple(words)}
    fields |= {"schema": 1, "at": moment, "published": moment, "run": "run", "key": "key"}
    return Entry(**fields)  # type: ignore[arg-type]


def story(*outcomes: str) -> list[str]:
    """The kinds of the flips of a cell with these outcomes, one a day; "gone" leaves the matrix."""
    entries = [
        entry("trains", n, gone=True) if each == "gone" else entry(each, n)
        for n, each in enumerate(outcomes)
    ]
    return [flip.kind.value for flip in flips(entries, {})]


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (["trains"], ["new"]),
        (["setup:unsupported"], []),
        (["trains", "trains"], ["new"]),
        (["trains", "step:exception"], ["new", "regressed"]),
        (["step:exception", "trains"], ["new", "fixed"]),
        (["step:exception", "gradient:none"], ["new", "broke differently"]),
        (["trains", "setup:unsupported"], ["new", "gone"]),
        (["setup:unsupported", "trains"], ["new"]),
        (["trains", "setup:unsupported", "trains"], ["new", "gone", "new"]),
        (["trains", "setup:unsupported", "step:exception"], ["new", "gone", "regressed"]),
        (["trains", "gone"], ["new", "gone"]),
        (["setup:unsupported", "gone"], []),
        (["step:exception", "gone", "trains"], ["new", "gone", "new"]),
    ],
    ids=" ".join,
)
def test_each_change_has_its_word(outcomes: list[str], expected: list[str]) -> None:
    """The kinds are those of the documentation."""
    assert expected == story(*outcomes)


def test_a_misuse_with_another_message_did_not_flip() -> None:
    """A cell passes before and after."""
    entries = [
        entry(outcome, day, passed=True)
        for day, outcome in enumerate(("step:exception", "setup:exception"))
    ]
    assert ["new"] == [flip.kind for flip in flips(entries, {})]


def last_flip(*entries: Entry) -> Flip:
    """The newest flip."""
    return flips(entries, LOCKS)[-1]


def test_a_moved_lock_is_described_by_its_packages() -> None:
    """The main packages come first. Packages that did not move are left out."""
    flip = last_flip(entry(), entry("step:exception", 1, "lock", lock=NEW))
    moved = "transformers 4.1 → 5.0, aiohttp 3.1 → 3.2, tokenizers (none) → 1.0"
    assert f"The stack's lock moved: {moved}." == flip.why


def test_another_python_comes_first() -> None:
    """Python is no package, but may change all of them."""
    newer = replace(LOCKS["stack", OLD], digest="3" * 16, python="3.12")
    locks = {**LOCKS, ("stack", newer.digest): newer}
    flip = flips([entry(), entry("step:exception", 1, "lock", lock=newer.digest)], locks)[-1]
    assert "The stack's lock moved: python 3.11 → 3.12." == flip.why


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (entry(), entry("step:exception", 1, "lock", lock="9" * 16), "The stack's lock moved."),
        (
            entry(),
            entry("step:exception", 1, "device"),
            "It ran on another machine: Linux-x86_64 → Linux-aarch64.",
        ),
        (
            entry(build="cpu"),
            entry("step:exception", 1, "build", build="cuda"),
            "It ran on another build of torch: cpu → cuda.",
        ),
        (
            entry(),
            entry("step:exception", 1, "observer judge"),
            "Our own measurement changed: observer, judge.",
        ),
        (
            entry(),
            entry("step:exception", 1),
            "The verdict changed, but nothing that it depends on did.",
        ),
        (entry(), entry(day=1, gone=True), ""),
    ],
    ids=["unknown lock", "machine", "build", "ours", "nothing", "gone"],
)
def test_the_likely_reason_is_named(before: Entry, after: Entry, expected: str) -> None:
    """Changes of the stack and of our own code are told apart."""
    assert expected == last_flip(before, after).why


def test_what_changed_while_a_cell_was_not_judged_counts() -> None:
    """The comparison is with the last entry that was judged."""
    flip = last_flip(
        entry(),
        entry("setup:unsupported", 1, "lock"),
        entry("step:exception", 2, "observer", lock=NEW),
    )
    assert ("lock", "observer") == flip.changed


def test_flips_stand_in_the_order_of_their_publication() -> None:
    """Entries of one moment are in the order of the cells."""
    one, two = make_cell("one"), make_cell("two")
    entries = [
        entry(cell=two),
        entry("step:exception", 1, cell=two),
        entry(day=1, cell=one),
        entry(cell=one, day=3),
    ]
    assert [(two, "new"), (one, "new"), (two, "regressed")] == [
        (f.cell, f.kind) for f in flips(entries, {})
    ]


def broken(day: int = 1, changed: str = "", lock: str = NEW, **facts: object) -> Entry:
    """An entry that fails; by default it has the new lock."""
    outcome = str(facts.pop("outcome", "step:exception"))
    return entry(outcome, day, changed, lock=lock, **facts)


@pytest.mark.parametrize(
    "changed", ["device", "build", "device build observer"], ids=["machine", "build", "and our own"]
)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("trains", "process:timeout"),
        ("step:exception", "trains"),
        ("step:exception", "gradient:none"),
    ],
)
def test_another_machine_alone_says_nothing_about_the_stack(
    changed: str, before: str, after: str
) -> None:
    """It is neither good nor bad, but the text says what changed."""
    entries = [entry(before), entry(after, 1, changed)]
    found = flips(entries, {})[-1]
    assert ("judged elsewhere", set(changed.split()), []) == (
        found.kind,
        {*found.changed},
        regressions(entries, {}),
    )


def test_what_a_machine_lacks_is_gone_there() -> None:
    """A cell that is judged again is new."""
    entries = [entry(), entry("setup:unsupported", 1, "device"), entry(day=2, device="a third")]
    assert ["new", "gone", "new"] == [flip.kind for flip in flips(entries, {})]


def test_a_lock_that_moved_with_the_machine_may_be_the_reason() -> None:
    """Nobody knows which of the two is the reason, so both are named."""
    [found] = regressions([entry(), entry("step:exception", 1, "lock device")], LOCKS)
    assert ("regressed", ("lock", "device")) == (found.flip.kind, found.flip.changed)


def test_a_machine_that_came_back_did_not_change() -> None:
    """Entries in between do not count."""
    away, back = (
        entry("setup:unsupported", 1, "device"),
        entry("step:exception", 2, device="Linux-x86_64"),
    )
    assert ("regressed", ()) == ((flip := last_flip(entry(), away, back)).kind, flip.changed)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (Role.MISUSE, Role.REPORTED, "new"),
        (Role.REMEDY, Role.MISUSE, "new"),
        (Role.REPORTED, Role.CONTROL, "regressed"),
    ],
)
def test_in_another_role_a_cell_is_asked_something_else(
    before: Role, after: Role, expected: str
) -> None:
    """Silence about a misuse is no failure to train. A cell of any other role must train."""
    entries = [
        entry("gradient:none", passed=True, role=before),
        broken(changed="lock scenario", role=after),
    ]
    is_regressed = len(regressions(entries, LOCKS)) == 1
    assert (expected, expected == "regressed") == (flips(entries, LOCKS)[-1].kind, is_regressed)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([entry(), broken(1, "lock")], ["step:exception"]),
        ([entry(), broken(1, "lock observer")], ["step:exception"]),
        ([entry(), broken(1, "lock"), broken(2, "judge", outcome="update:none")], ["update:none"]),
        ([entry(), entry("setup:unsupported", 1, "lock"), broken(2)], ["step:exception"]),
        ([entry(), entry(day=1, gone=True), broken(2)], ["step:exception"]),
        ([entry(), broken(1, "lock"), entry(day=2, lock=NEW)], []),
        ([entry(), broken(1, "lock"), entry("setup:unsupported", 2, lock=NEW)], []),
        ([entry("step:exception"), broken(1, "lock", outcome="gradient:none")], []),
        ([entry(), broken(1, "lock"), broken(2, gone=True)], []),
        ([entry(), broken(1, "lock"), broken(2, "lock", OLD)], []),
        ([entry(changed="lock"), broken(1, "observer"), broken(2, gone=True), broken(3)], []),
    ],
    ids=[
        "lock", "lock and ours", "broke differently since", "unsupported between", "gone between",
        "fixed", "unsupported now", "never passed", "gone", "the old lock again",
        "gone between, the same lock",
    ],
)  # fmt: skip
def test_regressed_is_what_fails_now_and_passed_before_the_lock_moved(
    entries: list[Entry], expected: list[str]
) -> None:
    """It does not matter what came in between."""
    assert expected == [each.now.outcome for each in regressions(entries, LOCKS)]


@pytest.mark.parametrize(
    "night", ["observer", "device", ""], ids=["ours", "another machine", "flaky"]
)
@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ({}, []),
        ({"changed": "lock observer"}, ["step:exception"]),
        ({"measured": "mended"}, ["step:exception"]),
        ({"outcome": "gradient:none"}, ["gradient:none"]),
        ({"gradient": Gradient.NONE}, ["step:exception"]),
        ({"lock": OLD}, []),
    ],
    ids=[
        "the same failure",
        "ours mended",
        "mended in silence",
        "another one",
        "another gradient",
        "no lock moved",
    ],
)
def test_a_failure_that_was_there_before_the_lock_moved_hides_no_other(
    night: str, after: dict[str, str], expected: list[str]
) -> None:
    """Only the same failure, measured in the same way, is known not to be the stack's."""
    bad = entry("step:exception", 1, night)
    now = broken(2, **{"changed": "lock", "device": bad.device, **after})
    assert expected == [each.now.outcome for each in regressions([entry(), bad, now], LOCKS)]


def test_a_failure_on_another_machine_says_nothing_of_the_first_one() -> None:
    """There it fails only after the lock moved."""
    back = broken(2, "lock device", device="Linux-x86_64")
    [found] = regressions([entry(), entry("step:exception", 1, "device"), back], LOCKS)
    assert (back, ("lock",)) == (found.now, found.flip.changed)


@pytest.mark.parametrize(
    ("build", "expected"),
    [("cuda", ("lock", "measurement", "build")), ("", ("lock", "measurement"))],
)
def test_changes_while_a_cell_was_gone_are_named(build: str, expected: tuple[str, ...]) -> None:
    """The comparison is with the last known build. A cell that did not run has none."""
    entries = [
        entry(build="cpu"),
        entry(day=1, gone=True),
        broken(2, build=build, measured="other"),
    ]
    [found] = regressions(entries, LOCKS)
    assert expected == found.flip.changed


def test_a_regression_compares_with_the_last_lock_that_passed() -> None:
    """Compared with the last passing lock, fewer packages moved than with the first."""
    last = entry(day=1, changed="lock", lock=NEW)
    [found] = regressions([entry(), last, entry("step:exception", 2, "lock", lock="3" * 16)], LOCKS)
    assert last == found.flip.before


@pytest.mark.parametrize("role", Role)
def test_a_misuse_that_became_silent_is_marked(role: Role) -> None:
    """A misuse is not meant to train."""
    entries = [entry(passed=True, role=role), entry("update:none", 1, "lock", role=role)]
    assert [role is Role.MISUSE] == [each.silent for each in regressions(entries, LOCKS)]
