# cause: nonfinite-output
# says: Such a row is masked everywhere

import torch
from torch import nn

torch.manual_seed(0)
frames, labels = torch.randn(4, 6, 8), torch.randint(0, 3, (4, 6))
padding = torch.arange(6) >= torch.tensor([6, 4, 5, 3])[:, None]
labels[padding] = -100


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.keys, self.values = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, frames, padding):
        scores = self.keys(frames) @ frames.transpose(1, 2)
        either = padding[:, :, None] | padding[:, None, :]
        weights = scores.masked_fill(either, float("-inf")).softmax(-1)  # here
        return weights @ self.values(frames)


mixer, last = Mixer(), nn.Linear(8, 3)
optimizer = torch.optim.Adam([*mixer.parameters(), *last.parameters()], lr=0.001)
for step in range(8):
    optimizer.zero_grad()
    scores = last(frames + mixer(frames, padding))
    nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten()).backward()
    optimizer.step()
