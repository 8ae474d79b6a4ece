# /// script
# dependencies = ["pyro-ppl"]
# [tool.corpus]
# environment = "science"
# field = "Probabilistic programming"
# source = "https://pyro.ai/examples/vae.html"
# optimizer = true
# ///
"""A small variational autoencoder in pyro: SVI builds one optimizer for each parameter."""

import pyro
import pyro.distributions as dist
import torch
import torch.nn as nn
from pyro.infer import SVI, Trace_ELBO
from pyro.optim import Adam

pyro.set_rng_seed(0)
pyro.clear_param_store()
z_dim, x_dim, hidden = 2, 12, 32
codes = torch.randn(256, z_dim)
train_x = torch.bernoulli(torch.sigmoid(codes @ torch.randn(z_dim, x_dim) * 2))


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(x_dim, hidden), nn.Softplus(), nn.Linear(hidden, 2 * z_dim)
        )
        self.decoder = nn.Sequential(
            nn.Linear(z_dim, hidden), nn.Softplus(), nn.Linear(hidden, x_dim)
        )

    # define the model p(x|z)p(z)
    def model(self, x):
        pyro.module("decoder", self.decoder)
        with pyro.plate("data", x.shape[0]):
            z_loc = x.new_zeros(x.shape[0], z_dim)
            z_scale = x.new_ones(x.shape[0], z_dim)
            z = pyro.sample("latent", dist.Normal(z_loc, z_scale).to_event(1))
            logits = self.decoder(z)
            pyro.sample("obs", dist.Bernoulli(logits=logits).to_event(1), obs=x)

    # define the guide (i.e. variational distribution) q(z|x)
    def guide(self, x):
        pyro.module("encoder", self.encoder)
        with pyro.plate("data", x.shape[0]):
            z_loc, z_log_scale = self.encoder(x).chunk(2, dim=-1)
            pyro.sample("latent", dist.Normal(z_loc, z_log_scale.exp()).to_event(1))


vae = VAE()
svi = SVI(vae.model, vae.guide, Adam({"lr": 5.0e-3}), loss=Trace_ELBO())

for epoch in range(10):
    epoch_loss = 0.0
    for x in train_x.split(64):
        epoch_loss += svi.step(x)
    if epoch % 3 == 0:
        print(f"[epoch {epoch:03d}]  average training loss: {epoch_loss / len(train_x):.4f}")
