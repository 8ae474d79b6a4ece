"""Watch an unmodified training script from outside: gradients, steps, warnings, step times.

The observer hooks what every framework calls in the end: ``torch.autograd.backward``, the step
hooks of optimizers (each finished optimizer step is a tick of the step clock) and the global module
hooks. The heavy hooks are on during the audited steps only. After them a tick is one clock reading,
and a backward call keeps one reference.
"""

from __future__ import annotations

import logging
import re
import sys
import warnings
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Set, Tuple

from . import frames, machine, protocol, severing, source, unmoved
from .backward import BackwardWatch
from .births import BirthWatch
from .clock import Clock, waited_s
from .evidence import Evidence
from .forward import ForwardWatch
from .late import LaterTraining, LateWatch
from .parameters import ParameterWatch
from .raising import culprit, without_parameters
from .ranks import RankWatch
from .rates import RateWatch, of_group, setter
from .replaced import compiler_is_there, step_aside, step_aside_before
from .scaler import ScalerWatch
from .torches import ModuleTree, Trouble, as_rate, held_by, used_up
from .unregistered import unregistered
from .updates import PATIENCE, UpdateWatch

if TYPE_CHECKING:
    from typing import Self


OFTEN = 64
"""A patient observer looks at each of this many steps, and then at every power of two."""
TIMES_KEPT = 10_000
"""A patient observer keeps the times of so many of the last steps."""
UNHOOKED = [2, 2]
"""The last release of torch in which torch.compile removes the hooks of an optimizer's step."""
KEPT = 40
"""At most this many different messages are kept, not counting those about gradients."""
OF_GRADIENTS = re.compile(r"grad|frozen|trainable|learning[ _]rate", re.IGNORECASE)
OURS = "global hooks on modules"
"""A warning of torch.compile about the observer's hooks. The script did not cause it."""
MESSAGE_LIMIT = 600


class Enough(SystemExit):
    """The script has made as many optimizer steps as were asked for; ends it with exit code 0."""


class Observer:
    """A context in which the script runs; afterwards :meth:`facts` returns what was seen.

    No ``except Exception`` of the script can catch :class:`Enough`.

    Args:
        audit: optimizer steps whose gradients and parameters are looked at.
        warmup: steps after the audit that are not timed.
        device: "cpu" or "cuda".
        light: count steps and take times, and watch nothing else.
        patient: after the audit, look again, ever more rarely, at parameters that had not learned
            yet.
        stop_after: end the script by :class:`Enough` after this many steps.
        folder: a folder that all processes of the script share, in which ranks are compared.
    """

    def __init__(
        self,
        audit: int,
        warmup: int,
        device: str,
        *,
        light: bool = False,
        patient: bool = False,
        stop_after: Optional[int] = None,
        folder: Optional[str] = None,
    ) -> None:
        self.audit = 0 if light else audit
        self.skip = audit + warmup
        self.device = device
        self.light = light
        self.patient = patient
        self.stop_after = stop_after
        self.stepped: Optional[Callable[[], None]] = None
        """Called after each step in place of the step clock."""
        self.on_update: Callable[[], None] = lambda: None
        """Called after each update of a script that steps no optimizer."""
        self.leaving: Callable[[], None] = lambda: None
        """Called before the script is stopped."""
        self.entered_training = False
        self.steps = 0
        self.ticks = Clock(TIMES_KEPT if patient else None)
        self.trouble = Trouble()
        self._step_of: Dict[int, int] = {}
        """Finished steps of each optimizer, by id."""
        self._since: Set[int] = set()
        """The optimizers that stepped since the last tick."""
        self._optimizers: List[Any] = []  # kept alive, so that no id is used again
        self._kinds: Set[Any] = set()  # the types of these optimizers
        self._settled: Optional[Dict[str, Any]] = None
        """The facts that were read from objects of the script, if none is kept alive any more."""
        self._well = False
        """Everything that should learn did, when this was last asked."""
        # Optimizers that were given a group whose iterator was used up before, by id.
        self._emptied: Set[int] = set()
        self._newcomers: Set[int] = set()
        """Optimizers built after the first step, by id; some scripts build one for each round."""
        self._waiting: Set[int] = set()
        """Optimizers that had not stepped when the audit ended (a generator beside a critic). They
        are audited when they do step."""
        self._undo: List[Callable[[], None]] = []
        self._synchronize: Optional[Callable[[], None]] = None
        self.tree = ModuleTree(self.trouble)
        self.messages = MessageWatch()
        self.scaler, self.rates = ScalerWatch(), RateWatch()
        self.ranks = None if folder is None else RankWatch(folder)
        self._unmoved: Optional[Dict[str, Any]] = None
        """Why the updates of a script without an optimizer change nothing."""
        self._first_step: Dict[str, Any] = {"stepped": [], "closure": None}
        """Where an optimizer's step was first called, and where its closure is written."""
        self.forward = ForwardWatch(self.clock, self.tree, self.trouble)
        self.births = BirthWatch(self.forward.innermost)
        self.parameters = ParameterWatch(self.tree, self.forward, self.trouble)
        self.evidence = Evidence(self.forward, self.parameters, self.births)
        self.late = LateWatch(self.births, self.forward, self.tree)
        self.updates = UpdateWatch(audit, self.parameters, lambda: bool(self._optimizers))
        self.backward = BackwardWatch(
            self.clock, self.trouble, self.evidence.about_to, self.updates
        )
        self.later = LaterTraining(self.evidence, self.births, self.backward)
        self._connect()

    def _connect(self) -> None:
        """Let the watches tell each other what they see."""
        self.late.audited = self._audited
        self.late.built_at = self.parameters.built_at
        self.late.scheduled = lambda optimizer: setter(self.rates.scheduled(optimizer))
        self.late.ended = self.forward.severing.links.ended
        self.late.froze = lambda: self.forward.severing.froze
        self.late.named, self.late.lived = self.parameters.names_of, self.parameters.lived
        self.late.made_by = lambda optimizer: (
            self.rates.scheduled(optimizer) or self.parameters.built_at(optimizer)
        )
        self.updates.began = self._began
        self.updates.answered = self._answered
        self.updates.updated = self._updated
        self.forward.outermost = self._outermost
        self.backward.unscaled = self.scaler.unscaled
        self.backward.differentiated = self._differentiated
        self.forward.severing.inputs = lambda: self.evidence.differentiated
        self.backward.gave_values = self.forward.severing.gave_values
        self.parameters.scaled = self.scaler.asked
        self.forward.severing.clips = self.scaler.clips
        self.evidence.reached = self._reached
        self.backward.passed = self._passed
        self.evidence.held = lambda: [held_by(optimizer) for optimizer in self._optimizers]
        self.scaler.made = lambda optimizer: self._step_of.get(optimizer, 0)
        self.scaler.on_skip = lambda: self.backward.skipped(self.steps)
        self.forward.finite.loss_of = self.backward.loss_of
        self.forward.finite.scaling = lambda: self.scaler.scaling
        self.forward.in_backward = self.forward.severing.in_backward = self.backward.running

    def synchronize(self) -> None:
        """Wait until the device has done all the work it was given."""
        if self._synchronize is not None:
            self._synchronize()

    def clock(self) -> int:
        """The current optimizer step, or request of a script without one, counted from 1."""
        return self.steps + self.updates.read + 1

    def __enter__(self) -> Self:
        import torch
        from torch.optim import optimizer as optim

        if compiler_is_there():
            self._guarded(step_aside)
        self._watch_optimizer_init(torch.optim.Optimizer)
        self._undo.append(optim.register_optimizer_step_pre_hook(self._before_step).remove)
        self._undo.append(optim.register_optimizer_step_post_hook(self._after_step).remove)
        if self.device == "cuda":
            self._synchronize = torch.cuda.synchronize
        if [int(number) for number in torch.__version__.split(".")[:2]] <= UNHOOKED:
            self.backward.before = self._hook_again
        if not self.light:
            self._undo.append(self.messages.install())
            self._undo.append(self.scaler.install())
            self._undo.append(self.rates.install())
            self._undo.append(self.backward.install())
            self._undo.append(self.tree.install())
            self._undo.append(self.forward.install())
            self._undo.append(self.forward.severing.install_early())
        return self

    def __exit__(self, *exception: object) -> None:
        while self._undo:
            self._undo.pop()()

    def _watch_optimizer_init(self, optimizer_class: Any) -> None:
        """Watch optimizers being built: the first one marks the change from set-up to training."""
        original = optimizer_class.__init__

        @wraps(original)
        def watched(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            self._guarded(step_aside_before, optimizer_class.add_param_group)
            given = [*args, *kwargs.values()]
            emptied = self._or(lambda: any(map(used_up, given)), otherwise=False)
            original(optimizer, *args, **kwargs)
            self._emptied.discard(id(optimizer))
            if emptied:
                self._emptied.add(id(optimizer))
            if not self.light:
                self._guarded(self._built, optimizer)
            self.entered_training = True

        optimizer_class.__init__ = watched

        def undo() -> None:
            optimizer_class.__init__ = original

        self._undo.append(undo)

    def _hook_again(self) -> None:
        """Put the step hooks on again."""
        from torch.optim import optimizer as optim

        for kind in self._kinds:
            code = getattr(kind.step, "__code__", None)
            if (
                code is not None
                and getattr(kind.step, "hooked", False)
                and code.co_name != "wrapper"
            ):
                kind.step = optim.Optimizer.profile_hook_step(kind.step)
                kind.step.hooked = True

    def _built(self, optimizer: Any) -> None:
        """Keep an optimizer and the line that built it.

        When the first one is built, the observer starts to watch what leaves the graph.
        """
        caller = frames.outside(sys._getframe(3), optimizer)
        if self.steps:
            self._newcomers.add(id(optimizer))
            self._step_of.pop(id(optimizer), None)  # an optimizer that is gone may have had this id
        self._keep(optimizer)
        self.late.built(optimizer)
        self.rates.built(optimizer)
        self.forward.severing.late = True
        if not self.births.on and self.steps < self.audit:
            self._undo.append(self.births.install(sys._getframe(3)))
        self.parameters.built(optimizer, frames.frames(caller))
        self.forward.severing.noticed.built(optimizer, self.parameters.built_at(optimizer))
        if not self.entered_training and self.steps < self.audit:
            self.forward.severing.install()
        if self.evidence.over:
            self.later.begin(optimizer, sys._getframe(3), self.parameters.built_at(optimizer))

    def _end_later_training(self) -> None:
        """The first step of a training that began after the audit is over."""
        self.later.end()
        if not self.patient:
            self.births.remove()
        self._stop_watching()
        if self._settled is not None and not self.evidence.without_graph:
            for watch in (self.forward, self.parameters, self.evidence):
                watch.let_go()

    def _stop_watching(self) -> None:
        """Remove the heavy hooks and release their memory."""
        self.forward.remove()
        self.forward.spoiled.forget()
        if self.patient:
            self._undo.append(self.forward.switches.install_calls())
        self.parameters.copies.remove()
        self.evidence.over = self.scaler.over = self.rates.over = True
        self.evidence.new_step()
        self.forward.severing.remove()

    def _keep(self, optimizer: Any) -> None:
        """Keep an optimizer alive, unless the audit is over: a script may build many."""
        if self.steps < max(self.audit, 1) and all(
            optimizer is not known for known in self._optimizers
        ):
            self._optimizers.append(optimizer)
            self._kinds.add(type(optimizer))
            self.evidence.several = len(self._optimizers) > 1

    def _audited(self, optimizer: Any) -> bool:
        """Whether this optimizer's current step is audited.

        The second of two optimizers may end its last audited step after the tick.
        """
        late = id(optimizer) in self._waiting
        return self._step_of.get(id(optimizer), 0) - self.parameters.copies.part < self.audit and (
            self.steps <= self.audit or late
        )

    def _reached(self, leaves: Dict[int, Any]) -> None:
        """A backward pass is about to reach ``leaves``."""
        if not self.later.runs:  # its optimizer is none of those that are kept
            self.parameters.copies.reached(self._optimizers, leaves)
        self.scaler.reaches(leaves)

    def _passed(self) -> None:
        """A backward pass is over."""
        self.scaler.passed()
        self.forward.severing.noticed.passed()

    def _differentiated(self, inputs: Any) -> None:
        """Gradients were asked for ``inputs``; only during the audit are they noted."""
        if not self.evidence.over:
            each = inputs if isinstance(inputs, tuple) else (inputs,)
            self.evidence.differentiated.update(map(id, each))

    def _outermost(self, module: Any) -> None:
        """A module is about to run inside no other."""
        self._guarded(self.updates.ran, module)
        self._guarded(self.parameters.evaluated, module)

    def _began(self) -> None:
        """A script without an optimizer asks for gradients: watch what leaves the graph."""
        if not self._optimizers:
            self.forward.severing.install()

    def _answered(self) -> None:
        """A script without an optimizer got gradients."""
        # Only from the second request on was everything watched from the start.
        starving = self.parameters.starving if self.updates.read > 1 else set()
        self.evidence.stepped(starving, self.parameters.zero)
        if self.forward.innermost() is None and not self._optimizers:  # else a step may come
            self.evidence.new_step()
        if self.updates.read == PATIENCE:  # what holds the reason may be gone at the end
            self._look_for_unmoved()
        if not self.updates.auditing and not self._optimizers:
            self._lighten()

    def _look_for_unmoved(self) -> None:
        """Look for the reason if updates by hand change nothing, or change something only once."""
        updates, asked = self.updates.updates, self.updates.requests
        known = self._unmoved
        if self._optimizers or updates > 1 or asked <= updates:
            self._unmoved = None
        elif not updates:
            self._unmoved = known or unmoved.unmoved()
        elif known is None or known["how"] != "used-up":
            self._unmoved = unmoved.used_up() if asked > self.audit else None

    def _before_step(self, optimizer: Any, given: Any = (), named: Any = None, *_: Any) -> None:
        self._guarded(self.parameters.copies.begin_step, optimizer)
        if not self.updates.over:
            self.updates.end()
            self._guarded(self.backward.first_step)
            self._guarded(self.evidence.forget)
        self.forward.severing.stepping = True
        if self.ranks is not None:
            self._guarded(self.ranks.before_step, optimizer)
        if self.later.steps(optimizer):
            self._guarded(self.later.before_step, optimizer)
            self._guarded(self.forward.severing.noticed.steps, optimizer)  # it lets go then
        if self.patient:
            self._guarded(self.late.before_step, optimizer)
        if self._audited(optimizer):
            self._guarded(self.scaler.steps, optimizer, *given[1:], *(named or {}).values())
            self._guarded(self.parameters.before_step, optimizer)
            self._guarded(self.forward.spoiled.stepped, held_by(optimizer))
            self._guarded(self.forward.severing.noticed.steps, optimizer)
            if not self._first_step["stepped"]:
                asked = [*given[1:], *(named or {}).values()]
                closure = next(filter(callable, asked), None)
                self._first_step = {
                    "stepped": frames.frames(sys._getframe(1)),
                    "closure": None if closure is None else frames.written(closure),
                }

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        try:
            self._count_step(optimizer)
        finally:
            self.forward.severing.stepping = False

    def _count_step(self, optimizer: Any) -> None:
        identity = id(optimizer)
        self._keep(optimizer)  # it may have been built before the observer started
        step = self._step_of.get(identity, 0) - self.parameters.copies.part
        if self._audited(optimizer):
            begun = [
                each
                for each in self._optimizers
                if not step or each is optimizer or id(each) in self._step_of
            ]
            self._guarded(self.parameters.after_step, optimizer, step, begun)
            coming = {  # their first step may still come, with a loss of its own
                id(p)
                for each in self._optimizers
                if each is not optimizer and id(each) not in self._step_of
                for p in held_by(each)
            }
            self._guarded(
                self.evidence.stepped, self.parameters.starving - coming, self.parameters.zero
            )
            self._guarded(self.evidence.turn_over, optimizer)
        self._step_of[identity] = step + 1
        newcomer = identity in self._newcomers
        if newcomer or self.later.steps(optimizer):
            self._guarded(self._began_late, optimizer)
        self._newcomers.discard(identity)
        begins = newcomer and (  # one optimizer for each parameter may be built in the first step
            self.backward.asked
            or identity not in self.late.strangers
            # After the audit nobody counts calls of autograd.grad.
            or (self.steps > self.audit and not self.backward.calls)
        )
        if self.parameters.copies.part or (
            self._since and identity not in self._since and not begins
        ):
            self._since.add(identity)
            return  # another optimizer of the same training step, or another part of its step
        self._since, self.backward.asked = {identity}, 0
        self.steps += 1
        if self.steps == self.audit:
            self._guarded(self._lighten)
        elif self.steps < self.audit:
            self._guarded(self.evidence.new_step)
        elif self.patient and (self.steps <= OFTEN or self.steps & (self.steps - 1) == 0):
            self._guarded(self.parameters.look_again)
            self._guarded(self.rates.look, optimizer)
            if self.steps == self.audit + 1:
                self._guarded(self._let_go)
        if self.stepped is not None:
            self.stepped()
        elif self.steps >= self.skip:
            self.synchronize()
            self.ticks.tick()
        self._stop_if_done()

    def _began_late(self, optimizer: Any) -> None:
        """An optimizer that was built after the first step makes its own first one."""
        if self.later.steps(optimizer):
            self._end_later_training()
        if self.steps > self.audit and id(optimizer) in self._newcomers:
            self.late.passes(optimizer, self.parameters.optimizers([optimizer], self._step_of))

    def _updated(self) -> None:
        """A script without an optimizer has changed something."""
        self.entered_training = True
        self.on_update()
        self._stop_if_done()

    @property
    def done(self) -> bool:
        """Whether the script has made as many steps, or updates by hand, as were asked for."""
        return self.stop_after is not None and self.steps + self.updates.updates >= self.stop_after

    def _stop_if_done(self) -> None:
        if self.done:
            self.leaving()
            raise Enough

    def _lighten(self) -> None:
        """The audit is over: remove the heavy hooks and release their memory."""
        self._waiting = {id(each) for each in self._optimizers if id(each) not in self._step_of}
        if self.patient:
            self.parameters.keep_unlearned()
        self._stop_watching()
        if not self.patient:
            self.births.remove()
        self.backward.lighten()
        machine.reset_peak_memory()

    def _guarded(self, watch: Callable[..., None], *arguments: Any) -> None:
        """Call ``watch``; an error in it is recorded and never reaches the script."""
        try:
            watch(*arguments)
        except Exception as error:
            self.trouble.add(watch.__qualname__, error)

    def facts(self) -> Dict[str, Any]:
        """The part of the observation that comes from the observer."""
        found = self._settled_facts()
        return {
            **found,
            "optimizers": [*found["optimizers"], *self.late.unjudged],
            "steps": self.steps,
            "updates": self.updates.updates,
            "requests": self.updates.requests,
            "losses": [protocol.number(loss) for loss in self.backward.losses()],
            "last_loss": protocol.number(self.backward.last_loss()),
            "nonfinite_from": self.backward.nonfinite_from,
            "rates": []
            if self.backward.nonfinite_from is None or self._optimizers
            else [at for _, at in source.said(unmoved.OF_OWN.search, bool)][:1],
            "skipped_steps": self.scaler.skipped(self._step_of),
            "clipped_scaled": self.scaler.clipped_scaled,
            "stepped_scaled": self.scaler.stepped_scaled,
            "gradient_norms": [protocol.number(norm) for norm in self.parameters.norms()],
            "backward": self.backward.calls,
            "warnings": self.messages.facts(),
            "faded": self._or(self.late.facts, None),
            "dead": self._or(self.late.dead, []),
            "noticed": [
                *self._or(self.forward.severing.noticed.facts, []),
                *(self._or(self.rates.low, []) if self.stop_after is None else []),
                *(self._or(self.late.weak, []) if self.stop_after is None else []),
                *self._or(self.rates.doubled, []),
                *self._or(self.rates.plateaus, []),
                *self._or(self.parameters.pull.facts, []),
                *self._or(self.late.evaluating, []),
            ],
            "step_times_s": [after[0] - before[0] for before, after in self.ticks.steps],
            "waited_s": [waited_s(*step) for step in self.ticks.steps],
            "observer_errors": self.trouble.errors,
        }

    def drift(self) -> Optional[Dict[str, Any]]:
        """How ranks that began with equal parameters differ, when this one has ended."""
        if self.ranks is None:
            return None
        self._guarded(self.ranks.end)
        found: Optional[Dict[str, Any]] = self._or(self.ranks.drift, None)
        return found and {**found, "whole": found["whole"] and not self.done}

    def _settled_facts(self) -> Dict[str, Any]:
        """The facts about objects; of a training after the audit only why it failed."""
        if self._settled is None:
            return self._of_objects()
        later = self._or(lambda: self._evidence(learning=True), {})
        made = self._or(lambda: self.births.inside(set(), self.evidence.named), [])
        switched = self._settled["ineffective"] or self._or(self.evidence.ineffective_later, [])
        return {
            **self._settled,
            **later,
            "ineffective": switched,
            **({"anew": made} if made else {}),
            "missed": self.later.missed,
        }

    def _of_objects(self) -> Dict[str, Any]:
        """The facts that are read from modules, parameters and optimizers."""
        self._guarded(self.updates.look)
        self._guarded(self._look_for_unmoved)
        self._guarded(self.forward.severing.noticed.rates, self._optimizers)
        parameters = [] if self.light else self._or(self._parameters, [])
        learning = [parameter for parameter in parameters if parameter["learns"]]
        late = [
            o
            for o in self._optimizers
            if id(o) in self._step_of and id(o) not in self.parameters.rates
        ]
        well = self._well = (
            not late
            and bool(learning)
            and all("f" in p["gradients"] and p["changed"] for p in learning)
            and self.steps + self.updates.updates > 0
        )
        return {
            "unmoved": self._unmoved,
            "asked": [] if well else self.updates.asked_at,
            "arguments": [] if self.light or well else self._or(self._arguments, []),
            "unread": not any(p["learns"] for p in parameters)
            and (bool(self.trouble.errors) or any(p["unread"] for p in parameters)),
            "parameters": parameters,
            **self._or(lambda: self._evidence(learning=bool(learning)), {"lost": []}),
            "nonfinite": None if self.light else self._or(self.parameters.nonfinite, None),
            "zero_output": None
            if self.light or well
            else self._or(self.parameters.zero_output, None),
            "initialised": [] if self.light or well else self._or(self.parameters.initialised, []),
            "flat": None if self.light or well else self._or(self.parameters.flat, None),
            "blank": [] if self.light or well else self._or(self.parameters.blank, []),
            "hooks": [] if self.light or well else self._or(self.parameters.hooks, []),
            "unheld": None if self.light else self._or(self._unheld, None),
            "optimizers": [] if self.light or well else self._or(self._of_optimizers, []),
            **({} if self.light else self._or(self._silent, {})),
        }

    def _undoing(self, held: Set[int]) -> Dict[str, Any]:
        """What brings earlier values back after each step of an optimizer."""
        found = source.undoing()
        written = [at for i, at in self.forward.severing.rewritten.items() if i in held]
        return (
            found
            if found["frames"] or not written
            else {**found, "frames": frames.line(written[-1])}
        )

    def _arguments(self) -> List[Dict[str, Any]]:
        """The arguments in the script that may explain it if no step is made or nothing learns."""
        if not self.steps:
            said = [] if self.updates.updates else [*source.manual(), *source.delays()]
        elif not (self.backward.calls or self.updates.requests):
            said = source.without_result("training_step")
        else:
            learning = [fact for fact in self.parameters.entries.values() if fact["learns"]]
            flat = self.parameters.zeroed and not any("f" in f["gradients"] for f in learning)
            still = any(fact["norm"] is not None for fact in learning)
            if flat:
                said = source.rewards()
            elif still and not self.parameters.zeroed:
                said = source.called(source.FLATTENING.fullmatch)
            else:
                said = []
        return [{"text": text, "frames": [at]} for text, at in said[:KEPT]]

    def _let_go(self) -> None:
        """Keep no module, parameter or optimizer alive if all that should learn does.

        The audit ended with the step before this one. What has not learned is looked at again.
        """
        found = self._of_objects()
        if not self._well or self._waiting or self.updates.updates:
            return
        self._settled = found
        self._optimizers.clear()
        for watch in (self.forward, self.parameters, self.evidence, self.births, self.rates):
            watch.let_go()

    def _parameters(self) -> List[Dict[str, Any]]:
        stepped = [optimizer for optimizer in self._optimizers if id(optimizer) in self._step_of]
        idle = [
            optimizer
            for optimizer in self._optimizers
            if stepped and id(optimizer) not in self._step_of
        ]
        return self.parameters.facts(stepped or self._optimizers, idle)

    def _evidence(self, *, learning: bool) -> Dict[str, Any]:
        return self.evidence.facts(
            self.parameters.starved, self.parameters.zeroed, learning=learning
        )

    def _held(self) -> Set[int]:
        """What the optimizers hold, and what they hold copies of, by id."""
        held = {id(p) for each in self._optimizers for p in self.parameters.copies.held(each)}
        return held | self.parameters.copied(held)

    def _unheld(self) -> Optional[Dict[str, Any]]:
        held = self._held()
        found = self.evidence.unheld(held) if self._optimizers else None
        if found is not None:
            found["built"] = self.parameters.built_at(self._optimizers[0])
            emptied = [each for each in self._optimizers if id(each) in self._emptied]
            if emptied and found["rests"]:
                found["emptied"] = self.parameters.built_at(emptied[0])
            if found["rests"] and not found["same"]:
                found["same"] = self.forward.severing.noticed.twice
            if not self._well:
                found["copied"] = [at for _, at in source.called("deepcopy".__eq__)]
        return found

    def _of_optimizers(self) -> List[Dict[str, Any]]:
        found = self.parameters.optimizers(self._optimizers, self._step_of)
        for optimizer, facts in zip(self._optimizers, found):
            eps = [group.get("eps") for group in optimizer.param_groups]
            facts["eps"] = next((e for e in eps if isinstance(e, float) and e >= 1), None)
            if facts["scaled"]:
                facts["scaled_at"] = self.scaler.asked_at
                facts["scale_at"] = [at for _, _, at in source.given("init_scale".__eq__)][:1]
            elif id(optimizer) not in self._step_of and self.backward.calls:
                facts.update(source.conditional(facts["frames"]))
            if facts["learning_rates"] and not any(facts["learning_rates"]):
                facts.update(self.rates.facts(optimizer, facts["frames"]))
            elif factor := self.rates.factor(optimizer, facts["learning_rates"]):
                facts.update(factor)
            elif 0.0 in map(as_rate, optimizer.param_groups):
                facts.update(of_group(facts["frames"]))
        return found

    def _silent(self) -> Dict[str, Any]:
        """What goes wrong although gradients flow, and the calls that are missing."""
        held = self._held()
        entries = self.parameters.entries
        loose = {
            i for i, fact in entries.items() if fact["learns"] and not (fact["held"] or i in held)
        }
        # A layer that was replaced again is in no model any more.
        loose = loose or self.parameters.reached.keys() - held
        kept = self.evidence.kept(entries)
        missing = tuple(
            name
            for name, missed in (
                ("backward", not (self._well and self.backward.calls)),
                (
                    "step",
                    not (self._well and self._step_of.keys() >= set(map(id, self._optimizers))),
                ),
                ("zero_grad", kept is not None),
            )
            if missed
        )
        return {
            **self.evidence.silent(held),
            **(
                {"unmoved": self._undoing(held)}
                if self.parameters.restored(self.backward.losses())
                else {}
            ),
            **self.parameters.initialised_anew(),
            "anew": self.births.inside(held, self.evidence.named) or self.births.facts(loose),
            "kept": kept,
            **({} if self.backward.calls and kept is None else self._first_step),
            "uncalled": [{"text": text, "frames": [at]} for text, at in source.uncalled(missing)][
                :KEPT
            ]
            if missing
            else [],
        }

    def of_error(self, error: BaseException) -> Dict[str, Any]:
        """The part of the observation that explains the exception that ended the script."""
        forward, passes = self.forward, len(self.backward.calls)
        empty = self._or(lambda: without_parameters(error), [])
        lists = self._or(lambda: unregistered(empty, self.tree, {}, lambda each: {id(each)}), [])
        return {
            **({"unregistered": lists} if lists else {}),
            "spoiled": self._or(lambda: self.evidence.spoiled(error), None),
            "culprit": self._or(
                lambda: culprit(error, forward, self._optimizers, self.parameters, passes), None
            ),
        }

    def _or(self, facts: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return facts()
        except Exception as error:
            self.trouble.add("facts", error)
            return otherwise


class MessageWatch:
    """Collects what the stack says: warnings, and what loggers log from level WARNING on.

    What would have been printed is still printed, and what a filter hides stays hidden.
    """

    def __init__(self) -> None:
        self._counts: Dict[Tuple[str, str], int] = {}

    def install(self) -> Callable[[], None]:
        """Listen from now on. The returned function ends that."""
        show, handle = warnings.showwarning, logging.Logger.handle

        def showwarning(message: Any, category: Any, *args: Any, **kwargs: Any) -> None:
            if OURS in str(message) or source.OF_READING in args[:1]:
                return
            if args and str(args[0]).startswith(frames.HERE):
                again(message, category)
                return
            self._add(category.__name__, str(message))
            show(message, category, *args, **kwargs)

        def handled(logger: logging.Logger, record: logging.LogRecord) -> Any:
            if record.levelno >= logging.WARNING and not logger.disabled:
                with suppress(Exception):  # what it logs may be no text
                    self._add(f"log:{record.name}", logged(record))
            return handle(logger, record)

        warnings.showwarning = showwarning
        logging.Logger.handle = handled  # type: ignore[method-assign,assignment]

        def undo() -> None:
            warnings.showwarning = show
            logging.Logger.handle = handle  # type: ignore[method-assign]

        return undo

    def _add(self, category: str, message: str) -> None:
        key = category, machine.without_local_paths(message)[:MESSAGE_LIMIT]
        if key in self._counts or len(self._counts) < KEPT or OF_GRADIENTS.search(message):
            self._counts[key] = self._counts.get(key, 0) + 1

    def facts(self) -> List[Dict[str, Any]]:
        """Each message once, with its count, in the order of first appearance."""
        return [{"category": c, "message": m, "count": n} for (c, m), n in self._counts.items()]


def logged(record: logging.LogRecord) -> str:
    """The text of a record; its format if the values do not fit that."""
    try:
        return record.getMessage()
    except Exception:
        return str(record.msg)


def again(message: Any, category: Any) -> None:
    """Warn again in the name of the line that called the watched function.

    The warning named a file of the observer, but the line that called it caused it.
    """
    vars(severing).get("__warningregistry__", {}).clear()
    frame = frames.visible(sys._getframe(2))
    if frame is not None:
        known = frame.f_globals.setdefault("__warningregistry__", {})
        name = frame.f_globals.get("__name__") or "<unknown>"
        warnings.warn_explicit(
            message, category, frame.f_code.co_filename, frame.f_lineno, name, known
        )
