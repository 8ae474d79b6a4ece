"""The blocks of README that are written from the records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradmatrix.publish.formats import write_block

if TYPE_CHECKING:
    from pathlib import Path

MARKS = "<!-- table: written by gradmatrix, do not edit -->{}<!-- end of table -->"


def test_a_block_is_replaced_between_its_marks(tmp_path: Path) -> None:
    """The text around it stays. Backslashes in the new text have no meaning."""
    readme = tmp_path / "README.md"
    readme.write_text("before\n" + MARKS.format("\nold\n") + "\nafter\n", encoding="utf-8")
    write_block(readme, "table", r"new \1 \g<0>")
    new = MARKS.format("\n\nnew \\1 \\g<0>\n\n")
    assert f"before\n{new}\nafter\n" == readme.read_text(encoding="utf-8")


def test_a_readme_without_marks_is_left_alone(tmp_path: Path) -> None:
    """A missing README is not created."""
    readme = tmp_path / "README.md"
    write_block(readme, "table", "new")
    there = readme.exists()
    readme.write_text("ours\n", encoding="utf-8")
    write_block(readme, "table", "new")
    assert (False, "ours\n") == (there, readme.read_text(encoding="utf-8"))
