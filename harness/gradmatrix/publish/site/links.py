"""The address of each page. All links are relative: from a folder they begin with ``../``."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from gradmatrix.core.text import plain

if TYPE_CHECKING:
    from gradmatrix.core.model import Cell
    from gradmatrix.publish.rows import Row

INDEX, MAP = "index.html", "map.html"
NUMBER = re.compile(r"(?<=-)\d+$")
"""The number of a signal or exit code. One sentence explains all numbers."""
CLAIMS, ERRORS, HISTORY, QUERY = "claims.html", "errors.html", "history.html", "query.html"
PAIRWISE = "pairwise.html"
KIND = re.compile(r"^[\w.]*(?:error|warning|exception): ")
"""The name of an exception before its message, in small letters."""
LONGEST_NAME = 70


@lru_cache(maxsize=65536)
def quoted(name: str) -> str:
    """Return a name as a part of an address."""
    return quote(name, safe="")


@lru_cache(maxsize=65536)
def anchor(scenario_name: str, variant_name: str, device: str) -> str:
    """Return the ``id`` of a cell on the evidence page of its stack. In an address, quote it."""
    return plain(f"{scenario_name}-{variant_name}-{device}")


def older(number: int) -> str:
    """Return the page with a group of older stacks, counted from 1; 0 is the first page."""
    return f"older-{number}.html" if number else INDEX


def stack(name: str) -> str:
    """Return the page of a stack."""
    return f"stacks/{quoted(name)}.html"


def scenario(name: str) -> str:
    """Return the page of a scenario."""
    return f"scenarios/{quoted(name)}.html"


def variant(scenario_name: str, name: str) -> str:
    """Return the place of a variant on the page of its scenario."""
    return f"{scenario(scenario_name)}#{quoted(plain(name))}"


def package(name: str) -> str:
    """Return the page of a package."""
    return f"packages/{quoted(name)}.html"


def release(version: str) -> str:
    """Return the ``id`` of a release on the page of its package. In an address, quote it."""
    return plain(f"release-{version}")


def changed_by(version: str) -> str:
    """Return the ``id`` of what a release is known to have changed, there too."""
    return plain(f"exact-{version}")


@lru_cache(maxsize=4096)
def answer(signature: str) -> str:
    """Return the page of a message, whose address stays: it follows from its signature alone."""
    words = "-".join(re.findall(r"[a-z_]+", KIND.sub("", signature)))[:LONGEST_NAME].strip("-")
    digits = hashlib.sha256(signature.encode(errors="replace")).hexdigest()[:6]
    return f"answers/{words or 'message'}-{digits}.html"


def evidence_page(stack_name: str) -> str:
    """Return the page with the evidence of a stack."""
    return f"cells/{quoted(stack_name)}.html"


def evidence_of(stack_name: str, scenario_name: str) -> str:
    """Return the place of the evidence of a stack and scenario."""
    return f"{evidence_page(stack_name)}#{quoted(plain(scenario_name))}"


def evidence(cell: Cell | Row) -> str:
    """Return the place of the evidence of a cell."""
    return f"{evidence_page(cell.stack)}#{quoted(anchor(cell.scenario, cell.variant, cell.device))}"


def remedy(row: Row) -> str | None:
    """Return the place of the evidence of the remedy that trains on the same stack."""
    if row.diagnosis is None or row.diagnosis.remedy is None:
        return None
    scenario_name, _, variant_name = row.diagnosis.remedy.partition("/")
    return f"{evidence_page(row.stack)}#{quoted(anchor(scenario_name, variant_name, row.device))}"


@lru_cache(maxsize=65536)
def claims_on(scenario_name: str, variant_name: str = "") -> str:
    """Return the place of the claims about a scenario, or of those that a variant tests."""
    return f"{CLAIMS}#{quoted(on(scenario_name, variant_name))}"


def on(scenario_name: str, variant_name: str = "") -> str:
    """Return their ``id`` on the page of claims. The name of a claim never has a slash."""
    return (
        plain(f"on/{scenario_name}/{variant_name}")
        if variant_name
        else plain(f"on/{scenario_name}")
    )


def changes_of(stack_name: str) -> str:
    """Return the place of the changes of a stack."""
    return f"{HISTORY}#{quoted(of(stack_name))}"


def of(stack_name: str) -> str:
    """Return the ``id`` of a stack on the page of the history."""
    return f"of/{stack_name}"


@lru_cache(maxsize=1024)
def meaning(outcome: str) -> str:
    """Return the place where an outcome is explained."""
    return f"{QUERY}#{quoted(NUMBER.sub('N', outcome))}"


def lock(name: str, ending: str = "txt") -> str:
    """Return a lock: ``txt`` can be installed by uv, ``json`` has the dates."""
    return f"locks/{quoted(name)}.{ending}"


def records(stack_name: str) -> str:
    """Return the records of a stack."""
    return f"records/{quoted(stack_name)}.jsonl"


def up(path: str) -> str:
    """Return the way from the page at ``path`` to the folder of index.html."""
    return "../" * path.count("/")
