"""Read a scenario's literals without importing it: importing would need the libraries it trains with."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from harness.errors import UserError, did_you_mean
from harness.meaning import digest_of_file
from harness.model import Lock, Relation, Role, Scenario, Variant

if TYPE_CHECKING:
    from pathlib import Path

PAIR = 2
FIRST_LOSS = "first loss"
READ_FROM_OUTSIDE = frozenset({"NEEDS", "VARIANTS", "AGREE"})
"""Literals of a scenario that its own code does not need; what a cell's verdict takes from them is in its key."""


def load_all(folder: Path) -> dict[str, Scenario]:
    """Every scenario of ``folder`` by name."""
    return {path.stem: load(path) for path in sorted(folder.glob("*.py")) if not path.name.startswith("_")}


def load(path: Path) -> Scenario:
    """The scenario in ``path``; UserError where its literals are missing or wrong."""
    source = path.read_bytes()
    try:
        tree = ast.parse(source, filename=str(path))
    except SyntaxError as error:
        raise UserError(
            f"{path} is no valid Python: {error.msg} in line {error.lineno}.",
            cause="a scenario is an ordinary script",
            next_step=f"run: python {path} VARIANT",
        ) from error
    entries = _literal(tree, "VARIANTS", path)
    if not isinstance(entries, dict) or not entries:
        raise _wrong(path, "has no VARIANTS dictionary")
    needs = _needs(_literal(tree, "NEEDS", path) or (), path)
    variants = tuple(_variant(name, entry, needs, path) for name, entry in entries.items())
    return Scenario(
        name=path.stem,
        title=(ast.get_docstring(tree) or path.stem).splitlines()[0].rstrip("."),
        path=str(path),
        source_digest=digest_of_file(source, READ_FROM_OUTSIDE),
        variants=variants,
        agree=_agree(_literal(tree, "AGREE", path) or (), variants, path),
    )


def unmet(variant: Variant, lock: Lock) -> str | None:
    """The first requirement of ``variant`` that ``lock`` does not meet, in words; None where it meets all."""
    for text in variant.needs:
        requirement = Requirement(text)
        version = lock.version(canonicalize_name(requirement.name))
        if version is None:
            return f"needs {text}, which this stack does not have"
        if not requirement.specifier.contains(version, prereleases=True):
            return f"needs {text}, this stack has {version}"
    return None


def _variant(name: object, entry: object, needs: tuple[str, ...], path: Path) -> Variant:
    if not isinstance(name, str) or not isinstance(entry, dict) or "role" not in entry or "summary" not in entry:
        raise _wrong(path, f'variant {name!r} needs "role" and "summary"')
    if entry["role"] not in list(Role):
        raise _wrong(path, f"variant {name!r} has the unknown role {entry['role']!r} (one of {', '.join(Role)})")
    own = _needs(entry["needs"], path) if "needs" in entry else needs
    cures = entry.get("cures", ())
    if not isinstance(cures, (tuple, list)) or not all(isinstance(cause, str) for cause in cures):
        raise _wrong(path, f"variant {name!r} cures {cures!r}, which is no tuple of causes")
    return Variant(name=name, role=Role(entry["role"]), summary=str(entry["summary"]), needs=own, cures=tuple(cures))


def _needs(entry: object, path: Path) -> tuple[str, ...]:
    if not isinstance(entry, (tuple, list)):  # a lone string would be read letter by letter
        raise _wrong(path, f"needs {entry!r}, which is no tuple of requirements")
    try:
        return tuple(str(Requirement(text)) for text in entry)
    except (InvalidRequirement, TypeError) as error:
        raise _wrong(path, f"has an unreadable requirement: {str(error).splitlines()[0]}") from error


def _agree(entry: object, variants: tuple[Variant, ...], path: Path) -> tuple[Relation, ...]:
    pairs: list[object] = list(entry) if isinstance(entry, (tuple, list)) else [entry]
    found = tuple(_relation(pair, {variant.name: variant for variant in variants}, path) for pair in pairs)
    known = set[frozenset[str]]()
    for relation in found:
        pair = frozenset((relation.first, relation.second))
        if pair in known:
            raise _wrong(path, f"has {relation.first!r} and {relation.second!r} in AGREE twice")
        known.add(pair)
    return found


def _relation(pair: object, variants: dict[str, Variant], path: Path) -> Relation:
    if not isinstance(pair, (tuple, list)) or not PAIR <= len(pair) <= PAIR + 1 or pair[0] == pair[1]:
        raise _wrong(path, f"has {pair!r} in AGREE, which is no pair of its variants")
    for name in pair[:PAIR]:
        if not isinstance(name, str) or name not in variants:
            raise _wrong(path, f"has {pair!r} in AGREE, which is no pair of its variants")
        if variants[name].role is Role.MISUSE:
            raise _wrong(path, f"has {pair!r} in AGREE, and {name!r} is a misuse: it cannot train")
    return Relation(first=pair[0], second=pair[1], **_options(pair[PAIR] if len(pair) > PAIR else {}, path))


def _options(entry: object, path: Path) -> dict[str, Any]:
    """What a relation states beside its pair, ready for its type."""
    if not isinstance(entry, dict):
        raise _wrong(path, f'has {entry!r} in AGREE, which is no dictionary such as {{"rtol": 0.02}}')
    for key, value in entry.items():
        if key == "rtol":
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
                raise _wrong(path, f"has the rtol {value!r} in AGREE, which is no number from 0 to below 1")
        elif key == "only":
            if value != FIRST_LOSS:
                raise _wrong(path, f"has only {value!r} in AGREE, where {FIRST_LOSS!r} is all that it may be")
        else:
            raise _wrong(path, f"has the unknown key {key!r} in AGREE, {did_you_mean(str(key), ('rtol', 'only'))}")
    return entry


def _literal(tree: ast.Module, name: str, path: Path) -> object:
    """The value assigned to ``name`` at the top of the module, or None."""
    for node in tree.body:
        targets, value = _assigned(node)
        if value is not None and any(isinstance(target, ast.Name) and target.id == name for target in targets):
            try:
                return ast.literal_eval(value)
            except (ValueError, TypeError) as error:
                raise _wrong(path, f"{name} is no literal: it is read without importing the file") from error
    return None


def _assigned(node: ast.stmt) -> tuple[list[ast.expr], ast.expr | None]:
    """What a statement assigns to, and the value."""
    if isinstance(node, ast.Assign):
        return node.targets, node.value
    return ([node.target], node.value) if isinstance(node, ast.AnnAssign) else ([], None)


def _wrong(path: Path, what: str) -> UserError:
    return UserError(
        f"{path.name} {what}.",
        cause="a scenario's NEEDS, VARIANTS and AGREE are literals at the top of the file",
        next_step="see 'Add a scenario' in README.md",
    )
