"""Where something was built: the line outside of its constructors."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from gradmatrix.observe import frames

if TYPE_CHECKING:
    from types import FrameType


class Built:
    """It looks where it is built."""

    def __init__(self) -> None:
        self.by: FrameType | None = frames.outside(inspect.currentframe(), self)


class Further(Built):
    """Its own constructor calls that of the class above it."""

    def __init__(self) -> None:
        super().__init__()


class Around(Built):
    """It builds another one in its constructor."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Further()


def test_the_line_outside_of_the_constructors_is_found() -> None:
    """The constructor of another object is outside."""
    built = Around()
    assert built.by is inspect.currentframe()
    assert built.inner.by is not None
    assert Around.__init__.__code__ is built.inner.by.f_code


def test_what_a_function_got_from_locals_stays_as_it_is() -> None:
    """Until Python 3.12 a look at the variables of its frame would add the later ones."""

    def script() -> dict[str, Any]:
        settings = locals()
        built = Further()
        assert built.by is inspect.currentframe()
        return settings

    assert {} == script()
