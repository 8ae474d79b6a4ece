"""``faults``: the faults of the machine and of strangers' scripts, injected into real runs.

Each row of FAULTS says what is injected and what is promised. Commands of the command line run in a
scratch checkout with a real environment. The campaign fails if a promise is not met. It needs
Linux, because it looks for processes in ``/proc``.
"""

from __future__ import annotations

import contextlib
import csv
import datetime as dt
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.table import Table
from rich.text import Text

from gradmatrix.cli.commands import add
from gradmatrix.core.errors import UserError, did_you_mean
from gradmatrix.core.files import read_lines, tail
from gradmatrix.core.outcomes import Outcome
from gradmatrix.core.text import counted, one_line, tally
from gradmatrix.run.store import Store, decode, encode
from gradmatrix.stacks import environment, sandbox
from tests.fakes.package_index import PackageIndex, wheel

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console

    from gradmatrix.core.model import Lock, Record
    from gradmatrix.run.project import Project

CHECKOUT = Path(__file__).resolve().parent.parent.parent
MISBEHAVING = CHECKOUT / "tests" / "fakes" / "process.py"
STACK = "lightning-2.0.3"
KILLS = 100
PATIENCE_S = 600.0
"""How long the campaign waits for what must happen. It only ends a campaign that hangs."""
TRAINING_CELLS, SOAK_CELLS = 12, 100
DEATHS = 0.05
"""The share of a soak's children that are killed."""
TRAINING = '''"""A loop that trains: one cell for each variant, which is also its seed."""

import torch

NEEDS = ("torch",)
VARIANTS = {variants}


def train(variant, device, steps):
    torch.manual_seed(int(variant[1:]))
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(8, 8, device=device)
    for _ in range(steps):
        optimizer.zero_grad()
        (model(inputs) - 1).square().mean().backward()
        optimizer.step()
'''
MATRIX = """[run]
devices = ["cpu"]
scenarios = ["process", "training", "soak"]
timeout_s = {timeout_s}
memory_gb = {memory_gb}

[steps]
audit = 2
warmup = 1
timed = 3

[[stacks]]
name = "{stack}"
python = "{python}"
as_of = {as_of}
core = true
requirements = {requirements}
build = {build}
"""
CANARIES = {
    name: f"canary-of-{name.lower()}"
    for name in ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "WANDB_API_KEY")
}
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")
SIZES_KIB = (4, 8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 128, 192, 256)
"""The sizes of the file systems on which a run is tried: each is full at another write."""
ON_A_SMALL_DISK = """
mount -t tmpfs -o size="$SIZE" none "$PLACE" || exit 99
"$@" > "$LOGS/full.txt" 2>&1; echo $? > "$LOGS/full.code"
cp -a "$PLACE" "$LOGS/full"
mount -o remount,size=256m "$PLACE"
"$@" > "$LOGS/again.txt" 2>&1; echo $? > "$LOGS/again.code"
cp -a "$PLACE" "$LOGS/again"
"""
READ_ONLY = """
mount -t tmpfs -o size=64m none "$PLACE" && mount -o remount,ro "$PLACE" || exit 99
"$@"
"""


@dataclass(frozen=True)
class Seen:
    """One thing that was seen, and whether it is what was promised; None if it was not tried."""

    text: str
    met: bool | None


@dataclass(frozen=True)
class Ran:
    """How a command ended, and everything that it printed."""

    code: int
    output: str

    @property
    def complaint(self) -> str:
        """Its last line, for a table."""
        return one_line(next(reversed(self.output.strip().splitlines()), "no output"))

    @property
    def taught(self) -> bool:
        """Whether it could not be done and said so in a sentence."""
        return self.code == 2 and "gradmatrix: " in self.output and not self.raised  # noqa: PLR2004

    @property
    def raised(self) -> bool:
        """Whether it printed a traceback of ours."""
        return "Traceback (most recent call last)" in self.output


@dataclass
class Scratch:
    """A checkout of its own with a scenario that trains and one that misbehaves."""

    root: Path
    lock: Lock
    environments: Path
    variables: dict[str, str] = field(default_factory=dict)
    """What the commands find set beside the variables of this process."""

    def __post_init__(self) -> None:
        scenarios, locks = self.root / "scenarios", self.root / "results" / "locks"
        for folder in (scenarios, locks, self.work, self.home):
            folder.mkdir(parents=True)
        (self.work / "environments").symlink_to(self.environments)
        shutil.copy(MISBEHAVING, scenarios / "process.py")
        for name, cells in (("training", TRAINING_CELLS), ("soak", SOAK_CELLS)):
            text = TRAINING.replace("{variants}", repr(variants(cells)))
            (scenarios / f"{name}.py").write_text(text, encoding="utf-8")
        self.limit()

    @property
    def work(self) -> Path:
        """Where runs keep their journal and their files."""
        return self.root / ".gradmatrix"

    @property
    def home(self) -> Path:
        """The home of whoever gives the commands."""
        return self.root / "home"

    @property
    def journal(self) -> Path:
        """The file to which each cell is added when it ends."""
        return self.work / "records" / f"{self.lock.stack}.jsonl"

    def limit(self, timeout_s: float = PATIENCE_S, memory_gb: float = 8) -> None:
        """Write matrix.toml with these limits for each cell."""
        text = MATRIX.format(
            timeout_s=timeout_s,
            memory_gb=memory_gb,
            stack=self.lock.stack,
            python=self.lock.python,
            as_of=self.lock.as_of,
            requirements=json.dumps(self.lock.requirements),
            build=json.dumps(self.lock.build),
        )
        (self.root / "matrix.toml").write_text(text, encoding="utf-8")

    def forget(self) -> None:
        """Delete everything that was recorded."""
        for folder in (self.journal.parent, self.root / "results" / "local"):
            shutil.rmtree(folder, ignore_errors=True)

    def command(self, *words: str) -> list[str]:
        """A command line of gradmatrix about this checkout."""
        return [sys.executable, "-m", "gradmatrix", *words, "--root", str(self.root)]

    def running(self, *cells: str) -> list[str]:
        """The command line that runs ``cells``: scenarios, or SCENARIO/VARIANT."""
        options = (("--cell" if "/" in each else "--scenario", each) for each in cells)
        return self.command("run", self.lock.stack, "--no-table", *(w for o in options for w in o))

    def start(self, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a command; what it prints goes to ``log``."""
        with log.open("wb") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environ(),
                cwd=self.root,
            )

    def environ(self) -> dict[str, str]:
        """The variables of a command."""
        paths = os.pathsep.join([str(CHECKOUT / "harness"), str(CHECKOUT)])
        quick = {"PYTHONDONTWRITEBYTECODE": ""}  # hundreds of commands, each of which would compile
        return {
            **os.environ,
            **quick,
            "PYTHONPATH": paths,
            "HOME": str(self.home),
            **self.variables,
        }

    def run(self, *cells: str) -> Ran:
        """Run ``cells`` to their end."""
        return self.do(self.running(*cells))

    def do(self, command: Sequence[str]) -> Ran:
        """Give a command and wait for its end."""
        log = self.root / "log.txt"
        with self.start(command, log) as process:
            process.wait(PATIENCE_S)
        return Ran(process.returncode, tail(log, 2**20))

    def records(self) -> list[Record]:
        """The records of the journal."""
        return records_in(self.journal)

    def outcomes(self) -> dict[str, str]:
        """The newest outcome of each cell, by scenario and variant."""
        store = Store(self.journal.parent, self.root / "results" / "records")
        found = store.recorded_here(self.lock.stack)
        return {f"{cell.scenario}/{cell.variant}": r.outcome for cell, r in found.items()}

    def left(self) -> list[str]:
        """The processes and folders that runs left behind, after the processes had time to end."""
        waits_until(lambda: not processes_below(self.root))
        folders = (path.name for path in (self.work / "work").glob("*"))
        partial_files = (path.name for path in self.root.rglob("*.partial"))
        return [*processes_below(self.root).values(), *folders, *partial_files]


@dataclass(frozen=True)
class Field:
    """Where faults are injected, and how many."""

    scratch: Scratch
    chance: random.Random
    kills: int
    sizes_kib: Sequence[int] = SIZES_KIB


def variants(number: int) -> dict[str, dict[str, str]]:
    """The variants of a scenario that trains."""
    return {f"v{each}": {"role": "control", "summary": "trains"} for each in range(number)}


def records_in(journal: Path) -> list[Record]:
    """The records of a journal without lines that a kill cut off; none if there is no file."""
    return [line.value for line in read_lines(journal, decode) if line.value is not None]


def processes_below(folder: Path) -> dict[int, str]:
    """The running processes whose working folder, command or variables name ``folder``."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            place = str((process / "cwd").readlink())
            variables = (process / "environ").read_bytes().decode(errors="replace")
            if int(process.name) != os.getpid() and any(
                str(folder) in text for text in (words, place, variables)
            ):
                found[int(process.name)] = words
    return found


def children_of(pid: int) -> list[int]:
    """The processes that a process started."""
    found: list[int] = []
    with contextlib.suppress(OSError):  # the process has ended, or one of its threads
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_text(encoding="ascii").split())
    return found


def cells_of(driver: subprocess.Popen[bytes]) -> list[int]:
    """The processes of the cells of a run: the children of its servers."""
    return [cell for server in children_of(driver.pid) for cell in children_of(server)]


def kill(pid: int) -> bool:
    """Kill a process from outside; whether there was one."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def waits_until(condition: Callable[[], object]) -> bool:
    """Whether ``condition()`` becomes true before patience ends."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def judged_once(records: Sequence[Record], expected: set[str]) -> list[str]:
    """What is wrong with a journal in which each cell should be judged once and should train."""
    judged = Counter(
        f"{record.cell.scenario}/{record.cell.variant}"
        for record in records
        if Outcome(record.outcome).judged
    )
    wrong = [f"{cell} is missing" for cell in sorted(expected - set(judged))]
    wrong += [f"{cell} was judged {n} times" for cell, n in judged.items() if n > 1]
    return wrong + [
        f"{record.cell.variant}: {record.outcome}" for record in records if record.passed is False
    ]


TRAINING_SET = {f"training/{name}" for name in variants(TRAINING_CELLS)}


def kills(where: Field) -> Iterator[Seen]:
    """Kill driver, server, child or all at random moments; complete the matrix each time."""
    scratch = where.scratch
    scratch.forget()
    began = time.monotonic()
    scratch.run("training")
    span_s = time.monotonic() - began
    done: Counter[str] = Counter()
    rounds, wrong = 0, list[str]()
    while done.total() < where.kills and not wrong:
        scratch.forget()
        rounds += 1
        wrong += killed_round(where, span_s, done)
    victims = tally(dict(sorted(done.items())))
    runs = f"{counted(rounds, 'run')} of {TRAINING_CELLS} cells"
    yield Seen(f"{counted(done.total(), 'kill')} ({victims}) in {runs}", met=True)
    yield Seen(
        "; ".join(wrong[:3]) or "0 records lost or doubled, 0 processes or folders left", not wrong
    )


def killed_round(where: Field, span_s: float, done: Counter[str]) -> list[str]:
    """Bring one matrix to its end in spite of kills; what was wrong afterwards."""
    scratch, kept = where.scratch, b""
    while True:
        driver = scratch.start(scratch.running("training"), scratch.root / "log.txt")
        shoot(where, driver, span_s, done)
        code = driver.wait(PATIENCE_S)
        journal = scratch.journal.read_bytes() if scratch.journal.exists() else b""
        if not journal.startswith(kept):
            return ["a record was lost"]
        kept = journal[: journal.rfind(b"\n") + 1]
        if code not in (0, -signal.SIGKILL):
            return [f"exit code {code}: {Ran(code, tail(scratch.root / 'log.txt')).complaint}"]
        newest = scratch.outcomes()
        complete = set(newest) >= TRAINING_SET
        if code == 0 and complete and not any(Outcome(each).spurious for each in newest.values()):
            return judged_once(scratch.records(), TRAINING_SET) + scratch.left()


def shoot(where: Field, driver: subprocess.Popen[bytes], span_s: float, done: Counter[str]) -> None:
    """Kill what ``driver`` started until it has ended or there were enough kills."""
    while done.total() < where.kills:
        with contextlib.suppress(subprocess.TimeoutExpired):
            driver.wait(where.chance.uniform(0, span_s))
        if driver.poll() is not None:
            return
        victim = where.chance.choice(("driver", "server", "child", "all"))
        servers, cells = children_of(driver.pid), cells_of(driver)
        while victim == "child" and not cells and driver.poll() is None:
            time.sleep(0.002)
            cells = cells_of(driver)
        targets = {
            "driver": [driver.pid],
            "server": servers,
            "child": cells,
            "all": [driver.pid, *servers, *cells],
        }[victim]
        hit = [kill(pid) for pid in targets]
        done[victim] += any(hit)


def soaks(where: Field) -> Iterator[Seen]:
    """Kill one child in twenty of a run of many cells, twice; compare with an undisturbed run."""
    scratch = where.scratch
    scratch.forget()
    scratch.run("soak")
    undisturbed = verdicts(scratch.records())
    for _ in range(2):
        scratch.forget()
        driver = scratch.start(scratch.running("soak"), scratch.root / "log.txt")
        killed = kill_some_children(driver, where.chance)
        soaked = verdicts(scratch.records())
        different = sorted(cell for cell in undisturbed if soaked.get(cell) != undisturbed[cell])
        told = "machine" in tail(scratch.root / "log.txt") or not killed
        yield Seen(
            f"{killed} of {len(undisturbed)} cells killed: "
            + (f"different: {', '.join(different[:3])}" if different else "equal cell by cell"),
            not different and bool(undisturbed) and told,
        )


def kill_some_children(driver: subprocess.Popen[bytes], chance: random.Random) -> int:
    """Kill each new cell of a run with the probability DEATHS until the run ends; how many died."""
    known, killed, due = set[int](), 0, 0
    while driver.poll() is None:
        new = set(cells_of(driver)) - known
        known |= new
        for cell in new:
            due += chance.random() < DEATHS
            if due:
                time.sleep(chance.uniform(0, 0.1))
                hit = kill(cell)  # it may have ended; then the next one is killed
                killed, due = killed + hit, due - hit
        time.sleep(0.002)
    return killed


def verdicts(records: Sequence[Record]) -> dict[str, tuple[object, ...]]:
    """What a matrix says of each cell: everything but times."""
    return {
        str(r.cell): (r.outcome, r.passed, r.gradient, r.message)
        + ((r.observation.losses, r.observation.gradient_norms) if r.observation else ())
        for r in records
    }


def script_fault(
    variant: str, *outcomes: str, timeout_s: float = PATIENCE_S, memory_gb: float = 8
) -> Callable[[Field], Iterator[Seen]]:
    """A fault in a cell, which gets one of ``outcomes``. The cell after it trains."""

    def inject(where: Field) -> Iterator[Seen]:
        scratch = where.scratch
        scratch.forget()
        scratch.limit(timeout_s, memory_gb)
        ran = scratch.run(f"process/{variant}")
        scratch.limit()
        found = scratch.outcomes().get(f"process/{variant}", ran.complaint)
        yield Seen(found, found in outcomes and not ran.raised)
        scratch.run("training/v0")
        after = scratch.outcomes().get("training/v0", "none")
        if after != "trains":
            yield Seen(f"the next cell: {after}", met=False)
        left = scratch.left()
        yield Seen(f"left: {', '.join(left)}" if left else "nothing is left", not left)

    return inject


def orphan(where: Field) -> Iterator[Seen]:
    """Kill a run while a process of another session sleeps. Nobody is left who could end it."""
    scratch = where.scratch
    scratch.forget()
    driver = scratch.start(scratch.running("process/daemon_then_hang"), scratch.root / "log.txt")
    asleep = waits_until(lambda: any((scratch.work / "work").rglob("sleeper.txt")))
    driver.kill()
    driver.wait()
    scratch.run("training/v0")
    left = scratch.left()
    yield Seen(f"left: {', '.join(left)}" if left else "the next run ended it", not left and asleep)


def flood(where: Field) -> Iterator[Seen]:
    """Print 2 GiB: how much of it lay on the disk at most, and at the end."""
    scratch = where.scratch
    peak, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            peak[0] = max(peak[0], size_of(scratch.work / "work"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield from script_fault("flood_2_gib", "trains")(where)
    finally:
        ended.set()
        watcher.join()
    kept = size_of(scratch.journal.parent)
    yield Seen(f"at most {peak[0] / 2**20:.0f} MiB on disk", peak[0] < 2**31)
    yield Seen(f"{kept / 2**10:.0f} KiB at the end", kept < 2**20)


def size_of(folder: Path) -> int:
    """The bytes of all files in a folder, from which others may be deleted meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(place, name).lstat().st_blocks * 512
    return total


def forged(where: Field) -> Iterator[Seen]:
    """A cell writes observations for all others. They keep their own verdicts."""
    scratch = where.scratch
    scratch.forget()
    asked = ("process/forge_others", "process/segfault", "training/v0")
    scratch.run(*asked)
    scratch.run("training/v1", "process/abort")
    found = scratch.outcomes()
    expected = {
        "process/forge_others": "trains",
        "process/segfault": "process:signal-11",
        "process/abort": "process:signal-6",
        "training/v0": "trains",
        "training/v1": "trains",
    }
    wrong = [f"{cell}: {found.get(cell)}" for cell in expected if found.get(cell) != expected[cell]]
    yield Seen("; ".join(wrong) or "every cell has its own verdict", not wrong)


@cache
def may_mount() -> bool:
    """Whether this user may mount a file system in a namespace of its own."""
    with tempfile.TemporaryDirectory() as folder:
        tried = [*NAMESPACE, "mount", "-t", "tmpfs", "none", folder]
        with contextlib.suppress(OSError):
            return not subprocess.run(tried, check=False, capture_output=True).returncode
    return False


NO_MOUNT = Seen("skipped: this system does not let this user mount a file system", None)


def disk_full(where: Field) -> Iterator[Seen]:
    """Run on file systems of several sizes, and again after there is space."""
    if not may_mount():
        yield NO_MOUNT
        return
    wrong, stopped = list[str](), 0
    for size in where.sizes_kib:
        found, full = on_a_small_disk(where.scratch, size)
        wrong += [f"{size} KiB: {each}" for each in found]
        stopped += full
    sizes = f"{len(where.sizes_kib)} sizes from {min(where.sizes_kib)} KiB"
    yield Seen(f"{sizes}, {stopped} runs met the end of the disk", stopped > 0)
    yield Seen(
        "; ".join(wrong[:3]) or "no traceback, no verdict; complete after there was space",
        not wrong,
    )


def on_a_small_disk(scratch: Scratch, size_kib: int) -> tuple[list[str], bool]:
    """What was wrong with a run on a disk of this size, and whether the disk was too small."""
    logs = Path(tempfile.mkdtemp(dir=scratch.root))
    place = logs / "results"
    place.mkdir()
    scratch.variables.update(SIZE=f"{size_kib}k", PLACE=str(place), LOGS=str(logs))
    cells = [f"training/v{number}" for number in range(4)]
    command = [*scratch.running(*cells), "--results", str(place)]
    ran = scratch.do([*NAMESPACE, "sh", "-c", ON_A_SMALL_DISK, "sh", *command])
    if ran.code:
        return [f"the namespace: {ran.complaint}"], False
    full, again = (
        Ran(
            int((logs / f"{name}.code").read_text(encoding="ascii")),
            tail(logs / f"{name}.txt", 2**20),
        )
        for name in ("full", "again")
    )
    wrong = [f"a traceback: {each.complaint}" for each in (full, again) if each.raised]
    if full.code and not full.taught:
        wrong.append(f"exit code {full.code}: {full.complaint}")
    if again.code:
        wrong.append(f"after there was space: {again.complaint}")
    file = logs / "again" / ".gradmatrix" / "records" / f"{scratch.lock.stack}.jsonl"
    wrong += judged_once(records_in(file), set(cells))
    shutil.rmtree(logs)
    return wrong, bool(full.code) or "machine" in full.output


def read_only(where: Field) -> Iterator[Seen]:
    """Write results where nothing can be written."""
    if not may_mount():
        yield NO_MOUNT
        return
    scratch = where.scratch
    place = scratch.root / "read-only"
    place.mkdir(exist_ok=True)
    scratch.variables.update(PLACE=str(place))
    command = [*scratch.running("training/v0"), "--results", str(place)]
    ran = scratch.do([*NAMESPACE, "sh", "-c", READ_ONLY, "sh", *command])
    yield Seen(ran.complaint, ran.taught)


def closed_pipe(where: Field) -> Iterator[Seen]:
    """Nobody reads what the command prints: its pipe is closed at once."""
    scratch = where.scratch
    scratch.forget()
    errors = scratch.root / "errors.txt"
    reading, writing = os.pipe()
    os.close(reading)
    with errors.open("wb") as file:
        ran = subprocess.run(
            scratch.running("training"),
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=file,
            env=scratch.environ(),
            cwd=scratch.root,
            check=False,
            timeout=PATIENCE_S,
        )
    os.close(writing)
    printed = tail(errors)
    wrong = judged_once(scratch.records(), set())
    yield Seen(
        f"exit code {ran.returncode}, {counted(len(scratch.records()), 'record')}",
        "Traceback" not in printed and "Exception ignored" not in printed and not wrong,
    )
    again = scratch.run("training")
    wrong = judged_once(scratch.records(), TRAINING_SET)
    yield Seen("; ".join(wrong) or "the same command completes it", not wrong and not again.code)


def clock_ahead(where: Field) -> Iterator[Seen]:
    """Records dated a year ahead and in 1970: the clock jumped and was put right."""
    scratch = where.scratch
    scratch.forget()
    scratch.run("training/v0", "training/v1")
    ahead = dt.datetime.now(dt.UTC) + dt.timedelta(days=366)
    past = dt.datetime.fromtimestamp(0, dt.UTC)
    wrongly = [
        msgspec.structs.replace(each, recorded_at=moment, outcome="setup:exception", passed=False)
        for each, moment in zip(scratch.records(), (ahead, past), strict=True)
    ]
    scratch.journal.write_bytes(b"".join(map(encode, wrongly)))
    os.utime(scratch.journal, (ahead.timestamp(), ahead.timestamp()))
    ran = scratch.do([*scratch.running("training/v0", "training/v1"), "--fresh"])
    found = scratch.outcomes()
    fresh = found == {"training/v0": "trains", "training/v1": "trains"}
    yield Seen("the newest run counts" if fresh else str(found), fresh and not ran.code)
    local = scratch.root / "results" / "local"
    shown = scratch.do(scratch.command("table", scratch.lock.stack))
    with (local / "matrix.csv").open(encoding="utf-8") as file:
        outcomes = {row["outcome"] for row in csv.DictReader(file)}
    yield Seen(f"a table shows {', '.join(outcomes)}", outcomes == {"trains"} and not shown.code)


def two_runs(where: Field) -> Iterator[Seen]:
    """Two runs of two checkouts with one results folder, started together."""
    scratch = where.scratch
    scratch.forget()
    shared, other = scratch.root / "shared", scratch.root.with_name("other")
    for folder in (shared, other):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(scratch.root, other, symlinks=True)
    command = [*scratch.running("training"), "--results", str(shared)]
    runs = (command, [*command, "--root", str(other)])
    both = [scratch.start(run, scratch.root / f"run-{n}.txt") for n, run in enumerate(runs)]
    codes = [driver.wait(PATIENCE_S) for driver in both]
    records = records_in(shared / ".gradmatrix" / "records" / f"{scratch.lock.stack}.jsonl")
    wrong = judged_once(records, TRAINING_SET)
    yield Seen(
        "; ".join(wrong[:3]) or "each cell ran once, both ended well", not wrong and codes == [0, 0]
    )


def tokens(where: Field) -> Iterator[Seen]:
    """A script prints, warns of and raises all that it can see, with tokens in the variables."""
    scratch = where.scratch
    scratch.forget()
    (scratch.home / ".netrc").write_text("canary-of-home", encoding="ascii")
    before = set(scratch.home.rglob("*"))
    scratch.variables.update(CANARIES)
    ran = scratch.do([*scratch.running("process/tell_everything"), "--verbose"])
    scratch.do(scratch.command("table", "--verbose"))
    for name in CANARIES:
        del scratch.variables[name]
    files = (path for top in (scratch.work, scratch.root / "results") for path in top.rglob("*"))
    found = [
        path.name
        for path in files
        if path.is_file() and not path.is_symlink() and b"canary-of" in path.read_bytes()
    ]
    told = "canary-of" in ran.output
    outcome = scratch.outcomes().get("process/tell_everything", ran.complaint)
    yield Seen(f"the script ran: {outcome}", outcome == "setup:exception")
    yield Seen(f"in {', '.join(found)}" if found else "in no file", not found)
    yield Seen("printed" if told else "not printed", not told)
    new = sorted(path.name for path in set(scratch.home.rglob("*")) - before)
    yield Seen(f"new in HOME: {', '.join(new)}" if new else "nothing new in HOME", not new)


Answer = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""


@dataclass
class FaultyIndex(PackageIndex):
    """An index whose answers are made worse."""

    worse: Callable[[str, Answer], Answer] = lambda _, answer: answer
    """Gets the path that was asked for, and the right answer."""

    def answer(self, path: str, headers: dict[str, str]) -> Answer:
        """The answer that is given."""
        return self.worse(path, super().answer(path, headers))


def slow(_: str, answer: Answer) -> Answer:
    """The right answer, late."""
    time.sleep(0.5)
    return answer


def silent(_: str, __: Answer) -> Answer:
    """No answer before whoever asked has gone."""
    time.sleep(5)
    return 503, {}, b""


def portal(_: str, __: Answer) -> Answer:
    """The login page of a network, whatever was asked."""
    page = b"<!DOCTYPE html><html><body><form>Please sign in</form></body></html>"
    return 200, {"Content-Type": "text/html"}, page


def broken(_: str, __: Answer) -> Answer:
    """An internal error."""
    return 500, {}, b"<html>Internal Server Error</html>"


def half(_: str, answer: Answer) -> Answer:
    """Half of the right answer."""
    status, headers, body = answer
    return status, headers, body[: len(body) // 2]


def lying(path: str, answer: Answer) -> Answer:
    """A wheel with other contents than the one whose hash was given."""
    status, headers, body = answer
    other = wheel("alpha", "1.0", requires=("beta ; python_version < '3'",))
    return status, headers, other if path.startswith("/files/") else body


REFUSED = ("resolve:index-unreachable", "gradmatrix: ")
"""What a command says if the index is at fault: an outcome of the machine, or a sentence."""


def index_fault(
    worse: Callable[[str, Answer], Answer], *said: str
) -> Callable[[Field], Iterator[Seen]]:
    """Lock and install a stack from such an index; the command must say one of ``said``."""

    def inject(where: Field) -> Iterator[Seen]:
        with (
            tempfile.TemporaryDirectory(dir=where.scratch.root) as folder,
            FaultyIndex(worse=worse) as index,
        ):
            index.add("alpha", "1.0", "2024-01-01")
            scratch = with_index(Path(folder) / "checkout", index, where.scratch.lock)
            locked = scratch.do(scratch.command("lock", "--all"))
            ran = locked if locked.code else scratch.run("training/v0")
            outcomes = set(scratch.outcomes().values())
            expected = outcomes & set(said) or any(each in ran.output for each in said)
            found = ", ".join(outcomes) or ran.complaint
            yield Seen(found, bool(expected) and not ran.raised and outcomes <= set(said))

    return inject


def with_index(root: Path, index: PackageIndex, like: Lock) -> Scratch:
    """A checkout whose only stack must be locked and installed from ``index``."""
    environments = root.with_name("environments")
    environments.mkdir()
    lock = msgspec.structs.replace(
        like,
        stack="alpha",
        requirements=("alpha",),
        as_of=dt.date(2025, 3, 31),
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
    )
    variables = {
        "UV_DEFAULT_INDEX": index.url,
        "UV_CACHE_DIR": str(root.with_name("uv-cache")),
        "GRADMATRIX_CACHE_DIR": str(root.with_name("index-cache")),
        "UV_HTTP_RETRIES": "0",
        "UV_HTTP_TIMEOUT": "2",
        "HF_HUB_OFFLINE": "1",
    }
    scratch = Scratch(root, lock, environments, variables)
    script = root / "scenarios" / "training.py"
    script.write_text(script.read_text("utf-8").replace('("torch",)', "()"), encoding="utf-8")
    return scratch


@dataclass(frozen=True)
class Fault:
    """One row of the campaign."""

    name: str
    promised: str
    inject: Callable[[Field], Iterator[Seen]]
    quick: bool = True
    """Whether it is part of the sample in the tests."""


TRAINS_ALL_THE_SAME = "the cell trains, and its processes end with it"
LOST = ("process:lost", "process:internal-error", "process:disk-full")
FAULTS = (
    Fault("kills", "no record is lost or doubled; no process and no folder is left", kills),
    Fault("soaks", "as undisturbed, with 5 % of the children killed", soaks, quick=False),
    Fault("disk-full", "one sentence, no verdict; the same command completes it", disk_full),
    Fault("hang", "process:timeout", script_fault("hang", "process:timeout", timeout_s=3)),
    Fault(
        "sigterm-ignored",
        "process:timeout",
        script_fault("hang_deaf", "process:timeout", timeout_s=3),
        quick=False,
    ),
    Fault("segfault", "process:signal-11", script_fault("segfault", "process:signal-11")),
    Fault("abort", "process:signal-6", script_fault("abort", "process:signal-6"), quick=False),
    Fault("exit-0", "process:exit-0", script_fault("os_exit_0", "process:exit-0"), quick=False),
    Fault("setsid", TRAINS_ALL_THE_SAME, script_fault("daemon", "trains")),
    Fault("orphan", "the next run ends what a killed run left", orphan, quick=False),
    Fault("grandchild", TRAINS_ALL_THE_SAME, script_fault("grandchild", "trains"), quick=False),
    Fault(
        "endless-memory",
        "process:out-of-memory",
        script_fault("exhaust_objects", "process:out-of-memory", memory_gb=0.5),
    ),
    Fault("output-2-gib", "it trains; the disk keeps the end of its output", flood, quick=False),
    Fault("pipes-closed", "the cell trains", script_fault("close_output", "trains"), quick=False),
    Fault("pipes-scribbled", "the cell trains", script_fault("write_to_events", "trains")),
    Fault("reader-gone", "no traceback; what ran is kept", closed_pipe),
    Fault("server-killed", "of the machine", script_fault("kill_server", *LOST), quick=False),
    Fault("folder-removed", "of the machine, never ✗", script_fault("remove_folder", *LOST)),
    Fault(
        "folders-removed-once",
        "repeated; it trains",
        script_fault("remove_folder_once", "trains"),
    ),
    Fault(
        "observation-cut",
        "its process decides",
        script_fault("truncate_observation", "process:exit-0"),
    ),
    Fault("observation-forged", "no cell decides about another", forged),
    Fault("clock-jumps", "the order of the journal counts", clock_ahead),
    Fault(
        "index-slow",
        "it is waited for; this stack has no torch",
        index_fault(slow, "import:missing-module"),
    ),
    Fault("index-silent", "of the machine", index_fault(silent, *REFUSED), quick=False),
    Fault("index-html", "one sentence, nothing recorded", index_fault(portal, *REFUSED)),
    Fault("index-500", "of the machine", index_fault(broken, *REFUSED)),
    Fault("index-cut", "of the machine", index_fault(half, *REFUSED), quick=False),
    Fault(
        "index-lies",
        "nothing is installed: install:hash-mismatch",
        index_fault(lying, "install:hash-mismatch"),
    ),
    Fault("two-runs", "each cell runs once", two_runs),
    Fault("read-only", "one sentence", read_only),
    Fault("tokens", "in no file; nothing new in HOME", tokens),
)


def campaign(where: Field, faults: Sequence[Fault]) -> Iterator[tuple[Fault, list[Seen]]]:
    """Inject one fault after the other; what was seen of each."""
    for fault in faults:
        try:
            yield fault, list(fault.inject(where))
        except Exception as error:  # noqa: BLE001  (a fault that breaks the campaign is not met)
            yield fault, [Seen(f"{type(error).__name__}: {one_line(str(error))}", met=False)]


@contextlib.contextmanager
def prepared(project: Project, kills: int, seed: int) -> Iterator[Field]:
    """A scratch checkout with the environment of STACK."""
    stack = project.matrix.stack(STACK)
    lock = project.lock_of(stack)
    with tempfile.TemporaryDirectory(prefix="gradmatrix-faults-") as folder:
        with environment.in_use(project.environments, stack.name):
            environment.ensure(lock, project.locks_folder, project.environments)
        scratch = Scratch(Path(folder).resolve() / "checkout", lock, project.environments)
        for suffix in ("json", "txt"):
            name = f"{lock.stack}.{suffix}"
            shutil.copy(project.locks_folder / name, scratch.root / "results" / "locks" / name)
        yield Field(scratch, random.Random(seed), kills)  # noqa: S311  (it must repeat)


def register_campaign(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command to the command line."""
    text = "inject faults of the machine and of strangers' scripts into real runs"
    parser = add(commands, "faults", campaign_command, text)
    names = ", ".join(fault.name for fault in FAULTS)
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help=f"only this fault: {names}"
    )
    parser.add_argument("--kills", type=int, default=KILLS, metavar="N", help="how many kills")
    parser.add_argument(
        "--fuzz",
        type=float,
        metavar="MINUTES",
        help="instead: change each file that is read at random, for so long",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="the seed of all random choices")


def campaign_command(options: argparse.Namespace, project: Project, console: Console) -> int:
    """``faults``: 1 if a promise is not met."""
    if not sys.platform.startswith("linux"):
        raise UserError(
            "The campaign needs Linux.",
            cause="it looks for processes in /proc",
            next_step="run it in a container or a virtual machine with Linux",
        )
    seed = options.seed if options.seed is not None else int(time.time())
    console.print(f"seed {seed}")
    if options.fuzz is not None:
        return fuzz(options.fuzz, seed, console)
    known = {fault.name: fault for fault in FAULTS}
    for name in options.only:
        if name not in known:
            raise UserError(
                f"There is no fault {name!r}.",
                cause=did_you_mean(name, known),
                next_step="nox -s faults -- --help lists them",
            )
    faults = [known[name] for name in options.only] or list(FAULTS)
    if not sandbox.takes_network_away():
        console.print(sandbox.WITH_NETWORK)
    table = Table("fault", "promised", "seen", "met")
    unmet = 0
    with prepared(project, options.kills, seed) as where:
        for fault, seen in campaign(where, faults):
            met = all(each.met is not False for each in seen)
            tried = any(each.met is not None for each in seen)
            unmet += not met
            text = "; ".join(each.text for each in seen)
            mark = "skipped" if not tried else "yes" if met else "NO"
            table.add_row(fault.name, fault.promised, Text(text), mark)
            console.print(Text(f"{mark:7} {fault.name}: {text}"), soft_wrap=True)
    console.print(table)
    return 1 if unmet else 0


def fuzz(minutes: float, seed: int, console: Console) -> int:
    """Change each kind of file at random for so many minutes; 1 if one raised an exception."""
    from tests.fuzzing import TARGETS, fuzz_for  # noqa: PLC0415  (only this needs hypothesis)

    found = 0
    for target in TARGETS:
        try:
            done = fuzz_for(target, minutes, seed)
            console.print(Text(f"{target.name}: {done} files, each a value or a sentence"))
        except Exception as error:  # noqa: BLE001  (this is what a fuzzer looks for)
            found += 1
            console.print(Text("".join(traceback.format_exception(error))), soft_wrap=True)
    return 1 if found else 0
