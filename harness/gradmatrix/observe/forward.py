"""Forward hooks on modules: which take part in training, and where an output loses its gradient."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    Set,
    Tuple,
)

from .backward import modes
from .finite import FiniteWatch
from .frames import calls, frames, here, named_arguments, written
from .replaced import hook
from .severing import SeveringWatch
from .spoiled import SpoiledWatch
from .switches import Switch, SwitchWatch, line_of
from .torches import identity, is_compiling, unseen

if TYPE_CHECKING:
    from .torches import ModuleTree, Trouble

GROUPS_KEPT = 24
"""At most this many ways of losing a gradient are distinguished in one step."""
OUTPUTS_KEPT = 50_000
WAYS = ("empty", "without-grad", "with-grad")
"""How a module ran: on an input without elements, with gradients off, or with gradients on."""


class _Thread(threading.local):
    def __init__(self) -> None:
        self.running: List[Any] = []
        self.entered = True
        """Gradients were on when the outermost running module was entered."""


class ForwardWatch:
    """Two global hooks that are on during the audited steps."""

    def __init__(self, clock: Callable[[], int], tree: ModuleTree, trouble: Trouble) -> None:
        self.clock = clock
        self.tree = tree
        self.trouble = trouble
        self.seen: Dict[int, Any] = {}
        """Modules whose forward ran, by id, in the order of their first run."""
        self.trained: Set[int] = set()
        """Ids of those that ran in training mode with gradients on."""
        self.ways: Dict[int, int] = {}
        """The best way in which each module ran: an index of WAYS, by the module's id."""
        self.passing: Dict[int, Tuple[Any, Any]] = {}
        """The modules that gave an output of their input's shape, by id: the identities of the
        nodes of input and output."""
        self.outputs: List[Tuple[Any, Any, Any]] = []
        """In this step, for every output that requires a gradient: identity of its node, its
        module, and the line of the call."""
        self.recomputed: List[Tuple[Any, Any]] = []
        """The same in the second passes of checkpoints: identity of the node, and module."""
        self.groups: Dict[Any, Dict[str, Any]] = {}
        """In this step: the modules that lost their gradient, grouped by how they lost it."""
        self.called: Dict[int, Any] = {}
        """The line that first called each module with a gradient, by the module's id."""
        self.scalars: Set[int] = set()
        """Ids of the modules that gave a single number, such as a loss."""
        self.ran_on: Set[int] = set()
        """In this step: ids of the modules that ended with gradients on."""
        self.outermost: Callable[[Any], None] = lambda _module: None
        """Called with each module that is about to run inside no other."""
        self.in_backward: Callable[[], bool] = bool
        self._tops: List[Any] = []
        """The modules that contain them. They are kept alive, or it would be forgotten when the
        script returns what belongs together."""
        self._off_in_autocast: Dict[int, Optional[Switch]] = {}
        """Modules that ran without gradients while autocast cached copies of weights, by id."""
        self._learning: Dict[int, bool] = {}
        self._frozen_outputs: Dict[int, Tuple[Any, Any]] = {}
        """Outputs of frozen modules, by the tensor's id: a weak reference to the tensor, and the
        module."""
        self._last_frozen: Any = None
        self._thread = _Thread()
        self._undo: List[Callable[[], None]] = []
        self.switches = SwitchWatch(self.running, self.stamp, self._source_of, trouble)
        self.spoiled = SpoiledWatch(self)
        self.severing = SeveringWatch(self.innermost, self.stamp, trouble, self.spoiled)
        self.switches.stepping = lambda: self.severing.stepping
        self.finite = FiniteWatch(clock, self.innermost)
        self.severing.operation = self.finite.operation
        self.severing.stops = self.finite.stops
        self.severing.masked = self.finite.masked

    def install(self) -> Callable[[], None]:
        """Hook every module's forward. The returned function removes the hooks."""
        import torch
        from torch.nn.modules import module

        self._torch = torch
        compiling, tracing = is_compiling(torch), torch.jit.is_tracing
        self._compiling: Callable[[], bool] = lambda: compiling() or bool(tracing())
        self._undo = [
            hook(module.register_module_forward_pre_hook, self._before),
            hook(module.register_module_forward_hook, self._after),
            self.switches.install(),
        ]
        return self.remove

    def remove(self) -> None:
        """Remove the hooks."""
        while self._undo:
            self._undo.pop()()

    def new_step(self) -> None:
        """Forget what led to the optimizer step that is over."""
        self.outputs, self.recomputed, self.groups, self._learning, self.ran_on = (
            [],
            [],
            {},
            {},
            set(),
        )
        self._frozen_outputs, self._last_frozen = {}, None
        self._thread.running.clear()
        self.switches.log = []
        self.severing.new_step()

    def forget(self, before: Set[int]) -> None:
        """Forget the modules that ran, but those ``before`` (ids)."""
        self.seen = {i: module for i, module in self.seen.items() if i in before}
        self.trained &= before
        self._tops = self.tree.tops(self.seen.values())

    def let_go(self) -> None:
        """Keep nothing of the script alive."""
        self.new_step()
        for kept in (self.seen, self._tops, self._off_in_autocast):
            kept.clear()
        self.finite.let_go()

    def stamp(self) -> int:
        """A clock within this step: how many outputs have been seen."""
        return len(self.outputs)

    def innermost(self) -> Any:
        """The innermost module that is running in this thread, or None."""
        return next(reversed(self.running()), None)

    def grad_enabled(self) -> bool:
        """Whether gradients are on in this thread."""
        return bool(self._torch.is_grad_enabled())

    def running(self) -> List[Any]:
        """The modules that are running in this thread, the outermost first."""
        return self._without_ended(calls(sys._getframe(1)))

    def _without_ended(self, calling: Iterator[Any]) -> List[Any]:
        """Drop modules that ended with an exception that the script caught.

        Those that still run are on the stack (``calling``, the innermost first). A module whose own
        hooks compute after its forward is there too, although it does not run any more.
        """
        running = self._thread.running
        innermost = next((m for m in calling if any(m is each for each in running)), None)
        while running and running[-1] is not innermost:
            running.pop()
        return running

    def _before(self, module: Any, _inputs: Any) -> None:
        if self._compiling():
            return  # the compiler reads this, too
        if self.in_backward():  # checkpointing runs a module again
            self._thread.running.append(module)
            return
        on = self._torch.is_grad_enabled()
        if id(module) not in self.seen:
            first = on and not self.seen
            self.seen[id(module)] = module
            try:
                if first:  # a script without an optimizer may never say that it trains
                    self.severing.install()
                self._tops.append(self.tree.top(module))
            except Exception as error:
                self.trouble.add("forward", error)
        calling = calls(sys._getframe(1))
        next((each for each in calling if each is module), None)  # go past its own call
        if not self._without_ended(calling):
            self._thread.entered = on
            self.outermost(module)
            if on and module.training:
                self.severing.given(module, named_arguments(sys._getframe(1)))
        self._thread.running.append(module)
        if module.training and on:
            self.trained.add(id(module))

    def _after(self, module: Any, inputs: Any, output: Any) -> None:
        if self._compiling():
            return
        running = self._thread.running
        try:
            with unseen(self._torch):
                tensors = list(self._floating(output))
                if tensors and self.in_backward():
                    self._look_again(module, list(self._floating(inputs)), tensors)
                elif tensors:
                    self._look_at(module, list(self._floating(inputs)), tensors)
        except Exception as error:
            self.trouble.add("forward", error)
        for position in range(len(running) - 1, -1, -1):  # the ones above ended with an exception
            if running[position] is module:
                del running[position:]
                break

    def _look_at(self, module: Any, inputs: List[Any], outputs: List[Any]) -> None:
        on = self._torch.is_grad_enabled()
        self._keep_way(module, inputs, outputs, on=on)
        self.finite.output(module, inputs, outputs)
        if on:
            self.ran_on.add(id(module))
        root = next((tensor for tensor in outputs if tensor.requires_grad), None)
        if root is not None:
            if root.grad_fn is not None and len(self.outputs) < OUTPUTS_KEPT:
                self.outputs.append((identity(root.grad_fn), module, here()))
                self.called.setdefault(id(module), self.outputs[-1][2])
                self.severing.links.ran(module, inputs, root)
                self.severing.noticed.ran(module, inputs)
                if len(outputs) > 1:
                    self.spoiled.gave(module, outputs)
                if not root.dim():
                    self.scalars.add(id(module))
            return
        learns = self._learns(module)
        fed = [tensor for tensor in inputs if tensor.requires_grad and tensor.grad_fn is not None]
        if on and not learns:
            self._keep_frozen(module, outputs)
        if learns or fed:
            self._lost(module, fed, on=on)

    def _keep_way(self, module: Any, inputs: List[Any], outputs: List[Any], *, on: bool) -> None:
        empty = bool(inputs) and not any(tensor.numel() for tensor in inputs)
        way = 0 if empty else 1 + on
        self.ways[id(module)] = max(way, self.ways.get(id(module), 0))
        if inputs and inputs[0].shape == outputs[0].shape:
            nodes = [
                None if t.grad_fn is None else identity(t.grad_fn) for t in (inputs[0], outputs[0])
            ]
            self.passing[id(module)] = nodes[0], nodes[1]

    def _look_again(self, module: Any, inputs: List[Any], outputs: List[Any]) -> None:
        """Look at a checkpoint's second pass: a gradient that is lost is lost here too."""
        root = next((tensor for tensor in outputs if tensor.grad_fn is not None), None)
        if root is not None and len(self.recomputed) < OUTPUTS_KEPT:
            self.recomputed.append((identity(root.grad_fn), module))
        fed = next((tensor for tensor in inputs if tensor.requires_grad), None)
        if fed is None or any(tensor.requires_grad for tensor in outputs):
            return
        switch = (
            self.switches.within(module) if self._torch.is_grad_enabled() else self.switches.off()
        )
        if switch is not None and not switch.checkpoint:
            self._severed_by(switch, fed)

    def _severed_by(self, switch: Switch, source: Any) -> None:
        found = switch.frames if switch.decorated is None else [switch.decorated, *switch.frames]
        self.severing.sever(source, switch.how, found)

    def _keep_frozen(self, module: Any, outputs: List[Any]) -> None:
        if any(True for _ in module.parameters(recurse=False)):
            self._last_frozen = module
        elif not any(True for _ in module.parameters()):
            return
        for tensor in outputs:
            self._frozen_outputs[id(tensor)] = (weakref.ref(tensor), module)

    def _source_of(self, tensors: Iterable[Any]) -> Any:
        """The module whose output is one of ``tensors``.

        Else the last one that is frozen itself.
        """
        for tensor in tensors:
            known = self._frozen_outputs.get(id(tensor))
            if known is not None and known[0]() is tensor:
                return known[1]
        return self._last_frozen

    def _lost(self, module: Any, fed: List[Any], *, on: bool) -> None:
        """Note a module that may explain a missing gradient, grouped by cause."""
        switch = None if on else self.switches.off()
        if switch is not None and switch.checkpoint and switch.fed:
            return  # this is as it should be: the second pass has the gradients
        cached = False
        if not on:
            if self._autocast_cache():
                self._off_in_autocast[id(module)] = switch
        elif id(module) in self._off_in_autocast and self._autocast_cache():
            cached, switch = True, self._off_in_autocast[id(module)]
        inside = self.switches.within(module) if on and not cached else None
        switch = switch or inside
        entered = self._thread.entered
        line = id(switch) if switch and not switch.frames else line_of(switch)
        key = (line, cached, entered, on)
        group = self.groups.get(key) or (
            self.groups.get((line, False, entered, False)) if inside else None
        )
        if group is not None:
            group["modules"] += 1
            group["outermost"].add(id(self._within(module, switch, on=on)))
            if inside and not inside.checkpoint and len(group["outermost"]) > 2:  # noqa: PLR2004
                # Gradients were off in several parts of its own forward, and its output has none.
                group["within"] = module
        elif len(self.groups) < GROUPS_KEPT:
            group = self.groups[key] = self._group(module, switch, cached=cached, on=on)
        if fed and switch is not None and not cached and not switch.checkpoint:
            self._severed_by(switch, fed[0])

    def _group(
        self, module: Any, switch: Optional[Switch], *, cached: bool, on: bool
    ) -> Dict[str, Any]:
        within = self._within(module, switch, on=on)
        return {
            "step": self.clock(),
            "module": module,
            "within": within,
            "outermost": {id(within)},
            "modules": 1,
            "entered": self._thread.entered,
            "only": False,
            "cached": cached,
            "switch": switch,
            "forward": written(type(module).forward),
            "frames": frames(),
            **modes(self._torch),
        }

    def _within(self, module: Any, switch: Optional[Switch], *, on: bool) -> Any:
        """The outermost module that was entered after gradients were switched off."""
        running = self._thread.running
        inside = switch is not None and not on and switch.depth < len(running)
        return running[switch.depth] if switch is not None and inside else module

    def poisoned(self, module: Any) -> Optional[Dict[str, Any]]:
        """A group for a module that got weights without gradients from autocast's cache.

        None if autocast did not do that.
        """
        if id(module) not in self._off_in_autocast:
            return None
        switch = self._off_in_autocast[id(module)]
        group = self._group(module, switch, cached=True, on=True)
        return {**group, "entered": True, "grad_enabled": True, "frames": []}

    def _autocast_cache(self) -> bool:
        """Whether autocast is on and caches its copies of weights."""
        return modes(self._torch)["autocast"] is not None and bool(
            self._torch.is_autocast_cache_enabled()
        )

    def _learns(self, module: Any) -> bool:
        """Whether a parameter of ``module`` requires a gradient; looked up once in a step."""
        known = self._learning.get(id(module))
        if known is None:
            known = self._learning[id(module)] = any(p.requires_grad for p in module.parameters())
        return known

    def _floating(self, value: Any, depth: int = 3) -> Iterator[Any]:
        """The floating-point tensors in nested tuples, lists and mappings."""
        if isinstance(value, self._torch.Tensor):
            if value.is_floating_point():
                yield value
        elif depth:
            items = value.values() if isinstance(value, Mapping) else value
            for item in items if isinstance(value, (Mapping, tuple, list)) else ():
                yield from self._floating(item, depth - 1)

    def training(self, parameters: Set[int]) -> Set[int]:
        """Those of ``parameters`` (ids) that are in a model that ran to learn; all if no model did.

        A reference model does not run to learn.
        """
        roots, top = self.roots(), self.tree.top
        tops = {
            id(top(root))
            for root in roots
            if any(id(module) in self.trained for module in root.modules())
        }
        found = {id(p) for root in roots if id(top(root)) in tops for p in root.parameters()}
        return parameters & found or parameters

    def owners(self) -> Dict[int, Any]:
        """By id of a parameter: the module that ran and has it itself."""
        return {
            id(p): module for module in self.seen.values() for p in module.parameters(recurse=False)
        }

    def roots(self) -> List[Any]:
        """The outermost modules whose forward ran."""
        inner: Set[int] = set()
        for module in self.seen.values():
            if id(module) not in inner:  # else what it contains is inner, too
                inner.update(id(child) for child in module.modules() if child is not module)
        return [module for module in self.seen.values() if id(module) not in inner]
