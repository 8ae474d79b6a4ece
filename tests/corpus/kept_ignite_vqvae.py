# /// script
# dependencies = ["pytorch-ignite"]
# [tool.corpus]
# environment = "vision"
# field = "discrete autoencoders"
# source = "https://github.com/zalandoresearch/pytorch-vq-vae"
# optimizer = true
# kept_out = true
# ///
"""A VQ-VAE is trained by an ignite engine; a straight-through Function copies the gradient."""

import torch
import torch.nn.functional as F
from ignite.engine import Engine, Events
from ignite.metrics import RunningAverage
from torch import nn
from torch.autograd import Function


class StraightThrough(Function):
    @staticmethod
    def forward(ctx, z_e, z_q):
        return z_q.clone()

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None


class VQVAE(nn.Module):
    def __init__(self, dim=16, K=32):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, dim, 4, 2, 1), nn.ReLU(), nn.Conv2d(dim, dim, 4, 2, 1)
        )
        self.codebook = nn.Embedding(K, dim)
        self.codebook.weight.data.uniform_(-0.1, 0.1)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(dim, dim, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(dim, 1, 4, 2, 1)
        )

    def forward(self, x):
        z_e = self.encoder(x).permute(0, 2, 3, 1)
        indices = torch.cdist(z_e.flatten(0, 2), self.codebook.weight).argmin(1)
        z_q = self.codebook(indices).view_as(z_e)
        z = StraightThrough.apply(z_e, z_q)
        return self.decoder(z.permute(0, 3, 1, 2)), z_e, z_q


torch.manual_seed(0)
model = VQVAE()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
data = torch.rand(64, 1, 4, 4).repeat_interleave(4, 2).repeat_interleave(4, 3)


def train_step(engine, x):
    model.train()
    opt.zero_grad()
    x_tilde, z_e, z_q = model(x)
    loss_recons = F.mse_loss(x_tilde, x)
    loss_vq = F.mse_loss(z_q, z_e.detach())
    loss_commit = F.mse_loss(z_e, z_q.detach())
    loss = loss_recons + loss_vq + 0.25 * loss_commit
    loss.backward()
    opt.step()
    return loss_recons.item()


trainer = Engine(train_step)
RunningAverage(output_transform=lambda out: out).attach(trainer, "recons")


@trainer.on(Events.EPOCH_COMPLETED)
def log(engine):
    print(f"epoch {engine.state.epoch}: {engine.state.metrics['recons']:.4f}")


trainer.run(data.split(16), max_epochs=4)
