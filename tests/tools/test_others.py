"""What other checks say about a fault, beside what the healthy script prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.tools.test_corpus import script_in
from tools.corpus import Case
from tools.others import Notice, Said

if TYPE_CHECKING:
    from pathlib import Path

HEALTHY = Said(0, "loss 0.5", "loop.py:2: UserWarning: 3 workers\n")
ERROR = 'Traceback:\n  File "/tmp/loop.py", line {}, in <module>\nRuntimeError: no grad\n'


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (HEALTHY, (False, False)),
        (Said(0, "loss 0.7", "loop.py:9: UserWarning: 4 workers\n"), (False, False)),
        (Said(0, "loss nan", HEALTHY.stderr), (True, False)),
        (Said(1, "", ERROR.format(12)), (True, False)),
        (Said(1, "", ERROR.format(11)), (True, True)),
        (Said(0, "loss 0.5", "loop.py:11: UserWarning: no gradient\n"), (True, True)),
    ],
)
def test_a_fault_is_noticed_by_what_is_new(
    tmp_path: Path, said: Said, expected: tuple[bool, bool]
) -> None:
    """Numbers do not count; an accepted line does."""
    script = script_in(tmp_path)
    notice = Notice.of(Case(script, script.faults[0]), said, HEALTHY)
    assert expected == (notice.detected, notice.line)
