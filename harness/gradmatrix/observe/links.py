"""Parts of a loss that lead to the wrong parameters, although every parameter has a gradient.

A sample or the nearest vector of a code book takes the loss from an encoder, which still learns by
another part of the loss; or the weight of a log-probability trains what gave it. Also what a loss
is itself: a log-probability without a minus, or a model that ends in a relu.
"""

from __future__ import annotations

import sys
import weakref
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    Set,
    Tuple,
)

from .finite import CUTTING
from .frames import frames, here, line, plumbing
from .source import called_in
from .torches import MOST, PASSING, Reach, behind, children, follow, identity, kind_of

if TYPE_CHECKING:
    from .frames import Lines
    from .severing import SeveringWatch

LINEAR = (
    *PASSING,
    *("Sub", "Rsub", "Add", "Div", "Mean", "Std", "Sum", "Stack", "Cat", "Exp"),
)
"""From a loss to a log-probability, or to the value in an advantage: a ratio has an ``exp``."""
AVERAGES = ("Sum", "Mean", "Div", "Clone", "Alias", "Squeeze", "View")
"""From a loss to what it is an average of; its sign stays."""
REGRESSIONS = ("Pow", "MseLoss", "SmoothL1Loss", "HuberLoss", "L1Loss", "Abs")
MATRIX = 2
"""The dimensions of a code book, and of its vectors in one row for each example."""
SAMPLES_KEPT = 16
"""So many samples of a step, the first ones, are followed. A policy draws more in an episode."""
LAYERS = ("Addmm", "Mm", "Convolution", "Bmm")
"""Nodes of layers that may get a sample."""


class LinkWatch:
    """Watches distributions, and what layers get."""

    def __init__(self, severing: SeveringWatch) -> None:
        self.severing = severing
        self.samples: List[Dict[str, Any]] = []
        """In this step: the first samples of distributions whose parameters have a graph."""
        self.choices: List[Dict[str, Any]] = []
        """In this step: the vectors that were chosen from a code book in a buffer."""
        self.linked: Set[int] = set()
        """In this step: ids of the modules that got an input with a graph."""
        self.differences: Dict[int, Lines] = {}
        """In this step: by the identity of its node, where a difference was computed."""
        self.scores: Set[int] = set()
        """In this step: identities of the nodes of log-probabilities."""
        self.likely: Dict[int, Lines] = {}
        """In this step: by the identity of its node, where a log-probability was computed."""
        self._scored: Set[int] = set()
        """Ids of the leaves behind log-probabilities."""
        self._walked: Dict[int, Reach] = {}
        """In this step: the nodes behind log-probabilities."""
        self._found: Dict[Tuple[str, Any], Tuple[List[Dict[str, Any]], Set[int]]] = {}
        """What was found, by how and by its line: the frames, and the leaves behind a sample."""
        self._excused: Set[Any] = set()
        """Lines whose samples go where they should."""
        self._ends: Dict[Any, Optional[Lines]] = {}
        """The operations and the classes of modules with which the models of backward passes ended,
        if that cuts values off, and where each module was called."""
        self._wrapped: Set[Tuple[Any, str]] = set()

    def install(self, torch: Any, replace: Callable[..., None]) -> None:
        """Watch distributions from now on, with the function that wraps an attribute."""
        self._torch, self._replace = torch, replace
        self._wrapped.clear()
        replace(torch.distributions.Distribution, "__init__", self._built, after=True)
        replace(torch, "normal", self._normal, after=True)
        replace(torch.nn.functional, "gaussian_nll_loss", self._score, after=True)

    def new_step(self) -> None:
        """Forget what happened in the step that is over."""
        for kept in (
            *(self.samples, self.choices, self.linked, self.differences),
            *(self.scores, self.likely, self._walked),
        ):
            kept.clear()

    def _built(self, _result: Any, distribution: Any, *_: Any, **__: Any) -> None:
        """Watch the methods of a class when a distribution of it is first made."""
        for name, note in (("sample", self._drawn), ("log_prob", self._likely)):
            owner = next((each for each in type(distribution).__mro__ if name in vars(each)), None)
            if owner is not None and (owner, name) not in self._wrapped:
                self._wrapped.add((owner, name))
                self._replace(owner, name, note, after=True)

    def _drawn(self, result: Any, distribution: Any, *_: Any, **__: Any) -> None:
        if distribution.has_rsample and not plumbing(sys._getframe(3)):
            self._sampled("sample", result, list(parameters_of(self._torch, distribution)))

    def _normal(self, result: Any, *given: Any, **named: Any) -> None:
        if not plumbing(sys._getframe(3)):
            self._sampled("normal", result, [*given, *named.values()])

    def _sampled(self, how: str, result: Any, given: Iterable[Any]) -> None:
        sources = [each for each in given if getattr(each, "grad_fn", None) is not None]
        if not sources or not self._torch.is_grad_enabled():
            return
        flat = result.grad_fn is not None
        at = frames()
        for source in sources:
            self.severing.sever(source, how, at, self.severing.flat if flat else None)
        if len(self.samples) == SAMPLES_KEPT:
            return
        leaves = [follow(each.grad_fn, Reach()).leaves for each in sources]
        self.samples.append(
            {
                "how": how,
                "sample": weakref.ref(result),
                "node": identity(result.grad_fn) if flat else None,
                "leaves": {leaf for each in leaves for leaf in each},
                "frames": at,
                "fed": set(),
            }
        )

    def _score(self, result: Any, *_: Any, **__: Any) -> None:
        if result.grad_fn is not None:
            self.scores.add(identity(result.grad_fn))
            self._scored.update(behind(result.grad_fn, self._walked).leaves)

    def _likely(self, result: Any, *given: Any, **__: Any) -> None:
        at = here()
        if result.grad_fn is not None and at is not None:
            self.likely[identity(result.grad_fn)] = at
        self._score(result, *given)

    def chosen(self, module: Any, numbers: Any) -> None:
        """A ``module`` chose something by these ``numbers``, perhaps of a code book in a buffer."""
        event = self.severing.severed[-1] if self.severing.severed else None
        books = [] if module is None else [b for b in module.buffers() if b.is_floating_point()]
        sizes = {int(book.shape[1]) for book in books if len(book.shape) == MATRIX}
        if sizes and event is not None and event["behind"] is not None:
            self.choices.append({"event": event, "numbers": numbers, "sizes": sizes, "fed": set()})

    def subtracted(self, result: Any) -> None:
        """Note where a difference was computed, once there are log-probabilities."""
        if self.scores and result.grad_fn is not None:
            at = here()
            if at is not None:
                self.differences[identity(result.grad_fn)] = at

    def ran(self, module: Any, inputs: List[Any], root: Any) -> None:
        """A module ran on ``inputs`` and gave ``root``, which has a graph."""
        samples = [(each, each["sample"]()) for each in self.samples]
        if any(t.requires_grad and all(t is not s for _, s in samples) for t in inputs):
            self.linked.add(id(module))
        for choice in self.choices if not any(tensor.requires_grad for tensor in inputs) else ():
            learns = any(p.requires_grad for p in module.parameters(recurse=False))
            if learns and any(looked_up(self._torch, t, choice) for t in inputs):
                choice["fed"].add((id(module), identity(root.grad_fn)))
        for each, sample in samples:
            if sample is not None and any(holds(self._torch, t, sample) for t in inputs):
                own = {id(p) for p in module.parameters() if p.requires_grad}
                if own & each["leaves"]:
                    self._excused.add(place(each["frames"]))
                elif own:
                    each["fed"].add((id(module), identity(root.grad_fn)))

    def _look_at_end(self, roots: List[Any], outputs: List[Any]) -> None:
        """Keep the module whose output is cut off, if nothing with parameters comes after it."""
        cuts, before = cut_at_the_end(roots)
        cut = identity(cuts[0]) if len(cuts) == 1 else None
        end: Any = next(
            (
                (CUTTING[kind_of(cuts[0])], type(module), at)
                for node, module, at in (outputs if cut is not None else ())
                if node == cut or (node in before and any(True for _ in module.parameters()))
            ),
            None,
        )
        self._ends[end and end[:2]] = end and end[2]

    def ended(self) -> Optional[Dict[str, Any]]:
        """The operation with which the models of all backward passes ended, and its line."""
        end = next(iter(self._ends)) if len(self._ends) == 1 else None
        if end is None:
            return None
        operation, kind = end
        made = called_in(kind.forward, operation)[-1:]
        text = f"`{operation}` of {kind.__name__}" if made else kind.__name__
        return {"text": text, "frames": made or line(self._ends[end])}

    def about_to(self, roots: List[Any], found: Reach, outputs: List[Any]) -> None:
        """A backward pass is about to run from ``roots``, which reaches ``found``.

        ``outputs`` are the outputs of modules: the identity of the node, the module, and the line.
        """
        self._look_at_end(roots, outputs)
        choices = [e for e in self.severing.severed if e["how"] == "argmin" and e["behind"]]
        for choice in self.choices:
            if unlinked(choice, found, list(nodes_behind(roots)), outputs, self.linked):
                self._keep("argmin", choice["event"]["frames"])
        if not (choices or self.scores or self.samples):
            return
        self._look_for_likelihood(roots)
        nodes = list(nodes_behind(roots))
        for each in self.samples:
            if self._misses(each, roots, found, nodes):
                self._keep(each["how"], each["frames"], each["leaves"])
        for event in choices:
            if unquantised(event, found, nodes, outputs):
                self._keep("argmin", event["frames"])
        if self.scores and self.differences:
            self._look_for_weights(nodes)

    def _keep(self, how: str, at: List[Dict[str, Any]], leaves: Iterable[int] = ()) -> None:
        if at:
            self._found.setdefault((how, place(at)), (at, set(leaves)))

    def _misses(
        self, sample: Dict[str, Any], roots: List[Any], found: Reach, nodes: List[Any]
    ) -> bool:
        """Whether the loss reaches a layer by a sample, and what it was drawn from by another way.

        Not if that layer also got something that has a graph, or if the sample is used otherwise.
        """
        fed = {module for module, node in sample["fed"] if node in found.nodes}
        if not fed or fed & self.linked:
            return False
        drawn = sample["node"]
        used = [n for n in nodes if any(identity(each) == drawn for each in children(n))]
        by_layers = all(kind_of(node) in (*LAYERS, *PASSING) for node in used)
        return by_layers and not sample["leaves"].isdisjoint(leaves_of(nodes_behind(roots, drawn)))

    def _look_for_likelihood(self, roots: List[Any]) -> None:
        """Note a log-probability that is the loss; one with a minus before it is none."""
        for root in roots if self.likely else ():
            node = root.grad_fn
            while identity(node) not in self.likely and kind_of(node) in AVERAGES:
                node = children(node)[0]
            self.severing.noticed.minimised = self.likely.get(identity(node))

    def _look_for_weights(self, nodes: List[Any]) -> None:
        """Find products of a log-probability and a difference whose value is regressed, too."""
        regressed: Set[int] = set()
        for node in nodes:
            if kind_of(node) in REGRESSIONS:
                regressed.update(*map(chain, children(node)))
        for node in nodes:
            both = [chain(each) for each in children(node)] if kind_of(node) == "Mul" else []
            for score, weight in (both, both[::-1]) if len(both) == 2 else ():  # noqa: PLR2004
                at = next((self.differences[n] for n in weight if n in self.differences), None)
                if at is None or weight & self.scores or not score & self.scores:
                    continue
                if weight & regressed:
                    self._keep("weight", line(at))

    def facts(self) -> List[Dict[str, Any]]:
        """What was found, as it stands in the observation."""
        return [
            {"text": how, "frames": at}
            for (how, where), (at, leaves) in self._found.items()
            if where not in self._excused and leaves.isdisjoint(self._scored)
        ]


def unquantised(event: Dict[str, Any], found: Reach, nodes: List[Any], outputs: List[Any]) -> bool:
    """Whether a layer got the nearest vectors of a code book without a link to what was compared.

    ``event`` is an ``argmin`` of distances, with the code book and an encoder behind them. The
    loss trains the encoder by another part alone.
    """
    compared = set(event["behind"].whole().leaves)
    by_identity = {identity(node): node for node in nodes}
    books: Set[int] = set()
    for number, module, _ in outputs[event["stamp"] :]:
        own = {id(p) for p in module.parameters() if p.requires_grad}
        if number in by_identity and own.isdisjoint(compared) and own:
            behind_it = compared & set(follow(by_identity[number], Reach()).leaves)
            books |= behind_it
    return len(books) == 1 and bool((compared - books) & set(found.leaves))


def looked_up(torch: Any, given: Any, choice: Dict[str, Any]) -> bool:
    """Whether ``given`` has one vector for each number that was chosen: the same for the same."""
    numbers = choice["numbers"].reshape(-1)
    if given.is_cuda and torch.cuda.is_current_stream_capturing():
        return False
    for vectors in (given, given.movedim(1, -1)) if given.dim() > MATRIX else (given,):
        size = vectors.shape[-1] if vectors.dim() else 0
        if size not in choice["sizes"] or vectors.numel() != size * numbers.numel():
            continue
        rows = torch._C._TensorBase.detach(vectors).reshape(-1, size)
        known, places = torch.unique(numbers, return_inverse=True)
        if 1 < known.numel() < numbers.numel():
            first = rows.new_empty(known.numel(), size)
            first[places] = rows
            if torch.equal(first[places], rows):
                return True
    return False


def unlinked(
    choice: Dict[str, Any], found: Reach, nodes: List[Any], outputs: List[Any], linked: Set[int]
) -> bool:
    """Whether a layer got the vectors of a ``choice`` without a link to what was compared.

    The loss trains that by another part alone, and no other layer gets it: one that does may be
    what it is trained for, beside a layer that is only to read the vectors.
    """
    compared = set(choice["event"]["behind"].whole().leaves)
    fed = {module for module, node in choice["fed"] if node in found.nodes}
    if not fed or fed & linked or compared.isdisjoint(found.leaves):
        return False
    by_identity = {identity(node): node for node in nodes}
    for number, module, _ in outputs:
        own = {id(p) for p in module.parameters(recurse=False) if p.requires_grad}
        node = by_identity.get(number) if own and own.isdisjoint(compared) else None
        if node is not None and not compared.isdisjoint(follow(node, Reach()).leaves):
            return False
    return True


def parameters_of(torch: Any, distribution: Any) -> Iterable[Any]:
    """The tensors of a distribution, and of those that it is made of."""
    for value in list(vars(distribution).values()):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, torch.distributions.Distribution):
            yield from parameters_of(torch, value)


def holds(torch: Any, given: Any, sample: Any) -> bool:
    """Whether ``given`` is a sample, or begins or ends with it in its last dimension."""
    if given is sample or not sample.dim() or given.shape[:-1] != sample.shape[:-1]:
        return given is sample
    if given.dtype != sample.dtype or given.device != sample.device:
        return False
    given, sample = (torch._C._TensorBase.detach(each) for each in (given, sample))
    size = sample.shape[-1]
    return any(torch.equal(part, sample) for part in (given[..., :size], given[..., -size:]))


def cut_at_the_end(roots: Iterable[Any]) -> Tuple[List[Any], Set[int]]:
    """The nodes that cut values off between ``roots`` and all parameters.

    Returns:
        these nodes, and the identities of those before them; no node if a parameter is nearer.
    """
    waiting = [root.grad_fn for root in roots if root.grad_fn is not None]
    cuts: List[Any] = []
    before: Set[int] = set()
    for node in waiting:
        if kind_of(node) in CUTTING:
            cuts.append(node)
        elif kind_of(node) == "AccumulateGrad" or hasattr(node, "_forward_cls"):
            return [], before  # a function in Python may hold parameters, as a checkpoint does
        elif identity(node) not in before:
            before.add(identity(node))
            waiting += children(node)
    return cuts, before


def place(at: List[Dict[str, Any]]) -> Any:
    """The line of some frames."""
    return (at[0]["file"], at[0]["line"]) if at else None


def nodes_behind(roots: Iterable[Any], stop: Any = None) -> Iterator[Any]:
    """All nodes that are reached from ``roots``, not through the one with the identity ``stop``."""
    waiting = [root.grad_fn for root in roots if root.grad_fn is not None]
    seen: Set[Any] = set()
    while waiting and len(seen) < MOST:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            yield node
            if stop is None or identity(node) != stop:
                waiting += children(node)


def leaves_of(nodes: Iterable[Any]) -> Iterator[int]:
    """The ids of the leaves among ``nodes``."""
    return (id(node.variable) for node in nodes if hasattr(node, "variable"))


def chain(start: Any) -> Set[int]:
    """``start`` and what it is a sum, a ratio or a part of, by identity."""
    waiting: List[Any] = [start]
    found: Set[int] = set()
    while waiting and len(found) < MOST:
        node = waiting.pop()
        if identity(node) not in found:
            found.add(identity(node))
            following = children(node)
            if kind_of(node) in LINEAR or (kind_of(node) == "Mul" and len(following) == 1):
                waiting += following
    return found
