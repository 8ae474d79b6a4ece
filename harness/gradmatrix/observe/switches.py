"""What switched gradients off: a ``with`` line, a call or a decorator that a module runs under."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from functools import wraps
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional

from .frames import frames, plumbing, written
from .replaced import replace

if TYPE_CHECKING:
    from types import FrameType

    from .torches import Trouble

KEPT = 256
"""At most this many open entries of a thread. Calls of ``set_grad_enabled`` that are never
undone would otherwise pile up."""
DECORATING = os.path.join("torch", "utils", "_contextlib.py")
"""The file with torch's decorators. Newer releases name their frames after the decorated function.
"""


class Switch:
    """One entry: from here on gradients are on or off.

    It keeps neither its context nor a module alive: inference mode ends when its context is
    dropped.
    """

    def __init__(
        self, owner: Any, how: str, *, on: bool, depth: int, module: Any, stamp: int
    ) -> None:
        self.owner = weakref.ref(owner)
        self.how = how
        self.on = on
        self.depth = depth
        """How many modules were running."""
        self._module = None if module is None else weakref.ref(module)
        self.stamp = stamp
        """How many module outputs had been seen."""
        self.frames: List[Dict[str, Any]] = []
        self.decorated: Optional[Dict[str, Any]] = None
        self.of_step = False
        """An optimizer switched them off for its step."""
        self.checkpoint = False
        """It is the first pass of reentrant checkpointing, or of a function written in the same
        way."""
        self.fed = False
        """An input of the checkpoint requires a gradient."""
        self._source: Any = None

    @property
    def module(self) -> Any:
        """The innermost module that was running, or None."""
        return None if self._module is None else self._module()

    @property
    def source(self) -> Any:
        """The frozen module whose output is the checkpoint's input, or None."""
        return None if self._source is None else self._source()

    @source.setter
    def source(self, module: Any) -> None:
        self._source = None if module is None else weakref.ref(module)

    @property
    def dropped(self) -> bool:
        """It is inference mode, and its context was dropped, which ends it."""
        return self.how == "inference_mode" and self.owner() is None

    def facts(self) -> Dict[str, Any]:
        """The entry as it stands in the observation."""
        return {"how": self.how, "decorated": self.decorated, "frames": self.frames}


class _Stack(threading.local):
    def __init__(self) -> None:
        self.entries: List[Switch] = []
        self.busy = False


class SwitchWatch:
    """Wraps the context managers of torch's grad mode.

    Grad mode belongs to a thread, and so do the entries.
    """

    def __init__(
        self,
        running: Callable[[], List[Any]],
        stamp: Callable[[], int],
        source_of: Callable[[Iterable[Any]], Any],
        trouble: Trouble,
    ) -> None:
        self.running = running
        self.stamp = stamp
        self.source_of = source_of
        self.trouble = trouble
        self.log: List[Switch] = []
        """The entries of this step that switched gradients off."""
        self.stepping: Callable[[], bool] = bool
        """Whether an optimizer steps at this moment."""
        self._only_calls = False
        self._stack = _Stack()
        self._undo: List[Callable[[], None]] = []

    def install(self) -> Callable[[], None]:
        """Wrap them. The returned function unwraps them."""
        import torch

        self._torch, self._only_calls = torch, False
        for name in ("no_grad", "inference_mode", "enable_grad"):
            self._replace(getattr(torch, name), "__enter__", name)
            self._replace(getattr(torch, name), "__exit__", None)
        self._replace(torch.set_grad_enabled, "__init__", "set_grad_enabled")
        self._replace(torch.set_grad_enabled, "__exit__", None)
        # As a decorator it undoes the switch.
        if "__call__" in torch.set_grad_enabled.__dict__:
            self._replace(torch.set_grad_enabled, "__call__", None)
        return self.remove

    def install_calls(self) -> Callable[[], None]:
        """Wrap only ``set_grad_enabled``, which a script may forget to undo.

        Calls by torch pass.
        """
        self._only_calls = True
        self._replace(self._torch.set_grad_enabled, "__init__", "set_grad_enabled")
        self._replace(self._torch.set_grad_enabled, "__exit__", None)
        return self.remove

    def remove(self) -> None:
        """Unwrap them."""
        while self._undo:
            self._undo.pop()()

    def _replace(self, owner: Any, name: str, how: Optional[str]) -> None:
        """Wrap one method: ``how`` names the switch that it enters.

        None means that it leaves one.
        """
        original = owner.__dict__.get(name) or getattr(owner, name)

        @wraps(original)  # torch.jit reads the source of these methods
        def watched(context: Any, *args: Any, **kwargs: Any) -> Any:
            if self._stack.busy or (self._only_calls and plumbing(sys._getframe(1))):
                return original(context, *args, **kwargs)
            self._stack.busy = True
            try:
                before = self._torch.is_grad_enabled()
                result = original(context, *args, **kwargs)
                self._note(context, how, sys._getframe(1), before=before)
            finally:
                self._stack.busy = False
            return result

        self._undo.append(replace(owner, name, watched))

    def _note(self, context: Any, how: Optional[str], caller: FrameType, *, before: bool) -> None:
        try:
            if how is None:
                self._left(context)
            else:
                self._entered(context, how, caller, before=before)
        except Exception as error:
            self.trouble.add("grad mode", error)

    def _entered(self, context: Any, how: str, caller: FrameType, *, before: bool) -> None:
        entries = self._stack.entries
        running = self.running()
        entry = Switch(
            context,
            how,
            on=self._torch.is_grad_enabled(),
            depth=len(running),
            module=running[-1] if running else None,
            stamp=self.stamp(),
        )
        entry.of_step = self.stepping()
        entry.checkpoint = caller.f_code.co_name == "forward" and "ctx" in caller.f_code.co_varnames
        # The first pass of such a checkpoint has gradients off in any case.
        if not entry.on and (
            before or entry.checkpoint or any(each.checkpoint and each.fed for each in entries)
        ):
            self._describe(entry, caller)
            if len(self.log) < KEPT:
                self.log.append(entry)
        entries.append(entry)
        del entries[:-KEPT]

    def _describe(self, entry: Switch, caller: FrameType) -> None:
        entry.frames = frames(caller)
        if caller.f_code.co_filename.endswith(DECORATING):
            function = caller.f_locals.get("func")
            entry.decorated = None if function is None else written(function)
        if entry.checkpoint:
            tensors = list(self._tensors(caller.f_locals))
            entry.fed = any(tensor.requires_grad for tensor in tensors)
            entry.source = None if entry.fed else self.source_of(tensors)

    def _tensors(self, variables: Dict[str, Any]) -> Iterable[Any]:
        """The floating-point tensors that a function's ``forward`` was given."""
        for name, value in variables.items():
            for item in value if isinstance(value, (tuple, list)) else (value,):
                if (
                    name != "ctx"
                    and isinstance(item, self._torch.Tensor)
                    and item.is_floating_point()
                ):
                    yield item

    def _left(self, context: Any) -> None:
        entries = self._stack.entries
        for position in range(len(entries) - 1, -1, -1):
            if entries[position].owner() is context:
                del entries[position:]
                return

    def within(self, module: Any) -> Optional[Switch]:
        """The last entry that switched gradients off in the forward of ``module`` itself, or None.

        The entry was left again.
        """
        return next(
            (e for e in reversed(self.log) if e.module is module and not (e.checkpoint and e.fed)),
            None,
        )

    def off(self) -> Optional[Switch]:
        """The entry that switched this thread's gradients off; None if it is unknown.

        It is the outermost one since gradients were last on. A checkpoint whose input requires a
        gradient has them off in its first pass only; an entry inside it counts instead.
        """
        found: List[Switch] = []
        for entry in reversed(self._stack.entries):
            if entry.dropped:
                continue
            if entry.on:
                break
            if entry.frames or entry.checkpoint:
                found.append(entry)
        while len(found) > 1 and found[-1].checkpoint and found[-1].fed:
            found.pop()
        return found[-1] if found else None


def line_of(switch: Optional[Switch]) -> Any:
    """The line of a switch, as a part of a key."""
    if switch is None:
        return None
    first = switch.frames[0]
    return first["file"], first["line"], switch.checkpoint
