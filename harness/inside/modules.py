"""Which modules exist, which of them contains which, and what a parameter is called."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

if TYPE_CHECKING:
    from .trouble import Trouble


class ModuleTree:
    """Follows the modules that are built while it is installed, through torch's registration hooks.

    A LightningModule's ``training_step`` never calls the module itself, so the forward hooks alone would not
    know that the network and the classifier beside it are parts of one thing.
    """

    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble
        self._parents: Any = weakref.WeakKeyDictionary()
        self._undo: List[Callable[[], None]] = []

    def install(self) -> Callable[[], None]:
        """Follow every module from now on; the returned function stops that."""
        from torch.nn.modules import module

        def of_module(parent: Any, _name: str, child: Any) -> None:
            try:
                if child is not None:
                    self._parents.setdefault(child, []).append(weakref.ref(parent))
            except Exception as error:  # a module that cannot be hashed, or referred to weakly
                self.trouble.add("modules", error)

        def of_parameter(parent: Any, _name: str, _parameter: Any) -> None:
            try:
                self._parents.setdefault(parent, [])
            except Exception as error:
                self.trouble.add("modules", error)

        self._undo = [
            module.register_module_module_registration_hook(of_module).remove,
            module.register_module_parameter_registration_hook(of_parameter).remove,
        ]
        return self.remove

    def remove(self) -> None:
        """Stop following."""
        while self._undo:
            self._undo.pop()()

    def top(self, module: Any) -> Any:
        """The outermost module known to contain ``module``; itself where there is none."""
        seen = {id(module)}
        while True:
            parent = next((p for p in self._living_parents(module) if id(p) not in seen), None)
            if parent is None:
                return module
            seen.add(id(parent))
            module = parent

    def _living_parents(self, module: Any) -> List[Any]:
        """Parents that still hold ``module`` as a child, newest first."""
        parents = [reference() for reference in reversed(self._parents.get(module, []))]
        return [p for p in parents if p is not None and any(child is module for child in p.children())]

    def loose(self) -> List[Any]:
        """Every followed module that is still alive and has no living parent."""
        return [module for module in list(self._parents) if not self._living_parents(module)]


def uninitialized(parameter: Any) -> bool:
    """Whether a lazy module has not run yet: such a parameter has no shape."""
    return hasattr(parameter, "materialize")


def named(roots: List[Any]) -> Tuple[Dict[int, str], Dict[int, str]]:
    """Names of all modules and of all parameters below ``roots``, by id.

    With several roots that have parameters (a loss function has none) each name starts with its root's class; a
    parameter shared by two modules has its first name.
    """
    modules: Dict[int, str] = {}
    parameters: Dict[int, str] = {}
    counts: Dict[str, int] = {}
    several = sum(any(True for _ in root.parameters()) for root in roots) > 1
    for root in roots:
        kind = type(root).__name__
        counts[kind] = counts.get(kind, 0) + 1
        title = kind if counts[kind] == 1 else f"{kind}#{counts[kind]}"
        prefix = f"{title}." if several else ""
        for name, module in root.named_modules():
            modules.setdefault(id(module), f"{prefix}{name}".rstrip(".") or title)
        for name, parameter in root.named_parameters():
            parameters.setdefault(id(parameter), f"{prefix}{name}")
    return modules, parameters


def title(module: Any, names: Dict[int, str]) -> Dict[str, Optional[str]]:
    """Name and type of ``module``, which may be None."""
    if module is None:
        return {"module": None, "type": None}
    kind = type(module).__name__
    return {"module": names.get(id(module), kind), "type": kind}
