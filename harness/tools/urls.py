"""The addresses in the metadata of a package that is built in a clone: ``[project.urls]``.

No file of the repository has its address. git knows it, and so does GitHub in a workflow.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

FILES = {"github.com": "blob/HEAD", "gitlab.com": "-/blob/HEAD", "codeberg.org": "src/branch/main"}
"""The public forges, and the part of an address that leads to a repository's files."""
ADDRESS = re.compile(
    r"(?:(?:https?|ssh)://)?(?:[^/]*@)?"
    rf"(?P<forge>{'|'.join(FILES)})(?:/|:(?!\d+/))"
    r"(?P<name>\w[\w.-]*(?:/[\w.-]+?)+?)(?:\.git)?/?"
)
"""The address of a repository, as git writes it."""


class Urls(MetadataHookInterface):
    """Adds the addresses in a clone. An sdist has them already."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add ``urls`` to the table ``project``, if the repository is on a public forge."""
        found = repository(self.root)
        if found is None:
            return
        home = f"https://{found['forge']}/{found['name']}"
        files = f"{home}/{FILES[found['forge']]}"
        owner, name = found["name"].split("/", 1)
        pages = f"https://{owner.lower()}.github.io/{name}/"  # where the nightly run publishes
        metadata["urls"] = {
            "Source": home,
            "Documentation": f"{files}/docs/index.md",
            "Changelog": f"{files}/CHANGELOG.md",
            "Issues": f"{home}/issues",
            **({"Matrix": pages} if found["forge"] == "github.com" else {}),
        }


def repository(root: str) -> re.Match[str] | None:
    """The forge and the name of the repository that ``root`` is a clone of; None if not known."""
    if not (Path(root) / ".git").exists() or shutil.which("git") is None:
        return None
    asked = ["git", "-C", root, "config", "remote.origin.url"]
    origin = subprocess.run(asked, check=False, capture_output=True, text=True).stdout.strip()
    in_a_workflow = f"https://github.com/{os.environ.get('GITHUB_REPOSITORY')}"
    return ADDRESS.fullmatch(origin) or ADDRESS.fullmatch(in_a_workflow)
