"""The search finds what people pasted, with noise around it, and nothing about other problems."""

from __future__ import annotations

import random
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradmatrix.cli.history import newest_table
from gradmatrix.publish.publication import sources_of
from gradmatrix.publish.site.messages import Messages, messages
from gradmatrix.publish.site.tables import View
from gradmatrix.run.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradmatrix.publish.search import Search

ROOT = Path(__file__).parent.parent.parent
REAL = tomllib.loads((Path(__file__).parent / "messages.toml").read_text(encoding="utf-8"))
OURS, FOREIGN = REAL["ours"], [each["pasted"] for each in REAL["foreign"]]
DRAWN = 30
"""How often noise is put around each message."""
ENOUGH = 0.95
"""The share of noisy messages whose entry must come first."""
SHORT = 60
"""A line of so many characters is not cut: a title or a narrow terminal has room for it."""
BEFORE = """\
Traceback (most recent call last):
  File "/home/me/train.py", line 120, in <module>
    trainer.fit(model, loader)
  File "/usr/lib/python3.11/site-packages/torch/_tensor.py", line 522, in backward
    torch.autograd.backward(
"""
LOGS = (
    "2025-03-01 12:00:01,339 [INFO] epoch 0:  12%|█▏        | 12/100 [00:03<00:25,  3.4it/s]",
    "{'loss': 0.6931, 'grad_norm': 1.25, 'learning_rate': 5e-05, 'epoch': 0.1}",
    "wandb: Run data is saved locally in /home/me/wandb/run-20250301_120001-x1y2z3",
    "[rank0]:[W301 12:00:01 ProcessGroupNCCL.cpp:1250] Warning: process group was not destroyed",
    "Loading checkpoint shards: 100%|██████████| 2/2 [00:05<00:00,  2.61s/it]",
)
CHINESE = ("请问各位大佬这个怎么解决", "训练的时候报错", "感谢", "我用的是单卡")
PREFIXES = ("UserWarning: ", "/a/b/x.py:31: FutureWarning: ", "E   ", "> ", "[rank1]: ", "Error: ")


class Noise(NamedTuple):
    """What stands around and inside a pasted message."""

    seed: int
    kinds: frozenset[str]

    def around(self, text: str) -> str:
        """The message with the noise."""
        chance = random.Random(self.seed)  # noqa: S311 - hypothesis draws the seed
        for kind in sorted(self.kinds):
            text = KINDS[kind](text, chance)
        return text


def cut(text: str, chance: random.Random) -> str:
    """The message without its end, as a title or a terminal cuts a long line."""
    last = text.splitlines()[-1]
    return text[: len(text) - chance.randint(0, max(0, min(len(last) // 3, len(last) - SHORT)))]


def other_numbers(text: str, chance: random.Random) -> str:
    """The message with other digits."""
    return "".join(chance.choice("0123456789") if each.isdigit() else each for each in text)


def broken(text: str, chance: random.Random) -> str:
    """The message with some spaces as line breaks."""
    return "".join("\n  " if each == " " and chance.random() < 0.2 else each for each in text)


def coloured(text: str, chance: random.Random) -> str:
    """The message in the colours of a terminal."""
    spot = chance.randint(0, len(text))
    return f"\x1b[1;31m{text[:spot]}\x1b[0m\x1b[38;5;{spot % 256}m{text[spot:]}\x1b[0m"


def logged(text: str, chance: random.Random) -> str:
    """The message between lines of a log."""
    return "\n".join((*chance.sample(LOGS, 2), text, chance.choice(LOGS)))


KINDS: dict[str, Callable[[str, random.Random], str]] = {
    "1 cut": cut,
    "2 numbers": other_numbers,
    "3 breaks": broken,
    "4 prefix": lambda text, chance: chance.choice(PREFIXES) + text,
    "5 colours": coloured,
    "6 traceback": lambda text, _: BEFORE + text,
    "7 log": logged,
    "8 chinese": lambda text, chance: chance.choice(CHINESE) + text + chance.choice(CHINESE),
}
"""The kinds of noise, in the order in which they are added."""
NOISE = st.builds(
    Noise, st.integers(0, 2**32), st.frozensets(st.sampled_from(sorted(KINDS)), min_size=1)
)


@pytest.fixture(scope="module")
def said() -> Messages:
    """The messages of the committed records."""
    project = Project.at(ROOT)
    table = newest_table(project)
    return messages(View(table), sources_of(project, table).values())


@pytest.fixture(scope="module")
def search(said: Messages) -> Search:
    """The search for them."""
    return said.search


def is_first(said: Messages, search: Search, pasted: str, finds: str) -> bool:
    """Whether the entry with these words comes first."""
    found = search.best(pasted).found
    return bool(found) and finds in said.known[found[0]].text


def test_there_are_enough_real_messages() -> None:
    """They come from reports, forums and issues."""
    assert (len(OURS) >= 60, len(FOREIGN) >= 20) == (True, True)


@pytest.mark.parametrize("real", OURS, ids=lambda each: " ".join(each["pasted"].split())[:60])
def test_a_real_message_is_found_first(
    said: Messages, search: Search, real: dict[str, str]
) -> None:
    """Its answer has the cause of the report."""
    best = search.best(real["pasted"])
    assert best.found, [said.known[number].text for number in best.guesses]
    first = said.known[best.found[0]]
    assert real["finds"] in first.text
    assert real.get("cause", "") in {"", *(each.cause for each in first.causes)}


@pytest.mark.parametrize("pasted", FOREIGN, ids=lambda each: " ".join(each.split())[:60])
def test_a_message_about_another_problem_finds_nothing(
    said: Messages, search: Search, pasted: str
) -> None:
    """A wrong answer costs a reader more than none."""
    best = search.best(pasted)
    assert [] == [said.known[number].text for number in best.found]
    assert len(best.guesses) <= 3


def test_noise_does_not_hide_a_message(said: Messages, search: Search) -> None:
    """Of all real messages with noise, nearly all are found first."""
    missed: Counter[str] = Counter()
    drawn = 0

    @settings(max_examples=DRAWN, deadline=None, derandomize=True, database=None)
    @given(NOISE)
    def look(noise: Noise) -> None:
        nonlocal drawn
        for real in OURS:
            drawn += 1
            pasted = noise.around(real["pasted"].strip())
            if not is_first(said, search, pasted, real["finds"]):
                missed[real["pasted"]] += 1

    look()
    assert drawn >= DRAWN * len(OURS)
    assert missed.total() <= (1 - ENOUGH) * drawn, missed


@settings(max_examples=DRAWN, deadline=None, derandomize=True)
@given(NOISE, st.sampled_from(FOREIGN))
def test_noise_makes_no_message_ours(search: Search, noise: Noise, pasted: str) -> None:
    """A traceback and lines of a log say nothing about gradients."""
    assert [] == search.best(noise.around(pasted)).found


@settings(max_examples=DRAWN, deadline=None)
@given(st.text(max_size=200))
def test_any_text_may_be_searched(search: Search, text: str) -> None:
    """It never raises."""
    best = search.best(text)
    assert not (best.found and best.guesses)


def test_what_scenarios_print_is_no_message_of_a_user(said: Messages) -> None:
    """It is listed apart, and so are variants that differ and should agree."""
    own = "\n".join(each.text for each in said.own)
    known = "\n".join(each.text for each in said.known)
    for text in ("training_step: is_grad_enabled", "the gradient is 4 times", "of uneven_exact"):
        assert (text in own, text in known) == (True, False)
