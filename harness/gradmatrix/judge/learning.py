"""Which parameters learn and which do not, and the modules of both in few words."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from gradmatrix.core.text import counted, few
from gradmatrix.judge.verdict import best_step
from gradmatrix.judge.wording import module_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gradmatrix.core.observation import Observation, Parameter

MOST_GROUPS = 4


def outermost(some: Sequence[Parameter], seen: Observation) -> list[str]:
    """The largest modules in which only ``some`` parameters should learn."""
    names = {p.name for p in some}
    others = (module_of(p) for p in seen.parameters if p.learns and p.name not in names)
    taken = {around for module in others for around in outwards(module)}
    found = (
        next((around for around in outwards(module) if around not in taken), module)
        for module in map(module_of, some)
    )
    return list(dict.fromkeys(found))


def outwards(module: str) -> Iterable[str]:
    """The names of a module and of those around it, the outermost first."""
    return accumulate(module.split("."), "{}.{}".format)


def say_what_learns(seen: Observation) -> tuple[str, ...]:
    """A sentence about which modules learn and which do not, if there are some of each."""
    learning, still = group_by_learning(seen.parameters)
    if not learning or not still:
        return ()
    some, others = few(learning, MOST_GROUPS, "; "), few(still, MOST_GROUPS, "; ")
    return (f"Learning: {some}. Not learning: {others}.",)


def learns(parameter: Parameter) -> bool:
    """Whether it got a finite gradient that is not zero, and changed."""
    return "f" in parameter.gradients and parameter.changed


def group_by_learning(
    parameters: Iterable[Parameter],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The modules whose parameters learn, and those whose parameters do not, of what should learn.

    A module stands for all below it if they are alike. Modules that differ only by numbers are one
    entry, such as "layers.0-5.attention: 24 parameters".
    """
    return _group_names(tuple((p.name, learns(p)) for p in parameters if p.learns))


@lru_cache(maxsize=1024)  # many cells of a matrix have the same model in the same state
def _group_names(
    names: tuple[tuple[str, bool], ...],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    states = {tuple(name.split(".")): state for name, state in names}
    below: dict[tuple[str, ...], set[bool]] = {}
    for name, state in states.items():
        for depth in range(1, len(name) + 1):
            below.setdefault(name[:depth], set()).add(state)
    counts: dict[bool, dict[tuple[str, ...], int]] = {True: {}, False: {}}
    for name, state in states.items():
        depth = next(depth for depth in range(1, len(name) + 1) if len(below[name[:depth]]) == 1)
        counts[state][name[:depth]] = counts[state].get(name[:depth], 0) + 1
    return merge_numbered(counts[True]), merge_numbered(counts[False])


def merge_numbered(counts: dict[tuple[str, ...], int]) -> tuple[str, ...]:
    """One text for each module, or for several modules that differ only by numbers.

    Args:
        counts: how many parameters each module has, by the parts of its dotted name.
    """
    alike: dict[tuple[tuple[str, ...], int], list[tuple[str, ...]]] = {}
    for module, count in counts.items():
        pattern = tuple("#" if part.isdecimal() else part for part in module)
        alike.setdefault((pattern, count), []).append(module)
    return tuple(
        f"{join_names(modules)}: {counted(each * len(modules), 'parameter')}"
        for (_, each), modules in alike.items()
    )


def join_names(modules: Sequence[tuple[str, ...]]) -> str:
    """One name for modules that differ only by numbers."""
    columns = [list(dict.fromkeys(column)) for column in zip(*modules, strict=True)]
    return ".".join(
        column[0] if len(column) == 1 else join_numbers([int(part) for part in column])
        for column in columns
    )


def join_numbers(values: Sequence[int]) -> str:
    """Some numbers: ``0-5`` if none is missing, else ``{0,2,5}``."""
    ordered = sorted(values)
    if all(after == before + 1 for before, after in pairwise(ordered)):
        return f"{ordered[0]}-{ordered[-1]}"
    return "{" + ",".join(map(str, ordered)) + "}"


def find_still(seen: Observation) -> list[Parameter]:
    """The parameters that got a gradient and did not change."""
    return [p for p in seen.parameters if p.learns and not p.changed and best_step(p) == "f"]


def find_starving(seen: Observation) -> list[Parameter]:
    """The parameters that should learn and got no gradient."""
    return [p for p in seen.parameters if p.learns and best_step(p) == "n"]


def got_gradients(seen: Observation) -> bool:
    """Whether any parameter that should learn got a gradient, even one of zeros."""
    return any(p.gradients.strip("n") for p in seen.parameters if p.learns)
