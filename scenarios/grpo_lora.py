"""GRPO on a LoRA model with gradient checkpointing.

TRL issue 3150 (2025-03): GRPOTrainer on a Qwen2-0.5B-Instruct in bf16 that get_peft_model wrapped
before the trainer saw it, gradient checkpointing: "element 0 of tensors does not require grad and
does not have a grad_fn". The remedies given were `model.enable_input_require_grads()` before
get_peft_model and `gradient_checkpointing=False`. Related: issues 2671 and 3089, PRs 2848, 4577,
4723 (TRL lets the inputs require gradients) and 4811 (non-reentrant by default).

The weights are fp32 but for `bfloat16`. `reported` leaves the kind of checkpointing to the release,
the others name it. `input_grads` is reentrant: a remedy is worth the name where the illness is.
`peft_config` stands for the way TRL's documentation prefers. `full_reentrant` follows issue 2671,
which says that the adapter is not to blame. In `constant_reward` all advantages are zero.
`batch_16` has the batch and the generations of the report. `loss_checked` and
`constant_reward_checked` print `loss.requires_grad` after each forward, as people are told to do.
`batch_16`, `bfloat16` and `peft_config` are compared with no other variant.

What the measurement shows
- TRL 0.15.2 fails as reported, in fp32 and bf16 and also with `peft_config=`; both remedies work,
  and so does `use_reentrant=False`. `full_reentrant` trains, though with the warning of issue
  2671, "None of the inputs have requires_grad=True": without an adapter it is a false alarm.
  From 0.16.0 on TRL itself lets the inputs require gradients where checkpointing is reentrant.
- TRL 0.23.0 and 0.23.1 fail where the older ones worked, in `non_reentrant`: the trainer switches
  checkpointing off to generate and on again without the kwargs, which with transformers 4.56 means
  reentrant; only for a reentrant request had it let the inputs require gradients. TRL 0.27.2
  trains.
- With TRL 0.19.1 and transformers 4.53.2 every variant with checkpointing trains on completions
  that are not the model's, and disagrees with the same one without it: in training mode the
  checkpointed layers drop the KV cache while `generate` goes on to feed one token at a time, so
  each new token sees only the one before it. TRL 0.15.2 and 0.16.0 (transformers 4.49, 4.50)
  generate without a cache; from 0.23.0 on checkpointing is off while generating (see issue 3683).
- `constant_reward` is silent in every release from 0.15.2 to 1.16: no exception, no warning, all
  gradients exactly zero, with `beta` 0.04, the default of 0.15 and 0.16, too: the KL term has no
  gradient as long as the model is its own reference. (For who logs them, later releases have a
  metric that tells: `frac_reward_zero_std`.) `loss.requires_grad` is True there; it is False only
  where backward stops with the error anyway.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

NEEDS = ("torch", "transformers", "peft", "datasets", "trl>=0.14")

VARIANTS = {
    "full": {"role": "control", "summary": "no LoRA, no checkpointing"},
    "full_reentrant": {
        "role": "reported",
        "summary": "no LoRA, use_reentrant=True (issue 2671: the adapter is not to blame)",
    },
    "reported": {
        "role": "reported",
        "summary": "a wrapped LoRA model, gradient_checkpointing=True, no kwargs",
    },
    "reentrant": {"role": "reported", "summary": "the same with use_reentrant=True"},
    "non_reentrant": {
        "role": "reported",
        "summary": "a wrapped LoRA model, checkpointing with use_reentrant=False",
        "cures": ("checkpoint-inputs",),
    },
    "peft_config": {
        "role": "reported",
        "summary": "reentrant, the adapter given to the trainer as peft_config=",
    },
    "bfloat16": {"role": "reported", "summary": "reentrant with bf16 weights and bf16=True"},
    "batch_16": {
        "role": "reported",
        "summary": "reported with a batch of 16 and 8 generations",
    },
    "loss_checked": {
        "role": "reported",
        "summary": "reported, printing loss.requires_grad after each forward",
    },
    "input_grads": {
        "role": "remedy",
        "summary": "call model.enable_input_require_grads() before get_peft_model",
        "cures": ("checkpoint-inputs",),
    },
    "no_checkpointing": {
        "role": "remedy",
        "summary": "set gradient_checkpointing=False",
        "cures": ("checkpoint-inputs",),
    },
    "constant_reward": {
        "role": "misuse",
        "summary": "full, every completion gets the same reward",
    },
    "constant_reward_checked": {
        "role": "misuse",
        "summary": "constant_reward, printing loss.requires_grad after each forward",
    },
}

# Not `peft_config`: TRL 1.16 seeds anew before it makes the adapter, whose weights are then others.
AGREE = [
    ("full", "full_reentrant"),
    ("no_checkpointing", "reported"),
    ("no_checkpointing", "loss_checked"),
    ("no_checkpointing", "reentrant"),
    ("no_checkpointing", "non_reentrant"),
    ("no_checkpointing", "input_grads"),
]

WORDS = 60
SPECIAL_TOKENS = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
GENERATIONS = 4  # completions of one prompt: the group within which rewards are compared

CONSTANT_REWARD = ("constant_reward", "constant_reward_checked")
FULL = ("full", "full_reentrant", *CONSTANT_REWARD)
CHECKPOINTING_KWARGS = {
    "reported": None,  # the release decides
    "batch_16": None,
    "loss_checked": None,
    "full_reentrant": {"use_reentrant": True},
    "non_reentrant": {"use_reentrant": False},
    "reentrant": {"use_reentrant": True},
    "peft_config": {"use_reentrant": True},
    "bfloat16": {"use_reentrant": True},
    "input_grads": {"use_reentrant": True},
}


class LossChecked(GRPOTrainer):
    """Says after each forward whether the loss has a graph."""

    def compute_loss(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Return the loss as it is."""
        loss = super().compute_loss(*args, **kwargs)
        warnings.warn(f"after the forward: loss.requires_grad: {loss.requires_grad}", stacklevel=1)
        return loss


def train(variant: str, device: str, steps: int) -> None:
    """Train for `steps` optimizer steps, each on fresh completions of one prompt."""
    torch.manual_seed(0)
    tokenizer = build_tokenizer()
    lora = LoraConfig(
        task_type="CAUSAL_LM",
        r=4,
        lora_alpha=8,
        lora_dropout=0.0,
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
    )
    model = build_model(tokenizer)
    if variant == "bfloat16":
        model.to(torch.bfloat16)
    if variant == "input_grads":
        model.enable_input_require_grads()
    if variant not in (*FULL, "peft_config"):
        model = get_peft_model(model, lora)
    prompts = [" ".join(f"w{(start + i) % WORDS}" for i in range(4)) for start in range(8)]
    with tempfile.TemporaryDirectory() as output_dir:
        kind = LossChecked if variant.endswith("_checked") else GRPOTrainer
        trainer = kind(
            model=model,
            reward_funcs=constant if variant in CONSTANT_REWARD else mean_word,
            args=build_config(variant, device, steps, output_dir),
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            processing_class=tokenizer,
            peft_config=lora if variant == "peft_config" else None,
        )
        trainer.train()


def build_config(variant: str, device: str, steps: int, output_dir: str) -> GRPOConfig:
    """Set what decides the outcome; TRL's defaults for checkpointing and bf16 became True."""
    batch, generations = (16, 8) if variant == "batch_16" else (GENERATIONS, GENERATIONS)
    settings = {
        "output_dir": output_dir,
        "max_steps": steps,
        "per_device_train_batch_size": batch,
        "num_generations": generations,
        "gradient_accumulation_steps": 1,
        "max_completion_length": 8,
        "learning_rate": 1e-3,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,  # no clipping: clipped gradients of two variants always agree
        "gradient_checkpointing": variant in CHECKPOINTING_KWARGS,
        "bf16": variant == "bfloat16",
        "seed": 0,
        "report_to": [],
        "logging_strategy": "no",
        "save_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": device == "cpu",
    }
    if CHECKPOINTING_KWARGS.get(variant):
        settings["gradient_checkpointing_kwargs"] = dict(CHECKPOINTING_KWARGS[variant])
    return GRPOConfig(**settings)


def build_model(tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    """Build a two-layer Qwen2."""
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=False,
        initializer_range=0.2,  # completions then depend on what stands before them
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen2ForCausalLM(config)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer of the words w0, w1, ... and the special tokens a trainer asks for."""
    vocabulary = [*SPECIAL_TOKENS.values(), *(f"w{i}" for i in range(WORDS))]
    word_level = models.WordLevel({word: i for i, word in enumerate(vocabulary)}, "<unk>")
    tokenizer = Tokenizer(word_level)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **SPECIAL_TOKENS,
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
    )


def mean_word(completions: list[str], **_: object) -> list[float]:
    """Reward words of a high number, so that no two completions of a group get the same."""
    rewards = []
    for completion in completions:
        numbers = [int(word[1:]) for word in completion.split()]
        rewards.append(sum(numbers) / max(len(numbers), 1))
    return rewards


def constant(completions: list[str], **_: object) -> list[float]:
    """Reward every completion alike."""
    return [1.0] * len(completions)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=16)
    train(**vars(parser.parse_args()))
