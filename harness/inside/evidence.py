"""Why the first audited step without a gradient had none: what was lost, severed, made anew, frozen, dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Set

from .frames import line
from .graph import Reach, reach
from .modules import named

if TYPE_CHECKING:
    from .forward import ForwardWatch
    from .parameters import ParameterWatch

SHOWN = 8
"""Entries of each kind that an observation has at most."""


class Evidence:
    """Looks at the graph before each audited backward pass, and keeps what explains the first that went wrong."""

    def __init__(self, forward: ForwardWatch, parameters: ParameterWatch) -> None:
        self.forward = forward
        self.parameters = parameters
        self._reach = Reach()
        """What the backward passes of this step reach, together."""
        self._step = 0
        self._kept: Optional[Dict[str, Any]] = None
        self._without_graph = False

    def about_to(self, roots: List[Any], *, whole: bool) -> Optional[Dict[str, Any]]:
        """A backward pass is about to run from ``roots``; ``whole`` says that all of them have a graph.

        Returns who switched gradients off, where it has none and they are off at this moment.
        """
        found = reach(roots)
        self._reach.nodes |= found.nodes
        self._reach.leaves.update(found.leaves)
        self.forward.severing.dropped.clear()
        if not whole:
            self._without_graph = True
            self._kept = self._explain(self._all_learning())
            switch = self.forward.switches.off()
            return None if switch is None or self.forward.grad_enabled() else switch.facts()
        return None

    def stepped(self, starving: Set[int]) -> None:
        """An optimizer stepped; ``starving`` are the parameters, by id, that got no gradient in it."""
        if starving and self._kept is None:
            self._kept = self._explain(starving)

    def new_step(self) -> None:
        """An optimizer step is over."""
        self._reach = Reach()
        self.forward.new_step()

    def _all_learning(self) -> Set[int]:
        return {id(p) for module in self.forward.roots() for p in module.parameters() if p.requires_grad}

    def _explain(self, starving: Set[int]) -> Dict[str, Any]:
        """Everything of the running step that may have cut off ``starving`` parameters (ids)."""
        return {
            "step": self.forward.clock(),
            "groups": self._groups(starving),
            "severed": [*self._dropped(starving), *self._severed(starving)],
            "leaves": self._leaves(),
        }

    def _groups(self, starving: Set[int]) -> List[Dict[str, Any]]:
        groups = list(self.forward.groups.values())
        return groups if any(group["cached"] for group in groups) else [*groups, *self._poisoned(starving)]

    def _poisoned(self, starving: Set[int]) -> List[Dict[str, Any]]:
        """The first module of starving parameters that autocast's cache served."""
        for module in self.forward.seen.values():
            if any(id(parameter) in starving for parameter in module.parameters(recurse=False)):
                group = self.forward.poisoned(module)
                if group is not None:
                    return [group]
        return []

    def _dropped(self, starving: Set[int]) -> List[Dict[str, Any]]:
        """Lines that set the gradient of starving parameters to None between the backward pass and the step."""
        lines: Dict[Any, List[int]] = {}
        for identity, at in self.forward.severing.dropped.items():
            if identity in starving:
                lines.setdefault(at, []).append(identity)
        owners = {id(p): module for module in self.forward.seen.values() for p in module.parameters(recurse=False)}
        return [
            {"how": "grad = None", "module": owners.get(members[0]), "parameters": set(members), "frames": line(at)}
            for at, members in lines.items()
            if at is not None
        ]

    def _severed(self, starving: Set[int]) -> List[Dict[str, Any]]:
        """The operations behind which lie starving parameters that the loss does not reach, the most telling first."""
        found = []
        for event in reversed(self.forward.severing.severed):
            if event["identity"] in self._reach.nodes:
                continue
            behind = set(reach([event["node"]]).leaves) & starving
            if behind:
                module = event["module"] or self._giver(event["identity"])
                found.append({**event, "module": module, "parameters": behind})
        found.sort(key=lambda event: -len(event["parameters"]))  # stable: of equals, the latest
        return found[:SHOWN] or self._gap()

    def _giver(self, identity: Any) -> Any:
        """The outermost module whose output has this node; else the last that gave an output."""
        outputs = self.forward.outputs
        return next((module for each, module, _ in reversed(outputs) if each == identity), None) or (
            outputs[-1][1] if outputs else None
        )

    def _gap(self) -> List[Dict[str, Any]]:
        """The last output that the loss does not reach before one that it does: the graph was cut between them."""
        outputs = self.forward.outputs
        reached = [position for position, output in enumerate(outputs) if output[0] in self._reach.nodes]
        before = [position for position in range(reached[-1] if reached else 0) if position not in set(reached)]
        if not before:
            return []
        last = before[-1]
        following = next(position for position in reached if position > last)
        between = [s for s in self.forward.switches.log if last < s.stamp <= following and not s.checkpoint]
        event = {
            "how": "unknown",
            "module": outputs[last][1],
            "parameters": set(),
            "frames": line(outputs[following][2]),
        }
        return [{**event, "how": between[0].how, "frames": between[0].frames} if between else event]

    def _leaves(self) -> List[Dict[str, Any]]:
        """The leaves of the loss's graph that are no parameters of a module."""
        known = {id(p) for module in self.forward.roots() for p in module.parameters()}
        made = {id(event["leaf"]()): event for event in self.forward.severing.made}
        return [
            {
                "how": made[identity]["how"] if identity in made else "unknown",
                "shape": list(leaf.shape),
                "module": made[identity]["module"] if identity in made else None,
                "frames": made[identity]["frames"] if identity in made else [],
            }
            for identity, leaf in self._reach.leaves.items()
            if identity not in known and not self.parameters.knows(identity)
        ][:SHOWN]

    def facts(self, starving: Set[int], *, learning: bool) -> Dict[str, Any]:
        """The observation's part; nothing where all that should learn did (``learning``) and nothing starves."""
        if learning and not starving and not self._without_graph:
            return {"lost": [], "severed": [], "leaves": [], "frozen": []}
        kept = self._kept or self._explain(starving)
        modules = [
            e[k]
            for part in ("groups", "severed", "leaves")
            for e in kept[part]
            for k in ("module", "within")
            if e.get(k)
        ]
        names = self._names([*modules, *self.forward.seen.values()])
        return {
            "lost": [self._lost(group, names) for group in kept["groups"] if self._blamed(group, starving)][:SHOWN],
            "severed": [
                {
                    "step": kept["step"],
                    "how": event["how"],
                    **title(event["module"], names),
                    "parameters": len(event["parameters"]),
                    "frames": event["frames"],
                }
                for event in kept["severed"]
            ],
            "leaves": [
                {
                    "step": kept["step"],
                    "how": event["how"],
                    "shape": event["shape"],
                    "module": title(event["module"], names)["module"],
                    "frames": event["frames"],
                }
                for event in kept["leaves"]
            ],
            "frozen": self._frozen(names),
        }

    def _blamed(self, group: Dict[str, Any], starving: Set[int]) -> bool:
        """Whether parameters that starve are in the modules of ``group``; nothing is known to starve before a step."""
        return not starving or any(id(p) in starving for p in group["within"].parameters())

    def _lost(self, group: Dict[str, Any], names: Dict[int, str]) -> Dict[str, Any]:
        switch, module, within = group["switch"], group["module"], group["within"]
        checkpoint = None
        if switch is not None and switch.checkpoint:
            source = title(switch.source, names)["module"]
            checkpoint = {"source": source, "frames": switch.frames}
        outer = title(within, names)
        return {
            **{
                k: group[k]
                for k in ("step", "modules", "entered", "cached", "grad_enabled", "inference_mode", "autocast")
            },
            **title(module, names),
            "within": outer["module"],
            "within_type": outer["type"],
            "switch": switch.facts() if switch is not None and checkpoint is None else None,
            "checkpoint": checkpoint,
            "forward": group["forward"],
            "frames": group["frames"],
        }

    def _frozen(self, names: Dict[int, str]) -> List[Dict[str, Any]]:
        """The frozen parameters of what ran, by the line that froze them; the rest under no line."""
        owners = {
            id(p): module
            for module in self.forward.seen.values()
            for p in module.parameters(recurse=False)
            if not p.requires_grad
        }
        lines: Dict[Any, List[int]] = {}
        left = dict.fromkeys(owners)
        for at, members in self.forward.severing.froze.items():
            mine = [id(p) for p in members if id(p) in left]
            if mine:
                lines[at] = list(dict.fromkeys(mine))
        for members in lines.values():
            for identity in members:
                left.pop(identity, None)
        groups = [*lines.items(), *([(None, list(left))] if left else [])]
        return [
            {
                "modules": list(dict.fromkeys(names.get(id(owners[identity]), "?") for identity in members))[:SHOWN],
                "parameters": len(members),
                "frames": line(at),
            }
            for at, members in groups[-SHOWN:]
        ]

    def _names(self, modules: List[Any]) -> Dict[int, str]:
        tops = {id(top): top for top in map(self.forward.tree.top, modules)}
        return named(list(tops.values()))[0]


def title(module: Any, names: Dict[int, str]) -> Dict[str, Optional[str]]:
    """Name and type of ``module``, which may be None."""
    if module is None:
        return {"module": None, "type": None}
    kind = type(module).__name__
    return {"module": names.get(id(module), kind), "type": kind}
