# cause: nonfinite-output
# says: A mask filled these rows at mask_the_wrong_way_round.py:17, forward

import torch
from torch import nn

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x, padding):
        scores = self.query(x) @ self.key(x).transpose(1, 2) * 8**-0.5
        hidden = scores.masked_fill(~padding[:, None, :], float("-inf"))  # here
        return (hidden + ahead(5)).softmax(-1) @ self.value(x)


def ahead(length):
    mask = torch.zeros(length, length)
    mask[torch.ones(length, length).triu(1) > 0] = float("-inf")
    return mask


model, last = Attention(), nn.Linear(8, 2)
optimizer = torch.optim.Adam([*model.parameters(), *last.parameters()], lr=0.001)
ids = torch.tensor([[3, 2, 4, 1, 2], [2, 1, 0, 0, 0]])
x, y = torch.randn(2, 5, 8), torch.randint(0, 2, (2, 5))
for _ in range(8):
    optimizer.zero_grad()
    scores = last(model(x, ids == 0))
    nn.functional.cross_entropy(scores.flatten(0, 1), y.flatten()).backward()
    optimizer.step()
