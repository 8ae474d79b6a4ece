"""Every page but the evidence, in the order of a reader: the matrix, its stacks, scenarios, packages, and what else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.outcome import TRAINS
from harness.publish.site import links
from harness.publish.site.chronicle import history_page
from harness.publish.site.claims import claims_page
from harness.publish.site.data import data_file
from harness.publish.site.front import front_pages
from harness.publish.site.markup import page
from harness.publish.site.messages import messages_page
from harness.publish.site.packages import package_pages
from harness.publish.site.scenarios import scenario_pages
from harness.publish.site.sentences import ROLES, glossary, in_words
from harness.publish.site.stacks import stack_pages
from harness.publish.site.view import View

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.claims import Judged
    from harness.history import History
    from harness.publish.published import Table

STATIC = Path(__file__).resolve().parent.parent / "static"


def pages(
    table: Table, *, claims: Sequence[Judged], history: History | None, source_of: Mapping[str, str]
) -> Iterator[tuple[str, bytes]]:
    """Path below results/ and content of each file; ``source_of`` has the text of each scenario by name."""
    view = View(table)
    yield from front_pages(view, history)
    yield from stack_pages(view)
    yield from scenario_pages(view, source_of)
    yield from package_pages(view)
    yield messages_page(view, claims)
    yield history_page(view, history)
    yield claims_page(view, claims)
    yield page("query.html", links.QUERY, phases=glossary(), roles=ROLES, trains=in_words(TRAINS))
    yield data_file(view)
    for path in sorted(STATIC.glob("*.*")):
        yield f"site/{path.name}", path.read_bytes()
