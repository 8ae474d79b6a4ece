"""The search for a message: which texts share words with a pasted message or a few words.

Rare words count more; filler words, numbers and addresses do not count. Words in the order of the
query count more than scattered ones. ``static/search.js`` gives the same answers in errors.html.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ENOUGH = 0.6
ENOUGH_OF_A_QUESTION = 0.75
FEW_WORDS = 12
"""More than these are a message or a traceback, not a question."""
LONGEST = 2000
"""So much of a query counts, its end."""
FILLER = {
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "can", "do", "does", "for",
    "from", "has", "have", "i", "if", "in", "is", "it", "its", "not", "of", "on", "or", "so",
    "than", "that", "the", "then", "this", "to", "was", "will", "with", "you", "your",
}  # fmt: skip
NUMBERS = re.compile(r"0x[0-9a-f]+|\d{2,}(?:[.,:]\d+)*|\d(?:[.,:]\d+)+", re.ASCII)
WORDS = re.compile(r"(?:[^\W\d]){2,}|\b\d\b")
TRACEBACK = re.compile(r"Traceback \(most recent call last\)", re.IGNORECASE)
KIND = re.compile(r"(?:error|warning|exception)$")
"""The end of an exception's name. If no text has it, it does not count: a category in front."""
PLURAL = re.compile(r"(?<=[a-z]{3}[^su])s$")


def words(text: str) -> list[str]:
    """The words that matter, in the singular: without fillers if others are left."""
    parts = WORDS.findall(NUMBERS.sub(" ", text.lower()))
    core = [word for word in parts if word not in FILLER]
    return [PLURAL.sub("", word) for word in core or parts]


def told(text: str) -> str:
    """What a traceback says at its end; any other text as it is."""
    lines = text.strip().splitlines()
    inside = [number for number, line in enumerate(lines) if line[:1] in {" ", "\t"}]
    if not TRACEBACK.search(text) or not inside or inside[-1] == len(lines) - 1:
        return text
    return "\n".join(lines[inside[-1] + 1 :])


class Search:
    """Texts in which messages are looked for.

    Args:
        texts: what is found.
        others: texts that only tell how rare a word is.
    """

    def __init__(self, texts: Iterable[str], others: Iterable[str] = ()) -> None:
        self.texts = [words(text) for text in texts]
        known = [*self.texts, *map(words, others)]
        self.size = len(known)
        self.spread = Counter(word for each in known for word in set(each))

    def best(self, query: str) -> list[int]:
        """The numbers of the texts that match ``query``, the best one first."""
        asked = words(told(query.strip()[-LONGEST:]))
        known = [word for word in asked if word in self.spread or not KIND.search(word)]
        asked = known or asked
        scores = [self._score(text, asked) for text in self.texts] if asked else []
        return sorted((n for n, score in enumerate(scores) if score), key=lambda n: -scores[n])

    def _weight(self, word: str) -> float:
        return math.log(1 + self.size / (self.spread.get(word) or 0.5))

    def _total(self, each: Iterable[str]) -> float:
        return sum(map(self._weight, each))

    def _score(self, text: Sequence[str], asked: Sequence[str]) -> float:
        if not text:
            return 0
        is_question = len(asked) <= FEW_WORDS
        if f" {' '.join(asked)} " in f" {' '.join(text)} ":
            return 3 + 1 / len(text)
        if not is_question and f" {' '.join(text)} " in f" {' '.join(asked)} ":
            return 2 + self._total(set(text)) / 1e6
        share = self._covered(set(text), set(asked), is_question=is_question)
        if share < (ENOUGH_OF_A_QUESTION if is_question else ENOUGH):
            return 0
        return share / 2 + min(1, self._phrase(text, asked)) / 2

    def _covered(self, text: set[str], asked: set[str], *, is_question: bool) -> float:
        """The weight of the shared words.

        For a question it is a part of the question, else of the shorter of the two.
        """
        whole = self._total(asked)
        if not is_question:
            whole = min(self._total(text), whole)
        return self._total(asked & text) / whole if whole else 0

    def _phrase(self, text: Sequence[str], asked: Sequence[str]) -> float:
        """The heaviest run of words that stand in the same order, without a gap, in both."""
        best, before = 0.0, dict[int, float]()
        for word in asked:
            before = {
                place: before.get(place - 1, 0) + self._weight(word)
                for place, each in enumerate(text)
                if each == word
            }
            best = max([best, *before.values()])
        return best / max(1e-9, min(self._total(text), self._total(asked)))
