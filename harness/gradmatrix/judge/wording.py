"""A diagnosis, and the wording that all signs share: lines of code, modules, parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradmatrix.core.observation import Frame, Frozen
from gradmatrix.core.text import few
from gradmatrix.judge.causes import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gradmatrix.core.observation import Observation, Parameter

    Sign = Callable[[Observation], "Diagnosis | None"]


MOST_NAMES = 3


class Diagnosis(Frozen, frozen=True):
    """Why the gradient does not flow: one cause, one place, and sentences for people."""

    cause: Cause
    module: str | None
    """Dotted name of the first module that it is about."""
    place: Frame | None
    """The line of the user's or a library's code that is responsible."""
    text: tuple[str, ...]
    """One to five lines, without a remedy."""
    user: Frame | None = None
    """The line of the user's own file that led there; None if it is ``place``, or was not seen."""
    advice: str = ""
    """What to do about it, if that is more exact than the advice of the cause."""

    def route(self, whose: str) -> tuple[str, ...]:
        """A sentence about the user's line, if it is not the place itself: ``whose`` code it is."""
        if self.user is None or any(format_frame(self.user) in line for line in self.text):
            return ()
        return (f"The line of {whose} that led there: {format_frame(self.user)}.",)


def first_sign(signs: Iterable[Sign], seen: Observation) -> Diagnosis | None:
    """The diagnosis of the first sign that is found."""
    return next((found for sign in signs if (found := sign(seen)) is not None), None)


def make_diagnosis(
    cause: Cause,
    module: str | None,
    at: Frame | None,
    *lines: str,
    led: Sequence[Frame] = (),
    user: Frame | None = None,
    advice: str = "",
) -> Diagnosis:
    """A diagnosis with these lines of text.

    Args:
        cause: why.
        module: what it is about.
        at: the line that is responsible.
        lines: the text.
        led: the frames that led there; the innermost one of the user is named beside ``at``.
        user: the user's line, if it is not one of these.
        advice: what to do, if that is more exact than the advice of the cause.
    """
    if user is None and (at is None or not at.user):
        user = users_frame(led)
    return Diagnosis(
        cause=cause,
        module=module,
        place=at,
        text=lines,
        user=None if user == at else user,
        advice=advice,
    )


def innermost_frame(frames: Sequence[Frame]) -> Frame | None:
    """The innermost of some frames, or None."""
    return frames[0] if frames else None


def users_frame(frames: Iterable[Frame]) -> Frame | None:
    """The innermost of some frames that is in a file of the user, or None."""
    return next((frame for frame in frames if frame.user), None)


def format_frame(at: Frame | None) -> str:
    """A line of code as a person looks it up."""
    if at is None:
        return "at a line that was not seen"
    return f"{at.file}:{at.line}, {at.function}"


def begin(text: str) -> str:
    """``text`` as the beginning of a sentence."""
    return f"{text[:1].upper()}{text[1:]}"


def say_where(at: Frame | None, how: str) -> str:
    """The end of a sentence: ``, at FILE:LINE, FUNCTION``, ``; it is built at …``, or nothing."""
    mark = "," if how in {"at", "at or before", "called at", "built at"} else ";"
    return "" if at is None else f"{mark} {how} {format_frame(at)}"


def quote_few(names: Iterable[str]) -> str:
    """The first few names, each in quotes, and how many more there are."""
    return few([f"`{name}`" for name in names], MOST_NAMES)


def name_module(module: str | None, kind: str | None) -> str:
    """A module with its type."""
    return f"`{module}`" if not kind or kind == module else f"`{module}` ({kind})"


def module_of(parameter: Parameter) -> str:
    """The module that owns a parameter."""
    return parameter.module or parameter.name
