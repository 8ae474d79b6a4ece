"""What the observer puts into torch: it comes and goes together, and the script's own stays."""

from __future__ import annotations

from collections import OrderedDict
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from gradmatrix.observe.replaced import aside, hook, replace

if TYPE_CHECKING:
    from collections.abc import Iterator


class Base:
    """A class with an attribute to replace."""

    value = "original"


class Child(Base):
    """A class that inherits it."""


@pytest.fixture
def child() -> Iterator[type[Child]]:
    """The class, as it was."""
    yield Child
    assert "value" not in vars(Child)


def test_an_inherited_attribute_is_replaced_and_put_back(child: type[Child]) -> None:
    """Twice, and the last replacement goes first."""
    undo_first, undo_last = replace(child, "value", "first"), replace(child, "value", "last")
    assert "last" == child.value
    undo_last()
    assert "first" == child.value
    undo_first()
    assert "original" == child.value


def test_all_of_it_is_away_aside(child: type[Child]) -> None:
    """It comes back in its order; what is undone or put in meanwhile is so afterwards."""
    undo_first, undo_last = replace(child, "value", "first"), replace(child, "value", "last")
    with aside(), aside():
        assert "original" == child.value
        undo_last()
        undo_other = replace(child, "other", "other")
        assert not hasattr(child, "other")
    assert ("first", "other") == (child.value, vars(child)["other"])
    undo_first()
    undo_other()


def test_what_the_script_puts_there_stays(child: type[Child]) -> None:
    """Before it is undone, and while everything is away."""
    undo = replace(child, "value", "ours")
    child.value = "theirs"
    undo()
    assert "theirs" == child.value
    del child.value
    undo = replace(child, "value", "ours")
    with aside():
        child.value = "theirs"
    assert "theirs" == child.value
    undo()
    assert "theirs" == child.value
    del child.value


def test_a_hook_is_removed_and_is_away_aside() -> None:
    """A handle like torch's tells its dictionary and its key."""
    hooks: OrderedDict[int, object] = OrderedDict()

    def register(function: object) -> SimpleNamespace:
        hooks[len(hooks)] = function
        return SimpleNamespace(id=len(hooks) - 1, hooks_dict_ref=lambda: hooks)

    undo = hook(register, "ours")
    with aside():
        assert {} == hooks
    assert {0: "ours"} == hooks
    undo()
    with aside():
        pass
    assert {} == hooks
