# cause: other-parameters frozen
# says: Call set_adapter('second')

import torch
from peft import LoraConfig, get_peft_model
from transformers import BertConfig, BertModel

torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
body = BertModel(BertConfig(vocab_size=40, intermediate_size=32, **sizes))
settings = LoraConfig(target_modules=["query", "value"])
model = get_peft_model(body, settings, adapter_name="first")
head = torch.nn.Linear(16, 3)
model.add_adapter("second", settings)
second = [p for name, p in model.named_parameters() if ".second." in name]
optimizer = torch.optim.AdamW([*second, *head.parameters()], lr=1e-2)  # here
ids, labels = torch.randint(40, (16, 6)), torch.randint(3, (16,))
for step in range(8):
    optimizer.zero_grad()
    states = model(input_ids=ids).last_hidden_state
    torch.nn.functional.cross_entropy(head(states[:, 0]), labels).backward()
    optimizer.step()
