"""``capsule``: a published cell as one script that ``uv run`` reproduces, without this project.

If the script itself does not show the failure, a ``main()`` is added that makes it exit with 1.
That function needs torch 2.0.
"""

from __future__ import annotations

import difflib
import re
import textwrap
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from gradmatrix.core.errors import UserError
from gradmatrix.core.model import SHOWN, Gradient, Role
from gradmatrix.core.outcomes import (
    DISAGREES,
    NONFINITE_LOSS,
    RANKS_DIFFER,
    TRAINS,
    Outcome,
    Phase,
    row_of,
)
from gradmatrix.core.text import one_line, versioned
from gradmatrix.judge.causes import remedy_on_its_stack
from gradmatrix.judge.diagnosis import diagnose
from gradmatrix.judge.verdict import GOT
from gradmatrix.stacks.environment import is_of_torch
from gradmatrix.stacks.lock import cutoff
from gradmatrix.trace.reduce import reduce

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gradmatrix.core.model import Cell, Lock, Record, Scenario
    from gradmatrix.judge.causes import Cause


STEPS = 4
WIDTH = 96
PLATFORMS = (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("win32", "AMD64"))
MOST_DIFFERING = 40
"""Variants that differ in more lines are two scripts, and nobody reads their difference."""
SYSTEMS = {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}


def refuse(
    record: Record, scenario: Scenario, *, everything: bool, others: Iterable[Record] = ()
) -> None:
    """Refuse a cell that no script can show.

    Args:
        record: the cell's record.
        scenario: its scenario.
        everything: a cell that passed is allowed too; a remedy always is.
        others: records of other cells, to suggest one.

    Raises:
        UserError: with what to do instead.
    """
    cell, outcome = record.cell, row_of(record.outcome)
    if scenario.arguments is not None:
        raise UserError(
            f"{scenario.name} is a script of your own and needs no capsule.",
            cause="a capsule is a scenario reduced to one variant",
            next_step=f"uv run --with-requirements results/locks/{cell.stack}.txt YOUR_SCRIPT",
        )
    if not outcome.ran:
        raise UserError(
            f"{cell} never ran: {record.outcome}.",
            cause=one_line(record.message),
            next_step=suggested(cell, others),
        )
    if everything or (record.passed and record.role is Role.REMEDY):
        return
    if not outcome.shown_by_one_run:
        raise UserError(
            f"{cell} trains; its failure is that it disagrees with another variant.",
            cause=one_line(record.message),
            next_step=f"gradmatrix capsule {cell} --any writes the script of this variant alone",
        )
    if record.passed:
        did = "trains" if record.outcome == TRAINS else "reports the mistake, as it should"
        raise UserError(
            f"{cell} {did}, so there is no failure to show.",
            cause="a capsule shows somebody else how a published cell fails",
            next_step=f"{suggested(cell, others)}; gradmatrix capsule {cell} --any writes the "
            "script of this one anyway",
        )


def suggested(cell: Cell, records: Iterable[Record]) -> str:
    """What to do instead: a cell of the same scenario whose failure a script can show."""
    for each in sorted(records, key=lambda each: each.cell.stack != cell.stack):
        outcome = row_of(each.outcome)
        shows = each.passed is False and outcome.ran and outcome.shown_by_one_run
        if shows and each.cell.scenario == cell.scenario:
            return f"choose a cell that failed, such as {each.cell}"
    return 'choose a cell that failed: gradmatrix why "MESSAGE" names some'


def write(
    record: Record,
    lock: Lock,
    requirements: str,
    scenario: Scenario,
    source: str,
    *,
    file: str = "FILE",
    others: Iterable[Record] = (),
) -> str:
    """The script: pinned requirements, what happens, the reduced scenario, and what mends it.

    Args:
        record: the cell's record; the scenario is reduced to its variant.
        lock: the lock of its stack.
        requirements: the text of ``lock``.
        scenario: its scenario.
        source: the scenario's source.
        file: the name in the command that runs the script.
        others: records of other cells, to compare the script with a variant that trains.
    """
    main = main_of(record)
    parts = [
        metadata(lock, requirements),
        docstring(record, lock, scenario, file, is_silent=main is not None),
        reduce(source, record.cell.variant, record.cell.device, STEPS),
        main or "",
        f'\nif __name__ == "__main__":\n    {"main" if main else "train"}()\n',
        mended(record, scenario, source, others),
    ]
    return "\n".join(part for part in parts if part)


def mended(record: Record, scenario: Scenario, source: str, others: Iterable[Record]) -> str:
    """A comment with the lines in which a remedy differs from a variant that fails.

    One of them is the record's own. A remedy is compared with the variant that is most like it.
    """
    cell = record.cell
    found = [
        (difference(source, fails, trains, cell.device), fails, trains)
        for fails, trains in pairs(record, scenario, others)
    ]
    lines, fails, trains = min(found, key=lambda each: len(each[0]), default=((), "", ""))
    if not 0 < len(lines) <= MOST_DIFFERING:
        return ""
    summary = next(each.summary for each in scenario.variants if each.name == trains)
    how = (
        f"This script has the lines with +. {cell.scenario}/{fails}, which fails, has those with "
        "- in their place."
        if cell.variant == trains
        else "Take out the lines with -, and put in those with +."
    )
    (words,) = _wrap(
        f"What mends it: {summary}. {cell.scenario}/{trains} trains with these releases. {how}"
    )
    shown = ["⋮" if line.startswith("@@") else line for line in lines]
    text = [f"# {line}".rstrip() for line in (*words.splitlines(), "", *shown)]
    return "\n".join(["", *text, ""])


def pairs(record: Record, scenario: Scenario, others: Iterable[Record]) -> list[tuple[str, str]]:
    """Variants that fail on the record's stack, each with the remedy; one is the record's own."""
    cell, variants = record.cell, {each.name: each for each in scenario.variants}
    beside = [
        each
        for each in others
        if (each.cell.stack, each.cell.scenario, each.cell.device)
        == (cell.stack, cell.scenario, cell.device)
    ]
    if record.outcome == TRAINS:
        here = variants[cell.variant]
        return [
            (each.cell.variant, cell.variant)
            for each in beside
            if each.outcome != TRAINS
            and each.cell.variant in variants
            and cause_of(each) in here.cures
            and here.is_tested({each.cell.variant})
        ]
    cause = cause_of(record)
    remedy = cause and remedy_on_its_stack(cause, {scenario.name: scenario}, beside, cell)
    return [(cell.variant, remedy.cell.variant)] if remedy else []


def difference(source: str, before: str, after: str, device: str) -> Sequence[str]:
    """The lines in which two variants of a scenario differ, reduced as in a capsule."""
    one, other = (reduce(source, name, device, STEPS).splitlines() for name in (before, after))
    return list(difflib.unified_diff(one, other, n=1, lineterm=""))[2:]


def cause_of(record: Record) -> Cause | None:
    """Why a cell does not train; None if that is not known."""
    found = diagnose(record.observation) if record.observation is not None else None
    return found.cause if found is not None else None


def metadata(lock: Lock, requirements: str) -> str:
    """The block that ``uv run`` reads: every locked package, and the day the index is read as of.

    Packages that only a CUDA build of torch needs are constraints: a machine that gets a CPU build
    does not download them.
    """
    everything = pinned(requirements, lock.python)
    cuda = [each for each in everything if is_of_torch(each.partition("==")[0])]
    needed = [each for each in everything if each not in cuda]
    if len({each.partition("==")[0] for each in cuda}) == len(cuda):
        # There is one version of each, so it is the same on every platform.
        cuda = [each.partition(" ;")[0] for each in cuda]
    lines = [f'requires-python = "=={lock.python}.*"', "dependencies = [", *_wrapped(needed), "]"]
    lines += ["", "[tool.uv]", f'exclude-newer = "{cutoff(lock.as_of)}"']
    if cuda:
        lines += ["constraint-dependencies = [", *_wrapped(cuda), "]"]
    return "\n".join(["# /// script", *(f"# {line}".rstrip() for line in lines), "# ///"])


def pinned(requirements: str, python: str) -> list[str]:
    """The requirements of a lock's text for one Python.

    Markers stay only where platforms differ; local versions are removed.
    """
    found = []
    for line in requirements.splitlines():
        if not line or line.startswith((" ", "#", "-")):
            continue
        requirement = Requirement(line.rstrip("\\ "))
        version = next(iter(requirement.specifier)).version.partition("+")[0]
        marker = requirement.marker
        met = [
            marker is None or marker.evaluate(_platform(python, *platform))
            for platform in PLATFORMS
        ]
        if any(met):
            words = "" if all(met) else f" ; {str(marker).replace(chr(34), chr(39))}"
            found.append(f"{requirement.name}=={version}{words}")
    return found


def _platform(python: str, system: str, machine: str) -> dict[str, str]:
    """The marker variables of a platform."""
    return {
        "implementation_name": "cpython", "implementation_version": f"{python}.99",
        "os_name": "nt" if system == "win32" else "posix", "platform_machine": machine,
        "platform_python_implementation": "CPython", "platform_release": "",
        "platform_system": SYSTEMS[system], "platform_version": "",
        "python_full_version": f"{python}.99", "python_version": python,
        "sys_platform": system, "extra": "",
    }  # fmt: skip


def _wrapped(words: Iterable[str]) -> list[str]:
    """Strings of a TOML list, as many on a line as fit."""
    lines = [""]
    for word in (f'"{word}",' for word in words):
        if len(lines[-1]) + len(word) > WIDTH - 4 and lines[-1]:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else f"    {word}"
    return lines


def docstring(record: Record, lock: Lock, scenario: Scenario, file: str, *, is_silent: bool) -> str:
    """What fails, how, with which versions, and how to see it."""
    versions = versioned({name: lock.version(name) for name in SHOWN})
    where = f"With {versions} on Python {lock.python} ({record.cell.device.upper()})"
    message = one_line(record.message)
    if is_silent:
        story = [f"{where} this runs to its end without an error, but"]
    elif not row_of(record.outcome).shown_by_one_run:
        story = [f"{where} this trains, but not as another variant does:"]
    else:
        story = [f"{where} this ends with" if message else f"{where} this trains."]
    paragraphs = [
        f"{scenario.title}.",
        *_wrap(_setting(record.cell.variant, scenario)),
        *_wrap(*story),
    ]
    if message:
        paragraphs.append(f"    {message}")
    if is_silent:
        paragraphs += _wrap("The last function checks this and makes the script exit with code 1.")
    paragraphs += _wrap(f"To reproduce it with exactly these releases: uv run {file}")
    text = "\n\n".join(paragraphs).replace("\\", "\\\\").replace('"""', "'''")
    return f'"""{text}\n"""\n'


def _setting(variant: str, scenario: Scenario) -> str:
    """The variant in words, unless they mention other variants."""
    summary = next((each.summary for each in scenario.variants if each.name == variant), "")
    others = [re.escape(each.name) for each in scenario.variants if each.name != variant]
    if re.search(rf"\b(?:{'|'.join([*others, 'the same', 'these'])})\b", summary):
        return ""
    return f"Here: {summary}." if summary else ""


def _wrap(*texts: str) -> list[str]:
    return [
        textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)
        for text in texts
        if text
    ]


NOTHING_TRAINABLE = "nothing is trainable"
"""The message of a verdict if there is no parameter to look at."""


def main_of(record: Record) -> str | None:
    """A ``main()`` that trains and exits with 1 if the recorded failure happens.

    None if it raises, and if one run shows no failure.

    Raises:
        UserError: if the failure raises nothing and no check for it is known here.
    """
    outcome = Outcome(record.outcome)
    raised = record.observation is not None and record.observation.raised is not None
    if raised or outcome.trains or not row_of(record.outcome).shown_by_one_run:
        return None
    if outcome.phase is Phase.GRADIENT and record.message == NOTHING_TRAINABLE:
        return TRAINABLE.format(names=NAMES)
    if outcome.phase is Phase.GRADIENT:
        status = Gradient(outcome.reason)
        good = (
            "gradient.isfinite().all()"
            if status is Gradient.NONFINITE
            else "gradient.count_nonzero()"
        )
        return GRADIENTS.format(names=NAMES, good=good, got=GOT[status])
    if outcome.phase is Phase.UPDATE:
        return RANKS if record.outcome == RANKS_DIFFER else UPDATES
    if record.outcome == NONFINITE_LOSS:
        return LOSSES
    if record.observation is None or record.outcome in {TRAINS, DISAGREES}:
        return None
    raise UserError(
        f"No capsule can be written of {record.outcome}.",
        cause="it raises nothing, and trace/capsule.py has no check for it",
        next_step="add one to main_of in trace/capsule.py",
    )


NAMES = """
    def note_names(module: torch.nn.Module, _inputs: object) -> None:
        for name, parameter in module.named_parameters():
            names.setdefault(parameter, name)
"""
GRADIENTS = """
def main() -> None:
    \"\"\"Train and look at the gradients that the optimizer gets: there is no other sign.\"\"\"
    import sys

    import torch
    from torch.nn.modules.module import register_module_forward_pre_hook
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    names: dict[torch.nn.Parameter, str] = {{}}
    learned: dict[torch.nn.Parameter, bool] = {{}}
{names}
    def note_gradients(optimizer: torch.optim.Optimizer, _args: object, _kwargs: object) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                gradient = parameter.grad
                good = gradient is not None and bool({good})
                if parameter.requires_grad:
                    learned[parameter] = learned.get(parameter, False) or good

    register_module_forward_pre_hook(note_names)
    register_optimizer_step_pre_hook(note_gradients)
    train()
    bad = [names.get(parameter, "?") for parameter, good in learned.items() if not good]
    if bad:
        listed = ", ".join(bad[:3]) + (f" and {{len(bad) - 3}} more" if len(bad) > 3 else "")
        sys.exit(f"{{len(bad)}} of {{len(learned)}} trainable parameters got {got}: {{listed}}")
"""
UPDATES = """
def main() -> None:
    \"\"\"Train and compare the parameters with their values before: there is no other sign.\"\"\"
    import sys

    import torch
    from torch.nn.modules.module import register_module_forward_pre_hook

    before: dict[torch.nn.Parameter, tuple[str, torch.Tensor]] = {}

    def note_values(module: torch.nn.Module, _inputs: object) -> None:
        for name, parameter in module.named_parameters() if module.training else ():
            if parameter.requires_grad and parameter not in before:
                before[parameter] = (name, parameter.detach().clone())

    register_module_forward_pre_hook(note_values)
    train()
    same = [name for parameter, (name, value) in before.items() if torch.equal(parameter, value)]
    if same:
        listed = ", ".join(same[:3]) + (f" and {len(same) - 3} more" if len(same) > 3 else "")
        sys.exit(f"{len(same)} of {len(before)} trainable parameters did not change: {listed}")
"""
RANKS = """
def main() -> None:
    \"\"\"Train and compare the ranks' parameters before each step: there is no other sign.\"\"\"
    import sys
    import tempfile
    from pathlib import Path

    import torch
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    def note_sums(optimizer: torch.optim.Optimizer, _args: object, _kwargs: object) -> None:
        held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        sums = [float(parameter.detach().double().sum()) for parameter in held]
        with (Path(folder) / str(torch.distributed.get_rank())).open("a") as file:
            file.write(f"{sums}\\n")

    with tempfile.TemporaryDirectory() as folder:
        register_optimizer_step_pre_hook(note_sums)
        train()
        ranks = [path.read_text().splitlines() for path in Path(folder).iterdir()]
    differ = [len(set(sums)) > 1 for sums in zip(*ranks)]
    if True in differ and not differ[0]:
        step = differ.index(True)
        sys.exit(f"the parameters of {len(ranks)} ranks differ after step {step}")
"""
TRAINABLE = """
def main() -> None:
    \"\"\"Train and look for trainable parameters: there is no other sign.\"\"\"
    import sys

    import torch
    from torch.nn.modules.module import register_module_forward_pre_hook

    names: dict[torch.nn.Parameter, str] = {{}}
{names}
    register_module_forward_pre_hook(note_names)
    train()
    if not any(parameter.requires_grad for parameter in names):
        sys.exit(f"nothing is trainable: all {{len(names)}} parameters are frozen, with no error")
"""
LOSSES = """
def main() -> None:
    \"\"\"Train and look at the losses: there is no other sign.\"\"\"
    import math
    import sys

    import torch

    losses: list[float] = []
    backward = torch.autograd.backward

    def noting_losses(tensors, *args, **kwargs):
        for tensor in [tensors] if isinstance(tensors, torch.Tensor) else tensors:
            losses.append(float(tensor.detach().sum()))
        return backward(tensors, *args, **kwargs)

    torch.autograd.backward = noting_losses
    train()
    if not all(map(math.isfinite, losses)):
        sys.exit(f"the loss is not finite: {losses}")
"""
