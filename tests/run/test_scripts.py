"""A user's own script as a scenario: its table in matrix.toml, its files, and what is published."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Role, Scenario, Variant
from gradmatrix.run import scenarios
from gradmatrix.stacks import config

if TYPE_CHECKING:
    from pathlib import Path

RUN = """
[run]
devices = ["cpu"]
scenarios = []

[[stacks]]
name = "one"
python = "3.11"
as_of = 2025-03-31
requirements = ["torch"]
"""
SCRIPT = """
[[scripts]]
name = "mine"
path = "examples/train.py"
"""
FULL = """
arguments = ["--epochs", "1"]
needs = ["torch>=2.1"]
summary = "our fine-tuning script"
role = "remedy"
directory = "data"
inputs = ["examples/*.py", "data"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a script, a module beside it, and data."""
    for name in ("examples/train.py", "examples/model.py", "data/rows.txt", "data/deep/rows.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n", encoding="utf-8")
    return tmp_path


def load(folder: Path, text: str = SCRIPT) -> Scenario:
    """The scenario of the first script of ``text``."""
    path = folder / "matrix.toml"
    path.write_text(RUN + text, encoding="utf-8")
    loaded = config.load(path, ["sums"], dt.date(2026, 1, 31))
    return scenarios.load_scripts(path, loaded.scripts, ["sums"])[0]


def complaint(folder: Path, text: str) -> str:
    """The error that a user reads about ``text``."""
    with pytest.raises(UserError) as raised:
        load(folder, text)
    return str(raised.value)


def test_a_table_becomes_a_scenario_of_one_variant(folder: Path) -> None:
    """Missing keys get their defaults."""
    scenario = load(folder)
    plain = Variant(name="script", role=Role.CONTROL, summary="train.py", needs=())
    assert ("mine", "train.py", (plain,), (), None) == (
        scenario.name,
        scenario.title,
        scenario.variants,
        scenario.arguments,
        scenario.directory,
    )


def test_everything_that_a_table_may_say(folder: Path) -> None:
    """The summary is the title, and the variant says what is run."""
    scenario = load(folder, SCRIPT + FULL)
    variant = Variant(
        name="script", role=Role.REMEDY, summary="train.py --epochs 1", needs=("torch>=2.1",)
    )
    assert ("our fine-tuning script", (variant,), ("--epochs", "1")) == (
        scenario.title,
        scenario.variants,
        scenario.arguments,
    )
    assert (str(folder / "examples" / "train.py"), str(folder / "data")) == (
        scenario.path,
        scenario.directory,
    )


def test_a_path_may_be_absolute(folder: Path) -> None:
    """A matrix file may be in any folder."""
    path = folder / "examples" / "train.py"
    assert str(path) == load(folder, SCRIPT.replace("examples/train.py", str(path))).path


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("path =", "pth =", ["unknown key 'pth' in script 'mine'", "perhaps you meant 'path'"]),
        ("[[scripts]]", "[[script]]", ["unknown key 'script'", "perhaps you meant 'scripts'"]),
        ('name = "mine"\n', "", ["lacks the key 'name' in script number 1"]),
        (
            '["--epochs", "1"]',
            '["--epochs", 1]',
            ["in script 'mine', key 'arguments'", "expected `str`"],
        ),
        (
            '["--epochs", "1"]',
            '"--epochs 1"',
            ["in script 'mine', key 'arguments'", "expected `array`"],
        ),
        (
            "train.py",
            "trian.py",
            ["path = 'examples/trian.py' in script 'mine'", "no file", "folder of matrix.toml"],
        ),
        ("examples/train.py", "examples", ["path = 'examples' in script 'mine'", "no file"]),
        ('"data"\ninputs', '"date"\ninputs', ["directory = 'date' in script 'mine'", "no folder"]),
        (
            '"examples/*.py"',
            '"example/*.py"',
            ["inputs = 'example/*.py' in script 'mine'", "no such file"],
        ),
        (
            '"remedy"',
            '"remdy"',
            ["unknown role 'remdy' in script 'mine'", "perhaps you meant 'remedy'"],
        ),
        ("torch>=2.1", "torch=>2.1", ["unreadable requirement 'torch=>2.1' in script 'mine'"]),
        ('"mine"', '"my/script"', ["script name 'my/script'", "unsafe"]),
        ('"mine"', '"Sums"', ["script name 'Sums', which is a scenario's"]),
    ],
)
def test_what_is_wrong_is_reported_in_the_words_of_the_file(
    folder: Path, old: str, new: str, expected: list[str]
) -> None:
    """Each error names the script, the key and what was expected."""
    message = complaint(folder, (SCRIPT + FULL).replace(old, new, 1))
    assert [text for text in expected if text not in message] == [], message


def test_two_scripts_of_one_name_are_refused(folder: Path) -> None:
    """They would share their cells."""
    assert "two scripts called 'Mine'" in complaint(
        folder, SCRIPT + SCRIPT.replace('"mine"', '"Mine"')
    )


def test_a_matrix_without_scenarios_and_scripts_is_refused(folder: Path) -> None:
    """There is nothing to run."""
    assert "names no scenario in [run]" in complaint(folder, "")


@pytest.mark.parametrize(
    "name", ["examples/train.py", "examples/model.py", "data/rows.txt", "data/deep/rows.txt"]
)
def test_a_change_of_an_input_makes_the_cells_stale(folder: Path, name: str) -> None:
    """Inputs are the script itself, files of a pattern, and all files of a folder."""
    before = load(folder, SCRIPT + FULL).source_digest
    (folder / name).write_text("# changed\n", encoding="utf-8")
    assert before != load(folder, SCRIPT + FULL).source_digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"1"]', '"2"]'),
        ('"remedy"', '"reported"'),
        ('"data"\ninputs', '"examples"\ninputs'),
        (', "data"]', "]"),
    ],
)
def test_a_change_of_the_table_makes_the_cells_stale(folder: Path, old: str, new: str) -> None:
    """Arguments, role, directory and inputs are part of what was run."""
    assert (
        load(folder, SCRIPT + FULL).source_digest
        != load(folder, (SCRIPT + FULL).replace(old, new)).source_digest
    )


def test_what_takes_no_part_changes_nothing(folder: Path) -> None:
    """This is a file that no pattern names, compiled Python, or a summary."""
    before = load(folder, SCRIPT + FULL).source_digest
    (folder / "data" / "__pycache__").mkdir()
    for name in ("notes.txt", "data/__pycache__/rows.pyc"):
        (folder / name).write_text("new", encoding="utf-8")
    assert before == load(folder, (SCRIPT + FULL).replace("our fine", "their fine")).source_digest


PACKAGES = 'packages = ["src", "."]\n'


@pytest.mark.parametrize(
    ("name", "stale"),
    [
        ("src/own/deep/part.py", True),
        ("src/single.py", True),
        ("top.py", True),
        ("src/own/table.csv", False),
        ("elsewhere/part.py", False),
    ],
)
def test_a_change_of_a_package_makes_the_cells_stale(folder: Path, name: str, stale: bool) -> None:
    """The Python files of packages and modules count, and nothing else of the folder."""
    for each in ("src/own/__init__.py", name):
        (folder / each).parent.mkdir(parents=True, exist_ok=True)
        (folder / each).touch()
    before = load(folder, SCRIPT + PACKAGES)
    assert (str(folder / "src"), str(folder)) == before.packages
    (folder / name).write_text("# changed\n", encoding="utf-8")
    assert stale == (before.source_digest != load(folder, SCRIPT + PACKAGES).source_digest)


def test_a_folder_of_packages_must_exist(folder: Path) -> None:
    """The error names it."""
    assert "packages = 'src' in script 'mine', where there is no folder" in complaint(
        folder, SCRIPT + PACKAGES
    )


def test_a_folder_of_another_project_may_be_called_scenarios(folder: Path) -> None:
    """It holds scenarios only if a file there has variants."""
    (folder / "scenarios").mkdir()
    assert not scenarios.are_in(folder / "scenarios")
    (folder / "scenarios" / "city.py").write_text("import torch\n", encoding="utf-8")
    assert not scenarios.are_in(folder / "scenarios")
    (folder / "scenarios" / "sums.py").write_text("VARIANTS = {}\n", encoding="utf-8")
    assert scenarios.are_in(folder / "scenarios")


def test_no_folder_of_the_machine_is_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders above the script, above its directory, and the home folder are removed.

    Other paths stay.
    """
    monkeypatch.setenv("HOME", "/somebody/home")
    printed = {
        "message": f"no {folder}/data/x.txt, but '{folder.parent}/y.txt'",
        "warnings": [
            "/somebody/home/.cache/z",
            "https://example.org/somebody/home/x",
            "a/b",
            1,
            None,
        ],
    }
    assert {
        "message": "no x.txt, but 'y.txt'",
        "warnings": [".cache/z", "https://example.org/somebody/home/x", "a/b", 1, None],
    } == scenarios.without_folders(printed, [folder / "examples", folder / "data"])
