"""Which parameters are frozen, and which lines froze them."""

from __future__ import annotations

from typing import Any, Dict, List

from .frames import line


def frozen_by_line(
    modules: Dict[int, Any], froze: Dict[Any, List[Any]], names: Dict[int, str], most: int
) -> List[Dict[str, Any]]:
    """The frozen parameters of ``modules`` (by id), by the line that froze them; those of an unknown line last."""
    owners = {
        id(p): module for module in modules.values() for p in module.parameters(recurse=False) if not p.requires_grad
    }
    lines: Dict[Any, List[int]] = {}
    for at, members in froze.items():
        alive = [member() for member in members]
        mine = list(dict.fromkeys(id(p) for p in alive if id(p) in owners))
        if mine:
            lines[at] = mine
    known = {identity for members in lines.values() for identity in members}
    left = [identity for identity in owners if identity not in known]
    groups = [*lines.items(), *([(None, left)] if left else [])]
    return [
        {
            "modules": list(dict.fromkeys(names.get(id(owners[identity]), "?") for identity in members))[:most],
            "parameters": len(members),
            "frames": line(at),
        }
        for at, members in groups[-most:]
    ]
