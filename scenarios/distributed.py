"""Two ranks on one machine: DistributedDataParallel, FSDP, accelerate and LoRA, on gloo.

accelerate issue 2017: parameters that the loss does not use, and "Expected to have finished
reduction in the prior iteration". accelerate issue 2665: a model does not learn under FSDP, and
nothing says so. PEFT issue 313: LoRA with checkpointing, and "Expected to mark a variable ready
only once". PEFT issue 899: `modules_to_save` leaves parameters unused. accelerate issue 3285 and
icefall issue 226: who calls `model.module` goes past the wrapper that averages gradients.

The script forks its second rank. Both begin with equal parameters and have data of their own.

- `unused*`, `find_unused` and `accelerate_*`: two heads take turns, so that each step leaves
  one unused and both should learn. With `never_used` one never learns, and nothing says so.
- `past_wrapper` and `kept_no_sync` average nothing; `prepared_by_hand`, `reduced_by_hand` and
  `averaged_by_hand` do it in other ways. `ddp` is the usual one.
- `checkpointed*` and `twice_*`: checkpointing of a layer that runs once, or twice in each step.
- `lora*` and `saved_head*`: a tiny Llama, checkpointed as `gradient_checkpointing_enable()` does it
  if the variant does not say how. `saved_head` has `modules_to_save=["lm_head"]`, whose original
  module is not used.
- `fsdp*` and `fully_shard*`: the optimizer is built after the model is sharded, or before it. With
  torch itself, not through accelerate.

What the measurement shows (CPU; PyTorch 2.0.1 to 2.15.0)

- Past the wrapper each rank trains a model of its own, without an error or a warning:
  update:ranks-differ, on every release. `prepare_for_backward` and reducing by hand give the same
  losses as the wrapper.
- Unused parameters stop the second step on every release. `find_unused_parameters=True` and adding
  the other head times 0 help; `static_graph=True` does not, because the graph changes.
- Checkpointing that is reentrant fails with `find_unused_parameters=True`, also where each layer
  runs once, and without it only where a layer runs twice. So LoRA fails as reported, but not with
  accelerate as it is. It trains without that argument, or non-reentrant, which is what
  `gradient_checkpointing_enable()` does in Transformers 5.23.0 and did not do in 4.57.6.
- `static_graph=True` helps, but not LoRA with PyTorch 2.0.1, Transformers 4.30.2 and PEFT 0.3.0.
  There nothing is raised, and the ranks drift apart: after 8 steps by up to 0.095, with weights up
  to 0.31, as an all_gather at the end shows too. With 2.2.2, 4.39.3 and 0.10.0 it trains.
- `modules_to_save` fails as reported with PEFT 0.3.0, and trains from 0.10.0 on.
- An optimizer that was built before FSDP updates nothing, without a word, unless
  `use_orig_params=True`. With `fully_shard` it is the same, and there is no such argument.
- FSDP needs a GPU in PyTorch 2.0.1, and so does `fully_shard` in 2.6.0: the record of a stream of
  the CPU is missing there. gloo's `destroy_process_group` can hang in 2.0.1; nobody needs to call
  it here.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import tempfile
import unittest
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import accelerate
import peft
import torch
import torch.distributed as dist
import transformers
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

NEEDS = ("torch", "accelerate", "peft", "transformers")

VARIANTS = {
    "ddp": {"role": "control", "summary": "DistributedDataParallel as its tutorial has it"},
    "unused": {
        "role": "reported",
        "summary": "two heads take turns, so that each step leaves one unused",
    },
    "find_unused": {
        "role": "remedy",
        "summary": "DistributedDataParallel with find_unused_parameters=True",
    },
    "unused_times_zero": {
        "role": "remedy",
        "summary": "add the other head's output times 0 to the loss",
    },
    "unused_static_graph": {
        "role": "remedy",
        "summary": "DistributedDataParallel with static_graph=True",
    },
    "never_used": {
        "role": "misuse",
        "summary": "a head that no loss ever uses, and find_unused_parameters=True",
    },
    "accelerate_unused": {
        "role": "reported",
        "summary": "the two heads with accelerate, as it is",
    },
    "accelerate_find_unused": {
        "role": "remedy",
        "summary": "accelerate with DistributedDataParallelKwargs(find_unused_parameters=True)",
    },
    "past_wrapper": {
        "role": "reported",
        "summary": "call model.module(x) in place of model(x)",
    },
    "kept_no_sync": {
        "role": "reported",
        "summary": "each step under no_sync()",
    },
    "prepared_by_hand": {
        "role": "remedy",
        "summary": "model.module(x), and model.reducer.prepare_for_backward([]) before backward",
    },
    "reduced_by_hand": {
        "role": "remedy",
        "summary": "model.module(x), and all_reduce the gradients before the step",
    },
    "averaged_by_hand": {
        "role": "control",
        "summary": "no wrapper: average the parameters after every third step",
    },
    "checkpointed": {
        "role": "control",
        "summary": "reentrant checkpointing, each layer once",
    },
    "checkpointed_non_reentrant": {
        "role": "reported",
        "summary": "non-reentrant checkpointing, each layer once",
    },
    "checkpointed_find_unused": {
        "role": "reported",
        "summary": "reentrant checkpointing and find_unused_parameters=True",
    },
    "checkpointed_twice": {
        "role": "reported",
        "summary": "reentrant checkpointing of a layer that runs twice",
    },
    "twice_non_reentrant": {
        "role": "remedy",
        "summary": "a layer that runs twice, use_reentrant=False",
    },
    "twice_static_graph": {
        "role": "remedy",
        "summary": "a layer that runs twice, DistributedDataParallel with static_graph=True",
    },
    "twice_set_static_graph": {
        "role": "remedy",
        "summary": "a layer that runs twice, call model._set_static_graph()",
    },
    "lora": {
        "role": "control",
        "summary": "LoRA without checkpointing",
    },
    "lora_checkpointing": {
        "role": "reported",
        "summary": "LoRA, gradient_checkpointing_enable() and find_unused_parameters=True",
    },
    "lora_no_find_unused": {
        "role": "remedy",
        "summary": "LoRA, gradient_checkpointing_enable() and find_unused_parameters=False",
    },
    "lora_static_graph": {
        "role": "remedy",
        "summary": "LoRA, gradient_checkpointing_enable() and static_graph=True",
    },
    "lora_reentrant": {
        "role": "reported",
        "summary": "lora_checkpointing with use_reentrant=True, said aloud",
        "needs": ("torch", "accelerate", "peft", "transformers>=4.35"),
    },
    "lora_non_reentrant": {
        "role": "remedy",
        "summary": "lora_checkpointing with use_reentrant=False",
        "needs": ("torch", "accelerate", "peft", "transformers>=4.35"),
    },
    "lora_accelerate": {
        "role": "reported",
        "summary": "LoRA and gradient_checkpointing_enable() with accelerate, as it is",
    },
    "saved_head": {
        "role": "reported",
        "summary": "LoRA with modules_to_save, gradient_checkpointing_enable()",
    },
    "saved_head_find_unused": {
        "role": "reported",
        "summary": "saved_head with find_unused_parameters=True",
    },
    "saved_head_static_graph": {
        "role": "remedy",
        "summary": "saved_head with static_graph=True",
    },
    "saved_head_non_reentrant": {
        "role": "remedy",
        "summary": "saved_head with find_unused_parameters=True and use_reentrant=False",
        "needs": ("torch", "accelerate", "peft", "transformers>=4.35"),
    },
    "fsdp": {
        "role": "control",
        "summary": "FSDP, and the optimizer built after it",
        "needs": ("torch>=2.1", "accelerate", "peft", "transformers"),
    },
    "fsdp_optimizer_first": {
        "role": "reported",
        "summary": "the optimizer built before FSDP wraps the model",
        "needs": ("torch>=2.1", "accelerate", "peft", "transformers"),
    },
    "fsdp_orig_params": {
        "role": "remedy",
        "summary": "fsdp_optimizer_first with use_orig_params=True",
        "needs": ("torch>=2.1", "accelerate", "peft", "transformers"),
    },
    "fully_shard": {
        "role": "control",
        "summary": "fully_shard (FSDP 2), and the optimizer built after it",
        "needs": ("torch>=2.7", "accelerate", "peft", "transformers"),
    },
    "fully_shard_optimizer_first": {
        "role": "reported",
        "summary": "the optimizer built before fully_shard",
        "needs": ("torch>=2.7", "accelerate", "peft", "transformers"),
    },
}

AGREE = [
    ("ddp", "prepared_by_hand"),
    ("ddp", "reduced_by_hand"),
    ("ddp", "checkpointed"),
    ("ddp", "checkpointed_non_reentrant"),
    ("twice_non_reentrant", "twice_static_graph"),
    ("find_unused", "unused_times_zero"),
    ("find_unused", "accelerate_find_unused"),
    ("lora", "lora_no_find_unused"),
    ("lora", "lora_non_reentrant"),
    ("lora", "lora_static_graph"),
    ("saved_head", "saved_head_non_reentrant"),
    ("saved_head", "saved_head_static_graph"),
    ("ddp", "fsdp", {"only": "first loss"}),
    ("fsdp", "fsdp_orig_params", {"only": "first loss"}),
    ("ddp", "fully_shard", {"only": "first loss"}),
]

RANKS = 2
EVERY = 3
"""Parameters that are averaged by hand are averaged after so many steps."""
PATIENCE_S = 30.0
"""How long the first rank waits for the second one to end."""
FIND_UNUSED = (
    "find_unused",
    "never_used",
    "checkpointed_find_unused",
    "lora_checkpointing",
    "lora_reentrant",
    "lora_non_reentrant",
    "saved_head_find_unused",
    "saved_head_non_reentrant",
)
STATIC_GRAPH = (
    "unused_static_graph",
    "twice_static_graph",
    "lora_static_graph",
    "saved_head_static_graph",
)


def train(variant: str, device: str, steps: int) -> None:
    """Run the first rank here and the second one in a fork of this process."""
    if device != "cpu":
        raise unittest.SkipTest("two ranks of gloo share a CPU; NCCL needs two GPUs")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        second = multiprocessing.get_context("fork").Process(
            target=lambda: run(variant, 1, store, steps), daemon=True
        )
        second.start()
        try:
            run(variant, 0, store, steps)
            second.join(PATIENCE_S)
        finally:
            second.kill()
            second.join()


def run(variant: str, rank: int, store: str, steps: int) -> None:
    """Train as one rank. Each rank has data of its own, and the same model at first."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    if variant.startswith(("lora", "saved_head")):
        adapters(variant, rank, steps)
    elif variant.startswith(("fsdp", "fully_shard")):
        sharded(variant, rank, steps)
    else:
        replicated(variant, rank, steps)


class Net(torch.nn.Module):
    """A perceptron. Its hidden layer may run twice, and heads may take turns."""

    def __init__(self, heads: int, times: int, layer: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.hidden = torch.nn.Linear(16, 16)
        self.heads = torch.nn.ModuleList(torch.nn.Linear(16, 1) for _ in range(heads))
        self.times = times
        self.layer = layer

    def forward(self, x: torch.Tensor, head: int = 0, other: int | None = None) -> torch.Tensor:
        x = torch.tanh(self.first(x))
        for _ in range(self.times):
            x = torch.tanh(self.layer(self.hidden, x))
        return self.heads[head](x) + (0 if other is None else 0 * self.heads[other](x))


def called(module: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Call a module, as ``checkpoint`` does."""
    return module(x)


def net(variant: str) -> Net:
    """The model of a variant."""
    layer: Callable[..., torch.Tensor] = called
    if variant.startswith(("checkpointed", "twice")):
        layer = partial(checkpoint, use_reentrant=not variant.endswith("non_reentrant"))
    heads = 2 if variant in HEADS or variant == "never_used" else 1
    return Net(heads, 2 if "twice" in variant else 1, layer)


HEADS = (
    "unused",
    "find_unused",
    "unused_times_zero",
    "unused_static_graph",
    "accelerate_unused",
    "accelerate_find_unused",
)
"""Variants in which two heads take turns."""
PAST_WRAPPER = ("past_wrapper", "prepared_by_hand", "reduced_by_hand")


def options(variant: str) -> dict[str, bool]:
    """What a variant gives to DistributedDataParallel."""
    if variant in FIND_UNUSED:
        return {"find_unused_parameters": True}
    if variant in STATIC_GRAPH:
        return {"static_graph": True}
    return {}


def data(rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The batch of this rank."""
    torch.manual_seed(1 + rank)
    return torch.randn(32, 8), torch.randn(32, 1)


def replicated(variant: str, rank: int, steps: int) -> None:
    """Train with DistributedDataParallel, by itself or by accelerate."""
    model: Any = net(variant)
    if variant.startswith("accelerate"):
        model, optimizer, backward = by_accelerate(variant, model)
    else:
        if variant != "averaged_by_hand":
            model = DistributedDataParallel(model, **options(variant))
        if variant == "twice_set_static_graph":
            model._set_static_graph()  # noqa: SLF001  (the error message says so)
        optimizer, backward = torch.optim.SGD(model.parameters(), lr=0.1), torch.Tensor.backward
    x, y = data(rank)
    forward = model.module if variant in PAST_WRAPPER else model
    for step in range(steps):
        optimizer.zero_grad()
        with model.no_sync() if variant == "kept_no_sync" else contextlib.nullcontext():
            head = step % 2 if variant in HEADS else 0
            predicted = forward(x, head, 1 - head if variant == "unused_times_zero" else None)
            if variant == "prepared_by_hand":
                model.reducer.prepare_for_backward([])
            backward(torch.nn.functional.mse_loss(predicted, y))
        if variant == "reduced_by_hand":
            average([parameter.grad for parameter in model.parameters()])
        optimizer.step()
        if variant == "averaged_by_hand" and step % EVERY == EVERY - 1:
            average([parameter.data for parameter in model.parameters()])


def average(tensors: list[torch.Tensor]) -> None:
    """Put the mean over the ranks in the place of each tensor."""
    for tensor in tensors:
        dist.all_reduce(tensor)
        tensor.div_(RANKS)


def by_accelerate(variant: str, model: torch.nn.Module) -> tuple[Any, Any, Any]:
    """The model and its optimizer, prepared, and the function that calls backward."""
    handlers = []
    if variant == "accelerate_find_unused":
        handlers = [accelerate.DistributedDataParallelKwargs(find_unused_parameters=True)]
    accelerator = an_accelerator(handlers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return *accelerator.prepare(model, optimizer), accelerator.backward


def an_accelerator(handlers: list[Any]) -> accelerate.Accelerator:
    """An Accelerator of ranks with one thread. With 0.29.3 each would take the whole machine."""
    made = accelerate.Accelerator(cpu=True, kwargs_handlers=handlers)
    torch.set_num_threads(1)
    return made


def adapters(variant: str, rank: int, steps: int) -> None:
    """Train LoRA on a tiny Llama."""
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=64,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            use_cache=False,
        )
    )
    if variant != "lora":
        kwargs: dict[str, Any] = {}
        if variant == "lora_reentrant":
            kwargs = {"gradient_checkpointing_kwargs": {"use_reentrant": True}}
        elif variant.endswith("non_reentrant"):
            kwargs = {"gradient_checkpointing_kwargs": {"use_reentrant": False}}
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable(**kwargs)
    config = peft.LoraConfig(
        task_type="CAUSAL_LM",
        r=4,
        lora_alpha=8,
        lora_dropout=0.0,
        target_modules=["q_proj", "v_proj"],
        modules_to_save=["lm_head"] if variant.startswith("saved_head") else None,
    )
    model = peft.get_peft_model(model, config)
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2)
    backward = torch.Tensor.backward
    if variant == "lora_accelerate":
        accelerator = an_accelerator([])
        model, optimizer = accelerator.prepare(model, optimizer)
        backward = accelerator.backward
    else:
        model = DistributedDataParallel(model, **options(variant))
    model.train()
    torch.manual_seed(1 + rank)
    tokens = torch.randint(0, 64, (4, 12))
    for _ in range(steps):
        optimizer.zero_grad()
        backward(model(input_ids=tokens, labels=tokens).loss)
        optimizer.step()


def sharded(variant: str, rank: int, steps: int) -> None:
    """Train with FSDP."""
    model: Any = net(variant)
    first = variant.endswith(("optimizer_first", "orig_params"))
    if first:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if variant.startswith("fully_shard"):
        from torch.distributed.device_mesh import init_device_mesh  # older releases lack it
        from torch.distributed.fsdp import fully_shard

        fully_shard(model, mesh=init_device_mesh("cpu", (RANKS,)))
    else:
        from torch.distributed.fsdp import FullyShardedDataParallel

        model = FullyShardedDataParallel(
            model,
            device_id=torch.device("cpu"),
            use_orig_params=variant == "fsdp_orig_params",
        )
    if not first:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = data(rank)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=16)
    train(**vars(parser.parse_args()))
