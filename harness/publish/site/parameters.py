"""The gradient table: parameters that fared alike share a line."""

from __future__ import annotations

from functools import lru_cache
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING

from harness.learning import entries
from harness.publish.site.markup import safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.observation import Parameter

ALIKE = attrgetter("gradients", "changed", "learns", "held", "frozen", "dtype", "learning_rate")
NAME = attrgetter("name")
HEAD = (
    '<table class="parameters"><caption>Gradients in the audited steps</caption><thead><tr>'
    '<th scope="col">parameters</th><th scope="col">gradients</th><th scope="col">changed</th>'
    '<th scope="col">should learn</th><th scope="col">in an optimizer</th><th scope="col">learning rate</th>'
    '<th scope="col">dtype</th></tr></thead><tbody>'
)
END = "</tbody></table>"
LETTERS = {"n": "none", "z": "zero", "f": "finite", "x": "non-finite"}


def parameter_table(parameters: Sequence[Parameter]) -> str:
    """A line for each group of parameters with the same gradients, state and learning rate."""
    states = list(map(ALIKE, parameters))
    named = tuple(map(NAME, parameters))
    groups = dict.fromkeys(states)
    if len(groups) == 1:
        members = {states[0]: named}  # of most cells that train, and quicker
    else:
        members = {state: tuple(compress(named, map(state.__eq__, states))) for state in groups}
    return (
        HEAD + "".join(line(state, names(each, "" if state[1] else " open")) for state, each in members.items()) + END
    )


@lru_cache(maxsize=4096)
def names(members: tuple[str, ...], opened: str) -> str:
    """The names of a group, those that differ by numbers only as one; a list to be opened where there are several."""
    told = [text.rpartition(": ")[0] for text in entries({tuple(name.split(".")): 1 for name in members})]
    count = f"{len(members)} parameter{'s' if len(members) > 1 else ''}"
    html = "<br>".join(f"<code>{safe(each)}</code>" for each in told)
    return html if len(members) == 1 else f"<details{opened}><summary>{count}</summary>{html}</details>"


@lru_cache(maxsize=4096)
def line(state: tuple[object, ...], group: str) -> str:
    """One line of the table."""
    gradients, changed, learns, held, frozen, dtype, rate = state
    learns_text = "yes" if learns else "no: frozen" if frozen else "no"
    shown = "" if rate is None else safe(rate) if isinstance(rate, str) else f"{rate:.3g}"
    return (
        f'<tr><th scope="row">{group}</th><td><code>{safe(str(gradients))}</code> {best(str(gradients))}</td>'
        f"<td>{yes(changed)}</td><td>{learns_text}</td><td>{yes(held)}</td><td>{shown}</td>"
        f"<td>{safe(str(dtype))}</td></tr>"
    )


def best(gradients: str) -> str:
    """The letters of the steps in words."""
    return ", ".join(LETTERS.get(letter, "") for letter in dict.fromkeys(gradients)) or "never looked at"


def yes(value: object) -> str:
    """A state as a word."""
    return "yes" if value else "no"
