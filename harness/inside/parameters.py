"""Audit the parameters at each optimizer step: which should learn, what gradient they got, whether they changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Set

from .modules import ModuleTree, named

if TYPE_CHECKING:
    from .forward import ForwardWatch
    from .trouble import Trouble


class ParameterWatch:
    """Reads gradients after an optimizer's step: a closure has then filled them, and nothing has cleared them."""

    def __init__(self, tree: ModuleTree, forward: ForwardWatch, trouble: Trouble) -> None:
        self.tree = tree
        self.forward = forward
        self.trouble = trouble
        self._squares: Dict[int, float] = {}
        self._parameters: Dict[int, Any] = {}
        self._letters: Dict[int, Dict[int, str]] = {}
        self._changed: Set[int] = set()
        self._before: Dict[int, Any] = {}
        self._gradients: Dict[int, Any] = {}
        """Gradients as they were before the step: some optimizers clear them in it."""
        self._trainable: Dict[int, Any] = {}
        """What required a gradient at an audited step; a script may freeze it when it is done."""
        self._tops: List[Any] = []
        """Modules that are trained without their own forward: kept alive, so that their parameters keep their names."""

    def before_step(self, optimizer: Any) -> None:
        """Keep a copy of every parameter that has not been seen changing yet."""
        import torch

        if not self.forward.seen:
            self._tops += self._loose({id(parameter) for parameter in held_by(optimizer)})
        self._before, self._gradients = {}, {}
        with torch.no_grad():
            for parameter in held_by(optimizer):
                self._gradients[id(parameter)] = parameter.grad
                if id(parameter) not in self._changed:
                    try:
                        self._before[id(parameter)] = parameter.detach().clone()
                    except Exception as error:  # a tensor without values: on the meta device, sharded away
                        self.trouble.add("copy of a parameter", error)

    def after_step(self, optimizer: Any, step: int, optimizers: List[Any]) -> None:
        """Read the gradients and compare the values; ``step`` is how many this optimizer had finished before."""
        import torch

        self._squares.setdefault(step, 0.0)
        with torch.no_grad():
            for parameter in self._audited(optimizer, optimizers):
                self._parameters[id(parameter)] = parameter
                if parameter.requires_grad and parameter.numel():
                    try:
                        self._audit(torch, parameter, step)
                    except Exception as error:
                        self.trouble.add("a parameter", error)
        self._before, self._gradients = {}, {}

    def _audit(self, torch: Any, parameter: Any, step: int) -> None:
        identity = id(parameter)
        letters = self._letters.get(identity, {})
        if step not in letters:  # what nobody holds is looked at after the first optimizer's step
            gradient = parameter.grad if parameter.grad is not None else self._gradients.get(identity)
            letters[step], square = read_gradient(torch, gradient)
            self._letters[identity] = letters
            self._squares[step] += square
        self._trainable[identity] = parameter
        before = self._before.get(identity)
        if before is not None and not torch.equal(before, parameter.detach()) and bool(parameter.isfinite().all()):
            self._changed.add(identity)

    def norms(self) -> List[float]:
        """Total L2 norm of the gradients of each audited step, over all optimizers."""
        return [self._squares[step] ** 0.5 for step in sorted(self._squares)]

    def _audited(self, optimizer: Any, optimizers: List[Any]) -> List[Any]:
        """What this optimizer holds, and those trainable parameters of the modules seen that no optimizer holds."""
        found = {id(parameter): parameter for parameter in held_by(optimizer)}
        held = {id(parameter) for each in optimizers for parameter in held_by(each)}
        for root in self.forward.roots():
            for parameter in root.parameters():
                if id(parameter) not in held and parameter.requires_grad:
                    found.setdefault(id(parameter), parameter)
        return list(found.values())

    def facts(self, optimizers: List[Any]) -> List[Dict[str, Any]]:
        """One entry for each parameter that should learn or is held by an optimizer, in the model's order."""
        held = {id(p): p for optimizer in optimizers for p in held_by(optimizer)}
        learning = self._should_learn(held)
        everything = {**self._parameters, **held, **learning}
        tops = {id(top): top for top in map(self.tree.top, self.forward.roots())}
        tops.update((id(top), top) for top in self._loose(set(held)) if id(top) not in tops)
        _, names = named(list(tops.values()))
        order = {identity: position for position, identity in enumerate(names)}
        return [
            {
                "name": names.get(identity, f"parameter#{position}"),
                "shape": list(parameter.shape),
                "dtype": str(parameter.dtype).replace("torch.", ""),
                "learns": identity in learning,
                "held": identity in held,
                "gradients": "".join(letter for _, letter in sorted(self._letters.get(identity, {}).items())),
                "changed": identity in self._changed,
            }
            for position, (identity, parameter) in enumerate(
                sorted(everything.items(), key=lambda item: order.get(item[0], len(order)))
            )
        ]

    def _loose(self, held: Set[int]) -> List[Any]:
        """The outermost modules that are alive and have a parameter among ``held`` (ids)."""
        return [top for top in self.tree.loose() if any(id(parameter) in held for parameter in top.parameters())]

    def _should_learn(self, held: Dict[int, Any]) -> Dict[int, Any]:
        """The trainable parameters of what is being trained.

        That is each module tree of which an optimizer holds something, as far as it took part; a module beside
        them counts when it ran in training mode with gradients on and belongs to the same outermost module. Where
        the optimizers hold nothing of any module that ran, they hold the wrong parameters: the modules that ran are it.
        """
        roots = self.forward.roots()
        holding = [root for root in roots if any(id(p) in held for p in root.parameters())]
        tops = {id(self.tree.top(root)) for root in holding}
        ran = [root for root in roots if self._ran_to_learn(root)]
        if holding:
            taking_part = holding + [root for root in ran if id(self.tree.top(root)) in tops]
            loose = list(held.values())
        else:
            taking_part = ran
            loose = [] if any(p.requires_grad for root in ran for p in root.parameters()) else list(held.values())
        candidates = [parameter for root in taking_part for parameter in root.parameters()] + loose
        if self._letters:
            return {id(parameter): parameter for parameter in candidates if id(parameter) in self._trainable}
        return {id(parameter): parameter for parameter in candidates if parameter.requires_grad and parameter.numel()}

    def _ran_to_learn(self, root: Any) -> bool:
        return any(id(module) in self.forward.trained for module in root.modules())


def held_by(optimizer: Any) -> List[Any]:
    """The parameters of all groups of ``optimizer``."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def read_gradient(torch: Any, gradient: Any) -> Any:
    """The gradient's letter (``n`` none, ``z`` zero, ``f`` finite, ``x`` non-finite) and its squared L2 norm."""
    if gradient is None:
        return "n", 0.0
    values = gradient.coalesce().values() if gradient.is_sparse else gradient
    magnitudes = values.abs() if values.is_complex() else values
    square = float(magnitudes.float().square().sum().item())
    if not bool(torch.isfinite(values).all()):
        return "x", square
    return ("f" if bool((values != 0).any()) else "z"), square
