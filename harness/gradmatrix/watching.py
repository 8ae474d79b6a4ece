"""Watch training in this process, and say what ``gradmatrix trace`` would say of it.

    with gradmatrix.watch(steps=4) as seen:
        train(model, steps=4)
    seen.assert_trains()

Everything that is put into torch is taken out again when the block ends.
"""

from __future__ import annotations

import ast
import gc
import os
import re
import sys
import time
import weakref
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict, replace

from gradmatrix.core.errors import UserError
from gradmatrix.core.observation import Observation
from gradmatrix.core.text import counted, few
from gradmatrix.observe import source, trace
from gradmatrix.observe.observer import Observer
from gradmatrix.observe.replaced import replace as put
from gradmatrix.observe.source import nodes as all_nodes
from gradmatrix.observe.torches import ModuleTree, Trouble, named
from gradmatrix.stacks.interpreter import refuse_old_torch
from gradmatrix.trace.running import AUDIT
from gradmatrix.trace.trace import (
    Finding,
    Left,
    Process,
    begins_late,
    conclude,
    explained,
    headline,
    published_remedy,
    report,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    import pandas as pd

    from gradmatrix.core.model import Gradient
    from gradmatrix.judge.wording import Diagnosis
    from gradmatrix.run.project import Project

MOST_NAMES = 6
LATE = ", or only after the steps that are looked at (watch them in a block of their own)"
TEST_FILE = re.compile(r"test_.*\.py$|.*_test\.py$")
"""How pytest knows a file of tests, unless it is told otherwise."""


class watch:  # noqa: N801  (it is used like a function)
    """A context in which training is watched; what was seen is there when it has ended.

    Args:
        steps: how many optimizer steps, from the first one on, are looked at closely. Fewer steps
            in the block fail :meth:`assert_trains`. By default those of ``trace``, and the block
            may make fewer.

    Raises:
        UserError: if torch is not installed, if ``steps`` is no number from 1 on, or if this
            process is watched already. A block inside of another one is fine if it begins before
            that one's first step: both see the same.
    """

    modules: ModuleTree | None = None
    """Which modules contain which, if all of them are followed, also between blocks."""
    current: watch | None = None
    """The innermost block that is being watched."""
    gives_way = False
    """It ends if another block begins inside of it and cannot share its observer."""
    shares = True
    """A block that begins inside of it before the first step shares its observer."""
    only_training = False
    """It has no finding if nothing was to be trained: no optimizer was built, nothing changed."""

    observer: Observer
    """Of a block that has begun and not ended."""
    owner: watch
    """The outermost block that has this observer."""

    def __init__(self, steps: int | None = None) -> None:
        __tracebackhide__ = True
        known: object = steps  # callers may not check types
        if known is not None and not (type(known) is int and known >= 1):
            raise UserError(
                f"watch(steps={steps!r}) would look at nothing.",
                cause="the number of steps is a whole number from 1 on",
                next_step=f"leave it out to look at {AUDIT} steps",
            )
        self.steps = steps
        self._began_training = False
        self.frozen: set[str] = set()
        """The names of the parameters that did not require a gradient at the first step."""
        self._finding: Finding | None = None
        self._names: dict[int, str] = {}
        """The name of each parameter that is frozen or in the finding, by id."""

    def __enter__(self) -> Self:
        __tracebackhide__ = True
        if "gradmatrix_observe" in sys.modules:
            raise UserError(
                "This process is watched already.",
                cause="gradmatrix trace runs this script",
                next_step="run it without gradmatrix trace, or take watch() out of it",
            )
        while (outer := watch.current) is not None and (
            hasattr(self, "observer") or not outer.may_be_shared
        ):
            if not outer.gives_way:
                raise UserError(
                    "This process is watched already.",
                    cause="watch() stands inside of watch(), or in a test that is marked `trains`, "
                    "and that one has seen a step",
                    next_step="begin the inner one before the first step, or leave one of them out",
                )
            outer.end(None)
        self._finding, self._began_training, self._began = None, False, time.perf_counter()
        self._outer = outer
        if outer is None:
            self.owner = self
            self._begin()
        else:
            self.owner = outer.owner
            self._share(outer.observer)
        watch.current = self
        from torch.optim import optimizer

        self._look_once = optimizer.register_optimizer_step_pre_hook(self._first_step)
        return self

    @property
    def may_be_shared(self) -> bool:
        """Whether a block that begins now may see what this one sees: nothing was trained yet."""
        return self.shares and self.observer.clock() == 1

    def _begin(self) -> None:
        """Put an observer into torch."""
        __tracebackhide__ = True
        try:
            import torch
        except ImportError as error:
            raise UserError(
                "watch() found no torch in this environment.",
                cause=str(error),
                next_step="install torch here, or trace a script: gradmatrix trace --python PATH",
            ) from error
        refuse_old_torch(torch.__file__, sys.executable)
        device = "cuda" if torch.cuda.is_initialized() else "cpu"
        self.observer = Observer(self.steps or AUDIT, 0, device, patient=True)
        self._other_tests = ExitStack()
        self._other_tests.enter_context(without_other_tests())
        self._before_backward = self.observer.backward.before
        self.observer.backward.before = self.first_backward
        self.observer.__enter__()

    def _share(self, observer: Observer) -> None:
        """See what an outer block sees, and as many steps as this one asks for."""
        self.observer = observer
        most = max(observer.audit, self.steps or AUDIT)
        observer.audit = observer.updates.audit = observer.skip = most

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        while watch.current is not None and hasattr(self, "observer"):
            watch.current.end(error)  # those inside of it may not have been told

    def end(self, error: BaseException | None) -> None:
        """Stop watching, and judge what was seen; ``error`` is what ended the block."""
        watched, watch.current = self.observer, self._outer
        asked = bool(watched.backward.calls)
        made = watched.steps + watched.updates.updates
        # A test may ask for gradients to look at them.
        judged = made or error or (asked and watched.entered_training) or not self.only_training
        if judged:
            self._first_step()
        self._look_once.remove()
        if self.owner is self:
            watched.__exit__()
        if judged:
            reached = "step" if asked or watched.entered_training else "setup"
            ended = "done" if error is None else reached
            seen = trace.observation(watched, ended, error, self._began)
            entries = watched.parameters.entries
            self._names.update((identity, row["name"]) for identity, row in entries.items())
            self._finding = self._judged(msgspec.convert(seen, Observation))
        if self.owner is self:
            self._other_tests.close()
        del self.observer

    @classmethod
    def follow_modules(cls) -> Callable[[], None]:
        """Follow all modules from now on: to find them costs 0.1 s. The returned function ends it.

        A block looks for those that are older than itself when it first asks for gradients.
        """
        cls.modules = ModuleTree(Trouble())
        know_models(cls.modules)
        remove = cls.modules.install()

        def end() -> None:
            remove()
            cls.modules = None

        return end

    def first_backward(self) -> None:
        """Find the modules that are older than this block; a test that does not train need not."""
        watched = self.observer
        watched.backward.before = self._before_backward
        if self.modules is None:
            know_models(watched.tree)
        else:
            watched.tree._parents.update(self.modules._parents)  # noqa: SLF001  (a part of this)
        watched.backward.before()

    def _first_step(self, *_: object) -> None:
        if not self._began_training:
            self._began_training = True
            if self.observer.backward.before == self.owner.first_backward:
                self.owner.first_backward()
            self.observer._guarded(self._note_frozen)  # noqa: SLF001  (a part of this)

    def _note_frozen(self) -> None:
        """Note what is frozen. A model may make its parameters anew each time it is asked."""
        forward = self.observer.forward
        roots = {id(top): top for top in map(forward.tree.top, forward.roots())}
        names = named(list(roots.values()))[1]
        self._names = {
            id(parameter): names.get(id(parameter), name)
            for root in roots.values()
            for name, parameter in root.named_parameters()
            if not parameter.requires_grad
        }
        self.frozen = set(self._names.values())

    def _judged(self, seen: Observation) -> Finding:
        process = Process(schema=1, pid=0, rank=None, observation=seen)
        failed = int(seen.raised is not None)
        return conclude(("watch",), failed, Left(processes=(process,)))

    @property
    def finding(self) -> Finding:
        """Everything that ``gradmatrix trace --json`` says.

        Raises:
            UserError: if the block has not ended.
        """
        return advised(self.judged)

    @property
    def judged(self) -> Finding:
        """The finding without what the published matrix says, which takes a second to read.

        Raises:
            UserError: if the block has not ended.
        """
        if self._finding is None:
            raise UserError(
                "What watch() saw is known when its block has ended.",
                cause="it was asked for inside the block, or the block was never entered",
                next_step="move this below the with block",
            )
        return self._finding

    @property
    def ended(self) -> bool:
        """Whether the block has ended."""
        return self._finding is not None

    @property
    def outcome(self) -> str:
        """An outcome such as ``trains`` or ``gradient:partial``."""
        return self.judged.outcome

    @property
    def gradient(self) -> Gradient | None:
        """The gradient status."""
        return self.judged.gradient

    @property
    def diagnosis(self) -> Diagnosis | None:
        """Why it does not train."""
        return self.judged.diagnosis

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The gradient table: one row for each parameter."""
        seen = self.judged.observation
        return [asdict(parameter) for parameter in seen.parameters] if seen is not None else []

    def to_frame(self) -> pd.DataFrame:
        """The gradient table for pandas, which must be installed."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    @property
    def step_times_s(self) -> tuple[float, ...]:
        """Seconds of each step after those that were looked at."""
        seen = self.judged.observation
        return seen.step_times_s if seen is not None else ()

    @property
    def peak_memory_bytes(self) -> int | None:
        """The peak since the last step that was looked at: of the GPU if it is used."""
        return self.judged.peak_memory_bytes

    def __str__(self) -> str:
        if self._finding is None:
            return "watch(): the block has not ended"
        return told(self._finding)

    def assert_trains(self, *parts: Any, ignore: Sequence[str] | str = ()) -> None:  # noqa: ANN401
        """Fail with the diagnosis unless everything that should learn does.

        Args:
            parts: modules or parameters; only these must learn, and all of them must.
            ignore: patterns of names, such as ``embed.*``, that need not learn.

        Raises:
            AssertionError: with cause, module, file, line and remedy.
            UserError: if parts or patterns are something else.
        """
        __tracebackhide__ = True
        patterns = check_arguments(parts, ignore)
        finding = self._without(patterns) if patterns else self.judged
        seen = finding.observation
        made = 0 if seen is None else seen.steps + seen.updates
        problems = [problem for part in parts if (problem := self._problem(part, patterns))]
        if self.steps is not None and made < self.steps and finding.outcome == "trains":
            problems.append(
                f"{made} of {counted(self.steps, 'step')} were made in the block of watch(). Make "
                "all of them there, or ask for fewer."
            )
        if not parts and (problems or finding.outcome != "trains"):
            raise AssertionError("\n".join([*problems, told(finding), *self._unused(patterns)]))
        if problems:
            problems += [f"The whole block: {told(finding)}", *self._unused(patterns)]
            raise AssertionError("\n".join(problems))

    def _unused(self, ignore: Sequence[str]) -> list[str]:
        """A sentence for each pattern that matches no parameter."""
        names = {*(row["name"] for row in self.rows), *self._names.values()}
        known = few(sorted({name.partition(".")[0] for name in names}), MOST_NAMES)
        return [
            f"  ignore={pattern!r} matches no parameter. Their names begin with: {known}"
            for pattern in ignore
            if not any(matches(name, [pattern]) for name in names)
        ]

    def _without(self, ignore: Sequence[str]) -> Finding:
        """The finding if the parameters whose names match need not learn."""
        seen = self.judged.observation
        if seen is None:
            return self.judged
        kept = tuple(
            replace(each, learns=each.learns and not matches(each.name, ignore))
            for each in seen.parameters
        )
        return self._judged(replace(seen, parameters=kept))

    def _problem(self, part: Any, ignore: Sequence[str]) -> str:  # noqa: ANN401
        """What is wrong with a module or a parameter; empty if all of it learns."""
        own = dict(part.named_parameters()) if hasattr(part, "parameters") else {"": part}
        seen = self.judged.observation
        facts = {row.name: row for row in seen.parameters} if seen is not None else {}
        still = []
        for number, parameter in own.items():
            known = self._names.get(id(parameter), "")
            row, name = facts.get(known), known or number or "it"
            learns = row is not None and "f" in row.gradients and row.changed
            if not learns and not matches(name, ignore):
                frozen = not parameter.requires_grad or known in self.frozen
                still.append(f"{name}, frozen" if frozen else name)
        title = type(part).__name__
        if not own:
            return f"{title} has no parameters."
        if still:
            late = seen is not None and any(begins_late(built) for built in seen.optimizers)
            return (
                f"{len(still)} of {counted(len(own), 'parameter')} of {title} do not learn"
                f"{LATE if late else ''}: {few(still, MOST_NAMES, '; ')}."
            )
        return ""


class Watched:
    """What the callbacks of trainers have in common: they watch one training after the other.

    Args:
        steps: as for :class:`watch`.
        assert_trains: fail at the end of a training unless everything that should learn does.
            Without it what was seen is printed to stderr then.
        ignore: patterns of names, such as ``embed.*``, that need not learn.

    Raises:
        UserError: as for :class:`watch`, before the training.
    """

    def __init__(
        self, steps: int | None = None, *, assert_trains: bool = False,
        ignore: Sequence[str] | str = (),
    ) -> None:  # fmt: skip
        __tracebackhide__ = True
        self.ignore = check_arguments((), ignore)
        self.asserts = assert_trains
        self.seen = watch(steps)
        """What was seen of the last training."""
        # A trainer may not tell that its training failed.
        self.seen.gives_way, self.seen.shares = True, False

    def begin(self) -> None:
        """Watch from now on."""
        self.seen.__enter__()

    def end(self, error: BaseException | None = None) -> None:
        """Say what was seen; a note of ``error`` says it if that ended the training.

        Raises:
            AssertionError: with the diagnosis, if that was asked for.
        """
        __tracebackhide__ = True
        if watch.current is not self.seen:
            return
        self.seen.end(error)
        if isinstance(error, Exception):
            error.add_note(f"gradmatrix: {self.seen}")
        elif self.asserts and error is None:
            self.seen.assert_trains(ignore=self.ignore)
        else:
            sys.stderr.write(f"gradmatrix: {self.seen}\n")


def check_arguments(parts: Sequence[Any], ignore: Any) -> tuple[str, ...]:  # noqa: ANN401  (checked here)
    """The patterns of an assertion; UserError if parts or patterns are something else."""
    __tracebackhide__ = True
    for part in parts:
        if isinstance(part, type) or not hasattr(part, "requires_grad_"):
            raise UserError(
                f"assert_trains() was given {type(part).__name__}: {str(part)[:60]!r}.",
                cause="its parts are modules or parameters",
                next_step="assert_trains(model.head, model.bias), or give names: ignore=[…]",
            )
    given: Any = (ignore,) if isinstance(ignore, str) else ignore  # callers may not check types
    for pattern in given if isinstance(given, Iterable) else [given]:
        if not isinstance(pattern, str):
            raise UserError(
                f"ignore has {type(pattern).__name__}, which is no pattern.",
                cause="parameters are ignored by their names",
                next_step='write for example ignore=["embed.*"]',
            )
    return tuple(given)


@contextmanager
def without_other_tests() -> Iterator[None]:
    """The user's source is read as if the tests that do not run were not there.

    pytest imports all of them into one process. The file of the test takes the place of the script.
    """
    at, _, rest = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")
    if not at:
        yield
        return
    name = rest.partition("[")[0].rpartition("::")[2].partition(" ")[0]
    files = source.files

    @cache
    def of_test(_imported: int) -> list[str]:
        own, others = [], []
        for path in files():
            if Path(path).as_posix().endswith(f"/{at}"):
                own.append(path)
            elif not TEST_FILE.match(Path(path).name):
                others.append(path)
        return [*own, *others]

    def of_file(path: str) -> tuple[tuple[Any, str], ...]:
        return nodes_of(path, name) if TEST_FILE.match(Path(path).name) else all_nodes(path)

    undo = (
        put(source, "files", lambda: of_test(len(sys.modules))),
        put(source, "nodes", of_file),
    )
    try:
        yield
    finally:
        for each in undo:
            each()


@lru_cache(maxsize=4)
def nodes_of(path: str, name: str) -> tuple[tuple[Any, str], ...]:
    """Every node of a file of tests without the tests that are not called ``name``."""
    whole = all_nodes(path)
    return tuple(without_tests(only_test(whole[0][0], name))) if whole else ()


def only_test(node: Any, name: str) -> Any:  # noqa: ANN401  (a module or a class)
    """A copy of ``node`` without the tests that are not called ``name``."""
    kept = copy(node)
    kept.body = [
        only_test(each, name) if isinstance(each, ast.ClassDef) else each
        for each in node.body
        if not (isinstance(each, ast.FunctionDef) and each.name.startswith("test"))
        or each.name == name
    ]
    return kept


def without_tests(node: Any) -> Iterator[tuple[Any, str]]:  # noqa: ANN401
    """``node``, a copy by :func:`only_test`, and all below it: what tests share is walked once."""
    yield node, "<module>"
    for child in ast.iter_child_nodes(node):
        yield from without_tests(child) if isinstance(child, ast.ClassDef) else below(child)


@cache
def below(statement: Any) -> tuple[tuple[Any, str], ...]:  # noqa: ANN401
    """A statement of a module or a class, and all below it."""
    return tuple(source.walk(statement))


def know_models(tree: ModuleTree) -> None:
    """Tell ``tree`` which modules contain which: it sees only those that are made from now on."""
    from torch.nn import Module

    kinds, waiting = {id(Module)}, [Module]
    while waiting:
        below: list[type] = type.__subclasses__(waiting.pop())
        waiting += [kind for kind in below if id(kind) not in kinds]
        kinds.update(map(id, below))
    everything = gc.get_objects()  # half a million: what is done for each of them is done in C
    for each in compress(everything, map(kinds.__contains__, map(id, map(type, everything)))):
        with suppress(Exception):  # it may be half built
            for child in each.children():
                tree._parents_of(child).append(weakref.ref(each))  # noqa: SLF001  (a part of this)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name matches one of some patterns with ``*`` and ``?``."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def told(finding: Finding) -> str:
    """What ``trace`` prints, without the versions."""
    return "\n".join([headline(finding), *(f"  {line}" for line in report(advised(finding))[:-1])])


def advised(finding: Finding) -> Finding:
    """The finding with what was seen to help in the published matrix."""
    if finding.diagnosis is None or finding.observation is None:
        return finding
    remedy = published_remedy(matrix(), finding.diagnosis, finding.observation)
    return replace(finding, explanation=explained(finding.diagnosis, remedy))


@cache
def matrix() -> Project:
    """The matrix from which ``trace`` would advise here."""
    from gradmatrix.run.project import Project

    nothing = Namespace(root=None, matrix=None, results=None, needs="nothing")
    return Project.of_options(nothing)
