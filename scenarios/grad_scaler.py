"""Steps that GradScaler skips: what the schedule does meanwhile, and what stays at 0.

With float16 a GradScaler multiplies the loss, and skips the optimizer's step if a gradient is NaN
or infinite. Reported as MedicalGPT issue 359 (DPO with fp16: a learning rate of 0 and NaN rewards
for ever), Lightning issue 18828 (the scheduler steps on while the optimizer's step is skipped) and
PyTorch issue 67590 (a script cannot tell whether the step was made). The advice: use bfloat16; step
the scheduler only if the scale held; keep the weights in float32.

Each variant trains a small perceptron on one batch, with a warm-up that starts at 0, until the
optimizer has made its steps. The loop is a plain one, so that it runs on a CPU, where torch has a
GradScaler since 2.3.

- `skips_at_first`: the first scale is too large, as it is in practice; the scheduler steps each
  time. `step_if_scale_held` steps it only after a step that was made. Both must agree with
  `scaled`, in which nothing is skipped, or they are relation:disagrees.
- `every_step_skipped`: one gradient is never finite, the loss is. The scheduler steps only if the
  scale held, as accelerate does it: so it never leaves the 0 of its warm-up.
- `forward_overflows`: the inputs are too large for float16, and the loss is NaN.
- `fused`: a fused AdamW steps each time and looks at the gradients inside of its kernel.
- `half_weights`: the weights are float16, not only the arithmetic.
- `trainer_fp16`, `accelerate_fp16`, `lightning_16_mixed`: what the libraries make of fp16.

What the measurement shows (CPU; PyTorch 2.4.0 to 2.15.0)

- All stacks agree. Where steps are skipped and the scheduler steps on, training disagrees with a
  run in which nothing was skipped: the warm-up is over before the first step. With the scheduler
  stepped only if the scale held, it agrees.
- A run of which every step is skipped ends without an exception, and its schedule never leaves 0:
  update:skipped. With a fused AdamW the optimizer steps, and nothing changes: gradient:nonfinite.
- Inputs too large for float16 give a loss of NaN; in bfloat16 they train.
- Float16 weights raise "Attempting to unscale FP16 gradients" at the scaler's first step.
- On a CPU the libraries train without a GradScaler. accelerate (1.5.2 and 1.15.0) computes in
  float32 without a word, and so does transformers.Trainer, which uses it. Lightning computes in
  bfloat16 and says so.
"""

from __future__ import annotations

import argparse
import tempfile

import torch

NEEDS = ("torch>=2.3",)

VARIANTS = {
    "float32": {"role": "control", "summary": "no autocast and no GradScaler"},
    "scaled": {"role": "control", "summary": "float16 and a scale at which nothing is skipped"},
    "fused_scaled": {"role": "control", "summary": "scaled, with a fused AdamW"},
    "bfloat16": {"role": "remedy", "summary": "use bfloat16, without a GradScaler"},
    "bfloat16_large_inputs": {
        "role": "remedy",
        "summary": "forward_overflows in bfloat16, without a GradScaler",
    },
    "skips_at_first": {
        "role": "reported",
        "summary": "the first steps are skipped, and the scheduler steps on",
    },
    "step_if_scale_held": {
        "role": "remedy",
        "summary": "step the scheduler only if the scale did not fall",
    },
    "every_step_skipped": {
        "role": "reported",
        "summary": "a gradient is never finite: every step is skipped",
    },
    "forward_overflows": {"role": "reported", "summary": "inputs too large for float16"},
    "fused": {"role": "reported", "summary": "every_step_skipped with a fused AdamW"},
    "half_weights": {"role": "reported", "summary": "float16 weights and a GradScaler"},
    "trainer_fp16": {
        "role": "reported",
        "summary": "transformers.Trainer with fp16=True",
        "needs": ("torch>=2.3", "transformers", "accelerate"),
    },
    "accelerate_fp16": {
        "role": "reported",
        "summary": "accelerate with mixed_precision='fp16'",
        "needs": ("torch>=2.3", "accelerate"),
    },
    "lightning_16_mixed": {
        "role": "reported",
        "summary": "Lightning with precision='16-mixed'",
        "needs": ("torch>=2.3", "lightning"),
    },
}

# A power of two changes no digit of a gradient that is no subnormal.
AGREE = [
    ("float32", "scaled", {"rtol": 0.02}),
    ("float32", "bfloat16", {"rtol": 0.05}),
    ("scaled", "fused_scaled", {"rtol": 0.01}),
    ("scaled", "skips_at_first", {"rtol": 0.01}),
    ("scaled", "step_if_scale_held", {"rtol": 0.01}),
]

BFLOAT16 = ("bfloat16", "bfloat16_large_inputs")
NEVER_FINITE = ("every_step_skipped", "fused")
SKIPS = ("skips_at_first", "step_if_scale_held")
LIBRARIES = ("trainer_fp16", "accelerate_fp16", "lightning_16_mixed")
WARM_UP = 8
MOST = 64
"""A loop that makes no step ends after so many passes."""


def train(variant: str, device: str, steps: int) -> None:
    """Train until the optimizer has made `steps` steps, or for `MOST` passes."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to(
        device
    )
    x = torch.randn(32, 8).to(device)
    if variant in {"forward_overflows", "bfloat16_large_inputs"}:
        x *= 1e5
    y = torch.randn(32, 1).to(device)
    if variant in LIBRARIES:
        globals()[variant](model, x, y, device, steps)
    else:
        plain_loop(variant, model, x, y, steps)


def plain_loop(
    variant: str, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int
) -> None:
    """The loop of PyTorch's own examples, with a scheduler."""
    device = x.device.type
    if variant == "half_weights":
        model.half()
    fused = {"fused": True} if variant.startswith("fused") else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, **fused)
    scheduler = warm_up(optimizer)
    scaler = torch.amp.GradScaler(
        device,
        init_scale=2.0**40 if variant in SKIPS else 2.0**10,
        enabled=variant not in ("float32", *BFLOAT16),
    )
    half = torch.bfloat16 if variant in BFLOAT16 else torch.float16
    made = 0
    for _ in range(MOST + steps):
        if made == steps:
            break
        with torch.autocast(device, dtype=half, enabled=variant != "float32"):
            predicted = model(x)
        loss = torch.nn.functional.mse_loss(predicted.float(), y)
        if variant in NEVER_FINITE:  # the norm of a zero vector has a gradient of NaN
            loss = loss + (predicted - predicted.detach()).float().pow(2).sum().sqrt()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        before = scaler.get_scale()
        scaler.update()
        held = scaler.get_scale() >= before
        made += held
        if held or variant == "skips_at_first":
            scheduler.step()


def warm_up(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    """A linear warm-up that starts at 0."""
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / WARM_UP))


def trainer_fp16(
    model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, device: str, steps: int
) -> None:
    """Train with transformers.Trainer."""
    import transformers

    class Net(torch.nn.Module):
        """Return the loss, as the Trainer wants it."""

        def __init__(self) -> None:
            super().__init__()
            self.net = model

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": torch.nn.functional.mse_loss(self.net(x).float(), y)}

    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=len(x),
            fp16=True,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            **({"use_cpu": True} if device == "cpu" else {}),
        )
        rows = [{"x": a, "y": b} for a, b in zip(x.cpu(), y.cpu(), strict=True)] * steps
        transformers.Trainer(model=Net(), args=arguments, train_dataset=rows).train()


def accelerate_fp16(
    model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, device: str, steps: int
) -> None:
    """Train with accelerate."""
    import accelerate

    accelerator = accelerate.Accelerator(mixed_precision="fp16", cpu=device == "cpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, warm_up(optimizer))
    for _ in range(steps):
        loss = torch.nn.functional.mse_loss(model(x).float(), y)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        scheduler.step()


def lightning_16_mixed(
    model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, device: str, steps: int
) -> None:
    """Train with Lightning."""
    import lightning as L

    class Net(L.LightningModule):
        """Regression on one batch."""

        def __init__(self) -> None:
            super().__init__()
            self.net = model

        def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
            return torch.nn.functional.mse_loss(self.net(batch[0]).float(), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    batches = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x.cpu(), y.cpu()), batch_size=len(x)
    )
    L.Trainer(
        accelerator="gpu" if device == "cuda" else "cpu",
        devices=1,
        precision="16-mixed",
        max_epochs=steps,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(Net(), batches)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=16)
    train(**vars(parser.parse_args()))
