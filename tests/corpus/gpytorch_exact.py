# /// script
# dependencies = ["gpytorch"]
# [tool.corpus]
# environment = "science"
# field = "Gaussian processes"
# source = "https://docs.gpytorch.ai/en/latest/examples/01_Exact_GPs/Simple_GP_Regression.html"
# optimizer = true
# ///
"""An exact Gaussian process in float64 learns its hyperparameters by the marginal likelihood."""

import math

import gpytorch
import torch

torch.manual_seed(0)
train_x = torch.linspace(0, 1, 100, dtype=torch.float64)
noise = torch.randn(train_x.size(), dtype=torch.float64) * math.sqrt(0.04)
train_y = torch.sin(train_x * (2 * math.pi)) + noise


class ExactGPModel(gpytorch.models.ExactGP):
    def __init__(self, train_x, train_y, likelihood):
        super().__init__(train_x, train_y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        mean_x = self.mean_module(x)
        covar_x = self.covar_module(x)
        return gpytorch.distributions.MultivariateNormal(mean_x, covar_x)


likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = ExactGPModel(train_x, train_y, likelihood).double()

# Find optimal model hyperparameters
model.train()
likelihood.train()

optimizer = torch.optim.Adam(model.parameters(), lr=0.1)  # includes the likelihood's parameters
mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)

for i in range(50):
    optimizer.zero_grad()
    output = model(train_x)
    loss = -mll(output, train_y)
    loss.backward()
    optimizer.step()

print(f"loss {loss.item():.3f}, noise {model.likelihood.noise.item():.3f}")
