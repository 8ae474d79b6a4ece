"""A digest of what code means. A move, a rename, a comment or a docstring does not change it.

A record stays valid as long as the code behind it does the same. So its key is made from
definitions and not from the bytes of files: from the functions, classes and constants that are
reached from where a cell starts.

Each definition is reduced to its syntax tree without comments, docstrings (also those passed as
``doc=``), annotations of functions and positions. A reference to another definition of this project
stands for the meaning of that one, not for its name or its file. This is colour refinement, as in
the Weisfeiler-Leman test of graphs. What a file does only when it is run as a script is left out.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

Place = tuple[str, str]
"""A module and a name at its top level. The name "" stands for statements that define nothing."""
SKIPPED = {"ctx", "kind", "type_comment", "type_params", "returns"}
"""Fields of the syntax tree that do not change what code does, or that only some Pythons have."""
BINDERS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass
class Module:
    """A file as its definitions, and what its imported names stand for."""

    package: str
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    """A local name → the dotted name of what was imported."""


@dataclass
class Reduced:
    """A definition as pieces of text and, between them, the definitions that it refers to."""

    pieces: list[str | Place] = field(default_factory=list)

    def write(self, text: str) -> None:
        """Append a piece of text."""
        self.pieces.append(text)

    @property
    def references(self) -> list[Place]:
        """The definitions that it refers to."""
        return [piece for piece in self.pieces if not isinstance(piece, str)]

    def filled(self, colours: Mapping[Place, str]) -> str:
        """The digest of the text, in which a colour stands for each definition referred to."""
        text = "".join(piece if isinstance(piece, str) else colours[piece] for piece in self.pieces)
        return hashlib.sha256(text.encode()).hexdigest()


def digest(
    package: str, folder: Path, roots: Sequence[Place], without: Sequence[Place] = ()
) -> str:
    """The sha256 of all definitions of a package that are reached from ``roots``.

    Args:
        package: the dotted name under which the files import each other.
        folder: where the package lies.
        roots: modules, named below the package, and definitions in them, where the code is entered.
        without: definitions that do not count, nor what only they need.
    """
    code = Code(package, folder)
    entered, left_out = (
        [(f"{package}.{module}", name) for module, name in places] for places in (roots, without)
    )
    reduced = code.reached(entered, left_out)
    colours = dict.fromkeys(reduced, "")
    kinds = 0
    while len(set(colours.values())) > kinds:
        kinds = len(set(colours.values()))
        colours = {place: each.filled(colours) for place, each in reduced.items()}
    return hashlib.sha256("\n".join(sorted(colours.values())).encode()).hexdigest()


def digest_of_file(source: bytes, without: frozenset[str]) -> str:
    """The sha256 of what a single file does.

    Args:
        source: the file.
        without: names at its top level that are read from outside. They count only if the file
            uses them itself.
    """
    body = [
        node
        for node in ast.parse(source).body
        if not is_prose(node) and not is_start_of_script(node)
    ]
    rest = [node for node in body if not without.intersection(bound(node))]
    used = {each.id for node in rest for each in ast.walk(node) if isinstance(each, ast.Name)}
    reduced, names = Reduced(), dict[str, str]()
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= imported(node, "")
        elif not bound(node) & (without - used):
            Reducer(Code("", None), "", reduced).write(node, frozenset())
    reduced.write(repr(sorted(names.items())))
    return reduced.filled({})


class Code:
    """The modules of a package, read when they are first asked for."""

    def __init__(self, package: str, folder: Path | None) -> None:
        self.package, self.folder = package, folder
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """The module of that dotted name; None if it is not in this package."""
        if name not in self._modules:
            path = self._path(name)
            self._modules[name] = (
                None if path is None else read(ast.parse(path.read_bytes()), package_of(name, path))
            )
        return self._modules[name]

    def _path(self, name: str) -> Path | None:
        if self.folder is None or not (name + ".").startswith(self.package + "."):
            return None
        path = self.folder.joinpath(*name.removeprefix(self.package).split("."))
        return next(
            (each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()),
            None,
        )

    def reached(self, roots: list[Place], without: Sequence[Place] = ()) -> dict[Place, Reduced]:
        """Every definition that ``roots`` need, and the top-level statements of their modules.

        The definitions ``without`` count as empty.
        """
        found: dict[Place, Reduced] = {}
        for place in without:
            self._reduced(place)  # it must be there
            found[place] = Reduced()
        waiting = list(roots)
        while waiting:
            place = waiting.pop()
            if place in found:
                continue
            found[place] = self._reduced(place)
            waiting += found[place].references
            loose = (place[0], "")
            module = self.module(place[0])
            if module is not None and module.definitions.get(""):
                waiting.append(loose)
        return found

    def _reduced(self, place: Place) -> Reduced:
        module = self.module(place[0])
        assert module is not None, place
        if place[1] not in module.definitions:
            raise ValueError(f"{place[0]} has no definition of {place[1]!r}")
        reduced = Reduced([place[1]])
        for node in module.definitions[place[1]]:
            Reducer(self, place[0], reduced).write(node, frozenset())
        return reduced

    def resolved(self, dotted: str) -> tuple[Place | None, str]:
        """The definition that a dotted name leads to, and what is left of the name.

        None if the definition is not in this package. A module of the package that is itself a
        value stands for "a module": its file may have any name.
        """
        parts = dotted.split(".")
        for end in range(len(parts), 0, -1):
            module = self.module(".".join(parts[:end]))
            if module is None:
                continue
            if end == len(parts) or parts[end] not in {**module.definitions, **module.imports}:
                return None, ".".join(("a module", *parts[end:]))
            name, rest = parts[end], ".".join(parts[end + 1 :])
            if name in module.definitions:
                return (".".join(parts[:end]), name), rest
            return self.resolved(".".join(filter(None, (module.imports[name], rest))))
        return None, dotted


class Reducer:
    """Writes a syntax tree into a :class:`Reduced`."""

    def __init__(self, code: Code, module: str, reduced: Reduced) -> None:
        self.code, self.reduced = code, reduced
        self.module, self.known = module, code.module(module) or Module("")
        self.imports = dict(self.known.imports)
        self.fields: set[int] = set()
        """Annotated assignments that are fields of a class: a dataclass reads their annotations."""

    def write(self, node: object, local: frozenset[str]) -> None:
        """Append ``node``; names in ``local`` are variables of a function around it."""
        if isinstance(node, list):
            self.reduced.write("[")
            for each in node:
                if not is_prose(each) and not self._is_import_of_ours(each):
                    self.write(each, local)
                    self.reduced.write(",")
            self.reduced.write("]")
        elif not isinstance(node, ast.AST):
            self.reduced.write(repr(node))
        elif isinstance(node, ast.AnnAssign) and id(node) not in self.fields:
            if node.value is not None:
                self.write(ast.Assign([node.target], node.value), local)
        elif not self._is_reference(node, local):
            self._node(node, local)

    def _node(self, node: ast.AST, local: frozenset[str]) -> None:
        if isinstance(node, FUNCTIONS):
            local |= variables(node)
            self._learn_imports(node)
        elif isinstance(node, ast.ClassDef):
            self.fields.update(map(id, node.body))
        self.reduced.write(type(node).__name__ + "(")
        for name in node._fields:
            value = getattr(node, name, None)
            skipped = name in SKIPPED or (name == "annotation" and isinstance(node, ast.arg))
            if value is not None and value != [] and not skipped:
                self.reduced.write(name + "=")
                self.write(value, local)
        self.reduced.write(")")

    def _is_reference(self, node: ast.AST, local: frozenset[str]) -> bool:
        """Write ``node`` as a reference, if it is one; return whether it is.

        A reference is a name of this module or of an import, with its attributes.
        """
        first, _, rest = dotted_name(node).partition(".")
        if not first or first in local:
            return False
        if first in self.imports:
            place, rest = self.code.resolved(".".join(filter(None, (self.imports[first], rest))))
        elif first in self.known.definitions:
            place = (self.module, first)
        else:
            return False
        self.reduced.pieces += (
            [f"<{rest}>"] if place is None else ["<", place, f".{rest}>" if rest else ">"]
        )
        return True

    def _is_import_of_ours(self, node: object) -> bool:
        """Whether ``node`` imports from the package: such an import only gives a name."""
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            return False
        found = imported(node, self.known.package).values()
        return all(self.code.module(name) or self.code.resolved(name)[0] for name in found)

    def _learn_imports(self, function: ast.AST) -> None:
        for node in ast.walk(function):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self.imports.update(imported(node, self.known.package))


def read(tree: ast.Module, package: str) -> Module:
    """The definitions and imports at the top level of a file of ``package``."""
    module = Module(package)
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)) or is_for_types(node):
            for each in ast.walk(node):
                if isinstance(each, (ast.Import, ast.ImportFrom)):
                    module.imports.update(imported(each, package))
        elif not is_prose(node) and not is_start_of_script(node):
            for name in bound(node) or {""}:
                module.definitions.setdefault(name, []).append(node)
    return module


def package_of(name: str, path: Path) -> str:
    """The package that the relative imports of a module start from."""
    return name if path.name == "__init__.py" else name.rpartition(".")[0]


def imported(node: ast.Import | ast.ImportFrom, package: str) -> dict[str, str]:
    """The names that an import in a module of ``package`` binds, and what each stands for."""
    if isinstance(node, ast.Import):
        whole = {alias.asname: alias.name for alias in node.names if alias.asname}
        tops = {alias.name.partition(".")[0] for alias in node.names if not alias.asname}
        return {**whole, **{top: top for top in tops}}
    above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    start = ".".join(filter(None, (*above, node.module)))
    return {alias.asname or alias.name: f"{start}.{alias.name}" for alias in node.names}


def bound(node: ast.AST) -> set[str]:
    """The names that a statement at the top level binds."""
    if isinstance(node, BINDERS):
        return {node.name}
    return set(stored(node))


def stored(node: ast.AST) -> Iterator[str]:
    """Every name that is assigned below ``node``, but not inside its functions and classes."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, BINDERS):
            yield child.name
        elif isinstance(child, (ast.Import, ast.ImportFrom)):
            yield from imported(child, "")
        elif not isinstance(child, ast.Lambda):
            yield from stored(child)
    if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield node.id
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        yield node.name


def variables(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> frozenset[str]:
    """The parameters and local variables of a function, without imported and global names."""
    given = function.args
    names = {
        arg.arg
        for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
        if arg
    }
    names |= set(stored(function))
    for node in ast.walk(function):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            names -= set(node.names)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names -= set(imported(node, ""))
    return frozenset(names)


def dotted_name(node: ast.AST) -> str:
    """``a.b.c`` of a name with attributes; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted_name(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def is_prose(node: object) -> bool:
    """Whether ``node`` is a docstring, the text under a constant, or an argument ``doc=``."""
    if isinstance(node, ast.keyword):
        return node.arg == "doc"
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_for_types(node: ast.stmt) -> bool:
    """Whether ``node`` is ``if TYPE_CHECKING:``."""
    return isinstance(node, ast.If) and dotted_name(node.test).rpartition(".")[2] == "TYPE_CHECKING"


def is_start_of_script(node: ast.stmt) -> bool:
    """Whether ``node`` is ``if __name__ == "__main__":``."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
