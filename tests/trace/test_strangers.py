"""Scripts without a contract: what trains is said to train, and each mistake is found."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from gradmatrix.stacks import sandbox
from gradmatrix.trace.trace import conclude, left_in
from tests.conftest import FAKES, ROOT, STACKS, python_of

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = FAKES / "strangers.py"
OUTCOMES = {
    name: outcome or {"healthy": "trains", "unseen": "update:unseen"}[mark]
    for mark, outcome, name in re.findall(
        r'^@(\w+)(?:\("(.+)"\))?\ndef (\w+)\(', SCRIPT.read_text(encoding="utf-8"), re.MULTILINE
    )
}
"""What must be said about each script, as its decorator has it."""


@pytest.fixture(scope="module", params=STACKS)
def traced(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what each script left. One process imports torch and forks once for each."""
    folder = tmp_path_factory.mktemp("strangers")
    path = os.pathsep.join([str(ROOT), str(ROOT / "harness")])
    command = [str(python_of(request.param)), str(SCRIPT), str(folder), *OUTCOMES]
    subprocess.run(command, env={**sandbox.variables(threads=1), "PYTHONPATH": path}, check=True)
    return folder


@pytest.mark.parametrize("name", OUTCOMES)
def test_what_trains_is_said_to_train_and_a_mistake_is_found(traced: Path, name: str) -> None:
    """Values of every kind, updates by hand and harmless facts are no mistakes."""
    left = left_in(traced / name)
    failed = any(process.observation.raised for process in left.processes)
    found = conclude([name], int(failed), left)
    assert OUTCOMES[name] == found.outcome, (found.message, found.explanation, found.trouble)
