# healthy

import torch
from peft import LoraConfig, get_peft_model
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
model = BertForSequenceClassification(BertConfig(vocab_size=40, intermediate_size=32, **sizes))
tokens, labels = torch.randint(40, (8, 6)), torch.randint(2, (8,))
settings = LoraConfig(r=2, target_modules=["query", "value"], task_type="SEQ_CLS")
for stage in range(2):
    model = get_peft_model(model, settings)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(6):
        optimizer.zero_grad()
        model(input_ids=tokens, labels=labels).loss.backward()
        optimizer.step()
    model = model.merge_and_unload()
