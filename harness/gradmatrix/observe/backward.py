"""Watch ``torch.autograd.backward``: whether the root has a graph, and in which modes it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from . import protocol

if TYPE_CHECKING:
    from .torches import Trouble

CALLS_KEPT = 32


class BackwardWatch:
    """Wraps ``torch.autograd.backward``; only outermost calls count.

    Reentrant checkpointing calls it again inside a running backward pass; those calls are torch's
    own.
    """

    def __init__(
        self, clock: Callable[[], int], trouble: Trouble, about_to: Callable[..., Any]
    ) -> None:
        self.clock = clock
        self.trouble = trouble
        self.about_to = about_to
        """Called before an audited call with its roots and whether all of them have a graph."""
        self.before: Callable[[], object] = bool
        """Called before every outermost call."""
        self.calls: List[Dict[str, Any]] = []
        self._loss_of_step: Dict[int, float] = {}
        self._depth = 0
        self._light = False
        self._last_roots: List[Any] = []

    def install(self) -> Callable[[], None]:
        """Replace ``torch.autograd.backward``. The returned function restores the original."""
        import torch

        original = torch.autograd.backward
        single = tuple(
            kind
            for kind in (torch.Tensor, getattr(torch.autograd.graph, "GradientEdge", None))
            if kind
        )

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            tensors = (tensors,) if isinstance(tensors, single) else tuple(tensors)
            if self._depth == 0:
                try:
                    self.before()
                    self._observe(
                        torch, [root for root in tensors if isinstance(root, torch.Tensor)]
                    )
                except Exception as error:
                    self.trouble.add("backward", error)
            self._depth += 1
            try:
                return original(tensors, *args, **kwargs)
            finally:
                self._depth -= 1

        torch.autograd.backward = backward

        def undo() -> None:
            torch.autograd.backward = original

        return undo

    def running(self) -> bool:
        """Whether a backward pass is running."""
        return self._depth > 0

    def lighten(self) -> None:
        """Keep only the last roots from now on: the audit is over."""
        self._light = True

    def _observe(self, torch: Any, roots: List[Any]) -> None:
        self._last_roots = [root.detach() for root in roots]
        if not roots or (self._light and all(root.requires_grad for root in roots)):
            return
        step = self.clock()
        loss = total(roots)
        if loss is not None and not self._light:
            self._loss_of_step[step] = self._loss_of_step.get(step, 0.0) + loss
        worst = next((root for root in roots if not root.requires_grad), roots[0])
        switch = self.about_to(roots, whole=bool(worst.requires_grad))
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


def total(roots: List[Any]) -> Optional[float]:
    """The sum of the scalars among ``roots``; None if there is none."""
    scalars = [
        float(root.detach().float().item())
        for root in roots
        if root.numel() == 1 and not root.is_complex()
    ]
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
