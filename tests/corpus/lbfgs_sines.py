# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "language"
# field = "optimizers"
# source = "https://github.com/pytorch/examples/tree/main/time_sequence_prediction"
# optimizer = true
# ///
"""LBFGS with a closure fits a float64 LSTM cell to sine waves, as in PyTorch's own example."""

import torch
from torch import nn, optim

torch.manual_seed(0)
data = torch.sin(torch.arange(24).double() / 4 + torch.rand(6, 1).double() * 6)


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1 = nn.LSTMCell(1, 12)
        self.linear = nn.Linear(12, 1)

    def forward(self, input):
        outputs = []
        h_t = torch.zeros(input.size(0), 12, dtype=torch.double)
        c_t = torch.zeros(input.size(0), 12, dtype=torch.double)
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            output = self.linear(h_t)
            outputs += [output]
        return torch.cat(outputs, dim=1)


seq = Sequence()
seq.double()
criterion = nn.MSELoss()
# use LBFGS as optimizer since we can load the whole data to train
optimizer = optim.LBFGS(seq.parameters(), lr=0.5, max_iter=4)
for i in range(7):

    def closure():
        optimizer.zero_grad()
        out = seq(data[:, :-1])
        loss = criterion(out, data[:, 1:])
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    print(f"STEP {i}: loss {loss.item():.5f}")
