"""Read the user's own source for what no hook sees: a missing call, a setting, an assignment.

The user's files are the script and the modules it imported from outside site-packages and the
standard library. They are read once, at the end, and only if something went wrong.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import linecache
import re
import sys
from functools import cache
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from .frames import mine, of_user, shown

Place = Dict[str, Any]
ASKING = ("backward", "grad", "manual_backward")
"""Functions that compute gradients."""
ARITHMETIC = ("add", "sub", "subtract", "mul", "addcmul", "addcdiv")
"""Functions of a tensor that make a new one; with an underscore they change it."""
DELAY = re.compile(r"start|begin|delay|after|warm_?up|accum", re.IGNORECASE)
UNDOING = re.compile(r"load|(?<!deep)copy|restore|reset|revert|rollback|fill_|init", re.IGNORECASE)
FLATTENING = re.compile(r"(?:log)?sigmoid|tanh|softsign", re.IGNORECASE)
"""Functions that are flat at an end, so that their derivative is often small."""
REWARD = re.compile(r"reward", re.IGNORECASE)
LARGE = 10_000
GENERATORS = ("parameters", "named_parameters")
WORD = re.compile(r"[A-Za-z_]\w*")
LABEL = re.compile(r"label|target", re.IGNORECASE)
SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)
"""Statements that hold no other ones."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LEAVING = (ast.Continue, ast.Break, ast.Return, ast.Raise)
OF_READING = "<read by gradmatrix>"
"""The file that a warning names if Python warns while the source is read."""


def files() -> List[str]:
    """The user's files, the script first."""
    paths = [getattr(sys.modules["__main__"], "__file__", None)]
    paths += [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return list(dict.fromkeys(path for path in paths if path and mine(path)))


def words_at(at: Place) -> Set[str]:
    """The names in a line of a module that was imported."""
    paths = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    path = next((each for each in paths if each and shown(each) == at["file"]), "")
    return set(WORD.findall(linecache.getline(path, at["line"])))


@cache
def nodes(path: str) -> Tuple[Tuple[Any, str], ...]:
    """Every node of the source in ``path``, with the function that it stands in."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read(), OF_READING)
    except (OSError, SyntaxError, ValueError):  # it is gone, or it is no Python source
        return ()
    return tuple(walk(tree))


def walk(tree: ast.AST) -> Iterator[Tuple[ast.AST, str]]:
    """``tree`` and all below it in the order of the text, each with the function around it."""
    waiting: List[Tuple[ast.AST, str]] = [(tree, "<module>")]
    while waiting:
        node, function = waiting.pop()
        yield node, function
        inside = node.name if isinstance(node, FUNCTIONS) else function
        waiting += [(child, inside) for child in [*ast.iter_child_nodes(node)][::-1]]


def found(wanted: Callable[[Any], Optional[Any]], paths: List[str]) -> List[Tuple[Any, Place]]:
    """What ``wanted`` returns for a node, if it is not None, and the place of that node."""
    hits = []
    for path in paths:
        for node, function in nodes(path):
            hit = wanted(node)
            if hit is not None:
                place = {"file": shown(path) or path, "line": getattr(node, "lineno", 0)}
                hits.append((hit, {**place, "function": function, "user": mine(path)}))
    return hits


def uncalled(names: Tuple[str, ...]) -> List[Tuple[str, Place]]:
    """Statements such as ``loss.backward`` that name a method and do not call it."""

    def wanted(node: Any) -> Optional[str]:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Attribute):
            return dotted(node.value) if node.value.attr in names else None
        return None

    return found(wanted, files())


def dotted(node: Any) -> str:
    """A name with its attributes as it is written; what is no name becomes ``…``."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "…"


Pairs = Callable[[Any], Iterator[Tuple[str, Any]]]
"""A function that gives the names in a node, each with the node of its value."""


def pairs(node: Any) -> Iterator[Tuple[str, Any]]:
    """The named arguments of a call, or the entries of a dictionary with names as keys."""
    if isinstance(node, ast.Call):
        yield from ((each.arg, each.value) for each in node.keywords if each.arg)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value


def names(node: Any) -> Iterator[Tuple[str, Any]]:
    """An assigned name, the defaults of a function's arguments, or of an option of argparse."""
    if isinstance(node, ast.Assign):
        yield from ((dotted(target).rpartition(".")[2], node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        yield dotted(node.target).rpartition(".")[2], node.value
    elif isinstance(node, ast.arguments):
        given = [*node.posonlyargs, *node.args]
        yield from zip((each.arg for each in given[::-1]), node.defaults[::-1])
        yield from ((a.arg, v) for a, v in zip(node.kwonlyargs, node.kw_defaults) if v is not None)
    elif isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "add_argument":
        options = [each.value for each in node.args if isinstance(each, ast.Constant)]
        for each in (each for each in node.keywords if each.arg == "default"):
            yield from ((str(o).lstrip("-").replace("-", "_"), each.value) for o in options)


def given(fits: Callable[[str], object], among: Pairs = pairs) -> List[Tuple[str, Any, Place]]:
    """Arguments ``name=value`` of calls and entries ``"name": value`` whose names fit.

    Returns:
        for each its name, the node of its value, and its place.
    """
    return [
        (name, value, {**at, "line": value.lineno})
        for each, at in found(lambda node: list(among(node)) or None, files())
        for name, value in each
        if fits(name)
    ]


def keywords(
    fits: Callable[[str], object], holds: Callable[[Any], object], among: Pairs = pairs
) -> List[Tuple[str, Place]]:
    """Arguments and entries whose names fit, with a constant value that is wanted."""
    hits = [(name, value_of(value), at) for name, value, at in given(fits, among)]
    return [(f"{n}={value!r}", at) for n, value, at in hits if value is not None and holds(value)]


def said(fits: Callable[[str], object], holds: Callable[[Any], object]) -> List[Tuple[str, Place]]:
    """Where names that fit are given such a value: by an argument or entry, else in another way."""
    return keywords(fits, holds) or keywords(fits, holds, names)


def value_of(node: Any) -> Any:
    """The value of an expression that is made of constants; None for any other."""
    with contextlib.suppress(ValueError, TypeError):
        return ast.literal_eval(node)
    arithmetic = (ast.BinOp, ast.UnaryOp, ast.Constant, ast.operator, ast.unaryop)
    inside = list(ast.walk(node))
    if not all(isinstance(each, arithmetic) for each in inside):
        return None
    if sum(isinstance(each, (ast.Pow, ast.LShift, ast.Mult)) for each in inside) > 1:
        return None  # it may be a number, or a text, that fills the memory
    if any(isinstance(each, ast.Constant) and too_large(each.value) for each in inside):
        return None
    with contextlib.suppress(ArithmeticError, TypeError):
        return eval(compile(ast.Expression(node), "<constant>", "eval"))  # noqa: S307
    return None


def too_large(value: Any) -> bool:
    """Whether a constant is too large to compute with it quickly."""
    return not isinstance(value, (int, float)) or not abs(value) < LARGE


def settings(name: str, owner: str) -> List[Place]:
    """Where calls are given the argument ``name``; else where ``owner`` is called without it."""
    return [at for _, _, at in given(name.__eq__)] or [at for _, at in called(owner.__eq__)]


def called(fits: Callable[[str], object]) -> List[Tuple[str, Place]]:
    """Calls of a function, class or method whose name fits."""

    def wanted(node: Any) -> Optional[str]:
        name = dotted(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
        return name if name and fits(name) else None

    return found(wanted, files())


def called_in(function: Any, name: Optional[str]) -> List[Place]:
    """Where a ``function`` of the script calls something of this ``name``."""
    code = getattr(function, "__code__", None)
    if code is None or not mine(code.co_filename):
        return []
    lines = [number for _, number in dis.findlinestarts(code) if number]
    file = shown(code.co_filename)
    return [
        at
        for _, at in called(lambda each: each == name)
        if at["file"] == file and min(lines) <= at["line"] <= max(lines)
    ]


def handed(names: Set[str]) -> Tuple[List[Place], List[Place]]:
    """Where the script gives one of ``names`` to a call, and where it calls it after that."""

    def is_one(node: Any) -> bool:
        return isinstance(node, ast.Name) and node.id in names

    def gives(node: Any) -> Optional[bool]:
        if not isinstance(node, ast.Call):
            return None
        passed = [*node.args, *(each.value for each in node.keywords)]
        return True if any(map(is_one, passed)) else None

    def runs(node: Any) -> Optional[bool]:
        return True if isinstance(node, ast.Call) and is_one(node.func) else None

    script = files()[:1]
    given = [at for _, at in found(gives, script)]
    after = [at for _, at in found(runs, script) if given and at["line"] > given[0]["line"]]
    return given, after


def calls(method: str, *, without: str) -> List[Tuple[str, Place]]:
    """Calls of ``….method`` that do not pass the argument ``without``."""

    def wanted(node: Any) -> Optional[str]:
        if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == method:
            given = {each.arg for each in node.keywords}
            return None if {without, None} & given else dotted(node.func)
        return None

    return found(wanted, files())


def labelled(value: int) -> List[Place]:
    """Statements that write the number ``value``, or a name for it, into labels.

    If there is none, those that write a negative ``value`` anywhere: another number stands for many
    things. Comparisons and ``ignore_index=value`` write nothing.
    """
    same = {name for path in files() for node, _ in nodes(path) for name in names_of(node, value)}

    def wanted(node: Any) -> Optional[bool]:
        if not isinstance(node, SIMPLE):
            return None
        inside = list(written_in(node))
        if not any(is_number(each, value) or named_as(each) in same for each in inside):
            return None
        return any(LABEL.search(name) for name in written_to(node))

    hits = found(wanted, files())
    return [at for says, at in hits if says] or [at for _, at in hits if value < 0]


def names_of(node: Any, value: int) -> List[str]:
    """The names to which ``node`` assigns the number ``value``."""
    assigned = isinstance(node, ast.Assign) and is_number(node.value, value)
    return [dotted(target).rpartition(".")[2] for target in node.targets] if assigned else []


def is_number(node: Any, value: int) -> bool:
    """Whether ``node`` is the number ``value`` as it is written."""
    return isinstance(node, (ast.Constant, ast.UnaryOp)) and value_of(node) == value


def written_to(statement: Any) -> Iterator[str]:
    """The names in what a statement assigns to, or in all of it, and those of arguments."""
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", statement)]
    inside: List[Any] = [each for target in targets for each in ast.walk(target)]
    inside += [each for each in ast.walk(statement) if isinstance(each, ast.keyword)]
    yield from map(named_as, inside)
    yield from (each.value for each in inside if type(getattr(each, "value", None)) is str)


def named_as(node: Any) -> str:
    """The name that ``node`` is; empty if it is none."""
    if isinstance(node, ast.keyword):
        return node.arg or ""
    return dotted(node).rpartition(".")[2] if isinstance(node, (ast.Name, ast.Attribute)) else ""


def written_in(node: Any) -> Iterator[Any]:
    """``node`` and all below it, without comparisons and without ``ignore_index=…``."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.Compare) and getattr(child, "arg", None) != "ignore_index":
            yield from written_in(child)


def conditional(built: List[Place]) -> Dict[str, Any]:
    """The condition under which the step of the optimizer ``built`` there is called.

    Empty if one of the calls stands under none. A condition before a backward pass was true.
    """
    names = next(filter(None, map(assigned_at, built)), set())
    hits: List[Tuple[Any, Place]] = []
    for path in files() if names else ():
        calls = [node for node, _ in nodes(path) if isinstance(node, ast.Call)]
        passes = [each.lineno for each in calls if dotted(each.func).endswith(".backward")]
        for node, function in nodes(path)[:1]:
            for statement, tests, within in under_conditions(node, [], function):
                if not steps_one_of(names, statement):
                    continue
                lines = [n for n in passes if n <= statement.lineno]
                never = [each for each in tests if not any(n >= each[0].lineno for n in lines)]
                if not never:
                    return {}
                block, holds = never[-1]
                place = {"file": shown(path) or path, "line": block.lineno}
                text = ast.unparse(block.test) if hasattr(ast, "unparse") else ""  # Python 3.8
                condition = text if holds else f"not ({text})"
                hits.append((condition, {**place, "function": within, "user": True}))
    if not hits or not hasattr(ast, "unparse"):
        return {}
    return {"condition": hits[0][0], "condition_at": [hits[0][1]]}


def assigned_at(place: Place) -> Set[str]:
    """The names that the statements at ``place`` in the user's files are assigned to."""
    return {
        named_as(node.targets[0])
        for path in files()
        for node, _ in (nodes(path) if shown(path) == place["file"] else ())
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and node.lineno <= place["line"] <= (node.end_lineno or node.lineno)
    } - {""}


def steps_one_of(names: Set[str], statement: Any) -> bool:
    """Whether a statement calls ``name.step()``, or ``….step(name)`` as with a GradScaler."""
    return any(
        names & {named_as(each) for each in (node.func.value, *node.args)}
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr == "step"
    )


def under_conditions(
    block: Any, tests: List[Any], function: str
) -> Iterator[Tuple[Any, List[Any], str]]:
    """The simple statements below ``block``, each with its conditions and its function.

    A condition is an ``if`` around the statement, or one before it that leaves the block, and
    whether its test must hold for the statement to run.
    """
    if isinstance(block, FUNCTIONS):
        tests, function = [], block.name
    for name in ("body", "orelse", "handlers", "finalbody"):
        before = list(tests)
        if isinstance(block, ast.If):
            before.append((block, name == "body"))
        for statement in getattr(block, name, ()):
            if isinstance(statement, SIMPLE):
                yield statement, before, function
            else:
                yield from under_conditions(statement, before, function)
            if isinstance(statement, ast.If) and isinstance(statement.body[-1], LEAVING):
                before = [*before, (statement, False)]


def writes(key: str, owner: str) -> List[Tuple[Any, Place]]:
    """Assignments to ``…[key]``, the one last that is most likely to have written 0.

    It is one to an entry of an attribute called ``owner``, of 0 itself or of no constant.
    """

    def is_owned(node: Any) -> bool:
        return any(getattr(each, "attr", None) == owner for each in ast.walk(node))

    def entries(node: Any) -> Optional[Set[str]]:
        if isinstance(node, ast.For):
            given, targets = node.iter, [node.target]
        elif isinstance(node, ast.Assign):
            given, targets = node.value, node.targets
        else:
            return None
        inside = (each for target in targets for each in ast.walk(target))
        return {named_as(each) for each in inside} if is_owned(given) else None

    def wanted(node: Any) -> Optional[Tuple[bool, bool, bool]]:
        if not isinstance(node, (ast.Assign, ast.AugAssign)):
            return None
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        written = next((each for each in targets if subscript(each) == key), None)
        if not isinstance(written, ast.Subscript):
            return None
        value, entry = value_of(node.value), written.value
        return value in (0, None), is_owned(entry) or named_as(entry) in bound_to, value == 0

    bound_to = {name for each, _ in found(entries, files()) for name in each} - {""}
    return sorted(found(wanted, files()), key=lambda hit: hit[0])


def leads(start: Place, to: Place, names_in: Callable[[Any], Set[str]]) -> bool:
    """Whether a statement ``to`` uses what is computed at ``start``, perhaps by way of other names.

    At ``start`` is a statement, a ``with`` block or a function. Scopes of names are not told apart.

    Args:
        start: where it is computed.
        to: where it may be used.
        names_in: the names in an expression that count.
    """
    first, last = ([node for node, _ in at_place(place)] for place in (start, to))
    return any(node in last for node in first) or any(
        names_in(node.value) & derived(start, to, names_in)
        for node in last
        if getattr(node, "value", None)
    )


def shares(start: Place, to: Place) -> int:
    """How many summands of a sum at ``to`` use what is computed at ``start``."""
    known = derived(start, to, names_used)
    values = [getattr(node, "value", None) for node, _ in at_place(to)]
    return sum(bool(names_used(each) & known) for value in values for each in summed(value))


def derived(start: Place, to: Place, names_in: Callable[[Any], Set[str]]) -> Set[str]:
    """The names of what is computed from a statement at ``start``, before the one ``to``."""
    lines = [each for file in {start["file"], to["file"]} for each in statements(file)]
    last = [node for node, _ in at_place(to)]
    known = {name for node, function in at_place(start) for name in gives(node, function)}
    before: Set[str] = set()
    while known != before:
        before = set(known)
        for node, function in lines:
            value = getattr(node, "value", None)
            if value is not None and node not in last and names_in(value) & known:
                known |= gives(node, function)
    return known


def summed(node: Any) -> Iterator[Any]:
    """The summands of an expression."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from (*summed(node.left), *summed(node.right))
    elif node is not None:
        yield node


def at_place(place: Place) -> List[Tuple[Any, str]]:
    """The statements, ``with`` blocks and functions at a line, each with the function around it."""
    return [each for each in statements(place["file"]) if begins_at(each[0], place["line"])]


def sets_attribute(place: Place) -> bool:
    """Whether a line assigns to an attribute, or to an item of one."""
    targets = (each for node, _ in at_place(place) for each in getattr(node, "targets", ()))
    values = (each.value if isinstance(each, ast.Subscript) else each for each in targets)
    return any(isinstance(each, ast.Attribute) for each in values)


def discards(place: Place) -> bool:
    """Whether a line keeps nothing that it computes, nor calls backward: it may write a log."""
    lines = [node for node, _ in at_place(place)]
    return bool(lines) and all(
        isinstance(node, ast.Expr)
        and not gives(node, "")
        and not any("backward" in name for name in names_used(node))
        for node in lines
    )


def statements(file: str) -> List[Tuple[Any, str]]:
    """The simple statements, ``with`` blocks and functions of a file of the user."""
    kinds = (*SIMPLE, ast.With, *FUNCTIONS)
    paths = [path for path in files() if shown(path) == file]
    return [each for path in paths for each in nodes(path) if isinstance(each[0], kinds)]


def begins_at(node: Any, line: int) -> bool:
    """Whether ``line`` is one of a simple statement, or of the head of another one."""
    body = getattr(node, "body", None)
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
    return bool(first <= line <= max(last, node.lineno))


def gives(node: Any, function: str) -> Set[str]:
    """The names that a statement and all below it write; that of the function that returns it."""
    if isinstance(node, FUNCTIONS):
        return {node.name}
    inside = list(ast.walk(node))
    given = {named_as(each) for each in inside if isinstance(getattr(each, "ctx", None), ast.Store)}
    calls: List[Any] = [each.func for each in inside if isinstance(each, ast.Call)]
    given |= {named_as(each.value) for each in calls if getattr(each, "attr", None) == "append"}
    if any(isinstance(each, ast.Return) for each in inside):
        given.add(function)
    return given - own(node)


def names_used(node: Any) -> Set[str]:
    """Every name in an expression."""
    return {named_as(each) for each in ast.walk(node)} - own(node)


def own(node: Any) -> Set[str]:
    """The variables of comprehensions, which nothing else sees, and no name."""
    targets = [each.target for each in ast.walk(node) if isinstance(each, ast.comprehension)]
    return {named_as(each) for target in targets for each in ast.walk(target)} | {""}


def parts(node: Any) -> Set[str]:
    """The names of what an expression is a sum or a multiple of, and of functions that give it."""
    if isinstance(node, ast.BinOp):
        return parts(node.left) | parts(node.right)
    if isinstance(node, ast.UnaryOp):
        return parts(node.operand)
    if isinstance(node, ast.Call):
        listed = named_as(node.func) in ("sum", "float")
        return set().union(parts(node.func), *(names_used(each) for each in node.args if listed))
    if isinstance(node, ast.Attribute):
        return {node.attr} | parts(node.value)
    return {named_as(node)} - {""}


def assigns(name: str) -> List[Place]:
    """Where a name is first given a value."""

    def wanted(node: Any) -> Optional[bool]:
        written = isinstance(node, ast.Assign) and name in map(named_as, node.targets)
        return True if written else None

    return [at for _, at in found(wanted, files())][:1]


def without_effect() -> List[Tuple[str, Place]]:
    """Updates of a tensor that only make a new one: ``p = p - …`` in a loop over parameters.

    Also the same with the parameter of a function that returns nothing, and expressions such as
    ``p.sub(…)`` whose result is not used.
    """
    hits: Dict[Tuple[Optional[str], int], Tuple[str, Place]] = {}
    for (scope, local), at in found(bound, files()):
        lines: Iterator[Any] = ast.walk(scope)
        for node in lines:
            if makes_new(node, local):
                place = {**at, "line": node.lineno}
                if isinstance(scope, ast.FunctionDef):
                    place["function"] = scope.name
                name = dotted(node.targets[0]) if isinstance(node, ast.Assign) else ""
                hits[place["file"], node.lineno] = name, place
    return list(hits.values())


def bound(node: Any) -> Optional[Tuple[Any, Set[str]]]:
    """A loop or a function without a result, in which no gradient is asked for, and its names."""
    if isinstance(node, ast.For):
        local = {each.id for each in ast.walk(node.target) if isinstance(each, ast.Name)}
    elif isinstance(node, ast.FunctionDef) and not any(
        isinstance(each, (ast.Return, ast.Yield)) for each in ast.walk(node)
    ):
        local = {each.arg for each in node.args.args}
    else:
        return None
    asks = any(getattr(each, "attr", None) in ASKING for each in calls_in(node))
    return None if asks else (node, local)


def calls_in(node: ast.AST) -> Iterator[Any]:
    """What is called below ``node``."""
    return (each.func for each in ast.walk(node) if isinstance(each, ast.Call))


def makes_new(node: Any, local: Set[str]) -> bool:
    """Whether a statement computes from one of the ``local`` names, and keeps no other name."""
    if isinstance(node, ast.Assign):
        targets = {dotted(target) for target in node.targets} & local
    elif isinstance(node, ast.Expr):
        targets = local
    else:
        return False
    value: Any = node.value
    if isinstance(value, ast.BinOp):
        while isinstance(value, ast.BinOp):
            value = value.left
        first = dotted(value)
    else:
        first, _, method = dotted(getattr(value, "func", None)).rpartition(".")
        if method not in ARITHMETIC:
            return False
        if first == "torch" and value.args:
            first = dotted(value.args[0])
    return any(f"{first}.".startswith(f"{each}.") for each in targets)


def rebound(switch: Place) -> List[Place]:
    """Updates that bind a name to a new tensor, ``w = w - rate * w.grad``.

    Those from the line of ``switch`` on, in the same function.
    """

    def wanted(node: Any) -> Optional[bool]:
        own = set(map(dotted, getattr(node, "targets", ())))
        return True if own and makes_new(node, own) and "grad" in ast.dump(node.value) else None

    hits = [at for _, at in found(wanted, files()) if at["line"] >= switch["line"]]
    return [at for at in hits if all(at[key] == switch[key] for key in ("file", "function"))]


def kept_generators() -> List[Place]:
    """Where a name that loops go through is given ``….parameters()``, and not a list of it."""

    def looped(node: Any) -> Optional[Set[str]]:
        if not isinstance(node, (ast.For, ast.comprehension)):
            return None
        return {each.id for each in ast.walk(node.iter) if isinstance(each, ast.Name)} or None

    names = {name for each, _ in found(looped, files()) for name in each}

    def wanted(node: Any) -> Optional[bool]:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            return None
        made = dotted(node.value.func).rpartition(".")[2] in GENERATORS
        return True if made and names & {dotted(target) for target in node.targets} else None

    return [at for _, at in found(wanted, files())]


def undoing() -> Dict[str, Any]:
    """The call in the loop of an optimizer's step that brings earlier values back.

    It stands behind the step, or it loads a state before it.
    """

    def wanted(node: Any) -> Optional[Tuple[str, int]]:
        if not isinstance(node, (ast.For, ast.While)):
            return None
        called = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
        steps = [each.lineno for each in called if dotted(each.func).endswith(".step")]
        if not steps:
            return None
        calls = [(each.lineno, dotted(each.func)) for each in called]
        behind = [(name, at) for at, name in calls if at > min(steps)]
        hits = [each for each in behind if UNDOING.search(each[0].rpartition(".")[2])]
        loads = [(name, at) for at, name in calls if name.endswith(".load_state_dict")]
        return next(iter(hits + loads), None)

    hits = found(wanted, files())
    text, at = hits[-1] if hits else (("", 0), {})
    return {
        "how": "undone",
        "text": text[0],
        "frames": [{**at, "line": text[1]}] if hits else [],
    }


def delays() -> List[Tuple[str, Place]]:
    """Arguments that put off the first step of an optimizer, such as ``learning_starts=1000``."""
    return keywords(DELAY.search, lambda value: type(value) is int and value > 1)


def manual() -> List[Tuple[str, Place]]:
    """Where a LightningModule says that it steps its optimizers itself."""
    return keywords("automatic_optimization".__eq__, lambda value: value is False, names)


def rewards() -> List[Tuple[str, Place]]:
    """Where functions of the script return what they give to a library as rewards."""
    given_to = [node for _, value, _ in given(REWARD.search) for node in ast.walk(value)]
    names = {node.id for node in given_to if isinstance(node, ast.Name)}
    hits = []
    for path in files():
        for node, _ in nodes(path):
            if isinstance(node, ast.FunctionDef) and node.name in names:
                place = {"file": shown(path) or path, "line": returned(path, node.lineno)}
                hits.append((node.name, {**place, "function": node.name, "user": True}))
    return hits


def without_result(name: str, depth: int = 2) -> List[Tuple[str, Place]]:
    """The functions of this name that return nothing, and do not end with an error.

    If one returns only what other functions of the script do, those are meant.
    """

    def wanted(node: Any) -> Optional[Set[str]]:
        if not isinstance(node, FUNCTIONS) or node.name != name:
            return None
        inside: List[Any] = list(ast.walk(node))
        gives = any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in inside)
        results = [each.value for each in inside if isinstance(each, ast.Return)]
        results = [each for each in results if getattr(each, "value", each) is not None]
        called = set(map(own_method, results))
        gives |= "" in called or isinstance(node.body[-1], ast.Raise)
        return None if gives else called

    hits: List[Tuple[str, Place]] = []
    for called, at in found(wanted, files()):
        deeper = [without_result(each, depth - 1) if depth else [] for each in called]
        if all(deeper):
            own = [(name, {**at, "function": name})]
            hits += [each for some in deeper for each in some] if called else own
    return hits


def own_method(node: Any) -> str:
    """The method of ``self`` that an expression calls, else nothing."""
    method = getattr(node, "func", None)
    owner = getattr(method, "value", None)
    return getattr(method, "attr", "") if getattr(owner, "id", "") == "self" else ""


def unread(frames: List[Place]) -> bool:
    """Whether the user's line in ``frames`` gives a result a name that the file never reads."""
    at = of_user(frames)
    path = next((each for each in files() if at is not None and shown(each) == at["file"]), None)
    if at is None or path is None:
        return False
    names = [node for node, _ in nodes(path) if isinstance(node, ast.Name)]
    read = {each.id for each in names if isinstance(each.ctx, ast.Load)}
    given = {
        each.id
        for node, _ in nodes(path)
        if isinstance(node, ast.Assign) and node.lineno <= at["line"] <= (node.end_lineno or 0)
        for target in node.targets
        for each in (target.elts if isinstance(target, ast.Tuple) else [target])
        if isinstance(each, ast.Name) and not each.id.startswith("_")
    }
    return not given <= read


def past_wrapper() -> List[Place]:
    """Calls that go past a wrapper such as DistributedDataParallel, or stop its exchange."""

    def wanted(node: Any) -> Optional[bool]:
        name = dotted(node.func) if isinstance(node, ast.Call) else ""
        return True if name.endswith((".module", ".module.forward", ".no_sync")) else None

    return [at for _, at in found(wanted, files())]


def switched(names: Set[str]) -> List[Tuple[str, Place]]:
    """Assignments of True or False to attributes with these ``names``, but to those of ``self``."""

    def wanted(node: Any) -> Optional[str]:
        if not isinstance(node, ast.Assign) or type(value_of(node.value)) is not bool:
            return None
        targets = [each for each in node.targets if isinstance(each, ast.Attribute)]
        outside = [each for each in targets if dotted(each.value) != "self"]
        unparse = getattr(ast, "unparse", dotted)  # Python 3.8 has none
        written = [unparse(each) for each in outside if each.attr in names]
        return f"{written[0]} = {value_of(node.value)}" if written else None

    return found(wanted, files())


def assigned(name: str) -> List[Tuple[str, Place]]:
    """Assignments to the attribute ``name`` of anything but ``self``; of an optimizer first."""

    def wanted(node: Any) -> Optional[str]:
        targets = node.targets if isinstance(node, ast.Assign) else []
        written = [each for each in targets if isinstance(each, ast.Attribute)]
        return next(
            (dotted(e) for e in written if e.attr == name and dotted(e)[:5] != "self."), None
        )

    return sorted(found(wanted, files()), key=lambda hit: "opt" not in hit[0].lower())


def freezing() -> List[Place]:
    """Where the script sets ``requires_grad`` of something to False."""

    def wanted(node: Any) -> Optional[bool]:
        if isinstance(node, ast.Assign):
            names, given = {named_as(each) for each in node.targets}, [node.value]
        elif isinstance(node, ast.Call):
            names, given = {named_as(node.func)}, node.args
        else:
            return None
        off = [value_of(each) for each in given] == [False]
        return True if off and names & {"requires_grad", "requires_grad_"} else None

    return [at for _, at in found(wanted, files())]


def subscript(target: Any) -> Any:
    """The literal key of ``…[key]``; None for anything else."""
    if not isinstance(target, ast.Subscript):
        return None
    key: Any = target.slice
    key = getattr(key, "value", key) if type(key).__name__ == "Index" else key  # Python 3.8
    return getattr(key, "value", None)


def attribute(kind: type, name: str) -> List[Place]:
    """Where a class, or one that it inherits from, assigns ``self.name``."""

    def wanted(node: Any) -> Optional[str]:
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        is_it = isinstance(node, (ast.Assign, ast.AnnAssign)) and any(
            isinstance(each, ast.Attribute) and each.attr == name
            for target in targets
            for each in (target.elts if isinstance(target, ast.Tuple) else [target])
        )
        return name if is_it else None

    for owner in kind.__mro__:
        path = getattr(sys.modules.get(owner.__module__), "__file__", None)
        if path and shown(path) is not None:
            inside = span(path, owner.__name__)
            for _, place in found(wanted, [path]):
                if inside[0] <= place["line"] <= inside[1]:
                    return [place]
    return []


def span(path: str, name: str) -> Tuple[int, int]:
    """The first and last line of the class ``name``."""
    for node, _ in nodes(path):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node.lineno, node.end_lineno or node.lineno
    return 1, 0


def returned(path: str, first_line: int) -> Optional[int]:
    """The line of the last ``return`` of the function at ``first_line``, else of its ``def``.

    ``first_line`` may be that of a decorator.
    """
    for node, _ in nodes(path):
        if isinstance(node, ast.FunctionDef) and first_line in {
            node.lineno,
            *(decorator.lineno for decorator in node.decorator_list),
        }:
            lines = [each.lineno for each in ast.walk(node) if isinstance(each, ast.Return)]
            return max(lines, default=node.lineno)
    return None
