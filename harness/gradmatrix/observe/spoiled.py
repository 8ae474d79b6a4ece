"""Tensors that backward needs and does not have any more.

They were changed in place, or an earlier backward pass freed the graph. What happened during the
audit is remembered at the price of one frame for each call, and is read only if torch raises the
error.
"""

from __future__ import annotations

import math
import re
from collections import deque
from typing import TYPE_CHECKING, Any, Deque, Dict, List, Optional, Set, Tuple

from .frames import Lines, here, line
from .torches import MOST, Reach, follow, identity, is_parameter, named

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


class SpoiledWatch:
    """Remembers calls that change tensors in place, steps of optimizers, and backward passes."""

    def __init__(self, forward: ForwardWatch) -> None:
        self.forward = forward
        self._changes: Deque[Tuple[str, List[Any], int, Optional[Lines]]] = deque(
            maxlen=CHANGES_KEPT
        )
        self._steps: Dict[Tuple[int, ...], Optional[Lines]] = {}
        """The last step that changed a parameter of each shape."""
        self._freed: Deque[Tuple[Set[Any], Dict[Any, Tuple[Any, Any]], Optional[Lines]]] = deque(
            maxlen=PASSES_KEPT
        )
        """The nodes of the last backward passes that freed their graph, with the outputs of modules
        among them, and the lines of the calls."""
        self._again: Optional[Dict[str, Any]] = None

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

    def about_to(self, roots: List[Any], nodes: Set[Any], *, frees: bool) -> None:
        """A backward pass is about to go from ``roots`` through ``nodes``.

        ``frees``: it does not retain them.
        """
        self._again = None
        for known, outputs, at in reversed(self._freed):
            shared = known & nodes
            if shared:
                last = max((node for node in shared if node in outputs), default=None)
                module, made = outputs.get(last, (None, None))
                self._again = {"module": module, "frames": line(made), "before": line(at)}
                first = min(outputs, default=None)
                self._again["early"] = first is not None and max(shared) < first
                self._again.update(self._behind(roots, shared))
                break
        if frees:
            outputs = {node: (module, at) for node, module, at in self.forward.outputs}
            mine = {node: given for node, given in outputs.items() if node in nodes}
            self._freed.append((nodes, mine, here()))

    def _behind(self, roots: List[Any], shared: Set[Any]) -> Dict[str, Any]:
        """The first parameter behind ``shared`` nodes, and the shape of a leaf that is none."""
        found = Reach()
        seen: Set[Any] = set()
        waiting = [root.grad_fn for root in roots if root.grad_fn is not None]
        while waiting and len(seen) < MOST:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if identity(node) in shared:
                follow(node, found)
            else:
                waiting += [each for each, _ in node.next_functions if each is not None]
        tops = {id(top): top for top in map(self.forward.tree.top, self.forward.roots())}
        _, names = named(list(tops.values()))
        data = [leaf for leaf in found.leaves.values() if not is_parameter(leaf)]
        return {
            "leaf": next((names[each] for each in found.leaves if each in names), None),
            "data": list(data[0].shape) if data else None,
        }

    def forget(self) -> None:
        """The audit is over."""
        self._changes.clear()
        self._freed.clear()
        self._again = None

    def of(self, message: str) -> Optional[Dict[str, Any]]:
        """What explains an exception with this message; None if it is about something else."""
        if FREED.search(message):
            found = self._again or {"module": None, "frames": [], "before": []}
            return {**found, "how": "freed", "tensor": ""}
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
        return {**known, "how": "step" if at is not None else "", "frames": line(at)}
