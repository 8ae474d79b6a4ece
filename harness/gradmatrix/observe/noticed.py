"""What a call did not do, although it raised nothing: it becomes a remark.

A loss that takes a softmax of a softmax, that compares every prediction with every target, or whose
targets the model cannot reach; a part of a loss that trains nothing; clipping that finds no
gradients, gradients that are cleared unused, a state none of whose keys fits, a
normalisation of single values, a learning rate under a name that nobody reads. Also a weight decay
that leaves the weights nothing to learn.
"""

from __future__ import annotations

import contextlib
import math
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from . import source
from .frames import frames, here, line, mine, of_user
from .torches import (
    AVERAGED,
    Kept,
    held_by,
    highest_rate,
    identity,
    is_parameter,
    kind_of,
    summands,
    transformed,
)

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from .frames import Lines

SHOWN = 4
SEVERAL = 2
"""Gradients that were clipped once may be a phase of their own."""
FLATTENED = ("View", "UnsafeView", "Alias", "ReshapeAlias")
"""Operations that leave values in their order."""
SHAPES = (
    *(*FLATTENED, "Transpose", "Permute", "T", "Squeeze", "Unsqueeze"),
    *("Index", "IndexSelect", "MaskedSelect", "Select", "Slice", "Gather", "ToCopy"),
)
"""Operations that give the same values, or some of them."""
LOGITS = "binary_cross_entropy_with_logits"
LANGUAGE = ("ForCausalLM", "LMHeadModel")
"""What the names of transformers' language models end with."""
IGNORED = -100
DIVERGENCE = "kl_div"
PROBABILITIES = (
    *(("Softmax", loss) for loss in ("cross_entropy", "nll_loss", DIVERGENCE)),
    ("Sigmoid", LOGITS),
)
"""Operations that give probabilities, and losses that want something else."""
RANGES = {
    "Relu": ("relu", 0.0, math.inf),
    "Sigmoid": ("sigmoid", 0.0, 1.0),
    "Tanh": ("tanh", -1.0, 1.0),
    "Softplus": ("softplus", 0.0, math.inf),
}
"""Operations whose results have bounds: the name, the least and the greatest value."""
OUTSIDE = 0.1
"""So large a part of the targets outside of these bounds is no rounding and no noise."""
SLIGHT = 1e-3
UNSIGNED = 2**64
"""What torch adds to the negative number of a dimension."""
NORMS = ("GroupNorm", "LayerNorm", "RMSNorm")
COUPLED = (
    *("SGD", "ASGD", "Adam", "NAdam", "RAdam", "Adamax"),
    *("Adagrad", "Adadelta", "RMSprop"),
)
"""Optimizers of torch that add weight decay to the gradient."""
STRONG = 1
"""Weight decay that makes the weight itself a part of the gradient."""


class Pass(NamedTuple):
    """A backward pass of this step."""

    at: Optional[Lines]
    parameter: Any
    """The smallest one that it reaches."""
    before: Optional[Kept]
    """The parameter's value before the pass, if that may be asked for."""
    gradient: Any
    """The parameter's gradient after the pass; None before it is over."""


class Labels:
    """Counts the losses over labels, and those all of whose labels are ignored."""

    def __init__(self) -> None:
        self.losses = 0
        self._first: Dict[str, Any] = {}
        """Of the first such loss: the label that is ignored, the frames, and whether it was NaN."""
        self._calls = 0

    def of_tokens(self, module: Any, labels: Any) -> None:
        """Count what a model was given; a language model has no use for the first label.

        Labels of other kinds, such as the boxes in a picture, are not counted.
        """
        if not isinstance(labels, sys.modules["torch"].Tensor) or transformed(labels):
            return
        if labels.dim() > 1 and not labels.is_floating_point() and not labels.is_meta:
            language = type(module).__name__.endswith(LANGUAGE)
            self.count(labels[:, 1:] if language else labels, IGNORED, None)

    def count(self, labels: Any, ignored: int, loss: Any) -> None:
        """Count a loss over ``labels``."""
        self.losses += 1
        if bool((labels == ignored).all()):
            if not self._calls:
                nan = loss is not None and bool(loss.isnan().any())
                self._first = {"text": str(ignored), "frames": frames(), "nan": nan}
            self._calls += 1

    def facts(self) -> Optional[Dict[str, Any]]:
        """How often all labels were ignored, as it stands in the observation; None if never."""
        if not self._calls:
            return None
        return {**self._first, "calls": self._calls, "losses": self.losses}


class NoticeWatch:
    """Keeps each fact once for each line."""

    def __init__(self) -> None:
        self._found: Dict[Tuple[str, str, int], Dict[str, Any]] = {}
        self.zeroed: Dict[int, Optional[Lines]] = {}
        """Tensors, by id, that were set to 0 in place since the last backward pass, and where."""
        self._clips = 0
        self._clipped: Optional[List[Dict[str, Any]]] = None
        """Where gradients were first clipped, until a call finds a gradient."""
        self._used: Set[int] = set()
        """Ids of the parameters that were stepped since the last backward pass."""
        self._differences: Dict[int, Any] = {}
        """Differences of each of n values and each of n others: by identity of the node, the text
        and the line."""
        self._end: Optional[Tuple[Any, ...]] = None
        """Of the first loss of a language model that leaves out all end tokens: the class of the
        model, and the frames. Empty if another loss has one."""
        self.twice: List[Dict[str, Any]] = []
        """Where an optimizer was built that has a parameter twice in a group."""
        self._constant: Optional[Tuple[str, Optional[Lines]]] = None
        """The last loss of this step that was computed of tensors without a graph, and where."""
        self.minimised: Optional[Lines] = None
        """Where a log-probability was computed that is the loss of this step, without a minus."""
        self._last: Optional[Pass] = None
        """The last backward pass of this step, if it reached a parameter."""
        self._cleared = self._passes = self._wasteful = 0
        """The passes of this step that were made at one line, and how many of their gradients were
        cleared before the next; and the steps in which some were."""
        self._clearing: Optional[Lines] = None
        """Where the last of them was cleared, if that was seen."""

    def add(self, how: str, text: str, at: List[Dict[str, Any]]) -> None:
        """Keep a fact of the user's own line."""
        user = of_user(at)
        if user is not None:
            entry = {"how": how, "text": text, "frames": [user]}
            self._found.setdefault((how, user["file"], user["line"]), entry)

    def changed(self, tensor: Any, how: str) -> None:
        """A tensor was changed in place. A gradient is one that needs none itself."""
        if how == "zero_" and not tensor.requires_grad:
            self.zeroed[id(tensor)] = here()

    def clips(self, parameters: List[Any]) -> None:
        """Gradients are about to be clipped."""
        if self._clips < 0:
            return
        if any(p.grad is not None and id(p) not in self._used for p in parameters):
            self._clips, self._clipped = -1, None
        elif parameters:
            self._clips += 1
            self._clipped = self._clipped or frames()

    def passes(
        self, roots: List[Any], leaves: Dict[int, Any], dropped: Dict[int, Optional[Lines]]
    ) -> None:
        """A backward pass from ``roots`` is about to reach ``leaves``.

        Args:
            roots: what it begins at.
            leaves: what it ends at.
            dropped: parameters, by id, whose gradients were set to None, and where.
        """
        import torch

        averaged = summands(roots, AVERAGED) if self._differences else ()
        for node, (text, at) in self._differences.items():
            if node in averaged:
                self.add("compared", text, line(at))
        self._differences.clear()
        at, last = here(), self._last
        if last is None or last.at != at:
            self._cleared = self._passes = 0
        elif last.gradient is not None and (
            last.parameter.grad is None or id(last.gradient) in self.zeroed
        ):
            self._cleared += last.before is None or not last.before.differs_from(last.parameter)
            cleared = self.zeroed.get(id(last.gradient))
            self._clearing = dropped.get(id(last.parameter), cleared)
        self._passes += 1
        least = min(filter(is_parameter, leaves.values()), key=torch.numel, default=None)
        asked = self._passes > 1 or self._wasteful > 0
        kept = Kept(torch, least) if asked and least is not None else None
        self._last = None if least is None else Pass(at, least, kept, None)

    def passed(self) -> None:
        """The backward pass is over."""
        self._used.clear()
        if self._last is not None:
            self._last = self._last._replace(gradient=self._last.parameter.grad)

    def steps(self, optimizer: Any) -> None:
        """An optimizer is about to step, perhaps with a gradient that the script made itself."""
        if self.minimised and not any(each.get("maximize") for each in optimizer.param_groups):
            self.add("minimised", "", line(self.minimised))
        self.minimised = None
        self._used.update(map(id, held_by(optimizer)))
        last = self._last
        if last and self._cleared and last.parameter.grad is last.gradient is not None:
            self._wasteful += 1
            if self._wasteful == SEVERAL:
                text = f"{self._cleared} of {self._passes}"
                self.add("cleared", text, line(self._clearing or last.at))
        self._last, self._cleared, self._passes, self._constant = None, 0, 0, None

    def compared(self, loss: str) -> Callable[..., None]:
        """What notes which values a ``loss`` compares: all pairs, or some that cannot be equal."""
        import torch

        def note(result: Any, *given: Any, **named: Any) -> None:
            sides = [*given, *(named[each] for each in ("input", "target") if each in named)][:2]
            shapes = [side.shape for side in sides]
            if torch.broadcast_shapes(*shapes).numel() > max(map(torch.numel, sides)):
                text = f"{loss} gets shapes {list(shapes[0])} and {list(shapes[1])}"
                self.add("compared", text, frames())
            self.computed(loss, result)
            self._in_range(loss, *sides)

        return note

    def computed(self, loss: str, result: Any) -> None:
        """A ``loss`` was computed, perhaps of nothing that can be trained."""
        import torch

        if torch.is_grad_enabled() and not result.requires_grad:
            self._constant = loss, here()

    def added(self) -> None:
        """A tensor without a graph was added to a loss that has one.

        It may be made of a loss without a graph that the same function computed.
        """
        at, (loss, computed) = here(), self._constant or ("", None)
        if at and computed and at[-1][0] is computed[-1][0]:
            self.add("constant", loss, line(computed))

    def _in_range(self, loss: str, given: Any, target: Any) -> None:
        """Look whether the targets are in the range of the operation that gave the predictions."""
        node, _ = source_of(given)
        if kind_of(node) not in RANGES or target.requires_grad or transformed(target):
            return
        name, least, greatest = RANGES[kind_of(node)]
        below, above = (target < least - SLIGHT), (target > greatest + SLIGHT)
        share = float((below | above).double().mean())
        if share >= OUTSIDE:
            bounds = f"from {least:g} to {greatest:g}" if greatest < math.inf else "0 or more"
            text = f"the output of a {name} is {bounds}, but {share:.0%} of the targets of {loss}"
            self.add("range", text, frames())

    def subtracted(self, result: Any, first: Any = None, second: Any = None, *_: Any) -> None:
        """A column was subtracted from a row, or a row from a column; all pairs may be meant."""
        sides = first, second
        shapes = [list(getattr(side, "shape", ())) for side in sides]
        row, column = sorted(shapes, key=len)
        if len(row) == 1 and row[0] > 1 and column == [*row, 1]:
            learned = [side.grad_fn for side in sides if getattr(side, "requires_grad", False)]
            if len(learned) == 1 and kind_of(learned[0]) not in ("Unsqueeze", "Index"):
                text = f"a subtraction gets shapes {shapes[0]} and {shapes[1]}"
                self._differences[identity(result.grad_fn)] = text, here()

    def labelled(self, loss: str, given: Any) -> None:
        """A ``loss`` over labels gets what the model gave."""
        node, kinds = source_of(given)
        if kind_of(node) == "LogSoftmax" and kinds <= {*FLATTENED}:
            scores = node._saved_result
            classes = classes_of(scores, given if kinds else None)
            if classes is not None and node._saved_dim not in (
                classes,
                classes - scores.dim() + UNSIGNED,
            ):
                self.add("classes", loss, frames())
        self._probable(loss, node)

    def _probable(self, loss: str, node: Any) -> None:
        if (kind_of(node), loss) in PROBABILITIES:
            self.add(loss, "", frames())

    def diverges(self, result: Any, *given: Any, **named: Any) -> None:
        """``kl_div`` gets logarithms of probabilities, or should."""
        self.computed(DIVERGENCE, result)
        self._probable(DIVERGENCE, source_of(named.get("input", *given[:1]))[0])

    def language(self, frame: Optional[FrameType]) -> None:
        """A loss over labels is computed in ``frame``: look at the labels of a language model.

        Models of transformers shift the labels themselves, so that each token predicts the next.
        """
        if "transformers" not in sys.modules:
            return
        while frame is not None and not reads_labels(frame.f_code):
            frame = frame.f_back
        module: Any = frame.f_locals.get("self") if frame is not None else None
        kind = type(module).__name__
        if frame is None or mine(frame.f_code.co_filename) or not kind.endswith(LANGUAGE):
            return
        given = [frame.f_locals.get(name) for name in ("input_ids", "labels", "attention_mask")]
        tokens, labels, mask = given
        if tokens is None or labels is None or tokens.shape != labels.shape or tokens.dim() == 1:
            return
        kept = labels != IGNORED
        following = (labels[:, :-1] == tokens[:, 1:]) | ~kept[:, :-1]
        if bool(following.all()) and bool((kept & (labels != tokens)).any()):
            self.add("shifted", kind, frames())
        end = getattr(module.config, "eos_token_id", None)
        if isinstance(end, int) and mask is not None and mask.shape == tokens.shape:
            ends = (tokens == end) & mask.bool()
            if bool((ends & kept).any()):
                self._end = ()
            elif self._end is None and bool(ends.any()) and bool(kept.any()):
                self._end = kind, frames()

    def logits(self, _result: Any, *given: Any, **named: Any) -> None:
        """A loss gets logits of yes or no."""
        self.labelled(LOGITS, named.get("input", *given[:1]))

    def ran(self, module: Any, inputs: List[Any]) -> None:
        """A module ran on ``inputs``."""
        kind = type(module).__name__
        if kind in NORMS and inputs and inputs[0].requires_grad:
            shape = getattr(module, "normalized_shape", None)
            groups = getattr(module, "num_groups", 0) * inputs[0].shape[0]
            if math.prod(shape) == 1 if shape is not None else groups == inputs[0].numel():
                self.add("norm", kind, frames())

    def loaded(
        self, result: Any, module: Any, state: Any = None, *given: Any, **named: Any
    ) -> None:
        """A module was given a ``state``."""
        own = {} if named.get("assign", *given[1:2]) else dict(module.named_parameters())
        if own and all(same_place(state, *each) for each in own.items()):
            at = frames()
            self.add("own", "", at if at and at[0]["user"] else [])
        missed, unknown = (
            getattr(result, f"{each}_keys", ()) for each in ("missing", "unexpected")
        )
        if state and missed and len(unknown) == len(state):
            at = frames()
            self.add("state", str(len(state)), at if at and at[0]["user"] else [])

    def rates(self, optimizers: List[Any]) -> None:
        """Look for a rate that was given to an optimizer of torch and not to its groups."""
        for each in optimizers:
            own = type(each).__module__.startswith("torch.optim")
            if own and "lr" in vars(each) and vars(each)["lr"] != highest_rate(each):
                for text, at in source.assigned("lr")[:1]:
                    self.add("rate", text, [at])

    def built(self, optimizer: Any, at: List[Dict[str, Any]]) -> None:
        """An optimizer was built ``at`` these frames: look at what it was given."""
        for group in optimizer.param_groups:
            if len(set(map(id, group["params"]))) < len(group["params"]):
                self.twice = at[:1]
        kind = type(optimizer)
        if not (kind.__module__.startswith("torch.optim") and kind.__name__ in COUPLED):
            return
        for group in optimizer.param_groups:
            decay = group.get("weight_decay")
            number = isinstance(decay, (int, float)) and not group.get("decoupled_weight_decay")
            if number and decay >= STRONG:
                self.add("decay", f"weight_decay={decay:g} of {kind.__name__}", at)

    def facts(self) -> List[Dict[str, Any]]:
        """What was noticed, as it stands in the observation."""
        if self._end:
            self.add("end", *self._end)
        if self._clips >= SEVERAL and self._clipped:
            self.add("clip", "", self._clipped)
        return list(self._found.values())[:SHOWN]


def reads_labels(code: CodeType) -> bool:
    """Whether this is the code of a function of tokens and their labels."""
    return "labels" in code.co_varnames and "input_ids" in code.co_varnames


def source_of(given: Any) -> Tuple[Any, Set[str]]:
    """The node that computed the values of ``given``, and the operations that came after it."""
    node, kinds = given.grad_fn, set()
    while node is not None and kind_of(node) in SHAPES:
        kinds.add(kind_of(node))
        node = node.next_functions[0][0]
    return node, kinds


def same_place(state: Any, name: str, parameter: Any) -> bool:
    """Whether the entry of ``state`` for a parameter is that parameter's own memory."""
    with contextlib.suppress(Exception):  # not every tensor has a place in memory
        place = state[name].data_ptr()
        return bool(place) and place == parameter.data_ptr()
    return False


def classes_of(scores: Any, rows: Any) -> Optional[int]:
    """The dimension of the classes in ``scores``; None if that is not known.

    They are the last one if ``scores`` were flattened to ``rows`` of them.
    """
    last = int(scores.dim()) - 1
    if rows is None:
        return min(1, last)
    flat = rows.dim() == 2 and rows.shape[-1] == scores.shape[-1]  # noqa: PLR2004  (a matrix)
    return last if flat else None
