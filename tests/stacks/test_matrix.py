"""matrix.toml → validated model."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Steps
from gradmatrix.stacks import config

TODAY = dt.date(2026, 1, 31)
SCENARIOS = ("frozen_parameters", "t5_classifier")
RUN = """
[run]
devices = ["cpu"]
scenarios = ["t5_classifier"]
"""
STACK = """
[[stacks]]
name = "old"
python = "3.11"
as_of = 2025-03-31
requirements = ["torch==2.6.0", "trl"]
"""


def load(folder: Path, text: str) -> config.Matrix:
    """The matrix of ``text``."""
    path = folder / "matrix.toml"
    path.write_text(text, encoding="utf-8")
    return config.load(path, SCENARIOS, TODAY)


def complaint(folder: Path, text: str) -> str:
    """What a user reads about ``text``."""
    with pytest.raises(UserError) as raised:
        load(folder, text)
    return str(raised.value)


def test_the_projects_own_matrix_is_valid() -> None:
    """The published matrix.toml reads, and its core stacks are three."""
    root = Path(__file__).parent.parent.parent
    names = [path.stem for path in (root / "scenarios").glob("*.py")]
    loaded = config.load(root / "matrix.toml", names)
    assert [stack.name for stack in loaded.core] == [
        "lightning-2.0.3",
        "transformers-4.57-torch-2.13",
        "torch-2.13",
    ]


def test_every_stack_of_ours_pins_both_lightnings_alike() -> None:
    """Pulled in by lightning, pytorch-lightning is not pinned: each stack asks for the same version of both."""
    root = Path(__file__).parent.parent.parent
    names = [path.stem for path in (root / "scenarios").glob("*.py")]
    for stack in config.load(root / "matrix.toml", names).stacks:
        asked = {text for text in stack.requirements if text.startswith("lightning")}
        assert {f"pytorch-{text}" for text in asked} <= set(stack.requirements), stack.name


def test_a_stack_is_read_with_its_date(tmp_path: Path) -> None:
    """A TOML date becomes a date, requirements keep their order."""
    stack = load(tmp_path, RUN + STACK).stack("old")
    assert (stack.as_of, stack.requirements, stack.core) == (
        dt.date(2025, 3, 31),
        ("torch==2.6.0", "trl"),
        False,
    )


def test_today_stays_a_word(tmp_path: Path) -> None:
    """The word "today" is resolved when the stack is locked, not when the file is read."""
    assert (
        load(tmp_path, RUN + STACK.replace("2025-03-31", '"today"')).stack("old").as_of == "today"
    )


def test_steps_have_defaults(tmp_path: Path) -> None:
    """The [steps] table may be left out."""
    assert load(tmp_path, RUN + STACK).steps == Steps()


def test_an_unknown_stack_gets_a_suggestion(tmp_path: Path) -> None:
    """A mistyped stack name is answered with the nearest one."""
    with pytest.raises(UserError, match="perhaps you meant 'old'"):
        load(tmp_path, RUN + STACK).stack("olt")


def test_a_missing_file_says_where_to_run(tmp_path: Path) -> None:
    """No matrix.toml: told to run in the root of the project."""
    with pytest.raises(UserError, match=r"no file matrix\.toml"):
        config.load(tmp_path / "matrix.toml", SCENARIOS, TODAY)


def test_a_syntax_error_names_its_line(tmp_path: Path) -> None:
    """TOML that cannot be read: file and line."""
    assert "at line 2," in complaint(tmp_path, "[run]\ndevices == 1\n")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("devices", "device", ["unknown key 'device' in [run]", "perhaps you meant 'devices'"]),
        (
            "python =",
            "pyhton =",
            ["unknown key 'pyhton' in stack 'old'", "perhaps you meant 'python'"],
        ),
        ('name = "old"\n', "", ["lacks the key 'name' in stack number 1"]),
        ('["cpu"]', '["cuda:0"]', ["unknown device 'cuda:0'", "perhaps you meant 'cuda'"]),
        ('["cpu"]', '"cpu"', ["in [run], key 'devices'", "expected `array`"]),
        ('["cpu"]', "[]", ["names no device"]),
        (
            '["t5_classifier"]',
            '["t5_clasifier"]',
            ["unknown scenario 't5_clasifier'", "perhaps you meant 't5_classifier'"],
        ),
        ('"3.11"', '"3.11.4"', ['write it like "3.11"']),
        ('"3.11"', "3.11", ["in stack 'old', key 'python'", "expected `str`"]),
        ("2025-03-31", '"2025-03-31"', ["is no date", "without quotes"]),
        ("2025-03-31", "2026-02-01", ["lies in the future", 'as_of = "today"']),
        ("2025-03-31", "2025-03-31T10:00:00", ["is no date"]),
        ('"trl"', '"trl=>1"', ["unreadable requirement 'trl=>1' in stack 'old'"]),
        ('"trl"', '"trl @ file:///x.whl"', ["which is a URL"]),
        ('["torch==2.6.0", "trl"]', "[]", ["in stack 'old', key 'requirements'"]),
        ('"old"', '"../old"', ["unsafe", "file name"]),
        ("[run]", "[run]\nthreads = 0", ["in [run], key 'threads'", ">= 1"]),
        ("[run]", "[runs]", ["unknown key 'runs'", "perhaps you meant 'run'"]),
    ],
)
def test_what_is_wrong_is_told_in_the_words_of_the_file(
    tmp_path: Path, old: str, new: str, expected: list[str]
) -> None:
    """Each mistake names the table, the key and what was expected."""
    told = complaint(tmp_path, (RUN + STACK).replace(old, new, 1))
    assert [text for text in expected if text not in told] == [], told


def test_stack_names_that_differ_in_case_only_are_refused(tmp_path: Path) -> None:
    """Two stacks would share a file on some file systems."""
    assert "two stacks called 'OLD'" in complaint(
        tmp_path, RUN + STACK + STACK.replace('"old"', '"OLD"')
    )


def test_an_unknown_key_of_the_second_stack_is_told_by_its_name(tmp_path: Path) -> None:
    """The place is the stack's name, not a number."""
    second = STACK.replace('"old"', '"new"') + "cor = true\n"
    assert "unknown key 'cor' in stack 'new'" in complaint(tmp_path, RUN + STACK + second)
