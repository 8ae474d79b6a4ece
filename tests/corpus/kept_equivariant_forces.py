# /// script
# dependencies = ["e3nn"]
# [tool.corpus]
# environment = "science"
# field = "molecules, equivariant networks"
# source = "https://docs.e3nn.org/en/latest/guide/convolution.html"
# optimizer = false
# kept_out = true
# ///
"""An equivariant energy model of e3nn is fitted to forces, with a home-made Adam."""

import torch
from e3nn import nn as enn
from e3nn import o3


class MyAdam:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), eps=1e-8):
        self.params = list(params)
        self.lr, self.betas, self.eps, self.t = lr, betas, eps, 0
        self.m = [torch.zeros_like(p) for p in self.params]
        self.v = [torch.zeros_like(p) for p in self.params]

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        for p, m, v in zip(self.params, self.m, self.v):
            if p.grad is None:
                continue
            m.lerp_(p.grad, 1 - b1)
            v.lerp_(p.grad**2, 1 - b2)
            m_hat, v_hat = m / (1 - b1**self.t), v / (1 - b2**self.t)
            p -= self.lr * m_hat / (v_hat.sqrt() + self.eps)


class Energy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.irreps_sh = o3.Irreps.spherical_harmonics(2)
        self.tp = o3.FullyConnectedTensorProduct(self.irreps_sh, self.irreps_sh, "8x0e")
        self.fc = enn.FullyConnectedNet([8, 16, 1], torch.nn.functional.silu)

    def forward(self, pos):
        vec = pos[:, None] - pos[None, :]
        vec = vec[~torch.eye(len(pos), dtype=torch.bool)]
        sh = o3.spherical_harmonics(self.irreps_sh, vec, normalize=False)
        return self.fc(self.tp(sh, sh)).sum()


torch.manual_seed(0)
geometries = 0.6 * torch.randn(6, 4, 3)
forces = -geometries + geometries.mean(1, keepdim=True)
model = Energy()
optimizer = MyAdam(model.parameters(), lr=1e-2)
for epoch in range(6):
    total = 0.0
    for pos, target in zip(geometries, forces):
        pos = pos.clone().requires_grad_(True)
        energy = model(pos)
        (grad,) = torch.autograd.grad(energy, pos, create_graph=True)
        loss = ((-grad - target) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(epoch, round(total / len(geometries), 5))
