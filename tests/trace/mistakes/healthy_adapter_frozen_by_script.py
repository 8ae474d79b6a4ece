# healthy
# says: the script freezes its adapter at healthy_adapter_frozen_by_script.py:17 (4 parameters)

import torch
from peft import LoraConfig, get_peft_model
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
config = BertConfig(vocab_size=40, intermediate_size=32, max_position_embeddings=16, **sizes)
settings = LoraConfig(target_modules=["query", "value"], task_type="SEQ_CLS")
model = get_peft_model(BertForSequenceClassification(config), settings)
for name, parameter in model.named_parameters():
    if "classifier" in name and parameter.requires_grad:
        parameter.requires_grad = True
    else:
        parameter.requires_grad = False
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
ids, labels = torch.randint(40, (16, 6)), torch.randint(2, (16,))
for step in range(8):
    optimizer.zero_grad()
    model(input_ids=ids, labels=labels).loss.backward()
    optimizer.step()
