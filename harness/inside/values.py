"""A parameter's value before a step, small enough to keep: whether the step changed it."""

from __future__ import annotations

from typing import Any, Tuple

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
        flat = tensor.detach().reshape(-1) if tensor.is_contiguous() else tensor.detach()[:1].reshape(-1)
        return flat[:: max(1, flat.numel() // WHOLE)]

    def _summed(self, tensor: Any) -> Tuple[float, ...]:
        torch, value = self._torch, tensor.detach()
        sums = [float(value.sum(dtype=torch.float64)), float(torch.linalg.vector_norm(value.float()))]
        bits = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(value.element_size())
        if bits is not None and value.is_contiguous() and not value.is_complex():
            sums.append(float(value.view(bits).sum()))
        return tuple(sums)


def local(tensor: Any) -> Any:
    """This process's part of a distributed tensor: to read the whole of it, all processes would have to take part."""
    part = getattr(tensor, "to_local", None)
    return tensor if part is None else part()
