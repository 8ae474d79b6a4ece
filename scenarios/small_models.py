"""Step times at a real size.

The models of the other scenarios are tiny: their steps per second are what the frameworks add to a
step. Here the arithmetic is most of a step, so that a release with slower kernels, another
attention or an optimizer that takes more memory is seen. Plain PyTorch loops, float32, AdamW, one
random batch; random weights from a config, so nothing is downloaded.

- `t5_small`: the shape of T5-small (60.5 million parameters), a row of 128 tokens in and 32 out:
  160 tokens in a step.
- `qwen2_4_layers`: 4 layers with the shape of those of Qwen2-0.5B and 8,192 of its 151,936 tokens
  (67 million parameters; with all tokens 196 million, most of them in the embeddings), a row of 128
  tokens in a step. `qwen2_4_layers_lora` trains only a LoRA of rank 8 on the attention.

Tokens per second are steps per second times the tokens in a step. One thread, unless `threads` in
matrix.toml says otherwise. Batches of a real training are larger: with one thread a cell must end
within two minutes. With PyTorch 2.13.0 a step takes 0.5 (LoRA) to 1.1 s of a core of 2026, and the
process 0.7 to 1.6 GB.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

NEEDS = ("torch", "transformers")

VARIANTS = {
    "t5_small": {"role": "control", "summary": "T5-small, 160 tokens in a step"},
    "qwen2_4_layers": {
        "role": "control",
        "summary": "4 layers of Qwen2-0.5B, 128 tokens in a step",
        "needs": ("torch", "transformers>=4.37"),
    },
    "qwen2_4_layers_lora": {
        "role": "control",
        "summary": "the same with LoRA on the attention",
        "needs": ("torch", "transformers>=4.37", "peft"),
    },
}

AGREE = [("qwen2_4_layers", "qwen2_4_layers_lora", {"only": "first loss"})]  # it adds A times B = 0

VOCABULARY = 8192


def train(variant: str, device: str, steps: int) -> None:
    """Train for `steps` optimizer steps on one batch."""
    torch.manual_seed(0)
    model = build_t5() if variant == "t5_small" else build_qwen2(variant)
    model.to(device).train()
    tokens = torch.Generator().manual_seed(0)  # of its own: LoRA's weights draw from the other one
    input_ids, labels = (
        torch.randint(2, VOCABULARY, shape, generator=tokens).to(device)
        for shape in (((1, 128), (1, 32)) if variant == "t5_small" else ((1, 128), (1, 128)))
    )
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-4)
    for _ in range(steps):
        model(input_ids=input_ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def build_t5() -> Any:
    """T5 in the shape of T5-small, which are the defaults of its config."""
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration(T5Config(decoder_start_token_id=0))


def build_qwen2(variant: str) -> Any:
    """Qwen2 with 4 layers in the shape of those of Qwen2-0.5B."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=4,
        num_attention_heads=14,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        use_cache=False,
    )
    model = Qwen2ForCausalLM(config)
    if variant == "qwen2_4_layers_lora":
        import peft

        attention = ["q_proj", "k_proj", "v_proj", "o_proj"]
        lora = peft.LoraConfig(task_type="CAUSAL_LM", r=8, lora_alpha=16, target_modules=attention)
        return peft.get_peft_model(model, lora)
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=20)
    train(**vars(parser.parse_args()))
