"""What goes wrong after the audit: a script trains well at first, and later nothing learns.

The checks run before each step: of a learning rate, and whether gradients are there. They read no
tensor but at few steps, ever more rarely: then they ask which gradients are exactly zero, and what
was unfrozen that no optimizer holds. One more is made at the end: whether the script then runs a
module that a library took as a pattern, and trained another one in its place.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Set, Tuple

from . import source
from .frames import line
from .rates import SCHEDULER
from .torches import Kept, held_by, highest_rate, read_gradient, reading

if TYPE_CHECKING:
    from types import FrameType

    from .backward import BackwardWatch
    from .births import BirthWatch
    from .evidence import Evidence
    from .forward import ForwardWatch
    from .torches import ModuleTree

PHASES = 3
"""So many times a new optimizer after the audit is taken for a new training."""
ENOUGH = 5
"""So many steps up to the end, and half of all, are more than the end of a schedule."""
EMPTY = 3
"""So many steps without any gradient are more than a phase between two others."""
LOOKS = 3
"""So many looks in a row, at ever longer distances, find more zeros than a pause in training."""
CLEARED = 1
"""In a step without backward a gradient that is kept is written to once: it is set to zero."""
HALF = 0.5
"""This share of an optimizer's parameters is more than a branch that rests."""
FURTHER = 1.5
"""The next look is at so many times the step of the last one."""
TINY = 1e-8
"""A learning rate that is so small beside the highest one changes nothing."""
SMALL = 1e-3
"""One that is so small beside it changes hardly anything."""


class LateWatch:
    """Counts the last steps in which nothing was left to learn.

    Args:
        births: what was made after the first optimizer was built.
        forward: which modules ran, and what was frozen.
        tree: the modules that are alive.
    """

    def __init__(self, births: BirthWatch, forward: ForwardWatch, tree: ModuleTree) -> None:
        self.births = births
        self.forward = forward
        self.tree = tree
        self.made_by: Callable[[Any], List[Dict[str, Any]]] = lambda _optimizer: []
        """What sets the learning rate of an optimizer, and where it was built."""
        self.scheduled: Callable[[Any], List[Dict[str, Any]]] = lambda _optimizer: []
        """The user's line that set the scheduler of an optimizer; empty if it has none."""
        self.built_at: Callable[[Any], List[Dict[str, Any]]] = lambda _optimizer: []
        """Where an optimizer was built."""
        self.audited: Callable[[Any], bool] = bool
        """Whether the current step of an optimizer is audited."""
        self.steps = 0
        self._top: Dict[int, float] = {}
        """The highest learning rate of each optimizer, by id."""
        # The last steps if their learning rate changes nothing (``_low``) or hardly anything: how
        # many there are, and what set it.
        self._low: Optional[Dict[str, Any]] = None
        self._weak: Optional[Dict[str, Any]] = None
        self._empty: Optional[Dict[str, Any]] = None
        self._looks: Dict[int, Dict[str, Any]] = {}
        """By id of the optimizer: its steps, the step of the next look, and what the looks found
        of each parameter, by its id: zeros, or a gradient that no optimizer uses."""
        self._optimizers: List[Any] = []
        """All optimizers (weak references)."""
        self.ended: Callable[[], Optional[Dict[str, Any]]] = lambda: None
        """The relu or clamp that is the last operation of the model."""
        self.froze: Callable[[], Dict[Any, List[Any]]] = dict
        """What was frozen (weak references), by line."""
        self.named: Callable[[List[Any]], List[str]] = lambda _parameters: []
        """The names of parameters."""
        self.lived: Callable[[int], bool] = bool
        """Whether a parameter, by its id, had a gradient in the audited steps."""
        self._held: Dict[int, Any] = {}
        """What optimizers held, by id (weak references)."""
        self.strangers: Set[int] = set()
        """Optimizers that hold nothing which an earlier one held, by id."""
        self.unjudged: List[Dict[str, Any]] = []
        """The first optimizers of models that were trained only after the audit."""
        self._extra: List[Dict[str, Any]] = []
        """What the last optimizer holds beyond all earlier ones, and beyond the one before it."""
        self._before: Set[int] = set()
        """Ids of what the last optimizer holds."""
        self._trained: List[Any] = []
        """The modules of which the first optimizer holds parameters (weak references)."""
        self._training: List[Any] = []
        """Those of them that began in training mode."""
        self._first = 0
        """The id of the first optimizer."""
        self._evaluating = 0
        """The step since which a module is trained in evaluation mode that was in training mode."""
        self._patterns: List[Tuple[Any, str, List[Any]]] = []
        """The modules beside the trained ones that are of the same class (weak references), with
        the name of the first optimizer and the state of their parameters before its first step."""

    def before_step(self, optimizer: Any) -> None:
        """An optimizer is about to step."""
        self.steps += 1
        if self.steps == 1:
            self._look_beside(optimizer)
        with contextlib.suppress(Exception):  # what cannot be read is not zero
            self._look(optimizer)
        rate = highest_rate(optimizer)
        top = self._top[id(optimizer)] = max(self._top.get(id(optimizer), 0.0), rate or 0.0)
        if rate is None or rate > SMALL * top:
            self._weak = None
        else:
            self._weak = self._weak or {"steps": 0, "frames": self.scheduled(optimizer)}
            self._weak["steps"] += 1
        if rate is None or rate > TINY * top:
            self._low = None
        else:
            self._low = self._low or self._begun(optimizer)
            self._low["frames"] = self._low["frames"] or self.made_by(optimizer)
            self._low["steps"] += 1
        if self.audited(optimizer) or any(
            parameter.grad is not None
            for group in optimizer.param_groups
            for parameter in group["params"]
        ):
            self._empty = None
            return
        self._empty = self._empty or self._begun(optimizer)
        self._empty["steps"] += 1
        if self._empty["steps"] == EMPTY:
            self._empty["frames"] = self.births.with_gradient()

    def _look(self, optimizer: Any) -> None:
        """At some steps after the audit, and just after them: look at all gradients."""
        seen = self._looks.setdefault(
            id(optimizer), {"made": 0, "next": 0, "zero": {}, "loose": {}}
        )
        seen["made"] += 1
        if self.audited(optimizer):
            seen["next"] = seen["made"] + 2
        elif seen["made"] == seen["next"]:
            seen["kept"] = gradients_of(optimizer)
            self._look_at_modes(optimizer)
            self._look_for_loose(optimizer, seen)
        elif seen["made"] == seen["next"] + 1:
            seen["next"] = int(seen["next"] * FURTHER)
            self._look_for_zeros(optimizer, seen, seen.pop("kept"))

    def _look_for_zeros(self, optimizer: Any, seen: Dict[str, Any], kept: Dict[int, Any]) -> None:
        """Find the parameters that had a gradient once and to which backward gives only zeros now.

        A gradient that is only cleared in each step is written to less often than the others.
        """
        now = gradients_of(optimizer)
        order = [i for i in now if i in kept]
        writes = {i: now[i][1] - kept[i][1] for i in order if kept[i][0]() is now[i][0]()}
        most = max((count for i, count in writes.items() if now[i][2] != "z"), default=CLEARED + 1)
        zero = [
            i
            for i in order
            if now[i][2] == kept[i][2] == "z" and writes.get(i, most) >= most and self.lived(i)
        ]
        since = seen["made"] - 1
        before = {i: seen["zero"].get(i, (since, 0)) for i in zero}
        seen["zero"] = {i: (first, looks + 1) for i, (first, looks) in before.items()}
        dead = {i: first for i, (first, looks) in seen["zero"].items() if looks >= LOOKS}
        seen.pop("dead", None)
        if dead:
            parameters = [p for p in held_by(optimizer) if id(p) in dead]
            seen["since"] = min(dead.values())
            seen["dead"] = {**self._begun(optimizer), "names": self.named(parameters)}
            seen["dead"]["frames"] = self.built_at(optimizer)
            # In a chain all that comes before a dead layer is dead, too. Experts are no chain.
            chain = dead.keys() == set(order[: len(dead)])
            seen["share"] = len(dead) / len(now) if chain else 0

    def _look_at_modes(self, optimizer: Any) -> None:
        """Look whether a module that began in training mode is trained in evaluation mode."""
        if id(optimizer) == self._first:
            tops = [each() for each in self._training]
            now = any(top is not None and not top.training and differs(top) for top in tops)
            self._evaluating = (self._evaluating or self.steps) if now else 0

    def evaluating(self) -> List[Dict[str, Any]]:
        """Where the script calls ``eval``, if a module is trained in evaluation mode since then."""
        at = [place for _, place in source.called("eval".__eq__)] if self._evaluating else []
        return [{"how": "mode", "text": str(self._evaluating), "frames": at[:1]}] if at else []

    def weak(self) -> List[Dict[str, Any]]:
        """Where a scheduler was set that made the learning rate small half of the run long."""
        weak = self._weak if self._low is None else None
        if weak is None or not weak["frames"] or weak["steps"] < max(ENOUGH, self.steps / 2):
            return []
        text = f"{weak['steps']} of {self.steps}"
        return [{"how": "weak", "text": text, "frames": weak["frames"]}]

    def _look_for_loose(self, optimizer: Any, seen: Dict[str, Any]) -> None:
        """Find what was frozen at first, gets gradients now, and neither changes nor is held."""
        torch = sys.modules["torch"]
        living = [each() for each in self._optimizers]
        held = {id(p) for each in living if each is not None for p in held_by(each)}
        members = [each() for some in self.froze().values() for each in some]
        left = [p for p in members if p is not None and p.requires_grad and p.grad is not None]
        loose = {id(p): p for p in left if id(p) not in held}
        before, seen["loose"] = seen["loose"], {}
        with reading(torch):
            again = [p for i, p in loose.items() if i in before and still(p, *before[i])]
            for i, p in loose.items():
                seen["loose"][i] = Kept(torch, p), weakref.ref(p.grad), p.grad._version
        seen.pop("left", None)
        if again:
            seen["left"] = {**self._begun(optimizer), "steps": seen["made"]}
            seen["left"].update(frames=self.built_at(optimizer), names=self.named(again))

    def built(self, optimizer: Any) -> None:
        """An optimizer was built: note what it holds beyond the earlier ones."""
        self._optimizers = [each for each in self._optimizers if each() is not None]
        self._optimizers.append(weakref.ref(optimizer))
        held = held_by(optimizer)
        self._held = {i: each for i, each in self._held.items() if each() is not None}
        extra = [each for each in held if id(each) not in self._held]
        self.strangers.discard(id(optimizer))
        if len(extra) == len(held):
            self.strangers.add(id(optimizer))
        further = [each for each in held if id(each) not in self._before]
        wider = self._before < {id(each) for each in held}
        self._before = {id(each) for each in held}
        self._extra = [
            {
                **self._begun(optimizer),
                "since": self.steps,
                "parameters": [weakref.ref(each) for each in some],
            }
            for some in (extra, further if wider else [])
            if self.steps and 0 < len(some) < len(held)
        ]
        self._held.update((id(each), weakref.ref(each)) for each in held)

    def passes(self, optimizer: Any, facts: List[Dict[str, Any]]) -> None:
        """An optimizer makes its first step, and nobody looks; ``facts`` are those of it."""
        known = [each["frames"] for each in self.unjudged]
        if id(optimizer) in self.strangers and len(self.unjudged) < PHASES:
            self.unjudged += [each for each in facts if each["frames"] not in known]

    def _begun(self, optimizer: Any) -> Dict[str, Any]:
        return {"optimizer": type(optimizer).__name__, "steps": 0, "frames": []}

    def facts(self) -> Optional[Dict[str, Any]]:
        """What kept the last steps from learning; None if nothing did."""
        low, empty = self._low, self._empty
        if low is not None and low["steps"] >= max(ENOUGH, self.steps / 2):
            calls = source.calls("step", without="")
            return {
                **low,
                "how": "rate",
                "stepped": [at for of, at in calls if SCHEDULER.search(of.rpartition(".")[0])],
            }
        if empty is not None and empty["frames"]:
            return {**empty, "how": "empty"}
        for extra in self._extra:
            frozen = self._frozen(extra)
            if frozen:
                return frozen
        for each in self._looks.values():
            if "left" in each:
                return {**each["left"], "how": "loose"}
        for dead in self.dead(HALF):
            return {**dead, "end": self.ended() if dead in self.dead(1) else None}
        return self._pattern_run()

    def _frozen(self, extra: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        """What the last optimizer holds beyond others, if it is still frozen; None if not."""
        steps = self.steps - extra["since"]
        alive = {id(each()): each() for each in extra["parameters"] if each() is not None}
        frozen = [
            at
            for at, members in self.forward.severing.froze.items()
            if any(id(member()) in alive for member in members)
        ]
        if steps < EMPTY or not alive or any(each.requires_grad for each in alive.values()):
            return None
        written = [] if frozen else source.freezing()  # after the audit nobody looks
        found = line(frozen[-1]) if frozen else written if len(written) == 1 else []
        named = {"how": "frozen", "optimizer": extra["optimizer"], "steps": steps}
        return {**named, "frames": found} if found else None

    def dead(self, share: float = 0) -> List[Dict[str, Any]]:
        """What got only zeros at the last looks, of each optimizer, if it is such a ``share``."""
        found = []
        for each in self._looks.values():
            if "dead" in each and each["share"] >= share:
                steps = each["made"] - each["since"]
                found.append({**each["dead"], "how": "zero", "steps": steps})
        return found

    def _look_beside(self, optimizer: Any) -> None:
        """Keep the state of modules that are of a trained one's class, and not trained."""
        held = {id(parameter) for parameter in held_by(optimizer)}
        tops = [*self.tree.loose(), *self.forward.roots()]  # a copy is known when it runs
        trained = [top for top in tops if any(id(each) in held for each in top.parameters())]
        self._trained = [weakref.ref(top) for top in trained]
        self._training = [weakref.ref(top) for top in trained if top.training]
        self._first = id(optimizer)
        kinds, same = {type(top) for top in trained}, {id(top) for top in trained}
        others = [top for top in tops if type(top) in kinds and id(top) not in same]
        name = type(optimizer).__name__
        self._patterns = [(weakref.ref(top), name, state(top)) for top in others if state(top)]

    def _pattern_run(self) -> Optional[Dict[str, Any]]:
        """The script runs a module that it gave to a library, and that never learned.

        The trained one is of its class and has no name in the script.
        """
        script = vars(sys.modules["__main__"])
        for reference, optimizer, before in self._patterns:
            top = reference()
            if top is None or id(top) in self.forward.seen or state(top) != before:
                continue
            living = [trained() for trained in self._trained]
            trained = {id(each) for each in living if type(each) is type(top)}
            named = {name for name, value in script.items() if id(value) in trained}
            names = {name for name, value in script.items() if value is top}
            given, runs = source.handed(names)
            if trained and not named and given and runs:
                owners = [
                    f"{name}.{inner}"
                    for name, value in script.items()
                    for inner, each in getattr(value, "__dict__", {}).items()
                    if id(each) in trained
                ]
                found = {"how": "pattern", "optimizer": optimizer, "steps": self.steps}
                return {**found, "frames": [runs[-1], given[-1]], "names": [*names, *owners]}
        return None


class LaterTraining:
    """Watches a training that begins after the audit, up to the first step of its optimizer.

    Until then it is watched like the first one: why a loss may have no graph, and what its
    optimizer does not hold.
    """

    def __init__(self, evidence: Evidence, births: BirthWatch, backward: BackwardWatch) -> None:
        self.evidence = evidence
        self.births = births
        self.backward = backward
        self.missed: Optional[Dict[str, Any]] = None
        """An optimizer whose first step found no gradient, beside modules that got one."""
        self._optimizer: Optional[int] = None
        """The optimizer of this training, by id."""
        self._built_at: List[Dict[str, Any]] = []
        self._reached: Set[int] = set()
        """Ids of the parameters that backward had reached before."""
        self._count = 0

    @property
    def runs(self) -> bool:
        """Whether such a training has begun and made no step."""
        return self._optimizer is not None

    def begin(self, optimizer: Any, caller: FrameType, built_at: List[Dict[str, Any]]) -> None:
        """An optimizer was built by ``caller``, at the frames ``built_at``."""
        if self._count >= PHASES:
            return
        forward = self.evidence.forward
        self._count += 1
        self._optimizer, self._built_at = id(optimizer), built_at
        self.evidence.before = set(forward.seen)
        self._reached = set(self.evidence.parameters.reached)
        self.births.install(caller)
        self.backward.another = True
        forward.switches.remove()
        forward.install()
        forward.severing.install_early()
        forward.severing.install()
        self.evidence.over = False

    def steps(self, optimizer: Any) -> bool:
        """Whether ``optimizer`` is that of this training."""
        return id(optimizer) == self._optimizer

    def before_step(self, optimizer: Any) -> None:
        """Note if the first step finds no gradient."""
        seen, before = self.evidence.forward.seen, self.evidence.before
        new = [module for identity, module in seen.items() if identity not in before]
        loose = [m for m in new if any(p.grad is not None for p in m.parameters(recurse=False))]
        if loose and all(p.grad is None for p in held_by(optimizer)):
            self.missed = {
                "optimizer": type(optimizer).__name__,
                "modules": self.evidence.named(loose),
                "frames": self._built_at,
            }

    def end(self) -> None:
        """Its optimizer has stepped: forget what was seen."""
        reached = self.evidence.parameters.reached
        self._optimizer = None
        self.backward.another = False
        self.evidence.forward.forget(self.evidence.before)
        for identity in set(reached) - self._reached:
            del reached[identity]


def differs(module: Any) -> bool:
    """Whether ``module`` computes something else in training mode."""
    from torch.nn.modules import batchnorm, dropout

    kinds = (batchnorm._BatchNorm, dropout._DropoutNd)
    return any(isinstance(each, kinds) for each in module.modules())


def state(module: Any) -> List[Any]:
    """What changes when a parameter of ``module`` that can be trained is written."""
    return [(id(p), p._version, p.data_ptr()) for p in module.parameters() if p.requires_grad]


def gradients_of(optimizer: Any) -> Dict[int, Tuple[Any, int, str]]:
    """By id of a parameter with a gradient: a weak reference to that, its version, its letter."""
    torch = sys.modules["torch"]
    return {
        id(p): (weakref.ref(p.grad), p.grad._version, read_gradient(torch, p.grad)[0])
        for p in held_by(optimizer)
        if p.grad is not None
    }


def still(parameter: Any, kept: Kept, gradient: Any, version: int) -> bool:
    """Whether a parameter has the value that was kept, and backward gave it a gradient since."""
    fresh = gradient() is not parameter.grad or version != parameter.grad._version
    return fresh and not kept.differs_from(parameter)
