# /// script
# dependencies = ["peft", "transformers"]
# [tool.corpus]
# environment = "language"
# field = "parameter-efficient fine-tuning"
# source = "https://huggingface.co/docs/peft/task_guides/lora_based_methods"
# optimizer = true
# ///
"""LoRA on a small RoBERTa classifier; the new head is trained beside the adapters."""

import torch
from peft import LoraConfig, TaskType, get_peft_model
from transformers import RobertaConfig, RobertaForSequenceClassification

torch.manual_seed(0)
config = RobertaConfig(
    vocab_size=90, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
    intermediate_size=64, max_position_embeddings=24, num_labels=2,
)
model = RobertaForSequenceClassification(config)
peft_config = LoraConfig(
    task_type=TaskType.SEQ_CLS,
    inference_mode=False,
    r=8,
    lora_alpha=16,
    lora_dropout=0.0,
    target_modules=["query", "value"],
)
model = get_peft_model(model, peft_config)
model.print_trainable_parameters()

optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
model.train()
for step in range(16):
    input_ids = torch.randint(3, 90, (16, 12))
    labels = (input_ids[:, 1] > 45).long()
    loss = model(input_ids=input_ids, labels=labels).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 5 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
