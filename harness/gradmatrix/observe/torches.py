"""Which modules exist, which of them contains which, and what a parameter is called.

A parameter's value before a step, small enough to keep: whether the step changed it.

Whether torch.compile is reading the code that runs.

What an optimizer holds, at which learning rate, and what kind of gradient a parameter has.

Errors of the observer's own: recorded, and never the script's.

The first output, gradient or value that is NaN, infinite, or nothing but zeros.

Walk a graph of autograd from its roots: which nodes and which leaves a backward pass will reach.
"""

from __future__ import annotations

import math
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

from .frames import frames


class ModuleTree:
    """Follows the modules that are built while it is installed, through torch's registration hooks.

    A LightningModule's ``training_step`` never calls the module itself, so the forward hooks alone would not
    know that the network and the classifier beside it are parts of one thing.
    """

    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble
        self._parents: Any = weakref.WeakKeyDictionary()
        self._undo: List[Callable[[], None]] = []

    def install(self) -> Callable[[], None]:
        """Follow every module from now on; the returned function stops that."""
        from torch.nn.modules import module

        def of_module(parent: Any, _name: str, child: Any) -> None:
            try:
                if child is not None:
                    self._parents.setdefault(child, []).append(weakref.ref(parent))
            except Exception as error:  # a module that cannot be hashed, or referred to weakly
                self.trouble.add("modules", error)

        def of_parameter(parent: Any, _name: str, _parameter: Any) -> None:
            try:
                self._parents.setdefault(parent, [])
            except Exception as error:
                self.trouble.add("modules", error)

        self._undo = [
            module.register_module_module_registration_hook(of_module).remove,
            module.register_module_parameter_registration_hook(of_parameter).remove,
        ]
        return self.remove

    def remove(self) -> None:
        """Stop following."""
        while self._undo:
            self._undo.pop()()

    def top(self, module: Any) -> Any:
        """The outermost module known to contain ``module``; itself where there is none."""
        seen = {id(module)}
        while True:
            parent = next((p for p in self._living_parents(module) if id(p) not in seen), None)
            if parent is None:
                return module
            seen.add(id(parent))
            module = parent

    def _living_parents(self, module: Any) -> List[Any]:
        """Parents that still hold ``module`` as a child, newest first."""
        parents = [reference() for reference in reversed(self._parents.get(module, []))]
        return [
            p for p in parents if p is not None and any(child is module for child in p.children())
        ]

    def loose(self) -> List[Any]:
        """Every followed module that is still alive and has no living parent."""
        return [module for module in list(self._parents) if not self._living_parents(module)]


def uninitialized(parameter: Any) -> bool:
    """Whether a lazy module has not run yet: such a parameter has no shape."""
    return hasattr(parameter, "materialize")


def named(roots: List[Any]) -> Tuple[Dict[int, str], Dict[int, str]]:
    """Names of all modules and of all parameters below ``roots``, by id.

    With several roots that have parameters (a loss function has none) each name starts with its root's class; a
    parameter shared by two modules has its first name.
    """
    modules: Dict[int, str] = {}
    parameters: Dict[int, str] = {}
    counts: Dict[str, int] = {}
    several = sum(any(True for _ in root.parameters()) for root in roots) > 1
    for root in roots:
        kind = type(root).__name__
        counts[kind] = counts.get(kind, 0) + 1
        title = kind if counts[kind] == 1 else f"{kind}#{counts[kind]}"
        prefix = f"{title}." if several else ""
        for name, module in root.named_modules():
            modules.setdefault(id(module), f"{prefix}{name}".rstrip(".") or title)
        for name, parameter in root.named_parameters():
            parameters.setdefault(id(parameter), f"{prefix}{name}")
    return modules, parameters


def title(module: Any, names: Dict[int, str]) -> Dict[str, Optional[str]]:
    """Name and type of ``module``, which may be None."""
    if module is None:
        return {"module": None, "type": None}
    kind = type(module).__name__
    return {"module": names.get(id(module), kind), "type": kind}


WHOLE = 1 << 20
"""Up to so many elements a value is copied; of a larger one a sample and sums are kept."""


class Kept:
    """The value of a tensor at one moment.

    Of a large one: a strided sample of about a million elements, and three sums over all of it (bits, values, squares),
    which a change of rows outside the sample moves. A large model's copy would not fit beside it.
    """

    def __init__(self, torch: Any, tensor: Any) -> None:
        self._torch = torch
        tensor = local(tensor)
        self._large = tensor.numel() > WHOLE
        self._sample = self._sampled(tensor).clone()
        self._sums = self._summed(tensor) if self._large else ()

    def differs_from(self, tensor: Any) -> bool:
        """Whether ``tensor`` has another value now."""
        tensor = local(tensor)
        if not self._torch.equal(self._sample, self._sampled(tensor)):
            return True
        return self._large and self._summed(tensor) != self._sums

    def _sampled(self, tensor: Any) -> Any:
        if not self._large:
            return tensor.detach()
        flat = (
            tensor.detach().reshape(-1)
            if tensor.is_contiguous()
            else tensor.detach()[:1].reshape(-1)
        )
        return flat[:: max(1, flat.numel() // WHOLE)]

    def _summed(self, tensor: Any) -> Tuple[float, ...]:
        torch, value = self._torch, tensor.detach()
        sums = [
            float(value.sum(dtype=torch.float64)),
            float(torch.linalg.vector_norm(value.float())),
        ]
        bits = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(
            value.element_size()
        )
        if bits is not None and value.is_contiguous() and not value.is_complex():
            sums.append(float(value.view(bits).sum()))
        return tuple(sums)


def local(tensor: Any) -> Any:
    """This process's part of a distributed tensor: to read the whole of it, all processes would have to take part."""
    part = getattr(tensor, "to_local", None)
    return tensor if part is None else part()


def is_compiling(torch: Any) -> Callable[[], bool]:
    """The function of this release of torch that tells: in 2.0 to 2.2 it is dynamo's own."""
    found: Any = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    if found is None:
        from torch._dynamo import is_compiling as dynamos

        found = dynamos
    return lambda: bool(found())


def highest_rate(optimizer: Any) -> Optional[float]:
    """The highest learning rate of an optimizer's groups; None where it chooses it by itself."""
    rates = [group.get("lr") for group in optimizer.param_groups]
    return None if None in rates or not rates else max(map(float, rates))


def rate_of(optimizer: Any, parameter: Any) -> Optional[float]:
    """The learning rate of the group that holds ``parameter``; None where none does, or it chooses its own."""
    groups = (
        g for g in optimizer.param_groups if any(parameter is member for member in g["params"])
    )
    group: Dict[str, Any] = next(groups, {})
    return None if group.get("lr") is None else float(group["lr"])


def held_by(optimizer: Any) -> List[Any]:
    """The parameters of all groups of ``optimizer``."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def read_gradient(torch: Any, gradient: Any) -> Any:
    """The gradient's letter (``n`` none, ``z`` zero, ``f`` finite, ``x`` non-finite) and its squared L2 norm."""
    if gradient is None:
        return "n", 0.0
    gradient = local(gradient)
    values = gradient.coalesce().values() if gradient.is_sparse else gradient
    if not values.numel():
        return "z", 0.0
    magnitudes = values.abs() if values.is_complex() else values
    greatest = float(torch.linalg.vector_norm(magnitudes, ord=float("inf"), dtype=torch.float32))
    norm = float(torch.linalg.vector_norm(magnitudes, dtype=torch.float32))
    if not math.isfinite(greatest):
        return "x", norm**2
    return ("f" if greatest else "z"), norm**2


KEPT = 10


class Trouble:
    """What went wrong while watching, as far as the first few."""

    def __init__(self) -> None:
        self.errors: List[str] = []

    def add(self, where: str, error: BaseException) -> None:
        """Note that watching ``where`` failed."""
        if len(self.errors) < KEPT:
            self.errors.append(f"{where}: {type(error).__name__}: {error}"[:500])


class FiniteWatch:
    """Keeps the first of each kind; what is looked at is read on the device, one number each."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.found: Dict[str, Dict[str, Any]] = {}
        """By where: "output", "gradient", "value"."""
        self.zero: Optional[Dict[str, Any]] = None
        """The first module whose output was all zeros, though neither its input nor its parameters were."""

    def output(self, module: Any, inputs: List[Any], outputs: List[Any]) -> None:
        """Look at a module's output; one whose input was broken before is not to blame."""
        if "output" in self.found:
            return
        magnitudes = [greatest(tensor) for tensor in outputs]
        if not all(map(math.isfinite, magnitudes)):
            if not any(True for _ in module.parameters()) and all(
                masks(tensor) for tensor in outputs
            ):
                return
            if all(math.isfinite(greatest(tensor)) for tensor in inputs):
                self.found["output"] = {"step": self.clock(), "owner": module, "frames": frames()}
        elif self.zero is None and not any(magnitudes):
            own = list(
                module.parameters(recurse=False)
            )  # a fresh LoRA's B is zero, and so is what it gives
            if any(map(greatest, inputs)) and (not own or any(map(greatest, own))):
                self.zero = {"step": self.clock(), "owner": module, "frames": frames()}

    def note(self, where: str, owner: Any, frames: List[Dict[str, Any]]) -> None:
        """Keep the first of its kind: ``owner`` is a parameter."""
        self.found.setdefault(where, {"step": self.clock(), "owner": owner, "frames": frames})

    def first(self) -> Optional[Dict[str, Any]]:
        """The earliest of all: within a step, outputs come before gradients, and these before updates."""
        order = ("output", "gradient", "value")
        kept = [{**self.found[where], "where": where} for where in order if where in self.found]
        return min(kept, key=lambda each: each["step"]) if kept else None


def greatest(tensor: Any) -> float:
    """The greatest magnitude in ``tensor``, NaN if one is in it; 1 for one that is empty or cannot be read.

    Nothing of this may be saved for backward: non-reentrant checkpointing counts what a pass saves.
    """
    try:
        return float(local(tensor).detach().abs().max())
    except Exception:  # fake, batched, sparse or empty: nobody can tell
        return 1.0


def masks(tensor: Any) -> bool:
    """Whether the worst in ``tensor`` is minus infinity, as in an attention mask: meant, where nothing is learned."""
    return float(local(tensor).detach().max()) < math.inf


MOST = 500_000
"""Nodes that are walked at most: what lies further is taken as not reached."""


class Reach:
    """Identities of the nodes that were reached, and the leaves by id."""

    def __init__(self) -> None:
        self.nodes: Set[Any] = set()
        self.leaves: Dict[int, Any] = {}
        self.checkpointed = False
        """A reentrant checkpoint lies on the way: the parameters inside it are no leaves of this graph."""


def identity(node: Any) -> Any:
    """What tells a node apart: torch's running number, which keeps nothing alive, or the node itself (torch 2.0)."""
    number = getattr(node, "_sequence_nr", None)
    return node if number is None else number()


def reach(roots: Iterable[Any]) -> Reach:
    """What a backward pass from ``roots`` (tensors) reaches."""
    found = Reach()
    for root in roots:
        if root.grad_fn is not None:
            follow(root.grad_fn, found)
        elif root.requires_grad:
            found.leaves[id(root)] = root
    return found


def follow(start: Any, found: Reach) -> Reach:
    """Add to ``found`` what is reached from the node ``start``."""
    waiting: List[Any] = [start]
    seen: Set[Any] = set()
    while waiting and len(seen) < MOST:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and not node.next_functions:
            found.leaves[id(leaf)] = leaf
        else:
            found.nodes.add(identity(node))
            found.checkpointed |= "Checkpoint" in type(node).__name__
            waiting += [following for following, _ in node.next_functions if following is not None]
    return found


def is_parameter(leaf: Any) -> bool:
    """Whether a leaf of a graph is a parameter."""
    import torch

    return isinstance(leaf, torch.nn.Parameter)
