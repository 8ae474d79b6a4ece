"""Where parameters were made or copied after the first optimizer was built.

An optimizer cannot hold them unless it is told to. What a forward makes anew each time cannot be
held at all.
"""

from __future__ import annotations

import sys
import weakref
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Set, Tuple

from . import source
from .frames import Lines, here, line, mine
from .replaced import hook, replace

if TYPE_CHECKING:
    from types import CodeType, FrameType

KEPT = 20_000
Made = Tuple[Optional[Lines], Lines]


class Birth:
    """A parameter that was made or copied.

    Args:
        parameter: the parameter.
        how: "made" or "copied".
        made: the line, and the user's lines that led there, innermost first, outside of the
            constructors of modules.
        owner: the module that has it.
        within: the module whose forward was running.
    """

    def __init__(self, parameter: Any, how: str, made: Made, owner: Any, within: Any) -> None:
        self.reference = weakref.ref(parameter)
        self.how = how
        self.at, calls = made
        self.calls = calls if how == "made" else ()
        self.copying = calls[:1] if how == "copied" else ()
        """The innermost of these lines, if it makes a copy."""
        self.type = type(owner).__name__
        self.within = within

    def place(self) -> Optional[Lines]:
        """The line that assigns it to an attribute, else the one that led to it."""
        return placed(self.calls) or self.at

    def is_gone(self) -> bool:
        """Whether the module around it does not have it any more."""
        parameter = self.reference()
        return all(parameter is not each for each in self.within.parameters())


class BirthWatch:
    """Watches new parameters from the first optimizer to the end of the audit.

    Args:
        running: the innermost module that is running, or None.
    """

    def __init__(self, running: Callable[[], Any]) -> None:
        self.on = False
        self.running = running
        self._around: Set[CodeType] = set()
        """The user's functions that were running when the optimizer was built."""
        self._born: Dict[int, Birth] = {}
        self._inside: Dict[int, Birth] = {}
        """What a forward made and backward reached, by the parameter's id."""
        self._undo: List[Callable[[], None]] = []

    def install(self, built: FrameType) -> Callable[[], None]:
        """Start: an optimizer was ``built`` by this frame. The returned function ends it."""
        frame: Optional[FrameType] = built
        if self._undo:
            return self.remove
        while frame is not None:
            if mine(frame.f_code.co_filename):
                self._around.add(frame.f_code)
            frame = frame.f_back
        import torch
        from torch.nn.modules import module

        self.on = True
        original = torch.nn.Parameter.__deepcopy__

        @wraps(original)
        def copied(parameter: Any, memo: Any) -> Any:
            known = id(parameter) in memo
            result = original(parameter, memo)
            if not known:
                self._note(result, "copied")
            return result

        def registered(owner: Any, _name: str, parameter: Any) -> None:
            if parameter is not None:
                self._note(parameter, "made", owner, self.running())

        self._undo = [
            hook(module.register_module_parameter_registration_hook, registered),
            replace(torch.nn.Parameter, "__deepcopy__", copied),
        ]
        return self.remove

    def let_go(self) -> None:
        """Keep nothing of the script alive."""
        self._born = {i: birth for i, birth in self._born.items() if birth.within is None}
        self._inside.clear()

    def remove(self) -> None:
        """Stop."""
        while self._undo:
            self._undo.pop()()

    def _note(self, parameter: Any, how: str, owner: Any = None, within: Any = None) -> None:
        known = self._born.get(id(parameter))
        if len(self._born) < KEPT and (known is None or known.reference() is not parameter):
            at, calls = self._line() if within is None else (here(), ())
            self._born[id(parameter)] = Birth(parameter, how, (at, calls), owner, within)

    def reached(self, leaves: Dict[int, Any]) -> None:
        """A backward pass reaches ``leaves``, by id."""
        for identity, leaf in leaves.items():
            birth = self._born.get(identity)
            if birth is not None and birth.within is not None and birth.reference() is leaf:
                self._inside[identity] = birth

    def _line(self) -> Made:
        """The line of the function that built the optimizer, else the innermost one, and the calls.

        If a library called the user's code in between, as a callback, the line is there.
        """
        frame: Optional[FrameType] = sys._getframe(2)
        users: Optional[FrameType] = None
        calls: Lines = ()
        while frame is not None and frame.f_code not in self._around:
            if mine(frame.f_code.co_filename):
                users = frame
                calls = () if constructs(frame) else (*calls, (frame.f_code, frame.f_lineno))
            elif users is not None:
                return ((users.f_code, users.f_lineno),), calls
            frame = frame.f_back
        return here() if frame is None else ((frame.f_code, frame.f_lineno),), calls

    def with_gradient(self) -> List[Dict[str, Any]]:
        """Where the last parameter was made that has a gradient now."""
        living = [(birth, birth.reference()) for birth in self._born.values()]
        with_one = [birth for birth, each in living if each is not None and each.grad is not None]
        return line(with_one[-1].place()) if with_one else []

    def inside(
        self, held: Set[int], named: Callable[[List[Any]], List[str]]
    ) -> List[Dict[str, Any]]:
        """A layer that a forward made and backward reached, if no optimizer holds it.

        ``held`` are the ids of what optimizers hold; ``named`` gives the names of modules.
        """
        born = [birth for birth in self._born.values() if birth.within is not None]
        loose = [
            birth
            for identity, birth in self._inside.items()
            if identity not in held or birth.reference() is None
        ]
        return [
            {
                "how": birth.how,
                "parameters": sum(each.at == birth.at for each in loose),
                "frames": line(birth.at),
                "within": named([birth.within])[0],
                "type": birth.type,
                "again": any(each.at == birth.at and each.is_gone() for each in born),
            }
            for birth in loose[:1]
        ]

    def facts(self, loose: Set[int]) -> List[Dict[str, Any]]:
        """Where the parameters in no optimizer, ``loose`` (ids), were made, by line."""
        lines: Dict[Any, int] = {}
        for identity, birth in self._born.items():
            if birth.reference() is not None and identity in loose:
                known = birth.how, birth.place(), birth.copying
                lines[known] = lines.get(known, 0) + 1
        ordered = sorted(lines.items(), key=lambda item: -item[1])
        return [
            {
                "how": how,
                "parameters": count,
                "frames": [*line(at), *line(copying)],
            }
            for (how, at, copying), count in ordered[:4]
        ]


def constructs(frame: FrameType) -> bool:
    """Whether ``frame`` is the constructor of a module."""
    import torch

    code = frame.f_code
    return code.co_name == "__init__" and isinstance(frame.f_locals.get("self"), torch.nn.Module)


@cache
def placed(calls: Lines) -> Lines:
    """The first of ``calls`` that assigns to an attribute, as in ``self.head = …``; else none."""
    own = (each for each in calls if any(map(source.sets_attribute, line((each,)))))
    return tuple(own)[:1]
