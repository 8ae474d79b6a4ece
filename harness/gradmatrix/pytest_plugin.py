"""Tests that say whether training really trains: a fixture, a marker and an option of pytest.

    def test_it_trains(watch):
        with watch(steps=4) as seen:
            train(model, steps=4)
        seen.assert_trains()

    @pytest.mark.trains(steps=4, ignore=["embed.*"])
    def test_it_trains_too():
        train(model, steps=4)

``pytest --gradients`` watches every test that runs after torch was imported, and says at the end
which ones trained what.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gradmatrix.watching import watch as Watch  # noqa: N812  (it is used like a function)

MARKER = (
    "trains(steps=None, ignore=()): fail unless everything that should learn does. steps: how many "
    "optimizer steps are looked at; ignore: patterns of parameter names that need not learn"
)
VERDICTS = (AssertionError, pytest.fail.Exception, pytest.skip.Exception, pytest.xfail.Exception)
"""What a test raises to fail or to end early."""
PROPERTY = "gradmatrix"
"""The user property of a test's report that says what it trained."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--gradients``."""
    parser.getgroup("gradmatrix").addoption(
        "--gradients",
        action="store_true",
        help="watch all tests, and say at the end which ones trained what (gradmatrix)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture(name="watch")
def watch_fixture() -> type[Watch]:
    """``gradmatrix.watch``: a context in which training is watched."""
    from gradmatrix.watching import watch

    return watch


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[Any]:
    """Watch a test that is marked, or any test with ``--gradients``."""
    marker = item.get_closest_marker("trains")
    asked = item.config.getoption("gradients") and "torch" in sys.modules
    if marker is None and not asked:
        return (yield)
    from gradmatrix.watching import watch

    if asked and watch.modules is None:
        item.config.add_cleanup(watch.follow_modules())
    steps, ignore = asked_of(marker)
    block = watch(steps)
    block.gives_way = block.only_training = marker is None
    raised: BaseException | None = None
    try:
        with block:
            try:
                result = yield
            except VERDICTS as error:  # it says nothing about the training
                raised = error
    except BaseException as error:  # noqa: BLE001  (it goes on below)
        raised = error
    line = summary(block)
    if asked and line:
        item.user_properties.append((PROPERTY, line))
    if raised is not None:
        # a block in the test may have failed, and says the same
        found = block.diagnosis.text if block.ended and block.diagnosis else (str(block),)
        if (marker is not None or line) and not all(each in str(raised) for each in found):
            item.add_report_section("call", "gradmatrix", str(block))
        raise raised
    if marker is not None and (problem := problem_of(block, ignore)):
        pytest.fail(problem, pytrace=False)
    return result


def problem_of(seen: Watch, ignore: tuple[str, ...]) -> str:
    """Why a marked test fails; empty if everything that should learn does."""
    try:
        seen.assert_trains(ignore=ignore)
    except AssertionError as error:
        return str(error)
    return ""


def asked_of(marker: pytest.Mark | None) -> tuple[int | None, tuple[str, ...]]:
    """What a marker asks for: the steps, and the names to ignore.

    Raises:
        pytest.UsageError: if it has other arguments.
    """
    given = dict(marker.kwargs) if marker is not None else {}
    steps, ignore = given.pop("steps", None), given.pop("ignore", ())
    if given or (marker is not None and marker.args):
        raise pytest.UsageError(f"@pytest.mark.trains takes steps=N and ignore=[…]: {marker}")
    return steps, (ignore,) if isinstance(ignore, str) else tuple(ignore)


def summary(seen: Watch) -> str:
    """What a test trained, in one line; empty if it trained nothing, or if that is not judged."""
    from gradmatrix.core.outcomes import UNSEEN
    from gradmatrix.core.text import counted

    if not seen.ended:
        return ""
    found = seen.judged
    whole = found.observation
    if whole is None or not (whole.steps or whole.updates or whole.backward):
        return ""
    if found.outcome == UNSEEN:
        return ""
    trainable = [row for row in whole.parameters if row.learns]
    learn = sum("f" in row.gradients and row.changed for row in trainable)
    steps = counted(whole.steps or whole.updates, "step")
    told = f"{found.outcome}, {steps}, {learn} of {counted(len(trainable), 'parameter')} learn"
    return told if found.diagnosis is None else f"{told}: {found.diagnosis.cause}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which tests trained what, those first that do not train."""
    if not terminalreporter.config.getoption("gradients"):
        return
    reports = [
        report
        for kind in ("passed", "failed")
        for report in terminalreporter.getreports(kind)
        if report.when == "call"
    ]
    lines = [
        (line.startswith("trains"), report.nodeid, line)
        for report in reports
        for name, line in report.user_properties
        if name == PROPERTY
    ]
    terminalreporter.section("gradients")
    for trains, nodeid, line in sorted(lines):
        terminalreporter.write_line(f"{nodeid}: {line}", green=trains, red=not trains)
    trained = sum(trains for trains, _, _ in lines)
    terminalreporter.write_line(
        f"{trained} tests train, {len(lines) - trained} do not train all that should learn, "
        f"{len(reports) - len(lines)} train nothing or cannot be judged"
    )
