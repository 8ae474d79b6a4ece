"""Puts the published matrix into one file, ``bundle.zip``: for a wheel, and for the web.

``python -m tools.bundle FOLDER`` writes it for the web, with the checksum that ``gradmatrix
update`` compares.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "bundle.zip"
DESCRIPTION = "bundle.json"
CARRIED = (
    "matrix.toml", "scenarios/*.py", "scenarios/*.toml",
    "results/locks/*", "results/records/*.jsonl", "results/confirmed/*.json",
    "results/history/**/*.jsonl",
)  # fmt: skip
RAN_AT = re.compile(rb'"(?:recorded_at":|at": )"([^"]+)"')
"""When a cell ran: in a record, or in a file of results/confirmed/."""
LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The date of every file: the same matrix gives the same bundle."""


def get_build_hook() -> type[BuildHookInterface[Any]]:
    """The hook that hatchling asks for. It is installed only where a wheel is built."""
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface  # noqa: PLC0415

    class Bundled(BuildHookInterface[Any]):
        """Adds the bundle to a wheel that is no link to a checkout."""

        PLUGIN_NAME = "bundle"

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Make the file, and add it."""
            if version == "editable":
                return
            self.folder = tempfile.TemporaryDirectory()
            path = Path(self.folder.name) / NAME
            write(Path(self.root), path)
            build_data["force_include"][str(path)] = f"gradmatrix/{NAME}"

        def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
            """Remove the file."""
            del build_data, artifact_path
            if version != "editable":
                self.folder.cleanup()

    return Bundled


def write(root: Path, path: Path) -> dict[str, object]:
    """Write the bundle of the checkout ``root`` to ``path``; return its description."""
    contents = {each: (root / each).read_bytes() for each in sorted(carried(root))}
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    dates = [found for content in contents.values() for found in RAN_AT.findall(content)]
    description: dict[str, object] = {
        "schema": 1,
        "published": max(dates, default=b"1980-01-01T00:00:00Z").decode(),
        "digest": digest.hexdigest(),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {DESCRIPTION: json.dumps(description).encode(), **contents}.items():
            archive.writestr(zipfile.ZipInfo(name, LONG_AGO), content, zipfile.ZIP_DEFLATED)
    return description


def write_for_the_web(root: Path, folder: Path) -> None:
    """Write the bundle of ``root`` into ``folder``, and its description with its checksum."""
    folder.mkdir(parents=True, exist_ok=True)
    description = write(root, folder / NAME)
    content = (folder / NAME).read_bytes()
    description |= {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
    (folder / DESCRIPTION).write_text(json.dumps(description), encoding="utf-8")


def carried(root: Path) -> Iterable[str]:
    """The files that go into the bundle, relative to ``root``."""
    return [
        path.relative_to(root).as_posix()
        for pattern in CARRIED
        for path in root.glob(pattern)
        if path.is_file()
    ]


if __name__ == "__main__":
    write_for_the_web(Path.cwd(), Path(sys.argv[1]))
