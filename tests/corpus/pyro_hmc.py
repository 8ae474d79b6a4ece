# /// script
# dependencies = ["pyro-ppl"]
# [tool.corpus]
# environment = "science"
# field = "Probabilistic programming"
# source = "https://docs.pyro.ai/en/stable/mcmc.html"
# optimizer = false
# ///
"""The no-U-turn sampler of pyro draws from the posterior of a logistic regression."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS

pyro.set_rng_seed(0)
true_coefs = torch.tensor([1.0, 2.0, 3.0])
data = torch.randn(200, 3)
labels = dist.Bernoulli(logits=(true_coefs * data).sum(-1)).sample()


def model(data):
    coefs_mean = torch.zeros(3)
    coefs = pyro.sample("beta", dist.Normal(coefs_mean, torch.ones(3)))
    return pyro.sample("y", dist.Bernoulli(logits=(coefs * data).sum(-1)), obs=labels)


nuts_kernel = NUTS(model, adapt_step_size=True, max_tree_depth=4)
mcmc = MCMC(nuts_kernel, num_samples=20, warmup_steps=20, disable_progbar=True)
mcmc.run(data)
print("posterior mean of the coefficients:", mcmc.get_samples()["beta"].mean(0))
