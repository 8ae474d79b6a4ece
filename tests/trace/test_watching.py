"""``gradmatrix.watch`` and the plugin of pytest, in an environment that has torch."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import NEWEST, ROOT, python_of
from tests.trace.test_trace import Here, here

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("here",)

NEEDED = (
    "msgspec", "packaging", "filelock", "platformdirs",
    "pytest", "_pytest", "pluggy", "iniconfig", "pygments", "py",
)  # fmt: skip
"""What gradmatrix and pytest import here."""
NETS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, cut):
        super().__init__()
        self.cut = cut
        self.embed, self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1)
        self.embed.requires_grad_(False)
    def forward(self, x):
        x = self.body(self.embed(x))
        return self.head(x.detach() if self.cut else x)

class Anew(Net):
    def named_modules(self, *words, **named):  # PEFT's LoRA of nn.MultiheadAttention does this
        self.embed.weight = nn.Parameter(self.embed.weight.data, requires_grad=False)
        return super().named_modules(*words, **named)

def train(net, steps):
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
"""
WATCHED = """
import json, os, sys, torch
import gradmatrix
from nets import Anew, Net, train
from torch.nn.modules import module
from torch.utils.checkpoint import checkpoint

def now():
    names = set(vars(torch.Tensor)), set(module._global_forward_hooks)
    return names, torch.autograd.backward, torch.Tensor.detach, torch.no_grad.__enter__

def failure(assertion):
    try:
        assertion()
    except AssertionError as error:
        return str(error)

os.chdir(sys.argv[1])
found, before = {}, now()
for cut in (False, True):
    net = Net(cut)
    with gradmatrix.watch(steps=4) as seen:
        train(net, 6)
    found[f"cut {cut}"] = [
        seen.outcome, sorted(seen.frozen), [row["name"] for row in seen.rows],
        failure(seen.assert_trains), failure(lambda: seen.assert_trains(net.body)),
        failure(lambda: seen.assert_trains(net.head, net.head.bias)),
        failure(lambda: seen.assert_trains(ignore="body.*")),
        failure(lambda: seen.assert_trains(ignore=["bdy.*", "head.*"])),
        failure(lambda: seen.assert_trains(net.embed)),
    ]
found["diagnosis"] = [seen.diagnosis.cause, seen.diagnosis.place.line, list(seen.diagnosis.text)]
found["advice"] = seen.finding.explanation[-1]
found["put back"] = before == now()
with gradmatrix.watch() as outer:
    with gradmatrix.watch(steps=6) as inner:
        train(Net(True), 6)
found["nested"] = [
    [each.outcome, each.diagnosis.place.line, sorted(each.frozen), len(each.rows[0]["gradients"])]
    for each in (outer, inner)
]
found["nested, put back"] = before == now()
def inside():
    with gradmatrix.watch():
        train(Net(False), 1)
        with gradmatrix.watch():
            pass
def again():
    with gradmatrix.watch() as seen, seen:
        pass
with gradmatrix.watch(steps=4) as few:
    train(Net(False), 2)
found["few"] = failure(few.assert_trains)
first, second = Net(False), Net(True)
with gradmatrix.watch() as both:
    train(first, 6)
    train(second, 6)
with gradmatrix.watch() as anew:
    train(Anew(False), 4)
found["anew"] = [anew.outcome, sorted(anew.frozen)]
found["later"] = [str(both), failure(lambda: both.assert_trains(second))]
frozen = Net(False).requires_grad_(False)
try:
    with gradmatrix.watch() as before:
        frozen(torch.ones(2, 4)).sum().backward()
except RuntimeError:
    found["frozen before"] = str(before)
try:
    with gradmatrix.watch() as raised:
        torch.ones(1).backward()
except RuntimeError:
    found["raised"] = raised.outcome
class Checkpointed(Net):
    def forward(self, x):
        return self.head(checkpoint(self.body, self.embed(x), use_reentrant=True))
with gradmatrix.watch() as checked:
    train(Checkpointed(False), 4)
found["remedy"] = [checked.finding.explanation[-2], str(checked)]
net = Net(False)
class Closing(torch.optim.SGD):
    @torch.no_grad()
    def step(self, closure):
        closure()
try:
    with gradmatrix.watch() as closed:
        Closing(net.parameters(), lr=0.1).step(lambda: net(torch.ones(2, 4)).sum().backward())
except RuntimeError:
    found["own advice"] = closed.finding.explanation[-1]
errors = []
for wrong in (
    lambda: gradmatrix.watch(0), lambda: gradmatrix.watch("4"), lambda: gradmatrix.watch().outcome,
    inside, again, lambda: few.assert_trains("body"), lambda: few.assert_trains(ignore=[3]),
):
    try:
        wrong()
    except Exception as error:
        errors.append(str(error))
found["errors"] = errors
print(json.dumps(found))
"""
TESTS = """
import pytest, torch
from nets import Net, train

def test_in_a_block(watch):
    with watch(steps=4) as seen:
        train(Net(False), 4)
    seen.assert_trains()

@pytest.mark.trains(steps=4)
def test_marked(watch):
    with watch() as seen:
        train(Net(False), 4)
    seen.assert_trains()

@pytest.mark.trains(ignore=["body.*"])
def test_ignored():
    train(Net(True), 4)

@pytest.mark.trains
def test_cut():
    train(Net(True), 4)

@pytest.mark.trains(steps=9)
def test_never_comes():
    train(Net(False), 4)

@pytest.mark.trains
def test_raises():
    train(Net(False), 4)
    raise ValueError("its own")

def test_of_something_else():
    pass

@pytest.mark.trains
def test_frozen():
    Net(False).requires_grad_(False)(torch.ones(2, 4)).sum().backward()

def test_fails_without_a_marker():
    train(Net(True), 4)
    assert False

def test_fails_in_its_block(watch):
    with watch() as seen:
        train(Net(True), 4)
    seen.assert_trains()

def test_asks_for_gradients():
    net = Net(False)
    for _ in range(3):
        net(torch.ones(2, 4)).sum().backward()

def never_steps(rate):
    net = Net(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        net(torch.ones(2, 4)).sum().backward()
    return optimizer

@pytest.mark.trains
def test_never_steps():
    optimizer = never_steps(0.1)

def test_is_another_test():
    optimizer = never_steps(0.1)
    if optimizer is None:
        optimizer.step()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where scripts and tests run."""
    return tmp_path_factory.mktemp("watched")


@pytest.fixture(scope="module")
def run(folder: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a script or module beside ``nets.py``, with what gradmatrix needs and no more."""
    python = python_of(NEWEST)
    asked = [str(python), "-c", "import sys; print(*sys.version_info[:2])"]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    if version.split() != [str(part) for part in sys.version_info[:2]]:
        pytest.skip("msgspec was installed for another Python than that of the stack")
    (folder / "needed").mkdir()
    for name in NEEDED:
        found = find_spec(name)
        assert found is not None
        assert found.origin is not None
        origin = Path(found.origin)
        origin = origin.parent if origin.name == "__init__.py" else origin
        (folder / "needed" / origin.name).symlink_to(origin)
    (folder / "nets.py").write_text(NETS)
    paths = f"{ROOT / 'harness'}:{folder / 'needed'}:{folder}"

    def started(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(python), *words]
        environment = {"PATH": "", "PYTHONPATH": paths, "HOME": str(folder)}
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )

    return started


@pytest.fixture(scope="module")
def found(run: Callable[..., subprocess.CompletedProcess[str]], folder: Path) -> dict[str, Any]:
    """What ``WATCHED`` saw."""
    (folder / "watched.py").write_text(WATCHED)
    ran = run("watched.py", str(ROOT))
    assert not ran.returncode, ran.stderr
    seen: dict[str, Any] = json.loads(ran.stdout)
    return seen


def test_a_block_is_watched(found: dict[str, Any]) -> None:
    """What trains passes; what does not fails with the diagnosis, unless it is ignored."""
    frozen, rows = ["embed.bias", "embed.weight"], ["body.weight", "body.bias"]
    rows += ["head.weight", "head.bias"]
    *seen, embed = found["cut False"]
    assert ["trains", frozen, rows, None, None, None, None, None] == seen
    assert "Linear do not learn: embed.weight, frozen; embed.bias, frozen.\nThe whole" in embed
    outcome, *seen, whole, body, head, ignored, mistyped, _ = found["cut True"]
    assert ["gradient:partial", frozen, rows, None, None] == [outcome, *seen, head, ignored]
    assert "nets.py:13, forward; 2 parameter tensors behind it got no gradient" in whole
    assert body.startswith("2 of 2 parameters of Linear do not learn: body.weight; body.bias.")
    assert "without `detach` in this loss" in body
    unused = "  ignore='bdy.*' matches no parameter. Their names begin with: body, embed, head"
    assert unused == mistyped.splitlines()[-1]


def test_parameters_may_be_made_anew(found: dict[str, Any]) -> None:
    """Whenever the model is asked for them: they are others then, and have the same names."""
    assert ["trains", ["embed.bias", "embed.weight"]] == found["anew"]


def test_it_leaves_nothing_behind(found: dict[str, Any]) -> None:
    """A block that raises is judged too."""
    assert (True, "step:no-grad-fn") == (found["put back"], found["raised"])


def test_a_block_inside_of_another_one_sees_the_same(found: dict[str, Any]) -> None:
    """If it begins before the first step: as closely as the one that asks for more steps."""
    frozen = ["embed.bias", "embed.weight"]
    assert [["gradient:partial", 13, frozen, 6]] * 2 == found["nested"]
    assert found["nested, put back"]


def test_what_cannot_be_asked_is_one_sentence(found: dict[str, Any]) -> None:
    """Also steps that never come, and a block that begins after the first step of another one."""
    assert found["few"].startswith("2 of 4 steps were made in the block of watch().")
    later, of_second = found["later"]
    assert "not judged: what a later SGD (built at " in later
    assert later.startswith("trains")
    assert of_second.startswith(
        "6 of 6 parameters of Net do not learn, or only after the steps that are looked at"
    )
    assert "Before training, set requires_grad_(True)" in found["frozen before"]
    assert "all 6 parameter tensors" in found["frozen before"]
    assert [
        "watch(steps=0) would look at nothing.",
        "watch(steps='4') would look at nothing.",
        "What watch() saw is known when its block has ended.",
        "This process is watched already.",
        "This process is watched already.",
        "assert_trains() was given str: 'body'.",
        "ignore has int, which is no pattern.",
    ] == [each.splitlines()[0] for each in found["errors"]]


def test_it_says_what_trace_says(
    found: dict[str, Any], here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same cause, line, text and advice."""
    script = here.folder / here.write(f"{NETS}\ntrain(Net(True), 6)\n")
    monkeypatch.chdir(ROOT)
    traced = here.trace(script, stack=NEWEST)
    diagnosis = traced.found["diagnosis"]
    cause, line, text = found["diagnosis"]
    assert traced.found["explanation"][-1] == found["advice"]
    assert [diagnosis["cause"], diagnosis["place"]["line"]] == [cause, line]
    assert [each.partition(", at ")[0] for each in diagnosis["text"]] == [
        each.partition(", at ")[0] for each in text
    ]


def test_it_names_a_remedy_of_the_published_matrix(found: dict[str, Any]) -> None:
    """As trace does. Where the advice is about the script's own code, it names none."""
    advice, told = found["remedy"]
    assert "It was seen to help: " in advice
    assert advice in told
    assert found["own advice"].startswith("Run the closure in `step` (")
    assert found["own advice"].endswith(") under torch.enable_grad().")


def test_the_plugin_of_pytest(
    run: Callable[..., subprocess.CompletedProcess[str]], folder: Path
) -> None:
    """A failure is the diagnosis alone; --gradients says at the end what every test trained."""
    (folder / "test_some.py").write_text(TESTS)
    words = ("-p", "gradmatrix.pytest_plugin", "-p", "no:cacheprovider", "--gradients", "-q")
    ran = run("-m", "pytest", *words, "test_some.py")
    assert 1 == ran.returncode, ran.stderr
    assert "7 failed, 6 passed" in ran.stdout
    assert "test_cut ____" in ran.stdout
    assert "`detach` took the output of `body` (Linear) out of the graph" in ran.stdout
    assert "4 of 9 steps were made in the block of watch()." in ran.stdout
    assert "Captured gradmatrix call" in ran.stdout
    assert "parameter tensors of what ran are frozen." in ran.stdout
    assert "During handling" not in ran.stdout
    assert "ValueError: its own" in ran.stdout
    summary = ran.stdout.partition(" gradients =")[2]
    assert "test_cut: gradient:partial, 4 steps, 2 of 4 parameters learn: detached" in summary
    assert "test_marked: trains, 4 steps, 4 of 4 parameters learn" in summary
    assert "test_fails_without_a_marker: gradient:partial, 4 steps" in summary
    assert "test_asks_for_gradients" not in summary
    assert "test_in_a_block: trains, 4 steps" in summary
    assert "3 tests train, 8 do not train all that should learn, 2 train nothing" in summary
    of_block = ran.stdout.partition("test_fails_in_its_block ____")[2].partition("____ test_")[0]
    assert 1 == of_block.count("took the output of `body` (Linear) out of the graph")
    of_one = ran.stdout.partition("test_never_steps ____")[2].partition("Learning:")[0]
    assert "but its step never ran; it is built at test_some.py:" in of_one


def test_the_marker_takes_no_other_arguments(
    run: Callable[..., subprocess.CompletedProcess[str]], folder: Path
) -> None:
    """It says which ones it takes."""
    (folder / "test_other.py").write_text(
        "import pytest\n@pytest.mark.trains(4)\ndef test_it():\n    pass\n"
    )
    ran = run(
        "-m",
        "pytest",
        "-p",
        "gradmatrix.pytest_plugin",
        "-p",
        "no:cacheprovider",
        "-q",
        "test_other.py",
    )
    assert "@pytest.mark.trains takes steps=N and ignore=" in ran.stdout
