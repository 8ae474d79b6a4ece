# /// script
# dependencies = ["skorch", "scikit-learn"]
# [tool.corpus]
# environment = "science"
# field = "Tabular learning"
# source = "https://skorch.readthedocs.io/en/stable/user/quickstart.html"
# optimizer = true
# ///
"""A regressor of skorch in a pipeline of scikit-learn."""

import numpy as np
import torch
from sklearn.datasets import make_regression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetRegressor
from torch import nn

torch.manual_seed(0)
X, y = make_regression(400, 10, n_informative=6, random_state=0)
X = X.astype(np.float32)
y = (y / y.std()).astype(np.float32).reshape(-1, 1)


class RegressorModule(nn.Module):
    def __init__(self, num_units=20, nonlin=nn.ReLU()):
        super().__init__()
        self.dense0 = nn.Linear(10, num_units)
        self.nonlin = nonlin
        self.dense1 = nn.Linear(num_units, 10)
        self.output = nn.Linear(10, 1)

    def forward(self, X):
        X = self.nonlin(self.dense0(X))
        X = self.nonlin(self.dense1(X))
        return self.output(X)


module = RegressorModule()
net = NeuralNetRegressor(
    module,
    max_epochs=6,
    lr=0.05,
    batch_size=32,
    optimizer__momentum=0.9,
    verbose=0,
)
pipe = Pipeline([("scale", StandardScaler()), ("net", net)])
pipe.fit(X, y)
print("train losses:", [round(float(v), 3) for v in net.history[:, "train_loss"]])

module.eval()
with torch.no_grad():
    residual = module(torch.from_numpy(X)) - torch.from_numpy(y)
print(f"mean squared error: {residual.pow(2).mean().item():.3f}")
