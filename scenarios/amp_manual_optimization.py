"""A pass without gradients inside autocast: the weight cache forgets the gradients.

Reported as Lightning issue 19810 (also 17949, 19517, 20251, 20644; PyTorch 112583, 158232): manual
optimisation in mixed precision; the module is called under `torch.no_grad()` and then again with
gradients, inside the same autocast context, and backward says "element 0 of tensors does not
require grad and does not have a grad_fn". Explained by autocast's cache of cast weights: the copy
made without gradients is handed out to the pass that needs them.

Lightning's precision plugin opens autocast around the whole `training_step`. In manual
optimisation the backward passes and the optimizer's steps are inside it too. The pass without
gradients is only observed here: it does not enter the loss, so all variants of one network and
precision do the same maths. The loss is in float32; bf16-mixed on CPU and on CUDA.

- `reported`, `automatic`, `torch_only`, `inference_mode`: who is to blame? Manual optimisation,
  Lightning, `no_grad`?
- `mixed_parameter`: one parameter is multiplied elementwise, which autocast does not cast. The
  loss keeps a grad_fn, so nothing is raised.
- `autocast_off`, `fresh_autocast`: the two remedies given in 19810. `cache_disabled`,
  `clear_cache`: two more. Lightning chose the first of these in PR 20921 and meant to take it back
  in PR 21616.
- `float16`: the reported set-up with the arithmetic that the report names, `16-mixed` and a
  GradScaler. Lightning itself does bfloat16 on a CPU, so the plugin is given to the Trainer.
  `float16_autocast_off` is remedy 1 there. `float16_fresh` is remedy 2 as it was printed: an inner
  `torch.autocast(dtype=torch.float16)` with backward inside of it.
- `cuda_autocast`: `torch_only` under `torch.cuda.amp.autocast`.
- `iterative`: the price of that choice, Lightning issue 21611: without a cache each of the 8 calls
  casts every weight again and keeps its own copy for backward. `iterative_cached` asks for the
  cache in an autocast of its own.
- `two_updates`: the other thing a cache forgets. Two optimizer steps in one `training_step` are in
  one autocast context: does the second update see the weights that the first one left?
  `two_updates_cached` asks for the cache as `iterative_cached` does. Both must agree with
  `two_updates_clear_cache`, or they are relation:disagrees.

What the measurement shows (CPU; PyTorch 2.0.1 to 2.15.0, Lightning 2.0.3 to 2.6.6):

- It is neither manual optimisation nor Lightning. `torch_only` fails up to PyTorch 2.10.0 and
  trains from 2.11.0 on (PyTorch PR 165068); `automatic` and `inference_mode` fail exactly where
  `reported` does.
- `reported` fails up to Lightning 2.5.2 (here with PyTorch 2.7.1 and older) and trains from 2.5.5
  on, also with PyTorch 2.8.0 and 2.10.0: its autocast has `cache_enabled=False` from 2.5.5 to
  2.6.6 (the source of 2.5.4 has not; issue 21611 names 2.6.0). The change of PR 21616 is not in
  2.6.6.
- Remedy 2, `fresh_autocast`, never helps. PyTorch drops the cache when the *outermost* autocast is
  left, and Lightning's is still open: the inner one finds the same poisoned copies. It trains only
  where `reported` does. `autocast_off`, `cache_disabled` and `clear_cache` work everywhere.
- In float16 with a GradScaler it is the same (Lightning 2.5.0 with PyTorch 2.6.0 fails, 2.6.1
  with 2.10.0 trains): `float16` fails where `reported` does, `float16_autocast_off` trains,
  and the printed form of remedy 2 fails like `fresh_autocast`.
- `cuda_autocast` on a CPU does nothing but warn "CUDA is not available": it trains in float32, and
  agrees with `full_precision`.
- Where `reported` fails, `mixed_parameter` runs to its end without a word and trains one parameter
  of seven (gradient:partial).
- Up to Lightning 2.5.2, `two_updates` disagrees: the second update of each pair sees the weights
  from before the first (its loss is the same to the last digit). PyTorch 2.11 did not change that:
  `two_updates_cached` disagrees on every stack, PyTorch 2.15.0 included.
- An inner autocast inherits `cache_enabled` from the outer one. In Lightning 2.5.5 and later a
  plain `torch.autocast(...)` gets no cache back; only `cache_enabled=True` does.
- `iterative` keeps 18.8 MB for backward without the cache (Lightning 2.5.5 and later), 3.3 MB with
  it. The two agree to 8e-5, not to the last digit: with a cache the 8 gradients of a weight are
  summed in bfloat16, without it in float32.
- The other pairs of AGREE are equal to the last digit wherever both train; manual and automatic
  optimisation too. bf16 against fp32 (`full_precision`): losses to 4e-5, gradient norms to 2e-4.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader

if TYPE_CHECKING:
    from collections.abc import Callable

NEEDS = ("torch>=2.0", "lightning>=2.0")

VARIANTS = {
    "full_precision": {"role": "control", "summary": "precision 32: no autocast"},
    "reported": {"role": "reported", "summary": "manual optimisation, no_grad pass first"},
    "automatic": {"role": "reported", "summary": "the same in automatic optimisation"},
    "torch_only": {"role": "reported", "summary": "the same without Lightning"},
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
    "clear_cache": {
        "role": "remedy",
        "summary": "call torch.clear_autocast_cache() between the two parts",
        "cures": ("autocast-cache",),
    },
    "autocast_off": {
        "role": "remedy",
        "summary": "run the part without gradients under torch.autocast(..., enabled=False)",
        "cures": ("autocast-cache",),
    },
    "cache_disabled": {
        "role": "remedy",
        "summary": "run the part with gradients under torch.autocast(..., cache_enabled=False)",
        "cures": ("autocast-cache",),
    },
    "fresh_autocast": {
        "role": "remedy",
        "summary": "run the part with gradients under an autocast of its own",
        "cures": ("autocast-cache",),
    },
    "float16": {
        "role": "reported",
        "summary": "as reported, in 16-mixed with a GradScaler",
        "needs": ("torch>=2.3", "lightning>=2.1"),
    },
    "float16_autocast_off": {
        "role": "remedy",
        "summary": "16-mixed: the part without gradients under torch.autocast(..., enabled=False)",
        "needs": ("torch>=2.3", "lightning>=2.1"),
        "cures": ("autocast-cache",),
    },
    "float16_fresh": {
        "role": "remedy",
        "summary": "16-mixed: the part with gradients and backward under an autocast of their own",
        "needs": ("torch>=2.3", "lightning>=2.1"),
        "cures": ("autocast-cache",),
    },
    "cuda_autocast": {
        "role": "reported",
        "summary": "torch_only under torch.cuda.amp.autocast",
    },
    "two_updates_clear_cache": {
        "role": "remedy",
        "summary": "call torch.clear_autocast_cache() before each of the two updates",
    },
    "iterative": {"role": "control", "summary": "the module is called 8 times a step"},
    "iterative_cached": {
        "role": "remedy",
        "summary": "call the module under torch.autocast(..., cache_enabled=True)",
    },
}

# rtol 0.004 is one rounding to bfloat16, 2 ** -8; what was measured is 2e-4 and less.
AGREE = [
    ("full_precision", "cache_disabled", {"rtol": 0.004}),
    ("iterative", "iterative_cached", {"rtol": 0.004}),
    ("cache_disabled", "autocast_off"),
    ("cache_disabled", "clear_cache"),
    ("cache_disabled", "reported"),
    ("cache_disabled", "automatic"),
    ("cache_disabled", "torch_only"),
    ("cache_disabled", "inference_mode"),
    ("cache_disabled", "fresh_autocast"),
    ("float16_autocast_off", "float16"),
    ("float16_autocast_off", "float16_fresh"),
    ("full_precision", "float16_autocast_off", {"rtol": 0.004}),
    ("full_precision", "cuda_autocast", {"rtol": 0.004}),
    ("two_updates_clear_cache", "two_updates"),
    ("two_updates_clear_cache", "two_updates_cached"),
]

FEATURES = 32
CALLS = 8  # of the module in one step of `iterative`

Batch = tuple[torch.Tensor, torch.Tensor]  # inputs and targets, each (32, FEATURES)


class Network(nn.Module):
    """Linear layers, whose weights and biases autocast casts and caches."""

    def __init__(self, width: int, *, scaled: bool = False) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(FEATURES, width),
            nn.Tanh(),
            nn.Linear(width, width),
            nn.Tanh(),
            nn.Linear(width, FEATURES),
        )
        # multiplied elementwise, which autocast leaves alone: this one is used as it is
        self.scale = nn.Parameter(torch.ones(FEATURES)) if scaled else None

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs = self.layers(inputs)
        return outputs if self.scale is None else outputs * self.scale


class Reported(L.LightningModule):
    """Lightning opens autocast around `training_step`: both passes are inside it."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.network = network
        self.error_before: torch.Tensor | None = None

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

    def training_step(self, batch: Batch, batch_idx: int) -> torch.Tensor | None:
        self.observe(batch)
        self.update(batch)
        return None

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Automatic(Reported):
    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self.automatic_optimization = True

    def training_step(self, batch: Batch, batch_idx: int) -> torch.Tensor | None:
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
    cache_enabled: bool | None = None  # as in the autocast around it

    def loss(self, batch: Batch) -> torch.Tensor:
        device, cache_enabled = self.device.type, self.cache_enabled
        with torch.autocast(device, dtype=torch.bfloat16, cache_enabled=cache_enabled):
            return self.error(batch)


class CacheDisabled(FreshAutocast):
    cache_enabled = False


class FreshFloat16(Reported):
    """The second remedy as it was printed."""

    def update(self, batch: Batch) -> None:
        optimizer = self.optimizers()
        optimizer.zero_grad()
        with torch.autocast(self.device.type, dtype=torch.float16):
            loss = self.error(batch)
            self.manual_backward(loss)
        optimizer.step()


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


class TwoUpdatesCached(TwoUpdates, FreshAutocast):
    cache_enabled = True


class TwoUpdatesClearCache(TwoUpdates, ClearCache):
    pass


class Iterative(Reported):
    """Every call refines the state that the one before it left, as an iterative decoder does."""

    def observe(self, batch: Batch) -> None:
        pass

    def error(self, batch: Batch) -> torch.Tensor:
        state, targets = batch
        for _ in range(CALLS):
            state = state + 0.1 * self.network(state).float()
        return nn.functional.mse_loss(state, targets)


class IterativeCached(Iterative, FreshAutocast):
    cache_enabled = True


MODULES = {
    "automatic": Automatic,
    "inference_mode": InferenceMode,
    "two_updates": TwoUpdates,
    "two_updates_cached": TwoUpdatesCached,
    "two_updates_clear_cache": TwoUpdatesClearCache,
    "autocast_off": AutocastOff,
    "fresh_autocast": FreshAutocast,
    "cache_disabled": CacheDisabled,
    "float16_autocast_off": AutocastOff,
    "float16_fresh": FreshFloat16,
    "clear_cache": ClearCache,
    "iterative": Iterative,
    "iterative_cached": IterativeCached,
}


def train_without_lightning(
    network: Network, batch: Batch, autocast: Callable[[], Any], steps: int
) -> None:
    """Train as `reported` does, in a plain loop."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    inputs, targets = batch
    for _ in range(steps):
        with autocast():
            with torch.no_grad():
                nn.functional.mse_loss(network(inputs).float(), targets)
            loss = nn.functional.mse_loss(network(inputs).float(), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def scaled(device: str) -> Any:
    """The plugin of 16-mixed, with a scale at which no step is skipped."""
    from lightning.pytorch.plugins.precision import MixedPrecision

    return MixedPrecision("16-mixed", device, torch.amp.GradScaler(device, init_scale=2.0**10))


def train(variant: str, device: str, steps: int) -> None:
    """Train the variant for `steps` optimizer steps."""
    torch.manual_seed(0)
    network = Network(
        width=1024 if variant.startswith("iterative") else 64,
        scaled=variant == "mixed_parameter",
    )
    batch = (torch.randn(32, FEATURES), torch.randn(32, FEATURES))
    if variant in {"torch_only", "cuda_autocast"}:
        autocast = partial(torch.autocast, device, dtype=torch.bfloat16)
        if variant == "cuda_autocast":
            autocast = partial(torch.cuda.amp.autocast, dtype=torch.bfloat16)
        batch = tuple(tensor.to(device) for tensor in batch)
        train_without_lightning(network.to(device), batch, autocast, steps)
        return
    if variant.startswith("float16"):
        precision = {"plugins": [scaled(device)]}
    else:
        precision = {"precision": "32-true" if variant == "full_precision" else "bf16-mixed"}
    trainer = L.Trainer(
        max_steps=steps,
        **precision,
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
