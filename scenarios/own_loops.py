"""A hand-written loop around a LoRA model: lora_B stays all zero, and the loss is finite.

open-unlearning issue 178: with gradient checkpointing LoRA trains nothing inside the layers, since
`enable_input_require_grads()` is missing. ai-toolkit issue 1054: after 2000 steps with a finite
loss every `lora_B` is zero, by checkpointing and by the autograd function of its layer offloading;
PR 1046 there: a text row that nobody reads overflows, and the gradients are NaN. PEFT issue 282: an
adapter that `from_pretrained` loads has no trainable parameters. PEFT issue 793: `lora_B` gets no
update in the first epoch.

A tiny Llama, LoRA on q_proj and v_proj, AdamW and a loop of six lines. lora_B begins at zero, so
that an adapter which never learns changes nothing at all.

Reported, each with its remedies:

- `own_checkpoint`: the loop puts the body of the model into a reentrant checkpoint. Its input, the
  token numbers, needs no gradient. lm_head has LoRA too, so backward runs.
  `checkpointing`: the same by transformers' own switch, after the model is wrapped.
- `offloaded_head`: lm_head runs in an autograd function that returns no gradient for its input.
- `overflow`: a position that the loss does not read is infinite; a step whose gradients are not
  finite is left out.
- `first_step`: stops if lora_B is still zero after the first step.

Misuse, which ought to be pointed out: the optimizer is built before the adapter
(`optimizer_before_lora`) or of one half of it (`only_lora_a`), or another adapter is active
(`other_adapter`); the loss is that of a copy (`forward_of_a_copy`), or of a merged, disabled or
frozen adapter (`merged`, `adapter_disabled`, `loaded_frozen`); `requires_grad_()` on a loss that
has no graph (`loss_requires_grad`). With `_head` lm_head learns as well.

What the measurement shows (CPU; torch 2.0.1 to 2.15.0, transformers 4.30.2 to 5.23.0, peft 0.3.0 to
0.21.2)

- `own_checkpoint` and `offloaded_head` fail on all stacks: the loss is finite, and no lora_B of the
  layers leaves zero. `checkpointing` fails up to transformers 4.x; transformers 5 lets the
  embeddings' output require a gradient, and it trains. All remedies train.
- torch warns of the checkpoint, "None of the inputs have requires_grad=True", and of nothing else.
- `overflow`: NaN gradients under a finite loss. Leaving such steps out hides it for ever.
- `call_of_the_base` trains as `lora` does: PEFT changes the model that it is given, so that only
  a copy of before (`forward_of_a_copy`) has no adapter.
- `first_step`: lora_B learns in the first step. It is lora_A that has a gradient of zero then.
- What the stacks say of the misuse: an adapter that is merged, disabled or frozen ends in "does not
  require grad", but only if nothing else learns. With lm_head learning (`merged_head`,
  `adapter_disabled_head`) nothing is said, nor is it for the other mistakes.
- `adapter_disabled_head` counts as training with peft 0.12 and newer: there `disable_adapter()`
  freezes the adapter, so that it is no more than a frozen part of the model. With 0.3 it is
  gradient:partial.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import inspect
import tempfile
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch.utils.checkpoint import checkpoint
from transformers import LlamaConfig, LlamaForCausalLM

NEEDS = ("torch", "transformers>=4.29", "peft>=0.3")

VARIANTS = {
    "lora": {"role": "control", "summary": "wrap the model, then build the optimizer"},
    "lora_head": {"role": "control", "summary": "the same with LoRA on lm_head too"},
    "call_of_the_base": {
        "role": "control",
        "summary": "call the model that was wrapped: PEFT has put its layers into it",
    },
    "first_step": {"role": "reported", "summary": "stop if lora_B is zero after the first step"},
    "own_checkpoint": {
        "role": "reported",
        "summary": "checkpoint(body, input_ids, use_reentrant=True)",
    },
    "own_checkpoint_input_grads": {
        "role": "remedy",
        "summary": "let the embeddings' output require a gradient before the checkpoint",
        "cures": ("checkpoint-inputs",),
    },
    "own_checkpoint_non_reentrant": {
        "role": "remedy",
        "summary": "checkpoint(body, input_ids, use_reentrant=False)",
        "cures": ("checkpoint-inputs",),
    },
    "checkpointing": {
        "role": "reported",
        "summary": "model.gradient_checkpointing_enable() with use_reentrant=True",
    },
    "checkpointing_input_grads": {
        "role": "remedy",
        "summary": "call model.enable_input_require_grads() as well",
        "cures": ("checkpoint-inputs",),
    },
    "checkpointing_non_reentrant": {
        "role": "remedy",
        "summary": "model.gradient_checkpointing_enable() with use_reentrant=False",
        "needs": ("torch", "transformers>=4.35", "peft>=0.3"),
        "cures": ("checkpoint-inputs",),
    },
    "offloaded_head": {
        "role": "reported",
        "summary": "lm_head in an autograd.Function whose backward returns None",
    },
    "offloaded_head_gradient": {
        "role": "remedy",
        "summary": "let the backward of the autograd.Function return the input's gradient",
        "cures": ("function-returned-none",),
    },
    "overflow": {
        "role": "reported",
        "summary": "an infinite position that the loss does not read; such steps are left out",
    },
    "overflow_replaced": {
        "role": "remedy",
        "summary": "replace what is infinite before it is used",
        "cures": ("nonfinite-gradient",),
    },
    "optimizer_before_lora": {
        "role": "misuse",
        "summary": "the optimizer is built before get_peft_model",
    },
    "only_lora_a": {"role": "misuse", "summary": "the optimizer has lora_A only"},
    "other_adapter": {
        "role": "misuse",
        "summary": "another adapter is made active after the optimizer is built",
    },
    "forward_of_a_copy": {
        "role": "misuse",
        "summary": "the loss is that of a copy, made before get_peft_model",
    },
    "merged": {"role": "misuse", "summary": "merge_adapter() was not undone"},
    "merged_head": {
        "role": "misuse",
        "summary": "merge_adapter() was not undone, lm_head learns",
    },
    "adapter_disabled": {"role": "misuse", "summary": "the loop is inside of disable_adapter()"},
    "adapter_disabled_head": {
        "role": "misuse",
        "summary": "the loop is inside of disable_adapter(), lm_head learns",
    },
    "loaded_frozen": {
        "role": "misuse",
        "summary": "PeftModel.from_pretrained, the optimizer has all parameters",
    },
    "is_trainable": {
        "role": "remedy",
        "summary": "PeftModel.from_pretrained with is_trainable=True",
    },
    "detached_head": {
        "role": "misuse",
        "summary": "the hidden states are computed under no_grad, lm_head learns",
    },
    "loss_requires_grad": {
        "role": "misuse",
        "summary": "the loss is computed under no_grad, then loss.requires_grad_()",
    },
}

AGREE = [
    ("lora", "call_of_the_base"),
    ("lora", "first_step"),
    ("lora", "is_trainable"),
    ("lora", "offloaded_head_gradient"),
    ("lora", "lora_head", {"only": "first loss"}),
    ("lora_head", "own_checkpoint_input_grads"),
    ("lora_head", "own_checkpoint_non_reentrant"),
    ("lora_head", "checkpointing_input_grads"),
    ("lora_head", "checkpointing_non_reentrant"),
]

VOCABULARY = 64
LEARNING_RATE = 1e-2
HEAD_HAS_LORA = ("lora_head", "own_checkpoint", "checkpointing")
DISABLED = ("adapter_disabled", "adapter_disabled_head")


class Offloaded(torch.autograd.Function):
    """A layer whose weights are fetched for the time of its use, as offloading does it."""

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Apply the layer."""
        ctx.weight = weight
        return inputs @ weight.T

    @staticmethod
    def backward(_ctx: Any, _gradient: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """Nothing: the layer is frozen. What comes before it is forgotten."""
        return None, None


class OffloadedWithGradient(Offloaded):
    """The same with the gradient of its input."""

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        """Pass the gradient on."""
        return gradient @ ctx.weight, None


def train(variant: str, device: str, steps: int) -> None:
    """The loop."""
    tokens = torch.randint(3, VOCABULARY, (4, 16), generator=torch.Generator().manual_seed(0))
    tokens = tokens.to(device)
    model, optimizer, called = prepare(variant, device)
    context = model.disable_adapter() if variant in DISABLED else contextlib.nullcontext()
    with context:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = next_token_loss(forward(variant, called, tokens), tokens)
            if variant == "loss_requires_grad":
                loss.requires_grad_()
            loss.backward()
            if variant.startswith("overflow") and not finite(model):
                continue  # as loops do that want to survive a bad batch
            optimizer.step()
            if variant == "first_step":
                check_lora_b(model)


def prepare(variant: str, device: str) -> tuple[PeftModel, torch.optim.Optimizer, torch.nn.Module]:
    """The LoRA model, the optimizer, and the model that the loop calls."""
    base = make_llama().to(device)
    copied = copy.deepcopy(base) if variant == "forward_of_a_copy" else None
    optimizer = make_optimizer(base, variant) if variant == "optimizer_before_lora" else None
    if variant in ("loaded_frozen", "is_trainable"):
        model = load_lora(base, variant)
    else:
        model = get_peft_model(base, make_config(variant))
    if variant.startswith("checkpointing"):
        switch_checkpointing_on(model, reentrant=not variant.endswith("non_reentrant"))
    if variant == "checkpointing_input_grads":
        model.enable_input_require_grads()
    if variant in ("merged_head", "adapter_disabled_head", "detached_head"):
        base.lm_head.requires_grad_(True)
    optimizer = optimizer or make_optimizer(model, variant)
    if variant.startswith("merged"):
        model.merge_adapter()
    if variant == "other_adapter":
        model.add_adapter("other", make_config(variant))
        model.set_adapter("other")
    return model, optimizer, copied or (base if variant == "call_of_the_base" else model)


def make_optimizer(model: torch.nn.Module, variant: str) -> torch.optim.Optimizer:
    """AdamW of what requires a gradient now."""
    named = model.named_parameters()
    if variant == "loaded_frozen":
        parameters = list(model.parameters())
    elif variant == "only_lora_a":
        parameters = [parameter for name, parameter in named if "lora_A" in name]
    else:
        parameters = [parameter for _, parameter in named if parameter.requires_grad]
    return torch.optim.AdamW(parameters, lr=LEARNING_RATE)


def make_llama() -> LlamaForCausalLM:
    """Two layers with random weights."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=32,
        tie_word_embeddings=False,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return LlamaForCausalLM(config)


def make_config(variant: str) -> LoraConfig:
    """LoRA on two layers of each attention, on lm_head too where a variant needs it."""
    head = ["lm_head"] if variant.startswith(HEAD_HAS_LORA) else []
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=4,
        lora_alpha=8,
        lora_dropout=0.0,
        target_modules=["q_proj", "v_proj", *head],
    )


def load_lora(base: torch.nn.Module, variant: str) -> PeftModel:
    """Save a fresh adapter and load it."""
    options = {"is_trainable": True} if variant == "is_trainable" else {}
    with tempfile.TemporaryDirectory() as folder:
        get_peft_model(copy.deepcopy(base), make_config(variant)).save_pretrained(folder)
        return PeftModel.from_pretrained(base, folder, **options)


def switch_checkpointing_on(model: torch.nn.Module, *, reentrant: bool) -> None:
    """Before transformers 4.35 there is the reentrant kind only."""
    known = inspect.signature(LlamaForCausalLM.gradient_checkpointing_enable).parameters
    if "gradient_checkpointing_kwargs" in known:
        model.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": reentrant}
        )
    else:
        model.gradient_checkpointing_enable()
    model.train()


def next_token_loss(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Predict each token from those before it."""
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def check_lora_b(model: torch.nn.Module) -> None:
    """Every lora_B must have learned."""
    for name, parameter in model.named_parameters():
        if "lora_B" in name and not parameter.any():
            raise AssertionError(f"{name} is zero")


def finite(model: torch.nn.Module) -> bool:
    """Whether each gradient is."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return all(bool(gradient.isfinite().all()) for gradient in gradients)


def forward(variant: str, model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """The logits, as the loop of this variant computes them."""
    if variant == "loss_requires_grad":
        logits = without_gradients(model, tokens)
    elif variant == "detached_head":
        logits = detached(model, tokens)
    elif variant == "own_checkpoint_input_grads":
        logits = checkpointed_with_input_grads(model, tokens)
    elif variant.startswith("own_checkpoint"):
        logits = checkpointed(model, tokens, reentrant=variant == "own_checkpoint")
    elif variant.startswith("offloaded"):
        function = Offloaded if variant == "offloaded_head" else OffloadedWithGradient
        logits = offloaded(model, tokens, function)
    elif variant.startswith("overflow"):
        logits = overflowing(model, tokens, float("inf") if variant == "overflow" else 1e4)
    else:
        logits = logits_of_the_model(model, tokens)
    return logits


def logits_of_the_model(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Call the model as it is."""
    return model(input_ids=tokens).logits


def without_gradients(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    """Call the model as for a validation."""
    with torch.no_grad():
        return logits_of_the_model(model, tokens)


def hidden_states(model: PeftModel, tokens: torch.Tensor) -> torch.Tensor:
    """What the body gives to lm_head."""
    return model.base_model.model.model(input_ids=tokens)[0]


def head(model: PeftModel, hidden: torch.Tensor) -> torch.Tensor:
    """Apply lm_head."""
    return model.base_model.model.lm_head(hidden)


def detached(model: PeftModel, tokens: torch.Tensor) -> torch.Tensor:
    """The body gives features only."""
    with torch.no_grad():
        hidden = hidden_states(model, tokens)
    return head(model, hidden)


def checkpointed(model: PeftModel, tokens: torch.Tensor, *, reentrant: bool) -> torch.Tensor:
    """The body in one checkpoint."""
    return head(model, checkpoint(hidden_states, model, tokens, use_reentrant=reentrant))


def checkpointed_with_input_grads(model: PeftModel, tokens: torch.Tensor) -> torch.Tensor:
    """The embeddings outside of the checkpoint; their output requires a gradient."""
    body = model.base_model.model.model
    embedded = body.embed_tokens(tokens).requires_grad_()
    hidden = checkpoint(lambda x: body(inputs_embeds=x)[0], embedded, use_reentrant=True)
    return head(model, hidden)


def offloaded(model: PeftModel, tokens: torch.Tensor, function: type[Offloaded]) -> torch.Tensor:
    """lm_head's weights are fetched when they are needed."""
    return function.apply(hidden_states(model, tokens), model.base_model.model.lm_head.weight)


def overflowing(model: PeftModel, tokens: torch.Tensor, largest: float) -> torch.Tensor:
    """The last position is scaled by something infinite. Its logits predict nothing."""
    hidden = hidden_states(model, tokens)
    scale = torch.ones_like(hidden)
    scale[:, -1] = largest
    return head(model, hidden * scale)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=16)
    train(**vars(parser.parse_args()))
