# /// script
# dependencies = ["fastai"]
# [tool.corpus]
# environment = "vision"
# field = "image classification, fastai"
# source = "https://docs.fast.ai/learner.html"
# optimizer = false
# kept_out = true
# ///
"""A fastai Learner fine-tunes a net of two groups with its own optimizer class."""

import torch
from fastai.basics import *
from fastai.callback.all import *
from torch import nn

set_seed(42, reproducible=False)
xs = torch.rand(64, 3, 24, 24)
ys = torch.arange(64) % 3
for c in range(3):
    xs[ys == c, c] += 0.4
ds = torch.utils.data.TensorDataset(xs, ys)
dls = DataLoaders.from_dsets(ds, ds, bs=16, device="cpu", num_workers=0)

body = nn.Sequential(ConvLayer(3, 8, stride=2), ConvLayer(8, 16, stride=2), PoolFlatten())
head = nn.Sequential(Flatten(), nn.Linear(16, 3))
model = nn.Sequential(body, head)


def splitter(m):
    return [params(m[0]), params(m[1])]


learn = Learner(dls, model, loss_func=nn.CrossEntropyLoss(), opt_func=Adam, splitter=splitter,
                metrics=accuracy)
with learn.no_bar(), learn.no_logging():
    learn.freeze()
    learn.fit(1, lr=1e-2)
    learn.unfreeze()
    learn.fit_one_cycle(3, lr_max=1e-2)
print([round(float(v), 4) for v in learn.recorder.losses[-3:]])
