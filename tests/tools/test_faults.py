"""The known faults: where they are, which variants they concern, and which names count as right."""

from __future__ import annotations

import ast

import pytest

from gradmatrix.core.model import Role
from gradmatrix.core.observation import Frame
from gradmatrix.run import scenarios
from tests.conftest import ROOT
from tools import audit
from tools.audit import Lines, Truth

BLOCK = Truth(modules=("model.layers.1",), root="Model", built_at=("script.py", 40))
ANYWHERE = Truth(modules=None, root="Model", built_at=None)
WHAT = ("target", "hidden", "loss")
"""What a mistake is made with."""
GUILTY = (Lines("blocks.py", 20, 22),)


def frame(file: str, line: int) -> Frame:
    """A frame of a stack."""
    return Frame(file=file, line=line, function="forward")


def mistakes() -> dict[str, ast.FunctionDef]:
    """Every function in faults/ that makes a mistake, by name."""
    trees = [ast.parse(path.read_bytes()) for path in audit.FOLDER.glob("*.py")]
    functions = [node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {
        node.name: node
        for node in functions
        if len(node.args.args) == 1 and node.args.args[0].arg.strip("_") in WHAT
    }


def test_there_are_faults_of_many_kinds() -> None:
    """There are at least twenty, with different names."""
    assert len(audit.FAULTS) == len({fault.name for fault in audit.FAULTS}) >= 20


def test_every_fault_is_made_somewhere_and_every_mistake_is_a_fault() -> None:
    """The list on the host and the functions in faults/ agree."""
    assert {fault.name for fault in audit.FAULTS} == set(mistakes())


def test_every_guilty_line_is_marked() -> None:
    """A fault without a mark could not be checked."""
    assert {fault.name for fault in audit.FAULTS} == set(audit.culprits())


def test_every_fault_reaches_a_variant_and_each_scenario_gets_twenty_kinds() -> None:
    """Each scenario that the audit uses gets its share."""
    asked = audit.injections(audit.FAULTS, audit.HEALTHY, seeds=1)
    kinds = {
        name: {each.fault for each in asked if each.scenario == name} for name in audit.HEALTHY
    }
    assert {fault.name for fault in audit.FAULTS} == set().union(*kinds.values())
    assert [] == [name for name in audit.HEALTHY if len(kinds[name]) < 20]


def test_the_healthy_variants_are_in_the_scenarios() -> None:
    """None of them is a misuse, which could not train."""
    known = scenarios.load_all(ROOT / "scenarios")
    roles = {(s.name, v.name): v.role for s in known.values() for v in s.variants}
    used = {
        (scenario, variant) for scenario, variants in audit.HEALTHY.items() for variant in variants
    }
    assert set() == {pair for pair in used if roles.get(pair, Role.MISUSE) is Role.MISUSE}


def test_a_fault_is_injected_with_each_seed() -> None:
    """The seed decides what is affected."""
    asked = audit.injections(
        [audit.fault("nan_output")], {"scenario": {"plain": frozenset()}}, seeds=2
    )
    assert ["nan_output|scenario|plain|1", "nan_output|scenario|plain|2"] == [
        str(each) for each in asked
    ]


@pytest.mark.parametrize(
    ("needs", "unless", "traits", "expected"),
    [
        ("", "", "full", True),
        ("lora", "", "lora float32", True),
        ("lora", "", "full", False),
        ("lora", "reference", "lora", True),
        ("lora", "reference", "lora reference", False),
        ("closure", "", "closure", True),
        ("closure", "", "full", False),
        ("", "", "closure", False),
    ],
)
def test_a_fault_is_injected_where_it_is_a_mistake(
    needs: str, unless: str, traits: str, expected: bool
) -> None:
    """The variant has the traits that it needs and none that undo it.

    The closure is for faults that need one.
    """
    fault = audit.fault("name", *needs.split(), unless=unless)
    healthy = {"scenario": {"plain": frozenset(traits.split())}}
    assert expected is bool(audit.injections([fault], healthy, seeds=1))


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("model.layers.1", True),
        ("model.layers.1.mlp", True),
        ("Model.model.layers.1.mlp", True),
        ("Model#2.model.layers.1", True),
        ("model.layers.10", False),
        ("model.layers", False),
        ("layers.1", False),
        ("Other.model.layers.1", False),
        (None, False),
    ],
)
def test_a_module_is_right_when_it_is_the_faulty_one_or_inside_it(
    named: str | None, expected: bool
) -> None:
    """Only the class of the outermost module may come before its name."""
    assert expected is audit.module_is_right(named, BLOCK)


def test_no_module_is_asked_for_where_none_is_to_blame() -> None:
    """A loss that was wrapped again belongs to no module."""
    assert audit.module_is_right("model.layers.1", ANYWHERE) is None


def test_everything_is_inside_the_whole_model() -> None:
    """If the whole forward is to blame, any module is right, but one must be named."""
    whole = Truth(modules=("",), root="Model", built_at=None)
    assert [True, True, False] == [
        audit.module_is_right(named, whole) for named in ("Model", "model.layers", None)
    ]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (frame("blocks.py", 20), True),
        (frame("somewhere/blocks.py", 22), True),
        (frame("blocks.py", 19), False),
        (frame("blocks.py", 23), False),
        (frame("other_blocks.py", 20), False),
        (None, False),
    ],
)
def test_a_line_is_right_when_it_is_in_the_guilty_statement(
    place: Frame | None, expected: bool
) -> None:
    """The same file, and a line of the statement."""
    assert expected is audit.line_is_right(place, GUILTY)


def test_a_statement_over_several_lines_is_guilty_as_a_whole() -> None:
    """An interpreter may name any line of it."""
    assert Lines("x.py", 2, 4) == marked(
        "def f(x):\n    y = g(\n        x,\n    )  # culprit\n    return y\n", 4
    )


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("def f(x):\n    with no_grad():  # culprit\n        return x\n", 2),
        ("def f(x):\n    @no_grad()  # culprit\n    def g():\n        return x\n", 2),
    ],
)
def test_of_a_statement_with_a_body_its_head_is_guilty(source: str, line: int) -> None:
    """This is the ``with`` or the decorator, without its content."""
    assert Lines("x.py", line, line) == marked(source, line)


def marked(source: str, line: int) -> Lines:
    """The guilty statement of a source's first function."""
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    return audit.statement(function, line, "x.py")


def test_the_line_that_builds_the_optimizer_is_a_right_answer_where_nothing_else_can_be_seen() -> (
    None
):
    """The marked line is right too."""
    replaced = next(fault for fault in audit.FAULTS if fault.name == "parameter_replaced")
    assert Lines("script.py", 40, 40) in audit.guilty_lines(replaced, BLOCK)
    detached = next(fault for fault in audit.FAULTS if fault.name == "detached_hidden")
    assert audit.culprits()["detached_hidden"] == audit.guilty_lines(detached, BLOCK)


def test_no_line_is_asked_for_where_none_is_to_blame() -> None:
    """A layer's result is not used, and no line does that."""
    forgotten = next(fault for fault in audit.FAULTS if fault.name == "output_forgotten")
    assert () == audit.guilty_lines(forgotten, BLOCK)
