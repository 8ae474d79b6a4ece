"""What takes a tensor or a gradient out of the graph: ``detach``, ``item``, ``p.grad = None``.

It also sees tensors that become new leaves, parameters that are frozen, and hooks on tensors.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import weakref
from functools import partial, update_wrapper, wraps
from pkgutil import resolve_name
from types import FunctionType, MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Optional,
    Pattern,
    Set,
    Tuple,
)

from . import source
from .finite import FLATTENING, MASKING, MASKING_IN_PLACE, OPERATIONS
from .frames import Lines, frames, here, line, mine, plumbing, visible
from .links import LinkWatch
from .noticed import DIVERGENCE, LOGITS, Labels, NoticeWatch
from .replaced import aside, replace, replace_all, step_aside
from .spoiled import FUNCTIONS, IN_PLACE, NATIVE
from .torches import Reach, behind, children, follow, identity, near, transformed, unseen

if TYPE_CHECKING:
    from types import FrameType

    from .spoiled import SpoiledWatch
    from .torches import Trouble

KEPT = 256
"""At most this many severed tensors of a step."""
ALIKE_KEPT = 32
"""At most this many of them by the same line, half of them the first: one for each expert of a
loop, or for each tensor of the first step of an inner loop."""
LEAVING = ("detach", "detach_", "item", "tolist", "numpy", "__float__")
OF_NUMBERS = ("item", "tolist", "__float__")
READING = ("detach", "data")
LIKE = ("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like")
"""They take a tensor's shape and none of its values, so the graph begins again there."""
COMPARING = ("__gt__", "__lt__", "__ge__", "__le__")
NO_DERIVATIVE = (
    *COMPARING,
    "argmax",
    "argsort",
    "bool",
    "int",
    "long",
    "byte",
    "char",
    "short",
)
"""They return truth values or whole numbers, which have no gradient."""
CHOOSING = "argmin"
"""So does this; what it returns may choose vectors of a code book."""
INDEXING = ("max", "min", "sort", "topk")
"""They return values, which have a gradient, and indices, which have none."""
INDICES = {name: f"{name}().indices" for name in INDEXING}
CASTING = ("to", "type")
"""They do so if they are given such a type."""
CASTS = ("int", "long", "byte", "char", "short", *CASTING)
WEAK = (*LIKE, *NO_DERIVATIVE, CHOOSING, *CASTING, *INDICES.values())
"""These are common, and are suspected only if nothing else explains a lost gradient."""
COMPARED = ("sum", "mean", "prod", "nanmean", "std", "var", "norm")
"""Functions of torch that libraries keep and compare by identity: Lightning's ``reduce_fx``."""
FLAT = ("round", "floor", "ceil", "trunc", "sign")
"""Their gradient is zero everywhere."""
SAMPLING = ("bernoulli", "poisson")
"""So is that of a sample."""
FLOORING = ("__floordiv__", "__rfloordiv__", "__ifloordiv__", "floor_divide", "floor_divide_")
"""They have no derivative at all: backward raises an error."""
MAKING = ("tensor", "as_tensor")
ADDING = ("__add__", "__radd__", "add", "__sub__", "__rsub__", "sub")
"""Methods by which a part is added to a loss; ``+=`` is among the operations in place."""
FILLING = ("fill_", "zero_", "normal_", "uniform_")
INIT = os.path.join("torch", "nn", "init.py")
LOSSES = ("cross_entropy", "nll_loss")
DISTANCES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
CLIPPING = ("clip_grad_norm_", "clip_grad_value_")
LIMITS = ("max_norm", "clip_value")
TO_FREEZE = re.compile(r"infer|free?z|frozen")
"""Arguments that freeze parameters if they are true."""
TO_TRAIN = re.compile(r"train|grad")
"""Arguments that freeze parameters if they are false."""
TO_COPY = re.compile(r"cop(?:y|ies)|clone")
"""Arguments that make copies if they are true."""
ARGUMENTS_SHOWN = 4
ITSELF = "a value minus itself"
"""A difference that passes only zeros on."""


class SeveringWatch:
    """Wraps some attributes of ``torch.Tensor`` and functions of ``torch``.

    They still do the same.
    """

    inputs: Callable[[], Set[int]] = set
    """Ids of the tensors for whose gradients torch.autograd.grad was asked."""
    stops: Callable[[str], None]
    """Called with an operation that passes only zeros on."""
    masked: Callable[[Any], None]
    """Called with a tensor that a mask may have been written into."""
    floored: Optional[Lines] = None
    """Where the last ``//`` of a tensor with a graph was computed."""

    def __init__(
        self,
        running: Callable[[], Any],
        stamp: Callable[[], int],
        trouble: Trouble,
        spoiled: SpoiledWatch,
    ) -> None:
        self.running = running
        self.stamp = stamp
        self.trouble = trouble
        self.spoiled = spoiled
        self.in_backward: Callable[[], bool] = bool
        self.operation: Callable[[str], Callable[..., None]]
        """What looks at the results of an operation that can make NaN or infinity."""
        self.severed: List[Dict[str, Any]] = []
        self._followed: Dict[int, Reach] = {}
        """The nodes behind the severed tensors of this step."""
        self.flat: List[Dict[str, Any]] = []
        """Tensors whose gradient became zero through a function that is flat everywhere."""
        self.added: List[Dict[str, Any]] = []
        """Numbers without a graph that were added to one that has a graph."""
        self.made: List[Dict[str, Any]] = []
        """Leaves that were made to require a gradient, by weak reference."""
        self.dropped: Dict[int, Optional[Lines]] = {}
        """Parameters, by id, whose gradient was set to None since the last backward pass, and
        where."""
        self.read: Dict[int, Tuple[str, Any, Optional[Lines]]] = {}
        """Parameters, by id, whose value the forward of a module used without the graph in this
        step: how, the module, and where."""
        self.hooks: Dict[int, Optional[Lines]] = {}
        """Parameters, by id, on which a hook was registered, and where."""
        self.filled: Dict[int, Optional[Lines]] = {}
        """Parameters, by id, that the script itself initialised, and where."""
        self.rewritten: Dict[int, Optional[Lines]] = {}
        """Parameters, by id, to which the script itself gave another value, and where."""
        # Where the weights that optimizers hold were filled with new values since the last step, by
        # their place in memory and their size.
        self.refilled: Dict[Tuple[int, int], List[Dict[str, Any]]] = {}
        self.first_hooked: List[Dict[str, Any]] = []
        """Where a hook was first registered on another tensor."""
        self.froze: Dict[Any, List[Any]] = {}
        """Parameters that were frozen (weak references), by the line that froze them, in the order
        of time."""
        self.arguments: Dict[Any, Tuple[List[str], List[Dict[str, Any]]]] = {}
        """By the line that froze parameters: the arguments that told it to, and where the script
        writes them."""
        self.clipped: List[Dict[str, Any]] = []
        """Where gradients were clipped to 0."""
        self.clips: Callable[[List[Any], float, List[Dict[str, Any]]], object] = lambda *_: None
        """Called before parameters are clipped to a limit above 0, with the frames."""
        self.labels = Labels()
        """Those of the losses of torch."""
        self.labels_given = Labels()
        """Those that models were given, of which libraries compute losses of their own."""
        self.links, self.noticed = LinkWatch(self), NoticeWatch()
        self._wrapped: Dict[Any, Dict[str, Any]] = {}
        """What is to take the place of attributes, by owner and name."""
        self._undo: List[Callable[[], None]] = []
        self.late = False
        """An optimizer was built."""
        self.stepping = False
        """An optimizer steps. What it does without a graph, thousands of calls, is not followed."""
        self._on = False

    def install_early(self) -> Callable[[], None]:
        """Watch from the start what is done to parameters: freezing, hooks, dropped gradients."""
        import torch

        self._torch = torch
        self._parameter = torch.nn.Parameter
        self._replace(torch.Tensor, "__setattr__", self._assigning, after=False)
        self._replace(torch.Tensor, "requires_grad_", self._requiring, after=True)
        self._replace(torch.Tensor, "register_hook", self._hooking, after=True)
        self._replace_compile(torch)
        native = torch._C._nn
        for place, names in ((torch.Tensor, IN_PLACE), (torch, FUNCTIONS), (native, NATIVE)):
            for name in (each for each in names if hasattr(place, each)):
                note = self._changing(name, by_torch=place is not torch.Tensor)
                self._replace(place, name, note, after=True)
        self._replace(torch.nn.Module, "load_state_dict", self.noticed.loaded, after=True)
        for name in CLIPPING:
            for owner in (torch.nn.utils, torch.nn.utils.clip_grad):
                self._replace_clip(owner, name)
        self._put()
        return self.remove

    def install(self) -> Callable[[], None]:
        """Watch during the audit what leaves the graph."""
        import torch

        if self._on:
            return self.remove
        self._on = True
        remember_constructors()
        self._install_methods(torch.Tensor)
        self._replace(torch, "floor_divide", self._flooring, after=True)
        self._follow_operations(torch, but=COMPARED)
        for name in (*LIKE, "argmax", "argsort"):
            self._replace(torch, name, self._leaving(name), after=False)
        self._replace(torch, CHOOSING, self._chosen, after=True)
        for name in INDEXING:
            self._replace(torch, name, self._indexing(INDICES[name]), after=True)
        for name in FLAT:
            self._replace(torch, name, self._leaving(name, self.flat), after=False)
        for name in MAKING:
            self._replace(torch, name, self._making(f"torch.{name}"), after=True)
        for name in LOSSES:
            self._replace(torch.nn.functional, name, self._labelled(name), after=True)
        self._replace(torch.nn.functional, LOGITS, self.noticed.logits, after=True)
        self._replace(torch.nn.functional, DIVERGENCE, self.noticed.diverges, after=True)
        for name in DISTANCES:
            self._replace(torch.nn.functional, name, self.noticed.compared(name), after=True)
        self._replace(torch.nn.functional, "ctc_loss", self.operation("ctc_loss"), after=True)
        for name in SAMPLING:
            self._replace(torch, name, self._leaving(name, self.flat), after=False)
        self._put()
        self.links.install(torch, self._replace_now)
        self._replace_data()
        return self.remove

    def _install_methods(self, tensor: Any) -> None:
        for name in (*LEAVING, *NO_DERIVATIVE):
            self._replace(tensor, name, self._leaving(name), after=False)
        self._replace(tensor, CHOOSING, self._chosen, after=True)
        for name in ADDING:
            note = self._subtracting if "sub" in name else self._adding
            self._replace(tensor, name, note, after=True)
        for name in CASTING:
            self._replace(tensor, name, self._casting(name), after=True)
        for name in INDEXING:
            self._replace(tensor, name, self._indexing(INDICES[name]), after=True)
        for name in FLAT:
            self._replace(tensor, name, self._leaving(name, self.flat), after=False)
        for name in FLOORING:
            self._replace(tensor, name, self._flooring, after=True)
        self._follow_operations(tensor)

    def _flooring(self, result: Any, *_: Any, **__: Any) -> None:
        if self._in_graph(result):
            self.floored = here()

    def _follow_operations(self, owner: Any, but: Tuple[str, ...] = ()) -> None:
        for name in dict.fromkeys((*OPERATIONS, *FLATTENING, *MASKING)):
            # torch.half is no function but a dtype
            if callable(getattr(owner, name, None)) and name not in but:
                self._replace(owner, name, self.operation(name), after=True)

    def remove(self) -> None:
        """Put everything back."""
        self._on = False
        while self._undo:
            self._undo.pop()()

    def new_step(self) -> None:
        """Forget what happened in the step that is over."""
        for events in (self.severed, self.flat, self.added):
            events.clear()
        self.made = [event for event in self.made if event["leaf"]() is not None]
        self._followed.clear()
        self.read.clear()
        self.links.new_step()

    def _replace(self, owner: Any, name: str, note: Callable[..., None], *, after: bool) -> None:
        """Wrap ``owner.name``; :meth:`_put` puts it in place.

        ``note`` gets the arguments; if it is called ``after``, it gets the result too.
        """
        original: Any = getattr(owner, name)
        building = self._torch.is_grad_enabled
        in_python = isinstance(original, FunctionType)
        call = partial(dispatched, self._torch.overrides, original) if in_python else original

        def watched(*args: Any, **kwargs: Any) -> Any:
            if (self.stepping and not building()) or not self._undo:  # somebody may have kept it
                return call(*args, **kwargs)
            if after:
                result = call(*args, **kwargs)
                self._guarded(note, result, *args, **kwargs)
                return result
            self._guarded(note, *args, **kwargs)
            return call(*args, **kwargs)

        placed: Any = watched if in_python else InPlaceOf(watched)
        look_like(original, placed, owner)
        path = [owner.__module__, owner.__name__] if isinstance(owner, type) else [owner.__name__]
        placed.place = ".".join([*path, name])
        self._undo += known_to_jit(original, placed)
        self._wrapped.setdefault(owner, {})[name] = placed

    def _put(self) -> None:
        """Put what was wrapped in place, all that belongs to an owner at once."""
        self._undo += [replace_all(owner, new) for owner, new in self._wrapped.items()]
        self._wrapped = {}

    def _replace_now(self, *place: Any, after: bool) -> None:
        """Wrap one attribute, owner and name, and put it in place."""
        self._replace(*place, after=after)
        self._put()

    def _replace_clip(self, owner: Any, name: str) -> None:
        """Wrap a function that clips gradients. An iterator of parameters is read only once."""
        original = getattr(owner, name)

        def watched(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(parameters, Iterator):
                parameters = list(parameters) or parameters
            self._guarded(self._clipping, parameters, *args, **kwargs)
            return original(parameters, *args, **kwargs)

        look_like(original, watched, owner)
        self._undo.append(replace(owner, name, watched))

    def _clipping(self, parameters: Any, *given: Any, **named: Any) -> None:
        limit = next((named[each] for each in LIMITS if each in named), given[0] if given else None)
        if limit is not None and float(limit) == 0:
            self.clipped = frames()
        elif limit is not None:
            single = isinstance(parameters, self._torch.Tensor)
            clipped = [parameters] if single else list(parameters)
            self.noticed.clips(clipped)
            self.clips(clipped, float(limit), frames())

    def _changing(self, how: str, *, by_torch: bool) -> Callable[..., None]:
        """Note a change in place; that of an activation is called ``by_torch`` for a module."""

        def note(result: Any, tensor: Any, *given: Any, **__: Any) -> None:
            if tensor.requires_grad and (by_torch or not plumbing(sys._getframe(3))):
                self.spoiled.changed(tensor, how)
                if how == "__iadd__" and self._on:
                    self._add(result, *given)
            self.noticed.changed(tensor, how)
            self._refilling(tensor, how)
            if not isinstance(tensor, self._parameter):
                return
            if how not in FILLING:
                if not plumbing(sys._getframe(3)):
                    self.rewritten[id(tensor)] = here()
            else:
                caller = sys._getframe(3)
                while caller.f_back is not None and caller.f_code.co_filename.endswith(INIT):
                    caller = caller.f_back
                if not plumbing(caller):
                    self.filled[id(tensor)] = here()

        return note

    def _refilling(self, tensor: Any, how: str) -> None:
        """Note that weights are filled with new values, or other tensors by a mask.

        A copy may bring earlier weights back.
        """
        if how in MASKING_IN_PLACE:
            if self._on:
                self.masked(tensor)
        elif self.refilled and (how in FILLING or how == "copy_"):
            with contextlib.suppress(Exception):  # not every tensor has a place in memory
                key = tensor.data_ptr(), tensor.numel()
                if key in self.refilled:
                    self.refilled[key] = frames() if how in FILLING else []

    def _labelled(self, name: str) -> Callable[..., None]:
        def note(result: Any, *given: Any, ignore_index: int = -100, **named: Any) -> None:
            scores, target = (*given, None, None)[:2]
            scores, target = named.get("input", scores), named.get("target", target)
            if target is None or target.is_floating_point() or not target.numel():
                return
            if transformed(target):
                return
            self.labels.count(target, ignore_index, result)
            self.noticed.computed(name, result)
            self.noticed.labelled(name, scores)
            self.noticed.language(sys._getframe(3))
            if name == "cross_entropy" and scores.shape[min(1, scores.dim() - 1)] == 1:
                self.stops(f"{name} over one class")

        return note

    def given(self, module: Any, named: Dict[str, Any]) -> None:
        """An outermost ``module`` is about to run in training mode with these arguments."""
        if "labels" in named:
            self._guarded(self.labels_given.of_tokens, module, named["labels"])

    def ignored(self) -> Optional[Dict[str, Any]]:
        """The first labels all of which a loss ignored, or would ignore."""
        return (self.labels if self.labels.losses else self.labels_given).facts()

    def _replace_compile(self, torch: Any) -> None:
        original = torch.compile

        @wraps(original)
        def compiled(*args: Any, **kwargs: Any) -> Any:
            with aside():
                self._guarded(step_aside)
                return original(*args, **kwargs)

        self._undo.append(replace(torch, "compile", compiled))

    def _replace_data(self) -> None:
        tensor, note = self._torch.Tensor, self._leaving("data")
        original, overrides = tensor.data, self._torch.overrides

        def get(each: Any) -> Any:
            self._guarded(note, each)
            if overrides.has_torch_function_unary(each):  # torch would hand on our own property
                return overrides.handle_torch_function(original.__get__, (each,), each)
            return original.__get__(each)

        self._undo.append(replace(tensor, "data", property(get, original.__set__)))

    def _guarded(self, note: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        try:
            with unseen(self._torch):
                note(*args, **kwargs)
        except Exception as error:
            self.trouble.add("a tensor's method", error)

    def _leaving(
        self, how: str, events: Optional[List[Dict[str, Any]]] = None
    ) -> Callable[..., None]:
        def note(source: Any, *given: Any, **__: Any) -> None:
            if how in COMPARING:
                self._compared(how, source, *given)
            if (
                source.requires_grad
                and source.grad_fn is not None
                and not plumbing(sys._getframe(3))
            ):
                self.sever(source, how, frames(), events)
            elif how == "numpy" and self.severed and not plumbing(sys._getframe(3)):
                last = self.severed[-1]  # x.detach().cpu().numpy()
                if last["how"] in READING and last["frames"][:1] == line(here())[:1]:
                    last["how"] = how
            elif how in READING and isinstance(source, self._parameter):
                module = self.running() if self._torch.is_grad_enabled() else None
                if module is not None and not plumbing(sys._getframe(3)):
                    self.read[id(source)] = how, module, here()

        return note

    def _chosen(self, result: Any, source: Any, *_: Any, **__: Any) -> None:
        """Note a choice by the least distance, perhaps of the vectors of a code book."""
        if self._in_graph(source) and not plumbing(sys._getframe(3)):
            self.sever(source, CHOOSING, frames())
            self.links.chosen(self.running(), result)

    def _compared(self, how: str, *compared: Any) -> None:
        """Note the parameters that a module compares with something."""
        own = [p for p in compared if isinstance(p, self._parameter) and p.requires_grad]
        module = self.running() if own and self._torch.is_grad_enabled() else None
        if module is not None and not plumbing(sys._getframe(4)):
            self.read.update((id(p), (how, module, here())) for p in own)

    def _indexing(self, how: str) -> Callable[..., None]:
        def note(result: Any, source: Any, *_: Any, **__: Any) -> None:
            if (
                isinstance(result, tuple)
                and self._in_graph(source)
                and not plumbing(sys._getframe(3))
            ):
                self.sever(source, how, frames())

        return note

    def _casting(self, how: str) -> Callable[..., None]:
        def note(result: Any, source: Any, *_: Any, **__: Any) -> None:
            whole = isinstance(result, self._torch.Tensor) and not (
                result.is_floating_point() or result.is_complex()
            )
            if whole and self._in_graph(source) and not plumbing(sys._getframe(3)):
                self.sever(source, how, frames())

        return note

    def sever(
        self,
        source: Any,
        how: str,
        found: List[Dict[str, Any]],
        events: Optional[List[Dict[str, Any]]] = None,
    ) -> None:
        """Note that ``source`` left the graph by ``how``, at the frames ``found``."""
        events = self.severed if events is None else events
        if found:
            module, first = self.running(), found[0]
            alike = [
                e
                for e in events
                if not e["early"] and e["module"] is module and e["frames"][0] == first
            ]
            for e in alike[ALIKE_KEPT // 2 : 1 - ALIKE_KEPT // 2]:
                events.remove(e)
            events.append(
                {
                    "how": how,
                    "behind": None
                    if source.grad_fn is None
                    else behind(source.grad_fn, self._followed),
                    "identity": None if source.grad_fn is None else identity(source.grad_fn),
                    "near": set() if source.grad_fn is None else near(source.grad_fn),
                    "frames": found,
                    "module": module,
                    "outside": module is None,
                    "stamp": self.stamp(),
                    "recompute": self.in_backward(),
                    "early": False,
                }
            )
            del events[:-KEPT]

    def gave_values(self, roots: List[Any]) -> None:
        """Note that ``torch.autograd.grad`` gave gradients of ``roots`` that have no graph."""
        if self._on:
            for root in filter(self._in_graph, roots):
                self.sever(root, "autograd.grad", frames())

    def _making(self, how: str) -> Callable[..., None]:
        def note(result: Any, *given: Any, **__: Any) -> None:
            items = given[0] if given and isinstance(given[0], (list, tuple)) else given[:1]
            origin = next((each for each in items if self._in_graph(each)), None)
            self._made(result, how, of_graph=origin is not None)
            if origin is not None and result.grad_fn is None:
                self.sever(origin, how, frames())

        return note

    def _adding(self, result: Any, *given: Any, **__: Any) -> None:
        if not plumbing(sys._getframe(3)):
            self._add(result, *given)

    def _subtracting(self, result: Any, *given: Any, **__: Any) -> None:
        if not plumbing(sys._getframe(3)):
            self._add(result, *given)
            self.links.subtracted(result)
            self.noticed.subtracted(result, *given)
            if len(given) > 1 and same_value(*given[:2]):
                self.stops(ITSELF)

    def _add(self, result: Any, *given: Any) -> None:
        """Note a sum of one number with a graph and one without it."""
        if not self._in_graph(result) or result.numel() != 1:
            return
        constant = next((each for each in given if self._is_constant(each)), None)
        if constant is not None and len(self.added) < KEPT:
            number = not isinstance(constant, self._torch.Tensor)
            if not number:
                self.noticed.added()
            self.added.append(
                {
                    "node": identity(result.grad_fn),
                    "others": set(map(identity, children(result.grad_fn))),
                    "value": constant if number else constant.detach().clone(),
                    "number": number,
                    "frames": frames(),
                    "module": self.running(),
                }
            )

    def _is_constant(self, value: Any) -> bool:
        if isinstance(value, self._torch.Tensor):
            return bool(
                value.numel() == 1
                and value.is_floating_point()
                and (not value.requires_grad or self._is_of_inputs(value))
            )
        return isinstance(value, float)

    def _is_of_inputs(self, value: Any) -> bool:
        """Whether all that ``value`` leads to are inputs of which gradients were taken as values.

        The residual of an equation has a graph in any case: that of its points.
        """
        if value.grad_fn is None or not any(e["how"] == "autograd.grad" for e in self.severed):
            return False
        leaves, inputs = follow(value.grad_fn, Reach()).leaves, self.inputs()
        return bool(leaves) and all(
            each in inputs and not isinstance(leaf, self._parameter)
            for each, leaf in leaves.items()
        )

    def _in_graph(self, value: Any) -> bool:
        return isinstance(value, self._torch.Tensor) and value.grad_fn is not None

    def _made(self, tensor: Any, how: str, *, of_graph: bool = False) -> None:
        if tensor.requires_grad and tensor.is_leaf and not isinstance(tensor, self._parameter):
            self._keep_leaf(tensor, how, of_graph=of_graph)

    def _keep_leaf(self, tensor: Any, how: str, *, of_graph: bool = False) -> None:
        """Keep how a new leaf was made to require a gradient."""
        told = deciding(sys._getframe(1), TO_COPY, None)[0] if self.late else []
        self.made.append(
            {
                "leaf": weakref.ref(tensor),
                "how": how,
                "frames": frames(),
                "module": self.running(),
                "of_graph": of_graph,
                "late": self.late,
                "arguments": told[-1:],
            }
        )
        del self.made[:-KEPT]

    def _requiring(  # the signature is torch's
        self,
        _result: Any,
        tensor: Any,
        requires_grad: bool = True,  # noqa: FBT001, FBT002
    ) -> None:
        if isinstance(tensor, self._parameter):
            if not requires_grad:
                self._frozen(tensor)
        elif requires_grad:
            self._made(tensor, "requires_grad_")

    def _assigning(self, tensor: Any, name: str, value: Any) -> None:
        if name == "requires_grad":
            if isinstance(tensor, self._parameter):
                if not value:
                    self._frozen(tensor)
            elif value and tensor.is_leaf:
                self._keep_leaf(tensor, name)
        elif name == "grad" and value is None and tensor.grad is not None:
            self.dropped[id(tensor)] = here()
        elif name == "data" and isinstance(tensor, self._parameter):
            self.rewritten[id(tensor)] = here()

    def _frozen(self, parameter: Any) -> None:
        at = here()
        if at not in self.froze:
            self.arguments[at] = deciding(sys._getframe(3), TO_FREEZE, TO_TRAIN)
        self.froze.setdefault(at, []).append(weakref.ref(parameter))

    def _hooking(self, _result: Any, tensor: Any, *_: Any) -> None:
        at = here()
        if at is None:
            return
        if isinstance(tensor, self._parameter):
            self.hooks[id(tensor)] = at
        elif tensor.grad_fn is not None:
            self.first_hooked = self.first_hooked or line(at)


def deciding(
    frame: Optional[FrameType], if_true: Pattern[str], if_false: Optional[Pattern[str]]
) -> Tuple[List[str], List[Dict[str, Any]]]:
    """The arguments of a library's call that made it freeze or copy parameters.

    Their names fit ``if_true`` and they are true, or ``if_false`` and they are false.

    They are looked for in the calls between ``frame`` and the user's line, and in the objects that
    these were given.

    Returns:
        the arguments as they would be written, and where the script writes the first of them.
    """
    found: Dict[str, Any] = {}
    frame = visible(frame)
    while frame is not None and not mine(frame.f_code.co_filename):
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = {name: frame.f_locals.get(name) for name in names}
        for value in [value for name, value in given.items() if name != "self"]:
            fields = getattr(type(value), "__dataclass_fields__", {})
            given = {**{name: getattr(value, name, None) for name in fields}, **given}
        found.update(
            (name, value)
            for name, value in given.items()
            if (value is True and if_true.search(name))
            or (value is False and if_false is not None and if_false.search(name))
            if name != "requires_grad"  # a library hands that on; it says nothing new
        )
        frame = visible(frame.f_back)
    if frame is None or not found:
        return [], []
    written = source.keywords(lambda name: name in found, lambda value: value in (True, False))
    places = [[at] for text, at in written if text in {f"{n}={v}" for n, v in found.items()}]
    texts = [f"{name}={value}" for name, value in found.items()][:ARGUMENTS_SHOWN]
    return texts, places[0] if places else []


def dispatched(overrides: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function of torch that is written in Python.

    It would tell tensor subclasses and modes of what stands in its place, and not of itself.
    """
    given = (*args, *kwargs.values())
    if overrides.has_torch_function(given):
        return overrides.handle_torch_function(function, given, *args, **kwargs)
    return function(*args, **kwargs)


class InPlaceOf(partial):  # type: ignore[type-arg]
    """A function in the place of a native one, its ``__wrapped__``, and equal to it.

    Tensor subclasses look functions up in tables, and Lightning keeps ``torch.max`` and compares it
    later. A partial adds no frame of Python to a call.
    """

    __wrapped__: Any
    place: str
    """Where it stands, by which it is pickled."""

    def __get__(self, instance: Any, _owner: Any = None) -> Any:
        return self if instance is None else MethodType(self.func, instance)

    def __eq__(self, other: object) -> bool:
        return other is self or bool(other == self.__wrapped__)

    def __hash__(self) -> int:
        return hash(self.__wrapped__)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def __reduce__(self) -> Any:
        return resolve_name, (self.place,)


def remember_constructors() -> None:
    """Let torch note which functions make tensors, for ``with torch.device(...)``.

    It does so once, when it is first asked, and must not find others in their place.
    """
    with contextlib.suppress(ImportError, AttributeError):  # another torch has it elsewhere
        from torch.utils import _device

        _device._device_constructors()


def look_like(original: Any, watched: Any, owner: Any) -> None:
    """Give ``watched`` the names of ``original``, by which it is shown and inspected."""
    update_wrapper(watched, original)
    watched.__module__ = owner.__module__ if isinstance(owner, type) else owner.__name__


def known_to_jit(original: Any, watched: Any) -> List[Callable[[], None]]:
    """Make torch.jit treat ``watched`` as ``original``, if that is an operator.

    Returns:
        what undoes that, if there is something to undo.
    """
    try:
        from torch.jit import _builtins

        operator, table = _builtins._find_builtin(original), _builtins._get_builtin_table()
    except Exception:  # another torch has it elsewhere; only scripts that use torch.jit need it
        return []
    if operator is None:
        return []
    table[id(watched)] = operator
    return [partial(table.pop, id(watched), None)]


def same_value(first: Any, second: Any) -> bool:
    """Whether two tensors are the same output of one node; a split has several outputs."""
    node = getattr(first, "grad_fn", None)
    return (
        node is not None
        and node is getattr(second, "grad_fn", None)
        and first.output_nr == second.output_nr
    )
