"""The search for a message in what somebody pasted: a line, a whole log, or a few words.

A text is found if what was pasted has most of its pairs of neighbouring words, or a run of rare
ones, or if all of a short question is in it. Colours, addresses, numbers, fillers, other scripts
and the names of exceptions are left out first. Words around a message cost nothing.

``RULES`` are the patterns and limits. ``static/search.js`` reads them from errors.html and gives
the same answers.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from gradmatrix.core.observation import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Pair = tuple[str, ...]
    "Two neighbouring words; one, if a text has no more."


class Rules(Frozen, frozen=True, kw_only=True):
    """What counts as a word, and from when on a text counts as found.

    The patterns mean the same in Python and in JavaScript.
    """

    longest: int = 20_000
    """So many characters of a query count, those at its end."""
    colours: tuple[str, ...] = (
        r"(?:\x1b\[|\x9b)[0-9;?]*[ -/]*[@-~]",
        r"\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?",
    )
    """Colours, links and titles of a terminal. They may stand inside of a word."""
    ignored: tuple[str, ...] = (
        r"https?://[^ \t\r\n]+",
        r'File "[^"\n]*", line [0-9]+(?:, in [^ \t\r\n]+)?',
        r"[^ \t\r\n]*[/\\][^ \t\r\n]*\.py(?::[0-9]+:?)?",
        r"\b0x[0-9A-Fa-f]+",
    )
    word: str = r"[a-z][a-z_]+"
    """A word, in small letters. Numbers and letters of other scripts are none."""
    plural: str = r"([a-z]{3}[^su])s$"
    """Where the plural of a word ends; the group stays."""
    kind: str = r"(?:error|warning|exception)$"
    """The end of the name of an exception: it only counts if nothing else was asked for."""
    filler: str = (
        "a an and are as at attribute be but by can did do does for from has have if import in is"
        " it its name not object of on or so than that the then this to was were will with you your"
    )
    few: int = 12
    """A query of so many words may be a question."""
    answered: float = 0.75
    """A question: the share of its words that the text must have."""
    contained: float = 0.6
    """The share of the text's pairs of words that the query must have."""
    run: float = 2.0
    """Or else the weight of neighbouring pairs; the rarest pair has a weight of 1."""
    error_first: float = 0.5
    """What an error has ahead of a warning that was pasted with it."""
    shorter: float = 0.1
    """What a text of one word has ahead of a long one, if both answer a question."""
    guesses: int = 3
    """How many texts are shown if none is found."""


RULES = Rules()
COLOURS = re.compile("|".join(RULES.colours))
IGNORED = re.compile("|".join(RULES.ignored))
WORD = re.compile(RULES.word)
PLURAL = re.compile(RULES.plural)
KIND = re.compile(RULES.kind)
FILLER = frozenset(RULES.filler.split())
SCALE = 1e6
"""Scores are compared as whole numbers, so that both languages put them in one order."""


class Answer(NamedTuple):
    """The numbers of the texts that were found, the best one first."""

    found: list[int]
    guesses: list[int]
    """If none was found: the nearest ones."""


def words(text: str) -> list[str]:
    """The words that matter, in the singular: without fillers if others are left."""
    plain = IGNORED.sub(" ", COLOURS.sub("", text)).lower()
    every = [PLURAL.sub(r"\1", each) for each in WORD.findall(plain)]
    return [each for each in every if each not in FILLER] or every


def without_kinds(of: Sequence[str]) -> list[str]:
    """The words without the names of exceptions, if others are left."""
    return [each for each in of if not KIND.search(each)] or list(of)


def pairs(of: Sequence[str]) -> list[Pair]:
    """The pairs of neighbouring words, each once."""
    return list(dict.fromkeys(pairwise(of) if len(of) > 1 else ((each,) for each in of)))


class Text:
    """A text in which messages are looked for, or what is looked for."""

    def __init__(self, every: Sequence[str]) -> None:
        self.words = list(dict.fromkeys(every))
        self.asked = list(dict.fromkeys(without_kinds(every)))
        self.pairs = pairs(without_kinds(every))


class Search:
    """Texts in which messages are looked for.

    Args:
        texts: what is found.
        errors: how many of them, from the first one on, are errors; the others are warnings.
    """

    def __init__(self, texts: Iterable[str], errors: int = 0) -> None:
        self.texts = [Text(words(text)) for text in texts]
        self.errors = errors
        self.spread: Counter[str | Pair] = Counter()
        for text in self.texts:
            self.spread.update(text.words)
            self.spread.update(text.pairs)
        self.after: dict[str, list[str]] = defaultdict(list)
        """The words that follow a word in a text."""
        for pair in self.spread:
            if isinstance(pair, tuple) and len(pair) > 1:
                self.after[pair[0]].append(pair[1])

    def best(self, query: str) -> Answer:
        """The texts that match ``query``."""
        asked = Text(self._completed(words(query[-RULES.longest :])))
        found = ordered([self._score(number, asked) for number in range(len(self.texts))])
        if found:
            return Answer(found, [])
        return Answer([], ordered([near(text, asked) for text in self.texts])[: RULES.guesses])

    def _completed(self, every: Sequence[str]) -> list[str]:
        """The words of a query; one that is cut at its end becomes the one that follows in a text.

        ``element of tensors does not requi`` is such a query.
        """
        found: list[str] = []
        for word in every:
            follow = self.after.get(found[-1], ()) if found and word not in self.spread else ()
            found.append(next((each for each in follow if each.startswith(word)), word))
        return found

    def _weight(self, each: str | Pair) -> float:
        """How rare a word or a pair is: 1 if at most one text has it, less if more have it."""
        size = len(self.texts)
        return math.log(1 + size / max(1, self.spread[each])) / math.log(1 + size)

    def _total(self, each: Iterable[str | Pair]) -> float:
        return sum(map(self._weight, each))

    def _score(self, number: int, asked: Text) -> float:
        """How well a text matches; 0 if it is not found."""
        text = self.texts[number]
        if not text.words or not asked.words:
            return 0
        common = set(text.pairs).intersection(asked.pairs)
        known = self._total(each for each in asked.pairs if each in self.spread)
        overlap = self._total(each for each in text.pairs if each in common)
        contained = overlap / self._total(text.pairs)
        is_there = contained >= RULES.contained or self._run(text, common) >= RULES.run
        answered = self._total(each for each in asked.asked if each in text.words)
        answered /= self._total(asked.asked)
        is_answer = len(asked.asked) <= RULES.few and answered >= RULES.answered
        if not is_there and not is_answer:
            return 0
        score = overlap / known if known else 0
        if is_there:
            score += contained + (RULES.error_first if number < self.errors else 0)
        if is_answer:
            score += answered + RULES.shorter / len(text.words)
        return score

    def _run(self, text: Text, common: set[Pair]) -> float:
        """The weight of the heaviest run of pairs of the text that the query has too."""
        best = run = 0.0
        for each in text.pairs:
            run = run + self._weight(each) if each in common else 0
            best = max(best, run)
        return best


def near(text: Text, asked: Text) -> float:
    """How near a text is that was not found: 0 unless it shares two words with the query."""
    common = sum(each in asked.asked for each in text.words)
    if common < min(2, len(asked.asked)) or not common:
        return 0
    return common / math.sqrt(len(text.words))


def ordered(scores: Sequence[float]) -> list[int]:
    """The places of the scores above 0, the highest one first."""
    whole = [math.floor(score * SCALE + 0.5) for score in scores]
    return sorted((n for n, score in enumerate(whole) if score), key=lambda n: -whole[n])
