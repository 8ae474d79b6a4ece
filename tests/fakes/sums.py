"""Sums, in several ways. `plain` is the usual one."""

from __future__ import annotations

import argparse
import functools
import math
import unittest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

NEEDS = ("torch",)
VARIANTS = {
    "plain": {"role": "control", "summary": "as it is"},
    "twice": {"role": "reported", "summary": "plain, two times"},
    "scaled": {"role": "remedy", "summary": "scaled"},
    "scaled_twice": {"role": "remedy", "summary": "both"},
    "missing": {"role": "misuse", "summary": "nothing"},
}
AGREE = [("plain", "twice")]

SAID = print  # where the events go
START = 3
FACTORS = {"scaled": 2.5, "scaled_twice": 1e-8}  # of some variants
TWICE = ("twice", "scaled_twice")


class Sum:
    """As `twice` does."""

    def __init__(self, name: str, *, factor: float = 1.0, **options: float) -> None:
        self.name = name
        self.factor = factor
        self.options = options

    def add(self, value: float) -> None:
        """Say the sum."""
        if self.name == "missing":
            return
        SAID(f"{self.factor * value} {self.options}")


class Twice(Sum):
    """Twice."""

    def add(self, value: float) -> None:
        """Say it again."""
        super().add(value)
        super().add(value)  # again


KINDS = {
    "twice": Twice,
    "scaled_twice": Twice,
}


def steps_of(count: int, stop: Callable[[int], bool] | None = None) -> list[int]:
    """Count up."""
    return [n for n in range(count) if stop is None or not stop(n)]


def describe(
    variant: str,
    device: str,
    *,
    loud: bool = False,
) -> str:
    """What `plain` is called."""
    text = f"on {device}"
    if loud and variant not in (*TWICE, "missing"):
        text = text.upper()
    elif variant.startswith("scaled"):
        text += """
        kept as it
    is"""
    elif variant.endswith("ing"):
        text = f"{math.inf}"
    else:
        text = functools.reduce(lambda one, other: one + other, [text, "?"])
    return text


def train(variant: str, device: str, steps: int) -> None:
    """Train `variant` on `device`."""
    if variant == "missing" and START > 5:
        raise unittest.SkipTest("not here")
    # the same for all
    SAID(describe(variant, device, loud=variant in ("plain", "scaled")))
    if variant == "missing":
        # nothing to do
        SAID("nothing")
        return
    summed = KINDS.get(variant, Sum)(
        variant,
        factor=FACTORS.get(variant, 1.0),  # by the table
    )
    other = None  # of some
    if variant in TWICE or variant == "scaled":
        other = -1 if not variant.startswith("tw") else (START if device == "cuda" else 0)
        SAID(other)
    for n in steps_of(steps):
        summed.add(START + n)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("variant", choices=VARIANTS)
