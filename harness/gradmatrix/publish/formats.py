"""The data files in ``results/``: a class for each, and ``FORMATS`` with their names.

To add a format, write a class and add it to ``FORMATS``. Publishing, the check whether ``results/``
is up to date, and the list of files on the pages all read ``FORMATS``. The docstring of a class is
the description of its file.

README has a block that is written from the records too.
"""

from __future__ import annotations

import ast
import datetime as dt
import inspect
import io
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from gradmatrix.core.files import write_atomically
from gradmatrix.core.model import SHOWN, Record, Role
from gradmatrix.core.observation import SCHEMA, Frozen
from gradmatrix.core.outcomes import UNSUPPORTED
from gradmatrix.core.text import code, markdown, spreadsheet
from gradmatrix.judge.versions import sortable
from gradmatrix.judge.wording import format_frame
from gradmatrix.publish.claims.claims import Boundary, Span, Verdict
from gradmatrix.publish.rows import Grid, Row, grid, lacks_device
from gradmatrix.stacks.lock import fallen_behind
from gradmatrix.stacks.pairwise import Coverage, Proof, coverage, pins_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    import pandas as pd

    from gradmatrix.core.model import Lock
    from gradmatrix.publish.claims.claims import Judged, Tested
    from gradmatrix.publish.rows import Table
    from gradmatrix.stacks.pairwise import Chosen


@dataclass(frozen=True)
class Results:
    """What is published: every cell, and the claims that were judged by them."""

    table: Table
    claims: Sequence[Judged] = ()
    chosen: Sequence[Chosen] = ()
    """The stacks of each [generate.pairwise] table."""

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per cell as a pandas table; several formats share it."""
        return frame(self.table)


class Format(Protocol):
    """A file in ``results/``."""

    @staticmethod
    def pieces(results: Results) -> Iterable[bytes]:
        """The content, in pieces, so that a large file never is in memory as a whole."""
        ...


PIECE_ROWS = 100_000
"""Rows of a piece of matrix.csv."""
TYPES = {
    "passed": "boolean",
    "steps_per_s": "Float64",
    "steps_per_s_low": "Float64",
    "steps_per_s_high": "Float64",
    "peak_memory_bytes": "Int64",
}
"""Column types that have a missing value."""


def frame(table: Table) -> pd.DataFrame:
    """Return one row per cell, in the order of ``table``. What a cell does not have is missing.

    What describes its stack is in ``stacks_frame``: a moved lock would change a line for each cell.
    """
    import pandas as pd  # noqa: PLC0415  (it takes a second, and only publishing needs it)

    rows = table.rows
    speeds = [row.steps_per_s for row in rows]
    diagnoses = [row.diagnosis for row in rows]
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
            "message": [row.message or None for row in rows],
            "cause": [each.cause if each else None for each in diagnoses],
            "place": [
                format_frame(each.place) if each and each.place else None for each in diagnoses
            ],
            "remedy": [each.remedy if each else None for each in diagnoses],
            "flaky": [row.flaky or None for row in rows],
            "recorded_at": pd.to_datetime([row.recorded_at for row in rows], utc=True),
        }
    )
    return cells.astype(TYPES)


def stacks_frame(table: Table) -> pd.DataFrame:
    """Return one row per stack: its day, its Python, and its main versions with a sortable key."""
    import pandas as pd  # noqa: PLC0415  (see above)

    locks = table.locks
    versions = {name: [lock.version(name) for lock in locks] for name in SHOWN}
    measured = [table.measured.get(lock.stack) for lock in locks]
    return pd.DataFrame(
        {
            "stack": [lock.stack for lock in locks],
            "as_of": pd.to_datetime([lock.as_of for lock in locks]),
            "measured_on": pd.Series(measured, dtype="datetime64[ns, UTC]")
            .dt.tz_localize(None)
            .dt.normalize(),
            "build": [table.builds.get(lock.stack) for lock in locks],
            "python": [lock.python for lock in locks],
            "python_sort": [sortable(lock.python) for lock in locks],
            **versions,
            **{
                f"{name}_sort": [each and sortable(each) for each in known]
                for name, known in versions.items()
            },
        }
    )


def remedies_frame(table: Table) -> pd.DataFrame:
    """Return what each variant against a cause did, on each stack where its scenario has the cause.

    A variant that is meant for some variants only has a row where one of these fails.
    """
    import pandas as pd  # noqa: PLC0415  (see above)

    together: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in table.rows:
        together[row.device, row.scenario, row.stack].append(row)
    found: list[tuple[str, str, str, int, str, str, str, bool | None]] = []
    for (device, name, stack), rows in together.items():
        scenario = table.scenarios.get(name)
        tried = {each.name: each for each in scenario.variants if each.cures} if scenario else {}
        failing = {row.variant for row in rows if row.passed is False}
        causes = Counter(row.diagnosis.cause for row in rows if row.diagnosis)
        for row in rows:
            variant = tried.get(row.variant)
            if variant is None or not variant.is_tested(failing):
                continue
            found += [
                (cause, name, row.variant, causes[cause], stack, device, row.outcome, row.passed)
                for cause in variant.cures
                if causes[cause]
            ]
    columns = ["cause", "scenario", "remedy", "failing", "stack", "device", "outcome", "passed"]
    return pd.DataFrame(found, columns=columns).astype({"passed": "boolean"})


class Csv:
    """A row per cell, for spreadsheets. Text that looks like a formula gets an apostrophe."""

    @staticmethod
    def pieces(results: Results) -> Iterator[bytes]:
        """Yield the table as UTF-8, some rows at a time."""
        yield from as_csv(results.frame, ("message", "place"))


def as_csv(table: pd.DataFrame, texts: Iterable[str]) -> Iterator[bytes]:
    """Yield a table as UTF-8, some rows at a time; ``texts`` are columns that anyone may write."""
    safe = table.copy()
    if "passed" in table:
        safe["passed"] = table["passed"].map({True: "true", False: "false"})
    for name in texts:
        known = {text: spreadsheet(text) for text in table[name].dropna().unique()}
        safe[name] = table[name].map(known)
    for column in table.select_dtypes("datetimetz"):  # pandas takes three times as long
        safe[column] = list(map(str, table[column].dt.to_pydatetime()))
    for start in range(0, max(len(safe), 1), PIECE_ROWS):
        piece = safe.iloc[start : start + PIECE_ROWS].to_csv(
            index=False, header=not start, lineterminator="\n", float_format="%.6g"
        )
        yield piece.encode()


class StacksCsv:
    """A row per stack: its day, its versions, and when it was last measured."""

    @staticmethod
    def pieces(results: Results) -> Iterator[bytes]:
        """Yield the table of stacks as UTF-8."""
        yield from as_csv(stacks_frame(results.table), ("python", *SHOWN))


class RemediesCsv:
    """What helps against a cause: a row per cause, variant against it, stack and device."""

    @staticmethod
    def pieces(results: Results) -> Iterator[bytes]:
        """Yield the table of remedies as UTF-8."""
        yield from as_csv(remedies_frame(results.table), ())


class Parquet:
    """A row per cell with its stack, for analyses. Columns have types, messages are as raised."""

    @staticmethod
    def pieces(results: Results) -> Iterator[bytes]:
        """Yield both tables joined, compressed."""
        file = io.BytesIO()
        joined = results.frame.merge(stacks_frame(results.table), on="stack", how="left")
        joined.to_parquet(file, engine="pyarrow", index=False, compression="zstd")
        yield file.getvalue()


class StackEntry(Frozen, frozen=True):
    """One column of the matrix."""

    name: str
    python: str
    as_of: dt.date
    """The day the package index was read as of."""
    packages: dict[str, str]
    """The version of every package."""
    build: str | None
    """The build of torch of its newest cell: cpu, cuda or default; null if nothing was run."""
    fallen_behind: dict[str, int | None]
    """Days by which the resolver silently took an old release, by package."""


class Document(Frozen, frozen=True):
    """The published matrix."""

    schema: int
    stacks: tuple[StackEntry, ...]
    """By as-of date, the oldest first; before them those of [generate.pairwise]."""
    cells: tuple[Row, ...]
    """By device, scenario, variant, and then in the order of the stacks."""


class Json:
    """Every stack with its versions; every cell with rate, warnings and diagnosis. One per line."""

    @staticmethod
    def pieces(results: Results) -> Iterator[bytes]:
        """Yield a ``Document``, line by line."""
        table, encoder = results.table, msgspec.json.Encoder()
        stacks = (stack_entry(lock, table.builds.get(lock.stack)) for lock in table.locks)
        yield b'{"schema":%d,\n"stacks":[\n' % SCHEMA
        yield from json_elements(map(encoder.encode, stacks))
        yield b'],\n"cells":[\n'
        yield from json_elements(map(encoder.encode, table.rows))
        yield b"]}\n"


def stack_entry(lock: Lock, build: str | None) -> StackEntry:
    """Return the entry of a stack in matrix.json."""
    return StackEntry(
        name=lock.stack,
        python=lock.python,
        as_of=lock.as_of,
        packages={package.name: package.version for package in lock.packages},
        build=build,
        fallen_behind={package.name: package.behind_days for package in fallen_behind(lock, SHOWN)},
    )


def json_elements(elements: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the elements of a JSON list, each on its own line."""
    end = b""
    for element in elements:
        yield end + element
        end = b",\n"
    yield b"\n" if end else b""


class Schema:
    """The JSON Schema of matrix.json."""

    @staticmethod
    def pieces(_results: Results) -> Iterator[bytes]:
        """Yield the schema of ``Document``."""
        yield schema_of(Document, "The matrix of gradmatrix")


class RecordsSchema:
    """The JSON Schema of a line in records/."""

    @staticmethod
    def pieces(_results: Results) -> Iterator[bytes]:
        """Yield the schema of ``Record``."""
        yield schema_of(Record, "A record of gradmatrix: one cell, one line")


def schema_of(kind: type[Frozen], title: str) -> bytes:
    """Return the JSON Schema of a type. Docstrings of types and fields become descriptions."""
    schema = msgspec.json.schema(kind)
    for each in Frozen.__subclasses__():
        if each.__name__ in schema["$defs"]:
            describe(schema["$defs"][each.__name__], each)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    return msgspec.json.format(msgspec.json.encode(head | schema), indent=1) + b"\n"


def describe(definition: dict[str, Any], kind: type) -> None:
    """Add the docstrings of a type and of its fields to its definition."""
    definition["description"] = flat(kind.__doc__ or "")
    (body,) = (
        node for node in ast.parse(inspect.getsource(kind)).body if isinstance(node, ast.ClassDef)
    )
    for field, text in pairwise(body.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            value = text.value if isinstance(text, ast.Expr) else None
            if isinstance(value, ast.Constant):
                definition["properties"][field.target.id]["description"] = flat(str(value.value))


def flat(docstring: str) -> str:
    """Return a docstring on one line, without markup."""
    return " ".join(docstring.replace("``", "").split())


LEGEND = (
    "Each cell is a real run of a training script in a real environment. ✓ trains: every "
    "parameter that should learn got a finite, non-zero gradient and changed, and the loss stayed "
    "finite. The number is the median of optimizer steps per second. ✗ `phase:reason`: the phase "
    "in which the run failed, and why; `relation:disagrees` means that it trains, but its losses "
    "or gradients differ from those of a variant that should be equivalent. – not judged: the "
    "stack has no such feature, or the machine has no such device. A misuse cannot train; ✓ means "
    "that the stack reports the mistake. The messages and diagnoses of all cells are in "
    "`matrix.json`."
)


class Markdown:
    """The tables of the matrix, as GitHub shows them."""

    @staticmethod
    def pieces(results: Results) -> Iterator[bytes]:
        """Yield the headline, the stacks, and the tables of cells."""
        yield as_markdown(results.table).encode()


def as_markdown(table: Table) -> str:
    """Return the matrix as a Markdown page."""
    parts = ["# Which stacks train?", "", LEGEND, ""]
    if has_reported(table):
        parts += ["## Reported variants that train (cpu)", ""]
        parts += ["✓ all of them train, ◐ some, ✗ none.", "", headline(table), ""]
    parts += ["## Stacks", "", stacks_table(table), ""]
    shown = [lock.stack for lock in table.dated]
    for device in dict.fromkeys(row.device for row in table.rows):
        rows = table.of_device(device)
        if lacks_device(rows):
            parts += [f"No cell was judged on {code(device)}: {markdown(rows[0].message)}.", ""]
            continue
        misuse = [row for row in rows if row.role is Role.MISUSE]
        others = [row for row in rows if row.role is not Role.MISUSE]
        for title, section in (
            ("Does it train?", others),
            ("Does the stack tell you?", misuse),
        ):
            if section:
                cells = markdown_table(grid(section, table.scenarios, shown))
                parts += [f"## {title} ({markdown(device)})", "", cells, ""]
    return "\n".join(parts)


def stacks_table(table: Table) -> str:
    """Return a table of the stacks. ⚠ marks packages of which the resolver took an old release."""
    lines = [
        "| stack | as of | Python | " + " | ".join(SHOWN) + " |",
        "| --- " * (3 + len(SHOWN)) + "|",
    ]
    for lock in table.locks:
        behind = {p.name: p for p in fallen_behind(lock, SHOWN)}
        cells = [lock.stack, f"{lock.as_of}", lock.python]
        if lock.failure is not None:
            cells.append(lock.failure.outcome)
        for name in SHOWN if lock.failure is None else ():
            package = behind.get(name)
            mark = f" ⚠ {package.behind_days} days behind {package.newest}" if package else ""
            cells.append((lock.version(name) or "–") + mark)
        lines.append("| " + " | ".join(markdown(cell) for cell in cells) + " |")
    return "\n".join(lines)


def markdown_table(cells_in_words: Grid) -> str:
    """Return a grid as a Markdown table. The name of a scenario is written only once."""
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


def has_reported(table: Table) -> bool:
    """Whether a variant of the matrix was reported as broken."""
    return any(v.role is Role.REPORTED for s in table.scenarios.values() for v in s.variants)


def headline(table: Table, stacks: Collection[str] | None = None) -> str:
    """Return a table of how many reported variants train on CPU, by scenario and stack.

    In a matrix without them, all variants that should train count. A scenario that none of the
    stacks supports has no row.

    Args:
        table: The matrix.
        stacks: The names of the stacks to show; None for all.
    """
    counted = {Role.REPORTED} if has_reported(table) else {*Role} - {Role.MISUSE}
    shown = [lock for lock in table.dated if stacks is None or lock.stack in stacks]
    rows: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in table.of_device("cpu"):
        if row.role in counted:
            rows[row.stack, row.scenario].append(row)

    def supported(name: str) -> bool:
        found = [row.outcome for lock in shown for row in rows[lock.stack, name]]
        return not found or set(found) != {UNSUPPORTED}

    names = [
        s.name
        for s in table.scenarios.values()
        if any(v.role in counted for v in s.variants) and supported(s.name)
    ]
    lines = [
        "| scenario | " + " | ".join(f"{lock.stack}, {lock.as_of}" for lock in shown) + " |",
        "| --- " * (1 + len(shown)) + "|",
    ]
    for name in names:
        cells = [headline_cell(rows[lock.stack, name]) for lock in shown]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def headline_cell(rows: Sequence[Row]) -> str:
    """Return how many of the judged variants train, and how the others fail."""
    judged = [row for row in rows if row.passed is not None]
    if not judged:
        return "– unsupported" if rows else "not run"
    red = Counter(row.outcome for row in judged if not row.passed)
    if not red:
        return f"✓ {len(judged)} of {len(judged)}"
    how = ", ".join(
        f"{outcome} × {count}" if count > 1 else outcome for outcome, count in red.most_common()
    )
    good = len(judged) - red.total()
    return f"{'◐' if good else '✗'} {good} of {len(judged)}: {how}"


class EvidenceEntry(Frozen, frozen=True):
    """A cell that supports or contradicts a claim."""

    cell: str
    """``STACK/SCENARIO/VARIANT/DEVICE``"""
    outcome: str
    bears: str
    why: str


class TestedEntry(Frozen, frozen=True):
    """One expectation of a claim, and how often it holds."""

    cells: tuple[str, ...]
    """``SCENARIO/VARIANT`` of each cell that it is about."""
    expected: tuple[str, ...]
    conditions: tuple[str, ...]
    holds: int
    """The number of cells that show what is expected."""
    tested: int
    """The number of cells that show it or show the opposite."""
    stacks: int
    """The number of stacks that these cells belong to."""
    releases: tuple[Span, ...]
    boundaries: tuple[Boundary, ...]
    too_close: int
    """The number of further cells whose speeds are too close to decide."""


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
    note: str
    tested: tuple[TestedEntry, ...]
    evidence: tuple[EvidenceEntry, ...]


class ClaimsDocument(Frozen, frozen=True):
    """The published claims."""

    schema: int
    claims: tuple[ClaimEntry, ...]


class Claims:
    """Every claim with its verdict and all cells that support or contradict it. One per line."""

    @staticmethod
    def pieces(results: Results) -> Iterator[bytes]:
        """Yield a ``ClaimsDocument``, line by line."""
        encoder = msgspec.json.Encoder()
        yield b'{"schema":%d,\n"claims":[\n' % SCHEMA
        yield from json_elements(encoder.encode(claim_entry(each)) for each in results.claims)
        yield b"]}\n"


def claim_entry(judged: Judged) -> ClaimEntry:
    """Return the entry of a claim. A cell that is relevant to two expectations appears twice."""
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
        note=claim.note,
        tested=tuple(map(tested_entry, judged.tested)),
        evidence=tuple(
            EvidenceEntry(cell=str(each.cell), outcome=each.outcome, bears=each.bears, why=each.why)
            for each in judged.evidence
        ),
    )


def tested_entry(tested: Tested) -> TestedEntry:
    """Return the entry of an expectation."""
    expected = tested.expectation
    return TestedEntry(
        cells=tuple(f"{scenario}/{variant}" for scenario, variant in expected.cells),
        expected=expected.labels,
        conditions=expected.conditions,
        holds=tested.holding,
        tested=len(tested.evidence),
        stacks=tested.stacks,
        releases=tested.releases,
        boundaries=tested.boundaries,
        too_close=tested.too_close,
    )


class PairwiseEntry(Frozen, frozen=True):
    """The stacks of a [generate.pairwise] table, and the combinations that they have."""

    coverage: Coverage
    judged: int
    """The number of combinations that a judged cell has met."""
    versions: dict[str, tuple[str, ...]]
    """The versions of each package that are combined."""
    stacks: dict[str, dict[str, str]]
    """Each stack with its versions, run or not."""
    impossible: tuple[Proof, ...]
    """The smallest conflicts; a combination that holds one cannot be installed."""
    alone: tuple[dict[str, str], ...]
    """Combinations that can be installed, but not with any versions of the other packages."""


class PairwiseDocument(Frozen, frozen=True):
    """The published combinations."""

    schema: int
    tables: tuple[PairwiseEntry, ...]


class CombinedReleases:
    """Which pairs of releases the stacks of [generate.pairwise] have, and the resolver's proofs."""

    @staticmethod
    def pieces(results: Results) -> Iterator[bytes]:
        """Yield a ``PairwiseDocument``, line by line."""
        encoder = msgspec.json.Encoder()
        yield b'{"schema":%d,\n"tables":[\n' % SCHEMA
        yield from json_elements(map(encoder.encode, pairwise_entries(results)))
        yield b"]}\n"


def pairwise_entries(results: Results) -> Iterator[PairwiseEntry]:
    """Yield the entry of each [generate.pairwise] table."""
    judged = {row.stack for row in results.table.rows if row.passed is not None}
    for each in results.chosen:
        ran = (stack for stack in each.stacks if stack.name in judged)
        yield PairwiseEntry(
            coverage=coverage(each.array, each.stacks),
            judged=coverage(each.array, ran).covered,
            versions=each.array.versions,
            stacks={stack.name: pins_of(stack, each.array.versions) for stack in each.stacks},
            impossible=each.array.proofs,
            alone=each.array.alone,
        )


FORMATS: dict[str, type[Format]] = {
    "matrix.md": Markdown,
    "matrix.csv": Csv,
    "stacks.csv": StacksCsv,
    "remedies.csv": RemediesCsv,
    "matrix.parquet": Parquet,
    "matrix.json": Json,
    "matrix.schema.json": Schema,
    "claims.json": Claims,
    "pairwise.json": CombinedReleases,
    "records.schema.json": RecordsSchema,
}
"""The data files that a publication writes, by their paths in ``results/``."""


def described() -> list[tuple[str, str]]:
    """Return each file of ``FORMATS`` with its description, for pages and docs."""
    return [(name, inspect.cleandoc(each.__doc__ or "")) for name, each in FORMATS.items()]


def write_block(readme: Path, name: str, content: str) -> None:
    """Replace the text between the marks of block ``name``. A file without them is not changed."""
    if not readme.exists():
        return
    text = readme.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}: written by gradmatrix, do not edit -->", f"<!-- end of {name} -->"
    pattern = re.compile(re.escape(begin) + r".*?" + re.escape(end), re.DOTALL)
    write_atomically(readme, pattern.sub(lambda _: f"{begin}\n\n{content}\n\n{end}", text).encode())
