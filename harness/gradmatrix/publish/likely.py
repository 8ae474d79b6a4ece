"""Which cause of a message is likely, by what else stands in the text that somebody pasted.

Evidence is a file that a traceback passes, or a word. A cause has it if one of its variants shows
it: in a traceback of its own, in its name, summary or packages, or in the words of the cause in
``judge/causes.py``. Evidence weighs the more, the fewer causes of the message have it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from gradmatrix.core.text import listed
from gradmatrix.publish.search import RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gradmatrix.core.model import Cell, Scenario
    from gradmatrix.publish.site.messages import Cause, Message

    Tracebacks = Callable[[Iterable[Cell]], Mapping[Cell, str]]
    "Returns the tracebacks of some cells, for those that raised an exception."

FILE = re.compile(r"[^\s\"'()]*/[^\s\"'()]*\.py\b")
PACKAGES = re.compile(r".*(?:site|dist)-packages/")
"""What stands before the packages of an environment in a path."""
OF_PACKAGES = re.compile(r'File "[^"\n]*(?:site|dist)-packages/[^"\n]*", line [^\n]*\n[^\n]*')
"""A frame of a traceback in a package, with a line of the package's code."""
NAME = re.compile(r"[a-z][a-z0-9_]+")
COMMON = 0.5
"""A word that a larger share of the scenarios' scripts has is a word of every script."""
MOST_NAMED = 2
"""The most files or words that are named."""


class Likely(NamedTuple):
    """A cause of a message, and what in the pasted text speaks for it."""

    cause: Cause
    because: str
    """Such as "your traceback passes torch/utils/checkpoint.py"; empty without evidence."""


class Clue(NamedTuple):
    """Something in the pasted text that not every cause has."""

    word: str
    """A word, or the path of a file."""
    path: str
    """The file whose path has the word; empty for a word of the text."""


def likeliest_first(
    pasted: str,
    message: Message,
    scenarios: Mapping[str, Scenario],
    sources: Mapping[str, str],
    tracebacks: Tracebacks,
) -> list[Likely]:
    """The causes of ``message``, the likeliest first. Without evidence their order stays.

    Args:
        pasted: The text in which the message was found.
        message: The message.
        scenarios: All scenarios, by name.
        sources: The text of each scenario's script.
        tracebacks: Where the tracebacks of cells are looked up.
    """
    text = pasted[-RULES.longest :].replace("\\", "/")
    paths = list(dict.fromkeys(PACKAGES.sub("", path) for path in FILE.findall(text)))
    known = tracebacks(newest_cells(message)) if paths else {}
    shown = [shown_by(cause, scenarios, known) for cause in message.causes]
    spread = Counter(each for words in shown for each in words)
    common = Counter(word for source in sources.values() for word in names(source))
    around = names(FILE.sub(" ", OF_PACKAGES.sub(" ", text))) - names(message.text)
    clues = [
        clue
        for clue in (*clues_of(paths, spread), *(Clue(word, "") for word in sorted(around)))
        if spread[clue.word] and common[clue.word] <= COMMON * len(sources)
    ]
    weight = {clue: math.log(len(shown) / spread[clue.word]) for clue in clues}
    found = [
        (cause, {clue: weight[clue] for clue in clues if clue.word in words and weight[clue]})
        for cause, words in zip(message.causes, shown, strict=True)
    ]
    found.sort(key=lambda each: -round(sum(each[1].values()), 6))
    passing = "your traceback passes" if 'File "' in text else "your text names"
    return [Likely(cause, because(clues, passing)) for cause, clues in found]


def clues_of(paths: Iterable[str], known: Mapping[str, int]) -> Iterable[Clue]:
    """Each file that a cell's traceback passes too; of others, the words of their paths."""
    for path in paths:
        found = next((each for each in known if f"/{path}".endswith(f"/{each}")), None)
        if found is not None and "/" in found:
            yield Clue(found, found)
        elif not path.startswith("/"):  # it is in a package
            yield from (Clue(word, path) for word in sorted(names(path.removesuffix(".py"))))


def newest_cells(message: Message) -> list[Cell]:
    """The newest cell of each variant with the message."""
    return [variant.rows[0].cell for cause in message.causes for variant in cause.variants]


def shown_by(
    cause: Cause, scenarios: Mapping[str, Scenario], tracebacks: Mapping[Cell, str]
) -> set[str]:
    """The words and the files that a cause or one of its variants shows."""
    row = cause.row
    texts = [row.situation, row.mend, row.meaning, row.advice] if row is not None else []
    files: set[str] = set()
    for found in cause.variants:
        files |= set(FILE.findall(tracebacks.get(found.rows[0].cell, "")))
        texts += [found.scenario, found.variant]
        if found.scenario in scenarios:
            for variant in scenarios[found.scenario].variants:
                if variant.name == found.variant:
                    texts += [variant.summary, *variant.needs]
    return files.union(*map(names, texts))


def names(text: str) -> set[str]:
    """The words of a text in small letters, and the parts of those with underscores."""
    found = set(NAME.findall(text.lower()))
    return found.union(*(word.split("_") for word in found)) - {""}


def because(clues: Mapping[Clue, float], passing: str) -> str:
    """What speaks most for a cause: files, or else words. ``passing`` stands before the files."""
    heaviest = sorted(clues, key=lambda clue: -clues[clue])
    paths = list(dict.fromkeys(clue.path for clue in heaviest if clue.path))[:MOST_NAMED]
    words = [f"`{clue.word}`" for clue in heaviest if not clue.path][:MOST_NAMED]
    if paths:
        return f"{passing} {listed(paths)}"
    return f"your text has {listed(words)}" if words else ""
