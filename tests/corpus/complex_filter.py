# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "language"
# field = "complex numbers"
# source = "https://docs.pytorch.org/docs/stable/complex_numbers.html"
# optimizer = true
# ///
"""A complex filter in the frequency domain learns an impulse response in double precision."""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)


class Filter(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.response = nn.Parameter(torch.randn(n // 2 + 1, dtype=torch.complex128) * 0.1)
        self.gain = nn.Parameter(torch.ones(()))

    def forward(self, signal):
        spectrum = torch.fft.rfft(signal) * self.response
        return self.gain * torch.fft.irfft(spectrum, n=signal.size(-1))


n = 32
kernel = torch.zeros(n)
kernel[:4] = torch.tensor([0.5, 0.3, -0.2, 0.1])
signals = torch.randn(64, n)
targets = torch.fft.irfft(torch.fft.rfft(signals) * torch.fft.rfft(kernel), n=n)
model = Filter(n)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for step in range(30):
    optimizer.zero_grad()
    error = model(signals) - targets
    loss = error.square().mean() + 1e-3 * model.response.abs().square().mean()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.6f}")
