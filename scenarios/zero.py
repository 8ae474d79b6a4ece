"""DeepSpeed's ZeRO, stages 0 to 3, beside DistributedDataParallel (DDP).

Qwen-VL-Finetune issue 10 and DeepSpeed issue 5347: with ZeRO 2 the gradient norm is NaN and the
loss 0; the answers are `overlap_comm=False`, larger buckets, or ZeRO 3. TRL issue 3150: "element 0
of tensors does not require grad" for a LoRA model with checkpointing, under DeepSpeed.
Transformers issue 47254: a LoRA model with checkpointing under ZeRO 3 ends in CheckpointError;
the answers are `use_reentrant=True` and ZeRO 2. DeepSpeed issue 7718: wrong gradients of ZeRO 2
since 0.17.6.

A tiny Qwen2 in float32 with torch's AdamW, on a CPU with gloo, in one process; `_two_ranks` in two.

- `ddp` has no DeepSpeed; `zero_0` to `zero_3` must have its losses and gradient norms.
- `_accumulation` and `_boundaries`: two batches make a step. Either the engine counts them, by
  `gradient_accumulation_steps=2`, or the script does: `_own_accumulation` calls `engine.backward`
  twice before `engine.step`, and `zero_2_boundaries` also tells the engine which is the last.
- `zero_2_overlap`: gradients are reduced in small buckets while backward goes on.
- `lora_*`: a frozen model with LoRA. It must have the losses and norms of DDP without
  checkpointing. `_reentrant` and `_non_reentrant` are the two kinds of checkpointing, and
  `_input_grads` is the first one after `enable_input_require_grads()`.
- `_persistent`: small parameters keep their values, as is the default. In all other variants ZeRO 3
  takes away the values of every parameter, as it does with the large ones of a real model.

What the measurement shows (DeepSpeed 0.16.5, 0.19.2 and 0.19.8, with torch 2.6.0, 2.11.0 and
2.13.0, Transformers 4.50.3, 5.13.0 and 5.23.0)

- Every stage trains as DDP does, to the same digits, on one rank and on two.
- DeepSpeed is not the cause of TRL 3150: with Transformers 4.50.3 all stages fail, and DDP too, for
  want of an input that requires a gradient. With Transformers 5 all of them train, for it lets the
  embeddings' output require one. Both remedies work in every stage.
- The CheckpointError of ZeRO 3 is real with 0.16.5 and 0.19.2, with one process already, and with
  persistent parameters too. Full fine-tuning has none. With 0.19.8 the same trains, and agrees.
  `use_reentrant=True` alone is no remedy with Transformers 4.50.3: it ends in the error of TRL
  3150. Together with `enable_input_require_grads()` it is one.
- A script that counts the batches of a step itself trains as DDP does with ZeRO 2 of 0.16.5. With
  0.19.2 and 0.19.8 all gradients but those of the last batch are lost, without a word: the
  losses disagree. ZeRO 3 keeps them, and so does ZeRO 2 that is told the boundaries.
- ZeRO 2 with `overlap_comm=True` trains. A CPU has one queue of work, in which nothing overlaps, so
  the NaN of the first two reports is not to be had here.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import unittest
from typing import Any

# Read when DeepSpeed is imported: nothing is compiled, and it is not to look for a GPU.
os.environ.update(DS_ACCELERATOR="cpu", DS_BUILD_OPS="0")

import deepspeed
import torch
from peft import LoraConfig, get_peft_model
from torch import distributed
from transformers import Qwen2Config, Qwen2ForCausalLM

NEEDS = ("deepspeed>=0.16", "peft", "transformers")

VARIANTS = {
    "ddp": {"role": "control", "summary": "DistributedDataParallel without DeepSpeed"},
    "zero_0": {"role": "control", "summary": "DeepSpeed, stage 0"},
    "zero_1": {"role": "control", "summary": "DeepSpeed, stage 1"},
    "zero_2": {"role": "control", "summary": "DeepSpeed, stage 2"},
    "zero_3": {"role": "control", "summary": "DeepSpeed, stage 3, nothing persistent"},
    "zero_3_non_reentrant": {
        "role": "control",
        "summary": "stage 3, checkpointing with use_reentrant=False",
    },
    "ddp_two_ranks": {"role": "control", "summary": "ddp on two processes"},
    "zero_2_two_ranks": {"role": "control", "summary": "zero_2 on two processes"},
    "zero_3_two_ranks": {"role": "control", "summary": "zero_3 on two processes"},
    "ddp_accumulation": {"role": "control", "summary": "ddp, two batches a step"},
    "zero_2_accumulation": {
        "role": "remedy",
        "summary": "stage 2, two batches a step by gradient_accumulation_steps=2",
    },
    "zero_2_own_accumulation": {
        "role": "reported",
        "summary": "stage 2, two calls of backward before one of step",
    },
    "zero_3_own_accumulation": {
        "role": "reported",
        "summary": "stage 3, two calls of backward before one of step",
    },
    "zero_2_boundaries": {
        "role": "remedy",
        "summary": "zero_2_own_accumulation with set_gradient_accumulation_boundary",
    },
    "zero_2_overlap": {
        "role": "reported",
        "summary": "stage 2, overlap_comm=True and buckets of 500 elements",
    },
    "zero_2_no_overlap": {
        "role": "remedy",
        "summary": "the same with overlap_comm=False",
    },
    "zero_2_large_buckets": {
        "role": "remedy",
        "summary": "overlap_comm=True with buckets of the default size",
    },
    "lora_ddp_no_checkpointing": {"role": "control", "summary": "LoRA, DDP, no checkpointing"},
    "lora_ddp_reentrant": {"role": "reported", "summary": "LoRA, DDP, use_reentrant=True"},
    "lora_zero_0_reentrant": {"role": "reported", "summary": "LoRA, stage 0, use_reentrant=True"},
    "lora_zero_1_reentrant": {"role": "reported", "summary": "LoRA, stage 1, use_reentrant=True"},
    "lora_zero_2_reentrant": {"role": "reported", "summary": "LoRA, stage 2, use_reentrant=True"},
    "lora_zero_3_reentrant": {"role": "reported", "summary": "LoRA, stage 3, use_reentrant=True"},
    "lora_ddp_input_grads": {
        "role": "remedy",
        "summary": "LoRA, DDP, use_reentrant=True, enable_input_require_grads()",
    },
    "lora_zero_0_input_grads": {
        "role": "remedy",
        "summary": "LoRA, stage 0, use_reentrant=True, enable_input_require_grads()",
    },
    "lora_zero_1_input_grads": {
        "role": "remedy",
        "summary": "LoRA, stage 1, use_reentrant=True, enable_input_require_grads()",
    },
    "lora_zero_2_input_grads": {
        "role": "remedy",
        "summary": "LoRA, stage 2, use_reentrant=True, enable_input_require_grads()",
    },
    "lora_zero_3_input_grads": {
        "role": "remedy",
        "summary": "LoRA, stage 3, use_reentrant=True, enable_input_require_grads()",
        "cures": ("checkpoint-inputs",),
    },
    "lora_zero_3_no_checkpointing": {
        "role": "remedy",
        "summary": "LoRA, stage 3, no checkpointing",
        "cures": ("checkpoint-inputs",),
    },
    "lora_ddp_non_reentrant": {
        "role": "remedy",
        "summary": "LoRA, DDP, use_reentrant=False",
    },
    "lora_zero_2_non_reentrant": {
        "role": "remedy",
        "summary": "LoRA, stage 2, use_reentrant=False",
        "cures": ("checkpoint-inputs",),
    },
    "lora_zero_3_non_reentrant": {
        "role": "reported",
        "summary": "LoRA, stage 3, use_reentrant=False",
    },
    "lora_zero_3_non_reentrant_persistent": {
        "role": "reported",
        "summary": "the same, small parameters persistent, as is the default",
    },
}

# On two ranks a gradient norm is that of DDP's mean, or that of the part which this rank holds.
AGREE = [
    ("ddp", "zero_0"),
    ("ddp", "zero_1"),
    ("ddp", "zero_2"),
    ("ddp", "zero_3"),
    ("ddp", "zero_3_non_reentrant"),
    ("ddp", "zero_2_overlap"),
    ("ddp", "zero_2_no_overlap"),
    ("ddp", "zero_2_large_buckets"),
    ("ddp_two_ranks", "zero_2_two_ranks", {"only": "losses"}),
    ("ddp_two_ranks", "zero_3_two_ranks", {"only": "losses"}),
    ("ddp_accumulation", "zero_2_accumulation"),
    ("ddp_accumulation", "zero_2_own_accumulation"),
    ("ddp_accumulation", "zero_3_own_accumulation"),
    ("ddp_accumulation", "zero_2_boundaries"),
    ("lora_ddp_no_checkpointing", "lora_zero_3_no_checkpointing"),
    ("lora_ddp_no_checkpointing", "lora_ddp_reentrant"),
    ("lora_ddp_no_checkpointing", "lora_zero_0_reentrant"),
    ("lora_ddp_no_checkpointing", "lora_zero_1_reentrant"),
    ("lora_ddp_no_checkpointing", "lora_zero_2_reentrant"),
    ("lora_ddp_no_checkpointing", "lora_zero_3_reentrant"),
    ("lora_ddp_no_checkpointing", "lora_ddp_input_grads"),
    ("lora_ddp_no_checkpointing", "lora_zero_0_input_grads"),
    ("lora_ddp_no_checkpointing", "lora_zero_1_input_grads"),
    ("lora_ddp_no_checkpointing", "lora_zero_2_input_grads"),
    ("lora_ddp_no_checkpointing", "lora_zero_3_input_grads"),
    ("lora_ddp_no_checkpointing", "lora_ddp_non_reentrant"),
    ("lora_ddp_no_checkpointing", "lora_zero_2_non_reentrant"),
    ("lora_ddp_no_checkpointing", "lora_zero_3_non_reentrant"),
    ("lora_ddp_no_checkpointing", "lora_zero_3_non_reentrant_persistent"),
]

ACCUMULATED = ("accumulation", "boundaries")
OWN = ("own_accumulation", "boundaries")
VOCABULARY, ROWS, LENGTH = 64, 4, 16


def train(variant: str, device: str, steps: int) -> None:
    """Train in this process, and in a second one if the variant says so."""
    if device != "cpu":
        raise unittest.SkipTest("this script asks DeepSpeed for a CPU")
    ranks = 2 if variant.endswith("two_ranks") else 1
    with tempfile.TemporaryDirectory() as folder:
        if ranks > 1 and os.fork() == 0:
            try:
                work(variant, 1, ranks, folder, steps)
            finally:
                os._exit(0)
        work(variant, 0, ranks, folder, steps)
        if ranks > 1:
            os.wait()


def work(variant: str, rank: int, ranks: int, folder: str, steps: int) -> None:
    """What each process does; DeepSpeed's launcher sets these variables."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks))
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks
    )
    accumulated = 2 if variant.endswith(ACCUMULATED) else 1
    model = make_model(variant)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    batches = make_batches(rank, accumulated)
    if "ddp" in variant:
        train_with_ddp(model, optimizer, batches, steps)
    else:
        config = make_config(variant, 1 if variant.endswith(OWN) else accumulated)
        boundaries = variant.endswith("boundaries")
        train_with_deepspeed(model, optimizer, batches, steps, config, boundaries=boundaries)
    distributed.destroy_process_group()


def train_with_ddp(
    model: Any, optimizer: torch.optim.Optimizer, batches: list[torch.Tensor], steps: int
) -> None:
    """The loop of PyTorch's documentation."""
    model = torch.nn.parallel.DistributedDataParallel(model)
    for _ in range(steps):
        optimizer.zero_grad()
        for tokens in batches:
            loss = model(input_ids=tokens, labels=tokens).loss / len(batches)
            loss.backward()
        optimizer.step()


def train_with_deepspeed(
    model: Any,
    optimizer: torch.optim.Optimizer,
    batches: list[torch.Tensor],
    steps: int,
    config: dict[str, Any],
    *,
    boundaries: bool,
) -> None:
    """The loop of DeepSpeed's documentation: the engine counts the batches of a step.

    Or a script counts them itself, and may tell the engine which is the last one.
    """
    # Else this operation is compiled here, if it was not built when DeepSpeed was installed.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    own = config["gradient_accumulation_steps"] < len(batches)
    for _ in range(steps):
        for number, tokens in enumerate(batches, start=1):
            if boundaries:
                engine.set_gradient_accumulation_boundary(number == len(batches))
            loss = engine(input_ids=tokens, labels=tokens).loss
            engine.backward(loss / len(batches) if own else loss)
            if number == len(batches) or not own:
                engine.step()


def make_model(variant: str) -> Any:
    """A two-layer Qwen2, with LoRA and checkpointing if the variant says so."""
    torch.manual_seed(0)
    model: Any = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=VOCABULARY,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            tie_word_embeddings=False,
            use_cache=False,
        )
    )
    if variant.endswith("input_grads"):
        model.enable_input_require_grads()
    if variant.startswith("lora"):
        model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    if "reentrant" in variant or variant.endswith("input_grads"):
        model.gradient_checkpointing_enable({"use_reentrant": "non_reentrant" not in variant})
    return model.train()


def make_batches(rank: int, number: int) -> list[torch.Tensor]:
    """Token ids; each rank has its own."""
    generator = torch.Generator().manual_seed(rank)
    return [
        torch.randint(0, VOCABULARY, (ROWS, LENGTH), generator=generator) for _ in range(number)
    ]


def make_config(variant: str, accumulated: int) -> dict[str, Any]:
    """DeepSpeed's configuration, with the optimizer of torch in place of its own compiled one."""
    stage = 3 if "zero_3" in variant else 2 if "zero_2" in variant else int("zero_1" in variant)
    zero: dict[str, Any] = {"stage": stage}
    if not variant.endswith("persistent"):
        zero["stage3_param_persistence_threshold"] = 0
    if variant.endswith(("overlap", "large_buckets")):
        zero["overlap_comm"] = not variant.endswith("no_overlap")
    if variant.endswith("overlap"):
        zero["reduce_bucket_size"] = 500
    return {
        "train_micro_batch_size_per_gpu": ROWS,
        "gradient_accumulation_steps": accumulated,
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=16)
    train(**vars(parser.parse_args()))
