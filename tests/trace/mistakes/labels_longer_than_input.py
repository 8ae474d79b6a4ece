# cause: nonfinite-output
# says: An input has 6 steps, and its labels need 7.

import torch
from torch import nn

torch.manual_seed(0)
sound = torch.randn(4, 8, 24)
labels = torch.tensor([1, 2, 3, 1, 1, 2, 3, 4, 3, 4, 2, 1, 1])
lengths = torch.tensor([3, 1, 3, 6])


class Speech(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv1d(8, 16, 3, stride=4, padding=1)
        self.classes = nn.Linear(16, 5)

    def forward(self, sound):
        hidden = torch.relu(self.down(sound)).permute(2, 0, 1)
        return self.classes(hidden).log_softmax(-1)


model = Speech()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for step in range(8):
    optimizer.zero_grad()
    scores = model(sound)
    steps = torch.full((4,), scores.shape[0])
    loss = nn.functional.ctc_loss(scores, labels, steps, target_lengths=lengths)  # here
    loss.backward()
    optimizer.step()
