"""A pass without gradients inside autocast: the weight cache forgets the gradients.

DOCSTRING
"""

from __future__ import annotations

import argparse
from typing import Optional

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader

NEEDS = ("torch>=2.0", "lightning>=2.0")

VARIANTS = {
    "full_precision": {"role": "control", "summary": "precision 32: no autocast"},
    "reported": {"role": "reported", "summary": "manual optimisation, no_grad pass first"},
    "automatic": {"role": "reported", "summary": "the same in automatic optimisation"},
    "torch_only": {
        "role": "reported",
        "summary": "the same without Lightning",
        "needs": ("torch>=2.0",),
    },
    "mixed_parameter": {
        "role": "reported",
        "summary": "as reported, with one parameter that autocast does not cast",
    },
    "inference_mode": {"role": "reported", "summary": "inference_mode in place of no_grad"},
    "two_updates": {
        "role": "reported",
        "summary": "no no_grad pass, two updates per training_step",
    },
    "two_updates_cached": {
        "role": "reported",
        "summary": "two_updates, each under autocast(cache_enabled=True)",
    },
    "autocast_off": {
        "role": "remedy",
        "summary": "autocast switched off around the part without gradients",
    },
    "fresh_autocast": {
        "role": "remedy",
        "summary": "a fresh autocast around the part with gradients",
    },
    "cache_disabled": {
        "role": "remedy",
        "summary": "a fresh autocast(cache_enabled=False) around the part with gradients",
    },
    "clear_cache": {
        "role": "remedy",
        "summary": "torch.clear_autocast_cache() between the two parts",
    },
    "two_updates_clear_cache": {
        "role": "remedy",
        "summary": "two_updates with torch.clear_autocast_cache() before each",
    },
    "iterative": {"role": "control", "summary": "the module is called 8 times a step"},
    "iterative_cached": {
        "role": "remedy",
        "summary": "iterative under autocast(cache_enabled=True)",
    },
}

AGREE = [
    ("cache_disabled", "autocast_off"),
    ("cache_disabled", "clear_cache"),
    ("cache_disabled", "reported"),
    ("cache_disabled", "automatic"),
    ("cache_disabled", "torch_only"),
    ("cache_disabled", "inference_mode"),
    ("cache_disabled", "fresh_autocast"),
    ("two_updates_clear_cache", "two_updates"),
    ("two_updates_clear_cache", "two_updates_cached"),
]

FEATURES = 32
CALLS = 8  # of the module in one step of `iterative`

Batch = tuple[torch.Tensor, torch.Tensor]  # inputs and targets, each (32, FEATURES)


class Network(nn.Module):
    """Linear layers, whose weights and biases autocast casts and caches."""

    def __init__(self, width: int, scaled: bool = False) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(FEATURES, width),
            nn.Tanh(),
            nn.Linear(width, width),
            nn.Tanh(),
            nn.Linear(width, FEATURES),
        )
        # multiplied elementwise, which autocast leaves alone: this one is used as it is
        self.scale: Optional[nn.Parameter] = nn.Parameter(torch.ones(FEATURES)) if scaled else None

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs = self.layers(inputs)
        return outputs if self.scale is None else outputs * self.scale


class Reported(L.LightningModule):
    """Lightning opens autocast around `training_step`: both passes are inside it."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.network = network
        self.error_before: Optional[torch.Tensor] = None

    def error(self, batch: Batch) -> torch.Tensor:
        inputs, targets = batch
        return nn.functional.mse_loss(self.network(inputs).float(), targets)

    def observe(self, batch: Batch) -> None:
        """Do the part without gradients: it is looked at, and does not enter the loss."""
        with torch.no_grad():
            self.error_before = self.error(batch)

    def loss(self, batch: Batch) -> torch.Tensor:
        """Do the part with gradients."""
        return self.error(batch)

    def update(self, batch: Batch) -> None:
        optimizer = self.optimizers()
        loss = self.loss(batch)
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()

    def training_step(self, batch: Batch, batch_idx: int) -> Optional[torch.Tensor]:
        self.observe(batch)
        self.update(batch)
        return None

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Automatic(Reported):
    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self.automatic_optimization = True

    def training_step(self, batch: Batch, batch_idx: int) -> Optional[torch.Tensor]:
        self.observe(batch)
        return self.loss(batch)


class InferenceMode(Reported):
    def observe(self, batch: Batch) -> None:
        with torch.inference_mode():
            self.error_before = self.error(batch)


class AutocastOff(Reported):
    def observe(self, batch: Batch) -> None:
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            self.error_before = self.error(batch)


class FreshAutocast(Reported):
    def loss(self, batch: Batch) -> torch.Tensor:
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            return self.error(batch)


class CacheDisabled(Reported):
    def loss(self, batch: Batch) -> torch.Tensor:
        with torch.autocast(self.device.type, dtype=torch.bfloat16, cache_enabled=False):
            return self.error(batch)


class ClearCache(Reported):
    def loss(self, batch: Batch) -> torch.Tensor:
        torch.clear_autocast_cache()
        return self.error(batch)


class TwoUpdates(Reported):
    """Two updates of the network per batch, as for the two losses of a GAN."""

    def training_step(self, batch: Batch, batch_idx: int) -> None:
        for _ in range(2):
            if self.trainer.global_step < self.trainer.max_steps:
                self.update(batch)


class TwoUpdatesCached(TwoUpdates):
    def loss(self, batch: Batch) -> torch.Tensor:
        with torch.autocast(self.device.type, dtype=torch.bfloat16, cache_enabled=True):
            return self.error(batch)


class TwoUpdatesClearCache(TwoUpdates):
    def loss(self, batch: Batch) -> torch.Tensor:
        torch.clear_autocast_cache()
        return self.error(batch)


class Iterative(Reported):
    """Every call refines the state the one before it left, as in an iterative decoder."""

    def error(self, batch: Batch) -> torch.Tensor:
        state, targets = batch
        for _ in range(CALLS):
            state = state + 0.1 * self.network(state).float()
        return nn.functional.mse_loss(state, targets)

    def observe(self, batch: Batch) -> None:
        pass


class IterativeCached(Iterative):
    def loss(self, batch: Batch) -> torch.Tensor:
        with torch.autocast(self.device.type, dtype=torch.bfloat16, cache_enabled=True):
            return self.error(batch)


MODULES = {
    "automatic": Automatic,
    "inference_mode": InferenceMode,
    "two_updates": TwoUpdates,
    "two_updates_cached": TwoUpdatesCached,
    "two_updates_clear_cache": TwoUpdatesClearCache,
    "autocast_off": AutocastOff,
    "fresh_autocast": FreshAutocast,
    "cache_disabled": CacheDisabled,
    "clear_cache": ClearCache,
    "iterative": Iterative,
    "iterative_cached": IterativeCached,
}


def train_without_lightning(network: Network, batch: Batch, device: str, steps: int) -> None:
    """Train as `reported` does, in a plain loop."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    inputs, targets = batch
    for _ in range(steps):
        with torch.autocast(device, dtype=torch.bfloat16):
            with torch.no_grad():
                nn.functional.mse_loss(network(inputs).float(), targets)
            loss = nn.functional.mse_loss(network(inputs).float(), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def train(variant: str, device: str, steps: int) -> None:
    """Train the variant for `steps` optimizer steps."""
    torch.manual_seed(0)
    network = Network(
        width=1024 if variant.startswith("iterative") else 64,
        scaled=variant == "mixed_parameter",
    )
    batch = (torch.randn(32, FEATURES), torch.randn(32, FEATURES))
    if variant == "torch_only":
        batch = tuple(tensor.to(device) for tensor in batch)
        train_without_lightning(network.to(device), batch, device, steps)
        return
    trainer = L.Trainer(
        max_steps=steps,
        precision="32-true" if variant == "full_precision" else "bf16-mixed",
        accelerator="gpu" if device == "cuda" else "cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = MODULES.get(variant, Reported)(network)
    trainer.fit(module, DataLoader([batch] * steps, batch_size=None))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=16)
    train(**vars(parser.parse_args()))
