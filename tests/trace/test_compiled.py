"""torch.compile under a trace: the script compiles the same graphs and gets the same numbers."""

from __future__ import annotations

import subprocess

import pytest

from tests.conftest import NEWEST, OLDEST, python_of
from tests.trace.test_trace import Here, here

__all__ = ("here",)

BEGINNING = """
import sys, warnings
import torch
from torch import nn

warnings.simplefilter("ignore")
torch.manual_seed(0)
compiled = lambda function, **options: torch.compile(function, backend="aot_eager", **options)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 1)
    def forward(self, x):
        return self.last(self.norm(torch.tanh(self.first(x))))

net, x, y = Net(), torch.randn(32, 8), torch.randn(32, 1)
error = lambda model: ((model(x) - y) ** 2).mean()

def show(value):
    print(float(value).hex(), flush=True)

def loop(model, before=lambda step: None):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for step in range(8):
        before(step)
        optimizer.zero_grad()
        loss = error(model)
        loss.backward()
        optimizer.step()
        show(loss)
"""
END = """
from torch._dynamo.utils import counters
print(counters["stats"]["unique_graphs"], dict(counters["frames"]) if EVERY_FRAME else "")
"""
CASES = {
    "module": "loop(compiled(net))",
    "one graph": "loop(compiled(net, fullgraph=True))",
    "in place": "net.compile(backend='aot_eager')\nloop(net)",
    "by its older name": "import torch._dynamo\nloop(torch._dynamo.optimize('aot_eager')(net))",
    "a broken graph": """
def run(x):
    hidden = net.first(x)
    with torch.no_grad():
        scale = hidden.abs().max()
    print("between two graphs")
    hidden = torch.tanh(hidden) / (1 + scale.item()) + torch.tensor(0.5)
    return net.last(net.norm(hidden)) + 0 * hidden.detach().sum()
loop(compiled(run))
""",
    "a part is not compiled": """
@torch._dynamo.disable
def apart(hidden):
    return net.norm(hidden) + 0 * hidden.detach().sum()
loop(compiled(lambda x: net.last(apart(torch.tanh(net.first(x))))))
""",
    "a hook that comes later": """
def before(step):
    if step == 2:
        double = lambda module, given, gotten: tuple(2 * each for each in given)
        net.last.register_full_backward_hook(double)
loop(compiled(net), before)
""",
    "several sizes": "loop(compiled(lambda _: net(x[: (32, 24, 16, 8)[len(x) % 4]])))",
    "a gradient of a gradient": """
@compiled
def slope(x):
    x = x.requires_grad_()
    found, = torch.autograd.grad(net(x).sum(), x, create_graph=True)
    return found.square().sum()
try:
    (error(net) + slope(x.clone())).backward()
except RuntimeError as reason:
    print(type(reason))
loop(net)
""",
}
STEPS = {
    "step": """
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
step = compiled(optimizer.step)
for _ in range(8):
    optimizer.zero_grad()
    loss = error(net)
    loss.backward()
    step()
    show(loss)
""",
    "all": """
optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
@compiled
def train():
    optimizer.zero_grad()
    loss = error(net)
    loss.backward()
    optimizer.step()
    return loss
for _ in range(8):
    show(train())
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CASES, *STEPS])
def test_what_is_compiled_is_the_same(here: Here, case: str) -> None:
    """Also how often it is compiled, except for optimizers: a step ends the graph."""
    end = END.replace("EVERY_FRAME", str(case in CASES))
    script = here.write(BEGINNING + {**CASES, **STEPS}[case] + end)
    alone = subprocess.run([python_of(NEWEST), script], capture_output=True, check=True).stdout
    traced = here.trace(script, stack=NEWEST)
    assert (alone, "trains", []) == (traced.output, traced.outcome, traced.found["trouble"])
    assert 8 == traced.found["observation"]["steps"]
    assert 4 == len(traced.found["observation"]["gradient_norms"])


def test_a_layer_in_compiled_code_without_a_gradient_is_no_finding(here: Here) -> None:
    """Nobody saw whether it ran, and the remark says what shows it."""
    cut = "net.norm.forward = lambda x: nn.functional.layer_norm(x, (16,), None, net.norm.bias)\n"
    traced = here.trace(here.write(BEGINNING + cut + "loop(compiled(net))"), stack=NEWEST)
    assert "trains" == traced.outcome
    assert ["without torch.compile" in each for each in traced.found["remarks"]] == [True]


COMPILED = """
import torch

try:
    torch.compile(torch.nn.Linear(1, 1))
except RuntimeError as error:
    print(error)  # torch 2.0 compiles nothing with Python 3.11
from torch._dynamo import skipfiles
print([folder for folder in skipfiles.SKIP_DIRS if folder.endswith("/observe/")])
"""


def test_the_compiler_of_torch_2_0_leaves_the_observer_alone(here: Here) -> None:
    """It fails on the hooks of modules (seen with Python 3.9)."""
    traced = here.trace(here.write(COMPILED), stack=OLDEST)
    assert b"/observe/" in traced.output
