# /// script
# dependencies = ["skorch", "scikit-learn"]
# [tool.corpus]
# environment = "science"
# field = "tabular regression"
# source = "https://skorch.readthedocs.io/en/stable/user/quickstart.html"
# optimizer = true
# kept_out = true
# ///
"""A regressor of skorch in a scikit-learn pipeline predicts counts, which are never negative."""

import numpy as np
import torch
from sklearn.datasets import make_regression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetRegressor
from skorch.callbacks import GradientNormClipping, LRScheduler
from torch import nn

torch.manual_seed(0)
X, y = make_regression(200, 8, n_informative=5, random_state=0)
y = np.exp(y / y.std()).clip(0, 8)
X, y = X.astype(np.float32), y.astype(np.float32).reshape(-1, 1)


class RegressorModule(nn.Module):
    def __init__(self, num_units=16, nonlin=nn.ReLU()):
        super().__init__()
        self.dense0 = nn.Linear(8, num_units)
        self.nonlin = nonlin
        self.dense1 = nn.Linear(num_units, num_units)
        self.output = nn.Linear(num_units, 1)
        self.out_nonlin = nn.Softplus()

    def forward(self, X):
        X = self.nonlin(self.dense0(X))
        X = self.nonlin(self.dense1(X))
        return self.out_nonlin(self.output(X))


net = NeuralNetRegressor(
    RegressorModule,
    max_epochs=4,
    lr=0.02,
    batch_size=32,
    optimizer=torch.optim.Adam,
    train_split=None,
    verbose=0,
    callbacks=[
        ("clip", GradientNormClipping(gradient_clip_value=5.0)),
        ("lr", LRScheduler(policy="StepLR", step_size=2, gamma=0.5)),
    ],
)
pipe = Pipeline([("scale", StandardScaler()), ("net", net)])
pipe.fit(X, y)
print("train loss:", [round(v, 4) for v in net.history[:, "train_loss"]])
print("R2:", round(pipe.score(X, y), 3))
