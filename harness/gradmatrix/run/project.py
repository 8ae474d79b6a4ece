"""A checkout with its matrix.toml, scenarios, locks and records: what every command starts from."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gradmatrix.core.errors import UserError
from gradmatrix.core.model import SHOWN, Published
from gradmatrix.core.outcomes import NO_RELEASE, OF_THE_MACHINE
from gradmatrix.judge import relations
from gradmatrix.run import bundle, scenarios
from gradmatrix.run.plan import Limits, lock_input
from gradmatrix.run.pool import Isolation, Settings, new_run_id
from gradmatrix.run.stack import Progress, Records, StackRun
from gradmatrix.run.store import Store
from gradmatrix.stacks import config, generated
from gradmatrix.stacks import lock as locks
from gradmatrix.stacks.environment import device_class
from gradmatrix.stacks.index import Index

if TYPE_CHECKING:
    import argparse
    import datetime as dt
    from collections.abc import Iterable, Sequence

    from gradmatrix.core.model import Cell, Lock, LockedPackage, Record, Scenario, Stack
    from gradmatrix.run.plan import Selection
    from gradmatrix.stacks.config import Matrix


GIB = 2**30
PACKAGE = Path(__file__).resolve().parent.parent
MATRIX_FILE = "matrix.toml"


@dataclass(frozen=True)
class Agreement:
    """The cells that ran here, beside the published ones."""

    compared: int
    """Cells with a verdict here and a published one under the same lock."""
    differing: tuple[tuple[Record, Record], ...]
    """The record of this checkout and the published one."""

    @property
    def same(self) -> int:
        """Cells with the same outcome, the same gradient status and the same verdict."""
        return self.compared - len(self.differing)


@dataclass(frozen=True)
class Project:
    """Paths of one checkout; everything is read when it is first asked for."""

    root: Path
    matrix_file: Path
    results: Path
    """Where tables and pages are written."""
    work: Path
    """The journal and what a run needs while it lasts: never committed."""
    carried: dt.datetime | None = None
    """It is what the wheel carries, published at this time."""

    @classmethod
    def of_options(cls, options: argparse.Namespace) -> Project:
        """The project that a command line means: a checkout, or else what the wheel carries.

        Raises:
            UserError: if the command needs one and there is none.
        """
        root = options.root or find_checkout(Path.cwd())
        own = {"matrix_file": options.matrix, "results": options.results}
        if root is not None or options.needs == "nothing":
            project = cls.at(root or Path.cwd(), **own)
            elsewhere = options.needs in {"published", "recorded"} and not project.is_meant(options)
            return project.published_matrix if elsewhere else project
        found = bundle.carried() if options.needs != "checkout" else None
        if found is None:
            raise UserError(
                f"This command needs a {MATRIX_FILE}, and found none.",
                cause=f"there is none in {Path.cwd()} or in a folder above it",
                next_step="gradmatrix init writes one for your project; or name the folder that "
                "has it: --root DIR",
            )
        return replace(cls.at(found.root, **own), carried=found.published)

    @classmethod
    def at(
        cls, root: Path, *, matrix_file: Path | None = None, results: Path | None = None
    ) -> Project:
        """The project in ``root``. Another results folder has its journal inside."""
        root = root.resolve()  # cells have a working directory of their own
        matrix_file = matrix_file.resolve() if matrix_file else root / MATRIX_FILE
        if results is None:
            return cls(root, matrix_file, root / "results", root / ".gradmatrix")
        return cls(root, matrix_file, results.resolve(), results.resolve() / ".gradmatrix")

    @cached_property
    def published_matrix(self) -> Project:
        """Where published scenarios are looked up: here, or else in what the wheel carries.

        A project that only runs its own scripts has none.

        Raises:
            UserError: if matrix.toml or what the wheel carries cannot be read.
        """
        if self.matrix_file.is_file() and (
            scenarios.are_in(self.root / "scenarios")
            or (any(self.store.published.glob("*.jsonl")) and self.typed_matrix.run.scenarios)
        ):
            return self
        found = None if self.carried else bundle.carried()
        return replace(self.at(found.root), carried=found.published) if found else self

    @cached_property
    def local(self) -> Project:
        """The same project, with tables that git ignores: what a run writes.

        With another results folder this is the project itself.
        """
        own = self.results != self.root / "results"
        return self if own else replace(self, results=self.results / "local")

    @property
    def is_local(self) -> bool:
        """Whether tables go to results/local/: published records and history stay as they are."""
        return self.results == self.root / "results" / "local"

    @property
    def published_results(self) -> Path:
        """Where published records and their history are."""
        return self.results.parent if self.is_local else self.results

    @cached_property
    def scenarios(self) -> dict[str, Scenario]:
        """Every scenario by name."""
        own = self.root / "scenarios"
        carried = None if scenarios.are_in(own) else bundle.carried()
        return scenarios.load_all(own if carried is None else carried.root / "scenarios")

    @cached_property
    def typed_matrix(self) -> Matrix:
        """The validated matrix.toml, without the stacks that come from the package index."""
        return config.load(self.matrix_file, self.scenarios)

    @cached_property
    def matrix(self) -> Matrix:
        """The validated matrix.toml with all of its stacks.

        Raises:
            UserError: if ``gradmatrix refresh`` must look up generated stacks first.
        """
        return generated.complete(self.typed_matrix, self.generated_file, self.matrix_file)

    @property
    def known_stacks(self) -> tuple[Stack, ...]:
        """Every stack that is known without the index, so that nox can start ``refresh``."""
        return generated.as_far_as_known(
            self.typed_matrix, self.generated_file, self.matrix_file
        ).stacks

    @property
    def generated_file(self) -> Path:
        """The stacks that come from the package index: committed beside the locks."""
        return generated.path_in(self.locks_folder, self.matrix_file, self.root)

    @property
    def combined(self) -> frozenset[str]:
        """The stacks of [generate.pairwise]. No day had them, so they are in no line of stacks."""
        chosen = generated.chosen_in(self.generated_file)
        return frozenset(stack.name for each in chosen for stack in each.stacks)

    @cached_property
    def index(self) -> Index:
        """The package index of this machine."""
        return Index.of_machine()

    @cached_property
    def scripts(self) -> tuple[Scenario, ...]:
        """The user's own scripts in matrix.toml, as scenarios."""
        return scenarios.load_scripts(self.matrix_file, self.matrix.scripts, self.scenarios)

    @cached_property
    def store(self) -> Store:
        """The records."""
        return Store(self.work / "records", self.published_results / "records")

    @property
    def has_sessions(self) -> bool:
        """Whether it is a checkout of gradmatrix itself, whose noxfile has its commands."""
        return PACKAGE.is_relative_to(self.root)

    @property
    def environments(self) -> Path:
        """The installed stacks of the checkout, also if results go elsewhere."""
        return self.root / ".gradmatrix" / "environments"

    @property
    def locks_folder(self) -> Path:
        """The locks of the checkout, also if results go elsewhere."""
        return self.root / "results" / "locks"

    @property
    def history_folder(self) -> Path:
        """How every published cell changed over time."""
        return self.published_results / "history"

    def chosen_scenarios(self) -> tuple[Scenario, ...]:
        """The scenarios that matrix.toml lists, in its order, and then the user's own scripts."""
        run = self.matrix.run
        names = dict.fromkeys((*run.scenarios, *run.further))
        return (*(self.scenarios[name] for name in names), *self.scripts)

    def scenarios_of(self, stack: Stack) -> tuple[Scenario, ...]:
        """The scenarios that ``stack`` runs."""
        chosen = self.chosen_scenarios()
        return tuple(s for s in chosen if not stack.scenarios or s.name in stack.scenarios)

    def known_scenarios(self) -> dict[str, Scenario]:
        """Every scenario, listed in matrix.toml or not, and the user's own scripts."""
        return {**self.scenarios, **{script.name: script for script in self.scripts}}

    def lock_of(self, stack: Stack) -> Lock:
        """The stack's lock; it is resolved now if the stack has none that fits its requirements."""
        known = self.current_lock(stack)
        return self.relock(stack) if known is None else known

    def current_lock(self, stack: Stack) -> Lock | None:
        """The lock that fits the stack's requirements; None if it must be resolved first."""
        known = locks.load(stack.name, self.locks_folder)
        return known if known is not None and locks.is_current(stack, known) else None

    def known_locks(self, stacks: Iterable[str] | None = None) -> list[Lock]:
        """The locks of all stacks in matrix.toml, or of the named ones; not every stack has one."""
        names = [stack.name for stack in self.matrix.stacks] if stacks is None else stacks
        found = (locks.load(name, self.locks_folder) for name in names)
        return [lock for lock in found if lock is not None]

    def comparable(self, locks: Iterable[Lock]) -> tuple[Lock, ...]:
        """The locks of stacks that run every scenario: an environment is compared with these."""
        whole = {stack.name for stack in self.matrix.stacks if not stack.scenarios}
        return tuple(lock for lock in locks if lock.stack in whole)

    def settings(self, isolation: Isolation | None = None) -> Settings:
        """How cells are run, from matrix.toml."""
        run = self.matrix.run
        settings = Settings(
            self.matrix.steps, Limits(run.timeout_s, int(run.memory_gb * GIB), run.threads)
        )
        return settings if isolation is None else replace(settings, isolation=isolation)

    def stack_run(
        self,
        stack: Stack,
        progress: Progress,
        isolation: Isolation | None = None,
        store: Records | None = None,
        lock: Lock | None = None,
    ) -> StackRun:
        """A run of one stack, ready to execute; with its own lock if none is given."""
        return StackRun(
            stack=stack,
            lock=lock or self.lock_of(stack),
            scenarios=self.scenarios_of(stack),
            devices={device: device_class(device) for device in self.matrix.run.devices},
            settings=self.settings(isolation),
            store=store or self.store,
            locks=self.locks_folder,
            environments=self.environments,
            workplaces=self.work / "work",
            progress=progress,
            run_id=new_run_id(),
        )

    def stacks_named_by(self, arguments: Iterable[str]) -> tuple[Stack, ...]:
        """The known stacks.

        Raises:
            UserError: if one of nox's ``arguments`` names a session of an unknown stack.
        """
        for argument in arguments:
            match = re.fullmatch(r"matrix\((.+)\)", argument)
            if match:
                self.matrix.stack(match.group(1))
        return self.known_stacks

    def is_meant(self, options: argparse.Namespace) -> bool:
        """Whether a command line names a script of this matrix, or a cell that may have run here.

        The name of a stack says nothing: most matrices have a ``latest``.
        """
        given = vars(options)
        cell = given.get("cell") or ()
        cells = [cell] if isinstance(cell, str) else cell
        words = {word for each in cells if "/" in each for word in each.split("/")[:2]}
        words |= {*(given.get("scenario") or ()), given.get("id")} - {None}
        if not words:
            return False
        own = self.chosen_scenarios() if options.needs == "recorded" else self.scripts
        return any(each.name in words for each in own)

    def stacks_to_lock(self, names: Sequence[str], *, everything: bool) -> list[Stack]:
        """The named stacks, all stacks, or those whose lock does not fit their requirements."""
        if names:
            return [self.matrix.stack(name) for name in names]
        stacks = list(self.matrix.stacks)
        if everything:
            return stacks
        return [stack for stack in stacks if self.current_lock(stack) is None]

    def relock(self, stack: Stack) -> Lock:
        """Resolve ``stack`` again and write its lock.

        Raises:
            CannotLock: if it asks for what the index did not have on its day, or for what must be
                built and may not be.
        """
        lock = locks.resolve(stack, self.index, self.locks_folder)
        if lock.failure is not None and lock.failure.outcome == NO_RELEASE:
            raise locks.CannotLock(
                f"Stack {stack.name} asks for a release that does not exist.",
                cause=lock.failure.message,
                next_step=f"Correct its requirements or as_of in {self.matrix_file.name}. "
                "Nothing recorded was touched.",
            )
        return lock

    def fallen_behind(self, lock: Lock) -> list[LockedPackage]:
        """The packages for which the resolver silently took an old release."""
        return locks.fallen_behind(lock, SHOWN)

    def published(self, records: Iterable[Record]) -> Published:
        """The matrix of ``records``; variants that must agree are compared."""
        chosen = {scenario.name: scenario for scenario in self.chosen_scenarios()}
        return gather(self.known_locks(), chosen, relations.judged(records, chosen))

    def records_of(self, stacks: Iterable[str], store: Store | None = None) -> dict[Cell, Record]:
        """The newest record of every cell of these stacks that is part of the matrix.

        Variants that must agree are compared. ``store`` is where records are looked up: published
        ones and those of this checkout, unless another store is given.
        """
        stacks, store = list(stacks), store or self.store
        newest = [record for stack in stacks for record in store.of_stack(stack).values()]
        found = of_locks(newest, self.known_locks(stacks))
        chosen = {scenario.name: scenario for scenario in self.chosen_scenarios()}
        return {
            record.cell: record for record in of_matrix(relations.judged(found, chosen), chosen)
        }

    def agreement(self, stacks: Sequence[str]) -> Agreement:
        """Compare what ran in this checkout with what is published."""
        here = self.records_of(stacks, Store(self.store.journal, self.store.journal))
        there = self.records_of(stacks, Store(self.store.published, self.store.published))
        pairs = [
            (here[cell], there[cell])
            for cell in sorted(here.keys() & there.keys())
            if not {here[cell].outcome, there[cell].outcome} & OF_THE_MACHINE
        ]
        return Agreement(len(pairs), tuple(pair for pair in pairs if not same_verdict(*pair)))

    def compare_isolation(
        self, stack: Stack, selection: Selection, progress: Progress
    ) -> list[tuple[Record, Record]]:
        """Each selected cell's record from a fork and from a fresh process; only cells that run."""
        forked = self.stack_run(stack, progress)
        forked.execute(replace(selection, fresh=False))
        apart = Store(self.work / "records-fresh", self.work / "records-fresh")
        self.stack_run(stack, progress, "fresh", apart).execute(selection)
        ours, theirs = self.store.recorded_here(stack.name), apart.recorded_here(stack.name)
        wanted = [cell for cell in sorted(ours) if selection.has(cell) and cell in theirs]
        return [(ours[cell], theirs[cell]) for cell in wanted if theirs[cell].isolation == "fresh"]


def find_checkout(start: Path) -> Path | None:
    """The checkout that ``start`` lies in, or else the one that this package is used from."""
    places = (start, *start.parents, PACKAGE.parent.parent)
    return next((place for place in places if (place / MATRIX_FILE).is_file()), None)


def same_verdict(one: Record, other: Record) -> bool:
    """Whether two records of a cell have the same outcome, gradient status and verdict."""
    return (one.outcome, one.gradient, one.passed) == (other.outcome, other.gradient, other.passed)


def by_date(locks: Iterable[Lock]) -> tuple[Lock, ...]:
    """The locks by date and name, the order in which they are always shown."""
    return tuple(sorted(locks, key=lambda lock: (lock.as_of, lock.stack)))


def of_matrix(records: Iterable[Record], scenarios: dict[str, Scenario]) -> list[Record]:
    """The records whose variant is still part of the matrix, in a stable order."""
    variants = {(s.name, v.name) for s in scenarios.values() for v in s.variants}
    kept = (record for record in records if (record.cell.scenario, record.cell.variant) in variants)
    return sorted(kept, key=lambda record: record.cell)


def of_locks(records: Iterable[Record], locks: Iterable[Lock]) -> list[Record]:
    """The records that were run under the lock that their stack has now."""
    current = {lock.stack: lock_input(lock) for lock in locks}
    return [
        r
        for r in records
        if r.cell.stack in current and r.inputs.get("lock") in {None, current[r.cell.stack]}
    ]


def gather(
    locks: Iterable[Lock], scenarios: dict[str, Scenario], records: Iterable[Record]
) -> Published:
    """The locks by date, and the records whose stack, lock and variant are part of the matrix."""
    ordered = by_date(locks)
    return Published(ordered, scenarios, tuple(of_matrix(of_locks(records, ordered), scenarios)))
