"""A digest of what code means: what changes it, and what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gradmatrix.run.meaning import digest, digest_of_file

if TYPE_CHECKING:
    from pathlib import Path

CELL = """
import os
import torch
from . import words
from .words import LIMIT, said

def run(request):
    local = request["x"] + LIMIT
    return said(local), words.quiet(torch.zeros(1)), os.path.sep
"""
WORDS = """
LIMIT = 3

def said(value: int) -> int:
    return value * 2

def quiet(value):
    return Told(value).value

class Told:
    value: int = 0

def unused():
    return 1
"""


def written(folder: Path, **modules: str) -> Path:
    """A package of these modules."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.py"):
        old.unlink()
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    return folder


def of(folder: Path, **modules: str) -> str:
    """The digest of what ``cell.run`` does."""
    return digest("package", written(folder, **modules), [("cell", "run")])


SAME = {
    "a comment": (CELL, "# why\n" + WORDS),
    "a docstring": (
        CELL,
        WORDS.replace("    return value * 2", '    """Twice."""\n    return value * 2'),
    ),
    "an annotation": (
        CELL,
        WORDS.replace("-> int", "-> float").replace("LIMIT = 3", "LIMIT: int = 3"),
    ),
    "the order of imports": (
        CELL.replace("import os\nimport torch", "import torch\nimport os"),
        WORDS,
    ),
    "how an import is written": (
        CELL.replace("from .words import LIMIT, said", "")
        .replace("LIMIT", "words.LIMIT")
        .replace("said", "words.said"),
        WORDS,
    ),
    "an import in a function": (
        CELL.replace("from . import words\n", "").replace(
            "    local =", "    from . import words\n    local ="
        ),
        WORDS,
    ),
    "the order of definitions": (CELL, WORDS.replace("LIMIT = 3\n", "") + "\nLIMIT = 3\n"),
    "what no cell uses": (CELL, WORDS.replace("return 1", "return 2")),
    "how it is started": (CELL + '\nif __name__ == "__main__":\n    run({})\n', WORDS),
    "layout": (CELL, WORDS.replace("value * 2", "(value\n            * 2)")),
}
OTHER = {
    "an operator": (CELL, WORDS.replace("value * 2", "value + 2")),
    "a constant": (CELL, WORDS.replace("LIMIT = 3", "LIMIT = 4")),
    "a field of a class": (CELL, WORDS.replace("value: int = 0", "value: float = 0")),
    "another function of the same shape": (CELL.replace("words.quiet", "words.unused"), WORDS),
    "an attribute": (CELL.replace("os.path.sep", "os.path.pathsep"), WORDS),
    "what a module does when it is imported": (CELL, WORDS + "\nprint(LIMIT)\n"),
    "a constant behind two others": (
        CELL,
        WORDS.replace("LIMIT = 3", "LIMIT = MORE\nMORE = 1 + LESS\nLESS = 5"),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_what_does_the_same_has_the_same_digest(tmp_path: Path, name: str) -> None:
    """The code may have other words and other files."""
    cell, words = SAME[name]
    assert of(tmp_path, cell=CELL, words=WORDS) == of(tmp_path, cell=cell, words=words)


@pytest.mark.parametrize("name", OTHER)
def test_what_does_something_else_has_another_digest(tmp_path: Path, name: str) -> None:
    """The difference may be small."""
    cell, words = OTHER[name]
    assert of(tmp_path, cell=CELL, words=WORDS) != of(tmp_path, cell=cell, words=words)


def test_a_moved_definition_has_the_same_digest(tmp_path: Path) -> None:
    """Two files become one, and a third gets another name."""
    merged = (
        CELL.replace("from . import words\nfrom .words import LIMIT, said", "").replace(
            "words.", ""
        )
        + WORDS
    )
    assert of(tmp_path, cell=CELL, words=WORDS) == of(tmp_path, cell=merged)
    renamed = CELL.replace("from . import words", "from . import terms as words").replace(
        "from .words", "from .terms"
    )
    assert of(tmp_path, cell=CELL, words=WORDS) == of(tmp_path, cell=renamed, terms=WORDS)


def test_a_constant_far_away_counts(tmp_path: Path) -> None:
    """It counts if it is reached, through any number of definitions."""
    chain = WORDS.replace("LIMIT = 3", "LIMIT = A\nA = B\nB = C\nC = 1")
    assert of(tmp_path, cell=CELL, words=chain) != of(
        tmp_path, cell=CELL, words=chain.replace("C = 1", "C = 2")
    )


def test_a_local_variable_hides_what_has_its_name(tmp_path: Path) -> None:
    """An argument does not refer to the constant with the same name."""
    own = CELL.replace("def run(request):", "def run(request, LIMIT=1):")
    assert of(tmp_path, cell=own, words=WORDS) == of(
        tmp_path, cell=own, words=WORDS.replace("LIMIT = 3", "LIMIT = 4")
    )


def test_what_is_left_out_may_change(tmp_path: Path) -> None:
    """It does not count, nor what only it needs; what else refers to it is as before."""
    timed = CELL + "\n\ndef measure():\n    return DIGITS\n\nDIGITS = 3\n"
    timed = timed.replace("def run(request):", "def run(request):\n    measure()", 1)
    folder = written(tmp_path / "a", cell=timed, words=WORDS)
    changed = timed.replace("DIGITS = 3", "DIGITS = 4")
    other = written(tmp_path / "b", cell=changed, words=WORDS)
    roots, without = [("cell", "run")], [("cell", "measure")]
    assert digest("package", folder, roots) != digest("package", other, roots)
    assert digest("package", folder, roots, without) == digest("package", other, roots, without)
    with pytest.raises(ValueError, match="has no definition of 'rest'"):
        digest("package", folder, roots, [("cell", "rest")])


def test_a_definition_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """A root that was renamed must not give the digest of nothing."""
    with pytest.raises(ValueError, match="has no definition of 'walk'"):
        digest("package", written(tmp_path, cell=CELL, words=WORDS), [("cell", "walk")])


SCRIPT = """
NEEDS = ("torch",)

def train(variant):
    return variant
"""


def test_a_file_without_what_is_read_from_outside() -> None:
    """Such a name counts only if the file itself uses it."""
    without = frozenset({"NEEDS"})
    digests = {
        digest_of_file(SCRIPT.replace("torch", name).encode(), without) for name in ("torch", "trl")
    }
    used = SCRIPT.replace("return variant", "return variant, NEEDS")
    others = {
        digest_of_file(used.replace("torch", name).encode(), without) for name in ("torch", "trl")
    }
    assert (1, 2) == (len(digests), len(others))
