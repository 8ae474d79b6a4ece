# /// script
# dependencies = ["torch", "scipy"]
# [tool.corpus]
# environment = "science"
# field = "Scientific computing"
# source = "https://docs.scipy.org/doc/scipy/tutorial/optimize.html"
# optimizer = false
# ///
"""Scipy's L-BFGS-B fits a network in float64: torch gives the value and the gradient."""

import numpy as np
import torch
import torch.nn as nn
from scipy.optimize import minimize
from torch.nn.utils import parameters_to_vector, vector_to_parameters

torch.manual_seed(0)
x = torch.linspace(-2, 2, 80, dtype=torch.float64).unsqueeze(1)
y = torch.sin(3 * x) * torch.exp(-(x**2))
model = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1)).double()


def fun(theta):
    vector_to_parameters(torch.from_numpy(theta.copy()), model.parameters())
    model.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    grad = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    return loss.item(), grad.numpy().astype(np.float64)


x0 = parameters_to_vector(model.parameters()).detach().numpy().copy()
res = minimize(fun, x0, method="L-BFGS-B", jac=True, options={"maxiter": 60})
print(f"loss {res.fun:.6f} after {res.nit} iterations")
