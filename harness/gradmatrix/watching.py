"""Watch training in this process, and say what ``gradmatrix trace`` would say of it.

    with gradmatrix.watch(steps=4) as seen:
        train(model, steps=4)
    seen.assert_trains()

Everything that is put into torch is taken out again when the block ends.
"""

from __future__ import annotations

import gc
import sys
import time
import weakref
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict, replace

from gradmatrix.core.errors import UserError
from gradmatrix.core.observation import Observation
from gradmatrix.core.text import counted, few
from gradmatrix.observe import trace
from gradmatrix.observe.observer import Observer
from gradmatrix.observe.torches import named
from gradmatrix.trace.running import AUDIT
from gradmatrix.trace.trace import Finding, Left, Process, conclude, headline, report

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    import pandas as pd

    from gradmatrix.core.model import Gradient
    from gradmatrix.judge.diagnosis import Diagnosis
    from gradmatrix.observe.torches import ModuleTree

MOST_NAMES = 6


class watch:  # noqa: N801  (it is used like a function)
    """A context in which training is watched; what was seen is there when it has ended.

    Args:
        steps: how many optimizer steps, from the first one on, are looked at closely. Fewer steps
            in the block fail :meth:`assert_trains`. By default those of ``trace``, and the block
            may make fewer.

    Raises:
        UserError: if torch is not installed, if ``steps`` is no number from 1 on, or if this
            process is watched already.
    """

    current: watch | None = None
    """The block that is being watched."""
    gives_way = False
    """It ends if another block begins inside of it."""

    def __init__(self, steps: int | None = None) -> None:
        __tracebackhide__ = True
        known: object = steps  # callers may not check types
        if known is not None and not (isinstance(known, int) and known >= 1):
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
        if watch.current is not None and watch.current.gives_way:
            watch.current.end(None)
        if watch.current is not None or "gradmatrix_observe" in sys.modules:
            raise UserError(
                "This process is watched already.",
                cause="watch() stands inside of watch(), in a test that is marked `trains`, or in "
                "a script that gradmatrix trace runs",
                next_step="watch one block at a time",
            )
        try:
            import torch
        except ImportError as error:
            raise UserError(
                "watch() found no torch in this environment.",
                cause=str(error),
                next_step="install torch here, or trace a script: gradmatrix trace --python PATH",
            ) from error
        device = "cuda" if torch.cuda.is_initialized() else "cpu"
        self._finding, self._began_training, self._began = None, False, time.perf_counter()
        self._observer = Observer(self.steps or AUDIT, 0, device, patient=True)
        self._observer.__enter__()
        watch.current = self
        know_models(self._observer.tree, torch.nn.Module)
        from torch.optim import optimizer

        self._look_once = optimizer.register_optimizer_step_pre_hook(self._first_step)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        if watch.current is self:
            self.end(error)

    def end(self, error: BaseException | None) -> None:
        """Stop watching, and judge what was seen; ``error`` is what ended the block."""
        if not self._observer.steps:
            self._first_step()
        self._look_once.remove()
        self._observer.__exit__()
        watch.current = None
        training = self._observer.entered_training or bool(self._observer.backward.calls)
        reached = "done" if error is None else "step" if training else "setup"
        seen = trace.observation(self._observer, reached, error, self._began)
        entries = self._observer.parameters.entries
        self._names.update((identity, row["name"]) for identity, row in entries.items())
        self._finding = self._judged(msgspec.convert(seen, Observation))
        del self._observer

    def _first_step(self, *_: object) -> None:
        """Note what is frozen."""
        if not self._began_training:
            self._began_training = True
            forward = self._observer.forward
            roots = {id(top): top for top in map(forward.tree.top, forward.roots())}
            names = named(list(roots.values()))[1]
            self._names = {
                id(parameter): names[id(parameter)]
                for root in roots.values()
                for parameter in root.parameters()
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
        return self.finding.outcome

    @property
    def gradient(self) -> Gradient | None:
        """The gradient status."""
        return self.finding.gradient

    @property
    def diagnosis(self) -> Diagnosis | None:
        """Why it does not train."""
        return self.finding.diagnosis

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The gradient table: one row for each parameter."""
        seen = self.finding.observation
        return [asdict(parameter) for parameter in seen.parameters] if seen is not None else []

    def to_frame(self) -> pd.DataFrame:
        """The gradient table for pandas, which must be installed."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    @property
    def step_times_s(self) -> tuple[float, ...]:
        """Seconds of each step after those that were looked at."""
        seen = self.finding.observation
        return seen.step_times_s if seen is not None else ()

    @property
    def peak_memory_bytes(self) -> int | None:
        """The peak since the last step that was looked at: of the GPU if it is used."""
        return self.finding.peak_memory_bytes

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
        patterns = (ignore,) if isinstance(ignore, str) else tuple(ignore)
        check_parts(parts, patterns)
        finding = self._without(patterns) if patterns else self.finding
        seen = finding.observation
        made = 0 if seen is None else seen.steps + seen.updates
        if self.steps is not None and made < self.steps and finding.outcome == "trains":
            raise AssertionError(
                f"{made} of {counted(self.steps, 'step')} were made in the block of watch().\n"
                f"{told(finding)}"
            )
        if not parts:
            if finding.outcome != "trains":
                raise AssertionError(told(finding))
            return
        problems = [problem for part in parts if (problem := self._problem(part, patterns))]
        if problems:
            raise AssertionError("\n".join([*problems, f"The whole block: {told(finding)}"]))

    def _without(self, ignore: Sequence[str]) -> Finding:
        """The finding if the parameters whose names match need not learn."""
        seen = self.finding.observation
        if seen is None:
            return self.finding
        kept = tuple(
            replace(each, learns=each.learns and not matches(each.name, ignore))
            for each in seen.parameters
        )
        return self._judged(replace(seen, parameters=kept))

    def _problem(self, part: Any, ignore: Sequence[str]) -> str:  # noqa: ANN401
        """What is wrong with a module or a parameter; empty if all of it learns."""
        own = dict(part.named_parameters()) if hasattr(part, "parameters") else {"": part}
        seen = self.finding.observation
        facts = {row.name: row for row in seen.parameters} if seen is not None else {}
        still = []
        for number, parameter in own.items():
            name = self._names.get(id(parameter), number or "it")
            row = facts.get(name)
            learns = row is not None and "f" in row.gradients and row.changed
            if not learns and not matches(name, ignore):
                frozen = not parameter.requires_grad or name in self.frozen
                still.append(f"{name}, frozen" if frozen else name)
        title = type(part).__name__
        if not own:
            return f"{title} has no parameters."
        if still:
            return (
                f"{len(still)} of {counted(len(own), 'parameter')} of {title} do not learn: "
                f"{few(still, MOST_NAMES, '; ')}."
            )
        return ""


def check_parts(parts: Sequence[Any], ignore: Sequence[Any]) -> None:
    """UserError if these cannot be asked about."""
    __tracebackhide__ = True
    for part in parts:
        if not hasattr(part, "requires_grad_"):
            raise UserError(
                f"assert_trains() was given {type(part).__name__}: {str(part)[:60]!r}.",
                cause="its parts are modules or parameters",
                next_step="assert_trains(model.head, model.bias), or give names: ignore=[…]",
            )
    for pattern in ignore:
        if not isinstance(pattern, str):
            raise UserError(
                f"ignore has {type(pattern).__name__}, which is no pattern.",
                cause="parameters are ignored by their names",
                next_step='write for example ignore=["embed.*"]',
            )


def know_models(tree: ModuleTree, module_class: type) -> None:
    """Tell ``tree`` which modules contain which: it sees only those that are made from now on."""
    for each in gc.get_objects():
        if issubclass(type(each), module_class):
            for child in each.children():
                tree._parents_of(child).append(weakref.ref(each))  # noqa: SLF001  (a part of this)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name matches one of some patterns with ``*`` and ``?``."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def told(finding: Finding) -> str:
    """What ``trace`` prints, without the versions."""
    return "\n".join([headline(finding), *(f"  {line}" for line in report(finding)[:-1])])
