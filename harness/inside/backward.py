"""Watch ``torch.autograd.backward``: whether the root has a graph, and in which modes it was called."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from . import protocol

CALLS_KEPT = 32


class BackwardWatch:
    """Wraps ``torch.autograd.backward``; only outermost calls count.

    Reentrant checkpointing calls it again from inside a running backward pass: those calls are torch's plumbing.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.calls: List[Dict[str, Any]] = []
        self._loss_of_step: Dict[int, float] = {}
        self._depth = 0
        self._light = False
        self._last_root: Any = None

    def install(self) -> Callable[[], None]:
        """Replace ``torch.autograd.backward``; the returned function puts the original back."""
        import torch

        original = torch.autograd.backward

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if self._depth == 0:
                root = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors), None)
                if root is not None:
                    self._last_root = root.detach()
                    if not self._light:
                        self._observe(torch, root)
            self._depth += 1
            try:
                return original(tensors, *args, **kwargs)
            finally:
                self._depth -= 1

        torch.autograd.backward = backward

        def undo() -> None:
            torch.autograd.backward = original

        return undo

    def lighten(self) -> None:
        """After the audit keep only the last root."""
        self._light = True

    def _observe(self, torch: Any, root: Any) -> None:
        step = self.clock()
        loss = root.detach().float().item() if root.numel() == 1 else None
        if loss is not None:
            self._loss_of_step[step] = self._loss_of_step.get(step, 0.0) + loss
        if len(self.calls) < CALLS_KEPT:
            self.calls.append(
                {
                    "step": step,
                    "requires_grad": bool(root.requires_grad),
                    "grad_fn": type(root.grad_fn).__name__ if root.grad_fn is not None else None,
                    "loss": protocol.number(loss),
                    **modes(torch),
                }
            )

    def losses(self) -> List[Optional[float]]:
        """Loss of each audited step: the sum of its backward roots; None where a step had no scalar root."""
        last = max(self._loss_of_step, default=0)
        return [self._loss_of_step.get(step) for step in range(1, last + 1)]

    def last_loss(self) -> Optional[float]:
        """The last scalar root of all, or None."""
        root = self._last_root
        return float(root.float().item()) if root is not None and root.numel() == 1 else None


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
            enabled = torch.is_autocast_cpu_enabled() if device == "cpu" else torch.is_autocast_enabled()
            dtype = torch.get_autocast_cpu_dtype() if device == "cpu" else torch.get_autocast_gpu_dtype()
        if enabled:
            return f"{device}:{str(dtype).replace('torch.', '')}"
    return None
