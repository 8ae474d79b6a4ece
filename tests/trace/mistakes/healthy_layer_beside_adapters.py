# healthy
# library
# says: `base_model.model.cls`: get_peft_model froze this layer
# says: modules_to_save

import torch
from peft import LoraConfig, get_peft_model
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(8, 8)
        self.cls = nn.Linear(8, 3)

    def forward(self, x):
        return self.cls(self.query(x).relu())


model = get_peft_model(Classifier(), LoraConfig(r=2, target_modules=["query"]))
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3)
for _ in range(6):
    loss = nn.functional.cross_entropy(model(torch.randn(6, 8)), torch.randint(3, (6,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
