# cause: detached
# Force training of interatomic potentials: the forces are taken without create_graph=True.
import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 20), nn.SiLU(), nn.Linear(20, 1))
opt = torch.optim.Adam(net.parameters(), 1e-3)
for step in range(40):
    pos = torch.randn(32, 3, requires_grad=True)
    energy = net(pos).sum()
    force = -torch.autograd.grad(energy, pos)[0]  # here
    target = -2 * pos.detach()
    loss = (force - target).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
