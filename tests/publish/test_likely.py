"""The causes of a message are in the order of what else stands in the pasted text."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from gradmatrix.cli.history import newest_table
from gradmatrix.cli.why import tracebacks
from gradmatrix.publish.likely import likeliest_first
from gradmatrix.publish.publication import sources_of
from gradmatrix.publish.site.messages import Cause, Message, Variant, messages
from gradmatrix.publish.site.tables import View
from gradmatrix.run.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gradmatrix.core.model import Cell
    from gradmatrix.publish.likely import Likely
    from gradmatrix.publish.rows import Table

ROOT = Path(__file__).parent.parent.parent
PASTED = tomllib.loads((Path(__file__).parent / "messages.toml").read_text(encoding="utf-8"))
NO_GRAPH = "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn"
ENOUGH = 0.85
"""The share of variants whose cause comes first; without evidence it was half of them."""


class Matrix(NamedTuple):
    """The committed records."""

    table: Table
    sources: Mapping[str, str]
    errors: list[Message]
    said: Mapping[Cell, str]
    """The traceback of each cell that raised an exception."""

    def ordered(self, pasted: str, message: Message) -> list[Likely]:
        """The causes of a message, the likeliest first."""
        return likeliest_first(
            pasted, message, self.table.scenarios, self.sources, lambda _: self.said
        )


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    """The committed records, and the messages in them with several causes."""
    project = Project.at(ROOT)
    table = newest_table(project)
    sources = sources_of(project, table)
    known = messages(View(table), sources.values())
    errors = [message for message in known.errors if len(message.causes) > 1]
    cells = [variant.rows[0].cell for _, _, variant in variants(errors)]
    return Matrix(table, sources, errors, tracebacks(project, cells))


def variants(errors: list[Message]) -> Iterator[tuple[Message, Cause, Variant]]:
    """Every variant with a message."""
    return (
        (message, cause, variant)
        for message in errors
        for cause in message.causes
        for variant in cause.variants
    )


def without(message: Message, left_out: Variant) -> Message:
    """A message that no cell of a variant had."""
    return message._replace(
        causes=[
            cause._replace(
                variants=[
                    each
                    for each in cause.variants
                    if (each.scenario, each.variant) != (left_out.scenario, left_out.variant)
                ]
            )
            for cause in message.causes
        ]
    )


def no_graph(matrix: Matrix) -> Message:
    """The message with the most causes."""
    return next(each for each in matrix.errors if each.text == NO_GRAPH)


def test_the_traceback_of_a_variant_finds_its_cause_by_the_other_variants(matrix: Matrix) -> None:
    """As a user's traceback does: paths of an environment stand in it, and no cell of the user."""
    right = []
    for message, cause, variant in variants(matrix.errors):
        said = matrix.said.get(variant.rows[0].cell)
        if said is not None:
            pasted = re.sub(r'File "(?=[^"]*/)', 'File "/env/lib/python3.11/site-packages/', said)
            first = matrix.ordered(pasted, without(message, variant))[0]
            right.append(first.cause.cause == cause.cause)
    assert len(right) > 30
    assert ENOUGH <= sum(right) / len(right)


@pytest.mark.parametrize("each", PASTED["ours"])
def test_no_pasted_message_gets_its_cause_later_than_without_evidence(
    matrix: Matrix, each: dict[str, str]
) -> None:
    """The messages are those that people pasted; each names a cause that it must have."""
    for message in matrix.errors:
        before = [cause.cause for cause in message.causes]
        if each.get("finds", "") in message.text and each.get("cause") in before:
            after = [found.cause.cause for found in matrix.ordered(each["pasted"], message)]
            assert after.index(each["cause"]) <= before.index(each["cause"])


@pytest.mark.parametrize(
    ("pasted", "cause", "because"),
    [
        (
            'File "/env/lib/python3.11/site-packages/trl/trainer/grpo_trainer.py", line 9, in f',
            "checkpoint-inputs",
            "your traceback passes trl/trainer/grpo_trainer.py",
        ),
        (
            r'File "C:\env\Lib\site-packages\torch\utils\checkpoint.py", line 9, in checkpoint',
            "checkpoint-inputs",
            "your traceback passes torch/utils/checkpoint.py",
        ),
        (
            "/env/site-packages/torch/utils/checkpoint.py:31: UserWarning: None of the inputs",
            "checkpoint-inputs",
            "your text names torch/utils/checkpoint.py",
        ),
        ("my T5 under Lightning", "closure-without-grad", "your text has `t5` and `lightning`"),
        ("I train in mixed precision", "autocast-cache", "your text has `mixed` and `precision`"),
        ("all my parameters require a gradient", "checkpoint-inputs", ""),
    ],
)
def test_it_is_said_what_speaks_for_the_first_cause(
    matrix: Matrix, pasted: str, cause: str, because: str
) -> None:
    """Words that every script has say nothing: then the most frequent cause stays first."""
    first = matrix.ordered(f"{pasted}\n{NO_GRAPH}", no_graph(matrix))[0]
    assert (cause, because) == (first.cause.cause, first.because)
