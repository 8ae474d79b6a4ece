"""Which modules a user's own script imports, from where, and in which process it runs."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from gradmatrix.observe import cell, source
from gradmatrix.observe.observer import Enough
from gradmatrix.observe.trace import following

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path, text: str, *others: str) -> str:
    """A script of ``text`` with empty files beside it."""
    for name in others:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("", encoding="utf-8")
    (folder / "train.py").write_text(text, encoding="utf-8")
    return str(folder / "train.py")


def test_the_libraries_that_a_script_names_anywhere(tmp_path: Path) -> None:
    """Imports may be at the top or in a function. Each existing library is listed once."""
    top = "import json.decoder as d\nfrom wave import open\n"
    text = top + "def f():\n    import csv, json.decoder, not_there\n"
    assert ["json.decoder", "wave", "csv"] == cell.libraries(written(tmp_path, text))


@pytest.mark.parametrize("beside", ["wave.py", "wave/__init__.py"])
def test_what_lies_beside_a_script_is_no_library(tmp_path: Path, beside: str) -> None:
    """The script's folder comes first on its path."""
    assert ["csv"] == cell.libraries(
        written(tmp_path, "import csv\nimport wave\nimport train\nfrom . import x\n", beside)
    )


def test_a_folder_of_data_shadows_nothing(tmp_path: Path) -> None:
    """Without an ``__init__.py`` it comes after every installed package."""
    assert ["wave"] == cell.libraries(
        written(tmp_path, "import wave\n", "wave/sounds.txt", "notes.txt")
    )


def test_what_is_shadowed_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its submodules are forgotten too. Other modules and the standard library stay."""
    names = ("a_library", "a_library.part", "a_library_too")
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    written(tmp_path, "", "a_library.py", "json.py")
    cell.forget_shadowed(str(tmp_path))
    assert ["a_library_too", "json"] == [name for name in (*names, "json") if name in sys.modules]


def test_only_what_the_environment_has_is_imported_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module from a cell's own folder would be another one in the next cell."""
    written(tmp_path, "", "own_module.py")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "made_up", ModuleType("made_up"))
    monkeypatch.setitem(sys.modules, "own_module", __import__("own_module"))
    names = ["pytest", "json.decoder", "own_module", "made_up", "sys", "gone"]
    paths = [path for path in sys.path if path != str(tmp_path)]
    assert ["pytest", "json.decoder"] == cell.of_environment(names, paths)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (SystemExit(), True),
        (SystemExit(0), True),
        (SystemExit(3), False),
        (SystemExit("why"), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_an_exit_with_code_0_is_a_good_end(error: BaseException, *, expected: bool) -> None:
    """Codes are read as the interpreter does."""
    assert expected == cell.exits_well(error)


def test_the_source_of_another_scenario_is_not_that_of_a_cell(tmp_path: Path) -> None:
    """The server imports all scenarios before it forks."""
    paths = [tmp_path / name for name in ("one.py", "other.py")]
    for path in paths:
        path.write_text("def train(variant, device, steps):\n    pass\n")
    modules = [cell.load(str(path)) for path in paths]
    cell.prepared({"script": str(paths[0]), "variant": "v", "device": "cpu"}, 1)
    read = source.files()
    assert [True, False] == [module.__name__ in sys.modules for module in modules]
    assert [True, False] == [str(path) in read for path in paths]


@pytest.mark.parametrize("stopped", [False, True])
def test_a_process_that_waits_ends_with_those_that_are_stopped(
    tmp_path: Path, *, stopped: bool
) -> None:
    """Also if one of them fails, because it has lost the stopped one. Else its error is the end."""
    if stopped:
        (tmp_path / "enough").touch()

    def broken() -> bool:
        raise ConnectionError("a rank is gone")

    wait = following(broken, str(tmp_path / "enough"))
    with pytest.raises(Enough if stopped else ConnectionError):
        wait()
    quiet = following(lambda: True, str(tmp_path / "enough"))
    with pytest.raises(Enough) if stopped else nullcontext():
        assert quiet()
