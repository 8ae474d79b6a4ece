"""``gradmatrix init`` in somebody's project."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from gradmatrix import __version__
from gradmatrix.cli import init
from gradmatrix.cli.main import installed_as, main
from gradmatrix.compare.first_matrix import MOST_SCRIPTS
from gradmatrix.run.project import Project

if TYPE_CHECKING:
    from pathlib import Path

RELEASE = f"gradmatrix[matrix]=={__version__}"
LOOP = "import torch\nfor _ in range(3):\n    loss.backward()\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a project with a script."""
    (tmp_path / "requirements.txt").write_text("torch>=2.5\n", encoding="utf-8")
    (tmp_path / "train.py").write_text(LOOP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(root: Path) -> set[str]:
    """The files in the project, without those of git."""
    paths = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return {path.as_posix() for path in paths if path.parts[0] != ".git"}


def test_what_it_writes_can_be_run(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says what it found and wrote, and the next command."""
    assert 0 == main(["init"])
    assert [
        "read     requirements.txt",
        "script   train.py",
        "written  matrix.toml: 2 stacks (latest, oldest), 1 script",
        "written  .github/workflows/gradmatrix.yml: every night; it commits the tables to results/",
        "written  .gitignore: .gradmatrix/ and results/local/",
        (
            f"note: the workflow installs {RELEASE}; if GitHub cannot get that, change GRADMATRIX "
            "in it first, for example to: gradmatrix[matrix] @ git+REPOSITORY@COMMIT"
        ),
        "next: look through matrix.toml, then: gradmatrix run",
    ] == capsys.readouterr().out.splitlines()
    project = Project.at(root)
    assert (["latest"], ["train"]) == (
        [stack.name for stack in project.matrix.core],
        [scenario.name for scenario in project.chosen_scenarios()],
    )
    assert f'GRADMATRIX: "gradmatrix[matrix]=={__version__}"' in (root / init.WORKFLOW).read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize(
    ("there", "words", "told"),
    [
        ("matrix.toml", [], "gradmatrix run runs it"),
        (init.WORKFLOW, [], "or give --no-workflow"),
    ],
)
def test_nothing_is_overwritten(
    root: Path, capsys: pytest.CaptureFixture[str], there: str, words: list[str], told: str
) -> None:
    """And nothing is written beside it."""
    (root / there).parent.mkdir(parents=True, exist_ok=True)
    (root / there).write_text("mine", encoding="utf-8")
    before = files(root)
    assert 2 == main(["init", *words])
    error = capsys.readouterr().err
    assert f"{there} exists already; nothing was written." in error
    assert (True, before) == (told in error, files(root))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "# gradmatrix\n.gradmatrix/\nresults/local/\n"),
        ("a\nresults/local/", "a\nresults/local/\n# gradmatrix\n.gradmatrix/\n"),
        ("results/local/\n.gradmatrix/\n", "results/local/\n.gradmatrix/\n"),
    ],
)
def test_git_ignores_what_a_run_leaves_behind(
    tmp_path: Path, text: str | None, expected: str
) -> None:
    """Lines of the user's stay, and no line is there twice."""
    path = tmp_path / ".gitignore"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert (text is None or text != expected) == init.ignore(path)
    assert expected == path.read_text(encoding="utf-8")


def test_below_the_root_of_a_repository_no_workflow_is_written(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody would read it there."""
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    (root / "part").mkdir()
    (root / "requirements.txt").rename(root / "part" / "requirements.txt")
    (root / "train.py").rename(root / "part" / "train.py")
    assert 0 == main(["init", "--root", "part"])
    assert f"GitHub reads workflows in {root} only" in capsys.readouterr().out
    names = ("matrix.toml", ".gitignore", "train.py", "requirements.txt")
    assert {f"part/{name}" for name in names} == files(root)


def test_scripts_and_files_may_be_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With arguments. Then nothing is searched for."""
    (root / "other.txt").write_text("torch==2.6.0\n", encoding="utf-8")
    (root / "mine.py").write_text("print(1)\n", encoding="utf-8")
    words = ["other.txt", "--script", "mine.py --epochs '1 2'", "--python", "3.12"]
    assert 0 == main(["init", *words, "--no-workflow"])
    (scenario,) = Project.at(root).chosen_scenarios()
    pinned, latest = Project.at(root).matrix.stacks
    assert (("--epochs", "1 2"), ("torch==2.6.0",), ("torch",), "3.12") == (
        scenario.arguments,
        pinned.requirements,
        latest.requirements,
        pinned.python,
    )
    assert "note" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["none.txt"], "There is no file none.txt in"),
        (["/etc/hosts"], "There is no file /etc/hosts in"),
        (["--script", "none.py"], "names no file"),
        (["--script", __file__], "is not in"),
        (["--extra", "x"], "states no requirements"),
        (["Pipfile.lock"], "are not supported"),
    ],
)
def test_what_cannot_be_used_is_an_error(
    root: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    """Nothing is written."""
    if words[0] == "--extra":
        (root / "requirements.txt").unlink()
    (root / "Pipfile.lock").touch()
    before = files(root)
    assert 2 == main(["init", *words])
    assert (True, before) == (told in capsys.readouterr().err, files(root))


def test_a_project_without_a_training_script_is_an_error(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says how one is named."""
    (root / "train.py").write_text("print(1)\n", encoding="utf-8")
    assert 2 == main(["init"])
    assert "next: name one: gradmatrix init --script 'train.py --epochs 1'" in (
        capsys.readouterr().err
    )
    assert not (root / "matrix.toml").exists()


def test_many_scripts_do_not_all_become_rows(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each would run in each stack. The others are named."""
    for number in range(MOST_SCRIPTS + 1):
        (root / f"train_{number}.py").write_text(LOOP, encoding="utf-8")
    (root / "results").mkdir()
    assert 0 == main(["init"])
    out = capsys.readouterr().out
    assert "note: 2 further scripts stand at the end of matrix.toml" in out
    assert "note: results/ exists already" in out
    assert MOST_SCRIPTS == len(Project.at(root).chosen_scenarios())


@pytest.mark.parametrize(
    ("origin", "here", "elsewhere"),
    [
        (None, RELEASE, RELEASE),
        (
            '{"url": "file:///a.whl", "archive_info": {}}',
            "gradmatrix[matrix] @ file:///a.whl",
            RELEASE,
        ),
        (
            '{"url": "https://example.org/g", "vcs_info": {"vcs": "git", "commit_id": "01"}}',
            "gradmatrix[matrix] @ git+https://example.org/g@01",
            "gradmatrix[matrix] @ git+https://example.org/g@01",
        ),
    ],
)
def test_the_workflow_installs_what_is_installed_here(
    monkeypatch: pytest.MonkeyPatch, origin: str | None, here: str, elsewhere: str
) -> None:
    """A release, or the commit that it was installed from. Here it may also be a file."""

    class Installed:
        def read_text(self, name: str) -> str | None:
            """What the installer wrote."""
            assert name == "direct_url.json"
            return origin

    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Installed())
    assert (here, elsewhere) == (installed_as(), installed_as(elsewhere=True))


def test_it_says_that_the_extra_is_missing(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``gradmatrix run`` is the next command, and it needs the extra."""
    monkeypatch.setattr(init, "is_missing", lambda name: name == "scipy")
    assert 0 == main(["init", "--no-workflow"])
    *_, note, last = capsys.readouterr().out.splitlines()
    assert note.startswith('note: run needs the extra `matrix`: pip install "gradmatrix[matrix]')
    assert "next: look through matrix.toml, then: gradmatrix run" == last
