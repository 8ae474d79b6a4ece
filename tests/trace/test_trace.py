"""Unmodified scripts under ``gradmatrix trace``: real processes, oldest and newest torch."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gradmatrix.cli.main import main
from gradmatrix.run import bundle
from tests.conftest import NEWEST, OLDEST, ROOT, STACKS, python_of, waits_until
from tests.factories import NOON

if TYPE_CHECKING:
    from collections.abc import Sequence

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
TRAINS = """
import atexit, os, signal, sys
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
try:
    for step in range(8):
        optimizer.zero_grad()
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
finally:
    print("cleaned up", flush=True)
"""
needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and shell scripts")


class Traced:
    """The result of ``gradmatrix trace``."""

    def __init__(self, code: int, output: bytes, error: str) -> None:
        self.code = code
        self.output, _, document = output.rpartition(b"\n{")
        self.found: dict[str, Any] = json.loads(b"{" + document) if document else {}
        self.error = error

    @property
    def outcome(self) -> str:
        """The outcome."""
        return str(self.found["outcome"])


class Here:
    """A folder for scripts, and a way to trace them."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[bytes]) -> None:
        self.folder = folder
        self.capture = capture

    def write(self, text: str, name: str = "train.py") -> str:
        """Write a script."""
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def trace(self, *words: object, options: Sequence[object] = (), stack: str = OLDEST) -> Traced:
        """Run the command in this process, and the script in another one."""
        arguments = ["trace", "--python", python_of(stack), *options, "--json", *words]
        self.capture.readouterr()
        code = main([str(argument) for argument in arguments])
        output, error = self.capture.readouterr()
        return Traced(code, output, error.decode())


@pytest.fixture
def here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Here:
    """An empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return Here(tmp_path, capfdbinary)


@pytest.mark.parametrize("stack", STACKS)
def test_a_script_prints_what_it_prints_alone(here: Here, stack: str) -> None:
    """The output is equal byte for byte. Workers of its data loader are not traced."""
    script = EXAMPLES / "plain_loop.py"
    alone = subprocess.run([python_of(stack), script], capture_output=True, check=True).stdout
    traced = here.trace(script, stack=stack)
    assert (alone, "") == (traced.output, traced.error)
    assert ("trains", "flowing", 24, []) == tuple(
        traced.found[name] for name in ("outcome", "gradient", "steps", "trouble")
    )


def test_a_project_of_scripts_gets_remedies_of_the_wheel(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own matrix.toml has none."""
    carried = bundle.Bundle(ROOT, NOON)
    monkeypatch.setattr(bundle, "carried", lambda: carried)
    here.write("[run]\nscenarios = []\n", "matrix.toml")
    script = here.write("""
import torch
from torch.utils.checkpoint import checkpoint

net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
checkpoint(net, torch.ones(2, 4), use_reentrant=True).sum().backward()
""")
    found = here.trace(script).found
    assert "Its code: gradmatrix capsule " in found["explanation"][-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["lightning_autoencoder", "transformers_trainer", "trl_sft", "accelerate_loop"]
)
def test_an_example_of_a_library_trains(here: Here, name: str) -> None:
    """It is unmodified, as in the library's documentation."""
    traced = here.trace(EXAMPLES / f"{name}.py", stack=NEWEST)
    assert (0, "trains", []) == (traced.code, traced.outcome, traced.found["trouble"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "cause", "file", "function"),
    [
        ("t5_adafactor", "closure-without-grad", "transformers/optimization.py", "step"),
        (
            "amp_manual_optimization",
            "autocast-cache",
            "amp_manual_optimization.py",
            "training_step",
        ),
    ],
)
def test_a_script_that_loses_its_gradient_fails_as_it_does_alone(
    here: Here, name: str, cause: str, file: str, function: str
) -> None:
    """It has its own traceback and exit code, and the trace names the line to blame."""
    traced = here.trace(EXAMPLES / f"{name}.py", stack=OLDEST)
    assert (1, "step:no-grad-fn", "none") == (traced.code, traced.outcome, traced.found["gradient"])
    assert "element 0 of tensors does not require grad" in traced.error
    found = traced.found["diagnosis"]
    assert (cause, file, function) == (
        found["cause"],
        found["place"]["file"],
        found["place"]["function"],
    )


@needs_posix
@pytest.mark.parametrize(
    ("last_line", "code", "outcome", "gradient"),
    [
        ("sys.exit(3)", 3, "process:exit-3", "flowing"),
        ("raise ValueError('it broke')", 1, "step:exception", "flowing"),
        ("os._exit(0)", 0, "trains", "flowing"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "process:signal-9", None),
    ],
)
def test_the_exit_code_is_the_scripts(
    here: Here, last_line: str, code: int, outcome: str, gradient: str | None
) -> None:
    """The finding has what was seen before the end.

    A script that is killed at once leaves nothing.
    """
    traced = here.trace(here.write(TRAINS + last_line))
    assert (code, outcome, gradient) == (traced.code, traced.outcome, traced.found["gradient"])
    assert b"cleaned up\n" == traced.output


@pytest.mark.slow
@needs_posix
def test_a_script_that_is_killed_leaves_what_had_been_seen(here: Here) -> None:
    """The observation is written from one second after the first step on."""
    text = TRAINS.replace("range(8)", "range(10)").replace(
        "    for step", "    import time\n    for step"
    )
    text = text.replace(
        "        optimizer.zero_grad()", "        time.sleep(0.15)\n        optimizer.zero_grad()"
    )
    traced = here.trace(here.write(text + "os.kill(os.getpid(), signal.SIGKILL)"))
    assert (137, "process:signal-9", "flowing") == (
        traced.code,
        traced.outcome,
        traced.found["gradient"],
    )


def test_a_script_is_stopped_after_so_many_steps(here: Here) -> None:
    """Its finally blocks run, but not the code after training. The document is in the file too."""
    traced = here.trace(
        here.write(TRAINS + "print('not reached')"),
        options=["--steps", 5, "--output", "found.json"],
    )
    assert (0, b"cleaned up\n", 5) == (traced.code, traced.output, traced.found["steps"])
    assert traced.found == json.loads((here.folder / "found.json").read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("stack", STACKS)
def test_processes_that_are_spawned_are_stopped_together(here: Here, stack: str) -> None:
    """The first rank is traced. The process that waits for them ends too."""
    traced = here.trace(EXAMPLES / "spawned.py", 2000, options=["--steps", 6], stack=stack)
    assert (0, "trains", 6, b"") == (
        traced.code,
        traced.outcome,
        traced.found["steps"],
        traced.output,
    )


@pytest.mark.slow
def test_the_first_of_a_launchers_ranks_is_traced(here: Here) -> None:
    """A command of the environment runs with its Python."""
    traced = here.trace(
        "torchrun", "--standalone", "--nproc-per-node", 2, EXAMPLES / "distributed.py", 8
    )
    assert (0, "trains", 8) == (traced.code, traced.outcome, traced.found["steps"])
    assert {b"rank 0 trained", b"rank 1 trained"} == set(traced.output.splitlines())


@pytest.mark.slow
def test_an_exception_of_a_spawned_process_is_reported(here: Here) -> None:
    """The launcher's own exception is not the one reported."""
    script = here.write(
        "import torch\n"
        "def train(rank):\n"
        "    model = torch.nn.Linear(2, 2).requires_grad_(False)\n"
        "    model(torch.ones(1, 2)).sum().backward()\n"
        "if __name__ == '__main__':\n"
        "    torch.multiprocessing.spawn(train)\n"
    )
    traced = here.trace(script)
    assert (1, "step:no-grad-fn") == (traced.code, traced.outcome)


@pytest.mark.slow
@needs_posix
def test_a_forked_process_is_traced(here: Here) -> None:
    """The launcher of a notebook forks in this way."""
    script = here.write(
        "import multiprocessing, torch\n"
        f"def train():\n{textwrap.indent(TRAINS, '    ')}\n"
        "process = multiprocessing.get_context('fork').Process(target=train)\n"
        "process.start()\n"
        "process.join()\n"
    )
    traced = here.trace(script)
    assert (0, "trains", 8) == (traced.code, traced.outcome, traced.found["steps"])


def test_everything_after_the_script_is_its_own(here: Here) -> None:
    """This includes words that look like options of this project."""
    words = ["--steps", "9", "--", "-m", "--json", "-h", "--python=x"]
    traced = here.trace(here.write("import sys\nprint(sys.argv[1:], __name__)"), *words)
    assert f"{words} __main__\n".encode() == traced.output


@pytest.mark.slow
def test_a_module_is_run_as_python_does(here: Here) -> None:
    """The current folder is on its path."""
    here.write(TRAINS, "training.py")
    traced = here.trace("-m", "training", "--steps", "1")
    assert (0, "trains", 8) == (traced.code, traced.outcome, traced.found["steps"])


@pytest.mark.slow
def test_the_script_finds_its_environment_as_it_is(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its path has no folder of this project, and its own sitecustomize runs."""
    (here.folder / "own").mkdir()
    here.write("import sys\nsys.customized = __name__, __file__\n", "own/sitecustomize.py")
    monkeypatch.setenv("PYTHONPATH", str(here.folder / "own"))
    text = "import json, sys, torch\nprint(json.dumps([sys.path, sys.customized]))"
    script = here.write(text.replace("torch", "torch, sitecustomize"))
    alone = subprocess.run([python_of(OLDEST), script], capture_output=True, check=True).stdout
    assert alone == here.trace(script).output


def test_a_script_without_torch_is_said_to_be_one(here: Here) -> None:
    """Nothing can be judged."""
    traced = here.trace(here.write("print('hello')"))
    assert (0, b"hello\n", "the script never imported torch") == (
        traced.code,
        traced.output,
        traced.found["message"],
    )


def test_an_import_that_fails_before_torch_is_reported(here: Here) -> None:
    """This is the most frequent failure."""
    traced = here.trace(here.write("import no_such_library\nimport torch"))
    assert (1, "import:missing-module") == (traced.code, traced.outcome)
    # at the end of a process, torch would print errors of its own
    assert "torch" not in traced.found["observation"]["environment"]


def test_the_source_is_read_although_the_interpreter_has_forgotten_its_path(here: Here) -> None:
    """Exit handlers run after ``__main__.__file__`` is deleted; no hook sees a missing call."""
    script = (EXAMPLES.parent / "trace" / "mistakes" / "backward_not_called.py").read_text(
        encoding="utf-8"
    )
    forgotten = "import atexit\natexit.register(lambda: print('__file__' in globals()))\n"
    traced = here.trace(here.write(forgotten + script))
    assert "not-called" == traced.found["diagnosis"]["cause"]
    assert b"False" == traced.output.strip().splitlines()[-1]


def test_a_script_that_only_imports_torch_is_not_judged(here: Here) -> None:
    """Nothing that is watched happened."""
    traced = here.trace(here.write("import torch"))
    assert (0, "update:unseen") == (traced.code, traced.outcome)
    assert "no optimizer was built" in traced.found["message"]


@pytest.mark.slow
@needs_posix
def test_a_request_to_end_goes_to_the_script(here: Here) -> None:
    """Ending the trace ends the script, and the report is still printed."""
    trained = here.folder / "trained"
    script = here.write(
        TRAINS + f"import time\nopen({str(trained)!r}, 'w').close()\ntime.sleep(600)"
    )
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "gradmatrix",
        "trace",
        "--python",
        python_of(NEWEST),
        here.folder / script,
    ]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as traced:
        assert waits_until(trained.exists)
        traced.send_signal(signal.SIGTERM)
        _, error = traced.communicate()
    assert (143, True) == (
        traced.returncode,
        error.startswith("gradmatrix trace: process:signal-15"),
    )
