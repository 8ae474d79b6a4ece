"""What is kept of the metadata of installed packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradmatrix.stacks import metadata

if TYPE_CHECKING:
    from pathlib import Path

HEADERS = """\
Metadata-Version: 2.1
Name: Some_Package
Version: {version}
Project-URL: Documentation, https://example.org/docs
Project-URL: Release notes, https://example.org/notes
Requires-Python: >=3.9
Requires-Dist: torch>={torch}
Requires-Dist: pytest ; extra == "test"
"""


def installed(root: Path, version: str, torch: str) -> Path:
    """An environment with one package."""
    place = root / version / "lib" / "python3.11" / "site-packages"
    folder = place / f"Some_Package-{version}.dist-info"
    folder.mkdir(parents=True)
    headers = HEADERS.format(version=version, torch=torch)
    (folder / "METADATA").write_text(f"{headers}\nRequires-Dist: no header, but the text\n")
    return root / version


def test_it_outlives_the_environment(tmp_path: Path) -> None:
    """What is required otherwise, and the addresses that say what changed."""
    kept = tmp_path / "kept"
    for version, torch in (("1.0", "2.0"), ("1.1", "2.2")):
        metadata.keep(installed(tmp_path, version, torch), kept)
    old, new = (metadata.read(kept, "some-package", each) for each in ("1.0", "1.1"))
    assert old is not None
    assert new is not None
    told = metadata.differing(old, new)
    assert ("no longer requires torch>=2.0", "requires torch>=2.2") == told
    assert () == metadata.differing(old, new, lambda name: name == "torch")
    assert (("Release notes", "https://example.org/notes"),) == metadata.links(new)


def test_of_a_release_that_was_never_installed_there_is_none(tmp_path: Path) -> None:
    """It is no error."""
    assert metadata.read(tmp_path, "some-package", "1.0") is None
