"""Pure: which parameters learn and which do not, as few names of modules."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.observation import Parameter

NUMBER = "#"


def learns(parameter: Parameter) -> bool:
    """Whether it got a finite gradient that is not zero, and changed."""
    return "f" in parameter.gradients and parameter.changed


def grouped(parameters: Iterable[Parameter]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The modules whose parameters learn and those whose parameters do not, of what should learn.

    A module stands for all below it where they are alike; numbered ones that are alike are one entry
    ("layers.0-5.attention: 24 parameters").
    """
    return _grouped(tuple((p.name, learns(p)) for p in parameters if p.learns))


@lru_cache(maxsize=1024)
def _grouped(named: tuple[tuple[str, bool], ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The same of names and of whether they learn: a matrix has the same model, in the same state, in many cells."""
    states = {tuple(name.split(".")): state for name, state in named}
    below: dict[tuple[str, ...], set[bool]] = {}
    for name, state in states.items():
        for depth in range(1, len(name) + 1):
            below.setdefault(name[:depth], set()).add(state)
    counts: dict[bool, dict[tuple[str, ...], int]] = {True: {}, False: {}}
    for name, state in states.items():
        depth = next(depth for depth in range(1, len(name) + 1) if len(below[name[:depth]]) == 1)
        counts[state][name[:depth]] = counts[state].get(name[:depth], 0) + 1
    return entries(counts[True]), entries(counts[False])


def entries(counts: dict[tuple[str, ...], int]) -> tuple[str, ...]:
    """One text for each module, or for several of them that differ by numbers only."""
    alike: dict[tuple[tuple[str, ...], int], list[tuple[str, ...]]] = {}
    for module, count in counts.items():
        pattern = tuple(NUMBER if part.isdecimal() else part for part in module)
        alike.setdefault((pattern, count), []).append(module)
    return tuple(
        f"{joined(modules)}: {each * len(modules)} parameter{'s' if each * len(modules) > 1 else ''}"
        for (_, each), modules in alike.items()
    )


def joined(modules: Sequence[tuple[str, ...]]) -> str:
    """The name of modules that differ by numbers only."""
    columns = [list(dict.fromkeys(column)) for column in zip(*modules, strict=True)]
    return ".".join(column[0] if len(column) == 1 else numbers([int(part) for part in column]) for column in columns)


def numbers(values: Sequence[int]) -> str:
    """Some numbers, as a range where none is missing."""
    ordered = sorted(values)
    if all(after == before + 1 for before, after in pairwise(ordered)):
        return f"{ordered[0]}-{ordered[-1]}"
    return "{" + ",".join(map(str, ordered)) + "}"
