"""A published failure as one script: what it needs, what it says, and that it fails as published.

After a wanted change: ``UPDATE_GOLDEN=1 pytest tests/trace/test_capsule.py``, and read the diff.
"""

from __future__ import annotations

import ast
import datetime as dt
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gradmatrix.cli.main import main
from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Role
from gradmatrix.run import lookup
from gradmatrix.run.project import Project
from gradmatrix.stacks import sandbox
from gradmatrix.stacks.lock import requirements_path
from gradmatrix.trace import capsule
from tests.conftest import OLDEST, ROOT, python_of
from tests.factories import (
    HEALTHY,
    make_cell,
    make_lock,
    make_observation,
    make_raised,
    make_record,
    make_scenario,
    make_variant,
)

if TYPE_CHECKING:
    from gradmatrix.core.model import Record

GOLDEN = Path(__file__).parent.parent / "golden" / "capsule.txt"
NO_GRAD_FN = "element 0 of tensors does not require grad and does not have a grad_fn"
REQUIREMENTS = """\
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:00
cuda-toolkit==13.0.3 ; sys_platform == 'linux' \\
    --hash=sha256:01
networkx==3.6.1 ; python_full_version < '3.12' \\
    --hash=sha256:02
networkx==3.7 ; python_full_version >= '3.12' \\
    --hash=sha256:03
nvidia-cublas==13.1 ; (platform_machine == 'x86_64' and sys_platform == 'linux') \\
    --hash=sha256:04
torch==2.6.0+cpu \\
    --hash=sha256:05
triton==3.7.1 ; sys_platform == 'linux' \\
    --hash=sha256:06
"""
SCENARIO = make_scenario(
    "sums",
    make_variant("plain"),
    make_variant("twice", Role.REPORTED),
    make_variant("thrice", Role.REMEDY),
    title="Sums of two",
)
SOURCE = '''"""Sums of two."""

import torch

VARIANTS = {
    "plain": {"role": "control", "summary": "as it is"},
    "twice": {"role": "reported", "summary": "twice"},
}


def train(variant, device, steps):
    model = torch.nn.Linear(2, 2, device=device)
    for _ in range(steps):
        model(torch.ones(2)).sum().backward() if variant == "plain" else model.zero_grad()
'''
LOCK = make_lock(versions={"torch": "2.6.0", "trl": "0.15.2"}, as_of=dt.date(2026, 3, 1))


def make_failed(
    outcome: str = "step:no-grad-fn", message: str = NO_GRAD_FN, **fields: object
) -> Record:
    """The record of a variant that fails, by an exception unless it has its own observation."""
    given = {
        "observation": make_observation(raised=make_raised(message)),
        "role": Role.REPORTED,
        **fields,
    }
    return make_record(
        outcome, make_cell("stack", "sums", "twice"), message=f"RuntimeError: {message}", **given
    )


def make_silent(outcome: str, message: str) -> Record:
    """The record of a variant that fails without an exception."""
    return make_record(
        outcome,
        make_cell("stack", "sums", "twice"),
        message=message,
        observation=make_observation(),
    )


def written(record: Record, file: str = "FILE") -> str:
    """The capsule of ``record``."""
    return capsule.write(record, LOCK, REQUIREMENTS, SCENARIO, SOURCE, file=file)


REMEDY = make_scenario(
    "sums",
    make_variant("twice", Role.REPORTED),
    make_variant("once", Role.REMEDY, cures=("zero",)),
)
MENDED = """\
# ⋮
#      for _ in range(4):
# -        model.zero_grad()
# +        model(torch.ones(2)).sum().backward()
"""


@pytest.mark.parametrize(
    ("shown", "how"),
    [
        ("twice", "Take out the lines with -, and put in those with +."),
        ("once", "This script has the lines with +. sums/twice, which fails, has those with -"),
    ],
)
def test_the_lines_that_mend_it_stand_at_the_end(shown: str, how: str) -> None:
    """Both in the capsule of what fails and in that of its remedy, which run as before."""
    fails = make_record(
        "gradient:zero", make_cell("stack", "sums", "twice"), observation=make_observation("zzzz")
    )
    trains = make_record(
        "trains", make_cell("stack", "sums", "once"), observation=make_observation()
    )
    records = {"twice": fails, "once": trains}
    source = SOURCE.replace('"plain"', '"once"')
    alone, marked = (
        capsule.write(records[shown], LOCK, REQUIREMENTS, REMEDY, source, others=others)
        for others in ((), records.values())
    )
    assert marked.startswith(alone)
    comment = marked.removeprefix(alone)
    words = " ".join(comment.replace("#", "").split())
    assert "What mends it: what once means. sums/once trains with these releases." in words
    assert (True, True) == (how in words, MENDED in comment)
    assert ast.dump(ast.parse(alone)) == ast.dump(ast.parse(marked))


def block(text: str) -> dict[str, object]:
    """The TOML of a script's block."""
    found = re.search(r"^# /// script\n((?:#.*\n)+?)# ///$", text, re.MULTILINE)
    assert found is not None
    return tomllib.loads(
        "".join(
            line[2:] if line[1:2] == " " else line[1:]
            for line in found[1].splitlines(keepends=True)
        )
    )


def test_the_block_pins_everything() -> None:
    """It has public versions for this Python.

    Markers stay only if platforms differ; packages for CUDA are constraints.
    """
    assert {
        "requires-python": "==3.11.*",
        "dependencies": [
            "colorama==0.4.6 ; sys_platform == 'win32'",
            "networkx==3.6.1",
            "torch==2.6.0",
        ],
        "tool": {
            "uv": {
                "exclude-newer": "2026-03-02T00:00:00Z",
                "constraint-dependencies": [
                    "cuda-toolkit==13.0.3",
                    "nvidia-cublas==13.1",
                    "triton==3.7.1",
                ],
            }
        },
    } == block(written(make_failed()))


def test_every_published_lock_makes_a_block() -> None:
    """It has a requirement for each package of the lock, and some for other platforms."""
    for lock in Project.at(ROOT).known_locks():
        text = requirements_path(lock.stack, ROOT / "results" / "locks").read_text(encoding="utf-8")
        names = {
            requirement.partition("==")[0] for requirement in capsule.pinned(text, lock.python)
        }
        assert {package.name for package in lock.packages} <= names
        block(capsule.metadata(lock, text))


def test_the_whole_script() -> None:
    """It is in the golden file."""
    text = written(
        make_silent(
            "gradient:partial", "1 of 2 trainable parameters got no gradient or only zeros: weight"
        )
    )
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert GOLDEN.read_text(encoding="utf-8") == text


def test_it_says_what_happens_and_how_to_see_it() -> None:
    """It has the recorded exception, the versions and the command."""
    text = written(make_failed(), "fails.py")
    assert f"    RuntimeError: {NO_GRAD_FN}\n" in text
    assert "With torch 2.6.0, trl 0.15.2 on Python 3.11 (CPU) this ends with\n" in text
    assert "uv run fails.py\n" in text


def test_a_message_cannot_end_the_docstring() -> None:
    """The message may have any characters."""
    compile(written(make_failed(message='a """ and a \\ at the end \\')), "capsule", "exec")


@pytest.mark.parametrize(
    ("summary", "kept"),
    [("a Linear", True), ("plain, but with a Linear", False), ("the same in fp16", False)],
)
def test_a_setting_that_mentions_other_variants_is_left_out(summary: str, kept: bool) -> None:
    """The script does not have these variants."""
    scenario = make_scenario("sums", make_variant("plain"), make_variant("twice"))
    variants = (
        scenario.variants[0],
        type(scenario.variants[1])(name="twice", role=Role.CONTROL, summary=summary, needs=()),
    )
    scenario = make_scenario("sums", *variants)
    text = capsule.write(make_failed(), LOCK, REQUIREMENTS, scenario, SOURCE)
    assert kept is (f"Here: {summary}." in text)


@pytest.mark.parametrize(
    ("outcome", "message", "expected"),
    [
        (
            "gradient:none",
            "21 of 21 trainable parameters got no gradient: a",
            "got no gradient: {listed}",
        ),
        ("gradient:partial", "1 of 2 …", "got no gradient or only zeros: {listed}"),
        ("gradient:zero", "2 of 2 …", "got a gradient of exactly zero: {listed}"),
        ("gradient:nonfinite", "2 of 2 …", "gradient.isfinite().all()"),
        ("gradient:none", capsule.NOTHING_TRAINABLE, "nothing is trainable"),
        ("update:none", "2 of 2 …", "did not change"),
        ("update:ranks-differ", "the parameters of 2 ranks …", "ranks differ after step {step}"),
        ("step:nonfinite-loss", "loss (nan)", "the loss is not finite"),
    ],
)
def test_a_silent_failure_gets_a_check(outcome: str, message: str, expected: str) -> None:
    """The last function checks for the failure, and it is the one that runs."""
    text = written(make_silent(outcome, message))
    compile(text, "capsule", "exec")
    assert expected in text
    assert text.endswith('\n\n\nif __name__ == "__main__":\n    main()\n')
    assert "this runs to its end without an error, but" in " ".join(text.split())


def test_an_exception_needs_no_check() -> None:
    """No function is added."""
    assert written(make_failed()).endswith('\n\n\nif __name__ == "__main__":\n    train()\n')


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (make_record("trains", make_cell("stack", "sums", "twice")), "trains, so there is no"),
        (
            make_record(
                "gradient:none", make_cell("stack", "sums", "twice"), role=Role.MISUSE, passed=True
            ),
            "reports the mistake, as it should, so there is no",
        ),
        (
            make_record("setup:unsupported", make_cell("stack", "sums", "twice"), passed=None),
            "never ran",
        ),
        (make_record("install:build", make_cell("stack", "sums", "twice")), "never ran"),
        (
            make_record("relation:disagrees", make_cell("stack", "sums", "twice")),
            "its failure is that it disagrees",
        ),
    ],
)
def test_what_shows_no_failure_is_refused(record: Record, what: str) -> None:
    """The cell passed, never ran, or fails only beside another cell."""
    with pytest.raises(UserError, match=what):
        capsule.refuse(record, SCENARIO, everything=False)


@pytest.mark.parametrize("outcome", ["trains", "relation:disagrees"])
def test_any_cell_that_ran_has_a_capsule(outcome: str) -> None:
    """An option asks for it. The script checks nothing."""
    record = make_record(outcome, make_cell("stack", "sums", "twice"), observation=HEALTHY)
    capsule.refuse(record, SCENARIO, everything=True)
    text = written(record)
    assert text.endswith('\n\n\nif __name__ == "__main__":\n    train()\n')
    assert "this trains" in " ".join(text.split())


def test_a_users_own_script_is_refused() -> None:
    """It already is a script."""
    with pytest.raises(UserError, match="needs no capsule"):
        capsule.refuse(make_failed(), make_scenario("own", arguments=()), everything=True)


def test_it_is_printed_or_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The text is the same except for the file name.

    The command that shows the failure is printed too.
    """
    cell, file = f"{OLDEST}/t5_classifier/hf_adafactor", tmp_path / "fails.py"
    assert 0 == main(["capsule", cell])
    printed = capsys.readouterr().out
    assert 0 == main(["capsule", cell, "--output", str(file)])
    assert f"uv run {file}" in capsys.readouterr().out
    assert printed.replace("uv run FILE", "uv run fails.py") == file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ([f"{OLDEST}/t5_classifier/torch_adamw"], f"that failed, such as {OLDEST}/t5_classifier/"),
        ([f"{OLDEST}/t5_classifier/hf_adafactr"], "perhaps you meant 'hf_adafactor'"),
        (
            [f"{OLDEST}/t5_classifier/hf_adafactor", "--output", "no/such/folder/fails.py"],
            "its folder does not exist",
        ),
    ],
)
def test_what_cannot_be_written_ends_with_2(
    words: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is one clear error."""
    assert 2 == main(["capsule", *words])
    assert what in capsys.readouterr().err


def test_a_changed_scenario_is_pointed_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script may not do what was published. The warning goes to stderr."""
    for name in ("results", "matrix.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "scenarios", tmp_path / "scenarios")
    with (tmp_path / "scenarios" / "t5_classifier.py").open("a", encoding="utf-8") as file:
        file.write("CHANGED = True\n")
    assert 0 == main(["capsule", f"{OLDEST}/t5_classifier/hf_adafactor", "--root", str(tmp_path)])
    assert "has changed since this cell was published" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    "cell", ["t5_classifier/hf_adafactor", "frozen_parameters/frozen_embeddings_reentrant"]
)
def test_a_capsule_fails_as_was_published(cell: str, tmp_path: Path) -> None:
    """It raises the same exception, or its last function exits with 1."""
    project = Project.at(ROOT)
    record = lookup.find(f"{OLDEST}/{cell}", lookup.published(project), project)
    scenario, lock = lookup.scenario_of(record, project), lookup.lock_of(record, project)
    text = requirements_path(lock.stack, project.locks_folder).read_text(encoding="utf-8")
    script = tmp_path / "fails.py"
    script.write_text(
        capsule.write(
            record, lock, text, scenario, Path(scenario.path).read_text(encoding="utf-8")
        ),
        encoding="utf-8",
    )
    variables = sandbox.variables(threads=1) | {"COLUMNS": "400"}
    ran = subprocess.run(
        [python_of(OLDEST), script], capture_output=True, text=True, env=variables, check=False
    )
    said = " ".join(ran.stderr.split())
    assert (1, True) == (ran.returncode, said.endswith(" ".join(record.message.split()))), (
        ran.stderr
    )
