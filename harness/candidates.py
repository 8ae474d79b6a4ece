"""What ``--to`` names: another side, the newest of everything, or packages at other versions, wheels and sources."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from harness import sides, uv, wishes
from harness.errors import UserError, did_you_mean, without_credentials
from harness.wishes import LATEST, Wish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.given import Given
    from harness.project import Project
    from harness.sides import Reading


@dataclass(frozen=True)
class Asked:
    """What the words after ``--to`` mean together."""

    side: Given | None = None
    """Another side altogether."""
    wishes: tuple[Wish, ...] = ()
    latest: bool = False
    """Everything that the baseline asks for, at its newest."""


def asked(words: Sequence[str], baseline: Given, project: Project, reading: Reading, *, dated: bool) -> Asked:
    """What ``words`` mean for a baseline; ``dated`` where another day than a stack's own was asked for."""
    found: list[Wish] = []
    latest = False
    for word in words:
        if word == LATEST:
            stack = latest_stack(baseline, project)
            if stack is not None and len(words) == 1 and not dated:
                return Asked(side=sides.of_stack(project.matrix.stack(stack), project))
            latest = True
        elif is_side(word, project):
            if len(words) > 1:
                raise UserError(
                    f"--to {word} is a whole side, and stands beside others.",
                    cause="a second stack, lock, file or environment is the candidate by itself",
                    next_step=f"give --to {word} alone",
                )
            return Asked(side=sides.side(word, project, reading))
        else:
            found.append(wish(word, baseline, project))
    check_once(found)
    return Asked(wishes=tuple(found), latest=latest)


def latest_stack(baseline: Given, project: Project) -> str | None:
    """The matrix's stack ``latest`` where it asks for what the baseline asks for, without versions, on one Python.

    It is what the word means for such a baseline, and its cells may be recorded.
    """
    stack = next((each for each in project.matrix.stacks if each.name == LATEST), None)
    if stack is None or stack.python != baseline.python or baseline.constraints:
        return None
    same = sorted(wishes.applied(baseline.asked, (), latest=True)) == sorted(stack.requirements)
    return stack.name if same else None


def is_side(word: str, project: Project) -> bool:
    """Whether a word names a side and no package: a stack, or a path that is there and is no wheel."""
    if word in {stack.name for stack in project.matrix.stacks}:
        return True
    path = sides.path_of(word)
    if path.suffix == ".whl" or wishes.VCS.match(word) or " @ " in word:
        return False
    return path.exists() and (sides.looks_like_a_path(word) or path.is_file())


def wish(word: str, baseline: Given, project: Project) -> Wish:
    """The package that a word is about: a wheel file, a VCS address, or a requirement."""
    if word.endswith(".whl") and "://" not in word:
        return of_wheel(word, baseline.python)
    if wishes.VCS.match(word):
        return of_source(word, baseline.python)
    try:
        found = wishes.wish(word)
        return replace(found, text=without_credentials(word))
    except UserError as error:
        if sides.looks_like_a_path(word):
            raise UserError(
                f"There is no file or folder {without_credentials(word)!r}.",
                cause=sides.meant(word, [], sides.path_of(word)),
                next_step="name a file that is there, or a requirement such as --to transformers==5.0.0",
            ) from error
        single = re.fullmatch(r"([\w.-]+(?:\[.*\])?)=([^=].*)", word)
        stacks = did_you_mean(word, [each.name for each in project.matrix.stacks])
        error.cause = f"a version is written {single[1]}=={single[2]}" if single else f"{error.cause}; {stacks}"
        raise


def of_wheel(word: str, python: str) -> Wish:
    """The package in a wheel file that can be installed here; UserError where it cannot."""
    path = sides.path_of(word).absolute()
    if not path.is_file():
        raise UserError(
            f"There is no wheel {word!r}.",
            cause=sides.meant(word, [], sides.path_of(word)),
            next_step="name a wheel that is there: python -m build --wheel makes one",
        )
    try:
        name, version, _, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise UserError(
            f"{path.name} is no wheel's name.",
            cause=str(error),
            next_step="keep the name under which it was built, such as name-1.0-py3-none-any.whl",
        ) from error
    major, minor = map(int, python.split("."))
    fitting = {*cpython_tags((major, minor)), *compatible_tags((major, minor), f"cp{major}{minor}")}
    if not tags & fitting:
        raise UserError(
            f"{path.name} cannot be installed here.",
            cause=f"it is for {', '.join(sorted(map(str, tags)))}; here is Python {python} on {sys.platform}",
            next_step="build it on this platform, for this Python",
        )
    return Wish(f"{name}=={version} ({path.name})", str(name), f"{name} @ {path.as_uri()}")


def of_source(word: str, python: str) -> Wish:
    """The package at a VCS address; uv fetches it to tell its name."""
    ran = uv.run(
        ["pip", "compile", "-", "--quiet", "--no-deps", "--no-header", "--no-annotate", "--python-version", python],
        stdin=word,
        variables={"UV_DEFAULT_INDEX": uv.index_url()},
    )
    lines = [line for line in ran.stdout.splitlines() if " @ " in line]
    try:
        parsed = Requirement(lines[0])
    except (IndexError, InvalidRequirement) as error:
        raise UserError(
            f"--to {without_credentials(word)} cannot be had.",
            cause=uv.summary(ran.stderr) or "uv found no package there",
            next_step="see that the address is right, that this machine reaches it, and that the project builds",
        ) from error
    return Wish(without_credentials(word), canonicalize_name(parsed.name), str(parsed))


def check_once(found: Sequence[Wish]) -> None:
    """UserError where one package is asked for twice."""
    seen: dict[str, Wish] = {}
    for each in found:
        if each.name in seen:
            raise UserError(
                f"{each.name} is asked for twice.",
                cause=f"--to {seen[each.name].text} and --to {each.text}",
                next_step="leave one of them out, or write both bounds into one: --to 'name>=1,<2'",
            )
        seen[each.name] = each
