"""Small questions to torch that several watches ask.

They are about modules and their names, values of parameters, what optimizers hold, gradients, and
the nodes of an autograd graph.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import sys
import weakref
from types import GeneratorType
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from .replaced import hook

KEPT = 10
WHOLE = 1 << 12
"""A value with at most this many elements is copied. Of a larger one a sample and a sum are kept.
"""
AT_ONCE = 1 << 16
"""So many elements are summed at once: the sum of their bits needs a copy of them."""
FEW = 4
"""Values with fewer elements may have one direction by chance."""
NEARLY = 1e-3
"""Rounding adds this share, of squares, to a difference of float32."""
PARAMETERS = ("ParameterList", "ParameterDict")
"""Modules of parameters, which never run."""
MOST = 500_000
"""At most this many nodes are walked; those further away count as not reached."""


NEAR = 16
"""About so many nodes are near another one."""


class Trouble:
    """Errors of the observer itself, each once and at most KEPT of them.

    They never become the script's errors.
    """

    def __init__(self) -> None:
        self.errors: List[str] = []

    def add(self, where: str, error: BaseException) -> None:
        """Keep an error that happened while watching ``where``."""
        text = f"{where}: {type(error).__name__}: {error}"[:500]
        if text not in self.errors and len(self.errors) < KEPT:
            self.errors.append(text)


class ModuleTree:
    """Which module contains which, learned from torch's registration hooks while it is installed.

    Forward hooks are not enough: a LightningModule itself is not called when its ``training_step``
    runs, so they would not show that the network and the classifier inside it belong together.
    """

    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble
        self._parents: Dict[int, Tuple[Any, List[Any]]] = {}
        """Weak references to each module and to its parents, by the module's id: a class of modules
        may have an equality of its own."""
        self._undo: List[Callable[[], None]] = []

    def install(self) -> Callable[[], None]:
        """Follow every module from now on. The returned function ends that."""
        from torch.nn.modules import module

        def of_module(parent: Any, _name: str, child: Any) -> None:
            try:
                if child is not None:
                    self._parents_of(child).append(weakref.ref(parent))
            except Exception as error:  # it cannot be weakly referenced
                self.trouble.add("modules", error)

        def of_parameter(parent: Any, _name: str, _parameter: Any) -> None:
            try:
                self._parents_of(parent)
            except Exception as error:
                self.trouble.add("modules", error)

        self._undo = [
            hook(module.register_module_module_registration_hook, of_module),
            hook(module.register_module_parameter_registration_hook, of_parameter),
        ]
        return self.remove

    def remove(self) -> None:
        """Stop following."""
        while self._undo:
            self._undo.pop()()

    def known(self) -> List[Any]:
        """Every followed module that is alive."""
        known = [module() for module, _ in list(self._parents.values())]
        return [module for module in known if module is not None]

    def top(self, module: Any) -> Any:
        """The outermost module that is known to contain ``module``.

        ``module`` itself if none does.
        """
        seen = {id(module)}
        while True:
            parent = next((p for p in self._living_parents(module) if id(p) not in seen), None)
            if parent is None:
                return module
            seen.add(id(parent))
            module = parent

    def _living_parents(self, module: Any) -> List[Any]:
        """The parents that still have ``module`` as a child, newest first."""
        _, references = self._parents.get(id(module), (None, []))
        parents = [reference() for reference in reversed(references)]
        living = [parent for parent in parents if parent is not None]
        return [p for p in living if any(each is module for each in p._modules.values())]

    def loose(self) -> List[Any]:
        """Every outermost module that is alive, as far as its parts were followed."""
        return self.tops(self.known())

    def tops(self, modules: Iterable[Any]) -> List[Any]:
        """The outermost modules that contain ``modules``, each once."""
        return list({id(top): top for top in map(self.top, modules)}.values())

    def _parents_of(self, module: Any) -> List[Any]:
        identity = id(module)
        if identity not in self._parents:
            gone = weakref.ref(module, lambda _: self._parents.pop(identity, None))
            self._parents[identity] = gone, []
        return self._parents[identity][1]


def named(roots: List[Any]) -> Tuple[Dict[int, str], Dict[int, str]]:
    """The names of all modules and of all parameters below ``roots``, by id.

    If several roots have parameters (a loss function has none), each name starts with the name of
    its root in the script, or else with its class. A parameter that two modules share gets its
    first name.
    """
    modules: Dict[int, str] = {}
    parameters: Dict[int, str] = {}
    counts: Dict[str, int] = {}
    several = sum(any(True for _ in root.parameters()) for root in roots) > 1
    script = [item for item in list(vars(sys.modules["__main__"]).items()) if item[0][0] != "_"]
    written = {id(value): name for name, value in reversed(script)} if several else {}
    for root in roots:
        kind = written.get(id(root), type(root).__name__)
        counts[kind] = counts.get(kind, 0) + 1
        title = kind if counts[kind] == 1 else f"{kind}#{counts[kind]}"
        prefix = f"{title}." if several else ""
        for name, module in root.named_modules():
            modules.setdefault(id(module), f"{prefix}{name}".rstrip(".") or title)
        for name, parameter in root.named_parameters():
            parameters.setdefault(id(parameter), f"{prefix}{name}")
    return modules, parameters


def title(module: Any, names: Dict[int, str]) -> Dict[str, Optional[str]]:
    """Name and type of ``module``; both are None if ``module`` is None."""
    if module is None:
        return {"module": None, "type": None}
    kind = type(module).__name__
    return {"module": names.get(id(module), kind), "type": kind}


def uninitialized(parameter: Any) -> bool:
    """Whether a parameter of a lazy module that has not run yet: it has no shape."""
    return hasattr(parameter, "materialize")


def shape_of(parameter: Any) -> List[int]:
    """The shape of a parameter. ZeRO 3 takes its values away while its module does not run."""
    return list(getattr(parameter, "ds_shape", parameter.shape))


def is_empty(parameter: Any) -> bool:
    """Whether a parameter has no elements, also not while its module runs."""
    return not math.prod(shape_of(parameter))


def unwrapped(torch: Any, tensor: Any) -> Any:
    """The tensor below the wrappers in which torch.func computes with it."""
    functorch = torch._C._functorch
    while tensor is not None and functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


def is_parameter(leaf: Any) -> bool:
    """Whether a leaf of a graph is a parameter."""
    import torch

    return isinstance(leaf, torch.nn.Parameter)


class Kept:
    """The value of a tensor at one moment.

    Of a large tensor it keeps a strided sample and the sum of the bits of all elements, which also
    shows a change outside the sample. A copy of all parameters might not fit in memory.
    """

    def __init__(self, torch: Any, tensor: Any) -> None:
        self._torch = torch
        tensor = plain(torch, tensor)
        self._large = tensor.numel() > WHOLE
        self._sample = self._sampled(tensor).clone()
        self._sums = self._summed(tensor) if self._large else ()

    def differs_from(self, tensor: Any) -> bool:
        """Whether ``tensor`` has a different value now."""
        tensor = plain(self._torch, tensor)
        if not self._torch.equal(self._sample, self._sampled(tensor)):
            return True
        return self._large and self._summed(tensor) != self._sums

    @property
    def tells_directions(self) -> bool:
        """Whether it has several values, not all 0: few others are a multiple of it by chance."""
        return int(self._sample.numel()) >= FEW and bool(self._sample.any())

    def share_back(self, first: Kept, tensor: Any) -> float:
        """The share of the way from this value back to the ``first`` one that ``tensor`` went.

        It is 0 if ``tensor`` went elsewhere.
        """
        here, there, now = (
            each.double()
            for each in (self._sample, first._sample, self._sampled(plain(self._torch, tensor)))
        )
        way, gone = there - here, now - here
        share = float((gone * way).sum()) / (float((way * way).sum()) or 1.0)
        rest = float((gone - share * way).square().sum())
        return share if 0 < share <= 1 and rest <= NEARLY * float(gone.square().sum()) else 0.0

    def _sampled(self, tensor: Any) -> Any:
        if not self._large:
            return tensor
        flat = tensor.reshape(-1) if tensor.is_contiguous() else tensor[:1].reshape(-1)
        return flat[:: max(1, flat.numel() // WHOLE)]

    def _summed(self, value: Any) -> Tuple[float, ...]:
        torch = self._torch
        bits = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(
            value.element_size()
        )
        if bits is not None and value.is_contiguous() and not value.is_complex():
            return (sum(int(part.sum()) for part in value.view(-1).view(bits).split(AT_ONCE)),)
        return (
            float(torch.view_as_real(value).sum() if value.is_complex() else value.double().sum()),
            float(torch.linalg.vector_norm(value)),
        )


def local(tensor: Any) -> Any:
    """This process's part of a distributed tensor.

    To read all of it, every process would have to take part.
    """
    part = getattr(tensor, "to_local", None)
    return tensor if part is None else part()


def plain(torch: Any, tensor: Any) -> Any:
    """The values of a tensor of any kind, as a dense tensor without a graph.

    Whoever calls this has switched gradients and subclasses off, see :func:`reading`.
    """
    tensor = local(tensor).detach()
    if tensor.is_quantized:
        return tensor.dequantize()
    if tensor.layout == torch.sparse_coo:
        return tensor.coalesce().values()
    if tensor.is_nested or (tensor.layout != torch.strided and not tensor.is_mkldnn):
        return tensor.values()
    return tensor.to_dense() if tensor.is_mkldnn else tensor


def unseen(torch: Any) -> Any:
    """A context in which tensor subclasses and modes of the script see nothing of what is done."""
    function = torch._C.DisableTorchFunction()
    if not torch._C._len_torch_dispatch_stack():
        return function
    from torch.utils._python_dispatch import _disable_current_modes

    both = contextlib.ExitStack()
    both.enter_context(_disable_current_modes())
    both.enter_context(function)
    return both


@contextlib.contextmanager
def reading(torch: Any) -> Iterator[None]:
    """A context in which values are read: without a graph, and past subclasses and modes.

    ``torch.no_grad`` is what the script's own switches are seen by.
    """
    before = torch.is_grad_enabled()
    torch._C._set_grad_enabled(False)  # noqa: FBT003
    try:
        with unseen(torch):
            yield
    finally:
        torch._C._set_grad_enabled(before)


def held_by(optimizer: Any) -> List[Any]:
    """The parameters of all groups of ``optimizer``."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def used_up(given: Any, depth: int = 8) -> bool:
    """Whether the iterator of a group was gone through before the optimizer was ``given`` it.

    That of a filter or a map is known by what it goes through itself, to this ``depth``.
    """
    if isinstance(given, GeneratorType):
        return given.gi_frame is None
    inside: Iterable[Any] = ()
    if isinstance(given, (list, tuple)):  # a map keeps what it goes through in a tuple
        inside = (each.get("params") if isinstance(each, dict) else each for each in given)
    elif isinstance(given, Iterator):
        inside = gc.get_referents(given)
    return depth > 0 and any(used_up(each, depth - 1) for each in inside)


def highest_rate(optimizer: Any) -> Optional[float]:
    """The highest learning rate of an optimizer's groups.

    None if the optimizer chooses it itself.
    """
    rates = [as_rate(group) for group in optimizer.param_groups]
    known = [rate for rate in rates if rate is not None]
    return max(known) if known and len(known) == len(rates) else None


def as_rate(group: Dict[str, Any]) -> Optional[float]:
    """The learning rate of a group; None if it is no number."""
    try:
        return float(group["lr"])
    except (KeyError, TypeError, ValueError, RuntimeError):
        return None


def rates_of(optimizer: Any) -> Dict[int, Optional[float]]:
    """The learning rate of each parameter that ``optimizer`` holds, by the parameter's id.

    None if the optimizer chooses the rate itself.
    """
    groups = reversed(optimizer.param_groups)  # of several groups the first counts
    return {id(each): rate for g in groups for rate in [as_rate(g)] for each in g["params"]}


def read_gradient(torch: Any, gradient: Any) -> Any:
    """A letter for the gradient, and its squared L2 norm.

    The letter is ``n`` for none, ``z`` for zero, ``f`` for finite and not zero, ``x`` for
    non-finite.
    """
    if gradient is None:
        return "n", 0.0
    values = plain(torch, gradient)
    if not values.numel():
        return "z", 0.0
    magnitudes = values.abs() if values.is_complex() else values
    if magnitudes.element_size() == 1:  # an 8-bit type knows no norms
        magnitudes = magnitudes.float()
    exact = torch.float64 if magnitudes.dtype == torch.float64 else torch.float32
    norm = float(torch.linalg.vector_norm(magnitudes, dtype=exact))
    if norm and math.isfinite(norm):
        return "f", norm * norm
    # The squares of very small or large numbers are 0 or infinite.
    greatest = float(torch.linalg.vector_norm(magnitudes, ord=float("inf"), dtype=exact))
    if not math.isfinite(greatest):
        return "x", norm * norm
    norm = max(norm, greatest)
    return ("f" if greatest else "z"), norm * norm


class Reach:
    """The nodes (by identity) and the leaves (by id) that a backward pass reaches."""

    def __init__(self) -> None:
        self.nodes: Set[Any] = set()
        self.leaves: Dict[int, Any] = {}
        self.functions: List[Any] = []
        """The nodes of differentiable functions that are written in Python."""
        self.checkpointed = False
        """A reentrant checkpoint lies on the way. The parameters inside it are not leaves of this
        graph."""
        self.parts: List[Reach] = []
        """What else is reached, through nodes that were followed before."""

    def whole(self) -> Reach:
        """This together with all its parts."""
        found, seen, waiting = Reach(), set(), [self]
        while waiting:
            part = waiting.pop()
            if id(part) not in seen:
                seen.add(id(part))
                found.nodes |= part.nodes
                found.leaves.update(part.leaves)
                found.checkpointed |= part.checkpointed
                waiting += part.parts
        return found


_numbers = itertools.count()


def identity(node: Any) -> int:
    """A number of a node: torch's sequence number, in torch 2.0 one that is written on the node.

    It keeps nothing alive.
    """
    number = getattr(node, "_sequence_nr", None)
    if number is not None:
        return int(number())
    return int(node.metadata.setdefault("gradmatrix", next(_numbers)))


def kind_of(node: Any) -> str:
    """The operation of a node, such as ``Mul``."""
    return type(node).__name__.partition("Backward")[0]


def transformed(tensor: Any) -> bool:
    """Whether ``tensor`` is one of ``torch.func``: inside of vmap it has no single values."""
    functorch = sys.modules["torch"]._C._functorch
    return bool(functorch.is_batchedtensor(tensor) or functorch.is_gradtrackingtensor(tensor))


def children(node: Any) -> List[Any]:
    """The nodes that come next in a backward pass."""
    return [each for each, _ in node.next_functions if each is not None]


def reach(roots: Iterable[Any]) -> Reach:
    """What a backward pass from the tensors ``roots`` reaches."""
    found = Reach()
    for root in roots:
        if root.grad_fn is not None:
            follow(root.grad_fn, found)
        elif root.requires_grad:
            found.leaves[id(root)] = root
    return found


def own_parameters(module: Any) -> Iterator[Any]:
    """The parameters of a module that are in no other one that runs."""
    yield from module.parameters(recurse=False)
    for child in module.children():
        if type(child).__name__ in PARAMETERS:
            yield from child.parameters()


SUMS = ("Add", "Sub", "Sum", "Mean", "Stack", "Cat")
PASSING = ("Neg", "Clone", "Alias", "ToCopy", "Squeeze", "Unsqueeze", "View", "UnsafeView")
MULTIPLES = ("Mul", "Div")
AVERAGED = (*SUMS, *PASSING, *MULTIPLES, "Pow", "Abs", "Sqrt", "Where")
"""What a loss of differences is written with."""


def summands(roots: Iterable[Any], through: Tuple[str, ...] = (*SUMS, *PASSING)) -> Set[int]:
    """The nodes of the parts of which the scalars ``roots`` are sums, by identity.

    A part may be multiplied by a constant. ``through`` are the operations that give sums.
    """
    waiting = [root.grad_fn for root in roots if root.grad_fn is not None]
    found: Set[int] = set()
    while waiting and len(found) < MOST:
        node = waiting.pop()
        if identity(node) in found:
            continue
        found.add(identity(node))
        kind, following = kind_of(node), children(node)
        if kind in through or (kind in MULTIPLES and len(following) == 1):
            waiting += following
    return found


def near(start: Any) -> Set[int]:
    """``start`` and the first few nodes behind it, by identity."""
    waiting, found = [start], set()
    for node in waiting:
        found.add(identity(node))
        if len(waiting) < NEAR:
            waiting += children(node)
    return found


def behind(node: Any, known: Dict[int, Reach]) -> Reach:
    """What is reached from ``node``, without a reference to any of it.

    ``known`` tells by which earlier call a node was reached; what lies behind it is not followed
    again. If it has more than MOST nodes, it is forgotten.
    """
    if len(known) > MOST:  # a script may never step
        known.clear()
    found = follow(node, Reach(), known)
    found.leaves, found.functions = dict.fromkeys(found.leaves), []
    known.update(dict.fromkeys(found.nodes, found))
    return found


def follow(start: Any, found: Reach, known: Optional[Dict[int, Reach]] = None) -> Reach:
    """Add to ``found`` all that is reached from the node ``start``."""
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
            continue
        number = identity(node)
        if known and number in known:
            found.parts.append(known[number])
        else:
            found.nodes.add(number)
            if hasattr(node, "_forward_cls"):
                found.functions.append(node)
            found.checkpointed |= "Checkpoint" in type(node).__name__
            waiting += children(node)
    return found


def is_compiling(torch: Any) -> Callable[[], bool]:
    """A function that tells whether torch.compile is reading the code that runs.

    Torch 2.0 to 2.2 have it in dynamo only.
    """
    found: Any = getattr(getattr(torch, "compiler", None), "is_compiling", None)
    if found is not None:
        return lambda: bool(found())

    def compiling() -> bool:
        dynamo = sys.modules.get("torch._dynamo")  # to import it takes half a second
        return dynamo is not None and bool(getattr(dynamo, "is_compiling", bool)())

    return compiling
