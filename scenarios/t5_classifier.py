"""T5 under Lightning: an optimizer that runs its closure without gradients.

Reported as Lightning issue 19767 (2024-04): T5ForConditionalGeneration and a linear classifier on
the decoder's last hidden state, automatic optimisation. All parameters require gradients, yet the
loss, the logits and the decoder's hidden states do not: "element 0 of tensors does not require
grad". The author solved it by upgrading Lightning from 2.0.3 to 2.2.2. Related: Lightning 18222,
18254, 18268; transformers 23417, 24412.

In automatic optimisation Lightning hands `optimizer.step` a closure that does the forward and the
backward pass. PyTorch's optimizers turn gradients on around a closure. Adafactor and AdamW of
transformers call it under the `@torch.no_grad()` that 23417 put on their `step` (4.30.2 has it,
4.29.2 has not).

- `torch_adamw`: the same model with an optimizer of PyTorch. `torch_adamw_manual`: the same in
  manual optimisation. `accumulated_4x2`, `accumulated_2x4`: its 8 rows in accumulated batches.
- `hf_adafactor`, `hf_adamw`: as reported. `closure_without_lightning`: no Lightning, the loop that
  PyTorch documents for an optimizer with a closure. Is it Lightning's fault?
- `set_grad_enabled`: the advice in 18222. `enable_grad_forward`: the same with a context, for the
  forward pass. `closure_enable_grad`: what 18268 does inside Lightning. `manual_optimization`: no
  closure.
- Other causes that were named, one at a time: `bf16_mixed` (AdamW of PyTorch), `without_head`
  (Adafactor), and with AdamW `detached`, `no_grad_t5` and `no_grad_forward`, in which something in
  the forward cuts the graph.
- Ways to look for it: `printed` and `printed_torch_adamw` print what the report printed,
  `requires_grad` of the loss, the logits and the hidden states, and so do the three that cut the
  graph. They also print whether gradients are on when `training_step` begins. `anomaly_mode` runs
  with `detect_anomaly=True`.

What the measurement shows (CPU; Lightning 2.0.3 to 2.6.6, transformers 4.29.2 to 5.23.0):

- T5 has nothing to do with it, and neither has Lightning 2.0.3 alone: with transformers 4.29.2
  every variant trains on it that leaves the graph whole. With 4.30.2 the optimizers of transformers
  train in `closure_enable_grad` and `manual_optimization` only, that of PyTorch always.
- Upgrading Lightning does help: on 2.2.2 and later every variant trains that uses it and leaves the
  graph whole. Its closure is decorated with `torch.enable_grad()` (18268) since 2.0.7, by the
  source of 2.0.6 and 2.0.7.
- transformers never changed: `closure_without_lightning` fails from 4.30.2 up to 5.23.0.
- With Lightning 2.0.3 and transformers 4.30.2 the advice of 18222 trades one error for another. In
  `set_grad_enabled` backward works, but gradients stay on for the rest of `step`, whose in-place
  update is then refused ("a leaf Variable that requires grad is being used in an in-place
  operation").
- There, `enable_grad_forward` does not even get as far: the loss returned by `training_step` has a
  grad_fn, but Lightning divides it by the number of accumulated batches, back under `no_grad`, and
  calls backward on the quotient.
- What the report printed is printed again with Lightning 2.0.3 and transformers 4.30.2: every
  parameter has `requires_grad`, the loss, the logits and the hidden states have not. `no_grad()`
  around the whole forward prints the same, so it does not tell which of the two it is. Whether
  gradients are on when `training_step` begins does: off in `printed`, on in all others.
- It is not `detach()` or `no_grad()` around T5: then the head still learns, the loss requires grad,
  and nothing is raised on any release, though all of T5 gets no gradient. Nor is it mixed
  precision, which trains with AdamW, nor the head, without which it fails alike.
- Anomaly mode adds no word: it can only name an operation that has a backward.
- Wherever both train, manual and automatic optimisation agree to the last digit, with AdamW and
  with Adafactor, and so do all remedies. Accumulated batches agree with the whole one to 2e-7.
"""

from __future__ import annotations

import argparse
import unittest
import warnings
from typing import TYPE_CHECKING

import lightning as L
import torch
import transformers
from torch import nn
from torch.utils.data import DataLoader
from transformers import T5Config, T5ForConditionalGeneration
from transformers.optimization import Adafactor

if TYPE_CHECKING:
    from collections.abc import Callable


NEEDS = ("torch>=2.0", "lightning>=2.0", "transformers>=4.29")

VARIANTS = {
    "torch_adamw": {
        "role": "control",
        "summary": "use torch.optim.AdamW",
        "cures": ("closure-without-grad",),
    },
    "torch_adamw_manual": {
        "role": "control",
        "summary": "torch_adamw with automatic_optimization = False",
    },
    "accumulated_4x2": {
        "role": "control",
        "summary": "torch_adamw, the 8 rows as 2 accumulated batches of 4",
    },
    "accumulated_2x4": {
        "role": "control",
        "summary": "torch_adamw, the 8 rows as 4 accumulated batches of 2",
    },
    "hf_adafactor": {"role": "reported", "summary": "transformers.optimization.Adafactor"},
    "hf_adamw": {"role": "reported", "summary": "transformers.AdamW"},
    "closure_without_lightning": {
        "role": "reported",
        "summary": "Adafactor in a plain loop: optimizer.step(closure)",
    },
    "closure_enable_grad": {
        "role": "remedy",
        "summary": "run the optimizer's closure under torch.enable_grad(), in optimizer_step",
        "cures": ("closure-without-grad",),
        "mends": ("hf_adafactor", "hf_adamw"),
    },
    "manual_optimization": {
        "role": "remedy",
        "summary": "set automatic_optimization = False and give the optimizer no closure",
        "cures": ("closure-without-grad",),
        "mends": ("hf_adafactor", "hf_adamw"),
    },
    "set_grad_enabled": {
        "role": "remedy",
        "summary": "call torch.set_grad_enabled(True) first thing in training_step",
        "cures": ("closure-without-grad",),
        "mends": ("hf_adafactor", "hf_adamw"),
    },
    "enable_grad_forward": {
        "role": "remedy",
        "summary": "run the forward pass under torch.enable_grad()",
        "cures": ("closure-without-grad",),
        "mends": ("hf_adafactor", "hf_adamw"),
    },
    "bf16_mixed": {"role": "control", "summary": "torch_adamw with precision='bf16-mixed'"},
    "without_head": {
        "role": "reported",
        "summary": "hf_adafactor without a classifier: T5's own loss",
    },
    "printed": {"role": "reported", "summary": "hf_adafactor, printing requires_grad"},
    "printed_torch_adamw": {"role": "control", "summary": "torch_adamw, printing requires_grad"},
    "detached": {
        "role": "misuse",
        "summary": "torch_adamw, detach() on the hidden state, printing requires_grad",
    },
    "no_grad_t5": {
        "role": "misuse",
        "summary": "torch_adamw, T5 under no_grad() and the head not, printing requires_grad",
    },
    "no_grad_forward": {
        "role": "misuse",
        "summary": "torch_adamw, the whole forward under no_grad(), printing requires_grad",
    },
    "anomaly_mode": {
        "role": "reported",
        "summary": "hf_adafactor under autograd's anomaly detection",
    },
}

AGREE = [
    ("torch_adamw", "torch_adamw_manual"),
    ("torch_adamw", "printed_torch_adamw"),
    ("torch_adamw", "bf16_mixed", {"only": "first loss", "rtol": 0.01}),
    ("torch_adamw", "accumulated_4x2"),
    ("accumulated_4x2", "accumulated_2x4"),
    ("hf_adafactor", "set_grad_enabled"),
    ("hf_adafactor", "enable_grad_forward"),
    ("hf_adafactor", "closure_enable_grad"),
    ("hf_adafactor", "manual_optimization"),
    ("hf_adafactor", "printed"),
    ("hf_adafactor", "anomaly_mode"),
    ("manual_optimization", "enable_grad_forward"),
    ("manual_optimization", "closure_enable_grad"),
    ("manual_optimization", "closure_without_lightning"),
]

OPTIMIZERS = {  # of the variants without Adafactor
    "torch_adamw": "torch_adamw",
    "torch_adamw_manual": "torch_adamw",
    "accumulated_4x2": "torch_adamw",
    "accumulated_2x4": "torch_adamw",
    "hf_adamw": "hf_adamw",
    "bf16_mixed": "torch_adamw",
    "printed_torch_adamw": "torch_adamw",
    "detached": "torch_adamw",
    "no_grad_t5": "torch_adamw",
    "no_grad_forward": "torch_adamw",
}
ACCUMULATED = {"accumulated_4x2": 2, "accumulated_2x4": 4}  # batches for one optimizer step
VOCABULARY = 64
CLASSES = 4


class Classifier(L.LightningModule):
    """A linear classifier on the last hidden state of T5's decoder, trained together with T5."""

    def __init__(self, optimizer: str) -> None:
        super().__init__()
        self.optimizer_name = optimizer
        config = T5Config(
            vocab_size=VOCABULARY,
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            dropout_rate=0.0,
            decoder_start_token_id=0,
        )
        self.t5 = T5ForConditionalGeneration(config)
        self.classifier = nn.Linear(config.d_model, CLASSES)

    def last_hidden_state(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the decoder's last hidden state, (batch, length, d_model)."""
        outputs = self.t5(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            decoder_input_ids=batch["decoder_input_ids"],
            output_hidden_states=True,
            return_dict=True,
        )
        return outputs.decoder_hidden_states[-1]

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the loss of the classification."""
        last = self.last_hidden_state(batch)
        return nn.functional.cross_entropy(self.classifier(last.mean(dim=1)), batch["classes"])

    def training_step(self, batch: dict[str, torch.Tensor], batch_idx: int) -> torch.Tensor | None:
        return self(batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        if self.optimizer_name == "torch_adamw":
            return torch.optim.AdamW(self.parameters(), lr=1e-3)
        if self.optimizer_name == "hf_adamw":
            return transformers.AdamW(self.parameters(), lr=1e-3)
        return Adafactor(  # the settings its documentation recommends for T5
            self.parameters(), lr=1e-3, scale_parameter=False, relative_step=False
        )


class SetGradEnabled(Classifier):
    """The advice in Lightning 18222."""

    def training_step(self, batch: dict[str, torch.Tensor], batch_idx: int) -> torch.Tensor | None:
        torch.set_grad_enabled(True)  # never set back: the rest of optimizer.step runs with it
        return self(batch)


class EnableGradForward(Classifier):
    """The same, for the forward pass only."""

    def training_step(self, batch: dict[str, torch.Tensor], batch_idx: int) -> torch.Tensor | None:
        with torch.enable_grad():
            return self(batch)


class ClosureEnableGrad(Classifier):
    """What Lightning 18268 does, done by the user."""

    def optimizer_step(
        self,
        epoch: int,
        batch_idx: int,
        optimizer: torch.optim.Optimizer,
        optimizer_closure: Callable[[], torch.Tensor],
    ) -> None:
        def closure() -> torch.Tensor:
            with torch.enable_grad():
                return optimizer_closure()

        optimizer.step(closure=closure)


class WithoutHead(Classifier):
    """T5 alone: the decoder prompt is what it shall write."""

    def __init__(self, optimizer: str) -> None:
        super().__init__(optimizer)
        del self.classifier

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return T5's own loss."""
        return self.t5(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            labels=batch["decoder_input_ids"],
        ).loss


class Printed(Classifier):
    """Says what requires a gradient, as the report printed it, and whether gradients are on."""

    def training_step(self, batch: dict[str, torch.Tensor], batch_idx: int) -> torch.Tensor | None:
        enabled = torch.is_grad_enabled()
        warnings.warn(f"training_step: is_grad_enabled {enabled}", stacklevel=1)
        return self(batch)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the loss of the classification."""
        last = self.last_hidden_state(batch)
        logits = self.classifier(last.mean(dim=1))
        loss = nn.functional.cross_entropy(logits, batch["classes"])
        every = all(parameter.requires_grad for parameter in self.parameters())
        warnings.warn(
            f"requires_grad: all parameters {every}, loss {loss.requires_grad}, logits"
            f" {logits.requires_grad}, decoder_hidden_states {last.requires_grad}",
            stacklevel=1,
        )
        return loss


class Detached(Printed):
    """The first thing to look for, as the report was told: `detach()` in the forward."""

    def last_hidden_state(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return super().last_hidden_state(batch).detach()


class NoGradT5(Printed):
    """The second: `no_grad()`, here around T5."""

    def last_hidden_state(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        with torch.no_grad():
            return super().last_hidden_state(batch)


class NoGradForward(Printed):
    """`no_grad()` around all of it."""

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the loss of the classification."""
        with torch.no_grad():
            return super().forward(batch)


class ManualOptimization(Classifier):
    """Forward and backward outside of `optimizer.step`."""

    def __init__(self, optimizer: str) -> None:
        super().__init__(optimizer)
        self.automatic_optimization = False

    def training_step(self, batch: dict[str, torch.Tensor], batch_idx: int) -> None:
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(self(batch))
        optimizer.step()


MODULES = {
    "torch_adamw_manual": ManualOptimization,
    "set_grad_enabled": SetGradEnabled,
    "enable_grad_forward": EnableGradForward,
    "closure_enable_grad": ClosureEnableGrad,
    "manual_optimization": ManualOptimization,
    "without_head": WithoutHead,
    "printed": Printed,
    "printed_torch_adamw": Printed,
    "detached": Detached,
    "no_grad_t5": NoGradT5,
    "no_grad_forward": NoGradForward,
}


def make_batch() -> dict[str, torch.Tensor]:
    """Return eight sequences of 12 tokens, a decoder prompt of 5 and two sequences per class."""
    return {
        "input_ids": torch.randint(2, VOCABULARY, (8, 12)),
        "attention_mask": torch.ones(8, 12, dtype=torch.long),
        "decoder_input_ids": torch.randint(2, VOCABULARY, (8, 5)),
        "classes": torch.arange(8) % CLASSES,
    }


def split(batch: dict[str, torch.Tensor], parts: int) -> list[dict[str, torch.Tensor]]:
    """Cut a batch into batches of as many rows each."""
    chunks = {name: tensor.chunk(parts) for name, tensor in batch.items()}
    return [{name: chunks[name][part] for name in batch} for part in range(parts)]


def train_without_lightning(model: Classifier, batch: dict[str, torch.Tensor], steps: int) -> None:
    """Train as PyTorch documents it for an optimizer that takes a closure."""
    optimizer = model.configure_optimizers()

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(batch)
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)


def train(variant: str, device: str, steps: int) -> None:
    """Train the variant for `steps` optimizer steps."""
    if variant == "hf_adamw" and not hasattr(transformers, "AdamW"):
        raise unittest.SkipTest("this release of transformers has no AdamW")
    torch.manual_seed(0)
    model = MODULES.get(variant, Classifier)(optimizer=OPTIMIZERS.get(variant, "hf_adafactor"))
    batch = make_batch()
    if variant == "closure_without_lightning":
        batch = {name: tensor.to(device) for name, tensor in batch.items()}
        train_without_lightning(model.to(device), batch, steps)
        return
    parts = ACCUMULATED.get(variant, 1)
    trainer = L.Trainer(
        max_steps=steps,
        accumulate_grad_batches=parts,
        accelerator="gpu" if device == "cuda" else "cpu",
        devices=1,
        precision="bf16-mixed" if variant == "bf16_mixed" else 32,
        detect_anomaly=variant == "anomaly_mode",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(split(batch, parts) * steps, batch_size=None))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=16)
    train(**vars(parser.parse_args()))
