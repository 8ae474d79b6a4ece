# /// script
# dependencies = ["botorch", "gpytorch"]
# [tool.corpus]
# environment = "science"
# field = "Bayesian optimisation"
# source = "https://botorch.org/docs/getting_started"
# optimizer = false
# ///
"""A loop of Bayesian optimisation: scipy's L-BFGS-B fits the model and maximises the acquisition."""

import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

torch.manual_seed(0)
train_X = torch.rand(10, 2, dtype=torch.double) * 2
Y = 1 - torch.linalg.norm(train_X - 0.5, dim=-1, keepdim=True)
Y = Y + 0.1 * torch.randn_like(Y)  # add some noise
bounds = torch.stack([torch.zeros(2), torch.ones(2)]).to(torch.double)

for iteration in range(3):
    gp = SingleTaskGP(
        train_X=train_X,
        train_Y=Y,
        input_transform=Normalize(d=2),
        outcome_transform=Standardize(m=1),
    )
    mll = ExactMarginalLogLikelihood(gp.likelihood, gp)
    fit_gpytorch_mll(mll)

    logEI = LogExpectedImprovement(model=gp, best_f=Y.max())
    candidate, acq_value = optimize_acqf(logEI, bounds=bounds, q=1, num_restarts=3, raw_samples=16)
    new_Y = 1 - torch.linalg.norm(candidate - 0.5, dim=-1, keepdim=True)
    train_X = torch.cat([train_X, candidate])
    Y = torch.cat([Y, new_Y])
    print(f"{iteration}: {candidate.tolist()} -> {new_Y.item():.3f}")
