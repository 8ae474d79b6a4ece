"""A comparison in every form that was asked for, and the JSON Schema of the one for machines."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from harness.comparison import Comparison
from harness.publish.comparison.markdown import as_markdown
from harness.publish.comparison.page import as_html
from harness.publish.document import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Form(StrEnum):
    """In which form a comparison is written."""

    MARKDOWN = "markdown"
    HTML = "html"
    JSON = "json"


@dataclass(frozen=True)
class Report:
    """A comparison in one form."""

    form: Form
    target: str
    """A file, or "-" for the standard output."""
    content: bytes


def reports(comparison: Comparison, asked: Mapping[Form, str]) -> Iterator[Report]:
    """The asked forms with their content; ``asked`` has the target of each."""
    for form, target in asked.items():
        yield Report(form, target, WRITERS[form](comparison))


def as_json(comparison: Comparison) -> bytes:
    """All of it, as the JSON Schema says."""
    return msgspec.json.format(msgspec.json.encode(comparison), indent=1) + b"\n"


def as_schema() -> bytes:
    """The JSON Schema of a comparison."""
    return schema_of(Comparison, "A comparison of gradmatrix: a candidate against a baseline, cell by cell")


WRITERS = {
    Form.MARKDOWN: lambda comparison: as_markdown(comparison).encode(),
    Form.HTML: as_html,
    Form.JSON: as_json,
}
