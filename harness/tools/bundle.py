"""Puts the published matrix into a wheel: ``gradmatrix/bundle.zip``."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    from collections.abc import Iterable

CARRIED = (
    "matrix.toml", "scenarios/*.py", "scenarios/*.toml",
    "results/locks/*", "results/records/*.jsonl", "results/history/*",
)  # fmt: skip
RECORDED_AT = re.compile(rb'"recorded_at":"([^"]+)"')
LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The date of every file: the same matrix gives the same bundle."""


class Bundled(BuildHookInterface[Any]):
    """Adds the bundle to a wheel that is no link to a checkout."""

    PLUGIN_NAME = "bundle"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the file, and add it."""
        if version == "editable":
            return
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "bundle.zip"
        write(Path(self.root), path)
        build_data["force_include"][str(path)] = "gradmatrix/bundle.zip"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the file."""
        del build_data, artifact_path
        if version != "editable":
            self.folder.cleanup()


def write(root: Path, path: Path) -> None:
    """Write the bundle of the checkout ``root`` to ``path``."""
    contents = {each: (root / each).read_bytes() for each in sorted(carried(root))}
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    dates = [found for content in contents.values() for found in RECORDED_AT.findall(content)]
    description = {
        "schema": 1,
        "published": max(dates, default=b"1980-01-01T00:00:00Z").decode(),
        "digest": digest.hexdigest(),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {"bundle.json": json.dumps(description).encode(), **contents}.items():
            archive.writestr(zipfile.ZipInfo(name, LONG_AGO), content, zipfile.ZIP_DEFLATED)


def carried(root: Path) -> Iterable[str]:
    """The files that go into the bundle, relative to ``root``."""
    return [
        path.relative_to(root).as_posix()
        for pattern in CARRIED
        for path in root.glob(pattern)
        if path.is_file()
    ]
