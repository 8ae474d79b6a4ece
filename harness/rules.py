"""The [generate.*] tables of matrix.toml as validated rules, each with its place in the file; no index is asked."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from harness.complaints import check_name, check_python, check_requirement, wrong
from harness.errors import did_you_mean
from harness.generate import Releases, Snapshots, Window, names_of, snapshots

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from harness.model import Stack

Rule = Snapshots | Releases | Window
KINDS: dict[str, type[Rule]] = {"snapshots": Snapshots, "releases": Releases, "window": Window}


@dataclass(frozen=True)
class Placed:
    """A rule, where it stands in the file, and the stack that it is built on."""

    place: str
    rule: Rule
    base: Stack | None = None

    def asked(self) -> dict[str, Any]:
        """All that its stacks follow from, beside the index and the day: as plain data that can be compared."""
        base = self.base and {key: getattr(self.base, key) for key in ("name", "python", "requirements", "as_of")}
        asked = {"kind": type(self.rule).__name__.lower(), "rule": self.rule, "base": base}
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(asked))
        return plain


def read(path: Path, tables: Mapping[str, Any], today: dt.date) -> tuple[Placed, ...]:
    """The rules of the [generate] table of ``path``, bases apart; UserError in the words of the file."""
    found = []
    for kind, given in tables.items():
        if kind not in KINDS:
            raise wrong(path, f"has the unknown table [generate.{kind}]", did_you_mean(kind, KINDS))
        found += [_rule(path, place, KINDS[kind], table, today) for place, table in _tables(path, kind, given)]
    return tuple(found)


def based(path: Path, placed: Iterable[Placed], stacks: Sequence[Stack]) -> tuple[Placed, ...]:
    """``placed`` with their bases from ``stacks``: those that are typed, and the snapshots."""
    return tuple(_based(path, each, stacks) for each in placed)


def snapshots_of(placed: Iterable[Placed], today: dt.date) -> Iterator[tuple[str, Stack]]:
    """The stacks that need no index, each with the place of its rule."""
    for each in placed:
        if isinstance(each.rule, Snapshots):
            yield from ((each.place, stack) for stack in snapshots(each.rule, today))


def joined(path: Path, stacks: Sequence[Stack], generated: Iterable[tuple[str, Stack]]) -> tuple[Stack, ...]:
    """``stacks`` and then those ``generated`` (with the place of their rule) that are not among them.

    What is there already wins where it is the same stack; UserError where only the name is the same.
    """
    known = {stack.name.lower(): ("a [[stacks]] table", stack) for stack in stacks}
    for place, stack in generated:
        other, there = known.setdefault(stack.name.lower(), (place, stack))
        if _substance(there) != _substance(stack):
            cause = f"{other} gives another stack of that name; a prefix in {place} keeps them apart"
            raise wrong(path, f"gives the stack {stack.name!r} in {place}, and there is one of that name", cause)
    return tuple(stack for _, stack in known.values())


def _substance(stack: Stack) -> tuple[object, ...]:
    """What makes two stacks the same, whatever is said about them."""
    return stack.name, stack.python, stack.requirements, stack.as_of


def _tables(path: Path, kind: str, given: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each table of a kind with its place: ``[generate.kind]``, or ``[[generate.kind]]`` once for each."""
    several = isinstance(given, list)
    for number, table in enumerate(given if isinstance(given, list) else [given], start=1):
        place = f"[[generate.{kind}]] number {number}" if several else f"[generate.{kind}]"
        if not isinstance(table, dict):
            raise wrong(path, f"has no table in {place}", f"write the keys below [generate.{kind}]")
        yield place, table


def _rule(path: Path, place: str, kind: type[Rule], table: dict[str, Any], today: dt.date) -> Placed:
    try:
        rule = msgspec.convert(table, kind, builtin_types=(dt.date, dt.datetime))
    except msgspec.ValidationError as error:
        raise wrong(path, *_explained(place, kind, str(error))) from error
    if rule.prefix or not isinstance(rule, Releases):
        check_name(path, "prefix", rule.prefix)
    if isinstance(rule, Releases):
        _check_releases(path, place, rule, today)
        return Placed(place, rule)
    if rule.python is not None:
        check_python(path, place, rule.python)
    for text in rule.requirements:
        check_requirement(path, place, text)
    if isinstance(rule, Snapshots):
        _check_days(path, place, (rule.since, rule.until), today)
    return Placed(place, rule)


def _explained(place: str, kind: type[Rule], error: str) -> tuple[str, str]:
    """A complaint of msgspec about one table: what is wrong, and perhaps why."""
    message, _, where = error.partition(" - at `$")
    key = where.rstrip("`").lstrip(".").partition("[")[0]
    unknown = re.search(r"unknown field `(.*)`", message)
    if unknown:
        return f"has the unknown key {unknown[1]!r} in {place}", did_you_mean(unknown[1], kind.__struct_encode_fields__)
    missing = re.search(r"missing required field `(.*)`", message)
    if missing:
        return f"lacks the key {missing[1]!r} in {place}", ""
    hint = "write a date without quotes, such as 2024-12-31" if "date" in message else ""
    words = {"every": 'a period is "month" or "quarter"', "which": 'write "all" or "last-patch"'}
    return f"has a wrong value in {place}, key {key!r}: {message[0].lower()}{message[1:]}", words.get(key, hint)


def _check_releases(path: Path, place: str, rule: Releases, today: dt.date) -> None:
    check_requirement(path, place, rule.package)
    if canonicalize_name(rule.package) != names_of([rule.package])[0]:
        raise wrong(path, f"has package = {rule.package!r} in {place}", "a package's name, without a version")
    for key, text in (("from", rule.since), ("until", rule.until), *(("exactly", text) for text in rule.exactly)):
        _check_bound(path, place, key, text)
    bounds = [rule.since, rule.until]
    if all(isinstance(bound, str) for bound in bounds) and Version(rule.since) > Version(rule.until):
        raise wrong(path, f"has from = {rule.since!r} after until = {rule.until!r} in {place}")
    if not any(isinstance(bound, str) for bound in bounds):
        _check_days(path, place, (rule.since, rule.until), today)


def _check_bound(path: Path, place: str, key: str, bound: object) -> None:
    """UserError where ``bound`` is neither a version, nor a date, nor absent."""
    if bound is None or (isinstance(bound, dt.date) and not isinstance(bound, dt.datetime)):
        return
    if not isinstance(bound, str) or not _is_version(bound):
        cause = 'a version in quotes, such as "4.40", or a date without, such as 2024-12-31'
        raise wrong(path, f"has {key} = {str(bound)!r} in {place}, which is no release", cause)


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _check_days(path: Path, place: str, days: tuple[dt.date | None, dt.date | None], today: dt.date) -> None:
    since, until = days
    if since and until and since > until:
        raise wrong(path, f"has from = {since} after until = {until} in {place}")
    if since and since > today:
        raise wrong(path, f"has from = {since} in {place}, which lies in the future", "nobody knows those releases")


def _based(path: Path, placed: Placed, stacks: Sequence[Stack]) -> Placed:
    """``placed`` with its base; UserError where there is no such stack, or it does not ask for the package."""
    rule = placed.rule
    if not isinstance(rule, Releases):
        return placed
    base = next((stack for stack in stacks if stack.name == rule.base), None)
    if base is None:
        cause = did_you_mean(rule.base, [stack.name for stack in stacks]) if stacks else "there is no stack at all"
        raise wrong(path, f"has base = {rule.base!r} in {placed.place}, which is no stack", cause)
    if rule.name not in names_of(base.requirements):
        cause = f"its requirements are {', '.join(base.requirements)}"
        what = f"has package = {rule.package!r} in {placed.place}, which {base.name} does not ask for"
        raise wrong(path, what, cause)
    return Placed(placed.place, rule, base)
