"""LLaMA-Factory's own command on a tiny Qwen2: LoRA, freeze, full and DPO.

LlamaFactory issue 6675 (0.9.2.dev0; torch 2.4.0, transformers 4.46.1, peft 0.12.0): inside
Qwen2RMSNorm `requires_grad` is True before `hidden_states.to(torch.float32)` and False after it.
People read it as the cause of "element 0 of tensors does not require grad", and advise
`disable_gradient_checkpointing: true`. Issue 4905: freeze tuning warns "None of the inputs have
requires_grad=True". Issue 3209: DPO warns the same and seems to train nothing.

The bare libraries of that issue fail (`qwen2_rmsnorm` on transformers 4.46). Here the package
itself runs: `run_exp`, which `llamafactory-cli train` calls, parses the arguments that people write
into a YAML file, on a model, a tokenizer and 20 rows of data that this script writes. bf16 as in
its examples, so that frozen weights are bf16 and what learns is fp32.

`lora`, `freeze`, `full` and `dpo` (on LoRA) leave checkpointing as it is: on and reentrant. The
same with `_no_checkpointing`, `_non_reentrant` and `_eager` (attention). Two things let the inputs
of a checkpointed layer require a gradient, and are taken away from it one at a time:
`_without_marks` takes its wrapper of the checkpoint function, which calls `requires_grad_(True)` on
the inputs of each layer that has something to learn; `_without_hook` takes PEFT's, which lets the
output of the embeddings require a gradient if checkpointing is on before PEFT wraps the model.
`lora_printed` prints what the issue printed, and whether gradients are on.

What the measurement shows
(CPU; LLaMA-Factory 0.9.1, 0.9.3 and 0.9.5, with transformers 4.46.1, 4.52.4 and 5.6.0)

- All methods train on all three, checkpointing on or off. Issue 6675 is not reproduced: what it
  printed, True before the cast and False after it, `lora_printed` prints as well, and trains. It is
  the first pass of a reentrant checkpoint, under `no_grad`; in the second one both are True.
- Why it trains where the bare libraries do not: its marks or PEFT's hook, either is enough for LoRA
  and DPO. The hook works since LLaMA-Factory switches checkpointing on before PEFT wraps the model;
  with 0.9.1 and the order reversed, LoRA trains by the marks, and without them fails.
  `lora_without_both` fails as the bare libraries do, DPO without both does too. `freeze` has no
  PEFT: it trains by the marks alone. `full` needs neither, its embeddings learn.
- Not the reason (0.9.1): `upcast_layernorm` and fp32, with which `lora` trains and
  `lora_without_both` fails alike. LLaMA-Factory itself calls `enable_input_require_grads` for old
  models only.
- Transformers 5 lets the embeddings' output require a gradient when checkpointing is switched on.
  LLaMA-Factory puts its own method in that place, so with 5.6.0, too, it is its marks or the hook.
- With 0.9.1 `freeze` warns as in issue 4905, and trains: the warning is about the frozen layer
  before the one that learns. 0.9.3 does not checkpoint a frozen layer, and is silent.
- DPO trains, and does not warn: LLaMA-Factory silences warnings there.
- Checkpointing changes no digit, but with 0.9.1 and SDPA (see `AGREE`): there the attention mask is
  marked as well, and gets a gradient that nobody needs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # read when the libraries are imported

import peft
import torch
from llamafactory.hparams import ModelArguments
from llamafactory.model.model_utils import checkpointing
from llamafactory.train.tuner import run_exp
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm

NEEDS = ("llamafactory>=0.9.1",)

VARIANTS = {
    "lora": {"role": "reported", "summary": "LoRA on all linear layers, checkpointing as it is"},
    "lora_no_checkpointing": {
        "role": "remedy",
        "summary": "set disable_gradient_checkpointing: true (LoRA)",
        "cures": ("checkpoint-inputs",),
    },
    "lora_non_reentrant": {"role": "control", "summary": "LoRA, use_reentrant_gc: false"},
    "lora_eager": {"role": "control", "summary": "LoRA, flash_attn: disabled"},
    "lora_eager_no_checkpointing": {
        "role": "control",
        "summary": "LoRA, flash_attn: disabled, disable_gradient_checkpointing: true",
    },
    "lora_printed": {
        "role": "reported",
        "summary": "lora, every norm prints requires_grad as in the issue",
    },
    "lora_without_marks": {
        "role": "control",
        "summary": "lora without LLaMA-Factory's wrapper of the checkpoint function",
    },
    "lora_without_hook": {
        "role": "control",
        "summary": "lora without PEFT's hook on the embeddings",
    },
    "lora_without_both": {
        "role": "misuse",
        "summary": "lora without either: no input of a layer requires a gradient",
    },
    "freeze": {
        "role": "reported",
        "summary": "only the last of two layers learns, checkpointing as it is",
    },
    "freeze_no_checkpointing": {
        "role": "remedy",
        "summary": "set disable_gradient_checkpointing: true (freeze)",
        "cures": ("checkpoint-inputs",),
    },
    "freeze_non_reentrant": {"role": "control", "summary": "freeze, use_reentrant_gc: false"},
    "freeze_eager": {"role": "control", "summary": "freeze, flash_attn: disabled"},
    "freeze_without_marks": {
        "role": "misuse",
        "summary": "freeze without LLaMA-Factory's wrapper: there is no PEFT to help",
    },
    "full": {"role": "reported", "summary": "full fine-tune, checkpointing as it is"},
    "full_no_checkpointing": {
        "role": "remedy",
        "summary": "set disable_gradient_checkpointing: true (full fine-tune)",
        "cures": ("checkpoint-inputs",),
    },
    "full_non_reentrant": {"role": "control", "summary": "full fine-tune, use_reentrant_gc: false"},
    "full_eager": {"role": "control", "summary": "full fine-tune, flash_attn: disabled"},
    "dpo": {"role": "reported", "summary": "DPO on LoRA, checkpointing as it is"},
    "dpo_no_checkpointing": {
        "role": "remedy",
        "summary": "set disable_gradient_checkpointing: true (DPO on LoRA)",
        "cures": ("checkpoint-inputs",),
    },
    "dpo_non_reentrant": {"role": "control", "summary": "DPO on LoRA, use_reentrant_gc: false"},
    "dpo_eager": {"role": "control", "summary": "DPO on LoRA, flash_attn: disabled"},
}

# 0.9.1 marks the attention mask too, and SDPA has another kernel for a mask that needs a gradient:
# in bf16 it rounds norms by up to 1.5 %, in fp32 by 1e-7. Without marks, or eager, nothing differs.
AGREE = [
    ("lora_no_checkpointing", "lora", {"rtol": 0.02}),
    ("lora_no_checkpointing", "lora_non_reentrant"),
    ("lora_eager_no_checkpointing", "lora_eager"),
    ("lora_no_checkpointing", "lora_without_marks"),
    ("lora", "lora_without_hook"),
    ("lora", "lora_printed"),
    ("freeze_no_checkpointing", "freeze", {"rtol": 0.02}),
    ("freeze_no_checkpointing", "freeze_non_reentrant"),
    ("full_no_checkpointing", "full", {"rtol": 0.02}),
    ("full_no_checkpointing", "full_non_reentrant"),
    ("full_no_checkpointing", "lora_no_checkpointing", {"only": "first loss"}),
    ("dpo_no_checkpointing", "dpo", {"rtol": 0.02}),
    ("dpo_no_checkpointing", "dpo_non_reentrant"),
]

METHODS: dict[str, dict[str, Any]] = {
    "lora": {"stage": "sft", "finetuning_type": "lora", "lora_target": "all"},
    "freeze": {"stage": "sft", "finetuning_type": "freeze", "freeze_trainable_layers": 1},
    "full": {"stage": "sft", "finetuning_type": "full"},
    "dpo": {"stage": "dpo", "finetuning_type": "lora", "lora_target": "all"},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "no_checkpointing": {"disable_gradient_checkpointing": True},
    "non_reentrant": {"use_reentrant_gc": False},
    "eager": {"flash_attn": "disabled"},
    "eager_no_checkpointing": {"flash_attn": "disabled", "disable_gradient_checkpointing": True},
}
WITHOUT_MARKS = ("without_marks", "without_both")
WITHOUT_HOOK = ("without_hook", "without_both")


def train(variant: str, device: str, steps: int) -> None:
    """Run the command for `steps` optimizer steps."""
    method, _, setting = variant.partition("_")
    options = SETTINGS.get(setting, {})
    unknown = options.keys() - {field.name for field in dataclasses.fields(ModelArguments)}
    if unknown:
        raise unittest.SkipTest(f"this LLaMA-Factory has no {', '.join(unknown)}")
    take_away(setting)
    if setting == "printed":
        Qwen2RMSNorm.forward = forward_that_prints
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_model(folder / "model")
        write_data(folder)
        arguments = {**make_arguments(folder, device, steps), **METHODS[method], **options}
        run_exp({**arguments, "dataset": arguments["stage"]})


def take_away(setting: str) -> None:
    """Take away what lets the inputs of a checkpointed layer require a gradient."""
    if setting in WITHOUT_MARKS:
        replace(checkpointing, "get_custom_gradient_checkpointing_func", lambda function: function)
    if setting in WITHOUT_HOOK:
        replace(peft.PeftModel, "_prepare_model_for_gradient_checkpointing", lambda _, model: model)


def forward_that_prints(self: Qwen2RMSNorm, hidden_states: torch.Tensor) -> torch.Tensor:
    """What the issue made of the norm's forward; it also says whether gradients are on."""
    input_dtype, before = hidden_states.dtype, hidden_states.requires_grad
    hidden_states = hidden_states.to(torch.float32)
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    enabled = torch.is_grad_enabled()
    warnings.warn(
        f"norm: requires_grad {before} before the cast, {hidden_states.requires_grad} after,"
        f" variance {variance.requires_grad}; is_grad_enabled {enabled}",
        stacklevel=1,
    )
    hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
    return self.weight * hidden_states.to(input_dtype)


def replace(place: Any, name: str, function: Any) -> None:
    """Put `function` where the library has its own of that name."""
    if not hasattr(place, name):
        raise unittest.SkipTest(f"{place.__name__} has no {name}")
    setattr(place, name, function)


def make_arguments(folder: Path, device: str, steps: int) -> dict[str, Any]:
    """The arguments that do not depend on the variant: constant rate, no clipping, no reports."""
    return {
        "model_name_or_path": str(folder / "model"),
        "template": "qwen",
        "dataset_dir": str(folder),
        "cache_dir": str(folder / "cache"),
        "output_dir": str(folder / "output"),
        "cutoff_len": 128,
        "do_train": True,
        "flash_attn": "sdpa",
        "bf16": True,
        "use_cpu": device == "cpu",
        "per_device_train_batch_size": 4,
        "max_steps": steps,
        "learning_rate": 1e-2,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,
        "save_strategy": "no",
        "logging_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "seed": 0,
    }


def write_model(folder: Path) -> None:
    """Write a two-layer Qwen2 in bf16, and a tokenizer with one token for each byte."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*special, *alphabet])}
    tokens = Tokenizer(models.BPE(vocabulary, merges=[]))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>"],
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=False,
    )
    Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def write_data(folder: Path) -> None:
    """Write 20 rows, and the file that says which columns each stage reads."""
    rows = [
        {"question": f"What follows {n}?", "chosen": str(n + 1), "rejected": str(n)}
        for n in range(20)
    ]
    (folder / "rows.json").write_text(json.dumps(rows))
    columns = {
        "sft": {"prompt": "question", "response": "chosen"},
        "dpo": {"prompt": "question", "chosen": "chosen", "rejected": "rejected"},
    }
    info = {
        stage: {"file_name": "rows.json", "ranking": stage == "dpo", "columns": names}
        for stage, names in columns.items()
    }
    (folder / "dataset_info.json").write_text(json.dumps(info))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=16)
    train(**vars(parser.parse_args()))
