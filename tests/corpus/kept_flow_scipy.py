# /// script
# dependencies = ["zuko", "scipy"]
# [tool.corpus]
# environment = "science"
# field = "density estimation"
# source = "https://gist.github.com/arthurmensch/c55ac413868550f89225a0b9212aa4cd"
# optimizer = false
# kept_out = true
# ///
"""A masked autoregressive flow of zuko in float64 is fitted by SciPy's L-BFGS-B."""

import numpy as np
import torch
import zuko
from scipy.optimize import minimize
from torch.nn.utils import parameters_to_vector, vector_to_parameters

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
theta = torch.rand(128) * 3.14
samples = torch.stack([theta.cos(), theta.sin()], dim=1) + 0.1 * torch.randn(128, 2)

flow = zuko.flows.MAF(features=2, transforms=2, hidden_features=(16, 16))


def closure(weights):
    vector_to_parameters(torch.from_numpy(weights), flow.parameters())
    for p in flow.parameters():
        p.grad = None
    loss = -flow().log_prob(samples).mean()
    loss.backward()
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in flow.parameters()]
    return loss.item(), torch.cat([g.reshape(-1) for g in grads]).numpy()


start = parameters_to_vector(flow.parameters()).detach().numpy().astype(np.float64)
result = minimize(closure, start, jac=True, method="L-BFGS-B", options={"maxiter": 25})
vector_to_parameters(torch.from_numpy(result.x), flow.parameters())
with torch.no_grad():
    print(result.nit, "iterations", -flow().log_prob(samples).mean().item())
