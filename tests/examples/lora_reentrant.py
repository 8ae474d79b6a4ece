"""LoRA with gradient checkpointing of the reentrant kind (transformers 4.35 and newer, before 5)."""

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM

torch.manual_seed(0)
config = Qwen2Config(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    use_cache=False,
)
model = get_peft_model(
    Qwen2ForCausalLM(config), LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "v_proj"])
)
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
model.train()

optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3)
input_ids = torch.randint(64, (4, 12))
for step in range(10):
    loss = model(input_ids=input_ids, labels=input_ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: {loss.item():.4f}")
