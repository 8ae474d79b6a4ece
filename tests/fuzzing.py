"""Fuzzers of every file that people or machines write and that we read.

Each starts from a valid file and changes bytes, lines and values. Reading must give a value, or one
error for users; never another exception. A file that cannot be opened at all is an OSError, which
the command line turns into a sentence.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import io
import re
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gradmatrix.compare import first_matrix, recorded
from gradmatrix.compare import history as histories
from gradmatrix.compare.requirements import (
    UvLock,
    edited,
    parse_edit,
    read_poetry_lock,
    read_pylock,
    read_pyproject,
    read_requirements_file,
)
from gradmatrix.compare.sides import Reading
from gradmatrix.core import files
from gradmatrix.core.errors import UserError
from gradmatrix.core.files import read_toml
from gradmatrix.core.model import Failure, Role
from gradmatrix.core.outcomes import Outcome
from gradmatrix.core.text import plain
from gradmatrix.judge import relations
from gradmatrix.judge.diagnosis import diagnose
from gradmatrix.judge.verdict import Ended, judge, passes
from gradmatrix.night import night
from gradmatrix.publish.claims import claims
from gradmatrix.publish.rows import cell_text, rows_of
from gradmatrix.run import bundle, own_scripts, scenarios
from gradmatrix.run.project import Project
from gradmatrix.run.server import read_observation
from gradmatrix.run.store import Store, decode, encode
from gradmatrix.stacks import config, generated, lock
from gradmatrix.stacks.index import newest, releases_of
from gradmatrix.trace import capsule, trace
from tests.conftest import ROOT
from tests.factories import (
    NOON,
    make_cell,
    make_lock,
    make_observation,
    make_raised,
    make_record,
    make_scenario,
    make_stopped,
    make_warned,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

VALUES = (
    b"9" * 400, b"-1", b"0", b"1e999", b"-0.0", b"1e-400", b"NaN", b"Infinity", b"nan", b"inf",
    b"null", b"true", b'""', b"''", b"[]", b"{}", b"[[]]", b'"\\ud800"', b'"\\u0000"',
    b"1970-01-01T00:00:00", b"0001-01-01", b"9999-12-31", b'"0001-01-01T00:00:00Z"',
    b'"0001-01-01T00:00:00+14:00"', b'"9999-12-31T23:59:59-14:00"', b'"9999-12-31T23:59:59Z"',
    b'"2026-01-15T12:00:00"', b'"' + b"9" * 400 + b'"', b'"process:exit-' + b"9" * 400 + b'"',
    b'"process:signal-0"', b'"trains"', b'"../../x"', b'"$(touch x)"', b'"SystemExit"',
    b'"a ; python_version"', b'"1!2.3.post4.dev5+local"', b'"torch=>2"', b'"torch==2.*.*"', b"`",
)  # fmt: skip
"""What takes the place of a value."""
PIECES = (
    b"\xff\xfe", b"\x00", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n", b"\\", b'"', b"[" * 5000,
    b'{"a":' * 5000, b"(" * 500, b"]", b"}", b"#", b"=", b" ;", b"@", b"--hash=", b"-r ",
    b"${HOME}", b"\xe2\x80\xae", b"'''", b"[[", "é\u2028\x85".encode(), b"9" * 5000,
)  # fmt: skip
"""What is put in anywhere."""
VALUE = re.compile(rb'"(?:[^"\\\n]|\\.)*"|-?\b\d[\w.+:-]*|\b(?:true|false|null)\b')
"""A value in JSON, TOML or a list of requirements."""


@dataclass(frozen=True)
class Target:
    """A file that is read."""

    name: str
    file: str
    """Its name; with a folder, if it needs others beside it."""
    valid: tuple[bytes, ...]
    read: Callable[[Path], object]
    beside: tuple[tuple[str, bytes], ...] = ()
    """Other files, as they should be."""

    def examine(self, content: bytes) -> None:
        """Read ``content``; fails unless it is a value, or an error for users with a sentence."""
        with tempfile.TemporaryDirectory() as folder:
            path = self.put(Path(folder))
            path.write_bytes(content)
            self.examine_at(path)

    def put(self, folder: Path) -> Path:
        """The path of the file, with the files beside it."""
        for name, content in self.beside:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        path = folder / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def examine_at(self, path: Path) -> None:
        """Read the file at ``path``, see :meth:`examine`."""
        try:
            self.read(path)
        except UserError as error:
            plain(str(error)).encode()
            if not error.what.strip().endswith((".", "?", "!")):
                raise AssertionError(f"{error.what!r} is no sentence") from error
        except OSError:
            pass


@st.composite
def mutated(draw: st.DrawFn, valid: Sequence[bytes]) -> bytes:
    """One of the ``valid`` files with a few changes."""
    content = draw(st.sampled_from(valid))
    for _ in range(draw(st.integers(1, 4))):
        change = draw(st.sampled_from(CHANGES))
        content = change(draw, content)
    return content


def value(draw: st.DrawFn, content: bytes) -> bytes:
    """Another value."""
    found = list(VALUE.finditer(content))
    if not found:
        return content
    match = draw(st.sampled_from(found))
    return content[: match.start()] + draw(st.sampled_from(VALUES)) + content[match.end() :]


def value_from_elsewhere(draw: st.DrawFn, content: bytes) -> bytes:
    """A value of this file in another place."""
    found = list(VALUE.finditer(content))
    if not found:
        return content
    match, other = draw(st.sampled_from(found)), draw(st.sampled_from(found))
    return content[: match.start()] + other[0] + content[match.end() :]


def piece(draw: st.DrawFn, content: bytes) -> bytes:
    """Something put in."""
    place = draw(st.integers(0, len(content)))
    return content[:place] + draw(st.sampled_from(PIECES)) + content[place:]


def any_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """Some bytes in place of others."""
    place = draw(st.integers(0, len(content)))
    end = min(len(content), place + draw(st.integers(0, 20)))
    return content[:place] + draw(st.binary(max_size=8)) + content[end:]


def cut(draw: st.DrawFn, content: bytes) -> bytes:
    """The beginning only."""
    return content[: draw(st.integers(0, len(content)))]


def line_left_out(draw: st.DrawFn, content: bytes) -> bytes:
    """Without a line."""
    lines = content.splitlines(keepends=True)
    del lines[(place := draw(st.integers(0, len(lines)))) : place + 1]
    return b"".join(lines)


def line_twice(draw: st.DrawFn, content: bytes) -> bytes:
    """A line twice, the second time somewhere else."""
    lines = content.splitlines(keepends=True) or [b""]
    line = draw(st.sampled_from(lines))
    lines.insert(draw(st.integers(0, len(lines))), line)
    return b"".join(lines)


CHANGES = (
    value,
    value,
    value,
    value_from_elsewhere,
    piece,
    any_bytes,
    cut,
    line_left_out,
    line_twice,
)
DAY = dt.date(2026, 1, 15)
SCENARIO = make_scenario()
PROJECT = Project.at(ROOT)


def read_matrix(path: Path) -> object:
    """matrix.toml with all that it names."""
    matrix = config.load(path, PROJECT.scenarios)
    return scenarios.load_scripts(path, matrix.scripts, PROJECT.scenarios), [
        generated.as_far_as_known(matrix, path.with_name("_matrix.json"), path)
    ]


def read_lock(path: Path) -> object:
    """A lock with its text."""
    found = lock.load("stack", path.parent)
    if found is None:
        return None
    text = ""
    if found.failure is None:
        text = lock.requirements_path("stack", path.parent).read_text(encoding="utf-8")
    outcome = found.failure and Outcome(found.failure.outcome)
    installed = lock.hashless(text), lock.without(text, lambda name: name == "torch")
    return lock.fallen_behind(found, ["torch"]), found.version("torch"), outcome, installed


def read_store(path: Path) -> object:
    """Everything that is asked of records: of a journal or of published ones."""
    store = Store(path.parent.parent / "journal", path.parent.parent / "published")
    found = [*store.recorded_here("stack").values(), *store.everything().values()]
    store.recorded_under("stack")
    store.of_stack("stack")
    shown = relations.judged(found, {"scenario": SCENARIO})
    rows = list(rows_of(shown, {"scenario": SCENARIO}))
    return [cell_text(row) for row in rows], [(r.flaky, r.device, encode(r)) for r in shown]


def read_observed(path: Path) -> object:
    """An observation with the verdict on it."""
    seen = read_observation(path.parent)
    verdict = judge(seen, Ended(exit=0))
    if seen is None:
        return verdict
    record = make_record(str(verdict.outcome), observation=seen, gradient=verdict.gradient)
    return (
        diagnose(seen),
        [passes(role, verdict, seen) for role in Role],
        record.steps_per_s,
        msgspec.json.encode(record),
    )


def read_history(path: Path) -> object:
    """A history with its regressions."""
    found = histories.load(path.parent)
    return found.regressions


def read_night_plan(path: Path) -> object:
    """The plan of a nightly run, and one of its jobs."""
    plan = night.read(path)
    return night.github_matrix(plan.shards), plan.named("stack")


def read_first_matrix(path: Path) -> object:
    """A new matrix.toml for a project with this file: it can be read, whatever is in the file."""
    root = path.parent
    given = first_matrix.stated(root, None, Reading())
    (root / "always.py").write_text("import torch\nloss.backward()\n", encoding="utf-8")
    scripts = [first_matrix.Row(each) for each in own_scripts.training_scripts(root)]
    text = first_matrix.matrix_text(
        given,
        first_matrix.columns(given, "3.12", DAY),
        scripts,
        root,
        python=first_matrix.python_for(given, root, None),
        devices=["cpu"],
        taken=(),
    )
    target = root / "matrix.toml"
    target.write_text(text, encoding="utf-8")
    try:
        return scenarios.load_scripts(target, config.load(target, [], DAY).scripts, [])
    except UserError as error:  # the file is ours
        raise AssertionError(text) from error


def read_edit(path: Path) -> object:
    """What a user writes after --to."""
    text = path.read_bytes().decode(errors="surrogateescape")
    return edited(("torch", "trl<1"), [parse_edit(text)], latest=True)


def read_index(path: Path) -> object:
    """A page of the package index, in either format."""
    body = path.read_bytes()
    for kind in ("application/vnd.pypi.simple.v1+json", "text/html", "application/octet-stream"):
        with contextlib.suppress(ValueError):  # what a broken page is for whoever asks
            newest(releases_of(kind, body, "alpha"), DAY)
    return None


def read_capsule(path: Path) -> object:
    """The script that reproduces a published cell: it must be Python, whatever the record says."""
    found = [line.value for line in files.read_lines(path, decode) if line.value is not None]
    for record in found:
        capsule.refuse(record, FAILING, everything=True)
        text = capsule.write(record, LOCK, LOCK_TEXT, FAILING, SOURCE, file="capsule.py")
        compile(text, "capsule.py", "exec")
    return found


def read_run(path: Path) -> object:
    """A file of records that is given to ``compare``."""
    return recorded.recorded_file("run", path, PROJECT)


def read_merged(path: Path) -> object:
    """The records of another machine, as far as they are accepted."""
    variants = {("scenario", "plain"): Role.CONTROL, ("scenario", "b"): Role.CONTROL}
    known = night.KnownCells({"stack"}, variants, {"cpu"}, dt.datetime.now(dt.UTC))
    return night.found_in([path.parent.parent], known)


def json_line(value: object) -> bytes:
    """One document on one line."""
    return msgspec.json.encode(value) + b"\n"


FAILING = PROJECT.scenarios["amp_manual_optimization"]
SOURCE = Path(FAILING.path).read_text(encoding="utf-8")
LOCK = make_lock()
LOCK_TEXT = "torch==2.0.1 \\\n    --hash=sha256:00\nsafetensors==0.3.1\n"
RECORDS = tuple(
    encode(record)
    for record in (
        make_record(observation=make_observation("ffff", "zzzz", warnings=(make_warned("slow"),))),
        make_record(
            "step:no-grad-fn", make_cell(variant="b"), observation=make_stopped(), passed=False
        ),
        make_record("process:exit-3", make_cell(variant="c"), passed=False),
    )
)
PUBLISHED_CELL = next(
    line
    for line in (ROOT / "results" / "records" / "lightning-2.0.3.jsonl").read_bytes().splitlines()
    if b'"amp_manual_optimization","variant":"reported","device":"cpu"' in line
)
INDEX_PAGES = (
    json_line(
        {
            "meta": {"api-version": "1.1"},
            "name": "alpha",
            "files": [
                {
                    "filename": "alpha-1.0-py3-none-any.whl",
                    "url": "/files/alpha-1.0-py3-none-any.whl",
                    "hashes": {"sha256": "0" * 64},
                    "upload-time": "2025-01-01T12:00:00.5Z",
                    "requires-python": ">=3.9",
                    "yanked": "broken",
                },
                {"filename": "alpha-1.1.tar.gz", "url": "alpha-1.1.tar.gz", "hashes": {}},
            ],
        }
    ),
    b"""<!DOCTYPE html><html><head><meta name="pypi:repository-version" content="1.0"></head><body>
<a href="/files/alpha-1.0-py3-none-any.whl#sha256=00" data-upload-time="2025-01-01T12:00:00Z"
data-requires-python="&gt;=3.9" data-yanked="">alpha-1.0-py3-none-any.whl</a></body></html>""",
)
PYPROJECT = b"""[project]
name = "mine"
requires-python = ">=3.9"
dependencies = ["torch>=2", "trl<1 ; python_version < '3.13'", "mine[extra]"]
[project.optional-dependencies]
extra = ["peft"]
[dependency-groups]
dev = ["pytest", {include-group = "typing"}]
typing = ["mypy"]
[tool.uv]
sources = {trl = {git = "https://example.org/trl"}}
"""
PYLOCK = b"""lock-version = "1.0"
created-by = "uv"
requires-python = ">=3.9"
default-groups = ["main"]
[[packages]]
name = "torch"
version = "2.5.0"
marker = "'main' in dependency_groups and python_version >= '3.9'"
dependencies = [{name = "filelock"}]
wheels = [{url = "https://x.org/torch-2.5.0-py3-none-any.whl", hashes = {sha256 = "00"}}]
[[packages]]
name = "filelock"
vcs = {type = "git", url = "https://example.org/filelock", commit-id = "00", subdirectory = "x"}
"""
POETRY_LOCK = b"""[[package]]
name = "torch"
version = "2.5.0"
optional = false
groups = ["main"]
[package.markers]
main = "python_version >= '3.9'"
[package.source]
type = "git"
url = "https://example.org/torch"
resolved_reference = "00"
[metadata]
lock-version = "2.1"
python-versions = "^3.11"
"""
OWN_SCRIPT = b'''"""Trains a "model"."""
import torch, own
open("data.csv")
if __name__ == "__main__":
    loss.backward()
'''
REQUIREMENTS = b"""# made by hand
torch>=2.0,<3 ; python_version < "3.13"
trl[peft] == 0.8.6  # pinned
peft @ https://example.org/peft-0.1-py3-none-any.whl
transformers==4.30.2 \\
    --hash=sha256:00
    # via -r requirements.in
-c constraints.txt
--extra-index-url https://user:password@example.org/simple
"""
LOCKED = msgspec.json.format(
    msgspec.json.encode(
        msgspec.structs.replace(LOCK, digest=hashlib.sha256(LOCK_TEXT.encode()).hexdigest())
    )
)
FAILED = msgspec.json.encode(
    msgspec.structs.replace(
        LOCK,
        digest="",
        failure=Failure(outcome="resolve:conflict", message="they exclude each other"),
    )
)
HISTORY = tuple(
    path.read_bytes()[:6000].rpartition(b"\n")[0] + b"\n"
    for path in sorted((ROOT / "results" / "history").glob("lightning-2.0.3*.jsonl"))
)

NIGHT = json_line(
    {
        "schema": 2,
        "shards": [{"name": "stack", "cells": [{"cell": make_cell(), "key": "0" * 32}]}],
        "settled": 3,
    }
)
GENERATED = json_line(
    {
        "schema": 1,
        "entries": [
            {
                "asked": {"kind": "releases", "rule": {"package": "torch"}, "base": None},
                "stacks": [
                    {
                        "name": "torch-2.5",
                        "python": "3.11",
                        "requirements": ["torch==2.5.0"],
                        "as_of": "2025-03-31",
                        "core": False,
                        "summary": "",
                    }
                ],
            }
        ],
    }
)


def bundled(compression: int) -> bytes:
    """A bundle with two files."""
    known = bundle.Description(schema=1, published=NOON, digest="0" * 64)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        archive.writestr(bundle.DESCRIPTION, msgspec.json.encode(known))
        archive.writestr("results/records/stack.jsonl", b"".join(RECORDS))
    return file.getvalue()


TARGETS = (
    Target("matrix.toml", "matrix.toml", ((ROOT / "matrix.toml").read_bytes(),), read_matrix),
    Target(
        "claims.toml",
        "claims.toml",
        ((ROOT / "scenarios" / "claims.toml").read_bytes(),),
        lambda path: claims.load(path, PROJECT.scenarios),
    ),
    Target(
        "scenario",
        "scenario.py",
        (SOURCE.encode(), b'"""T."""\nVARIANTS = {"a": {"role": "control", "summary": ""}}\n'),
        scenarios.load,
    ),
    Target("lock", "stack.json", (LOCKED, FAILED), read_lock, (("stack.txt", LOCK_TEXT.encode()),)),
    Target("lock text", "stack.txt", (LOCK_TEXT.encode(),), read_lock, (("stack.json", LOCKED),)),
    Target(
        "generated stacks",
        "_matrix.json",
        (GENERATED,),
        generated.load,
    ),
    Target("journal", "journal/stack.jsonl", (b"".join(RECORDS),), read_store),
    Target("published records", "published/stack.jsonl", (b"".join(RECORDS),), read_store),
    Target("records to compare", "records/stack.jsonl", (b"".join(RECORDS),), read_run),
    Target("records to merge", "job/records/stack.jsonl", (b"".join(RECORDS),), read_merged),
    Target("history", "history/stack.jsonl", HISTORY, read_history),
    Target("capsule", "stack.jsonl", (PUBLISHED_CELL,), read_capsule),
    Target(
        "requirements",
        "requirements.txt",
        (REQUIREMENTS,),
        read_requirements_file,
        (("constraints.txt", b"numpy<2\n"),),
    ),
    Target(
        "pyproject.toml",
        "pyproject.toml",
        (PYPROJECT,),
        lambda path: read_pyproject(path, ["extra"], ["dev"]),
    ),
    Target("pylock.toml", "pylock.toml", (PYLOCK,), read_pylock),
    Target(
        "poetry.lock",
        "poetry.lock",
        (POETRY_LOCK,),
        read_poetry_lock,
        (("pyproject.toml", b'[tool.poetry.dependencies]\npython = "^3.11"\ntorch = "*"\n'),),
    ),
    Target(
        "first matrix",
        "requirements.txt",
        (REQUIREMENTS.replace(b"-c constraints.txt\n", b""), b"torch==2.6.0\n"),
        read_first_matrix,
    ),
    Target(
        "own script",
        "train.py",
        (OWN_SCRIPT,),
        read_first_matrix,
        (("requirements.txt", b"torch\n"), ("data.csv", b"1\n")),
    ),
    Target(
        "uv.lock",
        "uv.lock",
        (b'version = 1\nrequires-python = ">=3.9"\n',),
        lambda path: read_toml(path, UvLock),
    ),
    Target(
        "edit",
        "edit.txt",
        (
            b"transformers==5.0.0",
            b"trl<1",
            b"peft @ file:///a.whl",
            b"torch[x]~=2.1.0 ; python_version<'4'",
        ),
        read_edit,
    ),
    Target(
        "observation",
        "observation.json",
        (
            json_line(make_observation("ffff")),
            json_line(make_stopped()),
            json_line(make_stopped(raised=make_raised("3", "SystemExit"))),
        ),
        read_observed,
    ),
    Target(
        "traced process",
        "1.json",
        (json_line({"schema": 1, "pid": 1, "rank": 0, "observation": make_stopped()}),),
        lambda path: trace.left_in(path.parent),
    ),
    Target("plan of a night", "shards.json", (NIGHT,), read_night_plan),
    Target(
        "sessions",
        "sessions.json",
        (b'[{"session": "matrix(stack)", "name": "matrix", "tags": ["all"]}]',),
        lambda path: night.stacks_of(path.read_bytes()),
    ),
    Target("index", "page", INDEX_PAGES, read_index),
    Target(
        "bundle",
        "bundle.zip",
        (bundled(zipfile.ZIP_STORED), bundled(zipfile.ZIP_DEFLATED)),
        lambda path: bundle.carried(path, path.parent / "cache"),
    ),
)
"""Every file that is read."""


def fuzz(target: Target, examples: int, seed: int) -> None:
    """Read many changed files.

    Raises:
        BaseException: what reading one of them raised, with the smallest such file in its notes
    """

    def examine(content: bytes) -> None:
        target.examine(content)

    run = given(mutated(target.valid))(examine)
    run = hypothesis.settings(max_examples=examples, deadline=None, database=None)(run)
    hypothesis.seed(seed)(run)()


def fuzz_for(target: Target, minutes: float, seed: int) -> int:
    """Read changed files for so long; how many."""
    end, done = time.monotonic() + 60 * minutes, 0
    while time.monotonic() < end:
        fuzz(target, 1000, seed + done)
        done += 1000
    return done


def odd_places(folder: Path, target: Target) -> Iterator[Path]:
    """Paths of a file that is none: absent, empty, a folder, a link that leads to itself."""
    for name in ("absent", "empty", "folder", "loop"):
        place = folder / name
        place.mkdir()
        path = target.put(place)
        if name == "empty":
            path.touch()
        elif name == "folder":
            path.mkdir()
        elif name == "loop":
            path.symlink_to(path)
        yield path
