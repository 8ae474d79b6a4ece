"""Where each page is. All links are relative: a page at depth n reaches the others through n times ``../``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from gradmatrix.core.text import plain

if TYPE_CHECKING:
    from gradmatrix.core.model import Cell
    from gradmatrix.publish.rows import Row

INDEX = "index.html"
NUMBER = re.compile(r"(?<=-)\d+$")
"""The number of a signal or an exit code: one sentence explains them all."""
CLAIMS, ERRORS, HISTORY, QUERY = "claims.html", "errors.html", "history.html", "query.html"


@lru_cache(maxsize=65536)
def quoted(name: str) -> str:
    """A name as a part of an address."""
    return quote(name, safe="")


@lru_cache(maxsize=65536)
def anchor(scenario_name: str, variant_name: str, device: str) -> str:
    """Where a cell is on the page of its stack's evidence, as an ``id``; as an address it is ``quoted``."""
    return plain(f"{scenario_name}-{variant_name}-{device}")


def older(number: int) -> str:
    """The page of a window of older stacks, counted from 1; 0 is the first page."""
    return f"older-{number}.html" if number else INDEX


def stack(name: str) -> str:
    """The page of a stack."""
    return f"stacks/{quoted(name)}.html"


def scenario(name: str) -> str:
    """The page of a scenario."""
    return f"scenarios/{quoted(name)}.html"


def variant(scenario_name: str, name: str) -> str:
    """A variant on its scenario's page."""
    return f"{scenario(scenario_name)}#{quoted(plain(name))}"


def package(name: str) -> str:
    """The page of a package."""
    return f"packages/{quoted(name)}.html"


def evidence_page(stack_name: str) -> str:
    """The page with the evidence of the cells of a stack."""
    return f"cells/{quoted(stack_name)}.html"


def evidence_of(stack_name: str, scenario_name: str) -> str:
    """The evidence of the cells of a stack and scenario."""
    return f"{evidence_page(stack_name)}#{quoted(plain(scenario_name))}"


def evidence(cell: Cell | Row) -> str:
    """The evidence of a cell."""
    return f"{evidence_page(cell.stack)}#{quoted(anchor(cell.scenario, cell.variant, cell.device))}"


def remedy(row: Row) -> str | None:
    """The evidence of what was seen to train on the stack of a cell that does not."""
    if row.diagnosis is None or row.diagnosis.remedy is None:
        return None
    scenario_name, _, variant_name = row.diagnosis.remedy.partition("/")
    return f"{evidence_page(row.stack)}#{quoted(anchor(scenario_name, variant_name, row.device))}"


@lru_cache(maxsize=65536)
def claims_on(scenario_name: str, variant_name: str = "") -> str:
    """The claims that belong to a scenario, or those that rest on cells of one of its variants."""
    return f"{CLAIMS}#{quoted(on(scenario_name, variant_name))}"


def on(scenario_name: str, variant_name: str = "") -> str:
    """Their place on the page of the claims, as an ``id``: no claim's name has a slash."""
    return (
        plain(f"on/{scenario_name}/{variant_name}")
        if variant_name
        else plain(f"on/{scenario_name}")
    )


def changes_of(stack_name: str) -> str:
    """What changed of the cells of a stack."""
    return f"{HISTORY}#{quoted(of(stack_name))}"


def of(stack_name: str) -> str:
    """Its place on the page of the history, as an ``id``."""
    return f"of/{stack_name}"


@lru_cache(maxsize=1024)
def meaning(outcome: str) -> str:
    """What an outcome means, in words."""
    return f"{QUERY}#{quoted(NUMBER.sub('N', outcome))}"


def lock(name: str, ending: str = "txt") -> str:
    """A lock: ``txt`` is what uv installs, ``json`` has the dates."""
    return f"locks/{quoted(name)}.{ending}"


def records(stack_name: str) -> str:
    """The records of a stack."""
    return f"records/{quoted(stack_name)}.jsonl"


def up(path: str) -> str:
    """From the page at ``path`` to the folder of index.html."""
    return "../" * path.count("/")
