# /// script
# dependencies = ["e3nn"]
# [tool.corpus]
# environment = "science"
# field = "Equivariant networks"
# source = "https://docs.e3nn.org/en/latest/api/o3/o3_tp.html"
# optimizer = true
# ///
"""An equivariant network of e3nn tells small point clouds apart, however they are rotated."""

import torch
from e3nn import o3
from e3nn.nn import Gate

torch.manual_seed(0)
shapes = torch.tensor(
    [
        [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]],  # square
        [[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 0, 3]],  # line
        [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]],  # corner
    ],
    dtype=torch.get_default_dtype(),
)
labels = torch.arange(3).repeat(8)


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.irreps_sh = o3.Irreps.spherical_harmonics(2)
        self.gate = Gate("8x0e", [torch.tanh], "4x0e", [torch.sigmoid], "4x1o")
        self.lin = o3.Linear(self.irreps_sh, self.gate.irreps_in)
        self.tp = o3.FullyConnectedTensorProduct(
            self.gate.irreps_out, self.irreps_sh, "16x0e", shared_weights=True
        )
        self.out = torch.nn.Linear(16, 3)

    def forward(self, pos):
        edges = pos.unsqueeze(2) - pos.unsqueeze(1)
        sh = o3.spherical_harmonics(self.irreps_sh, edges, normalize=False).mean(2)
        x = self.gate(self.lin(sh))
        return self.out(self.tp(x, sh).mean(1))


model = Network()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)

for step in range(20):
    rotations = o3.rand_matrix(24)
    pos = torch.einsum("zij,zaj->zai", rotations, shapes[labels])
    loss = torch.nn.functional.cross_entropy(model(pos), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(f"{step}: loss {loss.item():.4f}")
