"""List the packages of an environment as JSON. This file runs in the environment as a script.

It needs the standard library of Python 3.9 alone. The host imports ``contents_digest`` from it.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import json
import sys

OF_THE_INSTALLER = (
    "INSTALLER",
    "REQUESTED",
    "RECORD",
    "direct_url.json",
    "uv_cache.json",
    "uv_build.json",
)
"""Files that an installer writes beside a package's own."""


def contents_digest(record: str) -> str:
    """A digest of a package's files, from the text of its RECORD; empty without hashes.

    Compiled files, scripts, and what an installer writes are no part of it.
    """
    files = sorted(
        (row[0], row[1])
        for row in csv.reader(record.splitlines())
        if len(row) > 1
        and row[1]
        and not row[0].startswith(("..", "/"))
        and not row[0].endswith(".pyc")
        and row[0].rpartition("/")[2] not in OF_THE_INSTALLER
    )
    return hashlib.sha256(repr(files).encode()).hexdigest() if files else ""


def origin(distribution: importlib.metadata.Distribution) -> str | None:
    """Where a package came from, as JSON (PEP 610); None for the index, or for conda.

    conda notes the folder in which it built a release.
    """
    is_conda = (distribution.read_text("INSTALLER") or "").strip() == "conda"
    return None if is_conda else distribution.read_text("direct_url.json")


def main() -> None:
    """Print what is installed."""
    found = [
        {
            "name": each.metadata["Name"],
            "version": each.version,
            "needs": each.requires or [],
            "origin": origin(each),
            "files": contents_digest(each.read_text("RECORD") or ""),
        }
        for each in importlib.metadata.distributions()
        if each.metadata and each.metadata["Name"] and each.version
    ]
    python = ".".join(map(str, sys.version_info[:2]))
    sys.stdout.write(json.dumps({"python": python, "distributions": found}) + "\n")


if __name__ == "__main__":
    main()
