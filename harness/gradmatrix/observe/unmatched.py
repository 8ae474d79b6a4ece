"""A condition on names by which a script chooses what should learn, and that chooses nothing."""

from __future__ import annotations

import ast
import re
import sys
from difflib import SequenceMatcher
from typing import Any, Dict, Iterator, List, Optional, Tuple

from . import source
from .frames import of_user, shown

NAMED = ("named_parameters", "named_modules", "named_children")
METHODS = {"startswith", "endswith", "split", "lower", "strip", "search", "match", "fullmatch"}
USED = {"__builtins__": {}, "any": any, "all": all, "range": range, "str": str, "re": re}
"""What a condition may use beside the name and the texts of the script."""
EXPRESSIONS = (
    *(ast.expr_context, ast.boolop, ast.cmpop, ast.unaryop),
    *(ast.BoolOp, ast.Compare, ast.UnaryOp, ast.Constant, ast.Name, ast.Attribute, ast.Call),
    *(ast.Tuple, ast.List, ast.Set, ast.Subscript, ast.Slice, ast.JoinedStr, ast.FormattedValue),
    *(ast.GeneratorExp, ast.ListComp, ast.comprehension),
)
"""A condition that is made of these can be computed again: it changes nothing."""
SHOWN = 2


def unmatched(frames: List[Dict[str, Any]], tops: List[Any]) -> Optional[Dict[str, Any]]:
    """The condition for what should learn, if it fits no name and all is frozen because of that.

    It stands in the same function as the line that froze everything, and not before it.

    Args:
        frames: what froze the last parameters.
        tops: the outermost modules that ran.
    """
    froze = of_user(frames)
    path = next((each for each in source.files() if froze and shown(each) == froze["file"]), None)
    if froze is None or path is None:
        return None
    called = [at for _, at in source.called(froze["function"].__eq__)]
    lines = [froze["line"], *(at["line"] for at in called if at["file"] == froze["file"])]
    for loop, function in source.nodes(path):
        for variable, call in named_in(loop):
            around = function_at(path, loop.lineno)
            behind = [n for n in lines if n <= loop.end_lineno and function_at(path, n) is around]
            known = {} if around or not behind else variables(path)
            names = names_of(call, known, tops) if behind else []
            for test, line in choices(loop, froze["line"]) if names else ():
                if fits_none(test, variable, names, known):
                    at = {"file": froze["file"], "line": line, "function": function, "user": True}
                    text = getattr(ast, "unparse", source.dotted)(test)  # Python 3.8 has none
                    return {"text": text, "names": nearest(test, names), "frames": [at]}
    return None


def named_in(loop: Any) -> Iterator[Tuple[str, Any]]:
    """The variable for the names in a loop over ``….named_parameters()`` or the like, and that."""
    if isinstance(loop, ast.For):
        pairs = [each.elts for each in ast.walk(loop.target) if isinstance(each, ast.Tuple)]
        for call in source.calls_in(loop.iter):
            if pairs and source.named_as(call) in NAMED and isinstance(call, ast.Attribute):
                yield source.named_as(pairs[-1][0]), call


def function_at(path: str, line: int) -> Any:
    """The innermost function around a line; None outside of all functions."""
    functions = [node for node, _ in source.nodes(path) if isinstance(node, source.FUNCTIONS)]
    around = [each for each in functions if each.lineno <= line <= (each.end_lineno or 0)]
    return around[-1] if around else None


def variables(path: str) -> Dict[str, Any]:
    """The global variables of the user's file."""
    modules = list(sys.modules.values())
    return next((vars(each) for each in modules if getattr(each, "__file__", None) == path), {})


def names_of(call: Any, known: Dict[str, Any], tops: List[Any]) -> List[str]:
    """The names in ``call``, such as ``model.named_parameters``; ``known`` are the variables.

    Of an attribute, as in ``self.model``, it is a module of that name; else all of ``tops``.
    """
    name = source.named_as(call.value)
    inner = [m for top in tops for n, m in top.named_modules() if n.rpartition(".")[2] == name]
    owners = inner[:1] if isinstance(call.value, ast.Attribute) and inner else tops
    if isinstance(call.value, ast.Name) and hasattr(known.get(name), "_modules"):
        owners = [known[name]]
    return [name for each in owners for name, _ in getattr(each, call.attr)() if name]


def choices(loop: Any, line: int) -> Iterator[Tuple[Any, int]]:
    """The conditions under which a loop leaves ``requires_grad`` True, each with its line.

    Args:
        loop: where to look.
        line: the line that froze everything.
    """
    for statement, blocks, _ in source.under_conditions(loop, [], ""):
        tests = [(b.test if holds else opposite(b.test), b.lineno) for b, holds in blocks]
        for value in given_to(statement):
            constant = source.value_of(value)
            if constant is True:
                yield from tests
            elif constant is not False:
                yield value, statement.lineno
            elif len(tests) == 1 and statement.lineno == line:
                yield opposite(tests[0][0]), tests[0][1]


def opposite(test: Any) -> Any:
    """The condition that holds if ``test`` does not."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.copy_location(ast.UnaryOp(op=ast.Not(), operand=test), test)


def given_to(statement: Any) -> Iterator[Any]:
    """What a statement sets ``requires_grad`` to."""
    value: Any = getattr(statement, "value", None)
    if isinstance(statement, ast.Assign):
        targets = {source.named_as(each) for each in statement.targets}
        yield from [value] if "requires_grad" in targets else []
    elif isinstance(value, ast.Call) and source.named_as(value.func) == "requires_grad_":
        yield from value.args[:1] or [ast.Constant(value=True)]


def fits_none(test: Any, variable: str, names: List[str], known: Dict[str, Any]) -> bool:
    """Whether a condition on ``variable`` holds for none of ``names``; False if it is not known."""
    inside: List[Any] = list(ast.walk(test))
    methods = {each.attr for each in inside if isinstance(each, ast.Attribute)}
    if not all(isinstance(each, EXPRESSIONS) for each in inside) or methods - METHODS:
        return False
    used = source.names_used(test)
    read = {name: known[name] for name in used & set(known) if is_text(known[name])}
    code = compile(ast.Expression(test), "<condition>", "eval")
    try:
        return variable in used and not any(
            eval(code, {**USED, **read, variable: name})  # noqa: S307  (see EXPRESSIONS)
            for name in names
        )
    except Exception:  # it reads what is not known here
        return False


def is_text(value: Any) -> bool:
    """Whether a value is a text, or several."""
    several = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
    return all(type(each) is str for each in several)


def nearest(test: Any, names: List[str]) -> List[str]:
    """The names that have most in common with the texts in the condition, else the last ones.

    The end of a text tells most.
    """
    inside: List[Any] = list(ast.walk(test))
    texts = [each.value for each in inside if type(getattr(each, "value", None)) is str]
    parts = [[part for part in text.split(".") if part] for text in texts]

    def likeness(name: str) -> Tuple[int, int]:
        shared = [[common(name, part) for part in each] for each in parts if each]
        return max((each[-1] for each in shared), default=0), sum(map(sum, shared))

    return sorted(dict.fromkeys(reversed(names)), key=likeness, reverse=True)[:SHOWN]


def common(name: str, text: str) -> int:
    """How long the longest part is that a name and a text share."""
    matcher = SequenceMatcher(None, name, text, autojunk=False)
    return matcher.find_longest_match(0, len(name), 0, len(text)).size
