"""Module forward hooks: which modules take part in training, and where an output loses its gradient."""

from __future__ import annotations

import os
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Iterator, List, Optional, Set

from . import machine
from .backward import modes
from .modules import ModuleTree, named

if TYPE_CHECKING:
    from types import FrameType

    from .trouble import Trouble

LOST_KEPT = 8
FRAMES_KEPT = 12
HERE = os.path.dirname(os.path.abspath(__file__))


class ForwardWatch:
    """Two global hooks, on during the audited steps."""

    def __init__(self, clock: Callable[[], int], tree: ModuleTree, trouble: Trouble) -> None:
        self.clock = clock
        self.tree = tree
        self.trouble = trouble
        self.seen: Dict[int, Any] = {}
        """Modules whose forward ran, by id."""
        self.trained: Set[int] = set()
        """Ids of those that ran in training mode with gradients on."""
        self._tops: List[Any] = []
        """What contains them: kept alive, or what belongs together would be forgotten when the script returns."""
        self._first: List[Dict[str, Any]] = []
        self._recent: Deque[Dict[str, Any]] = deque(maxlen=LOST_KEPT)
        """What lost its gradient since the last backward pass that found a graph: culprits of one that finds none."""
        self._undo: List[Callable[[], None]] = []

    def install(self) -> Callable[[], None]:
        """Hook every module's forward; the returned function unhooks it."""
        import torch
        from torch.nn.modules import module

        self._torch = torch
        self._compiling = getattr(getattr(torch, "compiler", None), "is_compiling", bool)
        self._undo = [
            module.register_module_forward_pre_hook(self._before).remove,
            module.register_module_forward_hook(self._after).remove,
        ]
        return self.remove

    def remove(self) -> None:
        """Unhook."""
        while self._undo:
            self._undo.pop()()

    def _before(self, module: Any, _inputs: Any) -> None:
        if self._compiling():
            return  # the compiler is reading this, too
        if id(module) not in self.seen:
            self.seen[id(module)] = module
            try:
                self._tops.append(self.tree.top(module))
            except Exception as error:
                self.trouble.add("forward", error)
        if module.training and self._torch.is_grad_enabled():
            self.trained.add(id(module))

    def _after(self, module: Any, inputs: Any, output: Any) -> None:
        if self._compiling():
            return
        try:
            tensors = list(self._floating(output))
            if not tensors or any(tensor.requires_grad for tensor in tensors):
                return
            fed = any(tensor.requires_grad for tensor in self._floating(inputs))
            if fed or any(parameter.requires_grad for parameter in module.parameters()):
                event = {"step": self.clock(), "module": module, "frames": frames(), **modes(self._torch)}
                if len(self._first) < LOST_KEPT:
                    self._first.append(event)
                else:
                    self._recent.append(event)
        except Exception as error:
            self.trouble.add("forward", error)

    def found_graph(self) -> None:
        """A backward pass found a graph: what ran without gradients before it may be generation, a reference model."""
        self._recent.clear()

    def _floating(self, value: Any, depth: int = 3) -> Iterator[Any]:
        """The floating-point tensors in nested tuples, lists and mappings."""
        if isinstance(value, self._torch.Tensor):
            if value.is_floating_point():
                yield value
        elif depth:
            items = value.values() if hasattr(value, "values") else value if isinstance(value, (tuple, list)) else ()
            for item in items() if callable(items) else items:
                yield from self._floating(item, depth - 1)

    def roots(self) -> List[Any]:
        """The outermost modules whose forward ran."""
        inner = {id(child) for module in self.seen.values() for child in module.modules() if child is not module}
        return [module for identity, module in self.seen.items() if identity not in inner]

    def lost_facts(self) -> List[Dict[str, Any]]:
        """The modules that lost their gradient, by name, in the order in which it happened."""
        tops: Dict[int, Any] = {}
        events = [*self._first, *self._recent]
        for event in events:
            top = self.tree.top(event["module"])
            tops[id(top)] = top
        names, _ = named(list(tops.values()))
        return [
            {
                **event,
                "module": names.get(id(event["module"]), type(event["module"]).__name__),
                "type": type(event["module"]).__name__,
            }
            for event in events
        ]


def frames() -> List[Dict[str, Any]]:
    """The Python frames of this moment, innermost first, without torch's own plumbing and this package."""
    found: List[Dict[str, Any]] = []
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None and len(found) < FRAMES_KEPT:
        path = frame.f_code.co_filename
        short = machine.short_path(path)
        if not path.startswith(HERE) and not short.startswith("torch" + os.sep + "nn" + os.sep):
            found.append({"file": short, "line": frame.f_lineno, "function": frame.f_code.co_name})
        frame = frame.f_back
    return found
