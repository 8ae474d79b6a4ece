"""The callbacks for trainers, in an environment that has Lightning, Transformers and TRL."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.conftest import NEWEST
from tests.trace.test_trace import EXAMPLES, Here, here
from tests.trace.test_watching import folder, run

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

__all__ = ("folder", "here", "run")
pytestmark = pytest.mark.slow

LIGHTNING = """
import json, sys
from importlib import import_module
import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import T5Config, T5ForConditionalGeneration
kind, namespace, *words = sys.argv[1:]
L = import_module(namespace)

class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        sizes = dict(d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2)
        config = T5Config(vocab_size=64, decoder_start_token_id=0, **sizes)
        self.t5, self.head = T5ForConditionalGeneration(config), nn.Linear(16, 4)
    def training_step(self, tokens, _):
        with torch.no_grad():
            found = self.t5(tokens, decoder_input_ids=tokens, output_hidden_states=True)
        return self.head(found.decoder_hidden_states[-1]).square().mean()
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)

class Gan(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator, self.critic = nn.Linear(4, 4), nn.Linear(4, 1)
    def training_step(self, tokens, _):
        for optimizer, sign in zip(self.optimizers(), (1, -1)):
            optimizer.zero_grad()
            self.manual_backward(sign * self.critic(self.generator(torch.randn(8, 4))).exp().mean())
            optimizer.step()
    def configure_optimizers(self):
        parts = self.generator, self.critic
        return [torch.optim.Adam(part.parameters(), lr=1e-3) for part in parts]

model = {"cut": Classifier, "frozen": Classifier, "gan": Gan}[kind]()
if kind == "frozen":
    model.requires_grad_(False)
callbacks = []
if words:
    from gradmatrix.lightning import Watch
    callbacks = [Watch(assert_trains="assert" in words)]
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer = L.Trainer(max_epochs=1, accelerator="cpu", callbacks=callbacks, **quiet)
try:
    trainer.fit(model, DataLoader(torch.randint(2, 64, (32, 6)), batch_size=4))
finally:
    if words:
        diagnosis = callbacks[0].seen.diagnosis
"""
TRANSFORMERS = """
import json, sys
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
kind, how, *words = sys.argv[1:]
sizes = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
model = BertForSequenceClassification(BertConfig(vocab_size=64, **sizes))
rows = [{"input_ids": torch.randint(3, 64, (8,)), "labels": row % 2} for row in range(48)]
if kind == "frozen":
    model.requires_grad_(False)
rate = 0.0 if kind == "rate" else 1e-3
arguments = TrainingArguments(
    "out", max_steps=6, learning_rate=rate, report_to="none", disable_tqdm=True, use_cpu=True
)
callbacks = []
if words:
    from gradmatrix.transformers import Watch
    callbacks = [Watch(assert_trains="assert" in words)]
given = (torch.optim.AdamW(model.parameters(), lr=rate), None) if how == "given" else (None, None)
trainer = Trainer(model, arguments, train_dataset=rows, optimizers=given,
                  callbacks=None if how == "added" else callbacks)
if how == "added" and words:
    trainer.add_callback(callbacks[0])
try:
    trainer.train()
finally:
    if words:
        diagnosis = callbacks[0].seen.diagnosis
"""
TOLD = """
        import msgspec
        print(json.dumps(msgspec.to_builtins(diagnosis)))
"""


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (LIGHTNING, ("cut", "lightning")),
        (LIGHTNING, ("cut", "pytorch_lightning")),
        (TRANSFORMERS, ("rate", "built")),
    ],
)
def test_a_callback_says_what_trace_says(
    here: Here, run: Run, folder: Path, script: str, words: tuple[str, ...]
) -> None:
    """The same cause, place and text."""
    (folder / "train.py").write_text(script + TOLD)
    ran = run("train.py", *words, "watch")
    assert not ran.returncode, ran.stderr
    traced = here.trace(here.write(script + TOLD), *words, stack=NEWEST)
    assert json.loads(ran.stdout.splitlines()[-1]) == traced.found["diagnosis"]
    assert f"gradmatrix: {traced.outcome}, gradient" in ran.stderr


@pytest.mark.parametrize("how", ["given", "added"])
def test_what_is_older_than_the_callback_is_judged(run: Run, folder: Path, how: str) -> None:
    """An optimizer, or the whole Trainer: only the line that made it is not known."""
    (folder / "train.py").write_text(TRANSFORMERS + TOLD)
    ran = run("train.py", "rate", how, "watch")
    diagnosis = json.loads(ran.stdout.splitlines()[-1])
    assert ("learning-rate", None) == (diagnosis["cause"], diagnosis["place"])
    assert "gradmatrix: update:none, gradient flowing, 6 steps" in ran.stderr


@pytest.mark.parametrize(
    ("script", "namespace"), [(LIGHTNING, "lightning"), (TRANSFORMERS, "built")]
)
def test_the_error_that_ends_a_training_is_explained(
    run: Run, folder: Path, script: str, namespace: str
) -> None:
    """A note below the traceback says which parameters are frozen; nothing else is raised."""
    (folder / "train.py").write_text(script)
    ran = run("train.py", "frozen", namespace, "watch", "assert")
    assert 1 == ran.returncode
    error, note = ran.stderr.split("\ngradmatrix: ")
    assert error.splitlines()[-1].startswith("RuntimeError: element 0 of tensors")
    assert "step:no-grad-fn, gradient none, 0 steps" in note
    assert "Nothing can learn: all" in note


def test_a_training_that_does_not_train_fails_if_asked(run: Run, folder: Path) -> None:
    """With the diagnosis."""
    (folder / "train.py").write_text(LIGHTNING)
    ran = run("train.py", "cut", "lightning", "watch", "assert")
    assert 1 == ran.returncode
    assert "\nAssertionError: gradient:partial, gradient partial, 8 steps" in ran.stderr
    assert "Gradients were off: no_grad, at train.py:18, training_step." in ran.stderr


def test_what_trains_is_not_touched(run: Run, folder: Path) -> None:
    """Several optimizers in manual optimization, and a trainer of TRL with its own callbacks."""
    (folder / "train.py").write_text(LIGHTNING)
    gan = run("train.py", "gan", "lightning", "watch", "assert")
    assert not gan.returncode, gan.stderr
    example = (EXAMPLES / "trl_sft.py").read_text()
    begin, end = example.split("    processing_class=tokenizer,\n")
    given = "    processing_class=tokenizer,\n    callbacks=[Watch(steps=8, assert_trains=True)],\n"
    imported = "from gradmatrix.transformers import Watch\n"
    (folder / "sft.py").write_text(imported + begin + given + end)
    sft = run("sft.py")
    assert not sft.returncode, sft.stderr
