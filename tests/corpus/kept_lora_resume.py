# /// script
# dependencies = ["transformers", "peft"]
# [tool.corpus]
# environment = "language"
# field = "language models, adapters"
# source = "https://huggingface.co/docs/peft/main/en/quicktour"
# optimizer = true
# kept_out = true
# ///
"""A LoRA adapter is trained, saved, loaded again and trained further on new text."""

import tempfile

import torch
from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, set_seed

set_seed(42)
config = LlamaConfig(
    vocab_size=128,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=64,
)
base = LlamaForCausalLM(config)
base_path = tempfile.mkdtemp()
base.save_pretrained(base_path)


def train(model, corpus, epochs, lr=3e-3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    model.train()
    for epoch in range(epochs):
        total_loss = 0
        for batch in corpus.split(4):
            outputs = model(input_ids=batch, labels=batch)
            loss = outputs.loss
            total_loss += loss.detach().float()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(f"epoch {epoch}: train_ppl={torch.exp(total_loss / len(corpus.split(4))):.2f}")


peft_config = LoraConfig(
    task_type=TaskType.CAUSAL_LM,
    r=4,
    lora_alpha=16,
    lora_dropout=0.0,
    target_modules=["q_proj", "v_proj"],
)
model = get_peft_model(base, peft_config)
model.print_trainable_parameters()
train(model, torch.randint(0, 64, (8, 16)), epochs=2)
adapter_path = tempfile.mkdtemp()
model.save_pretrained(adapter_path)

# next day: go on with the new documents
base = LlamaForCausalLM.from_pretrained(base_path)
model = PeftModel.from_pretrained(base, adapter_path, is_trainable=True)
train(model, torch.randint(64, 128, (16, 16)), epochs=3)
