"""The first NaN or infinity: in an operation, a module's output, a gradient or a parameter.

In the audited steps every module's output is looked at, and every operation of a list that can make
NaN or infinity of finite numbers, in the forward and in the backward pass. Each tensor is reduced
on its device, and two numbers are read from it.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Iterable, List, Optional, Tuple

from .frames import frames, here, line
from .torches import kind_of, local, unseen

if TYPE_CHECKING:
    from .frames import Lines

OPERATIONS = (
    *("log", "log2", "log10", "log1p", "logit", "xlogy", "lgamma", "digamma", "erfinv"),
    *("exp", "exp2", "expm1", "sinh", "cosh", "tan", "square", "pow", "float_power"),
    *("sqrt", "rsqrt", "reciprocal", "div", "true_divide", "half"),
    *("__truediv__", "__rtruediv__", "__pow__", "__rpow__", "mul", "__mul__", "__rmul__", "sum"),
    *("acos", "asin", "arccos", "arcsin", "acosh", "atanh", "atan2"),
    *("norm", "std", "var", "mean", "nanmean", "prod", "cumprod", "hypot"),
    *("softmax", "log_softmax", "logsumexp", "matmul", "mm", "bmm", "__matmul__", "einsum"),
    "ctc_loss",
)
"""Operations whose value or derivative can be NaN or infinite at finite numbers."""
FLATTENING = ("sigmoid", "tanh", "softmax", "log_softmax", "clamp", "clip")
"""Operations that have a derivative of exactly zero where they are flat."""
CUTTING = {"Relu": "relu", "Clamp": "clamp", "ClampMin": "clamp"}
"""Functions that make zeros of what is below 0, by their node in the graph."""
PRODUCTS = ("mul", "__mul__", "__rmul__")
SHOWN = {
    "__truediv__": "/",
    "__rtruediv__": "/",
    "__mul__": "*",
    "__rmul__": "*",
    "__pow__": "**",
    "__rpow__": "**",
    "__matmul__": "@",
}
DEVIATIONS = ("std", "var")
SOFTMAX = ("softmax", "log_softmax")
"""They make NaN of rows that are minus infinity everywhere, and of nothing else."""
MASKING = ("masked_fill", "where")
"""They may write minus infinity where a mask says so."""
MASKING_IN_PLACE = ("masked_fill_", "__setitem__")
FILLS_KEPT = 32
FACTORS = {SHOWN.get(name, name) for name in PRODUCTS}


class FiniteWatch:
    """Finds the first NaN or infinity, and the first module whose output is all zeros."""

    def __init__(self, clock: Callable[[], int], running: Callable[[], Any]) -> None:
        self.clock = clock
        self.running = running
        """The innermost module that is running, or None."""
        self.found: Dict[str, Dict[str, Any]] = {}
        """By what it is: "output", "gradient" or "value"."""
        self.zero: Optional[Dict[str, Any]] = None
        """The first module whose output was all zeros although its input and its parameters were
        not."""
        self._forward: Dict[str, Dict[str, Any]] = {}
        """The first operation that made "worse" than minus infinity, and the first that made only
        that, as for a "mask"."""
        self.loss_of: Callable[[int], Optional[float]] = lambda _step: None
        """The loss of a step, or None."""
        self._fills: Deque[Tuple[Any, Optional[Lines]]] = deque(maxlen=FILLS_KEPT)
        """Tensors that a mask was written into, and where."""
        self._last: Optional[Dict[str, Any]] = None
        """The last operation that made NaN or infinity of finite numbers."""
        self._backward: Optional[Dict[str, Any]] = None
        """The first operation whose derivative made NaN or infinity of a finite gradient."""
        self.flat: Optional[Dict[str, Any]] = None
        """The first operation of FLATTENING that got a gradient and passed only zeros on."""
        self.product: Optional[Dict[str, Any]] = None
        """The first product that did so: its other factor is zero."""
        self.scaling: Callable[[], bool] = bool
        """Whether a GradScaler multiplies a loss at this moment: that product may overflow."""
        self._looking = False

    def let_go(self) -> None:
        """Keep nothing of the script alive."""
        self.found.clear()
        self._forward.clear()
        self.zero = self.flat = self.product = self._backward = self._last = None

    def output(self, module: Any, inputs: List[Any], outputs: List[Any]) -> None:
        """Look at a module's output.

        A module whose input or parameters were already non-finite is not to blame.
        """
        if "output" in self.found or "value" in self.found:
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
            # A new LoRA's B matrix is zero, and so is its output: that is no fault.
            own = list(module.parameters(recurse=False))
            if any(map(greatest, inputs)) and (not own or any(map(greatest, own))):
                self.zero = {"step": self.clock(), "owner": module, "frames": frames()}
                self.zero["operation"] = CUTTING.get(kind_of(outputs[0].grad_fn))

    def operation(self, name: str) -> Callable[..., None]:
        """A function that looks at the result of each call of the operation ``name``."""

        def look(result: Any, *given: Any, **named: Any) -> None:
            if self._looking or "output" in self.found or not floating(result) or self.scaling():
                return
            self._looking = True
            try:
                if name in MASKING:
                    self.masked(result)
                if self._may_be_flat(name):
                    self._look_for_flat(name, result, dimension(given, named))
                if name in OPERATIONS:
                    self._look(name, result, given, named)
            finally:
                self._looking = False

        return look

    def masked(self, tensor: Any) -> None:
        """A mask was written into ``tensor``."""
        self._fills.append((weakref.ref(tensor), here()))

    def _filled_by(self, rank: int, dim: Any) -> List[Dict[str, Any]]:
        """Where whole rows along ``dim`` of ``rank`` dimensions were last made minus infinity."""
        if not isinstance(dim, int):
            return []
        for reference, at in reversed(self._fills):
            tensor = reference()
            if tensor is not None and full(tensor, dim - rank * (dim >= 0)):
                return line(at)
        return []

    def _may_be_flat(self, name: str) -> bool:
        known = self.product if name in PRODUCTS else self.flat
        return known is None and name in (*FLATTENING, *PRODUCTS)

    def _look_for_flat(self, name: str, result: Any, dim: Any) -> None:
        """Look at what comes back through ``result``; ``dim`` is that of a softmax."""
        if result.grad_fn is None or transformed():
            return
        alone = "softmax" in name and isinstance(dim, int) and result.shape[dim] == 1
        found = {
            "step": self.clock(),
            "operation": f"{name} over one value" if alone else SHOWN.get(name, name),
        }
        module = self.running()
        owner = None if module is None else weakref.ref(module)
        result.grad_fn.register_hook(partial(self._flattened, found, owner, here()))

    def _look(self, name: str, result: Any, given: Tuple[Any, ...], named: Dict[str, Any]) -> None:
        follows = result.grad_fn is not None and self._backward is None and not transformed()
        if not follows and "worse" in self._forward:
            return
        found = {"step": self.clock(), "operation": SHOWN.get(name, name)}
        module, finite = self.running(), math.isfinite(greatest(result))
        if not finite and (
            all(math.isfinite(greatest(tensor)) for tensor in tensors(given))
            or (name in SOFTMAX and all(masks(tensor) for tensor in tensors(given)))
        ):
            made = {**found, "sizes": sizes(name, result, given, named), "frames": frames()}
            if name in SOFTMAX:
                made["masked"] = self._filled_by(result.dim(), dimension(given, named))
            kind = "mask" if masks(result) else "worse"
            if "worse" not in self._forward:
                self._forward.setdefault(kind, {**made, "owner": module})
            self._last = {**made, "owner": None if module is None else weakref.ref(module)}
        if follows:
            owner = None if module is None else weakref.ref(module)
            found.update(hidden=not finite, last=None if finite else self._last)
            result.grad_fn.register_hook(partial(self._differentiated, found, owner, here()))

    def _differentiated(
        self,
        found: Dict[str, Any],
        owner: Any,
        at: Optional[Lines],
        inner: Iterable[Any],
        outer: Iterable[Any],
    ) -> None:
        """An operation made the gradients ``inner`` of the gradients ``outer`` of its result.

        If its value was not finite either, the operation that made it so is to blame.
        """
        import torch

        if self._backward is not None:
            return
        with unseen(torch):
            if all_finite(inner) or not all_finite(outer):
                return
        loss, last = self.loss_of(found["step"]), found["last"]
        hidden = found["hidden"] and loss is not None and math.isfinite(loss)
        self._backward = {**found, "owner": owner and owner(), "frames": line(at), "hidden": hidden}
        if hidden and last is not None and last["step"] == found["step"]:
            self._backward.update(last, owner=last["owner"] and last["owner"]())

    def _flattened(
        self,
        found: Dict[str, Any],
        owner: Any,
        at: Optional[Lines],
        inner: Iterable[Any],
        outer: Iterable[Any],
    ) -> None:
        """An operation passed on the gradients ``inner`` of the gradients ``outer``."""
        import torch

        with unseen(torch):
            given = [greatest(each) for each in present(inner)]
            stopped = given and not any(given) and any(map(greatest, present(outer)))
        if stopped:
            flat = {**found, "owner": owner and owner(), "frames": line(at)}
            if found["operation"] in FACTORS:
                self.product = self.product or flat
            else:
                self.flat = self.flat or flat

    def stops(self, operation: str) -> None:
        """An ``operation`` of which it is known that it passes only zeros on."""
        found = {"step": self.clock(), "operation": operation, "owner": None}
        self.flat = self.flat or {**found, "frames": frames()}

    def note(self, where: str, owner: Any, frames: List[Dict[str, Any]]) -> None:
        """Keep the first of its kind; ``owner`` is a parameter."""
        self.found.setdefault(where, {"step": self.clock(), "owner": owner, "frames": frames})

    def first(self) -> Optional[Dict[str, Any]]:
        """The earliest finding.

        Within a step, outputs come before gradients, and gradients before updates. An operation
        says more than the module or the parameter in which it showed.
        """
        found = dict(self.found)
        forward = self._explains("worse") or self._explains("mask")
        if forward is not None:
            found["output"] = forward
        backward = self._backward
        if backward is not None and found.get("gradient", backward)["step"] >= backward["step"]:
            found["gradient"] = backward
            if backward["hidden"] and found.get("output", backward)["step"] >= backward["step"]:
                found.pop("output", None)  # the loss of that step left it out
        order = ("output", "gradient", "value")
        kept = [{**found[where], "where": where} for where in order if where in found]
        return min(kept, key=lambda each: each["step"]) if kept else None

    def _explains(self, kind: str) -> Optional[Dict[str, Any]]:
        """The first operation of this kind, if the loss was not finite because of it.

        Or if the output of a module was not: a loss may leave out what its gradient does not.
        """
        operation, output = self._forward.get(kind), self.found.get("output")
        if operation is None:
            return None
        loss = self.loss_of(operation["step"])
        together = output is not None and output["step"] == operation["step"]
        if loss is not None and math.isfinite(loss) and not together:
            return None
        if output is None or operation["step"] < output["step"]:
            return operation
        mine = kind == "worse" or operation["owner"] is output["owner"]
        return operation if mine and operation["step"] == output["step"] else None


def dimension(given: Tuple[Any, ...], named: Dict[str, Any]) -> Any:
    """The dimension that a softmax is given."""
    return named.get("dim", given[1] if len(given) > 1 else None)


def sizes(name: str, result: Any, given: Tuple[Any, ...], named: Dict[str, Any]) -> Tuple[int, ...]:
    """How many values a standard deviation is of, if it is one.

    Of a CTC loss: the steps of the first input that is too short, and those that its labels need.
    """
    if name in DEVIATIONS and given[0].numel() == result.numel():
        return (1,)
    return short(*given, **named) if name == "ctc_loss" else ()


def short(
    _log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *_: Any, **__: Any
) -> Tuple[int, ...]:
    """The arguments of a CTC loss. Between two equal labels one more step is needed."""
    import torch

    steps, lengths = (
        torch.as_tensor(each).reshape(-1).tolist() for each in (input_lengths, target_lengths)
    )
    left = targets.reshape(-1).tolist()
    width = targets.shape[-1] if targets.dim() > 1 else None
    for has, length in zip(steps, lengths):
        labels, left = left[:length], left[width or length :]
        needs = length + sum(map(int.__eq__, labels, labels[1:]))
        if has < needs:
            return has, needs
    return ()


def floating(value: Any) -> bool:
    """Whether ``value`` is a floating-point tensor."""
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point()


def present(gradients: Iterable[Any]) -> List[Any]:
    """The gradients that are there."""
    return [each for each in gradients if each is not None]


def all_finite(gradients: Iterable[Any]) -> bool:
    """Whether all gradients that are there are finite."""
    return all(math.isfinite(greatest(each)) for each in present(gradients))


def tensors(values: Iterable[Any]) -> List[Any]:
    """The floating-point tensors among ``values``."""
    return [value for value in values if floating(value)]


def transformed() -> bool:
    """Whether a transform of torch.func runs. Its graphs are torch's own."""
    import torch

    try:
        return torch._C._functorch.peek_interpreter_stack() is not None
    except AttributeError:  # another torch has it elsewhere
        return False


def greatest(tensor: Any) -> float:
    """The largest magnitude in ``tensor``: NaN if it has one, 1 if it is empty or unreadable.

    Nothing here may be saved for backward, because non-reentrant checkpointing counts what a pass
    saves. A copy of the tensor might not fit in memory.
    """
    try:
        least, most = bounds(tensor)
        return least if math.isnan(least) else max(abs(least), abs(most))
    except Exception:  # fake, batched, sparse or empty: unreadable
        return 1.0


def bounds(tensor: Any) -> Tuple[float, float]:
    """The least and the greatest element.

    Raises:
        RuntimeError: if they cannot be read, also while a CUDA graph is recorded, which reading
            would break.
    """
    import torch

    if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
        raise RuntimeError("a CUDA graph is being recorded")
    values = torch._C._TensorBase.detach(local(tensor))
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    least, most = torch.aminmax(values)
    item = torch._C._TensorBase.item  # Tensor.item is watched
    return float(item(least)), float(item(most))


def full(tensor: Any, dim: int) -> bool:
    """Whether a row of ``tensor`` along ``dim``, counted from the end, is all minus infinity."""
    import torch

    with contextlib.suppress(Exception):  # it has no such dimension, or is unreadable
        rows = torch.amax(torch._C._TensorBase.detach(local(tensor)), dim)
        return bounds(rows)[0] == -math.inf
    return False


def masks(tensor: Any) -> bool:
    """Whether ``tensor`` has nothing worse than minus infinity, which attention masks contain."""
    return bounds(tensor)[1] < math.inf
