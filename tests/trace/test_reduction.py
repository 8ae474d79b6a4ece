"""A scenario reduced to one variant does the same, and nothing of the other variants is left."""

from __future__ import annotations

import textwrap

import pytest

from gradmatrix.trace.reduce import reduce
from tests.conftest import FAKES

SOURCE = (FAKES / "sums.py").read_text(encoding="utf-8")
NAMES = ("plain", "twice", "scaled", "scaled_twice", "missing")


def events(text: str, *arguments: object) -> list[str]:
    """What ``train`` prints."""
    said: list[str] = []
    module: dict[str, object] = {"__name__": "script"}
    exec(compile(text, "script", "exec"), module)  # noqa: S102  (it is the text above)
    module["SAID"] = lambda value: said.append(str(value))
    train = module["train"]
    assert callable(train)
    train(*arguments)
    return said


def reduced(body: str) -> str:
    """A small script reduced to the variant ``a`` on ``cpu`` for 2 steps."""
    return reduce(textwrap.dedent(body), "a", "cpu", 2)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", NAMES)
def test_it_does_the_same(name: str, device: str) -> None:
    """It does the same as the variant."""
    assert events(SOURCE, name, device, 3) == events(reduce(SOURCE, name, device, 3))


def test_what_is_left_of_the_plainest() -> None:
    """No table, unused class or parameter is left, and no docstring about removed code."""
    expected = '''
from __future__ import annotations

SAID = print  # where the events go
START = 3


class Sum:
    def __init__(self, **options: float) -> None:
        self.factor = 1.0
        self.options = options

    def add(self, value: float) -> None:
        """Say the sum."""
        SAID(f"{self.factor * value} {self.options}")


def steps_of() -> list[int]:
    """Count up."""
    return [n for n in range(2) if True]


def describe(device: str) -> str:
    text = f"on {device}"
    text = text.upper()
    return text


def train() -> None:
    # the same for all
    SAID(describe("cpu"))
    summed = Sum()
    for n in steps_of():
        summed.add(START + n)
'''
    assert expected.lstrip() == reduce(SOURCE, "plain", "cpu", 2)


def test_comments_and_strings_stay_as_they_are() -> None:
    """This also holds if a block moves to the left."""
    text = reduce(SOURCE, "scaled_twice", "cpu", 2)
    assert "super().add(value)  # again" in text
    assert '    text += """\n        kept as it\n    is"""\n' in text


@pytest.mark.parametrize(("name", "there"), [("missing", True), ("plain", False)])
def test_a_comment_goes_with_what_it_is_about(name: str, there: bool) -> None:
    """It is above a statement that is never reached."""
    assert there is ("# nothing to do" in reduce(SOURCE, name, "cpu", 2))


def test_an_elif_becomes_an_if_or_an_else() -> None:
    """This depends on which conditions are known."""
    text = reduced(
        """
        def train(variant, device, steps):
            if variant == "b":
                one()
            elif device.isdigit():
                two()
            elif variant == "a":
                three()
            else:
                four()
        """
    )
    assert (
        'def train():\n    if "cpu".isdigit():\n        two()\n    else:\n        three()\n' == text
    )


def test_a_condition_that_is_partly_known_is_shortened() -> None:
    """The unknown part stays, with its parentheses."""
    text = reduced(
        """
        def train(variant, device, steps):
            if variant == "a" and (one() or two()):
                three()
        """
    )
    assert "def train():\n    if one() or two():\n        three()\n" == text


def test_a_block_that_would_be_empty_passes() -> None:
    """A loop must have a body."""
    text = reduced(
        """
        def train(variant, device, steps):
            for _ in range(steps):
                if variant == "b":
                    one()
        """
    )
    assert "def train():\n    for _ in range(2):\n        pass\n" == text


def test_a_table_that_changes_is_not_looked_up() -> None:
    """Its value is not known before it runs."""
    text = reduced(
        """
        TABLE = {"a": 1}

        def train(variant, device, steps):
            TABLE["a"] = 2
            print(TABLE["a"])
        """
    )
    assert 'print(TABLE["a"])' in text


def test_a_parameter_that_is_used_in_a_string_stays() -> None:
    """Its text cannot be replaced.

    One that is assigned again stays too, and one of a recursive function.
    """
    text = reduced(
        """
        def shown(value):
            return f"{value}"

        def counted(value):
            value += 1
            return value

        def halved(value):
            return value and halved(1)

        def train(variant, device, steps):
            return shown(steps), counted(steps), halved(steps)
        """
    )
    assert "return shown(2), counted(2), halved(2)" in text


def test_a_call_in_a_string_stays() -> None:
    """Before Python 3.12 the string is one token, and nothing in it has a place."""
    left = reduced(
        """
        def shown(value, *, width):
            return str(value).rjust(width)

        def train(variant, device, steps):
            names = [variant]
            text = f"{len(names)} {shown(1, width=3)}"
            print_it = text
        """
    )
    assert (True, True) == ("{len(names)} {shown(1, width=3)}" in left, "def shown(" in left)


def test_a_function_that_is_handed_on_keeps_its_parameters() -> None:
    """Its arguments are unknown."""
    text = reduced(
        """
        def shown(value):
            return value

        def train(variant, device, steps):
            return list(map(shown, [1])), shown(2)
        """
    )
    assert "def shown(value):" in text
    assert "shown(2)" in text


def test_an_attribute_that_a_library_may_read_stays() -> None:
    """Only an attribute that the script reads is replaced by its value."""
    text = reduced(
        """
        class Model(Base):
            def __init__(self, kind):
                self.automatic = False
                self.kind = kind

            def forward(self):
                return self.kind

        def train(variant, device, steps):
            return Model(variant)
        """
    )
    assert "self.automatic = False" in text
    assert 'return "a"' in text
    assert "kind" not in text


def test_what_only_imports_ahead_is_left_out() -> None:
    """Each function imports what it needs."""
    text = reduced(
        """
        import contextlib
        import importlib

        for name in ("json", "math"):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)

        def train(variant, device, steps):
            import json

            return json.dumps(steps)
        """
    )
    assert "def train():\n    import json\n\n    return json.dumps(2)\n" == text
