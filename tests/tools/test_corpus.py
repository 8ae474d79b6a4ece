"""The corpus: every script and fault is complete, and answers are compared with the truth."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gradmatrix.core.errors import UserError
from gradmatrix.core.observation import Frame
from gradmatrix.judge.causes import Cause
from gradmatrix.judge.wording import Diagnosis
from gradmatrix.stacks import config
from gradmatrix.trace.trace import Finding
from tools import corpus

SCRIPTS = corpus.scripts_in(corpus.FOLDER)
HEADER = """\
# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "science"
# field = "examples"
# source = "https://example.org/loop"
# optimizer = true
# ///
"""
LOOP = HEADER + "loss = model(\n    data\n).mean()\nloss.backward()\n"
FAULTS = """\
[[faults]]
name = "detached"
source = "https://example.org/question"
[[faults.edits]]
old = ").mean()"
new = ").detach().mean()"
[faults.truth]
says = "The output is detached."
causes = ["detached"]
lines = [").detach().mean()"]
remedy = "Do not detach it."
remedy_says = ["detach"]
"""


def script_in(folder: Path, text: str = LOOP, faults: str = FAULTS) -> corpus.Script:
    """A script with faults."""
    (folder / "loop.py").write_text(text, encoding="utf-8")
    (folder / "loop.toml").write_text(faults, encoding="utf-8")
    (script,) = corpus.scripts_in(folder)
    return script


def of_healthy(script: corpus.Script, diagnosis: Diagnosis | None, *advice: str) -> corpus.Answer:
    """What trace said about the healthy script."""
    return answer(corpus.Case(script), diagnosis, advice)


def of_fault(script: corpus.Script, diagnosis: Diagnosis | None, *advice: str) -> corpus.Answer:
    """What trace said about its fault."""
    return answer(corpus.Case(script, script.faults[0]), diagnosis, advice)


def answer(
    case: corpus.Case, diagnosis: Diagnosis | None, advice: tuple[str, ...]
) -> corpus.Answer:
    """What trace said about a case."""
    finding = Finding(
        schema=1,
        command=(),
        exit_code=0,
        outcome="trains" if diagnosis is None else "gradient:none",
        gradient=None,
        message="",
        steps=8,
        steps_per_s=None,
        peak_memory_bytes=None,
        diagnosis=diagnosis,
        explanation=advice,
        learns=(),
        does_not_learn=(),
        misleading=(),
        remarks=(),
        trouble=(),
        observation=None,
    )
    return corpus.Answer(case, finding)


def named(line: int) -> Diagnosis:
    """A diagnosis that names a line of a library, and one of the script."""
    library = Frame(file="torchvision/models.py", line=3, function="forward")
    user = Frame(file="loop.py", line=line, function="<module>")
    return Diagnosis(cause=Cause.DETACHED, module=None, place=library, text=("Why.",), user=user)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_script_says_where_it_comes_from(script: corpus.Script) -> None:
    """Its environment exists, and its source is an address."""
    stacks = {stack.name for stack in config.load(corpus.FOLDER / "matrix.toml", ("any",)).stacks}
    assert script.origin.environment in stacks
    assert script.origin.source.startswith("https://")
    assert script.metadata.dependencies
    assert script.name.startswith("kept_") is script.origin.kept_out


@pytest.mark.parametrize(
    "case", [case for case in corpus.cases_of(SCRIPTS) if case.fault], ids=lambda case: case.name
)
def test_a_fault_fits_its_script(case: corpus.Case) -> None:
    """Its edits and lines are found, its causes are known, and its source is an address."""
    assert case.fault is not None
    assert case.fault.source.startswith("https://")
    assert set(case.fault.truth.causes) & set(Cause)
    assert bool(case.guilty) is bool(case.fault.truth.lines)
    compile(case.text, case.name, "exec")


def test_names_are_unique() -> None:
    """A fault can be named on the command line."""
    names = [case.name for case in corpus.cases_of(SCRIPTS)]
    assert sorted(set(names)) == sorted(names)


def test_a_line_of_a_statement_stands_for_all_of_it(tmp_path: Path) -> None:
    """A traceback names one of its lines."""
    script = script_in(tmp_path)
    right = [of_fault(script, named(line)).line for line in range(8, 13)]
    assert [False, True, True, True, False] == right


def test_a_fault_is_right_with_cause_line_and_remedy(tmp_path: Path) -> None:
    """The advice has a word of the remedy."""
    script = script_in(tmp_path)
    assert of_fault(script, named(9), "Why.", "Detach only what is logged.").right
    assert not of_fault(script, named(9), "Why.", "Raise the learning rate.").right


def test_a_healthy_script_is_right_if_nothing_is_found(tmp_path: Path) -> None:
    """Any diagnosis is a false alarm."""
    script = script_in(tmp_path)
    assert of_healthy(script, None).right
    assert not of_healthy(script, named(9)).right


def test_a_script_that_hangs_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers before it are kept in the file that --output names."""
    monkeypatch.setattr(corpus, "TIMEOUT_S", 0.01)
    with pytest.raises(UserError, match="did not end"):
        corpus.trace(corpus.Case(script_in(tmp_path)), Path(sys.executable))


def test_shares_are_counted_apart(tmp_path: Path) -> None:
    """Faults that were kept out while rules were made have a row of their own."""
    hidden = script_in(tmp_path, faults=FAULTS + "kept_out = true\n")
    answers = [of_healthy(hidden, None), of_fault(hidden, named(9), "Detach it.")]
    counted = {
        tally.name: (str(tally.healthy), str(tally.faults["line"]))
        for tally in corpus.tallies(answers)
    }
    assert {"open": ("1/1", "–"), "kept out": ("–", "1/1"), "all": ("1/1", "1/1")} == counted


@pytest.mark.parametrize(
    ("text", "faults", "says"),
    [
        ("loss.backward()\n", FAULTS, "has no block of metadata"),
        (LOOP, FAULTS.replace('old = ").mean()"', 'old = "nowhere"'), "must stand once"),
        (LOOP, FAULTS.replace("causes", "cause"), "cause"),
        (LOOP, FAULTS.replace('lines = [").detach', 'lines = ["loss'), "must stand once"),
    ],
)
def test_a_file_that_is_wrong_is_one_sentence(
    tmp_path: Path, text: str, faults: str, says: str
) -> None:
    """The error names the file and what is wrong in it."""
    script = script_in(tmp_path, text, faults)
    with pytest.raises(UserError, match=says):
        [(case.text, case.script.origin) for case in corpus.cases_of([script])]
