"""``--json``: one document of a known shape on the standard output, and nothing else there."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from gradmatrix.cli.documents import DOCUMENTS, document_of
from gradmatrix.cli.main import main, parser
from gradmatrix.compare import history
from gradmatrix.compare.comparison import Comparison
from gradmatrix.run import bundle
from gradmatrix.run.store import Store
from tests.cli.test_claims_command import CLAIMS
from tests.cli.test_cli import MATRIX, SUMS, write_lock
from tests.factories import NOON, make_cell, make_lock, make_record
from tests.run.test_bundle import Pages, carried, later, served

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["carried", "later"]  # fixtures
CELL = "first/sums/plain"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with a published cell on each of two stacks; one of them fails."""
    root = tmp_path / "project"
    (root / "scenarios").mkdir(parents=True)
    (root / "scenarios" / "sums.py").write_text(SUMS.lstrip(), encoding="utf-8")
    (root / "scenarios" / "claims.toml").write_text(CLAIMS, encoding="utf-8")
    (root / "matrix.toml").write_text(MATRIX, encoding="utf-8")
    folder = root / "results" / "records"
    for stack, outcome in (("first", "trains"), ("second", "gradient:none")):
        lock = make_lock(stack, versions={"torch": "2.6.0"})
        write_lock(root, lock)
        message = "" if outcome == "trains" else "element 0 does not require grad"
        record = make_record(
            outcome, make_cell(stack, "sums", "plain"), message=message, recorded_at=NOON
        )
        history.update(root / "results" / "history", lock, [record], now=NOON)
        Store(folder, folder).publish(stack, [record])
    return root


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("run first", 0),
        ("table", 0),
        ("table second", 0),
        ("isolation first", 0),
        ("list", 0),
        (f"why {CELL}", 0),
        ("why element 0 does not require grad", 0),
        ("why unheard-of zebra", 1),
        ("why gradient:none", 0),
        ("compare first second --stacks first second", 3),
        (f"history {CELL}", 0),
        ("claims", 0),
        ("claims sums-train", 0),
        ("regressions", 0),
    ],
)
def test_only_the_document_is_printed(
    root: Path, capfdbinary: pytest.CaptureFixture[bytes], command: str, code: int
) -> None:
    """The exit code is that of the command without --json."""
    words = command.split()
    assert code == main([*words, "--root", str(root)])
    capfdbinary.readouterr()
    assert code == main([*words, "--root", str(root), "--json"])
    out = capfdbinary.readouterr().out
    if words[0] == "compare":
        msgspec.json.decode(out, type=Comparison)
    else:
        (kind,) = (name for name in DOCUMENTS if fits(name, words))
        decode(kind, out)


def fits(name: str, words: list[str]) -> bool:
    """Whether a document is that of a command line."""
    command, _, what = name.partition(" ")
    asked = {CELL: "CELL", "gradient:none": "NAME"}.get(" ".join(words[1:]), "MESSAGE")
    return command == words[0] and what in {"", asked}


def decode(name: str, content: bytes) -> Any:  # noqa: ANN401  (each command has its own)
    """A document, which has exactly the keys of its type."""
    document = json.loads(content)
    keys = {field.encode_name for field in msgspec.structs.fields(document_of(name))}
    for each in document if name == "regressions" else [document]:
        assert keys == set(each)
    return document


def test_a_warning_is_not_in_the_document(
    root: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """It goes to the error stream."""
    (root / ".gradmatrix" / "records").mkdir(parents=True)
    (root / ".gradmatrix" / "records" / "first.jsonl").write_text('{"schema":7}\n')
    assert 0 == main(["table", "--json", "--root", str(root)])
    out, err = capfdbinary.readouterr()
    assert ["first", "second"] == [stack["name"] for stack in decode("table", out)["stacks"]]
    assert b"warning: first.jsonl, line 1 was skipped" in err


def test_a_report_without_a_file_goes_to_the_standard_output(
    root: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """As with -."""
    words = ["compare", "first", "second", "--stacks", "first", "second", "--root", str(root)]
    main([*words, "--json"])
    out = capfdbinary.readouterr().out
    main([*words, "--json", "-"])
    assert out == capfdbinary.readouterr().out


def test_every_command_that_has_it_has_a_document() -> None:
    """Those that ask for nothing have none: they write files."""
    (family,) = (each for each in parser()._actions if isinstance(each, argparse._SubParsersAction))  # noqa: SLF001
    having = {
        name for name, each in family.choices.items() if "--json" in each._option_string_actions  # noqa: SLF001
    }  # fmt: skip
    with_schema = {"compare", "upgrade"}
    assert having - with_schema == {name.partition(" ")[0] for name in DOCUMENTS}
    writing = {"init", "lock", "publish", "capsule"}
    without = {*writing, "shards", "shard", "merge", "dry-run", "completion"}
    assert without == set(family.choices) - having


def test_update_says_what_is_used_now(
    later: Pages,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """First it is new, then it is the newest. Where it is published must be known."""
    monkeypatch.setattr("gradmatrix.cli.matrix.find_checkout", lambda _: None)
    monkeypatch.setattr("gradmatrix.run.project.find_checkout", lambda _: None)
    monkeypatch.setattr("gradmatrix.cli.matrix.judged_claims", lambda _: None)
    monkeypatch.setattr(bundle, "page", lambda: None)
    assert 2 == main(["update"])
    assert b"It is not known where the matrix is published" in capfdbinary.readouterr().err
    with served(later) as url:
        monkeypatch.setattr(bundle, "page", lambda: url)
        assert 0 == main(["update"])
        assert b"The matrix published on 2026-11-28, " in capfdbinary.readouterr().out
        assert 0 == main(["update", "--json"])
        done = decode("update", capfdbinary.readouterr().out)
    assert ("2026-11-28T00:00:00Z", done["used"], f"{url}/") == (
        done["before"],
        done["offered"],
        done["url"],
    )


def test_a_checkout_is_not_updated(capfd: pytest.CaptureFixture[str]) -> None:
    """That is what git is for."""
    assert 2 == main(["update", "--url", "https://example.org/"])
    assert "git pull renews a checkout" in capfd.readouterr().err
