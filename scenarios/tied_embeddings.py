"""Adapters on tied embeddings: whether the tie holds, and what a merge keeps.

With `tie_word_embeddings` the embeddings and the head of a language model are one matrix. PEFT
issue 1750 asks how to train them as one layer. Issue 2777: after a merge the config still says that
they are tied, and a model that is saved and loaded again is nonsense. Issue 2018: LoRA on `lm_head`
is merged into the embeddings, too. Pull request 2803 adds `ensure_weight_tying`, issue 2864 has a
table of what it should do for each setting, and pull request 3066 made it documentation.

Each variant adapts a tiny Llama and trains it in a plain loop.

- `tied_*` and `untied_*` are the lines of that table, by the weights of the model.
  `save`, `lora` and `tokens` stand for `modules_to_save`, `target_modules` and
  `trainable_token_indices`; `embed`, `head` and `both` for the layers; `ensure` for
  `ensure_weight_tying=True`. A variant fails if the table does not hold: it compares the matrices
  that the embeddings and the head apply before and after the training, adapter included.
- `merge_*` are on tied weights and look at what is left: the logits of the trained model must be
  those of the saved and loaded adapter, of the merged model, and of the merged model that is saved
  and loaded. The error says which differ.
- The remedies: one weight for both copies of `modules_to_save` (1750), `tie_word_embeddings=False`
  in the config after merging (2777), and PEFT's own warning: a head of its own before merging, or
  weights that are untied before they are adapted (2025).

What the measurement shows
(CPU; PEFT 0.3.0 to 0.21.2)

- With PEFT 0.20.0 and 0.21.2 every line of the table holds. With 0.18.1 `ensure_weight_tying` works
  for `modules_to_save` of the embeddings alone: with the head alone PEFT raises an AttributeError,
  with both and with LoRA nothing is tied, other token indices are not refused, and untied weights
  become tied (issue 2944).
- Token indices for both layers: each learns its own with 0.15.1 and 0.18.1, though the weights are
  tied; 0.16.0 and 0.17.1 raise an AttributeError, tied or not, as does 0.18.1 with transformers 5
  and tied weights (a ValueError).
- `modules_to_save` without `ensure`: the adapter and the merged model are right. Saved and loaded,
  the merged model is wrong up to 0.18.1 with transformers 4, without a warning before 0.18.1. It is
  right with transformers 5.4.0, which compares the weights when it loads them, and with 0.20.0,
  which unties the config.
- LoRA on a tied layer is never merged right, with `ensure` neither: each layer adds what it learnt
  to the one matrix. PEFT warns of the head since 0.14.0, of the embeddings since 0.15.1. Both
  remedies of that warning work. With `ensure` the layers share their memory, but not their
  parameters: the optimizer steps twice (0.21.2).
- PEFT 0.3.0 leaves the original of `modules_to_save` trainable. It gets no gradient, or the other
  layer learns with it. LoRA on embeddings cannot be merged there.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import tempfile
import unittest
from typing import Any

import peft
import torch
import transformers

NEEDS = ("torch", "transformers", "peft")

VARIANTS = {
    "untied_save_embed": {
        "role": "control",
        "summary": "modules_to_save=[embed_tokens]: only the embeddings change",
    },
    "untied_save_embed_ensure": {
        "role": "reported",
        "summary": "modules_to_save=[embed_tokens], ensure: only the embeddings change",
    },
    "untied_save_head": {
        "role": "control",
        "summary": "modules_to_save=[lm_head]: only the head changes",
    },
    "untied_save_head_ensure": {
        "role": "reported",
        "summary": "modules_to_save=[lm_head], ensure: only the head changes",
    },
    "untied_save_both": {
        "role": "control",
        "summary": "modules_to_save of both: each learns its own",
    },
    "untied_save_both_ensure": {
        "role": "reported",
        "summary": "modules_to_save of both, ensure: each learns its own",
    },
    "untied_lora_embed": {
        "role": "control",
        "summary": "target_modules=[embed_tokens]: only the embeddings change",
    },
    "untied_lora_embed_ensure": {
        "role": "reported",
        "summary": "target_modules=[embed_tokens], ensure: only the embeddings change",
    },
    "untied_lora_head": {
        "role": "control",
        "summary": "target_modules=[lm_head]: only the head changes",
    },
    "untied_lora_head_ensure": {
        "role": "reported",
        "summary": "target_modules=[lm_head], ensure: only the head changes",
    },
    "untied_lora_both": {
        "role": "control",
        "summary": "target_modules of both: each learns its own",
    },
    "untied_lora_both_ensure": {
        "role": "reported",
        "summary": "target_modules of both, ensure: each learns its own",
    },
    "untied_tokens_list": {
        "role": "reported",
        "summary": "trainable_token_indices=[1, 2, 3]: only the embeddings change",
    },
    "untied_tokens_list_ensure": {
        "role": "reported",
        "summary": "trainable_token_indices=[1, 2, 3], ensure: only the embeddings change",
    },
    "untied_tokens_same": {
        "role": "reported",
        "summary": "the same token indices for both: each learns its own",
    },
    "untied_tokens_same_ensure": {
        "role": "reported",
        "summary": "the same token indices for both, ensure: each learns its own",
    },
    "untied_tokens_different": {
        "role": "reported",
        "summary": "other token indices for each: each learns its own",
    },
    "untied_tokens_different_ensure": {
        "role": "reported",
        "summary": "other token indices for each, ensure: each learns its own",
    },
    "tied_save_embed": {
        "role": "reported",
        "summary": "modules_to_save=[embed_tokens]: only the embeddings change",
    },
    "tied_save_embed_ensure": {
        "role": "reported",
        "summary": "modules_to_save=[embed_tokens], ensure: stay tied",
    },
    "tied_save_head": {
        "role": "reported",
        "summary": "modules_to_save=[lm_head]: only the head changes",
    },
    "tied_save_head_ensure": {
        "role": "reported",
        "summary": "modules_to_save=[lm_head], ensure: stay tied",
    },
    "tied_save_both": {
        "role": "reported",
        "summary": "modules_to_save of both: each learns its own",
    },
    "tied_save_both_ensure": {
        "role": "reported",
        "summary": "modules_to_save of both, ensure: stay tied",
    },
    "tied_lora_embed": {
        "role": "reported",
        "summary": "target_modules=[embed_tokens]: only the embeddings change",
    },
    "tied_lora_embed_ensure": {
        "role": "reported",
        "summary": "target_modules=[embed_tokens], ensure: stay tied",
    },
    "tied_lora_head": {
        "role": "reported",
        "summary": "target_modules=[lm_head]: only the head changes",
    },
    "tied_lora_head_ensure": {
        "role": "reported",
        "summary": "target_modules=[lm_head], ensure: stay tied",
    },
    "tied_lora_both": {
        "role": "reported",
        "summary": "target_modules of both: each learns its own",
    },
    "tied_lora_both_ensure": {
        "role": "reported",
        "summary": "target_modules of both, ensure: stay tied",
    },
    "tied_tokens_list": {
        "role": "reported",
        "summary": "trainable_token_indices=[1, 2, 3]: stay tied",
    },
    "tied_tokens_list_ensure": {
        "role": "reported",
        "summary": "trainable_token_indices=[1, 2, 3], ensure: stay tied",
    },
    "tied_tokens_same": {
        "role": "reported",
        "summary": "the same token indices for both: stay tied",
    },
    "tied_tokens_same_ensure": {
        "role": "reported",
        "summary": "the same token indices for both, ensure: stay tied",
    },
    "tied_tokens_different": {
        "role": "reported",
        "summary": "other token indices for each: each learns its own",
    },
    "tied_tokens_different_ensure": {
        "role": "reported",
        "summary": "other token indices for each, ensure: is refused",
    },
    "tied_save_both_by_hand": {
        "role": "remedy",
        "summary": "modules_to_save of both, one weight given to both copies: stay tied",
    },
    "merge_save_embed": {
        "role": "reported",
        "summary": "merge, save and load after modules_to_save=[embed_tokens]",
    },
    "merge_save_embed_ensure": {
        "role": "reported",
        "summary": "merge, save and load after modules_to_save=[embed_tokens], ensure",
    },
    "merge_save_head": {
        "role": "reported",
        "summary": "merge, save and load after modules_to_save=[lm_head]",
    },
    "merge_save_head_ensure": {
        "role": "reported",
        "summary": "merge, save and load after modules_to_save=[lm_head], ensure",
    },
    "merge_save_both": {
        "role": "reported",
        "summary": "merge, save and load after modules_to_save of both",
    },
    "merge_save_both_ensure": {
        "role": "reported",
        "summary": "merge, save and load after modules_to_save of both, ensure",
    },
    "merge_lora_embed": {
        "role": "reported",
        "summary": "merge, save and load after target_modules=[embed_tokens]",
    },
    "merge_lora_embed_ensure": {
        "role": "reported",
        "summary": "merge, save and load after target_modules=[embed_tokens], ensure",
    },
    "merge_lora_head": {
        "role": "reported",
        "summary": "merge, save and load after target_modules=[lm_head]",
    },
    "merge_lora_head_ensure": {
        "role": "reported",
        "summary": "merge, save and load after target_modules=[lm_head], ensure",
    },
    "merge_lora_both": {
        "role": "reported",
        "summary": "merge, save and load after target_modules of both",
    },
    "merge_lora_both_ensure": {
        "role": "reported",
        "summary": "merge, save and load after target_modules of both, ensure",
    },
    "merge_tokens_list": {
        "role": "reported",
        "summary": "merge, save and load after trainable_token_indices=[1, 2, 3]",
    },
    "merge_tokens_same": {
        "role": "reported",
        "summary": "merge, save and load after the same token indices for both",
    },
    "merge_tokens_different": {
        "role": "reported",
        "summary": "merge, save and load after other token indices for each",
    },
    "merge_save_both_untied": {
        "role": "control",
        "summary": "the same with weights that were never tied (modules_to_save)",
    },
    "merge_lora_both_untied": {
        "role": "control",
        "summary": "the same with weights that were never tied (LoRA)",
    },
    "merge_save_both_by_hand": {
        "role": "remedy",
        "summary": "one weight given to both copies of modules_to_save",
    },
    "merge_save_both_config": {
        "role": "remedy",
        "summary": "set config.tie_word_embeddings = False after merging",
    },
    "merge_lora_both_cloned": {
        "role": "remedy",
        "summary": "before merging, give lm_head a copy of its weight and untie the config",
    },
    "merge_lora_both_untied_first": {
        "role": "remedy",
        "summary": "load with tie_word_embeddings=False, copy the weight to lm_head, then adapt",
    },
}

# What is the same calculation by the table.
AGREE = [
    ("untied_save_embed", "untied_save_embed_ensure"),
    ("untied_save_head", "untied_save_head_ensure"),
    ("untied_save_both", "untied_save_both_ensure"),
    ("untied_lora_both", "untied_lora_both_ensure"),
    ("tied_save_both_by_hand", "tied_save_both_ensure"),
    ("tied_save_both_by_hand", "tied_save_embed_ensure"),
    ("tied_save_both_by_hand", "tied_save_head_ensure"),
    ("tied_tokens_list", "tied_tokens_list_ensure"),
    ("tied_tokens_same", "tied_tokens_same_ensure"),
]

EMBED, HEAD = "embed_tokens", "lm_head"
WAYS: dict[str, dict[str, Any]] = {
    "save_embed": {"modules_to_save": [EMBED]},
    "save_head": {"modules_to_save": [HEAD]},
    "save_both": {"modules_to_save": [EMBED, HEAD]},
    "lora_embed": {"target_modules": [EMBED]},
    "lora_head": {"target_modules": [HEAD]},
    "lora_both": {"target_modules": [EMBED, HEAD]},
    "tokens_list": {"trainable_token_indices": [1, 2, 3]},
    "tokens_same": {"trainable_token_indices": {HEAD: [1, 2], EMBED: [1, 2]}},
    "tokens_different": {"trainable_token_indices": {HEAD: [1, 2], EMBED: [3, 4]}},
}
ONE_LAYER = {"embed": EMBED, "list": EMBED, "head": HEAD}
TOKENS, HIDDEN = 16, 8
ROUNDING = 1e-3


def train(variant: str, device: str, steps: int) -> None:
    """Adapt and train a model, and look at what the variant is about."""
    start, kind, layers, *rest = variant.split("_")
    extra = "_".join(rest)
    tied = start != "untied" and extra != "untied"
    model = make_model(tied=tied).to(device)
    if extra == "untied_first":
        untie(model)
    original = copy.deepcopy(model)
    refused = True
    if start == "tied" and layers == "different" and extra == "ensure":
        refused = is_refused(copy.deepcopy(model))
        extra = ""  # what the error message advises
    adapted = peft.get_peft_model(model, make_config(f"{kind}_{layers}", ensure=extra == "ensure"))
    if extra == "by_hand":
        causal = adapted.base_model.model
        head = causal.lm_head.modules_to_save["default"]
        causal.model.embed_tokens.modules_to_save["default"].weight = head.weight
    batch = fit(adapted, device, steps)
    if start == "merge":
        check_what_is_left(adapted, original, batch, extra)
        return
    tie_holds = tied and layers != "different" and (kind == "tokens" or extra != "")
    check_matrices(adapted, original, "both" if tie_holds else ONE_LAYER.get(layers, "both"))
    check_tie(adapted, tied=tie_holds)
    if not refused:
        raise AssertionError("other token indices for tied layers were not refused")


def make_model(*, tied: bool) -> transformers.LlamaForCausalLM:
    """A Llama with one layer, always with the same weights."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=TOKENS,
        hidden_size=HIDDEN,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=tied,
        initializer_range=0.3,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.LlamaForCausalLM(config)


def untie(model: transformers.LlamaForCausalLM) -> None:
    """Give the head a weight of its own, and say so in the config."""
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    model.config.tie_word_embeddings = False


def make_config(way: str, *, ensure: bool) -> peft.LoraConfig:
    """LoRA on `q_proj`, or on the layers that `way` names."""
    options = copy.deepcopy(WAYS[way])  # PEFT changes the list of modules_to_save
    if ensure:
        options["ensure_weight_tying"] = True
    unknown = options.keys() - {field.name for field in dataclasses.fields(peft.LoraConfig)}
    if unknown:
        raise unittest.SkipTest(f"this LoraConfig has no {', '.join(sorted(unknown))}")
    options.setdefault("target_modules", ["q_proj"])
    return peft.LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, task_type="CAUSAL_LM", **options)


def fit(model: peft.PeftModel, device: str, steps: int) -> torch.Tensor:
    """Train on four permutations of all tokens, and return them."""
    chance = torch.Generator().manual_seed(1)
    batch = torch.stack([torch.randperm(TOKENS, generator=chance) for _ in range(4)]).to(device)
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        model(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
    model.eval()
    return batch


def is_refused(model: torch.nn.Module) -> bool:
    """Whether PEFT refuses other indices for each of two layers that are to stay tied."""
    try:
        peft.get_peft_model(model, make_config("tokens_different", ensure=True))
    except ValueError as error:
        return "weight tying" in str(error)
    return False


@torch.no_grad()
def matrices(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """What the embeddings and the head apply, adapter included: one row for each token."""
    causal = model.get_base_model() if isinstance(model, peft.PeftModel) else model
    device = next(causal.parameters()).device
    return {
        EMBED: causal.model.embed_tokens(torch.arange(TOKENS, device=device)),
        HEAD: causal.lm_head(torch.eye(HIDDEN, device=device)).T,
    }


def check_matrices(adapted: torch.nn.Module, original: torch.nn.Module, layers: str) -> None:
    """Raise an error if other layers than `layers` changed."""
    before, after = matrices(original), matrices(adapted)
    wrong = []
    for name in (EMBED, HEAD):
        changed = not torch.allclose(before[name], after[name], atol=1e-5)
        if changed != (layers in (name, "both")):
            wrong.append(f"{name} {'changed' if changed else 'did not change'}")
    if wrong:
        raise AssertionError(", ".join(wrong))


def check_tie(adapted: torch.nn.Module, *, tied: bool) -> None:
    """Raise an error if the embeddings and the head are not tied, or are and should not."""
    after = matrices(adapted)
    equal = torch.allclose(after[EMBED], after[HEAD], atol=1e-5)
    if equal != tied:
        raise AssertionError(f"{EMBED} and {HEAD} are {'tied' if equal else 'not tied any more'}")


def check_what_is_left(
    adapted: peft.PeftModel, original: torch.nn.Module, batch: torch.Tensor, extra: str
) -> None:
    """Save and load the adapter; merge, save and load the model; compare the logits of each."""
    trained = logits(adapted, batch)
    differences = {}
    with tempfile.TemporaryDirectory() as folder:
        adapted.save_pretrained(folder)
        loaded = peft.PeftModel.from_pretrained(original, folder).to(batch.device)
    differences["adapter loaded"] = logits(loaded, batch) - trained
    if extra == "cloned":
        causal = adapted.base_model.model
        head = getattr(causal.lm_head, "base_layer", causal.lm_head)
        head.weight = torch.nn.Parameter(head.weight.detach().clone())
        causal.config.tie_word_embeddings = False
    merged = adapted.merge_and_unload()
    differences["merged"] = logits(merged, batch) - trained
    if extra == "config":
        merged.config.tie_word_embeddings = False
    with tempfile.TemporaryDirectory() as folder:
        merged.save_pretrained(folder)
        loaded = transformers.AutoModelForCausalLM.from_pretrained(folder).to(batch.device)
    differences["merged and loaded"] = logits(loaded, batch) - trained
    off = {name: float(difference.abs().max()) for name, difference in differences.items()}
    if max(off.values()) > ROUNDING:
        said = [
            f"{name}: logits differ by {value:.1g}" if value > ROUNDING else f"{name}: same logits"
            for name, value in off.items()
        ]
        raise AssertionError("; ".join(said))


@torch.no_grad()
def logits(model: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
    """The logits without dropout."""
    return model.eval()(input_ids=batch).logits


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=16)
    train(**vars(parser.parse_args()))
