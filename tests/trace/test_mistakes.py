"""Mistakes as people write them, in ``mistakes/``: the cause and the user's line are named.

The first line of a script says which causes are right, or ``# healthy``. ``# says:`` is followed by
words that the diagnosis must have, or the report on a healthy one. A comment ``# here`` marks
each line at which a colleague would point. ``# library`` is a script that needs PEFT or
Transformers, ``# newest`` one that needs the newest torch.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

import gradmatrix.observe
from gradmatrix.core.observation import SCHEMA
from gradmatrix.judge.causes import explain
from gradmatrix.trace.trace import Finding, conclude, headline, left_in, report
from tests.conftest import NEWEST, OLDEST, STACKS, python_of

FOLDER = Path(__file__).parent / "mistakes"
FORKED = Path(__file__).parent / "forked.py"
OBSERVE = Path(gradmatrix.observe.__file__).parent


class Script(NamedTuple):
    """A script and what its comments say."""

    path: Path
    causes: tuple[str, ...]
    lines: tuple[int, ...]
    says: tuple[str, ...]
    library: bool
    newest: bool


def read(path: Path) -> Script:
    """A script of the folder."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return Script(
        path=path,
        causes=tuple(lines[0].partition("cause:")[2].split()),
        lines=tuple(n for n, line in enumerate(lines, 1) if line.endswith("# here")),
        says=tuple(line[len("# says: ") :] for line in lines if line.startswith("# says: ")),
        library="# library" in lines or any("transformers" in line for line in lines),
        newest="# newest" in lines,
    )


SCRIPTS = {path.stem: read(path) for path in sorted(FOLDER.glob("*.py"))}
QUICK = [name for name, script in SCRIPTS.items() if not script.library]
SLOW = [name for name, script in SCRIPTS.items() if script.library]


def findings(names: list[str], stack: str, folder: Path) -> dict[str, Finding]:
    """What a trace finds in each script, run in forks of one process of ``stack``."""
    request = {"schema": SCHEMA, "audit": 4, "stop_after": None}
    for name in names:
        (folder / name).mkdir()
        (folder / name / "request.json").write_bytes(msgspec.json.encode(request))
    scripts = [SCRIPTS[name].path for name in names]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [python_of(stack), FORKED, OBSERVE, folder, *scripts]
    subprocess.run(command, env=environ, check=True)
    return {
        name: conclude([name], int((folder / name / "code").read_text()), left_in(folder / name))
        for name in names
    }


@pytest.fixture(scope="module", params=STACKS)
def found(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Finding]:
    """The findings on the scripts that need torch alone."""
    names = [name for name in QUICK if request.param == NEWEST or not SCRIPTS[name].newest]
    return findings(names, request.param, tmp_path_factory.mktemp(OLDEST))


@pytest.fixture(scope="module")
def found_in_libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finding]:
    """The findings on the scripts that need libraries."""
    return findings(SLOW, NEWEST, tmp_path_factory.mktemp(NEWEST))


def is_right(finding: Finding, script: Script) -> None:
    """A healthy script trains; of another the cause and a line of its own file are named."""
    diagnosis = finding.diagnosis
    if not script.causes:
        assert (None, "trains", ()) == (diagnosis, finding.outcome, finding.trouble)
        said = "\n".join([headline(finding), *report(finding)])
        assert [] == [words for words in script.says if words not in said]
        return
    assert diagnosis is not None
    places = [place for place in (diagnosis.place, diagnosis.user) if place is not None]
    assert diagnosis.cause in script.causes
    assert any(at.file == script.path.name and at.line in script.lines for at in places)
    assert () == finding.trouble
    said = "\n".join(explain(diagnosis, None))
    assert [] == [words for words in script.says if words not in said]


@pytest.mark.parametrize("name", QUICK)
def test_a_mistake_is_named_at_its_line(found: dict[str, Finding], name: str) -> None:
    """The cause is an accepted one, and the place or the user's line is marked."""
    if name not in found:
        pytest.skip("it needs the newest torch")
    is_right(found[name], SCRIPTS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_a_mistake_in_the_use_of_a_library_is_named_at_its_line(
    found_in_libraries: dict[str, Finding], name: str
) -> None:
    """The argument or the call in the user's file decides, not the library's line."""
    is_right(found_in_libraries[name], SCRIPTS[name])


def test_the_errors_of_backward_are_errors_of_the_step(found: dict[str, Finding]) -> None:
    """Also in a script without an optimizer."""
    names = ("in_place", "in_place_before_optimizer", "twice_through")
    assert {"step:exception"} == {found[name].outcome for name in names}


def test_optimizers_that_are_built_in_the_first_step_make_one_step(
    found: dict[str, Finding],
) -> None:
    """Each of them holds one parameter, and nothing asked for gradients in between."""
    assert 8 == found["healthy_optimizer_for_each_parameter"].steps


def test_an_attribute_of_a_class_that_is_called_like_a_switch_is_none(
    found: dict[str, Finding],
) -> None:
    """So a line that freezes a parameter as it should is not called without effect."""
    assert () == found["healthy_name_of_its_own"].remarks


def test_a_scheduler_that_gives_the_rate_itself_has_no_remark(found: dict[str, Finding]) -> None:
    """The rate of its optimizer is 1."""
    assert () == found["healthy_rate_of_the_scheduler_alone"].remarks


def test_a_plateau_and_a_decoupled_weight_decay_have_no_remark(
    found: dict[str, Finding],
) -> None:
    """The value was better than the first before the rate was lowered, or got worse again."""
    assert () == found["healthy_plateau_of_its_mode"].remarks


@pytest.mark.parametrize(
    "name",
    [
        "healthy_clipped_for_two",
        "healthy_one_optimizer_scheduled",
        "healthy_targets_within_a_sigmoid",
        "healthy_value_without_a_graph",
    ],
)
def test_what_only_looks_like_a_mistake_has_no_remark(found: dict[str, Finding], name: str) -> None:
    """Each of these is next to a script that has one."""
    assert () == found[name].remarks


@pytest.mark.slow
@pytest.mark.parametrize("name", ["healthy_end_token_learned", "healthy_new_tokens_saved"])
def test_what_only_looks_like_a_mistake_in_the_use_of_a_library_has_no_remark(
    found_in_libraries: dict[str, Finding], name: str
) -> None:
    """Each of these is next to a script that has one, too."""
    assert () == found_in_libraries[name].remarks


def test_what_a_diagnosis_says_of_optimizers_is_not_said_again(found: dict[str, Finding]) -> None:
    """Parameters in no optimizer are a note only if nothing explains them."""
    said = report(found["given_twice_in_a_group"])
    assert any("No optimizer holds those of `b`" in each for each in said)
    assert not any(each.startswith("note:") for each in said)


def test_a_part_of_the_loss_without_a_graph_is_said_once(found: dict[str, Finding]) -> None:
    """The diagnosis says it, so there is no remark about the loss that computed the part."""
    assert () == found["detached_part_of_the_loss"].remarks
