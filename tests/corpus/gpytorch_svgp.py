# /// script
# dependencies = ["gpytorch"]
# [tool.corpus]
# environment = "science"
# field = "Gaussian processes"
# source = "https://docs.gpytorch.ai/en/latest/examples/04_Variational_and_Approximate_GPs/SVGP_Regression_CUDA.html"
# optimizer = true
# ///
"""A stochastic variational Gaussian process learns inducing points, kernel and noise in batches."""

import gpytorch
import torch
from gpytorch.models import ApproximateGP
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
train_x = torch.rand(400, 2)
train_y = torch.sin(6 * train_x[:, 0]) * train_x[:, 1] + 0.1 * torch.randn(400)
train_loader = DataLoader(TensorDataset(train_x, train_y), batch_size=100, shuffle=True)


class GPModel(ApproximateGP):
    def __init__(self, inducing_points):
        variational_distribution = CholeskyVariationalDistribution(inducing_points.size(0))
        variational_strategy = VariationalStrategy(
            self, inducing_points, variational_distribution, learn_inducing_locations=True
        )
        super().__init__(variational_strategy)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        mean_x = self.mean_module(x)
        covar_x = self.covar_module(x)
        return gpytorch.distributions.MultivariateNormal(mean_x, covar_x)


model = GPModel(inducing_points=train_x[:40, :].clone())
likelihood = gpytorch.likelihoods.GaussianLikelihood()
model.train()
likelihood.train()

optimizer = torch.optim.Adam(
    [
        {"params": model.parameters()},
        {"params": likelihood.parameters()},
    ],
    lr=0.05,
)

# Our loss object. We're using the VariationalELBO
mll = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=train_y.size(0))

for i in range(6):
    for x_batch, y_batch in train_loader:
        optimizer.zero_grad()
        output = model(x_batch)
        loss = -mll(output, y_batch)
        loss.backward()
        optimizer.step()
    print(f"epoch {i}: loss {loss.item():.3f}, noise {likelihood.noise.item():.3f}")
