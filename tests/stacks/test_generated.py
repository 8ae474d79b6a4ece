"""The committed file of generated stacks. If it does not fit the rules, ``refresh`` must run."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from gradmatrix.core.errors import UserError
from gradmatrix.run.project import Project
from gradmatrix.stacks import generated
from gradmatrix.stacks.generated import COMMAND
from tests.cli.test_cli import SUMS
from tests.stacks.test_config import load as load_matrix
from tests.stacks.test_generate import RELEASES, TODAY
from tests.stacks.test_index import release

if TYPE_CHECKING:
    from pathlib import Path

    from gradmatrix.stacks.config import Matrix

STACK = """
[[stacks]]
name = "base"
python = "3.11"
as_of = 2025-03-31
requirements = ["torch", "transformers"]
"""
RULE = '[generate.releases]\npackage = "transformers"\nbase = "base"\n'
NAMES = ["transformers-4.56.1", "transformers-4.57.2", "transformers-5.0.0"]


def read(folder: Path, text: str = STACK + RULE) -> Matrix:
    """The matrix in ``text``, without stacks from the index."""
    return load_matrix(folder, text)


def write(folder: Path, matrix: Matrix) -> bool:
    """The file of the stacks that ``matrix`` asks for, with RELEASES as the index."""
    given = {
        rule: generated.given_by(rule, {"transformers": RELEASES}, TODAY)
        for rule in generated.asking(matrix)
    }
    return generated.write(folder / "_matrix.json", given)


def complete(folder: Path, matrix: Matrix) -> list[str]:
    """The names of all stacks but the base."""
    whole = generated.complete(matrix, folder / "_matrix.json", folder / "matrix.toml")
    return [stack.name for stack in whole.stacks][1:]


def test_what_was_written_is_there(tmp_path: Path) -> None:
    """Generated stacks come after the typed ones, with all their fields."""
    matrix = read(tmp_path)
    assert write(tmp_path, matrix)
    assert NAMES == complete(tmp_path, matrix)
    [rule] = matrix.rules
    assert generated.given_by(rule, {"transformers": RELEASES}, TODAY) == generated.load(
        tmp_path / "_matrix.json"
    ).of(rule)


def test_a_base_of_today_is_read_as_that(tmp_path: Path) -> None:
    """One key holds a date or a word."""
    matrix = read(tmp_path, STACK.replace("2025-03-31", '"today"') + RULE)
    write(tmp_path, matrix)
    whole = generated.complete(matrix, tmp_path / "_matrix.json", tmp_path / "matrix.toml")
    assert {"today"} == {stack.as_of for stack in whole.stacks}


@pytest.mark.parametrize("text", [STACK + RULE, STACK.replace('"torch"', '"torch<3"') + RULE])
def test_without_a_file_or_with_that_of_another_base_refresh_must_run(
    tmp_path: Path, text: str
) -> None:
    """The error names the table and the command."""
    if text != STACK + RULE:
        write(tmp_path, read(tmp_path))
    with pytest.raises(UserError) as raised:
        complete(tmp_path, read(tmp_path, text))
    assert "[generate.releases] in matrix.toml" in str(raised.value)
    assert COMMAND in str(raised.value)


def test_without_rules_no_file_is_read(tmp_path: Path) -> None:
    """Even a damaged file is not read."""
    (tmp_path / "_matrix.json").write_text("{")
    assert [] == complete(tmp_path, read(tmp_path, STACK))


@pytest.mark.parametrize("content", [b"{", b'{"schema":2,"entries":[]}', b"[]", b"\xff"])
def test_a_damaged_file_is_reported(tmp_path: Path, content: bytes) -> None:
    """The error says what to do."""
    (tmp_path / "_matrix.json").write_bytes(content)
    with pytest.raises(UserError, match="generated stacks in _matrix"):
        complete(tmp_path, read(tmp_path))


def test_a_date_that_is_none_is_reported(tmp_path: Path) -> None:
    """A person edited the file."""
    matrix = read(tmp_path)
    write(tmp_path, matrix)
    path = tmp_path / "_matrix.json"
    path.write_bytes(path.read_bytes().replace(b"2025-05-20", b"2025-02-30"))
    with pytest.raises(UserError, match="cannot be read"):
        complete(tmp_path, matrix)


def test_what_is_known_is_listed_before_refresh_ran(tmp_path: Path) -> None:
    """Nox must be able to start ``refresh``."""
    path, file = tmp_path / "_matrix.json", tmp_path / "matrix.toml"
    matrix = read(tmp_path)
    assert ["base"] == [
        stack.name for stack in generated.as_far_as_known(matrix, path, file).stacks
    ]
    path.write_text("{")
    assert ["base"] == [
        stack.name for stack in generated.as_far_as_known(matrix, path, file).stacks
    ]


def test_a_session_of_an_unknown_stack_is_an_error_with_the_next_command(tmp_path: Path) -> None:
    """A checkout lists the stacks it knows. Another name needs ``refresh`` first."""
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "sums.py").write_text(SUMS.lstrip(), encoding="utf-8")
    (tmp_path / "matrix.toml").write_text(STACK + RULE, encoding="utf-8")
    project = Project.at(tmp_path)
    assert ["base"] == [
        stack.name for stack in project.stacks_named_by(["-s", "harness", "--", "refresh"])
    ]
    with pytest.raises(UserError, match="are not known"):
        project.stacks_named_by(["-s", "matrix(transformers-5.0.0)"])


def test_what_is_the_same_is_not_written_again(tmp_path: Path) -> None:
    """A night without changes writes nothing."""
    matrix = read(tmp_path)
    assert [True, False] == [write(tmp_path, matrix), write(tmp_path, matrix)]


def test_without_any_rule_the_file_goes(tmp_path: Path) -> None:
    """Stacks that no rule asks for are not kept."""
    write(tmp_path, read(tmp_path))
    assert write(tmp_path, read(tmp_path, STACK))
    assert not (tmp_path / "_matrix.json").exists()
    assert not write(tmp_path, read(tmp_path, STACK))


def test_a_typed_stack_of_a_generated_name_must_be_the_same(tmp_path: Path) -> None:
    """The rule is the same as for snapshots."""
    matrix = read(tmp_path, STACK + STACK.replace('"base"', '"transformers-5.0.0"') + RULE)
    write(tmp_path, matrix)
    with pytest.raises(
        UserError, match=r"a second stack 'transformers-5\.0\.0' in \[generate\.releases\]"
    ):
        complete(tmp_path, matrix)


def test_a_release_that_one_of_two_names_never_had_gives_no_stack(tmp_path: Path) -> None:
    """It could not be locked. Other stacks are as of the day on which both were out."""
    text = (STACK + RULE).replace('"torch", "transformers"', '"lightning", "pytorch-lightning"')
    [rule] = read(
        tmp_path, text.replace('package = "transformers"', 'package = "pytorch-lightning"')
    ).rules
    assert ("pytorch-lightning", "lightning") == generated.packages_of(rule)
    there = {
        "pytorch-lightning": (release("1.5.10", "2022-02-08"), release("2.6.0", "2025-11-28")),
        "lightning": (release("2.6.0", "2025-11-29"),),
    }
    [stack] = generated.given_by(rule, there, TODAY)
    assert ("pytorch-lightning-2.6.0", dt.date(2025, 11, 29)) == (stack.name, stack.as_of)
    assert ("lightning==2.6.0", "pytorch-lightning==2.6.0") == stack.requirements


def test_a_release_of_today_has_no_stack_yet(tmp_path: Path) -> None:
    """A lock needs a complete day."""
    [rule] = read(tmp_path).rules
    days = (dt.date(2025, 10, 1), dt.date(2025, 10, 2))
    given = [generated.given_by(rule, {"transformers": RELEASES}, day) for day in days]
    assert [NAMES[:2], NAMES] == [[stack.name for stack in stacks] for stacks in given]


def test_a_matrix_of_another_folder_has_a_file_of_its_own(tmp_path: Path) -> None:
    """Its name does not matter. Another matrix in the root has a file with its own name."""
    places = ("matrix.toml", "other.toml", "other/matrix.toml", "another/matrix.toml")
    paths = [generated.path_in(tmp_path / "locks", tmp_path / place, tmp_path) for place in places]
    paths.append(generated.path_in(tmp_path / "locks", tmp_path.parent / "matrix.toml", tmp_path))
    assert (["_matrix.json", "_other.json"], 5) == (
        [path.name for path in paths[:2]],
        len(set(paths)),
    )
    assert {tmp_path / "locks"} == {path.parent for path in paths}
