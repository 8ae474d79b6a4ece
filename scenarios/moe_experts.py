"""LoRA on the experts of a mixture of experts: what was asked for, and what got an adapter.

In Transformers 4 each expert is a module of Linear layers. In Transformers 5 the weights of all
experts of a layer are two parameters, and the modules are gone. PEFT issue 3009: LoRA by names of
layers misses them. PEFT issue 2527 asks for LoRA on such parameters; since PEFT 0.17 that is
`target_parameters`. TRL issue 5222: DPOTrainer cannot copy an adapter of that kind. PEFT issue 3711
and pull request 3715: for a name that means both experts and Linear layers, only one of the two is
adapted. PEFT raises an error only if none of the names matches (pull request 3603).

The models are a Qwen2-MoE (a dense layer, then one of experts with a shared expert), a Qwen3-MoE (a
dense layer, then one of experts) and a Mixtral (experts only). Each token goes to every expert, so
that each gets a gradient. After training, the script compares what was asked for with what has an
adapter, and raises "asked for and not adapted" if something is missing: step:exception.

- `names`: LoRA on the attention, and on the experts and MLPs by the names of Transformers 4.
  `names_unchecked` is the same without the comparison: if it trains where `names` raises, nobody
  says that a part of what was asked for stays frozen.
- `names_only`: without the attention, so that the names may match nothing. `half`: `gate_proj`
  without `up_proj`, which is in the same parameter in Transformers 5. Both are unchecked.
- `shared`, `dense`: only the shared expert, or only the dense layer, by names such as
  `mlp.gate_proj`.
- `all_linear`: every Linear layer, which is to include the experts.
- `parameters`: LoRA on the attention, and `target_parameters` for the experts. `all_parameters`:
  for the shared expert and the dense layer too.
- `dpo_wrapped`: TRL's DPOTrainer makes its reference from a PeftModel with `target_parameters`.
  `dpo_config` gives it the model and the LoRA config in its place.

What the measurement shows
(CPU; Transformers 4.39.3 to 4.57.6, 5.4.0 and 5.23.0; PEFT 0.10.0 to 0.21.2)

- Transformers 4: names and `all-linear` adapt the experts, the shared expert and the dense layer.
  `parameters` names what only Transformers 5 has: PEFT (0.17.1 to 0.20.0) warns that no parameter
  was matched, and the experts stay as they are.
- Transformers 5.4.0 with PEFT 0.18.1: names and `all-linear` miss the routed experts of all three
  models. The script trains without a word about it. Only where no name matches does PEFT raise.
  `target_parameters` adapts them. DPOTrainer (TRL 1.0.0) crashes on a PeftModel that has it.
- Transformers 5.23.0 with PEFT 0.21.2, which translates names into parameters: Mixtral is adapted
  as asked. Qwen3-MoE's experts are adapted, and its dense layer is not. If only the dense layer is
  asked for, the experts are adapted in its place. One half of a fused pair is an error.
- Qwen2-MoE is not translated: with PEFT 0.21.2 as well its experts are missed without a word. PEFT
  looks its type up in a table of Transformers, which has it in 5.4.0 and no longer in 5.23.0.
- For Mixtral, PEFT 0.21.2 warns that `rank_pattern` matched nothing and was ignored. It did match:
  the rank of the fused pair is twice that of the others.
- `all_parameters` adapts everything with each PEFT that has `target_parameters`, and on both
  Transformers: where experts are Linear layers, `gate_proj.weight` means theirs.
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

import peft
import torch
import transformers

NEEDS = ("torch", "transformers>=4.36", "peft>=0.8")

VARIANTS = {
    "qwen2_full": {
        "role": "control",
        "summary": "Qwen2-MoE, full fine-tune",
        "needs": ("torch", "transformers>=4.40", "peft>=0.8"),
    },
    "qwen2_attention": {
        "role": "control",
        "summary": "Qwen2-MoE, LoRA on the attention only",
        "needs": ("torch", "transformers>=4.40", "peft>=0.8"),
    },
    "qwen2_names": {
        "role": "reported",
        "summary": "Qwen2-MoE, LoRA on the attention, gate_proj, up_proj and down_proj",
        "needs": ("torch", "transformers>=4.40", "peft>=0.8"),
    },
    "qwen2_names_unchecked": {
        "role": "reported",
        "summary": "qwen2_names, and nobody looks at what was adapted",
        "needs": ("torch", "transformers>=4.40", "peft>=0.8"),
    },
    "qwen2_all_linear": {
        "role": "reported",
        "summary": "Qwen2-MoE, target_modules='all-linear'",
        "needs": ("torch", "transformers>=4.40", "peft>=0.8"),
    },
    "qwen2_shared": {
        "role": "reported",
        "summary": "Qwen2-MoE, LoRA on shared_expert.gate_proj, .up_proj and .down_proj",
        "needs": ("torch", "transformers>=4.40", "peft>=0.8"),
    },
    "qwen2_parameters": {
        "role": "remedy",
        "summary": "Qwen2-MoE, target_parameters for the routed experts",
        "needs": ("torch", "transformers>=4.40", "peft>=0.17"),
    },
    "qwen2_all_parameters": {
        "role": "remedy",
        "summary": "Qwen2-MoE, target_parameters for routed, shared and dense weights",
        "needs": ("torch", "transformers>=4.40", "peft>=0.17"),
    },
    "qwen3_full": {
        "role": "control",
        "summary": "Qwen3-MoE, full fine-tune",
        "needs": ("torch", "transformers>=4.51", "peft>=0.8"),
    },
    "qwen3_attention": {
        "role": "control",
        "summary": "Qwen3-MoE, LoRA on the attention only",
        "needs": ("torch", "transformers>=4.51", "peft>=0.8"),
    },
    "qwen3_names": {
        "role": "reported",
        "summary": "Qwen3-MoE, LoRA on the attention, gate_proj, up_proj and down_proj",
        "needs": ("torch", "transformers>=4.51", "peft>=0.8"),
    },
    "qwen3_names_unchecked": {
        "role": "reported",
        "summary": "qwen3_names, and nobody looks at what was adapted",
        "needs": ("torch", "transformers>=4.51", "peft>=0.8"),
    },
    "qwen3_half": {
        "role": "reported",
        "summary": "Qwen3-MoE, LoRA on the attention and gate_proj, not on up_proj; unchecked",
        "needs": ("torch", "transformers>=4.51", "peft>=0.8"),
    },
    "qwen3_all_linear": {
        "role": "reported",
        "summary": "Qwen3-MoE, target_modules='all-linear'",
        "needs": ("torch", "transformers>=4.51", "peft>=0.8"),
    },
    "qwen3_dense": {
        "role": "reported",
        "summary": "Qwen3-MoE, LoRA on the dense mlp.gate_proj, .up_proj and .down_proj",
        "needs": ("torch", "transformers>=4.51", "peft>=0.8"),
    },
    "qwen3_parameters": {
        "role": "remedy",
        "summary": "Qwen3-MoE, target_parameters for the routed experts",
        "needs": ("torch", "transformers>=4.51", "peft>=0.17"),
    },
    "qwen3_all_parameters": {
        "role": "remedy",
        "summary": "Qwen3-MoE, target_parameters for routed and dense weights",
        "needs": ("torch", "transformers>=4.51", "peft>=0.17"),
    },
    "qwen3_dpo_wrapped": {
        "role": "reported",
        "summary": "TRL's DPOTrainer gets a PeftModel with target_parameters",
        "needs": ("torch", "transformers>=5", "peft>=0.17", "trl"),
    },
    "qwen3_dpo_config": {
        "role": "remedy",
        "summary": "TRL's DPOTrainer gets the model and the LoRA config with target_parameters",
        "needs": ("torch", "transformers>=5", "peft>=0.17", "trl"),
    },
    "mixtral_full": {"role": "control", "summary": "Mixtral, full fine-tune"},
    "mixtral_attention": {"role": "control", "summary": "Mixtral, LoRA on the attention only"},
    "mixtral_names": {
        "role": "reported",
        "summary": "Mixtral, LoRA on the attention, w1, w2 and w3",
    },
    "mixtral_names_unchecked": {
        "role": "reported",
        "summary": "mixtral_names, and nobody looks at what was adapted",
    },
    "mixtral_names_only": {
        "role": "reported",
        "summary": "Mixtral, LoRA on w1, w2 and w3, not on the attention; unchecked",
    },
    "mixtral_all_linear": {"role": "reported", "summary": "Mixtral, target_modules='all-linear'"},
    "mixtral_parameters": {
        "role": "remedy",
        "summary": "Mixtral, target_parameters for the routed experts",
        "needs": ("torch", "transformers>=4.36", "peft>=0.17"),
    },
}

# A new adapter adds nothing, so the first loss is that of the bare model.
AGREE = [
    ("qwen2_full", "qwen2_attention", {"only": "first loss"}),
    ("qwen2_full", "qwen2_names", {"only": "first loss"}),
    ("qwen2_full", "qwen2_parameters", {"only": "first loss"}),
    ("qwen3_full", "qwen3_attention", {"only": "first loss"}),
    ("qwen3_full", "qwen3_names", {"only": "first loss"}),
    ("qwen3_full", "qwen3_parameters", {"only": "first loss"}),
    ("mixtral_full", "mixtral_attention", {"only": "first loss"}),
    ("mixtral_full", "mixtral_names", {"only": "first loss"}),
    ("mixtral_full", "mixtral_parameters", {"only": "first loss"}),
]

ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
MLP = {
    "qwen2": ["gate_proj", "up_proj", "down_proj"],
    "qwen3": ["gate_proj", "up_proj", "down_proj"],
    "mixtral": ["w1", "w2", "w3"],
}
FUSED = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
UNCHECKED = ("full", "attention", "names_unchecked", "names_only", "half")
VOCABULARY = 64
PARTS = {
    "routed experts": (".experts.",),
    "shared expert": (".shared_expert.",),
    "dense layer": (".mlp.gate_proj.", ".mlp.up_proj.", ".mlp.down_proj."),
}
"""The parts of a model, and what the names of their weights contain."""


def train(variant: str, device: str, steps: int) -> None:
    """Train what ``variant`` names for ``steps`` steps."""
    name, _, method = variant.partition("_")
    torch.manual_seed(0)
    model = make_model(name).to(device)
    if method.startswith("dpo"):
        train_dpo(model, method, device, steps)
        return
    weights = [weight for weight, _ in model.named_parameters()]
    if method != "full":
        model = peft.get_peft_model(model, lora(name, method))
    ids = torch.randint(0, VOCABULARY, (4, 16), generator=torch.Generator().manual_seed(1))
    ids = ids.to(device)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
    if method not in UNCHECKED:
        check(model, weights, asked_for(method))


def make_model(name: str) -> torch.nn.Module:
    """Two layers and two experts, both of which see each token.

    The first layer of the Qwen models is dense.
    """
    shared: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "num_experts_per_tok": 2,
        "tie_word_embeddings": False,
        "use_cache": False,
    }
    if name == "mixtral":
        config = transformers.MixtralConfig(**shared, intermediate_size=24, num_local_experts=2)
        return transformers.MixtralForCausalLM(config)
    shared.update(intermediate_size=24, moe_intermediate_size=8, num_experts=2, mlp_only_layers=[0])
    if name == "qwen2":
        config = transformers.Qwen2MoeConfig(**shared, shared_expert_intermediate_size=8)
        return transformers.Qwen2MoeForCausalLM(config)
    return transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**shared, head_dim=8))


def lora(name: str, method: str) -> peft.LoraConfig:
    """The LoRA that ``method`` asks for."""
    options: dict[str, Any] = {
        "attention": {"target_modules": ATTENTION},
        "names": {"target_modules": ATTENTION + MLP[name]},
        "names_unchecked": {"target_modules": ATTENTION + MLP[name]},
        "names_only": {"target_modules": MLP[name]},
        "half": {"target_modules": [*ATTENTION, "gate_proj"]},
        "all_linear": {"target_modules": "all-linear"},
        "dense": {"target_modules": [f"mlp.{leaf}" for leaf in MLP[name]]},
        "shared": {"target_modules": [f"shared_expert.{leaf}" for leaf in MLP[name]]},
        "parameters": {"target_modules": ATTENTION, "target_parameters": FUSED},
        "all_parameters": {
            "target_modules": ATTENTION,
            "target_parameters": FUSED + [f"{leaf}.weight" for leaf in MLP[name]],
        },
    }[method]
    return peft.LoraConfig(r=4, lora_alpha=8, task_type="CAUSAL_LM", **options)


def asked_for(method: str) -> set[str]:
    """The parts of the model that ``method`` asks to adapt."""
    parts = {"parameters": "routed experts", "shared": "shared expert", "dense": "dense layer"}
    return {parts[method]} if method in parts else set(PARTS)


def check(model: torch.nn.Module, weights: list[str], asked: set[str]) -> None:
    """Raise if an adapter is missing, or is where none was asked for."""
    adapted = adapted_weights(model)
    missing, unasked = [], []
    for part, words in PARTS.items():
        exists = [weight for weight in weights if any(word in weight for word in words)]
        found = [weight for weight in exists if weight in adapted]
        if part in asked and len(found) < len(exists):
            missing.append(f"{part} ({len(found)} of {len(exists)} weights are)")
        if part not in asked and found:
            unasked.append(part)
    if missing or unasked:
        raise RuntimeError(
            f"asked for and not adapted: {', '.join(missing) or 'nothing'}; "
            f"adapted and not asked for: {', '.join(unasked) or 'nothing'}"
        )


def adapted_weights(model: torch.nn.Module) -> set[str]:
    """The weights that have an adapter, by their names in the bare model."""
    names = set()
    for name, layer in model.named_modules():
        if isinstance(layer, peft.tuners.lora.LoraLayer):
            place = name.removeprefix("base_model.model.").replace(".base_layer", "")
            names.add(f"{place}.{getattr(layer, 'parameter_name', 'weight')}")
    return names


def train_dpo(model: torch.nn.Module, method: str, device: str, steps: int) -> None:
    """Train with TRL's DPOTrainer, which is to make the reference model itself."""
    import datasets
    import trl

    config = lora("qwen3", "parameters")
    rows = {"prompt": ["w1 w2"] * 4, "chosen": [" w3 w4"] * 4, "rejected": [" w5 w6"] * 4}
    with tempfile.TemporaryDirectory() as folder:
        trl.DPOTrainer(
            model=peft.get_peft_model(model, config) if method == "dpo_wrapped" else model,
            peft_config=None if method == "dpo_wrapped" else config,
            args=trl.DPOConfig(
                output_dir=folder,
                max_steps=steps,
                per_device_train_batch_size=4,
                learning_rate=1e-2,
                lr_scheduler_type="constant",
                max_grad_norm=0.0,
                gradient_checkpointing=False,
                bf16=False,
                report_to=[],
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
                use_cpu=device == "cpu",
            ),
            train_dataset=datasets.Dataset.from_dict(rows),
            processing_class=make_tokenizer(),
        ).train()


def make_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """Make a tokenizer of the words w0, w1, ... and the special tokens a trainer asks for."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    words = [*special.values(), *(f"w{i}" for i in range(VOCABULARY - len(special)))]
    tokens = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
    tokens.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        **special,
        model_input_names=["input_ids", "attention_mask"],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=16)
    train(**vars(parser.parse_args()))
