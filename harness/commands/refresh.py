"""``refresh``: what the package index has that the matrix has not."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from rich.text import Text

from harness import refresh as refreshing
from harness.commands.options import add, again
from harness.publish.text import plain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from rich.console import Console

    from harness.project import Project
    from harness.refresh import News

HELP = "say what the package index has that the matrix has not, and write the stacks that [generate.*] tables give"


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    refresh = add(commands, "refresh", refresh_command, HELP)
    refresh.add_argument("--check", action="store_true", help="write nothing; exit with 1 where there is something new")
    refresh.add_argument("--json", action="store_true", help="as data")


def refresh_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``refresh``: with --check 1 where there is something new."""
    news = refreshing.refresh(project, dt.datetime.now(dt.UTC).date(), write=not options.check)
    if options.json:
        console.print(Text(refreshing.as_json(news).decode()), soft_wrap=True)
    else:
        for line in lines(news, again(options), wrote=not options.check):
            console.print(Text(plain(line)), soft_wrap=True)
    return 1 if options.check and news.anything else 0


def lines(news: News, same: str = "", *, wrote: bool) -> Iterator[str]:
    """What is told to people, a line each; ``same`` are the options that make the next command mean the same."""
    if not news.anything:
        but = ", as far as the notes below leave that to be told" if news.notices else ""
        yield f"The matrix has all that the package index has on {news.day}{but}."
    for release in news.releases:
        known = f"the newest that is locked is {release.locked}" if release.locked else "no lock has the package"
        yield f"release   {release.package} {release.version} of {release.released}: {known}"
    yield from (f"added     {name}" for name in news.added)
    yield from (f"removed   {name}: what was recorded is kept" for name in news.removed)
    yield from (f"unlocked  {name}" for name in news.unlocked)
    yield from (f"table     {place} is new or was changed since the index was read" for place in news.unread)
    for yanked in news.yanked:
        then = "the next lock is without it" if yanked.moves else "its lock is of its day, or asks for it, and stays"
        yield f"yanked    {yanked.package} {yanked.version} in {yanked.stack}: {then}"
    yield from (f"note: {notice}" for notice in news.notices)
    if news.suggestion:
        yield f"For matrix.toml, to keep a release beside what comes after it:\n\n{news.suggestion}"
    yield from _next_steps(news, same, wrote=wrote)


def _next_steps(news: News, same: str, *, wrote: bool) -> Iterator[str]:
    if (news.unread or news.added or news.removed) and not wrote:
        yield f"next: nox -s harness -- refresh{same}, which writes the generated stacks"
    elif news.added or news.unlocked or news.releases or any(yanked.moves for yanked in news.yanked):
        lock = f"nox -s lock --{same}" if same else "nox -s lock"
        yield f"next: {lock}, which locks what has no lock, and moves stacks as of today"
