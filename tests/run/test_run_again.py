"""A stack is changed, run, and changed back: its earlier records count again, and nothing runs."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from gradmatrix.run.store import Store
from tests.factories import NOON, make_cell, make_observation, make_record

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A journal in which a cell trained, and then its stack did not resolve."""
    store = Store(tmp_path / "journal", tmp_path / "published")
    store.append(
        make_record("trains", key="good", observation=make_observation(), recorded_at=NOON)
    )
    store.append(
        make_record("resolve:conflict", key="bad", recorded_at=NOON + dt.timedelta(hours=1))
    )
    return store


def test_every_key_of_a_cell_is_remembered(store: Store) -> None:
    """The newest record of each key is kept."""
    found = store.recorded_under(make_cell().stack)
    assert {"good": "trains", "bad": "resolve:conflict"} == {
        key: r.outcome for (_, key), r in found.items()
    }


def test_a_missing_device_replaces_a_stack_that_did_not_resolve(store: Store) -> None:
    """That cell never ran, so no result is hidden."""
    store.append(
        make_record("setup:no-device", passed=None, recorded_at=NOON + dt.timedelta(hours=2))
    )
    assert ["setup:no-device"] == [record.outcome for record in store.everything().values()]


def test_a_file_is_read_again_when_it_has_grown(store: Store) -> None:
    """The same store is used before and after a run."""
    cell = make_cell()
    store.recorded_here(cell.stack)
    store.append(make_record("update:none", key="good", recorded_at=NOON + dt.timedelta(hours=3)))
    assert "update:none" == store.recorded_here(cell.stack)[cell].outcome
