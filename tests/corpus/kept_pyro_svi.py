# /// script
# dependencies = ["pyro-ppl"]
# [tool.corpus]
# environment = "science"
# field = "probabilistic programming"
# source = "https://pyro.ai/examples/bayesian_regression.html"
# optimizer = true
# kept_out = true
# ///
"""Bayesian regression: a hand-written guide is fitted by stochastic variational inference."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.optim import Adam
from torch.distributions import constraints

pyro.set_rng_seed(1)
pyro.clear_param_store()
x = torch.randn(64, 3)
y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.3 + 0.1 * torch.randn(64)


def model(x, y):
    w = pyro.sample("w", dist.Normal(torch.zeros(3), 1.0).to_event(1))
    b = pyro.sample("b", dist.Normal(0.0, 1.0))
    sigma = pyro.sample("sigma", dist.HalfNormal(1.0))
    with pyro.plate("data", len(x)):
        pyro.sample("obs", dist.Normal(x @ w + b, sigma), obs=y)


def guide(x, y):
    w_loc = pyro.param("w_loc", torch.zeros(3))
    w_scale = pyro.param("w_scale", 0.1 * torch.ones(3), constraint=constraints.positive)
    b_loc = pyro.param("b_loc", torch.tensor(0.0))
    sigma_loc = pyro.param("sigma_loc", torch.tensor(0.0))
    pyro.sample("w", dist.Normal(w_loc, w_scale).to_event(1))
    pyro.sample("b", dist.Normal(b_loc, 0.1))
    pyro.sample("sigma", dist.LogNormal(sigma_loc, 0.05))


adam = Adam({"lr": 0.03})
svi = SVI(model, guide, adam, loss=Trace_ELBO())
num_iterations = 100
for j in range(num_iterations):
    loss = svi.step(x, y)
    if j % 25 == 0:
        print("[iteration %04d] loss: %.4f" % (j + 1, loss / len(x)))
print({name: pyro.param(name).detach().tolist() for name in ("w_loc", "b_loc")})
