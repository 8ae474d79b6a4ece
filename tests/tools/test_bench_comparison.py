"""The file of trials, and a round of them on a real environment."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest

from gradmatrix.cli.main import main
from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Steps
from gradmatrix.measure.servers import make_servers
from gradmatrix.run.plan import PACKAGE, Limits
from gradmatrix.run.pool import Settings
from tests.conftest import NEWEST, ROOT, needs_fork, python_of, waits_until
from tests.tools.test_trials import make_trial
from tools import bench_comparison
from tools.__main__ import COMMANDS
from tools.bench_comparison import (
    EARLIER,
    OURS,
    TIME,
    Bench,
    Ledger,
    Wanted,
    code_digest,
    is_measured_by,
    kept_busy,
    tallies,
)

if TYPE_CHECKING:
    from tools.bench_comparison import Trial

TWO_CORES = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores",
)
SHORT = Wanted(comparisons=2, runs=1, rivals=0, budget_s=1.0, power_s=1.0)
READINGS = (
    (OURS, TIME),
    ("hyperfine", "summary, ratio - u > 1"),
    ("hyperfine", "Welch's t-test, p < 0.05"),
    ("pytest-benchmark", "mean:3%"),
    ("pytest-benchmark", "min:3%"),
)
"""The columns of the table in docs/timing.md."""


def bench(
    directory: Path, ledger: Ledger, wanted: Wanted = SHORT, python: Path = Path("no-python")
) -> Bench:
    """A round of short comparisons."""
    settings = Settings(Steps(), Limits(120.0, None, 1))
    return Bench("stack", python, settings, wanted, ledger, directory, lambda _text: None)


def test_what_was_measured_is_found_again(tmp_path: Path) -> None:
    """Each trial is written to the file at once."""
    added = Ledger.at(tmp_path / "new" / "trials.jsonl").add(make_trial(per_cent=5.0, number=3))
    again = Ledger.at(tmp_path / "new" / "trials.jsonl")
    assert ([added], True, False) == (
        again.trials,
        again.has(OURS, 5.0, 3),
        again.has(OURS, 5.0, 4),
    )


def test_half_a_line_is_dropped_and_the_next_trial_readable(tmp_path: Path) -> None:
    """The command was killed while it wrote."""
    path = tmp_path / "trials.jsonl"
    Ledger.at(path).add(make_trial(number=0))
    with path.open("ab") as file:
        file.write(msgspec.json.encode(make_trial(number=1))[:-9])
    Ledger.at(path).add(make_trial(number=2))
    assert [0, 2] == [each.number for each in Ledger.at(path).trials]


def test_a_line_that_is_no_trial_is_named(tmp_path: Path) -> None:
    """The file is not changed."""
    path = tmp_path / "trials.jsonl"
    Ledger.at(path).add(make_trial())
    path.write_bytes(content := path.read_bytes() + b'{"tool": 1}\n')
    with pytest.raises(UserError, match="line 2 is no trial"):
        Ledger.at(path)
    assert content == path.read_bytes()


def test_trials_of_other_settings_are_not_gone_on_with(tmp_path: Path) -> None:
    """The trials in the file had 120 s."""
    ledger = Ledger.at(tmp_path / "trials.jsonl")
    ledger.add(make_trial())
    with pytest.raises(UserError, match="asked for are stack and 1 s"):
        list(bench(tmp_path, ledger).run())


def test_trials_of_other_code_are_not_gone_on_with(tmp_path: Path) -> None:
    """The measuring code has changed. A file without a digest is refused too."""
    ledger = Ledger.at(tmp_path / "trials.jsonl")
    ledger.add(msgspec.structs.replace(make_trial(), limit_s=1.0))
    with pytest.raises(UserError, match="by other code: unknown"):
        list(bench(tmp_path, ledger).run())


@pytest.mark.parametrize(
    ("module", "addition", "same"),
    [
        ("measure/servers.py", '"""Words."""\n# more\n', True),
        ("measure/servers.py", "def unused() -> None: ...\n", True),
        ("measure/servers.py", "LEAD_IN = 2\n", False),
        ("measure/statistics.py", "ALPHA = 0.02\n", False),
        ("observe/clock.py", "SIZE = 64\n", False),
    ],
)
def test_only_code_that_measures_changes_the_digest(
    module: str, addition: str, same: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comment or an unused function does not change it, but a constant does."""
    for room in ("measure", "observe"):
        shutil.copytree(PACKAGE / room, tmp_path / room)
    monkeypatch.setattr(bench_comparison, "PACKAGE", tmp_path)
    before = code_digest.__wrapped__()
    with (tmp_path / module).open("a", encoding="utf-8") as file:
        file.write(addition)
    assert code_digest() == before
    assert same == (before == code_digest.__wrapped__())


def test_trials_of_a_known_earlier_digest_count(tmp_path: Path) -> None:
    """Its code means the same as today's."""
    for earlier, today in EARLIER.items():
        trial = msgspec.structs.replace(make_trial(), code=earlier)
        assert (True, False) == (is_measured_by(today, trial), is_measured_by("other", trial))


def test_what_a_trial_was_judged_by_is_kept(tmp_path: Path) -> None:
    """Another estimate can be tried later without measuring again.

    The file has each generation of each set.
    """
    sets = [[np.full((3, 4, 2), 0.01), np.full((5, 4, 2), 0.02)], [np.full((1, 4, 2), 0.03)]]
    Ledger.at(tmp_path / "trials.jsonl").keep(make_trial(per_cent=5.0, number=7), sets)
    with np.load(tmp_path / "trials.jsonl.blocks" / "5-7.npz") as kept:
        found = {name: (kept[name].shape[0], float(kept[name][0, 0, 0])) for name in kept.files}
    assert {"0-0": (3, 0.01), "0-1": (5, 0.02), "1-0": (1, 0.03)} == found


@TWO_CORES
def test_nothing_is_measured_again(tmp_path: Path) -> None:
    """If all trials are known, no server is started. Its Python does not exist."""
    ledger = Ledger.at(tmp_path / "trials.jsonl")
    known = [(0.0, 0), (0.0, 1), (5.0, 0), (2.0, 0)]
    for per_cent, number in known:
        made = make_trial(per_cent=per_cent, number=number)
        ledger.add(msgspec.structs.replace(made, limit_s=1.0, code=code_digest()))
    assert [] == list(bench(tmp_path, ledger).run())


def test_a_summary_of_a_file_measures_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints the table, and the exit code says whether a bound is missed."""
    ledger = Ledger.at(tmp_path / "trials.jsonl")
    ledger.add(make_trial("inconclusive", per_cent=5.0))
    code = main(["bench-comparison", "--summary", "--output", str(ledger.path)], COMMANDS)
    assert (1, True) == (
        code,
        "0 of 1 slowed by 5 % were called slower in time" in capsys.readouterr().out,
    )


def test_a_narrow_terminal_shows_whole_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe has eighty columns. Long lines are better than numbers that are cut off."""
    ledger = Ledger.at(tmp_path / "trials.jsonl")
    ledger.add(make_trial("faster", busy=True))
    ledger.add(make_trial())
    main(["bench-comparison", "--summary", "--output", str(ledger.path)], COMMANDS)
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert (
        "0 % gradmatrix, step time, other core busy 1 0 0 1 0 0 100.0% 2.5% to 100.0% 2.00% 30"
        in rows
    )


def test_a_summary_says_where_other_code_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its verdicts may be different now."""
    ledger = Ledger.at(tmp_path / "trials.jsonl")
    ledger.add(msgspec.structs.replace(make_trial(), code=code_digest()))
    main(["bench-comparison", "--summary", "--output", str(ledger.path)], COMMANDS)
    assert "note" not in capsys.readouterr().out
    ledger.add(msgspec.structs.replace(make_trial(number=1), code="0123456789ab"))
    main(["bench-comparison", "--summary", "--output", str(ledger.path)], COMMANDS)
    assert "note: some trials were measured by other code: 0123456789ab" in capsys.readouterr().out


def test_a_summary_of_nothing_is_bad_input(tmp_path: Path) -> None:
    """There is no table to print."""
    assert 2 == main(
        ["bench-comparison", "--summary", "--output", str(tmp_path / "none.jsonl")], COMMANDS
    )


@TWO_CORES
def test_the_last_core_is_kept_busy_while_it_lasts() -> None:
    """A process runs on that core only, and ends afterwards."""
    with kept_busy() as pid:
        stat = Path(f"/proc/{pid}/stat")
        assert waits_until(lambda: stat.read_text(encoding="ascii").split()[13:15] != ["0", "0"])
        cores = os.sched_getaffinity(pid)
    assert ({max(os.sched_getaffinity(0))}, False) == (cores, stat.exists())


@pytest.mark.slow
@needs_fork
def test_a_round_compares_equal_sides_and_each_slowdown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two real servers a side run for the shortest possible comparison."""
    monkeypatch.setattr(bench_comparison, "make_servers", partial(make_servers, per_side=2))
    made: list[Trial] = list(
        bench(tmp_path, Ledger.at(tmp_path / "t.jsonl"), python=python_of(NEWEST)).run()
    )
    assert [(0.0, 0), (5.0, 0), (2.0, 0), (0.0, 1)] == [
        (each.per_cent, each.number) for each in made
    ]
    assert all(each.ratio is not None and TIME in each.verdicts for each in made)


@pytest.mark.parametrize(
    ("per_cent", "name"), [(0.0, "equal sides"), (2.0, "2 % more"), (5.0, "5 % more")]
)
def test_the_docs_say_what_was_measured(per_cent: float, name: str) -> None:
    """Each row of the table comes from published trials. The bounds of the contract are met."""
    found = {
        (tally.tool, tally.reading): tally
        for tally in tallies(Ledger.at(ROOT / "results" / "bench" / "comparison.jsonl").trials)
        if (tally.per_cent, tally.busy) == (per_cent, None)
    }
    cells = [
        f"{found[each].right} of {found[each].of}" if each in found else "–" for each in READINGS
    ]
    row = "| " + " | ".join([name, *cells]) + " |"
    page = (ROOT / "docs" / "timing.md").read_text(encoding="utf-8")
    assert (True, True) == (found[OURS, TIME].met, row in page), row


@pytest.mark.parametrize(
    ("per_cent", "name"), [(0.0, "equal sides"), (2.0, "2 % more"), (5.0, "5 % more")]
)
def test_the_docs_say_what_is_measured_so_far(per_cent: float, name: str) -> None:
    """Each row comes from the trials so far, which meet the bounds."""
    trials = Ledger.at(ROOT / "results" / "bench" / "trials.jsonl").trials
    (found,) = (
        tally
        for tally in tallies(trials)
        if (tally.per_cent, tally.busy, tally.reading) == (per_cent, None, TIME)
    )
    row = f"| {name} | {found.right} of {found.of} |"
    page = (ROOT / "docs" / "timing.md").read_text(encoding="utf-8")
    assert (True, True) == (found.met, row in page), row
