"""Look at the parameters at each optimizer step.

Which parameters should learn, which gradient they got, and whether they changed.
"""

from __future__ import annotations

import contextlib
import math
import re
from enum import Enum
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

from . import protocol, source
from .copies import CopyWatch
from .finite import FACTORS, greatest
from .forward import WAYS
from .frames import line, own_place, written
from .torches import (
    Kept,
    ModuleTree,
    held_by,
    highest_rate,
    is_empty,
    named,
    plain,
    rates_of,
    read_gradient,
    reading,
    shape_of,
    uninitialized,
)

if TYPE_CHECKING:
    from .forward import ForwardWatch
    from .torches import Trouble


ANEW = 3
"""Weights that are filled with new values so often, each before one step, learn nothing."""
SCALE = re.compile(r"(?:^|_)(?:alpha|scale|scaling|coef|factor)$")
"""Arguments that a library multiplies something by."""
FEW = 8
"""So many parameters of an optimizer show whether its steps are undone."""


class Change(Enum):
    """How a value differs from an earlier one."""

    NONE = "none"
    FINITE = "finite"
    BROKEN = "broken"
    """It is NaN or infinite now."""


class ParameterWatch:
    """Reads gradients after an optimizer's step.

    At that moment a closure has filled them, and nothing has cleared them yet.
    """

    def __init__(self, tree: ModuleTree, forward: ForwardWatch, trouble: Trouble) -> None:
        self.tree, self.forward, self.trouble = tree, forward, trouble
        self.copies = CopyWatch(forward, trouble)
        self._squares: Dict[int, float] = {}
        self._parameters: Dict[int, Any] = {}
        self._letters: Dict[int, Dict[int, str]] = {}
        # The greatest L2 norm of the gradient of each parameter, by its id.
        self._norms: Dict[int, float] = {}
        # Parameters with a non-finite gradient, by step.
        self._broken: Dict[int, List[Any]] = {}
        self._changed: Set[int] = set()
        self._before: Dict[int, Any] = {}
        # Gradients before the step: some optimizers clear them in it.
        self._gradients: Dict[int, Any] = {}
        self._built: Dict[int, List[Dict[str, Any]]] = {}
        """Where each optimizer was built, by id."""
        self.rates: Dict[int, List[Optional[float]]] = {}
        """The highest learning rate of each optimizer at its audited steps, by id."""
        self._unlearned: Dict[int, Any] = {}
        """Parameters that had not learned when the audit ended, by id, with their values at that
        time."""
        self._rate_of: Dict[int, Optional[float]] = {}
        """The learning rate of each parameter's group at its last audited step."""
        self.scaled: Dict[int, int] = {}
        """How often a GradScaler was asked for an optimizer's step, by id."""
        self._entries: Dict[int, Dict[str, Any]] = {}
        """The facts of each parameter, by its id."""
        self._first: Dict[int, List[Tuple[Any, Kept]]] = {}
        """The smallest parameters of each optimizer and their values before its first step."""
        # By optimizer: where all weights that it holds were filled anew before each later step.
        self._refilled: Dict[int, List[List[Dict[str, Any]]]] = {}
        self._restored: Dict[int, Optional[bool]] = {}
        """By optimizer: whether they had these values again before each later step. None if they
        had, and a model ran without gradients in between."""
        self.pull = PullWatch(forward)
        self.reached: Dict[int, Any] = {}
        """Every parameter that an audited backward pass reached, by id."""
        self.starving: Set[int] = set()
        """Ids of the parameters that got no gradient in the last audited step."""
        self.zero: Set[int] = set()  # the same for a gradient of zeros
        self.starved: Set[int] = set()
        """After :meth:`facts`: ids of the parameters that should learn and never got a gradient."""
        self.zeroed: Set[int] = set()
        """After :meth:`facts`: ids of the parameters that should learn and got only gradients of
        zeros."""
        self._unread: Set[int] = set()
        """Ids of the parameters whose gradient or value could not be read."""
        self._resting: Dict[int, Any] = {}
        """Values after a step of parameters that its optimizer left alone: no optimizer holds them,
        or they got no gradient."""
        self._moved: Set[int] = set()
        """Ids of the parameters that changed outside of an optimizer's step."""
        self.by_hand: Dict[int, Any] = {}
        """The tensors for which a script without an optimizer asked gradients, by id."""
        self._trainable: Dict[int, Any] = {}
        """What required a gradient at an audited step; a script may freeze it when it is done."""
        # What `_what_ran` gave, until the next outermost module runs.
        self._ran: Dict[int, Any] = {}
        self._tops: List[Any] = []
        """Modules that an optimizer holds and whose forward was not seen. They are kept alive, so
        that their parameters keep their names."""

    def built(self, optimizer: Any, frames: List[Dict[str, Any]]) -> None:
        """An optimizer was built at ``frames``."""
        self._built[id(optimizer)] = frames
        self.rates.pop(id(optimizer), None)  # of one that is gone
        self._refilled.pop(id(optimizer), None)

    def built_at(self, optimizer: Any) -> List[Dict[str, Any]]:
        """Where an optimizer was built."""
        return self._built.get(id(optimizer), [])

    def copied(self, held: Iterable[int]) -> Set[int]:
        """The parameters (ids) of which ``held`` (ids) are copies."""
        read = {letter for each in held for letter in self._letters.get(each, {}).values()}
        return self.copies.among(set(held), read)

    @property
    def entries(self) -> Dict[int, Dict[str, Any]]:
        """After :meth:`facts`: the facts of each parameter, by its id."""
        return self._entries

    def knows(self, identity: int) -> bool:
        """Whether an optimizer holds the parameter of this id."""
        return identity in self._parameters

    def lived(self, identity: int) -> bool:
        """Whether the parameter of this id had a gradient in an audited step."""
        return "f" in self._letters.get(identity, {}).values()

    def names_of(self, parameters: List[Any]) -> List[str]:
        """The names of ``parameters`` in the outermost modules."""
        held = [id(parameter) for parameter in parameters]
        _, names = named(self._loose(set(held)))
        return [names.get(identity, "a tensor without a name") for identity in held]

    def before_step(self, optimizer: Any) -> None:
        """Keep the value of every parameter that has not changed yet."""
        import torch

        if id(optimizer) not in self._first:
            outside = {id(parameter) for parameter in held_by(optimizer)} - self._what_ran().keys()
            self._tops += self._loose(outside) if outside else []
        self._before, self._gradients = {}, {}
        self.rates.setdefault(id(optimizer), []).append(highest_rate(optimizer))
        self.copies.keep(optimizer)
        self._look_at_resting()
        with contextlib.suppress(Exception):  # not every tensor has a place in memory
            self._look_for_new_values(optimizer)
        with reading(torch):
            self._look_back(torch, optimizer)
            for parameter in held_by(optimizer):
                self._parameters.setdefault(id(parameter), parameter)
                self._gradients[id(parameter)] = parameter.grad
                if id(parameter) not in self._changed:
                    self._keep(torch, parameter, self._before)

    def _look_back(self, torch: Any, optimizer: Any) -> None:
        """Find out whether steps are undone: values are as they were before the first step."""
        known = self._first.get(id(optimizer))
        if known is None:
            least = sorted(held_by(optimizer), key=lambda each: int(each.numel()))[:FEW]
            kept = [(each, self.kept(torch, each)) for each in least if each.requires_grad]
            self._first[id(optimizer)] = [(each, value) for each, value in kept if value]
            return
        self.pull.before_step(optimizer)
        before = self._restored.get(id(optimizer), True)
        if before is False:
            return
        stepped = [(each, value) for each, value in known if id(each) in self._changed]
        undone = bool(stepped) and all(
            self.differs(torch, each, value) is Change.NONE for each, value in stepped
        )
        self._restored[id(optimizer)] = undone and before

    def _look_for_new_values(self, optimizer: Any) -> None:
        """Find out whether all weights were filled with new values since the last step."""
        ran = self._what_ran()
        weights = [p for p in held_by(optimizer) if p.requires_grad and p.dim() > 1]
        keys = [(p.data_ptr(), int(p.numel())) for p in weights if id(p) in ran]
        filled = self.forward.severing.refilled
        at = [filled.pop(key, []) for key in keys]
        before = self._refilled.setdefault(id(optimizer), [])
        if len(self.rates[id(optimizer)]) > 1:
            before.append(at[0] if all(at) and len(at) == len(weights) > 0 else [])
        filled.update((key, []) for key in keys)

    def initialised_anew(self) -> Dict[str, Any]:
        """Where the script fills all weights that optimizers hold with new values for each step."""
        each = [before for before in self._refilled.values() if before]
        lines = {at[0]["line"] if at else 0 for before in each for at in before}
        if len(lines) == 1 and all(lines) and all(len(before) >= ANEW for before in each):
            return {"unmoved": {"how": "anew", "text": "", "frames": each[0][-1]}}
        return {}

    def evaluated(self, module: Any) -> None:
        """An outermost module is about to run, perhaps with what the last steps have learned.

        Few-shot learners begin each task with the first values, and predict with the learned ones.
        """
        import torch

        self._ran = {}
        if torch.is_grad_enabled():
            return
        own = {id(parameter) for parameter in module.parameters()}
        with reading(torch):
            for optimizer, known in self._first.items():
                stepped = [each for each in known if id(each[0]) in own & self._changed]
                if any(self.differs(torch, *each) is not Change.NONE for each in stepped):
                    self._restored[optimizer] = self._restored.get(optimizer, True) and None
                    self._refilled.setdefault(optimizer, []).append([])

    def restored(self, losses: List[Optional[float]]) -> bool:
        """Whether the steps of some optimizer were undone, each before the next one.

        If what it learned was tried out before, it may have been a task of its own. But not if each
        step is the same: with the same loss (of all ``losses``) and the same learning rate.
        """
        for each, undone in self._restored.items():
            rates = self.rates[each]
            same = len(rates) >= ANEW and len({*losses}) == len({*rates}) == 1
            if {*rates} != {0.0} and (undone or (undone is None and same)):
                return True
        return False

    def after_step(self, optimizer: Any, step: int, optimizers: List[Any]) -> None:
        """Read the gradients and compare the values.

        ``step`` is the number of steps that this optimizer had finished before.
        """
        import torch

        self._squares.setdefault(step, 0.0)
        self.starving, self.zero = set(), set()
        rates = rates_of(optimizer)
        with reading(torch):
            for parameter in self._audited(optimizer, optimizers):
                self._parameters[id(parameter)] = parameter
                self._rate_of[id(parameter)] = rates.get(id(parameter))
                if is_empty(parameter):
                    continue
                if parameter.requires_grad or self._is_given(torch, parameter):
                    self._audit(torch, parameter, step, optimizer)
            self.pull.after_step(optimizer, self._first.get(id(optimizer), []), self.kept)
        self._before, self._gradients = {}, {}
        self.copies.after_step()

    def _audit(self, torch: Any, parameter: Any, step: int, optimizer: Any) -> None:
        identity = id(parameter)
        gradient = parameter.grad if parameter.grad is not None else self._gradients.get(identity)
        letter = self.read(torch, parameter, gradient, step)
        before = self._before.get(identity)
        if before is None:
            if identity not in self._changed and self.copies.has_values(identity):
                self._rest(torch, parameter)
            return
        change = self.differs(torch, parameter, before)
        if change is Change.FINITE:
            self._changed.add(identity)
        elif change is Change.BROKEN and letter != "x":
            self.forward.finite.note("value", parameter, self._built.get(id(optimizer), []))
        elif letter == "n":
            self._rest(torch, parameter)

    @staticmethod
    def _is_given(torch: Any, parameter: Any) -> bool:
        """Whether a frozen parameter has a gradient that the script computed by hand."""
        return parameter.grad is not None and read_gradient(torch, parameter.grad)[0] == "f"

    def read(self, torch: Any, parameter: Any, gradient: Any, step: int) -> str:
        """Keep a letter for the gradient that ``parameter`` has at ``step``, and return it."""
        identity = id(parameter)
        self._trainable[identity] = parameter
        letters = self._letters.setdefault(identity, {})
        if step not in letters:  # parameters that no optimizer holds are read once
            try:
                letters[step], square = read_gradient(torch, gradient)
                self._squares[step] += square
                self._norms[identity] = max(square**0.5, self._norms.get(identity, 0.0))
                if gradient is None:
                    letters[step] = self.copies.letter(identity)
            except Exception as error:
                self._cannot_read(parameter, error)
                letters[step] = "?"
        letter = letters[step]
        if letter == "n":
            self.starving.add(identity)
        if letter == "z":
            self.zero.add(identity)
        if letter == "x":
            self._broken.setdefault(step, []).append(parameter)
        return letter

    def differs(self, torch: Any, tensor: Any, before: Kept) -> Optional[Change]:
        """How the value of ``tensor`` differs from the one that was kept."""
        try:
            if not before.differs_from(tensor):
                return Change.NONE
            finite = math.isfinite(greatest(plain(torch, tensor)))
        except Exception as error:
            self._cannot_read(tensor, error)
            return None
        return Change.FINITE if finite else Change.BROKEN

    def kept(self, torch: Any, tensor: Any) -> Optional[Kept]:
        """The value of ``tensor`` now; None if it cannot be read."""
        try:
            return Kept(torch, tensor)
        except Exception as error:  # it has no values: on the meta device, sharded
            self._cannot_read(tensor, error)
            return None

    def _keep(self, torch: Any, tensor: Any, where: Dict[int, Any]) -> None:
        kept = self.kept(torch, tensor)
        if kept is not None:
            where[id(tensor)] = kept

    def _cannot_read(self, tensor: Any, error: Exception) -> None:
        if id(tensor) not in self._unread:
            self._unread.add(id(tensor))
            if tensor.device.type == "meta":  # it has no values, which is no error
                return
            self.trouble.add(f"a tensor of type {type(tensor).__name__}, {tensor.dtype}", error)

    def _rest(self, torch: Any, parameter: Any) -> None:
        """Keep the value of a parameter that this optimizer's step left alone."""
        if id(parameter) not in self._resting and id(parameter) not in self._moved:
            self._keep(torch, parameter, self._resting)

    def _look_at_resting(self) -> None:
        """Find the parameters that changed although no optimizer's step changed them."""
        import torch

        with reading(torch):
            for identity, before in list(self._resting.items()):
                if not self.copies.has_values(identity):
                    continue
                self.copies.compared.add(identity)
                change = self.differs(torch, self._parameters[identity], before)
                if change in {Change.FINITE, Change.BROKEN}:
                    self._moved.add(identity)
                if change is not Change.NONE:
                    del self._resting[identity]

    def asked(self, gradients: List[Tuple[Any, Any]], step: int) -> None:
        """A script without an optimizer got ``gradients``: tensors, each with its gradient."""
        import torch

        self._squares.setdefault(step, 0.0)
        self.starving, self.zero = set(), set()
        with reading(torch):
            for tensor, gradient in gradients:
                self.by_hand[id(tensor)] = self._parameters[id(tensor)] = tensor
                self.read(torch, tensor, gradient, step)
            for parameter in self._trained_by_hand():
                if step not in self._letters.get(id(parameter), {}):
                    self._parameters[id(parameter)] = parameter
                    self.read(torch, parameter, None, step)

    def _trained_by_hand(self) -> List[Any]:
        """The trainable parameters of what ran to learn, if gradients of some were asked for.

        A script that computes with tensors of its own only borrows the modules (functional_call).
        """
        ran = [root for root in self.forward.roots() if self._ran_to_learn(root)]
        parameters = [parameter for root in ran for parameter in root.parameters()]
        if not any(id(parameter) in self.by_hand for parameter in parameters):
            return []
        return [p for p in parameters if p.requires_grad and not uninitialized(p) and p.numel()]

    def forget(self) -> None:
        """An optimizer steps: what was seen before its first step was no training by hand."""
        for identity in self.by_hand:
            self._parameters.pop(identity, None)
        self.by_hand, self._letters, self._squares, self._trainable = {}, {}, {}, {}
        self._changed, self._broken = set(), {}

    def drop(self, tensor: Any) -> None:
        """The value of ``tensor`` could not be compared with a later one: it is not judged."""
        self.by_hand.pop(id(tensor), None)
        self._trainable.pop(id(tensor), None)

    def changed(self, tensor: Any) -> None:
        """A script changed the value of ``tensor`` by hand."""
        self._changed.add(id(tensor))

    def let_go(self) -> None:
        """Keep nothing of the script alive."""
        for kept in (self._parameters, self._trainable, self._tops, self._broken, self.by_hand):
            kept.clear()
        self.copies.let_go()
        self.reached.clear()
        self._first.clear()
        self.pull.let_go()
        self._refilled.clear()
        for values in (self._ran, self._before, self._gradients, self._unlearned, self._resting):
            values.clear()

    def norms(self) -> List[float]:
        """The L2 norm of all gradients in each audited step, over all optimizers."""
        return [self._squares[step] ** 0.5 for step in sorted(self._squares)]

    def _audited(self, optimizer: Any, optimizers: List[Any]) -> List[Any]:
        """The parameters that this optimizer holds, and trainable ones that no optimizer holds.

        The latter are those of the modules that were seen.
        """
        found = {id(parameter): parameter for parameter in held_by(optimizer)}
        held = {id(parameter) for each in optimizers for parameter in held_by(each)}
        for identity, parameter in self._what_ran().items():
            if identity not in held and parameter.requires_grad and not uninitialized(parameter):
                found.setdefault(identity, parameter)
        found.update((id(parameter), parameter) for parameter in self._beside(held))
        return list(found.values())

    def _what_ran(self) -> Dict[int, Any]:
        """The parameters of all modules that ran, by id.

        A script may have one optimizer for each of them, which all ask between two forward passes.
        """
        if not self._ran:
            roots = self.forward.roots()
            self._ran = {id(p): p for root in roots for p in root.parameters()}
        return self._ran

    def _beside(self, held: Iterable[int]) -> List[Any]:
        """What backward reached beside something ``held`` (ids) in one tree of modules.

        A library may call its modules past torch's hooks, so that their forward is not seen.
        """
        left = {i: p for i, p in self.reached.items() if i not in held and p.requires_grad}
        if not left:
            return []
        owners = [
            m
            for m in self.tree.known()
            if not left.keys().isdisjoint(map(id, m._parameters.values()))
        ]
        trees = [{id(p) for p in top.parameters()} for top in self.tree.tops(owners)]
        beside = {each for tree in trees if not tree.isdisjoint(held) for each in tree & set(left)}
        return [parameter for identity, parameter in left.items() if identity in beside]

    def keep_unlearned(self) -> None:
        """The audit is over: keep the values of parameters that have not learned yet."""
        import torch

        self._look_at_resting()
        self._ran = {}
        with reading(torch):
            for identity, parameter in self._trainable.items():
                if identity not in self._changed or "f" not in self._letters[identity].values():
                    self._keep(torch, parameter, self._unlearned)
        self._resting = {}

    def look_again(self) -> None:
        """Look again, just after a step, at the parameters that have not learned yet."""
        import torch

        with reading(torch):
            for identity, before in list(self._unlearned.items()):
                # Values are fake while torch.compile reads the step.
                with contextlib.suppress(Exception):
                    self._look_again_at(torch, identity, before)

    def _look_again_at(self, torch: Any, identity: int, before: Kept) -> None:
        parameter, letters = self._trainable[identity], self._letters[identity]
        letter, _ = read_gradient(torch, parameter.grad)
        changed = before.differs_from(parameter)
        changed = changed and math.isfinite(greatest(plain(torch, parameter)))
        letters[max(letters) + 1] = letter
        if changed:
            self._changed.add(identity)
        if identity in self._changed and "f" in letters.values():
            del self._unlearned[identity]

    def facts(self, optimizers: List[Any], idle: List[Any]) -> List[Dict[str, Any]]:
        """One entry for each parameter that should learn or that an optimizer holds.

        The entries are in the model's order.

        Args:
            optimizers: those that stepped, or all if none did.
            idle: those that never stepped while others did. What they hold should have learned if
                it was trained. An optimizer that stepped only after the audit is not judged, and
                neither is what it holds.
        """
        holds = self.copies.held
        held = {id(p): p for optimizer in optimizers for p in holds(optimizer)}
        audited = {id(p) for each in optimizers if id(each) in self.rates for p in holds(each)}
        late = {identity for identity in held if audited and identity not in audited}
        learning = self._should_learn(held)
        learning.update((id(p), p) for each in idle for p in held_by(each) if self._was_trained(p))
        learning = {
            identity: parameter for identity, parameter in learning.items() if identity not in late
        }
        learning = {i: p for i, p in learning.items() if i not in self._unread}
        self._look_at_resting()
        copied = self.copied(held)
        changed = set(self._changed)
        if not self._changed.isdisjoint(held):  # of what is never to be seen, the copies tell
            changed |= copied - self.copies.compared
        everything = {**self._parameters, **held, **learning}
        tops = self.tree.tops([*self.forward.roots(), *self._loose(set(held))])
        _, names = named(tops)
        letters = {identity: set(self._letters.get(identity, {}).values()) for identity in learning}
        self.starved = {identity for identity, kinds in letters.items() if not kinds & set("zfx")}
        self.zeroed = {
            identity
            for identity, kinds in letters.items()
            if "z" in kinds and not kinds & set("fx")
        }
        order = {identity: position for position, identity in enumerate(names)}
        ways = self._ways(tops)
        forgotten = self._forgotten(tops)
        self._entries = {
            identity: {
                "name": names.get(identity, f"parameter#{position}"),
                "module": names[identity].rpartition(".")[0] if identity in names else None,
                "shape": shape_of(parameter),
                "dtype": str(parameter.dtype).replace("torch.", ""),
                "learns": identity in learning,
                "held": identity in held or identity in copied,
                "gradients": "".join(
                    letter for _, letter in sorted(self._letters.get(identity, {}).items())
                ),
                "changed": identity in changed
                or (identity in self._moved and identity not in held),
                "moved": identity in self._moved,
                "norm": None
                if identity in changed or "f" not in letters.get(identity, ())
                else protocol.number(self._norms.get(identity)),
                "ran": ways.get(identity),
                "forgotten": identity in forgotten,
                "unread": identity in self._unread,
                "learning_rate": protocol.number(self._rate_of.get(identity)),
                "frozen": not parameter.requires_grad and identity not in learning,
            }
            for position, (identity, parameter) in enumerate(
                sorted(everything.items(), key=lambda item: order.get(item[0], len(order)))
            )
        }
        return list(self._entries.values())

    def _ways(self, tops: List[Any]) -> Dict[int, str]:
        """How the module of each parameter below ``tops`` ran, by the parameter's id.

        A parameter is missing if that is not known.
        """
        found: Dict[int, str] = {}
        for top in tops:
            self._add_ways(top, found)
        return found

    def _add_ways(self, module: Any, found: Dict[int, str]) -> None:
        """Add the ways of the parameters below ``module`` to ``found``.

        A module that no hook saw did not run, unless something below it got a gradient: a fused
        layer does without the forward of its parts, and a compiled model is not seen at all.
        """
        seen = self.forward.seen
        if id(module) not in seen and not any(id(below) in seen for below in module.modules()):
            if self._kinds(module) <= {"n"}:
                found.update((id(parameter), "not") for parameter in module.parameters())
            return
        if id(module) in self.forward.ways:
            way = WAYS[self.forward.ways[id(module)]]
            found.update((id(parameter), way) for parameter in module.parameters(recurse=False))
        for child in module.children():
            self._add_ways(child, found)

    def _forgotten(self, tops: List[Any]) -> Set[int]:
        """The parameters (ids) of modules whose output was forgotten, as far as that can be told.

        Such a module stands in a chain: modules of its type beside it take each other's outputs,
        which have the shape of their inputs, or the next module could not have taken its input.
        """
        found: Set[int] = set()
        for parent in [module for top in tops for module in top.modules()]:
            passing = [c for c in parent.children() if id(c) in self.forward.passing]
            for kind in {type(child) for child in passing}:
                alike = [child for child in passing if type(child) is kind]
                nodes = [self.forward.passing[id(child)] for child in alike]
                given = {output for _, output in nodes if output is not None}
                if any(taken in given for taken, _ in nodes):
                    dead = [child for child in alike if self._kinds(child) <= {"n"}]
                    found.update(id(p) for child in dead for p in child.parameters())
        return found

    def _kinds(self, module: Any) -> Set[str]:
        """The letters of all gradients below ``module``."""
        return {
            letter for p in module.parameters() for letter in self._letters.get(id(p), {}).values()
        }

    def optimizers(self, optimizers: List[Any], steps: Dict[int, int]) -> List[Dict[str, Any]]:
        """What is known about each optimizer; ``steps`` are the steps it finished, by id."""
        return [
            {
                "type": type(optimizer).__name__,
                "parameters": len(held_by(optimizer)),
                "trainable": sum(parameter.requires_grad for parameter in held_by(optimizer)),
                "steps": steps.get(id(optimizer), 0),
                "learning_rates": [
                    protocol.number(each) for each in self.rates.get(id(optimizer), [])
                ],
                "scaled": self.scaled.get(id(optimizer), 0),
                "step": own_place(type(optimizer).step),
                "frames": self.built_at(optimizer),
            }
            for optimizer in optimizers
        ]

    def nonfinite(self) -> Optional[Dict[str, Any]]:
        """The first NaN or infinity, with its module; None if everything was finite."""
        owners = self.forward.owners()
        order = {identity: position for position, identity in enumerate(self.forward.seen)}
        if self._broken:
            step = min(self._broken)
            # Clipping spreads a non-finite gradient to all other parameters.
            hooked = [p for p in self._broken[step] if self._own_hook(p)]
            last = max(
                hooked or self._broken[step], key=lambda p: order.get(id(owners.get(id(p))), -1)
            )
            found = {"step": step + 1, "owner": last, "frames": self._hook_on(last)}
            self.forward.finite.found.setdefault("gradient", found)
        first = self.forward.finite.first()
        if first is None:
            return None
        return {
            "where": first["where"],
            **{
                key: first[key]
                for key in ("operation", "hidden", "sizes", "masked")
                if key in first
            },
            **self._located(first),
        }

    def zero_output(self) -> Optional[Dict[str, Any]]:
        """The first module whose output was all zeros, unlike its input and parameters."""
        first = self.forward.finite.zero
        if first is None:
            return None
        found = {"where": "output", **self._located(first)}
        made = source.called_in(type(first["owner"]).forward, first["operation"])[-1:]
        return {
            **found,
            "operation": first["operation"] if made else None,
            "frames": made + found["frames"],
        }

    def initialised(self) -> List[Dict[str, Any]]:
        """Where the script initialised the layer before the module whose output was all zeros."""
        first, filled = self.forward.finite.zero, self.forward.severing.filled
        before: List[Any] = []
        for module in self.forward.seen.values():
            if first is None or module is first["owner"]:
                break
            before = list(module.parameters(recurse=False)) or before
        lines = [filled[id(each)] for each in before if id(each) in filled]
        return line(lines[-1]) if lines else []

    def flat(self) -> Optional[Dict[str, Any]]:
        """The first operation that got a gradient and passed only zeros on."""
        first = self.forward.finite.flat or self.forward.finite.product
        if first is None:
            return None
        found = {"where": "gradient", "operation": first["operation"], **self._located(first)}
        made = (
            [at for _, at in source.called(found["type"].__eq__)]
            if "one value" in first["operation"]
            and first["owner"] is not None
            and not own_place(type(first["owner"]).forward)
            else []
        )
        if first["operation"] in FACTORS and found["frames"] and not found["frames"][0]["user"]:
            words = source.words_at(found["frames"][0])
            factors = source.said(
                lambda name: name in words or SCALE.search(name), lambda value: value == 0.0
            )
            made = [at for _, at in factors]
        return {**found, "frames": [*made, *found["frames"]] if len(made) == 1 else found["frames"]}

    def _located(self, first: Dict[str, Any]) -> Dict[str, Any]:
        owners = self.forward.owners()
        owner = owners.get(id(first["owner"]), first["owner"])
        if owner is None:  # outside of all modules
            return {"module": "", "type": "", "step": first["step"], "frames": first["frames"]}
        names, _ = named(self.tree.tops(self.forward.roots()))
        kind = type(owner).__name__
        named_owner = {"module": names.get(id(owner), kind), "type": kind}
        return {**named_owner, "step": first["step"], "frames": first["frames"]}

    def blank(self) -> List[Dict[str, Any]]:
        """Where the parameters that got only zeros were made, if all that multiply are zeros too.

        Of two factors that are both zero, none gets a gradient.
        """
        factors = [self._parameters[i] for i in self.zeroed if self._parameters[i].dim() > 1]
        if len(factors) < 2 or any(map(greatest, factors)):  # noqa: PLR2004  (one is no product)
            return []
        filled = self.forward.severing.filled
        found = []
        for parameter in factors:
            entry = self._entries[id(parameter)]
            owner = next((m for m in self.tree.known() if owns(m, parameter)), None)
            name = entry["name"].rpartition(".")[2]
            at = line(filled[id(parameter)]) if id(parameter) in filled else []
            at = at or ([] if owner is None else source.attribute(type(owner), name))
            found.append({"text": entry["name"], "frames": at})
        return found[:FEW]

    def hooks(self) -> List[Dict[str, Any]]:
        """The hooks that the script put on parameters that learn nothing."""
        names = {
            identity: entry
            for identity, entry in self._entries.items()
            if "f" not in entry["gradients"]
        }
        found = [
            (entry["name"], self._own_hook(self._parameters[i]))
            for i, entry in names.items()
            if i in self._parameters
        ]
        hooks = [{"parameter": name, "frames": at} for name, at in found if at]
        first = self.forward.severing.first_hooked[:1]
        return hooks or ([{"parameter": "", "frames": first}] if first else [])

    def _hook_on(self, parameter: Any) -> List[Dict[str, Any]]:
        """Where a hook was put on the parameter or on another tensor; empty if there was none."""
        return self._own_hook(parameter) or self.forward.severing.first_hooked[:1]

    def _own_hook(self, parameter: Any) -> List[Dict[str, Any]]:
        at = self.forward.severing.hooks.get(id(parameter))
        if at is not None:
            return line(at)
        written_at = [written(hook) for hook in (parameter._backward_hooks or {}).values()]
        return [each for each in written_at if each is not None][:1]

    def _loose(self, held: Set[int]) -> List[Any]:
        """The outermost modules that are alive and have a parameter among ``held`` (ids)."""
        return [
            top
            for top in self.tree.loose()
            if any(id(parameter) in held for parameter in top.parameters())
        ]

    def _should_learn(self, held: Dict[int, Any]) -> Dict[int, Any]:
        """The trainable parameters of what is being trained.

        That is every module tree of which an optimizer holds something, as far as it took part. A
        module beside them counts if it ran in training mode with gradients on and belongs to the
        same outermost module. If the optimizers hold nothing of any module that ran, the modules
        may only be borrowed (functional_call): then what is held gets gradients. If it does not,
        the optimizers hold the wrong parameters, and the modules that ran are what should learn.
        """
        roots = self.forward.roots()
        holding = [root for root in roots if any(id(p) in held for p in root.parameters())]
        tops = {id(self.tree.top(root)) for root in holding}
        ran = [root for root in roots if self._ran_to_learn(root)]
        if self.by_hand and not held:
            taking_part, loose = [], [*self.by_hand.values(), *self._trained_by_hand()]
        elif holding:
            taking_part = holding + [root for root in ran if id(self.tree.top(root)) in tops]
            loose = list(held.values())
        elif any(set(self._letters.get(identity, {}).values()) - {"n"} for identity in held):
            copied = [self.copies.parameters[identity] for identity in self.copied(held)]
            taking_part, loose = [], [*held.values(), *self._beside(held), *copied]
        else:
            taking_part = ran
            own = (p for root in ran for p in root.parameters() if p.device.type != "meta")
            loose = [] if any(p.requires_grad for p in own) else list(held.values())
        candidates = [parameter for root in taking_part for parameter in root.parameters()] + loose
        if self._letters:
            return {
                id(parameter): parameter
                for parameter in candidates
                if id(parameter) in self._trainable
            }
        known = [p for p in candidates if p.requires_grad and not uninitialized(p)]
        return {id(parameter): parameter for parameter in known if not is_empty(parameter)}

    def _was_trained(self, parameter: Any) -> bool:
        """Whether an audited step looked at ``parameter`` and its module was trained.

        A module is trained if it ran in training mode with gradients on.
        """
        owners = (
            module
            for identity, module in self.forward.seen.items()
            if identity in self.forward.trained
        )
        return id(parameter) in self._trainable and any(
            parameter is own for module in owners for own in module.parameters(recurse=False)
        )

    def _ran_to_learn(self, root: Any) -> bool:
        return any(id(module) in self.forward.trained for module in root.modules())


def owns(module: Any, parameter: Any) -> bool:
    """Whether ``module`` itself has ``parameter``."""
    return any(each is parameter for each in module._parameters.values())


class PullWatch:
    """Whether the script moves parameters back towards their first values after each step.

    Of each optimizer it looks at the smallest parameter that tells directions apart.
    """

    def __init__(self, forward: ForwardWatch) -> None:
        self._forward = forward
        self._landed: Dict[int, Tuple[Any, Kept, int, Kept]] = {}
        """By optimizer: the parameter, its first value, and its version and value after a step."""
        self._back: Dict[int, List[Tuple[float, Any]]] = {}
        """By optimizer: which share of the way back it went before each later step, and the line
        that wrote it."""

    def after_step(
        self, optimizer: Any, first: List[Any], kept: Callable[[Any, Any], Optional[Kept]]
    ) -> None:
        """An optimizer stepped; ``first`` are parameters with their first values."""
        import torch

        one = next((each for each in first if each[1].tells_directions), None)
        value = None if one is None else kept(torch, one[0])
        if one is not None and value is not None:
            self._landed[id(optimizer)] = (*one, one[0]._version, value)

    def before_step(self, optimizer: Any) -> None:
        """An optimizer is about to step again."""
        landed = self._landed.pop(id(optimizer), None)
        if landed is not None:
            one, first, version, value = landed
            share = value.share_back(first, one) if one._version != version else 0.0
            at = self._forward.severing.rewritten.get(id(one))
            self._back.setdefault(id(optimizer), []).append((share, at))

    def facts(self) -> List[Dict[str, Any]]:
        """Where the script does that, as it stands in the observation."""
        found = []
        for each in self._back.values():
            lines = {at for _, at in each}
            if len(each) > 1 and len(lines) == 1 and all(share for share, _ in each):
                frames = [at for at in line(lines.pop()) if at["user"]][:1]
                text = f"{100 * min(share for share, _ in each):.3g} %"
                found += [{"how": "pulled", "text": text, "frames": frames}] if frames else []
        return found

    def let_go(self) -> None:
        """Keep nothing of the script alive."""
        self._landed.clear()
