"""The upcast in Qwen2RMSNorm and the gradient that is gone after it.

LlamaFactory issue 6675 (torch 2.4.0, transformers 4.46.1, peft 0.12.0): inside Qwen2RMSNorm
`requires_grad` is True before `hidden_states.to(torch.float32)` and False after it. The explanation
given was that `.to()` makes a tensor which keeps no gradient information; the advice was to switch
gradient checkpointing off, to set `requires_grad` after the cast, or to use autocast.

The `_printed` variants print what the issue printed, in every norm, and whether gradients are on.
`cuda_autocast` is the advice to the letter; without CUDA it does nothing and says so.

The weights are bf16 unless a variant says otherwise. Checkpointing is switched on after the model
is wrapped, since PEFT lets the inputs require gradients when it wraps a model that already
checkpoints; `lora_wrapped_last` is that order. `cast_alone` and the `full` variants put the cast on
trial without a frozen embedding, `lora_reentrant_float32` puts the frozen embedding on trial
without a cast.

Up to 2026-11-22 the stack of these pins was published as `llamafactory-6675`. That was wrong:
LLaMA-Factory itself was not run. It is now `transformers-4.46`; LLaMA-Factory has the scenario
`llama_factory`, and trains.

What the measurement shows
- The cast is innocent. `cast_alone` learns from torch 2.0 to 2.15; where `lora_reentrant` fails it
  fails alike with fp32 weights, for which `.to(torch.float32)` returns its argument, and under
  autocast: autocast is no remedy.
- What was seen is a healthy run. Reentrant checkpointing runs a layer first under `no_grad`, where
  the first norm gets an input that requires grad and casts it to one that does not; the recompute
  in backward has True on both sides. `full_printed` and `input_grads_printed` show exactly this on
  every release, and train. Where `lora_printed` fails, it never prints True, before the cast or
  after it.
- What does break training is a frozen embedding under reentrant checkpointing: no input of a layer
  requires grad, so the checkpoint's output does not either (transformers 4.39 to 4.57). LoRA then
  stops with "does not have a grad_fn". With only the embeddings frozen nothing is raised: the final
  norm and lm_head learn, the layers silently get no gradient.
- `requires_grad_after_cast` makes it worse (transformers 4.39 to 4.57): in the layers it marks
  tensors under `no_grad`, which changes nothing, in the final norm it makes a leaf, so that
  backward runs and ends there. The error is gone and no LoRA parameter ever gets a gradient.
- transformers 5.4 and 5.23 train all variants: switching checkpointing on lets the embedding's
  output require grad in every text model, wrapped by PEFT or not, and the default is non-reentrant.
- `lora_default` is reentrant up to transformers 4.57: the default is what was reported.
- Where `requires_grad_after_cast` trains, it was not seen to take more time than without it.
- `cuda_autocast` without CUDA does nothing, and warns so. With CUDA it was not run.
- Checkpointing changes no digit: whatever trains agrees with the same training without it, loss by
  loss and norm by norm, reentrant or not, and so do the remedies. The first loss of a fresh LoRA is
  its base model's to the last digit.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import types
import warnings
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

# `cast_alone` needs neither; where one is missing, the other variants say so in their own imports.
for library in ("peft", "transformers.models.qwen2.modeling_qwen2"):
    with contextlib.suppress(ImportError):
        importlib.import_module(library)

NEEDS = ("torch", "transformers>=4.37", "peft")

VARIANTS = {
    "cast_alone": {
        "role": "control",
        "summary": "no model: a bf16 parameter, .to(torch.float32), loss, backward",
        "needs": ("torch",),
    },
    "full": {"role": "control", "summary": "full fine-tune, no checkpointing"},
    "full_reentrant": {
        "role": "control",
        "summary": "full fine-tune, checkpointing with use_reentrant=True",
    },
    "full_non_reentrant": {
        "role": "control",
        "summary": "full fine-tune, checkpointing with use_reentrant=False",
    },
    "frozen_embeddings": {
        "role": "control",
        "summary": "only the embeddings are frozen, no checkpointing",
    },
    "frozen_embeddings_reentrant": {
        "role": "reported",
        "summary": "only the embeddings are frozen, use_reentrant=True",
    },
    "lora_reentrant": {"role": "reported", "summary": "LoRA, use_reentrant=True"},
    "lora_default": {
        "role": "reported",
        "summary": "LoRA, checkpointing switched on with no arguments",
    },
    "lora_reentrant_float32": {
        "role": "reported",
        "summary": "lora_reentrant with fp32 weights: the cast has nothing to do",
    },
    "lora_non_reentrant": {
        "role": "remedy",
        "summary": "checkpoint with use_reentrant=False",
        "cures": ("checkpoint-inputs",),
    },
    "lora_input_grads": {
        "role": "remedy",
        "summary": "call model.enable_input_require_grads() before get_peft_model",
        "cures": ("checkpoint-inputs",),
    },
    "lora_wrapped_last": {
        "role": "remedy",
        "summary": "switch checkpointing on before get_peft_model, not after it",
        "cures": ("checkpoint-inputs",),
    },
    "no_checkpointing": {
        "role": "remedy",
        "summary": "train LoRA without gradient checkpointing",
        "cures": ("checkpoint-inputs",),
    },
    "requires_grad_after_cast": {
        "role": "remedy",
        "summary": "let the norm set requires_grad_(True) after its cast",
        "cures": ("checkpoint-inputs",),
    },
    "autocast": {
        "role": "remedy",
        "summary": "keep the weights in fp32 and train under bf16 autocast",
        "cures": ("checkpoint-inputs",),
    },
    "cuda_autocast": {
        "role": "remedy",
        "summary": "keep the weights in fp32 and train under torch.cuda.amp.autocast()",
        "cures": ("checkpoint-inputs",),
    },
    "full_printed": {
        "role": "control",
        "summary": "full_reentrant, every norm prints requires_grad as in the issue",
    },
    "lora_printed": {
        "role": "reported",
        "summary": "lora_reentrant, every norm prints requires_grad as in the issue",
    },
    "input_grads_printed": {
        "role": "control",
        "summary": "lora_input_grads, every norm prints requires_grad as in the issue",
    },
}

# A recomputed layer has the same sums in the same order, so bf16 needs no wider tolerance. Autocast
# rounds what fp32 does not, by up to 0.5 % of a gradient norm. A new LoRA adds A times B = 0.
AGREE = [
    ("full", "full_reentrant"),
    ("full", "full_non_reentrant"),
    ("full", "full_printed"),
    ("full", "no_checkpointing", {"only": "first loss"}),
    ("frozen_embeddings", "frozen_embeddings_reentrant"),
    ("no_checkpointing", "lora_non_reentrant"),
    ("no_checkpointing", "lora_input_grads"),
    ("no_checkpointing", "lora_wrapped_last"),
    ("no_checkpointing", "lora_reentrant"),
    ("no_checkpointing", "lora_printed"),
    ("no_checkpointing", "input_grads_printed"),
    ("no_checkpointing", "lora_default"),
    ("no_checkpointing", "requires_grad_after_cast"),
    ("lora_reentrant_float32", "autocast", {"rtol": 0.02}),
]

FLOAT32 = ("lora_reentrant_float32", "autocast", "cuda_autocast")
PRINTED = ("full_printed", "lora_printed", "input_grads_printed")
FROZEN_EMBEDDINGS = ("frozen_embeddings", "frozen_embeddings_reentrant")
FULL = ("full", "full_reentrant", "full_non_reentrant", "full_printed", *FROZEN_EMBEDDINGS)
INPUT_GRADS = ("lora_input_grads", "input_grads_printed")
NO_CHECKPOINTING = ("full", "frozen_embeddings", "no_checkpointing")
NON_REENTRANT = ("full_non_reentrant", "lora_non_reentrant")


def train(variant: str, device: str, steps: int) -> None:
    """Train for `steps` optimizer steps on one batch."""
    torch.manual_seed(0)
    if variant == "cast_alone":
        cast_alone(device, steps)
        return
    model = build_model(variant).to(device)
    model.train()
    tokens = torch.Generator().manual_seed(0)  # of its own: LoRA's weights draw from the other one
    input_ids = torch.randint(0, model.config.vocab_size, (4, 12), generator=tokens).to(device)
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-2, weight_decay=0.0)  # moves a bf16 1.0
    for _ in range(steps):
        with choose_autocast(variant, device):
            loss = model(input_ids=input_ids, labels=input_ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def cast_alone(device: str, steps: int) -> None:
    """Learn through the cast and nothing else."""
    weight = torch.nn.Parameter(torch.randn(16, dtype=torch.bfloat16, device=device))
    optimizer = torch.optim.Adam([weight], lr=1e-2)
    for _ in range(steps):
        loss = weight.to(torch.float32).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def choose_autocast(variant: str, device: str) -> contextlib.AbstractContextManager[Any]:
    """Return the context that the variant trains under."""
    if variant == "cuda_autocast":
        return torch.cuda.amp.autocast()
    return torch.autocast(device, dtype=torch.bfloat16, enabled=variant == "autocast")


def build_model(variant: str) -> torch.nn.Module:
    """Build a two-layer Qwen2 and freeze, wrap and checkpoint it as the variant asks."""
    from transformers.models.qwen2 import modeling_qwen2

    config = modeling_qwen2.Qwen2Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=False,  # so that freezing the embeddings freezes nothing else
        use_cache=False,
    )
    model = modeling_qwen2.Qwen2ForCausalLM(config)
    model.to(torch.float32 if variant in FLOAT32 else torch.bfloat16)
    if variant == "requires_grad_after_cast":
        follow_the_advice(model)
    if variant in PRINTED:
        print_like_the_issue(model)
    if variant in INPUT_GRADS:
        model.enable_input_require_grads()
    if variant == "lora_wrapped_last":
        enable_checkpointing(model, use_reentrant=True)  # PEFT sees it and enables input gradients
    if variant in FROZEN_EMBEDDINGS:
        model.get_input_embeddings().requires_grad_(requires_grad=False)
    if variant not in FULL:
        model = add_lora(model)
    if variant == "lora_default":
        enable_checkpointing(model)
    elif variant not in (*NO_CHECKPOINTING, "lora_wrapped_last"):
        enable_checkpointing(model, use_reentrant=variant not in NON_REENTRANT)
    return model


def add_lora(model: torch.nn.Module) -> torch.nn.Module:
    """Freeze the model and add LoRA to its attention."""
    import peft

    config = peft.LoraConfig(
        task_type="CAUSAL_LM",
        r=4,
        lora_alpha=8,
        lora_dropout=0.0,
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
    )
    return peft.get_peft_model(model, config)


def enable_checkpointing(model: torch.nn.Module, **kwargs: bool) -> None:
    """Switch gradient checkpointing on; transformers 6 drops the name of the second branch."""
    if hasattr(model, "activation_checkpointing_enable"):
        model.activation_checkpointing_enable(activation_checkpointing_kwargs=kwargs or None)
    else:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=kwargs or None)


def follow_the_advice(model: torch.nn.Module) -> None:
    """Let every Qwen2RMSNorm set `requires_grad` after its cast, as the issue was told to."""

    def forward(self: torch.nn.Module, hidden_states: torch.Tensor) -> torch.Tensor:
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        hidden_states.requires_grad_(requires_grad=True)  # the advice; the rest is the library's
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)

    replace_forward(model, forward)


def print_like_the_issue(model: torch.nn.Module) -> None:
    """Let every Qwen2RMSNorm print `requires_grad` before and after its cast."""

    def forward(self: torch.nn.Module, hidden_states: torch.Tensor) -> torch.Tensor:
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

    replace_forward(model, forward)


def replace_forward(model: torch.nn.Module, forward: Callable[..., torch.Tensor]) -> None:
    """Give every Qwen2RMSNorm this forward, as if its source had been changed."""
    from transformers.models.qwen2 import modeling_qwen2

    for module in model.modules():
        if isinstance(module, modeling_qwen2.Qwen2RMSNorm):
            module.forward = types.MethodType(forward, module)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=16)
    train(**vars(parser.parse_args()))
