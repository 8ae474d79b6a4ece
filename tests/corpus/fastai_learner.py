# /// script
# dependencies = ["fastai"]
# [tool.corpus]
# environment = "vision"
# field = "fastai"
# source = "https://docs.fast.ai/learner.html"
# optimizer = false
# ///
"""A Learner of fastai with its own optimizer class: one-cycle training and mixed layers."""

import torch
from fastai.basics import *
from fastai.callback.all import *
from torch import nn
from torch.utils.data import TensorDataset

set_seed(0)
x = torch.randn(320, 12)
y = (x[:, 0] + x[:, 1] * x[:, 2] > 0).long()
train = DataLoader(TensorDataset(x[:256], y[:256]), batch_size=32, shuffle=True)
valid = DataLoader(TensorDataset(x[256:], y[256:]), batch_size=64)
dls = DataLoaders(train, valid)

model = nn.Sequential(
    nn.Linear(12, 32),
    nn.BatchNorm1d(32),
    nn.ReLU(),
    nn.Linear(32, 2),
)
learn = Learner(dls, model, loss_func=CrossEntropyLossFlat(), metrics=accuracy)
with learn.no_bar(), learn.no_logging():
    learn.fit_one_cycle(4, lr_max=1e-2)
print("losses and accuracy:", [[round(float(v), 3) for v in row] for row in learn.recorder.values])
