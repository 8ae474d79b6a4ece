"""What an optimizer holds, at which learning rate, and what kind of gradient a parameter has."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional

from .values import local


def highest_rate(optimizer: Any) -> Optional[float]:
    """The highest learning rate of an optimizer's groups; None where it chooses it by itself."""
    rates = [group.get("lr") for group in optimizer.param_groups]
    return None if None in rates or not rates else max(map(float, rates))


def rate_of(optimizer: Any, parameter: Any) -> Optional[float]:
    """The learning rate of the group that holds ``parameter``; None where none does, or it chooses its own."""
    groups = (g for g in optimizer.param_groups if any(parameter is member for member in g["params"]))
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
