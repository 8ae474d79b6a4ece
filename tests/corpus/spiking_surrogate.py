# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "science"
# field = "Spiking networks"
# source = "https://github.com/fzenke/spytorch/blob/main/notebooks/SpyTorchTutorial1.ipynb"
# optimizer = true
# ///
"""A spiking network: a custom autograd Function gives the threshold a surrogate gradient."""

import torch
import torch.nn as nn

torch.manual_seed(0)
batch_size, nb_steps, nb_inputs, nb_hidden = 64, 20, 30, 20
y_data = torch.randint(2, (batch_size,))
rates = torch.rand(2, nb_inputs)[y_data] * 0.4
x_data = (torch.rand(nb_steps, batch_size, nb_inputs) < rates).float()


class SurrGradSpike(torch.autograd.Function):
    """The spiking nonlinearity, with the derivative of a fast sigmoid."""

    scale = 10.0

    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        out = torch.zeros_like(input)
        out[input > 0] = 1.0
        return out

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        grad = grad_output / (SurrGradSpike.scale * torch.abs(input) + 1.0) ** 2
        return grad


spike_fn = SurrGradSpike.apply


class SpikingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Linear(nb_inputs, nb_hidden, bias=False)
        self.w2 = nn.Linear(nb_hidden, 2, bias=False)

    def forward(self, inputs):
        mem = torch.zeros(batch_size, nb_hidden)
        syn = torch.zeros(batch_size, nb_hidden)
        readout = torch.zeros(batch_size, 2)
        for x in inputs:
            out = spike_fn(mem - 1.0)
            syn = 0.8 * syn + self.w1(x)
            mem = (0.9 * mem + syn) * (1.0 - out.detach())
            readout = 0.9 * readout + self.w2(out)
        return readout


model = SpikingNet()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loss_fn = nn.CrossEntropyLoss()

for e in range(30):
    loss = loss_fn(model(x_data), y_data)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if e % 10 == 0:
        print(f"{e}: loss {loss.item():.4f}")
