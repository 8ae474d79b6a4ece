"""A console that records what is printed, and text that could harm a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gradmatrix.core.model import Role
from tests.factories import make_scenario, make_variant

HOSTILE = "\x1b[31m[red]two\x1b[0m\nlines[/] \u202egnp.exe [/nonsense]"
HARMLESS = "[red]two lines[/] gnp.exe [/nonsense]"
SCENARIO = make_scenario(
    "sums",
    make_variant("plain"),
    make_variant("odd", Role.REPORTED),
    make_variant("frozen", Role.MISUSE),
)


@pytest.fixture(autouse=True)
def _wide_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print as into a wide file: no colours and no folded lines, whatever the settings are."""
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def console() -> Console:
    """A wide console that is no terminal, and records what is printed."""
    return Console(
        file=io.StringIO(),
        width=120,
        record=True,
        highlight=False,
        color_system=None,
        force_terminal=False,
    )


def shown(console: Console) -> list[str]:
    """The printed lines, without blanks at their ends."""
    return [line.rstrip() for line in console.export_text().splitlines()]
