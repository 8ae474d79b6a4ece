# cause: checkpoint-inputs
# says: reentrant checkpoint

import torch
from torch import nn
from transformers import BertConfig, BertModel

torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
body = BertModel(BertConfig(vocab_size=40, intermediate_size=32, **sizes))
body.embeddings.requires_grad_(False)
body.gradient_checkpointing_enable({"use_reentrant": True})  # here
body.train()
head = nn.Linear(16, 3)
optimizer = torch.optim.AdamW([*body.encoder.parameters(), *head.parameters()], lr=1e-2)
inputs, labels = torch.randn(16, 6, 16), torch.randint(3, (16,))
for step in range(8):
    optimizer.zero_grad()
    states = body(inputs_embeds=inputs).last_hidden_state
    nn.functional.cross_entropy(head(states[:, 0]), labels).backward()
    optimizer.step()
