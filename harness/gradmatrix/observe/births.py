"""Where parameters were made or copied after the first optimizer was built.

An optimizer cannot hold them unless it is told to.
"""

from __future__ import annotations

import sys
import weakref
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Set, Tuple

from .frames import Lines, here, line, mine

if TYPE_CHECKING:
    from types import CodeType, FrameType

KEPT = 20_000


class BirthWatch:
    """Watches new parameters from the first optimizer to the end of the audit."""

    def __init__(self) -> None:
        self.on = False
        self._around: Set[CodeType] = set()
        """The user's functions that were running when the optimizer was built."""
        self._born: Dict[int, Tuple[Any, str, Optional[Lines]]] = {}
        self._undo: List[Callable[[], None]] = []

    def install(self, built: FrameType) -> Callable[[], None]:
        """Start: an optimizer was ``built`` by this frame. The returned function ends it."""
        frame: Optional[FrameType] = built
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

        def registered(_parent: Any, _name: str, parameter: Any) -> None:
            if parameter is not None:
                self._note(parameter, "made")

        torch.nn.Parameter.__deepcopy__ = copied
        self._undo = [
            module.register_module_parameter_registration_hook(registered).remove,
            partial(setattr, torch.nn.Parameter, "__deepcopy__", original),
        ]
        return self.remove

    def let_go(self) -> None:
        """Keep nothing of the script alive."""
        self._born.clear()

    def remove(self) -> None:
        """Stop."""
        while self._undo:
            self._undo.pop()()

    def _note(self, parameter: Any, how: str) -> None:
        known = self._born.get(id(parameter))
        if len(self._born) < KEPT and (known is None or known[0]() is not parameter):
            self._born[id(parameter)] = (weakref.ref(parameter), how, self._line())

    def _line(self) -> Optional[Lines]:
        """The line of the function that built the optimizer; else the innermost one."""
        frame: Optional[FrameType] = sys._getframe(2)
        while frame is not None and frame.f_code not in self._around:
            frame = frame.f_back
        return here() if frame is None else ((frame.f_code, frame.f_lineno),)

    def facts(self, loose: Set[int]) -> List[Dict[str, Any]]:
        """Where the parameters in no optimizer, ``loose`` (ids), were made, by line."""
        lines: Dict[Any, int] = {}
        for identity, (reference, how, at) in self._born.items():
            parameter = reference()
            if parameter is not None and identity in loose:
                lines[how, at] = lines.get((how, at), 0) + 1
        ordered = sorted(lines.items(), key=lambda item: -item[1])
        return [
            {"how": how, "parameters": count, "frames": line(at)}
            for (how, at), count in ordered[:4]
        ]
