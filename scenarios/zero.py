"""DeepSpeed ZeRO, stages 0 to 3, beside DistributedDataParallel."""

from __future__ import annotations

import argparse
import os
import tempfile
from typing import Any

os.environ["DS_ACCELERATOR"] = "cpu"  # read when deepspeed is imported
os.environ["DS_BUILD_OPS"] = "0"

import deepspeed
import torch
import torch.distributed as dist
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM

NEEDS = ("deepspeed", "peft", "transformers")

VARIANTS = {
    "ddp": {"role": "control", "summary": "full fine-tune, DistributedDataParallel"},
    "zero_0": {"role": "control", "summary": "full fine-tune, ZeRO 0"},
    "zero_1": {"role": "control", "summary": "full fine-tune, ZeRO 1"},
    "zero_2": {"role": "control", "summary": "full fine-tune, ZeRO 2"},
    "zero_3": {"role": "control", "summary": "full fine-tune, ZeRO 3"},
    "zero_2_overlap": {"role": "reported", "summary": "ZeRO 2, overlap_comm=True"},
    "zero_2_no_overlap": {"role": "remedy", "summary": "ZeRO 2, overlap_comm=False"},
    "zero_2_two_ranks": {"role": "control", "summary": "zero_2 on two processes"},
    "zero_3_two_ranks": {"role": "control", "summary": "zero_3 on two processes"},
    "lora_ddp": {"role": "control", "summary": "LoRA, no checkpointing"},
    "lora_3": {"role": "remedy", "summary": "LoRA, no checkpointing"},
    "lora_ddp_reentrant": {"role": "reported", "summary": "r"},
    "lora_0_reentrant": {"role": "reported", "summary": "r"},
    "lora_1_reentrant": {"role": "reported", "summary": "r"},
    "lora_2_reentrant": {"role": "reported", "summary": "r"},
    "lora_3_reentrant": {"role": "reported", "summary": "r"},
    "lora_ddp_input_grads": {"role": "remedy", "summary": "r"},
    "lora_0_input_grads": {"role": "remedy", "summary": "r"},
    "lora_1_input_grads": {"role": "remedy", "summary": "r"},
    "lora_2_input_grads": {"role": "remedy", "summary": "r"},
    "lora_3_input_grads": {"role": "remedy", "summary": "r"},
    "lora_ddp_non_reentrant": {"role": "control", "summary": "r"},
    "lora_2_non_reentrant": {"role": "remedy", "summary": "r"},
    "lora_3_non_reentrant": {"role": "reported", "summary": "r"},
    "lora_3_non_reentrant_persistent": {"role": "reported", "summary": "r"},
}
RANKS = 2


def train(variant: str, device: str, steps: int) -> None:
    """Train what the variant names."""
    ranks = RANKS if variant.endswith("two_ranks") else 1
    with tempfile.TemporaryDirectory() as folder:
        children = [rank for rank in range(1, ranks)]
        rank = 0
        for each in children:
            if os.fork() == 0:
                rank = each
                break
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK="0")
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks
        )
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        deepspeed.init_distributed("gloo", auto_mpi_discovery=False)
        loop(variant, rank, steps)
        dist.barrier()
        dist.destroy_process_group()
        if rank:
            os._exit(0)


def loop(variant: str, rank: int, steps: int) -> None:
    torch.manual_seed(0)
    model = make_model(variant)
    tokens = torch.randint(0, 64, (4, 16), generator=torch.Generator().manual_seed(rank))
    learning = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=1e-2)
    if "ddp" in variant:
        engine = torch.nn.parallel.DistributedDataParallel(model)
    else:
        engine, *_ = deepspeed.initialize(
            model=model, optimizer=optimizer, config=make_config(variant)
        )
    for _ in range(steps):
        loss = engine(input_ids=tokens, labels=tokens).loss
        if "ddp" in variant:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        else:
            engine.backward(loss)
            engine.step()


def make_model(variant: str) -> Any:
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=64,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            tie_word_embeddings=False,
            use_cache=False,
        )
    )
    if variant.startswith("lora"):
        if "input_grads" in variant:
            model.enable_input_require_grads()
        model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    if "entrant" in variant or "input_grads" in variant:
        model.gradient_checkpointing_enable({"use_reentrant": "non_reentrant" not in variant})
    return model.train()


def make_config(variant: str) -> dict[str, Any]:
    stage = int(variant.split("_")[1])
    zero = {"stage": stage}
    if stage == 3 and "persistent" not in variant:
        zero["stage3_param_persistence_threshold"] = 0
    if "overlap" in variant:
        zero["overlap_comm"] = "no" not in variant
    return {
        "train_micro_batch_size_per_gpu": 4,
        "zero_optimization": zero,
        "zero_force_ds_cpu_optimizer": False,
        "zero_allow_untested_optimizer": True,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=16)
    train(**vars(parser.parse_args()))
