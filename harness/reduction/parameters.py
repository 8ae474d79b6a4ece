"""Parameters and attributes that can only have one value: the value takes their place."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.reduction.constants import UNKNOWN, Named, literal, plain
from harness.reduction.unused import ENTRY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.reduction.source import Edit, Source


@dataclass(frozen=True)
class Called:
    """A function and every call of it; ``parameters`` are those that a call gives."""

    function: ast.FunctionDef
    calls: Sequence[ast.Call]
    names: frozenset[str]
    """What is bound once at the top of the module, and nowhere else."""
    is_method: bool = False

    @property
    def positional(self) -> list[ast.arg]:
        """The parameters that may be given by position."""
        arguments = self.function.args
        return [*arguments.posonlyargs, *arguments.args][self.is_method :]

    def argument(self, call: ast.Call, parameter: ast.arg) -> ast.expr | ast.keyword | None:
        """What ``call`` gives for ``parameter``, or None."""
        place = next((n for n, each in enumerate(self.positional) if each is parameter), len(call.args))
        if place < len(call.args):
            return call.args[place]
        return next((keyword for keyword in call.keywords if keyword.arg == parameter.arg), None)

    def value(self, call: ast.Call, parameter: ast.arg) -> object:
        """The constant that ``parameter`` has in ``call``, or UNKNOWN."""
        given = self.argument(call, parameter)
        if given is not None:
            return self._plain(given.value if isinstance(given, ast.keyword) else given)
        may_be_given = any(keyword.arg is None for keyword in call.keywords)
        return UNKNOWN if may_be_given else self._plain(self.default(parameter))

    def _plain(self, node: ast.expr | None) -> object:
        return Named(node.id) if isinstance(node, ast.Name) and node.id in self.names else plain(node)

    def default(self, parameter: ast.arg) -> ast.expr | None:
        """The default of ``parameter``."""
        arguments = self.function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = [*[None] * (len(positional) - len(arguments.defaults)), *arguments.defaults, *arguments.kw_defaults]
        pairs = zip([*positional, *arguments.kwonlyargs], defaults, strict=True)
        return next((default for each, default in pairs if each is parameter), None)


def specialise(source: Source, values: Sequence[object]) -> list[Edit]:
    """The entry with ``values`` in the place of its parameters."""
    entry = next(n for n in source.tree.body if isinstance(n, ast.FunctionDef) and n.name == ENTRY)
    parameters = [*entry.args.posonlyargs, *entry.args.args]
    edits = list(_described_by(source, entry, {parameter.arg for parameter in parameters}))
    for parameter, value in zip(parameters, values, strict=True):
        edits += _replaced(source, entry, parameter.arg, value)
    return edits + source.without_items(parameters, source.span(entry)[0])


def parameters(source: Source) -> list[Edit]:
    """One parameter that has the same constant at every call."""
    for called in _called(source.tree):
        starred = any(isinstance(arg, ast.Starred) for call in called.calls for arg in call.args)
        recursive = set(map(id, called.calls)) & set(map(id, ast.walk(called.function)))
        if called.function.args.vararg or starred or called.function.decorator_list or recursive:
            continue
        for parameter in [*called.positional, *called.function.args.kwonlyargs]:
            found = [called.value(call, parameter) for call in called.calls]
            same = all(value is not UNKNOWN and literal(value) == literal(found[0]) for value in found)
            if same and not _is_rebound(called.function, parameter.arg):
                return list(_without_parameter(source, called, parameter, found[0]))
    return []


def attributes(source: Source) -> list[Edit]:
    """One attribute of ``self`` that is set once, to a constant, and that the script itself reads."""
    reads = [n for n in ast.walk(source.tree) if isinstance(n, ast.Attribute)]
    for node in ast.walk(source.tree):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.Constant()):
                same = [each for each in reads if each.attr == name and each is not node.targets[0]]
                own = all(isinstance(n.ctx, ast.Load) and source.piece(n.value) == "self" for n in same)
                if same and own and name not in _bound_in_classes(source.tree) and not _in_string(source.tree, same):
                    value = source.piece(node.value)
                    return [source.without(node), *(source.replaced(each, value) for each in same)]
    return []


def _called(tree: ast.Module) -> Iterator[Called]:
    """The functions and classes at the top of the module of which every use is a call."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    names = _bound_once(tree)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name != ENTRY:
            calls = _calls(tree, {node.name}, frozenset())
            if calls:
                yield Called(node, calls, names)
        elif isinstance(node, ast.ClassDef) and (function := _initialiser(node)) is not None:
            calls = _constructions(tree, classes, node)
            if calls:
                yield Called(function, calls, names, is_method=True)


def _bound_once(tree: ast.Module) -> frozenset[str]:
    """Names that the top of the module binds, and nothing else does anywhere."""
    bound = Counter[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                bound[name] += 1
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                bound[name] += 1
            case ast.alias():
                bound[(node.asname or node.name).partition(".")[0]] += 1
    top = {name for node in tree.body for name in _binds(node)}
    return frozenset(name for name in top if bound[name] == 1)


def _binds(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
            return [name]
        case ast.Import() | ast.ImportFrom():
            return [(each.asname or each.name).partition(".")[0] for each in node.names]
    return []


def _calls(tree: ast.AST, names: set[str], beside: frozenset[int]) -> list[ast.Call]:
    """The calls of ``names``; none where a name is used in another way than in the nodes ``beside``."""
    calls = [
        n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in names
    ]
    functions = {id(call.func) for call in calls} | beside
    others = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in names and id(n) not in functions]
    return [] if others else calls


def _constructions(tree: ast.Module, classes: dict[str, ast.ClassDef], node: ast.ClassDef) -> list[ast.Call]:
    """The calls that end in the ``__init__`` of ``node``; none where they cannot all be told."""
    family = {name for name, each in classes.items() if node in _ancestors(each, classes)}
    several = [name for name in family if sum(isinstance(base, ast.Name) for base in classes[name].bases) > 1]
    initialised = [name for name in family if _initialiser(classes[name]) is not None]
    if several and len(initialised) > 1:
        return []
    heirs = {name for name in family if _initialised_by(classes[name], classes) is node}
    bases = frozenset(id(base) for each in classes.values() for base in each.bases) | _annotations(tree)
    direct = _calls(tree, heirs, bases)
    if not direct and any(isinstance(n, ast.Name) and n.id in heirs and id(n) not in bases for n in ast.walk(tree)):
        return []
    inherited = [
        call
        for name in initialised
        if name != node.name
        and any(_initialised_by(parent, classes) is node for parent in _parents(classes[name], classes))
        for call in ast.walk(classes[name])
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__"
    ]
    return [*direct, *inherited]


def _ancestors(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """The class itself and what it inherits from in this module."""
    return [node, *(each for parent in _parents(node, classes) for each in _ancestors(parent, classes))]


def _parents(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> list[ast.ClassDef]:
    return [classes[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in classes]


def _initialised_by(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> ast.ClassDef | None:
    """The class whose ``__init__`` makes an instance of ``node``, where it is of this module."""
    return next((each for each in _ancestors(node, classes) if _initialiser(each) is not None), None)


def _initialiser(node: ast.ClassDef) -> ast.FunctionDef | None:
    return next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)


def _annotations(tree: ast.AST) -> frozenset[int]:
    """The names within annotations, which call nothing."""
    found = [getattr(node, field, None) for node in ast.walk(tree) for field in ("annotation", "returns")]
    return frozenset(id(name) for node in found if isinstance(node, ast.expr) for name in ast.walk(node))


def _without_parameter(source: Source, called: Called, parameter: ast.arg, value: object) -> Iterator[Edit]:
    yield from _replaced(source, called.function, parameter.arg, value)
    yield from source.without_items([parameter], source.span(called.function)[0])
    yield from _described_by(source, called.function, {parameter.arg, "variant"})
    for call in called.calls:
        given = called.argument(call, parameter)
        if given is not None:
            yield from source.without_items([given], source.span(call.func)[1])


def _replaced(source: Source, function: ast.FunctionDef, name: str, value: object) -> list[Edit]:
    return [source.replaced(node, literal(value)) for node in _uses(function, name)]


def _uses(function: ast.FunctionDef, name: str) -> list[ast.Name]:
    return [n for part in function.body for n in ast.walk(part) if isinstance(n, ast.Name) and n.id == name]


def _is_rebound(function: ast.FunctionDef, name: str) -> bool:
    """Whether the body gives ``name`` another meaning, or reads it where text cannot be replaced."""
    inner = [node for part in function.body for node in ast.walk(part)]
    return (
        any(not isinstance(node.ctx, ast.Load) for node in _uses(function, name))
        or any(isinstance(node, ast.arg) and node.arg == name for node in inner)
        or _in_string(function, _uses(function, name))
    )


def _in_string(tree: ast.AST, nodes: Sequence[ast.AST]) -> bool:
    """Whether one of ``nodes`` lies in an f-string."""
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    inside = {id(node) for string in strings for node in ast.walk(string)}
    return any(id(node) in inside for node in nodes)


def _bound_in_classes(tree: ast.AST) -> set[str]:
    """Names of methods, and of attributes that a class itself has."""
    found = set[str]()
    for node in ast.walk(tree):
        for part in node.body if isinstance(node, ast.ClassDef) else []:
            found |= {n.id for n in ast.walk(part) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            found |= {part.name} if isinstance(part, ast.FunctionDef) else set()
    return found


def _described_by(source: Source, function: ast.FunctionDef, gone: set[str]) -> Iterator[Edit]:
    """A docstring goes with the parameters that it speaks of."""
    words = set((ast.get_docstring(function) or "").translate(str.maketrans("`.,:()", "      ")).split())
    if words & gone and len(function.body) > 1:
        yield source.without(function.body[0])
