"""Watch requests for gradients: whether the root has a graph, and in which modes backward runs."""

from __future__ import annotations

import math
from functools import wraps
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from . import protocol
from .replaced import replace
from .torches import is_compiling, unseen, unwrapped

if TYPE_CHECKING:
    from .torches import Trouble
    from .updates import UpdateWatch

CALLS_KEPT = 32


class BackwardWatch:
    """Wraps ``torch.autograd.backward`` and ``torch.autograd.grad``; only outermost calls count.

    Reentrant checkpointing calls backward again inside a running backward pass; those calls are
    torch's own.
    """

    def __init__(
        self,
        clock: Callable[[], int],
        trouble: Trouble,
        about_to: Callable[..., Any],
        updates: UpdateWatch,
    ) -> None:
        self.clock = clock
        self.trouble = trouble
        self.about_to = about_to
        """Called before an audited call with its roots and whether all of them have a graph."""
        self.updates = updates
        self.differentiated: Callable[[Any], object] = bool
        """Called with the inputs of each call of ``torch.autograd.grad``."""
        self.gave_values: Callable[[List[Any]], object] = bool
        """Called with the roots of such a call if the gradients that it gave have no graph."""
        self.before: Callable[[], object] = bool
        """Called before every outermost call."""
        self.passed: Callable[[], object] = bool
        """Called after every outermost call of backward in the audited steps."""
        self.unscaled: Callable[[Any], Any] = lambda root: root.detach()
        """The value of a root, without the scale of a GradScaler."""
        self.nonfinite_from: Optional[int] = None
        """The first step with a loss that was seen to be NaN or infinite."""
        self.calls: List[Dict[str, Any]] = []
        self._loss_of_step: Dict[int, float] = {}
        self.asked = 0
        """How often gradients were asked for since the last tick."""
        self._depth = 0
        self._light = False
        self.another = False
        """Another training has begun after the audit: its first step is looked at."""
        self._undo_grad: Callable[[], None] = lambda: None
        self._last_roots: List[Any] = []

    def install(self) -> Callable[[], None]:
        """Replace both functions. The returned function restores the originals."""
        import torch

        autograd = torch.autograd
        original = autograd.backward

        def undo() -> None:
            self._undo_grad()
            autograd.backward = original

        autograd.backward = self._watched_backward(torch, original)  # also in compiled code
        self._undo_grad = replace(autograd, "grad", self._watched_grad(torch, autograd.grad))
        return undo

    def _watched_backward(self, torch: Any, original: Callable[..., Any]) -> Callable[..., Any]:
        single = root_types(torch)

        @wraps(original)
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            tensors = (tensors,) if isinstance(tensors, single) else tuple(tensors)
            if self._depth:
                return original(tensors, *args, **kwargs)
            self.asked += 1
            roots = [root for root in tensors if isinstance(root, torch.Tensor)]
            given = named(args, kwargs)
            frees = not (given.get("retain_graph") or given.get("create_graph"))
            self._guarded(lambda: self._observe(torch, roots, frees=frees))
            asked = not self.updates.over and self._guarded(lambda: self.updates.backward(roots))
            self._depth += 1
            try:
                result = original(tensors, *args, **kwargs)
            finally:
                self._depth -= 1
            if not self._light:
                self._guarded(self.passed)
            if asked:
                self._guarded(lambda: self.updates.answer(asked, [w.latest.grad for w in asked]))
            return result

        return backward

    def _watched_grad(self, torch: Any, original: Callable[..., Any]) -> Callable[..., Any]:
        single, compiling = root_types(torch), is_compiling(torch)

        @wraps(original)
        def grad(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if self._depth or compiling():
                return original(outputs, inputs, *args, **kwargs)
            self.asked += 1
            outputs = (outputs,) if isinstance(outputs, single) else tuple(outputs)
            inputs = (inputs,) if isinstance(inputs, single) else tuple(inputs)
            roots = [root for root in outputs if isinstance(root, torch.Tensor)]
            if not all(root.requires_grad for root in roots):
                self._guarded(lambda: self._observe(torch, roots, frees=False))
            self.differentiated(inputs)
            asked = self._guarded(lambda: self.updates.request(lambda: bare(torch, inputs)))
            gradients = original(outputs, inputs, *args, **kwargs)
            if asked:
                self._guarded(lambda: self.updates.answer(asked, bare(torch, gradients)))
            if not named(args, kwargs).get("create_graph"):
                self._guarded(lambda: self.gave_values(roots))
            return gradients

        return grad

    def _guarded(self, watch: Callable[[], Any]) -> Any:
        """What ``watch`` returns; None if it fails, which never reaches the script."""
        import torch

        try:
            with unseen(torch):
                return watch()
        except Exception as error:
            self.trouble.add("backward", error)
            return None

    def running(self) -> bool:
        """Whether a backward pass is running."""
        return self._depth > 0

    def first_step(self) -> None:
        """An optimizer steps for the first time: all passes so far were for this step."""
        if self._loss_of_step:
            self._loss_of_step = {1: sum(self._loss_of_step.values())}

    def skipped(self, made: int) -> None:
        """A GradScaler skipped a step, after steps that were ``made``: its losses do not count."""
        self._loss_of_step = {k: v for k, v in self._loss_of_step.items() if k <= made}

    def lighten(self) -> None:
        """Keep only the last roots from now on: the audit is over."""
        self._light = True
        if self.updates.over:
            self._undo_grad()

    def _observe(self, torch: Any, roots: List[Any], *, frees: bool) -> None:
        self.before()
        self._last_roots = [self.unscaled(root) for root in roots if root.numel() == 1]
        self._look_at_loss()
        if not roots:
            return
        if self._light and all(root.requires_grad for root in roots):
            if self.another:
                self.about_to(roots, whole=True, frees=frees)
            return
        step = self.clock()
        loss = total(self._last_roots)
        if loss is not None and not self._light:
            self._loss_of_step[step] = self._loss_of_step.get(step, 0.0) + loss
        worst = next((root for root in roots if not root.requires_grad), roots[0])
        switch = self.about_to(roots, whole=bool(worst.requires_grad), frees=frees)
        if len(self.calls) < CALLS_KEPT:
            self.calls.append(
                {
                    "step": step,
                    "requires_grad": bool(worst.requires_grad),
                    "grad_fn": type(worst.grad_fn).__name__ if worst.grad_fn is not None else None,
                    "loss": protocol.number(loss),
                    **modes(torch),
                    "switch": switch,
                }
            )

    def _look_at_loss(self) -> None:
        """Note the first loss that is not finite. After the audit no device is made to wait."""
        if self.nonfinite_from is None and all(
            not self._light or root.device.type == "cpu" for root in self._last_roots
        ):
            loss = total(self._last_roots)
            if loss is not None and not math.isfinite(loss):
                self.nonfinite_from = self.clock()

    def loss_of(self, step: int) -> Optional[float]:
        """The loss of an audited step, or None."""
        return self._loss_of_step.get(step)

    def losses(self) -> List[Optional[float]]:
        """The loss of each audited step: the sum of its backward roots.

        None if it had no scalar root.
        """
        last = max(self._loss_of_step, default=0)
        return [self._loss_of_step.get(step) for step in range(1, last + 1)]

    def last_loss(self) -> Optional[float]:
        """The sum of the scalar roots of the last backward call, or None."""
        try:
            return total(self._last_roots)
        except Exception as error:  # a device that failed cannot be read
            self.trouble.add("last loss", error)
            return None


def named(args: Any, kwargs: Dict[str, Any]) -> Dict[str, Any]:
    """The arguments of a request for gradients by name, without what is differentiated."""
    return dict(zip(("grad_tensors", "retain_graph", "create_graph"), args), **kwargs)


def root_types(torch: Any) -> Tuple[Any, ...]:
    """The types of one root of a graph; other arguments are sequences of roots."""
    edge = getattr(torch.autograd.graph, "GradientEdge", None)
    return (torch.Tensor,) if edge is None else (torch.Tensor, edge)


def bare(torch: Any, tensors: Any) -> List[Any]:
    """``tensors`` without the wrappers of torch.func."""
    listed = (tensors,) if isinstance(tensors, torch.Tensor) else tensors
    return [unwrapped(torch, tensor) for tensor in listed]


def total(roots: List[Any]) -> Optional[float]:
    """The sum of the scalars among ``roots``; None if there is none."""
    scalars = [float(root.item()) for root in roots if root.numel() == 1 and not root.is_complex()]
    return sum(scalars) if scalars else None


def modes(torch: Any) -> Dict[str, Any]:
    """Grad mode, inference mode and autocast at this moment."""
    return {
        "grad_enabled": bool(torch.is_grad_enabled()),
        "inference_mode": bool(torch.is_inference_mode_enabled()),
        "autocast": _autocast(torch),
    }


def _autocast(torch: Any) -> Optional[str]:
    for device in ("cpu", "cuda"):
        try:
            enabled, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype
            dtype = dtype(device) if enabled else None
        except (AttributeError, TypeError):  # torch < 2.4
            enabled = (
                torch.is_autocast_cpu_enabled() if device == "cpu" else torch.is_autocast_enabled()
            )
            dtype = (
                torch.get_autocast_cpu_dtype()
                if device == "cpu"
                else torch.get_autocast_gpu_dtype()
            )
        if enabled:
            return f"{device}:{str(dtype).replace('torch.', '')}"
    return None
