"""A scenario's source, reduced to one variant, so that a capsule shows only what matters.

Constants are put in, branches that are never taken go, and nothing unused is left. Each rule makes
one kind of edit. The rules are repeated until none of them finds anything to do.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from gradmatrix.trace.source import Edit, Source, tidy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


ENTRY = "train"
LITERALS = ("NEEDS", "VARIANTS", "AGREE")
AHEAD = {"contextlib.suppress", "suppress", "importlib.import_module", "import_module"}
"""The calls of a statement that only imports something earlier than needed."""
WIDEST = 100
LAST = (ast.Return, ast.Raise, ast.Continue, ast.Break)
CHANGES = {
    "update",
    "pop",
    "popitem",
    "setdefault",
    "clear",
    "append",
    "extend",
    "insert",
    "remove",
    "add",
    "discard",
}


def reduce(text: str, variant: str, device: str, steps: int) -> str:
    """The source of ``train()`` without arguments, and of all that it needs.

    It is for one variant, device and number of steps. It has no module docstring and no block that
    runs it.

    Raises:
        SyntaxError: if ``text`` is not valid Python.
    """
    whole = Source.of(text)
    source = _without_frame(whole.changed(_docstrings(whole)))
    source = source.changed(specialise(source, (variant, device, steps)))
    while edits := next(filter(None, (rule(source) for rule in RULES)), None):
        source = source.changed(edits)
    return tidy(source.text)


def _docstrings(source: Source) -> Iterator[Edit]:
    """Remove docstrings that mention variants by name."""
    names = {f"`{name}`" for node in source.tree.body for name in _variants(node)}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            text = ast.get_docstring(node) or ""
            if len(node.body) > 1 and any(name in text for name in names):
                yield source.without(node.body[0])


def _variants(node: ast.stmt) -> list[str]:
    """The names of the variants if this statement is their table."""
    match node:
        case ast.Assign(targets=[ast.Name(id="VARIANTS")], value=ast.Dict(keys=keys)):
            return [str(plain(key)) for key in keys]
    return []


def _without_frame(source: Source) -> Source:
    """Remove the docstring, the literals about variants, and the block for the command line."""
    docstring = source.tree.body[:1] if ast.get_docstring(source.tree) is not None else []
    framing = [node for node in source.tree.body if _is_framing(source, node)]
    return source.changed(source.without(node) for node in (*docstring, *framing))


def _is_framing(source: Source, node: ast.stmt) -> bool:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name in LITERALS
        case ast.If(test=test):
            return "__name__" in source.piece(test)
    return False


def fold(source: Source) -> list[Edit]:
    """Replace look-ups and comparisons by their values, if known."""
    constants = Constants(source.tree)
    return [
        edit
        for node in outside_strings(source.tree)
        if (edit := _folded(source, constants, node)) is not None
    ]


def _folded(source: Source, constants: Constants, node: ast.AST) -> Edit | None:
    if isinstance(node, ast.IfExp) and (truth := constants.truth(node.test)) is not UNKNOWN:
        return source.replaced(node, source.operand(node.body if truth else node.orelse))
    if isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp) and isinstance(
        constants.value(node), bool
    ):
        return source.replaced(node, literal(constants.value(node)))
    if isinstance(node, ast.BoolOp):
        return _shortened(source, constants, node)
    if isinstance(node, ast.Call) and (value := constants.affix(node)) is not UNKNOWN:
        return source.replaced(node, literal(value))
    return _entry(source, constants, node)


def _entry(source: Source, constants: Constants, node: ast.AST) -> Edit | None:
    """Replace a look-up in a table, or a copy of a table that is used only once."""
    found = constants.looked_up(node)
    if found is not None:
        return source.replaced(node, source.operand(found) if hasattr(found, "lineno") else "None")
    match node:
        case ast.Call(func=ast.Name(id="dict"), args=[ast.Dict() as copied], keywords=[]):
            return source.replaced(node, source.piece(copied))
    return None


def _shortened(source: Source, constants: Constants, node: ast.BoolOp) -> Edit | None:
    """Remove the parts of ``a and b`` that are known to decide nothing."""
    neutral = isinstance(node.op, ast.And)
    left = [part for part in node.values if constants.truth(part) is not neutral]
    if len(left) == len(node.values) or not left or left[-1] is not node.values[-1]:
        return None
    joined = (" and " if neutral else " or ").join(source.operand(part) for part in left)
    return source.replaced(node, source.piece(left[0]) if len(left) == 1 else joined)


def outside_strings(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node outside f-strings: only Python 3.12 and newer know places inside them."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [
            child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.JoinedStr)
        ]


def decide(source: Source) -> list[Edit]:
    """Remove one ``if`` that is decided, does nothing, or only asks what the stack supports."""
    constants = Constants(source.tree)
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.If):
            continue
        value = constants.truth(node.test)
        if value is not UNKNOWN:
            return [source.decided(node, keep=bool(value))]
        only = node.body[0] if len(node.body) == 1 and not node.orelse else None
        skips = isinstance(only, ast.Raise) and "SkipTest" in source.piece(only)
        if skips or (
            isinstance(only, ast.Pass)
            and not any(isinstance(n, ast.Call) for n in ast.walk(node.test))
        ):
            return [source.without(node)]
    return []


def end(source: Source) -> list[Edit]:
    """Remove one statement that is never reached, or a bare return at the end of a function."""
    for block in source.blocks():
        for node, following in pairwise(block):
            if isinstance(node, LAST):
                return [source.without(following)]
    for function in ast.walk(source.tree):
        last = function.body if isinstance(function, ast.FunctionDef) else []
        while last and isinstance(last[-1], ast.With):
            last = last[-1].body
        if len(last) > 1 and isinstance(last[-1], ast.Return) and last[-1].value is None:
            return [source.without(last[-1])]
    return []


def definitions(source: Source) -> list[Edit]:
    """Remove functions, classes and values at the top of the module that ``train`` does not use."""
    named = {name: node for node in source.tree.body for name in _defines(node)}
    waiting = [n for n in source.tree.body if not _defines(n) and not _imports_ahead(n)]
    waiting.append(named[ENTRY])
    reached = set[int]()
    while waiting:
        current = waiting.pop()
        reached.add(id(current))
        found = (named[name] for name in names_in(current) if name in named)
        waiting += [each for each in found if id(each) not in reached]
    return [source.without(node) for node in source.tree.body if id(node) not in reached]


def _defines(node: ast.stmt) -> list[str]:
    """The names of a definition that does nothing else."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if _idle(value):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is None or _idle(value):
            return [name]
    return []


def _idle(value: ast.expr) -> bool:
    """Whether a value has no side effect: it calls at most a ``…Config``, which holds settings."""
    calls = [node.func for node in ast.walk(value) if isinstance(node, ast.Call)]
    return all(ast.unparse(function).endswith("Config") for function in calls)


def _imports_ahead(node: ast.stmt) -> bool:
    """Whether a statement only imports what is imported again where it is needed."""
    calls: Iterable[ast.Call] = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
    return bool(calls) and {ast.unparse(call.func) for call in calls} <= AHEAD


def specialise(source: Source, values: Sequence[object]) -> list[Edit]:
    """Replace the parameters of ``train`` by ``values``."""
    entry = next(n for n in source.tree.body if isinstance(n, ast.FunctionDef) and n.name == ENTRY)
    parameters = [*entry.args.posonlyargs, *entry.args.args]
    edits = list(_described_by(source, entry, {parameter.arg for parameter in parameters}))
    for parameter, value in zip(parameters, values, strict=True):
        edits += _replaced(source, entry, parameter.arg, value)
    return edits + source.without_items(parameters, source.span(entry)[0])


def parameters(source: Source) -> list[Edit]:
    """Remove one parameter that has the same constant at every call."""
    for called in _called(source.tree):
        starred = any(isinstance(arg, ast.Starred) for call in called.calls for arg in call.args)
        recursive = set(map(id, called.calls)) & set(map(id, ast.walk(called.function)))
        if called.function.args.vararg or starred or called.function.decorator_list or recursive:
            continue
        if _in_string(source.tree, called.calls):
            continue  # before Python 3.12 an f-string is one token
        for parameter in [*called.positional, *called.function.args.kwonlyargs]:
            found = [called.value(call, parameter) for call in called.calls]
            same = all(
                value is not UNKNOWN and literal(value) == literal(found[0]) for value in found
            )
            if same and not _is_rebound(called.function, parameter.arg):
                return list(_without_parameter(source, called, parameter, found[0]))
    return []


def _without_parameter(
    source: Source, called: Called, parameter: ast.arg, value: object
) -> Iterator[Edit]:
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
    return [
        n
        for part in function.body
        for n in ast.walk(part)
        if isinstance(n, ast.Name) and n.id == name
    ]


def _is_rebound(function: ast.FunctionDef, name: str) -> bool:
    """Whether the body gives ``name`` another meaning, or reads it in an f-string."""
    inner = [node for part in function.body for node in ast.walk(part)]
    return (
        any(not isinstance(node.ctx, ast.Load) for node in _uses(function, name))
        or any(isinstance(node, ast.arg) and node.arg == name for node in inner)
        or _in_string(function, _uses(function, name))
    )


def _in_string(tree: ast.AST, nodes: Sequence[ast.AST]) -> bool:
    """Whether one of ``nodes`` is in an f-string."""
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    inside = {id(node) for string in strings for node in ast.walk(string)}
    return any(id(node) in inside for node in nodes)


def _described_by(source: Source, function: ast.FunctionDef, gone: set[str]) -> Iterator[Edit]:
    """Remove a docstring that mentions parameters that are gone."""
    words = set(
        (ast.get_docstring(function) or "").translate(str.maketrans("`.,:()", "      ")).split()
    )
    if words & gone and len(function.body) > 1:
        yield source.without(function.body[0])


def attributes(source: Source) -> list[Edit]:
    """Replace one attribute of ``self`` that is set once, to a constant, and read in the script."""
    reads = [n for n in ast.walk(source.tree) if isinstance(n, ast.Attribute)]
    for node in ast.walk(source.tree):
        match node:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.Constant()
            ):
                same = [each for each in reads if each.attr == name and each is not node.targets[0]]
                own = all(
                    isinstance(n.ctx, ast.Load) and source.piece(n.value) == "self" for n in same
                )
                if (
                    same
                    and own
                    and name not in _bound_in_classes(source.tree)
                    and not _in_string(source.tree, same)
                ):
                    value = source.piece(node.value)
                    return [source.without(node), *(source.replaced(each, value) for each in same)]
    return []


def _bound_in_classes(tree: ast.AST) -> set[str]:
    """The names of methods and of attributes that classes define."""
    found = set[str]()
    for node in ast.walk(tree):
        for part in node.body if isinstance(node, ast.ClassDef) else []:
            found |= {
                n.id
                for n in ast.walk(part)
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
            found |= {part.name} if isinstance(part, ast.FunctionDef) else set()
    return found


def values(source: Source) -> list[Edit]:
    """Remove one assignment in a function that has no side effect and is never read."""
    for block in source.blocks():
        for node, following in pairwise(block):
            match node, following:
                case ast.Assign(targets=[ast.Name(id=one)], value=value), ast.Assign(
                    targets=[ast.Name(id=two)]
                ) if one == two and _idle(value) and one not in names_in(following.value):
                    return [source.without(node)]
    for function in (node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef)):
        read = names_in(function)
        for inner in ast.walk(function):
            match inner:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
                    name not in read and _idle(value)
                ):
                    return [source.without(inner)]
    return []


def imports(source: Source) -> list[Edit]:
    """Remove imported names that are never read; ``__future__`` stays."""
    read = names_in(source.tree)
    edits = []
    for node in ast.walk(source.tree):
        if (
            not isinstance(node, ast.Import | ast.ImportFrom)
            or getattr(node, "module", "") == "__future__"
        ):
            continue
        kept = [each for each in node.names if (each.asname or each.name).partition(".")[0] in read]
        if not kept:
            return [source.without(node)]  # one at a time, or a block might become empty
        if len(kept) < len(node.names):
            edits.append(source.replaced(node, _import(node, kept)))
    return edits


def _import(node: ast.Import | ast.ImportFrom, kept: list[ast.alias]) -> str:
    """The import statement with the names that are kept."""
    text = ast.unparse(type(node)(**{**dict(ast.iter_fields(node)), "names": kept}))
    if len(text) + node.col_offset <= WIDEST or isinstance(node, ast.Import):
        return text
    start, _, names = text.partition(" import ")
    space = " " * node.col_offset
    return (
        f"{start} import (\n{space}    {names.replace(', ', f',{chr(10)}{space}    ')},\n{space})"
    )


def names_in(node: ast.AST) -> set[str]:
    """The names that are read in ``node``."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def join(source: Source) -> list[Edit]:
    """Put a call or definition with one argument left on one line."""
    for node in outside_strings(source.tree):
        if isinstance(node, ast.Call | ast.FunctionDef):
            edits = source.joined(
                source.span(node.func)[1] if isinstance(node, ast.Call) else source.span(node)[0]
            )
            if edits:
                return edits
    return []


RULES = (
    fold, decide, end, definitions, parameters, attributes,
    values, imports, join,
)  # fmt: skip


@dataclass(frozen=True)
class Called:
    """A function and every call of it; ``parameters`` are those that a call gives."""

    function: ast.FunctionDef
    calls: Sequence[ast.Call]
    names: frozenset[str]
    """The names that are bound once at the top of the module and nowhere else."""
    is_method: bool = False

    @property
    def positional(self) -> list[ast.arg]:
        """The parameters that may be given by position."""
        arguments = self.function.args
        return [*arguments.posonlyargs, *arguments.args][self.is_method :]

    def argument(self, call: ast.Call, parameter: ast.arg) -> ast.expr | ast.keyword | None:
        """What ``call`` gives for ``parameter``, or None."""
        place = next(
            (n for n, each in enumerate(self.positional) if each is parameter), len(call.args)
        )
        if place < len(call.args):
            return call.args[place]
        return next((keyword for keyword in call.keywords if keyword.arg == parameter.arg), None)

    def value(self, call: ast.Call, parameter: ast.arg) -> object:
        """The constant value of ``parameter`` in ``call``, or UNKNOWN."""
        given = self.argument(call, parameter)
        if given is not None:
            return self._plain(given.value if isinstance(given, ast.keyword) else given)
        may_be_given = any(keyword.arg is None for keyword in call.keywords)
        return UNKNOWN if may_be_given else self._plain(self.default(parameter))

    def _plain(self, node: ast.expr | None) -> object:
        return (
            Named(node.id) if isinstance(node, ast.Name) and node.id in self.names else plain(node)
        )

    def default(self, parameter: ast.arg) -> ast.expr | None:
        """The default of ``parameter``."""
        arguments = self.function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults = [
            *[None] * (len(positional) - len(arguments.defaults)),
            *arguments.defaults,
            *arguments.kw_defaults,
        ]
        pairs = zip([*positional, *arguments.kwonlyargs], defaults, strict=True)
        return next((default for each, default in pairs if each is parameter), None)


def _called(tree: ast.Module) -> Iterator[Called]:
    """The functions and classes at the top of the module that are only ever called."""
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
    """The names that the top of the module binds and nothing else does."""
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
        case (
            ast.FunctionDef(name=name)
            | ast.ClassDef(name=name)
            | ast.Assign(targets=[ast.Name(id=name)])
        ):
            return [name]
        case ast.Import() | ast.ImportFrom():
            return [(each.asname or each.name).partition(".")[0] for each in node.names]
    return []


def _calls(tree: ast.AST, names: set[str], beside: frozenset[int]) -> list[ast.Call]:
    """The calls of ``names``; none if a name is used otherwise, except in the nodes ``beside``."""
    calls = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in names
    ]
    functions = {id(call.func) for call in calls} | beside
    others = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.Name) and n.id in names and id(n) not in functions
    ]
    return [] if others else calls


def _constructions(
    tree: ast.Module, classes: dict[str, ast.ClassDef], node: ast.ClassDef
) -> list[ast.Call]:
    """The calls that reach the ``__init__`` of ``node``; none if they cannot all be found."""
    family = {name for name, each in classes.items() if node in _ancestors(each, classes)}
    several = [
        name
        for name in family
        if sum(isinstance(base, ast.Name) for base in classes[name].bases) > 1
    ]
    initialised = [name for name in family if _initialiser(classes[name]) is not None]
    if several and len(initialised) > 1:
        return []
    heirs = {name for name in family if _initialised_by(classes[name], classes) is node}
    bases = frozenset(id(base) for each in classes.values() for base in each.bases) | _annotations(
        tree
    )
    direct = _calls(tree, heirs, bases)
    if not direct and any(
        isinstance(n, ast.Name) and n.id in heirs and id(n) not in bases for n in ast.walk(tree)
    ):
        return []
    inherited = [
        call
        for name in initialised
        if name != node.name
        and any(
            _initialised_by(parent, classes) is node for parent in _parents(classes[name], classes)
        )
        for call in ast.walk(classes[name])
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__"
    ]
    return [*direct, *inherited]


def _ancestors(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """The class itself and the classes of this module that it inherits from."""
    return [
        node,
        *(each for parent in _parents(node, classes) for each in _ancestors(parent, classes)),
    ]


def _parents(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> list[ast.ClassDef]:
    return [
        classes[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in classes
    ]


def _initialised_by(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> ast.ClassDef | None:
    """The class of this module whose ``__init__`` builds an instance of ``node``, or None."""
    return next(
        (each for each in _ancestors(node, classes) if _initialiser(each) is not None), None
    )


def _initialiser(node: ast.ClassDef) -> ast.FunctionDef | None:
    return next(
        (n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None
    )


def _annotations(tree: ast.AST) -> frozenset[int]:
    """The names within annotations, which call nothing."""
    found = [
        getattr(node, field, None) for node in ast.walk(tree) for field in ("annotation", "returns")
    ]
    return frozenset(
        id(name) for node in found if isinstance(node, ast.expr) for name in ast.walk(node)
    )


class _Unknown:
    """A value that is not known."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()


class Named(str):
    """A name that means the same everywhere in the module."""

    __slots__ = ()


def literal(value: object) -> str:
    """A constant as it is written in Python."""
    if isinstance(value, Named):
        return str(value)
    if isinstance(value, float):
        return re.sub(r"e([+-])0+", r"e\1", repr(value))
    if isinstance(value, tuple):
        inner = ", ".join(map(literal, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def plain(node: ast.AST | None) -> object:
    """The value of a constant, or of a tuple of constants; UNKNOWN for anything else."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple):
        parts = [plain(part) for part in node.elts]
        return UNKNOWN if UNKNOWN in parts else tuple(parts)
    if (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and isinstance(node.operand, ast.Constant)
    ):
        value = node.operand.value
        return -value if isinstance(value, (int, float)) else UNKNOWN
    return UNKNOWN


def _changed(node: ast.AST) -> str | None:
    """The name that ``node`` sets, redefines, or may change the value of."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            return name
        case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            return name
        case ast.Attribute(value=ast.Name(id=name), attr=attribute, ctx=context) if (
            attribute in CHANGES or not isinstance(context, ast.Load)
        ):
            return name
    return None


class Constants:
    """The names at the top of a module that are set once and never changed, and what follows."""

    def __init__(self, tree: ast.Module) -> None:
        self.known = {
            node.targets[0].id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            and len(node.targets) == 1
            and isinstance(node.targets[0], ast.Name)
        }
        changed = Counter(name for node in ast.walk(tree) if (name := _changed(node)))
        changed.subtract(list(self.known))
        for name, times in changed.items():
            if times > 0:
                self.known.pop(name, None)

    def value(self, node: ast.AST) -> object:
        """What ``node`` evaluates to, or UNKNOWN."""
        match node:
            case ast.Constant():
                return node.value
            case ast.Name(id=name) if name in self.known:
                return self.value(self.known[name])
            case ast.Tuple() | ast.List() | ast.Set():
                return self._parts(node.elts)
            case ast.UnaryOp() | ast.BoolOp() | ast.Compare():
                return self._concluded(node)
            case ast.Call() | ast.Subscript():
                found = self.looked_up(node)
                return self.affix(node) if found is None else self.value(found)
        return UNKNOWN

    def _concluded(self, node: ast.expr) -> object:
        """The value of a condition."""
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                truth = self.truth(operand)
                return UNKNOWN if truth is UNKNOWN else not truth
            case ast.BoolOp():
                return self._joined(node)
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                return self._compared(left, operator, right)
        return UNKNOWN

    def truth(self, node: ast.AST) -> object:
        """Whether ``node`` counts as true, or UNKNOWN."""
        found = self.looked_up(node) or node
        if isinstance(found, ast.Dict):
            return bool(found.keys)
        value = self.value(found)
        return UNKNOWN if value is UNKNOWN else bool(value)

    def looked_up(self, node: ast.AST) -> ast.expr | None:
        """The entry that ``TABLE[key]`` or ``TABLE.get(key, default)`` gives, or a tuple's item."""
        match node:
            case ast.Subscript(
                value=ast.Tuple() as items, slice=ast.Constant(value=int() as place), ctx=ast.Load()
            ):
                return items.elts[place] if place < len(items.elts) else None
            case ast.Subscript(value=ast.Name() as table, slice=key, ctx=ast.Load()):
                default = None
            case ast.Call(
                func=ast.Attribute(value=ast.Name() as table, attr="get"),
                args=[key, *rest],
                keywords=[],
            ):
                default = rest[0] if rest else ast.Constant(value=None)
            case _:
                return None
        entries, wanted = self.known.get(table.id), self.value(key)
        if not isinstance(entries, ast.Dict) or wanted is UNKNOWN or self._keys(entries) is UNKNOWN:
            return None
        pairs = zip(entries.keys, entries.values, strict=True)
        return next((entry for name, entry in pairs if plain(name) == wanted), default)

    def affix(self, node: ast.AST) -> object:
        """``"text".startswith(…)`` and ``.endswith(…)``."""
        match node:
            case ast.Call(
                func=ast.Attribute(value=text_node, attr="startswith" | "endswith" as name),
                args=[what],
            ):
                text, affixes = self.value(text_node), self.value(what)
                if isinstance(text, str) and isinstance(affixes, (str, tuple)):
                    return (
                        text.startswith(affixes) if name == "startswith" else text.endswith(affixes)
                    )
        return UNKNOWN

    def _parts(self, nodes: list[ast.expr]) -> object:
        values: list[object] = []
        for node in nodes:
            value = self.value(node.value if isinstance(node, ast.Starred) else node)
            if value is UNKNOWN or (isinstance(node, ast.Starred) and not isinstance(value, tuple)):
                return UNKNOWN
            values += (
                value if isinstance(node, ast.Starred) and isinstance(value, tuple) else [value]
            )
        return tuple(values)

    def _keys(self, table: ast.Dict) -> object:
        keys = [plain(key) for key in table.keys]
        return UNKNOWN if UNKNOWN in keys else tuple(keys)

    def _joined(self, node: ast.BoolOp) -> object:
        decisive = isinstance(node.op, ast.Or)
        for part in node.values:
            truth = self.truth(part)
            if truth is UNKNOWN or truth is decisive:
                return truth
        return not decisive

    def _compared(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> object:
        one = self.value(left)
        other = right
        if isinstance(right, ast.Name):
            other = self.known.get(right.id, right)
        two = self._keys(other) if isinstance(other, ast.Dict) else self.value(other)
        if one is UNKNOWN or two is UNKNOWN:
            return UNKNOWN
        match operator:
            case ast.Eq() | ast.Is():
                return one == two
            case ast.NotEq() | ast.IsNot():
                return one != two
            case ast.In():
                return one in two if isinstance(two, (tuple, str)) else UNKNOWN
            case ast.NotIn():
                return one not in two if isinstance(two, (tuple, str)) else UNKNOWN
        return UNKNOWN
