"""Small claims, and tables that decide them."""

from __future__ import annotations

from msgspec.structs import replace

from gradmatrix.core.model import Role
from gradmatrix.core.observation import Rate
from gradmatrix.core.outcomes import NOT_JUDGED
from gradmatrix.judge.edge import Edge, End, Flips, Turning
from gradmatrix.publish.claims.claims import Claim, Expectation
from gradmatrix.publish.rows import Explained, Row, Table, tabulated
from tests.factories import NOON, make_lock, make_scenario, make_variant

WARNING = "None of the inputs have requires_grad=True. Gradients will be None"
VERSIONS = {"old": "2.0.3", "middle": "2.2.2", "new": "2.5.0"}
"""The release of lightning of each stack."""


def make_row(
    stack: str = "new", variant: str = "reported", outcome: str = "trains", **facts: object
) -> Row:
    """A row of a cell; whether it passed follows from its outcome."""
    row = Row(
        stack=stack,
        scenario="amp",
        variant=variant,
        role=Role.REPORTED,
        device="cpu",
        outcome=outcome,
        passed=None if outcome in NOT_JUDGED else outcome == "trains",
        gradient=None,
        steps_per_s=None,
        peak_memory_bytes=None,
        message="",
        raised=None,
        warnings=(),
        diagnosis=None,
        flaky="",
        recorded_at=NOON,
        key="key",
    )
    return replace(row, **facts)


def make_explained(cause: str) -> Explained:
    """A diagnosis that names ``cause``."""
    return Explained(cause=cause, module=None, place=None, text=("why",), remedy=None)


def make_rate(median: float, spread: float = 0.5) -> Rate:
    """Steps per second whose quartiles are ``spread`` to either side of the median."""
    return Rate(median=median, low=median - spread, high=median + spread, samples=())


SCENARIOS = {
    "amp": make_scenario(
        "amp",
        make_variant("reported", Role.REPORTED, needs=("torch", "lightning")),
        make_variant("remedy", Role.REMEDY, needs=("torch", "lightning")),
        make_variant("frozen", Role.MISUSE, needs=("torch",)),
    ),
    "other": make_scenario("other", make_variant("plain")),
}


def make_table(*rows: Row, turns: tuple[Turning, ...] = ()) -> Table:
    """The rows, on three stacks that differ in lightning and torch, and changes that are exact."""
    locks = tuple(
        make_lock(stack, versions={"torch": f"2.{place}.0", "lightning": version})
        for place, (stack, version) in enumerate(VERSIONS.items())
    )
    return tabulated(locks, SCENARIOS, rows, flips=Flips(turns=turns))


def make_turning(
    package: str = "lightning", before: str = "2.0.6", after: str = "2.0.7", **fields: object
) -> Turning:
    """An exact change of the reported variant between the first two stacks."""
    ends = [
        End(name=f"{package} {version}", outcome=outcome, gradient=None, message="", why=())
        for version, outcome in ((before, "step:no-grad-fn"), (after, "trains"))
    ]
    edge = Edge(package=package, before=before, after=after, ends=(ends[0], ends[1]), moved=())
    digits = make_lock().digest[:16]
    turning = Turning(
        cell="amp/reported/cpu",
        stacks=("old", "middle"),
        locks=(digits, digits),
        outcomes=("step:no-grad-fn", "trains"),
        edges=(edge,),
    )
    return replace(turning, **fields)


def make_claim(*expect: Expectation, **fields: object) -> Claim:
    """A claim with these expectations."""
    claim = Claim(
        id="upgrade",
        scenario="amp",
        says="Upgrading solves it.",
        source="owner/library#12",
        date=None,
        reading="",
        expect=expect,
    )
    return replace(claim, **fields)


def make_expectation(variant: str = "reported", /, **fields: object) -> Expectation:
    """The expected outcome of one variant; by default it trains."""
    signs = (
        fields if fields.keys() - {"where", "given", "device"} else {"outcome": "trains", **fields}
    )
    return replace(Expectation(cells=(("amp", variant),)), **signs)
