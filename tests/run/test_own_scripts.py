"""Which files of a project are training scripts, and what they need around them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from gradmatrix.core.errors import UserError
from gradmatrix.run import own_scripts

if TYPE_CHECKING:
    from pathlib import Path

LOOP = "import torch\nfor _ in range(3):\n    loss.backward()\n"
MAIN = 'if __name__ == "__main__":\n    main()\n'


def written(folder: Path, text: str, *names: str) -> Path:
    """The folder with files of these names, without .py, that have this text."""
    for name in names:
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def found(folder: Path) -> list[str]:
    """The names of the training scripts in the folder."""
    scripts = own_scripts.training_scripts(folder)
    return [path.relative_to(folder).as_posix() for path in scripts]


@pytest.mark.parametrize(
    "text",
    [
        LOOP,
        f"import torch.nn as nn\ndef main():\n    loss.backward()\n{MAIN}",
        f"from lightning import Trainer\ndef main():\n    Trainer().fit(model)\n{MAIN}",
        f"import transformers\ndef main():\n    self.trainer.train()\n{MAIN}",
        "from lightning.pytorch.cli import LightningCLI\nLightningCLI(Model)\n",
        f"def main():\n    import accelerate\n    accelerator.backward(loss)\n{MAIN}",
    ],
)
def test_a_file_that_trains_when_it_is_run_is_a_script(tmp_path: Path, text: str) -> None:
    """Whatever it is called."""
    assert ["any.py"] == found(written(tmp_path, text, "any"))


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ndef step(loss):\n    loss.backward()\n",  # defines only
        f"import torch\ndef main():\n    model.train()\n{MAIN}",  # the mode of a module
        f"import sklearn\ndef main():\n    model.fit(x)\n{MAIN}",  # no library of ours
        f"import torch\nfrom . import model\ndef main():\n    loss.backward()\n{MAIN}",  # a module
        "import torch\nloss.backward(",  # no Python
        "import torch\0",
    ],
)
def test_other_files_are_none(tmp_path: Path, text: str) -> None:
    """None of these can be a row."""
    assert [] == found(written(tmp_path, text, "any"))


def test_a_script_may_train_with_modules_of_its_project(tmp_path: Path) -> None:
    """Then its name tells. A script that is called otherwise, or imports nothing, is none."""
    calls = "from fitting import run\nrun()\n"
    written(tmp_path, calls, "train_all", "show")
    written(tmp_path, "import json\nprint(1)\n", "train_none")
    assert ["train_all.py"] == found(written(tmp_path, "import torch\n", "fitting"))


def test_tests_environments_and_hidden_folders_are_left_out(tmp_path: Path) -> None:
    """Scripts near the top come first."""
    names = ("tests/train", "test_train", "setup", "venv/lib/train", ".x/train", "b/c/train", "z")
    written(tmp_path, LOOP, *names)
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    assert ["z.py", "b/c/train.py"] == found(tmp_path)


def test_what_git_ignores_is_left_out(tmp_path: Path) -> None:
    """A file that was not added yet is not."""
    written(tmp_path, LOOP, "old", "new")
    (tmp_path / ".gitignore").write_text("old.py\n", encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    assert ["new.py"] == found(tmp_path)


def test_packages_are_those_that_the_script_imports(tmp_path: Path) -> None:
    """Beside the script, in the root of the project, and in src."""
    written(tmp_path, "import beside, inroot.part\nfrom insrc import x\n", "scripts/train")
    written(tmp_path, "", "scripts/beside", "other", "src/insrc/__init__")
    folders = [tmp_path / "scripts", tmp_path / "src"]
    assert folders == own_scripts.package_folders(tmp_path / "scripts" / "train.py", tmp_path)
    written(tmp_path, "", "inroot/__init__")
    folders.insert(1, tmp_path)
    assert folders == own_scripts.package_folders(tmp_path / "scripts" / "train.py", tmp_path)


def test_the_files_that_a_script_names(tmp_path: Path) -> None:
    """As seen from the root of the project; other strings are none."""
    names = ("data/a.csv", "data", "/etc", "../x", ".", "", "no such", "nul\0", "é" * 400)
    text = "\n".join(map(repr, names))
    written(tmp_path, text, "train")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").touch()
    expected = [tmp_path / "data", tmp_path / "data" / "a.csv"]
    assert expected == own_scripts.files_named(tmp_path / "train.py", tmp_path)


def test_the_project_of_a_script_is_the_nearest_folder_with_a_mark(tmp_path: Path) -> None:
    """Without one, it is the script's own folder."""
    script = tmp_path / "a" / "b" / "train.py"
    assert script.parent == own_scripts.project_of(script)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").touch()
    assert tmp_path / "a" == own_scripts.project_of(script)


@pytest.mark.parametrize("word", ["none.py --x", "", "~nobody-here/train.py", "'open"])
def test_a_script_that_is_not_there_is_an_error(word: str) -> None:
    """The error shows how one is written."""
    with pytest.raises(UserError) as raised:
        own_scripts.named(word)
    assert "--script 'train.py --epochs 1'" in raised.value.next_step
