# cause: never-stepped
# library
# says: or it held only where accelerator.accumulate() skips the step
import torch
from accelerate import Accelerator
from torch import nn

accumulate = 4
accelerator = Accelerator(gradient_accumulation_steps=accumulate, cpu=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = accelerator.prepare(model, optimizer)
for index in range(24):
    with accelerator.accumulate(model):
        accelerator.backward(model(torch.randn(8, 4)).square().mean())
        if index % accumulate == 0:  # here
            optimizer.step()  # here
            optimizer.zero_grad()
