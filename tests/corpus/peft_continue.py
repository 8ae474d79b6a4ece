# /// script
# dependencies = ["peft", "transformers"]
# [tool.corpus]
# environment = "language"
# field = "parameter-efficient fine-tuning"
# source = "https://huggingface.co/docs/peft/tutorial/peft_model_config"
# optimizer = true
# ///
"""A saved LoRA adapter of a small OPT is loaded again and trained further, then merged."""

import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import OPTConfig, OPTForCausalLM

config = OPTConfig(
    vocab_size=70, hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=2,
    max_position_embeddings=32, word_embed_proj_dim=32, dropout=0.0, pad_token_id=1,
)


def base_model():
    torch.manual_seed(5)
    return OPTForCausalLM(config)


def train(model, steps):
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable or model.parameters(), lr=5e-3)
    model.train()
    for step in range(steps):
        tokens = torch.randint(4, 70, (8, 1)) + torch.arange(12)
        tokens = tokens % 66 + 4
        loss = model(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


lora = LoraConfig(
    r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"
)
with tempfile.TemporaryDirectory() as folder:
    model = get_peft_model(base_model(), lora)
    print(f"first run: loss {train(model, 4):.3f}")
    model.save_pretrained(folder)
    model = PeftModel.from_pretrained(base_model(), folder, is_trainable=True)
print(f"second run: loss {train(model, 10):.3f}")
merged = model.merge_and_unload()
print(f"merged: {sum(p.numel() for p in merged.parameters())} parameters")
