"""``bench-page``: what a matrix of 100,000 records costs to publish, and its first page to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from harness import bench_page
from harness.chromium import NoBrowser
from harness.commands.options import add
from harness.publish.text import plain

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from harness.project import Project


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    add(commands, "bench-page", bench_command, "measure publishing 100,000 records, and the first page in a browser")


def bench_command(_options: argparse.Namespace, project: Project, console: Console) -> int:
    """``bench-page``: print each ratio as it is measured; 1 where there is no browser to measure the page in."""
    try:
        for ratio in bench_page.measure(project):
            console.print(Text(str(ratio)), soft_wrap=True)
    except NoBrowser as missing:
        console.print(Text(f"The page was not measured. {plain(str(missing))}"), soft_wrap=True)
        return 1
    return 0
