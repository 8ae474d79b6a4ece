"""A trace changes nothing: lifetimes, modes and pickles; a killed trace; NaN named by operation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from gradmatrix.trace.survivor import running
from tests.conftest import NEWEST, ROOT, STACKS, python_of, waits_until
from tests.trace.test_trace import Here, here, needs_posix

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ("here",)

LIVES = """
import copy, gc, pickle, weakref
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
    def forward(self, x):
        return self.layer(x).sum()
    def __del__(self):
        print("the model ends", flush=True)

def fit():
    model = Model()
    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for step in range(8):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).backward()
        optimizer.step()
        scheduler.step()
    return [weakref.ref(each) for each in (model, optimizer, *model.parameters())]

for fold in range(3):
    references = fit()
    gc.collect()
    print([reference() is None for reference in references])

torch.inference_mode().__enter__()  # it is dropped, and so it ends
print(torch.is_inference_mode_enabled(), torch.is_grad_enabled())
print(pickle.loads(pickle.dumps(torch.Tensor.detach)) is torch.Tensor.detach)
print(torch.half)
print(len(pickle.dumps(copy.deepcopy(Model()))))
"""
FOLDS = """
import gc, weakref
import torch

def fit():
    settings = locals()
    model = torch.nn.ModuleDict({"layer": torch.nn.Linear(4, 4), "unused": torch.nn.Linear(4, 4)})
    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for step in range(8):
        optimizer.zero_grad()
        model["layer"](torch.ones(3, 4)).sum().backward()
        optimizer.step()
        scheduler.step()
    return settings, [weakref.ref(each) for each in (model, optimizer, *model.parameters())]

fit()
for fold in range(4):
    settings, references = fit()
    gc.collect()
    print(settings, [reference() is None for reference in references])
"""
DISPATCHES = """
import copy, inspect, pickle
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

NAMES = "detach item exp argmax sort to add gt log max sum requires_grad_ register_hook".split()
METHODS = {getattr(torch.Tensor, name): name for name in NAMES}
FUNCTIONS = {getattr(torch, name): name for name in "exp argmax sort max softmax tensor".split()}
LOSSES = {torch.nn.functional.cross_entropy: "cross_entropy"}
TABLE = {**METHODS, **FUNCTIONS, **LOSSES, torch.Tensor.data.__get__: "data"}

class Handled(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        print("called", TABLE.get(function, "something else"))
        return super().__torch_function__(function, types, args, kwargs or {})

class Mode(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        print("mode", TABLE.get(function, "something else"))
        return function(*args, **(kwargs or {}))

class Operations(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        print("operation", function)
        return function(*args, **(kwargs or {}))

def calls(x):
    x.detach(), x[0].item(), x.exp(), x.argmax(), x.sort(), x.to(torch.float64), x + 1, x > 1
    x.max(), torch.exp(x), torch.sort(x), torch.max(x), x.data
    torch.nn.functional.cross_entropy(x, torch.tensor(1))
    x.clone().add_(1)

torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    x = torch.rand(2, 4)
    with Mode():
        model(x)
        calls(x[0])
    with Operations():
        model(x).square().sum().backward()
        calls(x[0])
        optimizer.step()
    loss = model(x.as_subclass(Handled)).sum()
    calls(x[1].as_subclass(Handled))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.device("meta"):
        print(torch.tensor([1.0]).device, torch.as_tensor([1.0]).device, torch.rand(2).device)
    for each in (torch.Tensor.add, torch.exp, torch.max, torch.nn.functional.cross_entropy):
        again = pickle.loads(pickle.dumps(each))
        print(again is each, again == each, copy.deepcopy(each) == each, each.__name__)
        print(inspect.isfunction(each), inspect.isroutine(each))
"""
BREAKS = """
import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(6):
    optimizer.zero_grad()
    out = model(torch.ones(8, 3))
    LOSS
    loss.backward()
    optimizer.step()
"""
SCALED = """
import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu")
for step in range(8):
    optimizer.zero_grad()
    loss = model(torch.ones(8, 3)).pow(2).mean()
    scaler.scale(loss * (float("inf") if step == 5 else 1)).backward()
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize("stack", STACKS)
def test_objects_end_when_they_end_alone(here: Here, stack: str) -> None:
    """After the audit no module, optimizer or parameter is kept; a dropped mode ends at once."""
    script = here.write(LIVES)
    alone = subprocess.run([python_of(stack), script], capture_output=True, check=True).stdout
    traced = here.trace(script, stack=stack)
    assert (alone, "trains", []) == (traced.output, traced.outcome, traced.found["trouble"])
    assert b"the model ends\n[True, True, True, True]\nFalse True\nTrue" in alone


@pytest.mark.parametrize("stack", STACKS)
def test_of_several_trainings_only_the_first_is_kept(here: Here, stack: str) -> None:
    """It is looked at until all of it learns. What a function got from locals() stays the same."""
    traced = here.trace(here.write(FOLDS), stack=stack)
    assert ("trains", []) == (traced.outcome, traced.found["trouble"])
    assert [f"{{}} {6 * [True]}"] * 4 == traced.output.decode().splitlines()


@pytest.mark.parametrize("stack", STACKS)
def test_subclasses_and_modes_are_asked_about_the_functions_that_they_know(
    here: Here, stack: str
) -> None:
    """They look functions up in tables. What the observer itself reads of a tensor is no call."""
    script = here.write(DISPATCHES)
    alone = subprocess.run([python_of(stack), script], capture_output=True, check=True).stdout
    traced = here.trace(script, stack=stack)
    assert (alone, []) == (traced.output, traced.found["trouble"])
    assert b"called detach" in alone
    assert b"mode detach" in alone
    assert b"operation aten.detach.default" in alone
    assert b"meta meta meta" in alone


@pytest.mark.parametrize(
    ("loss", "cause", "says"),
    [
        ("loss = torch.log(torch.relu(out) * 0).mean()", "nonfinite-output", "`log` made"),
        ("loss = (out / (out - out)).mean()", "nonfinite-output", "`/` made"),
        ("loss = ((out - out.detach()) ** 2).sum().sqrt()", "nonfinite-gradient", "of `sqrt` was"),
        (
            "loss = torch.where(out > 9, (out - out).sqrt(), 0 * out).sum()",
            "nonfinite-gradient",
            "of `sqrt` was",
        ),
    ],
)
def test_the_operation_that_made_nan_is_named(here: Here, loss: str, cause: str, says: str) -> None:
    """It is outside of all modules, in the forward or in the backward pass."""
    text = BREAKS.replace("LOSS", loss)
    traced = here.trace(here.write(text), stack=NEWEST)
    found = traced.found["diagnosis"]
    line = 1 + text.splitlines().index(f"    {loss}")
    assert (cause, line) == (found["cause"], found["place"]["line"])
    assert says in found["text"][0]


def test_skipped_steps_are_a_note(here: Here) -> None:
    """Losses are told unscaled, and a script whose other steps were made trains."""
    traced = here.trace(here.write(SCALED), stack=NEWEST)
    seen = traced.found["observation"]
    assert ("trains", [{"type": "SGD", "asked": 8, "made": 7}]) == (
        traced.outcome,
        seen["skipped_steps"],
    )
    assert max(seen["losses"]) < 100


def test_the_loss_of_a_skipped_step_is_no_part_of_the_next_one(here: Here) -> None:
    """Also if the first steps are skipped: nothing was changed by them."""
    skips = SCALED.replace("step == 5", "step < 2")
    traced = here.trace(here.write(skips), stack=NEWEST)
    again = here.trace(here.write(SCALED.replace("step == 5", "False")), stack=NEWEST)
    first, second = (each.found["observation"]["losses"] for each in (traced, again))
    assert first == pytest.approx(second)


@needs_posix
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process started")
def test_a_killed_trace_leaves_nothing(tmp_path: Path) -> None:
    """Neither the script, nor what it started, nor a temporary folder."""
    started = tmp_path / "started"
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import os, subprocess, sys, time
            helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            with open({str(started)!r}, "w") as file:
                file.write(f"{{os.getpid()}} {{helper.pid}}")
            time.sleep(600)
            """
        )
    )
    folder = tmp_path / "temporary"
    folder.mkdir()
    command: Sequence[str | Path] = [
        *(sys.executable, "-m", "gradmatrix", "trace"),
        *("--python", python_of(NEWEST), script),
    ]
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, "TMPDIR": str(folder)}) as traced:
        assert waits_until(lambda: started.exists() and " " in started.read_text())
        pids = [int(word) for word in started.read_text().split()]
        traced.send_signal(signal.SIGKILL)
    assert waits_until(lambda: not set(pids) & set(running()))
    assert waits_until(lambda: not list(folder.iterdir()))
