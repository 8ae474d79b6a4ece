"""``[project.urls]`` of a build. No file names the repository, but a clone knows it."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

FILES = {"github.com": "blob/HEAD", "gitlab.com": "-/blob/HEAD", "codeberg.org": "src/branch/main"}
FORGE = rf"(?:(?:https?|ssh)://)?(?:[^/]*@)?({'|'.join(FILES)})(?:/|:(?!\d+/))"
ADDRESS = re.compile(rf"{FORGE}(\w[\w.-]*(?:/[\w.-]+?)+?)(?:\.git)?/?")


class Urls(MetadataHookInterface):
    """Adds the addresses in a clone. An sdist has them already."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add ``urls`` to the table ``project``, if the repository is on a public forge."""
        if (Path(self.root) / ".git").exists() and shutil.which("git"):
            origin = ["git", "-C", self.root, "config", "remote.origin.url"]
            address = subprocess.run(origin, check=False, capture_output=True, text=True).stdout
            on_github = f"https://github.com/{os.environ.get('GITHUB_REPOSITORY')}"
            if found := ADDRESS.fullmatch(address.strip()) or ADDRESS.fullmatch(on_github):
                home, paths = f"https://{found[1]}/{found[2]}", ("docs/index", "CHANGELOG")
                docs, changelog = (f"{home}/{FILES[found[1]]}/{path}.md" for path in paths)
                urls = {"Source": home, "Documentation": docs, "Changelog": changelog}
                metadata["urls"] = urls | {"Issues": f"{home}/issues"}
