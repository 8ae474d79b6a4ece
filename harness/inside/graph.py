"""Walk a graph of autograd from its roots: which nodes and which leaves a backward pass will reach."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Set

MOST = 500_000
"""Nodes that are walked at most: what lies further is taken as not reached."""


class Reach:
    """Identities of the nodes that were reached, and the leaves by id."""

    def __init__(self) -> None:
        self.nodes: Set[Any] = set()
        self.leaves: Dict[int, Any] = {}
        self.checkpointed = False
        """A reentrant checkpoint lies on the way: the parameters inside it are no leaves of this graph."""


def identity(node: Any) -> Any:
    """What tells a node apart: torch's running number, which keeps nothing alive, or the node itself (torch 2.0)."""
    number = getattr(node, "_sequence_nr", None)
    return node if number is None else number()


def reach(roots: Iterable[Any]) -> Reach:
    """What a backward pass from ``roots`` (tensors) reaches."""
    found = Reach()
    for root in roots:
        if root.grad_fn is not None:
            follow(root.grad_fn, found)
        elif root.requires_grad:
            found.leaves[id(root)] = root
    return found


def follow(start: Any, found: Reach) -> Reach:
    """Add to ``found`` what is reached from the node ``start``."""
    waiting: List[Any] = [start]
    seen: Set[Any] = set()
    while waiting and len(seen) < MOST:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and not node.next_functions:
            found.leaves[id(leaf)] = leaf
        else:
            found.nodes.add(identity(node))
            found.checkpointed |= "Checkpoint" in type(node).__name__
            waiting += [following for following, _ in node.next_functions if following is not None]
    return found


def is_parameter(leaf: Any) -> bool:
    """Whether a leaf of a graph is a parameter."""
    import torch

    return isinstance(leaf, torch.nn.Parameter)
