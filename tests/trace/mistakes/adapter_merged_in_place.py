# cause: frozen
# says: Call unmerge_adapter()

import torch
from peft import LoraConfig, get_peft_model
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
body = BertForSequenceClassification(BertConfig(vocab_size=40, intermediate_size=32, **sizes))
model = get_peft_model(body, LoraConfig(r=2, target_modules=["query", "value"]))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
tokens, labels = torch.randint(40, (8, 6)), torch.randint(2, (8,))
model.merge_adapter()  # here
for step in range(4):
    optimizer.zero_grad()
    model(input_ids=tokens, labels=labels).loss.backward()
    optimizer.step()
