"""Why updates that a script makes without an optimizer of torch change nothing."""

from __future__ import annotations

import gc
import re
from types import GeneratorType
from typing import Any, Dict, Iterator, List, Optional

from . import source
from .rates import RATE

OF_OWN = re.compile(
    r"(?:^|_)(?:lr|learning_rate|step_size)(?:_(?!min|end|final|decay|init)|$)", re.IGNORECASE
)
"""The names of learning rates in libraries that have optimizers of their own, such as lr_max."""
FEW = 64


def unmoved() -> Optional[Dict[str, Any]]:
    """What in the script explains that no value changes; None if nothing is found."""
    return at_rest() or without_effect() or used_up() or rate_of_zero()


def at_rest() -> Optional[Dict[str, Any]]:
    """An object that looks like an optimizer and has a learning rate of 0."""
    import torch

    known = (torch.optim.Optimizer, torch.nn.Module)
    likely: Dict[type, bool] = {}
    for each in gc.get_objects():
        kind = type(each)
        if kind not in likely:
            methods = callable(getattr(kind, "step", None)) and hasattr(kind, "zero_grad")
            likely[kind] = methods and not issubclass(kind, known)
        if likely[kind]:
            rates = list(rates_of(each))
            if rates and not any(rates):
                said = source.said(OF_OWN.search, is_zero)
                given = said or [(name, at) for name, _, at in source.given(OF_OWN.search)]
                text = " for ".join([*(text for text, _ in said[:1]), kind.__name__])
                return {"how": "rate", "text": text, "frames": [at for _, at in given[:1]]}
    return None


def rates_of(owner: Any) -> Iterator[float]:
    """The learning rates in the attributes of an object, and in those that are lists of groups."""
    for name, value in vars(owner).items() if hasattr(owner, "__dict__") else ():
        groups: List[Any] = [{name: value}]
        if not isinstance(value, (str, bytes, dict)) and hasattr(value, "__getitem__"):
            groups = list(value) if hasattr(value, "__len__") and 0 < len(value) <= FEW else []
        for group in groups:
            pairs = list(group.items()) if isinstance(group, dict) else []
            yield from (v for k, v in pairs if RATE.search(str(k)) and isinstance(v, (int, float)))


def without_effect() -> Optional[Dict[str, Any]]:
    """A line that makes a new tensor where it should change the old one."""
    for name, at in source.without_effect():
        return {"how": "rebound" if name else "unused", "text": name, "frames": [at]}
    return None


def used_up() -> Optional[Dict[str, Any]]:
    """A generator of parameters that is kept although nothing is left in it."""
    import torch

    codes = [getattr(torch.nn.Module, name).__code__ for name in source.GENERATORS]
    living = [each for each in gc.get_objects() if type(each) is GeneratorType]
    spent = [each for each in living if each.gi_frame is None and each.gi_code in codes]
    for each in spent:
        for owner, name in holders(each):
            frames = source.attribute(type(owner), name)
            if frames:
                return {"how": "used-up", "text": name, "frames": frames}
    kept = source.kept_generators() if spent else []
    return {"how": "used-up", "text": "", "frames": kept[:1]} if kept else None


def holders(value: Any) -> Iterator[Any]:
    """The objects that have ``value`` as an attribute, and the names of these attributes."""
    for holder in gc.get_referrers(value):
        owners = gc.get_referrers(holder) if isinstance(holder, dict) else [holder]
        for owner in (each for each in owners if hasattr(each, "__dict__")):
            for name in [name for name, each in vars(owner).items() if each is value]:
                yield owner, name


def rate_of_zero() -> Optional[Dict[str, Any]]:
    """A learning rate of 0 in the script."""
    for text, at in source.said(RATE.search, is_zero):
        return {"how": "rate", "text": text, "frames": [at]}
    return None


def is_zero(value: Any) -> bool:
    """Whether a constant is the number 0."""
    return isinstance(value, (int, float)) and value == 0
