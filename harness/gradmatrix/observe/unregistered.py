"""Trained tensors that ``parameters()`` does not have: modules in a plain list, plain tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Set

from . import source
from .torches import title

if TYPE_CHECKING:
    from .torches import ModuleTree

DEPTH = 2
"""A list of lists is looked into, and nothing deeper."""
SHOWN = 8


def unregistered(
    modules: List[Any], tree: ModuleTree, names: Dict[int, str], trained: Callable[[Any], Set[int]]
) -> List[Dict[str, Any]]:
    """The attributes of ``modules`` that hold trained tensors without registering them.

    Args:
        modules: where to look.
        tree: which of them belong together.
        names: the names of modules by id.
        trained: the leaves behind a tensor, if they learn or would if an optimizer held them.
    """
    anywhere = {id(p) for module in modules for p in module._parameters.values()}
    known: Dict[int, Set[int]] = {}
    found = []
    for module in modules:
        top = tree.top(module)
        if id(top) not in known:
            known[id(top)] = {id(parameter) for parameter in top.parameters()}
        registered = known[id(top)]
        for name, value in vars(module).items():
            members = [] if name in ("_parameters", "_modules", "_buffers") else list(plain(value))
            tensors = {
                id(tensor): tensor
                for member in members
                for tensor in of(member)
                if id(tensor) not in registered
                and (tensor is not member or not trained(tensor) & anywhere)
                and trained(tensor)
                and memory(tensor) not in map(memory, top.parameters())
            }
            if tensors:
                found.append(
                    {
                        **title(module, names),
                        "attribute": name,
                        "holds": kind_of(members),
                        "container": type(value).__name__,
                        "parameters": len(tensors),
                        "frames": source.attribute(type(module), name),
                    }
                )
    return found[:SHOWN]


def plain(value: Any, depth: int = DEPTH) -> Iterator[Any]:
    """The tensors in ``value``, and the modules in its lists and dictionaries."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple, set, dict)) and depth:
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, torch.nn.Module):
                yield item
            else:
                yield from plain(item, depth - 1)


def of(member: Any) -> List[Any]:
    """The tensors of a module that runs in training mode, or the tensor itself."""
    if hasattr(member, "parameters"):
        return list(member.parameters()) if member.training else []
    return [member]


def memory(tensor: Any) -> int:
    """Where a tensor's storage is: FSDP keeps one tensor of which the registered ones are views."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except Exception:  # a tensor without storage
        return id(tensor)


def kind_of(members: List[Any]) -> str:
    """What an attribute holds."""
    import torch

    if any(isinstance(member, torch.nn.Module) for member in members):
        return "modules"
    parameters = any(isinstance(member, torch.nn.Parameter) for member in members)
    return "parameters" if parameters else "tensors"
