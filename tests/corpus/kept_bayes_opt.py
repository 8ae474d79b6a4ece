# /// script
# dependencies = ["botorch", "gpytorch"]
# [tool.corpus]
# environment = "science"
# field = "Bayesian optimisation"
# source = "https://botorch.org/docs/getting_started"
# optimizer = false
# kept_out = true
# ///
"""Bayesian optimisation in float64: the GP is fitted by SciPy, candidates by gradient ascent."""

import warnings

import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from gpytorch.mlls import ExactMarginalLogLikelihood

warnings.filterwarnings("ignore")
torch.manual_seed(0)
bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


def objective(X):
    return -((X - 0.3) ** 2).sum(-1, keepdim=True) + 0.05 * torch.cos(12 * X).sum(-1, keepdim=True)


def optimize_acqf_by_hand(acqf, n_restarts=4, steps=15, lr=0.02):
    X = torch.rand(n_restarts, 1, 2, dtype=torch.double, requires_grad=True)
    for _ in range(steps):
        value = acqf(X)
        (grad,) = torch.autograd.grad(value.sum(), X)
        with torch.no_grad():
            X += lr * grad / (grad.norm(dim=-1, keepdim=True) + 1e-9)
            X.clamp_(bounds[0], bounds[1])
    with torch.no_grad():
        return X[acqf(X).argmax()].clone()


train_X = torch.rand(8, 2, dtype=torch.double)
train_Y = objective(train_X)
for trial in range(3):
    gp = SingleTaskGP(
        train_X, train_Y, input_transform=Normalize(d=2), outcome_transform=Standardize(m=1)
    )
    mll = ExactMarginalLogLikelihood(gp.likelihood, gp)
    fit_gpytorch_mll(mll)
    EI = LogExpectedImprovement(model=gp, best_f=train_Y.max())
    candidate = optimize_acqf_by_hand(EI)
    train_X = torch.cat([train_X, candidate])
    train_Y = torch.cat([train_Y, objective(candidate)])
    print(trial, candidate.tolist(), round(train_Y.max().item(), 5))
