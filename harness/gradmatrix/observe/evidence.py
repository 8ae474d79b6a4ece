"""Why a parameter got no gradient: look at the graph before each audited backward pass.

The evidence is kept from the first step that went wrong: outputs that lost their gradient, tensors
that left the graph, new leaves, gradients that were dropped, frozen parameters.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

from . import source
from .finite import greatest
from .forward import WAYS
from .frames import constructors, here, line, of_user, shown
from .frozen import (
    adapted,
    beside_adapters,
    by_script,
    for_inference,
    frozen_by_line,
    learns,
    resized,
    shared,
    unloaded,
)
from .links import leaves_of, nodes_behind
from .raising import last_line
from .severing import CASTS, LIKE, OF_NUMBERS, WEAK
from .torches import (
    Reach,
    behind,
    children,
    follow,
    held_by,
    is_parameter,
    named,
    own_parameters,
    reach,
    summands,
    title,
)
from .unmatched import unmatched
from .unregistered import unregistered

if TYPE_CHECKING:
    from .births import BirthWatch
    from .forward import ForwardWatch
    from .parameters import ParameterWatch


ENOUGH = 3
"""So many steps show that nothing clears the gradients."""
TURNS = 2
"""So many steps of an optimizer show what its loss trains."""
NOTHING: Dict[str, Any] = {"step": 0, "groups": [], "severed": [], "leaves": [], "unused_at": []}
FREEZING = re.compile(r"requires?d?_?grad(?:s|ients?)?")
"""Names that people give to ``requires_grad``."""
LEAVES = 512
"""So many leaves show whether the loss uses copies of all that an optimizer holds."""
SHOWN = 8
"""An observation has at most this many entries of each kind."""


class Evidence:
    """Looks at the graph before each audited backward pass and keeps what explains a failure."""

    def __init__(
        self, forward: ForwardWatch, parameters: ParameterWatch, births: BirthWatch
    ) -> None:
        self.forward = forward
        self.parameters = parameters
        self.births = births
        self._reach = Reach()
        """What all backward passes of this step reach."""
        self.reached: Callable[[Dict[int, Any]], object] = bool
        """Called with the leaves that a backward pass is about to reach."""
        self.over = False  # whether the audit is over
        self._flat: Optional[Dict[str, Any]] = None
        """What explains the zero gradients."""
        self._kept: List[Tuple[Set[int], Dict[str, Any]]] = []
        """Explanations, each with the ids of the parameters that had no gradient for the first
        time: those of a second optimizer are explained in its own turn."""
        self.without_graph = False
        self._frozen: List[Dict[str, Any]] = []
        """What froze all that ran, if the loss had no graph because of that."""
        self._reasons: Dict[str, Any] = {}
        """Why that was frozen and stays so."""
        self.before: Set[int] = set()
        """Ids of the modules that ran in an earlier phase of training."""
        self.several = False
        """There are several optimizers, and each takes its turn in a step."""
        self._last: List[Dict[str, Any]] = []
        """What left the graph in the turn of another optimizer, with the leaves behind it."""
        self._reached_tensors: Set[int] = set()
        """Ids of every leaf that an audited backward pass reached."""
        self.held: Callable[[], List[List[Any]]] = list
        """What each optimizer holds."""
        self.differentiated: Set[int] = set()
        """Ids of the tensors for whose gradients torch.autograd.grad was asked: they are inputs."""
        self._custom: Dict[Any, Set[int]] = {}
        """The script's own differentiable functions, with the ids of the leaves behind each."""
        self._zeros: Set[Any] = set()
        """Those that were given a gradient and passed only zeros on."""
        self._parts: Dict[Any, Dict[str, Any]] = {}
        """Leaves of the loss that were made of values of the graph, by their line."""
        self._constants: Dict[Any, Dict[str, Any]] = {}
        """Parts of the loss without a graph, by their line and its turn in the step: the value in
        each step, and what took the last one out of the graph. If nothing did, what switched
        gradients off in this step: the part may have been computed there."""
        self._turns: Dict[Any, int] = {}
        """In this step: how many constants each line added. Two objects of a class share a line."""
        self._added: Set[int] = set()
        """Ids of parameters whose gradient was still there when backward reached them again."""
        self._cleared: Set[int] = set()  # the same for those without one
        self._places: Dict[str, Any] = {}
        """Where backward last "added" to such a gradient, and where another one became "none"."""
        self._unswitched: Set[int] = set()
        """Ids of the modules without an attribute that has such a name as ``requires_grad``."""
        self._upstream: Set[int] = set()
        """Ids of the parameters that backward reached since the last step, that no optimizer holds
        and that come before all that is held. Only while two optimizers hold the same."""
        self._twins: Dict[int, Tuple[Any, Set[int], List[Set[int]]]] = {}
        """By id of an optimizer that holds what another one holds: where it was built, the ids of
        what it holds, and what was upstream in each of its turns."""

    def about_to(
        self, roots: List[Any], *, whole: bool, frees: bool = True
    ) -> Optional[Dict[str, Any]]:
        """A backward pass is about to run from ``roots``.

        Args:
            roots: the tensors that backward is called on.
            whole: all of them have a graph.
            frees: it does not retain the graph.

        Returns:
            what switched gradients off, if a root has no graph and gradients are off; else None.
        """
        if self.over:  # only a pass without a graph is reported
            switch = self.forward.switches.off()
            return None if switch is None or self.forward.grad_enabled() else switch.facts()
        found = reach(roots)
        self._reach.nodes |= found.nodes
        self._reach.leaves.update(found.leaves)
        self.parameters.reached.update(
            (identity, leaf) for identity, leaf in found.leaves.items() if is_parameter(leaf)
        )
        self._reached_tensors |= set(found.leaves)
        self.reached(found.leaves)
        self.forward.spoiled.about_to(roots, found.nodes, self.parameters.knows, frees=frees)
        for node in found.functions:
            owner = node._forward_cls
            if owner not in self._custom and len(self._custom) < SHOWN:
                self._custom[owner] = set(follow(node, Reach()).leaves)
                if shown(owner.backward.__code__.co_filename) is not None:
                    node.register_hook(partial(self._passed, owner))
        self._look_for_parts(found)
        self._look_for_constants(roots)
        self.forward.severing.links.about_to(roots, found, self.forward.outputs)
        self._look_for_added(found)
        self._look_upstream(roots, found)
        self.births.reached(found.leaves)
        dropped, noticed = self.forward.severing.dropped, self.forward.severing.noticed
        noticed.passes(roots, found.leaves, dropped)
        dropped.clear()
        noticed.zeroed.clear()
        for event in self.forward.severing.severed:
            event["early"] = True
        if not whole:
            self.without_graph = True
            modules = [m for i, m in self.forward.seen.items() if i not in self.before]
            self._frozen = for_inference(modules, self._names(modules)) or self._all_frozen()
            self._reasons = self._reasons_of_frozen(modules)
            cut = self._without_gradient()
            self._kept = [(cut, self._explain(cut))]
            switch = self.forward.switches.off()
            return None if switch is None or self.forward.grad_enabled() else switch.facts()
        return None

    def _passed(self, owner: Any, inner: Any, outer: Any) -> None:
        """The backward of a function made the gradients ``inner`` of the gradients ``outer``."""
        given = [greatest(each) for each in inner if each is not None]
        if given and not any(given) and any(greatest(each) for each in outer if each is not None):
            self._zeros.add(owner)

    def _look_for_parts(self, found: Reach) -> None:
        """Keep the leaves of the loss that were made of values of the graph."""
        for event in self.forward.severing.made:
            if event["of_graph"] and id(event["leaf"]()) in found.leaves and event["frames"]:
                first = event["frames"][0]
                shape = list(event["leaf"]().shape)
                kept = {**event, "leaf": None, "shape": shape, "step": self.forward.clock()}
                self._parts.setdefault((first["file"], first["line"]), kept)

    def _look_for_constants(self, roots: List[Any]) -> None:
        """Keep the parts of the loss that have no graph although they were computed from one.

        A constant is added in healthy scripts, too: as a part that is frozen, or to report another
        value for the loss. So something must have left the graph before, that is not computed from
        the rest of the loss.
        """
        severing = self.forward.severing
        nodes = summands(roots) if severing.added else set()
        for event in severing.added:
            if event["node"] in nodes and event["frames"]:
                cut, off = self._cut_before(event), self._off_before()
                if cut is not None or off:
                    at = event["frames"][0]["file"], event["frames"][0]["line"]
                    self._turns[at] = turn = self._turns.get(at, 0) + 1
                    known = self._constants.setdefault((at, turn), {"values": [], "cut": None})
                    known["values"].append(float(event["value"]))
                    known.update(step=self.forward.clock(), added=event["frames"])
                    known.update(cut=cut or known["cut"], off=off)
        severing.added.clear()

    def _cut_before(self, added: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        """What took from the graph a part of the loss that was ``added``."""
        events = [
            event
            for event in self.forward.severing.severed
            if not event["early"]
            and event["behind"] is not None
            and event["how"] not in (*LIKE, "sample")
            and (event["how"] in OF_NUMBERS) == added["number"]
            and (not added["number"] or event["frames"][0] == added["frames"][0])
        ]
        if any(added["others"] & event["near"] for event in events):
            return None  # another value is reported for the loss, or a part of it is logged
        cut = min(reversed(events), key=self._telling, default=None)
        return cut and {key: cut[key] for key in ("how", "module", "frames")}

    def _off_before(self) -> List[Dict[str, Any]]:
        """What switched gradients off in this step, the last one first."""
        log = self.forward.switches.log
        return [
            {
                "how": each.how,
                "module": None,
                "frames": [*filter(None, [each.decorated]), *each.frames],
            }
            for each in reversed(log)
            if each.frames and not (each.of_step or each.checkpoint)
        ][:SHOWN]

    def _look_for_added(self, found: Reach) -> None:
        """Note which parameters still have the gradient of an earlier step."""
        if self.forward.clock() == 1:
            return
        at = here()
        for identity, leaf in found.leaves.items():
            if not is_parameter(leaf) and not self.parameters.knows(identity):
                continue
            if identity in self._cleared:
                continue
            if leaf.grad is not None and greatest(leaf.grad):
                self._added.add(identity)
                self._places["added"] = at
            else:
                self._cleared.add(identity)
                if (none_at := self.forward.severing.dropped.get(identity)) is not None:
                    self._places["none"] = none_at

    def _held_twice(self) -> Set[int]:
        """Ids of all parameters that one optimizer holds, if another one holds these too."""
        held = [set(map(id, each)) for each in self.held()] if self.several else []
        counts = Counter(each for ids in held for each in ids)
        candidates = [ids for ids in held if ids and all(counts[each] > 1 for each in ids)]
        return next((ids for ids in candidates if sum(ids <= other for other in held) > 1), set())

    def _look_upstream(self, roots: List[Any], found: Reach) -> None:
        """Keep what no optimizer holds if two of them hold the same: one may have got the wrong.

        What comes after a module that is held may be frozen on purpose, as in a perceptual loss.
        """
        twice = self._held_twice()
        if not twice:
            return
        held = {id(p) for each in self.held() for p in each}
        loose = {i for i, leaf in found.leaves.items() if is_parameter(leaf) and i not in held}
        known: Dict[int, Reach] = {}
        for node in nodes_behind(roots) if loose else ():
            own = loose.intersection(leaves_of(children(node)))
            if own and held.isdisjoint(behind(node, known).whole().leaves):
                self._upstream |= own

    def turn_over(self, optimizer: Any) -> None:
        """An optimizer has stepped: what backward reached since the last step was for its step."""
        held = set(map(id, held_by(optimizer)))
        twice = set() if self.over else self._held_twice()
        if twice and held >= twice:
            built = self.parameters.built_at(optimizer)
            turn = self._twins.setdefault(id(optimizer), (built, held, []))
            turn[2].append(self._upstream)
        self._upstream = set()

    def _rests(self, parameters: Set[int]) -> bool:
        """Whether it was seen that none of these ``parameters`` (ids) changed, also not by hand."""
        entries = self.parameters.entries
        return all(i in entries and not entries[i]["moved"] for i in parameters)

    def _given_twice(self, left: Set[int]) -> List[Dict[str, Any]]:
        """The lines that built two optimizers, one of which holds what the other does.

        ``left`` are in none.

        In each of its turns the loss of the first one trains all that is ``left``, and that of the
        other one never does. Its other part may learn from the first loss on purpose.
        """
        for built, held, turns in self._twins.values():
            same = [each for each in self._twins.values() if each[0] != built and each[1] >= held]
            if len(turns) >= TURNS and all(turn == left for turn in turns):
                for other, _, others in same:
                    if built and other and not any(others):
                        return [built[0], other[0]]
        return []

    def kept(self, parameters: Dict[int, Dict[str, Any]]) -> Optional[Dict[str, Any]]:
        """Gradients that were never cleared; ``parameters`` are their facts by id."""
        moved = {i for i, fact in parameters.items() if fact["learns"] and fact["changed"]}
        added = (self._added - self._cleared) & moved
        if not added or self.forward.clock() <= ENOUGH:
            return None
        some = added if moved - added else set()  # others are cleared
        return {
            "parameters": len(added),
            "learning": len(moved),
            "frames": line(self._places.get("added")),
            "names": [fact["name"] for i, fact in parameters.items() if i in some][:SHOWN],
            "cleared": line(self._places.get("none")) if some else [],
        }

    def stepped(self, starving: Set[int], zero: Set[int]) -> None:
        """An optimizer has stepped.

        Args:
            starving: ids of the parameters that got no gradient.
            zero: ids of those that got a gradient of zeros.
        """
        new = starving.difference(*(explained for explained, _ in self._kept))
        if new and not self.without_graph:
            self._kept.append((new, self._explain(self.forward.training(new))))
        if zero:
            self._flat = self._flattened(zero) or self._flat

    def forget(self) -> None:
        """An optimizer steps for the first time: what was asked for before belongs to its step."""
        if not self.without_graph:
            self._kept.clear()

    def let_go(self) -> None:
        """Keep nothing of the script alive."""
        self._reach, self._flat = Reach(), None
        for kept in (self._kept, self._custom, self._parts, self._constants, self._twins):
            kept.clear()
        self._places.clear()
        self._zeros.clear()

    def new_step(self) -> None:
        """An optimizer step is over."""
        self._reach = Reach()
        self._last = []
        self._turns.clear()
        if self.several and not self.over:
            for event in together(self.forward.severing.severed)[-SHOWN:]:
                behind = event["behind"]
                leaves = set() if behind is None else set(behind.whole().leaves)
                self._last.append({**event, "behind": None, "leaves": leaves})
        self.forward.new_step()

    def _all_frozen(self) -> List[Dict[str, Any]]:
        """What froze the modules that ran, if all their parameters are frozen now; else nothing."""
        ran = {i: m for i, m in self.forward.seen.items() if i not in self.before}
        parameters = [p for module in ran.values() for p in module.parameters()]
        if not parameters or any(p.requires_grad for p in parameters):
            return []
        ran.update(self._of_optimizers())
        names = self._names(list(ran.values()))
        return frozen_by_line(ran, self.forward.severing, names, SHOWN)

    def _reasons_of_frozen(self, modules: List[Any]) -> Dict[str, Any]:
        """What in the script explains that all of ``modules``, those that ran, is frozen."""
        froze = [each["frames"] for each in self._frozen if each["frames"]]
        tops = self.forward.tree.tops(modules)
        return {
            "unmatched": unmatched(froze[-1], tops) if froze else None,
            "unloaded": unloaded(modules, froze),
        }

    def _of_optimizers(self) -> Dict[int, Any]:
        """The modules of which optimizers hold parameters, by id; an adapter may not run."""
        held = {id(p) for each in self.held() for p in each}
        known = self.forward.tree.known()
        return {id(m): m for m in known if not held.isdisjoint(map(id, m._parameters.values()))}

    def _all_learning(self) -> Set[int]:
        return {
            id(p) for module in self.forward.roots() for p in module.parameters() if p.requires_grad
        }

    def _without_gradient(self) -> Set[int]:
        """What a loss without a graph should have reached.

        That is what one optimizer holds, if another one's parameters have their gradients already.
        """
        held = [[p for p in each if p.requires_grad] for each in self.held()]
        waiting = [each for each in held if each and all(p.grad is None for p in each)]
        if len(waiting) == 1 and len(held) > 1:
            return {id(parameter) for parameter in waiting[0]}
        return self.forward.training(self._all_learning())

    def _explain(self, starving: Set[int]) -> Dict[str, Any]:
        """Everything in this step that may have cut off the ``starving`` parameters (ids)."""
        return {
            "step": self.forward.clock(),
            "groups": self._groups(starving),
            "severed": [
                *self._dropped(starving),
                *(self._severed(starving) or self._read(starving)),
            ],
            "leaves": self._leaves(),
            "unused_at": self._unused_at(starving),
        }

    def _unused_at(self, starving: Set[int]) -> List[List[Dict[str, Any]]]:
        """The calls of the last layer whose output was not used and of the modules around it.

        The innermost comes first.
        """
        outputs = self.forward.outputs
        for position in range(len(outputs) - 1, -1, -1):
            layer = outputs[position][1]
            if any(id(p) in starving for p in layer.parameters(recurse=False)):
                return [
                    line(at)
                    for _, module, at in outputs[position:]
                    if any(each is layer for each in module.modules())
                ]
        return []

    def _groups(self, starving: Set[int]) -> List[Dict[str, Any]]:
        ran_on = self.forward.ran_on
        groups = [
            {**group, "only": id(group["module"]) not in ran_on}
            for group in self.forward.groups.values()
        ]
        return (
            groups
            if any(group["cached"] for group in groups)
            else [*groups, *self._poisoned(starving)]
        )

    def _poisoned(self, starving: Set[int]) -> List[Dict[str, Any]]:
        """The first module with starving parameters that got weights from autocast's cache."""
        for module in self.forward.seen.values():
            if any(id(parameter) in starving for parameter in module.parameters(recurse=False)):
                group = self.forward.poisoned(module)
                if group is not None:
                    return [group]
        return []

    def _dropped(self, starving: Set[int]) -> List[Dict[str, Any]]:
        """The lines that set gradients of starving parameters to None between backward and step."""
        lines: Dict[Any, List[int]] = {}
        for identity, at in self.forward.severing.dropped.items():
            if identity in starving:
                lines.setdefault(at, []).append(identity)
        owners = self.forward.owners()
        return [
            {
                "how": "grad = None",
                "module": owners.get(members[0]),
                "parameters": set(members),
                "frames": line(at),
            }
            for at, members in lines.items()
            if at is not None
        ]

    def _flattened(self, zero: Set[int]) -> Optional[Dict[str, Any]]:
        """What explains that parameters got a gradient of zeros."""
        severing = self.forward.severing
        if severing.clipped:
            found = {
                "how": "clip_grad_norm_",
                "module": None,
                "parameters": zero,
                "frames": severing.clipped,
            }
            severing.clipped = []
            return found
        held = (id(p.grad) for each in self.held() for p in each if id(p) in zero)
        zeroed = severing.noticed.zeroed
        cleared = next((line(zeroed[each]) for each in held if each in zeroed), None)
        if cleared is not None:
            return {"how": "grad.zero_", "module": None, "parameters": zero, "frames": cleared}
        blank = self.forward.finite.zero
        if blank is not None:
            # A mask of zeros takes its shape from the tensor that it hides.
            for event in severing.severed:
                if event["how"] in LIKE and event["module"] is blank["owner"]:
                    return {**event, "behind": None, "parameters": zero}
        ranked = self._ranked(
            [*severing.flat, *(e for e in severing.severed if e["recompute"])], zero
        )
        return ranked[0] if ranked else self._dead(zero)

    def _dead(self, zero: Set[int]) -> Optional[Dict[str, Any]]:
        """The last layer with a gradient of zeros, and the line that goes on with its output."""
        outputs = self.forward.outputs
        for position in range(len(outputs) - 2, -1, -1):
            module = outputs[position][1]
            own = {id(p) for p in module.parameters(recurse=False) if p.requires_grad}
            if own and own <= zero:
                frames = line(outputs[position + 1][2])
                return {"how": "dead", "module": module, "parameters": own, "frames": frames}
        return None

    def _severed(self, starving: Set[int]) -> List[Dict[str, Any]]:
        """The operations that cut off starving parameters from the loss, most telling first."""
        events = [
            event
            for event in self.forward.severing.severed
            if event["identity"] not in self._reach.nodes and (event["early"] or event["recompute"])
        ]
        return (
            self._ranked(events, starving)[:SHOWN]
            or self._gap(starving)
            or self._made_off()
            or [
                {**event, "parameters": event["leaves"] & starving}
                for event in self._last
                if 2 * len(event["leaves"] & starving) >= len(starving)
            ]
        )

    def _read(self, starving: Set[int]) -> List[Dict[str, Any]]:
        """The lines in a module's forward that used a starving parameter without its graph."""
        return [
            {"how": how, "module": module, "parameters": {identity}, "frames": line(at)}
            for identity, (how, module, at) in self.forward.severing.read.items()
            if identity in starving
        ][:SHOWN]

    def _made_off(self) -> List[Dict[str, Any]]:
        """Without modules: the part under a switch since the last backward pass with a graph.

        If an update there makes new tensors, it is named, and not the switch.
        """
        known = self.forward.seen or not self._reached_tensors
        log = [] if known else [s for s in self.forward.switches.log if not s.of_step]
        event: Dict[str, Any] = {"module": None, "parameters": set()}
        return [
            {**event, "how": each.how, "frames": source.rebound(at) or each.frames}
            for each in log[-1:]
            for at in [each.decorated or each.frames[0]]
        ]

    def _ranked(self, events: List[Dict[str, Any]], affected: Set[int]) -> List[Dict[str, Any]]:
        """The ``events`` with ``affected`` parameters (ids) behind them, most telling first."""
        found: List[Dict[str, Any]] = []
        affected = affected - self._resting()
        for event in reversed(together(events)):
            behind = Reach()
            if event["behind"] is not None:
                behind = event["behind"].whole()
            elif event["module"] is not None:  # the input of a checkpoint's second pass
                behind.leaves = {
                    id(parameter): parameter for parameter in event["module"].parameters()
                }
            parameters = set(behind.leaves) & (affected or set(behind.leaves))
            if parameters or behind.checkpointed:
                if 2 * len(parameters) < len(affected) and not (
                    behind.checkpointed or event["recompute"]
                ):
                    continue  # it explains little: a mask, a table of positions
                module = self._giver(event, behind)
                found.append({**event, "behind": None, "module": module, "parameters": parameters})
        # Of equals, the latest comes first.
        found.sort(key=lambda event: (*self._telling(event), -len(event["parameters"])))
        return found

    def _telling(self, event: Dict[str, Any]) -> Tuple[int, bool]:
        """The rank of what took a tensor out of the graph: (0, False) tells most.

        What only copies a shape or compares comes last, and before it what a library does inside a
        module that went on with a graph, or outside of all modules: it may write a log. Of equals,
        one at a line of the user that keeps no value tells less.
        """
        user = of_user(event["frames"])
        logged = user is not None and source.discards(user)
        if event["how"] in CASTS:
            return 1, logged
        if event["how"] in WEAK:
            return 3, logged
        ended = not event["outside"] and not self._went_on(event)
        return 0 if event["frames"][0]["user"] or ended else 2, logged

    def _went_on(self, event: Dict[str, Any]) -> bool:
        """Whether the module that ran gave an output with a graph after this."""
        after = self.forward.outputs[event["stamp"] :]
        return any(module is event["module"] for _, module, _ in after)

    def _resting(self) -> Set[int]:
        """Ids of the parameters of modules that never ran, such as an expert without a token."""
        ran = self.forward.seen
        return {
            id(p)
            for top in self.forward.tree.tops(self.forward.roots())
            for module in top.modules()
            if id(module) not in ran
            for p in module.parameters(recurse=False)
        }

    def _giver(self, event: Dict[str, Any], behind: Reach) -> Any:
        """The module whose output was severed.

        That is the running module, or one inside it if the running module went on with a graph.
        """
        running, outputs = event["module"], self.forward.outputs
        givers = (
            self.forward.recomputed
            if event["recompute"]
            else [(node, module) for node, module, _ in outputs]
        )
        given = next((module for node, module in reversed(givers) if node in behind.nodes), None)
        if running is None:
            return given or self._owner(behind) or (outputs[-1][1] if outputs else None)
        inner = (
            given is not None
            and given is not running
            and any(module is given for module in running.modules())
        )
        return given if inner and self._went_on(event) else running

    def _owner(self, behind: Reach) -> Any:
        """The root module that has a parameter behind a tensor of an earlier step; or None."""
        for root in self.forward.roots():
            if any(id(parameter) in behind.leaves for parameter in root.parameters()):
                return root
        return None

    def _gap(self, starving: Set[int]) -> List[Dict[str, Any]]:
        """The last starving module before one that the loss reaches: the graph was cut between."""
        outputs = self.forward.outputs
        reached = [
            position for position, output in enumerate(outputs) if output[0] in self._reach.nodes
        ]
        known = set(reached)
        before = [
            position
            for position in range(reached[-1] if reached else 0)
            if position not in known and self._starves(outputs[position][1], starving)
        ]
        if not before:
            return []
        last = before[-1]
        following = next(position for position in reached if position > last)
        between = [
            s for s in self.forward.switches.log if last < s.stamp <= following and not s.checkpoint
        ]
        event = {"module": outputs[last][1], "parameters": set()}
        if between:
            return [{**event, "how": between[0].how, "frames": between[0].frames}]
        around = outputs[following][1]
        if any(module is outputs[last][1] for module in around.modules()):
            return []  # it gives more than one output, or computes one for nothing
        return [{**event, "how": "unknown", "frames": line(outputs[following][2])}]

    def _starves(self, module: Any, starving: Set[int]) -> bool:
        """Whether no parameter in ``module`` that could learn got a gradient."""
        learning = [id(parameter) for parameter in module.parameters() if parameter.requires_grad]
        return bool(learning) and starving.issuperset(learning)

    def _leaves(self) -> List[Dict[str, Any]]:
        """The leaves of the loss's graph that are not parameters of a module.

        Of those beyond the first few only how they were made and their shapes are kept.
        """
        known = {id(p) for module in self.forward.roots() for p in module.parameters()}
        made = {id(event["leaf"]()): event for event in self.forward.severing.made}
        found = [
            {
                "how": made[identity]["how"] if identity in made else "unknown",
                "shape": list(leaf.shape),
                "module": made[identity]["module"] if identity in made else None,
                "frames": made[identity]["frames"] if identity in made else [],
                "late": identity in made and made[identity]["late"],
                "arguments": made[identity]["arguments"] if identity in made else [],
            }
            for identity, leaf in self._reach.leaves.items()
            if identity not in known and not self.parameters.knows(identity)
        ][:LEAVES]
        for each in found[SHOWN:]:
            each.update(frames=[], arguments=[])
        return found

    def facts(self, starving: Set[int], zero: Set[int], *, learning: bool) -> Dict[str, Any]:
        """The part of the observation that comes from here.

        It is empty if something can learn (``learning``) and nothing lacked a gradient.
        """
        wrong = starving or not learning or self.without_graph
        kept = self._explanation(starving) if wrong else NOTHING
        if self._flat is not None and self._flat["parameters"] & zero:
            flat = {**self._flat, "frames": argued(self._flat)}
            kept = {**kept, "step": kept["step"] or 1, "severed": [*kept["severed"], flat]}
        modules = [
            e[k]
            for part in ("groups", "severed", "leaves")
            for e in kept[part]
            for k in ("module", "within")
            if e.get(k)
        ]
        ran = {**self.forward.seen, **(self._of_optimizers() if wrong else {})}
        names = self._names([*modules, *ran.values()])
        return {
            "lost": [
                self._lost(group, names)
                for group in kept["groups"]
                if self._blamed(group, starving)
            ][:SHOWN],
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
                    "late": event["late"],
                    "arguments": event["arguments"],
                }
                for event in kept["leaves"]
            ],
            **given_away(kept["unused_at"]),
            "frozen": self._frozen
            or (frozen_by_line(ran, self.forward.severing, names, SHOWN) if wrong else []),
            "all_frozen": bool(self._frozen),
            **self._reasons,
            "none_returned": self._returned(self._custom, starving),
            "zeros_returned": self._returned(self._zeros, zero),
        }

    def _explanation(self, starving: Set[int]) -> Dict[str, Any]:
        """The first one that is about some of ``starving``, else the first one."""
        about = [found for explained, found in self._kept if explained & starving]
        first = [found for _, found in self._kept]
        return next(iter([*about, *first]), None) or self._explain(starving)

    def _returned(self, owners: Iterable[Any], parameters: Set[int]) -> Optional[Dict[str, Any]]:
        """Which of the ``owners``, functions of the script, gave no gradient to ``parameters``."""
        lost = parameters & self._reached_tensors
        for owner in owners:
            at = last_line(owner.backward) if lost & self._custom[owner] else None
            if at is not None:
                return {"text": owner.__name__, "frames": [at]}
        return None

    def spoiled(self, error: BaseException) -> Optional[Dict[str, Any]]:
        """What explains an exception, if backward lacked a tensor."""
        found = self.forward.spoiled.of(error)
        if found is None:
            return None
        module = found["module"]
        names = {} if module is None else self._names([module])
        return {**found, "module": title(module, names)["module"]}

    def silent(self, held: Set[int]) -> Dict[str, Any]:
        """What goes wrong without a gradient being lost.

        ``held`` are the ids of the parameters that optimizers hold.
        """
        severing = self.forward.severing
        modules = {id(module): module for module in self.forward.seen.values()}
        tree = self.forward.tree
        # a LightningModule is not called, and may have no parameters of its own
        modules.update((id(module), module) for module in [*tree.known(), *tree.loose()])
        names = self._names(list(modules.values()))
        reached = self._reached_tensors

        def trained(tensor: Any) -> Set[int]:
            leaves = set(reach([tensor]).leaves) if tensor.requires_grad else set()
            given = leaves & (held | self.differentiated)
            return leaves if not given and (leaves <= reached or not reached) else set()

        ignored = severing.ignored()
        return {
            "unregistered": unregistered(list(modules.values()), self.forward.tree, names, trained)
            if reached - held or not reached
            else [],
            "rebuilt_parts": [
                {
                    **{key: event[key] for key in ("step", "how", "shape", "frames")},
                    "module": title(event["module"], names)["module"],
                }
                for event in list(self._parts.values())[:SHOWN]
            ],
            **self._constant_parts(names),
            "links": severing.links.facts(),
            "shared": shared(list(modules.values()), self.forward.trained, severing, names),
            "adapted": adapted(list(modules.values()), severing, names),
            "for_inference": for_inference(self._frozen_with_grad(list(modules.values())), names)
            or by_script(list(modules.values()), severing, names),
            "frozen_beside": self._frozen_beside(list(modules.values()), names),
            "ineffective": self._ineffective(list(modules.values())),
            "ignored": ignored,
            "ignored_by": source.labelled(int(ignored["text"]))[-1:] if ignored else [],
        }

    def _constant_parts(self, names: Dict[int, str]) -> Dict[str, Any]:
        """The parts of the loss without a graph whose value differs between steps.

        Beside the operation that took one out of the graph, another one may have been seen. So the
        source must show that the part was computed there, or where gradients were off. If another
        summand, one with a graph, uses what was taken out, that is a target: the part may be its
        entropy.
        """
        found: Dict[str, Any] = {"constant_parts": [], "parts_without_grad": []}
        constants = Counter(at for at, _ in self._constants)
        for (place, _), event in self._constants.items():
            varies = len({value for value in event["values"] if value}) > 1
            for part in (*event["off"], *filter(None, [event["cut"]])) if varies else ():
                at, how = part["frames"], part["how"]
                user, added = map(of_user, (at, event["added"]))
                of_cut = part is event["cut"]
                if (
                    user
                    and added
                    and source.leads(user, added, source.names_used if of_cut else source.parts)
                    and not (of_cut and source.shares(user, added) > constants[place])
                ):
                    kind = "constant_parts" if of_cut else "parts_without_grad"
                    facts = {key: event[key] for key in ("step", "added")}
                    module = title(part["module"], names)["module"]
                    found[kind].append({**facts, "how": how, "module": module, "frames": at})
                    break
        return {name: parts[:SHOWN] for name, parts in found.items()}

    def _frozen_beside(self, modules: List[Any], names: Dict[int, str]) -> List[Dict[str, Any]]:
        """What is frozen beside something that learns: a layer, tokens, all but norms."""
        layers = beside_adapters(modules, self.forward.severing, names)
        tokens = [{**each, "kind": "tokens"} for each in resized(modules, names)]
        return [*({**each, "kind": "layer"} for each in layers), *tokens] or [
            {**each, "kind": "all-but-norms"} for each in self._all_but_norms(modules, names)
        ]

    def _all_but_norms(self, modules: List[Any], names: Dict[int, str]) -> List[Dict[str, Any]]:
        """What one line froze, if nothing else learns but layers of normalisation."""
        learning = {i for i, fact in self.parameters.entries.items() if fact["learns"]}
        owners = [m for m in modules if not learning.isdisjoint(map(id, m._parameters.values()))]
        if not owners or not all("Norm" in type(owner).__name__ for owner in owners):
            return []
        found = frozen_by_line(self.forward.seen, self.forward.severing, names, SHOWN)
        return [each for each in found if each["frames"]][-1:]

    def _frozen_with_grad(self, modules: List[Any]) -> List[Any]:
        """Those of ``modules`` that ran with gradients on and of which nothing can learn."""
        ways, best = self.forward.ways, WAYS.index("with-grad")
        ran = [module for module in modules if ways.get(id(module)) == best]
        return [each for each in ran if not learns(each)]

    def _ineffective(self, modules: List[Any]) -> List[Dict[str, Any]]:
        """Assignments that freeze and unfreeze nothing: torch has no such name, or a module has."""
        names_of = {id(module): switches_of(module) for module in modules}
        self._unswitched = {identity for identity, names in names_of.items() if not names}
        names = set().union(*names_of.values())
        froze = [
            (at["file"], at["line"]) for key in self.forward.severing.froze for at in line(key)
        ]
        return [
            {"text": text, "frames": [at]}
            for text, at in (source.switched(names) if names else [])
            if (at["file"], at["line"]) not in froze
        ][:SHOWN]

    def ineffective_later(self) -> List[Dict[str, Any]]:
        """The one such assignment that came after :meth:`silent`, to a module that was there.

        What is frozen as it should be is not watched any more.
        """
        then = [module for module in self.forward.tree.known() if id(module) in self._unswitched]
        found = self._ineffective(then)
        return found if len(found) == 1 else []

    def unheld(self, held: Set[int]) -> Optional[Dict[str, Any]]:
        """How many parameters were reached that no optimizer holds; None if there are none.

        ``held`` are the ids of the parameters that optimizers hold.
        """
        left = {identity for identity in self.parameters.reached if identity not in held}
        owners = [
            m for m in self.forward.seen.values() if any(id(p) in left for p in own_parameters(m))
        ]
        if not owners:
            return None
        names = self._names(owners)
        first = id(owners[0])
        rests = any(id(m) in self.forward.trained for m in owners) and self._rests(left)
        return {
            "parameters": len(left),
            "modules": list(dict.fromkeys(names[id(module)] for module in owners))[:SHOWN],
            "frames": line(self.forward.called.get(first)),
            "of_loss": first in self.forward.scalars,
            "rests": rests,
            "same": self._given_twice(left) if rests else [],
        }

    def _blamed(self, group: Dict[str, Any], starving: Set[int]) -> bool:
        """Whether starving parameters are in the modules of ``group``; True if no step was made."""
        return not starving or any(
            id(p) in starving
            for module in (group["within"], group["module"])
            for p in module.parameters()
        )

    def _lost(self, group: Dict[str, Any], names: Dict[int, str]) -> Dict[str, Any]:
        switch, module, within = group["switch"], group["module"], group["within"]
        checkpoint = None
        if switch is not None and switch.checkpoint:
            origin = title(switch.source, names)["module"]
            checkpoint = {"source": origin, "frames": checkpointed(switch.frames)}
        outer = title(within, names)
        return {
            **{
                k: group[k]
                for k in (
                    "step",
                    "modules",
                    "entered",
                    "only",
                    "cached",
                    "grad_enabled",
                    "inference_mode",
                    "autocast",
                )
            },
            **title(module, names),
            "within": outer["module"],
            "within_type": outer["type"],
            "switch": switch.facts() if switch is not None and checkpoint is None else None,
            "checkpoint": checkpoint,
            "forward": group["forward"],
            "frames": group["frames"],
        }

    def named(self, modules: List[Any]) -> List[str]:
        """The names of the first few of ``modules``."""
        names = self._names(modules)
        return [names.get(id(module), type(module).__name__) for module in modules][:SHOWN]

    def _names(self, modules: List[Any]) -> Dict[int, str]:
        return named(self.forward.tree.tops([*self.forward.roots(), *modules]))[0]


CLIP = re.compile(r"clip|max_(?:grad_)?norm|grad(?:ient)?_norm", re.IGNORECASE)
"""The names of arguments that say to what gradients are clipped."""
CHECKPOINTING = re.compile(r"(?:gradient|activation)_checkpointing(?!_disable)")
"""In the names of methods and arguments that switch checkpointing on."""


def switches_of(module: Any) -> Set[str]:
    """The attributes of a module and its parameters that someone took for ``requires_grad``.

    A class may have such an attribute of its own, with another meaning.
    """
    own = {name for code in constructors(type(module)) for name in code.co_names}
    return {
        name
        for each in (module, *module.parameters(recurse=False))
        for name, value in vars(each).items()
        if isinstance(value, bool) and FREEZING.fullmatch(name) and name not in own
    }


def given_away(calls: List[List[Dict[str, Any]]]) -> Dict[str, Any]:
    """Which of these ``calls`` gives an output that nothing uses: the script never reads its name.

    Else it is the last one, if there is one.
    """
    unread = next((frames for frames in calls if source.unread(frames)), None)
    return {"unused_at": unread or (calls[-1] if calls else []), "discarded": unread is not None}


def argued(event: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The frames of ``event``, with the argument by which a library was told to clip to 0."""
    frames: List[Dict[str, Any]] = event["frames"]
    if event["how"] != "clip_grad_norm_" or frames[0]["user"]:
        return frames
    told = source.said(CLIP.search, lambda value: value == 0)
    return [frames[0], *(at for _, at in told[:1]), *frames[1:]]


def checkpointed(frames: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The frames of a reentrant checkpoint, with where the script asks a library for it.

    A script that asks for both kinds, or for one by a variable, does not tell by which line.
    """
    if frames[0]["user"]:
        return frames
    asked = [source.value_of(value) for _, value, _ in source.given("use_reentrant".__eq__)]
    plain = all(value is True for value in asked)
    told = (
        (plain and source.said("use_reentrant".__eq__, lambda value: value is True))
        or source.called(CHECKPOINTING.search)
        or source.said(CHECKPOINTING.search, lambda value: value is True)
    )
    return [frames[0], *(at for _, at in told[:1]), *frames[1:]]


def together(events: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The ``events``, those of one line and one module as one with all that is behind them."""
    lines: Dict[Any, Dict[str, Any]] = {}
    for event in events:
        first = event["frames"][0]
        key = first["file"], first["line"], event["how"], id(event["module"]), event["recompute"]
        known = lines.pop(key, event)
        parts = [each["behind"] for each in (known, event) if each["behind"] is not None]
        lines[key] = {**event, "behind": joined(parts)}
    return list(lines.values())


def joined(parts: List[Reach]) -> Optional[Reach]:
    """All ``parts`` as one; None if there are none."""
    if len(parts) < 2:  # noqa: PLR2004  (nothing to join)
        return parts[0] if parts else None
    found = Reach()
    found.parts = parts
    return found
