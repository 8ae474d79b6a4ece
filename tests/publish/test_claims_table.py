"""Claims for readers: the table in README, and claims.json."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING

import msgspec
import pytest

from gradmatrix.publish.claims.judge import judge
from gradmatrix.publish.formats import (
    ClaimsDocument,
    claims_block,
    claims_json,
    claims_table,
    coded,
)
from tests.claimed import make_claim, make_expectation, make_row, make_table

if TYPE_CHECKING:
    from gradmatrix.publish.claims.claims import Judged


def confirmed(**fields: object) -> Judged:
    """A claim that one cell bears out."""
    return judge(make_claim(make_expectation(), **fields), make_table(make_row()))


def test_a_claim_is_a_row_with_its_source_and_verdict() -> None:
    """Symbol and word, never colour alone."""
    row = claims_table([confirmed(date=dt.date(2024, 4, 14))]).splitlines()[-1]
    assert row == (
        "| Upgrading solves it. | [owner/library#12](https://github.com/owner/library/issues/12), 2024-04-14 "
        "| [✓ confirmed](results/claims.html#upgrade) | reported trains on 1 of 1 stack |"
    )


def test_hostile_words_do_nothing() -> None:
    """No markup, no new column."""
    row = claims_table([confirmed(says="<script>x</script> a | b")]).splitlines()[-1]
    assert row.startswith(r"| &lt;script&gt;x&lt;/script&gt; a \| b | [owner/library#12]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`.to()` keeps none", "`.to()` keeps none"),
        ("call `a_b(x=True)` in `step`, not *here*", r"call `a_b(x=True)` in `step`, not \*here\*"),
        ("`one` `two`", "`one` `two`"),
        ("ends in \\`a`", r"ends in \\`a`"),
        ("an odd ` one", r"an odd \` one"),
        ("`a` and an odd ` one", r"\`a\` and an odd \` one"),
        ("``two``", r"\`\`two\`\`"),
        ("`a | b`", r"\`a \| b\`"),
        ("`<b>`", r"\`&lt;b&gt;\`"),
        ("`a\\`", r"\`a\\\`"),
        ("`a\nb`", "`a b`"),
    ],
)
def test_backticks_that_pair_up_are_code(text: str, expected: str) -> None:
    """Where they do not, or hold what could end a cell or be markup, all is escaped."""
    assert expected == coded(text)


def test_the_block_for_readme_counts_the_verdicts() -> None:
    """The table itself is long, and folded."""
    block = claims_block([confirmed(), confirmed()])
    assert "2 claims: ✓ 2 confirmed." == block.partition("\n")[0]
    assert claims_table([confirmed(), confirmed()]) in block


def test_the_json_has_every_cell_that_bears_on_a_claim() -> None:
    """As typed data."""
    (entry,) = msgspec.json.decode(claims_json([confirmed()]), type=ClaimsDocument).claims
    assert ("confirmed", ["new/amp/reported/cpu"]) == (
        entry.verdict,
        [each.cell for each in entry.evidence],
    )


def test_no_claims_are_an_empty_list() -> None:
    """The document is valid all the same."""
    assert {"schema": 1, "claims": []} == json.loads(claims_json([]))
