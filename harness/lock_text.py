"""A lock's requirements text, taken apart: its entries, which of them come from an address, and at which version."""

from __future__ import annotations

import importlib.metadata
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from harness import uv
from harness.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def blocks(text: str) -> Iterator[str]:
    """The entries of a requirements text: a line that begins at the margin, and its indented hashes."""
    for block in re.split(r"^(?=\S)", text, flags=re.MULTILINE):
        if block.strip() and not block.startswith(("#", "-")):
            yield block


def requirement_of(block: str) -> Requirement:
    """The requirement of an entry, without its hashes."""
    return Requirement(block.splitlines()[0].rstrip("\\ "))


def without(text: str, dropped: Callable[[str], bool]) -> str:
    """The requirements ``text`` of a lock without the packages whose name is ``dropped``."""
    return "".join(block for block in blocks(text) if not dropped(requirement_of(block).name))


def hashless(text: str) -> list[str]:
    """Names of the packages in a lock's text that have no hash: those of a VCS, whose commit stands in its place."""
    return [requirement_of(block).name for block in blocks(text) if "--hash" not in block]


def by_address(text: str) -> list[str]:
    """Canonical names of the packages in a lock's text that come from an address and not from the index."""
    return [canonicalize_name(each.name) for each in map(requirement_of, blocks(text)) if each.url]


def version_of(block: str, requirement: Requirement, python: str) -> str:
    """The version of an entry; one from an address is that of the wheel, or what uv builds of the source."""
    if requirement.url is None:
        return next(iter(requirement.specifier)).version
    address = unquote(requirement.url.partition("#")[0])
    if address.endswith(".whl"):
        return str(parse_wheel_filename(address.rpartition("/")[2])[1])
    with tempfile.TemporaryDirectory() as scratch:
        listed, target = Path(scratch) / "source.txt", Path(scratch) / "built"
        listed.write_text(block, encoding="utf-8")
        ran = uv.run(
            [
                "pip", "install", "--no-deps", "--target", str(target), "--python-version", python,
                "--requirements", str(listed),
            ],
            variables={"UV_DEFAULT_INDEX": uv.index_url()},
        )  # fmt: skip
        built = [each.version for each in importlib.metadata.distributions(path=[str(target)])]
    if not built:
        raise UserError(
            f"{requirement.name} cannot be built.",
            cause=uv.summary(ran.stderr) or "uv gave no reason",
            next_step="see that the project at that address can be built",
        )
    return built[0]
