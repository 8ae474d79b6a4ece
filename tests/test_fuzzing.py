"""Reading any file gives a value, or one error for users: never a traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fuzzing import TARGETS, Target, fuzz, odd_places

if TYPE_CHECKING:
    from pathlib import Path

each_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
EXAMPLES = 25
"""For the quick tests; ``nox -s faults -- --fuzz MINUTES`` tries as many as there is time for."""


@each_target
def test_a_valid_file_is_read(tmp_path: Path, target: Target) -> None:
    """What the fuzzers start from has a value."""
    for number, content in enumerate(target.valid):
        path = target.put(tmp_path / str(number))
        path.write_bytes(content)
        target.read(path)


@each_target
def test_a_changed_file_is_a_value_or_a_sentence(target: Target) -> None:
    """A few changes, the same ones each time."""
    fuzz(target, EXAMPLES, seed=0)


@each_target
def test_no_file_is_a_value_or_a_sentence(tmp_path: Path, target: Target) -> None:
    """Nothing there, an empty file, a folder, a link that leads to itself."""
    for path in odd_places(tmp_path, target):
        target.examine_at(path)
