# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "language"
# field = "mixture of experts"
# source = "https://github.com/davidmrau/mixture-of-experts"
# optimizer = true
# ///
"""A sparse mixture of experts with top-1 routing; one expert receives no token at first."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(3)


class MoE(nn.Module):
    def __init__(self, dim, num_experts):
        super().__init__()
        self.gate = nn.Linear(dim, num_experts)
        with torch.no_grad():
            self.gate.bias[-1] = -20.0  # the last expert is not chosen
        self.experts = nn.ModuleList(
            [nn.Sequential(nn.Linear(dim, 32), nn.SiLU(), nn.Linear(32, dim))
             for _ in range(num_experts)]
        )

    def forward(self, x):
        probs = F.softmax(self.gate(x), dim=-1)
        weight, index = probs.max(dim=-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = (index == i).nonzero().flatten()
            if len(rows):
                out = out.index_add(0, rows, weight[rows, None] * expert(x[rows]))
        return out, index


embed = nn.Linear(10, 16)
moe = MoE(16, num_experts=4)
head = nn.Linear(16, 3)
net = nn.ModuleDict({"embed": embed, "moe": moe, "head": head})
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

x = torch.randn(64, 10)
y = torch.randint(3, (64,))
for step in range(20):
    h = embed(x)
    out, index = moe(h)
    loss = F.cross_entropy(head(h + out), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(f"step {step}: loss {loss.item():.4f}, tokens {index.bincount(minlength=4).tolist()}")
