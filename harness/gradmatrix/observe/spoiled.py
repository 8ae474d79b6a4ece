"""Tensors that backward needs and does not have any more.

They were changed in place, or an earlier backward pass freed the graph. What happened during the
audit is remembered at the price of one frame for each call, and is read only if torch raises the
error.
"""

from __future__ import annotations

import math
import re
from collections import deque
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Deque,
    Dict,
    Iterable,
    List,
    NamedTuple,
    Optional,
    Set,
    Tuple,
)

from . import source
from .frames import Lines, here, line, variables
from .torches import MOST, Reach, children, follow, identity, is_parameter, named

if TYPE_CHECKING:
    from .forward import ForwardWatch

CHANGES_KEPT = 512
PASSES_KEPT = 4
IN_PLACE = (
    *(f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "pow", "and", "or")),
    "__setitem__",
    *(f"{name}_" for name in ("add", "sub", "mul", "div", "pow", "copy", "fill", "zero", "clamp")),
    *(f"{name}_" for name in ("clip", "relu", "sigmoid", "tanh", "exp", "sqrt", "abs", "neg")),
    *(f"{name}_" for name in ("masked_fill", "index_add", "index_copy", "scatter", "scatter_add")),
    *(f"{name}_" for name in ("addcmul", "addcdiv", "lerp", "squeeze", "unsqueeze", "t", "round")),
    *(f"{name}_" for name in ("normal", "uniform", "add_relu", "square", "reciprocal", "floor")),
)
"""Methods of tensors that change them in place."""
FUNCTIONS = ("relu_", "sigmoid_", "tanh_", "dropout_", "selu_", "celu_", "rrelu_")
"""Functions of torch that do so; ``nn.ReLU(inplace=True)`` calls the first."""
NATIVE = ("leaky_relu_", "hardtanh_", "elu_", "silu_", "hardswish_", "hardsigmoid_", "mish_")
"""The same, in torch's module for activations."""
OPERATORS = {"__iadd__": "+=", "__isub__": "-=", "__imul__": "*=", "__itruediv__": "/="}
CHANGED = re.compile(
    r"modified by an inplace operation: \[\S+ \[([\d, ]*)\]\](?:, which is (output \d+ of \w+),)?"
    r".*?is at version (\d+); expected version (\d+)",
    re.DOTALL,
)
FREED = re.compile(r"backward through the graph a second time")


class Pass(NamedTuple):
    """A backward pass."""

    nodes: Set[Any]
    """What it went through, by identity."""
    outputs: Dict[Any, Tuple[Any, Any]]
    """The outputs of modules in this step: the module, and the line of its call."""
    at: Optional[Lines]
    """Where it was called."""
    clock: int
    frees: bool
    """It freed the graph."""


class Again(NamedTuple):
    """A backward pass that goes through nodes of one before."""

    before: Pass
    nodes: Set[Any]
    """What it goes through, by identity."""
    behind: Dict[str, Any]
    """What is behind the nodes that both share."""
    clock: int


class SpoiledWatch:
    """Remembers calls that change tensors in place, steps of optimizers, and backward passes."""

    def __init__(self, forward: ForwardWatch) -> None:
        self.forward = forward
        self._changes: Deque[Tuple[str, List[Any], int, Optional[Lines]]] = deque(
            maxlen=CHANGES_KEPT
        )
        self._steps: Dict[Tuple[int, ...], Optional[Lines]] = {}
        """The last step that changed a parameter of each shape."""
        self._passes: Deque[Pass] = deque(maxlen=PASSES_KEPT)
        self._beside: Dict[Any, Tuple[Any, Any]] = {}
        """The further outputs of modules, such as a hidden state, by the identity of their node."""
        self._again: Optional[Again] = None

    def changed(self, tensor: Any, how: str) -> None:
        """The operation ``how`` changed ``tensor`` in place."""
        base = tensor if tensor._base is None else tensor._base
        shapes = [list(tensor.shape), list(base.shape)]
        self._changes.append((how, shapes, tensor._version, here()))

    def stepped(self, parameters: List[Any]) -> None:
        """An optimizer changed ``parameters``."""
        at = here()
        for parameter in parameters:
            self._steps[tuple(parameter.shape)] = at

    def gave(self, module: Any, tensors: List[Any]) -> None:
        """A module gave several ``tensors``."""
        at = here()
        nodes = [identity(each.grad_fn) for each in tensors if each.grad_fn is not None]
        self._beside.update(dict.fromkeys(nodes, (module, at)))

    def about_to(
        self, roots: List[Any], nodes: Set[Any], held: Callable[[int], bool], *, frees: bool
    ) -> None:
        """A backward pass is about to go from ``roots`` through ``nodes``.

        Args:
            roots: the tensors that backward is called on.
            nodes: what it goes through, by identity.
            held: whether an optimizer holds the tensor of an id.
            frees: it does not retain the nodes.
        """
        again = [each for each in reversed(self._passes) if each.nodes & nodes]
        before = next((each for each in again if each.frees), again[0] if again else None)
        self._again = None
        if before is not None:
            behind = self._behind(roots, before.nodes & nodes, held)
            self._again = Again(before, nodes, behind, self.forward.clock())
        outputs = {node: (module, at) for node, module, at in self.forward.outputs}
        outputs.update(self._beside)
        self._passes.append(Pass(nodes, outputs, here(), self.forward.clock(), frees))
        self._beside = {}

    def _behind(
        self, roots: List[Any], shared: Set[Any], held: Callable[[int], bool]
    ) -> Dict[str, Any]:
        """The first parameter behind ``shared`` nodes, and the shape of a leaf that is none.

        What is behind them is carried from one iteration to the next if most of it is used anew,
        beside the shared nodes: the same code ran again.
        """
        found, anew = Reach(), Reach()
        seen: Set[Any] = set()
        waiting = [root.grad_fn for root in roots if root.grad_fn is not None]
        while waiting and len(seen) < MOST:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if identity(node) in shared:
                follow(node, found)
            elif not node.next_functions:
                follow(node, anew)
            else:
                waiting += children(node)
        _, names = named(self.forward.tree.tops(self.forward.roots()))
        learned = {i for i, leaf in found.leaves.items() if is_parameter(leaf) or held(i)}
        data = [leaf for i, leaf in found.leaves.items() if i not in learned]
        again = learned & set(anew.leaves)
        return {
            "leaf": next((names[each] for each in found.leaves if each in names), None),
            "data": list(data[0].shape) if data else None,
            "bare": not any(map(is_parameter, found.leaves.values())),
            "carried": bool(again) and 2 * len(again) >= len(learned),
        }

    def forget(self) -> None:
        """The audit is over."""
        self._changes.clear()
        self._passes.clear()
        self._beside.clear()
        self._again = None

    def of(self, error: BaseException) -> Optional[Dict[str, Any]]:
        """What explains an exception; None if it is about something else."""
        message = str(error)
        again = None if self._again is None else shared(self._again, error)
        if FREED.search(message):
            found = again or {"module": None, "frames": [], "before": [], "name": None}
            made = source.assigns(found["name"]) if found["name"] else []
            return {**found, "how": "freed", "tensor": "", "frames": found["frames"] or made}
        match = CHANGED.search(message)
        if match is None:
            return None
        shape = [int(size) for size in re.findall(r"\d+", match.group(1))]
        known: Dict[str, Any] = {
            "tensor": f"{shape}, {match.group(2) or 'unknown'}",
            "module": None,
            "before": [],
        }
        expected = int(match.group(4))
        later = [each for each in self._changes if each[2] > expected and each[3] is not None]
        size = math.prod(shape)  # backward may need a view of the tensor, with another shape
        alike = [each for each in later if any(math.prod(of) == size for of in each[1])]
        for how, _, _, at in [*(each for each in later if shape in each[1]), *alike]:
            return {**known, "how": OPERATORS.get(how, how), "frames": line(at)}
        at = self._steps.get(tuple(shape)) or self._steps.get(tuple(reversed(shape)))
        if at is not None and again is not None and again["carried"]:
            known.update(carried=True, module=again["module"], before=again["frames"])
        return {**known, "how": "step" if at is not None else "", "frames": line(at)}


def shared(again: Again, error: BaseException) -> Dict[str, Any]:
    """What a backward pass shares with one before; ``error`` was raised in it."""
    both, outputs = again.before.nodes & again.nodes, again.before.outputs
    behind = dict(again.behind)
    first = min(set(outputs) & again.before.nodes, default=None)
    early = first is not None and max(both) < first
    by_hand = not outputs and not behind["carried"]
    modules = [module for module, _ in outputs.values()]
    name = variable(both, modules, error) if early or by_hand else None
    if name is not None:  # it was made before the model ran, and not anew in each iteration
        behind["carried"] = False
    # A hidden state is made of what the first pass went through, but need not be among it.
    among = again.nodes if behind["carried"] else both
    last = max((node for node in outputs if node in among), default=None)
    if last is None and behind["carried"]:  # it was made inside of the module that ended next
        last = min((node for node in outputs if node > max(both)), default=None)
    module, made = outputs.get(last, (None, None))
    return {
        "module": module,
        "frames": line(made),
        "before": line(again.before.at),
        "early": early,
        "name": name,
        "stepped": again.before.clock != again.clock,
        **behind,
    }


def variable(nodes: Set[Any], modules: Iterable[Any], error: BaseException) -> Optional[str]:
    """The variable whose tensor has the last of ``nodes``.

    It is one of the user's functions in which the ``error`` was raised, or an attribute of one of
    the ``modules``.
    """
    known: Dict[int, str] = {}
    for values in (*list(variables(error, of_user=True))[::-1], *map(vars, modules)):
        for name, value in list(values.items()):
            node = getattr(value, "grad_fn", None)
            if node is not None:
                known.setdefault(identity(node), name)
    return known.get(max(nodes & known.keys(), default=-1))
