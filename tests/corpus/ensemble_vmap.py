# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "science"
# field = "Functional training"
# source = "https://pytorch.org/tutorials/intermediate/ensembling.html"
# optimizer = false
# ///
"""An ensemble trains at once: torch.func stacks the parameters, vmap runs them, SGD is a function."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

torch.manual_seed(0)
x = torch.randn(64, 8)
y = (x[:, 0] * x[:, 1] > 0).long()


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 32)
        self.fc2 = nn.Linear(32, 2)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


models = [MLP() for _ in range(5)]
params, buffers = stack_module_state(models)

# A version of the model without storage: it only says how the parameters are used.
base_model = copy.deepcopy(models[0]).to("meta")


def compute_loss(params, buffers, x, y):
    logits = functional_call(base_model, (params, buffers), (x,))
    return F.cross_entropy(logits, y)


def train_step(params, lr=0.5):
    grads, losses = vmap(grad_and_value(compute_loss), in_dims=(0, 0, None, None))(
        params, buffers, x, y
    )
    return {name: p - lr * grads[name] for name, p in params.items()}, losses


params = {name: p.detach() for name, p in params.items()}
for step in range(100):
    params, losses = train_step(params)
    if step % 20 == 0:
        print(step, [f"{loss:.3f}" for loss in losses.tolist()])
