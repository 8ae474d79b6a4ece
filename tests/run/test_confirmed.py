"""``results/confirmed/``: which published records a newer run confirmed."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from gradmatrix.core.errors import UserError
from gradmatrix.run import confirmed
from gradmatrix.run.plan import key_of
from gradmatrix.run.store import Store, encode
from tests.factories import NOON, make_cell, make_record

if TYPE_CHECKING:
    from pathlib import Path

LATER = NOON + dt.timedelta(days=1)
OLD = make_record(inputs={"lock": "1", "inside": "i"}, key="old")
NEWER = make_record(inputs={"lock": "2"}, recorded_at=LATER, run="night")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A published record that was confirmed."""
    store = Store(tmp_path / "journal", tmp_path / "records")
    store.of_stack("stack")
    store.publish("stack", [confirmed.confirmed(OLD, NEWER)])
    return Store(tmp_path / "journal", tmp_path / "records")


def test_a_confirmed_record_has_the_inputs_of_the_newer_run(store: Store) -> None:
    """Also without an input that there no longer is."""
    found = store.of_stack("stack")[make_cell()]
    assert ({"lock": "2"}, key_of({"lock": "2"}), LATER) == (
        found.inputs,
        found.key,
        found.known_at,
    )


def test_its_line_is_as_recorded(store: Store) -> None:
    """The line has the key and the inputs of its own run."""
    assert encode(OLD) == (store.published / "stack.jsonl").read_bytes()


def test_a_record_that_was_made_later_is_not_confirmed(store: Store) -> None:
    """Somebody merged two branches."""
    later = replace(OLD, recorded_at=LATER + dt.timedelta(hours=1))
    [found] = confirmed.load(confirmed.path_of(store.published, "stack")).values()
    assert later is confirmed.applied(later, found)


def test_an_older_journal_does_not_hide_a_confirmed_record(store: Store) -> None:
    """This checkout ran the cell after it was recorded, and before it was confirmed."""
    store.append(replace(OLD, recorded_at=NOON + dt.timedelta(hours=1), run="mine"))
    assert "run" == store.of_stack("stack")[make_cell()].run


def test_a_damaged_file_is_an_error(store: Store) -> None:
    """Else its cells would run again, and nobody would know why."""
    confirmed.path_of(store.published, "stack").write_bytes(b"half a li")
    with pytest.raises(UserError, match=r"confirmed/stack\.json cannot be read"):
        store.of_stack("stack")
