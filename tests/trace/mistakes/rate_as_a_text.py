# cause: exception
# says: `lr='4e-3'`
"""The learning rate comes from a file of settings, as a text."""

import torch
from torch import nn

settings = {"optimizer": {"lr": "4e-3"}}
model = nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters(), **settings["optimizer"])  # here
