# cause: frozen
# library

import torch
from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
config = BertConfig(
    vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
)
model = BertForSequenceClassification(config)

config = LoraConfig(r=2, target_modules=["query", "value"], inference_mode=True)  # here
model = get_peft_model(model, config)  # here

optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
tokens, labels = torch.randint(0, 64, (8, 6)), torch.randint(0, 2, (8,))
for step in range(8):
    optimizer.zero_grad()
    model(input_ids=tokens, labels=labels).loss.backward()
    optimizer.step()
