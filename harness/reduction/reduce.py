"""Pure: a scenario's source, reduced to one variant: constants put in, decided branches gone, nothing left unused.

Each rule makes one sort of edit; they are repeated until none of them finds anything more to do.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from harness.reduction import branches, parameters, unused
from harness.reduction.constants import plain
from harness.reduction.source import Source, tidy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.reduction.source import Edit

LITERALS = ("NEEDS", "VARIANTS", "AGREE")
RULES = (
    branches.fold, branches.decide, branches.end, unused.definitions, parameters.parameters, parameters.attributes,
    unused.values, unused.imports, branches.join,
)  # fmt: skip


def reduce(text: str, variant: str, device: str, steps: int) -> str:
    """The source of ``train()`` without arguments, and of all that it needs: one variant, device and number of steps.

    It has no module docstring, and nothing that runs it. SyntaxError where ``text`` is no Python.
    """
    whole = Source.of(text)
    source = _without_frame(whole.changed(_docstrings(whole)))
    source = source.changed(parameters.specialise(source, (variant, device, steps)))
    while edits := next(filter(None, (rule(source) for rule in RULES)), None):
        source = source.changed(edits)
    return tidy(source.text)


def _docstrings(source: Source) -> Iterator[Edit]:
    """Docstrings that speak of variants by their names."""
    names = {f"`{name}`" for node in source.tree.body for name in _variants(node)}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            text = ast.get_docstring(node) or ""
            if len(node.body) > 1 and any(name in text for name in names):
                yield source.without(node.body[0])


def _variants(node: ast.stmt) -> list[str]:
    """The names of the variants, where this is their table."""
    match node:
        case ast.Assign(targets=[ast.Name(id="VARIANTS")], value=ast.Dict(keys=keys)):
            return [str(plain(key)) for key in keys]
    return []


def _without_frame(source: Source) -> Source:
    """Without the docstring, the literals that describe the variants, and the block that reads the command line."""
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
