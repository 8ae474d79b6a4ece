"""The JSON Schemas that are published: the data keeps them, and they say what the fields are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator

from gradmatrix.publish.rows import tabulated
from tests.conftest import ROOT
from tests.publish.test_publish import as_json, content, published

if TYPE_CHECKING:
    from pathlib import Path

    from gradmatrix.publish.rows import Table

__all__ = ["published"]  # a fixture


def test_the_data_keeps_its_schema(published: Table) -> None:
    """The published schema knows every field."""
    schema = json.loads(content("matrix.schema.json", published))
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(
        json.loads(as_json(published))
    )


def test_the_schema_refuses_what_the_data_never_is(published: Table) -> None:
    """Examples are a missing field, and a verdict that is a word."""
    validator = Draft202012Validator(json.loads(content("matrix.schema.json", published)))
    data = json.loads(as_json(published))
    data["cells"][0]["passed"] = "yes"
    del data["cells"][1]["outcome"]
    assert {"cells/0/passed", "cells/1"} == {
        "/".join(map(str, error.absolute_path)) for error in validator.iter_errors(data)
    }


@pytest.mark.parametrize(
    "path", sorted((ROOT / "results" / "records").glob("*.jsonl")), ids=lambda path: path.stem
)
def test_the_published_records_keep_their_schema(path: Path) -> None:
    """The last line of each file is from a real run."""
    validator = Draft202012Validator(
        json.loads(content("records.schema.json", tabulated((), {}, ())))
    )
    validator.validate(json.loads(path.read_bytes().splitlines()[-1]))


def test_every_field_is_described_by_its_docstring(published: Table) -> None:
    """Fields of cells have a docstring if the name does not say enough."""
    fields = json.loads(content("matrix.schema.json", published))["$defs"]["Row"]["properties"]
    assert (
        "Hash of everything that the verdict depended on when it was recorded."
        == fields["key"]["description"]
    )
