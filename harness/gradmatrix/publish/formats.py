"""Rows as a pandas table: what the data files are written from, and what an analysis starts with.

matrix.json: the whole matrix as typed data, one line per stack and per cell, and the JSON Schema that it keeps.

matrix.md: the matrix as GitHub shows it.

The headline table of README: a line per stack, and what became of the variants that people reported.

The blocks of README that are written from the records: what stands between two marks.

Claims for readers: the table in README, and ``claims.json``.
"""

from __future__ import annotations

import ast
import datetime as dt
import inspect
import re
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import pandas as pd

from gradmatrix.core.files import write_atomically
from gradmatrix.core.model import SHOWN, Record, Role
from gradmatrix.core.observation import SCHEMA, Frozen
from gradmatrix.core.text import code, markdown, one_line, spreadsheet
from gradmatrix.judge.diagnosis import format_frame
from gradmatrix.publish.claims.claims import Judged, Verdict
from gradmatrix.publish.rows import Grid, Row, grid, lacks_device
from gradmatrix.stacks.lock import fallen_behind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from gradmatrix.core.model import Lock
    from gradmatrix.publish.rows import Table


TYPES = {
    "passed": "boolean",
    "steps_per_s": "Float64",
    "steps_per_s_low": "Float64",
    "steps_per_s_high": "Float64",
    "peak_memory_bytes": "Int64",
}
"""Types that know a missing value."""


def frame(table: Table) -> pd.DataFrame:
    """One row per cell, in the order of the table; what a cell does not have is missing, never a number.

    ``as_of``, ``python`` and the versions are those of its stack.
    """
    rows, locks = table.rows, {lock.stack: lock for lock in table.locks}
    speeds = [row.steps_per_s for row in rows]
    told = [row.diagnosis for row in rows]
    versions = {
        name: {stack: lock.version(name) for stack, lock in locks.items()} for name in SHOWN
    }
    cells = pd.DataFrame(
        {
            "stack": [row.stack for row in rows],
            "scenario": [row.scenario for row in rows],
            "variant": [row.variant for row in rows],
            "role": [row.role.value for row in rows],
            "device": [row.device for row in rows],
            "outcome": [row.outcome for row in rows],
            "passed": [row.passed for row in rows],
            "gradient": [row.gradient.value if row.gradient else None for row in rows],
            "steps_per_s": [speed and speed.median for speed in speeds],
            "steps_per_s_low": [speed and speed.low for speed in speeds],
            "steps_per_s_high": [speed and speed.high for speed in speeds],
            "peak_memory_bytes": [row.peak_memory_bytes for row in rows],
            "message": [row.message for row in rows],
            "cause": [each.cause if each else None for each in told],
            "place": [format_frame(each.place) if each and each.place else None for each in told],
            "remedy": [each.remedy if each else None for each in told],
            "recorded_at": pd.to_datetime([row.recorded_at for row in rows], utc=True),
            "as_of": pd.to_datetime([locks[row.stack].as_of for row in rows]),
            "python": [locks[row.stack].python for row in rows],
            **{name: [known[row.stack] for row in rows] for name, known in versions.items()},
        }
    )
    return cells.astype(TYPES)


def as_csv(table: pd.DataFrame) -> bytes:
    """The table for spreadsheets; text that one would take for a formula gets an apostrophe in front."""
    safe = table.assign(passed=table["passed"].map({True: "true", False: "false"}).fillna(""))
    for name in ("message", "place", "python", *SHOWN):
        known = {text: spreadsheet(text) for text in table[name].dropna().unique()}
        safe[name] = table[name].map(known)
    return safe.to_csv(index=False, lineterminator="\n", float_format="%.6g").encode()


def as_parquet(table: pd.DataFrame) -> bytes:
    """The table for an analysis, with types; messages are as they were raised."""
    written: bytes = table.to_parquet(engine="pyarrow", index=False, compression="zstd")
    return written


class StackEntry(Frozen, frozen=True):
    """One column of the matrix."""

    name: str
    python: str
    as_of: dt.date
    """The day the package index was read as of."""
    packages: dict[str, str]
    """The version of every package."""
    build: str | None
    """The build of torch that its newest cell ran on: cpu, cuda or default; null where nothing was run."""
    fallen_behind: dict[str, int | None]
    """Days by which the resolver silently took an old release, by package."""


class Document(Frozen, frozen=True):
    """The published matrix."""

    schema: int
    stacks: tuple[StackEntry, ...]
    """By as-of date, the oldest first."""
    cells: tuple[Row, ...]
    """By device, scenario, variant, and then in the order of the stacks."""


def stack_entry(lock: Lock, build: str | None) -> StackEntry:
    """What matrix.json says of a stack."""
    return StackEntry(
        name=lock.stack,
        python=lock.python,
        as_of=lock.as_of,
        packages={package.name: package.version for package in lock.packages},
        build=build,
        fallen_behind={package.name: package.behind_days for package in fallen_behind(lock, SHOWN)},
    )


def as_json(table: Table, builds: Mapping[str, str]) -> Iterator[bytes]:
    """matrix.json in pieces, one line per stack and cell; ``builds`` is the build of torch of each stack that ran."""
    encoder = msgspec.json.Encoder()
    yield b'{"schema":%d,\n"stacks":[\n' % SCHEMA
    yield from lines(
        encoder.encode(stack_entry(lock, builds.get(lock.stack))) for lock in table.locks
    )
    yield b'],\n"cells":[\n'
    yield from lines(map(encoder.encode, table.rows))
    yield b"]}\n"


def lines(elements: Iterable[bytes]) -> Iterator[bytes]:
    """The elements of a list, one a line."""
    end = b""
    for element in elements:
        yield end + element
        end = b",\n"
    yield b"\n" if end else b""


def as_schema() -> bytes:
    """The JSON Schema of matrix.json."""
    return schema_of(Document, "The matrix of gradmatrix")


def as_schema_of_records() -> bytes:
    """The JSON Schema of a line in records/."""
    return schema_of(Record, "A record of gradmatrix: one cell, one line")


def schema_of(kind: type[Frozen], title: str) -> bytes:
    """The JSON Schema of a type, with the docstrings of all its types and fields."""
    schema = msgspec.json.schema(kind)
    for each in Frozen.__subclasses__():
        if each.__name__ in schema["$defs"]:
            describe(schema["$defs"][each.__name__], each)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    return msgspec.json.format(msgspec.json.encode(head | schema), indent=1) + b"\n"


def describe(definition: dict[str, Any], kind: type) -> None:
    """Put the docstrings of a type and of its fields into its definition."""
    definition["description"] = flat(kind.__doc__ or "")
    (body,) = (
        node for node in ast.parse(inspect.getsource(kind)).body if isinstance(node, ast.ClassDef)
    )
    for field, text in pairwise(body.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            told = text.value if isinstance(text, ast.Expr) else None
            if isinstance(told, ast.Constant):
                definition["properties"][field.target.id]["description"] = flat(str(told.value))


def flat(docstring: str) -> str:
    """A docstring on one line, without its markup."""
    return " ".join(docstring.replace("``", "").split())


def as_markdown(table: Table) -> str:
    """The matrix as GitHub shows it: stacks, who trains, and who is told about a misuse."""
    parts = ["# Which stacks train?", "", legend(), "", "## Stacks", "", stacks_table(table), ""]
    for device in dict.fromkeys(row.device for row in table.rows):
        rows = table.of_device(device)
        if lacks_device(rows):
            parts += [f"No cell was judged on {code(device)}: {markdown(rows[0].message)}.", ""]
            continue
        misuse = [row for row in rows if row.role is Role.MISUSE]
        others = [row for row in rows if row.role is not Role.MISUSE]
        for title, section in (("Does it train?", others), ("Does the stack tell you?", misuse)):
            if section:
                cells = markdown_table(grid(section, table.scenarios, table.stacks))
                parts += [f"## {title} ({markdown(device)})", "", cells, ""]
    return "\n".join(parts)


def legend() -> str:
    """How to read the tables."""
    return (
        "Each cell is a real run of a training script in a real environment. ✓ trains: every parameter that "
        "should learn got a finite, non-zero gradient and changed, and the loss stayed finite; with optimizer steps "
        "per second (median). ✗ `phase:reason`: where it stopped being one that trains; `relation:disagrees`: it "
        "trains, but with other losses or gradients than a variant that does the same maths. – not judged: the stack "
        "has no such feature, or the machine no such device. A misuse cannot train; there ✓ means that the stack says "
        "so. What was said or seen of each cell, and why it does not train, is in `matrix.json`."
    )


def stacks_table(table: Table) -> str:
    """Name, date and the versions that matter; ⚠ where the resolver silently took an old release."""
    lines = [
        "| stack | as of | Python | " + " | ".join(SHOWN) + " |",
        "| --- " * (3 + len(SHOWN)) + "|",
    ]
    for lock in table.locks:
        behind = {p.name: p for p in fallen_behind(lock, SHOWN)}
        cells = [lock.stack, f"{lock.as_of}", lock.python]
        for name in SHOWN:
            package = behind.get(name)
            mark = f" ⚠ {package.behind_days} days behind {package.newest}" if package else ""
            cells.append((lock.version(name) or "–") + mark)
        lines.append("| " + " | ".join(markdown(cell) for cell in cells) + " |")
        if lock.failure is not None:
            lines[-1] = (
                f"| {lock.stack} | {lock.as_of} | {lock.python} | {markdown(lock.failure.outcome)} |"
            )
    return "\n".join(lines)


def markdown_table(cells_in_words: Grid) -> str:
    """A grid as Markdown; a scenario's name is written once."""
    stacks = cells_in_words.stacks
    lines = [
        "| scenario | variant | " + " | ".join(stacks) + " |",
        "| --- " * (2 + len(stacks)) + "|",
    ]
    last = ""
    for scenario, variant, cells in cells_in_words.rows:
        first = f"**{scenario}**" if scenario != last else ""
        last = scenario
        lines.append(
            "| " + " | ".join([first, f"`{variant}`", *(markdown(cell) for cell in cells)]) + " |"
        )
    return "\n".join(lines)


def headline(table: Table) -> str:
    """Stacks by date against scenarios; each cell counts the reported variants that train on CPU."""
    reported = Role.REPORTED
    names = [
        s.name for s in table.scenarios.values() if any(v.role is reported for v in s.variants)
    ]
    lines = [
        "| stack | as of | " + " | ".join(f"`{name}`" for name in names) + " |",
        "| --- " * (2 + len(names)) + "|",
    ]
    rows: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in table.of_device("cpu"):
        if row.role is reported:
            rows[row.stack, row.scenario].append(row)
    for lock in table.locks:
        cells = [summary(rows[lock.stack, name]) for name in names]
        lines.append(f"| {lock.stack} | {lock.as_of} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def summary(rows: Sequence[Row]) -> str:
    """How many of the judged variants train, and how the others fail."""
    judged = [row for row in rows if row.passed is not None]
    if not judged:
        return "– unsupported" if rows else "not run"
    red = Counter(row.outcome for row in judged if not row.passed)
    if not red:
        return f"✓ {len(judged)} of {len(judged)}"
    how = ", ".join(
        f"{outcome} × {count}" if count > 1 else outcome for outcome, count in red.most_common()
    )
    return f"✗ {len(judged) - red.total()} of {len(judged)}: {how}"


def write_block(readme: Path, name: str, content: str) -> None:
    """Replace what stands between the marks of block ``name``; a file without them is left alone."""
    if not readme.exists():
        return
    text = readme.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}: written by gradmatrix, do not edit -->", f"<!-- end of {name} -->"
    pattern = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
    write_atomically(readme, pattern.sub(lambda _: f"{begin}\n\n{content}\n\n{end}", text).encode())


SYMBOLS = {Verdict.CONFIRMED: "✓", Verdict.REFUTED: "✗", Verdict.PARTLY: "◐", Verdict.UNTESTED: "–"}
PAGE = "results/claims.html"
"""The page with the cells, as README links it."""
CODE = re.compile(r"`([^`]*)`")
SAFE_CODE = re.compile(r"[\w .,:;=+*/()\[\]{}@#%!?'\"-]+")
"""What may stand between backticks: nothing that ends them, a cell of the table, or is markup anywhere."""


class EvidenceEntry(Frozen, frozen=True):
    """A cell that bears on a claim, for or against it."""

    cell: str
    """``STACK/SCENARIO/VARIANT/DEVICE``"""
    outcome: str
    bears: str
    why: str


class ClaimEntry(Frozen, frozen=True):
    """A claim, its source and its verdict."""

    id: str
    scenario: str
    says: str
    source: str
    url: str
    date: dt.date | None
    reading: str
    verdict: Verdict
    summary: str
    evidence: tuple[EvidenceEntry, ...]


class ClaimsDocument(Frozen, frozen=True):
    """The published claims."""

    schema: int
    claims: tuple[ClaimEntry, ...]


def verdict_words(judged: Judged) -> str:
    """A symbol and a word, never colour alone."""
    return f"{SYMBOLS[judged.verdict]} {judged.verdict}"


def claims_table(judged: Iterable[Judged]) -> str:
    """What was claimed, where, the verdict with a link to its cells, and what was seen, as a Markdown table."""
    lines = ["| claim | source | verdict | what the cells say |", "| --- | --- | --- | --- |"]
    for each in judged:
        claim = each.claim
        day = f", {claim.date}" if claim.date is not None else ""
        source = f"[{markdown(claim.source)}]({claim.url}){day}"
        verdict = f"[{verdict_words(each)}]({PAGE}#{claim.id})"
        lines.append(f"| {coded(claim.says)} | {source} | {verdict} | {coded(each.summary)} |")
    return "\n".join(lines)


def coded(text: str) -> str:
    """``text`` in a Markdown table cell, what stands in backticks as code; all is escaped where they do not pair up."""
    parts = CODE.split(one_line(text))  # every other part stood in backticks
    if any("`" in part for part in parts[::2]) or not all(map(SAFE_CODE.fullmatch, parts[1::2])):
        return markdown(text)
    return "".join(f"`{part}`" if place % 2 else _escaped(part) for place, part in enumerate(parts))


def _escaped(text: str) -> str:
    """``text`` escaped, with the spaces that part it from its neighbours."""
    head, tail = " " * text.startswith(" "), " " * (len(text) > 1 and text.endswith(" "))
    return f"{head}{markdown(text)}{tail}"


def claims_block(judged: Sequence[Judged]) -> str:
    """How the verdicts are distributed, and the table, folded: it is long."""
    counts = Counter(each.verdict for each in judged)
    told = ", ".join(
        f"{SYMBOLS[verdict]} {counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict]
    )
    head = f"{len(judged)} claims: {told or 'none yet'}."
    return f"{head}\n\n<details>\n<summary>Each of them</summary>\n\n{claims_table(judged)}\n\n</details>"


def entry(judged: Judged) -> ClaimEntry:
    """What ``claims.json`` says of a claim; a cell that bears on two expectations comes twice."""
    claim = judged.claim
    return ClaimEntry(
        id=claim.id,
        scenario=claim.scenario,
        says=claim.says,
        source=claim.source,
        url=claim.url,
        date=claim.date,
        reading=claim.reading,
        verdict=judged.verdict,
        summary=judged.summary,
        evidence=tuple(
            EvidenceEntry(cell=str(each.cell), outcome=each.outcome, bears=each.bears, why=each.why)
            for each in judged.evidence
        ),
    )


def claims_json(judged: Iterable[Judged]) -> bytes:
    """``claims.json``: every claim, its verdict and its evidence, one line per claim."""
    lines = b",\n".join(msgspec.json.encode(entry(each)) for each in judged)
    return b'{"schema":%d,\n"claims":[\n%s\n]}\n' % (SCHEMA, lines)
