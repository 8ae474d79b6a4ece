"""Reading the user's own source: what is computed from it stays small."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING

import packaging.version
import pytest

from gradmatrix.observe import source
from gradmatrix.observe.frames import shown
from gradmatrix.observe.observer import MessageWatch
from gradmatrix.observe.torches import used_up

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-5", -5),
        ("2 * 1e-3", 0.002),
        ("10**-4", 0.0001),
        ("1 / 0", None),
        ("9**9**9", None),
        ("1 << 40000", None),
        ("'a' * 10**9", None),
        ("rate * 2", None),
    ],
)
def test_the_value_of_constants_is_computed_and_never_a_huge_one(text: str, value: object) -> None:
    """What would fill the memory, or take for ever, has no value; neither has a name."""
    assert value == source.value_of(ast.parse(text, mode="eval").body)


def test_to_read_a_file_gives_no_warning_of_the_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python warned about it when it compiled the script."""
    (tmp_path / "train.py").write_text('digits = "\\d"\n', encoding="utf-8")
    messages = MessageWatch()
    undo = messages.install()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            read = source.nodes(str(tmp_path / "train.py"))
    finally:
        undo()
    assert ("\\d", [], "") == (read[-1][0].value, messages.facts(), capsys.readouterr().err)


def test_nodes_come_in_the_order_of_the_text_also_if_an_expression_is_deep(tmp_path: Path) -> None:
    """Each knows the innermost function around it."""
    path = tmp_path / "train.py"
    path.write_text(
        f"x = {' + '.join(['a'] * 900)}\ndef outer():\n    def inner():\n        y\n    z\n",
        encoding="utf-8",
    )
    names = [(each.id, inside) for each, inside in source.nodes(str(path)) if hasattr(each, "id")]
    assert [("x", "<module>"), ("a", "<module>")] == names[:2]
    assert [("y", "inner"), ("z", "outer")] == names[-2:]


class Endless:
    """An iterator that leads to itself."""

    def __init__(self) -> None:
        self.inner: Iterator[int] = self

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        raise StopIteration


def test_the_names_in_a_line_of_a_library_are_read() -> None:
    """The line is looked up by the short path of a frame."""
    line = packaging.version.parse.__code__.co_firstlineno
    at = {"file": shown(packaging.version.__file__), "line": line}
    assert {"parse", "version", "str"} <= source.words_at(at)
    assert source.words_at({"file": "no/such/module.py", "line": 1}) == set()


def test_an_iterator_is_followed_to_what_it_goes_through() -> None:
    """One that leads to itself has an end as well."""
    numbers = (each for each in [1])
    both = map(abs, filter(None, numbers))
    assert not used_up(both)
    assert [1] == list(both)
    assert used_up(both)
    assert used_up([{"params": numbers}])
    assert not used_up(Endless())
