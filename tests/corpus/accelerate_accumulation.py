# /// script
# dependencies = ["accelerate"]
# [tool.corpus]
# environment = "language"
# field = "gradient accumulation"
# source = "https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation"
# optimizer = true
# ///
"""Accelerate accumulates the gradients of two batches before each optimizer step."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

set_seed(42)
x = torch.linspace(-1.0, 1.0, 128).unsqueeze(1)
y = 2 * x + 3 * x**2
dataloader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
model = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.GELU(), torch.nn.Linear(32, 1))
criterion = torch.nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=20, gamma=0.5)

accelerator = Accelerator(gradient_accumulation_steps=2, cpu=True)
model, optimizer, dataloader, scheduler = accelerator.prepare(
    model, optimizer, dataloader, scheduler
)
model.train()
for epoch in range(2):
    for batch in dataloader:
        with accelerator.accumulate(model):
            inputs, targets = batch
            outputs = model(inputs)
            loss = criterion(outputs, targets)
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
