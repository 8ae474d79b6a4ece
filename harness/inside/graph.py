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


def identity(node: Any) -> Any:
    """What tells a node apart: torch's running number, which keeps nothing alive, or the node itself (torch 2.0)."""
    number = getattr(node, "_sequence_nr", None)
    return node if number is None else number()


def reach(roots: Iterable[Any]) -> Reach:
    """What is reached from the ``grad_fn`` of ``roots`` (tensors), or from nodes."""
    found = Reach()
    waiting: List[Any] = []
    for root in roots:
        node = getattr(root, "grad_fn", None) if hasattr(root, "requires_grad") else root
        if node is not None:
            waiting.append(node)
        elif getattr(root, "requires_grad", False):
            found.leaves[id(root)] = root
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
            waiting += [following for following, _ in node.next_functions if following is not None]
    return found
